"""Runs a command as an ordinary user of this machine, when the tests are root's.

What root alone may enter on the way to Python and to the course is covered, for that command only, by
folders that let everybody pass.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from autograder.course import ROOT

UID = 54321
NEEDED = (ROOT, Path(sys.prefix), Path(sys.base_prefix))
COVER = """
set -e
while [ "$1" != -- ]; do
    closed=$1 open=$2; shift 2
    kept=$(mktemp -d); mount --bind "$open" "$kept"
    mount -t tmpfs -o mode=755 none "$closed"; mkdir -p "$open"
    mount --bind "$kept" "$open"; umount "$kept"; rmdir "$kept"
done
shift
"""
BECOME = f'exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --bounding-set=-all -- "$@"\n'


def run(command: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess:
    """Run it there, with an environment of its own; `folder` becomes its own folder."""
    os.chown(folder, UID, UID)
    environment = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), "USER": "ordinary"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    return _private(BECOME, command, environment, seconds)


def with_accounts(
    accounts: dict[str, int], command: list[str], folder: Path, seconds: float
) -> subprocess.CompletedProcess:
    """Run it as root where these accounts exist, for this command only; each has a home of its name in `folder`."""
    lines = [f"{name}:x:{uid}:{uid}::{folder / name}:/bin/sh\n" for name, uid in accounts.items()]
    passwd = folder / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text() + "".join(lines))
    passwd.chmod(0o644)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "HOME": str(folder), "LANG": "C.UTF-8"}
    become = f'mount --bind {shlex.quote(str(passwd))} /etc/passwd\nexec "$@"\n'
    return _private(become, command, environment | {"PYTHONDONTWRITEBYTECODE": "1"}, seconds)


def _private(
    become: str, command: list[str], environment: dict[str, str], seconds: float
) -> subprocess.CompletedProcess:
    closed = []
    for needed in dict.fromkeys(path.resolve() for path in NEEDED):
        shut = next((one for one in reversed(needed.parents) if not one.stat().st_mode & 0o001), None)
        closed += [str(shut), str(needed)] if shut else []
    private = ["unshare", "--mount", "--propagation", "private", "sh", "-c", COVER + become, "sh", *closed, "--"]
    return subprocess.run(
        [*private, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
    )
