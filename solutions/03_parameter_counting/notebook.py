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
# How large is a model? A single number does not explain itself. Here you write a formula for every part, from the
# embedding to BERT with adapters. Each formula is checked against what torch, transformers and adapters really build.
#
# Letters, here and below: `V` tokens in the vocabulary, `D` the width of the model, `F` the width inside the
# feed-forward part, `L` layers, `H` heads, `C` classes. One model comes up again and again: that of the lab exercise
# from which this course grew. The lab's language model has `V` = 50,001, `D` = `F` = 200, `L` = 4 and `H` = 2.
#
# Write formulas, not modules: an answer may not build the part and count its parameters, nor use torch's counters. In
# other cells you may test yourself with both. Sizes and counts among the arguments are plain ints. A count that you
# return is a whole number: an int, or a tensor or a NumPy number that holds one, and never a float. Each exercise
# stands on its own, and most are one line. In grading, private checks ask for other sizes, down to 1 and up to counts
# far beyond 32 bits (but below $2^{53}$), and for the limits that a docstring names. Your functions never change their
# arguments, and their results are new objects, even where nothing is left to compute. A call must not change torch's
# default dtype (float32) or device, nor whether gradients are recorded. It may change the global random generators only
# by drawing from them, and only if the exercise draws. Together the exercises take about three hours and need no GPU;
# the measurements at the end take a minute.

# %% tags=["setup"] needs="adapters"

# %%
import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from utils import counting, plots, variants
from utils.checks import nb03_parameter_counting as checks
from utils.experiments import profiles, scaling, training
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.predictions import predict, reveal

# %% [markdown]
# In exercise 3.12 each student counts a different model. Its sizes follow from your name: write the name under which
# you hand in between the quotes, as it is in your instructor's class list.

# %%
STUDENT = ""
own = variants.MODEL.numbers(STUDENT)

# %% [markdown]
# ## 3.1 Tables, maps, norms
#
# Three kinds of parts hold all of a Transformer's parameters. A **table** has a row of $D$ numbers for each of $V$
# tokens, and one for each of $P$ positions if these are learned; sinusoidal positions are computed. A **linear map** is
# a matrix, mostly with a bias. A **norm** rescales each token's vector by its own statistics, then scales and shifts
# every column by learned numbers; RMSNorm, which many newer models use, has no shift.
#
# $$E \in \mathbb{R}^{(V + P) \times D}, \qquad y = W x + b, \; W \in \mathbb{R}^{n \times m},$$
# $$\mathrm{LayerNorm}(x) = \gamma \odot \frac{x - \mathrm{mean}}{\mathrm{std}} + \beta,
# \qquad \mathrm{RMSNorm}(x) = \gamma \odot \frac{x}{\mathrm{rms}}.$$
#
# **Predict first.** Which of these are parameters: sinusoidal positions, learned ones, mean and
# standard deviation?
#
# **Exercise 3.1** (2 points, about 10 minutes, easy). Write `embedding`, `linear` and `norm`. A kind that
# `norm` does not know is a typo and must be refused.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Linear(3, 7).bias.shape`, `nn.Embedding(7, 3).weight.shape`, `list(nn.RMSNorm(3).parameters())`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A bias is as long as the output of its map. An embedding has none: it would be the same for all
# tokens. In `norm`, an `else` accepts every typo.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# rows of tokens plus rows of positions, times the width; rows times columns, and rows once more if
# there is a bias; two vectors or one, an unknown kind raises.
# </details>


# %%
predict("3.1", "b", a="all three", b="the learned positions", c="the learned positions, mean and standard deviation")


# %% exercise="3.1"
def embedding(V, D, P=0):
    """Parameters of the embedding of V tokens and of P learned positions; P = 0: sinusoidal positions."""
    ### BEGIN SOLUTION
    return (V + P) * D
    ### END SOLUTION


def linear(m, n, bias=True):
    """Parameters of a linear map from m numbers to n; `bias`: whether it has one."""
    ### BEGIN SOLUTION
    return n * m + n * bias
    ### END SOLUTION


def norm(D, kind="layer"):
    """Parameters of one norm of width D; `kind` is "layer" (LayerNorm) or "rms" (RMSNorm).

    Raises:
        ValueError: another kind.
    """
    ### BEGIN SOLUTION
    if kind not in ("layer", "rms"):
        raise ValueError(f"unknown kind of norm: {kind}")
    return D * (2 if kind == "layer" else 1)
    ### END SOLUTION


# %% check="3.1"
checks.parts(embedding, linear, norm)

# %%
print(f"lab, sinusoidal positions:      {embedding(50_001, 200):10,}")
print(f"lab, 512 learned positions:     {embedding(50_001, 200, 512):10,}")
print(f"lab, a map of D by D, its bias: {linear(200, 200):10,} {linear(200, 200) - linear(200, 200, bias=False):4}")
print(f"lab, all norms of its layers:   {2 * 4 * norm(200):10,}")

# %% [markdown]
# Numbers that are computed and not learned are not parameters: sinusoidal positions, means, deviations. Learned
# positions add almost nothing, since there are far fewer positions than words; biases and norms are the smallest parts,
# and the first to be forgotten.

