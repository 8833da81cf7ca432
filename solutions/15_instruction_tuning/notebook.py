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
# # 15. A model that answers
#
# A language model continues a text. Asked a question, it may continue with another question. **Instruction tuning**
# makes it answer: dialogues are written in a template, and the loss counts only the answers. About two hundred examples
# change the form of its answers in the experiment below. You will measure whether they also change what it knows.
#
# You also build **LoRA**, which learns two small matrices instead of a large one, and pass@k, an estimate that is used
# to compare language models.
#
# Each exercise is checked on the spot and stands on its own: if you get stuck, continue with the next one and come back
# later. In grading, private checks ask the same with other sizes, larger than those here, other numbers, dtypes, memory
# layouts and orders of calls. Your functions must not change their arguments unless the text says so, and writing into
# one result must not change a later result. A call must not change torch's default dtype (float32) or device, nor
# whether gradients are recorded. It may change the global random generators only by drawing from them, and only if the
# exercise draws. The exercises take about two and a half hours, without the written question. They need no GPU, but
# your answers must also work on one.

# %% tags=["setup"]

# %%
import math

import torch
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.checks import nb15_instruction_tuning as checks
from utils.experiments import llama
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# ## 15.1 A small change beside a large matrix
#
# Tuning a matrix $W$ with Adam stores a gradient and two averages for each of its numbers. LoRA leaves $W$ and its bias
# as they are, and learns a change of low **rank** $r$ beside them:
#
# $$y = W x + b + \frac{\alpha}{r}\, B A x, \qquad A \in \mathbb{R}^{r \times \text{in}}, \quad
# B \in \mathbb{R}^{\text{out} \times r}.$$
#
# $A$ begins with random numbers and $B$ with zeros, so the layer begins as it was. The factor $\alpha / r$ is meant to
# spare you another search of the learning rate when you change the rank. ([Hu and
# others](https://arxiv.org/abs/2106.09685).)
#
# **Predict first.** In the very first step, which of $A$ and $B$ has a gradient that is not zero?
#
# **Exercise 15.1** (4 points, about 25 minutes, medium). Write `LoRALinear`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.uniform_`; `Module.requires_grad_(False)`; `F.linear(x, A)` multiplies by the transpose of A.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# With zeros in both matrices, neither ever gets a gradient. Keep the linear layer that you are given, not a copy.
# </details>


# %%
predict("15.1", "c", a="both", b="A", c="B")


# %% exercise="15.1"
class LoRALinear(nn.Module):
    """A frozen nn.Linear, with a bias or without, and a change of low rank beside it that learns.

    Parts: `linear`, the very module that is given, and two parameters in the dtype and on the device of its weight:
    `A` (rank, in), uniform between -1/sqrt(in) and 1/sqrt(in), and `B` (out, rank), zeros. `A` and `B` alone learn.
    `scale` is alpha / rank. `merged` is False at first; while it is True, forward gives `linear(x)` alone.
    ValueError if rank is below 1.
    """

    def __init__(self, linear, rank, alpha):
        super().__init__()
        ### BEGIN SOLUTION
        if rank < 1:
            raise ValueError(f"a rank of {rank}")
        self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
        weight, bound = linear.weight, 1 / math.sqrt(linear.in_features)
        self.A = nn.Parameter(torch.empty(rank, linear.in_features, dtype=weight.dtype, device=weight.device))
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=weight.dtype, device=weight.device))
        nn.init.uniform_(self.A, -bound, bound)
        ### END SOLUTION

    def forward(self, x):
        """From x (..., in), of the dtype of the weights, to (..., out).

        Gradients reach x, A and B, in training and in evaluation mode.
        """
        ### BEGIN SOLUTION
        if self.merged:
            return self.linear(x)
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
        ### END SOLUTION


# %% check="15.1"
checks.lora_linear(LoRALinear)

# %%
torch.manual_seed(0)
layer, x = LoRALinear(nn.Linear(64, 48), 4, 8), torch.randn(5, 64)
print("moved at the start:", (layer(x) - layer.linear(x)).abs().max().item())
layer(x).square().mean().backward()
print(
    {name: None if part.grad is None else round(part.grad.norm().item(), 4) for name, part in layer.named_parameters()}
)

# %% [markdown]
# Only $B$ has one: the gradient of $A$ is multiplied by $B$, which is zero. From the second step on both learn. The
# layer of the `adapters` library, given the same weights, gives the same numbers: a test of this course compares them.
#
# **Play.** Below is a made-up change of a matrix, and the change of each rank that is nearest to it. From which rank on
# do you see no difference?

