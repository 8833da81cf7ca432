"""Private checks of notebook 01: other sizes, other seeds, and the edges that the docstrings promise."""

import math

import torch
from torch.nn import functional as F

from autograder.private import private
from utils import expect, toys
from utils.answer import read, size
from utils.checks.nb01_causal_mask_lm import (
    SPECIAL,
    attended,
    dropped,
    greedy,
    heads_shapes,
    hidden,
    layer_shapes,
    model_shapes,
    numbers_of,
    regression_data,
    shares,
    softmax_regression,
    starts_small,
    torch_heads,
    torch_layer,
    torch_logits,
    two_batches,
    weights_of,
    words_of,
)
from utils.expect import normal


@private("1.1", tells="attention is wrong for other shapes, or for a mask that has to be broadcast.")
def other_shapes(attention):
    for lead, T, S, d, d_v in (((), 3, 8, 9, 2), ((4,), 6, 2, 5, 1), ((2, 1, 3), 1, 4, 2, 7)):
        q, k, v = normal(*lead, T, d, seed=21), normal(*lead, S, d, seed=22), normal(*lead, S, d_v, seed=23)
        output, weights = attended(attention, q, k, v)
        expect.close(weights, weights_of(q, k), "weights")
        expect.close(output, weights_of(q, k) @ v, "output")
    q, k, v, mask = (
        normal(3, 2, 4, 6),
        normal(3, 2, 5, 6, seed=1),
        normal(3, 2, 5, 6, seed=2),
        normal(3, 1, 1, 5, seed=3),
    )
    output, weights = attended(attention, q, k, v, mask)
    expect.close(output, weights_of(q, k, mask.expand(3, 2, 4, 5)) @ v, "broadcast mask")
    named = attention(q=q, k=k, v=v, mask=mask)
    expect.close(named[0], output, "named arguments")


@private("1.1", tells="attention breaks for very large scores: use the softmax that torch has.")
def large_scores(attention):
    q, k, v = 100 * normal(2, 4, 3, seed=5), normal(2, 6, 3, seed=6), normal(2, 6, 3, seed=7)
    output, _ = attended(attention, q, k, v)
    expect.close(output, F.scaled_dot_product_attention(q, k, v), "large scores")


@private("1.1", tells="attention returns numbers that do not learn, or loses their precision.")
def learns(attention, lib):
    tensors = [normal(2, 3, 4, seed=8), normal(2, 5, 4, seed=9), normal(2, 5, 6, seed=10)]
    result = lib("utils.toys").gradients(attention, tensors)
    for got, wanted in zip(result, toys.gradients(F.scaled_dot_product_attention, tensors), strict=True):
        expect.close(got, wanted, "gradient")
    precise = attention(*(tensor.double() for tensor in tensors))
    wanted = F.scaled_dot_product_attention(*(tensor.double() for tensor in tensors))
    assert precise[0].dtype == torch.float64, "dtype"
    expect.close(precise[0], wanted, "precision", tolerance=1e-10)


@private("1.2", tells="the mask is right for the lengths you see and wrong for lengths you do not see.")
def other_lengths(causal_mask):
    for T in (2, 3, 8, 33):
        assert torch.equal(expect.floats(causal_mask(T), (T, T), "mask"), hidden(T)), f"length {T}"
    x = normal(8, 6, seed=4)
    edited = torch.cat([x[:6], x[6:] + 50])
    before, after = (F.scaled_dot_product_attention(y, y, y, attn_mask=causal_mask(8).float())[:6] for y in (x, edited))
    expect.close(before, after, "the model can see the future")


@private("1.3", tells="MultiHeadAttention is wrong for other widths, numbers of heads or lengths.")
def other_heads(MultiHeadAttention):
    for width, heads, T in ((6, 1, 4), (10, 10, 3), (8, 2, 1), (15, 5, 7)):
        x = normal(3, T, width, seed=width)
        layer = MultiHeadAttention(width, heads)
        state = expect.weights(layer, heads_shapes(width), "layer", seed=heads)
        expect.close(
            expect.floats(layer(x), (3, T, width), "output"), torch_heads(state, x, heads), f"{width}, {heads}"
        )
        masked = layer(x, mask=hidden(T))
        expect.close(masked, torch_heads(state, x, heads, hidden(T)), f"{width}, {heads}, masked")
    for width, heads in ((6, 4), (12, 5), (3, 6)):
        expect.raises(
            lambda w=width, h=heads: MultiHeadAttention(d_model=w, n_heads=h), "ValueError", f"{width}, {heads}"
        )


