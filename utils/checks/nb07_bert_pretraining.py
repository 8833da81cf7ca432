"""Checks of notebook 07: pieces, embeddings, masks, epochs of masks, sentence pairs, losses, head, blanks, facts."""

import functools
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models
from torch import nn
from torch.nn import functional as F

from utils import tiny_bert
from utils.checks import nb07_toys as toys
from utils.experiments import pretraining
from utils.grading import expect, probes
from utils.grading.check import check, stretch
from utils.grading.contract import Contract, has_form, is_new, model_kept, world_kept
from utils.grading.documents import Pair, labelled_pairs, named_documents
from utils.grading.expect import chance, even, likely, normal, plausible
from utils.grading.forbidden import MODELS
from utils.grading.remote import INFINITY, Library, Remote, StudentError, kind, promised, read
from utils.grading.results_check import results_check


def near(found: float, wanted: float, otherwise: str, guesses: Mapping[str, float], tolerance: float = 1e-5) -> None:
    """As `expect.like`, for single numbers; infinity is near itself."""
    if not math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance):
        for sentence, guess in guesses.items():
            assert not math.isclose(found, guess, rel_tol=tolerance, abs_tol=tolerance), sentence
        raise AssertionError(otherwise)


# 7.1


def library_pieces(word: str, vocab: Mapping[str, int], unk: str = "[UNK]", max_chars: int = 100) -> list[str]:
    """What the tokenizers library makes of a word; `unk` must be in the vocabulary for it."""
    known = {**vocab, unk: vocab.get(unk, len(vocab))}
    return Tokenizer(models.WordPiece(known, unk_token=unk, max_input_chars_per_word=max_chars)).encode(word).tokens


def pieces_of(value: Any) -> list[str]:
    """The list of pieces."""
    assert type(value) is list, f"`wordpiece` should return a list of pieces, not {kind(value)}."
    assert all(type(piece) is str for piece in value), "the pieces should be texts, as they are in the vocabulary."
    return value


ENTRIES = ["un", "unabl", "able", "##able", "##e", "ab", "abc", "##cd", "play", "in", "cd", "a", "##x", "##ing"]
LOST = "some pieces of a word with a gap are kept. If no piece fits somewhere, the whole word is unknown."
ONCE = "`unk` is returned more than once. For an unknown word, return a list with a single `unk`."
START = "inside a word, a piece without `##` is used. Such a piece may only begin a word."
BARE = "the pieces have lost their `##`. It is a part of the piece."
GREEDY = "a shorter piece is used although a longer one fits. Go from left to right, and always take the longest."
BACK = "a piece is undone to find another way to cut the word. No choice is undone: the word is unknown."
INNER = "a piece with `##` begins a word. Such a piece may only continue one."
# word: pieces, and what misconceptions make of it
WORDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "play": (["play"], {INNER: ["##play"]}),
    "playin": (["[UNK]"], {START: ["play", "in"], LOST: ["play"]}),
    "cdplay": (["[UNK]"], {START: ["cd", "play"], LOST: ["cd"]}),
    "playing": (["play", "##ing"], {BARE: ["play", "ing"], LOST: ["play", "[UNK]"]}),
    "unable": (["unabl", "##e"], {GREEDY: ["un", "##able"], BARE: ["unabl", "e"]}),
    "abcd": (["[UNK]"], {BACK: ["ab", "##cd"], LOST: ["abc"]}),
    "playzing": (["[UNK]"], {LOST: ["play", "##ing"]}),
    "ing": (["[UNK]"], {INNER: ["##ing"]}),
    "xa": (["[UNK]"], {INNER: ["##x", "a"], LOST: ["a"]}),
    "zing": (["[UNK]"], {LOST: ["##ing"]}),
}


@check("7.1", points=2, forbids=("import tokenizers", *MODELS))
def wordpiece(wordpiece, lib):
    """Check for greedy pieces, longest first, all or nothing, equal to the tokenizers library's on random words."""
    vocab = {piece: place for place, piece in enumerate(ENTRIES)}
    for word, (wanted, guesses) in WORDS.items():
        assert library_pieces(word, vocab) == wanted
        found = pieces_of(wordpiece(word, vocab))
        if wanted == ["[UNK]"]:
            told = f"`{word}` cannot be cut, and an empty list is returned. It should be a list with `unk`."
            assert found != [], told
            assert {*found} != {"[UNK]"} or len(found) == 1, ONCE
            assert "[UNK]" not in found or len(found) == 1, LOST
        told = f"`{word}` should be unknown: at some place no piece fits."
        if wanted != ["[UNK]"]:
            whole = "".join(piece.removeprefix("##") for piece in found)
            assert found == ["[UNK]"] or len(whole) >= len(word), f"some letters of `{word}` are in no piece."
            told = f"`{word}` is not cut into the longest pieces that fit, from left to right."
        expect.explained(found, wanted, told, guesses)
    told = (
        "a piece whose number is 0 is not found. Check whether the piece is a key of "
        "`vocab`, not whether its number is true."
    )
    again = pieces_of(wordpiece("unun", {"un": 2, "##un": 1}))
    assert again == ["un", "##un"], "with the vocabulary `un`, `##un`, the word `unun` is not cut into these two."
    assert pieces_of(wordpiece("unun", {"un": 0, "##un": 1})) != ["[UNK]"], told
    with world_kept(lib, "after wordpiece"):
        wordpiece("playing", vocab)
    is_new(lib, "the list of pieces", wordpiece, "playing", vocab)
    assert pieces_of(wordpiece("", vocab)) == [], "an empty word has no pieces: it should give an empty list."
    told = "`unk` is ignored: with `unk='<?>'`, an unknown word should give a list with that text."
    assert pieces_of(wordpiece("zzz", vocab, "<?>")) == ["<?>"], told
    long, longer = "play" + "ing" * 2, "play" + "ing" * 3
    told = "for a word of more than `max_chars` characters, the result is not a list with `unk`. It should be unknown."
    found = pieces_of(wordpiece(longer, vocab, "[UNK]", 12))
    assert found != library_pieces(longer, vocab), (
        "a word of more than `max_chars` characters is cut into pieces. It should be unknown."
    )
    assert found == ["[UNK]"], told
    assert pieces_of(wordpiece("able", vocab, "[UNK]", 3)) == ["[UNK]"], (
        "with `max_chars=3`, `able` is not unknown. It is too long, although it is itself a piece."
    )
    told = "a word is cut as in an earlier call, although the vocabulary is another one."
    assert pieces_of(wordpiece("play", {"pl": 0, "##ay": 1})) != ["play"], told
    told = "the word is converted to lower case. Its letters should stay as they are."
    found = pieces_of(wordpiece("PlaY", {"play": 0, "Pla": 1, "##Y": 2}))
    assert found != ["play"], told
    told = "`PlaY` is not cut into `Pla` and `##Y`. The vocabulary is `play`, `Pla`, `##Y`: capitals are letters of "
    assert found == ["Pla", "##Y"], f"{told}their own."
    told = "letters such as ü and € should stay as they are."
    assert pieces_of(wordpiece("ü€", {"ü": 1, "##€": 2})) == ["ü", "##€"], told
    for most in (10, 11):
        told = f"a word of {len(long)} characters is returned as unknown with `max_chars={most}`. It is not too long."
        found = pieces_of(wordpiece(long, vocab, max_chars=most))
        assert found != ["[UNK]"], told
        assert found == ["play", "##ing", "##ing"], f"`{long}` is not cut into `play`, `##ing` and `##ing`."
    told = "the length of a word is counted in bytes. `max_chars` counts characters."
    assert pieces_of(wordpiece("ü€", {"ü": 1, "##€": 2}, "[UNK]", 3)) == ["ü", "##€"], told
    told = "by default, a word of 100 characters should be cut into pieces."
    assert pieces_of(wordpiece("a" + "x" * 99, vocab)) == ["a"] + ["##x"] * 99, told
    told = "by default, a word of 101 characters should be unknown."
    assert pieces_of(wordpiece("a" + "x" * 100, vocab)) == ["[UNK]"], told
    random_words(wordpiece, random.Random(1), 100)


def random_words(wordpiece: Remote, some: random.Random, count: int, letters: str = "abc") -> None:
    """Fail unless random words with random vocabularies are cut as the library does it."""
    for _ in range(count):
        known = {"".join(some.choices(letters, k=some.randint(1, 3))) for _ in range(some.randint(3, 9))}
        inner = {"##" + "".join(some.choices(letters, k=some.randint(1, 3))) for _ in range(some.randint(4, 12))}
        entries = some.sample(sorted(known | inner), len(known | inner))
        vocab = {piece: place for place, piece in enumerate(entries)}
        word = "".join(some.choices(letters, k=some.randint(1, 8)))
        found, wanted = pieces_of(wordpiece(word, vocab)), library_pieces(word, vocab)
        if wanted == ["[UNK]"] and found != wanted:
            whole = "".join(found[:1] + [piece.removeprefix("##") for piece in found[1:]])
            assert whole != word or {*found} - {*vocab}, BACK
            assert {*found} != {"[UNK]"}, ONCE
            assert "[UNK]" not in found and not (found and word.startswith(whole)), LOST
        rule = "be unknown" if wanted == ["[UNK]"] else "be cut into the longest pieces that fit, from left to right"
        told = f"with the vocabulary `{entries}`, `{word}` should {rule}."
        expect.explained(found, wanted, told, {})


# 7.2


