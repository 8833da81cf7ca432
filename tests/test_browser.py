"""The built notebook as a student meets it: JupyterLab in a real browser, a wrong answer, then a right one."""

import dataclasses
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import CHROMIUM, copied, formgrader, jupyter
from helpers import CHROMIUM_ARGUMENTS as ARGUMENTS

from autograder import course, synthetic
from autograder.author import answers, build, release
from autograder.cells import CellRole, role_of
from autograder.gradebook import course_tree, gradebook_writer
from autograder.grading import grade
from autograder.grading.grading_record import UNGRADABLE, Record, jobs, load_record
from autograder.intake import restore
from autograder.reports import feedback, report
from utils import plots
from utils.interactive import interactive

PICTURES = Path(os.environ.get("PICTURES", ""))  # where to leave screenshots, if anywhere
COURSE = course.load()
ENTRY = COURSE.notebooks[0]
EXERCISE = "1.2"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on the released course; its address."""
    home = tmp_path_factory.mktemp("lab")
    release.release(COURSE, home / "course")
    settings = home / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    env = os.environ | {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "HOME": str(home)}
    env |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    with jupyter("jupyterlab", home, f"--ServerApp.root_dir={home / 'course'}", env=env) as address:
        yield address


@pytest.fixture(scope="module")
def page(lab):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(60_000)
        page.goto(f"{lab}/lab/tree/notebooks/{ENTRY.name}.ipynb")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for()
        yield page
        browser.close()


def number_of(name):
    """The place of a cell in the notebook."""
    cells = build.student_notebook(COURSE, ENTRY).cells
    return next(index for index, cell in enumerate(cells) if cell.id == name)


def run(page, name, text=None):
    """Type `text` into a cell, if given, run it and answer with what it printed.

    A cell whose prompt does not change is run again. Once, the first cell did not run: no dialog, and an idle kernel.
    """
    from playwright.sync_api import TimeoutError

    cell = page.locator(".jp-Notebook .jp-Cell").nth(number_of(name))
    cell.scroll_into_view_if_needed()
    before = cell.locator(".jp-InputPrompt").inner_text().strip()
    prompt = "cell.querySelector('.jp-InputPrompt').innerText.trim()"
    begun = f"([cell, before]) => {prompt} != before"
    done = f"{begun} && /^\\[\\d+\\]:$/.test({prompt})"
    try:
        for attempt in range(4):
            cell.locator(".cm-content").click()
            if text is not None:
                page.keyboard.press("Control+A")
                page.keyboard.insert_text(text)
            page.keyboard.press("Control+Enter")
            try:
                page.wait_for_function(begun, arg=[cell.element_handle(), before], timeout=15_000)
                break
            except TimeoutError:
                if attempt == 3:
                    raise
        page.wait_for_function(done, arg=[cell.element_handle(), before])
    except TimeoutError as late:  # JupyterLab says why in a dialog, if at all
        dialogs = page.locator(".jp-Dialog-content").all_inner_texts()
        status = page.locator(".jp-Notebook-ExecutionIndicator").first.get_attribute("data-status")
        raise AssertionError(f"{name} does not run; kernel: {status}; dialogs: {dialogs}") from late
    return "\n".join(cell.locator(".jp-OutputArea-output").all_inner_texts())


def photograph(page, name):
    if PICTURES.name:
        page.screenshot(path=PICTURES / name)


def test_a_wrong_answer_is_named_and_a_right_one_passes(page):
    cases = [case for case in answers.answer_cases(ENTRY) if case.exercise == EXERCISE]
    wrong = next(case for case in cases if not case.right and not case.private)
    right = next(case for case in cases if case.right)
    suffix = EXERCISE.replace(".", "_")
    run(page, "setup")
    for cell in answers.preamble(build.student_notebook(COURSE, ENTRY)):
        run(page, cell.id)

    run(page, f"exercise_{suffix}")
    assert "not attempted yet" in run(page, f"check_{suffix}")

    run(page, f"exercise_{suffix}", wrong.source)
    said = run(page, f"check_{suffix}")
    photograph(page, "wrong.png")
    assert wrong.is_told(said) and "Traceback" not in said and "assert" not in said

    run(page, f"exercise_{suffix}", right.source)
    said = run(page, f"check_{suffix}")
    photograph(page, "right.png")
    assert f"Exercise {EXERCISE}: passed (2 points)" in said


def test_the_last_cell_shows_a_table_of_all_exercises(page):
    notebook = build.student_notebook(COURSE, ENTRY)
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    shown = run(page, last.id)
    photograph(page, "scoreboard.png")
    assert "check not run yet" in shown and "passed" in shown and "written questions aside" in shown


def test_a_wrong_value_is_shown_beside_the_right_one_in_light_and_dark(page):
    cases = [case for case in answers.answer_cases(ENTRY) if case.exercise == "1.1"]
    wrong = next(case for case in cases if case.name == "mask before the division")
    run(page, "setup")
    for cell in answers.preamble(build.student_notebook(COURSE, ENTRY)):
        run(page, cell.id)
    run(page, "exercise_1_1", wrong.source)
    said = run(page, "check_1_1")
    assert wrong.is_told(said) and "entries differ; they are marked with \u2260" in said
    tables = page.locator(".jp-Notebook .jp-Cell").nth(number_of("check_1_1")).locator("table")
    assert [one.inner_text() for one in tables.locator("caption").all()] == ["your result", "the right result"]
    for theme in ("Dark", "Light"):
        page.locator(".lm-MenuBar-item", has_text="Settings").click()
        page.locator(".lm-Menu-item[data-type=submenu]", has_text="Theme").first.hover()
        page.locator(".lm-Menu-item", has_text=f"JupyterLab {theme}").first.click()
        page.locator(f"body[data-jp-theme-name='JupyterLab {theme}']").wait_for(state="attached")
        colours = [
            tables.locator("td[style*=outline]").first.evaluate(f"at => getComputedStyle(at).{what}")
            for what in ("color", "outlineColor")
        ]
        red = [int(one.removeprefix("rgba").removeprefix("rgb").strip("()").split(",")[0]) for one in colours]
        assert all(one > 150 if theme == "Dark" else one < 100 for one in red), (theme, colours)
        photograph(page, f"values-{theme.lower()}.png")


PLAYED = """
from utils import plots
from utils.interactive import interactive
draw = lambda a, b: plots.bars({"": [a, b]}, labels=["a", "b"], ylabel="y", alt=f"{a} and {b}")
interactive(draw, a=[1, 2], b=[3, 4, 5])
"""


def test_a_figure_with_sliders_is_moved_by_keys_in_the_notebook(page):
    name = f"exercise_{EXERCISE.replace('.', '_')}"
    run(page, name, PLAYED)
    shown = page.locator(".jp-Notebook .jp-Cell").nth(number_of(name)).locator("[role=group]")
    image, first, second = (
        shown.locator("img"),
        shown.get_by_label("a", exact=True),
        shown.get_by_label("b", exact=True),
    )
    before = image.get_attribute("src")
    assert image.get_attribute("alt") == "1 and 3" and image.evaluate("one => one.naturalWidth") > 100
    second.press("ArrowRight")
    second.press("ArrowRight")
    first.press("ArrowRight")
    photograph(page, "sliders.png")
    assert image.get_attribute("alt") == "2 and 5" and image.get_attribute("src") != before
    assert second.get_attribute("aria-valuetext") == "5" and shown.locator("output").all_inner_texts() == ["2", "5"]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_saved_figure_with_sliders_needs_no_kernel_and_stands_still_without_scripts(page, tmp_path, scripts):
    drawn = {"labels": ["a"], "ylabel": "y"}
    figure = interactive(lambda a: plots.bars({"": [a]}, alt=f"now {a}", **drawn), a=[1, 2, 3], start={"a": 2})
    (tmp_path / "saved.html").write_text(figure.html())
    saved = page.context.browser.new_page(viewport={"width": 360, "height": 640}, java_script_enabled=scripts)
    saved.goto((tmp_path / "saved.html").as_uri())
    image = saved.locator("img")
    assert image.get_attribute("alt") == "now 2" and image.bounding_box()["width"] <= 360
    saved.get_by_label("a").press("ArrowRight")
    assert image.get_attribute("alt") == ("now 3" if scripts else "now 2")
    saved.close()


HOSTILE = """
from IPython.display import HTML, Javascript, Markdown, display

