"""Pictures that a notebook's text holds: data URIs, as Colab writes them, and attachments, as Jupyter does.

It runs in a child with limits, and decodes nothing but base64.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from autograder.pictures import LEFT_OUT, MAX_FILE, MAX_PICTURES, base64_of

Picture = tuple[str, bytes]  # its name, and the file
URL = r"data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/]++={0,2}|attachment:[^\s()<>\"']{1,300}"
# A file beside the notebook: an address would have a scheme.
BESIDE = r"(?![a-z][a-z0-9+.-]*:|//)[^()<>\"'\n]{1,300}?\.(?:png|jpe?g|gif|webp|bmp|svg|tiff?|heic)"
TITLE = r"""(?:\s+(?:"[^"\n]*+"|'[^'\n]*+'))?"""
MARKDOWN = rf"!\[(?P<alt>[^\[\]\n]*+)\]\(\s*<?(?P<url>{URL}|{BESIDE})>?{TITLE}\s*\)"
TAG = r"<img\b(?P<tag>[^<>]*)>"
BARE = r"(?P<bare>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/]{1000,}+={0,2})"
FOUND = re.compile(f"{MARKDOWN}|{TAG}|{BARE}", re.IGNORECASE)
SOURCE = re.compile(rf"""\ssrc\s*=\s*["']?({URL}|{BESIDE})""", re.IGNORECASE)
CALLED = re.compile(r"""\salt\s*=\s*(?:"([^"]{0,300})"|'([^']{0,300})')""", re.IGNORECASE)
NOT_THERE = "the file does not contain it"
NOT_PASTED = "it is a file beside the notebook, and only pictures that are pasted into the cell are shown"


def taken_out(text: str, attachments: Any, numbers: Iterator[int]) -> tuple[str, list[Picture]]:
    """A Markdown text that refers to its pictures by names of ours, and these pictures; `numbers` are the next free.

    A picture at an address stays as it is. In the place of one that is not in the notebook the text says why.
    """
    if not any(sign in text for sign in ("![", "<", "data:image/")):
        return text, []
    held = attachments if isinstance(attachments, dict) else {}
    taken: list[Picture] = []

    def named(match: re.Match[str]) -> str:
        tag = match["tag"]
        source = SOURCE.search(tag) if tag is not None else None
        url = match["url"] or match["bare"] or (source[1] if source else "")
        if not url:
            return match[0]
        file = _file(url, held)
        if file is None:
            return LEFT_OUT.format(NOT_THERE if url.lower().startswith("attachment:") else NOT_PASTED)
        number = next(numbers)
        if number > MAX_PICTURES or len(file) > MAX_FILE:
            return LEFT_OUT.format(f"a notebook may have {MAX_PICTURES} of {MAX_FILE // 10**6} MB each")
        name = f"picture-{number}-{hashlib.sha256(file).hexdigest()[:8]}"
        taken.append((name, file))
        called = CALLED.search(tag) if tag is not None else None
        alt = match["alt"] or (called and (called[1] or called[2])) or "picture"
        words = re.sub(r"[^\w .,:;()+-]", " ", alt).strip()
        shown = f"![{words}](attachment:{name})"
        return shown if match["url"] else f"\n\n{shown}\n\n"  # within HTML no Markdown is read

    return FOUND.sub(named, text), taken


def _file(url: str, attachments: dict[Any, Any]) -> bytes | None:
    """The bytes behind a URL; None if the notebook does not hold them."""
    kind, _, rest = url.partition(":")
    if kind.lower() == "data":
        return base64_of(rest.partition(",")[2])
    if kind.lower() != "attachment":
        return None
    bundle = attachments.get(rest, attachments.get(unquote(rest)))
    for said in bundle.values() if isinstance(bundle, dict) else ():
        if isinstance(said, list) and all(isinstance(line, str) for line in said):
            said = "".join(said)
        if isinstance(said, str):
            return base64_of(said)
    return None
