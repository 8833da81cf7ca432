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
# # 13. Into another language
#
# The transformer was made for translation (Vaswani et al. 2017): an encoder reads a sentence, and a decoder writes its
# translation, word by word, with attention to the source. Here you build what the earlier notebooks left out: attention
# to another sentence, the decoder's layer, its loss, a search for the best translation, and BLEU to score it.
#
# Then you add a frozen BERT: BERT-fused NMT (Zhu et al. 2020). You measure whether it helps when there are few pairs.
#
# Each exercise is checked on the spot. In grading, private checks ask the same with other sizes, larger than those
# here, other numbers, dtypes, memory layouts and orders of calls. Your functions never change their arguments, and
# writing into one result changes no later result. A call must not change torch's default dtype (float32) or device, nor
# whether gradients are recorded. It may change the global random generators only by drawing from them, and only if the
# exercise draws. The exercises take about three hours, not counting the written questions, and need no GPU; but your
# answers must also work on one, and in double precision: create tensors on the device and with the dtype of your
# arguments.

# %% tags=["setup"]

# %%
import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

from utils import block_diagrams, plots
from utils.checks import nb13_translation as checks
from utils.experiments import profiles, student
from utils.experiments import translation as arms
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across, listed
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 13.9 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 13.1 Look at another sentence
#
# In self-attention queries, keys and values come from one sequence. In **cross-attention** the queries come from $x$,
# the text being written, and keys and values come from a **memory**, the text that was read:
#
# $$\text{softmax}\!\left(\frac{(xW_q)(mW_k)^\top}{\sqrt{d_{\text{head}}}}\right) (mW_v).$$
#
# The memory has its own length $S$, and may have its own width. Each row of weights is a distribution over the
# positions of the memory. Padding in the memory must not be read: `allowed` is true at the places that may be read.
#
# **Predict first.** $x$ has 4 tokens, and the memory has 7. Which shapes do the weights of a head and the output have?
#
# **Exercise 13.1** (2 points, about 20 minutes, medium). Write `CrossAttention`, without torch's `MultiheadAttention`
# and its function.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.unflatten(-1, (n_heads, -1)).transpose(1, 2)`; `masked_fill(~allowed, -torch.inf)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `allowed` has no axis for the heads. Unless you insert one in the right place, its batch axis is broadcast against the
# heads.
# </details>


# %%
predict(
    "13.1",
    "a",
    a="4 rows and 7 columns; 4 tokens",
    b="7 rows and 4 columns; 7 tokens",
    c="4 rows and 4 columns; 4 tokens",
)


# %% exercise="13.1"
class CrossAttention(nn.Module):
    """Attention of x (B, T, d_model) to a memory (B, S, d_memory), in `n_heads` blocks of columns -> (B, T, d_model).

    Parts, all nn.Linear with a bias: `q_proj`, from d_model to d_model; `k_proj` and `v_proj`, from d_memory to
    d_model; `out_proj`, from d_model to d_model. The state_dict holds nothing else. No dropout, no residual, no norm.
    n_heads divides d_model. No call depends on the calls before.
    """

    def __init__(self, d_model, n_heads, d_memory):
        super().__init__()
        ### BEGIN SOLUTION
        self.n_heads = n_heads
        self.q_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.k_proj, self.v_proj = nn.Linear(d_memory, d_model), nn.Linear(d_memory, d_model)
        ### END SOLUTION

    def forward(self, x, memory, allowed=None):  # (B, T, d_model), (B, S, d_memory) -> (B, T, d_model)
        """`allowed`: None, all may be read; or bool (B or 1, T or 1, S), True where x may read.

        In every row something may be read. The rest has no weight, whatever its score. Scores may lie ten thousand
        above or below 0, and more.
        """

        ### BEGIN SOLUTION
        def heads(y):
            return y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, n, d) -> (B, n_heads, n, d_head)

        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(memory)), heads(self.v_proj(memory))
        scores = q @ k.mT / q.size(-1) ** 0.5
        if allowed is not None:
            scores = scores.masked_fill(~allowed.unsqueeze(1), -torch.inf)
        mixed = scores.softmax(-1) @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(-2))
        ### END SOLUTION


# %% check="13.1"
checks.cross_attention(CrossAttention)

# %%
torch.manual_seed(0)
layer, x, memory = CrossAttention(8, 1, 6), torch.randn(1, 4, 8), torch.randn(1, 7, 6)
allowed = torch.tensor([[[True] * 5 + [False] * 2]])  # the last two places are padding
scores = layer.q_proj(x) @ layer.k_proj(memory).mT / 8**0.5
weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)[0]

# %%
alt = "Weights of four tokens over seven places of a memory: every row sums to one, and the last two columns are zero."
plots.heatmaps({"weights": weights}, alt=alt, xlabel="place of the memory", ylabel="token of x")

# %% [markdown]
# The weights are a table of 4 rows and 7 columns, and the output is as long as $x$. Padding gets a weight of exactly
# zero: its content does not change the output.

# %% [markdown]
# ## 13.2 The decoder's layer
#
# A decoder layer has three parts, each followed by a residual connection and a norm:
#
# $$a = \text{norm}_1(x + \text{self}(x)), \quad b = \text{norm}_2(a + \text{cross}(a, m)), \quad
# \text{norm}_3(b + W_2\,\text{relu}(W_1 b)).$$
#
# Self-attention reads the words written so far: it is **causal**. Cross-attention reads all of the memory $m$: the
# source is known from the start, and only its padding is hidden. Dropout is applied to the output of each part, before
# the sum.

# %% tags=["experiment"]
block_diagrams.show("translator")

