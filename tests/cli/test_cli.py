"""What all commands have: tables and the version."""

from importlib import metadata

from rich.text import Text
from typer.testing import CliRunner

from autograder import cli
from autograder.cli import printing


def test_the_version_is_shown():
    ended = CliRunner().invoke(cli.app, ["--version"])
    assert (ended.exit_code, ended.output) == (0, f"autograder {metadata.version('attention-graded')}\n")


def test_keys_of_two_students_of_one_name_say_what_to_do(tmp_path):
    (tmp_path / "students.csv").write_text("id,first_name,last_name\n1,Maria,Garcia\n2,Maria,Garcia\n3,Bo,Li\n")
    ended = CliRunner().invoke(cli.app, ["--tree", str(tmp_path), "keys", "--roster", str(tmp_path / "students.csv")])
    told = str(ended.exception)
    assert told.startswith("Maria Garcia: several students have this name") and "write their ids" in told
    (tmp_path / "keys.csv").write_text("student\n1\n2\nBo Li\n")
    ended = CliRunner().invoke(cli.app, ["--tree", str(tmp_path), "keys", "--roster", str(tmp_path / "keys.csv")])
    assert ended.exception is None and ended.output.count("\n") == 4


def test_cells_of_a_table_are_no_markup_and_name_commands_of_the_tree(monkeypatch, tmp_path):
    monkeypatch.setitem(cli.context.chosen, "tree", tmp_path / "t")
    shown = printing.table(("student", "do", "points"), [("[b]ada[/b]", "`autograder grade`", "1")], right=("points",))
    assert [column.justify for column in shown.columns] == ["left", "left", "right"]
    with cli.context.console.capture() as printed:
        cli.context.console.print(shown)
    assert "[b]ada[/b]" in printed.get() and f"`autograder --tree {tmp_path / 't'} grade`" in printed.get()
    with cli.context.console.capture() as printed:
        cli.context.console.print(printing.table(("answer",), [(Text("`autograder grade`"),)]))
    assert "`autograder grade`" in printed.get()  # a student's words stay