# %%
places = torch.linspace(0, 3, 32)
wanted = torch.sin(places[:, None] * places) + 0.5 * torch.cos(3 * places[:, None] - places)
U, S, V = torch.linalg.svd(wanted)


def best(rank):
    near = (U[:, :rank] * S[:rank]) @ V[:rank]
    left = ((near - wanted).norm() / wanted.norm()).item()
    title = f"rank {rank}: {64 * rank} of 1024 numbers"
    alt = f"A change as an image, and the best one of rank {rank}, which misses {left:.0%} of it."
    return plots.heatmaps(
        {"the change": wanted, title: near}, xlabel="input", ylabel="output", limits=(-1.5, 1.5), alt=alt
    )


interactive(best, rank=[1, 2, 3, 4, 8])

# %% [markdown]
# ## 15.2 Into the matrix, and out again
#
# Two more products in each layer cost time. After training, the change is added to the matrix once, and the layer is an
# ordinary one again.
#
# $$W' = W + \frac{\alpha}{r} B A.$$
#
# To continue training, or to use another task's $A$ and $B$, subtract the change again. If it were merged twice, it
# would count twice. So the layer remembers its state: **a second merge does nothing**, and neither does unmerging a
# layer that is not merged.
#
# In float64 the output is the same before and after merging, up to rounding. In sixteen bits a small change may vanish
# in a large weight.
#
# **Predict first.** Merge and unmerge in bfloat16. Do you get $W$ back?
#
# **Exercise 15.2** (2 points, about 15 minutes, easy). Write `merge` and `unmerge`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.no_grad()`; `Tensor.add_` and `Tensor.sub_` work in place.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `layer.linear.weight = nn.Parameter(...)` makes another parameter: optimizers and tied layers keep the old one.
# </details>


# %%
predict("15.2", "b", a="yes", b="no")


# %% exercise="15.2"
def merge(layer):
    """Add the change to `layer.linear.weight`, in place, and set `layer.merged` to True; nothing if it is True already.

    `layer` has the parts `linear`, `A`, `B`, `scale` and `merged` of exercise 15.1. The weight stays the same
    parameter, of its dtype, and does not learn. Nothing else changes. Returns the layer.
    """
    ### BEGIN SOLUTION
    if not layer.merged:
        with torch.no_grad():
            layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
        layer.merged = True
    return layer
    ### END SOLUTION


def unmerge(layer):
    """Subtract the change again and set `layer.merged` to False; nothing if it is not merged. Returns the layer."""
    ### BEGIN SOLUTION
    if layer.merged:
        with torch.no_grad():
            layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
        layer.merged = False
    return layer
    ### END SOLUTION


# %% check="15.2"
checks.merging(merge, unmerge)

# %%
torch.manual_seed(0)
gaps = {}
for dtype in (torch.float64, torch.float32, torch.bfloat16):
    layer = LoRALinear(nn.Linear(64, 48).to(dtype), 4, 8)
    nn.init.normal_(layer.B, std=0.01)
    x, before = torch.randn(20, 64, dtype=dtype), layer.linear.weight.clone()
    apart = layer(x)
    merge(layer)
    gaps[str(dtype)[6:]] = (
        (layer(x) - apart).abs().max().item(),
        (unmerge(layer).linear.weight != before).sum().item(),
    )

# %%
for name, (gap, moved) in gaps.items():
    print(f"{name:9} moved by merging: {gap:.0e}; weights that did not come back: {moved} of {before.numel()}")

# %% [markdown]
# In none of the three do all weights come back: the sum is rounded, and subtracting does not undo the rounding. In
# float64 the error is far too small to matter. If you merge in sixteen bits, keep the original weights.

# %% [markdown]
# ## 15.3 Into the model, by name
#
# A model is a tree of modules, and each has a name such as `blocks.3.attention.q_proj`. LoRA is added to all linear
# layers whose **last name** is in a list: the authors chose queries and values. Everything else is frozen.
#
# How many numbers learn then? A layer from $n$ to $m$ has $r\,(n + m)$ of them. In the model of notebook 14, queries
# and `out_proj` map $d$ to $d$. Keys and values map $d$ to $d\, n_{kv} / n_{heads}$. `gate` and `up` map $d$ to
# $d_{ff}$, and `down` maps it back.
#
# **Predict first.** SmolLM2-135M has 135 million parameters. LoRA of rank 8 is added to queries and values. How many
# new numbers are trained, as a share of these?
#
# **Exercise 15.3** (4 points, about 25 minutes, medium). Write `add_lora` and `lora_count`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.named_modules()`, `model.get_submodule("blocks.3.attention")`, `str.rpartition(".")`, `setattr`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Freeze first: if you freeze afterwards, $A$ and $B$ do not learn. And a layer made by `wrap` may contain linear layers
# with such names: list the names before you change the model.
# </details>


