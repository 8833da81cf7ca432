"""What a student adds to the set-up and imports of a notebook costs none of the names that were released."""

import nbformat
import pytest

from autograder import course, synthetic
from autograder.author.answers import preamble
from autograder.grading import judge, worker
from autograder.grading.grading_record import HandIn
from autograder.intake import restore

FIRST = "import math"  # the first line of the imports of 01
SEABORN = "No module named 'seaborn'"
ANSWER = "def causal_mask(T):\n    return torch.full((T, T), -math.inf).triu(diagonal=1)\n"


def first(line):
    return lambda source: f"{line}\n{source}"


def last(line):
    return lambda source: f"{source}\n{line}"


def between(line):
    return lambda source: source.replace("\nfrom torch import nn\n", f"\n{line}\nfrom torch import nn\n")


# What is done to the cell, and what a remark says of it ("": there is none).
CHANGES = {
    "a package that is missing": (first("import seaborn as sns"), SEABORN),
    "Colab's drive": (first("from google.colab import drive\ndrive.mount('/content/drive')"), ""),
    "all of Colab": (first("import google.colab\ngoogle.colab.drive.mount('/content/drive')"), ""),
    "a secret and an upload": (
        first("from google.colab import files, userdata\nuserdata.get('HF_TOKEN')\nassert files.upload() == {}"),
        "",
    ),
    "a widget": (first("%matplotlib widget"), ""),
    "the old notebook": (first("%matplotlib notebook"), ""),
    "a window": (first("%matplotlib qt"), ""),
    "a window by name": (first("import matplotlib\nmatplotlib.use('TkAgg')\nimport matplotlib.pyplot"), ""),
    "another window": (first("import matplotlib.pyplot as plt\nplt.switch_backend('QtAgg')"), ""),
    "between": (between("import seaborn as sns\nsns.set_theme()"), SEABORN),
    "after": (last("import seaborn as sns\nsns.set_theme()"), SEABORN),
    "an error of its own": (first("1 / 0"), "ZeroDivisionError"),
    "a syntax error": (first("import numpy as"), "SyntaxError"),
    "an indented line": (last("  import numpy"), "IndentationError"),
    "names from elsewhere": (first("from seaborn import *\nfrom numpy import *"), SEABORN),
    "pip as a magic": (first("%pip install -q seaborn\nimport seaborn"), SEABORN),
    "pip as a command": (first("!pip install -q seaborn\nimport seaborn"), SEABORN),
    "a magic that is missing": (first("%load_ext nb_black"), "nb_black"),
    "an unknown magic": (first("%nb_black"), "nb_black"),
    "a shell": (first("%%bash\nls"), "CalledProcessError"),
    "a deadly line": (first("import os; os._exit(1)"), "kernel died"),
    "all deleted": (lambda source: "", ""),
    "one deleted": (lambda source: source.replace("import math\n", ""), ""),
}


def judged(known, change=None, only=("1.2",), answer=ANSWER, entry=None):
    """What the judge says of a submission of the first notebook whose imports are changed."""
    entry = entry or known.notebooks[0]
    maker = synthetic.Maker(known, entry)

    def changed(notebook):
        if change:
            change(notebook)

    text = maker.file({only[0]: answer} if answer else {}, only, changed)
    notebook, remarks = restore.restore(restore.read(text, 20), maker.released)
    hand_in = HandIn(entry, release=nbformat.writes(maker.released), only=only)
    said = judge.judge(known, hand_in, notebook, restore.shown(notebook, maker.released))
    said.remarks[:0] = remarks
    return said


def in_imports(edit):
    def change(notebook):
        cell = preamble(notebook)[0]
        assert FIRST in cell.source
        cell.source = edit(cell.source)

    return change


@pytest.mark.parametrize("how", CHANGES)
def test_a_line_in_the_imports_costs_nothing_and_is_named(built, how):
    edit, told = CHANGES[how]
    said = judged(built, in_imports(edit))
    assert [one.score for one in said.verdicts] == [2], said
    assert any(told in remark for remark in said.remarks) if told else not said.remarks, said.remarks
    if told == SEABORN:
        (remark,) = (one for one in said.remarks if told in one)
        assert "seaborn is not installed where notebooks are graded" in remark and "ask your instructor" in remark
        assert "a file of your own" in remark
        assert "import" in remark.split("failed")[0], "the line is named"


