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
# # 10. Remember the page before
#
# A model that reads a text in segments forgets everything between them: the first words of a segment have no context,
# although the model has just read the page before. Transformer-XL (Dai et al. 2019) calls this context fragmentation,
# and keeps the states of the previous segment as a memory. For that, positions can no longer be counted from the
# beginning.
#
# XLNet (Yang et al. 2019) is built on it, with another objective: it predicts the words of a text in any order, so that
# each may see words on both sides.
#
# You should know attention and the causal mask (notebook 01) and the sinusoidal table (notebook 02). Each exercise is
# checked on the spot. In grading, private checks ask the same with other sizes, larger than those here, other numbers
# and orders of calls. Your functions return new objects, and change their arguments only where the text asks for it. A
# call must not change torch's default dtype (float32) or device, nor whether gradients are recorded. It may change the
# global random generators only by drawing from them, and only if the exercise draws. The exercises take about three
# hours, not counting the written questions. They need no GPU, but your answers must also work on one: create tensors on
# the device of your arguments.

# %% tags=["setup"]

# %%
import math
import time

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import block_diagrams, plots
from utils.checks import nb10_longer_context as checks
from utils.experiments import longer_context as reading
from utils.experiments import profiles, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 10.10 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 10.1 How far, not where
#
# If a text has many segments, place 3 of this segment and place 3 of the previous one must not look alike. So
# Transformer-XL uses **distances** in place of positions: a key $\delta$ tokens before the query gets the row
#
# $$r_\delta = [\sin(\delta \omega_0), \dots, \sin(\delta \omega_{d/2-1}), \cos(\delta \omega_0), \dots,
# \cos(\delta \omega_{d/2-1})], \qquad \omega_k = 10000^{-2k/d}.$$
#
# First come all sines, then all cosines; in notebook 02 they alternate. The table runs **backwards**: its first row is
# for the farthest key, since keys are ordered from the farthest to the nearest.
#
# **Predict first.** Which row of the table does not depend on $n$, and what does it hold?
#
# **Exercise 10.1** (1 point, about 10 minutes, easy). Write `distance_table`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.arange(n - 1, -1, -1)` counts down to 0; `torch.cat`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The exponent is $-2k/d$ with the whole width $d$, though there are only $d/2$ frequencies.
# </details>


# %%
predict("10.1", "c", a="the first one: zeros", b="the first one: ones, then zeros", c="the last one: zeros, then ones")


# %% exercise="10.1"
def distance_table(n, d):  # -> (n, d)
    """The rows of the distances n-1, n-2, ..., 0, in this order, a float32 tensor (n, d). n is 1 or more, d is even."""
    ### BEGIN SOLUTION
    angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
    ### END SOLUTION


# %% check="10.1"
checks.distance_table(distance_table)

# %%
table = distance_table(60, 32)
alt = "Sixty distances in thirty-two columns: sines at the left, cosines at the right. Fast waves, then slow ones; in "
alt += "the last row, distance 0, all sines are 0 and all cosines are 1."
plots.heatmaps({"distance_table(60, 32)": table}, limits=None, xlabel="column", ylabel="row", alt=alt)

# %%
alt = "The product of the row of distance 0 with that of each other distance: it falls from 16 and then swings."
similar = (table @ table[-1]).flip(0)
plots.curves({"with distance 0": similar}, x=range(60), xlabel="distance", ylabel="product of rows", alt=alt)

# %% [markdown]
# The last row, for distance 0, is zeros and then ones, whatever the length of the table. Similar distances have similar
# rows.

# %% [markdown]
# ## 10.2 One column further with each row
#
# Each query has its keys at different distances. Looking up a row of the table for each pair takes $T \times S$ rows;
# multiplying all queries with all rows takes one product. But in that product column $c$ stands for **distance**
# $S - 1 - c$ in every row, while attention needs column $j$ to stand for **key** $j$. Query $i$ of $T$ comes after
# $S - T$ remembered tokens, so key $j$ is at distance
#
# $$\delta = i + (S - T) - j.$$
#
# Row $i$ has to move to the left by $T - 1 - i$ columns. Entries to the right of $\delta = 0$ would then be keys in the
# future: they are meaningless, and masked later.
#
# **Predict first.** Which row does not move at all?
#
# **Exercise 10.2** (2 points, about 20 minutes, medium). Write `shift`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.pad(scores, (1, 0))` puts a column of zeros in front; a `reshape` then keeps the order of the numbers. Or
# `torch.gather` with the column of each pair.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# After the pad there are $T$ rows of $S + 1$ numbers. Read them as $S + 1$ rows of $T$, and leave out the first row.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# pad on the left: (B, H, T, S + 1); reshape to (B, H, S + 1, T); drop row 0; reshape to (B, H, T, S).
# </details>


# %%
predict("10.2", "b", a="the first one", b="the last one", c="none")


# %% exercise="10.2"
def shift(scores):  # (B, H, T, S) -> (B, H, T, S)
    """Scores by distance -> scores by key, in the same shape (B, H, T, S) and dtype, S at least T.

    Given: column c of every row is about distance S - 1 - c. Wanted: column j of row i is about the key j, at distance
    i + (S - T) - j. Where that is negative, any finite number may stand, if the scores are finite.
    """
    ### BEGIN SOLUTION
    B, H, T, S = scores.shape
    padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
    return padded[:, :, 1:].reshape(B, H, T, S)
    ### END SOLUTION


# %% check="10.2"
checks.shift(shift)

# %%
distances = torch.arange(6, -1, -1.0).expand(1, 1, 4, 7)
moved = shift(distances)[0, 0]
keys_seen = torch.arange(7) <= torch.arange(4)[:, None] + 3
panels = {"before": distances[0, 0], "after": moved, "masked": moved.masked_fill(~keys_seen, torch.nan)}
alt = (
    "Four queries, seven keys, three of them remembered: the distance in each cell. Before, all rows are alike; after, "
)
alt += "the zero stands at the query itself, and what is right of it is left over from other rows."
plots.tables(panels, rows=[f"query {i}" for i in range(4)], columns=[*"mmm0123"], limits=(0, 6), alt=alt)

