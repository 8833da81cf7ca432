"""No name of a student or of anything else in the gradebook is markup on a page of nbgrader's; all stay readable."""

import contextlib
import csv
import subprocess
import sys
import urllib.parse
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy
from helpers import CHROMIUM, CHROMIUM_ARGUMENTS, canned, copied, formgrader, keep
from nbgrader.api import Gradebook, Student, SubmittedAssignment

from autograder import course as courses
from autograder import html_cleaning, synthetic
from autograder.course import CourseError
from autograder.gradebook import course_tree, gradebook_writer, marks, safe_names
from autograder.grading import grade
from autograder.grading.grading_record import jobs, load_record, students_of
from autograder.intake import collect
from autograder.reports import exports, feedback

ENTRY = courses.load().notebooks[0]
SVG = '<svg onload="hostile()">'
WAYS = (
    f"{SVG} Evil",
    "<img src=x onerror=hostile()>",
    '"><script>hostile()</script>',
    "&lt;svg onload=hostile()&gt; <svg/onload=hostile()>",
    "</title><script>hostile()</script>",
    "<<b>svg onload=hostile()>",
)
HONEST = (
    "O'Brien",
    "Zoë",
    "D'Angelo & Sons",
    "AT&T",
    "Nguyễn Thị Minh Khai",
    "Müller-Lüdenscheidt",
    "李小龙",
    "R&D; x",
)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_name_stays_as_it_is(name):
    assert html_cleaning.name(name) == name


@pytest.mark.parametrize("name", [*WAYS, "Anna\x1b[2J\nLee", "&amp; &#60;", "x" * 500])
def test_a_name_is_the_same_text_whether_a_page_escapes_it_or_not(name):
    from bs4 import BeautifulSoup

    safe = html_cleaning.name(name)
    assert BeautifulSoup(f"<p>{safe}</p>", "html.parser").p.decode_contents(formatter=None) == safe
    assert not {*'<>"'} & {*safe} and 0 < len(safe) <= html_cleaning.MAX_NAME and safe.isprintable()
    assert html_cleaning.name(safe) == safe and len(html_cleaning.name(SVG)) == len(SVG)


def test_assignments_and_cells_have_names_without_markup(tmp_path):
    """They are the author's, and nbgrader's pages print them; each alphabet has no sign of markup."""
    whole = (courses.FOLDER / "course.toml").read_text()
    for key, old in (("name", ENTRY.name), ("course_id", courses.load().course_id)):
        stated = whole.replace(f'{key} = "{old}"', f"{key} = '{old}<b>'")
        assert stated != whole
        (tmp_path / "course.toml").write_text(stated)
        with pytest.raises(CourseError, match=key):
            courses.load(tmp_path / "course.toml")


def hand_in(known, student):
    """A submission as `collect` leaves it, graded, without running anything."""
    job, done, notebook = canned(known, student)
    keep(known, job, done, notebook)


