"""The course at a glance: README's list comes from course.toml, and who uses whom is read from the notebooks."""

from autograder import course
from autograder.author import checks, overview

COURSE = course.load()


def test_readme_has_the_list_of_course_toml(tmp_path, monkeypatch):
    assert not overview.write_readme(COURSE, check=True), "run `autograder build`"
    monkeypatch.setattr(overview, "README", tmp_path / "README.md")
    for entry in COURSE.notebooks:
        assert entry.builds and entry.measures
    overview.README.write_text(f"before\n{overview.BEGIN}\nold\n{overview.END}\nafter\n")
    assert overview.write_readme(COURSE, check=True) and "old" in overview.README.read_text()
    assert overview.write_readme(COURSE) and not overview.write_readme(COURSE)
    lines = overview.README.read_text().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("before", "after", len(COURSE.notebooks) + 4)


def test_a_readme_without_marks_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "README", tmp_path / "README.md")
    overview.README.write_text("of somebody else's course\n")
    assert not overview.write_readme(COURSE)
    assert overview.README.read_text() == "of somebody else's course\n"


def test_exercises_have_titles_points_minutes_and_what_they_use():
    entry = COURSE.notebook("07")
    found = {one.number: one for one in overview.exercises(COURSE, entry)}
    graded = {number: check.points for number, check in checks.public_checks(entry).items()}
    assert {number: one.points for number, one in found.items() if ".W" not in number} == graded
    assert all(one.title and one.minutes for number, one in found.items() if ".W" not in number)
    assert [number for number in found if ".W" in number] == ["7.W1", "7.W2"]
    assert found["7.4"].uses == ["7.3"]  # its text says so
    assert found["7.8"].uses == ["7.3", "7.6"]  # its cells call them
    assert all(one.uses == [] for number, one in found.items() if number in ("7.1", "7.2", "7.5"))


def test_an_earlier_notebook_can_be_used_and_a_section_of_a_paper_is_none():
    found = {one.number: one for one in overview.exercises(COURSE, COURSE.notebook("09"), {"3.5", "6.7"})}
    assert found["9.9"].uses == ["06"] and found["9.4"].uses == []


def test_decimals_of_results_are_not_exercises_of_other_notebooks():
    """As "2.3 points behind" of 09's text; another notebook's exercise is called by that word."""
    known = {"1.6", "2.3", "3.8", "5.1", "7.7"}
    assert {one.number: one.uses for one in overview.exercises(COURSE, COURSE.notebook("09"), known)}["9.10"] == [
        "9.2",
        "9.3",
    ]
    assert {one.number: one for one in overview.exercises(COURSE, COURSE.notebook("08"), known)}["8.1"].uses == ["5.1"]
    assert "7.7" in {one.number: one for one in overview.exercises(COURSE, COURSE.notebook("11"), known)}["11.5"].uses
