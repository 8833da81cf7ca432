"""Cases of notebook 10 that students never see: other sizes, orders and edges, drawn for each submission."""

import torch

from autograder.author.checks import private, swept, tells
from utils.checks import nb10_longer_context as seen
from utils.grading import expect
from utils.grading.expect import draw, generator, normal
from utils.grading.remote import EMPTY, promised

tables = swept("10.1", seen.TABLE, without=("memory", "gradients"))
shifts = swept("10.2", seen.SHIFT, without=("dtypes", "layout", "device", "gradients"))
attention = swept("10.3", seen.RELATIVE, without=("values", "device", "gradients", "modes"))
memories = swept("10.4", seen.MEMORY, without=("device", "values"))
reaches = swept("10.6", seen.REACH, without=("memory", "gradients"))
orders = swept("10.8", seen.MASKS)
streams = swept("10.9", seen.STREAMS, without=("values", "device", "gradients"))


@private("10.3", tells="in float64, the output is too inexact. Only the table of 10.1 may be float32.")
def exact_scores(RelativeAttention):
    """The rows of 10.1 are float32, so they count for nothing here."""
    some = draw(1070)
    heads = some.randint(1, 3)
    d, B, T, M = 2 * heads * some.randint(1, 3), some.randint(1, 3), some.randint(2, 6), some.randint(1, 6)
    layer = RelativeAttention(d, heads).double()
    state = expect.weights(layer, seen.relative_shapes(d, heads), "a layer", 1071)
    state["r_proj.weight"] = torch.zeros(d, d)
    layer.load_state_dict(state)
    x, memory = normal(B, T, d, seed=1072).double(), normal(B, M, d, seed=1073).double()
    expect.close(layer(x, memory), seen.relative(state, x, memory, heads), "imprecise", 1e-10)


@private("10.3", tells="a memory of zeros is not used. Its tokens are there like any others: only None is no memory.")
def memory_of_zeros(RelativeAttention):
    some = draw(1075)
    heads, B, T, M = some.randint(1, 3), some.randint(1, 3), some.randint(2, 6), some.randint(1, 6)
    d = 2 * heads * some.randint(1, 3)
    layer = RelativeAttention(d, heads)
    state = expect.weights(layer, seen.relative_shapes(d, heads), "a layer", 1076)
    seen.attended(layer, state, normal(B, T, d, seed=1077), torch.zeros(B, M, d), heads)


# 10.6


@private("10.6", tells="where many layers have long memories, the reach is wrong. Its size has no limit.")
def far_reaches(reach):
    some = draw(1060)
    seen.reaches(reach, [(some.randint(60, 100), some.randint(5000, 10_000), 2, place) for place in (0, 1)])


# 10.5


@private(
    "10.5",
    tells=("the logits or memories are wrong for other numbers of layers, or other lengths of segments or memories."),
)
def other_segments(SegmentModel, lib):
    promised(EMPTY)
    for place in range(3):
        some = draw(1130 + place)
        V, d, layers = some.randint(5, 12), some.randint(2, 6), (1, some.randint(2, 3), 4)[place]
        theirs, ours = seen.fading_parts(lib, V, d, layers)
        model = seen.built(SegmentModel, lib, ours, theirs, 1140 + place)
        text = torch.randint(V, (some.randint(1, 3), some.randint(8, 12)), generator=generator(1150 + place))
        for T in (1 if place == 0 else 2, some.randint(3, 5)):
            seen.segments_read(model, lib, ours, text.split(T, 1), some.randint(1, 9))
        model.eval()
        seen.segments_read(model, lib, ours, text.split(some.randint(3, 5), 1), 0)


@private("10.5", tells=("the logits are wrong if two texts are read in turn, or if segments have different lengths."))
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


# 10.7


LONG = (1055, 2, 130, 5, 3)  # more windows than fit into a portion


