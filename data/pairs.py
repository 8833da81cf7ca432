"""Sentence pairs with labels: RTE, MNLI, QNLI and SICK from a local folder or from the hub, and made-up ones.

A local folder (an argument, or the environment variable COURSE_DATA) holds `glue/rte/train.tsv` and
`validation.tsv`, or GLUE's own `RTE/train.tsv` and `dev.tsv`, likewise for the other tasks. Without one,
`datasets` reads the hub's files, which the hub's library keeps in its cache. See data/README.md.
"""

import csv
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.reviews import data_folder

NLI = ("entailment", "neutral", "contradiction")
TWO = ("entailment", "not_entailment")


@dataclass(frozen=True)
class Source:
    """Where a task's pairs are: folders and columns of local files, repository and files of the hub."""

    classes: tuple[str, ...]
    columns: tuple[str, str]
    folders: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]  # by split
    repository: str
    revision: str
    hub_files: Mapping[str, str]  # by split, patterns


def _glue(name: str, classes: tuple[str, ...], columns: tuple[str, str], *more: str, dev: str = "") -> Source:
    splits = {"train": ("train.tsv",), "validation": (f"validation{dev}.tsv", f"dev{dev}.tsv")}
    hub = {"train": f"{name}/train-*.parquet", "validation": f"{name}/validation{dev}-*.parquet"}
    folders = (f"glue/{name}", name.upper(), *more)
    return Source(classes, columns, folders, splits, "nyu-mll/glue", "main", hub)


# GLUE: Wang et al. 2019. The hub's SICK repository ships a loading script, which `datasets` no longer runs;
# the hub keeps the same rows as parquet files under a revision of its own.
SOURCES: dict[str, Source] = {
    "rte": _glue("rte", TWO, ("sentence1", "sentence2")),
    "mnli": _glue("mnli", NLI, ("premise", "hypothesis"), dev="_matched"),
    "qnli": _glue("qnli", TWO, ("question", "sentence"), "glue/qnli_like"),
    "sick": Source(
        NLI,
        ("sentence_A", "sentence_B"),
        ("sick", "SICK"),
        {"train": ("train.tsv",), "validation": ("validation.tsv", "dev.tsv")},
        "RobZamp/sick",
        "refs/convert/parquet",
        {"train": "default/train/*.parquet", "validation": "default/validation/*.parquet"},
    ),
}
SPLITS = ("train", "validation")
MADE_UP_WORDS = tuple(f"w{number}" for number in range(60))
TOPICS = 3  # of made-up words: w0, w3, w6, ... are of the first
WORDS = "words"  # the made-up task that a tiny encoder is pretrained on
MADE_UP = {f"made-up-{task}": source.classes for task, source in SOURCES.items()} | {
    f"made-up-{WORDS}": tuple(f"topic {number}" for number in range(TOPICS))
}


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs of one split of a task; `labels` are positions in `classes`."""

    task: str
    classes: tuple[str, ...]
    first: list[str]
    second: list[str]
    labels: list[int]
    origin: str

    def __len__(self) -> int:
        return len(self.labels)


def load(task: str, split: str, folder: Path | str | None = None, limit: int | None = None) -> Pairs:
    """One split of a task: from `folder` or $COURSE_DATA where they hold it, else from the hub.

    Args:
        task: rte, mnli, qnli, sick; or one of these after `made-up-`, generated here, see `made_up`.
        split: train or validation (of MNLI, the matched one).
        limit: at most so many pairs, the first ones.

    Raises:
        ValueError: no such task or split, or a file lacks a column or holds a label that is none of the task's.
        FileNotFoundError: neither a local file nor the hub nor its cache has it; says what to do.
    """
    if task not in (*SOURCES, *MADE_UP) or split not in SPLITS:
        raise ValueError(f"there is no {split} of {task!r}: {', '.join(SOURCES)}, each with {' and '.join(SPLITS)}")
    if task in MADE_UP:
        return made_up(task.removeprefix("made-up-"), split, limit or 120)
    path = _local(task, split, data_folder(folder))
    if path is not None:
        with path.open(encoding="utf-8", newline="") as file:
            rows: Iterable[Mapping[str, Any]] = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        return _pairs(task, rows, str(path), limit)
    return _pairs(task, _from_hub(task, split), f"{SOURCES[task].repository} on the hub", limit)


def made_up(task: str, split: str, count: int) -> Pairs:
    """Pairs of made-up words, each of which belongs to one of TOPICS; who has learned which can tell the label.

    The first sentence is of one topic. The second is of the same (entailment) or of another one; where a task has
    three classes, of both in the middle one. In the task WORDS both are of one topic, and the label is which.
    """
    classes = MADE_UP[f"made-up-{task}"]
    draw = random.Random(f"{task} {split}")
    first, second, labels = [], [], []
    for number in range(count):
        label = number % len(classes)
        topic = label if task == WORDS else draw.randrange(TOPICS)
        other = topic if task == WORDS else (topic + draw.randrange(1, TOPICS)) % TOPICS
        here, there = (MADE_UP_WORDS[one::TOPICS] for one in (topic, other))
        new = round(4 * label / (len(classes) - 1))
        words = draw.sample(here, 4 - new) + draw.sample(there, new)
        first.append(" ".join(draw.sample(here, draw.randint(4, 8))))
        second.append(" ".join(draw.sample(words, len(words))))
        labels.append(label)
    return Pairs(f"made-up-{task}", classes, first, second, labels, "made up")


def _local(task: str, split: str, root: Path | None) -> Path | None:
    if root is None:
        return None
    source = SOURCES[task]
    places = [root / folder / name for folder in source.folders for name in source.files[split]]
    return next((place for place in places if place.is_file()), None)


def _pairs(task: str, rows: Iterable[Mapping[str, Any]], origin: str, limit: int | None) -> Pairs:
    source, first, second, labels = SOURCES[task], [], [], []
    for number, row in enumerate(rows):
        if limit is not None and number >= limit:
            break
        columns = source.columns if source.columns[0] in row else ("sentence1", "sentence2")
        label = row.get("label", row.get("gold_label"))
        if any(not isinstance(row.get(column), str) for column in columns) or label is None:
            raise ValueError(f"{origin}, row {number + 1}: columns {', '.join(source.columns)} and label are needed")
        if label not in source.classes and label not in range(len(source.classes)):
            raise ValueError(f"{origin}, row {number + 1}: the label {label!r} is none of {', '.join(source.classes)}")
        first.append(row[columns[0]])
        second.append(row[columns[1]])
        labels.append(source.classes.index(label) if isinstance(label, str) else int(label))
    if not labels:
        raise ValueError(f"{origin} holds no pairs")
    return Pairs(task, source.classes, first, second, labels, origin)


def _from_hub(task: str, split: str) -> Iterable[Mapping[str, Any]]:
    from datasets import load_dataset
    from huggingface_hub import snapshot_download

    source = SOURCES[task]
    try:
        folder = snapshot_download(
            source.repository, repo_type="dataset", revision=source.revision, allow_patterns=source.hub_files[split]
        )
        files = sorted(str(path) for path in Path(folder).glob(source.hub_files[split]))
        if not files:
            raise FileNotFoundError(f"no {source.hub_files[split]} there")
    except Exception as problem:
        raise FileNotFoundError(
            f"{task}, {split}: not in a local folder, and the hub's {source.repository} cannot be had "
            f"({type(problem).__name__}). Go online once, so that the hub's cache keeps it; or put its files into a "
            f"folder as {source.folders[0]}/{source.files[split][0]} and name that folder in COURSE_DATA."
        ) from problem
    return load_dataset("parquet", data_files=files, split="train")
