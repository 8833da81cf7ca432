"""Choose the learning rate of each width in `utils/experiments/scaling/spec.py`.

Run it as `python solutions/03_parameter_counting/search.py`.
Each of RATES is tried with SEED at the middle budget (the smallest width at the smallest budget), on a half of the
validation text that no recorded run is tested on. The rate of a width is the smallest one whose loss is within
TOLERANCE of the lowest: one seed cannot tell these apart, and large rates fail with some seeds. A width that was not
searched has the rate of the nearest one. Each run adds a row to `scaling.SEARCH`, and a row that is there is not run
again.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: its notebook.py would hide Jupyter's

from tqdm import tqdm

from autograder.author.rate_search import read_rows, write_rows
from utils.experiments import profiles, scaling
from utils.experiments.scaling.spec import Scaling

BUDGETS = {16: 30}  # of a width that no run has at the middle budget
MIDDLE = 90
RATES = (5e-3, 7e-3, 1e-2, 1.4e-2, 2e-2)
WIDTHS = (16, 24, 32, 48, 64, 96)
MORE = {96: (2.5e-3, 3.5e-3)}  # where the best rate was the last one, or the first one
TOLERANCE = 0.02  # nats
SEED = 101  # no run that counts has it


def trials() -> list[Scaling]:
    """What is tried, width by width."""
    return [
        Scaling(f"width {width}, {rate:g}", "documentation", BUDGETS.get(width, MIDDLE), width, rate, held_out=True)
        for width in WIDTHS
        for rate in sorted((*RATES, *MORE.get(width, ())))
    ]


def recorded() -> dict[tuple[int, float], float]:
    """The held-out losses that are recorded, by width and rate."""
    return {(row["width"], row["rate"]): row["loss"] for row in read_rows(scaling.SEARCH)}


def best(losses: Mapping[tuple[int, float], float]) -> dict[int, float]:
    """The rate of each width."""
    found = {}
    for width in WIDTHS:
        tried = {rate: loss for (one, rate), loss in losses.items() if one == width}
        found[width] = min(rate for rate, loss in tried.items() if loss <= min(tried.values()) + TOLERANCE)
    return found


def main() -> None:
    """Try what was not tried yet, and print the best rates."""
    rows, known = read_rows(scaling.SEARCH), recorded()
    for one in (bar := tqdm(trials())):
        bar.set_postfix_str(one.name)
        if (one.width, one.lr) not in known:
            run = one.run_seed(SEED)
            about = {"width": one.width, "rate": one.lr, "budget": one.budget, "seed": SEED}
            rows.append({**about, "loss": run.numbers["loss"], "device": profiles.device_name(profiles.device())})
            write_rows(scaling.SEARCH, rows)
    print(best(recorded()))


if __name__ == "__main__":
    main()
