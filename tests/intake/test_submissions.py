"""What is one submission: a notebook with its runs, without hidden copies; it is read as it lies, at any moment."""

import contextlib
import datetime
import io
import json
import os
import signal
import sys
import zipfile

import pytest
from typer.testing import CliRunner

from autograder import cli, course
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, extensions
from autograder.intake import archive, collect, restore
from autograder.reports import charts
from utils import hand_in

NAME, RUNS = "01_causal_mask_lm", "05_seed_variance"
SECRET = b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {"secret": "of the instructor"}}'


@pytest.fixture
def mine(tmp_path):
    return course.load(tree=tmp_path / "tree").model_copy(update={"timezone": "Europe/Berlin"})


@pytest.fixture(scope="module")
def text():
    known = course.load()
    return build.write(build.student_notebook(known, known.notebook(NAME))).encode()


@pytest.fixture(scope="module")
def trained(text):
    """A notebook whose runs are graded."""
    return text.replace(b"exercise_1_", b"exercise_5_")


def zipped(members):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return whole.getvalue()


def laid_out(place, files, form):
    """Files by name as a zip or as a folder; of a name with a time, the file of that time."""
    place.mkdir(exist_ok=True)
    if form == "zip":
        (place / "in.zip").write_bytes(zipped(files))
        return place / "in.zip"
    for name, content in files.items():
        path = place / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place / "in"


def submitted(known, name=NAME):
    return {path.parents[1].name: path for path in known.tree.glob(f"submitted/*/{name}/{name}.ipynb")}


def runs_of(known, student="ada"):
    """The names of the runs that count, None if nothing was handed in."""
    if student not in submitted(known, RUNS):
        return None
    place = submitted(known, RUNS)[student].with_name("results.json")
    return [*json.loads(place.read_bytes())] if place.exists() else []


EXCHANGE = {"armed": "", "do": None}


def _at_opening(event, given):
    """Exchange something at the very moment in which a file is opened by this name."""
    armed = EXCHANGE["armed"]
    opened = given[0] if event == "open" and armed and isinstance(given[0], str | os.PathLike) else ""
    if opened and os.path.basename(os.fspath(opened)) in armed:
        EXCHANGE["armed"], do = "", EXCHANGE["do"]
        do()


sys.addaudithook(_at_opening)  # nobody can remove one: it does nothing unless it is armed


@contextlib.contextmanager
def exchanged(monkeypatch, names, do):
    """While a source is collected: `do` is called when one of these names is opened after the folder was listed."""
    real = archive.layout_of

    def layout_of(*given):
        EXCHANGE.update(armed=names, do=do)
        return real(*given)

    def hangs(*_):
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(30)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(archive, "layout_of", layout_of)
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        EXCHANGE["armed"] = ""


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "link above", "run", "pipe for a run", "link above runs"])
def test_nothing_else_is_read_than_what_was_looked_at(mine, tmp_path, trained, what, monkeypatch):
    """A file or folder is exchanged for a link or a pipe after somebody has looked at it."""
    inbox, outside = tmp_path / "in", tmp_path / "outside"
    for place, content, run in ((inbox / "ada", trained, b'{"seed": 1}'), (outside, SECRET, b'{"secret": 1}')):
        (place / "results" / "x").mkdir(parents=True)
        (place / f"{RUNS}.ipynb").write_bytes(content)
        (place / "results" / "x" / "seed_1.json").write_bytes(run)
    target = {
        "link above": inbox / "ada",
        "run": inbox / "ada/results/x/seed_1.json",
        "pipe for a run": inbox / "ada/results/x/seed_1.json",
        "link above runs": inbox / "ada/results/x",
    }.get(what, inbox / "ada" / f"{RUNS}.ipynb")

    def exchange():
        target.rename(tmp_path / "moved")
        if "pipe" in what:
            os.mkfifo(target)
        elif what == "folder":
            target.mkdir()
        else:
            target.symlink_to(outside / target.relative_to(inbox / "ada"))

    name = {"link above runs": ("x", "seed_1.json"), "link above": ("ada", f"{RUNS}.ipynb")}.get(what, (target.name,))
    with exchanged(monkeypatch, name, exchange):
        result = collect.collect(mine, inbox)
    kept = b"".join(path.read_bytes() for path in mine.tree.rglob("*") if path.is_file())
    assert not target.exists() or target.is_symlink() or not target.is_file(), "it was exchanged"
    assert b"secret" not in kept and b"of the instructor" not in kept
    assert any("not followed" in line for line in result.refused), result
    assert runs_of(mine) == ([] if "run" in what else None)


