"""What users of a hub do in a test, each as an account of its own: commands of nbgrader, and Python.

    python hub_users.py STEPS.json

Every step is a list: the number of the account, the folder, and the words of an nbgrader command; or, in their place,
a piece of Python, in a list of one. What a step prints is printed. The first one that fails ends the process.
Libraries are imported once, before the steps.
"""

import contextlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path


@contextlib.contextmanager
def hub(users):
    """A folder with homes for all users, numbers by name, and an exchange that all may write to."""
    with tempfile.TemporaryDirectory(prefix="hub-") as made:  # pytest's own folders are for root alone
        folder = Path(made)
        folder.chmod(0o755)
        for name, uid in users.items():
            (folder / name).mkdir(mode=0o700)
            os.chown(folder / name, uid, uid)
        (folder / "exchange").mkdir()
        (folder / "exchange").chmod(0o1777)
        yield folder


def do(users, folder, steps):
    """Have users do something; what was printed. A step is a name (or "" for the instructor), a folder and words."""
    import ordinary_user

    numbered = [(users.get(name, 0), str(place), [str(word) for word in words]) for name, place, words in steps]
    (folder / "steps.json").write_text(json.dumps(numbered))
    ran = ordinary_user.with_accounts(users, [sys.executable, __file__, str(folder / "steps.json")], folder, 300)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    return ran.stdout + ran.stderr


def step(uid: int, folder: str, words: list[str]) -> None:
    """Do it, in a child of its own."""
    child = os.fork()
    if not child:
        status = 1
        try:
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                os.environ["HOME"] = __import__("pwd").getpwuid(uid).pw_dir
            os.chdir(folder)
            if len(words) == 1:
                exec(words[0], {"__name__": "__main__"})
            else:
                from nbgrader.apps import NbGraderApp

                NbGraderApp.launch_instance(argv=words)
            status = 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(f"failed: {words}")


if __name__ == "__main__":
    for one in json.loads(Path(sys.argv[1]).read_text()):
        step(*one)
