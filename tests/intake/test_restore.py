"""Of a submission only cell sources are taken; what was lost, doubled, moved or retyped is found again."""

import base64
import copy
import json
import re
import time
from functools import partial

import nbformat
import pytest
from nbformat.v4 import new_output

from autograder import course, html_cleaning
from autograder.author import answers, build
from autograder.cells import CellRole, cell_id, role_of
from autograder.intake import reading, restore
from autograder.intake.restore import Ungradable

COURSE = course.load()
ENTRY = COURSE.notebooks[0]
RELEASE = build.student_notebook(COURSE, ENTRY)
SOLUTION = {cell_id(CellRole.EXERCISE, case.exercise): case.source for case in answers.reference_cases(COURSE, ENTRY)}
CHECKS = [cell.id for cell in RELEASE.cells if role_of(cell.id) is CellRole.CHECK]


@pytest.fixture
def solved():
    notebook = copy.deepcopy(RELEASE)
    for cell in notebook.cells:
        cell.source = SOLUTION.get(cell.id, cell.source)
    return notebook


PNG = base64.b64encode(b"\x89PNG a picture").decode()


def restored(notebook):
    text = json.dumps(notebook).encode()
    return restore.restore(restore.read(text, COURSE.limits.notebook_mb), RELEASE)


def complete(notebook):
    """Whether every answer is there, every graded cell is as released, and they stand in order."""
    released = {cell.id: cell for cell in RELEASE.cells}
    anchors = [cell.id for cell in RELEASE.cells if "nbgrader" in cell.metadata]
    by_id = {cell.id: cell for cell in notebook.cells}
    assert [cell.id for cell in notebook.cells if cell.id in anchors] == anchors
    assert all(by_id[name].source == source for name, source in SOLUTION.items())
    for name in CHECKS:
        assert by_id[name].source == released[name].source and by_id[name].cell_type == "code"
        assert by_id[name].metadata == released[name].metadata
    nbformat.validate(notebook)
    return True


def find(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


@pytest.mark.parametrize(
    "text, plain",
    [
        ("My answer, for a person to read.", True),
        ("Weil Q und K (beide!) gleich sind: nein.", False),
        ('Weil \u00dc = 3 ist; das ist 50% mehr.\n\nUnd \u4e2d\u6587, "so" heisst es\n', True),
        ("", True),
        *((text, False) for text in ("- " * 500, "1. " * 500, " indented", "a <b", "[a](b)", "see http://x.y", "a\tb")),
        *((text, False) for text in ("# a", "a *b*", "a `b`", "a $b$", "a | b", "a & b", "a\n- b", "a\n---", "a\\b")),
        *((text, False) for text in ("a_b_", "~a~", "> a", "a@b.c", "a\u202eb", "word " * 500)),
    ],
)
def test_plain_words_are_let_in_as_they_are(text, plain, monkeypatch):
    """Only what the child would let in unchanged, and a page renders as one paragraph after the other."""
    asked = []
    monkeypatch.setattr(html_cleaning, "clean_in_child", lambda clean, texts: asked.append(texts) or clean(texts))
    assert html_cleaning.markdown([text]) == html_cleaning.render_texts([text])
    assert bool(asked) is not plain
    if plain:
        rendered = html_cleaning.rendered(text)
        assert {*re.findall(r"<(\w+)", rendered)} <= {"p", "br"}


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:hostile()}{x}",
        r"\newcommand{\h}[1]{\mmlToken{mtext}[href='java#1']{x}}\h{script:hostile()}",
        r"\mmlToken{mtext}[style='position:fixed']{x}",
        r"\bbox[border:0; position:fixed]{x}",
    ],
)
def test_a_formula_that_makes_links_or_styles_is_shown_as_it_was_typed(tex):
    assert html_cleaning.markdown([f"${tex}$"])[0].startswith("<pre>")
    assert html_cleaning.html(f"<p>${tex}$</p>").startswith("<pre>")
    assert html_cleaning.latex(f"${tex}$") == ""