def other_sizes() -> list[tuple[int, ...]]:
    """Lengths, contexts, segments, memories and first targets."""
    some = draw(1229)
    sizes = [(some.randint(35, 45), some.randint(2, 9), some.randint(2, 6), some.randint(12, 20), some.randint(1, 9))]
    for place in range(6):
        some = draw(1230 + place)
        n = some.randint(8, 40)
        context = some.randint(1, n - 1)
        first = context if place % 2 else some.randint(1, n - 1)
        sizes.append((n, context, some.randint(1, n + 2), some.randint(0, n), first))
    return sizes


@private("10.7", tells="`evaluate_sliding` is wrong for other texts or contexts, or leaves the model in another mode.")
def other_windows(evaluate_sliding, lib):
    sizes, V = other_sizes(), draw(1240).randint(3, 8)
    seen.evaluated(evaluate_sliding, None, lib, sizes, V, 1241)
    with tells("`evaluate_sliding` is wrong for long texts. Each of tokens[context:] should count the same."):
        seen.evaluated(evaluate_sliding, None, lib, [LONG], V, 1241)


@private(
    "10.7",
    tells="`evaluate_cached` is wrong for other texts, segments, memories or first targets, or leaves another mode.",
)
def other_segments_and_memories(evaluate_cached, lib):
    sizes, V = other_sizes(), draw(1240).randint(3, 8)
    seen.evaluated(None, evaluate_cached, lib, sizes, V, 1241)
    with tells("`evaluate_cached` is wrong for long texts. Each of tokens[first:] should count the same."):
        seen.evaluated(None, evaluate_cached, lib, [LONG], V, 1241)


# 10.9


@private("10.9", tells="a stream is wrong for masks that no order gives, with empty rows.")
def empty_rows(TwoStreamLayer):
    some = draw(1268)
    heads = some.randint(1, 4)
    d, d_ff, T, B = heads * some.randint(3, 5), some.randint(2, 9), some.randint(3, 6), some.randint(1, 3)
    layer = TwoStreamLayer(d, heads, d_ff)
    state = expect.weights(layer, seen.stream_shapes(d, d_ff), f"TwoStreamLayer({d}, {heads}, {d_ff})", 1278)
    layer.eval()
    h, g = normal(B, T, d, seed=1288), normal(B, T, d, seed=1298)
    masks = [torch.rand(T, T, generator=generator(1300 + k)) < 0.4 for k in range(2)]
    masks[0][0] = masks[1][-1] = False
    masks[0][1, 1] = masks[1][1, 1] = True
    seen.streamed(layer, state, h, g, (masks[0], masks[1]), heads)


# 10.10


@private("10.10", tells="the place is wrong for other curves.")
def other_steps(known_from):
    some = draw(10101)
    for place in range(8):
        count = some.randint(2, 40)
        seeds = 6 if place < 3 else some.randint(1, 6)
        curves = seen.falling(some.randint(0, count), count, seeds, 2.0 + place, 10110 + place)
        seen.place_of_step(known_from, curves, 2.0 + place)
    seen.place_of_step(known_from, [[4.0, 1.0, 1.0, 1.0, 3.0, 3.5, 1.0, 1.0]], 4.0)
    for rare in (6.0, 0.5):  # the mean is beyond the two others
        seen.place_of_step(
            known_from, [[4.0, 2.2 - (rare > 2), 1.0], [4.0, 2.2 - (rare > 2), 1.0], [4.0, rare, 1.0]], 4.0
        )
    with tells("the place is wrong if the mean loss is above or below half of the guess by very little."):
        seen.place_of_step(known_from, [[4.0, 2.0, 2.0 - 1e-9, 2.0 + 1e-9, 2.0 - 1e-9, 1.0]], 4.0)
        seen.place_of_step(known_from, [[4.0, 2.0 + 2e-9, 1.0], [4.0, 2.0 - 4e-9, 1.0]], 4.0)
    seen.place_of_step(known_from, [[4.0, 1.0, 1.0, 1.0, 1.0, 3.0]], 4.0)
