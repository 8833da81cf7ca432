"""The system calls that no code in a sandbox may make: a seccomp filter, as a program for the kernel.

A notebook needs files, threads, processes and local sockets. All else is surface for attacks on the
system itself, or memory that no limit of the sandbox counts. What is refused fails with an error
number, as if the machine did not have it, so that libraries take their other way.
"""

import ctypes
import errno
import io
import mmap
import os
import resource
import socket
import struct
from functools import cache

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
UNKNOWN = -1  # what libseccomp says of a name that it is too old to know
LIBC = ctypes.CDLL(None, use_errno=True)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into somebody's terminal
THIS_PERSONALITY = 0xFFFFFFFF  # personality(2): only asks
# clone(2): CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
# clone(2): a new process of this flag is a child of its parent's parent, which for a kernel is a process outside the
# sandbox. Nobody there waits for it, and a sandbox ends only when each of its processes was waited for.
CLONE_PARENT = 0x8000
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)  # those that a network namespace cuts
REFUSED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    # namespaces, mounts, files by number
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "open_by_handle_at", "name_to_handle_at", "fanotify_init"),
    # the kernel's keys, programs, counters, rings
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    # the machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff"),
    *("syslog", "acct", "quotactl", "quotactl_fd", "vhangup", "iopl", "ioperm", "modify_ldt", "lookup_dcookie"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "uselib"),
    # memory that belongs to no process, so that nobody counts it
    *("memfd_create", "memfd_secret", "shmget", "msgget", "semget", "mq_open", "vmsplice"),
    # instances of which a user has few, in the sandbox and outside together
    *("inotify_init", "inotify_init1"),
)
# mmap(2), MAP_SHARED | MAP_ANONYMOUS: what such a mapping holds stays when its process no longer shows it as resident.
SHARED_ANONYMOUS = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
# Numbers of newer calls, the same on every machine: for a libseccomp that is too old to know them by name.
NUMBERS = {
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429},
    **{"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438},
    **{"process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447},
}
NEWEST = 450  # the last call of Linux 5.17. Nobody has judged later ones: they are not there, and libraries do without
FIRST = 1  # the process that holds the sandbox; not the submission's
SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "prlimit64")
OF_A_USER = {"setpriority": 2, "ioprio_set": 3}  # what says "all processes of a user"; the first is among them
LOW = 0xFFFFFFFF  # the bits of an argument that the kernel reads
PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
NETLINK_ROUTE = 0
KEYCTL_JOIN_SESSION_KEYRING = 1
LOAD, JUMP_FROM, RETURN = 0x20, 0x35, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JGE, BPF_RET
SECCOMP_RET_ERRNO = 0x00050000


class _Program(ctypes.Structure):
    """`struct sock_fprog` of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def number(name: str) -> int:
    """The number of a system call on this machine; `UNKNOWN` if it has none."""
    import pyseccomp as seccomp

    resolved: int = seccomp.resolve_syscall(seccomp.system_arch(), name)
    return NUMBERS.get(name, UNKNOWN) if resolved == UNKNOWN else resolved


@cache
def program(gpu: bool = False) -> bytes:
    """The filter as BPF instructions; foreign architectures (32-bit calls) end the process.

    With `gpu`, shared anonymous memory is not refused: CUDA may need it for memory that GPU and processor share.

    Raises:
        RuntimeError: libseccomp is not installed.
    """
    import pyseccomp as seccomp

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    # Not one thread of it, which is the default: the others would hang until their time is over.
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for name in REFUSED:
        if number(name) != UNKNOWN:
            rules.add_rule(refuse, number(name))
    if not gpu:
        rules.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, SHARED_ANONYMOUS, SHARED_ANONYMOUS))
    for flag in (*NAMESPACES, CLONE_PARENT):
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # Its flags lie in memory, which no filter reads. glibc goes back to clone.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number("clone3"))
    rules.add_rule(refuse, "personality", seccomp.Arg(0, seccomp.NE, THIS_PERSONALITY))
    for request in (TIOCSTI, TIOCLINUX):
        rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, LOW, request))
    # The first process has our user's number too: starving it would delay the end of the sandbox.
    for name in SCHEDULING:
        rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.MASKED_EQ, LOW, FIRST))
    for name, user in OF_A_USER.items():
        rules.add_rule(refuse, name, seccomp.Arg(1, seccomp.MASKED_EQ, LOW, FIRST))
        rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.MASKED_EQ, LOW, user))
    # 1 is set: with 0, a host whose cores go to a program would start that program, outside, for every crash.
    rules.add_rule(refuse, "setrlimit", seccomp.Arg(0, seccomp.MASKED_EQ, LOW, resource.RLIMIT_CORE))
    core = seccomp.Arg(1, seccomp.MASKED_EQ, LOW, resource.RLIMIT_CORE)
    rules.add_rule(refuse, "prlimit64", core, seccomp.Arg(2, seccomp.NE, 0))
    unheard = seccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(max(FAMILIES))) - set(FAMILIES):
        rules.add_rule(unheard, "socket", seccomp.Arg(0, seccomp.MASKED_EQ, LOW, family))
    rules.add_rule(unheard, "socket", seccomp.Arg(0, seccomp.GT, max(FAMILIES)))
    unspoken = seccomp.ERRNO(errno.EPROTONOSUPPORT)  # of others the kernel would load a module
    netlink = seccomp.Arg(0, seccomp.MASKED_EQ, LOW, socket.AF_NETLINK)
    rules.add_rule(unspoken, "socket", netlink, seccomp.Arg(2, seccomp.NE, NETLINK_ROUTE))
    for protocol in set(range(max(PROTOCOLS))) - set(PROTOCOLS):
        rules.add_rule(unspoken, "socket", seccomp.Arg(2, seccomp.MASKED_EQ, LOW, protocol))
    rules.add_rule(unspoken, "socket", seccomp.Arg(2, seccomp.GT, max(PROTOCOLS)))
    with open(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0, io.SEEK_SET)
        return _only_known() + file.read()


def _only_known() -> bytes:
    """Instructions before the others, which a list of names cannot say: later calls than `NEWEST` are not there.

    Load the number; from the first unknown one on go to the next instruction, else past it.
    """
    instructions = (LOAD, 0, 0, 0), (JUMP_FROM, 0, 1, NEWEST + 1), (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.ENOSYS)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def join_own_keyring() -> None:
    """Leave the instructor's session keyring for an empty one. It holds for this thread and what it will start.

    Raises:
        OSError: the kernel has keyrings and gives us none.
    """
    joined = LIBC.syscall(number("keyctl"), KEYCTL_JOIN_SESSION_KEYRING, None) != UNKNOWN
    if not joined and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):  # there are none here, or not for us
        raise OSError(ctypes.get_errno(), "cannot make a session keyring")


def refuse(instructions: bytes) -> None:
    """Refuse those calls to this process and all that it will start, for ever. Needs no_new_privs.

    Raises:
        OSError: the kernel does not take the filter.
    """
    filter_ = _Program(len(instructions) // 8, instructions)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0):
        raise OSError(ctypes.get_errno(), "cannot install the seccomp filter")
