"""What goes wrong in one exercise stays there: a kernel that dies, hangs or runs out of memory costs that alone."""

import os
import signal
import time
import types

import pytest

from autograder import synthetic
from autograder.grading import judge
from autograder.grading.grading_record import HandIn
from autograder.intake import restore
from autograder.sandbox import kernel, launch

DEATHS = {
    "dies in its cell": ("import os\nos._exit(1)\n", "its kernel died"),
    "is killed in its cell": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "its kernel died"),
    "hangs in its cell": (synthetic.LOOP, "longer than"),
    "runs out of memory in its cell": ("held = []\nwhile True:\n    held.append(bytearray(2**24))\n", "emory"),
    "holds all memory and hangs": (
        "import numpy as np\nheld = []\ntry:\n    while True:\n        held.append(np.zeros(2**19))\n"
        "except MemoryError:\n    pass\nwhile True:\n    pass\n",
        "longer than",
    ),
    "dies in its check": ("import os\ndef {name}(*given, **named):\n    os._exit(1)\n", "Its kernel died"),
    "hangs in its check": (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "def {name}(*given, **named):\n    while True:\n        pass\n",
        "longer than",
    ),
}


@pytest.fixture
def patient(fresh):
    limits = fresh.limits.model_copy(update={"cell_seconds": 4.0, "memory_mb": 768, "notebook_seconds": 300.0})
    return fresh.model_copy(update={"limits": limits})


def judged(known, answers):
    """What the judge says of a submission that is right but for these answers."""
    (entry,) = known.notebooks
    maker = synthetic.Maker(known, entry)
    notebook, _ = restore.restore(restore.read(maker.file(answers), 20), maker.released)
    return judge.judge(known, HandIn(entry), notebook, restore.shown(notebook, maker.released))


def names(known):
    from autograder.author.checks import public_checks

    return {number: check.names[0] for number, check in public_checks(known.notebooks[0]).items()}


@pytest.mark.parametrize("how", DEATHS)
def test_it_costs_its_exercise_alone_and_the_record_names_it(patient, how):
    source, says = DEATHS[how]
    wanted = names(patient)
    number = list(wanted)[2]
    if says == "emory":  # a busy machine needs its time to fill it
        patient = patient.model_copy(update={"limits": patient.limits.model_copy(update={"cell_seconds": 60.0})})
    said = judged(patient, {number: source.replace("{name}", wanted[number])})
    assert [one.exercise for one in said.verdicts if not one.score] == [number]
    (lost,) = (one for one in said.verdicts if not one.score)
    assert says in lost.message
    assert any(remark.startswith(f"exercise {number}, ") for remark in said.remarks), said.remarks


def test_kernels_may_die_in_most_exercises_and_the_rest_counts(patient):
    wanted = list(names(patient))
    deadly = dict.fromkeys(wanted[:-1], DEATHS["dies in its cell"][0])
    said = judged(patient, deadly)
    assert [one.exercise for one in said.verdicts if one.score] == wanted[-1:]
    for number in deadly:
        assert any(remark.startswith(f"exercise {number}, ") for remark in said.remarks)


def test_a_cell_that_kills_only_when_it_is_run_again_is_left_out(patient):
    """When the first kernel died, what ran before is run again: the cell that kills then is to blame, not the next."""
    wanted = list(names(patient))
    maker = synthetic.Maker(patient, patient.notebooks[0])
    replayed = []
    run = kernel.Kernel.run

    def deadly(self, source, *how):
        if source == maker.reference[wanted[0]]:
            replayed.append(source)
            if len(replayed) == 2:
                self._kill("it took too long")
        return run(self, source, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.Kernel, "run", deadly)
        said = judged(patient, {wanted[2]: DEATHS["dies in its cell"][0]})
    assert [one.exercise for one in said.verdicts if not one.score] == [wanted[2]]
    assert len(replayed) == 2 and any("left out" in remark for remark in said.remarks), said.remarks


def test_what_ran_into_the_time_limit_is_not_run_again(patient):
    """Else each later restart would wait for it once more."""
    wanted = list(names(patient))
    sleepy = "import time\nwhile True:\n    time.sleep(0.01)\n"
    runs = []
    run = kernel.Kernel.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.Kernel, "run", lambda self, source, *how: runs.append(source) or run(self, source, *how))
        said = judged(patient, {wanted[0]: sleepy, wanted[1]: DEATHS["dies in its cell"][0]})
    assert [one.exercise for one in said.verdicts if not one.score] == wanted[:2]
    assert runs.count(sleepy) == 1


def test_what_ran_before_is_run_again_only_within_the_notebooks_time(patient, monkeypatch):
    """Else cells that are slow, and cells that then kill the kernel, would keep the grader long after its end."""
    wanted, kernels, again, late = list(names(patient)), [], [], [0.0]
    run = kernel.Kernel.run

    def noted(self, source, *how):
        if self not in kernels:
            kernels.append(self)
        if len(kernels) > 1:
            again.append(source)
            late[0] = 2 * patient.limits.notebook_seconds
        return run(self, source, *how)

    monkeypatch.setattr(kernel.Kernel, "run", noted)
    monkeypatch.setattr(judge, "time", types.SimpleNamespace(monotonic=lambda: time.monotonic() + late[0]))
    said = judged(patient, {wanted[2]: DEATHS["dies in its check"][0].replace("{name}", names(patient)[wanted[2]])})
    assert len(kernels) == 2 and len(again) == 1
    assert [one.exercise for one in said.verdicts if one.score] == wanted[:2]
    assert all("in all" in one.message for one in said.verdicts[3:]), said.verdicts


@pytest.mark.parametrize("moment, times", [("run", (3, 9)), ("ask", (3, 60))])
def test_a_kernel_that_the_machine_killed_costs_nothing(patient, moment, times):
    """As when memory runs out: the kernel is gone, and nothing that the submission did is the reason."""
    numbers, done = [], []
    fork, work = launch.fork_kernel, getattr(kernel.Kernel, moment)

    def noted(*given):
        numbers.append(fork(*given))
        return numbers[-1]

    def killed(self, what, *how):
        done.append(what)
        if len(done) in times:
            os.kill(numbers[-1], signal.SIGKILL)
        return work(self, what, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "fork_kernel", noted)
        patch.setattr(kernel.Kernel, moment, killed)
        said = judged(patient, {})
    assert len(numbers) == 3 and len(done) > max(times)
    assert all(one.score for one in said.verdicts), said.verdicts
    assert sum("its kernel died: kernel restarted" in remark for remark in said.remarks) == 2


def test_a_hand_in_that_kills_its_kernels_has_few_second_chances(patient):
    wanted = list(names(patient))
    said = judged(patient, dict.fromkeys(wanted, DEATHS["dies in its cell"][0]))
    restarted = [remark for remark in said.remarks if "kernel restarted" in remark]
    assert not any(one.score for one in said.verdicts)
    assert len(restarted) == len(wanted) + judge.SECOND_CHANCES
