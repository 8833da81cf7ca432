"""Written answers on pages: pictures, whatever wrote them, quotations, code and formulas stay what they are."""

import base64
import io
import itertools
import json
import re
import struct
import zlib
from pathlib import Path

import nbformat
import nbgrader
import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from PIL import Image
from traitlets.config import Config

from autograder import course, html_cleaning, limited, pictures
from autograder.author import build
from autograder.cells import CellRole, role_of
from autograder.intake import embedded, reading, restore
from autograder.reports import page

COURSE = course.load()
ENTRY = COURSE.notebooks[0]
RELEASE = build.student_notebook(COURSE, ENTRY)
WRITTEN = next(cell.id for cell in RELEASE.cells if role_of(cell.id) is CellRole.WRITTEN)


def picture(size=(40, 30), colour="red", form="PNG", **options):
    """A file with a picture."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, form, **options)
    return file.getvalue()


def noise(width, height):
    """A picture that no format makes small."""
    draw = zlib.crc32(b"seed")
    rows = bytearray()
    for _ in range(width * height * 3 // 4 + 1):
        draw = (draw * 1103515245 + 12345) % 2**31
        rows += struct.pack("<I", draw)
    file = io.BytesIO()
    Image.frombytes("RGB", (width, height), bytes(rows[: width * height * 3])).save(file, "PNG")
    return file.getvalue()


def bomb(width, height):
    """A PNG of one colour, of very many points and few bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packed = zlib.compressobj(9)
    row = b"\0" * (width // 8 + 2)
    data = b"".join(packed.compress(row) for _ in range(height)) + packed.flush()
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


def uri(file, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(file).decode()}"


def handed_in(text, attachments=None, extra=()):
    """The graded notebook of a submission whose written answer is this; the answer's cell, and the remarks."""
    notebook = nbformat.from_dict(json.loads(json.dumps(RELEASE)))
    cell = next(cell for cell in notebook.cells if cell.id == WRITTEN)
    cell.source = text
    if attachments:
        cell.attachments = attachments
    notebook.cells += [nbformat.v4.new_markdown_cell(one) for one in extra]
    found = restore.read(json.dumps(notebook).encode(), COURSE.limits.notebook_mb)
    restored, remarks = restore.restore(found, RELEASE)
    nbformat.validate(restored)
    return restored, next(cell for cell in restored.cells if cell.id == WRITTEN), remarks


def formgraders(notebook):
    """formgrader's page of what the student wrote, as nbgrader's templates make it, parsed."""
    wrote = [cell for cell in notebook.cells if cell.id == WRITTEN or cell.id.startswith("extra_")]
    notebook = nbformat.from_dict(notebook | {"cells": wrote})
    settings = {"template_name": "formgrade", "extra_template_basedirs": [str(TEMPLATES)], "sanitize_html": True}
    exporter = HTMLExporter(config=Config({"HTMLExporter": settings, "SanitizeHTML": {"tags": html_cleaning.TAGS}}))
    return BeautifulSoup(exporter.from_notebook_node(notebook, {"index": 0, "total": 1})[0], "html.parser")


def feedbacks(notebook):
    """Our feedback page of the notebook, parsed."""
    about = {
        **{"title": "t", "course": "c", "student": "s", "reason": "", "why": "", "penalty": 0, "late_seconds": 0},
        **{"release": json.dumps(RELEASE), "notebook": json.dumps(notebook), "marks": {}, "comments": {}},
        **{"said": {}, "remarks": []},
    }
    return BeautifulSoup(page.render(about), "html.parser")


def sizes(soup):
    """The sizes of all pictures of a page, which hold their files; what else a picture asks for fails here."""
    found = []
    for shown in soup("img"):
        head, data = shown["src"].split(",", 1)
        assert head in ("data:image/png;base64", "data:image/jpeg;base64")
        found.append(Image.open(io.BytesIO(base64.b64decode(data))).size)
    return found


TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
NOISE = noise(700, 400)


@pytest.mark.parametrize(
    ("text", "attachments"),
    [
        (f"before ![image.png]({uri(NOISE)}) after", None),
        (f"before\n\n<img src='{uri(NOISE)}' width=\"300\" alt='image.png'/>\n\nafter", None),
        (f'before <div><p><IMG  alt="image.png" SRC={uri(NOISE)} ></p></div> after', None),
        ("before ![image.png](attachment:image.png) after", {"image.png": {"image/png": NOISE}}),
        ('before ![image.png](<attachment:my%20image.png> "a title") after', {"my image.png": {"image/png": NOISE}}),
        ("before <img src='attachment:image.png' alt='image.png'> after", {"image.png": {"image/png": NOISE}}),
        (f"before [a]\n\n[a]: {uri(NOISE)}\n\nimage.png after", None),
    ],
)
def test_a_pasted_screenshot_is_shown_wherever_it_was_pasted(text, attachments):
    """It has 840 KB, in base64 more than all text of a submission may have."""
    assert len(NOISE) > 750_000 and len(uri(NOISE)) > reading.MAX_TEXT
    for bundle in (attachments or {}).values():
        bundle["image/png"] = (
            base64.b64encode(bundle["image/png"]).decode()
            if isinstance(bundle["image/png"], bytes)
            else bundle["image/png"]
        )
    notebook, cell, remarks = handed_in(text, attachments)
    assert remarks == [] and len(cell.source) < 300 and "before" in cell.source and "after" in cell.source
    (shown,) = cell.attachments.values()
    assert {*shown} == {"image/jpeg"} and len(*shown.values()) < 4 / 3 * pictures.MAX_BYTES + 4
    for soup in (formgraders(notebook), feedbacks(notebook)):
        assert sizes(soup) == [(700, 400)] and "base64" not in soup.text
        assert "before" in soup.text and "after" in soup.text and "image.png" in (soup.img["alt"] + soup.text)


@pytest.mark.parametrize("lost", [False, True])
def test_a_picture_beside_its_question_is_put_there_with_the_words(lost):
    """Where the answer's cell is as released, or deleted, and somebody wrote into a new one below it."""
    notebook = nbformat.from_dict(json.loads(json.dumps(RELEASE)))
    place = next(place for place, cell in enumerate(notebook.cells) if cell.id == WRITTEN)
    below = nbformat.v4.new_markdown_cell(f"The mask is needed, see ![a]({uri(picture())})")
    notebook.cells[place : place + 1] = [below] if lost else [notebook.cells[place], below]
    restored, _ = restore.restore(restore.read(json.dumps(notebook).encode(), 20), RELEASE)
    cell = next(cell for cell in restored.cells if cell.id == WRITTEN)
    assert "The mask is needed" in cell.source and sizes(formgraders(restored)) == [(40, 30)]


def test_a_picture_is_written_again_upright_and_without_what_else_its_file_holds():
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "where I live"
    file = picture((40, 30), form="JPEG", exif=exif.tobytes()) + b"<script>hostile()</script>"
    notebook, cell, _ = handed_in(f"![]({uri(file, 'jpeg')})")
    ((kind, data),) = (pair for bundle in cell.attachments.values() for pair in bundle.items())
    again = base64.b64decode(data)
    assert kind == "image/png" and b"where I live" not in again and b"hostile" not in again
    assert sizes(formgraders(notebook)) == [(30, 40)]


@pytest.mark.parametrize(
    ("form", "shown"), [("GIF", (40, 30)), ("WEBP", (40, 30)), ("BMP", None), ("TIFF", None), ("ICO", None)]
)
def test_formats_that_browsers_show_are_read_and_no_others(form, shown):
    notebook, cell, remarks = handed_in(f"see ![a]({uri(picture(form=form), form.lower())})")
    assert sizes(formgraders(notebook)) == ([shown] if shown else [])
    assert bool(remarks) is not bool(shown) and ("left out: it cannot be read" in cell.source) is not bool(shown)


BAD = {
    "svg": uri(b"<svg xmlns='http://www.w3.org/2000/svg' onload='hostile()'/>", "svg+xml"),
    "none": uri(b"no picture at all"),
    "damaged": uri(picture((300, 300))[:200]),
    "nothing behind it": "attachment:missing.png",
    "too many points": uri(bomb(16_000, 16_000)),
    "a side of 2 ** 31": uri(bomb(8, 8).replace(struct.pack(">II", 8, 8), struct.pack(">II", 2**31 - 1, 2**31 - 1))),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_is_left_out_and_said(name):
    notebook, cell, remarks = handed_in(f"see ![a]({BAD[name]}) here ![b]({uri(picture())})")
    assert len(cell.source) < 300 and "see (a picture is left out: " in cell.source and " here ![b]" in cell.source
    assert remarks in ([], ["1 picture in answers left out: the text there says why"])
    for soup in (formgraders(notebook), feedbacks(notebook)):
        assert sizes(soup) == [(40, 30)] and "a picture is left out" in soup.text


@pytest.mark.parametrize(
    "text",
    [
        "see ![the curves](curve.png) here", "see ![](figures/my%20curve.PNG) here", "see <img src='curve.png'> here",
        'see <img alt="a" width=3 src="figures/my curve.jpeg"/> here', "see ![a](<my curve.webp> 'title') here",
        "see ![a](/content/drive/MyDrive/curve.png) here",
    ],
)  # fmt: skip
def test_a_picture_in_a_file_beside_the_notebook_is_said_to_be_missing(text):
    """It was a dead link, or the tag as text: the person who marked did not learn that something was to be seen."""
    notebook, cell, _ = handed_in(text)
    assert re.fullmatch(r"see\s+\(a picture is left out: it is a file beside the notebook, .*\)\s+here", cell.source)
    for soup in (formgraders(notebook), feedbacks(notebook)):
        assert not soup("img") and "pasted into the cell" in soup.text and "curve" not in str(soup(href=True))


def test_a_picture_at_an_address_stays_a_link():
    notebook, _, _ = handed_in("see ![a](https://example.org/curve.png) here")
    for soup in (formgraders(notebook), feedbacks(notebook)):
        assert not soup("img") and "https://example.org/curve.png" in [one["href"] for one in soup(href=True)]


def test_points_and_bytes_of_all_pictures_are_bounded():
    notebook, cell, _ = handed_in("\n\n".join(f"![{n}]({uri(picture((2000, 1000), (n, 0, 0)))})" for n in range(30)))
    shown = sizes(formgraders(notebook))
    assert 5 < len(shown) <= pictures.MAX_ALL / pictures.MAX_POINTS and all(
        w * h <= pictures.MAX_POINTS for w, h in shown
    )
    assert sum(w * h for w, h in shown) <= pictures.MAX_ALL
    assert cell.source.count("a picture is left out") == 30 - len(shown)
    assert sum(len(data) for one in cell.attachments.values() for data in one.values()) < 2 * pictures.MAX_ALL_BYTES


@pytest.mark.parametrize(
    "text",
    [
        "!![a](/logout)", "!!![a](/logout)", "!!!!![a](//hostile.example/x)", "[!![a](/logout)](x)",
        "!!!\\![a](/logout)",
        "!!![a][b]\n\n[b]: /logout", "!![a]\n\n[a]: http://hostile.example/x", "> !![a](/logout)", "- !![a](/logout)",
        "!<!-- -->![a](/logout)", "!<b>!![a](/logout)</b>", "!!&#91;a](/logout)", "&#33;![a](/logout)",
        "!\n![a](/logout)",
        "| a |\n|---|\n| !![a](/logout) |", "!![a](attachment:x.png)", "![a](attachment:picture-1-00000000)",
        "!![![a](/logout)](/logout)", "<img src=/logout>", "<p>\n!![a](/logout)\n</p>", "!![a](<data:image/png,x>)",
        "![a](attachment:picture-1-00000000)![b](/logout)", "!\u200b![a](/logout)", "$!![a](/logout)$",
    ],
)  # fmt: skip
def test_no_spelling_makes_a_picture_of_an_address(text):
    """formgrader would ask for it whenever the page is opened: /logout ends the instructor's session."""
    notebook, cell, _ = handed_in(text, {"unused.png": {"image/png": uri(picture()).split(",")[1]}}, extra=[text])
    assert cell.get("attachments", {}) == {}
    for soup in (formgraders(notebook), feedbacks(notebook)):
        assert not soup("img") and not [at for at in soup(src=True) if "logout" in at["src"]]


def test_an_answer_of_plain_text_and_a_hint_have_no_attachments():
    _, cell, remarks = handed_in("I have no picture; I like `![a](b)` and data:image/png;base64,AAAA.")
    assert "attachments" not in cell and remarks == [] and "AAAA" in cell.source


def outputs(*data):
    """A notebook with these outputs."""
    made = [nbformat.v4.new_output("display_data", data=one) for one in data]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", id="a", outputs=made)])


def test_outputs_have_few_points_whatever_their_bytes():
    """A picture of 16,000 by 16,000 points has about 30 KB and costs a browser 1 GB."""
    small, large = picture((640, 480)), picture((3000, 2000))
    text = [base64.b64encode(one).decode() for one in (small, bomb(16_000, 16_000), large, picture(form="JPEG"), b"x")]
    frames = io.BytesIO()
    many = [Image.new("RGB", (30, 30), (n, 0, 0)) for n in range(9)]
    many[0].save(frames, "PNG", save_all=True, append_images=many[1:])
    text.append(base64.b64encode(frames.getvalue()).decode())
    notebook = outputs(*({"image/png": one, "text/plain": "<Figure>"} for one in text))
    assert pictures.fit(notebook) == 2
    found = [output.data for output in notebook.cells[0].outputs]
    assert found[0]["image/png"] == text[0] and found[3] == {"text/plain": "<Figure>", "image/jpeg": text[3]}
    assert found[1] == {"text/plain": "(a picture is left out: it has 256,000,000 points, and the most is 30,000,000)"}
    assert found[4]["text/plain"].startswith("(a picture is left out: it cannot be read")
    width, height = Image.open(io.BytesIO(base64.b64decode(found[2]["image/png"]))).size
    assert width * height <= pictures.MAX_POINTS and width / height == pytest.approx(1.5, abs=0.01)
    assert getattr(Image.open(io.BytesIO(base64.b64decode(found[5]["image/png"]))), "n_frames", 1) == 1
    many = outputs(*({"image/png": base64.b64encode(picture((1500, 1300))).decode()} for _ in range(30)))
    assert 15 < pictures.fit(many) < 25


def test_costly_pictures_have_one_bound_together(monkeypatch):
    """One among many is found and the others stay; where all are costly, most are not tried."""
    calls = []

    def call(work, files, room, seconds, memory_mb):
        calls.append(len(files))
        if b"slow" in files:
            raise limited.TooCostly("it takes more than 10 seconds to read")
        return [["image/png", ""] for _ in files]

    monkeypatch.setattr(pictures.limited, "call", call)
    one = pictures.redraw_in_child(None, [b"slow" if place == 13 else b"" for place in range(pictures.MAX_PICTURES)], 1)
    assert [bool(kind) for kind, _ in one] == [place != 13 for place in range(20)] and "seconds" in one[13][1]
    calls.clear()
    every = pictures.redraw_in_child(None, [b"slow"] * 20, 1)
    assert len(calls) == pictures.MAX_COSTLY and len(every) == 20
    assert every[-1] == ("", pictures.TOO_LONG) and not any(kind for kind, _ in every)


@pytest.mark.parametrize("long", ["![{}](attachment:{})", '![x](attachment:{1} "{0}")'])
def test_a_picture_is_not_shown_again_by_its_name(long):
    """However long the words beside it are: each place counts as a picture of its own."""
    file = picture()
    first = f"![x](data:image/png;base64,{base64.b64encode(file).decode()})"
    _, [(name, _)] = embedded.taken_out(first, {}, itertools.count(1))
    again, taken = embedded.taken_out(long.format("w" * 400, name), {}, itertools.count(1))
    assert not taken and name not in again and embedded.NOT_THERE in again


def test_outputs_without_a_picture_need_no_child(monkeypatch):
    monkeypatch.setattr(pictures, "redraw_in_child", None)
    assert pictures.fit(outputs({"text/plain": "a"})) == 0 and pictures.rewritten([]) == []


CODE = "if a < b and c > d & e:\n    x[0] = *y*  # $p$\n\n    print('<b>')"


@pytest.mark.parametrize("tag", ["", "<b>bold</b> ", "<details><summary>s</summary>t</details>\n\n"])
@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("see `a < b > c & d`", "a < b > c & d"),
        ("see `x[0] < *y* _z_ $p$ \\`", "x[0] < *y* _z_ $p$ \\"),
        ("see ``x`<`y``", "x`<`y"),
        ("see `<script>hostile()</script>`", "<script>hostile()</script>"),
        ("see `&lt; &amp;`", "&lt; &amp;"),
        ("see <code>a &lt; $b$</code>", "a < $b$"),
        (f"see\n\n```python\n{CODE}\n```\n\nafter", CODE),
        (f"see\n\n~~~\n{CODE}\n~~~\nafter", CODE),
        ("see `plain code` $5", "plain code"),
    ],
)
def test_code_of_an_answer_is_shown_as_it_was_typed(tag, typed, code):
    """Before, one tag anywhere made `&lt;` of every sign of HTML in code; on formgrader's page it needed no tag."""
    notebook, cell, _ = handed_in(f"{tag}{typed}")
    for soup in (formgraders(notebook), feedbacks(notebook)):
        shown = [one.text.strip("\n") for one in soup("code") if one.text.strip()] or [
            soup.find("pre").text.strip("\n")
        ]
        assert code in shown and not [one for one in soup("script") if "hostile" in one.text]
        assert not tag or soup.find({"<b>": "b"}.get(tag[:3], "summary"))
    assert code in html_cleaning.code_as_typed(cell.source)