@pytest.mark.parametrize("name", [f"ada/{RUNS}.ipynb", "ada/work.zip", "canvas.zip", "ada/results/x/seed_1.json"])
def test_a_pipe_in_a_folder_holds_nobody(mine, tmp_path, trained, name, monkeypatch):
    (tmp_path / "in" / name).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / "in" / name)
    (tmp_path / "in" / "bo").mkdir()
    (tmp_path / "in" / "bo" / f"{RUNS}.ipynb").write_bytes(trained)
    with exchanged(monkeypatch, (), None):
        result = collect.collect(mine, tmp_path / "in")
    assert [*submitted(mine, RUNS)] == ["bo"]
    assert [line for line in result.refused if line.startswith(name) and "not followed" in line]


def canvas(number, file):
    return f"lovelaceada_101_{number}_{file}"


MOODLE = "Ada_11_assignsubmission_file_"
RUN = {"x/seed_1.json": b'{"seed": 1}', "x/seed_2.json": b'{"seed": 2}'}
IN_RESULTS = {f"results/{name}": content for name, content in RUN.items()}
BOTH = [*RUN]


def below(folder, files):
    return {f"{folder}/{name}": content for name, content in files.items()}


# Where notebook and runs lie: the files, `NB` for the notebook; the student; the runs that belong to the notebook.
JOINED = {
    "Canvas, the notebook first": (
        {canvas(9001, f"{RUNS}.ipynb"): "NB", canvas(9002, "results.zip"): IN_RESULTS},
        "lovelaceada_101",
    ),
    "Canvas, the runs first": (
        {canvas(9001, "results.zip"): IN_RESULTS, canvas(9002, f"{RUNS}.ipynb"): "NB"},
        "lovelaceada_101",
    ),
    "Moodle, the notebook first": ({f"{MOODLE}/{RUNS}.ipynb": "NB", f"{MOODLE}/results.zip": IN_RESULTS}, "Ada"),
    "Moodle, the runs first": ({f"{MOODLE}/a.zip": IN_RESULTS, f"{MOODLE}/b{RUNS}.ipynb": "NB"}, "Ada"),
    "Moodle without folders": ({f"{MOODLE}{RUNS}.ipynb": "NB", f"{MOODLE}results.zip": IN_RESULTS}, "Ada"),
    "a zip of what is in results": ({f"ada/{RUNS}.ipynb": "NB", "ada/results.zip": RUN}, "ada"),
    "two zips of runs": (
        {
            f"ada/{RUNS}.ipynb": "NB",
            "ada/one.zip": {"x/seed_1.json": RUN["x/seed_1.json"]},
            "ada/two.zip": {"x/seed_2.json": RUN["x/seed_2.json"]},
        },
        "ada",
    ),
    "a Drive in one zip": (
        {"ada/drive.zip": {f"Colab Notebooks/{RUNS}.ipynb": "NB"} | below("attention_graded", IN_RESULTS)},
        "ada",
    ),
    "a Drive": ({f"ada/Colab Notebooks/{RUNS}.ipynb": "NB"} | below("ada/attention_graded", IN_RESULTS), "ada"),
    "another folder": ({f"ada/work/{RUNS}.ipynb": "NB"} | below("ada/my runs", RUN), "ada"),
    "no folder": ({f"ada/{RUNS}.ipynb": "NB"} | below("ada", RUN), "ada"),
    "a zip in a student's zip": ({"ada/all.zip": {f"{RUNS}.ipynb": "NB", "results.zip": IN_RESULTS}}, "ada"),
    "a notebook in a zip, runs beside it": (
        {"ada/notebook.zip": {f"{RUNS}.ipynb": "NB"}} | below("ada", IN_RESULTS),
        "ada",
    ),
    "a corrected notebook beside the first zip": (
        {f"ada/{RUNS}.ipynb": "NB", "ada/z.zip": {f"{RUNS}.ipynb": "OLD"} | IN_RESULTS},
        "ada",
    ),
}


