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
# # 11. What should it guess?
#
# BERT learns to fill in hidden tokens and to say which sentence comes next. Its successors kept the model and changed
# these questions: new masks for each epoch, no sentence pairs, other pairs, spans instead of tokens, two languages at
# once. Each reports better numbers than BERT's.
#
# Here you build these questions: RoBERTa's masks, its rows and its optimizer, SpanBERT's spans and their boundaries,
# XLM's translations, ALBERT's order of sentences. Then you measure three of them in small experiments, in which each
# can fail.
#
# Each exercise is checked on the spot and stands on its own. In grading, private checks ask the same with other sizes,
# larger than those here, other numbers and orders of calls. Your functions return new objects, and change their
# arguments only where the text asks for it. A call must not change torch's default dtype (float32) or device, nor
# whether gradients are recorded. It may change the global random generators only by drawing from them, and only if the
# exercise draws. The exercises take about two and a half hours, not counting the written questions and the runs. They
# need no GPU, but your answers must also work on one: create tensors on the device of your arguments.

# %% tags=["setup"]

# %%
import random

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.checks import nb11_other_objectives as checks
from utils.experiments import objectives, profiles, spans, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict, reveal

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 11.8 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 11.1 A mask for each sentence
#
# In exercise 7.4 a mask was drawn for the whole text at once. A data loader asks differently: it asks for single
# sentences, in any order, and from several processes at the same time. Masks are not stored, so each must follow from
# numbers alone:
#
# $$\mathrm{mask} = \mathrm{draw}\big(G(\text{seed}, \text{sentence}, k)\big), \qquad
# k = \begin{cases} \text{epoch} \bmod n & n \text{ copies (static)} \\ \text{epoch} & \text{dynamic.} \end{cases}$$
#
# As in BERT's own code, a mask has a fixed size here, not a random one: 15% of the sentence's tokens, rounded, and at
# least one. Ten copies over forty epochs are RoBERTa's **static** baseline, not its dynamic masking.
#
# **Predict first.** The generator is seeded with `seed + sentence + epoch`. Which masks do sentences 3 and 4 share?
#
# **Exercise 11.1** (2 points, about 15 minutes, medium). Write `mask_number` and `masked_places`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.randperm(n, generator=...)`. `random.Random(text)` takes a text as its seed, and the same text always gives the
# same numbers.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Different numbers can have the same sum: sentence 3 in epoch 4 and sentence 4 in epoch 3. Give each of the three
# numbers its own digits or bits. Together they need 40 bits, and torch's generator on a CPU uses only 32 bits of its
# seed; `random.Random` uses all of its seed, also of a text.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a generator, seeded with the three numbers side by side; a random order of the n places; the first of them, as many as
# the mask has, are hidden.
# </details>


# %%
predict("11.1", "c", a="none", b="every second one", c="nearly all, one epoch apart")


# %% exercise="11.1"
def mask_number(epoch, copies=None):
    """Which of a sentence's masks an epoch uses: the `copies` masks 0, 1, ... take turns; a new one each time if None.

    epoch counts from 0. Returns an int from 0.
    """
    ### BEGIN SOLUTION
    return epoch if copies is None else epoch % copies
    ### END SOLUTION


def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
    """Which tokens of a sentence are hidden in an epoch: a tensor of booleans (n,), the same at each call.

    Exactly max(1, round(rate * n)) are hidden, and each choice of so many places is equally likely. Torch's, numpy's
    and Python's own generators stay as they are.

    Args:
        n: the number of tokens, at least 1.
        sentence: its number, from 0 to 999,999.
        epoch: from 0 to 999. With copies, epochs of the same `mask_number` share a mask.
        seed: from 0 to 999. Two masks whose seed, sentence or mask number differ are drawn independently, and a mask
            is the same in every process.
    """
    ### BEGIN SOLUTION
    draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
    hidden = torch.zeros(n, dtype=torch.bool)
    hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
    return hidden
    ### END SOLUTION


# %% check="11.1"
checks.masks(mask_number, masked_places)

# %%
panels = {
    name: torch.stack([masked_places(24, 7, epoch, copies) for epoch in range(16)])
    for name, copies in (("one mask", 1), ("four masks", 4), ("dynamic", None))
}
alt = "Which of one sentence's tokens are hidden in sixteen epochs: always the same, four masks that take turns, and "
plots.heatmaps(panels, xlabel="token", ylabel="epoch", alt=alt + "sixteen different ones.")

# %%
shifted = [torch.randperm(24, generator=torch.Generator().manual_seed(3 + epoch))[:4] for epoch in (4, 5)]
other = torch.randperm(24, generator=torch.Generator().manual_seed(4 + 4))[:4]
print("seeded with the sum, sentence 3 in epochs 4 and 5:", *(sorted(places.tolist()) for places in shifted))
print("sentence 4 in epoch 4:", sorted(other.tolist()))

# %% [markdown]
# With the sum as seed, sentence 3 gets the mask in epoch 5 that sentence 4 had in epoch 4: nearly all masks are shared,
# and each moves to the neighbouring sentence one epoch later.

# %% [markdown]
# ## 11.2 Full rows
#
# BERT's rows have 512 places, but sentences have about twenty words. RoBERTa drops the sentence pairs and fills each
# row with whole sentences, one after the other, as long as they fit. When a document ends, the next one continues in
# the same row, after a separator. The paper (Liu et al. 2019, section 4.2) calls this FULL-SENTENCES. If rows end with
# their document, it is DOC-SENTENCES.
#
# The separator costs a place too: a sentence of $k$ tokens opens a document in a row of $r$ tokens only if
#
# $$r + 1 + k \le \mathrm{max\_len}.$$
#
# **Predict first.** All documents have three sentences. Which share of the places is empty if rows end with their
# document?
#
# **Exercise 11.2** (2 points, about 15 minutes, medium). Write `full_rows`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `sentence[start : start + max_len]` for `start in range(0, len(sentence), max_len)` cuts a long sentence.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The last row may not be full, but it still counts as a row.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# one open row, empty at first; for each piece of each sentence: does it open a document, and is the row not empty? Then
# put a separator before it. Do both fit? Add them; else open a new row with the piece alone.
# </details>


