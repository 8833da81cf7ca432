"""Answers written as edits: what comes of them, what their errors say, and that formatter and reader keep them."""

import subprocess
import sys

import pytest

from autograder import cli, course
from autograder.author import answers, edits

SOLUTION = '''\
class Mean:
    """The mean of what is added."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.total = 0
        self.count = 0
        ### END SOLUTION

    def add(self, value):
        """One more."""
        ### BEGIN SOLUTION
        self.total += value
        self.count += 1
        ### END SOLUTION


def mean(values):
    ### BEGIN SOLUTION
    total = Mean()
    for value in values:
        total.add(value)

    return total.total / total.count
    ### END SOLUTION'''
PLAIN = "\n".join(line for line in SOLUTION.splitlines() if line.strip() not in edits.MARKS)


@pytest.mark.parametrize(
    "edit, old, new",
    [
        ("# - self.count += 1\n# + self.count += value", "self.count += 1", "self.count += value"),
        ("# -         self.count += 1\n# +         self.count += 2", "self.count += 1", "self.count += 2"),
        ("# - self.total += value", "        self.total += value\n", ""),
        ("#   total = Mean()\n# + values = values[1:]", "= Mean()\n", "= Mean()\n    values = values[1:]\n"),
        ("# + @once\n#   def mean(values):", "def mean(", "@once\ndef mean("),
        ("# + import this\n# +\n# +\n#   class Mean:", "class Mean:", "import this\n\n\nclass Mean:"),
        (
            "# - self.total = 0\n# - self.count = 0\n# + self.total, self.count = 0, 1\n# + if self:\n# +     pass",
            "        self.total = 0\n        self.count = 0\n",
            "        self.total, self.count = 0, 1\n        if self:\n            pass\n",
        ),
        (
            "#           total.add(value)\n#\n# -     return total.total / total.count\n# +     return total",
            "return total.total / total.count",
            "return total",
        ),
        (
            "#       total.add(value)\n# -\n# - return total.total / total.count\n# +     return total.total",
            "add(value)\n\n    return total.total / total.count",
            "add(value)\n        return total.total",
        ),
        (
            "#   self.total += value\n# - self.count += 1\n# + pass\n#",
            "        self.count += 1\n",
            "        pass\n",
        ),
    ],
)
def test_an_edit_is_made_once_and_nothing_else_changes(edit, old, new):
    assert edits.is_edit(edit) and PLAIN.count(old) == 1
    assert edits.edited(SOLUTION, edit) == PLAIN.replace(old, new)


def test_edits_of_one_cell_are_made_to_the_solution_as_it_was_in_any_order():
    first = "# - self.count = 0\n# + self.count = 1\n# + self.count += 1"
    second = "# - self.count += 1\n# + self.count += 2"
    wanted = PLAIN.replace("+= 1", "+= 2").replace("count = 0", "count = 1\n        self.count += 1")
    assert edits.edited(SOLUTION, f"{first}\n\n{second}") == wanted
    assert edits.edited(SOLUTION, f"{second}\n\n\n{first}") == wanted


