"""A worker's part: nbgrader's own `autograde` of one submission up to its marks, with the cells in a sandbox.

Everything but the execution of cells is nbgrader's code and the instructor's configuration. It works on a copy of the
gradebook that holds the assignment and no student.
"""

import copy
import io
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import ExecutePreprocessor
from nbconvert.writers import FilesWriter
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.nbgraderformat import SchemaTooNewError, SchemaTooOldError, ValidationError
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearOutput,
    Execute,
    SaveAutoGrades,
)
from nbgrader.utils import determine_grade, is_grade
from traitlets.utils.importstring import import_item

from autograder import html_cleaning, limited, pictures
from autograder.any_course import hand_in, written_files
from autograder.any_course.directory import CourseDir, Job, other_language, timestamp
from autograder.any_course.hand_in import NotGradable
from autograder.course import Limits
from autograder.intake import notebook_file
from autograder.intake.notebook_file import WITH_OUTPUTS
from autograder.sandbox.kernel import Kernel, KernelDied, KernelGone, open_kernel
from autograder.sandbox.launch import Guest

RAISE = "raise notebook_mb in [limits] of the course's course.toml"
BUGS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)  # of nbgrader, where metadata is damaged
ENVIRONMENT = {"NBGRADER_EXECUTION": "autograde"}  # as stock nbgrader sets it; cells ask for it


@dataclass
class Converted:
    """What a worker says of a submission; its notebooks, executed, lie in the unfinished folder."""

    reason: str = ""  # why it cannot be graded
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0


class LimitedExporter(NotebookExporter):
    """Reads a notebook file in a child with limits.

    With `clears`, nbgrader clears the outputs of submissions, so that large ones are left out and not counted.
    """

    def __init__(self, most: float, clears: bool, **settings: Any):
        super().__init__(**settings)
        self._most, self._clears = int(most * 2**20), clears

    def from_file(self, file_stream: io.TextIOBase, resources: Any = None, **named: Any) -> tuple[Any, Any]:
        """As nbconvert's.

        Raises:
            NotGradable: it is not a notebook, or too large.
        """
        name = resources["metadata"]["name"]
        try:
            text = file_stream.read((WITH_OUTPUTS if self._clears else 1) * self._most + 1)
        except UnicodeDecodeError as bad:
            raise NotGradable(
                f"{name}.ipynb is not text in UTF-8 ({bad.reason} at byte {bad.start}): open it in an editor, and "
                "save it as UTF-8"
            ) from None
        content = text.encode(errors="replace")
        if len(content) > self._most and self._clears:
            content = notebook_file.read(content, self._most).text
        if len(content) > self._most:
            raise NotGradable(f"{name}.ipynb has more than {self._most / 2**20:g} MB: {RAISE}")
        try:
            read = limited.call(hand_in.plain, content)
        except (NotGradable, limited.TooCostly) as why:
            raise NotGradable(f"{name}.ipynb: {why}") from None
        return self.from_notebook_node(nbformat.reads(read, as_version=4), resources, **named)


