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
# # 4. Swapping heads
#
# A language model has read a lot and can do one thing: guess the next word. Few people need that guess. They need a
# decision: is this review friendly? Which library does this sentence come from?
#
# So you cut the model in two. The **base** turns tokens into states and keeps what it has learned. The **head**, which
# turned states into words, is replaced by one that chooses a class. Then you measure, over several seeds, how much the
# pretraining helps.
#
# Each exercise is checked on the spot and stands on its own. They take about two and a half hours and need no GPU; the
# experiment takes seconds on a CPU. Grading asks more than the checks here: other sizes, seeds and edge cases that the
# docstrings name. Your code must never change its arguments, unless the exercise says so. Its results must be new
# objects: writing into one changes no later result. A call must not change torch's default dtype (float32) or device,
# nor whether gradients are recorded. It may change the global random generators only by drawing from them, and only if
# the exercise draws. "The original lab" is the university exercise from which this notebook grew.

# %% tags=["setup"]

# %%
import copy

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.checks import nb04_head_swapping as checks
from utils.experiments import lab, profiles, training, transfer
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable
from utils.grading import toys
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# ## 4.1 A head without opinions
#
# The head of a classifier is plain: dropout, then one linear map from the width of the
# base to the number of classes.
#
# $$\mathrm{logits} = W\, \mathrm{drop}(\mathrm{state}) + b.$$
#
# A new head knows nothing, and should say so. With random weights, it would prefer some classes before it has seen an
# example. Start $W$ and $b$ at zero: every class gets the same logit.
#
# **Predict first.** A fresh head with $C$ classes: what is its cross-entropy? And if $W$
# is zero, does any gradient reach it?
#
# **Exercise 4.1** (2 points, about 10 minutes, easy). Write `ClassificationHead`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.zeros_` fills a parameter in place.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Dropout after the linear map switches whole classes off. It belongs before.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# in `__init__`: make a dropout and a linear layer, and set its weight and bias to zero; in `forward`:
# linear(dropout(states)).
# </details>


# %%
predict("4.1", "b", a="0, and yes", b="log C, and yes", c="log C, and no")