def filled(files, notebook):
    """The files with their contents: the notebook for NB, a zip for each table."""
    contents = {"NB": notebook, "OLD": notebook.replace(b'"cells"', b' "cells"', 1)}
    found = {}
    for name, content in files.items():
        if isinstance(content, dict):
            content = zipped(filled(content, notebook))
        found[name] = contents[content] if isinstance(content, str) else content
    return found


@pytest.mark.parametrize("form", ["zip", "folder"])
@pytest.mark.parametrize("files, student", JOINED.values(), ids=JOINED)
def test_a_submissions_notebook_and_runs_are_joined(mine, tmp_path, trained, files, student, form):
    source = laid_out(tmp_path / "source", filled(files, trained), form)
    result = collect.collect(mine, source)
    assert runs_of(mine, student) == BOTH, result
    assert [*submitted(mine, RUNS)] == [student] and not result.refused
    assert not any("belong to no notebook" in note for note in result.notes)
    again = collect.collect(mine, source)
    assert runs_of(mine, student) == BOTH and not again.new


def test_what_is_collected_for_one_student_is_one_submission(mine, tmp_path, trained):
    source = laid_out(tmp_path / "source", {f"{RUNS}.ipynb": trained, "results.zip": zipped(IN_RESULTS)}, "folder")
    result = collect.collect(mine, source, whose="ada")
    assert runs_of(mine) == BOTH and not result.refused and len(result.taken) == 1


def test_the_nearest_run_of_a_name_counts_and_each_version_has_its_own(mine, tmp_path, trained):
    """Two zips with the same notebook: the runs of one are not mixed with those of the other."""
    own, other = {"results/x/seed_1.json": b'{"own": 1}'}, {"results/x/seed_2.json": b'{"other": 2}'}
    nested = {"old/results/x/seed_1.json": b'{"older": 1}'}
    files = {"ada/b.zip": {f"{RUNS}.ipynb": "NB"} | own | nested, "ada/a.zip": {f"{RUNS}.ipynb": "OLD"} | other}
    source = laid_out(tmp_path / "source", filled(files, trained), "folder")
    for name, when in (("a", 1_800_000_000), ("b", 1_800_000_100)):
        os.utime(source / "ada" / f"{name}.zip", (when, when))
    collect.collect(mine, source)
    place = submitted(mine, RUNS)["ada"].with_name("results.json")
    assert json.loads(place.read_bytes()) == {"x/seed_1.json": '{"own": 1}'}


def test_a_submission_came_when_the_last_of_its_files_did(mine, tmp_path, trained):
    (tmp_path / "in.zip").touch()
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as made:
        made.writestr(zipfile.ZipInfo(f"{MOODLE}/{RUNS}.ipynb", (2027, 3, 1, 9, 0, 0)), trained)
        made.writestr(zipfile.ZipInfo(f"{MOODLE}/results.zip", (2027, 3, 9, 9, 0, 0)), zipped(IN_RESULTS))
    collect.collect(mine.model_copy(update={"timezone": "UTC"}), tmp_path / "in.zip")
    assert submitted(mine, RUNS)["Ada"].with_name("timestamp.txt").read_text().startswith("2027-03-09 09:00")


# Runs that no notebook can have: the files, and what is said of them.
LEFT = {
    "runs alone": ({"ada/results.zip": IN_RESULTS, f"bo/{RUNS}.ipynb": "NB"}, "ada/results.zip: 2 runs belong to no"),
    "runs beside a notebook without experiments": (
        {f"ada/{NAME}.ipynb": "01"} | below("ada", IN_RESULTS),
        "ada/results: 2 runs belong to no notebook",
    ),
    "a run without its folder": (
        {f"ada/{RUNS}.ipynb": "NB", "ada/seed_1.json": b"{}"},
        "ada/seed_1.json: a run without the folder of its experiment",
    ),
}


