# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5. How much is luck
#
# Fine-tune the same encoder on the same sentence pairs twice. Change nothing but the seed.
# The two accuracies differ, often by more than the improvement that a paper reports.
#
# This notebook is about that difference. The task is RTE: does the first sentence entail the second? It has few
# examples, and its results are notorious for depending on luck. You write the steps from the pair of sentences to the
# sentence in the report; only the training loop is given. At the end you train with them: from random weights, from
# pretrained weights, and from weights that first learned a larger task, with several seeds each.
#
# You should know what a mean, a standard deviation and a confidence interval are. The notebook explains the t interval,
# the bootstrap and Holm's correction where it uses them. Each exercise is checked on the spot and stands on its own.
# They take about two and a half hours, not counting the written questions and the runs, and need no GPU. Your code must
# never change its arguments, and writing into one of its results must not change a later result. A call must not change
# torch's default dtype (float32) or device, nor whether gradients are recorded. It may change the global random
# generators only by drawing from them, and only if the exercise draws.

# %% tags=["setup"] needs="adapters"

# %%
import dataclasses
import statistics

import numpy as np
import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from scipy import stats
from torch import nn

from utils import plots
from utils.checks import nb05_seed_variance as checks
from utils.experiments import profiles, rte, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, compare
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 5.11 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 5.1 Two sentences, one sequence
#
# BERT reads a pair as one sequence, and a second list says which sentence each token
# belongs to:
#
# $$\texttt{[CLS]}\; a_1 \dots a_m\; \texttt{[SEP]}\; b_1 \dots b_n\; \texttt{[SEP]}, \qquad
# \mathrm{types} = \underbrace{0 \dots 0}_{m + 2}\; \underbrace{1 \dots 1}_{n + 1}.$$
#
# If the pair is too long, the longer sentence loses its last token, again and again, until it fits. Special tokens are
# never cut. If the types are lost, training raises no error and ends a little worse.
#
# **Predict first.** Sentences of nine and six tokens must fit into twelve positions. How
# many of each stay?
#
# **Exercise 5.1** (2 points, about 15 minutes, medium). Write `encode_pair`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `list.pop()` removes the last item. It changes the list itself, so work on copies.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `ids[:max_len]` cuts off the last `[SEP]`, and always the second sentence.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# copy both; note whether a was longer; while they and three specials do not fit: the longer one loses its last token;
# if both are equally long, the one that was not longer to begin with loses its own (a, if neither was). Then put it
# together.
# </details>


# %%
predict("5.1", "b", a="6 and 3", b="5 and 4", c="4 and 5")


# %% exercise="5.1"
def encode_pair(a, b, cls_id, sep_id, max_len):
    """Make one sequence of two lists of token ids, which stay as they are; each has from none to 500.

    If the pair is too long, the longer sentence loses its last token, one at a time. When both are
    equally long, the one that was shorter at the start loses it, or the first if neither was.

    Returns:
        two lists: input ids, `[CLS] a [SEP] b [SEP]`, at most max_len of them; and token types, as many. What is
        a special token follows from where it stands: cls_id and sep_id may also be tokens of the sentences.

    Raises:
        ValueError: max_len is less than 3.
    """
    ### BEGIN SOLUTION
    if max_len < 3:
        raise ValueError("there is no room for [CLS] and two [SEP]")
    a, b, a_was_longer = list(a), list(b), len(a) > len(b)
    while len(a) + len(b) + 3 > max_len:
        if len(a) > len(b) or (len(a) == len(b) and not a_was_longer):
            a.pop()
        else:
            b.pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
    ### END SOLUTION


# %% check="5.1"
checks.encode_pair(encode_pair)

# %%
first, second = [1] * 9, [2] * 6
for max_len in (18, 15, 12, 9, 3):
    ids, types = encode_pair(first, second, 101, 102, max_len)
    print(f"{max_len:2} positions: {ids.count(1)} and {ids.count(2)} tokens stay; types {''.join(map(str, types))}")

# %% [markdown]
# The check compared your result with the tokenizer's, odd tokens included. In RTE the first sentence is mostly the
# longer one, and the second one states what may follow: so it is good that the second is kept.

# %% [markdown]
# ## 5.2 What a seed decides
#
# Three things in a run are random: the weights of the new **head**, the **order** of the examples, and **dropout**. One
# call of `torch.manual_seed` sets all three, so after a bad run you cannot tell which of them caused it. To find out,
# vary one and keep the others fixed. Each needs its own generator, with its own seed:
#
# $$g_p = \begin{cases} G(s, p) & p \text{ varies} \\ G(\text{constant}, p) & \text{otherwise.} \end{cases}$$
#
# **Predict first.** All three share one generator, and the head gets a third class. What
# happens to the order of the examples?
#
# **Exercise 5.2** (2 points, about 15 minutes, medium). Write `streams`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.Generator().manual_seed(number)` makes a generator and returns it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# With `seed`, `seed + 1` and `seed + 2`, the order of one run is the head of the next. And `hash("head")` gives a
# different number in each session of Python.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse unknown names; the seed of part p (0, 1 or 2) is 3 s + p; s is `seed` if the part varies, and 0 if not.
# </details>


# %%
predict("5.2", "b", a="nothing", b="it becomes another one", c="only the last batch changes")


# %% exercise="5.2"
def streams(seed, varies=("head", "order", "dropout")):
    """One random generator for each part of a run that chance decides.

    A part in `varies` draws numbers that depend on `seed` alone, whatever else varies: different ones for
    each seed. Any other part draws the same numbers for every seed, perhaps those it draws for seed 0. Two
    different parts never draw the same numbers, whatever their seeds. Torch's global generator stays as it is, and
    its seed does not matter.

    Args:
        seed: an integer, 0 or more, below a million.

    Returns:
        a dict from "head", "order" and "dropout" to a new torch.Generator on the CPU.

    Raises:
        ValueError: a name in `varies` is none of the three.
    """
    ### BEGIN SOLUTION
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(f"a seed decides {', '.join(parts)}, not {varies}")
    seeds = {part: seed if part in varies else 0 for part in parts}
    return {part: torch.Generator().manual_seed(3 * seeds[part] + place) for place, part in enumerate(parts)}
    ### END SOLUTION


