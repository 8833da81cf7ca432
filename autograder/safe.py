"""What came from a hand-in, made safe to show in a browser: text, tables and pictures, no script.

nbgrader's feedback and formgrader pages show the graded notebook; so it is cleaned before it is
written, whoever renders it later.
"""

import base64
import binascii
import html as escaping
import re

import bleach

# Text, tables, closed hints. No script, style, form, frame, or picture from elsewhere.
TAGS = [
    *("a", "abbr", "b", "blockquote", "br", "code", "dd", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4"),
    *("h5", "h6", "hr", "i", "li", "ol", "p", "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody"),
    *("td", "tfoot", "th", "thead", "tr", "ul"),
]
MAX_TAGS = 10_000  # bleach needs quadratic time for nested ones: 3 seconds for so many
TAG = re.compile(r"<[a-zA-Z/!?]")
# nbconvert's Markdown leaves any link as it is, and MathJax makes links of its own.
RUNS = re.compile(r"(?:java|vb)script:|[(<:]data:", re.IGNORECASE)
TEX = re.compile(r"\\(?:href|url|style|class|cssId|require|unicode|html[a-zA-Z]*)(?![a-zA-Z])")
IGNORED = re.compile(r"[\x00-\x20\x7f]+")  # what browsers skip within the scheme of a link


def html(text: str) -> str:
    """HTML with the tags of `TAGS` and harmless attributes; all else is shown as text."""
    if text.count("<") > MAX_TAGS or _may_run(text):
        return as_text(text)
    return bleach.clean(text, tags=TAGS)


def markdown(text: str) -> str:
    """Markdown whose HTML is clean, whose links run nothing and whose pictures are links.

    Text without any of them stays as it is; text with a link that might run something is shown as it was typed.
    """
    if _may_run(text) or text.count("<") > MAX_TAGS:
        return as_text(text)
    cleaned = bleach.clean(text, tags=TAGS) if TAG.search(text) else text
    return cleaned.replace("![", "[")


def as_text(text: str) -> str:
    """HTML, and Markdown, that shows `text` as it was typed."""
    return f"<pre>{escaping.escape(text)}</pre>"


def picture(text: str) -> str:
    """The base64 text of a picture, or "" if it is none: it ends up in an attribute of a page."""
    try:
        base64.b64decode(text.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return text


def _may_run(text: str) -> bool:
    """Whether `text`, however it is disguised by entities, escapes or spaces, names a link that runs something."""
    seen = escaping.unescape(escaping.unescape(text))
    joined = IGNORED.sub("", seen)
    return bool(TEX.search(seen) or RUNS.search(joined) or RUNS.search(joined.replace("\\", "")))
