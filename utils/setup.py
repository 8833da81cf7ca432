"""What the set-up cell of a notebook asks for: a package that is missing on Colab is installed there, once."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
REPLACED = ("transformers", "huggingface_hub")  # by other versions, when `adapters` is installed
CELL = "the set-up cell, the first code cell of the notebook"


def ready(*packages: str) -> None:
    """Make sure that these packages can be imported: on Colab those that are missing are installed.

    They come in the versions of constraints.txt, and whatever else is there stays as it is, unless they refuse it:
    with all of constraints.txt, packages that the running session has imported would be replaced.

    Raises:
        RuntimeError: one is missing, and this is not Colab, or it could not be installed; says what to do.
    """
    missing = [name for name in packages if not _there(name)]
    if not missing:
        return
    names = " and ".join(missing)
    if "google.colab" not in sys.modules:
        where = f"`pip install -r requirements.txt` in {CONSTRAINTS.parent}"
        raise RuntimeError(f"{names} cannot be found: run {where}, then this cell again")
    print(f"Installing {names}, which takes about half a minute, once a session ...", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", *map(pinned, missing)]
    in_use = [name for name in REPLACED if name in sys.modules]
    ended = subprocess.run(command, capture_output=True, text=True)
    importlib.invalidate_caches()
    still = [name for name in missing if not _there(name)]
    if ended.returncode or still:
        why = (ended.stderr.strip() or "pip says nothing").splitlines()[-1]
        raise RuntimeError(f"{names} could not be installed ({why}): run this cell again in a minute")
    if in_use:
        print(f"Restart the session (menu Runtime), and run the notebook from its top: {in_use[0]} was in use already.")


def _there(package: str) -> bool:
    """Whether it can be imported. Once imported, `adapters` has no spec, on which `find_spec` raises ValueError."""
    return package in sys.modules or importlib.util.find_spec(package) is not None


def pinned(package: str) -> str:
    """The package with its version in constraints.txt, as pip wants it.

    Raises:
        RuntimeError: it has none there.
    """
    found = re.search(rf"^{re.escape(package)}==\S+$", CONSTRAINTS.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{CONSTRAINTS} states no version of {package}: fetch the course once more")
    return found[0]