class InSandbox(Execute):
    """nbgrader's preprocessor that executes a notebook, in a sandboxed kernel."""

    def __init__(self, course: CourseDir, server: str, remarks: list[str], **settings: Any):
        super().__init__(**settings)
        self._course, self._server, self._remarks = course, server, remarks
        self._hidden = ClearHiddenTests(parent=course.app)

    def preprocess(self, nb: NotebookNode, resources: Any, km: Any = None) -> tuple[NotebookNode, Any]:
        """Run the cells that stock nbgrader runs, in the folder in which it runs them.

        A kernel that dies of nothing we know is started once more, from the first cell.

        Raises:
            NotGradable: it is not a Python notebook.
        """
        name = resources["metadata"]["name"]
        if other := other_language(nb.metadata.get("kernelspec")):
            raise NotGradable(f"{name}.ipynb asks for the kernel {other}; only Python 3 notebooks are graded")
        files = Path(resources["metadata"]["path"])
        written = self._course.written(resources["nbgrader"]["student"], resources["nbgrader"]["assignment"])
        guest = Guest((files, written), self._notebooks(nb, name, files), ENVIRONMENT, self._course.extras)
        _require_room(guest.files, self._course.limits)
        try:
            remarks = self._run(nb, guest, once_more=True)
        except KernelDied:
            remarks = self._run(nb, guest, once_more=False)
        self._remarks += [f"{name}: {remark}" for remark in remarks]
        pictures.fit(nb)
        return nb, resources

    def _notebooks(self, nb: NotebookNode, name: str, files: Path) -> dict[str, str]:
        """The notebooks that cells find: their own, and those of the assignment that were executed before.

        They are those that stock nbgrader has there, without hidden tests.
        """
        others = {path.name: nbformat.read(path, as_version=4) for path in files.glob("*.ipynb")}
        return {file: self._released(other) for file, other in {**others, f"{name}.ipynb": nb}.items()}

    def _released(self, nb: NotebookNode) -> str:
        """The text of a notebook without hidden tests."""
        nb = copy.deepcopy(nb)
        for cell in nb.cells:
            self._hidden._remove_hidden_test_region(cell)
        return nbformat.writes(nb)

    def _run(self, nb: NotebookNode, guest: Guest, once_more: bool) -> list[str]:
        """Run the cells, and keep the files that they write; why some were stopped, and what is not kept.

        Raises:
            KernelDied: the kernel died of nothing we know, and may be asked `once_more`.
            NotGradable: the configuration's `timeout_func` fails.
        """
        gone, stopped, count, room = "", [], 0, int(self._course.limits.notebook_mb * 2**20)
        with open_kernel(self._course, server=self._server, guest=guest) as kernel:
            for cell in nb.cells:
                if cell.cell_type != "code" or not cell.source.strip():
                    continue
                if self.skip_cells_with_tag in cell.metadata.get("tags", []):
                    continue
                count += 1
                cell.execution_count = count
                if gone:
                    cell.outputs = [_error(f"not run: {gone}")]
                    continue
                try:
                    refused = _run_cell(kernel, cell, self._seconds(cell))
                except KernelGone as why:
                    if once_more and isinstance(why, KernelDied):
                        raise
                    refused = gone = str(why)
                    cell.outputs = [_error(gone)]
                room -= len(json.dumps(cell.outputs))
                if room < 0 and not gone:
                    refused = gone = f"its outputs take more than {self._course.limits.notebook_mb:g} MB ({RAISE})"
                    cell.outputs = [_error(gone)]
                if refused:
                    stopped.append(f"cell {count}: {refused}")
            if not gone and kernel.work:
                files, written = guest.files
                most = int(self._course.limits.notebook_mb * 2**20)
                left_out = written_files.keep(kernel.work, files, written, most)
                stopped += [left_out] if left_out else []
        return stopped

    def _seconds(self, cell: NotebookNode) -> float:
        """Return how long a cell may take: as `Execute.timeout_func` says, unless course.toml states it.

        Raises:
            NotGradable: it fails, or gives no number.
        """
        limits = self._course.limits
        if self.timeout_func is None or not self._course.timeouts:
            return limits.cell_seconds
        try:
            seconds = float(self.timeout_func(cell) or 0)
        except Exception as bad:  # the instructor's own function
            why = f"{type(bad).__name__}: {html_cleaning.line(bad, 300)}"
            raise NotGradable(
                f"Execute.timeout_func in the course's configuration fails: {why}. Correct it, then give --again"
            ) from None
        return seconds if seconds > 0 else limits.notebook_seconds


def _require_room(places: Iterable[Path], limits: Limits) -> None:
    """Check that a sandbox has room for these files.

    Raises:
        NotGradable: it has not.
    """
    size = sum(written_files.size(place) for place in places)
    if size > limits.disk_mb * 2**20:
        raise NotGradable(
            f"its files and those of the assignment take {size / 2**20:.0f} MB, and a sandbox has {limits.disk_mb} MB: "
            "raise disk_mb in [limits] of the course's course.toml"
        )


def _run_cell(kernel: Kernel, cell: NotebookNode, seconds: float) -> str:
    """Run a cell for so long at most; the limit that stopped it, which is also an error among its outputs, or ""."""
    ran = kernel.run(cell.source, seconds=seconds)
    cell.outputs = ran.outputs
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count
    if ran.refused:
        cell.outputs.append(_error(ran.refused))
    return ran.refused


def _error(why: str) -> NotebookNode:
    return new_output("error", ename="Stopped", evalue=why, traceback=[why])


class Convert(Autograde):
    """nbgrader's `autograde` of one submission, without what writes marks."""

    def __init__(self, execute: InSandbox, most: float, **settings: Any):
        super().__init__(**settings)
        self.writer = FilesWriter(parent=self, config=self.config)
        self.exporter = LimitedExporter(
            most, ClearOutput in _classes(self.sanitize_preprocessors), parent=self, config=self.config
        )
        before, _ = split(self)
        self._steps = [execute if _executes(step) else step for step in before]

    def _init_preprocessors(self) -> None:
        self.exporter._preprocessors = []
        for step in self.sanitize_preprocessors if self._sanitizing else self._steps:
            self.exporter.register_preprocessor(step)


