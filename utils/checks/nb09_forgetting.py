"""Checks of notebook 09: heads, accuracies, transfer, shares, a memory, two penalties, conflicts, adapters."""

import functools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from utils import tiny_bert
from utils.checks import nb09_toys as toys
from utils.experiments import forgetting as phases
from utils.grading import expect, probes
from utils.grading.check import check, stretch
from utils.grading.contract import LAYOUTS, Contract, is_new, world_kept
from utils.grading.expect import normal
from utils.grading.forbidden import MODELS
from utils.grading.misconceptions import comparison_failed
from utils.grading.remote import Library, Remote, kind, read
from utils.grading.results_check import results_check
from utils.tiny_bert import Sizes

State = dict[str, torch.Tensor]

# 9.1


def be(what: str) -> str:
    """The verb for what is named."""
    return "are" if expect.plural(what) else "is"


def encoders(lib: Library, V: int, d: int, seed: int) -> tuple[Remote, Any]:
    """An encoder in the student's process and its twin here, from tokens (B, T) to states (B, T, d)."""
    pair = [
        parts.Sequential(parts.Embedding(V, d), parts.Linear(d, d), more.Mixes())
        for parts, more in ((lib(nn), lib(toys)), (nn, toys))
    ]
    expect.same_weights(pair[0], pair[1], seed)
    return pair[0], pair[1]