# %% [markdown]
# **Predict first.** What would happen in training without the causal mask? And what would happen in translation, where
# the next word is not known yet?
#
# **Exercise 13.2** (3 points, about 20 minutes, medium). Write `DecoderLayer`. It is given two attentions like that of
# 13.1.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.ones(T, T, dtype=torch.bool, device=x.device).tril()`; self-attention is cross-attention to x itself.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# There are two masks. The causal one is (T, T), belongs to self-attention, and needs an axis for the batch; `allowed`
# belongs to the memory.
# </details>


# %%
predict(
    "13.2",
    "b",
    a="the loss would rise; good translations",
    b="the loss would fall to almost nothing; bad translations",
    c="nothing; nothing",
)


# %% exercise="13.2"
class DecoderLayer(nn.Module):
    """A post-norm decoder layer with ReLU, (B, T, d_model) -> (B, T, d_model).

    Parts: `self_attention` and `cross_attention`, the modules that are given, called as in 13.1 with x, a memory and
    `allowed`, a bool tensor of three axes, in their own mode; `linear1`, to d_ff, and `linear2`, back, each nn.Linear
    with a bias; `norm1`, `norm2`, `norm3`, each nn.LayerNorm as it is by itself. The state_dict holds nothing else, and
    each part once. Dropout of p = `dropout`, from 0 to 1, is on what each of the three parts gives, nowhere else, with
    a draw for each number. x may be of any length, and of another one in the next call.
    """

    def __init__(self, self_attention, cross_attention, d_model, d_ff, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attention, self.cross_attention = self_attention, cross_attention
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x, memory, allowed=None):  # (B, T, d_model), (B, S, d_memory) -> (B, T, d_model)
        """memory (B, S, any width); `allowed`: of the memory, None or bool (B or 1, T or 1, S), as in 13.1."""
        ### BEGIN SOLUTION
        past = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()[None]
        x = self.norm1(x + self.dropout(self.self_attention(x, x, past)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, allowed)))
        return self.norm3(x + self.dropout(self.linear2(self.linear1(x).relu())))
        ### END SOLUTION


# %% check="13.2"
checks.decoder_layer(DecoderLayer)

# %%
torch.manual_seed(0)
layer = DecoderLayer(CrossAttention(16, 2, 16), CrossAttention(16, 2, 16), 16, 32, dropout=0.0)
x, memory = torch.randn(1, 6, 16), torch.randn(1, 6, 16)
moved = {"word": torch.zeros(6, 6), "place of the memory": torch.zeros(6, 6)}
for place in range(6):
    other_x, other_memory = x.clone(), memory.clone()
    other_x[:, place] += 1
    other_memory[:, place] += 1
    moved["word"][:, place] = (layer(other_x, memory) - layer(x, memory)).norm(dim=-1)[0].detach()
    moved["place of the memory"][:, place] = (layer(x, other_memory) - layer(x, memory)).norm(dim=-1)[0].detach()

# %%
alt = "How far each output moves when one word, or one place of the memory, is changed: words move only outputs at "
alt += "their own place and later, places of the memory move all of them."
plots.heatmaps(moved, alt=alt, xlabel="what is changed", ylabel="output", limits=None)

# %% [markdown]
# A word changes only the outputs at its own place and later. The memory changes all outputs. Without the mask, the loss
# in training would fall to almost nothing, since the next word is in the input, one place later. Translations would be
# bad, since there it is not in the input.

# %% [markdown]
# ## 13.3 Three tables
#
# Pairs of sentences, as token numbers, become three tables. The encoder reads the **source**, with EOS at its end. The
# decoder reads the target **shifted by one**: with BOS first, so that at each place it has seen only the words before.
# It should predict the **target** with EOS at its end:
#
# | | 0 | 1 | 2 |
# |---|---|---|---|
# | decoder reads | BOS | le | chat |
# | decoder should predict | le | chat | EOS |
#
# **Predict first.** What does a model learn if its input is the target itself, not shifted?
#
# **Exercise 13.3** (1 point, about 10 minutes, easy). Write `translation_batch`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)`, which needs tensors; an empty list becomes a
# tensor of floats.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# If you pad before you shift, EOS ends up after the padding.
# </details>


# %%
predict("13.3", "c", a="to translate, only sooner", b="nothing", c="to copy")


# %% exercise="13.3"
def translation_batch(pairs, bos, eos, pad):
    """Source (B, S), decoder's input (B, T) and target (B, T), int64, each filled up on the right with `pad`.

    pairs: one or more of (source, target), lists of token numbers, small or large, which may be empty and stay as they
    are. bos, eos and pad: three numbers that differ and are in no list. S and T are as long as the longest row needs.
    Returns three tensors, on the CPU, in a tuple or a list.
    """
    ### BEGIN SOLUTION
    sources = [[*source, eos] for source, _ in pairs]
    inputs = [[bos, *target] for _, target in pairs]
    targets = [[*target, eos] for _, target in pairs]

    def padded(rows):
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [pad] * (longest - len(row)) for row in rows])

    return padded(sources), padded(inputs), padded(targets)
    ### END SOLUTION


# %% check="13.3"
checks.translation_batch(translation_batch)

# %% tags=["experiment"]
from data import parallel

LANGUAGE = "fr"  # any that CLDR knows: "de", "es", "tr", "sw", "ja"
for english, other in parallel.load("cldr", "test", 5, LANGUAGE):
    print(" ".join(english), "|", " ".join(other))

# %% [markdown]
# These pairs are made from Babel's data on dates, times, places and amounts in each language (Unicode's CLDR): small,
# free, and already on your machine. A decoder that reads its own target learns only to copy it.

