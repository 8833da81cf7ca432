"""What the cells of notebooks 04 to 06 print and plot is what the texts around them say; and the plots themselves."""

import ast
import contextlib
import functools
import io
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

from autograder import course
from autograder.author import build
from autograder.cells import CellRole, role_of
from utils import plots

COURSE = course.load()


@functools.cache
def shown(number):
    """What the solution of a notebook shows outside checks and experiments: `pictures`, `text`, `namespace`."""
    entry, namespace, pictures = COURSE.notebook(number), {"__name__": "__main__"}, []
    with contextlib.redirect_stdout(io.StringIO()) as text:
        for cell in build.solution_notebook(COURSE, entry).cells:
            skipped = cell.cell_type != "code" or "experiment" in cell.metadata.get("tags", [])
            if (
                skipped
                or cell.id == "setup"
                or role_of(cell.id) is CellRole.CHECK
                or cell.source.startswith("scoreboard(")
            ):
                continue
            body = ast.parse(cell.source).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), cell.id, "exec"), namespace)
            value = eval(compile(ast.Expression(last.value), cell.id, "eval"), namespace) if last else None
            if isinstance(value, plots.Picture):
                pictures.append(value)
    return SimpleNamespace(pictures=pictures, text=text.getvalue(), namespace=namespace)


def picture(number: str, words: str) -> plots.Picture:
    """The picture of a notebook with those words in its alternative text."""
    (found,) = [one for one in shown(number).pictures if words in one.alt]
    return found


@pytest.mark.parametrize("number", ["04", "05", "06"])
def test_every_picture_names_its_axes(number):
    assert shown(number).pictures
    for one in shown(number).pictures:
        axes = [ax for ax in one.axes if ax.axison and ax.get_label() != "<colorbar>" and not ax.texts]
        bottom = [ax.get_xlabel() for ax in axes]
        assert all(bottom), one.alt


def test_the_panels_of_04_5_share_a_scale():
    images = [ax.images[0] for ax in picture("04", "Two masks").axes if ax.images]
    assert len(images) == 2 and len({image.get_array().shape for image in images}) == 1
    assert len({(image.norm.vmin, image.norm.vmax) for image in images}) == 1
    first, second = (np.ma.filled(image.get_array().astype(float), np.nan) for image in images)
    assert not np.isnan(first).any() and np.isnan(second).any()  # where no column is, no colour


def test_the_bootstrap_of_five_runs_is_too_short_and_05_shows_it():
    (t, bootstrap), (width,) = (
        re.search(r"true mean: \{'t': (\d+), 'bootstrap': (\d+)\}", shown("05").text).groups(),
        re.search(r"has (\d+)% of the width of t's", shown("05").text).groups(),
    )
    assert 935 <= int(t) <= 965 and 810 <= int(bootstrap) <= 870 and 58 <= int(width) <= 66


def test_05_7_shows_what_pairing_brings():
    """By seed for two pairs of starts, and by example for made-up runs, whose examples are easy for both."""
    correlations = re.findall(r"; correlation ([-+][\d.]+)", shown("05").text)
    assert len(correlations) == 3 and shown("05").text.count("were they not paired") == 3
    assert float(correlations[-1]) > max(map(float, correlations[:-1]))
    assert shown("05").text.count("Holm's correction for 3 comparisons") == 3
    assert shown("05").text.count("of all pairs of runs") == 3


def test_05_8_has_a_degenerate_run_to_find():
    found = re.findall(
        r"and one that gave up: degenerate \[0[, \d]*\] of \d+, mean ([\d.]+), of the others ([\d.]+)", shown("05").text
    )
    assert len(found) == 1 and float(found[0][0]) > float(found[0][1])  # it flatters coins


def test_05_9_says_how_far_the_formula_is_off():
    powers = dict(re.findall(r"(\d+) seeds: power ([\d.]+)", shown("05").text))
    assert powers == {"2": "0.73", "3": "0.77", "5": "0.79", "10": "0.80"}
    draw, n = np.random.default_rng(9), 2  # the same by simulation
    tails = [shown("05").namespace["stats"].t.ppf(share, n - 1) for share in (0.975, 0.8)]
    samples = draw.normal(sum(tails) / n**0.5, 1, size=(40_000, n))
    shares = abs(samples.mean(axis=1)) > tails[0] * samples.std(axis=1, ddof=1) / n**0.5
    assert shares.mean() == pytest.approx(0.73, abs=0.01)


