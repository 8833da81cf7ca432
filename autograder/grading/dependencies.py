"""What submissions depend on besides themselves: the course's own files, and the runs of all others.

Both are read as a whole, so a command asks for them once, and not for each of its notebooks.
"""

import hashlib
from functools import cached_property

from autograder.course import Course
from autograder.grading.cache import cached
from autograder.grading.fingerprints import course_files, with_variants
from utils.grading.standing import Standing


class Dependencies:
    """The course as a command finds it. Nothing is read before it is asked for."""

    def __init__(self, course: Course):
        self.course = course

    @cached_property
    def files(self) -> str:
        """A digest of the course's files, see `fingerprints`."""
        return course_files(self.course)

    @cached_property
    def variants(self) -> dict[str, list[str]]:
        """By notebook the exercises with numbers of the student's own: to parse checks for them takes a moment."""

        def work() -> dict[str, list[str]]:
            return {entry.name: sorted(with_variants(entry)) for entry in self.course.notebooks}

        known: dict[str, list[str]] = cached(self.course, "variants", self.files, work)
        return known

    @cached_property
    def standings(self) -> dict[str, dict[str, Standing]]:
        """By notebook the standing of each student whose runs were handed in, see `copied_runs`."""
        if self.course.grading.run_keys:  # which follow from the course's secret: they are kept nowhere
            return self._standings()

        def work() -> dict[str, dict[str, list[tuple[str, ...]]]]:
            standings = self._standings().items()
            return {
                name: {who: [standing.against, standing.flags] for who, standing in of_notebook.items()}
                for name, of_notebook in standings
            }

        stated = cached(self.course, "standings", self.runs, work)
        return {
            name: {who: Standing(tuple(against), tuple(flags)) for who, (against, flags) in of_notebook.items()}
            for name, of_notebook in stated.items()
        }

    def _standings(self) -> dict[str, dict[str, Standing]]:
        from autograder.grading import copied_runs  # brings numpy, and the experiments

        return copied_runs.of_all(self.course)

    @cached_property
    def runs(self) -> str:
        """A digest of all that is compared: every version of everybody's runs, names, and what a person decided."""
        names = ("students.csv", "teams.csv", "handins/*/name.txt", "handins/*/*/origin.json")
        return self.digest("handins/*/*/*.results.json", "submitted/*/*/results.json", "decisions/*.json", *names)

    def digest(self, *patterns: str) -> str:
        """A digest of the course's files, and of those of its tree that these patterns name."""
        whole, tree = hashlib.sha256(self.files.encode()), self.course.tree
        paths = (path for pattern in patterns for path in sorted(tree.glob(pattern)))
        for path in (path for path in paths if path.is_file()):
            whole.update(f"{path.relative_to(tree)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return whole.hexdigest()