def task_shapes(V: int, d: int, tasks: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights of an encoder with heads."""
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.0.weight": (V, d),
        "encoder.1.weight": (d, d),
        "encoder.1.bias": (d,),
    }
    for name, count in tasks.items():
        shapes |= {f"heads.{name}.weight": (count, d), f"heads.{name}.bias": (count,)}
    return shapes


def with_heads(MultiTask: Remote, encoder: Remote, V: int, d: int, tasks: Mapping[str, int], seed: int) -> Any:
    """A model with these tasks, added one after the other, and its known weights."""
    model = MultiTask(encoder, d)
    fresh = expect.state(model, "MultiTask")
    assert not any(name.startswith("heads.") for name in fresh), (
        "a new model already has heads. It should have no tasks yet."
    )
    for place, (name, count) in enumerate(tasks.items()):
        before = model.state_dict()
        model.add_task(name, count)
        state = model.state_dict()
        told = (
            "after a task was added, `state_dict()` has no weight of `heads`. It should be an nn.ModuleDict: a plain "
            "dict or list hides them, and so does an attribute of the class."
        )
        new = next((key for key in state if key not in before), None)
        if new is not None:
            told = f"after a task was added, `state_dict()` has no weight of `heads`, but `{new}`. The heads should be "
            told += "in an nn.ModuleDict with the name `heads`."
        assert any(key.startswith("heads.") for key in state), told
        told = "adding a task changes other weights. Only the new head should be added."
        for key, value in before.items():
            gone = f"after task `{name}` was added, `state_dict()` has no `{key}` any more. Other heads should stay."
            assert key in state, gone
            assert state[key].shape == value.shape and torch.equal(state[key], value), told
        if place:
            told = f"`heads` should map each task's name to its nn.Linear, and there is no `heads.{name}.weight`."
            assert f"heads.{name}.weight" in state, told
    state = expect.weights(model, task_shapes(V, d, tasks), "`MultiTask`", seed)
    theirs = encoder.state_dict()
    told = "the encoder is a copy. Keep the given encoder itself, so that all tasks share it."
    assert all(torch.equal(theirs[name], state[f"encoder.{name}"]) for name in theirs), told
    return model, state


def states_of(state: Mapping[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The encoder's states (B, T, d)."""
    states = F.linear(state["encoder.0.weight"][tokens], state["encoder.1.weight"], state["encoder.1.bias"])
    return states + states.mean(1, keepdim=True)


def head_of(state: Mapping[str, torch.Tensor], task: str, states: torch.Tensor) -> torch.Tensor:
    """The logits of a task."""
    return F.linear(states, state[f"heads.{task}.weight"], state[f"heads.{task}.bias"])


def asked(model: Remote, state: State, tasks: Mapping[str, int], tokens: torch.Tensor) -> None:
    """Fail unless each task is answered by its own head, from the first token's state."""
    states, B = states_of(state, tokens), len(tokens)
    for task, count in tasks.items():
        others = {
            f"a task is answered by the head of another task, `{other}`.": head_of(state, other, states[:, 0])
            for other in tasks
            if other != task
        }
        value = model(tokens, task)
        told = "there are logits for each token. Return one row for each text, from the state of its first token."
        assert type(value) is not torch.Tensor or value.ndim != 3 or value.shape[:2] != tokens.shape, told
        wanted = head_of(state, task, states[:, 0])
        found = expect.floats(value, (B, count), f"the logits of a task with {count} classes")
        if not expect.near(found, wanted, 1e-4, 1e-4):
            told = "a second call with the same tokens gives other logits. There should be no dropout."
            assert expect.same(model(tokens, task), value), told
        expect.like(
            found,
            wanted,
            "the logits are not those of the task's head for the state of the first token.",
            {
                "the head reads the mean of the states. It should read the state of the first token.": head_of(
                    state, task, states.mean(1)
                ),
                "the head reads the last token's state. It should read the state of the first token.": head_of(
                    state, task, states[:, -1]
                ),
                "the head reads the maximum over the states. It should read the state of the first token.": head_of(
                    state, task, states.amax(1)
                ),
                "the encoder is given the first token alone. It should read the whole text.": head_of(
                    state, task, states_of(state, tokens[:, :1])[:, 0]
                ),
                "these are probabilities. Return logits.": wanted.softmax(-1),
                "these are log-probabilities. Return logits.": wanted.log_softmax(-1),
                "the bias of the head is missing.": wanted - state[f"heads.{task}.bias"],
                **others,
            },
        )


def one_step(
    model: Remote, lib: Library, state: State, tokens: torch.Tensor, task: str, labels: torch.Tensor, lr: float
) -> None:
    """Fail unless a step on a task moves encoder and its head as it should, and no other head."""
    leaves = {name: value.clone().requires_grad_() for name, value in state.items()}
    with torch.enable_grad():
        loss = F.cross_entropy(head_of(leaves, task, states_of(leaves, tokens)[:, 0]), labels)
        slopes = torch.autograd.grad(loss, [*leaves.values()], allow_unused=True)
    told = "nothing learns: no gradient flows back from the logits."
    expect.answers(lib(toys).step_on_task, model, tokens, task, labels, lr, says=told, kinds=("RuntimeError",))
    now = model.state_dict()
    for (name, old), slope in zip(state.items(), slopes, strict=True):
        if slope is None:
            told = "a step on one task moves the head of another task. That head should not change at all."
            assert torch.equal(now[name], old), told
            continue
        part = "the encoder" if name.startswith("encoder") else "the head of the task"
        told = f"{part} does not move in a step on a task: no gradient reaches it, or the optimizer does not know it."
        assert not torch.equal(now[name], old), told
        expect.close(now[name], old - lr * slope, f"{part} does not move to where a step of SGD takes it.")
    model.load_state_dict(state)


@check("9.1", points=2, forbids=MODELS)
def multi_task(MultiTask, lib):
    """Check for a shared encoder and for registered heads of their own sizes that other tasks leave untouched."""
    V, d, tasks = 11, 5, {"A": 3, "B": 2, "C": 3}
    theirs, _ = encoders(lib, V, d, 910)
    model, state = with_heads(MultiTask, theirs, V, d, tasks, 911)
    tokens = torch.tensor([[1, 4, 9, 2], [7, 0, 3, 3], [10, 5, 5, 8]])
    with world_kept(lib, "after the model was called"):
        asked(model, state, tasks, tokens)
    model.eval()
    asked(model, state, tasks, tokens[:1, :1])
    model.train()
    asked(model, state, tasks, tokens[:1, :1])
    for given in (tokens, tokens[:1, :1]):
        is_new(lib, "the tensor of logits", model, given, "A")
    one_step(model, lib, state, tokens, "B", torch.tensor([1, 0, 1]), 0.5)
    one_step(model, lib, state, tokens, "C", torch.tensor([2, 0, 1]), 0.5)
    asked(model, state, tasks, tokens)
    told = "adding a second task of the same name should raise ValueError, and must not replace the head."
    expect.refuses(model.add_task, "B", 2, says=told)
    expect.refuses(model.add_task, "A", 5, says=told)
    told = (
        "adding a second task of the same name raises an error, but has already changed the "
        "model. Check the name first."
    )
    now = model.state_dict()
    assert all(name in now and now[name].shape == value.shape for name, value in state.items()), told
    assert expect.agree(now, state), told
    told = "asking for the logits of an unknown task should raise KeyError."
    expect.refuses(model, tokens, "D", says=told, kinds=("KeyError",))
    model.add_task("late", 4)
    told = "adding a task changes other weights. Only the new head should be added."
    assert expect.agree(model.state_dict(), state), told
    heads = model.state_dict()["heads.late.weight"]
    told = "two new heads start with the same weights. Each should start as nn.Linear makes it."
    model.add_task("later", 4)
    assert not torch.equal(model.state_dict()["heads.later.weight"], heads), told
    model.add_task("many", 400)
    for name in ("weight", "bias"):
        new, bound = model.state_dict()[f"heads.many.{name}"].abs().max(), d**-0.5
        told = f"a new head does not start as nn.Linear makes it: the numbers of its {name} are of another size."
        assert 0.9 * bound < new < 1.001 * bound, told
    for device, dtype in (("cpu", "float64"), ("meta", "float32")):
        found = lib(toys).head_beside(MultiTask, theirs, d, device, dtype, False)
        wrong = "has another dtype" if found[:1] == [device] else "is on another device"
        told = f"for a {dtype} encoder on the device `{device}`, a new head {wrong}."
        assert found == [device, dtype], told
        late = lib(toys).head_beside(MultiTask, theirs, d, device, dtype, True)
        told = "a new head {} that the encoder had when the model was created. Use what it has when a task is added."
        where = "has the dtype" if late[:1] == [device] else "is on the device"
        assert late == [device, dtype], told.format(where)
    for _, what in lib(probes).changes(model, {"the model": model}, [tokens, "A"], {}):
        raise AssertionError(f"asking for logits changes the model: {what} {be(what)} not as before.")
    expect.one_device(lib, model, tokens, "A")
    found = expect.answers(
        lib(toys).strided, model, tokens, "B", says="tokens that are not contiguous in memory raise an error."
    )
    expect.close(
        found,
        head_of(state, "B", states_of(state, tokens)[:, 0]),
        "for tokens that are not contiguous in memory, the logits are wrong.",
    )


# 9.2


def matrix_of(
    tasks: Sequence[str], taught: Sequence[Sequence[str]], asked_in: Sequence[str] | None = None
) -> torch.Tensor:
    """Accuracies at `tasks` of a learner with each of these lists of lessons."""
    rows = []
    for lessons in taught:
        learner = learned(lessons).eval()
        with torch.no_grad():
            rows.append([toys.examine(learner, task) for task in asked_in or tasks])
    return torch.tensor(rows)


def learned(lessons: Sequence[str]) -> toys.Learner:
    """A learner after these lessons, as they should be given."""
    learner = toys.Learner()
    with torch.enable_grad():
        for lesson in lessons:
            toys.teach(learner, lesson)
    return learner


def first_wrong_row(R: torch.Tensor, wanted: torch.Tensor, tasks: Sequence[str]) -> str:
    """A sentence about the first entry of the matrix that is wrong."""
    i, j = ((R - wanted).abs() > 1e-4).nonzero().tolist()[0]
    names = " and ".join(f"`{task}`" for task in tasks[:i])
    when = f"after learning {names}" if i else "before anything was learned"
    return f"R[{i}, {j}] is not the accuracy on `{tasks[j]}` {when}. Your code gives {float(R[i, j]):.4g}."


def measured(accuracy_matrix: Remote, lib: Library, tasks: list[str], training: bool) -> None:
    """Fail unless R is right for a new model, in either mode, and the model keeps its mode."""
    model = lib(toys).Learner()
    model.train(training)
    taught_in_turn(accuracy_matrix, lib, model, tasks, [])
    told = "after the call, the model or a part of it is in a different mode from before."
    assert read(model.training) is training and read(model.part.training) is training, told


def taught_in_turn(accuracy_matrix: Remote, lib: Library, model: Remote, tasks: list[str], before: list[str]) -> None:
    """Fail unless R is the matrix of this one model, taught `before`, that goes through all tasks."""
    toy, T = lib(toys), len(tasks)
    value = accuracy_matrix(model, tasks, toy.teach, toy.examine)
    lessons = read(model.lessons)
    if type(value) is torch.Tensor and value.ndim == 2:
        shape = tuple(value.shape)
        assert shape != (T, T), (
            "there are T rows. There should be T + 1: one before anything is learned, and one after each task."
        )
        assert shape != (T, T + 1) or T == 1, (
            "rows and columns are exchanged. There should be a row for each moment and a column for each task."
        )
    R = expect.floats(value, (T + 1, T), "the matrix")
    wanted = matrix_of(tasks, [before + tasks[:i] for i in range(T + 1)])
    told = "the accuracies are in percent. They should be as `evaluate` returns them."
    assert not expect.near(R, 100 * wanted), told
    told = "the model or a part of it is evaluated in training mode, in which dropout acts. Call model.eval() first."
    mood = (R - wanted).round()  # 1 more in training mode, 2 more where gradients are recorded
    mood = mood.where(((R - wanted - mood).abs() < 1e-4) & (mood > 0) & (mood < 4), 0)
    assert not any("examined" in lesson for lesson in lessons) and (mood % 2 != 1).all(), told
    told = "the model is evaluated while gradients are recorded. Use torch.no_grad()."
    assert (mood < 2).all(), told
    told = "the model or a part of it is trained in evaluation mode. Call model.train() before each training."
    assert not any("in evaluation" in lesson for lesson in lessons), told
    told = (
        "the model is trained while no gradients are recorded, so nothing is learned. Only evaluate without gradients."
    )
    assert not any("without gradients" in lesson for lesson in lessons), told
    in_turn = "the given model itself should be trained on each task once, in the given order, and it is not."
    learned_now = ", ".join(f"`{lesson}`" for lesson in lessons[len(before) :])
    in_turn += f" With the tasks `{tasks}`, it is trained on {learned_now or 'none'}."
    below = torch.arange(1, T + 2)[:, None] > torch.arange(1, T + 1)  # row i, column j (from 1): i >= j
    expect.like(
        R,
        wanted,
        lambda: first_wrong_row(R, wanted, tasks) if lessons == before + tasks else in_turn,
        {
            (
                "the entries above the diagonal are 0. Forward transfer needs them: evaluate each task before its turn "
                "too."
            ): wanted * below,
            "a fresh model learns each task. One model should learn all of them in turn.": lambda: matrix_of(
                tasks, [before, *([*before, task] for task in tasks)]
            ),
            "the rows are in the wrong order. Row 0 should be measured before anything is learned.": lambda: (
                wanted.roll(-1, 0)
            ),
            "row 0 is measured after the first task. Measure it before anything is learned.": lambda: torch.cat(
                [wanted[1:2], wanted[1:]]
            ),
            "the tasks are learned in reverse order, from the last to the first.": lambda: matrix_of(
                tasks, [before + tasks[::-1][:i] for i in range(T + 1)]
            ),
            (
                "all rows are the same: the accuracies after all tasks. Measure each row in its turn, into a list of "
                "its own."
            ): lambda: wanted[-1:].expand_as(wanted),
            ("all rows are row 0. Train the given model on each task, and evaluate it again for each row."): lambda: (
                wanted[:1].expand_as(wanted)
            ),
            "the accuracies are rounded. They should be as `evaluate` returns them.": wanted.mul(100).round() / 100,
            "before each row, all tasks so far are learned again. Train each task only once.": lambda: matrix_of(
                tasks, [before + [task for k in range(1, i + 1) for task in tasks[:k]] for i in range(T + 1)]
            ),
        },
    )
    assert lessons == before + tasks, in_turn
    told = "after the call, the model does not have the weights that it learned last. It should keep them."
    assert float(model.state_dict()["known"]) == float(learned(lessons).known.detach()), told
    told = "the call changes which parameters learn (requires_grad). It should leave that as it is."
    assert toy.learning(model) == [True, False], told
    told = "the gradients that `train` left are removed or changed. Only `train` may change them."
    assert read(model.bare) == 0 and not toy.bare_now(model), told


@check("9.2", points=2, forbids=MODELS)
def accuracy_matrix(accuracy_matrix, lib):
    """Check for one row before the tasks and one after each, and that evaluation changes nothing."""
    for training in (True, False):
        measured(accuracy_matrix, lib, ["tags", "names", "spans"], training)
    measured(accuracy_matrix, lib, ["one"], True)
    measured(accuracy_matrix, lib, ["d", "a", "c", "b"], False)


# 9.3


def entry(R: torch.Tensor, i: int, j: int) -> float:
    """R_{i,j} of the formulas, with tasks that count from 1."""
    return float(R[i, j - 1])


def mean_of(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def end_of(R: torch.Tensor) -> dict[str, float]:
    """Misreadings of the average accuracy."""
    T = R.size(1)
    last = [entry(R, T, j) for j in range(1, T + 1)]
    return {
        "the average is over all rows. Use only the last row.": float(R.mean()),
        "the average is over all rows but row 0. Use only the last row.": float(R[1:].mean()),
        "this is the average of row 0. Use only the last row.": float(R[0].mean()),
        "this is the average of the accuracies that had just been learned. Use only the last row.": mean_of(
            [entry(R, j, j) for j in range(1, T + 1)]
        ),
        "this is the accuracy at the last task. Average over all tasks.": last[-1],
        "this is the sum. Take the mean.": sum(last),
        "the last task is left out. Average over all tasks.": mean_of(last[:-1]),
        "the average is over a column. A row has the accuracies of all tasks at one moment.": float(R[:, -1].mean()),
        "the result is rounded to two digits. Return it as it is.": round(mean_of(last), 2),
        "the result is rounded to three digits. Return it as it is.": round(mean_of(last), 3),
    }


def backward_of(R: torch.Tensor, T: int) -> tuple[float, dict[str, float]]:
    """Backward transfer and its misreadings."""
    changes = [entry(R, T, j) - entry(R, j, j) for j in range(1, T)]
    wanted = mean_of(changes)
    return wanted, {
        "the sign is wrong. If accuracy falls, backward transfer should be negative.": -wanted,
        "the sum is divided by T. Only T - 1 tasks take part, so divide by T - 1.": sum(changes) / T,
        "this is the sum. Take the mean.": sum(changes),
        (
            "the accuracy just after a task was learned is taken one row too early. Row 0 is "
            "from before the first task."
        ): mean_of([entry(R, T, j) - entry(R, j - 1, j) for j in range(1, T)]),
        "all T tasks are compared, and each one row too early.": mean_of(
            [entry(R, T, j) - entry(R, j - 1, j) for j in range(1, T + 1)]
        ),
        "the end is compared with row 0. Compare it with the accuracy just after the task was learned.": mean_of(
            [entry(R, T, j) - entry(R, 0, j) for j in range(1, T)]
        ),
        (
            "the end is compared with the best accuracy, as in forgetting. Compare it with that "
            "just after the task was learned."
        ): mean_of([entry(R, T, j) - max(entry(R, i, j) for i in range(1, T)) for j in range(1, T)]),
        "a task is compared one row after it was learned. Compare it at the end.": mean_of(
            [entry(R, j + 1, j) - entry(R, j, j) for j in range(1, T)]
        ),
        "rows and columns are exchanged. Rows are moments, and columns are tasks.": mean_of(
            [float(R[j, T - 1] - R[j, j - 1]) for j in range(1, T)]
        ),
        "absolute changes are averaged. A task that got worse should count below 0.": mean_of(
            [abs(change) for change in changes]
        ),
    }


def forgetting_of(R: torch.Tensor, T: int) -> tuple[float, dict[str, float]]:
    """Forgetting and its misreadings."""

    def lost(first: int, last: int, clip: bool = False) -> list[float]:
        falls = [max(entry(R, i, j) for i in range(first, last + 1)) - entry(R, T, j) for j in range(1, T)]
        return [max(0.0, fall) for fall in falls] if clip else falls

    falls = lost(1, T - 1) if T > 1 else []
    wanted = mean_of(falls)
    return wanted, {
        "the sign is wrong. If accuracy falls, forgetting should be positive.": -wanted,
        "the sum is divided by T. Only T - 1 tasks take part, so divide by T - 1.": sum(falls) / T,
        "this is the sum. Take the mean.": sum(falls),
        (
            "this is minus the backward transfer. Compare the end with the best accuracy, not "
            "with that just after learning."
        ): (mean_of([entry(R, j, j) - entry(R, T, j) for j in range(1, T)])),
        "row 0 takes part in the maximum. Nothing had been learned then, so leave it out.": mean_of(lost(0, T - 1)),
        (
            "for a task that ends better than ever, forgetting is 0. It should be negative: the "
            "last row is not in the maximum."
        ): mean_of(lost(1, T - 1, True) if T > 1 else []),
        "the mean is cut off at 0. It should be negative if tasks end better than ever.": max(0.0, wanted),
        "the maximum is taken over all tasks together. Each task has its own.": mean_of(
            [float(R[1:T].max()) - entry(R, T, j) for j in range(1, T)]
        ),
        "the maximum leaves out row T - 1. That row counts too.": mean_of(lost(1, max(1, T - 2)) if T > 1 else []),
        "row 0 and the last row take part in the maximum. Leave both out.": mean_of(lost(0, T)),
        "the maximum begins only when the task was learned. All rows from 1 to T - 1 count.": (
            mean_of([max(entry(R, i, j) for i in range(j, T)) - entry(R, T, j) for j in range(1, T)])
        ),
        "the last task is counted. It had no time to be forgotten, so leave it out.": mean_of(
            [max([entry(R, i, j) for i in range(1, T)] or [entry(R, T, j)]) - entry(R, T, j) for j in range(1, T + 1)]
        ),
        "the last task is counted in the sum, which is divided by T - 1. It had no time to be forgotten.": sum(
            max([entry(R, i, j) for i in range(1, T)] or [entry(R, T, j)]) - entry(R, T, j) for j in range(1, T + 1)
        )
        / max(1, T - 1),
    }


def forward_of(R: torch.Tensor, T: int) -> tuple[float, dict[str, float]]:
    """Forward transfer and its misreadings."""
    gains = [entry(R, j - 1, j) - entry(R, 0, j) for j in range(2, T + 1)]
    wanted = mean_of(gains)
    return wanted, {
        "the sign is wrong. If a task is better before its turn, forward transfer should be positive.": -wanted,
        "the sum is divided by T. Only T - 1 tasks take part, so divide by T - 1.": sum(gains) / T,
        "this is the sum. Take the mean.": sum(gains),
        "row 0 is not subtracted. It has the accuracies before anything was learned.": mean_of(
            [entry(R, j - 1, j) for j in range(2, T + 1)]
        ),
        "one half is subtracted. Subtract row 0: the accuracies before anything was learned.": mean_of(
            [entry(R, j - 1, j) - 0.5 for j in range(2, T + 1)]
        ),
        "each task is looked up after its turn. Use the row just before its turn.": mean_of(
            [entry(R, j, j) - entry(R, 0, j) for j in range(2, T + 1)]
        ),
        "each task is looked up one row too early. Use the row just before it was learned.": mean_of(
            [entry(R, j - 2, j) - entry(R, 0, j) for j in range(2, T + 1)]
        ),
        "every row before a task's turn counts. Only the one just before it should.": mean_of(
            [entry(R, i, j) - entry(R, 0, j) for j in range(2, T + 1) for i in range(1, j)]
        ),
        "the first task is counted. No task comes before it, so leave it out.": mean_of(
            [entry(R, j, j) - entry(R, 0, j) for j in range(1, T + 1)]
        ),
        "the end is compared with row 0. Use the row just before each task's turn.": mean_of(
            [entry(R, T, j) - entry(R, 0, j) for j in range(2, T + 1)]
        ),
    }


def summed_up(
    R: torch.Tensor, average: Remote | None, backward: Remote | None, lost: Remote | None, forward: Remote | None
) -> None:
    """Fail unless the numbers of these functions are right for a matrix.

    A misreading is named where it also explains another matrix.
    """
    rules = (lambda R, T: (float(R[-1].mean()), end_of(R)), backward_of, forgetting_of, forward_of)
    names = ("average_accuracy", "backward_transfer", "forgetting", "forward_transfer")
    T = R.size(1)
    for call, name, rule in zip((average, backward, lost, forward), names, rules, strict=True):
        if call is None:
            continue
        found, (right, guesses) = expect.number(call(R), f"what `{name}` returns"), rule(R.double(), T)
        # One more, so that nearly nothing has a relative error worth the name.
        if math.isclose(found + 1, right + 1, rel_tol=1e-4, abs_tol=1e-4):
            continue
        assert T != 2 or found != 0, (
            f"`{name}`: with two tasks the result is always 0. One of them takes part, so it should not be."
        )
        other = normal(T + 1, T, seed=930 + T)
        again, (_, others) = expect.number(call(other), f"what `{name}` returns"), rule(other.double(), T)
        for sentence, guess in guesses.items():
            both = ((found, guess), (again, others[sentence]))
            fits = all(math.isclose(one + 1, two + 1, rel_tol=1e-4, abs_tol=1e-4) for one, two in both)
            assert not fits, f"`{name}`: {sentence}"
        told = f"`{name}` is not what its formula says, for a matrix of {T} tasks."
        raise AssertionError(f"{told} Your code gives {found:.5g}, and {right:.5g} is right.")


HISTORY = torch.tensor(
    [
        [0.50, 0.89, 0.42, 0.25, 0.15],
        [0.90, 0.40, 0.97, 0.20, 0.30],
        [0.95, 0.81, 0.47, 0.31, 0.22],
        [0.72, 0.85, 0.88, 0.43, 0.35],
        [0.66, 0.74, 0.90, 0.77, 0.28],
        [0.61, 0.70, 0.93, 0.84, 0.66],
    ]
)


@check("9.3", points=2)
def measures(average_accuracy, backward_transfer, forgetting, forward_transfer, lib):
    """Check four numbers of matrices with one to five tasks, in both precisions and any order in memory."""
    functions = average_accuracy, backward_transfer, forgetting, forward_transfer
    early = torch.tensor([[0.1, 0.5, 0.4], [0.8, 0.7, 0.3], [0.6, 0.65, 0.2], [0.7, 0.6, 0.9]])
    better = torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.3, 0.3], [0.4, 0.2, 0.6], [0.3, 0.9, 0.8]])  # than ever, at the end
    for R in (HISTORY, HISTORY.double(), early, better, normal(6, 5, seed=93), normal(3, 2, seed=94)):
        summed_up(R, *functions)
    for call, name in zip(functions[1:], ("backward_transfer", "forgetting", "forward_transfer"), strict=True):
        told = f"`{name}`: with a single task there is nothing to compare, so the number should be 0."
        found = expect.answers(call, torch.tensor([[0.5], [0.9]]), says=told)
        assert expect.number(found, f"what `{name}` returns for a single task") == 0, told
    found = expect.number(average_accuracy(torch.tensor([[0.5], [0.75]])), "what `average_accuracy` returns")
    told = f"`average_accuracy` is wrong for a single task, `R = [[0.5], [0.75]]`: your code gives {found:.5g}."
    assert found == 0.75, told
    in_any_order(lib, HISTORY, *functions)


