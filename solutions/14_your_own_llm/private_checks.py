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


# 14.1


@private(
    "14.1", tells="the result in bfloat16 is wrong. It should be the fraction in float32, rounded, times the weight."
)
def other_numbers(RMSNorm):
    d = draw(1430).randint(40, 90)
    module, weight = seen.norm_with_weight(RMSNorm, d, 1e-6, 1431)
    with tells("for an x without any vector, the result should be an empty tensor of the same shape."):
        expect.floats(module(torch.zeros(0, 2, d)), (0, 2, d), "the result")
    module.bfloat16()
    x, w = normal(60, d, seed=1433).bfloat16(), weight.bfloat16()
    wide = x.float()
    wanted = w * (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).bfloat16()
    found = expect.tensor(module(x), (60, d), "the result")
    assert found.dtype is torch.bfloat16 and (found == wanted).float().mean() > 0.98, "rounding"


# 14.2


@private(
    "14.2",
    tells="scores of rotated queries and keys should depend on the distance alone. They depend on the positions too.",
)
def distance_alone(rotary):
    some = draw(1460)
    q, k, gap = normal(3, 4, 8, seed=1462), normal(3, 4, 8, seed=1463), some.randint(1, 9)
    near, far = (rotary(q, at + gap) @ rotary(k, at).mT for at in (0, some.randint(40, 120)))
    assert expect.near(near, far, atol=1e-3)


# 14.3


@private("14.3", tells="a text that is read in pieces, with a past, gives other results than the whole text at once.")
def in_pieces(Attention, lib):
    for place in range(2):
        some = draw(1510 + place)
        n, m = ((6, 2), (3, 1))[place]
        d, B = 4 * n, some.randint(1, 3)
        module, state = seen.attention_with_weights(Attention, lib, d, n, m, 1520 + place)
        cuts = [some.randint(8, 10), some.randint(1, 3), 1, some.randint(2, 4)]
        x = normal(B, sum(cuts), d, seed=1530 + place)
        wanted, (keys, values) = seen.attended(state, x, n, m)
        past, at = None, 0
        for count in cuts:
            piece = x[:, at : at + count].contiguous()
            found = module(piece) if past is None else module(piece, past)
            at += count
            output, past = seen.output_and_pair(found, (B, count, d), m, at, n)
            assert expect.near(output, wanted[:, at - count : at], rtol=1e-3, atol=1e-4), (cuts, at)
        assert expect.near(past[0], keys, atol=1e-4) and expect.near(past[1], values, atol=1e-4), "kept"


@private("14.3", tells="with another rotation as the argument, the output is wrong. Use the function that is given.")
def other_rotations(Attention, lib):
    some = draw(1560)
    n, m, d = 4, 2, 8 * some.randint(1, 2)
    module = Attention(d, n, m, lib(toys).unmarked)
    state = expect.weights(module, seen.kv_shapes(d, n, m), "Attention", seed=1561)
    x = normal(2, 6, d, seed=1562)
    output, _ = seen.output_and_pair(module(x), (2, 6, d), m, 6, n)
    assert expect.near(output, seen.attended(state, x, n, m, turn="")[0], rtol=1e-3, atol=1e-4), "another rotation"


@private("14.3", tells="sizes that fit together are refused.")
def sizes_of_heads(Attention, lib):
    some = draw(1570)
    for d, n, m in ((12 * some.randint(1, 3) + 1, 4, 2), (24, 4, 3), (30, 5, 2), (16, 2, 4)):
        with tells("sizes that do not fit together should raise ValueError."):
            expect.refuses(Attention, d, n, m, lib(toys).marked, says=f"{d}, {n}, {m} accepted")
    for d, n, m in ((6, 3, 3), (some.randint(1, 9), 1, 1), (24, 12, 4)):
        Attention(d, n, m, lib(toys).marked)


# 14.4


@private("14.4", tells="`Block` is wrong for another width.")
def other_blocks(SwiGLU, Block, lib):
    d = draw(1580).randint(3, 9)
    with tells("`SwiGLU` is wrong for other sizes."):
        seen.gated_feed_forward(SwiGLU, d, d, 1590)
    seen.block_is_pre_norm(Block, lib, d, 1620)


@private("14.4", tells="the past should be handed on as the attention returned it, whatever it is.")
def other_pasts(Block, lib):
    some = draw(1690)
    d = some.randint(3, 7)
    attention = lib(toys).Counts()
    block = Block(lib(nn).LayerNorm(d), attention, lib(nn).LayerNorm(d), lib(nn).Linear(d, d))
    x, past = normal(2, 3, d, seed=1691), None
    for calls in range(1, 4):
        _, past = expect.items(block(x, past), 2, "the result")
        assert past == {"calls": calls}, "the past"


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


