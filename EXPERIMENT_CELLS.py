"""The experiment of notebook 09, in cells, for solutions/09_forgetting/notebook.py. Not yet final.

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
# The runs use your `Replay`, `remember`, `fisher`, `ewc` and `l2_sp` where you have passed their checks in this session,
# and the course's otherwise. Yours are compared with the course's as they run, and left where they give something
# else, even something as good, such as a sum in another order: whoever grades must be able to repeat a run without
# your code.

# %% [markdown]
# ## 9.10 All runs
#
# Every run leaves one file with a row for each test sentence: the class it was given before anything and after each
# phase, by the **one head**; the same if it chooses among the two libraries of the sentence's own phase, as if each
# phase had its **own head**; and the class that a linear map gives it which is **fitted again** when all is over, to
# sentences of all phases. Accuracy is counted from these rows, here and in grading. An edited or copied file is
# refused, and so is a seed that is not yours.
#
# **Predict first.** After the second phase, how many sentences of the first does the one head still get right?
#
# **Exercise 9.10** (4 points, about 5 minutes). The machine needs minutes. Write `run_all`. Interrupt it whenever you
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