# %% [markdown]
# ## 13.4 Not too sure
#
# **Label smoothing** asks the model to reserve a little probability for every other word. With a vocabulary of $V$
# words, the right word should get $1 - \varepsilon + \varepsilon / V$, and every other word $\varepsilon / V$:
#
# $$q_i = (1 - \varepsilon)\, [i = y] + \frac{\varepsilon}{V}, \qquad \text{loss} = -\sum_i q_i \log p_i,$$
#
# averaged over all targets that are not padding. It makes the loss itself worse, and BLEU often better (Vaswani et al.
# 2017, section 5.4).
#
# **Predict first.** What is the lowest loss that a model can have, and with which probabilities?
#
# **Exercise 13.4** (2 points, about 15 minutes, medium). Write `smoothed_loss`, without torch's own loss functions.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `log_softmax(-1)`; `gather(-1, targets.unsqueeze(-1))`; the mean over V of all log-probabilities.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Divide by the number of targets that count, not by B times T.
# </details>


# %%
predict(
    "13.4",
    "b",
    a="0, where the right word has probability 1",
    b="the entropy of q, where the probabilities are q",
    c="log V, where all are equal",
)


# %% exercise="13.4"
def smoothed_loss(logits, targets, eps, pad):  # (B, T, V), (B, T) -> ()
    """The mean cross-entropy, in nats, with smoothed targets, over those that are not `pad`: a tensor with one number.

    logits (B, T, V), targets (B, T) int64, eps from 0 to 1. At least one target is not `pad`, which is itself one of
    the V numbers. Logits may be large. The result has shape () or only axes of size 1; its dtype is that of the logits,
    to which gradients flow. Many terms lose digits if they are added up in half precision.
    """
    ### BEGIN SOLUTION
    log_p = logits.log_softmax(-1)
    right = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - eps) * right - eps * log_p.mean(-1)
    return losses[targets != pad].mean()
    ### END SOLUTION


# %% check="13.4"
checks.smoothed_loss(smoothed_loss)

# %%
V, ahead = 1000, torch.linspace(0, 16, 33)
series = {}
for eps in (0.0, 0.1, 0.3):
    logits = torch.zeros(len(ahead), 1, V)
    logits[:, 0, 7] = ahead
    one = torch.tensor([[7]])
    series[f"eps {eps}"] = [smoothed_loss(row[None], one, eps, 0).item() for row in logits]
lowest = {name: f"{min(values):.2f} at {ahead[values.index(min(values))]:.1f}" for name, values in series.items()}
print(lowest)

# %%
alt = "The loss against how far the right logit is ahead: without smoothing it falls to zero, with smoothing it has a "
alt += "minimum and rises again."
plots.curves(series, x=ahead.tolist(), xlabel="right logit, ahead of all others", ylabel="loss, nats", alt=alt)

# %% [markdown]
# The lowest loss is the entropy of the smoothed target, not 0: it is reached when the model's probabilities are $q$. A
# model that is surer than that pays for it. So losses with different $\varepsilon$ cannot be compared.

# %% [markdown]
# ## 13.5 How good is it?
#
# **BLEU** (Papineni et al. 2002) counts n-grams of 1 to 4 words. $p_n$ is the share of the translations' n-grams that
# are in their references, each counted **at most as often as it occurs there**. Both counts are sums **over the whole
# corpus**, and so are the lengths $c$ of the translations and $r$ of the references:
#
# $$\text{BLEU} = 100\, \min\!\left(1, e^{1 - r / c}\right) \left(p_1 p_2 p_3 p_4\right)^{1/4}.$$
#
# The first factor, the brevity penalty, stands in for recall, which BLEU does not measure.
#
# **Predict first.** Can the BLEU of a corpus be higher than that of each of its sentences?
#
# **Exercise 13.5** (3 points, about 25 minutes, hard). Write `bleu`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Counter(zip(*(words[i:] for i in range(n))))` counts n-grams; `a & b` of two counters has the smaller counts.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Avoid the logarithm of 0 and a division by 0: if no n-gram of an order matches, BLEU is 0.
# </details>


# %%
predict("13.5", "a", a="yes", b="no")


# %% exercise="13.5"
def bleu(hypotheses, references):
    """BLEU of a corpus, a float from 0 to 100; 0.0 where some order of n-grams has no match, or there are no n-grams.

    hypotheses, references: lists of as many sentences, each a list of words, which may be empty. One or more
    sentences. Words match that are equal, letter by letter, as they are: capitals, accents and punctuation count. No
    word is empty or has blanks. No smoothing. The lists stay as they are.
    """
    ### BEGIN SOLUTION
    matches, totals = [0] * 4, [0] * 4
    for hypothesis, reference in zip(hypotheses, references):
        for n in range(1, 5):
            mine, right = (Counter(zip(*(words[i:] for i in range(n)))) for words in (hypothesis, reference))
            matches[n - 1] += (mine & right).total()
            totals[n - 1] += mine.total()
    if 0 in matches:
        return 0.0
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    precision = math.exp(sum(math.log(m / t) for m, t in zip(matches, totals)) / 4)
    return 100 * min(1.0, math.exp(1 - r / c)) * precision
    ### END SOLUTION


# %% check="13.5"
checks.bleu(bleu)

# %%
reference = "on monday she buys three small apples at the market".split()
for text in (
    "on monday she buys three small apples at the market",
    "on monday she buys three small apples",
    "on monday she buys three small pears at the market",
    "at the market she buys three small apples on monday",
    "she purchases a trio of little apples at the bazaar",
):
    print(f"{bleu([text.split()], [reference]):6.1f}  {text}")