@private("14.5", tells="after a step of training, a tied head and the embedding differ, or have not learned.")
def after_a_step(LLM, lib):
    some = draw(1800)
    V, d = some.randint(5, 12), some.randint(3, 6)
    model, _ = seen.llm_with_weights(LLM, lib, V, d, 2, True, 1801)
    tokens = torch.randint(V, (2, 3), generator=expect.generator(1802))
    before = model.state_dict()["embedding.weight"].clone()
    lib(toys).step_of_part(
        lib(toys).First(model), model, tokens, torch.randint(3, (2, V), generator=expect.generator(1803))
    )
    now = model.state_dict()
    assert torch.equal(now["embedding.weight"], now["head.weight"]) and not torch.equal(now["head.weight"], before), (
        "tied"
    )
    model.double()
    with tells("for a model in double precision, the logits are not float64."):
        assert model(tokens)[0].dtype is torch.float64, "dtype"


# 14.6


@private(
    "14.6", tells="other prompts are continued wrongly, or the model is called with other tokens than it should be."
)
def other_texts(generate, lib):
    for place in range(3):
        some = draw(1810 + place)
        prompt = [some.randrange(9) for _ in range(some.randint(1, 7))]
        seen.writes_the_best(generate, lib, prompt, (1, some.randint(2, 9), some.randint(10, 20))[place], 1820 + place)


@private(
    "14.6", tells="at other temperatures, tokens are not drawn with the probabilities softmax(logits / temperature)."
)
def other_temperatures(generate, lib):
    some = draw(1830)
    seen.draws_the_same(generate, lib, [2.0**power for power in some.sample(range(-12, 9), 3)], 1830)
    text = seen.drawn(generate, lib, [1.2, 0.0, 0.7], 1.0, 150, 1832, cached=False)
    shares = torch.tensor([1.2, 0.0, 0.7]).softmax(-1)
    found = torch.tensor([text.count(token) / 150 for token in range(3)])
    with tells("without the cache, tokens are not drawn with the probabilities softmax(logits / temperature)."):
        assert ((found - shares).abs() < 5.5 * (shares * (1 - shares) / 150).sqrt()).all(), "without the cache"


@private("14.6", tells="where many tokens are likely, some are never drawn.")
def many_tokens(generate, lib):
    text = seen.drawn(generate, lib, [place / 1000 for place in range(60)], 1.0, 300, 1840)
    assert len({*text}) > 52, f"{len({*text})} of 60 were drawn"  # 59.6 on average; 50 where 50 are kept


# 14.7


@private("14.7", tells="for heads of other sizes, rows are reordered wrongly.")
def other_heads(to_halves):
    for place in range(4):
        some = draw(1840 + place)
        seen.reorders(
            to_halves, some.randint(1, 5), (2, 4, 6, 2 * some.randint(4, 8))[place], some.randint(1, 9), 1850 + place
        )


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


@private(
    "14.8",
    tells="the merges are wrong for other texts, such as ones with many equally frequent pairs.",
    part="train_bpe",
)
def other_merges(train_bpe):
    for place in range(4):
        some = draw(1900 + place)
        words = ["".join(some.choice("abé😀 "[: 2 + place]) for _ in range(some.randint(1, 6))) for _ in range(20)]
        text = " ".join(some.choice(words) for _ in range(40))
        seen.learns_these(train_bpe, text, some.randint(5, 30))


@private("14.8", tells="the merges of a long text are wrong, as if only a part of it were counted.", part="train_bpe")
def long_texts(train_bpe):
    some = draw(1905)
    letters = "".join(some.choice("abcdefghijklmnopqrst") for _ in range(460))
    assert len(seen.learned(letters, 330)) == 330, "too few letters"
    with tells("where hundreds of merges are asked for, they are wrong or too few."):
        seen.learns_these(train_bpe, letters, 330)
    seen.learns_these(train_bpe, "ab " * some.randint(4000, 4500) + "yz " * some.randint(4600, 5000), 1)


@private("14.8", tells="for other texts or merges, the tokens are not those of the tokenizers library.", part="encode")
def other_tokens(encode, lib):
    for place in range(4):
        some = draw(1910 + place)
        merges = seen.learned(seen.text_of(1920 + place, 300), some.randint(20, 120))
        letters = "".join(some.choice("aeilnostw éü日😀\n") for _ in range(120))
        for text in (seen.text_of(1930 + place, 150), letters, "a" * some.randint(5, 40)):
            seen.gives_tokens(encode, lib, text, merges)


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


@private("14.8", tells="tokens that stand for no text, or tokens of many merges, are decoded wrongly.", part="decode")
def other_texts_again(decode, lib):
    for place in range(4):
        some = draw(1940 + place)
        merges = seen.learned(seen.text_of(1950 + place, 300), some.randint(20, 120))
        with tells("the tokens of other texts are not decoded to the text again."):
            seen.gives_text(decode, lib, seen.encoded(seen.text_of(1960 + place, 150), merges), merges)
        seen.gives_text(decode, lib, [some.randrange(256 + len(merges)) for _ in range(60)], merges)
    seen.gives_text(decode, lib, range(635, 255, -1), seen.many_merges(1970, 380))
