"""Cases of notebook 13 that students never see: other sizes, weights, sentences and tables, drawn for each
submission.
"""

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb13_translation as seen
from utils.grading import expect
from utils.grading.expect import draw, generator, normal

# Without what the public checks ask of the same contracts.
ASKED = ("dtypes", "layout", "gradients", "modes", "device")
attentions = swept("13.1", seen.CROSS, without=ASKED)
decoders = swept("13.2", seen.DECODER, without=(*ASKED, "values"))
losses = swept("13.4", seen.LOSS, without=ASKED)
fusions = swept("13.7", seen.FUSED, without=(*ASKED, "values"))
means = swept("13.8", seen.MEAN, without=ASKED)
signs = swept("13.9", seen.SIGN_TEST)


# 13.2


@private("13.2", tells="for other sizes, weights or masks, the layer's output is wrong.")
def other_layers(DecoderLayer, lib):
    for place in range(2):
        some = draw(1400 + place)
        widths = [5, 7, 9] if place < 1 else [2, 3, 6]  # narrow norms hide mistakes
        d, read, d_ff = some.choice(widths), some.randint(1, 9), some.randint(1, 12)
        B, T, S = some.randint(1, 3), some.randint(3, 6), some.randint(1, 7)
        layer, state = seen.layer_of(DecoderLayer, lib, "cross_attention", d, read, d_ff, 0.0, 1410 + place)
        x, memory = normal(B, T, d, seed=1420 + place), normal(B, S, read, seed=1430 + place)
        for allowed in (None, seen.read_mask(B, 1, S, 1440 + 2 * place), seen.read_mask(B, T, S, 1650 + 2 * place)):
            seen.decodes(layer, state, x, memory, allowed)


# 13.3


@private(
    "13.3", tells="for other pairs, some with an empty side, or other values of bos, eos or pad, a table is wrong."
)
def other_pairs(translation_batch):
    for place in range(8):
        some = draw(1450 + place)
        bos, eos, pad, *words = some.sample(range(60), 20)
        pairs = [
            tuple([some.choice(words) for _ in range(some.randint(0, 7 if place else 12))] for _ in range(2))
            for _ in range(some.randint(1, 5))
        ]
        seen.batched(translation_batch, pairs, bos, eos, pad)


# 13.5


@private("13.5", tells="for other corpora, the score is wrong.")
def other_corpora(bleu):
    for place in range(12):
        some = draw(1500 + place)
        words = [f"w{number}" for number in range(some.randint(2, 6))]
        references = [[some.choice(words) for _ in range(some.randint(1, 14))] for _ in range(some.randint(1, 6))]
        hypotheses = []
        for reference in references:
            made = [word if some.random() < 0.8 else some.choice(words) for word in reference]
            cut = some.randint(0, 2)
            hypotheses.append(made[: len(made) - cut] if some.random() < 0.5 else made + made[:cut])
        seen.scored(bleu, hypotheses, references)


# 13.6


@private("13.6", tells="with a `step` of other numbers, the wrong hypothesis is found, or its score is wrong.")
def other_tables(beam_search, lib):
    searches = []
    for place in range(16):
        some = draw(1520 + place)
        V = some.randint(3, 9)
        bos, eos = some.sample(range(V), 2)
        table = seen.tables(1540 + place, 2000, V)  # so many rows that no two sums are the same numbers added
        beams, longest, alpha = some.randint(1, 6), some.randint(1, 7), some.choice([0.0, 1.0, 2 * some.random()])
        searches.append((table, bos, eos, beams, longest, alpha))
    seen.finds(beam_search, lib, searches)


# 13.7


@private("13.7", tells="for other sizes, weights or masks, the fused layer's output is wrong.")
def other_fusions(BertFusedLayer, lib):
    for place in range(2):
        some = draw(1560 + place)
        d, read, d_ff = some.choice([3, 5, 7, 9, 10]), some.randint(1, 9), some.randint(1, 12)
        B, T, L = some.randint(1, 3), some.randint(1, 6), some.randint(2, 7)
        layer, state = seen.layer_of(BertFusedLayer, lib, "bert_attention", d, read, d_ff, 0.0, 1570 + place)
        x, bert = normal(B, T, d, seed=1580 + place), normal(B, L, read, seed=1590 + place)
        masks = seen.read_mask(B, 1, T, 1600 + 4 * place), seen.read_mask(B, 1, L, 1602 + 4 * place)
        by_row = seen.read_mask(B, T, T, 1662 + 4 * place), seen.read_mask(B, T, L, 1664 + 4 * place)
        seen.fuses(layer, state, x, bert, *masks)
        seen.fuses(layer, state, x, bert, *by_row)
        seen.fuses(layer, state, x, bert, None, None)