# %% [markdown]
# The last row stays: for its query, each column already stands at the right distance. Every other row moves by one
# more than the next.

# %% [markdown]
# ## 10.3 Attention with distances
#
# The score of a query and a key has four terms (section 3.3):
#
# $$\underbrace{q_i^\top k_j}_{a} + \underbrace{q_i^\top W_R\, r_\delta}_{b} + \underbrace{u^\top k_j}_{c} +
# \underbrace{v^\top W_R\, r_\delta}_{d} = (q_i + u)^\top k_j + (q_i + v)^\top W_R\, r_\delta.$$
#
# In $c$ and $d$, the vectors $u$ and $v$ replace the query; each head has its own. Content and distance have separate
# key matrices. Scores are divided by $\sqrt{d_\text{head}}$. Keys and values come from memory and segment, queries from
# the segment alone.
#
# **Predict first.** Drawn as a matrix of queries and keys, what does each term look like?
#
# **Exercise 10.3** (4 points, about 40 minutes, hard). Write `RelativeAttention`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `x.unflatten(-1, (n_heads, d_head)).transpose(1, 2)` cuts the width into heads; `transpose(1, 2).flatten(2)` undoes
# it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Query $i$ sees all of the memory: key $j$ is hidden where $j > i + (S - T)$, so `triu(1)` hides too much.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# seen = memory, then x. Queries of x; keys and values of seen; r_proj of the distance table, all cut into heads.
# Scores: (q + u) with the keys, plus the shift of (q + v) with the table; divide, mask, softmax, values, heads
# together, out_proj.
# </details>