def test_the_axis_of_05_9_is_readable():
    one = picture("05", "Seeds needed")
    one.png()
    (ax,) = one.axes
    low, high = ax.get_ylim()
    labels = [label.get_text() for label in ax.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert {"5", "10", "20", "50", "100"} <= set(labels) and not any("$" in label for label in labels)
    assert not any(label.get_text() for label in ax.get_yticklabels(minor=True))


def test_05_10_marks_where_the_runs_end():
    (ax,) = picture("05", "Expected best").axes
    have = max(map(len, shown("05").namespace["scores"].values()))
    assert [*ax.lines[-1].get_xdata()] == [have, have] and str(have) in ax.texts[0].get_text()


def test_06_1_and_06_3_measure_what_they_say():
    (ax,) = picture("06", "twelve adapters").axes
    bert, default = (line.get_ydata()[-1] for line in ax.lines)
    assert bert == pytest.approx(0.2, abs=0.02) and default == pytest.approx(1, abs=0.1)
    found = {
        int(width): (float(largest), int(off))
        for width, largest, off in re.findall(
            r"\((\d+)\): the largest of three weights is ([\d.]+) on average; (\d+)% off", shown("06").text
        )
    }
    assert found[16][0] < 0.4 and found[16][1] <= 5  # nearly the mean of three
    assert found[768][0] > 0.9 and found[768][1] > 50


def test_with_both_matrices_at_zero_only_the_bias_of_up_learns():
    adapter = shown("06").namespace["BottleneckAdapter"](32)
    for part in (adapter.down, adapter.up):
        torch.nn.init.zeros_(part.weight)
    rule = torch.optim.SGD(adapter.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 32, generator=torch.Generator().manual_seed(step))
        rule.zero_grad()
        (adapter(x) - 1).square().sum().backward()
        rule.step()
    assert {name for name, part in adapter.named_parameters() if part.any()} == {"up.bias"}


def test_small_matrices_have_their_values_written_in():
    weights = torch.full((6, 6), 1 / 6)
    small = plots.heatmaps({"even": weights, "one": torch.eye(6)}, alt="two")
    first, second = small.axes[:2]
    assert {text.get_text() for text in first.texts} == {"0.17"} and len(first.texts) == 36
    inks = {(text.get_text(), to_rgba(text.get_color())) for text in second.texts}
    assert inks == {("1.00", to_rgba("black")), ("0.00", to_rgba("white"))}
    assert not plots.heatmaps({"large": torch.eye(9)}, alt="one").axes[0].texts


def test_rows_of_a_wide_matrix_have_room_for_their_numbers():
    wide = plots.heatmaps({"one": torch.zeros(8, 40)}, alt="one")
    wide.png()
    boxes = [label.get_window_extent() for label in wide.axes[0].get_yticklabels() if label.get_text()]
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) > 2 and all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))


def test_equal_values_of_a_strip_stay_apart():
    (ax,) = plots.strips({"a": [0.5, 0.5, 0.5]}, xlabel="accuracy", alt="three").axes
    assert len(set(ax.collections[0].get_offsets()[:, 1].tolist())) == 3


def test_labels_of_many_bars_do_not_run_into_each_other():
    labels = ["the", "a", "the cat", "the dog", "a cat", "the cat dog", "a cat dog"]
    drawn = plots.bars({"found": range(7), "not found": range(7)}, labels=labels, ylabel="score", alt="bars")
    drawn.figure.draw_without_rendering()
    (ax,) = drawn.axes
    shown = ax.get_xticklabels()
    assert [one.get_text().replace("\n", " ") for one in shown] == labels
    boxes = [one.get_window_extent() for one in shown]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_of_nothing_there_are_no_bars():
    (ax,) = plots.bars({"a": []}, labels=[], ylabel="share", alt="bars").axes
    assert not ax.patches


def test_bars_name_both_axes():
    (ax,) = plots.bars({"a": [1, 2]}, labels=["x", "y"], xlabel="token", ylabel="share", alt="bars").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("token", "share")


def test_masks_are_written_and_explained_as_yes_and_no():
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    names = [*"abcd"]
    for drawn in (
        plots.heatmaps({"mask": mask}, alt="mask"),
        plots.tables({"mask": mask}, rows=names, columns=names, alt="mask"),
    ):
        ax, bar = drawn.axes
        assert [text.get_text() for text in ax.texts] == [("no", "yes")[int(one)] for one in mask.flatten()]
        assert [tick.get_text() for tick in bar.get_yticklabels()] == ["no", "yes"]


