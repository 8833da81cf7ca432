"""Notebook 08's last section: questions about pages, who answers them, and how a page shows its answer."""

import json
import random

import pytest
from own import solutions
from transformers import BertConfig, BertForQuestionAnswering

from autograder import course
from data import documentation, encoders, questions
from utils.experiments import answering
from utils.experiments.answering import Found, Page

PAGE = """Weigh the values.

Parameters
----------
x : (N,) array_like, optional
    The values that are
    weighed. They stay as they are.
axis : {0, 1}, default: 0
    Along which axis.
y, z : float
    Two of them.
twice : int
    First.

    Another paragraph.
twice : float
    The second one of the name.
mode : str
    One of two ways, 'same' or 'full'. Default is 'same'.

Returns
-------
out : ndarray
    The weighed values, as many as `x`.
"""


@pytest.fixture(scope="module")
def own():
    """The functions of the solution."""
    return answering.Functions(**solutions("08", answering.Functions._fields))


@pytest.fixture(scope="module")
def toy(own):
    """A reader of made-up pages."""
    return answering.reader(own, 3, "smoke")


def test_a_page_says_what_its_list_of_parameters_says():
    found = questions.facts(PAGE)
    assert all(PAGE[one.start :].startswith(one.text) for one in found)
    values = "The values that are\n    weighed"
    assert [(one.kind, one.about, one.text) for one in found] == [
        ("type", "x", "(N,) array_like"), ("purpose", "x", values), ("name", values, "x"),
        ("type", "axis", "{0, 1}"), ("purpose", "axis", "Along which axis"), ("default", "axis", "0"),
        ("type", "mode", "str"), ("purpose", "mode", "One of two ways, 'same' or 'full'"),
        ("name", "One of two ways, 'same' or 'full'", "mode"), ("default", "mode", "same"),
        ("result", "", "The weighed values, as many as `x`"),
    ]  # fmt: skip


def test_questions_are_asked_of_pages_of_other_files_and_in_other_wordings(tmp_path, monkeypatch):
    files = [f"m{number}.py" for number in range(60)]
    for number, file in enumerate(files):
        (tmp_path / file).write_text(f'"""{PAGE.replace("Weigh", f"Weigh {number}")}"""\n')
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(documentation, "library_root", lambda library: tmp_path)
    monkeypatch.setattr(questions, "with_facts", questions.with_facts.__wrapped__)
    sides = [{one.page for one in questions.load("documentation", split, 200)} for split in questions.SPLITS]
    wanted = {documentation.is_validation(documentation.Sentence("", "numpy", file)) for file in files}
    assert all(sides) and not sides[0] & sides[1] and wanted == {True, False}
    asked = [questions.load("documentation", "test", 100, 1, unseen) for unseen in (False, True)]
    assert {one.kind for one in asked[0]} == {*questions.KINDS} == {one.kind for one in asked[1]}
    known, new = ({one.question for one in some} for some in asked)
    assert known and new and not known & new and "axis is of which type?" in new
    assert asked[0] == questions.load("documentation", "test", 100, 1)
    for one in asked[0] + asked[1]:
        assert one.page[one.start :].startswith(one.text)
    monkeypatch.setattr(documentation, "docstrings_of", None)  # to scan would be an error
    assert questions.load("documentation", "test", 100, 1) == asked[0]


def test_pages_have_names():
    assert answering.page("json.dumps").startswith("Serialize ``obj`` to a JSON formatted")
    assert answering.page("made up") == answering.MADE_UP
    for name in ("json.nothing", "no_such_library.at_all", ""):
        with pytest.raises(LookupError, match="nothing is written about"):
            answering.page(name)
    with pytest.raises(ValueError, match="there is no dev of 'documentation'"):
        questions.load("documentation", "dev", 1)


def test_the_toy_learns_to_answer_from_anywhere_on_a_page(own, toy, monkeypatch):
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    for one in answering.held_out(30, seed=5):
        (best, *_) = answering.ask(toy, own, one.question, one.page)
        assert (best.start, one.page[best.start : best.end]) == (one.start, one.text)
    noise = " ".join(random.Random(1).choices(questions.MADE_UP_WORDS[10:], k=60))
    page = f"{noise} w4 w20 w0 {noise} w2 w33 w34 w0 {noise}"
    (best, *others) = answering.ask(toy, own, "w2", page)
    assert page[best.start : best.end] == "w33 w34" and best.margin > max(one.margin for one in others)
    assert all(one.end <= other.start or other.end <= one.start for one in others for other in [best])
    assert answering.ask(toy, own, "w2", "") == []