def in_any_order(lib: Library, R: torch.Tensor, *functions: Remote) -> None:
    """Fail unless the four numbers are the same for a matrix in another order in memory."""
    names = ("average_accuracy", "backward_transfer", "forgetting", "forward_transfer")
    for call, name in zip(functions, names, strict=True):
        told = f"`{name}`: for a matrix that is not contiguous in memory, it is an error, or the number is wrong."
        came = expect.answers(lib(probes).in_layouts, call, ["as it is", *LAYOUTS], [R], {}, says=told)
        first, *others = (expect.number(one, f"what `{name}` returns") for one in expect.items(came, 4, told))
        assert all(math.isclose(one, first, rel_tol=1e-4, abs_tol=1e-5) for one in others), told


# 9.4


def powers(sizes: Sequence[float], exponent: float) -> torch.Tensor:
    """Shares in proportion to these sizes to the power of `exponent`."""
    logs = [exponent * math.log(size) for size in sizes]
    scaled = [math.exp(one - max(logs)) for one in logs]
    return torch.tensor([one / sum(scaled) for one in scaled])


def shared_out(sampling: Remote, sizes: list[int], temperature: float | None = None, cap: int | None = None) -> None:
    """Fail unless tasks are drawn with the right probabilities."""
    T = 1.0 if temperature is None else temperature
    given: dict[str, Any] = {"temperature": temperature, "cap": cap}
    asked_for = ", ".join(filter(None, [f"{sizes}", f"T = {T:g}", f"a cap of {cap}" if cap is not None else ""]))
    says = f"for {asked_for}, there is an error."
    if T < 0.2:
        says = f"for {asked_for}, powers overflow, or all of them become 0. Compute with logarithms."
    value = expect.answers(
        functools.partial(sampling, **{name: one for name, one in given.items() if one is not None}),
        sizes,
        says=says,
        kinds=("OverflowError", "ZeroDivisionError"),
    )
    told = f"`sampling` should return a tensor of probabilities, not {kind(value)}."
    assert type(value) is torch.Tensor and value.shape == (len(sizes),) and value.is_floating_point(), told
    capped = [min(size, cap) if cap is not None else size for size in sizes]
    told = f"for {asked_for}, some of the probabilities are NaN."
    if T < 0.2:
        told += " If powers overflow or become 0, compute with logarithms."
    elif 1 in capped:
        told += " A size may be 1, and its logarithm is 0: it needs no special case."
    assert not value.isnan().any(), told
    wanted = powers(capped, 1 / T)
    uncut = powers(sizes, 1 / T)
    most = max(uncut.tolist())

    def scaled(numbers: Sequence[float]) -> torch.Tensor:
        total = sum(numbers)
        return torch.tensor([one / total for one in numbers])

    mild = 0.2 < T < 20
    equal = "all probabilities are the same, whatever the sizes are."
    if T > 20:
        equal = (
            "with a large temperature, all probabilities are the same. They should be nearly the same, but not equal."
        )
    guesses: dict[str, expect.Guess] = {
        equal: torch.full((len(sizes),), 1 / len(sizes)),
        "the cap is applied after the power. It is a number of examples: apply it to the sizes first.": lambda: (
            scaled([min(float(one) ** (1 / T), cap or math.inf) for one in sizes]) if mild else wanted
        ),
        f"with a cap of {cap}, the cap changes nothing. No task should count for more examples than that.": uncut,
        f"with T = {T:g}, the temperature changes nothing. The sizes should be raised to the power 1 / T.": powers(
            capped, 1.0
        ),
        "the sizes are raised to the power T. The exponent should be 1 / T.": lambda: (
            powers(capped, T) if mild else wanted
        ),
        "this is a softmax of the sizes. Raise the sizes to a power instead.": lambda: torch.softmax(
            torch.tensor(capped, dtype=torch.float64) / T, 0
        ).float(),
        "these are the powers themselves. Divide them by their sum.": lambda: torch.tensor(
            [float(one) ** (1 / T) if mild else 0.0 for one in capped]
        ),
        "tasks above the cap are left out. They should count as if they had as many examples as the cap.": lambda: (
            scaled(
                [float(one) ** (1 / T) if cap is None or one <= cap else 0.0 for one in sizes]
                if mild and (cap is None or min(sizes) <= cap)
                else [1.0] * len(sizes)
            )
        ),
        "the largest task has the smallest probability: the exponent has the wrong sign.": powers(capped, -1 / T),
        "the probabilities are proportional to the logarithms of the sizes. Raise the sizes to a power.": lambda: (
            scaled([math.log(one) for one in capped]) if max(capped) > 1 else wanted
        ),
        "the cap is used as the least number of examples. It should be the largest.": powers(
            [max(one, cap or 0) for one in sizes], 1 / T
        ),
        "the probabilities are proportional to the square root of each size, at every temperature.": powers(
            capped, 0.5
        ),
        "the exponent is 1 - 1 / T. It should be 1 / T.": powers(capped, 1 - 1 / T),
        "the exponent is 1 / (1 + T). It should be 1 / T.": powers(capped, 1 / (1 + T)),
        "the cap is subtracted from each size. No size should count as larger than the cap.": lambda: (
            powers([max(one - cap, 1) for one in sizes], 1 / T) if cap else wanted
        ),
    }
    assert most <= 1
    otherwise = f"for {asked_for}, the probabilities are not those of the formula."
    if T < 0.01:
        otherwise += " Use a small temperature as it is, and compute in double precision."
    expect.like(value.float(), wanted, otherwise, guesses if mild or T > 20 else {})
    assert abs(float(value.double().sum()) - 1) < 1e-5, "the probabilities do not sum to 1."


SHARES = Contract(
    "sampling(counts, T, 100 * c)",
    sizes={"N": (1, 9, 1100), "_t": (1, 40), "c": (1, 900)},
    T="= _t / 4",
    gives="the probabilities: float (N)",
    right=lambda counts, T, cap: powers([min(count, cap) for count in counts], 1 / T),
    counts=lambda toys, seed, N: [expect.draw(seed + place).randint(1, 10**5) for place in range(N)],
)


@check("9.4", points=2, forbids=MODELS)
def sampling(sampling):
    """Check powers of sizes that are cut first: proportional at 1, equal at infinity, without overflow."""
    sizes = [40, 3, 700, 61]
    for temperature in (0.5, 5, None, 2.0, 1 / 0.7, 1):
        shared_out(sampling, sizes, temperature)
        for cap in (50, 4, 1000, 3, 1):
            shared_out(sampling, sizes, temperature, cap)
    large = [1_000_000, 20, 3_000, 1_000_000]
    for temperature in (0.01, 0.001, 1e4, math.inf):
        shared_out(sampling, large, temperature)
        shared_out(sampling, [7, 7, 2], temperature)
        shared_out(sampling, large, temperature, 3_000)
    for temperature in (1e-6, 1e9):  # no two sizes are equal: in single precision those would not be told so exactly
        shared_out(sampling, [3_000, 20, 1_000_000], temperature)
    shared_out(sampling, [7, 7, 2], 0.0005)
    shared_out(sampling, [1000, 1001, 998], 0.004)
    shared_out(sampling, [10_000, 10_001], 0.0001)
    shared_out(sampling, [1_000_000, 1_000_001], 1e-6)
    for near, temperature in (([300_000, 300_001], 1e-6), ([777_777, 777_779], 1e-6), ([123_456, 123_457], 1e-5)):
        shared_out(sampling, near, temperature)
    for near in ([16_777_216, 16_777_217], [10**8, 10**8 + 1]):  # equal in single precision
        shared_out(sampling, near, 1e-6)
    shared_out(sampling, [12], 3.0)
    shared_out(sampling, [12], 3.0, 5)
    shared_out(sampling, [1, 1], 0.7)
    for temperature in (0, 0.0, -1.0):
        says = f"a temperature of {temperature} should raise ValueError: it is not above 0."
        expect.refuses(sampling, sizes, temperature, says=says)
    expect.refuses(sampling, sizes, math.nan, says="a temperature of NaN should raise ValueError too.")


# 9.5


def far(count: int, share: float, repeats: int) -> bool:
    """Whether so many of `repeats` are too far from this share to be chance: that happens once in 10^11 draws."""
    return not expect.plausible(count, repeats, share, sigmas=7)


def fair(Replay: Remote, lib: Library, capacity: int, count: int, repeats: int, seed: int) -> None:
    """Fail unless each of `count` examples is kept as often as the others."""
    *counts, odd = lib(toys).kept_counts(Replay, capacity, count, repeats, seed)
    assert odd == 0, "a memory holds more examples than its capacity, or fewer than it could hold."
    if count <= capacity:
        return
    newest = [0] * (count - capacity) + [repeats] * capacity
    assert counts != newest[::-1], "new examples are never let in: the memory keeps the first ones."
    told = "all memories with one `rng` keep examples from the same places. Draw from `rng` itself, not from a copy."
    assert counts == newest or not all(one in (0, repeats) for one in counts), told
    told = "every new example is let in. The n-th example should be let in with probability k / n."
    assert counts[-1] < repeats, told
    late = sum(counts[capacity:]) / (count - capacity)
    first = sum(counts[:capacity]) / capacity
    if any(far(one, capacity / count, repeats) for one in counts):
        told = "late examples are kept more often than early ones. All should have the same chance."
        assert late <= first, told
        told = "early examples are kept more often than late ones, or some places are replaced less often than others."
        raise AssertionError(told)


def sound(Replay: Remote, lib: Library, capacity: int, stream: list[Any], n: int, seed: int) -> None:
    """Fail unless a memory keeps and draws examples of the stream, as many as it should."""
    says = f"adding {len(stream)} examples to a memory for {capacity}, or drawing a sample of {n}, raises an error."
    kept, drawn, left, after, name, holder, themselves = expect.answers(
        lib(toys).kept_and_drawn, Replay, capacity, stream, n, seed, says=says
    )
    assert holder == "list", "`examples` should be a list."
    size = min(capacity, len(stream))
    assert len(kept) <= capacity, "a memory holds more examples than its capacity."
    told = "a memory holds more examples than were added to it. It should begin with an empty list of its own."
    assert len(kept) <= size, told
    told = f"a memory for {capacity} holds only {len(kept)} of the {len(stream)} examples that were added. "
    if len({*map(repr, stream)}) < len(stream) or not all(stream):
        told += "Equal examples all count, and so do those that are 0, empty or None."
    assert len(kept) == size, told.rstrip()

    def within(some: list[Any], all_of: list[Any]) -> bool:
        rest = list(all_of)
        for one in some:
            if one not in rest:
                return False
            rest.remove(one)
        return True

    assert within(kept, stream), "a memory holds an example that was not added, or one example twice."
    assert themselves, "a memory holds copies. Keep the examples themselves, since not all types can be copied."
    told = "`sample` should return a list."
    assert name == "list", told
    told = "if n is larger than the number of kept examples, `sample` should return all of them."
    assert len(drawn) == size or n < size, told
    assert len(drawn) == min(n, size), "`sample(n)` should return n examples."
    told = "a sample holds something that is not among the kept examples. Draw from these."
    assert all(one in kept for one in drawn), told
    told = "a sample has an example twice that is kept only once. Draw without replacement."
    assert within(drawn, kept), told
    assert len(left) == size and within(left, kept), "drawing a sample changes which examples are kept."
    assert after == left, "changing a sample changes the memory. Return a new list."


@check("9.5", points=2, forbids=MODELS)
def replay(Replay, lib):
    """Check equal chances to be kept and to be drawn, all from the generator."""
    mixed: list[Any] = [0, None, "", [1, 2], {"text": "a"}, "a", "a", 0, [1, 2], 7]
    for capacity, stream, n in (
        (4, [], 2),
        (4, [5], 3),
        (3, [5, 6, 7], 2),
        (3, [5, 6, 7, 8], 2),
        (5, mixed[:3], 2),
        (5, mixed[:5], 5),
        (6, mixed, 4),
        (3, mixed, 9),
        (1, mixed, 1),
        (12, mixed, 12),
        (4, list(range(50)), 2),
        (4, list(range(50)), 0),
    ):
        for seed in range(3):
            sound(Replay, lib, capacity, stream, n, 95 + seed)
    for capacity, count, repeats in ((2, 20, 600), (2, 5, 1000), (1, 4, 800), (3, 4, 800), (4, 12, 600)):
        fair(Replay, lib, capacity, count, repeats, 950 + capacity)
    drawn = lib(toys).drawn_counts(Replay, 5, 2, 800, 960)
    told = "some of the kept examples are drawn more often than others. All should have the same chance."
    assert not any(far(one, 2 / 5, 800) for one in drawn), told
    told = (
        "some pairs of kept examples are drawn together more often than others. Draw all "
        "examples of a sample at random."
    )
    assert not any(far(one, 1 / 10, 800) for one in lib(toys).drawn_with_first(Replay, 5, 800, 961)), told
    told = "with dicts of tensors as examples there is an error. Do not compare examples: replace by place instead."
    expect.answers(lib(toys).keeps_tensors, Replay, 4, 40, 962, says=told)
    chance(Replay, lib, [1, 2, 3])
    many(Replay, lib, 963)


def many(Replay: Remote, lib: Library, seed: int) -> None:
    """Fail unless a large memory keeps as many of the first half of many examples as of the second one."""
    capacity, count = 1000, 12_000
    early = lib(toys).kept_of_first_half(Replay, capacity, count, seed)
    told = f"of {count} examples, late ones are kept {{}} often than early ones. All should have the same chance."
    assert not far(early, 1 / 2, capacity), told.format("more" if 2 * early < capacity else "less")


