"""The check of a notebook's experiments: of the files of their runs, and of nothing that a kernel says."""

from collections.abc import Callable, Sequence

from utils.experiments import profiles as sizes
from utils.experiments.experiment import Experiment, Experiments, read_files, results_folder
from utils.experiments.run_files import Files
from utils.grading.check import Check
from utils.grading.evidence import accepted
from utils.grading.forbidden import Cell
from utils.grading.remote import Ask, StudentError, named
from utils.grading.standing import Standing
from utils.grading.verdict import Outcome, Part, Verdict, summed

SMOKE_AT_HOME = (
    "Runs of the size smoke, on made-up data, show that everything works, and earn nothing. The points are for runs "
    "with COURSE_PROFILE=cpu or gpu."
)
NO_RUNS = "there are no runs in your folder of results: run the cell that makes them first."
SMOKE_CAME = (
    "the runs that were handed in are of the size smoke, made-up data that earns nothing: run the experiments with "
    "COURSE_PROFILE=cpu or gpu, and pack them again"
)


class ResultsCheck(Check):
    """A check of the results of a notebook's experiments, which the module `source` has.

    At home it reads the files in this session's folder of results. In grading nothing is run: the judge passes the
    files that were submitted.

    With `reading` points, the asserts are about a function of the student's that reads results, and these points are
    for that function. It is asked only if the runs are accepted. Without them, the student's function runs the
    experiments: at home it is called with the folder of results, and runs what is not there yet.
    """

    def __init__(
        self,
        exercise: str,
        points: float,
        source: Experiments,
        notebook: str,
        asserts: Callable[..., None],
        reading: float = 0,
    ):
        super().__init__(exercise, points, (), asserts)
        self.source, self.notebook = source, notebook
        self._reading_points = reading

    @property
    def reading(self) -> Check | None:
        """The check of the function that reads the results, with its own points; None if there is none."""
        points = round(self._reading_points * self.factor, 6)
        return Check(self.exercise, points, self.forbids, self.asserts) if points else None

    def with_reading(self, read: Verdict) -> Verdict:
        """The verdict where the runs are accepted, and `read` is that of the function that reads them."""
        parts = (
            Part("the runs", round(self.points - read.points, 6), Outcome.PASSED),
            Part(self.names[0], read.points, read.outcome, read.message),
        )
        return Verdict(self.exercise, self.points, **summed(parts, self.points))

    def experiments(self, profile: str | None = None) -> list[Experiment]:
        """The experiments of a profile, in their order; by default of this session's."""
        return list(self.source.experiments(self.notebook, profile).values())

    def verdict(self, ask: Ask, cells: Sequence[Cell], whose: Sequence[str] = ()) -> Verdict:
        """The verdict at home, on the files in this session's folder of results."""
        results, reading = results_folder(), self.reading
        if not reading:
            try:
                named(ask, self.names[0])(str(results))
            except StudentError as error:
                outcome = Outcome.BLANK if error.blank else Outcome.ERROR
                return Verdict(self.exercise, self.points, outcome, "" if error.blank else error.sentence())
        files = read_files(results)
        if not files:
            message = f"`{self.names[0]}` left no runs in the folder that it was given: pass `results` to run_seeds."
            message = NO_RUNS if reading else message
            return Verdict(self.exercise, self.points, Outcome.WRONG, message)
        verdict = self.verdict_on(files)[0]
        if reading and verdict.outcome is Outcome.PASSED:
            verdict = self.with_reading(reading.verdict(ask, cells, whose))
        if sizes.name() != "smoke" or verdict.score == 0:
            return verdict
        message = SMOKE_AT_HOME if verdict.outcome is Outcome.PASSED else verdict.message
        return Verdict(self.exercise, 0.0, verdict.outcome, message)

    def verdict_on(
        self, files: Files, profiles: Sequence[str] = (), standing: Standing | None = None
    ) -> tuple[Verdict, list[str], list[str]]:
        """The verdict on the files of a submission, every reason against it, and what a person should see besides.

        Args:
            profiles: in whose sizes the experiments may have been run; none is the session's own.
            standing: what is known besides; None at home, where the seeds are those of who signed.
        """
        if not files:
            return Verdict(self.exercise, self.points, Outcome.BLANK), ["there are no results"], []
        _, against, unsure = accepted(self._tables(profiles), self.source.RECORDED, files, standing)
        against = [*(standing.against if standing else ()), *against]
        if not against:
            return Verdict(self.exercise, self.points, Outcome.PASSED), [], unsure
        if self._smoke_alone(files, profiles):
            against = [SMOKE_CAME]
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        return Verdict(self.exercise, self.points, Outcome.WRONG, f"{against[0]}.{more}"), against, unsure

    def _smoke_alone(self, files: Files, profiles: Sequence[str]) -> bool:
        """Whether there are runs of the size smoke, and none of a size that counts."""
        came = {name.split("/")[0] for name in files}
        counting = {one.folder("").name for some in self._tables(profiles) for one in some}
        smoke = {one.folder("").name for one in self.experiments("smoke")}
        return not came & counting and bool(came & smoke)

    def _tables(self, profiles: Sequence[str]) -> list[list[Experiment]]:
        return [self.experiments(one) for one in profiles or (None,)]


def results_check(
    exercise: str, points: float, source: Experiments, notebook: str, reading: float = 0
) -> Callable[[Callable[..., None]], ResultsCheck]:
    """Turn a documented function into the check of a notebook's experiments, see `ResultsCheck`.

    Its one parameter is the student's function, which runs the experiments. With `reading` points, its parameters and
    asserts are those of a check, for a function that reads the results.
    """
    return lambda asserts: ResultsCheck(exercise, points, source, notebook, asserts, reading)