# %%
pairs = [("a b c d e f g h", "a b c d e f g h"), ("a x c y", "a b c d")]
hypotheses, references = ([one.split() for one in side] for side in zip(*pairs))
each = [bleu([one], [other]) for one, other in zip(hypotheses, references)]
print("sentences:", [round(score, 1) for score in each], "mean:", round(sum(each) / 2, 1))
print("corpus:", round(bleu(hypotheses, references), 1))

# %% [markdown]
# BLEU is not a mean over sentences: a sentence without a match of four words scores 0 by itself but still adds to the
# corpus. Corpus BLEU can be higher than that of every sentence, if one sentence is too short and another too long. And
# the last line shows its limit: synonyms do not count.
#
# For scale: Vaswani et al. (2017) trained on 4.5 million pairs from English to German and on 36 million to French.
# Their big model trained for three and a half days on eight P100 GPUs, and has BLEU 28.4 and 41.8 on newstest2014
# (table 2).

# %% [markdown]
# ## 13.6 Not the next word, the best sentence
#
# The most likely first word need not begin the most likely sentence. **Beam search** keeps several beginnings open.
# Each step ranks all their continuations together, by summed log-probability, and keeps the best `beams`: those with
# EOS are **finished**, the others stay open. The search stops when none is open or at least `beams` have finished; open
# ones are then dropped. After `max_len` tokens, open ones count as finished.
#
# Longer sentences have lower sums. So a sentence finished after $n$ tokens, EOS included, is scored by (Wu et al. 2016)
#
# $$\text{score} = \frac{\sum \log p}{\left((5 + n) / 6\right)^{\alpha}}.$$
#
# **Predict first.** How does the length of translations change with many beams and $\alpha = 0$?
#
# **Exercise 13.6** (3 points, about 45 minutes, hard). Write `beam_search`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `scores.flatten().topk(k)`; `divmod(place, V)` gives the beginning and the token.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `topk` fails if there are fewer than k numbers. And the penalty is used only once, at the end, to rank finished
# sentences.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# open = [([bos], 0)]; for n in 1..max_len: scores = step(beginnings) + sums; take the best beams; EOS or n = max_len:
# finished, with the penalty of n; else open; stop if none is open or enough have finished; the best of the finished.
# </details>


# %%
predict("13.6", "b", a="longer", b="shorter", c="the same")


# %% exercise="13.6"
def beam_search(step, bos, eos, beams, max_len, alpha):
    """The finished hypothesis with the best score: its tokens, a list of ints, and the score, a float.

    The tokens are without the `bos` in front and the `eos` at the end, which differ; `bos` may come again, as others.
    step: a function from beginnings, a list of k lists of token numbers, equally long, each with `bos` first, to the
    log-probabilities of the next token, a tensor (k, V), float32 or float64, maybe on a GPU. It stays as it is. Its
    numbers may be as far below 0 as float32 reaches, or 0, but not -inf.
    Sums and the score are in float64, and no two sums are equal. beams and max_len are 1 or more, and there may be
    fewer continuations than beams. After `max_len` tokens what is open is finished with n = max_len, however many have
    finished by then.
    """
    ### BEGIN SOLUTION
    opened, finished = [([bos], 0.0)], []
    for n in range(1, max_len + 1):
        sums = torch.tensor([[total] for _, total in opened], dtype=torch.float64)
        scores = step([tokens for tokens, _ in opened]).double().cpu() + sums
        values, places = scores.flatten().topk(min(beams, scores.numel()))
        beginnings, opened = opened, []
        for value, place in zip(values.tolist(), places.tolist()):
            row, token = divmod(place, scores.size(1))
            tokens = beginnings[row][0]
            if token == eos or n == max_len:
                words = tokens[1:] if token == eos else [*tokens[1:], token]
                finished.append((words, value / ((5 + n) / 6) ** alpha))
            else:
                opened.append(([*tokens, token], value))
        if not opened or len(finished) >= beams:
            break
    return max(finished, key=lambda one: one[1])
    ### END SOLUTION


# %% check="13.6"
checks.beam_search(beam_search)

# %%
WORDS = ["<bos>", "<eos>", "the", "a", "cat", "dog"]
NEXT = {  # probabilities of what comes after a word
    "<bos>": {"the": 0.55, "a": 0.45}, "the": {"cat": 0.4, "dog": 0.35, "<eos>": 0.25},
    "a": {"cat": 0.95, "<eos>": 0.05}, "cat": {"<eos>": 0.9, "dog": 0.1}, "dog": {"<eos>": 1.0},
}  # fmt: skip


def step(beginnings):
    rows = [[NEXT[WORDS[tokens[-1]]].get(word, 1e-9) for word in WORDS] for tokens in beginnings]
    return torch.tensor(rows).log()


# %%
for beams, alpha in ((1, 0.0), (2, 0.0), (6, 0.0), (6, 3.0)):
    tokens, score = beam_search(step, 0, 1, beams, 5, alpha)
    print(f"{beams} beams, alpha {alpha}: {' '.join(WORDS[token] for token in tokens)}, score {score:.2f}")

# %% [markdown]
# Greedy search takes "the", the most likely word, and ends with the less likely sentence: $0.55 \cdot 0.4$ is less than
# $0.45 \cdot 0.95$. With $\alpha = 0$ each further word lowers the score, so more beams find shorter sentences; a large
# $\alpha$ reverses this.
#
# **Play.** Which sentences can be found, and with which settings? And how many beams find the best one?

# %%
SENTENCES = ["the", "a", "the cat", "the dog", "a cat", "the cat dog", "a cat dog"]


