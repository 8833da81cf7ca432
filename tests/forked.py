"""Jupyter kernels forked from a process that has imported the libraries: each fresh one takes seconds for that.

The kernel is ipykernel's own, and the course's modules are imported in each of them as at a student's desk.
"""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

from jupyter_client.provisioning import local_provisioner
from waiting import eventually

from autograder.sandbox.preload import ENVIRONMENT

BERT = "adapters.models.bert.adapter_model"
LIBRARIES = [
    *("ipykernel.kernelapp", "ipykernel.debugger", "torch", "torch._dynamo", "pandas", "scipy.stats"),
    *("matplotlib.pyplot", "transformers", "adapters", BERT),
]
SECONDS = 300


class Kernel:
    """A forked kernel, as jupyter_client looks at the `subprocess.Popen` of another."""

    stdin = stdout = stderr = None

    def __init__(self, process):
        self.pid, self.terminate, self.kill, self._process = process.pid, process.terminate, process.kill, process

    def poll(self):
        return self._process.exitcode

    def wait(self):
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)


def become(argv, environment, folder):
    """Be the kernel that `python -m ipykernel_launcher` with these arguments would be in a new process."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))  # it ends with the process that forked it
    tests = Path(__file__).parent
    sys.path[:] = [place for place in sys.path if tests not in (own := Path(place or ".").resolve(), *own.parents)]
    sys.argv = argv
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance(argv=argv[1:])


def forked(monkeypatch):
    """Until the end of the test, jupyter_client forks the kernels that it starts."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    for name in ("MPLBACKEND", "HF_HUB_OFFLINE", "OMP_NUM_THREADS"):  # read where libraries are imported
        monkeypatch.setenv(name, ENVIRONMENT[name])

    def launch(cmd, env=None, cwd=None, **more):
        place = cmd.index("ipykernel_launcher")
        process = context.Process(target=become, args=(cmd[place:], env, cwd), daemon=True)
        process.start()
        eventually(lambda: os.getpgid(process.pid) == process.pid, SECONDS)  # its own group, to which signals go
        return Kernel(process)

    monkeypatch.setattr(local_provisioner, "launch_kernel", launch)