def chance(Replay: Remote, lib: Library, seeds: list[int]) -> None:
    """Fail unless the generator decides, and nothing else."""
    *found, again = lib(toys).outcomes(Replay, 6, 60, 3, seeds)
    told = "two memories with equal generators differ. `rng` should be the only source of chance."
    assert found[0] == again, told
    told = (
        "memories with different generators keep or draw the same examples: `rng` is not used, or it is seeded again."
    )
    assert all(one[0] != found[0][0] and one[1:] != found[0][1:] for one in found[1:]), told
    told = "every sample of a memory is the same. Draw again for each sample."
    assert any(one[1] != one[2] for one in found), told


# 9.6


def small_net(parts: Any, d: int, width: int, classes: int) -> Any:
    """Linear, tanh, dropout, linear, without known weights."""
    return parts.Sequential(parts.Linear(d, width), parts.Tanh(), parts.Dropout(0.5), parts.Linear(width, classes))


def jacobians(model: nn.Module, names: Sequence[str], x: torch.Tensor) -> list[torch.Tensor]:
    """For each parameter the slopes of all logits of one row: (C, ...)."""
    named = dict(model.named_parameters())
    with torch.enable_grad():
        logits = model(x[None])[0]
        rows = [
            torch.autograd.grad(one, [named[name] for name in names], retain_graph=True, materialize_grads=True)
            for one in logits
        ]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def information(
    model: nn.Module, inputs: torch.Tensor, weigh: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
) -> State:
    """The diagonal of the Fisher information, from the slopes of the logits: the variance of them under p.

    About their mean: of a sure model the difference of two squares would be rounding alone.

    `weigh`, for misreadings, makes an example's number of slopes of log-probabilities (C, ...) and probabilities (C).
    """
    names = [name for name, part in model.named_parameters() if part.requires_grad]
    total = [torch.zeros_like(part) for name, part in model.named_parameters() if name in names]
    for x in inputs:
        with torch.no_grad():
            p = model(x[None])[0].softmax(-1)
        for place, J in enumerate(jacobians(model, names, x)):
            share = p.reshape(-1, *[1] * (J.ndim - 1))
            expected = (share * J).sum(0)
            if weigh is None:
                total[place] = total[place] + (share * (J - expected) ** 2).sum(0)
            else:
                total[place] = total[place] + weigh(J - expected, share)
    return {name: value.detach() / len(inputs) for name, value in zip(names, total, strict=True)}


def best_only(slopes: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """The most likely answer in place of all."""
    return slopes[int(p.flatten().argmax())] ** 2


MISREADINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "only the most likely answer counts. All answers should count, each with its probability.": best_only,
    "only the most likely answer counts, with its probability. All answers should count.": lambda slopes, p: (
        best_only(slopes, p) * p.max()
    ),
    "all answers count the same. Each should count with its probability.": lambda slopes, p: (slopes**2).sum(0),
    "the plain mean over the answers is taken. Each answer should count with its probability.": lambda slopes, p: (
        slopes**2
    ).mean(0),
    "the gradients are those of the probabilities. Use those of their logarithms.": lambda slopes, p: (
        p * (p * slopes) ** 2
    ).sum(0),
    "the gradients are not squared. Square each one before adding them up.": lambda slopes, p: (p * slopes.abs()).sum(
        0
    ),
    (
        "all numbers are nearly 0, because the gradients of all answers cancel. Square each one before you add them up."
    ): lambda slopes, p: (p * slopes).sum(0) ** 2,
    "the probabilities are squared too. They are weights: do not square them.": lambda slopes, p: (
        p**2 * slopes**2
    ).sum(0),
}


def batch_squares(model: nn.Module, inputs: torch.Tensor) -> list[State]:
    """What comes out where gradients are averaged over the batch and squared then."""
    found = []
    named = {name: part for name, part in model.named_parameters() if part.requires_grad}
    with torch.enable_grad():
        logs = model(inputs).log_softmax(-1)
        best = logs.max(-1).values.mean()
        slopes = torch.autograd.grad(best, [*named.values()], retain_graph=True, materialize_grads=True)
        found.append({name: slope**2 for name, slope in zip(named, slopes, strict=True)})
        whole = {name: torch.zeros_like(part) for name, part in named.items()}
        for answer, share in zip(logs.mean(0), logs.exp().mean(0).detach(), strict=True):
            slopes = torch.autograd.grad(answer, [*named.values()], retain_graph=True, materialize_grads=True)
            for name, slope in zip(named, slopes, strict=True):
                whole[name] = whole[name] + share * slope**2
        found.append(whole)
    return found


def informed(fisher: Remote, theirs: Remote, ours: nn.Module, inputs: torch.Tensor, otherwise: str = "") -> None:
    """Fail unless the Fisher information is the twin's, in evaluation mode; `otherwise` is said if nothing fits."""
    value = expect.of_type(fisher(theirs, inputs), dict, "`fisher` should return a dict")
    wanted = information(ours.eval(), inputs)
    extra = [name for name in value if name not in wanted]
    frozen = [name for name in extra if name in dict(ours.named_parameters())]
    assert not frozen, f"`{frozen[0]}` is in the dict, but does not learn. Leave it out."
    assert not extra, f"the dict has the key `{extra[0]}`, which is not the name of a parameter."
    missing = [name for name in wanted if name not in value]
    assert not missing, (
        f"`{missing[0]}` is missing. The dict should have an entry for each parameter that learns, even if it is zeros."
    )
    found = {
        name: expect.floats(value[name], tuple(part.shape), f"the information of `{name}`")
        for name, part in wanted.items()
    }
    flat = torch.cat([found[name].flatten() for name in wanted])
    right = torch.cat([part.flatten() for part in wanted.values()]).float()
    summed = "all numbers are 0, which is wrong. Gradients that are summed over all answers before they are squared "
    summed += "would give 0 too."
    assert not right.any() or flat.any(), otherwise or summed
    N = len(inputs)

    def joined(state: State) -> torch.Tensor:
        return torch.cat([state[name].flatten() for name in wanted]).float()

    guesses: dict[str, expect.Guess] = {
        sentence: lambda weigh=weigh: joined(information(ours, inputs, weigh))
        for sentence, weigh in MISREADINGS.items()
    }
    squares = (
        "gradients are averaged over the batch before they are squared. Square the gradient of each example first."
    )
    guesses["the examples are summed. Take their mean."] = N * right
    guesses["the square root of the information is returned. Leave the root out."] = right.sqrt()
    guesses["the numbers are negative. A mean of squares is never negative."] = -right
    with torch.no_grad():
        count = ours(inputs[:1]).size(-1)
    guesses[("the sum over the answers is divided by their number. Divide only by the number of examples.")] = (
        right / count
    )
    for one in batch_squares(ours, inputs):
        assert (
            N == 1 or expect.near(joined(one), right, 1e-3, 1e-6) or not expect.near(flat, joined(one), 1e-3, 1e-6)
        ), squares
    # Some numbers are small: a hundredth of the largest is what an error is measured by.
    unit = float(right.max()) or 1.0

    def told() -> str:
        wrong = [
            name for name in wanted if not expect.near(found[name] / unit, wanted[name].float() / unit, 1e-3, 1e-3)
        ]
        came, should = (float(side[wrong[0]].sum()) for side in (found, wanted))
        size = f"is {came / should:.4g} times what it should be" if should else f"is {came:.4g}, and should be 0"
        examples = "1 example" if N == 1 else f"{N} examples"
        parts = f"for {examples} and {count} classes, the sum of the information of `{wrong[0]}` {size}. "
        if should and math.isclose(came, should, rel_tol=1e-2):
            parts = f"for {examples} and {count} classes, the information of `{wrong[0]}` is wrong, but not its sum. "
            parts += expect.difference(found[wrong[0]], wanted[wrong[0]].float(), 1e-3, 1e-3 * unit) + " "
        return otherwise or (
            f"{parts}Square for each example and class, weight by probability, then take the mean over examples."
        )

    if not expect.near(flat / unit, right / unit, 1e-3, 1e-3):
        again = [fisher(theirs, inputs) for _ in range(8)]
        if not all(torch.equal(one[name], value[name]) for one in again for name in wanted):
            raise AssertionError(
                "calls with the same inputs give different numbers. Either one answer is drawn (all should count), or "
                "the model is in training mode, or gradients of earlier calls still count."
            )
    expect.like(flat, right, told, guesses, 1e-3, unit)


def surely(fisher: Remote, theirs: Remote, x: torch.Tensor, classes: int) -> None:
    """Fail unless a model that is quite sure of all its answers has no information, and no NaN. Its weights are set."""
    bias = 1000.0 * torch.arange(classes)
    theirs.load_state_dict({"0.weight": normal(classes, x.size(1), seed=973), "0.bias": bias})
    for value in fisher(theirs, x).values():
        told = "if the model is very sure, there is NaN. Use log_softmax, and do not divide by a probability."
        assert not value.isnan().any(), told
        assert (value.abs() < 1e-6).all(), "if the model is very sure of all its answers, the information should be 0."


def sure_of_some(fisher: Remote, theirs: Remote, ours: nn.Module, d: int) -> None:
    """Fail unless an example of which the model is unsure counts beside others of which it is sure. It sets weights."""
    weight, bias = ours.state_dict().values()
    rising = torch.arange(len(weight))[:, None].expand_as(weight) / d
    state = {"0.weight": rising.clone(), "0.bias": torch.zeros_like(bias)}
    theirs.load_state_dict(state)
    ours.load_state_dict(state)
    told = "if the model is sure of one example and not of another, the numbers are wrong. "
    told += "Use log_softmax: then nothing has to be left out or replaced."
    informed(fisher, theirs, ours, torch.tensor([0.3, 95.0, 200.0])[:, None].repeat(1, d), told)


def nearly(fisher: Remote, lib: Library, theirs: Remote, ours: nn.Module, x: torch.Tensor) -> None:
    """Fail unless the information of a model that is nearly sure is right, in double precision. Its weights are set."""
    weight, _ = ours.state_dict().values()
    state = {"0.weight": 0.1 * normal(*weight.shape, seed=974), "0.bias": 12.0 * torch.arange(len(weight))}
    theirs.load_state_dict(state)
    ours.load_state_dict(state)
    told = "if the model is nearly sure, the numbers are wrong. Use log_softmax: do not add anything to the "
    told += "probabilities, nor limit them."
    informed(fisher, lib(toys).double(theirs), toys.double(ours), x.double(), told)


def penalised(call: Callable[..., Any], wanted: float, guesses: Mapping[str, float], what: str, *given: Any) -> None:
    """Fail unless a penalty is this number, a tensor."""
    value = call(*given)
    told = f"{what} should be a tensor with one number, not {kind(value)}: it is a part of the loss."
    assert type(value) is torch.Tensor and value.numel() == 1, told
    expect.number_like(value, wanted, what, f"{what} does not match its formula.", guesses, scale=1.0)


def sloped(lib: Library, call: Remote, theirs: Remote, wanted: State, *rest: Any) -> None:
    """Fail unless the gradient of a penalty is this one, by name."""
    told = "the penalty has requires_grad=False. It should be computed from the parameters, even if it is 0."
    assert not wanted or lib(toys).needs_gradient(call, theirs, *rest) is True, told
    slopes = lib(toys).slopes_by_name(call, theirs, *rest)
    if any(value.any() for value in wanted.values()):
        told = "no gradient flows from the penalty to the parameters, so it has no effect on training."
        assert any(value.any() for value in slopes.values()), told
    told = "the gradient of the penalty is NaN or infinite, such as where a parameter has not moved. Use no root there."
    assert all(value.isfinite().all() for value in slopes.values()), told
    for name, value in wanted.items():
        expect.close(slopes[name], value, "the gradient of the penalty for the parameters is wrong.", 1e-3)


def consolidated(
    ewc: Remote, lib: Library, theirs: Remote, ours: nn.Module, importance: State, anchor: State, strength: float
) -> None:
    """Fail unless Kirkpatrick's penalty and its gradient are right."""
    named = {name: part.detach() for name, part in ours.named_parameters()}

    def total(term: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], names: Sequence[str] = ()) -> float:
        return sum(float(term(importance[name], named[name] - anchor[name]).sum()) for name in names or importance)

    def squares(f: torch.Tensor, move: torch.Tensor) -> torch.Tensor:
        return f * move**2

    whole = total(squares)
    count = sum(value.numel() for value in importance.values())
    zero = sum(float((f * named[name] ** 2).sum()) for name, f in importance.items())
    free = sum(float((named[name] - anchor[name]).pow(2).sum()) for name in anchor if name not in importance)
    penalised(
        ewc,
        strength / 2 * whole,
        {
            "`ewc` lacks the factor one half.": strength * whole,
            "`ewc` lacks the factor `strength`.": whole / 2,
            "`ewc` is the plain sum, without the factors one half and `strength`.": whole,
            "`ewc` is always 0, although the parameters differ from the anchor.": 0.0 if whole else 1.0,
            "`ewc` does not use the anchor: it pulls the weights to zero.": strength / 2 * zero,
            "`ewc` does not use the information: all weights count equally.": strength / 2 * total(lambda f, m: m**2),
            "`ewc` does not square how far a weight has moved.": strength / 2 * total(lambda f, m: f * m.abs()),
            "`ewc` squares the information too.": strength / 2 * total(lambda f, m: (f * m) ** 2),
            "`ewc` is a mean. It should be a sum.": strength / 2 * whole / max(1, count),
            "`ewc` takes the mean of each tensor. It should be a sum.": strength
            / 2
            * sum(float((f * (named[n] - anchor[n]) ** 2).mean()) for n, f in importance.items()),
            "`ewc` uses the root of the information. Use the information itself.": strength
            / 2
            * total(lambda f, m: f.sqrt() * m**2),
            "`ewc` also counts parameters that `importance` does not name. Those should be free.": strength
            / 2
            * (whole + free),
        },
        "what `ewc` returns",
        theirs,
        importance,
        anchor,
        strength,
    )
    wanted = {
        name: strength * importance[name] * (named[name] - anchor[name])
        if name in importance
        else torch.zeros_like(part)
        for name, part in named.items()
        if dict(ours.named_parameters())[name].requires_grad
    }
    sloped(lib, ewc, theirs, wanted, importance, anchor, strength)


