"""Private checks of notebook 01: other sizes and numbers, drawn for each submission, and the edges that the text
names.
"""

import contextlib
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from autograder.author.checks import private, swept, tells
from utils.checks import nb01_causal_mask_lm as seen
from utils.checks import nb01_toys as toys
from utils.checks.nb01_causal_mask_lm import (
    CHANCE,
    SPECIAL,
    attended,
    counting_data,
    dropped,
    epoch_agrees,
    greedy,
    heads_shapes,
    hidden,
    independent,
    layer_shapes,
    log_shares,
    log_table,
    logs,
    model_shapes,
    numbers_of,
    pairs_of,
    seeded,
    shares,
    starts_small,
    texts,
    torch_heads,
    torch_layer,
    torch_logits,
    two_batches,
    weights_of,
    words_of,
)
from utils.grading import expect
from utils.grading.expect import draw, normal
from utils.grading.remote import INFINITY, promised, size

# Left out is what the public check asks for.
attentions = swept("1.1", seen.ATTENTION, without=("layout", "device"))
masks = swept("1.2", seen.MASK)
heads = swept("1.3", seen.HEADS, without=("layout", "device"))
layers = swept("1.4", seen.LAYER, without=("device",))
models = swept("1.6", seen.MODEL, without=("device", "gradients"))
losses = swept("1.7", seen.LOSS, without=("layout", "device", "gradients"))


@private("1.2", tells="the mask is wrong for more than a thousand tokens. T is at most 2,000.")
def long_texts(causal_mask, lib):
    promised(INFINITY)
    T = 2000 - draw(20).randrange(20)
    rows = [0, 300, 1100, T - 1]
    found = expect.tensor(lib(toys).mask_rows(causal_mask, T, rows), (len(rows), T), "the mask")
    assert torch.equal(found == 0, torch.arange(T) <= torch.tensor(rows)[:, None]), "wrong"
    assert (found[found != 0] == -math.inf).all(), "not -inf"


@private("1.1", tells="`attention` is wrong for a mask that has to be broadcast to the shape of the scores.")
def broadcast_masks(attention):
    rng = draw(21)
    B, H, T, S, d = rng.randint(2, 4), rng.randint(2, 4), rng.randint(2, 5), rng.randint(2, 6), rng.randint(5, 7)
    q, k, v, mask = (
        normal(B, H, T, d),
        normal(B, H, S, d, seed=1),
        normal(B, H, S, d, seed=2),
        normal(B, 1, 1, S, seed=3),
    )
    output, weights = attended(attention, q, k, v, mask)
    wanted = weights_of(q, k, mask.expand(B, H, T, S))
    expect.close(output, wanted @ v, "broadcast mask")
    expect.close(weights, wanted, "weights under a broadcast mask")
    told = "`attention` fails if its arguments are passed by name. Keep the names that they have."
    with tells(told):
        named = expect.answers(attention, q=q, k=k, v=v, mask=mask, says=told)
        expect.close(named[0], output, "named arguments")


@private("1.4", tells="in training mode, the layer is wrong with the default dropout, or with a dropout of 0 or 1.")
def dropout_at_the_edges(TransformerLayer):
    shares_of = [dropped(lambda: TransformerLayer(96, 1, 1), 96, branch) for branch in ("attention", "feed-forward")]
    with tells("the default dropout is not 0.1: without the argument, another share is dropped in training mode."):
        assert all(0.05 < share < 0.155 for pair in shares_of for share in pair), f"default: {shares_of}"
    heads, d_ff = draw(8).randint(2, 4), draw(9).randint(3, 9)
    width = 3 * heads
    x = normal(2, 4, width, seed=40)
    for rate, rest in (
        (0.0, "nothing should be dropped"),
        (1.0, "both results should be dropped as a whole, and nothing else"),
    ):
        told = f"a dropout of {rate:g} raises an error, but it is allowed: in training mode {rest}."
        with tells(told):
            layer = expect.answers(TransformerLayer, width, heads, d_ff, rate, says=told)
        state = expect.weights(layer, layer_shapes(width, d_ff), "layer")
        layer.train()
        right = torch_layer(state, heads)
        wanted = right(x) if rate == 0 else right.norm2(right.norm1(x))
        with tells(told):
            found = expect.answers(layer, x, says=told)
        with tells(f"with a dropout of {rate:g}, the output in training mode is wrong. There {rest}."):
            expect.close(found, wanted.detach(), f"dropout {rate}", tolerance=1e-3)


