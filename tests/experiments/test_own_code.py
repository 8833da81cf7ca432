"""The student's own functions run the experiment where they do what the course's do, and no number depends on it."""

import dataclasses

import own
import pytest
import torch

from autograder import course
from utils.experiments import rte, student
from utils.experiments.rte import train
from utils.experiments.rte.spec import PairExperiment
from utils.experiments.runs import run_seeds
from utils.grading.verdict import Outcome

pytestmark = pytest.mark.usefixtures("nobody")
COURSE = course.load()
NAMES = {
    "05": ("encode_pair", "streams", "schedule", "make_optimizer"),
    "06": ("train_only", "compose", "sources", "pair_logits"),
}
TINY = {"train_examples": 16, "epochs": 1, "batch": 8, "max_len": 24, "lr": 1e-2}
PARTS = tuple(PairExperiment(f"{one} adapter", f"made-up-{one}", "tiny", method="adapter", **TINY) for one in rte.FUSED)
ARMS = {
    "full": PairExperiment("full", "made-up-rte", "tiny", start="random", **TINY),
    "adapter": PairExperiment("adapter", "made-up-rte", "tiny", method="adapter", **TINY),
    "fusion": PairExperiment("fusion", "made-up-rte", "tiny", method="fusion", after=PARTS, **TINY),
}


@pytest.fixture(scope="module")
def theirs():
    """The functions of both solutions."""
    return {name: one for number, names in NAMES.items() for name, one in own.solutions(number, names).items()}


def numbers(run):
    return run.logits, run.curve


@pytest.fixture(scope="module")
def usual():
    """What the course's own functions give, by arm."""
    return {name: numbers(train.run_seed(one, 1)) for name, one in ARMS.items()}


def test_all_of_them_run_and_change_no_number(theirs, usual, capsys):
    for number, arms in (("05", ["full"]), ("06", ["full", "adapter", "fusion"])):
        names = NAMES[number]
        called = own.use_counted({name: theirs[name] for name in names})
        assert f"Yours, in the runs: {', '.join(names)}." in capsys.readouterr().out
        for name in arms:
            assert numbers(train.run_seed(ARMS[name], 1)) == usual[name]
        assert {*called} == {*names} == {*student.own_functions}  # none was left
        assert "instead of yours" not in capsys.readouterr().out


def test_5_3_decays_the_value_matrices_of_a_fusion_and_is_left(theirs, usual, capsys):
    own.use(make_optimizer=theirs["make_optimizer"])
    assert numbers(train.run_seed(ARMS["fusion"], 1)) == usual["fusion"]
    assert "`make_optimizer` instead of yours" in capsys.readouterr().out


def one_step_early(theirs):
    return lambda step, warmup, total, peak: theirs["schedule"](min(step + 1, total), warmup, total, peak)


def neighbours(theirs):
    def streams(seed, varies=("head", "order", "dropout")):
        return {name: torch.Generator().manual_seed(seed + place) for place, name in enumerate(varies)}

    return streams


def one_type(theirs):
    def encode_pair(*args):
        tokens, types = theirs["encode_pair"](*args)
        return tokens, [0] * len(types)

    return encode_pair


def decays_all(theirs):
    return lambda model, peak: torch.optim.AdamW(model.parameters(), lr=peak)


def trains_all(theirs):
    def train_only(model, parts):
        for parameter in model.parameters():
            parameter.requires_grad = True

    return train_only


def not_activated(theirs):
    def compose(model, folders, head, n_classes=2):
        theirs["compose"](model, folders, head, n_classes)
        model.set_active_adapters(None)

    return compose


def backwards(theirs):
    return lambda adapters, target: theirs["sources"](adapters, target)[::-1]


def without_types(theirs):
    return lambda model, batch: model(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
    ).logits  # fmt: skip


def without_dropout(theirs):
    def pair_logits(model, batch):
        training, _ = model.training, model.eval()
        made = theirs["pair_logits"](model, batch)
        model.train(training)
        return made

    return pair_logits


def in_another_mode(theirs):
    def pair_logits(model, batch):
        made = theirs["pair_logits"](model, batch)
        model.eval()
        return made

    return pair_logits


def raises(theirs):
    def schedule(step, warmup, total, peak):
        raise RuntimeError("never mind")

    return schedule


@pytest.mark.parametrize(
    "name, arm, made",
    [
        ("schedule", "full", one_step_early),
        ("schedule", "full", raises),
        ("streams", "full", neighbours),
        ("encode_pair", "full", one_type),
        ("make_optimizer", "full", decays_all),
        ("pair_logits", "full", without_types),
        ("pair_logits", "full", without_dropout),
        ("pair_logits", "full", in_another_mode),
        ("train_only", "adapter", trains_all),
        ("compose", "fusion", not_activated),
        ("sources", "fusion", backwards),
    ],
)
def test_what_does_something_else_is_left_and_named(name, arm, made, theirs, usual, capsys):
    own.use(**{name: made(theirs)})
    assert numbers(train.run_seed(ARMS[arm], 1)) == usual[arm]
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_a_last_digit_is_no_reason_to_leave_a_schedule_and_changes_nothing(theirs, usual, capsys):
    def schedule(step, warmup, total, peak):
        return theirs["schedule"](step, warmup, total, peak) * (1 + 3e-16)

    student.use(own.passed("schedule"), schedule=schedule)
    assert numbers(train.run_seed(ARMS["full"], 1)) == usual["full"]
    assert student.own("schedule") is schedule


def test_only_what_has_passed_in_this_session_is_used(capsys):
    student.use(own.passed("schedule"), schedule=len, streams=len)
    said = capsys.readouterr().out
    assert "Yours, in the runs: schedule." in said
    assert "The course's, until you have passed their checks in this session: streams." in said
    assert student.own("schedule") is len and student.own("streams") is None
    for outcome in (Outcome.WRONG, Outcome.ERROR, Outcome.BLANK):
        student.use(own.passed("schedule", outcome=outcome), schedule=len)
        assert not student.any_own() and "Yours" not in capsys.readouterr().out


def test_the_notebooks_offer_what_the_loop_can_use():
    from utils import checks
    from utils.checks import nb05_seed_variance, nb06_adapter_fusion

    assert checks
    for number, module in (("05", nb05_seed_variance), ("06", nb06_adapter_fusion)):
        asked = {name for one in vars(module).values() for name in getattr(one, "names", ())}
        assert {*NAMES[number]} <= asked
        assert own.offered(number) == NAMES[number]


def test_on_a_cluster_it_is_said_that_the_courses_functions_run(tmp_path, capsys, monkeypatch):
    import distributed

    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: pytest.fail("far enough"))
    student.use(own.passed("schedule"), schedule=len)
    with pytest.raises(pytest.fail.Exception):
        run_seeds(dataclasses.replace(ARMS["full"], name="c"), [1], tmp_path, cluster="local")
    assert "On a cluster the course's functions run, not yours" in capsys.readouterr().out
