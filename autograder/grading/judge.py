"""The judge: reaches the verdict on each exercise of one submission, and never runs its code.

Cells run in a sandboxed kernel; checks run here, and ask that kernel for plain data.
"""

import ast
import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import TypeVar

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from autograder import html_cleaning, limited
from autograder.author.answers import preamble
from autograder.author.checks import PrivateCheck, private_checks, public_checks, whole_verdict
from autograder.cells import NOT_RUN, CellRole, cell_id, exercise_of, role_of
from autograder.course import Course
from autograder.grading import fingerprints
from autograder.grading.grading_record import GradedVerdict, HandIn
from autograder.intake.run_files import unpack
from autograder.sandbox.kernel import Kernel, KernelDied, KernelGone, Ran, open_kernel
from utils import variants
from utils.grading import forbidden, protocol
from utils.grading.check import Check, Scoreboard
from utils.grading.remote import StudentError
from utils.grading.results_check import ResultsCheck
from utils.grading.verdict import Outcome, Verdict, legible

KERNELS_EACH = 2  # for each exercise, whose cells and whose check may each end one; all share the notebook's time
SECOND_CHANCES = 3  # the machine kills few kernels, and a submission that kills its own soon has had them
# What a definition may be wrapped in, and inherit from, without an effect on what others define.
DECORATORS = {"cache", "classmethod", "dataclass", "inference_mode", "lru_cache", "no_grad", "property", "staticmethod"}
BASES = {"object", "Exception", "ValueError", "nn.Module", "torch.nn.Module"}
UNDEFINED = re.compile(r"['`](\w+)['`] is not defined")
NOT_THERE = "` is not defined"  # as the kernel says it of what a check asks for; Python has other quotes for the rest
NO_MEMORY = ("MemoryError", "of memory", "allocate memory")  # Python's, ours, torch's
SCOREBOARD = "scoreboard(checks)"
SETUP = "setup"  # the id of the set-up cell
MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
MAX_FAILED = 5  # lines of a cell of which a remark tells
# What a kernel is told before anything of the submission runs: whose numbers its cells show. The judge draws its own.
ANSWER_FOR = "from utils import variants; variants.use_key({key!r}); variants.answer_for(*{whose!r}); del variants"
T = TypeVar("T")
MAX_OUTPUTS = 10_000  # of all cells of a submission; a page shows fewer
LONG = 20_000  # characters of a cell; Python's parser takes a fifth of a second for the worst of them
LONG_IN_ALL = 10 * LONG  # of the cells that are parsed to see what can be put off
# For one cell, and for all cells of a submission, which take some tenths of a second. Of what takes longer only the
# words are known.
READING_SECONDS, READING_SECONDS_IN_ALL, READING_MB = 2.0, 5.0, 512


@dataclasses.dataclass
class Judged:
    """The verdicts on one notebook, and what happened on the way."""

    verdicts: list[GradedVerdict] = dataclasses.field(default_factory=list)
    slowest: tuple[str, float] = ("", 0.0)
    remarks: list[str] = dataclasses.field(default_factory=list)
    dropped: int = 0  # outputs that would not have fitted on the page


def judge(
    course: Course,
    hand_in: HandIn,
    notebook: NotebookNode,
    shown: Collection[str] = (),
    trusted: bool = False,
    server: str = "",
    on_question: Callable[[str, bytes, bytes], None] | None = None,
) -> Judged:
    """Run the cells of `notebook` in order and judge each exercise where its graded cell stands.

    `notebook` is `hand_in` restored. Outputs are written into it, as nbgrader reads partial credit. The
    cells whose ids are in `shown` only show what answers do; they are put off, and run when an answer
    misses a name, if ever. With `hand_in.only`, these exercises alone are judged, and cells that they can do
    without are put off as well. Kernels come from the fork server at the socket `server`; if the submissions are
    `trusted` they are ordinary processes.
    """
    variants.use_key(course.grading.numbers_key)  # a worker of a cluster may have loaded another course before
    judged = Judged()
    with ExitStack() as stack:
        judging = _Judging(course, hand_in, notebook, shown, judged)
        own = any(check.variant for check in judging.public.values())
        whose = hand_in.names or (hand_in.student,) if own else ()
        kernels = KernelSource(trusted, server)
        session = _Session(course.running([hand_in.entry]), kernels, stack, judged, hand_in.drawn_for, whose)
        session.on_question = on_question
        session.most_kernels = KERNELS_EACH * len(judging.public) + SECOND_CHANCES
        judging.run(session)
    write_scoreboard(notebook, judged.verdicts)
    return judged


