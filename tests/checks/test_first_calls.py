"""The first call of each check finds its libraries loaded, or says that it loads one before it does."""

import json
import subprocess
import sys

import pytest

from autograder import course
from autograder.author import checks
from utils.grading.check import SLOW
from utils.grading.results_check import ResultsCheck

COURSE = course.load()
# So many modules are imported in a fraction of a second; torch._dynamo and transformers bring many hundred each.
SILENT_MODULES = 200
# Their first cell imports what optimizers need, so that no check waits for it.
WITH_OPTIMIZERS = ("04", "05", "06")
# In one process what every notebook imports; in a child for each notebook the rest of what it imports at its top; then
# each check for the first time in a child of its own, until it passes or has to wait for a library.
FIRST_CALLS = """
import gc, io, json, os, sys
from contextlib import redirect_stdout
gc.disable()  # a child would look through all that is imported, and have a copy of it made
from autograder import course
import matplotlib.pyplot, torch
from autograder.author import answers, build, checks
from utils.grading.check import SLOW, CheckFailed
from utils.grading.results_check import ResultsCheck

known = course.load()
for entry in known.notebooks:
    if os.fork():
        os.wait()
        continue
    released = build.student_notebook(known, entry)
    cases = {case.exercise: case.source for case in answers.reference_cases(known, entry)}
    with redirect_stdout(io.StringIO()):  # what a notebook says of itself
        answers.at_home(released, "", "imports")
    torch.set_num_threads(1)  # a child has no others
    for number, check in checks.asked_checks(entry).items():
        if isinstance(check, ResultsCheck):
            continue
        receive, send = os.pipe()
        if not os.fork():
            said = io.StringIO()

            def tell(waits_for):
                imported = len({*sys.modules} - before)
                os.write(send, json.dumps([number, imported, waits_for, said.getvalue()]).encode())
                os._exit(0)

            class Slow:
                def find_spec(self, name, path=None, target=None):
                    if name in SLOW:
                        tell(name)

            with redirect_stdout(said):
                defined = answers.at_home(released, cases[number], "answer")
                said.truncate(0), said.seek(0)
                before = {*sys.modules}
                sys.meta_path.insert(0, Slow())  # the check's own finder comes before it
                try:
                    check(*(defined[name] for name in check.names))
                except CheckFailed as failed:
                    print(failed)
            tell("")
        os.close(send)
        with open(receive) as line:
            print(line.read(), flush=True)
        os.wait()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def first_calls():
    """Of each check: what its first call imported, which library it waited for, and what it said."""
    ended = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, cwd=course.ROOT)
    assert ended.returncode == 0, ended.stderr
    return {number: found for number, *found in map(json.loads, ended.stdout.splitlines())}


@pytest.mark.parametrize("entry", COURSE.notebooks, ids=lambda entry: entry.number)
def test_a_first_call_imports_little_or_says_what_it_is_doing(first_calls, entry):
    known = checks.asked_checks(entry)
    asked = [number for number, check in known.items() if not isinstance(check, ResultsCheck)]
    assert asked and {*asked} <= {*first_calls}
    for number in asked:
        imported, waits_for, said = first_calls[number]
        assert waits_for != "torch._dynamo" or entry.number not in WITH_OPTIMIZERS, f"{number} waits for it"
        if waits_for:
            assert said == f"Exercise {number}: loading {SLOW[waits_for]}, which takes some seconds, once ...\n"
        else:
            assert said.startswith(f"Exercise {number}: passed"), said
        assert imported < SILENT_MODULES, f"{number}: imports {imported} modules and says nothing"


def test_the_sentence_comes_before_the_wait():
    """It is printed by the code that asks for the library, which then is not there yet."""
    script = (
        "import sys\nfrom utils.grading.check import slow_imports_told\n"
        "class Seen:\n"
        "    def write(self, text):\n"
        "        sys.stderr.write(text + str([name for name in ('adapters', 'transformers') if name in sys.modules]))\n"
        "    def flush(self): pass\n"
        "sys.stdout = Seen()\n"
        "with slow_imports_told('3.7'):\n    import transformers\n    import adapters\n"
        "with slow_imports_told('3.8'):\n    import transformers\n"
        "assert all(type(one).__name__ != '_Told' for one in sys.meta_path)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=course.ROOT, check=True)
    told = [line for line in ended.stderr.splitlines() if "Exercise" in line]
    assert told == [f"Exercise 3.7: loading {SLOW['transformers']}, which takes some seconds, once ...[]"]
