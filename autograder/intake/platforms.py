"""What names in a download say: learning platforms', students' and systems'."""

import datetime
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from autograder.course import Course, Platform
from utils.experiments.student import letters

CANVAS_QUIZ, GOOGLE = "Canvas quiz", "Google Classroom"
CANVAS_TEST_STUDENT = "studenttest"  # as whom an instructor looks at a course, "Test Student"
BRIGHTSPACE_NAME = (
    r"^(?P<perhaps>\d+)-\d+ - (?P<name>.+?) - (?P<time>[A-Z][a-z]{2} \d{1,2}, \d{4} \d{1,2})(?P<minutes>\d\d [AP]M)"
)
MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)$")
# More rows can stand in course.toml, as [[platforms]].
PLATFORMS = (
    # NAME[_LATE]_USER_ATTACHMENT_FILE, or, without names, [LATE_]anon_CODE_ATTACHMENT_FILE
    Platform(
        name="Canvas",
        files=(
            # Of names Canvas leaves neither spaces nor hyphens. An attachment's number begins with no 0: that is the
            # number of a notebook.
            re.compile(r"^(?P<late>LATE_)?(?P<name>anon_(?P<id>[^_]+))_(?P<attachment>[1-9]\d*)_(?P<file>.+)$"),
            re.compile(r"^(?P<name>[^\s-]+?)_(?P<late>LATE_)?(?P<id>\d+)_(?P<attachment>[1-9]\d*)_(?P<file>.+)$"),
        ),
        numbers="student",
        times="none",
    ),
    # A question of a quiz to which files are uploaded: NAMEUSER_question_QUESTION_ATTACHMENT_FILE
    Platform(
        name=CANVAS_QUIZ,
        files=(
            # Of names Canvas leaves no number between underscores here: after one comes what a student wrote.
            re.compile(r"^(?P<name>(?:(?!_\d+_)\S)+?)(?P<id>\d+)_question_\d+_(?P<attachment>[1-9]\d*)_(?P<file>.+)$"),
        ),
        numbers="student",
        times="none",
        form_of="Canvas",
    ),
    # TITLE_USER_attempt_TIME_FILE
    Platform(
        name="Blackboard",
        files=(
            # A user's name may have underscores, and then part of it is read as the title's.
            re.compile(
                r"^(?P<title>.+?)_(?P<name>(?P<id>[^_]+))_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)?$"
            ),
        ),
        times="name",
    ),
    # a folder "NAME_NUMBER_assignsubmission_file_", or the same before the file's name
    Platform(
        name="Moodle",
        files=(MOODLE,),
        folders=(MOODLE,),
        numbers="assignment",
        times="differing",
        once="_assignsubmission_",
        hidden=("participant", "participante", "partecipante", "teilnehmer", "teilnehmerin", "deelnemer", "deltagare"),
    ),
    # a folder "NUMBER-NUMBER - NAME - TIME", or the same before the file's name. Minutes are the last two digits.
    Platform(
        name="Brightspace",
        files=(re.compile(f"{BRIGHTSPACE_NAME} - (?P<file>.+)$"),),
        folders=(re.compile(f"{BRIGHTSPACE_NAME}$"),),
        times="name",
        time_format="%b %d, %Y %I:%M %p",
    ),
    # a folder "LAST, FIRST(USER)"; a file timestamp.txt in it says when, see `layouts`
    Platform(
        name="Sakai",
        folders=(re.compile(r"^(?P<name>[^(),]+,[^()]*)\((?P<id>[^()\s]+)\)$"),),
        numbers="student",
        times="none",
    ),
    # NAME - FILE, as Google Classroom calls the copies that it makes of a file for each student
    Platform(
        name=GOOGLE,
        files=(re.compile(r"^(?:(?:Copy of|Copie de|Kopie von|Copia de) )*(?P<name>.+?) - (?P<file>.+)$"),),
        times="none",
    ),
)
SAKAI = next(row for row in PLATFORMS if row.name == "Sakai")
BRIGHTSPACE = next(row for row in PLATFORMS if row.name == "Brightspace")
_GOOGLE_ROW = next(row for row in PLATFORMS if row.name == GOOGLE)
# What these say is in files and folders of their own, see `layouts`; a pattern of names alone would be anybody's.
_NEVER = (re.compile(r"(?!)(?P<name>)"),)
GRADESCOPE = Platform(name="Gradescope", folders=_NEVER, numbers="student", times="none")
TEAMS = Platform(name="Teams", folders=_NEVER, times="none")
GITHUB = Platform(name="GitHub Classroom", folders=_NEVER, times="none")
# What systems make of the name of a file that is copied, or saved twice. It names nobody.
COPY_BEFORE = re.compile(
    r"^(copy[ _]of|copie[ _]de|kopie[ _]von|c[oó]pia[ _]d[ie]|kopia|copy|copie|kopie)(?=[\s_]|$)", re.I
)
# `__20261104104101`: what nbgitpuller adds to a student's file before it fetches a newer one of the same name.
# `-20261104T104101Z-001`: what Google Drive adds to each zip of a large download, and `-3-001` after it is newer.
STAMP_AFTER = re.compile(r"(__(?:19|20)\d{12}|-\d{8}T\d{6}Z(?:-\d+)*-\d{3})$")
COPY_AFTER = re.compile(r"([\s_-]+(copy|copie|kopie|copia|cópia)|\s*\(\d+\))$", re.I)
CONTAINERS = (
    *(
        "submissions",
        "submission",
        "submitted",
        "handins",
        "submissions",
        "handin",
        "downloads",
        "download",
        "assignments",
        "notebooks",
    ),
    *("assignment", "archive", "student work", "submitted files"),
)
# What instructors and students call an assignment, of which the number is behind it. It names nobody.
ASSIGNMENT = re.compile(
    r"^(lab|labs|sheet|homework|hw|assignment|exercises?|ex|notebook|nb|week|ps|pset|problem ?set|task|unit|session|"
    r"übung|uebung|übungsblatt|blatt|aufgabe|woche|devoir|exercice|tp|td|semaine|tarea|práctica|practica|semana|esercizio|"
    r"compito|opdracht|uppgift|opgave|zadanie)[\s_.-]*\d{1,3}$",
    re.IGNORECASE,
)
# What Blackboard lays beside each attempt that it names, with its date and comments.
ATTEMPT = re.compile(
    r"^(?P<attempt>.+_attempt_\d{4}(?:-\d\d){5})(?:_.+\.(?:ipynb|zip)|(?P<note>\.txt))$", re.IGNORECASE
)
TELL = "put it into a folder with the student's name, or use --student"
NOISE = ("__MACOSX", "Thumbs.db", "timestamp.txt")
# Hidden names that systems give to what is nobody's work, so that nobody has to be told of them.
SYSTEM = (*NOISE, ".ipynb_checkpoints", ".DS_Store", ".git", ".github", ".gitignore", ".vscode", ".idea")


