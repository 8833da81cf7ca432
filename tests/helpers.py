"""What several test files call: courses with trees of their own, results known beforehand, and what a run leaves."""

import contextlib
import copy
import dataclasses
import datetime
import functools
import importlib.util
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request

import nbformat
import sqlalchemy
from waiting import eventually

from autograder import course, synthetic
from autograder.cells import CellRole, cell_id
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import fingerprints, grade
from autograder.grading.grading_record import GRADED, GradedVerdict, Record, jobs
from autograder.intake import restore
from utils.experiments import student
from utils.experiments.experiment import dumps, parse, path_of, read_files, write
from utils.experiments.runs import RECORDED_SEEDS, load_table
from utils.grading.verdict import Outcome

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"),
]
TIMES = ("seconds", "slowest_cell", "graded_at")
MARKS = """
select submitted_assignment.student_id, submitted_assignment.timestamp, submitted_notebook.late_submission_penalty,
       submitted_notebook.flagged,
       base_cell.name, grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade
from grade join base_cell on grade.cell_id = base_cell.id
join submitted_notebook on grade.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
"""
COMMENTS = """
select submitted_assignment.student_id, base_cell.name, comment.auto_comment, comment.manual_comment
from comment join base_cell on comment.cell_id = base_cell.id
join submitted_notebook on comment.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
"""


def keep_runs(entry, results, name, trained):
    """Put runs of somebody of this `name` into the folder `results`, all but those of the first `trained` seeds.

    They are the made-up class's, really trained with other seeds: what is asked of them here depends on none. Of each
    experiment of the size smoke: its seeds, and the files with what is in them.
    """
    seeds, kept = student.seeds_of(name, "", len(RECORDED_SEEDS)), []
    for experiment, runs in synthetic.runs_of(entry):
        files = {}
        for seed, run in zip(seeds[trained:], runs, strict=False):
            path = path_of(experiment, seed, results)
            write(dataclasses.replace(run, seed=seed, student=name), path)
            files[path] = path.read_bytes()
        kept.append((experiment, seeds, files))
    return kept


def built_tree(folder, notebooks):
    """A course of the first so many notebooks, with quick limits and its tree built below `folder`."""
    known = course.load(tree=folder / "tree")
    limits = known.limits.model_copy(update={"cell_seconds": 5.0, "memory_mb": 1024})
    grading = known.grading.model_copy(update={"results_profiles": ("smoke",)})
    known = known.model_copy(update={"limits": limits, "grading": grading, "notebooks": known.notebooks[:notebooks]})
    course_tree.build_tree(known)
    return known


def copied(known, folder):
    """The same course with a tree of its own below `folder`."""
    shutil.copytree(known.tree, folder / "tree")
    known = known.model_copy(update={"tree": folder / "tree"})
    course_tree.build_tree(known)  # its configuration names the folder
    return known


def plain(value):
    """A value as every database would show it."""
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    return str(int(value) if isinstance(value, bool) else value)


def outcome(known):
    """All that a run leaves, but for times and random row ids: gradebook, verdicts, graded notebooks."""
    engine = sqlalchemy.create_engine(course_tree.database(known))
    with engine.connect() as connection:
        rows = [
            sorted(" ".join(map(plain, row)) for row in connection.execute(sqlalchemy.text(query)))
            for query in (MARKS, COMMENTS, "select * from student", "select name from assignment")
        ]
    engine.dispose()
    verdicts = {}
    for path in known.tree.glob("verdicts/**/*"):
        if path.is_file():
            stated = json.loads(path.read_text())
            for part in (stated, *stated["verdicts"]):
                for name in TIMES:
                    part.pop(name, None)
            verdicts[str(path.relative_to(known.tree))] = json.dumps(stated, indent=1)
    graded = {
        str(path.relative_to(known.tree)): path.read_bytes()
        for path in known.tree.glob("autograded/**/*")
        if path.is_file()
    }
    return rows, verdicts, graded


def canned(known, student="ada", solved=None):
    """A job and its result, as a worker would answer: full marks."""
    (entry,) = known.notebooks
    text = synthetic.Maker(known, entry).file(solved=solved)
    place = course_tree.place(known, "submitted", entry, student)
    course_tree.write(place, text)
    course_tree.write(place.with_name("timestamp.txt"), "2028-02-01 12:00:00.000000 UTC")
    (job,) = jobs(known, entry, [student])
    notebook, _ = restore.restore(restore.read(text, 20), fingerprints.released(job.release))
    done = Record(student, entry.name, GRADED)
    for number, points in course_tree.exercises(known, entry).items():
        cell = next(cell for cell in notebook.cells if cell.id == cell_id(CellRole.CHECK, number))
        cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": f"{points:g}"})]
        done.verdicts.append(GradedVerdict(number, points, Outcome.PASSED))
    return job, done, nbformat.writes(notebook)


def files_of(folder, experiment):
    """The files of one experiment's runs in a folder of results, by path below it."""
    name = experiment.folder("").name
    return {file: text for file, text in read_files(folder).items() if file.split("/")[0] == name}


def whole_runs(module, *notebook):
    """The course's own runs with their predictions, by name; `module.recorded` has summaries of them."""
    return {name: [*runs] for name, runs in _whole_runs(module, notebook, module.RECORDED).items()}


@functools.cache  # they are megabytes of numbers, each checked as it is read, and a dozen tests ask for the same ones
def _whole_runs(module, notebook, folder):
    return load_table(module.experiments(*notebook, profile="cpu"), folder)


def changed(files, name, **changes):
    """The files of runs, with another content of one of them and a right digest."""
    return files | {name: dumps(dataclasses.replace(parse(files[name]), **changes)).encode()}


def keep(known, job, done, notebook):
    with gradebook_writer.open_recorder(known) as recorder:
        grade.keep(known, recorder, job, copy.deepcopy(done), notebook)


@contextlib.contextmanager
def jupyter(module, folder, *options, env=None, log=None):
    """A server of Jupyter (`jupyterlab`, `jupyter_server`) that runs in `folder`, once it answers; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", module, "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", *options]
    written = (log or folder) / "log"
    with written.open("w") as output:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"

    def answers():
        assert server.poll() is None, written.read_text()
        try:
            return urllib.request.urlopen(f"{address}/api/status", timeout=5)
        except OSError:
            return None

    try:
        eventually(answers, 120).close()
        yield address
    finally:
        server.terminate()
        server.wait()


def formgrader(folder):
    """A Jupyter server with formgrader, as an instructor starts it in the course tree; its address."""
    extensions = "{'nbgrader.server_extensions.formgrader': True}"
    options = ("--config=jupyter_server_config.py", f"--ServerApp.jpserver_extensions={extensions}")
    return jupyter("jupyter_server", folder, *options)


@contextlib.contextmanager
def process_stderr():
    """What this process and those that it starts write to stderr meanwhile, libraries included, as an io.StringIO."""
    written = io.StringIO()
    with tempfile.TemporaryFile("w+") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield written
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            written.write(file.read())


def script(path):
    """A script of the project, such as `solutions/05_seed_variance/search.py`, as a module."""
    place, spec = [*sys.path], importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = place  # it puts the root there, for the command line
    return module
