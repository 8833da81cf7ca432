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
# # 3. Where the parameters sit
#
# How large is a model? One number never says why. Here you write the closed form of
# every part, from the embedding to BERT with adapters, and each is checked against what
# torch, transformers and adapters really build.
#
# Letters, here and below: `V` tokens in the vocabulary, `D` the width of the model, `F`
# the width inside the feed-forward part, `L` layers, `H` heads, `C` classes. One model comes
# back again and again: that of the lab exercise from which this course grew. The lab's language
# model has `V` = 50,001, `D` = `F` = 200, `L` = 4 and `H` = 2.
#
# Write formulas, not modules: building the part and asking it, or torch's counters, is not
# allowed in an answer. In a cell of your own you may test yourself with them. Each exercise stands on
# its own, and most are one line. In grading, private checks ask for other sizes, down to 1, and for
# the limits that a docstring names. Together the exercises take about two hours and need no GPU; the
# measurements at the end take a minute.

# %% tags=["setup"] needs="adapters"

# %%
import math

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from utils import counting, plots, profiles, training
from utils.check import scoreboard
from utils.checks import nb03_parameter_counting as checks

# %% [markdown]
# ## 3.1 A row for each token
#
# A model cannot read words. It looks up a row of $D$ numbers for each of its $V$ tokens,
# and the table of these rows is learned. Positions come in two kinds: learned ones are a
# second table, of $P$ rows; sinusoidal ones are computed from a formula.
#
# $$x_t = E_{w_t} + \mathrm{position}_t, \qquad E \in \mathbb{R}^{V \times D}.$$
#
# **Predict first.** How many parameters do sinusoidal positions add?
#
# **Exercise 3.1** (1 point, about 5 minutes). Write `embedding`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Embedding(7, 3).weight.shape` shows what such a table is.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# An embedding has no bias. It would be the same for all tokens.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# rows of tokens plus rows of positions, times the width.
# </details>


# %% exercise="3.1"
def embedding(V, D, P=0):
    """Parameters of the embedding of V tokens and of P learned positions; P = 0: sinusoidal positions."""
    ### BEGIN SOLUTION
    return (V + P) * D
    ### END SOLUTION


# %% check="3.1"
checks.embedding(embedding)

# %%
print(f"lab, sinusoidal positions:  {embedding(50_001, 200):,}")
print(f"lab, 512 learned positions: {embedding(50_001, 200, 512):,}")

# %% [markdown]
# Sinusoidal positions add nothing, and learned ones almost nothing: a position is one
# more row, and there are far fewer positions than words.

# %% [markdown]
# ## 3.2 Attention
#
# Queries, keys and values are three linear maps of the same input, $D$ wide. Each of $H$
# heads reads its own $D/H$ columns of them. The joined heads pass through a fourth map:
#
# $$\mathrm{output} = [\mathrm{head}_1; \dots; \mathrm{head}_H]\, W_O^\top + b_O.$$
#
# A linear map from $m$ to $n$ numbers is a matrix of $n \times m$ and a bias of $n$.
#
# **Predict first.** You double the number of heads. What happens to the number of
# parameters?
#
# **Exercise 3.2** (1 point, about 10 minutes). Write `attention`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.MultiheadAttention` keeps Q, K and V in one matrix, `in_proj_weight`, and the fourth
# map in `out_proj`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# $H$ is an argument. That does not mean that the count depends on it.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# four times a matrix from D to D; four times a bias of D, if there is one.
# </details>


# %% exercise="3.2"
def attention(D, H, bias=True):
    """Parameters of multi-head self-attention of width D with H heads; `bias`: whether its maps have one."""
    ### BEGIN SOLUTION
    return 4 * (D * D + D * bias)
    ### END SOLUTION


# %% check="3.2"
checks.attention(attention)

# %%
for H in (1, 2, 8, 25):
    print(f"{H:2} heads: {attention(200, H):,}")

# %% [markdown]
# Heads change nothing. They decide how the same matrices are read. What they do change,
# time and memory, comes in the last exercise.

