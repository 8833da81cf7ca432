"""`autograder demo`."""

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli import context


def demo(
    workers: Annotated[int, typer.Option(min=1, help="How many submissions are graded at a time.")] = 2,
    whole: Annotated[bool, typer.Option("--whole", help="All thirteen students in every notebook.")] = False,
    download: Annotated[
        Path | None, typer.Option(help="Grade nothing: write five submissions here, as Canvas packs them.")
    ] = None,
    notebook: Annotated[str, typer.Option(help="With --download: of this notebook.")] = "02",
) -> None:
    """Grade a made-up class whose right scores are known, and compare. Uses .demo/, not .course/.

    Ends with status 1 if any score differs from the one that it must be.
    """
    from autograder import demo as demonstration

    if download:
        course = context.load()
        made = demonstration.write_download(course, course.notebook(notebook), download)
        for submission in made:
            context.console.print(f"{submission.student}: {submission.content}", highlight=False)
        context.console.print(f"wrote {download}, a download of {len(made)} submissions", soft_wrap=True)
        return
    context.console.print(demonstration.BEGINS, soft_wrap=True, highlight=False)
    try:
        right = demonstration.run(workers, context.console, whole=whole)
    except KeyboardInterrupt:
        raise context.Interrupted("interrupted; the next demonstration starts from the beginning") from None
    if not right:
        raise typer.Exit(1)
