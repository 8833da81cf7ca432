"""The numbers that the prose of notebook 07 prints, computed. Its cells print all others."""

import inspect
from collections.abc import Callable

from autograder import course
from autograder.author import answers, build


def defaults() -> dict[str, object]:
    """The defaults of the arguments of 7.3's `mask_tokens`."""
    known = course.load()
    entry = known.notebook("07_bert_pretraining")
    (case,) = [one for one in answers.reference_cases(known, entry) if one.exercise == "7.3"]
    defined = answers.at_home(build.student_notebook(known, entry), case.source, "answer")
    parameters = inspect.signature(defined["mask_tokens"]).parameters
    return {name: one.default for name, one in parameters.items()}


NUMBERS: dict[str, Callable[[], str]] = {
    "15%": lambda: f"{defaults()['p']:.0%}",
    "80%": lambda: f"{defaults()['split'][0]:.0%}",
    "10%": lambda: f"{defaults()['split'][1]:.0%}",
}
