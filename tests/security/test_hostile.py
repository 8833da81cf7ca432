"""Every way known to fool, break or harm a grader, as submissions of one class: see tests/security/hostile/.

Each is a cell of a file there, marked with its `name` and the idea behind the `attack`:

    where="before"  a cell before the first answer (the default); "each" after each answer, whose names
                    are in NAMES; "first" after the first; "last" at the end
    where="file"    changes the `notebook` before it is handed in; "raw" its `text`; "zip" what lies beside
    book="03"       the notebook; base="right": what its answers are otherwise
    shows, told     expressions that its outputs and its record must match: the trick was played, and was refused
    twin=false      its verdicts are worded in another way than those of the same answers without the trick
    fools=true      where the verdict is reached in the student's kernel, the trick is worth points
"""

import csv
import datetime
import hashlib
import html.parser
import io
import os
import re
import secrets
import socket
import sys
import sysconfig
import threading
import time
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder import course, synthetic
from autograder.author import build, release
from autograder.author.answers import preamble
from autograder.cells import CellRole, cell_id, role_of
from autograder.gradebook import course_tree, roster
from autograder.grading import grade
from autograder.grading.grading_record import GRADED, RECORD
from autograder.intake import collect
from autograder.reports import feedback, report
from autograder.sandbox import kernel
from utils.grading.verdict import Outcome

FOLDER = Path(__file__).parent / "hostile"
BOOKS = ("01", "02", "03")
LIMITS = {"cell_seconds": 4.0, "notebook_seconds": 60.0, "memory_mb": 1024, "processes": 64}
LIMITS |= {"file_mb": 8, "disk_mb": 32, "output_kb": 64, "notebook_mb": 4.0}
WHEN = (2026, 11, 20, 12, 0, 0)  # when the learning platform took them all
CANARY = "CANARY-"
SEARCH = """
import hashlib
CANARY, FOUND, LINES = "CANA" + "RY-", [], {LINES}
def secrets_in(text, where):
    found = [where + ": canary"] if __import__("re").search(CANARY + "[0-9a-f]{{8}}", text) else []
    lines = {{" ".join(line.split()).lstrip("#+- ") for line in text.splitlines()}}
    return found + [where for line in lines if hashlib.sha256(line.encode()).hexdigest()[:16] in LINES]
"""
# What is known of how graders are fooled, broken or unfair.
IDEAS = {
    "verdict": (
        *(
            "exceptions hidden by IPython hooks",
            "test cells rewritten by transformers",
            "test cells skipped by metadata",
        ),
        *("results displayed before the failure", "objects that compare equal to everything"),
        *("the comparison library patched", "the checker's bookkeeping patched"),
        *("references of the checks", "helpers of the checks patched", "forbidden functions in disguise"),
    ),
    "secrets": (
        *("tests or solutions on disk", "tests or solutions in memory", "tests or solutions in stack frames"),
        *("secrets in input history", "secrets in the environment and in /proc", "secrets in the feedback", "network"),
    ),
    "files": (
        *("modules that shadow the library's", "start-up files that survive into the next kernel", "zip bombs"),
        *("symlinks that copy the gradebook into feedback", "forged time stamps", "files beside the notebook"),
        *("a neighbour's name", "files outside the sandbox"),
    ),
    "evaluation": ("pickles, logs, result files", "logs", "notebook metadata"),
    "resources": (
        *("endless loops", "endless loops that ignore interrupts", "memory", "forks", "disk", "output on one line"),
        *("background processes that outlive grading", "a dead kernel", "privileges"),
    ),
    "reports": ("HTML and scripts in outputs",),
    "honest": (
        *("warnings", "a copied cell", "a lost cell id", "a renamed notebook", "a dead kernel in the last cell"),
        *("a score type nobody expected", "a test that depends on a variable they reused"),
    ),
}