def remembered(remember: Remote, lib: Library, theirs: Remote, ours: nn.Module) -> None:
    """Fail unless the anchor is the parameters as they were, and copies. The model is moved, here and there."""
    wanted = {name: part.detach().clone() for name, part in ours.named_parameters()}
    anchor, flowing = lib(toys).anchor_after_moves(remember, theirs)
    with torch.no_grad():
        for part in ours.parameters():
            part.add_(1)
    told = "`remember` should return all parameters by the names of `named_parameters()`, and no buffers."
    assert {*anchor} == {*wanted}, told
    for name, value in wanted.items():
        told = "the remembered tensors change when the model changes: they share its memory. Copy them."
        assert anchor[name].shape != value.shape or not torch.equal(anchor[name], value + 1), told
        told = "the tensors that `remember` returns do not have the values or the dtype of the parameters."
        assert anchor[name].dtype == value.dtype and torch.equal(anchor[name], value), told
    told = "the remembered tensors have requires_grad=True or a graph. Detach them."
    assert not flowing, told


def nets(lib: Library, d: int, width: int, classes: int, seed: int) -> tuple[Remote, Any]:
    """A small net there and here."""
    return expect.twins(lib, lambda parts: small_net(parts, d, width, classes), seed)


def nested(lib: Library, d: int, seed: int) -> tuple[Remote, Any]:
    """A net there and here whose parameters have names of one part, such as `1.weight`, and of four."""

    def build(parts: Any) -> Any:
        inner = parts.Sequential(parts.Tanh(), parts.Sequential(parts.Linear(3, 2)))
        return parts.Sequential(parts.Linear(d, 3), parts.Sequential(inner))

    return expect.twins(lib, build, seed)


def with_norm(lib: Library, d: int, width: int, classes: int, seed: int) -> tuple[Remote, Any]:
    """A net with batch norm, there and here, which keeps other means and variances than those of any batch."""

    def build(parts: Any) -> Any:
        return parts.Sequential(
            parts.Linear(d, width),
            parts.BatchNorm1d(width),
            parts.Tanh(),
            parts.Dropout(0.3),
            parts.Sequential(parts.Sequential(parts.Linear(width, classes))),
        )

    theirs, ours = build(lib(nn)), build(nn)
    state = {
        name: normal(*part.shape, seed=seed + place).abs() + 0.5
        if "var" in name
        else normal(*part.shape, seed=seed + place)
        for place, (name, part) in enumerate(ours.state_dict().items())
        if "num" not in name
    }
    for module in (theirs, ours):
        module.load_state_dict(state | {"1.num_batches_tracked": torch.tensor(3)})
    return theirs, ours


@check("9.6", points=3, forbids=MODELS)
def consolidation(remember, fisher, ewc, lib):
    """Check copies of parameters, the variance of gradients under the model's own answers, and the penalty."""
    d, width, classes = 4, 5, 3

    def deep(parts: Any) -> Any:
        return parts.Sequential(parts.Linear(d, 2), parts.Sequential(parts.Sequential(parts.BatchNorm1d(2))))

    theirs, ours = expect.twins(lib, deep, 961)
    theirs[0].weight.requires_grad_(False)
    with world_kept(lib, "after `remember` was called,"):
        remembered(remember, lib, theirs, ours)
    remembered(remember, lib, lib(toys).double(theirs), toys.double(ours))

    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(d, classes)), 962)
    for N in (6, 1, classes, 37):
        x = normal(N, d, seed=963)
        many = f"with {N} examples, the numbers are wrong. With 1, {classes} and 6 they are right." if N > 6 else ""
        informed(fisher, theirs, ours, x, many)
        found = fisher(theirs, x)
        with torch.no_grad():
            p = ours(x).softmax(-1)
        closed = torch.einsum("nc,nd->cd", p * (1 - p), x**2) / N  # of a linear map, on paper
        expect.close(
            found["0.weight"].float(),
            closed,
            (
                "a second call for a linear map does not give the mean of p (1 - p) x^2. It should depend on the model "
                "and the inputs alone."
            ),
            1e-3,
        )
    theirs, ours = nets(lib, d, width, classes, 964)
    x = normal(7, d, seed=965)
    before = theirs.state_dict()
    for training in (True, False):
        theirs.train(training)
        informed(fisher, theirs, ours, x)
        assert read(theirs.training) is training, "`fisher` leaves the model in another mode."
        told = (
            "`fisher` leaves a part of the model in another mode. `model.train(mode)` sets all "
            "parts, `.training` only one."
        )
        assert read(theirs[2].training) is training, told
        assert expect.agree(theirs.state_dict(), before), "`fisher` changes the model's weights."
    normed, twin = with_norm(lib, d, width, classes, 975)
    informed(
        fisher,
        normed,
        twin,
        x,
        ("with batch norm, the numbers are wrong. In evaluation mode it uses its running mean and variance."),
    )
    for _, what in lib(probes).changes(fisher, {"the model": normed}, [normed, x], {}):
        raise AssertionError(f"`fisher` changes the model: {what} {be(what)} not as before.")
    told = "`fisher` leaves gradients, perhaps zeros, in parameters that had none. Use torch.autograd.grad."
    assert lib(toys).leaves_gradients(fisher, theirs, x) is False, told
    told = "`fisher` removes or changes the gradients that the parameters had. Use torch.autograd.grad."
    assert lib(toys).forgets_gradients(lib(functools).partial(fisher, inputs=x), theirs, x) is False, told
    told = "the tensors that `fisher` returns have requires_grad=True or a graph. Detach them."
    assert lib(toys).flows_from(fisher, theirs, x) is False, told
    theirs[0].weight.requires_grad_(False)
    ours[0].weight.requires_grad_(False)
    informed(fisher, theirs, ours, x)
    assert lib(toys).learning(theirs) == [False, True, True, True], "`fisher` changes which parameters learn."
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Embedding(9, classes), parts.Flatten()), 966)
    named = fisher(theirs, torch.tensor([[4], [1], [4]]))
    is_new(lib, "the dict that `fisher` gives", fisher, theirs, torch.tensor([[4]]))
    told = "rows of an embedding that no input uses should have information 0, and the other rows should not."
    assert not named["0.weight"][[0, 2, 3, 5, 6, 7, 8]].any() and named["0.weight"][[1, 4]].all(), told
    theirs, ours = lib(toys).Idle(d, classes), toys.Idle(d, classes)
    expect.same_weights(theirs, ours, 970)
    says = "a parameter on which no answer depends raises an error. Its information should be zeros."
    expect.answers(informed, fisher, theirs, ours, x, says=says, kinds=("RuntimeError", "TypeError", "AttributeError"))
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(d, classes)), 972)
    surely(fisher, theirs, x, classes)
    sure_of_some(fisher, theirs, ours, d)
    nearly(fisher, lib, theirs, ours, x)
    theirs, ours = nets(lib, d, width, classes, 967)
    exact = fisher(lib(toys).double(theirs), x.double())["3.weight"]
    assert exact.dtype is torch.float64, "with a model in double precision, the information should be too."
    told = "on another device (a GPU) this would fail. Create tensors on the device of the parameters."
    assert lib(toys).meets_other_devices(fisher, theirs, x[:1]) is False, told
    says = "inputs that are not contiguous in memory raise an error."
    found = expect.answers(lib(toys).strided, fisher, theirs, x, says=says)
    expect.close(
        found["3.weight"],
        information(ours.eval(), x)["3.weight"],
        "for inputs that are not contiguous in memory, the information is wrong.",
    )

    every = {name: part.detach() for name, part in ours.named_parameters()}
    for strength in (3.0, 0.5):
        anchor = {name: value + 0.5 * normal(*value.shape, seed=968) for name, value in every.items()}
        importance = {name: normal(*value.shape, seed=969) ** 2 for name, value in every.items()}
        consolidated(ewc, lib, theirs, ours, importance, anchor, strength)
        old = {name: value for name, value in anchor.items() if name.startswith("0")}
        consolidated(ewc, lib, theirs, ours, {name: importance[name] for name in old}, old, strength)
        consolidated(ewc, lib, theirs, ours, {name: importance[name] for name in old}, anchor, strength)
    consolidated(ewc, lib, theirs, ours, importance, every, 2.0)
    expect.one_device(lib, ewc, theirs, importance, anchor, 2.0)


# 9.7


def starts_of(
    l2_sp: Remote, lib: Library, theirs: Remote, ours: nn.Module, anchor: State, alpha: float, beta: float
) -> None:
    """Fail unless the penalty of Li et al. and its gradient are right."""
    worth(l2_sp, theirs, ours, anchor, alpha, beta)
    pulls(l2_sp, lib, theirs, ours, anchor, alpha, beta)


def pulls(
    l2_sp: Remote, lib: Library, theirs: Remote, ours: nn.Module, anchor: State, alpha: float, beta: float
) -> None:
    """Fail unless the gradient of the penalty of Li et al. is right."""
    wanted = {}
    for name, part in ours.named_parameters():
        shared = name in anchor and anchor[name].shape == part.shape
        if part.requires_grad:
            wanted[name] = alpha * (part.detach() - anchor[name]) if shared else beta * part.detach()
    sloped(lib, l2_sp, theirs, wanted, anchor, alpha, beta)


def worth(l2_sp: Remote, theirs: Remote, ours: nn.Module, anchor: State, alpha: float, beta: float) -> None:
    """Fail unless the penalty of Li et al. is right."""
    named = {name: part.detach() for name, part in ours.named_parameters()}
    shared = [name for name, part in named.items() if name in anchor and anchor[name].shape == part.shape]
    new = [name for name in named if name not in shared]
    moved = {name: named[name] - anchor[name] for name in shared}
    near = sum(float(value.pow(2).sum()) for value in moved.values())
    fresh = sum(float(named[name].pow(2).sum()) for name in new)
    zero = sum(float(value.pow(2).sum()) for value in named.values())
    broadcast = reshaped = 0.0
    clash = [name for name in new if name in anchor]
    for name in clash:
        same_count = anchor[name].numel() == named[name].numel()
        start = anchor[name].reshape(named[name].shape) if same_count else torch.zeros(())
        reshaped += (alpha if same_count else beta) / 2 * float((named[name] - start).pow(2).sum())
    for name in clash:
        try:
            broadcast += alpha / 2 * float((named[name] - anchor[name]).pow(2).sum())
        except RuntimeError:
            continue
    rest = sum(float(named[name].pow(2).sum()) for name in new if name not in clash)
    held = {name: state for name, state in ours.named_buffers() if state.is_floating_point()}
    buffers = sum(float(value.pow(2).sum()) for value in held.values())
    as_parameters = 0.0
    for name, state in ours.named_buffers():
        same = name in anchor and anchor[name].shape == state.shape
        move = state - anchor[name] if same else state
        as_parameters += (alpha if same else beta) / 2 * float(move.float().pow(2).sum())
    right = alpha / 2 * near + beta / 2 * fresh
    in_order, starts = 0.0, [*anchor.values(), *[torch.zeros(0)] * len(named)]
    for value, start in zip(named.values(), starts, strict=False):
        same = value.shape == start.shape
        in_order += (alpha if same else beta) / 2 * float((value - start if same else value).pow(2).sum())
    learning = {name for name, part in ours.named_parameters() if part.requires_grad}
    penalised(
        l2_sp,
        right,
        {
            "the penalty is 0, although the weights are not where they are pulled to.": 0.0,
            "the anchors are used in their order. Look them up by name.": in_order,
            "the factor one half is missing.": 2 * right,
            "everything is pulled to zero. Shared weights should be pulled to their start.": alpha
            / 2
            * sum(float(named[name].pow(2).sum()) for name in shared)
            + beta / 2 * fresh,
            (
                "everything is pulled to zero, with alpha. Pull shared weights to their start, and "
                "new ones to zero with beta."
            ): alpha / 2 * zero,
            "everything is pulled to zero, with beta. Pull shared weights to their start with alpha.": beta / 2 * zero,
            "a weight whose shape differs from that of its anchor is left out. It counts as new.": alpha / 2 * near
            + beta / 2 * rest,
            "new weights are not in the penalty. They should be pulled to zero with beta.": alpha / 2 * near,
            "shared weights are not in the penalty. They should be pulled to their start with alpha.": beta / 2 * fresh,
            "alpha and beta are exchanged.": beta / 2 * near + alpha / 2 * fresh,
            "new weights are pulled with alpha. Use beta for them.": alpha / 2 * (near + fresh),
            "shared weights are pulled to zero too. Pull them to their start alone.": alpha / 2 * near
            + beta / 2 * zero,
            "shared weights are pulled with beta. Use alpha for them.": beta / 2 * (near + fresh),
            "a weight is compared with an anchor of another shape. A weight whose shape differs counts as new.": alpha
            / 2
            * near
            + broadcast
            + beta / 2 * rest,
            (
                "a weight with as many numbers as its anchor is treated as shared. If the shape "
                "differs, it counts as new."
            ): alpha / 2 * near + reshaped + beta / 2 * rest,
            "the lengths of the differences are added. Add their squares.": alpha
            / 2
            * sum(float(v.norm()) for v in moved.values())
            + beta / 2 * sum(float(named[name].norm()) for name in new),
            "the means of the squares are added. Take sums over all entries.": alpha
            / 2
            * sum(float(v.pow(2).mean()) for v in moved.values())
            + beta / 2 * sum(float(named[name].pow(2).mean()) for name in new),
            "buffers are counted too. Count only parameters.": right + beta / 2 * buffers,
            "buffers are counted too, as parameters are. Count only parameters.": right + as_parameters,
            "parameters that do not learn are left out. All parameters count.": alpha
            / 2
            * sum(float(moved[name].pow(2).sum()) for name in shared if name in learning)
            + beta / 2 * sum(float(named[name].pow(2).sum()) for name in new if name in learning),
            "absolute values are added. Add squares.": alpha / 2 * sum(float(v.abs().sum()) for v in moved.values())
            + beta / 2 * sum(float(named[name].abs().sum()) for name in new),
        },
        "the penalty",
        theirs,
        anchor,
        alpha,
        beta,
    )