# %%
predict("15.3", "a", a="about a third of a percent", b="about 3 percent", c="about 10 percent")


# %% exercise="15.3"
def add_lora(model, names, wrap):
    """Freeze a model, and put `wrap(linear)` in the place of each nn.Linear whose last name is in `names`.

    Works in place, and returns the full names of the replaced layers, a list in the order of `named_modules()`.
    Layers of a class derived from nn.Linear are replaced too. `names` is a list. `wrap`, such as
    `lambda linear: LoRALinear(linear, 8, 16)`, is called once for each layer, with the layer itself. What it makes
    stays as it is: what learns in it, learns. Nothing else changes.
    ValueError if a name is the last one of no nn.Linear in the model; the model then stays as it was.
    """
    ### BEGIN SOLUTION
    places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
    if missing := {*names} - {last(name) for name in places}:
        raise ValueError(f"no linear layer is called {sorted(missing)}")
    model.requires_grad_(False)
    for name in places:
        parent = model.get_submodule(name.rpartition(".")[0])
        setattr(parent, last(name), wrap(model.get_submodule(name)))
    return places


def last(name):
    return name.rpartition(".")[2]
    ### END SOLUTION


def lora_count(c, names, rank):
    """How many numbers learn, an int, where LoRA of a rank is in all layers of these names of notebook 14's model.

    `c` has d_model, n_layers, n_heads, n_kv_heads and d_ff. Each of `names` is one of q_proj, k_proj, v_proj, out_proj,
    gate, up and down, and counts once; ValueError if one is not.
    """
    ### BEGIN SOLUTION
    d, few = c.d_model, c.d_model // c.n_heads * c.n_kv_heads
    sums = {"q_proj": 2 * d, "k_proj": d + few, "v_proj": d + few, "out_proj": 2 * d}
    sums |= dict.fromkeys(("gate", "up", "down"), d + c.d_ff)
    if unknown := {*names} - {*sums}:
        raise ValueError(f"no layers are called {sorted(unknown)}")
    return c.n_layers * rank * sum(sums[name] for name in {*names})
    ### END SOLUTION


# %% check="15.3"
checks.inserting(add_lora, lora_count)

# %% [markdown]
# The course's decoder is the model of notebook 14, with the same names for its layers. On the device `meta` it has
# shapes but no values.

# %% tags=["experiment"]
from utils.experiments.instruction_tuning import train as trainer

with torch.device("meta"):
    model = trainer.Decoder(llama.SMOLLM)
total = sum(part.numel() for part in model.parameters())
print(add_lora(model, ["q_proj", "v_proj"], lambda linear: LoRALinear(linear, 8, 16))[:3], "...")
learns = sum(part.numel() for part in model.parameters() if part.requires_grad)
formula = lora_count(llama.SMOLLM, ["q_proj", "v_proj"], 8)
print(f"{learns:,} new numbers learn, by the formula {formula:,}; the model's own {total:,} are frozen")

# %% tags=["experiment"]
every = ["q_proj", "k_proj", "v_proj", "out_proj", "gate", "up", "down"]
ranks, kinds = (1, 2, 4, 8, 16, 32, 64), {"queries and values": ["q_proj", "v_proj"], "all seven": every}
plots.curves(
    {name: [100 * lora_count(llama.SMOLLM, names, rank) / total for rank in ranks] for name, names in kinds.items()},
    x=ranks,
    xlabel="rank",
    ylabel="numbers that learn, % of SmolLM2's",
    alt="Numbers that learn by rank, as a share of SmolLM2's: two straight lines, steeper with all seven layers.",
)

# %% [markdown]
# A third of a percent. For all other numbers, no gradient and no averages need to be stored.

