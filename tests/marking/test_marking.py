"""The page on which people mark the answers to a question: who may use it, what it writes, and how it is used."""

import asyncio
import http.client
import json
import re
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from bs4 import BeautifulSoup
from helpers import canned, copied, keep, outcome
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli
from autograder import course as courses
from autograder.author import build, mark_scheme
from autograder.course import CourseError, folder_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.gradebook.by_hand import HandMark
from autograder.gradebook.pseudonyms import Names
from autograder.grading import run_lock
from autograder.marking import server
from autograder.similarity import groups
from autograder.similarity.texts import TfIdf

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COURSE = courses.load()
CELL, QUESTION = "written_1_W1", "1.W1"
COPIES = "It copies the **next** token, `mask` hides it: $x_{t+1}$."
HOSTILE = (
    "<script>document.title='ran'</script><img src=x onerror=document.title='ran'> [x](javascript:document.title='ran')"
)
STUDENTS = {
    "ada": COPIES,
    "bo": f"{COPIES}\n",
    "cy": "It  copies the **next** token,\n`mask` hides it: $x_{t+1}$.",
    "di": "overfitting",
    "ed": HOSTILE,
    "flo": "",
}


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """A graded class of which three gave the same answer to 1.W1, and one none."""
    known = copied(built, tmp_path_factory.mktemp("marking"))
    job, done, notebook = canned(known, "first")
    shutil.rmtree(known.tree / "submitted")
    for student, text in STUDENTS.items():
        hand_in(known, (job, done, notebook), student, text)
    return known


@pytest.fixture
def school(graded, tmp_path):
    """The same class with a tree of its own."""
    tree = tmp_path / "tree"
    shutil.copytree(graded.tree, tree)
    return graded.model_copy(update={"tree": tree})


def hand_in(known, made, student, text):
    job, done, notebook = made
    read = nbformat.reads(notebook, as_version=4)
    next(cell for cell in read.cells if cell.id == CELL).source = text or "YOUR ANSWER HERE"
    written = nbformat.writes(read)
    course_tree.write(course_tree.place(known, "submitted", known.notebooks[0], student), written)
    keep(known, type(job)(**vars(job) | {"student": student}), type(done)(**vars(done) | {"student": student}), written)


def held(known):
    """What the gradebook holds of everybody's answer: score, whether it waits, comment."""
    with groups.marks.reading(known) as gradebook:
        found, _ = groups.by_hand.held(gradebook, known.notebooks[0], CELL)
    return found


def by_person(known, student, score):
    """Mark an answer as formgrader does."""
    entry = known.notebooks[0]
    with Gradebook(course_tree.database(known), known.course_id) as gradebook:
        book = gradebook.find_submission_notebook(entry.name, entry.name, student)
        grade = next(one for one in book.grades if one.name == CELL)
        grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.db.commit()


class Browser:
    """An assistant's browser, as far as it keeps cookies and asks."""

    def __init__(self, address):
        self.place, _, self.token = address.removeprefix("http://").partition("/?token=")
        self.cookies, self.xsrf = {}, ""

    def __call__(self, path, body=None, **headers):
        line = http.client.HTTPConnection(self.place, timeout=30)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} | headers
        sent = body if isinstance(body, str | None) else json.dumps(body)
        line.request("GET" if body is None else "POST", path, sent, headers)
        reply = line.getresponse()
        self.headers = reply.headers
        for cookie in reply.headers.get_all("Set-Cookie", []):
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value
        text = reply.read().decode()
        line.close()
        return reply.status, json.loads(text) if "json" in reply.headers.get("Content-Type", "") else text

    def enter(self):
        """Open the page of the question; its soup, with what it states of the cards."""
        assert self(f"/?token={self.token}")[0] == 302
        status, text = self(f"/question/{QUESTION}")
        assert status == 200
        soup = BeautifulSoup(text, "html.parser")
        form = soup.find(id="form")
        self.xsrf, self.state = form["data-xsrf"], json.loads(form["data-state"])
        self.keys = {part["data-students"]: part["data-key"] for part in soup("article")}
        return soup

    def mark(self, key, score, comment="", /, **changes):
        asked = {"key": key, "version": self.state["cards"][key]["version"], "score": score, "comment": comment}
        return self.send("mark", asked | changes)

    def send(self, what, body):
        return self(f"/question/{QUESTION}/{what}", body, **{"X-XSRFToken": self.xsrf})


