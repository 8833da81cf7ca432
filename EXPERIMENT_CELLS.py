"""READY. The experiment of notebook 09, in cells, for solutions/09_forgetting/notebook.py.

course.toml, in the entry of 09_forgetting:

    experiments = "utils.experiments.forgetting"
    preload = ["utils.experiments.seed_table", "utils.hand_in", "transformers", ...what 9.9 needs]

The notebook has a function of its own called `forgetting` (9.3), so the module gets another name in it: `phases`.
To the imports at the top, and the cells that ask for the name right after them:
"""

# %%
from utils.experiments import forgetting as phases
from utils.experiments import profiles, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across
from utils.hand_in import pack

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 9.10 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# After 9.9, instead of the last two cells:

# %% [markdown]
# ## Experiment: six libraries, two at a time
#
# Which library's documentation says this sentence? One head has a class for each of six libraries. In each of three
# phases an encoder learns two of them. Its lower layers are frozen, the upper ones learn. Six arms differ in what is
# done for what came before:
#
# | arm | what it does in later phases |
# |---|---|
# | in sequence | nothing |
# | replay | keeps 15% of the sentences of earlier phases, and mixes some into each step |
# | L2-SP | pulls all weights to where they were when the last phase was over |
# | EWC | the same, each weight by its Fisher information |
# | adapters | leaves the encoder as it is; each phase has adapters and two classes of the head |
# | all together | one phase with all six libraries: the upper bound |
#
# `COURSE_PROFILE` decides the size: `cpu` is a small encoder, `gpu` is BERT, and `smoke` a tiny encoder and made-up
# sentences. Smoke runs show that everything works, and earn nothing.

# %% tags=["experiment"]
experiments = phases.experiments("09_forgetting")
print(f"{profiles.name()} on {profiles.device()}, seeds {phases.seeds()}")
for name, one in experiments.items():
    print(f"{name}: {one.encoder}, {one.examples} sentences a library, {one.epochs} epochs a phase, rate {one.lr}")
mine = {"Replay": Replay, "remember": remember, "fisher": fisher}
student.use(checks, **mine, ewc=ewc, l2_sp=l2_sp)
results = results_folder(say=True)

# %% tags=["experiment"]
for library, (sentence,) in phases.sentences(experiments["in sequence"]).items():
    print(f"{library:>10}: {sentence}")

# %% [markdown]
# The runs use your `Replay`, `remember`, `fisher`, `ewc` and `l2_sp` where you have passed their checks in this
# session, and the course's otherwise. Yours are compared with the course's as they run, and left where they give
# something else, even something as good, such as a sum in another order: whoever grades must be able to repeat a run
# without your code.

# %% [markdown]
# ## 9.10 All runs
#
# Every run leaves one file with a row for each test sentence: the class that the **one head** gives it before anything
# and after each phase; the same if it chooses among the two libraries of the sentence's phase, as if that had its **own
# head**; and what a linear map says that is **fitted again** in the end, to sentences of all phases. An edited or
# copied file is refused, and so is a seed that is not yours.
#
# **Predict first.** After the second phase, how many sentences of the first does one head get right?
#
# **Exercise 9.10** (4 points, about 5 minutes). The machine needs minutes. Write `run_all`. Interrupt it as you
# like: finished seeds are kept.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `run_seeds(experiment, seeds, results)` runs one experiment with several seeds and returns its runs.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Without its third argument `run_seeds` writes to its own default folder, not to the one you were given.
# </details>


# %% exercise="9.10"
def run_all(results):
    """Run the experiments of `phases.experiments("09_forgetting")` with all of `phases.seeds()`.

    results: the folder that `run_seeds` keeps its files in.
    Returns a dict from each experiment's name to its list of runs.
    """
    ### BEGIN SOLUTION
    experiments = phases.experiments("09_forgetting")
    return {name: run_seeds(experiment, phases.seeds(), results) for name, experiment in experiments.items()}
    ### END SOLUTION


# %% tags=["experiment"]
runs = run_all(results)
across(runs, phases.METRICS)

# %% check="9.10"
checks.every_run(run_all)

# %% tags=["experiment"]
phases.picture(runs, "Your runs: for each arm the share that one head gets right, own heads, and one fitted again.")

# %% [markdown]
# Where did it go? Below are matrices as in 9.2, means over your seeds: first of the one head, then of own heads.


