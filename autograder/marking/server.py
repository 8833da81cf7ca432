"""A local server with a page on which people mark the answers to a written question; `autograder mark` starts it.

It listens on this machine alone, for browsers that know its token. What students wrote reaches the page as clean HTML;
the page runs one script, known by its digest, and loads nothing. Marks are written as `autograder group` writes them.
"""

import asyncio
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web

from autograder import html_cleaning, limited
from autograder.author import mark_scheme
from autograder.course import Course, CourseError
from autograder.gradebook import by_hand, course_tree, marks
from autograder.gradebook.by_hand import HandMark
from autograder.gradebook.pseudonyms import Names
from autograder.grading.grading_record import students_of
from autograder.reports import layout, page
from autograder.similarity import groups
from autograder.similarity.groups import Answer

HERE = "127.0.0.1"
SCRIPT = Path(__file__).with_name("mark.js")
PROSE_SECONDS, PROSE_MB = 20.0, 1024
MAX_BODY = 16_384  # bytes of a request
MAX_SHOWN = 20  # comments that are offered again
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
POLICY += "form-action 'none'; frame-ancestors 'none'; script-src"


class Refused(Exception):
    """A request that cannot be done; the message says why, with the status of its reply."""

    def __init__(self, why: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST):
        super().__init__(why)
        self.status = status


@dataclass
class Card:
    """Equal answers, which are shown once and marked at once."""

    key: str
    group: int
    answers: list[Answer]
    html: str
    versions: dict[str, list[Answer]] = field(default_factory=dict)  # as browsers were told of them


class Question:
    """The answers to one question as browsers were shown them, and what the gradebook says of them."""

    def __init__(
        self, course: Course, name: str, called: Callable[[str], str], students: Collection[str] | None = None
    ):
        """With `students` only their answers and those of their teams."""
        self.course, self.name, self._called, self._students = course, name, called, students
        self.entry, self.cell = groups.question_of(course, name)
        self.cards: dict[str, Card] = {}
        self.points, self.empty = 0.0, 0

    def load(self) -> dict[str, Any]:
        """Read all answers; what the page shows of the question."""
        shown_groups, self.points, self.empty = groups.distinct(self.course, self.name, self._students)
        source = _source(course_tree.place(self.course, "source", self.entry).read_text(), self.cell)
        asked = page.question(course_tree.release_text(self.course, self.entry), self.cell)
        texts = [asked, mark_scheme.model_answer(source), *mark_scheme.items(source)]
        html = _html([*texts, *(groups.worded(group.answers[0].text) for group in shown_groups)])
        for group, shown in zip(shown_groups, html[len(texts) :], strict=True):
            key = group.answers[0].digest[:16]
            known = self.cards.get(key)
            pictures = (f'<img src="{uri}" alt="a picture of this answer">' for uri in group.answers[0].pictures)
            whole = "\n".join([shown, *pictures])
            self.cards[key] = Card(key, group.number, group.answers, whole, known.versions if known else {})
        self.cards = {group.answers[0].digest[:16]: self.cards[group.answers[0].digest[:16]] for group in shown_groups}
        return {
            "asked": html[0],
            "model": html[1],
            "scheme": html[2 : len(texts)],
            "cards": [
                (card, [self._called(answer.student) for answer in card.answers]) for card in self.cards.values()
            ],
            "state": self.state(),
        }

    def state(self) -> dict[str, Any]:
        """What the gradebook says of each card, how far all are marked, and which comments were given."""
        with marks.reading(self.course) as gradebook:
            held = by_hand.held(gradebook, self.entry, self.cell)[0] if gradebook else {}
        there = {*students_of(self.course, self.entry, self._students)}
        held = {student: mark for student, mark in held.items() if student in there}
        states, comments = {}, Counter[str]()
        shown = {answer.student for card in self.cards.values() for answer in card.answers}
        for card in self.cards.values():
            now = [Answer(answer.student, answer.text, held.get(answer.student, HandMark())) for answer in card.answers]
            version = _digest([[answer.student, answer.digest, *vars(answer.mark).values()] for answer in now])
            card.versions[version] = now
            states[card.key] = _stated(version, now)
            comments.update(answer.mark.comment for answer in now if answer.mark.comment)
        done = sum(state["done"] for state in states.values())
        return {
            "cards": states,
            "done": done,
            "all": len(shown),
            "new": sum(mark.waits for student, mark in held.items() if student not in shown),
            "comments": [comment for comment, _ in comments.most_common(MAX_SHOWN)],
        }

    def mark(self, asked: Any, by: str) -> None:
        """Write a mark as a browser asks for it, of the answers that it shows.

        Raises:
            Refused: it asks for nothing that can be written, or the answers are no longer what it shows.
        """
        match asked:
            case {"key": str(key), "version": str(version), "score": int() | float() as score, "comment": str(comment)}:
                pass
            case _:
                raise Refused("a mark is a score and a comment")
        card = self.cards.get(key)
        shown = card.versions.get(version) if card else None
        if isinstance(score, bool) or shown is None:
            raise Refused("these answers are no longer here: load the page again", HTTPStatus.CONFLICT)
        from autograder.gradebook.gradebook_writer import ChangedMeanwhile

        try:
            groups.mark(self.course, self.name, shown, float(score), comment.strip(), by)
        except ChangedMeanwhile as why:
            raise Refused(f"{why}: look again", HTTPStatus.CONFLICT) from why
        except CourseError as why:
            raise Refused(str(why)) from why

    def undo(self, by: str) -> str:
        """Take back what this person marked last; a sentence on what was done.

        Raises:
            Refused: there is nothing.
        """
        try:
            taken, changed = groups.undo(self.course, self.name, by=by)
        except CourseError as why:
            raise Refused("there is nothing of yours to take back", HTTPStatus.CONFLICT) from why
        kept = f"; {len(changed)} were marked since, and stay" if changed else ""
        return f"{len(taken.after) - len(changed)} answers have their earlier marks again{kept}"


