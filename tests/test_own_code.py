"""The student's own functions run the experiment where they do what the course's do, and no number depends on it."""

import dataclasses
import types

import pytest
import torch

from autograder import course
from autograder.author import answers, build
from utils.experiments import pair_training, rte, student
from utils.experiments.pair_experiment import PairExperiment
from utils.experiments.runs import run_seeds
from utils.grading.verdict import Outcome, Verdict

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
    """The solutions' functions, as those of a student, by name."""
    found = {}
    for number, names in NAMES.items():
        entry = COURSE.notebook(number)
        for case in answers.reference_cases(COURSE, entry):
            space = answers.at_home(build.student_notebook(COURSE, entry), case.source, case.exercise)
            found |= {name: space[name] for name in names if name in space and space[name].__module__ == "__main__"}
    assert {*found} == {name for names in NAMES.values() for name in names}
    return found


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def nobody(cache, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(cache))
    monkeypatch.setattr(student, "_own", {})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def passed(*names, outcome=Outcome.PASSED):
    """A module of checks, of which one, for these names, was run."""
    latest = Verdict("5.1", 1, outcome)
    return types.SimpleNamespace(
        one=types.SimpleNamespace(latest=latest, names=names),
        other=types.SimpleNamespace(latest=None, names=("pack",)),
        number=3,
    )


def numbers(run):
    return run.logits, run.curve


@pytest.fixture(scope="module")
def usual(cache):
    """What the course's own functions give, by arm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(cache))
        return {name: numbers(pair_training.run_seed(one, 1)) for name, one in ARMS.items()}


def test_all_of_them_run_and_change_no_number(theirs, usual, capsys):
    called = set()

    def counted(name):
        def function(*args, **kwargs):
            called.add(name)
            return theirs[name](*args, **kwargs)

        return function

    for number, arms in (("05", ["full"]), ("06", ["full", "adapter", "fusion"])):
        names = NAMES[number]
        student.use(passed(*theirs), **{name: counted(name) for name in names})
        assert f"Yours, in the runs: {', '.join(names)}." in capsys.readouterr().out
        for name in arms:
            assert numbers(pair_training.run_seed(ARMS[name], 1)) == usual[name]
        assert called == {*names} == {*student._own}  # none was left
        called.clear()
        assert "instead of yours" not in capsys.readouterr().out


def test_5_3_decays_the_value_matrices_of_a_fusion_and_is_left(theirs, usual, capsys):
    student.use(passed("make_optimizer"), make_optimizer=theirs["make_optimizer"])
    assert numbers(pair_training.run_seed(ARMS["fusion"], 1)) == usual["fusion"]
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
    student.use(passed(name), **{name: made(theirs)})
    assert numbers(pair_training.run_seed(ARMS[arm], 1)) == usual[arm]
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_a_last_digit_is_no_reason_to_leave_a_schedule_and_changes_nothing(theirs, usual, capsys):
    def schedule(step, warmup, total, peak):
        return theirs["schedule"](step, warmup, total, peak) * (1 + 3e-16)

    student.use(passed("schedule"), schedule=schedule)
    assert numbers(pair_training.run_seed(ARMS["full"], 1)) == usual["full"]
    assert student.own("schedule") is schedule


def test_only_what_has_passed_in_this_session_is_used(capsys):
    student.use(passed("schedule"), schedule=len, streams=len)
    said = capsys.readouterr().out
    assert "Yours, in the runs: schedule." in said
    assert "The course's, until you have passed their checks in this session: streams." in said
    assert student.own("schedule") is len and student.own("streams") is None
    for outcome in (Outcome.WRONG, Outcome.ERROR, Outcome.BLANK):
        student.use(passed("schedule", outcome=outcome), schedule=len)
        assert not student.any_own() and "Yours" not in capsys.readouterr().out


def test_the_notebooks_offer_what_the_loop_can_use():
    from utils import checks
    from utils.checks import nb05_seed_variance, nb06_adapter_fusion

    assert checks
    for number, module in (("05", nb05_seed_variance), ("06", nb06_adapter_fusion)):
        cells = build.student_notebook(COURSE, COURSE.notebook(number)).cells
        (used,) = [cell.source for cell in cells if "student.use(" in cell.source]
        asked = {name for one in vars(module).values() for name in getattr(one, "names", ())}
        assert {*NAMES[number]} <= asked
        assert "student.use(checks, " + ", ".join(f"{name}={name}" for name in NAMES[number]) + ")" in used


def test_on_a_cluster_it_is_said_that_the_courses_functions_run(tmp_path, capsys, monkeypatch):
    import distributed

    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: pytest.fail("far enough"))
    student.use(passed("schedule"), schedule=len)
    with pytest.raises(pytest.fail.Exception):
        run_seeds(dataclasses.replace(ARMS["full"], name="c"), [1], tmp_path, cluster="local")
    assert "On a cluster the course's functions run, not yours" in capsys.readouterr().out