# %% tags=["experiment"]
def mean_matrices(runs, own=False):
    in_phases = {name: some for name, some in runs.items() if name != "all together"}
    return {name: torch.tensor([phases.matrix(run, own) for run in some]).mean(0) for name, some in in_phases.items()}


names = {"rows": ["before", "after 1", "after 2", "after 3"], "columns": ["1", "2", "3"]}
alt = "Accuracy at the sentences of each phase, before anything and after each phase, for five arms: one head."
plots.tables(mean_matrices(runs), **names, alt=alt)

# %% tags=["experiment"]
alt = "The same for own heads, which choose among the two libraries of a sentence's own phase."
plots.tables(mean_matrices(runs, own=True), **names, alt=alt)

# %% [markdown]
# Your functions of 9.3 sum them up.

# %% tags=["experiment"]
for own, how in ((False, "one head"), (True, "own heads")):
    print(f"{how:12}  average  backward  forgetting")
    for name, R in mean_matrices(runs, own).items():
        print(f"{name:12}", *(f"{f(R):9.2f}" for f in (average_accuracy, backward_transfer, forgetting)))

# %% [markdown]
# How fast is it? One more model learns the first phase, and goes on into the second.

# %% tags=["experiment"]
shares = phases.fall(experiments["in sequence"], phases.seeds()[0], steps=12)
alt = "Accuracy at the first phase's sentences, from its end on over a dozen steps of the second: one head, own head."
plots.curves(shares, x=range(13), xlabel="steps of the second phase", ylabel="accuracy at the first phase", alt=alt)

# %% [markdown]
# Which differences are shown? Asked are the same pairs of everyone: each remedy against training in sequence, and all
# together against replay. First for one head, then for own heads, last for the head that is fitted again.

# %% tags=["experiment"]
for metric in phases.METRICS:
    print(f"--- {metric.name}", *SeedTable(runs, metric).compared(phases.questions(runs)), sep="\n\n")

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has.

# %% tags=["experiment"]
recorded = phases.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, phases.METRICS) if recorded else None

# %% tags=["experiment"]
phases.picture(recorded, "The recorded runs, as above.") if recorded else None

# %% tags=["experiment"]
plots.tables(mean_matrices(recorded), **names, alt="The recorded runs, one head.") if recorded else None

# %% [markdown]
# In the recorded runs, who learns in sequence ends with one head that gives no sentence of the first two phases its
# library. It took a handful of steps: an old class is never right any more, so its row is pushed down. Own heads are
# better off, but for the first phase they are no better than a coin: the encoder has moved, and the old rows do not
# fit it. A head that is fitted again finds as much as on the encoder of the adapters, which never learned anything.
# So little of this is gone. It is out of reach.
#
# Replay brings one head two thirds of the way to all together. L2-SP and EWC do nothing for it: a pull that leaves room
# for what is new does not keep the old rows up. For own heads they look better by about ten points, which five seeds
# do not show. Adapters keep own heads as they were, and their one head is as good as replay's, without one old
# sentence. It, too, falls from phase to phase, although no answer of an adapter changes: more classes compete, and
# nobody has compared them in training.

# %% [markdown]
# **Question 9.W1** (2 points). Read your own table and matrices (in the profile `smoke`: the recorded ones, if there
# are any). For training in sequence there are three numbers: one head, own heads, fitted again. Which part of the loss
# is forgotten, and which is only out of reach? Which remedies help with which part, what do they cost, and which of
# these differences are shown?

# %% [markdown] written="9.W1" points=2
# ### BEGIN SOLUTION
# One head gives no sentence of an earlier phase its library: the loss pushed the rows of old classes down. Choosing
# among the two libraries of a phase takes this away. What then is missing (in the recorded runs the first phase is at a
# coin) is no longer the choice between phases, but the old rows that do not fit the moved encoder. A head fitted again
# gets nearly all of it back: as much as on the encoder that never learned. This part was out of reach, in head and
# rows, not forgotten by the encoder. What is forgotten is what the encoder itself had gained: the rest up to the head
# fitted again to all together, some points, which are not among the pairs asked, and which few seeds hardly show.
# Replay helps with both, and is the only one but adapters that helps one head; it costs stored sentences and longer
# steps. L2-SP and EWC help at best own heads (it is said whether this is shown in the own table), cost a strength that
# must be tuned, a copy of the weights and, for EWC, the Fisher information; they also hold back what is new. Adapters
# forget nothing by construction, cost parameters for each phase and, for own heads, somebody who says which phase it
# is; one head has to compare rows that were never compared in training.
# === BEGIN MARK SCHEME ===
# One point: the three numbers are read right and told apart (choice between phases; rows that no longer fit the
# encoder; what the encoder holds), and most of the loss is called out of reach.
# One point: replay and adapters for one head, L2-SP and EWC at best for own heads, each with a cost; "shown" only where
# the comparisons say so.
# Half a point off for "the encoder has forgotten everything" or for "EWC works" without a difference that is shown.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 9.W2** (2 points). A report says: "Multi-task training suffers from catastrophic forgetting, which is why
# each task got worse when the others were added." What is right about this, what is not, and what is the right word?
# Say which measurement would tell the two apart.

