"""A kernel that answers at once, for `scale.py`; workers on other hosts import it, so it is a module of its own."""

import json
import time
from typing import Any

from autograder.grading.grading_record import RECORD

CANNED = "canned.json"


def canned(course: Any, hand_in: Any, *_: Any) -> Any:
    """Stands in for `autograder.grading.grade.grade_one`: the same answer for everybody, from the course tree."""
    stated, notebook, wait = json.loads((course.tree / CANNED).read_text())
    time.sleep(wait)
    return RECORD.validate_python(stated | {"student": hand_in.student}), notebook
