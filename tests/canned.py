"""A worker's part with the answer known beforehand: a real kernel in a real sandbox, but only one sum in it."""

import json
import os
from pathlib import Path

from autograder.grading.grading_record import RECORD
from autograder.sandbox.kernel import open_kernel


def grade_one(course, hand_in, trusted=False, server=""):
    """Stands in for `autograder.grading.grade.grade_one`; the answers lie in the folder $CANNED."""
    assert not hand_in.only, "partial regrades are not canned"
    with open_kernel(course, trusted, server) as kernel:
        ran = kernel.run("print(6 * 7)")
    assert ran.outputs[0].text == "42\n", ran
    stated, notebook = json.loads(Path(os.environ["CANNED"], f"{hand_in.student}.json").read_text())
    return RECORD.validate_python(stated), notebook
