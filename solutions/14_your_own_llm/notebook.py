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
# # 14. Your own LLM
#
# The decoder of 2017 has changed in six places since: another norm, in another place; rotary positions; fewer keys than
# queries; a gate in the feed-forward part; no biases; and a cache for generation. This is the architecture of Llama,
# Mistral, Qwen and SmolLM, with small variations. The picture before 14.1 shows both blocks side by side.
#
# You build it part by part, precisely enough that published weights can be loaded into your layers and write English.
# You pass the parts to each other when you create them: a block gets its attention, and an attention gets its rotation.
#
# Each exercise is checked on the spot and stands on its own: if you get stuck, continue with the next one and come back
# later. In grading, private checks ask the same with other sizes, larger than those here, other numbers, dtypes, memory
# layouts and orders of calls. Your functions never change their arguments, and writing into one result changes no later
# result. A call must not change torch's default dtype (float32) or device, nor whether gradients are recorded. It may
# change the global random generators only by drawing from them, and only if the exercise draws. The exercises take
# about three hours, not counting the written questions. They need no GPU, but your answers must also work on one.

# %% tags=["setup"]

# %%
import math
import re
from collections import Counter
from functools import partial
from time import perf_counter

import torch
from torch import nn
from torch.nn import functional as F

from data import documentation
from utils import block_diagrams, plots
from utils.checks import nb14_your_own_llm as checks
from utils.experiments import llama, profiles
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.predictions import predict

# %% tags=["experiment"]
block_diagrams.show("blocks")

# %% [markdown]
# ## 14.1 A norm without a mean
#
# LayerNorm subtracts the mean, divides by the standard deviation, multiplies by a weight and adds a bias. RMSNorm only
# divides, by the root of the mean square, and multiplies by a weight, entry by entry:
#
# $$y = w \odot \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}.$$
#
# Models are stored in sixteen bits, where squares overflow and means are inexact. So the fraction is computed in
# float32 or better, then rounded to the dtype of $x$, and **only then** multiplied by $w$: the weights were trained
# with this order. ([Zhang and Sennrich](https://arxiv.org/abs/1910.07467).)
#
# **Predict first.** Add 5 to every entry of $x$. LayerNorm's output does not change. Does RMSNorm's?
#
# **Exercise 14.1** (2 points, about 10 minutes, easy). Write `RMSNorm`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.mean(-1, keepdim=True)` keeps the last dimension, so that the division broadcasts. `torch.rsqrt` is one over
# the root.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The $\epsilon$ is under the root, not after it.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# wide = x in float32; wide times rsqrt(mean of its squares + eps); back to the dtype of x; times the weight.
# </details>


# %%
predict("14.1", "b", a="what it gave before", b="something else", c="zeros")