# %% exercise="10.3"
class RelativeAttention(nn.Module):
    """Causal multi-head attention of a segment to itself and to a memory before it (Dai et al. 2019, section 3.3).

    Parts: `q_proj`, `k_proj`, `v_proj`, `r_proj` and `out_proj`, linear maps of d_model without bias; `u` and `v`,
    parameters (n_heads, d_model / n_heads). Head h has the h-th block of columns. `r_proj` is applied to the rows of
    10.1. n_heads divides d_model, which is even. No dropout.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        ### BEGIN SOLUTION
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        for name in ("q_proj", "k_proj", "v_proj", "r_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.u = nn.Parameter(torch.zeros(n_heads, self.d_head))
        self.v = nn.Parameter(torch.zeros(n_heads, self.d_head))
        ### END SOLUTION

    def forward(self, x, memory=None):  # (B, T, d_model), (B, M, d_model) -> (B, T, d_model)
        """x (B, T, d_model), memory (B, M, d_model) of the tokens right before it, or None -> (B, T, d_model).

        M may be any length, 0 too, which is the same as None. x has the dtype and device of the weights, float64 too.
        Gradients flow back to x.
        """
        ### BEGIN SOLUTION
        seen = x if memory is None else torch.cat([memory, x], dim=1)
        T, S, d = x.size(1), seen.size(1), x.size(2)
        columns = torch.arange(S, device=x.device)
        rows = torch.arange(T - 1, -1, -1, device=x.device)[:, None]
        angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
        r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x))[None]
        parts = (self.q_proj(x), self.k_proj(seen), self.v_proj(seen), r)
        q, k, v, r = (part.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2) for part in parts)
        by_content = (q + self.u[:, None]) @ k.mT
        by_distance = (q + self.v[:, None]) @ r.mT
        moved = by_distance.gather(-1, (columns + rows).clamp(max=S - 1).expand_as(by_distance))
        scores = (by_content + moved) / self.d_head**0.5
        weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        ### END SOLUTION


# %% check="10.3"
checks.relative_attention(RelativeAttention)

# %%
torch.manual_seed(0)
q, k, u, v = torch.randn(6, 8), torch.randn(10, 8), torch.randn(8), torch.randn(8)
r = distance_table(10, 8) @ torch.randn(8, 8)
by_distance = {"b: query, distance": q @ r.T, "d: distance alone": (v @ r.T).expand(6, 10)}
by_key = {name: shift(scores[None, None])[0, 0] for name, scores in by_distance.items()}
terms = {"a: query, key": q @ k.T, **by_key, "c: key alone": (u @ k.T).expand(6, 10)}
hidden = torch.ones(6, 10, dtype=torch.bool).triu(5)
alt = (
    "Four terms of a score, six queries by ten keys: a without pattern, b nearly so, c with columns, d with diagonals."
)
panels = {name: terms[name].masked_fill(hidden, torch.nan) for name in sorted(terms)}
plots.heatmaps(panels, limits=(-8, 8), alt=alt)

# %%
attention = RelativeAttention(16, 4)
long_text = torch.randn(1, 30, 16)
near = attention(long_text[:, 20:24], long_text[:, 10:20])
elsewhere = torch.cat([torch.randn(1, 50, 16), long_text], 1)
moved = attention(elsewhere[:, 70:74], elsewhere[:, 60:70])
print(f"the same words fifty places later: outputs differ by {(near - moved).abs().max().item():.1e}")

# %% [markdown]
# $c$ has columns: some words get attention from every query. $d$ has diagonals: some distances do. $a$ and $b$ depend
# on the query. No term depends on where in the text the query is.

# %% [markdown]
# ## 10.4 What is kept
#
# When a segment is done, its states become memory for the next. The memory keeps the last $m$ states of the old memory
# and the segment together, so it may be longer than a segment. It keeps the values only, not how they were computed: no
# gradient flows back into old segments. Otherwise each step would backpropagate through the whole text.
#
# **Predict first.** With segments of 4 and a memory of 6, which tokens does the third segment remember?
#
# **Exercise 10.4** (1 point, about 10 minutes, easy). Write `next_memory`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.cat` and `Tensor.detach`, which gives a new tensor; `detach_` would change the tensor that is still needed.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `[:, -0:]` is `[:, 0:]`, which is everything.
# </details>


# %%
predict(
    "10.4", "b", a="tokens 4 to 7, counted from 0", b="tokens 2 to 7, counted from 0", c="tokens 0 to 7, counted from 0"
)


# %% exercise="10.4"
def next_memory(memory, hidden, mem_len):  # (B, M, d), (B, T, d) -> (B, at most mem_len, d)
    """The last `mem_len` states of memory and segment, or all if there are fewer, without gradients.

    Args:
        memory: (B, M, d), what was remembered before, M of 0 or more; None for nothing.
        hidden: (B, T, d), of the segment that was just read. It is not changed: its gradients still flow elsewhere.
        mem_len: 0 or more.

    The result has the dtype of the states and requires_grad=False. It may be a view of them.
    """
    ### BEGIN SOLUTION
    both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
    return both[:, max(0, both.size(1) - mem_len) :].detach()
    ### END SOLUTION


# %% check="10.4"
checks.next_memory(next_memory)

# %%
memory = None
for segment in torch.arange(20.0).view(1, 5, 4).unbind(1):
    remembered = [] if memory is None else memory.flatten().int().tolist()
    print(f"reads {segment.int().flatten().tolist()}, remembers {remembered}")
    memory = next_memory(memory, segment.unsqueeze(-1), 6)

# %% [markdown]
# ## 10.5 A model that reads on
#
# Each layer remembers its **input**: layer $\ell$ computes keys and values from the states of layer $\ell - 1$, in this
# segment and in earlier ones,
#
# $$x^{\ell} = \text{layer}_\ell(x^{\ell-1}, m^{\ell}), \qquad m^{\ell} = \text{the last states } x^{\ell-1}
# \text{ of earlier segments}.$$
#
# So there are as many memories as layers, and the first holds embeddings. A model that remembers the wrong layer's
# states still trains, only worse. One test shows the difference: with a memory that holds everything, reading in
# segments **equals** reading in one piece.

# %% tags=["experiment"]
block_diagrams.show("memory")

# %% [markdown]
# **Predict first.** Does the equality also hold for gradients in training?
#
# **Exercise 10.5** (3 points, about 25 minutes, hard). Write `SegmentModel`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.ModuleList`; `zip(self.layers, memories)`; your `next_memory`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Compute the new memory before the layer replaces `x`, and give the layer the old memory.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# x = embeddings; without memories, None for each layer. For each layer and its memory: compute the next memory from
# memory and x; x = layer(x, memory). Return head(x) and the next memories.
# </details>


# %%
predict("10.5", "b", a="yes", b="no")


# %% exercise="10.5"
class SegmentModel(nn.Module):
    """A language model that reads a text segment by segment and remembers the ones before.

    Parts: `embedding`, `layers` and `head`, the very modules that were given. The layers are given as a list; the part
    is an nn.ModuleList of them. Embedding: (B, T) -> (B, T, d). Head: (B, T, d) -> (B, T, V). Each layer is called
    `layer(x, memory)`, with the segment's x (B, T, d) and a memory (B, M, d), or None at the beginning of a text, and
    gives (B, T, d).
    """

    def __init__(self, embedding, layers, head):
        super().__init__()
        ### BEGIN SOLUTION
        self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers), head
        ### END SOLUTION

    def forward(self, tokens, memories=None, mem_len=0):
        """Read a segment of tokens (B, T) -> its logits (B, T, V), and a list or tuple of memories for the next one.

        Args:
            memories: what was given back for the segment before, one for each layer; None at the beginning of a text.
                They are not changed.
            mem_len: so many states are kept for the next segment, see 10.4; with 0 the memories have length 0. What is
                given in `memories` is read whole, whatever mem_len is.
        """
        ### BEGIN SOLUTION
        x, kept = self.embedding(tokens), []
        for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
            both = x if memory is None else torch.cat([memory, x], dim=1)
            kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
            x = layer(x, memory)
        return self.head(x), kept
        ### END SOLUTION


# %% check="10.5"
checks.segment_model(SegmentModel)


# %% [markdown]
# With ordinary layers that use your attention, this is a small Transformer-XL. Below, a random one reads a text in
# segments of 6.


# %%
class Layer(nn.Module):
    """Relative attention and a feed-forward part, each with a residual and a norm after it."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.norm1 = RelativeAttention(d_model, n_heads), nn.LayerNorm(d_model)
        self.feed = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, memory=None):
        x = self.norm1(x + self.attention(x, memory))
        return self.norm2(x + self.feed(x))


# %%
def small_model(n_layers, V=12, d=32):
    layers = [Layer(d, 4, 64) for _ in range(n_layers)]
    return SegmentModel(nn.Embedding(V, d), layers, nn.Linear(d, V)).eval()


@torch.no_grad()
def in_segments(model, text, T, mem_len):
    memories, logits = None, []
    for segment in text.split(T, dim=1):
        some, memories = model(segment, memories, mem_len)
        logits.append(some)
    return torch.cat(logits, 1)


# %%
torch.manual_seed(0)
text, gaps = torch.randint(12, (4, 48)), {}
for n_layers in (1, 2, 3):
    model = small_model(n_layers)
    whole = in_segments(model, text, 48, 0)
    gaps[f"layers: {n_layers}"] = [(in_segments(model, text, 6, m) - whole).abs().mean().item() for m in range(49)]
print("memory of 48:", {name: f"{gap[-1]:.0e}" for name, gap in gaps.items()})

# %%
alt = "The mean difference between logits read in segments and in one piece, by the length of memory: it falls, and is "
alt += "zero from 42 on, where the memory holds all that comes before the last segment."
plots.curves(gaps, x=range(49), xlabel="length of memory", ylabel="difference from one pass", alt=alt)

# %% [markdown]
# Up to rounding, the two are equal as soon as the memory holds everything. In training they are not: the values are the
# same, but no gradient flows into the memory.

