"""Notebook 08's experiment: sentences with tags, what runs show at the size smoke, whose functions they use."""

import dataclasses
import json

import numpy as np
import own
import pytest
import torch
from helpers import changed, files_of

from autograder import course
from data import documentation, tagged
from utils.experiments import forgery, student, tagging
from utils.experiments.experiment import dumps, parse, path_of, read_files
from utils.experiments.runs import run_seeds
from utils.experiments.tagging import train
from utils.grading.results_check import results_check
from utils.grading.standing import NO_STANDING
from utils.grading.verdict import Outcome

COURSE = course.load()
NAMES = ("align_labels", "word_predictions", "entities", "layer_features", "BiLSTMTagger")
SMOKE = tagging.experiments(profile="smoke")
FROZEN, TALL, WHOLE = SMOKE["linear, state 1"], SMOKE["BiLSTM, state 3"], SMOKE[tagging.FINE_TUNED]
SHORT = [
    dataclasses.replace(one, name=f"short {one.name}", pool=40, examples=20, test=20, epochs=1)
    for one in (FROZEN, TALL, WHOLE)
]
ADA = "Ada Lovelace"
SEEDS = student.seeds_of(ADA, "", 5)
pytestmark = pytest.mark.usefixtures("nobody")


@results_check("8.10", points=4, source=tagging, notebook=tagging.NOTEBOOK)
def over_seeds(run_all):
    """All experiments, all seeds."""


# Sentences


@pytest.mark.parametrize(
    "sentence, said",
    [
        ("See :func:`~numpy.dot` now.", "see/O numpy/B-FUNC ./I-FUNC dot/I-FUNC now/O ./O"),
        ("A :py:class:`Base` or ``x_1`` .", "a/O base/B-CLASS or/O x/B-CODE _/I-CODE 1/I-CODE ./O"),
        (":meth:`run()` raises :exc:`KeyError`", "run/B-FUNC raises/O keyerror/B-CLASS"),
        ("``a`` ``b``", "a/B-CODE b/B-CODE"),
        ("No marks here.", None),
        ("Not `this` nor ``that``.", None),
        ("An :ref:`anchor` and ``that``.", None),
        ("A call ``f(x)`` and ``that``.", None),
    ],
)  # fmt: skip
def test_marks_become_tags(sentence, said):
    found = documentation.tagged(sentence)
    assert (found and " ".join(f"{word}/{tag}" for word, tag in zip(*found, strict=True))) == said


def test_marked_sentences_are_read_once_and_belong_to_one_side(tmp_path, monkeypatch):
    def module(name, *sentences):
        (tmp_path / name).write_text('"""' + "\n\n".join(sentences) + '\n"""\n')

    both = "The value of ``both`` stands in two of the files."
    names = [f"m{number}.py" for number in range(40)]
    sides = {name: documentation.is_validation(documentation.Sentence("", "numpy", name)) for name in names}
    first, other = next(name for name in sides if not sides[name]), next(name for name in sides if sides[name])
    assert first < other
    module(first, both, "Too ``short``.", "It says nothing about any code at all, and is plain.")
    module(other, both, "Only ``here`` is this other sentence to be found.")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(documentation, "library_root", lambda library: tmp_path)
    found = [documentation.marked_sentences(["numpy"], side) for side in (False, True)]
    assert [[" ".join(words) for words, _ in side] for side in found] == [
        ["the value of both stands in two of the files ."], ["only here is this other sentence to be found ."],
    ]  # fmt: skip
    assert found[0][0][1] == ["O", "O", "O", "B-CODE"] + ["O"] * 7
    monkeypatch.setattr(documentation, "docstrings_of", None)  # to scan would be an error
    assert documentation.marked_sentences(["numpy"], True) == found[1]