@dataclass(frozen=True)
class Claim:
    """What the names of a download say: whose a file is, and what the platform says of its time."""

    name: str
    id: str = ""  # the platform's
    platform: Platform | None = None
    named_by_id: bool = False  # the name holds the number already
    late: bool = False  # the platform marks it
    attachment: int = 0  # a later one has a larger number
    time: str = ""
    title: str = ""  # the assignment's, on the platform
    doubt: str = ""  # why nobody knows whose it is, and what to do
    shared: bool = False  # several files of the download that may be of several students have this name
    when: datetime.datetime | None = None  # when it was handed in, as a file of the platform says
    given: bool = False  # `when` is that of a table, see `times`: it goes before others
    others: tuple[str, ...] = ()  # what else the platform calls the student
    members: tuple["Claim", ...] = ()  # the other students who have handed this in together
    group: str = ""  # what their group is called
    account: bool = False  # `name` is that of an account of the system, and no other name
    exchange: bool = False  # it comes from nbgrader's exchange, which keeps all submissions
    perhaps: str = ""  # a number of the platform's that is perhaps the student's, and perhaps the submission's

    def student(self) -> str:
        """Name and number, where a number goes with the name for ever."""
        with_number = self.platform and self.platform.numbers == "student" and self.id and not self.named_by_id
        return f"{self.name}_{self.id}" if with_number else self.name


