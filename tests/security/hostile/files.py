# Files beside the notebook, and files that the kernel writes: nothing of them is taken, nothing of them stays.

# %% name="brings modules along" attack="modules that shadow the library's" where="zip" told="not notebooks and are left out: .* .py"
for name in ("torch.py", "utils/grading/check.py", "utils/__init__.py", "sitecustomize.py", "ipykernel/__init__.py"):
    add(name, "import os; os.system('touch /tmp/TOKEN')\n")

# %% name="writes modules that shadow" attack="modules that shadow the library's" shows="TRICK written"
import os, sys

for folder in (".", os.environ["HOME"], "/tmp"):
    for name in ("utils", "torch", "sitecustomize", "usercustomize", "msgpack"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        with open(f"{folder}/{name}/__init__.py", "w") as file:
            file.write("raise SystemExit('TOKEN')\n")
print("TRICK written")

# %% name="leaves start-up files" attack="start-up files that survive into the next kernel" where="each" shows="SURVIVED: []" told="kernel restarted" twin=false
import os, signal

places = ("/tmp/ipython/profile_default/startup", "/hand_in", "/tmp")
print("SURVIVED:", [name for name in places if os.path.exists(f"{name}/00.py")])
for folder in places:
    os.makedirs(folder, exist_ok=True)
    for name in ("00.py", "ipython_config.py", ".pythonrc"):
        open(f"{folder}/{name}", "w").write("print('SURVIVED')")
if NUMBER == 0:
    os.kill(os.getpid(), signal.SIGKILL)

# %% name="brings start-up files along" attack="start-up files that survive into the next kernel" where="zip" told="not notebooks and are left out: .* .py"
for name in (".ipython/profile_default/startup/00.py", "nbgrader_config.py", "jupyter_config.py", "conftest.py"):
    add(name, "import os; os.system('touch /tmp/TOKEN')\n")

# %% name="links to the gradebook" attack="symlinks that copy the gradebook into feedback" where="zip" told="a link"
for name, target in (("BOOK.html", "TREE/gradebook.db"), ("link.ipynb", "../../gradebook.db"), ("all", "TREE")):
    add(name, target, mode=0o120777)

# %% name="links inside its sandbox" attack="symlinks that copy the gradebook into feedback" shows="OPENED: []"
import os

opened = []
for target in ("TREE/gradebook.db", "PROJECT/solutions", "PROJECT/course.toml", "/etc/shadow", "/root/.ssh"):
    for make in (os.symlink, os.link):
        try:
            make(target, "link")
            opened.append(os.listdir("link") if os.path.isdir("link") else open("link").read())
        except OSError:
            pass
        finally:
            if os.path.lexists("link"):
                os.remove("link")
print("OPENED:", opened)

# %% name="bursts" attack="zip bombs" where="zip" told="larger than" replaces=true
add("BOOK.ipynb", b"{" + b" " * 50 * 2**20)

# %% name="bursts many times" attack="zip bombs" where="zip" told="a student's zip of more than|a second" own=true twin=false
for number in range(60):
    add(f"{number}/BOOK.ipynb", b" " * 2**20 + str(number).encode())

# %% name="bursts in layers" attack="zip bombs" where="zip" told="not a notebook" own=true
inner = packed({"BOOK.ipynb": b" " * 10**6})
for _ in range(5):
    inner = packed({"deeper.zip": inner})
add("deeper.zip", inner)

# %% name="packs a thousand files" attack="zip bombs" where="zip" told="a zip of" own=true
for number in range(1100):
    add(f"{number}.ipynb", b"{}")

# %% name="leads out of the zip" attack="files beside the notebook" where="zip" told="leads out"
for name in ("../NEIGHBOUR/BOOK.ipynb", "../../../TOKEN.ipynb", "..\\..\\TOKEN.ipynb"):
    add(name, file)
for name in ("/tmp/TOKEN.ipynb", "C:\\TOKEN.ipynb"):
    add(name, file, raw=True)

# %% name="hands in for a neighbour" attack="a neighbour's name" where="zip" told="a second" own=true
for name in ("NEIGHBOUR/BOOK.ipynb", "submissions/NEIGHBOUR/BOOK.ipynb", "NEIGHBOUR_1_2_BOOK.ipynb"):
    add(name, file)

# %% name="calls its folder like a neighbour" attack="a neighbour's name" where="zip"
add("NEIGHBOUR/BOOK.ipynb", file)
add("NEIGHBOUR_1_assignsubmission_file_/BOOK.ipynb", file)

# %% name="states an earlier time" attack="forged time stamps" where="zip" own=true
add("BOOK.ipynb", file, when=(1999, 1, 1, 0, 0, 0))
add("timestamp.txt", "1999-01-01 00:00:00 UTC")

# %% name="states a time in its name" attack="forged time stamps" where="zip"
add("x_NEIGHBOUR_attempt_1999-01-01-00-00-00_BOOK.ipynb", file)

# %% name="states no possible time" attack="forged time stamps" where="zip" told="no valid time" raw=true
add("x_mallory_attempt_2026-99-99-99-99-99_BOOK.ipynb", file, raw=True)

# %% name="brings a time stamp along" attack="forged time stamps" where="zip"
add("timestamp.txt", "1999-01-01 00:00:00 UTC")
add("BOOK/timestamp.txt", "1999-01-01 00:00:00 UTC")

# %% name="turns the clock" attack="forged time stamps" shows="TURNED: []"
import ctypes, os, time

turned = []
try:
    time.clock_settime(time.CLOCK_REALTIME, 0)
    turned.append("clock")
except OSError:
    pass
for path in ("PROJECT/utils/grading/check.py", "PROJECT/data", "PROJECT/utils", os.__file__, "/etc/passwd"):
    try:
        os.utime(path, (0, 0))
        turned.append(path)
    except OSError:
        pass
print("TURNED:", turned)

# %% name="writes outside its sandbox" attack="files outside the sandbox" shows="WROTE: []"
import os

wrote = []
for path in ("PROJECT/utils/TOKEN", "PROJECT/data/TOKEN", "/etc/TOKEN", "/usr/lib/TOKEN", "/dev/TOKEN", "/dev/shm/../TOKEN",
             "/sys/TOKEN", "/proc/sys/kernel/hostname", "/proc/1/root/etc/TOKEN", os.path.dirname(os.__file__) + "/TOKEN"):  # fmt: skip
    try:
        with open(path, "w") as file:
            file.write("TOKEN")
        wrote.append(path)
    except OSError:
        pass
for path in ("PROJECT/utils/grading/check.py", "/bin/sh", os.__file__):
    for change in (os.remove, lambda path: os.chmod(path, 0o777), lambda path: os.rename(path, path + "x")):
        try:
            change(path)
            wrote.append(path)
        except OSError:
            pass
print("WROTE:", wrote)

# %% name="forges its own record" attack="files outside the sandbox" shows="TRICK written"
import json, os

for folder in ("verdicts", "autograded", "feedback", "submitted", "."):
    os.makedirs(f"/hand_in/{folder}/STUDENT", exist_ok=True)
    json.dump({"status": "graded", "score": 99}, open(f"/hand_in/{folder}/STUDENT/BOOK.json", "w"))
print("TRICK written")

# %% name="mounts the disk" attack="files outside the sandbox" shows="DONE: []"
import ctypes, os

libc, done = ctypes.CDLL(None, use_errno=True), []
for source, kind in (
    (b"/dev/sda", b"ext4"),
    (b"/dev/vda", b"ext4"),
    (b"proc", b"proc"),
    (b"none", b"tmpfs"),
    (b"none", b"overlay"),
):
    if libc.mount(source, b"/tmp", kind, 0, None) == 0:
        done.append(kind)
for flags in (0x10000000, 0x10020000, 0x20000, 0x20000000, 0x40000000):
    if libc.unshare(flags) == 0:
        done.append(flags)
for number in range(8):
    try:
        os.mknod(f"device{number}", 0o60666, os.makedev(254, number))
        done.append(number)
    except OSError:
        pass
print("DONE:", done)

# %% name="has a name that is too long" attack="files beside the notebook" where="zip" raw=true
add("\N{MATHEMATICAL SCRIPT CAPITAL A}" * 200 + "/BOOK.ipynb", file, raw=True)
