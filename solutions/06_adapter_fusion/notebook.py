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
# # 6. Small parts, put together
#
# RTE has few examples. Related tasks have more: MNLI, QNLI and SICK also ask whether one sentence follows from, answers
# or resembles another. But fine-tuning on one after the other overwrites what was learned before.
#
# There is an alternative. Leave BERT as it is and train, for each task, a small **adapter** inside every layer. Then
# let a **fusion** layer decide, token by token, which of them to listen to. You build both from scratch, until they
# compute the same as the library's. Then you combine real adapters, avoid three traps, and measure whether fusion
# helps.
#
# Each exercise is checked on the spot and stands on its own. In grading, private checks ask the same with other sizes,
# numbers, dtypes and models. Your functions return new objects, and change their arguments only where the exercise asks
# for it. A call must not change torch's default dtype (float32) or device, nor whether gradients are recorded. It may
# change the global random generators only by drawing from them, and only if the exercise draws. The exercises take
# about two hours, not counting the written questions and the runs, and need no GPU.

# %% tags=["setup"] needs="adapters"

# %%
import itertools
import statistics

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from scipy import stats
from torch import nn
from torch.nn import functional as F

from utils import block_diagrams, plots, tiny_bert
from utils.checks import nb06_adapter_fusion as checks
from utils.experiments import rte, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 6.7 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 6.1 A bottleneck
#
# An adapter projects each token's state down to a few numbers and back up, and adds the result to a residual
# connection:
#
# $$\mathrm{adapter}(x, h) = h + W_{up}\, \mathrm{relu}(W_{down}\, x + b_{down}) + b_{up}.$$
#
# In the library's `seq_bn`, $x$ is the layer's normed output, and $h$ is the output of the feed-forward part before
# skip and norm. The sum gets skip and norm again. The weights start so small that BERT works nearly as before.
#
# **Predict first.** If *both* matrices started at zero, the model would be exactly BERT. What
# would training do?
#
# **Exercise 6.1** (2 points, about 15 minutes, medium). Write `BottleneckAdapter`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.normal_(weight, std=...)` and `nn.init.zeros_` fill a parameter in place.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `residual or states` evaluates the truth value of a tensor. Test `residual is None` instead. And `residual +=` changes
# the caller's tensor.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# r = d // reduction, at least 1; down: d to r; up: r to d; forward: residual (or states) plus
# up(relu(down(states))).
# </details>


# %%
predict("6.1", "b", a="nothing at all", b="move one shift for all tokens, and nothing else", c="learn as usual")


