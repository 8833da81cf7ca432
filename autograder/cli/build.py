"""`autograder build`."""

from typing import Annotated

import typer

from autograder.cli import context
from autograder.course import CourseError


def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a committed notebook or README's list is stale.")
    ] = False,
) -> None:
    """Build the student notebooks from solutions/, README's list of them, and nbgrader's course tree under .course/.

    Run it after every change in solutions/, utils/checks/ or course.toml.
    """
    from autograder.author import answers, overview
    from autograder.author.build import build_notebooks, notebook_path
    from autograder.gradebook import course_tree

    course = context.load()
    for entry in course.notebooks:
        answers.answer_cases(entry)  # fails if an edit fits its solution no longer
    if not check:
        course_tree.build_tree(course)  # first: what it refuses is not released
    stale = build_notebooks(course, check)
    if overview.write_readme(course, check):
        stale.append(overview.README.name)
    if check:
        if stale:
            raise CourseError(f"stale: {', '.join(stale)}; run `autograder build` and commit what it writes")
        context.console.print(f"{len(course.notebooks)} notebooks are up to date")
        return
    wrote = f"wrote {', '.join(stale)}" if stale else "the notebooks were up to date"
    if course.local:
        folder = notebook_path(course.notebooks[0], local=True).parent
        wrote += f", in {folder.name}/, since {course.local.name} has settings of your own"
    context.console.print(f"{wrote}; the course tree is {course.tree}", soft_wrap=True)
