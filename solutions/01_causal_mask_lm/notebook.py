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
# # 1. A language model that may not look ahead
#
# Everything in this course grows out of one machine: a Transformer that reads some
# words and guesses the next one. You build it here from matrix products, train it on
# the documentation of the libraries on this very computer, and let it write.
#
# Then you take one line away, the mask, and watch the loss fall to almost nothing
# while the model becomes useless. Knowing why is the point of the notebook.
#
# Work from top to bottom. Each exercise is checked on the spot and stands on its own: if you get stuck, continue with
# the next one and come back later. Grading asks a little more than the check that you see: other sizes and numbers, and
# the edge cases that the text and the docstrings mention. Tensors that your code makes belong on the device of those
# that it is given, so that it runs on a GPU too. Your code must never change its arguments. Its results must be new
# objects: writing into one changes no later result. A call must not change torch's default dtype (float32) or device,
# nor whether gradients are recorded. It may change the global random generators only by drawing from them, and only if
# the exercise draws.
#
# Functions of libraries that do all the work of an exercise are not allowed in it. The exercise names them; models of
# libraries such as `transformers` are never allowed.
#
# The exercises take about four hours and need no GPU; the experiment at the end takes a few minutes on a processor,
# less on a GPU.

# %% tags=["setup"]

# %%
import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

from data import documentation
from utils import block_diagrams, plots, subwords
from utils.checks import nb01_causal_mask_lm as checks
from utils.experiments import profiles, training
from utils.grading import toys
from utils.grading.check import scoreboard
from utils.interactive import interactive
from utils.positions import add_positions
from utils.predictions import predict

SPECIAL = ["<sos>", "<pad>", "<eos>", "<unk>"]
SOS, PAD, EOS, UNK = range(4)

# %% [markdown]
# ## A mean, then a better one
#
# Each of three tokens has a **value**, a vector of two numbers. The simplest way for a token to read all of them is to
# take their mean. That is a product of matrices: a row of **weights** says how much of each value a token takes.
#
# | | shape | rows |
# |---|---|---|
# | values | (3, 2) | one for each token that is read |
# | weights | (3, 3) | one for each token that reads, with a column for each that is read |
# | weights times values | (3, 2) | one for each token that reads |
#
# Some tokens matter more than others. So each pair of tokens gets a **score**, which may be any number. The **softmax**
# turns a row of scores into weights: the exponential of each, divided by the sum of all exponentials. Weights are above
# 0 and sum to 1. Equal scores give the mean again.

# %% tags=["experiment"]
values = torch.tensor([[6.0, 0.0], [0.0, 6.0], [3.0, 3.0]])
print("means:", (torch.full((3, 3), 1 / 3) @ values).tolist())
scores = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [9.0, 0.0, 0.0]])
weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
plots.heatmaps(
    {"values (3, 2)": values, "scores (3, 3)": scores, "weights (3, 3)": weights, "output (3, 2)": weights @ values},
    limits=(0, 9),
    xlabel="",
    ylabel="token",
    alt="Values, scores, weights and output of three tokens. Equal scores: the output is the mean of the values. A "
    "larger score: the output is nearer to that value. A much larger one: the output is nearly that value.",
)

# %% [markdown]
# ## 1.1 Attention
#
# A token wants to know what the others have to say. It sends a **query** $q$; each token offers a **key** $k$ and a
# **value** $v$. The better a query matches a key, the larger the share of that token's value in the output:
#
# $$\mathrm{weights} = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d}} + M\right),
# \qquad \mathrm{output} = \mathrm{weights}\; V.$$
#
# The dot product of two random vectors of width $d$, with independent entries of mean 0 and variance 1, has a standard
# deviation of $\sqrt{d}$. Divided by that, they stay small, and the softmax does not saturate. $M$, explained in 1.2,
# is added.
#
# **Predict first.** Multiply every query by ten. Do the weights become flatter
# or sharper?
#
# **Exercise 1.1** (2 points, about 20 minutes, easy). Write `attention`. Not allowed:
# `scaled_dot_product_attention`, `MultiheadAttention`, `flex_attention`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.Tensor.transpose` takes negative dimensions: `transpose(-2, -1)` swaps the last
# two, however many come before them.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The softmax runs over the keys. A query's weights are one row, and a row sums to one.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# scores = queries times transposed keys, divided by the root of the width;
# if there is a mask, add it; softmax over the last dimension; times values.
# </details>


# %%
predict("1.1", "b", a="flatter", b="sharper", c="as before: the softmax divides it out")


# %% exercise="1.1"
def attention(q, k, v, mask=None):  # (..., T, d), (..., S, d), (..., S, d_v) -> (..., T, d_v), (..., T, S)
    """Scaled dot-product attention. Leading dimensions (batch, heads), none or many, stay as they are.

    Args:
        q: queries, (..., T, d).
        k: keys, (..., S, d).
        v: values, (..., S, d_v).
        mask: None, or a tensor of the dtype of q that is added to the scores, broadcast to (..., T, S).

    Returns:
        output (..., T, d_v) and weights (..., T, S), in the dtype of q; gradients pass through both.
    """
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-1)
    return weights @ v, weights
    ### END SOLUTION


# %% check="1.1"
checks.attention(attention)

# %%
q, k = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(3))
plots.heatmaps(
    {f"queries times {factor}": attention(factor * q, k, k)[1] for factor in (0.1, 1, 10)},
    limits=(0, 0.5),
    alt="Three heat maps of attention weights: nearly uniform, mixed, and one bright key in each row.",
)

