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
# # 9. What was known before
#
# A model learns to answer one question, then a second one, and gets worse at the first. Nothing in the loss asks it to
# keep what it knew: gradients depend only on the current batch. This is called **catastrophic forgetting**.
#
# Here you measure it, then build the usual remedies. You mix the tasks, keep some old examples, or stay close to old
# weights. You also remove conflicts between gradients, or give each task a small part of its own.
#
# Each exercise is checked on the spot and stands on its own. In grading, private checks ask the same with other sizes,
# numbers, models and orders of calls. Your functions return new objects and change their arguments only where the text
# asks for it. A call must not change torch's default dtype (float32) or device, nor whether gradients are recorded. It
# may change the global random generators only by drawing from them, and only if the exercise draws. The exercises take
# about three hours, not counting the written questions, and need no GPU.

# %% tags=["setup"] needs="adapters"

# %%
import random
import statistics

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import plots, tiny_bert
from utils.checks import nb09_forgetting as checks
from utils.experiments import forgetting as phases
from utils.experiments import profiles, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict, reveal

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 9.10 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 9.1 One encoder, a head for each task
#
# To see what is forgotten, one must know which weights belong to which task. Here all tasks share one encoder, and each
# has its own **head**: a linear map that reads the state of the first token,
#
# $$\text{logits} = W_{\text{task}}\, h_0 + b_{\text{task}}.$$
#
# Heads may have different numbers of classes, and each new task gets a new head. A step on task B changes the shared
# encoder and the head of B. The head of A stays exactly as it is.
#
# **Predict first.** Training on B does not touch the head of A. Do the answers to A stay the same?
#
# **Exercise 9.1** (2 points, about 15 minutes, easy). Write `MultiTask`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.ModuleDict` is a dict whose modules are known to `parameters()` and `state_dict()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A new `nn.Linear` is on the CPU, in single precision. The encoder may be on another device.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# add_task: refuse a name that exists; make a linear map; move it to the device and type of an encoder parameter; keep
# it. forward: apply the task's head to the states at position 0.
# </details>


# %%
predict("9.1", "b", a="yes", b="no")


# %% exercise="9.1"
class MultiTask(nn.Module):
    """An encoder that all tasks share, and a head for each task.

    Parts: `encoder`, the very module that was given, from tokens (B, T) to states (B, T, d); `heads`, an nn.ModuleDict
    with an nn.Linear (d, classes) for each task by its name. At first there are no tasks.
    """

    def __init__(self, encoder, d):
        super().__init__()
        ### BEGIN SOLUTION
        self.encoder, self.heads, self.d = encoder, nn.ModuleDict(), d
        ### END SOLUTION

    def add_task(self, name, n_classes):
        """Add a head for a new task, as nn.Linear makes it; all other weights stay as they are.

        It is on the device of the encoder's parameters and has their dtype. ValueError if there is a task of this name.
        """
        ### BEGIN SOLUTION
        if name in self.heads:
            raise ValueError(f"there is a task {name} already")
        self.heads[name] = nn.Linear(self.d, n_classes).to(next(self.encoder.parameters()))
        ### END SOLUTION

    def forward(self, tokens, task):
        """Tokens (B, T) -> logits (B, classes) of the task, from the first token's state. KeyError for no such task."""
        ### BEGIN SOLUTION
        return self.heads[task](self.encoder(tokens)[:, 0])
        ### END SOLUTION


# %% check="9.1"
checks.multi_task(MultiTask)

# %%
torch.manual_seed(0)
encoder = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 16), nn.Tanh())
model = MultiTask(encoder, 16)
model.add_task("A", 3)
model.add_task("B", 2)
tokens, labels = torch.randint(30, (64, 5)), torch.randint(2, (64,))

# %%
before = {name: weight.clone() for name, weight in model.state_dict().items()}
answers = model(tokens, "A").argmax(-1)

# %%
rule, steps, moved = torch.optim.SGD(model.parameters(), lr=0.5), range(0, 101, 10), {}
for step in range(101):
    if step in steps:
        for part in ("encoder", "heads.A", "heads.B"):
            squares = [(w - before[n]).pow(2).sum() for n, w in model.state_dict().items() if n.startswith(part)]
            moved.setdefault(part, []).append(sum(squares).sqrt().item())
    rule.zero_grad()
    F.cross_entropy(model(tokens, "B"), labels).backward()
    rule.step()
changed = (model(tokens, "A").argmax(-1) != answers).float().mean().item()
print(f"{changed:.0%} of the answers to A have changed")

# %%
alt = "How far three parts move while B is trained: the encoder and the head of B more and more, the head of A not."
plots.curves(moved, x=steps, xlabel="steps on task B", ylabel="distance from the start", alt=alt)

# %% [markdown]
# The head of A is untouched, but its answers still change: it reads other states than those it was trained on.
# Forgetting happens in the shared weights.

# %% [markdown]
# ## 9.2 Look at everything, each time
#
# Train tasks one after the other, and measure the accuracy on all tasks after each. That gives the matrix of Lopez-Paz
# and Ranzato (2017):
#
# $$R_{i,j} = \text{accuracy at task } j \text{ after the first } i \text{ tasks were learned}.$$
#
# Row 0 is measured before anything was learned. The diagonal shows the task just learned; entries below it show what is
# left of earlier tasks, and entries above it show what is known of later ones. One model learns all tasks in turn.
# Measuring must change nothing: it happens in evaluation mode and without gradients.
#
# **Predict first.** What are the entries above the diagonal if the tasks have nothing in common?
#
# **Exercise 9.2** (2 points, about 15 minutes, medium). Write `accuracy_matrix`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.train()`, `model.eval()` and `model.train(mode)`; `with torch.no_grad():`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# After the first measurement the model is in evaluation mode. Switch back before the next training.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a row of all tasks, not yet trained; then for each task: training mode, train, a row of all tasks. A row: evaluation
# mode, no gradients, evaluate each task. Last: back to the mode in which the model was given.
# </details>


# %%
predict("9.2", "b", a="zeros", b="a coin's accuracy", c="what stands on the diagonal")


# %% exercise="9.2"
def accuracy_matrix(model, tasks, train, evaluate):
    """R[i, j]: the accuracy at tasks[j] after tasks[:i] were learned one after the other, a float tensor (T + 1, T).

    Args:
        model: an nn.Module, all its parts in one mode. It is trained itself, not a copy, and is afterwards in the mode
            in which it came. Nothing else of it changes but by `train`: weights, gradients, which parameters learn.
        tasks: the T names of the tasks, one at least, in the order in which they are learned.
        train: `train(model, task)` trains the model in place. It is called in training mode, once for each task, with
            gradients being recorded, as they are before the call.
        evaluate: `evaluate(model, task)` gives an accuracy, a float. It is called in evaluation mode, and without
            gradients being recorded. Neither changes the mode.
    """
    ### BEGIN SOLUTION
    was_training, rows = model.training, []
    for learned in (None, *tasks):
        if learned is not None:
            model.train()
            train(model, learned)
        model.eval()
        with torch.no_grad():
            rows.append([evaluate(model, task) for task in tasks])
    model.train(was_training)
    return torch.tensor(rows)
    ### END SOLUTION