@pytest.fixture(scope="module")
def named(built, tmp_path_factory):
    """A class whose names are markup: from folders and files of downloads, from students.csv, and in an old gradebook.

    By the way that each came: the ids of its students.
    """
    folder = tmp_path_factory.mktemp("named")
    known = copied(built, folder)
    text = synthetic.Maker(known, ENTRY).file().decode()
    names = [way.replace("/", "") for way in WAYS]
    with zipfile.ZipFile(folder / "moodle.zip", "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(f"{name} M_{7000 + number}_assignsubmission_file_/{ENTRY.name}.ipynb", text)
    (folder / "files").mkdir()
    for name in names:
        (folder / "files" / f"{ENTRY.name} {name} F.ipynb").write_text(text)
    taken = [collect.collect(known, folder / "moodle.zip"), collect.collect(known, folder / "files")]
    assert [one.refused for one in taken] == [[], []]
    by_way = {"folders": [student for _, student in taken[0].new], "files": [student for _, student in taken[1].new]}
    assert [len(some) for some in by_way.values()] == [len(WAYS)] * 2
    by_way["listed"] = [f"listed{number}" for number in range(len(WAYS))]
    by_way["honest"] = [f"honest{number}" for number in range(len(HONEST))]
    rows = [
        *((student, way, f"last {way}", f"{way}@x") for student, way in zip(by_way["listed"], WAYS, strict=True)),
        *((student, name, name, f"{student}@x") for student, name in zip(by_way["honest"], HONEST, strict=True)),
    ]
    with (known.tree / "students.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "first_name", "last_name", "email"), *rows])
    for student in (student for some in by_way.values() for student in some):
        hand_in(known, student)
    by_way["old"] = ["old0", f"{SVG} by_hand"]  # the latter in the tree as well: somebody made that folder
    for student in by_way["old"]:
        hand_in(known, "old")
        for part in ("submitted", "autograded", "verdicts", "handins"):
            if (known.tree / part / "old").exists():
                (known.tree / part / "old").rename(known.tree / part / student)
        with sqlite(known) as database:
            name = {"id": student, "first_name": f"first {SVG}", "last_name": f"last {SVG}", "email": f"{SVG}@x"}
            database.execute(sqlalchemy.insert(Student.__table__), name | {"lms_user_id": f"{SVG}7"})
            theirs = SubmittedAssignment.__table__
            database.execute(sqlalchemy.update(theirs).where(theirs.c.student_id == "old").values(student_id=student))
            database.execute(sqlalchemy.delete(Student.__table__).where(Student.__table__.c.id == "old"))
    return known, by_way


@contextlib.contextmanager
def sqlite(known):
    engine = sqlalchemy.create_engine(course_tree.database(known))
    with engine.begin() as database:
        yield database
    engine.dispose()


@pytest.fixture(scope="module")
def settled(named):
    """The same after the next command."""
    known, by_way = named
    with gradebook_writer.open_recorder(known) as recorder:
        recorder.settle(ENTRY)
    return known, by_way


def test_the_next_command_or_build_makes_an_old_gradebook_safe(settled, tmp_path):
    known, by_way = settled
    with marks.reading(known) as gradebook:
        rows = list(gradebook("select * from student", {}))
        marked = marks.marked(gradebook, ENTRY)
    assert len(rows) == len(marked) == sum(map(len, by_way.values()))
    assert not [value for row in rows for value in row if value and {*'<>"'} & {*value}]
    (renamed,) = {*marked} - {student for some in by_way.values() for student in some}
    assert renamed == safe_names.safe_id(by_way["old"][1]) and renamed.startswith("svg_onloadhostile_by_hand_")
    assert marked[renamed].marks == marked["old0"].marks != {}
    assert load_record(known, ENTRY, renamed).student == renamed and renamed in students_of(known, ENTRY)
    assert not list(known.tree.glob("*/<*"))
    again = copied(known, tmp_path)
    with sqlite(again) as database:
        database.execute(sqlalchemy.text("update student set first_name = '<b>' where id = 'old0'"))
    (again.tree / "submitted" / "<b>").mkdir()
    course_tree.build_tree(again)
    with marks.reading(again) as gradebook:
        assert ("‹b›",) in list(gradebook("select first_name from student where id = 'old0'", {}))
    assert (again.tree / "submitted" / safe_names.safe_id("<b>")).is_dir()


def test_grade_takes_a_folder_that_somebody_made_under_a_safe_id(built, tmp_path):
    known = copied(built, tmp_path)
    course_tree.write(course_tree.place(known, "submitted", ENTRY, SVG), "{}")
    (done,) = grade.grade(known, [ENTRY])
    assert done.student == safe_names.safe_id(SVG) and done.status == "ungradable"
    assert [job.student for job in jobs(known, ENTRY)] == [done.student]


def test_names_stay_those_of_roster_export_and_feedback(settled, tmp_path):
    known, by_way = settled
    exports.write_scores(known, [ENTRY], tmp_path / "listed.csv", "moodle")
    with (tmp_path / "listed.csv").open() as file:
        rows = {row["ID number"]: row for row in csv.DictReader(file)}
    for student, way in zip(by_way["listed"], WAYS, strict=True):
        assert rows[student]["First name"] == " ".join(way.split()), "as the roster has it"
        assert rows[student]["Email address"] == f"{way}@x"
    with marks.reading(known) as gradebook:
        called = {one.id: one for one in marks.students(gradebook)}
    for student, name in zip(by_way["honest"], HONEST, strict=True):
        assert (called[student].first_name, called[student].last_name) == (name, name)
    assert called["listed0"].first_name == "‹svg onload=”hostile()”› Evil"
    pages = feedback.write_feedback(known, [ENTRY])
    assert {page.parts[-3] for page in pages} == {*called}
    (known.tree / "students.csv").rename(known.tree / "away.csv")
    try:
        exports.write_scores(known, [ENTRY], tmp_path / "unlisted.csv", "canvas")
        with (tmp_path / "unlisted.csv").open() as file:
            names = {row["Student"] for row in csv.DictReader(file)}
    finally:
        (known.tree / "away.csv").rename(known.tree / "students.csv")
    assert f"M, {WAYS[0].replace('/', '')}" in names, "as the platform's download has it"


FILLED = """
window.ran.length ? true : !window.formgrader ? !document.body.innerText.includes("Loading")
    : formgrader.comments && formgrader.comments.loaded && formgrader.grades.loaded
"""


def looked_at(pages):
    """What each page ran, and its text once its own scripts have filled it, with what only a search field shows."""
    from playwright.sync_api import sync_playwright

    ran, texts = {}, {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.add_init_script("window.ran = []; window.hostile = () => window.ran.push(document.title)")
        page.route("**/mathjax/**", lambda route: route.abort())
        for name, address in pages.items():
            page.goto(address, wait_until="load")
            page.wait_for_function(FILLED)
            for box in page.locator("input[type=search]").all():
                box.fill("a")
                box.fill("")
            page.evaluate("window.toggleAllNames && toggleAllNames(); window.toggle_name && toggle_name(true)")
            page.wait_for_timeout(50)
            if found := page.evaluate("window.ran"):
                ran[name] = found
            texts[name] = page.inner_text("body")
        browser.close()
    return ran, texts


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
def test_no_name_runs_on_any_page_of_formgrader(settled):
    known, by_way = settled
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        numbers = {one.student.id: one.id for one in gradebook.notebook_submissions(ENTRY.name, ENTRY.name)}
    assert len(numbers) == sum(map(len, by_way.values()))
    some = [next(one for one in numbers if one.startswith("svg_onloadhostile_by_hand_")), "old0", "honest2"]
    some += [by_way["folders"][0], by_way["files"][0], *by_way["listed"]]
    breaking = urllib.parse.quote('"-hostile()-"</script><script>hostile()</script>', safe="")
    with formgrader(known.tree) as server:
        base = f"{server}/formgrader"
        pages = {
            **{name: f"{base}/{name}" for name in ("manage_assignments", "gradebook", "manage_students")},
            "submissions": f"{base}/manage_submissions/{ENTRY.name}",
            "notebooks": f"{base}/gradebook/{ENTRY.name}",
            "notebook": f"{base}/gradebook/{ENTRY.name}/{ENTRY.name}",
            **{f"student {one}": f"{base}/manage_students/{one}" for one in some[:2]},
            **{f"student's notebooks {one}": f"{base}/manage_students/{one}/{ENTRY.name}" for one in some[:2]},
            **{f"submission {one}": f"{base}/submissions/{numbers[one]}/" for one in some},
            # A link in a submission may lead to these: they print what their address holds.
            "asked for a student": f"{base}/manage_students/{breaking}",
            "asked for an assignment": f"{base}/manage_students/x/{breaking}",
            "asked for submissions": f"{base}/manage_submissions/{breaking}",
            "asked for notebooks": f"{base}/gradebook/{breaking}",
            "asked for a notebook": f"{base}/gradebook/x/{breaking}",
        }
        path = course_tree.place(known, "autograded", ENTRY, "old0")  # formgrader's page of a missing file
        path.rename(path.with_suffix(".away"))
        pages["missing"] = f"{base}/submissions/{numbers['old0']}/"
        del pages["submission old0"]
        with ThreadPoolExecutor(1) as thread:
            try:
                ran, texts = thread.submit(looked_at, pages).result()
            finally:
                path.with_suffix(".away").rename(path)
    assert ran == {}
    assert "‹svg onload=”hostile()”› Evil" in texts["manage_students"]
    for name in HONEST:
        assert f"{name}, {name}" in texts["manage_students"] and f"{name}, {name}" in texts["submissions"]
    assert "D'Angelo & Sons, D'Angelo & Sons" in texts["submission honest2"]
    assert "‹svg onload=”hostile()”› Evil" in texts["submission listed0"]
    assert "encountered an error" in texts["missing"]  # nbgrader 0.9.6 lacks a template of that page
    assert "hostile()" in texts["asked for notebooks"] and "hostile()" in texts["asked for a student"]


def test_the_pages_own_configuration_escapes_what_templates_print(built):
    """What the browser shows above follows from two things; this is the second: nothing is printed as it is."""
    code = (
        "from nbgrader.server_extensions.formgrader import formgrader, handlers; "
        "env = formgrader.Environment(loader=formgrader.FileSystemLoader([handlers.template_path])); "
        "print(env.get_template('manage_students_assignments.tpl').render(base_url='', student_id='\"<b>'))"
    )
    settings = (built.tree / "jupyter_server_config.py").read_text()
    settings = settings.replace("c = get_config()", "from traitlets.config import Config; c = Config()")
    ran = subprocess.run([sys.executable, "-c", f"{settings}\n{code}"], capture_output=True, text=True, check=True)
    assert 'var student_id = "&#34;&lt;b&gt;"' in ran.stdout
