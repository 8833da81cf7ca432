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
# # 2. Where a word stands
#
# Without positions, attention treats a sentence as a bag of words: shuffle the tokens, and each token's output stays
# the same. So *dog bites man* and *man bites dog* are the same sentence, until each word is marked with its position.
#
# There are many ways to mark it. You build five: a fixed table, a learned one, a rotation, a penalty on distance, and
# nothing at all. Then you train all five on short texts and test them on longer ones. Not all survive.
#
# Each exercise is checked on the spot and stands on its own: if you get stuck, continue with the next one and come back
# later. In grading, private checks ask the same with other sizes, positions, dtypes and modules, and try the limits
# that a docstring names. Your code must never change its arguments, and its results must be new objects: writing into
# one changes no later result. A call must not change torch's default dtype (float32) or device, nor whether gradients
# are recorded. It may change the global random generators only by drawing from them, and only if the exercise draws.
# The exercises take about an hour and three quarters and need no GPU, but your answers must also work on one: a tensor
# that you make beside an input belongs on the input's device.

# %% tags=["setup"]

# %%
import math
from functools import partial

import pandas as pd
import torch
from torch import nn

from utils import plots
from utils.checks import nb02_positional_encoding as checks
from utils.experiments import extrapolation, profiles, recurrence
from utils.experiments.runs import load_table, run_seeds
from utils.experiments.seed_table import SeedTable, across
from utils.grading import toys
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.predictions import predict, reveal

# %% [markdown]
# ## 2.1 A clock with many hands
#
# A position needs a mark that is the same in every sentence and different for each position. The mark must also be
# bounded, so that it does not hide the word it is added to. A clock does that with a few hands, fast and slow. The
# Transformer represents each hand by a sine and a cosine:
#
# $$PE_{t,\,2i} = \sin\!\left(\frac{t}{10000^{2i/d}}\right), \qquad
# PE_{t,\,2i+1} = \cos\!\left(\frac{t}{10000^{2i/d}}\right).$$
#
# Row $t$ is a position, counted from 0; pair $i$ is a hand; $d$ is `d_model`.
# ([Vaswani and others](https://arxiv.org/abs/1706.03762), "Positional Encoding".)
#
# **Predict first.** What is row 0? Which columns change most from row to row?
#
# **Exercise 2.1** (2 points, about 15 minutes, easy). Write `sinusoidal_table`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.arange` counts in steps too. `table[:, 0::2]` is every second column, and can
# be assigned to.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# $i$ counts pairs, not columns: both columns of a pair have the same wavelength.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a column of positions times a row of speeds is a table of angles; its sines go to the
# even columns, its cosines to the odd ones.
# </details>


# %%
predict(
    "2.1",
    "a",
    a="0, 1, 0, 1 and so on; the left columns",
    b="all zeros; the left columns",
    c="0, 1, 0, 1 and so on; the right columns",
)


# %% exercise="2.1"
def sinusoidal_table(max_len, d_model):  # -> (max_len, d_model)
    """Return the table of sines and cosines, a plain float32 tensor (max_len, d_model).

    Raises:
        ValueError: `d_model` is odd, so that one sine would have no cosine.
    """
    ### BEGIN SOLUTION
    if d_model % 2:
        raise ValueError(f"d_model is {d_model}, but sines and cosines come in pairs")
    speeds = 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(max_len).unsqueeze(1) * speeds  # (max_len, d_model / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    ### END SOLUTION


# %% check="2.1"
checks.sinusoidal_table(sinusoidal_table)

# %%
plots.heatmaps(
    {"64 positions, 64 columns": sinusoidal_table(64, 64)},
    xlabel="column",
    ylabel="position",
    limits=(-1, 1),
    alt="Heat map of the sinusoidal table: fast stripes in the left columns, almost constant ones at the right.",
)

# %% [markdown]
# Row 0 is 0, 1, 0, 1 and so on. The left columns change quickly, the right ones barely: they are the second and the
# hour hands.

