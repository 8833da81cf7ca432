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
# # 12. Small, smaller, fast?
#
# A good model is often too large for the place where it is needed. There are four ways to a smaller one: narrower
# tables and shared layers (ALBERT, Lan et al. 2020), weights that are removed (Frankle and Carbin 2019), and a small
# model that learns from a large one (Hinton et al. 2015).
#
# "Small" can mean three things: few numbers to store, few multiplications, or little time. Here you build each way, and
# measure which of the three it saves.
#
# Each exercise is checked on the spot. In grading, private checks ask the same with other sizes, larger than those
# here, other numbers, dtypes, memory layouts and orders of calls. Your functions return new objects, and change their
# arguments only where the text asks for it. A call must not change torch's default dtype (float32) or device, nor
# whether gradients are recorded. It may change the global random generators only by drawing from them, and only if the
# exercise draws. The exercises take about two and a half hours, not counting the written questions, and need no GPU;
# but your answers must also work on one: create tensors on the device of your arguments.

# %% tags=["setup"]

# %%
import math
import statistics
import time

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.checks import nb12_smaller_models as checks
from utils.experiments import profiles, sharing, student
from utils.experiments import smaller as arms
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across, listed
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 12.8 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 12.1 A narrow table
#
# A table of $V$ tokens, $d$ wide, is a large part of a small model. A token by itself carries less information than a
# token in its context: ALBERT's table is only $E$ wide, and one linear map widens each row,
#
# $$x = W e_{\text{token}} + b, \qquad W \in \mathbb{R}^{d \times E}.$$
#
# The output may use the same numbers again. Each token's score is the product of the hidden state with its widened row,
# without the bias, which would be the same for all:
#
# $$s = (h W)\, \text{table}^\top.$$
#
# **Predict first.** ALBERT-base has 30,000 tokens, $d = 768$, $E = 128$. What share of the full table's numbers is
# left?
#
# **Exercise 12.1** (2 points, about 15 minutes, easy). Write `FactorizedEmbedding`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Embedding(...).weight` is the table, `nn.Linear(E, d).weight` is (d, E).
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A new `nn.Linear` or `nn.Parameter` for the scores would be a second table. The scores need no new parameters.
# </details>


# %%
predict("12.1", "b", a="about a half", b="about a sixth", c="about a hundredth")


# %% exercise="12.1"
class FactorizedEmbedding(nn.Module):
    """A table of width d_embed, a linear map to d_model, and the way back to scores with the same numbers.

    Parts: `table`, an nn.Embedding (vocab_size, d_embed), and `up`, an nn.Linear from d_embed to d_model with a bias.
    The embedding has no other options: no padding_idx, no max_norm, not sparse. No dropout, no norm, no activation.
    """

    def __init__(self, vocab_size, d_embed, d_model):
        super().__init__()
        ### BEGIN SOLUTION
        self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
        ### END SOLUTION

    def forward(self, ids):  # (B, T) -> (B, T, d_model)
        """Token numbers (B, T), int64, T of 0 or more -> (B, T, d_model)."""
        ### BEGIN SOLUTION
        return self.up(self.table(ids))
        ### END SOLUTION

    def scores(self, hidden):  # (B, T, d_model) -> (B, T, vocab_size)
        """Hidden states (B, T, d_model) -> a score for each token, (B, T, vocab_size), without biases."""
        ### BEGIN SOLUTION
        return hidden @ self.up.weight @ self.table.weight.T
        ### END SOLUTION


# %% check="12.1"
checks.factorized_embedding(FactorizedEmbedding)

# %%
widths = [16, 32, 64, 128, 256, 512, 768]
counts = [sum(p.numel() for p in FactorizedEmbedding(30_000, E, 768).to("meta").parameters()) for E in widths]
full = 30_000 * 768
for E, count in zip(widths, counts):
    print(f"E = {E:3}: {count:10,} numbers, {count / full:4.0%} of the full table")

# %%
alt = "The size of a factorized table against E: a straight line, which meets that of the full table a little before "
alt += "E reaches d."
series = {"factorized": [c / 1e6 for c in counts], "full": [full / 1e6] * len(widths)}
plots.curves(series, x=widths, xlabel="E", ylabel="millions of numbers", alt=alt)

# %% [markdown]
# A sixth is left. With $E = d$ it would be more than before, since the map is added. The price: a product of two
# matrices has rank $E$ at most, so not every table can be written this way.

# %% [markdown]
# ## 12.2 One layer, many times
#
# ALBERT goes through **one** layer $n$ times, instead of through $n$ layers:
#
# $$x^{\ell} = \text{layer}(x^{\ell - 1}), \qquad \ell = 1, \dots, n.$$
#
# Only one layer is stored. The computation is as before. And every pass contributes to the gradient of the same
# weights: it is the sum of the gradients of $n$ separate layers.
#
# Layers that only start with equal weights are not shared: after one step they differ.
#
# **Predict first.** Twelve layers become one. What happens to the size of the file, to the time of a forward pass, and
# to the memory that training needs?
#
# **Exercise 12.2** (2 points, about 10 minutes, easy). Write `SharedEncoder`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `self.layer = layer` registers a module: its weights are in `parameters()` and in `state_dict()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `nn.ModuleList([layer] * n)` shares, but a `state_dict()` names every weight n times, and `copy.deepcopy` does not
# share. </details>


# %%
predict(
    "12.2",
    "a",
    a="the file is a twelfth, the time stays, the memory falls a little",
    b="all three fall to a twelfth",
    c="the file stays, time and memory fall to a twelfth",
)


