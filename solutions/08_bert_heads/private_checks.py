"""Cases of notebook 08 that students never see: other sizes, other texts, edges, drawn for each submission."""

import contextlib
import functools
import random
import string

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb08_bert_heads as seen
from utils.checks import nb08_toys as toys
from utils.grading import expect, probes
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import INFINITY, promised

# 8.1


@private(
    "8.1", tells=("the rows are wrong for texts of other lengths, other special tokens, or other numbers of options.")
)
def other_rows(task_input):
    some = draw(810)
    for place in range(24):
        cls, sep, pad = some.sample(range(9), 3)
        sizes = [some.randint(1, 12) for _ in range(2 + place % 5)]
        parts = [[some.randint(10, 90) for _ in range(size)] for size in sizes]
        most = some.randint(max(6, sizes[0] + 4), 28)
        seen.is_read(task_input, "qa", parts[:2], most, cls, sep, pad)
        seen.is_read(task_input, "pair", parts[:2], some.randint(4, 20), cls, sep, pad)
        seen.is_read(task_input, "single", parts[:1], some.randint(3, 12), cls, sep, pad)
        seen.is_read(task_input, "choice", parts, some.randint(4, 22), cls, sep, pad)
    context, option, short = ([some.randint(10, 90) for _ in range(size)] for size in (some.randint(9, 14), 6, 2))
    for options in ([option, short], [short, option]):  # the short option leaves room for the whole context
        seen.is_read(task_input, "choice", [context, *options], len(context) + 5)


@private("8.1", tells="a question that fits with a token of the passage or more gives a wrong row, or an error.")
def tight_questions(task_input):
    some = draw(811)
    for size in (some.randint(1, 4), some.randint(5, 9), some.randint(10, 40)):
        parts = [[some.randint(10, 90) for _ in range(count)] for count in (size, some.randint(2, 6))]
        seen.is_read(task_input, "qa", parts, size + 4)
        seen.is_read(task_input, "qa", parts, size + 200)
        with tells("a question that leaves no room for a token of the passage should raise ValueError."):
            for most in (size + 3, size + 2, size):
                expect.refuses(lambda parts=parts, most=most: task_input("qa", parts, most), says="no error")
    with tells("an unknown kind should raise ValueError, also where its name begins like that of a known one."):
        expect.refuses(lambda: task_input("qapair", parts, 90), says="another kind")


@private("8.1", tells="the rows are wrong for texts of several hundred tokens.")
def long_rows(task_input):
    some = draw(812)
    parts = [[some.randint(10, 90) for _ in range(size)] for size in (some.randint(600, 700), 650, 30, 640)]
    for kind, count in (("single", 1), ("pair", 2)):
        seen.is_read(task_input, kind, parts[:count], some.randint(900, 1000))
    seen.is_read(task_input, "qa", parts[2:], some.randint(600, 660))


# 8.2


def some_words(seed: int) -> tuple[list[int | None], int]:
    """Pieces' words, and the number of words: some have no piece, some many; the last ones may be cut off."""
    some = draw(seed)
    count = some.randint(2, 14)
    sizes = [some.choice([0, 1, 1, 2, 3]) for _ in range(count)]
    pieces = [word for word, size in enumerate(sizes) for _ in range(size)]
    pads: list[int | None] = [None] * some.randint(0, 3)
    return [*pads[:1], *pieces[: some.randint(1, 24)], None, *pads], count


@private(
    "8.2",
    tells="labels are wrong where a row begins with a word, or words have no piece, many, or are cut off.",
)
def other_words(align_labels):
    for seed in range(20):
        word_ids, count = some_words(8200 + seed)
        some = draw(8250 + seed)
        seen.aligned(align_labels, word_ids, [some.randint(0, 3) for _ in range(count)])
        seen.aligned(
            align_labels, word_ids, some.choices(["O", "B-X", "I-X", ""], k=count), some.choice(["-", -1, "?"])
        )
    many: list[int | None] = [word for word in range(600) for _ in range(some.randint(1, 2))]
    with tells("labels are wrong in a row of hundreds of words."):
        seen.aligned(align_labels, [None, *many, None], [some.randint(0, 9) for _ in range(600)])
    seen.aligned(align_labels, [None], [])
    with tells("labels are wrong for pieces of a single word, without special tokens."):
        seen.aligned(align_labels, [0], [3])
    with tells("something is kept between calls: after a call without special tokens, labels are wrong."):
        seen.aligned(align_labels, [0], [3])
    with tells("labels are wrong for pieces of a single word, without special tokens."):
        seen.aligned(align_labels, [0] * some.randint(2, 5), [some.randint(0, 9)])