# %% [markdown]
# ## 15.4 Who says what, and what counts
#
# A dialogue becomes one text, by a **template**. SmolLM2's is
#
# ```
# <|im_start|>user
# What is 2 + 3?<|im_end|>
# <|im_start|>assistant
# [5]<|im_end|>
# ```
#
# with a line break after each `<|im_end|>`. The model is to learn the answers, not the questions. So each token has a
# **label**: itself in an answer, $-100$ elsewhere. `<|im_end|>` belongs to the answer: a model that does not learn it
# does not stop.
#
# The loss is the mean over all tokens with a label in all rows. The logits at $t$ predict token $t + 1$, and padding
# has no labels.
#
# **Predict first.** Each character is a token, and so is each mark such as `<|im_end|>`. Which share has a label?
#
# **Exercise 15.4** (4 points, about 25 minutes, medium). Write `tokens_and_labels` and `answer_loss`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.cross_entropy` takes (N, V) and (N), and leaves out labels of -100.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Do not shift the labels when you create them: the loss shifts them, once.
# </details>


# %% exercise="15.4"
def tokens_and_labels(messages, encode):
    r"""Token numbers of a dialogue in the template above, and their labels: two lists of ints of one length.

    Args:
        messages: a list of pairs (role, text); a role is "system", "user" or "assistant". Texts may be empty.
        encode: from a text to a list of ints. Call it for three pieces of each message, in this order:
            "<|im_start|>user\n" with its role, the text with "<|im_end|>", and "\n".

    The middle pieces of the assistant's messages, of all of them, are the answers. ValueError for another role.
    """
    ### BEGIN SOLUTION
    tokens, labels = [], []
    for role, text in messages:
        if role not in ("system", "user", "assistant"):
            raise ValueError(f"nobody is {role!r}")
        for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
            some = encode(piece)
            tokens += some
            answer = role == "assistant" and piece.endswith("<|im_end|>")
            labels += some if answer else [-100] * len(some)
    return tokens, labels
    ### END SOLUTION


def answer_loss(logits, labels):  # (B, T, V), (B, T) -> one number
    """The mean cross-entropy of logits (B, T, V), of any float dtype, over labels (B, T) that are not -100, shifted.

    A label at t is compared with the logits at t - 1, so the first of a row never counts. A tensor with one number,
    float32 or better, and computed so; gradients reach the logits. ValueError if no label counts.
    """
    ### BEGIN SOLUTION
    wanted = labels[:, 1:]
    if not (wanted != -100).any():
        raise ValueError("no token has a label")
    logits = logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
    ### END SOLUTION


# %% check="15.4"
checks.template(tokens_and_labels, answer_loss)


# %%
def letters(text):  # a letter is a token, and so is each mark of the template
    pieces = text.replace("<|im_start|>", "\0").replace("<|im_end|>", "\1")
    return [ord(one) for one in pieces]


dialogue = [("user", "What is 2 + 3?"), ("assistant", "[5]")]
tokens, labels = tokens_and_labels(dialogue, letters)
print(f"{sum(label != -100 for label in labels)} of {len(tokens)} tokens have a label")
print("".join(chr(token) if label != -100 else "." for token, label in zip(tokens, labels)).replace("\1", "<|im_end|>"))

# %% [markdown]
# About one in ten. The model reads the other tokens, but the loss does not count them.

# %% [markdown]
# ## 15.5 Several dialogues in a row
#
# Dialogues differ in length, and padding them wastes work. So several go into one row, one after the other. Nothing may
# leak from one to the next, in three ways:
#
# - **Attention**: a token sees itself and what comes before it in its own dialogue.
# - **Positions** begin at 0 in each dialogue.
# - **Labels**: the last token of a dialogue must not learn to predict the first of the next, so a dialogue's first
#   label is $-100$.
#
# **Predict first.** Three dialogues of 2, 3 and 4 tokens are in a row of nine. How many pairs of tokens are visible?
#
# **Exercise 15.5** (3 points, about 20 minutes, medium). Write `pack`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.arange(k).repeat_interleave(lengths)` gives for each token the number of its dialogue. `Tensor.tril`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Do not write -100 into the lists that you are given.
# </details>


# %%
predict("15.5", 19)


# %% exercise="15.5"
def pack(examples):
    """Put dialogues into one row. `examples` is not empty: pairs (tokens, labels) of two equally long lists, not empty.

    Returns four tensors: tokens, labels and positions (1, T), int64, and `seen` (1, T, T), bool, which is True at
    [0, i, j] where token i may see token j. T is the sum of the lengths, and the dialogues stay in their order.
    """
    ### BEGIN SOLUTION
    lengths = [len(tokens) for tokens, _ in examples]
    owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
    tokens = torch.tensor([[token for some, _ in examples for token in some]])
    labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
    ### END SOLUTION


# %% check="15.5"
checks.packing(pack)

