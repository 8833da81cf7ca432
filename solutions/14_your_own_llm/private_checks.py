"""Cases of notebook 14 that students never see: other sizes, pasts, positions and files, drawn for each submission."""

import torch
from torch import nn

from autograder.author.checks import private, swept, tells
from utils.checks import nb14_toys as toys
from utils.checks import nb14_your_own_llm as seen
from utils.grading import expect
from utils.grading.expect import draw, normal

# Without what the public checks ask of the same contracts.
norms = swept("14.1", seen.RMS_NORM, without=("values", "dtypes", "layout", "gradients", "modes", "device"))
turns = swept("14.2", seen.ROTARY, without=("large", "dtypes", "layout", "gradients", "device"))
attentions = swept("14.3", seen.ATTENTION, without=("large", "dtypes", "layout", "gradients", "modes", "device"))
gates = swept("14.4", seen.SWIGLU, without=("dtypes", "layout", "gradients", "modes", "device"))
blocks = swept("14.4", seen.BLOCK, without=("dtypes", "layout", "values", "large", "gradients", "modes", "device"))
models = swept("14.5", seen.LLM_UNTIED, without=("dtypes", "layout", "values", "modes", "device"))
halves = swept("14.7", seen.HALVES, without=("dtypes", "layout", "device"))
merges = swept("14.8", seen.TRAINS, "train_bpe")
tokens = swept("14.8", seen.ENCODES, "encode")
texts = swept("14.8", seen.DECODES, "decode")


# 14.4


@private("14.4", tells="a norm that is given twice should stay one module. Keep the very modules that are given.")
def one_norm_twice(Block, lib):
    d = draw(1690).randint(3, 9)
    norm, keeper, mlp = lib(nn).LayerNorm(d), lib(toys).Keeper(d), lib(nn).Linear(d, d)
    block = Block(norm, keeper, norm, mlp)
    given = sum(part.numel() for one in (norm, keeper, mlp) for part in one.parameters())
    assert sum(part.numel() for part in block.parameters()) == given, "a copy of the norm"


# 14.5


@private("14.5", tells="the model is wrong for other numbers of blocks or other sizes.")
def other_models(LLM, lib):
    for place, layers in ((1, 4), (2, 2)):
        some = draw(1700 + place)
        V, d = some.randint(5, 20), some.randint(4, 9)
        V, d = (d, V) if place == 2 and V > d else (V, d)
        model, state = seen.llm_with_weights(LLM, lib, V, d, layers, place != 1, 1710 + 20 * place)
        B, T = ((3, 3), (1, 1), (some.randint(1, 4), some.randint(2, 6)))[place]
        tokens = torch.randint(V, (B, T), generator=expect.generator(1770 + place))
        seen.answers_as_told(model, state, tokens, layers, 1780 + 5 * place)


@private("14.5", tells="a block that is given twice should run twice, each time with its own past.")
def one_block_twice(LLM, lib):
    some = draw(1810)
    V, d = some.randint(5, 12), some.randint(3, 6)
    first, second = (lib(toys).Keeper(d) for _ in range(2))
    model = LLM(V, d, [first, second, first], lib(nn).LayerNorm(d))
    tokens = torch.randint(V, (2, 3), generator=expect.generator(1811))
    seen.answers_as_told(model, expect.state(model, "`LLM`"), tokens, 3, 1812)


# 14.6


@private(
    "14.6", tells="at other temperatures, tokens are not drawn with the probabilities softmax(logits / temperature)."
)
def other_temperatures(generate, lib):
    some = draw(1830)
    seen.draws_the_same(generate, lib, [2.0**power for power in some.sample(range(-12, 9), 3)], 1830)
    text = seen.drawn(generate, lib, [1.2, 0.0, 0.7], 1.0, 150, 1832, cached=False)
    shares = torch.tensor([1.2, 0.0, 0.7]).softmax(-1).tolist()
    with tells("without the cache, tokens are not drawn with the probabilities softmax(logits / temperature)."):
        for token, share in enumerate(shares):
            expect.likely(text.count(token), len(text), share, "without the cache", sigmas=7)


