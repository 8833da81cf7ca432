"""Files for learning platforms: in the form that each documents, blank where there is no mark, harmless names."""

import csv
import datetime
import io
import os

import pandas
import pytest
from helpers import canned, copied, keep
from typer.testing import CliRunner

from autograder import cli, course
from autograder.cells import CellRole, role_of
from autograder.course import CourseError, Late
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading.grading_record import UNGRADABLE, Record
from autograder.intake import collect
from autograder.reports import exports, report
from utils.experiments.student import key_of

NAME = "01_causal_mask_lm"
ROSTER = """\
id,first_name,last_name,email,platform_ids
s1,Žofie,Nováková,zofie@uni.example,4101
s2,=HYPERLINK(1),+Evil,eve@uni.example,4102
s3,Cy,Late,cy@uni.example,
s4,Bo,Absent,bo@uni.example,
"""
# s1 has all points; the written answer of s2 waits; s3 loses 2 for lateness; s4 has handed nothing in.
EXPECTED = {
    "canvas": """\
"Student","ID","SIS User ID","SIS Login ID","Section","01_causal_mask_lm"\r
"    Points Possible","","","","","POINTS"\r
"'+Evil, =HYPERLINK(1)","4102","s2","s2","",""\r
"Absent, Bo","","s4","s4","",""\r
"Late, Cy","","s3","s3","","LATE"\r
"Nováková, Žofie","4101","s1","s1","","ALL"\r
""",
    "moodle": """\
"First name","Last name","ID number","Email address","01_causal_mask_lm"\r
"'=HYPERLINK(1)","'+Evil","s2","eve@uni.example","-"\r
"Bo","Absent","s4","bo@uni.example","-"\r
"Cy","Late","s3","cy@uni.example","LATE"\r
"Žofie","Nováková","s1","zofie@uni.example","ALL"\r
""",
    "blackboard": """\
"Last Name","First Name","Username","01_causal_mask_lm"\r
"'+Evil","'=HYPERLINK(1)","s2",""\r
"Absent","Bo","s4",""\r
"Late","Cy","s3","LATE"\r
"Nováková","Žofie","s1","ALL"\r
""",
    "gradescope": """\
"First Name","Last Name","SID","Email","01_causal_mask_lm","01_causal_mask_lm - Max Points"\r
"'=HYPERLINK(1)","'+Evil","s2","eve@uni.example","","POINTS"\r
"Bo","Absent","s4","bo@uni.example","","POINTS"\r
"Cy","Late","s3","cy@uni.example","LATE","POINTS"\r
"Žofie","Nováková","s1","zofie@uni.example","ALL","POINTS"\r
""",
}


def mark_by_hand(known, student):
    """Give the written answer of a student full marks."""
    with gradebook_writer.open_recorder(known) as recorder:
        book = recorder.gradebook.find_submission_notebook(NAME, NAME, student)
        (mark,) = [mark for mark in book.grades if role_of(mark.name) is CellRole.WRITTEN]
        mark.manual_score, mark.needs_manual_grade = mark.max_score, False
        recorder.gradebook.db.commit()


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """A class with a roster: who has all points, whose mark waits, who is late, who is absent, and who is unknown."""
    known = copied(built, tmp_path_factory.mktemp("exports"))
    known = known.model_copy(update={"late": Late(points=1, most=2)})
    download = known.tree.parent / "download"
    download.mkdir()
    for name, number in (("novakovazofie", 4101), ("evileve", 4102)):
        (download / f"{name}_{number}_88_{NAME}.ipynb").write_text("{}")
    (known.tree / "students.csv").write_text(ROSTER, encoding="utf-8")
    assert len(collect.collect(known, download).taken) == 2
    in_time = "".join(f"{one},01,never late,\n" for one in ("s1", "s2"))
    (known.tree / "extensions.csv").write_text(f"student,notebook,extension,reason\n{in_time}")
    for student in ("s1", "s2", "s3", "zoe"):
        keep(known, *canned(known, student))
    mark_by_hand(known, "s1")
    mark_by_hand(known, "s3")
    return known


