"""Kernels see a GPU only where course.toml says so, each worker one; and dask's dashboard only where asked for."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import typer
from waiting import eventually

from autograder import cli, course, synthetic
from autograder.gradebook import course_tree
from autograder.grading import cluster
from autograder.grading.grading_record import Options
from autograder.grading.local import Workers
from autograder.sandbox import kernel, launch, preload, sandbox, withheld
from utils.grading import protocol


def said(ran):
    return "".join(output.get("text", "") or output.get("evalue", "") for output in ran.outputs).strip()


@pytest.fixture(scope="module")
def running():
    known = course.load()
    assert not known.grading.gpu
    with kernel.open_kernel(known) as one:
        yield one


def test_a_sandbox_has_no_gpu_unless_the_course_says_so(running):
    assert said(running.run("import glob; print(glob.glob('/dev/nvidia*'))")) == "[]"
    assert said(running.run("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")) == "''"
    assert said(running.run("import torch; print(torch.cuda.is_available())")) == "False"


@pytest.mark.parametrize("gpu", [False, True])
def test_the_device_files_are_in_the_sandbox_if_the_course_says_so(gpu, monkeypatch, tmp_path):
    """There need be no GPU here: any file will do for what bubblewrap is told."""
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(sandbox, "device_arguments", lambda: ["--dev-bind", str(device), "/dev/nvidia0"])
    known = course.load()
    with sandbox.Sandbox(known.limits, gpu) as made:
        assert os.path.exists(made.path("/dev/nvidia0")) is gpu


def test_a_kernel_with_a_gpu_sees_the_one_of_its_worker(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert launch.kernel_environment("gpu", True)["CUDA_VISIBLE_DEVICES"] == "3"
    assert launch.kernel_environment("gpu", False)["CUDA_VISIBLE_DEVICES"] == ""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "CUDA_VISIBLE_DEVICES" not in launch.kernel_environment("gpu", True)


def device_of_this_worker(job):
    return os.environ["CUDA_VISIBLE_DEVICES"]


def test_each_worker_takes_one_device():
    with Workers(2, device_of_this_worker, gpus=("5", "7")) as workers:
        workers.add([1, 2])
        found = [device for _, device in workers.in_turn()]
    assert sorted(found) == ["5", "7"] and "CUDA_VISIBLE_DEVICES" not in os.environ


def also_there(monkeypatch, folder):
    """Modules in `folder` are there for the fork server."""

    def write(target):
        return shutil.copytree(folder, real(target), dirs_exist_ok=True)

    real = withheld.write
    monkeypatch.setattr(withheld, "write", write)


def test_the_fork_server_refuses_what_initialises_cuda(tmp_path, monkeypatch, capfd):
    """A kernel forked after that could not use the GPU. Here CUDA is pretended: torch is asked in the same way."""
    (tmp_path / "eager.py").write_text("import torch\ntorch.cuda.is_initialized = lambda: True\n")
    also_there(monkeypatch, tmp_path)
    server = preload.ForkServer(("eager",))
    server.start()
    process = server._process
    eventually(lambda: server._process is None)
    assert process.returncode == 1, "it goes on, or was started again"
    assert "initialises CUDA" in capfd.readouterr().err
    eventually(lambda: not os.path.exists(os.path.dirname(server.path)))  # or who waits for its socket waits on


def test_after_our_preload_cuda_is_not_initialised(running):
    """The fork server would have ended otherwise; and the child of a process that had initialised CUDA says so."""
    asked = "import torch; print(torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork())"
    assert said(running.run(asked)) == "False False"


def test_a_killed_fork_server_is_started_again_at_its_place():
    server = preload.ForkServer(())
    path = server.start()
    try:
        first = server._process
        first.kill()
        eventually(lambda: server._process is not first)
        assert server._process.poll() is None and server.path == path
    finally:
        server.stop()
    assert server._process is None


def test_a_fork_server_that_is_ended_in_the_middle_of_a_fork_finishes_it_and_says_nothing(tmp_path, monkeypatch, capfd):
    (tmp_path / "slow.py").write_text("import os, time\nos.register_at_fork(before=lambda: time.sleep(0.5))\n")
    also_there(monkeypatch, tmp_path)
    server = preload.ForkServer(("slow",))
    path = server.start()
    with sandbox.Sandbox(course.load().limits) as made, ThreadPoolExecutor(1) as pool:
        for ended in (False, True):
            ours, theirs = protocol.pair()
            asked = pool.submit(launch.fork_kernel, path, made, theirs, {"IPYTHONDIR": "/tmp/ipython"})
            if ended:
                time.sleep(0.2)  # it imported long ago, and is forking now
                server._process.terminate()
            assert asked.result() > 0
            theirs.close()
            assert ours.can_read(60) and ours.recv(4) == bytes(4), "the kernel did not say that it is ready"
            ours.close()
    server.stop()
    assert capfd.readouterr().err == ""


def test_two_fork_servers_draw_the_same():
    """An answer that draws at random, unseeded, fares the same in every run."""
    drawn = []
    for _ in range(2):
        preload.servers.clear()
        known = course.load()
        light = known.grading.model_copy(update={"preload": ("torch",)})
        with kernel.open_kernel(known.model_copy(update={"grading": light})) as one:
            drawn.append(said(one.run("import torch, random; print(torch.rand(3), random.random(), hash('word'))")))
        preload.fork_server(light.preload).stop()
    assert drawn[0] == drawn[1] and "tensor" in drawn[0]


def test_the_dashboard_is_served_when_asked_for_and_needs_bokeh(monkeypatch):
    with cluster.client(Options(workers=1, dashboard=True)) as client:
        assert client.dashboard_link.startswith("http://127.0.0.1:")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(course.CourseError, match=r"pip install -c constraints\.txt bokeh"):
        cli.running.begin(None, "", True, True)


def test_json_is_a_line_per_record_and_nothing_else(fresh, monkeypatch, capsys):
    (entry,) = fresh.notebooks
    maker = synthetic.Maker(fresh, entry)
    course_tree.write(course_tree.place(fresh, "submitted", entry, "ada"), maker.file(solved=()))
    course_tree.write(course_tree.place(fresh, "submitted", entry, "hal"), maker.file()[:5000])
    monkeypatch.setattr(cli.context, "load", lambda: fresh)
    for _ in range(2):  # new ones, then known ones
        with pytest.raises(typer.Exit):
            cli.grade.grade(json=True)
        told = capsys.readouterr()
        lines = {one["student"]: one for one in map(json.loads, told.out.splitlines())}
        assert lines["ada"]["status"] == "graded" and lines["hal"]["reason"]
    assert "hal" not in told.err