def score_of(sentence, alpha):
    words = ["<bos>", *sentence.split(), "<eos>"]
    logs = torch.tensor([NEXT[word][after] for word, after in zip(words, words[1:])]).log()
    return logs.sum().item() / ((4 + len(words)) / 6) ** alpha


# %%
def searched(beams, alpha):
    best = " ".join(WORDS[token] for token in beam_search(step, 0, 1, beams, 5, alpha)[0])
    rows = {kind: [score_of(one, alpha) * ((one == best) == (kind == "found")) for one in SENTENCES] for kind in KINDS}
    alt = f"The scores of seven sentences at alpha {alpha}: with {beams} beams '{best}' is found."
    picture = plots.bars(rows, labels=SENTENCES, ylabel="score", stacked=True, alt=alt)
    picture.axes[0].set_ylim(-5, 0)
    return picture


KINDS = ("found", "not found")
interactive(searched, beams=range(1, 7), alpha=[0.0, 0.6, 1.0, 2.0, 3.0])

# %% [markdown]
# ## 13.7 Half BERT
#
# A BERT has read far more text than the translation pairs contain. In **BERT-fused** models, each layer also attends to
# BERT's states $h_B$, and takes the mean of both attentions:
#
# $$a = \text{norm}_1\!\left(x + \tfrac12 \big(\text{self}(x, x, x) + \text{bert}(x, h_B, h_B)\big)\right),$$
#
# with query, key and value in brackets; a feed-forward part follows. The BERT cuts words into its own pieces: $h_B$ has
# another length, so its states do not match the layer's words one to one. Attention learns which belong together. The
# BERT is frozen: no gradient flows back.

# %% tags=["experiment"]
block_diagrams.show("fused")

# %% [markdown]
# **Predict first.** If the queries came from BERT, how long would the output be?
#
# **Exercise 13.7** (3 points, about 20 minutes, medium). Write `BertFusedLayer`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `Tensor.detach`; the memory of `bert_attention` is the BERT's states.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Halve only the sum of the two attentions. The residual x is not halved.
# </details>


# %%
predict("13.7", "b", a="as long as x", b="as long as BERT's row of pieces", c="as long as both together")


# %% exercise="13.7"
class BertFusedLayer(nn.Module):
    """A post-norm encoder layer that also attends to a BERT, (B, T, d_model) -> (B, T, d_model).

    Parts: `self_attention`, of x to itself without a causal mask, and `bert_attention`, the modules that are given,
    called as in 13.1, in their own mode; `linear1`, to d_ff, ReLU, and `linear2`, back, each nn.Linear with a bias;
    `norm1`, `norm2`, each nn.LayerNorm as it is by itself. The state_dict holds nothing else, and each part once.
    Dropout of p = `dropout`, from 0 to 1, is on the mean of both attentions and on what the feed-forward part gives,
    nowhere else, with a draw for each number. No call depends on the calls before.
    """

    def __init__(self, self_attention, bert_attention, d_model, d_ff, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attention, self.bert_attention = self_attention, bert_attention
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x, bert, allowed=None, bert_allowed=None):  # (B, T, d_model), (B, L, d_bert) -> (B, T, d_model)
        """bert (B, L, its width) stays as it is, its requires_grad too, and no gradient flows to it.

        `allowed`, of x, is None or bool (B or 1, T or 1, T), and `bert_allowed`, of bert, None or (B or 1, T or 1, L).
        """
        ### BEGIN SOLUTION
        own, other = self.self_attention(x, x, allowed), self.bert_attention(x, bert.detach(), bert_allowed)
        x = self.norm1(x + self.dropout((own + other) / 2))
        return self.norm2(x + self.dropout(self.linear2(self.linear1(x).relu())))
        ### END SOLUTION


# %% check="13.7"
checks.bert_fused_layer(BertFusedLayer)

# %%
torch.manual_seed(0)
layer = BertFusedLayer(CrossAttention(16, 2, 16), CrossAttention(16, 2, 24), 16, 32, 0.0)
x, states = torch.randn(1, 5, 16), torch.randn(1, 9, 24)
print("5 words, 9 pieces of 24 numbers ->", tuple(layer(x, states).shape))
swapped = states[:, torch.randperm(9)]
print(f"pieces in another order: the output moves by {(layer(x, swapped) - layer(x, states)).abs().max().item():.0e}")

# %% [markdown]
# With queries from BERT there would be an output for each piece, which could not be added to the layer's own. Attention
# treats pieces as a set: whatever their number and order, each word gets a mixture of them.

# %% [markdown]
# ## 13.8 Sometimes one alone
#
# A layer with two sources may learn to rely on one of them. **Drop-net** (Zhu et al. 2020, section 3.2) sometimes takes
# one away: in training, the layer uses
#
# $$\text{own alone with probability } \tfrac p2, \quad \text{bert alone with } \tfrac p2, \quad
# \text{else } \tfrac12 (\text{own} + \text{bert}).$$
#
# One draw decides for the whole call. In evaluation it always uses the mean. Unlike in dropout, nothing is scaled: one
# part alone is as large as the mean of two.
#
# **Predict first.** With $p = 1$, how often does training see what evaluation uses?
#
# **Exercise 13.8** (2 points, about 10 minutes, easy). Write `drop_net`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.rand((), generator=generator).item()`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# Two draws with p / 2 each can both succeed. Divide the range of one draw into three parts.
# </details>


# %%
predict("13.8", "a", a="never", b="half of the time", c="always")