@pytest.fixture
def served(school):
    """The address of a server for the class, in a thread of this process."""
    ready, address = threading.Event(), []
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve(school, QUESTION, 0, True, lambda url: (address.append(url), ready.set())))

    def run():
        asyncio.set_event_loop(loop)
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    yield address[0]
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


def test_equal_answers_are_one_and_get_one_mark(school, served):
    browser = Browser(served)
    soup = browser.enter()
    assert [part["data-students"] for part in soup("article")] == ["ada, bo, cy", "di", "ed"]
    assert "1 submissions have no answer" in soup.text and browser.state["all"] == 5 and browser.state["done"] == 0
    asked, scheme = soup.find(class_="asked").text, [item.text for item in soup.find(id="scheme")("li")]
    assert "Question 1.W1" in asked and len(scheme) == 4 and scheme[0].startswith("One point: the target at a position")
    assert soup.article.strong.text == "next" and soup.article.find("math")
    key, before = browser.keys["ada, bo, cy"], outcome(school)
    status, told = browser.mark(key, 1.5, " Right. ")
    assert status == 200 and told["done"] == 3 and told["comments"] == ["Right."]
    assert told["cards"][key]["score"] == 1.5 and told["cards"][key]["done"] == 3
    mine = HandMark(1.5, False, "Right.")
    assert held(school) == {
        name: mine if name in ("ada", "bo", "cy") else HandMark(None, name != "flo") for name in STUDENTS
    }
    browser.state = told
    assert browser.mark(browser.keys["di"], 0)[0] == 200
    assert browser.send("undo", {})[1]["told"] == "1 answers have their earlier marks again"
    assert browser.send("undo", {})[0] == 200 and outcome(school) == before
    assert browser.send("undo", {})[0] == 409


def test_codes_stand_for_students_unless_names_are_asked_for(school):
    question = server.Question(school, QUESTION, Names(school).of)
    assert {name for _, names in question.load()["cards"] for name in names}.isdisjoint(STUDENTS)


def test_answers_are_in_the_order_of_their_groups(school):
    found = groups.grouped(school, QUESTION, TfIdf())
    whole, points, empty = groups.distinct(school, QUESTION)
    assert [one.number for one in whole] == sorted(one.number for one in whole) and (points, empty) == (2, 1)
    assert len(whole) == 3 and {one.number for one in found.groups} == {one.number for one in whole}


@pytest.mark.parametrize("path", ["/", "/question/1.W1", "/question/1.W1/state", "/?token=wrong", "/?token="])
def test_nobody_reads_without_the_token(served, path):
    browser = Browser(served)
    status, text = browser(path)
    assert status == 403 and "overfitting" not in text and "printed" in text
    assert not browser.cookies


def test_nobody_marks_without_session_and_the_pages_own_token(school, served):
    """A page of another site that makes a browser send a form has neither; the session's cookie is not sent with it."""
    browser, before = Browser(served), outcome(school)
    browser.enter()
    key = browser.keys["di"]
    asked = {"key": key, "version": browser.state["cards"][key]["version"], "score": 2, "comment": ""}
    place = f"/question/{QUESTION}/mark"
    assert browser(place, asked)[0] == 403
    assert browser(place, asked, **{"X-XSRFToken": "2|00000000|00|1700000000"})[0] == 403
    stranger = Browser(served)
    assert stranger(place, asked, **{"X-XSRFToken": browser.xsrf})[0] == 403
    assert browser(place, asked, **{"X-XSRFToken": browser.xsrf, "Host": "evil.example"})[0] == 404
    assert browser("/", Host="evil.example:80")[0] == 404
    assert outcome(school) == before
    assert browser(place, asked, **{"X-XSRFToken": browser.xsrf})[0] == 200


def test_what_a_reply_allows(served):
    browser = Browser(served)
    browser(f"/?token={browser.token}")
    (session,) = browser.headers.get_all("Set-Cookie")
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in session.split(";")}
    browser.enter()
    policy = browser.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script-src 'sha256-" in policy
    assert not re.search(r"script-src[^;]*unsafe", policy) and "connect-src 'self'" in policy
    assert browser.headers["Cache-Control"] == "no-store" and browser.headers["X-Content-Type-Options"] == "nosniff"
    host, port = browser.place.split(":")
    assert host == "127.0.0.1"
    others = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None)} - {"127.0.0.1", "::1"}
    for other in others:
        with socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET) as line:
            assert line.connect_ex((other, int(port))), "it listens on another address"