# %% [markdown]
# ## 10.6 How far back?
#
# How far back is the earliest token that a place depends on? In the last layer, place $i$ of a segment sees the
# segment's beginning and $m$ states before that. The oldest of these was computed when **its** segment was read, with
# its own memory, one layer lower. This continues down to the tokens.
#
# Suppose that the text before the segment is as long as needed. The distance from place $i$ to the farthest token that
# can move its logits is its **reach**.
#
# **Predict first.** With three layers, segments of 4 and a memory of 4, how far does place 1 see: more or less than
# three times 5?
#
# **Exercise 10.6** (2 points, about 15 minutes, medium). Write `reach`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# In Python `-6 % 4` is 2: place -6 is place 2 of its segment, although it is left of 0.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Place $i$ adds its steps to the segment's beginning only once. But a memory may begin inside an old segment, and that
# segment has its own beginning.
# </details>


# %%
predict("10.6", "b", a="more", b="less", c="exactly 15")


# %% exercise="10.6"
def reach(n_layers, mem_len, T, i):
    """The greatest distance to a token on which the logits of place i can depend, an integer and not a float.

    Place i, from 0 to T - 1, is one of a segment of T tokens, with as many segments before it as you like. n_layers is
    from 1 to 100, mem_len from 0 to 10,000.
    """
    ### BEGIN SOLUTION
    place = i
    for _ in range(n_layers):
        place -= place % T + mem_len
    return i - place
    ### END SOLUTION


# %% check="10.6"
checks.reach(reach)

# %%
sizes = [(2, 3), (4, 3), (6, 3), (8, 1)]
lines = {f"memory {m}, layers {layers}": [reach(layers, m, 4, i) for i in range(4)] for m, layers in sizes}
alt = (
    "The reach of places 0 to 3 in segments of four, for four models: it grows by one with each place, and by far more "
)
alt += "with the memory. A memory of 6 reaches to 22, not to 18."
plots.bars(lines, labels=[*"0123"], xlabel="place in the segment", ylabel="reach", alt=alt)

# %%
model, text, far = small_model(3).double(), torch.randint(12, (1, 40)), []
base = in_segments(model, text, 4, 6)
for place in range(40):
    edited = text.clone()
    edited[0, place] = (text[0, place] + 1) % 12
    far += [place] if (in_segments(model, edited, 4, 6) - base)[0, 36].abs().max() > 1e-12 else []
print(f"place 36 moves with tokens {far[0]} to {far[-1]}: reach {36 - far[0]}, and yours says {reach(3, 6, 4, 0)}")

# %% [markdown]
# Less than three times 5: only the first step begins inside the segment. Reach says what could be used. What is learned
# is another matter: see question 10.W1.
#
# **Play.** Segments of four tokens. What adds more reach, another layer or a longer memory?


# %%
def reached(layers, memory):
    farthest = [reach(layers, memory, 4, i) for i in range(4)]
    alt = f"{layers} layers and a memory of {memory}: the four places of a segment reach {farthest} tokens back."
    found = plots.bars({"reach": farthest}, labels=[*"0123"], xlabel="place in the segment", ylabel="reach", alt=alt)
    found.axes[0].set_ylim(0, 60)
    return found


interactive(reached, layers=range(1, 7), memory=[0, 1, 2, 4, 6, 8], start={"memory": 4})

# %% [markdown]
# ## 10.7 The same answer, cheaper
#
# How good is a model that may look back by $c$ tokens? Without memory, each token needs its own window: the model reads
# the $c$ tokens before it again to get **one** prediction. With memory, each token is read once. This is where the
# paper's large speed-ups come from, and they grow with the context.
#
# For a comparison, both must predict the **same targets**, `tokens[context:]`, in evaluation mode.
#
# **Predict first.** Read a thousand tokens with a context of a hundred: how many times as many states does the window
# compute?
#
# **Exercise 10.7** (2 points, about 25 minutes, medium). Write `evaluate_sliding` and `evaluate_cached`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `tokens.unfold(0, context, 1)` gives all windows; `F.cross_entropy(..., reduction="sum")`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The last segment may be shorter than T, and the last token is not an input: no target comes after it.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# sliding: for each target its window; only the last row of its logits counts. cached: inputs without the last token, in
# segments of T; carry the memories along; collect the loss of each target; the mean of those from `first` on.
# </details>


# %%
predict("10.7", "c", a="about twice", b="about ten times", c="about a hundred times")


# %% exercise="10.7"
def evaluate_sliding(model, tokens, context):
    """Predict each of tokens[context:] from the `context` tokens before it alone, read again: two numbers.

    Args:
        model: as in 10.5, `model(tokens, memories, mem_len)` -> logits, memories; here `model(tokens)` will do. It is
            asked in evaluation mode, without gradients, and left as it was: all its parts come in one mode.
        tokens: (N), N above `context`, which is 1 or more.

    Returns:
        the mean loss of the targets, in nats, and how many token positions the model has computed: numbers, or tensors
        with one number.
    """
    ### BEGIN SOLUTION
    was_training, total = model.training, 0.0
    model.eval()
    windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]
    with torch.no_grad():
        for some, wanted in zip(windows.split(64), targets.split(64)):
            logits = model(some)[0][:, -1]
            total += F.cross_entropy(logits, wanted, reduction="sum").item()
    model.train(was_training)
    return total / len(targets), windows.numel()
    ### END SOLUTION


def evaluate_cached(model, tokens, T, mem_len, first):
    """Predict each of tokens[first:] while reading the text once, in segments of T with a memory of mem_len.

    The segments begin at the text's beginning, and all but the last have T tokens. first is 1 or more and below N;
    tokens before it are read, and do not count in the mean. Else as `evaluate_sliding`.
    """
    ### BEGIN SOLUTION
    was_training, memories, losses = model.training, None, []
    model.eval()
    with torch.no_grad():
        for some, wanted in zip(tokens[:-1].split(T), tokens[1:].split(T)):
            logits, memories = model(some[None], memories, mem_len)
            losses.append(F.cross_entropy(logits[0], wanted, reduction="none"))
    model.train(was_training)
    return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
    ### END SOLUTION


# %% check="10.7"
checks.evaluation(evaluate_sliding, evaluate_cached)