class _Judging:
    """One notebook on its way through the judge."""

    def __init__(self, course: Course, hand_in: HandIn, notebook: NotebookNode, shown: Collection[str], judged: Judged):
        self.course, self.hand_in, self.notebook, self.judged = course, hand_in, notebook, judged
        self.public, self.hidden = public_checks(hand_in.entry), private_checks(hand_in.entry)
        self.only = hand_in.only
        self.shown = {*shown}
        if self.only:
            self.shown |= spare(notebook, {number: self.public[number] for number in self.only})
        self.released = _Released(hand_in.release, notebook)
        self.put_off: list[NotebookNode] = []  # run when an answer misses a name, if ever

    def run(self, session: "_Session") -> None:
        """Run the cells in order, and judge each exercise where its graded cell stands."""
        left = set(self.only)
        for cell in self.released.first:
            session.run(cell)
        for exercise, cells in _sections(self.notebook):
            mine = [cell for cell in cells if _runs(cell)]
            if self.only and not left:
                break
            if not exercise or (self.only and exercise not in self.only):
                self._run_beside(mine, session)
                continue
            left.discard(exercise)
            self._judge(exercise, mine, session)

    def _run_beside(self, cells: list[NotebookNode], session: "_Session") -> None:
        """Run cells of no exercise that is judged, or put them off."""
        for cell in cells:
            if cell.id in self.shown:
                self.put_off.append(cell)
            elif not (cell.id == SETUP and self.released.first):
                resume, every = self.released.resume(cell), cell.id in self.released.begin
                refused = self.released.changed(cell) and session.refuse(cell)
                ran = refused or session.run(cell, resume, every)
                self.put_off += self.released.instead_of(cell, ran)

    def _judge(self, exercise: str, cells: list[NotebookNode], session: "_Session") -> None:
        """Judge an exercise, whose cells these are."""
        started, session.exercise = time.monotonic(), exercise
        check, hidden = self.public[exercise], self.hidden.get(exercise, [])
        if isinstance(check, ResultsCheck):  # of files, which no kernel can touch
            verdict, private = self._of_runs(exercise, check), ""
            if check.reading and verdict.outcome is Outcome.PASSED:
                read, private = self._asked(check.reading, hidden, cells, session)
                verdict = check.with_reading(read)
        else:
            verdict, private = self._asked(check, hidden, cells, session)
        seconds = round(time.monotonic() - started, 3)
        self.judged.verdicts.append(GradedVerdict(**vars(verdict), seconds=seconds, instructor_only=private))
        _write(_graded(self.notebook, exercise), verdict)
        session.exercise = ""

    def _asked(
        self, check: Check, hidden: list[PrivateCheck], cells: list[NotebookNode], session: "_Session"
    ) -> tuple[Verdict, str]:
        """The verdict of an exercise that is graded by asking the kernel; and what the instructor alone may read."""
        burdened = session.burdened
        verdict, private = _examine(check, hidden, cells, session)
        if burdened and any(words in verdict.message + private for words in NO_MEMORY):
            session.unburden()
            verdict, private = _examine(check, hidden, cells, session)
        if any(may_define(cell.source, verdict.message + private) for cell in self.put_off):
            # An answer may use a name that those cells define: no point is lost for having put them off.
            for cell in self.put_off:
                session.run(cell)
            self.put_off.clear()
            verdict, private = _examine(check, hidden, cells, session)
        return verdict, private

    def _of_runs(self, exercise: str, check: ResultsCheck) -> Verdict:
        """The verdict of an exercise that is graded from runs."""
        runs, profiles = unpack(self.hand_in.results), self.course.grading.results_profiles
        verdict, against, unsure = check.verdict_on(runs, profiles, self.hand_in.copied)
        self.judged.remarks += [f"exercise {exercise}: {why}" for why in [*against[1:], *unsure]]
        return verdict


def write_scoreboard(notebook: NotebookNode, verdicts: Sequence[Verdict]) -> None:
    """The table of the last cell. At home the checks remember; here the judge does."""
    for cell in notebook.cells:
        if cell.source.strip() == SCOREBOARD:
            table = Scoreboard((verdict.exercise, verdict.points, verdict) for verdict in verdicts)
            cell.outputs = [new_output("display_data", data={"text/plain": repr(table)})]