def test_columns_are_read_as_they_were_published(tmp_path):
    lines = ["-DOCSTART- -X- O O", "", "EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "", "", "Ada NNP I-NP I-PER"]
    lines += ["Bob NNP I-NP B-PER", "Byron NNP I-NP I-PER", "Rome NNP I-NP I-LOC", ""]
    wanted = [
        (["EU", "rejects"], ["B-ORG", "O"]),
        (["Ada", "Bob", "Byron", "Rome"], ["B-PER", "B-PER", "I-PER", "B-LOC"]),
    ]
    assert list(tagged.read_columns(lines)) == wanted
    (tmp_path / "ner" / "conll2003").mkdir(parents=True)
    (tmp_path / "ner" / "conll2003" / "test.txt").write_text("\n".join(lines))
    assert sorted(tagged.load("conll2003", "test", 2, tmp_path)) == sorted(wanted)
    with pytest.raises(ValueError, match="has 2 sentences, not 3"):
        tagged.load("conll2003", "test", 3, tmp_path)
    with pytest.raises(ValueError, match="there is no dev of 'conll2003'"):
        tagged.load("conll2003", "dev", 3, tmp_path)


# Experiments


def test_experiments_of_all_sizes():
    sizes = [tagging.experiments(profile=one) for one in ("smoke", "cpu", "gpu")]
    made = [one for some in sizes for one in some.values()]
    assert len({one.digest() for one in made}) == len(made) and [len(some) for some in sizes] == [7, 9, 9]
    assert [one.made_up for one in made] == [True] * 7 + [False] * 18
    for some in sizes:
        known = [f"linear, state {one.state}" for one in some.values() if one.head == tagging.BILSTM]
        assert {*known} < {*some} and known[0] == "linear, state 0"
    for notebook, profile in (("05_seed_variance", "cpu"), (tagging.NOTEBOOK, "tpu")):
        with pytest.raises(ValueError, match="no experiments of"):
            tagging.experiments(notebook, profile)


@pytest.mark.parametrize(
    "changes, says",
    [({"head": "CRF"}, "its head is linear or BiLSTM"), ({"start": "other"}, "it starts"), ({"pool": 9}, "be drawn")],
)
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(FROZEN, **changes)


def test_a_state_is_that_of_the_whole_encoder():
    """The features come from the first layers alone, and stand at the first piece of each word."""
    known, device = train.text_of(FROZEN), torch.device("cpu")
    model, tokenizer = train.encoder_of(FROZEN.encoder, FROZEN.start).eval(), train.encoders.tokenizer("tiny")
    words = known.test[3][0]
    with torch.no_grad():
        read = model(**tokenizer(" ".join(words), return_tensors="pt"), output_hidden_states=True)
    for state in (0, 1, 3):
        rows = train.states_of(dataclasses.replace(FROZEN, state=state), device, torch.float32)[1][3].float()
        whole = read.hidden_states[state][0, 1:-1]
        assert len(rows) == len(words) == len(whole)
        for column in (0, 7):  # standardised: the same up to a shift and a scale of each entry
            assert np.corrcoef(rows[:, column], whole[:, column])[0, 1] > 0.9999


def test_words_without_pieces_and_beyond_the_end_are_outside():
    one = train.Cut([1, 5, 6, 2], [None, 0, 2, None], [-100, 3, 4, -100])
    assert train.tags_of_words(one, ["B-PER", "I-PER"], 4) == ["B-PER", "O", "I-PER", "O"]
    assert train.first_pieces([None, 0, 0, 2, None], [7, 8, 9]) == [-100, 7, -100, 9, -100]
    tags = ["I-PER", "B-PER", "I-PER", "I-LOC", "O", "I-LOC"]
    assert train.names_in(tags) == {(0, 0, "PER"), (1, 2, "PER"), (3, 3, "LOC"), (5, 5, "LOC")}
    assert train.count_names([tags], [[*tags[:3], "O", "O", "O"]]) == [[2, 2, 4]]


def test_the_arms_differ_as_the_notebook_says(honest):
    """Embeddings lack context, a BiLSTM brings it, an encoder has it; so few steps from nothing bring nothing."""
    runs = {name: [parse(text) for text in files_of(honest, one).values()] for name, one in SMOKE.items()}
    assert {len(some) for some in runs.values()} == {5}
    f1 = {name: np.mean([tagging.METRICS[0].of(run) for run in some]) for name, some in runs.items()}
    embeddings, last, tall, whole, nothing = (
        f1[name] for name in ("linear, state 0", "linear, state 3", "BiLSTM, state 0", *[*SMOKE][-2:])
    )
    assert last > embeddings + 15 and tall > embeddings + 15 and whole > nothing + 15, f1
    assert len(tagging.questions(runs)) == 6 and {name for pair in tagging.questions(runs) for name in pair} <= {*runs}


def test_honest_runs_pass_and_nobody_suspects_them(honest):
    verdict, against, unsure = over_seeds.verdict_on(read_files(honest), ["smoke"], NO_STANDING)
    assert (verdict.outcome, verdict.score, against, unsure) == (Outcome.PASSED, 4, [], [])
    assert not forgery.disguises(np.array([parse(text).outputs for text in read_files(honest).values()]))


@pytest.mark.parametrize(
    "says, change",
    [
        ("tags of 49 sentences", lambda rows: rows[1:]),
        ("three counts and a loss", lambda rows: [row[:-1] for row in rows]),
        ("three counts and a loss", lambda rows: [[*map(float, row)] for row in rows]),
        ("three counts and a loss", lambda rows: [[*row[:3], -row[3]] for row in rows]),
        ("three counts and a loss", lambda rows: [row[3] for row in rows]),
        ("more names are right", lambda rows: [[row[0] + 1, row[0], *row[2:]] for row in rows]),
        ("the names that this text has", lambda rows: [[row[0], row[1], row[2] + 1, row[3]] for row in rows]),
        ("the names that this text has", lambda rows: rows[::-1]),
        ("the counts beside it", lambda rows: [[0, 1, row[2], 0.1] for row in rows]),
    ],
)
def test_what_no_run_holds_is_refused(honest, says, change):
    files = read_files(honest)
    name = next(iter(files_of(honest, FROZEN)))
    run = parse(files[name])
    forged = changed(files, name, predictions=change(run.predictions))
    verdict, against, _ = over_seeds.verdict_on(forged, ["smoke"], NO_STANDING)
    assert verdict.score == 0 and says in against[0], against


def test_the_judge_knows_the_names_of_the_recorded_text(honest, tmp_path, monkeypatch):
    """Whatever a run says of it; of a text that nobody recorded it knows nothing."""
    run = parse(next(iter(files_of(honest, FROZEN).values())))
    real = dataclasses.replace(FROZEN, task="documentation", test=len(run.predictions))
    run = dataclasses.replace(run, experiment=real.plain())
    monkeypatch.setattr(tagging.spec, "RECORDED", tmp_path)
    tagging.spec.recorded_names.cache_clear()
    assert real.names_there(run.versions["text"]) is None and real.recorded_examples == ""
    path_of(real, 1, tmp_path).parent.mkdir()
    path_of(real, 1, tmp_path).write_text(dumps(run))
    tagging.spec.recorded_names.cache_clear()
    try:
        known = real.names_there(run.versions["text"])
        assert known == [row[tagging.THERE] for row in run.predictions] and real.names_there("other") is None
        assert real.recorded_examples == real.examples_of(run) == run.versions["text"]
        real.check(run, whole=True)
        run.predictions[0][tagging.THERE] += 1
        with pytest.raises(ValueError, match="the names that this text has"):
            real.check(run, whole=True)
    finally:
        tagging.spec.recorded_names.cache_clear()


# Whose functions


@pytest.fixture(scope="module")
def theirs():
    return own.solutions("08", NAMES)


def use(**functions):
    train.states.cache_clear()  # they are computed once a session
    own.use(**functions)


def numbers():
    runs = [one.run_seed(1) for one in SHORT]
    return json.dumps([(run.predictions, run.curve) for run in runs])


@pytest.fixture(scope="module")
def usual():
    return numbers()


def test_all_of_them_run_and_change_no_number(theirs, usual, capsys):
    train.states.cache_clear()
    called = own.use_counted(theirs)
    assert numbers() == usual
    assert {*called} == {*NAMES} == {*student.own_functions}
    assert "instead of yours" not in capsys.readouterr().out


def every_piece(theirs):
    return lambda word_ids, labels, ignore=-100: [ignore if word is None else labels[word] for word in word_ids] + [0]


def backwards(theirs):
    return lambda *args: theirs["word_predictions"](*args)[::-1]


def merges(theirs):
    return lambda tags: [(0, len(tags) - 1, "PER")]


def trains(theirs):
    return lambda encoder, *args: theirs["layer_features"](encoder.train(), *args)


def one_way(theirs):
    class Other(theirs["BiLSTMTagger"]):
        def forward(self, x, lengths):
            return self.out(self.lstm(x)[0])

    return Other


def raises(theirs):
    def entities(tags):
        raise RuntimeError("never mind")

    return entities


@pytest.mark.parametrize(
    "name, made",
    [
        ("align_labels", every_piece),
        ("word_predictions", backwards),
        ("entities", merges),
        ("entities", raises),
        ("layer_features", trains),
        ("BiLSTMTagger", one_way),
    ],
)
def test_what_does_something_else_is_left_and_named(name, made, theirs, usual, capsys):
    use(**{name: made(theirs)})
    assert numbers() == usual
    assert f"The runs use the course's `{name}` instead of yours" in capsys.readouterr().out
    assert student.own(name) is None


def test_the_notebook_offers_what_the_loop_can_use():
    assert own.offered("08") == NAMES


def test_a_seed_decides_all_and_runs_leave_their_files(tmp_path):
    one = SHORT[0]
    (run,) = run_seeds(one, [1], tmp_path)
    again, other = one.run_seed(1), one.run_seed(2)
    assert run.predictions == again.predictions != other.predictions
    assert run.versions["text"] == train.text_of(one).fingerprint
    assert parse(path_of(one, 1, tmp_path).read_bytes()) == run


def test_a_shuffled_head_reads_another_order_and_answers_word_by_word():
    """A linear map, which reads each word alone, says the same as without; a BiLSTM says something else."""
    settings = {field.name: getattr(TALL, field.name) for field in dataclasses.fields(TALL)}
    known, states = train.text_of(TALL).test[:4], [torch.randn(size, 6) for size in (7, 2, 5, 1)]
    cuts = train.cut(train.encoders.tokenizer("tiny"), known, train.text_of(TALL).tags, TALL.max_len)
    said = {}
    for head in (tagging.LINEAR, tagging.BILSTM):
        for kind in (tagging.Tagging, tagging.ShuffledTagging):
            one = kind(**settings | {"head": head, "hidden": 8})
            torch.manual_seed(0)
            model = train.Probe(one, 6, 5).eval()
            reading = train.Reading(one, model, torch.device("cpu"), torch.float32)
            said[head, kind] = reading.tested(cuts, states)
    for head, alike in ((tagging.LINEAR, True), (tagging.BILSTM, False)):
        straight, shuffled = said[head, tagging.Tagging], said[head, tagging.ShuffledTagging]
        assert [len(row) for row in shuffled] == [7, 2, 5, 1]
        assert torch.allclose(straight[0], shuffled[0], atol=1e-6) is alike
        assert torch.allclose(straight[3], shuffled[3], atol=1e-6)  # one word has one order


def test_other_sentences_are_read_by_a_tagger_that_learned():
    found = train.tag(dataclasses.replace(WHOLE, epochs=1), 1, [["w9", "w0", "w11"], ["w8"] * 30])
    assert [len(tags) for tags in found] == [3, 30] and found[1][-1] == "O"  # beyond the encoder's end
    with pytest.raises(ValueError, match="only a tagger whose encoder learned"):
        train.tag(FROZEN, 1, [["w9"]])
    words, tags = train.sentences(WHOLE, 1)[0]
    assert len(words) == len(tags) == tagged.MADE_UP_LENGTH