# %% check="5.2"
checks.streams(streams)


# %%
def beginning(seed, varies, classes=2):
    made = streams(seed, varies)
    head = torch.randn(classes, 4, generator=made["head"])
    order = torch.randperm(2490, generator=made["order"])[:4].tolist()
    kept = torch.rand(6, generator=made["dropout"]) > 0.5
    return f"head {head[0, 0]:+.2f}, order {order}, dropout {kept.int().tolist()}"


for varies, classes in ((["head"], 2), (["order"], 2), (["order"], 3)):
    for seed in (1, 2):
        print(varies, f"{classes} classes, seed {seed}:", beginning(seed, varies, classes))

# %% [markdown]
# A third class draws more numbers for the head. The order stays the same, because it has its own stream. With one
# shared generator, every later number would have moved.

# %% [markdown]
# ## 5.3 Warm up, wind down
#
# The first steps of Adam are its most dangerous: its averages have seen nothing, and the new
# head sends noise into good weights. So the rate rises from zero to its peak in $w$ steps, and
# falls back to zero at the last of $n$:
#
# $$\eta_t = \eta_{max} \cdot \begin{cases} t / w & t < w \\ (n - t) / (n - w) & w \le t \le n. \end{cases}$$
#
# BERT was trained with AdamW, betas $0.9$ and $0.999$, and weight decay $0.01$, but none for biases and norms: pulling
# a norm's weight towards zero does not help.
#
# **Predict first.** Which share of a run's steps has at least half the peak rate?
#
# **Exercise 5.3** (3 points, about 20 minutes, medium). Write `schedule` and `make_optimizer`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.optim.AdamW` takes a list of dicts, `{"params": [...], "weight_decay": ...}`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Looking for "LayerNorm" in the names of parameters misses every norm with another name. Biases and the weights of
# norms have one dimension, matrices have two.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# schedule: refuse a warm-up that is negative or does not end before total; rising before
# warmup; falling after, but never below zero. make_optimizer: two groups, by `ndim`.
# </details>


# %%
predict("5.3", "b", a="a quarter", b="half", c="three quarters")


# %% exercise="5.3"
def schedule(step, warmup, total, peak):
    """The learning rate when `step` steps are done: 0 at the start, `peak` after `warmup`, 0 from `total` on.

    In between it changes in straight lines. With a warmup of 0 it begins at the peak.

    Raises:
        ValueError: warmup is negative, or not less than total.
    """
    ### BEGIN SOLUTION
    if not 0 <= warmup < total:
        raise ValueError(f"a warm-up of {warmup} steps does not fit into {total}")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)
    ### END SOLUTION


def make_optimizer(model, peak):
    """AdamW with rate `peak`, betas 0.9 and 0.999, weight decay 0.01.

    Biases and the weights of norms are not decayed, whatever they are called and whatever norms they are (RMSNorm,
    GroupNorm and BatchNorm too; here they have one dimension). Weights of more dimensions are decayed, embeddings
    included; a weight that two parts share, once. Nothing is kept from one model to the next.
    """
    ### BEGIN SOLUTION
    matrices = [part for part in model.parameters() if part.ndim > 1]
    others = [part for part in model.parameters() if part.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak)
    ### END SOLUTION


# %% check="5.3"
checks.optimizer(schedule, make_optimizer)

# %%
steps = range(0, 469)  # three epochs of RTE in batches of 16
rates = {f"{warmup} steps of warm-up": [schedule(step, warmup, 468, 5e-5) for step in steps] for warmup in (0, 47, 234)}
for name, line in rates.items():
    print(f"{name}: {sum(rate >= 2.5e-5 for rate in line) / len(line):.0%} of the steps at half the peak or more")
alt = "Three schedules: all fall to zero at the last step, two rise from zero first, one of them up to the middle."
plots.curves(rates, x=steps, xlabel="step", ylabel="learning rate", alt=alt)

# %% [markdown]
# Half of the steps, for any warm-up: the schedule is two triangles of the same height. BERT's own learning rate rose
# for ten thousand steps, to `1e-4`. Its fine-tuning code left out Adam's bias correction. Without it the first steps
# are about three times as large, and more runs fail.

# %% [markdown]
# ## 5.4 Accuracy, and what it is worth
#
# Everything below is computed from predictions. A number that was typed in cannot be
# checked; predictions can.
#
# $$\mathrm{acc} = \frac{1}{N} \sum_{i=1}^{N} [\hat y_i = y_i], \qquad
# \mathrm{majority} = \max_c \frac{1}{N} \sum_{i=1}^{N} [y_i = c].$$
#
# The second is what you get without reading a word. No accuracy means much without it. Both are fractions until they
# are printed.
#
# **Predict first.** One prediction was lost, and `zip` pairs the rest with the labels. Is there an error?
#
# **Exercise 5.4** (2 points, about 10 minutes, easy). Write `accuracy` and `majority`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `collections.Counter(labels).most_common(1)`, or `list.count`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `zip` stops at the shorter list. `zip(..., strict=True)` raises ValueError, but not for two
# empty lists.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse empty lists and different lengths; count the pairs that are equal; divide. Count each
# class; take the largest count; divide.
# </details>


# %%
predict("5.4", "c", a="yes, zip", b="yes, the accuracy is above 1", c="no")


# %% exercise="5.4"
def accuracy(predictions, labels):
    """The fraction of predictions that equal their label. Both are lists of class numbers.

    Raises:
        ValueError: there are none, or not as many of one as of the other.
    """
    ### BEGIN SOLUTION
    if len(predictions) != len(labels) or not labels:
        raise ValueError(f"{len(predictions)} predictions for {len(labels)} labels")
    return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
    ### END SOLUTION


def majority(labels):
    """The fraction of the labels that belong to the most frequent class.

    Raises:
        ValueError: there are none.
    """
    ### BEGIN SOLUTION
    return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
    ### END SOLUTION


# %% check="5.4"
checks.accuracy(accuracy, majority)

# %% [markdown]
# Now real runs. Recorded ones come with the course: a small encoder of six layers, trained on all of RTE's training
# pairs from three starts, for five epochs. You get the score of each run but not its predictions, because predictions
# could be mixed into runs that nobody trained. Your own runs, in 5.11, have predictions. Until then, the predictions
# are those of a coin.

