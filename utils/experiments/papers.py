"""Tables of papers beside the course's own runs: what was printed there, and means with intervals here."""

from collections.abc import Mapping, Sequence

import pandas as pd

from utils.experiments.experiment import Metric, Run
from utils.experiments.seed_table import SeedTable


def beside(
    printed: Mapping[str, Mapping[str, float]], here: Mapping[str, Mapping[str, Sequence[Run]]], metric: Metric
) -> pd.DataFrame:
    """A row for each way: the columns of a paper, then for each kind of ours the mean and its 95% interval over seeds.

    Args:
        printed: by row, the paper's columns; a row of ours alone may be missing.
        here: by kind, the runs of each row.
    """
    rows: dict[str, dict[str, str]] = {}
    names = [*printed, *(name for some in here.values() for name in some if name not in printed)]
    columns = list(dict.fromkeys(column for row in printed.values() for column in row))
    for name in dict.fromkeys(names):
        row = {column: f"{printed[name][column]:g}" if column in printed.get(name, {}) else "" for column in columns}
        for kind, some in here.items():
            row[f"{kind}, {metric.unit}"] = _cell(some[name], metric) if some.get(name) else ""
        rows[name] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def _cell(runs: Sequence[Run], metric: Metric) -> str:
    row = SeedTable({"": runs}, metric).frame().iloc[0]
    mean, low, high = (row[f"{column}, {metric.unit}"] for column in ("mean", "95% from", "95% to"))
    return f"{mean:.{metric.digits}f} ({low:.{metric.digits}f} to {high:.{metric.digits}f})"