# %%
row = pack([([1, 2], [1, 2]), ([3, 4, 5], [3, 4, 5]), ([6, 7, 8, 9], [-100, 7, 8, 9])])
print("positions", row[2].tolist(), "labels", row[1].tolist())
print(f"{row[3].sum()} of {row[3].numel()} pairs are visible")
plots.heatmaps(
    {"who sees whom": row[3][0]},
    xlabel="token that is seen",
    ylabel="token that looks",
    alt="A mask of nine by nine: three triangles on the diagonal, of sides 2, 3 and 4, and nothing elsewhere.",
)

# %% [markdown]
# Now the test: with the mask and the positions, a model should give each dialogue the same logits as it gets alone. The
# course's decoder takes both.

# %% tags=["experiment"]
decoder = trainer.decoder(llama.tiny())
dialogues = [
    tokens_and_labels([("user", some), ("assistant", some[::-1])], trainer.source(True).encode)
    for some in ("ab", "xyz")
]
tokens, labels, positions, seen = pack(dialogues)

# %% tags=["experiment"]
with torch.no_grad():
    alone = torch.cat([decoder(torch.tensor([some]))[0] for some, _ in dialogues], dim=1)
    ways = {
        "mask and positions": (positions, seen),
        "mask alone": (None, seen),
        "positions alone": (positions, None),
        "neither": (),
    }
    for name, way in ways.items():
        gap = (decoder(tokens, None, *way)[0] - alone).abs().amax(-1)[0]
        first, second = gap.split([len(some) for some, _ in dialogues])
        print(f"{name:18} first dialogue {first.max():.0e}, second {second.max():.0e}")

# %% [markdown]
# With the mask alone the second dialogue also agrees, because rotary scores depend on distances only. With learned
# positions it would not. And if each dialogue begins at 0, a long row has no position that a single dialogue never has.

# %% [markdown]
# ## 15.6 A step on several batches
#
# A batch that does not fit into memory is cut into parts. Their gradients are added up, followed by **one** step. The
# loss is the mean over all tokens with a label. The mean of the parts' means is different: it favours tokens in parts
# with few labels.
#
# So count all labels first, and divide the **sum** of each part's losses by that count. The gradients then
# add up to those of the whole batch, and are clipped once.
#
# **Predict first.** One part has a single label, another one has ninety-nine. In the mean of means, how much does the
# single token count, compared with one of the ninety-nine?
#
# **Exercise 15.6** (3 points, about 30 minutes, hard). Write `train_step`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.cross_entropy(..., reduction="sum")` and `nn.utils.clip_grad_norm_`. `backward` adds to the existing gradients.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Labels are shifted: the first label of a row adds nothing to the loss, so it is left out of the count.
# </details>


# %%
predict("15.6", "b", a="about 10 times as much", b="99 times as much", c="equally much")


# %% exercise="15.6"
def train_step(model, optimizer, batches, clip):
    """One step of the optimizer on all batches together; returns their loss before the step, a float.

    Args:
        model: from token numbers (B, T) to a pair: logits (B, T, V), and something else. It is in training mode after
            the call, and meets each batch once, in that mode. Its parameters are on the device of the batches.
        batches: a list of pairs (tokens, labels), each (B, T), int64; B and T may differ between batches.
        clip: the norm of all gradients of the optimizer's parameters together is at most this when the step is made.

    The loss is the mean over all labels that are not -100, of all batches, each compared with the logits one place
    before it. Gradients that are there before the call do not count. A batch may have no labels.
    ValueError if none has any; then nothing changes, and the model is not called.
    """
    ### BEGIN SOLUTION
    count = sum((labels[:, 1:] != -100).sum().item() for _, labels in batches)
    if not count:
        raise ValueError("no token has a label")
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for tokens, labels in batches:
        logits = model(tokens)[0][:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
        loss.backward()
        total += loss.item()
    parameters = [part for group in optimizer.param_groups for part in group["params"]]
    nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    return total
    ### END SOLUTION


# %% check="15.6"
checks.stepping(train_step)


# %%
class Bigrams(nn.Module):  # the logits of what follows a token: a row of a table
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 256)

    def forward(self, tokens):
        return self.table(tokens), None


torch.manual_seed(0)
model, pairs = Bigrams(), [("2 + 3", "[5]"), ("4 + 4", "[8]"), ("a long question about 1 + 1", "[2]")]
rows = [tokens_and_labels([("user", one), ("assistant", other)], letters) for one, other in pairs]
batches = [tuple(torch.tensor([part]) for part in row) for row in rows]

# %%
optimizer = torch.optim.AdamW(model.parameters(), lr=0.3)
curve = [train_step(model, optimizer, batches, 1.0) for _ in range(40)]