def spare(notebook: NotebookNode, wanted: dict[str, Check]) -> set[str]:
    """The cells of other exercises that the `wanted` ones can do without.

    Such a cell only defines things, and none that a needed cell or check mentions. Whatever may
    have another effect is needed.
    """
    names = {name for check in wanted.values() for name in check.names}
    spared: set[str] = set()
    left = LONG_IN_ALL
    for exercise, cells in reversed(list(_sections(notebook))):
        for cell in reversed([cell for cell in cells if _runs(cell)]):
            left -= len(cell.source)
            defined = _defines(cell.source) if left >= 0 else None
            if exercise and exercise not in wanted and defined is not None and not defined & names:
                spared.add(cell.id)
            else:
                names.update(re.findall(r"\w+", cell.source))  # magics do not parse
    return spared


def _defines(source: str) -> set[str] | None:
    """The names that a cell of definitions defines; None if it may do anything else.

    Defining may have effects too: those of decorators, of default values and annotations that call something, of what
    stands in the body of a class, and of a class from which it inherits.
    """
    if len(source) > LONG:
        return None
    try:
        return _defined(ast.parse(source).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defined(body: list[ast.stmt]) -> set[str] | None:
    """What `_defines` says of a cell with these statements."""
    defined: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) if _only(node):
                defined.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names) if all(alias.name != "*" for alias in names):
                defined.update((alias.asname or alias.name).split(".")[0] for alias in names)
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                return None
    return defined


