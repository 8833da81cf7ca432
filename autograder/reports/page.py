"""A student's feedback page: what was said of each exercise, then what the student did, folded.

`render` works on what a stranger wrote: call it in a child with limits, see `autograder.limited`. No part of a
submission reaches the page but escaped text, cleaned HTML, pictures in base64, and formulas as MathML of known tags.
"""

import contextlib
import functools
import json
import re
import secrets
import textwrap
import unicodedata
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import mistune
from latex2mathml.converter import Converter
from markupsafe import Markup
from mistune.plugins import math, table
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder import html_cleaning, pictures
from autograder.cells import CellRole, exercise_of, role_of, with_score
from autograder.reports.layout import duration
from utils.grading.verdict import legible

TEMPLATE = Path(__file__).with_name("feedback.html.jinja")
ANSWERS = (CellRole.EXERCISE, CellRole.WRITTEN)
SCOREBOARD = "scoreboard(checks)"  # its table says again what the page says
LEXER, FORMATTER = PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
QUESTION = re.compile(r"^\*\*Question .*?\*\* \(.*?\)\.\s+", re.MULTILINE)
HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
MAX_TEX = 500  # characters of a formula
MAX_TITLE, MAX_ALT = 80, 300
DEFINES = re.compile(r"\\(?:def|newcommand|renewcommand|newenvironment|DeclareMathOperator)(?![a-zA-Z])")
ARG = re.compile(r"\\arg(?![a-zA-Z])")  # the one common function that latex2mathml does not know
# Formulas as mistune knows them, but without backticks: a dollar before code and one in it make none.
INLINE_MATH = math.INLINE_MATH_PATTERN.replace(r"[^$\\\n]", r"[^$`\\\n]").replace(r"[^$\\]", r"[^$`\\]")
# Those that need no dollars, as in TeX and in notebooks.
ENVIRONMENT = (
    r"\\begin\{(?P<environment_name>(?:align|alignat|cases|eqnarray|equation|flalign|gather|multline|split|[bpvBV]?matrix)\*?)\}"
    r"(?:(?!\\begin\{(?P=environment_name)\})[\s\S])+?\\end\{(?P=environment_name)\}"
)
MATHML = {
    *("math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup"),
    *("munder", "mover", "munderover", "mmultiscripts", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom"),
}
MATH_ATTRIBUTES = {
    *("display", "mathvariant", "stretchy", "fence", "form", "separator", "largeop", "movablelimits", "accent"),
    *("displaystyle", "scriptlevel", "linethickness", "columnalign", "minsize", "maxsize", "width"),
}
MATH_VALUE = re.compile(r"[a-z-]{1,30}|-?[0-9]?(\.[0-9]{1,3})?(em|ex)?")  # no width that pushes all else away


@dataclass
class _Section:
    """The cells below a heading of the notebook, as HTML; `names` are the exercises among them."""

    title: str
    cells: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def render(about: dict[str, Any]) -> str:
    """The page.

    Args:
        about: plain data: `title`, `course` and `student`; `release` and `notebook`, the released notebook and the
            graded one as text ("": the page says `why` it shows no answers); `marks`, for each graded cell its score,
            points and state; `comments` by cell; `penalty` and `late_seconds`; `reason`, why it is ungradable;
            `said`, for each exercise the outcome, the sentence, and name, score, points and sentence of each part if
            some are lost; `remarks`; `excused`, whether the notebook does not count for the student.

    Raises:
        ValueError: a notebook is not JSON.
    """
    release = _released(about["release"])
    sections: list[_Section] = []
    said = {number: tuple(all_of_it) for number, all_of_it in about["said"].items()}
    if about["notebook"] and not about["reason"]:
        cells = json.loads(about["notebook"])["cells"]
        sections = _answers(cells, release)
        for cell in cells:  # without a record
            if role_of(cell["id"]) is CellRole.CHECK:
                number = exercise_of(cell["id"])
                said.setdefault(number, ("", _printed(cell).removeprefix(f"Exercise {number}: "), []))
    shown = {name for section in sections for name in section.names}
    exercises = []
    for name, title in release.exercises.items():
        mark, comment = about["marks"].get(name), about["comments"].get(name, "")
        if mark is None or (about["reason"] and not comment and mark["state"] != "by hand"):
            continue
        outcome, sentence, parts = said.get(exercise_of(name), ("", "", []))
        exercises.append(
            {
                "kind": "Question" if role_of(name) is CellRole.WRITTEN else "Exercise",
                "number": exercise_of(name),
                "title": title,
                "mark": mark,
                "outcome": outcome,
                "sentence": sentence,
                "parts": parts,
                "comment": Markup(ProseRenderer().html(comment)) if comment else "",
                "anchor": name if name in shown else "",
            }
        )
    marks = about["marks"].values()
    return _template().render(
        {"excused": False} | about,
        exercises=exercises,
        sections=[section for section in sections if section.cells],
        score=sum(mark["score"] for mark in marks) - about["penalty"],
        points=sum(mark["points"] for mark in marks),
        checks=_sums(about["marks"], "check_"),
        written=_sums(about["marks"], "written_"),
        waiting=[exercise for exercise in exercises if exercise["mark"]["state"] == "waits"],
    )


def _sums(marks: dict[str, dict[str, Any]], role: str) -> tuple[float, float]:
    """The points that a student has of the cells of a role, and those that there are."""
    shown = [mark for name, mark in marks.items() if name.startswith(role)]
    return sum(mark["score"] for mark in shown), sum(mark["points"] for mark in shown)


def question(release: str, name: str) -> str:
    """What the written question in the cell `name` asks, as Markdown; `release` is the released notebook as text."""
    return _released(release).questions[name]


def prose(texts: list[str]) -> list[str]:
    """Markdown as clean HTML, each of `texts`; to be called in a child with limits, as `render`."""
    made = ProseRenderer()
    return [made.html(text) for text in texts]


@functools.cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(TEMPLATE.parent)
    settings = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    environment = jinja2.Environment(loader=loader, **settings)  # type: ignore[arg-type]
    environment.filters |= {"sentence": _sentence, "duration": duration}
    return environment.get_template(TEMPLATE.name)


def _sentence(text: str) -> Markup:
    """A sentence of a check, with the names between its backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))


@dataclass(frozen=True)
class _Released:
    """What a released notebook says: the texts of its cells, the headings above them, its exercises in order."""

    sources: dict[str, str]
    headings: dict[str, str]  # of each cell
    exercises: dict[str, str]  # of each graded cell, the title; of a written answer, how the question begins
    questions: dict[str, str]  # of each written answer, what is asked


@functools.lru_cache(4)
def _released(text: str) -> _Released:
    released = _Released({}, {}, {}, {})
    heading = before = ""
    for cell in json.loads(text)["cells"]:
        name, source = cell["id"], _text(cell["source"])
        if cell["cell_type"] == "markdown" and (headings := HEADING.findall(source)):
            heading = headings[-1]
        released.sources[name], released.headings[name] = source, heading
        if role_of(name) in (CellRole.CHECK, CellRole.WRITTEN):
            released.exercises[name] = heading.removeprefix(exercise_of(name)).strip()
        if role_of(name) is CellRole.WRITTEN:
            begins = QUESTION.search(before)
            released.questions[name] = before[begins.start() :] if begins else before
            words = before[begins.end() :] if begins else before
            released.exercises[name] = textwrap.shorten(words, MAX_TITLE, placeholder=" ...")
        before = source
    return released


def _answers(cells: list[dict[str, Any]], release: _Released) -> list[_Section]:
    """What the student did, below the headings of the notebook."""
    sections = {heading: _Section(heading or "Before the first exercise") for heading in release.headings.values()}
    heading = next(iter(sections), "")
    prose = ProseRenderer()
    for cell in cells:
        name = cell["id"]
        heading = release.headings.get(name, heading)
        section = sections.setdefault(heading, _Section(heading))
        html = _cell(cell, release, prose)
        if html and role_of(name) in ANSWERS and name in release.sources:
            section.names.append(with_score(name))
            html = f'<div id="{section.names[-1]}">\n{html}\n</div>'
        if html:
            section.cells.append(html)
    return list(sections.values())


def _cell(cell: dict[str, Any], release: _Released, prose: "ProseRenderer") -> str:
    """A cell as HTML: its text if it is the student's, and its outputs; "" if there is nothing to show."""
    name, kind, source = cell["id"], cell["cell_type"], _text(cell["source"])
    theirs = source != release.sources.get(name)
    if role_of(name) is CellRole.CHECK or source.strip() == SCOREBOARD or name == "ungradable":
        return ""
    if kind == "code":
        shown = [_code(source)] if theirs and source.strip() else []
        return "\n".join([*shown, *filter(None, map(_output, cell.get("outputs", ())))])
    if kind == "markdown" and role_of(name) is CellRole.WRITTEN and name in release.sources:
        answer = prose.html(source, cell.get("attachments")) if theirs else "<p>No answer.</p>"
        return f'<div class="asked">{prose.html(release.questions[name])}</div>\n{answer}'
    if not theirs or not source.strip():
        return ""
    return prose.html(source, cell.get("attachments"))  # a raw cell too: it was let in as one of text


def _output(output: dict[str, Any]) -> str:
    """An output as HTML: a picture, cleaned HTML, or text."""
    match output.get("output_type"):
        case "stream":
            return _plain(_text(output.get("text", "")))
        case "error" if (output.get("ename"), output.get("evalue")) == ("NotImplementedError", ""):
            return ""  # not attempted yet, as the sentence says
        case "error":
            lines = [line for line in output.get("traceback", ()) if isinstance(line, str)]
            return _plain("\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}", "out error")
        case "display_data" | "execute_result":
            data = {kind: _text(value) for kind, value in output.get("data", {}).items()}
        case _:
            return ""
    for kind in ("image/png", "image/jpeg"):
        if picture := html_cleaning.picture(data.get(kind, "")):
            alt = escape(data.get("text/plain", "")[:MAX_ALT])
            return f'<p><img src="data:{kind};base64,{"".join(picture.split())}" alt="{alt}"></p>'
    if html := data.get("text/html", ""):
        return _wide(_fitted(html_cleaning.clean(html)))
    return _plain(data.get("text/plain", ""))


def _plain(text: str, kind: str = "out") -> str:
    """Text as it is, in a box of its own; "" if there is none."""
    bare = COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n").rstrip()
    bare = legible(bare, len(bare))
    return f'<pre class="{kind}" tabindex="0">{escape(bare)}</pre>' if bare.strip() else ""


def _code(source: str) -> str:
    source = legible(source, len(source))
    text = escape(source)
    if len(source) <= html_cleaning.MAX_CODE:
        text = highlight(source, LEXER, FORMATTER)
    return f'<pre class="code" tabindex="0">{text.rstrip()}</pre>'


def _printed(cell: dict[str, Any]) -> str:
    """What a graded cell printed."""
    said = (_text(output.get("text", "")) for output in cell.get("outputs", ()) if output.get("name") == "stdout")
    return " ".join(said).strip()


def _text(value: Any) -> str:
    """A text of a notebook, which may be a list of lines; "" for what is none."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _wide(html: str) -> str:
    """A box that scrolls by itself what is wider than a phone, with the keyboard too."""
    return f'<div class="wide" tabindex="0">{html}</div>'


def _fitted(html: str) -> str:
    """Clean HTML whose headings stand below those of the page, and whose boxes are reached by the keyboard."""
    return re.sub(r"<(/?)h[1-6]>", r"<\1h4>", html).replace("<pre>", '<pre tabindex="0">')


class ProseRenderer(mistune.HTMLRenderer):
    """Makes Markdown HTML that is clean; its formulas are put in afterwards, where a mark stands for each."""

    def __init__(self) -> None:
        super().__init__(escape=False)  # it is cleaned as a whole
        plugins = [math.math, math.math_in_quote, math.math_in_list, table.table]
        self._markdown = mistune.Markdown(renderer=self, plugins=plugins)
        self._markdown.inline.register("inline_math", INLINE_MATH, math.parse_inline_math, before="link")
        self._markdown.inline.register("environment", ENVIRONMENT, _environment_inline, before="link")
        self._markdown.block.register("environment", rf"^ {{0,3}}{ENVIRONMENT}", _environment_block, before="list")
        self._mark = secrets.token_hex(8)  # that no submission knows
        self._kept: list[str] = []  # formulas and pictures as HTML
        self._attachments: dict[str, Any] = {}

    def html(self, text: str, attachments: Any = None) -> str:
        """Markdown as clean HTML; of pictures, those among the `attachments` of its cell."""
        self._attachments = attachments if isinstance(attachments, dict) else {}
        if len(text) > html_cleaning.MAX_ALL:
            return html_cleaning.as_text(text)
        rendered = self._markdown(text)
        assert isinstance(rendered, str)
        cleaned = _fitted(html_cleaning.clean(rendered, text))
        whole = re.sub(f"{self._mark}x([0-9]+)x", lambda match: self._kept[int(match[1])], cleaned)
        return _wide(whole) if "<table" in whole or "<math" in whole else whole

    def inline_math(self, text: str) -> str:
        """A formula within a line."""
        return self._marked(formula(unescape(text), "inline"))

    def block_math(self, text: str) -> str:
        """A formula in a line of its own."""
        return f"<div>{self._marked(formula(unescape(text), 'block'))}</div>\n"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """A picture of the cell's own, or else a link."""
        bundle = self._attachments.get(url.removeprefix("attachment:"), {})
        for kind in pictures.KINDS.values():
            if picture := html_cleaning.picture(_text(bundle.get(kind, ""))):
                return self._marked(
                    f'<img src="data:{kind};base64,{picture}" alt="{escape(unescape(text)[:MAX_ALT])}">'
                )
        return self.link(text, url, title)

    def _marked(self, html: str) -> str:
        """A mark that stands for HTML of ours until all else is clean."""
        self._kept.append(html)
        return f"{self._mark}x{len(self._kept) - 1}x"


def _environment_inline(inline: mistune.InlineParser, match: re.Match[str], state: mistune.InlineState) -> int:
    state.append_token({"type": "block_math", "raw": match[0]})
    return match.end()


def _environment_block(block: mistune.BlockParser, match: re.Match[str], state: mistune.BlockState) -> int:
    state.append_token({"type": "block_math", "raw": match[0].strip()})
    return match.end()


def formula(tex: str, display: str) -> str:
    """TeX as MathML, which needs no script and no font from elsewhere; as it was typed if it cannot be converted."""
    sign = "$" if display == "inline" else "$$"
    sign = "" if tex.startswith("\\begin") else sign  # it needs none
    typed = f'<code class="tex">{escape(sign + tex + sign)}</code>'
    if len(tex) > MAX_TEX or DEFINES.search(tex):
        return typed
    try:
        plain = ARG.sub(r"\\operatorname{arg}", " ".join(tex.split()))
        element = Converter(display=display).convert_to_element(plain)
    except Exception:  # of a library, for anything that is not a formula
        return typed
    for node in element.iter():
        node.text = unescape(node.text or "")  # it writes symbols as entities
        known = node.tag in MATHML and not node.text.startswith("\\")  # an unknown command stays as it was
        if not known:
            return typed
        node.text = "".join(_letter(letter, node.attrib.get("mathvariant", "")) for letter in node.text)
        for name in [*node.attrib]:
            if name not in MATH_ATTRIBUTES or not MATH_VALUE.fullmatch(node.attrib[name]):
                del node.attrib[name]
    return ElementTree.tostring(element, encoding="unicode", short_empty_elements=False)


def _letter(letter: str, variant: str) -> str:
    """A letter in the variant of a formula: browsers know no other than the normal one by its name."""
    if letter.isascii() and letter.isalpha() and variant not in ("", "normal"):
        case, name = "CAPITAL" if letter.isupper() else "SMALL", variant.upper()
        for known in (f"MATHEMATICAL {name} {case} {letter}", f"{name} {case} {letter}"):
            with contextlib.suppress(KeyError):
                return unicodedata.lookup(known)
    return letter
