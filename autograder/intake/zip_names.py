"""The names in a zip that does not say in which encoding it holds them: macOS writes UTF-8, Windows a code page.

A flag of each member says that its name is UTF-8. Finder and older tools do not set it, and Python then reads the
name as cp437, so that `Zoë` becomes `Zoeê`.
"""

import re
import struct
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, field

from autograder.course import CourseError

MAX_LOOKED_AT = 300  # names of a zip, and bytes of a name, by which its code page is guessed
UTF8_FLAG = 0x800
UNICODE_PATH = 0x7075  # the extra field in which Info-ZIP keeps the name as UTF-8
# What Explorer writes: the code page of its machine's language. Of those that read all names equally well, the first.
CODE_PAGES = ("cp437", "cp850", "cp1252", "cp852", "cp857", "cp866", "cp932", "cp936", "cp949")


@dataclass
class Guess:
    """The code page in which the names of a zip were read, since the zip does not say it, and some of these names."""

    encoding: str = ""
    names: list[str] = field(default_factory=list)


def decode_names(archive: zipfile.ZipFile, encoding: str = "") -> Guess:
    """Correct the names of members whose encoding the zip does not say; the guess is empty if nothing was guessed.

    Args:
        encoding: a code page that somebody states. It is used for names that are not UTF-8, if it can read them.
    """
    unsaid: list[tuple[zipfile.ZipInfo, bytes]] = []
    for member in archive.infolist():
        if member.flag_bits & UTF8_FLAG or member.orig_filename.isascii():
            continue
        raw = member.orig_filename.encode("cp437")  # as Python read it
        stated = _unicode_path(member, raw)
        if not stated:
            try:
                stated = raw.decode()
            except UnicodeDecodeError:
                unsaid.append((member, raw))
                continue
        member.filename = _sane(stated)
    if not unsaid:
        return Guess()
    sample = [raw[:MAX_LOOKED_AT] for _, raw in unsaid[:MAX_LOOKED_AT]]
    guessed = min(CODE_PAGES, key=lambda page: _oddness(sample, page))
    chosen = encoding if encoding and _oddness(sample, encoding) < float("inf") else guessed
    for member, raw in unsaid:
        try:
            member.filename = _sane(raw.decode(chosen))
        except UnicodeDecodeError:  # it is as Python read it
            chosen = guessed
    return Guess("" if chosen == encoding else chosen, [member.filename for member, _ in unsaid])


def require_encoding(encoding: str) -> None:
    """See that Python knows a code page of this name.

    Raises:
        CourseError: it does not; says which there are.
    """
    try:
        "".encode(encoding or "cp437")
    except LookupError:
        raise CourseError(f"`{encoding}` is not the name of a code page: try one of {', '.join(CODE_PAGES)}") from None


def _sane(name: str) -> str:
    """A name as zipfile gives it: it ends at a NUL."""
    return name.split("\0", 1)[0]


def _unicode_path(member: zipfile.ZipInfo, raw: bytes) -> str:
    """The name that the extra field holds, if it is that of this member; else ""."""
    extra = member.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        content, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == UNICODE_PATH and content[:1] == b"\1" and content[1:5] == struct.pack("<L", zlib.crc32(raw)):
            try:
                return content[5:].decode()
            except UnicodeDecodeError:
                return ""
    return ""


def _oddness(names: list[bytes], encoding: str) -> float:
    """How unlike people's names these are when read in an encoding; 0 if nothing about them is odd."""
    try:
        read = "\n".join(name.decode(encoding, "ignore" if len(name) == MAX_LOOKED_AT else "strict") for name in names)
    except UnicodeDecodeError:
        return float("inf")
    odd = 0.0
    for before, letter in zip(" " + read, read, strict=False):
        if letter.isascii():
            continue
        if not letter.isalpha() or unicodedata.normalize("NFKC", letter) != letter:
            odd += 4  # a sign, a line of a frame
        elif letter.isupper() and before.islower():
            odd += 2  # JosÚ
    for word in re.findall(r"\w+", read):
        scripts = {unicodedata.name(letter, "").split()[0] for letter in word if letter.isalpha()}
        odd += 3 * (len(scripts - {"CJK", "HIRAGANA", "KATAKANA"}) > 1)  # JosΘ
    return odd