# %% exercise="11.2"
def full_rows(documents, max_len, sep):
    """Rows of whole sentences, in their order, each filled as far as the next sentence allows.

    A sentence goes into the row of the one before it if it fits, else it begins a new row. Between two documents in one
    row stands `sep`, and it must fit too; no row begins or ends with it. A sentence of more than max_len tokens counts
    as several: its first max_len tokens, the next ones, and so on.

    Args:
        documents: lists of sentences, which are lists of token numbers; empty ones do not count.
        max_len: at least 1.

    Returns:
        a list or tuple of rows, each a list or tuple of 1 to max_len tokens.
    """
    ### BEGIN SOLUTION
    rows = [[]]
    for document in documents:
        opens = True
        for sentence in document:
            for start in range(0, len(sentence), max_len):
                piece = sentence[start : start + max_len]
                before = [sep] if opens and rows[-1] else []
                if len(rows[-1]) + len(before) + len(piece) <= max_len:
                    rows[-1] += before + piece
                else:
                    rows.append(piece)
                opens = False
    return [row for row in rows if row]
    ### END SOLUTION


# %% check="11.2"
checks.full_rows(full_rows)

# %%
draw, max_len = random.Random(2), 64
documents = [[[d + 1] * draw.randint(4, 14) for _ in range(3)] for d in range(24)]
ways = {
    "a sentence a row": [sentence for document in documents for sentence in document],
    "DOC-SENTENCES": [row for document in documents for row in full_rows([document], max_len, 0)],
    "FULL-SENTENCES": full_rows(documents, max_len, 0),
}

# %%
panels = {}
for name, rows in ways.items():
    panels[name] = torch.full((len(rows), max_len), torch.nan)
    for row, tokens in zip(panels[name], rows):
        row[: len(tokens)] = torch.tensor(tokens)
    print(f"{name:17} {len(rows)} rows, {panels[name].isnan().float().mean():.0%} of the places are empty")

# %%
alt = "Rows of tokens in three ways, coloured by document: one sentence a row leaves most places white, rows that end "
alt += "with their document leave about half, full rows leave few."
plots.heatmaps(panels, limits=(0, 24), xlabel="place", ylabel="row", alt=alt)

# %% [markdown]
# Empty places cost as much computation as all others. The price of full rows is that a token may attend to the previous
# document. In the paper DOC-SENTENCES is a little better, but the authors use FULL-SENTENCES, since its batches have
# one size (section 4.2).
#
# BERT began with short rows: 128 tokens for 90% of the steps, then 512 (appendix A.2). RoBERTa trains with full rows
# alone (section 3.1). SpanBERT drops the pairs as well, and takes single segments (section 3.3).

# %% [markdown]
# ## 11.3 How long a shock lasts
#
# Adam (Kingma and Ba 2015, algorithm 1) divides each step by the size of recent gradients:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2,$$
#
# $$\Delta_t = -\,\mathrm{lr}\; \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon}.$$
#
# Both averages start at zero, and the divisors correct for that; steps count from 1. BERT takes $\beta_2 = 0.999$,
# RoBERTa $0.98$ with its large batches (section 3.1).
#
# **Predict first.** One gradient is a hundred times too large. Are the steps after it larger or smaller than usual, and
# for how long, with each of the two $\beta_2$?
#
# **Exercise 11.3** (2 points, about 15 minutes, easy). Write `adam`, without an optimizer.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.empty_like(gradients)`, to fill step by step.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Keep $m$ and $v$ uncorrected. The values divided by $1 - \beta^t$ are for one step only.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# m and v are zeros. For each t from 1: new m, new v; correct both; the update is minus lr times corrected m, over the
# root of corrected v plus eps.
# </details>


# %%
predict("11.3", "a", a="first larger, then smaller", b="first smaller, then larger", c="larger all the time")


# %% exercise="11.3"
def adam(gradients, lr=0.001, betas=(0.9, 0.999), eps=1e-8):
    """What Adam adds to the weights at each step, for these gradients.

    gradients: a tensor (steps, ...), float32 or float64, one gradient of the weights for each step; there may be no
    step at all.
    Returns a new tensor of the same shape and dtype. The gradients stay as they are.
    """
    ### BEGIN SOLUTION
    updates, m, v = torch.empty_like(gradients), 0, 0
    for step, g in enumerate(gradients):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
        updates[step] = -lr * mean / (square.sqrt() + eps)
    return updates
    ### END SOLUTION


# %% check="11.3"
checks.adam(adam)

# %%
gradients = torch.randn(3000, 50, generator=torch.Generator().manual_seed(0))
gradients[1000] *= 100
sizes = {f"beta2 {beta}": adam(gradients, 1.0, (0.9, beta)).abs().mean(1) for beta in (0.999, 0.98)}
for name, size in sizes.items():
    size = size / size[500:1000].mean()
    late = (size[1000:].unfold(0, 20, 1).mean(-1) < 0.75).nonzero()[-1].item()
    print(f"{name}: the largest step is {size[1000:].max():.1f} times the usual one; below 3/4 of it for {late} steps")

# %%
shown = {name: size[900:2900].unfold(0, 20, 20).mean(-1) for name, size in sizes.items()}
alt = (
    "The size of a step before and after one large gradient: with both it jumps, then falls below the usual size. With "
)
alt += "0.999 it jumps higher, and stays small for more than a thousand steps, with 0.98 for two hundred."
plots.curves(shown, x=range(-100, 1900, 20), xlabel="steps after the shock", ylabel="size of a step", alt=alt)