# %% exercise="4.1"
class ClassificationHead(nn.Module):
    """States (..., d_model) -> logits (..., n_classes), all zero as long as the head is fresh.

    Parts: `linear` (nn.Linear with bias). In training, dropout with probability `dropout` < 1 acts on its input, on
    each number by itself. Any number of leading dimensions; the logits have the type and the device of states
    and head.
    """

    def __init__(self, d_model, n_classes, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(d_model, n_classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        ### END SOLUTION

    def forward(self, states):  # (..., d_model) -> (..., n_classes)
        ### BEGIN SOLUTION
        return self.linear(self.dropout(states))
        ### END SOLUTION


# %% check="4.1"
checks.classification_head(ClassificationHead)

# %%
for n_classes in (2, 7, 1000):
    head = ClassificationHead(64, n_classes)
    loss = F.cross_entropy(head(torch.randn(32, 64)), torch.arange(32) % n_classes)
    loss.backward()
    slope = head.linear.weight.grad.norm()
    print(f"{n_classes} classes: loss {loss:.3f}, exp(loss) {loss.exp():.1f}, gradient {slope:.3f}")

# %% [markdown]
# The loss is $\log C$, the price of not knowing. The gradient is the errors times the states and does not depend on the
# weights. After one step, the head no longer gives all classes the same logit.
#
# **Play.** Let the weights start larger than 0. What does the first loss cost, and who decides which class wins?


# %%
def first_opinions(weights_of_size, seed):
    torch.manual_seed(seed)
    head = ClassificationHead(64, 5).eval()
    with torch.no_grad():
        head.linear.weight.normal_(std=weights_of_size)
        shares = head(torch.randn(300, 64)).softmax(-1)
    loss = -shares.log().mean().item()  # all five labels are equally common
    alt = f"Weights of size {weights_of_size}: the mean probability of five classes before training; loss {loss:.2f}."
    found = plots.bars({"": [*shares[0].tolist()]}, labels=[*"ABCDE"], ylabel="probability for one text", alt=alt)
    found.axes[0].set(ylim=(0, 1), title=f"first loss {loss:.2f}; log 5 = 1.61")
    return found


interactive(first_opinions, weights_of_size=[0.0, 0.02, 0.1, 0.3, 1.0], seed=range(1, 5))

# %% [markdown]
# ## 4.2 Base and head
#
# A language model applies its head to every state. A classifier first **pools**: it combines the states of a whole text
# into one.
#
# $$\mathrm{logits} = \mathrm{head}(\mathrm{pool}(\mathrm{base}(\mathrm{tokens}, \mathrm{mask}), \mathrm{mask})).$$
#
# The mask is true at real tokens and false at padding; base and pool both need it. The base is **shared**, not copied:
# a second model with the same base costs only one more head.
#
# **Predict first.** Two classifiers share a base. You train one, base and all. Do the other one's predictions change?
#
# **Exercise 4.2** (2 points, about 15 minutes, easy). Write `Model`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# None: modules that are assigned to `self` are registered; functions become plain attributes.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A pool that is called without the mask cannot know which tokens are padding, and raises no error.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# states = base(tokens, mask); if there is a pool, states = pool(states, mask); return
# head(states).
# </details>


# %%
predict("4.2", "a", a="yes", b="no", c="only if its head is trained too")


# %% exercise="4.2"
class Model(nn.Module):
    """A base and a head; with a `pool` between them, a classifier.

    Parts: `base(tokens, mask)`, with tokens (B, T) and mask (B, T), gives states (B, T, d_model);
    `head`, states to logits; `pool`, None or a function: `pool(states, mask)` gives (B, d_model). The arguments of
    base and pool have these names. If the pool is a module, it is a part too. What torch lets one assign to a part
    later (`pool` may also become None) is used from then on. Nothing is kept from one call to the next.
    """

    def __init__(self, base, head, pool=None):
        super().__init__()
        ### BEGIN SOLUTION
        self.base, self.head, self.pool = base, head, pool
        ### END SOLUTION

    def forward(self, tokens, mask):  # (B, T), (B, T) -> (B, T, V) or (B, C)
        """Logits: (B, T, V) without a pool, (B, C) with one. The mask is true at real tokens."""
        ### BEGIN SOLUTION
        states = self.base(tokens, mask)
        if self.pool is not None:
            states = self.pool(states, mask)
        return self.head(states)
        ### END SOLUTION


# %% check="4.2"
checks.model(Model)

# %%
# `toys` has tiny modules for trying things out: this base turns tokens into states.
base = toys.Reader(vocab_size=1000, d_model=16)
tokens, mask = torch.randint(1000, (2, 5)), torch.ones(2, 5, dtype=torch.bool)
writer, judge = Model(base, nn.Linear(16, 1000)), Model(base, nn.Linear(16, 2), pool=toys.total)
for name, model in {"language model": writer, "classifier": judge}.items():
    count = sum(part.numel() for part in model.head.parameters())
    print(f"{name}: logits {tuple(model(tokens, mask).shape)}, {count} parameters in the head")

# %% [markdown]
# A vocabulary needs a large head, a few classes a tiny one. And yes: training a shared base changes the predictions of
# every model that uses it.

# %% [markdown]
# ## 4.3 Take the base, leave the head
#
# A checkpoint is a dict from names to weights of the whole old model:
# `base.embedding.weight`, ..., `head.weight`. You want what begins with `base.`.
#
# Torch has a switch for that, `strict=False`, and it is a trap: if the prefix differs, *nothing* is loaded, and no
# error is raised. So look before you load, and refuse anything whose name or shape does not match. Copy the values: the
# base keeps its own parameters, their type, and whether they learn.
#
# **Predict first.** Not one weight was loaded. What does the loss of the first epoch show?
#
# **Exercise 4.3** (3 points, about 30 minutes, hard). Write `load_base`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `base.state_dict()` has the names and shapes that are needed; `str.removeprefix` takes a
# prefix off once.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `str.lstrip("base.")` removes *letters*: it turns `base.embedding.weight` into `mbedding.weight`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# own = the base's state dict; offered = the names after `base.`; fits = those of offered
# whose name is in own, with the same shape; missing = own without fits; unexpected =
# offered without fits; if there are any and strict, raise; load own updated by fits.
# </details>


# %%
predict("4.3", "c", a="it is NaN", b="it is far above that of a new model", c="it is that of any new model")


# %% exercise="4.3"
def load_base(base, state, strict=True):
    """Load into `base` what is named `base.*` in `state`, the state dict of a whole model; leave the rest.

    Returns:
        a dict of three sorted lists of names, without the prefix `base.`:
        `missing`: names in the base's state dict that got no value;
        `unexpected`: weights named `base.*` that were not used, for their name or their shape;
        and `left`: all names of `state` that do not begin with `base.`, as they are.

    Raises:
        ValueError: something is missing or unexpected; names each. The base is as it was. Not
            raised with `strict=False`: then whatever fits is loaded.
    """
    ### BEGIN SOLUTION
    own, prefix = base.state_dict(), "base."
    offered = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    fits = {name: value for name, value in offered.items() if name in own and own[name].shape == value.shape}
    missing, unexpected = sorted(own.keys() - fits.keys()), sorted(offered.keys() - fits.keys())
    if strict and (missing or unexpected):
        raise ValueError(f"missing: {missing}, unexpected: {unexpected}")
    base.load_state_dict(own | fits)
    left = sorted(name for name in state if not name.startswith(prefix))
    return {"missing": missing, "unexpected": unexpected, "left": left}
    ### END SOLUTION


# %% check="4.3"
checks.load_base(load_base)

# %%
old = nn.ModuleDict({"base": toys.Reader(50, 8), "head": nn.Linear(8, 50)})
print(load_base(toys.Reader(50, 8), old.state_dict()))
renamed = {f"model.{name}": value for name, value in old.state_dict().items()}
print(load_base(toys.Reader(50, 8), renamed, strict=False))

# %% [markdown]
# A few characters in front of every name, and not one weight was loaded. The loss of the first epoch would look like
# that of any new model: you would notice nothing and lose a day.

# %% [markdown]
# ## 4.4 The last real token
#
# Reading from left to right, only the last token has seen the whole text. In a batch, the last *position* of a short
# text is padding. But a text's prediction must not depend on the other texts in its batch. If row $i$ has its last real
# token at $t_i$,
#
# $$\mathrm{pool}(S)_i = S_{i,\,t_i}.$$
#
# Padding may be on the right, on the left or in between. The states there are arbitrary; they may even be NaN.
#
# **Predict first.** A classifier reads the last position. A text is classified alone, then next to a longer one, then
# next to a shorter one. Which prediction can differ?
#
# **Exercise 4.4** (3 points, about 20 minutes, medium). Write `last_real`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.arange` numbers the positions. `Tensor.argmax` or `Tensor.amax` over numbers that are
# larger further right, and zero at padding, finds the last.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `mask.sum(dim=1) - 1` is right only if the padding is on the right.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# if a row of the mask has no true, raise; positions = 1 ... T, times the mask; last = argmax
# of each row; return states[row, last of that row].
# </details>


# %%
predict("4.4", "b", a="none", b="next to the longer one", c="next to the shorter one")


# %% exercise="4.4"
def last_real(states, mask):  # (B, T, d), (B, T) -> (B, d)
    """The state of the last real token of each row.

    Args:
        states: (B, T, d), of any floating type and order in memory. What stands at padding must not matter, even NaN.
        mask: (B, T), true (or 1, a number) at real tokens; padding may be on either side, on both, and in between.

    Returns:
        A new tensor (B, d), of the type and on the device of `states`; gradients reach the states that were picked.

    Raises:
        ValueError: a row has no real token.
    """
    ### BEGIN SOLUTION
    if not mask.any(dim=1).all():
        raise ValueError("a row has no real token")
    positions = torch.arange(1, mask.size(1) + 1, device=mask.device)
    last = (mask * positions).argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]
    ### END SOLUTION


# %% check="4.4"
checks.last_real(last_real)

# %%
torch.manual_seed(2)
base, head, text = toys.Reader(20, 8), nn.Linear(8, 1), torch.randint(1, 20, (1, 9))
drift = {"last position": [], "last real token": []}
for pads in range(13):
    tokens, mask = F.pad(text, (0, pads)), F.pad(torch.ones_like(text), (0, pads))
    states = base(tokens)  # reads padding too
    drift["last position"].append(head(states[:, -1]).item())
    drift["last real token"].append(head(last_real(states, mask)).item())
alt = "Two lines: the logit at the last position drifts with the padding, that at the last real token is flat."
plots.curves(drift, x=range(13), xlabel="padding after the text", ylabel="logit", alt=alt)

# %% [markdown]
# The prediction at the last position changes with every pad, and so with the length of the longest text in the batch.
# The original lab takes `output[-1]`: its accuracy depends on the batches.

# %% [markdown]
# ## 4.5 From examples to a batch
#
# Examples are token numbers with a label; a batch is three tensors: tokens, mask, labels. Rows are padded on the right,
# up to the length of the longest.
#
# The mask comes from the **lengths**. `tokens != pad_id` is wrong as soon as the padding number occurs in texts, and it
# does: many tokenizers use the token that ends a text as padding.
#
# **Predict first.** Texts longer than `max_len` lose their end. Which end of a film review would you rather lose?
#
# **Exercise 4.5** (2 points, about 20 minutes, medium). Write `collate`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.full` makes a tensor of one value, and `tokens[i, :n] = ...` fills part of a row.
# `nn.utils.rnn.pad_sequence` pads tensors of different lengths.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `numbers += [pad_id] * k` changes the example itself: in the next epoch it is longer.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# rows = each list up to max_len; T = the longest; tokens full of pad_id, mask full of
# false; for each row of n numbers, write both up to n.
# </details>


# %% exercise="4.5"
def collate(examples, pad_id, max_len=None):
    """Make a batch of `examples`, a list of (token numbers, label), which stay as they are.

    Args:
        pad_id: fills short rows, on the right; all of it if a text has no tokens. It may be a real token too.
        max_len: rows lose what is beyond; None keeps all.

    Returns:
        tokens, int64 (B, T), T that of the longest row left; mask, bool (B, T); labels, int64 (B,).
    """
    ### BEGIN SOLUTION
    rows = [torch.tensor(numbers[:max_len], dtype=torch.int64) for numbers, _ in examples]
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(tokens.size(1)) < lengths.unsqueeze(1)
    return tokens, mask, torch.tensor([label for _, label in examples])
    ### END SOLUTION


# %% check="4.5"
checks.collate(collate)

# %%
lengths = torch.randint(3, 40, (24,), generator=torch.Generator().manual_seed(1)).tolist()
some = [([5] * length, 0) for length in lengths]
_, mixed, _ = collate(some[:8], pad_id=0)
_, alike, _ = collate(sorted(some, key=lambda example: len(example[0]))[8:16], pad_id=0)
short = F.pad(alike.float(), (0, mixed.size(1) - alike.size(1)), value=torch.nan)  # where no column is, no colour
print(f"{mixed.float().mean():.0%} real tokens in a mixed batch, {alike.float().mean():.0%} among neighbours in length")
plots.heatmaps(
    {"eight texts as they come": mixed, "eight neighbours in length": short},
    xlabel="position",
    ylabel="text",
    alt="Two masks on one scale. In the mixed batch much is padding; among texts of similar length little is.",
)

# %% [markdown]
# Padding is dark. It costs as much time as text, so put texts of similar length together. A review tends to give its
# opinion at the end. Remember that when long reviews do worse.

# %% [markdown]
# ## 4.6 Select on validation, test once
#
# Every epoch gives a different model. Do not report the one that is best on the test set: the best of many tries was
# also lucky. Train on one set, choose the epoch on a second, and use the third once, with the chosen weights:
#
# $$e^* = \arg\max_e \mathrm{acc}_{valid}(e), \qquad \mathrm{report}\ \mathrm{acc}_{test}(e^*).$$
#
# **Predict first.** Fifty models toss coins on a hundred test examples. How good does
# the best of them look?
#
# **Exercise 4.6** (3 points, about 25 minutes, medium). Write `accuracy` and `select`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `copy.deepcopy(model.state_dict())`, later `model.load_state_dict(...)`. `torch.no_grad()`
# also works as a decorator.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `state_dict()` holds the weights themselves, not a copy. As training continues, the "best" weights change with it.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# repeat: train an epoch, append its validation accuracy, and if it is larger than all before,
# remember epoch and weights. Put the weights back, test, report.
# </details>


# %%
predict("4.6", "b", a="right half of the time", b="right about six times in ten", c="right about eight times in ten")


# %% exercise="4.6"
@torch.no_grad()
def accuracy(model, batches):
    """The share of examples, a float from 0 to 1, whose largest logit is that of their label.

    `batches` is any iterable of (tokens, mask, labels), where the model is; `model(tokens, mask)` gives logits (B, C).
    All parts of the model are in one mode. It is judged in evaluation mode, without gradients, and left in the mode
    that it was in.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    hits = [model(tokens, mask).argmax(dim=-1) == labels for tokens, mask, labels in batches]
    model.train(was_training)
    return torch.cat(hits).float().mean().item()
    ### END SOLUTION


def select(model, train_epoch, evaluate, epochs):
    """Train, copy the weights of the epoch that is best on validation back into the model, and test them once.

    `train_epoch(model)` trains for one epoch; `evaluate(model, split)`, split "valid" or "test", gives 0 to 1.

    Returns:
        a dict: `curve`, the validation accuracy after each of all `epochs`, a list; `epoch`, the best, counted
        from 1, the earliest if several are equal; `test`, the test accuracy of its weights.
    """
    ### BEGIN SOLUTION
    curve, best = [], None
    for epoch in range(1, epochs + 1):
        train_epoch(model)
        curve.append(evaluate(model, "valid"))
        if best is None or curve[-1] > curve[best[0] - 1]:
            best = epoch, copy.deepcopy(model.state_dict())
    model.load_state_dict(best[1])
    return {"curve": curve, "epoch": best[0], "test": evaluate(model, "test")}
    ### END SOLUTION


# %% check="4.6"
checks.select(accuracy, select)

# %%
coins = torch.rand(2, 500, 50, 100, generator=torch.Generator().manual_seed(0)) < 0.5
valid, test = coins.float().mean(-1)  # 500 times, 50 models on 100 examples, twice
chosen = valid.argmax(1, keepdim=True)
print(f"best of 50 on the test itself: {test.amax(1).mean():.3f}")
print(f"chosen on validation, its validation accuracy: {valid.amax(1).mean():.3f}")
print(f"chosen on validation, its test accuracy: {test.gather(1, chosen).mean():.3f}")

# %% [markdown]
# Coins know nothing, yet the best of them looks as if it knew something. Only the last line tells the truth, because
# the choice never saw the test. The validation accuracy of the chosen model is too high as well, because it was used to
# choose.

# %% [markdown]
# ## 4.7 Freeze and probe
#
# How much does the base already know? Freeze it and train the head alone: a **linear
# probe**. A frozen base gives the same state for the same text in every epoch, so compute
# all states **once**. Epochs that took minutes take milliseconds.
#
# Optimizers skip a parameter whose `grad` is None. One whose gradient is zero still moves, by
# weight decay and momentum.
#
# **Predict first.** What share of a model with 135 million parameters does a probe train?
#
# **Exercise 4.7** (3 points, about 20 minutes, medium). Write `freeze`, `unfreeze` and `features`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `parameter.requires_grad`, for every parameter in `part.parameters()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `part.requires_grad = False` is legal Python and does nothing: it gives the *module* an
# attribute that nobody reads.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# freeze: set `requires_grad` of each parameter to False and its gradient to None. features: evaluation mode; no
# gradients; for each batch pool(base(tokens, mask), mask); join all.
# </details>


# %%
predict("4.7", "a", a="less than a hundredth of a percent", b="about 1 percent", c="about 10 percent")


# %% exercise="4.7"
def freeze(part):
    """From now on no optimizer moves the parameters of `part`, at any depth, not even by gradients left from before."""
    ### BEGIN SOLUTION
    for parameter in part.parameters():
        parameter.requires_grad = False
        parameter.grad = None
    ### END SOLUTION


def unfreeze(part):
    """Let all parameters of `part`, at any depth, learn, however they were frozen.

    Those that learn already keep their gradients.
    """
    ### BEGIN SOLUTION
    for parameter in part.parameters():
        parameter.requires_grad = True
    ### END SOLUTION


@torch.no_grad()
def features(base, pool, batches):
    """The pooled states of all examples, (N, d), and their labels, (N,), in the order of the batches.

    `batches` is any iterable of (tokens, mask, labels), of different lengths T. The base works in evaluation mode,
    in which it may stay, and without gradients. A head can be trained on what comes out: new tensors, the features
    of the type and on the device of the states.
    """
    ### BEGIN SOLUTION
    base.eval()
    pooled = [(pool(base(tokens, mask), mask), labels) for tokens, mask, labels in batches]
    states, labels = zip(*pooled, strict=True)
    return torch.cat(states), torch.cat(labels)
    ### END SOLUTION


# %% check="4.7"
checks.freeze(freeze, unfreeze, features)


# %%
def trainable(model):
    return sum(part.numel() for part in model.parameters() if part.requires_grad)


probe = nn.ModuleDict({"base": toys.Reader(5000, 64), "head": nn.Linear(64, 2)})
print(f"{trainable(probe):,} parameters learn")
freeze(probe["base"])
print(f"{trainable(probe):,} with the base frozen")
unfreeze(probe["base"])
print(f"{trainable(probe):,} after unfreezing")

# %% [markdown]
# A probe trains a tiny part of the model and leaves the base as it is: if no linear map of these states separates the
# classes, the probe cannot either.

# %% [markdown]
# ## Experiment: what was the reading worth?
#
# Two **arms**, one architecture. *Pretrained* loads a checkpoint, *scratch* keeps its random initial weights.
# Everything else is the same: head, examples, epochs, selection.
#
# `COURSE_PROFILE` decides the size. `cpu` is a probe: the base is SmolLM2, a model with 135 million parameters that
# comes as a package (`data/smollm.py` says how), frozen; the task is to say which of seven libraries a sentence of
# documentation comes from, with the names taken out. `gpu` trains all of the original lab's model on French book
# reviews. `smoke` only shows that everything runs: its "checkpoint" is random too, so there is no effect to find.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged language model -->

# %% tags=["experiment"]
device, size = profiles.device(), transfer.size()
source, task = transfer.source(size.source), transfer.task(size)
print(f"{profiles.name()} on {device}: {source.name}, width {source.width}; {task.name}, {len(task.classes)} classes")
print({split: len(found) for split, found in task.splits.items()}, f"most frequent class {task.majority():.3f}")
for text, label in task.splits["train"][:3]:
    print(f"{task.classes[label]:>12}: {text[:90]}")


# %% tags=["experiment"]
def base_of(arm, seed):
    base = source.fresh(seed)
    if arm == "pretrained":
        load_base(base, source.state)
    return base.to(device)


report = load_base(source.fresh(0), source.state)
count = sum(part.numel() for part in source.fresh(0).parameters())
print(f"{count:,} parameters in the base; left behind: {report['left']}")

# %% [markdown]
# Texts become token numbers. If the base is frozen, its states are computed here, once for each base. That takes
# minutes. After that, an epoch takes milliseconds.


# %% tags=["experiment"]
def join_tokens(examples):
    return collate(examples, source.pad_id, size.max_len)


numbers = {split: [(source.encode(text), label) for text, label in found] for split, found in task.splits.items()}


# %% tags=["experiment"]
def states_of(arm, seed):
    base = base_of(arm, seed)
    freeze(base)
    pooled = {}
    for split, found in numbers.items():
        batches = transfer.batches(found, join_tokens, 32, device)
        pooled[split] = transfer.states_of(features, base, last_real, batches, f"{arm} {seed}, {split}")
    return transfer.standardised(pooled)


if size.frozen:
    networks = {"pretrained": 1, "scratch": size.networks}
    states = {arm: [states_of(arm, seed) for seed in range(count)] for arm, count in networks.items()}


# %% tags=["experiment"]
def learn(arm, count, seed):
    """One run: a fresh head, `count` training examples; what `select` reports, and the lesson it was given."""
    training.seed_everything(seed)
    head = ClassificationHead(source.width, len(task.classes))
    if size.frozen:
        model, join = Model(transfer.Given(), head), transfer.stack
        data = states[arm][seed % len(states[arm])]
    else:
        model, join, data = Model(base_of(arm, seed), head, last_real), join_tokens, numbers
    lesson = transfer.Lesson(data, join, count, seed, size, device)
    return select(model.to(device), lesson.train, lesson.judge(accuracy), size.epochs), lesson


# %% tags=["experiment"]
experiments = transfer.experiments("04_head_swapping", learn=learn)
seeds = range(1, profiles.pick(smoke=4, cpu=6, gpu=6))
runs = {name: run_seeds(experiment, seeds, None) for name, experiment in experiments.items()}
SeedTable(runs)

# %% tags=["experiment"]
print(*SeedTable(runs).compared(transfer.pairs(runs)), sep="\n\n")
print("epoch chosen, the median over seeds:", transfer.best_epochs(runs))

# %% [markdown]
# Each interval in the table is over the seeds. They differ in which examples were drawn, in their order, in
# dropout, and for *scratch* in the random weights. The sentences below it claim a difference only if it would
# hold for other seeds and other test examples too; the next notebook takes their rule apart.
#
# The last line is the epoch that was chosen. All
# runs have as many epochs, so fewer examples also means fewer steps. Where the best epoch is the last, or
# nearly, accuracy was still rising: more epochs would have helped this arm, and its row shows too little of it.

# %% tags=["experiment"]
counts = transfer.counts_of(runs)
lines, bands = transfer.curves(runs, counts[-1])
alt = "Validation accuracy by epoch for a pretrained and a random base, each with a band over seeds."
plots.curves(lines, bands=bands, xlabel="epoch", ylabel="validation accuracy, %", alt=alt)

# %% tags=["experiment"]
lines, bands = transfer.learning(runs)
lines["most frequent class"] = [100 * task.majority()] * len(counts)
alt = "Test accuracy against training examples, pretrained and scratch, with bands over seeds."
plots.curves(lines, bands=bands, x=counts, xlabel="training examples", ylabel="test accuracy, %", alt=alt)

# %% [markdown]
# Below are the same measurements, recorded with the profile `cpu` and the course's solution, on
# three tasks: libraries, opinions on films in English, and opinions on books in French. Yours
# should come close, up to seeds and versions. Before you look: the base read mostly
# English. What do you expect in French?

# %% tags=["experiment"]
recorded = {name: transfer.recorded(name) for name in transfer.TASKS}
for name, known in recorded.items():
    print(f"{name}\n{SeedTable(known)}\nepoch chosen: {transfer.best_epochs(known)}", end="\n\n")
    print(*SeedTable(known).compared(transfer.pairs(known)), sep="\n\n", end="\n\n\n")

# %% tags=["experiment"]
known = recorded[task.name]
lines, bands = transfer.learning(known, ", recorded")
if transfer.counts_of(known) == counts:
    lines |= transfer.learning(runs, ", here")[0]
alt = "Test accuracy against training examples, pretrained and scratch, as recorded and as measured here."
told = f"test accuracy, %, {task.name}"
plots.curves(lines, bands=bands, x=transfer.counts_of(known), xlabel="training examples", ylabel=told, alt=alt)


# %% [markdown]
# In the recorded French reviews no difference is shown, and neither arm is clearly better than
# naming the most frequent class. That is a result, not a failure. This base read mostly
# English, and it sees only the beginning of a review: you can test which of the two matters.
#
# Three cautions. This base was tuned to follow instructions after it was pretrained, and is stored in four bits: it is
# a real model, but not a clean example of one. A probe measures only what a linear map can read from the states; random
# weights could still catch up if they were trained, as the profile `gpu` does. And in the recorded film reviews, with a
# hundred examples, the pretrained arm was still rising in the last epoch: part of the gain from more examples may come
# from more steps.

# %% [markdown]
# ### The lab's curves
#
# The lab trained all weights of both arms, for 15 epochs. Here is that experiment at a size that needs no checkpoint:
# the causal model of notebook 01 (four layers of width 200) was pretrained on documentation. Then its head was swapped,
# and the whole model learned to judge sentences from film reviews. *Scratch* starts from random weights. In a third arm
# only the word embeddings are pretrained. The runs came with the course, with each arm's best of three rates; the
# accuracy after every epoch is that on the test, and no epoch is chosen.

# %% tags=["experiment"]
curves = lab.recorded()
alt = "Recorded test accuracy over 15 epochs, in bands: pretrained, from scratch, and with pretrained embeddings alone."
lab.picture(curves, alt)

# %% tags=["experiment"]
print(SeedTable(curves), *SeedTable(curves).compared(lab.questions()), sep="\n\n")

# %% [markdown]
# All three memorise their reviews and end at about three right answers in five. The pretrained model is not shown to be
# ahead of scratch: it is behind, and the interval leaves no room for a gain. So the lab's gap is not found here.
# Pretraining as such does not help. SmolLM2, with only a linear map on its states, is far ahead of its random copy on
# the same kind of reviews. It read trillions of tokens of all kinds, and this model fifty thousand sentences about
# arrays and functions. These runs do not show whether the amount or the kind of text was missing: another model,
# pretrained on as few sentences about films, would.
#
# **Question 4.W1** (2 points). In four to eight sentences: why does the head have to change when a
# language model becomes a classifier? Compare the two objectives: what is predicted, at how many
# positions, and who provides the labels?

# %% [markdown] written="4.W1" points=2
# ### BEGIN SOLUTION
# The head decides which question is answered. The head of a language model maps each state to one logit for every word
# of the vocabulary; a classifier needs one logit for each class and one answer for the whole text. Shape and meaning
# both differ, so the old head cannot be kept, while the base, which turns tokens into states, is useful for both
# questions. The language model is trained to predict the next token, at every position of every sentence. The labels
# are the text itself, so nobody has to write them, and any text will do. The classifier is trained to predict one label
# per text, from the pooled state. Each label was made by a person, so there are few, and one text gives one error
# signal instead of one per token.
# === BEGIN MARK SCHEME ===
# One point: the head maps states to the wrong set of outputs (vocabulary instead of classes, and one row per token
# instead of one per text), while the base's states are of use to both.
# One point: the objectives compared in at least two of the three: what is predicted (next token or class), at how many
# positions (each token or once per text), where labels come from (the text itself or people).
# Half a point off if the answer says that the base has to be replaced too.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 4.W2** (2 points). Read your own table and curves (in the profile `smoke`: the recorded
# ones). How large is the gap, and how does it compare with the spread over seeds? How does it change with
# the number of examples? Name one thing that the gap cannot be blamed on, and one that it may come from.

# %% [markdown] written="4.W2" points=2
# ### BEGIN SOLUTION
# For each number of examples I compare the difference of the means with the ranges over seeds. Where the bands are
# apart and every seed has the same sign, the gap is real for this task and these sizes; where they overlap, I do not
# claim one. The test set is the same for all seeds. So the bands do not contain its sampling error, about the square
# root of p(1-p)/n for n test examples. Both arms gain from more examples. The pretrained base starts higher, since it
# already has the features that the head needs. With a frozen random base, more labels help only as far as random
# features go. Part of the gain may be due to more steps: where the best epoch is the last, training on the few examples
# had not finished. The gap cannot come from architecture, head, number of epochs, selection or test set: they are the
# same. It might come from something other than language modelling as such: the texts this base was pretrained on may
# contain the documentation itself, and it was tuned on instructions afterwards.
# === BEGIN MARK SCHEME ===
# One point: the gap is read from the student's (or the recorded) numbers, with the spread over seeds beside it, and
# the conclusion fits: no difference claimed where bands overlap or seeds disagree.
# One point: the change with the number of examples, as their numbers show it, and both a cause excluded by the
# design (same architecture, head, examples, epochs, selection, test) and a possible one that is not (overlap of
# pretraining text and task, instruction tuning, size of the test set, a probe instead of full training).
# No point for a gap without a spread. The size of the gap itself is not marked.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 4.W3** (2 points). Name one limitation of reading from left to right that a classifier feels. What
# does masked language modelling do about it, and what is the price?

# %% [markdown] written="4.W3" points=2
# ### BEGIN SOLUTION
# In a left-to-right model, the state of a token knows only what came before it. In "the plot is not bad at all", the
# state of "bad" is made without its right-hand context, and only the last token has seen the text, so this one state
# has to hold everything. Masked language modelling hides some of the tokens and predicts them from both sides, without
# a causal mask, so that every state can use the whole text. The price: such a model cannot write, since it never
# learned to continue a text that has no right side yet. Only the hidden tokens (about one in seven) give an error
# signal, so it learns less from each sentence. And the mask token of pretraining never occurs in the task.
# === BEGIN MARK SCHEME ===
# One point: a limitation that follows from the causal mask (no right-hand context; only the last state has seen all),
# and that masked LM predicts hidden tokens from both sides.
# One point: the price, any one that is right: it does not generate text; only the hidden tokens give an error signal,
# so it learns less from each sentence; the mask token of pretraining is absent in the task. Generation need not be
# named.
# === END MARK SCHEME ===
# ### END SOLUTION

# %%
scoreboard(checks)