def embedding_shapes(V: int, d: int, places: int, types: int = 2) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights."""
    rows = {"word": V, "position": places, "token_type": types}
    return {f"{name}.weight": (count, d) for name, count in rows.items()} | {"norm.weight": (d,), "norm.bias": (d,)}


def embedded(
    state: Mapping[str, torch.Tensor],
    ids: torch.Tensor,
    types: torch.Tensor | None,
    places: torch.Tensor | None = None,
    eps: float = 1e-12,
    scale: float = 1.0,
) -> torch.Tensor:
    """The embeddings with these weights, row by row."""
    if places is None:
        places = torch.tensor([[t for t in range(ids.size(1))]] * ids.size(0))
    kinds = ids * 0 if types is None else types
    total = scale * state["word.weight"][ids] + state["token_type.weight"][kinds] + state["position.weight"][places]
    centred = total - total.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * state["norm.weight"] + state["norm.bias"]


def within(types: torch.Tensor) -> torch.Tensor:
    """Places that begin again where the type changes."""
    rows = []
    for row in types.tolist():
        places: list[int] = []
        for t, value in enumerate(row):
            places.append(0 if t == 0 or row[t - 1] != value else places[-1] + 1)
        rows.append(places)
    return torch.tensor(rows)


def embeds(
    module: Remote, state: Mapping[str, torch.Tensor], ids: torch.Tensor, types: torch.Tensor | None = None
) -> None:
    """Fail unless the embeddings with these weights are right."""
    d, (B, T) = state["norm.bias"].numel(), ids.shape
    given = (ids,) if types is None else (ids, types)
    kinds = torch.zeros_like(ids) if types is None else types
    word, place = state["word.weight"][ids], state["position.weight"][:T]
    norm = {"weight": state["norm.weight"], "bias": state["norm.bias"]}

    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (d,), norm["weight"], norm["bias"], 1e-12)

    found = expect.floats(module(*given), (B, T, d), "the embeddings")
    told = (
        "in evaluation mode, two calls with the same tokens give different embeddings. Dropout should do nothing there."
    )
    assert torch.equal(expect.floats(module(*given), (B, T, d), "the embeddings"), found), told
    expect.like(
        found,
        embedded(state, ids, types),
        "the embeddings are not the norm of the sum of the three rows.",
        {
            "the places start again from 0 at the second sentence. They should run through both sentences.": lambda: (
                embedded(state, ids, types, within(kinds))
            ),
            "the rows of `word` are multiplied by the root of d, as in notebook 01. BERT does not do this.": lambda: (
                embedded(state, ids, types, scale=math.sqrt(d))
            ),
            "the norm is applied only to the rows of `word`. Apply it after the sum.": lambda: (
                normed(word) + place + state["token_type.weight"][kinds]
            ),
            "the norm is applied to each of the three rows. Apply it once, to their sum.": lambda: (
                normed(word) + normed(place) + normed(state["token_type.weight"][kinds])
            ),
            "the LayerNorm is missing: the sum of the rows is returned as it is.": lambda: (
                word + place + state["token_type.weight"][kinds]
            ),
            "the rows of `position` are not added.": lambda: normed(word + state["token_type.weight"][kinds]),
            (
                "the rows of `token_type` are not added."
                if types is not None
                else ("without types, no row of `token_type` is added. All types are then 0, so row 0 should be added.")
            ): lambda: normed(word + place),
            "the types are ignored: every token gets the row of type 0.": lambda: normed(
                word + place + state["token_type.weight"][0]
            ),
            "the places are counted from 1. The first token should get row 0 of `position`.": lambda: normed(
                word + state["position.weight"].roll(-1, 0)[:T] + state["token_type.weight"][kinds]
            ),
            (
                "the rows of types 0 and 1 are swapped."
                if types is not None
                else "without types, the row of type 1 is added. All types should then be 0."
            ): lambda: normed(word + place + state["token_type.weight"][1 - kinds]),
        },
    )


def starts_small(module: Remote, names: Sequence[str]) -> None:
    """Fail unless the tables start normal with standard deviation 0.02, and the norm as the identity."""
    state = module.state_dict()
    for name in names:
        values = state[f"{name}.weight"].float()
        spread = values.std().item()
        assert abs(spread - 1) > 0.1, (
            f"`{name}` starts with standard deviation 1, as torch starts an embedding. It should be 0.02."
        )
        share = (values.abs() < 0.02).float().mean()
        assert abs(spread - 0.02) < 0.002 and abs(values.mean()) < 0.002 and abs(share - 0.683) < 0.05, (
            f"`{name}` does not start as normal numbers with mean 0 and standard deviation 0.02."
        )


def drops(module: Remote, state: Mapping[str, torch.Tensor], rate: float, count: int = 60) -> None:
    """Fail unless a training module drops entries of the normed sum at `rate`."""
    module.train()
    ids = torch.arange(count * 4).reshape(count, 4) % state["word.weight"].size(0)
    wanted = embedded(state, ids, None)
    found = expect.floats(module(ids), tuple(wanted.shape), "the embeddings in training")
    gone = (found == 0).float().mean().item()
    if gone == 0 and rate > 0:
        assert not expect.near(found, wanted, 1e-4, 1e-4), "in training mode nothing is dropped."
        inner = (found - state["norm.bias"]) / state["norm.weight"]  # what a norm gives has a mean of 0
        assert inner.mean(-1).abs().max() > 1e-3, (
            "in training mode no entry of the result is 0, as where dropout comes before the norm. Apply it last."
        )
        raise AssertionError(
            "in training mode no entry of the result is 0, and the numbers differ from those in evaluation mode. "
            "Dropout should set entries of the normed sum to 0."
        )
    dropped = found == 0
    told = "dropout drops the same entries in every row of the batch. Draw for each row separately."
    assert rate == 0 or (dropped != dropped[:1]).any(), told
    told = "dropout drops the same entries at every place of a row. Draw for each place separately."
    assert rate == 0 or (dropped != dropped[:, :1]).any(), told
    told = "dropout drops all entries of a token or none. Draw for each entry separately."
    assert rate == 0 or (dropped != dropped[..., :1]).any(), told
    assert plausible(int(dropped.sum()), found.numel(), rate), (
        f"in training mode {gone:.0%} of the entries are 0, not {rate:.0%}. Apply dropout "
        "once, at the rate `dropout`, which is 0.1 by default."
    )
    kept = wanted / (1 - rate)
    assert rate == 0 or not expect.near(torch.where(dropped, wanted, found), wanted, 1e-4, 1e-4), (
        "in training mode the entries that are kept are as in evaluation mode. Divide them by 1 - dropout."
    )
    assert expect.near(torch.where(found == 0, kept, found), kept, 1e-4, 1e-4), (
        "in training mode the entries that are kept are not the normed sum over 1 - dropout. "
        "Apply dropout once, after the norm."
    )
    module.eval()


# Of two numbers that nearly agree, the norm is the rounding of float32: d is 4 or more.
EMBEDDINGS = Contract(
    "BertEmbeddings(V, d, T + _more, n_types, 0.0)(ids, types)",
    sizes={"B": (1, 5), "T": (1, 7, 600), "V": (2, 20, 5000), "d": (4, 9), "n_types": (1, 4), "_more": (0, 3)},
    _ids="ids (B, T) below V - 1",
    ids="= _ids + 1",  # the row of word 0 need not learn: 0 may be the padding_idx
    types="ids (B, T) below n_types or None",
    longer="ids (B, T + _more + 1) below V",
    gives="the embeddings: float32 (B, T, d)",
    weights=lambda V, d, places, n_types, rate: embedding_shapes(V, d, places, n_types),
    right=lambda state, V, d, places, n_types, rate, ids, types: embedded(state, ids, types),
    refuses=("BertEmbeddings(V, d, T + _more, n_types, 0.0)(longer)",),
    draws=True,
)


@check("7.2", points=2, forbids=("embedding_bag", *MODELS))
def embeddings(BertEmbeddings, lib):
    """Check that words, positions and types are added and normed, with dropout and BERT's eps and start."""
    d, most = 6, 7
    sizes = 11, d, most
    module = BertEmbeddings(*sizes)
    state = expect.weights(module, embedding_shapes(*sizes), "`BertEmbeddings(11, 6, 7)`", seed=20)
    module.eval()
    ids = torch.tensor([[2, 7, 9, 3, 5], [2, 10, 3, 8, 1], [2, 4, 6, 6, 3]])
    types = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 1, 1, 1, 1]])
    embeds(module, state, ids, types)
    embeds(module, state, ids)
    full = torch.arange(2 * most).reshape(2, most) % 11
    told = "a row of exactly `max_len` tokens is refused. Only longer ones should be."
    expect.answers(module, full, says=told, kinds=("ValueError",))
    sentence = "more tokens than there are places should raise ValueError."
    expect.refuses(lambda: module(torch.ones(2, most + 1, dtype=torch.long)), says=sentence)
    tiny = {name: value * (1e-4 if name[:4] != "norm" else 1) for name, value in state.items()}
    module.load_state_dict(tiny)
    expect.like(
        expect.floats(module(ids, types), (3, 5, d), "the embeddings"),
        embedded(tiny, ids, types),
        "if the sum of the rows has very small entries, the embeddings are wrong. The norm adds 1e-12 to the variance "
        "of this sum, and no more.",
        {"the eps of the norm is torch's 1e-5. BERT has 1e-12.": embedded(tiny, ids, types, eps=1e-5)},
        1e-3,
    )
    module.load_state_dict(state)
    for rate, module in ((0.4, BertEmbeddings(*sizes, dropout=0.4)), (0.1, BertEmbeddings(*sizes))):
        module.load_state_dict(state)
        drops(module, state, rate)
    fresh = BertEmbeddings(90, 40, 50, 30)
    rows = fresh.state_dict()["token_type.weight"].shape[0]
    assert rows == 30, f"with `n_types=30`, `token_type` has {rows} rows, not 30."
    starts_small(fresh, ("word", "position", "token_type"))
    EMBEDDINGS.hold(BertEmbeddings, lib, "gradients", "layout", "device")


# 7.3


NAMES = ("the inputs", "the labels")


