"""What all submissions together say of each student's runs, and what a person decided about them.

To compare submissions is to accuse somebody, so what is found here is shown to the instructor alone and costs nothing
until a person says so. The times of submissions are those that the platform states, of every version that is kept.
"""

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autograder.course import Course, CourseError, NotebookEntry
from autograder.gradebook import course_tree, journal, roster, teams
from autograder.intake.kept_submissions import RESULTS, KeptName
from autograder.intake.origins import names_of
from autograder.intake.run_files import unpack
from utils.experiments import student as students
from utils.experiments.experiment import Experiment, chosen, outputs_of
from utils.experiments.forgery import NEAR, PERMUTED, shapes, tells, varied
from utils.grading.standing import Standing
from utils.grading.verdict import legible

ROWS = 512  # that are compared with all others at a time
MOST = 4  # other submissions that one student's flags name
CONFIRMED = "a person looked at these runs and decided that they do not count: ask your instructor"
LARGEST = 20_000  # outputs of a run
LARGEST_OUTPUT = 1e6


@dataclass(frozen=True)
class Claim:
    """One run as a submission has it, no more than is needed to compare it."""

    owner: str  # the student as collected
    file: str  # FOLDER/seed_N.json
    name: str  # as the run says who made it
    seconds: float
    outputs: np.ndarray  # (n,) float32, see `outputs_of`
    what: str  # alike for equal outputs, or where there are none for equal predictions
    counted: str  # alike for equal whole numbers beside the outputs; "" if there are none that tell a run
    when: datetime.datetime | None  # of the earliest version that holds it; None: not known
    people: frozenset[str] = frozenset()  # the owner, or the members of the team

    @property
    def place(self) -> tuple[str, str]:
        """The experiment's folder, and the seed."""
        folder, _, name = self.file.partition("/")
        return folder, name.removeprefix("seed_").removesuffix(".json")


def of(course: Course, entry: NotebookEntry) -> dict[str, Standing]:
    """The standing of each student whose runs of a notebook were handed in."""
    return _of(course, entry, *_compared(course)) if _handed_in(course, entry) else {}


def of_all(course: Course) -> dict[str, dict[str, Standing]]:
    """The same of every notebook whose runs were handed in, by its name."""
    there = [entry for entry in course.notebooks if entry.has_experiments and _handed_in(course, entry)]
    compared = _compared(course) if there else ((), {})
    return {entry.name: _of(course, entry, *compared) for entry in there}


def _handed_in(course: Course, entry: NotebookEntry) -> dict[str, Path]:
    """The file with the runs of each student."""
    paths = sorted(course.tree.glob(f"submitted/*/{entry.name}/results.json"))
    return {path.parents[1].name: path for path in paths}


Folders = Sequence[Mapping[str, tuple[Experiment, str]]]  # of each notebook: experiments and their digests, by folder


def _compared(course: Course) -> tuple[Folders, dict[str, list[Claim]]]:
    """The experiments of all notebooks, and the runs of everybody."""
    # By notebook, as the judge looks into them: else files of the one could take the places of the other's.
    folders = [
        {
            experiment.folder("").name: (experiment, experiment.digest())
            for profile in course.grading.results_profiles
            for experiment in other.experiments_of(profile).values()
        }
        for other in course.notebooks
        if other.has_experiments
    ]
    people = teams.load(course).people
    known = {student: _versions(course, student, folders) for student in _everybody(course)}
    return folders, {
        student: [replace(claim, people=people(student)) for claim in own] for student, own in known.items()
    }


def _of(course: Course, entry: NotebookEntry, folders: Folders, known: dict[str, list[Claim]]) -> dict[str, Standing]:
    handed_in = _handed_in(course, entry)
    current = {
        student: _dated(_claims(student, path.read_bytes(), folders), known[student])
        for student, path in handed_in.items()
    }
    keys = (
        _keys(course, [claim for theirs in current.values() for claim in theirs]) if course.grading.run_keys else None
    )
    listed = roster.load(course)
    names = {student: names_of(course, entry, student, listed) for student in handed_in}
    flags = _flags(current, known, keys, names, listed)
    decided = decisions(course, entry)
    standings = {}
    for student in handed_in:
        decision = decided.get(student)
        against = (CONFIRMED,) if decision is False else ()
        seen = tuple(flags.get(student, ())) if decision is None else ()  # what is decided waits for nobody
        standings[student] = Standing(against, seen, keys)
    return standings