@private("1.4", tells="in some part of the layer, what dropout leaves is not multiplied by 1 / (1 - dropout).")
def scaled_up(TransformerLayer):
    """Each output in training must be one of those that a right layer can give: all ways to drop are listed."""
    rng = draw(11)
    width, rate = 4, rng.choice([0.2, 0.3, 0.4])
    ramp, value = torch.tensor([0.0, 1.0, 2.5, 4.5]) + rng.uniform(0, 1), rng.uniform(0.6, 1.4)
    masks = torch.tensor([[bit >> place & 1 for place in range(width)] for bit in range(2**width)]).float()
    for branch in ("attention", "feed-forward"):
        layer = TransformerLayer(width, 1, 1, rate)
        state = {name: torch.zeros(shape) for name, shape in layer_shapes(width, 1).items()}
        state["norm2.weight"] = torch.ones(width)
        if branch == "attention":
            state["norm1.weight"] = torch.ones(width)
            state["self_attn.in_proj_bias"] = torch.full((3 * width,), value)
            state["self_attn.out_proj.weight"] = torch.eye(width)
        else:
            state["norm1.bias"] = ramp
            state["linear1.bias"] = torch.ones(1)
            state["linear2.weight"] = torch.full((width, 1), value)
        layer.load_state_dict(state)
        layer.train()
        outcome = expect.floats(layer(ramp.expand(300, 1, width)), (300, 1, width), "the output").squeeze(1)
        sums = ramp + masks * value / (1 - rate) ** 2
        right = F.layer_norm(F.layer_norm(sums, (width,)) if branch == "attention" else sums, (width,))
        apart = (outcome[:, None] - right).abs().amax(-1).amin(-1)
        assert apart.max() < 1e-3, f"{branch}: {apart.max()} from all that a right layer gives"


def halves(values: torch.Tensor, among: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which numbers of a row are above the middle of those that are `among` them, and how far these are apart."""
    highest = values.masked_fill(~among, -math.inf).amax(-1, keepdim=True)
    lowest = values.masked_fill(~among, math.inf).amin(-1, keepdim=True)
    return among & (values > (highest + lowest) / 2), highest - lowest


def correlated(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether some 15,000 draws of one place go with those of another: by chance, 0.06 is 7 standard errors."""
    return abs(torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1].item()) > 0.06


@private("1.4", tells="in training mode, dropout does not draw for each number on its own, in each of its places.")
def draws_apart(TransformerLayer):
    """Biases alone decide what is dropped, so that the output shows which numbers were."""
    width, silent = 24, {name: torch.zeros(shape) for name, shape in layer_shapes(24, 24).items()}
    silent |= {"norm1.weight": torch.ones(width), "norm2.weight": torch.ones(width)}

    def trained(shape: tuple[int, int], heads: int, fill: float = 0.0, **state: torch.Tensor) -> torch.Tensor:
        layer = TransformerLayer(width, heads, width, 0.5)
        layer.load_state_dict(silent | {name.replace("__", "."): value for name, value in state.items()})
        layer.train()
        return expect.floats(layer(torch.full((*shape, width), fill)), (*shape, width), "the output in training")

    ones, eye = torch.ones(width), torch.eye(width)
    sums = trained((200, 4), 1, self_attn__out_proj__bias=ones, linear2__bias=50 * ones)
    second, _ = halves(sums, torch.ones_like(sums, dtype=torch.bool))
    (of_kept, apart), (of_dropped, _) = halves(sums, second), halves(sums, ~second)
    first = of_kept | of_dropped
    assert (apart > 1e-3).double().mean() > 0.9, "of what the second sum keeps, the first keeps all or nothing"
    inside = trained((200, 4), 1, linear1__bias=ones, linear2__weight=eye) > 0
    weights = {"self_attn__in_proj_bias": torch.ones(3 * width), "self_attn__out_proj__weight": eye}
    by_head = trained((800, 1), width, **weights) > 0
    for what, kept in (("attention", first), ("feed-forward", second), ("hidden", inside), ("weights", by_head)):
        for axis in (axis for axis in range(3) if kept.size(axis) > 1):
            one, next_one = kept.narrow(axis, 1, kept.size(axis) - 1), kept.narrow(axis, 0, kept.size(axis) - 1)
            assert not correlated(one, next_one), f"{what}: neighbours along axis {axis} are dropped together"
    by_query = (trained((100, 8), 1, **weights) == 0).all(-1)  # a right layer drops all 8 weights in 1 of 256
    assert by_query.double().mean() < 0.1, "all weights of a query are dropped together"
    # Of ones that a part reads and gives, a quarter is left: what is dropped within, and of the result.
    values = {"self_attn__in_proj_weight": torch.cat([0 * eye, 0 * eye, eye]), "self_attn__out_proj__weight": eye}
    inner = {"norm1__bias": ones, "linear1__weight": eye, "linear2__weight": eye}
    for what, left in (
        ("attention", trained((800, 1), width, 1.0, **values) > 0),
        ("feed-forward part", trained((200, 4), 1, **inner) > 0),
    ):
        with tells(f"in training mode, the input of the {what} is dropped too. Dropout acts in the four places alone."):
            assert 0.2 < left.double().mean() < 0.3, f"{what}: {left.double().mean():.3f} is left"