# %%
torch.manual_seed(0)
model, contexts, facts = small_model(2), (16, 32, 64, 128), []
evaluate_cached(model, text[0], 16, 16, 16)  # the first call of a model takes longer
for context in contexts:
    text, seconds, states = torch.randint(12, (context + 600,)), [], []
    for evaluate, rest in ((evaluate_sliding, (context,)), (evaluate_cached, (16, context, context))):
        began = time.process_time()
        states.append(evaluate(model, text, *rest)[1])
        seconds.append(time.process_time() - began)
    facts.append((states[0] / states[1], seconds[0] / seconds[1]))
    print(f"context {context}: {facts[-1][0]:.0f} times the states, {facts[-1][1]:.0f} times the seconds")

# %%
alt = "How many times more a sliding window costs than a cached evaluation, by context, in states and in seconds: more "
alt += "and more."
ratios = dict(zip(("states", "seconds"), zip(*facts)))
plots.curves(ratios, x=contexts, xlabel="context", ylabel="sliding / cached", alt=alt)

# %% [markdown]
# The window computes almost `context` times as many states. It takes less than `context` times as long, because many
# windows are computed at once. Any claim of "so many times faster" holds for one context: the paper's largest figure,
# 1,874 times, is for 3,800 tokens (table 9).

# %% [markdown]
# ## 10.8 Guess in any order
#
# BERT sees both sides, but hides the tokens that it predicts. XLNet predicts all tokens one after the other, in a drawn
# **order**: a token is predicted from the tokens before it in this order, on either side of it. The text itself is not
# shuffled; masks do the work.
#
# There are two. A token's **content** may be seen by the token itself and by all tokens later in the order. A position
# that **asks** for a token must not see it: its mask is the same, without the token itself.
#
# **Predict first.** Which order gives the mask of notebook 01? And which token of an order may see nothing?
#
# **Exercise 10.8** (1 point, about 15 minutes, easy). Write `permutation_masks`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.argsort` of an order gives each token's rank in it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# An order and its ranks are two lists: in `[2, 1, 3, 0]` token 2 comes first, and the rank of token 0 is 3.
# </details>


# %%
predict(
    "10.8",
    "a",
    a="from left to right; the first of the order",
    b="from right to left; the first of the order",
    c="from left to right; the last of the order",
)


# %% exercise="10.8"
def permutation_masks(order):
    """Who may look at whom: two bool tensors (T, T), content and query; rows look, columns are looked at, True = may.

    order: a list with each of the numbers 0 to T-1 once, T of 1 or more; token order[0] comes first.
    """
    ### BEGIN SOLUTION
    rank = torch.tensor(order).argsort()
    query = rank[:, None] > rank
    return query | torch.eye(len(order), dtype=torch.bool), query
    ### END SOLUTION


# %% check="10.8"
checks.permutation_masks(permutation_masks)

# %%
words, order = ["New", "York", "is", "a", "city"], [2, 3, 4, 1, 0]
panels = dict(zip(("content", "query"), permutation_masks(order)))
alt = (
    "Both masks for the order is, a, city, York, New: York is guessed from is, a and city, New from all others. In the "
)
alt += "query mask, nobody sees itself, and the row of `is` is empty."
plots.tables(panels, rows=words, columns=words, alt=alt)

# %% [markdown]
# The order from left to right gives the mask of notebook 01. The first token of an order may see no other token: its
# row in the query mask is empty. Remember this for 10.9.
#
# Why are masks not enough? Take the usual softmax over a state that has read `is`, `a` and `city`. If the next place in
# the order is 1, it should say `York`; if it is 0, `New`. But it has read the same words in both cases, so its state
# and its answer are the same: both places get one distribution (section 2.3 of XLNet's paper). The state that predicts
# must know **which place** it predicts.
#
# The same paper calls BERT's objective **autoencoding**, since it rebuilds a text from a damaged copy, and the
# objective of notebook 01 autoregressive (section 2.1). These are names of objectives. A transformer itself is neither:
# its mask and its loss decide.

# %% [markdown]
# ## 10.9 Two streams
#
# A state that has seen its own token cannot be used to predict it. A state that has not seen it is useless to other
# tokens. So XLNet has two states: $h_t$, the content, and $g_t$, the query, which knows its place but not its token.
# Both go through **the same layer**, and both read keys and values of $h$:
#
# $$h' = \text{layer}(\text{query } h;\ \text{keys, values } h;\ \text{content}), \qquad g' = \text{layer}(\text{query }
# g;\ \text{keys, values } h;\ \text{query mask}).$$
#
# A position that may see nothing gets zeros instead of the weighted sum of values.

# %% tags=["experiment"]
block_diagrams.show("streams")

# %% [markdown]
# **Predict first.** All scores are the same large negative number. What are the weights after the softmax?
#
# **Exercise 10.9** (3 points, about 30 minutes, hard). Write `TwoStreamLayer`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `mask.any(-1, keepdim=True)` shows which positions may see anything; `masked_fill`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A row that is all minus infinity becomes NaN. With a finite -1e30 its weights are uniform: then the position sees
# everything.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# one function of (asking, h, mask): heads of q_proj(asking), k_proj(h), v_proj(h); scores; fill hidden ones; softmax;
# set hidden weights to zero; values; out_proj; norm1 of the sum with asking; norm2 of that and its feed-forward.
# </details>


# %%
predict("10.9", "b", a="all zero", b="all equal", c="NaN")