def known_platforms(course: Course) -> tuple[Platform, ...]:
    """The rows of course.toml, then ours."""
    return (*course.platforms, *PLATFORMS)


def is_noise(path: PurePosixPath) -> bool:
    """Whether systems, not students, made a file: what is below a hidden name, such as a trash or a checkpoint.

    A platform's name of a student may begin with a dot too; that hides nothing.
    """
    return any(
        part in NOISE or (part.startswith(".") and part != ".." and not any(_reading_of_any(part)))
        for part in path.parts
    )


def is_system(path: PurePosixPath) -> bool:
    """Whether it is hidden as a matter of course."""
    return any(part in SYSTEM or part.startswith("._") for part in path.parts)


def _reading_of_any(part: str) -> Iterator[bool]:
    return (
        not part.startswith("._") and pattern.match(part) is not None
        for row in PLATFORMS
        for pattern in (*row.folders, *row.files)
    )


def notes(paths: Iterable[PurePosixPath]) -> set[PurePosixPath]:
    """What a platform says of submissions in files beside them. One that has no submission beside it is none of
    these.
    """
    attempts = [(path, match) for path in paths if (match := ATTEMPT.match(path.name))]
    handed_in = {path.with_name(match["attempt"]) for path, match in attempts if not match["note"]}
    return {path for path, match in attempts if match["note"] and path.with_name(match["attempt"]) in handed_in}


def containers(course: Course, paths: list[PurePosixPath], is_known: Callable[[str], bool] = lambda name: False) -> int:
    """How many folders above all submissions name no student, since all submissions lie in them.

    Folders below a student's are the student's to name, so only those count that hold several
    students, or that are called what platforms and instructors call them.

    Args:
        is_known: whether a name is that of a student of the class list.
    """
    known = [path for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not is_noise(path)]
    for above in range(max((len(path.parts) for path in known), default=0)):
        below = [PurePosixPath(*path.parts[above + 1 :]) for path in known]
        if len({path.parts[: above + 1] for path in known}) > 1 or not all(path.parts for path in below):
            return above
        folder = known[0].parts[above]
        if _is_nobody(course, folder):  # whatever is in it
            continue
        if not is_known(folder) and any(is_known(own_name(course, path)) for path in below if len(path.parts) == 1):
            continue
        keys = {_key(course, path) for path in below}
        rows = known_platforms(course)
        names_one_file = len(keys) < 2 and not all(folder_of(course, path, rows) for path in below)
        if "" in keys or names_one_file or any(_reading(row, f"{folder}/") for row in rows):
            return above
    return 0


def folder_of(course: Course, path: PurePosixPath, rows: Iterable[Platform]) -> str:
    """The folder of a path that names a student as a platform does; "" if it has none."""
    folder = next(iter(_folders(course, path)), "")
    return folder if folder and any(_reading(row, f"{folder}/") for row in rows) else ""


def folder_claim(row: Platform, folder: str) -> Claim | None:
    """What a platform says in the name of a student's folder."""
    return _reading(row, f"{folder}/")


def _key(course: Course, path: PurePosixPath) -> str:
    """Whose a path seems to be, "" if it does not say."""
    folders = _folders(course, path)
    return folders[0] if folders else platform(course, path.name) or ""


def _folders(course: Course, path: PurePosixPath) -> list[str]:
    return [part for part in path.parts[:-1] if not _is_nobody(course, part)]


def _is_nobody(course: Course, name: str) -> bool:
    """Whether a name is that of a notebook or an assignment, or what platforms call the folder of all students."""
    if name.lower() in CONTAINERS or ASSIGNMENT.match(name):
        return True
    called = letters(name).casefold()
    return any(
        called in (letters(entry.name).casefold(), letters(entry.title).casefold()) for entry in course.notebooks
    )


def students_in(course: Course, paths: list[PurePosixPath]) -> set[str] | None:
    """Whom the names in a zip seem to be of, "" for those that do not say it; None if they are a platform's."""
    known = [path for path in paths if path.suffix.lower() in (".ipynb", ".zip") and not is_noise(path)]
    above = containers(course, known)
    below = [PurePosixPath(*path.parts[above:]) for path in known]
    if any(_reading(row, platform_part(course, path)) for path in below for row in known_platforms(course)):
        return None
    return {folders[0] if (folders := _folders(course, path)) else own_name(course, path) for path in below}


