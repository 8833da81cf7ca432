"""Notebook 15: its model and LoRA are what libraries give; its experiment, at the size smoke; its recorded runs."""

import functools

import own
import pytest
import torch
from helpers import script
from torch import nn
from torch.nn import functional as F

from autograder import course
from autograder.author import rate_search
from data import instructions
from utils.experiments import instruction_tuning as tuning
from utils.experiments import llama
from utils.experiments.instruction_tuning import train
from utils.experiments.runs import load_table, run_seeds

SMOKE = tuning.experiments(profile="smoke")
CLOSE = {"rtol": 0, "atol": 2e-5}


@functools.cache
def solution():
    """The functions and classes of the solutions of 15.1 to 15.5, by name."""
    names = ("LoRALinear", "merge", "add_lora", "lora_count", "tokens_and_labels", "answer_loss", "pack")
    return own.solutions("15", names)


def filled(module, seed):
    """A module with random weights of ordinary size."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(0.5 * torch.randn(part.shape, generator=numbers))
    return module


@pytest.mark.parametrize("n, m, rank, alpha", [(12, 8, 3, 6), (5, 30, 8, 2), (1, 1, 1, 1)])
def test_lora_is_the_librarys(n, m, rank, alpha):
    """The same weights in the `adapters` library's own layer give the same numbers, before and after merging."""
    from adapters import LoRAConfig
    from adapters.methods.lora import LoRA

    theirs = filled(LoRA((rank, n), (m, rank), LoRAConfig(r=rank, alpha=alpha)), 1)
    base, x = filled(nn.Linear(n, m), 2), filled(nn.Linear(n, 7), 3).weight.detach()
    for layer in (solution()["LoRALinear"](base, rank, alpha), train.LoRALinear(base, rank, alpha)):
        layer.load_state_dict({**layer.state_dict(), "A": theirs.lora_A.detach(), "B": theirs.lora_B.detach()})
        wanted = base(x) + theirs(None, x)[0]
        assert wanted.abs().max() > 0.1
        torch.testing.assert_close(layer(x), wanted, **CLOSE)
    merged = solution()["merge"](solution()["LoRALinear"](base, rank, alpha))
    assert torch.equal(merged.linear.weight, base.weight)  # B is zeros at first
    weight = theirs.com(base.weight.detach(), theirs.delta_w.detach())
    torch.testing.assert_close(F.linear(x, weight, base.bias), wanted, **CLOSE)


def test_lora_begins_as_the_librarys():
    """A is drawn from the same distribution: equal numbers after the same seed."""
    from adapters import LoRAConfig
    from adapters.methods.lora import LoRA

    torch.manual_seed(4)
    theirs = LoRA((8, 50), (20, 8), LoRAConfig(r=8, alpha=16)).lora_A
    base = nn.Linear(50, 20)
    torch.manual_seed(4)
    ours = train.LoRALinear(base, 8, 16).A
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("tied", [False, True])
def test_the_decoder_is_the_librarys(tied):
    """Logits of a tiny Llama, whole and token by token."""
    library = llama.tiny(3, tied)
    model, tokens = train.decoder(library), torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        wanted = library(tokens).logits
        assert wanted.abs().max() > 0.1
        torch.testing.assert_close(model(tokens)[0], wanted, **CLOSE)
        past, rows = None, []
        for t in range(12):
            logits, past = model(tokens[:, t : t + 1], past)
            rows.append(logits)
        torch.testing.assert_close(torch.cat(rows, 1), wanted, **CLOSE)


def test_packed_dialogues_give_what_each_gives_alone():
    model, words = train.decoder(llama.tiny()), train.source(True)
    examples = [train.tokens_and_labels(one.question, one.answer, words.encode) for one in instructions.load("test", 1)]
    with torch.no_grad():
        alone = torch.cat([model(torch.tensor([tokens]))[0] for tokens, _ in examples], 1)
        row = train.packed(examples)
        torch.testing.assert_close(model(row.ids, None, row.positions, row.seen)[0], alone, **CLOSE)
        assert not torch.allclose(model(row.ids)[0], alone, atol=0.1)
    for found, wanted in zip(
        (row.ids, row.targets, row.positions, row.seen), solution()["pack"](examples), strict=True
    ):
        assert torch.equal(found, wanted)


