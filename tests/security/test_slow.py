"""A search for slow submissions: texts are mutated towards more seconds a character, not towards crashes.

Short in the suite; `SLOW=300 python -m pytest -q -s tests/security/test_slow.py` searches 300 seconds a target and says
what it found. Each target has the limit that the grader gives it; what is found must stay below.
"""

import copy
import io
import json
import os
import random
import time
import zipfile
from functools import cache
from pathlib import PurePosixPath

import nbformat
import pytest
from nbconvert import HTMLExporter

from autograder import course, html_cleaning
from autograder.author import build
from autograder.intake import restore
from autograder.intake.archive import DownloadReader
from autograder.intake.platforms import Names
from autograder.reports import feedback, page

SECONDS = float(os.environ.get("SLOW", "2"))  # for each target
LONGEST = 20_000  # characters of a text while searching; the worst are then tried at full length
COURSE = course.load()
ENTRY = COURSE.notebooks[0]
GRAMMAR = [
    *("[", "]", "(", ")", "<", ">", "<p ", "<b>", "</b>", "<!--", "-->", "<a href=", "<details>", "<table><tr><td>"),
    *("&#", "&lt", "9", ";", "`", "```\n", "~~~\n", "*", "_", "**", "__", "~~", "$", "$$", "\\", "\\(", "|", "|-|\n"),
    *("> ", "- ", "1. ", "# ", "\n", "\n\n", "\t", "    ", "a", "b c ", "![", "](", "]: ", "http://", "www.", "@", ":"),
    *("'", '"', '"""', "f'", "{", "}", "{a}", "lambda:", "not ", "-", "x=", "if ", "(yield ", "\x1b[31m", "\x1b[", "m"),
    *("\\frac{", "\\left(", "\\right)", "\\begin{array}", "^", "_{", "}", "&", "\\\\", "\\def\\a{", "\\a", "\\sqrt["),
    *("\u0301", "\U0001f600", "\xa0", "\r", "\x00", "<math>", "<svg>", "</p>", "<pre>", "<![CDATA[", "<?", "{{", "%}"),
]


def notebook(kind, text):
    """A submission with one cell of this text, as a file."""
    new = copy.deepcopy(RELEASE)
    new.cells.append(nbformat.from_dict({"cell_type": kind, "metadata": {}, "source": text}))
    return json.dumps(new).encode()


RELEASE = build.student_notebook(COURSE, ENTRY)
RELEASE.cells = RELEASE.cells[: next(i for i, cell in enumerate(RELEASE.cells) if cell.id == "check_1_2") + 1]


def restored(kind):
    def run(text):
        try:
            return restore.restore(restore.read(notebook(kind, text), 20), RELEASE)[0].cells[-1]
        except restore.Ungradable:
            return None

    return run


@cache
def exporter():
    return HTMLExporter(sanitize_html=True)


def shown(cells):
    """The page of some cells, as formgrader and nbgrader's feedback make it."""
    notebook = nbformat.v4.new_notebook(cells=cells)
    html_cleaning.fit(notebook)
    return exporter().from_notebook_node(notebook)


def page_of_prose(text):
    return shown([nbformat.v4.new_markdown_cell(source) for source in html_cleaning.markdown([text])])


def page_of_outputs(text):
    new = nbformat.v4.new_output
    outputs = [new("stream", name="stdout", text=text), new("error", ename="E", evalue="e", traceback=[text])]
    outputs.append(new("display_data", data={"text/html": html_cleaning.html(text), "text/plain": text}))
    return shown([nbformat.v4.new_code_cell("", outputs=outputs)])


def page_of_code(text):
    return shown([nbformat.v4.new_code_cell(text)])


ABOUT = {
    **{"title": "", "course": "", "student": "", "reason": "", "why": "", "said": {}, "remarks": [], "penalty": 0},
    **{"late_seconds": 0, "marks": {}, "comments": {}, "release": json.dumps({"cells": []})},
}


def fed_back(cells):
    """Our feedback page of some cells."""
    notebook = nbformat.v4.new_notebook(cells=cells)
    html_cleaning.fit(notebook)
    return page.render(ABOUT | {"notebook": json.dumps(notebook)})


def feedback_of_prose(text):
    return fed_back([nbformat.v4.new_markdown_cell(source) for source in html_cleaning.markdown([text])])


def feedback_of_outputs(text):
    new = nbformat.v4.new_output
    outputs = [new("stream", name="stdout", text=text), new("error", ename="E", evalue="e", traceback=[text])]
    outputs.append(new("display_data", data={"text/html": html_cleaning.html(text)}))
    outputs.append(new("display_data", data={"text/plain": text}))
    return fed_back([nbformat.v4.new_code_cell("", outputs=outputs)])


def feedback_of_code(text):
    return fed_back([nbformat.v4.new_code_cell(text)])


