"""Record the runs that come with the course: the experiments of a notebook, with the seeds that no student has."""

import ast
import os
from collections.abc import Iterator, Mapping, Sequence

from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.course import Course, CourseError, NotebookEntry
from utils.experiments.experiment import Experiment
from utils.experiments.runs import RECORDED_SEEDS, run_seeds
from utils.experiments.seed_table import SeedTable, tables

PROFILE = "cpu"


def record(
    course: Course,
    entry: NotebookEntry,
    names: Sequence[str] = (),
    seeds: int | None = None,
    cluster: str | None = None,
) -> Iterator[SeedTable]:
    """Run what is not recorded yet, experiment by experiment, and give a table of each group of experiments.

    What the notebook's own code has a part in is run with that of the solution. Interrupt it, and call it again.

    Args:
        names: of experiments; none are all.
        seeds: how many of RECORDED_SEEDS.

    Raises:
        CourseError: the notebook has no experiments, or none of these names.
    """
    if not entry.experiments:
        raise CourseError(f"{entry.name} has no experiments: course.toml names no module of them")
    os.environ["COURSE_PROFILE"] = PROFILE
    module = entry.experiment_module()
    groups = {module.RECORDED: of_solution(course, entry, PROFILE)}
    for folder, made in getattr(module, "ALSO_RECORDED", {}).items():
        groups[folder] = {**groups.get(folder, {}), **made()}
    known = {name for experiments in groups.values() for name in experiments}
    if {*names} - known:
        raise CourseError(f"{entry.name} has the experiments {', '.join(sorted(known))}, not {', '.join(names)}")
    for folder, experiments in groups.items():
        runs = {
            name: run_seeds(experiment, RECORDED_SEEDS[:seeds], folder, cluster=cluster)
            for name, experiment in experiments.items()
            if name in (names or experiments)
        }
        if runs:
            yield from tables(runs, {name: experiments[name].metrics[:1] for name in runs})


def of_solution(course: Course, entry: NotebookEntry, profile: str) -> Mapping[str, Experiment]:
    """The experiments as the solution's cells state them, in a dict called `experiments`; else those of the module.

    Args:
        profile: the size, which the environment variable COURSE_PROFILE must name too: cells read it there.

    Its cells run up to there, and no further: what comes next may train, or ask whose seeds to take.
    """
    cells = [
        (cell.id, ast.parse(cell.source))
        for cell in build.solution_notebook(course, entry).cells
        if cell.cell_type == "code" and cell.id != "setup" and role_of(cell.id) is not CellRole.CHECK
    ]
    namespace: dict = {"__name__": "__main__"}
    if any(_states(statement) for _, tree in cells for statement in tree.body):
        for name, tree in cells:
            upto = next((place for place, statement in enumerate(tree.body, 1) if _states(statement)), None)
            tree.body = tree.body[:upto]
            exec(compile(tree, name, "exec"), namespace)
            if upto:
                return namespace["experiments"]
    return entry.experiments_of(profile)


def _states(statement: ast.stmt) -> bool:
    """Whether it is `experiments = ...`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="experiments")]):
            return True
    return False