# %% exercise="14.1"
class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, and multiply by a weight.

    One part: `weight` (d_model), ones at first. The fraction is computed in float32, which is enough for float64 too,
    or better, and rounded to the dtype of x before the weight comes. Not by `rms_norm` or `nn.RMSNorm`.
    """

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        ### BEGIN SOLUTION
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps
        ### END SOLUTION

    def forward(self, x):  # (..., d_model) -> (..., d_model)
        """From x (..., d_model), of the dtype of the weight, to the same shape and dtype."""
        ### BEGIN SOLUTION
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)
        ### END SOLUTION


# %% check="14.1"
checks.rms_norm(RMSNorm)

# %%
x = torch.randn(1, 64, generator=torch.Generator().manual_seed(1))
shifts = [x + step / 4 for step in range(21)]
norms = {"LayerNorm": nn.LayerNorm(64), "RMSNorm": RMSNorm(64)}
plots.curves(
    {name: [(norm(one) - norm(x)).norm().item() for one in shifts] for name, norm in norms.items()},
    x=[step / 4 for step in range(21)],
    xlabel="added to every entry of x",
    ylabel="how far the result moves",
    alt="Add a number to all entries: the result of LayerNorm does not move, that of RMSNorm moves more and more.",
)

# %% [markdown]
# RMSNorm's output changes with the shift. Its authors found that models train as well without subtracting the mean, and
# each norm saves a sum.

# %% [markdown]
# ## 14.2 The other pairs
#
# In notebook 02, neighbouring columns $2i$ and $2i + 1$ were rotated together, as in Meta's files and in llama.cpp.
# Hugging Face's files use **halves**: column $i$ is rotated with column $i + d/2$.
#
# $$\begin{pmatrix} y_i \\ y_{i+d/2} \end{pmatrix} =
# \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix}
# \begin{pmatrix} x_i \\ x_{i+d/2} \end{pmatrix},
# \qquad \varphi = t\, \theta^{-2i/d}.$$
#
# Neither is better. But weights trained with one layout do not work in the other, and no shape shows the mistake. The
# base $\theta$ also belongs to the model. `start` is the position of the first token.
#
# **Predict first.** You take the wrong pairs. Do the lengths of queries and keys change? Do scores still depend only on
# the distance?
#
# **Exercise 14.2** (2 points, about 15 minutes, easy). Write `rotary`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `x.chunk(2, dim=-1)` gives the left and the right half; `torch.cat` joins them again.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# There are d/2 angles for each position, one for each pair: not d. Create them on the device of x.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# angles (T, d/2) = positions from start on, times speeds; a, b = halves of x; join a cos - b sin and a sin + b cos;
# back to the dtype of x.
# </details>


# %%
predict("14.2", "b", a="yes; yes", b="no; yes", c="no; no")


# %% exercise="14.2"
def rotary(x, start=0, theta=10_000.0):  # (..., T, d) -> (..., T, d)
    """Turn columns i and i + d/2 of x together, by an angle that grows with the position.

    Args:
        x: (..., T, d), d even, any number of leading dimensions. start: the position of the first token.
        theta: the base of the speeds, at least 1.

    Returns:
        the same shape, dtype and device; the angles are computed in float32 or better. Gradients reach x.
    """
    ### BEGIN SOLUTION
    T, d = x.shape[-2:]
    speeds = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    angles = torch.arange(start, start + T, device=x.device).unsqueeze(1) * speeds  # (T, d / 2)
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)
    ### END SOLUTION


# %% check="14.2"
checks.rotary(rotary)

# %%
columns = torch.eye(16).unsqueeze(1)  # one column at a time, as a text of one token
halves = rotary(columns, start=3, theta=20.0)[:, 0]
order = torch.arange(16).reshape(2, 8).T.flatten()  # where the columns of a pair stand: 0, 8, 1, 9, ...

# %%
plots.heatmaps(
    {"halves": halves, "the same, columns reordered": halves[order][:, order]},
    xlabel="column of the result",
    ylabel="column of x",
    limits=(-1, 1),
    alt="The rotation of 14.2 as a matrix: three diagonals. Reordered, it is the small blocks of notebook 02.",
)

# %% [markdown]
# It is the same rotation with the columns in another order. With the wrong pairs, lengths do not change, and scores
# depend only on the distance: only the text looks wrong. Exercise 14.7 reorders the weights instead.

# %% [markdown]
# ## 14.3 Few keys, kept
#
# The past does not change while a model writes, so its keys and values are kept in the **cache**, with the keys
# rotated. With $S$ tokens in the cache, the new ones have positions $S$, $S+1$ and so on, and query $S + i$ reads keys
# $0$ to $S + i$.
#
# To keep less, heads share: there are $n$ query heads but only $m$ heads of keys and values, and query head $h$ reads
# head $\lfloor h\, m / n \rfloor$. The cache holds $m$ heads. ([Ainslie and others](https://arxiv.org/abs/2305.13245).)
# There are no biases. Queries and keys are rotated, values are not.
#
# **Predict first.** The cache has four tokens, and three new ones come. How many of the scores are hidden?
#
# **Exercise 14.3** (4 points, about 35 minutes, hard). Write `Attention`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.repeat_interleave` gives 0, 0, 1, 1; `Tensor.repeat` gives 0, 1, 0, 1. `F.scaled_dot_product_attention` takes
# a mask of booleans, true where a query may look.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `is_causal=True` puts the corner of its triangle at key 0, as if the cache were empty.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# project; cut into heads of d_head, (B, heads, T, d_head); rotate q and k from S on; put the past before k and v along
# the tokens; repeat heads; mask (T, S + T); attend; join the heads; project.
# </details>


# %%
predict("14.3", 3)


# %% exercise="14.3"
class Attention(nn.Module):
    """Causal self-attention with `n_kv_heads` heads of keys and values for `n_heads` heads of queries, and a cache.

    Parts, all nn.Linear without bias: `q_proj`, `k_proj`, `v_proj`, `out_proj`. A head is d_model / n_heads wide.
    `turn(x, start)` turns queries or keys (B, heads, T, d_head) whose first token is at position `start`, an int.
    ValueError if d_model is not a multiple of n_heads, or n_heads not a multiple of n_kv_heads.
    """

    def __init__(self, d_model, n_heads, n_kv_heads, turn):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % n_heads or n_heads % n_kv_heads:
            raise ValueError(f"{d_model} columns, {n_heads} heads and {n_kv_heads} heads of keys do not go together")
        self.n_heads, self.n_kv_heads, self.turn = n_heads, n_kv_heads, turn
        d_head = d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.out_proj = nn.Linear(n_heads * d_head, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x, past=None):  # (B, T, d_model) -> (B, T, d_model), 2 times (B, n_kv_heads, S + T, d_head)
        """From the new tokens x (B, T, d_model) to an output of its shape and dtype, and a pair (keys, values) of all
        tokens, of that dtype. `past` is None or the pair of an earlier call, each (B, n_kv_heads, S, d_head), S of 0 or
        more. It stays as it is. Gradients flow to x and to the past, also from the pair, in both modes.
        """
        ### BEGIN SOLUTION
        q = self.q_proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, n_heads, T, d_head)
        k = self.k_proj(x).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)
        S, T = 0 if past is None else past[0].size(2), x.size(1)
        q, k = self.turn(q, S), self.turn(k, S)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        seen = torch.ones(T, S + T, dtype=torch.bool, device=x.device).tril(diagonal=S)
        keys, values = (part.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for part in (k, v))
        heads = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        return self.out_proj(heads.transpose(1, 2).flatten(2)), (k, v)
        ### END SOLUTION


# %% check="14.3"
checks.attention(Attention)

# %%
torch.manual_seed(0)
layer, x = Attention(24, 6, 2, lambda x, start: x), torch.randn(1, 7, 24)
whole, (k, v) = layer(x)
first, past = layer(x[:, :4])
rest, _ = layer(x[:, 4:], past)
print("largest difference of four tokens, then three:", (torch.cat([first, rest], 1) - whole).abs().max().item())
print(
    "kept of each token:", k[:, :, 0].numel() + v[:, :, 0].numel(), "numbers; with a key for each query head:", 2 * 24
)

# %% [markdown]
# Two pieces give the same result as the whole text. Three of the scores were hidden: one row hides two keys, the next
# hides one, the last none.

# %% [markdown]
# ## 14.4 A gate, and the order of things
#
# The feed-forward part has three matrices. One gives a gate; its SiLU is multiplied with the output of another, and the
# third maps the product back:
#
# $$\mathrm{mlp}(x) = W_{down}\,\big(\mathrm{silu}(W_{gate}\, x) \odot W_{up}\, x\big), \qquad
# \mathrm{silu}(z) = z\, \sigma(z).$$
#
# And the norm comes **before** each part. The residual stream itself is never normalised:
#
# $$h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad y = h + \mathrm{mlp}(\mathrm{norm}_2(h)).$$
#
# ([Shazeer](https://arxiv.org/abs/2002.05202); [Xiong and others](https://arxiv.org/abs/2002.04745) for the order.)
#
# **Predict first.** How does the size of the residual stream change through thirty fresh blocks: with the norm before
# each part, and with the norm after the sum?
#
# **Exercise 14.4** (2 points, about 15 minutes, medium). Write `SwiGLU` and `Block`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.silu`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# SiLU acts on the gate only. Gate and up have equal shapes, so no error shows that you have exchanged them.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# attended, past = attention(norm1(x), past); h = x + attended; return h + mlp(norm2(h)), past.
# </details>


# %%
predict("14.4", "a", a="it grows; it stays", b="it stays; it grows", c="it grows in both")


# %% exercise="14.4"
class SwiGLU(nn.Module):
    """Keeps (..., d_model) and dtype. Parts, nn.Linear without bias: `gate`, `up` (to d_ff), `down` (from d_ff)."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.gate, self.up = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x):  # (..., d_model) -> (..., d_model)
        ### BEGIN SOLUTION
        return self.down(F.silu(self.gate(x)) * self.up(x))
        ### END SOLUTION