# %% [markdown]
# ## 3.3 Feed-forward
#
# After the tokens have exchanged what they know, each is worked on alone: a map to $F$
# numbers, a ReLU, and a map back.
#
# $$\mathrm{ffn}(x) = W_2\, \mathrm{relu}(W_1 x + b_1) + b_2, \qquad
# W_1 \in \mathbb{R}^{F \times D}, \; W_2 \in \mathbb{R}^{D \times F}.$$
#
# The lab sets $F = D$. BERT, like the first Transformer, sets $F = 4D$.
#
# **Predict first.** In BERT, which part of a layer is larger, the attention or this one?
# By what factor?
#
# **Exercise 3.3** (1 point, about 5 minutes). Write `feed_forward`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Linear(3, 7).bias.shape` shows how long a bias is.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The two biases differ in length.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# matrix there, matrix back; if there are biases, one of F and one of D.
# </details>


# %% exercise="3.3"
def feed_forward(D, F, bias=True):
    """Parameters of two linear maps, from D to F and back; `bias`: whether they have one."""
    ### BEGIN SOLUTION
    return 2 * D * F + (F + D) * bias
    ### END SOLUTION


# %% check="3.3"
checks.feed_forward(feed_forward)

# %%
for name, D, F in (("lab", 200, 200), ("BERT-base", 768, 4 * 768)):
    print(f"{name:9}: feed-forward {feed_forward(D, F):9,}, without biases {feed_forward(D, F, bias=False):9,}")

# %% [markdown]
# With $F = 4D$, two matrices of $4D^2$ stand against the four matrices of $D^2$ of the
# attention: twice as many numbers. Biases hardly count.

# %% [markdown]
# ## 3.4 Norms
#
# A layer norm centres each token's vector, divides it by its standard deviation, and then lets the
# model choose another scale and shift for every column. RMSNorm, which many newer models
# use, neither centres nor shifts.
#
# $$\mathrm{LayerNorm}(x) = \gamma \odot \frac{x - \mathrm{mean}}{\mathrm{std}} + \beta,
# \qquad \mathrm{RMSNorm}(x) = \gamma \odot \frac{x}{\mathrm{rms}}.$$
#
# **Predict first.** Mean and standard deviation: are they parameters?
#
# **Exercise 3.4** (1 point, about 5 minutes). Write `norms`. A kind that it does not know
# is a typo and must not be counted.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `list(nn.RMSNorm(3).parameters())`, and the same for `nn.LayerNorm`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# An `else` accepts every typo.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# vectors for each kind: 2 or 1; an unknown kind raises; vectors times n times D.
# </details>


# %% exercise="3.4"
def norms(D, n=2, kind="layer"):
    """Parameters of n norms of width D; `kind` is "layer" (LayerNorm) or "rms" (RMSNorm).

    Raises:
        ValueError: another kind.
    """
    ### BEGIN SOLUTION
    if kind not in ("layer", "rms"):
        raise ValueError(f"unknown kind of norm: {kind}")
    return n * D * (2 if kind == "layer" else 1)
    ### END SOLUTION


# %% check="3.4"
checks.norms(norms)

# %%
print(f"all norms of the lab's model: {norms(200, n=2 * 4):,}")
print(f"all norms of BERT-base:       {norms(768, n=2 * 12 + 1):,}")

# %% [markdown]
# Mean and deviation come from the input, each time anew. Norms are the smallest part of
# a model, and among the first that one would miss.

# %% [markdown]
# ## 3.5 One layer
#
# A layer is attention, feed-forward part and two layer norms, all with biases. Add up
# and collect the powers of $D$: the result is worth knowing by heart.
#
# $$\mathrm{layer}(D, F) = \mathrm{attention} + \mathrm{ffn} + 2\, \mathrm{norm}.$$
#
# **Predict first.** For $F = D$ the answer is $a D^2 + b D$. What are $a$ and $b$?
#
# **Exercise 3.5** (2 points, about 10 minutes). Write `transformer_layer`, without calling
# your earlier answers: an error there should cost you nothing here.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.TransformerEncoderLayer(4, 1, 5).state_dict()` lists every matrix and vector. Find a
# place for each in your sum.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Counting $D$-long vectors, it is easy to lose one: four in the attention, one in the
# feed-forward part, four in the norms.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# attention (matrices, biases) plus feed-forward (matrices, biases) plus two norms.
# </details>