@private("8.2", tells="predictions are wrong if other words have no piece, have many, or are cut off.")
def other_predictions(word_predictions):
    for seed in range(20):
        word_ids, count = some_words(8300 + seed)
        some = draw(8350 + seed)
        seen.foretold(word_predictions, word_ids, some.sample(range(99), len(word_ids)), count, some.choice([-1, "?"]))
        seen.foretold(word_predictions, word_ids, some.choices(["O", "B-X", "I-X"], k=len(word_ids)), count)
    many: list[int | None] = [word for word in range(300) for _ in range(some.randint(1, 2))]
    seen.foretold(word_predictions, many, some.sample(range(2000), len(many)), 300, -1)


# 8.3


def some_tags(seed: int, sizes: tuple[int, ...]) -> list[list[str]]:
    """Sentences of these lengths with tags of three types whose names nobody has thought of."""
    some = draw(seed)
    names = ["".join(some.choices("abcdXY-_", k=some.randint(1, 5))) for _ in range(2)]
    names.append(f"{names[0]}-{some.choice('abc')}")  # differs from another one behind a hyphen alone
    tags = ["O", *(f"{head}-{name}" for head in "BI" for name in names)]
    return [some.choices(tags, k=size) for size in sizes]


@private("8.3", tells="the entities are wrong for other sentences, or for types with other names.")
def other_tags(entities):
    for seed in range(12):
        for tags in some_tags(8400 + seed, (1, 2, 5, 9, 30)):
            seen.found_in(entities, tags)
    (tags,) = some_tags(8420, (700,))
    seen.found_in(entities, tags)


@private("8.3", tells="the F1 is wrong for many sentences, or for types with other names.")
def other_scores(entity_f1):
    for seed, count in enumerate((1, 9, 90)):
        some = draw(8430 + seed)
        sizes = tuple(some.randint(0, 8) for _ in range(count))
        gold = some_tags(8460 + seed, sizes)
        pool = [tag for tags in gold for tag in tags] or ["O"]
        other = [[tag if some.random() < 0.7 else some.choice(pool) for tag in tags] for tags in gold]
        seen.f1_is(entity_f1, (gold, other), (other, gold))


# 8.4


def some_spans(some: random.Random, count: int) -> list[tuple[int, int]]:
    """The offsets of so many tokens: words, pieces of words, and now and then a wide gap."""
    spans, begin = [], 0
    for _ in range(count):
        begin += some.choice([0, 1, 1, 2])
        end = begin + some.randint(1, 7)
        spans.append((begin, end))
        begin = end
    return spans


@private("8.4", tells="for answers of other passages, the wrong tokens are returned.")
def other_passages(answer_tokens):
    for seed in range(10):
        some = draw(8500 + seed)
        passage = some_spans(some, some.randint(1, 40))
        window = passage[some.randint(0, 3) :][: some.randint(1, 40)] or passage[:1]
        question = some_spans(some, some.randint(1, 12))
        for spans in (passage, window):
            tokens = seen.laid_tokens(question, spans)
            for _ in range(6):
                (begin, _), (_, end) = sorted(some.choices(passage, k=2))
                begin, end = begin + some.randint(0, 1), end - some.randint(0, 1)
                seen.all_located(answer_tokens, (tokens, begin, some.choice("xé") * max(1, end - begin)))
        seen.all_located(answer_tokens, (tokens, some.choice(passage)[0], ""))
    marked = ([(0, 3), (0, 4), (4, 9), (4, 9)], [0, None, 1, None])
    with tells("the tokens are wrong where one that belongs to neither text (sequence id None) has the same offsets."):
        seen.all_located(answer_tokens, (marked, 4, "xxxxx"), (marked, 0, "xx"))
    long = some_spans(some, 900)
    tokens = seen.laid_tokens(some_spans(some, 700), long)
    place = some.randint(800, 890)
    with tells("in a passage of several hundred tokens, the wrong tokens are returned."):
        seen.all_located(answer_tokens, (tokens, long[place][0], "x" * (long[place + 5][1] - long[place][0])))


# 8.5


spans = swept("8.5", seen.SPANS, "span_logits", without={"dtypes", "layout", "device"})
losses = swept("8.5", seen.LOSS, "span_loss", without={"device"})
choices = swept("8.5", seen.CHOICE, "choice_logits", without={"dtypes", "layout", "device"})


