"""Notebook 10: what its checks compare with is what libraries give; its experiment, at the size smoke."""

import dataclasses
import itertools

import numpy as np
import own
import pytest
import torch
from torch import nn

from autograder import course, synthetic
from autograder.author import build
from data import source
from utils.checks import nb10_longer_context as checks
from utils.experiments import forgery, longer_context, student
from utils.experiments.experiment import BadRun, parse, path_of, read_files
from utils.experiments.longer_context import train
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable
from utils.grading.evidence import examine
from utils.grading.expect import normal

COURSE = course.load()
ENTRY = COURSE.notebook("10")
NAMES = ("RelativeAttention", "SegmentModel")
pytestmark = pytest.mark.usefixtures("nobody")
SMOKE = longer_context.experiments(profile="smoke")
SHORT = {
    name: dataclasses.replace(one, name=f"short {name}", steps=20, texts=4, warm=2, counted=2, read=5)
    for name, one in SMOKE.items()
}
COPY, TEXT = SHORT["period 48, memory 32"], SHORT["source, memory 32"]


# What answers are compared with


def test_relative_attention_is_that_of_the_library():
    """The core of XLNet's attention, which also knows keys in the future: they are masked."""
    from transformers import XLNetConfig
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    d, heads, T, M = 12, 3, 4, 5
    state = {name: normal(*shape, seed=k) for k, (name, shape) in enumerate(checks.relative_shapes(d, heads).items())}
    x, memory = normal(2, T, d, seed=20), normal(2, M, d, seed=21)
    core = XLNetRelativeAttention(XLNetConfig(d_model=d, n_head=heads, d_head=d // heads, dropout=0.0)).eval()
    with torch.no_grad():
        core.r_w_bias.copy_(state["u"])
        core.r_r_bias.copy_(state["v"])
    seen = torch.cat([memory, x], 1)
    rows = checks.rows_of(torch.arange(T + M, -T, -1), d).float()
    given = ((x, "q_proj"), (seen, "k_proj"), (seen, "v_proj"), (rows[None], "r_proj"))
    q, k, v, r = ((y @ state[f"{name}.weight"].mT).unflatten(-1, (heads, -1)).transpose(0, 1) for y, name in given)
    hidden = (~checks.in_sight(T, T + M)).float()[:, :, None, None].expand(-1, -1, 2, heads)
    with torch.no_grad():
        found = core.rel_attn_core(q, k, v, r.expand(-1, 2, -1, -1), attn_mask=hidden)
    wanted = found.transpose(0, 1).flatten(2) @ state["out_proj.weight"].mT
    assert torch.allclose(checks.relative(state, x, memory, heads), wanted, atol=1e-5)


def test_the_content_stream_is_a_layer_of_torch():
    d, heads, d_ff = 12, 3, 7
    state = {name: normal(*shape, seed=k) for k, (name, shape) in enumerate(checks.stream_shapes(d, d_ff).items())}
    layer, h = nn.TransformerEncoderLayer(d, heads, d_ff, batch_first=True).eval(), normal(2, 5, d)
    weights = {name: value for name, value in state.items() if name.split(".")[0] in ("norm1", "norm2")}
    weights |= {name: value for name, value in state.items() if name.startswith("linear")}
    weights["self_attn.in_proj_weight"] = torch.cat([state[f"{name}_proj.weight"] for name in "qkv"])
    weights["self_attn.in_proj_bias"], weights["self_attn.out_proj.bias"] = torch.zeros(3 * d), torch.zeros(d)
    weights["self_attn.out_proj.weight"] = state["out_proj.weight"]
    layer.load_state_dict(weights)
    content, query = checks.masks_of([2, 0, 3, 4, 1])
    with torch.no_grad():
        assert torch.allclose(checks.stream(state, h, h, content, heads), layer(h, src_mask=~content), atol=1e-5)
    seen, empty = content.clone(), checks.stream(state, h, h, query, heads)[:, 2]
    seen[2] = False
    assert torch.equal(checks.stream(state, h, h, seen, heads)[:, 2], empty), "who sees nothing gets no values"


@pytest.mark.parametrize("n_layers, mem_len, T", [(3, 4, 4), (3, 6, 4), (3, 2, 4), (2, 5, 3), (2, 0, 3)])
def test_the_reach_is_how_far_an_edit_is_felt(n_layers, mem_len, T):
    torch.manual_seed(0)
    size = dataclasses.replace(COPY, layers=n_layers, length=8, mem_len=mem_len, symbols=9)
    kinds = train.RelativeAttention, train.SegmentModel
    model = train.assembled(size, *kinds).double().eval()
    count = (n_layers * (mem_len + T) // T + 2) * T
    text = torch.randint(9, (1, count))

    @torch.no_grad()
    def last(text):
        memories = None
        for segment in text.split(T, 1):
            logits, memories = model(segment, memories, mem_len)
        return logits[0]

    base, felt = last(text), torch.zeros(count, T, dtype=torch.bool)
    for place in range(count):
        edited = text.clone()
        edited[0, place] = (text[0, place] + 1) % 9
        felt[place] = (last(edited) - base).abs().amax(-1) > 1e-13
    for i in range(T):
        assert count - T + i - int(felt[:, i].nonzero()[0]) == checks.farthest(n_layers, mem_len, T, i)


def test_the_check_of_orders_counts_from_left_to_right_as_notebook_01_does():
    content, query = checks.masks_of(range(5))
    assert torch.equal(content, torch.ones(5, 5).tril().bool()) and torch.equal(query, torch.ones(5, 5).tril(-1).bool())


# What is read


def test_each_arm_has_its_period_and_its_memory_and_smoke_a_quarter():
    cpu, gpu = (longer_context.experiments(profile=profile) for profile in ("cpu", "gpu"))
    assert [*cpu] == [*SMOKE] == [*gpu] == [*longer_context.ARMS]
    for name, (period, mem_len) in longer_context.ARMS.items():
        assert (cpu[name].period, cpu[name].mem_len) == (period, mem_len) == (gpu[name].period, gpu[name].mem_len)
        assert (4 * SMOKE[name].period, 4 * SMOKE[name].mem_len) == (period, mem_len)
        assert SMOKE[name].made_up and not cpu[name].made_up
    for wrong in ({"notebook": "09_forgetting"}, {"profile": "huge"}):
        with pytest.raises(ValueError, match="no experiments of"):
            longer_context.experiments(**wrong)


def test_random_tokens_come_again_after_the_period():
    rows = train.test_texts(COPY)
    assert rows.shape == (4, 4 * 8 + 1)
    assert torch.equal(rows[:, COPY.period :], rows[:, : -COPY.period])
    assert not torch.equal(rows[0, :12], rows[1, :12])
    assert torch.equal(rows, train.test_texts(dataclasses.replace(COPY, mem_len=0)))


@pytest.mark.parametrize("size", [COPY, TEXT], ids=["period", "source"])
def test_segments_follow_each_other_and_ask_for_the_next_token(size):
    steps = [*train.segments_of(size, 1)]
    assert len(steps) == size.steps and steps[0][0].shape == (size.batch, size.length)
    begun = [step for step, (_, _, begins) in enumerate(steps) if begins]
    assert not size.period or begun == [0, 5, 10, 15]
    for (tokens, targets, _), (later, _, begins) in itertools.pairwise(steps):
        assert torch.equal(tokens[:, 1:], targets[:, :-1])
        assert torch.equal(targets[:, -1], later[:, 0]) or begins
    other = next(train.segments_of(size, 2))[0]
    assert not torch.equal(steps[0][0], other)


def test_source_is_read_from_a_folder_and_some_files_are_held_back(tmp_path):
    with pytest.raises(FileNotFoundError, match="no source of Python's library"):
        source.train_and_test(tmp_path)
    for number in range(24):
        (tmp_path / f"m{number}.py").write_text(f"file {number};")
    train, test = source.train_and_test(tmp_path)
    names = [{*part.replace("\n", "").split(";")} - {""} for part in (train, test)]
    assert len(names[0]) == 22 and len(names[1]) == 2 and not names[0] & names[1]
    assert source.train_and_test(tmp_path) == (train, test)
    assert len(source.train_and_test()[1]) > 200_000


def test_rare_characters_are_one_and_a_text_that_is_too_short_is_refused(monkeypatch):
    monkeypatch.setattr(train.source, "train_and_test", lambda: ("aaaabbbcc%d", "abcd!"))
    known = train.text.__wrapped__("source text", 4)
    assert known.train.tolist() == [1] * 4 + [2] * 3 + [3] * 2 + [0, 0] and known.test.tolist() == [1, 2, 3, 0, 0]
    monkeypatch.setattr(train, "text", lambda *given: known)
    with pytest.raises(ValueError, match="too short for 4 tests of 32 characters"):
        train.test_texts(TEXT)


# Runs


def test_a_seed_decides_all_and_runs_leave_their_files(tmp_path):
    for one, kind in ((COPY, int), (TEXT, float)):
        (run,) = run_seeds(one, [1], tmp_path)
        again, other = one.run_seed(1), one.run_seed(2)
        assert run.predictions == again.predictions != other.predictions
        assert {type(loss) for row in run.predictions for loss in row} == {kind}
        assert parse(path_of(one, 1, tmp_path).read_bytes()) == run
        one.check(run, whole=True)
        assert one.examples_of(run) == run.versions.get("text", "") and ("text" in run.versions) is (one is TEXT)
        assert bool(run.outputs.size) is (one is TEXT)


def test_the_three_numbers_are_means_over_places():
    rows = [[1000 * place for place in range(8)], [0] * 8]
    run = dataclasses.replace(COPY.run_seed(1), predictions=rows)
    assert [metric.of(run) for metric in longer_context.METRICS] == pytest.approx([1.75, 0.0, 2.75])
    assert longer_context.by_place(run).tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    run = dataclasses.replace(TEXT.run_seed(1), predictions=[[0.5] + [0.1] * 7])
    assert [metric.of(run) for metric in longer_context.METRICS] == pytest.approx([0.15, 0.5, 0.1])


def test_what_no_run_holds_is_refused():
    run, text = COPY.run_seed(1), TEXT.run_seed(1)
    rows = run.predictions
    wrong = {
        "losses of 3 texts instead of 4": {"predictions": rows[:3]},
        "none below 0": {"predictions": [[-1, *row[1:]] for row in rows]},
        "are not 8 losses": {"predictions": [row[1:] for row in rows]},
        "for each text, none": {"predictions": text.predictions},
        "the same in every text": {"predictions": [rows[0]] * 4},
        "curve is not 10 times": {"curve": run.curve[1:]},
    }
    for told, change in wrong.items():
        with pytest.raises(BadRun, match=told):
            COPY.check(dataclasses.replace(run, **change), whole=True)
    with pytest.raises(BadRun, match="are not 8 losses"):
        TEXT.check(dataclasses.replace(text, predictions=rows), whole=True)
    with pytest.raises(ValueError, match="segments of eighths"):
        dataclasses.replace(COPY, length=12)


def test_the_first_segments_do_not_count_and_memory_is_what_was_asked_for():
    torch.manual_seed(0)
    model = train.build(COPY).eval()
    rows = train.test_texts(COPY)
    with torch.no_grad():
        whole = nn.functional.cross_entropy(model(rows[:, :-1])[0].mT, rows[:, 1:], reduction="none")
        alone = nn.functional.cross_entropy(model(rows[:, 24:32])[0].mT, rows[:, 25:33], reduction="none")
    found = train.losses(model, COPY, 32, torch.device("cpu")).float()
    assert torch.allclose(found, whole[:, 16:].unflatten(1, (2, 8)).mean(1), atol=1e-5)
    one = dataclasses.replace(COPY, warm=3, counted=1)
    assert torch.allclose(train.losses(model, one, 0, torch.device("cpu")).float(), alone, atol=1e-5)


def test_a_trained_model_is_the_runs_and_comes_with_a_text(capsys):
    model, text = train.trained(TEXT, 1)
    assert not model.training and text.tolist() == train.test_texts(TEXT)[0].tolist()
    found = train.losses(model, TEXT, TEXT.mem_len, torch.device("cpu"))
    assert found.round(decimals=4).tolist() == TEXT.run_seed(1).predictions


def test_smoke_runs_show_where_the_step_is():
    """With one look at the memory, the token one period ago is seen from place P - 1 - M on, and not before."""
    runs = {
        one.name: np.mean([longer_context.by_place(run) for run in some], 0) for one, some in synthetic.runs_of(ENTRY)
    }
    for name in ("period 48, memory 32", "period 80, memory 64"):
        step = SMOKE[name].period - 1 - SMOKE[name].mem_len
        assert runs[name][:step].min() > 1.3 and runs[name][step:].max() < 0.4
    for name in ("period 48, no memory", "period 80, memory 32"):
        assert abs(runs[name] - np.log(SMOKE[name].symbols)).max() < 0.1
    gain = runs["source, no memory"] - runs["source, memory 32"]
    assert gain[0] > 0.2 and gain[0] > 3 * abs(gain[-4:]).max()


# Whose functions


@pytest.fixture(scope="module")
def theirs():
    """The solution's classes, as those of a student, by name."""
    return own.solutions("10", NAMES)


@pytest.fixture(scope="module")
def usual():
    return COPY.run_seed(1)


def test_both_run_and_change_no_number(theirs, usual, capsys):
    own.use(**theirs)
    model = train.build(COPY)
    assert type(model) is theirs["SegmentModel"] and type(model.layers[1].attention) is theirs["RelativeAttention"]
    run = COPY.run_seed(1)
    assert (run.predictions, run.curve) == (usual.predictions, usual.curve)
    assert "instead of yours" not in capsys.readouterr().out and {*student.own_functions} == {*NAMES}


def forgets(theirs):
    class Other(theirs["SegmentModel"]):
        def forward(self, tokens, memories=None, mem_len=0):
            return super().forward(tokens, None, mem_len)

    return Other


def leaks(theirs):
    class Other(theirs["SegmentModel"]):
        def forward(self, tokens, memories=None, mem_len=0):
            logits, kept = super().forward(tokens, memories, mem_len)
            read = self.embedding(tokens)[:, -mem_len:]
            return logits, [kept[0] + (read - read.detach()), *kept[1:]]

    return Other


def scaled(theirs):
    class Other(theirs["RelativeAttention"]):
        def forward(self, x, memory=None):
            return super().forward(x, memory) * 1.001

    return Other


def raises(theirs):
    def made(*given):
        raise RuntimeError("never mind")

    return made


@pytest.mark.parametrize(
    "name, made",
    [
        ("SegmentModel", forgets),
        ("SegmentModel", leaks),
        ("SegmentModel", raises),
        ("RelativeAttention", scaled),
        ("RelativeAttention", raises),
    ],
)
def test_what_does_something_else_is_left_and_named(name, made, theirs, usual, capsys):
    own.use(**{name: made(theirs)})
    run = COPY.run_seed(1)
    assert (run.predictions, run.curve) == (usual.predictions, usual.curve)
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_the_notebook_offers_what_the_loop_can_use():
    cells = build.student_notebook(COURSE, ENTRY).cells
    (used,) = [cell.source for cell in cells if "student.use(" in cell.source]
    assert all(used.count(name) >= 2 for name in NAMES)


# Recorded runs


def test_the_recorded_runs_show_what_notebook_10_says_of_them():
    experiments = longer_context.experiments(profile="cpu")
    runs, refused = examine(read_files(longer_context.RECORDED), experiments.values(), range(1, 6), whole=True)
    assert not refused and [*map(len, runs.values())] == [5] * 6
    assert {path.name for path in longer_context.RECORDED.iterdir()} == {
        one.folder("").name for one in (*experiments.values(), *longer_context.crossing().values())
    }
    assert forgery.suspicious(experiments.values(), runs, {}) == ([], [])
    places = {name: np.array([longer_context.by_place(run) for run in some]) for name, some in runs.items()}
    for name in ("period 48, memory 32", "period 80, memory 64"):
        one = experiments[name]
        step = one.period - 1 - one.mem_len
        assert step == 15 and places[name][:, :step].min() > 2.7 and places[name][:, step:].max() < 0.3
    for name in ("period 48, no memory", "period 80, memory 32"):
        assert abs(places[name] - np.log(16)).max() < 0.1
    shown = {
        metric.name: [one.shown for one in SeedTable(runs, metric).compared(longer_context.questions(runs))]
        for metric in longer_context.METRICS
    }
    assert shown == {"loss": [True] * 3, "first eighth": [False, False, True], "second half": [True, True, False]}
    gain = (places["source, no memory"] - places["source, memory 32"]).mean(0)
    assert gain.argmax() == 0 and gain[:5].min() > 0.03 and abs(gain[7:]).max() < 0.03