# %% exercise="3.5"
def transformer_layer(D, F):
    """Parameters of one layer of width D and inner width F, with all biases and two layer norms."""
    ### BEGIN SOLUTION
    return 4 * D * D + 2 * D * F + 9 * D + F
    ### END SOLUTION


# %% check="3.5"
checks.transformer_layer(transformer_layer)

# %%
print(f"lab:        {transformer_layer(200, 200):,}")
print(f"6D^2 + 10D: {6 * 200**2 + 10 * 200:,}")
print(f"BERT-base:  {transformer_layer(768, 4 * 768):,}")

# %% [markdown]
# For $F = D$ a layer holds $6D^2 + 10D$, in the lab 242,000. For $F = 4D$ it is close to
# $12D^2$. The number of tokens is nowhere in it: a layer does not know the vocabulary.

# %% [markdown]
# ## 3.6 The language model
#
# Embedding, $L$ layers, and a head: a linear map from $D$ to one logit for each token,
# with a bias. Positions are sinusoidal, and no norm follows the last layer. A **tied** head uses the
# embedding as its matrix and keeps a bias of its own.
#
# What one layer holds is an argument, so your answer to 3.5 is not at stake.
#
# **Predict first.** Which share of the lab's language model sits in its four layers?
#
# **Exercise 3.6** (2 points, about 10 minutes). Write `language_model`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `head.weight = embedding.weight` ties; `counting.LanguageModel` shows the line in its
# place. `model.parameters()` gives a shared table once.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The embedding has no bias, the head has one. It is as long as the head's output.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# tables (one if tied, else two) of V times D; L layers; a bias of V.
# </details>


# %% exercise="3.6"
def language_model(V, D, L, layer, tied=False):
    """Parameters of embedding, L layers of `layer` parameters each, and a head onto the vocabulary with a bias."""
    ### BEGIN SOLUTION
    tables = 1 if tied else 2
    return tables * V * D + L * layer + V
    ### END SOLUTION


# %% check="3.6"
checks.language_model(language_model)

# %%
for V in (50_001, 100):
    untied, tied = (language_model(V, 200, 4, 242_000, tied=tied) for tied in (False, True))
    print(f"V = {V:6,}: {untied:10,} parameters, {4 * 242_000 / untied:3.0%} of them in the layers; tied {tied:10,}")

# %% [markdown]
# 21,018,401 parameters, and 95% of them are two tables of the vocabulary, one at each
# end. With a vocabulary of 100 there are 1,008,100, nearly all of them in the layers.

# %% [markdown]
# ## 3.7 The classifier
#
# To classify, take the head off and put another on: $C$ outputs instead of $V$. The
# simplest head is one linear map. Some libraries put more before it, each from $D$
# to $D$; a ReLU or tanh between them costs nothing.
#
# $$\mathrm{head}(x) = W_k \tanh(\dots \tanh(W_1 x + b_1) \dots) + b_k,
# \qquad W_k \in \mathbb{R}^{C \times D}.$$
#
# **Predict first.** For $V = 100$ and two classes: which is larger, the language model or
# the classifier?
#
# **Exercise 3.7** (2 points, about 10 minutes). Write `classifier`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Linear(200, 2)`: how many rows, how many columns, how long is the bias?
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The new head replaces the old one. The embedding stays: a classifier reads words, too.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# embedding; L layers; head_layers - 1 maps from D to D; one map from D to C. All maps
# have biases.
# </details>


# %% exercise="3.7"
def classifier(V, D, L, layer, C, head_layers=1):
    """Parameters of embedding, L layers, and a head for C classes made of `head_layers` linear maps with biases.

    All maps of the head but the last lead from D to D.
    """
    ### BEGIN SOLUTION
    head = (head_layers - 1) * (D * D + D) + (D + 1) * C
    return V * D + L * layer + head
    ### END SOLUTION