def pulled(model: nn.Module, anchor: State, alpha: float, beta: float) -> torch.Tensor:
    """The penalty of Li et al."""
    total = torch.zeros((), dtype=torch.float64)
    for name, part in model.named_parameters():
        shared = name in anchor and anchor[name].shape == part.shape
        square = ((part - anchor[name]) if shared else part).double().square().sum()
        total = total + (alpha if shared else beta) / 2 * square
    return total


L2_SP = Contract(
    "l2_sp(model, anchor, 0.7, 0.2)",
    sizes={"d": (1, 7), "w": (1, 6), "C": (1, 5), "anchors": (0, 1)},
    model=lambda toys, seed, d, w, C: toys.net(d, w, C, seed),
    anchor=lambda toys, seed, d, w, C, anchors: first_of(
        some_anchor({"0.weight": (w, d), "0.bias": (w,), "3.weight": (C + 1, w)}, seed), 3 * anchors
    ),
    gives="the penalty: float (one number)",
    right=pulled,
    keeps="model",
    toys=toys,
)


def some_anchor(shapes: Mapping[str, tuple[int, ...]], seed: int) -> State:
    """Normal numbers by name."""
    return {name: normal(*shape, seed=10 * seed + place) for place, (name, shape) in enumerate(shapes.items())}


def first_of(tensors: State, count: int) -> State:
    """The first tensors of a dict, so many."""
    return dict([*tensors.items()][:count])


EWC = Contract(
    "ewc(model, importance, anchor, 3.0)",
    sizes={"d": (1, 7), "w": (1, 6), "C": (1, 5), "names": (1, 2)},
    model=lambda toys, seed, d, w, C: toys.net(d, w, C, seed),
    importance=lambda toys, seed, d, w, C, names: {
        name: one.abs()
        for name, one in first_of(some_anchor({"0.weight": (w, d), "3.bias": (C,)}, seed + 1), names).items()
    },
    anchor=lambda toys, seed, d, w, C: some_anchor({"0.weight": (w, d), "0.bias": (w,), "3.bias": (C,)}, seed),
    gives="the penalty: float (one number)",
    right=lambda model, importance, anchor, strength: (
        strength
        / 2
        * sum(
            (importance[name] * (dict(model.named_parameters())[name] - anchor[name]) ** 2).double().sum()
            for name in importance
        )
    ),
    keeps="model",
    toys=toys,
)


@check("9.7", points=2, forbids=MODELS)
def starting_point(l2_sp, lib):
    """Check the pull of shared weights to their start and of new ones to zero; buffers do not count."""
    d, width, classes = 4, 5, 3
    theirs, ours = nets(lib, d, width, classes, 970)
    named = {name: part.detach() for name, part in ours.named_parameters()}
    start = {name: value + normal(*value.shape, seed=971) for name, value in named.items()}
    body = {name: value for name, value in start.items() if name.startswith("0")}
    other = body | {"3.weight": normal(1, width, seed=972), "3.bias": normal(1, seed=973)}
    wide = body | {"3.weight": normal(classes + 1, width, seed=974), "3.bias": normal(classes + 1, seed=975)}
    again = dict(reversed([*start.items()]))  # by name, whatever the order
    turned = body | {"3.weight": normal(width, classes, seed=978), "3.bias": normal(classes, 1, seed=979)}
    thin = body | {"3.weight": normal(classes, 1, seed=983), "3.bias": start["3.bias"]}
    several: tuple[State, ...] = (start, body, other, wide, {}, start | {"gone.weight": normal(2, 2, seed=976)}, named)
    strengths = (0.7, 0.2), (0.1, 3.0), (1.0, 0.0), (0.0, 1.0)
    cases = [(anchor, *both) for anchor in (*several, again, turned, thin) for both in strengths]
    for case in cases:  # all of them before any gradient: which mistake it is shows with several anchors
        worth(l2_sp, theirs, ours, *case)
    for case in cases:
        pulls(l2_sp, lib, theirs, ours, *case)
    theirs[0].weight.requires_grad_(False)
    ours[0].weight.requires_grad_(False)
    starts_of(l2_sp, lib, theirs, ours, body, 0.7, 0.2)
    theirs, ours = expect.twins(lib, lambda parts: parts.Sequential(parts.Linear(d, 2), parts.BatchNorm1d(2)), 977)
    state = {name: value.clone() for name, value in ours.state_dict().items() if "num" not in name}
    shifted = {name: value + 1 for name, value in state.items()}
    for anchor in ({}, shifted, {name: value for name, value in shifted.items() if name.startswith("0")}):
        starts_of(l2_sp, lib, theirs, ours, anchor, 0.4, 0.9)
    expect.one_device(lib, l2_sp, theirs, shifted, 0.4, 0.9)
    theirs, ours = nested(lib, d, 985)
    start = {name: part.detach() + 1 for name, part in ours.named_parameters()}
    for anchor in (start, {}):
        starts_of(l2_sp, lib, theirs, ours, anchor, 0.7, 0.2)


# 9.8


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All numbers in one row, in double precision."""
    return torch.cat([one.detach().double().flatten() for one in tensors])


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """The cosine of two rows, 0 if one has no length."""
    length = float(a.norm() * b.norm())
    return float(a @ b) / length if length else 0.0


def aligned(
    call: Remote,
    lib: Library,
    pair: tuple[Remote, Any],
    x: torch.Tensor,
    labels: list[torch.Tensor],
    factor: float,
    part: str = "",
) -> None:
    """Fail unless the cosine of two tasks' gradients is right, and nothing is used up."""
    theirs, ours = pair
    found, alone, alive = lib(toys).cosine_of(call, theirs, x, labels, factor, part)
    names = [(n, p) for n, p in ours.named_parameters() if n.startswith(part)]
    with torch.enable_grad():
        losses = ours(x, labels, factor)
        slopes = [
            torch.autograd.grad(loss, [p for _, p in names], retain_graph=True, materialize_grads=True)
            for loss in losses
        ]
    a, b = (flat(one) for one in slopes)
    each = [cosine(one.double().flatten(), other.double().flatten()) for one, other in zip(*slopes, strict=True)]
    both = [c for c, one, other in zip(each, *slopes, strict=True) if one.any() and other.any()]
    common = [(one, other) for one, other in zip(*slopes, strict=True) if one.any() and other.any()]
    wanted = cosine(a, b)
    told = "the cosine is a tensor. Return a float."
    assert type(found) is not torch.Tensor, told
    zero = not (a.any() and b.any())
    number = expect.number(found, "where one of the two gradients is zero, the cosine" if zero else "the cosine")
    small = 0 < min(float(a.norm()), float(b.norm())) < 1e-7
    told = "the cosine is wrong. It should be that of the two gradients over all parameters together."
    if zero:
        told = "where one of the two gradients is zero, the cosine is not 0."
    elif small:
        told = (
            "the cosine of a small gradient is wrong. It should not depend on the length: only for a gradient of zeros "
            "it is 0."
        )
    shared = cosine(flat([one for one, _ in common]), flat([other for _, other in common])) if common else 0.0
    expect.number_like(
        number,
        wanted,
        "the cosine",
        told,
        {}
        if small
        else {
            "this is the mean of the cosines of single tensors. Treat each gradient as one long vector.": mean_of(each),
            "this is the mean of the cosines of the single tensors that both have.": mean_of(both),
            "this is the sum of the cosines of single tensors. Treat each gradient as one long vector.": sum(each),
            "parameters on which only one loss depends are left out. Use zeros for their other gradient.": shared,
            "this is the dot product. Divide it by both lengths.": float(a @ b),
            "the sign of the cosine is lost. It should be negative if the gradients conflict.": abs(wanted),
            "the sign is wrong.": -wanted,
            "the dot product is divided twice by the length of the first gradient. Divide it by both lengths.": float(
                a @ b
            )
            / float(a.norm() ** 2 or 1.0),
            "this is the angle. Return its cosine.": math.acos(max(-1.0, min(1.0, wanted))),
        },
        scale=2.0,
    )
    assert alone, "the `.grad` of a parameter changes. Use torch.autograd.grad."
    assert alive, "the losses can no longer be backpropagated after the call. Keep their graphs with retain_graph=True."


def projected(call: Remote, g_a: list[torch.Tensor], g_b: list[torch.Tensor]) -> None:
    """Fail unless g_a has lost what works against g_b, and nothing else."""
    value = expect.items(
        call(g_a, g_b), len(g_a), "`without_conflict` should return a list with a tensor for each one in g_a"
    )
    for one, given in zip(value, g_a, strict=True):
        expect.tensor(one, tuple(given.shape), "a tensor of the result")
        assert one.dtype is given.dtype, "the result does not have the dtype of the gradients."
    a, b = flat(g_a), flat(g_b)
    product, square = float(a @ b), float(b @ b)
    wanted = a - product / square * b if product < 0 else a
    per_tensor, each = [], []
    for one, other in zip(g_a, g_b, strict=True):
        left, right = one.double().flatten(), other.double().flatten()
        inner, size = float(left @ right), float(right @ right)
        per_tensor.append(left - inner / size * right if inner < 0 else left)
        each.append(left - inner / (size or 1.0) * right)
    size_a = float(a @ a)
    unit = math.sqrt(size_a) or 1.0  # gradients of any size are right or wrong alike
    guesses = {
        "`g_a` is projected although there is no conflict.": a - product / (square or 1.0) * b,
        "each tensor is projected on its own. Treat the gradient as one long vector.": torch.cat(per_tensor),
        "`g_a` is unchanged although there is a conflict.": a,
        "the part along g_b is added to g_a. Subtract it.": a + product / (square or 1.0) * b,
        "the dot product is divided by the length of g_b. Divide it by the squared length.": a
        - product / (math.sqrt(square) or 1.0) * b,
        "the dot product is not divided by the squared length of g_b.": a - product * b,
        "the dot product is divided by the squared length of g_a. Divide it by that of g_b.": a
        - product / (size_a or 1.0) * b,
        "`g_b` is projected. Project `g_a` instead.": b - product / (size_a or 1.0) * a,
        "only half of the part along g_b is removed. Remove all of it.": a - product / (square or 1.0) / 2 * b,
        "each tensor is projected on its own in a conflict. Treat the gradient as one long vector.": torch.cat(each),
        "`g_b` is returned. Return `g_a`, and in a conflict without its part along `g_b`.": b,
        "a multiple of g_a is subtracted from g_a. Subtract a multiple of g_b.": a - product / (square or 1.0) * a,
        "the part along g_b is returned. Remove this part from g_a, and return the rest.": product
        / (square or 1.0)
        * b,
        "nothing is left of g_a. Remove only the part along g_b.": torch.zeros_like(a),
        "the two gradients are added. Return g_a without its part along g_b.": wanted + b,
    }
    lengths = f"if `g_a` has length {math.sqrt(size_a):.2g} and `g_b` {math.sqrt(square):.2g}"
    expect.like(
        flat(value),
        wanted,
        f"{lengths}, and they conflict, the result is not g_a without its part along g_b."
        if product < 0
        else f"{lengths}, and they do not conflict, the result is not equal to g_a.",
        guesses,
        1e-3,
        unit,
    )


