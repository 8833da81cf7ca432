"""Explain a mark: what was handed in, asked, found and decided, and when; for an appeal, in a zip for a committee."""

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from autograder.cells import CellRole, cell_id, exercise_of, role_of
from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, journal, mark_log, teams
from autograder.gradebook.journal import Event
from autograder.grading import history
from autograder.grading.grading_record import Record, hand_in, jobs, known_students, load_record
from autograder.intake import kept_submissions
from autograder.similarity import similar
from utils.grading.verdict import legible, line

MAX_VALUE, MAX_QUESTIONS = 400, 200  # characters of a value that was asked or replied; questions that are listed
README = """\
The case of {student}, exercise {exercise}, written {when} by {account}.

explanation.txt   versions, question, answer, what checks asked and the replies, verdicts over time, marks, decisions
versions/         every version of the notebook that was handed in, as it came, and the runs that came with it
graded.ipynb      the submission as it was graded
released.ipynb    the notebook as students received it
feedback.html     the page that the student was given
verdict.json      the record of the grader
history.jsonl     the verdicts over time
marks.csv         every logged change of a manual mark of this notebook
log.jsonl         decisions that concern this student
similar.html      the student's code beside another submission's, if it was asked for

explanation.txt shows inputs of private checks: do not pass it to students who may hand in again.
"""


@dataclass
class Asked:
    """A question of a check to the student's code, and the reply, as text."""

    question: str
    reply: str


@dataclass
class Case:
    """All that is known of one exercise of one submission."""

    student: str
    entry: NotebookEntry
    exercise: str
    record: Record
    versions: list[dict[str, str]]
    question: str  # the text of the exercise, and what its checks say of themselves
    answer: str
    verdicts: list[Event]  # over time, see `history`
    marks: list[dict[str, Any]]  # changes, see `mark_log`
    decisions: list[Event]
    asked: list[Asked] = field(default_factory=list)  # when it was judged again for this explanation
    today: str = ""  # the verdict that this gave, or why there is none
    whose: str = ""  # whose submission it is, if it is a team's


def case_of(course: Course, student: str, exercise: str, ask: bool = True) -> Case:
    """What is known of an exercise of a student's submission.

    With `ask`, its checks are asked once more in a sandbox, with the same private inputs, to show which question was
    answered how; nothing of that is recorded.

    Raises:
        CourseError: there is no such exercise, or this student has no graded submission of its notebook.
    """
    entry = course.notebook(exercise.split(".")[0])
    cells = json.loads(course_tree.release_text(course, entry))["cells"]
    known = [exercise_of(cell["id"]) for cell in cells if role_of(cell["id"]) in (CellRole.CHECK, CellRole.WRITTEN)]
    if exercise not in known:
        raise CourseError(f"{entry.name} has no exercise {exercise}; it has {', '.join(known)}")
    known_students(course, [entry], [student])
    student = teams.submitter(course, entry, student)
    members = teams.load(course).members(entry, student)
    record = load_record(course, entry, student)
    if record is None:
        raise CourseError(f"{student}'s {entry.name} is not graded yet: `autograder grade {entry.number}` comes first")
    changes = mark_log.changes(course_tree.database(course))
    names = {cell_id(role, exercise) for role in (CellRole.CHECK, CellRole.EXERCISE, CellRole.WRITTEN)}
    case = Case(
        student,
        entry,
        exercise,
        record,
        versions=list(_versions(course, entry, student)),
        question=_question(cells, entry, exercise),
        answer=_answer(course, entry, student, exercise),
        verdicts=history.events(course, entry, student),
        marks=[
            change
            for change in changes
            if change["what"] == mark_log.BEGIN
            or ((change["student"], change["notebook"]) == (student, entry.name) and change["cell"] in names)
        ],
        decisions=list(_decisions(course, entry, student)),
        whose=f"The submission of a team, with one mark for all: {', '.join(members)}" if members else "",
    )
    if ask and ".W" not in exercise:
        _judge_again(course, case)
    return case