# %% [markdown]
# ## 2.2 A table is not a parameter
#
# A module can hold numbers in three ways. A **parameter** is trained. A **buffer** is not, but moves with the module to
# a GPU or to another dtype. A plain attribute stays where it was made, and one day meets a tensor on another device.
#
# Your module adds row $t$ to position $t$ of every sequence, in training and in evaluation mode:
#
# $$y_{b,t} = x_{b,t} + \mathrm{table}_t.$$
#
# Make the table once, and keep it out of the `state_dict`: a checkpoint should not fix the
# longest input forever.
#
# **Predict first.** How many parameters does this module add?
#
# **Exercise 2.2** (2 points, about 10 minutes, easy). Write `FixedPositions`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.Module.register_buffer`, and its argument `persistent`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A table of one row would be added at every position without an error: broadcasting does not
# complain. Compare the lengths yourself.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# when made: register the table. In `forward`: refuse if x has more positions than the table has rows; otherwise x plus
# as many rows as x has positions.
# </details>


# %%
predict("2.2", 0)


# %% exercise="2.2"
class FixedPositions(nn.Module):
    """Add a fixed table to x. The table is a buffer that `state_dict()` leaves out."""

    def __init__(self, make_table, max_len, d_model):
        """`make_table(max_len, d_model)` gives the table, (max_len, d_model). It is called once, here."""
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("table", make_table(max_len, d_model), persistent=False)
        ### END SOLUTION

    def forward(self, x):  # (B, T, d_model) -> (B, T, d_model)
        """From x (B, T, d_model) to the same shape and device. Raises ValueError if T is larger than max_len."""
        ### BEGIN SOLUTION
        if x.size(1) > self.table.size(0):
            raise ValueError(f"{x.size(1)} positions, but the table has {self.table.size(0)} rows")
        return x + self.table[: x.size(1)]
        ### END SOLUTION


# %% check="2.2"
checks.fixed_positions(FixedPositions)

# %%
fixed = FixedPositions(torch.ones, 4, 6)  # any table will do
print("parameters:", sum(part.numel() for part in fixed.parameters()))
print("stored:", dict(fixed.state_dict()))
print("after .double():", fixed.double()(torch.zeros(1, 2, 6, dtype=torch.float64)).dtype)

# %% [markdown]
# No parameter, nothing to store, and no `.to(x.device)` in every forward pass.

# %% [markdown]
# ## 2.3 What attention cannot see
#
# Let $\pi$ be an order of the tokens. A module is **permutation-equivariant** if it does not
# matter whether we shuffle before it or after it:
#
# $$f(x_\pi) = f(x)_\pi.$$
#
# Such a module cannot know a token's position. The gap is the largest absolute difference between the two sides.
# Measure it in evaluation mode, without gradients, and leave the mode as you found it.
#
# **Predict first.** Which encoder layers have a gap: a bare one, one behind a table, one
# with a causal mask?
#
# **Exercise 2.3** (2 points, about 15 minutes, medium). Write `equivariance_gap`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `x[:, permutation]` shuffles the positions. `module.training` says which mode it is in, and
# `module.train(mode)` sets it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Comparing $f(x_\pi)$ with $f(x)$ tests something else: that the result does not change although the tokens moved.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# remember the mode; eval; without gradients: module of shuffled x, minus shuffled module
# of x; largest absolute value; put the mode back.
# </details>


# %%
predict(
    "2.3",
    "c",
    a="the bare one",
    b="the one behind a table",
    c="the one behind a table and the one with a mask",
    d="all three",
)


# %% exercise="2.3"
def equivariance_gap(module, x, permutation):
    """The largest absolute difference, a float, between permuting before and after `module`, over all entries.

    Args:
        module: maps (B, T, C) to (B, T, C), all its parts in one mode; it is measured in evaluation mode and is left
            as it was: modes of all parts, gradients, what learns.
        x: (B, T, C), of the module's dtype. permutation: int64 (T,), position t takes the token of position
            permutation[t].
    """
    ### BEGIN SOLUTION
    was_training = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(was_training)
    return gap
    ### END SOLUTION


# %% check="2.3"
checks.equivariance_gap(equivariance_gap)

