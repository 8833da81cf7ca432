"""Notebook 09's experiment: sentences of six libraries, phases, what runs show at the size smoke, whose functions."""

import dataclasses
import json
import re

import numpy as np
import own
import pytest
import torch
from helpers import changed, files_of, script

from autograder import course
from autograder.author import rate_search
from data import documentation, libraries
from utils.experiments import forgery, forgetting, student
from utils.experiments.experiment import parse, path_of, read_files
from utils.experiments.forgetting import train
from utils.experiments.runs import recorded_examples, run_seeds
from utils.experiments.seed_table import SeedTable
from utils.grading.evidence import examine
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
NAMES = ("Replay", "remember", "fisher", "ewc", "l2_sp")
SMOKE = forgetting.experiments(profile="smoke")
SHORT = {
    name: dataclasses.replace(one, name=f"short {name}", pool=8, examples=6, test=4, epochs=1, batch=4)
    for name, one in SMOKE.items()
}
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
pytestmark = pytest.mark.usefixtures("nobody")
CPU = torch.device("cpu")


@results_check("9.10", points=4, source=forgetting, notebook=forgetting.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


def model_of(experiment, seed=1):
    torch.manual_seed(seed)
    return (
        train.Learner(experiment).eval(),
        train.given(experiment, seed, CPU, torch.float32),
    )


# Sentences


def test_sentences_have_so_many_words_without_the_names(monkeypatch):
    texts = [
        "one two three four scipy",
        "one two three four",
        "one torch two , three four",
        "one two three four five six",
    ]
    said = [documentation.Sentence(text, "torch", "m.py") for text in texts]
    monkeypatch.setattr(documentation, "sentences", lambda names: said)
    monkeypatch.setattr(documentation, "is_validation", lambda item: False)

    def found(count, **more):
        return {text for text, _ in documentation.labelled_sentences(["torch"], count, **more)}

    with pytest.raises(ValueError, match="has 2 sentences for this, not 3"):
        found(3, words=(5, 6))
    assert found(4) == {texts[0], texts[1], "one two , three four", texts[3]}
    assert found(3, words=(4, 5)) == {texts[0], texts[1], "one two , three four"}
    assert found(2, words=(5, 6)) == {texts[0], texts[3]}


def test_sentences_of_documentation_are_put_class_by_class(monkeypatch):
    asked = []

    def labelled(names, count, **more):
        asked.append((names, more))
        return [(f"{name} {number}", label) for number in range(count) for label, name in enumerate(names)]

    monkeypatch.setattr(documentation, "labelled_sentences", labelled)
    sides = [libraries.load("documentation", split, 2) for split in libraries.SPLITS]
    assert sides[0] == [[f"{name} 0", f"{name} 1"] for name in libraries.CLASSES]
    wanted = [(libraries.CLASSES, {"validation": side, "words": (8, 16)}) for side in (False, True)]
    assert asked == wanted


def test_made_up_sentences_belong_to_their_class():
    sides = [libraries.load("made-up-libraries", split, 100) for split in libraries.SPLITS]
    for side in sides:
        assert [len(some) for some in side] == [100] * 6
        own = [{word for line in some for word in line.split()} for some in side]
        shared = set.intersection(*own)
        assert all(len(one - shared) == libraries.KNOWN for one in own)
        assert not set.intersection(*(one - shared for one in own))
        assert all(len({*line.split()}) == libraries.MADE_UP_LENGTH for some in side for line in some)
    assert sides[0] != sides[1]
    with pytest.raises(ValueError, match="there is no dev of 'documentation'"):
        libraries.load("documentation", "dev", 3)


# Experiments


def test_experiments_of_all_sizes():
    sizes = [forgetting.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) == 24
    assert all([*some] == [*forgetting.METHODS] for some in sizes)
    assert [one.made_up for one in made] == [True] * 8 + [False] * 16
    for some in sizes:
        kept = some["replay"]
        assert kept.memory == round(0.15 * kept.examples * (forgetting.CLASSES - forgetting.TOGETHER))
        assert some["all together"].seen[-1] == some["in sequence"].seen[-1]
        shared = {"name", "method", "memory", "replayed", "strength", "observed", "bottleneck"}
        first, *others = ({**one.plain()} for one in some.values() if one.name not in ("adapters", "head alone"))
        assert all(other[key] == first[key] for other in others for key in {*first} - shared)
    for notebook, profile in (("05_seed_variance", "cpu"), (forgetting.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            forgetting.experiments(notebook, profile)


@pytest.mark.parametrize("changes, says", [({"method": "SI"}, "the methods are"), ({"pool": 9}, "be drawn")])
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SMOKE["replay"], **changes)


def test_the_arms_differ_as_the_notebook_says(honest):
    """In sequence one head gives old classes to no sentence; replay keeps some; all together is the best."""
    runs = {name: [parse(text) for text in files_of(honest, one).values()] for name, one in SMOKE.items()}
    assert {len(some) for some in runs.values()} == {5}
    one_head, own_head, again = (
        {name: np.mean([metric.of(run) for run in some]) for name, some in runs.items()}
        for metric in forgetting.METRICS[:3]
    )
    for name in ("in sequence", "L2-SP", "EWC"):
        last = np.mean([forgetting.matrix(run) for run in runs[name]], axis=0)
        assert last[1, 0] > 0.7 and last[3, :2].max() < 0.1, name
    assert one_head["all together"] > one_head["replay"] + 15 > one_head["in sequence"] + 25, one_head
    assert own_head["adapters"] > own_head["in sequence"] + 15, own_head
    assert again["in sequence"] > one_head["in sequence"] + 30, again
    pairs = forgetting.questions(runs)
    assert len(pairs) == 8 and {name for pair in pairs for name in pair} == {*runs}


def test_a_matrix_is_counted_from_the_rows():
    rows = [[0, 1, 2, 5, 0, 1, 2, 4, 3, 0.5, 0.5]] * 6
    curve = [{"examples": count} for count in range(4)]
    run = train.Run({}, 1, [0, 1, 2, 3, 4, 5], rows, [], curve)
    assert forgetting.matrix(run) == [[0.5, 0, 0], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]]
    assert forgetting.matrix(run, own=True) == [[0.5, 0, 0], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]]
    assert [metric.of(run) for metric in forgetting.METRICS] == [pytest.approx(100 / 6)] * 3 + [25.0]
    last = dataclasses.replace(run, predictions=[[*row[:8], 4, *row[9:]] for row in rows])
    assert [metric.of(last) for metric in forgetting.METRICS[2:]] == [pytest.approx(100 / 6), 0.0]
    other = dataclasses.replace(run, predictions=[[*row[:3], 1, *row[4:7], 3, 5, 0.5, 0.5] for row in rows])
    assert forgetting.matrix(other)[3] == [0.5, 0, 0] and forgetting.matrix(other, own=True)[3] == [0, 0.5, 0]


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])
    assert not forgery.disguises(np.array([parse(text).outputs for text in read_files(honest).values()]))