@private("1.3", tells="MultiHeadAttention does not learn in all of its parts, or loses precision.")
def heads_learn(MultiHeadAttention, lib):
    layer = MultiHeadAttention(8, 2)
    state = expect.weights(layer, heads_shapes(8), "layer", seed=3)
    x, bias = normal(2, 4, 8, seed=30), normal(4, 4, seed=31)
    expect.close(layer(x, bias), torch_heads(state, x, 2, bias), "a mask of other numbers")
    layer.double()
    wanted = torch_heads({name: value.double() for name, value in state.items()}, x.double(), 2)
    expect.close(layer(x.double()), wanted, "precision", tolerance=1e-9)
    lib("utils.toys").gradients(layer, [x.double()])
    for name in state:
        part = layer
        for step in name.split("."):
            part = getattr(part, step)
        slope = read(part.grad)
        assert type(slope) is torch.Tensor, f"{name} gets no gradient"
        assert name == "k_proj.bias" or slope.abs().max() > 1e-6, f"{name} gets no gradient"


@private("1.4", tells="TransformerLayer is wrong for other sizes or masks.")
def other_layers(TransformerLayer):
    for width, heads, d_ff, T in ((8, 2, 20, 6), (6, 6, 3, 1), (5, 1, 5, 4)):
        layer = TransformerLayer(width, heads, d_ff)
        state = expect.weights(layer, layer_shapes(width, d_ff), "layer", seed=d_ff)
        layer.eval()
        x = 2 * normal(3, T, width, seed=T) - 1
        right = torch_layer(state, heads)
        expect.close(layer(x), right(x).detach(), f"{width}, {heads}, {d_ff}")
        expect.close(layer(x, mask=hidden(T)), right(x, hidden(T)).detach(), "masked")


@private("1.4", tells="the default dropout, or a dropout of 0 or 1, is not what the layer does in training.")
def dropout_at_the_edges(TransformerLayer):
    shares_of = [dropped(lambda: TransformerLayer(96, 1, 1), 96, branch) for branch in ("attention", "feed-forward")]
    assert all(0.05 < share < 0.155 for pair in shares_of for share in pair), f"default: {shares_of}"
    x = normal(2, 4, 12, seed=40)
    for rate in (0.0, 1.0):
        layer = TransformerLayer(12, 3, 7, rate)
        state = expect.weights(layer, layer_shapes(12, 7), "layer")
        layer.train()
        right = torch_layer(state, 3)
        wanted = right(x) if rate == 0 else right.norm2(right.norm1(x))
        expect.close(layer(x), wanted.detach(), f"dropout {rate}")


@private("1.4", tells="a layer in training does not teach all of its parts, or does not scale up what dropout leaves.")
def layer_learns(TransformerLayer, lib):
    layer = TransformerLayer(12, 3, 7, 0.0)
    state = expect.weights(layer, layer_shapes(12, 7), "layer", seed=4)
    right = torch_layer(state, 3, dropout=0.0).train()
    x = normal(2, 4, 12, seed=41)
    (wanted,) = toys.gradients(right, [x])
    expect.close(lib("utils.toys").gradients(layer, [x])[0], wanted, "gradient of x", tolerance=1e-3)
    for name, part in right.named_parameters():
        found = layer
        for step in name.split("."):
            found = getattr(found, step)
        slope = read(found.grad)
        assert type(slope) is torch.Tensor, f"{name} gets no gradient"
        expect.close(slope, part.grad, f"gradient of {name}", tolerance=1e-3)


MORE = ["we want more tea", "more tea we want", "more or less tea", "more tea", "less"]


@private("1.5", tells="Vocabulary is wrong for other sentences or sizes.")
def other_words(Vocabulary):
    vocab = Vocabulary(MORE, 6)
    assert words_of(vocab) == [*SPECIAL, "more", "tea"], "words"
    assert vocab.encode("") == [] and vocab.encode("tea") == [5] and vocab.encode("Tea more") == [3, 4], "encode"
    assert vocab.decode([]) == "" and vocab.decode([5, 4, 1]) == "tea more <pad>", "decode"
    assert size(vocab) == 6 and size(Vocabulary(MORE, 4)) == 4 and size(Vocabulary(MORE, 5)) == 5, "size"
    whole = Vocabulary(MORE, 50)
    words = words_of(whole)
    assert words[4:6] == ["more", "tea"] and sorted(words[6:9]) == ["less", "want", "we"] and words[9:] == ["or"], (
        "order"
    )
    for sentence in MORE:
        assert whole.decode(whole.encode(sentence)) == sentence, "there and back"
    assert words_of(Vocabulary([], 9)) == SPECIAL, "no sentences, or a SPECIAL that grew"