# %% check="9.2"
checks.accuracy_matrix(accuracy_matrix)

# %%
torch.manual_seed(1)
x, base = torch.randn(600, 24), torch.randn(4, 24)
directions = {"A": base[0], "B": base[1], "like A": base[0] + 0.5 * base[2], "not A": base[3] - 0.7 * base[0]}
model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))


def train(model, task):
    rule = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        rule.zero_grad()
        F.cross_entropy(model(x[:400]), (x[:400] @ directions[task] > 0).long()).backward()
        rule.step()


# %%
def evaluate(model, task):
    return (model(x[400:]).argmax(-1) == (x[400:] @ directions[task] > 0)).float().mean().item()


R = accuracy_matrix(model, list(directions), train, evaluate)

# %%
alt = "Accuracy at four tasks, before and after each was learned. What was just learned is at about 0.9; A falls from "
alt += "there when B is learned, comes back with the task that is like it, and falls below one half with its opposite."
rows = ["before", *(f"after {name}" for name in directions)]
plots.tables({"accuracy": R}, rows=rows, columns=list(directions), alt=alt, limits=(0.2, 1))

# %% [markdown]
# If tasks have nothing in common, accuracy above the diagonal is that of a coin. If two tasks are alike, part of the
# later one is known before it is learned, and learning it brings back the earlier one. If they contradict each other,
# accuracy falls below that of a coin.

# %% [markdown]
# ## 9.3 Four numbers
#
# Four numbers sum up $R$ for $T$ tasks. Tasks count from 1 here, so that $R_{j,j}$ was measured when $j$ had just been
# learned:
#
# $$\text{average} = \frac{1}{T} \sum_j R_{T,j}, \qquad
# \text{backward} = \frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j}),$$
#
# $$\text{forgetting} = \frac{1}{T-1} \sum_{j<T} \big(\max_{1 \le i < T} R_{i,j} - R_{T,j}\big), \qquad
# \text{forward} = \frac{1}{T-1} \sum_{j>1} (R_{j-1,j} - R_{0,j}).$$
#
# Backward transfer (Lopez-Paz and Ranzato 2017) compares the end with the moment when a task was learned. Forgetting
# (Chaudhry et al. 2018) compares the end with the best accuracy since the first task was learned. Forward transfer is
# what a task gained before its turn. The last task had no time to be forgotten, and the first had no task before it.
#
# **Predict first.** Can backward transfer be positive? And is it always the opposite of forgetting?
#
# **Exercise 9.3** (2 points, about 20 minutes, medium). Write the four functions.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `R.diagonal(offset)` is another diagonal; `R.max(dim=0).values` is a maximum for each column.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Row 0 comes before the first task. So the accuracy at the first task, just learned, is `R[1, 0]`, not `R[0, 0]`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# just learned: entries (1, 0), (2, 1), ...; before their turn: (1, 1), (2, 2), ...; the end: the last row. Each result
# is a mean over the columns that take part; 0 if there are none.
# </details>


# %%
predict("9.3", "c", a="no; yes", b="yes; yes", c="yes; no")


# %% exercise="9.3"
def average_accuracy(R):
    """The mean accuracy at the end. R: a float tensor (T + 1, T), T at least 1, row 0 before anything was learned."""
    ### BEGIN SOLUTION
    return R[-1].mean().item()
    ### END SOLUTION


def backward_transfer(R):
    """By how much tasks are better at the end than when they had just been learned; 0 for a single task."""
    ### BEGIN SOLUTION
    T = R.size(1)
    return sum(R[T, j].item() - R[j + 1, j].item() for j in range(T - 1)) / max(1, T - 1)
    ### END SOLUTION


def forgetting(R):
    """By how much tasks are worse at the end than at their best after any of the tasks before; 0 for a single task."""
    ### BEGIN SOLUTION
    T = R.size(1)
    return sum(R[1:T, j].max().item() - R[T, j].item() for j in range(T - 1)) / max(1, T - 1)
    ### END SOLUTION


def forward_transfer(R):
    """By how much tasks are better just before their turn than before anything was learned; 0 for a single task."""
    ### BEGIN SOLUTION
    T = R.size(1)
    return sum(R[j, j].item() - R[0, j].item() for j in range(1, T)) / max(1, T - 1)
    ### END SOLUTION


# %% check="9.3"
checks.measures(average_accuracy, backward_transfer, forgetting, forward_transfer)

# %%
start = [0.5, 0.5, 0.5]
stories = {
    "forgets": [start, [0.9, 0.5, 0.5], [0.6, 0.9, 0.5], [0.5, 0.6, 0.9]],
    "keeps": [start, [0.9, 0.5, 0.5], [0.9, 0.9, 0.5], [0.9, 0.9, 0.9]],
    "transfers": [start, [0.7, 0.6, 0.6], [0.8, 0.8, 0.7], [0.9, 0.9, 0.9]],
    "rises, falls": [start, [0.7, 0.5, 0.5], [0.9, 0.8, 0.5], [0.7, 0.8, 0.8]],
}
stories = {name: torch.tensor(rows) for name, rows in stories.items()}

# %%
functions = (average_accuracy, backward_transfer, forgetting, forward_transfer)
numbers = {f.__name__.replace("_", " "): [f(R) for R in stories.values()] for f in functions}
for name, values in numbers.items():
    print(f"{name:17}", *(f"{value:7.2f}" for value in values))
alt = "Four measures of four made-up courses of learning. Backward transfer is minus the forgetting where tasks only "
alt += "fall; where a task rose first and fell later, there is forgetting although backward transfer is zero."
plots.bars(numbers, labels=list(stories), ylabel="accuracy", alt=alt)

# %% [markdown]
# Backward transfer is positive if later tasks help earlier ones. It equals minus the forgetting if each task was at its
# best when it had just been learned. In the last example, accuracy on the first task rose and then fell: it ends where
# it began, and yet something was forgotten.

# %% [markdown]
# ## 9.4 Who is asked how often?
#
# If all tasks are trained at once, none comes before another. But one task may have a hundred times as many examples as
# another. With shares in proportion to their sizes, the small one is hardly seen; with equal shares, it is seen so
# often that it is memorised. A **temperature** $T$ gives shares in between (Raffel et al. 2020, section 3.5.2),
#
# $$p_i = \frac{\min(n_i, K)^{1/T}}{\sum_j \min(n_j, K)^{1/T}},$$
#
# with a **cap** $K$ on the size of a task. Multilingual BERT uses the exponent 0.7 for its languages, so $T = 1/0.7$.
#
# **Predict first.** Which of the two helps more against one giant among many small tasks: a temperature or a cap?
#
# **Exercise 9.4** (2 points, about 15 minutes, medium). Write `sampling`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# A power is a logarithm times the exponent, and `softmax` of logarithms divides by the sum.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A million to the power of 100 is more than a float holds, and 1 divided by it is 0.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# sizes, each at most the cap; their logarithms in double precision, divided by the temperature; softmax.
# </details>