@pytest.mark.parametrize("form", ["zip", "folder"])
@pytest.mark.parametrize("files, told", LEFT.values(), ids=LEFT)
def test_runs_that_belong_to_no_notebook_are_reported(mine, tmp_path, text, trained, files, told, form):
    files = {name: text if content == "01" else content for name, content in files.items()}
    result = collect.collect(mine, laid_out(tmp_path / "source", filled(files, trained), form))
    assert [line for line in (*result.notes, *result.refused) if line.startswith(told)], result


@pytest.mark.parametrize("form", ["zip", "folder"])
def test_a_folder_of_runs_that_is_a_link_is_reported(mine, tmp_path, trained, form):
    source = laid_out(tmp_path / "source", {f"ada/{RUNS}.ipynb": trained}, form)
    if form == "zip":
        link = zipfile.ZipInfo("ada/results")
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(source, "a") as made:
            made.writestr(link, "/content/drive/MyDrive/attention_graded/results")
    else:
        (tmp_path / "kept" / "x").mkdir(parents=True)
        (tmp_path / "kept" / "x" / "seed_1.json").write_text("{}")
        (source / "ada" / "results").symlink_to(tmp_path / "kept")
    result = collect.collect(mine, source)
    assert runs_of(mine) == [] and [line for line in result.refused if line.startswith("ada/results: a link")]


def test_runs_beyond_what_a_submission_may_hold_leave_whole_experiments(mine, tmp_path, trained):
    """Those of the notebook's own experiments come first."""
    own = mine.notebook(RUNS).experiments_of("cpu")["pretrained"].folder("").name
    many = {f"a{n}/seed_{seed}.json": b" " * 2**20 for n in range(3) for seed in range(3)}
    files = {f"ada/{RUNS}.ipynb": trained} | below("ada/results", many | {f"{own}/seed_1.json": b"{}"})
    result = collect.collect(mine, laid_out(tmp_path / "source", files, "zip"))
    names = [f"a{n}/seed_{seed}.json" for n in range(2) for seed in range(3)]
    assert sorted(runs_of(mine)) == sorted([*names, f"{own}/seed_1.json"])
    assert any("ada/results/a2: more than 8 MB of runs" in line for line in result.refused)


# Copies that nobody hands in, newer than the notebook itself; and what is said of them.
COPIES = {
    ".virtual_documents": (f"ada/.virtual_documents/{NAME}.ipynb", ".virtual_documents"),
    "a trash": (f"ada/.Trash-1000/files/{NAME}.ipynb", ".Trash-1000"),
    "a file that is being written": (f"ada/.~{NAME}.ipynb", f".~{NAME}.ipynb"),
    "a file of git": (f"ada/.git/{NAME}.ipynb", ""),
    "a checkpoint": (f"ada/.ipynb_checkpoints/{NAME}-checkpoint.ipynb", ""),
    "Dropbox": (f"ada/{NAME} (Ada's conflicted copy 2027-01-05).ipynb", "a conflicted copy"),
    "Nextcloud": (f"ada/{NAME} (conflicted copy 2027-01-05 101112).ipynb", "a conflicted copy"),
    "Syncthing": (f"ada/{NAME}.sync-conflict-20270105-101112-ABCDEFG.ipynb", "a conflicted copy"),
}


@pytest.mark.parametrize("form", ["zip", "folder", "student's zip"])
@pytest.mark.parametrize("copy, told", COPIES.values(), ids=COPIES)
def test_hidden_and_conflicted_copies_are_left_out(mine, tmp_path, text, copy, told, form):
    files = {f"ada/{NAME}.ipynb": text, copy: text + b" "}
    if form == "student's zip":
        files = {"ada/work.zip": zipped({name.removeprefix("ada/"): content for name, content in files.items()})}
    source = laid_out(tmp_path / "source", files, "zip" if form == "zip" else "folder")
    for path in source.rglob("*") if form == "folder" else ():
        when = 1_800_000_000 + 1000 * (path.name != f"{NAME}.ipynb" or path.parent.name != "ada")
        os.utime(path, (when, when))
    result = collect.collect(mine, source)
    assert submitted(mine)["ada"].read_bytes() == text and len(result.taken) == 1
    assert not result.refused and not any("taken as theirs" in note for note in result.notes)
    left_out = [note for note in result.notes if "left out" in note]
    assert [note for note in left_out if told in note] if told else not left_out


