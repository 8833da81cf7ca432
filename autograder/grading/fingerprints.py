"""Digests of all that the verdicts of a notebook depend on besides the submission."""

import hashlib
import json
import re
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from autograder.course import CHECKS, FOLDER, ROOT, Course, NotebookEntry, folder_of, helpers
from autograder.exercises import by_exercise
from autograder.gradebook import course_tree
from autograder.grading import import_closure
from autograder.grading.cache import cached
from utils.variants import canonical

if TYPE_CHECKING:
    from nbformat import NotebookNode

IMPORT = re.compile(r"\s*(import|from) [\w.]+( import [\w, ]+)?( as \w+)?$")


def fingerprints(course: Course, entry: NotebookEntry, files: str = "") -> dict[str, str]:
    """For each exercise a digest of all that its verdict depends on besides the submission.

    That is its own checks, and what all exercises share: the rest of the check modules, all that they, the
    cells and the judge can reach (see `import_closure`), the release, the limits. Working that out takes a second for a
    course, so the tree keeps it for as long as no file of the course changes. `files` is `course_files`, for who
    has it already.
    """
    whole = hashlib.sha256((files or course_files(course)).encode())
    whole.update(course_tree.release_text(course, entry).encode())
    return cached(course, entry.name, whole.hexdigest(), lambda: _fingerprints(course, entry))


def course_files(course: Course) -> str:
    """A digest of all files of the course that `fingerprints` may look at, which are more than it does look at."""
    whole = hashlib.sha256(f"{sys.version} {ROOT} {FOLDER}\n".encode())
    whole.update(course.model_dump_json(exclude={"tree": True, "grading": {"database"}}).encode())
    paths = [*(ROOT / "autograder").rglob("*.py"), *helpers(ROOT, FOLDER).values()]
    paths += [path for entry in course.notebooks if (path := folder_of(entry) / "private_checks.py").exists()]
    for path in sorted(paths):
        content = path.read_text().encode() if path.suffix == ".py" else path.read_bytes()
        whole.update(f"{path} {hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def _fingerprints(course: Course, entry: NotebookEntry) -> dict[str, str]:
    grading = course.grading.model_dump_json(exclude={"database"})
    common = hashlib.sha256(course.limits.model_dump_json().encode() + grading.encode())
    release = course_tree.release_text(course, entry)
    common.update(release.encode())
    modules = (FOLDER / CHECKS / f"nb{entry.name}.py", folder_of(entry) / "private_checks.py")
    common.update(import_closure.digest(modules, _imports(release), (ROOT, FOLDER)))
    for path in import_closure.grader(ROOT):
        common.update(path.read_bytes())
    own: dict[str, str] = {}
    for path in modules:
        for exercise, code in by_exercise(path.read_text()) if path.exists() else ():
            if exercise:
                own[exercise] = own.get(exercise, "") + code
            else:
                common.update(code.encode())
    shared = common.hexdigest()
    return {
        name: hashlib.sha256((shared + own.get(name, "")).encode()).hexdigest()
        for name in course_tree.exercises(course, entry)
    }


def with_names(graders: dict[str, str], own: Collection[str], names: Collection[str]) -> dict[str, str]:
    """The fingerprints for one student: those of `own`, with numbers of the student's own, depend on the names too."""
    whose = json.dumps(sorted({canonical(name) for name in names}))
    return {
        number: hashlib.sha256((grader + whose).encode()).hexdigest() if number in own else grader
        for number, grader in graders.items()
    }


def with_variants(entry: NotebookEntry) -> frozenset[str]:
    """The exercises of a notebook that have numbers of the student's own. Imports no check."""
    return frozenset(exercise.number for exercise in entry.index if exercise.variant)


def combined_digest(graders: dict[str, str]) -> str:
    """One digest for all exercises of a notebook."""
    return hashlib.sha256(json.dumps(graders, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=16)
def released(text: str) -> "NotebookNode":
    """The released notebook, parsed once for all submissions of a worker; nobody changes it."""
    import nbformat

    return nbformat.reads(text, as_version=4)


@lru_cache(maxsize=64)
def _imports(release: str) -> str:
    """The lines of a notebook's code that import something."""
    cells = (cell.source for cell in released(release).cells if cell.cell_type == "code")
    return "\n".join(line.strip() for cell in cells for line in cell.splitlines() if IMPORT.match(line))
