"""The judge: it says what the check says at home, and no cell costs it more than its limits."""

import contextlib
import os
from collections import Counter

import nbformat
import pytest

from autograder import course, synthetic
from autograder.author import answers, checks
from autograder.grading import judge as judging
from autograder.grading.grading_record import HandIn
from autograder.intake import restore
from autograder.intake.run_files import pack
from autograder.sandbox.kernel import KernelDied, open_kernel
from benchmarks.grading import Direct
from utils.grading import forbidden, protocol
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
FIRST = COURSE.notebooks[0]
WHOLE = bool(os.environ.get("COURSE_LONG_TESTS"))
SAMPLE = 1  # so many wrong answers of a kind to each exercise are judged here; tests/checks asks all of them at home


# What a wrong answer may have left for all that come after it in this kernel.
AS_AT_FIRST = "import torch; torch.set_default_dtype(torch.float32); torch.set_grad_enabled(True)"


def chosen(cases):
    """The answers that are judged in a kernel here; with COURSE_LONG_TESTS=1 all of them.

    In every notebook the demonstration grades the solution and the last right answer to each exercise, and both must
    get full marks (tests/grading/test_demo.py), so these two are left out. Wrong answers lose all points, those of some
    parts, or fail a private check: SAMPLE of each kind to each exercise are judged.
    """
    right = [case for case in cases if case.right]
    graded = [*{case.exercise: case for case in right}.values()]
    graded += {case.exercise: case for case in reversed(right)}.values()
    count = Counter()
    for case in cases:
        kind = case.exercise, case.private, case.loses
        count[kind] += not case.right
        if WHOLE or (case not in graded if case.right else count[kind] <= SAMPLE):
            yield case


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_judge_says_what_the_check_says_at_home(entry):
    """Right and wrong answers in one kernel: cells run there, the verdict is reached here. See `chosen`."""
    visible, hidden = checks.asked_checks(entry), checks.private_checks(entry)
    cases = [*answers.reference_cases(COURSE, entry), *answers.answer_cases(entry)]
    cases = [case for case in cases if not isinstance(visible[case.exercise], ResultsCheck)]  # judged from files
    notebook = author_notebook(entry)
    with open_kernel(
        COURSE.model_copy(update={"limits": COURSE.limits.model_copy(update={"notebook_seconds": 600})})
    ) as running:
        running.run(judging.ANSWER_FOR.format(key="", whose=(answers.SOMEBODY,)))
        preamble = answers.preamble(notebook)
        for case in chosen(cases):
            before = [(cell, running.run(cell.source)) for cell in preamble]
            assert [ran.error for _, ran in before if ran.error] == []
            # Again before each answer, which may change what it defines; but a picture is drawn once: it takes seconds.
            preamble = [
                cell for cell, ran in before if not any("image/png" in one.get("data", {}) for one in ran.outputs)
            ]
            assert not running.run(AS_AT_FIRST).error
            ran = running.run(case.source)
            cells = [forbidden.read_cell(case.source)]
            verdict = visible[case.exercise].verdict(running.ask, cells, [answers.SOMEBODY])
            found = hidden.get(case.exercise, [])
            verdict, _ = checks.whole_verdict(verdict, found, lambda item: item.failure(running.ask))
            told = verdict.message
            if case.right:
                assert not told, (case.exercise, case.name, told)
            else:
                assert case.is_told(told) or case.is_told(ran.error), (case.exercise, case.name, told)
            assert verdict.score == pytest.approx(case.score(visible[case.exercise])), (case.exercise, case.name, told)


OLD = """def run_all(results):
    return {one.name: run_seeds(one, rte.seeds(), results) for one in rte.experiments("06_adapter_fusion").values()}"""


def test_runs_keep_their_points_whatever_reads_them(workshop):
    """Also those of an earlier notebook, whose answer ran the experiments; without runs the reading earns nothing."""
    entry = workshop.notebook("06")
    maker = synthetic.Maker(workshop, entry)
    runs = {name: text.encode() for name, text in maker.runs("ada").items()}
    wrong = next(case.source for case in maker.cases if case.exercise == "6.7" and not case.right)
    private = next(case for case in maker.cases if case.exercise == "6.7" and case.private)
    for answer, files, score, says in (
        (None, runs, 4, "passed (4 points)"),
        (wrong, runs, 2, "share_ahead: The runs are compared one to one."),
        (private.source, runs, 2, f"share_ahead: {private.says[0].upper()}{private.says[1:]}"),
        (OLD, runs, 2, "passed in part (2 of 4 points).\nshare_ahead: "),
        (None, {}, 0, "not attempted"),
        (None, dict([*runs.items()][1:]), 0, "is missing"),
    ):
        notebook, _ = restore.restore(restore.read(maker.file({"6.7": answer} if answer else None), 20), maker.released)
        known = HandIn(entry, "ada", results=pack(files), only=("6.7",), drawn_for=b"a key")
        (verdict,) = judging.judge(workshop, known, notebook).verdicts
        assert verdict.score == score and says in verdict.sentence(), (says, verdict)