def test_a_conflicted_copy_alone_is_taken(mine, tmp_path, text):
    files = {f"ada_{NAME} (conflicted copy 2027-01-05).ipynb": text, f"bo_{NAME}.ipynb": text}
    result = collect.collect(mine, laid_out(tmp_path / "source", files, "folder"))
    assert sorted(submitted(mine)) == ["ada", "bo"] and not result.refused


def test_a_platforms_name_that_begins_with_a_dot_hides_nothing(mine, tmp_path, text):
    files = {f"{name}_assignsubmission_file_/{NAME}.ipynb": text for name in (".Net Ada_11", "Bo_12")}
    for form in ("zip", "folder"):
        result = collect.collect(mine, laid_out(tmp_path / "source", files, form))
        assert sorted(submitted(mine)) == ["Bo", "Net_Ada"] and not result.refused


def test_what_is_refused_as_a_second_is_not_taken_as_theirs(mine, tmp_path, text):
    files = {"ada/work.zip": zipped({f"{NAME}.ipynb": text, f"old/{NAME}.ipynb": text + b" "})}
    result = collect.collect(mine, laid_out(tmp_path / "source", files, "zip"))
    assert submitted(mine)["ada"].read_bytes() == text
    assert len(result.refused) == 1 and "a second" in result.refused[0]
    assert not any("taken as theirs" in note for note in result.notes)


# Files that are not what their names say: the name, the content as made of the notebook, whether it is taken, and why.
WRITTEN = {
    "another suffix": ("ada/{}.ipynb.json", lambda text: text, True, ""),
    "a text": ("ada/{}.ipynb.txt", lambda text: text, True, ""),
    "JSON": ("ada/{}.json", lambda text: text, True, ""),
    "UTF-16": ("ada/{}.ipynb", lambda text: text.decode().encode("utf-16"), True, "saved in UTF-16"),
    "UTF-16 without a mark": ("ada/{}.ipynb", lambda text: text.decode().encode("utf-16-le"), True, "saved in UTF-16"),
    "a mark of UTF-8": ("ada/{}.ipynb", lambda text: b"\xef\xbb\xbf" + text, True, ""),
    "a merge": (
        "ada/{}.ipynb",
        lambda text: text.replace(b'"cells"', b'\n<<<<<<< HEAD\n"cells"', 1),
        True,
        "conflict markers of git",
    ),
    "a PDF": ("ada/{}.ipynb", lambda text: b"%PDF-1.7", True, "it is a PDF file"),
    "a page": ("ada/{}.ipynb", lambda text: b"<!DOCTYPE html><html>", True, "it is a web page"),
    "nothing": ("ada/{}.ipynb", lambda text: b"", True, "it is empty"),
    "RAR": ("ada/{}.rar", lambda text: b"Rar!", False, "an archive, but not a zip; unpack it, and collect it"),
    "a tarball": ("ada/work.tar.gz", lambda text: b"\x1f\x8b", False, "an archive, but not a zip; unpack it"),
    "a script": ("ada/{}.py", lambda text: b"import math", False, "not a notebook; ask for the .ipynb file"),
    "a note": ("ada/{}.txt", lambda text: b"I could not finish", False, "not a notebook; ask for the .ipynb file"),
    "a table": ("ada/{}.json", lambda text: b'{"cells": []}', False, "not a notebook; ask for the .ipynb file"),
}