@pytest.mark.parametrize("tag", ["", " with <b>bold</b>"])
def test_quotations_stay_quotations(tag):
    notebook, _, _ = handed_in(f"They say:\n\n> a quotation{tag}\n> > of another\n\n- > in a list\n\n5 > 3 < 4 &gt; 2")
    outer, inner, listed = feedbacks(notebook)("blockquote")
    assert "a quotation" in outer.text and inner.text.strip() == "of another" and listed.text.strip() == "in a list"
    assert "5 > 3 < 4 > 2" in feedbacks(notebook).text


@pytest.mark.parametrize(
    ("typed", "formulas", "code"),
    [
        ("see\n\\begin{align}\na &= b \\\\\n- c &= d < e\n\\end{align}\nmore", 1, []),
        ("inline \\begin{equation*}a = b\\end{equation*} more", 1, []),
        ("<b>x</b>\n\n\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}", 1, []),
        ("$$\\begin{align}a &= b\\end{align}$$", 1, []),
        ("costs $5 in `$x` and `a$`", 0, ["$x", "a$"]),
        ("`$a$` and $b$", 1, ["$a$"]),
        ("<b>x</b> `a $ b < c` and $d < e$ $", 1, ["a $ b < c"]),
        ("```\n$x$ \\begin{align}a\\end{align}\n```", 0, ["$x$ \\begin{align}a\\end{align}"]),
    ],
)
def test_formulas_need_no_dollars_and_dollars_in_code_are_none(typed, formulas, code):
    notebook, _, _ = handed_in(typed)
    soup = feedbacks(notebook)
    assert len(soup("math")) == formulas and "begin" not in "".join(one.text for one in soup("math"))
    assert [one.text.strip() for one in soup("code")] == code


@pytest.mark.parametrize(
    "text", ["`" * 9000, "`a" * 9000, "```\n" * 5000, "<code>" * 3000, "> " * 9000 + "<b>", "\\begin{align}" * 1400]
)
def test_no_text_is_slow_to_clean(text):
    notebook, cell, _ = handed_in(text)
    assert len(cell.source) < 7 * len(text) + 1000 and feedbacks(notebook)