def test_outputs_are_bounded_however_short_they_are(solved):
    own, *_ = sorted(restore.illustrating(RELEASE))
    text = json.loads(json.dumps(solved))
    (cell,) = [cell for cell in text["cells"] if cell["id"] == own]
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "a"}] * 200_000
    read = restore.read(json.dumps(text).encode(), 20, restore.illustrating(RELEASE))
    notebook, _ = restore.restore(read, RELEASE)
    assert 1000 < len(find(notebook, own).outputs) < 10_000
    for place in range(3):
        lines = ["" for _ in range(300)]
        many = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=lines) for _ in range(200)]
        notebook.cells.append(nbformat.v4.new_code_cell("1", id=f"more{place}", outputs=many))
    assert html_cleaning.fit(notebook) > 100
    kept = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum(1 + len(output.get("traceback", ())) for output in kept) < 100_000


def test_an_untouched_hand_in_needs_nothing(solved):
    notebook, remarks = restored(solved)
    assert complete(notebook) and remarks == []


def test_of_outputs_those_that_illustrate_are_kept_for_a_person(solved):
    """Texts and pictures, of cells in no role, and bounded; a cell that grading runs shows what it did there."""
    own, *others = sorted(restore.illustrating(RELEASE))
    display, stream = partial(new_output, "display_data"), partial(new_output, "stream", name="stdout")
    kept = [
        stream(text="loss 3.2"),
        display({"image/png": PNG, "text/plain": "<Figure>"}),
        display({"text/plain": "t"}),
    ]
    refused = [display({"image/png": "no base64!"}), display({"text/html": "<b>"}), stream(text="x" * 10_001), 7]
    find(solved, own).outputs = [*kept, *refused]
    for cell in solved.cells:
        if cell.id not in (own, *others) and cell.cell_type == "code":
            cell.outputs = [new_output("stream", text="forged")]
    solved.cells.append(nbformat.v4.new_code_cell("1", id="mine", outputs=[stream(text="of a cell that is not ours")]))
    text = json.dumps(solved).encode()
    notebook, _ = restore.restore(restore.read(text, 20, restore.illustrating(RELEASE)), RELEASE)
    shown = find(notebook, own).outputs
    assert [output.get("text") for output in shown] == [restore.AS_HANDED_IN, "loss 3.2", None, "t"]
    assert shown[2].data == {"image/png": PNG}
    released = {cell.id: cell.get("outputs", []) for cell in RELEASE.cells}  # a diagram has its picture there
    assert all(
        cell.get("outputs", []) == released.get(cell.id, []) for cell in notebook.cells if cell.id not in (own, *others)
    )
    assert complete(notebook)
    find(solved, own).outputs = [display({"image/png": "A" * 400_000})] * 9
    notebook, _ = restore.restore(restore.read(json.dumps(solved).encode(), 20, [own]), RELEASE)
    assert len(find(notebook, own).outputs) == 1 + reading.MAX_SHOWN // 400_000


def test_deleted_checks_and_setup_are_put_back(solved):
    solved.cells = [cell for cell in solved.cells if cell.id not in (*CHECKS, "setup")]
    notebook, remarks = restored(solved)
    assert complete(notebook) and len(remarks) == len(CHECKS) + 1


def test_deleted_imports_are_put_back(solved):
    wanted = [cell.id for cell in answers.preamble(RELEASE)]
    solved.cells = [cell for cell in solved.cells if cell.id not in wanted]
    notebook, remarks = restored(solved)
    assert complete(notebook) and {*wanted} <= {cell.id for cell in notebook.cells}
    assert "imports" in remarks[0]


def test_a_deleted_answer_is_said(solved):
    name = next(iter(SOLUTION))
    solved.cells.remove(find(solved, name))
    notebook, remarks = restored(solved)
    assert find(notebook, name).source == find(RELEASE, name).source
    assert f"cell {name} was deleted: missing: put back without an answer" in remarks


def test_of_a_doubled_answer_the_last_counts(solved):
    name = next(iter(SOLUTION))
    older = copy.deepcopy(find(solved, name)) | {"id": "copy", "source": "older = 1"}
    solved.cells.insert(solved.cells.index(find(solved, name)), nbformat.from_dict(older))
    notebook, remarks = restored(solved)
    assert complete(notebook) and "more than once" in remarks[0]
    assert any(cell.source == "older = 1" and "nbgrader" not in cell.metadata for cell in notebook.cells)