def with_entry(place, value):
    return lambda rows: [[*row[:place], value(row), *row[place + 1 :]] for row in rows]


@pytest.mark.parametrize(
    "says, change",
    [
        ("labels, 71 predictions", lambda rows: rows[1:]),
        ("9 classes and two margins", lambda rows: [row[1:] for row in rows]),
        ("9 classes and two margins", with_entry(10, lambda row: 1)),
        ("classes from 0 to 5", with_entry(3, lambda row: 6)),
        ("a class of another phase", with_entry(7, lambda row: (row[7] + 2) % 6)),
        ("two classes of one phase", with_entry(3, lambda row: row[7] ^ 1)),
        ("not that of the class", with_entry(9, lambda row: -row[9])),
        ("not that of the class", with_entry(10, lambda row: -row[10])),
        ("no margins", with_entry(10, lambda row: 0.0)),
    ],
)
def test_what_no_run_holds_is_refused(honest, says, change):
    files = read_files(honest)
    name = next(iter(files_of(honest, SMOKE["replay"])))
    run = parse(files[name])
    forged = changed(files, name, predictions=change(run.predictions))
    verdict, against, _ = over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)
    assert verdict.score == 0 and says in against[0], against


@pytest.mark.parametrize(
    "says, curve", [("one for each time", lambda curve: curve[1:]), ("as many examples", lambda curve: curve[::-1])]
)
def test_a_run_has_learned_from_all_of_them(honest, says, curve):
    one = SMOKE["replay"]
    run = parse(next(iter(files_of(honest, one).values())))
    one.check(run, whole=True)
    with pytest.raises(ValueError, match=says):
        one.check(dataclasses.replace(run, curve=curve(run.curve)), whole=True)