# %%
torch.manual_seed(0)
x, order = torch.randn(1, 8, 16), torch.randperm(8)
bare = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
marked = nn.Sequential(toys.AddRows(torch.randn(8, 16)), bare)
causal = toys.Masked(bare, nn.Transformer.generate_square_subsequent_mask(8))
for name, module in {"bare": bare, "with a table": marked, "with a causal mask": causal}.items():
    print(f"{name}: {equivariance_gap(module, x, order):.6f}")

# %% [markdown]
# The bare layer is blind to order. With the mask, the first token reads one token and the last reads all: that reveals
# the order.

# %% [markdown]
# ## 2.4 A step is a turn
#
# Why sines *and* cosines? Two numbers say where a hand points, and a hand moves by $k$ hours in the same way from every
# hour. So there is one matrix for each distance, and it works at all positions:
#
# $$PE_{t+k} = R(k)\, PE_t \quad\text{for every } t.$$
#
# **Predict first.** How many entries of $R(k)$ can differ from zero? What is
# $R(k)\,R(k)^\top$?
#
# **Exercise 2.4** (2 points, about 15 minutes, medium). Write `shift_matrix`.
#
# <details><summary>Hint 1: a formula to look up</summary>
#
# $\sin(a + b) = \sin a \cos b + \cos a \sin b$ and
# $\cos(a + b) = \cos a \cos b - \sin a \sin b$. `torch.block_diag` joins small matrices.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The pair is (sine, cosine), in this order. The textbook rotation matrix is written for
# (cosine, sine), and turns this pair backwards.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# for each pair, its angle for $k$ steps; the rows of its block are (cos, sin) and
# (-sin, cos); put the blocks on the diagonal.
# </details>


# %%
predict("2.4", "b", a="d", b="2 d", c="d squared")


# %% exercise="2.4"
def shift_matrix(k, d_model):  # -> (d_model, d_model)
    """The matrix R, a plain float32 tensor (d_model, d_model), with table[t + k] == R @ table[t] for every t.

    Args:
        k: a whole number of positions, of either sign.
        d_model: even.
    """
    ### BEGIN SOLUTION
    blocks = []
    for pair in range(d_model // 2):
        angle = k / 10000 ** (2 * pair / d_model)
        sine, cosine = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))
    return torch.block_diag(*blocks)
    ### END SOLUTION


# %% check="2.4"
checks.shift_matrix(shift_matrix)

# %%
plots.heatmaps(
    {f"R({k})": shift_matrix(k, 12) for k in (1, 8, 64)},
    xlabel="column",
    ylabel="row",
    limits=(-1, 1),
    alt="Three matrices with blocks of two on the diagonal. Fast pairs have turned, slow ones are near the identity.",
)

# %% [markdown]
# Two in each row, and $R(k)\,R(k)^\top$ is the identity: a rotation. An attention head
# can learn $R(-k)$ inside its query matrix, and so look $k$ positions back from anywhere. That
# was the authors' hope.

# %% [markdown]
# ## 2.5 Let it learn
#
# GPT and BERT do without trigonometry: each position has a row of parameters, which is trained. ([Shaw and
# others](https://arxiv.org/abs/1803.02155) learn distances instead.)
#
# $$y_{b,t} = x_{b,t} + W_t.$$
#
# A row learns only from texts that reach its position. Positions beyond the last row have none: raise a `ValueError`.
# Rows start small, normal with standard deviation 0.02 as in BERT.
#
# **Predict first.** Before training, are neighbouring rows more alike than distant ones?
# In the sinusoidal table they are.
#
# **Exercise 2.5** (2 points, about 10 minutes, easy). Write `LearnedPositions`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.normal_` fills a weight in place. `nn.Embedding` starts with a standard
# deviation of 1.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `nn.Embedding` raises an IndexError on the CPU for a number it has no row for, and on a
# GPU it may kill the whole process. Compare the lengths first. Position numbers that you make
# with `torch.arange` need `device=x.device`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# when made: an embedding, refilled. In `forward`: refuse what is too long; x plus the
# first T rows of the weight.
# </details>


