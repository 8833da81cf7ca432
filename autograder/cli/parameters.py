"""Arguments and options that several commands have."""

from typing import Annotated

import typer

Names = Annotated[list[str] | None, typer.Argument(metavar="[NOTEBOOK]...", help="By name or number; default: all.")]
Student = Annotated[list[str] | None, typer.Option(help="Only this student; may be given again.")]
Section = Annotated[
    str, typer.Option(help="Only the students of this section, of the column `section` in .course/students.csv.")
]
Reason = Annotated[str, typer.Option(help="Why, for the log; students do not see it.")]
Workers = Annotated[int, typer.Option(min=1, help="How many submissions are graded at a time on this machine.")]
Cluster = Annotated[str, typer.Option(help="A dask scheduler to grade on, tcp://host:port.")]
Trust = Annotated[
    bool, typer.Option("--trust-submissions", help="Run submissions WITHOUT a sandbox, as you. The report will say so.")
]
Gpus = Annotated[
    str,
    typer.Option(help="Devices that the workers take in turn: 0,1,2. Kernels see one if course.toml says gpu = true."),
]
Dashboard = Annotated[bool, typer.Option("--dashboard", help="Serve dask's dashboard, and print its address.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print each record as a line of JSON as soon as it is stored; nothing else.")
]