@private(
    "8.5",
    tells="in double precision, the logits have another dtype or too little precision.",
    part="span_logits",
)
def exact_logits(span_logits, lib):
    promised(INFINITY)
    out, x = seen.linear(lib, 5, 2, 865), normal(2, 4, 5, seed=866).double()
    found = span_logits(x, lib(toys).double(out[0]), torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]))
    for one, wanted in zip(found, seen.by_token({name: value.double() for name, value in out[1].items()}, x)):
        assert type(one) is torch.Tensor and one.dtype is torch.float64, "the dtype of the states is lost"
        expect.close(one[:, :2], wanted[:, :2], "imprecise", 1e-9)


@private(
    "8.5",
    tells=("if the mask has another dtype than the states, the logits do not have the dtype of the states."),
    part="span_logits",
)
def masks_of_other_dtypes(span_logits, lib):
    promised(INFINITY)
    rough, (low, state) = normal(2, 4, 5, seed=867).bfloat16(), seen.linear(lib, 5, 2, 868)
    low = low.bfloat16()
    whole, floats = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]), torch.tensor([[1.0, 1, 1, 0], [1, 0, 1, 0]])
    in_half = "in half precision, the logits {} do not have the dtype of the states."
    for mask, told in (
        (torch.ones(2, 4).bfloat16(), in_half.format("with a mask")),
        (floats.bfloat16(), in_half.format("with a mask that marks pads")),
        (whole, ""),
        (floats, ""),
    ):
        for one, wanted in zip(span_logits(rough, low, mask), seen.by_token(state, rough.float()), strict=True):
            with tells(told) if told else contextlib.nullcontext():
                assert type(one) is torch.Tensor and one.dtype is torch.bfloat16, "the dtype of the states is lost"
            real = mask == 1
            with tells("in half precision, the logits with a mask are wrong."):
                expect.close(one[real].float(), wanted[real], "wrong in bfloat16", 0.04, float(wanted.abs().max()))


@private(
    "8.5", tells="in double precision, the logits of the options have another dtype or value.", part="choice_logits"
)
def exact_options(choice_logits, lib):
    (out, state), x = seen.linear(lib, 5, 1, 871), normal(3, 4, 5, seed=873).double()
    found = choice_logits(x, lib(toys).double(out))
    assert type(found) is torch.Tensor and found.dtype is torch.float64, "the dtype of the states is lost"
    expect.close(found, x @ state["weight"][0].double() + state["bias"].double(), "imprecise", 1e-9)


# 8.6


@private("8.6", tells="the best spans are wrong for other logits, passages, values of max_len or of n.")
def other_logits(best_spans):
    for seed in range(12):
        some = draw(8700 + seed)
        T = some.randint(90, 110) if seed % 6 == 1 else some.randint(1, 60)
        start, end = (
            some.uniform(0.5, 4) * normal(T, seed=8720 + 2 * seed + one) - some.uniform(-5, 5) for one in (0, 1)
        )
        allowed = torch.arange(T) >= some.randint(1, 6)
        if seed % 3 == 0:
            allowed &= torch.rand(T, generator=generator(8750 + seed)) < 0.7
        tau = some.choice([None, some.uniform(-4, 4), 0.0])
        seen.ranked(best_spans, start, end, allowed, some.randint(1, 40), some.randint(1, 40), tau)
        seen.ranked(best_spans, start, end, allowed, tau=tau)


@private(
    "8.6", tells="where all logits are far below 0, the best spans are wrong. Each allowed span counts at any score."
)
def low_logits(best_spans):
    some = draw(8754)
    low, allowed = normal(30, seed=8755).double() - 10.0 ** some.randint(4, 7), torch.arange(30) > some.randint(1, 6)
    seen.ranked(best_spans, low, low.flip(0), allowed, 5, 10)


@private("8.6", tells="spans late in a long passage are missed.")
def close_scores(best_spans):
    some = draw(8758)
    T = some.randint(8, 12)
    start = 3 + 1e-9 * torch.tensor([float(one) for one in some.sample(range(100), T)], dtype=torch.float64)
    end = torch.full((T,), 0.5, dtype=torch.float64)
    found = [span[1:] for span in seen.spans_of(best_spans(start, end, torch.arange(T) > 0, 500, 2))]
    with tells("spans with nearly equal scores are in the wrong order: the scores are rounded, or not exact enough."):
        assert found == [one[1:] for one in seen.every_span(start, end, torch.arange(T) > 0, 2, None)], "another order"
    T = some.randint(520, 600)
    start, end = normal(T, seed=8757), normal(T, seed=8756)
    start[T - 3], end[T - 2] = 9.0, 9.0
    end[T - 258] = 10.0  # in eight bits, this place is one after T - 3
    (best,) = seen.spans_of(best_spans(start, end, torch.arange(T) > 4, 1))
    assert best[1:] == (T - 3, T - 2), "the end of a long passage is not searched"


