"""The check of a notebook's experiments: of the files of their runs, and of nothing that a kernel says."""

from collections.abc import Callable, Sequence

from utils.experiments import profiles as sizes
from utils.experiments.experiment import Experiment, Experiments, Files, read_files, results_folder
from utils.grading.check import Check
from utils.grading.evidence import Standing, accepted
from utils.grading.forbidden import Cell
from utils.grading.remote import Ask, StudentError, named
from utils.grading.verdict import Outcome, Verdict

SMOKE_AT_HOME = (
    "Runs of the size smoke, on made-up data, show that everything works, and earn nothing. The points are for runs "
    "with COURSE_PROFILE=cpu or gpu."
)
SMOKE_CAME = (
    "the runs that were handed in are of the size smoke, made-up data that earns nothing: run the experiments with "
    "COURSE_PROFILE=cpu or gpu, and pack them again"
)


class ResultsCheck(Check):
    """A check of the results of a notebook's experiments, which the module `source` has.

    At home it calls the student's function with this session's folder of results, which runs what is not there yet, and
    reads the files there. In grading nothing is run: the judge passes the files that were handed in.
    """

    def __init__(self, exercise: str, points: float, source: Experiments, notebook: str, asserts: Callable[..., None]):
        super().__init__(exercise, points, (), asserts)
        self.source, self.notebook = source, notebook

    def experiments(self, profile: str | None = None) -> list[Experiment]:
        """The experiments of a profile, in their order; by default of this session's."""
        return list(self.source.experiments(self.notebook, profile).values())

    def verdict(self, ask: Ask, cells: Sequence[Cell], whose: Sequence[str] = ()) -> Verdict:
        """The verdict at home, on the files in this session's folder of results."""
        try:
            results = results_folder()
            named(ask, self.names[0])(str(results))
        except StudentError as error:
            outcome = Outcome.BLANK if error.blank else Outcome.ERROR
            return Verdict(self.exercise, self.points, outcome, "" if error.blank else error.sentence())
        files = read_files(results)
        if not files:
            message = f"`{self.names[0]}` left no runs in the folder that it was given: pass `results` to run_seeds."
            return Verdict(self.exercise, self.points, Outcome.WRONG, message)
        verdict = self.verdict_on(files)[0]
        if verdict.outcome is Outcome.PASSED and sizes.name() == "smoke":
            return Verdict(self.exercise, 0.0, Outcome.PASSED, SMOKE_AT_HOME)
        return verdict

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
    exercise: str, points: float, source: Experiments, notebook: str
) -> Callable[[Callable[..., None]], ResultsCheck]:
    """Turn a documented function of one parameter, the student's function, into the check of their experiments."""
    return lambda asserts: ResultsCheck(exercise, points, source, notebook, asserts)