# %% [markdown]
# First larger, then smaller. The average gradient follows a shock at once, the average square more slowly: for some
# steps the numerator is large, and the divisor is not yet. Then the average gradient recovers, while the divisor stays
# large. With a smaller $\beta_2$ both happen faster: its largest step is smaller, and its steps soon have their old
# size.
#
# **Play.** Choose how strong the shock is and how long the squared average remembers it. Which quantity depends on
# which?

# %%
calm = torch.randn(1000, 50, generator=torch.Generator().manual_seed(1))


def after_shock(beta2, times_larger):
    shocked = calm.clone()
    shocked[400] *= times_larger
    size = adam(shocked, 1.0, (0.9, beta2)).abs().mean(1)
    size = (size / adam(calm, 1.0, (0.9, beta2)).abs().mean(1)[100:].mean())[300:].unfold(0, 5, 5).mean(-1)
    alt = f"beta2 {beta2}, a gradient {times_larger} times too large: the largest step is {size.max():.1f} usual ones."
    found = plots.curves({"size": size}, x=range(-100, 600, 5), xlabel="steps after", ylabel="size of a step", alt=alt)
    found.axes[0].set_ylim(0, 8)
    return found


interactive(
    after_shock, beta2=[0.9, 0.95, 0.98, 0.99, 0.999], times_larger=[1, 3, 10, 30, 100], start={"times_larger": 30}
)

# %% [markdown]
# RoBERTa's authors changed $\beta_2$ to 0.98 for large batches. They also found training very sensitive to Adam's
# $\epsilon$, which is added to the root of the mean square. They tuned peak rate and warm-up for each setting (section
# 3.1).

# %%
for size in (1e-3, 1e-6, 1e-8):
    steps = {eps: adam(size * calm, 1.0, (0.9, 0.98), eps)[500:].abs().mean() for eps in (1e-12, 1e-8, 1e-6)}
    print(f"gradients of {size:g}:", *(f"eps {eps:g}: a step of {step:.3f}" for eps, step in steps.items()))

# %% [markdown]
# As long as gradients are much larger than $\epsilon$, it changes nothing, and a step is as long for small gradients as
# for large ones. Where gradients are as small as $\epsilon$ or smaller, it makes the steps shorter.

# %% [markdown]
# ## 11.4 Spans
#
# A single hidden piece is often given away by its neighbours. SpanBERT (Joshi et al. 2020) hides runs of tokens. Their
# lengths are geometric, and those above ten are not kept:
#
# $$P(\ell) = \frac{p\,(1-p)^{\ell-1}}{1-(1-p)^{10}}, \qquad \ell = 1, \dots, 10, \quad p = 0.2.$$
#
# The paper says "clip". Its mean of 3.8 shows what that means: longer spans are drawn again. Spans are then placed
# until 15% of the **tokens** are hidden, and not one more. In the paper the length is counted in whole **words**, and a
# span is replaced as a unit: masked, random or kept (section 3.1).
#
# **Predict first.** If longer spans were cut to ten, would the mean be larger or smaller, and by how much?
#
# **Exercise 11.4** (3 points, about 30 minutes, hard). Write `span_lengths` and `span_mask`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.multinomial(weights, count, replacement=True, generator=...)` draws places; the weights need not sum to one.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A span that overlaps hidden tokens hides fewer new tokens than its length. Count hidden tokens, or do not let spans
# overlap.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# lengths: weights of 1 to longest, draw. mask: left = budget. For each length: cut it to what is left; list all starts
# where the span fits and overlaps no hidden token; draw one, hide the span, and subtract its length.
# </details>


# %%
predict("11.4", "a", a="larger, by two thirds of a token", b="smaller, by two thirds of a token", c="nearly the same")


# %% exercise="11.4"
def span_lengths(count, p=0.2, longest=10, generator=None):
    """So many lengths of spans, independently drawn: int64 (count,), from 1 to longest, as the formula above says.

    count is at least 1, p between 0 and 1. All chance comes from the torch.Generator, from torch's own if it is None.
    """
    ### BEGIN SOLUTION
    weights = p * (1 - p) ** torch.arange(longest)
    return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
    ### END SOLUTION


def span_mask(n, lengths, rate=0.15, generator=None):
    """Which of n tokens are hidden: booleans (n,), true in spans of these lengths, round(rate * n) of them at most.

    Spans are placed one by one, in the order of `lengths`, an int64 tensor. One that would hide more than what is left
    of the round(rate * n) is shortened to it. It is placed at a start drawn evenly from all where it lies within the n
    tokens and covers none that is hidden; it may touch one. If there is no such start, it is left out. When lengths are
    used up, fewer tokens may be hidden. `lengths` stays as it is. All chance comes from the torch.Generator, from
    torch's own if it is None.
    """
    ### BEGIN SOLUTION
    hidden, left = torch.zeros(n, dtype=torch.bool), round(rate * n)
    for length in lengths.tolist():
        length = min(length, left)
        starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
        if length and starts:
            start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
            hidden[start : start + length] = True
            left -= length
    return hidden
    ### END SOLUTION


# %% check="11.4"
checks.spans(span_lengths, span_mask)

# %%
generator = torch.Generator().manual_seed(0)
drawn = span_lengths(20_000, generator=generator)
geometric = torch.empty(20_000).geometric_(0.2, generator=generator).clamp(max=10)
shares = {
    name: torch.bincount(lengths.long(), minlength=11)[1:] / 20_000
    for name, lengths in (("drawn again", drawn), ("cut to ten", geometric))
}
print(f"means: {drawn.float().mean():.2f} drawn again, {geometric.mean():.2f} cut to ten")

# %%
alt = "Shares of the lengths one to ten: both fall from one to nine; if longer ones are cut, a heap stands at ten."
plots.bars(shares, labels=[*map(str, range(1, 11))], xlabel="length of a span", ylabel="share", alt=alt)

