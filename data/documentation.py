"""Language-model text that every machine already has: the documentation of Python and of its libraries.

Sentences are taken from docstrings (files are parsed, never imported) and from the documentation
topics that ship with Python. They are lower-cased words and signs, separated by spaces:
`return the sum of the values , as a list .` The text is not part of this repository; which sentences
there are depends on the versions that are installed. See data/README.md.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import os
import pydoc
import random
import re
import sys
import sysconfig
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = (
    "python",
    "numpy",
    "pandas",
    "matplotlib",
    "scipy",
    "networkx",
    "sympy",
    "datasets",
    "torch",
    "transformers",
)
OTHER_NAMES = {
    "python": {"cpython"},
    "numpy": {"np"},
    "pandas": {"pd"},
    "matplotlib": {"pyplot", "plt", "mpl"},
    "networkx": {"nx"},
    "torch": {"pytorch"},
    "transformers": {"huggingface", "transformer"},
    "datasets": {"dataset"},
}
SKIPPED = {
    "test",
    "tests",
    "testing",
    "site-packages",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "externals",
    "_vendor",
    "vendor",
    "__pycache__",
    "lib-dynload",
}
MIN_WORDS, MAX_WORDS = 4, 40
RECIPE = 1  # part of the cache's name: raise it when the sentences are made in another way
MARKED_RECIPE = 1  # the same for sentences with marks
DOCUMENTS_RECIPE = 1  # and for documents
MARKED_WORDS = (6, 60)  # words of a sentence with marks, at least and at most
PAGES_RECIPE = 1  # the same for pages
MAX_PAGE = 4000  # characters of a page

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
PLAIN = re.compile(r"[A-Z][A-Za-z ,;:()'-]*\.")
TOKEN = re.compile(r"[a-z]+(?:['-][a-z]+)*|[,;:.()]")
ROLE = re.compile(r":[a-z:]+:`~?([^`<]*?)(?: <[^`]*>)?`")
MARK = re.compile(r":(?:py:)?(func|class|meth|mod|attr|exc):`~?\.?([\w.]+)(?:\(\))?`|``([\w.]+)``")
HAS_MARKS = re.compile(rb":(?:func|class|meth|mod|attr|exc):`|``[\w.]+``")  # most files have none, and need no parsing
MARKED = {"func": "FUNC", "meth": "FUNC", "class": "CLASS", "exc": "CLASS", "attr": "ATTR", "mod": "MOD"}
PARAMETERS = re.compile(r"^Parameters\n-+[ \t]*$", re.MULTILINE)  # the heading that numpy's style of docstrings has
MARKED_TOKEN = re.compile(r"[a-z]+|\d+|[^\w\s]|_")


@dataclass(frozen=True)
class Sentence:
    """One sentence, the library that says it, and the source file, as a path within the library."""

    text: str
    library: str
    file: str


def installed() -> tuple[str, ...]:
    """Those of `LIBRARIES` that this machine has."""
    return tuple(name for name in LIBRARIES if library_root(name) is not None)


def sentences(libraries: Sequence[str] | None = None) -> list[Sentence]:
    """All sentences of `libraries` (all installed ones if None), each text once, in a fixed order.

    A text that several libraries have belongs to the first of them.

    Raises:
        ValueError: a library is not installed, or none of LIBRARIES.
    """
    found: dict[str, Sentence] = {}
    for library in installed() if libraries is None else libraries:
        for text, file in _of_library(library):
            found.setdefault(text, Sentence(text, library, file))
    return list(found.values())


def train_and_validation(
    limit: int | None = None, libraries: Sequence[str] | None = None, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Texts to train on and texts to validate on, from different source files: about nine to one.

    Args:
        limit: at most this many training texts, and a tenth of it for validation; None takes all.
        seed: decides the order, and which texts are taken.
    """
    train: list[str] = []
    valid: list[str] = []
    for item in sentences(libraries):
        (valid if is_validation(item) else train).append(item.text)
    shuffle = random.Random(seed)
    shuffle.shuffle(train)
    shuffle.shuffle(valid)
    return train[:limit], valid[: None if limit is None else max(1, limit // 10)]


def labelled_sentences(
    libraries: Sequence[str],
    per_library: int,
    seed: int = 0,
    validation: bool = False,
    words: tuple[int, int] = (MIN_WORDS, MAX_WORDS),
) -> list[tuple[str, int]]:
    """The task "which library says this": (text, index in `libraries`), shuffled, as many of each library.

    Words that name one of the libraries are taken out of the text, and texts that are left with
    fewer words than `words` says, or more, are not used.

    Args:
        validation: take them from the source files that `train_and_validation` validates on.
        words: of a text, at least and at most.

    Raises:
        ValueError: a library has fewer than `per_library` such sentences, or is not installed.
    """
    names = set(libraries).union(*(OTHER_NAMES.get(library, set()) for library in libraries))
    texts: dict[str, list[str]] = {library: [] for library in libraries}
    seen: set[str] = set()
    for item in sentences(libraries):
        kept = [
            token for token in item.text.split() if not names & {token, *token.split("-"), token.removesuffix("'s")}
        ]
        text = " ".join(kept)
        fits = words[0] <= sum(map(str.isalpha, kept)) <= words[1]
        if is_validation(item) == validation and fits and text not in seen:
            seen.add(text)
            texts[item.library].append(text)
    shuffle = random.Random(seed)
    chosen = []
    for label, library in enumerate(libraries):
        if len(texts[library]) < per_library:
            raise ValueError(f"{library} has {len(texts[library])} sentences for this, not {per_library}")
        chosen += [(text, label) for text in shuffle.sample(texts[library], per_library)]
    shuffle.shuffle(chosen)
    return chosen


def documents(libraries: Sequence[str], validation: bool = False) -> list[list[str]]:
    """The plain sentences of each docstring that has two or more, in their order; each docstring once.

    Args:
        validation: take them from the source files that `train_and_validation` validates on.

    Raises:
        ValueError: a library is not installed, or none of LIBRARIES.
    """
    scanned = ((one, _scanned(one, DOCUMENTS_RECIPE, "-documents", _read_documents)) for one in libraries)
    return [text.split("\n") for text in _of_one_side(scanned, validation)]


def marked_sentences(libraries: Sequence[str], validation: bool = False) -> list[tuple[list[str], list[str]]]:
    """Sentences some words of which were marked up as code, without the marks: (words, tags), in a fixed order.

    Tags are `O`, and for marked words `B-` and `I-` with what they were marked as: FUNC, CLASS, ATTR and MOD by their
    role, CODE for double backticks. Words are lower-cased runs of letters or of digits, and single signs, so that
    `numpy.linalg` is three. The first scan of all libraries takes about half a minute; then it is cached.

    Args:
        validation: take them from the source files that `train_and_validation` validates on.

    Raises:
        ValueError: a library is not installed, or none of LIBRARIES.
    """
    found: dict[str, tuple[str, bool]] = {}  # a sentence that several files have is of the first of them
    for library in libraries:
        for words, tags, file in _scanned(library, MARKED_RECIPE, "-marked", _read_marked):
            found.setdefault(words, (tags, is_validation(Sentence(words, library, file))))
    return [(words.split(), tags.split()) for words, (tags, side) in found.items() if side == validation]


def pages(libraries: Sequence[str], validation: bool = False) -> list[str]:
    """Docstrings that list parameters as numpy's do, without their indentation, each once and in a fixed order.

    The first scan takes about ten seconds; then it is cached.

    Args:
        validation: take them from the source files that `train_and_validation` validates on.

    Raises:
        ValueError: a library is not installed, or none of LIBRARIES.
    """
    return _of_one_side(((one, _scanned(one, PAGES_RECIPE, "-pages", _read_pages)) for one in libraries), validation)


def _of_one_side(scanned: Iterable[tuple[str, Iterable[Any]]], validation: bool) -> list[str]:
    """The texts of libraries, with their files, that are to train on or to validate on, each once."""
    found: dict[str, bool] = {}  # a text that several files have is of the first of them
    for library, texts in scanned:
        for text, file in texts:
            found.setdefault(text, is_validation(Sentence(text, library, file)))
    return [text for text, side in found.items() if side == validation]


def page(name: str) -> str:
    """The documentation of an object of an installed library, by its dotted name, such as "numpy.mean".

    Raises:
        LookupError: there is no such object, or nothing is written about it.
    """
    try:
        found = pydoc.locate(name) if name else None
    except pydoc.ErrorDuringImport:
        found = None
    text = inspect.getdoc(found) if found is not None else None
    if not text:
        raise LookupError(f"nothing is written about {name!r} on this machine; numpy.mean is one that has a page")
    return text


def tagged(sentence: str) -> tuple[list[str], list[str]] | None:
    """The words and tags of a sentence with marks, see `marked_sentences`; None if it has none, or other marks."""
    words: list[str] = []
    tags: list[str] = []
    place = 0
    for mark in MARK.finditer(sentence):
        before = sentence[place : mark.start()]
        plain, inside = (MARKED_TOKEN.findall(part.lower()) for part in (before, mark[2] or mark[3]))
        kind = MARKED[mark[1]] if mark[1] else "CODE"
        words += plain + inside
        tags += ["O"] * len(plain) + [f"{'I' if number else 'B'}-{kind}" for number in range(len(inside))]
        place = mark.end()
    rest = sentence[place:]
    if not place or "`" in MARK.sub("", sentence):
        return None
    plain = MARKED_TOKEN.findall(rest.lower())
    return words + plain, tags + ["O"] * len(plain)


def plain_sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring that are plain words: no code, no lists, no tables, no parameters."""
    for paragraph in _paragraphs(text):
        joined = ROLE.sub(r"\1", " ".join(paragraph)).replace("`", "")
        for sentence in SENTENCE_END.split(joined):
            if PLAIN.fullmatch(sentence):
                tokens = TOKEN.findall(sentence.lower())
                if MIN_WORDS <= sum(token[0].isalpha() for token in tokens) <= MAX_WORDS:
                    yield " ".join(tokens)


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Runs of lines with one indentation and without a sign of code in front."""
    lines: list[str] = []
    indent = 0
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if lines and (not stripped or depth != indent):
            yield lines
            lines = []
        if stripped and not stripped.startswith((">>>", "...", "..", ":", "|", "+", "#", "@")):
            indent = depth
            lines.append(stripped)


def library_root(library: str) -> Path | None:
    """The folder of a library's source, found without importing it."""
    if library == "python":
        return Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(library) if library in LIBRARIES else None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


@cache
def _of_library(library: str) -> tuple[tuple[str, str], ...]:
    """(text, file) of each sentence of a library."""
    found = _scanned(library, RECIPE, "", lambda root, files: _read(root, files, library == "python"))
    return tuple((str(text), str(file)) for text, file in found)


def _scanned(
    library: str, recipe: int, what: str, scan: Callable[[Path, Sequence[Path]], Iterable[Sequence[Any]]]
) -> Sequence[Sequence[Any]]:
    """What `scan` finds in the files of a library, from the user's cache folder if they were read before."""
    root = library_root(library)
    if root is None:
        raise ValueError(f"{library} is not installed, or none of {', '.join(LIBRARIES)}")
    files = [path for path in sorted(root.rglob("*.py")) if not SKIPPED.intersection(path.relative_to(root).parts)]
    stamp = json.dumps([recipe, sys.version, str(root), [(str(path), path.stat().st_size) for path in files]])
    name = f"{library}{what}-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.json"
    store = cache_folder() / "documentation" / name
    try:
        return [tuple(one) for one in json.loads(store.read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        found = [tuple(one) for one in scan(root, files)]
        _save(store, found)
        return found


def _read(root: Path, files: Iterable[Path], with_topics: bool) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for path in files:
        file = path.relative_to(root).as_posix()
        for text in docstrings_of(path):
            for sentence in plain_sentences(text):
                if sentence not in seen:
                    seen.add(sentence)
                    yield sentence, file
    if with_topics:
        from pydoc_data.topics import topics

        for topic, text in sorted(topics.items()):
            for sentence in plain_sentences(text):
                if sentence not in seen:
                    seen.add(sentence)
                    yield sentence, f"topics/{topic}"


def _read_documents(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """(sentences, file) of each docstring with two or more, the sentences a line each."""
    for path in files:
        for text in docstrings_of(path):
            found = list(plain_sentences(text))
            if len(found) > 1:
                yield "\n".join(found), path.relative_to(root).as_posix()


def _read_marked(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str, str]]:
    """(words, tags, file) of each sentence with marks, words and tags joined by blanks."""
    for path in files:
        try:
            if not HAS_MARKS.search(path.read_bytes()):
                continue
        except OSError:
            continue
        for text in docstrings_of(path):
            for paragraph in _paragraphs(text) if "`" in text else ():
                for sentence in SENTENCE_END.split(" ".join(paragraph)):
                    words, tags = tagged(sentence) or ((), ())
                    if MARKED_WORDS[0] <= len(words) <= MARKED_WORDS[1] and tags.count("O") >= MIN_WORDS:
                        yield " ".join(words), " ".join(tags), path.relative_to(root).as_posix()


def _read_pages(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """(page, file) of each docstring that lists parameters."""
    for path in files:
        try:
            if b"Parameters\n" not in path.read_bytes():
                continue
        except OSError:
            continue
        for text in map(inspect.cleandoc, docstrings_of(path)):
            if PARAMETERS.search(text) and len(text) <= MAX_PAGE:
                yield text, path.relative_to(root).as_posix()


def docstrings_of(path: Path) -> Iterator[str]:
    """The docstrings in a source file; none if it cannot be parsed."""
    try:
        source = path.read_text("utf-8")
        if '"""' not in source and "'''" not in source:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            waiting: list[ast.AST] = [ast.parse(source)]
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return
    while waiting:  # classes and functions only: a walk over every expression would take most of the time
        node = waiting.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
            if isinstance(node, (ast.Module, ast.ClassDef)):
                waiting += reversed(node.body)


def is_validation(item: Sentence) -> bool:
    """Return whether a sentence belongs to the validation set; its file decides."""
    return zlib.crc32(f"{item.library}/{item.file}".encode()) % 10 == 0


def cache_folder() -> Path:
    """Where the course keeps what can be made again: COURSE_CACHE, or a folder in the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "attention_graded"
    return Path(os.environ.get("COURSE_CACHE") or default).expanduser()


def _save(store: Path, found: Sequence[Sequence[Any]]) -> None:
    """Write atomically; a folder that cannot be written to costs only time."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=store.parent, delete=False, encoding="utf-8") as part:
            json.dump(found, part)
        os.replace(part.name, store)
    except OSError:
        pass