def _only(node: ast.stmt) -> bool:
    """Whether a statement in a cell or class defines something and has no other effect."""
    match node:
        case ast.FunctionDef(decorator_list=wrap, args=args) | ast.AsyncFunctionDef(decorator_list=wrap, args=args):
            hints = [argument.annotation for argument in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
            when_defined = [*args.defaults, *args.kw_defaults, *hints, node.returns]
            return all(map(_harmless, wrap)) and not any(map(_calls, filter(None, when_defined)))
        case ast.ClassDef(decorator_list=wrap, bases=bases, keywords=[], body=body):
            known = all(ast.unparse(base) in BASES for base in bases)
            return known and all(map(_harmless, wrap)) and all(map(_only, body))
        case ast.Assign(targets=[ast.Name()], value=value):
            return not _calls(value)
        case ast.AnnAssign(target=ast.Name(), annotation=hint, value=value):
            return not _calls(hint) and (value is None or not _calls(value))
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
    return False


def _harmless(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).removesuffix("()").rpartition(".")[2] in DECORATORS


def _calls(part: ast.expr) -> bool:
    """Whether a value is worked out by more than looking up and arithmetic."""
    return any(isinstance(node, ast.Call | ast.NamedExpr | ast.Await) for node in ast.walk(part))


def may_define(source: str, message: str) -> bool:
    """Whether a cell may define a name that is missing by what is `told` of an answer: it binds it somewhere.

    A cell that imports what has no name here, or does not parse, may define any.
    """
    missing = {*UNDEFINED.findall(message)}
    if not missing or len(source) > LONG:
        return bool(missing)
    try:
        bound = forbidden.stored(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return "*" in bound or not missing.isdisjoint(bound)


class _Released:
    """What was released beside the answers of a notebook: its set-up, its imports, and cells that show what answers do.

    Of these cells a student's own version runs, as at home. But a line that fails in grading, such as the import of a
    package that is missing here, must not cost the names that were released.
    """

    def __init__(self, release: str, notebook: NotebookNode):
        cells = fingerprints.released(release).cells if release else []
        plain = [cell for cell in cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata]
        self._sources = {cell.id: cell.source for cell in plain if _runs(cell)}
        imports = preamble(fingerprints.released(release)) if release else []
        self._imports = {cell.id for cell in imports}
        self.begin = {cell.id for cell in _beginning(notebook)}
        # What runs before all else: set-up and imports as released, unless the submission has them, and nothing before.
        self.first: list[NotebookNode] = []
        wanted = [cell for cell in cells if cell.id == SETUP or cell.id in self._imports]
        there = [(cell.id, cell.source) for cell in _beginning(notebook) if cell.cell_type == "code"]
        if there[: len(wanted)] != [(cell.id, cell.source) for cell in wanted]:
            self.first = [new_code_cell(cell.source, id=cell.id) for cell in wanted]

    def resume(self, cell: NotebookNode) -> str:
        """After which errors of a cell its next statement runs all the same, see `autograder.sandbox.kernel`."""
        return protocol.ALWAYS if cell.id in self.begin or cell.id in self._sources else protocol.IMPORTS

    def changed(self, cell: NotebookNode) -> bool:
        """Whether it is a released cell with another text."""
        return self._sources.get(cell.id, cell.source) != cell.source

    def instead_of(self, cell: NotebookNode, ran: Ran) -> list[NotebookNode]:
        """The released version of a cell that was changed and failed: later cells may need a name that it defines."""
        wanted = bool(ran.error) and self.changed(cell) and cell.id not in self._imports
        return [new_code_cell(self._sources[cell.id], id=cell.id)] if wanted else []


def _beginning(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells before the first exercise."""
    return list(itertools.takewhile(lambda cell: role_of(cell.id) is not CellRole.EXERCISE, notebook.cells))


class CellReader:
    """Reads a submission's cells, for `forbidden`, in a process that has so much time and memory for all of them.

    Python's own compiler takes gigabytes for a cell of a few lines, and IPython minutes.
    """

    def __init__(self) -> None:
        self._left = READING_SECONDS_IN_ALL

    def read(self, source: str) -> forbidden.Cell:
        """What a cell defines; of one that costs too much to read, its words."""
        started = time.monotonic()
        try:
            if self._left <= 0:
                return forbidden.unreadable(source)
            return _cell_of(source)
        except limited.TooCostly:
            return forbidden.unreadable(source)
        finally:
            self._left -= time.monotonic() - started

    def syntax_error(self, source: str) -> tuple[str, str]:
        """Why Python refuses a cell, and the line where; ("", "") if it does not, or if that costs too much to know."""
        started = time.monotonic()
        try:
            if self._left <= 0:
                return "", ""
            error, line = limited.call(forbidden.syntax_error, source, seconds=READING_SECONDS, memory_mb=READING_MB)
            return error, line
        except limited.TooCostly:
            return "", ""
        finally:
            self._left -= time.monotonic() - started


@lru_cache(maxsize=1024)  # submissions have most cells in common
def _cell_of(source: str) -> forbidden.Cell:
    read = limited.call(forbidden.as_data, source, seconds=READING_SECONDS, memory_mb=READING_MB)
    return forbidden.from_data(read)


def _sections(notebook: NotebookNode) -> Iterator[tuple[str, list[NotebookNode]]]:
    """The cells up to each graded cell, with the exercise that it grades; last those after all of them."""
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        if role_of(cell.id) is CellRole.EXERCISE:  # what came before belongs to no exercise
            yield "", cells
            cells = []
        if role_of(cell.id) is CellRole.CHECK:
            yield exercise_of(cell.id), cells
            cells = []
        else:
            cells.append(cell)
    yield "", cells


def _graded(notebook: NotebookNode, exercise: str) -> NotebookNode:
    name = cell_id(CellRole.CHECK, exercise)
    return next(cell for cell in notebook.cells if cell.id == name)


def _runs(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and NOT_RUN not in cell.metadata.get("tags", [])


def _examine(
    check: Check, hidden: list[PrivateCheck], cells: list[NotebookNode], session: "_Session"
) -> tuple[Verdict, str]:
    """Run the cells of an exercise and reach its verdict; and what the instructor alone may read of it."""
    ran = [session.run(cell) for cell in cells]
    verdict = session.whole(lambda: _verdict(check, "\n".join(cell.source for cell in cells), ran, session))
    return whole_verdict(
        verdict, hidden, lambda item: session.whole(partial(item.failure, session.ask, session.key, check.forbids))
    )


def _verdict(check: Check, source: str, ran: list[Ran], session: "_Session") -> Verdict:
    verdict = check.verdict(session.ask, session.cells, session.whose)
    if verdict.outcome is Outcome.ERROR and NOT_THERE in verdict.message:
        # The cell that should define it stopped: say why, which is what the student must mend.
        if any(cell.blank for cell in ran):
            return dataclasses.replace(verdict, outcome=Outcome.BLANK, message="", parts=())
        stopped = next((cell.error for cell in ran if cell.error), "")
        if stopped:
            return dataclasses.replace(verdict, message=f"its cell stopped: {advised(stopped)}", parts=())
        if not source.strip():
            return dataclasses.replace(verdict, outcome=Outcome.BLANK, message="", parts=())
    return verdict


def _write(cell: NotebookNode, verdict: Verdict) -> None:
    """The verdict as outputs of the graded cell: a sentence, and the number that nbgrader records."""
    cell.outputs = [
        new_output("stream", name="stdout", text=verdict.sentence() + "\n"),
        new_output("execute_result", data={"text/plain": f"{verdict.score:g}"}, execution_count=None),
    ]


def advised(error: str) -> str:
    """An error, and what to do if it is one of a package that is not installed where notebooks are graded."""
    package = MISSING.search(error)
    if not package:
        return error
    name = package[1].split(".")[0]
    return (
        f"{error}. {name} is not installed where notebooks are graded: answer without it, or ask your instructor. "
        "If it is a file of your own, put its code into the notebook"
    )


class NotRun(StudentError):
    """The notebook's time or its kernels are used up: nothing of it runs any more."""

    @property
    def ends_check(self) -> bool:
        """Whether the check cannot go on."""
        return True


@dataclasses.dataclass(frozen=True)
class KernelSource:
    """Where the kernels of submissions come from."""

    trusted: bool  # they are ordinary processes, without a sandbox
    server: str  # the socket of a fork server


class _Session:
    """The kernel of one submission; if it dies, the next one replays what ran before and goes on."""

    def __init__(
        self,
        course: Course,
        kernels: KernelSource,
        stack: ExitStack,
        judged: Judged,
        key: bytes,
        whose: tuple[str, ...] = (),
    ):
        self.course, self.source, self.stack, self.judged, self.key = course, kernels, stack, judged, key
        self.whose = whose  # what the student may be called, if numbers are drawn from that
        # What ran before, each with the errors after which it goes on.
        first = ANSWER_FOR.format(key=course.grading.numbers_key, whose=whose)
        self.history = [(new_code_cell(first), protocol.NEVER)] if whose else []
        self.cells: list[forbidden.Cell] = []  # all that ran, as `forbidden` reads them
        self._reader = CellReader()
        self.exercise = ""  # the one that is being judged
        self.outputs = MAX_OUTPUTS  # that may still be kept
        self._room = html_cleaning.Room()  # so that no more is held than what will be shown
        self.kernels, self.most_kernels = 0, 1 + SECOND_CHANCES
        self.chances, self.died = SECOND_CHANCES, False
        self.burdened = False  # by what a cell holds that was stopped at its time limit
        self.on_question: Callable[[str, bytes, bytes], None] | None = None
        self.deadline = time.monotonic() + course.limits.notebook_seconds
        self._kernel: Kernel | None = None

    def run(self, cell: NotebookNode, resume: str = protocol.IMPORTS, every: bool = False) -> Ran:
        """Run a cell; what it printed becomes its outputs. `resume` is as in `Kernel.run`.

        There is a remark on each line that failed for want of a package, or with `every` on each that failed.
        """
        self.cells.append(self._reader.read(cell.source))
        try:
            ran = self._twice(cell, resume)
        except StudentError as stopped:
            if isinstance(stopped, KernelGone):
                self._discard_kernel(self._where(cell), stopped)
            ran = Ran(errors=[str(stopped)], lines=[""], refused=str(stopped))
            ran.outputs.append(new_output("error", ename="Stopped", evalue=str(stopped), traceback=[str(stopped)]))
        else:
            if ran.refused:
                self.judged.remarks.append(f"{self._where(cell)}: {ran.refused}")
            else:
                self._tell_of(cell, ran, every)
            if any(error.startswith(NO_MEMORY[0]) for error in ran.errors):  # what it holds would be missing later
                self._discard_kernel(self._where(cell), KernelGone("your code ran out of memory"))
            elif not ran.refused or ran.seconds < self.course.limits.cell_seconds:  # else it would run into it again
                self.history.append((cell, resume))
            else:
                self.burdened = True
        if len(ran.outputs) > self.outputs >= 0:
            self.judged.remarks.append(f"{self._where(cell)}: more than {MAX_OUTPUTS:,} outputs, the rest is left out")
        outputs = ran.outputs[: max(0, self.outputs)]
        cell.outputs, cell.execution_count = self._room.fitting(outputs), None
        self.judged.dropped += len(outputs) - len(cell.outputs)
        self.outputs -= len(ran.outputs)
        if ran.seconds > self.judged.slowest[1]:
            self.judged.slowest = (cell.id, round(ran.seconds, 2))
        return ran

    def refuse(self, cell: NotebookNode) -> Ran | None:
        """Leave out a cell that Python refuses to read, with the error as its output; None if it does not.

        Run all the same, it would define nothing, and each of its words would count as if it were used.
        """
        error, line = self._reader.syntax_error(cell.source)
        if not error:
            return None
        ran = Ran(errors=[legible(error, 1000)], lines=[legible(line, 200)])
        cell.outputs = [new_output("error", ename="SyntaxError", evalue=ran.error, traceback=[ran.error])]
        self._tell_of(cell, ran, every=True)
        return ran

    def ask(self, request: bytes) -> bytes:
        """Ask the kernel; see `Kernel.ask`."""
        try:
            reply = self._living().ask(request)
        except KernelGone as gone:
            self.died = isinstance(gone, KernelDied)
            self._discard_kernel(f"exercise {self.exercise}, its check", gone)
            if self.on_question:
                self.on_question(self.exercise, request, b"")
            raise
        if self.on_question:
            self.on_question(self.exercise, request, reply)
        return reply

    def whole(self, what: Callable[[], T]) -> T:
        """Have a check ask all its questions; all of them once more if the kernel dies of nothing that we know.

        The machine may have ended it: when memory runs out, kernels go first.
        """
        self.died = False
        verdict = what()
        if self.died and self.chances:
            self.chances -= 1
            return what()
        return verdict

    def unburden(self) -> None:
        """Go on in a kernel that holds nothing of the cells which were stopped at their time limit."""
        self.burdened = False
        if self._kernel:
            self._discard_kernel(f"exercise {self.exercise}", KernelGone("an earlier cell left it no memory"))

    def _tell_of(self, cell: NotebookNode, ran: Ran, every: bool) -> None:
        failed = dict(zip(ran.errors, ran.lines, strict=True))
        if not every:
            failed = {error: line for error, line in failed.items() if MISSING.search(error)}
        for error, line in itertools.islice(failed.items(), MAX_FAILED):
            where = f"`{line}` failed" if line else "failed"
            self.judged.remarks.append(f"{self._where(cell)}: {where} ({advised(error)})")

    def _twice(self, cell: NotebookNode, resume: str) -> Ran:
        """Run a cell; once more in another kernel if it dies of nothing that we know."""
        try:
            return self._living().run(cell.source, resume)
        except KernelDied as died:
            if not self._another_chance(died, self._where(cell)):
                raise
        return self._living().run(cell.source, resume)

    def _another_chance(self, gone: KernelGone, where: str) -> bool:
        if not isinstance(gone, KernelDied) or not self.chances:
            return False
        self.chances -= 1
        self._discard_kernel(where, gone)
        return True

    def _living(self) -> Kernel:
        self._must_be_in_time()
        while self._kernel is None:
            if self.kernels >= self.most_kernels:
                raise NotRun(f"{self.kernels} kernels died of this notebook: it is not started again")
            self._kernel = self.stack.enter_context(open_kernel(self.course, self.source.trusted, self.source.server))
            self._kernel.deadline = self.deadline
            self.kernels += 1
            for cell, resume in self.history:
                self._must_be_in_time()  # else each of them could take a kernel's patience, in one kernel after another
                try:
                    self._kernel.run(cell.source, resume)
                except KernelGone as gone:  # its fault, and not that of the cell which we were about to run
                    if not self._another_chance(gone, f"{self._where(cell)}, run again"):
                        self.history.remove((cell, resume))
                        self._discard_kernel(f"{self._where(cell)}, run again and now left out", gone)
                    break
        return self._kernel

    def _must_be_in_time(self) -> None:
        """Raise NotRun once the notebook's time is over; nothing of it runs any more."""
        if time.monotonic() > self.deadline:
            raise NotRun(f"the notebook took longer than {self.course.limits.notebook_seconds:g} seconds in all")

    def _where(self, cell: NotebookNode) -> str:
        return f"exercise {self.exercise}, cell {cell.id}" if self.exercise else f"cell {cell.id}"

    def _discard_kernel(self, where: str, gone: KernelGone) -> None:
        self._kernel, self.burdened = None, False
        self.stack.close()
        self.judged.remarks.append(f"{where}: {gone}: kernel restarted")