# %%
words = "the model reads both sides of a gap and fills it with what stood there before".split()
ones, drawn = torch.ones(9, dtype=torch.long), {}
for name in ("tokens", "spans"):
    for n in range(3):
        hidden = span_mask(len(words), ones if name == "tokens" else span_lengths(9), 0.3, generator)
        drawn[f"{name}, draw {n + 1}"] = [(word, "hidden" if yes else "") for word, yes in zip(words, hidden)]
alt = "One sentence, six times, a third of it hidden: three times single words, three times words in a row."
plots.pieces(drawn, kinds=("hidden",), alt=alt)

# %% [markdown]
# Each row hides equally many tokens. Inside a span there is no visible neighbour that gives the answer away. A mean
# that is two thirds of a token too large looks harmless, but it comes from many spans of exactly ten tokens.

# %% [markdown]
# ## 11.5 From the two ends
#
# SpanBERT predicts each hidden token twice (section 3.2). The first time it does so as BERT does, from the token's own
# state. The second time it uses the two visible tokens around its span and its place in the span:
#
# $$y_i = f(x_{s-1},\; x_{e+1},\; p_{i-s+1}),$$
#
# where the span goes from $s$ to $e$, and the place counts from 1. $f$ is two layers, each linear, GELU, layer norm,
# and then the tied output matrix of exercise 7.7. So the states next to a span must contain what is inside.
#
# **Predict first.** The states of the hidden tokens themselves change. What happens to $y_i$?
#
# **Exercise 11.5** (3 points, about 30 minutes, hard). Write `boundaries` and `BoundaryObjective`, with these parts:
#
# | part | what it is |
# |---|---|
# | `place` | `nn.Embedding` (longest, d); row 0 is for place 1, and places after `longest` use the last row |
# | `first`, `first_norm` | `nn.Linear` (3 d, d) and `nn.LayerNorm` (d) |
# | `second`, `second_norm` | `nn.Linear` (d, d) and `nn.LayerNorm` (d) |
# | the embedding | under any name; its weight stays one parameter, and is the output matrix, without a bias |
#
# <details><summary>Hint 1: a function to look up</summary>
#
# Take a row of places, with -1 where a token is hidden: `torch.cummax` along it gives the last visible place. `flip`
# reverses a row.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The neighbours of a token inside a long span are hidden too. Use the visible tokens at both ends of the span.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# forward: ends and places; the rows and places of the hidden tokens, `mask.nonzero(as_tuple=True)`; concatenate the
# states at both ends with the position embedding of each hidden token; linear, GELU, norm, twice; times the embedding,
# transposed.
# </details>


# %%
predict("11.5", "b", a="it changes too", b="nothing", c="it changes at the next place")


# %% exercise="11.5"
def boundaries(mask):  # (B, T) -> (B, T), (B, T), (B, T)
    """For each hidden token the visible places before and after its span, and its place in it: three int64 (B, T).

    mask: booleans (B, T), true where a token is hidden; hidden neighbours are one span. Places in a span count from 1.
    All are 0 at visible tokens. ValueError if the first or the last token of a row is hidden.
    """
    ### BEGIN SOLUTION
    if mask[:, [0, -1]].any():
        raise ValueError("a span has no visible token on one of its sides")
    T = mask.size(1)
    places = torch.arange(T, device=mask.device).expand_as(mask)
    left = places.where(~mask, -1).cummax(1).values
    right = places.where(~mask, T).flip(1).cummin(1).values.flip(1)
    return tuple(found.where(mask, 0) for found in (left, right, places - left))
    ### END SOLUTION


class BoundaryObjective(nn.Module):
    """Logits for hidden tokens, (V) each; parts as in the table. `embedding` is an nn.Embedding (V, d)."""

    def __init__(self, embedding, longest):
        super().__init__()
        ### BEGIN SOLUTION
        d = embedding.embedding_dim
        self.embedding, self.place = embedding, nn.Embedding(longest, d)
        self.first, self.first_norm = nn.Linear(3 * d, d), nn.LayerNorm(d)
        self.second, self.second_norm = nn.Linear(d, d), nn.LayerNorm(d)
        ### END SOLUTION

    def forward(self, states, mask):  # (B, T, d), (B, T) -> (K, V)
        """States (B, T, d), mask (B, T) -> logits (K, V) of the hidden tokens, row by row, from left to right.

        What goes in: the state before the span, the one after it, the row of the place, in this order.
        """
        ### BEGIN SOLUTION
        left, right, place = (found[mask] for found in boundaries(mask))
        row = mask.nonzero()[:, 0]
        place = self.place((place - 1).clamp(max=self.place.num_embeddings - 1))
        h = torch.cat([states[row, left], states[row, right], place], dim=-1)
        h = self.first_norm(F.gelu(self.first(h)))
        h = self.second_norm(F.gelu(self.second(h)))
        return h @ self.embedding.weight.T
        ### END SOLUTION


# %% check="11.5"
checks.boundary(boundaries, BoundaryObjective)

# %%
torch.manual_seed(0)
objective, states = BoundaryObjective(nn.Embedding(50, 16), 10), torch.randn(1, 16, 16)
mask = torch.zeros(1, 16, dtype=torch.bool)
mask[0, 3:8], mask[0, 11:13] = True, True
moved = torch.zeros(7, 16)
for place in range(16):
    changed = states.clone()
    changed[0, place] += 1
    moved[:, place] = (objective(changed, mask) - objective(states, mask)).abs().mean(-1).detach()

# %%
alt = "How far the logits of seven hidden tokens move if one state changes: only at the two ends of their own span."
plots.heatmaps({"moves": moved}, limits=None, xlabel="state that changes", ylabel="hidden token", alt=alt)

# %% [markdown]
# Nothing happens to it. Each token is predicted from two states that are not its own; only its place distinguishes it
# from its neighbours in the span.

