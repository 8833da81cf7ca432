"""What came from a submission, made safe to show in a browser: text, tables and pictures, no script.

Feedback and formgrader pages show the graded notebook; so it is cleaned before it is
written, whatever renders it later. What is slow to clean or to render is shown as it was typed.
"""

import base64
import binascii
import html as escaping
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import nh3

from autograder import limited
from autograder.cells import CellRole, role_of
from autograder.pictures import SHOWN as PICTURE
from utils.grading.verdict import line

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Text, tables, closed hints. No script, style, form, frame, or picture from elsewhere.
TAGS = [
    *("a", "abbr", "b", "blockquote", "br", "code", "dd", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4"),
    *("h5", "h6", "hr", "i", "li", "ol", "p", "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody"),
    *("td", "tfoot", "th", "thead", "tr", "ul"),
]
ATTRIBUTES = {"a": {"href", "title"}, "abbr": {"title"}}
CLEANER = nh3.Cleaner(tags={*TAGS}, attributes=ATTRIBUTES, url_schemes={"http", "https", "mailto"}, link_rel=None)
VOID = ("br", "hr")
MAX_TAGS = 5_000
MAX_DEPTH = 50  # of tags: nbconvert cleans once more, with bleach, in quadratic time for nested ones
MAX_PROSE = 20_000  # characters of a Markdown cell; of longer ones the beginning is shown
MAX_HTML = 50_000  # characters of an output of HTML
CUT = 10_000
MAX_ALL = 200_000  # characters of all Markdown that is not as released, and of all outputs of HTML
SECONDS, RENDER_SECONDS = 5.0, 0.5  # to clean all texts of a notebook; to render one of them
MAX_CODE = 20_000  # characters of a code cell that a page highlights: Pygments is quadratic in brackets
MAX_OUTPUT = 2_000_000  # characters of all outputs of a notebook
EACH = 200  # characters that an output costs besides its own, however short it is: so much a file says of it
EACH_LINE = 20  # the same of a line of a traceback
TAG = re.compile(r"<[a-zA-Z/!?]")
NO_TAG = re.compile(rf"<(?!/?(?:{'|'.join(TAGS)})(?:[\s/][^<>]*)?>)", re.IGNORECASE)
OPENED = re.compile(r"<(/?)([a-z0-9]+)")
# nbconvert's Markdown leaves any link as it is, and MathJax makes links of its own.
RUNS = re.compile(r"(?:java|vb)script:|[(<:]data:", re.IGNORECASE)
TEX = re.compile(r"\\(?:href|url|style|class|cssId|require|unicode|mmlToken|bbox|html[a-zA-Z]*)(?![a-zA-Z])")
IGNORED = re.compile(r"[\x00-\x20\x7f]+")  # what browsers skip within the scheme of a link
# Code in Markdown: between fences, between backticks (not across an empty line), or as HTML without other tags.
CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<block>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*(?:\n|\Z)|\Z)"
    r"|(?<![`\\])(?P<ticks>`+)(?!`)(?P<span>(?:(?!\n[ \t]*\n).)+?)(?<!`)(?P=ticks)(?!`)"
    r"|<code>(?P<html>[^<>]*)</code>",
    re.MULTILINE | re.DOTALL,
)
HTML_BLOCK = re.compile(r"<pre><code>([^<>]*)</code></pre>")
HTML_CODE = re.compile(r"<code>([^<>]*)</code>")
MARKDOWN_SIGNS = frozenset("\\`*_{}[]()#+-.!|~$^=:")
QUOTED = re.compile(r"^(?:[ \t]|&gt;|[-*+][ \t]|[0-9]{1,3}[.)][ \t])+", re.MULTILINE)  # how a quotation begins
PICTURE_SIGN = re.compile(r"!+\[")
# Lines of words, each with a letter first: no list, table, link, tag, formula or emphasis, so nothing to clean. What a
# page renders of so many characters of them takes no time.
WORDS = re.compile(r"(?:[^\W\d_](?:[^\W_]|[ ,.;?!'\"()%/=+-])*+(?:\n++|\Z))*+")
MAX_WORDS = 2_000
# What a name shows in place of signs of markup: nbgrader's pages print some names escaped and some as they are.
LIKE_MARKUP = str.maketrans({"<": "\u2039", ">": "\u203a", '"': "\u201d"})
AMPERSAND = "\uff06"
MAX_NAME = 128  # characters, as many as a column of the gradebook has
NUMBER = re.compile(r"&#(?:x[0-9a-f]{8}[0-9a-f]*|[0-9]{8}[0-9]*)", re.IGNORECASE)  # of no character


