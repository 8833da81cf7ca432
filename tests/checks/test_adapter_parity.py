"""The solutions of 6.1 and 6.3 are the adapters library's own parts: same weights in, same numbers out."""

import functools
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import own
import pytest
import torch
from transformers import BertConfig, BertModel

from autograder import course
from utils import tiny_bert

CLOSE = {"rtol": 0, "atol": 1e-6}
NAMES = ["mnli", "qnli", "sick"]


@functools.cache
def solution():
    """The classes of the solutions of 6.1 and 6.3, by name."""
    return own.solutions("06", ("BottleneckAdapter", "AdapterFusion"))


def random_weights(module, seed):
    """Give `module` weights of ordinary size; the library's start is too small to show a wrong wiring."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(0.5 * torch.randn(part.shape, generator=generator))


def librarys_adapter(d, reduction):
    from adapters import SeqBnConfig
    from adapters.methods.modeling import Adapter

    return Adapter("mnli", d, d // reduction, SeqBnConfig(reduction_factor=reduction))


def load_adapter(ours, theirs):
    """Load the weights of a library adapter, whose parts have other names."""
    state = {name: value for name, value in theirs.state_dict().items()}
    ours.load_state_dict(
        {
            f"{part}.{kind}": state[f"{old}.{kind}"]
            for part, old in {"down": "adapter_down.0", "up": "adapter_up"}.items()
            for kind in ("weight", "bias")
        }
    )
    return ours


@pytest.mark.parametrize("d, reduction", [(12, 4), (48, 16), (30, 7), (5, 9)])
def test_adapter_equals_the_librarys(d, reduction):
    theirs = librarys_adapter(d, reduction)
    random_weights(theirs, d)
    ours = load_adapter(solution()["BottleneckAdapter"](d, reduction), theirs)
    x, residual = torch.randn(2, 5, d), torch.randn(2, 5, d)
    torch.testing.assert_close(ours(x, residual), theirs(x, residual)[0], **CLOSE)


def test_adapter_starts_like_the_librarys():
    torch.manual_seed(0)
    theirs, ours = librarys_adapter(256, 2), solution()["BottleneckAdapter"](256, 2)
    named = dict(ours.named_parameters())
    for old, new in {"adapter_down.0": "down", "adapter_up": "up"}.items():
        weight, bias = theirs.state_dict()[f"{old}.weight"], theirs.state_dict()[f"{old}.bias"]
        assert named[f"{new}.weight"].std().item() == pytest.approx(weight.std().item(), rel=0.02)
        assert torch.equal(named[f"{new}.bias"], bias)
    assert sum(part.numel() for part in ours.parameters()) == sum(part.numel() for part in theirs.parameters())


def librarys_fusion(d, dropout=0.0):
    from adapters.configuration import DynamicAdapterFusionConfig
    from adapters.methods.modeling import BertFusion

    return BertFusion(DynamicAdapterFusionConfig(), d, dropout)


@pytest.mark.parametrize("d, n", [(12, 3), (8, 5), (20, 1)])
def test_fusion_equals_the_librarys(d, n):
    theirs = librarys_fusion(d).eval()
    random_weights(theirs, d)
    ours = solution()["AdapterFusion"](d, n).eval()
    ours.load_state_dict(theirs.state_dict())
    states, outputs, residual = torch.randn(2, 5, d), torch.randn(2, 5, n, d), torch.randn(2, 5, d)
    wanted, weights = theirs(states, outputs, outputs, residual, output_attentions=True)
    fused, found = ours(states, outputs, residual)
    torch.testing.assert_close(fused, wanted, **CLOSE)
    torch.testing.assert_close(found, torch.as_tensor(weights), **CLOSE)


def test_fusion_drops_what_the_library_drops():
    theirs, ours = librarys_fusion(12, 0.3).train(), solution()["AdapterFusion"](12, 3, 0.3).train()
    random_weights(theirs, 1)
    ours.load_state_dict(theirs.state_dict())
    states, outputs, residual = torch.randn(2, 5, 12), torch.randn(2, 5, 3, 12), torch.randn(2, 5, 12)
    torch.manual_seed(7)
    wanted = theirs(states, outputs, outputs, residual)
    torch.manual_seed(7)
    torch.testing.assert_close(ours(states, outputs, residual)[0], wanted, **CLOSE)


def test_fusion_starts_like_the_librarys():
    theirs, ours = librarys_fusion(256).state_dict(), solution()["AdapterFusion"](256, 3).state_dict()
    assert list(ours) == list(theirs)
    torch.testing.assert_close(ours["value.weight"], theirs["value.weight"], rtol=0, atol=1.1e-6)
    for part in ("query", "key"):
        assert ours[f"{part}.weight"].std().item() == pytest.approx(theirs[f"{part}.weight"].std().item(), rel=0.02)
        assert torch.equal(ours[f"{part}.bias"], theirs[f"{part}.bias"])


class Wired(torch.nn.Module):
    """transformers' own feed-forward output of a layer, with our parts where `seq_bn` and fusion have theirs."""

    def __init__(self, output, adapters, fusion=None):
        super().__init__()
        self.dense, self.norm = output.dense, output.LayerNorm
        self.adapters, self.fusion = torch.nn.ModuleList(adapters), fusion

    def forward(self, hidden_states, input_tensor):
        h = self.dense(hidden_states)
        x = self.norm(h + input_tensor)
        if self.fusion is None:
            return self.norm(self.adapters[0](x, h) + input_tensor)
        outputs = torch.stack([adapter(x, torch.zeros_like(x)) for adapter in self.adapters], dim=2)
        return self.norm(self.fusion(x, outputs, h)[0] + input_tensor)