# %% exercise="12.2"
class SharedEncoder(nn.Module):
    """Goes through one and the same layer n_layers times; 0 times gives x back.

    layer: a module from (B, T, d) to (B, T, d). It is kept as `layer`, the object itself, and is the only part: the
    state dict has each of its weights once. Where it draws dropout, each pass draws again.
    """

    def __init__(self, layer, n_layers):
        super().__init__()
        ### BEGIN SOLUTION
        self.layer, self.n_layers = layer, n_layers
        ### END SOLUTION

    def forward(self, x):
        """x (B, T, d) -> (B, T, d)."""
        ### BEGIN SOLUTION
        for _ in range(self.n_layers):
            x = self.layer(x)
        return x
        ### END SOLUTION


# %% check="12.2"
checks.shared_encoder(SharedEncoder)

# %%
one = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
shared, separate = SharedEncoder(one, 6), nn.TransformerEncoder(one, 6, enable_nested_tensor=False)
x = torch.randn(2, 10, 64)
print(f"outputs differ by {(shared(x) - separate(x)).abs().max().item():.1e} before a step")
for name, model in (("shared", shared), ("separate", separate)):
    print(f"{name:9} {sum(p.numel() for p in model.parameters()):8,} parameters")

# %%
for model in (shared, separate):
    model(x).pow(3).sum().backward()
summed = sum(layer.linear1.weight.grad for layer in separate.layers)
print(f"largest difference of gradients: {(one.linear1.weight.grad - summed).abs().max().item():.1e}")

# %% [markdown]
# The file shrinks to nearly a twelfth. An answer takes as long as before: twelve passes are twelve passes. Training
# keeps the states of all of them for the backward pass, so it saves memory only on weights and the optimizer's numbers.
# On one machine a training step takes as long as before. Several machines exchange their gradients after each step, and
# fewer numbers take less time.
#
# Sharing weights is older than transformers. A convolution has one set of weights for all places of an image: the first
# layer of AlexNet (Krizhevsky et al. 2012) has 96 filters, each of 11 by 11 places in 3 colours and with a bias. These
# are 34,944 numbers. If each of its 55 by 55 places had its own filters, there would be 105,705,600.

# %% [markdown]
# ## 12.3 Two ways to count
#
# Count both **parameters**, which are stored, and **multiply-adds**, which take time. A linear map from $m$ to $n$ has
# $mn$ multiply-adds for each token.
#
# An encoder has tables (tokens, $P$ positions, 2 segments) with a layer norm, all $E$ wide, and a map to $H$. Without
# $E$ they are $H$ wide, and there is no map. Each of $L$ layers has attention (four maps of $H$ with biases), two maps
# between $H$ and $F$, and two layer norms. A pooler, a map of $H$, reads only the first token: it adds parameters only.
# In each layer, each of $T$ tokens has $T$ products for scores and $T$ for values, $H$ wide.
#
# **Predict first.** ALBERT-xxlarge has fewer parameters than BERT-large. Which one is faster?
#
# **Exercise 12.3** (3 points, about 25 minutes, hard). Write `encoder_size`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# Your counts of notebook 03: a layer has $4H^2 + 2HF + 9H + F$ parameters. A table is looked up, not multiplied.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# With `shared`, one layer is stored in place of $L$. All $L$ passes are still computed, so the multiply-adds stay.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# width = E or H. Parameters: (V + P + 2) width + 2 width, the map with its bias if there is one, one layer or L, the
# pooler. Multiply-adds of a token: the map, plus L times the four maps of attention, the two maps between H and F, and
# 2 T H for scores and values. </details>


# %%
predict("12.3", "b", a="ALBERT-xxlarge", b="BERT-large", c="neither")


# %% exercise="12.3"
def encoder_size(V, H, F, L, E=None, shared=False, P=512, T=128):
    """How many parameters an encoder has, and how many multiply-adds a token of a text of T costs: two whole numbers.

    V tokens, width H, inner width F, L layers (of which one is kept if `shared`), P positions, 2 segments. E: the width
    of the tables, which a map with a bias widens to H, even if E equals H; None: they are H wide, without a map.
    Biases, norms, activations, softmax and the pooler are not multiply-adds. No count is a float, which loses digits;
    none reaches 2 ** 63.
    """
    ### BEGIN SOLUTION
    width = H if E is None else E
    layer = 4 * H * H + 2 * H * F + 9 * H + F
    bridge = 0 if E is None else E * H
    parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
    parameters += (1 if shared else L) * layer + H * H + H
    return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
    ### END SOLUTION


# %% check="12.3"
checks.encoder_size(encoder_size)

# %%
sizes = {
    "BERT-base": dict(V=30_522, H=768, F=3072, L=12),
    "ALBERT-base": dict(V=30_000, H=768, F=3072, L=12, E=128, shared=True),
    "BERT-large": dict(V=30_522, H=1024, F=4096, L=24),
    "ALBERT-large": dict(V=30_000, H=1024, F=4096, L=24, E=128, shared=True),
    "ALBERT-xxlarge": dict(V=30_000, H=4096, F=16_384, L=12, E=128, shared=True),
}
counted = {name: encoder_size(**size) for name, size in sizes.items()}
for name, (parameters, products) in counted.items():
    print(f"{name:15} {parameters / 1e6:6.1f} M parameters {products / 1e6:8.1f} M multiply-adds per token")