def test_doubled_checks_grade_once(solved):
    for name in CHECKS:
        solved.cells.append(nbformat.from_dict(copy.deepcopy(find(solved, name)) | {"id": f"copy_{name}"}))
    notebook, _ = restored(solved)
    assert complete(notebook)


def test_an_answer_that_was_retyped_is_not_taken_for_html(solved):
    cell = find(solved, next(iter(SOLUTION)))
    cell.cell_type, cell.source = "markdown", "def f(a, b):\n    return a <b and '![' + '<script>' > '$\\\\href{}'\n"
    for key in ("outputs", "execution_count"):
        cell.pop(key, None)
    notebook, _ = restored(solved)
    restored_cell = find(notebook, cell.id)
    assert restored_cell.cell_type == "code" and restored_cell.source == cell.source


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_retyped_cells_are_typed_back(solved, kind):
    for name in (CHECKS[0], next(iter(SOLUTION))):
        cell = find(solved, name)
        cell.cell_type = kind
        for key in ("outputs", "execution_count"):
            cell.pop(key, None)
    notebook, remarks = restored(solved)
    assert complete(notebook) and len(remarks) == 2


def test_moved_cells_are_put_back_with_what_follows_them(solved):
    solved.cells.reverse()
    notebook, remarks = restored(solved)
    assert complete(notebook) and "graded cells were out of order: put back" in remarks


def test_changed_points_and_text_are_restored(solved):
    for name in CHECKS:
        cell = find(solved, name)
        cell.source = "print('I pass')"
        cell.metadata.nbgrader.update(points=1000, locked=False, grade=False, solution=True)
    notebook, remarks = restored(solved)
    assert complete(notebook) and len(remarks) == len(CHECKS)


@pytest.mark.parametrize("keep", ["id", "metadata", "neither"])
def test_lost_ids_are_found_again(solved, keep):
    for number, cell in enumerate(solved.cells):
        if keep != "metadata":
            cell.metadata = {}
        if keep != "id":
            cell.id = f"new{number}"
    notebook, _ = restored(solved)
    assert complete(notebook)


def test_a_cell_may_not_call_itself_an_experiment(solved):
    sneaky = nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["experiment"], "nbgrader": {"grade_id": "mine"}})
    solved.cells.insert(3, sneaky)
    notebook, _ = restored(solved)
    assert complete(notebook)
    assert next(cell for cell in notebook.cells if cell.source == "x = 1").metadata == {}


def test_outputs_are_not_taken(solved):
    for name in CHECKS:
        find(solved, name).outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "99"})]
    notebook, _ = restored(solved)
    assert all(not cell.get("outputs") for cell in notebook.cells)


def test_cells_that_are_none_are_dropped_and_said(solved):
    text = json.loads(json.dumps(solved))
    text["cells"] += [7, {"cell_type": "heading", "source": "x"}, {"cell_type": "code", "source": {"a": 1}}, {}]
    notebook, remarks = restored(text)
    assert complete(notebook) and "dropped 4 cells" in remarks[0]


def test_older_formats_are_read(solved):
    older = nbformat.convert(nbformat.from_dict(json.loads(json.dumps(solved))), 3)
    notebook, _ = restored(older)
    assert complete(notebook)


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"not json", "truncated or not a notebook"),
        (b"\xff\xfe\x00", "truncated or not a notebook"),
        (build.write(RELEASE).encode()[:-200], "truncated"),
        (b"[" * 100_000, "nested too deep|not a notebook"),
        (b"[1, 2]", "not a notebook"),
        (b'{"nbformat": "4", "cells": []}', "not a notebook"),
        (b'{"nbformat": 4}', "not a notebook"),
        (b'{"nbformat": 4, "cells": 7}', "list of at most"),
        (b'{"nbformat": 99, "cells": []}', "nobody reads yet"),
        (b'{"nbformat": 2, "worksheets": 5}', "not a notebook"),
        (b" " * 30_000_000 + b"x", "larger than"),
        (json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")])).encode(), "another notebook"),
        (json.dumps(nbformat.v4.new_notebook()).encode(), "another notebook"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_notebook_is_named(text, reason):
    with pytest.raises(Ungradable, match=reason):
        restore.restore(restore.read(text, COURSE.limits.notebook_mb), RELEASE)


def sized(size):
    """A file of version 3 of so many cells."""
    cell = {"cell_type": "markdown", "metadata": {}, "source": "x"}
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell] * size}]})


