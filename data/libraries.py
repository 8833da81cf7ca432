"""Sentences by the library that says them, class by class: documentation, and made-up ones."""

import random

from data import documentation
from data.pairs import MADE_UP_WORDS

# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
CLASSES = ("matplotlib", "scipy", "pandas", "sympy", "networkx", "torch")
TASKS = ("documentation", "made-up-libraries")
SPLITS = ("train", "test")
WORDS = (8, 16)  # of a sentence of documentation, at least and at most
MADE_UP_LENGTH, OWN, KNOWN = 8, 5, 6  # words of a made-up sentence, those of its class, and words that a class has


def load(task: str, split: str, count: int) -> list[list[str]]:
    """For each of CLASSES so many sentences, always the same on one machine; those to test on are of other files.

    Words that name a library are taken out.

    Raises:
        ValueError: no such task or split, a class has fewer sentences, or a library is not installed.
    """
    if task not in TASKS or split not in SPLITS:
        raise ValueError(f"there is no {split} of {task!r}: {', '.join(TASKS)}, each with {' and '.join(SPLITS)}")
    if task != "documentation":
        return [made_up(split, label, count) for label in range(len(CLASSES))]
    found: list[list[str]] = [[] for _ in CLASSES]
    for text, label in documentation.labelled_sentences(CLASSES, count, validation=split == "test", words=WORDS):
        found[label].append(text)
    return found


def made_up(split: str, label: int, count: int) -> list[str]:
    """Sentences of made-up words, some of which only the class `label` has."""
    draw, found = random.Random(f"libraries {split} {label}"), []
    own, common = MADE_UP_WORDS[label * KNOWN :][:KNOWN], MADE_UP_WORDS[len(CLASSES) * KNOWN :]
    for _ in range(count):
        words = draw.sample(own, OWN) + draw.sample(common, MADE_UP_LENGTH - OWN)
        found.append(" ".join(draw.sample(words, len(words))))
    return found