def test_the_experiments_loss_and_labels_are_the_exercises():
    words, one = train.source(True), instructions.load("train", 1)[0]
    messages = [("user", one.question), ("assistant", f"[{one.answer}]")]
    example = train.tokens_and_labels(one.question, one.answer, words.encode)
    assert example == tuple(solution()["tokens_and_labels"](messages, words.encode))
    row = train.packed([example, example])
    logits, _ = words.model(row.ids, None, row.positions, row.seen)
    torch.testing.assert_close(train.tuning_loss(words.model, row), solution()["answer_loss"](logits, row.targets))


def test_lora_is_put_where_the_exercise_puts_it():
    ours, theirs = train.decoder(llama.tiny()), train.decoder(llama.tiny())
    train.add_lora(ours, ("q_proj", "v_proj"), 4, 8)
    layer = solution()["LoRALinear"]
    names = solution()["add_lora"](theirs, ["q_proj", "v_proj"], lambda linear: layer(linear, 4, 8))
    assert [name for name, part in ours.named_modules() if isinstance(part, train.LoRALinear)] == names
    learning = [{name for name, part in model.named_parameters() if part.requires_grad} for model in (ours, theirs)]
    assert learning[0] == learning[1] and len(learning[0]) == 2 * len(names) == 12
    count = sum(part.numel() for part in ours.parameters() if part.requires_grad)
    assert count == solution()["lora_count"](llama.sizes(llama.tiny()), ["q_proj", "v_proj"], 4)


def test_nothing_to_test_on_is_learned_and_answers_are_right():
    learned, tested = instructions.load("train", instructions.most("train"), 1), instructions.load("test", 20)
    assert not {one.question for one in learned} & {one.question for one in tested}
    assert len({one.question for one in tested}) == 60
    places = dict(instructions.places())
    for kind, question, answer in [*learned, *tested]:
        words = question.removesuffix(f" {instructions.FORM}").rstrip("?.").split()
        if kind == "sum":
            assert int(words[2]) + int(words[4]) == int(answer)
        elif kind == "sort":
            assert sorted(int(one.strip(",")) for one in words[1:]) == [int(one) for one in answer.split(", ")]
        else:
            assert places[words[2]] == answer
    with pytest.raises(ValueError, match="there is no"):
        instructions.load("valid", 1)


@pytest.mark.parametrize(
    "answer, form, right, inside",
    [
        ("[35]", True, True, True),
        ("12 + 23 = 35", False, False, True),
        ("[135]", True, False, False),
        ("[35] or [36]", False, False, True),
        ("[35]…", False, False, True),
        ("", False, False, False),
    ],
)
def test_answers_are_judged(answer, form, right, inside):
    assert (tuning.in_form(answer), tuning.is_right(answer, "35"), tuning.is_inside(answer, "35")) == (
        form,
        right,
        inside,
    )


def test_a_run_is_repeated_to_the_bit_and_kept(tmp_path):
    """Each arm at the size smoke; the model that runs share stays as it came."""
    before = {name: part.clone() for name, part in train.source(True).model.state_dict().items()}
    for name, one in SMOKE.items():
        (run,) = run_seeds(one, [7], tmp_path)
        assert run.predictions == one.run_seed(7).predictions
        assert len(run.curve) == one.steps and {metric.name for metric in one.metrics} == {
            m.name for m in tuning.METRICS
        }
        assert (name in (tuning.BEFORE, tuning.PROMPTED)) is (one.steps == 0)
    assert {*load_table(SMOKE, tmp_path)} == {*SMOKE}
    after = train.source(True).model.state_dict()
    assert all(torch.equal(after[name], part) for name, part in before.items())
    losses = {name: tuning.LOSS.of(run) for name, (run,) in load_table(SMOKE, tmp_path).items()}
    assert len({*losses.values()}) == 3 and losses[tuning.PROMPTED] == losses[tuning.BEFORE]


def test_examples_in_the_prompt_are_turns_of_one_dialogue():
    """Read once, they give what they give in front of each question; a seed draws two of each kind to train on."""
    words, end = train.source(True), train.source(True).encode(train.END)[0]
    some = train.shots(SMOKE[tuning.PROMPTED], 7)
    assert sorted(one.kind for one in some) == sorted(2 * instructions.KINDS)
    assert some == train.shots(SMOKE[tuning.PROMPTED], 7) != train.shots(SMOKE[tuning.PROMPTED], 8)
    assert not {one.question for one in some} & {one.question for one in instructions.load("test", 20)}
    text = "".join(train.prompt_of(one.question) + f"[{one.answer}]{train.END}\n" for one in some)
    prompts = [train.prompt_of(one.question) for one in instructions.load("test", 2)]
    whole = train.answers(words.model, [words.encode(text + one) for one in prompts], 4, end)
    rows, labels = train.tested(SMOKE[tuning.PROMPTED], words, words.model, some)
    alone = train.answers(words.model, [words.encode(one) for one in prompts], 4, end)
    assert [row[1] for row in rows[:6]] == [
        train.printable(words.decode(one).strip()) + tuning.CUT_OFF for one in whole if end not in one
    ]
    assert whole != alone and len(labels) == len(rows) == 6 + SMOKE[tuning.PROMPTED].windows