@private("14.6", tells="where many tokens are likely, some are never drawn.")
def many_tokens(generate, lib):
    text = seen.drawn(generate, lib, [place / 1000 for place in range(60)], 1.0, 300, 1840)
    assert len({*text}) > 52, f"{len({*text})} of 60 were drawn"  # 59.6 on average; 50 where 50 are kept


# 14.7


@private("14.7", tells="other checkpoints are converted wrongly.")
def other_files(to_halves, convert):
    for place in range(3):
        some = draw(1860 + place)
        n, m = ((4, 2), (6, 3), (5, 1))[place]
        d_head, tied = 2 * some.randint(2, 4), some.random() < 0.5
        layers = some.sample(range(some.choice([4, 90])), some.randint(2, 4))
        state = seen.checkpoint(layers, n, m, d_head, tied, 1870 + 60 * place)
        seen.takes(convert, state, (None, d_head, d_head)[place], tied)
        tables = {**state, f"model.layers.{layers[0]}.self_attn.rotary_emb.inv_freq": torch.ones(2)}
        seen.names_are_right(convert(tables), seen.converted(state), tied)
    state = seen.checkpoint([0, 100 + draw(1865).randint(0, 30)], 2, 1, 4, False, 1881)
    with tells("a checkpoint with layer numbers of three digits is refused, or converted wrongly."):
        expect.answers(convert, state, says="an error")
        seen.takes(convert, state, None, False)
    for tied in (False, True):
        state = seen.checkpoint([0], 2, 1, 4, tied, 1885)
        backwards = {name: state[name] for name in reversed(state)}
        with tells("a checkpoint whose names come in another order is converted wrongly."):
            seen.takes(convert, backwards, None, tied)


@private("14.7", tells="a name that has no place in the model should raise ValueError.")
def other_names(convert):
    some = draw(1890)
    for name in (
        f"model.layers.{some.randint(0, 1)}.self_attn.{some.choice('kv')}_proj.bias",
        f"model.layers.0.{some.choice(['self_attn.qkv_proj', 'mlp.router', 'norm'])}.weight",
        some.choice(["model.embed_positions.weight", "score.weight", "lm_head.bias", "model.norm.bias"]),
        "model.layers.0.self_attn.rotary_emb.weight",
        "model.rotary_emb.inv_freq.weight",
    ):
        state = {**seen.checkpoint([0, 1], 3, 1, 4, False, 1891), name: torch.ones(2)}
        expect.refuses(convert, state, says=f"{name} accepted")
    state = {**seen.checkpoint([0, 1], 3, 1, 4, False, 1891), "draft.model.layers.0.mlp.up_proj.weight": torch.ones(2)}
    with tells("a name counts as a whole: with something before `model.layers`, it should raise ValueError."):
        expect.refuses(convert, state, says="a name in front accepted")


# 14.8


@private("14.8", tells="the merges of a long text are wrong, as if only a part of it were counted.", part="train_bpe")
def long_texts(train_bpe):
    some = draw(1905)
    letters = "".join(some.choice("abcdefghijklmnopqrst") for _ in range(460))
    assert len(seen.known_merges(letters, 330)) == 330, "too few letters"
    with tells("where hundreds of merges are asked for, they are wrong or too few."):
        seen.learns_these(train_bpe, letters, 330)
    seen.learns_these(train_bpe, "ab " * some.randint(4000, 4500) + "yz " * some.randint(4600, 5000), 1)


@private("14.8", tells="with many merges, some pairs are not joined, or joined wrongly.", part="encode")
def many_merges(encode, lib):
    merges = seen.many_merges(1935, 380)
    some = draw(1936)
    letters = "".join(some.choice("abcdefghijklmnopqrst ") for _ in range(600))
    seen.gives_tokens(encode, lib, letters, merges)


@private(
    "14.8",
    tells="a piece in which hundreds of pairs are joined, one after the other, is joined wrongly.",
    part="encode",
)
def one_long_piece(encode, lib):
    some = draw(1938)
    letters = "a" + "".join(some.choice("bcdefghijklmnopqrst") for _ in range(some.randint(760, 800)))
    merges = [(97, ord(letters[1]))] + [(256 + place, ord(letter)) for place, letter in enumerate(letters[2:])]
    found = lib(toys).Paired(encode)(letters, [[*pair] for pair in merges])
    assert found == seen.encoded(letters, merges), "other tokens"