def _stated(version: str, now: list[Answer]) -> dict[str, Any]:
    """What a browser is told of a card."""
    held = {(answer.mark.score, answer.mark.comment) for answer in now}
    by_person = [answer for answer in now if answer.mark.score is not None]
    score, comment = next(iter(held)) if len(held) == 1 else (None, None)
    return {
        "version": version,
        "done": sum(not answer.mark.waits for answer in now),
        "score": score,
        "comment": comment or "",
        "mixed": len(held) > 1,
        "again": sum(answer.mark.waits for answer in by_person),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def _source(notebook: str, cell: str) -> str:
    (lines,) = (written["source"] for written in json.loads(notebook)["cells"] if written["id"] == cell)
    return "".join(lines)


def _html(texts: list[str]) -> list[str]:
    """Markdown as clean HTML, made in a child with limits; what is too costly is shown as it was typed."""
    try:
        return limited.call(page.prose, texts, seconds=PROSE_SECONDS, memory_mb=PROSE_MB)
    except limited.TooCostly:
        if len(texts) == 1:
            return [html_cleaning.as_text(texts[0])]
        half = len(texts) // 2
        return _html(texts[:half]) + _html(texts[half:])


class _Handler(tornado.web.RequestHandler):
    """What all pages share: who may ask, and what a reply carries."""

    settings: dict[str, Any]

    def set_default_headers(self) -> None:
        """Let a page load and run nothing but its script, and nobody keep or frame it."""
        scripts = (f"'sha256-{layout.digest(path.read_text())}'" for path in (SCRIPT, layout.SCRIPT))
        self.set_header("Content-Security-Policy", " ".join((POLICY, *scripts)))
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        """Refuse a request without a session."""
        if not self.get_current_user():
            raise tornado.web.HTTPError(HTTPStatus.FORBIDDEN, "use the whole address that `autograder mark` printed")

    def get_current_user(self) -> str | None:
        """The session of a browser that once gave the token."""
        cookie = self.get_signed_cookie(self.settings["session"])
        return cookie.decode() if cookie else None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say in a sentence what went wrong, without a traceback."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        message = error.log_message if isinstance(error, tornado.web.HTTPError) else ""
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(f"{message or HTTPStatus(status_code).phrase}\n")

    def asked(self) -> Question:
        """The question of the address.

        Raises:
            HTTPError: there is none.
        """
        name, known = self.path_args[0], self.settings["questions"]
        try:
            if name not in known:
                about = self.settings["course"], name, self.settings["names"].of, self.settings["students"]
                known[name] = Question(*about)
        except CourseError as why:
            raise tornado.web.HTTPError(HTTPStatus.NOT_FOUND, "%s", str(why)) from why
        return known[name]


class _Begin(_Handler):
    """The address with the token: a browser that has it gets a session, and an address without it."""

    def prepare(self) -> None:
        """Let in a request with a session or the token."""
        if self.get_current_user():
            return
        given = self.get_query_argument("token", "")
        if not secrets.compare_digest(given.encode(), self.settings["token"].encode()):
            super().prepare()
        self.set_signed_cookie(
            self.settings["session"], secrets.token_hex(8), expires_days=None, httponly=True, samesite="Strict"
        )

    def get(self) -> None:
        """Go to the question that was asked for, or list all."""
        if self.get_query_argument("token", ""):
            first = self.settings["first"]
            self.redirect(f"/question/{first}" if first else "/")
            return
        rows = progress(self.settings["course"], self.settings["students"])
        self.write(layout.render("questions.html.jinja", title=self.settings["course"].title, rows=rows))


class _Page(_Handler):
    """The page of a question."""

    def get(self, name: str) -> None:
        """Show all answers."""
        question = self.asked()
        shown, settings = question.load(), self.settings
        self.write(
            layout.render(
                "mark.html.jinja",
                SCRIPT,
                title=settings["course"].title,
                found=question,
                named=settings["names"].shown,
                xsrf=self.xsrf_token.decode(),
                **shown,
            )
        )


class _State(_Handler):
    """What the gradebook says now: other people mark too."""

    def get(self, name: str) -> None:
        """All that can change while a page is open."""
        self.write(self.asked().state())


class _Change(_Handler):
    """A mark, or one that is taken back. Tornado refuses a request without the page's own token (xsrf_cookies)."""

    def post(self, name: str, what: str) -> None:
        """Write it, and answer with what the gradebook says then."""
        question, by = self.asked(), f"mark:{self.get_current_user()}"
        try:
            asked = json.loads(self.request.body or b"{}")
            message = ""
            if what == "undo":
                message = question.undo(by)
            else:
                question.mark(asked, by)
        except (ValueError, Refused) as why:
            self.set_status(why.status if isinstance(why, Refused) else HTTPStatus.BAD_REQUEST)
            self.write({"why": str(why), **question.state()})
            return
        self.write({"told": message, **question.state()})


def progress(course: Course, students: Collection[str] | None = None) -> list[dict[str, Any]]:
    """For each written question of notebooks that were handed in: how many answers there are, and how many wait.

    With `students` only their answers and those of their teams count.
    """
    rows = []
    with marks.reading(course) as gradebook:
        for entry in course.handed_in(course.notebooks):
            for question, cell in groups.questions(course, entry).items():
                held, points = by_hand.held(gradebook, entry, cell) if gradebook else ({}, 0.0)
                there = {*students_of(course, entry, students)}
                held = {student: mark for student, mark in held.items() if student in there}
                waits = sum(mark.waits for mark in held.values())
                rows.append({"question": question, "points": points, "waits": waits, "all": len(held)})
    return rows


def application(
    course: Course, token: str, question: str = "", names: bool = False, students: Collection[str] | None = None
) -> tornado.web.Application:
    """The server's pages. Only addresses of this machine are answered: no other name leads to it (DNS rebinding)."""
    from autograder.gradebook import gradebook_writer  # imported here, not at the first mark

    assert gradebook_writer
    of = secrets.token_hex(4)  # cookies are shared by all servers of a machine, whatever their port
    rules = [
        (r"/", _Begin),
        (r"/question/([\w.]+)", _Page),
        (r"/question/([\w.]+)/state", _State),
        (r"/question/([\w.]+)/(mark|undo)", _Change),
    ]
    made = tornado.web.Application(
        cookie_secret=secrets.token_hex(32),
        xsrf_cookies=True,
        xsrf_cookie_name=f"xsrf_{of}",
        xsrf_cookie_kwargs={"httponly": True, "samesite": "Strict"},
        log_function=lambda handler: None,
        course=course,
        token=token,
        first=question,
        session=f"session_{of}",
        names=Names(course, names),
        students=students,
        questions={},
    )
    made.add_handlers(r"(127\.0\.0\.1|localhost)", rules)
    return made


async def serve(
    course: Course,
    question: str,
    port: int,
    names: bool,
    on_ready: Callable[[str], None],
    students: Collection[str] | None = None,
) -> None:
    """Serve until this is cancelled; `on_ready` is told the address, with the token.

    With `students` the pages show only their answers and those of their teams.

    Raises:
        CourseError: the port is in use.
    """
    token = secrets.token_urlsafe(24)
    try:
        sockets = tornado.netutil.bind_sockets(port, HERE)
    except OSError as taken:
        raise CourseError(f"port {port} cannot be used ({taken.strerror}): choose another with --port") from None
    pages = application(course, token, question, names, students)
    server = tornado.httpserver.HTTPServer(pages, max_body_size=MAX_BODY)
    server.add_sockets(sockets)
    on_ready(f"http://{HERE}:{sockets[0].getsockname()[1]}/?token={token}")
    await asyncio.Event().wait()