def some_words(seed: int, count: int) -> list[str]:
    """Different words of two to five letters, with capitals among them."""
    rng, found = draw(seed), {}
    while len(found) < count:
        word = "".join(rng.choice("abcdefghij") for _ in range(rng.randint(2, 5)))
        found[word.capitalize() if len(found) % 3 == 1 else word] = None
    return list(found)


def some_sentences(words: list[str], seed: int) -> list[str]:
    """Sentences in which word i occurs len(words) - i times; the rarest comes first."""
    rng = draw(seed)
    rest = [word for place, word in enumerate(words) for _ in range(len(words) - place - 1)]
    rng.shuffle(rest)
    sentences = [" ".join(reversed(words))]
    while rest:
        length = rng.randint(1, 6)
        sentences.append(" ".join(rest[:length]))
        rest = rest[length:]
    return sentences


@private("1.5", tells="`Vocabulary` is wrong for other sentences or sizes.")
def other_words(Vocabulary):
    words = some_words(50, draw(51).randint(7, 9))
    sentences, kept = some_sentences(words, 52), draw(53).randint(2, 5)
    vocab = Vocabulary(sentences, 4 + kept)
    with tells(
        "for other sentences or sizes, `words` does not hold the most frequent words in their order, as written."
    ):
        assert words_of(vocab) == [*SPECIAL, *words[:kept]], "words"
    with tells(
        "`encode` takes words that differ only in capital letters for the same word. Use words as they are written."
    ):
        assert vocab.encode(words[0].swapcase()) != vocab.encode(words[0]), "another word"
    rng = draw(54)
    asked = [rng.choice(words) for _ in range(12)]
    numbers = [4 + words.index(word) if words.index(word) < kept else 3 for word in asked]
    with tells("`encode` is wrong for other sentences, known and unknown words mixed."):
        assert vocab.encode(" ".join(asked)) == numbers, "encode"
    with tells("`encode` of an empty sentence should return an empty list."):
        assert vocab.encode("") == [], "encode nothing"
    with tells(
        "`encode` does not give each special word its number in `words`. A word is unknown only if it is not there."
    ):
        assert vocab.encode(" ".join(SPECIAL[::-1])) == [3, 2, 1, 0], "special words"
    with tells("`encode` does not give UNK for a word that differs from a known one in capital letters."):
        assert vocab.encode(words[0].swapcase()) == [3], "another word"
    given = [*(rng.randrange(4 + kept) for _ in range(5)), *rng.sample(range(4), 4)]
    with tells("`decode` is wrong for other numbers, or leaves special words out."):
        assert vocab.decode(given) == " ".join([*SPECIAL, *words][number] for number in given), "decode"
    with tells("`decode` of an empty list should return an empty string."):
        assert vocab.decode([]) == "", "decode nothing"
    with tells("`Vocabulary` is wrong at a limit of `max_size`: 4 leaves room for SPECIAL alone."):
        assert size(vocab) == 4 + kept and size(Vocabulary(sentences, 4)) == 4, "size"
    whole = Vocabulary(sentences, 50)
    assert words_of(whole) == [*SPECIAL, *words], "order"
    for sentence in sentences:
        assert whole.decode(whole.encode(sentence)) == sentence, "there and back"
    with tells("making another vocabulary changes an earlier one. Each should keep its own words."):
        assert words_of(vocab) == [*SPECIAL, *words[:kept]], "a later vocabulary changes an earlier one"
    with tells("a vocabulary of no sentences should hold the entries of SPECIAL alone."):
        assert words_of(Vocabulary([], 9)) == SPECIAL, "no sentences, or a SPECIAL that grew"
    with tells("sentences that occur several times are counted once. Each occurrence of a word counts."):
        assert words_of(Vocabulary([words[-1]] * 60 + sentences, 5)) == [*SPECIAL, words[-1]], "equal sentences"


