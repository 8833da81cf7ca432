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
# # 7. Fill in the blank
#
# A language model that reads from left to right never sees what comes next. BERT sees both sides. But then, what is
# left to predict? Hide some words, and ask for them.
#
# You build this step by step. A word becomes pieces, the pieces get three embeddings, and some of them are hidden. One
# loss asks what the hidden pieces were, and another asks whether the second sentence follows the first. At the end,
# models that are trained with your functions fill in blanks, and you measure what each part of the design contributes.
#
# Each exercise is checked on the spot and stands on its own. In grading, private checks ask the same with other sizes,
# numbers, texts and models. Your functions return new objects and do not change their arguments. A call must not change
# torch's default dtype (float32) or device, nor whether gradients are recorded. It may change the global random
# generators only by drawing from them, and only if the exercise draws. The exercises take about two and a half hours,
# not counting the written questions and the runs, and need no GPU. "The paper" is always Devlin et al. (2019), BERT:
# Bidirectional Encoder Representations from Transformers.

# %% tags=["setup"]

# %%
import math
import random
import statistics

import torch
import torch._dynamo  # what an optimizer loads at its first step: it takes seconds, better here than in a check
from torch import nn
from torch.nn import functional as F

from utils import plots
from utils.checks import nb07_bert_pretraining as checks
from utils.experiments import pretraining, profiles, student
from utils.experiments.experiment import results_folder
from utils.experiments.runs import run_seeds
from utils.experiments.seed_table import SeedTable, across
from utils.grading.check import scoreboard
from utils.hand_in import pack
from utils.interactive import interactive
from utils.predictions import predict

# %% [markdown]
# Before you train anything: who are you? The seeds of your runs in exercise 7.10 follow from your name, so nobody
# else has yours. Write the name under which you hand in between the quotes, and do not change it later. `KEY`
# stays blank unless your instructor gave you one.

# %%
STUDENT = ""
KEY = ""
student.sign(STUDENT, KEY)

# %% [markdown]
# ## 7.1 A word in pieces
#
# BERT knows about thirty thousand pieces. A rare word is cut into several of them: from left to right, and each time
# the **longest** piece that fits is taken. A piece that does not begin the word is written with `##` before it: `able`
# begins a word, `##able` continues one.
#
# No choice is ever undone. If no piece fits at some place, the whole word is unknown, even if its beginning was found.
#
# **Predict first.** The vocabulary is `un`, `unabl`, `able`, `##able`, `##e`. What becomes of `unable`?
#
# **Exercise 7.1** (2 points, about 15 minutes, medium). Write `wordpiece`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `range(len(word), start, -1)` tries the longest ends first. `word[start:end]` is the stretch between them.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# If the rest cannot be cut, the pieces found so far do not count: the result is `[unk]`, not the pieces and then `unk`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# too long: [unk]. start = 0; while start is in the word: for each end, the last one first: is the stretch, with ## if
# start is not 0, in the vocabulary? Then keep it and continue at end. If no end fits: [unk].
# </details>


# %%
predict("7.1", "c", a="un ##able", b="[UNK]", c="unabl ##e")


# %% exercise="7.1"
def wordpiece(word, vocab, unk="[UNK]", max_chars=100):
    """Cut a word into pieces: always the longest that fits, with `##` before all but the first.

    Args:
        word: a text without spaces. An empty one has no pieces.
        vocab: a dict; its keys are the pieces.
        max_chars: a number up to 500.

    Returns:
        a list of pieces; [unk] if at some place none fits, or if the word has more than max_chars characters.
    """
    ### BEGIN SOLUTION
    if len(word) > max_chars:
        return [unk]
    pieces, start = [], 0
    while start < len(word):
        before = "##" if start else ""
        ends = [end for end in range(start + 1, len(word) + 1) if before + word[start:end] in vocab]
        if not ends:
            return [unk]
        pieces.append(before + word[start : ends[-1]])
        start = ends[-1]
    return pieces
    ### END SOLUTION


# %% check="7.1"
checks.wordpiece(wordpiece)

# %%
entries = "un unabl able ##able ##e play ##ing ##er ##s re ##play the ##an ##th ##r ##o ##p ##y".split()
vocab = {piece: number for number, piece in enumerate(entries)}
for word in ("unable", "able", "player", "replaying", "theanthropy", "playful"):
    print(f"{word:>12}: {' '.join(wordpiece(word, vocab))}")

# %% [markdown]
# `unable` becomes `unabl ##e`: greedy, and not what a linguist would do. One letter that has no piece, the `f` of
# `playful`, makes the whole word unknown. That is why real vocabularies hold every letter, with and without `##`.

# %% [markdown]
# ## 7.2 Three embeddings
#
# Attention knows neither the order of tokens nor which sentence they belong to. So each piece gets three vectors, and
# BERT reads their sum:
#
# $$e_t = \mathrm{LayerNorm}\big(W_{ids_t} + P_t + S_{types_t}\big).$$
#
# $P$ is learned, with one row for each position; $S$ has one row for each of the two sentences. The positions are
# counted **through** both sentences, not within each. BERT's norm adds only $10^{-12}$ to the variance, and its weights
# start with a standard deviation of $0.02$.
#
# **Predict first.** How many tokens can a model read whose $P$ has $512$ rows? And how many can it read if you make $P$
# longer, but do not train it?
#
# **Exercise 7.2** (2 points, about 15 minutes, easy). Write `BertEmbeddings`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `nn.init.normal_(weight, std=...)` fills a parameter in place; `torch.zeros_like(ids)` is on the device of ids.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `torch.arange(T)` is on the processor, wherever the ids are. It takes a `device`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# refuse more than max_len tokens; without types all are 0; add the three rows (the row of places broadcasts over the
# batch), norm, dropout.
# </details>


# %%
predict(
    "7.2",
    "b",
    a="512, and then all places equally well",
    b="512, and the new places have rows that nobody trained",
    c="any number, and any number",
)


# %% exercise="7.2"
class BertEmbeddings(nn.Module):
    """Token ids (B, T) and their types, 0 or 1 -> (B, T, d_model): the sum of three rows, normed, then dropout.

    Parts, and nothing else in its state dict: `word`, `position` and `token_type`, nn.Embedding, whose weights start
    normal with standard deviation 0.02; `norm`, nn.LayerNorm with an eps of 1e-12. All rows learn, except perhaps that
    of word 0. Without types, all are 0. What is made is on the device of the ids, whose
    order in memory does not matter.
    """

    def __init__(self, vocab_size, d_model, max_len, n_types=2, dropout=0.1):
        super().__init__()
        ### BEGIN SOLUTION
        self.word, self.position = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.token_type = nn.Embedding(n_types, d_model)
        for table in (self.word, self.position, self.token_type):
            nn.init.normal_(table.weight, std=0.02)
        self.norm, self.dropout = nn.LayerNorm(d_model, eps=1e-12), nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, ids, types=None):  # (B, T), (B, T) -> (B, T, d)
        """The embeddings. More than max_len tokens in a row: ValueError."""
        ### BEGIN SOLUTION
        if ids.size(1) > self.position.num_embeddings:
            raise ValueError(f"{ids.size(1)} tokens, and places for {self.position.num_embeddings}")
        types = torch.zeros_like(ids) if types is None else types
        places = torch.arange(ids.size(1), device=ids.device)
        return self.dropout(self.norm(self.word(ids) + self.position(places) + self.token_type(types)))
        ### END SOLUTION