def lines(case: Case) -> Iterator[str]:
    """A case as text, for a terminal or a file; what a student wrote has no control characters in it."""
    yield f"{case.student}, {case.entry.name}, exercise {case.exercise}"
    yield from [case.whose] * bool(case.whose)
    yield from ("", "Versions handed in (the last one counts; times are UTC)")
    for version in case.versions:
        runs = f", runs sha256 {version['runs']}" if version["runs"] else ""
        yield f"  {version['file']}: sha256 {version['sha256']}{runs}{', counts' * (version['counts'] == 'yes')}"
    yield from ("", "What was asked", *_indented(case.question))
    yield from ("", "What was answered", *_indented(case.answer or "(nothing)"))
    verdict = next((verdict for verdict in case.record.verdicts if verdict.exercise == case.exercise), None)
    if verdict:
        yield from ("", f"The verdict that counts, of {case.record.graded_at}: {verdict.score:g} of {verdict.points:g}")
        yield from _indented(verdict.sentence())
        if verdict.instructor_only:
            yield from _indented(f"for instructors, of a private check: {verdict.instructor_only}")
    elif case.record.reason:
        yield from ("", f"Not graded: {legible(case.record.reason)}")
    if case.today:
        yield from ("", "Judged once more for this explanation, with the same private inputs; nothing is recorded")
        shown = case.asked[-MAX_QUESTIONS:]
        if len(shown) < len(case.asked):
            yield f"  ... {len(case.asked) - len(shown)} earlier questions"
        for number, asked in enumerate(shown, len(case.asked) - len(shown) + 1):
            last = "  <- the last question before the verdict" if asked is case.asked[-1] else ""
            yield f"  {number}. {asked.question}{last}"
            yield f"     reply: {asked.reply}"
        yield from _indented(case.today)
    yield from ("", "Verdicts over time")
    yield from (list(_verdicts(case)) or ["  none is noted: an older version graded this submission"])
    yield from ("", "Marks and comments of people (log of the gradebook)")
    for mark in case.marks:
        who = mark["account"] or "account unknown: formgrader, or another program that writes the gradebook"
        why = mark["reason"] or "no reason given"
        what = (
            mark["what"]
            if mark["what"] == mark_log.BEGIN
            else f"{mark['what']} {mark['before']} -> {mark['after']} ({who})"
        )
        yield f"  {mark['happened']}  {legible(what, 500)}{': ' + legible(why, 500) if mark['cell'] else ''}"
    yield from ("", "Decisions that concern this submission")
    for decision in case.decisions:
        about = [f"{row['exercise']} {row['before']:g} -> {row['after']:g}" for row in decision.get("changes", ())]
        why, what = (
            legible(decision["reason"] or "no reason given", 500),
            " ".join([decision["what"], ", ".join(about)]),
        )
        yield f"  {decision['at']}  {what.strip()} ({decision['account']}): {why}"
    if not case.decisions:
        yield "  none"


def write_zip(course: Course, case: Case, target: Path, other: str = "") -> list[str]:
    """Write a case for a committee; the names of the files in the zip.

    Args:
        other: a student whose code is laid beside, as on the pages of `autograder similar`.

    Raises:
        CourseError: that student has no graded submission of this notebook.
    """
    entry, student = case.entry, case.student
    files: dict[str, bytes] = {
        "README.txt": README.format(
            student=student, exercise=case.exercise, when=journal.now(), account=journal.account()
        ).encode(),
        "explanation.txt": ("\n".join(lines(case)) + "\n").encode(errors="surrogatepass"),
        "released.ipynb": course_tree.release_text(course, entry).encode(),
        "log.jsonl": _json_lines(case.decisions),
    }
    for path in kept_submissions.kept_hand_ins(course, entry, student):
        for file in (path, path.with_suffix(kept_submissions.RESULTS)):
            if file.exists():
                files[f"versions/{file.name}"] = file.read_bytes()
    for name, path in (
        ("graded.ipynb", course_tree.place(course, "autograded", entry, student)),
        ("feedback.html", course_tree.place(course, "feedback", entry, student).with_suffix(".html")),
        ("verdict.json", course.tree / "verdicts" / student / f"{entry.name}.json"),
        ("history.jsonl", history.path_of(course, entry, student)),
    ):
        if path.exists():
            files[name] = path.read_bytes()
    table = io.StringIO()
    changes = [
        change
        for change in mark_log.changes(course_tree.database(course))
        if change["what"] == mark_log.BEGIN or (change["student"], change["notebook"]) == (student, entry.name)
    ]
    writer = csv.DictWriter(table, list(changes[0]) if changes else ["happened"])
    writer.writeheader()
    writer.writerows(changes)
    files["marks.csv"] = table.getvalue().encode()
    if other:
        files["similar.html"] = similar.pair_page(course, entry, student, other).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return list(files)