# %%
predict("9.4", "b", a="a temperature", b="a cap", c="both alike")


# %% exercise="9.4"
def sampling(sizes, temperature=1.0, cap=None):
    """The probability with which each task is drawn, a float tensor (N) that sums to 1.

    Args:
        sizes: the numbers of examples, a list of integers of 1 or more.
        temperature: any above 0, float("inf") too; else, as for NaN, ValueError. From 1e-6 on nothing overflows, and
            sizes that differ by one are told apart: logarithms are taken in double precision.
        cap: no task counts for more examples than that; None for no cap.
    """
    ### BEGIN SOLUTION
    if not temperature > 0:
        raise ValueError("the temperature must be above 0")
    counts = [size if cap is None else min(size, cap) for size in sizes]
    return (torch.tensor(counts, dtype=torch.float64).log() / temperature).softmax(0)
    ### END SOLUTION


# %% check="9.4"
checks.sampling(sampling)

# %%
sizes = {"MNLI": 392_702, "QQP": 363_846, "QNLI": 104_743, "SST-2": 67_349, "CoLA": 8_551, "RTE": 2_490}
temperatures = [0.5 * 1.25**k for k in range(15)]
shares = torch.stack([sampling([*sizes.values()], temperature) for temperature in temperatures])
alt = "The shares of six tasks of GLUE by temperature: at one half the two large ones have nearly all, and towards "
alt += "large temperatures all shares come closer to one sixth."
plots.curves(dict(zip(sizes, shares.T)), x=temperatures, xlabel="temperature", ylabel="share of the batches", alt=alt)

# %%
steps, batch = 30_000, 32
for words in ({}, {"temperature": 1 / 0.7}, {"temperature": 4}, {"cap": 50_000}, {"temperature": float("inf")}):
    p = sampling([*sizes.values()], **words)
    epochs = {name: round(steps * batch * share.item() / sizes[name], 1) for name, share in zip(sizes, p)}
    print(f"{words or 'in proportion'}: epochs {epochs}")

# %% [markdown]
# A cap reduces only the giants, so it is enough against one of them: the small tasks keep their shares relative to each
# other. A temperature raises the smallest task most. The last line shows the price: with equal shares, RTE is repeated
# many times before MNLI has been seen once.
#
# **Play.** Give RTE a tenth of the batches, with the smallest temperature that can do it. Caps are in thousands.


# %%
def drawn_tasks(temperature, cap):
    p = sampling([*sizes.values()], temperature, 1000 * cap)
    alt = f"Shares of six tasks at temperature {temperature} and a cap of {cap} thousand: RTE has {p[-1]:.1%}."
    found = plots.bars({"share": p.tolist()}, labels=[*sizes], ylabel="share of the batches", alt=alt)
    found.axes[0].set_ylim(0, 0.6)
    return found


interactive(
    drawn_tasks, temperature=[0.5, 1.0, 1.5, 2.0, 4.0, 10.0], cap=[400, 200, 100, 50, 10, 2], start={"temperature": 1.0}
)

# %% [markdown]
# ## 9.5 A small memory
#
# If you cannot keep all old data, keep a few examples and mix them into later batches: **replay**. The memory has
# places for $k$ examples, and you do not know how many will come. Still, each of the $n$ examples so far should be in
# it with the same probability. Algorithm R (Vitter 1985) keeps the first $k$, and lets in the $n$-th example, $n > k$,
# with probability
#
# $$\frac{k}{n}.$$
#
# It then replaces one of the $k$ examples in the memory, each with the same probability.
#
# **Predict first.** Suppose you let in each new example with probability one half. Which examples does the memory hold
# after a while?
#
# **Exercise 9.5** (2 points, about 20 minutes, medium). Write `Replay`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `rng.randrange(n)` is one of 0 to n - 1; `rng.sample(examples, n)` draws without replacement.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The new example itself counts in $n$. And `rng.sample` refuses to draw more than there are.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# add: count it; if there is a place, append it; else draw a number below the count, and if it is the number of a place,
# put the new example there. sample: that many different examples, or all.
# </details>


# %%
predict("9.5", "c", a="all alike", b="the first ones", c="the latest ones")


# %% exercise="9.5"
class Replay:
    """A memory for at most `capacity` examples, 1 or more; each of all that were added is in it with the same chance.

    `examples` is the list of those kept, themselves, in any order. They are of any type, and of equal ones each counts.
    rng, a random.Random, is the only source of chance: memories with equal generators do the same.
    """

    def __init__(self, capacity, rng):
        ### BEGIN SOLUTION
        self.examples, self.capacity = [], capacity
        self.count, self.rng = 0, rng
        ### END SOLUTION

    def add(self, example):
        """Take note of one example, and keep it or not."""
        ### BEGIN SOLUTION
        self.count += 1
        if self.count <= self.capacity:
            self.examples += [example]
        elif (lot := self.rng.randrange(self.count)) < self.capacity:
            self.examples[lot] = example
        ### END SOLUTION

    def sample(self, n):
        """A new list of n of the kept examples, drawn without replacement; of all of them if there are fewer."""
        ### BEGIN SOLUTION
        return self.rng.sample(self.examples, k=min(n, len(self.examples)))
        ### END SOLUTION


# %% check="9.5"
checks.replay(Replay)

# %%
rng, repeats, stream = random.Random(0), 500, range(100)
kept = {"Algorithm R": torch.zeros(100), "one half": torch.zeros(100), "the newest": torch.zeros(100)}
for _ in range(repeats):
    memory, half = Replay(10, rng), []
    for number in stream:
        memory.add(number)
        if len(half) < 10:
            half.append(number)
        elif rng.random() < 0.5:
            half[rng.randrange(10)] = number
    for name, numbers in zip(kept, (memory.examples, half, stream[-10:])):
        kept[name][list(numbers)] += 1 / repeats

# %%
alt = "How often each of a hundred examples is in a memory for ten at the end: with Algorithm R all alike; the newest "
alt += "alone where the oldest is dropped; and where every second one is let in, those of the end by far most often."
plots.curves(kept, x=stream, xlabel="number of the example", ylabel="share of memories that hold it", alt=alt)

# %% [markdown]
# If every second example is let in, the past fades: a memory of recent examples helps no old task. Algorithm R lets in
# new examples ever more rarely, at just the rate that makes all examples equally likely to be in memory.