@pytest.mark.parametrize(
    "changes",
    [
        *({"score": score} for score in (2.5, -1, "2", None, True, float("nan"), float("inf"), [])),
        *({"comment": comment} for comment in ("x" * 2001, None, 7)),
        *({"key": "nothing"}, {"version": "nothing"}, {"key": ["x"]}),
    ],
)
def test_what_is_no_mark_is_refused(school, served, changes):
    browser, before = Browser(served), outcome(school)
    browser.enter()
    status, told = browser.mark(browser.keys["di"], 1, **changes)
    assert status in (400, 409) and told["why"] and outcome(school) == before


@pytest.mark.parametrize("body", ["", "{", "[]", "7", '"x"', "x" * 20_000])
def test_what_is_no_request_is_refused(school, served, body):
    browser, before = Browser(served), outcome(school)
    browser.enter()
    try:
        status, _ = browser.send("mark", body)
    except ConnectionError:
        status = 400  # too long to be read
    assert 400 <= status < 500 and outcome(school) == before


def test_two_people_lose_nothing(school, served):
    """The second sees the first one's mark before it is replaced; each takes back what is theirs."""
    first, second = Browser(served), Browser(served)
    first.enter()
    second.enter()
    key = first.keys["ada, bo, cy"]
    assert first.mark(key, 2, "Good.")[0] == 200
    status, told = second.mark(key, 0)
    assert status == 409 and "marked" in told["why"] and told["cards"][key]["score"] == 2
    assert held(school)["ada"] == HandMark(2.0, False, "Good.")
    second.state = told
    assert second.mark(second.keys["di"], 1)[0] == 200
    assert second.send("undo", {})[0] == 200 and held(school)["ada"].score == 2.0 and held(school)["di"].score is None
    assert second.send("undo", {})[0] == 409, "the other's mark is not theirs to take back"
    by_person(school, "bo", 0.5)
    assert first.send("undo", {})[1]["told"].startswith("2 answers have their earlier marks again; 1 were marked since")
    assert held(school)["bo"].score == 0.5


def test_many_who_mark_at_once_lose_nothing(school):
    """In processes of their own as far as locks go: each mark is in the gradebook and in the log, or was refused."""
    found, *_ = groups.distinct(school, QUESTION)
    shown = {one.answers[0].student: one.answers for one in found}

    def mark(task):
        number, whose = task
        try:
            groups.mark(school, QUESTION, shown[whose], number / 8, f"by {number}", f"person {number}")
        except gradebook_writer.ChangedMeanwhile:
            return None
        return whose, number

    tasks = [(number, whose) for number in range(4) for whose in ("ada", "di", "ed")]
    with ThreadPoolExecutor(4) as threads:
        done = [one for one in threads.map(mark, tasks) if one]
    assert sorted(whose for whose, _ in done) == ["ada", "di", "ed"], "of each answer one person was the first"
    marks = held(school)
    for whose, number in done:
        assert marks[whose] == HandMark(number / 8, False, f"by {number}")
    assert {(one.by, *one.after) for one in groups.given_marks(school, QUESTION)} == {
        (f"person {number}", *(answer.student for answer in shown[whose])) for whose, number in done
    }


def test_marking_and_undo_do_not_wait_for_a_run(school):
    found, *_ = groups.distinct(school, QUESTION)
    with run_lock.exclusive_run(school):
        groups.mark(school, QUESTION, found[0].answers, 1, "", "me")
        assert held(school)["ada"].score == 1.0
        groups.undo(school, QUESTION, by="me")
        groups.grouped(school, QUESTION, TfIdf())
        assert groups.apply(school, QUESTION, 1, 0.5)[0] > 0
    assert sum(mark.score == 0.5 for mark in held(school).values()) > 0


def test_an_answer_that_is_graded_anew_is_not_marked_unseen(school):
    found, *_ = groups.distinct(school, QUESTION)
    hand_in(school, canned(school, "di"), "di", "quite another answer")
    (overfitting,) = (one for one in found if one.answers[0].student == "di")
    with pytest.raises(gradebook_writer.ChangedMeanwhile, match="handed in again"):
        groups.mark(school, QUESTION, overfitting.answers, 0, "", "me")
    assert held(school)["di"] == HandMark()


def test_a_mark_of_formgrader_at_the_same_moment_is_not_overwritten(school, monkeypatch):
    """It is written after we looked, and before we write."""
    entry, before = school.notebooks[0], held(school)
    look = gradebook_writer.by_hand.differing

    def looked(now, wanted):
        found = look(now, wanted)
        by_person(school, "bo", 2.0)
        return found

    monkeypatch.setattr(gradebook_writer.by_hand, "differing", looked)
    after = {student: HandMark(0.0, False, "x") for student in ("ada", "bo", "cy")}
    with (
        gradebook_writer.open_recorder(school) as recorder,
        pytest.raises(gradebook_writer.ChangedMeanwhile, match="bo"),
    ):
        recorder.mark(entry, CELL, before, after)
    assert held(school)["bo"].score == 2.0 and held(school)["ada"] == before["ada"], "all are written or none"