def test_the_recorded_text_has_a_name(tmp_path, monkeypatch):
    one = SHORT["in sequence"]
    monkeypatch.setattr(forgetting.spec, "RECORDED", tmp_path)
    recorded_examples.cache_clear()
    try:
        assert one.recorded_examples == ""
        run_seeds(one, [1], tmp_path)
        recorded_examples.cache_clear()
        assert one.recorded_examples == train.text_of(one).fingerprint
    finally:
        recorded_examples.cache_clear()


def test_each_arm_has_the_settings_that_the_recorded_search_gives():
    search = script(course.ROOT / "solutions" / "09_forgetting" / "search.py")
    rows = [*rate_search.load(forgetting.SEARCH).values()]
    arms, chosen = search.arms(), search.chosen(rows)
    assert {row["arm"] for row in rows} == {*arms} and {row["seed"] for row in rows} == {*search.SEEDS}
    score = {name: "one_head" if name in forgetting.FOR_ONE_HEAD else "own_heads" for name in arms}
    assert all(row["score"] == row[score[row["arm"]]] for row in rows)
    for name, one in arms.items():
        tried = [*rate_search.means(rows, name)]
        assert (one.lr, one.strength)[: len(chosen[name])] == chosen[name], name
        for place, value in enumerate(chosen[name]):  # inside the range
            assert min(values[place] for values in tried) < value < max(values[place] for values in tried), name
    card = (course.ROOT / "data" / "README.md").read_text()
    for line in rate_search.table(forgetting.SEARCH, chosen):
        assert line in card, line


def test_the_recorded_runs_show_what_notebook_09_says_of_them():
    arms = forgetting.experiments(profile="cpu") | forgetting.controls() | forgetting.at_rates_for_one_head()
    runs, refused = examine(read_files(forgetting.RECORDED), arms.values(), range(1, 6), whole=True)
    on_cpu = {forgetting.L2_SP, forgetting.EWC, forgetting.HEAD, *forgetting.FOR_ONE_HEAD}
    assert not refused and {name: len(some) for name, some in runs.items() if name not in on_cpu} == dict.fromkeys(
        [name for name in arms if name not in on_cpu], 5
    )
    assert {name for name, some in runs.items() if some[0].device != "NVIDIA H200"} == on_cpu
    assert len({len(runs[name]) for name in on_cpu}) == 1
    assert {path.name for path in forgetting.RECORDED.iterdir()} == {one.folder("").name for one in arms.values()}
    usual = [one for name, one in arms.items() if name not in forgetting.FOR_ONE_HEAD]  # no student runs the others
    assert forgery.suspicious(usual, runs, {}) == ([], [])
    assert len({one.recorded_examples for one in arms.values()}) == 1
    text = re.sub(r"[\s#]+", " ", (course.ROOT / "solutions/09_forgetting/notebook.py").read_text())
    found = {one.name: SeedTable(runs, one).compared(forgetting.questions(runs)) for one in forgetting.METRICS}
    shown = {name: {(one.first, one.second) for one in some if one.shown} for name, some in found.items()}
    first = forgetting.SEQUENCE
    together = ("head alone", "all together")
    helped = {(first, forgetting.REPLAY), (first, forgetting.ADAPTERS)}
    assert shown == {
        "one head": helped | {("replay", "all together"), ("head alone", first), (first, "each alone"), together},
        "own head": set(),
        "fitted again": set(),
        "fitted again, earlier phases": {together},
    }
    assert "and here it is" in text and "That difference is shown. It is not due to rates that suit own heads" in text
    assert 'L2-SP, EWC, "head alone" and the arms of the last cell\'s new rates ran on one core. All others' in text
    *slow, replay, adapters = SeedTable(runs, forgetting.METRICS[0]).compared(forgetting.ONE_HEAD_PAIRS)
    assert [one.second for one in (replay, adapters)] == [forgetting.REPLAY, forgetting.ADAPTERS]
    assert not replay.shown and not adapters.shown and adapters.difference < 0
    assert "Neither remedy is shown to be better than that" in text
    assert len(slow) == 4 and all(one.shown for one in slow) and slow[0].difference < 0 < slow[1].difference
    assert "which is shown too" in text and "All four differences are shown" in text
    gains = {one.second: one.difference for one in found["one head"] if one.first == first}
    assert all(0.35 < one.difference / gains[one.second] < 0.55 for one in slow[2:]) and "about half as much" in text
    rows = [*rate_search.load(forgetting.SEARCH).values()]
    for name in (forgetting.REPLAY, forgetting.ADAPTERS):
        heads: dict[float, float] = {}
        for row in (row for row in rows if row["arm"] == name):
            heads[row["settings"]["lr"]] = heads.get(row["settings"]["lr"], 0) + row["one_head"]
        assert max(heads, key=heads.__getitem__) == arms[name].lr
    assert "Replay and adapters have the best rate for one head already" in text
    alone = {name: one.lr for name, one in arms.items() if name.startswith((forgetting.ALONE, forgetting.MULTI_TASK))}
    assert {name for name, rate in alone.items() if rate > 1e-4} == {forgetting.ALONE} and len(alone) == 4
    assert "those that learn alone with 120 sentences have a higher rate there" in text
    assert "By the rule of this course that is not shown" in text and "No difference is shown. Models" in text
    assert "replay is worth 27 points and adapters 23" in text
    assert "L2-SP and EWC hardly change one head" in text and "For own heads no remedy is shown to help" in text
    mean = {one.name: {name: np.mean([one.of(run) for run in some]) for name, some in runs.items()}
            for one in forgetting.METRICS}  # fmt: skip
    assert all(abs(mean["one head"][name] - mean["one head"][first]) < 2 for name in ("L2-SP", "EWC"))
    kept = mean["fitted again, earlier phases"]
    assert max(kept, key=kept.__getitem__) == forgetting.ALL and "So this encoder can learn more." in text
    assert "7.6 points above the untouched encoder, and that is shown (p" in text  # as `shown` says, above

    def ends(name, own=False):
        return np.array([forgetting.matrix(run, own) for run in runs[name]])

    assert ends(first)[:, 3, :2].max() == 0 and "gives no sentence of the first two phases its library" in text
    assert (
        np.diff(ends("adapters").mean(0)[1:, 0]) < 0
    ).all() and "Their one head still gets worse from phase to phase" in text
    assert all(len({*map(tuple, one[1:, :1])}) == 1 for one in ends("adapters", own=True))
    rows = [*rate_search.load(forgetting.SEARCH).values()]
    coin = next(
        mean for (rate,), mean in rate_search.means(rows, first).items() if rate == pytest.approx(10 * arms[first].lr)
    )
    assert abs(coin - 50) < 2 and "at ten times this one they fall to a coin" in text
    many, few = SeedTable(runs, forgetting.METRICS[1]).compared(forgetting.CONTROL_PAIRS)
    assert not many.shown and not few.shown and many.difference < 0 < few.difference
    assert "behind those that learn alone" in text and "ahead. Neither is shown." in text