@pytest.mark.parametrize(
    "text, reason",
    [
        (b'\xef\xbb\xbf{"<script src=//0:81></script>":1,"nbformat":3}', "not a notebook of the older format"),
        (b'{"nbformat": 3, "worksheets": [{"<img src=x onerror=x()>": 1}]}', "not a notebook of the older format"),
        (b'{"<script>x()</script>": ', "truncated or not a notebook"),
        (b'{"nbformat": true, "cells": []}', "states no number of a notebook format"),
        (b'{"nbformat": 4.0, "cells": []}', "states no number of a notebook format"),
        (b'{"nbformat": 1' + b"0" * 10_000 + b', "cells": []}', "nobody reads yet"),
        (b'{"nbformat": -3, "cells": []}', "nobody reads yet"),
        (b'{"nbformat": 4, "cells": null}', "no cells"),
        (b'{"nbformat": 4, "x": ' + b"[" * 990 + b"]" * 990 + b', "cells": 3}', "nested too deep|list of at most"),
        (sized(0).replace("[]", '[{"cell_type": "heading", "level": 2000000000, "source": ""}]').encode(),
         "memory|not a notebook"),
        (sized(240_000).encode(), "memory|seconds|list of at most"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_reason_is_one_sentence_of_ours(text, reason):
    with pytest.raises(Ungradable, match=reason) as refused:
        restore.read(text, COURSE.limits.notebook_mb)
    assert len(str(refused.value)) < 120 and not {*"<>\n"} & {*str(refused.value)}


def test_big_numbers_that_mean_nothing_cost_nothing(solved):
    text = json.dumps(solved).replace('"nbformat_minor": 5', '"nbformat_minor": ' + "9" * 6000)
    assert "9" * 6000 in text
    notebook, _ = restore.restore(restore.read(text.encode(), 20), RELEASE)
    assert complete(notebook)


SLOW = {
    "a tag of 150,000 attributes": ("markdown", "<p " + "a b c " * 150_000 + ">"),
    "distinct attributes": ("markdown", "<p " + " ".join(f"a{number}" for number in range(2900)) + ">"),
    "unclosed brackets": ("markdown", "[" * 60_000),
    "a number of no character": ("markdown", "&#" + "9" * 5000 + ";"),
    "an f-string of 420,000 characters": ("code", "f'" + "{a}" * 140_000 + "'"),
    "open tags": ("markdown", "".join(f"<b title={number}>" for number in range(900)) + "<p>" * 900),
    "less than": ("markdown", "<" * 19_000),
    "quotes": ("markdown", "> " * 9000 + "x"),
    "stars": ("markdown", "*a_ " * 4900),
    "deep brackets": ("code", "(" * 100_000),
    "minus": ("code", "-" * 300_000 + "1"),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_cell_costs_seconds_and_nobody_else(solved, name):
    from nbconvert import HTMLExporter

    kind, source = SLOW[name]
    solved.cells.append(nbformat.from_dict({"cell_type": kind, "metadata": {}, "source": source}))
    text, started = json.dumps(solved).encode(), time.monotonic()
    try:
        notebook, _ = restore.restore(restore.read(text, 20), RELEASE)
    except Ungradable as why:
        assert kind == "code" and "read as Python" in str(why)
        return
    assert time.monotonic() - started < 60
    assert complete(notebook)
    shown, started = notebook.cells[-1].source, time.monotonic()
    exporter = HTMLExporter(sanitize_html=True)
    exporter.from_notebook_node(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(shown)] * (kind != "code"))
    )
    assert time.monotonic() - started < 60


def test_prose_is_cut_where_a_page_could_not_show_it(solved):
    solved.cells += [nbformat.v4.new_markdown_cell(f"{number} words " * 2000) for number in range(20)]
    notebook, _ = restored(solved)
    assert sum(len(cell.source) for cell in notebook.cells[-20:]) < 250_000
    assert all(f"{number} words" in cell.source for number, cell in enumerate(notebook.cells[-20:]))
    assert "more characters" in notebook.cells[-1].source