# %% [markdown]
# ## 3.2 One layer
#
# A layer is attention and a feed-forward part, with a layer norm for each. Queries, keys and values are three linear
# maps of the same input, $D$ wide. Each of $H$ heads reads its own $D/H$ columns of them, and a fourth map takes the
# joined heads. The feed-forward part maps to $F$ numbers, applies a ReLU, and maps back. The lab sets $F = D$; BERT,
# like the first Transformer, $F = 4D$.
#
# $$\mathrm{output} = [\mathrm{head}_1; \dots; \mathrm{head}_H]\, W_O^\top + b_O, \qquad
# \mathrm{ffn}(x) = W_2\, \mathrm{relu}(W_1 x + b_1) + b_2.$$
#
# **Predict first.** You double the number of heads: what happens to the number of parameters? And if $F = D$, a layer
# has $a D^2 + b D$ parameters: what are $a$ and $b$?
#
# **Exercise 3.2** (3 points, about 15 minutes, easy). Write `attention` and `transformer_layer`, without
# calling your answers to 3.1: an error there should cost you nothing here.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.TransformerEncoderLayer(4, 1, 5).state_dict()` lists every matrix and vector; Q, K and V are one
# matrix there, `in_proj_weight`. Find each of them in your sum.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# $H$ is an argument, but the count need not depend on it. There are nine vectors of length $D$: four in the attention,
# one in the feed-forward part, four in the norms.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# attention: four times a matrix from D to D, and four times a bias of D if there is one. Layer:
# attention, a map from D to F and one back with their biases, two norms.
# </details>


# %%
predict("3.2", "b", a="it doubles", b="it stays", c="it is halved")


# %% exercise="3.2"
def attention(D, H, bias=True):
    """Parameters of multi-head self-attention of width D with H heads; `bias`: whether its maps have one."""
    ### BEGIN SOLUTION
    return 4 * (D * D + D * bias)
    ### END SOLUTION


def transformer_layer(D, F):
    """Parameters of one layer of width D and inner width F, with all biases and two layer norms."""
    ### BEGIN SOLUTION
    return 4 * D * D + 2 * D * F + 9 * D + F
    ### END SOLUTION


# %% check="3.2"
checks.transformer_layer(attention, transformer_layer)

# %%
for H in (1, 2, 25):
    print(f"lab, {H:2} heads:  attention {attention(200, H):9,}")
for name, D, F in (("lab", 200, 200), ("BERT-base", 768, 4 * 768)):
    rest = transformer_layer(D, F) - attention(D, 1)
    print(f"{name:14} attention {attention(D, 1):9,}  rest {rest:9,}  layer {transformer_layer(D, F):9,}")

# %% [markdown]
# Heads change nothing: they decide how the same matrices are read. If $F = D$, a layer has $6D^2 + 10D$ parameters, in
# the lab 242,000. If $F = 4D$, it has close to $12D^2$, two thirds of them in the feed-forward part. The number does
# not depend on $V$: a layer contains no vocabulary.

# %% [markdown]
# ## 3.3 Fewer keys and values
#
# To write token by token, a model keeps the keys and values of the text so far, in each layer: the
# **KV cache**. It grows with every token, and soon fills the memory. In **grouped-query
# attention** (Ainslie et al. 2023) $H$ heads of queries share $G$ heads of keys and values, each
# $D/H$ wide as before. With $G = H$ that is 3.2 again; $G = 1$ is called multi-query attention.
#
# $$W_Q, W_O \in \mathbb{R}^{D \times D}, \qquad W_K, W_V \in \mathbb{R}^{(G D / H) \times D}.$$
#
# **Predict first.** 8 heads of queries share 2 of keys and values. What share of the cache is left,
# and what share of the attention's parameters?
#
# **Exercise 3.3** (3 points, about 15 minutes, medium). Write `grouped_attention` and `kv_cache`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)` takes fewer heads of
# keys and values than of queries: try shapes.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The output map takes the joined heads, one for each query head. It is as wide as it was. A cache
# holds no queries: each is used once.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# d = D // H; maps from D to D, from D to G d, from D to G d, from D to D; a bias as long as each
# output. Cache: keys and values, each a number for every text, token, layer and column of G d.
# </details>


# %%
predict(
    "3.3",
    "c",
    a="a quarter of both",
    b="half of the cache, and all parameters",
    c="a quarter of the cache, and five eighths of the parameters",
)