def test_the_functions_of_whoever_asks_decide(own, toy):
    (one,) = questions.load("made-up-pages", "test", 1)
    silent = own._replace(best_spans=lambda *given: [])
    assert answering.ask(toy, silent, one.question, one.page) == []
    first = own._replace(best_spans=lambda start, end, allowed, n, most: [(1.0, 3, 3)])
    (found,) = answering.ask(toy, first, one.question, one.page)
    assert one.page[found.start : found.end] == one.page.split()[0]


def test_rows_without_the_answer_ask_for_cls(own, toy):
    page = " ".join(["w9"] * 40) + " w2 w33 w0"
    asked = questions.Asked("w2", page, page.index("w33"), "w33", "made up")
    rows = [*answering.rows_of(toy, "w2", page)]
    placed = [row.places(own, asked.start, asked.text) for row in rows]
    assert len(rows) > 2 and placed[0] == (0, 0) != placed[-1] and placed[-1][0] == placed[-1][1]
    assert max(row.offsets[-1][1] for row in rows) == len(page)
    drawn = [answering.rows_to_learn(toy, own, asked, random.Random(seed), 0.5)[1] for seed in range(30)]
    assert {(0, 0), placed[-1]} <= {*drawn}


def test_the_hub_answers_in_the_size_gpu(own, tmp_path):
    tokenizer = encoders.tokenizer("tiny")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertForQuestionAnswering(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    made = answering.reader(own, 0, "gpu", tmp_path)
    assert made.row == answering.SQUAD_ROW and not made.encoder.training
    page = " ".join(random.Random(2).choices(questions.MADE_UP_WORDS, k=500))
    found = answering.ask(made, own, "w1 w2", page)
    assert len(found) == 3 and sorted(found, reverse=True) == found
    assert all(page[one.start : one.end].split() == page[one.start : one.end].split(" ") for one in found)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(OSError, match="the answering model"):
        answering.reader(own, 0, "gpu", tmp_path / "nothing")


def test_the_best_sentence_has_most_words_of_the_question():
    text = "A first one. It says what axis does.\nAnother line: axis\n\nWhat does it say? axis, of course."
    for question, sentence in (
        ("what does axis do?", "It says what axis does."),
        ("another line", "Another line: axis"),
    ):
        found = answering.best_sentence(question, text)
        assert text[found.start : found.end] == sentence
    assert answering.best_sentence("anything", "") == Found(0.0, 0, 0)


def test_a_page_is_shown_around_its_answer_and_escaped():
    text = "\n".join(f"<b>line {number}</b> & more" for number in range(40))
    start = text.index("line 20")
    shown = Page(text, Found(1.0, start, start + 7))
    html = shown._repr_html_()
    assert html.count("<b ") == 1 and "<b>" not in html and "&lt;b&gt;line 19&lt;/b&gt; &amp; more" in html
    assert f'<b style="{answering.MARK}">line 20</b>' in html and "background: #ffd54a; color: #000" in html
    assert "line 13" not in html and "line 14" in html and "line 26" in html and "line 27" not in html
    assert "[14 lines]" in html and "[13 lines]" in html
    assert "&lt;b&gt;" not in repr(shown) and ">>>line 20<<<" in repr(shown)
    assert Page("a < b", None)._repr_html_() == '<pre style="white-space: pre-wrap">a &lt; b</pre>'


def test_what_was_measured_is_whole():
    measured = json.loads((course.ROOT / "data" / "results" / "answering.json").read_text())
    assert len(measured) >= 3
    for found in measured.values():
        for wording in ("known", "other"):
            rows = found[wording]
            assert {*rows} == {*questions.KINDS} and sum(row["asked"] for row in rows.values()) == 150
            for row in rows.values():
                for name in ("head", "sentence"):
                    assert 0 <= row[name]["exact"] <= row[name]["f1"] <= row["asked"] >= row[name]["touched"]
