"""The judge: reaches the verdict on each exercise of one hand-in, and never runs its code.

Cells run in a sandboxed kernel; checks run here, and ask that kernel for plain data.
"""

import dataclasses
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.course import Course, NotebookEntry
from autograder.kernel import Kernel, KernelGone, Ran, open_kernel
from autograder.private import PrivateCheck, private_checks
from autograder.public import checks
from utils.answer import StudentError
from utils.check import Check, Scoreboard
from utils.verdict import Outcome, Verdict

MAX_KERNELS = 5  # a hand-in whose kernels keep dying is not started for ever
SKIPPED = "experiment"
UNDEFINED = "is not defined"
SCOREBOARD = "scoreboard(checks)"


@dataclasses.dataclass
class Judged:
    """The verdicts on one notebook, and what happened on the way."""

    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    private: dict[str, str] = dataclasses.field(default_factory=dict)  # for the instructor alone
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)  # by exercise, its check
    slowest: tuple[str, float] = ("", 0.0)
    remarks: list[str] = dataclasses.field(default_factory=list)


def judge(
    course: Course,
    entry: NotebookEntry,
    notebook: NotebookNode,
    shown: Collection[str] = (),
    trusted: bool = False,
    nursery: str = "",
) -> Judged:
    """Run the cells of `notebook` in order and judge each exercise where its graded cell stands.

    Outputs are written into the notebook, the graded cells' as nbgrader reads partial credit. The
    cells whose ids are in `shown` only show what answers do; they are put off, and run when an answer
    misses a name, if ever.
    """
    public, hidden = checks(entry), private_checks(entry)
    judged = Judged()
    with ExitStack() as stack:
        session = _Session(course, (trusted, nursery), stack, judged)
        put_off: list[NotebookNode] = []
        for exercise, cells in _sections(notebook):
            mine = [cell for cell in cells if _runs(cell)]
            if not exercise:
                for cell in mine:
                    if cell.id in shown:
                        put_off.append(cell)
                    else:
                        session.run(cell)
                continue
            started = time.monotonic()
            verdict, private = _examine(public[exercise], hidden.get(exercise, []), mine, session)
            if put_off and UNDEFINED in verdict.message + private:
                # An answer may use a name that those cells define: no point is lost for having put them off.
                for cell in put_off:
                    session.run(cell)
                put_off.clear()
                verdict, private = _examine(public[exercise], hidden.get(exercise, []), mine, session)
            if private:
                judged.private[exercise] = private
            judged.verdicts.append(verdict)
            judged.seconds[exercise] = round(time.monotonic() - started, 3)
            _write(_graded(notebook, exercise), verdict)
    for cell in notebook.cells:
        if cell.source.strip() == SCOREBOARD:  # at home the checks remember; here the judge does
            table = Scoreboard((one.exercise, one.points, one) for one in judged.verdicts)
            cell.outputs = [new_output("display_data", data={"text/plain": repr(table)})]
    return judged


def _sections(notebook: NotebookNode) -> Iterator[tuple[str, list[NotebookNode]]]:
    """The cells up to each graded cell, with the exercise that it grades; last those after all of them."""
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        if cell.id.startswith("exercise_"):  # what came before belongs to no exercise
            yield "", cells
            cells = []
        if cell.id.startswith("check_"):
            yield cell.id.removeprefix("check_").replace("_", "."), cells
            cells = []
        else:
            cells.append(cell)
    yield "", cells


def _graded(notebook: NotebookNode, exercise: str) -> NotebookNode:
    name = f"check_{exercise.replace('.', '_')}"
    return next(cell for cell in notebook.cells if cell.id == name)


def _runs(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and SKIPPED not in cell.metadata.get("tags", [])


def _examine(
    check: Check, hidden: list[PrivateCheck], cells: list[NotebookNode], session: "_Session"
) -> tuple[Verdict, str]:
    """Run the cells of an exercise and reach its verdict; and what the instructor alone may read of it."""
    ran = [session.run(cell) for cell in cells]
    verdict = _verdict(check, "\n".join(cell.source for cell in cells), ran, session)
    if verdict.outcome is Outcome.PASSED:
        for item in hidden:
            failure = item.failure(session.ask)
            if failure:
                return dataclasses.replace(verdict, outcome=Outcome.WRONG, message=item.tells), failure
    return verdict, ""


def _verdict(check: Check, source: str, ran: list[Ran], session: "_Session") -> Verdict:
    verdict = check.verdict(session.ask, source)
    if verdict.outcome is Outcome.ERROR and UNDEFINED in verdict.message:
        # The cell that should define it stopped: say why, which is what the student must mend.
        if any(one.blank for one in ran):
            return dataclasses.replace(verdict, outcome=Outcome.BLANK, message="")
        stopped = next((one.error for one in ran if one.error), "")
        if stopped:
            return dataclasses.replace(verdict, message=f"its cell stopped: {stopped}")
        if not source.strip():
            return dataclasses.replace(verdict, outcome=Outcome.BLANK, message="")
    return verdict


def _write(cell: NotebookNode, verdict: Verdict) -> None:
    """The verdict as outputs of the graded cell: a sentence, and the number that nbgrader records."""
    cell.outputs = [
        new_output("stream", name="stdout", text=verdict.sentence() + "\n"),
        new_output("execute_result", data={"text/plain": f"{verdict.score:g}"}, execution_count=None),
    ]


class _Session:
    """The kernel of one hand-in; if it dies, the next one replays what ran before and goes on."""

    def __init__(self, course: Course, how: tuple[bool, str], stack: ExitStack, judged: Judged):
        self.course, self.how, self.stack, self.judged = course, how, stack, judged
        self.history: list[str] = []
        self.kernels = 0
        self.deadline = time.monotonic() + course.limits.notebook_seconds
        self._kernel: Kernel | None = None

    def run(self, cell: NotebookNode) -> Ran:
        """Run a cell; what it printed becomes its outputs."""
        try:
            ran = self._living().run(cell.source)
        except StudentError as stopped:
            if isinstance(stopped, KernelGone):
                self._bury(f"cell {cell.id}", stopped)
            ran = Ran(error=str(stopped), refused=str(stopped))
            ran.outputs.append(new_output("error", ename="Stopped", evalue=str(stopped), traceback=[str(stopped)]))
        else:
            self.history.append(cell.source)
            if ran.refused:
                self.judged.remarks.append(f"cell {cell.id}: {ran.refused}")
        cell.outputs, cell.execution_count = ran.outputs, None
        if ran.seconds > self.judged.slowest[1]:
            self.judged.slowest = (cell.id, round(ran.seconds, 2))
        return ran

    def ask(self, request: bytes) -> bytes:
        """Ask the kernel; see `Kernel.ask`."""
        try:
            return self._living().ask(request)
        except KernelGone as gone:
            self._bury("a check", gone)
            raise

    def _living(self) -> Kernel:
        if time.monotonic() > self.deadline:
            raise StudentError(f"the notebook took longer than {self.course.limits.notebook_seconds:g} seconds in all")
        if self._kernel is None:
            if self.kernels >= MAX_KERNELS:
                raise StudentError(f"{MAX_KERNELS} kernels died of this notebook: it is not started again")
            self._kernel = self.stack.enter_context(open_kernel(self.course, *self.how))
            self._kernel.deadline = self.deadline
            self.kernels += 1
            for source in self.history:
                self._kernel.run(source)
        return self._kernel

    def _bury(self, where: str, gone: KernelGone) -> None:
        self._kernel = None
        self.stack.close()
        self.judged.remarks.append(f"{where}: {gone}: kernel restarted")