@pytest.mark.parametrize("form", ["zip", "folder"])
@pytest.mark.parametrize("name, made, taken, told", WRITTEN.values(), ids=WRITTEN)
def test_a_file_is_read_or_a_sentence_says_what_it_is(mine, tmp_path, text, name, made, taken, told, form):
    result = collect.collect(mine, laid_out(tmp_path / "source", {name.format(NAME): made(text)}, form))
    assert [*submitted(mine)] == ["ada"] * taken, result
    lines = [*result.notes, *result.refused]
    assert [line for line in lines if told in line] if told else not lines, result
    if taken and not told.startswith(("it is", "conflict")):
        assert json.loads(submitted(mine)["ada"].read_bytes().removeprefix(b"\xef\xbb\xbf")) == json.loads(text)


def test_a_name_with_another_suffix_says_whose_it_is(mine, tmp_path, text):
    files = {f"ada_{NAME}.ipynb.txt": text, f"bo_{NAME}.json": text}
    result = collect.collect(mine, laid_out(tmp_path / "source", files, "folder"))
    assert sorted(submitted(mine)) == ["ada", "bo"] and not result.refused
    files = {f"lovelaceada_101_9001_{NAME}.ipynb.txt": text, f"bergbo_102_9002_{NAME}.ipynb": text}
    collect.collect(mine, laid_out(tmp_path / "other", files, "zip"))
    assert {"lovelaceada_101", "bergbo_102"} <= {*submitted(mine)}


@pytest.fixture(scope="module")
def answered():
    """Notebooks of the first and the fifth, with one answer each, and as they were released."""
    known, found = course.load(), {}
    for name in (NAME, RUNS):
        book = build.student_notebook(known, known.notebook(name))
        found[name, "blank"] = build.write(book).encode()
        cell = next(cell for cell in book.cells if role_of(cell.id) is CellRole.EXERCISE)
        cell.source = "def answer():\n    return 1"
        found[name, "answered"] = build.write(book).encode()
    return found


def saved_again(text):
    """A notebook as Jupyter saves it after it was run: with outputs, counts, a name, and metadata of its own."""
    book = json.loads(text)
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = 3, [{"output_type": "stream", "name": "stdout", "text": "ran"}]
            cell["source"] = "".join(cell["source"]).replace('STUDENT = ""', 'STUDENT = "Ada Lovelace"')
    book["metadata"]["kernelspec"] = {"display_name": "Other", "language": "python", "name": "other"}
    return json.dumps(book).encode()


def dated(source, when):
    for path in source.rglob("*"):
        os.utime(path, (when, when))


# Files of a student, with their days; the notebook that counts of each, None for none.
BLANK = {
    "a whole folder as a zip, later": (
        [{f"ada/{NAME}.ipynb": "answered"}, {"ada/work.zip": {f"{NAME}.ipynb": "blank", f"{RUNS}.ipynb": "blank"}}],
        {NAME: "answered", RUNS: None},
    ),
    "saved again without an answer": (
        [{f"ada/{NAME}.ipynb": "answered"}, {f"ada/{NAME}.ipynb": "saved"}],
        {NAME: "answered"},
    ),
    "the release alone": ([{f"ada/{NAME}.ipynb": "blank", f"ada/{RUNS}.ipynb": "saved"}], {NAME: None, RUNS: None}),
    "a cloned release beside it": (
        [{f"ada/{NAME}.ipynb": "answered", f"ada/student-repository/notebooks/{NAME}.ipynb": "blank"}],
        {NAME: "answered"},
    ),
    "a blank one on top of a zip": (
        [{"ada/work.zip": {f"{NAME}.ipynb": "blank", f"mine/{NAME}.ipynb": "answered"}}],
        {NAME: "answered"},
    ),
    "blank with runs": ([{f"ada/{RUNS}.ipynb": "blank"} | below("ada", IN_RESULTS)], {RUNS: "blank"}),
    "blank with runs after an answered one": (
        [{f"ada/{RUNS}.ipynb": "answered"}, {f"ada/{RUNS}.ipynb": "blank"} | below("ada", IN_RESULTS)],
        {RUNS: "answered"},
    ),
    "blank with runs before an earlier answered one": (
        [{f"ada/{RUNS}.ipynb": "blank"} | below("ada", IN_RESULTS), {f"ada/{RUNS}.ipynb": "answered"}, -1],
        {RUNS: "answered"},
    ),
}


