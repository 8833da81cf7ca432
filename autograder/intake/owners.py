"""Whose a submission is: decided here alone, from what names in a download claim and what the class list says."""

import datetime
import glob
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from autograder.course import Course, CourseError, NotebookEntry, Platform
from autograder.gradebook import course_tree, roster, teams
from autograder.gradebook.roster import slug
from autograder.intake.archive import Found, downloads
from autograder.intake.platforms import TELL, Claim, Names, assignment_claims
from utils.grading.verdict import legible

SPREAD = datetime.timedelta(minutes=5)  # where times may be the download's own: those that are closer are


class Owners:
    """Whose the submissions of one download are: nobody's is merged with another's unless the roster says so."""

    def __init__(self, course: Course, source: Path | None, notes: list[str], whose: str, zip_names: str):
        self.course, self.notes = course, notes
        self.roster = roster.load(course)
        self.whose = whose
        if whose:
            self.whose = teams.load(course).find(whose)
            self.whose = self.whose or (self.roster.find(whose).id if self.roster else slug(whose))
            if not self.whose:
                raise CourseError(f"`{whose}` cannot be a student's name: it has no letter and no digit")
        numbers: dict[tuple[str, str, str, str], set[str]] = {}
        times: dict[tuple[str, str], list[datetime.datetime]] = {}
        listings = downloads(source, zip_names) if source else {}
        if whose:
            self._require_one_student(source, [path for members in listings.values() for path, _ in members])
        for download, members in listings.items():
            for path, when in members:
                for row, claim in assignment_claims(course, path):
                    about = (row.name, claim.name, download, _file_of(course, path.name))
                    numbers.setdefault(about, set()).add(claim.id)
                    times.setdefault((row.name, download), []).append(when)
        self.zipped = bool(
            source and source.suffix.lower() == ".zip"
        )  # a zip's times name no zone; those of files in a folder do
        self.ambiguous = {about[:3] for about, several in numbers.items() if len(several) > 1}
        self.differing = {download for download, stated in times.items() if max(stated) - min(stated) > SPREAD}

    def _require_one_student(self, source: Path | None, paths: list[PurePosixPath]) -> None:
        """Refuse a platform's download of several students of which all is said to be one student's.

        Raises:
            CourseError: platforms' names in it are those of several.
        """
        called = Names(self.course, paths)
        claims = [called.claim(path) for path in paths if path.suffix.lower() in (".ipynb", ".zip")]
        names = sorted({claim.name for claim in claims if claim.platform and claim.name})
        if len(names) > 1:
            raise CourseError(
                f"{source} holds files of several students ({', '.join(names[:3])}{', ...' * (len(names) > 3)}): "
                "collect it without --student, or give a folder with the files of one student alone"
            )

    def listed(self, student: str) -> roster.Student | None:
        """A student's line of the class list."""
        return self.roster.students.get(student) if self.roster else None

    def is_known(self, name: str) -> bool:
        """Whether it is the name of a student of the class list, or of several."""
        return bool(name and self.roster and self.roster.has(name))

    def told_time(self, file: Found, entry: NotebookEntry) -> bool:
        """Whether the time of this file is when it was handed in; somebody is told what zone it was read in."""
        if file.claim.when:
            return True
        row = file.claim.platform
        download = (row.name, file.download) if row else None
        if row and (row.times == "none" or (row.times == "differing" and download not in self.differing)):
            marks = any("late" in pattern.groupindex for pattern in (*row.files, *row.folders))
            self.notes.append(
                f"this download of {row.name} does not say when files were handed in, so nobody is counted as late"
                + (
                    f"; `autograder status` lists those whom {row.name} marks LATE, for you to decide. `--times` takes "
                    f"a table of times. {row.name} may have a late policy of its own, which takes points off as well: "
                    "switch one of the two off"
                    if marks
                    else "; `--times` takes a table of times"
                )
            )
            return False
        if (
            (self.zipped or file.download or (row and row.times == "name"))
            and entry.deadline
            and not self.course.timezone
        ):
            here = entry.deadline.astimezone()
            if here.utcoffset() != entry.deadline.utcoffset():
                self.notes.append(
                    f"times in this download name no zone and were read in this machine's, {here:UTC%z}, while the "
                    f"deadline of {entry.name} has {entry.deadline:UTC%z}: state `timezone` in course.toml, remove "
                    "what was collected (`autograder remove STUDENT NOTEBOOK --yes`), and collect again"
                )
        return True

    def student(self, file: Found, entry: NotebookEntry) -> str:
        """The folder of the student or team that submitted this.

        Raises:
            CourseError: that cannot be said; the message says what to do.
        """
        claim = file.claim
        if self.whose:
            of_teams = teams.load(self.course)
            if of_teams.name(self.whose) and not of_teams.members(entry, self.whose):
                raise CourseError(f"{self.whose} is not a team of {entry.name}: add its members to {teams.FILE}")
            return self.whose
        if claim.doubt or not slug(claim.name):
            raise CourseError(claim.doubt or f"whose is it? The name says nobody's: {TELL}")
        if self.roster:
            return self._listed_student(self.roster, claim, entry)
        name = claim.student()
        row = claim.platform
        if row and row.numbers == "assignment" and self._shared(row, file, entry):
            name = f"{claim.name}_{claim.id}"
            if claim.name.casefold() not in row.hidden:
                self.notes.append(
                    f"{row.name}'s number {claim.id} is called {claim.name} like somebody else: taken as {slug(name)}. "
                    f"{row.name}'s numbers differ in each assignment: say who is who in "
                    f"{self.course.tree / 'students.csv'}"
                )
        student = slug(name)
        if teams.load(self.course).name(student):
            raise CourseError(
                f"a team is called {student} too: rename the team in {teams.FILE}, or say whose it is with --student"
            )
        known = self.course.tree / "handins" / student / "name.txt"
        if not known.exists():
            course_tree.write(known, legible(claim.name))
        if known.read_text() not in (legible(claim.name), legible(name)):
            raise CourseError(f"another student is called {student} already; rename one of the two")
        before = self._number(student, entry)
        if claim.id and before not in ("", claim.id):
            raise CourseError(
                f"another student is called {student} already, with the number {before}: say who is who in "
                f"{self.course.tree / 'students.csv'}"
            )
        self._remember(student, claim, entry)
        return student

    def _listed_student(self, known: roster.Roster, claim: Claim, entry: NotebookEntry) -> str:
        """The folder of a student of the roster."""
        lasting = claim.platform is None or claim.platform.numbers != "assignment"
        claim = replace(claim, name=next(filter(known.has, claim.others), claim.name))
        self._require_no_team(known, claim, entry, lasting)
        if claim.platform and claim.name.casefold() in claim.platform.hidden and not known.has(claim.name, claim.id):
            raise CourseError(
                f"{claim.platform.name} hides the names in this download, and `{claim.name}` is everybody: reveal the "
                f"students' identities there, download again and collect that; {TELL}"
            )
        try:
            student = known.find(claim.name, claim.id, lasting, claim.shared, claim.account).id
        except CourseError as why:
            alone = claim.platform is None and not claim.account and "--student" not in str(why)
            raise CourseError(f"{why}{', or collect it alone with `--student ID`' * alone}") from None
        before = self._number(student, entry)
        if claim.id and before not in ("", claim.id) and claim.id not in known.students[student].platform_ids:
            raise CourseError(
                f"{claim.name} handed in under the numbers {before} and {claim.id}, and {known.path.name} has one such "
                "student: write the platform's numbers into platform_ids, of one student or of two"
            )
        self._remember(student, claim, entry)
        strange = _is_strange(claim.name, known.students[student]) and not teams.load(self.course).of(entry, student)
        if claim.platform and claim.platform.name == "Canvas" and strange:
            self.notes.append(
                f"{student}: Canvas's number {claim.id} is theirs, and this download calls it {claim.name}. If that is "
                f"a group, its file is filed under {student} alone: list its members in {teams.FILE} and collect "
                "again, or give it to the other members with `autograder collect FILE --student ID`"
            )
        older = slug(claim.student())
        if older != student and (self.course.tree / "handins" / older / entry.name).exists():
            self.notes.append(
                f"{student} was collected as {older} before: `autograder remove {older} {entry.number} --yes` removes "
                "that"
            )
        return student

    def _require_no_team(self, known: roster.Roster, claim: Claim, entry: NotebookEntry, lasting: bool) -> None:
        """Refuse a submission that calls itself like a team: anybody may have called it that.

        Raises:
            CourseError: it does; the message says how to take it as the team's, or as a student's of that name.
        """
        listed = teams.load(self.course)
        team, students = listed.find(claim.name), known.candidates(claim.name, claim.id)
        by_number = lasting and any(claim.id in student.platform_ids for student in students)
        if not team or claim.account or by_number or any(listed.of(entry, student.id) == team for student in students):
            return
        others = "".join(
            f", or as {student.id}'s, who is called so too, with `--student {student.id}`" for student in students
        )
        raise CourseError(
            f"it is called like the team {listed.name(team)}: take it as the team's with `--student {team}`{others}"
        )

    def _shared(self, platform: Platform, file: Found, entry: NotebookEntry) -> bool:
        """Whether another student has this name too, here or in what was collected before."""
        claim = file.claim
        if self._number(slug(claim.name), entry) == claim.id:
            return False  # the one who came first
        if claim.name.casefold() in platform.hidden or (platform.name, claim.name, file.download) in self.ambiguous:
            return True
        if self._number(slug(claim.name), entry):
            return True
        others = self.course.tree.glob(f"handins/{glob.escape(slug(claim.name))}_*/name.txt")
        return any(other.read_text() == legible(claim.name) for other in others)

    def _number(self, student: str, entry: NotebookEntry) -> str:
        path = self._number_path(student, entry)
        return path.read_text() if path.exists() else ""

    def _number_path(self, student: str, entry: NotebookEntry) -> Path:
        return self.course.tree / "handins" / student / entry.name / "platform_id.txt"

    def _remember(self, student: str, claim: Claim, entry: NotebookEntry) -> None:
        if claim.id and not self._number(student, entry):
            course_tree.write(self._number_path(student, entry), claim.id)


def _is_strange(name: str, student: roster.Student) -> bool:
    """Whether Canvas's name has nothing of a student's: it writes a group's name with the number of one member."""
    words = roster.plain(f"{student.first_name} {student.last_name}")
    own = [roster.plain(word) for word in re.split(r"[\s-]+", f"{student.first_name} {student.last_name}")]
    called = roster.plain(name)
    return bool(words) and called not in student.names() and not any(len(word) > 1 and word in called for word in own)


def _file_of(course: Course, name: str) -> str:
    """The notebook that a file's name speaks of, else ""."""
    return next((entry.name for entry in course.notebooks if entry.name in name), "")