def hidden_pair(value: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels, of the shape of `ids`."""
    expect.items(value, 2, "`mask_tokens` should return inputs and labels, two tensors")
    pair = [expect.tensor(item, tuple(ids.shape), what) for item, what in zip(value, NAMES, strict=True)]
    for item, what in zip(pair, ("inputs", "labels"), strict=True):
        told = f"the {what} should be whole numbers, not {str(item.dtype)[6:]}."
        assert not item.is_floating_point() and item.dtype != torch.bool, told
    return pair[0].long(), pair[1].long()


def some_text(B: int, T: int, V: int, special: Sequence[int], mask_id: int, seed: int) -> torch.Tensor:
    """Rows of random tokens, special ones among them, at the ends and in the middle, and padding; none is the mask."""
    ids = torch.randint(V, (B, T), generator=expect.generator(seed))
    ids[ids == mask_id] = (mask_id + 1) % V
    ids[:, 0], ids[::2, -T // 2 :], ids[:, -1], ids[::3, T // 3] = special[0], special[-1], special[-1], special[1]
    return ids


def well_hidden(
    inputs: torch.Tensor,
    labels: torch.Tensor,
    ids: torch.Tensor,
    special: Sequence[int],
    mask_id: int,
    V: int,
    p: float,
    split: Sequence[float],
) -> None:
    """Fail unless the shares of what happened to the tokens are as they should be, but for chance."""
    chosen, never = labels != -100, torch.isin(ids, torch.tensor([*special]))
    told = "inputs and labels are the wrong way round: -100 is in the first tensor. Return the inputs first."
    assert not chosen.all() or -100 not in inputs.flatten().tolist(), told
    assert chosen.any() or p == 0, "no token is chosen: all labels are -100."
    zeros = ((labels == 0) & (ids != 0)).float().mean()
    assert zeros < 0.3, "tokens that are not chosen have label 0. It should be -100."
    assert not chosen.all() or p == 1, "every token has a label. Tokens that are not chosen should get -100."
    changed = inputs != ids
    told = "labels and -100 are the wrong way round: the chosen tokens should have the labels."
    assert p > 0.45 or chosen.float().mean() < 0.55 or (changed & chosen).any(), told
    outside = labels[chosen & (labels != ids)]
    assert not len(outside) or not torch.equal(labels[chosen], inputs[chosen]), (
        "the labels of the chosen tokens are the new tokens. They should be the tokens that were there before."
    )
    assert not len(outside), "the label of a chosen token is not the id that it had in `ids`."
    assert not (chosen & never).any(), (
        "special tokens are chosen. Tokens whose id is in `special`, such as [CLS], never are."
    )
    assert not (changed & never).any(), (
        "special tokens are changed. Tokens whose id is in `special`, such as [CLS], should stay."
    )
    free, picked = int((~never).sum()), int(chosen.sum())
    became = {
        "mask": int((inputs[chosen] == mask_id).sum()),
        "kept": int((~changed & chosen).sum()),
        "random": int(((inputs != mask_id) & changed)[chosen].sum()),
    }
    assert not (changed & ~chosen).any(), (
        "tokens that have no label are changed. Only chosen tokens are changed, and each of them has a label."
    )
    if split[2] > 0 and became["kept"] == 0 and became["mask"] + became["random"]:
        told = "chosen tokens that stay as they are have no label. They should have one too."
        assert plausible(picked, free, p) or not plausible(picked, free, p * (1 - split[2])), told
        raise AssertionError("every chosen token is replaced. A share of them, split[2], should stay as they are.")
    assert not chosen[~never].all() or p == 1, (
        "every token that is not special has a label. Only the chosen ones, a share p, should have one."
    )
    alike = (chosen[1:] == chosen[:-1])[~never[1:] & ~never[:-1]]
    told = "the same places are chosen in every row. Draw a number for each token of each row."
    assert p in (0, 1) or not alike.all(), told
    likely(
        picked,
        free,
        p,
        "the share of chosen tokens is wrong: of all tokens that are not special, a share p should be chosen. "
        f"With p = {p:g}, it is {picked / max(1, free):.3g}.",
    )
    masked, other, same = split
    gone = ((inputs == mask_id) & chosen).sum(1)
    whole = (gone == chosen.sum(1))[chosen.sum(1) > 6].float()
    fates = (inputs == mask_id)[chosen]
    told = "what replaces a chosen token depends on where it is in the text. Draw it for each token separately."
    mixed = fates.float().mean().item()
    in_order = 0.1 < mixed < 0.9 and len(fates) > 50 and int((fates[1:] != fates[:-1]).sum()) < 20
    assert not in_order, told
    told = "all chosen tokens of a row are replaced in the same way. Draw for each token what replaces it."
    few = masked < 0.85 and became["mask"] < 0.95 * picked
    assert not len(whole) or not few or whole.mean() < 0.45, told
    gone = ((inputs == mask_id) & chosen).sum(0)
    whole = (gone == chosen.sum(0))[chosen.sum(0) > 6].float()
    told = "chosen tokens at the same place of different rows are replaced in the same way. Draw for each token."
    assert not len(whole) or not few or whole.mean() < 0.45, told
    wanted = {"mask": masked + other / V, "kept": same + other / V, "random": other * (1 - 2 / V)}
    guesses = {
        "too few chosen tokens become random: the share split[1] is taken of the rest, not of all chosen tokens.": (
            masked,
            (1 - masked) * other,
        ),
        "no token becomes random, though a share of the chosen ones should.": (masked, 0.0),
        "every chosen token becomes the mask. Some should become a random token, and some should stay.": (1.0, 0.0),
        "the shares are 80, 10 and 10 whatever `split` says.": (0.8, 0.1),
        "random and kept tokens are swapped: split[1] is the share of random ones, split[2] that of kept ones.": (
            masked,
            same,
        ),
        "no chosen token stays as it is: all that do not become the mask become random.": (masked, 1 - masked),
        "every chosen token stays as it is. Some should be replaced.": (0.0, 0.0),
        "every chosen token becomes random.": (1 / V, 1.0),
    }

    def fits(name: str, share: float) -> bool:
        near = 3 * picked * share / V  # guesses leave out random tokens that are the mask or the old one
        count = min(max(picked * share, became[name] - near), became[name] + near)
        return plausible(count, picked, share)

    if not all(fits(name, share) for name, share in wanted.items()):
        for sentence, (one, two) in guesses.items():
            assert not (fits("mask", one) and fits("random", two)), sentence
        news = inputs[chosen & changed & (inputs != mask_id)]  # of few ids more are the mask than `wanted` says
        told = "only a few different ids come as random tokens. Draw them from all vocab_size ids."
        assert len(news) < 100 or len(news.unique()) > min(V, len(news)) / 5, told
    for name, told in (("mask", "the mask"), ("random", "a random token"), ("kept", "what they were")):
        share = f"With `split = {tuple(split)}`, it is {became[name] / max(1, picked):.3g}."
        assert fits(name, wanted[name]), f"the share of the chosen tokens that become {told} is wrong. {share}"


def chosen_pair(value: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels, of which a label is the old token, and without a label nothing is changed."""
    inputs, labels = hidden_pair(value, ids)
    chosen = labels != -100
    assert torch.equal(labels[chosen], ids[chosen]), "the label of a chosen token is not the id that it had in `ids`."
    assert torch.equal(inputs[~chosen], ids[~chosen]), "tokens that have no label are changed."
    return inputs, labels


def each_alone(mask_tokens: Remote, lib: Library, seed: int, p: float = 0.3) -> None:
    """Fail unless tokens are chosen independently of each other, within rows, across rows and in all."""
    ids, special = torch.full((200, 40), 5), [0, 1]
    inputs, labels = chosen_pair(mask_tokens(ids, special, 2, 9, p, generator=lib(toys).seeded(seed)), ids)
    chosen, masked = (labels != -100).float(), (inputs == 2).float()
    assert chosen.mean(0).var() < 0.02, (
        "the same places are chosen in every row. Draw a number for each token of each row."
    )
    for axis, where in enumerate(("at one place of all rows", "of a row")):
        whole = ((masked.sum(axis) == chosen.sum(axis)) & (chosen.sum(axis) > 4)).float().mean()
        assert whole < 0.5, (
            f"all chosen tokens {where} are replaced in the same way. Draw for each token what replaces it."
        )
    rows, columns = chosen.sum(1), chosen.sum(0)
    assert rows.var() > 3, (
        "every row has the same number of chosen tokens, or nearly the same. Each token should be chosen "
        "independently, so the number should vary more."
    )
    assert columns.var() > 5, (  # 42 are expected; below 15 chance gets once in some thousand calls
        "whether a token is chosen depends on the tokens in other rows. Choose each token independently."
    )
    small = ids[:20, :30]
    counts = set()  # that eight agree happens once in 10**10 times
    for place in range(8):
        _, labels = chosen_pair(mask_tokens(small, special, 2, 9, p, generator=lib(toys).seeded(seed + place)), small)
        counts.add(int((labels != -100).sum()))
    assert len(counts) > 1, (
        "every call chooses the same number of tokens. Each token should be chosen "
        "independently, so the number should vary."
    )
    hidden = set()  # that eight draws of 600 fates agree happens once in 10**11 times
    for place in range(8):
        going = lib(toys).seeded(seed + place)
        inputs, _ = chosen_pair(mask_tokens(small, special, 2, 9, 1.0, (0.5, 0.0, 0.5), going), small)
        hidden.add(int((inputs == 2).sum()))
    told = (
        "with p = 1, the same number of tokens becomes the mask in every call. Draw for each "
        "token separately what replaces it."
    )
    assert len(hidden) > 1, told


def evenly_random(mask_tokens: Remote, lib: Library, V: int, seed: int) -> None:
    """Fail unless random tokens are drawn evenly from the whole vocabulary."""
    ids = torch.full((40, 300), V - 2)
    ids[:, ::2] = V - 3
    inputs, _ = hidden_pair(mask_tokens(ids, [0], 3, V, 1.0, (0.0, 1.0, 0.0), lib(toys).seeded(seed)), ids)
    told = "random tokens are not drawn from the vocabulary: ids from 0 to vocab_size - 1."
    assert inputs.min() >= 0 and inputs.max() < V, told
    counts = torch.bincount(inputs.flatten(), minlength=V)
    drawn_ones = {*counts.nonzero().flatten().tolist()}
    told = "with split = (0, 1, 0), no chosen token is replaced. Each should become a random token."
    assert not torch.equal(inputs, ids), told
    told = "random tokens are drawn from the text itself. Draw them evenly from all vocab_size ids."
    assert drawn_ones != {V - 3, V - 2}, told
    assert len(drawn_ones) > 1, "one random token is drawn for all places. Draw one for each place."
    one = (inputs == inputs[:, :1]).all(1)
    assert not one.any(), "all random tokens of a row are the same. Draw one for each place."
    told = "two rows have the same random tokens at the same places. Draw one for each place of each row."
    assert not any(map(torch.equal, inputs[1:], inputs[:-1])), told
    told = "the last id of the vocabulary, vocab_size - 1, is never drawn: `torch.randint` leaves out its upper end."
    assert counts[V - 1] > 0 or not counts[: V - 1].all(), told
    assert not (inputs != ids).all(), "a random token is never the old one. It should be drawn from all vocab_size ids."
    for number in range(V):
        told = (
            "random tokens are not drawn evenly from all vocab_size ids. Special ids and the old "
            "id should be possible too."
        )
        likely(int(counts[number]), inputs.numel(), 1 / V, told)
    inputs, labels = hidden_pair(mask_tokens(ids, [0], 3, V, 0.4, (0.0, 1.0, 0.0), lib(toys).seeded(seed)), ids)
    assert inputs.min() >= 0 and inputs.max() < V, "random tokens are not drawn from the vocabulary."
    told = (
        "with a small p, some random tokens never occur: one number decides whether a token "
        "is chosen and what replaces it."
    )
    counts = torch.bincount(inputs[labels != -100], minlength=V)
    told = told if not counts.all() else "with a small p, random tokens are not drawn evenly from the vocabulary."
    for number in range(V):
        likely(int(counts[number]), int(counts.sum()), 1 / V, told, sigmas=8)


def apart(mask_tokens: Remote, lib: Library, seed: int) -> None:
    """Fail unless what happens to a token says nothing of what happens to its neighbours, or of the token drawn."""
    V, ids = 40, torch.full((240, 60), 5)
    going = lib(toys).seeded(seed)
    inputs, _ = chosen_pair(mask_tokens(ids, [0], 2, V, 1.0, (0.4, 0.4, 0.2), generator=going), ids)
    assert inputs.min() >= 0 and inputs.max() < V, "random tokens are not drawn from the vocabulary."
    masked, random_ones = inputs == 2, (inputs != 2) & (inputs != 5)
    told = (
        "some random tokens occur too often or never: one number decides that a token is replaced and by which token."
    )
    counts = torch.bincount(inputs[random_ones], minlength=V).tolist()
    for number in {*range(V)} - {2, 5}:
        likely(counts[number], sum(counts), 1 / (V - 2), told, sigmas=7)
    unlike(
        masked,
        0.4 + 0.4 / V,
        ("what replaces a chosen token depends on its neighbours. Draw it for each token separately."),
    )
    for one, other in ((inputs[:, 1:], inputs[:, :-1]), (inputs[1:], inputs[:-1])):
        both = (one != 2) & (one != 5) & (other != 2) & (other != 5)
        told = "the random tokens of neighbouring places depend on each other. Draw one for each place separately."
        likely(int((one == other)[both].sum()), int(both.sum()), 1 / (V - 2), told, sigmas=7)
    _, labels = chosen_pair(mask_tokens(ids, [0], 2, V, 0.4, generator=going), ids)
    unlike(
        labels != -100, 0.4, ("whether a token is chosen depends on its neighbours. Choose each token independently.")
    )


def unlike(hits: torch.Tensor, p: float, told: str) -> None:
    """Fail with `told` unless hits, each of probability p, are independent of their neighbours in rows and columns."""
    for one, other in (
        (hits[:, 1:], hits[:, :-1]),
        (hits[1:], hits[:-1]),
        (hits[:, 2:], hits[:, :-2]),
        (hits[1:, 1:], hits[:-1, :-1]),
    ):
        likely(int((one == other).sum()), one.numel(), p * p + (1 - p) ** 2, told, sigmas=7)


def sure(mask_tokens: Remote, lib: Library) -> None:
    """Fail unless with p = 1 all but the special tokens are chosen, whatever comes in their place."""
    ids = torch.arange(600).reshape(20, 30) % 7 + 2
    going = lib(toys).seeded(6)
    inputs, labels = hidden_pair(mask_tokens(ids, [0, 1], 2, 9, 1.0, (0.0, 1.0, 0.0), going), ids)
    left = labels == -100
    assert not left.all(), "with p = 1, no token is chosen. All that are not special should be."
    told = "a mask token of the text is never chosen. It should be treated like any other token."
    assert not left[ids == 2].all(), told
    told = "the first or the last token of a row is never chosen. Only those whose id is in `special` never are."
    assert not left[:, 0].all() and not left[:, -1].all(), told
    told = "a chosen token has no label if its random token happens to be the old one. It should have one."
    again = inputs == ids
    assert not left.any() or not torch.equal(left, again), told
    assert not left.any(), "with p = 1, some tokens that are not special are not chosen."
    for p in (0.0, 1.0):
        kept = lib(toys).written_over(mask_tokens, ids, [0, 1], 2, 9, p, (0.0, 0.0, 1.0))
        told = "the inputs or the labels are `ids` itself. Return new tensors: changing them must not change the text."
        assert torch.equal(kept, ids), told


@check("7.3", points=3, forbids=("DataCollatorForLanguageModeling", *MODELS))
def mask_tokens(mask_tokens, lib):
    """Check shares, labels where tokens are chosen, untouched `ids`, and one generator."""
    V, special, mask_id = 1000, [3, 7, 990], 4
    ids = some_text(500, 200, V, special, mask_id, 30)
    found = hidden_pair(mask_tokens(ids, special, mask_id, V, generator=lib(toys).seeded(1)), ids)
    well_hidden(*found, ids, special, mask_id, V, 0.15, (0.8, 0.1, 0.1))
    for p, split in ((0.4, (0.5, 0.3, 0.2)), (0.15, (1.0, 0.0, 0.0))):
        found = hidden_pair(mask_tokens(ids, special, mask_id, V, p, split, lib(toys).seeded(2)), ids)
        well_hidden(*found, ids, special, mask_id, V, p, split)
    small, toy = ids[:6, :50], lib(toys)
    before = chance(lib)
    first, other, again = (
        chosen_pair(mask_tokens(small, special, mask_id, V, generator=toy.seeded(n)), small) for n in (5, 6, 5)
    )
    told = "two generators with the same seed give different results: all chance should come from `generator`."
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]), told
    told = "a global generator is used or seeded, although `generator` is given."
    assert chance(lib) == before, told
    assert not torch.equal(first[1], other[1]), (
        "generators with different seeds choose the same tokens: `generator` should decide."
    )
    going = toy.seeded(5)
    draws = [chosen_pair(mask_tokens(small, special, mask_id, V, generator=going), small)[1] for _ in range(2)]
    told = "a second call with the same generator chooses the same tokens: the generator is seeded again, or copied."
    assert not torch.equal(*draws), told
    told = (
        "without a generator, torch's own should be used: its seed decides which tokens are "
        "chosen, and a second call chooses others."
    )
    turns = [[small, special, mask_id, V]] * 2
    one, two = (chosen_pair(each, small) for each in toy.in_turn(mask_tokens, 8, turns, {}))
    same, _ = (chosen_pair(each, small) for each in toy.in_turn(mask_tokens, 8, turns, {}))
    assert torch.equal(one[1], same[1]) and not torch.equal(one[1], two[1]), told
    sure(mask_tokens, lib)
    evenly_random(mask_tokens, lib, 8, 3)
    each_alone(mask_tokens, lib, 4)
    apart(mask_tokens, lib, 5)
    with world_kept(lib, "after `mask_tokens`"):
        mask_tokens(small, special, mask_id, V, generator=toy.seeded(1))
    expect.one_device(lib, mask_tokens, small, special, mask_id, V)
    sentence = "`mask_tokens` fails for ids that are not contiguous in memory, such as transposed ones."
    try:
        found = hidden_pair(toy.strided(mask_tokens, ids, special, mask_id, V), ids)
    except StudentError as error:
        if error.is_no_answer:
            raise
        raise AssertionError(f"{sentence} It raised {error.type_name or 'nothing usable'}.") from None
    well_hidden(*found, ids, special, mask_id, V, 0.15, (0.8, 0.1, 0.1))


# 7.4


def drawn(masking: Remote, epochs: Sequence[int], ids: torch.Tensor) -> list[list[int]]:
    """What the toy mask drew in each of these epochs."""
    found = []
    for epoch in epochs:
        value = masking.epoch(epoch)
        expect.items(value, 2, "`epoch` should return what `mask` returns, inputs and labels")
        strange = [one for one in value if type(one) is not torch.Tensor]
        assert not strange, f"`epoch` should return two tensors. One of its results is {kind(*strange[:1])}."
        assert torch.equal(value[0], ids), (
            "the first tensor that `epoch` returns should be the inputs that `mask` gives for `ids`."
        )
        numbers = expect.tensor(value[1], tuple(ids.shape), "the second tensor of what `mask` gives")
        assert numbers.dtype == torch.int64, (
            f"`mask` gives labels of int64, but `epoch` returns {str(numbers.dtype)[6:]}. Return them unchanged."
        )
        found.append(value[1].flatten().tolist()[:4])
    return found