# %%
plots.curves(
    {"train_step": curve},
    xlabel="step",
    ylabel="nats for each token of an answer",
    alt="The loss of a table of bigrams on three dialogues: it falls from about six and then stays above zero.",
)

# %% [markdown]
# The loss cannot reach zero: a table of bigrams sees only the bracket, and the digits that follow it differ.

# %% [markdown]
# ## 15.7 Right in one of k tries
#
# If a model draws several answers, one may be right. **pass@k** is the probability that at least one of $k$ answers to
# a task is right. To measure it, draw $n \ge k$ answers and count the $c$ right ones. Then see how likely $k$ of these,
# drawn without replacement, include no right one:
#
# $$\text{pass@}k = 1 - \binom{n-c}{k} \Big/ \binom{n}{k} = 1 - \prod_{i=n-c+1}^{n} \left(1 - \frac{k}{i}\right).$$
#
# As floats the binomials overflow; the product does not. $1 - (1 - c/n)^k$ is simpler, but too low on average. ([Chen
# and others](https://arxiv.org/abs/2107.03374).)
#
# Answers to one task are not independent, so the interval is over **tasks**: $m \pm 1.96\, s/\sqrt{N}$, with mean and
# standard deviation (divided by $N - 1$) of the $N$ tasks' values.
#
# **Predict first.** One of ten answers is right. What is pass@5?
#
# **Exercise 15.7** (3 points, about 20 minutes, medium). Write `pass_at_k` and `over_tasks`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `math.prod`, and `math.sqrt`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `math.comb(100_000, 50_000)` is exact, but it is slow, and no float can hold it. If fewer than k answers are wrong,
# one factor of the product is zero, and others may be huge: infinity times zero is not a number.
# </details>


# %%
predict("15.7", 0.5)


# %% exercise="15.7"
def pass_at_k(n, c, k):
    """The unbiased estimate of pass@k, a float from 0 to 1, of n answers with c right ones; n may be 100,000.

    ValueError unless 1 <= k <= n and 0 <= c <= n.
    """
    ### BEGIN SOLUTION
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"{k} of {n} answers, of which {c} are right")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
    ### END SOLUTION


def over_tasks(right, n, k):
    """The mean of pass@k over tasks, and the ends of its 95% interval: three floats (mean, low, high).

    `right` is a list: the number of right answers of each task, of n. The ends may lie below 0 or above 1.
    ValueError if there are fewer than two tasks.
    """
    ### BEGIN SOLUTION
    if len(right) < 2:
        raise ValueError("an interval needs two tasks")
    values = [pass_at_k(n, c, k) for c in right]
    mean = sum(values) / len(values)
    s = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = 1.96 * s / math.sqrt(len(values))
    return mean, mean - half, mean + half
    ### END SOLUTION


# %% check="15.7"
checks.passing(pass_at_k, over_tasks)

# %%
torch.manual_seed(0)
tries, share, n = (1, 2, 3, 5, 8, 10), 0.1, 10  # right one time in ten
draws = torch.distributions.Binomial(n, torch.tensor(share)).sample((4000,)).int().tolist()

# %%
plots.curves(
    {
        "what is true": [1 - (1 - share) ** k for k in tries],
        "mean of pass_at_k": [sum(pass_at_k(n, c, k) for c in draws) / len(draws) for k in tries],
        "mean of 1 - (1 - c/n)^k": [sum(1 - (1 - c / n) ** k for c in draws) / len(draws) for k in tries],
    },
    x=tries,
    xlabel="k",
    ylabel="pass@k",
    alt="pass@k by k for a model that is right one time in ten: the estimate is the truth, the simple formula lower.",
)

# %% [markdown]
# pass@5 is one half: the right answer is equally likely among the five that are drawn and among the other five. The
# simple formula is lower on average, here by up to 16 points.

# %%
few = [1, 0, 0, 2, 0, 7, 0, 10, 0, 1]
for k in (1, 5, 10):
    mean, low, high = over_tasks(few, 10, k)
    print(f"pass@{k}: {mean:.2f}, from {low:.2f} to {high:.2f}, over {len(few)} tasks of 10 answers")