# %%
predict("2.5", "b", a="yes", b="no", c="no, they are less alike")


# %% exercise="2.5"
class LearnedPositions(nn.Module):
    """Add a learned row at each position of x. One part: `positions`, an nn.Embedding that starts as N(0, 0.02^2)."""

    def __init__(self, max_len, d_model):
        super().__init__()
        ### BEGIN SOLUTION
        self.positions = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.positions.weight, std=0.02)
        ### END SOLUTION

    def forward(self, x):  # (B, T, d_model) -> (B, T, d_model)
        """From x (B, T, d_model) to the same shape and device. Raises ValueError if T is larger than max_len."""
        ### BEGIN SOLUTION
        if x.size(1) > self.positions.num_embeddings:
            raise ValueError(f"{x.size(1)} positions, but only {self.positions.num_embeddings} rows were made")
        return x + self.positions.weight[: x.size(1)]
        ### END SOLUTION


# %% check="2.5"
checks.learned_positions(LearnedPositions)

# %%
fresh = LearnedPositions(48, 64)(torch.zeros(1, 48, 64))[0].detach()
tables = {"sinusoidal": sinusoidal_table(48, 64), "learned, before training": fresh}
plots.heatmaps(
    {name: nn.functional.cosine_similarity(table, table[:, None], dim=-1) for name, table in tables.items()},
    xlabel="position",
    ylabel="position",
    limits=(-1, 1),
    alt="Cosine similarity of rows: a smooth bright band around the diagonal for sines, the bare diagonal for noise.",
)

# %% [markdown]
# In a fresh table, row 3 is no more like row 4 than like the last row. Whatever the trained table knows about nearness,
# it has learned from text.

# %% [markdown]
# ## 2.6 Turn the queries and keys
#
# If a step is a turn, why add anything? RoFormer turns queries and keys themselves, each by
# its own position, before they meet:
#
# $$\begin{pmatrix} y_{2i} \\ y_{2i+1} \end{pmatrix} =
# \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
# \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix},
# \qquad \theta = \frac{t}{10000^{2i/d}}.$$
#
# The dot product of two rotated vectors depends only on the difference of their angles. `start` is the position of the
# first token: a model that generates text keeps the keys of past tokens as they are, and turns only the new ones. ([Su
# and others](https://arxiv.org/abs/2104.09864), section 3.)
#
# **Predict first.** Move query and key by the same number of positions. What happens to their
# score?
#
# **Exercise 2.6** (3 points, about 20 minutes, medium). Write `rotary`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `x[..., 0::2]` is the first column of every pair. `Tensor.unflatten(-1, (-1, 2))` and
# `Tensor.flatten(-2)` take pairs apart and join them again.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Many programs pair column $i$ with column $i + d/2$. That works as well, but not with
# weights trained the other way: here, as in the paper, neighbours are pairs. The heads of an
# attention are a transposed view: `reshape` copes with that, `view` may not.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# angles (T, d/2) from positions and speeds, on the device of x; a, b = even and odd columns; stack
# a cos - b sin and a sin + b cos as pairs; flatten; back to the dtype of x.
# </details>


# %%
predict("2.6", "a", a="it stays", b="it grows", c="it changes its sign")


# %% exercise="2.6"
def rotary(x, start=0):  # (..., T, d) -> (..., T, d)
    """Turn each pair of columns of x by an angle that grows with the position.

    Args:
        x: (..., T, d), any number of leading dimensions; in memory its rows are dense and begin at even places.
        start: the position of the first token, from 0.

    Returns:
        the same shape, dtype and device, computed in float32 or better, the angles too. Gradients reach x.

    Raises:
        ValueError: d is odd.
    """
    ### BEGIN SOLUTION
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError(f"the width is {d}, but columns turn in pairs")
    positions = torch.arange(start, start + T, device=x.device).unsqueeze(1)
    angles = positions * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)  # (T, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)
    ### END SOLUTION


# %% check="2.6"
checks.rotary(rotary)