BAD = {
    "no such line": ("# - self.sum += value", r'"self.sum \+= value" is not .* closest to it: "self.total \+= value"'),
    "part of a line": ("# - self.count\n# + pass", r'"self.count" is not a line .*: "self.count (= 0|\+= 1)" and'),
    "not together": ("# - self.total = 0\n# - self.count += 1", 'lines from "self.total = 0" on .* below the other'),
    "indented": ("# - self.total = 0\n# -     self.count = 0", "indented otherwise; an empty line divides two"),
    "two matches": ("# - pass\n# + return", r'"pass" is found 2 times in the solution; add the line before or after'),
    "nothing changed": ("# - self.total = 0\n# + self.total = 0", 'an edit changes nothing: "self.total = 0" stays'),
    "no old text": ("# + self.total = 0", "an edit has no old text; put the line before or after"),
    "blank old text": ("# -\n# + self.total = 0", "an edit has no old text"),
    "neither": ("#   self.total = 0", 'neither a line with "-" nor one with "\\+"'),
    "nothing at all": ("#", 'neither a line with "-"'),
    "another sign": ("# self.total = 0", 'the line "# self.total = 0" begins with none of "# - "'),
    "no space": ("# -self.total = 0", 'the line "# -self.total = 0" begins with none of'),
    "one good, one bad": ("# - self.total = 0\n\n# - self.sum = 0", '"self.sum = 0" is not a line'),
    "one place twice": ("# - self.count = 0\n\n#   self.count = 0\n# + pass", 'two edits change "self.count = 0"'),
    "longer than the solution": (
        "# - return total.total / total.count\n# - return 0",
        '"return 0" is not a line of the solution',
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit, says", BAD.values(), ids=BAD)
def test_an_edit_that_cannot_be_made_says_why(edit, says):
    solution = SOLUTION.replace('"""One more."""', "pass") + "\n\n\ndef nothing():\n    pass"
    with pytest.raises(ValueError, match=says) as raised:
        edits.edited(solution, edit)
    assert "\n" not in str(raised.value)


FILE = '''\
# %% wrong="9.1" name="a cell" says="whole"
def mean(values):
    return 0


# %% wrong="9.1" name="an edit" says="it's the first" private=true
#           total.add(value)
#
# -     return total.total / total.count
# +     return "it's the first" if total else """the
# +
# +     last"""

# - self.count += 1

# %% right="9.1" name="a right one"
# - total = Mean()
# + total: Mean = Mean()

# %% wrong="9.1" name="another cell" says="last"
import math


def mean(values):
    return math.nan
'''


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a file of answers to one exercise; the course then has one notebook."""
    monkeypatch.setattr(answers, "folder_of", lambda entry: tmp_path)
    (tmp_path / "notebook.py").write_text(f'# %% exercise="9.1"\n{SOLUTION}\n')
    path = tmp_path / "wrong_answers.py"

    def write(text):
        path.write_text(text)
        return path

    return write


def test_cells_and_edits_share_a_file_that_formatter_and_linter_leave_alone(written):
    path = written(FILE)
    name = str(course.ROOT / "solutions" / "99_test" / path.name)  # for the settings of this folder
    for command in (["format", "--diff"], ["check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        done = subprocess.run(ruff, input=FILE, capture_output=True, text=True, cwd=course.ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
    a_cell, edit, right, another = answers.answer_cases(None)
    assert a_cell.source == "def mean(values):\n    return 0"
    text = '''"it's the first" if total else """the\n\n    last"""'''
    changed = PLAIN.replace("total.total / total.count", text).replace("        self.count += 1\n", "")
    assert edit == answers.AnswerCase("9.1", "an edit", changed, "it's the first", private=True)
    assert right == answers.AnswerCase("9.1", "a right one", PLAIN.replace("total = M", "total: Mean = M"))
    assert another.source.startswith("import math") and another.source.endswith("return math.nan")
    for case in (edit, right):
        compile(case.source, case.name, "exec")


@pytest.mark.parametrize(
    "marker, edit, says",
    [
        ('wrong="9.1" name="a bad one" says="x"', *BAD["no such line"]),
        ('right="9.1" name="a bad one"', *BAD["no old text"]),
        ('wrong="9.7" name="a bad one" says="x"', "# - self.total = 0", "there is no such exercise in notebook.py"),
        ('wrong="9.1" of="a cat" name="a bad one" says="x"', "# - return 0", 'no answer "a cat" that is a whole cell'),
        ('wrong="9.1" of="an edit" name="a bad one" says="x"', "# - return 0", 'no answer "an edit" that is a whole'),
        ('wrong="9.1" of="a cell" name="a bad one" says="x"', "# - self.total = 0", "is not a line"),
        ('right="9.1" of="a cell" name="a bad one"', "def mean(values):\n    return 1", 'of "a cell", and no edit'),
    ],
)
def test_a_bad_edit_fails_the_build_and_is_named(written, marker, edit, says):
    path = written(f"{FILE}\n\n# %% {marker}\n{edit}\n")
    with pytest.raises(course.CourseError, match=says) as raised:
        cli.build.build(check=True)
    assert str(raised.value).startswith(f'{path}: 9.{7 if "9.7" in marker else 1} "a bad one": ')


def test_an_edit_may_be_of_another_answer(written):
    written(f'{FILE}\n\n# %% wrong="9.1" of="a cell" name="one" says="x"\n# - return 0\n# + return 1\n')
    *_, of_a_cell = answers.answer_cases(None)
    assert of_a_cell == answers.AnswerCase("9.1", "one", "def mean(values):\n    return 1", "x", of="a cell")


def test_a_notebook_without_answers_can_be_built_already(written):
    assert answers.answer_cases(None) == []