# %% [markdown]
# Longer queries make sharper rows. On the left, all six keys count nearly the same. On the right, most queries read
# one key and ignore the rest (weights above one half have one colour). Without the division, this would happen to wide
# vectors before anything was learned.

# %% [markdown]
# ## 1.2 Do not look ahead
#
# A language model is trained to guess token $t+1$ from tokens $0 \dots t$. Attention
# lets every token read every other, so without help the model would simply copy the
# answer.
#
# The help is the **mask** $M$ that is added to the scores before the softmax:
#
# $$M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i. \end{cases}$$
#
# Row $i$ is a query, column $j$ a key.
#
# **Predict first.** For four tokens, how many entries of $M$ are $-\infty$? Which row
# of the attention matrix will have only one non-zero entry?
#
# **Exercise 1.2** (2 points, about 10 minutes, easy). Write `causal_mask`. One line is enough. Not allowed:
# `generate_square_subsequent_mask` and the masks of `torch.nn.attention.bias`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.triu` keeps the upper triangle. Its `diagonal` argument decides whether the
# diagonal belongs to it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Multiplying by $-\infty$ gives `nan` wherever the other factor is zero.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a T by T matrix full of $-\infty$; keep what lies strictly above the diagonal.
# </details>


# %%
predict(
    "1.2", "b", a="4 entries, and the last row", b="6 entries, and the first row", c="10 entries, and the first row"
)


# %% exercise="1.2"
def causal_mask(T):  # -> (T, T)
    """Return the additive mask that stops each position from reading later ones.

    Args:
        T: number of tokens, from 1 to 2,000.

    Returns:
        float tensor of shape (T, T): 0 where key j <= query i, -inf elsewhere.
    """
    ### BEGIN SOLUTION
    return torch.full((T, T), -torch.inf).triu(diagonal=1)
    ### END SOLUTION


# %% check="1.2"
checks.causal_mask(causal_mask)

# %%
words = "the cat sat down".split()
scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
plots.heatmaps(
    {
        "every token reads every token": scores.softmax(-1),
        "each token reads only its past": (scores + causal_mask(4)).softmax(-1),
    },
    labels=words,
    alt="Two heat maps of attention weights. The second is zero above the diagonal.",
)

# %% [markdown]
# The right-hand matrix is zero above the diagonal, every row still sums to one, and
# *the* has nowhere to look but itself. Six entries of $M$ were $-\infty$: was that
# your prediction?

# %% [markdown]
# ## 1.3 Several heads
#
# One softmax gives one weighted mean. To follow a verb and a bracket at the same time, a token needs two. So the width
# `d_model` is cut into `n_heads` slices of $d_{head} = d_{model} / n_{heads}$, and each slice attends on its own:
#
# $$\mathrm{head}_h = \mathrm{attention}(Q_h, K_h, V_h), \qquad
# \mathrm{output} = [\mathrm{head}_1; \dots; \mathrm{head}_H]\, W_O^\top + b_O.$$
#
# $Q = X W_Q^\top + b_Q$, $K$ and $V$ are three linear maps of the same input $X$, each with a bias;
# head $h$ owns the $h$-th block of their columns. There is no dropout here. For the attention itself, you
# may use `F.scaled_dot_product_attention(q, k, v, attn_mask=mask)`, which does what you wrote in 1.1.
#
# **Predict first.** Which has more parameters, a layer with two heads or one with six?
#
# **Exercise 1.3** (3 points, about 25 minutes, medium). Write `MultiHeadAttention`. Not allowed:
# `nn.MultiheadAttention`, `F.multi_head_attention_forward`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.unflatten(-1, (n_heads, -1))` cuts the last dimension in two;
# `Tensor.flatten(-2)` joins the last two again.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Reshaping `(B, T, C)` straight to `(B, n_heads, T, d_head)` has the right shape and the
# wrong content. Cut the last dimension first, then transpose; on the way back,
# transpose first.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# project three times; cut each into heads; move the heads before the tokens; attend;
# move them back; join; project.
# </details>


# %%
predict("1.3", "c", a="the one with two heads", b="the one with six heads", c="neither")


