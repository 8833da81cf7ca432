"""What we write into the gradebook is what stock nbgrader's preprocessors write, row by row."""

import subprocess
import sys

import nbformat
import pytest
import sqlalchemy
from helpers import copied, outcome
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc

from autograder.gradebook import course_tree, gradebook_writer, revision
from autograder.grading import grade
from autograder.grading.grading_record import GRADED, students_of

STUDENTS = ("Ada_Perfect", "Bo_Blank", "Zoë_Müller")
LATE = "2031-02-01 12:00:00.000000 UTC"


@pytest.fixture
def two_trees(all_built, tmp_path):
    """The same course twice, graded by nobody yet."""
    return [copied(all_built, tmp_path / name) for name in ("ours", "stock")]


def stock(known, entry, student, text):
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(entry.name, student, timestamp=parse_utc(LATE))
    names = {
        "notebook": entry.name,
        "assignment": entry.name,
        "student": student,
        "db_url": course_tree.database(known),
    }
    for step in (SaveAutoGrades(), AssignLatePenalties()):
        step.preprocess(nbformat.reads(text, as_version=4), {"nbgrader": names})


def ours(known, entry, student, text):
    course_tree.write(course_tree.place(known, "submitted", entry, student).with_name("timestamp.txt"), LATE + "\n")
    with gradebook_writer.open_recorder(known) as recorder:
        recorder.record(entry, student, text)


def test_the_gradebook_is_the_one_that_stock_nbgrader_writes(demo_run, two_trees):
    graded, _, _ = demo_run
    assert {one.status for one in grade.grade(graded, list(graded.notebooks), list(STUDENTS))} == {GRADED}
    for again in (False, True):
        for entry in graded.notebooks:
            for student in {*STUDENTS} & {*students_of(graded, entry)}:
                text = course_tree.place(graded, "autograded", entry, student).read_text()
                ours(two_trees[0], entry, student, text)
                stock(two_trees[1], entry, student, text)
        (wrote, *_), (wanted, *_) = map(outcome, two_trees)
        assert wrote == wanted and len(wanted[0]) > 100 and len(wanted[1]) > 100
        if not again:  # a person marks written answers and some others, and everything is handed in once more
            for known in two_trees:
                engine = sqlalchemy.create_engine(course_tree.database(known))
                names = "select id from base_cell where name like 'written_%' or name like 'check_%_1'"
                marked = f"update grade set manual_score = 0.5, needs_manual_grade = 0 where cell_id in ({names})"
                with engine.begin() as connection:
                    assert connection.execute(sqlalchemy.text(marked)).rowcount > 10
                engine.dispose()


def test_a_new_gradebook_states_the_revision_that_nbgrader_would_look_up(all_built):
    script = "import autograder; from nbgrader.api import get_alembic_version; print(get_alembic_version())"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert revision.newest() == ended.stdout.strip() != ""
    engine = sqlalchemy.create_engine(course_tree.database(all_built))
    with engine.connect() as connection:
        (row,) = connection.execute(sqlalchemy.text("select version_num from alembic_version"))
    engine.dispose()
    assert row == (revision.newest(),)