def _json_lines(events: list[Event]) -> bytes:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events).encode(errors="surrogatepass")


def _versions(course: Course, entry: NotebookEntry, student: str) -> Iterator[dict[str, str]]:
    submitted = course_tree.place(course, "submitted", entry, student)
    kept = kept_submissions.kept_hand_ins(course, entry, student) or [submitted]
    for path in kept:
        runs = path.with_suffix(kept_submissions.RESULTS)
        yield {
            "file": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "runs": hashlib.sha256(runs.read_bytes()).hexdigest() if runs.exists() else "",
            "counts": "yes" if path.read_bytes() == submitted.read_bytes() and path == kept[-1] else "no",
        }


def _question(cells: list[dict[str, Any]], entry: NotebookEntry, exercise: str) -> str:
    """The text before an exercise as it was released, and what its checks say of themselves."""
    text: list[str] = []
    names = {cell_id(role, exercise) for role in (CellRole.EXERCISE, CellRole.WRITTEN)}
    for cell in cells:
        if cell["id"] in names:
            break
        if role_of(cell["id"]) in (CellRole.CHECK, CellRole.WRITTEN, CellRole.EXERCISE):
            text = []
        elif cell["cell_type"] == "markdown":
            text.append("".join(cell["source"]).strip())
    if ".W" not in exercise:
        from autograder.author.checks import private_checks, public_checks  # bring torch

        check = public_checks(entry)[exercise]
        text.append(f"The public check: {' '.join((check.__doc__ or check.__name__).split())}")
        hidden = private_checks(entry).get(exercise, [])
        text += [f"A private check; when it fails, the student reads: {check.tells}" for check in hidden]
    return "\n\n".join(text)


def _answer(course: Course, entry: NotebookEntry, student: str, exercise: str) -> str:
    path = course_tree.place(course, "autograded", entry, student)
    names = {cell_id(role, exercise) for role in (CellRole.EXERCISE, CellRole.WRITTEN)}
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell.get("id") in names)


def _verdicts(case: Case) -> Iterator[str]:
    for verdict in case.verdicts:
        if verdict["what"] == history.PUBLISHED:
            yield f"  {verdict['at']}  published: {verdict['how']} ({verdict['account']})"
        elif case.exercise in verdict["verdicts"]:
            score, points, sentence = verdict["verdicts"][case.exercise]
            of = f"submission {verdict['hand_in'][:12]}, version {verdict['version']}, {verdict['account']}"
            yield f"  {verdict['at']}  {score:g} of {points:g} ({of})"
            yield from (f"    {line}" for line in legible(sentence).splitlines())
        else:
            points = f"{verdict['score']:g} of {verdict['points']:g} points of all checks"
            state = legible(points if verdict["status"] == "graded" else verdict["reason"])
            of = f"submission {verdict['hand_in'][:12]}, {verdict['account']}"
            yield f"  {verdict['at']}  {verdict['status']}: {state} ({of})"


def _decisions(course: Course, entry: NotebookEntry, student: str) -> Iterator[Event]:
    """What the log says of this student's submission; of tables only their own rows."""
    for event in journal.events(course):
        if event.get("student") == student and event.get("notebook") == entry.name:
            yield event
        rows = [row for row in event.get("changes", ()) if (row["student"], row["notebook"]) == (student, entry.name)]
        if rows:
            yield event | {"changes": rows}