# %% [markdown]
# ## 9.6 Which weights mattered?
#
# Without old examples, one can keep weights near their old values, but not all equally. Elastic weight consolidation
# (Kirkpatrick et al. 2017, equation 3) measures how much the answers depend on each weight. That is the diagonal of the
# **Fisher information**, over the answers $y$ that the model itself gives:
#
# $$F_k = \frac{1}{N} \sum_n \sum_y p(y \mid x_n) \left(\frac{\partial \log p(y \mid x_n)}{\partial
# \theta_k}\right)^2, \qquad \text{penalty} = \frac{\lambda}{2} \sum_k F_k\, (\theta_k - \theta^*_k)^2.$$
#
# No labels are used. The **anchor** $\theta^*$ is a copy of the weights after the old task, which does not change when
# they change.
#
# **Predict first.** What is the Fisher information of a weight if the model is quite sure of all its answers?
#
# **Exercise 9.6** (3 points, about 25 minutes, hard). Write `remember`, `fisher` and `ewc`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.autograd.grad(output, parameters, retain_graph=True, allow_unused=True)` does not touch any `.grad`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The square of the mean gradient is not the mean of the squares: gradients of different examples cancel. Square each
# one first.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# fisher: evaluation mode. For each example and each class: the gradient of that class's log-probability, squared, times
# its probability, added up; divide by the number of examples; the mode as before. ewc: a sum over the names of
# `importance`.
# </details>


# %%
predict("9.6", "a", a="nearly 0", b="nearly 1", c="larger and larger")


# %% exercise="9.6"
def remember(model):
    """The parameters of a model as they are now, copies, in a dict by name; no gradient flows to or from them."""
    ### BEGIN SOLUTION
    return {name: part.detach().clone() for name, part in model.named_parameters()}
    ### END SOLUTION


def fisher(model, inputs):
    """The diagonal of the Fisher information: a dict of tensors by name, of all parameters that learn, in their shapes.

    model: an nn.Module from inputs (N, ...), N of 1 or more, to logits (N, C), each row for itself. It is asked in
    evaluation mode and left as it was, with all its parts, which come in one mode: mode, weights, buffers, gradients.
    `fisher` is called where gradients are recorded. What does not learn is left out; what no answer depends on has
    zeros. No tensor has requires_grad or NaN, however sure the model is."""
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    learning = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    found = {name: torch.zeros_like(weight) for name, weight in learning.items()}
    for row in inputs.split(1):
        for log_p in model(row).log_softmax(-1)[0]:
            slopes = torch.autograd.grad(log_p, [*learning.values()], retain_graph=True, allow_unused=True)
            for name, slope in zip(learning, slopes):
                if slope is not None:
                    found[name] += slope**2 * log_p.exp().detach() / len(inputs)
    model.train(was_training)
    return found
    ### END SOLUTION


def ewc(model, importance, anchor, strength):
    """Kirkpatrick's penalty on the one or more parameters that `importance` names, a tensor with one number.

    importance: what `fisher` gave; anchor: what `remember` gave, both perhaps before the model got more parameters.
    strength: lambda. Gradients flow to the model's parameters. Those that `importance` does not name are free.
    """
    ### BEGIN SOLUTION
    named = dict(model.named_parameters())
    moved = {name: named[name] - anchor[name] for name in importance}
    return strength / 2 * sum((importance[name] * moved[name] ** 2).sum() for name in importance)
    ### END SOLUTION


# %% check="9.6"
checks.consolidation(remember, fisher, ewc)

# %%
torch.manual_seed(0)
x = torch.randn(400, 6) * torch.tensor([2.0, 1.0, 1.0, 0.1, 1.0, 1.0])
labels = ((x[:, 0] > 0).long() + (x[:, 1] > 0.5)) % 3

# %%
model = nn.Linear(6, 3)
information = {}
for steps in (0, 30, 600):
    rule = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        rule.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        rule.step()
    information[f"{steps} more steps"] = fisher(model, x)["weight"]

# %%
alt = "The Fisher information of a linear map with six inputs and three classes, early and late in training: large for "
alt += "the input of the largest values, nothing for the one with the smallest, and falling everywhere in the end."
plots.heatmaps(information, limits=None, xlabel="input", ylabel="class", alt=alt)

# %% [markdown]
# If an input hardly varies, its weights hardly matter. And the surer the model, the smaller the information: where $p$
# is 0 or 1, small changes of the weights change no answer. So EWC protects a model least if it fits its task perfectly,
# which is one reason why its strength must be tuned.

# %% [markdown]
# ## 9.7 Back to where it started
#
# Weight decay pulls towards zero. For a pretrained model, zero is a poor target: its knowledge is in its starting
# values. L2-SP (Li et al. 2018) pulls towards the **starting point** $\theta^0$ instead, with the same strength for all
# weights. New weights, such as a head's, have no start worth keeping, and are pulled to zero:
#
# $$\text{penalty} = \frac{\alpha}{2} \sum_{\text{shared}} \lVert \theta - \theta^0 \rVert^2 + \frac{\beta}{2}
# \sum_{\text{new}} \lVert \theta \rVert^2.$$
#
# A head for a different number of classes is new too, even if it has the same name as the old one.
#
# **Predict first.** With $\theta^0 = 0$ and $\alpha = \beta$, what is L2-SP?
#
# **Exercise 9.7** (2 points, about 15 minutes, medium). Write `l2_sp`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.named_parameters()`; `anchor.get(name)` is None for a name without an anchor.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A (4, 8) weight minus an anchor of (1, 8) is not an error: the smaller tensor is broadcast. Compare shapes first.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# for each parameter: if the anchor has one of its name and shape, the squares of the difference, times alpha; else its
# own squares, times beta. Half of the sum.
# </details>


# %%
predict("9.7", "b", a="EWC", b="weight decay", c="no penalty at all")


# %% exercise="9.7"
def l2_sp(model, anchor, alpha, beta):
    """The penalty of Li et al. (2018), a tensor with one number; gradients flow to the parameters, also where it is 0.

    model: an nn.Module with one parameter or more; all of them count, and no buffers.
    anchor: a dict of tensors by name, the parameters where they started. A parameter is shared if the anchor has a
        tensor of its name and its shape, otherwise it is new. Names that the model does not have are passed over.
    """
    ### BEGIN SOLUTION
    total = 0
    for name, part in model.named_parameters():
        if name in anchor and anchor[name].shape == part.shape:
            total = total + alpha / 2 * (part - anchor[name]).pow(2).sum()
        else:
            total = total + beta / 2 * part.pow(2).sum()
    return total
    ### END SOLUTION


# %% check="9.7"
checks.starting_point(l2_sp)

# %%
torch.manual_seed(4)
x, (first, second) = torch.randn(800, 24), torch.randn(2, 24)
tasks = {"A": (x @ first > 0).long(), "B": (x @ second > 0).long()}
origin = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 2))


def trained(start, labels, alpha=0.0):
    model = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 2))
    model.load_state_dict(start)
    rule, anchor = torch.optim.SGD(model.parameters(), lr=0.2), {n: w.clone() for n, w in start.items()}
    for _ in range(300):
        rule.zero_grad()
        (F.cross_entropy(model(x[:400]), labels[:400]) + l2_sp(model, anchor, alpha, 0.0)).backward()
        rule.step()
    return model


