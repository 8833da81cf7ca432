"""Notebook 11's experiment: text, three kinds of runs, what they show at the size smoke, whose functions are used."""

import dataclasses
import random

import numpy as np
import own
import pytest
import torch

from autograder import course
from autograder.reports.report import recorded_tables
from data import documentation
from utils.experiments import objectives, student
from utils.experiments.experiment import BadRun, Run, dumps, parse, read_files
from utils.experiments.objectives import train
from utils.experiments.runs import RECORDED_SEEDS
from utils.experiments.seed_table import tables
from utils.grading.evidence import examine
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
SMOKE = objectives.experiments(profile="smoke")
CPU = torch.device("cpu")
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
NAMES = ("masked_places", "tlm_batch", "allowed", "pair_task")
pytestmark = pytest.mark.usefixtures("nobody")


@results_check("11.8", points=4, source=objectives, notebook=objectives.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


def runs_in(folder, name):
    wanted = SMOKE[name].folder("").name
    return [parse(text) for file, text in read_files(folder).items() if file.split("/")[0] == wanted]


# Text


def test_documents_are_docstrings_with_two_sentences(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(
        'def f():\n    """It reads the whole file. It gives a list of lines.\n\n    The file is then closed."""\n'
        'def g():\n    """There is one sentence here."""\n'
        'def h():\n    """It reads the whole file. It gives a list of lines.\n\n    The file is then closed."""\n'
    )
    monkeypatch.setattr(documentation, "library_root", lambda library: tmp_path)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    for _ in range(2):  # the second time from the cache
        found = [documentation.documents(["torch"], validation=side) for side in (False, True)]
        assert sorted(map(len, found)) == [0, 1]
        assert found[0] + found[1] == [
            ["it reads the whole file .", "it gives a list of lines .", "the file is then closed ."]
        ]


def test_sentences_are_numbered_by_frequency_and_rare_words_share_a_number():
    lengths = train.LENGTHS[objectives.Translations]
    known = train.sentences("made-up-text", 10, lengths, 0.3, 20)
    assert known.size == 11 and len(known.test) == 20
    rows = {tuple(row) for row in known.train} | {tuple(row) for row in known.test}
    assert len(rows) == len(known.train) + 20, "a sentence is there twice"
    last = train.WORDS + 10
    assert {word for row in rows for word in row} == {*range(train.WORDS, last + 1)}
    assert all(sum(word != last for word in row) >= 0.3 * len(row) for row in rows)
    with pytest.raises(ValueError, match="test sentences, not for"):
        train.sentences("made-up-text", 10, lengths, 0.3, 10**6)


def test_the_second_language_has_other_words_and_each_two_neighbours_swapped():
    size, first = 20, [4, 9, 5, 5, 7]
    second = train.second_language(first, size)
    assert min(second) >= train.WORDS + size and max(second) < train.WORDS + 2 * size
    number = {word: train.second_language([word], size)[0] for word in range(4, 4 + size)}
    assert len({*number.values()}) == size
    assert second == [number[word] for word in (9, 4, 5, 5, 7)]


def test_test_pairs_are_wrong_every_second_time():
    texts = [[f"{d} {i}" for i in range(3)] for d in range(9)]
    pairs = train.test_pairs(texts, 18)
    for place, row in enumerate(pairs):
        (d, i), (e, j) = (map(int, sentence.split()) for sentence in row["nsp"])
        assert (e, j) == (d, i + 1) if place % 2 == 0 else e != d
        assert row["sop"] == ((f"{d} {i + 1}", f"{d} {i}") if place % 2 else row["nsp"])
    with pytest.raises(ValueError, match="enough for 18 test pairs"):
        train.test_pairs(texts, 19)


# Experiments


def test_experiments_of_all_sizes():
    sizes = [objectives.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) == 18
    assert [one.made_up for one in made] == [True] * 6 + [False] * 12
    for some in sizes:
        arms = list(some.values())
        for first, second in zip(arms[::2], arms[1::2], strict=True):
            one, other = first.plain(), second.plain()
            assert {key for key in one if one[key] != other[key]} in (
                {"name", what} for what in ("copies", "across", "learned")
            )
    for notebook, profile in (("05_seed_variance", "cpu"), (objectives.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            objectives.experiments(notebook, profile)


@pytest.mark.parametrize(
    "name, changes, says",
    [
        ("one mask", {"steps": 7}, "at least 8 steps"),
        ("one mask", {"sentences": 61}, "in the pool"),
        ("next sentence", {"learned": "mlm"}, "the tasks are nsp and sop"),
    ],
)
def test_what_cannot_be_run_is_refused(name, changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SMOKE[name], **changes)


def test_the_arms_differ_as_the_notebook_says(honest):
    """A mask that stays is learned by heart; NSP and SOP are good at their own task."""
    runs = {name: runs_in(honest, name) for name in SMOKE}
    assert {len(some) for some in runs.values()} == {5}
    means = {
        name: [np.mean([metric.of(run) for run in some]) for metric in SMOKE[name].metrics]
        for name, some in runs.items()
    }
    assert means["one mask"][0] > means["dynamic masks"][0] + 1, means
    assert means["translations side by side"][0] > means["each language alone"][0] + 2, means
    assert means["next sentence"][0] > means["sentence order"][0] + 10, means
    assert means["sentence order"][1] > means["next sentence"][1] + 10, means
    found = objectives.compared(runs)
    assert [(one.first, one.second) for one in found] == [pair[:2] for pair in objectives.questions(runs)]
    assert {one.among for one in found} == {4} and found[0].unit == "nats" and found[0].difference < -1
    table = objectives.table(runs)
    assert [*table.index] == [*SMOKE] and table.shape == (6, 4) and (table == "").sum().sum() == 16
    for picture in (objectives.learning(runs, "alt"), objectives.crossed(runs, "alt")):
        assert picture.png()[:4] == b"\x89PNG"


def test_metrics_are_counted_from_the_rows():
    run = Run({}, 1, [], [[3.0, 2], [1.0, 2]], [], [])
    assert objectives.Masks.metrics[0].of(run) == 1.0
    run = Run({}, 1, [0, 1], [[0, 1, 0.5, -0.1], [0, 1, -0.2, 0.3]], [], [])
    assert objectives.Translations.metrics[0].of(run) == 50.0
    run = Run({}, 1, [[0, 0], [1, 1]], [[-1.0, 1.0], [0.5, 2.0]], [], [])
    assert [metric.of(run) for metric in objectives.Order.metrics] == [100.0, 50.0]


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])


@pytest.mark.parametrize(
    "name, says, change",
    [
        ("one mask", "sums of losses with their counts", lambda rows: rows[1:]),
        ("one mask", "sums of losses with their counts", lambda rows: [[loss, 1.0] for loss, _ in rows]),
        ("one mask", "no blank, or a loss below 0", lambda rows: [[-loss, count] for loss, count in rows]),
        ("one mask", "does not end at the loss", lambda rows: [[loss / 2, count] for loss, count in rows]),
        ("each language alone", "two places and two margins", lambda rows: [row[:3] for row in rows]),
        ("each language alone", "that is not there", lambda rows: [[99, *row[1:]] for row in rows]),
        ("each language alone", "a margin is not that", lambda rows: [[n, *row[1:]] for n, row in enumerate(rows)]),
        ("each language alone", "it has no margins", lambda rows: [[*row[:2], 0.0, 0.0] for row in rows]),
        ("sentence order", "two margins", lambda rows: [[1, 1] for _ in rows]),
    ],
)
def test_what_no_run_holds_is_refused(honest, name, says, change):
    run = runs_in(honest, name)[0]
    with pytest.raises(BadRun, match=says):
        SMOKE[name].check(dataclasses.replace(run, predictions=change(run.predictions)), whole=True)
    SMOKE[name].check(run, whole=True)


def test_a_curve_has_both_losses(honest):
    run = runs_in(honest, "one mask")[0]
    for curve in (run.curve[1:], [{"train_loss": 1.0}] * 8):
        with pytest.raises(BadRun, match="8 times both losses"):
            SMOKE["one mask"].check(dataclasses.replace(run, curve=curve), whole=True)


@pytest.mark.parametrize("name", ["dynamic masks", "translations side by side", "sentence order"])
def test_a_seed_gives_the_same_run_again_and_another_another(honest, name):
    made = {run.seed: run for run in runs_in(honest, name)}
    first, second = (made[seed] for seed in SEEDS[:2])  # these were trained here
    again = SMOKE[name].run_seed(first.seed)
    assert np.allclose(again.outputs, first.outputs, atol=2e-2) and again.labels == first.labels
    assert not np.allclose(first.outputs, second.outputs, atol=2e-2)


def test_recorded_runs_stand_up():
    """Those that came are whole, and of this code's configuration."""
    experiments = objectives.experiments(profile="cpu").values()
    _, refused = examine(read_files(objectives.RECORDED), experiments, RECORDED_SEEDS)
    assert refused == []


def test_kinds_with_other_metrics_have_tables_of_their_own(honest):
    runs = {name: runs_in(honest, name) for name in SMOKE}
    found = tables(runs, {name: one.metrics for name, one in SMOKE.items()})
    names = [*SMOKE]
    assert [(one.metric.name, [*one.runs]) for one in found] == [
        ("test loss", names[:2]),
        ("translations found", names[2:4]),
        ("tested on NSP", names[4:]),
        ("tested on SOP", names[4:]),
    ]
    entry = COURSE.notebook(objectives.NOTEBOOK)
    assert [one.metric.name for one in recorded_tables(entry)] == [one.metric.name for one in found]


# Whose functions


@pytest.fixture(scope="module")
def solutions():
    """The authors' solutions of the exercises whose functions the runs use."""
    return own.solutions("11", NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_course_and_the_solutions_give_the_same(solutions, name):
    texts = [[f"{d} {i}" for i in range(size)] for d, size in enumerate((4, 1, 0, 6))]
    languages = torch.tensor([[0, 0, 1, 1, -1], [0, 1, 1, 1, 1]])
    given = {
        "masked_places": [(n, sentence, 7, 3, 0.3, 5) for n in (1, 8, 30) for sentence in (0, 9)],
        "tlm_batch": [([([5, 6], [7]), ([8], [9, 10, 11])], 1, 2, 0)],
        "allowed": [(languages, tlm) for tlm in (True, False)],
        "pair_task": [(texts, task, 3) for task in objectives.TASKS],
    }[name]
    for some in given:
        results = []
        for function in (train.COURSE[name], solutions[name]):
            turn = (*some[:-1], random.Random(some[-1])) if name == "pair_task" else some
            results.append(function(*turn))
        assert train.alike(*results)


def test_a_students_functions_are_used_where_they_give_the_same(solutions, capsys):
    calls = own.use_counted(solutions)
    rng = random.Random(1)
    made = train.by("pair_task", [["a b", "c d"], ["e f"]], "nsp", rng)
    assert made == train.pair_task([["a b", "c d"], ["e f"]], "nsp", random.Random(1))
    train.by("allowed", torch.zeros(1, 2, dtype=torch.long), True)
    train.by("masked_places", 9, 1, 2)
    train.by("tlm_batch", [([5], [6])], 1, 2, 0)
    assert calls == dict.fromkeys(NAMES, 1)
    assert "instead of yours" not in capsys.readouterr().out and student.any_own()


def test_what_gives_something_else_is_left(capsys):
    own.use(
        masked_places=lambda n, *more: torch.ones(n, dtype=torch.bool), allowed=lambda languages, tlm: languages == 0
    )
    for _ in range(2):
        found = train.by("masked_places", 9, 1, 2)
        assert torch.equal(found, train.masked_places(9, 1, 2))
    languages = torch.zeros(1, 2, dtype=torch.long)
    assert torch.equal(train.by("allowed", languages, False), train.allowed(languages, False))
    assert capsys.readouterr().out.count("instead of yours") == 2 and not student.any_own()


def test_results_are_alike_by_their_numbers_in_lists_or_tuples():
    one = torch.tensor([1, 2])
    assert train.alike((one, [("a", 1)]), [one.clone(), (["a", True],)])
    for other in (
        (one.float(), [("a", 1)]),
        (one + 1, [("a", 1)]),
        (one, [("a", 0)]),
        (one,),
        one,
        ([1, 2], [("a", 1)]),
    ):
        assert not train.alike((one, [("a", 1)]), other)


# The encoder


def test_nobody_sees_what_is_not_allowed():
    torch.manual_seed(0)
    model = train.Encoder(12, 6, 16, 2).eval()
    words, places = torch.tensor([[4, 5, 6, 7, 0]]), torch.tensor([[0, 1, 0, 1, 0]])
    languages = torch.tensor([[0, 0, 1, 1, -1]])
    other = words.clone()
    other[0, 3] = 9
    for tlm in (False, True):
        looks = train.allowed(languages, tlm)
        first, second = (model(one, places, languages, looks) for one in (words, other))
        assert torch.allclose(first[0, :2], second[0, :2]) is not tlm
        assert not torch.allclose(first[0, 2], second[0, 2])
    padded = model(words, places, languages, looks)[:, :4]
    assert torch.allclose(padded, model(words[:, :4], places[:, :4], languages[:, :4], looks[:, :4, :4]), atol=1e-6)


def test_nearest_are_those_of_largest_cosine_and_ties_are_misses():
    cosines = torch.tensor([[0.9, 0.1, 0.2], [0.3, 0.2, 0.3], [0.5, 0.1, 0.5]])
    places, margins = train.nearest(cosines)
    assert places == [0, 0, 0] and margins == pytest.approx([0.7, -0.1, 0.0])


def test_of_the_blanks_most_are_masks_and_a_tenth_stays():
    words, generator = torch.full((100, 100), 7), torch.Generator().manual_seed(0)
    blanks = torch.zeros(100, 100, dtype=torch.bool)
    blanks[:50] = True
    read = train.corrupted(words, blanks, 1000, generator)
    assert (read[50:] == 7).all()
    shares = [(read[:50] == one).float().mean().item() for one in (train.MASK, 7)]
    assert shares == pytest.approx([0.8, 0.1], abs=0.03)
    assert read[:50].max() < 1000 and ((read[:50] >= train.WORDS) | (read[:50] == train.MASK)).all()


def test_a_runs_file_can_be_read_again(honest):
    run = runs_in(honest, "next sentence")[0]
    assert parse(dumps(run).encode()) == run
