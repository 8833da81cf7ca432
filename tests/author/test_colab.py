"""The short form of `make colab`: one notebook as on Colab, in this project's own versions and without a network."""

import subprocess
import sys

from autograder import course


def test_a_notebook_runs_whole_from_its_file_alone_and_installs_what_is_missing():
    command = [sys.executable, "tests/colab/run.py", "--here", "03"]
    ended = subprocess.run(command, cwd=course.ROOT, capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("03_parameter_counting: ") and "checks passed" in lines[0], ended.stdout + ended.stderr
    assert lines[1:] == ["1 passed, 0 failed"] and not ended.returncode