for text in ("<script>hostile()</script>", "<img src=x onerror=hostile()>", "<svg onload=hostile()>",
             "<a id=trap href='javascript:hostile()'>click</a>", "<img src=http://hostile.example/x>",
             "$\\\\href{javascript:hostile()}{x}$", "<details open ontoggle=hostile()>x</details>"):
    display(HTML(text))
    display(Markdown(text))
display(Javascript("hostile()"))
display({"image/png": 'AAAA" onerror="hostile()'}, raw=True)
print("</pre><script>hostile()</script>")
raise type("<script>hostile()</script>", (Exception,), {})("<img src=x onerror=hostile()>")
"""
LINKS = """
<script>hostile()</script> <img src=x onerror=hostile()> ![x](http://hostile.example/x)

[a](javascript:hostile()) [a](javajavascript:script:hostile()) [a](java&#115;cript:hostile())
[a](javascript&colon;hostile()) <javascript:hostile()> [a][b]

[b]: javascript:hostile()
"""


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="  # one pixel
WAYS = ("<script>hostile()</script>", "<img src=x onerror=hostile()>", "<script src=//hostile.example/x></script>")


@pytest.fixture(scope="module")
def hostile_class(built, tmp_path_factory):
    """A graded class whose texts want to run a script in their reader's browser, whatever their way."""
    import nbformat

    known = copied(built, tmp_path_factory.mktemp("pages"))

    def change(notebook):
        first = next(index for index, cell in enumerate(notebook.cells) if role_of(cell.id) is CellRole.EXERCISE)
        notebook.cells.insert(first, nbformat.v4.new_code_cell(HOSTILE))
        notebook.cells += [nbformat.v4.new_markdown_cell(LINKS), nbformat.v4.new_raw_cell(LINKS)]
        notebook.cells += [nbformat.v4.new_markdown_cell(line) for line in LINKS.splitlines() if line]
        for cell in notebook.cells:
            if role_of(cell.id) is CellRole.WRITTEN:
                cell.source = LINKS
        own = next(
            cell
            for cell in notebook.cells
            if cell.id.startswith("after_1") and cell.id in restore.illustrating(notebook)
        )
        own.outputs = [
            nbformat.v4.new_output("stream", name="stdout", text="own output </pre><script>hostile()</script>"),
            nbformat.v4.new_output("display_data", data={"image/png": 'AAAA" onerror="hostile()'}),
            nbformat.v4.new_output("display_data", data={"image/png": PIXEL, "text/html": WAYS[0]}),
        ]
        own.metadata.tags = ["experiment"]  # no word of a submission about its own cells counts

    raising = "raise type('<script>hostile()</script>', (Exception,), {})('\"><img src=x onerror=hostile()>')"
    file = synthetic.Maker(known, ENTRY).file({"1.1": raising}, (), change)
    course_tree.write(course_tree.place(known, "submitted", ENTRY, "mallory"), file)
    grade.grade(known, [ENTRY])
    said = " ".join(WAYS)
    with gradebook_writer.open_recorder(known) as recorder:  # whatever a reason, a remark or a row may say one day
        (job,) = jobs(known, ENTRY)
        graded = job.known
        graded.remarks += [f"remark {said}"]
        graded.verdicts[0] = dataclasses.replace(
            graded.verdicts[0], message=f"message {said}", instructor_only=f"private {said}"
        )
        notebook = course_tree.place(known, "autograded", ENTRY, "mallory").read_text()
        grade.keep(known, recorder, job, graded, notebook)
    for number, way in enumerate(WAYS):  # quoted by a parser, or by anybody else
        quoted = json.dumps({way: 1, "nbformat": 3})
        course_tree.write(
            course_tree.place(known, "submitted", ENTRY, f"refused{number}"), b"\xef\xbb\xbf" + quoted.encode()
        )
    course_tree.write(course_tree.place(known, "submitted", ENTRY, "reason"), "{}")
    grade.grade(known, [ENTRY])
    with gradebook_writer.open_recorder(known) as recorder:
        job = next(job for job in jobs(known, ENTRY) if job.student == "reason")
        grade.keep(known, recorder, job, Record("reason", ENTRY.name, UNGRADABLE, f"hostile {said}"), "")
    assert course_tree.nbgrader_api(known).generate_feedback(ENTRY.name)["success"]
    (known.tree / "feedback").rename(known.tree / "stock")
    # Once those pages are written: nbgrader trusts its comments.
    with gradebook_writer.open_recorder(
        known
    ) as recorder:  # once those pages are written: nbgrader trusts its comments
        marked = recorder.gradebook.find_submission_notebook(ENTRY.name, ENTRY.name, "mallory")
        for comment in marked.comments:
            comment.manual_comment = f"comment {said}"
        recorder.gradebook.db.commit()
    return known


@pytest.fixture(scope="module")
def hostile_pages(hostile_class):
    """Feedback, ours and nbgrader's, and report of that class; of the refusals that which says what one might say."""
    pages = feedback.write_feedback(hostile_class, [ENTRY])
    pages += sorted(hostile_class.tree.glob("stock/*/*/*.html"))
    return [page for page in pages if "refused" not in str(page)] + [report.write_report(hostile_class, [ENTRY])]


def test_a_refusal_quotes_nothing(hostile_class):
    for number in range(len(WAYS)):
        known = load_record(hostile_class, ENTRY, f"refused{number}")
        assert known.status == UNGRADABLE and "<" not in known.reason and "hostile" not in known.reason
        assert "hostile" not in course_tree.place(hostile_class, "autograded", ENTRY, f"refused{number}").read_text()


@pytest.fixture(scope="module")
def server(hostile_class):
    """The address of a Jupyter server with formgrader, as an instructor starts it in the course tree."""
    with formgrader(hostile_class.tree) as address:
        yield address


def look_at_submissions(address, numbers):
    """What formgrader's pages of these submissions ran, asked for and showed; a score that is typed is kept."""
    from playwright.sync_api import sync_playwright

    ran, asked, shown = [], [], {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for student, number in numbers.items():
            page = browser.new_page()
            page.set_default_timeout(120_000)
            page.add_init_script("window.ran = []; window.hostile = () => window.ran.push(document.title)")
            page.on("request", lambda request: asked.append(request.url))
            page.route("**/*", lambda route: route.continue_() if address in route.request.url else route.abort())
            answer = page.goto(f"{address}/formgrader/submissions/{number}/", wait_until="load")
            policy = answer.headers["content-security-policy"]
            page.locator("input.score").first.wait_for()  # formgrader's own scripts run
            page.wait_for_function(
                "window.formgrader && formgrader.comments && formgrader.comments.loaded && formgrader.grades.loaded"
            )
            shown[student] = (
                policy,
                page.inner_text("body"),
                [box.input_value() for box in page.locator("textarea").all()],
                page.locator(f"img[src*='{PIXEL[:60]}']").count(),
            )
            photograph(page, f"formgrader_{student}.png")
            ran += page.evaluate("window.ran")
            page.close()
        browser.close()
    return ran, asked, shown


def test_formgrader_shows_all_that_and_runs_nothing(hostile_class, server):
    with gradebook_writer.open_recorder(hostile_class) as recorder:
        numbers = {
            student: recorder.gradebook.find_submission_notebook(ENTRY.name, ENTRY.name, student).id
            for student in ("mallory", "reason")
        }
    with ThreadPoolExecutor(1) as thread:
        ran, asked, shown = thread.submit(look_at_submissions, server, numbers).result()
    assert ran == [] and [url for url in asked if "hostile.example" in url] == []
    for student, (policy, text, comments, pictures) in shown.items():
        assert ("own output </pre><script>hostile()" in text, pictures) == (
            (student == "mallory"),
            student == "mallory",
        )
        assert "How it is marked" in text or student != "mallory"
        assert "script-src 'self'" in policy and "object-src 'none'" in policy, student
        assert any("comment <script>hostile()</script>" in comment for comment in comments) == (student == "mallory")
        assert "hostile()" in text, student
    assert "hostile <script>hostile()</script>" in shown["reason"][1] and "onerror=hostile()" in shown["mallory"][1]


PROTOCOLS = "[...document.querySelectorAll('[href], [src], [action]')].map(at => at.protocol || new URL(\
at.getAttribute('href') ?? at.getAttribute('src') ?? at.getAttribute('action'), document.baseURI).protocol)"


CLICK_ALL = """
document.addEventListener('click', event => event.preventDefault())  // what a click runs, not where it leads
for (const at of document.querySelectorAll('*'))
    at.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))
"""


def look(pages):
    """What the pages ran and asked for, and the protocols of their links and sources as the browser reads them."""
    from playwright.sync_api import sync_playwright

    ran, asked, protocols = [], [], set()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for path in pages:
            page = browser.new_page()
            page.add_init_script("window.ran = []; window.hostile = () => window.ran.push(document.title)")
            page.on("request", lambda request: asked.append(request.url))
            page.route("http**", lambda route: route.abort())
            page.goto(path.as_uri())
            assert "hostile" in page.content()  # it is there, as text
            page.evaluate(CLICK_ALL)
            page.wait_for_timeout(1000)
            ran += page.evaluate("window.ran")
            protocols |= set(page.evaluate(PROTOCOLS))
            page.close()
        browser.close()
    return ran, asked, protocols


def test_no_script_of_a_hand_in_runs_on_a_page(hostile_pages):
    # In a thread of its own: the notebook's page, still open, holds this one's event loop.
    with ThreadPoolExecutor(1) as thread:
        ran, asked, protocols = thread.submit(look, hostile_pages).result()
    assert ran == [] and [url for url in asked if "hostile.example" in url] == []
    assert protocols <= {"file:", "http:", "https:", "data:"}


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory, hostile_pages):
    """A feedback page with all that might be wider than a phone."""
    from autograder.reports import page as feedback_page

    cell = {"cell_type": "markdown", "metadata": {}}
    wide = [
        *("w" * 400, "`" + "c" * 400 + "`", "| " + "column | " * 40 + "\n" + "|-" * 40 + "|", "    code " + "x" * 300),
        r"$$\mathrm{softmax}(" + "x + " * 60 + "y)$$",
        "inline $" + "a + " * 60 + r"b$, typed $\unknown{" + "c" * 300 + "}$",
        "<table><tr>" + "<td>cell</td>" * 60 + "</tr></table>",
    ]
    cells = [cell | {"id": f"extra_{number}", "source": text} for number, text in enumerate(wide)]
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "o" * 500},
        {"output_type": "display_data", "data": {"text/html": wide[-1]}, "metadata": {}},
        {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "alt " * 100}, "metadata": {}},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t" * 500]},
    ]
    cells.append({"cell_type": "code", "metadata": {}, "id": "extra_9", "source": "s" * 300, "outputs": outputs})
    about = {
        **{"title": "T" * 60, "course": "a course", "student": "s" * 80, "reason": "", "why": "", "penalty": 1},
        "release": json.dumps(build.student_notebook(COURSE, ENTRY)),
        "notebook": json.dumps({"cells": cells}),
        "marks": {"check_1_1": {"score": 0, "points": 2, "state": "by hand"}},
        "comments": {"check_1_1": "c" * 200},
        **{"late_seconds": 9e9, "said": {"1.1": ("wrong", f"`{'m' * 200}`", [])}, "remarks": ["r" * 300]},
    }
    path = tmp_path_factory.mktemp("wide") / "page.html"
    path.write_text(feedback_page.render(about))
    return path