class Attack:
    """One hostile, or honest, submission."""

    def __init__(self, section, cell, book):
        marks = dict(cell.metadata)
        self.section, self.book, self.source = section, book, cell.source
        self.name, self.idea = marks["name"], marks["attack"]
        self.where, self.base = marks.get("where", "before"), marks.get("base", "wrong")
        self.right = section == "honest"
        if self.right:
            self.base = "right"
        self.shows, self.told = marks.get("shows", ""), marks.get("told", "")
        if self.where == "before" and not self.shows and "TRICK done" in self.source:
            self.shows = "TRICK done"
        self.twin = marks.get("twin", True) and not marks.get("replaces", False) and self.base == "wrong"
        self.fools, self.own = marks.get("fools", False), marks.get("own", False)
        self.raw, self.replaces = marks.get("raw", False) is True and self.where == "zip", marks.get("replaces", False)
        self.student = roster.slug(f"{section} {self.name} {book}")
        assert set(marks) <= {
            *("name", "attack", "where", "book", "base", "shows", "told", "twin", "fools", "own", "raw", "replaces")
        }, marks


def attacks():
    for section in IDEAS:
        for cell in build.parts(FOLDER / f"{section}.py"):
            if cell.cell_type == "code" and "name" in cell.metadata:
                for book in cell.metadata.get("book", "02").split(","):
                    yield Attack(section, cell, book)


ATTACKS = list(attacks())
HOSTILE = [one for one in ATTACKS if not one.right]


def named(found):
    return [pytest.param(one, id=one.student) for one in found]