# %% exercise="1.3"
class MultiHeadAttention(nn.Module):
    """Self-attention in `n_heads` slices of the width.

    Parts: `q_proj`, `k_proj`, `v_proj`, `out_proj`, all nn.Linear with a bias.

    Raises:
        ValueError: made with a `d_model` that cannot be divided by `n_heads`.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % n_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        ### END SOLUTION

    def forward(self, x, mask=None):  # (B, T, d_model), (T, T) -> (B, T, d_model)
        """From x (B, T, d_model) to the same shape; `mask` is None or (T, T), any numbers to add to the scores."""
        ### BEGIN SOLUTION
        q, k, v = (
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(heads.transpose(1, 2).flatten(-2))
        ### END SOLUTION


# %% check="1.3"
checks.multi_head_attention(MultiHeadAttention)

# %%
for n_heads in (1, 2, 6):
    layer = MultiHeadAttention(12, n_heads)
    print(f"{n_heads} heads: {sum(part.numel() for part in layer.parameters())} parameters")

# %% [markdown]
# Heads cost nothing. They only decide how the same matrices are read: many narrow
# looks, or one wide one.

# %% [markdown]
# ## 1.4 One layer
#
# Attention moves information between tokens; a feed-forward network then works on each
# token alone. Both add their result to what came in, and a norm follows. The sum lets
# gradients pass; the norm keeps sizes in check.
#
# $$h = \mathrm{norm}_1(x + \mathrm{drop}(\mathrm{attention}(x))), \qquad
# y = \mathrm{norm}_2(h + \mathrm{drop}(W_2\, \mathrm{drop}(\mathrm{relu}(W_1 h)))).$$
#
# The norm comes after the sum: **post-norm**, as in the paper. Dropout acts in four places, each with its own draws:
# the three in the formula, and the attention weights. `nn.MultiheadAttention`, which equals your 1.3, does the latter.
# Only dropout depends on the mode: the mask always applies.

# %% tags=["experiment"]
block_diagrams.show("layer")

# %% [markdown]
# **Predict first.** What are the mean and the standard deviation of each output vector
# of a fresh layer?
#
# **Exercise 1.4** (3 points, about 25 minutes, medium). Write `TransformerLayer`. Not allowed: torch's own
# layers and Transformers.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)` is called with
# query, key and value and returns a pair. Its mask argument is `attn_mask`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `nn.Dropout` listens to `train()` and `eval()`. `F.dropout` does not, unless you hand it
# `self.training`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# a = attention(x, x, x), first item; h = norm1(x + dropout(a));
# f = linear2(dropout(relu(linear1(h)))); return norm2(h + dropout(f)).
# </details>


# %%
predict("1.4", "a", a="0 and 1", b="those of the input", c="0 and the root of d_model")


# %% exercise="1.4"
class TransformerLayer(nn.Module):
    """A post-norm encoder layer with ReLU, (B, T, d_model) -> (B, T, d_model).

    Parts, named as in torch: `self_attn` (nn.MultiheadAttention, batch first), `linear1`, `linear2` (with biases),
    `norm1`, `norm2` (nn.LayerNorm as it is, with its eps of 1e-5). `dropout` is a share from 0 to 1, both included.
    """

    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x, mask=None):  # (B, T, d_model), (T, T) -> (B, T, d_model)
        """`mask` is None or additive, (T, T)."""
        ### BEGIN SOLUTION
        attended, _ = self.self_attn(x, x, x, attn_mask=mask)
        x = self.norm1(x + self.dropout(attended))
        inner = self.dropout(self.linear1(x).relu())
        return self.norm2(x + self.dropout(self.linear2(inner)))
        ### END SOLUTION


# %% check="1.4"
checks.transformer_layer(TransformerLayer)

# %%
x = 5 + 3 * torch.randn(1, 4, 64)
y = TransformerLayer(64, 4, 32)(x)
print("mean of each input vector: ", x.mean(-1).tolist())
print("mean of each output vector:", [round(value, 4) for value in y.mean(-1)[0].tolist()])
print("their standard deviations: ", [round(value, 4) for value in y.std(-1, correction=0)[0].tolist()])

# %% [markdown]
# Mean zero and standard deviation one, whatever came in: the last thing a post-norm layer does is normalise. In a
# trained layer the norm's own weight and bias move them.

# %% [markdown]
# ## 1.5 Words become numbers
#
# A model reads numbers, not words. A **vocabulary** gives each frequent word a
# number. The first four belong to `SPECIAL`: start, padding, end and unknown. Words follow,
# the most frequent first, until there are `max_size` entries.
#
# A sentence of $n$ words gives $n + 1$ pairs of input and target:
#
# | | | | | |
# |---|---|---|---|---|
# | input | `<sos>` | the | cat | sat |
# | target | the | cat | sat | `<eos>` |
#
# Rows longer than `max_len` are cut at the right; shorter ones are filled with `PAD`
# on the right, up to the longest row left.
#
# **Predict first.** A row is cut. What is its last target: `<eos>`, or a word?
#
# **Exercise 1.5** (3 points, about 30 minutes, medium). Write `Vocabulary` and `make_batch`.
# Words are what `sentence.split()` gives, as they are written;
# `SPECIAL`, `SOS`, `PAD`, `EOS` and `UNK` are defined above.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `collections.Counter` counts; its `most_common(n)` sorts. `dict.get(word, default)` returns the default for a missing
# word. `nn.utils.rnn.pad_sequence` fills short rows.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `words = SPECIAL` does not copy the list. If you append to it, the next vocabulary
# starts where this one ended.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# for each sentence, row = SOS, numbers, EOS; its input is all but the last, its target
# all but the first; cut both to max_len; pad both to the longest.
# </details>


# %%
predict("1.5", "b", a="<eos>", b="a word", c="<pad>")


# %% exercise="1.5"
class Vocabulary:
    """`words` lists SPECIAL, then words of `sentences`, the most frequent first: at most `max_size` (4 or more)."""

    def __init__(self, sentences, max_size):
        ### BEGIN SOLUTION
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
        self.numbers = {word: number for number, word in enumerate(self.words)}
        ### END SOLUTION

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        """The numbers of the words of `sentence`, a list; UNK for a word that is not in `words`."""
        ### BEGIN SOLUTION
        return [self.numbers.get(word, UNK) for word in sentence.split()]
        ### END SOLUTION

    def decode(self, numbers):
        """The words that `numbers` stand for, special ones too, joined by single spaces."""
        ### BEGIN SOLUTION
        return " ".join(self.words[number] for number in numbers)
        ### END SOLUTION


def make_batch(sentences, vocab, max_len):
    """Inputs and targets, int64 (B, T), T <= max_len, PAD on the right. `vocab` is used by its methods alone."""
    ### BEGIN SOLUTION
    rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
    pad = nn.utils.rnn.pad_sequence
    inputs = pad([torch.tensor(row[:-1]) for row in rows], batch_first=True, padding_value=PAD)
    return inputs, pad([torch.tensor(row[1:]) for row in rows], batch_first=True, padding_value=PAD)
    ### END SOLUTION


# %% check="1.5"
checks.vocabulary(Vocabulary, make_batch)

# %%
sentences = ["the cat sat", "the dog saw the cat run"]
vocab = Vocabulary(sentences, max_size=8)
for name, rows in zip(("input ", "target"), make_batch(sentences, vocab, max_len=5), strict=True):
    print(name, *(vocab.decode(row) for row in rows.tolist()), sep="\n    ")

# %% [markdown]
# The long row ends in a word: its end was cut away, and a target that says `<eos>` there
# would teach the model to stop in the middle.

# %% [markdown]
# ## 1.6 The language model
#
# Embed, add positions, run layers, and give every word a score. `add_positions` marks each position with a fixed random
# pattern, with entries of size one; notebook 02 has better ones. Embeddings should be equally large, or one hides the
# other. But Adam's steps have a similar size for all weights, so entries of size one hardly change. So embeddings start
# with standard deviation $1/\sqrt{d_{model}}$, like a linear map, and are multiplied:
#
# $$x_0 = \mathrm{positions}(\sqrt{d_{model}}\; E[\mathrm{tokens}]), \qquad
# x_l = \mathrm{layer}_l(x_{l-1}, M), \qquad \mathrm{logits} = \mathrm{head}(x_L).$$
#
# Build on `nn.TransformerEncoderLayer` and `nn.Transformer.generate_square_subsequent_mask`, which do the same as your
# answers to 1.4 and 1.2.
#
# **Predict first.** Someone edits the third of six tokens. Which logits change?
#
# **Exercise 1.6** (3 points, about 25 minutes, medium). Write `LanguageModel`. Its head has a bias, each
# layer weights of its own.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.normal_(tensor, std=...)`; `nn.ModuleList`. The layer's mask argument is `src_mask`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A Python list of layers is invisible to `parameters()`: the optimizer would never move
# them.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# x = add_positions(embedding(tokens) times the root of d_model); for each layer,
# x = layer(x, mask); return head(x).
# </details>


# %%
predict("1.6", "c", a="those of the third token alone", b="all six", c="those of the third token and of all after it")


# %% exercise="1.6"
class LanguageModel(nn.Module):
    """Token numbers (B, T) -> logits (B, T, vocab_size) for the token after each, in training and evaluation alike.

    Without `causal`, no mask. `forward` obeys `self.causal` as it is: it may be changed later.

    Parts: `embedding` (nn.Embedding), `layers` (nn.ModuleList of nn.TransformerEncoderLayer), `head` (nn.Linear).
    """

    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.1, causal=True):
        super().__init__()
        self.d_model, self.causal = d_model, causal
        ### BEGIN SOLUTION
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
        )
        self.head = nn.Linear(d_model, vocab_size)
        ### END SOLUTION

    def forward(self, tokens):  # (B, T) -> (B, T, vocab_size)
        ### BEGIN SOLUTION
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
        for layer in self.layers:
            x = layer(x, src_mask=mask if self.causal else None)
        return self.head(x)
        ### END SOLUTION


# %% check="1.6"
checks.language_model(LanguageModel)

# %%
model = LanguageModel(20, 32, 4, 64, 2).eval()
tokens = torch.arange(6).repeat(7, 1)
tokens[range(6), range(6)] += 10  # row i has token i edited; the last row has none
with torch.no_grad():
    moved = (model(tokens)[:6] - model(tokens)[6]).norm(dim=-1)
plots.heatmaps(
    {"how far the logits move": moved / moved.max()},
    xlabel="logits at",
    ylabel="edited token",
    alt="Heat map: editing token i moves the logits at i and later, none before.",
)

# %% [markdown]
# Editing a token moves the logits at its own position and after it, never before. This course grew
# out of a lab whose model had the sizes of the next cell. This is how large that model is:

# %%
lab = LanguageModel(vocab_size=50_001, d_model=200, n_heads=2, d_ff=200, n_layers=4)
print(f"{sum(part.numel() for part in lab.parameters()):,} parameters")

# %% [markdown]
# ## 1.7 How surprised is it?
#
# At each position the model gives each of $V$ words a probability. The loss is the mean surprise at the word that came,
# in nats; its exponential, the **perplexity**, can be read as the number of equally likely words among which the model
# is choosing.
#
# $$\mathrm{loss} = -\frac{1}{N} \sum_{\mathrm{target} \ne \mathrm{pad}} \log p(\mathrm{target}),
# \qquad \mathrm{perplexity} = e^{\mathrm{loss}}.$$
#
# $N$ counts the targets that are not padding: if padding counted, the model would look better than it is.
#
# **Predict first.** A model that gives all $V$ words the same probability: what is its
# perplexity?
#
# **Exercise 1.7** (2 points, about 20 minutes, medium). Write `lm_loss` and `perplexity`. Not allowed:
# torch's cross-entropy.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.log_softmax`, then `Tensor.gather(-1, index)` picks one number from each row.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `softmax` followed by `log` gives minus infinity where a probability is too small for a
# float. `log_softmax` does not.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# log-probabilities of all words; those of the targets; keep the positions whose target is
# not pad; minus their mean.
# </details>


# %%
predict("1.7", "c", a="1", b="log V", c="V")


# %% exercise="1.7"
def lm_loss(logits, targets, pad_id):  # (B, T, V), (B, T) -> ()
    """The mean negative log-likelihood, in nats, over the targets that are not `pad_id`.

    Args:
        logits: (B, T, V). targets: int64 (B, T), at least one not padding.
        pad_id: an integer; if it is not in 0 to V - 1, no target is padding.

    Returns:
        a tensor with one number, through which gradients pass; finite however sure the model is.
    """
    ### BEGIN SOLUTION
    of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
    return -of_targets[targets != pad_id].mean()
    ### END SOLUTION


def perplexity(loss):
    """The perplexity that belongs to a loss in nats (a number, or a tensor with one)."""
    ### BEGIN SOLUTION
    return math.exp(loss)
    ### END SOLUTION


# %% check="1.7"
checks.lm_loss(lm_loss, perplexity)

# %%
targets = torch.arange(4, 12).reshape(2, 4)
for bonus in (0, 2, 4, 8):
    logits = bonus * F.one_hot(targets, num_classes=1000).float()
    loss = lm_loss(logits, targets, PAD).item()
    print(f"logit of the right word {bonus} above the rest: loss {loss:.2f}, perplexity {perplexity(loss):.1f}")

# %% [markdown]
# All logits equal: the perplexity is the size of the vocabulary, here the number of classes in the cell above. Guessing
# costs $\log V$ nats. An untrained model starts a little above that, because its logits differ at random.

# %% [markdown]
# ## 1.8 Training
#
# One epoch shows the model every batch once. For each: forget the old gradients,
# compute the loss, backpropagate, clip, step. **Clipping** shortens the whole gradient to
# length `clip` when it is longer, so that one odd batch cannot throw the weights away.
#
# Report the mean loss **per token** of the epoch, as the batches saw it. A batch with ten times the tokens counts ten
# times. Use `F.cross_entropy` instead of your 1.7.
#
# **Predict first.** A model sees one letter and guesses the next in `a b a c a b a c ...`.
# Will its loss reach zero?
#
# **Exercise 1.8** (2 points, about 20 minutes, medium). Write `train_epoch`. It may use its
# arguments and nothing else of the notebook.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.utils.clip_grad_norm_`. `F.cross_entropy` wants `(N, V)` and `(N,)`; it has
# `ignore_index`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `backward` adds to the gradients that are already there.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# train mode; for each batch: loss, zero_grad, backward, clip, step, and remember
# loss times number of real tokens; return the sum divided by all real tokens.
# </details>


# %%
predict("1.8", "b", a="yes", b="no, however long it trains", c="yes, with more layers")


# %% exercise="1.8"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    """Train `model` on each batch once and return the mean loss per token, a float. Earlier gradients take no part.

    Args:
        batches: any iterable of (inputs, targets), int64 (B, T), on the model's device; it can be read once.
        optimizer: one of torch's whose `step()` needs no closure, over all parameters of `model`.
        clip: the largest norm that the gradient of all parameters together may have.
        pad_id: the target that does not count.
    """
    ### BEGIN SOLUTION
    model.train()
    total, count = 0.0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        tokens = (targets != pad_id).sum().item()
        total, count = total + loss.item() * tokens, count + tokens
    return total / count
    ### END SOLUTION


# %% check="1.8"
checks.train_epoch(train_epoch)

# %%
letters = torch.tensor([[4, 5, 4, 6] * 4 + [4]])  # a b a c ...
toy = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
steps = torch.optim.Adam(toy.parameters(), lr=0.1)
losses = [train_epoch(toy, [(letters[:, :-1], letters[:, 1:])], steps, clip=1.0) for _ in range(60)]
plots.curves(
    {"loss": losses, "half of log 2": [math.log(2) / 2] * 60},
    xlabel="epoch",
    ylabel="nats per token",
    alt="The training loss falls and stays on the line at half of log 2.",
)

# %% [markdown]
# After *b* or *c* comes *a*, for certain. After *a* comes *b* or *c*, and one letter of
# memory cannot tell which: half of the guesses cost $\log 2$. A model that sees only the last
# letter cannot go below half of $\log 2$ in the mean, however long it is trained. One that sees
# two letters could reach zero: after *ba* comes *c*, after *ca* comes *b*.

# %% [markdown]
# ## 1.9 Writing
#
# To write, ask for the next token, append it, ask again. Always taking the best one is
# safe and dull. **Temperature** $\tau$ and **top-k** choose how much to dare:
#
# $$p(\mathrm{next}) \propto \exp(\mathrm{logit} / \tau)
# \quad\text{among the } k \text{ best.}$$
#
# Temperature 0 means: take the best. Writing needs evaluation mode (no dropout) and no
# gradients. Draw with torch's generator, each token on its own: then `torch.manual_seed` decides
# the text, and the next call writes another one. Python's `random` and NumPy do not obey it.
#
# **Predict first.** What does a very high temperature do to the choice among the $k$
# best?
#
# **Exercise 1.9** (2 points, about 25 minutes, medium). Write `generate`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.topk` gives values and indices, best first; `torch.multinomial` draws from
# probabilities.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The logits at the **last** position are about the next token. The model needs the whole
# text so far, as a batch of one.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# repeat max_new times: logits of the last position; keep the k best; if the temperature
# is 0 take the first, else draw; append; stop after eos_id.
# </details>


# %%
predict("1.9", "b", a="the best one always wins", b="all k become equally likely", c="the worst one wins")


# %% exercise="1.9"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    """Continue `prompt` by at most `max_new` tokens, and stop after writing `eos_id` (in the prompt it ends nothing).

    Args:
        model: from token numbers (1, T), on the device of its parameters, to logits (1, T, V). It may be left in
            evaluation mode.
        prompt: list of token numbers, at least one. It stays as it is.
        temperature: the logits are divided by it; 0 takes the best token.
        top_k: draw among that many best tokens; None, or more than there are: among all.

    Returns:
        the prompt and the new tokens, as one list of numbers. What is drawn depends on torch's generator alone, whose
        state moves with each draw.
    """
    ### BEGIN SOLUTION
    model.eval()
    device, numbers = next(model.parameters()).device, list(prompt)
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers
    ### END SOLUTION


# %% check="1.9"
checks.generate(generate)

# %%
always = toys.TableModel([[2.0, 1.0, 0.0, -1.0]])  # the same four logits, whatever came before
shares = {}
for temperature in (0.5, 1.0, 2.0, 100.0):
    drawn = torch.tensor(generate(always, [0], 300, temperature, eos_id=-1)[1:])
    shares[f"temperature {temperature:g}"] = (drawn.bincount(minlength=4) / len(drawn)).tolist()
plots.bars(
    shares,
    labels=["best", "second", "third", "last"],
    xlabel="token, by its logit",
    ylabel="share of draws",
    alt="Bars: at low temperature the best token takes nearly all draws, at high temperature all four are equal.",
)

# %% [markdown]
# At a high temperature the scores hardly matter: all tokens that top-k leaves become nearly equally likely. At a low
# one nearly all of the probability goes to the best token.
#
# **Play.** Move the sliders. Which of them can make a token impossible, and which only rare?

# %%
endings, scores = ["mat", "sofa", "roof", "moon", "idea", "of"], [3.0, 2.4, 1.6, 0.4, -0.6, -2.0]
cat = toys.TableModel([scores])

# %%


def drawn_endings(temperature, top_k):
    drawn = torch.tensor(generate(cat, [0], 400, temperature, top_k, eos_id=-1)[1:])
    shares = {"drawn": (drawn.bincount(minlength=6) / len(drawn)).tolist()}
    alt = f"Words after 'the cat sat on the': 400 draws at temperature {temperature} from the {top_k} best."
    found = plots.bars(shares, labels=endings, xlabel="the cat sat on the ...", ylabel="share of draws", alt=alt)
    found.axes[0].set_ylim(0, 1)
    return found


interactive(
    drawn_endings, temperature=[0.1, 0.3, 0.6, 1.0, 1.5, 2.5, 5.0], top_k=[6, 4, 2, 1], start={"temperature": 1.0}
)

# %% [markdown]
# ## 1.10 Better than counting?
#
# A perplexity says little by itself: is the model better than one that only counts? The **unigram** model knows how
# often each token $w$ occurs, $c(w)$ times in $N$. The **bigram** model knows how often $w$ follows a token $v$,
# $c(v, w)$ times in $c(v)$. Most pairs never occur, and a single zero would make the perplexity infinite. So counts are
# **smoothed**:
#
# $$p(w) = \frac{c(w) + 1}{N + V}, \qquad p(w \mid v) = \frac{c(v, w) + a\, p(w)}{c(v) + a}.$$
#
# Only targets that are not padding are counted: $w$ is the target, $v$ the input at its
# position. Both models return logarithms, which serve as logits.
#
# **Predict first.** What does the bigram model say after a token that it has never seen?
#
# **Exercise 1.10** (3 points, about 30 minutes, hard). Write `unigram` and `bigram`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.bincount(minlength=...)` counts whole numbers. A pair of numbers below $V$ is one number
# below $V^2$.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `counts[targets] += 1` adds only one to each token, however often it occurs.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# all inputs and all targets in two long rows; keep the positions whose target is not pad; pairs =
# counts of input times V plus target, V by V; add a times the unigram's shares to each row, divide by the
# sum of the row plus a; logarithm.
# </details>


# %%
predict(
    "1.10",
    "c",
    a="nothing: every token has probability 0",
    b="that all tokens are equally likely",
    c="what the unigram model says",
)


# %% exercise="1.10"
def unigram(batches, vocab_size, pad_id=1):
    """Log-probabilities of the next token, whatever came before: float, (vocab_size,), on the batches' device.

    Args:
        batches: a list of (inputs, targets), int64 (B, T); lengths differ from batch to batch.
        vocab_size: here up to 100,000, for which a table of pairs is too large.
        pad_id: the target that does not count.
    """
    ### BEGIN SOLUTION
    targets = torch.cat([targets.flatten() for _, targets in batches])
    counts = targets[targets != pad_id].bincount(minlength=vocab_size)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()
    ### END SOLUTION


def bigram(batches, vocab_size, a=30, pad_id=1):
    """Log-probabilities of the next token after each: float, (vocab_size, vocab_size), row v for the token after v.

    `a`, above 0, is how many counts the unigram model's shares are worth.
    """
    ### BEGIN SOLUTION
    inputs, targets = (torch.cat([batch[part].flatten() for batch in batches]) for part in (0, 1))
    real = targets != pad_id
    pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))
    shares = unigram(batches, vocab_size, pad_id).exp()
    return ((pairs + a * shares) / (pairs.sum(dim=1, keepdim=True) + a)).log()
    ### END SOLUTION


# %% check="1.10"
checks.counting(unigram, bigram)

# %%
letters = torch.tensor([[4, 5, 4, 6] * 4 + [4]])  # a b a c ...
inputs, targets = letters[:, :-1], letters[:, 1:]
tables = {
    "unigram": unigram([(inputs, targets)], 7).expand(7, 7),
    "bigram": bigram([(inputs, targets)], 7, a=0.1),
}
for name, table in tables.items():
    print(f"{name}: loss {lm_loss(table[inputs], targets, PAD):.2f}; half of log 2 is {math.log(2) / 2:.2f}")

# %%
plots.heatmaps(
    {name: table.exp()[4:, 4:] for name, table in tables.items()},
    labels=list("abc"),
    xlabel="next letter",
    ylabel="letter before",
    alt="Two heat maps of shares: all rows alike for the unigram model; after b and c only a for the bigram model.",
)

# %% [markdown]
# Without any training, counting pairs gets as low as the model of 1.8. After a token that it has never seen, the bigram
# model predicts the same as the unigram model. On real text you will see what is left to learn.

# %% [markdown]
# ## Experiment: pretraining, with and without the mask
#
# The text is documentation: sentences from the docstrings of Python and of the libraries installed here, in lower case,
# with words and punctuation separated. `COURSE_PROFILE` decides the size: `smoke` (seconds), `cpu` (minutes) or `gpu`.
# The validation sentences come from other source files than the training sentences.
#
# <!-- box: size gpu -->

# %% tags=["experiment"]
device = profiles.device()
size = profiles.pick(
    smoke=dict(sentences=600, tokens=400, width=32, layers=2, max_len=48, batch=16, epochs=8, lr=5e-3),
    cpu=dict(sentences=20_000, tokens=4_000, width=96, layers=2, max_len=40, batch=64, epochs=4, lr=2e-3),
    gpu=dict(sentences=None, tokens=8_000, width=200, layers=4, max_len=64, batch=128, epochs=6, lr=1e-3),
)
libraries = profiles.pick(smoke=["python"], cpu=documentation.installed()[:5], gpu=documentation.installed())
train, valid = documentation.train_and_validation(size["sentences"], libraries)
print(f"{profiles.name()} on {device}: {len(train)} sentences to train on, {len(valid)} to validate")
print(*train[:3], sep="\n")

# %% [markdown]
# If tokens are words, each word that is not among the most frequent ones becomes `<unk>`. A model that has read `<unk>`
# also writes it. **Sub-words** avoid that. Byte-pair encoding (Sennrich et al. 2016) begins with letters and joins the
# most frequent pair of neighbours, again and again, until the vocabulary is full. `Subwords` learns the pieces from the
# training sentences, with the tokenizers library; it has the methods of your `Vocabulary`, so your `make_batch` works
# with both. A piece that starts with `▁` begins a word.

# %% tags=["experiment"]
vocab = subwords.Subwords(train, size["tokens"], SPECIAL)
for name, one in (("words", Vocabulary(train, size["tokens"])), ("sub-words", vocab)):
    numbers = [number for sentence in valid for number in one.encode(sentence)]
    words = sum(len(sentence.split()) for sentence in valid)
    unknown = numbers.count(UNK) / len(numbers)
    print(f"{len(one)} {name}: {len(numbers) / words:.2f} tokens a word, {unknown:.1%} of them unknown")

# %% tags=["experiment"]
print(*(vocab.words[number] for number in vocab.encode("untrained optimizers hallucinate .")))


# %% tags=["experiment"]
def batches(sentences):
    chunks = training.by_length(sentences, size["batch"])
    return [[part.to(device) for part in make_batch(chunk, vocab, size["max_len"])] for chunk in chunks]


train_batches, valid_batches = batches(train), batches(valid)
print(f"{len(vocab)} entries, {len(train_batches)} batches")


# %% tags=["experiment"]
@torch.no_grad()
def evaluate(model, batches):
    """The mean loss per token, without training."""
    model.eval()
    counts = [(targets != PAD).sum().item() for _, targets in batches]
    losses = [lm_loss(model(inputs), targets, PAD).item() for inputs, targets in batches]
    return sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)


# %% tags=["experiment"]
def pretrain(causal, seed=1):
    """Train one model; return it with its training and validation losses, epoch by epoch."""
    training.seed_everything(seed)
    shape = dict(d_model=size["width"], n_heads=2, d_ff=size["width"], n_layers=size["layers"])
    model = LanguageModel(len(vocab), **shape, dropout=0.0, causal=causal).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=size["lr"])
    seen, unseen = [], []
    for epoch in training.progress(range(size["epochs"]), "with the mask" if causal else "without the mask"):
        seen.append(train_epoch(model, training.shuffled(train_batches, seed=epoch), optimizer, clip=1.0))
        unseen.append(evaluate(model, valid_batches))
    return model, seen, unseen


# %% [markdown]
# First, something to compare with: the perplexity on the validation sentences if all tokens are equally likely,
# and that of the two models that count. A table with a row of logits for each token is an embedding, so `evaluate`
# takes it like any model.
#
# **Predict first.** Three numbers: unigram, bigram, and your Transformer after its training.

# %% tags=["experiment"]
counting = {
    "unigram": nn.Embedding.from_pretrained(unigram(train_batches, len(vocab)).expand(len(vocab), -1)),
    "bigram": nn.Embedding.from_pretrained(bigram(train_batches, len(vocab))),
}
baselines = {name: evaluate(table, valid_batches) for name, table in counting.items()}
print(f"equal chances: perplexity {len(vocab)}")
for name, loss in baselines.items():
    print(f"{name}: perplexity {perplexity(loss):.0f}")

# %% tags=["experiment"]
model, seen, unseen = pretrain(causal=True)
print(f"validation perplexity {perplexity(unseen[-1]):.0f}, at its best {perplexity(min(unseen)):.0f}")
plots.curves(
    {"training": seen, "validation": unseen} | {name: [loss] * len(seen) for name, loss in baselines.items()},
    xlabel="epoch",
    ylabel="nats per token",
    alt="Training and validation loss of the language model, epoch by epoch; two lines for unigram and bigram.",
)

# %% [markdown]
# At size `smoke` counting pairs wins: the text is too short for a Transformer to learn more from it. At size `cpu` the
# Transformer passes the bigram model, because it reads more than the last token. Where the training loss keeps falling
# and the validation loss does not, the model memorises its sentences. A perplexity is per token, so it compares only
# models with the same tokens.
#
# Let both models write. Greedy text repeats the phrases that documentation repeats; sampled text is livelier, and less
# often grammatical.

# %% tags=["experiment"]
torch.manual_seed(0)
for start in ("return the", "this function", "if the"):
    prompt = [SOS, *vocab.encode(start)]
    print("bigram:", vocab.decode(generate(counting["bigram"], prompt, 20, temperature=0.8, top_k=20)[1:]))
    print("greedy:", vocab.decode(generate(model, prompt, 20, temperature=0)[1:]))
    print("drawn: ", vocab.decode(generate(model, prompt, 20, temperature=0.8, top_k=20)[1:]), end="\n\n")

# %% [markdown]
# What do the heads look at? One row per query. There is nothing above the diagonal, and often a head reads the token
# itself or the previous one.

# %% tags=["experiment"]
sentence = min(valid, key=lambda text: abs(len(vocab.encode(text)) - 9))
inputs, _ = make_batch([sentence], vocab, size["max_len"])
pieces = [vocab.words[number] for number in inputs[0].tolist()]
maps = training.attention_maps(model, inputs.to(device))  # one (B, n_heads, T, T) per layer
ends = {"first": 0, "last": -1}
plots.heatmaps(
    {f"{place} layer, head {head + 1}": maps[layer][0, head] for place, layer in ends.items() for head in (0, 1)},
    labels=pieces,
    alt="Attention maps of two heads in the first and in the last layer, all zero above the diagonal.",
)

# %% [markdown]
# Now the same model without the mask. Predict its loss before you run the cell.

# %% tags=["experiment"]
cheat, cheat_seen, cheat_unseen = pretrain(causal=False)
plots.curves(
    {
        "training, mask": seen,
        "validation, mask": unseen,
        "training, no mask": cheat_seen,
        "validation, no mask": cheat_unseen,
    },
    xlabel="epoch",
    ylabel="nats per token",
    alt="Four loss curves: without the mask, training and validation loss are far below those with it.",
)

# %% tags=["experiment"]
torch.manual_seed(0)
print(f"validation perplexity without the mask: {perplexity(cheat_unseen[-1]):.2f}")
print("it writes:", vocab.decode(generate(cheat, [SOS, *vocab.encode("return the")], 20, temperature=0.8)[1:]))
cheat.causal = True  # the same weights, but the future is hidden
print(f"the same model, future hidden: {perplexity(evaluate(cheat, valid_batches)):.0f}")
cheat.causal = False

# %% tags=["experiment"]
maps = training.attention_maps(cheat, inputs.to(device))
plots.heatmaps(
    {
        f"no mask, {place} layer, head {head + 1}": maps[layer][0, head]
        for place, layer in ends.items()
        for head in (0, 1)
    },
    labels=pieces,
    alt="Attention maps of the model without a mask: some rows are bright just right of the diagonal.",
)

# %% [markdown]
# The loss is just as low on sentences that the model has never seen, so it has not simply memorised the training
# sentences. Look at where the bright cells are.
#
# **Question 1.W1** (2 points). In four to eight sentences: why does a language model need the mask
# in training? What did the model without it learn, and what in your curves, maps and
# generated text shows it? Why does its low loss not help it to write?

# %% [markdown] written="1.W1" points=2
# ### BEGIN SOLUTION
# All positions of a sentence are trained at once, and the target of position $t$ is the input at
# position $t+1$. Without the mask, attention can read that input, so the answer is part of the question.
# The model without the mask learned to copy: attend one position to the right and repeat what is there.
# It shows in the attention maps, which are bright one step right of the diagonal; in the loss, which
# falls towards zero on training and validation sentences alike; and in the same weights with the future
# hidden, whose perplexity is worse than that of the model trained with the mask.
# When it writes, there is no token to the right to copy: it is asked for something it never had
# to learn, the distribution of the next word given the past, so its text is junk. A loss is only worth
# something if it is measured on the task that the model will have to do.
# === BEGIN MARK SCHEME ===
# One point: the target at a position is the next input, so attention without a mask lets the model see
# the answer; it learns to copy the token to its right, not to predict.
# One point: evidence and consequence. Any one observation (loss near zero on validation text as well,
# bright cells right of the diagonal, perplexity with the future hidden, junk text) and the reason that
# writing fails: at generation time the future does not exist, so there is nothing to copy.
# No point for "overfitting" or "it memorised the training set": the validation loss is just as low.
# Half a point off if the answer says that the mask is needed at generation time only.
# === END MARK SCHEME ===
# ### END SOLUTION

# %%
scoreboard(checks)
