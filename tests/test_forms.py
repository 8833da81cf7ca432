"""The sums by which notebook 03's private checks count are those of the models that the libraries build."""

import pytest

from autograder import course, private
from utils import expect
from utils.checks import nb03_parameter_counting as checks

ENTRY = course.load().notebook("03_parameter_counting")
FORMS = private._module(course.room(ENTRY) / "private_checks.py")
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
        agree(FORMS.attention_form, checks.attention_case(H * D, H, bias))
        agree(FORMS.feed_forward_form, checks.feed_forward_case(D, F, bias))
    for kind in (None, "rms", "layer"):
        agree(FORMS.norms_form, checks.norms_case(D, pick.randint(1, 9), kind))
    agree(FORMS.layer_form, ({"D": D, "F": F}, checks.real_layer(D, F)))


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