# %% exercise="13.8"
def drop_net(own, bert, p, training, generator):
    """One of two parts, or their mean, drawn once for the whole call; in evaluation always the mean.

    own, bert: finite float tensors of one shape, any shape, which stay as they are, on any device; gradients flow to
    what is given back. p: from 0 to 1. training: a bool. generator: a torch.Generator on the CPU, the only source of
    chance, used in training alone. How many numbers are drawn from it is free. No call depends on the calls before. A
    part that is given back alone may be the argument itself.
    """
    ### BEGIN SOLUTION
    if not training:
        return (own + bert) / 2
    draw = torch.rand((), generator=generator).item()
    if draw < p / 2:
        return own
    return bert if draw >= 1 - p / 2 else (own + bert) / 2
    ### END SOLUTION


# %% check="13.8"
checks.drop_net(drop_net)

# %%
generator, seen = torch.Generator().manual_seed(0), {}
names = {0.0: "own", 1.0: "bert", 0.5: "mean"}
for p in (0.0, 0.4, 1.0):
    draws = [drop_net(torch.zeros(1), torch.ones(1), p, True, generator).item() for _ in range(1000)]
    seen[f"p = {p}"] = [100 * draws.count(value) / 1000 for value in names]

# %%
alt = "How often each part comes: at p = 0 always the mean, at p = 1 each part half of the time and never the mean."
plots.bars(seen, labels=list(names.values()), ylabel="% of calls", alt=alt)

# %% [markdown]
# With $p = 1$ training never sees the mean that evaluation uses, and each attention learns to work without the other.
# Whether that helps is measured below.

# %% [markdown]
# ## Experiment: few pairs, and a BERT
#
# Small models translate CLDR's sentences from English to French. The first learns from many pairs, all others from few.
# Zhu et al. (2020) first train a translator without a BERT and then continue it with one, whose **last** states its
# encoder and decoder attend to. Four arms here do the same: they start from the weights of "few pairs", and only the
# attention to the BERT is new. The first of them continues without a BERT, for as many steps: the others have to beat
# it. The last one has a BERT with random weights, which has never read any text.
#
# | arm | starts from | BERT | drop-net |
# |---|---|---|---|
# | many pairs | new weights | none | |
# | few pairs | new weights | none | |
# | few, continued | few pairs | none | |
# | few, BERT | few pairs | frozen | $p = 0$ |
# | few, BERT, drop-net | few pairs | frozen | $p = 1$ |
# | few, random BERT | few pairs | frozen, random weights | $p = 0$ |
#
# Every model translates the test sentences three times: greedily, with beams and $\alpha = 0$, and with beams and a
# length penalty. The number of beams and the penalty are not in the search of rates.
#
# `COURSE_PROFILE` decides the size: `cpu` is small, `gpu` reads image captions (Multi30k, English to German), and
# `smoke` is tiny, with a made-up language. Smoke runs show that everything works, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->

# %% tags=["experiment"]
experiments = arms.experiments("13_translation")
print(f"{profiles.name()} on {profiles.device()}, seeds {arms.seeds()}")
for name, one in experiments.items():
    print(f"{name:20} {one.examples} pairs, {one.steps} steps of {one.batch}, rate {one.lr:g};", end=" ")
    print(f"{one.beams} beams, alpha {one.alpha}")

# %% tags=["experiment"]
mine = {
    "translation_batch": translation_batch,
    "beam_search": beam_search,
    "drop_net": drop_net,
}
student.use(checks, **mine)
results = results_folder(say=True)

# %% [markdown]
# The runs use your functions of 13.3, 13.6 and 13.8 if you have passed their checks in this session; otherwise they use
# the course's. If one of your functions gives a different result, the runs use the course's version. That holds even if
# your result is just as good (a sum taken in another order, say). The grader must be able to repeat a run without your
# code.

# %% [markdown]
# ## All runs
#
# Every run writes one file: for each test sentence, the lengths of its three translations, and how many of their
# n-grams are in the reference. The judge computes BLEU from it. An edited or copied file is refused, and so is a seed
# that is not yours.
#
# **Predict first.** Which difference is larger: between many pairs and few, or between BERT and no BERT? If "few, BERT"
# is better than "few pairs", what else could be the reason? Do beams help a good model more, or a bad one?
#
# Each run takes minutes, and BERT's states once take a few more. Interrupt the cell whenever you like: finished seeds
# are kept.

# %% tags=["experiment"]
runs = {name: run_seeds(one, arms.seeds(), results) for name, one in experiments.items()}
across(runs, arms.METRICS)

# %% [markdown]
# ## 13.9 What five seeds can show
#
# Count the seeds with which one arm is ahead. If both arms were equally good, each seed would be a fair coin. The
# **sign test** asks how often $n$ fair coins would be at least as one-sided as this:
# $p = 2 \cdot 2^{-n} \sum_{k \ge m} \binom{n}{k}$, at most 1, where $m$ of the $n$ seeds are on the larger side. Seeds
# that tie carry no information and are left out.
#
# **Exercise 13.9** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `sign_test`. How small can $p$ be with five seeds?
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `math.comb`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The two arms may have their seeds in different orders, or one may have an additional seed: match runs by seed.
# </details>


# %% exercise="13.9"
def sign_test(first, other):
    """The two-sided p of the sign test, a number from 0 to 1.

    first, other: dicts from seeds to BLEU, perhaps of a thousand seeds. Seeds that only one of them has, and ties, are
    left out. Without a seed that is left, p is 1.
    """
    ### BEGIN SOLUTION
    gains = [first[seed] - other[seed] for seed in first if seed in other and first[seed] != other[seed]]
    n, m = len(gains), max(sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains))
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(m, n + 1)) / 2**n)
    ### END SOLUTION


# %% check="13.9"
checks.sign_test(sign_test)

