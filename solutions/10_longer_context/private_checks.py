"""Cases of notebook 10 that students never see: other sizes, orders and edges, drawn for each submission."""

import torch

from autograder.author.checks import private
from utils.checks import nb10_longer_context as seen
from utils.grading import expect
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import EMPTY, promised

# 10.1


@private("10.1", tells="for other numbers of distances or columns the table is wrong")
def other_tables(distance_table):
    for place in range(8):
        some = draw(1000 + place)
        seen.tabled(distance_table, some.randint(1, 40), 2 * some.randint(1, 12))
    seen.tabled(distance_table, draw(1010).randint(200, 400), 4)


# 10.2


@private("10.2", tells="scores of other sizes, of no text, in double precision or not contiguous, are moved wrongly")
def other_shifts(shift, lib):
    for place in range(6):
        some = draw(1020 + place)
        T = (1, 2, some.randint(3, 7), some.randint(3, 7), some.randint(3, 7), 8)[place]
        S = T + (some.randint(1, 6), 0, 0, 1, some.randint(2, 9), some.randint(0, 3))[place]
        scores = normal(some.randint(1, 3), some.randint(1, 4), T, S, seed=1030 + place)
        seen.moved(shift, lib, scores.double() if place % 2 else scores, strided=place == 4)
    empty = shift(torch.zeros(0, 2, 3, 5))
    assert type(empty) is torch.Tensor and empty.shape == (0, 2, 3, 5), "no text"


# 10.3


@private("10.3", tells="for other widths, heads, segments or memories the output is wrong")
def other_attention(RelativeAttention, lib):
    for place in range(5):
        some = draw(1040 + place)
        heads = some.randint(1, 4)
        d = heads * 2 * some.randint(2, 4)
        layer = RelativeAttention(d, heads)
        state = expect.weights(layer, seen.relative_shapes(d, heads), f"RelativeAttention({d}, {heads})", 1050 + place)
        B, T = some.randint(1, 3), some.randint(1, 6)
        x = normal(B, T, d, seed=1060 + place)
        for M in (some.randint(11, 14) if place == 0 else some.randint(1, 9), T, 0):
            seen.attended(layer, state, x, normal(B, M, d, seed=1070 + M), heads)
        seen.attended(layer, state, x, None, heads)
        layer.eval()
        seen.attended(layer, state, x[:1, :1], None, heads)


# 10.4


@private("10.4", tells="for other lengths of memory and segment, something else is kept, or a gradient flows")
def other_memories(next_memory, lib):
    promised(EMPTY)
    for place in range(12):
        some = draw(1080 + place)
        B, T, d, M = some.randint(1, 4), some.randint(1, 7), some.randint(1, 5), some.randint(0, 7)
        M += 12 * (place == 0)
        memory = None if place % 4 == 3 else normal(B, M, d, seed=1090 + place)
        hidden = normal(B, T, d, seed=1110 + place)
        for m in (0, T, M, M + T, some.randint(1, M + T + 3)):
            seen.remembered(next_memory, lib, memory, hidden, m)


# 10.5


@private("10.5", tells="for other layers, segments or memories, logits or memories are wrong")
def other_segments(SegmentModel, lib):
    promised(EMPTY)
    for place in range(3):
        some = draw(1130 + place)
        V, d, layers = some.randint(5, 12), some.randint(2, 6), (1, some.randint(2, 3), 4)[place]
        theirs, ours = seen.fading_parts(lib, V, d, layers)
        model = seen.built(SegmentModel, lib, ours, theirs, 1140 + place)
        text = torch.randint(V, (some.randint(1, 3), some.randint(8, 12)), generator=generator(1150 + place))
        for T in (1 if place == 0 else 2, some.randint(3, 5)):
            seen.segments_read(model, ours, text.split(T, 1), some.randint(1, 9))
        model.eval()
        seen.segments_read(model, ours, text.split(some.randint(3, 5), 1), 0)


@private("10.5", tells="two texts that are read in turn, or segments of unequal length, are mixed up")
def two_texts(SegmentModel, lib):
    some = draw(1160)
    V, d = some.randint(5, 12), some.randint(2, 6)
    theirs, ours = seen.fading_parts(lib, V, d, 2)
    model = seen.built(SegmentModel, lib, ours, theirs, 1161)
    texts = [torch.randint(V, (2, 9), generator=generator(1162 + place)) for place in range(2)]
    right = [seen.read_on(ours, text.split([4, 2, 3], 1), 5) for text in texts]
    memories = [None, None]
    for place in range(3):
        for one, text in enumerate(texts):
            segment = text.split([4, 2, 3], 1)[place]
            logits, memories[one] = expect.items(model(segment, memories[one], 5), 2, "two things")
            expect.close(logits, right[one][place][0], "two texts in turn")


# 10.6


@private("10.6", tells="for other layers, memories, segments or places the reach is wrong")
def other_reaches(reach):
    for place in range(60):
        some = draw(1170 + place)
        T = some.randint(1, 9)
        mem_len = some.choice([some.randint(0, 30), T * some.randint(0, 4)])
        seen.reaches(reach, some.randint(1, 7), mem_len, T, some.randrange(T))


# 10.7


@private(
    "10.7", tells="for other texts, contexts, segments or memories a loss or a count is wrong, or a mode is changed"
)
def other_texts(evaluate_sliding, evaluate_cached, lib):
    some = draw(1229)
    sizes = [(some.randint(35, 45), some.randint(2, 9), some.randint(2, 6), some.randint(12, 20), some.randint(1, 9))]
    for place in range(6):
        some = draw(1230 + place)
        n = some.randint(8, 40)
        context = some.randint(1, n - 1)
        first = context if place % 2 else some.randint(1, n - 1)
        sizes.append((n, context, some.randint(1, n + 2), some.randint(0, n), first))
    seen.evaluated(evaluate_sliding, evaluate_cached, lib, sizes, draw(1240).randint(3, 8), 1241)


# 10.8


@private("10.8", tells="for other orders the masks are wrong")
def other_orders(permutation_masks):
    for place in range(8):
        some = draw(1250 + place)
        T = some.randint(1, 9) if place else some.randint(8, 12)
        seen.masked(permutation_masks, some.sample(range(T), T))


# 10.9


@private("10.9", tells="for other widths, heads, orders or masks with empty rows, a stream is wrong")
def other_streams(TwoStreamLayer):
    for place in range(4):
        some = draw(1260 + place)
        heads = some.randint(1, 4)
        d, d_ff, T = heads * some.randint(3, 5), some.randint(2, 9), some.randint(1 if place < 3 else 3, 6)
        layer = TwoStreamLayer(d, heads, d_ff)
        name = f"TwoStreamLayer({d}, {heads}, {d_ff})"
        state = expect.weights(layer, seen.stream_shapes(d, d_ff), name, 1270 + place)
        B = some.randint(1, 3)
        h, g = normal(B, T, d, seed=1280 + place), normal(B, T, d, seed=1290 + place)
        masks = seen.masks_of(some.sample(range(T), T))
        if place == 3:  # any masks: some rows empty in both
            masks = tuple(torch.rand(T, T, generator=generator(1300 + k)) < 0.4 for k in range(2))
            masks[0][0] = masks[1][-1] = False
            masks[0][1, 1] = masks[1][1, 1] = True
        seen.streamed(layer, state, h, g, masks, heads)
        layer.eval()
        seen.streamed(layer, state, h, g, masks, heads)
