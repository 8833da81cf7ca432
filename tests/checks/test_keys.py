"""benchmarks/keys.py asks known answers at many keys; and keys at which wrong answers were once accepted by luck."""

import json
import sys

import pytest

from autograder import course
from benchmarks import keys


def entry_of(exercise):
    return course.load().notebook(exercise.split(".")[0].zfill(2))


LUCKY = [
    ("1.9", "never colder than 0.1", 12),
    ("1.9", "the mode of the model alone", 5003),
    ("2.4", "back after the slowest turn", 2003),
    ("5.9", "a gain of a thousandth at least", 14),
    ("6.6", "three adapters", 104),
    ("7.9", "whole epochs only", 7),
    ("11.5", "one state in single precision", 4),
    ("11.8", "five seeds at most", 15),
    ("13.7", "one piece for other widths", 6),
]


@pytest.mark.parametrize("exercise, name, key", LUCKY)
def test_wrong_answers_are_refused_where_they_had_luck(exercise, name, key):
    entry = entry_of(exercise)
    cases = keys.known_cases(entry)[exercise]
    (wrong,) = (case for case in cases[keys.WRONG] if case.name == name)
    found = keys.wrong_verdict(entry, wrong, key)
    assert found is None or found[0] == keys.OTHER_WORDS
    assert keys.wrong_verdict(entry, cases[keys.SOLUTION][0], key) is None


@pytest.mark.parametrize(
    "exercise, key",
    [("3.14", 134), ("7.3", 685), ("7.3", 971), ("9.8", 30), ("11.4", 641), ("15.1", 240), ("15.7", 340)],
)
def test_a_right_answer_is_accepted_where_it_had_bad_luck(exercise, key):
    entry = entry_of(exercise)
    assert keys.wrong_verdict(entry, keys.known_cases(entry)[exercise][keys.SOLUTION][0], key) is None


def test_answers_take_turns_and_wrong_verdicts_are_reported(monkeypatch):
    entry = entry_of("14.7")
    cases = keys.known_cases(entry)["14.7"]
    report = keys.asked_at(entry, "14.7", keys.WRONG, range(2))
    assert report["found"] == [] and (report["start"], report["stop"]) == (0, 2)
    exchanged = {keys.SOLUTION: cases[keys.WRONG][:1], keys.WRONG: [*cases[keys.WRONG][:1], *cases[keys.SOLUTION]]}
    monkeypatch.setattr(keys, "known_cases", lambda _: {"14.7": exchanged})
    monkeypatch.setattr(keys.answers.AnswerCase, "right", property(lambda case: case.name != "the solution"))
    (refused,) = keys.asked_at(entry, "14.7", keys.SOLUTION, range(1))["found"]
    assert refused["kind"] == keys.RIGHT_REFUSED and refused["words"]
    (_, accepted) = keys.asked_at(entry, "14.7", keys.WRONG, range(2))["found"]
    assert (accepted["kind"], accepted["key"], accepted["answer"]) == (keys.WRONG_ACCEPTED, 1, "the solution")


def test_an_interrupted_run_is_continued(monkeypatch, tmp_path, capsys):
    results = tmp_path / "keys.jsonl"
    asked = ["keys.py", "--exercise", "14.1", "--workers", "1", "--results", str(results), "--keys"]
    lines = []
    for count in ("2", "27"):
        monkeypatch.setattr(sys, "argv", [*asked, count])
        keys.main()
        lines.append(results.read_text().splitlines())
    assert len(lines[0]) == 1 and lines[1][:1] == lines[0]
    spans = [(json.loads(line)["start"], json.loads(line)["stop"]) for line in lines[1]]
    assert spans == [(0, 2), (0, 25), (25, 27)]
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["exercises"], last["fewest_keys"], last["right_refused"]) == (1, 27, 0)