# %% [markdown]
# ## 11.6 Two languages in one row
#
# Put a sentence and its translation into one row, hide tokens in both, and predict them: a hidden word can now be read
# from the other language. This is translation language modelling, TLM (Lample and Conneau 2019, XLM). Positions start
# again at the second sentence, and each token also gets an embedding of its language.
#
# For a fair comparison, take the same rows and the same masks without that help, so that no token may look at the other
# language:
#
# $$\mathrm{allowed}_{ij} = \begin{cases} \text{both are real} & \text{TLM} \\
# \text{both are real, and of one language} & \text{MLM.} \end{cases}$$
#
# **Predict first.** What does a row of the softmax contain if its token may look at nothing?
#
# **Exercise 11.6** (2 points, about 15 minutes, medium). Write `tlm_batch` and `allowed`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `languages[:, :, None] == languages[:, None, :]` compares all pairs of tokens. `torch.eye(T, dtype=torch.bool)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Two pads have the same language, -1, but they must not look at each other.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# each sentence: cls, tokens, sep; positions from 0, twice; language 0, then 1; pad all rows to the longest. allowed:
# where both are real, and (unless tlm) of one language; or where i is j.
# </details>


# %%
predict("11.6", "c", a="zeros", b="equal shares", c="not a number")


# %% exercise="11.6"
def tlm_batch(pairs, cls, sep, pad):
    """Rows `cls first sep cls second sep` for pairs of sentences: tokens, positions and languages, each int64 (B, T).

    Positions count from 0 in each of the two sentences, its cls and sep included; languages are 0 for all that belongs
    to the first, and 1 for the second. Rows are filled up on their right to the longest one, with token `pad`, position
    0 and language -1.

    pairs: a list of (first, second), lists of token numbers, which may be empty; at least one pair.
    """
    ### BEGIN SOLUTION
    rows = []
    for pair in pairs:
        sentences = [[cls, *tokens, sep] for tokens in pair]
        tokens = [token for sentence in sentences for token in sentence]
        positions = [place for sentence in sentences for place in range(len(sentence))]
        languages = [language for language, sentence in enumerate(sentences) for _ in sentence]
        rows.append((tokens, positions, languages))
    T = max(len(tokens) for tokens, _, _ in rows)
    fills = (pad, 0, -1)
    return tuple(torch.tensor([row[k] + [fills[k]] * (T - len(row[k])) for row in rows]) for k in range(3))
    ### END SOLUTION


def allowed(languages, tlm):  # (B, T) -> (B, T, T)
    """Which token i may look at which token j: booleans (B, T, T), true where it may.

    languages (B, T), -1 for pads. Each pad looks only at itself, so that no row of a softmax is empty, and nobody else
    looks at it. Real tokens look at all real ones of their row with tlm, else at those of their own language.
    """
    ### BEGIN SOLUTION
    real = languages >= 0
    both = real[:, :, None] & real[:, None, :]
    if not tlm:
        both = both & (languages[:, :, None] == languages[:, None, :])
    return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
    ### END SOLUTION


# %% check="11.6"
checks.two_languages(tlm_batch, allowed)

# %%
tokens, positions, languages = tlm_batch([([5, 6, 7], [8, 9]), ([5], [9, 8])], cls=1, sep=2, pad=0)
for name, part in (("tokens", tokens), ("positions", positions), ("languages", languages)):
    print(f"{name:>9}: {part.tolist()}")
panels = {name: allowed(languages, tlm)[1] for name, tlm in (("MLM", False), ("TLM", True))}
alt = "Who may look at whom in a short row: two blocks without TLM, one block with it, and a pad that sees itself."
plots.heatmaps(panels, alt=alt)

# %% [markdown]
# Not a number: if all scores are minus infinity, the softmax is 0 divided by 0, and NaN spreads through the layers
# above. A pad that looks at itself does no harm, since no other token looks at it.
#
# For a language with little text, the usual solution is a model of many languages. Multilingual BERT was pretrained on
# the Wikipedias of 104 languages without a single pair (`multilingual.md` in BERT's repository); TLM adds pairs where
# there are some.

# %% [markdown]
# ## 11.7 Next, or swapped?
#
# Next-sentence prediction asks whether $b$ follows $a$, and its wrong $b$ comes from another document. ALBERT (Lan et
# al. 2020, section 3.1) keeps the right pairs and makes other wrong ones: the same two segments, swapped (both papers'
# "sentences" are spans of text, not of grammar). This is
# sentence-order prediction, SOP:
#
# $$\text{NSP: } (s_i, s_{i+1}) \text{ or } (s_i, s'_j), \qquad
# \text{SOP: } (s_i, s_{i+1}) \text{ or } (s_{i+1}, s_i).$$
#
# As in exercise 7.5, the label 0 means that this is how the text continues.
#
# **Predict first.** Suppose that a model sees only which words $a$ and $b$ share. Which of the two tasks can it solve?
#
# **Exercise 11.7** (3 points, about 15 minutes, medium). Write `pair_task`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `zip(document, document[1:])` gives all neighbours; `rng.choice(list)` draws one item evenly.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A sentence of another document may have the same text. Exclude places, not texts.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse other tasks, and "nsp" without a second document; for each document, each pair of neighbours: draw the label;
# if it is 1, swap the two (SOP) or draw b from all sentences of the other documents (NSP).
# </details>


# %%
predict("11.7", "a", a="NSP", b="SOP", c="both", d="neither")