def html(text: str) -> str:
    """HTML with the tags of `TAGS` and harmless attributes; all else is shown as text."""
    if not re.search(r"[<&:\\]", text) and len(text) <= MAX_HTML:
        return text
    return clean_in_child(_html, [text])[0]


def latex(text: str) -> str:
    """A formula without signs of HTML, whose macros make no links; "" if it is long or might run something."""
    if len(text) > MAX_PROSE or _may_run(text):
        return ""
    return text.replace("<", r"\lt ").replace(">", r"\gt ")


def markdown(texts: Sequence[str]) -> list[str]:
    """Markdown whose HTML is clean, whose links run nothing and whose pictures are links, of each of `texts`.

    Pictures that were taken in stay, see `pictures.SHOWN`; the cell has to hold them.

    Text without any of them stays as it is; text with a link that might run something, or that nbconvert
    renders too slowly, is shown as it was typed. Of what is too much altogether only beginnings are shown.
    """
    left, short = MAX_ALL, []
    for text in texts:
        left -= min(len(text), MAX_PROSE)
        short.append(text if left >= 0 else as_text(text, 100))
    if all(len(text) <= MAX_WORDS and WORDS.fullmatch(text) for text in short):
        return short  # without the child, which would import nbconvert to render them
    return clean_in_child(render_texts, short)


def clean(text: str, typed: str = "") -> str:
    """HTML as `html` makes it, of text that was let in already, in this process.

    Or as it was typed if that would be large or deep: as `typed`, if `text` was made of it.
    """
    if text.count("<") > MAX_TAGS:
        return as_text(typed or text)
    cleaned = CLEANER.clean(NO_TAG.sub("&lt;", text))
    depth = 0
    for closing, tag in OPENED.findall(cleaned):
        depth += 0 if tag in VOID else -1 if closing else 1
        if depth > MAX_DEPTH:
            return as_text(typed or text)
    return cleaned if len(cleaned) <= 6 * len(text) + 1000 else as_text(typed or text)


def as_text(text: str, most: int = CUT) -> str:
    """HTML, and Markdown, that shows `text` as it was typed, its first `most` characters if it is long."""
    cut = f"\n... and {len(text) - most:,} more characters" if len(text) > most else ""
    return f"<pre>{escaping.escape(text[:most])}{cut}</pre>"


def picture(text: str) -> str:
    """The base64 text of a picture, or "" if it is none: it ends up in an attribute of a page."""
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return text


def name(text: str) -> str:
    """A name in one line that is the same text on a page which escapes it and on one which prints it as it is.

    Signs of markup become similar ones; an ampersand does only where it begins a character's name in HTML.
    """
    plain = line(text, MAX_NAME).translate(LIKE_MARKUP)
    return plain if escaping.unescape(plain) == plain else plain.replace("&", AMPERSAND)


class Room:
    """What may still be shown of the outputs of a notebook: so many characters, and so many of HTML."""

    def __init__(self) -> None:
        self._left, self._of_html = MAX_OUTPUT, MAX_ALL

    def fitting(self, outputs: Iterable["NotebookNode"], always: bool = False) -> list["NotebookNode"]:
        """The outputs that fit, all of them with `always`. They take up their room."""
        fitting = []
        for output in outputs:
            data = output.get("data", {})
            lines = output.get("traceback", ())
            size = sum(map(len, (*data.values(), output.get("text", ""), *lines))) + EACH + EACH_LINE * len(lines)
            rich = len(data.get("text/html", ""))
            if always or (size <= self._left and rich <= self._of_html):
                fitting.append(output)
                self._left, self._of_html = self._left - size, self._of_html - rich
        return fitting


def fit(notebook: "NotebookNode") -> int:
    """Leave out what is too much for a page of a graded notebook: whole outputs, and the ends of code; how often."""
    room, dropped = Room(), 0
    for cell in notebook.cells:
        if cell.cell_type == "code" and len(cell.source) > MAX_CODE:
            cell.source = f"{cell.source[:CUT]}\n# ... and {len(cell.source) - CUT:,} more characters"
            dropped += 1
        if "outputs" in cell:
            fitting = room.fitting(cell.outputs, always=role_of(cell.id) is CellRole.CHECK)  # those hold the score
            dropped += len(cell.outputs) - len(fitting)
            cell.outputs = fitting
    return dropped


def clean_in_child(clean: Callable[..., list[str]], texts: Sequence[str]) -> list[str]:
    """`clean(texts)`; if that is too costly, each by itself, and those that are it alone shown as they were typed."""
    try:
        return limited.call(clean, texts, seconds=SECONDS)
    except limited.TooCostly:
        if len(texts) == 1:
            return [as_text(texts[0])]
        half = len(texts) // 2
        return clean_in_child(clean, texts[:half]) + clean_in_child(clean, texts[half:])


