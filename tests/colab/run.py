"""Every notebook whole, as on Colab: in Colab's versions, from nothing but its file.

    .venv/bin/python tests/colab/run.py [NOTEBOOK ...] [--python python3.13] [--here]

The environment of requirements.txt, beside this file, is made in .colab/ once (some GB). Each notebook gets a copy of
it, which does not have `adapters`, and an empty folder with its file; the student repository is a local one, which
git takes for the real one. With solutions in, at size smoke, every cell must run, every check must pass, and `pack`
must download what is to be handed in. --here does the same in a copy of this project's own environment, without its
`adapters`: the short form, in CI.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CELL_SECONDS = 600
LACKS = ("adapters", "attention_graded")  # of this project's environment, what Colab does not have


def main() -> int:
    """Run what the command line asks for; 0 if all went well."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="by number; all if none is given")
    reader.add_argument("--python", default="python3.13", help="the interpreter for the environment (%(default)s)")
    reader.add_argument("--here", action="store_true", help="in a copy of this project's environment instead")
    asked = reader.parse_args()
    from autograder import course

    entries = course.load().select(asked.notebooks or None)
    base = Path(sys.prefix) if asked.here else environment(asked.python)
    failed = []
    with tempfile.TemporaryDirectory(prefix="colab-") as made, repository(Path(made)) as git:
        for entry in entries:
            started = time.monotonic()
            try:
                said = session(entry, base, Path(made, entry.name), git)
            except (AssertionError, nbclient.exceptions.CellExecutionError) as problem:
                failed.append(entry.name)
                said = f"FAILED\n{problem}"
            print(f"{entry.name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{len(entries) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def environment(python: str) -> Path:
    """The environment of requirements.txt, made by `python` unless it is there."""
    target, wanted = ROOT / ".colab", (HERE / "requirements.txt").read_text()
    stamp = target / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run([python, "-m", "venv", target], check=True)
        print("Installing Colab's versions: some GB, minutes ...", flush=True)
        pip = [target / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return target


@contextmanager
def repository(folder: Path) -> Iterator[dict[str, str]]:
    """A student repository below `folder`; the variables by which git takes it for the one of course.toml."""
    from autograder import course, release

    known, target = course.load(), folder / "repository"
    release.release(known, target)
    git = ["git", "-C", target, "-c", "user.name=course", "-c", "user.email=course@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Release"]):
        subprocess.run([*git, *command], check=True)
    yield {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{target}.insteadOf",
        "GIT_CONFIG_VALUE_0": known.student_repository,
    }


def fresh(base: Path, target: Path) -> Path:
    """A copy of an environment, by hard links (pip replaces files, it never edits them); its interpreter."""
    shutil.copytree(base, target, symlinks=True, copy_function=_link)
    for packages in target.glob("lib/python*/site-packages"):
        for path in [path for name in LACKS for path in packages.glob(f"*{name}*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return target / "bin" / "python"


def session(entry, base: Path, folder: Path, git: dict[str, str]) -> str:
    """One notebook in a session of its own in `folder`; what to say of it.

    Raises:
        AssertionError, CellExecutionError: it does not run whole, or not as it must.
    """
    from autograder import author, course, public
    from utils.evidence import ResultsCheck

    python, content = fresh(base, folder / "environment"), folder / "content"
    content.mkdir()
    notebook = author.solution_notebook(course.load(), entry)
    shown = folder / f"{entry.name}.ipynb"  # the one in the browser: on Colab no file of the session's
    shown.write_text(author.write(notebook))
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [python, HERE / "google_colab.py", shown, folder / "downloads", folder / "drive", "-f", "{connection_file}"]
    described = {"argv": [str(part) for part in argv], "display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(described))
    os.environ["JUPYTER_PATH"] = str(folder)  # where this process looks for kernels
    settings = {"COURSE_PROFILE": "smoke", "COURSE_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", **git}
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    quiet = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # ipykernel's debugger warns of a frozen standard library
    client = nbclient.NotebookClient(notebook, kernel_name="colab", timeout=CELL_SECONDS)
    client.execute(cwd=str(content), env=inherited | settings | quiet)

    printed = {cell.id: _text(cell) for cell in notebook.cells if cell.cell_type == "code"}
    checks = public.checks(entry)
    for number, check in checks.items():
        said = printed[f"check_{number.replace('.', '_')}"]
        assert f"Exercise {number}: passed ({check.points:g} point" in said, f"{number}: {said}"
    installs = "ready(" in next(cell.source for cell in notebook.cells if cell.id == "setup")
    assert ("Installing adapters" in printed["setup"]) == installs, printed["setup"]
    assert list(content.iterdir()) == [content / "course"], f"the notebook left {sorted(content.iterdir())}"
    downloads = sorted((folder / "downloads").glob("*"))
    if any(isinstance(check, ResultsCheck) for check in checks.values()):
        assert [path.name for path in downloads] == [f"{entry.name}.zip"], f"downloaded: {downloads}"
        with zipfile.ZipFile(downloads[0]) as archive:
            packed = nbformat.reads(archive.read(f"{entry.name}.ipynb").decode(), as_version=4)
            runs = [name for name in archive.namelist() if name.startswith("results/")]
        assert [cell.source for cell in packed.cells] == [cell.source for cell in notebook.cells] and runs
    shutil.rmtree(folder)
    return f"{len(checks)} checks passed"


def _link(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except OSError:  # on another disk
        shutil.copy2(path, target)


def _text(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


if __name__ == "__main__":
    sys.exit(main())