def file(text):
    """Any file: a notebook of version 3 whose text is JSON of the grammar."""
    whole = '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [' + text + "]}]}"
    try:
        restore.read(whole.encode(errors="replace"), 20)
    except restore.Ungradable:
        return


def archive(text):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as zipped:
        for number, name in enumerate(text.replace("\x00", "").split("\n")[:500]):
            zipped.writestr(zipfile.ZipInfo(f"a/{name[:15000]}/results/x/seed_{number}.json"), "[" * len(name))
    reader = DownloadReader(COURSE, [])
    for found in reader._zip(made, PurePosixPath("a/in.zip"), None, Names(COURSE, [])):
        found.runs()


# What is measured, and how many seconds it may take: what the limits of the grader leave, on a busy machine.
TARGETS = {
    "clean HTML": (lambda text: html_cleaning.html(text), 30),
    "clean Markdown": (lambda text: html_cleaning.markdown([text]), 30),
    "restore prose": (restored("markdown"), 40),
    "restore code": (restored("code"), 40),
    "read a file": (file, 40),
    "unpack a zip": (archive, 40),
    "page of prose": (page_of_prose, 40),
    "page of outputs": (page_of_outputs, 40),
    "page of code": (page_of_code, 40),
    "page of ours, prose": (feedback_of_prose, feedback.PAGE_SECONDS),
    "page of ours, outputs": (feedback_of_outputs, feedback.PAGE_SECONDS),
    "page of ours, code": (feedback_of_code, feedback.PAGE_SECONDS),
    "page of ours, formula": (lambda text: page.formula(text[: page.MAX_TEX], "block"), 2),
}


def mutate(text, chance):
    """A text that is like this one: longer where it repeats, with something of the grammar put in."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        here, there = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        match chance.randrange(6):
            case 0:
                text = text[:here] + chance.choice(GRAMMAR) + text[here:]
            case 1:
                text = text[:here] + "".join(chance.choices(GRAMMAR, k=3)) * chance.choice((1, 10, 300)) + text[here:]
            case 2:
                text = text[:here] + text[here:there] * chance.choice((2, 10, 100)) + text[there:]
            case 3:
                text = text[:here] + text[there:]
            case 4:
                text = text + text
            case 5:
                text = chance.choice(GRAMMAR) * chance.choice((10, 1000, LONGEST)) + text[:there]
        text = text[:LONGEST]
    return text or "x"


def search(cost, chance, more):
    """The costliest texts for their length that are found while `more()`, the worst first, and how many were tried."""
    base = min(cost("x") for _ in range(3))  # what it costs whatever the text

    def rated(text):
        return (cost(text) - base) / (len(text) + 100), text

    worst, tried = [rated(text) for text in ("x", "[" * 2000, "<p " * 500)], 3
    while more():
        worst = sorted([*worst, rated(mutate(chance.choice(worst)[1], chance))], reverse=True)[:8]
        tried += 1
    return [text for _, text in worst], tried


@pytest.mark.parametrize("name", TARGETS)
def test_the_slowest_text_that_is_found_is_bounded(name):
    target, most = TARGETS[name]
    clock = time.process_time if name.startswith("page") else time.perf_counter  # pages are made in this process
    met = []

    def seconds(text):
        started = clock()
        target(text)
        met.append((clock() - started, text))
        assert met[-1][0] < most, (name, met[-1][0], text[:200])
        return met[-1][0]

    seconds("x")  # imports
    met.clear()
    until = time.monotonic() + SECONDS
    chance = random.Random(f"{name} {os.environ.get('SEED', '0')}")
    worst, tried = search(seconds, chance, lambda: time.monotonic() < until)
    for text in worst[:2]:
        seconds((text * (200_000 // len(text) + 1))[:200_000])  # as long as a submission could make it
    took, text = max(met)
    print(f"\n{name}: {tried:,} texts; the worst {took:.2f} s: {text[:60]!r} of {len(text):,} characters")


@pytest.mark.parametrize("text", ["[" * LONGEST, ("@" * 100 + "[" * 900) * 20], ids=["brackets", "brackets and signs"])
def test_what_a_long_search_found_is_shown_as_it_was_typed(text):
    page_of_prose("x")  # imports
    started = time.process_time()
    made, _ = page_of_prose(text)
    assert time.process_time() - started < 1.5  # it was 4 to 9
    assert f"<pre>{text[:1000]}" in made
    assert f'<pre tabindex="0">{text[:1000]}' in feedback_of_prose(text)


def test_the_search_finds_what_is_slow():
    """Something quadratic in one sign: the search comes upon it, and its worst is made of it."""
    chance, left = random.Random(0), iter(range(2000))
    worst, _ = search(lambda text: text.count("[") ** 2, chance, lambda: next(left, None) is not None)
    assert worst[0].count("[") > 10_000
