"""A semester in one piece, from the release to the last export, with the right scores after each step.

Two students work on a hub with nbgrader's exchange, four on Canvas, two in a team. What happens: marks by hand,
feedback, late work with and without an extension, a newer version of a check in mid-term, an appeal, and a student
who is erased.
"""

import csv
import datetime
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import hub_users
import pytest
from bs4 import BeautifulSoup
from helpers import built_tree
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli, synthetic
from autograder.author import checks
from autograder.cells import CellRole, cell_id
from autograder.course import Late
from autograder.gradebook import course_tree, journal
from autograder.grading.grading_record import load_record

USERS = {"ada": 54_331, "bo": 54_332}  # those who have an account on the hub
STUDENTS = ("ada", "bo", "cy", "di")
TEAM, TEAMS = "Red_Fox", "team,student,notebook\nRed Fox,cy,01\nRed Fox,di,01\n"
CLASS = """\
id,first_name,last_name,email,platform_ids
ada,Ada,Lovelace,ada@uni.example,101
bo,Bo,Berg,bo@uni.example,102
cy,Cy,Curie,cy@uni.example,103
di,Di,Dirac,di@uni.example,104
"""
WRITE = "from pathlib import Path; Path({path!r}).write_text(Path({text!r}).read_text())"
COLLECT = "from autograder import cli; cli.app({words!r})"
STRICTER = "Stricter than before."
pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="accounts can only be made by root, with util-linux"
)


