"""What one submission's kernel was asked, and what it replied, earns nothing in another submission."""

import re
from unittest import mock

import nbformat
import pytest

from autograder import course, html_cleaning, synthetic
from autograder.cells import CellRole, role_of
from autograder.grading import judge
from autograder.grading.grading_record import HandIn, key_of
from autograder.intake import restore
from utils.grading.verdict import Outcome

COURSE = course.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]
LOG = """
import base64, pickle, zlib
import utils.grading.dispatch
LOG, honest = {}, utils.grading.dispatch.answer
def noted(namespace, request):
    reply = honest(namespace, request)
    LOG.setdefault(request, []).append(reply)
    return reply
utils.grading.dispatch.answer = noted
"""
TELL = "print('LOG', base64.b85encode(zlib.compress(pickle.dumps(LOG))).decode(), 'END')"
REPLAY = """
import base64, pickle, zlib
import utils.grading.dispatch
LOG, honest = pickle.loads(zlib.decompress(base64.b85decode({log!r}))), utils.grading.dispatch.answer
def replayed(namespace, request):
    known = LOG.get(request)
    return (known.pop(0) if len(known) > 1 else known[0]) if known else honest(namespace, request)
utils.grading.dispatch.answer = replayed
"""


def judged(entry, answers, before, after, key, student):
    """The verdicts on a submission with a cell before its first answer and one at its end, and what that one prints."""
    limits = COURSE.limits.model_copy(update={"output_kb": 2**15})
    known = COURSE.model_copy(update={"limits": limits})
    maker = synthetic.Maker(known, entry)
    notebook, _ = restore.restore(restore.read(maker.file(answers), 20), maker.released)
    first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
    notebook.cells.insert(first, nbformat.v4.new_code_cell(before, id="before"))
    notebook.cells.append(nbformat.v4.new_code_cell(after, id="after"))
    with mock.patch.object(html_cleaning, "MAX_OUTPUT", 2**25):  # of a page, which is not looked at here
        shown = restore.shown(notebook, maker.released)
        said = judge.judge(known, HandIn(entry, student, drawn_for=key), notebook, shown)
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    return said, printed


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_log_of_questions_and_replies_earns_nothing_in_another_hand_in(entry, fresh):
    keys = [key_of(fresh, entry, student, student.encode()) for student in ("first", "second")]
    said, printed = judged(entry, {}, LOG, TELL, keys[0], "first")
    asked = [one.exercise for one in said.verdicts if one.score]
    assert len(asked) >= len(said.verdicts) - 1, "the first submission is right, but for runs"
    log = re.search(r"LOG (\S+) END", printed)[1]
    empty = dict.fromkeys(asked, "pass")
    again, _ = judged(entry, empty, REPLAY.format(log=log), "", keys[0], "first")
    assert sum(one.score for one in again.verdicts) > 0, "the trick works on the same questions"
    other, _ = judged(entry, empty, REPLAY.format(log=log), "", keys[1], "second")
    assert {one.exercise: one.score for one in other.verdicts if one.score} == {}
    assert Outcome.WRONG in {one.outcome for one in other.verdicts}, "what is public was replayed"


def test_the_same_hand_in_is_asked_the_same_again_and_another_one_is_not(fresh):
    entry, text = fresh.notebooks[0], b"a notebook"
    key = key_of(fresh, entry, "somebody", text)
    assert key == key_of(fresh, entry, "somebody", text) and len(key) == 32
    others = [key_of(fresh, entry, "another", text), key_of(fresh, entry, "somebody", text + b" ")]
    assert key not in others and others[0] != others[1]
