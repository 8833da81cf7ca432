"""Sentences in English and another language: from CLDR, from Multi30k, and made-up ones.

CLDR is Unicode's collection of how languages write dates, times, places and amounts. Babel brings it, and Jupyter
brings Babel: with it sentences are put together here, in any language that it knows, and nothing is downloaded.

Multi30k is read from a local folder (an argument, or the environment variable COURSE_DATA) that holds
`multi30k/train.jsonl` and `test.jsonl` as the hub has them: {"en": ..., "de": ...} on each line. Without one the hub's
files are read. See data/README.md.
"""

import datetime
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from data.pairs import MADE_UP_WORDS
from data.reviews import data_folder

Pair = tuple[list[str], list[str]]  # the words in English, and those in the other language
TASKS = ("cldr", "multi30k", "made-up-language")
SPLITS = ("train", "test")
REPOSITORY = "bentrevett/multi30k"
HELD_OUT = 1000  # of CLDR's sentences, the first so many are to test on
WORD = re.compile(r"\w+['’]?|[^\w\s]")
UNITS = (
    "length-meter", "length-kilometer", "length-mile", "mass-kilogram", "mass-ton", "duration-minute", "duration-hour",
    "duration-day", "duration-week", "duration-month", "duration-year", "speed-kilometer-per-hour",
    "area-square-kilometer", "temperature-celsius", "volume-liter", "energy-kilowatt-hour",
)  # fmt: skip
AMOUNTS = (1, 2, 3, 5, 7, 10, 12, 20, 50, 100)
MADE_UP, MADE_UP_LENGTH = 16, (3, 6)  # words of the made-up language; of a sentence, at least and at most


def load(task: str, split: str, count: int, language: str = "fr", folder: Path | str | None = None) -> list[Pair]:
    """So many sentences with their translations, in words and lower case, always the same on one machine.

    Raises:
        ValueError: no such task or split, it has fewer sentences, or CLDR does not know the language.
        FileNotFoundError: neither a local file nor the hub nor its cache has it; says what to do.
    """
    if task not in TASKS or split not in SPLITS:
        raise ValueError(f"there is no {split} of {task!r}: {', '.join(TASKS)}, each with {' and '.join(SPLITS)}")
    if task == "made-up-language":
        return made_up(split, count)
    if task == "cldr":
        texts = cldr(language, HELD_OUT + (count if split == "train" else 0))
        texts = texts[HELD_OUT:] if split == "train" else texts[:HELD_OUT]
    else:
        texts = _multi30k(split, data_folder(folder))
        random.Random(0).shuffle(texts)
    if len(texts) < count:
        raise ValueError(f"{task}, {split}, has {len(texts)} sentences, not {count}")
    return [(words_of(english), words_of(other)) for english, other in texts[:count]]


def words_of(text: str) -> list[str]:
    """Words and signs in lower case; an apostrophe stays with what is before it."""
    return WORD.findall(text.lower())


def made_up(split: str, count: int) -> list[Pair]:
    """Made-up words, each with its translation in the same place, and at the end a word that says if they are odd."""
    draw, found = random.Random(f"language {split}"), []
    words = MADE_UP_WORDS[:MADE_UP]
    for _ in range(count):
        some = [draw.choice(words) for _ in range(draw.randint(*MADE_UP_LENGTH))]
        found.append((some, [f"{word}o" for word in some] + ["odd" if len(some) % 2 else "even"]))
    return found


@cache
def cldr(language: str, count: int) -> list[tuple[str, str]]:
    """So many different sentences of CLDR, in English and in a language of Babel's, always the same of one Babel.

    A sentence is two or three parts: a date, a time of day, places, languages, a measure, or an amount of money.

    Raises:
        ValueError: Babel does not know the language.
    """
    from babel import Locale, UnknownLocaleError

    try:
        both = Locale("en"), Locale.parse(language)
    except (UnknownLocaleError, ValueError) as problem:
        raise ValueError(f"CLDR does not know the language {language!r}: {problem}") from None
    kinds = _kinds(both)
    draw = random.Random("cldr")
    found: dict[str, str] = {}
    while len(found) < count:
        parts = [draw.choice(kinds)(draw) for _ in range(draw.randint(2, 3))]
        english, other = (" ; ".join(part[side] for part in parts) for side in (0, 1))
        found.setdefault(_plain(english), _plain(other))
    return [*found.items()]


def _plain(text: str) -> str:
    """With one kind of blank and one of apostrophe, and without marks that only direct what is written."""
    for sign, plain in (("\u202f", " "), ("\u00a0", " "), ("’", "'"), ("\u200f", ""), ("\u200e", "")):
        text = text.replace(sign, plain)
    return text


def _kinds(both: Sequence[Any]) -> list[Callable[[random.Random], tuple[str, str]]]:
    """What gives a part of a sentence in both languages."""
    from babel import dates, lists, numbers, units

    def in_both(write: Callable[[Any], str]) -> tuple[str, str]:
        return write(both[0]), write(both[1])

    def known(names: str) -> list[str]:
        first, second = (getattr(one, names) for one in both)
        good = (key for key in first if key in second and str(key).isalpha())
        return sorted(key for key in good if not {*"(["} & {*(first[key] + second[key])})

    territories, languages, currencies = map(known, ("territories", "languages", "currencies"))

    # Where a language does not name a unit, Babel writes how the unit is called in CLDR.
    named = [
        unit
        for unit in UNITS
        if not any(unit in units.format_unit(some, unit, "long", locale=one) for one in both for some in AMOUNTS)
    ]

    def date(draw: random.Random) -> tuple[str, str]:
        day = datetime.date(2000, 1, 1) + datetime.timedelta(days=draw.randrange(10_000))
        return in_both(lambda one: dates.format_date(day, "full", locale=one))

    def clock(draw: random.Random) -> tuple[str, str]:
        time = datetime.time(draw.randrange(24), draw.randrange(60))
        return in_both(lambda one: dates.format_time(time, "short", locale=one))

    def places(draw: random.Random) -> tuple[str, str]:
        some = draw.sample(territories, draw.randint(1, 3))
        return in_both(lambda one: lists.format_list([one.territories[key] for key in some], locale=one))

    def tongues(draw: random.Random) -> tuple[str, str]:
        some = draw.sample(languages, draw.randint(1, 3))
        return in_both(lambda one: lists.format_list([one.languages[key] for key in some], locale=one))

    def measure(draw: random.Random) -> tuple[str, str]:
        unit, amount = draw.choice(named), draw.choice(AMOUNTS)
        return in_both(lambda one: units.format_unit(amount, unit, "long", locale=one))

    def money(draw: random.Random) -> tuple[str, str]:
        coin, amount = draw.choice(currencies), draw.choice(AMOUNTS)
        return in_both(lambda one: f"{amount} {numbers.get_currency_name(coin, count=amount, locale=one)}")

    return [date, clock, places, tongues, measure, money]


def _multi30k(split: str, root: Path | None) -> list[tuple[str, str]]:
    path = root / "multi30k" / f"{split}.jsonl" if root else None
    if path is None or not path.is_file():
        try:
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(REPOSITORY, f"{split}.jsonl", repo_type="dataset"))
        except Exception as problem:
            raise FileNotFoundError(
                f"multi30k, {split}: not in a local folder, and the hub's {REPOSITORY} cannot be had "
                f"({type(problem).__name__}). Go online once, so that the hub's cache keeps it; or put its file into a "
                f"folder as multi30k/{split}.jsonl and name that folder in COURSE_DATA."
            ) from problem
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]  # U+2028 ends no line
    return [(row["en"], row["de"]) for row in rows]