# %% [markdown] written="9.W2" points=2
# ### BEGIN SOLUTION
# Right: tasks that share weights can harm each other, and each can be worse than alone. Wrong: nothing is forgotten.
# Forgetting is a loss over time: a task was learned, its examples no longer come, and later training overwrites it. In
# multi-task training the examples of all tasks come all the time; their gradients disagree in the same step (9.8), or
# tasks compete for capacity and for their share of the batches (9.4). That is interference, or negative transfer.
# To tell them apart: follow each task's accuracy over training. Forgetting rises first and falls when the task's
# examples stop coming (R of 9.2: best minus end). With interference it never gets as high as alone, and does not fall.
# Compare with a model of that task alone, of the same size and with as many steps, over seeds; a negative cosine of
# the tasks' gradients supports it. Remedies differ, too: replay mends forgetting and is what multi-task training does
# anyway; against interference help sampling, projection, more capacity, or parts of one's own.
# === BEGIN MARK SCHEME ===
# One point: forgetting needs a sequence (examples that no longer come); the right word is interference or negative
# transfer; that tasks can be worse than alone is granted.
# One point: a measurement that separates them: a curve or matrix over time against one task alone.
# Half a point off if gradient conflict is named and no measurement.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("09_forgetting")

# %%
scoreboard(checks)

# For the other files

CHECK = '''
from utils.experiments import forgetting as phases
from utils.grading.results_check import results_check


@results_check("9.10", points=4, source=phases, notebook=phases.NOTEBOOK)
def every_run(run_all):
    """Every experiment with every seed, graded from what the files of the runs hold."""
'''

PROSE_NUMBERS = '''
from utils.experiments import forgetting


def kept() -> str:
    """The share of the sentences of all phases but the last that replay keeps."""
    one = forgetting.experiments(profile="cpu")[forgetting.REPLAY]
    return f"{one.memory / (one.examples * (forgetting.CLASSES - forgetting.TOGETHER)):.0%}"


NUMBERS: dict[str, Callable[[], str]] = {"15%": kept}
'''

WRONG_ANSWERS = """
# %% wrong="9.10" name="forgets the last seed" says="is missing"
def run_all(results):
    experiments = phases.experiments("09_forgetting")
    return {name: run_seeds(one, phases.seeds()[:-1], results) for name, one in experiments.items()}


# %% wrong="9.10" name="runs with the seeds of the recorded runs" says="no run has a seed of"
def run_all(results):
    experiments = phases.experiments("09_forgetting")
    return {name: run_seeds(one, range(1, 6), results) for name, one in experiments.items()}


# %% wrong="9.10" name="runs the phases only" says="all together was not run with seed"
def run_all(results):
    experiments = {name: one for name, one in phases.experiments("09_forgetting").items() if len(one.phases) > 1}
    return {name: run_seeds(one, phases.seeds(), results) for name, one in experiments.items()}


# %% wrong="9.10" name="keeps them elsewhere" says="left no runs in the folder"
def run_all(results):
    experiments = phases.experiments("09_forgetting")
    return {name: run_seeds(one, phases.seeds(), results + "/mine") for name, one in experiments.items()}


# %% wrong="9.10" name="one run under five names, seeds rewritten" says="under another seed"
def run_all(results):
    import dataclasses

    from utils.experiments.experiment import path_of, write

    for one in phases.experiments("09_forgetting").values():
        (first,) = run_seeds(one, phases.seeds()[:1], results)
        for seed in phases.seeds():
            write(dataclasses.replace(first, seed=seed), path_of(one, seed, results))


# %% wrong="9.10" name="replay for all" says="another configuration was run: memory"
def run_all(results):
    from utils.experiments.experiment import path_of, write

    experiments = phases.experiments("09_forgetting")
    for one in experiments.values():
        for run in run_seeds(experiments["replay"], phases.seeds(), results):
            write(run, path_of(one, run.seed, results))


# %% wrong="9.10" name="counts all sentences as right in the file" says="it was edited"
def run_all(results):
    import json

    from utils.experiments.experiment import path_of

    for one in phases.experiments("09_forgetting").values():
        for run in run_seeds(one, phases.seeds(), results):
            better = json.loads(path_of(one, run.seed, results).read_text())
            better["predictions"] = [[label] * 9 + row[9:] for label, row in zip(run.labels, run.predictions)]
            path_of(one, run.seed, results).write_text(json.dumps(better))


# %% wrong="9.10" name="right classes, and the margins of the wrong ones" says="a margin is not that of the class"
def run_all(results):
    import dataclasses

    from utils.experiments.experiment import path_of, write

    for one in phases.experiments("09_forgetting").values():
        for run in run_seeds(one, phases.seeds(), results):
            better = [[label] * (len(row) - 2) + row[-2:] for label, row in zip(run.labels, run.predictions)]
            write(dataclasses.replace(run, predictions=better), path_of(one, run.seed, results))


# %% right="9.10" name="seed by seed"
def run_all(results):
    runs = {}
    for seed in phases.seeds():
        for name, experiment in phases.experiments("09_forgetting").items():
            runs.setdefault(name, []).extend(run_seeds(experiment, [seed], results))
    return runs


# %% right="9.10" name="in two sessions"
def run_all(results):
    experiments = phases.experiments("09_forgetting").values()
    for one in experiments:
        run_seeds(one, phases.seeds()[:3], results)
    return {one.name: run_seeds(one, seeds=phases.seeds(), results=results) for one in experiments}
"""

