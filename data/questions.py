"""Questions about pages of documentation, made by rule of their lists of parameters, with the place of each answer.

A page says `axis : int, optional`, and below what an axis is. So what type it has, what it is for and what its default
is can be asked in a few wordings, and the answer is a part of the page. Made-up pages are for tests and the size smoke.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from data import documentation
from data.pairs import MADE_UP_WORDS

# Their versions are in constraints.txt, so that machines which keep to it have one text.
LIBRARIES = ("numpy", "scipy", "pandas", "matplotlib", "networkx")
TASKS = ("documentation", "made-up-pages")
SPLITS = ("train", "test")
# In each kind what is learned from; the last one is for testing alone.
WORDINGS = {
    "type": ("what type is {}?", "which type should {} have?", "type of {}", "{} is of which type?"),
    "purpose": ("what is {} for?", "what does {} do?", "explain {}", "what does {} mean?"),
    "default": (
        "what is the default of {}?",
        "which value does {} have by default?",
        "what if {} is not given?",
        "if {} is left out, what is used?",
    ),
    "name": (
        "which parameter is {}?",
        "which argument gives {}?",
        "what is the name of {}?",
        "how do i set {}?",
    ),
    "result": ("what does it return?", "what is returned?", "what is the result?", "what do i get back?"),
}
KINDS = tuple(WORDINGS)
KEPT = 0.6  # of the words of a description that a question for a name has
MAX_ABOUT = 12  # words
MAX_ANSWER = 25  # words
MADE_UP_NAMES, MADE_UP_STOP, MADE_UP_ENTRIES = MADE_UP_WORDS[1:5], MADE_UP_WORDS[0], 3

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}[ \t]*$", re.MULTILINE)
ENTRY = re.compile(r"^(\w+) ?: (\S[^\n]*)$", re.MULTILINE)
EXTRA = re.compile(r",? *\(?(?:optional|default)")  # of a type: what comes after it
DEFAULT = re.compile(
    r"[Dd]efaults?(?: to| is|:|=)?[ =]+(?:[`*]*(True|False|None|-?\d[\w.+-]*\b)|[`*'\"]+(\w[\w.-]*)[`*'\"])"
)
FIRST = re.compile(r"\S.*?(?=\.(?:\s|$)|\n\s*\n|$)", re.DOTALL)  # sentence
PIECE = re.compile(r"\S.*?(?:\.(?=\s)|(?=\n)|$)", re.MULTILINE)  # a sentence, or a line of one


@dataclass(frozen=True)
class Asked:
    """A question, the page that answers it, and the answer, which begins at character `start` of the page."""

    question: str
    page: str
    start: int
    text: str
    kind: str


@dataclass(frozen=True)
class Fact:
    """What a page says: of which kind, about what, and where."""

    kind: str
    about: str
    start: int
    text: str


def load(task: str, split: str, count: int, seed: int = 0, unseen: bool = False) -> list[Asked]:
    """So many questions, drawn with this seed: first a page, then a kind, then one of that kind.

    Args:
        split: train or test; those to test on are about pages of other source files.
        unseen: ask in the wordings that training never has.

    Raises:
        ValueError: no such task or split, or a library is not installed.
    """
    if task not in TASKS or split not in SPLITS:
        raise ValueError(f"there is no {split} of {task!r}: {', '.join(TASKS)}, each with {' and '.join(SPLITS)}")
    draw = random.Random(f"{task} {split} {seed}")
    if task != "documentation":
        return [made_up(draw) for _ in range(count)]
    pages = with_facts(split == "test")
    asked = []
    for _ in range(count):
        page, facts = draw.choice(pages)
        kind = draw.choice(sorted({one.kind for one in facts}))
        fact = draw.choice([one for one in facts if one.kind == kind])
        *known, last = WORDINGS[kind]
        wording = last if unseen else draw.choice(known)
        words = fact.about.lower().split()
        if kind == "name":
            words = [word for word in words if draw.random() < KEPT] or words
        asked.append(Asked(wording.format(" ".join(words[:MAX_ABOUT])), page, fact.start, fact.text, kind))
    return asked


@cache
def with_facts(validation: bool) -> Sequence[tuple[str, list[Fact]]]:
    """Return the pages of a split with the facts that can be asked of each."""
    found = ((page, facts(page)) for page in documentation.pages(LIBRARIES, validation))
    return [(page, some) for page, some in found if sum(one.kind == "type" for one in some) > 1]


def facts(page: str) -> list[Fact]:
    """What a page says about its parameters and its result, in the order of the page.

    A name that is there twice is left out.
    """
    entries = [*_entries(page, "Parameters")]
    times = Counter(entry[1] for entry, _ in entries)
    found = [fact for entry, end in entries if times[entry[1]] == 1 for fact in _of_entry(page, entry, end)]
    for entry, end in [*_entries(page, "Returns")][:1]:
        found += [
            Fact("result", "", one.start, one.text) for one in _of_entry(page, entry, end) if one.kind == "purpose"
        ]
    return found


def _entries(page: str, title: str) -> Iterator[tuple[re.Match[str], int]]:
    """The entries below a heading, each with the place where it ends."""
    headings = [*HEADING.finditer(page)]
    for number, heading in enumerate(headings):
        if heading[1] == title:
            end = headings[number + 1].start() if number + 1 < len(headings) else len(page)
            entries = [*ENTRY.finditer(page, heading.end(), end)]
            stops = [*(entry.start() for entry in entries[1:]), end]
            yield from zip(entries, stops, strict=False)


def _of_entry(page: str, entry: re.Match[str], end: int) -> Iterator[Fact]:
    name, kind = entry[1], EXTRA.split(entry[2])[0].rstrip(" ,.;(")
    if kind:
        yield Fact("type", name, entry.start(2), kind)
    first = FIRST.search(page, entry.end(), end) if page.startswith("\n ", entry.end()) else None
    if first and 2 <= len(first[0].split()) <= MAX_ANSWER:
        text = first[0].rstrip()
        yield Fact("purpose", name, first.start(), text)
        if len(text.split()) >= 4:
            yield Fact("name", text, entry.start(1), name)
    default = DEFAULT.search(page, entry.start(2), end)
    if default:
        group = default.lastindex or 1
        yield Fact("default", name, default.start(group), default[group])


def made_up(draw: random.Random) -> Asked:
    """A page of made-up words: a few entries, each of a name, one to three other words, and a stop; and one question.

    The question is a name, the answer what stands between that name and the stop.
    """
    names = draw.sample(MADE_UP_NAMES, MADE_UP_ENTRIES)
    values = {name: " ".join(draw.sample(MADE_UP_WORDS[10:], draw.randint(1, 3))) for name in names}
    page = " ".join(f"{name} {values[name]} {MADE_UP_STOP}" for name in names)
    wanted = draw.choice(names)
    return Asked(wanted, page, page.index(f"{wanted} ") + len(wanted) + 1, values[wanted], "made up")
