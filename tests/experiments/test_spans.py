"""Hidden spans against hidden pieces: what is hidden, how questions are read and answered, and the recorded search."""

import dataclasses
import random
from pathlib import Path

import pytest
import torch
from helpers import script

from autograder import course
from data.questions import Asked
from utils.experiments import objectives, spans
from utils.experiments.experiment import BadRun
from utils.experiments.spans import train

SMOKE = spans.arms("smoke")
CPU = torch.device("cpu")
WORDS = torch.tensor([0, 0, 1, 2, 2, 2, 3, 4, -1, 5, 5, 6, 7, 7, 7, 8, 9, 9, 10, 11])


def test_both_hide_as_many_pieces_and_no_stop():
    for hide in (train.hidden_pieces, train.hidden_spans):
        for seed in range(50):
            found = hide(WORDS, 0.3, random.Random(seed))
            assert len(found) == round(0.3 * 19) == len({*found}) and found == sorted(found) and 8 not in found


def test_spans_are_whole_words_but_for_the_last_one():
    for seed in range(50):
        hidden = {*train.hidden_spans(WORDS, 0.3, random.Random(seed))}
        parts = [{place for place, one in enumerate(WORDS.tolist()) if one == word} for word in range(12)]
        assert sum(bool(part & hidden) and not part <= hidden for part in parts) <= 1


def test_a_span_is_replaced_as_a_unit_and_pieces_one_by_one():
    ids, there = torch.arange(100, 160), [*range(10, 40)]
    kinds = {}
    for whole in (True, False):
        rows = []
        for seed in range(40):
            mine = ids.clone()
            train.write_over(mine, there, whole, 7, random.Random(seed), ids)
            assert torch.equal(mine[:10], ids[:10]) and torch.equal(mine[40:], ids[40:])
            rows.append(int((mine[10:40] == 7).sum()))
        kinds[whole] = rows
    assert {*kinds[True]} == {0, 30} and 24 <= kinds[True].count(30) <= 38
    assert all(15 < masks < 30 for masks in kinds[False])


def test_rows_hold_every_piece_of_a_page_and_the_whole_answer():
    known = train.pages("made-up-pages", "tiny")
    text = next(iter(known.train))
    start = text.index(" ", 20) + 1
    ask = Asked("w2", text, start, text[start : text.index(" ", start)], "made up")
    page, one = train.cut(text, known.tokenizer), SMOKE[spans.SPANS]
    rows = train.rows_of(one, ask, page, known.tokenizer)
    assert {*range(len(page.ids))} == {
        place + number * (12 // 2) for number, row in enumerate(rows) for place in range(len(row.part))
    }
    holding = [row for row in rows if row.first]
    assert holding
    for row in holding:
        read, is_page = train.batch_of([row], known.tokenizer, CPU)
        pieces = read["input_ids"][0, row.first : row.last + 1]
        assert known.tokenizer.decode(pieces) == ask.text and bool(is_page[0, row.first : row.last + 1].all())
        assert int(is_page.sum()) == len(row.part) and read["token_type_ids"][0, -1] == 1


@pytest.mark.parametrize("long", [False, True])
def test_the_best_span_is_the_one_that_a_loop_finds(long):
    known, one = train.pages("made-up-pages", "tiny"), SMOKE[spans.NONE]
    torch.manual_seed(int(long))
    text = " ".join([*known.train][:3]) if long else next(iter(known.train))
    ask = Asked("w1 w2", text, 0, "w1", "made up")
    page = train.cut(text, known.tokenizer)
    encoder = train.encoders.ready_model("tiny").eval()
    out = torch.nn.Linear(encoder.config.hidden_size, 2)
    (found,) = train.answers(one, encoder, out, [(ask, page)], CPU, torch.float32)
    best, wanted = -torch.inf, ""
    for number, row in enumerate(train.rows_of(one, ask, page, known.tokenizer)):
        read, is_page = train.batch_of([row], known.tokenizer, CPU)
        with torch.no_grad():
            first, last = out(encoder(**read).last_hidden_state)[0].T.tolist()
        places = is_page[0].nonzero()[:, 0].tolist()
        for i in places:
            for j in (j for j in places if i <= j):
                score = first[i] + last[j] - first[0] - last[0]
                if score > best:
                    shift = number * ((16 - 3 - len(row.question)) // 2) - len(row.question) - 2
                    best, wanted = score, text[page.offsets[i + shift][0] : page.offsets[j + shift][1]]
    assert found == wanted


def test_answers_are_compared_as_squad_does():
    assert train.scores_of("The Axis.", "axis") == (1.0, 1)
    assert train.scores_of("of the axis", "axis") == (round(2 / 3, 4), 0)
    assert train.scores_of("", "axis") == (0.0, 0)
    assert train.scores_of("the", "a") == (0.0, 1) and train.scores_of("axis", "a") == (0.0, 0)  # as recorded


def test_a_seed_decides_all_and_arms_differ():
    runs = {name: [one.run_seed(1) for _ in range(2)] for name, one in SMOKE.items()}
    for name, (run, again) in runs.items():
        SMOKE[name].check(run, whole=True)
        assert (run.predictions, run.curve) == (again.predictions, again.curve)
        assert 0 <= spans.METRICS[0].of(run) <= 100
    losses = {name: run.curve[-1]["train_loss"] for name, (run, _) in runs.items()}
    assert len({*losses.values()}) == 3 and len(runs[spans.NONE][0].curve) == spans.spec.POINTS


def test_what_cannot_be_run_or_is_no_run_is_refused():
    for changes in ({"hidden": "words"}, {"steps": 7}, {"steps": 0}):
        with pytest.raises(ValueError, match="hidden is one of"):
            dataclasses.replace(SMOKE[spans.SPANS], **changes)
    one = SMOKE[spans.NONE]
    run = one.run_seed(1)
    for changed in (
        {"predictions": run.predictions[1:]},
        {"predictions": [[0, 1.5, 1], *run.predictions[1:]]},
        {"curve": run.curve[1:]},
    ):
        with pytest.raises(BadRun):
            one.check(dataclasses.replace(run, **changed), whole=True)


def test_each_rate_is_the_best_of_the_recorded_search_and_not_at_its_end():
    search = script(Path(course.ROOT, "solutions", "11_other_objectives", "search.py"))
    rows = [*search.rate_search.load(spans.SEARCH).values()]
    assert {row["arm"] for row in rows} == {*spans.HIDDEN} and {row["seed"] for row in rows} == {*search.SEEDS}
    for name, one in spans.arms().items():
        tried = [rate for (rate,) in search.rate_search.means(rows, name)]
        assert search.rate_search.best(rows, name) == (one.questions_lr,)
        assert min(tried) < one.questions_lr < max(tried)
    lines = search.rate_search.table(spans.SEARCH, {name: [one.questions_lr] for name, one in spans.arms().items()})
    card = Path(course.ROOT, "data", "README.md").read_text()
    assert all(line in card for line in lines)
    assert {spans.RECORDED: spans.arms} == objectives.ALSO_RECORDED