# %%
ones = torch.ones(64, 32)  # every token asks and offers the same
scores = {f"query at position {m}": rotary(ones, m)[0] @ rotary(ones, m - 63).T for m in (63, 163)}
plots.curves(
    {name: score.flip(0) for name, score in scores.items()},
    x=range(64),
    xlabel="distance of the key",
    ylabel="score",
    alt="Two curves that coincide: the score falls with the distance, in waves, whatever the position of the query.",
)

# %% [markdown]
# The two curves coincide: the score depends on the distance, not on the positions. The fast pairs make full turns, so
# it falls in waves.
#
# **Play.** Move both sliders by the same number of steps. What turns, and what stays?

# %%
asks, offers = torch.tensor([[1.0, 0.0] * 3]), torch.tensor([[0.8, 0.3] * 3])


def turned(query_position, key_position):
    arrows = {"query": rotary(asks, query_position)[0].view(3, 2), "key": rotary(offers, key_position)[0].view(3, 2)}
    score = (arrows["query"] * arrows["key"]).sum().item()
    panels = {f"pair {k}": {name: pairs[k].tolist() for name, pairs in arrows.items()} for k in range(3)}
    alt = f"Three pairs of columns as arrows, at positions {query_position} and {key_position}: score {score:.2f}."
    return plots.arrows(panels, title=f"score {score:.2f}", alt=alt)


interactive(turned, query_position=range(6), key_position=range(6), start={"query_position": 2})

# %% [markdown]
# ## 2.7 Just a penalty
#
# ALiBi adds nothing to the tokens and turns nothing. It lowers each score in proportion to the distance, with a slope
# for each head:
#
# $$B_{h,i,j} = \begin{cases} -m_h\,(i - j) & j \le i \\ -\infty & j > i, \end{cases}
# \qquad m_h = 2^{-8h/n}, \quad h = 1, \dots, n.$$
#
# The first of $n$ heads is short-sighted, the last sees far. For an $n$ that is not a power of
# two the authors mix two such series; here it is refused.
# ([Press and others](https://arxiv.org/abs/2108.12409), section 3.)
#
# **Predict first.** If all scores are equal, what are the weights in head 1, and in the
# last head?
#
# **Exercise 2.7** (2 points, about 15 minutes, easy). Write `alibi_bias`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `positions - positions[:, None]` is a matrix of differences. `Tensor.masked_fill` puts one
# value where a condition holds.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The slopes 1/2, 1/4, 1/8 and so on belong to eight heads only. And 0 times $-\infty$
# is `nan`: hide the future last.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse; slopes (n, 1, 1); key minus query (T, T); product; minus infinity where the key
# comes after the query.
# </details>


# %%
predict(
    "2.7",
    "b",
    a="equal, in both",
    b="head 1 reads only near tokens, the last head all nearly alike",
    c="the last head reads only near tokens, head 1 all nearly alike",
)


# %% exercise="2.7"
def alibi_bias(n_heads, T):  # -> (n_heads, T, T)
    """The bias to add to causal attention scores, a plain float tensor (n_heads, T, T). Rows are queries, columns keys.

    Raises:
        ValueError: `n_heads` is not a power of two (1, 2, 4, 8, ...).
    """
    ### BEGIN SOLUTION
    if n_heads < 1 or n_heads & (n_heads - 1):
        raise ValueError(f"{n_heads} heads: the slopes are defined for a power of two")
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    positions = torch.arange(T)
    distance = positions - positions[:, None]  # key minus query: 0 on the diagonal, negative in the past
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)
    ### END SOLUTION


# %% check="2.7"
checks.alibi_bias(alibi_bias)

# %%
weights = alibi_bias(4, 24).softmax(-1)  # what is read if all scores are equal
plots.heatmaps(
    {f"head {head + 1}": weights[head] for head in range(4)},
    limits=(0, 0.3),
    alt="Four causal maps of attention weights: a narrow band along the diagonal in head 1, nearly even in head 4.",
)

# %% [markdown]
# Head 1 reads the last few tokens, head 4 takes nearly an even mean of the past. The slopes are not learned, so no head
# can choose how far it sees.