@pytest.mark.parametrize("active", [["qnli"], NAMES], ids=["one adapter", "fusion of three"])
def test_our_parts_within_bert_equal_the_librarys_bert(active):
    sizes = tiny_bert.Sizes()
    theirs = tiny_bert.fused(NAMES, seed=3).eval()
    if len(active) == 1:
        theirs.set_active_adapters(active[0])
    ours = BertModel(BertConfig(**tiny_bert.config(sizes).to_dict()), add_pooling_layer=False).eval()
    ours.load_state_dict({name: value for name, value in theirs.bert.state_dict().items() if name in ours.state_dict()})
    for mine, layer in zip(ours.encoder.layer, theirs.bert.encoder.layer, strict=True):
        make, fusion = solution()["BottleneckAdapter"], None
        parts = [load_adapter(make(sizes.d_model, sizes.reduction), layer.output.adapters[name]) for name in active]
        if len(active) > 1:
            fusion = solution()["AdapterFusion"](sizes.d_model, len(active)).eval()
            fusion.load_state_dict(layer.output.adapter_fusion_layer[",".join(active)].state_dict())
        mine.output = Wired(mine.output, parts, fusion)
    (batch,) = tiny_bert.pairs(4, [(12, 5)], sizes.vocab, 1)
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    with torch.no_grad():
        wanted = theirs.bert(**inputs).last_hidden_state
        plain = ours(**inputs).last_hidden_state
    torch.testing.assert_close(plain, wanted, **CLOSE)


def test_penalty_is_the_librarys():
    theirs = tiny_bert.fused(NAMES, seed=3)
    total = 0.0
    for layer in theirs.bert.encoder.layer:
        ours = solution()["AdapterFusion"](12, 3)
        ours.load_state_dict(layer.output.adapter_fusion_layer[",".join(NAMES)].state_dict())
        total = total + ours.penalty()
    torch.testing.assert_close(total, theirs.get_fusion_regularization_loss(), **CLOSE)


def test_the_known_weights_follow_name_and_seed():
    drawn = [tiny_bert.weight(name, (4,), seed) for name in ("a", "b") for seed in (1, 2, 2 + 2**20)]
    assert all(not torch.equal(one, other) for one, other in itertools.combinations(drawn, 2))
    assert torch.equal(drawn[0], tiny_bert.weight("a", (4,), 1))


def test_published_adapters_are_gone_when_their_process_ends(tmp_path):
    script = (
        "import json, os\nfrom utils import tiny_bert\n"
        "folders = tiny_bert.publish(['mnli']) | tiny_bert.publish(['qnli'])\n"
        "print(json.dumps({folder: os.listdir(folder) for folder in folders.values()}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=course.ROOT,
        check=True,
    )
    published = {Path(folder): files for folder, files in json.loads(ended.stdout.splitlines()[-1]).items()}
    assert len(published) == 2 and all(folder.is_relative_to(tmp_path) for folder in published)
    assert all("adapter_config.json" in files for files in published.values())
    assert not list(tmp_path.glob("adapters-*"))