def points(known):
    """The points of the whole notebook, counted in its release."""
    cells = course_tree.release_notebook(known, known.notebook(NAME)).cells
    return sum(cell.metadata.nbgrader.points for cell in cells if cell.metadata.get("nbgrader", {}).get("grade"))


def written(known, form, exercises=False):
    path = known.tree.parent / f"{form}.csv"
    done = exports.write_scores(known, list(known.notebooks), path, form, exercises)
    return done, path.read_bytes()


@pytest.mark.parametrize("form", EXPECTED)
def test_the_file_is_the_one_written_by_hand(graded, form):
    most = points(graded)
    expected = EXPECTED[form]
    for word, number in (("POINTS", most), ("ALL", most), ("LATE", most - 2)):
        expected = expected.replace(word, f"{number:g}")
    done, found = written(graded, form)
    mark = b"\xef\xbb\xbf" if form == "blackboard" else b""
    assert found == mark + expected.encode()
    assert done.rows == 4
    table = pandas.read_csv(io.BytesIO(found), encoding="utf-8-sig")
    assert len(table) == 4 + (form == "canvas") and table.isin(["Žofie", "Nováková, Žofie"]).any(axis=None)


@pytest.mark.parametrize("form", ["csv", *EXPECTED])
def test_who_and_what_is_missing_is_told(graded, form):
    done, _ = written(graded, form)
    left_out = ", so left out" if form != "csv" else ""
    assert done.notes == [
        f"{NAME}: no submission of s4",
        f"{NAME}: 2 marks of 2 submissions wait for a person and are left blank",
        f"handed in and not in students.csv{left_out}: zoe",
    ]


@pytest.mark.parametrize("form", ["csv", "canvas"])
def test_who_could_not_be_graded_is_told(fresh, form):
    keep(fresh, *canned(fresh, "ada"))
    job, _, _ = canned(fresh, "bo")
    keep(fresh, job, Record("bo", NAME, UNGRADABLE, "the file is empty"), "")
    done, _ = written(fresh, form)
    assert f"{NAME}: could not be graded, so 0: bo" in done.notes


@pytest.mark.parametrize("form", EXPECTED)
def test_exercises_add_up(graded, form):
    """Each student's columns give the total, what is lost by lateness included, and Canvas gets no total to count."""
    _, found = written(graded, form, exercises=True)
    head, *rows = csv.reader(io.StringIO(found.decode("utf-8-sig")))
    assert f"{NAME} 1.1" in head and f"{NAME} 1.W1" in head and (NAME in head) == (form != "canvas")
    first = head.index(f"{NAME} 1.1")
    parts = [place for place, name in enumerate(head) if place >= first and name != NAME and "Max" not in name]
    assert head[parts[-1]] == f"{NAME} late"
    assert head.index(f"{NAME} 1.2") < head.index(f"{NAME} 1.10")
    whole = {"Late": points(graded) - 2, "Nov": points(graded)}
    for name, total in whole.items():
        (row,) = [row for row in rows if any(cell.startswith(name) for cell in row)]
        assert sum(float(row[place]) for place in parts) == total
        assert form == "canvas" or float(row[head.index(NAME)]) == total
    (waits,) = [row for row in rows if any("Evil" in cell for cell in row)]
    blank = [head[place] for place in parts if waits[place] in ("", "-")]
    assert blank == [f"{NAME} 1.W1", f"{NAME} late"]


def test_a_waiting_mark_is_no_zero_in_our_own_file_either(graded):
    _, found = written(graded, "csv")
    table = pandas.read_csv(io.BytesIO(found))
    waits = table[table.needs_manual_grade]
    assert len(waits) == 2 and waits.score.isna().all()
    away = table.student == "s4"
    assert table[~table.needs_manual_grade & ~away].score.notna().all()
    assert away.any() and table[away].score.isna().all() and table[away].max_score.sum() == points(graded)


def test_moodle_gets_no_row_without_its_key(graded):
    """A row with an empty e-mail would be given to the student above it."""
    roster = graded.tree / "students.csv"
    roster.write_text(ROSTER.replace("cy@uni.example", ""), encoding="utf-8")
    try:
        _, found = written(graded, "moodle")
    finally:
        roster.write_text(ROSTER, encoding="utf-8")
    assert found.startswith(f'"First name","Last name","ID number","{NAME}"\r\n'.encode()) and b"@" not in found


