"""Private checks of notebook 03: other sizes, the edges that the docstrings promise, and real optimizers."""

from functools import cache

from autograder.private import private
from utils import counting, expect
from utils.checks.nb03_parameter_counting import (
    activations_case,
    adapter_case,
    after_freezing,
    attention_case,
    bert_case,
    classifier_case,
    compare,
    embedding_case,
    feed_forward_case,
    flops_case,
    fusion_case,
    lm_case,
    norms_case,
    real_layer,
    real_stack,
    shapes_of,
    whole,
)

OTHER = "the count is right for some sizes and wrong for others."


@cache
def real_model_of_bert():
    return counting.bert(V=30_522, D=768, F=3_072, L=12)


@private("3.1", tells=OTHER)
def other_tables(embedding):
    cases = [embedding_case(119_547, 1_024, 514), embedding_case(3, 1, 2), embedding_case(5, 91, 5)]
    compare(embedding, "embedding", cases, {}, OTHER)
    compare(embedding, "embedding", [embedding_case(1, 1), embedding_case(28_996, 312)], {}, OTHER)


@private("3.2", tells=OTHER)
def other_attentions(attention):
    compare(attention, "attention", [attention_case(D, H) for D, H in ((1, 1), (48, 3), (1_024, 16))], {}, OTHER)
    compare(attention, "attention", [attention_case(D, H, False) for D, H in ((7, 7), (96, 4))], {}, OTHER)
    compare(attention, "attention", [attention_case(33, 11, True)], {}, OTHER)


@private("3.3", tells=OTHER)
def other_feed_forwards(feed_forward):
    cases = [feed_forward_case(D, F) for D, F in ((1, 1), (40, 7), (1_024, 4_096))]
    compare(feed_forward, "feed_forward", cases, {}, OTHER)
    cases = [feed_forward_case(D, F, False) for D, F in ((1, 3), (77, 19))]
    compare(feed_forward, "feed_forward", cases, {}, OTHER)
    compare(feed_forward, "feed_forward", [feed_forward_case(21, 8, True)], {}, OTHER)


@private("3.4", tells="norms are miscounted for sizes or kinds that the docstring allows, or a wrong kind is accepted.")
def other_norms(norms):
    compare(norms, "norms", [norms_case(D, n) for D, n in ((1, 7), (312, 49))], {}, OTHER)
    compare(norms, "norms", [norms_case(1), norms_case(1_024)], {}, OTHER)
    compare(norms, "norms", [norms_case(D, n, kind) for D, n, kind in ((9, 2, "rms"), (31, 6, "layer"))], {}, OTHER)
    for kind in ("", "Layer", "layernorm", "rmsnorm", "batch"):
        expect.raises(lambda kind=kind: norms(4, 1, kind), "ValueError", f"{kind!r} is accepted.")


@private("3.5", tells=OTHER)
def other_layers(transformer_layer):
    cases = [({"D": D, "F": F}, real_layer(D, F)) for D, F in ((1, 1), (40, 7), (312, 1_200), (1_024, 4_096))]
    compare(transformer_layer, "transformer_layer", cases, {}, OTHER)


@private("3.6", tells=OTHER)
def other_language_models(language_model):
    cases = [lm_case(1, 3, 2, 1), lm_case(57, 12, 30, 7), lm_case(19, 21, 5, 0)]
    compare(language_model, "language_model", cases, {}, OTHER)
    tied = [lm_case(57, 12, 30, 7, True), lm_case(2, 5, 3, 6, True)]
    compare(language_model, "language_model", tied, {}, OTHER)
    compare(language_model, "language_model", [lm_case(31, 9, 4, 5, False)], {}, OTHER)


@private("3.7", tells=OTHER)
def other_classifiers(classifier):
    cases = [classifier_case(57, 12, 30, 7, 1), classifier_case(3, 8, 5, 2, 9), classifier_case(19, 21, 5, 0, 6)]
    compare(classifier, "classifier", cases, {}, OTHER)
    deep = [classifier_case(57, 12, 30, 7, 1, 5), classifier_case(9, 16, 5, 2, 20, 2)]
    compare(classifier, "classifier", deep, {}, OTHER)


@private("3.8", tells=OTHER)
def other_berts(bert):
    cases = [bert_case(57, 12, 30, 7), bert_case(28_996, 312, 1_200, 4)]
    compare(bert, "bert", cases, {}, OTHER)
    cases = [bert_case(57, 12, 30, 7, P=40, S=3), bert_case(2, 10, 7, 3, P=1, S=5)]
    compare(bert, "bert", cases, {}, OTHER)
    cases = [bert_case(57, 12, 30, 7, P=40, S=3, pooler=False), bert_case(2, 10, 7, 3, P=1, S=5, pooler=True)]
    compare(bert, "bert", cases, {}, OTHER)


@private(
    "3.9",
    tells="what is left to train is miscounted for some models or lists, or a name that fits nothing is accepted.",
)
def other_freezing(trainable):
    bert, tower = real_model_of_bert(), real_stack(23, 4, 9)
    lists = {
        bert: (["embeddings", "encoder.layer.1", "encoder.layer.11"], ["encoder.layer.2.attention"], ["pooler.dense"]),
        tower: (["encoder.layer.2"], ["encoder", "embeddings", "pooler", "scale"], ["scale", "scale"], []),
    }
    for model, parts in lists.items():
        shapes = shapes_of(model)
        for frozen in parts:
            got = whole(trainable(shapes, frozen), "the count")
            assert got == after_freezing(model, frozen), f"wrong with {frozen}"
    shapes = shapes_of(tower)
    for typo in ("enc", "encoder.layer.23", "linear1", "encoder.", "weight", "", "scale.weight"):
        expect.raises(lambda typo=typo: trainable(shapes, [typo]), "ValueError", f"{typo!r} is accepted.")
        expect.raises(lambda typo=typo: trainable(shapes, [typo, "encoder"]), "ValueError", f"{typo!r} comes first.")


@private("3.10", tells="the count is wrong for some reductions, among them those near or above the width.")
def other_adapters(adapter):
    cases = [adapter_case(64, 1), adapter_case(312, 4), adapter_case(10, 3)]
    compare(adapter, "adapter", cases, {}, OTHER)
    cases = [adapter_case(20, 3, 30), adapter_case(20, 3, 20), adapter_case(21, 2, 2), adapter_case(48, 6, 5)]
    compare(adapter, "adapter", cases, {}, OTHER)
    compare(adapter, "adapter", [adapter_case(20, 3, 30, 2), adapter_case(48, 6, 5, 1)], {}, OTHER)


@private("3.11", tells=OTHER)
def other_fusions(fusion):
    cases = [fusion_case(D, L, n) for D, L, n in ((10, 1, 2), (52, 7, 5), (312, 4, 3))]
    compare(fusion, "fusion", cases, {}, OTHER)


@private("3.12", tells="memory or FLOPs are right for some sizes and wrong for others.")
def other_costs(training_memory, flops_per_token):
    cases = [
        activations_case(*sizes)
        for sizes in ((5, 3, 6, 31, 4, 1, 77, 5), (1, 1, 4, 2, 1, 4), (2, 19, 16, 8, 5, 8, 9, 9))
    ]
    compare(training_memory, "training_memory", cases, {}, OTHER)
    cases = [flops_case(*sizes) for sizes in ((1, 4, 2, 1, 3), (40, 6, 30, 5, 2), (9, 16, 16, 7, 1_000))]
    compare(flops_per_token, "flops_per_token", cases, {}, OTHER)