# %% exercise="10.9"
class TwoStreamLayer(nn.Module):
    """A post-norm layer that content and query stream share (Yang et al. 2019, section 2.3), without dropout.

    Parts: `q_proj`, `k_proj`, `v_proj` and `out_proj`, linear maps of d_model without bias; `norm1` and `norm2`, layer
    norms; `linear1` and `linear2`, with bias, the feed-forward part of width d_ff with ReLU between. Head h has the
    h-th block of columns; scores are divided by the root of d_model / n_heads.
    """

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def stream(self, asking, h, mask):
        parts = (self.q_proj(asking), self.k_proj(h), self.v_proj(h))
        q, k, v = (part.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2) for part in parts)
        scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
        weights = scores.softmax(-1) * mask
        x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
        return self.norm2(x + self.linear2(self.linear1(x).relu()))
        ### END SOLUTION

    def forward(self, h, g, content, query):  # 2 times (B, T, d_model), 2 times (T, T) -> 2 times (B, T, d_model)
        """Both streams (B, T, d_model), and the masks (T, T) of 10.8, True = may look -> h' and g', (B, T, d_model).

        Rows of either mask may be empty. No result is NaN then, nor is a gradient. Gradients flow back to h and g.
        """
        ### BEGIN SOLUTION
        return self.stream(h, h, content), self.stream(g, h, query)
        ### END SOLUTION


# %% check="10.9"
checks.two_streams(TwoStreamLayer)

# %%
torch.manual_seed(0)
layer, order = TwoStreamLayer(16, 4, 32), [2, 1, 3, 0]
masks, h, g = permutation_masks(order), torch.randn(1, 4, 16), torch.randn(1, 4, 16)
moved = {name: torch.zeros(4, 4, dtype=torch.bool) for name in ("h' moves", "g' moves")}
for place in range(4):
    edited = h.clone()
    edited[:, place] += 1
    for panel, before, after in zip(moved.values(), layer(h, g, *masks), layer(edited, g, *masks)):
        panel[:, place] = ((after - before).abs().amax(-1) > 1e-6)[0]

# %%
names = [f"token {t}" for t in range(4)]
alt = (
    "Which outputs move when a token's content is edited, for the order 2, 1, 3, 0: no query output moves with its own "
)
alt += "token, and that of token 2, the first, moves with none."
plots.tables(moved, rows=names, columns=names, alt=alt)

# %% [markdown]
# What does the library do? Its masked scores are all the same large negative number.

# %% tags=["experiment"]
from transformers import XLNetConfig, XLNetModel

torch.manual_seed(0)
xlnet = XLNetModel(XLNetConfig(vocab_size=30, d_model=32, n_layer=2, n_head=4, d_inner=48, dropout=0.0)).eval()
may_not = ~permutation_masks(order)[1]
seen, ids = torch.zeros(4, 4, dtype=torch.bool), torch.randint(30, (1, 4))
with torch.no_grad():
    ask = {"perm_mask": may_not[None].float(), "target_mapping": torch.eye(4)[None]}
    before = xlnet(ids, **ask).last_hidden_state
    for place in range(4):
        edited = ids.clone()
        edited[0, place] = (ids[0, place] + 1) % 30
        seen[:, place] = (xlnet(edited, **ask).last_hidden_state - before).abs().amax(-1)[0] > 1e-6

# %% tags=["experiment"]
alt = "The same for XLNet of transformers: the query output of token 2, the first in the order, moves with all tokens, "
alt += "with its own too."
plots.tables({"XLNet's query outputs move": seen}, rows=names, columns=names, alt=alt)

# %% [markdown]
# The first token of the order should see nothing, but it sees everything, itself included: equal scores give uniform
# weights. XLNet was trained only on the last sixth of each order, so this never shows. Your layer has no such leak.

# %% [markdown]
# ## Experiment: what a memory is good for
#
# A model with two layers reads segments of 32. The first text is **random tokens** that repeat after a period: only the
# token one period ago tells what comes next. To predict the token after place $i$, the model must see $P - 1$ tokens
# back. The second text is the **source of Python's standard library**, as characters.
#
# | arm | period $P$ | memory |
# |---|---|---|
# | period 48, no memory | 48 | 0 |
# | period 48, memory 32 | 48 | 32 |
# | period 80, memory 32 | 80 | 32 |
# | period 80, memory 64 | 80 | 64 |
# | source, no memory | | 0 |
# | source, memory 32 | | 32 |
#
# `COURSE_PROFILE` decides the size: `cpu` is small, `gpu` is larger, and `smoke` tiny, with a quarter of each length
# and made-up words. Smoke runs show that everything works, but earn no points.
#
# <!-- box: size gpu -->

# %% tags=["experiment"]
experiments = reading.experiments("10_longer_context")
print(f"{profiles.name()} on {profiles.device()}, seeds {reading.seeds()}")
for name, one in experiments.items():
    print(f"{name}: segments of {one.length}, period {one.period or 'none'}, memory {one.mem_len}, {one.steps} steps")
student.use(checks, RelativeAttention=RelativeAttention, SegmentModel=SegmentModel)
results = results_folder(say=True)

# %% [markdown]
# The runs use your `RelativeAttention` and `SegmentModel` if you have passed their checks in this session; otherwise
# they use the course's. If one of your functions gives a different result, the runs use the course's version. That
# holds even if your result is just as good (a product taken in another order, say). The grader must be able to repeat a
# run without your code.

# %% [markdown]
# ## All runs
#
# Every run writes one file with a row for each test text: its mean loss at each place of a segment. Three numbers are
# computed from it: the loss at all places, in the first eighth, and in the second half. An edited or copied file is
# refused, and so is a seed that is not yours.
#
# **Predict first.** From which position onwards does each arm with a period know the next token? Your `reach` says from
# which position onwards it **could** know. And where in a segment of source text does a memory help most?
#
# The runs take minutes. Interrupt them whenever you like: finished seeds are kept.

# %% tags=["experiment"]
runs = {name: run_seeds(one, reading.seeds(), results) for name, one in experiments.items()}
across(runs, reading.METRICS)

# %% [markdown]
# ## 10.10 From where on?
#
# Find the step of the curve by code. A model that guesses among all tokens has a known loss. We say that a model
# **knows** from place $i$ on if its mean loss is below half of the guessing loss. This must hold at $i$ and at every
# later place. Find the first such place. A single lucky place does not count, and one seed is not enough.
#
# **Exercise 10.10** (4 points, about 5 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `known_from`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `zip(*curves)` gives the losses of all seeds at one place.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The first place below the threshold is not the answer if the curve rises above the threshold later. Begin at the end.
# </details>


