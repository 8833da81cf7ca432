"""Checks of notebook 08: inputs of four kinds, labels of words, entities, answers, heads, spans, features, taggers."""

import functools
import itertools
import math
import random
import re
import statistics
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.func import functional_call

from utils import tiny_bert
from utils.checks import nb08_toys as toys
from utils.experiments import tagging
from utils.grading import expect
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, has_form, is_new, model_kept, world_kept
from utils.grading.expect import generator, normal
from utils.grading.forbidden import MODELS
from utils.grading.parts import part
from utils.grading.remote import INFINITY, Library, Remote, kind, promised, read
from utils.grading.results_check import results_check

# 8.1

Rows = list[list[int]]


def cut_pair(a: Sequence[int], b: Sequence[int], room: int, tie: str = "b") -> tuple[list[int], list[int]]:
    """Both, cut to `room` tokens in all: one at a time from the longer one, from `tie` if they are equally long."""
    n, m = len(a), len(b)
    while n + m > max(room, 0):
        if n > m or (n == m and tie == "a"):
            n -= 1
        else:
            m -= 1
    return list(a[:n]), list(b[:m])


def cut_shorter(a: Sequence[int], b: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """As `cut_pair`, but from the shorter one while it has a token."""
    n, m = len(a), len(b)
    while n + m > max(room, 0):
        if m and (n >= m or not n):
            m -= 1
        else:
            n -= 1
    return list(a[:n]), list(b[:m])


def rows_by_rule(kind: str, parts: Sequence[Sequence[int]], most: int) -> list[tuple[list[int], list[int] | None]]:
    """For each row what stands before and after its first [SEP]; None for a single text."""
    if kind == "single":
        return [(list(parts[0][: most - 2]), None)]
    if kind == "qa":
        return [(list(parts[0]), list(parts[1][: most - 3 - len(parts[0])]))]
    return [cut_pair(parts[0], other, most - 3) for other in parts[1:]]


def laid_out(pairs: Sequence[tuple[Sequence[int], Sequence[int] | None]], cls: int, sep: int, pad: int) -> list[Rows]:
    """Ids, types and mask of these rows, padded to the longest."""
    rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
    T = max(map(len, rows))
    ids = [row + [pad] * (T - len(row)) for row in rows]
    types = []
    for (a, _), row in zip(pairs, rows, strict=True):
        types.append([0] * (len(a) + 2) + [1] * (len(row) - len(a) - 2) + [0] * (T - len(row)))
    return [ids, types, [[1] * len(row) + [0] * (T - len(row)) for row in rows]]


def is_read(task_input: Remote, kind: str, parts: list[list[int]], most: int, *special: int) -> None:
    """Fail unless one example becomes the rows that the table asks for. `special` are cls, sep and pad, or none."""
    cls, sep, pad = special or (101, 102, 0)
    names = ("the ids", "the types", "the mask")
    value = task_input(kind, parts, most, *special)
    found = expect.items(value, 3, "`task_input` should return ids, types and mask, three tensors")
    pairs = rows_by_rule(kind, parts, most)
    wanted = laid_out(pairs, cls, sep, pad)
    n = len(pairs)
    whole: list[Any] = [(parts[0], None)] if kind == "single" else [(parts[0], other) for other in parts[1:]]
    for item, name in zip(found, names, strict=True):
        assert type(item) is torch.Tensor, f"{name} should be a tensor, not {kind_of(item)}."
    if n > 1 and found[0].shape[:-1] != (n,):
        told = "the options are in one long row. Each needs its own row, with the whole context before it."
        whole_row = found[0].shape[:-1] in ((), (1,)) and {*itertools.chain(*parts)} <= {*found[0].flatten().tolist()}
        assert not whole_row, told
        told = f"with {n} options, the ids have shape {tuple(found[0].shape)}. They should have a row for each option."
        raise AssertionError(told)
    assert found[0].ndim == 2, "the ids should be a tensor (N, T), also with N = 1."
    rows, T = found[0].tolist(), len(wanted[0][0])
    longest = len(rows[0])
    if kind == "qa":
        size = len(parts[0])
        told = "the question is cut. Only the passage may lose its end."
        assert {*parts[0]} <= {*rows[0]} or rows[0][1:2] != parts[0][:1], told
        told = "in a row of a question and its passage, [CLS] and then the whole question should come first."
        assert rows[0][1 : size + 1] == parts[0], told
    told = "the rows are padded to more than max_len. Pad them to the longest row."
    assert longest <= most or rows != [row + [pad] * (longest - T) for row in wanted[0]], told
    told = f"for the kind {kind!r}, a row of {longest} tokens is longer than max_len = {most}."
    assert longest <= most, f"{told} Special tokens are included in max_len."
    guesses: dict[str, Any] = {
        "the last [SEP] is cut off. Cut the texts first, then add the special tokens.": [
            row[:most] for row in laid_out(whole, cls, sep, pad)[0]
        ],
        "an empty second text has no [SEP]. It should have one too.": laid_out(
            [(a, b or None) for a, b in pairs], cls, sep, pad
        )[0],
        "the last [SEP] is missing. Each text should have one after it.": [
            row[: sum(real) - 1] for row, real in zip(*wanted[::2], strict=True)
        ],
        "there is only one [SEP]. Each of the two texts should have one after it.": [
            [cls, *a, *(b or []), sep] for a, b in pairs
        ],
        "the [CLS] at the beginning of a row is missing.": [row[1:] for row in wanted[0]],
        "the ids of [CLS] and [SEP] are always 101 and 102. Use `cls` and `sep`.": laid_out(pairs, 101, 102, pad)[0],
        "[PAD] is always 0. Use `pad`.": laid_out(pairs, cls, sep, 0)[0],
        "a token of a text whose id is `pad` is dropped. It is a token like any other.": laid_out(
            [([one for one in a if one != pad], None if b is None else [*b]) for a, b in pairs], cls, sep, pad
        )[0],
        "the rows are padded to max_len. Pad them to the longest row.": [row + [pad] * (most - T) for row in wanted[0]],
        "the pads come before the tokens of a row. They should come after them.": [
            [pad] * (T - sum(real)) + row[: sum(real)] for row, real in zip(*wanted[::2], strict=True)
        ],
        "the context is only in the first row. Each option needs it in its own row.": laid_out(
            [(a if n == 0 else [], b) for n, (a, b) in enumerate(pairs)], cls, sep, pad
        )[0],
        f"for the kind {kind!r}, the texts are in the wrong order. The first one of `parts` comes first.": laid_out(
            [(a, None) if b is None else (b, a) for a, b in pairs], cls, sep, pad
        )[0],
    }
    if kind in ("pair", "choice"):
        both, left, ends = (parts[0], parts[1:]), parts[0], []
        for other in parts[1:]:
            left, end = cut_pair(left, other, most - 3)
            ends.append(end)
        cut = "only the second text is cut." if kind == "pair" else "of a choice, only the option is cut."
        cuts = {
            (
                "the context is cut for one option, and stays cut in the rows of the others. Cut it "
                "for each option separately."
            ): [(left, end) for end in ends],
            f"{cut} Remove tokens one at a time from the end of the longer text.": [
                (both[0][: most - 3], other[: max(0, most - 3 - len(both[0]))]) for other in both[1]
            ],
            "tokens are removed from the shorter text. Remove them from the longer one.": [
                cut_shorter(both[0], other, most - 3) for other in both[1]
            ],
            "only the first text is cut. Remove tokens one at a time from the end of the longer text.": [
                (both[0][: max(0, most - 3 - len(other))], other) for other in both[1]
            ],
            "if both texts are equally long, the first one loses a token. It should be the second one.": [
                cut_pair(both[0], other, most - 3, "a") for other in both[1]
            ],
            "the texts lose one token too many. A row may have max_len tokens.": [
                cut_pair(both[0], other, most - 4) for other in both[1]
            ],
            "each text gets half of the room. A short text need not lose anything.": [
                (both[0][: (most - 3) // 2], other[: (most - 3) // 2]) for other in both[1]
            ],
            "the texts lose their first tokens. Cut them at the end.": [
                (list(both[0][len(both[0]) - len(a) :]), list(other[len(other) - len(b or []) :]))
                for (a, b), other in zip(pairs, both[1], strict=True)
            ],
        }
        guesses |= {sentence: laid_out(guess, cls, sep, pad)[0] for sentence, guess in cuts.items()}
    if kind == "single":
        guesses["a single text has two [SEP]. It should have one."] = [wanted[0][0] + [sep]]
    expect.explained(
        rows,
        wanted[0],
        (f"for the kind {kind!r}, with `cls = {cls}, sep = {sep}, pad = {pad}`, the ids are not those of the table."),
        guesses,
    )
    for place, name in ((1, "types"), (2, "mask")):
        item = found[place]
        assert item.shape == (n, T), f"the {name} should have the shape of the ids."
    assert all(not item.is_floating_point() and item.dtype != torch.bool for item in found), (
        "ids, types and mask should be int64 tensors, not floats or booleans."
    )
    assert all(item.dtype == torch.int64 for item in found), "ids, types and mask should be int64 tensors."
    expect.explained(
        found[1].tolist(),
        wanted[1],
        (f"for the kind {kind!r}, the types are wrong. They are 0 up to the first [SEP], then 1, and 0 at pads."),
        {
            "all types are 0: the encoder cannot tell the texts apart.": [[0] * T] * n,
            "the first [SEP] has type 1. It belongs to the first text, so its type is 0.": [
                [0] * (len(a) + 1) + [1] * (sum(real) - len(a) - 1) + [0] * (T - sum(real))
                for (a, _), real in zip(pairs, wanted[2], strict=True)
            ],
            "pads have type 1. Their type should be 0.": [
                [0] * (len(a) + 2) + [1] * (T - len(a) - 2) for a, _ in pairs
            ],
            "the types are the wrong way round. The first text should have type 0.": [
                [real - one for one, real in zip(row, reals, strict=True)]
                for row, reals in zip(wanted[1], wanted[2], strict=True)
            ],
            "a single text has type 1. It should have type 0.": [[1] * T],
        },
    )
    expect.explained(
        found[2].tolist(),
        wanted[2],
        "the mask is wrong. It is 1 at all tokens, also at special ones, and 0 at pads.",
        {
            "the mask is 1 at pads, so the encoder would read them. It should be 0 there.": [[1] * T] * n,
            "the mask is the wrong way round. It should be 1 at tokens and 0 at pads.": [
                [1 - one for one in row] for row in wanted[2]
            ],
            "the mask is 0 at a token of a text whose id is `pad`. Use the lengths of the texts, not the ids.": [
                [int(number != pad) for number in row] for row in wanted[0]
            ],
            "the mask is 0 at special tokens. It should be 1: they are read like any other token.": [
                [int(real and number not in (cls, sep)) for number, real in zip(row, reals, strict=True)]
                for row, reals in zip(wanted[0], wanted[2], strict=True)
            ],
        },
    )


kind_of = kind  # where a parameter is called `kind`


@check("8.1", points=2, forbids=("import tokenizers", *MODELS))
def task_input(task_input, lib):
    """Check rows of four kinds: cuts, types and masks, with unchanged arguments."""
    a, b, c = list(range(10, 17)), list(range(30, 34)), list(range(50, 61))
    is_read(task_input, "pair", [b, b[:2]], 20)
    is_read(task_input, "pair", [a, b[:2]], 11)
    is_read(task_input, "pair", [a, a], 12)
    is_read(task_input, "pair", [b[:2], a], 11)
    with world_kept(lib, "after task_input"):
        task_input("pair", [a, b], 9)
    is_new(lib, "what task_input gives", task_input, "pair", [a, b], 9)
    for most in (20, 10, 9):
        is_read(task_input, "single", [c], most)
        is_read(task_input, "pair", [a, b], most)
        is_read(task_input, "qa", [b, c], most)
    for parts, most in (([b, c], 9), ([a, a], 9), ([c, b], 8), ([[], b], 6), ([b, []], 6)):
        is_read(task_input, "pair", parts, most)
    is_read(task_input, "qa", [a, b], 11)
    is_read(task_input, "qa", [a, b[:1]], 11)
    is_read(task_input, "single", [[]], 5)
    for most in (30, 11):
        is_read(task_input, "choice", [a, b, c, b[:1]], most)
    is_read(task_input, "choice", [a, b], 12)
    is_read(task_input, "choice", [a, b, [0, 7], [5]], 30, 1, 2, 0)
    is_read(task_input, "pair", [[0, 7, 0, 8], b], 30)
    is_read(task_input, "choice", [a, b, b[:2]], 30, 7, 8, 9)
    told = "a question that leaves no room for a token of the passage should raise ValueError."
    for most in (10, 9, 4):
        expect.refuses(lambda most=most: task_input("qa", [a, b], most), says=told)
    told = "a question that leaves no room should raise ValueError, even if the passage is empty."
    expect.refuses(lambda: task_input("qa", [a, []], 10), says=told)
    told = "an unknown kind should raise ValueError."
    expect.refuses(lambda: task_input("question", [a, b], 20), says=told)


# 8.2


def first_pieces(word_ids: Sequence[int | None]) -> dict[int, int]:
    """The first piece of each word that has one."""
    found: dict[int, int] = {}
    for t, word in enumerate(word_ids):
        if word is not None:
            found.setdefault(word, t)
    return found


def aligned(align_labels: Remote, word_ids: list[int | None], labels: list[Any], ignore: Any = None) -> None:
    """Fail unless each label stands at its word's first piece."""
    found = align_labels(word_ids, labels) if ignore is None else align_labels(word_ids, labels, ignore)
    none = -100 if ignore is None else ignore
    expect.of_type(found, list, "`align_labels` should return a list")
    first = first_pieces(word_ids)
    wanted = [none] * len(word_ids)
    for word, t in first.items():
        wanted[t] = labels[word]
    known = [word for word in word_ids if word is not None]
    places = {word: place for place, word in enumerate(first)}
    last = {word: t for t, word in enumerate(word_ids) if word is not None}
    assert len(found) == len(word_ids), "there should be one label for each piece."
    told = "with another value of `ignore`, a piece still gets -100. It should get `ignore`."
    assert ignore in (None, -100) or -100 not in found, told
    everywhere = [none if word is None else labels[word] for word in word_ids]
    expect.explained(
        found,
        wanted,
        "each label should be at the first piece of its word.",
        {
            "every piece of a word gets its label. Only the first piece should.": everywhere,
            "the label is at the last piece of a word. It should be at the first.": [
                labels[word] if word is not None and last[word] == t else none for t, word in enumerate(word_ids)
            ],
            "special tokens are labelled. They belong to no word, so they should get `ignore`.": [
                "O" if word is None else now for word, now in zip(word_ids, wanted, strict=True)
            ],
            (
                "words are counted, not looked up by their number. After a word without pieces, all "
                "labels are off by one."
            ): [
                labels[places[word]] if word is not None and first[word] == t else none
                for t, word in enumerate(word_ids)
            ],
            "labels are looked up by the number of the piece. Look them up by the number of the word.": [
                none if word is None else labels[min(known[: t + 1].index(word), len(labels) - 1)]
                for t, word in enumerate(word_ids)
            ],
            "word 0 is treated as no word. It is the first word.": [
                now if word else none for word, now in zip(word_ids, wanted, strict=True)
            ],
            "a label that is 0 or empty is treated as no label.": [now or none for now in wanted],
            "neighbouring words with the same label are treated as one word. Compare words, not labels.": [
                none if word is None or (t and everywhere[t - 1] == everywhere[t]) else everywhere[t]
                for t, word in enumerate(word_ids)
            ],
        },
    )


def foretold(
    word_predictions: Remote, word_ids: list[int | None], predicted: list[Any], count: int, missing: Any = None
) -> None:
    """Fail unless each word has its first piece's prediction."""
    value = (
        word_predictions(word_ids, predicted, count)
        if missing is None
        else word_predictions(word_ids, predicted, count, missing)
    )
    none = "O" if missing is None else missing
    expect.of_type(value, list, "`word_predictions` should return a list")
    first = first_pieces(word_ids)
    last = {word: t for t, word in enumerate(word_ids) if word is not None}
    inner = [predicted[t] for t in sorted(first.values())]
    told = "there should be `count` predictions, one for each word, also for words without pieces."
    assert len(value) == count, told
    wanted = [predicted[first[word]] if word in first else none for word in range(count)]
    pieces = [[one for own, one in zip(word_ids, predicted, strict=True) if own == word] for word in range(count)]
    assert none == "O" or "O" in wanted or "O" not in value, "`missing` is not used for a word without pieces."
    otherwise = "a word's prediction should be that of its first piece."
    if all(value[word] == wanted[word] for word in first):
        otherwise = "a word without pieces should get `missing`."
    elif any(one not in (*predicted, none) for one in value):
        otherwise = "a word gets what is neither in `predicted` nor `missing`."
    expect.explained(
        value,
        wanted,
        otherwise,
        {
            "a prediction that is 0 or empty is replaced by `missing`. It is a prediction like any other.": [
                one or none for one in wanted
            ],
            "the prediction of a word's last piece is used. Use that of its first piece.": [
                predicted[last[word]] if word in last else none for word in range(count)
            ],
            (
                "words are counted, not looked up by their number. After a word without pieces, all "
                "predictions are off by one."
            ): (inner + [none] * count)[:count],
            "these are the first `count` predictions. Take for each word that of its first piece.": predicted[:count],
            "word 0 is treated as no word. It is the first word.": [none, *wanted[1:]],
            "a word without pieces gets the prediction of another word. It should get `missing`.": [
                wanted[max((w for w in first if w <= word), default=0)] for word in range(count)
            ],
            "a word without pieces gets the prediction of a later word. It should get `missing`.": [
                wanted[min((w for w in first if w >= word), default=word)] for word in range(count)
            ],
            "a first piece that is O is skipped. It decides like any other.": [
                next((one for one in row if one != "O"), "O") if row else none for row in pieces
            ],
            "the most frequent prediction of a word's pieces is used. Only its first piece should decide.": [
                max(row, key=row.count) if row else none for row in pieces
            ],
        },
    )


@check("8.2", points=2, forbids=MODELS)
def labels(align_labels, word_predictions, lib):
    """Check that labels are at first pieces and predictions come from them, whichever words have none."""
    plain: list[int | None] = [None, 0, 1, 1, 1, 2, 3, 3, None, None]
    gone: list[int | None] = [None, 0, 0, 2, 4, 4, None]
    cut: list[int | None] = [None, 0, 1, 1, None]
    told = "a second call with the same words gives other labels. They should depend on the arguments alone."
    once, twice = (align_labels(plain, ["B-ORG", "O", "I-ORG", "O"]) for _ in range(2))
    assert type(once) is not list or expect.same(once, twice), told
    for word_ids, count in ((plain, 4), (gone, 6), (cut, 5)):
        numbers = [place % 3 for place in range(count)]
        texts = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "B-ORG"][:count]
        aligned(align_labels, word_ids, texts, "none")
        aligned(align_labels, word_ids, numbers)
        aligned(align_labels, word_ids, list(range(count)))
        foretold(word_predictions, word_ids, [f"tag {t}" for t in range(len(word_ids))], count)
        foretold(word_predictions, word_ids, [t % 4 for t in range(len(word_ids))], count, -1)
    near: list[int | None] = [None, 0, 1, 1, 2, 3, None]
    for labels in (["B-PER", "B-PER", "I-PER", "I-PER"], [4, 4, 0, 0]):
        aligned(align_labels, near, labels)
    late: list[int | None] = [None, 400, 400, 401, 500, 500, 500, None]
    told = "a word with a number above 256 has its label at every piece. Compare words with `==`, not with `is`."
    numbers = list(range(501))
    assert align_labels(late, numbers) != [-100, 400, 400, 401, 500, 500, 500, -100], told
    aligned(align_labels, late, numbers)
    for call, what, given in (
        (align_labels, "align_labels", [plain, ["O", "B-X", "I-X", "O"]]),
        (word_predictions, "word_predictions", [plain, ["O"] * len(plain), 4]),
    ):
        with world_kept(lib, f"after {what}"):
            call(*given)
        is_new(lib, f"the list that {what} gives", call, *given)
    has_form(lib, "list[str]", "what `align_labels` gives", align_labels, plain, ["O", "B-X", "I-X", "O"], "-")
    has_form(lib, "list[str]", "what `word_predictions` gives", word_predictions, plain, ["O"] * len(plain), 4)
    many: list[int | None] = [None, 0, 0, 0, 0, 1, 1, 2, None]
    foretold(word_predictions, many, ["B-PER", "O", "B-LOC", "I-LOC", "I-LOC", "O", "I-PER", "B-ORG", "O"], 3)
    told = "without pieces, `align_labels` should return an empty list."
    assert align_labels([], []) == [], told
    told = "if no piece belongs to a word, each label should be `ignore`."
    assert align_labels([None, None], ["O"]) == [-100, -100], told
    told = "if no word has a piece, each prediction should be `missing`."
    assert word_predictions([None, None], ["B-PER", "B-PER"], 2, "?") == ["?", "?"], told
    assert word_predictions([], [], 0) == [], "without words, `word_predictions` should return an empty list."


# 8.3

Entity = tuple[int, int, str]


def chunks(tags: Sequence[str]) -> list[Entity]:
    """The entities as conlleval finds them: two questions at each border, whether one ends, whether one begins."""
    found, start = [], 0
    before, last = "O", ""
    for t, tag in enumerate([*tags, "O"]):
        head, kind_now = tag[0], tag[2:]
        ends = (before in "BI" and head in "BO") or (before != "O" and last != kind_now)
        begins = head == "B" or (before == "O" and head == "I") or (head != "O" and last != kind_now)
        if ends:
            found.append((start, t - 1, last))
        if begins:
            start = t
        before, last = head, kind_now
    return found


def strict_chunks(tags: Sequence[str]) -> list[Entity]:
    """Only entities that begin with B-."""
    return [one for one in chunks(tags) if tags[one[0]][0] == "B"]


def merged_chunks(tags: Sequence[str]) -> list[Entity]:
    """As if B- went on with an entity of its own type."""
    return chunks([tag.replace("B-", "I-", 1) for tag in tags])


def typeless_chunks(tags: Sequence[str]) -> list[Entity]:
    """As if I- of any type went on, with the type of the beginning."""
    plain = chunks([tag[:1] + ("-x" if tag != "O" else "") for tag in tags])
    return [(first, last, tags[first][2:]) for first, last, _ in plain]


def beginning_chunks(tags: Sequence[str]) -> list[Entity]:
    """As if `I-` went on where its type begins with that of the entity."""
    found, before = list[Entity](), None
    for t, tag in enumerate(tags):
        head, now = tag[0], tag[2:]
        if head == "I" and before is not None and now.startswith(before):
            found[-1] = (found[-1][0], t, now)
        elif head != "O":
            found.append((t, t, now))
            before = now
        if head == "O":
            before = None
    return found


def open_chunks(tags: Sequence[str]) -> list[Entity]:
    """The entities where those of one type go on over each O between them."""
    found: list[Entity] = []
    for first, last, name in chunks(tags):
        if found and found[-1][2] == name and tags[first][0] == "I":
            found[-1] = (found[-1][0], last, name)
        else:
            found.append((first, last, name))
    return found


def found_in(entities: Remote, tags: list[str], right: list[list[str]] | None = None) -> None:
    """Fail unless the entities of one sentence are conlleval's, which is then added to `right`.

    No mistake is named that would have given other entities for a sentence in `right`.
    """
    value = entities(tags)
    expect.of_type(value, list, "`entities` should return a list of tuples (first, last, type)")
    for one in value:
        kinds = sorted(type(item).__name__ for item in one) if type(one) is list else []
        told = "first, last and type of an entity are in the wrong order. An entity is (first, last, type)."
        assert kinds != ["int", "int", "str"] or type(one[2]) is str, told
        types = [type(item) for item in expect.items(one, 3, "an entity should be (first, last, type)")]
        assert types == [int, int, str], "first and last of an entity should be integers, and its type a text."
    found, wanted = [(one[0], one[1], one[2]) for one in value], chunks(tags)
    assert found == wanted or sorted(found) != sorted(wanted), (
        "the entities are right, but should be in the order of the sentence."
    )
    told = "the type still has its `B-` or `I-`. It should be what follows the first hyphen."
    assert not any(name[:2] in ("B-", "I-") for *_, name in found) or found == wanted, told
    right = [] if right is None else right
    if found == wanted:
        right.append(tags)
        return
    guesses = {
        sentence: guess(tags)
        for sentence, guess in MISREAD.items()
        if all(guess(known) == chunks(known) for known in right)
    }
    expect.explained(found, wanted, f"the entities of `{tags}` are not those that the rule gives.", guesses)


# What misconceptions give for the tags of a sentence.
MISREAD: dict[str, Callable[[list[str]], list[Entity]]] = {
    "an entity does not end at an O. It should, and an `I-` after the O begins a new one.": open_chunks,
    "an entity ends one place too late: `last` is the place of its last tag.": lambda tags: [
        (a, b + 1, c) for a, b, c in chunks(tags)
    ],
    "an `I-` of another type is dropped. It should begin an entity.": lambda tags: [
        one for one in chunks(tags) if tags[one[0]][0] == "B" or one[0] == 0 or tags[one[0] - 1] == "O"
    ],
    "an `I-` without a `B-` before it is dropped. It should begin an entity too.": strict_chunks,
    "neighbouring entities of the same type are merged. Each `B-` should begin a new one.": merged_chunks,
    "an `I-` of another type continues the entity. It should begin another one.": typeless_chunks,
    "an entity at the end of the sentence is lost.": lambda tags: [
        one for one in chunks(tags) if one[1] < len(tags) - 1
    ],
    "a type that has a hyphen is cut there. It is all that follows the first hyphen of the tag.": lambda tags: chunks(
        ["-".join(tag.split("-")[:2]) for tag in tags]
    ),
    "an `I-` continues an entity if its type only begins with that of the entity. Compare the whole types.": (
        beginning_chunks
    ),
    "the letters of a type are changed. It should be exactly what follows the first hyphen.": lambda tags: [
        (a, b, c.upper()) for a, b, c in chunks(tags)
    ],
    "each tag becomes a separate entity. `I-` should continue one.": lambda tags: [
        (t, t, tag[2:]) for t, tag in enumerate(tags) if tag != "O"
    ],
}


def mean(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def f1_of(gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> float:
    """F1 of lists of entities, one list a sentence."""
    right = sum(len({*a} & {*b}) for a, b in zip(gold, predicted, strict=True))
    whole = sum(map(len, gold)) + sum(map(len, predicted))
    return 2 * right / whole if whole else 0.0


def f1_is(entity_f1: Remote, *pairs: tuple[list[list[str]], list[list[str]]]) -> None:
    """Fail unless the F1 of these pairs of gold and predicted sentences is right."""
    cases = [(entity_f1(gold, predicted), *f1_and_guesses(gold, predicted)) for gold, predicted in pairs]
    otherwise = "this is not the F1 of the whole entities of all sentences together."
    expect.numbers_like(cases, "what `entity_f1` returns", otherwise)


def f1_and_guesses(gold: list[list[str]], predicted: list[list[str]]) -> tuple[float, dict[str, float]]:
    """The F1 of these sentences, and what misconceptions give."""
    one, other = [*map(chunks, gold)], [*map(chunks, predicted)]
    wanted = f1_of(one, other)
    flat = [pair for a, b in zip(gold, predicted, strict=True) for pair in zip(a, b, strict=True)]
    right = sum(len({*a} & {*b}) for a, b in zip(one, other, strict=True))
    precision, recall = (right / max(1, sum(map(len, part))) for part in (other, one))
    tokens = sum(a == b and a != "O" for a, b in flat)
    named = sum(a != "O" for a, _ in flat) + sum(b != "O" for _, b in flat)
    each = [f1_of([a], [b]) for a, b in zip(one, other, strict=True)]
    any_type = f1_of([[e[:2] for e in a] for a in one], [[e[:2] for e in b] for b in other])
    no_place = f1_of(*([[*{entity for entities in part for entity in entities}]] for part in (one, other)))
    overlaps = sum(
        any(a[0] <= b[1] and b[0] <= a[1] and a[2] == b[2] for b in found)
        for row, found in zip(one, other, strict=True)
        for a in row
    )
    filled = [value for value, a, b in zip(each, one, other, strict=True) if a or b]
    whole = sum(map(len, one)) + sum(map(len, other))
    return wanted, {
        "this is the token accuracy. Count whole entities.": sum(a == b for a, b in flat) / max(1, len(flat)),
        "an overlap counts as right. An entity is right only if first, last and type are all right.": 2
        * overlaps
        / max(1, whole),
        "this is the F1 of single tags. Count whole entities.": 2 * tokens / named if named else -1,
        "this is the precision. F1 also needs the recall.": precision,
        "this is the recall. F1 also needs the precision.": recall,
        "this is the mean of precision and recall. F1 is their harmonic mean.": (precision + recall) / 2,
        "this is the mean of the F1 of each sentence. Count over all sentences, then compute one F1.": mean(each),
        "this is the mean of the F1 of sentences with entities. Count over all sentences, then compute one F1.": mean(
            filled
        ),
        "the type of an entity is ignored. It has to be right too.": any_type,
        "the F1 is in percent. It should be between 0 and 1.": 100 * wanted,
        (
            "an entity counts as right if it occurs in another sentence. Compare entities sentence by sentence."
        ): no_place,
        "only entities that begin with `B-` count. Those that begin with `I-` should count too.": f1_of(
            [*map(strict_chunks, gold)], [*map(strict_chunks, predicted)]
        ),
        "a sentence without entities counts as right. It should not change the F1.": mean(
            [value if a or b else 1 for value, a, b in zip(each, one, other, strict=True)]
        ),
        "sentences are joined: an entity continues in the next one. It should end with its sentence.": f1_of(
            *([chunks([tag for tags in part for tag in tags])] for part in (gold, predicted))
        ),
    }


SENTENCES = [
    "B-PER I-PER O B-LOC O",
    "O O B-LOC",
    "B-PER B-PER I-PER O",
    "O I-ORG I-ORG O",
    "B-PER I-LOC I-LOC",
    "I-PER I-LOC O I-LOC",
    "B-LOC O I-LOC",
    "B-PER-X I-PER-X O",
    "B-PER-X I-PER-X I-PER O",
    "I-MISC",
    "B-per I-per O I-Loc",
    "B-PER I-PER B-LOC I-LOC B-PER",
    "O O",
    "B-PER I-PERSON O",
    "I-LO I-LOC I-LOC",
]


@check("8.3", points=3, forbids=("import seqeval", "import evaluate"))
def entity_scores(entities, entity_f1, lib):
    """Check that entities follow conlleval's rules on all sentences of four tags, and check F1 over all sentences."""
    right = list[list[str]]()
    for sentence in SENTENCES:
        found_in(entities, sentence.split(), right)
    has_form(lib, "list[tuple[int, int, str]]", "what entities gives", entities, SENTENCES[0].split())
    for tags in (SENTENCES[0].split(), ["B-PER"]):
        is_new(lib, "the list of entities", entities, tags)
    with world_kept(lib, "after entities and entity_f1"):
        entities(SENTENCES[0].split())
        entity_f1([["B-A", "O"]], [["B-A", "O"]])
    assert entities([]) == [], "a sentence without tags should give an empty list."
    some = random.Random(83)
    for _ in range(60):
        found_in(entities, some.choices(["O", "B-A", "I-A", "B-B", "I-B"], k=some.randint(1, 7)), right)
    gold = [line.split() for line in ("B-PER I-PER O B-LOC O O", "O O O", "B-ORG O O B-PER O B-PER I-PER O")]
    all_o = [["O"] * len(tags) for tags in gold]
    pairs = []
    for lines in (
        ("I-LOC B-ORG O B-PER I-LOC B-LOC", "O O O", "B-ORG O I-LOC I-PER O B-PER I-PER O"),
        ("B-PER I-PER O B-ORG O O", "O O O", "B-ORG O O O O B-PER O O"),
        ("B-PER O O B-LOC O O", "B-PER O O", "I-ORG O O B-PER B-PER I-PER I-PER O"),
        ("O O O B-LOC O O", "O O B-LOC", "O O O B-PER O B-PER I-PER O"),
    ):
        said = [line.split() for line in lines]
        pairs += [(gold, said), (said, gold)]
    pairs.append(([["B-LOC", "B-PER"], ["I-PER", "O"]], [["B-LOC", "B-PER"], ["O", "B-ORG"]]))
    pairs.append(([["B-LOC", "O"], ["B-ORG", "O"]], [["B-LOC", "O"], ["I-PER", "I-ORG"]]))
    pairs.append(([["O", "B-PER"], ["I-PER", "O"]], [["O", "B-PER"], ["O", "O"]]))
    f1_is(entity_f1, *pairs)
    found = expect.number(entity_f1(gold, all_o), "what `entity_f1` returns")
    assert found != sum(tag == "O" for tags in gold for tag in tags) / 17, (
        "this is the token accuracy. Count whole entities."
    )
    assert found == 0, "a model that finds no entity should have an F1 of 0."
    f1_is(entity_f1, (gold, gold))
    for none in ([["O", "O"]], []):
        assert expect.number(entity_f1(none, none), "what `entity_f1` returns") == 0, (
            "if there is no entity at all, F1 should be 0."
        )
    of_lists = "lists of different lengths should raise ValueError."
    of_one = "a sentence with another number of tags in `predicted` than in `gold` should raise ValueError."
    for told, one, other in (
        (of_lists, gold, gold[:2]),
        (of_one, gold, [*gold[:2], gold[2][:-1]]),
        (f"{of_one} Compare each sentence, not the sums.", [["O", "O"], ["O"]], [["O"], ["O", "O"]]),
        (of_lists, gold, []),
    ):
        expect.refuses(entity_f1, one, other, says=told)
        expect.refuses(entity_f1, other, one, says=told)


# 8.4

Tokens = tuple[list[list[int]], list[int | None]]


def laid_tokens(question: Sequence[tuple[int, int]], passage: Sequence[tuple[int, int]]) -> Tokens:
    """Offsets and texts of [CLS] question [SEP] passage [SEP]."""
    offsets = [[0, 0], *map(list, question), [0, 0], *map(list, passage), [0, 0]]
    texts: list[int | None] = [None, *([0] * len(question)), None, *([1] * len(passage)), None]
    return offsets, texts


def token_of(tokens: Tokens, character: int, text: int | None = 1) -> int | None:
    """The token of one of the two texts that holds a character."""
    for t, ((begin, end), which) in enumerate(zip(*tokens, strict=True)):
        if which is not None and (text is None or which == text) and begin <= character < end:
            return t
    return None


Located = tuple[list[int], list[Any], str, dict[str, list[Any]]]
NEVER = "an answer that is in the passage gives (0, 0), as if it were missing."


def located(answer_tokens: Remote, tokens: Tokens, start: int, text: str) -> Located:
    """The tokens that were found for an answer, the right ones, a sentence, and what misconceptions give.

    Fails where an answer is found that is not there, or one that is there is not.
    """
    value = answer_tokens(*tokens, start, text)
    found = expect.items(value, 2, "`answer_tokens` should return two numbers (first, last)")
    for one in found:
        expect.of_type(one, int, "first and last should be integers")
    stop, passage = start + len(text) - 1, [t for t, which in enumerate(tokens[1]) if which == 1]
    first, last = token_of(tokens, start), token_of(tokens, stop)
    nothing = not text or first is None or last is None
    wanted = [0, 0] if nothing else [first, last]
    told = "an answer that is not there gives a number below 0. It should give (0, 0), the place of [CLS]."
    assert not nothing or min(found) >= 0, told
    if text and nothing and found != [0, 0]:
        half = first is not None or last is not None
        lost = "first" if first is None else "last"
        blanks = len(text) - len(text.lstrip())
        inner = [token_of(tokens, start + blanks), token_of(tokens, start + len(text.rstrip()) - 1)]
        told = (
            "an answer that begins or ends with a blank gets the tokens without it. This blank is "
            "a character of the answer, and in no token: (0, 0)."
        )
        assert not half or text == text.strip() or found != inner, told
        told = (
            "half an answer is kept: its last character is in no token, and the last token of the passage is returned."
        )
        assert not half or lost == "first" or found != [first, passage[-1]], told
        told = f"half an answer is kept: its {lost} character is in no token, but tokens {found[0]} and {found[1]} "
        assert not half, f"{told}are returned. It should be (0, 0)."
    assert text or found == [0, 0], "a question without an answer should give (0, 0)."
    told = "an answer that is in no token of the passage should give (0, 0)."
    assert not nothing or found == [0, 0], f"{told} Tokens {found[0]} and {found[1]} are returned."
    asked = token_of(tokens, start, 0), token_of(tokens, stop, 0)
    either = token_of(tokens, start, None), token_of(tokens, stop, None)
    shift = min(t for t, which in enumerate(tokens[1]) if which == 1)
    ends = [
        which
        for which, token, right in zip(("first", "last"), found, wanted, strict=True)
        if token != right and not nothing
    ]
    otherwise = (
        f"for an answer of {len(text)} characters that starts at {start}, tokens {found[0]} "
        f"and {found[1]} are returned. "
    )
    asks = [token for token in found if token < len(tokens[1]) and tokens[1][token] == 0]
    otherwise += (
        f"Token {asks[0]} is one of the question, whose characters are numbered from 0 too. Look in the passage."
        if asks
        else f"Its {' and its '.join(ends)} character is not in that token."
    )
    one, other, after = first or 0, last or 0, token_of(tokens, stop + 1)
    closed = [next((t for t in passage if tokens[0][t][0] <= place <= tokens[0][t][1]), 0) for place in (start, stop)]
    guesses: dict[str, list[Any]] = {
        "the answer is found in the question, whose characters are numbered from 0 too. Look in the passage.": [
            *either
        ],
        "the answer is looked for in the question. Look in the passage.": [*asked],
        "a token is left out if the answer begins or ends in the middle of it. It belongs to the answer.": [
            min((t for t in passage if tokens[0][t][0] >= start), default=0),
            max((t for t in passage if tokens[0][t][1] <= stop + 1), default=0),
        ],
        "the character at a token's end is counted as part of the token. The end is not included.": closed,
        "an answer at the beginning of the passage gives (0, 0), as if it were missing. It begins at character 0.": (
            [0, 0] if start == 0 else wanted
        ),
        "the character after the answer is looked up. Its last character is at start + len(text) - 1.": (
            [0, 0] if after is None else [one, after]
        ),
        "last is one too large. It should be the last token of the answer, not the one after it.": [one, other + 1],
        "tokens are counted from the beginning of the passage. Count them from [CLS].": [one - shift, other - shift],
        "the length of the text is counted in bytes. Count its characters.": [
            one,
            token_of(tokens, start + len(text.encode()) - 1) or 0,
        ],
        "tokens are counted without [CLS]. It is token 0.": [one - 1, other - 1],
        "these are the places of the first and the last character. Return the tokens that hold them.": [start, stop],
        NEVER: [0, 0],
        "the first and the last token of the passage are returned. The answer is only a part of it.": [
            passage[0],
            passage[-1],
        ],
        "first and last are the wrong way round.": [other, one],
        "the token of the first character is returned twice. The answer ends in another token.": [one, one],
        "the token of the last character is returned twice. The answer begins in another token.": [other, other],
        "first is the token after the one in which the answer begins.": [one + 1, other],
        "first is the token before the one in which the answer begins.": [one - 1, other],
        "last is the token before the one in which the answer ends.": [one, other - 1],
        "last is one token or one character too early.": [one, token_of(tokens, max(start, stop - 1)) or 0],
    }
    return found, wanted, otherwise, {sentence: guess if not nothing else [0, 0] for sentence, guess in guesses.items()}


def all_located(answer_tokens: Remote, *answers: tuple[Tokens, int, str]) -> None:
    """Fail unless each answer is found where it is."""
    cases = [located(answer_tokens, *one) for one in answers]
    if any(found == wanted != [0, 0] for found, wanted, *_ in cases):  # then it is not so for every answer
        cases = [(*case[:3], {told: guess for told, guess in case[3].items() if told != NEVER}) for case in cases]
    expect.all_explained(cases)


QUESTION = [(0, 3), (4, 9), (9, 12), (13, 20)]
PASSAGE = [(0, 4), (5, 8), (8, 9), (10, 15), (15, 18), (19, 24), (24, 25), (26, 30), (30, 31)]
LATIN = "etaoin shrdlu cmfwyp vbgkjq"


@check("8.4", points=2, forbids=("char_to_token", *MODELS))
def answer_tokens(answer_tokens, lib):
    """Check for the tokens of an answer's first and last character, and (0, 0) where one is missing."""
    tokens = laid_tokens(QUESTION, PASSAGE)
    cut, late = laid_tokens(QUESTION, PASSAGE[:5]), laid_tokens(QUESTION, PASSAGE[4:])
    spans = ((19, 31), (10, 18), (5, 8), (5, 9), (0, 4), (26, 31), (0, 31), (12, 17), (20, 22), (7, 8), (8, 16), (1, 9))
    texts = [(tokens, start, LATIN[:1] * (stop - start)) for start, stop in spans]
    all_located(answer_tokens, *texts, (tokens, 5, "äöü"), (tokens, 10, "äöüßé"))
    for start, stop in ((10, 24), (19, 24), (26, 31), (0, 31), (10, 18), (15, 18)):
        all_located(answer_tokens, (cut, start, "x" * (stop - start)))
    for start, stop in ((5, 9), (10, 18), (12, 24), (15, 18)):
        all_located(answer_tokens, (late, start, "y" * (stop - start)))
    for start in (0, 5, 11, -1, 26):
        all_located(answer_tokens, (tokens, start, ""))
    all_located(answer_tokens, (laid_tokens([(0, 6)], [(0, 6)]), 0, "answer"))
    all_located(answer_tokens, (laid_tokens([(0, 6)], [(0, 6)]), 2, "s"))
    empty = laid_tokens(QUESTION, [(0, 4), (5, 5), (5, 8), (8, 8), (8, 9), (9, 9)])
    told = "an empty token, [5, 5), is treated as if it held character 5. It holds none."
    found = expect.items(answer_tokens(*empty, 5, "abc"), 2, "`answer_tokens` should return two numbers")
    assert found[0] != 7, told
    told = "where an empty token, [5, 5), is before the token [5, 8), an answer at character 5 gives (0, 0)."
    assert found != [0, 0], f"{told} The empty one holds no character."
    all_located(
        answer_tokens, *((empty, start, "x" * (stop - start)) for start, stop in ((5, 8), (5, 9), (0, 9), (8, 9)))
    )
    for text in ("abc", ""):
        with world_kept(lib, "after answer_tokens"):
            has_form(lib, "tuple[int, int]", "what `answer_tokens` gives", answer_tokens, *tokens, 5, text)
    for start, text in ((4, " zzz"), (5, "zzz, "), (25, " zzzz.")):  # from or up to a blank, which is in no token
        all_located(answer_tokens, (tokens, start, text))


# 8.5


def by_token(state: Mapping[str, torch.Tensor], states: torch.Tensor) -> list[torch.Tensor]:
    """The logits of beginnings and ends, token by token."""
    scores = torch.einsum("btd,kd->kbt", states, state["weight"]) + state["bias"][:, None, None]
    return [scores[0], scores[1]]


def linear(lib: Library, d: int, width: int, seed: int) -> tuple[Remote, dict[str, torch.Tensor]]:
    """A linear map in the student's process, and its weights."""
    theirs, ours = expect.twins(lib, lambda layers: layers.Linear(d, width), seed)
    return theirs, {name: value.detach() for name, value in ours.state_dict().items()}


def two_logits(value: Any, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """Start and end logits of `shape`."""
    found = expect.items(value, 2, "`span_logits` should return two tensors, start and end logits")
    return [expect.floats(one, shape, f"the {name} logits") for one, name in zip(found, ("start", "end"), strict=True)]


def spans_scored(
    span_logits: Remote,
    out: tuple[Remote, Mapping[str, torch.Tensor]],
    states: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> None:
    """Fail unless start and end logits are right, with minus infinity at pads."""
    (layer, state), (B, T, _) = out, states.shape
    value = span_logits(states, layer) if mask is None else span_logits(states, layer, mask)
    if mask is not None and type(value) is list and all(type(one) is torch.Tensor for one in value):
        told = "with a mask, there is NaN at real tokens, as from 0 times infinity. Use `masked_fill` or `where`."
        assert all(one.shape != mask.shape or not one.isnan()[mask != 0].any() for one in value), told
    found = two_logits(value, (B, T))
    wanted = by_token(state, states)
    if mask is not None:
        pads = mask == 0
        late = torch.arange(T) >= T - pads.sum(1, keepdim=True)
        for one, right, ends in zip(found, wanted, ("beginnings", "ends"), strict=True):
            hidden = one < -1e6
            told = "the last places of a row are masked, as many as it has pads. Mask the places where the mask is 0."
            assert torch.equal(late, pads) or not torch.equal(hidden, late), told
            told = "rows and tokens of the mask are swapped, which shows if B = T."
            assert B != T or torch.equal(pads, pads.T) or not torch.equal(hidden, pads.T), told
            told = f"the logits of pads are not masked: they take part in the softmax of {ends}."
            other = "the mask is used the wrong way round: real tokens are masked, and pads are not."
            assert not pads.any() or not torch.equal(hidden, ~pads), other
            assert not pads.any() or not expect.near(one[pads], right[pads], 1e-3, 1e-3), told
            assert not pads.any() or (one[pads] != 0).all(), (
                "pads have logit 0, which gets a share of the softmax. It should be minus infinity."
            )
            assert (one[~pads] > -1e6).all(), "real tokens are masked. Mask only places where the mask is 0."
            assert (one[pads] == -torch.inf).all(), "pads do not have the logit minus infinity, but some other number."
        found, wanted = ([one.masked_fill(pads, 0.0) for one in part] for part in (found, wanted))
    masked = torch.zeros(B, T, dtype=torch.bool) if mask is None else pads
    raw = torch.stack(by_token(state, states))
    flat = torch.einsum("btd,kd->btk", states, state["weight"]) + state["bias"]

    def otherwise() -> str:
        which = 0 if not expect.near(found[0], wanted[0], 1e-4, 1e-4) else 1
        told = f"the {('start', 'end')[which]} logits are not what the linear map gives for each state."
        return f"{told} {expect.difference(found[which], wanted[which], 1e-4, 1e-4)}".rstrip()

    def logs(logits: torch.Tensor) -> torch.Tensor:
        return logits.log_softmax(-1).masked_fill(masked, 0.0)

    both = torch.stack(wanted)
    expect.like(
        torch.stack(found),
        both,
        otherwise,
        {
            "start and end are swapped. The first output of the linear map is for starts.": both.flip(0),
            "both results are the start logits. The second output of the linear map is for ends.": both[[0, 0]],
            "both results are the end logits. The first output of the linear map is for starts.": both[[1, 1]],
            "start and end logits are mixed by a reshape. Split the last axis instead.": flat.reshape(2, B, T),
            "these are probabilities. Return logits.": both.softmax(-1),
            "a softmax is taken over start and end. Return logits.": flat.softmax(-1).movedim(-1, 0),
            "these are log-probabilities. Return logits.": logs(raw.masked_fill(masked, -torch.inf)),
            "these are log-probabilities, from before the mask. Return logits.": logs(raw),
        },
    )


def loss_by_loops(logits: torch.Tensor, places: torch.Tensor) -> list[float]:
    """The cross-entropies of the rows whose place is inside, one by one."""
    rows = zip(logits.detach().double(), places.tolist(), strict=True)
    return [float(row.logsumexp(0) - row[place]) for row, place in rows if place < len(row)]


def span_loss_of(start: torch.Tensor, end: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """The loss from which gradients are taken."""
    total = torch.zeros((), dtype=start.dtype)
    for logits, places in ((start, first), (end, last)):
        rows = [
            row.logsumexp(0) - row[place]
            for row, place in zip(logits, places.tolist(), strict=True)
            if place < len(row)
        ]
        total = total + (torch.stack(rows).mean() if rows else 0 * logits.nan_to_num(neginf=0).sum()) / 2
    return total


def span_lost(
    span_loss: Remote, start: torch.Tensor, end: torch.Tensor, first: torch.Tensor, last: torch.Tensor
) -> None:
    """Fail unless the loss is right."""
    value = span_loss(start, end, first, last)
    assert type(value) is torch.Tensor and value.numel() == 1, (
        f"`span_loss` should return a tensor with one number, not {kind(value)}."
    )
    T = start.size(1)
    one, other = loss_by_loops(start, first), loss_by_loops(end, last)
    told = "the loss is NaN if all places in `first` or in `last` were cut off{}. The mean of nothing should be 0."
    pads = "" if start.isfinite().all() else ", and logits of pads are minus infinity"
    assert (one and other) or not value.isnan().any(), told.format(pads)
    assert not value.isnan().any() and not value.isinf().any(), (
        "the loss is NaN or infinite, although the logits at the places are finite."
    )
    clipped = [first.clamp(max=T - 1), last.clamp(max=T - 1)]
    zeroed = [torch.where(places < T, places, 0) for places in (first, last)]
    every = [*one, *other]
    both = [a for a, b in zip(first.tolist(), last.tolist(), strict=True) if a < T and b < T]
    keep = (first < T) & (last < T)
    pairs = loss_by_loops(start[keep], first[keep]), loss_by_loops(end[keep], last[keep])
    rows = len(first)
    inside = [torch.where(places > 0, places, T) for places in (first, last)]
    guesses = {
        "this is the sum of both losses. Take their mean.": mean(one) + mean(other),
        "start and end are swapped: `first` is looked up in the end logits, and `last` in the start logits.": (
            mean(loss_by_loops(end, first)) + mean(loss_by_loops(start, last))
        )
        / 2,
        "places that were cut off are clipped to the last token. They should not count.": (
            mean(loss_by_loops(start, clipped[0])) + mean(loss_by_loops(end, clipped[1]))
        )
        / 2,
        "places that were cut off count as [CLS]. They should not count.": (
            mean(loss_by_loops(start, zeroed[0])) + mean(loss_by_loops(end, zeroed[1]))
        )
        / 2,
        "the means are over all rows. Places that were cut off should not count.": sum(every) / rows / 2,
        "starts and ends share one mean. Take the mean of each, then half of the sum.": mean(every),
        "if one place of a row was cut off, the other place is left out too. It should still count.": (
            mean(pairs[0]) + mean(pairs[1])
        )
        / 2
        if both
        else -1.0,
        "the softmax runs over the rows of the batch, which shows if B = T. It should run over the tokens.": (
            (mean(loss_by_loops(start.T, first)) + mean(loss_by_loops(end.T, last))) / 2 if rows == T else -1.0
        ),
        "only the starts count. Take the mean loss of the ends too.": mean(one),
        "only the ends count. Take the mean loss of the starts too.": mean(other),
        "this is the sum over the rows. Take means.": sum(every),
        "this is half of the sum over the rows. Take means.": sum(every) / 2,
        "place 0 is left out. It is a place like any other: it holds [CLS].": (
            mean(loss_by_loops(start, inside[0])) + mean(loss_by_loops(end, inside[1]))
        )
        / 2,
        "the end logits are looked up at the places in `first`. Use those in `last`.": (
            mean(one) + mean(loss_by_loops(end, first))
        )
        / 2,
    }
    otherwise = (
        f"with `T = {T}, first = {first.tolist()}, last = {last.tolist()}` the loss is not half of the two mean "
    )
    otherwise += "cross-entropies."
    # A loss of nearly nothing has no relative error worth the name.
    expect.number_like(value, (mean(one) + mean(other)) / 2, "the loss", otherwise, guesses, scale=1.0)


def chosen(choice_logits: Remote, out: tuple[Remote, Mapping[str, torch.Tensor]], cls: torch.Tensor) -> None:
    """Fail unless each option has its logit."""
    (layer, state), (B, N, _) = out, cls.shape
    value = choice_logits(cls, layer)
    told = "the result has one axis too many. It should have shape (B, N), not (B, N, 1)."
    assert type(value) is not torch.Tensor or value.shape != (B, N, 1), told
    found = expect.floats(value, (B, N), "the logits of the options")
    wanted = torch.einsum("bnd,d->bn", cls, state["weight"][0]) + state["bias"]
    expect.like(
        found,
        wanted,
        "the logits of the options are not the linear map of each state.",
        {
            (
                "the options of different examples are mixed: the result has the order of (N, B), reshaped to (B, N)."
            ): wanted.T.reshape(B, N),
            "options and examples are mixed: a transposition before a reshape.": wanted.reshape(N, B).T,
            "these are probabilities. Return logits.": wanted.softmax(-1),
            "a softmax is taken over the examples of the batch. Return logits.": wanted.softmax(0),
            "these are log-probabilities. Return logits.": wanted.log_softmax(-1),
        },
    )


SPANS = Contract(
    "span_logits(states, out, mask)",
    sizes={"B": (1, 4), "T": (1, 7, 700)},
    states="floats (B, T, 4)",
    out=lambda toys, seed: toys.span_head(seed),
    mask="bools (B, T) or None",
    gives="the start logits: as states (B, T); the end logits: as states (B, T)",
    right=lambda states, out, mask: tuple(
        one if mask is None else one.masked_fill(~mask, -torch.inf) for one in by_token(weights_as(out, states), states)
    ),
    learns="states",
    infinite=True,
    toys=toys,
)
LOSS = Contract(
    "span_loss(start_logits, end_logits, first, last)",
    sizes={"B": (1, 5, 300), "T": (1, 7, 1500)},
    start_logits="floats (B, T)",
    end_logits="floats (B, T)",
    first="ids (B) below T + 2",
    last="ids (B) below T + 2",
    gives="the loss: as start_logits (one number)",
    right=lambda start, end, first, last: span_loss_of(start, end, first, last),
    learns="start_logits end_logits",
    low=False,
)
CHOICE = Contract(
    "choice_logits(cls, out)",
    sizes={"B": (1, 4, 300), "N": (1, 5, 40)},
    cls="floats (B, N, 4)",
    out=lambda toys, seed: toys.choice_head(seed),
    gives="the logits of the options: as cls (B, N)",
    right=lambda cls, out: cls @ weights_as(out, cls)["weight"][0] + weights_as(out, cls)["bias"],
    learns="cls",
    toys=toys,
)


def weights_as(layer: Any, states: torch.Tensor) -> dict[str, torch.Tensor]:
    """The weights of a layer in the dtype of the states."""
    return {name: value.detach().to(states.dtype) for name, value in layer.state_dict().items()}


@check("8.5", points=3, forbids=MODELS)
def heads(span_logits, span_loss, choice_logits, lib):
    """Check two logits per token without pads, half the sum of two means, and one logit per option."""
    promised(INFINITY)
    B, T, d = 3, 5, 4
    with part("span_logits", 1):
        out = linear(lib, d, 2, 50)
        x, mask = normal(B, T, d, seed=51), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
        spans_scored(span_logits, out, x)
        spans_scored(span_logits, out, x, mask)
        spans_scored(span_logits, out, x, mask.bool())
        spans_scored(span_logits, out, x, mask.float())
        spans_scored(span_logits, out, x, mask.flip(1))
        spans_scored(span_logits, out, x[:, :B], torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 0]]))
        for which, name in enumerate(("start", "end")):
            (slope,) = lib(toys).gradients(span_logits, [x], out[0], which=which)
            (wanted,) = toys.gradients(lambda x: by_token(out[1], x), [x], which=which)
            told = f"the gradient of the {name} logits for the states is wrong or missing."
            expect.close(slope, wanted, told, 1e-3)
            weight_learns(span_logits, lib, out, x, which, f"the {name} logits")
        SPANS.hold(span_logits, lib, "layout", "device")

    with part("span_loss", 1):
        start, end = 2 * normal(B + 1, T + 1, seed=52), 2 * normal(B + 1, T + 1, seed=53)
        for first, last in (
            ([2, 0, 5, 1], [3, 0, 5, 4]),
            ([2, 0, 5, 6], [3, 7, 5, 9]),
            ([9, 0, 2, 9], [9, 9, 5, 9]),
            ([6, 6, 6, 7], [1, 2, 3, 4]),
            ([6, 6, 6, 7], [6, 8, 9, 9]),
        ):
            places = torch.tensor(first), torch.tensor(last)
            span_lost(span_loss, start, end, *places)
            slopes = lib(toys).gradients(span_loss, [start, end], *places)
            told = "the gradient of the loss is wrong or missing. Return a tensor that is computed from the logits."
            for slope, wanted in zip(slopes, slopes_of_loss(start, end, *places), strict=True):
                assert not slope.isnan().any(), f"with `first = {first}, last = {last}` a gradient of the loss is NaN."
                expect.close(slope, wanted, told)
        pads = start.masked_fill(torch.arange(T + 1) > 3, -torch.inf)
        span_lost(span_loss, pads, pads.flip(0), torch.tensor([2, 0, 3, 8]), torch.tensor([3, 1, 3, 8]))
        span_lost(span_loss, pads, pads.flip(0), *places)
        told = "if every place was cut off, no gradient flows back: the 0 is a new tensor. Compute it from the logits."
        assert lib(toys).flows_back(span_loss, start, end, *places), told
        span_lost(span_loss, start[:, :4], end[:, :4], torch.tensor([0, 3, 1, 2]), torch.tensor([1, 3, 3, 2]))
        span_lost(span_loss, 60 * start, 60 * end, torch.tensor([2, 0, 5, 1]), torch.tensor([3, 0, 5, 4]))
        LOSS.hold(span_loss, lib, "device")

    with part("choice_logits", 1):
        out = linear(lib, d, 1, 54)
        for shape in ((3, 2, d), (2, 5, d), (3, 3, d), (1, 3, d), (3, 1, d), (1, 1, d)):
            chosen(choice_logits, out, normal(*shape, seed=55))
        x = normal(3, 2, d, seed=56)
        with world_kept(lib, "after choice_logits"):
            choice_logits(x, out[0])
        CHOICE.hold(choice_logits, lib, "layout", "device")
        (slope,) = lib(toys).gradients(choice_logits, [x], out[0])
        (wanted,) = toys.gradients(lambda x: x @ out[1]["weight"][0], [x])
        told = "the gradient of the options' logits for the states is wrong or missing."
        expect.close(slope, wanted, told, 1e-3)
        weight_learns(choice_logits, lib, out, x, 0, "the options' logits")


def weight_learns(
    call: Remote,
    lib: Library,
    out: tuple[Remote, Mapping[str, torch.Tensor]],
    x: torch.Tensor,
    which: int,
    what: str,
) -> None:
    """Fail unless the gradient of the logits for the weight of the linear map is right; of two results `which`."""
    layer = torch.nn.Linear(x.size(-1), len(out[1]["bias"]))
    layer.load_state_dict({**out[1]})
    wanted = toys.slope_of_weight(lambda x, layer: layer(x)[..., which], x, layer)
    told = f"the gradient of {what} for the weight of `out` is wrong or missing."
    slope = expect.answers(lib(toys).slope_of_weight, call, x, out[0], which, says=told)
    expect.close(slope, wanted, told, 1e-3)


def slopes_of_loss(
    start: torch.Tensor, end: torch.Tensor, first: torch.Tensor, last: torch.Tensor
) -> list[torch.Tensor]:
    """The gradients of half the loss of `toys.gradients` (whose weight for one number is -1) for both logits."""
    leaves = [one.clone().requires_grad_() for one in (start, end)]
    with torch.enable_grad():
        toys.backward(span_loss_of(leaves[0], leaves[1], first, last))
    return [torch.zeros_like(one) if one.grad is None else one.grad for one in leaves]


# 8.6

Span = tuple[float, int, int]


def every_span(
    start: torch.Tensor, end: torch.Tensor, allowed: torch.Tensor, max_len: int, tau: float | None
) -> list[Span]:
    """All candidates, the best first."""
    S, E, good = start.double().tolist(), end.double().tolist(), [t for t, yes in enumerate(allowed.tolist()) if yes]
    found = [(S[i] + E[j], i, j) for i in good for j in good if i <= j <= i + max_len - 1]
    if tau is not None:
        found.append((S[0] + E[0] + tau, 0, 0))
    return sorted(found, key=lambda span: (-span[0], span[1], span[2]))


def spans_of(value: Any) -> list[Span]:
    """Tuples of a score and two places."""
    expect.of_type(value, list, "`best_spans` should return a list of tuples (score, first, last)")
    spans = list[Span]()
    for one in value:
        score, first, last = expect.items(one, 3, "a span should be (score, first, last)")
        told = "the score is the last of three. A span is (score, first, last), in this order."
        assert (type(score), type(first), type(last)) != (int, int, float), told
        assert type(first) is int and type(last) is int, "first and last should be plain integers."
        assert type(score) in (int, float), f"a score should be a plain number, not {kind(score)}."
        spans.append((expect.number(score, "a score"), first, last))
    return spans


def ranked(
    best_spans: Remote,
    start: torch.Tensor,
    end: torch.Tensor,
    allowed: torch.Tensor,
    n: int | None = None,
    max_len: int | None = None,
    tau: float | None = None,
) -> None:
    """Fail unless the n best spans are those of a search through all."""
    options: dict[str, Any] = {"n": n, "max_len": max_len, "tau": tau}
    found = spans_of(best_spans(start, end, allowed, **{k: v for k, v in options.items() if v is not None}))
    n, most = 20 if n is None else n, 30 if max_len is None else max_len
    every = every_span(start, end, allowed, most, tau)
    wanted = every[:n]
    good, places = allowed.tolist(), [one[1:] for one in found]
    turned = [(i, j) for j, i in places]
    told = "first and last of a span are the wrong way round. A span is (score, first, last)."
    assert places == turned or turned != [one[1:] for one in wanted], told
    backward = [span for span in places if span[0] > span[1]]
    told = "a span ends before it begins. Only pairs with first <= last are spans."
    assert not backward, f"{told} Your code lists {backward[0]}."
    outside = [(i, j) for i, j in places if not (0 <= i < len(good) and 0 <= j < len(good) and good[i] and good[j])]
    told = "without a tau, the span (0, 0) is listed. It is a candidate only if tau is given."
    assert tau is not None or {*outside} != {(0, 0)}, told
    odd = [place for place in outside if place != (0, 0)]
    assert not odd, f"a span begins or ends where `allowed` is not true. Your code lists {odd[0]}."
    odd = [span for span in places if span[1] - span[0] >= most]
    assert not odd, f"a span has more than max_len tokens. With `max_len = {most}`, your code lists {odd[0]}."
    assert len({*places}) == len(places), "a span is listed twice."
    S, E = start.double().tolist(), end.double().tolist()
    for score, i, j in found:
        null = tau if tau is not None and (i, j) == (0, 0) else 0.0
        wanted_score = S[i] + E[j] + null
        guesses = {
            "the score is the product of both logits, so two negative ones would win. It should be their sum.": S[i]
            * E[j],
            "tau is not added to the score of (0, 0). It should be.": wanted_score - null,
            "tau is subtracted from the score of [CLS]. It should be added.": wanted_score - 2 * null,
            "tau is added to the score of a span of the passage. Add it only to that of (0, 0).": wanted_score
            + ((tau or 0.0) if (i, j) != (0, 0) else 0.0),
            "the score is the mean of both logits. It should be their sum.": wanted_score / 2,
            "the score is the product of two probabilities. It should be the sum of two logits.": float(
                start.softmax(0)[i] * end.softmax(0)[j]
            ),
            "the score is the sum of two probabilities. It should be the sum of two logits.": float(
                start.softmax(0)[i] + end.softmax(0)[j]
            ),
            "the score is the start logit alone. Add the end logit.": S[i],
        }
        told = f"the score of the span {(i, j)} is not start plus end logit{' plus tau' if null else ''}."
        expect.number_like(score, wanted_score, "a score", told, guesses, 1e-6, 1000.0)
    if tau is not None and (0, 0) in [one[1:] for one in wanted]:
        told = f"with `tau = {tau}`, (0, 0) is a candidate. Here it is among the best, and missing."
        assert (0, 0) in places, told
    told = "with a tau, there are n + 1 spans. The candidate (0, 0) is one of the n, or is left out."
    assert tau is None or len(found) != n + 1, told
    assert len(found) <= len(wanted), "there are more than n spans."
    short = [span for span in every if span[2] - span[1] < most - 1][:n]
    if len(short) < len(wanted) or [one[1:] for one in short] != [one[1:] for one in wanted]:
        told = "a span of exactly max_len tokens is left out. Only longer ones should be."
        assert sorted(places) != sorted(one[1:] for one in short), told
    longer = [span for span in every if span[2] > span[1]][:n]
    if len(longer) < len(wanted) or longer != wanted:
        assert sorted(places) != sorted(one[1:] for one in longer), (
            "spans of a single token are left out. They are candidates too."
        )
    inside = [span for span in every if (tau is not None and not span[2]) or all(good[span[1] : span[2] + 1])][:n]
    if [one[1:] for one in inside] != [one[1:] for one in wanted]:
        told = "a span is left out because a token inside it is not allowed. Only its two ends have to be."
        assert places != [one[1:] for one in inside], told
    if len(found) != len(wanted):
        of_passage = ([x if yes else -1e9 for x, yes in zip(X, good, strict=True)] for X in (S, E))
        missed = "spans are missed if their ends are not among the best starts and ends{}. All pairs are candidates."
        reasons = {
            "spans with a score of 0 or less are left out. Scores may have any sign.": [
                span for span in every if span[0] > 0
            ],
            (
                "spans that reach beyond a gap in `allowed` are left out. Only the two ends of a "
                "span have to be allowed."
            ): [
                span for span in every if (tau is not None and not span[2]) or all(good[good.index(True) : span[2] + 1])
            ],
            missed.format(""): of_best(every, S, E, n),
            missed.format(" of the passage"): of_best(every, *of_passage, n=n),
            "one span too few is listed. Where there are n candidates or more, list n.": (
                wanted[:-1] if len(every) >= n else every
            ),
        }
        sets = {
            sentence: {one[1:] for one in (guess[:n] if len(guess) < len(every) else wanted)}
            for sentence, guess in reasons.items()
        }
        told = f"only {len(found)} of {len(wanted)} spans are listed, with `n = {n}` and {len(every)} candidates."
        more = " If there are fewer than n candidates, list all of them." if len(every) < n else ""
        expect.explained({*places}, {one[1:] for one in wanted}, told + more, sets)
        return
    scores = [score for score, *_ in found]
    told = "the spans are not in falling order of their scores: the best should come first."
    expect.close(torch.tensor(scores), torch.tensor(sorted(scores, reverse=True)), told, 1e-5)
    told = "the scores are rounded, or not exact enough. Return the sum of start and end logit as it is."
    if places == [one[1:] for one in wanted]:
        expect.close(torch.tensor(scores), torch.tensor([score for score, *_ in wanted]), told, 1e-5)
    if not torch.allclose(torch.tensor(scores), torch.tensor([score for score, *_ in wanted]), 1e-5, 1e-5):
        told = "better spans are missing: all pairs are candidates, not only those of the best starts and ends."
        assert places != [one[1:] for one in of_best(every, S, E, n)][:n], told
        odd = [one for one in places if one not in [other[1:] for other in wanted]]
        told = f"with `n = {n}, max_len = {most}, tau = {tau}` the span {(odd or places)[0]} is listed. "
        raise AssertionError(f"{told}A candidate with a higher score is missing.")


def of_best(every: Sequence[Span], S: Sequence[float], E: Sequence[float], n: int) -> list[Span]:
    """The candidates whose ends are among the n best beginnings and the n best ends."""
    begins, ends = ({*sorted(range(len(X)), key=lambda t, X=X: -X[t])[:n]} for X in (S, E))
    return [span for span in every if span[1] in begins and span[2] in ends]


@check("8.6", points=3, forbids=("decode_spans", "postprocess_qa_predictions", *MODELS))
def best_spans(best_spans, lib):
    """Check for the best pairs of all, by the sum of logits, within the passage, and [CLS] with a tau."""
    T = 9
    allowed = torch.tensor([False] * 3 + [True] * 5 + [False])
    for seed in range(6):
        start, end = 2 * normal(T, seed=60 + seed), 2 * normal(T, seed=70 + seed)
        start[1], end[2] = 9.0, 9.0
        for n, max_len in ((None, None), (1, None), (3, 2), (4, 3), (50, 4), (2, 1), (100, 50)):
            ranked(best_spans, start, end, allowed, n, max_len)
            ranked(best_spans, start - 6, end - 6, allowed, n, max_len, tau=(-2.0, 0.0, 3.0)[seed % 3])
        ranked(best_spans, start, end, allowed, 5, 5, tau=1e4)
    early = torch.tensor([0.0, 0.0, 0.0, 1.0, 1.5, 2.0, 5.0, 6.0, 0.0])
    ranked(best_spans, early, early.flip(0).roll(1), allowed, 1)
    torn = torch.tensor([False, False, True, True, False, True, False, True, True])
    for tau in (None, 0.5):
        ranked(best_spans, normal(T, seed=82), normal(T, seed=83), torn, 60, 6, tau)
    long = 45
    start, end = normal(long, seed=80), normal(long, seed=81)
    ranked(best_spans, start, end, torch.arange(long) > 2)
    ranked(
        best_spans,
        start - 40 * (torch.arange(long) != 3),
        end - 40 * (torch.arange(long) != 33),
        torch.arange(long) > 2,
        1,
    )
    for one in (start[:1], start[:5]):
        none = torch.zeros(len(one), dtype=torch.bool)
        told = "if no token is allowed, `best_spans` should return an empty list."
        assert best_spans(one, one, none) == [], told
        ranked(best_spans, one, one, none, 3, 4, 0.5)
    some = start, end, torch.arange(long) > 2, 4
    with world_kept(lib, "after best_spans"):
        has_form(lib, "list[tuple[float, int, int]]", "the result", best_spans, *some)
    flat = torch.zeros(5)
    level = spans_of(best_spans(flat, flat, torch.arange(5) > 1, 10, 2, 0.0))
    assert all(abs(one[0]) < 1e-6 for one in level), "if all logits are 0, every score should be 0."
    found = [one[1:] for one in level]
    told = (
        "of spans with equal scores, the one with the smaller `first` comes first, then that with the smaller `last`."
    )
    assert found == [(0, 0), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)], told
    found = [one[1:] for one in spans_of(best_spans(flat, flat, torch.arange(5) > 1, 4))]
    assert found == [(2, 2), (2, 3), (2, 4), (3, 3)], told
    ranked(best_spans, start.double(), end.double(), torch.arange(long) > 2, 7, 9)


# 8.7

ARTICLES = ("a", "an", "the")


def plain(text: str) -> str:
    """The text as the official script normalises it."""
    kept = [one for one in text.lower() if one not in string.punctuation]
    return " ".join(word for word in "".join(kept).split() if word not in ARTICLES)


def articles_first(text: str) -> str:
    """Articles before punctuation."""
    found = re.sub(r"\b(a|an|the)\b", " ", text.lower())
    return " ".join("".join(one for one in found if one not in string.punctuation).split())


def normalised(normalise: Remote, text: str) -> None:
    """Fail unless a text is normalised as the official script does it."""
    found = expect.of_type(normalise(text), str, "`normalise` should return a text")
    told = "tabs or line breaks stay. Between words there should be one blank, and none around the text."
    assert "\t" not in found and "\n" not in found, told
    low = text.lower()
    bare = "".join(one for one in text if one not in string.punctuation)
    spaced = "".join(" " if one in string.punctuation else one for one in low).split()
    expect.explained(
        found,
        plain(text),
        f"the text `{text!r}` is not normalised as the four rules say, one after the other.",
        {
            (
                "articles are removed before punctuation, so `a.m.` loses its a. Remove punctuation first."
            ): articles_first(text),
            "punctuation becomes a blank. It should be removed without a replacement.": " ".join(
                word for word in spaced if word not in ARTICLES
            ),
            "the letters of articles are removed inside other words. Remove only whole words.": " ".join(
                re.sub("the|an|a", "", "".join(one for one in low if one not in string.punctuation)).split()
            ),
            "articles are removed before punctuation: `the,` stays. Remove punctuation first.": " ".join(
                "".join(
                    one
                    for one in " ".join(word for word in low.split() if word not in ARTICLES)
                    if one not in string.punctuation
                ).split()
            ),
            "characters that are not ASCII are lost. Remove only what is in `string.punctuation`.": " ".join(
                word for word in plain(text.encode("ascii", "ignore").decode()).split()
            ),
            "characters are removed that are not in `string.punctuation`. Keep those.": " ".join(
                word
                for word in "".join(one for one in low if one.isalnum() or one.isspace()).split()
                if word not in ARTICLES
            ),
            "other words that are a part of `a an the` are removed. Remove only the words a, an and the.": " ".join(
                word
                for word in "".join(one for one in low if one not in string.punctuation).split()
                if word not in "a an the"
            ),
            "a capital article, such as `The`, stays. Convert the text to lower case first.": " ".join(
                word.lower() for word in bare.split() if word not in ARTICLES
            ),
            "only an article at the beginning is removed. Remove all of them.": re.sub(
                "^(a|an|the)( |$)", "", " ".join(bare.lower().split())
            ),
            "the case is folded: `ß` becomes `ss`. Use `lower` instead.": plain(text.casefold()),
            "the text is not in lower case.": " ".join(
                word
                for word in "".join(one for one in text if one not in string.punctuation).split()
                if word not in ARTICLES
            ),
            "articles stay. Remove the words a, an and the.": " ".join(
                "".join(one for one in low if one not in string.punctuation).split()
            ),
            "punctuation stays. Remove all characters of `string.punctuation`.": " ".join(
                word for word in low.split() if word not in ARTICLES
            ),
            "punctuation inside words stays. Remove all of it.": " ".join(
                word for one in low.split() if (word := one.strip(string.punctuation)) and word not in ARTICLES
            ),
            "there are two blanks between words, or blanks around the text. Leave one between words.": re.sub(
                r"\b(a|an|the)\b", " ", "".join(one for one in low if one not in string.punctuation)
            ),
            "all blanks are removed. Leave one between two words.": plain(text).replace(" ", ""),
        },
    )


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words two texts have in common, each as often as in both."""
    return (Counter(one) & Counter(other)).total()


def words_f1(prediction: str, answer: str) -> float:
    """F1 of bags of words."""
    said, wanted = plain(prediction).split(), plain(answer).split()
    common = shared(said, wanted)
    return 2 * common / (len(said) + len(wanted)) if said and wanted else float(said == wanted)


def f1_scored(token_f1: Remote, prediction: str, answer: str) -> list[expect.Case]:
    """The F1 of two texts that was found, the right one, and what misconceptions give: one case, or none.

    Where a text has no word, it must be 0 or 1.
    """
    said, wanted = plain(prediction).split(), plain(answer).split()
    common = shared(said, wanted)
    one, other = {*said}, {*wanted}
    found = expect.number(token_f1(prediction, answer), "what `token_f1` returns")
    if not said or not wanted:
        told = (
            "if both texts have no word after normalisation, F1 should be 1."
            if said == wanted
            else "if only one of the texts has words after normalisation, F1 should be 0."
        )
        assert found == float(said == wanted), told
        return []
    raw = prediction.split(), answer.split()
    raw_common = shared(*raw)
    precision, recall = common / len(said), common / len(wanted)
    guesses = {
        "each word counts only once. It should count as often as it occurs in both texts.": (
            2 * len(one & other) / (len(one) + len(other))
        ),
        "a repeated word counts each time, even if the other text has it only once.": (
            2 * sum(word in other for word in said) / (len(said) + len(wanted))
        ),
        "this is the precision. F1 also needs the recall.": precision,
        "this is the recall. F1 also needs the precision.": recall,
        "this is the mean of precision and recall. F1 is their harmonic mean.": (precision + recall) / 2,
        "the texts are compared without normalising them. Use `normalise` first.": 2
        * raw_common
        / (len(raw[0]) + len(raw[1])),
        "F1 is in percent. `token_f1` should return a number between 0 and 1.": 100 * words_f1(prediction, answer),
        "this is the share of common words among all different words, which is not F1.": len(one & other)
        / len(one | other),
        "this is the exact match. F1 gives partial credit for common words.": float(said == wanted),
        "common words count only once, as in a set. A word should count as often as it occurs in both texts.": (
            2 * len(one & other) / (len(said) + len(wanted))
        ),
        "words are compared place by place. Their order should not matter.": 2
        * sum(a == b for a, b in zip(said, wanted, strict=False))
        / (len(said) + len(wanted)),
    }
    return [(found, words_f1(prediction, answer), guesses)]


def all_scored(*cases: list[expect.Case]) -> None:
    """Fail unless each F1 is that of its two texts."""
    known = [case for some in cases for case in some]
    expect.numbers_like(known, "what `token_f1` returns", "this is not the F1 of the words of both texts.")


def answered(squad_scores: Remote, *questions: tuple[dict[str, str], dict[str, list[str]]]) -> None:
    """Fail unless exact match and F1 of all questions are right, for each pair of predictions and answers."""
    cases: dict[str, list[expect.Case]] = {"f1": [], "exact_match": []}
    for predictions, answers in questions:
        found = expect.of_type(squad_scores(predictions, answers), dict, "`squad_scores` should return a dict")
        told = '`squad_scores` should return a dict with the keys "exact_match" and "f1", and no others.'
        assert {*found} == {*cases}, told
        for key, some in cases.items():
            some.append((found[key], *score_and_guesses(key, predictions, answers)))
    for key, some in cases.items():
        otherwise = f"`{key}` is not the mean over the questions of the best of their answers, in percent."
        expect.numbers_like(some, f"`{key}`", otherwise)


def exact(said: str, text: str) -> float:
    """1 if two texts are equal once they are normalised, else 0."""
    return float(plain(said) == plain(text))


def score_and_guesses(
    key: str, predictions: dict[str, str], answers: dict[str, list[str]]
) -> tuple[float, dict[str, float]]:
    """The exact match or the F1 of all questions, and what misconceptions give."""
    known = [(predictions.get(name), texts) for name, texts in answers.items()]
    score = words_f1 if key == "f1" else exact
    rows = [[score(said, text) for text in texts] if said is not None else [0.0] for said, texts in known]
    there = [row for row, (said, _) in zip(rows, known, strict=True) if said is not None]
    empty = [
        [score("", text) for text in texts] if said is None else row
        for row, (said, texts) in zip(rows, known, strict=True)
    ]
    right = 100 * mean([max(row) for row in rows])
    raw, bags, silent = (
        [0.0 if said is None else max(float(same(said, text)) for text in texts) for said, texts in known]
        for same in (
            lambda said, text: said == text,
            lambda said, text: sorted(plain(said).split()) == sorted(plain(text).split()),
            lambda said, text, score=score: bool(said) and score(said, text),
        )
    )
    exactly = key == "exact_match"
    both = [(plain(said).split(), [plain(text).split() for text in texts]) for said, texts in known if said is not None]
    best = [(said, max(texts, key=lambda text, said=said: shared(said, text))) for said, texts in both]
    common = sum(shared(a, b) for a, b in best)
    pooled = 200 * common / max(1, sum(len(a) + len(b) for a, b in best))
    by_f1 = [
        exact(said, max(texts, key=lambda text, said=said: words_f1(said, text))) if said is not None else 0.0
        for said, texts in known
    ]
    guesses = {
        "the exact match is that of the answer with the best F1. Take the best answer for each score separately.": (
            100 * mean(by_f1) if exactly else -1
        ),
        "the exact match compares the texts as they are. Both should be normalised first.": 100 * mean(raw)
        if exactly
        else -1,
        "for the exact match, words may be in any order. The normalised texts should be equal.": (
            100 * mean(bags) if exactly else -1
        ),
        "an empty prediction is treated as a missing one. It is right if the answer has no word.": (100 * mean(silent)),
        "only the first answer counts. The best of them should count.": 100 * mean([row[0] for row in rows]),
        "only the last answer counts. The best of them should count.": 100 * mean([row[-1] for row in rows]),
        "the mean over the answers is taken. The best of them should count.": 100 * mean([mean(row) for row in rows]),
        "the scores are between 0 and 1. Return them in percent.": right / 100,
        "the words of all questions are pooled. Score each question, then take the mean.": pooled,
        "questions without a prediction are left out. They should score 0.": 100 * mean([max(row) for row in there]),
        "the sum is divided by the number of predictions. Divide it by the number of questions.": 100
        * sum(max(row) for row in rows)
        / max(1, len(predictions)),
        "predictions of other questions count. The mean is over the questions in `answers`.": 100
        * sum(max(row) for row in rows)
        / max(1, len({*predictions, *answers})),
        "this is the sum over the questions, not their mean.": 100 * sum(max(row) for row in rows),
        "a missing prediction counts as an empty one. It should score 0.": 100 * mean([max(row) for row in empty]),
        "the worst answer counts. The best of them should count.": 100 * mean([min(row) for row in rows]),
    }
    return right, {f"`{key}`: {sentence}": guess for sentence, guess in guesses.items()}


TEXTS = [
    "The  Cat",
    "a.m. in the U.S.A.",
    "another banana, there!",
    "An apple;\ta day\n",
    "it's a well-known the-cat",
    "",
    "the",
    "...",
    "A A a",
    "E=mc2 (1905)",
    "the end of the theatre",
    " -- ",
    "the, cat (a) dog",
    "Café Zoë, naïve",
    "some 5€ – or 6£, né",
    "he, the n th. e an t h",
    "Straße ﬁn",
    "This and that, these of those in it, some are not to be as one or no other is.",
]


@check("8.7", points=2, forbids=("import evaluate", "squad_metrics", *MODELS))
def squad(normalise, token_f1, squad_scores, lib):
    """Check the official rules: four for texts, bags of words, the best answer, and a mean over questions."""
    for text in TEXTS:
        normalised(normalise, text)
    with world_kept(lib, "after normalise, token_f1 and squad_scores"):
        normalise("The cat")
        token_f1("the cat", "a cat")
        squad_scores({"q": "cat"}, {"q": ["cat"]})
    texts = (
        ("red dog cat dog cat", "red cat dog cat dog fish"),
        ("the red Red red cat", "Red red cat, dog dog a bird fish"),
        ("red dog dog dog", "a dog ate red red meat"),
        ("cat cat", "the cat sat"),
        ("one two three", "Three! Two, four"),
        ("cats and dogs and a red bird", "red dogs"),
        ("blue", "a Blue"),
        ("blue", "green"),
        ("", "the"),
        ("", "word"),
        ("an", "word"),
        ("word", ""),
    )
    for some in (texts[:8], texts[8:]):
        all_scored(*(f1_scored(token_f1, prediction, answer) for prediction, answer in some))
    answers = {
        "q1": ["red cat", "The big red cat"],
        "q2": ["in the year 1843"],
        "q3": ["PCA", "principal components"],
        "q4": ["noon", "at noon", "12 o'clock"],
        "q5": [""],
    }
    said = [
        {"q1": "big red cat", "q2": "1843", "q3": "components", "q4": "at twelve o clock", "q5": "x"},
        {"q1": "cat", "q3": "PCA", "other": "noon", "q4": "twelve at noon"},
        {"q2": "year", "q5": "the", "q4": "noon", "b": "x", "c": "y", "d": "z", "e": "v"},
        {"q5": "", "q1": "cat big red", "q3": "pca"},
        {"q5": "", "q1": "red the big cat", "q4": ""},
        {"q1": "cat", "q2": "1843"},
    ]
    answered(squad_scores, *((one, answers) for one in said))
    answered(squad_scores, ({"a": "x"}, {"a": ["x"]}), ({}, {"a": ["x"]}), ({"a": "x"}, {}))
    turned = {"a": ["cat red", "red cat"], "b": ["one two three", "three two one", "x"]}
    answered(squad_scores, ({"a": "red cat", "b": "three, two, one"}, turned), ({"a": "the red cat", "b": "x"}, turned))


# 8.8

HOWS = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")


def some_batch(sizes: Sequence[int], T: int, vocab: int, seed: int) -> dict[str, torch.Tensor]:
    """Random sentences of these lengths, padded to T, in two parts."""
    mask = (torch.arange(T) < torch.tensor([*sizes])[:, None]).long()
    ids = torch.randint(1, vocab, mask.shape, generator=generator(seed)) * mask
    return {"input_ids": ids, "token_type_ids": (torch.arange(T) > T // 2).long() * mask, "attention_mask": mask}


def combined(
    states: Sequence[torch.Tensor], how: str, scores: torch.Tensor | None = None, gamma: float = 1.0
) -> torch.Tensor:
    """The features of all tokens, from all states."""
    if how == "concat last four":
        return torch.cat(list(states[-4:]), dim=-1)
    if how in ("embeddings", "second-to-last", "last"):
        return states[{"embeddings": 0, "second-to-last": -2, "last": -1}[how]]
    assert scores is not None
    stack = torch.stack(list(states[-4:] if "four" in how else states[1:]))
    return gamma * torch.einsum("l,lbtd->btd", scores.softmax(0), stack)


def features_right(
    layer_features: Remote,
    pair: tuple[Remote, Any],
    batch: dict[str, torch.Tensor],
    how: str,
    scores: torch.Tensor | None = None,
    gamma: float | None = None,
    right: set[str] | None = None,
) -> None:
    """Fail unless the features are those of the same encoder here, in evaluation mode; `right` has each such `how`."""
    theirs, ours = pair
    mode = read(theirs.training)
    more: list[Any] = [] if scores is None else [scores] if gamma is None else [scores, gamma]
    value = layer_features(theirs, batch, how, *more)
    told = (
        "the encoder is left in another mode. Remember `encoder.training` before the call, and restore it afterwards."
    )
    assert read(theirs.training) is mode, told
    assert type(value) is not torch.Tensor, (
        "one tensor is returned for all rows. Return a list, with a tensor of the real tokens for each row."
    )
    found = expect.of_type(value, list, "layer_features should return a list of tensors, one for each row")
    real = batch["attention_mask"] == 1
    assert len(found) == len(real), "there should be one tensor for each row."
    with torch.no_grad():
        states = ours.eval()(**batch, output_hidden_states=True).hidden_states
    factor = 1.0 if gamma is None else gamma
    wanted = combined(states, how, scores, factor)
    guesses: dict[str, Any] = {}
    if how == "second-to-last":
        guesses["the third state from the end is used. The second-to-last one is `states[-2]`."] = states[-3]
    before = "each state is the one before the right one, as if the embeddings were layer 1."
    right = set() if right is None else right
    if scores is not None or right - {"embeddings"}:  # of the other ones it says nothing
        before = f"for `how = {how!r}`, each state is the one before the right one."
    guesses |= {
        before: lambda: combined([*states[:1], *states[:-1]], how, scores, factor),
        "the states count from the wrong end.": lambda: combined(states[::-1], how, scores, factor),
    }
    if how == "concat last four":
        guesses["the four states are concatenated in reverse order. The last state should come last."] = torch.cat(
            states[:-5:-1], dim=-1
        )
        guesses["the first four states are used. Use the last four."] = torch.cat(states[:4], dim=-1)
        guesses["the four states after the embeddings are used. Use the last four."] = torch.cat(states[1:5], dim=-1)
    if how == "embeddings":
        guesses = {"the output of the first layer is used. The embeddings are the state before it.": states[1]}
        with torch.no_grad():
            guesses[
                (
                    "the rows of the word table are used. Use the encoder's first state, which is the "
                    "normed sum of all embeddings."
                )
            ] = ours.embeddings.word_embeddings(batch["input_ids"])
    if scores is not None:
        stack = states[-4:] if "four" in how else states[1:]
        guesses |= {
            "the scores are used as weights themselves. Apply a softmax to them first.": lambda: (
                factor * sum(s * h for s, h in zip(scores, stack, strict=True))
            ),
            "the scores are divided by their sum. Apply a softmax to them.": lambda: (
                factor * sum(s * h for s, h in zip(scores / scores.sum(), stack, strict=True))
            ),
            "gamma is not used. It should multiply the result.": lambda: combined(states, how, scores),
            "all states have the same weight. Use the scores.": lambda: factor * sum(stack) / len(stack),
            "the weights are the wrong way round. The first score belongs to the lowest state.": lambda: combined(
                states, how, scores.flip(0), factor
            ),
            "gamma is inside the softmax. It should multiply the result.": lambda: combined(
                states, how, scores * factor
            ),
        }

    def without(*names: str) -> torch.Tensor:
        less = {name: value for name, value in batch.items() if name not in names}
        with torch.no_grad():
            return combined(ours(**less, output_hidden_states=True).hidden_states, how, scores, factor)

    def from_the_left() -> torch.Tensor:
        rows = wanted.clone()
        for row, one, keep in zip(rows, wanted, real, strict=True):
            row[keep] = one[: int(keep.sum())]
        return rows

    guesses |= {
        "`token_type_ids` are not passed to the encoder. Pass all of the batch.": lambda: without("token_type_ids"),
        "only `input_ids` are passed to the encoder. Pass all of the batch.": lambda: without(
            "token_type_ids", "attention_mask"
        ),
        "of a row with pads at the beginning, the first places are taken. Take those where the mask is 1.": (
            from_the_left
        ),
    }
    for one, row, keep in zip(found, wanted, real, strict=True):
        assert type(one) is torch.Tensor, f"the features of a row should be a tensor, not {kind(one)}."
        told = "pads have features too. Return only those of real tokens, where the mask is 1."
        assert len(one) == int(keep.sum()) or len(one) != len(keep), told
        told = 'for "concat last four", the features should be as wide as four states together.'
        assert how != "concat last four" or (one.ndim == 2 and one.size(1) == row.size(-1)), told
        expect.floats(one, (int(keep.sum()), row.size(-1)), "the features of a row")
    flat = torch.cat([one.float() for one in found])
    if expect.near(flat, wanted[real], 1e-4, 1e-4):
        right.add(how)
    expect.like(
        flat,
        wanted[real],
        f"for `how = {how!r}`, the features are not those of the real tokens, read in evaluation mode.",
        {
            sentence: lambda guess=guess: (guess() if callable(guess) else guess)[real]
            for sentence, guess in guesses.items()
        },
    )


def encoders(lib: Library, sizes: Mapping[str, Any], seed: int) -> tuple[Remote, Any]:
    """One encoder with known weights in the student's process, and the same here."""
    return lib(tiny_bert).encoder({**sizes}, seed), tiny_bert.encoder(sizes, seed)


@check("8.8", points=2, draws=True)
def layer_features(layer_features, lib):
    """Check six ways to read L + 1 states, without pads, in evaluation mode, with gradients for scores only."""
    pair = encoders(lib, {"n_layers": 6, "dropout": 0.3}, 88)
    theirs, ours = pair
    batch = some_batch([7, 4, 1], 7, 29, 1)
    scores = {"weighted last four": normal(4, seed=2), "weighted all": normal(6, seed=3)}
    lib(toys).leave_gradients(theirs)
    with model_kept(lib, theirs, "after layer_features", draws=True):
        first = layer_features(theirs, batch, "last")
        assert read(theirs.training) is True, (
            "the encoder is left in another mode. Remember `encoder.training` before the call, "
            "and restore it afterwards."
        )
    with model_kept(lib, theirs, "after a refusal", draws=True):
        told = "an unknown `how` should raise ValueError."
        expect.refuses(layer_features, theirs, batch, "first", scores["weighted all"], says=told)
    lib(toys).forget_gradients(theirs)
    with world_kept(lib, "after layer_features"):
        again = layer_features(theirs, batch, "last")
        told = "two calls with the same batch differ, as when dropout is on. Use the encoder in evaluation mode."
        assert type(first) is not list or type(first[0]) is not torch.Tensor or torch.equal(first[0], again[0]), told
    right = set[str]()
    for how in HOWS:
        features_right(layer_features, pair, batch, how, scores.get(how), right=right)
    other = lib(tiny_bert).encoder({"n_layers": 6, "dropout": 0.3}, 89)
    told = "for another encoder with the same batch, the features of the first one are returned again."
    value = layer_features(other, batch, "last")
    assert type(value) is not list or not value or not expect.same(value[0], first[0]), told
    told = "after the weights of the encoder have changed, the features are not those of its new weights."
    value = lib(toys).with_new_weights(layer_features, other, batch, ours.state_dict())
    assert type(value) is not list or not value or expect.near(value[0], first[0], 1e-3, 1e-4), told
    for how, values in scores.items():
        features_right(layer_features, pair, batch, how, values, 2.5, right)
    theirs.eval()
    features_right(layer_features, pair, some_batch([2, 5], 5, 29, 4), "last", right=right)
    ahead = some_batch([5, 5], 5, 29, 5)
    ahead["attention_mask"][0, :2] = 0
    features_right(layer_features, pair, ahead, "second-to-last", right=right)
    features_right(layer_features, pair, ahead, "last", right=right)
    told = "a gradient flows into the encoder. Compute its states without gradients."
    for how in HOWS:
        more = [scores[how]] if how in scores else []
        assert lib(toys).gradient_arrives(layer_features, theirs, batch, how, *more) is False, told
    assert all(lib(toys).learning(theirs)), (
        "after the call, the encoder's parameters are frozen. Leave the encoder as it was."
    )
    told = "the gradient for the scores is wrong or missing. Only the encoder should run without gradients."
    with torch.no_grad():
        states = ours.eval()(**batch, output_hidden_states=True).hidden_states
    for how, values in scores.items():
        call = lib(functools).partial(layer_features, theirs, batch, how)
        (slope,) = lib(toys).gradients(call, [values])
        (wanted,) = toys.gradients(lambda one, how=how: combined(states, how, one)[0], [values])
        expect.close(slope, wanted, told, 1e-3)
        call = lib(functools).partial(layer_features, theirs, batch, how, values)
        (slope,) = lib(toys).gradients(call, [torch.tensor(1.5)])
        (wanted,) = toys.gradients(
            lambda one, how=how, values=values: (one * combined(states, how, values))[0], [torch.tensor(1.5)]
        )
        told_of_gamma = "the gradient for gamma is wrong or missing. It should learn like the scores."
        expect.close(slope, wanted, told_of_gamma, 1e-3)
    assert lib(toys).keeps_gradients(layer_features, theirs, batch, "last"), (
        "after the call, the encoder's gradients are gone or changed. Leave the encoder as it was."
    )
    assert read(theirs.config.output_hidden_states) is not True, (
        "the encoder's config is changed for all later calls. Ask for the states in the call instead."
    )
    told = "an unknown `how` should raise ValueError."
    for wrong in ("first", "weighted", ""):
        expect.refuses(lambda wrong=wrong: layer_features(theirs, batch, wrong, scores["weighted all"]), says=told)


# 8.9


def tagger_shapes(d: int, h: int, n: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights."""
    one = {"weight_ih_l0": (4 * h, d), "weight_hh_l0": (4 * h, h), "bias_ih_l0": (4 * h,), "bias_hh_l0": (4 * h,)}
    both = one | {f"{name}_reverse": shape for name, shape in one.items()}
    return {f"lstm.{name}": shape for name, shape in both.items()} | {"out.weight": (n, 2 * h), "out.bias": (n,)}


def read_alone(state: Mapping[str, torch.Tensor], sentence: torch.Tensor, cells: bool = False) -> torch.Tensor:
    """The states of both readers (T, 2 h) for one sentence (T, d), step by step; `cells`: their cell states instead."""
    h = state["lstm.weight_hh_l0"].size(1)
    sides = []
    for end in ("", "_reverse"):
        W, U = state[f"lstm.weight_ih_l0{end}"], state[f"lstm.weight_hh_l0{end}"]
        bias = state[f"lstm.bias_ih_l0{end}"] + state[f"lstm.bias_hh_l0{end}"]
        hidden = cell = torch.zeros(h, dtype=sentence.dtype)
        rows = []
        for x in sentence.flip(0) if end else sentence:
            i, f, g, o = (W @ x + U @ hidden + bias).split(h)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            rows.append(cell if cells else hidden)
        sides.append(torch.stack(rows[::-1] if end else rows))
    return torch.cat(sides, dim=-1)


def tagged(tagger: Remote, state: Mapping[str, torch.Tensor], x: torch.Tensor, lengths: torch.Tensor) -> None:
    """Fail unless logits and sentence vectors are those of each sentence alone."""
    (B, T, _), n, h = x.shape, state["out.bias"].numel(), state["lstm.weight_hh_l0"].size(1)
    sizes, W, b = lengths.tolist(), state["out.weight"], state["out.bias"]
    alone = [read_alone(state, row[:size]) for row, size in zip(x, sizes, strict=True)]
    padded = [read_alone(state, row) for row in x]
    blank = [read_alone(state, row * (torch.arange(T) < size)[:, None]) for row, size in zip(x, sizes, strict=True)]
    two = [read_alone(state, row[: max(2, size)]) for row, size in zip(x, sizes, strict=True)]
    value = tagger(x, lengths)
    assert type(value) is torch.Tensor, f"`forward` should return a tensor, not {kind(value)}."
    told = "the logits are only as long as the longest sentence. They should be as long as x: unpack to `total_length`."
    assert value.ndim != 3 or value.size(1) != max(sizes) or max(sizes) == T, told
    real = torch.arange(T) < lengths[:, None]
    if type(value) is torch.Tensor and value.shape == (B, T, n) and not value[real].isnan().any():
        told = "at the pads of shorter sentences the logits are NaN. Any other number is fine there."
        assert not value.isnan().any(), told
    found = expect.floats(value, (B, T, n), "the logits")
    order = sorted(range(B), key=lambda place: -sizes[place])

    def flat(rows: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([row[:size] for row, size in zip(rows, sizes, strict=True)]) @ W.T + b

    swapped = [torch.cat([row[:, h:], row[:, :h]], dim=-1) for row in alone]
    pads = torch.zeros(T, 2 * h)
    by_length = torch.stack([torch.cat([alone[place], pads[sizes[place] :]]) for place in order])
    guesses = {
        "the reader from the right begins with the pads. It should begin at the last token of each sentence.": flat(
            padded
        ),
        "the pads are set to 0 and read. Zeros change the reader from the right too: pack the sentences.": (
            flat(blank)
        ),
        "a sentence of one token is read together with the pad after it.": flat(two),
        "the states of the two readers are swapped. That of the reader from the left should come first.": flat(swapped),
        "there is a softmax. Return logits.": flat(alone).softmax(-1),
        (
            "the logits are in the order of the lengths. Put them back in the order in which the sentences came."
        ): by_length[real] @ W.T + b,
        (
            "the order of the lengths is undone by itself: a sentence has the logits of another one of its batch. Use "
            "the inverse of the order."
        ): by_length[order][real] @ W.T + b,
    }
    if not expect.near(found[real], flat(alone), atol=1e-4):
        told = (
            "a second call with the same input gives other logits. There should be no dropout, "
            "and no state kept between calls."
        )
        assert expect.same(tagger(x, lengths), value), told
    expect.like(found[real], flat(alone), "the logits are not those of each sentence alone.", guesses)
    vectors = tagger.sentence_vector(x, lengths)
    told = "`sentence_vector` returns a state for each token. It should return one vector for each sentence."
    assert type(vectors) is not torch.Tensor or vectors.shape != (B, T, 2 * h), told
    vectors = expect.floats(vectors, (B, 2 * h), "the sentence vectors")

    def ends(rows: Sequence[torch.Tensor], left: Sequence[int], right: Sequence[int]) -> torch.Tensor:
        picked = zip(rows, left, right, strict=True)
        return torch.stack([torch.cat([row[i, :h], row[j, h:]]) for row, i, j in picked])

    last, zero, final = [size - 1 for size in sizes], [0] * B, [T - 1] * B
    wanted = ends(alone, last, zero)
    pairs = torch.stack([wanted[:, :h], wanted[:, h:]])
    if not expect.near(vectors, wanted, atol=1e-4):
        told = (
            "a second call of `sentence_vector` with the same input gives other sentence vectors. There should be no "
            "dropout, and no state kept between calls."
        )
        assert expect.same(tagger.sentence_vector(x, lengths), vectors), told
    expect.like(
        vectors,
        wanted,
        "the sentence vectors are not the last states of the two readers.",
        {
            "the output at the last token is used. There, the reader from the right has seen only one token.": ends(
                alone, last, last
            ),
            "the last output of the padded row is used, but position T - 1 holds a pad.": ends(padded, final, final),
            "the pads are read: the last states are those of padded rows.": ends(padded, final, zero),
            (
                "in `sentence_vector` the reader from the right begins with the pads. It should begin at the last "
                "token of each sentence."
            ): ends(padded, last, zero),
            "the output at position T - 1 is used, which is 0 at the pads of shorter sentences.": torch.stack(
                [row[-1] if size == T else torch.zeros(2 * h) for row, size in zip(alone, sizes, strict=True)]
            ),
            (
                "sentences are mixed: the states (2, B, h) are reshaped to (B, 2 h), not transposed first."
            ): pairs.reshape(B, 2 * h),
            "the two readers are swapped. The state of the reader from the left should come first.": torch.cat(
                [wanted[:, h:], wanted[:, :h]], dim=-1
            ),
            "the sentences are in another order: they are still sorted by length.": wanted[order],
            "the states at the first token are used. There, the reader from the left has seen only one token.": ends(
                alone, zero, zero
            ),
            "this is the mean of the states. Use the last state of each reader.": torch.stack(
                [row.mean(0) for row in alone]
            ),
            "these are the cell states. Use h: nn.LSTM returns its outputs and (h, c).": ends(
                [read_alone(state, row[:size], cells=True) for row, size in zip(x, sizes, strict=True)], last, zero
            ),
        },
    )


def read_each(state: Mapping[str, torch.Tensor], x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
    """The states of both readers for each sentence alone, by torch's own LSTM."""
    W = {name.removeprefix("lstm."): value for name, value in state.items() if name.startswith("lstm.")}
    lstm = torch.nn.LSTM(x.size(2), W["weight_hh_l0"].size(1), batch_first=True, bidirectional=True).to(x.dtype)
    return [functional_call(lstm, W, (row[None, :size],))[0][0] for row, size in zip(x, lengths.tolist(), strict=True)]


def vectors_of(state: Mapping[str, torch.Tensor], x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The last states of either reader, for each sentence alone."""
    h = state["lstm.weight_hh_l0"].size(1)
    return torch.stack([torch.cat([rows[-1, :h], rows[0, h:]]) for rows in read_each(state, x, lengths)])


VECTORS = Contract(
    "BiLSTMTagger(d, d_hidden, n_tags).sentence_vector(x, lengths)",
    sizes={"B": (1, 5), "T": (1, 7, 530), "d": (1, 6), "d_hidden": (1, 5), "n_tags": (1, 4)},
    x="floats (B, T, d)",
    _sizes="ids (B) below T",
    lengths="= _sizes + 1",
    gives="the sentence vectors: as x (B, 2 * d_hidden)",
    weights=tagger_shapes,
    right=lambda state, d, d_hidden, n_tags, x, lengths: vectors_of(state, x, lengths),
    learns="x",
    low=False,
)
LOGITS = Contract(
    "BiLSTMTagger(d, d_hidden, n_tags)(x, lengths)",
    sizes={"B": (1, 5), "T": (1, 7, 530), "d": (1, 6), "d_hidden": (1, 5), "n_tags": (1, 4)},
    x="floats (B, T, d)",
    _sizes="ids (B) below T",
    lengths="= _sizes * 0 + T",
    gives="the logits: as x (B, T, n_tags)",
    weights=tagger_shapes,
    right=lambda state, d, d_hidden, n_tags, x, lengths: (
        torch.stack(read_each(state, x, lengths)) @ state["out.weight"].T + state["out.bias"]
    ),
    learns="x",
    low=False,
)


@check("8.9", points=3, forbids=MODELS)
def tagger(BiLSTMTagger, lib):
    """Compare with an LSTM written out step by step: logits and vectors must not depend on padding or batch."""
    d, h, n = 5, 3, 4
    tagger = BiLSTMTagger(d, h, n)
    state = expect.weights(tagger, tagger_shapes(d, h, n), "`BiLSTMTagger(5, 3, 4)`", seed=90)
    assert read(tagger.lstm.batch_first) is True, "`lstm` expects the time axis first. Its batch should come first."
    x = normal(4, 6, d, seed=91)
    for sizes in ([3, 6, 1, 5], [2, 4, 1, 3], [6, 6, 6, 6], [6, 5, 3, 2]):
        tagged(tagger, state, x, torch.tensor(sizes))
    tagged(tagger, state, x[:1], torch.tensor([4]))
    tagged(tagger, state, x[:2, :1], torch.tensor([1, 1]))
    lengths = torch.tensor([3, 6, 1, 5])
    noisy = x.clone()
    noisy[torch.arange(6) >= lengths[:, None]] = 1e4
    tagged(tagger, state, noisy, lengths)
    noisy[torch.arange(6) >= lengths[:, None]] = torch.nan
    told = "a NaN at a pad reaches the {}. The result for a sentence must not depend on its pads."
    for value, what in (
        (tagger(noisy, lengths), "logits"),
        (tagger.sentence_vector(noisy, lengths), "sentence vectors"),
    ):
        assert not value.isnan().any(), told.format(what)
    tagged(tagger, state, noisy, lengths)
    LOGITS.hold(BiLSTMTagger, lib, "layout", "device")
    VECTORS.hold(BiLSTMTagger, lib, "device")
    (slope,) = lib(toys).gradients(tagger.sentence_vector, [x], lengths)

    def ours(x: torch.Tensor) -> torch.Tensor:
        rows = [read_alone(state, row[:size]) for row, size in zip(x, lengths.tolist(), strict=True)]
        return torch.stack([torch.cat([row[-1, :h], row[0, h:]]) for row in rows])

    (wanted,) = toys.gradients(ours, [x])
    expect.close(slope, wanted, "the gradient of the sentence vectors for the features is wrong or missing.", 1e-3)


# 8.10


def state_and_rivals(best_state: Remote, scores: dict[int, list[float]]) -> None:
    """Fail unless the best state and its rivals are found."""
    best, rivals = expect.items(best_state(scores), 2, "`best_state` should return a state and a list")
    rivals = expect.of_type(rivals, list, "the rivals should be a list")
    means = {state: sum(some) / len(some) for state, some in scores.items()}
    right = max(means, key=lambda state: means[state])
    expect.explained(
        best,
        right,
        "this is not the state with the highest mean."
        if type(best) is int and best in scores
        else "the first of the two results should be one of the states in `scores`.",
        {
            "this state has the highest single run, not the highest mean.": max(
                scores, key=lambda one: max(scores[one])
            ),
            "this state has the highest median, not the highest mean.": max(
                scores, key=lambda state: statistics.median(scores[state])
            ),
            "this is the place of the best state in `scores`. Return the state itself.": [*scores].index(right),
            "this state has the lowest mean, not the highest.": min(means, key=lambda state: means[state]),
            "this is a mean. Return the state.": means[right],
        },
    )
    top = scores[right]
    others = [state for state in scores if state != right]
    wanted = [state for state in others if any(a > b for a, b in zip(scores[state], top, strict=True))]
    told = "these are the rivals, but not in the order of `scores`."
    reordered = len(rivals) == len(wanted) and all(state in rivals for state in wanted)
    assert rivals == wanted or not reordered, told
    twice = next((state for state in wanted if rivals.count(state) > 1), None)
    told = f"with `scores = {scores}`, state {twice} is listed {rivals.count(twice)} times. A rival is listed once."
    assert twice is None or [*dict.fromkeys(rivals)] != wanted, told
    expect.explained(
        rivals,
        wanted,
        (f"with `scores = {scores}`, these are not the states that are ahead of the best one with some seed."),
        {
            "only the first seed is compared. Compare the states within every seed.": [
                state for state in others if scores[state][0] > top[0]
            ],
            "a tie counts as a lead. A rival has to be ahead with some seed.": [
                state for state in others if any(a >= b for a, b in zip(scores[state], top, strict=True))
            ],
            "runs of different seeds are compared. Compare states within a seed.": [
                state for state in others if max(scores[state]) > min(top)
            ],
            "the highest runs are compared. Compare states within a seed.": [
                state for state in others if max(scores[state]) > max(top)
            ],
            "all seeds but the last one are compared. Compare the states within every seed.": [
                state for state in others if any(a > b for a, b in zip(scores[state][:-1], top, strict=False))
            ],
            "the runs of a state are sorted before they are compared. Compare states within a seed.": [
                state for state in others if any(a > b for a, b in zip(sorted(scores[state]), sorted(top), strict=True))
            ],
            "runs are compared with the mean of the best state. Compare states within a seed.": [
                state for state in others if max(scores[state]) > means[right]
            ],
            "only states after the best one in `scores` are listed. Rivals may come before it too.": [
                state for state in wanted if [*scores].index(state) > [*scores].index(right)
            ],
            "only states before the best one in `scores` are listed. Rivals may come after it too.": [
                state for state in wanted if [*scores].index(state) < [*scores].index(right)
            ],
            "only the last seed is compared. Compare the states within every seed.": [
                state for state in others if scores[state][-1] > top[-1]
            ],
            "no state is listed as a rival. One that is ahead with a single seed is a rival.": [],
            "the best state is among its own rivals.": [state for state in scores if state in wanted or state == right],
            "all other states are listed as rivals. A rival has to be ahead with some seed.": others,
        },
    )


def scores_by_state(some: random.Random, states: int, seeds: int) -> dict[int, list[float]]:
    """Scores of some states, in an order of their own, whose seeds differ more than the states do; with ties."""
    level = [some.randint(50, 80) for _ in range(seeds)]
    names = some.sample(range(13), states)
    return {name: [float(one + some.randint(-2, 2) + name % 3) for one in level] for name in names}


@results_check("8.10", points=4, source=tagging, notebook=tagging.NOTEBOOK, reading=2)
def best_state(best_state):
    """The runs by their files; the best state and its rivals, with ties, easy seeds and a single state."""
    some = expect.draw(810)
    others = {5: [62.0, 70.0, 60.0], 1: [50.0, 81.0, 50.0], 2: [60.0, 50.0, 50.0], 3: [59.0, 79.0, 69.0]}
    state_and_rivals(best_state, others | {4: [60.0, 80.0, 70.0]})
    state_and_rivals(best_state, {4: [70.0, 71.0, 72.0], 2: [73.0, 60.0, 60.0], 0: [70.0, 50.0, 50.0]})
    state_and_rivals(best_state, {3: [1.0]})
    for states, seeds in ((3, 5), (5, 2), (7, 5), (4, 1)):
        state_and_rivals(best_state, one_best(some, states, seeds))


def one_best(some: random.Random, states: int, seeds: int) -> dict[int, list[float]]:
    """`scores_by_state` of which one state has the highest mean."""
    while True:
        scores = scores_by_state(some, states, seeds)
        sums = sorted(map(sum, scores.values()))
        if states == 1 or sums[-1] > sums[-2]:
            return scores


# 8.S1

# Scores of spans, scores of [CLS], and F1 or None. The scores are quarters, so that sums are exact.
Questions = tuple[list[float], list[float], list[float | None]]
QUESTIONS: list[Questions] = [
    ([1.0, 2.5, 4.0, 0.5, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0], [0.0, None, 0.75, None, 1.0]),
    ([3.0, 1.0, 2.0], [1.0, 3.0, 0.5], [0.5, 1.0, 0.25]),  # answer them all
    ([5.0, 1.0, 2.0], [0.0, 0.5, 4.0], [None, 0.25, None]),  # refuse them all
    ([2.0, 2.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, None, 0.5, None]),
    ([4.0, 3.0, 2.0, 2.5], [3.0, 2.0, 1.0, 0.25], [None, 0.75, 0.5, 1.0]),
    ([6.0, 1.0, 0.0, 2.0, 7.0], [8.0, 1.0, 3.0, 2.0, 1.0], [0.0, 0.0, None, None, 0.25]),
    ([1.5], [2.0], [0.5]),
    ([2.0], [1.0], [None]),
    ([-3.0, -1.0], [-2.0, 4.0], [1.0, None]),
]


def gaps_of(questions: Questions) -> list[float]:
    """By how much each span beats [CLS] without tau."""
    return [span - null for span, null in zip(*questions[:2], strict=True)]


def score_with(tau: float, questions: Questions, ties: bool = False, says: str = "") -> float:
    """The score in percent with this tau, or what a misconception `says` of it; with `ties`, equal scores answer."""
    total = 0.0
    for span, null, value in zip(*questions, strict=True):
        answered = span > null + tau or (ties and span == null + tau)
        if says == "0 is None" and value == 0:
            value = None
        if says == "refused scores 0":
            total += (value or 0.0) if answered else 0.0
        elif says == "decisions":
            total += answered == (value is not None)
        else:
            total += (value or 0.0) if answered else float(value is None)
    return 100 * total / len(questions[0])


def best_score(questions: Questions) -> float:
    """The score with the best of all taus."""
    gaps = gaps_of(questions)
    return max(score_with(tau, questions) for tau in [min(gaps) - 1, *gaps])


def some_questions(n: int, some: random.Random) -> Questions:
    """Questions whose differences of scores often are equal."""
    spans, nulls = ([some.randint(-8, 8) / 4 for _ in range(n)] for _ in range(2))
    return spans, nulls, [some.choice((None, None, 0.0, 0.25, 0.5, 1.0, 1.0)) for _ in range(n)]


def explains(
    tried: Sequence[tuple[Questions, float, float]], sign: int = 1, beyond: Sequence[int] = (-1,), **misconception: Any
) -> bool:
    """Whether each tau is the best there is under a misconception, of the differences and of ones `beyond` them."""
    for questions, tau, _ in tried:
        gaps = gaps_of(questions)
        candidates = [*gaps, *((min(gaps) if side < 0 else max(gaps)) + side for side in beyond)]
        best = max(score_with(one, questions, **misconception) for one in candidates)
        if score_with(sign * tau, questions, **misconception) < best - 1e-9:
            return False
    return True


@stretch("8.S1", forbids=MODELS)
def best_tau(best_tau):
    """No tau scores better, and the score is that of this tau; ties, all answered, all refused."""
    some, tried = random.Random(8), []
    for questions in [*QUESTIONS, *(some_questions(some.randint(2, 12), some) for _ in range(40))]:
        told = "`best_tau` should return two numbers, tau and the score that it gives"
        found = expect.items(best_tau(*questions), 2, told)
        tau, score = (expect.number(one, what) for one, what in zip(found, ("tau", "the score"), strict=True))
        assert abs(tau) < 1e9, (
            "tau is infinite or far from all differences. Return a finite tau near them, which gives the same score."
        )
        tried.append((questions, tau, score))
    if not explains(tried):
        told = "the two results are in the wrong order. Return tau, then the score."
        assert not explains([(questions, score, tau) for questions, tau, score in tried]), told
        told = "if both scores are equal, [CLS] should win: a question with s = s_null + tau is not answered."
        # Where equal scores answer, a tau that is none of the differences is as good as the right one.
        worse = [(questions, tau) for questions, tau, score in tried if not explains([(questions, tau, score)])]
        equal = all(
            tau < min(gaps_of(one)) or any(math.isclose(tau, gap) for gap in gaps_of(one)) for one, tau in worse
        )
        assert not equal or not (explains(tried, ties=True) or explains(tried, ties=True, beyond=(-1, 1))), told
        assert not explains(tried, sign=-1), "tau has the wrong sign. It should be added to the score of [CLS]."
        told = "an F1 of 0 is treated as a question without an answer. Only None means that."
        assert not explains(tried, says="0 is None"), told
        told = "a refused question without an answer should score 1."
        assert not explains(tried, says="refused scores 0"), told
        told = "only the number of right decisions is maximised. The F1 of the answers counts too."
        assert not explains(tried, says="decisions"), told
        told = "no tau below all differences is tried, with which all questions are answered."
        assert not explains(tried, beyond=()), told
        raise AssertionError("another tau gives a better score than the returned one.")
    for questions, _, score in tried:
        best, n = best_score(questions), len(questions[0])
        expect.number_like(
            score + 1,
            best + 1,
            "the score",
            "the score is not that of all questions with this tau, in percent.",
            {
                "the score is between 0 and 1. Return it in percent.": best / 100 + 1,
                "this is the sum over the questions, not their mean.": best * n / 100 + 1,
                "this is the sum over the questions in percent, not their mean.": best * n + 1,
                "the score is higher than any tau can give. Questions with the same difference change together.": (
                    max(score, best + 1e-3) + 1
                ),
            },
        )