# %% check="3.7"
checks.classifier(classifier)

# %%
for V in (50_001, 100):
    print(f"V = {V:6,}: {classifier(V, 200, 4, 242_000, 2):10,} with two classes")

# %% [markdown]
# 10,968,602 for the lab's vocabulary, 988,402 for the small one. Below its head each is
# the language model of 3.6, so only heads differ, and the larger head belongs to the
# vocabulary. A published report has the two small totals the wrong way round; a minute
# of asking which head is larger would have told.

# %% [markdown]
# ## 3.8 BERT
#
# BERT's base reads three tables, tokens, $P$ positions and $S$ segments, adds them and
# normalises. Its $L$ layers are those of 3.5. The **pooler** is one more linear map with a
# bias, from $D$ to $D$, on the first token.
#
# Heads of BERT are 64 wide, and $F = 4D$. BERT-base has 12 layers and 12 heads, so
# $D = 12 \cdot 64 = 768$. BERT-large has 24 layers and 16 heads.
#
# **Predict first.** How many times BERT-base is BERT-large: two, three, or four?
#
# **Exercise 3.8** (3 points, about 15 minutes). Write `bert`, and `bert_large`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `transformers.BertConfig()` prints the sizes of BERT-base, `vocab_size` among them.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# There is a norm before the first layer, one for the sum of the three tables.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# rows of the three tables times D; a norm; L layers; if there is a pooler, a map from D
# to D.
# </details>


# %% exercise="3.8"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    """Parameters of BERT's base: V tokens, P positions, S segments, a norm, L layers, and a pooler if it has one."""
    ### BEGIN SOLUTION
    total = (V + P + S) * D + 2 * D + L * layer
    return total + (D * D + D if pooler else 0)
    ### END SOLUTION


def bert_large():
    """The sizes of BERT-large: a dict with keys "D", "F" and "L"."""
    ### BEGIN SOLUTION
    D = 16 * 64
    return {"D": D, "F": 4 * D, "L": 24}
    ### END SOLUTION


# %% check="3.8"
checks.bert(bert, bert_large)

# %%
base = bert(30_522, 768, 12, 7_087_872)  # one layer of D = 768, as in 3.5
print(f"BERT-base {base:,}")
print(f"  with a linear head for 2 classes {base + 768 * 2 + 2:,}")
print(f"  with two layers in the head     {base + 768 * 768 + 768 + 768 * 2 + 2:,}")
print(f"BERT-large {bert(30_522, bert_large()['D'], bert_large()['L'], 12_596_224):,}")

# %% [markdown]
# 109,482,240 and 335,141,888: about three times as many. With a linear head for two
# classes the base has 109,483,778, with the two layers of the adapters library's head
# 110,074,370. One published report gives BERT-large a hidden size of 768: its own heads
# would not fit.

# %% [markdown]
# ## 3.9 What is left to train
#
# Fine-tuning often freezes a part: its numbers stay as they are, and only the rest is
# trained. Names have dots, as in torch: `encoder.layer.1` holds
# `encoder.layer.1.linear1.weight`, and `encoder` holds both.
#
# You get names and shapes, and a list of what is frozen: parts, or single parameters. A
# name that fits nothing is a typo, which would train everything without a word.
#
# **Predict first.** All but the head is frozen. What is left, with $V$ outputs, and with 2?
#
# **Exercise 3.9** (3 points, about 15 minutes). Write `trainable`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `math.prod(shape)`. For the empty shape `()` it gives 1, which is right.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `"encoder.layer.10".startswith("encoder.layer.1")` is true.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a parameter is inside a part if it has that name, or begins with it and a dot; raise if
# a part holds none; add up the products of the shapes of those that are in no part.
# </details>