def bundle(seed: int, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
    """Normal numbers in these shapes."""
    return [normal(*shape, seed=seed + place) for place, shape in enumerate(shapes)]


def set_apart(g_a: list[torch.Tensor], g_b: list[torch.Tensor], sign: float) -> list[torch.Tensor]:
    """g_a with so much of g_b that their product has this sign."""
    a, b = flat(g_a), flat(g_b)
    shift = sign * 0.7 * float(a.norm() / b.norm()) - float(a @ b) / float(b @ b)
    return [one + shift * other for one, other in zip(g_a, g_b, strict=True)]


SHAPES = ((3, 4), (5,), (), (2, 1, 3))


def turned_aside(g_a: list[torch.Tensor], g_b: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """g_a without its part against g_b."""
    a, b = (torch.cat([one.flatten() for one in g]) for g in (g_a, g_b))
    new = a - min(0.0, float(a @ b)) / max(1e-300, float(b @ b)) * b
    parts = new.split([one.numel() for one in g_a])
    return tuple(part.view_as(one) for part, one in zip(parts, g_a, strict=True))


WITHOUT = Contract(
    "without_conflict([a, b], [c, d])",
    # What is left of a single number may be less than its rounding. `_s` says whether the gradients agree.
    sizes={"n": (1, 6, 1500), "m": (3, 7), "_s": (0, 3)},
    a="floats (n, m)",
    b="floats (m)",
    e="floats (n, m)",
    f="floats (m)",
    c="= e + (1, 0.3, -2, -3)[_s] * a",
    d="= f + (1, 0.3, -2, -3)[_s] * b",
    gives="the first tensor: as a (n, m); the second tensor: as a (m)",
    right=turned_aside,
    returns="list",
    low=False,
    shares=True,
    special={"gradients that do not conflict": lambda a, b, c, d: (a * c).sum() + (b * d).sum() >= 0},
)


@check("9.8", points=2, forbids=MODELS)
def conflicts(gradient_cosine, without_conflict, lib):
    """Check one cosine over all parameters, and that a part against the other gradient is removed."""
    d, width, classes, N = 4, 3, [2, 3], 6
    theirs = lib(toys).TwoHeads(d, width, classes)
    ours = toys.TwoHeads(d, width, classes)
    expect.same_weights(theirs, ours, 980)
    x = normal(N, d, seed=981)
    labels = [torch.arange(N) % 2, (torch.arange(N) * 2 + 1) % 3]
    for factor in (1.0, -1.0, 30.0):
        for part in ("", "shared", "heads"):
            aligned(gradient_cosine, lib, (theirs, ours), x, labels, factor, part)
    with world_kept(lib, "after `gradient_cosine` was called,"):
        aligned(gradient_cosine, lib, (theirs, ours), x, labels, 0.0)
    for factor in (1e-10, -1e-10, 1e-14):
        aligned(gradient_cosine, lib, (theirs, ours), x, labels, factor)
    for seed in range(3):
        g_b = bundle(982 + 10 * seed, SHAPES)
        for sign in (-1.0, 1.0, -0.1):
            g_a = set_apart(bundle(1020 + 10 * seed, SHAPES), g_b, sign)
            projected(without_conflict, g_a, g_b)
    projected(without_conflict, [one.double() for one in g_a], [one.double() for one in g_b])
    projected(without_conflict, [0.01 * one for one in set_apart(g_a, g_b, -1.0)], [0.01 * one for one in g_b])
    weak = [1e-5 * one for one in set_apart(g_a, g_b, -1.0)]
    for small in (g_b, [1e-5 * one for one in g_b]):  # conflicts of small gradients too
        projected(without_conflict, weak, small)
    projected(without_conflict, [1e-3 * one for one in weak], [1e-8 * one for one in g_b])
    projected(without_conflict, [-2 * one for one in g_b], g_b)
    told = "`without_conflict` should return a list, not a tuple."
    assert lib(toys).type_of(without_conflict, weak, g_b) == "list", told
    zeros = [torch.zeros_like(one) for one in g_b]
    says = "a gradient of zeros gives an error or NaN. It conflicts with nothing, so g_a should be returned."
    for one, other in ((g_a, zeros), (zeros, g_b), (zeros, zeros)):
        found = expect.answers(without_conflict, one, other, says=says)
        told = f"for a gradient of zeros, `without_conflict` should return a list of tensors, not {kind(found)}."
        assert type(found) is list, told
        assert not flat(found).isnan().any(), says
        projected_to(found, one, "with a gradient of zeros there is no conflict, so g_a should not change.")
    g_a = set_apart(bundle(990, ((3, 4), (4, 2))), g_b := bundle(991, ((3, 4), (4, 2))), -1.0)
    projected(without_conflict, g_a, g_b)
    found = expect.answers(
        lib(toys).strided,
        without_conflict,
        g_a,
        g_b,
        says="gradients that are not contiguous in memory raise an error.",
    )
    projected_to(
        found, without_conflict(g_a, g_b), "for gradients that are not contiguous in memory, the result is wrong."
    )
    expect.one_device(lib, without_conflict, g_a, g_b)


def projected_to(found: Any, wanted: Sequence[torch.Tensor], told: str) -> None:
    """Fail unless these tensors are equal."""
    assert type(found) is list and len(found) == len(wanted), told
    for one, other in zip(found, wanted, strict=True):
        expect.close(one, other, told, 1e-5)


# 9.9


def task_names(task: str, name: str) -> bool:
    """Whether a weight of this name is the task's own: of its adapter or its head."""
    return f".adapters.{task}." in name or name.startswith(f"heads.{task}.")


def library_twin(sizes: Sizes, seed: int, tasks: Mapping[str, int]) -> Any:
    """The library's model in this process, with adapters and heads for these tasks.

    It is the same one for the same arguments, because making one takes long. Load a state before you ask it.
    """
    return _twin(sizes, seed, tuple(tasks.items()))


@functools.lru_cache(maxsize=4)
def _twin(sizes: Sizes, seed: int, tasks: tuple[tuple[str, int], ...]) -> Any:
    model = tiny_bert.bert({**vars(sizes), "dropout": 0.0}, seed)
    for task, count in tasks:
        model.add_adapter(task, config="seq_bn")
        model.add_classification_head(task, num_labels=count)
    return model


def named(
    learn: Remote, model: Remote, task: str, count: int, seed: int, tasks: Mapping[str, int], sizes: Sizes
) -> State:
    """The model's state after it was told of a new task; the task's own weights get known numbers."""
    before = model.state_dict()
    learn(model, task, count, [], 0.3)
    state = model.state_dict()
    twin = library_twin(sizes, seed, {**tasks, task: count}).state_dict()
    every = list(state)
    new = [name for name in every if name not in before and f".{task}." in name and not name.startswith("heads.")]
    if not any(f".adapters.{task}." in name for name in every):
        assert not new, f'after learning a task, the model has `{new[0]}`. The config "seq_bn" makes no such weight.'
        raise AssertionError("after learning a task, here from no batches, the model has no adapter with its name.")
    assert any(name.startswith(f"heads.{task}.") for name in every), (
        "after learning a task, here from no batches, the model has no classification head with its name."
    )
    missing, extra = [name for name in twin if name not in state], [name for name in every if name not in twin]
    assert not extra, f"the model has a part too many: `{extra[0]}`."
    assert not missing, (
        f'`{missing[0]}` is missing: the adapter should have the config "seq_bn", and the '
        "head should be the library's default."
    )
    for name, value in twin.items():
        told = f"`{name}` has shape {tuple(state[name].shape)}, not {tuple(value.shape)}."
        assert state[name].shape == value.shape, told
    for name, value in state.items():
        told = f"all numbers of `{name}` are equal at the start: the {{}} is not as the library makes it."
        if name not in before and task_names(task, name) and value.ndim > 1:
            assert float(value.max()) > float(value.min()), told.format("head" if "heads." in name else "adapter")
    told = "with an empty list of batches, a weight moves. None should."
    assert all(torch.equal(state[name], value) for name, value in before.items()), told
    own = {name: tiny_bert.weight(name, state[name].shape, seed) for name in state if task_names(task, name)}
    model.load_state_dict(own, False)
    learn(model, task, count, [], 0.3)
    told = (
        "a task that is learned again starts from scratch: its adapter or its head is "
        "replaced. Both should continue from where "
    )
    told += "they are."
    again = model.state_dict()
    assert all(torch.equal(again[name], value) for name, value in own.items()), told
    return state | own


def after_steps(
    state: State,
    twin: Any,
    task: str,
    batches: Sequence[Mapping[str, torch.Tensor]],
    lr: float,
    kept: float = 0.0,
    decay: float = 0.0,
    reduction: str = "mean",
    longest: float = math.inf,
) -> State:
    """The weights after plain gradient descent on the task's own ones; the twin is left with them.

    Mistakes: `kept`, the weight of gradients of earlier batches, a `decay`, another `reduction` of the losses, and the
    length of the `longest` gradient, to which others are clipped.
    """
    twin.load_state_dict(state)
    twin.set_active_adapters(task)
    twin.eval()  # it has no dropout
    own = [(name, part) for name, part in twin.named_parameters() if task_names(task, name)]
    for _, part in own:
        part.requires_grad_(True)
    sums = [torch.zeros_like(part) for _, part in own]
    for batch in batches:
        with torch.enable_grad():
            logits = twin(**{name: value for name, value in batch.items() if name != "labels"}).logits
            loss = F.cross_entropy(logits, batch["labels"], reduction=reduction)
            slopes = torch.autograd.grad(loss, [part for _, part in own])
        length = float(torch.cat([slope.flatten() for slope in slopes]).norm())
        slopes = [slope * min(1.0, longest / length) for slope in slopes] if length > longest else slopes
        sums = [kept * old + slope for old, slope in zip(sums, slopes, strict=True)]
        with torch.no_grad():
            for (_, part), slope in zip(own, sums, strict=True):
                part.sub_(lr * (slope + decay * part))
    return {name: value.clone() for name, value in twin.state_dict().items()}


def moves(now: State, before: State, twin: Any, task: str, batches: Sequence[Any], lr: float) -> None:
    """Fail unless a task's own weights are where plain SGD takes them; the twin gets other weights."""
    steps = functools.partial(after_steps, before, twin, task)
    wanted = steps(batches, lr)
    own = [name for name in now if task_names(task, name)]

    def like(weights: State, names: Sequence[str] = own) -> bool:
        return all(expect.near(now[name], weights[name], 2e-3, 2e-3) for name in names)

    if like(wanted):
        return

    def without(name: str, fill: int) -> list[Any]:
        return [{**batch, name: torch.full_like(batch[name], fill)} for batch in batches]

    guesses: dict[str, Callable[[], State]] = {
        "the gradients of earlier batches are added. Zero them before each step.": lambda: steps(batches, lr, kept=1.0),
        "SGD has momentum. Use plain SGD, without momentum.": lambda: steps(batches, lr, kept=0.9),
        "the weights decay. Use plain SGD, without weight decay.": lambda: steps(batches, lr, decay=0.1),
        "the weights move up the gradient. They should move down.": lambda: steps(batches, -lr),
        "gradients are clipped to length 1. Use them as they are.": lambda: steps(batches, lr, longest=1.0),
        "the rate is divided by the number of batches. Use `lr` as it is.": lambda: steps(
            batches, lr / max(1, len(batches))
        ),
        "`attention_mask` is not passed to the model while a task is learned.": lambda: steps(
            without("attention_mask", 1), lr
        ),
        "`token_type_ids` are not passed to the model while a task is learned.": lambda: steps(
            without("token_type_ids", 0), lr
        ),
        "the last batch is left out. Take a step for each.": lambda: steps(batches[:-1], lr),
        "the first batch is left out. Take a step for each.": lambda: steps(batches[1:], lr),
        "the losses of a batch are added up. Take their mean.": lambda: steps(batches, lr, reduction="sum"),
        "the batches are learned in reverse order. Keep the given order.": lambda: steps(batches[::-1], lr),
        "only the first batch is learned. Take a step for each.": lambda: steps(batches[:1], lr),
        "only the last batch is learned. Take a step for each.": lambda: steps(batches[-1:], lr),
        "each batch is learned twice. Take one step for each.": lambda: steps(
            [one for one in batches for _ in range(2)], lr
        ),
        "`lr` is not used: a step is as large as the gradient.": lambda: steps(batches, 1.0),
    }
    mistakes = [sentence for sentence, guess in guesses.items() if like(guess())]
    told = f"after {len(batches)} batches with lr = {lr:.2g}, head and adapter are not where plain SGD takes them."
    for part, word, other in (("heads.", "head", "adapter"), (".adapters.", "adapter", "head")):
        if like(wanted, [name for name in own if part in name]):
            told = f"after {len(batches)} batches with lr = {lr:.2g}, the {word} is where plain SGD takes it, but the "
            told += f"{other} is not."
    case = [weights[name] for weights in (now, wanted) for name in own]
    comparison_failed(AssertionError, lambda: told, mistakes, guesses, case)


IN_STEPS = "the task's own weights are not where plain SGD takes them with one step for each batch."


def only_own(now: State, before: State, wanted: State, task: str, told_of_steps: str = IN_STEPS) -> None:
    """Fail unless a task's own weights moved as they should, and no others."""
    no_other(now, before, task)
    for name, value in wanted.items():
        expect.like(now[name], value, told_of_steps, {}, 2e-3)


def no_other(now: State, before: State, task: str) -> None:
    """Fail unless a task's own weights moved, and no others."""
    for name, value in before.items():
        if task_names(task, name):
            continue
        if ".adapters." in name:
            told = "the adapter of another task moves. Only that of the task should learn."
        elif name.startswith("heads."):
            told = "the head of another task moves. Only that of the task should learn."
        elif "LayerNorm" in name:
            told = (
                "a LayerNorm of the encoder learns. All tasks share it, so moving it changes the answers of all tasks."
            )
        else:
            told = "the encoder learns. All tasks share it, so moving it changes the answers of all tasks."
        assert torch.equal(now[name], value), told
    for part in ("heads.", ".adapters."):
        own = [name for name in before if part in name and task_names(task, name)]
        word = "head" if part == "heads." else "adapter"
        assert any(not torch.equal(now[name], before[name]) for name in own), f"the {word} of the task does not learn."


def answered(answer: Remote, model: Remote, twin: Any, state: State, task: str, batch: Any, count: int) -> Any:
    """Fail unless a task is answered with its own adapter and head; the logits."""
    twin.load_state_dict(state)
    twin.eval()
    how = "with" if "labels" in batch else "without"
    told = f"`answer` raises an error for a task that was learned and a batch {how} labels."
    value = expect.answers(answer, model, task, batch, says=told)
    B = len(batch["input_ids"])
    told = (
        f"for {B} text{'s' * (B != 1)} and a task with {count} classes, `answer` returns {kind(value)}. "
        f"It should return logits of shape ({B}, {count}), those of this task's head."
    )
    assert type(value) is torch.Tensor and value.shape == (B, count), told

    def says(asked_task: str | None, head: str, **changed: torch.Tensor) -> torch.Tensor:
        inputs = {name: item for name, item in batch.items() if name != "labels"} | changed
        twin.set_active_adapters(asked_task)
        with torch.no_grad():
            return twin(**inputs, head=head).logits

    zeros, ones = torch.zeros_like(batch["input_ids"]), torch.ones_like(batch["input_ids"])
    right = says(task, task)
    others = [other for other in twin.heads if other != task]
    guesses: dict[str, expect.Guess] = {
        "`answer` does not pass `token_type_ids` to the model, so it cannot tell the two sentences apart.": lambda: (
            says(task, task, token_type_ids=zeros)
        ),
        "`answer` does not pass `attention_mask` to the model, which then reads padding as text.": lambda: says(
            task, task, attention_mask=ones
        ),
        "probabilities are returned. Return logits.": right.softmax(-1),
        "the logits are those of the encoder without any adapter. Activate the adapter of the task.": lambda: says(
            None, task
        ),
    }
    for other in others:
        guesses[f"the adapter of `{other}` is active while another task is asked."] = lambda other=other: says(
            other, task
        )
        guesses["the logits are those of another task's head. Use the head of the task."] = lambda other=other: says(
            task, other
        )
    expect.like(
        value.float(),
        right,
        "the logits are not those of the task's adapter and head, in evaluation mode.",
        guesses,
        1e-3,
    )
    return value


@check("9.9", points=3, draws=True)
def adapters(learn, answer, lib):
    """Check that only a task's own adapters and head learn, and that earlier tasks answer exactly as before."""
    sizes = Sizes()
    seed = 99
    model = lib(tiny_bert).bert(vars(sizes), seed)
    first = tiny_bert.pairs(4, [(11, 6), (8, 5), (9, 7)], sizes.vocab, 991)
    second = tiny_bert.pairs(3, [(10, 5), (7, 5)], sizes.vocab, 992)
    for batch in first:
        batch["labels"] = (torch.arange(4) * 2 + 1) % 3
    state = named(learn, model, "A", 3, seed, {}, sizes)
    twin = library_twin(sizes, seed, {"A": 3})
    learn(model, "A", 3, first, 0.3)
    now = model.state_dict()
    no_other(now, state, "A")
    moves(now, state, twin, "A", first, 0.3)
    state = now
    old = answered(answer, model, twin, state, "A", first[0], 3)

    state = named(learn, model, "B", 2, seed, {"A": 3}, sizes)
    twin = library_twin(sizes, seed, {"A": 3, "B": 2})
    answered(answer, model, twin, state, "A", first[0], 3)
    learn(model, "B", 2, second, 0.3)
    no_other(model.state_dict(), state, "B")
    moves(model.state_dict(), state, twin, "B", second, 0.3)
    state = model.state_dict()
    for batch in (first[0], second[0]):
        bare = {name: value for name, value in batch.items() if name != "labels"}
        answered(answer, model, twin, state, "A", bare, 3)
        answered(answer, model, twin, state, "B", bare, 2)
    answered(answer, model, twin, state, "A", first[0], 3)
    answered(answer, model, twin, state, "B", {name: value[:1] for name, value in first[0].items()}, 2)
    told = "after B was learned, the logits of A are not exactly the same as before. Nothing that A uses should change."
    assert torch.equal(answer(model, "A", first[0]), old), told
    learn(model, "A", 3, first[1:], 0.2)
    no_other(model.state_dict(), state, "A")
    moves(model.state_dict(), state, twin, "A", first[1:], 0.2)
    state, many = model.state_dict(), in_order(3, 8, sizes.vocab, 993)
    told = "after A was learned further, its logits are still those from before. They should follow its weights."
    assert not torch.equal(answer(model, "A", first[0]), old), told
    answered(answer, model, twin, state, "A", first[0], 3)
    learn(model, "A", 3, many, 0.3)
    told = (
        "with many batches, the task's own weights are not where plain SGD takes them. Take "
        "a step for each, in their order."
    )
    only_own(model.state_dict(), state, after_steps(state, twin, "A", many, 0.3), "A", told)
    state = model.state_dict()
    lib(toys).ones_as_gradients(model, [name for name in state if task_names("A", name)])
    learn(model, "A", 3, first[:1], 0.3)
    told = (
        "where gradients were left from before the call, one step does not end where plain SGD takes it. Set them to "
        "zero before the first step too."
    )
    only_own(model.state_dict(), state, after_steps(state, twin, "A", first[:1], 0.3), "A", told)
    state = model.state_dict()
    lib(toys).learns_twice(learn, model, "A", 3, first[:1], first[1:2], 0.3)
    told = "if the same list holds other batches in a second call, that call does not end where plain SGD takes it."
    only_own(model.state_dict(), state, after_steps(state, twin, "A", first[:2], 0.3), "A", told)
    modes(learn, answer, lib, first, seed)


def in_order(size: int, count: int, vocab: int, seed: int) -> list[Any]:
    """So many batches whose labels are all 0 and all 1 in turn: in another order SGD ends elsewhere, seen clearly."""
    batches = tiny_bert.pairs(size, [(7, 5)] * count, vocab, seed)
    for place, batch in enumerate(batches):
        batch["labels"] = torch.full_like(batch["labels"], place % 2)
    return batches


def modes(learn: Remote, answer: Remote, lib: Library, batches: list[Any], seed: int) -> None:
    """Fail unless dropout acts while a task is learned and not while it is asked, and modes stay."""
    sizes = Sizes(d_model=36, dropout=0.5)  # so wide that adapters of other widths differ
    model = lib(tiny_bert).bert(vars(sizes), seed)
    state = named(learn, model, "A", 3, seed, {}, sizes)
    twin = library_twin(sizes, seed, {"A": 3})
    for training in (True, False):
        model.train(training)
        answered(answer, model, twin, state, "A", batches[0], 3)
        assert read(model.training) is training, "`answer` leaves the model in another mode."
        told = "`answer` leaves a part of the model in another mode. `model.train(mode)` sets all parts."
        assert read(model.bert.training) is training, told
    told = "the logits have requires_grad=True. Compute them without gradients."
    assert lib(toys).needs_gradient(answer, model, "A", batches[0]) is False, told
    wanted = after_steps(state, twin, "A", batches, 0.3)
    model.eval()
    learn(model, "A", 3, batches, 0.3)
    now, name = model.state_dict(), "heads.A.1.weight"
    told = "a task is learned in evaluation mode, so dropout does not act. Use training mode."
    assert not expect.near(now[name], wanted[name], 1e-3, 1e-4), told
    model.eval()
    seen = lib(toys).modes_in_head(learn, model, "A", 3, batches[:1], 0.3)
    told = "if a task is learned again, its head is in evaluation mode: `train_adapter` sets the encoder's "
    told += "mode only. `model.train()` sets that of all parts."
    assert seen and all(seen), told


def kept_of_gain(share_kept: Remote, untouched: list[float], learned: list[float], final: list[float]) -> None:
    """Fail unless the share is that of the gain, of means over seeds."""
    found = share_kept(untouched, learned, final)
    before, after, end = (math.fsum(some) / len(some) for some in (untouched, learned, final))
    if after <= before:
        assert found is None, f"nothing was gained, so `share_kept` should return None, not {kind(found)}."
        return
    told = (
        "something was gained, but `share_kept` returns None. Only the means over seeds, before and after the phase, "
        "decide that."
    )
    if end == before:
        told = "something was gained, and nothing of it is left. `share_kept` should return 0, not None."
    assert found is not None, told
    share = (end - before) / (after - before)
    single = [(c - a) / (b - a) if b != a else math.inf for a, b, c in zip(untouched, learned, final, strict=True)]
    guesses = {
        "the accuracy before the phase is ignored. Subtract it, since it needed no learning.": end / after,
        "this is the share of the gain that was lost. Return the share that is left.": 1 - share,
        "the shares of single seeds are averaged. Take means over seeds first, then divide.": math.fsum(single)
        / len(single),
        "a share below 0 is cut off at 0. The end may be worse than the beginning.": max(0.0, share),
        "this is the gain that is left. Divide it by the whole gain.": end - before,
        "this is a percentage. If all of the gain is left, the share should be 1.": 100 * share,
        "the gain that is left is divided by the accuracy after the phase. Divide it by the gain.": (end - before)
        / after,
        "the first seed alone is used. Take means over all seeds.": single[0],
        "the share has no sign. It should be below 0 if the end is worse than the beginning.": abs(share),
    }
    columns = untouched, learned, final
    gained = [values for values in zip(*columns, strict=True) if values[1] > values[0]]
    for sentence, of in (
        ("medians over seeds are taken. Take means.", statistics.median),
        ("the best seed of each list is taken. Take means over seeds.", max),
    ):
        first, second, last = (of(values) for values in columns)
        guesses[sentence] = (last - first) / (second - first) if second != first else math.inf
    if 0 < len(gained) < len(single):
        first, second, last = (math.fsum(values) for values in zip(*gained, strict=True))
        told = "seeds without a gain are left out. They count too: take means over all seeds."
        guesses[told] = (last - first) / (second - first)
    # In the scale of a thousand, so that a share of nearly nothing has no relative error worth the name.
    told = "this is not the share of the gain that is left in the end."
    expect.number_like(found, share, "what `share_kept` returns", told, guesses, 1e-9, 1000)


def three_times(some: random.Random, seeds: int) -> list[list[float]]:
    """Accuracies before, after and in the end."""
    return [[some.randint(*ends) / 100 for _ in range(seeds)] for ends in ((5, 30), (40, 99), (0, 90))]


@results_check("9.10", points=4, source=phases, notebook=phases.NOTEBOOK, reading=2)
def share_kept(share_kept):
    """The runs by their files; shares of gains, below 0 and above 1, and phases at which nothing was gained."""
    some = expect.draw(910)
    for seeds in (1, 2, 5, 5):
        kept_of_gain(share_kept, *three_times(some, seeds))
    for lists in (([0.4, 0.5], [0.9, 0.45], [0.5, 0.5]), ([0.4, 0.5, 0.1], [0.9, 0.5, 0.3], [0.5, 0.6, 0.2])):
        kept_of_gain(share_kept, *lists)
    for lists in (([0.5, 0.4], [0.9, 0.5], [0.2, 0.1]), ([0.3], [0.6], [0.7]), ([0.3, 0.3], [0.6, 0.4], [0.3, 0.3])):
        kept_of_gain(share_kept, *lists)
    for lists in (([0.5, 0.5], [0.5, 0.5], [0.2, 0.9]), ([0.6], [0.4], [0.5]), ([0.4, 0.5], [0.6, 0.25], [0.4, 0.4])):
        kept_of_gain(share_kept, *lists)


# 9.S1


def mixed_right(between: Remote, before: State, after: State, share: float) -> None:
    """Fail unless every entry is what lies between, or as it is after where there is nothing between."""
    found = expect.of_type(between(before, after, share), dict, "`between` should return a dict of tensors")
    missing = [name for name in after if name not in found]
    for name in missing:
        told = f"`{name}` is only in `after`, and missing in the result. It should be as it is in `after`."
        assert name in before, told
        raise AssertionError(f"`{name}` is missing in the result. Every name of `after` should be there.")
    told = "the result has an entry that `after` does not have."
    assert {*found} == {*after}, told
    for name, new in after.items():
        old, value = before.get(name), found[name]
        whole = not new.is_floating_point()
        told = "whole numbers, such as a count of batches, should be as they are in `after`, with the same dtype."
        assert type(value) is torch.Tensor, f"each entry should be a tensor, not {kind(value)}."
        assert not whole or (value.dtype == new.dtype and torch.equal(value, new)), told
        told = "an entry that has another shape in `after`, or is only there, should be as it is in `after`."
        alone = old is None or old.shape != new.shape
        assert not alone or (value.shape == new.shape and torch.equal(value, new)), told
        assert value.shape == new.shape, "an entry of the result has another shape than in `after`."
        assert value.dtype == new.dtype, "an entry of the result has another dtype than in `after`."
        if old is not None and not alone and not whole:
            wanted = (1 - share) * old + share * new
            expect.like(
                value,
                wanted,
                "an entry is not (1 - share) times `before` plus share times `after`.",
                {"`share` is limited to 0 to 1. Any number is allowed.": new if share > 1 else old}
                if not 0 <= share <= 1
                else {
                    "`before` and `after` are exchanged: `share` is the weight of `after`.": share * old
                    + (1 - share) * new,
                    "an entry is as in `after`. Average it.": new,
                    "an entry is as in `before`. Average it.": old,
                    "this is the plain mean, whatever `share` is.": (old + new) / 2,
                    "share times `after` is added to `before`. Multiply `before` by 1 - share.": old + share * new,
                },
            )


@stretch("9.S1", forbids=MODELS)
def between(between, lib):
    """What lies between two state dicts: shares, new heads, other shapes, whole numbers, dtypes, and copies."""
    shapes = {"0.weight": (5, 4), "0.bias": (5,), "head.weight": (3, 5), "1.running_mean": (5,), "scale": ()}
    before = {name: normal(*shape, seed=990 + place) for place, (name, shape) in enumerate(shapes.items())}
    after = {name: normal(*shape, seed=980 + place) for place, (name, shape) in enumerate(shapes.items())}
    counts = {"1.num_batches_tracked": torch.tensor(7)}, {"1.num_batches_tracked": torch.tensor(20)}
    for share in (0.3, 0.0, 1.0, 0.5, 1.5, -0.25):
        mixed_right(between, before, after, share)
        mixed_right(between, before | counts[0], after | counts[1], share)
        other = {name: value for name, value in before.items() if name != "head.weight"}
        mixed_right(between, other, after, share)
        mixed_right(between, other | {"old.weight": normal(2, 2, seed=1)}, after, share)
        for shape in ((1, 5), (4, 5), (3, 1), (15,)):
            mixed_right(between, other | {"head.weight": normal(*shape, seed=2)}, after, share)
    one, other = ({name: value.double() for name, value in state.items()} for state in (before, after))
    mixed_right(between, one, other, 0.4)
    mixed_right(between, {}, {}, 0.4)
    told = (
        "an entry of the result shares its memory with a given one: changing one changes the other. Return new tensors."
    )
    for state in (before, before | counts[0], {"0.bias": before["0.bias"]}):
        for share in (0.3, 0.0, 1.0):
            assert lib(toys).stays(between, state, after | counts[1], share), told
    expect.one_device(lib, between, before, after, 0.3)