# %%
knows_a = trained(origin.state_dict(), tasks["A"]).state_dict()
exponents, lines = [-3 + k / 2 for k in range(8)], {"A": [], "B": []}
for exponent in exponents:
    model = trained(knows_a, tasks["B"], 10**exponent)
    for name, line in lines.items():
        line.append((model(x[400:]).argmax(-1) == tasks[name][400:]).float().mean().item())

# %%
alt = "Accuracy at A and B after B was learned, by the strength of the pull to the weights that knew A: the stronger, "
alt += "the better A is kept and the worse B is learned."
plots.curves(lines, x=exponents, xlabel="strength, as a power of ten", ylabel="accuracy", alt=alt)

# %% [markdown]
# With a start at zero, L2-SP is plain weight decay. The two curves cross: a pull does not distinguish what B needs from
# what A needs. It trades accuracy on the new task for accuracy on the old one; the strength sets the exchange rate.

# %% [markdown]
# ## 9.8 Gradients in conflict
#
# Tasks that are trained together may pull shared weights in opposite directions. Take each task's gradient, $g_A$ or
# $g_B$, as one long vector over **all** weights. If their cosine is below zero, a step for one task harms the other. Yu
# et al. (2020, algorithm 1) then remove from $g_A$ the part that works against B:
#
# $$g_A' = g_A - \frac{g_A \cdot g_B}{\lVert g_B \rVert^2}\, g_B \quad \text{if } g_A \cdot g_B < 0, \quad \text{else }
# g_A.$$
#
# Weights on which a loss does not depend, such as the other task's head, have a gradient of zero.
#
# **Predict first.** What is the cosine of $g_A'$ and $g_B$ after a conflict?
#
# **Exercise 9.8** (2 points, about 20 minutes, medium). Write `gradient_cosine` and `without_conflict`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)` has zeros in place of None.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `model.parameters()` can be iterated only once. The second loss would find no parameters left.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# cosine: a list of the parameters; both losses' gradients, flattened and joined; their product over the product of
# their norms, 0 if that is 0. without_conflict: the sum of all products; below zero: subtract, tensor by tensor, that
# sum over the squares of g_b, times g_b.
# </details>


# %%
predict("9.8", 0)


# %% exercise="9.8"
def gradient_cosine(loss_a, loss_b, parameters):
    """The cosine of two losses' gradients, over all parameters together; a float, 0 if one of the gradients is zero.

    Args:
        loss_a, loss_b: tensors with one number. Both can still be backpropagated afterwards, and no `.grad` changes.
        parameters: an iterable of parameters that learn, such as `model.parameters()`; a loss need not depend on all.
    """
    ### BEGIN SOLUTION
    parameters, flat = list(parameters), []
    for loss in (loss_a, loss_b):
        slopes = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
        flat.append(torch.cat([slope.flatten() for slope in slopes]))
    norms = flat[0].norm() * flat[1].norm()
    return (flat[0] @ flat[1] / norms).item() if norms > 0 else 0.0
    ### END SOLUTION


def without_conflict(g_a, g_b):
    """g_a without what works against g_b, a list of tensors in the same shapes; without a conflict g_a or its equal.

    g_a, g_b: lists of tensors, one a parameter, in the same order and dtype, float32 or float64. Neither is changed.
    """
    ### BEGIN SOLUTION
    product = sum((a * b).sum() for a, b in zip(g_a, g_b))
    if product >= 0:
        return list(g_a)
    scale = product / sum((b * b).sum() for b in g_b)
    return [a - scale * b for a, b in zip(g_a, g_b)]
    ### END SOLUTION


# %% check="9.8"
checks.conflicts(gradient_cosine, without_conflict)

# %%
torch.manual_seed(0)
x, (first, second), degrees = torch.randn(500, 12), torch.linalg.qr(torch.randn(12, 2))[0].T, range(0, 181, 15)
model = nn.Linear(12, 2)
labels = {angle: (x @ (first * torch.tensor(angle).deg2rad().cos() + second * torch.tensor(angle).deg2rad().sin()) > 0)
          for angle in degrees}  # fmt: skip
cosines = {"as they are": [], "without conflict": []}

# %%
for angle in degrees:
    losses = [F.cross_entropy(model(x), labels[one].long()) for one in (0, angle)]
    cosines["as they are"].append(gradient_cosine(*losses, model.parameters()))
    g_a, g_b = (torch.autograd.grad(loss, [*model.parameters()], retain_graph=True) for loss in losses)
    new, old = (torch.cat([one.flatten() for one in g]) for g in (without_conflict(list(g_a), list(g_b)), g_b))
    cosines["without conflict"].append((new @ old / (new.norm() * old.norm())).item())
length = new.norm() / torch.cat([one.flatten() for one in g_a]).norm()
print(f"opposite labels: cosine {cosines['as they are'][-1]:.2f}, and {length:.0%} of the length of g_a is left")

# %%
alt = "The cosine of two tasks' gradients by the angle between what they ask: it falls from one to below zero. Without "
alt += "conflict it is the same as long as it is positive, and zero beyond."
plots.curves(cosines, x=degrees, xlabel="angle between the tasks, degrees", ylabel="cosine", alt=alt)

# %% [markdown]
# The rest is at a right angle to the other gradient: a small step along it neither helps nor harms the other task. It
# does not say which task is right. Even with opposite labels, most of the gradient survives the projection here: a new
# model is unsure of both tasks, and its two gradients are not opposite.

# %% [markdown]
# ## 9.9 A part of one's own
#
# Weights that cannot be overwritten are not forgotten. Leave the encoder as it is, give each task an **adapter** and a
# head (notebook 06), and train only those. Then the answers to an old task stay exactly the same.
#
# Three mistakes undo this: a shared weight that still learns, one adapter for all tasks, and predicting with the parts
# of the wrong task. The library keeps several adapters in a model. One of them is **active**, and the active head is a
# separate setting.
#
# **Predict first.** With adapters, how large is forgetting? And forward transfer?
#
# **Exercise 9.9** (3 points, about 25 minutes, hard). Write `learn` and `answer`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.add_adapter(task, config="seq_bn")`, `model.add_classification_head`, `model.train_adapter(task)`,
# `model.set_active_adapters(task)`; `model.heads` is a dict by name.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `train_adapter` does not touch the active head. That is the head added last, or the head that
# `set_active_adapters(task)` made active together with its adapter of the same name. `model.active_head = task` sets
# only the head.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# learn: if the task is new, add adapter and head. Train its adapter, its head active; SGD over the trainable
# parameters; for each batch: zero gradients, cross-entropy, backward, step. answer: switch to evaluation mode; activate
# the task's adapter; compute the logits without gradients; put the mode back.
# </details>


# %%
predict("9.9", "b", a="0, and positive", b="0, and 0", c="small, and positive")