DATA_README = """
## `libraries`: which library says this

| | |
|---|---|
| Loader | `data/libraries.py` |
| Used in | notebook 09 |
| `documentation` | plain sentences of 8 to 16 words by matplotlib, scipy, pandas, sympy, networkx and torch (`documentation.labelled_sentences`), words that name a library taken out; those to test on are of other source files |
| `made-up-libraries` | made-up words, some of which only one class has. Size `smoke` and tests alone |
| Licences | those of the libraries. Read in place, not redistributed |

## `results/forgetting`: recorded runs of notebook 09

| | |
|---|---|
| What it is | one file for each run: configuration, seed, a row for each of 300 test sentences (the class by one head and by own heads before anything and after each phase, the class by a head that is fitted again, the margin between its phase's two classes when that was learned and in the end), how many examples had been seen, seconds, device, versions, a checksum of the sentences. No text |
| Made with | `autograder record 09`: profile `cpu` of `utils/experiments/forgetting.py`, seeds 1 to 5 (which no student has), `minilm` with its first four layers frozen, bfloat16 products and float32 weights, one thread a run, on an AMD EPYC with two cores |
| Data | of each library 240 sentences, of which a seed draws 120, and 50 of other source files to test on. Phases: matplotlib and scipy, pandas and sympy, networkx and torch |
| Selection | with seeds 101 and 102, tested on 50 further sentences a library of the training files. The rate: all together ends at 63.0% with 1e-3 and at 62.7% with 5e-4 (one seed), so 1e-3, with which training in sequence forgets more. Strengths by own heads, since no strength helped one head: EWC 1e3: 65.0, **1e4: 77.2**, 1e5: 76.9, 1e6: 64.7; L2-SP 0.1: 79.5, **0.3: 81.3**, 1: 72.4, 10: 60.8, 100: 57.9 (in sequence: 63.8). With 100, L2-SP keeps one head's first phase and learns nothing new. The rate of the adapters with one seed: 1e-3: 80.3, **3e-3: 83.3**. Some of these runs drew other sentences than others with the same seed. Nothing else was searched, and nothing at all for the profile `gpu`, which was not run |
| Seconds | of a shared machine under other load: not comparable with each other |
| Limits | 300 sentences, five seeds, one order of six classes; frozen lower layers; an encoder that was tuned to compare sentences; EWC's runs differ more between seeds than any others (own heads: standard deviation 8 points) |
"""

OTHER_FILES = """
tests/test_checks.py, each_run_is_trained_once: add forgetting_loop to the modules.
tests/test_reach.py: ("utils/experiments/forgetting_loop.py", {"09"}), and "09" where "08" stands for experiments.
tests/test_experiments.py: `forgetting` is no module that the engine names: r"...|\\btagging|experiments.forgetting".
"""