# %%
alt = (
    "Parameters and multiply-adds of five encoders: the ALBERTs are small where they are stored; what they multiply is "
)
alt += "as much as for the BERT of their width, and for xxlarge far more than for any other."
panels = {"parameters": [c[0] / 1e6 for c in counted.values()], "multiply-adds": [c[1] / 1e6 for c in counted.values()]}
labels = [name.replace("-", "\n") for name in counted]
plots.bars(panels, labels=labels, ylabel="millions", alt=alt)

# %%
print("Lan et al. (2020), table 2:")
for name, (millions, average, speed) in arms.SIZES_OF_PAPER.items():
    print(f"{name:15} {millions:4} M parameters, average of five tasks {average}, speed of training {speed}")
print("tables 3 and 4, the same average for ALBERT-base:")
for width, (separate, shared) in arms.WIDTHS_OF_PAPER.items():
    print(f"E = {width:3}: {separate} with layers of their own, {shared} with shared ones")
print("E = 128, layers share", ", ".join(f"{what}: {score}" for what, score in arms.SHARED_OF_PAPER.items()))

# %% [markdown]
# ALBERT-base has a ninth of BERT-base's parameters and all of its multiply-adds. The xxlarge model has two thirds of
# BERT-large's parameters and 8 times its multiply-adds: compact is not fast. The paper gives it 0.3 times the speed of
# BERT-large, in training on many machines. There, ALBERT-large is 1.7 times as fast as BERT-large, although it does as
# many multiply-adds: it has fewer gradients to exchange. In tables 3 and 4, a narrow table costs little accuracy, and
# so does sharing the attention; most of the loss comes from sharing the feed-forward part. Each entry is from one
# model, so differences of a few tenths mean nothing.
#
# The largest of these models had not overfitted its text after a million steps. Its authors then removed dropout and
# added text, and report that both helped (section 4.8).
#
# ### The same questions at a small size
#
# The course asks the same of a small model: four layers of width 64, and a table of 2,000 pieces. It starts from
# nothing and learns in 400 steps to predict the next piece of documentation. Rates were searched with one seed. The
# models with $E = 16$ and those that share one part were not searched: they have the rate of the others with layers.
# Its layers share something, or its table is narrower than 64. The runs came with the course, five seeds for each
# model; you need not make them.
#
# Two models are **controls**. One was added after the first runs: it has a single layer, and as many numbers as the
# model whose four layers share all. The other has no layers: it says what layers are worth.

# %% tags=["experiment"]
ablated = sharing.recorded()
sharing.table(ablated, arms.SHARED_OF_PAPER)

# %% tags=["experiment"]
alt = "Validation loss against how many numbers learn, a point for each model: the four ways to share have nearly the "
alt += "same loss, and so has one layer; without layers the loss is higher, with a narrow table far higher."
sharing.picture(ablated, alt)

# %% tags=["experiment"]
listed(SeedTable(ablated, sharing.METRICS[0]).compared(sharing.questions()))

# %% [markdown]
# Sharing all parts costs 0.03 nats, which is shown. Sharing one part costs less, and that is not shown. Without any
# layer the loss is 0.19 nats higher, so sharing looks cheap.
#
# Now read the other control. A single layer has as many numbers as four layers that share all, and a quarter of their
# multiply-adds. It is not shown to be worse, and its mean is even better. In such a short training it is only 0.02 nats
# behind four separate layers, so sharing has little to lose. These runs do not show whether sharing keeps the benefits
# of depth. For that, one needs a training in which depth helps.
#
# A narrow table costs little in ALBERT's table 3 and much here. With $E = 16$ the loss is 0.63 nats higher. Without any
# layer, it rises by less than a third of that. One reason may be that scores have rank $E$ at most: ALBERT's narrowest
# table is 64 wide. Another may be that a narrow table learns more slowly, and its rate was not searched at $E = 16$.
# These runs do not separate them.

# %% [markdown]
# ## 12.4 What can go
#
# **Pruning** sets weights to zero. Which ones? The simplest rule is hard to beat: those with the smallest magnitude.
# All matrices are compared together, so a matrix with many small weights loses more of them than another.
#
# A mask has the shape of the weights, and is True where a weight stays. Biases and norms are few, and they matter: only
# the weights that are named take part.
#
# **Predict first.** A layer's matrices begin with different scales. With one threshold for all, which of them lose
# most?
#
# **Exercise 12.4** (2 points, about 20 minutes, medium). Write `magnitude_masks`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.cat` of all flattened magnitudes; `argsort` or `topk(k, largest=False).indices`; `split` with a list of
# lengths. </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A threshold cuts all weights that equal it. A new bias or an untrained part may have a thousand equal weights.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# all magnitudes in one row; the places of the smallest; a row of True; set those places to False; cut it into the
# shapes.
# </details>


# %%
predict("12.4", "b", a="those with a large scale", b="those with a small scale", c="all alike")


# %% exercise="12.4"
def magnitude_masks(model, sparsity, names):
    """Which of the named weights stay when the smallest go: a dict from each name to a bool tensor of its shape.

    sparsity: the share that goes, 0 to 1, of all named weights together: exactly round(sparsity * their number), by
    Python's `round`, those of the smallest magnitude; of equal ones any. names: one or more of those that
    `named_parameters()` gives. Masks lie where the weights do. The model is not changed.
    """
    ### BEGIN SOLUTION
    named = dict(model.named_parameters())
    row = torch.cat([named[name].detach().abs().flatten() for name in names])
    stays = torch.ones_like(row, dtype=torch.bool)
    stays[row.argsort()[: round(sparsity * len(row))]] = False
    parts = stays.split([named[name].numel() for name in names])
    return {name: part.view(named[name].shape) for name, part in zip(names, parts)}
    ### END SOLUTION