def measured(pages, width):
    """How wide each page is, its folds open, on a screen of this width, in both schemes and in print."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for path in pages:
            for number, look in enumerate(({"color_scheme": "light"}, {"color_scheme": "dark"}, {"media": "print"})):
                page = browser.new_page(viewport={"width": width, "height": 700})
                page.emulate_media(**look)
                page.goto(path.as_uri())
                shut = page.evaluate("document.documentElement.scrollHeight")
                page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                wide, paper = page.evaluate(
                    "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
                )
                found.append((wide, shut, paper))
                if PICTURES.name:
                    page.screenshot(path=PICTURES / f"feedback_{path.parts[-3]}_{number}.png", full_page=True)
                page.close()
        browser.close()
    return found


def test_a_feedback_page_fits_a_phone_in_light_dark_and_print(hostile_class, hostile_pages, wide_page):
    mallory = course_tree.place(hostile_class, "feedback", ENTRY, "mallory").with_suffix(".html")
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(measured, [mallory, wide_page], 360).result()
    assert [wide for wide, _, _ in found] == [360] * 6
    assert all(shut < 6000 for _, shut, _ in found)
    for light, dark, printed in (found[:3], found[3:]):
        assert light[2] == printed[2] == "rgb(255, 255, 255)" and dark[2] == "rgb(27, 27, 30)"


def test_a_link_to_a_folded_answer_opens_it(hostile_class, hostile_pages):
    def followed():
        from playwright.sync_api import sync_playwright

        path = course_tree.place(hostile_class, "feedback", ENTRY, "mallory").with_suffix(".html")
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page()
            page.goto(path.as_uri())
            shut = page.locator("#check_1_1 pre").first.is_visible()
            page.locator("a[href='#check_1_1']").click()
            opened = page.locator("#check_1_1 pre").first.is_visible()
            browser.close()
        return shut, opened

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(followed).result() == (False, True)


def test_the_look_would_see_a_script(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<p onclick=hostile()>x</p><a href='java&#115;cript:hostile()'>x</a>"
        "<img src='http://hostile.example/x' onerror=hostile()>"
    )
    with ThreadPoolExecutor(1) as thread:
        ran, asked, protocols = thread.submit(look, [page]).result()
    assert len(ran) == 2 and "http://hostile.example/x" in asked and "javascript:" in protocols