# %% exercise="11.7"
def pair_task(documents, task, rng):
    """An example for each pair of neighbours, in the order of the text: a list of tuples (a, b, label).

    The label is 0 or 1, with equal chances and independently of all others. With 0, (a, b) are the neighbours. With 1,
    and the task "sop", they are swapped; with the task "nsp", a stays and b is drawn evenly from all sentences of the
    other documents, each b for itself.

    Args:
        documents: lists of sentences, which are texts; some lists may be empty, and texts may repeat.
        rng: a random.Random, from which all chance comes.

    Raises:
        ValueError: another task, whatever the documents; or "nsp", a document has neighbours, and no other document
            has a sentence.
    """
    ### BEGIN SOLUTION
    if task not in ("nsp", "sop"):
        raise ValueError(f"no task {task!r}")
    examples = []
    for d, document in enumerate(documents):
        others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
        for a, b in zip(document, document[1:]):
            if task == "nsp" and not others:
                raise ValueError("there is no other document")
            label = rng.randrange(2)
            if label and task == "sop":
                a, b = b, a
            elif label:
                b = rng.choice(others)
            examples.append((a, b, label))
    return examples
    ### END SOLUTION


# %% check="11.7"
checks.pair_task(pair_task)

# %%
draw = random.Random(0)
topics = [[f"word{30 * d + k}" for k in range(30)] for d in range(40)]
documents = [[" ".join(draw.choices(topic, k=9)) for _ in range(6)] for topic in topics]


def shared(a, b):
    """How many words two sentences share."""
    return len({*a.split()} & {*b.split()})


# %%
means = {"as in the text": [], "the wrong pairs": []}
for task in ("nsp", "sop"):
    examples = pair_task(documents, task, draw)
    for label, name in enumerate(means):
        counts = [shared(a, b) for a, b, truth in examples if truth == label]
        means[name].append(sum(counts) / len(counts))
    right = sum((shared(a, b) == 0) == truth for a, b, truth in examples) / len(examples)
    print(f"{task}: calling pairs without a common word wrong is right in {right:.0%} of the cases")

# %%
alt = "Words that two sentences share, for pairs as in the text and for wrong pairs: far apart for NSP, equal for SOP."
plots.bars(means, labels=["NSP", "SOP"], ylabel="shared words", alt=alt)

# %% [markdown]
# NSP can be solved by comparing topics alone, so a model trained on it may learn nothing more. Swapping changes no
# word: SOP requires knowing which of two sentences comes first.

# %% [markdown]
# ## Experiment: three questions, two arms each
#
# Each pair of arms differs in one thing, and has the same number of steps:
#
# | what learns | its arms | what is measured |
# |---|---|---|
# | an encoder, from random weights, fills blanks | one mask a sentence; a new one an epoch | the loss on other text |
# | the same, with translations in its rows | no token looks across; all do in every second batch | translations found |
# | a head, on vectors of two sentences | NSP; SOP | accuracy in both tasks |
#
# The text is the documentation of the course's libraries. The second language is made up: every word of the first gets
# another number, and the words of each pair of neighbours change places. No word is in both.
#
# `COURSE_PROFILE` decides the size: `cpu` is small, `gpu` has more text and larger models, and `smoke` made-up text.
# Smoke runs show that everything works, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->

# %% tags=["experiment"]
experiments = objectives.experiments("11_other_objectives")
print(f"{profiles.name()} on {profiles.device()}, seeds {objectives.seeds()}")
for name, one in experiments.items():
    print(f"{name}: {one.task}, batches of {one.batch}, rate {one.lr}, {one.test} to test on")
student.use(checks, masked_places=masked_places, tlm_batch=tlm_batch, allowed=allowed, pair_task=pair_task)
results = results_folder(say=True)

# %% [markdown]
# The runs use your `masked_places`, `tlm_batch`, `allowed` and `pair_task` if you have passed their checks in this
# session; otherwise they use the course's. If one of your functions gives a different result, the runs use the course's
# version. That holds even if your result is just as good (with different random numbers, say). The grader must be able
# to repeat a run without your code.

# %% [markdown]
# ## All runs
#
# Every run writes one file with a row for each test example. A row holds the loss and its number of blanks; or whether
# the translation was found, and how far the right one is ahead; or two margins, one for each task. Losses, shares and
# accuracies are computed from these, here and in grading. An edited or copied file is refused, and so is a seed that is
# not yours.
#
# **Predict first.** A head is trained on NSP and tested on SOP. How often is it right?
#
# The runs take minutes on a GPU, and half an hour or more without one. Interrupt them whenever you like: finished seeds
# are kept.

# %% tags=["experiment"]
predict("11.E1", "b", a="nearly always", b="about as often as a coin", c="nearly never")

# %% tags=["experiment"]
runs = {name: run_seeds(one, objectives.seeds(), results) for name, one in experiments.items()}

# %% [markdown]
# ## 11.8 When to stop
#
# A test loss that falls and then rises shows two things: when the training should have stopped, and what the rest of it
# cost. Read both from the mean over seeds: the **point** at which it is lowest, and the **rise** from there to the last
# point.
#
# **Exercise 11.8** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `overfitted`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `zip(*losses)` gives the losses of all seeds at one point; `min(range(n), key=mean.__getitem__)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A loss that rises once may fall again: the first rise need not come after the lowest point.
# </details>


# %% exercise="11.8"
def overfitted(losses):
    """The point, from 0, at which the mean test loss over seeds is lowest, and by how much the last one is above it.

    losses: a list for each seed with its test loss at each point, as many for all; there is a seed and a point at
    least. Of means that are equal in float32 any point is right.
    """
    ### BEGIN SOLUTION
    mean = [sum(some) / len(some) for some in zip(*losses)]
    point = min(range(len(mean)), key=mean.__getitem__)
    return point, mean[-1] - mean[point]
    ### END SOLUTION


# %% check="11.8"
checks.overfitted(overfitted)

# %% tags=["experiment"]
for name in (objectives.STATIC, objectives.DYNAMIC):
    point, rise = overfitted([[one["test_loss"] for one in run.curve] for run in runs[name]])
    print(f"{name}: the test loss is lowest at point {point}, and ends {rise:.2f} nats above that")

# %% [markdown]
# First the masks: how both losses change over the steps. The bands run from the lowest seed to the highest.

# %% tags=["experiment"]
objectives.learning(runs, "Your runs: training and test loss over the steps, with one mask and with dynamic masks.")

