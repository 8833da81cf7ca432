"""The system calls that no code in a room may make: a seccomp filter, as a program for the kernel.

A notebook needs files, threads, processes and local sockets. All else is surface for attacks on the
system itself, or memory that no limit of the room counts. What is refused fails with an error
number, as if the machine did not have it, so that libraries take their other way.
"""

import ctypes
import errno
import io
import os
import socket

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
UNKNOWN = -1  # what libseccomp says of a name that it is too old to know
LIBC = ctypes.CDLL(None, use_errno=True)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into somebody's terminal
THIS_PERSONALITY = 0xFFFFFFFF  # personality(2): only asks
# clone(2): CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
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
    *("memfd_create", "memfd_secret", "shmget", "msgget", "mq_open"),
)


class _Program(ctypes.Structure):
    """`struct sock_fprog` of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def program() -> bytes:
    """The filter as BPF instructions; foreign architectures (32-bit calls) end the process.

    Raises:
        RuntimeError: libseccomp is not installed.
    """
    import pyseccomp as seccomp

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    # Not one thread of it, which is the default: the others would hang until their time is over.
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for name in REFUSED:
        if seccomp.resolve_syscall(seccomp.system_arch(), name) != UNKNOWN:
            rules.add_rule(refuse, name)
    for flag in NAMESPACES:
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # Its flags lie in memory, which no filter reads. glibc goes back to clone.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(refuse, "personality", seccomp.Arg(0, seccomp.NE, THIS_PERSONALITY))
    for request in (TIOCSTI, TIOCLINUX):
        rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    unheard = seccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(max(FAMILIES))) - set(FAMILIES):
        rules.add_rule(unheard, "socket", seccomp.Arg(0, seccomp.MASKED_EQ, 0xFFFFFFFF, family))
    rules.add_rule(unheard, "socket", seccomp.Arg(0, seccomp.GT, max(FAMILIES)))
    with open(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0, io.SEEK_SET)
        return file.read()


def refuse(instructions: bytes) -> None:
    """Refuse those calls to this process and all that it will start, for ever. Needs no_new_privs.

    Raises:
        OSError: the kernel does not take the filter.
    """
    filter_ = _Program(len(instructions) // 8, instructions)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0):
        raise OSError(ctypes.get_errno(), "cannot install the seccomp filter")