class Block(nn.Module):
    """A pre-norm block. Parts, the very modules that are given: `norm1`, `attention`, `norm2`, `mlp`."""

    def __init__(self, norm1, attention, norm2, mlp):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm1, self.attention, self.norm2, self.mlp = norm1, attention, norm2, mlp
        ### END SOLUTION

    def forward(self, x, past=None):
        """From x (B, T, d_model) to that shape, and the second result of `attention(x, past)`, whatever it is."""
        ### BEGIN SOLUTION
        attended, past = self.attention(self.norm1(x), past)
        x = x + attended
        return x + self.mlp(self.norm2(x)), past
        ### END SOLUTION


# %% check="14.4"
checks.block(SwiGLU, Block)


# %%
class Two(nn.Module):  # stands for an attention: a result, and nothing to keep
    def forward(self, x, past=None):
        return x.roll(1, dims=1), past


# %%
torch.manual_seed(0)
sizes, x = {"norm before": [], "norm after": []}, torch.randn(1, 8, 64)
for name, line in sizes.items():
    h = x
    for _ in range(30):
        mlp, norm = SwiGLU(64, 160), nn.LayerNorm(64)
        h = Block(norm, Two(), norm, mlp)(h)[0] if name == "norm before" else norm(h + mlp(norm(h + Two()(h)[0])))
        line.append(h.detach().square().mean().sqrt().item())

# %%
plots.curves(
    sizes,
    xlabel="block",
    ylabel="root mean square of the states",
    alt="Over thirty blocks: with the norm before, what passes by grows steadily; with the norm after it stays at one.",
)

# %% [markdown]
# With the norm before, every block adds to the residual stream, and it grows. So there is one more norm at the end,
# before the head.

# %% [markdown]
# ## 14.5 The whole model
#
# Tokens become rows of a table; then come the blocks, a last norm, and the head:
#
# $$x_0 = E[\mathrm{tokens}], \qquad x_l = \mathrm{block}_l(x_{l-1}), \qquad
# \mathrm{logits} = W\, \mathrm{norm}(x_L).$$
#
# The rows are not scaled, and no positions are added: attention rotates queries and keys. If the model is **tied**, $W$
# is $E$, one matrix in two places. Small models are tied, since the table is a large share of their weights.
#
# Every block keeps its own past. So the model's past is a list with one entry for each block, in their order.
#
# **Predict first.** You read one token at a time with the cache, or all at once. Which logits differ?
#
# **Exercise 14.5** (3 points, about 20 minutes, medium). Write `LLM`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.ModuleList` registers modules. An `nn.Parameter` may be assigned to a second module.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A copied matrix is equal at first and differs after one step. A default `past=[]` is one list for all calls.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# x = embedding(tokens); for each block and its own past: x, kept = block(x, its past), put kept into a new list; return
# head(norm(x)) and the new list.
# </details>


# %%
predict("14.5", "a", a="none", b="all but the first", c="the last")


# %% exercise="14.5"
class LLM(nn.Module):
    """Token numbers (B, T) and the past -> logits (B, T, vocab_size) and the new past.

    Parts: `embedding` (nn.Embedding, with no other options); `blocks` (nn.ModuleList) and `norm`, the very modules that
    are given; `head` (nn.Linear without bias), whose weight is the embedding's own one if `tied`, and another one
    otherwise. A block that is given twice runs twice.
    A block maps x (B, T, d_model) and its past to such an x and its new past, whatever that is.
    """

    def __init__(self, vocab_size, d_model, blocks, norm, tied=True):
        super().__init__()
        ### BEGIN SOLUTION
        self.embedding, self.blocks, self.norm = nn.Embedding(vocab_size, d_model), nn.ModuleList(blocks), norm
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        ### END SOLUTION

    def forward(self, tokens, past=None):  # (B, T) -> (B, T, vocab_size), the new past
        """`past` is None, or the list of an earlier call, one entry for each block. The list stays as it is.

        The logits have the dtype of the weights. Gradients flow to the weights and the past, in both modes.
        """
        ### BEGIN SOLUTION
        x, now = self.embedding(tokens), []
        for block, one in zip(self.blocks, past or [None] * len(self.blocks), strict=True):
            x, one = block(x, one)
            now.append(one)
        return self.head(self.norm(x)), now
        ### END SOLUTION


# %% check="14.5"
checks.llm(LLM)

# %% [markdown]
# Here all parts are put together. `c` holds the sizes of a model.