# %% check="12.4"
checks.magnitude_masks(magnitude_masks)

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
names = [name for name, part in layer.named_parameters() if part.dim() == 2]
levels = (0.5, 0.9, 0.97)
left = {level: magnitude_masks(layer, level, names) for level in levels}
print(*(f"{name}: standard deviation {layer.get_parameter(name).std().item():.3f}" for name in names), sep="\n")

# %%
alt = (
    "The share of weights that stay in each matrix of a new layer, at three sparsities: the map in front of attention "
)
alt += "keeps most; of the one with the smallest weights nothing is left at the higher two."
plots.bars(
    {f"{level:.0%} cut": [100 * mask.float().mean().item() for mask in left[level].values()] for level in levels},
    labels=[name.removesuffix(".weight").replace(".", "\n") for name in names],
    ylabel="% that stay",
    alt=alt,
)

# %% [markdown]
# Matrices with small scales lose most: when nine tenths of all weights are cut, nothing is left of the last matrix and
# a quarter of the first. A separate threshold for each matrix would avoid that, but it would also cut matrices that
# need all their weights. Masked matrices have the same size as before: nothing is faster yet.
#
# **Play.** There are two matrices, one of them with larger weights. At which share is the other one empty?

# %%
pair = nn.ModuleDict({"left": nn.Linear(16, 16, bias=False), "right": nn.Linear(16, 16, bias=False)})
size = {name: part.weight.detach().abs().clone() for name, part in pair.items()}


def what_stays(sparsity, times_larger):
    with torch.no_grad():
        for name, times in (("left", 1), ("right", times_larger)):
            pair[name].weight.copy_(size[name] * times)
    masks = magnitude_masks(pair, sparsity, ["left.weight", "right.weight"])
    left = masks["left.weight"].float().mean()
    alt = f"{sparsity:.0%} go, the right matrix is {times_larger} times larger: {left:.0%} of the left one stay."
    panels = {name.removesuffix(".weight"): mask for name, mask in masks.items()}
    return plots.heatmaps(panels, xlabel="input", ylabel="output", alt=alt)


interactive(what_stays, sparsity=[0.0, 0.3, 0.5, 0.7, 0.9, 0.97], times_larger=[1, 1.5, 2, 4], start={"sparsity": 0.5})

# %% [markdown]
# ## 12.5 Back to the start
#
# If you cut weights after training, accuracy falls. If you train further, it comes back. The **lottery ticket** goes
# further: set the weights that stay **back to their values before training**, and train only those. Does the small
# network learn as well as the large one?
#
# For that, a snapshot must be a copy, and zeros must stay zeros. A gradient of zero is not enough: Adam's moving
# averages still push. If each round cuts a share $r$ of the weights that are left, the sparsity after $n$ rounds is
#
# $$1 - (1 - r)^n.$$
#
# **Predict first.** Each round cuts a fifth. After how many rounds is less than a tenth left?
#
# **Exercise 12.5** (3 points, about 25 minutes, hard). Write all four.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.clone`; `Tensor.mul_` inside `torch.no_grad()`; `model.load_state_dict` copies into the existing tensors.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `state_dict()` gives the tensors themselves: a snapshot of these changes with training, and rewinding does nothing.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# train_step: zero the gradients, loss, backward, step, then each named weight times its mask, without a gradient.
# </details>


# %%
predict("12.5", 11)


# %% exercise="12.5"
def snapshot(model):
    """A dict by name of copies of all that the state dict holds: no other buffers, and a shared matrix by each name."""
    ### BEGIN SOLUTION
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
    ### END SOLUTION


def rewind(model, saved, masks):
    """Set the model back, in place, to what `snapshot` gave, with zeros where a mask is False. It keeps its parameters.
    masks: a dict by name, bool; a shared matrix has one by each of its names, or by none. `saved` and `masks` stay."""
    ### BEGIN SOLUTION
    model.load_state_dict(saved)
    with torch.no_grad():
        for name, mask in masks.items():
            model.get_parameter(name).mul_(mask)
    ### END SOLUTION