@private("8.6", tells="spans with equal scores are not in the order that the docstring gives.")
def ties(best_spans):
    some = draw(8759)
    T, (one, other, null) = some.randint(4, 9), [float(number) for number in some.sample(range(-4, 5), 3)]
    start, end = (torch.full((T,), value).index_fill(0, torch.tensor([0]), null) for value in (one, other))
    found = [span[1:] for span in seen.spans_of(best_spans(start, end, torch.arange(T) > 0, 200, 3))]
    assert found == [(i, j) for i in range(1, T) for j in range(i, min(T, i + 3))], "another order of equal scores"
    for seed in range(10):
        some = draw(8760 + seed)
        T, most = some.randint(3, 9), some.randint(1, 5)
        start, end = (torch.tensor([float(some.randint(-2, 2)) for _ in range(T)]) for _ in range(2))
        allowed, tau = torch.arange(T) > 0, some.choice([None, 0.0, 1.0, -1.0])
        n = some.randint(1, 30)
        found = [one[1:] for one in seen.spans_of(best_spans(start, end, allowed, n, most, tau))]
        assert found == [one[1:] for one in seen.every_span(start, end, allowed, most, tau)][:n], "another order"


# 8.7


def some_text(some: random.Random) -> str:
    """Words, articles, punctuation and white space, in any order."""
    words = "the a an A The An banana theory Cat cat 1843 U.S. it's a.m. x-ray".split()
    marks = ["", "", "", ",", ".", "!", " ;", "--", "(", "'"]
    parts = [some.choice(words) + some.choice(marks) + some.choice(" \t\n") * some.randint(1, 2) for _ in range(7)]
    return "".join(parts[: some.randint(0, 7)])


@private("8.7", tells="other texts are not normalised as the rules say.")
def other_texts(normalise):
    some = draw(880)
    for mark in string.punctuation:
        seen.normalised(normalise, f"Cat{mark}{some.choice('bcd')} the{mark} {mark}a {mark} end")
    for _ in range(60):
        seen.normalised(normalise, some_text(some))
    seen.normalised(normalise, " ".join(some_text(some) for _ in range(80)))


