"""What README and the documentation state is there: every command, option, link, file, module and target of make."""

import ast
import functools
import importlib
import io
import os
import re
import shlex
import zipfile
from pathlib import Path

import pytest
import typer
from helpers import built_tree
from rich.table import Table

from autograder import cli, course
from autograder.any_course import compare
from autograder.author import answers, build, overview
from autograder.author import checks as authors_checks
from autograder.cells import CellRole, role_of
from autograder.cli import old_spelling
from utils.checks import nb02_positional_encoding
from utils.grading import dispatch, forbidden
from utils.grading.check import CheckFailed, Outcome

ROOT = course.ROOT
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "THREAT_MODEL.md", *(ROOT / "docs").glob("*.md")])
BY_NAME = {path.relative_to(ROOT).as_posix(): path for path in PAGES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
GENERATED = ("docs/generated/", "docs/api/")  # by the build of the pages, which fails if one is missing
TESTS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("*")) if path.is_dir()]
PLACES = ("", "tests", *TESTS, "solutions/02_positional_encoding")  # where a file's name alone is looked for
NOT_HERE = {"tutorial/", ".course/", ".autograder/", ".demo/", "results/", "docs/_build/"}  # what commands leave
# In a course tree; Hugging Face's; in a stock nbgrader course.
OTHERS = {"students.csv", "jupyter_server_config.py", "run_glue.py", "nbgrader_config.py", "timestamp.txt"}
OTHERS |= {"../helpers.py", "../../helpers.py", "../../../helpers.py"}  # of another course
# An instructor's own, which git ignores, and what `autograder build` makes of it.
OTHERS |= {"course.local.toml", "notebooks.local/", "utils/checks/points.json"}
# Lines of `bash` blocks that are not run here, each with the reason. All others are run, in the order of README.
NOT_RUN = {
    r"make check": "of the whole repository; .ci/run does it",
    r"make demo": "takes minutes; tests/grading/test_demo.py runs it",
    r"make test(-quick)?": "runs this test, or those beside it",
    r"make \.venv/ready": "installs from the network; .ci/run does it",
    r"\. \.venv/bin/activate": "changes the shell alone; the tests run in the environment",
    r"(pip|conda) .*": "installs from the network; tests/author/test_setup.py compares the lists of packages",
    r"(cd \.course && )?jupyter lab .*": "a server, which does not end; tests/test_browser.py starts one",
    r"\.venv/bin/python benchmarks/\w+\.py.*": "takes minutes; the file and its options are looked for",
    r"autograder mark": "a server, which does not end; tests/marking starts one",
    r"autograder group .*": "needs answers of a class; tests/similarity/test_groups.py runs it",
    r"autograder similar .*": "needs two submissions; tests/similarity/test_similar.py runs it",
    r"python -m pytest .*2\.8.*": "of an exercise that is not there; the test is looked for",
    r"python -m pytest .*test_prose.*": "a test of its own",
    r"python docs/draw_diagrams\.py": "writes into data/diagrams; tests/docs/test_diagrams.py draws them elsewhere",
    r"autograder (--tree tutorial|demo --download) .*": "test_the_tutorial_does_what_it_shows runs them",
    r"AUTOGRADER_LOCAL=.*": "of one's own settings; tests/test_local_settings.py has pytest choose by them",
}


def reason(line):
    """Why a line is not run; None if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, line)), None)


def commands(name):
    """The lines of a page's `bash` blocks, without their remarks."""
    blocks = [text for language, text in BLOCK.findall(BY_NAME[name].read_text()) if language == "bash"]
    return [re.sub(r"\s+# .*", "", line).strip() for text in blocks for line in text.splitlines() if line.strip()]


def stated(path):
    """What a page says outside its blocks in backticks."""
    return SPAN.findall(BLOCK.sub("", path.read_text()))