def _judge_again(course: Course, case: Case) -> None:
    """Ask the checks of the exercise again, and note questions, replies and the verdict."""
    from autograder.grading import worker
    from autograder.grading.fingerprints import released
    from autograder.grading.judge import judge
    from autograder.intake import restore
    from autograder.sandbox import preload
    from autograder.sandbox.sandbox import SandboxError, require_sandboxes

    (job,) = jobs(course, case.entry, [case.student])
    given = replace(hand_in(course, replace(job, known=None)), only=(case.exercise,))

    def on_question(exercise: str, request: bytes, reply: bytes) -> None:
        if exercise == case.exercise:
            case.asked.append(Asked(_asked(request), reply_text(reply)))

    try:
        require_sandboxes()
        worker.prepare(course, [case.entry])
        server = preload.fork_server(course.running([case.entry]).grading.preload).start()
        restored = restore.restored(given.text, course.limits.notebook_mb, released(given.release))
        judged = judge(course, given, restored.notebook, server=server, on_question=on_question)
    except (SandboxError, restore.Ungradable) as why:
        case.today = f"not judged again: {legible(str(why))}"
        return
    verdict = judged.verdicts[0]
    counts = next((verdict for verdict in case.record.verdicts if verdict.exercise == case.exercise), None)
    same = counts and (counts.score, counts.sentence()) == (verdict.score, verdict.sentence())
    differs = "" if same else "\nThis is not the verdict that counts: checks, limits or the course changed since."
    private = f"\nfor instructors, of a private check: {verdict.instructor_only}" if verdict.instructor_only else ""
    case.today = f"{verdict.score:g} of {verdict.points:g}: {verdict.sentence()}{private}{differs}"


def _asked(request: bytes) -> str:
    """A question as one would write it in Python."""
    from utils.grading import wire

    stated = wire.loads(request, _met)
    target = stated.get("name") or stated.get("library") or str(stated.get("object", "?"))
    called = ".".join([str(target), *stated.get("path", ())])
    if "args" not in stated:
        return called
    given = [shown_value(value) for value in stated["args"]] + [
        f"{key}={shown_value(value)}" for key, value in stated["kwargs"].items()
    ]
    return f"{called}({', '.join(given)})"


def reply_text(reply: bytes) -> str:
    """Return a kernel's reply as a person reads it."""
    from utils.grading import wire

    if not reply:
        return "none: the kernel was gone"
    try:
        stated = wire.loads(reply, _met)
    except wire.WireError as bad:
        return f"cannot be read: {bad}"
    match stated:
        case {"value": value}:
            return shown_value(value)
        case {"error": {"type": str(name), "message": str(text)}}:
            return line(f"raised {name}: {text}", MAX_VALUE)
    return shown_value(stated)


def _met(handle: int, type_name: str) -> Any:
    return partial(str, f"<{line(type_name, 60)} {handle}>")


def shown_value(value: Any) -> str:
    """A value in a line; of a large tensor its shape and its first numbers."""
    if isinstance(value, partial):
        return str(value())
    if hasattr(value, "shape") and hasattr(value, "flatten"):
        flat = value.flatten()
        numbers = [f"{number:.6g}" if isinstance(number, float) else str(number) for number in flat[:12].tolist()]
        more = ["..."] if flat.shape[0] > len(numbers) else []
        return legible(f"tensor {tuple(value.shape)} [{', '.join([*numbers, *more])}]", MAX_VALUE)
    if isinstance(value, list):
        return legible(f"[{', '.join(map(shown_value, value[:40]))}{', ...' * (len(value) > 40)}]", MAX_VALUE)
    if isinstance(value, dict):
        return legible(f"{{{', '.join(f'{key!r}: {shown_value(entry)}' for key, entry in value.items())}}}", MAX_VALUE)
    return legible(repr(value), MAX_VALUE)


def _indented(text: str) -> Iterator[str]:
    for row in legible(text, 20_000).splitlines():
        yield f"  {row}".rstrip()