# %%
recorded = {start: runs for start, runs in rte.recorded("05_seed_variance").items() if len(runs) > 1}
scores = {start: [run.accuracy for run in runs] for start, runs in recorded.items()}
labels = next(run.labels for runs in recorded.values() for run in runs)
coins = {seed: np.random.default_rng(seed).integers(2, size=len(labels)).tolist() for seed in range(1, 6)}
print(f"{len(labels)} validation pairs;", ", ".join(f"{start}: {len(runs)} runs" for start, runs in recorded.items()))

# %%
print(f"the most frequent class: {majority(labels):.4f}")
print(f"{'a coin':>22}:", *(f"{accuracy(guesses, labels):.3f}" for guesses in coins.values()))
for start, values in scores.items():
    print(f"{start:>22}:", *(f"{value:.3f}" for value in values))

# %% [markdown]
# Read along a row: same model, same data, another seed. The coin has learned nothing, and its row still scatters. Then
# compare the row below it with the majority. As for the lost prediction, there is no error: every later pair is off by
# one.

# %% [markdown]
# ## 5.5 Mean and spread
#
# A table says mean ± standard deviation. The runs are a **sample** of all runs that could have
# been, so the deviation divides by $n - 1$:
#
# $$\bar x = \frac{1}{n} \sum_i x_i, \qquad s = \sqrt{\frac{1}{n - 1} \sum_i (x_i - \bar x)^2}.$$
#
# Be careful with the unit. A deviation of two points is 0.02 as a fraction. Printed as `0.02%`, the spread has become a
# hundred times smaller. Write points.
#
# **Predict first.** `numpy`, `torch` and `pandas` all have `std`. Do they agree?
#
# **Exercise 5.5** (2 points, about 10 minutes, easy). Write `mean_and_sd` and `in_points`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `statistics.stdev`, or `np.std` with the right `ddof`. In an f-string, `{x:.1f}`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# For one run, one formula gives 0 and the other NaN. One run has no deviation: raise an error. And the mean of squares
# minus the square of the mean can come out negative by rounding.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse fewer than two, and values outside 0 to 1; mean; root of the sum of squared
# differences over n - 1. In points, both times 100.
# </details>


# %%
predict("5.5", "a", a="no, numpy differs", b="no, torch differs", c="no, pandas differs", d="yes")


# %% exercise="5.5"
def mean_and_sd(accuracies):
    """Mean and sample standard deviation of accuracies, all of them fractions.

    Of equal ones the deviation is 0, but for what rounding adds. Each run counts, also where two are equal or one is 0.
    None of them is NaN.

    Raises:
        ValueError: there are fewer than two, or one is not between 0 and 1 (it is in points).
    """
    ### BEGIN SOLUTION
    n = len(accuracies)
    if n < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("two accuracies or more are needed, as fractions")
    mean = sum(accuracies) / n
    return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
    ### END SOLUTION


def in_points(mean, sd):
    """Two fractions as a table prints them, with one digit each: `65.8 ± 1.2 points`."""
    ### BEGIN SOLUTION
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"
    ### END SOLUTION


# %% check="5.5"
checks.mean_and_sd(mean_and_sd, in_points)

# %%
for start, values in scores.items():
    print(f"{start:>22}: {in_points(*mean_and_sd(values))}, n = {len(values)}")
five = next(iter(scores.values()))[:5]
print(f"five runs: numpy {np.std(five):.5f}, torch {torch.tensor(five).std():.5f}, yours {mean_and_sd(five)[1]:.5f}")

# %% [markdown]
# They do not: `numpy` divides by $n$, `torch` and `pandas` by $n - 1$. With five runs that makes the spread a tenth too
# small, which is always flattering.

# %% [markdown]
# ## 5.6 Three bars, two questions
#
# Error bars look alike and answer different questions. Over **seeds**: where would the mean
# be with all possible runs, on these examples? A t interval, or a **bootstrap** one: draw $n$
# runs of the $n$, with replacement, thousands of times; the middle $95\%$ of their means.
#
# $$\bar x \pm t_{n-1}\, \frac{s}{\sqrt n}, \qquad \mathrm{se} = \sqrt{\frac{p\,(1-p)}{N}}.$$
#
# Over **examples**: how far would one run's accuracy move on $N$ others? That is the binomial
# error on the right.
#
# **Predict first.** Twenty seeds instead of five: which of the two bars shrinks?
#
# **Exercise 5.6** (3 points, about 20 minutes, medium). Write the three functions, a point each.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `stats.t.ppf(q, degrees)` is the quantile of t; `np.random.default_rng(seed).choice` draws with
# replacement; `np.quantile`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# For a level of 0.95, take the quantile at 0.975: half of the rest is cut off on each side.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# t: half = t(n - 1 degrees) times sd over root n; mean minus and plus half. bootstrap: resamples
# rows of n draws; mean of each row; quantiles at tail and 1 - tail, tail = (1 - level) / 2.
# </details>


# %%
predict("5.6", "a", a="the one over seeds", b="the one over examples", c="both")


# %% exercise="5.6"
def t_interval(values, level=0.95):
    """Lower and upper end of Student's t interval for the mean; of equal values both are their mean.

    Raises:
        ValueError: there are fewer than two values.
    """
    ### BEGIN SOLUTION
    mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return mean - half, mean + half
    ### END SOLUTION


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    """Lower and upper end of the percentile bootstrap interval for the mean; ValueError for fewer than two.

    The same seed gives the same interval, another one other resamples. No global generator, be it torch's, numpy's
    or Python's, is used or seeded.
    """
    ### BEGIN SOLUTION
    if len(values) < 2:
        raise ValueError("one run has no interval")
    means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
    return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
    ### END SOLUTION


def binomial_error(p, examples):
    """The standard error of an accuracy p, a fraction, that was measured on so many examples."""
    ### BEGIN SOLUTION
    return (p * (1 - p) / examples) ** 0.5
    ### END SOLUTION


# %% check="5.6"
checks.intervals(t_interval, bootstrap_interval, binomial_error)