def test_each_arm_has_the_rate_that_the_recorded_search_gives():
    search = script(course.ROOT / "solutions" / "15_instruction_tuning" / "search.py")
    rows = [*rate_search.load(tuning.SEARCH).values()]
    assert {row["arm"] for row in rows} == {*tuning.RATES} and {row["seed"] for row in rows} == {search.SEED}
    for name, rate in tuning.RATES.items():
        tried = [value for (value,) in rate_search.means(rows, name)]
        assert rate_search.best(rows, name) == (rate,) and len(tried) >= 4 and max(tried) >= 10 * min(tried), name
        assert min(tried) < rate < max(tried), name
        assert tuning.experiments(profile="cpu")[name].lr == rate
    card = (course.ROOT / "data" / "README.md").read_text()
    for line in rate_search.table(tuning.SEARCH, {name: (rate,) for name, rate in tuning.RATES.items()}, 3):
        assert line in card, line


def test_the_search_reads_no_question_that_is_learned_or_tested():
    search = script(course.ROOT / "solutions" / "15_instruction_tuning" / "search.py")
    one = search.arms()[tuning.FULL]
    some, learned = search.held_out(one, search.SEED), train.learned(one, search.SEED)
    assert [sum(other.kind == kind for other in some) for kind in instructions.KINDS] == [search.HELD_OUT] * 3
    assert len(learned) == one.steps * one.batch and len({*some}) == len(some)
    every = instructions.load("test", instructions.most("test"))
    for others in (learned, every):
        assert others and not {other.question for other in some} & {other.question for other in others}


def test_the_search_measures_the_loss_of_all_answers_together():
    """The losses of the kinds, by their tokens, are the loss of one row with all questions."""
    search = script(course.ROOT / "solutions" / "15_instruction_tuning" / "search.py")
    words, some = train.source(True), instructions.load("test", 2)
    found = search.losses(words.model, words, some)
    row = train.packed([train.tokens_and_labels(one.question, one.answer, words.encode) for one in some])
    assert found["score"] == pytest.approx(-train.tuning_loss(words.model, row).item(), rel=1e-5)
    assert len({*found.values()}) == 4


def test_the_loss_of_examples_in_the_prompt_is_not_compared():
    """It is the loss before tuning; everything else is compared, and so is every pair of the others."""
    found = [str(one).split(": ")[:2] for one in tuning.compared(tuning.recorded())]
    with_prompt = [metric for metric, names in found if tuning.PROMPTED in names.split(" against ")]
    assert sorted({*with_prompt}) == ["right and in brackets", "right anywhere"] and len(with_prompt) == 6
    assert len(found) == 15 and sum(metric == tuning.LOSS.name for metric, _ in found) == 3


def test_the_recorded_runs_are_whole():
    """Five seeds of each arm, of one text and one set of questions; before tuning all are the same."""
    experiments = tuning.experiments(profile="cpu")
    runs = load_table(experiments, tuning.RECORDED)
    assert [*runs] == [*tuning.METHODS]
    assert all([run.seed for run in some] == [1, 2, 3, 4, 5] for some in runs.values())
    notebook = (course.ROOT / "solutions/15_instruction_tuning/notebook.py").read_text()
    assert 'seeds = range(1, 3 if profile == "smoke" else 6)' in notebook  # a student's seeds: the same
    assert "with the same seeds as yours" in notebook
    card = (
        (course.ROOT / "data/README.md").read_text().partition("## `results/instruction_tuning`")[2].partition("## ")[0]
    )
    assert "seeds 1 to 5, which every student has too" in card
    every = [run for some in runs.values() for run in some]
    assert len({run.versions["text"] for run in every}) == 1 and len({str(run.labels) for run in every}) == 1
    assert len({run.digest() for run in runs[tuning.BEFORE]}) == 1
    assert len({run.digest() for run in every}) == 16
    assert all(len(run.predictions) == 60 + experiments[tuning.LORA].windows for run in every)
    assert {path.name for path in tuning.RECORDED.iterdir()} == {one.folder("").name for one in experiments.values()}