def test_only_booleans_are_yes_and_no():
    numbers, blanks = torch.eye(3), torch.tensor([[1.0, torch.nan], [0.0, 1.0]])
    assert not plots.are_masks([numbers]) and not plots.are_masks([numbers.bool(), numbers / 2])
    assert plots.are_masks([numbers.bool(), blanks]) and plots.are_masks([numbers.numpy() > 0])
    assert [*map(plots.writing([numbers.bool(), blanks]), (0.0, 1.0))] == ["no", "yes"]
    assert [*map(plots.writing([numbers, blanks * 6]), (0.0, 6.0))] == ["0", "6"]  # whole numbers have no decimals
    assert [*map(plots.writing([numbers, numbers / 4]), (0.0, 0.25))] == ["0.00", "0.25"]


def test_panels_are_as_wide_as_a_notebook_shows_them():
    """About 900 pixels are left for a picture on a laptop; what is wider is made smaller, with its titles."""
    for count in range(1, 9):
        for labels in (None, [*"abcdefghij"]):
            drawn = plots.heatmaps({str(n): torch.zeros(10, 10) for n in range(count)}, labels=labels, alt="zeros")
            assert drawn.figure.get_figwidth() * drawn.figure.dpi < 1000
            panels = [ax for ax in drawn.axes[:-1] if ax.get_visible()]
            assert [ax.get_title() for ax in panels] == [str(n) for n in range(count)]
    wide = plots.tables({str(n): torch.zeros(4, 7) for n in range(3)}, rows=[*"abcd"], columns=[*"abcdefg"], alt="0")
    assert wide.figure.get_figwidth() * wide.figure.dpi < 1000


def test_words_of_a_sentence_stay_apart():
    words = ["[CLS]", *["the", "cat", "sat", "on", "the", "mat", "because", "it", "was", "warm", "there"], "[SEP]"]
    rows = {f"draw {n}": [(word, "kept") for word in words[n:]] for n in (0, 3)}
    drawn = plots.pieces(rows, kinds=("kept",), alt="words")
    assert drawn.figure.get_figwidth() * drawn.figure.dpi < 1000
    drawn.figure.draw_without_rendering()
    boxes = [text.get_bbox_patch().get_window_extent() for text in drawn.axes[0].texts]
    lines = [boxes[: len(words)], boxes[len(words) :]]
    assert all(left.x1 < right.x0 for line in lines for left, right in itertools.pairwise(line))
    assert all(box.height > 12 for box in boxes)


@pytest.mark.parametrize(("number", "words"), [("10", "Four terms of a score"), ("01", "Values, scores, weights")])
def test_panels_are_in_the_order_of_the_text(number, words):
    """Read from the built notebook: the cell that draws, and the text that explains it."""
    entry = COURSE.notebook(number)
    cells = build.solution_notebook(COURSE, entry).cells
    (source,) = [cell.source for cell in cells if cell.cell_type == "code" and words in cell.source]
    if number == "10":
        assert "for name in sorted(terms)" in source and re.findall(r'"([a-d]): ', source) == ["b", "d", "a", "c"]
    else:
        assert re.findall(r'"(\w+) \(3, \d\)"', source) == ["values", "scores", "weights", "output"]


def test_many_bars_beside_a_long_legend_have_labels_that_stay_apart():
    """The eight ways of notebook 09, of which four numbers are shown each: the legend took the room of the labels."""
    labels = ["in sequence", "replay", "L2-SP", "EWC", "adapters", "all together", "head alone", "each alone"]
    names = ("one head", "own head", "fitted again", "fitted again, earlier phases")
    drawn = plots.bars({name: range(8) for name in names}, labels=labels, ylabel="test sentences, %", alt="bars")
    assert drawn.figure.get_figwidth() * drawn.figure.dpi < 1000
    drawn.figure.draw_without_rendering()
    boxes = [one.get_window_extent() for one in drawn.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_titles_of_panels_stay_apart():
    titles = ["every token reads every token", "each token reads only its past, and nothing that follows it", "one"]
    for labels in (["the", "cat", "sat", "down"], [*"abcdefghij"]):
        size = len(labels)
        drawn = plots.heatmaps({title: torch.eye(size) for title in titles}, labels=labels, alt="three")
        drawn.figure.draw_without_rendering()
        shown = [ax for ax in drawn.axes[:-1] if ax.get_visible()]
        assert [ax.get_title().replace("\n", " ") for ax in shown] == titles
        boxes = [ax.title.get_window_extent() for ax in shown]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