def platform(course: Course, name: str) -> str | None:
    """The student whom a learning platform, whichever it may be, names in a file's name."""
    claim = next(filter(None, (_reading(row, name) for row in known_platforms(course))), None)
    return f"{claim.name}_{claim.id}" if claim else None


def assignment_claims(course: Course, path: PurePosixPath) -> Iterator[tuple[Platform, Claim]]:
    """What a path says of the platforms whose numbers differ in each assignment, or whose times may be no times."""
    for row in known_platforms(course):
        if row.numbers == "assignment" or row.times == "differing":
            matches = (_first_match((*row.folders, *row.files), part) for part in path.parts if not _twice(row, part))
            match = next(filter(None, matches), None)
            if match:
                yield row, _claim(row, match)


class Names:
    """What the names of one download say of each submission: whose it is, and what the platform says of its time.

    Students choose what they are called and what their files are called, so that a name may read as another platform's.
    The download tells: its platform reads all that the other reads in it, and more. Else nobody knows whose that is.
    """

    def __init__(
        self,
        course: Course,
        paths: Iterable[PurePosixPath],
        is_known: Callable[[str], bool] = lambda name: False,
        stated: Mapping[str, Claim] | None = None,
    ):
        """See `layouts.layout_of`; `stated` is what files and folders of the platform say of a student's folder."""
        self.course, self.rows, self.is_known = course, known_platforms(course), is_known
        self.stated = {unicodedata.normalize("NFC", folder): claim for folder, claim in (stated or {}).items()}
        self.paths = [_composed(path) for path in paths if not is_noise(path)]
        parts = {platform_part(course, path) for path in self.paths}
        self.read = [{part for part in parts if _reading(row, part)} for row in self.rows]
        handed_in = {part for part in parts if part.lower().endswith((".ipynb", ".zip"))}
        self.titles = _titles(course, parts)
        named = handed_in & set().union(*self.read)
        self.plain = 2 * len(named) <= len(handed_in)  # no platform's download: it would name them all

    def claim(self, path: PurePosixPath) -> Claim:
        """Whose it says to be: the topmost folder that is not a notebook's, else the file's name."""
        path = _composed(path)
        if len(path.parts) > 1 and path.parts[0] in self.stated:
            return self.stated[path.parts[0]]
        part = platform_part(self.course, path)
        claims = {place: claim for place, row in enumerate(self.rows) if (claim := _reading(row, part))}
        for place in [number for number in claims if self.rows[number].form_of]:
            whole = next(number for number, row in enumerate(self.rows) if row.name == self.rows[place].form_of)
            if self.read[place] == self.read[whole] and len(self.read[place]) > 1:
                claims.pop(whole, None)
        for place in [number for number in claims if self.rows[number].name == GOOGLE]:
            # Anybody may write " - ": other platforms go before, and in a plain folder it is a name like others.
            if len(claims) > 1 or self.plain or _is_nobody(self.course, claims[place].name):
                claims.pop(place)
        if not claims:
            return self._unplaced(path)
        if (
            self.plain
            and part.lower().endswith((".ipynb", ".zip"))
            and all(self.rows[number].times != "differing" for number in claims)
        ):
            # Else a student's name for a file decides whether it is late.
            which = " or ".join(self.rows[number].name for number in claims)
            return Claim("", doubt=f"its name is as {which} has it, and others beside it have no such names: {TELL}")
        best = [number for number in claims if all(self.read[number] >= self.read[other] for other in claims)]
        if best and (len(best) == 1 or best[0] < len(self.course.platforms)):  # the course's own rows go before ours
            return self._in_group(self._whole(claims[best[0]], part))
        several = " or ".join(f"{self.rows[place].name}'s, of {claim.name}" for place, claim in claims.items())
        return Claim(
            "", doubt=f"it may be {several}: collect a platform's whole download at once, and nothing beside it; {TELL}"
        )

    def _in_group(self, claim: Claim) -> Claim:
        """A claim with the student's name alone, where Moodle writes that of a group and a hyphen before it."""
        if not claim.platform or claim.platform.name != "Moodle" or self.is_known(claim.name):
            return claim
        parts = claim.name.split("-")
        splits = [("-".join(parts[:place]), "-".join(parts[place:])) for place in range(1, len(parts))]
        group, name = next((split for split in splits if self.is_known(split[1])), ("", ""))
        if not name:
            group, name = next((split for split in splits if split[0] in self._groups and split[1]), ("", ""))
        return replace(claim, name=name, group=group) if name else claim

    @cached_property
    def _groups(self) -> set[str]:
        """What groups are called in a download of Moodle in which each name begins with one, as far as names tell.

        A name such as Anne-Marie Li has a hyphen too. So each name of the download must have one, and what stands
        before it be no first name: it has a digit or several words, or several such groups have several members.
        """
        moodle = next(row for row in self.rows if row.name == "Moodle")
        claims = [_reading(moodle, platform_part(self.course, path)) for path in self.paths]
        names = {(claim.name, claim.id) for claim in claims if claim and claim.name}
        if len(names) < 2 or not all("-" in name for name, _ in names):
            return set()
        heads: Counter[str] = Counter()
        for name, _ in names:
            parts = name.split("-")
            heads.update("-".join(parts[:place]) for place in range(1, len(parts)))
        shared = {head for head, times in heads.items() if times > 1}
        certain = {head for head in shared if not head.replace("-", "").isalpha()}
        if not certain:
            return shared if len(shared) > 1 else set()
        return certain | {head for name, _ in names if not (head := name.split("-")[0]).isalpha()}

    def is_shared(self, path: PurePosixPath) -> bool:
        """Whether files that may be of other students have the same name, or the same lasting number, as this one."""
        claim = self.claim(path)
        if claim.id and claim.platform and claim.platform.numbers != "assignment":
            return len(self._called[claim.id]) > 1
        return self._called[claim.name][_notebook(self.course, str(_composed(path)))] > 1

    @cached_property
    def _called(self) -> dict[str, Counter[str]]:
        """By name the notebooks of its files, by number the names that go with it, and how often each comes."""
        called: dict[str, Counter[str]] = defaultdict(Counter)
        for path in self.paths:
            if path.suffix.lower() in (".ipynb", ".zip"):
                claim = self.claim(path)
                called[claim.name][_notebook(self.course, str(path))] += 1
                called[claim.id][claim.name] += bool(claim.id)
        return called

    def _whole(self, claim: Claim, part: str) -> Claim:
        """A claim with the user's whole name: the title is that of all files of this notebook in the download."""
        title = self.titles.get(_notebook(self.course, part), "")
        if not claim.title.startswith(f"{title}_") or not title:
            return claim
        name = f"{claim.title}_{claim.name}"[len(title) + 1 :]
        return replace(claim, name=name, id=name, title=title)

    def _unplaced(self, path: PurePosixPath) -> Claim:
        """Whose a submission is that comes from no platform."""
        folders = _folders(self.course, path)
        if not folders:
            name = own_name(self.course, path)
            return Claim(name, others=tuple({without_assignment(self.course, name)} - {name, ""}))
        # Google's folder of an assignment with one file, or a student's folder: of several files the names tell.
        stated = _reading(_GOOGLE_ROW, path.name) if len(self._handed_in) == 1 else None
        if stated and not _is_nobody(self.course, stated.name) and _notebook(self.course, path.name):
            known = [name for name in (folders[0], stated.name) if self.is_known(name)]
            if len(known) == 1:
                return Claim(known[0])
            if not known:
                return Claim("", doubt=f"it may be of {stated.name} or of {folders[0]}: {TELL}")
        return Claim(_somebody(folders[0], folders[0]))

    @cached_property
    def _handed_in(self) -> list[PurePosixPath]:
        return [path for path in self.paths if path.suffix.lower() in (".ipynb", ".zip")]