# %% [markdown]
# ## Experiment: manners and knowledge
#
# SmolLM2 is asked three kinds of questions, each with the same instruction: *Answer in square brackets.* A program can
# check the form and the answer.
#
# | kind | question | answer |
# |---|---|---|
# | sum | `What is 12 + 23?` | `[35]` |
# | sort | `Sort 87, 90, 59.` | `[59, 87, 90]` |
# | French | `What is Austria in French?` | `[Autriche]` |
#
# The French names are those of CLDR. No question of the test, and no place name in it, is used for training. The model
# is tested **before** any tuning, after LoRA on queries and values, and after tuning all weights. Both are tuned for
# equally many steps, with dialogues packed as in 15.5. Each has the best of five learning rates on instructions that
# are held out from training (`data/README.md`). A rise of the loss on Python's documentation shows that the model
# forgets.
#
# **The control** is not tuned. The model reads six training questions with their answers, two of each kind, as earlier
# turns of the dialogue. If these examples are enough for the form, tuning was not needed for it.
#
# **The packaged SmolLM2-135M** is the *Instruct* model: after its pretraining it was tuned to chat, with this template,
# and its package stores the weights in four bits (`data/README.md`, "smollm"). So this is not its first tuning. These
# questions were chosen because it ignores the brackets. Without its weights, or with `COURSE_PROFILE=smoke`, a tiny
# random model shows that everything works, and learns nothing.
#
# <!-- box: size gpu -->

# %% tags=["experiment"]
from utils.experiments import instruction_tuning as tuning
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import across, listed

profile = trainer.possible_profile()
experiments = tuning.experiments("15_instruction_tuning", profile)
seeds = range(1, 3 if profile == "smoke" else 6)
for name, one in experiments.items():
    print(f"{name:23}{one.steps} steps of {one.batch} dialogues, learning rate {one.lr:g}")

# %% [markdown]
# **Predict first.** After about two hundred examples, which of the three kinds will be right, and which only in
# brackets? How much of this do six examples in the prompt achieve? Which forgets more, LoRA or tuning all weights?
#
# You can interrupt the next cell whenever you like: finished seeds are kept in the folder `results`.

# %% tags=["experiment"]
runs = {name: run_seeds(one, seeds, results_folder()) for name, one in experiments.items()}
across(runs, tuning.METRICS)

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, with the same seeds as yours. So both tables come from
# the same draws of questions, and one is not a second measurement of the other.

# %% tags=["experiment"]
recorded = tuning.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, tuning.METRICS) if recorded else None

# %% tags=["experiment"]
for name, some in recorded.items():
    print(f"{name:23}{some[0].shown['answers']}")

# %% tags=["experiment"]
listed(tuning.compared(recorded)) if recorded else None

# %% tags=["experiment"]
alt = (
    "The recorded runs: the share of right answers, wherever they stand, by kind of question: before tuning, with "
    "examples in the prompt, with LoRA and with all weights."
)
tuning.picture(recorded, "anywhere", alt) if recorded else None

# %% [markdown]
# In the recorded runs no answer is in brackets before tuning. Afterwards nearly every answer is, both with LoRA and
# with all weights. Right answers in brackets go from none to 52% with LoRA and to 44% with all weights. Both gains are
# shown, and the difference between LoRA and all weights is not. Sums and sorting gain in every run, also if brackets
# are not required. But an answer ends after sixteen tokens, and before tuning eight of twenty sums were cut there. Even
# if all of these had become right, in sums LoRA would be ahead in every run; three runs with all weights would not. Of
# the French names no run has more than four of twenty right.
#
# **The control.** With six examples in the prompt and no tuning, 99% of the answers are in brackets, but 5% are right.
# In every run most answers are wrong and only repeat words of the question, such as `[12, 23]` for `12 + 23`. Both
# ways of tuning have more right answers than the control, which is shown. So the form needs no tuning. Right sums and
# sorted numbers need more than the form: six examples in the prompt hardly produce them, and tuning on about two
# hundred examples does. Sums even get worse with the examples: without brackets, five of twenty are right before
# tuning, and none with examples, with every seed. So this control does not say what the untuned model knows. Other
# prompts were not tried.
#
# **What is forgotten.** LoRA ends with a loss on other text that is 0.21 nats higher than before, and all weights with
# one that is 0.05 nats higher. Both rises are shown, and so is the difference between them. That is not what you would
# expect from "LoRA Learns Less and Forgets Less" (Biderman et al. 2024). Both rates were searched alike, for the loss
# of held-out answers and with one seed. LoRA's is twenty-five times as large. The search did not ask how much a rate
# makes the model forget.

# %% [markdown]
# **Question 15.W1** (2 points). In five to eight sentences, with numbers of your table (in the profile `smoke`: of the
# recorded one): what did tuning change in each of the three kinds, the form, the knowledge, or both? How do you tell
# one from the other, and what does the control with examples in the prompt say about it? Which arm forgets more, and is
# that shown? Name one reason why the comparison of LoRA with all weights is not the last word.