# %% exercise="10.10"
def known_from(curves, guess):
    """The first place from which on the mean loss over seeds is below half of `guess` up to the end; None without one.

    curves: a list for each seed with its loss at each place, as many for all; there is a seed and a place at least.
    guess: the loss of guessing, above 0.
    """
    ### BEGIN SOLUTION
    found = None
    for place in reversed(range(len(curves[0]))):
        if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
            break
        found = place
    return found
    ### END SOLUTION


# %% check="10.10"
checks.known_from(known_from)

# %% tags=["experiment"]
for name, one in experiments.items():
    if one.period:
        curves = [reading.by_place(run).tolist() for run in runs[name]]
        print(f"{name}: known from place {known_from(curves, math.log(one.symbols))} on")

# %% tags=["experiment"]
for name, one in experiments.items():
    for layers in (1, one.layers) if one.period else ():
        far = [i for i in range(one.length) if reach(layers, one.mem_len, one.length, i) >= one.period - 1]
        print(f"{name}, layers {layers}: the reach is enough {f'from place {far[0]} on' if far else 'nowhere'}")

# %% tags=["experiment"]
alt = "Your runs: the loss at each place of a segment, for four arms that read random tokens with a period."
reading.picture(runs, reading.COPY, alt)

# %% tags=["experiment"]
alt = "Your runs: the loss at each place of a segment of source text, with and without memory."
reading.picture(runs, reading.TEXT, alt)

# %% [markdown]
# Which differences does the table show? All students make the same comparisons: each longer memory with the shorter
# one. The comparisons come first for all places, then for the first eighth of a segment, and last for its second half.

# %% tags=["experiment"]
for metric in reading.METRICS:
    print(f"--- {metric.name}", *SeedTable(runs, metric).compared(reading.questions(runs)), sep="\n\n")

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has.

# %% tags=["experiment"]
recorded = reading.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, reading.METRICS) if recorded else None

# %% tags=["experiment"]
reading.picture(recorded, reading.COPY, "The recorded runs, random tokens, as above.") if recorded else None

# %% tags=["experiment"]
reading.picture(recorded, reading.TEXT, "The recorded runs, source text, as above.") if recorded else None

# %% [markdown]
# In the recorded runs, the loss of two arms falls in one step, at place 15: before it they guess, after it they know.
# There $m + i = P - 1$, so one look into the memory is enough. With period 80 and memory 32, two layers reach far
# enough from the same place on, and with period 48 from the first place on. Neither is learned. The rate and the number
# of segments were chosen with these seeds, so that period 80 with memory 64 is learned. So the runs show where the loss
# falls, not how quickly a model learns.
#
# In source text, the memory helps at the first places of a segment, most at the very first: by 0.9 nats there, and no
# longer after a handful of places. In the second half no difference is shown. After such a short training, this model
# uses only a few characters of context, and a memory provides these. The paper's gains from text far back are not shown
# here.

# %% [markdown]
# ### Would it be learned if gradients crossed?
#
# A detached memory gives a layer its old states, but no gradient that says how to make them more useful. Is that why
# the model does not use all the text within its reach? Or is a path through two layers too hard for such a small model?
# To find out, exactly one thing must change. The runs below came with the course. All take a step of the optimiser for
# four segments at a time. In one arm the memory is detached between them, as in yours; in the other it is not, so the
# loss of a segment also reaches the states of earlier segments. Both arms read the same number of segments, and take
# the same number of steps.

# %% tags=["experiment"]
gradients = reading.recorded_crossing()
for metric in reading.METRICS:
    print(f"--- {metric.name}", *SeedTable(gradients, metric).compared(reading.crossing_compared()), sep="\n\n")

# %% tags=["experiment"]
alt = "Recorded, memory 32: where gradients cross segments, the loss also falls at places that two looks reach."
reading.picture(gradients, reading.COPY, alt)

# %% [markdown]
# If gradients cross segments, the model uses its reach. With period 80 the loss falls from place 15 on with every
# seed: with three of five to nearly nothing, with two in part. Detached, no seed learns anything there. With period
# 48, four of the five seeds also learn the places before 15; the fifth ends as if it were detached. One of the four
# does not learn the very first place. Some places need only one look into the memory, and for some even two layers do
# not reach far enough. There both arms are at their limits, so these places cannot show whether one arm learns better
# in general, or earlier.
#
# So detaching is why reach was not used in these arms. They read eight times as many segments as yours. In a trial with
# twice as many as yours and one seed, period 48 was learned where gradients crossed, and period 80 only in part. So in
# your arms, too few segments may be a second reason. The path through two layers can be learned, but not always in this
# many steps. Its price is memory: the states of four segments are kept for the backward pass, where one was enough.

# %% [markdown]
# Last, your two ways to evaluate, on a trained model. One more run of the last arm is trained. It reads a piece of text
# that it was not trained on, with contexts up to four times its memory.

# %% tags=["experiment"]
from utils.experiments.longer_context import train as trainer

size = experiments["source, memory 32"]
model, text = trainer.trained(size, reading.seeds()[0])
contexts, rows = [size.mem_len, 2 * size.mem_len, 4 * size.mem_len], []
evaluate_sliding(model, text[: size.length], 4)  # the first call of a model takes longer
for context in contexts:
    began = time.process_time()
    slow, states = evaluate_sliding(model, text, context)
    middle = time.process_time()
    fast, count = evaluate_cached(model, text, size.length, context, context)
    ratio = (middle - began) / (time.process_time() - middle)
    rows.append((slow, fast, ratio))
    costs = f"{states / count:.0f} times the states, {ratio:.1f} times the seconds"
    print(f"context {context}: {slow:.2f} and {fast:.2f} nats, {costs}")

# %% tags=["experiment"]
alt = "How many times longer a sliding window takes than a cached evaluation on a trained model, at three contexts."
plots.bars({"time": [row[2] for row in rows]}, labels=list(map(str, contexts)), ylabel="sliding / cached", alt=alt)

# %% [markdown]
# Both ways have nearly the same loss, and windows cost more the longer the context is. The profile `smoke` is too small
# to show this.

