"""What users of a hub do in a test, each as an account of its own: commands of nbgrader, and Python.

    python hub_users.py STEPS.json

Every step is a list: the number of the account, the folder, and the words of an nbgrader command; or, in their place,
a piece of Python, in a list of one. What a step prints is printed. The first one that fails ends the process.
Libraries are imported once, before the steps.
"""

import json
import os
import sys
import traceback
from pathlib import Path


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