def _html(texts: list[str]) -> list[str]:
    """Each of `texts`, cleaned, in the child."""
    _cleaned_again("")  # imports, which are not to be timed
    cleaned = []
    for text in texts:
        safe = as_text(text) if _may_run(text) or len(text) > MAX_HTML else clean(text)
        cleaned.append(safe if _quick(_cleaned_again, safe) else as_text(text))
    return cleaned


def render_texts(texts: list[str]) -> list[str]:
    """The same for Markdown."""
    rendered("")
    cleaned = []
    for text in texts:
        safe = as_text(text)
        if not _may_run(text) and len(text) <= MAX_PROSE:
            safe = _without_pictures(_clean_prose(text) if "<" in text or "&" in text else text)
        cleaned.append(safe if _quick(rendered, safe) else as_text(text))
    return cleaned


def code_as_typed(text: str) -> str:
    """Markdown with the code of `markdown` as it was typed: between fences, or between backticks."""
    blocks = HTML_BLOCK.sub(lambda match: f"```\n{escaping.unescape(match[1])}```", text)
    return HTML_CODE.sub(lambda match: f"`{escaping.unescape(match[1])}`", blocks)


def _clean_prose(text: str) -> str:
    """Markdown with clean HTML, whose code and quotations stay what they are.

    Pages escape Markdown once more before they render it, so code with signs of HTML becomes HTML with their names.
    Wherever a renderer sees no code, that is harmless too.
    """
    mark, codes = secrets.token_hex(8), []

    def taken(match: re.Match[str]) -> str:
        codes.append(_html_code(match))
        return f"{mark}x{len(codes) - 1}x"

    bare = CODE.sub(taken, text)
    if not TAG.search(bare):
        safe = bare
    elif (safe := clean(bare, text)).startswith("<pre>") and mark not in safe and codes:
        return safe  # as it was typed
    else:
        safe = QUOTED.sub(lambda match: match[0].replace("&gt;", ">"), safe)
    return re.sub(f"{mark}x([0-9]+)x", lambda match: codes[int(match[1])], safe)


def _html_code(match: re.Match[str]) -> str:
    """A code span or a block of code as HTML; without signs of HTML in it, as it was typed."""
    if not re.search("[<>&]", match[0]):
        return match[0]
    if match["block"] is not None:
        return f"<pre><code>{escaping.escape(match['block'])}</code></pre>\n"
    words = match["span"] if match["span"] is not None else escaping.unescape(match["html"])
    named = (f"&#{ord(sign)};" if sign in MARKDOWN_SIGNS else escaping.escape(sign) for sign in " ".join(words.split()))
    return f"<code>{''.join(named)}</code>"


def _without_pictures(text: str) -> str:
    """Markdown whose pictures are links, but for those that were taken in, see `pictures`.

    Several exclamation marks in a row too: without one of them the next would make a picture.
    """
    parts, end = [], 0
    for ours in PICTURE.finditer(text):
        parts += [PICTURE_SIGN.sub("[", text[end : ours.start()]), ours[0]]
        end = ours.end()
    return "".join([*parts, PICTURE_SIGN.sub("[", text[end:])])


def _cleaned_again(text: str) -> str:
    import bleach  # as nbconvert does

    return bleach.clean(text, tags=TAGS)


def rendered(text: str) -> str:
    """Return Markdown as nbconvert renders it."""
    from nbconvert.filters import markdown_mistune, strings  # what renders the pages; heavy to import

    # The second looks for links to files, in quadratic time for open brackets.
    shown = PICTURE.sub(r"[\1](#)", _cleaned_again(text))  # pictures are in the cell, which is not here
    return strings.strip_files_prefix(markdown_mistune.markdown2html_mistune(shown))


def _quick(render: Callable[[str], str], text: str) -> bool:
    """Whether a page can render `text` soon, and at all."""
    started = time.process_time()
    try:
        render(text)
    except Exception:
        return False
    return time.process_time() - started <= RENDER_SECONDS


def _may_run(text: str) -> bool:
    """Whether `text`, however it is disguised by entities, escapes or spaces, names a link that runs something."""
    seen = escaping.unescape(NUMBER.sub("?", escaping.unescape(NUMBER.sub("?", text))))
    joined = IGNORED.sub("", seen)
    return bool(TEX.search(seen) or RUNS.search(joined) or RUNS.search(joined.replace("\\", "")))
