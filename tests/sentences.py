"""How a check speaks to a student: what is wrong with the form of its sentences."""

import re
from collections.abc import Collection

LONGEST = 25  # words of a sentence, code aside
# What is printed is data: the arguments of a call, and what the student's own code said.
PRINTED = (
    (r"^[\w ,.-]+/seed_\d+\.json( is missing)?: ", "`C`: "),  # the file of a run
    (r" \(and \d+ more\)$", ""),
    (r"(It|our code) raised .*", r"\1 raised an error."),
    (r"^(`C`) with .*?(: | must raise)", r"\1\2"),
    (r": \[.*\]|: \{.*\}|: '.*'(?=\.$)", ""),
)


def faults(message: str, names: Collection[str] = ()) -> list[str]:
    """What is wrong with a message, in words: "" begins with a small letter, does not end, or is too long.

    names: the student's names, which are code where a sentence begins with one.
    """
    text = re.sub(r"`[^`]*`", "`C`", message)
    for pattern, instead in PRINTED:
        text = re.sub(pattern, instead, text, flags=re.S)
    found = [] if text.endswith(".") else ["it does not end with a full stop"]
    for sentence in re.split(r"(?<=[.?!])\s+", text):
        first = re.split(r"[\s(.,]", sentence)[0]
        if not re.match("[A-Z`]", sentence):
            found.append(f"{sentence!r} begins with a small letter")
        if first.lower() in {name.lower() for name in names}:
            found.append(f"{first} is code: put it in backticks")
        if "?" in re.sub(r"\([^)]*\)", "", sentence):
            found.append(f"{sentence!r} is a question")
        if len(sentence.split()) > LONGEST:
            found.append(f"{sentence!r} has {len(sentence.split())} words")
    return found