# %%
for start, values in scores.items():
    mean, ends = statistics.mean(values), [*t_interval(values), *bootstrap_interval(values)]
    print(f"{start}: mean {mean:.3f}, t {ends[0]:.3f} to {ends[1]:.3f}, bootstrap {ends[2]:.3f} to {ends[3]:.3f}")
    print(f"    over examples: 1.96 standard errors are {1.96 * binomial_error(mean, len(labels)):.3f}")

# %%
plots.strips(
    scores,
    intervals={start: t_interval(values) for start, values in scores.items()},
    line=("majority", max(labels.count(0), labels.count(1)) / len(labels)),
    xlabel="validation accuracy",
    alt="Accuracy of every recorded run for three starts, with the mean and its t interval over seeds.",
)

# %% [markdown]
# Only the bar over seeds shrinks. More seeds cannot make the validation set larger, and on a
# few hundred examples the other bar is often the longer one.
#
# **Play.** Seeds come in, one by one. After how many are the two intervals separate, and do they stay so?

# %%
draws = np.random.default_rng(5)
arms = {"better by two points": draws.normal(0.62, 0.02, 24).tolist(), "plain": draws.normal(0.60, 0.02, 24).tolist()}


def after(seeds):
    some = {name: values[:seeds] for name, values in arms.items()}
    alt = f"Made-up accuracies of two arms after {seeds} seeds, with the mean and its t interval."
    ends = {name: t_interval(values) for name, values in some.items()}
    found = plots.strips(some, intervals=ends, xlabel="accuracy", alt=alt)
    found.axes[0].set_xlim(0.5, 0.72)
    return found


interactive(after, seeds=[2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24])

# %% [markdown]
# And the two intervals over seeds do not agree. Which of them contains the true mean as often as it promises? Draw five
# runs whose true mean is known, a thousand times, and count.

# %%
draw, holds, widths = np.random.default_rng(56), {"t": 0, "bootstrap": 0}, {"t": 0.0, "bootstrap": 0.0}
for _ in range(1000):
    five = draw.normal(0.6, 0.02, size=5).tolist()
    for name, (low, high) in (("t", t_interval(five)), ("bootstrap", bootstrap_interval(five, 0.95, 400))):
        holds[name] += int(low <= 0.6 <= high)
        widths[name] += high - low
print("of a thousand intervals, so many hold the true mean:", holds)
print(f"the bootstrap interval has {widths['bootstrap'] / widths['t']:.0%} of the width of t's")

# %% [markdown]
# The percentile bootstrap of five runs promises $95\%$ and holds the true mean about 84% of the time. It treats the
# spread of these five as the true one; t is wider, since it allows for the unknown spread. With few runs, use t. The
# bootstrap is for many values, such as examples.

# %% [markdown]
# ## 5.7 Compare pairs
#
# Is B better than A? Both were tested on the same examples, with the same seeds. Take differences first, then their
# interval: what A and B share cancels. That helps only if they share something. An example that is hard for A is often
# hard for B; a seed that is lucky for A need not be lucky for B. By seed, and by example, averaged over runs $S_A$ and
# $S_B$ ($h = 1$ if right):
#
# $$d_s = \mathrm{acc}_B(s) - \mathrm{acc}_A(s), \qquad d_i = \frac{1}{|S_B|} \sum_{s \in S_B} h_B(s, i)
# - \frac{1}{|S_A|} \sum_{s \in S_A} h_A(s, i).$$
#
# For either, give mean and t interval. The first asks about new seeds, the second about new examples.
#
# **Predict first.** Ten runs on three hundred examples: how many independent observations is that?
#
# **Exercise 5.7** (3 points, about 20 minutes, hard). Write `by_seed` and `by_example`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `stats.ttest_1samp(differences, 0).confidence_interval(level)`, or your formula of 5.6.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Two dicts may hold the same seeds in another order. Then `zip(a.values(), b.values())` pairs different seeds.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# by_seed: refuse unless the seeds are the same; b - a for each seed; mean and interval.
# by_example: refuse unless the examples are as many; mean over runs of b, minus that of a.
# </details>


# %%
predict("5.7", "b", a="3,000", b="10 or 300, as you ask", c="310")


# %% exercise="5.7"
def by_seed(a, b, level=0.95):
    """How much better B is than A, as (mean difference, lower end, upper end) of a t interval over seeds.

    Args:
        a, b: dicts from seed to accuracy, a fraction. ValueError unless both have the same seeds.
    """
    ### BEGIN SOLUTION
    if set(a) != set(b):
        raise ValueError(f"only one of them has the seeds {sorted(set(a) ^ set(b))}")
    differences = [b[seed] - a[seed] for seed in a]
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
    return statistics.mean(differences), low, high
    ### END SOLUTION


def by_example(right_a, right_b, level=0.95):
    """The same over examples: one difference for each, between the shares of the runs that got it right.

    Args:
        right_a, right_b: bool tensors (runs, N), true where a run is right; there may be more
            runs of one. ValueError unless both have the same N.
    """
    ### BEGIN SOLUTION
    if right_a.size(1) != right_b.size(1):
        raise ValueError("they were asked different examples")
    differences = right_b.double().mean(0) - right_a.double().mean(0)
    low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
    return differences.mean().item(), low, high
    ### END SOLUTION


# %% check="5.7"
checks.comparison(by_seed, by_example)


# %%
def show(name, found, a, b):
    apart = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    print(f"{name}: {found[0]:+.3f}, from {found[1]:+.3f} to {found[2]:+.3f}")
    print("   were they not paired: from {:+.3f} to {:+.3f}".format(*apart), end="")
    print(f"; correlation {np.corrcoef(a, b)[0, 1]:+.2f}")


by_start = {start: {run.seed: run.accuracy for run in runs} for start, runs in recorded.items()}
for a, b in zip([*by_start], [*by_start][1:]):
    both = sorted(by_start[a].keys() & by_start[b].keys())
    paired = [{seed: by_start[one][seed] for seed in both} for one in (a, b)]
    show(f"{b} against {a}, by seed", by_seed(*paired), *([*one.values()] for one in paired))

