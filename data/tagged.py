"""Sentences with a tag for each word: marked-up documentation, CoNLL-2003, and made-up ones.

CoNLL-2003 is read from a local folder (an argument, or the environment variable COURSE_DATA) that holds
`ner/conll2003/train.txt` and `test.txt` in the form in which it was published: a word and its tags on each line, the
last one its name tag, and an empty line after each sentence. Without one, `datasets` reads the hub's files. See
data/README.md.
"""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from data import documentation
from data.pairs import MADE_UP_WORDS
from data.reviews import data_folder

Tagged = tuple[list[str], list[str]]  # words and tags, one for each
TASKS = ("documentation", "conll2003", "made-up-tags")
SPLITS = ("train", "test")
# Their versions are in constraints.txt, so that machines which keep to it have one text; Python's own are not.
LIBRARIES = ("numpy", "pandas", "scipy", "matplotlib", "networkx", "sympy", "torch")
REPOSITORY, REVISION = "eriktks/conll2003", "refs/convert/parquet"  # `datasets` no longer runs its loading script
CONLL_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")  # as the hub numbers them
MADE_UP_LENGTH, OPENERS = 14, 6  # words of a made-up sentence; the first so many words open a name


def load(task: str, split: str, count: int, folder: Path | str | None = None) -> list[Tagged]:
    """So many sentences of a task, always the same on one machine, in an order that was drawn.

    Raises:
        ValueError: no such task or split, or it has fewer sentences.
        FileNotFoundError: neither a local file nor the hub nor its cache has it; says what to do.
    """
    if task not in TASKS or split not in SPLITS:
        raise ValueError(f"there is no {split} of {task!r}: {', '.join(TASKS)}, each with {' and '.join(SPLITS)}")
    if task == "documentation":
        found = documentation.marked_sentences(LIBRARIES, validation=split == "test")
    elif task == "conll2003":
        found = _conll(split, data_folder(folder))
    else:
        found = made_up(split, count)
    if len(found) < count:
        raise ValueError(f"{task}, {split}, has {len(found)} sentences, not {count}")
    random.Random(0).shuffle(found)
    del found[count:]
    return found


def made_up(split: str, count: int) -> list[Tagged]:
    """Made-up words whose tags depend on the words before: an opener says that a name follows, and of which kind.

    The name has two words if the opener has an even number, else one.
    """
    draw, found = random.Random(f"tags {split}"), []
    for _ in range(count):
        numbers: list[int] = []
        tags: list[str] = []
        while len(numbers) < MADE_UP_LENGTH:
            if draw.random() < 0.3:
                opener, name = draw.randrange(OPENERS), draw.randrange(OPENERS, len(MADE_UP_WORDS))
                kind = "PER" if opener < OPENERS // 2 else "LOC"
                numbers += [opener, name]
                tags += ["O", f"B-{kind}"]
                if opener % 2 == 0:
                    numbers.append(draw.randrange(OPENERS, len(MADE_UP_WORDS)))
                    tags.append(f"I-{kind}")
            numbers.append(draw.randrange(OPENERS, len(MADE_UP_WORDS)))
            tags.append("O")
        words = [MADE_UP_WORDS[number] for number in numbers]
        found.append((words[:MADE_UP_LENGTH], tags[:MADE_UP_LENGTH]))
    return found


def read_columns(lines: Iterable[str]) -> Iterator[Tagged]:
    """The sentences of a file in CoNLL's form: a word first and its tag last on each line, blanks between.

    Tags without `B-`, as CoNLL-2003 was published, get it where a name begins.
    """
    words: list[str] = []
    tags: list[str] = []
    for line in [*lines, ""]:
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            yield words, _with_beginnings(tags)
            words, tags = [], []


def _with_beginnings(tags: list[str]) -> list[str]:
    before = ["O", *tags]
    return [
        f"B-{tag[2:]}" if tag.startswith("I-") and last[2:] != tag[2:] else tag
        for last, tag in zip(before, tags, strict=False)
    ]


def _conll(split: str, root: Path | None) -> list[Tagged]:
    path = root / "ner" / "conll2003" / f"{split}.txt" if root else None
    if path and path.is_file():
        return list(read_columns(path.read_text("utf-8").split("\n")))
    pattern = f"conll2003/{split}/*.parquet"
    try:
        from datasets import load_dataset
        from huggingface_hub import snapshot_download

        kept = snapshot_download(REPOSITORY, repo_type="dataset", revision=REVISION, allow_patterns=pattern)
        files = sorted(str(one) for one in Path(kept).glob(pattern))
        if not files:
            raise FileNotFoundError(f"no {pattern} there")
    except Exception as problem:
        raise FileNotFoundError(
            f"conll2003, {split}: not in a local folder, and the hub's {REPOSITORY} cannot be had "
            f"({type(problem).__name__}). Go online once, so that the hub's cache keeps it; or put its file into a "
            f"folder as ner/conll2003/{split}.txt and name that folder in COURSE_DATA."
        ) from problem
    rows = load_dataset("parquet", data_files=files, split="train")
    return [(list(row["tokens"]), [CONLL_TAGS[number] for number in row["ner_tags"]]) for row in rows]