# %% tags=["experiment"]
scores = {name: {run.seed: arms.METRICS[0].of(run) for run in some} for name, some in runs.items()}
for one, other in zip([*scores], [*scores][1:]):
    print(f"{other} against {one}: p = {sign_test(scores[one], scores[other]):.3f} by the signs of the seeds alone")

# %% tags=["experiment"]
alt = "Your runs: BLEU of each arm in three ways to translate, means over seeds."
arms.picture(runs, alt)

# %% [markdown]
# Which differences does the table show? All students make the same comparisons: between arms, all of which translate
# with beams and penalty, and between ways to translate with the same models.

# %% tags=["experiment"]
listed(arms.compared(runs))

# %% [markdown]
# How good could a model become with the best possible encoder? It writes only words that occur twice or more among its
# own pairs.

# %% tags=["experiment"]
from utils.experiments.translation import train as trainer

for name in ("many pairs", "few pairs"):
    found = [trainer.reachable(experiments[name], seed) for seed in arms.seeds()]
    share, score = (sum(values) / len(values) for values in zip(*found))
    print(f"{name:10} can write {share:.1%} of the references' words; these words alone have a BLEU of {score:.1f}")

# %% [markdown]
# Where does a model look while it writes? Below are the weights of cross-attention in the decoder's last layer,
# averaged over its heads, for one test sentence: for the model with many pairs and for the one with few.

# %% tags=["experiment"]
maps = trainer.attention_maps(arms.seeds()[0])
for name, (source, words, weights) in maps.items():
    print(f"{name:10} {' '.join(source)}  ->  {' '.join(words)}")

# %% tags=["experiment"]
name = "many pairs"
source, words, weights = maps[name]
alt = "Weights of cross-attention while the model with many pairs writes: rows are what it writes, columns the source."
plots.tables({name: weights}, rows=words, columns=source, alt=alt, limits=(0, 1))

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has.

# %% tags=["experiment"]
recorded = arms.recorded()
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, arms.METRICS) if recorded else None

# %% tags=["experiment"]
alt = "The recorded runs, as above."
arms.picture(recorded, alt) if recorded else None

# %% tags=["experiment"]
listed(arms.compared(recorded))

# %% [markdown]
# For all arms that continue "few pairs", the search for their rates is also recorded: on pairs that are used neither
# for training nor for testing, with greedy translation and two seeds. Three controls have five seeds, like the arms.
# One reads BERT's first layer in place of its last. Another has its BERT from the start, for the same total number of
# steps. The third attends to an encoder that has learned this very task, from all 6,000 pairs.
#
# The runs are from two devices. Models with new weights were trained on a GPU. Those that continue "few pairs" were
# trained on one core, after "few pairs" itself was trained there again. So the "few pairs" of the tables is not the run
# that they continue: dropout draws other numbers on another device. The comparisons say which of them cross devices.

# %% tags=["experiment"]
arms_that_continue = ("few, continued", "few, BERT", "few, BERT, drop-net", "few, random BERT")
for name in (*arms_that_continue, "few, BERT's layer 1", "few, translator's encoder"):
    found = arms.trials(name)
    rates = sorted({rate for rate, _ in found})
    print(f"{name:26}", *(f"{rate:g}: {sum(found[rate, seed] for seed in (101, 102)) / 2:.1f} BLEU" for rate in rates))

# %% tags=["experiment"]
known = recorded | arms.recorded_controls()
print(*arms.compared(known, arms.CONTROL_PAIRS, ways=False), sep="\n\n")

# %% tags=["experiment"]
print("Zhu et al. (2020), table 2: BLEU of a Transformer, and of one with a BERT, for 160,000 pairs and more")
for languages, scores in arms.FUSED_BLEU.items():
    print(f"{languages:20} {scores[0]:6} {scores[1]:6}")

# %% [markdown]
# **Pairs.** With many pairs, beams and penalty, BLEU is 95, and with few 70: a difference that is shown.
#
# **BERT.** With five seeds no difference is shown. A BERT is 0.2 BLEU ahead of the model that continues without one;
# according to the interval, it adds at most 1.2. It is 0.1 ahead of a BERT of random weights, and 0.8 at most. Between
# the layers no difference is shown either: the last layer is level with the first and, according to the interval, at
# most 0.5 ahead. In the search, all arms that continue are also level: at its best rate, the one without a BERT has
# 68.0, with a BERT 68.3, with drop-net 68.0, with a BERT of random weights 68.5, and with BERT's first layer 68.5. So
# nothing here shows that BERT's knowledge helps.
#
# **What would have shown the opposite?** An encoder that surely knows the task: one that learned it from six times as
# many pairs. With five seeds it is 0.1 ahead of the model that continues without it. No difference is shown. According
# to the interval, it adds at most 1.0 BLEU. So in this experiment no encoder can be expected to help much, and that
# BERT does not says little about BERT. One reason may be that a model with few pairs cannot write 9% of the words of
# the references, because they do not occur twice among its pairs; if all others were right, BLEU would be 83. No
# English encoder has the French words that are missing.
#
# **From the start.** Nor is a BERT shown to help if it is there from the start: after 1,200 steps BLEU is 66.8, which
# is 3.3 less than that of "few pairs" after 900. Corrected for the four comparisons of the controls, this difference
# is not shown (p = 0.070), and in the search the two are level: 67.2 and 67.5. Zhu et al. report gains of 1.5 to 2.8
# with a warm start. They have real sentences, 160,000 pairs and more, BERT-base, and models trained until nothing
# improves. This course has none of these.
#
# **Drop-net.** With it BLEU is 68.3, which is 1.6 less than without. It is behind with each of the five seeds. After
# the correction that is not shown (p = 0.087), and in the search it is level. Its learning rate, the best of its own
# search, is ten times that of the other arms that continue. That does not seem to be the reason: in the search, at the
# rate of the others, it has 66.4 and the arm without drop-net 68.3 (two seeds). Two other reasons are possible, and no
# run here separates them. Drop-net may make training harder: the training loss ends at 1.44 instead of 1.12. And in
# 300 steps each of the two attentions can hardly learn to do without the other. Evaluation uses their mean, which
# training never saw.
#
# **Beams.** With few pairs, beams with a penalty are 2.8 BLEU ahead of greedy search, which is not shown; the penalty
# itself changes BLEU by 1.6, from 0.6 to 2.8, and that is shown. With many pairs neither moves the mean by more than
# 0.1, and no difference is shown.
#
# All this is from one pair of languages, small models and one kind of sentence: it is not a general law.