draw = np.random.default_rng(57)  # made up: examples are easy or hard, and B is better by five points
easy = draw.beta(2, 1, size=300)
right = [torch.tensor(draw.random((5, 300)) < easy + gain) for gain in (0, 0.05)]
show("made up, by example", by_example(*right), *(one.double().mean(0).tolist() for one in right))

# %% [markdown]
# As many as there are examples, or as there are runs, but never their product. Runs share the examples: ten
# predictions for one sentence are not ten sentences. Note that the pretrained encoder had already seen MNLI: the
# second gain may look smaller than it would elsewhere.
#
# Read the correlations. The variance of a difference is that of A plus that of B, less twice their covariance. Where
# the correlation is near zero, pairing gains nothing. The interval is then about as long as without it, or longer,
# because t has fewer degrees of freedom. Pairing helps where a seed decides the same things in both: the same head, the
# same order, nearly the same method. Decide whether to pair *before* you look: with five seeds, that choice can change
# the conclusion.
#
# Neither interval is the whole answer: in a new experiment, seeds *and* examples would both be different. So from here
# on `compare` draws both again, with replacement. A difference is **shown** if this crossed interval and the t interval
# over seeds both leave zero out. The second is needed because a bootstrap of five is too short. If you compare several
# pairs, you have several chances to be lucky; Holm's correction allows for that. Next to the mean you see how often a
# run of B beats a run of A, the $P(B > A)$ of Bouthillier et al. (2021): a gain may be shown and still be too small to
# rely on in a single run.

# %%
print(*SeedTable(recorded).comparisons(), sep="\n\n")

# %% [markdown]
# ## 5.8 Runs that gave up
#
# Some runs end like a stopped clock: they predict one class for every example. Their accuracy is the share of that
# class. It looks like bad luck, but training has failed.
#
# $$\mathrm{degenerate} \iff |\{\hat y_1, \dots, \hat y_N\}| = 1.$$
#
# Such runs pull the mean down and the spread up, so it is tempting to leave them out. Keep them, name them, and also
# print the mean of the others: then a reader knows how often the method works, and how well if it works.
#
# **Predict first.** A run has exactly the majority's accuracy. Is it degenerate?
#
# **Exercise 5.8** (2 points, about 10 minutes, easy). Write `health`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `set(predictions)`; `statistics.mean`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Accuracy does not show it: an honest run can hit the majority's share, and a run stuck on the rarer class is below it.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse no runs; bad = seeds whose predictions are all one class; accuracy of each seed; mean
# of all; mean of those not in bad, None if there are none.
# </details>


# %%
predict("5.8", "c", a="yes", b="no", c="not necessarily")


# %% exercise="5.8"
def health(predictions, labels):
    """What became of the runs of an experiment.

    Args:
        predictions: a dict from seed to a list of class numbers.
        labels: the right class numbers, the same for all runs.

    Returns:
        a dict: `runs`, how many there are; `degenerate`, a sorted list of the seeds of runs that
        predict one class only; `mean`, the mean accuracy of all runs, a fraction; `mean_of_others`, that
        of the runs that are not degenerate, None if there are none.

    Raises:
        ValueError: there are no runs.
    """
    ### BEGIN SOLUTION
    if not predictions:
        raise ValueError("there are no runs")
    hits = {seed: np.mean(np.equal(guesses, labels)) for seed, guesses in predictions.items()}
    bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
    others = [value for seed, value in hits.items() if seed not in bad]
    means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else None}
    return {"runs": len(hits), "degenerate": bad, **means}
    ### END SOLUTION


# %% check="5.8"
checks.health(health)

# %%
gave_up = {0: [statistics.mode(labels)] * len(labels)}  # made up, with a seed that no run has
reports = {"five coins": health(coins, labels), "and one that gave up": health(coins | gave_up, labels)}
for start, runs in recorded.items():
    others = [run.accuracy for run in runs if not run.degenerate]
    reports[start] = {"runs": len(runs), "degenerate": [run.seed for run in runs if run.degenerate]}
    reports[start] |= {"mean": np.mean(scores[start]), "mean_of_others": np.mean(others) if others else None}
for name, report in reports.items():
    rest = report["mean_of_others"]
    others = "there are no others" if rest is None else f"of the others {rest:.3f}"
    print(f"{name:>22}: degenerate {report['degenerate']} of {report['runs']}, mean {report['mean']:.3f}, {others}")

# %% [markdown]
# Not necessarily: look at what it predicts, not at how well. The run with seed 0 is made up: it scores the majority's
# share, and so raises the mean of five coins. None of the recorded runs gave up. They have the rate that was best on
# held-out training pairs. What became of the others? A run that gave up stays at a training loss of $\ln 2 = 0.693$.

# %%
for rate in sorted({row["rate"] for row in rte.searched("pretrained")}):
    losses = sorted(row["train_loss"][-1] for row in rte.searched("pretrained") if row["rate"] == rate)
    stuck = sum(loss > 0.69 for loss in losses)
    print(f"pretrained, rate {rate:g}: training losses {losses}, {stuck} of {len(losses)} stuck at guessing")

# %% [markdown]
# The chosen rate, 1e-4, is close to an edge. At twice the rate one of four runs gave up, at five times three of four,
# at ten times all. Mosbach et al. (2021) found the same with BERT: such runs fail in training, because their gradients
# vanish, and not for lack of examples. So count them in your own table, where even the chosen rate may have one.

# %% [markdown]
# ## 5.9 How many seeds?
#
# You hope for a gain of $\delta$; the differences of paired runs scatter by $s$. With too few seeds a real gain is not
# visible. Ask for **power**: the probability, say four in five, that the interval excludes zero. The smallest $n$ that
# has it is, approximately, the first with
#
# $$\delta \sqrt n \;\ge\; s\, \bigl(t_{n-1}(0.975) + t_{n-1}(0.8)\bigr).$$
#
# Without the second quantile, the half-width of the interval equals the gain, and you miss it half of
# the time.
#
# **Predict first.** The differences scatter by two points and the gain is one. How many seeds do you
# need? A guess that is off by ten is near enough.
#
# **Exercise 5.9** (2 points, about 15 minutes, medium). Write `seeds_needed`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `stats.t.ppf(q, n - 1)`. The unknown $n$ is on both sides, so try 2, 3, 4, ...
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# With normal quantiles there is a closed formula, and it promises too much when $n$ is small.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse a difference that is not positive; n = 2; as long as the inequality fails, one more.
# </details>