# %%
def assemble(c):
    turn = partial(rotary, theta=c.theta)
    blocks = []
    for _ in range(c.n_layers):
        attention = Attention(c.d_model, c.n_heads, c.n_kv_heads, turn)
        blocks.append(Block(RMSNorm(c.d_model, c.eps), attention, RMSNorm(c.d_model, c.eps), SwiGLU(c.d_model, c.d_ff)))
    return LLM(c.vocab_size, c.d_model, blocks, RMSNorm(c.d_model, c.eps), c.tied).eval()


# %%
torch.manual_seed(0)
sizes = llama.Sizes(vocab_size=50, d_model=24, n_layers=3, n_heads=6, n_kv_heads=2, d_ff=40)
model, tokens = assemble(sizes), torch.arange(12).unsqueeze(0)


def one_by_one(restart):
    past, rows = None, []
    for t in range(12):
        logits, now = model(tokens[:, t : t + 1], past)
        rows.append(logits)
        past = None if restart and t == 5 else now  # at token 5 a careless program loses the past
    return torch.cat(rows, dim=1)


# %%
with torch.no_grad():
    whole, _ = model(tokens)
    gaps = {name: (one_by_one(name == "past lost") - whole)[0].norm(dim=-1) for name in ("with past", "past lost")}

# %%
plots.curves(
    gaps,
    x=range(12),
    xlabel="token",
    ylabel="difference from all at once",
    alt="A token at a time: no difference with the past kept; without it a difference from the sixth token on.",
)

# %% [markdown]
# None differ, except in the last digit. The second line shows a past that was lost on the way: there is no error, but
# the logits are wrong.

# %% [markdown]
# ## 14.6 Writing
#
# The model first reads the whole prompt. Then each new token is chosen from the last logits and is read alone, with the
# past:
#
# $$p = \mathrm{softmax}(\mathrm{logits} / \tau), \qquad \tau > 0; \qquad
# \tau = 0\text{: the token with the largest logit.}$$
#
# Without the cache, the model reads the whole text again for each token. The result is the same, but not the work: for
# a text of $T$ tokens, the model then reads about $T^2/2$ tokens rather than $T$.
#
# Write in evaluation mode, without gradients, and leave the model in the mode you found it in.
#
# **Predict first.** By which factor is the cache faster for a short text, and for a long one?
#
# **Exercise 14.6** (2 points, about 20 minutes, medium). Write `generate`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.multinomial` draws by probability, with the generator that `torch.manual_seed` sets.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Tokens that are in the past must not be read again: the second call gets one token. And do not divide by a temperature
# of 0.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# feed = the prompt, past = None; max_new times: logits, past = model(feed, past); choose from the last logits; append;
# feed = the new token, or without the cache all tokens and no past.
# </details>


# %%
predict("14.6", "b", a="by the same", b="by little, and by more", c="by much, and by less")


# %% exercise="14.6"
def generate(model, tokens, max_new, temperature=0.0, cached=True):
    """Write `max_new` tokens after `tokens`, a list of token numbers, one at least; return a list of all numbers.

    Args:
        model: token numbers (1, T) and the past -> logits (1, T, V), of any float dtype, and the new past. It has
            parameters.
        temperature: 0 takes the best token, to the last digit of the logits; above it tokens are drawn from
            softmax(logits / temperature), in the dtype of the logits or a wider one, with torch's own generator.
        cached: each token goes into the model once. If false, the whole text goes in each time, with no past.

    The model is called once for each new token, with numbers that are on the device of its parameters. Prompts and
    texts may have thousands of tokens. `tokens` stay as they are, and so does the model: its weights, their gradients
    and dtype, and the mode of all its parts, which is one mode.
    """
    ### BEGIN SOLUTION
    text, was_training, past = list(tokens), model.training, None
    device = next(model.parameters()).device
    model.eval()
    feed = text
    with torch.no_grad():
        for _ in range(max_new):
            logits, now = model(torch.tensor([feed], device=device), past)
            last = logits[0, -1]
            best = last.argmax() if temperature == 0 else torch.multinomial((last / temperature).softmax(-1), 1)
            text.append(best.item())
            feed, past = (text[-1:], now) if cached else (text, None)
    model.train(was_training)
    return text
    ### END SOLUTION


# %% check="14.6"
checks.generate(generate)


# %%
def tokens_a_second(model, prompt, lengths, cached):
    speeds = []
    for length in lengths:
        began = perf_counter()
        generate(model, prompt, length, cached=cached)
        speeds.append(length / (perf_counter() - began))
    return speeds


# %%
small, lengths = assemble(llama.Sizes(500, 64, 4, 4, 2, 160)), (4, 16, 32, 64)
generate(small, [1, 2, 3], 4)  # the first call pays for what is made once
plots.curves(
    {name: tokens_a_second(small, [1, 2, 3], lengths, name == "with cache") for name in ("with cache", "without")},
    x=lengths,
    xlabel="tokens written",
    ylabel="tokens a second",
    alt="Tokens a second of a small model, by how many it writes, with and without cache.",
)

# %% [markdown]
# A model this small spends its time on call overhead rather than arithmetic, so short texts gain little. A real model
# follows at the end.