# %% exercise="6.1"
class BottleneckAdapter(nn.Module):
    """States (..., d) of one token or more, a residual -> residual + up(relu(down(states))).

    The residual has the dtype of the states, and their shape or one that broadcasts to it; without one, the states
    themselves pass by. Parts: `down` and `up`, nn.Linear with bias. The bottleneck is d over `reduction` wide, rounded
    down, and never less than 1. Weights start normal with standard deviation 0.02, biases at zero. The result
    lies where the states lie, in their dtype, and their order in memory does not matter.
    """

    def __init__(self, d, reduction=16):
        super().__init__()
        ### BEGIN SOLUTION
        width = max(1, d // reduction)
        self.down, self.up = nn.Linear(d, width), nn.Linear(width, d)
        for part in (self.down, self.up):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
        ### END SOLUTION

    def forward(self, states, residual=None):
        ### BEGIN SOLUTION
        passing = states if residual is None else residual
        return passing + self.up(self.down(states).relu())
        ### END SOLUTION


# %% check="6.1"
checks.bottleneck_adapter(BottleneckAdapter)

# %% tags=["experiment"]
block_diagrams.show("adapters")

# %%
x = torch.randn(50, 768, generator=torch.Generator().manual_seed(1))
drift = {"as in BERT: 0.02": [], "torch's default": []}
for name, shares in drift.items():
    torch.manual_seed(0)
    now = x
    for _ in range(12):
        adapter = BottleneckAdapter(768)
        if name == "torch's default":
            adapter.apply(lambda part: part.reset_parameters() if isinstance(part, nn.Linear) else None)
        now = adapter(now).detach()
        shares.append(((now - x).norm() / x.norm()).item())
alt = "Two lines over twelve adapters: a state moves by a fifth of its length from BERT's start, by all from torch's."
plots.curves(drift, xlabel="fresh adapters passed", ylabel="change of the state", alt=alt)

# %% [markdown]
# Twelve fresh adapters change a state by about a fifth of its length; with torch's default weights they would change it
# by its whole length. So training starts near BERT, not from a damaged BERT. With both matrices at zero, only the bias
# of `up` would ever learn, one shift for all tokens: the gradient of each matrix has the other as a factor.

# %% [markdown]
# ## 6.2 Train it and nothing else
#
# Adapters are economical because nothing else learns: one BERT serves all tasks. So freeze everything, then let adapter
# and head learn. Gradients must still flow *through* the frozen layers to adapters below them, so `no_grad` is not a
# way to freeze.
#
# $$\theta_{BERT} \leftarrow \theta_{BERT}, \qquad
# \theta_{adapter} \leftarrow \theta_{adapter} - \eta\, \nabla_{\theta_{adapter}} \mathcal{L}.$$
#
# The weights after a step show whether it worked; a flag does not.
#
# **Predict first.** You train an adapter, then choose another one. The optimizer holds all parameters, with weight
# decay. What can still change the first one?
#
# **Exercise 6.2** (2 points, about 15 minutes, medium). Write `train_only`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `parameter.requires_grad`, and `parameter.grad = None` for gradients that are left from earlier steps.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `parameter in list_of_parameters` compares tensors by value. Compare `id(parameter)`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# chosen = each parameter of each part, once; if one is not among the model's, raise; for every
# parameter of the model: it learns if it is chosen, else its gradient is None.
# </details>


# %%
predict("6.2", "b", a="nothing", b="weight decay, if an old gradient is left", c="the gradient of the second one")


# %% exercise="6.2"
def train_only(model, parts):
    """From now on optimizers move the parameters of `parts`, modules within `model`, and nothing else of it.

    What an earlier call chose is frozen again. Gradients left in what does not learn are forgotten, however deep it
    is in the model.

    Returns:
        a list of the parameters that learn, each once: what an optimizer expects.

    Raises:
        ValueError: a part has a parameter that the model does not have. It would never be used.
    """
    ### BEGIN SOLUTION
    chosen = {id(parameter): parameter for part in parts for parameter in part.parameters()}
    every = {id(parameter): parameter for parameter in model.parameters()}
    if not chosen.keys() <= every.keys():
        raise ValueError("a part is not in the model")
    for name, parameter in every.items():
        parameter.requires_grad = name in chosen
        if name not in chosen:
            parameter.grad = None
    return list(chosen.values())
    ### END SOLUTION


# %% check="6.2"
checks.train_only(train_only)

# %%
layers = [nn.Linear(64, 64) for _ in range(6)]
model = nn.Sequential(*layers, nn.Linear(64, 2))
learns = train_only(model, [layers[1], model[-1]])
F.cross_entropy(model(torch.randn(8, 64)), torch.arange(8) % 2).backward()
for name, part in model.named_children():
    slope = "frozen" if part.weight.grad is None else f"gradient {part.weight.grad.norm():.4f}"
    print(f"layer {name}: {slope}")
print(f"{sum(part.numel() for part in learns)} of {sum(part.numel() for part in model.parameters())} numbers learn")

# %% [markdown]
# The gradient reaches layer 1 through four frozen layers. An old gradient, even one of
# zero, lets weight decay go on: that is why it has to be None.

# %% [markdown]
# ## 6.3 Whom to listen to
#
# Fusion is attention over $n$ adapters. At each token, the layer's state $x$ gives the query, and the adapters' outputs
# $a_1, \dots, a_n$, without their residual, give keys and values.
#
# $$w = \mathrm{softmax}_i\big((W_Q x + b_Q) \cdot (W_K a_i + b_K)\big), \qquad
# \mathrm{fusion} = h + \sum_i w_i\, W_V a_i.$$
#
# The scores are not divided by $\sqrt d$. The value matrix starts at the identity, and a penalty
# $0.01\, \lVert W_V - I \rVert^2$ keeps it near: fusion should choose among answers, not rewrite them. Dropout acts on
# the scores, before the softmax.
#
# **Predict first.** What does a fresh fusion of three adapters compute, nearly?
#
# **Exercise 6.3** (3 points, about 25 minutes, hard). Write `AdapterFusion`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.einsum("btd,btnd->btn", query, key)`, or a matrix product after `unsqueeze`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The softmax runs over the adapters, the last axis of the scores, not over tokens.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# scores = query(states) times key(outputs), summed over d; weights = softmax(dropout(scores));
# fused = residual + sum over adapters of weights times value(outputs); return fused, weights.
# </details>


# %%
predict("6.3", "c", a="the mean of the three", b="one of the three", c="the one or the other: it depends on the width")


# %% exercise="6.3"
class AdapterFusion(nn.Module):
    """Attention of each token over the outputs of n adapters.

    Parts: `query` and `key`, nn.Linear (d, d) with bias, whose weights start normal with standard deviation
    0.02 and biases at zero; `value`, nn.Linear (d, d) without bias, which starts at the identity. What `forward` gives
    lies where the inputs and weights lie, in their dtype, and gradients reach all of them.
    """

    def __init__(self, d, n, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.n, self.dropout = n, nn.Dropout(dropout)
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d, bias=False)
        for part in (self.query, self.key):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
        nn.init.eye_(self.value.weight)
        ### END SOLUTION

    def forward(self, states, outputs, residual):  # (B, T, d), (B, T, n, d), (B, T, d) -> (B, T, d), (B, T, n)
        """From (B, T, d), (B, T, n, d), (B, T, d) to fused (B, T, d) and the weights of its sum (B, T, n).

        Another n: ValueError.
        """
        ### BEGIN SOLUTION
        if outputs.size(2) != self.n:
            raise ValueError(f"outputs of {outputs.size(2)} adapters, not of {self.n}")
        scores = torch.einsum("btd,btnd->btn", self.query(states), self.key(outputs))
        weights = self.dropout(scores).softmax(dim=-1)
        return residual + torch.einsum("btn,btnd->btd", weights, self.value(outputs)), weights
        ### END SOLUTION

    def penalty(self):
        """0.01 times the sum of squares of the value matrix minus the identity."""
        ### BEGIN SOLUTION
        weight = self.value.weight
        return 0.01 * (weight - torch.eye(len(weight), device=weight.device)).square().sum()
        ### END SOLUTION


# %% check="6.3"
checks.adapter_fusion(AdapterFusion)

# %%
for d, name in ((16, "narrow"), (64, "wider"), (768, "as BERT")):
    torch.manual_seed(0)
    fusion, states, outputs = AdapterFusion(d, 3).eval(), torch.randn(1, 200, d), torch.randn(1, 200, 3, d)
    fused, weights = fusion(states, outputs, states)
    mean = states + outputs.mean(dim=2)
    largest, off = weights.max(dim=-1).values.mean(), (fused - mean).norm() / mean.norm()
    print(f"{name} ({d}): the largest of three weights is {largest:.2f} on average; {off:.0%} off the plain mean")

# %% [markdown]
# That depends on the width, because a score is a sum of $d$ products. A narrow fresh fusion takes nearly the mean of
# its adapters. One of BERT's width nearly picks a single adapter for each token, at random, if their outputs are as
# large as these. So a strong preference after training need not have been learned: compare it with that of the fresh
# fusion.
#
# **Play.** A fresh fusion of three adapters, token by token. From which width on does it pick rather than mix?


# %%
def listened_to(width, seed):
    torch.manual_seed(seed)
    fusion, states, outputs = AdapterFusion(width, 3).eval(), torch.randn(1, 12, width), torch.randn(1, 12, 3, width)
    with torch.no_grad():
        weights = fusion(states, outputs, states)[1][0]
    alt = f"Width {width}: the weights of three adapters for twelve tokens; the largest is {weights.max():.2f}."
    return plots.heatmaps({f"width {width}": weights.T}, xlabel="token", ylabel="adapter", alt=alt)


interactive(listened_to, width=[8, 16, 32, 64, 128, 256, 512, 768], seed=range(1, 5))

# %% [markdown]
# ## 6.4 Compose the real thing
#
# You know how the parts work; now use the library's. Adapters come as folders, or as names on its hub, each with the
# head of its own task. You want the adapters without their heads, one fusion of all of them, and a new head. Training
# must change the fusion and the head only:
#
# $$\mathrm{Fuse}(\mathrm{mnli}, \mathrm{qnli}, \mathrm{sick}) \rightarrow \mathrm{head}_{rte}.$$
#
# The BERT used here is tiny and has random weights; the same code works with a real one.
#
# **Predict first.** You add the fusion and forget to activate it. What does the model compute? Would the loss show it?
#
# **Exercise 6.4** (3 points, about 20 minutes, medium). Write `compose`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `load_adapter` (its arguments `load_as` and `with_head`), `add_adapter_fusion`,
# `add_classification_head`, `train_adapter_fusion`; all are methods of the model. `Fuse` is in
# `adapters`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `add_adapter_fusion` adds and does not activate. `train_adapter`, without `_fusion`, unfreezes
# the wrong part.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# load each folder under its name, without head; setup = Fuse of the names; add that fusion;
# add the head; train that fusion.
# </details>


# %%
predict(
    "6.4",
    "a",
    a="plain BERT; no, it falls all the same",
    b="plain BERT; yes, it stays where it is",
    c="nothing: an error comes first",
)


# %% exercise="6.4"
def compose(model, folders, head, n_classes=2):
    """Load adapters into `model`, fuse them, add a head, and make it ready to train the two.

    Args:
        model: a `BertAdapterModel` of the adapters library, without adapters and heads.
        folders: name -> folder (or hub name) of one or more adapters. They are fused in this order, under these names.
        head: the name of the new classification head, the library's default one, with n_classes classes.

    Afterwards a forward pass goes through the fusion and this head, which gives each pair one class, and training
    moves nothing else.
    """
    ### BEGIN SOLUTION
    from adapters import Fuse

    for name, folder in folders.items():
        model.load_adapter(folder, load_as=name, with_head=False)
    fusion = Fuse(*folders)
    model.add_adapter_fusion(fusion)
    model.add_classification_head(head, num_labels=n_classes)
    model.train_adapter_fusion(fusion)
    ### END SOLUTION


# %% check="6.4"
checks.compose(compose)

# %%
model = tiny_bert.bert()
compose(model, tiny_bert.publish(["mnli", "qnli", "sick"]), "rte")
counts = {"fusion": 0, "head": 0, "adapters": 0, "BERT": 0}
for name, part in model.named_parameters():
    owner = [
        key for key, mark in {"fusion": "fusion", "head": "heads.", "adapters": ".adapters."}.items() if mark in name
    ]
    counts[owner[0] if owner else "BERT"] += part.numel()
print(counts, "learn:", sum(part.numel() for part in model.parameters() if part.requires_grad))
print(model.active_adapters)

# %% [markdown]
# Without activation the library computes plain BERT and logs a warning, the same as during set-up. The loss still
# falls, because the head learns: you would have measured a probe and called it fusion.

# %% [markdown]
# ## 6.5 Three traps
#
# With each of the three you get a number, and it is wrong. **Token types** tell BERT which sentence is which; the
# library's own fusion notebook drops them. **Leaks**: an adapter trained on the target already holds its answers;
# fusion finds that adapter, and you report its score. **Moving adapters**: if the adapters are trained together with
# the fusion, you measure more than fusion.
#
# $$\mathcal{L} = \text{cross-entropy} + \sum_{layers} 0.01\, \lVert W_V - I \rVert^2.$$
#
# **Predict first.** Which of the three makes accuracy look *better* than it should?
#
# **Exercise 6.5** (3 points, about 25 minutes, hard). Write `pair_logits`, `sources` and `train_fusion`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.train_adapter_fusion(model.active_adapters)`, `model.get_fusion_regularization_loss()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The model's second positional argument is the attention mask, not the token types. Use names.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# train_fusion: freeze all but the fusion and the head; SGD; for each batch: cross-entropy of
# pair_logits, plus the penalty; zero, backward, step; keep the loss as a number.
# </details>


# %%
predict("6.5", "b", a="dropped token types", b="a leak", c="moving adapters")


# %% exercise="6.5"
def pair_logits(model, batch):
    """Logits (B, C) for a dict of `input_ids`, `token_type_ids`, `attention_mask`, each (B, T), and `labels` (B,)."""
    ### BEGIN SOLUTION
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return model(**inputs).logits
    ### END SOLUTION


def sources(adapters, target):
    """The names, in order, of the adapters that never saw `target`, a task; upper or lower case does not matter.

    `adapters` is a dict from each name to the list of tasks that the adapter was trained on.
    ValueError if none is left.
    """
    ### BEGIN SOLUTION
    clean = [name for name, tasks in adapters.items() if target.lower() not in [task.lower() for task in tasks]]
    if not clean:
        raise ValueError(f"every adapter has seen {target}")
    return clean
    ### END SOLUTION


def train_fusion(model, batches, lr):
    """Train the fusion of `model`, which has one, and its head for one epoch of plain SGD; nothing else moves.

    The head is not frozen; all else may be, or may learn. The model or a part of it may be in either mode before and
    after: the adapters library chooses the one for training. Batches may differ in size. Returns a list of each batch's
    loss before its step, a float (not a tensor), penalty included.
    """
    ### BEGIN SOLUTION
    model.train_adapter_fusion(model.active_adapters)
    rule, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for batch in batches:
        loss = F.cross_entropy(pair_logits(model, batch), batch["labels"]) + model.get_fusion_regularization_loss()
        rule.zero_grad()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% check="6.5"
checks.traps(pair_logits, sources, train_fusion)

# %%
model, batch = tiny_bert.fused(["mnli", "qnli", "sick"]).eval(), tiny_bert.pairs(4, [(12, 6)], 29)[0]
swapped = batch | {"token_type_ids": 1 - batch["token_type_ids"]}
print("as it is:       ", pair_logits(model, batch).softmax(-1)[:, 1].tolist())
print("sides exchanged:", pair_logits(model, swapped).softmax(-1)[:, 1].tolist())
print(sources({"mnli": ["MNLI"], "rte": ["RTE"], "qnli": ["QNLI"], "sick": ["SICK"]}, target="RTE"))

# %% [markdown]
# Only the leak makes the result look better, and good results are rarely questioned. Adapters that move may help or
# hurt, but then you no longer measure fusion. If the token types are not passed on, every experiment gets a little
# worse in the same way, so nobody notices.

# %% [markdown]
# ## 6.6 Read the weights
#
# Unlike most parts of BERT, a fusion shows which of its inputs it uses. Average the weights of each layer over tokens,
# separately for the first and the second sentence:
#
# $$\bar w_{l,s,i} = \frac{1}{N_s} \sum_{\text{real tokens } t \text{ of sentence } s} w_{l,t,i}.$$
#
# Padding has token type 0. An average by token type alone counts it as part of the first sentence. In a batch with long
# padding, most of what you average would be weights at padding.
#
# **Predict first.** The weights of a layer sum to one. Does a large weight mean that the adapter
# changes much?
#
# **Exercise 6.6** (2 points, about 20 minutes, hard). Write `fusion_weights`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model(..., output_adapter_fusion_attentions=True)` returns `adapter_fusion_attentions`: by fusion name, layer, and
# place in the layer (`output_adapter`), an array (B, T, n).
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The mean of the means of batches is not the mean over tokens.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# evaluation mode, no gradients; for each batch, layer and sentence: add up the rows of weights
# where type is the sentence and mask is 1, and count them; divide; back to the old mode.
# </details>


# %%
predict("6.6", "b", a="yes", b="no")


# %% exercise="6.6"
@torch.no_grad()
def fusion_weights(model, batches):
    """The mean fusion weights of `model`, a tensor (layers, 2, n): by layer, sentence (0 or 1) and adapter.

    Layers stand in the order of the model, which may have more than ten. Padding may have either token type.

    The mean is over all real tokens of all batches, dicts as in 6.5. One fusion is active. All parts of the model are
    in one mode. It is read in evaluation mode, and left as it was: in the old mode, and with the same gradients.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    sums, counts = 0, 0
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        (layers,) = model(**inputs, output_adapter_fusion_attentions=True).adapter_fusion_attentions.values()
        real, types = batch["attention_mask"].bool(), batch["token_type_ids"]
        arrays = [layers[index]["output_adapter"] for index in sorted(layers)]
        weights = torch.stack([torch.as_tensor(array, device=real.device) for array in arrays])
        places = torch.stack([real & (types == sentence) for sentence in (0, 1)]).float()
        sums = sums + torch.einsum("lbtn,sbt->lsn", weights, places)
        counts = counts + places.sum(dim=(1, 2))
    model.train(was_training)
    return sums / counts[:, None]
    ### END SOLUTION


# %% check="6.6"
checks.fusion_weights(fusion_weights)

# %%
names = ["mnli", "qnli", "sick"]
weights = fusion_weights(tiny_bert.fused(names), tiny_bert.pairs(16, [(14, 6)] * 4, 29))
plots.tables(
    {f"layer {index + 1}": layer for index, layer in enumerate(weights)},
    rows=["first sentence", "second sentence"],
    columns=names,
    alt="One heat map per layer: rows are the two sentences, columns the adapters, each cell a mean fusion weight.",
)

# %% [markdown]
# This BERT is random, and so are its preferences: compare those of a trained fusion with them. And no: a weight says
# how much of an adapter's output is taken, not how large that output is. An adapter whose output is zero can have all
# of the weight.

# %% [markdown]
# ## Experiment: does it pay?
#
# Three **experiments** on RTE with the same seeds: all of a pretrained encoder fine-tuned; one adapter in a frozen
# encoder; a fusion of the MNLI, QNLI and SICK adapters, which are frozen too. `COURSE_PROFILE` decides the size. `gpu`
# takes bert-base-uncased and published adapters from the hub, `cpu` a small packaged encoder and adapters that come
# with the course. Each of these adapters was trained on the pairs of its task that the authors had, of MNLI a
# twentieth; of four rates and two lengths of training, the best by the accuracy on the task's own validation pairs was
# kept. The QNLI pairs are not those of GLUE: the course made them in the same way, of a question and a sentence from
# SQuAD. `smoke` trains the adapters first, on a tiny encoder pretrained on made-up words; it learns to compare pairs of
# them within seconds. Smoke runs show everything that follows, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->
#
# All three have one head, that of 6.4. The runs use your `train_only`, `compose`, `sources` and `pair_logits` under two
# conditions: you have passed their checks in this session, and your functions give the same results as the course's.
# Otherwise the runs use the course's. The adapters and the fusion inside are the library's, which compute the same as
# your 6.1 and 6.3. The training loop is the course's, with AdamW instead of plain SGD, and with the penalty of exercise
# 6.5.
#
# **Predict first.** Which of the three has the best mean, and which the smallest spread over seeds?

# %% tags=["experiment"]
student.use(checks, train_only=train_only, compose=compose, sources=sources, pair_logits=pair_logits)
results = results_folder(say=True)

# %% [markdown]
# ## All runs
#
# Every run writes one file with its prediction for each validation pair. Accuracies are computed from these
# predictions, here and in grading. A file that was edited, renamed or copied is refused, and the message names it; so
# is one with a seed that is not yours (`STUDENT`, at the top).
#
# One core of a CPU needs about 20 minutes for the first experiment, unless its runs are there from notebook 05. The
# fusion takes a third to three fifths more. The adapter, with twice the epochs, was not timed on a core. Interrupt
# whenever you like: finished seeds are kept, and the next call continues with the missing ones.

# %% tags=["experiment"]
runs = {name: run_seeds(one, rte.seeds(), results) for name, one in rte.experiments("06_adapter_fusion").items()}
SeedTable(runs)

# %% [markdown]
# ## 6.7 Ahead in how many pairs?
#
# Two means hide how much two sets of runs overlap. The comparisons below also say in which share of **all pairs** of
# runs, one of each, the second experiment is ahead; a tie counts half. At one half, a single run of each says nothing
# about which is better. At 1 the worst run of one is better than the best run of the other. You write the function that
# computes this share.
#
# **Exercise 6.7** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `share_ahead`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `itertools.product(first, other)`, or a comprehension with two `for`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `zip(first, other)` takes each run once. The two lists need not have the same length.
# </details>


# %% exercise="6.7"
def share_ahead(first, other):
    """The share of all pairs of a run of `first` and a run of `other` in which the first is ahead, from 0 to 1.

    first, other: lists of accuracies, one of each run; neither is empty. A tie counts half.
    """
    ### BEGIN SOLUTION
    return sum((a > b) + (a == b) / 2 for a in first for b in other) / (len(first) * len(other))
    ### END SOLUTION


# %% check="6.7"
checks.share_ahead(share_ahead)

# %% tags=["experiment"]
values = {name: [run.accuracy for run in some] for name, some in runs.items()}
for one, other in itertools.combinations(values, 2):
    print(f"{other} is ahead of {one} in {share_ahead(values[other], values[one]):.0%} of all pairs of your runs")

# %% tags=["experiment"]
SeedTable(runs).plot()

# %% tags=["experiment"]
print(*SeedTable(runs).comparisons(), sep="\n\n")

# %% [markdown]
# The last lines say what is shown and what is not. An interval that holds zero is not proof that
# two experiments are equal; it says that these runs cannot tell.
#
# Here are the recorded runs of the profile `cpu`, and what one student report on these labs found with
# bert-base-uncased. One caution: the small encoder was pretrained on pairs that include those of MultiNLI and SNLI, and
# questions of SQuAD, from which QNLI's pairs were made. So it already knows a part of what these sources could teach
# it, and fusion may gain less here than it would elsewhere.


# %% tags=["experiment"]
def show(runs):
    for name, found in runs.items():
        values = [100 * run.accuracy for run in found]
        loss = statistics.mean(run.curve[-1]["train_loss"] for run in found)
        told = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f} over {len(found)} seeds"
        print(f"{name:>28}: {told}, training loss {loss:.3f}")


recorded = {name: found for name, found in rte.recorded(rte.ADAPTER_FUSION).items() if len(found) > 1}
show(recorded)
print(f"majority {100 * recorded['fusion'][0].majority:.2f}; published, bert-base-uncased: {rte.PUBLISHED}\n")
print(*SeedTable(recorded).comparisons(), sep="\n\n")

# %% [markdown]
# Read the training loss first. Guessing costs $\ln 2 = 0.693$. Fine-tuning and the adapter have learned the training
# pairs nearly by heart; the fusion fits them least, but is the best on the validation pairs. All three differences are
# shown. The adapter had ten epochs and the two others five, as trials with one seed suggested. So their training losses
# are not those of equal training.
#
# So fusion pays, compared with learning from RTE alone. That is not yet a reason to *fuse*: a single source might do as
# well. A fair comparison needs **controls**, each with its own learning rate from the same search. The first is a new
# head alone, on the frozen encoder and on each source adapter in it. The second is an adapter that starts from MNLI's
# and continues to learn. The third is a fusion of three adapters that learned nothing, in case it is the fusion's own
# parameters that help.

# %% tags=["experiment"]
controls = {name: found for name, found in rte.recorded_controls().items() if "pretrained" not in name}
controls = {name: found for name, found in controls.items() if "random" not in name} | {"fusion": recorded["fusion"]}
show(controls)
print(*SeedTable(controls).compared([(name, "fusion") for name in [*controls][:-1]]), sep="\n\n")

# %% [markdown]
# What helps is in the sources: without them, the means of a fusion and of a head are below the majority. All heads read
# the state of `[CLS]`, for which this encoder was not tuned. So a head alone may miss what the encoder knows; a head on
# the mean of the states was not tried. Most of it is in MNLI's, with nothing but a new head on top. Compared with that
# source the fusion is ahead with each of the five seeds, but with so few examples no difference is shown. According to
# the interval, fusing adds at most 7 points, and may cost one.
#
# Does the fusion know which of the three to listen to? These are its weights on the validation pairs, the mean over the
# recorded seeds. A fresh fusion gives each source about a third.

# %% tags=["experiment"]
weights = rte.recorded_weights("fusion")
for name in ("fresh", "trained"):
    print(name, "by source:", torch.tensor(weights[name]).mean((0, 1)).tolist())
plots.tables(
    {f"layer {index + 1}": torch.tensor(layer) for index, layer in enumerate(weights["trained"])},
    rows=["first sentence", "second sentence"],
    columns=[*rte.FUSED],
    alt="One heat map per layer of the recorded fusion: MNLI has most of the weight in the first four layers.",
)

# %% [markdown]
# It listens to MNLI's adapter in the first four layers, which is the source that does best alone, and to all three in
# the last. Nobody told it so: it learned this while training on RTE. Whether from RTE's labels, or because MNLI's
# outputs are larger, a fusion trained on shuffled labels would show. Weights differ from seed to seed, and a weight is
# not a benefit, as you saw in 6.6.
#
# The control for it is a fusion whose weights stay equal: it takes the mean of its sources, and only its value matrices
# and its head learn. Five seeds of it ran on one core. So did five of the usual fusion, with the same random numbers,
# because a GPU draws other dropout. Both have the rate of the fusion; for equal weights it was not searched.

# %% tags=["experiment"]
equal = rte.recorded_equal_fusion()
show(equal)
print(*SeedTable(equal).comparisons(), sep="\n\n")

# %% [markdown]
# The fusion that learns its weights fits the training pairs better, with every seed. On the validation pairs no
# difference is shown. According to the interval, learned weights add at most 4 points, and may cost two. So these runs
# do not show that it pays to know whom to listen to.
#
# A second target: **SICK**, three classes, plain sentences, and only a few of its training pairs, 500. SICK's own
# adapter has seen the target, so your `sources` leaves it out, and the fusion is of MNLI's and QNLI's adapters.

# %% tags=["experiment"]
on_sick = {name: found for name, found in rte.recorded_on_sick().items() if len(found) > 1}
show(on_sick)
others = [name for name in on_sick if name != "fusion, SICK"]
print(f"majority {100 * on_sick['fusion, SICK'][0].majority:.2f}\n")
print(*SeedTable(on_sick).compared([(name, "fusion, SICK") for name in others]), sep="\n\n")

# %% [markdown]
# Here a head on MNLI's adapter alone has the best mean, and no difference from the fusion is shown. According to the
# interval, fusing adds at most 2 points. Nor is the fusion shown to be better than fine-tuning, or training an adapter,
# on these few pairs alone. It is ahead of QNLI's adapter and of the plain encoder, in whose `[CLS]` a head finds
# little. On SICK all arms have twenty epochs.
#
# So on both targets no fusion is shown to be better than a head on one source, MNLI's. What did Pfeiffer et
# al. (2021) have that is missing here? They had sixteen adapters to choose from, and all of MNLI's pairs instead of a
# twentieth. And their BERT-base had not met such pairs before.

# %% [markdown]
# In the published table fusion has not only the better mean but also a far smaller spread. Is that real,
# with so few runs? If both were five, the ratio of variances follows an $F$ distribution with four and four degrees of
# freedom. This holds as long as accuracies are roughly normal. The recorded runs are ten of each.

# %% tags=["experiment"]
full, fusion = (float(rte.PUBLISHED[name].split("±")[1]) for name in ("pretrained", "fusion"))
ours = [statistics.stdev(100 * run.accuracy for run in recorded[name]) for name in ("pretrained", "fusion")]
for told, large, small, runs_of_each in (("published", full, fusion, 5), ("recorded", *ours, len(recorded["fusion"]))):
    chance = 2 * stats.f.sf((large / small) ** 2, runs_of_each - 1, runs_of_each - 1)
    least = stats.f.isf(0.025, runs_of_each - 1, runs_of_each - 1) ** 0.5
    print(
        f"{told}: spreads of {large:.2f} and {small:.2f} points, ratio {large / small:.1f}, by chance p = {chance:.3f}"
    )
    print(f"    with {runs_of_each} runs each, one spread must be {least:.1f} times the other to show a difference")

# %% [markdown]
# The published ratio passes this test if both were five runs, but one run that differed by a point could
# have changed that. The recorded ratio passes too. Freezing alone is not the reason: one adapter in a frozen encoder
# spreads as much as full fine-tuning. On RTE, the arms that read MNLI's adapter spread less than both, and so does a
# head alone; these have five seeds, and no test compares their spreads. These runs do not show why. The first thing to
# say about *your* runs is whether they show it.
#
# **Question 6.W1** (2 points). In four to eight sentences: why MNLI, QNLI and SICK? Say for each what it has in common
# with RTE and what it does not. Then name a task that you would leave out, with a reason.

# %% [markdown] written="6.W1" points=2
# ### BEGIN SOLUTION
# All three are tasks on pairs of sentences whose label depends on how the meanings of the two relate, as in RTE, so
# what their adapters learned about comparing two sentences can be of use. MNLI is the same question with three classes
# (entailment, neutral, contradiction; RTE has two), far more examples and many genres. QNLI asks whether a sentence
# contains the answer to a question. That is close to entailment, but the first text is a question, and the labels were
# made from a reading task. SICK has short descriptions with entailment labels that depend on negation and word meaning.
# It is small, and its language is plain, unlike RTE's news sentences. I would leave out sentiment (SST-2): one
# sentence, another question; its adapter learned nothing about pairs. I would also leave out an adapter that was
# trained on RTE itself, since it leaks the target.
# === BEGIN MARK SCHEME ===
# One point: all are pair tasks about entailment or something near it, with one thing in common and one difference for
# at least two of the three (classes, size, genre, question instead of premise).
# One point: a task to leave out with a reason that concerns transfer (single sentence, another question) or the leak.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 6.W2** (2 points). What does an adapter save, compared with fine-tuning all of BERT, and what does it
# not save? Treat storage for ten tasks, memory and time of training, time of prediction, and what happens to the
# tasks learned before. Use the counts of notebook 03.

# %% [markdown] written="6.W2" points=2
# ### BEGIN SOLUTION
# Storage: a task costs an adapter of 894,528 numbers, under one percent of BERT's 109 million, and a head: with the
# library's own, of 592,130, 1.4 percent together. So ten tasks cost one BERT and ten small files instead of ten BERTs.
# A fusion of three adds 21 million, a fifth of BERT. Training memory: gradients and Adam's two states are kept for the
# adapter only. The activations stay, since the gradient still has to flow back through the frozen layers to the lowest
# adapter. So a step is somewhat faster, but not a hundred times faster. Prediction is not faster: the adapter adds two
# small products to every layer. Nothing is forgotten: BERT and the other adapters do not move, and the old tasks work
# as before.
# === BEGIN MARK SCHEME ===
# One point: storage (about one percent for each task) and memory of gradients and optimizer states are saved.
# One point: two of the following. Activations and most of the backward pass are not saved; prediction is slightly
# slower; earlier tasks are not forgotten because nothing shared moves; fusion is not cheap.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("06_adapter_fusion")

# %%
scoreboard(checks)