# %% [markdown]
# Now one table: each row has the metric of its task, as a mean over your seeds, with the standard deviation in
# brackets.

# %% tags=["experiment"]
objectives.table(runs)

# %% tags=["experiment"]
objectives.crossed(runs, "Your runs: accuracy of heads trained on NSP and on SOP, tested on both.")

# %% [markdown]
# Which differences does the table show? All students make the same four comparisons.

# %% tags=["experiment"]
print(*objectives.compared(runs), sep="\n\n")

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has.

# %% tags=["experiment"]
recorded = objectives.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
objectives.table(recorded) if recorded else None

# %% tags=["experiment"]
objectives.learning(recorded, "The recorded runs, as above: with one mask the test loss rises.") if recorded else None

# %% tags=["experiment"]
objectives.crossed(
    recorded, "The recorded runs, as above: each head is good at its own task alone."
) if recorded else None

# %% tags=["experiment"]
reveal("11.E1")

# %% tags=["experiment"]
print(*objectives.compared(recorded), sep="\n\n")

# %% [markdown]
# In the recorded runs all four differences are shown. With one fixed mask for each sentence, the training loss keeps
# falling, while the loss on other text rises from the third point on: the model learns the blanks by heart. In the end
# it is a nat above that of dynamic masks. The number of steps is the first one that was tried, and the size of the
# difference depends on it. RoBERTa's own gain is far smaller. Its text is not a thousand sentences, and its static
# masks were ten: either may be the reason. In the end it read 160 GB: BooksCorpus and Wikipedia (16), CC-News (76),
# OpenWebText (38) and Stories (31; section 3.2).
#
# After training on sentences side by side with their translations, more than a quarter of the translations are nearest
# to their sentences. After training on each alone, one in a hundred is, where chance gives one of 400. The two arms see
# the same words. What differs is who may look at whom, in every second batch. Both arms fill their blanks as BERT does:
# most with a mask, some with another word, and some with the word itself. In a trial in which all blanks were masks,
# hardly any translation was found. The rate was chosen with one of these seeds, on these sentences, so that more than a
# quarter may be a little too many.
#
# A head that learned NSP is not shown to be better at order than a coin, as in ALBERT's table 5. A head that learned
# SOP is a little better than a coin at NSP; in the paper it is far better. Both follow from intervals over seeds alone,
# and neither is among the four comparisons. Ours reads frozen vectors of single sentences, while the paper trains a
# whole model.

# %% [markdown]
# ### Do hidden spans help a task whose answers are spans?
#
# SpanBERT's authors report it: on SQuAD 1.1 its F1 is 94.6, and that of their own BERT with single segments 93.3 (table
# 1). The runs below came with the course and ask the same at a small size. The first four layers of the packaged
# encoder learn to fill in blanks, in the pages of documentation about which notebook 08 asks. In one arm single pieces
# are hidden, in another spans of whole words, 15% in both. A control fills in no blanks. Then each arm learns from
# 9,600 questions. It is tested on questions about pages of other files, in wordings that it knows and in new ones.
# There are 12 seeds. For the questions each arm has the best rate of its own search; the rate for the blanks was not
# searched.

# %% tags=["experiment"]
answered = spans.recorded()
SeedTable(answered, spans.METRICS[0]).plot()

# %% tags=["experiment"]
for metric in spans.METRICS:
    print(f"--- {metric.name}", *SeedTable(answered, metric).compared(spans.compared()), sep="\n\n")

# %% [markdown]
# **Spans against pieces.** No difference is shown. With known wordings spans are 8.9 points behind, and the interval is
# from 19.5 behind to 1.6 ahead. The paper's gain of 1.3 points lies in it, and so does none. These runs could not show
# such a small gain: with 12 seeds an interval is 21 points wide, because seeds of one arm differ by up to 42 points.
# Some never get beyond 54% and some do: 9 of 12 without blanks, 3 after pieces, 1 after spans.
#
# **Blanks against none.** Here blanks do harm: whole spans cost 20 points with known wordings, which is shown, and 22
# with new ones. So the runs do not show what hidden spans are good for. Two reasons are possible, and no run here
# separates them. The encoder was tuned to compare sentences. Filling in blanks may have overwritten what helps to find
# the part of a page that a question is about. Or the rate for the blanks was too high. Three more things differ from
# the paper. Its models start from nothing and read thousands of times as much text; it also predicts from the
# boundaries (11.5); and spans of more than ten words were cut here, not drawn again.

# %% [markdown]
# **Question 11.W1** (2 points). Read the four accuracies of the heads in your own table (in the profile `smoke`: the
# recorded ones). Which row shows that NSP is about topics, and how? What does the other row show, and what would you
# expect there if SOP contained NSP, as the paper says? Which number would you look at to rule out that a head has
# simply learned nothing?

# %% [markdown] written="11.W1" points=2
# ### BEGIN SOLUTION
# The row trained on NSP: good at NSP, and at SOP not shown to be better than a coin. The pairs of SOP are of one
# document, right and wrong ones alike, so topic says nothing about them; a head that fails there and is good at NSP
# used the one thing that only NSP's wrong pairs have, another topic. That it learned something is shown by its NSP
# accuracy, well above one half. The row trained on SOP: above one half at SOP, so order can be read from these
# vectors, though not well; at NSP only a little above a coin. If SOP contained NSP (a model that knows the order must
# know that two sentences belong together), it would be good at both; in ALBERT's table it is far above a coin at NSP
# too. That no pair in training has two topics cannot be the reason: the paper's SOP has none either. Here only a head
# learns, on frozen vectors of single sentences; in the paper, the whole model learns and reads both segments at once.
# A diagonal entry at one half would mean that nothing was learned; then the other entry of its row says nothing.
# === BEGIN MARK SCHEME ===
# One point: the NSP row, high at NSP and at chance at SOP, because SOP's pairs have the same topic on both sides.
# One point: the SOP row with its numbers; the answer says that the paper finds something else, with a reason (frozen
# vectors of single sentences, a head instead of a whole model, or less data; "no wrong topics in training" alone is
# worth nothing, for the paper's SOP has none either), and that the diagonal rules out that nothing was learned.
# Half a point off for "NSP is easier" without saying what makes it easier.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 11.W2** (2 points). Your table cannot show what the three papers claim. Choose one of them, RoBERTa's
# masks, XLM's translations or ALBERT's order, and plan an experiment that could **refute** its claim. State the arms
# and what they share, and what is measured on which task. Also state how many seeds there are and why so many, and
# which outcome would count against the claim. What besides the objective differs between the paper's arms and yours?