@pytest.mark.parametrize("steps, counts", BLANK.values(), ids=BLANK)
def test_what_equals_the_release_replaces_nothing(mine, tmp_path, answered, steps, counts):
    for name in (NAME, RUNS):
        course_tree.write(course_tree.place(mine, "release", mine.notebook(name)), answered[name, "blank"])
    backwards = -1 if steps[-1] == -1 else 1
    for day, files in enumerate(one for one in steps if one != -1):
        made = {}
        for name, content in files.items():
            inside = content if isinstance(content, dict) else {name: content}
            filled_in = {}
            for path, kind in inside.items():
                notebook = NAME if NAME in path else RUNS
                text = answered[notebook, "blank" if kind == "saved" else kind] if isinstance(kind, str) else kind
                filled_in[path] = saved_again(text) if kind == "saved" else text
            made |= {name: zipped(filled_in)} if isinstance(content, dict) else filled_in
        source = laid_out(tmp_path / str(day), made, "folder")
        dated(source, 1_800_000_000 + backwards * 86_400 * day)
        result = collect.collect(mine, source)
        assert not result.refused
    for name, kind in counts.items():
        there = submitted(mine, name)
        assert {student: path.read_bytes() for student, path in there.items()} == (
            {"ada": answered[name, kind]} if kind else {}
        ), result
    if len(steps) < 3 and "blank" not in counts.values():
        assert [note for note in result.notes if note.startswith("ada: ") and "as they were released" in note], result


@pytest.mark.parametrize("head", ["sep=;\r\n", '"sep=;"\n', "SEP=;\n", ""])
def test_a_line_that_names_the_separator_is_not_the_heading(mine, text, tmp_path, head):
    mine.tree.mkdir()
    listed = mine.tree / "students.csv"
    listed.write_text(head + "id;first_name;last_name\nal01;Ada;Lovelace\n")
    source = laid_out(tmp_path / "source", {f"Ada Lovelace/{NAME}.ipynb": text}, "folder")
    assert not collect.collect(mine, source).refused and [*submitted(mine)] == ["al01"]
    extensions.grant(mine, "al01", mine.notebook(NAME), "3 days")
    given = mine.tree / "extensions.csv"
    given.write_text(head + given.read_text().replace(",", ";"))
    assert [*extensions.extensions(mine)] == [("al01", NAME)]
    extensions.grant(mine, "al01", mine.notebook(NAME), "4 days")
    assert [*extensions.extensions(mine).values()] == [datetime.timedelta(days=4)]


@pytest.mark.parametrize("row", ["2.01912E+11,Ada,Lovelace,", "ada,Ada,Lovelace,2,", "ada,Ada,Lovelace,2.01912e+11"])
def test_an_id_that_a_spreadsheet_has_rounded_is_refused(mine, text, tmp_path, row):
    mine.tree.mkdir()
    (mine.tree / "students.csv").write_text(f"id,first_name,last_name,platform_ids\n{row}\n")
    source = laid_out(tmp_path / "source", {f"Ada Lovelace/{NAME}.ipynb": text}, "folder")
    if "+11" not in row:
        assert collect.collect(mine, source).taken
        return
    with pytest.raises(course.CourseError, match=r"line 2: a spreadsheet has rounded a number to 2\.01912"):
        collect.collect(mine, source)


def test_two_students_of_one_collect_are_refused(mine, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.context, "load", lambda: mine)
    ended = CliRunner().invoke(cli.app, ["collect", str(tmp_path), "--student", "ada", "--student", "bo"])
    assert ended.exit_code == 1 and "collect takes one --student" in str(ended.exception)


def test_nothing_is_collected_into_a_tree_that_was_never_built(mine, tmp_path, monkeypatch):
    elsewhere = mine.model_copy(update={"tree": tmp_path / "mistyped"})
    monkeypatch.setattr(cli.context, "load", lambda: elsewhere)
    ended = CliRunner().invoke(cli.app, ["collect", str(tmp_path)])
    assert ended.exit_code == 1 and f"there is no course tree in {elsewhere.tree}: run `autograder build`" in str(
        ended.exception
    )
    assert not elsewhere.tree.exists()