def test_outputs_of_all_cells_are_bounded(fresh, monkeypatch):
    monkeypatch.setattr(judging, "MAX_OUTPUTS", 5)
    maker = synthetic.Maker(fresh, fresh.notebooks[0])
    notebook, _ = restore.restore(restore.read(maker.file(), 20), maker.released)
    for place in range(3):
        shows = "from IPython.display import display\nfor k in range(4): display(k)"
        notebook.cells.insert(1, nbformat.v4.new_code_cell(shows, id=f"more{place}"))
    said = judging.judge(fresh, HandIn(fresh.notebooks[0], "ada"), notebook)
    shown = [len(cell.outputs) for cell in notebook.cells if cell.id.startswith("more")]
    assert shown == [4, 1, 0] and any("more than 5 outputs" in one for one in said.remarks)
    assert sum(one.score for one in said.verdicts) == sum(one.points for one in said.verdicts)


def test_no_more_characters_of_outputs_are_held_than_a_page_shows(fresh):
    """They are counted as they come: 1,900 cells that print 256 kB each would fill gigabytes of a worker."""
    maker = synthetic.Maker(fresh, fresh.notebooks[0])
    notebook, _ = restore.restore(restore.read(maker.file(), 20), maker.released)
    for place in range(12):
        notebook.cells.insert(1, nbformat.v4.new_code_cell("print('\U0001f600' * 250_000)", id=f"more{place}"))
    said = judging.judge(fresh, HandIn(fresh.notebooks[0], "ada"), notebook)
    shown = [len("".join(output.text for output in cell.outputs)) for cell in notebook.cells if "more" in cell.id]
    assert shown == [250_001] * 7 + [0] * 5 and said.dropped >= 5
    assert sum(one.score for one in said.verdicts) == sum(one.points for one in said.verdicts)


def author_notebook(entry):
    from autograder.author import build

    return build.student_notebook(COURSE, entry)


@pytest.mark.parametrize(
    "source, told, may",
    [
        ("words = text.split()", "Your code raised NameError: name 'words' is not defined", True),
        ("for words, count in pairs:\n    print(count)", "name 'words' is not defined. Did you mean: 'word'?", True),
        ("import numpy.linalg as words", "`words` is not defined", True),
        ("from utils.plots import *", "`words` is not defined", True),
        ("%matplotlib inline", "`words` is not defined", True),
        ("class words:\n    pass", "name 'other' is not defined; name 'words' is not defined", True),
        ("plots.heatmap(words(4))", "`words` is not defined", False),
        ("mask = words(4)", "`words` is not defined", False),
        ("words = text.split()", "the words are not in order.", False),
        ("words = text.split()", "name 'words.x' is not defined", False),
    ],
)
def test_cells_are_run_after_all_where_they_may_define_what_is_missing(source, told, may):
    assert judging.may_define(source, told) is may


def test_kernels_are_bounded_by_the_exercises_of_the_notebook(fresh, monkeypatch):
    """A submission of 80 cells that each end a kernel takes no more kernels than its exercises could."""
    (entry,) = fresh.notebooks
    opened = []

    class Dead:
        deadline = 0.0

        def run(self, source, resume):
            raise KernelDied("the kernel died")

    monkeypatch.setattr(judging, "open_kernel", lambda *given: opened.append(given) or contextlib.nullcontext(Dead()))
    maker = synthetic.Maker(fresh, entry)
    notebook, _ = restore.restore(restore.read(maker.file(), 20), maker.released)
    for place in range(80):
        notebook.cells.insert(1, nbformat.v4.new_code_cell(f"x = {place}", id=f"more{place}"))
    said = judging.judge(fresh, HandIn(entry, "ada"), notebook)
    most = judging.KERNELS_EACH * len(maker.points) + judging.SECOND_CHANCES
    assert len(opened) == most and any(f"{most} kernels died of this notebook" in one.message for one in said.verdicts)
    assert sum(verdict.score for verdict in said.verdicts) == 0


def test_a_notebook_cannot_run_for_ever(workshop):
    limits = workshop.limits.model_copy(update={"notebook_seconds": 6.0, "cell_seconds": 2.0})
    short = workshop.model_copy(update={"limits": limits})
    numbers = list(checks.public_checks(FIRST))
    sleepy = dict.fromkeys(numbers, "import time\nfor _ in range(10**9): time.sleep(0.01)")
    from autograder.intake import restore

    maker = synthetic.Maker(short, FIRST)
    notebook, _ = restore.restore(restore.read(maker.file(sleepy), 20), maker.released)
    judged = judging.judge(short, HandIn(FIRST), notebook)
    assert all(verdict.score == 0 for verdict in judged.verdicts)
    assert any("in all" in remark or "longer than" in remark for remark in judged.remarks)


def test_the_benchmarks_stand_in_runs_cells_as_a_kernel_does():
    """benchmarks/grading.py judges without kernels, to see what kernels cost; a blank answer is blank there too."""
    blank, broken = (
        Direct().run(source, protocol.IMPORTS) for source in ("raise NotImplementedError", "raise ValueError('no')")
    )
    assert (blank.blank, blank.error) == (True, "NotImplementedError: ")
    assert (broken.blank, broken.error) == (False, "ValueError: no")