class World:
    """A class of hostile submissions, two honest neighbours a notebook, and twins: the same answers without a trick."""

    def __init__(self, folder):
        self.folder = folder
        known = course.load(tree=folder / "tree")
        limits = known.limits.model_copy(update=LIMITS)
        entries = tuple(known.notebook(book) for book in BOOKS)
        self.course = known.model_copy(update={"limits": limits, "notebooks": entries})
        self.makers = {entry.number: synthetic.Maker(self.course, entry) for entry in entries}
        self.wrong = {
            book: {number: next(case.source for case in maker.cases if wrong(case, number)) for number in maker.points}
            for book, maker in self.makers.items()
        }
        self.secret = sorted(release.secret_lines(self.course))
        self.canaries = [f"{CANARY}{secrets.token_hex(4)}" for _ in range(4)]
        self.token = f"hostile-{secrets.token_hex(4)}"
        self.seconds = str(80_000 + secrets.randbelow(10_000))
        self.knocks = []

    def listen(self):
        """Sockets that somebody in a sandbox might reach; those that do are in `knocks`."""
        self.sockets = [socket.socket(family) for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX)]
        self.sockets[0].bind(("127.0.0.1", 0))
        self.sockets[1].bind(str(self.folder / "socket"))
        self.sockets[2].bind(f"\0{self.token}")
        for one in self.sockets:
            one.listen()
            threading.Thread(target=self._hear, args=(one,), daemon=True).start()

    def _hear(self, one):
        try:
            self.knocks.append(str(one.accept()))
        except OSError:
            return

    def filled(self, attack, exercise="", number=0):
        """The source of an attack with what it has to know of this world."""
        entry = self.course.notebook(attack.book)
        names = self.checks(attack.book)[exercise].names if exercise else ()
        words = {"NAMES": repr([*names]), "NUMBER": str(number), "BOOK": entry.name, "TREE": str(self.course.tree)}
        words |= {"PROJECT": str(course.ROOT), "PORT": str(self.sockets[0].getsockname()[1]), "TOKEN": self.token}
        words |= {"SOCKET": str(self.folder / "socket"), "ABSTRACT": self.token, "GRADER": str(os.getpid())}
        words |= {"NEIGHBOUR": f"honest-{attack.book}", "SECONDS": self.seconds, "STUDENT": attack.student}
        words |= {"PREFIXES": repr((sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")))}
        words |= {"DEEP": "+".join("1" * 40_000) if "DEEP" in attack.source else ""}
        source = re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: words[found.group()], attack.source)
        if attack.section == "secrets":
            given = set().union(*(release.release_lines(answer) for answer in self.wrong[attack.book].values()))
            public = (course.ROOT / folder for folder in ("utils", "data"))  # idioms that stand there too, are none
            given |= set().union(*(release.lines_of(path) for folder in public for path in folder.rglob("*.py")))
            known = {line for line in self.secret if len(line) > 40} - given  # its own answers are no find
            lines = {hashlib.sha256(line.encode()).hexdigest()[:16] for line in known}
            source = SEARCH.format(LINES=lines) + source
        return source

    def checks(self, book):
        from autograder.author.checks import public_checks

        return public_checks(self.course.notebook(book))

    def answers(self, book, base):
        return self.makers[book].reference if base == "right" else self.wrong[book]

    def file(self, attack):
        """The notebook that an attack hands in."""
        maker = self.makers[attack.book]
        given = dict(self.answers(attack.book, attack.base))
        for number, exercise in enumerate(given):
            if attack.where == "each" or (attack.where == "first" and number == 0):
                given[exercise] += f"\n\n{self.filled(attack, exercise, number)}\n"

        def change(notebook):
            cell = nbformat.v4.new_code_cell(self.filled(attack))
            if attack.where == "before":
                first = next(index for index, one in enumerate(notebook.cells) if role_of(one.id) is CellRole.EXERCISE)
                notebook.cells.insert(first, cell)
            elif attack.where == "last":
                notebook.cells.append(cell)
            elif attack.where == "file":
                exec(cell.source, {"notebook": notebook, "nbformat": nbformat})

        file = maker.file(given, (), change)
        if attack.where == "raw":
            scope = {"text": file}
            exec(self.filled(attack), scope)
            file = scope["text"]
        return file

    def hand_in(self, archive, attack):
        """Put an attack into the zip of the class."""
        file, entry = self.file(attack), self.course.notebook(attack.book)
        inner = {}

        def add(name, content, mode=0o100644, when=WHEN, raw=False):
            member = zipfile.ZipInfo(name if raw or attack.own else f"{attack.student}/{name}", when)
            member.external_attr = mode << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            if attack.own:
                inner[member] = content
            else:
                archive.writestr(member, content)

        if not (attack.replaces or attack.raw):
            archive.writestr(zipfile.ZipInfo(f"{attack.student}/{entry.name}.ipynb", WHEN), file)
        if attack.where == "zip":
            exec(self.filled(attack), {"add": add, "packed": packed, "file": file})
        elif attack.replaces:
            archive.writestr(zipfile.ZipInfo(f"{attack.student}/{entry.name}.ipynb", WHEN), file)
        if attack.own:
            archive.writestr(zipfile.ZipInfo(f"{attack.student}/handin.zip", WHEN), packed(inner))

    def play(self):
        """Collect and grade them all; write all pages."""
        course_tree.build_tree(self.course)
        (self.folder / "secret.txt").write_text(self.canaries[0])
        (self.course.tree / "secret.txt").write_text(self.canaries[1])
        for entry in self.course.notebooks:
            path = self.folder / f"{entry.name}.zip"
            with zipfile.ZipFile(path, "w") as archive:
                maker, book = self.makers[entry.number], entry.number
                mine = [cell for cell in (nbformat.v4.new_markdown_cell(self.canaries[2]),)]
                honest = maker.file(change=lambda notebook, mine=mine: notebook.cells.extend(mine))
                archive.writestr(zipfile.ZipInfo(f"honest-{book}/{entry.name}.ipynb", WHEN), honest)
                wrong = maker.file(self.wrong[book], ())
                archive.writestr(zipfile.ZipInfo(f"wrong-{book}/{entry.name}.ipynb", WHEN), wrong)
                for attack in ATTACKS:
                    if attack.book == book:
                        self.hand_in(archive, attack)
        self.before = self.footprint()
        self.collected = collect.Collected()
        for entry in self.course.notebooks:
            found = collect.collect(self.course, self.folder / f"{entry.name}.zip", entry)
            self.collected.taken += found.taken
            self.collected.refused += found.refused
            self.collected.notes += found.notes
        started = time.monotonic()
        records = grade.grade(self.course, list(self.course.notebooks))
        self.wall = time.monotonic() - started
        self.records = {(one.student, one.notebook[:2]): one for one in records}
        self.after = self.footprint()
        self.pages = feedback.write_feedback(self.course, list(self.course.notebooks))
        self.pages.append(report.write_report(self.course, list(self.course.notebooks)))
        report.write_csv(self.course, list(self.course.notebooks), self.folder / "grades.csv")

    def footprint(self):
        """Every file of the project and what lies where submissions aim at, with its time stamp."""
        found = {}
        for folder, folders, names in os.walk(course.ROOT):
            unwatched = (".venv", ".colab", ".git", "__pycache__", ".demo", ".course")
            folders[:] = [name for name in folders if name not in unwatched and "cache" not in name]
            for name in [*names, ""]:
                path = Path(folder, name)
                stamp = 0 if path.is_dir() else path.stat().st_mtime_ns
                found[str(path)] = (hashlib.sha256(path.read_bytes()).hexdigest() if name else "", stamp)
        for folder in ("/tmp", "/etc", "/dev", "/dev/shm", "/usr/lib", "/", str(Path.home()), str(self.folder)):
            found |= {f"{folder}/{name}": "" for name in os.listdir(folder) if self.token in name}
        return found

    def record(self, attack):
        return self.records[attack.student, attack.book]

    def outputs(self, attack):
        """All that the graded notebook shows, control characters of colours aside."""
        entry = self.course.notebook(attack.book)
        graded = nbformat.read(course_tree.place(self.course, "autograded", entry, attack.student), as_version=4)
        return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(map(str, (c.get("outputs", "") for c in graded.cells))))


def wrong(case, exercise):
    """A wrong answer that earns nothing and is called: of one that takes what is forbidden nothing is asked."""
    left_out = case.right or case.private or case.loses or "does all the work" in (case.says or "")
    return case.exercise == exercise and not left_out


def packed(members):
    """A zip of `members` in memory."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("hostile"))
    world.listen()
    patch = pytest.MonkeyPatch()
    patch.setenv("SECRET_OF_THE_INSTRUCTOR", world.canaries[3])
    try:
        world.play()
        yield world
    finally:
        patch.undo()
        for one in world.sockets:
            one.close()


def rows(record):
    return [(one.exercise, one.score, one.outcome, one.sentence()) for one in record.verdicts]


def test_every_idea_is_tried_and_no_other():
    assert {section: {one.idea for one in ATTACKS if one.section == section} for section in IDEAS} == {
        section: {*ideas} for section, ideas in IDEAS.items()
    }
    assert len({(one.section, one.name) for one in HOSTILE}) >= 60


@pytest.mark.parametrize("section", IDEAS)
def test_the_threat_model_says_how_many_are_tried(section):
    row = re.search(
        rf"^\| `{section}\.py`: [^|]+\| (\d+) \|", (course.ROOT / "THREAT_MODEL.md").read_text(), re.MULTILINE
    )
    assert row and int(row[1]) == len({one.name for one in ATTACKS if one.section == section})


@pytest.mark.parametrize("attack", named(one for one in HOSTILE if not one.raw))
def test_it_gains_nothing_and_ends_in_a_record(world, attack):
    record = world.record(attack)
    assert record.score == 0, rows(record)
    assert record.status == GRADED or record.reason
    assert "grader itself" not in record.reason
    if attack.twin:  # to the letter what the same answers get without the trick
        skip = 1 if attack.where == "first" else 0
        assert rows(record)[skip:] == rows(world.records[f"wrong-{attack.book}", attack.book])[skip:]


@pytest.mark.parametrize("attack", named(one for one in ATTACKS if one.told or one.shows))
def test_the_trick_was_played_and_what_was_refused_is_said(world, attack):
    if attack.shows:
        outputs = world.outputs(attack)
        assert re.search(attack.shows.replace(": []", r": \[\]"), outputs), outputs[:2000]
    if attack.told:
        lines = [line for line in world.collected.refused if attack.raw or attack.student in line]
        lines += [note for note in world.collected.notes if "are left out" in note]  # counted, for all students at once
        said = ("" if attack.raw else RECORD.dump_json(world.record(attack)).decode()) + "\n".join(lines)
        assert re.search(attack.told, said), said[-3000:]


@pytest.mark.parametrize("attack", named(one for one in ATTACKS if one.right))
def test_the_honest_keep_their_points(world, attack):
    record = world.record(attack)
    assert record.score == record.points > 0, (record.reason, record.remarks, rows(record))


@pytest.mark.parametrize("attack", named(one for one in HOSTILE if one.fools))
def test_the_trick_works_where_the_verdict_is_reached_in_the_kernel(world, attack):
    """The same cells, and the checks run among them as at home: at least one wrong answer passes."""
    notebook = world.makers[attack.book].released
    fooled = []
    with kernel.open_kernel(world.course, trusted=True) as running:  # in a sandbox no check says anything
        for cell in preamble(notebook):
            assert not running.run(cell.source).error
        running.run(world.filled(attack))
        for exercise, source in world.wrong[attack.book].items():
            running.run(source)
            name = cell_id(CellRole.CHECK, exercise)
            check = next(cell.source for cell in notebook.cells if cell.id == name)
            ran = running.run(check)
            fooled += [exercise] if not ran.error else []
    assert fooled


@pytest.mark.parametrize("book", BOOKS)
def test_the_neighbours_grades_are_what_they_were(world, book):
    honest, wrong = (world.records[f"{kind}-{book}", book] for kind in ("honest", "wrong"))
    assert honest.score == honest.points and honest.remarks == [] and honest.hand_in
    assert wrong.score == 0 and {one.outcome for one in wrong.verdicts} <= {Outcome.WRONG, Outcome.ERROR}
    submitted = course_tree.place(world.course, "submitted", world.course.notebook(book), f"honest-{book}")
    assert world.canaries[2] in submitted.read_text()


def test_nothing_outside_the_sandboxes_changed(world):
    changed = [path for path in world.before | world.after if world.before.get(path) != world.after.get(path)]
    assert changed == []


def test_no_time_stamp_is_forged(world):
    stamp = datetime.datetime(*WHEN).astimezone(datetime.UTC)
    stamps = {path.read_text()[:16] for path in world.course.tree.glob("submitted/*/*/timestamp.txt")}
    assert stamps == {f"{stamp:%Y-%m-%d %H:%M}"}


def test_no_process_is_left(world):
    running = os.popen("ps -eo args").read()
    assert f"sleep {world.seconds}" not in running and world.token not in running
    stopped = [line for line in os.popen("ps -eo stat=,args=").read().splitlines() if line.startswith("T")]
    assert [line for line in stopped if "autograder.sandbox.fork_server" in line] == []


def test_nobody_knocked(world):
    assert world.knocks == []


def test_pages_and_records_hold_no_secret(world):
    """Neither canaries nor a line of a solution, a private check, or a mark scheme, on any page that a student gets."""
    own = set().union(
        *(release.release_lines(attack.source) for attack in ATTACKS)
    )  # what it brings along is not a leak
    known = {line for line in world.secret} - own
    for path in [*world.course.tree.glob("autograded/*/*/*.ipynb"), *world.course.tree.glob("feedback/*/*/*.html")]:
        text = path.read_text()
        if path.parts[-3].startswith(("wrong", "verdict", "secrets", "files", "evaluation", "resources", "reports")):
            assert not re.search(CANARY + "[0-9a-f]{8}", text), path
            if path.suffix == ".ipynb" and "NaN" not in path.parts[-3]:
                given = set().union(*(release.release_lines(source) for source in world.wrong[path.stem[:2]].values()))
                assert not (release.lines_of(path) - given) & known, path


class Page(html.parser.HTMLParser):
    """Finds what a browser would run, or fetch, for a submission."""

    def __init__(self):
        super().__init__()
        self.bad, self.script = [], False

    def handle_starttag(self, tag, attributes):
        self.script = tag == "script"
        for name, value in attributes:
            value = value or ""
            if "hostile" in value and (name.startswith("on") or name in ("src", "action", "data", "style", "content")):
                self.bad.append((tag, name, value))
            if name in ("href", "xlink:href") and re.sub(r"[\x00-\x20]", "", value).lower().startswith(
                ("javascript:", "vbscript:", "data:text")
            ):
                self.bad.append((tag, name, value))

    def handle_data(self, data):
        if self.script and "hostile" in data:
            self.bad.append(("script", "", data[:200]))


def test_no_page_runs_or_fetches_anything(world):
    assert len(world.pages) > len(ATTACKS) * 0.9
    for path in world.pages:
        page = Page()
        page.feed(path.read_text())
        assert page.bad == [], path


def test_the_table_of_scores_holds_no_formula(world):
    with (world.folder / "grades.csv").open() as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert len(cells) > 1000
    assert [
        cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not cell[1:2].isdigit()
    ] == []


def test_records_are_short_and_legible(world):
    for one in world.records.values():
        for text in [one.reason, *one.remarks, *(verdict.message for verdict in one.verdicts)]:
            assert len(text) < 3000 and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), (one.student, text)
