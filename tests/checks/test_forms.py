"""The sums by which notebook 03's private checks count are those of the models that the libraries build."""

import pytest
import torch

from autograder import course
from autograder.author.checks import load_module
from utils.checks import nb03_parameter_counting as checks
from utils.grading import expect

ENTRY = course.load().notebook("03_parameter_counting")
FORMS = load_module(course.folder_of(ENTRY) / "private_checks.py")
DRAWS = range(6)


def agree(form, case):
    sizes, count = case
    assert count > 0 and form(**sizes) == count, sizes


@pytest.fixture(params=DRAWS)
def pick(request):
    return expect.draw(request.param)


def test_parts_of_a_layer(pick):
    D, F, V = (pick.randint(1, 60) for _ in range(3))
    H = pick.randint(1, 5)
    for P in (None, 0, 3):
        agree(FORMS.embedding_form, checks.embedding_case(V, D, P))
    for bias in (None, False, True):
        agree(FORMS.linear_form, checks.linear_case(D, F, bias))
        agree(FORMS.attention_form, checks.attention_case(H * D, H, bias))
    for kind in (None, "rms", "layer"):
        agree(FORMS.norm_form, checks.norm_case(D, kind))
    agree(FORMS.layer_form, ({"D": D, "F": F}, checks.real_layer(D, F)))


def test_grouped_attention_is_that_of_llama(pick):
    from transformers import DynamicCache, LlamaConfig, LlamaModel

    G, L, B, T = (pick.randint(1, 4) for _ in range(4))
    H = G * pick.randint(1, 3)
    D = H * 2 * pick.randint(1, 5)
    for bias in (None, False, True):
        sizes, count = checks.grouped_case(D, H, G, bias)
        config = LlamaConfig(
            vocab_size=7, hidden_size=D, intermediate_size=3, num_hidden_layers=L, num_attention_heads=H,
            num_key_value_heads=G, attention_bias=bias is True,
        )  # fmt: skip
        model = checks.on_meta(LlamaModel, config)
        assert count == checks.numel(model.layers[0].self_attn)
        agree(FORMS.grouped_form, (sizes, count))
    model, cache = LlamaModel(config).eval(), DynamicCache(config=config)
    with torch.no_grad():
        model(torch.zeros(B, T, dtype=torch.long), past_key_values=cache, use_cache=True)
    kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    sizes, count = checks.cache_case(B, T, D, L, H, G, 4)
    assert count == 4 * kept > 0
    agree(FORMS.cache_form, (sizes, count))
    agree(FORMS.cache_form, checks.cache_case(B, T, D, L, H, G))


def test_whole_models(pick):
    V, D, F, L, C = (pick.randint(2, 20) for _ in range(5))
    for tied in (None, False, True):
        agree(FORMS.language_model_form, checks.lm_case(V, D, F, L, tied))
    for head_layers in (None, 1, 2, 3):
        agree(FORMS.classifier_form, checks.classifier_case(V, D, F, L, C, head_layers))
    for options in ({}, {"P": 7, "S": 3}, {"P": 9, "S": 1, "pooler": False}):
        agree(FORMS.bert_form, checks.bert_case(V, D, F, L, **options))


def test_adapters_and_fusion(pick):
    D, L = pick.randint(10, 90), pick.randint(1, 4)
    agree(FORMS.adapter_form, checks.adapter_case(D, L))
    for reduction in (pick.randint(2, 9), D - 1, D, D + 1, D + 30):
        agree(FORMS.adapter_form, checks.adapter_case(D, L, reduction, pick.randint(1, 2)))
    agree(FORMS.fusion_form, checks.fusion_case(D, L, pick.randint(2, 4)))


def test_memory_and_flops(pick):
    B, T, D, F, L = (pick.randint(2, 12) for _ in range(5))
    H = pick.randint(1, 4)
    agree(FORMS.memory_form, checks.activations_case(B, T, H * D, F, L, H, 70, 31))
    agree(FORMS.flops_form, checks.flops_case(T, D, F, L, pick.randint(2, 60)))


def test_flops_of_training(pick):
    V, D, F, L, T = (pick.randint(1, 20) for _ in range(5))
    for tied in (None, False, True):
        agree(FORMS.training_form, checks.training_case(V, D, F, L, T, tied))
    agree(FORMS.even_form, checks.even_case(D, 2 * F))


def test_what_is_left_to_train(pick):
    model = checks.real_stack(12, pick.randint(2, 6), pick.randint(2, 6))
    shapes = checks.shapes_of(model)
    for frozen in (
        [],
        ["encoder.layer.1"],
        ["encoder", "scale"],
        ["pooler.bias", "embeddings", "encoder.layer.10.norm1"],
    ):
        assert FORMS.left(shapes, frozen) == checks.after_freezing(model, frozen) > 0, frozen