@check("7.4", points=2)
def masking(Masking, lib):
    """Check that ten copies take turns, or each epoch is new, and that only (seed, epoch) decides."""
    toy = lib(toys)
    ids, mask = torch.arange(12).reshape(3, 4) + 5, read(toy.noise)
    before, forty = chance(lib), list(range(40))
    try:
        dynamic = drawn(Masking(ids, mask), forty, ids)
    except StudentError as error:
        told = "the generator is passed to `mask` without its name: call it as mask(ids, generator=generator)."
        assert "noise() takes" not in str(error), told
        raise
    different = len({*map(tuple, dynamic)})
    assert different != 1, "every epoch has the same mask. Without copies, each epoch should have a mask of its own."
    told = "without copies, some epochs have the same mask. Dynamic masking draws a new mask for each epoch."
    assert different == 40, told
    ten = drawn(Masking(ids, mask, 10), forty, ids)
    counts = Counter(map(tuple, ten))
    assert len(counts) != 40, (
        "with ten copies, forty epochs have forty different masks. They should have ten, which take turns."
    )
    assert len(counts) != 1, "with ten copies, all epochs have the same mask. There should be ten masks."
    told = f"with ten copies, forty epochs have {len(counts)} different masks. They should have ten, which take turns."
    assert len(counts) == 10, told
    told = "with ten copies, the masks are not used equally often in forty epochs. They should take turns."
    assert sorted(counts.values()) == [4] * 10, told
    told = "with ten copies, the masks do not take turns: epoch 10 should have the mask of epoch 0 again."
    assert ten[:10] == ten[10:20] == ten[20:30], told
    assert len({*map(tuple, drawn(Masking(ids, mask, 1), range(5), ids))}) == 1, (
        "with `copies=1`, every epoch should have the same mask."
    )

    other = ids.flip(0) + 100
    second, told = Masking(other, mask).epoch(0), "a new object returns the masks of an earlier one, with other ids."
    first_ids = second[0] if type(second) is list and second else None
    assert type(first_ids) is not torch.Tensor or not torch.equal(first_ids, ids), told
    drawn(Masking(other, mask), [0, 1], other)
    drawn(Masking(other, mask, 2), [0, 1], other)
    for copies in (None, 2):
        inputs, labels = expect.items(Masking(ids, toy.signed, copies).epoch(3), 2, "epoch should return two tensors")
        told = (
            "inputs and labels come from two different calls of `mask`, so they do not fit each "
            "other. Return those of one call."
        )
        assert expect.near(inputs, -labels), told
        masking = Masking(ids, toy.added, copies)
        for epoch in (0, 1, 5):
            inputs, labels = expect.items(masking.epoch(epoch), 2, "epoch should return two tensors")
            told = "`mask` is given what an earlier call of it gave. Each epoch should mask the original ids."
            assert expect.near(inputs - labels, ids), told
    told = (
        "an epoch does not have the same mask each time it is asked for. Its seed and its number alone should decide, "
        "not chance, and not which epochs were asked for before."
    )
    masking, static = Masking(ids, mask, None, 3), Masking(ids, mask, 4, 3)
    there, back = drawn(masking, range(6), ids), drawn(masking, range(5, -1, -1), ids)
    assert there == back[::-1], told
    told = (
        "epochs 4 and 2 have other masks if no others were asked for before. The seed and the number of an epoch alone "
        "should decide its mask."
    )
    assert drawn(Masking(ids, mask, None, 3), [4, 2], ids) == [there[4], there[2]], told
    told = "with four copies, the masks of epochs 6, 1 and 3 are not those of epochs 2, 5 and 7 in another object."
    assert drawn(static, [6, 1, 3], ids) == drawn(Masking(ids, mask, 4, 3), [2, 5, 7], ids), told
    assert chance(lib) == before, (
        "a global generator is seeded or used. Create a generator of your own, and pass it to `mask`."
    )
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    for seed in range(5):
        epochs = [*range(12), 100, 200]
        masks = drawn(Masking(ids, mask, None, seed), epochs, ids)
        assert seed != 1 or {*map(tuple, masks)} != {*known}, (
            "seed 1 gives the same masks as seed 0. No two seeds should draw the same numbers."
        )
        for epoch, numbers in zip(epochs, masks, strict=True):
            old = known.setdefault(tuple(numbers), (seed, epoch))
            told = f"epoch {epoch} of seed {seed} has the same mask as epoch {old[1]} of seed {old[0]}. "
            told += "Each epoch should have its own." if old[0] == seed else "Two runs would share their masks."
            assert old == (seed, epoch), told
    for copies, seed in ((1, 10), (1, 11), (10, 1), (10, 11), (3, 6), (4, 7)):
        for epoch, numbers in enumerate(drawn(Masking(ids, mask, copies, seed), range(copies), ids)):
            other, time = known.setdefault(tuple(numbers), (seed, epoch))
            told = (
                f"epoch {epoch} of seed {seed} with copies = {copies} has the same mask as epoch "
                f"{time} of seed {other}{' without copies' if other < 5 else ''}."
            )
            assert other == seed, told
    static = [drawn(Masking(ids, mask, 4, seed), range(3), ids) for seed in (3, 4)]
    assert static[0] != static[1], "with four copies, seed 4 gives the same masks as seed 3."
    for copies in (None, 3):
        masking = Masking(ids, mask, copies, 1)
        (first,) = drawn(masking, [2], ids)
        told = (
            "changing the tensors that `epoch` returned changes what it returns later. Draw the "
            "mask again, or return copies."
        )
        value = toy.noise_again(masking, 2)
        assert type(value) is list and len(value) == 2 and type(value[1]) is torch.Tensor, told
        assert value[1].flatten().tolist()[:4] == first, told
    for copies in (0, -1):
        told = (
            f"`Masking(ids, mask, {copies})` should raise ValueError when it is created, not only "
            "when `epoch` is called."
        )
        told += "" if copies else " `copies=0` is not None: it does not mean dynamic."
        expect.refuses(lambda copies=copies: Masking(ids, mask, copies), says=told)
    told = (
        "the generator is not on the device of `ids`, so `mask` would fail on a GPU. `torch.Generator` takes a device."
    )
    assert not toy.generator_apart(Masking), told


# 7.5


pairs_of = functools.partial(labelled_pairs, "nsp_pairs")


def paired(found: list[Pair], documents: list[list[str]]) -> None:
    """Fail unless pairs of documents without repetitions are as they should be."""
    place = {text: (d, i) for d, document in enumerate(documents) for i, text in enumerate(document)}
    assert all(a in place and b in place for a, b, _ in found), (
        "a pair contains a text that is not a sentence of the documents."
    )
    spots = [(place[a], place[b], label) for a, b, label in found]
    follows = [b == (a[0], a[1] + 1) for a, b, _ in spots]
    nexts = [yes for yes, (*_, label) in zip(follows, spots, strict=True) if label == 0]
    others = [yes for yes, (*_, label) in zip(follows, spots, strict=True) if label == 1]
    assert others or nexts, "`nsp_pairs` returns no pairs."
    assert not (others and all(others) and not all(nexts)), (
        "the labels are the wrong way round: the next sentence has label 1. Label 0 should mean that b is next."
    )
    assert others, "all pairs have label 0. Half of them should have label 1."
    assert nexts, "all pairs have label 1. Half of them should have label 0."
    ends = [(a, b, label) for a, b, label in spots if a[1] == len(documents[a[0]]) - 1]
    told = "the last sentence of a document gets the first one of another document as its next sentence."
    crossed = [b[1] == 0 and a[0] != b[0] for a, b, label in ends if label == 0]
    assert not crossed or not all(crossed), told
    told = "with label 0, b should be the sentence after a in its document, and is not."
    assert all(nexts), told
    told = "with label 1, b may be the sentence after a. Draw it from another document."
    assert not any(others), told
    told = "with label 1, b may come from the document of a. Draw it from another document."
    assert all(label == 0 or a[0] != b[0] for a, b, label in spots), told
    assert not ends, "the last sentence of a document is used as `a`, although nothing follows it."
    likely(len(nexts), len(found), 0.5, "half of the labels should be 0, and half should be 1.")

    sizes = {d: len(document) for d, document in enumerate(documents)}
    firsts = {d: size - 1 for d, size in sizes.items() if size > 1}
    total = sum(firsts.values())
    by_document = {d: 1 / len(firsts) for d in firsts}
    counts = Counter(a[0] for a, _, _ in spots)
    fit = even(counts, {d: size / total for d, size in firsts.items()}, len(spots), by_document)
    assert fit != 1, (
        "every document is drawn equally often for `a`, so sentences of short ones come too "
        "often. Draw from all sentences."
    )
    assert fit == 0, "`a` is not drawn evenly from all sentences that have a next one."
    every = {(d, i): 1 / total for d, size in firsts.items() for i in range(size)}
    told = "within a document, `a` is not drawn evenly from the sentences that have a next one."
    assert even(Counter(a for a, _, _ in spots), every, len(spots), {}) == 0, told

    whole = sum(sizes.values())
    wrong = [(a, b) for a, b, label in spots if label]
    expected: Counter[int] = Counter()
    of_documents: Counter[int] = Counter()
    for a, _ in wrong:
        full = [d for d, size in sizes.items() if size and d != a[0]]
        for d in full:
            expected[d] += sizes[d] / (whole - sizes[a[0]]) / len(wrong)  # type: ignore[assignment]
            of_documents[d] += 1 / len(full) / len(wrong)  # type: ignore[assignment]
    heads = [b[1] == 0 for _, b in wrong if sizes[b[0]] > 1]
    told = "a random b is always the first sentence of its document. Draw it evenly from all sentences."
    assert len(heads) < 60 or not all(heads), told
    counts = Counter(b[0] for _, b in wrong)
    fit = even(counts, expected, len(wrong), of_documents)
    assert fit != 1, (
        "for a random b, every document is drawn equally often, so sentences of short ones "
        "come too often. Draw from all sentences."
    )
    assert fit == 0, "a random b is not drawn evenly from the sentences of the other documents."
    shares = {(d, i): expected[d] / size for d, size in sizes.items() for i in range(size)}
    told = "within a document, a random b is not drawn evenly from all sentences."
    assert even(Counter(b for _, b in wrong), shares, len(wrong), {}) == 0, told


def repeated(nsp_pairs: Remote, rng: Remote) -> None:
    """Fail unless places are drawn, not texts."""
    found = pairs_of(nsp_pairs([["x", "y", "x", "z"], ["u", "u", "u", "v"]], 3000, rng), 3000)
    told = (
        "in the document x, y, x, z the pair of x and z never comes with label 0: z follows the second x. Texts may "
        "repeat: draw places, not texts."
    )
    assert ("x", "z", 0) in found, told
    told = (
        "as a random b, a text that occurs three times is not drawn three times as often as one that occurs once. Draw "
        "places, not texts."
    )
    others = [b for a, b, label in found if label and a in ("x", "y")]
    likely(others.count("u"), len(others), 0.75, told, sigmas=7)


def alone(nsp_pairs: Remote, rng: Remote) -> None:
    """Fail unless each pair is drawn by itself, whatever was drawn before."""
    found = pairs_of(nsp_pairs(named_documents([3, 2]), 1500, rng), 1500)
    again = [one[0] == other[0] for one, other in itertools.pairwise(found)]
    told = "{} depends on the pairs drawn before, {}. Draw each pair independently, from all sentences."
    likely(sum(again), len(again), 1 / 3, told.format("`a`", manner(again, 1 / 3)), sigmas=7)
    others = [b for a, b, label in found if label and a.startswith("document 0")]
    again = [one == other for one, other in itertools.pairwise(others)]
    likely(sum(again), len(again), 1 / 2, told.format("a random b", manner(again, 1 / 2)), sigmas=7)


def manner(again: Sequence[bool], share: float) -> str:
    """In which way a sentence comes twice in a row too rarely, or too often."""
    seldom = sum(again) < share * len(again)
    return "as in drawing without replacement" if seldom else "and comes twice in a row too often"


@check("7.5", points=2, forbids=("TextDatasetForNextSentencePrediction", *MODELS))
def nsp_pairs(nsp_pairs, lib):
    """Check that half are next and half from another document, with equal chances that come from `rng` alone."""
    make = lib(random).Random
    before = chance(lib)
    for seed, sizes in ((1, [6, 0, 3, 9, 1]), (2, [3, 8])):
        documents = named_documents(sizes)
        paired(pairs_of(nsp_pairs(documents, 3000, make(seed)), 3000), documents)
    repeated(nsp_pairs, make(3))
    alone(nsp_pairs, make(4))
    for count in (1, 7):
        pairs_of(nsp_pairs(documents, count, make(count)), count)
    found = expect.of_type(lib(probes).form(nsp_pairs, documents, 9, make(1)), str, "the types should be known")
    assert found.startswith("list[tuple["), (
        f"`nsp_pairs` returns {found}. It should return a list of tuples (a, b, label)."
    )
    documents = named_documents([4, 1, 5])
    first, again, other = (pairs_of(nsp_pairs(documents, 40, make(seed)), 40) for seed in (5, 5, 6))
    assert first == again, "two rngs with the same seed give different pairs: all chance should come from `rng`."
    assert first != other, "rngs with different seeds give the same pairs: `rng` should decide."
    assert chance(lib) == before, "a global generator is seeded or used. All chance should come from `rng`."
    going = make(5)
    draws = [pairs_of(nsp_pairs(documents, 40, going), 40) for _ in range(2)]
    assert draws[0] != draws[1], (
        "a second call with the same rng gives the same pairs: the rng is seeded again, or copied."
    )
    with world_kept(lib, "after `nsp_pairs`"):
        nsp_pairs(documents, 3, make(1))
    assert pairs_of(nsp_pairs(documents, 0, make(1)), 0) == [], "a count of 0 should give an empty list."
    for wrong in ([["a"], ["b"], []], [["a", "b", "c"], []], [["a", "b"]]):
        none = max(map(len, wrong)) < 2
        reason = "no document has two sentences" if none else "only one document has sentences"
        says = f"`nsp_pairs` should raise ValueError for the documents `{wrong}`: {reason}."
        expect.refuses(lambda wrong=wrong: nsp_pairs(wrong, 4, make(1)), says=says)


# 7.6


def nll_by_loops(logits: torch.Tensor, labels: torch.Tensor) -> list[list[float]]:
    """For each row the losses of its labelled places, one by one."""
    rows = []
    for row, wanted in zip(logits.double(), labels.tolist(), strict=True):
        rows.append([float(z.logsumexp(0) - z[y]) for z, y in zip(row, wanted, strict=True) if y != -100])
    return rows