def test_without_a_roster_canvas_is_told_its_own_numbers_and_moodle_refused(fresh, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("loveada_1_88", "bobo_LATE_2_89"):
        (tmp_path / "in" / f"{name}_{NAME}.ipynb").write_text("{}")
    collect.collect(fresh, tmp_path / "in")
    keep(fresh, *canned(fresh, "loveada_1"))
    done, found = written(fresh, "canvas")
    assert [row[:5] for row in csv.reader(io.StringIO(found.decode()))][2:] == [["loveada", "1", "", "", ""]]
    assert done.notes[0] == f"{NAME}: no marks yet: bobo_2" and done.rows == 1
    with pytest.raises(CourseError, match=r"Moodle knows students by id and e-mail.*students\.csv"):
        written(fresh, "moodle")


@pytest.mark.parametrize(
    "name, harmless",
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2", "'-2"),
        ("\t=1", "'=1"),
        ("Ann-Marie\nX", "Ann-Marie X"),
        ("Max;=2+3;x", "Max;'=2+3;x"),
        ('Max; "=2+3";+1', "Max;' \"=2+3\";'+1"),
        ("＝2+3", "'＝2+3"),
        ("Max;x=1, -2", "Max;x=1, -2"),
    ],
)
def test_names_are_no_formulas(name, harmless):
    assert exports.harmless(name) == harmless


def cells_of_a_spreadsheet(text):
    """The cells of a spreadsheet whose columns are separated by semicolons: quotes bind where they begin a cell."""
    return [cell for row in csv.reader(io.StringIO(text), delimiter=";") for cell in row]


@pytest.mark.parametrize("form", ["csv", *exports.FORMATS])
def test_no_cell_is_a_formula_where_semicolons_separate(fresh, form):
    (fresh.tree / "students.csv").write_text(
        'id,first_name,last_name,email\nmax,"Max;=2+3;x","Y;@SUM(A1)",";+1@x.org"\n'
    )
    keep(fresh, *canned(fresh, "max"))
    _, found = written(fresh, form)
    text = found.decode("utf-8-sig")
    assert not [cell for cell in cells_of_a_spreadsheet(text) if cell.startswith(("=", "+", "-", "@"))]
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())