@private(
    "1.5",
    tells="`make_batch` is wrong for other batches, such as one sentence, an empty one, or one of `max_len` words.",
)
def other_batches(Vocabulary, make_batch):
    known = some_words(55, 8)
    vocab, rng = Vocabulary(some_sentences(known, 56), 9), draw(57)
    words = words_of(vocab)

    def sentence(length: int) -> str:
        return " ".join(rng.choice(known) for _ in range(length))

    fit = rng.randint(3, 6)
    for sentences, max_len in (
        ([sentence(1)], 8),
        ([sentence(2), "", sentence(rng.randint(2, 3))], 3),
        ([""], rng.randint(1, 4)),
        ([sentence(fit)], fit + 1),
        ([sentence(fit)], fit),
        ([sentence(rng.randint(0, 6)) for _ in range(5)], 2),
        ([sentence(rng.randint(0, 6)) for _ in range(4)], 1),
        ([sentence(rng.randint(1, 9)) for _ in range(rng.randint(2, 6))], rng.randint(3, 9)),
    ):
        rows = [[0, *(words.index(w) if w in words else 3 for w in text.split()), 2] for text in sentences]
        longest = min(max_len, max(len(row) - 1 for row in rows))
        inputs, targets = two_batches(make_batch(sentences, vocab, max_len), (len(rows), longest))
        for row, got, aim in zip(rows, inputs.tolist(), targets.tolist(), strict=True):
            cut = min(longest, len(row) - 1)
            rest = [1] * (longest - cut)
            assert got == row[:cut] + rest and aim == row[1 : cut + 1] + rest, f"{sentences} at {max_len}"


@private("1.6", tells="`LanguageModel` is wrong for other sizes, lengths or numbers of layers.")
def other_models(LanguageModel, lib):
    rng = draw(60)
    width = 2 * rng.randint(3, 5)
    for number, (layers, B, T) in enumerate(
        (
            (rng.randint(3, 5), 2, rng.randint(3, 8)),
            (1, 1, width),  # T as wide as d_model
        )
    ):
        V, heads, d_ff = rng.randint(5, 30), rng.choice([1, 2]), rng.randint(3, 12)
        model = LanguageModel(V, width, heads, d_ff, layers)
        model.eval()
        tokens = torch.randint(0, V, (B, T), generator=expect.generator(75 + number))
        kept = torch.arange(T) < torch.arange(1, T)[:, None]  # in row t, the first t + 1 tokens
        # Of a fresh model, whose attention is spread evenly over what it may read.
        whole, changed = model(tokens[:1]), model(torch.where(kept, tokens[0], (tokens[0] + 1) % V))
        with tells(
            "with three layers or more, a later token changes the logits of earlier ones. Each layer needs the mask."
            if layers > 1
            else "with one layer, a later token changes the logits of earlier ones."
        ):
            whole = expect.floats(whole, (1, T, V), "logits").expand(T - 1, T, V)
            earlier = expect.floats(changed, (T - 1, T, V), "logits")
            expect.close(earlier[kept], whole[kept], f"{layers} layers", tolerance=1e-3)
        state = expect.weights(model, model_shapes(V, width, d_ff, layers), "model", seed=61 + number)
        model.eval()
        logits = expect.floats(model(tokens), (B, T, V), "logits")
        wanted = torch_logits(state, tokens, heads, order=range(layers))
        with tells(
            "with three layers or more, the logits are wrong."
            if layers > 1
            else "for a single text as long as `d_model`, the logits are wrong."
        ):
            expect.close(logits, wanted, f"{layers} layers", tolerance=1e-3)


@private(
    "1.6",
    tells="a fresh `LanguageModel` has wrong weights, dropout or order of arguments.",
)
def fresh_model(LanguageModel):
    rng = draw(70)
    state = LanguageModel(rng.randint(40, 60), 16, 2, rng.randint(6, 9), 3).state_dict()
    first, second, third = (state[f"layers.{index}.linear1.weight"] for index in range(3))
    with tells("two layers of a fresh model are equal. Each should draw weights of its own, so copy none."):
        assert not (torch.equal(first, second) or torch.equal(second, third) or torch.equal(first, third)), (
            "one layer, copied"
        )
    with tells("fresh embeddings of another size do not have mean 0 and standard deviation 1 / sqrt(d_model)."):
        starts_small(LanguageModel, rng.randint(90, 120), rng.randint(40, 60))
    for options, rate in (({}, 0.1), ({"dropout": 0.3}, 0.3)):
        got = dropped(
            lambda options=options: LanguageModel(96, 96, 1, 1, 1, **options), 96, "feed-forward", tokens=True
        )
        told = "`dropout` is passed on with another value" if options else "the default dropout is not 0.1"
        with tells(f"{told}: in training mode the layers drop another share."):
            assert all(abs(share - rate) < 0.5 * rate for share in got), f"{options}: {got}"
    V, T = rng.randint(7, 12), rng.randint(3, 6)
    free = LanguageModel(V, 12, 3, 5, 2, 0.0, False)
    weights = expect.weights(free, model_shapes(V, 12, 5, 2), "model", seed=8)
    tokens = torch.randint(0, V, (1, T), generator=expect.generator(71))
    wanted = torch_logits(weights, tokens, 3, mask=False)
    with tells("with `causal` as the seventh argument, False, the logits are not those without a mask."):
        expect.close(free(tokens), wanted, "causal as the seventh argument", tolerance=1e-3)