def blanks(found: Any, predicted: list[dict[str, float]], answers: list[str]) -> list[expect.Case]:
    """What was found, the negative log-likelihood of these blanks, and what misconceptions give: one case, or none.

    Where the likelihood is 0, it must be infinity.
    """
    found = expect.number(found, "what `blanks_nll` gives")
    chances = [one.get(piece, 0.0) for one, piece in zip(predicted, answers, strict=True)]
    if not all(chances):
        told = "a right piece of probability 0, or one that is not in the dict, should cost infinity."
        assert found == math.inf, told
        return []
    wanted, product = -sum(map(math.log, chances)), math.prod(chances)
    n = max(len(chances), 1)
    guesses = {
        "this is the product of the probabilities. Sum the negative logarithms.": product,
        "this is one minus the product of the probabilities. Sum the negative logarithms.": 1 - product,
        "this is the mean over the blanks. Take their sum.": wanted / n,
        "the sign is wrong: probabilities are below 1, their logarithms below 0.": -wanted,
        "the logarithm has base 2. The result should be in nats.": wanted / math.log(2),
        "the logarithm has base 10. The result should be in nats.": wanted / math.log(10),
        "this is a perplexity. The negative log-likelihood is its logarithm.": math.exp(wanted / n),
        "this is minus the logarithm of the summed probabilities. Sum the negative logarithms.": -math.log(
            sum(chances) or 1
        ),
        "this is minus the logarithm of the mean probability. Sum the negative logarithms.": -math.log(
            sum(chances) / n or 1
        ),
        "the probabilities of the right pieces are added. Sum their negative logarithms.": sum(chances),
        "one minus the probability is summed over the blanks. Sum the negative logarithms.": n - sum(chances),
        "only the first blank counts. Sum over all blanks.": -math.log((chances or [1])[0]),
        "the most probable piece of each blank is scored. Score the right piece instead.": -sum(
            math.log(max(one.values())) for one in predicted
        ),
    }
    return [(found, wanted, guesses)]


def rated(masked_nll: Remote, logits: torch.Tensor, labels: torch.Tensor) -> expect.Case:
    """The loss that was found, the mean over all labelled places, and what misconceptions give."""
    value = masked_nll(logits, labels)
    assert type(value) is torch.Tensor, f"`masked_nll` should return a tensor, not {kind(value)}."
    assert value.shape != labels.shape, "a loss for each place is returned. It should be one number, their mean."
    assert value.numel() == 1, "`masked_nll` should return a tensor with one number."
    large = float(logits.abs().max()) > 50
    told = "with large logits, the loss is NaN. An exponential may be too large: use a log-softmax."
    assert not value.isnan().any(), told if large else "the loss is NaN, though there are labels."
    told = (
        "large logits give an infinite loss: a softmax has become 0, or an exponential is too large. Use a log-softmax."
    )
    told = told if large else "the loss is infinite, though no logit is large."
    assert not value.isinf().any(), told
    rows = nll_by_loops(logits, labels)
    losses = [loss for row in rows for loss in row]
    total, V = sum(losses), logits.size(-1)
    every = -logits.double().log_softmax(-1)
    known = labels.clamp(min=0)
    right = every.gather(-1, known[..., None])[..., 0]
    guesses = {
        "this is the mean over all places. Only those with a label count.": total / labels.numel(),
        "this is the mean of the rows' means. Every labelled place should count the same, in whichever row it is.": (
            statistics.mean(statistics.mean(row) for row in rows if row)
        ),
        "this is the sum over the places. Divide by the number of labels.": total,
        "this is the sum over the places, divided by the number of rows.": total / len(rows),
        "this is the sum over the places, divided by their number in a row.": total / labels.size(1),
        "the loss has the wrong sign. It is the mean of minus log softmax.": -total / len(losses),
        "the logits are used as if they were log-probabilities. Apply a log-softmax first.": float(
            -(logits.double().gather(-1, known[..., None])[..., 0][labels != -100]).mean()
        ),
        "the softmax is taken twice.": float(
            F.cross_entropy(logits.double().softmax(-1).flatten(0, 1), labels.flatten())
        ),
        "places without a label count, as if their label were 0.": float(right.mean()),
        "the sum is divided by the number of labels other than 0. Label 0 counts too.": total
        / max(1, int((labels > 0).sum())),
        "places with label 0 are left out. Piece 0 is a piece like any other.": sum(
            loss for loss, y in zip(losses, labels[labels != -100].tolist(), strict=True) if y
        )
        / max(1, int((labels > 0).sum())),
        "the logarithm has base 2. The result should be in nats.": total / len(losses) / math.log(2),
        "for a batch with a single label, the sum is divided by 2. Divide it by the number of labels.": (
            total / 2 if len(losses) == 1 else total / len(losses)
        ),
        "if T = V, the wrong axis of the logits is used. The pieces are on the last one.": (
            float(F.cross_entropy(logits.double(), labels)) if logits.size(1) == V else total / len(losses)
        ),
        "the mean is divided by log V.": total / len(losses) / math.log(max(V, 2)),
    }
    for least in (1e-12, 1e-9, 1e-8):
        chances = (-right[labels != -100]).exp() + least
        told = f"the probabilities are raised by {least:g}, so an improbable label costs too little. Use a log-softmax."
        guesses[told] = float(-chances.log().mean())
    return float(value), total / len(losses), guesses


def all_rated(*cases: expect.Case) -> None:
    """Fail unless each loss is the mean over its labels."""
    otherwise = "the loss is not the mean of -log softmax(logits)[label] over the places with a label."
    expect.numbers_like(cases, "the loss", otherwise)


def all_blanks(*cases: list[expect.Case]) -> None:
    """Fail unless each negative log-likelihood is that of its blanks."""
    otherwise = "the negative log-likelihood is not the sum of -log of the right pieces' probabilities."
    known = [case for some in cases for case in some]
    expect.numbers_like(known, "what `blanks_nll` gives", otherwise, 1e-5)


def all_summed(*cases: expect.Case) -> None:
    """Fail unless each pretraining loss is the sum of the two means."""
    otherwise = "the pretraining loss is not the mean over the labels plus the mean over the pairs."
    expect.numbers_like(cases, "the pretraining loss", otherwise)


