"""The tables of the page of results: one for each metric of each experiment, with comparisons of recorded runs."""

import json
import re
from pathlib import Path
from typing import Any

from autograder import course as courses
from autograder.course import NotebookEntry
from autograder.reports.report import recorded_tables
from utils.experiments.seed_table import Comparison, SeedTable

GPU = courses.ROOT / "benchmarks" / "gpu.json"  # what `make gpu` wrote on a machine with a GPU
FEW = 3  # up to so many experiments, each is compared with each


def write(folder: Path) -> None:
    """Write the tables of all notebooks with experiments, and the GPU table, into `folder`."""
    folder.mkdir(exist_ok=True)
    pages = [page(entry) for entry in courses.load().notebooks if entry.experiments]
    (folder / "results.md").write_text("\n".join(pages))
    (folder / "gpu.md").write_text(on_gpu(json.loads(GPU.read_text())))


def page(entry: NotebookEntry) -> str:
    """Return the tables and comparisons of a notebook's recorded runs, as Markdown."""
    found, module = recorded_tables(entry), entry.experiment_module()
    lines = [f"### {entry.number} {entry.title}\n", f"{entry.measures[0].upper()}{entry.measures[1:]}.\n"]
    for table in found:
        lines += [_rows(table), *_bullets(_within(table, module))]
    if found and hasattr(module, "compared"):
        lines += _bullets(module.compared({name: some for table in found for name, some in table.runs.items()}))
    return "\n".join(lines + [line for part in also_shown(entry, module) for line in part])


def also_shown(entry: NotebookEntry, module: Any) -> list[list[str]]:
    """Return tables and comparisons of each group of runs that students do not make, as lines of Markdown.

    If several notebooks use the same module, only the first of them shows these groups.
    """
    first = next(one for one in courses.load().notebooks if one.experiments == entry.experiments)
    if first.name != entry.name:
        return []
    parts = []
    for title, runs, metrics, pairs in getattr(module, "also_shown", list)():
        lines = [f"#### {title}\n"]
        for metric in metrics:
            table = SeedTable({name: some for name, some in runs.items() if some}, metric)
            lines += [_rows(table), *_bullets(table.compared(pairs))]
        parts.append(lines)
    return parts


def _rows(table: SeedTable) -> str:
    """Return a table with a row for each experiment: the scores of its runs, their rate, device and minutes."""
    metric, frame = table.metric, table.frame()
    baseline = f"{metric.baseline_name}, {metric.unit}"
    last = [f"{metric.baseline_name}, {metric.unit}"] if baseline in frame else []
    head = [f"{metric.name}, {metric.unit}", "runs", "mean ± sd", "95% interval", "lowest to highest", *last]
    head += ["learning rate", "device", "minutes"]
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
        sizes = [run.experiment.get("size", {}) | run.experiment for run in some]  # 04 keeps its rate in its size
        rates = sorted({f"{size['lr']:g}" for size in sizes if size.get("lr")})
        devices = sorted({run.device.partition(",")[0] for run in some})
        cells += [" and ".join(rates), " and ".join(devices), f"{minutes:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _within(table: SeedTable, module: Any) -> list[Comparison]:
    """Return the comparisons that the notebook makes in this table, or all if it has few experiments and names none."""
    if hasattr(module, "compared"):
        return []
    if hasattr(module, "questions"):
        return table.compared(module.questions(table.runs))
    return table.comparisons() if len(table.runs) <= FEW else []


def _bullets(some: list[Comparison]) -> list[str]:
    return [*(f"- {one}" for one in some), ""]


def on_gpu(found: dict[str, Any]) -> str:
    """Return what ran on a GPU, and which experiments of size gpu were never run, as Markdown."""
    parts = found["parts"]
    answers, notebooks = (parts[name].values() for name in ("answers", "notebooks"))
    count = sum(int(row["note"].split()[0]) for row in answers)
    # A note has the number of answers, then each answer with another message or verdict than expected.
    each = re.compile(r"; (?=\d+\.\w+ )")
    surprises = [line for row in answers for line in each.split(row["note"])[1:]]
    alike = {line.split(":")[0] for row in answers for line in each.split(row.get("cpu note", ""))[1:]}
    differing = [line for line in surprises if line.split(":")[0] not in alike]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    passed = sum(row["state"] == "passed" for row in notebooks)
    lines = [
        f"Run on {found['date']} on one {found['device']} ({versions}):\n",
        f"- Of {count} right and wrong answers, all but {len(surprises)} got the expected verdict and message."
        f" {len(alike)} of these get the same message on a CPU: the messages had just been reworded when this was run.",
        *(f"  - `{line.split(':')[0]}`: {line.split(': ', 1)[1]}" for line in differing),
        f"- {passed} of {len(notebooks)} notebooks ran completely at size smoke, and every check passed.",
    ]
    small = parts["experiments, size smoke"].values()
    apart = {}  # the differences between the two values, by metric
    for row in small:
        if (far := abs(row["value"] - row["cpu value"])) >= 5e-4:
            apart.setdefault(row["metric"], []).append(far)
    widest = "; ".join(f"{name}: {len(far)}, by at most {max(far):.2f}" for name, far in apart.items())
    lines += [
        f"- {len(small)} experiments ran at size smoke, in float32, with one seed, on the GPU and on the same machine's"
        f" CPU. Some values differ in the third decimal. For each metric, how many and by how much: {widest}.\n",
        "| experiment, size gpu, seed 1 | metric | value | seconds | |",
        "|---|---|---|---|---|",
    ]
    known = parts["experiments, size gpu"]
    for entry in courses.load().notebooks:
        for name in entry.experiments_of("gpu") if entry.experiments else ():
            row = known.get(f"{entry.number} {name}", {"state": "not run yet"})
            cells = [f"{entry.number} {name}", row.get("metric", ""), "", "", row["state"]]
            if row["state"] == "passed":
                cells[2:] = [f"{row['value']:.2f}", f"{row['seconds']:.0f}", row["note"]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
