"""The command for a machine with a GPU, tried on one without: at size smoke, and what it says where there is none."""

import json
import subprocess
import sys

import pytest
import torch

from autograder import course

COMMAND = [sys.executable, str(course.ROOT / "benchmarks" / "gpu.py")]


def test_experiments_run_and_rows_that_are_there_are_kept(tmp_path):
    table = tmp_path / "gpu.json"
    kept = {f"02 {name}": {"what": f"02 {name}", "state": "passed"} for name in ("none", "sinusoidal", "learned")}
    table.write_text(json.dumps({"parts": {"experiments, size smoke": kept}}))
    command = [*COMMAND, "--device", "cpu", "--size", "smoke", "--part", "experiments", "--to", str(table), "02"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(table.read_text())["parts"]["experiments, size smoke"]
    assert json.loads(ran.stdout.splitlines()[-1])["experiments, size smoke"] == {"passed": 5}
    made = {name: row for name, row in rows.items() if name not in kept}
    assert {*made} == {"02 rotary", "02 ALiBi"} and {name: rows[name] for name in kept} == kept
    assert all(row["value"] == row["cpu value"] for row in made.values()), "both were on the CPU"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_and_how_to_try_it(tmp_path):
    ran = subprocess.run([*COMMAND, "--to", str(tmp_path / "gpu.json")], capture_output=True, text=True)
    assert ran.returncode == 2 and "There is no CUDA device here. --device cpu --size smoke" in ran.stderr
    assert not (tmp_path / "gpu.json").exists()


def test_the_recorded_table_is_of_a_gpu_and_has_every_notebook():
    found = json.loads((course.ROOT / "benchmarks" / "gpu.json").read_text())
    names = [entry.name for entry in course.load().notebooks]
    assert found["device"].startswith("NVIDIA")
    assert sorted(found["parts"]["notebooks"]) == sorted(found["parts"]["answers"]) == names
    for rows in found["parts"].values():
        assert all(row["state"] in ("passed", "differs", "failed", "no data") for row in rows.values())