# %% check="7.2"
checks.embeddings(BertEmbeddings)

# %%
torch.manual_seed(0)
embeddings = BertEmbeddings(vocab_size=20, d_model=12, max_len=10, dropout=0.0)
ids, types = torch.tensor([[2, 7, 8, 3, 7, 9, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
rows = {
    "word": embeddings.word(ids)[0],
    "+ position": embeddings.position.weight[: ids.size(1)],
    "+ type": embeddings.token_type(types)[0],
    "normed sum / 50": embeddings(ids, types)[0] / 50,
}

# %%
plots.heatmaps(
    rows,
    labels=None,
    limits=(-0.05, 0.05),
    xlabel="dimension",
    ylabel="token",
    alt="Four matrices, tokens down: the words' rows, those of the places, of which none is twice, those of the types, "
    "of which there are two, and the normed sum of all three, drawn smaller.",
)

# %% [markdown]
# Tokens 1 and 4 are the same word, and tokens 3 and 6 are both `[SEP]`: their rows are equal on the left and differ on
# the right. A 513th place would have a row that was never trained.

# %% [markdown]
# ## 7.3 Hide some of them
#
# 15% of all tokens are **chosen**, and only these have a loss. What replaces a chosen token is then drawn (section 3.1
# of the paper):
#
# $$\text{chosen} \rightarrow \begin{cases} \texttt{[MASK]} & 80\% \\ \text{a random token} & 10\% \\
# \text{the token itself} & 10\%. \end{cases}$$
#
# The model never knows which tokens it is asked for, so it has to keep a good guess of every one.
#
# **Predict first.** You first set 80% of the chosen tokens to `[MASK]`. Then you draw which of the remaining ones
# become random tokens. With which probability?
#
# **Exercise 7.3** (3 points, about 20 minutes, medium). Write `mask_tokens`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.rand` and `torch.randint` take a `generator` and a `device`; `torch.isin` finds the special tokens;
# `torch.where(condition, a, b)` makes a new tensor.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `inputs[where] = mask_id` also writes into `ids` if `inputs` is `ids` itself and not a copy.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# chosen = one number for each token below p, and not special; labels = ids where chosen, else -100. A second number
# for each token: below split[0] it is masked; from there, as far as split[1] goes, random; else it stays.
# </details>


# %%
predict("7.3", "c", a="10 percent", b="20 percent", c="50 percent")


# %% exercise="7.3"
def mask_tokens(ids, special, mask_id, vocab_size, p=0.15, split=(0.8, 0.1, 0.1), generator=None):
    """Hide tokens for a masked language model; `ids` (B, T) stay as they are.

    Each token is chosen with probability p, independently of all others, but those whose id is in the list `special`
    never (a mask in the text is a token like any other). Of the chosen ones a share split[0] becomes mask_id, split[1]
    a token drawn evenly from all vocab_size ones (special ones and the old one too), and split[2] stays: each for
    itself, whatever was drawn for other places.

    Args:
        generator: all chance comes from this torch.Generator, on the device of ids; from torch's own if it is None.

    Returns:
        inputs (B, T), and labels (B, T): the id of each chosen token, and -100 at all others. Both are new tensors.
    """
    ### BEGIN SOLUTION
    where = {"generator": generator, "device": ids.device}
    chosen = (torch.rand(ids.shape, **where) < p) & ~torch.isin(ids, torch.tensor(special, device=ids.device))
    fate, others = torch.rand(ids.shape, **where), torch.randint(vocab_size, ids.shape, **where)
    replaced = torch.where(fate < split[0], mask_id, others)
    kept = ~chosen | (fate >= split[0] + split[1])
    return torch.where(kept, ids, replaced), torch.where(chosen, ids, -100)
    ### END SOLUTION


# %% check="7.3"
checks.mask_tokens(mask_tokens)

# %%
words = "[CLS] the cat sat on the mat because it was warm there [SEP] dog moon ran".split()
vocab = {word: number for number, word in enumerate(dict.fromkeys([*words, "[MASK]"]))}
names = list(vocab)
ids = torch.tensor([[vocab[word] for word in words[:13]]])
special, mask_id = [vocab["[CLS]"], vocab["[SEP]"]], vocab["[MASK]"]

# %%
drawn = {}
for seed in (2, 4, 8, 11, 12):
    generator = torch.Generator().manual_seed(seed)
    inputs, labels = mask_tokens(ids, special, mask_id, len(vocab), p=0.3, generator=generator)
    kinds = ["masked" if now == mask_id else "kept" if now == old else "random" for now, old in zip(inputs[0], ids[0])]
    kinds = [kind if label != -100 else "" for kind, label in zip(kinds, labels[0])]
    drawn[f"draw {len(drawn) + 1}"] = [(names[number], kind) for number, kind in zip(inputs[0], kinds)]

# %%
plots.pieces(
    drawn,
    kinds=("masked", "random", "kept"),
    alt="One sentence, five times, with chosen tokens in colour: most are masks, some are other words, and some are "
    "the word itself. The loss asks for all of them.",
)

# %% [markdown]
# Twice as many tokens as usual are chosen here, so that you can see the effect. A kept token looks like any other, but
# it has a loss too. And the second draw? Its probability is one half: 10% of all chosen tokens are half of those that
# are left.
#
# **Play.** Hide more and more. When can you no longer guess the sentence yourself?


# %%
def hidden(share, draw):
    generator = torch.Generator().manual_seed(draw)
    inputs, labels = mask_tokens(ids, special, mask_id, len(vocab), p=share, generator=generator)
    kinds = ["masked" if now == mask_id else "kept" if now == old else "random" for now, old in zip(inputs[0], ids[0])]
    row = [(names[now], kind if label != -100 else "") for now, kind, label in zip(inputs[0], kinds, labels[0])]
    alt = f"One sentence of which each token is chosen with probability {share}; {labels.ne(-100).sum()} of 13 are."
    return plots.pieces({"": row[:7], " ": row[7:]}, kinds=("masked", "random", "kept"), alt=alt)


interactive(hidden, share=[0.0, 0.15, 0.3, 0.5, 0.7, 0.9], draw=range(1, 7), start={"share": 0.15})

# %% [markdown]
# ## 7.4 The same masks again?
#
# BERT's masks were drawn once, when the data were written: ten masks for each sequence. In forty epochs each of the ten
# is then used four times: RoBERTa's authors call that **static** masking (Liu et al. 2019, section 4.1). They drew a
# new mask each time: **dynamic** masking.
#
# Both can be had without storing a mask. A mask follows from its seed:
#
# $$\mathrm{mask}_e = \mathrm{draw}\big(G(s,\, e \bmod n)\big), \qquad
# \text{dynamic: } \mathrm{draw}\big(G(s, e)\big).$$
#
# **Predict first.** One mask hides 15% of the tokens. Which share of the tokens is hidden at least once by ten masks,
# and which by forty?
#
# **Exercise 7.4** (2 points, about 15 minutes, medium). Write `Masking`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `torch.Generator(device).manual_seed(number)` makes a generator and returns it.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# With `seed + e`, epoch 1 of one seed is epoch 0 of the next: runs would share their masks.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# epoch e: the copy is e, or e modulo copies; a new generator, seeded with 1000 times the seed plus the copy; return
# what mask gives with it.
# </details>


# %%
predict("7.4", "b", a="15 percent by either", b="80 percent by ten, nearly all by forty", c="all by either")


# %% exercise="7.4"
class Masking:
    """One mask of `ids` for each epoch: so many `copies` that take turns (0, 1, ..., 0, 1, ...), or ever new ones.

    Args:
        mask: called as mask(ids, generator=generator), with a torch.Generator on the device of ids; it gives inputs
            and labels, as `mask_tokens` of 7.3 does once its other arguments are fixed: new tensors, ids stay.
        copies: None is dynamic. Less than 1: ValueError when a Masking is made.
        seed: from 0 to 999. No two seeds, whatever `copies` is, and no two copies draw the same numbers.
    """

    def __init__(self, ids, mask, copies=None, seed=0):
        ### BEGIN SOLUTION
        if copies is not None and copies < 1:
            raise ValueError(f"{copies} copies")
        self.ids, self.mask, self.copies, self.seed = ids, mask, copies, seed
        ### END SOLUTION

    def epoch(self, e):
        """Inputs and labels of epoch e, from 0 to 999: those of one call of mask, the same whatever was called before.

        The caller may change them. Torch's own generator stays as it is.
        """
        ### BEGIN SOLUTION
        copy = e if self.copies is None else e % self.copies
        return self.mask(self.ids, generator=torch.Generator(self.ids.device).manual_seed(1000 * self.seed + copy))
        ### END SOLUTION


# %% check="7.4"
checks.masking(Masking)


# %%
def choose(ids, generator):
    """What 7.3 does, but only the choice of the tokens: the labels."""
    chosen = torch.rand(ids.shape, generator=generator) < 0.15
    return ids.clone(), torch.where(chosen, ids, -100)


ids, shares = torch.ones(200, 100, dtype=torch.long), {}
for name, copies in (("one mask", 1), ("ten masks", 10), ("dynamic", None)):
    masking, asked = Masking(ids, choose, copies), torch.zeros(ids.shape, dtype=torch.bool)
    shares[name] = []
    for epoch in range(40):
        asked |= masking.epoch(epoch)[1] != -100
        shares[name].append(asked.float().mean().item())

# %%
print({name: f"{line[-1]:.1%}" for name, line in shares.items()})
alt = "Share of tokens asked for at least once, over forty epochs: one mask stays where it starts, ten stop at four "
alt += "fifths after ten epochs, dynamic masking goes on to all."
plots.curves(shares, xlabel="epochs", ylabel="tokens asked for so far", alt=alt)

# %% [markdown]
# Ten masks hide four fifths of the tokens at least once: a fifth of the text is never asked for. RoBERTa's authors call
# dynamic masks "comparable or slightly better" (section 4.1). In their table 1 SQuAD 2.0 gains 0.4 points and SST-2
# 0.4, and MNLI loses 0.3.

# %% [markdown]
# ## 7.5 Which sentence comes next?
#
# The second task works on pairs. Half of the time `b` is the sentence after `a`; otherwise it is a sentence from
# another document. In BERT a "sentence" is any span of contiguous text (section 3), mostly longer than one sentence;
# here it is a real sentence. A small classifier reads the state $C$ of `[CLS]` and decides:
#
# $$p(\text{next}) = \mathrm{softmax}(W C)_0.$$
#
# $C$ is a vector, not a label. And in the library's `next_sentence_label`, **0** means "is next".
#
# **Predict first.** One document has three sentences, another three hundred. If you draw a document first and then a
# sentence, how often is each sentence drawn?
#
# **Exercise 7.5** (2 points, about 15 minutes, medium). Write `nsp_pairs`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `rng.choice(list)` draws one item evenly, `rng.random()` a number from 0 to 1.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `document.index(a)` finds the first sentence with that text, and texts repeat. Draw places, not texts.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# all places (d, i) with a next sentence; refuse if there is none, or if only one document has sentences. So many
# times: draw a place; with one half, b is the next one; else draw b from all sentences of other documents.
# </details>


# %%
predict(
    "7.5",
    "c",
    a="equally often",
    b="those of the long one a hundred times as often",
    c="those of the short one a hundred times as often",
)


# %% exercise="7.5"
def nsp_pairs(documents, count, rng):
    """Pairs of sentences for next-sentence prediction.

    Args:
        documents: lists of sentences, which are texts; some lists may be empty, and texts may repeat.
        rng: a random.Random, from which all chance comes.

    Returns:
        a list of count tuples (a, b, label). a is drawn evenly from all sentences that have a next one in their
        document. With label 0, b is that next one; with label 1 it is drawn evenly from all sentences of the other
        documents (places in the list count, not texts). Half of the labels are 0, exactly or on average. Sentences
        drawn for other pairs do not matter: one may come twice in a row.

    Raises:
        ValueError: no document has two sentences, or no other one has any.
    """
    ### BEGIN SOLUTION
    every = [(d, i) for d, document in enumerate(documents) for i in range(len(document))]
    firsts = [(d, i) for d, i in every if i + 1 < len(documents[d])]
    if not firsts or sum(map(bool, documents)) < 2:
        raise ValueError("there is no pair of both kinds")
    pairs = []
    for _ in range(count):
        d, i = rng.choice(firsts)
        label = rng.randrange(2)
        other, j = rng.choice([place for place in every if place[0] != d]) if label else (d, i + 1)
        pairs.append((documents[d][i], documents[other][j], label))
    return pairs
    ### END SOLUTION


# %% check="7.5"
checks.nsp_pairs(nsp_pairs)

# %%
documents = [
    ["Ada opens the door.", "It is dark inside.", "She finds a lamp.", "Its light is warm."],
    ["Boil the water.", "Add salt and the noodles.", "Wait for nine minutes."],
]
for a, b, label in nsp_pairs(documents, 6, random.Random(3)):
    print(f"{label} {'is next' if label == 0 else 'is not ':7}  {a:26} {b}")

# %% [markdown]
# Look at the pairs with label 1: you can recognise them by the topic alone, without knowing the order. Sentences of
# short and long documents are drawn equally often, as the exercise asks. If you drew a document first, the sentences of
# short documents would be drawn far too often.

# %% [markdown]
# ## 7.6 What it costs to be wrong
#
# Take one sentence with two blanks. The model gives a distribution for each blank. Its **negative log-likelihood**
# treats the blanks as independent, given what is visible:
#
# $$-\log p(\text{both}) = -\log p_1(y_1) - \log p_2(y_2).$$
#
# In training, the loss of a batch is the **mean** of this over its chosen tokens. The next-sentence loss is a mean over
# pairs. BERT minimises the sum of these two means (appendix A.2).
#
# **Predict first.** What is the loss of a model that knows nothing of $V$ pieces? Can a batch have no chosen token?
#
# **Exercise 7.6** (2 points, about 20 minutes, medium). Write `blanks_nll`, by hand, then `masked_nll` and
# `pretraining_loss`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.cross_entropy` takes `ignore_index` and `reduction="sum"`. It expects two dimensions, with the classes last:
# `logits.flatten(0, -2)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The mean of no numbers is NaN, and one NaN in a sum of losses spoils every weight. And `math.log(0)` raises.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# blanks: add up minus log of the right piece's probability, infinity if that is 0. masked: the sum of the losses over
# the number of labels, but at least 1. pretraining: masked of the first two plus cross-entropy of the others.
# </details>


# %%
predict("7.6", "b", a="1; no", b="log V; yes", c="V; yes")


# %% exercise="7.6"
def blanks_nll(predicted, answers):
    """The negative log-likelihood of a sentence's blanks, in nats: a number.

    predicted: for each blank a dict from piece to probability; a piece that is not in it has 0, and costs infinity.
    answers: the right piece of each blank. Without blanks it is 0.
    """
    ### BEGIN SOLUTION
    chances = [places.get(piece, 0) for places, piece in zip(predicted, answers, strict=True)]
    return sum(-math.log(chance) if chance else math.inf for chance in chances)
    ### END SOLUTION


def masked_nll(logits, labels):  # (B, T, V), (B, T) -> ()
    """The mean of -log softmax(logits)[label] over all places with a label, which are those that are not -100.

    logits (B, T, V), float32 or float64, up to 1e30, in any order in memory; labels (B, T). Returns a tensor with one
    number, of the dtype of the logits. Equal logits cost log V at any size. A batch without a label costs 0, and a
    gradient of zeros flows back.
    """
    ### BEGIN SOLUTION
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum")
    return total / (labels != -100).sum().clamp(min=1)
    ### END SOLUTION


def pretraining_loss(logits, labels, next_logits, next_labels):
    """`masked_nll` of the first two plus the mean cross-entropy of next_logits (B, 2) for next_labels (B), 0 or 1."""
    ### BEGIN SOLUTION
    return masked_nll(logits, labels) + F.cross_entropy(next_logits, next_labels)
    ### END SOLUTION


# %% check="7.6"
checks.losses(blanks_nll, masked_nll, pretraining_loss)

# %%
predicted = [{"cat": 0.5, "dog": 0.4, "moon": 0.1}, {"milk": 0.8, "tea": 0.2}]  # the [MASK] drinks [MASK].
for answers in (["cat", "milk"], ["dog", "milk"], ["moon", "tea"], ["cat", "soup"]):
    print(f"{' and '.join(answers):14}: {blanks_nll(predicted, answers):.2f} nats")

# %%
labels = torch.full((1, 6), -100)
labels[0, 2] = 7
for V in (2, 100, 30522):
    print(f"{V:6} pieces, all alike: {masked_nll(torch.zeros(1, 6, V), labels % V - 100 * (labels < 0)):.2f} nats")

# %% [markdown]
# A model that knows nothing has a loss of $\log V$, which is about ten nats with BERT's vocabulary. If a model's loss
# is far above that, it is sure and wrong. A short batch may have no chosen token; the library's own loss is then NaN.

# %% [markdown]
# ## 7.7 A head that is not new
#
# A linear map from the state of a blank to the logits of all pieces would need $V \cdot d$ new weights. BERT uses its
# own embeddings instead. A piece scores high if its row is similar to the state:
#
# $$\mathrm{logits} = E\; \mathrm{LayerNorm}\big(\mathrm{gelu}(W h + b)\big) + c.$$
#
# $E$ is the same table as in 7.2. The two are **tied**: if one changes, so does the other. Only $W$, $b$, the norm and
# the bias $c$ are new.
#
# **Predict first.** How many new numbers does BERT-base need, with $d = 768$ and $V = 30{,}522$? How many would it need
# without tying?
#
# **Exercise 7.7** (2 points, about 15 minutes, medium). Write `MLMHead`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `F.linear(x, weight, bias)`; `F.gelu` with its default arguments.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `nn.Parameter(embedding.weight)` makes a new parameter with the same numbers. An optimizer then moves both.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# keep the embedding; dense: d to d; norm over d with BERT's eps; bias: a parameter of V zeros; forward: dense, gelu,
# norm, then linear with the embedding's weight and the bias.
# </details>


# %%
predict(
    "7.7",
    "a",
    a="about 600 thousand; with a table of its own about 24 million",
    b="about 30 thousand; with a table of its own about 600 thousand",
    c="about 24 million, tied or not",
)


# %% exercise="7.7"
class MLMHead(nn.Module):
    """States (B, T, d) -> logits (B, T, V), with the weight of `embedding`, an nn.Embedding (V, d), as output matrix.

    New parts: `dense`, nn.Linear (d, d); `norm`, nn.LayerNorm with an eps of 1e-12; `bias`, a parameter of V zeros. How
    the head keeps the embedding is up to you, but its weight stays one and the same parameter, with its numbers, and
    all its rows learn from the logits, in either mode. A write into that parameter, in whatever way, changes the
    logits.
    """

    def __init__(self, embedding):
        super().__init__()
        ### BEGIN SOLUTION
        vocab_size, d = embedding.weight.shape
        self.embedding, self.dense, self.norm = embedding, nn.Linear(d, d), nn.LayerNorm(d, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        ### END SOLUTION

    def forward(self, states):
        ### BEGIN SOLUTION
        return F.linear(self.norm(F.gelu(self.dense(states))), self.embedding.weight, self.bias)
        ### END SOLUTION


# %% check="7.7"
checks.mlm_head(MLMHead)

# %%
V, d = 30522, 768
head = MLMHead(nn.Embedding(V, d, device="meta"))
new = sum(part.numel() for part in [*head.dense.parameters(), *head.norm.parameters(), head.bias])
print(f"tied: {new:,} new numbers; untied: {new + V * d:,}")

# %%
states, labels = torch.randn(1, 40, 128), torch.randint(5000, (1, 40))
for name, spread in (("BERT's start, 0.02", 0.02), ("torch's start, 1", 1.0)):
    torch.manual_seed(0)
    table = nn.Embedding(5000, 128)
    nn.init.normal_(table.weight, std=spread)
    loss = F.cross_entropy(MLMHead(table)(states).flatten(0, 1), labels.flatten())
    print(f"{name}: the loss of a fresh head is {loss:.1f}, and log V is {math.log(5000):.1f}")

# %% [markdown]
# With torch's default initialisation, the logits of a tied head are far too large: the fresh model is sure, and wrong.
# That is why the three tables of 7.2 start with small numbers.

# %% [markdown]
# ## 7.8 Fill in
#
# Now you use a whole model. For each `[MASK]` in a text it gives a distribution over all pieces,
#
# $$p_t = \mathrm{softmax}(\mathrm{logits}_t), \qquad t \text{ with } ids_t = \texttt{[MASK]},$$
#
# and you want the best few of them, with their probabilities. They are shares of the **whole** vocabulary, so the five
# best rarely sum to one.
#
# Places are counted in the sequence that the model reads, with `[CLS]` and every piece, not in words. In training mode,
# dropout is on: switch it off for the call, and leave the model as you found it.
#
# **Predict first.** Two blanks are filled, each with its best piece. Is that the best pair?
#
# **Exercise 7.8** (2 points, about 15 minutes, medium). Write `fill_mask`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `tokenizer(text, return_tensors="pt")` gives what the model needs: `model(**batch).logits`. See also
# `tokenizer.mask_token_id`, `tokenizer.convert_ids_to_tokens` and `torch.topk`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `model.train()` at the end is wrong if the model was in evaluation mode. Remember `model.training`.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# tokenize; remember the mode, eval; logits of the only row without gradients; mode as before; for each place that
# holds the mask: softmax over all pieces, top k, ids to pieces.
# </details>


# %%
predict("7.8", "b", a="yes", b="not necessarily")


# %% exercise="7.8"
def fill_mask(model, tokenizer, text, k=5):
    """The k most probable pieces for each `[MASK]` in a text.

    Args:
        model: a masked language model of transformers, such as BertForMaskedLM. All its parts are in one mode,
            training or evaluation, and it stays as it is.
        tokenizer: its tokenizer.
        text: one text with any number of masks. k is at most the number of pieces.

    Returns:
        a list with one list for each mask, in their order: k tuples (piece, probability), the best first. Pieces are
        those of the vocabulary, `##` included; probabilities are floats.
    """
    ### BEGIN SOLUTION
    batch, mode = tokenizer(text, return_tensors="pt"), model.training
    model.eval()
    with torch.no_grad():
        logits = model(**batch).logits[0]
    model.train(mode)
    best = logits[batch["input_ids"][0] == tokenizer.mask_token_id].softmax(dim=-1).topk(k)
    pieces = [tokenizer.convert_ids_to_tokens(ids.tolist()) for ids in best.indices]
    return [list(zip(row, chances.tolist())) for row, chances in zip(pieces, best.values)]
    ### END SOLUTION


# %% check="7.8"
checks.fill_mask(fill_mask)

# %% [markdown]
# To see it work, train a BERT of two thin layers, for a few seconds, on sentences of a made-up little world. Your
# `mask_tokens` hides the tokens, and your `masked_nll` computes the loss. First the sentences, and a tokenizer for
# them.

# %%
import tempfile
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

LIKES = {"cat": "milk", "dog": "bones", "bee": "flowers", "child": "songs"}
PLACES = {"milk": "cup", "bones": "garden", "flowers": "garden", "songs": "kitchen"}
texts = [f"the {who} likes {what} in the {PLACES[what]}" for who, what in LIKES.items()]
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({word for text in texts for word in text.split()})]

# %%
vocab_file = Path(tempfile.mkdtemp()) / "vocab.txt"
vocab_file.write_text("\n".join(words))
tokenizer = BertTokenizerFast(str(vocab_file))
print(f"{len(words)} pieces, such as", *words[:8])

# %%
torch.manual_seed(0)
sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
model = BertForMaskedLM(BertConfig(vocab_size=len(words), max_position_embeddings=16, **sizes))

# %%
rule = torch.optim.AdamW(model.parameters(), lr=3e-3)
ids, generator, losses = tokenizer(texts * 8, return_tensors="pt")["input_ids"], torch.Generator().manual_seed(1), []
for _ in range(150):
    inputs, labels = mask_tokens(ids, [2, 3], 4, len(words), p=0.25, generator=generator)
    loss = masked_nll(model(input_ids=inputs).logits, labels)
    rule.zero_grad()
    loss.backward()
    rule.step()
    losses.append(loss.item())
alt = "The loss of a small BERT over training steps: it starts near log V and falls."
plots.curves({"small BERT": losses}, xlabel="step", ylabel="loss, nats", alt=alt)

# %%
found = {}
for text in ("the [MASK] likes milk in the cup", "the [MASK] likes [MASK] in the garden"):
    for number, best in enumerate(fill_mask(model, tokenizer, text), start=1):
        found[f"{text}, blank {number}"] = best
        print(f"{text}, blank {number}:", ", ".join(f"{piece} {chance:.2f}" for piece, chance in best))

# %%
shares = {piece: chance for piece, chance in found["the [MASK] likes [MASK] in the garden, blank 1"]}
alt = (
    "The five best pieces for the first blank of: the ... likes ... in the garden. Two animals share nearly all of it."
)
plots.bars({"probability": [*shares.values()]}, labels=list(shares), xlabel="piece", ylabel="probability", alt=alt)

# %% [markdown]
# Bees and dogs are in the garden, so each blank could be about either. They are filled independently: nothing keeps the
# model from a dog that likes flowers. It is luck if the best pieces of both blanks fit together.

# %% [markdown]
# ## 7.9 What one step costs
#
# Weight decay pulls the weights that multiply inputs towards zero. It spares biases and the weights of norms, and must
# not pull a matrix twice if two parts share it. In numbers, one step of BERT reads
#
# $$\text{tokens} = \text{sequences} \times \text{length}, \qquad \text{epochs} = \frac{\text{steps} \times
# \text{tokens}}{\text{words of the corpus}},$$
#
# Like the paper, this counts each token as one word. Then look up what the paper really says. A **point** is a
# difference of two percentages.
#
# **Predict first.** Which share of all tokens of a step does the model see as `[MASK]`?
#
# **Exercise 7.9** (3 points, about 20 minutes, medium). Write `decay_groups`, `step_facts` and `bert_facts`, with these
# keys:
#
# | key | the number | where |
# |---|---|---|
# | `large_hidden` | width of the states of BERT-large | section 3 |
# | `base_millions` | parameters of BERT-base, in millions | section 3 |
# | `chosen_percent` | of all WordPiece tokens, chosen for prediction | section 3.1 |
# | `all_masked_percent` | of all WordPiece tokens, become `[MASK]` if every chosen one does (table 8) | appendix C.2 |
# | `mrpc_points` | lost by reading left to right (both rows without NSP) on MRPC | table 5 |
# | `squad_points` | the same on SQuAD | table 5 |
# | `qnli_points` | lost on QNLI if only the next-sentence task is left out | table 5 |
# | `warmup_percent` | of all steps, in which the rate rises | appendix A.2 |
# | `large_chips` | TPU chips that trained BERT-large | appendix A.2 |
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `model.parameters()` gives a shared parameter once; `parameter.ndim` and `parameter.requires_grad`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# A list of names such as `["bias", "LayerNorm.weight"]` misses every norm with another name.
# </details>
#
# <details><summary>Hint 3: pseudocode</summary>
#
# groups: those that learn, with more than one dimension; the others that learn. Facts: the products above; a dict.
# </details>


# %%
predict("7.9", "b", a="8 percent", b="12 percent", c="15 percent", d="80 percent")


# %% exercise="7.9"
def decay_groups(model, weight_decay):
    """The list of dicts, with "params" and "weight_decay", that torch.optim.AdamW takes.

    Each parameter that learns is in exactly one group, also if two parts share it; frozen ones are in none. All that
    have fewer than two dimensions have decay 0, whatever their names: biases, the weights of norms, and single
    numbers. All others have weight_decay.
    """
    ### BEGIN SOLUTION
    learns = [part for part in model.parameters() if part.requires_grad]
    decayed, spared = [part for part in learns if part.ndim > 1], [part for part in learns if part.ndim < 2]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]
    ### END SOLUTION


def step_facts(sequences, length, steps, words):
    """Two numbers: the tokens of one step, and the epochs of all steps over a corpus of so many words, not rounded."""
    ### BEGIN SOLUTION
    return sequences * length, steps * sequences * length / words
    ### END SOLUTION


def bert_facts():
    """A dict with the keys above, each with a plain number."""
    ### BEGIN SOLUTION
    sizes = {"large_hidden": 1024, "base_millions": 110, "large_chips": 64}
    shares = {"chosen_percent": 15, "all_masked_percent": 15, "warmup_percent": 1}
    return sizes | shares | {"mrpc_points": 9.0, "squad_points": 10.1, "qnli_points": 3.5}
    ### END SOLUTION


# %% check="7.9"
checks.facts(decay_groups, step_facts, bert_facts)

# %%
tokens, epochs = step_facts(256, 512, 1_000_000, 3.3e9)
print(f"one step of BERT: {tokens:,} tokens, which the paper rounds to 128,000; {epochs:.1f} epochs in all")

# %%
shares = {"not asked for": 0.85, "[MASK]": 0.15 * 0.8, "random": 0.15 * 0.1, "kept": 0.15 * 0.1}
rows = {name: [tokens * share] for name, share in shares.items()}
print({name: f"{row[0]:,.0f}" for name, row in rows.items()})
alt = "One stacked bar: of the tokens of a step most are not asked for; of the rest most are masks."
plots.bars(rows, labels=["one step"], xlabel="BERT's pretraining", ylabel="tokens", stacked=True, alt=alt)

# %% [markdown]
# Six tokens in seven are read and cost computation but have no loss; a model that reads left to right has a loss at
# every token. That is the price of seeing both sides.
#
# What BERT read: BooksCorpus with 800 million words and the English Wikipedia with 2,500 million, without its lists,
# tables and headings (section 3.1). Each of the two models was pretrained for four days (appendix A.2). Fine-tuning is
# cheap compared with that: each result of the paper takes an hour at most on one Cloud TPU (section 3.2).

# %% [markdown]
# ## Experiment: what a mask teaches
#
# Table 8 of the paper varies how the chosen tokens are replaced, and shows how results on tasks change. Here you look
# at the loss itself: at `[MASK]`, at tokens that were **kept**, and at **random** ones. Four models, each the first
# layers of a real encoder with a fresh head, learn from four rows of the table. Two more start from random weights and
# train for the same number of steps: one learns from masks, one reads from left to right.
#
# `COURSE_PROFILE` decides the size: `cpu` is a small encoder that reads the documentation of the course's libraries.
# `gpu` is BERT on the same text, and `smoke` is a tiny encoder on made-up words. Smoke runs show everything that
# follows, but earn no points.
#
# <!-- box: size gpu -->
#
# <!-- box: packaged encoder -->
#
# The runs use your `mask_tokens`, `masked_nll` and `MLMHead` if you have passed their checks in this session; otherwise
# they use the course's. If one of your functions gives a different result, the runs use the course's version. That
# holds even if your result is just as good (with different random numbers, say). The grader must be able to repeat a
# run without your code.

# %% tags=["experiment"]
experiments = pretraining.experiments("07_bert_pretraining")
print(f"{profiles.name()} on {profiles.device()}, seeds {pretraining.seeds()}")
for name, one in experiments.items():
    print(f"{name}: {one.encoder}, {one.start}, {one.steps} steps of {one.batch} sequences, split {one.split}")
student.use(checks, mask_tokens=mask_tokens, masked_nll=masked_nll, MLMHead=MLMHead)
results = results_folder(say=True)

# %% [markdown]
# ## All runs
#
# Every run writes one file with its losses at nine places of each validation sequence. Three places hold `[MASK]`,
# three their own token, and three a random one; the places are the same for all runs. A model that reads from left to
# right is asked for the same tokens of the untouched text. Means are computed from these losses, here and in grading.
# An edited or copied file is refused, and so is a seed that is not yours.
#
# **Predict first.** Which row is best at kept tokens, and at which tokens does it pay for that?
#
# The runs take minutes on a GPU, and about an hour without one. Interrupt them whenever you like: finished seeds are
# kept.

# %% tags=["experiment"]
from utils.experiments.pretraining import train as trainer

runs = {name: run_seeds(one, pretraining.seeds(), results) for name, one in experiments.items()}
rows = {name: runs[name] for name in pretraining.ROWS}
print(f"knowing how frequent each piece is, and no more: {trainer.unigram_loss(experiments[min(rows)]):.2f} nats")
across(rows, pretraining.METRICS)

# %% [markdown]
# ## 7.10 Which row copies?
#
# The loss at a visible token has two sides. A model that **copies** what it sees is sure where the token was kept, and
# wrong where it was replaced by a random one. So its loss at random tokens is far above its loss at kept ones. A model
# that doubts what it sees has a smaller gap. Let the table tell you which row copies most, averaged over its seeds.
#
# **Exercise 7.10** (4 points, about 10 minutes, easy). Half of the points are for your runs, which you hand in with the
# notebook; half are for `copier`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `statistics.mean`, and `max(gaps, key=gaps.get)`.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# The row with the lowest loss at kept tokens need not have the largest gap.
# </details>


# %% exercise="7.10"
def copier(losses):
    """The row whose loss at random tokens is furthest above its loss at kept ones, and that gap in nats.

    losses: a dict from the names of rows to a list for each, with [loss at [MASK], at kept, at random tokens] of each
    seed. Means are taken over seeds; there is one at least, and rows may have different numbers of them.
    Returns the name and the gap. Of equal gaps any row is right.
    """
    ### BEGIN SOLUTION
    gaps = {name: sum(random - kept for _, kept, random in seeds) / len(seeds) for name, seeds in losses.items()}
    name = max(gaps, key=gaps.get)
    return name, gaps[name]
    ### END SOLUTION


# %% check="7.10"
checks.copier(copier)

# %% tags=["experiment"]
name, gap = copier({name: [[metric.of(run) for metric in pretraining.METRICS] for run in rows[name]] for name in rows})
print(f"{name} copies most: its loss at random tokens is {gap:.2f} nats above that at kept ones")

# %% tags=["experiment"]
pretraining.picture(rows, "Your runs: for each row of the table, its loss at masks, at kept tokens and at random ones.")

# %% [markdown]
# The table shows means over your seeds and, in brackets, standard deviations. Which differences are shown? First at
# kept tokens, with all statistics, then each row against BERT's at all three.

# %% tags=["experiment"]
SeedTable(rows, pretraining.METRICS[1])

# %% tags=["experiment"]
bert, *others = rows
for metric in pretraining.METRICS:
    print(
        f"{metric.name}:", *SeedTable(rows, metric).compared((bert, other) for other in others), sep="\n\n", end="\n\n"
    )

# %% [markdown]
# Now the two that start from nothing: their test, and their training loss over the steps. The band runs from the
# lowest seed to the highest.

# %% tags=["experiment"]
pair = {name: runs[name] for name in pretraining.FROM_NOTHING}
print(*SeedTable(pair, pretraining.METRICS[0]).comparisons(), sep="\n\n")
pretraining.learning(pair, "Training loss over the steps of a masked model and of one that reads from left to right.")

# %% [markdown]
# Below are the runs that came with the course: profile `cpu`, and seeds that no student has. A model that reads from
# left to right meets no mask: its three losses are of the same three groups of tokens, none of which it has seen.

# %% tags=["experiment"]
recorded = pretraining.recorded()
known = {name: some for name, some in recorded.items() if name in pretraining.ROWS}
print(f"{sum(map(len, recorded.values()))} recorded runs came with this copy of the course")
across(recorded, pretraining.METRICS) if recorded else None

# %% tags=["experiment"]
pretraining.picture(
    known, "The recorded runs, as above: at masks the rows are level, elsewhere far apart."
) if known else None

# %% [markdown]
# In the recorded runs the four rows differ by a tenth of a nat at `[MASK]`: that the two rows that keep no tokens are
# slightly worse than BERT's is shown. All rows have the same rate, which was set by hand, and so few steps that they
# read a tenth of the text: this is how learning begins. Elsewhere they are far apart, by one nat at random tokens and
# by nearly five at kept ones. A model that was asked at `[MASK]` alone loses even more at a token that it can read than
# at one that is hidden. So does the one that was also asked at random tokens: what is there never was the answer. A
# model that keeps tokens but never replaces any learns to copy: it is best on kept tokens and worst of all on random
# ones. Only BERT's mixture reads the token but does not trust it blindly.
#
# From nothing, the model that reads from left to right is ahead by 0.9 nats at the same tokens: it was asked at each
# token, and the masked model at one in seven. At `[MASK]` the masked model has hardly learned more than how frequent
# each token is. This says which model learns faster per step, at one rate for both, and nothing about which is better
# in the end: the left-to-right model never sees the right side.

# %% [markdown]
# ### How much to mask, how many heads, how deep
#
# BERT masks 15%. Fewer blanks teach less in each step; more blanks leave less to read. And table 6 of the paper says
# that deeper models are better. The runs below came with the course, five seeds each. Their models start from random
# weights, and learn from the same text as yours for more than ten times as many steps. All models are tested on the
# same masked positions, three in each sequence. So the test is like the training of a model with few blanks, and unlike
# that of a model with many. First the share of blanks: all three models have one learning rate, which was not searched.

# %% tags=["experiment"]
shares = pretraining.recorded_longer()
across(shares, pretraining.METRICS)

# %% tags=["experiment"]
print(*SeedTable(shares, pretraining.METRICS[0]).compared(pretraining.shares_compared()), sep="\n\n")

# %% [markdown]
# With more blanks they learn faster. After the same number of steps, the models with 30% and with 50% are ahead of the
# one with 15%. They are ahead although they were never trained on so few blanks as the test has. Wettig et al. (2023)
# name two effects: more blanks make the question harder, and more answers are learned from in each step. In such a
# short training the second effect seems to be stronger. For BERT-large, after fine-tuning, they found two tokens in
# five better than 15%; that is not measured here.
#
# Now heads and layers, with 15% blanks and the same width. Each size has the best learning rate of its own search, on
# held-out training text, and was trained for two lengths: 1,500 steps read each sequence 7 times, and 6,000 steps 30
# times.

# %% tags=["experiment"]
sizes = pretraining.recorded_sizes()
print("table 6: layers, width, heads; perplexity, MNLI-m, MRPC, SST-2")
for size, values in pretraining.TABLE_6.items():
    print(f"{size!s:>14}", *(f"{value:6.2f}" for value in values))
across(sizes, pretraining.METRICS)

# %% tags=["experiment"]
for steps in pretraining.LENGTHS:
    pairs = pretraining.sizes_compared(steps)
    print(f"--- {steps:,} steps", *SeedTable(sizes, pretraining.METRICS[0]).compared(pairs), sep="\n\n")

# %% [markdown]
# **Short.** After 1,500 steps the number of heads makes the largest difference: one head of width 192 is 0.18 nats
# ahead of three heads, and twelve heads, 16 wide, are 0.96 behind. Both are shown. Between one, two, four and eight
# layers no difference is shown. But look at the seeds. Every model first learns how frequent the pieces are, and
# improves no further until it finds a use for the neighbours. Some find it early, some late: with eight layers the five
# seeds are up to 1.2 nats apart. So these runs say when a model begins to learn.
#
# **Long.** After 6,000 steps all have begun, and the order of the heads is no longer shown: one head is 0.11 nats
# ahead of three, and twelve are 0.05 ahead of three. One and twelve were not compared. Depth now pays, a little: two
# layers are 0.15 nats ahead of one, which is shown. Four layers are level with two. Eight are 0.12 ahead of four with
# each seed, which is not shown (p = 0.129). From one layer to eight the mean falls from 3.40 to 3.14 nats, as in table
# 6 in direction. So what a short training says about a size may be only how soon it starts. Table 6 is from thousands
# of times as much text, and it changes the width too.

# %% [markdown]
# Last, try the model of the first row yourself. It is trained once more, with your first seed, and your `fill_mask`
# reads it. Write sentences of your own: words in lower case, and spaces around `.` and `,` as in its text.

# %% tags=["experiment"]
model, tokenizer = trainer.trained(experiments[bert], pretraining.seeds()[0])
documented = [
    "returns [MASK] if the object is callable .",
    "the default [MASK] is zero .",
    "paris is the [MASK] of france .",
]
sentences = profiles.pick(smoke=["w3 w15 w27 [MASK] w39", "w5 w17 [MASK]"], cpu=documented, gpu=documented)

# %% tags=["experiment"]
for sentence in sentences:
    for best in fill_mask(model, tokenizer, sentence):
        print(f"{sentence:42}", ", ".join(f"{piece} {chance:.2f}" for piece, chance in best))

# %% tags=["experiment"]
shares = dict(fill_mask(model, tokenizer, sentences[0])[0])
alt = f"The five best pieces for the blank in: {sentences[0]}"
plots.bars({"probability": [*shares.values()]}, labels=list(shares), xlabel="piece", ylabel="probability", alt=alt)

# %% [markdown]
# It knows the text it was trained on, and little else: ask it about Paris, and it answers about arrays.

# %% [markdown]
# **Question 7.W1** (2 points). Read your own table (in the profile `smoke`: the recorded one, if there is one). Which
# row has the lowest loss at `[MASK]`, which at kept tokens, which at random ones, and which of these differences are
# shown? `[MASK]` never occurs when BERT is fine-tuned. Why then does BERT keep a part of the chosen tokens, and
# replace another part by random ones? Say for each, with numbers of the table, what a model learns to do at visible
# tokens if that part is left out.

# %% [markdown] written="7.W1" points=2
# ### BEGIN SOLUTION
# At [MASK] the rows differ least (in the recorded runs by a tenth of a nat, shown for the two that
# keep nothing). That is so at one rate, which was not searched, and after few steps. At kept tokens the row that keeps
# and never replaces is best, at random ones it is worst; the two rows that keep nothing lose more at kept tokens than
# at [MASK]. (The numbers are those of the student's table.) If all chosen tokens became [MASK], only the states at
# [MASK] would ever be trained. At visible tokens no loss is computed, so nothing says that the state there should tell
# which token this is or fit its surroundings; fine-tuning then meets only such tokens. Keeping some chosen tokens
# trains the states at visible tokens too. If some were kept but none replaced, every visible token that has to be
# predicted would already be right. The model would learn to copy, without using the context. If a token is sometimes
# random, copying is unsafe, so the state must weigh the token itself against its context. Random tokens are rare (1.5%
# of all), so they do not spoil the text.
# === BEGIN MARK SCHEME ===
# One point: the table is read correctly, with its numbers, and a difference at [MASK] is claimed only if it is shown;
# without kept tokens there is no loss at visible tokens, so the model loses there at least as much as at [MASK] (the
# difference between pretraining and fine-tuning named).
# One point: without random tokens copying is enough at visible tokens (lowest loss at kept, highest at random ones);
# random ones force the model to use context.
# Half a point off for "to avoid overfitting" or "as noise" without saying what would be learned instead.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **Question 7.W2** (2 points). Look at table 5 and figure 5 of the paper. What does a left-to-right model lose, and on
# which kind of task most? Why does a masked model still learn more slowly per step? What do your own curves of the two
# models show about this, and what do they not show?

# %% [markdown] written="7.W2" points=2
# ### BEGIN SOLUTION
# It loses the right context. In table 5, between the two rows without NSP, the loss is half a point on SST-2, nearly
# two points on MNLI, nine on MRPC and ten on SQuAD. There a token must be marked as the start or the end of an answer,
# and the text to its right says which. A BiLSTM on top brings back seven points on SQuAD; MNLI stays at 82.1, and QNLI,
# MRPC and SST-2 get worse. A masked model gets a loss from 15% of its tokens, a left-to-right one from all of them, so
# a masked model learns from fewer targets per step. In figure 5 it is behind for the first steps only (on MNLI, after
# fine-tuning) and then ahead, because each state has both sides. My curve shows the beginning alone: after equally many
# steps the left-to-right model is far ahead, and the masked one is hardly better than the counts. It does not show that
# the masked one overtakes.
# === BEGIN MARK SCHEME ===
# One point: the right context is lost, most on SQuAD or MRPC, with a number from the table; if the difference is given
# as percent instead of points, half of it. One point: only 15% of the tokens are predicted, so there is less signal
# per step; and the own curve shows the slow start, not who wins in the end. Figure 5 may stand for either half of
# this.
# === END MARK SCHEME ===
# ### END SOLUTION

# %% [markdown]
# **What you can do now:** cut words into pieces, hide some of them, and train an encoder to fill them in. You can also
# say what each part of the method contributes.
#
# When you are done, save the notebook and pack it with its results: that zip is what you hand in.

# %% tags=["experiment"]
pack("07_bert_pretraining")

# %%
scoreboard(checks)

# %% [markdown]
# ## 7.S1 Whole words
#
# This stretch exercise has a check, but it is not graded.
#
# `mask_tokens` hides pieces one by one. If a word has three pieces, usually two remain visible and the third is easy
# to guess: the task becomes spelling. In 2019 BERT's authors published models for which all pieces of a chosen
# **word** were chosen together. Each word is chosen with probability $p$, whatever its length, so the share of the
# pieces stays 15% in the mean.
#
# **Predict first.** Choose single pieces, and then the whole word of each. Is the share still 15%?
#
# **Exercise 7.S1** (not graded, about 15 minutes, medium). Write `choose_words`.
#
# <details><summary>Hint 1: a function to look up</summary>
#
# `draws.gather(1, places)` takes from each row of draws the values at the places in the same row.
# </details>
#
# <details><summary>Hint 2: a bug to avoid</summary>
#
# `draws[-1]` is the last draw, and not an error: a special token would be treated like the last word.
# </details>


# %%
predict("7.S1", "c", a="yes", b="no, less", c="no, more")


# %% stretch="7.S1"
def choose_words(word_ids, p=0.15, generator=None):
    """Choose whole words, each with probability p, independently of all others of its row and of other rows.

    Args:
        word_ids: int64 (B, T), not empty: for each piece the number of its word in its row, 0 or more, and -1 for
            special tokens and pads, which are never chosen. Words may have no piece.
        generator: all chance comes from this torch.Generator, on the device of word_ids; from torch's own if None.

    Returns:
        booleans (B, T), true at all pieces of the chosen words.
    """
    ### BEGIN SOLUTION
    size = word_ids.size(0), max(1, int(word_ids.max()) + 1)
    draws = torch.rand(size, generator=generator, device=word_ids.device)
    return (draws.gather(1, word_ids.clamp(min=0)) < p) & (word_ids >= 0)
    ### END SOLUTION


# %% check="7.S1"
checks.choose_words(choose_words)

# %% tags=["experiment"]
pieces = "[CLS] the ##an ##thro ##py of re ##play ##ing un ##abl ##e play ##ers [SEP]".split()
of_word = torch.tensor([[-1, 0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3, 4, 4, -1]])
seeded, drawn = torch.Generator().manual_seed(4), {}
for n in range(4):
    for name, numbers in (("pieces", torch.arange(15).where(of_word >= 0, -1)), ("words", of_word)):
        chosen = choose_words(numbers, p=0.3, generator=seeded)[0]
        drawn[f"{name}, draw {n + 1}"] = [(piece, "chosen" if yes else "") for piece, yes in zip(pieces, chosen)]
drawn = {name: drawn[name] for name in sorted(drawn)}

# %% tags=["experiment"]
alt = "One sentence, eight times. Four times single pieces are chosen, mostly beside visible ones of their word; four "
plots.pieces(drawn, kinds=("chosen",), alt=alt + "times whole words, of which nothing is left to see.")

# %% tags=["experiment"]
many = of_word.repeat(20_000, 1)
single, whole = choose_words(many.new_tensor(range(15)).where(many >= 0, -1)), choose_words(many)
pulled = torch.stack([(single & (many == word)).any(1) for word in range(5)], 1).gather(1, many.clamp(min=0))
for name, chosen in (("pieces", single), ("words", whole), ("the words of pieces", pulled & (many >= 0))):
    print(f"{name:>20}: {chosen[many >= 0].float().mean():.1%} of the pieces are chosen")

# %% [markdown]
# No: then a word of four pieces is chosen about three times as often as a word of one piece.
