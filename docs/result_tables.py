"""The page of results: a table for each metric of each experiment, and its comparisons, read from the recorded runs."""

from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.course import NotebookEntry
from autograder.reports.report import recorded_tables
from utils.experiments.seed_table import Comparison, SeedTable

FEW = 3  # experiments of which each is compared with each


def write(folder: Path) -> None:
    """Write the tables of all notebooks with experiments into `folder`."""
    folder.mkdir(exist_ok=True)
    pages = [page(entry) for entry in courses.load().notebooks if entry.experiments]
    (folder / "results.md").write_text("\n".join(pages))


def page(entry: NotebookEntry) -> str:
    """Markdown: what the recorded runs of a notebook show."""
    found, module = recorded_tables(entry), entry.experiment_module()
    lines = [f"### {entry.number} {entry.title}\n", f"{entry.measures[0].upper()}{entry.measures[1:]}.\n"]
    for table in found:
        lines += [_rows(table), *_bullets(_within(table, module))]
    if found and hasattr(module, "compared"):
        lines += _bullets(module.compared({name: some for table in found for name, some in table.runs.items()}))
    return "\n".join(lines)


def _rows(table: SeedTable) -> str:
    """A row for each experiment: runs, mean and standard deviation, interval, lowest and highest, baseline, minutes."""
    metric, frame = table.metric, table.frame()
    baseline = f"{metric.baseline_name}, {metric.unit}"
    last = [f"{metric.baseline_name}, {metric.unit}"] if baseline in frame else []
    head = [f"{metric.name}, {metric.unit}", "runs", "mean ± sd", "95% interval", "lowest to highest", *last, "minutes"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, row in frame.iterrows():
        mean, low, high, least, most = (
            f"{row[f'{column}, {metric.unit}']:.{metric.digits}f}"
            for column in ("mean", "95% from", "95% to", "min", "max")
        )
        spread = f"{row[f'sd, {metric.difference_unit}']:.{metric.digits}f}"
        some = table.runs[name]
        minutes = sum(run.seconds for run in some) / len(some) / 60
        cells = [name, str(len(some)), f"{mean} ± {spread}", f"{low} to {high}", f"{least} to {most}"]
        cells += [f"{row[baseline]:.{metric.digits}f}"] if last else []
        lines.append("| " + " | ".join([*cells, f"{minutes:.1f}"]) + " |")
    return "\n".join(lines) + "\n"


def _within(table: SeedTable, module: Any) -> list[Comparison]:
    """The comparisons that the notebook makes in this table; of a few experiments, all."""
    if hasattr(module, "compared"):
        return []
    if hasattr(module, "questions"):
        return table.compared(module.questions(table.runs))
    return table.comparisons() if len(table.runs) <= FEW else []


def _bullets(some: list[Comparison]) -> list[str]:
    return [*(f"- {one}" for one in some), ""]