# One run


def test_pads_and_neighbours_change_no_vector():
    model, known = model_of(SMOKE["in sequence"])
    row, longer = known.test[0][:5], known.test[1]
    with torch.no_grad():
        alone = model.vectors(row[None])
        padded = model.vectors(train.padded([row, longer], CPU))
    assert len(longer) > len(row) and torch.allclose(alone, padded[:1], atol=1e-5)


def test_states_are_those_of_the_whole_encoder():
    """What learns goes on where the frozen layers end."""
    one = SMOKE["in sequence"]
    model, known = model_of(one)
    whole, tokenizer = train.encoders.ready_model("tiny").eval(), train.encoders.tokenizer("tiny")
    text = train.text_of(one).test[2][3]
    with torch.no_grad():
        wanted = whole(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)
        found = model.vectors(known.test[2 * one.test + 3][None])
    assert torch.allclose(found, wanted, atol=1e-5)


def test_classes_and_margins_of_own_heads():
    logits = torch.tensor(
        [[3.0, 1, 9, 9, 9, 9], [3, 1, 9, 9, 9, 9], [0, 0, -2, -1.5, 0, 0], [0, 0, 1, 4, 0, 0]] + [[0.0] * 6] * 2
    )
    assert train.own(logits).tolist()[:4] == [0, 0, 3, 3]
    assert train.margins(logits)[:4] == [2.0, -2.0, -0.5, 3.0]
    of_its_phase = pytest.approx(np.log1p(np.exp(-3)))
    for method in ("adapters", "each alone", forgetting.MULTI_TASK):
        assert train.loss_of(logits[3:4], torch.tensor([3]), [2, 3], method).item() == of_its_phase, method
    among_all = pytest.approx(np.log(4 + np.exp(1) + np.exp(4)) - 4)
    assert train.loss_of(logits[3:4], torch.tensor([3]), [2, 3], "head alone").item() == among_all