# %% [markdown]
# **Question 13.W1** (2 points). Why can a BERT's vectors not simply be added to the encoder's, token by token? Why do
# the queries of the attention to BERT come from the layer, and what would change if they came from BERT?

# %% [markdown] written="13.W1" points=2
# ### BEGIN SOLUTION
# The two cut a sentence differently: BERT into pieces of its own vocabulary, with [CLS] and [SEP], the translator into
# its own tokens. The numbers of tokens differ, so there is no BERT vector that belongs to the third token. The widths
# and the meaning of the coordinates differ too. Attention needs neither equal lengths nor a known alignment: through
# its own maps it learns which pieces each token reads. The queries come from the layer since its output needs one row
# for each of the layer's tokens, to be averaged with self-attention and added to x. With queries from BERT, there would
# be a row for each piece: an error, or, if the lengths happen to agree, rows that belong to other tokens. And the
# values would again be the layer's own, so BERT's knowledge would enter only through the weights.
# === BEGIN MARK SCHEME ===
# One point: the tokens differ, so lengths differ and there is no alignment (different widths alone: half a point).
# One point: the output has a row for each query, so queries are the layer's; keys and values come from what is read.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 13.W2** (2 points). Two systems differ by one BLEU on a few hundred sentences, with three seeds each. What
# can you conclude, and what do you do next? Use the intervals of your table (in the profile `smoke`: the recorded one).

# %% [markdown] written="13.W2" points=2
# ### BEGIN SOLUTION
# It shows no difference, unless the intervals say otherwise: with three seeds the interval over seeds alone is wide (t
# with 2 degrees of freedom is 4.3), and other sentences would change BLEU too. In the recorded table, beams with a
# penalty are more than two BLEU ahead of greedy search with few pairs, and that is not shown. Next: pair by seed and by
# sentence (both systems on the same ones), draw both again, more seeds, and a larger test set; say beforehand what is
# compared, and correct for the number of comparisons; use the same tokens and the same BLEU for both; look at
# translations. A difference of one BLEU that is shown may still be irrelevant.
# === BEGIN MARK SCHEME ===
# One point: the difference is not shown so far; both kinds of chance, seeds and sentences, with an interval from the
# student's own table.
# One point: a plan that would settle it (paired, more seeds or sentences, decided beforehand, same tokenisation).
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("13_translation")

# %% [markdown]
# **What you can do now:** build a translator from its parts, search for its best sentence, and know how a search can
# fail. You can also compute BLEU as papers do, connect a frozen model by attention, and say what a difference in BLEU
# shows.

# %%
scoreboard(checks)

# %% [markdown]
# ## 13.S1 Letters instead of words
#
# This stretch exercise has a check, but it is not graded.
#
# For BLEU, a word with another ending is simply wrong. **chrF** (Popović 2015) counts n-grams of 1 to 6 **characters**,
# without blanks. Each order has a precision and a recall. Precision is the share of the translations' n-grams that the
# references have; recall is the reverse. Both are clipped and summed over the corpus as in 13.5, then averaged over the
# orders, and
#
# $$\text{chrF} = 100\, \frac{(1 + \beta^2)\, P R}{\beta^2 P + R}, \qquad \beta = 2.$$
#
# An order is left out if either side has no n-grams of it.
#
# **Predict first.** "three apple" for "three apples": what does BLEU say, and what does chrF say?
#
# **Exercise 13.S1** (not graded, about 15 minutes, medium). Write `chrf`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `"".join(text.split())` has no blanks; the counters of 13.5 count characters as well as words.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# P and R are averaged first, and the F-score is computed from the averages; if both are 0, it is 0.
# </details>


# %%
predict("13.S1", "a", a="BLEU 0, chrF a lot", b="both a lot", c="both 0")


# %% stretch="13.S1"
def chrf(hypotheses, references):
    """chrF of a corpus, a float from 0 to 100; lists of as many texts, which may have any number of blanks."""
    ### BEGIN SOLUTION
    precisions, recalls = [], []
    for n in range(1, 7):
        match = mine = right = 0
        for pair in zip(hypotheses, references):
            texts = ["".join(text.split()) for text in pair]
            one, other = (Counter(zip(*(text[i:] for i in range(n)))) for text in texts)
            match, mine, right = match + (one & other).total(), mine + one.total(), right + other.total()
        if mine and right:
            precisions.append(match / mine)
            recalls.append(match / right)
    if not sum(precisions):
        return 0.0
    P, R = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * 5 * P * R / (4 * P + R)
    ### END SOLUTION


# %% check="13.S1"
checks.chrf(chrf)

# %% tags=["experiment"]
for text, other in (
    ("three apple", "three apples"),
    ("three pears", "three apples"),
    ("an apple or three", "three apples"),
):
    print(f"BLEU {bleu([text.split()], [other.split()]):5.1f}, chrF {chrf([text], [other]):5.1f}  {text} | {other}")