def own_name(course: Course, path: PurePosixPath) -> str:
    """What is left of a file's name without the notebook's: somebody's, or ""."""
    if path.suffix.lower() == ".zip" and STAMP_AFTER.search(path.stem):
        return ""  # the name of a folder of Google Drive
    name = STAMP_AFTER.sub("", path.stem)
    for entry in course.notebooks:
        name = name.replace(entry.name, "")
    return _somebody(name, _without_copy(name))


def without_assignment(course: Course, name: str) -> str:
    """A name of a file without words that name an assignment, such as `lab2` or the number of a notebook."""
    numbers = {number for entry in course.notebooks for number in (entry.number, entry.number.lstrip("0"))}
    words = re.split(r"[\s_-]+", re.sub(r"\([^()]*\)", " ", name))
    return " ".join(word for word in words if word not in numbers and not ASSIGNMENT.match(word))


def _notebook(course: Course, part: str) -> str:
    """The notebook that a file's name speaks of, else ""."""
    return next((entry.name for entry in course.notebooks if entry.name in part), "")


def _titles(course: Course, parts: Iterable[str]) -> dict[str, str]:
    """What the names of each notebook's files begin with, up to a user's name; "" of a single user's."""
    users: dict[str, set[str]] = {}
    for part in parts:
        for claim in filter(None, (_reading(row, part) for row in known_platforms(course))):
            if claim.title:
                users.setdefault(_notebook(course, part), set()).add(f"{claim.title}_{claim.name}")
    return {notebook: _beginning([user.split("_") for user in named]) for notebook, named in users.items()}