# %% [markdown] written="15.W1" points=2
# ### BEGIN SOLUTION
# The form was learned in all three kinds: no answer was in brackets before tuning, and nearly all are afterwards, with
# LoRA and with all weights. For sums and sorting, more answers are right too, even if brackets are not required. For
# French, mostly the form was learned. Few names are right after tuning, and no name of the test was used for training:
# the model puts a wrong name into brackets. The column "right anywhere" separates knowledge from form, since it
# requires no form. Where it stays and "in brackets" rises, only the form was learned. The control shows the same
# without tuning: six examples in the prompt give the form, but hardly a right answer. So the right sums and sorted
# numbers came with tuning. Whether a better prompt would have shown that the model could calculate before is open:
# before, some sums were right where it wrote them out, and others were cut after sixteen tokens. Forgetting is a rise
# of the loss on other text: it rises more with LoRA than with all weights (my numbers: the rise of each, and whether
# the comparison says that a difference is shown). That does not settle it: the rates were searched with one seed and
# only for what is learned, and there is one rank, one choice of layers, few steps and one model.
# === BEGIN MARK SCHEME ===
# One point: the form is learned in all kinds, more sums and sorted rows are right, few French names are (half). "Right
# anywhere" beside "in brackets", or the kinds in the figure, and the control tell form from knowledge, with own
# numbers: examples in the prompt give the form without right answers (half). One point: which arm has the larger loss
# on other text, with numbers and whether it is shown (half); the search with one seed or for one goal, the rank, the
# layers, the steps or the single model as a reason (half). "Sums were cut before tuning, so whether all weights learned
# to add is open" is right, and no reason to take points. Half a point off for "the model has learned French", or for
# calling a difference one that is not shown.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **What you can do now:** tune a published model on your own machine: all its weights, or LoRA's, which are a third of
# a percent as many. You can say what it learned and what it forgot, and report pass@k with an interval over tasks.

# %%
scoreboard(checks)

# %% [markdown]
# ## 15.S1 Better and worse
#
# This is a stretch exercise. Often nobody can write the best answer, but people can say which of two is better. **DPO**
# learns from such pairs without a reward model. A pair is a chosen answer $y_w$ and a rejected one $y_l$ to a prompt
# $x$. DPO compares how much more likely each has become than under a frozen reference model:
#
# $$L = -\log \sigma\Big(\beta \log \frac{\pi(y_w \mid x)}{\pi_{ref}(y_w \mid x)} - \beta \log
# \frac{\pi(y_l \mid x)}{\pi_{ref}(y_l \mid x)}\Big).$$
#
# You are given log-probabilities of whole answers, one for each pair. The loss is the mean over the pairs.
# ([Rafailov and others](https://arxiv.org/abs/2305.18290), equation 7.)
#
# **Predict first.** What is the loss at the first step, when the model equals the reference?
#
# **Exercise 15.S1** (not graded, about 10 minutes, easy). Write `dpo_loss`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.logsigmoid` is accurate where `log(sigmoid(z))` is infinite.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The reference does not learn: no gradient reaches its log-probabilities.
# </details>


# %%
predict("15.S1", "b", a="0", b="log 2", c="it depends on the answers")


# %% stretch="15.S1"
def dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta):  # four times (B,) -> one number
    """The mean of DPO's loss over pairs, a tensor with one number.

    Log-probabilities of the answers under the model, and under the reference: four tensors (B,) of floats of one dtype,
    which the loss has too. Gradients reach the first two and no others.
    """
    ### BEGIN SOLUTION
    better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
    return -F.logsigmoid(beta * (better - worse)).mean()
    ### END SOLUTION


# %% check="15.S1"
checks.dpo(dpo_loss)

# %% tags=["experiment"]
margins = torch.linspace(-6, 6, 49)
rows = {}
for beta in (0.1, 0.5, 1.0):
    zeros = torch.zeros(1)
    rows[f"beta = {beta}"] = [dpo_loss(one.view(1), zeros, zeros, zeros, beta).item() for one in margins]
plots.curves(
    rows,
    x=margins.tolist(),
    xlabel="how much more the chosen answer has gained, in nats",
    ylabel="loss",
    alt="The loss of DPO by margin, for three values of beta: all meet at zero; a larger beta falls more steeply.",
)

# %% [markdown]
# The loss begins at $\log 2$, whatever the answers are. Once the chosen answer is far ahead, its pair hardly counts.