# %% exercise="3.3"
def grouped_attention(D, H, G, bias=False):
    """Parameters of attention of width D with H heads of queries that share G heads of keys and values.

    D is a multiple of H; `bias`: whether all four maps have one.

    Raises:
        ValueError: H is not a multiple of G.
    """
    ### BEGIN SOLUTION
    if H % G:
        raise ValueError(f"{H} heads cannot share {G} evenly")
    outputs = 2 * D + 2 * G * (D // H)
    return outputs * (D + bias)
    ### END SOLUTION


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    """Bytes of all keys and values that L layers of width D, with H and G heads, keep of B texts of T tokens."""
    ### BEGIN SOLUTION
    return 2 * B * T * L * G * (D // H) * bytes_per_number
    ### END SOLUTION


# %% check="3.3"
checks.grouped_attention(grouped_attention, kv_cache)

# %%
large = dict(D=8_192, L=80, H=64)  # the sizes of Llama 2 70B, which has G = 8
lengths = (512, 1_024, 2_048, 4_096)
for G in (64, 8, 1):
    print(f"G = {G:2}: {grouped_attention(8_192, 64, G):11,} parameters in the attention of a layer")
plots.curves(
    {f"G = {G}": [kv_cache(16, T, **large, G=G) / 2**30 for T in lengths] for G in (64, 8, 1)},
    x=lengths,
    xlabel="tokens in each of 16 texts",
    ylabel="GiB of keys and values",
    alt="Three lines of cache against length: steep for all heads, nearly flat for 8, on the axis for one.",
)

# %% [markdown]
# A quarter of the cache is left, and five eighths of the parameters: the maps of queries and output stay. Here the
# number of heads does matter. With $G = H$ the cache of the longest texts in the figure would be larger than the whole
# model, in the same precision.

# %% [markdown]
# ## 3.4 The language model
#
# Embedding, $L$ layers, and a head: a linear map from $D$ to one logit for each token,
# with a bias. Positions are sinusoidal, and no norm follows the last layer. A **tied** head uses the
# embedding as its matrix and keeps a bias of its own.
#
# The number of parameters of one layer is an argument, so a wrong 3.2 costs nothing here.
#
# **Predict first.** Which share of the lab's language model sits in its four layers?
#
# **Exercise 3.4** (2 points, about 10 minutes, easy). Write `language_model`.
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


# %%
predict("3.4", "a", a="about 5 percent", b="about 50 percent", c="about 95 percent")


# %% exercise="3.4"
def language_model(V, D, L, layer, tied=False):
    """Parameters of embedding, L layers of `layer` parameters each, and a head onto the vocabulary with a bias."""
    ### BEGIN SOLUTION
    tables = 1 if tied else 2
    return tables * V * D + L * layer + V
    ### END SOLUTION


# %% check="3.4"
checks.language_model(language_model)

# %%
for V in (50_001, 100):
    untied, tied = (language_model(V, 200, 4, 242_000, tied=tied) for tied in (False, True))
    print(f"V = {V:6,}: {untied:10,} parameters, {4 * 242_000 / untied:3.0%} of them in the layers; tied {tied:10,}")

# %% [markdown]
# The model has 21,018,401 parameters. 95% of them are in two tables of the vocabulary, one at each end. With a
# vocabulary of 100 there are 1,008,100, nearly all of them in the layers.
#
# **Play.** At which width do twelve layers outweigh the tables of a large vocabulary?


# %%
def where_they_are(width, layers, vocabulary):
    layer = transformer_layer(width, 4 * width)
    inside, whole = layers * layer, language_model(vocabulary, width, layers, layer)
    parts = {"tables": [(whole - inside) / 1e6], "layers": [inside / 1e6]}
    alt = f"Width {width}, {layers} layers, {vocabulary:,} words: {whole / 1e6:,.1f} million parameters, "
    alt += f"{inside / whole:.0%} of them in the layers."
    found = plots.bars(parts, labels=[f"{inside / whole:.0%} in the layers"], ylabel="millions", alt=alt)
    found.axes[0].set_ylim(0, 120)
    return found


choices = {"width": [128, 256, 512, 768], "layers": [2, 6, 12], "vocabulary": [1000, 10_000, 50_000]}
interactive(where_they_are, start={"width": 512, "layers": 6, "vocabulary": 10_000}, **choices)

# %% [markdown]
# ## 3.5 The classifier
#
# To classify, take the head off and put another on: $C$ outputs instead of $V$. The simplest head is one linear map.
# Some libraries put more maps before it, each from $D$ to $D$; a ReLU or tanh between them has no parameters.
#
# $$\mathrm{head}(x) = W_k \tanh(\dots \tanh(W_1 x + b_1) \dots) + b_k,
# \qquad W_k \in \mathbb{R}^{C \times D}.$$
#
# **Predict first.** For $V = 100$ and two classes: which is larger, the language model or
# the classifier?
#
# **Exercise 3.5** (2 points, about 10 minutes, easy). Write `classifier`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Linear(200, 2)`: how many rows, how many columns, how long is the bias?
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The new head replaces the old one. The embedding stays: a classifier reads words too.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# embedding; L layers; head_layers - 1 maps from D to D; one map from D to C. All maps
# have biases.
# </details>


# %%
predict("3.5", "a", a="the language model", b="the classifier", c="neither")


# %% exercise="3.5"
def classifier(V, D, L, layer, C, head_layers=1):
    """Parameters of embedding, L layers, and a head for C classes made of `head_layers` linear maps with biases.

    All maps of the head but the last lead from D to D.
    """
    ### BEGIN SOLUTION
    head = (head_layers - 1) * (D * D + D) + (D + 1) * C
    return V * D + L * layer + head
    ### END SOLUTION


# %% check="3.5"
checks.classifier(classifier)

# %%
for V in (50_001, 100):
    print(f"V = {V:6,}: {classifier(V, 200, 4, 242_000, 2):10,} with two classes")

# %% [markdown]
# 10,968,602 for the lab's vocabulary, 988,402 for the small one. Below its head each is the language model of 3.4, so
# only the heads differ, and the language model's head is the larger one. One of two student reports on these labs
# exchanges the two small totals; asking which head is larger would have shown the mistake.

# %% [markdown]
# ## 3.6 BERT
#
# BERT's base reads three tables, tokens, $P$ positions and $S$ segments, adds them and
# normalises. Its $L$ layers are those of 3.2. The **pooler** is one more linear map with a
# bias, from $D$ to $D$, on the first token.
#
# Heads of BERT are 64 wide, and $F = 4D$. BERT-base has 12 layers and 12 heads, so
# $D = 12 \cdot 64 = 768$. BERT-large has 24 layers and 16 heads.
#
# **Predict first.** How many times as large as BERT-base is BERT-large: two, three, or four?
#
# **Exercise 3.6** (3 points, about 15 minutes, medium). Write `bert`, and `bert_large`.
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


# %%
predict("3.6", 3)


# %% exercise="3.6"
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


# %% check="3.6"
checks.bert(bert, bert_large)

# %%
base = bert(30_522, 768, 12, 7_087_872)  # one layer of D = 768, as in 3.2
print(f"BERT-base {base:,}")
print(f"  with a linear head for 2 classes {base + 768 * 2 + 2:,}")
print(f"  with two layers in the head     {base + 768 * 768 + 768 + 768 * 2 + 2:,}")
print(f"BERT-large {bert(30_522, bert_large()['D'], bert_large()['L'], 12_596_224):,}")

# %% [markdown]
# 109,482,240 and 335,141,888: about three times as many. With a linear head for two
# classes the base has 109,483,778, with the two layers of the adapters library's head
# 110,074,370. One of the two student reports gives BERT-large a hidden size of 768: its 16
# heads of 64 would not fit.

# %% [markdown]
# ## 3.7 What is left to train
#
# Fine-tuning often freezes a part: its numbers stay as they are, and only the rest is
# trained. Names have dots, as in torch: `encoder.layer.1` holds
# `encoder.layer.1.linear1.weight`, and `encoder` holds both.
#
# You get names and shapes, and a list of what is frozen: parts, or single parameters. A name that fits nothing is a
# typo, and would silently train everything.
#
# **Predict first.** All but the head is frozen. What is left, with $V$ outputs, and with 2?
#
# **Exercise 3.7** (3 points, about 15 minutes, medium). Write `trainable`.
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


# %%
predict(
    "3.7",
    "b",
    a="next to nothing, in both",
    b="half of the model, and a few hundred numbers",
    c="half of the model, in both",
)


# %% exercise="3.7"
def trainable(shapes, frozen):
    """How many numbers are left to train.

    Args:
        shapes: dict from the dotted name of each parameter to its shape, a list of sizes, which may be 0.
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


# %% check="3.7"
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
# ## 3.8 An adapter
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
# **Exercise 3.8** (2 points, about 10 minutes, easy). Write `adapter`.
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


# %%
predict("3.8", "a", a="less than 1 percent", b="about 6 percent", c="about 25 percent")


# %% exercise="3.8"
def adapter(D, L, reduction=16, per_layer=1):
    """Parameters of bottleneck adapters in L layers of width D, `per_layer` in each.

    The bottleneck is D over `reduction` (whole) wide, rounded down, and never less than 1. Both maps have biases.
    """
    ### BEGIN SOLUTION
    r = max(1, D // reduction)
    return L * per_layer * (2 * D * r + r + D)
    ### END SOLUTION


# %% check="3.8"
checks.adapter(adapter)

# %%
for reduction in (2, 16, 64):
    count = adapter(768, 12, reduction)
    print(f"reduction {reduction:2}: {count:9,} parameters, {count / 109_482_240:.2%} of BERT-base")

# %% [markdown]
# With reduction 16 it is 894,528, less than one percent. A task costs a file of a few
# megabytes, not of hundreds.

# %% [markdown]
# ## 3.9 Fusion
#
# Three adapters for three tasks: which one helps a fourth? **Fusion** lets each layer choose. Its query comes from the
# layer, keys and values from the adapters' outputs $a_1 \dots a_n$:
#
# $$\mathrm{fusion}(h) = \sum_{i=1}^{n} \mathrm{softmax}\big((W_Q h + b_Q) \cdot (W_K a_i + b_K)\big)_i \; W_V a_i.$$
#
# The adapters are frozen while it trains. Only the query and key maps have biases, and there is no output projection
# after the values.
#
# **Predict first.** Is the fusion of three adapters larger or smaller than the adapters?
#
# **Exercise 3.9** (2 points, about 10 minutes, easy). Write `fusion`: what fusion adds to a
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


# %%
predict("3.9", "c", a="smaller", b="about as large", c="several times as large")


# %% exercise="3.9"
def fusion(D, L, n):
    """Parameters that the fusion of n adapters adds in L layers of width D. The adapters do not count."""
    ### BEGIN SOLUTION
    return L * (3 * D * D + 2 * D)
    ### END SOLUTION


# %% check="3.9"
checks.fusion(fusion)

# %%
for n in (2, 3, 8):
    print(f"fusion of {n}: {fusion(768, 12, n):,} parameters, {fusion(768, 12, n) / 894_528:.1f} adapters' worth")

# %% [markdown]
# 21,252,096, for three adapters or for eight. Adapters are cheap. The fusion that chooses among them is not: it has a
# fifth as many parameters as BERT.

# %% [markdown]
# ## 3.10 What training costs
#
# In float32 a number takes 4 bytes. Training keeps four kinds of numbers: **weights**; for each trained weight a
# **gradient** and two **states of Adam**; and **activations**, for the backward pass. Of the activations, count those
# that enter a matrix product in the layers:
#
# | per layer | numbers |
# |---|---|
# | input of Q, K, V; $Q$; $K$; $V$; joined heads; input of the first map | $D$ each, per token |
# | input of the second map | $F$, per token |
# | attention weights | $HT$, per token |
#
# Multiplying a vector of length $m$ by an $m \times n$ matrix takes $mn$ multiply-adds, each 2 **FLOPs**.
#
# **Predict first.** Per sequence, which terms grow faster than its length $T$?
#
# **Exercise 3.10** (3 points, about 25 minutes, hard). Write `training_memory`, for 2 of the
# points, and `flops_per_token`.
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
# bytes: 4 times (weights + 3 times trained + B T L times the sum of the table). FLOPs: 2 times (L times (entries of the
# layer's matrices + entries of all keys + entries of all values) + entries of the head's matrix).
# </details>


# %%
predict("3.10", "b", a="the inputs of the maps", b="those of attention", c="Adam's states")


# %% exercise="3.10"
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


# %% check="3.10"
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
# Only attention grows with $T^2$ per sequence. The attention weights, one matrix for each head, are most of the cost of
# long texts.
#
# A model that does not fit into one device is divided among several (**model parallelism**), or each has a copy and
# reads other sequences. Either way, numbers have to be sent between them at each step: activations, or as many
# gradients as there are parameters. A count of FLOPs does not show this price of parameters (Lan et al. 2020, section
# 1).

# %% [markdown]
# ## 3.11 Six times N
#
# Each product in the forward pass needs two in the backward pass: one for the gradient of its input, one for that of
# its weight. So a number in a matrix costs 2 FLOPs forward and 4 backward for each token. This gives the rule for a
# model of $N$ parameters:
#
# $$\mathrm{FLOPs\ per\ token\ of\ training} \approx 6 N.$$
#
# It is wrong in two places. An embedding is looked up, not multiplied, unless the head uses its table too. And
# attention multiplies queries with keys and weights with values: products without parameters.
#
# **Predict first.** 95% of the lab's language model are two tables. Is $6N$ too large or too
# small for it?
#
# **Exercise 3.11** (2 points, about 15 minutes, medium). Write `training_flops`, the rule with both
# corrections, and `even_length`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.utils.flop_counter.FlopCounterMode` around `model(tokens).sum().backward()`: use it to test
# yourself.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A tied head multiplies with the embedding's table. Then every parameter counted in $N$ takes part in a product.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# 6 times what is multiplied, plus, in each layer, 6 times what a query meets: T keys and T values, D wide. For
# `even_length`, set the attention term of a layer equal to 6 times its matrices, and solve for T.
# </details>


# %%
predict("3.11", "a", a="too large", b="too small", c="right")


# %% exercise="3.11"
def training_flops(N, V, D, L, T, tied=False):
    """FLOPs of forward and backward pass for one token of T, of a language model with N parameters.

    The N parameters are matrices: the embedding (V, D), those of L layers of width D, and the head, which is
    the embedding if `tied` (biases and norms cost next to nothing and are left out). Each query meets all T keys.
    """
    ### BEGIN SOLUTION
    lookup = 0 if tied else V * D
    return 6 * (N - lookup) + 12 * L * T * D
    ### END SOLUTION


def even_length(D, F):
    """The T at which a layer's products without parameters cost as much as those with its matrices, a whole number."""
    ### BEGIN SOLUTION
    return 2 * D + F
    ### END SOLUTION


# %% check="3.11"
checks.training_flops(training_flops, even_length)

# %%
lengths = (128, 512, 2_048, 8_192)
shares = {}
for name, V, D, L, tied in (
    ("lab", 50_001, 200, 4, False),
    ("GPT-2 small", 50_257, 768, 12, True),
    ("GPT-3", 50_257, 12_288, 96, True),
):
    F = D if name == "lab" else 4 * D
    N = (1 if tied else 2) * V * D + L * (4 * D * D + 2 * D * F)
    print(f"{name:12} {N:15,} parameters, even at {even_length(D, F):6,} tokens")
    shares[name] = [training_flops(N, V, D, L, T, tied) / (6 * N) for T in lengths]
plots.curves(
    shares,
    x=lengths,
    xlabel="tokens in a sequence",
    ylabel="FLOPs over 6N",
    alt="FLOPs over 6N against length: the lab's begins at a half, GPT-2's climbs past one, GPT-3's stays near it.",
)

# %% [markdown]
# The lab's model costs about half of what the rule says as long as texts are short: one of its two tables is only
# read. In a wide and deep model with a tied head the rule holds as long as texts are short against `even_length`.
#
# The rule is from Kaplan et al. (2020), the corrections are not: they leave all embeddings out of $N$, and their table
# 1 counts half as much for attention. The term $12\,L\,T\,D$ is that of PaLM (Chowdhery et al. 2022, appendix B).

# %% [markdown]
# ## 3.12 A model of your own
#
# A model's page gives its sizes, and you work out whether it fits your machine. Here is one of Llama's kind that nobody
# has built: no biases, rotary positions, a tied head. Each of the $L$ layers has two RMSNorms, attention as in 3.3, and
# three feed-forward maps, two from $D$ to $F$ and one back. One more norm follows the last layer. Every head is 64
# wide:
#
# $$D = 64 H, \qquad G = H / \mathrm{share}.$$
#
# Your sizes are printed below; `STUDENT`, at the top, decides them.
#
# **Predict first.** A number takes 2 bytes. What is larger: the weights, or the cache of one text of $T$ tokens?
#
# **Exercise 3.12** (1 point, about 10 minutes, medium). Write `own_parameters` and `own_cache` for your sizes, by hand
# or with Python.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# Your sizes are `own.V`, `own.L`, `own.H`, `own.F`, `own.T` and `own.share`. Your answers to 3.1 and 3.3 can do most of
# it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The sizes are those of the name in `STUDENT`. After you have changed it, run its cell and this one again.
# </details>

# %%
print("STUDENT, at the top, is blank" if own is None else variants.stated(own))


# %%
predict("3.12", "a", a="the weights", b="the cache")


# %% exercise="3.12"
def own_parameters():
    """Parameters of the model with your sizes, a whole number."""
    ### BEGIN SOLUTION
    D, F = 64 * own.H, own.F
    layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
    return own.V * D + own.L * layer + D
    ### END SOLUTION


def own_cache():
    """Bytes of the keys and values that it keeps of one text of T tokens, 2 for each number."""
    ### BEGIN SOLUTION
    return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
    ### END SOLUTION


# %% check="3.12"
checks.own_model(own_parameters, own_cache)

# %%
if own is not None:
    weights, cache = 2 * own_parameters() / 2**30, own_cache() / 2**30
    print(f"weights {weights:.2f} GiB, the cache of one text {cache:.2f} GiB")
    print(f"so many texts at a time cost as much as the weights: {weights / cache:.1f}")

# %% [markdown]
# For one text the weights are larger, mostly by far. A server that writes many texts at a time uses most of its memory
# for caches: that is why heads are shared.

# %% [markdown]
# ## 3.13 The best size for a budget
#
# You may spend $C$ FLOPs on training. By 3.11 a model of $N$ parameters then reads about $C / 6N$ tokens: a larger
# model reads less. A model that is too small cannot learn any more; one that is too large reads too little. Hoffmann et
# al. (2022, section 3.2) train several sizes with the same $C$ and fit a parabola to their losses. Its vertex is the
# best size:
#
# $$\mathrm{loss}(N) \approx a\, (\log N)^2 + b \log N + c, \qquad \log N_{best} = -\frac{b}{2a}.$$
#
# In each run the learning rate falls to zero when the budget ends.
#
# **Predict first.** With three times the FLOPs, how large is the best size?
#
# **Exercise 3.13** (2 points, about 15 minutes, medium). Write `best_size`. Its result is a size, not a logarithm. It
# is not a count, so it is a float.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `np.polyfit(x, y, 2)`. In which order does it give a, b and c?
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Any base of the logarithm will do, as long as the way back has the same one.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# raise if there are fewer than three different sizes; fit; raise if a is not positive; the power with the logarithm's
# base of minus b over two a.
# </details>


# %%
predict("3.13", "b", a="as large as before", b="about twice as large", c="three times as large or more")


# %% exercise="3.13"
def best_size(N, losses):
    """The size at the vertex of the least-squares parabola in log N, a float. It may lie outside the sizes of the runs.

    Args:
        N: list of the sizes of the runs. Several runs may have the same size. Every run counts as much as any other.
        losses: list of the loss of each run.

    Raises:
        ValueError: there are fewer than three different sizes, or the parabola does not open upward.
    """
    ### BEGIN SOLUTION
    if len(set(N)) < 3:
        raise ValueError("a parabola needs three different sizes")
    a, b, _ = np.polyfit(np.log(N), losses, 2)
    if a <= 0:
        raise ValueError("the parabola opens downward: its vertex is the worst size")
    return float(np.exp(-b / (2 * a)))
    ### END SOLUTION


# %% check="3.13"
checks.best_size(best_size)

# %% [markdown]
# **What is such a fit worth?** The model of notebook 01 learned to guess the next character of the documentation. It
# was trained at several widths, with five seeds each. By the count of 3.11 each run took 30, 90 or 270 GFLOP (billions
# of FLOPs). The learning rates come from a search with one seed, at 90 GFLOP (for the smallest model at 30). Widths
# that were not searched have the rate of the nearest one. Batches and schedule are the same, and no text was read
# twice.
#
# From these runs the best size for 810 GFLOP and its loss were predicted, before any model was trained there. A
# straight line through the logarithms of the three best sizes gives the size. The loss was predicted twice: by such a
# line, and by a curve that falls to a floor.
#
# **Predict first.** Which prediction of the loss is nearer? How much is lost with half and with twice the size?

# %% tags=["experiment"]
predict("3.E1", "b", a="the straight line", b="the curve with a floor")

# %% tags=["experiment"]
runs = scaling.recorded()
for budget in (30, 90, 270):
    print(f"{budget:3} GFLOP: the best size is {best_size(*scaling.points(runs, budget)):6,.0f}")
alt = "Four rows of points, lower and further right with each budget, with a parabola through each. Of two crosses at "
scaling.picture(
    runs,
    alt + "the last budget, that of the straight line is below its points, and that of the curve with a floor above.",
)

# %% tags=["experiment"]
scaling.table(runs)

# %% tags=["experiment"]
reveal("3.E1")

# %% [markdown]
# In the recorded runs the best size grows as the FLOPs to the power of 0.64 (95% interval: 0.56 to 0.83). So with three
# times the FLOPs the best size is about twice as large, not three times. Hoffmann et al. find nearly the square root,
# for tokens and much larger models. The measured best size lies inside the interval of the predicted one. Half the
# predicted size costs 0.022 nats, and twice the size 0.041. Both differences are shown, with three seeds. So the best
# size lies between half and twice the predicted one: three sizes do not locate it more closely. Both predictions of the
# loss are wrong: neither interval contains what was measured. The straight line is 0.097 nats too low, the curve with a
# floor 0.032 too high.

# %% [markdown]
# The intervals say how far other seeds would move the fit. They do not allow for a loss that follows another curve, nor
# for choices that all runs share. One is the learning rate, which was not searched at the last budget: in the search,
# twice the chosen rate cost more than half the size did, at every width. So a part of what half and twice the size cost
# may be due to their rates. Such a fit helps to choose a size, because near the best size the loss is flat. Its
# prediction of the loss was worth less here.

# %% [markdown]
# ## 3.14 Sixteen bits
#
# In **bfloat16** a number takes 2 bytes. It has the exponent of float32, but only 8 binary digits, where float32 has
# 24. So between $2^e$ and $2^{e+1}$, neighbouring numbers are this far apart:
#
# $$\mathrm{gap} = \epsilon \cdot 2^{e}, \qquad 2^e \le |x| < 2^{e+1}.$$
#
# `torch.finfo` knows $\epsilon$, the gap above 1. A sum is rounded to the nearest number. So a number smaller than half
# a gap is lost, however often it is added. So mixed precision multiplies in sixteen bits, but adds up in float32, and
# keeps an optimizer's weights in float32 (Micikevicius et al. 2018).
#
# **Predict first.** Begin with 0 and add 1 a thousand times in bfloat16. What is the sum?
#
# **Exercise 3.14** (2 points, about 15 minutes, medium). Write `gap` and `accumulate`, a point each.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `math.frexp` gives an exponent without rounding. That exponent is $e + 1$.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `math.log2` of a number just below a power of two may round up to a whole number. And `Tensor.sum` keeps more digits
# while it adds than its result has.
# </details>


# %%
predict("3.14", 256)


# %% exercise="3.14"
def gap(x, dtype):
    """The distance from |x| to the next larger number of `dtype`, a float.

    x is a float that `dtype` (torch.bfloat16, float16, float32 or float64) can hold: not 0, nor too small or too large
    for the formula.
    """
    ### BEGIN SOLUTION
    return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
    ### END SOLUTION


def accumulate(start, updates, dtype):
    """Add the rows of `updates` (steps, n) to `start` (n,), one after another; return the last sum, (n,) in `dtype`.

    Start, each row and each sum are rounded to `dtype`. There may be no rows, and thousands. What is given is float32.
    """
    ### BEGIN SOLUTION
    total = start.to(dtype, copy=True)
    for row in updates.to(dtype):
        total = total + row
    return total
    ### END SOLUTION


# %% check="3.14"
checks.sixteen_bits(gap, accumulate)

# %%
kinds = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
counts = [*range(0, 1001, 50)]
sums = {
    name: [accumulate(torch.zeros(1), torch.ones(n, 1), kind).item() for n in counts] for name, kind in kinds.items()
}
weights, steps = torch.tensor([1.0, 0.1]), torch.full((100, 2), 1e-3)
for name, kind in kinds.items():
    moved = ", ".join(f"{one:.4f}" for one in accumulate(weights, steps, kind).tolist())
    print(f"{name:>8}: gap above 1 {gap(1.0, kind):.1g}; 1 and 0.1 after a hundred steps of 0.001: {moved}")

# %%
plots.curves(
    sums,
    x=counts,
    xlabel="how often 1 was added",
    ylabel="sum",
    alt="Sums of ones: in float32 and float16 a straight line to 1000, in bfloat16 the sum stays at 256.",
)

# %% [markdown]
# In bfloat16 the sum stops at 256. From there on the gap is 2, and 257 is halfway between two neighbours. It is rounded
# to the one whose last binary digit is 0. A weight of 1 never moves by steps of `0.001`.

# %% [markdown]
# ## Measurements
#
# Now compare the formulas with real models. First a table: the course's models beside some known
# ones, built by transformers from their published sizes. `COURSE_PROFILE` decides the sizes of
# what is timed and measured: `smoke`, `cpu` or `gpu`.
#
# <!-- box: size gpu -->

# %% tags=["experiment"]
table = counting.table(counting.known_models(bert_large()))
table.rename(index=lambda title: title.replace("-\n", "").replace("\n", " ")).map("{:,}".format)

# %% tags=["experiment"]
shares = table[list(counting.PARTS)].div(table["total"], axis=0) * 100
plots.bars(
    {part: shares[part] for part in counting.PARTS},
    labels=list(table.index),
    xlabel="model",
    ylabel="% of parameters",
    alt="Stacked bars: two vocabulary tables fill the lab's language model, layers fill BERT.",
    stacked=True,
)

# %% [markdown]
# The lab's language model is two tables with a thin Transformer between them; swap its head and one table is gone. With
# a small vocabulary the same layers are nearly everything. BERT is mostly layers, and a deeper BERT even more so.
# ALBERT looks like BERT here but has only a ninth of BERT's parameters, because its layers share one set.

# %% tags=["experiment"]
device = profiles.device()
size = profiles.pick(
    smoke=dict(V=2_000, B=4, T=32, lengths=(32, 128, 256, 512), widths=(64, 128, 192, 256), repeats=20),
    cpu=dict(V=50_001, B=8, T=64, lengths=(16, 64, 128, 256, 512), widths=(128, 256, 384, 512, 640), repeats=7),
    gpu=dict(V=50_001, B=32, T=128, lengths=(64, 256, 512, 1024), widths=(512, 1024, 2048, 3072, 4096), repeats=20),
)
training.seed_everything(1)
print(f"{profiles.name()} on {device}")

# %% [markdown]
# **Weights, gradients, states.** One step of Adam, first with the whole model trained, then with all but its
# head frozen.

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
# The estimate leaves out everything that is not an operand of a matrix product: the inputs of the norms, the results of
# the softmax. Where the attention weights are stored, its shape is right. The fused attention never stores them: it
# computes them again, and its line is straight.
#
# You can do that with whole layers. Keep only the input of each layer, and let the backward pass compute the layer
# again (`torch.utils.checkpoint`). Then $L$ layers keep $4BTLD$ bytes until the backward pass, and that pass holds the
# activations of one layer at a time. The price is a second forward pass.

# %% tags=["experiment"]
rows = {}
for T in size["lengths"]:
    x = torch.randn(size["B"], T, 200, device=device, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        written_out = counting.saved_bytes(layers, lambda: layers(x))
        recomputed = counting.saved_bytes(layers, lambda: counting.recomputed(layers, x))
        one = counting.saved_bytes(layers[0], lambda: layers[0](x))
    rows[T] = [written_out, 4 * size["B"] * T * 4 * 200, recomputed, recomputed + one]
columns = ["all is kept", "inputs alone: formula", "measured", "with one layer at a time"]
pd.DataFrame.from_dict(rows, orient="index", columns=columns).map("{:,}".format)

# %% [markdown]
# Formula and measurement are equal to the byte.

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
# Forward and backward together should take three times as long: the backward pass needs two products for each one, for
# the input and for the weight. Each time is the best of several runs. On large matrices it follows the FLOPs; on small
# ones, or on a busy machine, other costs show up in the time. How near did your machine come?
#
# **Question 3.W1** (2 points). In three to six sentences: why does the vocabulary hold
# nearly all of the lab's language model and only a fifth of BERT-base? Name two ways to
# make the vocabulary's share smaller, and what each of them costs.

# %% [markdown] written="3.W1" points=2
# ### BEGIN SOLUTION
# The tables grow as $VD$ and the layers as $LD^2$, so the ratio of $V$ to $LD$ decides. The lab's model has many words
# (50,001), a small width and few layers, and it has two tables, one for input and one for output. BERT-base is nearly
# four times as wide and three times as deep, its inner width is $4D$, its vocabulary is smaller, because it is made of
# pieces of words, and its base has one table only. One can tie the head to the embedding: that removes half of the
# tables, but the same rows must serve reading and predicting. One can use subwords: there are fewer rows, but sequences
# are longer and attention costs more time. One can factorise the table into $V \times E$ and $E \times D$ with a small
# $E$, as ALBERT does: then only $E$ dimensions distinguish the words. One can remove rare words: they all become
# "unknown".
# === BEGIN MARK SCHEME ===
# One point: tables scale with V times D and layers with L times D squared (or an equivalent argument: wide and deep
# against a large vocabulary); one table in BERT's base and two in the language model may be mentioned.
# One point: two ways with a cost each (tying: one matrix for two purposes; subwords: longer sequences;
# factorisation: fewer dimensions per word; smaller vocabulary: unknown words; wider or deeper layers: they lower the
# vocabulary's share too, and cost parameters, memory and FLOPs). Half a point for two ways without costs or one way
# with its cost.
# No point for "more data" or "fewer heads": neither changes the count.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 3.W2** (2 points). You train a `seq_bn` adapter in a frozen BERT-base, and not
# all of BERT. In four to eight sentences: which of these become smaller, and which do not? Consider weights, gradients,
# Adam's states, activations, the file for a further task, and the FLOPs of a forward pass. Use your formulas. What
# changes if you train a fusion of three instead?

# %% [markdown] written="3.W2" points=2
# ### BEGIN SOLUTION
# Smaller: gradients and Adam's states, which exist for trained weights only. They take 12 bytes for each trained
# weight, so they nearly vanish if less than one percent of BERT is trained. The file for a further task is smaller by
# the same factor: the base is stored once, each task adds its adapter and its head. Not smaller: the weights. All of
# them must be in memory, and there are even a few more. The forward pass does all of BERT's products and also the
# adapters'. Activations change little, because the gradient has to pass through all frozen layers to reach the lowest
# adapter. Some can be dropped: the inputs of frozen matrices, which are needed only for the gradients of these
# matrices. A fusion of three trains 21,252,096 numbers, more than twenty adapters, a fifth of BERT: gradients and
# states come back in part; and the forward pass computes three adapters in each layer.
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
