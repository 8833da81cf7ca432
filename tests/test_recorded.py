"""The recorded runs are what the course says of them, and README shows their table."""

import re
from pathlib import Path

import pytest

from utils import rte
from utils.evidence import examine
from utils.experiment import read_files
from utils.seed_table import SeedTable

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("notebook", [rte.SEED_VARIANCE, rte.ADAPTER_FUSION])
def test_five_seeds_of_every_experiment_stand_up_to_the_check(notebook):
    files = read_files(rte.RECORDED)
    runs, refused = examine(files, rte.experiments(notebook, "cpu").values(), range(1, 6))
    assert not refused
    assert all(len(some) == 5 and len(some[0].labels) == 277 for some in runs.values())
    assert all(run.majority == pytest.approx(146 / 277) for some in runs.values() for run in some)


def test_no_file_is_left_over():
    wanted = {
        one.folder("").name
        for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION)
        for one in rte.experiments(notebook, "cpu").values()
    }
    assert {path.name for path in rte.RECORDED.iterdir()} == wanted


def test_readme_shows_the_recorded_tables():
    text = (ROOT / "README.md").read_text()
    for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION):
        rows = SeedTable(rte.recorded(notebook)).frame()
        for name, row in rows.iterrows():
            line = f"| {name} | {row['mean, %']:.2f} ± {row['sd, points']:.2f} | "
            line += f"{row['95% from, %']:.1f} to {row['95% to, %']:.1f} | {int(row['degenerate runs'])} |"
            assert line in text, line
    assert all(figure in text for figure in rte.PUBLISHED.values())
    made = [SeedTable(rte.recorded(notebook)).comparisons() for notebook in (rte.SEED_VARIANCE, rte.ADAPTER_FUSION)]
    shown = [one for some in made for one in some if one.first == "pretrained"]
    assert len(shown) == 3
    for one in shown:
        assert str(one) in re.sub(r"\s+", " ", text), one