def test_replay_draws_from_earlier_phases_alone():
    one = SMOKE["replay"]
    batches = train.orders(one, train.random.Random(1))
    drawn = train.replayed(one, batches, 1)
    assert [len(phase) for phase in drawn] == [len(phase) for phase in batches]
    assert {place for batch in batches[1] for place in batch} == {*range(2 * one.examples, 4 * one.examples)}
    for phase, steps in enumerate(drawn):
        seen = {place for step in steps for place in step}
        assert {len(step) for step in steps} == {one.replayed if phase else 0}
        assert len(seen) <= one.memory and all(place < 2 * phase * one.examples for place in seen)
    assert {place // (2 * one.examples) for step in drawn[2] for place in step} == {0, 1}
    assert drawn != train.replayed(one, batches, 2)


def test_adapters_leave_everything_else_as_it_is():
    """What earlier phases gave stays to the last bit, and so does the encoder, once adapters are off."""
    one = SMOKE["adapters"]
    model, known = model_of(one)
    parts = {name: part.clone() for name, part in model.state_dict().items() if ".down." not in name}
    tables = []
    for _, over in train.learn(one, model, known, 1, CPU, torch.float32):
        if over:
            tables.append(train.test(one, model, known, CPU, torch.float32))
    assert torch.equal(tables[0][:, :2], tables[2][:, :2]) and torch.equal(tables[1][:, 2:4], tables[2][:, 2:4])
    assert not torch.equal(tables[0][:, 2:4], tables[1][:, 2:4])
    now = model.state_dict()
    kept = [name for name in parts if ".up." not in name and "head" not in name]
    assert len(kept) > 10 and all(torch.equal(parts[name], now[name]) for name in kept)
    fresh, _ = model_of(one)
    assert train.fitted_again(model, known, CPU, torch.float32) == train.fitted_again(fresh, known, CPU, torch.float32)


def test_a_head_alone_leaves_the_encoder_as_it_came():
    """So a head that is fitted again on it is the baseline: it finds what it finds on the encoder of the adapters."""
    one = SHORT["head alone"]
    known = train.given(one, 1, CPU, torch.float32)
    _, again, model = train.learned(one, known, 1, CPU, torch.float32)
    fresh = train.Learner(one)
    came, now = (part.encoder.state_dict() for part in (fresh, model))
    assert len(came) > 10 and all(torch.equal(came[name], now[name]) for name in came)
    assert again == train.fitted_again(fresh, known, CPU, torch.float32)
    assert again == train.learned(SHORT["adapters"], known, 1, CPU, torch.float32)[1]


def test_each_alone_is_a_model_for_each_phase_from_one_start():
    """The first is the model in sequence after its first phase, but for its loss; no phase reads another's model."""
    one = SHORT["each alone"]
    known, kept = train.given(one, 1, CPU, torch.float32), []
    train.seed_everything(1)
    model = train.Learner(one)
    start = train.remember(model)
    for _, over in train.learn(one, model, known, 1, CPU, torch.float32):
        if over:
            kept.append((train.remember(model), train.test(one, model, known, CPU, torch.float32)))
            train.fitted_again(model, known, CPU, torch.float32)
    assert len(kept) == 3
    for weights, _ in kept:  # each has moved, whatever was done with the one before
        assert any(not torch.equal(weights[name], start[name]) for name in start if name.startswith("encoder"))
    tables, _, _ = train.learned(one, known, 1, CPU, torch.float32)
    for phase, (_, logits) in enumerate(kept):
        classes = one.phases[phase]
        assert torch.equal(tables[-1][:, classes], logits[:, classes])
        assert torch.equal(tables[phase][:, classes], tables[0][:, classes])


def test_controls_take_as_many_steps_and_learn_all_at_once():
    every = forgetting.experiments(profile="cpu") | forgetting.controls()
    pairs = {pair: [every[name] for name in pair] for pair in forgetting.spec.CONTROL_PAIRS}
    assert len(pairs) == 2
    for alone, together in pairs.values():
        assert (alone.method, together.method) == ("each alone", forgetting.MULTI_TASK)
        assert alone.examples == together.examples and alone.seen[-1] == together.seen[-1]
    assert len({one.seen[-1] for some in pairs.values() for one in some}) == 1


@pytest.mark.parametrize("name", ["L2-SP", "EWC"])
def test_a_pull_begins_after_the_first_phase_and_is_nothing_at_its_anchor(name):
    ends = []
    for strength in (0.0, SHORT[name].strength):
        one = dataclasses.replace(SHORT[name], strength=strength)
        model, known = model_of(one)
        phases = train.learn(one, model, known, 1, CPU, torch.float32)
        ends.append([train.remember(model) for _, over in phases if over])
    free, held = ([torch.cat([*map(torch.ravel, weights.values())]) for weights in some] for some in ends)
    assert torch.equal(free[0], held[0]) and not torch.equal(free[1], held[1])
    pull = train.Pull(one, model)
    assert pull.add is None
    pull.remember(known.training[:3])
    assert pull.add().item() == 0
    with torch.no_grad():
        model.head.weight += 1
    assert pull.add().item() > 0


def test_the_information_of_all_phases_is_added_up():
    one = SHORT["EWC"]
    model, known = model_of(one)
    pull = train.Pull(one, model)
    pull.remember(known.training[:2])
    first = {name: part.clone() for name, part in pull.importance.items()}
    pull.remember(known.training[:2])
    assert all(torch.allclose(pull.importance[name], 2 * first[name]) for name in first)
    assert float(first["head.weight"].sum()) > 0


# Whose functions


@pytest.fixture(scope="module")
def theirs():
    return own.solutions("09", NAMES)


def numbers():
    runs = [SHORT[name].run_seed(1) for name in ("replay", "L2-SP", "EWC")]
    return json.dumps([(run.predictions, run.curve) for run in runs])


@pytest.fixture(scope="module")
def usual():
    return numbers()


def test_all_of_them_run_and_change_no_number(theirs, usual, capsys):
    called = own.use_counted(theirs)
    assert numbers() == usual
    assert {*called} == {*NAMES} == {*student.own_functions}
    steps = sum(map(len, train.orders(SHORT["EWC"], train.random.Random(1))[1:]))
    assert called["fisher"] == 4 and called["ewc"] == called["l2_sp"] == steps + 2  # asked in two phases, then used
    assert "instead of yours" not in capsys.readouterr().out


def newest(theirs):
    class Other(theirs["Replay"]):
        def add(self, example):
            self.examples = [*self.examples, example][-self.capacity :]

    return Other


def alias(theirs):
    return lambda model: dict(model.named_parameters())


def less(theirs):
    return lambda model: {name: part for name, part in theirs["remember"](model).items() if "head" not in name}


def mean_first(theirs):
    return lambda model, inputs: theirs["fisher"](model, inputs.mean(0, keepdim=True))


def no_half(theirs):
    return lambda *args: 2 * theirs["ewc"](*args)


def to_zero(theirs):
    return lambda model, anchor, alpha, beta: theirs["l2_sp"](model, {}, alpha, beta)


def raises(theirs):
    def ewc(*args):
        raise RuntimeError("never mind")

    return ewc


@pytest.mark.parametrize(
    "name, made",
    [
        ("Replay", newest),
        ("remember", alias),
        ("remember", less),
        ("fisher", mean_first),
        ("ewc", no_half),
        ("ewc", raises),
        ("l2_sp", to_zero),
    ],
)
def test_what_does_something_else_is_left_and_named(name, made, theirs, usual, capsys):
    own.use(**{name: made(theirs)})
    assert numbers() == usual
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_the_notebook_offers_what_the_loop_can_use():
    assert own.offered("09") == NAMES


def test_a_seed_decides_all_and_runs_leave_their_files(tmp_path):
    one = SHORT["replay"]
    (run,) = run_seeds(one, [1], tmp_path)
    again, other = one.run_seed(1), one.run_seed(2)
    assert run.predictions == again.predictions != other.predictions
    assert run.versions["text"] == train.text_of(one).fingerprint
    assert parse(path_of(one, 1, tmp_path).read_bytes()) == run


def test_the_first_phase_falls_in_a_few_steps_of_the_second(monkeypatch):
    one, steps, loss_of = SMOKE["in sequence"], [], train.loss_of
    run = one.run_seed(1)
    monkeypatch.setattr(train, "loss_of", lambda *args: steps.append(1) or loss_of(*args))
    shares = train.fall(one, 1, 8)
    assert {name: len(values) for name, values in shares.items()} == {"one head": 9, "own head": 9}
    assert len(steps) == 2 * one.examples * one.epochs // one.batch + 8
    assert shares["one head"][0] == shares["own head"][0] == forgetting.matrix(run)[1][0] > 0.7
    assert shares["one head"][-1] < 0.2 < shares["own head"][-1]


def test_sentences_are_shown_by_library():
    shown = train.sentences(SMOKE["replay"], 2)
    assert [*shown] == [*libraries.CLASSES] and {len(some) for some in shown.values()} == {2}