# %%
predict("5.9", 34, within=10)


# %% exercise="5.9"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    """The smallest number of seeds, at least 2, that satisfies the inequality above.

    Args:
        difference: the gain that should be seen, so large that some thousand seeds show it; sd: the standard deviation
            of the differences of paired runs, in the same unit. The quantiles are those of (1 + level) / 2 and of
            power, which is above (1 - level) / 2 and may be below one half.

    Raises:
        ValueError: the difference is not positive.
    """
    ### BEGIN SOLUTION
    if difference <= 0:
        raise ValueError("no number of seeds shows a difference of nothing")
    n = 2
    while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
        n += 1
    return n
    ### END SOLUTION


# %% check="5.9"
checks.seeds_needed(seeds_needed)

# %%
gains = [0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05]
needed = {f"sd {sd:g}": [seeds_needed(gain, sd / 100) for gain in gains] for sd in (0.5, 1, 2)}
print("for a gain of one point:", {name: counts[2] for name, counts in needed.items()})
plots.curves(
    needed,
    x=[100 * gain for gain in gains],
    xlabel="gain, in points",
    ylabel="seeds needed",
    log=True,
    alt="Seeds needed against the gain to be seen: half the gain takes about four times the seeds.",
)

# %% [markdown]
# Half the gain needs about four times as many seeds. With five seeds, only a gain well above the spread is likely to be
# seen. What the examples allow is another matter.
#
# How good is the approximation? The exact power follows from the noncentral t distribution. Here is what $n$ seeds
# have when both sides of the inequality are equal:

# %%
for n in (2, 3, 5, 10):
    tail = stats.t.ppf(0.975, n - 1)
    gain = tail + stats.t.ppf(0.8, n - 1)  # in standard errors; the inequality holds with equality
    power = stats.nct.sf(tail, n - 1, gain) + stats.nct.cdf(-tail, n - 1, gain)
    print(f"{n:2} seeds: power {power:.2f}")

# %% [markdown]
# With two or three seeds the formula promises too much; from five on it is right to about a hundredth.

# %% [markdown]
# ## 5.10 The best of n
#
# "The best of our runs" grows with the number of runs that its authors had the patience for. Dodge et al. (2019)
# proposed to report that growth: the **expected** best of $n$ runs, drawn with replacement from the $N$ you have. With
# $v_1 \le \dots \le v_N$,
#
# $$E_n = \sum_{i=1}^{N} v_i \left[ \Bigl(\frac{i}{N}\Bigr)^{n} - \Bigl(\frac{i-1}{N}\Bigr)^{n} \right].$$
#
# The bracket is the chance that $v_i$ is the best of $n$ draws. Now two papers can be
# compared at the same budget.
#
# **Predict first.** What is $E_1$? Can $E_n$ be higher than your best run?
#
# **Exercise 5.10** (2 points, about 10 minutes, easy). Write `expected_best`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `sorted`, and `enumerate(..., start=1)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Equal runs are still two runs: no `set`. And n may be larger than the number of runs.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse n below 1 and an empty list; sort, the worst first; add up value times bracket.
# </details>


# %%
predict("5.10", "a", a="the mean of the runs; no", b="the best run; no", c="the mean of the runs; yes")


# %% exercise="5.10"
def expected_best(accuracies, n):
    """The expected maximum of n draws, with replacement, from these accuracies.

    Raises:
        ValueError: n is less than 1, or there are no accuracies.
    """
    ### BEGIN SOLUTION
    if n < 1 or not accuracies:
        raise ValueError("the best of nothing")
    count = len(accuracies)
    return sum(
        value * ((place / count) ** n - ((place - 1) / count) ** n)
        for place, value in enumerate(sorted(accuracies), start=1)
    )
    ### END SOLUTION


# %% check="5.10"
checks.expected_best(expected_best)

# %%
budgets = range(1, 21)
lines = {start: [expected_best(values, n) for n in budgets] for start, values in scores.items()}
alt = "Expected best accuracy against the number of runs, for three starts: all rise, fast at first."
have = max(map(len, scores.values()))
picture = plots.curves(lines, xlabel="runs", ylabel="expected best accuracy", alt=alt)
picture.mark(f"the {have} runs there are", have)

# %% [markdown]
# It starts at the mean and ends at the best run. To the right of the dotted line it knows nothing. To the left it is
# biased: too low when runs are few, since the best of these is not the best there could be (Tang et al. 2020). Even a
# method that learned nothing looks better if you run it often and report the best run.

# %% [markdown]
# ## Experiment: three starts
#
# Random weights; pretrained ones; pretrained ones that first learned MNLI. `COURSE_PROFILE` decides the size: `cpu` is
# a small pretrained encoder, `gpu` is BERT, and `smoke` is a tiny one pretrained on made-up words; it learns to compare
# pairs of them within seconds. Smoke runs show everything that follows, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->
#
# The runs use your `encode_pair`, `streams`, `schedule` and `make_optimizer` where you have passed their checks in this
# session, and the course's otherwise. If one of your functions gives a different result, the runs use the course's
# version. That holds even if your result is just as good (with different random numbers, say). The grader must be able
# to repeat a run without your code.

# %% tags=["experiment"]
experiments = rte.experiments("05_seed_variance")
print(f"{profiles.name()} on {profiles.device()}, seeds {rte.seeds()}")
for name, experiment in experiments.items():
    print(
        f"{name}: {experiment.encoder}, {experiment.epochs} epochs, rate {experiment.lr:g}, varies {experiment.varies}"
    )
student.use(checks, encode_pair=encode_pair, streams=streams, schedule=schedule, make_optimizer=make_optimizer)
results = results_folder(say=True)

# %% [markdown]
# ## 5.11 All runs
#
# Every run writes one file with its prediction for each validation pair, and these predictions count: accuracies are
# computed from predictions, here and in grading. A file that was edited, renamed or copied is refused by name. So is a
# file with a seed that is not yours (`STUDENT`, at the top).
#
# **Predict first.** For each start: its mean, and its spread over five seeds. Write them down.
#
# **Exercise 5.11** (4 points, about 5 minutes, easy). That is your time. One core of a CPU needs about 20 minutes a
# start, and some for MNLI before the third. Write `run_all`. Interrupt whenever you like: finished seeds are kept, and
# the next call continues with the missing ones.
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


# %% exercise="5.11"
def run_all(results):
    """Run the experiments of `rte.experiments("05_seed_variance")` with all of `rte.seeds()`.

    results: the folder that `run_seeds` keeps its files in.
    Returns a dict from each experiment's name to its list of runs.
    """
    ### BEGIN SOLUTION
    experiments = rte.experiments("05_seed_variance")
    return {name: run_seeds(experiment, rte.seeds(), results) for name, experiment in experiments.items()}
    ### END SOLUTION


# %% tags=["experiment"]
runs = run_all(results)
SeedTable(runs)

# %% check="5.11"
checks.every_run(run_all)

# %% tags=["experiment"]
SeedTable(runs).plot()

# %% [markdown]
# Now the same from your own functions, 5.4 to 5.10, on your own runs.

# %% tags=["experiment"]
mine = {name: {run.seed: accuracy(run.predictions, run.labels) for run in some} for name, some in runs.items()}
for name, some in runs.items():
    values, report = [*mine[name].values()], health({run.seed: run.predictions for run in some}, some[0].labels)
    low, high = t_interval(values)
    told = f"95% {low:.3f} to {high:.3f}, {len(report['degenerate'])} degenerate"
    print(f"{name}: {in_points(*mean_and_sd(values))}, {told},")
    print(f"    majority {majority(some[0].labels):.3f}, expected best of 3 {expected_best(values, 3):.3f}")
for a, b in zip([*runs], [*runs][1:]):
    right = [torch.tensor([np.equal(run.predictions, run.labels).tolist() for run in runs[name]]) for name in (a, b)]
    by_seeds, examples = by_seed(mine[a], mine[b]), by_example(*right)
    print(f"{b} against {a}: {by_seeds[0]:+.3f}, over seeds {by_seeds[1]:+.3f} to {by_seeds[2]:+.3f}, ", end="")
    print(f"over examples {examples[1]:+.3f} to {examples[2]:+.3f}", end="")
    gains = [mine[b][seed] - mine[a][seed] for seed in mine[a]]
    needed = seeds_needed(abs(by_seeds[0]), statistics.stdev(gains)) if by_seeds[0] else "no number of"
    print(f"; {needed} seeds would show a difference of this size")

# %% tags=["experiment"]
print(*SeedTable(runs).comparisons(), sep="\n\n")

# %% [markdown]
# Below are the figures that one student report on these labs gave for BERT. They are quoted and not measured here. The
# runs that came with the course follow.

# %% tags=["experiment"]
print("bert-base-uncased, as reported:", rte.PUBLISHED)
SeedTable(recorded)

# %% [markdown]
# Three cautions. The small encoder was tuned on sentence pairs, those of MNLI among them, before it came to you: so
# its gain from MNLI may look too small. And MNLI was learned only once, for all seeds of the third start: the spread
# does not include what another training on MNLI would change. That one training was also short: one epoch on a
# twentieth of MNLI's pairs. So a longer one might help more.
#
# All differences between the starts are shown, though only the third is shown to be better than the majority class.
# Were these runs too short, or is RTE too small? Two starts were trained three times as long. A further arm learned
# from the first half of the pairs, the same half with every seed, in as many steps. All three have the rate that was
# chosen for five epochs on all pairs; none was searched for them.

# %% tags=["experiment"]
every = recorded | rte.recorded_controls()
longer = [("random", "random, 15 epochs"), ("pretrained", "pretrained, 15 epochs")]
halved = [("pretrained, half of the pairs", "pretrained")]
for name in dict.fromkeys(name for pair in longer + halved for name in pair):
    values, loss = (
        [run.accuracy for run in every[name]],
        statistics.mean(r.curve[-1]["train_loss"] for r in every[name]),
    )
    print(f"{name:>29}: training loss {loss:.3f}, accuracy {in_points(*mean_and_sd(values))}, n = {len(values)}")
print(*SeedTable(every).compared(longer + halved), sep="\n\n")

# %% [markdown]
# Every arm learns its training pairs, also from random weights: after fifteen epochs it has memorised them. On the
# validation pairs that is not shown to help either start: according to the interval, more steps add at most 6 points
# from random weights, and 3 from pretrained ones, at these rates. Twice the pairs are not shown to help either; the
# interval reaches to 8 points, and leaves out what another half would change. What is shown to help is what was
# learned elsewhere: in pretraining, from text and pairs together, and from the pairs of MNLI once more.
#
# ### What one sentence gives away
#
# A model can be right for a wrong reason. The writers of the second sentences may have left clues in them, such as a
# "not" if the label is not entailment. Then a model that never sees the first sentence does better than the majority
# class (Gururangan et al. 2018, Poliak et al. 2018). The runs below came with the course: the start "pretrained", with
# one sentence of each pair left blank in training and in validation, on RTE and on all of SICK.

# %% tags=["experiment"]
for target in ("rte", "sick"):
    blank = rte.recorded_one_sentence(target)
    print(SeedTable(blank), end="\n\n")
print("second sentence alone, and the majority class (Gururangan et al. 2018, table 2):", rte.HYPOTHESIS_ONLY)

# %% [markdown]
# On RTE neither sentence is shown to be better than the majority class. On SICK the second one is ahead of it with each
# of five seeds, by two points; that this would hold for other pairs is not shown. In SNLI and MNLI people were asked to
# write a second sentence for each label. A model that reads only these sentences is far above the majority. So nothing
# here shows that "pretrained" owes its accuracy on RTE to such clues. Three things limit that. The interval does not
# rule out clues that are worth a few points. Rate and epochs are those of "pretrained" on RTE: for one sentence, none
# were searched. And the third start, which may know such clues from MNLI, was not tried with one sentence.
#
# **The same sentence twice.** Some first sentences of RTE's validation pairs are first sentences of training pairs
# too. Does that help?

# %% tags=["experiment"]
seen = [labels for _, labels in rte.shared_premises()]
labels_here = [next(iter(recorded.values()))[0].labels[place] for place, _ in rte.shared_premises()]
other = sum(label not in labels for label, labels in zip(labels_here, seen))
print(f"{len(seen)} first sentences are shared; {other} pairs have a label that training never has with that sentence")
for start, runs_of in recorded.items():
    for part in (rte.OPPOSITE, rte.SAME, rte.OTHERS):
        right, count = (sum(run.shown[part][place] for run in runs_of) for place in (0, 1))
        print(f"{start:>21}, {part}: {right / count:.1%}")

# %% [markdown]
# It can do harm. Fifteen of the twenty-four have only the other label in training. Of their answers to these, the two
# starts that learn from RTE alone have 1% and 8% right, and the start after MNLI 64%. The nine others have the right
# label in training too: there each start has 76% right or more. So the models remember first sentences together with
# their labels. The fifteen are not harder in themselves: the start after MNLI is about as good at them as at all other
# pairs. Twenty-four pairs are too few for more than a warning.
#
# In one task of GLUE this is the rule. WNLI's training and development sets share sentences with opposite labels. So a
# model that fits the training set is worse than the majority class on the development set; the authors of BERT left it
# out of their table. In the ARCT task too, models found a word whose presence gave the label away. When the clue was
# reversed in the same items, their accuracy fell to chance (Niven and Kao 2019).
#
# Two more questions need a GPU; the size `cpu` skips them. Which of the three random parts causes the spread? Vary one
# at a time.

# %% tags=["experiment"]
parts = profiles.pick(smoke=("head",), cpu=(), gpu=("head", "order", "dropout"))
more = rte.seeds()[: profiles.pick(smoke=2, cpu=5, gpu=20)]
alone = {}
for part in parts:
    experiment = dataclasses.replace(experiments["pretrained"], name=f"pretrained, {part} varies", varies=(part,))
    alone[f"{part} alone"] = run_seeds(experiment, more, results)
SeedTable({"all three": runs["pretrained"]} | alone)

# %% [markdown]
# And the cure that Mosbach et al. (2021) and Zhang et al. (2021) proposed: a low rate, warmed up and bias-corrected,
# for many more epochs. How does it change the mean and the spread?

# %% tags=["experiment"]
epochs = profiles.pick(smoke=3, cpu=None, gpu=20)
if epochs:
    longer = dataclasses.replace(experiments["pretrained"], name="pretrained, longer", epochs=epochs, lr=2e-5)
    patient = run_seeds(longer, more, results)
    print(compare(runs["pretrained"], patient))
    print(SeedTable({"short": runs["pretrained"], "longer": patient}))

# %% [markdown]
# **Question 5.W1** (2 points). MNLI has three classes, RTE has two. In three to six sentences: what
# must change when an encoder goes from one to the other, and what must not? Would you map
# the classes of MNLI onto those of RTE instead?

# %% [markdown] written="5.W1" points=2
# ### BEGIN SOLUTION
# The head must change: its last layer has one row for each class, so the three rows learned on MNLI are discarded and a
# new one with two rows is drawn from the run's seed. The loss then runs over two classes, and the label numbers must be
# those of RTE, not those of MNLI (the number of entailment need not be the same). The encoder, with its embeddings, its
# tokenizer, the form of the pair and the token types, stays: that is where the gain is. One could keep the old head and
# merge neutral and contradiction into not-entailment, by adding their probabilities. Then the model is a sensible
# classifier even without training on RTE. But the merged class has a different prior, and a new head, which is the
# usual way, is simpler and costs few parameters.
# === BEGIN MARK SCHEME ===
# One point: the head (its output layer, and with it the labels' meaning) is replaced by one with two outputs; a
# new random head is again decided by the seed.
# One point: the encoder (and the encoding of the pair) is kept; and a reasoned word on the mapping: neutral and
# contradiction together are not-entailment, by sum of probabilities or relabelling; either opinion
# counts with a reason.
# Half a point off if the answer keeps a head of three outputs without saying what becomes of the third class.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 5.W2** (2 points). From random weights, RTE is not learned. What is the limiting factor? Use your
# own table or the recorded one, training losses included, and say which further experiment would show that you are
# right.

# %% [markdown] written="5.W2" points=2
# ### BEGIN SOLUTION
# My guess is the number of examples, compared with what has to be learned from them. The runs do not
# show that, since none has more pairs. They show what else it is not, or not alone. More steps, at a rate chosen for
# fewer, are not shown to help: in the recorded runs the random start reaches a training loss of 0.23 in five epochs and
# of 0.02 in fifteen, where guessing costs 0.69, and its validation accuracy stays at 50 and 51%, not shown to be above
# the majority of 52.7%. It has learned its 2,490 pairs by heart. Nor is it the size of the model or the optimiser
# alone: the same architecture with the same pairs and steps ends at 58% once it is pretrained, and at 66% after MNLI.
# So I think that these pairs are too few to learn what words mean, how sentences are built and what follows from what.
# To show it, I would train from random weights on growing parts of a larger task of the same kind (MNLI: thousands, ten
# thousands, all of it) and test on RTE: if the number of examples is the limit, accuracy should rise above the majority
# as it grows. If it does not, something else is missing.
# === BEGIN MARK SCHEME ===
# One point: too few labelled examples for learning language from scratch (as a guess: no run has more pairs), or no
# pretraining, with numbers as evidence: the random start is not shown to be above the majority (or its runs are
# degenerate) although its training loss has fallen far below 0.69; or the same model is clearly better from pretrained
# weights. "What is missing is pretraining; that more pairs would help is not shown" gets the point too. If the
# student's own runs ended with a training loss near 0.69 (a rate at which runs give up, or a smaller size), "these
# runs did not even fit the training pairs" is the right reading of them, and gets the point.
# One point: an experiment that could show the opposite too: more labelled data from scratch (MNLI), or parts of RTE of
# growing size; more epochs are in the notebook already, and changing only the seed or the learning rate is not enough.
# No point for "the model is too small" or "too few epochs" without evidence. "The interval leaves room for six points
# from more steps" and "the rate was not searched for more steps" are evidence, and right.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("05_seed_variance")

# %%
scoreboard(checks)