def train_step(model, optimizer, x, labels, masks):
    """One step on the mean cross-entropy of model(x), (N, C), and labels (N); returns the loss before it, a float or a
    tensor () without a gradient. What does not stay (masks: by named_parameters(), perhaps empty) is zero afterwards,
    whatever the optimizer keeps; others move as without masks. Earlier gradients do not count. The mode is kept."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for name, mask in masks.items():
            model.get_parameter(name).mul_(mask)
    return loss.item()
    ### END SOLUTION


def sparsity_after(rounds, rate):
    """The share of weights that is gone after `rounds`, 0 or more, that cut a share `rate`, 0 to 1, of what is left."""
    ### BEGIN SOLUTION
    return 1 - (1 - rate) ** rounds
    ### END SOLUTION


# %% check="12.5"
checks.rewinding(snapshot, rewind, train_step, sparsity_after)

# %%
torch.manual_seed(0)
x = torch.randn(512, 10)
labels = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
start, names, losses = snapshot(net), ["0.weight", "2.weight"], {}


def trained(masks, steps=150):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    return [train_step(net, optimizer, x, labels, masks) for _ in range(steps)]


# %%
losses["all weights"] = trained({})
masks = magnitude_masks(net, sparsity_after(10, 0.2), names)
rewind(net, start, masks)
losses["a tenth, rewound"] = trained(masks)
for name, mask in masks.items():
    masks[name] = mask.flatten()[torch.randperm(mask.numel())].view(mask.shape)
rewind(net, start, masks)
losses["a tenth, anywhere"] = trained(masks)

# %%
alt = "The training loss of a small net: with all weights, with the tenth that was largest after training, set back to "
alt += "where it began, and with a tenth at places drawn at random, which learns least."
plots.curves(losses, xlabel="step", ylabel="loss", alt=alt)

# %% [markdown]
# After ten rounds 11% are left, and after 11 rounds less than a tenth. It matters which tenth it is: the chosen places
# learn more than random ones. The experiment asks whether the places or the values count.
#
# Rewinding to the first step works for networks as small as these. For larger networks it fails, but rewinding to a
# step early in training works (**late rewinding**, Frankle et al. 2020).

# %% [markdown]
# ## 12.6 What a teacher says
#
# A label says: cat. A trained model says: probably a cat, perhaps a lynx, certainly not a car. A small model can learn
# from these **soft labels** (Hinton et al. 2015). A temperature $T$ makes both distributions softer, and the factor
# $T^2$ keeps the size of the gradients:
#
# $$\alpha\, T^2\, \text{KL}\big(p_{\text{teacher}}^{(T)} \,\|\, p_{\text{student}}^{(T)}\big) + (1 - \alpha)\,
# \text{CE}(\text{labels}, p_{\text{student}}^{(1)}), \qquad p^{(T)} = \text{softmax}(z / T).$$
#
# Both parts are means over the examples. The teacher gets no gradient.
#
# **Predict first.** What is the gradient of the first part for a logit of the student, when $T$ is very large?
#
# **Exercise 12.6** (3 points, about 20 minutes, medium). Write `distillation_loss`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")` is KL(p || q): its first argument belongs to the
# student.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `reduction="mean"` also divides by the number of classes.
# </details>


# %%
predict(
    "12.6",
    "b",
    a="nearly 0",
    b="the centred difference of the logits, over the number of classes",
    c="larger and larger",
)


# %% exercise="12.6"
def distillation_loss(student, teacher, labels, T, alpha):  # (N, C), (N, C), (N,) -> one number
    """Hinton's loss, a tensor with one number; gradients flow to the student alone.

    student, teacher: logits (N, C), finite and of any size. labels: (N), int64. T: above 0. alpha: 0 to 1, the weight
    of the soft part.
    """
    ### BEGIN SOLUTION
    wanted = (teacher.detach() / T).softmax(-1)
    apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
    return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
    ### END SOLUTION


# %% check="12.6"
checks.distillation_loss(distillation_loss)

# %%
z_student, z_teacher = torch.tensor([[0.5, 0.0, -1.0, 0.5]]), torch.tensor([[4.0, 3.0, -2.0, -5.0]])
slopes = {}
for T in (1, 2, 4, 20):
    z = z_student.clone().requires_grad_()
    distillation_loss(z, z_teacher, torch.tensor([0]), T, alpha=1.0).backward()
    slopes[f"T = {T}"] = z.grad[0]
gap = z_student - z_teacher
slopes["logits"] = ((gap - gap.mean()) / 4)[0]

# %%
alt = "The gradient for each of four classes at four temperatures: at 20 it is nearly a quarter of the difference of "
alt += "logits, also for the classes that the teacher rules out."
plots.bars(slopes, labels=["cat", "lynx", "dog", "car"], ylabel="gradient", alt=alt)

# %% [markdown]
# With a large $T$, the gradient is the difference of the centred logits, divided by the number of classes: distillation
# becomes matching logits. With $T = 1$ it hardly matters how low the teacher puts dog and car; with a large $T$ it
# does.
#
# DistilBERT (Sanh et al. 2019) learned from BERT-base with such a loss, while it filled in blanks itself. It has half
# of the layers and 40% fewer parameters, and is 60% faster. By its authors' account it keeps 97% of the teacher's score
# on GLUE.

# %% [markdown]
# ## 12.7 Small or fast?
#
# Say "faster" only after measuring. The first calls of a model are slow (memory, caches), and a later call may be slow
# because something else runs. So make some calls that do not count, then take the **median** of several, each timed
# separately.
#
# Then compare. A row of a table is **dominated** if another row is at least as good in every column, and better in one.
# Only undominated rows are worth choosing from.
#
# **Predict first.** There are four models: six layers, six passes through one layer, two layers, and six layers with
# nine tenths of the weights cut. Which are undominated in size and time?
#
# **Exercise 12.7** (2 points, about 20 minutes, medium). Write `time_per_example` and `undominated`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `statistics.median`; `torch.no_grad()`; `all` and `any`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Accuracy is better when larger, size and seconds when smaller. A row does not dominate an equal row.
# </details>


# %%
predict("12.7", "b", a="the two layers alone", b="the two layers, and one other", c="all four")


# %% exercise="12.7"
def time_per_example(model, batch, repeats=9, warm_up=3, clock=time.perf_counter):
    """The median time of a forward pass of `model(batch)`, divided by the number of examples, in seconds.

    batch: a tensor (N, ...) on the CPU, N of 1 or more. The model is called `warm_up` times first, which do not count,
    and then `repeats` times (1 or more), each timed by itself, without what comes between calls: `clock()` gives the
    time in seconds. It is in evaluation mode, no gradients are recorded, and it is left in the mode in which it was:
    all its parts come in one mode.
    """
    ### BEGIN SOLUTION
    was_training, times = model.training, []
    model.eval()
    with torch.no_grad():
        for _ in range(warm_up + repeats):
            began = clock()
            model(batch)
            times.append(clock() - began)
    model.train(was_training)
    times = sorted(times[warm_up:])
    return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
    ### END SOLUTION


def undominated(rows):
    """The places of the rows that no other row dominates, a list of ints in ascending order.

    rows: a list of (accuracy, parameters, seconds), perhaps empty. More accuracy is better; of parameters and seconds
    fewer are. Numbers are compared as they are, without a tolerance. A row dominates another if it is nowhere worse and
    somewhere better: equal rows do not.
    """
    ### BEGIN SOLUTION
    costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]

    def dominates(one, other):
        return one != other and all(a <= b for a, b in zip(one, other))

    return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
    ### END SOLUTION


# %% check="12.7"
checks.measuring(time_per_example, undominated)

# %%
torch.manual_seed(0)


def new_layer():
    return nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)


kinds = {name: nn.Sequential(*(new_layer() for _ in range(count))) for name, count in {"six": 6, "two": 2}.items()}
kinds["one, six times"] = SharedEncoder(new_layer(), 6)
kinds["six, cut"] = nn.Sequential(*(new_layer() for _ in range(6)))
matrices = [name for name, part in kinds["six, cut"].named_parameters() if part.dim() == 2]
masks = magnitude_masks(kinds["six, cut"], 0.9, matrices)
rewind(kinds["six, cut"], snapshot(kinds["six, cut"]), masks)

# %%
batch, table = torch.randn(16, 32, 64), []
for name, model in kinds.items():
    stored = sum(int((part != 0).sum()) for part in model.parameters())
    table.append((0.0, stored, time_per_example(model, batch)))
    print(f"{name:15} {stored:8,} numbers that are not 0, {1000 * table[-1][2]:.3f} ms an example")
print("undominated in size and time:", [list(kinds)[place] for place in undominated(table)])

# %%
alt = "Time of an example for four encoders on this machine: six layers, one layer six times, and six layers with "
alt += "zeros take about as long as each other; two layers a third of it."
labels = [name.replace(", ", ",\n") for name in kinds]
plots.bars({"ms an example": [1000 * row[2] for row in table]}, labels=labels, ylabel="ms an example", alt=alt)

# %% [markdown]
# Sharing saves numbers but no time, and so do zeros: a product with zero takes as long as any other, unless whole rows
# are removed or a library makes use of zeros. Only removing layers makes it faster. Which rows are undominated also
# depends on how zeros are stored.

# %% [markdown]
# ## Experiment: what is left, and what it learns
#
# The first task is a **lookup**: six keys with a value each, and a question about one of them. A model learns it. Then
# most of its layers' weights are cut by magnitude, and the rest is trained from the start, for as many steps. The
# second task has **sentences** from six libraries, few of them with a label. Several wide models learn from these
# labels and vote: they are the teacher. A small model learns from the same labels, or from the teacher's answers on all
# sentences.
#
# | arm | begins with | learns from |
# |---|---|---|
# | dense | new values | the lookup |
# | rewound, few or fewest | the dense model's first values | the same |
# | new values, few or fewest | new values, the same mask | the same |
# | shuffled mask, few or fewest | the first values, each mask's places shuffled | the same |
# | teacher | new values | sentences with labels |
# | own labels | new values | the same |
# | hard labels | new values | the teacher's best class, for all sentences |
# | soft labels | new values | the teacher's probabilities, for all sentences |
#
# `COURSE_PROFILE` decides the size: `cpu` is small, `gpu` has a larger teacher, and `smoke` is tiny, with made-up words
# and milder cuts. Smoke runs show that everything works, but earn no points.
#
# <!-- box: size gpu -->

# %% tags=["experiment"]
experiments = arms.experiments("12_smaller_models")
print(f"{profiles.name()} on {profiles.device()}, seeds {arms.seeds()}")
for name, one in experiments.items():
    print(f"{name:22} {one.steps} steps of {one.batch}", f"{one.sparsity:.0%} cut" if one.sparsity else "")

# %% tags=["experiment"]
mine = {
    "magnitude_masks": magnitude_masks,
    "snapshot": snapshot,
    "rewind": rewind,
    "train_step": train_step,
    "distillation_loss": distillation_loss,
}
student.use(checks, **mine)
results = results_folder(say=True)

# %% [markdown]
# The runs use your functions of 12.4 to 12.6 if you have passed their checks in this session; otherwise they use the
# course's. If one of your functions gives a different result, the runs use the course's version. That holds even if
# your result is just as good (a sum taken in another order, say). The grader must be able to repeat a run without your
# code.

# %% [markdown]
# ## All runs
#
# Every run writes one file: for each test example, the predicted class and how far the right class was ahead. The judge
# computes the accuracy from it. An edited or copied file is refused, and so is a seed that is not yours.
#
# **Predict first.** With the fewest weights, does the rewound model reach the dense one? Which hurts more: new values
# at the same places, or the old values at other places? And can a small model that learns only from the teacher's
# answers be better than one with true labels?
#
# The runs take minutes. Interrupt them whenever you like: finished seeds are kept.

# %% tags=["experiment"]
runs = {name: run_seeds(one, arms.seeds(), results) for name, one in experiments.items()}
across(runs, arms.METRICS)

# %% [markdown]
# ## 12.8 Runs that never get there
#
# How many steps does an arm need? Some runs never learn. Leaving them out makes the worst arm look quick: only its
# lucky runs are counted. Their number of steps is unknown but larger than any observed number, and a **median** can
# deal with that: sort these runs to the end, and take the middle. If the middle is such a run, there is no median.
#
# **Exercise 12.8** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `typical_steps`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `sorted`, with `math.inf` for runs that never got there.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# An even number of runs has two in the middle: take their mean, if both have a number.
# </details>


# %% exercise="12.8"
def typical_steps(steps):
    """The median number of steps until a run has learned; None if the median run, or one of two, never did.

    steps: a list of the numbers of steps of each run, from 0 to a billion, None where it never learned; not empty, and
        not sorted.
    Of an even number of runs the median is the mean of the two in the middle.
    """
    ### BEGIN SOLUTION
    known = sorted(math.inf if one is None else one for one in steps)
    median = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
    return None if math.isinf(median) else median
    ### END SOLUTION


# %% check="12.8"
checks.typical_steps(typical_steps)

# %% tags=["experiment"]
for name in (name for name, one in experiments.items() if one.is_lookup):
    steps = [arms.steps_until(run) for run in runs[name]]
    typical = typical_steps([None if math.isinf(one) else one for one in steps])
    print(f"{name:22} median of the steps until {arms.LEARNED:.0%}: {'never' if typical is None else typical}")

# %% tags=["experiment"]
lookups = [name for name, one in experiments.items() if one.is_lookup]
alt = "Your runs: the accuracy of lookups at each step, for the dense model and six that were cut."
arms.picture(runs, lookups, alt)

# %% tags=["experiment"]
for name in lookups:
    print(f"{name:22} steps until {arms.LEARNED:.0%}:", [arms.steps_until(run) for run in runs[name]])

# %% [markdown]
# Which differences does the table show? All students make the same comparisons.

# %% tags=["experiment"]
table = SeedTable(runs, arms.METRICS[0])
print(*table.compared(arms.questions(runs)), sep="\n\n")

# %% [markdown]
# Now accuracy against size and time. Size counts numbers that are not zero; your `time_per_example` measures the time
# here.

# %% tags=["experiment"]
from utils.experiments.smaller import train as trainer

rows = {}
for name in ("dense", "rewound, few", "rewound, fewest", "teacher", "soft labels"):
    model, x, stored = trainer.sized(experiments[name], arms.seeds()[0])
    accuracy = sum(arms.METRICS[0].of(run) for run in runs[name]) / len(runs[name])
    rows[name] = (accuracy, stored, time_per_example(model, x[:100]))
    print(f"{name:16} {accuracy:5.1f}% {stored:9,} numbers {1e6 * rows[name][2]:7.1f} microseconds an example")

# %% tags=["experiment"]
alt = (
    "Accuracy against numbers that are not zero, and against time. Lookups: cut models are far to the left in size and "
)
alt += "not in time. Sentences: the taught model is smaller, and takes longer."
arms.trade_off(rows, alt)

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has.

# %% tags=["experiment"]
recorded = arms.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, arms.METRICS) if recorded else None

# %% tags=["experiment"]
alt = "The recorded runs, as above: rewound models learn soonest."
arms.picture(recorded, lookups, alt) if recorded else None

# %% tags=["experiment"]
print(*SeedTable(recorded, arms.METRICS[0]).compared(arms.questions(recorded)), sep="\n\n")

# %% [markdown]
# **Lookups.** A hundredth of the weights is enough: every rewound model ends with all answers right, like the dense
# one, only later. After 300 steps the same number of weights at shuffled places has 87% on average, and that
# difference is shown. New values at the right places have 94%, behind every rewound model. By the rule of this course
# that is not shown: over seeds the difference is from 0.4 to 11.4 points, and p = 0.082 after the correction. So here
# five seeds leave open whether the values also count. With few weights, three in a hundred, all arms get everything
# right, but at different steps: rewound models first have 90% right at step 75 or 100, the others at 150 or later. So
# with these the values count too, by when a model learns: new values at the same places need 70 steps more with the
# same seed (from 44 to 96), which is not among the comparisons.
#
# The 300 steps were chosen so that arms differ: in trials with two of these five seeds, all arms had everything right
# after 400 steps. So these runs show that the places, together with the first values there, decide **how soon** a model
# learns: other places also have other first values. New values at the right places were not compared with shuffled
# places. Nor do the runs show that a model cannot learn with other places. All arms use the same learning rate, here
# and for the sentences; no search for it is recorded. For the sentences, only the teacher has another rate.
#
# **Sentences.** Soft labels are 2.0 points ahead of hard ones, with the same teacher and the same sentences: a small
# difference, but it is shown. It may be too large: the number of labels and the temperature were chosen in trials with
# three of these five seeds, on these test sentences. The teacher itself has 40%, and guessing 17%. The 2.6 points by
# which soft labels are ahead of true labels for fewer sentences are not shown.
#
# **Time.** Zeros make nothing faster. And the taught model has far fewer numbers than its teacher but takes longer:
# this teacher only looks words up and adds them. All this is from one easy task, one cut, and one kind of sentence: it
# is not a general law.

# %% [markdown]
# **Question 12.W1** (2 points). Consider a narrow table, shared layers, a mask over nine tenths of the weights, and a
# small model that was taught by a large one. For each, say whether it is smaller on disk, needs less memory in
# training, and is faster on your machine, and why. Give your measured times.

# %% [markdown] written="12.W1" points=2
# ### BEGIN SOLUTION
# Narrow table: smaller on disk and in memory (table, gradients, optimizer); hardly faster, as a lookup is not a product
# (the output layer is: it is faster where scores are computed, V E instead of V d). Shared layers: smaller on disk; in
# training, weights, gradients and optimizer shrink, while the states of all passes are kept; not faster, as every pass
# is computed (my times: six layers take as long as one layer six times). Mask: smaller on disk only if the remaining
# weights are stored with their places, without the zeros; no less memory in training (weights, mask, gradients and
# averages are as large as before); not faster with dense products. Small taught model: smaller, needs less memory, and
# is faster, since there are fewer products (two layers take a third of the time of six); training also costs the
# teacher's passes. But the student of 12.8 has fewer parameters than its teacher and is slower, since that teacher only
# adds up word vectors. Times have to be measured.
# === BEGIN MARK SCHEME ===
# One point: which are smaller on disk, and that a mask makes a model smaller only if it is stored in another way.
# One point: only a model with fewer products is much faster, with measured times (of any of the small models).
# Half a point off for "fewer parameters are faster".
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 12.W2** (2 points). What does a soft label say that a hard one does not? Where does your table (in the
# profile `smoke`: the recorded one) show it, and what else differs between your arms "own labels" and "soft labels"?
# When would you expect no difference between soft and hard labels?

# %% [markdown] written="12.W2" points=2
# ### BEGIN SOLUTION
# A hard label names one class. A soft label also says how sure the teacher is, and which other
# classes are similar. An ambiguous sentence changes the student less. A wrong guess of the teacher mostly has a low
# probability, so it does less harm than the same guess as a hard label. The table shows it between "hard labels" and
# "soft labels": the same teacher, sentences, steps and student; only the kind of label differs. Between "own labels"
# and "soft labels" the sentences differ too: 300 with true labels against all of them without. There two things differ,
# the amount of text and the softness of labels; "hard labels" separates them. In the recorded runs only the softness is
# shown to count: "soft labels" are not shown to be ahead of "own labels", and "hard labels" were not compared with "own
# labels". No difference is to be expected where the teacher is sure and right about everything, as for lookups, or
# where the student sees so few sentences that it memorises them all.
# === BEGIN MARK SCHEME ===
# One point: what soft labels carry (similar classes, certainty), and the pair hard against soft as its evidence, or "my
# runs do not show it" where they do not. One point: own against soft differs in the sentences too (or in how often each
# is read); a case without a difference (a teacher that is sure). That more text counts is not shown by the recorded
# runs. Also right, and no reason to take points: the recorded difference may be too large, since its settings were
# chosen with three of the recorded seeds.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("12_smaller_models")

# %% [markdown]
# **What you can do now:** say whether a trick saves numbers, products or seconds, and measure time so that others
# believe it. You can also prune a network, find out which of its parts matter, and teach a small model with a large
# one.

# %%
scoreboard(checks)

# %% [markdown]
# ## 12.S1 Fewer bits
#
# This stretch exercise has a check, but it is not graded.
#
# A fifth way is fewer **bits** for each number. Round each row of a matrix to whole numbers from $-m$ to $m$, and keep
# one scale for the row:
#
# $$m = 2^{b - 1} - 1, \qquad s_i = \max_j |W_{ij}| / m, \qquad c_{ij} = \text{round}(W_{ij} / s_i).$$
#
# With 8 bits, a file of 32-bit numbers shrinks to a quarter of its size. No weight moves by more than half a scale.
#
# **Predict first.** One weight of a row is a hundred times as large as each of the others. What is left of the others
# with 4 bits?
#
# **Exercise 12.S1** (not graded, about 10 minutes, easy). Write `quantise`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.amax(1, keepdim=True)`; `Tensor.round`; `Tensor.to(torch.int8)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A row of zeros has a scale of 0, and 0 / 0 is NaN. Give it any scale above 0.
# </details>


# %%
predict("12.S1", "a", a="nothing", b="a quarter of them", c="all, less precise")


# %% stretch="12.S1"
def quantise(weight, bits):
    """Codes, an int8 tensor (n, m), and scales, a float tensor (n, 1): codes times scales are nearly the weight (n, m).

    The codes go from -(2^(bits-1) - 1) to its opposite, bits from 2 to 8. A row of zeros gives zeros.
    """
    ### BEGIN SOLUTION
    largest = 2 ** (bits - 1) - 1
    scales = weight.abs().amax(1, keepdim=True) / largest
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    return (weight / scales).round().to(torch.int8), scales
    ### END SOLUTION


# %% check="12.S1"
checks.quantise(quantise)

# %% tags=["experiment"]
model, x, _ = trainer.sized(experiments["dense"], arms.seeds()[0])
kept, agree = snapshot(model), {}
labels = model(x).argmax(-1)
for bits in (8, 6, 5, 4, 3, 2):
    for name, part in kept.items():
        codes, scales = quantise(part if part.dim() == 2 else part[None], bits)
        model.state_dict()[name].copy_((codes * scales).view(part.shape))
    agree[bits] = 100 * (model(x).argmax(-1) == labels).float().mean().item()

# %% tags=["experiment"]
alt = "The share of test lookups that a model answers as before when all its numbers have fewer bits: all of them down "
alt += "to few bits, and less with two."
plots.bars({"as before": [*agree.values()]}, labels=list(map(str, agree)), xlabel="bits", ylabel="% as before", alt=alt)