# %% [markdown]
# **Question 10.W1** (2 points). Read your own curves (in the profile `smoke`: the recorded ones, if there are any).
# With a period, the loss falls in one step. At which place, and why there? With period 80 and memory 32 your `reach`
# says that the second half of a segment could know the next token. Why is this not learned? Say which comparison shows
# the reason, and what it keeps equal. Would more layers of the same kind help? What would?

# %% [markdown] written="10.W1" points=2
# ### BEGIN SOLUTION
# The token after place i is the one P - 1 places before i. A single look goes back mem_len + i, so
# that the step comes at i = P - 1 - mem_len: 15 for period 48 with memory 32, and for period 80 with memory 64; none
# without memory, as 31 < 47. Period 80, memory 32: two layers reach 2 * 32 + i, so from place 15 on layer 2 could read,
# in its memory, a state of the segment before, which had looked back when it was computed. But the memory is detached.
# The loss of this segment sends no gradient to the computation of the old states, and the old segment's own loss gives
# no reason to keep a token from that far back. So nothing teaches layer 1 to pass it on. The two recorded arms show it:
# with as many segments, as many steps and the same rate, period 80 stays at guessing where the memory is detached, and
# falls from place 15 on where gradients cross segments. These arms read eight times as many segments as mine, so in my
# runs too few segments may be a second reason. More layers have more reach and the same gap: no gradient crosses. What
# would help: a longer memory (one look is enough), longer segments, or training through some segments without detaching
# (truncated further back), at its price in memory; or a loss that rewards carrying.
# === BEGIN MARK SCHEME ===
# One point: the step's place follows from one look, mem_len + i >= P - 1, with the right places.
# One point: the reach is sufficient, but gradients do not cross segments, so the lower layer is not taught to pass the
# token on (half a point); the arm in which they cross, all else equal, is named as the evidence, or a remedy is named,
# and it is said that more layers are not one (half a point). Half a point off for "the model is too small" or "too few
# steps" without the gradient. Also right, beside the gradient: too few segments may be a second reason, since the
# recorded arms read eight times as many.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 10.W2** (2 points). "New York is a city", in the order is, a, city, York, New; York and New are to be
# predicted. Write down BERT's objective (both words are hidden) and XLNet's objective, as sums of log-probabilities.
# What does BERT's objective lose? What does it cost XLNet not to lose it?

# %% [markdown] written="10.W2" points=2
# ### BEGIN SOLUTION
# BERT: log p(New | is a city) + log p(York | is a city): both are hidden, and each is predicted without the other.
# XLNet: log p(York | is a city) + log p(New | York is a city): as a product, an exact probability of both. BERT's
# objective loses the dependency between hidden tokens: it treats New and York as independent given the rest. It also
# reads [MASK], which no later text has. XLNet pays with a second stream (about twice the work of a layer for the
# predicted tokens). Many orders are hard: early tokens are predicted from next to nothing. Therefore only the last
# tokens of each order are predicted (K = 6: a sixth), so a text has fewer targets. And the model must be given the
# positions of the predicted tokens. One order is one of T! factorizations; the expectation over them is only sampled.
# === BEGIN MARK SCHEME ===
# One point: both sums are right, XLNet's with York before New.
# Half a point: BERT's independence of what is hidden is named.
# Half a point: a cost of XLNet: two streams, only part of the tokens predicted, harder or slower learning.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("10_longer_context")

# %% [markdown]
# **What you can do now:** give a model a memory that works like a longer text. You can say how far back the model
# reaches and what the memory saves. You can also let a model predict tokens in any order without seeing them first.

# %%
scoreboard(checks)

# %% [markdown]
# ## 10.S1 How much of it is used?
#
# This stretch exercise has a check, but it is not graded.
#
# Relative distances have no upper bound, so you can give a model a longer memory than it was trained with. But reach
# is not use. The **effective length** is the shortest context such that no longer context lowers the loss by more than
# a fraction $\epsilon$ (after Khandelwal et al. 2018):
#
# $$\min \{c : L_c - L_{c'} \le \epsilon\, L_c \text{ for all } c' > c\}.$$
#
# A plateau is not the end: a far longer context may help again. And a longer context may be worse.
#
# **Predict first.** A model was trained with a memory of 32, and is given 64 and more. Does the loss fall, stay, or
# rise?
#
# **Exercise 10.S1** (not graded, about 10 minutes, medium). Write `effective_length`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `sorted(losses)` gives the lengths in order; `min(..., default=...)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Comparing neighbouring lengths stops at the first plateau, and misses many small steps that add up.
# </details>


# %% stretch="10.S1"
def effective_length(losses, threshold=0.01):
    """The shortest context for which no longer one is better by more than a share of the loss.

    losses: a dict from lengths, in any order, to losses above 0; there is one at least. threshold: that share.
    """
    ### BEGIN SOLUTION
    lengths = sorted(losses)
    best_after = [min(losses[longer] for longer in lengths[place:]) for place in range(len(lengths))]
    return next(c for c, best in zip(lengths, best_after) if losses[c] - best <= threshold * losses[c])
    ### END SOLUTION


# %% check="10.S1"
checks.effective_length(effective_length)

# %% tags=["experiment"]
lengths = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
losses = {m: evaluate_cached(model, text, size.length, m, 4 * size.length)[0] for m in lengths}
print({m: round(loss, 3) for m, loss in losses.items()}, "effective length:", effective_length(losses))

# %% tags=["experiment"]
alt = "The loss of a trained model by the length of the memory that it is given when it is evaluated."
plots.curves({"loss": list(losses.values())}, x=lengths, xlabel="memory", ylabel="loss, nats", alt=alt)

# %% [markdown]
# Where the line is flat beyond the memory length used in training, distances that the model never saw neither hurt nor
# help. The paper compares models of different sizes, so it measures from a common start: the best loss of a group of
# models on a short context. By this relative effective length its model uses 900 words (section 4.3, table 8). That is
# 80% more than recurrent networks and 450% more than a Transformer without memory.