def large(text, megabytes):
    """A notebook with so many MB of outputs, some in pictures and some as text, and the state of widgets."""
    book = json.loads(text)
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    picture = {"output_type": "display_data", "data": {"image/png": "A" * (megabytes << 19)}, "metadata": {}}
    cells[0]["outputs"] = [picture, {"output_type": "stream", "name": "stdout", "text": "small"}]
    cells[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x" * (megabytes << 18)]}]
    book["metadata"]["widgets"] = {"state": "y" * (megabytes << 18)}
    return json.dumps(book).encode()


def test_outputs_are_not_counted(mine, tmp_path, text, monkeypatch, capsys):
    """What `pack` lets pass is graded: both leave large outputs out."""
    whole = large(text, 25)
    assert len(whole) > 25 * 2**20
    result = collect.collect(mine, laid_out(tmp_path / "source", {f"ada/{NAME}.ipynb": whole}, "zip"))
    kept = submitted(mine)["ada"].read_bytes()
    assert any("its outputs of 25 MB are left out" in note for note in result.notes) and len(kept) < 2**20
    cells = restore.read(kept, mine.limits.notebook_mb).cells
    assert [cell.source for cell in cells] == [cell.source for cell in restore.read(text, 20).cells]
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    (tmp_path / "desk" / f"{NAME}.ipynb").write_bytes(whole)
    packed = hand_in.pack(NAME)
    assert "25 MB of outputs are left out" in capsys.readouterr().out and packed.stat().st_size < 2**20
    with zipfile.ZipFile(packed) as made:
        assert json.loads(made.read(f"{NAME}.ipynb"))["cells"] == json.loads(kept)["cells"]


@pytest.mark.parametrize("year", [1970, 2150, 2201, 9998])
def test_a_files_time_is_its_writers_and_breaks_nothing(mine, tmp_path, text, year, monkeypatch):
    """docs/scores.md says so: nobody is late by a time of 1970; one that cannot be is the time of collecting."""
    source = laid_out(tmp_path / "source", {f"ada/{NAME}.ipynb": text, f"bo/{NAME}.ipynb": text}, "folder")
    when, real = int(datetime.datetime(year, 2, 3, tzinfo=datetime.UTC).timestamp()), os.fstat

    def fstat(handle):
        found, where = real(handle), os.readlink(f"/proc/self/fd/{handle}")
        return os.stat_result([*found[:8], when, found[9]]) if "/ada/" in where and "/in/" in where else found

    monkeypatch.setattr(os, "fstat", fstat)  # not every file system keeps such a time
    result = collect.collect(mine, source)
    assert len(result.taken) == 2 and len(result.refused) == (year > 2199)
    entry = mine.notebook(NAME)
    times = [course_tree.stamped(mine, entry, student) for student in ("ada", "bo")]
    assert (times[0].year == year) is (year < 2200)
    assert "<svg" in charts.time_line(times, entry.deadline, datetime.UTC)


def test_the_class_report_shows_a_time_of_the_last_year_that_there_is():
    last = datetime.datetime(9999, 12, 31, 23, 59, tzinfo=datetime.UTC)
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    assert "9999-12-31" in charts.time_line([first, last], None, datetime.UTC)


@pytest.mark.parametrize(
    "zone, shown", [("", "2027-03-01 09:00 UTC"), ("Europe/Berlin", "2027-03-01 10:00 (Europe/Berlin)")]
)
def test_times_are_told_in_the_courses_zone(mine, tmp_path, zone, shown):
    mine = mine.model_copy(update={"timezone": zone})
    for hour, text in ((9, b'{"a": 1}'), (8, b'{"b": 1}')):
        source = laid_out(tmp_path / str(hour), {f"ada/{NAME}.ipynb": text}, "folder")
        when = datetime.datetime(2027, 3, 1, hour, tzinfo=datetime.UTC).timestamp()
        os.utime(source / "ada" / f"{NAME}.ipynb", (when, when))
        result = collect.collect(mine, source)
    assert len(result.taken) == 1 and f"does NOT count: the one of {shown} came later" in result.taken[0]