def split(autograde: Autograde) -> tuple[list[Any], list[Any]]:
    """Its preprocessors before those that write marks, and from the first of those on.

    nbgrader's last look at the metadata comes before: what fails there leaves no marks.
    """
    steps = _classes(autograde.autograde_preprocessors)
    marks = [isinstance(step, type) and issubclass(step, (SaveAutoGrades, AssignLatePenalties)) for step in steps]
    first = marks.index(True) if True in marks else len(steps)
    looks = [step for step in steps[first:] if step is CheckCellMetadata]
    return steps[:first] + looks, [step for step in steps[first:] if step is not CheckCellMetadata]


def _classes(steps: Iterable[Any]) -> list[Any]:
    """Preprocessors that a configuration may state by name."""
    return [import_item(step) if isinstance(step, str) else step for step in steps]


def _executes(step: Any) -> bool:
    return isinstance(step, type) and issubclass(step, ExecutePreprocessor)


def convert(course: CourseDir, cells: Path, job: Job, server: str) -> Converted:
    """Convert a submission, in a worker. `cells` is a gradebook that holds the assignment and no student."""
    started, done = time.monotonic(), Converted()
    own = shutil.copy(cells, f"{cells}-{os.getpid()}")  # one path for this worker: its engine is kept
    coursedir = course.coursedir(f"sqlite:///{own}", job.assignment)
    execute = InSandbox(course, server, done.remarks, parent=course.app)
    autograde = Convert(execute, course.limits.notebook_mb, coursedir=coursedir, parent=course.app)
    autograde.notebooks = sorted(map(str, job.folder.glob(f"{coursedir.notebook_id}.ipynb")))
    os.chdir(course.root)
    place = course.place(course.unfinished, job.student, job.assignment)
    for folder in (place, course.written(job.student, job.assignment)):  # of a worker that died of it
        shutil.rmtree(folder, ignore_errors=True)
    current = job.folder
    try:
        if not autograde.notebooks:
            raise NotGradable("holds no notebook")
        _require_known(coursedir, job)
        timestamp(course, job.folder)
        autograde.run_pre_convert_hook()
        autograde.init_assignment(job.assignment, job.student)
        for notebook in autograde.notebooks:
            current = Path(notebook)
            autograde.convert_single_notebook(notebook)
            _require_marks(place / os.path.basename(notebook))
    except (NotGradable, NbGraderException) as why:
        done.reason = str(why)
    except SchemaTooOldError as why:
        done.reason = _outdated(current, str(why))
    except (ValidationError, SchemaTooNewError) as why:
        done.reason = f"nbgrader refuses its metadata: {html_cleaning.line(getattr(why, 'message', why), 300)}"
    except BUGS as why:  # as stock nbgrader does, which then goes on with the next submission
        done.reason = f"nbgrader fails on it: {type(why).__name__}: {html_cleaning.line(why, 300)}"
    done.seconds = round(time.monotonic() - started, 2)
    return done


def _require_known(coursedir: CourseDirectory, job: Job) -> None:
    """Check that the assignment has a notebook of one of the submission's names.

    Raises:
        NotGradable: it has none; the message names both.
    """
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        wanted = {f"{notebook.name}.ipynb" for notebook in gradebook.find_assignment(job.assignment).notebooks}
    files = {path.name for path in job.folder.glob("*.ipynb")}
    if not wanted & files:
        there, names = ", ".join(sorted(files)), ", ".join(sorted(wanted))
        raise NotGradable(f"holds {there}, but the assignment's notebook is {names}: rename the file")


def _outdated(path: Path, why: str) -> str:
    """Return why nbgrader calls a notebook outdated. It empties the metadata of a doubled cell, which then look so."""
    about = [cell.metadata.get("nbgrader", {}) for cell in nbformat.read(path, as_version=4).cells]
    names = [cell.get("grade_id") for cell in about if isinstance(cell, dict)]
    counts = Counter(name for name in names if isinstance(name, str))
    doubled = [name for name, count in counts.items() if count > 1]
    if doubled:
        return (
            f"{path.name} holds the cell {', '.join(doubled)} more than once, as after copying it in the notebook: "
            "delete the copies"
        )
    return f"{path.name} has the metadata of an older nbgrader ({why}): run `nbgrader update` on it"


def _require_marks(path: Path) -> None:
    """See that nbgrader can take a mark from each graded cell.

    Raises:
        NotGradable: of one it cannot; stock nbgrader fails there.
    """
    for cell in nbformat.read(path, as_version=4).cells:
        if is_grade(cell):
            try:
                determine_grade(cell)
            except (ValueError, LookupError) as why:
                name = cell.metadata.nbgrader.get("grade_id")
                raise NotGradable(f"{path.name}, cell {name}: {html_cleaning.line(why, 300)}") from None
