"""The numbers that the prose of notebook 06 prints, computed. Its cells print all others."""

import json
from collections.abc import Callable

from utils.experiments import rte


def minutes_of_fine_tuning() -> str:
    """How long five seeds of the experiment "pretrained" take on one core, in tens of minutes."""
    path = rte.RECORDED.with_name("rte_on_cpu.json")
    (run,) = (one for one in json.loads(path.read_text()) if one["arm"] == "pretrained")
    return f"{round(5 * run['processor_seconds'] / 60, -1):.0f}"


NUMBERS: dict[str, Callable[[], str]] = {"500": lambda: str(rte.FEW), "20": minutes_of_fine_tuning}