# %% [markdown]
# **Question 2.W1** (2 points). In four to six sentences: why must information about order be
# added to a Transformer encoder at all? Use what you measured in 2.3. A recurrent network
# needs no such thing: why not? And what does a causal mask change?

# %% [markdown] written="2.W1" points=2
# ### BEGIN SOLUTION
# Attention is a weighted mean over a set: the weights depend on contents alone, and a mean does not depend on the order
# of its terms. The feed-forward part and the norm treat each token on its own. So an encoder is
# permutation-equivariant: shuffle the input, and the outputs are the same ones in shuffled order, as the gap of zero in
# 2.3 shows. It could not tell two sentences of the same words apart, although order carries meaning (who bites whom). A
# recurrent network reads one token after the other, each step depending on the last, so order is in the computation
# itself. A causal mask breaks the symmetry: token t reads t + 1 tokens, so a decoder can in principle find out its
# position without any encoding.
# === BEGIN MARK SCHEME ===
# One point: attention without positions is permutation-equivariant (weights depend on contents only, the
# rest acts on each token alone), with the measured gap or a clear argument, and order matters for meaning.
# One point: recurrence has order in its sequential computation (half), and the causal mask alone breaks
# the symmetry because each position reads a different number of tokens (half).
# "Invariant" for "equivariant" costs nothing if the argument is right. No point for "because the paper does".
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 2.W2** (2 points). A fixed table is made once and added to every sentence. In three to six sentences: what
# would go wrong if each sentence had a table of its own, drawn at random? And if one random table, drawn once, served
# all sentences: what could a model with it learn, and what does the sinusoidal one offer that the random one does not?

# %% [markdown] written="2.W2" points=2
# ### BEGIN SOLUTION
# Row t depends on t and on the width alone, not on the words, the sentence or its length: position 3 means the same
# everywhere. Because a position always has the same vector, the weights can learn what it means, for instance how to
# look one position back. With a new random table for each sentence, the vectors would tell positions apart within the
# sentence. But nothing about their order would carry over to the next sentence, so the model could not learn anything
# about positions. One random table for all sentences works up to its length: each position has a fixed vector, and the
# weights can learn to use it, as they do with a trained table. But its rows have no relation to each other: what was
# learned about positions 3 and 4 says nothing about 30 and 31. In the sinusoidal table a shift by $k$ is the same
# rotation at every position, so "one position back" can be the same linear map everywhere, even at positions that did
# not occur in training.
# === BEGIN MARK SCHEME ===
# One point: a position's vector can be learned only if it is the same in all sentences; with a new random table nothing
# about order carries over. One fixed random table can be learned, position by position.
# One point: the sinusoidal table relates positions to each other and the random one does not. One of these reasons is
# enough: a shift is one rotation; near positions are similar; it has rows beyond the trained lengths.
# Half a point for "it saves time and memory" without either reason.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# ### What recurrence costs
#
# A recurrent network gets order for free. Is it slower? Below is one training step of an LSTM and of a Transformer
# layer of the same width, with nearly as many parameters: milliseconds of **one** core, and the megabytes that the
# forward pass keeps for the backward pass. The measurements came with the course; the last line was measured on this
# machine. **Predict first.** Texts become twice as long: what happens to each of the four numbers?

# %% tags=["experiment"]
print("Vaswani et al. (2017), table 1, a layer:", recurrence.TABLE_1)
costs = recurrence.recorded()
print(f"{'tokens of a text':>18}", *(f"{length:>7}" for length in recurrence.LENGTHS))
for kind in recurrence.KINDS:
    some = {row["length"]: row for row in costs if row["kind"] == kind}
    print(f"{kind:>18}", *(f"{1000 * some[length]['seconds']:7.1f}" for length in recurrence.LENGTHS), "ms")
    print(f"{'':>18}", *(f"{some[length]['kept'] / 2**20:7.1f}" for length in recurrence.LENGTHS), "MB")
here = {kind: recurrence.measure(kind, recurrence.LENGTHS[0], repeats=3) for kind in recurrence.KINDS}
print("here, the shortest texts:", {kind: f"{1000 * row['seconds']:.1f} ms" for kind, row in here.items()})

