"""Every notebook whole, as on Colab: in Colab's versions, from nothing but its file.

    make colab                                   all of them, on Python 3.13 if it is there
    .venv/bin/python tests/colab/run.py 03 06    these
    .venv/bin/python tests/colab/run.py --here   in this project's own versions: test_colab.py does so with 03

The environment of requirements.txt, beside this file, is made in .colab/ once (6 GB). Each notebook gets a copy of it,
which does not have `adapters`, and an empty folder. It is the file of the student repository, with solutions written
into it; the repository is a local one, which git takes for the real one. At size smoke every cell must run, every
check must pass, the set-up cell must install what is missing, once, and `pack` must download what is to be handed in.
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
from importlib import metadata
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FOLDER = ROOT / ".colab"
CELL_SECONDS = 900
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
    FOLDER.mkdir(exist_ok=True)
    base = Path(sys.prefix) if asked.here else environment(asked.python)
    failed = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as made:
        settings = repository(Path(made)) | (wheel(Path(made, "wheels"), "adapters") if asked.here else {})
        for entry in entries:
            started = time.monotonic()
            try:
                with tempfile.TemporaryDirectory(prefix="content-") as content:  # with no course above it
                    said = session(entry, base, Path(made), Path(content), settings)
            except (AssertionError, nbclient.exceptions.CellExecutionError) as problem:
                failed.append(entry.name)
                said = f"FAILED\n{problem}"
            print(f"{entry.name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{len(entries) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def environment(python: str) -> Path:
    """The environment of requirements.txt, made if it is not there: by `python`, or by the one that runs this."""
    target, wanted = FOLDER / "environment", (HERE / "requirements.txt").read_text()
    stamp = target / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(target, ignore_errors=True)
        if not shutil.which(python) or subprocess.run([python, "--version"], capture_output=True).returncode:
            print(f"There is no {python} here: taking {sys.executable} for it.", flush=True)
            python = sys.executable
        subprocess.run([python, "-m", "venv", target], check=True)
        print("Installing Colab's versions: some GB, minutes ...", flush=True)
        pip = [target / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return target


def repository(folder: Path) -> dict[str, str]:
    """Release a student repository below `folder`; the variables by which git takes it for the one of course.toml."""
    from autograder import course
    from autograder.author import release

    known, target = course.load(), folder / "repository"
    release.release(known, target)
    git = ["git", "-C", target, "-c", "user.name=course", "-c", "user.email=course@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Release"]):
        subprocess.run([*git, *command], check=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{target}.insteadOf",
        "GIT_CONFIG_VALUE_0": known.student_repository,
    }


def wheel(folder: Path, package: str) -> dict[str, str]:
    """A wheel of a package as it is installed here; the variables by which pip looks there, and nowhere else."""
    folder.mkdir()
    known = metadata.distribution(package)
    tag = next(line for line in (known.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    with zipfile.ZipFile(folder / f"{package}-{known.version}-{tag.removeprefix('Tag: ')}.whl", "w") as archive:
        for path in known.files or ():
            if (
                "__pycache__" not in path.parts
                and ".." not in path.parts
                and path.name not in ("INSTALLER", "REQUESTED")
            ):
                archive.write(path.locate(), str(path))
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def fresh(base: Path, target: Path) -> Path:
    """A copy of an environment, by hard links (pip replaces files, it never edits them); its interpreter."""
    shutil.copytree(base, target, symlinks=True, copy_function=_link)
    for packages in target.glob("lib/python*/site-packages"):
        for path in [path for name in LACKS for path in packages.glob(f"*{name}*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return target / "bin" / "python"


def session(entry, base: Path, made: Path, content: Path, given: dict[str, str]) -> str:
    """One notebook in a session of its own below `made`, with the variables of `given`; what to say of it.

    The session's working folder is `content`, which is empty.

    Raises:
        AssertionError, CellExecutionError: it does not run whole, or not as it must.
    """
    from autograder.author.checks import public_checks
    from autograder.cells import CellRole, cell_id
    from utils.grading.results_check import ResultsCheck
    from utils.setup import REPLACED

    folder = made / entry.name
    python = fresh(base, folder / "environment")
    notebook = answered(entry, made / "repository" / "notebooks" / f"{entry.name}.ipynb")
    setup = next(cell for cell in notebook.cells if cell.id == "setup")
    notebook.cells.insert(notebook.cells.index(setup) + 1, nbformat.v4.new_code_cell(setup.source, id="again"))
    shown = folder / f"{entry.name}.ipynb"  # the one in the browser: on Colab no file of the session's
    nbformat.write(notebook, shown)
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [python, HERE / "google_colab.py", shown, folder / "downloads", folder / "drive", "-f", "{connection_file}"]
    described = {"argv": [str(part) for part in argv], "display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(described))
    os.environ["JUPYTER_PATH"] = str(folder)  # where this process looks for kernels
    settings = {"COURSE_PROFILE": "smoke", "COURSE_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", **given}
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    quiet = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # ipykernel's debugger warns of a frozen standard library
    client = nbclient.NotebookClient(notebook, kernel_name="colab", timeout=CELL_SECONDS)
    client.execute(cwd=str(content), env=inherited | settings | quiet)

    printed = {cell.id: _text(cell) for cell in notebook.cells if cell.cell_type == "code"}
    checks = public_checks(entry)
    for number, check in checks.items():
        said = printed[cell_id(CellRole.CHECK, number)]
        points = 0 if isinstance(check, ResultsCheck) else check.points  # runs of the size smoke earn nothing
        assert f"Exercise {number}: passed ({points:g} point" in said, f"{number}: {said}"
    installs = "ready(" in setup.source
    assert ("Installing adapters" in printed["setup"]) == installs, printed["setup"]
    assert not printed["again"], f"the set-up cell, once more: {printed['again']}"
    assert list(content.iterdir()) == [content / "course"], f"the notebook left {sorted(content.iterdir())}"
    downloads = sorted((folder / "downloads").glob("*"))
    if any(isinstance(check, ResultsCheck) for check in checks.values()):
        assert [path.name for path in downloads] == [f"{entry.name}.zip"], f"downloaded: {downloads}"
        with zipfile.ZipFile(downloads[0]) as archive:
            packed = nbformat.reads(archive.read(f"{entry.name}.ipynb").decode(), as_version=4)
            runs = [name for name in archive.namelist() if name.startswith("results/")]
        assert [cell.source for cell in packed.cells] == [cell.source for cell in notebook.cells] and runs
    before, after = installed(base), installed(folder / "environment")
    changed = {name: after[name] for name in after if before.get(name, after[name]) != after[name]}
    assert ("adapters" in after) == installs and changed.keys() <= {*REPLACED}, f"installed: {changed}"
    shutil.rmtree(folder)
    told = "".join(f", {name} became {version}" for name, version in changed.items())
    return f"{len(checks)} checks passed{told}"


def answered(entry, released: Path) -> nbformat.NotebookNode:
    """The released notebook with the author's solutions in the cells that are the student's."""
    from autograder import course
    from autograder.author import build

    solutions = {cell.id: cell.source for cell in build.solution_notebook(course.load(), entry).cells}
    notebook = nbformat.read(released, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solutions[cell.id]
        if "variants." in cell.source:
            cell.source = cell.source.replace('STUDENT = ""', 'STUDENT = "Ada Lovelace"')
    return notebook


def installed(environment: Path) -> dict[str, str]:
    """The versions in an environment by package."""
    (packages,) = environment.glob("lib/python*/site-packages")
    return {one.name.lower().replace("-", "_"): one.version for one in metadata.distributions(path=[str(packages)])}


def _link(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except OSError:  # on another disk
        shutil.copy2(path, target)


def _text(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


if __name__ == "__main__":
    sys.exit(main())
