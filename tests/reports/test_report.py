"""The class report: what it says, of whom, and how it looks on a phone, in the dark and on paper."""

import dataclasses
import datetime
import re
import shutil
import statistics
import warnings
import zoneinfo
from concurrent.futures import ThreadPoolExecutor

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from bs4 import BeautifulSoup
from helpers import canned, copied, keep
from typer.testing import CliRunner

from autograder import cli, course
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.gradebook.pseudonyms import Names
from autograder.grading.grading_record import UNGRADABLE, Record
from autograder.reports import charts, items, report
from autograder.reports.layout import duration
from utils.grading.verdict import Outcome

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
STUDENTS = [f"Student_{letter}" for letter in "ABCDEFGHIJKL"]
HOSTILE = "<img src=x onerror=hostile()> said Student A, of student_b, to Studentin"
SAID = "the rows do not sum to 1."


@pytest.fixture(scope="module")
def school(built, tmp_path_factory):
    """A class with records as a worker would make them: each student fails so many exercises, one is refused."""
    known = copied(built, tmp_path_factory.mktemp("report"))
    (entry,) = known.notebooks
    first = canned(known, "first")
    shutil.rmtree(known.tree / "submitted")
    with gradebook_writer.open_recorder(known):
        pass
    for number, student in enumerate(STUDENTS):
        place = course_tree.place(known, "submitted", entry, student)
        course_tree.write(place, "{}")
        when = datetime.datetime(2027, 2, 7, 18, tzinfo=datetime.UTC) + datetime.timedelta(minutes=45 * number)
        course_tree.write(place.with_name("timestamp.txt"), course_tree.timestamp(when))
        job, done, notebook = first
        done = dataclasses.replace(done, student=student, verdicts=list(done.verdicts))
        for index in range(number // 2):
            message = HOSTILE if number == 2 else SAID
            done.verdicts[index] = dataclasses.replace(done.verdicts[index], outcome=Outcome.WRONG, message=message)
        if number == 11:
            done = Record(student, entry.name, UNGRADABLE, f"it is none, {HOSTILE}")
        keep(known, dataclasses.replace(job, student=student), done, "" if number == 11 else notebook)
    with gradebook_writer.open_recorder(known) as recorder:
        marked = recorder.gradebook.find_submission_notebook(entry.name, entry.name, STUDENTS[0])
        mark = next(mark for mark in marked.grades if role_of(mark.name) is CellRole.WRITTEN)
        mark.manual_score, mark.needs_manual_grade = 1.5, False
        recorder.gradebook.db.commit()
    return known


def soup_of(known, **options):
    return BeautifulSoup(report.write_report(known, list(known.notebooks), **options).read_text(), "html.parser")


def rows(soup, label):
    """The rows of a table, as texts."""
    region = soup.find("div", {"aria-label": re.compile(label)})
    return [[" ".join(cell.text.split()) for cell in row(["th", "td"])] for row in region("tr")]


def test_nobody_is_named_unless_it_is_asked_for(school):
    path = report.write_report(school, list(school.notebooks))
    text, codes = path.read_text(), {Names(school).of(student) for student in STUDENTS}
    assert len(codes) == len(STUDENTS) and all(code in text for code in codes)
    for student in STUDENTS:
        assert student not in text and student.replace("_", " ") not in text
    assert "to Studentin" in text, "no word of a longer one is a name"
    assert "Student_B" in report.write_report(school, list(school.notebooks), names=True).read_text()
    for words, there in ((["report", "--names"], True), (["report"], False)):
        ended = CliRunner().invoke(cli.app, ["--tree", str(school.tree), *words, "01"])
        assert not ended.exception, ended.exception
        assert ("Student_B" in path.read_text()) is there


def test_a_code_is_the_same_for_ever_and_another_in_another_course(school, fresh):
    (fresh.tree / "secret").write_bytes(bytes(range(32)))
    assert Names(school).of("ada") == Names(school).of("ada") != Names(fresh).of("ada")
    assert re.fullmatch("[a-z2-7]{6}", Names(school).of("ada"))


def test_names_are_replaced_however_a_sentence_has_them(fresh):
    (fresh.tree / "students.csv").write_text("id,first_name,last_name,email\nabc1,Ada,Byron King,ada@x.example\n")
    names = Names(fresh)
    code = names.of("abc1")
    for one in (
        "abc1",
        "ABC1",
        "Ada Byron King",
        "byron king, ada",
        "Byron King Ada",
        "ada@x.example",
        "ada byron king",
    ):
        assert names.within(f"no run of {one}.") == f"no run of {code}.", one
        assert (
            names.unnamed(f"no run of '{one}'.") == names.within(f"no run of '{one}'.") == "no run of '[a student]'."
        ), one
    assert names.within("abc12 and Adam") == "abc12 and Adam"


@pytest.mark.parametrize(
    ("first", "last", "written"),
    [
        ("Di", "Mistaken", "D\u0131 M\u0131staken"),
        ("Selin", "Y\u0131ld\u0131z", "SELIN YILDIZ"),
        ("Selin", "Y\u0131ld\u0131z", "selin y\u0131ld\u0131z"),
        ("Hanna", "Strau\u00df", "Hanna Strau\u00df"),
        ("Hanna", "Strau\u00df", "HANNA STRAUSS"),
        ("Ay\u015fe", "\u0130pek", "Ay\u015fe \u0130pek"),
        ("Ay\u015fe", "\u0130pek", "AY\u015eE \u0130PEK"),
        ("Ay\u015fe", "\u0130pek", "ayse ipek"),
        ("Zo\u00eb", "M\u00fcller", "Zoe\u0308 Mu\u0308ller"),
        ("Zo\u00eb", "M\u00fcller", "Zo\u00eb\u00a0\u00adM\u00fcller"),
        ("Sean", "O'Brien", "O'Brien,\n  Sean"),
        ("\u0141ukasz", "Wr\u00f3bel", "Lukasz Wrobel"),
        ("\u0915\u093f\u0930\u0923", "\u0930\u093e\u0935", "\u0915\u093f\u0930\u0923 \u0930\u093e\u0935"),
        ("\u674e", "\u5c0f\u9f99", "\u674e \u5c0f\u9f99"),
        ("\u0393\u03b9\u03ce\u03c1\u03b3\u03bf\u03c2", "X", "\u0393\u0399\u03a9\u03a1\u0393\u039f\u03a3 X"),
    ],
)
def test_a_name_is_found_however_its_letters_are_written(fresh, first, last, written):
    (fresh.tree / "students.csv").write_text(f"id,first_name,last_name\nabc1,{first},{last}\nabc2,Bo,Blank\n")
    names = Names(fresh)
    assert names.within(f"(\u0130\u00df) no run of {written}.") == f"(\u0130\u00df) no run of {names.of('abc1')}."
    assert (
        names.within("\u0915\u0941\u0930\u0923 \u0930\u093e\u0935") == "\u0915\u0941\u0930\u0923 \u0930\u093e\u0935"
    ), "another vowel sign"
    assert names.unnamed(f"\u0130 {written}, Bo Blank!") == "\u0130 [a student], [a student]!"


def test_a_message_that_lists_names_does_not_become_a_list_of_codes(school):
    """Its author would learn whose each code is. A flag, which the grader writes, has codes; an id is told exactly."""
    names, codes = Names(school), [Names(school).of(student) for student in STUDENTS]
    listed = ", ".join(STUDENTS)
    assert names.unnamed(f"ValueError: {listed}") == "ValueError: " + ", ".join(["[a student]"] * len(STUDENTS))
    assert names.within(f"also handed in by {listed}") == f"also handed in by {', '.join(codes)}"
    said = f"its runs say that {STUDENTS[0]!r} made them: is that {STUDENTS[1]}?"
    assert names.within(said) == f"its runs say that '[a student]' made them: is that {codes[1]}?"
    (school.tree / "submitted" / "Student-A").mkdir()
    try:
        names = Names(school)
        assert names.within("Student-A and Student_A") == f"{names.of('Student-A')} and {names.of('Student_A')}"
    finally:
        (school.tree / "submitted" / "Student-A").rmdir()
    text = report.write_report(school, list(school.notebooks)).read_text()
    assert "said [a student], of [a student], to Studentin" in text


def test_it_says_what_share_of_the_points_was_earned_and_what_most_were_told(school):
    soup = soup_of(school)
    found = rows(soup, "exercises")
    assert found[0][:3] == ["exercise", "points earned", "discrimination"]
    failed = [sum(number // 2 > index for number in range(11)) for index in range(len(found) - 1)]
    assert failed[:5] == [9, 7, 5, 3, 1]
    for row, many in zip(found[1:], failed, strict=True):
        assert row[1] == f"{100 * (11 - many) / 11:.0f}%" and row[3:6] == [str(11 - many), "0", str(many)], row
        assert (row[2] == items.ALL_ALIKE) == (many == 0) and (many == 0 or float(row[2]) > 0)
    won = [float(number // 2 <= 0) for number in range(11)]
    others = [
        sum(
            points
            for index, points in enumerate(course_tree.exercises(school, school.notebooks[0]).values())
            if index >= max(1, number // 2)
        )
        for number in range(11)
    ]
    points = next(iter(course_tree.exercises(school, school.notebooks[0]).values()))
    assert float(found[1][2]) == round(statistics.correlation([points * one for one in won], others), 2)
    told = rows(soup, "sentences")
    assert ["1.1", SAID, "8"] in told and ["1.2", SAID, "7"] in told
    assert rows(soup, "written answers")[1][1:3] == ["1", "10"]


def test_it_says_who_is_late_and_who_is_refused(school):
    soup = soup_of(school, names=True)
    assert [row[0] for row in rows(soup, "refused")[1:]] == [STUDENTS[11]]
    assert "it is none" in rows(soup, "refused")[1][1]
    late = {row[0]: row[1] for row in rows(soup, "late submissions")[1:]}
    due = school.notebooks[0].deadline
    begin = datetime.datetime(2027, 2, 7, 18, tzinfo=datetime.UTC)
    hours = [((begin + datetime.timedelta(minutes=45 * number)) - due).total_seconds() / 3600 for number in range(12)]
    assert late == {STUDENTS[number]: duration(3600 * hour) for number, hour in enumerate(hours) if hour > 0}
    assert len(late) > 2 and {one.split()[1] for one in late.values()} == {"minutes", "hours"}
    assert re.search(r"written \d{4}-\d\d-\d\d \d\d:\d\d UTC, attention-graded \d", soup.text)


def test_a_notebook_that_nobody_handed_in_is_left_out(school, fresh):
    assert len(soup_of(school.model_copy(update={"notebooks": course.load().notebooks}))("h2")) == 1
    page = soup_of(fresh)
    assert not page("h2") and "Nothing was handed in yet" in page.text and not page("table")


def test_charts_stand_in_the_page_and_say_what_they_show(school):
    soup = soup_of(school)
    histogram, line = soup("svg")
    assert histogram["role"] == line["role"] == "img" and "25: 2" in histogram["aria-label"]
    assert "12 submissions, the first at 2027-02-07 19:00" in line["aria-label"]
    assert "7 before the deadline, 2027-02-07 23:59" in line["aria-label"]
    ids = [part["id"] for part in soup(id=True)]
    assert len(ids) == len({*ids}) > 4
    assert "var(--bar)" in str(histogram) and "#010101" not in str(soup)
    assert not soup("img") and not soup("link") and len(soup("script")) == 1


def test_times_are_shown_whatever_their_span():
    zone = datetime.UTC
    begin = datetime.datetime(2027, 2, 7, tzinfo=zone)
    for span in (0, 1, 60, 3600, 86400, 10**6, 10**7, 10**8):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drawn = charts.time_line([begin, begin + datetime.timedelta(seconds=span)], begin, zone)
        assert drawn.startswith("<svg role=") and "2 submissions" in drawn
    far = charts.time_line([begin], begin + datetime.timedelta(days=60), zone)
    assert "deadline" not in far
    assert "1 before the deadline" in charts.time_line([begin], begin + datetime.timedelta(days=1), zone)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
@pytest.mark.parametrize("span", [600, 86400, 10**6])
def test_the_label_of_the_times_and_the_date_do_not_overlap(name, span, monkeypatch):
    drawn = []
    monkeypatch.setattr(charts, "as_svg", lambda figure, told: drawn.append(figure))
    begin = datetime.datetime(2027, 2, 7, 18, 30, tzinfo=zoneinfo.ZoneInfo(name))
    charts.time_line([begin, begin + datetime.timedelta(seconds=span)], begin, begin.tzinfo)
    (axes,) = drawn[0].axes
    drawn[0].draw_without_rendering()
    label, date = axes.xaxis.label.get_window_extent(), axes.xaxis.get_offset_text().get_window_extent()
    assert axes.xaxis.get_offset_text().get_text() and label.width > 50 and not label.overlaps(date)


def test_points_of_checks_and_of_written_answers_are_told_apart(school):
    (entry,) = school.notebooks
    whole, by_hand = sum(course_tree.exercises(school, entry).values()), course_tree.points_by_hand(school, entry)
    assert (whole, by_hand) == (25, 2)
    text = " ".join(soup_of(school).text.split())
    assert "of 25 points that checks give (with the written answers 27)" in text


@pytest.mark.parametrize("points", [1, 2, 11, 12, 13, 25, 40])
def test_every_score_is_in_one_bar(points):
    told = re.search('aria-label="([^"]*)"', charts.histogram(list(range(points + 1)), points))[1]
    counts = [int(count) for count in re.findall(r"(?<![\d]): (\d+)|: (\d+)", told) for count in count if count]
    assert sum(counts) == points + 1 and len(counts) <= charts.MOST_BINS + 1


def test_discrimination_leaves_the_exercise_itself_out():
    total = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    won = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    rest = [whole - one for whole, one in zip(total, won, strict=True)]
    numpy = pytest.importorskip("numpy")
    assert items.discrimination(won, rest) == pytest.approx(numpy.corrcoef(won, rest)[0, 1])
    assert items.discrimination(won[:9], rest[:9]) == items.TOO_FEW
    assert items.discrimination([1] * 10, rest) == items.discrimination(won, [3] * 10) == items.ALL_ALIKE
    assert items.share_earned([0, 2, 2, 0], 2) == 0.5 and items.share_earned([], 2) is None
    with pytest.raises(ValueError):
        items.discrimination(won, rest[1:])


SORT = """heading => {
    const table = document.querySelector("[aria-label$=exercises] table");
    const button = [...table.querySelectorAll("th button")].find(one => one.textContent === heading);
    button.focus();
    return [...table.tHead.rows[0].cells].indexOf(button.parentElement);
}"""
COLUMN = """column => {
    const table = document.querySelector("[aria-label$=exercises] table");
    return [[...table.tBodies[0].rows].map(row => row.cells[column].dataset.value ?? row.cells[column].textContent),
        table.tHead.rows[0].cells[column].getAttribute("aria-sort"), table.querySelectorAll("[aria-sort]").length];
}"""


def looked_at(path, axe):
    """The page in a browser: its widths, axe-core's findings, columns sorted by the keyboard, what was asked for."""
    from playwright.sync_api import sync_playwright

    found = {"wide": [], "axe": [], "sorted": [], "asked": [], "said": []}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for width, look in ((400, {"color_scheme": "light"}), (1200, {"color_scheme": "dark"})):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("request", lambda request: found["asked"].append(request.url))
            page.on("console", lambda message: found["said"].append(message.text))
            page.on("pageerror", lambda error: found["said"].append(str(error)))
            page.emulate_media(**look)
            page.goto(path.as_uri())
            found["wide"].append(page.evaluate("document.documentElement.scrollWidth"))
            page.close()
            context = browser.new_context(bypass_csp=True, viewport={"width": width, "height": 900}, **look)
            page = context.new_page()
            page.goto(path.as_uri())
            page.evaluate(axe)
            found["axe"] += [(one["impact"], one["id"]) for one in page.evaluate("axe.run()")["violations"]]
            context.close()
        page = browser.new_page()
        page.goto(path.as_uri())
        for heading in ("passed", "passed", "discrimination", "exercise"):
            column = page.evaluate(SORT, heading)
            page.keyboard.press("Enter")
            found["sorted"].append(page.evaluate(COLUMN, column))
        found["paper"] = len(page.pdf(format="A4"))
        browser.close()
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
def test_it_fits_a_phone_sorts_by_keyboard_and_asks_for_nothing(school):
    path = report.write_report(school, list(school.notebooks))
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(looked_at, path, AXE_FILE_PATH.read_text()).result()
    assert found["wide"] == [400, 1200] and found["said"] == [] and {*found["asked"]} == {path.as_uri()}
    assert [one for one in found["axe"] if one[0] in ("moderate", "serious", "critical")] == []
    (up, first, one), (down, second, _), (told, _, _), (numbers, _, _) = found["sorted"]
    assert (first, second, one) == ("ascending", "descending", 1)
    assert [int(cell) for cell in up] == sorted(map(int, up)) and [int(cell) for cell in down] == sorted(map(int, up))[
        ::-1
    ]
    stated = [float(cell) for cell in told if cell]
    assert stated == sorted(stated) and len(stated) > 3 and told[: len(stated)] == [cell for cell in told if cell]
    assert numbers == [str(place) for place in range(1, len(numbers) + 1)]
    assert found["paper"] > 10_000


def test_the_table_of_all_notebooks_adds_up(school, tmp_path):
    """An excused submission is neither graded nor refused: it has a column of its own."""
    known = copied(school, tmp_path)
    (entry,) = known.notebooks
    (known.tree / "extensions.csv").write_text(f"student,notebook,extension\n{STUDENTS[0]},01,excused\n")
    page = report.write_report(known, [entry, entry])  # the table is there for several
    head, row, _ = rows(BeautifulSoup(page.read_text(), "html.parser"), "All notebooks")
    of = dict(zip(head, row, strict=True))
    counts = [int(of[column]) for column in ("graded", "refused", "excused")]
    assert counts[1:] == [1, 1] and sum(counts) == int(of["submissions"]) == len(STUDENTS)