# %% [markdown]
# ## 14.7 Other people's weights
#
# A checkpoint is a dict from names to tensors. Its names are not yours:
#
# | in the file | yours |
# |---|---|
# | `model.embed_tokens.weight` | `embedding.weight` |
# | `model.layers.3.input_layernorm.weight` | `blocks.3.norm1.weight` |
# | `model.layers.3.self_attn.q_proj.weight`, also `k`, `v` | `blocks.3.attention.q_proj.weight` |
# | `model.layers.3.self_attn.o_proj.weight` | `blocks.3.attention.out_proj.weight` |
# | `model.layers.3.post_attention_layernorm.weight` | `blocks.3.norm2.weight` |
# | `model.layers.3.mlp.gate_proj.weight`, also `up`, `down` | `blocks.3.mlp.gate.weight` |
# | `model.norm.weight` | `norm.weight` |
# | `lm_head.weight` | `head.weight` |
#
# A tied model's file has no `lm_head.weight`. Old files also keep tables of the rotation, whose names end in
# `rotary_emb.inv_freq`, for each layer or once: leave them out.
#
# Files for llama.cpp hold the rows of $W_q$ and $W_k$ in pairs, as in notebook 02. In each head the rows
# $0, 1, 2, 3, \dots$ should go to $0, \frac d2, 1, \frac d2 + 1, \dots$
#
# **Predict first.** Suppose that you skip this reordering. Which error do you get?
#
# **Exercise 14.7** (3 points, about 30 minutes, hard). Write `to_halves` and `convert`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `weight.unflatten(0, (-1, d_head // 2, 2))` cuts rows into heads, pairs, and the two of a pair. `str.replace` and
# `str.split`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The number of a layer may have more than one digit. Reorder each head separately.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# for each name: leave it out, look it up whole, or cut it at the dots into the layer's number and the rest, and look
# that up; if there is a d_head and it is q or k: to_halves. No head: the embedding.
# </details>


# %%
predict("14.7", "c", a="a shape that does not fit", b="a missing name", c="none")