def _beginning(names: list[list[str]]) -> str:
    """The pieces with which several names begin, and after which each goes on; "" of a single one."""
    columns = zip(*(pieces[:-1] for pieces in names), strict=False)
    shared = itertools.takewhile(lambda column: len({*column}) == 1 < len(column), columns)
    return "_".join(column[0] for column in shared)


def _composed(path: PurePosixPath) -> PurePosixPath:
    """A path with its letters in the one form that names are compared in."""
    return PurePosixPath(unicodedata.normalize("NFC", str(path)))


def _reading(row: Platform, part: str) -> Claim | None:
    """What a platform says in a file's name, or in that of a student's folder, which ends with a slash."""
    match = _first_match(row.folders if part.endswith("/") else row.files, part.removesuffix("/"))
    if match and _twice(row, part):
        return Claim(
            "", doubt=f"its name has `{row.once}` twice, so that it does not say whose it is: ask, then {TELL}"
        )
    return _claim(row, match) if match else None


def _twice(row: Platform, part: str) -> bool:
    """Whether a student has written what the platform writes once into each name."""
    return bool(row.once) and part.count(row.once) > 1


def _first_match(patterns: Iterable[re.Pattern[str]], name: str) -> re.Match[str] | None:
    return next(filter(None, (pattern.match(name) for pattern in patterns)), None)


def _claim(row: Platform, match: re.Match[str]) -> Claim:
    stated = match.groupdict(default="")
    within = bool(stated.get("id")) and match.end("id") <= match.end("name")
    # Canvas leaves no spaces and hyphens of a name in an assignment's download, and writes them otherwise in a quiz's.
    name = re.sub("[_-]", "", stated["name"]) if row.name == CANVAS_QUIZ else stated["name"]
    minutes = f":{stated['minutes']}" if "minutes" in stated else ""
    return Claim(
        name,
        stated.get("id", ""),
        row,
        within,
        bool(stated.get("late")),
        int(stated.get("attachment") or 0),
        stated.get("time", "") + minutes,
        stated.get("title", ""),
        perhaps=stated.get("perhaps", ""),
    )


def platform_part(course: Course, path: PurePosixPath) -> str:
    """The part of a path that `Names` reads: the student's folder, with a slash behind it, else the file's name."""
    folders = _folders(course, path)
    return f"{folders[0]}/" if folders else path.name


def _without_copy(name: str) -> str:
    """The name of a file without what systems add to copies and to files that are saved twice."""
    left, before = name, ""
    while left != before:
        before = left
        left = COPY_AFTER.sub("", COPY_BEFORE.sub("", re.sub(r"^[\s_+-]+|[\s_+-]+$", "", left)))
    return left


def _somebody(name: str, read: str) -> str:
    """The name as it was `read`; "" if it names nobody: a copy, an assignment, or a number such as that of a copy."""
    left = _without_copy(name)
    nobody = left.lower() in CONTAINERS or ASSIGNMENT.match(left) or re.fullmatch(r"\W*\d{0,2}\W*", left)
    return "" if nobody else read