def mean_of_labelled(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean of logsumexp(logits) - logits[label] over the labelled places, 0 without any."""
    known = labels != -100
    right = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return torch.where(known, logits.logsumexp(-1) - right, 0).sum() / max(1, int(known.sum()))


MASKED = Contract(
    "masked_nll(logits, labels)",
    sizes={"B": (1, 4), "T": (1, 7, 1500), "V": (1, 9, 31000)},
    logits="floats (B, T, V)",
    _pieces="ids (B, T) below V",
    _chosen="bools (B, T)",
    labels="= _pieces.masked_fill(~_chosen, -100)",
    gives="the loss: as logits (one number)",
    right=mean_of_labelled,
    learns="logits",
    low=False,
)
BOTH = Contract(
    "pretraining_loss(logits, labels, next_logits, next_labels)",
    sizes={"B": (1, 4, 300), "T": (1, 7, 1500), "V": (1, 9)},
    logits="floats (B, T, V)",
    _pieces="ids (B, T) below V",
    _chosen="bools (B, T)",
    labels="= _pieces.masked_fill(~_chosen, -100)",
    next_logits="floats (B, 2)",
    next_labels="ids (B) below 2",
    gives="the loss: as logits (one number)",
    right=lambda logits, labels, next_logits, next_labels: (
        mean_of_labelled(logits, labels) + mean_of_labelled(next_logits[:, None], next_labels[:, None])
    ),
    learns="logits next_logits",
    low=False,
)


@check("7.6", points=2, forbids=MODELS)
def losses(blanks_nll, masked_nll, pretraining_loss, lib):
    """Check a sentence's blanks by hand, the mean over labels, 0 without any, and the sum of two means."""
    promised(INFINITY)
    cat, milk = {"cat": 0.5, "dog": 0.3, "moon": 0.1}, {"milk": 0.75, "tea": 0.2}
    all_blanks(
        *(
            blanks(blanks_nll(predicted, answers), predicted, answers)
            for predicted, answers in (
                ([cat, milk], ["dog", "tea"]),
                ([cat], ["cat"]),
                ([cat, milk, cat], ["moon", "milk", "dog"]),
            )
        )
    )
    try:
        costs = [blanks_nll([cat, {"milk": 0.0, "tea": 1.0}], ["cat", answer]) for answer in ("milk", "soup")]
    except StudentError as error:
        if error.is_no_answer:
            raise
        told = "a right piece of probability 0, or one that is not in the dict, should cost infinity, and no exception."
        raise AssertionError(f"{told} It raised {error.type_name or 'nothing usable'}.") from None
    for cost, answer in zip(costs, ("milk", "soup"), strict=True):
        blanks(cost, [cat, {"milk": 0.0, "tea": 1.0}], ["cat", answer])
    assert expect.number(blanks_nll([], []), "what `blanks_nll` gives without blanks") == 0, (
        "without blanks, `blanks_nll` should give 0."
    )

    with world_kept(lib, "after `blanks_nll`"):
        blanks_nll([cat], ["cat"])
    B, T, V = 3, 6, 7
    logits, none = normal(B, T, V, seed=60), torch.full((B, T), -100)
    labels = none.clone()
    labels[0, :4], labels[1, 2], labels[2, 4:] = torch.tensor([3, 6, 0, 2]), 5, torch.tensor([1, 0])
    all_rated(
        rated(masked_nll, logits, labels),
        rated(masked_nll, 400 * logits, labels),
        rated(masked_nll, 300 * logits.flip(0), labels),
        rated(masked_nll, logits.flip(0), labels),
    )
    for one in ([2, 5], [4, 0]):  # two inputs of a kind, so that a mistake shows in both
        singles = [none.clone() for _ in range(2)]
        singles[0][1, one[0]], singles[1][0, 1] = one[1], 3
        all_rated(*(rated(masked_nll, logits, single) for single in singles))
    square = labels.clamp(max=T - 1)
    all_rated(*(rated(masked_nll, normal(B, T, T, seed=seed), square) for seed in (62, 63)))
    uniform = masked_nll(torch.zeros(B, T, V), labels)
    near(expect.number(uniform, "the loss"), math.log(V), "if all logits are equal, the loss should be log V.", {})
    empty = expect_number_or(masked_nll(logits, none))
    assert not math.isnan(empty), "a batch without a label gives NaN, the mean of nothing. It should cost 0."
    assert empty == 0, "a batch without a label should cost 0."
    told = (
        "the gradient of the loss for the logits is wrong or missing. Return a tensor that is computed from the logits."
    )
    for given in (labels, none):
        try:
            (slope,) = lib(toys).gradients(masked_nll, [logits], given)
        except StudentError as error:
            if error.is_no_answer:
                raise
            raise AssertionError(f"{told} It raised {error.type_name or 'nothing usable'}.") from None
        wanted = slope_of_nll(logits, given)
        told = "for a batch without a label, the gradient of the logits should be zeros." if given is none else told
        assert type(slope) is torch.Tensor and slope.shape == logits.shape, told
        expect.close(slope, wanted, told, 1e-4)
    told = (
        "for a batch without a label, no gradient flows back: the 0 is a new tensor. It "
        "should be computed from the logits."
    )
    assert lib(toys).flows_back(masked_nll, logits, none) is True, told
    MASKED.hold(masked_nll, lib, "layout", "device")
    next_logits, next_labels = normal(4, 2, seed=61), torch.tensor([0, 1, 1, 0])
    all_summed(
        summed(pretraining_loss, logits, labels, next_logits, next_labels),
        summed(pretraining_loss, logits.flip(0), labels, next_logits.flip(0), next_labels),
        summed(pretraining_loss, logits, none, next_logits, next_labels),
        summed(pretraining_loss, logits, none, next_logits.flip(0), next_labels),
    )
    all_summed(
        *(
            summed(pretraining_loss, logits, labels, next_logits[rows], next_labels[rows] * 0)
            for rows in ([1, 2], [0, 3])
        )
    )
    told = "the gradient of the pretraining loss for the {} logits is wrong or missing. Both losses should be learned."
    (slope,) = lib(toys).gradients(pretraining_loss, [logits], labels, next_logits, next_labels)
    expect.close(slope, slope_of_nll(logits, labels), told.format("pieces'"))
    (slope,) = lib(toys).gradients(lib(functools).partial(pretraining_loss, logits, labels), [next_logits], next_labels)
    expect.close(slope, slope_of_nll(next_logits[:, None], next_labels[:, None])[:, 0], told.format("next-sentence"))


def expect_number_or(value: Any) -> float:
    """A tensor's only number, NaN included."""
    assert type(value) is torch.Tensor and value.numel() == 1, (
        f"`masked_nll` should return a tensor with one number, not {kind(value)}."
    )
    return float(value)


def slope_of_nll(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean, softmax minus one-hot, times -1: so `toys.gradients` weighs a single number."""
    known = labels != -100
    slope = logits.softmax(-1)
    slope = slope - F.one_hot(labels.clamp(min=0), logits.size(-1))
    return -torch.where(known[..., None], slope, torch.zeros(())) / max(1, int(known.sum()))


def summed(
    pretraining_loss: Remote,
    logits: torch.Tensor,
    labels: torch.Tensor,
    next_logits: torch.Tensor,
    next_labels: torch.Tensor,
) -> expect.Case:
    """The loss that was found, the sum of the two means, and what misconceptions give."""
    batch = "the pretraining loss" if (labels != -100).any() else "the pretraining loss of a batch without a label"
    found = expect.number(pretraining_loss(logits, labels, next_logits, next_labels), batch)
    losses = [loss for row in nll_by_loops(logits, labels) for loss in row]
    hidden = sum(losses) / max(1, len(losses))
    pairs = [loss for row in nll_by_loops(next_logits[:, None], next_labels[:, None]) for loss in row]
    follows = sum(pairs) / len(pairs)
    turned = [loss for row in nll_by_loops(next_logits[:, None], 1 - next_labels[:, None]) for loss in row]
    guesses = {
        "the next-sentence loss is missing.": hidden,
        "the loss of the masked tokens is missing.": follows,
        "the mean of the two losses is taken. BERT adds them.": (hidden + follows) / 2,
        "the next-sentence losses are summed. Take their mean.": hidden + sum(pairs),
        "tokens and pairs are averaged together. Take the mean of each loss, and add the two.": (
            sum(losses) + sum(pairs)
        )
        / (len(losses) + len(pairs)),
        "the labels of the pairs are swapped: label 0 means next, and is class 0.": hidden + sum(turned) / len(turned),
        "the two losses are multiplied. BERT adds them.": hidden * follows,
        "for a batch without a label, the next-sentence loss is left out.": hidden + follows if losses else 0.0,
        "with two pairs, the wrong axis of `next_logits` is used. The classes are on the last one.": (
            hidden + float(F.cross_entropy(next_logits.double().T, next_labels))
            if len(next_labels) == 2
            else hidden + follows
        ),
    }
    return found, hidden + follows, guesses


# 7.7


def head_state(V: int, d: int, seed: int) -> dict[str, torch.Tensor]:
    """Random weights for the new parts of a head."""
    shapes = {"dense.weight": (d, d), "dense.bias": (d,), "norm.weight": (d,), "norm.bias": (d,), "bias": (V,)}
    return {name: 0.7 * normal(*shape, seed=seed + place) for place, (name, shape) in enumerate(shapes.items())}


def new_head(
    MLMHead: Remote, lib: Library, V: int, d: int, seed: int
) -> tuple[Remote, Remote, dict[str, torch.Tensor]]:
    """A head, its embedding and their weights; "table" is the embedding's."""
    table = normal(V, d, seed=seed + 50)
    embedding = lib(nn).Embedding(V, d)
    embedding.load_state_dict({"weight": table})
    head = MLMHead(embedding)
    assert type(head) is Remote, f"`MLMHead` should be an nn.Module, not {kind(head)}."
    own = head.state_dict()
    assert type(own) is dict, "`MLMHead` has no state_dict: it should be an nn.Module."
    state = head_state(V, d, seed)
    for name, value in state.items():
        part, _, last = name.rpartition(".")
        told = f"the head has no `{name}`: its `{part}` is made without a {last}."
        assert name in own or not any(one.startswith(f"{part}.") for one in own), told
        assert name in own, f"the head has no `{name}`. Its parts must have the names that the docstring gives."
        expect.tensor(own[name], tuple(value.shape), f"`{name}` of the head")
    assert not own["bias"].any(), "`bias` does not start at zero."
    kept = embedding.state_dict()["weight"]
    assert torch.equal(kept, table), "the head changes the numbers of the embedding it was given."
    head.load_state_dict(state, False)
    return head, embedding, state | {"table": table}


def scored(state: Mapping[str, torch.Tensor], x: torch.Tensor, eps: float = 1e-12) -> torch.Tensor:
    """The logits of a head with these weights."""
    h = x @ state["dense.weight"].T + state["dense.bias"]
    h = h * 0.5 * (1 + torch.erf(h / math.sqrt(2)))
    h = h - h.mean(-1, keepdim=True)
    h = h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * state["norm.weight"] + state["norm.bias"]
    return h @ state["table"].T + state["bias"]


def heads_right(head: Remote, state: Mapping[str, torch.Tensor], x: torch.Tensor) -> None:
    """Fail unless the logits are those of a head with these weights."""
    V, d = state["table"].shape
    h = F.linear(x, state["dense.weight"], state["dense.bias"])

    def normed(values: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(values, (d,), state["norm.weight"], state["norm.bias"], 1e-12)

    def out(values: torch.Tensor) -> torch.Tensor:
        return F.linear(values, state["table"], state["bias"])

    unbiased = scored({**state, "bias": torch.zeros(V)}, x)
    found, wanted = expect.floats(head(x), (*x.shape[:-1], V), "the logits"), scored(state, x)
    if not expect.near(found, wanted, 1e-4, 1e-4):
        told = "a second call with the same states gives other logits. The head has no dropout."
        assert expect.near(expect.floats(head(x), (*x.shape[:-1], V), "the logits"), found, 1e-4, 1e-4), told
    expect.like(
        found,
        wanted,
        "the logits are not E norm(gelu(dense(x))) + bias, with E the weight of the given embedding.",
        {
            "the gelu is the approximation by tanh. Use the exact one.": lambda: out(
                normed(F.gelu(h, approximate="tanh"))
            ),
            "the bias of the logits is not used.": unbiased,
            "the norm comes before the gelu. It should come after it.": lambda: out(F.gelu(normed(h))),
            "the norm comes before `dense`. It should come after the gelu.": lambda: out(
                F.gelu(F.linear(normed(x), state["dense.weight"], state["dense.bias"]))
            ),
            "the LayerNorm is missing between the GELU and the scores.": lambda: out(F.gelu(h)),
            "there is no gelu between `dense` and the norm.": lambda: out(normed(h)),
            "this is a ReLU. BERT has a gelu.": lambda: out(normed(h.relu())),
            "this is a tanh, as in the pooler. Here BERT has a gelu.": lambda: out(normed(h.tanh())),
            "`dense` is not used.": lambda: out(normed(F.gelu(x))),
            "the states are added to the output of the gelu. This head has no residual connection.": lambda: out(
                normed(F.gelu(h) + x)
            ),
            "the embedding is transposed: the logit of a piece is its row times the state, also if V = d.": lambda: (
                normed(F.gelu(h)) @ state["table"] + state["bias"] if d == V else scored(state, x)
            ),
            "softmax is applied. The head should return logits.": lambda: scored(state, x).softmax(-1),
            "log-probabilities are returned. The head should return logits.": lambda: scored(state, x).log_softmax(-1),
            "the logits are divided by the root of d. They should not be scaled.": lambda: (
                unbiased / math.sqrt(d) + state["bias"]
            ),
            "the rows of the embedding are normalized. Use them as they are.": lambda: F.linear(
                normed(F.gelu(h)), F.normalize(state["table"], dim=-1), state["bias"]
            ),
        },
    )


@check("7.7", points=2, forbids=MODELS)
def mlm_head(MLMHead, lib):
    """Check for dense, gelu, norm, and the embedding itself as output matrix."""
    V, d, toy = 37, 12, lib(toys)
    head, embedding, state = new_head(MLMHead, lib, V, d, 70)
    head.eval()
    x = normal(2, 5, d, seed=71)
    heads_right(head, state, x)
    with model_kept(lib, head, "after a call of the head"):
        head(x)
    head.train()
    told = "in training mode the logits differ from those in evaluation mode. The head has no dropout."
    expect.close(expect.floats(head(x), (2, 5, V), "the logits"), scored(state, x), told)
    tiny = state | {"dense.weight": 1e-4 * state["dense.weight"], "dense.bias": 1e-4 * state["dense.bias"]}
    head.load_state_dict({name: value for name, value in tiny.items() if name != "table"}, False)
    told = "if the input of the norm has very small entries, the logits are wrong: the norm's eps should be 1e-12."
    expect.close(expect.floats(head(x), (2, 5, V), "the logits"), scored(tiny, x), told, 1e-3)
    head.load_state_dict({name: value for name, value in state.items() if name != "table"}, False)

    moved = state["table"].clone()
    moved[4] += 1
    embedding.weight.data.copy_(moved)
    now = expect.floats(head(x), (2, 5, V), "the logits")
    told = (
        "if the embedding changes, the logits stay the same: the head has a copy. Tied means "
        "one and the same parameter."
    )
    assert not expect.near(now, scored(state, x), 1e-5, 1e-5), told
    told = "a change of one row of the embedding should move that piece's logit, and no other."
    expect.close(now, scored(state | {"table": moved}, x), told)
    told = (
        "the head replaces the parameter of the embedding. An optimizer that holds the old "
        "one no longer moves the table."
    )
    assert not toy.replaces_parameters(MLMHead, embedding), told
    assert all(toy.learning(head)), (
        "a parameter of the head or of the embedding does not learn. All should, also `bias`."
    )
    count = toy.numel_beyond(head, embedding)
    told = (
        "the weight of the head is a second parameter with the memory of the embedding's. An optimizer that gets "
        "both moves the table twice. Use `embedding.weight` itself."
    )
    assert not toy.on_the_same_memory(head, embedding), told
    told = "`bias` is not a parameter of the head. It should learn, and a buffer does not."
    assert count != d * d + d + 2 * d, told
    told = "the head has other new parameters than `dense`, `norm` and `bias`."
    assert count == d * d + d + 2 * d + V, told
    slope = toy.slope_of_table(head, x, embedding)
    told = (
        "the gradient of the logits for the embedding is wrong or missing. The embedding "
        "should learn as output matrix too."
    )
    expect.close(slope, slope_of_scores(state | {"table": moved}, x), told, 1e-3)
    (slope,) = toy.gradients(head, [x])
    (wanted,) = toys.gradients(lambda x: scored(state | {"table": moved}, x), [x])
    expect.close(slope, wanted, "the gradient of the logits for the states is wrong or missing.", 1e-3)
    sentence = "for states that are not contiguous in memory, the head fails or gives wrong logits."
    try:
        found = toy.strided(head, x)
    except StudentError as error:
        if error.is_no_answer:
            raise
        raise AssertionError(f"{sentence} It raised {error.type_name or 'nothing usable'}.") from None
    expect.close(expect.floats(found, (2, 5, V), "the logits"), scored(state | {"table": moved}, x), sentence)
    head, _, state = new_head(MLMHead, lib, 6, 6, 72)
    heads_right(head, state, normal(2, 5, 6, seed=73))


def slope_of_scores(state: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The gradient of the fixed sum of `toys.slope_of_table` for the table."""
    table = state["table"].clone().requires_grad_()
    with torch.enable_grad():
        toys.backward(scored({**state, "table": table}, x))
    assert table.grad is not None
    return table.grad


# 7.8

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "dog",
    "play",
    "run",
    "##s",
    "##ing",
    "##er",
    "##ed",
    "milk",
    "likes",
    "in",
    "a",
    "cup",
    "sees",
]


def asked(text: str, pieces: Sequence[str]) -> list[int]:
    """The ids of a text of known words, some of which end in `##s` or the like."""
    found = [pieces.index("[CLS]")]
    for word in text.split():
        cut = library_pieces(word, {piece: place for place, piece in enumerate(pieces)}) if word[0] != "[" else [word]
        found += [pieces.index(piece) for piece in cut]
    return [*found, pieces.index("[SEP]")]


def blank_lists(value: Any, count: int, k: int) -> list[list[tuple[str, float]]]:
    """For each mask the pieces and their probabilities."""
    assert type(value) is list, f"`fill_mask` should return a list, not {kind(value)}."
    flat = count == 1 and len(value) == k and all(type(one) is list and len(one) == 2 for one in value)
    if flat and type(value[0][0]) is str:
        raise AssertionError(
            "for a text with one mask, the inner list is returned alone. Return a list with one list in it."
        )
    one = len(value) == 1 and type(value[0]) is list
    told = "the tuples of all masks are in one list. Return a list for each mask."
    assert not one or count < 2 or len(value[0]) != count * k, told
    assert len(value) != 1 or count < 2, "only one of several masks is filled. Return a list for each mask."
    assert len(value) == count, (
        f"a text with {count} masks gives {len(value)} lists. There should be one list for each mask."
    )
    lists = []
    for row in value:
        assert type(row) is list and len(row) == k, f"with k = {k}, each mask should have a list of {k} tuples."
        for item in row:
            expect.items(item, 2, "the list of a mask should hold tuples (piece, probability)")
            told = "a piece is returned as its id. Return its text in the vocabulary."
            assert type(item[0]) is not int and type(item[0]) is not torch.Tensor, told
            assert type(item[0]) is str, f"a piece should be a text, not {kind(item[0])}."
        lists.append([(piece, expect.number(chance, "a probability")) for piece, chance in row])
    return lists


def filled(
    fill_mask: Remote, lib: Library, model: Remote, ours: Any, pieces: Sequence[str], text: str, k: int | None
) -> None:
    """Fail unless the blanks of `text` are filled as `ours`, the same model here, says."""
    ids = torch.tensor([asked(text, pieces)])
    places = [t for t, number in enumerate(ids[0].tolist()) if number == pieces.index("[MASK]")]
    with torch.no_grad():
        logits = ours.eval()(input_ids=ids).logits[0]
    chances, many = logits.softmax(-1), 5 if k is None else k
    tokenizer = lib(tiny_bert).tokenizer(list(pieces))
    mode = read(model.training)
    value = fill_mask(model, tokenizer, text) if k is None else fill_mask(model, tokenizer, text, k)
    told = "the model is left in another mode. Remember `model.training` before the call, and restore it afterwards."
    assert read(model.training) is mode, told
    lists = blank_lists(value, len(places), many)
    in_order(lists, ours, ids, places, pieces)
    for found, t in zip(lists, places, strict=True):
        right = chances[t].sort(descending=True)
        names = [pieces[number] for number in right.indices[:many].tolist()]
        wanted = right.values[:many].tolist()
        numbers = [chance for _, chance in found]
        if many < len(pieces) and many > 1:
            told = "the probabilities of the best sum to one, as in a softmax over them alone. Take it over all pieces."
            assert abs(sum(numbers) - 1) > 1e-4, told
        said = [piece for piece, _ in found]
        told = "the pieces are not sorted by probability. The most probable one should be the first."
        assert numbers == sorted(numbers, reverse=True), told
        told = "the pieces lose their `##`, or are decoded to another text. Return them as they are in the vocabulary."
        bare = [name.removeprefix("##") for name in names]
        assert said == names or [one.strip().removeprefix("##") for one in said] != bare, told
        if said != names or not all(
            math.isclose(one, other, rel_tol=1e-3) for one, other in zip(numbers, wanted, strict=True)
        ):
            with torch.no_grad():
                alone = ours(input_ids=ids[:, 1:-1]).logits[0, t - 1].softmax(-1).sort(descending=True).values[:many]
            told = "the text is read without [CLS] and [SEP]. The tokenizer adds them by default."
            assert not expect.near(alone, torch.tensor(numbers), 1e-3, 1e-5), told
            misread(numbers, said, logits, t, pieces, many)
            plain = [pieces[number] for number in right.indices.tolist() if pieces[number][0] != "["]
            told = "special pieces, such as [SEP], are left out. They are pieces of the vocabulary too."
            assert said != plain[:many] or plain[:many] == names, told
        assert said == names, (
            f"for the text `{text}` with k = {many}, the pieces are not the {many} most probable ones at the mask."
        )
        told = "the probabilities are not those of a softmax over all pieces at the mask."
        expect.close(torch.tensor(numbers), torch.tensor(wanted), told, 1e-3)
        told = "the probabilities are rounded, or too imprecise. Return what the softmax gives, as floats."
        assert all(math.isclose(*pair, rel_tol=2e-5) for pair in zip(numbers, wanted, strict=True)), told


def in_order(
    lists: list[list[tuple[str, float]]], ours: Any, ids: torch.Tensor, places: list[int], pieces: Sequence[str]
) -> None:
    """Fail if the masks are filled one after another, or if their lists are in another order, which is said."""
    best = [row[0] for row in lists]
    now, alone, turn = ids.clone(), list[tuple[str, float]](), list[tuple[str, float]]()
    for source, found in ((ids, alone), (now, turn)):
        for t in places:
            with torch.no_grad():
                chance, number = ours(input_ids=source).logits[0, t].softmax(-1).max(0)
            found.append((pieces[int(number)], float(chance)))
            if source is now:
                now[0, t] = number

    def same(guess: list[tuple[str, float]]) -> bool:
        pairs = zip(best, guess, strict=True)
        return all(a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=1e-3) for a, b in pairs)

    told = "the masks are filled one after another. Read all of them from the text as it is given."
    assert same(alone) or not same(turn), told
    told = "the lists are not in the order of the masks in the text."
    assert same(alone) or len(lists) == 1 or not same(sorted(alone, key=lambda one: -one[1])), told


def misread(numbers: list[float], said: list[str], logits: torch.Tensor, t: int, pieces: Sequence[str], k: int) -> None:
    """Fail with the reason for which other numbers than those at the mask were given, if it is known."""

    def fits(values: torch.Tensor) -> bool:
        best = values.sort(descending=True).values[:k]
        return len(best) == k and expect.near(best, torch.tensor(numbers), 1e-3, 1e-3)

    told = {
        "these are logits. Take their softmax.": logits[t],
        "these are log-probabilities. Return the probabilities.": logits[t].log_softmax(-1),
        "the softmax runs over the places, not over the pieces.": logits.softmax(0)[t],
        "each piece has its own sigmoid. One softmax over all pieces is needed.": logits[t].sigmoid(),
    }
    for sentence, values in told.items():
        assert not fits(values), sentence
    for other in range(len(logits)):
        told_where = (
            "the pieces are those of another place. Count places in the ids that the model "
            "reads, which begin with [CLS]."
        )
        assert other == t or not fits(logits[other].softmax(-1)), told_where


@check("7.8", points=2, forbids=("pipeline", "FillMaskPipeline"))
def fill_mask(fill_mask, lib):
    """Check for the k best pieces of each mask, in evaluation mode, with the mode restored."""
    toy, sizes = lib(tiny_bert), {"dropout": 0.3}
    model, ours = toy.masked(PIECES, sizes, 80), tiny_bert.masked(PIECES, sizes, 80)
    tokenizer = toy.tokenizer(PIECES)
    first = fill_mask(model, tokenizer, "the [MASK] likes milk")
    told = "the model is left in another mode. Remember `model.training` before the call, and restore it afterwards."
    assert read(model.training) is True, told
    second = fill_mask(model, tokenizer, "the [MASK] likes milk")
    if type(first) is list and first != second:
        model.eval()
        once = fill_mask(model, tokenizer, "the [MASK] likes milk")
        model.eval()
        twice = fill_mask(model, tokenizer, "the [MASK] likes milk")
        assert once == twice, (
            "two calls for one text differ, also for a model that is in evaluation mode: the pieces are drawn, or your "
            "code switches dropout on. Return the most probable pieces, in evaluation mode."
        )
        raise AssertionError("two calls for one text differ: dropout is on. Use the model in evaluation mode.")
    model.train()
    lib(toys).leave_gradients(model)
    with model_kept(lib, model, "after `fill_mask`"):
        fill_mask(model, tokenizer, "the [MASK] likes milk")
        told = (
            "the model is left in another mode. Remember `model.training` before the call, and restore it afterwards."
        )
        assert read(model.training) is True, told
    lib(toys).forget_gradients(model)
    for text, k in (
        ("the dogs [MASK] in a cup", None),
        ("[MASK] likes the [MASK]", 12),
        ("a cat plays in the cups [MASK]", 1),
        ("the cat sees a dog", 4),
    ):
        filled(fill_mask, lib, model, ours, PIECES, text, k)
    told = "for another model with the same text, the result of the first model is returned again."
    value = fill_mask(toy.masked(PIECES, sizes, 82), tokenizer, "the [MASK] likes milk")
    assert type(value) is not list or value != first, told  # without a list, another sentence is true
    model.eval()
    filled(fill_mask, lib, model, ours, PIECES, "players [MASK] the milk", 2)
    filled(fill_mask, lib, model, ours, PIECES, "the [MASK]", len(PIECES))
    state = model.state_dict()
    assert all(lib(toys).learning(model)), (
        "after the call, the model's parameters are frozen. Leave the model as you found it."
    )
    told = "after the call, the model's weights have other values or another dtype. Leave the model as you found it."
    same = {name: value.dtype for name, value in state.items()} == {k: v.dtype for k, v in ours.state_dict().items()}
    assert same and expect.agree(state, ours.state_dict()), told
    told = "after the call, the gradients that the model had are gone or changed. Leave the model as you found it."
    assert lib(toys).keeps_gradients(fill_mask, model, tokenizer, "the [MASK] likes milk"), told
    has_form(lib, "list[list[tuple[str, float]]]", "what `fill_mask` gives", fill_mask, model, tokenizer, "a [MASK]")
    other = [PIECES[0], *PIECES[5:], *PIECES[1:5]]
    model, ours = toy.masked(other, sizes, 81), tiny_bert.masked(other, sizes, 81)
    value = fill_mask(model, toy.tokenizer(other), "the [MASK] likes milk")
    told = "with another vocabulary the mask is not found: its id is `tokenizer.mask_token_id`, not always 4."
    assert type(value) is list and len(value) == 1, told
    filled(fill_mask, lib, model, ours, other, "the [MASK] likes milk", None)
    filled(fill_mask, lib, model, ours, other, "the [MASK] likes milk", 3)


# 7.9

FACTS: dict[str, tuple[float, float, dict[float, str]]] = {  # key: number, tolerance, wrong numbers that people give
    "large_hidden": (
        1024,
        0,
        {768: "this is BERT-base. BERT-large is wider.", 4096: "this is the feed-forward width."},
    ),
    "base_millions": (
        110,
        0.9,
        {340: "this is BERT-large.", 110e6: "give the number in millions.", 117: "this is OpenAI's GPT."},
    ),
    "chosen_percent": (
        15,
        0,
        {
            0.15: "give the number in percent.",
            12: "this is the share of all tokens that become [MASK]. More are chosen.",
            80: ("this is the share of the chosen tokens that become [MASK]. The share that is chosen is asked for."),
        },
    ),
    "all_masked_percent": (
        15,
        0,
        {
            100: "table 8 gives shares of the chosen tokens. The share of all tokens is asked for.",
            80: "table 8 gives shares of the chosen tokens. The share of all tokens is asked for.",
            0.15: "give the number in percent.",
        },
    ),
    "mrpc_points": (
        9.0,
        0.05,
        {
            11.6: "this is a ratio in percent. Points are a difference.",
            10.4: "this is a ratio in percent. Points are a difference.",
            9.2: "both rows should be without next-sentence prediction.",
            0.09: "give the number in points, from 0 to 100.",
        },
    ),
    "squad_points": (
        10.1,
        0.05,
        {
            13.0: "this is a ratio in percent. Points are a difference.",
            11.5: "this is a ratio in percent. Points are a difference.",
            10.7: "both rows should be without next-sentence prediction.",
            3.0: "this is the loss in the row with a BiLSTM. Take the row without it.",
            0.101: "give the number in points, from 0 to 100.",
        },
    ),
    "qnli_points": (
        3.5,
        0.05,
        {
            4.0: "this is a ratio in percent. Points are a difference.",
            4.1: "the row in question still masks; it only lacks the next-sentence task.",
            0.6: ("this is what reading left to right loses beyond leaving out NSP. Compare with BERT-base instead."),
            0.035: "give the number in points, from 0 to 100.",
        },
    ),
    "warmup_percent": (
        1,
        0,
        {10: "10,000 of 1,000,000 steps are less than 10 percent.", 0.01: "give the number in percent."},
    ),
    "large_chips": (
        64,
        0,
        {
            16: ("these are the Cloud TPUs of BERT-large, or the chips of BERT-base. Count the chips of BERT-large."),
            4: "these are the Cloud TPUs of BERT-base. Count the chips of BERT-large.",
        },
    ),
}


def groups_of(decay_groups: Remote, lib: Library, model: Remote, weight_decay: float) -> dict[str, list[Any]]:
    """For each parameter the decays of its groups."""
    found = lib(toys).decays(decay_groups, model, weight_decay)
    assert type(found) is dict, f"`decay_groups` should return a list of dicts, not {kind(found)}."
    told = "`decay_groups` should return a list of dicts, one for each group, not a dict."
    assert "dict" not in found, told
    told = 'a group has no "{}". Give each group "params" and "weight_decay": the default decay of AdamW is not 0.'
    assert "keys" not in found, told.format(found.get("keys", [""])[0])
    told = "the parameters of a group are in an iterator, which can be read only once. Give them in a list."
    assert "once" not in found, told
    refused = str(found.get("refused", [""])[0])
    told = "a parameter is in more than one group. Each should be in exactly one."
    assert "more than one parameter group" not in refused, told
    assert not refused, f"the groups cannot be given to torch.optim.AdamW. It raised {refused}."
    return found


def spared(found: Mapping[str, list[float]], weight_decay: float, frozen: Sequence[str] = ()) -> None:
    """Fail unless each parameter of `toys.sharing` is in the right group. Its names tell nothing of what parts are."""
    told = "the groups hold a parameter that the model does not have."
    assert not found.get("strangers"), told
    twice = [name for name, values in found.items() if len(values) > 1]
    assert "0.weight" not in twice, "the matrix that two parts share is in the groups twice: it would decay twice."
    assert not twice, "a parameter is in two groups."
    missing = [name for name, values in found.items() if not values and name not in frozen]
    told = "a parameter that learns is in no group: the optimizer would never move it."
    assert not missing, told
    assert not any(found[name] for name in frozen), "a frozen parameter is in a group. It does not learn."
    decays = {name: values[0] for name, values in found.items() if values}
    norms = [name for name in ("1.weight", "3.weight", "4.weight") if name in decays]
    matrices = [name for name in ("0.weight", "2.weight", "5.weight") if name in decays]
    assert len({*decays.values()}) > 1 or weight_decay == 0, (
        "all parameters have the same decay. Biases and norms should have decay 0, all others weight_decay."
    )
    assert all(decays[name] == 0 for name in decays if name.endswith("bias")), (
        "a bias has weight decay. Its decay should be 0."
    )
    told = "the weight of a norm has weight decay. It has one dimension, so its decay should be 0, whatever its name."
    assert all(decays[name] == 0 for name in norms), told
    told = "a parameter without dimensions, a single number, has weight decay. Its decay should be 0."
    assert decays.get("scale", 0) == 0, told
    parts = {"0": "an embedding", "2": "a linear layer", "5": "a convolution"}
    for name in matrices:
        told = f"the weight of {parts[name.partition('.')[0]]} decays"
        assert decays[name] != 0 or weight_decay == 0, f"{told} not at all. Only biases and norms have decay 0."
        assert math.isclose(decays[name], weight_decay), f"{told} at another rate than weight_decay."
    told = "a matrix with a single row does not have decay weight_decay. It has two dimensions, so it should."
    assert "start" not in decays or math.isclose(decays["start"], weight_decay), told


@check("7.9", points=3, forbids=("get_parameter_names", *MODELS))
def facts(decay_groups, step_facts, bert_facts, lib):
    """Check which weights decay, what a step reads, and what the paper says."""
    toy = lib(toys)
    model = toy.sharing(9, 6)
    toy.leave_gradients(model)
    with model_kept(lib, model, "after `decay_groups`"):
        groups = groups_of(decay_groups, lib, model, 0.01)
    spared(groups, 0.01)
    model = toy.sharing(7, 4)
    model[2].requires_grad_(False)
    model[1].requires_grad_(False)
    frozen = ["1.weight", "1.bias", "2.weight", "2.bias"]
    spared(groups_of(decay_groups, lib, model, 0.3), 0.3, frozen)
    named = groups_of(decay_groups, lib, toy.Misnamed(3), 0.2)
    for name in ("bias_table", "LayerNorm"):
        told = (
            f"a matrix called `{name}` does not decay at the rate weight_decay. Its two "
            "dimensions decide, not its name."
        )
        assert len(named.get(name, [])) == 1 and math.isclose(named[name][0], 0.2), told
    told = "`decay_groups` changes which parameters learn. It should leave the model as it is."
    assert toy.learning(model[2]) == [False, False] and toy.learning(model[5]) == [True, True], told

    with world_kept(lib, "after `step_facts`"):
        steps(step_facts, 256, 512, 1_000_000, 3.3e9)
    steps(step_facts, 3, 7, 50, 210)
    with world_kept(lib, "after `bert_facts`"):
        known = bert_facts()
    assert type(known) is dict, f"`bert_facts` should return a dict, not {kind(known)}."
    for key, (wanted, tolerance, wrong) in FACTS.items():
        assert key in known, f"`{key}` is missing in `bert_facts`."
        found = expect.number(known[key], f"`{key}`")
        for number, sentence in wrong.items():
            assert not math.isclose(found, number, rel_tol=1e-3), f"`{key}`: {sentence}"
        assert abs(found + wanted) > tolerance + 1e-9, (
            f"`{key}` has the wrong sign. Give what is lost as a number above 0."
        )
        assert abs(found - wanted) <= tolerance + 1e-9, f"`{key}` is not what the paper says. Look it up again."
    told = "`bert_facts` has keys that were not asked for."
    assert {*known} == {*FACTS}, told


def steps(step_facts: Remote, sequences: int, length: int, count: int, words: float) -> None:
    """Fail unless tokens and epochs are right."""
    value = step_facts(sequences, length, count, words)
    expect.items(value, 2, "`step_facts` should return two numbers")
    tokens, epochs = (
        expect.number(item, f"the {what}") for item, what in zip(value, ("tokens", "epochs"), strict=True)
    )
    right = sequences * length
    near(
        tokens,
        right,
        "the tokens of a step should be sequences times length, and they are not.",
        {
            "the tokens are rounded, as in the paper. Give the exact number.": 128_000,
            "these are the tokens of all steps. One step is asked for first.": right * count,
            "these are the sequences, not their tokens.": sequences,
            "these are the chosen tokens. All are read.": 0.15 * right,
            "epochs and tokens are swapped: the tokens come first.": right * count / words,
        },
        1e-9,
    )
    near(
        epochs,
        right * count / words,
        f"for {count:,} steps of {sequences} sequences of {length} tokens, the epochs should be the tokens of all "
        "steps divided by the words of the corpus, and they are not.",
        {
            "the epochs are rounded. Round when you print.": float(round(right * count / words)),
            "the epochs are rounded to one digit. Round when you print.": round(right * count / words, 1),
            "the epochs are rounded to two digits. Round when you print.": round(right * count / words, 2),
            "the epochs are cut to a whole number. Divide with `/`.": float(right * count // words),
            "the epochs are those of the rounded 128,000 tokens.": 128_000 * count / words,
            "the fraction is upside down: divide the tokens of all steps by the words of the corpus.": words
            / (right * count),
            "the length is missing: sequences are counted as if they were words.": sequences * count / words,
            "the tokens of one step are counted. Count those of all steps.": right / words,
            "only the chosen tokens are counted. All are read.": 0.15 * right * count / words,
        },
        1e-6,
    )


# 7.10


def copies_most(copier: Remote, losses: dict[str, list[list[float]]]) -> None:
    """Fail unless the row with the largest gap is named, with its gap."""
    name, gap = expect.items(copier(losses), 2, "`copier` should return a name and a gap")
    expect.of_type(name, str, "the first result of `copier` should be the name of a row")

    def largest(of: Callable[[list[float]], float], over: Callable[[list[float]], float] = statistics.fmean) -> str:
        return max(losses, key=lambda row: over([of(seed) for seed in losses[row]]))

    of_all = "Rows have different numbers of seeds here, and a row's mean is over all of its own."
    differ = len({len(seeds) for seeds in losses.values()}) > 1
    expect.explained(
        name,
        largest(lambda seed: seed[2] - seed[1]),
        f"another row than `{name}` has the largest mean gap between its losses at random and at kept tokens."
        + f" {of_all}" * differ,
        {
            "the row is the one with the lowest loss at kept tokens. Its gap need not be the largest.": largest(
                lambda seed: -seed[1]
            ),
            "the row is the one with the largest ratio of the two losses. The gap is their difference.": largest(
                lambda seed: seed[2] / seed[1]
            ),
            "the row is the one with the highest loss at random tokens. Its gap need not be the largest.": largest(
                lambda seed: seed[2]
            ),
            "the gap is taken the wrong way round.": largest(lambda seed: seed[1] - seed[2]),
            "the gap is that between random tokens and [MASK]. Take random and kept tokens.": largest(
                lambda seed: seed[2] - seed[0]
            ),
            "the gap of a single seed decides. It should be the mean over seeds.": largest(
                lambda seed: seed[2] - seed[1], max
            ),
            "gaps are added over seeds. Rows may have different numbers of seeds: take means.": largest(
                lambda seed: seed[2] - seed[1], math.fsum
            ),
        },
    )
    mean = statistics.fmean([seed[2] - seed[1] for seed in losses[name]])
    told = "the row is right, but the gap is not its mean over the seeds."
    if type(gap) is float and math.isclose(gap, mean, rel_tol=5e-3):
        told = "the row is right, but its gap has too few digits. Compute it in full precision."
    expect.number_like(
        gap,
        mean,
        "the gap",
        told,
        {"the row is right, but its gap has the wrong sign.": -mean},
    )


def rows_of_losses(some: random.Random, rows: int, seeds: int = 5) -> dict[str, list[list[float]]]:
    """Losses of rows with names and numbers of seeds of their own."""
    return {
        f"row {some.randint(100, 999)}{'abcdefgh'[row]}": [
            [some.uniform(1, 4), some.uniform(0.2, 5), some.uniform(3, 9)] for _ in range(some.randint(1, seeds))
        ]
        for row in range(rows)
    }


@results_check("7.10", points=4, source=pretraining, notebook=pretraining.NOTEBOOK, reading=2)
def copier(copier):
    """The runs by their files; the row with the largest mean gap, among rows that other rules would choose."""
    some = expect.draw(710)
    table = {
        "a": [[2.9, 0.1, 0.5]],
        "h": [[3, 0.6, 5]],
        "b": [[4, 6, 9.5]],
        "c": [[5, 6.5, 5]],
        "d": [[0.5, 4, 8]],
        "e": [[3, 2, 7]],
    }
    copies_most(copier, table | {"f": [[3, 2, 8], [3, 2, 3]], "g": [[3, 2, 5]] * 3})
    copies_most(copier, {"x": [[2, 2, 5]] * 4, "y": [[2, 2, 5.5], [2, 2, 6]], "z": [[2, 2, 7], [2, 2, 3]]})
    for rows in (1, 2, 4, 6, 8):
        copies_most(copier, rows_of_losses(some, rows))


# 7.S1


def some_words(B: int, T: int, seed: int) -> torch.Tensor:
    """Words of one to four pieces, some of which have none, between special tokens, and with pads in some rows."""
    some, rows = expect.draw(seed), []
    for b in range(B):
        row, word = [-1], 0
        while len(row) < T - 1 - (b % 3) * T // 5:
            row += [word] * some.randint(1, 4)
            word += some.choice((1, 1, 1, 2))
        row = row[: T - 1]
        rows.append(row + [-1] * (T - len(row)))
    return torch.tensor(rows)


def words_of(value: Any, word_ids: torch.Tensor) -> torch.Tensor:
    """What is chosen, of the shape of `word_ids`."""
    found = expect.tensor(value, tuple(word_ids.shape), "what is chosen")
    assert found.dtype == torch.bool, f"what is chosen should be booleans, not {str(found.dtype)[6:]}."
    assert not found[word_ids < 0].any(), "special tokens or pads are chosen. A place whose word is -1 is never chosen."
    return found


def whole_words(found: torch.Tensor, word_ids: torch.Tensor, p: float) -> None:
    """Fail unless words are chosen whole, and each as often as `p` says, whatever its length."""
    assert found.any() or p == 0, "no word is chosen."
    counts: dict[int, list[int]] = {}  # by how many pieces: words, and chosen ones
    for row, ids in zip(found.tolist(), word_ids.tolist(), strict=True):
        fates: dict[int, list[bool]] = {}
        for yes, word in zip(row, ids, strict=True):
            if word >= 0:
                fates.setdefault(word, []).append(yes)
        for fate in fates.values():
            assert len({*fate}) == 1, "only some pieces of a word are chosen. Choose all of them or none."
            row_of = counts.setdefault(len(fate), [0, 0])
            row_of[0] += 1
            row_of[1] += fate[0]
    long, short = max(counts), min(counts)
    rates = {size: counts[size][1] / counts[size][0] for size in (short, long)}
    told = "words of many pieces are chosen more often. Each word should have the same chance, short or long."
    assert p in (0, 1) or rates[long] < 1.7 * rates[short] or counts[short][1] < 30, told
    for words, chosen in counts.values():
        likely(chosen, words, p, "the share of chosen words is not p.")


@stretch("7.S1", forbids=("DataCollatorForWholeWordMask", *MODELS), draws=True)
def choose_words(choose_words, lib):
    """Whole words, each with the same chance, within rows, across rows and in all; one generator."""
    toy, word_ids = lib(toys), some_words(300, 60, 7)
    ids = (torch.arange(40) // 2).repeat(200, 1)
    chosen = words_of(choose_words(ids, 0.3, toy.seeded(3)), ids)[:, ::2].float()
    assert chosen.any(), "with p = 0.3, no word is chosen."
    assert not chosen.all(), "with p = 0.3, every word is chosen."
    told = "the same words are chosen in every row. Word 3 of one row is not word 3 of another."
    assert chosen.mean(0).var() < 0.02, told
    told = (
        "every row has the same number of chosen words. Each word should be chosen "
        "independently, so the number should vary."
    )
    assert chosen.sum(1).var() > 1, told
    totals = {int(words_of(choose_words(ids[:20], 0.3, toy.seeded(n)), ids[:20]).sum()) for n in range(6)}
    assert len(totals) > 1, (
        "every call chooses the same number of words. Each word should be chosen "
        "independently, so the number should vary."
    )
    whole_words(words_of(choose_words(word_ids, generator=toy.seeded(1)), word_ids), word_ids, 0.15)
    for p in (0.4, 0.0, 1.0):
        whole_words(words_of(choose_words(word_ids, p, toy.seeded(2)), word_ids), word_ids, p)
    for row in ([[-1, -1, -1]], [[-1]], [[0]], [[2, 2]]):
        ids = torch.tensor(row)
        assert words_of(choose_words(ids, 1.0), ids).equal(ids >= 0), (
            "with p = 1 every word should be chosen, and nothing else."
        )
    before, small = chance(lib), word_ids[:6]
    first, again, other = (words_of(choose_words(small, 0.5, toy.seeded(n)), small) for n in (5, 5, 6))
    told = "two generators with the same seed give different results: all chance should come from `generator`."
    assert first.equal(again), told
    assert chance(lib) == before, "a global generator is used or seeded, although `generator` is given."
    assert not first.equal(other), "generators with different seeds choose the same words: `generator` should decide."
    going = toy.seeded(5)
    draws = [words_of(choose_words(small, 0.5, going), small) for _ in range(2)]
    told = "a second call with the same generator chooses the same words: the generator is seeded again, or copied."
    assert not draws[0].equal(draws[1]), told
    told = (
        "without a generator, torch's own should be used: its seed decides which words are "
        "chosen, and a second call chooses others."
    )
    one, two = toy.in_turn(choose_words, 8, [[small, 0.5]] * 2, {})
    same, _ = toy.in_turn(choose_words, 8, [[small, 0.5]] * 2, {})
    assert torch.equal(one, same) and not torch.equal(one, two), told
    expect.one_device(lib, choose_words, small)
    says = "`choose_words` fails for numbers that are not contiguous in memory, such as transposed ones."
    found = words_of(expect.answers(toy.strided, choose_words, word_ids, says=says), word_ids)
    whole_words(found, word_ids, 0.15)