def test_the_scheme_is_a_list():
    written = "### BEGIN SOLUTION\nBecause.\n=== BEGIN MARK SCHEME ===\nOne point: a\nand b.\nHalf a point off if c.\n"
    written += "No point for d:\ne.\n- f\n=== END MARK SCHEME ===\n### END SOLUTION"
    assert mark_scheme.model_answer(written) == "Because."
    assert mark_scheme.items(written) == ["One point: a and b.", "Half a point off if c.", "No point for d: e.", "f"]
    text = 'One point: a point (one). One\npoint: say "b." No point\nfor c.'
    written = f"=== BEGIN MARK SCHEME ===\n{text}\n=== END MARK SCHEME ==="
    assert mark_scheme.items(written) == ["One point: a point (one).", 'One point: say "b."', "No point for c."]
    assert mark_scheme.items("no scheme") == []


def test_every_question_of_the_course_has_a_scheme():
    for entry in COURSE.notebooks:
        written = [part for part in build.parts(folder_of(entry) / "notebook.py") if "written" in part.metadata]
        assert written, entry.name
        for part in written:
            assert 2 <= len(mark_scheme.items(part.source)) <= 8, part.metadata
            model = mark_scheme.model_answer(part.source)
            assert model and "MARK SCHEME" not in model and "SOLUTION" not in model


def test_the_command_says_what_it_cannot(school):
    run = CliRunner().invoke
    known = ["--tree", str(school.tree), "mark"]
    assert "no written question 1.W7; it has 1.W1" in str(run(cli.app, [*known, "1.W7"]).exception)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run(cli.app, [*known, QUESTION, "--port", str(taken.getsockname()[1])])
    assert isinstance(ended.exception, CourseError) and "choose another with --port" in str(ended.exception)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")
def test_a_question_is_marked_with_the_keyboard(school, served):
    """In a browser: points, comment, a comment that was given already, undo, a mark of somebody else, nothing runs."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        errors = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(served)
        heading, told, keys = page.locator("#heading"), page.locator("#told"), page.keyboard
        expect(page.locator("#heading")).to_contain_text("Answer 1 of 3")
        assert "3 students, not marked" in heading.inner_text() and "token" not in page.url
        keys.press("9")
        expect(page.locator("#told.warn")).to_have_text("9 is more than the 2 points of this question.")
        keys.press("1")
        keys.press("h")
        keys.press("t")
        keys.insert_text("Where is the evidence? <b>")
        keys.press("Control+Enter")
        expect(page.locator("#heading")).to_contain_text("Answer 2 of 3")
        assert "Saved: 1.5 points for 3 students" in told.inner_text()
        assert held(school)["cy"] == HandMark(1.5, False, "Where is the evidence? <b>")
        assert "3 of 5 answers marked, 2 of 3 different ones wait" in page.locator("#counts").inner_text()
        keys.press("0")
        keys.press("a")  # the comment that was given already
        keys.press("Enter")
        expect(page.locator("#heading")).to_contain_text("Answer 3 of 3")
        assert held(school)["di"] == HandMark(0.0, False, "Where is the evidence? <b>")
        assert "onerror" in page.locator("article:visible").inner_text() and page.title().startswith("1.W1")
        keys.press("u")
        expect(page.locator("#told")).to_contain_text("earlier marks again")
        assert held(school)["di"] == HandMark() and held(school)["cy"].score == 1.5
        keys.press("w")
        expect(page.locator("#heading")).to_contain_text("Answer 2 of 3")
        by_person(school, "di", 0.25)
        keys.press("2")
        keys.press("Enter")
        expect(page.locator("#told.warn")).to_be_visible()
        assert "marked" in told.inner_text() and held(school)["di"].score == 0.25
        assert "marked: 0.25" in heading.inner_text()
        keys.press("Enter")  # having seen it
        expect(page.locator("#told")).to_contain_text("Saved: 2 points")
        assert held(school)["di"].score == 2.0
        assert page.title().startswith("1.W1"), "something of an answer ran"
        assert all("409" in error for error in errors), errors
        page.set_viewport_size({"width": 360, "height": 640})
        assert page.locator("main").bounding_box()["width"] <= 360
        browser.close()