# %% [markdown] written="11.W2" points=2
# ### BEGIN SOLUTION
# For example ALBERT claims that predicting the order of segments makes a better encoder for tasks with several
# sentences than NSP does. Three arms are pretrained in the same way (same text, steps, batches, model, masks) and
# differ only in the second loss: none, NSP or SOP. Each is pretrained with several seeds, since a difference between
# two single pretrained models may be luck, and each model is fine-tuned several times on RACE and on MNLI, with rates
# chosen on held-out data for each arm. With the spread of my table as a first guess the formula of exercise 5.9 says
# how many seeds show a difference of one point. Evidence against the claim would be an interval for SOP minus NSP, over
# seeds and examples, that is below the gain in the paper (its table 5), and more so one that contains 0. My own arms
# are heads on frozen vectors of single sentences: there the objective trains nothing but the head. The paper's arms
# train a whole model for many steps on far more text. Masks: static with ten copies, static with one, dynamic, at
# several sizes of the text; fine-tuned on SQuAD and MNLI. Translations: with and without pairs of real sentences,
# equally many tokens; a task learned in one language, XNLI, tested in the other.
# === BEGIN MARK SCHEME ===
# One point: arms that differ in the objective alone, a downstream task that fits the claim (tasks of several sentences,
# another language, fine-tuning), and an outcome that would count against it.
# One point: a number of seeds with a reason (the spread of the own table, a formula, both pretraining and fine-tuning
# seeds), and a real difference between the paper's arms and the own ones (frozen vectors, one text, a made-up language,
# one mask in place of ten, scale).
# Half a point off for a plan in which no outcome could refute the claim.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("11_other_objectives")

# %% [markdown]
# **What you can do now:** say for each of BERT's successors what it predicts, implement it, and see in which details a
# copy goes wrong. You can also say what a table shows and what it cannot show.

# %%
scoreboard(checks)

# %% [markdown]
# ## 11.S1 Real or replaced?
#
# This stretch exercise has a check, but it is not graded.
#
# A masked model learns from 15% of the tokens. ELECTRA (Clark et al. 2020) learns from all: a small model fills the
# blanks by **drawing** from its distribution, and a second model says for each token whether it was replaced. If a
# drawn token happens to be the right one, it counts as real (section 2 of the paper):
#
# $$L = -\frac{1}{n} \sum_t \big[\, r_t \log D_t + (1 - r_t) \log (1 - D_t) \,\big], \qquad r_t = [\, x_t \ne
# \text{original}_t \,].$$
#
# **Predict first.** The small model gets better and better. What becomes of the second model's task?
#
# **Exercise 11.S1** (not graded, about 15 minutes, medium). Write `replace` and `detection_loss`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.multinomial(shares, 1, generator=...)` draws for each row; `F.binary_cross_entropy_with_logits`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# "Was a blank" and "was replaced" are not the same: some blanks are filled with the original token.
# </details>


# %%
predict("11.S1", "c", a="it stays as hard", b="it becomes easier and easier", c="nothing is left to find")


# %% stretch="11.S1"
def replace(ids, blanks, logits, generator=None):
    """Fill blanks with drawn tokens: the new ids (B, T), and booleans (B, T), true where a token is not the old one.

    Args:
        ids: int64 (B, T), which stay as they are.
        blanks: booleans (B, T), true where a token is drawn; elsewhere it stays.
        logits: (B, T, V); a token is drawn with the probabilities softmax(logits), for each blank by itself.
        generator: all chance comes from this torch.Generator, on the device of ids; from torch's own if it is None.

    What is returned needs no gradient.
    """
    ### BEGIN SOLUTION
    drawn = ids.clone()
    if blanks.any():
        shares = logits.detach()[blanks].softmax(dim=-1)
        drawn[blanks] = torch.multinomial(shares, 1, generator=generator)[:, 0]
    return drawn, drawn != ids
    ### END SOLUTION


def detection_loss(scores, replaced, real):
    """The mean of L over all real tokens, a tensor: scores (B, T) are the logits of D, replaced and real booleans."""
    ### BEGIN SOLUTION
    return F.binary_cross_entropy_with_logits(scores[real], replaced[real].to(scores.dtype))
    ### END SOLUTION


# %% check="11.S1"
checks.detection(replace, detection_loss)

# %% tags=["experiment"]
seeded, ids = torch.Generator().manual_seed(0), torch.randint(50, (400, 40))
blanks = torch.rand(ids.shape) < 0.15
right = F.one_hot(ids, 50).float()
shares = {"blanks": [], "replaced": []}
for sure in range(0, 11):
    drawn, replaced = replace(ids, blanks, sure * right, seeded)
    shares["blanks"].append(blanks.float().mean().item())
    shares["replaced"].append(replaced.float().mean().item())

# %% tags=["experiment"]
alt = "The share of replaced tokens against how sure the small model is of the right one: it falls from that of the "
plots.curves(shares, x=range(11), xlabel="logit of the right token", ylabel="share", alt=alt + "blanks to nothing.")

# %% [markdown]
# There is nothing left to find: a perfect small model replaces no token. In the paper the small model is a quarter to
# half as large as the second one. A larger one makes the second worse (section 3.2).