# %% exercise="9.9"
def learn(model, task, n_classes, batches, lr):
    """Train the adapter and the head that are called `task`, by plain SGD without decay, and nothing else.

    Args:
        model: a BertAdapterModel of the adapters library, with or without other tasks.
        task: its name. If the model has no such adapter, it first gets one with the config "seq_bn", and a
            classification head with n_classes as the library makes it. Otherwise both learn on from where they are.
        batches: a list of dicts with `input_ids`, `token_type_ids`, `attention_mask`, each (B, T), and `labels` (B).
            One step for each, in their order and in training mode, on the mean cross-entropy alone: gradients that were
            left from before do not count. It may be empty.
    """
    ### BEGIN SOLUTION
    if task not in model.heads:
        model.add_adapter(task, config="seq_bn")
        model.add_classification_head(task, num_labels=n_classes)
    model.train_adapter(task)
    model.active_head = task
    model.train()
    rule = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=lr)
    for batch in batches:
        inputs = {key: part for key, part in batch.items() if key != "labels"}
        rule.zero_grad()
        F.cross_entropy(model(**inputs).logits, batch["labels"]).backward()
        rule.step()
    ### END SOLUTION


def answer(model, task, batch):
    """The logits (B, classes) of a task that was learned, whichever was learned or asked last.

    batch: as in `learn`, with or without labels. The model, all its parts in one mode, is asked in evaluation mode, and
    is afterwards in the mode in which it was; the logits have requires_grad=False.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    model.set_active_adapters(task)
    with torch.no_grad():
        logits = model(**{key: part for key, part in batch.items() if key != "labels"}).logits
    model.train(was_training)
    return logits
    ### END SOLUTION


# %% check="9.9"
checks.adapters(learn, answer)

# %%
torch.manual_seed(0)
model = tiny_bert.bert()
data = {task: tiny_bert.pairs(16, [(12, 6)], 29, seed) for seed, task in enumerate(("A", "B", "C"))}
share = {task: [] for task in data}

# %%
for task, batches in data.items():
    learn(model, task, 2, batches * 60, 0.5)
    for old in share:
        labels = data[old][0]["labels"]
        known = old in model.heads
        right = (answer(model, old, data[old][0]).argmax(-1) == labels).float().mean().item() if known else float("nan")
        share[old].append(right)

# %%
alt = "The share of right answers to three tasks, after each of them was learned: what a task was when it was learned, "
alt += "it stays. Before a task was learned, it has no head that could answer."
rows = [f"after {task}" for task in data]
plots.tables({"right": torch.tensor([*share.values()]).T}, rows=rows, columns=list(data), alt=alt)

# %% [markdown]
# Forgetting is zero by construction. So is every transfer: no task learns anything from another, neither forward nor
# backward. That is why notebook 06 adds a fusion on top.

# %% [markdown]
# ## Experiment: six libraries, two at a time
#
# Which library's documentation does a sentence come from? One head has a class for each of six libraries. In each of
# three phases an encoder learns two of them. Its lower layers are frozen, and the upper ones learn. Five arms differ in
# what they do to keep earlier phases, and three show what to compare them with:
#
# | arm | what it does in later phases |
# |---|---|
# | in sequence | nothing |
# | replay | keeps 15% of the sentences of earlier phases, and mixes some into each step |
# | L2-SP | pulls all weights to their values at the end of the last phase |
# | EWC | the same, each weight by its Fisher information |
# | adapters | leaves the encoder as it is; each phase has adapters and two classes of the head |
# | all together | one phase with all six libraries: the bound for one head |
# | head alone | the whole encoder stays as it was given, and the head learns in sequence: the baseline |
# | each alone | each phase has a model of its own, from the same start: single-task training |
#
# `COURSE_PROFILE` decides the size: `cpu` is a small encoder, `gpu` is BERT, and `smoke` a tiny encoder and made-up
# sentences. Smoke runs show that everything works, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->

# %% tags=["experiment"]
experiments = phases.experiments("09_forgetting")
print(f"{profiles.name()} on {profiles.device()}, seeds {phases.seeds()}")
for name, one in experiments.items():
    print(f"{name}: {one.encoder}, {one.examples} sentences a library, {one.epochs} epochs a phase, rate {one.lr}")
mine = {"Replay": Replay, "remember": remember, "fisher": fisher}
student.use(checks, **mine, ewc=ewc, l2_sp=l2_sp)
results = results_folder(say=True)

# %% tags=["experiment"]
from utils.experiments.forgetting import train as trainer

for library, (sentence,) in trainer.sentences(experiments["in sequence"]).items():
    print(f"{library:>10}: {sentence}")

# %% [markdown]
# The runs use your `Replay`, `remember`, `fisher`, `ewc` and `l2_sp` if you have passed their checks in this session;
# otherwise they use the course's. If one of your functions gives a different result, the runs use the course's version.
# That holds even if your result is just as good (a sum taken in another order, say). The grader must be able to repeat
# a run without your code.

# %% [markdown]
# ## All runs
#
# Every run writes one file with a row for each test sentence. It holds the class that the **one head** gives it, before
# training and after each phase. It holds the class if the head chooses only among the two libraries of the sentence's
# phase, as if that phase had its **own head**. Finally, it holds the prediction of a linear map that is **fitted
# again** at the end, to sentences of all phases. An edited or copied file is refused, and so is a seed that is not
# yours.
#
# **Predict first.** After the second phase, how many sentences of the first does one head get right?
#
# The runs take minutes. Interrupt them whenever you like: finished seeds are kept.

# %% tags=["experiment"]
predict("9.E1", "a", a="none", b="about half of them", c="nearly all")

# %% tags=["experiment"]
runs = {name: run_seeds(one, phases.seeds(), results) for name, one in experiments.items()}
across(runs, phases.METRICS)

# %% [markdown]
# ## 9.10 How much is left?
#
# Even a model that has forgotten a phase has some accuracy on it: the accuracy of a model that never learned it. So the
# fair question is which share of the **gain** is left. A model has some accuracy before the phase and a higher one
# after it. In the end its accuracy is somewhere between them, or below both.
#
# **Exercise 9.10** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `share_kept`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `statistics.mean`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# If one seed learned next to nothing, its own share is huge: divide means; do not divide seed by seed.
# </details>


# %% exercise="9.10"
def share_kept(untouched, learned, final):
    """The share of what was gained at a phase that is left in the end: of the means over seeds.

    Args:
        untouched, learned, final: lists of the accuracies at that phase, of each seed: before it was learned, right
            after it, and in the end. They are not empty.

    Returns:
        1 if all of the gain is left, 0 if none is, below 0 if the end is worse than the beginning; None if there was
        no gain.
    """
    ### BEGIN SOLUTION
    before, after, end = (sum(some) / len(some) for some in (untouched, learned, final))
    return (end - before) / (after - before) if after > before else None
    ### END SOLUTION


# %% check="9.10"
checks.share_kept(share_kept)

# %% tags=["experiment"]
for own, how in ((False, "one head"), (True, "own heads")):
    for name, some in runs.items():
        found = [phases.matrix(run, own) for run in some] if name != "all together" else []
        kept = share_kept(*([R[i][0] for R in found] for i in (0, 1, 3))) if found else None
        print(f"{how}, {name}: " + ("one phase" if not found else "no gain" if kept is None else f"{kept:.0%} is left"))

# %% tags=["experiment"]
phases.picture(runs, "Your runs: for each arm the share that one head gets right, own heads, and one fitted again.")

# %% [markdown]
# An encoder that has learned nothing here can already tell libraries apart, once a head is fitted to it: the row of
# "head alone" shows how well. If a head fitted again finds more than that, the difference was learned and kept. For
# "each alone", each sentence goes to the model of its own phase, so its row shows how much there was to keep.
#
# Where was it lost? Below are matrices as in 9.2, means over your seeds: first for the one head, then for own heads.


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
# How fast is it? One more model learns the first phase, and continues with the second.

# %% tags=["experiment"]
shares = trainer.fall(experiments["in sequence"], phases.seeds()[0], steps=12)
alt = "Accuracy at the first phase's sentences, from its end on over a dozen steps of the second: one head, own head."
plots.curves(shares, x=range(13), xlabel="steps of the second phase", ylabel="accuracy at the first phase", alt=alt)

# %% [markdown]
# Which differences does the table show? All students make the same comparisons. Each remedy is compared with training
# in sequence, and all together with replay and with the head alone. Training in sequence is also compared with the
# head alone and with each alone. The comparisons come first for one shared head, then for separate heads, and last for
# the refitted head: on all phases, and on the earlier phases alone.

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

# %% tags=["experiment"]
reveal("9.E1")

# %% tags=["experiment"]
for metric in phases.METRICS:
    print(f"--- {metric.name}", *SeedTable(recorded, metric).compared(phases.questions(recorded)), sep="\n\n")

# %% [markdown]
# Do tasks gain from each other when they are learned together, or does each lose? In the recorded runs below, one arm
# learns all six libraries at once, and its loss also uses own heads. So it differs from "each alone" in the sentences
# that an encoder reads, and so in its number of steps. Each has the best rate of its own search. Both were also run
# with a quarter of the sentences, and as many steps. Like all recorded arms, they have five seeds.

# %% tags=["experiment"]
alone = {name: some for name, some in recorded.items() if name == "each alone"} | phases.recorded_controls()
own_heads = SeedTable(alone, phases.METRICS[1])
print(*own_heads.compared(phases.CONTROL_PAIRS), sep="\n\n")
own_heads.frame() if alone else None

# %% [markdown]
# All rates and strengths above were chosen for **own heads**. Arms that train the same layers share one rate, the best
# for their mean. All arms learn the libraries in one and the same order. One head is right most often at other rates.
# So "in sequence" and "head alone" were run again, each at the best rate for one head of its own search. Replay and
# adapters have the best rate for one head already.

# %% tags=["experiment"]
one_head = recorded | phases.recorded_for_one_head()
print(*SeedTable(one_head, phases.METRICS[0]).compared(phases.ONE_HEAD_PAIRS), sep="\n\n")

# %% [markdown]
# One more condition limits what follows. L2-SP, EWC, "head alone" and the arms of the last cell's new rates ran on one
# core. All others ran on a GPU, where dropout draws other numbers. The comparisons say which of them cross devices.
#
# **One head.** In the recorded runs, a head that is trained in sequence gives no sentence of the first two phases its
# library. That took a handful of steps: an old class is never the right answer in later phases, so the loss keeps
# pushing its row down. The rows are not the only reason: on an encoder that stays as it was given, a head that learns
# in sequence gets 45% right, and here it is 26%. That difference is shown. It is not due to rates that suit own heads:
# if each arm has the best rate for one head, they have 53% and 40%, which is shown too. For training in sequence that
# is a ninth of the other rate. So how much one head forgets also depends on the rate.
#
# **Own heads.** They get 77% right, and models that learned each phase alone 86%. By the rule of this course that is
# not shown: over seeds, the difference is from 2.0 to 15.2 points before the correction for eight comparisons. How
# much own heads forget also depends on the rate: at ten times this one they fall to a coin (`data/README.md`).
#
# **Fitted again.** A head that is fitted again gets 52% of the earlier phases' sentences right. On the encoder that
# stayed as it was given, it gets 49%: that is the baseline, and only what is above it was learned and kept. No
# difference is shown. Models that learned one phase alone, and had nothing to forget, also have 52%. An encoder that
# learned all six together has 56%, which is 7.6 points above the untouched encoder, and that is shown (p = 0.036; on
# the sentences of all phases it is not, p = 0.066). So this encoder can learn more. Whether training in sequence
# learned it and lost it again, these runs cannot tell.

# %% [markdown]
# **Remedies.** For one head, replay is worth 27 points and adapters 23. Against training in sequence at its best rate
# for one head they are worth 14 and 9. All four differences are shown. But "head alone", which leaves the encoder as it
# was, has 53% at its best rate for one head: as much as replay, and more than the adapters' 49%. Neither remedy is
# shown to be better than that. Adapters need no old sentences, and their logits for an old phase never change. Their
# one head still gets worse from phase to phase, because more classes compete, and training never compared these classes
# with each other. L2-SP and EWC hardly change one head, 0.4 and 0.1 points: their strengths were chosen for own heads,
# and the search has settings that are better for one head. For own heads no remedy is shown to help.
#
# **Together or alone.** With 120 sentences a library, own heads that learn together are 2.3 points behind those that
# learn alone. With 30 they are 1.6 ahead. Neither is shown. The signs are as expected: tasks disturb each other if each
# has enough data, and help each other if each has little. One might expect that learning together also keeps a model
# from learning its sentences by heart. That is not seen. In the search, at the rate 1e-4, own heads are better on their
# own sentences than on new ones: by 5 points if they learn together, and 3 if they learn alone (with 30 sentences 18
# and 16). At the rates of the recorded runs the gaps are 5 and 10: those that learn alone with 120 sentences have a
# higher rate there. So which gap is larger depends on the rate. An encoder that learns together also takes three times
# as many steps.

# %% [markdown]
# **Question 9.W1** (2 points). Read your own table and matrices (in the profile `smoke`: the recorded ones, if there
# are any). For training in sequence there are three numbers: one head, own heads, fitted again. What does each of them
# tell you about forgetting, and with which row must you compare it? Which remedies help with which part, what do they
# cost, and which of these differences do the intervals support?

# %% [markdown] written="9.W1" points=2
# ### BEGIN SOLUTION
# One head gives no sentence of an earlier phase its library: the loss pushed the rows of old classes down, and the
# encoder moved. "Head alone" is the row to compare with: it learns in sequence too, and its encoder does not move.
# With own heads, the model does not have to choose between phases. They are compared with "each alone", which had
# nothing to forget. What they lose was lost in the encoder or in rows that no longer fit it. A head fitted again shows
# which libraries the encoder can still tell apart. It must be compared with the untouched encoder ("head alone"),
# which can tell some apart without having learned anything here: only what exceeds that was learned and kept. In the
# recorded runs no such excess is shown for training in sequence. It is shown for "all together": 7.6 points. So the
# encoder can learn more than it kept in sequence, or than it ever learned there: the runs do not show which of the two.
# (A student's own runs may differ.) Replay and adapters help one head. Replay costs stored sentences and longer steps;
# adapters cost parameters for each phase and, for own heads, somebody who says which phase it is. L2-SP and EWC help
# own heads at best. They need a strength that must be tuned, a copy of the weights and, for EWC, the Fisher
# information; they also slow the learning of new tasks. "Shown" means that the comparison says so: in the recorded
# runs it does only for replay and adapters. At the rate that is best for one head, they are worth about half as much.
# Neither is shown to be better than a head alone at its best rate, on the encoder as it was given.
# === BEGIN MARK SCHEME ===
# One point: the three numbers are told apart (choice between phases and pushed rows; rows that no longer fit; what the
# encoder tells apart), and the head fitted again is read against the untouched encoder. Any reading that follows from
# the own numbers counts: "hardly anything above the baseline is left in sequence", "it cannot be told what was learned
# and lost", or "no difference is shown". Half of it if the head fitted again is called knowledge that was kept without
# the baseline.
# One point: replay and adapters for one head (also right: "most of it is the encoder that stays as it is", or "neither
# is shown to be better than a head alone on the untouched encoder"), L2-SP and EWC at best for own heads, each with a
# cost; "shown" only where the comparisons say so. Half a point off for "EWC works" without a difference that is shown.
# Also right, and no reason to take points: what one head forgets and what a remedy is worth to it depend on the rate,
# which for most arms was chosen for own heads; L2-SP, EWC and "head alone" ran on another device than the other arms.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 9.W2** (2 points). A report says: "Multi-task training suffers from catastrophic forgetting, which is why
# each task got worse when the others were added." What is right about this, what is not, and what is the right word?
# Say which measurement would tell the two apart. And why are tasks trained together at all? Name two benefits, and say
# whether the recorded runs of "own heads together" and "each alone" show one.

# %% [markdown] written="9.W2" points=2
# ### BEGIN SOLUTION
# Right: tasks that share weights can harm each other, and each can be worse than alone. Wrong:
# nothing is forgotten. Forgetting is a loss over time: a task was learned, its examples no longer come, and later
# training overwrites it. In multi-task training the examples of all tasks come all the time; their gradients disagree
# in the same step (9.8), or tasks compete for capacity and for their share of the batches (9.4). That is interference,
# or negative transfer. To tell them apart, follow each task's accuracy over training. With forgetting, it rises first
# and falls when the task's examples stop coming (R of 9.2: best minus end). With interference, it never gets as high as
# for the task alone, and it does not fall. Compare with a model of that task alone, of the same size and with as many
# steps, over seeds ("each alone"). Benefits: the encoder learns from the data of all tasks, which helps most where a
# task has few examples; it must serve all of them, which makes it harder to fit the peculiarities of one training set
# (regularisation); and one model is stored and run instead of several. The recorded runs show neither of the first two
# benefits: with many sentences "together" is behind, with few it is ahead, and neither difference is shown.
# === BEGIN MARK SCHEME ===
# One point: forgetting needs a sequence (examples that no longer come); the right word is interference or negative
# transfer; and a measurement that separates them: a curve or matrix over time against one task alone. Half a point if
# gradient conflict is named and no measurement.
# One point: two benefits (more data for each task, above all for small ones; regularisation; one model to keep), and
# that the recorded differences are not shown. Half a point for the benefits without the runs.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("09_forgetting")

# %% [markdown]
# **What you can do now:** measure what a model forgets, and say which of its weights are to blame. You can also choose
# a remedy knowing what it costs: data, memory, strength, or parameters.

# %%
scoreboard(checks)

# %% [markdown]
# ## 9.S1 Between before and after
#
# This stretch exercise has a check, but it is not graded.
#
# L2-SP chooses a strength before it trains. Wortsman et al. (2022) choose afterwards: they average the weights from
# before and after training (WiSE-FT),
#
# $$\theta = (1 - \text{share})\, \theta_{\text{before}} + \text{share} \cdot \theta_{\text{after}}.$$
#
# A part that only one of the two has, such as a new head, cannot be averaged: take it as it is afterwards. The same
# holds for integers, such as the number of batches that a batch norm has seen.
#
# **Predict first.** A model knew task A and learned B, a similar task, from forty examples. Half way between the
# weights, how much of A is left, and how much of B is there?
#
# **Exercise 9.S1** (not graded, about 15 minutes, medium). Write `between`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.lerp(a, b, share)`; `tensor.is_floating_point()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A state dict holds the weights themselves. `before[name] += ...` changes the model, and an entry that you return
# without copying it changes with the model.
# </details>


# %%
predict("9.S1", "b", a="half of either", b="most of either", c="little of either")


# %% stretch="9.S1"
def between(before, after, share):
    """The state dict between two of one model, (1 - share) times before plus share times after.

    Args:
        before, after: dicts of tensors by name, on one device. Neither is changed.
        share: any number; with 1 all is as in after.

    Returns:
        a dict with the names, shapes and dtypes of after, of tensors of their own: nothing moves with before or after.
        What before does not have under this name and in this shape, or is not a floating-point tensor, is as in after.
    """
    ### BEGIN SOLUTION
    found = {}
    for name, new in after.items():
        old = before.get(name)
        if old is None or old.shape != new.shape or not new.is_floating_point():
            found[name] = new.clone()
        else:
            found[name] = (1 - share) * old + share * new
    return found
    ### END SOLUTION


# %% check="9.S1"
checks.between(between)

# %% tags=["experiment"]
torch.manual_seed(0)
x, (first, other) = torch.randn(1200, 24), torch.linalg.qr(torch.randn(24, 2))[0].T
labels = {"A": (x @ first > 0).long(), "B": (x @ (0.8 * first + 0.6 * other) > 0).long()}
model = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 2))


def after_learning(rows, labels):
    rule = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(300):
        rule.zero_grad()
        F.cross_entropy(model(x[rows]), labels[rows]).backward()
        rule.step()
    return {name: weight.clone() for name, weight in model.state_dict().items()}


# %% tags=["experiment"]
knows_a = after_learning(slice(400), labels["A"])
knows_b = after_learning(slice(400, 440), labels["B"])
ways, lines = [k / 10 for k in range(11)], {"A": [], "B": []}
for share in ways:
    model.load_state_dict(between(knows_a, knows_b, share))
    for task, line in lines.items():
        line.append((model(x[600:]).argmax(-1) == labels[task][600:]).float().mean().item())
print({task: [round(line[k], 2) for k in (0, 5, 10)] for task, line in lines.items()})

# %% tags=["experiment"]
alt = "Accuracy at A and B over the share of the weights after B was learned: A falls late, and B rises early."
plots.curves(lines, x=ways, xlabel="share of the weights after", ylabel="accuracy", alt=alt)

# %% [markdown]
# Half way, the model has most of the gain at B, and less than half of the loss at A: neither curve is a straight line.
# It costs nothing to look at every share, and old examples are needed only to measure. Here the second model began
# where the first one ended. Between two models that were trained separately there may be nothing useful.