@private("1.7", tells="the loss is wrong for other sizes or another `pad_id`.")
def other_losses(lm_loss, perplexity):
    rng = draw(80)
    for number, (B, T) in enumerate(((1, 1), (1, rng.randint(2, 5)), (rng.randint(2, 4), 1), (rng.randint(2, 5), 7))):
        V = rng.randint(4, 18)
        pad = rng.randrange(1, V)
        logits = 3 * normal(B, T, V, seed=81 + number)
        targets = torch.randint(0, V, (B, T), generator=expect.generator(85 + number))
        targets[-1, -1] = pad if B * T > 1 else 0
        targets[0, 0] = (pad + 1) % V
        wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)
        expect.close(expect.number(lm_loss(logits, targets, pad), "loss"), wanted, f"{B}, {T}, {V}")
    targets = torch.tensor([[0, rng.randint(1, 5)]])
    logits = normal(1, 2, 6, seed=89)
    with tells("the loss is wrong with `pad_id = 0`. Zero is a token like any other, though it counts as false."):
        found = expect.number(lm_loss(logits, targets, 0), "loss")
        expect.close(found, F.cross_entropy(logits[0, 1:], targets[0, 1:]), "padding of 0")
    with tells("the loss is wrong where `pad_id` is negative. Then no target is padding."):
        targets, logits = torch.arange(6)[None], normal(1, 6, 6, seed=90)
        for pad in (-1, -2, -6):
            found = expect.number(lm_loss(logits, targets, pad), "loss")
            expect.close(found, F.cross_entropy(logits[0], targets[0]), f"padding of {pad}")
    with tells("the perplexity is wrong for other losses."):
        for loss in (0.0, rng.uniform(0.2, 0.8), rng.uniform(2.2, 2.4), rng.uniform(5, 9), rng.uniform(30, 40)):
            expect.close(expect.number(perplexity(loss), "perplexity"), math.exp(loss), f"`perplexity({loss})`")
    loss = rng.uniform(1.2, 1.8)
    given = torch.tensor(loss, dtype=torch.float64)
    with tells("the perplexity is wrong for a loss that is a tensor."):
        expect.close(expect.number(perplexity(given), "perplexity"), math.exp(loss), "of a tensor")


@private("1.8", tells="`train_epoch` is wrong for other batches, such as ten or more, or where `pad_id` is 0.")
def other_epochs(train_epoch, lib):
    rng = draw(95)
    V, shapes = rng.randint(5, 8), [(1, 2), (2, 5), (1, 2)]  # of a row of two, one target is padding
    with tells("`train_epoch` is wrong where a batch has a single target that is not padding."):
        epoch_agrees(train_epoch, lib, "a batch of one", V, shapes, seed=94, clip=100.0)
    shapes = [(rng.randint(1, 5), rng.randint(3, 7)) for _ in range(rng.randint(10, 13))]
    clip, momentum = rng.uniform(0.2, 0.6), rng.uniform(0.6, 0.9)
    epoch_agrees(train_epoch, lib, "many", V, shapes, seed=96, lr=0.1, pad=0, clip=clip, momentum=momentum, once=True)


@private(
    "1.8",
    tells="`train_epoch` is wrong for another model, whose optimizer has a group for each parameter: its own logits "
    "and all its parameters count.",
)
def other_networks(train_epoch, lib):
    """Modules of torch's own: without its Dropout of 1 in training mode, the first layer would learn."""
    rng = draw(100)
    V, d, clip, lr = rng.randint(5, 9), rng.randint(3, 6), rng.uniform(0.2, 0.6), rng.uniform(0.2, 0.5)
    batches = [
        [*torch.randint(0, V, (2, rng.randint(1, 4), rng.randint(2, 6)), generator=expect.generator(101 + number))]
        for number in range(3)
    ]
    for number, middle in enumerate((("Tanh",), ("Dropout", 1.0))):
        recipe = [("Embedding", V, d), middle, ("Linear", d, V)]

        def build(parts: Any, recipe: list = recipe) -> Any:
            return parts.Sequential(*(getattr(parts, name)(*sizes) for name, *sizes in recipe))

        model, right = expect.twins(lib, build, 105 + number)
        model.eval()
        right.train()
        loss = train_epoch(model, batches, lib(toys).descent_in_groups(model, lr), clip, pad_id=-1)
        total, count = 0.0, 0
        for inputs, targets in batches:
            each = F.cross_entropy(right(inputs).flatten(0, 1), targets.flatten(), reduction="none")
            right.zero_grad()
            each.mean().backward()
            nn.utils.clip_grad_norm_(right.parameters(), clip)
            for part in right.parameters():
                part.data -= lr * part.grad
            total, count = total + each.sum().item(), count + len(each)
        inside = "the parts inside the model are not all in training mode: `model.train()` reaches them."
        with tells(inside) if middle[0] == "Dropout" else contextlib.nullcontext():
            state = model.state_dict()
            for name, value in right.state_dict().items():
                expect.close(state[name], value, f"{name}, {middle}")
            expect.close(expect.number(loss, "loss"), total / count, f"loss, {middle}")