def decisions(course: Course, entry: NotebookEntry) -> dict[str, bool]:
    """What a person decided about the runs of a notebook, by student: whether they count.

    Raises:
        CourseError: the file was damaged.
    """
    path = _decided(course, entry)
    try:
        stated = json.loads(path.read_text()) if path.exists() else {}
        return {student: standing["counts"] is True for student, standing in stated.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CourseError(f"{path} cannot be read: mend it, or remove it and decide again") from None


def decide(course: Course, entry: NotebookEntry, student: str, counts: bool | None, reason: str = "") -> None:
    """Note that a student's runs count, do not count, or (None) that nothing is decided; `grade` applies it.

    The log gets the decision, the account that takes it, and the `reason`.

    Raises:
        CourseError: this student handed in no runs, or of None, nothing was decided.
    """
    student = teams.submitter(course, entry, student)
    if not course_tree.results_path(course, entry, student).exists() and counts is not None:
        raise CourseError(f"{student} has handed in no runs of {entry.name}; {_who(course, entry)}")
    decisions(course, entry)
    path = _decided(course, entry)
    stated: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if stated.pop(student, None) is None and counts is None:
        raise CourseError(f"nothing was decided about the runs of {student} in {entry.name}: there is nothing to undo")
    if counts is not None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        stated[student] = {"counts": counts, "decided_at": now}
    means = {True: "count", False: "do not count", None: "are undecided again"}[counts]
    journal.note(course, f"audit: the runs {means}", reason, student=student, notebook=entry.name)
    course_tree.write_json(path, stated)


def _who(course: Course, entry: NotebookEntry) -> str:
    """Who handed in runs of a notebook, as the end of a sentence."""
    students_there = sorted(path.parents[1].name for path in course.tree.glob(f"submitted/*/{entry.name}/results.json"))
    return (
        f"there are runs of {', '.join(students_there[:10])}{', ...' * (len(students_there) > 10)}"
        if students_there
        else "nobody has"
    )


def _decided(course: Course, entry: NotebookEntry) -> Path:
    return course.tree / "decisions" / f"{entry.name}.json"


def _everybody(course: Course) -> list[str]:
    return sorted({path.parents[1].name for path in course.tree.glob("submitted/*/*/results.json")})


def _versions(course: Course, student: str, folders: Folders) -> list[Claim]:
    """Every different run of a student in any version of any notebook, with the time when it first came."""
    first: dict[tuple[str, str], Claim] = {}
    kept = [(_time(path), path) for path in sorted(course.tree.glob(f"handins/{_plain(student)}/*/*{RESULTS}"))]
    kept += [(None, path) for path in sorted(course.tree.glob(f"submitted/{_plain(student)}/*/results.json"))]
    for when, path in kept:
        for claim in _claims(student, path.read_bytes(), folders):
            before = first.get((claim.file, claim.what))
            if before is None or (when is not None and (before.when is None or when < before.when)):
                first[claim.file, claim.what] = replace(claim, when=when)
    return list(first.values())


def _dated(claims: list[Claim], versions: list[Claim]) -> list[Claim]:
    """The claims of the version that counts, with the times when the same runs first came."""
    first = {(version.file, version.what): version for version in versions}
    return [first.get((claim.file, claim.what), claim) for claim in claims]


def _plain(name: str) -> str:
    """A name as a pattern of glob that means nothing but itself."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _time(path: Path) -> datetime.datetime | None:
    """When a version came, as its name says; None if that is only when it was downloaded."""
    return KeptName.of(path.with_name(path.name.removesuffix(RESULTS))).handed_in


_read: dict[tuple[str, str], tuple[str, float, np.ndarray, str, str] | None] = {}


def _claims(owner: str, packed: bytes, folders: Folders) -> list[Claim]:
    """The runs in a file of results that can be compared; what is not a run is left to the judge to refuse.

    `folders` are those of each notebook's experiments.
    """
    files, claims = unpack(packed), []
    wanted = {
        file: configurations[file.split("/")[0]] for configurations in folders for file in chosen(files, configurations)
    }
    for file, (experiment, digest) in wanted.items():
        stamp = digest, hashlib.sha256(files[file]).hexdigest()
        if stamp not in _read:
            _read[stamp] = _light(files[file], experiment)
        light = _read[stamp]
        if light is not None:
            name, seconds, outputs, what, counted = light
            claims.append(Claim(owner, file, name, seconds, outputs, what, counted, None))
    return claims


def _light(text: bytes, experiment: Experiment) -> tuple[str, float, np.ndarray, str, str] | None:
    """Name, seconds and outputs of a run, and what tells them from others, see `Claim`; None if it is not a run."""
    try:
        stated = json.loads(text)
        name = str(stated.get("student", ""))[: students.MAX_NAME]  # to fold a longer one takes quadratic time
        seconds = float(stated["seconds"])
        predictions = [*stated["predictions"]]
        with np.errstate(all="ignore"):
            outputs = outputs_of(stated["logits"], predictions)
        rows = [] if experiment.made_up else [*map(tuple, experiment.whole_numbers(predictions))]
        counted = hashlib.sha256(json.dumps(rows).encode()).hexdigest() if tells(rows) else ""
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError):
        return None
    if not predictions or outputs.ndim != 1 or len(outputs) > LARGEST:
        return None
    if not (np.abs(outputs) <= LARGEST_OUTPUT).all():  # nor NaN
        return None
    what = outputs.tobytes() if len(outputs) else json.dumps(predictions).encode()
    return name, seconds, outputs.astype(np.float32), hashlib.sha256(what).hexdigest(), counted


def _keys(course: Course, claims: list[Claim]) -> tuple[tuple[str, str], ...]:
    secret = course_tree.secret(course)
    return tuple(
        (name, students.key_of(secret, name)) for name in sorted({students.fold(claim.name) for claim in claims})
    )


def _flags(
    current: dict[str, list[Claim]],
    known: dict[str, list[Claim]],
    keys: tuple[tuple[str, str], ...] | None,
    called: Mapping[str, Sequence[str]],
    listed: roster.Roster | None,
) -> dict[str, list[str]]:
    """What a person should look at, by student, who is `called` by several names."""
    flags: dict[str, list[str]] = {owner: [] for owner in current}
    pairs: dict[tuple[str, str], list[tuple[Claim, Claim, str]]] = {}
    claims, named = [claim for theirs in current.values() for claim in theirs], dict(keys or ())
    matches = [*_matches(claims, known, named)]
    known_already = {(claim.owner, claim.file, other.owner, other.file) for claim, other, _ in matches}
    for claim, other, how in _counted_again(claims, known, named):
        if (claim.owner, claim.file, other.owner, other.file) not in known_already:
            matches.append((claim, other, how))
    for claim, other, how in matches:
        pairs.setdefault((claim.owner, other.owner), []).append((claim, other, how))

    def weight(item: tuple[Any, list[tuple[Claim, Claim, str]]]) -> tuple[int, int]:
        return -sum(varied(claim.outputs) for claim, _, _ in item[1]), -len(item[1])  # what says most comes first

    for (owner, neighbour), matched in sorted(pairs.items(), key=weight):
        if len(flags[owner]) < MOST:
            flags[owner].append(_sentence(neighbour, matched))
    names = {owner: sorted({students.fold(claim.name) for claim in theirs} - {""}) for owner, theirs in known.items()}
    for owner, some in current.items():
        sentences = [
            f"its runs say that {legible(name, 60)!r} made them: is that {owner}?"
            for name in sorted({claim.name for claim in some if claim.name})
            if not belongs(name, owner, *called[owner])
        ]
        mine = {students.fold(claim.name) for claim in some} - {""}
        people = frozenset[str]().union(*(claim.people for claim in some))
        sentences += [
            f"its runs carry the same name as those of {neighbour}{_namesakes(owner, neighbour, listed)}"
            for neighbour, theirs in names.items()
            if neighbour != owner and mine.intersection(theirs) and not people.intersection(known[neighbour][0].people)
        ]
        more = [f"and {len(sentences) - MOST} more names that are not its own"] if len(sentences) > MOST else []
        flags[owner] += [*sentences[:MOST], *more]
    return flags


def belongs(name: str, *called: str) -> bool:
    """Whether a name may be that of the student who is `called` so; numbers of a platform do not count."""
    words = students.fold(name).split()
    for called_name in called:
        whose = students.fold(called_name).split()
        for left, right in ((words, whose), *([(_letters(words), _letters(whose))] if _letters(words) else [])):
            if sorted(left) == sorted(right) or sorted("".join(left)) == sorted("".join(right)):
                return True
    return False


def _namesakes(student: str, other: str, listed: roster.Roster | None) -> str:
    """What to do if two students have one name in the class list, as the end of a sentence; else ""."""
    for name, ids in (listed.namesakes() if listed else {}).items():
        if {student, other} <= {*ids}:
            both = f": both are called {name} in students.csv"
            return f"{both}, so each has to write the id into STUDENT, {student} or {other}"
    return ""


def _letters(words: list[str]) -> list[str]:
    return [word for word in words if not word.isdigit()]


def _sentence(other: str, matched: list[tuple[Claim, Claim, str]]) -> str:
    one, _, how = matched[0]
    more = f" and {len(matched) - 1} more" if len(matched) > 1 else ""
    mine = min((pair[0].when for pair in matched if pair[0].when), default=None)
    its = min((pair[1].when for pair in matched if pair[1].when), default=None)
    if mine is None or its is None or mine == its:
        first = "it is not known which came first"
    else:
        early, late = sorted((mine, its))
        who = "those of this student" if mine == early else f"those of {other}"
        first = f"{who} came first, {early:%Y-%m-%d %H:%M} against {late:%Y-%m-%d %H:%M} UTC"
    return f"{one.file}{more} {how} in a submission of {other}; {first}"


def _matches(
    current: list[Claim], known: dict[str, list[Claim]], keys: dict[str, str]
) -> Iterator[tuple[Claim, Claim, str]]:
    """The runs that are also another student's, as they are, scaled, with noise or in another order."""
    everything = [claim for of_one in known.values() for claim in of_one]
    for size in sorted({len(claim.outputs) for claim in current}):
        ours = [claim for claim in current if len(claim.outputs) == size]
        theirs = [claim for claim in everything if len(claim.outputs) == size]
        # Of texts, counts and what has collapsed, nothing but equal ones can be told, and of constants not even these.
        same: dict[str, list[Claim]] = {}
        for other in theirs:
            if not varied(other.outputs):
                same.setdefault(other.what, []).append(other)
        for path in ours:
            if not varied(path.outputs) and (size < 2 or np.ptp(path.outputs)):
                yield from ((path, other, "is") for other in same.get(path.what, ()) if is_foreign(path, other, keys))
        ours, theirs = ([claim for claim in claims if varied(claim.outputs)] for claims in (ours, theirs))
        if not ours or not theirs:
            continue
        whose = np.array([hash(claim.owner) for claim in theirs])
        table = np.array([claim.outputs for claim in theirs], dtype=np.float32)
        straight, ranked, ordered, backwards = shapes(table)
        for start in range(0, len(ours), ROWS):
            block = ours[start : start + ROWS]
            rows, ranks, sorted_rows, _ = shapes(np.array([claim.outputs for claim in block], dtype=np.float32))
            foreign = np.array([hash(claim.owner) for claim in block])[:, None] != whose[None]
            near = ((np.abs(rows @ straight.T) > NEAR) | (np.abs(ranks @ ranked.T) > NEAR)) & foreign
            again = (sorted_rows @ ordered.T > PERMUTED) | (sorted_rows @ backwards.T > PERMUTED)
            for row, column in np.argwhere(near | (again & foreign)):
                path, other = block[row], theirs[column]
                if is_foreign(path, other, keys):
                    how = "is" if near[row, column] else "is, its examples in another order,"
                    yield path, other, how


def _counted_again(
    current: list[Claim], known: dict[str, list[Claim]], keys: dict[str, str]
) -> Iterator[tuple[Claim, Claim, str]]:
    """The runs whose counts or classes are those of another student's, whatever fractions are beside them."""
    same: dict[str, list[Claim]] = {}
    for other in (claim for of_one in known.values() for claim in of_one if claim.counted):
        same.setdefault(other.counted, []).append(other)
    for claim in current:
        for other in same.get(claim.counted, ()):
            if is_foreign(claim, other, keys):
                yield claim, other, "has the counts or classes of a run"


def is_foreign(claim: Claim, other: Claim, keys: dict[str, str]) -> bool:
    """Whether a run is of another student, to whom not the same seed was given by chance; a team's are its members'."""
    return claim.owner != other.owner and not claim.people & other.people and not _honest_twins(claim, other, keys)


def _honest_twins(claim: Claim, other: Claim, keys: dict[str, str]) -> bool:
    """Whether two students were given one seed by chance, and so have one run."""
    names = students.fold(claim.name), students.fold(other.name)
    if claim.place != other.place or names[0] == names[1] or "" in names:
        return False
    seed = claim.place[1]
    return all(seed in map(str, students.seeds_of(name, keys.get(name, ""), 20)) for name in names)