# %% [markdown]
# On one core the LSTM is faster at every length. Its time and memory double with the text; attention's grow faster,
# because it weighs every pair of tokens. It keeps less than the LSTM for short texts, and more for long ones. So a
# recurrent network does not do more work. But it works in as many steps as there are tokens, and each step waits for
# the previous one. Attention reads all tokens at once. That helps where much is computed in parallel: on a GPU, which
# was not measured here. The other price of recurrence is the length of the path between the two ends of a text. The
# paper's table has it in the last column.

# %% [markdown]
# ## Experiment: trained on short texts, tested on longer ones
#
# Five small causal models learn to guess the next character of Python's documentation. They differ in one thing: how
# they know the position of a character. In training they see windows of 32 characters. In the test they guess the
# *same* 16 characters with 32, 64 and 128 characters in sight. More to read should help, and should never hurt.
#
# <!-- box: size gpu -->
#
# **Predict first.** Order the five by their loss at length 32, and again at 128. Which of them will get worse when they
# see more, and which one the least? The learned table has rows for 128 positions here, but only the first 32 are
# trained.

# %% tags=["experiment"]
predict("2.E1", "c", a="the one without positions", b="rotary", c="ALiBi", d="the learned table")

# %% tags=["experiment"]
schemes = {
    "none": extrapolation.Scheme(),
    "sinusoidal": extrapolation.Scheme(add=partial(FixedPositions, sinusoidal_table)),
    "learned": extrapolation.Scheme(add=LearnedPositions),
    "rotary": extrapolation.Scheme(turn=rotary),
    "ALiBi": extrapolation.Scheme(bias=alibi_bias),
}
experiments = extrapolation.experiments("02_positional_encoding", schemes=schemes)
seeds = range(1, profiles.pick(smoke=3, cpu=4, gpu=6))
print(f"{profiles.name()} on {profiles.device()}, seeds {[*seeds]}: {experiments['none']}")

# %% tags=["experiment"]
runs = {name: run_seeds(experiment, seeds, None) for name, experiment in experiments.items()}
across(runs, extrapolation.METRICS)

# %% [markdown]
# The table shows nats per character: mean over the seeds and, in brackets, the sample
# standard deviation. In the figure the band runs from the best seed to the worst.

# %% tags=["experiment"]
extrapolation.picture(
    runs, "Loss of the five schemes when tested with as many characters in sight as in training, and with more."
)

# %% [markdown]
# At the longest length, which schemes differ from "none", the one without positions? The rule draws seeds and test
# windows again; notebook 05 takes it apart.

# %% tags=["experiment"]
far = SeedTable(runs, extrapolation.METRICS[-1])
print(*far.compared(("none", name) for name in [*runs][1:]), sep="\n\n")

# %% [markdown]
# Below are the authors' own runs: profile `cpu`, three seeds a scheme. The card beside the files
# in `data/results/` says how they were made.

# %% tags=["experiment"]
measured = load_table(extrapolation.experiments("02_positional_encoding", "cpu"), extrapolation.RECORDED)
extrapolation.picture(
    measured, "Past the trained length three schemes rise steeply, none rises less, and ALiBi stays almost level."
)

# %% tags=["experiment"]
print(f"knowing how frequent each character is, and nothing else: {extrapolation.baseline():.2f} nats")
across(measured, extrapolation.METRICS)

# %% tags=["experiment"]
reveal("2.E1")

# %% [markdown]
# Look at length 32 first. Any sense of order beats none, and rotary is best. Then move
# right. Three schemes end up worse than a model that only counts characters: they
# meet marks, or angles, that training never showed them. *None* loses less. Only ALiBi
# holds, perhaps because a distance it never saw costs just a little more than one it did.
# Even so it gains nothing from the longer text, and loses a little.
#
# This is one small model, one kind of text and a short training. It shows how these five schemes behave beyond their
# training length without further tricks, not which of them extrapolates best in general.

# %%
scoreboard(checks)