# %% exercise="3.9"
def trainable(shapes, frozen):
    """How many numbers are left to train.

    Args:
        shapes: dict from the dotted name of each parameter to its shape, a list of sizes.
        frozen: list of names of parts or of single parameters. They may overlap.

    Raises:
        ValueError: a name in `frozen` fits no parameter.
    """
    ### BEGIN SOLUTION
    fixed = set()
    for part in frozen:
        inside = {name for name in shapes if name == part or name.startswith(part + ".")}
        if not inside:
            raise ValueError(f"nothing is called {part}")
        fixed |= inside
    return sum(math.prod(shape) for name, shape in shapes.items() if name not in fixed)
    ### END SOLUTION


# %% check="3.9"
checks.trainable(trainable)

# %%
for title, C in (("language model", None), ("two classes", 2)):
    model = counting.on_meta(counting.LanguageModel, **counting.LAB, C=C)
    shapes = {name: list(part.shape) for name, part in model.named_parameters()}
    for frozen in ([], ["layers.0", "layers.1"], ["embedding"], ["embedding", "layers"]):
        print(f"{title:14}  frozen: {', '.join(frozen) or '-':20}  left: {trainable(shapes, frozen):10,}")

# %% [markdown]
# "Only the head" means 402 numbers with two classes, and half of the model with the
# vocabulary.

# %% [markdown]
# ## 3.10 An adapter
#
# Instead of training BERT, add something small to each layer and train that. A
# **bottleneck adapter** goes from $D$ down to $r$ numbers, through a nonlinearity, and up again:
#
# $$\mathrm{adapter}(h) = h + W_{up}\, f(W_{down} h + b_{down}) + b_{up}, \qquad
# r = \lfloor D / \mathrm{reduction} \rfloor \ge 1.$$
#
# The adapters library calls one in each layer `seq_bn`, two in each layer `double_seq_bn`.
#
# **Predict first.** Which share of BERT-base is one `seq_bn` adapter with reduction 16?
#
# **Exercise 3.10** (2 points, about 10 minutes). Write `adapter`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `//` divides and rounds down; `max(1, ...)` sets a floor.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The two maps have biases of different lengths.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# r; matrix down and its bias; matrix up and its bias; times adapters in a layer, times
# layers.
# </details>


