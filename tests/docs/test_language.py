"""How the course is written, as far as a machine can tell: no phrase of a private dialect, and no endless sentence."""

import re

import pytest

from autograder import course
from autograder.author import build
from benchmarks.readability import sentences

ROOT = course.ROOT
COURSE = course.load()
# Each with what to write in its place.
BANNED = {
    r"hangs on": "depends on",
    r"\b[Aa]sked are\b": "the subject first",
    r"\b[Hh]and-ins?\b": "submission",
    r"\bthan which\b": "a sentence of its own",
    r"\b[Ww]hoever\b": "the person or the thing that does it",
    r"\bof before\b": "previous, earlier, old",
    r"\bthat there (?:is|are) not\b": "that does not exist",
    r"(?<=[a-z`]), too(?=[.;)])": "too, without a comma",
    r"\bas (?:it|they) stands?\b": "as it is",
    r"\b[Ss]o (?:few|large|little|long|short|small) an? ": "such a",
    r"\b(?:[Rr]efused by name|Not promised) (?:are|is)\b": "the subject first",
    r"\b(?:drawn|graded|handed in|made|trained|written) anew\b": "again",
    r"(?<![Tt]here )(?<!where )\b(?:is|are) no (?:folder|file|notebook|parameter|number|plain|such)\b": "is not a",
}
OF_OLDER_VERSIONS = r"\(\?:hand-in\||in a hand-in of zoe_mueller"  # words in their flags, which erasing finds
WRITTEN = (".md", ".py", ".toml", ".jinja")
LEFT = {"CHANGELOG.md", "tests/docs/test_language.py"}  # what was said, as it was said; and the list above
LONGEST = 35  # words of a sentence


def written():
    """The files of the project that people read, by name; what the build of the pages makes is not among them."""
    paths = [
        *ROOT.glob("*.md"),
        ROOT / "course.toml",
        *(ROOT / "docs").glob("*.*"),
        *(ROOT / "docs/container").glob("*"),
    ]
    for folder in ("autograder", "benchmarks", "data", "solutions", "tests", "utils"):
        paths += (ROOT / folder).rglob("*.*")
    names = [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in WRITTEN]
    return sorted({*names} - LEFT)


def test_no_banned_phrase():
    names = written()
    assert len(names) > 300
    found = []
    for name in names:
        text = re.sub(r"\n\s*(?:# )?", " ", (ROOT / name).read_text())  # a phrase may go on in the next line
        text = re.sub(OF_OLDER_VERSIONS, "", text)
        for pattern, instead in BANNED.items():
            found += [
                f"{name}: {text[max(0, m.start() - 40) : m.end() + 20]}: write {instead}"
                for m in re.finditer(pattern, text)
            ]
    assert found == []


PAGES = [pytest.param((ROOT / name).read_text(), id=name) for name in written() if name.endswith(".md")]
NOTEBOOKS = [pytest.param(entry, id=entry.name) for entry in COURSE.notebooks]


@pytest.mark.parametrize("text", PAGES)
def test_sentences_of_pages_are_short(text):
    assert [one for one in sentences(text) if len(one.split()) > LONGEST] == []


@pytest.mark.parametrize("entry", NOTEBOOKS)
def test_sentences_of_notebooks_are_short(entry):
    texts = [cell.source for cell in build.student_notebook(COURSE, entry).cells if cell.cell_type == "markdown"]
    assert [one for text in texts for one in sentences(text) if len(one.split()) > LONGEST] == []