def test_what_a_student_imports_after_the_line_that_fails_is_there(built):
    said = judged(
        built,
        in_imports(lambda source: f"import seaborn as sns\nsns.set_theme()\n{source}\nimport numpy as np"),
        answer="def causal_mask(T):\n    return torch.from_numpy(np.triu(np.full((T, T), -np.inf), 1)).float()\n",
    )
    assert [one.score for one in said.verdicts] == [2], said


def test_what_a_student_redefines_stays_redefined(built):
    """The released imports run before the student's version, as at home, and not after it."""
    said = judged(built, in_imports(last("def infinity():\n    return -math.inf\nmath = None")), answer=ANSWER)
    assert [one.score for one in said.verdicts] == [0] and "NoneType" in said.verdicts[0].message


@pytest.mark.parametrize("how", ["text", "moved", "own cell before", "answer's own cell", "before the set-up"])
def test_other_places(built, how):
    def change(notebook):
        cells, imports = notebook.cells, preamble(notebook)[0]
        place = cells.index(imports)
        match how:
            case "text":  # turned into Markdown by a key that was pressed by accident
                imports.cell_type = "markdown"
                for name in ("outputs", "execution_count"):
                    imports.pop(name)
            case "moved":
                cells.append(cells.pop(place))
            case "own cell before":
                cells.insert(place, nbformat.v4.new_code_cell("import seaborn\nimport numpy as np"))
            case "before the set-up":
                cells.insert(0, nbformat.v4.new_code_cell("import google.colab, numpy as np"))

    answer = ANSWER
    if how == "answer's own cell":
        answer = f"import seaborn as sns\nsns.set_theme()\n{ANSWER}"
    said = judged(built, change, answer=answer)
    assert [one.score for one in said.verdicts] == [2], said
    assert any(SEABORN in remark for remark in said.remarks) == (how in ("own cell before", "answer's own cell"))
    assert not any("AssertionError" in remark for remark in said.remarks), said.remarks


def test_an_answer_that_stops_is_not_run_to_its_end(built):
    """In an answer only what is missing in grading is passed over: what fails at home too, ends the cell as there."""
    said = judged(built, answer=f"1 / 0\n{ANSWER}")
    assert [one.score for one in said.verdicts] == [0]
    assert said.verdicts[0].message == "its cell stopped: ZeroDivisionError: division by zero"
    said = judged(built, answer="import seaborn\nmask = seaborn.causal_mask\n")
    assert [one.score for one in said.verdicts] == [0]
    assert (
        "stopped: ModuleNotFoundError: No module named 'seaborn'. seaborn is not installed" in said.verdicts[0].message
    )


def test_a_changed_cell_that_fails_leaves_its_released_names(built):
    """1.9's cells use what a released cell after 1.5 makes; the student's version of that cell does not run."""

    def change(notebook):
        (cell,) = (one for one in notebook.cells if one.id == "after_1_1_00")
        cell.source = f"import numpy as\n{cell.source}"

    answer = f"{ANSWER}\nassert q.shape == (6, 16), q\n".replace("    return", "    assert k is not None\n    return")
    said = judged(built, change, answer=answer)
    assert [one.score for one in said.verdicts] == [2], said


def test_it_holds_for_every_notebook():
    known = course.load()
    for entry in known.notebooks:
        first_of = next(iter(synthetic.Maker(known, entry).points))

        def change(notebook):
            for cell in preamble(notebook):
                cell.source = f"import seaborn as sns\nsns.set_theme()\n{cell.source}\n%matplotlib widget"

        said = judged(known, change, (first_of,), "", entry)
        assert [one.exercise for one in said.verdicts if one.outcome.name == "PASSED"] == [first_of], (entry.name, said)
        assert any("seaborn is not installed" in remark for remark in said.remarks), entry.name


def test_student_and_instructor_read_it(built):
    """The record has the remark, from which the report, the table of `grade` and the student's page have theirs."""
    (entry,) = built.notebooks
    maker = synthetic.Maker(built, entry)
    text = maker.file(solved=["1.2"], change=in_imports(first("import seaborn as sns")))
    done, notebook = worker.grade_one(built, HandIn(entry, text=text, release=nbformat.writes(maker.released)))
    assert done.score == 2 and any(SEABORN in remark for remark in done.remarks), done
    (cell,) = (one for one in nbformat.reads(notebook, as_version=4).cells if one.id == preamble(maker.released)[0].id)
    assert any(output.output_type == "error" for output in cell.outputs), "the page shows the error below the cell"