class Semester:
    """The course of two notebooks, its commands, and who has which score."""

    def __init__(self, known, folder):
        self.known, self.folder = known, folder
        self.first, self.second = known.notebooks
        self.makers = {entry.name: synthetic.Maker(known, entry) for entry in known.notebooks}

    def run(self, *words, status=0):
        """Give a command; what it printed, on one line."""
        ended = CliRunner().invoke(cli.app, list(map(str, words)))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        assert ended.exit_code == status, ended.output
        return " ".join(ended.output.split())

    def recorded(self, entry):
        """The points of the checks by student or team, as recorded."""
        return {one: record.score for one in (*STUDENTS, TEAM) if (record := load_record(self.known, entry, one))}

    def exported(self):
        """What Canvas would get: by student the total of each notebook, "" where there is none."""
        self.run("export", "--format", "canvas", "--to", self.folder / "canvas.csv")
        with (self.folder / "canvas.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = {row["SIS User ID"]: row for row in csv.DictReader(file) if row["SIS User ID"]}
        assert all(rows[student]["ID"] in ("", str(101 + STUDENTS.index(student))) for student in rows)
        names = [entry.name for entry in self.known.notebooks]
        return {student: tuple(rows.get(student, {}).get(name, "") for name in names) for student in STUDENTS}

    def marked(self, entry, student, cell, score, comment=""):
        """Give a mark as formgrader does."""
        with Gradebook(course_tree.database(self.known), self.known.course_id) as gradebook:
            gradebook.find_grade(cell, entry.name, entry.name, student).manual_score = score
            gradebook.find_grade(cell, entry.name, entry.name, student).needs_manual_grade = False
            if comment:
                gradebook.find_comment(cell, entry.name, entry.name, student).manual_comment = comment
            gradebook.db.commit()


@pytest.fixture
def semester(tmp_path, monkeypatch):
    known = built_tree(tmp_path, 2)
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    first, second = known.notebooks
    first = first.model_copy(update={"deadline": tomorrow})
    second = second.model_copy(update={"deadline": datetime.datetime.fromisoformat("2027-02-21T23:59:00+01:00")})
    known = known.model_copy(
        update={"notebooks": (first, second), "timezone": "Europe/Berlin", "late": Late(percent=10)}
    )
    course_tree.build_tree(known)
    (known.tree / "students.csv").write_text(CLASS)
    monkeypatch.setattr(cli.context, "load", lambda: known)
    return Semester(known, tmp_path)


def test_a_semester(semester, monkeypatch):
    with hub_users.hub(USERS) as hub:
        the_first_notebook_on_the_hub(semester, hub)
    the_second_notebook_on_canvas(semester)
    a_newer_version_in_mid_term(semester, monkeypatch)
    an_appeal(semester)
    a_student_is_erased(semester)


def the_first_notebook_on_the_hub(semester, hub):
    """Released, fetched, submitted, collected, graded, marked, and given back to each alone."""
    known, entry, maker = semester.known, semester.first, semester.makers[semester.first.name]
    given = [f"--Exchange.root={hub / 'exchange'}", f"--course={known.course_id}"]
    collect = ("--tree", known.tree, "collect", "--exchange", hub / "exchange")  # where the accounts are known
    steps = [("", known.tree, ["release_assignment", entry.name, given[0]])]
    for name, text in (("ada", maker.file()), ("bo", maker.file(solved={"1.1", "1.2"}))):
        (hub / f"{name}.answers").write_bytes(text)
        path = f"{entry.name}/{entry.name}.ipynb"
        steps += [
            (name, hub / name, ["fetch_assignment", entry.name, *given]),
            (name, hub / name, [WRITE.format(path=path, text=str(hub / f"{name}.answers"))]),
            (name, hub / name, ["submit", entry.name, *given]),
        ]
    hub_users.do(USERS, hub, [*steps, ("", known.tree, [COLLECT.format(words=[*map(str, collect)])])])
    semester.run("grade", "01")
    whole = sum(maker.points.values())
    few = maker.points["1.1"] + maker.points["1.2"]
    assert semester.recorded(entry) == {"ada": whole, "bo": few}
    shown = semester.run("status", "01")
    assert "nothing is handed in by cy, di" in shown and "1 written answers of 1 submissions wait" in shown
    nobody = dict.fromkeys(STUDENTS, ("", ""))
    assert semester.exported() == nobody | {"bo": (f"{few}", "")}, "ada's mark waits for a person"

    semester.marked(entry, "ada", "written_1_W1", 1.5, "The evidence is missing.")
    assert semester.exported() == nobody | {"ada": (f"{whole + 1.5}", ""), "bo": (f"{few}", "")}
    semester.run("feedback", "01")
    steps = [("", known.tree, ["release_feedback", entry.name, given[0]])]
    hub_users.do(
        USERS, hub, steps + [(name, hub / name, ["fetch_feedback", entry.name, *given]) for name in ("ada", "bo")]
    )
    for name, points, comment in (("ada", whole + 1.5, True), ("bo", few, False)):
        (page,) = (hub / name / entry.name / "feedback").glob("*/*.html")
        words = " ".join(BeautifulSoup(page.read_text(), "html.parser").text.split())
        assert f"{points:g} of {whole + 2}" in words and ("The evidence is missing." in words) == comment


def the_second_notebook_on_canvas(semester):
    """Two are marked late: one has an extension, the other loses a day; pages go back under Canvas's names."""
    entry, maker = semester.second, semester.makers[semester.second.name]
    answered = {
        "lovelaceada_101_9001": maker.points,
        "bergbo_LATE_102_9002": {"2.1", "2.2", "2.3"},
        "curiecy_103_9003": maker.points.keys() - {"2.6"},
        "diracdi_LATE_104_9004": maker.points,
    }
    download = semester.folder / "canvas.zip"
    with zipfile.ZipFile(download, "w") as archive:
        for name, solved in answered.items():
            archive.writestr(f"{name}_{entry.name}.ipynb", maker.file(solved=[*solved]))
    semester.run("collect", download)
    semester.run("grade", "02")
    few, whole = sum(maker.points[number] for number in ("2.1", "2.2", "2.3")), sum(maker.points.values())
    scores = {"ada": whole, "bo": few, "cy": whole - maker.points["2.6"], "di": whole}
    assert semester.recorded(entry) == scores
    assert {one: row[1] for one, row in semester.exported().items()} == {
        one: f"{all_:g}" for one, all_ in scores.items()
    }
    assert semester.run("status", "02").count("marked late, time unknown") == 2

    (semester.folder / "times.csv").write_text("student,time\n102,2027-02-23 20:00\n104,2027-02-22 20:00\n")
    semester.run("collect", download, "--times", semester.folder / "times.csv")
    semester.run("extend", "bo", "02", "3 days", "--reason", "ill")
    assert "marked late, time unknown" not in semester.run("status", "02")
    totals = {one: f"{scores[one] * (0.9 if one == 'di' else 1):g}" for one in scores}
    assert {one: row[1] for one, row in semester.exported().items()} == totals
    semester.run("extend", "bo", "02", "--undo")
    late = semester.exported()["bo"][1]
    assert late == f"{few * 0.8:g}", "two days have begun"
    semester.run("extend", "bo", "02", "3 days", "--reason", "ill")

    semester.run("feedback", "02", "--zip", "canvas", "--to", semester.folder)
    with zipfile.ZipFile(semester.folder / f"{entry.name}-canvas.zip") as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(pages) == sorted(f"{name}_{entry.name}.html" for name in answered)
    words = " ".join(BeautifulSoup(pages[f"diracdi_LATE_104_9004_{entry.name}.html"], "html.parser").text.split())
    assert totals["di"] in words and "late" in words.lower()


def a_newer_version_in_mid_term(semester, monkeypatch):
    """A check becomes stricter: what was published stays; a team's submission, which comes later, is judged by it."""
    entry, maker = semester.first, semester.makers[semester.first.name]
    before, book, read = semester.recorded(entry), semester.exported(), Path.read_text
    module, check = f"nb{entry.name}.py", checks.public_checks(entry)["1.1"]

    def attention(attention):
        assert not attention, STRICTER

    more = '\n\n@check("1.1", points=2)\ndef another(attention):\n    assert attention\n'
    monkeypatch.setattr(
        Path, "read_text", lambda path, *given, **named: read(path, *given, **named) + more * (path.name == module)
    )
    monkeypatch.setattr(check, "asserts", attention)
    (semester.known.tree / "teams.csv").write_text(TEAMS)
    mail = semester.folder / "mail" / f"{entry.name}.ipynb"
    course_tree.write(mail, maker.file(solved=[*maker.points]))
    semester.run("collect", mail.parent, "--student", "cy")
    shown = semester.run("grade", "01")
    for student in ("ada", "bo"):
        assert f"{student} 1.1 2 0 Exercise 1.1: {STRICTER}" in shown
    assert "Nothing is recorded: 2 submissions would have other verdicts" in shown
    score = sum(maker.points.values()) - 2
    assert semester.recorded(entry) == before | {TEAM: score}, "one submission and one grading for both"
    both = {student: (f"{score}", book[student][1]) for student in ("cy", "di")}
    assert semester.exported() == book | both


def an_appeal(semester):
    """bo asks why 1.3 has no points; the committee reads the case and gives one, which stays."""
    entry, book = semester.first, semester.exported()
    shown = semester.run("explain", "bo", "1.3", "--to", semester.folder / "case.zip")
    assert "0 of 3" in shown and "not attempted" in shown
    with zipfile.ZipFile(semester.folder / "case.zip") as archive:
        assert archive.read("explanation.txt").decode().splitlines()[0] == f"bo, {entry.name}, exercise 1.3"
        (verdict,) = [one for one in json.loads(archive.read("verdict.json"))["verdicts"] if one["exercise"] == "1.3"]
        assert (verdict["points"], verdict["outcome"]) == (3, "not attempted yet")
    semester.marked(entry, "bo", cell_id(CellRole.CHECK, "1.3"), 1)
    assert semester.exported() == book | {"bo": (f"{float(book['bo'][0]) + 1:g}", book["bo"][1])}
    assert re.search(r"score None -> 1(\.0)? ", semester.run("explain", "bo", "1.3", "--no-ask"))
    book = semester.exported()
    semester.run("grade", "01")
    assert semester.exported() == book
    semester.run("grade", "01", "--update", "--student", "bo", "--reason", "today's check for all of it")
    score = float(book["bo"][0]) - 2
    assert semester.exported() == book | {"bo": (f"{score:g}", book["bo"][1])}, "the mark of the committee stays"
    (event,) = [one for one in journal.events(semester.known) if one["what"] == "grade --update"]
    (change,) = event["changes"]
    assert (change["student"], change["exercise"], change["before"], change["after"]) == ("bo", "1.1", 2, 0)


def a_student_is_erased(semester):
    """Nothing of di is left but a receipt that names nobody; the others' scores are as they were, the team's too."""
    known, book = semester.known, semester.exported()
    semester.run("remove", "--student", "di", "--all", "--erase", "--yes", "--reason", "asked to")
    (receipt,) = (known.tree / "receipts").iterdir()
    assert json.loads(receipt.read_text())["reason"] == "asked to"
    words = (b"di@uni.example", b"Dirac")
    held = [
        path for path in known.tree.rglob("*") if path.is_file() and any(word in path.read_bytes() for word in words)
    ]
    assert not held and not [*known.tree.glob("*/di")]
    assert semester.exported() == book | {"di": ("", "")}
    assert (known.tree / "teams.csv").read_text() == TEAMS.replace("Red Fox,di,01\n", "")
    semester.run("export", "--to", semester.folder / "grades.csv")
    with (semester.folder / "grades.csv").open(newline="") as file:
        assert {row["student"] for row in csv.DictReader(file)} == {"ada", "bo", "cy"}
    shown = semester.run("grade")
    assert "di" not in shown.split()