# %% exercise="3.10"
def adapter(D, L, reduction=16, per_layer=1):
    """Parameters of bottleneck adapters in L layers of width D, `per_layer` in each.

    The bottleneck is D over `reduction` wide, rounded down, and never less than 1. Both maps have biases.
    """
    ### BEGIN SOLUTION
    r = max(1, D // reduction)
    return L * per_layer * (2 * D * r + r + D)
    ### END SOLUTION


# %% check="3.10"
checks.adapter(adapter)

# %%
for reduction in (2, 16, 64):
    count = adapter(768, 12, reduction)
    print(f"reduction {reduction:2}: {count:9,} parameters, {count / 109_482_240:.2%} of BERT-base")

# %% [markdown]
# With reduction 16 it is 894,528, less than one percent. A task costs a file of a few
# megabytes, not of hundreds.

# %% [markdown]
# ## 3.11 Fusion
#
# Three adapters for three tasks: which one helps a fourth? **Fusion** lets each layer ask.
# Its query comes from the layer, keys and values from the adapters' outputs $a_1 \dots a_n$:
#
# $$\mathrm{fusion}(h) = \sum_{i=1}^{n} \mathrm{softmax}\big((W_Q h + b_Q) \cdot (W_K a_i + b_K)\big)_i \; W_V a_i.$$
#
# The adapters are frozen while it trains. Only query and key have biases, and nothing
# follows the values.
#
# **Predict first.** Is the fusion of three adapters larger or smaller than the adapters?
#
# **Exercise 3.11** (2 points, about 10 minutes). Write `fusion`: what fusion adds to a
# model whose `n` adapters are there already.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# Compare with 3.2, part by part. What is there, and what is not?
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The same three matrices serve every adapter, as the same three serve every token in 3.2.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# three matrices and two biases, in each layer.
# </details>


# %% exercise="3.11"
def fusion(D, L, n):
    """Parameters that the fusion of n adapters adds in L layers of width D. The adapters do not count."""
    ### BEGIN SOLUTION
    return L * (3 * D * D + 2 * D)
    ### END SOLUTION


# %% check="3.11"
checks.fusion(fusion)

# %%
for n in (2, 3, 8):
    print(f"fusion of {n}: {fusion(768, 12, n):,} parameters, {fusion(768, 12, n) / 894_528:.1f} adapters' worth")

# %% [markdown]
# 21,252,096, for three adapters as for eight. Adapters are cheap; the question which one
# to listen to is not. It costs a fifth of BERT.

# %% [markdown]
# ## 3.12 What training costs
#
# In float32 a number takes 4 bytes, and training holds four kinds: **weights**; for each
# trained one a **gradient** and two **states of Adam**; and **activations**, kept for the
# backward pass. Of those, count what enters a matrix product in the layers:
#
# | per layer | numbers |
# |---|---|
# | input of Q, K, V; $Q$; $K$; $V$; joined heads; input of the first map | $D$ each, per token |
# | input of the second map | $F$, per token |
# | attention weights | $HT$, per token |
#
# A vector of $m$ times a matrix of $m \times n$ takes $mn$ multiply-adds, each 2 **FLOPs**.
#
# **Predict first.** Per sequence, which terms grow faster than its length $T$?
#
# **Exercise 3.12** (3 points, about 25 minutes). Write both.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.utils.flop_counter.FlopCounterMode` counts the products of any model: use it to
# test yourself, not as an answer.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A query meets $T$ keys, and the weights meet $T$ values: two products that have no
# parameters.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# bytes: 4 times (weights + 3 times trained + B T L times the sum of the table). FLOPs: 2
# times (L times (matrices of the layer + keys + values) + head).
# </details>


# %% exercise="3.12"
def training_memory(B, T, D, F, L, H, parameters, trained):
    """Bytes that training with Adam takes in float32; B sequences of T tokens, L layers with H heads.

    `parameters` are all weights, of which `trained` have gradients and two Adam states each. Every layer
    keeps the activations of the table above, whatever is frozen. Embedding and head keep none.
    """
    ### BEGIN SOLUTION
    activations = B * T * L * (6 * D + F + H * T)
    return 4 * (parameters + 3 * trained + activations)
    ### END SOLUTION


def flops_per_token(T, D, F, L, V):
    """FLOPs of the forward pass for one token of T: the matrix products of L layers and of the head onto V.

    A multiply-add is 2. Each query meets all T keys; embedding, norms, biases and softmax are free.
    """
    ### BEGIN SOLUTION
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
    ### END SOLUTION


# %% check="3.12"
checks.training_memory(training_memory, flops_per_token)

# %%
lab = dict(D=200, F=200, L=4)
for T in (32, 256, 2048):
    total = training_memory(32, T, **lab, H=2, parameters=21_018_401, trained=21_018_401)
    states = training_memory(32, 0, **lab, H=2, parameters=21_018_401, trained=21_018_401)
    mega = flops_per_token(T, **lab, V=50_001) / 1e6
    print(f"T = {T:4}: {states / 2**20:.0f} MiB of weights, gradients and states,", end=" ")
    print(f"{(total - states) / 2**20:8,.0f} MiB of activations; {mega:.1f} MFLOP for a token")

# %% [markdown]
# Only attention grows with $T^2$ per sequence. Here, at last, heads cost something.

# %% [markdown]
# ## Measurements
#
# Formulas should meet the world. First a table: the course's models beside some known
# ones, built by transformers from their published sizes. `COURSE_PROFILE` decides the sizes of
# what is timed and weighed: `smoke`, `cpu` or `gpu`.

# %% tags=["experiment"]
table = counting.table(counting.known_models(bert_large()))
table.rename(index=lambda title: title.replace("-\n", "").replace("\n", " ")).map("{:,}".format)

# %% tags=["experiment"]
shares = table[list(counting.PARTS)].div(table["total"], axis=0) * 100
plots.bars(
    {part: shares[part] for part in counting.PARTS},
    labels=list(table.index),
    ylabel="% of parameters",
    alt="Stacked bars: two vocabulary tables fill the lab's language model, layers fill BERT.",
    stacked=True,
)

# %% [markdown]
# The lab's language model is two tables with a thin Transformer between them; swap its
# head and one table is gone. With a small vocabulary the same layers are nearly
# everything. BERT is mostly layers, and the deeper it is the more so. ALBERT looks like
# BERT here and has a tenth of its parameters: its layers share one set.

# %% tags=["experiment"]
device = profiles.device()
size = profiles.pick(
    smoke=dict(V=2_000, B=4, T=32, lengths=(16, 64, 128, 256), widths=(32, 64, 96, 128), repeats=3),
    cpu=dict(V=50_001, B=8, T=64, lengths=(16, 64, 128, 256, 512), widths=(128, 256, 384, 512, 640), repeats=7),
    gpu=dict(V=50_001, B=32, T=128, lengths=(64, 256, 512, 1024), widths=(512, 1024, 2048, 3072, 4096), repeats=20),
)
training.seed_everything(1)
print(f"{profiles.name()} on {device}")

# %% [markdown]
# **Weights, gradients, states.** One step of Adam, with a frozen and with a trained base.

# %% tags=["experiment"]
for frozen in ([], ["embedding", "layers"]):
    V, B, T = size["V"], size["B"], size["T"]
    model = counting.LanguageModel(V, 200, 200, 4, C=2).to(device)
    for name in frozen:
        model.get_submodule(name).requires_grad_(False)
    left = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.Adam(left)
    model(torch.randint(V, (B, T), device=device)).sum().backward()
    optimizer.step()
    held = [counting.file_bytes(model), counting.gradient_bytes(model), counting.state_bytes(optimizer)]
    total, trained = counting.numel(model), sum(part.numel() for part in left)
    estimate = training_memory(B, 0, 200, 200, 4, 2, total, trained)
    print(f"file {held[0]:,}  gradients {held[1]:,}  Adam {held[2]:,}  sum {sum(held):,}  estimate {estimate:,}")

# %% [markdown]
# The file is a little larger than the weights: names, shapes, a zip directory. Adam counts
# its steps, one number for each tensor.

# %% [markdown]
# **Activations.** What autograd keeps for the backward pass of the layers, against your
# estimate: once with attention as matrix products, once with torch's fused attention.

# %% tags=["experiment"]
layers = counting.LanguageModel(100, 200, 200, 4).layers.to(device)
kept = {"estimate": [], "attention written out": [], "fused attention": []}
for T in training.progress(size["lengths"], "lengths"):
    x = torch.randn(size["B"], T, 200, device=device)
    with sdpa_kernel(SDPBackend.MATH):
        kept["attention written out"].append(counting.saved_bytes(layers, lambda: layers(x)) / 2**20)
    kept["fused attention"].append(counting.saved_bytes(layers, lambda: layers(x)) / 2**20)
    kept["estimate"].append(training_memory(size["B"], T, 200, 200, 4, 2, 0, 0) / 2**20)
plots.curves(
    kept,
    x=size["lengths"],
    xlabel="tokens in a sequence",
    ylabel="MiB of activations",
    alt="Memory against length: the estimate and written-out attention curve upwards, fused attention is straight.",
)

# %% [markdown]
# The estimate is short by what enters no product: the inputs of the norms, the results of
# the softmax. Its shape is right where the attention weights are written out. The fused
# attention never keeps them: it computes them again, and its line is straight.

# %% [markdown]
# **Time.** Twice the FLOPs, twice the time? And how much longer is forward and backward than
# forward alone? Predict, then run.

# %% tags=["experiment"]
V, B, T = 1_000, size["B"], size["T"]
rows, operations = {"forward": [], "forward and backward": []}, []
for D in training.progress(size["widths"], "widths"):
    model = counting.LanguageModel(V, D, D, 4).to(device)
    tokens = torch.randint(V, (B, T), device=device)
    with torch.no_grad():
        rows["forward"].append(1e3 * counting.seconds(lambda: model(tokens), device, size["repeats"]))
    step = counting.seconds(lambda: model(tokens).sum().backward(), device, size["repeats"])
    rows["forward and backward"].append(1e3 * step)
    operations.append(B * T * flops_per_token(T, D, D, 4, V) / 1e9)

# %% tags=["experiment"]
for D, work, forward, step in zip(size["widths"], operations, *rows.values(), strict=True):
    speed, ratio = work / forward * 1e3, step / forward
    print(f"D = {D:4}: {work:8.2f} GFLOP in {forward:7.1f} ms, {speed:7.0f} GFLOP/s; with backward {ratio:.1f} x")
plots.curves(
    rows,
    x=operations,
    xlabel="GFLOP of the forward pass",
    ylabel="milliseconds",
    alt="Time against FLOPs: both lines rise, that of forward and backward several times as steep.",
)

# %% [markdown]
# Forward and backward together should take three times as long: the backward pass needs two
# products for each one, for the input and for the weight. Each time is the best of several
# runs. On large matrices it follows the FLOPs; on small ones, and on a machine that is busy
# with something else, other work shows. How near did your machine come?
#
# **Question 3.W1** (2 points). In three to six sentences: why does the vocabulary hold
# nearly all of the lab's language model and only a fifth of BERT-base? Name two ways to
# make the vocabulary's share smaller, and what each of them costs.

# %% [markdown] written="3.W1" points=2
# ### BEGIN SOLUTION
# The tables grow as $VD$, the layers as $LD^2$, so what counts is $V$ against $LD$. The lab's model has many
# words (50,001), a small width and few layers, and it has two tables, one for input and one for output.
# BERT-base is nearly four times as wide and three times as deep, its inner width is $4D$, its
# vocabulary is smaller, because it is made of pieces of words, and its base has one table only.
# One can tie the head to the embedding: half of the tables is gone, but the same rows must serve
# reading and predicting. One can use subwords: fewer rows, but longer sequences, which cost time and
# attention. One can factorise the table into $V \times E$ and $E \times D$ with a small $E$, as ALBERT does: words
# are then told apart in $E$ dimensions only. One can cut rare words: they all become "unknown".
# === BEGIN MARK SCHEME ===
# One point: tables scale with V times D and layers with L times D squared (or an equivalent argument: wide and deep
# against a large vocabulary); one table in BERT's base and two in the language model may be mentioned.
# One point: two ways with a cost each (tying: one matrix for two purposes; subwords: longer sequences;
# factorisation: fewer dimensions per word; smaller vocabulary: unknown words). Half a point for two ways
# without costs or one way with its cost.
# No point for "more data" or "fewer heads": neither changes the count.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 3.W2** (2 points). You train a `seq_bn` adapter with a frozen BERT-base, in
# four to eight sentences: of weights, gradients, Adam's states, activations, the file for
# a further task, and the FLOPs of a forward pass, which become smaller, and which do not?
# Use your formulas. What changes if you train a fusion of three instead?

# %% [markdown] written="3.W2" points=2
# ### BEGIN SOLUTION
# Smaller: gradients and Adam's states, which exist for trained weights only. They need 12 bytes for each, so for
# less than one percent of BERT they nearly vanish. The file for a further task is smaller by the same factor: the
# base is stored once, each task adds its adapter and its head.
# Not smaller: the weights, all of which must be in memory, and there are even a few more. The forward pass does
# all of BERT's products and the adapters' on top. Activations stay much as they are: the gradient has to travel
# down through all frozen layers to reach the lowest adapter, although the inputs of frozen matrices are not needed for
# their own gradients, so some can be dropped.
# A fusion of three trains 21,252,096 numbers, more than twenty adapters, a fifth of BERT: gradients and states
# come back in part; and the forward pass runs three adapters in each layer.
# === BEGIN MARK SCHEME ===
# One point: gradients, Adam's states and the file per task become smaller; weights in memory and forward FLOPs do not
# (they grow a little).
# One point: activations with a reason (backward still passes through the frozen layers; accept "mostly unchanged" or
# "somewhat smaller, since inputs of frozen matrices need not be kept", not "they vanish") for half a point, and
# fusion for the other half (trains about a fifth of BERT, many times one adapter, and runs all three adapters).
# === END MARK SCHEME ===
# ### END SOLUTION

# %%
scoreboard(checks)