@private("8.7", tells="the F1 is wrong for texts of hundreds of words.")
def long_pairs(token_f1):
    some = draw(881)
    long = " ".join(some_text(some) for _ in range(80))
    seen.all_scored(seen.f1_scored(token_f1, long, long[len(long) // 3 :]))


@private("8.7", tells="the scores are wrong for other questions.")
def other_questions(squad_scores):
    for seed in range(10):
        some = draw(8800 + seed)
        names = [str(some.randrange(10**6)) for _ in range(some.randint(1, 8))]
        answers = {name: [some_text(some) for _ in range(some.randint(1, 7))] for name in names}
        said = {name: some.choice([*answers[name], some_text(some)]) for name in names if some.random() < 0.8}
        said |= {f"other {n}": some_text(some) for n in range(some.randint(0, 2))}
        seen.answered(squad_scores, (said, answers))


# 8.8


@private("8.8", tells=("the features are wrong for other encoders or batches, such as four layers, or no pads."))
def other_encoders(layer_features, lib):
    for seed, layers in enumerate((4, 5, 14)):
        some = draw(8900 + seed)
        sizes = {"n_layers": layers, "d_model": 3 * some.randint(2, 5), "dropout": some.uniform(0.1, 0.5)}
        pair = seen.encoders(lib, sizes, some.randrange(2**31))
        pair[0].train(seed != 1)
        T = some.randint(3, 9)
        lengths = [[T] * T, [T], [some.randint(1, T) for _ in range(4)]][seed]
        batch = seen.some_batch(lengths, T, 29, 8910 + seed)
        if seed == 2:
            batch["attention_mask"] = batch["attention_mask"].flip(1)
        for how in seen.HOWS if layers < 9 else ("embeddings", "weighted all"):
            scores = 2 * normal(4 if "four" in how else layers, seed=8920 + seed) if "weighted" in how else None
            gamma = some.uniform(-2, 3) if scores is not None and seed else None
            seen.features_right(layer_features, pair, batch, how, scores, gamma)


@private("8.8", tells="the features are wrong where some scores are very large or very small, such as 500.")
def large_scores(layer_features, lib):
    some = draw(8940)
    pair, batch = seen.encoders(lib, {"n_layers": 5}, some.randrange(2**31)), seen.some_batch([3, 5], 5, 29, 8941)
    for far in (some.uniform(120, 500), -some.uniform(120, 500)):
        for how, number in (("weighted last four", 4), ("weighted all", 5)):
            scores = normal(number, seed=8942) + far
            with tells("where scores are far from 0, the features are NaN: `exp` of a score is 0 or infinite."):
                found = layer_features(pair[0], batch, how, scores)
                expect.floats(torch.cat([*found]), (8, found[0].size(-1)), "the features")
            seen.features_right(layer_features, pair, batch, how, scores)


# 8.9


@private("8.9", tells="the logits or sentence vectors are wrong for other sizes, lengths or pads.")
def other_sentences(BiLSTMTagger):
    for seed in range(3):
        some = draw(9000 + seed)
        d, h, n = (some.randint(1, 7) for _ in range(3))
        tagger = BiLSTMTagger(d, h, n)
        state = expect.weights(tagger, seen.tagger_shapes(d, h, n), "BiLSTMTagger", seed=9010 + seed)
        T = some.randint(12, 25) if seed == 1 else some.randint(2, 9)
        B = T if seed == 0 else some.randint(1, 6)
        lengths = torch.tensor([T, *(some.randint(1, T) for _ in range(B - 1))])
        x = normal(B, T, d, seed=9020 + seed)
        x[torch.arange(T) >= lengths[:, None]] *= some.choice([1.0, 1e3, 0.0, torch.nan])
        seen.tagged(tagger, state, x, lengths)


logits = swept("8.9", seen.LOGITS, without={"layout", "device", "sizes", "parts", "values"})
vectors = swept("8.9", seen.VECTORS, without={"device", "dtypes"})


@private("8.9", tells="the logits are wrong for other sentences, between other calls.")
def learns(BiLSTMTagger, lib):
    some = draw(9050)
    d, h, n, T = 3, 2, some.randint(2, 4), some.randint(3, 6)
    tagger = BiLSTMTagger(d, h, n)
    state = expect.weights(tagger, seen.tagger_shapes(d, h, n), "BiLSTMTagger", seed=9051)
    x, lengths = normal(2, T, d, seed=9052), torch.tensor([T, some.randint(1, T - 1)])
    first = tagger(x, lengths)
    seen.tagged(tagger, state, normal(3, T, d, seed=9053), torch.tensor([1, T, 2]))
    with tells("the logits depend on earlier calls of the tagger."):
        assert torch.equal(tagger(x, lengths), first), "a second call gives something else"
    W, b = state["out.weight"], state["out.bias"]
    (wanted,) = toys.gradients(lambda x: (seen.read_alone(state, x[0]) @ W.T + b)[None], [x[:1]])
    with tells("the gradient of the logits for the features is wrong or missing."):
        slopes = expect.answers(lib(toys).gradients, tagger, [x[:1]], lengths[:1], says="no gradient")
        expect.close(slopes[0], wanted, "the gradient of the features is wrong", 1e-3)


# 8.10


@private("8.10", tells="the best state or its rivals are wrong for other scores.")
def other_runs(best_state):
    with tells("the best state or its rivals are wrong where a lead is very small. Any lead counts."):
        scores = {0: [0.7, 0.8, 0.6], 1: [0.7004, 0.2, 0.5], 2: [0.7, 0.8, 0.59], 3: [0.1, 0.2, 0.65]}
        seen.state_and_rivals(best_state, scores)
    some = draw(8101)
    for states in (1, 2, 6, 8, 6, 8, 9, some.randint(3, 5)):
        seen.state_and_rivals(best_state, seen.one_best(some, states, some.randint(4, 7)))


@private("8.10", tells="where all F1 are 0, the best state is not found. Zero is an F1 like any other.")
def all_zero(best_state, lib):
    seen.state_and_rivals(best_state, {3: [0.0, 0.0]})
    with tells("the rivals should be a list, and are of another type."):
        scores = {4: [70.0, 71.0, 72.0], 2: [73.0, 60.0, 60.0], 0: [70.0, 50.0, 80.0]}
        assert "list[int]" in lib(probes).form(best_state, scores), "another type"
    with tells("state 0 is left out of the rivals. It is a state like any other."):
        seen.state_and_rivals(best_state, scores)


@private("8.10", tells="the best state or its rivals are wrong if scores differ by very little.")
def small_leads(best_state):
    some = draw(8102)
    one, other = some.uniform(60, 70), some.uniform(75, 85)
    seen.state_and_rivals(best_state, {3: [one, other], 1: [one + 3e-9, other - 2e-9], 6: [one + 1e-9, other - 9]})
    seen.state_and_rivals(best_state, {2: [one], 5: [one - 1e-9], 4: [one - 2e-9]})