@private("1.5", tells="make_batch is wrong for other batches: one sentence, an empty one, or an exact fit.")
def other_batches(Vocabulary, make_batch):
    vocab = Vocabulary(MORE, 9)
    words = words_of(vocab)
    for sentences, max_len in (
        (["tea"], 8),
        (["", "more tea", "or more"], 3),
        (["we want more tea"], 5),
        (MORE, 2),
        (MORE, 1),
    ):
        rows = [[0, *(words.index(w) if w in words else 3 for w in text.split()), 2] for text in sentences]
        longest = min(max_len, max(len(row) - 1 for row in rows))
        inputs, targets = two_batches(make_batch(sentences, vocab, max_len), (len(rows), longest))
        for row, got, aim in zip(rows, inputs.tolist(), targets.tolist(), strict=True):
            cut = min(longest, len(row) - 1)
            rest = [1] * (longest - cut)
            assert got == row[:cut] + rest and aim == row[1 : cut + 1] + rest, f"{sentences} at {max_len}"


@private("1.6", tells="LanguageModel is wrong for other sizes, lengths or numbers of layers.")
def other_models(LanguageModel):
    for V, width, heads, d_ff, layers, T in ((9, 8, 2, 5, 1, 6), (14, 6, 3, 10, 3, 1), (5, 10, 1, 10, 4, 9)):
        model = LanguageModel(V, width, heads, d_ff, layers)
        state = expect.weights(model, model_shapes(V, width, d_ff, layers), "model", seed=V)
        model.eval()
        tokens = torch.arange(3 * T).reshape(3, T) % V
        wanted = torch_logits(state, tokens, heads, order=range(layers))
        expect.close(expect.floats(model(tokens), (3, T, V), "logits"), wanted, f"{layers} layers", tolerance=1e-3)
        assert sum(item.numel() for item in model.parameters()) == 2 * V * width + V + layers * (
            4 * width**2 + 9 * width + 2 * width * d_ff + d_ff
        ), "number of parameters"


@private("1.6", tells="the layers of a fresh model are equal, or its default dropout is not 0.1.")
def fresh_model(LanguageModel):
    state = LanguageModel(50, 16, 2, 8, 3).state_dict()
    first, second, third = (state[f"layers.{index}.linear1.weight"] for index in range(3))
    assert not (torch.equal(first, second) or torch.equal(second, third) or torch.equal(first, third)), (
        "one layer, copied"
    )
    starts_small(LanguageModel, 90, 40)
    for options, rate in (({}, 0.1), ({"dropout": 0.3}, 0.3)):
        got = dropped(
            lambda options=options: LanguageModel(96, 96, 1, 1, 1, **options), 96, "feed-forward", tokens=True
        )
        assert all(abs(share - rate) < 0.5 * rate for share in got), f"{options}: {got}"
    free = LanguageModel(7, 12, 3, 5, 2, 0.0, False)
    weights = expect.weights(free, model_shapes(7, 12, 5, 2), "model", seed=8)
    tokens = torch.tensor([[2, 5, 6, 1]])
    expect.close(free(tokens), torch_logits(weights, tokens, 3, mask=False), "causal as the seventh argument")


@private("1.7", tells="the loss is wrong for other sizes, or a perplexity for other losses.")
def other_losses(lm_loss, perplexity):
    for B, T, V, pad in ((1, 4, 6, 0), (3, 2, 17, 16), (4, 7, 5, 2)):
        logits, targets = (
            3 * normal(B, T, V, seed=V),
            torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(V)),
        )
        targets[0, 0] = (pad + 1) % V
        wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)
        expect.close(expect.number(lm_loss(logits, targets, pad), "loss"), wanted, f"{B}, {T}, {V}")
    no_pad = torch.tensor([[3, 4]])
    expect.close(
        expect.number(lm_loss(normal(1, 2, 6), no_pad, pad_id=-100), "loss"),
        F.cross_entropy(normal(1, 2, 6)[0], no_pad[0]),
        "no pad",
    )
    for loss in (0.0, 0.5, 7.25):
        expect.close(expect.number(perplexity(loss), "perplexity"), math.exp(loss), f"perplexity({loss})")
    expect.close(expect.number(perplexity(torch.tensor(1.5)), "perplexity"), math.exp(1.5), "of a tensor")


@private("1.7", tells="the loss of a very sure model is not finite, or gradients do not pass through it.")
def sure_and_learning(lm_loss, lib):
    logits, targets = 400 * normal(2, 3, 8, seed=70), torch.tensor([[1, 2, 3], [0, 0, 7]])
    expect.close(
        expect.number(lm_loss(logits, targets, 0), "loss"),
        F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0),
        "sure",
    )
    logits = normal(2, 3, 8, seed=71)

    def wanted(logits, targets, pad):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)

    (slope,) = lib("utils.toys").gradients(lm_loss, [logits], targets, 0)
    expect.close(slope, toys.gradients(wanted, [logits], targets, 0)[0], "gradient")