ALL = [(name, line) for name in BY_NAME for line in commands(name)]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A class of one in a tree of its own, with a download as the pages name it, and a stock nbgrader course."""
    folder = tmp_path_factory.mktemp("docs")
    known = built_tree(folder, 1)
    (entry,) = known.notebooks
    (folder / "here/downloads").mkdir(parents=True)
    notebook = build.student_notebook(known, entry)
    next(cell for cell in notebook.cells if role_of(cell.id) is CellRole.EXERCISE).source += "\n# A try."
    with zipfile.ZipFile(folder / "here/downloads/canvas.zip", "w") as archive:
        archive.writestr(f"loveada_1_88_{entry.name}.ipynb", build.write(notebook))
    compare.documentation(folder / "cs101")
    assert compare.Stock(folder / "cs101").assign("ps1") == ""
    return folder / "here", known


def test_each_block_is_run_or_has_a_reason():
    languages = {language for path in PAGES for language, _ in BLOCK.findall(path.read_text())}
    assert languages == {"bash", "console", "python", "toml", "text", ""}, "commands stand in `bash` blocks"
    run = {line for _, line in ALL if reason(line) is None}
    assert {line.split()[0] for line in run} == {"autograder"}, "say in NOT_RUN why another command is not run"
    assert {name.split()[1] for name in run} >= {"build", "release", "collect", "grade", "status", "feedback", "report"}
    for pattern in NOT_RUN:
        assert any(re.fullmatch(pattern, line) for _, line in ALL), f"no page says {pattern} any more"


def test_commands_do_what_the_pages_say(workplace, monkeypatch, capsys):
    """Each different line once, in the order of the pages, from README on: with one student and the first notebook."""
    here, known = workplace
    monkeypatch.chdir(here)
    monkeypatch.setattr(cli.context, "load", lambda: known)
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=io.StringIO(), width=150))
    monkeypatch.setattr(overview, "README", here / "README.md")  # the course is another one here
    lines = [line for name in ("README.md", *BY_NAME) for line in commands(name) if reason(line) is None]
    for line in dict.fromkeys(lines):
        ended = 0
        try:
            cli.app(shlex.split(line)[1:])
        except SystemExit as end:
            ended = end.code or 0
        assert not ended, f"{line}: {capsys.readouterr()}"
    tree = known.tree
    assert (
        list((here.parent / "student/notebooks").glob("*.ipynb")) and (here / "grades.csv").read_text().count("\n") > 5
    )
    assert (tree / "report.html").exists() and len(list(tree.glob("feedback/*/*/*.html"))) == 1


def test_the_tutorial_does_what_it_shows(tmp_path, monkeypatch):
    """Its commands in their order, in an empty directory, and the lines that it prints of what they say."""
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    monkeypatch.setattr(cli.context, "console", cli.context.Console(file=said, width=150))
    lines = [line for line in commands("docs/tutorial.md") if line.startswith("autograder ")]
    assert [line.split()[-1 if "build" in line else 3] for line in lines][:2] == ["build", "canvas.zip"]
    for line in lines:
        try:
            cli.app(shlex.split(line)[1:])
        except SystemExit as end:
            assert not end.code, line
    printed = {re.sub(r"\s+", " ", line).strip() for line in said.getvalue().splitlines()}
    shown = [text for language, text in BLOCK.findall(BY_NAME["docs/tutorial.md"].read_text()) if language == "text"]
    assert len(shown) == 2
    for line in "".join(shown).splitlines():
        assert re.sub(r"\s+", " ", line).strip() in printed, line
    mistaken = next((tmp_path / "tutorial/feedback").glob("*/mistakendi_103.html"), None) or next(
        (tmp_path / "tutorial/feedback/mistakendi_103").rglob("*.html")
    )
    assert "Exercise 2." in mistaken.read_text() and (tmp_path / "tutorial/report.html").is_file()
    assert (tmp_path / "tutorial/grades.csv").read_text().count("\n") == 46


TRACKS = [
    pytest.param(text, id=title)
    for title, text in re.findall(
        r"^## ([^\n]*)\n(?:(?!^## ).)*?^```toml\n(.*?)^```", BY_NAME["docs/tracks.md"].read_text(), re.M | re.S
    )
]


@pytest.mark.parametrize("settings", TRACKS)
def test_the_settings_of_a_track_are_a_course(settings, tmp_path, monkeypatch):
    """Four notebooks with a deadline each, in the order of the deadlines; exercises without points say so."""
    (tmp_path / "course.local.toml").write_text(settings)
    monkeypatch.setenv("AUTOGRADER_LOCAL", str(tmp_path / "course.local.toml"))
    track = course.load()
    deadlines = [entry.deadline for entry in track.notebooks]
    assert len(deadlines) == 4 and deadlines == sorted(deadlines)
    for entry in track.notebooks:
        notebook = build.student_notebook(track, entry)
        unpaid = [cell for cell in notebook.cells if "(0 points" in cell.source]
        assert len(unpaid) == len(entry.points)


def test_messages_on_the_page_are_those_of_the_program():
    """Each quoted part of a message, between its …, is in the source."""
    sources = "".join(path.read_text() for name in ("autograder", "utils") for path in (ROOT / name).rglob("*.py"))
    messages = re.findall(r'^\| "([^"]+)"', BY_NAME["docs/messages.md"].read_text(), re.M)
    assert len(messages) > 25
    python = {"NotImplementedError", "ModuleNotFoundError"}
    parts = [part.strip() for message in {*messages} - python for part in message.split("…")]
    assert [part for part in parts if part not in sources] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_links_lead_somewhere(name):
    path = BY_NAME[name]
    for link in LINK.findall(BLOCK.sub("", path.read_text())):
        if link.startswith(("https://", "#")):
            continue
        target = os.path.relpath((path.parent / link.partition("#")[0]).resolve(), ROOT)
        assert target.startswith(GENERATED) or (ROOT / target).exists(), link


@pytest.mark.parametrize("name", BY_NAME)
def test_files_that_are_named_exist(name):
    """A path in backticks, from the root of the repository, or the name of a file in one of some folders."""
    for span in stated(BY_NAME[name]):
        if not re.fullmatch(r"[\w.-]+(/[\w.-]*)+|[\w-]+\.(py|toml|txt|md)", span) or "NN" in span:
            continue
        if any(span.startswith(one) for one in NOT_HERE) or span in OTHERS:
            continue
        assert any((ROOT / place / span).exists() for place in PLACES), span


def groups():
    return typer.main.get_command(cli.app)


def usages():
    """Every `autograder ...` of the pages, in blocks and in backticks; and which page says it."""
    for name, path in BY_NAME.items():
        for text in [*commands(name), *stated(path)]:
            if text.startswith("autograder "):
                yield name, text


def test_commands_and_options_exist():
    found = list(usages())
    assert len({text.split()[1] for _, text in found}) > 10
    for name, text in found:
        words = [word.strip("[],.") for word in text.split()[1:]]
        known = {option for parameter in groups().params for option in parameter.opts} | {"--help"}
        first = next((place for place, word in enumerate(words) if word in groups().commands), None)
        assert first is not None or words[0].startswith("--"), f"{name}: {text}"
        if first is not None:
            command, _ = called(words[first:])
            known |= {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, f"{name}: {text}"


def called(words):
    """The command or sub-command that these words call, and the words that are left for it."""
    name, *words = words
    command = groups().commands[name]
    if words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def suggested():
    """Every `autograder ...` in backticks of what commands say, with a 1 for each part that is filled in."""
    for path in sorted((ROOT / "autograder").rglob("*.py")):
        tree = ast.parse(path.read_text())
        documentation = [one.value for one in ast.walk(tree) if isinstance(one, ast.Expr)]
        for node in ast.walk(tree):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            if node not in documentation and all(isinstance(one, (ast.Constant, ast.FormattedValue)) for one in parts):
                text = "".join(str(one.value) if isinstance(one, ast.Constant) else "1" for one in parts)
                yield from re.findall(r"`autograder ([^`]+)`", text)


def test_commands_that_messages_suggest_run_as_they_stand():
    found = sorted({*suggested()})
    assert len(found) > 12 and any(text.startswith("remove 1 1 --latest") for text in found)
    for text in found:
        name = text.split()[0]
        command, words = called(shlex.split(text))
        assert command.name != old_spelling.OLD and not (words and hasattr(command, "commands")), text
        if words:  # else it is the name of a command
            command.make_context(name, [*words])  # which empties the list
        assert name != "remove" or "--yes" in words, text
        assert "--again" not in words or "--student" in words, f"{text}: others need not be graded again"


def test_commands_that_messages_suggest_are_of_the_tree_that_was_chosen(monkeypatch, capsys):
    monkeypatch.setitem(cli.context.chosen, "tree", Path("my tree"))
    cli.context.print_error("1 is missing: run `autograder build` first")
    cli.context.console.print("`autograder grade` grades what is waiting")
    told = capsys.readouterr()
    assert told.err == "autograder: 1 is missing: run `autograder --tree 'my tree' build` first\n"
    assert told.out == "`autograder --tree 'my tree' grade` grades what is waiting\n"
    table = Table("why")
    table.add_row("run `autograder grade`")
    cli.context.console.print(table)
    assert "run `autograder --tree 'my tree' grade`" in capsys.readouterr().out
    words = shlex.split(told.out.split("`")[1])
    assert groups().make_context("autograder", words[1:]).params["tree"] == Path("my tree")
    monkeypatch.delitem(cli.context.chosen, "tree")
    cli.context.console.print("`autograder grade` grades what is waiting")
    assert capsys.readouterr().out == "`autograder grade` grades what is waiting\n"


def test_options_that_stand_alone_exist():
    commands = [*groups().commands.values()]
    commands += [inner for command in commands for inner in getattr(command, "commands", {}).values()]
    every = {option for one in [groups(), *commands] for parameter in one.params for option in parameter.opts}
    alone = [(name, one.split()[0]) for name, path in BY_NAME.items() for one in stated(path) if one.startswith("--")]
    assert len(alone) > 3
    others = {"--resources", "--env", "--privileged", "--help"}  # dask's, and those of engines of containers
    assert {(name, option) for name, option in alone if option not in every | others} == set()


def test_targets_of_make_exist():
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M), ".venv/ready"}
    said = [text for name in BY_NAME for text in [*commands(name), *stated(BY_NAME[name])]]
    named = {text.split()[1] for text in said if text.startswith("make ")}
    assert {"demo", "test", "docs"} <= named <= targets


def test_benchmarks_have_their_options():
    found = [line.split() for _, line in ALL if "benchmarks/" in line]
    commands = {path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert {Path(words[1]).name for words in found} == commands and len(commands) > 8
    for words in found:
        source = (ROOT / words[1]).read_text()
        assert all(f'"{word}"' in source for word in words if word.startswith("--")), words


def test_names_of_functions_resolve():
    """Dotted names of our own packages, as the architecture page has them."""
    found = [span for path in PAGES for span in stated(path) if re.fullmatch(r"(autograder|utils|data)(\.\w+)+", span)]
    assert len(found) > 40
    for span in {*found}:
        if (ROOT / Path(*span.split(".")[:-1]) / f"{span.split('.')[-1]}.json").exists():
            continue
        assert resolved(span) is not None, span


def resolved(name):
    """The object of a dotted name."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(lambda one, part: getattr(one, part, None), parts[split:], module)
    return None