@private("1.8", tells="over many epochs on one batch, the loss does not fall as it should.")
def overfits(train_epoch, lib):
    V = draw(110).randint(5, 8)
    tokens = torch.tensor([draw(111).sample([token for token in range(V) if token != 1], 4)])
    table, bias, batches = torch.zeros(V, V), torch.zeros(V), [[tokens[:, :-1], tokens[:, 1:]]]
    model = lib(toys).Bigram(table, bias)
    optimizer = lib(torch.optim).Adam(model.parameters(), lr=0.3)
    losses = [expect.number(train_epoch(model, batches, optimizer, 1.0), "loss") for _ in range(15)]
    right = toys.Bigram(table, bias)
    rule = torch.optim.Adam(right.parameters(), lr=0.3)
    for step, loss in enumerate(losses):
        mean = F.cross_entropy(right(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        assert math.isclose(loss, mean.item(), rel_tol=0.05, abs_tol=1e-3), f"the loss of epoch {step}"
        rule.zero_grad()
        mean.backward()
        nn.utils.clip_grad_norm_(right.parameters(), 1.0)
        rule.step()


def ending(seed: int, V: int, prompt: list[int], count: int, eos: int, others: tuple[int, ...] = ()) -> torch.Tensor:
    """A table after which the best text ends in `eos` before `count` tokens, with all of `others` in it."""
    for number in range(10_000):
        table = torch.randn(V, V, generator=expect.generator(1000 * seed + number))
        new = greedy(table, prompt, count, eos)[len(prompt) :]
        if new[-1] == eos and len(new) < count and {*others} <= {*new}:
            return table
    raise RuntimeError("no table found")


@private("1.9", tells="`generate` is wrong for other prompts, `max_new` or `eos_id`.")
def other_texts(generate, lib):
    rng = draw(120)
    close = numbers_of(generate(lib(toys).TableModel([[0.0, 1e-6, 0.0]]), [0], 40, temperature=0), [0])
    high = rng.uniform(2100, 4000)
    raised = numbers_of(generate(lib(toys).TableModel([[high, high + 0.1, high]]), [0], 3, temperature=0), [0])
    with tells("where logits are large and close to each other, temperature 0 does not always give the best token."):
        assert raised == [0] + [1] * 3, f"the best of nearly equal tokens near {high}"
    with tells("where the best logits are nearly equal, temperature 0 does not always give the best token."):
        assert close == [0] + [1] * 40, "the best of nearly equal tokens"
    model = lib(toys).TableModel([[0.0, 9.0, 1.0]])
    with tells("`eos_id` in the prompt should end nothing. Only a token that is written ends the text."):
        assert numbers_of(generate(model, [2], 3, temperature=0), [2]) == [2, 1, 1, 1], "an end in the prompt is none"
    for number in range(5):
        V = rng.randint(6, 11)
        prompt, count = [rng.randrange(V) for _ in range(rng.randint(1, 5))], (rng.randint(9, 30), 0)[number == 2]
        eos = (0, 2, 2, V + 3, rng.choice([1, 3, 4]))[number]
        if number in (0, 1, 4):
            count = 12
            table = ending(121 + number, V, prompt, count, eos, (2,) if number != 1 else ())
        else:
            table = normal(V, V, seed=121 + number)
        model = lib(toys).TableModel(table)
        options = {} if eos == 2 else {"eos_id": eos}
        result = numbers_of(generate(model, prompt, max_new=count, temperature=0, top_k=3, **options), prompt)
        with tells("`generate` does not stop after writing `eos_id` if that is 0, which counts as false."):
            assert eos or result != greedy(table, prompt, count, V), f"{V}, {prompt}, {count}, 0"
        assert result == greedy(table, prompt, count, eos), f"{V}, {prompt}, {count}, {eos}"
    long = [rng.randrange(V) for _ in range(rng.randint(130, 300))]
    result = numbers_of(generate(lib(toys).TableModel(table), long, 5, temperature=0, eos_id=V), long)
    with tells("`generate` is wrong for a long prompt. The model should read all of the text."):
        assert result == greedy(table, long, 5, V), f"a prompt of {len(long)} tokens"
    drawn = numbers_of(generate(lib(toys).TableModel([[0.0, 0.0, 0.0]]), [0], 200, eos_id=1), [0])
    with tells("where tokens are drawn, `generate` should stop after writing `eos_id` too."):
        assert drawn[-1] == 1 and drawn.count(1) == 1, "a drawn end"
    drawn = numbers_of(generate(lib(toys).TableModel([[0.0, 0.0, 0.0]]), [0, 1], 200), [0, 1])
    with tells("without `eos_id`, `generate` should stop after writing token 2, its default."):
        assert drawn[-1] == 2 and drawn[2:].count(2) == 1 and len(drawn) < 100, "the default end is 2"


@private("1.9", tells="`generate` is wrong for another model: it should read all of the text, in evaluation mode.")
def other_writers(generate, lib):
    """A table inside another module; and a network with dropout, whose last logits depend on all that it reads."""
    rng = draw(130)
    V, heads = rng.randint(7, 12), rng.choice([1, 2])
    width, d_ff, prompt = 4 * heads, rng.randint(5, 9), [rng.randrange(V) for _ in range(rng.randint(2, 5))]

    table = normal(V, V, seed=131)
    model = lib(nn).Sequential(lib(toys).TableModel(table))
    model.train()
    written = numbers_of(generate(model, prompt, 6, temperature=0, eos_id=V), prompt)
    with tells("a part inside the model is in training mode while `generate` writes. `model.eval()` sets all parts."):
        assert written != greedy(table, prompt, 6, V, shift=1), "the inner part shifts its logits in training mode"
    assert written == greedy(table, prompt, 6, V), f"a table inside another module: {written}"

    def build(parts: Any) -> Any:
        layer = parts.TransformerEncoderLayer(width, heads, d_ff, 0.5, batch_first=True)
        return parts.Sequential(parts.Embedding(V, width), layer, parts.Linear(width, V))

    right, model = build(nn).eval(), build(lib(nn))
    for number in range(1000):
        expect.same_weights(model, right, 1300 + 100 * number)
        numbers, clear = list(prompt), True
        for _ in range(6):
            with torch.no_grad():
                best = right(torch.tensor([numbers]))[0, -1].topk(2)
            clear &= bool(best.values[0] - best.values[1] > 0.02)
            numbers.append(int(best.indices[0]))
        if clear and len({*numbers[len(prompt) :]}) > 1:
            break
    model.train()
    written = numbers_of(generate(model, prompt, 6, temperature=0, eos_id=V), prompt)
    assert written == numbers, f"{written}, not {numbers}"


@private("1.9", tells="the shares of drawn tokens are wrong for another temperature or top_k.")
def other_draws(generate, lib):
    """Pearson's chi-squared test over all that is drawn, too uneven or too even: a wrong temperature shows as well."""
    far, freedom, count, rng = 0.0, 0, 300, draw(140)
    for number, (low, high, top_k) in enumerate(
        ((0.5, 0.8, 3), (4.0, 8.0, None), (2.0, 8.0, 4), (0.01, 0.02, rng.randint(6, 50)), (1.0, 1.0, None))
    ):
        temperature = round(rng.uniform(low, high), 3)
        order = rng.sample(range(5), 5)
        logits = temperature * rng.uniform(0.8, 1.1) * torch.tensor([-0.6, 0.0, 0.9, 1.8, 2.7])[order]
        best = logits.topk(min(top_k or 5, 5))
        wanted = torch.zeros(5).index_put((best.indices,), (best.values / temperature).softmax(-1)) * count
        options = {} if temperature == 1 else {"temperature": temperature, "top_k": top_k}  # the last: as it comes
        got = torch.tensor(shares(generate, lib, logits.tolist(), count, rng.randrange(10**6), **options)) * count
        with tells("a low temperature always gives the best token. Only a temperature of 0 does that."):
            assert temperature > 0.1 or got.max() < count, f"{temperature}, {top_k}: nothing is drawn"
        assert (got[wanted == 0] == 0).all(), f"{temperature}, {top_k}: a token too many"
        far += ((got - wanted)[wanted > 0].square() / wanted[wanted > 0]).sum().item()
        freedom += int((wanted > 0).sum()) - 1
    halves = torch.tensor([freedom / 2.0, far / 2.0]).double()
    assert torch.special.gammaincc(*halves) > CHANCE, f"chi squared {far:.0f} at {freedom} degrees of freedom"
    assert torch.special.gammainc(*halves) > CHANCE, f"chi squared {far:.4f} at {freedom} degrees of freedom: by rule"
    high, count = rng.uniform(2100, 4000), 400  # two tokens whose logits are nearly the same number in sixteen bits
    first = shares(generate, lib, [high, high - 1, 0.0], count, rng.randrange(10**6))[0]
    with tells("where logits are large and close to each other, the shares of the tokens drawn are wrong."):
        assert abs(first - 1 / (1 + math.exp(-1))) < 0.15, f"{first} of {high}"  # 6.7 standard errors
    with tells(
        "where logits are equal, more or fewer than `top_k` tokens can be drawn. Ties do not change how many remain."
    ):
        tied = shares(generate, lib, [1.0, 1.0, 1.0, 1.0], 60, rng.randrange(10**6), top_k=2)
        assert sum(share > 0 for share in tied) == 2


@private("1.9", tells="for other logits, tokens are not drawn by torch's generator alone, each on its own.")
def other_seeds(generate, lib):
    rng = draw(150)
    kinds, rows, length = rng.randint(2, 4), rng.randint(24, 32), rng.randint(24, 34)
    temperature = round(rng.uniform(0.5, 3), 2)
    logits = [temperature * rng.uniform(0, 0.6) for _ in range(kinds)] + [-1000.0]
    rng.shuffle(logits)
    options = {"temperature": temperature, "top_k": rng.choice([kinds, kinds + 7])}
    first, second, third = rng.sample(range(10**6), 3)
    seeded(generate, lib, logits, (first, second), **options)
    model = lib(toys).TableModel([logits])
    independent(torch.tensor(texts(generate, lib, model, [0], [length] * rows, third, eos_id=9, **options)))


@private("1.10", tells="`unigram` or `bigram` is wrong for other batches, vocabularies, `a` or `pad_id`.")
def other_counts(unigram, bigram):
    rng = draw(160)
    for number in range(5):
        V, pad = rng.randint(6, 13), (1, 1, 0, 2, 3)[number]
        B = rng.randint(2, 5)
        shapes = [(rng.randint(1, 4), rng.randint(1, 9)) for _ in range(rng.randint(1, 4))] + [(B, B), (V, V)]
        batches = counting_data(V, shapes if number else [(1, 1)], pad, seed=161 + number)
        a, named = round(rng.uniform(0.2, 60), 1), {} if pad == 1 else {"pad_id": pad}
        pairs = pairs_of(batches, pad)
        shares = log_shares(pairs, V)
        expect.close(logs(unigram(batches, V, **named), (V,), "unigram"), shares, f"`unigram` {V}, {pad}, {shapes}")
        for given, worth in (({"a": a}, a), ({}, 30)):
            table = logs(bigram(batches, V, **given, **named), (V, V), "bigram")
            expect.close(table, log_table(pairs, V, worth * shares.exp()), f"`bigram` {V}, {pad}, {shapes}, {worth}")


@private("1.10", tells="the counts are wrong for a large vocabulary, of some hundred tokens or more.")
def large_vocabularies(unigram, bigram):
    V = draw(180).randint(260, 290)  # V squared exceeds sixteen bits
    batches = counting_data(V, [(3, 90), (2, 40)], seed=181)
    pairs = pairs_of(batches)
    table = logs(bigram(batches, V), (V, V), "bigram")
    expect.close(table, log_table(pairs, V, 30 * log_shares(pairs, V).exp()), f"bigram {V}")


@private(
    "1.10", tells="`unigram` is wrong for tens of thousands of tokens in the vocabulary. A table of pairs is too large."
)
def very_large_vocabularies(unigram):
    V = draw(182).randint(66_000, 67_000)
    batches = counting_data(V, [(3, 90)], seed=183)
    expect.close(logs(unigram(batches, V), (V,), "unigram"), log_shares(pairs_of(batches), V), f"unigram {V}")


@private("1.10", tells="the counts are wrong where a token or a pair comes very often.")
def many(unigram, bigram):
    rng = draw(170)
    V, length = rng.randint(5, 9), 2 * rng.randint(1100, 1250)  # half precision has no 4,398, say
    v, w, rare = rng.sample([token for token in range(V) if token != 1], 3)
    inputs, targets = torch.full((2, length), v), torch.full((2, length), w)
    inputs[0, 0], targets[1, -1] = rare, rare
    batches = [[inputs, targets], [targets, inputs]]
    pairs = pairs_of(batches)
    shares = log_shares(pairs, V)
    expect.close(logs(unigram(batches, V), (V,), "unigram"), shares, "unigram", tolerance=3e-5)
    for a in (30, 0.01):
        table = logs(bigram(batches, V, a=a), (V, V), "bigram")
        told = "the counts of pairs are wrong where a pair comes very often."
        with tells(told if a > 1 else "`bigram` is wrong for a small `a`, such as 0.01. Use `a` as it is given."):
            expect.close(table, log_table(pairs, V, a * shares.exp()), f"bigram {a}", tolerance=3e-5)
    with tells("the counts are wrong where a token comes tens of thousands of times."):
        often = [[torch.full((1, 70_000 + length), v), torch.full((1, 70_000 + length), w)]]
        shares = torch.ones(V).index_fill(0, torch.tensor(w), 70_001.0 + length)
        expect.close(logs(unigram(often, V), (V,), "unigram"), (shares / shares.sum()).log(), "unigram", tolerance=3e-5)