@private(
    "1.8",
    tells="train_epoch is wrong with another optimizer, padding number or bound, or with batches that come one by one.",
)
def other_epochs(train_epoch, lib):
    for clip, pad, momentum, once, seed in (
        (0.25, 0, 0.9, True, 81),
        (100.0, 3, 0.0, False, 82),
        (1.5, 1, 0.5, True, 83),
    ):
        table, bias, batches = regression_data(6, [(1, 4), (3, 7), (2, 2), (5, 3)], pad, seed=seed)
        model = lib("utils.toys").Bigram(table, bias)
        optimizer = lib("torch.optim").SGD(model.parameters(), lr=0.3, momentum=momentum)
        given = lib("builtins").iter(batches) if once else batches
        options = {} if pad == 1 else {"pad_id": pad}
        loss = train_epoch(model, given, optimizer, clip=clip, **options)
        new_table, new_bias, mean, _ = softmax_regression(table, bias, batches, 0.3, clip, pad, momentum=momentum)
        state = model.state_dict()
        expect.close(state["table"], new_table, f"table, {seed}")
        expect.close(state["bias"], new_bias, f"bias, {seed}")
        expect.close(expect.number(loss, "loss"), mean, f"loss, {seed}")
        assert type(loss) is float, f"the loss is {type(loss)}"


@private("1.8", tells="many epochs on one batch should bring the loss to what the batch allows.")
def overfits(train_epoch, lib):
    table, bias, batches = torch.zeros(5, 5), torch.zeros(5), [[torch.tensor([[0, 2, 3]]), torch.tensor([[2, 3, 4]])]]
    model = lib("utils.toys").Bigram(table, bias)
    optimizer = lib("torch.optim").Adam(model.parameters(), lr=0.3)
    losses = [expect.number(train_epoch(model, batches, optimizer, 1.0), "loss") for _ in range(30)]
    assert abs(losses[0] - math.log(5)) < 1e-4 and losses[-1] < 0.05, f"from {losses[0]} to {losses[-1]}"


@private("1.9", tells="generate is wrong for other prompts, lengths or ends.")
def other_texts(generate, lib):
    for V, prompt, count, eos, seed in (
        (6, [1], 12, 4, 90),
        (11, [5, 0, 2, 9], 7, 2, 91),
        (5, [4, 4], 0, 2, 92),
        (7, [2, 3], 30, 2, 93),
    ):
        table = normal(V, V, seed=seed)
        model = lib("utils.toys").TableModel(table)
        options = {} if eos == 2 else {"eos_id": eos}
        result = numbers_of(generate(model, prompt, max_new=count, temperature=0, top_k=3, **options), prompt)
        assert result == greedy(table, prompt, count, eos), f"{V}, {prompt}, {count}, {eos}"
    drawn = numbers_of(generate(lib("utils.toys").TableModel([[0.0, 0.0, 0.0]]), [0, 1], 200), [0, 1])
    assert drawn[-1] == 2 and drawn[2:].count(2) == 1 and len(drawn) < 100, "the default end is 2"
    model = lib("utils.toys").TableModel([[0.0, 9.0, 1.0]])
    assert numbers_of(generate(model, [2], 3, temperature=0), [2]) == [2, 1, 1, 1], "an end in the prompt is no end"


@private("1.9", tells="the shares of drawn tokens are wrong for another temperature or top_k.")
def other_draws(generate, lib):
    """Pearson's chi-squared test over all that is drawn, so that a temperature 1.5 times too high shows as well."""
    far, freedom, count = 0.0, 0, 300
    for scale, temperature, top_k in (
        (1.0, 0.7, 3),
        (3.0, 8.0, None),
        (4.5, 8.0, 4),
        (0.45, 0.4, 50),
        (0.8, 1.0, None),
    ):
        logits = scale * torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0])
        best = logits.topk(min(top_k or 5, 5))
        wanted = torch.zeros(5).index_put((best.indices,), (best.values / temperature).softmax(-1)) * count
        options = {} if temperature == 1 else {"temperature": temperature, "top_k": top_k}  # the last: as it comes
        got = torch.tensor(shares(generate, lib, logits.tolist(), count, **options)) * count
        assert (got[wanted == 0] == 0).all(), f"{temperature}, {top_k}: a token too many"
        assert (got[wanted > 20] > 0).all(), f"{temperature}, {top_k}: a token is missing"
        far += ((got - wanted)[wanted > 0].square() / wanted[wanted > 0]).sum().item()
        freedom += int((wanted > 0).sum()) - 1
    chance = torch.special.gammaincc(torch.tensor(freedom / 2.0), torch.tensor(far / 2.0)).item()
    assert chance > 1e-8, f"chi squared {far:.0f} at {freedom} degrees of freedom"
    tied = shares(generate, lib, [1.0, 1.0, 1.0, 1.0], 60, top_k=2)
    assert sum(share > 0 for share in tied) == 2, "ties: exactly k tokens remain"