def test_the_parts_of_pages_that_are_made_are_fresh(monkeypatch):
    """`python docs/written.py` writes them."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    assert importlib.import_module("written").stale() == []


def test_the_glossary_is_short():
    terms = re.findall(r"^(\S.*)\n  \S", (ROOT / "docs/glossary.md").read_text(), re.M)
    assert 15 <= len(terms) <= 25 and terms == sorted(terms, key=str.lower)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_the_sentence_in_readme_is_the_one_of_the_check():
    """A student who writes README's cell into notebook 01 reads README's sentence."""
    text = (ROOT / "README.md").read_text()
    ((_, cell),) = [block for block in BLOCK.findall(text) if block[0] == "python"]
    (sentence,) = re.findall(r"^> (.+)$", text, re.M)
    known = course.load()
    answer, call = cell.strip().rsplit("\n", 1)
    namespace = answers.at_home(build.student_notebook(known, known.notebook("01")), answer, "readme")
    with pytest.raises(CheckFailed) as failed:
        exec(call, namespace)
    assert str(failed.value) == sentence


NEEDED = """
from autograder.author.checks import private
from utils.grading import expect
from utils.grading.expect import draw
"""


def test_the_exercise_of_the_authors_page_works(tmp_path, monkeypatch):
    """Its four pieces fit: the solution passes, and each answer has the verdict that it states."""
    blocks = [text for language, text in BLOCK.findall(BY_NAME["docs/authors.md"].read_text()) if language == "python"]
    for name, text in zip(("notebook", "public", "private_checks", "wrong_answers"), blocks, strict=False):
        (tmp_path / f"{name}.py").write_text(NEEDED + text if name == "private_checks" else text)
    for module in (answers, authors_checks):
        monkeypatch.setattr(module, "folder_of", lambda entry: tmp_path)
    entry = course.load().notebook("02")
    defined = dict(vars(nb02_positional_encoding))
    exec((tmp_path / "public.py").read_text(), defined)
    exec(next(text for text in blocks if text.startswith("FROM_END = Contract(")), defined)
    check, (hidden,) = defined["from_end"], authors_checks.private_checks(entry)["2.8"]
    swept = authors_checks.swept("2.8", defined["FROM_END"])
    (solution,) = [one for one in build.parts(tmp_path / "notebook.py") if "exercise" in one.metadata]
    cases = [answers.AnswerCase("2.8", "the solution", solution.source), *answers.answer_cases(entry)]
    assert [case.right for case in cases] == [True, *[False] * 5, True, True]
    released = build.student_notebook(course.load(), entry)
    for case in cases:
        ask = functools.partial(dispatch.answer, answers.at_home(released, case.source, case.name))
        verdict = check.verdict(ask, [forbidden.read_cell(case.source)])
        assert (verdict.outcome is Outcome.PASSED) == (case.right or case.private), f"{case.name}: {verdict.message}"
        assert case.right or case.is_told(hidden.tells if case.private else verdict.message), case.name
        if case.right or case.private:
            assert bool(hidden.failure(ask)) == case.private, case.name
        failures = [failure for one in swept if (failure := one.failure(ask))]
        assert bool(failures) == (not case.right), f"{case.name}: {failures}"