# %% exercise="14.7"
def to_halves(weight, d_head):
    """Reorder the rows of a projection (heads * d_head, d_model) within each head, from pairs to halves.

    Rows 2i and 2i + 1 of a head become its rows i and i + d_head/2. The given tensor stays as it is; the dtype too.
    """
    ### BEGIN SOLUTION
    return weight.unflatten(0, (-1, d_head // 2, 2)).transpose(1, 2).flatten(0, 2)
    ### END SOLUTION


def convert(state, d_head=None):
    """The weights of a checkpoint under the names of `LLM`, for `load_state_dict`; `state` stays as it is.

    Without `lm_head.weight`, `head.weight` is the embedding's. If `d_head` is given, the rows of the projections of
    queries and keys stand in pairs, and are brought to halves. The file may have any number of layers.

    Raises:
        ValueError: a name that is not in the table as a whole, such as that of a bias.
    """
    ### BEGIN SOLUTION
    whole = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "head"}
    inside = {"input_layernorm": "norm1", "post_attention_layernorm": "norm2", "self_attn.o_proj": "attention.out_proj"}
    inside |= {f"self_attn.{one}_proj": f"attention.{one}_proj" for one in "qkv"}
    inside |= {f"mlp.{one}_proj": f"mlp.{one}" for one in ("gate", "up", "down")}
    found = {}
    for name, weight in state.items():
        if name.endswith(".rotary_emb.inv_freq"):
            continue
        part, _, kind = name.rpartition(".")
        layer = part.removeprefix("model.layers.").partition(".")
        if kind == "weight" and part in whole:
            found[f"{whole[part]}.weight"] = weight
        elif kind == "weight" and part.startswith("model.layers.") and layer[0].isdigit() and layer[2] in inside:
            turned = d_head is not None and layer[2] in ("self_attn.q_proj", "self_attn.k_proj")
            found[f"blocks.{layer[0]}.{inside[layer[2]]}.weight"] = to_halves(weight, d_head) if turned else weight
        else:
            raise ValueError(f"there is no place for {name}")
    if "head.weight" not in found:
        found["head.weight"] = found["embedding.weight"]
    return found
    ### END SOLUTION


# %% check="14.7"
checks.convert(to_halves, convert)

# %% [markdown]
# You get no error: shapes fit, and only the text is bad. So compare with another implementation. Below are a tiny model
# from `transformers` with random weights, and yours with the same weights.

# %% tags=["experiment"]
theirs = llama.tiny()
mine = assemble(llama.sizes(theirs))
print(mine.load_state_dict(convert(theirs.state_dict())))
ids = torch.arange(40).reshape(2, 20)
with torch.no_grad():
    print("largest difference of the logits:", (mine(ids)[0] - theirs(ids).logits).abs().max().item())

# %% [markdown]
# ## 14.8 What a token is
#
# **Byte-level BPE** turns any text into numbers. In UTF-8 a text is bytes: tokens 0 to 255. The most frequent pair of
# neighbours becomes token 256; after another count, the most frequent pair becomes 257. The list of these pairs, the
# **merges**, is the tokenizer:
#
# $$\texttt{h u g} \to \texttt{hu g} \to \texttt{hug}.$$
#
# No token crosses the ends of `pieces`. In `aaa` the pair (a, a) occurs twice; join from left to right: `aa`, `a`. To
# encode a piece, always join the pair that was learned first, until none is left.
#
# **Predict first.** ` strawberry` is one token of SmolLM2. What in its number tells how many letters r it has?
#
# **Exercise 14.8** (3 points, about 40 minutes, hard). Write `train_bpe`, `encode` and `decode`, a point each.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `str.encode`, `bytes.decode` and its `errors`, `collections.Counter`, `zip(tokens, tokens[1:])`. And `str.replace`
# goes from left to right, if each token is the letter `chr(token)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A letter's bytes may be in two tokens, so join all bytes before you decode. And a long text has many words several
# times: count each different piece once.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# train: pieces as rows of bytes; count the pairs; take the best; join it in every piece; again. encode: a number for
# each pair of the merges; for each piece: while one of its pairs has a number, join the one with the smallest. decode:
# the bytes of each token, from those of its two parts.
# </details>


# %%
predict("14.8", "c", a="its size", b="the number of its merges", c="nothing")


# %% exercise="14.8"
def pieces(text):  # words, each with the space before it, and the blank space between them
    return re.findall(r" ?[^ \n]+|[ \n]+", text)


def train_bpe(text, merges):
    """Learn so many merges, up to a thousand; return the list of pairs (a, b), tuples of ints.

    Next comes the pair with the most places in all pieces of the text, also if that is one place; of equally frequent
    pairs the smaller one, as Python compares pairs. Pair i of the list becomes token 256 + i. There are fewer pairs
    only if no piece has two tokens left.
    """
    ### BEGIN SOLUTION
    words = Counter(piece.encode().decode("latin-1") for piece in pieces(text))  # a letter for each token
    learned = []
    while len(learned) < merges:
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        a, b = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = {word.replace(a + b, chr(256 + len(learned))): count for word, count in words.items()}
        learned.append((ord(a), ord(b)))
    return learned
    ### END SOLUTION


def encode(text, merges):
    """The tokens of any text, a list; `merges` are as `train_bpe` returns them. A piece may have thousands of bytes."""
    ### BEGIN SOLUTION
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    found = []
    for piece in pieces(text):
        word = piece.encode().decode("latin-1")
        while known := [ranks[pair] for pair in zip(map(ord, word), map(ord, word[1:])) if pair in ranks]:
            a, b = merges[min(known)]
            word = word.replace(chr(a) + chr(b), chr(256 + min(known)))
        found += map(ord, word)
    return found
    ### END SOLUTION


def decode(numbers, merges):
    """The text of tokens, of up to thousands of merges each. Bytes that are not UTF-8 become U+FFFD ("replace")."""
    ### BEGIN SOLUTION
    parts = [bytes([byte]) for byte in range(256)]
    for a, b in merges:
        parts.append(parts[a] + parts[b])
    return b"".join(parts[number] for number in numbers).decode(errors="replace")
    ### END SOLUTION


# %% check="14.8"
checks.tokens(train_bpe, encode, decode)

# %% tags=["experiment"]
text = " ".join(documentation.train_and_validation(300, ["python"])[0]) + " strawberry" * 9
merges, rows = train_bpe(text, 1000), {}
for count in (0, 100, 300, 1000):
    print(f"{count:4} merges: {len(encode(text, merges[:count])) / len(text):.2f} tokens a letter")
    tokens = encode(" strawberry", merges[:count])
    words = [decode([token], merges).replace(" ", "␣") for token in tokens]
    rows[f"{count} merges"] = [(word, "joined" if token > 255 else "") for word, token in zip(words, tokens)]

# %% tags=["experiment"]
alt = "The word strawberry in tokens: single letters without merges; with more merges fewer tokens, which are longer."
plots.pieces(rows, kinds=["joined"], alt=alt)

# %% [markdown]
# Nothing in the number tells it. A token is the number of a row in a table. The model can learn only from texts which
# letters a joined token has. Write `s t r a w b e r r y`, and the letters are tokens again.

# %% [markdown]
# ## Now a real one
#
# SmolLM2-135M was pretrained on two trillion tokens, most of them English. It comes as a Python package, with four bits
# for each weight. If it is missing, the cell below says how to install it, and continues with a tiny random model, as
# the profile `smoke` does.
#
# <!-- box: packaged language model -->

# %% tags=["experiment"]
source = llama.source()
print(source.name)
sizes = llama.sizes(source.library)
mine = assemble(sizes)
print(sizes, mine.load_state_dict(convert(source.library.state_dict())), sep="\n")

# %% tags=["experiment"]
prompt = source.encode("The best way to learn how a machine works is")
with torch.no_grad():
    ours, theirs = mine(torch.tensor([prompt]))[0], source.library(torch.tensor([prompt])).logits
print(f"largest logit {theirs.abs().max():.1f}, largest difference {(ours - theirs).abs().max():.1g}")

# %% [markdown]
# Its tokenizer is also a list of merges. With these your `encode` gives the library's tokens, piece by piece: the
# library first cuts a text by its own rules, also at punctuation.

# %% tags=["experiment"]
merges = source.byte_level.merges
for text in ("How many r are in strawberry?", "s t r a w b e r r y", "naïve Straße 😀"):
    tokens = [token for piece in source.byte_level.pieces(text) for token in encode(piece, merges)]
    print([decode([token], merges) for token in tokens], tokens == source.byte_level.encode(text))

# %% tags=["experiment"]
print(source.decode(generate(mine, prompt, source.length)))
torch.manual_seed(3)
print("---", source.decode(generate(mine, prompt, source.length, temperature=0.8)), sep="\n")

# %% [markdown]
# The first text always takes the best token; the second draws tokens at random. None of the library's code runs in it:
# these are your layers. What happens with one mistake?

# %% tags=["experiment"]
wrong = convert({**source.library.state_dict()}, d_head=sizes.d_model // sizes.n_heads)  # they stood in halves already
mine.load_state_dict(wrong)
print("rows reordered once too often:", source.decode(generate(mine, prompt, source.length)), sep="\n")
mine.load_state_dict(convert(source.library.state_dict()))

# %% [markdown]
# A model with one mistake may still write words, so reading its text proves little. Comparing logits does. And how fast
# is it?

# %% tags=["experiment"]
lengths, mine = source.lengths, mine.to(profiles.device())
speeds = {name: tokens_a_second(mine, prompt, lengths, name == "with cache") for name in ("with cache", "without")}
for name, line in speeds.items():
    print(f"{name:>10}:", *(f"{speed:.1f} tokens a second for {length}" for length, speed in zip(lengths, line)))

# %% tags=["experiment"]
plots.curves(
    speeds,
    x=lengths,
    xlabel="tokens written",
    ylabel="tokens a second",
    alt="Tokens a second by how many are written, with the cache and without.",
)

# %% [markdown]
# Without the cache every new token reads the whole text again, so the longer the text, the more a cache saves. How much
# it saves depends on the machine; your figure shows it for your machine.
#
# **Play.** Read along with the model, one token of the prompt after the other. When does it know what comes next?

# %% tags=["experiment"]
with torch.no_grad():
    chances = mine(torch.tensor([prompt], device=profiles.device()))[0][0].softmax(-1).cpu()


def expected(tokens_read):
    shares, best = chances[tokens_read - 1].topk(5)
    words = [repr(source.decode([token]))[1:-1] for token in best.tolist()]
    alt = f"The five likeliest tokens after '{source.decode(prompt[:tokens_read])}': {', '.join(words)}."
    found = plots.bars({"p": shares.tolist()}, labels=words, ylabel="probability", alt=alt)
    found.axes[0].set(ylim=(0, 1), title="... " + source.decode(prompt[:tokens_read])[-40:].strip())
    return found


interactive(expected, tokens_read=range(1, len(prompt) + 1))

# %% [markdown]
# **Question 14.W1** (2 points). In four to six sentences: what is in the cache, why can it be kept, and why are past
# queries not in it? How many bytes does a token of SmolLM2 take (30 layers, 3 heads of keys and of values, 64 wide,
# float32)? How many would it take with 9 such heads? Why does your own curve without the cache fall with the length,
# while the curve with it hardly does?

# %% [markdown] written="14.W1" points=2
# ### BEGIN SOLUTION
# The turned keys and the values of all tokens so far, for each layer and each head of keys and values. They may be kept
# because attention is causal: a token's key and value depend on it and on the tokens before it, never on later ones. A
# past query was used once, for the output of its own token, and is not needed again. A token takes 30 layers x 2 (key
# and value) x 3 heads x 64 x 4 bytes = 46,080 bytes, and three times that, 138,240, with 9 heads. Without the cache
# each new token costs a pass over the whole text, so the work of a token grows with the length (at least linearly), and
# fewer tokens are written per second. With the cache each new token costs one pass of one token. Only the reading of
# the cache grows, and that is small compared with the weights at these lengths.
# === BEGIN MARK SCHEME ===
# One point: keys and values of every layer; causal, so the past does not change; past queries are never asked again.
# One point: 46,080 and 138,240 bytes (half), and the growing pass compared with one token, with the student's own curve
# (half).
# Half a point off if the cache is said to change the text or to save memory.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 14.W2** (2 points). A friend loads a checkpoint into their own model. `load_state_dict` reports no error,
# but the text makes no sense. Name three mistakes that neither shapes nor names show, and say for each what it changes.
# Then describe how you would find the mistake if you have the library's model.

# %% [markdown] written="14.W2" points=2
# ### BEGIN SOLUTION
# For example: pairs instead of halves (the rotation mixes other columns than in training; position 0 is still right);
# gate and up exchanged (same shapes, the SiLU on the wrong one); another theta or eps than in training (right at the
# first positions, worse with the distance); heads repeated in the order 0 1 0 1 instead of 0 0 1 1 (queries meet the
# wrong keys); the last norm left out; the head not tied; positions that start at 0 again with a cache. To find it: give
# both models the same tokens in evaluation mode and float32, and compare the states after the embedding, after each
# block, then in the first block that differs: norm, projections, turned queries and keys, attention output, mlp. The
# mistake is at the first difference above rounding. One token alone tells whether positions matter: if it agrees, look
# at rotation, mask and cache. A tiny random configuration with unequal sizes shows it as well as the real one, and
# faster.
# === BEGIN MARK SCHEME ===
# One point: three mistakes that shapes and names do not reveal, each with its effect (a third each).
# One point: compare intermediate states with the library's, with the same tokens, in evaluation mode, up to the first
# place that differs.
# Half a point for "read the code again" or for comparing texts only.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **What you can do now:** build the decoder that most of today's open models share, and load a published checkpoint
# into your own layers. You can also show with the library's logits that both compute the same. You can say what the
# cache costs and saves, and make the tokens that such a model reads.

# %%
scoreboard(checks)

# %% [markdown]
# ## 14.S1 Guess, and let the large one check
#
# This is a stretch exercise. A large model reads five tokens in hardly more time than one. Let a small **draft** model
# guess the next $k$ tokens. The large model reads them in one call, and says for each place what it would have written.
# Take its own choices up to and including the first place where the guess differs, or $k + 1$ tokens if none does.
# Every call gives at least one token, and the text is exactly the large model's greedy text. ([Leviathan and
# others](https://arxiv.org/abs/2211.17192); 14.S2 adds random draws.)
#
# **Predict first.** The draft is always wrong. How many calls of the large model do you need?
#
# **Exercise 14.S1** (not graded, about 20 minutes, hard). Write `speculative`. No cache is needed.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model(torch.tensor([text]))[0][0].argmax(-1)` says for every place which token should come next.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The choice after the last accepted guess comes from the same call. Do not call the model again for it.
# </details>


# %%
predict("14.S1", "b", a="one for k + 1 tokens", b="one for each token", c="it never ends")


# %% stretch="14.S1"
def speculative(model, draft, tokens, max_new, k=4):
    """Greedy text of `model`, tokens and `max_new` more as a list, with guesses of `draft`, k at a time.

    Both are in evaluation mode and map token numbers (1, T) to a pair: logits (1, T, V), and something else. They are
    called without gradients. Each call of `model` is given the text and k guesses, or as many fewer as it cannot use.
    """
    ### BEGIN SOLUTION
    text, end = list(tokens), len(tokens) + max_new
    with torch.no_grad():
        while len(text) < end:
            guessed = list(text)
            for _ in range(min(k, end - len(text) - 1)):
                guessed.append(draft(torch.tensor([guessed]))[0][0, -1].argmax().item())
            said = model(torch.tensor([guessed]))[0][0].argmax(-1).tolist()
            for guess, choice in zip([*guessed[len(text) :], None], said[len(text) - 1 :], strict=True):
                text.append(choice)
                if guess != choice:
                    break
    return text
    ### END SOLUTION


# %% check="14.S1"
checks.speculative(speculative)

# %% tags=["experiment"]
torch.manual_seed(0)
sizes, calls, rows = llama.Sizes(200, 48, 3, 4, 2, 120, tied=False), [], {}
large, draft, scales = assemble(sizes), assemble(sizes), (0, 0.02, 0.05, 0.1, 0.2, 0.4)
large.register_forward_hook(lambda *_: calls.append(1))
for k in (2, 6):
    rows[f"{k} guesses"] = []
    for scale in scales:
        torch.manual_seed(1)
        noise = {name: part.std() * torch.randn_like(part) for name, part in large.state_dict().items()}
        draft.load_state_dict({name: part + scale * noise[name] for name, part in large.state_dict().items()})
        calls.clear()
        speculative(large, draft, [1, 2, 3], 35, k)
        rows[f"{k} guesses"].append(35 / len(calls))

# %% tags=["experiment"]
plots.curves(
    rows,
    x=scales,
    xlabel="noise on the weights of the draft, in their standard deviation",
    ylabel="tokens a call",
    alt="Tokens for each call of the large model: one more than the guesses without noise, then falling towards one.",
)

# %% [markdown]
# A draft that is always right gives $k + 1$ tokens a call; a draft that is always wrong still gives one. More guesses
# at a time help only if the draft is good.

# %% [markdown]
# ## 14.S2 Without the tail
#
# This is another stretch exercise. Each of thousands of tokens is unlikely, but together they are likely, and one of
# them spoils a text. The $k$ best, as in exercise 1.9, are too many if the model is sure and too few if it is not.
# **Top-p** keeps the most likely tokens until their probabilities sum to $p$ or more. **Min-p** keeps those whose
# probability is at least a given share of the largest one ([Holtzman and others](https://arxiv.org/abs/1904.09751),
# [Nguyen and others](https://arxiv.org/abs/2407.01082)):
#
# $$p_i \ge \mathrm{min\_p} \cdot \max_j p_j.$$
#
# **Predict first.** All tokens are equally likely. Which share of them does a top-p of a half keep, and which a min-p
# of a half?
#
# **Exercise 14.S2** (not graded, about 20 minutes, medium). Write `shares` and `draw`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.sort` with `descending` and `stable`, `Tensor.cumsum`, and `Tensor.scatter`, which brings a sorted mask back.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A token counts if the sum of those **before** it is less than $p$: so the most likely token always does. A sum may
# round to 1 before the last token.
# </details>


# %%
predict("14.S2", "b", a="half, and half", b="half, and all", c="all, and half")


# %% stretch="14.S2"
def shares(logits, top_p=1.0, min_p=0.0):
    """The probabilities with which tokens are drawn: of the shape and dtype of logits (..., V), each row by itself.

    Args:
        top_p: above 0; the likeliest tokens stay, of equal ones those with smaller numbers. 1 keeps all.
        min_p: 0 to 1; 0 keeps all.

    Both look at softmax(logits). A token that one of them leaves out has probability 0; the others sum to 1.
    """
    ### BEGIN SOLUTION
    p = logits.softmax(-1)
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    kept = (ordered.cumsum(-1) - ordered < top_p) | (top_p >= 1)
    kept = torch.zeros_like(kept).scatter(-1, order, kept) & (p >= min_p * p.amax(-1, keepdim=True))
    p = p.masked_fill(~kept, 0)
    return p / p.sum(-1, keepdim=True)
    ### END SOLUTION


def draw(logits, generator, top_p=1.0, min_p=0.0):
    """A token for each row of logits (B, V), int64 (B,), each drawn by itself with these shares from the generator."""
    ### BEGIN SOLUTION
    return torch.multinomial(shares(logits, top_p, min_p), 1, generator=generator).squeeze(1)
    ### END SOLUTION


# %% check="14.S2"
checks.sampling(shares, draw)

# %% [markdown]
# If all tokens are equally likely, min-p keeps all of them, and top-p keeps half. Now add random draws to 14.S1. A
# guess $x$ of the draft, drawn with $q(x)$, is accepted with probability $\min(1, p(x)/q(x))$. Otherwise the token is
# drawn in proportion to $\max(0, p - q)$, and the other guesses are dropped. Both $p$ and $q$ come from `shares`. So a
# guess is accepted with probability $\sum_x \min(p(x), q(x))$, and every token is drawn with $p(x)$, whatever the draft
# is:

# %% tags=["experiment"]
with torch.no_grad():
    tokens = torch.randint(200, (20, 30), generator=torch.Generator().manual_seed(2))
    draft.load_state_dict({name: part + 0.1 * noise[name] for name, part in large.state_dict().items()})
    logits = [3 * model(tokens)[0][:, -1] for model in (large, draft)]
options, taken = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), {}
for name in ("top_p", "min_p"):
    taken[name] = []
    for option in options:
        p, q = (shares(some.double(), **{name: option}) for some in logits)
        both = torch.minimum(p, q)
        rest = 1 - both.sum(-1, keepdim=True)
        more = (p - both) / (p - both).sum(-1, keepdim=True).clamp(min=1e-12)
        assert (both + rest * more - p).abs().max() < 1e-9
        taken[name].append(both.sum(-1).mean().item())

# %% tags=["experiment"]
plots.curves(
    taken,
    x=options,
    xlabel="top_p or min_p",
    ylabel="probability that a guess is taken",
    alt="How likely a guess of the draft is taken, by top_p and by min_p.",
)

# %% [markdown]
# With this draft, guesses are accepted most often if no token is left out. The fewer tokens are kept, the more depends
# on whether both models keep the same ones.