def test_the_table_of_keys_holds_no_formula(fresh, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    (tmp_path / "class.csv").write_text("name\n=2+3\nMax;=2+3;x\nAda Lovelace\n")
    cli.keys.keys(None, tmp_path / "class.csv", tmp_path / "keys.csv")
    text = (tmp_path / "keys.csv").read_text()
    assert not [cell for cell in cells_of_a_spreadsheet(text) if cell.startswith(("=", "+", "-", "@"))]
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["student", "key"] and [name for name, _ in rows] == ["'=2+3", "Max;'=2+3;x", "Ada Lovelace"]
    capsys.readouterr()
    cli.keys.keys(None, tmp_path / "class.csv", None)  # to redirect
    assert [*csv.reader(io.StringIO(capsys.readouterr().out))] == [head, *rows]
    for name, key in rows:  # the key is that of the name beside it
        assert key == key_of(course_tree.secret(fresh), name)


def test_a_file_that_is_no_table_is_not_replaced(graded, tmp_path):
    (tmp_path / "grades.csv").write_text("x" * 200_000)
    with pytest.raises(CourseError, match="is another file"):
        exports.write_scores(graded, list(graded.notebooks), tmp_path / "grades.csv")


@pytest.mark.parametrize("score, cell", [(1.5, "1.5"), (0.1 + 0.2, "0.3"), (-1e-9, "0"), (10.0, "10"), (-2, "-2")])
def test_scores_are_plain_numbers(score, cell):
    assert exports.number_text(score) == cell


def test_the_command_says_what_the_file_does_not(graded, monkeypatch, tmp_path):
    said = io.StringIO()
    monkeypatch.setattr(cli.context, "load", lambda: graded)
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=200))
    to = str(tmp_path / "grades.csv")
    ended = CliRunner().invoke(cli.app, ["export", "01", "--format", "canvas", "--to", to])
    assert ended.exit_code == 0, ended.output
    assert "4 rows in" in said.getvalue() and "no submission of s4" in said.getvalue()
    assert CliRunner().invoke(cli.app, ["export", "--format", "excel", "--to", to]).exit_code == 2


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a command on a course in an empty folder, and gives its exception, and what was said."""

    def invoked(known, *arguments):
        said = io.StringIO()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(cli.context, "load", lambda: known)
        monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=200))
        return str(CliRunner().invoke(cli.app, arguments).exception or ""), said.getvalue()

    return invoked


def test_each_platform_has_a_file_of_its_own(graded, run, tmp_path):
    for form in ("csv", *EXPECTED):
        name = "grades.csv" if form == "csv" else f"{form}.csv"
        wrong, said = run(graded, "export", "--format", form)
        assert not wrong and f" rows in {name}\n" in said
    first = (tmp_path / "grades.csv").read_bytes()
    assert {path.name for path in tmp_path.glob("*.csv")} == {"grades.csv", *(f"{form}.csv" for form in EXPECTED)}
    wrong, said = run(graded, "export")
    assert not wrong and " rows in grades.csv, in place of earlier ones\n" in said
    assert (tmp_path / "grades.csv").read_bytes() == first
    wrong, _ = run(graded, "export", "--to", "canvas")
    assert "--format canvas" in wrong and not (tmp_path / "canvas").exists()


@pytest.mark.parametrize("form", ["csv", *EXPECTED])
def test_another_file_is_not_replaced(graded, run, tmp_path, form):
    other = "moodle" if form == "gradescope" else "gradescope"  # whose headings are most alike
    mine = tmp_path / "mine.csv"
    for text in (ROSTER, EXPECTED[other], "\xff\x00"):
        mine.write_bytes(text.encode("latin-1", errors="replace"))
        before = mine.read_bytes()
        wrong, _ = run(graded, "export", "--format", form, "--to", "mine.csv")
        assert "mine.csv is there and is another file" in wrong and mine.read_bytes() == before
    mine.write_bytes(b"")  # made by mktemp
    (tmp_path / "link.csv").symlink_to(mine)
    assert run(graded, "export", "--format", form, "--to", "link.csv")[0] == ""
    assert (tmp_path / "link.csv").is_symlink() and mine.read_bytes()


def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CourseError, match="is not a file"):
        cli.context.writable(tmp_path / "pipe")


@pytest.mark.parametrize("form", ["csv", "canvas"])
def test_where_nothing_is_graded_nothing_is_exported(fresh, run, tmp_path, form):
    command = ("export", "--format", form, "--to", "grades.csv")
    assert "run `autograder collect SOURCE`, then `autograder grade`" in run(fresh, *command)[0]
    course_tree.write(course_tree.place(fresh, "submitted", fresh.notebook(NAME), "ada"), "{}")
    assert "nothing of it is graded: run `autograder grade`" in run(fresh, *command)[0]
    (fresh.tree / "students.csv").write_text(ROSTER, encoding="utf-8")
    keep(fresh, *canned(fresh, "zoe"))
    wrong, _ = run(fresh, *command)
    assert wrong == ("" if form == "csv" else f"nobody who is graded is in {fresh.tree / 'students.csv'}: zoe")
    assert (tmp_path / "grades.csv").exists() == (form == "csv")


def test_before_anything_is_handed_in_status_says_what_comes_first(fresh, run):
    assert "nothing is handed in yet: `autograder collect SOURCE`" in run(fresh, "status")[1]


@pytest.mark.parametrize("command", ["report", "export", "feedback"])
def test_what_needs_the_first_build_says_so(tmp_path, run, command):
    known = course.load(tree=tmp_path / "nowhere")
    assert "run `autograder build` first" in run(known, command)[0] and not known.tree.exists()


def test_marks_of_an_earlier_hand_in_are_told(fresh):
    for student in ("ada", "bo"):
        keep(fresh, *canned(fresh, student))
    assert not [note for note in written(fresh, "csv")[0].notes if "handed in again" in note]
    path = course_tree.place(fresh, "submitted", fresh.notebooks[0], "ada")
    path.write_text(path.read_text() + " ")
    assert f"{NAME}: handed in again, with the previous marks: ada" in written(fresh, "csv")[0].notes


@pytest.fixture
def three(fresh):
    """Three students in two sections: all points, fewer points, and nothing handed in; the deadline has passed."""
    lines = ("s1,Ada,One,a@x.org,4101,Mon", "s2,Bo,Two,b@x.org,4102,Tue", "s3,Cy,Three,c@x.org,4103,Tue")
    head = "id,first_name,last_name,email,platform_ids,section\n"
    (fresh.tree / "students.csv").write_text(head + "\n".join(lines))
    (entry,) = fresh.notebooks
    passed = datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)
    known = fresh.model_copy(update={"notebooks": (entry.model_copy(update={"deadline": passed}),)})
    for student in ("s1", "s2"):
        keep(known, *canned(known, student))
        mark_by_hand(known, student)
    return known


def grant(known, *lines):
    (known.tree / "extensions.csv").write_text("student,notebook,extension,reason\n" + "\n".join(lines))


def cells(known, form, **how):
    """The last cell of each row by student, and the notes."""
    path = known.tree.parent / f"{form}-{len(how)}.csv"
    done = exports.write_scores(known, list(known.notebooks), path, form, **how)
    place = {"canvas": 3, "moodle": 2, "blackboard": 2, "totals": 0}[form]
    rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
    return {row[place]: row[-1] for row in rows if row[place].startswith("s") and row[place] != "student"}, done.notes


@pytest.mark.parametrize("form, blank, away", [("canvas", "", "EX"), ("moodle", "-", "-"), ("blackboard", "", "")])
def test_an_excused_notebook_does_not_count(three, form, blank, away):
    most = f"{points(three):g}"
    assert cells(three, form)[0] == {"s1": most, "s2": most, "s3": blank}
    grant(three, "s1,01,excused,ill", "s3,all,excused,")
    found, notes = cells(three, form)
    assert found == {"s1": away, "s2": most, "s3": away}
    (told,) = [note for note in notes if "excused" in note]
    assert told.endswith(": s1, s3") and ("has no word for it" in told) == (away != "EX")
    assert not [note for note in notes if "no submission" in note]


def test_an_excused_notebook_is_ex_in_our_own_file(three):
    grant(three, "s1,01,excused,ill", "s3,01,excused,")
    table = pandas.read_csv(io.BytesIO(written(three, "csv")[1]))
    assert {who: {*table[table.student == who].score} for who in ("s1", "s3")} == {"s1": {"EX"}, "s3": {"EX"}}
    assert "EX" not in {*table[table.student == "s2"].score}


@pytest.mark.parametrize(
    "granted, now",
    [("", "0"), ("s3,01,1 week,", "0"), ("s3,01,never late,", ""), ("s3,01,2099-01-01T00:00:00+00:00,", "")],
)
def test_who_handed_nothing_in_gets_0_on_demand_when_the_time_is_over(three, granted, now):
    grant(three, granted)
    assert cells(three, "canvas")[0]["s3"] == ""
    found, notes = cells(three, "canvas", zero=True)
    assert found["s3"] == now and found["s1"] == f"{points(three):g}"
    assert (f"{NAME}: no submission, so 0, of s3" in notes) == (now == "0")
    table = report.scores(three, list(three.notebooks), absent={NAME: {"s3": 0.0}})
    assert {*table[table.student == "s3"].score} == {0.0}
    assert table[table.student == "s3"].max_score.sum() == points(three)


def test_before_the_deadline_nobody_gets_0(three):
    (entry,) = three.notebooks
    later = datetime.datetime(2099, 2, 1, tzinfo=datetime.UTC)
    early = three.model_copy(update={"notebooks": (entry.model_copy(update={"deadline": later}),)})
    assert cells(early, "canvas", zero=True)[0]["s3"] == ""
    (three.tree / "students.csv").unlink()
    with pytest.raises(CourseError, match="--zero needs to know who is in the class"):
        cells(three, "canvas", zero=True)


def test_a_section_is_exported_alone(three):
    found, notes = cells(three, "moodle", section="tue")
    assert {*found} == {"s2", "s3"} and notes == [f"{NAME}: no submission of s3"]
    with pytest.raises(CourseError, match=r"there is no section Wed in .*has Mon, Tue"):
        cells(three, "moodle", section="Wed")


def of_class(rows, total):
    """Totals of students with these scores of notebooks of 10, 20 and 10 points; a word says why it is none."""
    entries = course.load().notebooks[:3]
    columns = [
        exports.Column(
            entry.name,
            most,
            {who: row[at] for who, row in rows.items() if not isinstance(row[at], str)},
            frozenset(who for who, row in rows.items() if row[at] == "EX"),
            frozenset(who for who, row in rows.items() if row[at] == "absent"),
        )
        for at, (entry, most) in enumerate(zip(entries, (10, 20, 10), strict=True))
    ]
    people = [exports.Student(who) for who in rows]
    return exports.totals_rows(exports.Class(people, columns, True, dict.fromkeys(rows, ""), total, entries))


@pytest.mark.parametrize(
    "row, how, dropped, total",
    [
        ((10, 20, 10), {}, "", "100"),
        ((5, 20, 0), {}, "", "50"),  # (0.5 + 1 + 0) / 3
        ((5, 20, 0), {"weights": {"02": 2}}, "", "62.5"),  # (0.5 + 2 + 0) / 4
        ((5, 20, 0), {"drop": 1}, "03", "75"),
        ((5, 20, 0), {"drop": 1, "weights": {"01": 3}}, "03", "62.5"),  # (1.5 + 1) / 4
        ((5, 10, 10), {"drop": 1, "weights": {"01": 2}}, "02", "66.6667"),  # of equal ones the one that weighs less
        ((5, 20, 0), {"drop": 5}, "01 03", "100"),
        ((5, "EX", 10), {}, "", "75"),
        ((5, "EX", 10), {"drop": 1}, "01", "100"),
        ((5, 20, "absent"), {}, "", ""),
        ((5, 20, "absent"), {"drop": 1}, "03", "75"),
        ((5, "waits", 10), {"drop": 1}, "", ""),
        (("EX", "EX", "EX"), {}, "", ""),
        ((5, 20, 0), {"weights": {"03": 0}}, "", "75"),
        ((5, 20, 10), {"points": 6}, "", "5"),
    ],
)
def test_totals_with_weights_and_drops(row, how, dropped, total):
    head, found = of_class({"ada": row}, course.Total(**how))
    assert head[-1] == f"total of {how.get('points', 100)}" and head[:4] == [
        "student",
        "last_name",
        "first_name",
        "section",
    ]
    assert found[-2:] == [dropped, total]
    assert found[4:7] == [str(one) if one == "EX" or not isinstance(one, str) else "" for one in row]


def test_people_are_in_the_order_of_their_names_whatever_their_case(three):
    names = ["Berg", "da Silva", "Riddle", "von Ulm"]
    lines = [f"s{place},A,{name}" for place, name in zip((3, 1, 2, 4), names, strict=True)]
    (three.tree / "students.csv").write_text("\n".join(["id,first_name,last_name", *reversed(lines)]) + "\n")
    path = three.tree.parent / "totals.csv"
    exports.write_scores(three, list(three.notebooks), path, "totals")
    assert [row["last_name"] for row in csv.DictReader(io.StringIO(path.read_text()))] == names


def test_totals_are_a_file_of_the_class(three):
    found, _ = cells(three, "totals")
    assert found == {"s1": "100", "s2": "100", "s3": ""}
    assert cells(three, "totals", zero=True)[0]["s3"] == "0"
    with pytest.raises(CourseError, match="totals are of whole notebooks"):
        cells(three, "totals", exercises=True)
    with pytest.raises(ValueError, match=r"\[total\] weights: there is no notebook 99"):
        course.Course.model_validate(three.model_dump() | {"total": {"weights": {"99": 1}}})
