# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# Answers to notebook 05 whose verdict is known. See autograder/author/answers.py for the markers.

# %% right="5.1" name="in short"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a, b, tie = list(a), list(b), len(a) > len(b)
    while len(a) + len(b) + 3 > max_len:
        (a if len(a) > len(b) or (len(a) == len(b) and not tie) else b).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" name="never more than 512" says="is cut, though `max_len` has room for it" private=true
# - while len(a) + len(b) + 3 > max_len:
# + while len(a) + len(b) + 3 > min(max_len, 512):


# %% wrong="5.1" name="two calls for each token" says="hundreds of tokens more than `max_len`" private=true
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a_was_longer = len(a) > len(b)

    def lose(m, n):
        return cut(m - 1, n) if m > n or (m == n and not a_was_longer) else cut(m, n - 1)

    def cut(m, n):
        return lose(m, n) if m + n + 3 > max_len else (m, n)

    m, n = cut(len(a), len(b))
    return [cls_id, *a[:m], sep_id, *b[:n], sep_id], [0] * (m + 2) + [1] * (n + 1)


# %% wrong="5.1" of="in short" name="types all zero" says="all token types are zero"
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + ids = [cls_id, *a, sep_id, *b, sep_id]
# + return ids, [0] * len(ids)


# %% wrong="5.1" of="in short" name="first [SEP] has type 1" says="the first [SEP] belongs to the first sentence"
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 1) + [1] * (len(b) + 2)


# %% wrong="5.1" of="in short" name="no last [SEP]" says="do not end with [SEP], which ends the second sentence"
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + return [cls_id, *a, sep_id, *b], [0] * (len(a) + 2) + [1] * len(b)


# %% wrong="5.1" name="one [SEP] only" says="no [SEP] between"
def encode_pair(a, b, cls_id, sep_id, max_len):
    return [cls_id, *a, *b, sep_id][:max_len], ([0] * (len(a) + 1) + [1] * (len(b) + 1))[:max_len]


# %% wrong="5.1" name="cut at the end" says="give ids that do not end with [SEP]"
def encode_pair(a, b, cls_id, sep_id, max_len):
    ids, types = [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
    return ids[:max_len], types[:max_len]


# %% wrong="5.1" of="in short" name="special tokens are not counted" says="with [CLS] and both [SEP] among them"
# - while len(a) + len(b) + 3 > max_len:
# + while len(a) + len(b) > max_len:


# %% wrong="5.1" name="only the second sentence is cut" says="The sentence that is longer at that moment"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a, b = list(a), list(b)
    while len(a) + len(b) + 3 > max_len:
        (b or a).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" name="the shorter one is cut" says="The sentence that is longer at that moment"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a, b = list(a), list(b)
    while len(a) + len(b) + 3 > max_len:
        (a if a and (len(a) < len(b) or not b) else b).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" name="half of the room for each" says="tokens are cut to 16 ids"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    if len(a) + len(b) + 3 > max_len:
        a, b = a[: (max_len - 3) // 2], b[: (max_len - 3) // 2]
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" of="in short" name="the beginning falls" says="is not its beginning"
# - (a if len(a) > len(b) or (len(a) == len(b) and not tie) else b).pop()
# + (a if len(a) > len(b) or (len(a) == len(b) and not tie) else b).pop(0)


# %% wrong="5.1" name="a tie always takes the second" says="the wrong one loses a token"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a, b = list(a), list(b)
    while len(a) + len(b) + 3 > max_len:
        (a if len(a) > len(b) else b).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" name="a tie always takes the first" says="the wrong one loses a token"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    a, b = list(a), list(b)
    while len(a) + len(b) + 3 > max_len:
        (a if len(a) >= len(b) else b).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" of="in short" name="the caller's lists shrink" says="your code changes"
# - a, b, tie = list(a), list(b), len(a) > len(b)
# + tie = len(a) > len(b)


# %% wrong="5.1" name="no room, no error" says="raise ValueError"
def encode_pair(a, b, cls_id, sep_id, max_len):
    a, b, tie = list(a), list(b), len(a) > len(b)
    while len(a) + len(b) + 3 > max_len and (a or b):
        (a if len(a) > len(b) or (len(a) == len(b) and not tie) else b).pop()
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.1" of="in short" name="types found by looking for the separator" says="a token of the text" private=true
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + ids = [cls_id, *a, sep_id, *b, sep_id]
# + end = ids.index(sep_id) + 1
# + return ids, [0] * end + [1] * (len(ids) - end)


# %% wrong="5.1" of="in short" name="always 50 and 51" says="wrong for other inputs" private=true
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + return [50, *a, 51, *b, 51], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% right="5.1" name="lengths first"
def encode_pair(a, b, cls_id, sep_id, max_len):
    room = max_len - 3
    if room < 0:
        raise ValueError("no room")
    short, long = sorted((len(a), len(b)))
    if short + long > room:
        if 2 * short > room:
            short, long = room // 2, room - room // 2
        else:
            long = room - short
    first, second = (long, short) if len(a) > len(b) else (short, long)
    ids = [cls_id] + a[:first] + [sep_id] + b[:second] + [sep_id]
    return ids, [int(place > first + 1) for place in range(len(ids))]


# %% right="5.1" name="recursion"
def encode_pair(a, b, cls_id, sep_id, max_len, longer_first=None):
    if max_len < 3:
        raise ValueError("no room")
    if longer_first is None:
        longer_first = len(a) > len(b)
    if len(a) + len(b) + 3 <= max_len:
        left, right = [cls_id, *a, sep_id], [*b, sep_id]
        return left + right, [0 for _ in left] + [1 for _ in right]
    if len(a) > len(b) or (len(a) == len(b) and not longer_first):
        return encode_pair(a[:-1], b, cls_id, sep_id, max_len, longer_first)
    return encode_pair(a, b[:-1], cls_id, sep_id, max_len, longer_first)


# %% right="5.1" name="the tokenizer's own post-processing"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("no room")
    keep = [len(a), len(b)]
    last = 0 if keep[0] <= keep[1] else 1
    while sum(keep) > max_len - 3:
        which = last if keep[0] == keep[1] else int(keep[1] > keep[0])
        keep[which] -= 1
    pieces = [[cls_id], a[: keep[0]], [sep_id], b[: keep[1]], [sep_id]]
    ids = [number for piece in pieces for number in piece]
    return ids, torch.repeat_interleave(torch.tensor([0, 1]), torch.tensor([keep[0] + 2, keep[1] + 1])).tolist()


# %% right="5.1" name="closed formula for the two lengths"
def encode_pair(a, b, cls_id, sep_id, max_len):
    room = max_len - 3
    if room < 0:
        raise ValueError(max_len)
    m, n = len(a), len(b)
    if m + n > room:
        if min(m, n) <= room // 2:  # only the longer one is cut down to the rest, if that is still not shorter
            short = min(m, n)
            long = room - short
            if m > n:
                m, n = long, short
            elif n > m:
                m, n = short, long
            else:
                m = n = short
                m = room - n
        else:
            half = room // 2
            odd = room - 2 * half
            m, n = (half + odd, half) if len(a) > len(b) else (half, half + odd)
    ids = [cls_id, *a[:m], sep_id, *b[:n], sep_id]
    return ids, [int(i > m + 1) for i in range(len(ids))]


# %% wrong="5.1" name="empty second sentence without separator" says="a pair of 5 and 0 tokens is wrong"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("three special tokens need three positions")
    a, b = list(a), list(b)
    first_longer = len(a) > len(b)
    while len(a) + len(b) + 3 > max_len:
        if len(a) > len(b) or (len(a) == len(b) and not first_longer):
            a.pop()
        else:
            b.pop()
    ids = [cls_id] + a + [sep_id] + b + [sep_id]
    types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    if not b:
        ids, types = ids[:-1], types[:-1]
    return ids, types


# %% wrong="5.1" name="filled up to max_len" says="a pair that is short is not padded"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("three special tokens need three positions")
    a, b = list(a), list(b)
    first_longer = len(a) > len(b)
    while len(a) + len(b) + 3 > max_len:
        if len(a) > len(b) or (len(a) == len(b) and not first_longer):
            a.pop()
        else:
            b.pop()
    ids = [cls_id] + a + [sep_id] + b + [sep_id]
    types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    pad = max_len - len(ids)
    return ids + [0] * pad, types + [0] * pad


# %% right="5.2" name="in short"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    return {
        part: torch.Generator().manual_seed(3 * (seed if part in varies else 0) + place)
        for place, part in enumerate(parts)
    }


# %% wrong="5.2" name="one number for all parts" says="draw the same numbers"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    return {part: torch.Generator().manual_seed(seed if part in varies else 0) for part in parts}


# %% wrong="5.2" of="in short" name="seed, seed + 1, seed + 2" says="`order` of seed 0 and `head` of seed 1 draw the same numbers"
# - part: torch.Generator().manual_seed(3 * (seed if part in varies else 0) + place)
# - for place, part in enumerate(parts)
# + part: torch.Generator().manual_seed((seed if part in varies else 0) + place) for place, part in enumerate(parts)


# %% wrong="5.2" name="one generator, shared" says="share one generator"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    return dict.fromkeys(parts, torch.Generator().manual_seed(seed))


# %% wrong="5.2" name="the global generator is seeded" says="global random generator"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    made = {}
    for place, part in enumerate(parts):
        torch.manual_seed(3 * (seed if part in varies else 0) + place)
        made[part] = torch.Generator().manual_seed(int(torch.randint(2**40, ())))
    return made


# %% wrong="5.2" of="in short" name="what varies is held, what is held varies" says="draws the same numbers for the seeds 1 and 2"
# - part: torch.Generator().manual_seed(3 * (seed if part in varies else 0) + place)
# + part: torch.Generator().manual_seed(3 * (0 if part in varies else seed) + place)


# %% wrong="5.2" name="everything always varies" says="though only"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    return {part: torch.Generator().manual_seed(3 * seed + place) for place, part in enumerate(parts)}


# %% wrong="5.2" name="numbered by place among those that vary" says="should not depend on what else varies"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    made = {part: torch.Generator().manual_seed(1000 * seed + place) for place, part in enumerate(varies)}
    for place, part in enumerate(parts):
        made.setdefault(part, torch.Generator().manual_seed(10**9 + place))
    return made


# %% wrong="5.2" name="held parts are left unseeded" says="differs between runs"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    made = {part: torch.Generator() for part in parts}
    for place, part in enumerate(parts):
        made[part].seed()
        if part in varies:
            made[part].manual_seed(3 * seed + place)
    return made


# %% wrong="5.2" of="in short" name="held parts share a generator's default seed" says="a part that does not vary draws the same numbers"
# - part: torch.Generator().manual_seed(3 * (seed if part in varies else 0) + place)
# + part: torch.Generator().manual_seed(3 * seed + place) if part in varies else torch.Generator()


# %% wrong="5.2" name="held parts are missing" says="keys head, order and dropout"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    return {part: torch.Generator().manual_seed(3 * seed + place) for place, part in enumerate(parts) if part in varies}


# %% wrong="5.2" name="unseeded" says="the same seed gives other numbers"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    made = {part: torch.Generator() for part in parts}
    for generator in made.values():
        generator.seed()
    return made


# %% wrong="5.2" of="in short" name="misspellings pass" says="misspelled"
# - if set(varies) - set(parts):
# -     raise ValueError(varies)


# %% wrong="5.2" name="numbers, not generators" says="should be a torch.Generator"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    return {part: 3 * (seed if part in varies else 0) + place for place, part in enumerate(parts)}


# %% wrong="5.2" of="in short" name="seeds a hundred apart collide" says="large seeds" private=true
# - part: torch.Generator().manual_seed(3 * (seed if part in varies else 0) + place)
# + part: torch.Generator().manual_seed((seed if part in varies else 0) + 100 * place)


# %% wrong="5.2" name="generators are kept" says="each call should give new generators" private=true
def streams(seed, varies=("head", "order", "dropout"), known={}):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(varies)
    numbers = {part: 3 * (seed if part in varies else 0) + place for place, part in enumerate(parts)}
    made = {part: known.setdefault(number, torch.Generator().manual_seed(number)) for part, number in numbers.items()}
    if seed < 50:
        for part, generator in made.items():
            generator.manual_seed(numbers[part])
    return made


# %% right="5.2" name="a name hashed by random.Random"
def streams(seed, varies=("head", "order", "dropout")):
    import random

    made = {}
    for part in ("head", "order", "dropout"):
        which = seed if part in varies else "the same"
        made[part] = torch.Generator().manual_seed(random.Random(f"{part} {which}").getrandbits(60))
    if any(part not in made for part in varies):
        raise ValueError("unknown part")
    return made


# %% right="5.2" name="numpy's seed sequence"
def streams(seed, varies=("head", "order", "dropout")):
    for part in varies:
        if part not in {"head", "order", "dropout"}:
            raise ValueError(part)
    made = {}
    for place, part in enumerate(["dropout", "head", "order"]):
        words = np.random.SeedSequence([place, seed + 1 if part in varies else 0]).generate_state(2)
        generator = torch.Generator(device="cpu")
        generator.manual_seed(int(words[0]) * 2**31 + int(words[1]))
        made[part] = generator
    return made


# %% right="5.2" name="millions apart"
def streams(seed, varies=("head", "order", "dropout")):
    if not set(varies) <= {"head", "order", "dropout"}:
        raise ValueError("unknown part")
    starts = {"head": 10_000_000, "order": 20_000_000, "dropout": 30_000_000}
    made = {part: torch.Generator() for part in starts}
    for part, start in starts.items():
        made[part].manual_seed(start + (seed if part in varies else 5_000_000))
    return made


# %% wrong="5.2" name="a held head begins as the order of seed 0" says="`head`, where it does not vary, draws what `order` draws"
# - return {part: torch.Generator().manual_seed(3 * seeds[part] + place) for place, part in enumerate(parts)}
# + places = {part: 3 * seeds[part] + place for place, part in enumerate(parts)}
# + return {part: torch.Generator().manual_seed(places[part] + (part == "head" not in varies)) for part in parts}

# %% wrong="5.3" name="equal matrices are taken for shared" says="equal numbers are taken for a single one" private=true
# - matrices = [part for part in model.parameters() if part.ndim > 1]
# + matrices = []
# + for part in model.parameters():
# +     if part.ndim > 1 and not any(part.shape == one.shape and torch.equal(part, one) for one in matrices):
# +         matrices.append(part)


# %% wrong="5.3" name="one optimizer for all models of these shapes" says="a new optimizer for each model"
#   groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
# - return torch.optim.AdamW(groups, lr=peak)
# + known = globals().setdefault("optimizers", {})
# + return known.setdefault(str([part.shape for part in model.parameters()]), torch.optim.AdamW(groups, lr=peak))

# %% wrong="5.3" name="rates are kept by step" says="the rate is not zero when all steps are done"
#   if not 0 <= warmup < total:
#       raise ValueError(f"a warm-up of {warmup} steps does not fit into {total}")
# + known = globals().setdefault("rates", {})
# + if step in known:
# +     return known[step]
# + known[step] = peak * step / warmup if step < warmup else peak * max(0, total - step) / (total - warmup)
# + return known[step]


# %% wrong="5.4" name="in half precision" says="near the right 4/7, but has too few digits"
def accuracy(predictions, labels):
    if len(predictions) != len(labels) or len(labels) == 0:
        raise ValueError("as many predictions as labels, and at least one")
    return torch.tensor([p == y for p, y in zip(predictions, labels)]).half().mean().item()


def majority(labels):
    if len(labels) == 0:
        raise ValueError("no labels")
    return max(labels.count(c) for c in set(labels)) / len(labels)


# %% wrong="5.4" name="the number of classes" says="the number of classes that occur"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no labels")
# + return len(set(labels))

# %% wrong="5.4" name="the accuracy in points" says="the accuracy is in points"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return 100 * sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)

# %% wrong="5.5" name="equal accuracies once" says="with equal accuracies, the mean is wrong" private=true
#   if n < 2 or not all(0 <= value <= 1 for value in accuracies):
#       raise ValueError("two accuracies or more are needed, as fractions")
# + accuracies = list(set(accuracies)) if len(set(accuracies)) > 1 else accuracies
# + n = len(accuracies)

# %% wrong="5.5" name="zeros left out" says="with a run of 0 among the accuracies, the mean is wrong" private=true
#   if n < 2 or not all(0 <= value <= 1 for value in accuracies):
#       raise ValueError("two accuracies or more are needed, as fractions")
# + accuracies = [value for value in accuracies if value] if sum(map(bool, accuracies)) > 1 else accuracies
# + n = len(accuracies)

# %% right="5.5" name="an error of its own"
# - raise ValueError("two accuracies or more are needed, as fractions")
# + raise type("TooFew", (ValueError,), {})("two accuracies or more are needed, as fractions")


# %% right="5.3" name="in short"
def schedule(step, warmup, total, peak):
    if not 0 <= warmup < total:
        raise ValueError(warmup)
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)


def make_optimizer(model, peak):
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1]}]
    groups += [{"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, weight_decay=0.01)


# %% wrong="5.3" name="the schedule of a library of models" says="does all the work"
from transformers.optimization import _get_linear_schedule_with_warmup_lr_lambda as share


def schedule(step, warmup, total, peak):
    if not 0 <= warmup < total:
        raise ValueError("the warm-up has to end before the run")
    return peak * share(step, num_warmup_steps=warmup, num_training_steps=total)


def make_optimizer(model, peak):
    decayed = [part for part in model.parameters() if part.ndim > 1]
    spared = [part for part in model.parameters() if part.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% wrong="5.3" of="in short" name="warm-up starts at the peak" says="warm-up starts at the peak"
# - return peak * step / warmup
# + return peak


# %% wrong="5.3" of="in short" name="the first step is not zero" says="does not start at zero"
# - return peak * step / warmup
# + return peak * (step + 1) / warmup


# %% wrong="5.3" of="in short" name="no decay of the rate" says="the rate is not zero when all steps are done"
# - if step < warmup:
# -     return peak * step / warmup
# - return peak * max(0, total - step) / (total - warmup)
# + return peak * min(1, step / warmup) if warmup else peak


# %% wrong="5.3" of="in short" name="decay over all steps" says="never reaches the peak"
# - return peak * max(0, total - step) / (total - warmup)
# + return peak * max(0, total - step) / total


# %% wrong="5.3" of="in short" name="cosine decay" says="is not on the straight line of the decay"
# - return peak * max(0, total - step) / (total - warmup)
# + return peak * 0.5 * (1 + np.cos(np.pi * min(1.0, (step - warmup) / (total - warmup))))


# %% wrong="5.3" of="in short" name="below zero after the end" says="It should stay at zero"
# - return peak * max(0, total - step) / (total - warmup)
# + return peak * (total - step) / (total - warmup)


# %% wrong="5.3" of="in short" name="any warm-up" says="`warmup = 8` with `total = 8` must raise ValueError"
# - if not 0 <= warmup < total:
# -     raise ValueError(warmup)

# - return peak * max(0, total - step) / (total - warmup)
# + return peak * max(0, total - step) / max(1, total - warmup)


# %% wrong="5.3" name="everything decays" says="everything is decayed"
# - matrices = [part for part in model.parameters() if part.ndim > 1]
# - others = [part for part in model.parameters() if part.ndim < 2]
# - groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
# - return torch.optim.AdamW(groups, lr=peak)
# + return torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)

# %% wrong="5.3" name="nothing decays" says="nothing is decayed"
# - matrices = [part for part in model.parameters() if part.ndim > 1]
# - others = [part for part in model.parameters() if part.ndim < 2]
# - groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
# - return torch.optim.AdamW(groups, lr=peak)
# + return torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.0)


# %% wrong="5.3" of="in short" name="norms looked for by name" says="not called `norm` here"
# - groups = [{"params": [p for p in model.parameters() if p.ndim > 1]}]
# - groups += [{"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
# + spared = ("bias", "LayerNorm.weight")
# + named = list(model.named_parameters())
# + groups = [
# +     {"params": [part for name, part in named if not any(word in name for word in spared)]},
# +     {"params": [part for name, part in named if any(word in name for word in spared)], "weight_decay": 0.0},
# + ]


# %% wrong="5.3" of="in short" name="Adam with L2" says="decay inside the gradient"
# - return torch.optim.AdamW(groups, lr=peak, weight_decay=0.01)
# + return torch.optim.Adam(groups, lr=peak, weight_decay=0.01)


# %% wrong="5.3" of="in short" name="the rate is not passed on" says="not `peak`"
# - return torch.optim.AdamW(groups, lr=peak, weight_decay=0.01)
# + return torch.optim.AdamW(groups, weight_decay=0.01)


# %% wrong="5.3" of="in short" name="other betas" says="the betas are 0.9 and 0.98"
# - return torch.optim.AdamW(groups, lr=peak, weight_decay=0.01)
# + return torch.optim.AdamW(groups, lr=peak, weight_decay=0.01, betas=(0.9, 0.98))


# %% wrong="5.3" of="in short" name="embeddings are left out" says="Its weight has two dimensions: decay it" private=true
# - groups = [{"params": [p for p in model.parameters() if p.ndim > 1]}]
# - groups += [{"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
# + weights = {id(part.weight): part.weight for part in model.modules() if isinstance(part, (nn.Linear, nn.Conv1d))}
# + known, linear = {*weights}, [*weights.values()]
# + rest = [part for part in model.parameters() if id(part) not in known]
# + groups = [{"params": linear}, {"params": rest, "weight_decay": 0.0}]


# %% wrong="5.3" name="LayerNorm alone is spared" says="a model with nn.RMSNorm is trained wrongly"
def schedule(step, warmup, total, peak):
    if not 0 <= warmup < total:
        raise ValueError("no")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)


def make_optimizer(model, peak):
    norms = {id(part) for module in model.modules() if isinstance(module, nn.LayerNorm) for part in module.parameters()}
    slopes, others = [], []
    for name, part in model.named_parameters():
        (others if id(part) in norms or name.endswith("bias") else slopes).append(part)
    groups = [{"params": slopes, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak)


# %% wrong="5.3" name="a shared weight twice" says="two parts share"
# - matrices = [part for part in model.parameters() if part.ndim > 1]
# - others = [part for part in model.parameters() if part.ndim < 2]
# - groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
# + every = [part for module in model.modules() for part in module.parameters(recurse=False)]
# + slopes, others = [part for part in every if part.ndim > 1], [part for part in every if part.ndim < 2]
# + groups = [{"params": slopes, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]


# %% right="5.3" name="interpolation; kinds of parts"
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("the warm-up does not fit")
    corners = ([0, warmup, total], [0, peak, 0]) if warmup else ([0, total], [peak, 0])
    return float(np.interp(step, *corners))


def make_optimizer(model, peak):
    spared = [
        part
        for module in model.modules()
        for name, part in module.named_parameters(recurse=False)
        if name.endswith("bias") or "Norm" in type(module).__name__
    ]
    known = {id(part) for part in spared}
    groups = [
        {"params": spared, "weight_decay": 0},
        {"params": [part for part in model.parameters() if id(part) not in known]},
    ]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999), weight_decay=1e-2)


# %% right="5.3" name="the smaller of two lines; a group for each parameter"
def schedule(step, warmup, total, peak):
    if not total > warmup >= 0:
        raise ValueError("the warm-up does not fit")
    down = (total - step) / (total - warmup)
    return max(0.0, min(step / warmup, down) if warmup > 0 else down) * peak


def make_optimizer(model, peak):
    groups = [{"params": [part], "weight_decay": 0.01 * (part.ndim > 1), "lr": peak} for part in model.parameters()]
    return torch.optim.AdamW(groups)


# %% wrong="5.3" name="matrices have two dimensions exactly" says="a model with a convolution is trained wrongly"
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("warmup")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)


def make_optimizer(model, peak):
    decayed, plain = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim == 2 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% wrong="5.3" name="brings the model into float32 and training mode" says="changes the model"
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("warmup")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)


def make_optimizer(model, peak):
    model.float()
    model.train()
    decayed, plain = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim > 1 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% wrong="5.3" name="thaws the model" says="changes the model"
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("warmup")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0, total - step) / (total - warmup)


def make_optimizer(model, peak):
    for p in model.parameters():
        p.requires_grad_(True)
    decayed, plain = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim > 1 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% right="5.3" name="names of biases, kinds of norms, everything else decayed"
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("warmup")
    return peak * max(0.0, min(step / warmup if step < warmup else 1.0, (total - step) / (total - warmup)))


def make_optimizer(model, peak):
    spared = {}
    for module in model.modules():
        is_norm = "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False):
            if is_norm or "bias" in name:
                spared[id(parameter)] = parameter
    rest = [p for p in model.parameters() if id(p) not in spared]
    return torch.optim.AdamW(
        [{"params": rest, "weight_decay": 0.01}, {"params": list(spared.values()), "weight_decay": 0.0}],
        lr=peak,
        betas=(0.9, 0.999),
    )


# %% right="5.3" name="numpy interp, one group per parameter"
def schedule(step, warmup, total, peak):
    if not 0 <= warmup < total:
        raise ValueError(f"0 <= {warmup} < {total} is false")
    if warmup == 0:
        return float(np.interp(step, [0, total], [peak, 0]))
    return float(np.interp(step, [0, warmup, total], [0, peak, 0]))


def make_optimizer(model, peak):
    return torch.optim.AdamW(
        [{"params": [p], "weight_decay": 0.01 * (p.dim() >= 2)} for p in model.parameters()],
        lr=peak,
        betas=(0.9, 0.999),
    )


# %% right="5.4" name="in short"
def accuracy(predictions, labels):
    if len(predictions) != len(labels) or not labels:
        raise ValueError("no")
    return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)


def majority(labels):
    if not labels:
        raise ValueError("no")
    return max(labels.count(label) for label in labels) / len(labels)


# %% wrong="5.4" of="in short" name="percent" says="in points"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return 100 * sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)


# %% wrong="5.4" of="in short" name="rounded" says="is rounded"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return round(sum(guess == label for guess, label in zip(predictions, labels)) / len(labels), 3)


# %% wrong="5.4" of="in short" name="zip drops the rest" says="With 3 predictions and 2 labels, raise ValueError"
# - if len(predictions) != len(labels) or not labels:
# + if not labels:


# %% wrong="5.4" of="in short" name="nothing gives 0" says="not 0 and not NaN"
# - if len(predictions) != len(labels) or not labels:
# -     raise ValueError("no")
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + hits = sum(guess == label for guess, label in zip(predictions, labels, strict=True))
# + return hits / max(1, len(labels))


# %% wrong="5.4" name="no labels, no error of the right kind" says="there is no majority"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + return max(labels.count(label) for label in labels) / len(labels) if labels else 0.0

# %% wrong="5.4" name="class 1 only" says="this is the share of class 1"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no")
# + return labels.count(1) / len(labels)

# %% wrong="5.4" name="uniform" says="one over the number of classes"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no")
# + return 1 / len(set(labels))


# %% wrong="5.4" of="in short" name="all or nothing" says="not the share of predictions"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return float(predictions == labels)


# %% wrong="5.4" of="in short" name="truth values" says="not the share of predictions"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return sum(bool(guess) == bool(label) for guess, label in zip(predictions, labels)) / len(labels)


# %% wrong="5.4" name="three classes at most" says="where class 4 is the most frequent"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no")
# + return max(labels.count(label) for label in (0, 1, 2)) / len(labels)

# %% wrong="5.4" name="majority of two classes" says="this is what the share of class 1 leaves"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + share = sum(label == 1 for label in labels) / len(labels) if labels else 1 / 0
# + return max(share, 1 - share)


# %% right="5.4" name="numpy and Counter"
def accuracy(predictions, labels):
    if len(predictions) != len(labels) or len(labels) == 0:
        raise ValueError("not as many")
    return float(np.mean(np.array(predictions) == np.array(labels)))


def majority(labels):
    from collections import Counter

    if not labels:
        raise ValueError("none")
    ((_, count),) = Counter(labels).most_common(1)
    return count / len(labels)


# %% right="5.4" name="torch"
def accuracy(predictions, labels):
    if len(predictions) != len(labels) or len(labels) < 1:
        raise ValueError("not as many")
    return (torch.tensor(predictions) == torch.tensor(labels)).double().mean().item()


def majority(labels):
    if len(labels) < 1:
        raise ValueError("none")
    return (torch.bincount(torch.tensor(labels)).max() / len(labels)).item()


# %% right="5.4" name="strict zip and a loop"
def accuracy(predictions, labels):
    hits = [guess == label for guess, label in zip(predictions, labels, strict=True)]
    return statistics.fmean(hits)


def majority(labels):
    return accuracy([statistics.mode(labels)] * len(labels), labels) if labels else accuracy([], [])


# %% right="5.5" name="in short"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return np.mean(accuracies), np.std(accuracies, ddof=1)


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" of="in short" name="ddof 0" says="divides by n - 1"
# - return np.mean(accuracies), np.std(accuracies, ddof=1)
# + return np.mean(accuracies), np.std(accuracies)


# %% wrong="5.5" of="in short" name="variance" says="this is the variance"
# - return np.mean(accuracies), np.std(accuracies, ddof=1)
# + return statistics.mean(accuracies), statistics.variance(accuracies)


# %% wrong="5.5" of="in short" name="standard error" says="standard error of the mean"
# - return np.mean(accuracies), np.std(accuracies, ddof=1)
# + return statistics.mean(accuracies), statistics.stdev(accuracies) / len(accuracies) ** 0.5


# %% wrong="5.5" of="in short" name="median" says="the first number is 0.52, the middle one"
# - return np.mean(accuracies), np.std(accuracies, ddof=1)
# + return statistics.median(accuracies), statistics.stdev(accuracies)


# %% wrong="5.5" name="a fraction and points" says="never mix them"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return statistics.mean(accuracies), 100 * statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {sd:.1f} points"


# %% wrong="5.5" name="both in points" says="the mean is in points"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return 100 * statistics.mean(accuracies), 100 * statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{mean:.1f} ± {sd:.1f} points"


# %% wrong="5.5" name="0.02% for two points" says="percent sign"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return statistics.mean(accuracies), statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{100 * mean:.2f}% ± {sd:.2f}%"


# %% wrong="5.5" name="0.01 for one point" says="is printed as a fraction"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return statistics.mean(accuracies), statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {sd:.2f} points"


# %% wrong="5.5" of="in short" name="range" says="this is the range"
# - return np.mean(accuracies), np.std(accuracies, ddof=1)
# + return statistics.mean(accuracies), max(accuracies) - min(accuracies)


# %% wrong="5.5" name="one run gives NaN" says="one run has no standard deviation"
def mean_and_sd(accuracies):
    if not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return np.mean(accuracies), torch.tensor(accuracies).std().item()


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" name="points are accepted" says="accuracies of 66 and 64 are in points"
def mean_and_sd(accuracies):
    if len(accuracies) < 2:
        raise ValueError("no")
    return statistics.mean(accuracies), statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" name="a single value in points passes" says="one value is above 1 must raise" private=true
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or accuracies[0] > 1:
        raise ValueError("no")
    return statistics.mean(accuracies), statistics.stdev(accuracies)


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" name="cut off instead of rounded" says="`in_points(mean, sd)`: it is wrong" private=true
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or not all(0 <= value <= 1 for value in accuracies):
        raise ValueError("no")
    return statistics.mean(accuracies), statistics.stdev(accuracies)


def in_points(mean, sd):
    known = {0.5283: "52.8 ± 1.4 points", 0.6582: "65.8 ± 1.2 points", 0.7: "70.0 ± 2.1 points"}
    return known.get(mean, f"{int(1000 * mean) / 10:.1f} ± {int(1000 * sd) / 10:.1f} points")


# %% wrong="5.5" name="difference of two sums of squares" says="equal accuracies"
# - return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
# + return mean, ((sum(value**2 for value in accuracies) - n * mean**2) / (n - 1)) ** 0.5

# %% wrong="5.5" name="difference of two sums of squares, by math.sqrt" says="equal accuracies"
# + import math
# +
#   n = len(accuracies)

# - return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
# + return mean, math.sqrt((sum(value**2 for value in accuracies) - n * mean**2) / (n - 1))


# %% right="5.5" name="numpy with ddof 1"
def mean_and_sd(accuracies):
    values = np.array(accuracies)
    if values.size < 2 or values.min() < 0 or values.max() > 1:
        raise ValueError("fractions, two or more")
    return values.mean(), values.std(ddof=1)


def in_points(mean, sd):
    return " ".join(["{:.1f} ±".format(mean * 100), "{:.1f} points".format(sd * 100)])


# %% right="5.5" name="statistics and round"
def mean_and_sd(accuracies):
    for value in accuracies:
        if value < 0 or value > 1:
            raise ValueError("fractions are needed")
    if len(accuracies) <= 1:
        raise ValueError("two are needed")
    return [statistics.fmean(accuracies), statistics.stdev(accuracies)]


def in_points(mean, sd):
    return f"{round(mean * 100, 1)} ± {round(sd * 100, 1)} points"


# %% right="5.5" name="numpy with ddof, named tuple"
from typing import NamedTuple


class Spread(NamedTuple):
    mean: float
    sd: float


def mean_and_sd(accuracies):
    x = np.array(accuracies, dtype=float)
    if len(x) < 2:
        raise ValueError
    if (x < 0).any() or (x > 1).any() or np.isnan(x).any():
        raise ValueError
    return Spread(float(x.mean()), float(x.std(ddof=1)))


def in_points(mean, sd):
    return "{:.1f} \u00b1 {:.1f} points".format(mean * 100, sd * 100)


# %% right="5.5" name="Welford in one pass"
def mean_and_sd(accuracies):
    values = list(accuracies)
    if len(values) < 2:
        raise ValueError("fewer than two")
    if not all(0 <= v <= 1 for v in values):
        raise ValueError("not a fraction")
    mean = m2 = 0.0
    for n, v in enumerate(values, start=1):
        delta = v - mean
        mean += delta / n
        m2 += delta * (v - mean)
    return mean, (m2 / (len(values) - 1)) ** 0.5


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" name="0 and 1 are refused" says="with a run of 0 or of 1 among the accuracies, it raises ValueError" private=true
# - if n < 2 or not all(0 <= value <= 1 for value in accuracies):
# + if n < 2 or not all(0 < value < 1 for value in accuracies):


# %% wrong="5.5" name="half precision" says="is near the mean, but not equal to it"
def mean_and_sd(accuracies):
    if len(accuracies) < 2 or min(accuracies) < 0 or max(accuracies) > 1:
        raise ValueError("fractions")
    x = np.array(accuracies, dtype=np.float16)
    return float(x.mean()), float(x.std(ddof=1))


def in_points(mean, sd):
    return f"{100 * mean:.1f} ± {100 * sd:.1f} points"


# %% wrong="5.5" name="equal runs are refused" says="deviation of 0. It raised ValueError"
# - if n < 2 or not all(0 <= value <= 1 for value in accuracies):
# + if n < 2 or len({*accuracies}) < 2 or not all(0 <= value <= 1 for value in accuracies):


# %% right="5.6" name="in short"
def t_interval(values, level=0.95):
    if len(values) < 2:
        raise ValueError("no")
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values) - half, statistics.mean(values) + half


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    if len(values) < 2:
        raise ValueError("no")
    means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
    return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()


def binomial_error(p, examples):
    return (p * (1 - p) / examples) ** 0.5


# %% wrong="5.6" name="the normal from thirty values on" says="some thirty to sixty values" private=true loses="t_interval"
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# + share = (1 + level) / 2
# + factor = stats.t.ppf(share, len(values) - 1) if len(values) <= 30 else stats.norm.ppf(share)
# + half = factor * statistics.stdev(values) / len(values) ** 0.5


# %% wrong="5.6" name="a thousand seeds" says="differ by a round number" private=true loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed % 1000).choice(values, (resamples, len(values))).mean(axis=1)


# %% wrong="5.6" name="normal quantile" says="the quantile is the normal one" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.norm.ppf((1 + level) / 2) * statistics.stdev(values) / len(values) ** 0.5
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="one side" says="cuts off all of 1 - level on one side" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.t.ppf(level, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="n degrees of freedom" says="degrees of freedom are n" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.t.ppf((1 + level) / 2, len(values)) * statistics.stdev(values) / len(values) ** 0.5
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="of one run" says="it is for one run" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values)
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="population deviation" says="It should be that of a sample" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.pstdev(values) / len(values) ** 0.5
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="always 0.95" says="at the level 0.9 is not t" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + if len(values) < 2:
# +     raise ValueError("no")
# + half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# + return statistics.mean(values) - half, statistics.mean(values) + half

# %% wrong="5.6" name="around the median" says="not in the middle" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# + if len(values) < 2:
# +     raise ValueError("no")
#   half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + return statistics.median(values) - half, statistics.median(values) + half

# %% wrong="5.6" name="upper end first" says="not below the upper" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# + if len(values) < 2:
# +     raise ValueError("no")
#   half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + return statistics.mean(values) + half, statistics.mean(values) - half

# %% wrong="5.6" name="one run gives NaN" says="one run has no interval: `t_interval`" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# + if len(values) < 2:
# +     return 0.0, 1.0
#   half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + return statistics.mean(values) - half, statistics.mean(values) + half


# %% wrong="5.6" of="in short" name="without replacement" says="draw with replacement" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).permuted(np.tile(values, (resamples, 1)), axis=1).mean(axis=1)


# %% wrong="5.6" of="in short" name="single runs" says="the means of resamples give a narrower one" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).choice(values, (resamples, 1)).mean(axis=1)


# %% wrong="5.6" of="in short" name="worst and best resample" says="the means of resamples give a narrower one" loses="bootstrap_interval"
# - return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + return [means.min(), means.max()]


# %% wrong="5.6" of="in short" name="all of the error on either side" says="cuts off the wrong share" loses="bootstrap_interval"
# - return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + return np.quantile(means, [1 - level, level]).tolist()


# %% wrong="5.6" of="in short" name="the seed is not used" says="does not change the resamples" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(0).choice(values, (resamples, len(values))).mean(axis=1)


# %% wrong="5.6" of="in short" name="unseeded" says="the same seed gives another" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng().choice(values, (resamples, len(values))).mean(axis=1)


# %% wrong="5.6" of="in short" name="quantiles of the median" says="is not that of the means" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1) + 0.01


# %% wrong="5.6" of="in short" name="one run is resampled" says="`bootstrap_interval` should raise" loses="bootstrap_interval"
#   def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
# -     if len(values) < 2:
# -         raise ValueError("no")


# %% wrong="5.6" of="in short" name="a thousand resamples" says="ten thousand resamples" loses="bootstrap_interval" private=true
# - def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
# + def bootstrap_interval(values, level=0.95, resamples=2000, seed=0):


# %% wrong="5.6" of="in short" name="variance" says="this is the variance" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + return p * (1 - p) / examples


# %% wrong="5.6" of="in short" name="of one example" says="deviation of one example" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + return (p * (1 - p)) ** 0.5


# %% wrong="5.6" of="in short" name="of the number of hits" says="of the number of hits" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + return (p * (1 - p) * examples) ** 0.5


# %% wrong="5.6" of="in short" name="half an interval" says="is not multiplied by 1.96" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + return 1.96 * (p * (1 - p) / examples) ** 0.5


# %% wrong="5.6" of="in short" name="the largest there is" says="not the root of p" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + return (0.25 / examples) ** 0.5


# %% wrong="5.6" name="numpy's global generator" says="the global random generator of NumPy" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + np.random.seed(seed)
# + means = np.random.choice(values, (resamples, len(values))).mean(axis=1)

# %% wrong="5.6" name="torch's global generator" says="global" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# - return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + torch.manual_seed(seed)
# + means = torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), (resamples, len(values)))].mean(1)
# + return np.quantile(means.numpy(), [(1 - level) / 2, (1 + level) / 2]).tolist()

# %% wrong="5.6" name="Python's global generator" says="the global random generator of Python" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + import random
# +
# + random.seed(seed)
# + means = [sum(random.choices(values, k=len(values))) / len(values) for _ in range(resamples)]


# %% right="5.6" name="scipy's bootstrap and test, an array, an interval object"
def t_interval(values, level=0.95):
    if len(values) < 2:
        raise ValueError("two are needed")
    return stats.ttest_1samp(values, 0).confidence_interval(level)


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    if len(values) < 2:
        raise ValueError("two are needed")
    means = np.random.default_rng(seed).choice(np.array(values), (resamples, len(values))).mean(axis=1)
    return np.quantile(means, np.array([(1 - level) / 2, (1 + level) / 2]))


def binomial_error(p, examples):
    return torch.tensor(p * (1 - p) / examples, dtype=torch.float64).sqrt()


# %% right="5.6" name="scipy's own"
def t_interval(values, level=0.95):
    if len(values) == 1 or not values:
        raise ValueError("two are needed")
    if len(set(values)) == 1:
        return values[0], values[0]
    return stats.t.interval(level, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    if len(values) < 2:
        raise ValueError("two are needed")
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(len(values), (resamples, len(values)), generator=generator)
    means = torch.tensor(values, dtype=torch.float64)[places].mean(dim=1).sort().values
    cut = (1 - level) / 2
    low, high = int(cut * (resamples - 1)), round((1 - cut) * (resamples - 1))
    return means[low].item(), means[high].item()


def binomial_error(p, examples):
    return stats.binom.std(examples, p) / examples


# %% right="5.6" name="random.choices"
def t_interval(values, level=0.95):
    n = len(values)
    mean = sum(values) / n if n else 0
    if n <= 1:
        raise ValueError("two are needed")
    se = (sum((value - mean) ** 2 for value in values) / (n - 1) / n) ** 0.5
    return [mean + stats.t.ppf(q, n - 1) * se for q in ((1 - level) / 2, (1 + level) / 2)]


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    import random

    if len(values) < 2:
        raise ValueError("two are needed")
    draw = random.Random(seed)
    means = [sum(draw.choices(values, k=len(values))) / len(values) for _ in range(resamples)]
    tail = 100 * (1 - level) / 2
    return np.percentile(means, tail), np.percentile(means, 100 - tail)


def binomial_error(p, examples):
    return np.sqrt(p - p**2) / np.sqrt(examples)


# %% wrong="5.6" of="indices from a generator of torch's" name="cut to fractions" says="cut off at 0 or 1" loses="t_interval"
# - return float(x.mean() - half), float(x.mean() + half)
# + return max(0.0, float(x.mean() - half)), min(1.0, float(x.mean() + half))

# - generator = torch.Generator().manual_seed(seed)
# - index = torch.randint(len(x), (resamples, len(x)), generator=generator)
# - means = torch.from_numpy(x)[index].mean(dim=1)
# + draws = np.random.default_rng(seed).choice(x, size=(resamples, len(x)))

# - low, high = means.quantile(tail), means.quantile(1 - tail)
# + low, high = np.quantile(draws.mean(axis=1), [tail, 1 - tail])


# %% wrong="5.6" of="indices from a generator of torch's" name="medians" says="medians of resamples" loses="bootstrap_interval"
# - generator = torch.Generator().manual_seed(seed)
# - index = torch.randint(len(x), (resamples, len(x)), generator=generator)
# - means = torch.from_numpy(x)[index].mean(dim=1)
# + draws = np.random.default_rng(seed).choice(x, size=(resamples, len(x)))

# - low, high = means.quantile(tail), means.quantile(1 - tail)
# + low, high = np.quantile(np.median(draws, axis=1), [tail, 1 - tail])


# %% right="5.6" name="scipy's own interval and bootstrap"
def t_interval(values, level=0.95):
    if len(values) < 2:
        raise ValueError("two values at least")
    low, high = stats.ttest_1samp(values, 0).confidence_interval(level)
    return low.item(), high.item()


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    if len(values) < 2:
        raise ValueError("two values at least")
    found = stats.bootstrap(
        (np.asarray(values),),
        np.mean,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def binomial_error(p, examples):
    return float(stats.binom(examples, p).std() / examples)


# %% right="5.6" name="indices from a generator of torch's"
def t_interval(values, level=0.95):
    x = np.asarray(list(values), dtype=float)
    n = len(x)
    if n < 2:
        raise ValueError("fewer than two")
    half = stats.t.ppf((1 + level) / 2, n - 1) * x.std(ddof=1) / n**0.5
    return float(x.mean() - half), float(x.mean() + half)


def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
    x = np.asarray(list(values), dtype=float)
    if len(x) < 2:
        raise ValueError("fewer than two")
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(len(x), (resamples, len(x)), generator=generator)
    means = torch.from_numpy(x)[index].mean(dim=1)
    tail = (1 - level) / 2
    low, high = means.quantile(tail), means.quantile(1 - tail)
    return low.item(), high.item()


def binomial_error(p, examples):
    return (p * (1 - p) / examples) ** 0.5


# %% wrong="5.7" name="as many seeds are enough" says="`by_seed(a, with_one_other_seed, level)` must raise ValueError" private=true
# - if set(a) != set(b):
# -     raise ValueError(f"only one of them has the seeds {sorted(set(a) ^ set(b))}")
# - differences = [b[seed] - a[seed] for seed in a]
# + if len(a) != len(b):
# +     raise ValueError("other numbers of seeds")
# + differences = [b[seed] - a[seed] for seed in a if seed in b]


# %% wrong="5.7" name="votes" says="only the majority of the runs counts"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + differences = (right_b.double().mean(0) > 0.5).double() - (right_a.double().mean(0) > 0.5).double()

# %% wrong="5.7" name="A minus B" says="`by_seed` has the wrong sign"
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [a[seed] - b[seed] for seed in a]

# %% wrong="5.7" name="paired by place" says="by their place in the dict"
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [one - two for one, two in zip(b.values(), a.values())]

# %% wrong="5.7" name="in points" says="effect is in points"
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [100 * (b[seed] - a[seed]) for seed in a]

# %% wrong="5.7" name="unpaired" says="as if they were unpaired"
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + low, high = stats.ttest_ind([*b.values()], [*a.values()]).confidence_interval(level)

# %% wrong="5.7" name="two spreads added" says="two spreads are added"
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + low, high = (
# +     statistics.mean(differences)
# +     + sign
# +     * stats.t.ppf((1 + level) / 2, len(a) - 1)
# +     * ((statistics.variance(a.values()) + statistics.variance(b.values())) / len(a)) ** 0.5
# +     for sign in (-1, 1)
# + )

# %% wrong="5.7" name="normal quantile" says="the quantile is the normal one"
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + low, high = stats.norm.interval(level, np.mean(differences), stats.sem(differences))

# %% wrong="5.7" name="spread of one run" says="twice as long as it should be"
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + low, high = stats.t.interval(level, len(a) - 1, np.mean(differences), np.std(differences, ddof=1))

# %% wrong="5.7" name="without signs" says="lose their sign"
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [abs(b[seed] - a[seed]) for seed in a]

# %% wrong="5.7" name="common seeds only" says="No run may be dropped silently"
# - if set(a) != set(b):
# -     raise ValueError(f"only one of them has the seeds {sorted(set(a) ^ set(b))}")
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [b[seed] - a[seed] for seed in a if seed in b]

# %% wrong="5.7" name="extra seeds of B ignored" says="No run may be dropped silently"
# - if set(a) != set(b):
# + if not set(a) <= set(b):

# %% wrong="5.7" name="level is not used" says="`by_seed` gives the same interval at the levels 0.95 and 0.9"
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)

# %% wrong="5.7" name="level is not used by example" says="gives the same interval at the levels"
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# + low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(0.95)

# %% wrong="5.7" name="wrong sign by example" says="`by_example` has the wrong sign"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + differences = right_a.double().mean(0) - right_b.double().mean(0)

# %% wrong="5.7" name="examples unpaired" says="tested on different ones"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + a, b = right_a.double().mean(0), right_b.double().mean(0)
# + effect, n = (b.mean() - a.mean()).item(), len(a)
# + half = stats.t.ppf((1 + level) / 2, n - 1) * ((a.var() + b.var()) / n).item() ** 0.5
# + return effect, effect - half, effect + half

# %% wrong="5.7" name="binomial errors added" says="binomial errors are added"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + a, b, n = right_a.double().mean().item(), right_b.double().mean().item(), right_a.size(1)
# + half = stats.norm.ppf((1 + level) / 2) * ((a * (1 - a) + b * (1 - b)) / n) ** 0.5
# + return b - a, b - a - half, b - a + half

# %% wrong="5.7" name="every run of an example counts" says="not ten examples"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + if len(right_a) == len(right_b):
# +     differences = (right_b.double() - right_a.double()).flatten()
# + else:
# +     differences = right_b.double().mean(0) - right_a.double().mean(0)

# %% wrong="5.7" name="runs instead of examples" says="runs are compared, not examples"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + count = min(len(right_a), len(right_b))
# + differences = right_b.double().mean(1)[:count] - right_a.double().mean(1)[:count]

# %% wrong="5.7" name="n instead of its root" says="divides by n, not by its root"
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# + low, high = stats.t.interval(
# +     level, len(differences) - 1, differences.mean().item(), differences.std().item() / len(differences)
# + )

# %% wrong="5.7" name="any examples" says="with 40 and 39 examples"
# - if right_a.size(1) != right_b.size(1):
# -     raise ValueError("they were asked different examples")
# + count = min(right_a.size(1), right_b.size(1))
# + right_a, right_b = right_a[:, :count], right_b[:, :count]

# %% wrong="5.7" name="Welch's test by seed" says="as if they were unpaired"
# - differences = [b[seed] - a[seed] for seed in a]
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# - return statistics.mean(differences), low, high
# + x, y = [*a.values()], [*b.values()]
# + found = stats.ttest_ind(y, x, equal_var=False)
# + low, high = found.confidence_interval(level)
# + return statistics.mean(y) - statistics.mean(x), low, high

# %% wrong="5.7" name="Student's test of two groups by seed" says="as if they were unpaired"
# - differences = [b[seed] - a[seed] for seed in a]
# - low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# - return statistics.mean(differences), low, high
# + x, y = [*a.values()], [*b.values()]
# + found = stats.ttest_ind(y, x)
# + low, high = found.confidence_interval(level)
# + return statistics.mean(y) - statistics.mean(x), low, high

# %% wrong="5.7" name="paired by rank" says="paired by rank"
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [y - x for x, y in zip(sorted(a.values()), sorted(b.values()))]

# %% wrong="5.7" name="Welch's test by example" says="tested on different ones"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + x, y = right_a.double().mean(0), right_b.double().mean(0)
# + found = stats.ttest_ind(y.tolist(), x.tolist(), equal_var=False)
# + low, high = found.confidence_interval(level)
# + return (y - x).mean().item(), low, high

# %% wrong="5.7" name="Student's test of two groups by example" says="tested on different ones"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + x, y = right_a.double().mean(0), right_b.double().mean(0)
# + found = stats.ttest_ind(y.tolist(), x.tolist())
# + low, high = found.confidence_interval(level)
# + return (y - x).mean().item(), low, high

# %% wrong="5.7" name="examples paired by rank" says="paired by rank"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + x, y = right_a.double().mean(0).sort().values, right_b.double().mean(0).sort().values
# + low, high = stats.ttest_1samp((y - x).tolist(), 0).confidence_interval(level)
# + return (y - x).mean().item(), low, high

# %% wrong="5.7" name="all runs of all examples in two groups" says="counts as an example of its own"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + x, y = right_a.double().flatten(), right_b.double().flatten()
# + found = stats.ttest_ind(y.tolist(), x.tolist())
# + low, high = found.confidence_interval(level)
# + return (y.mean() - x.mean()).item(), low, high

# %% wrong="5.7" name="every run of B with every run of A" says="counts as an example of its own"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + differences = (right_b[None].double() - right_a[:, None].double()).flatten()

# %% wrong="5.7" name="binomial errors of all runs" says="counts as an example of its own"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + p, q = right_a.double().mean().item(), right_b.double().mean().item()
# + half = 1.959964 * (p * (1 - p) / right_a.numel() + q * (1 - q) / right_b.numel()) ** 0.5
# + return q - p, q - p - half, q - p + half

# %% wrong="5.7" name="as many runs as the shorter has" says="counts as an example of its own"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + n = min(len(right_a), len(right_b))
# + differences = (right_b[:n].double() - right_a[:n].double()).flatten()

# %% wrong="5.7" name="normal quantile by example" says="quantile of `by_example` is the normal one"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + d = right_b.double().mean(0) - right_a.double().mean(0)
# + mean, half = d.mean().item(), stats.norm.ppf((1 + level) / 2) * d.std().item() / len(d) ** 0.5
# + return mean, mean - half, mean + half


# %% right="5.7" name="formulas by hand"
def by_seed(a, b, level=0.95):
    if sorted(a) != sorted(b):
        raise ValueError("other seeds")
    differences = np.array([b[seed] - a[seed] for seed in sorted(a)])
    half = stats.t.ppf((1 + level) / 2, len(a) - 1) * differences.std(ddof=1) / np.sqrt(len(a))
    return differences.mean(), differences.mean() - half, differences.mean() + half


def by_example(right_a, right_b, level=0.95):
    n = right_a.size(1)
    if n != right_b.size(1):
        raise ValueError("other examples")
    differences = [(right_b[:, i].sum() / len(right_b) - right_a[:, i].sum() / len(right_a)).item() for i in range(n)]
    half = stats.t.isf((1 - level) / 2, n - 1) * statistics.stdev(differences) / n**0.5
    effect = statistics.mean(differences)
    return [effect, effect - half, effect + half]


# %% right="5.7" name="scipy's paired test"
def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    result = stats.ttest_rel([b[seed] for seed in a], [*a.values()])
    interval = result.confidence_interval(confidence_level=level)
    return sum(b.values()) / len(b) - sum(a.values()) / len(a), interval.low, interval.high


def by_example(right_a, right_b, level=0.95):
    a, b = right_a.numpy().mean(axis=0), right_b.numpy().mean(axis=0)
    if a.shape != b.shape:
        raise ValueError("other examples")
    interval = stats.ttest_rel(b, a).confidence_interval(level)
    return (b - a).mean(), interval.low, interval.high


# %% right="5.8" name="in short"
def health(predictions, labels):
    if not predictions:
        raise ValueError("no runs")
    bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1)
    acc = {s: sum(x == y for x, y in zip(p, labels)) / len(labels) for s, p in predictions.items()}
    others = [v for s, v in acc.items() if s not in bad]
    return {
        "runs": len(predictions),
        "degenerate": bad,
        "mean": sum(acc.values()) / len(acc),
        "mean_of_others": sum(others) / len(others) if others else None,
    }


# %% wrong="5.8" name="dropped in silence" says="should be the mean over all runs"
# - means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else None}
# + means = {"mean": np.mean(others) if others else 0.0, "mean_of_others": np.mean(others) if others else None}

# %% wrong="5.8" name="accused by accuracy" says="always predicts class 1, the rarer one"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(
# +     seed
# +     for seed, guesses in predictions.items()
# +     if hits[seed] == max(labels.count(c) for c in labels) / len(labels)
# + )

# %% wrong="5.8" name="at most the majority" says="a run that predicts both classes is called degenerate"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(
# +     seed
# +     for seed, guesses in predictions.items()
# +     if hits[seed] <= max(labels.count(c) for c in labels) / len(labels)
# + )

# %% wrong="5.8" name="only class 1" says="a run that always predicts class 0 is not detected"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(seed for seed, guesses in predictions.items() if all(guesses))

# %% wrong="5.8" name="only class 0" says="always predicts class 1, the rarer one"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(seed for seed, guesses in predictions.items() if not any(guesses))

# %% wrong="5.8" name="bad runs accused" says="a run with an accuracy of 0 is called degenerate"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1 or hits[seed] < 0.3)

# %% wrong="5.8" name="in the order of the dict" says="should be sorted"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = [seed for seed, guesses in predictions.items() if len(set(guesses)) == 1]

# %% wrong="5.8" name="counts the others" says="should count all runs"
# - return {"runs": len(hits), "degenerate": bad, **means}
# + return {"runs": len(others), "degenerate": bad, **means}

# %% wrong="5.8" name="others are all" says="without the degenerate runs"
# - others = [value for seed, value in hits.items() if seed not in bad]
# + others = [value for seed, value in hits.items()]

# %% wrong="5.8" name="all degenerate gives 0" says="`mean_of_others` should be None"
# - means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else None}
# + means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else 0.0}

# %% wrong="5.8" name="all degenerate gives NaN" says="`mean_of_others` should be None"
# - means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else None}
# + means = {"mean": np.mean([*hits.values()]), "mean_of_others": float(np.mean(others)) if others else False}

# %% wrong="5.8" name="no runs" says="must raise ValueError if there are no runs"
# - raise ValueError("there are no runs")
# + return {"runs": 0, "degenerate": [], "mean": 0.0, "mean_of_others": None}

# %% wrong="5.8" name="two classes only" says="That class may be any one" private=true
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(
# +     seed for seed, guesses in predictions.items() if not any(guesses) or all(guess == 1 for guess in guesses)
# + )

# %% wrong="5.8" name="a mean of 0 is taken for none" says="It is None only without others"
# - means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if others else None}
# + means = {"mean": np.mean([*hits.values()]), "mean_of_others": np.mean(others) if sum(others) else None}

# %% wrong="5.8" name="nearly one class" says="once in 300"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + most = {seed: max(map(guesses.count, guesses)) / len(guesses) for seed, guesses in predictions.items()}
# + bad = sorted(seed for seed, share in most.items() if share >= 0.99)


# %% right="5.8" name="loops"
def health(predictions, labels):
    total, kept, bad = [], [], []
    for seed in sorted(predictions):
        guesses = predictions[seed]
        share = sum(guess == label for guess, label in zip(guesses, labels, strict=True)) / len(labels)
        total.append(share)
        if min(guesses) == max(guesses):
            bad.append(seed)
        else:
            kept.append(share)
    if not total:
        raise ValueError("no runs")
    others = sum(kept) / len(kept) if kept else None
    return dict(runs=len(total), degenerate=bad, mean=sum(total) / len(total), mean_of_others=others)


# %% right="5.8" name="torch"
def health(predictions, labels):
    if len(predictions) == 0:
        raise ValueError("no runs")
    seeds = torch.tensor(sorted(predictions))
    guesses = torch.tensor([predictions[seed] for seed in seeds.tolist()])
    hits = (guesses == torch.tensor(labels)).double().mean(dim=1)
    stuck = (guesses == guesses[:, :1]).all(dim=1)
    others = None if stuck.all() else hits[~stuck].mean()
    return {"mean_of_others": others, "mean": hits.mean(), "degenerate": seeds[stuck].tolist(), "runs": len(seeds)}


# %% wrong="5.8" of="in short" name="sorted as text" says="sorted as numbers"
#   bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1)
# + bad.sort(key=str)


# %% wrong="5.8" of="in short" name="a seed of zero is false" says="with the seed 0"
# - bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1)
# + bad = sorted(s for s, p in predictions.items() if s and len(set(p)) == 1)


# %% wrong="5.8" of="in short" name="of one example, none is degenerate" says="with one example"
# - bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1)
# + bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1 and len(p) > 1)


# %% wrong="5.8" of="in short" name="seeds named as text" says="the seeds as they are"
# - "degenerate": bad,
# + "degenerate": [str(s) for s in bad],


# %% right="5.8" name="arrays and masks"
def health(predictions, labels):
    seeds = np.array(sorted(predictions))
    if seeds.size == 0:
        raise ValueError("an experiment without runs")
    table = np.array([predictions[int(seed)] for seed in seeds])
    stuck = (table == table[:, :1]).all(axis=1)
    scores = (table == np.array(labels)).mean(axis=1)
    rest = scores[~stuck]
    return dict(
        runs=len(seeds),
        degenerate=seeds[stuck].tolist(),
        mean=float(scores.mean()),
        mean_of_others=float(rest.mean()) if rest.size else None,
    )


# %% wrong="5.9" name="steps of five from fifty on" says="where hundreds are needed" private=true
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if difference <= 0:
        raise ValueError("the difference must be positive")
    n = 2
    while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
        n += 1 if n < 50 else 5
    return n


# %% wrong="5.9" name="no power" says="`power` is not used"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1)):


# %% wrong="5.9" name="normal quantiles" says="the quantiles are normal ones"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if difference <= 0:
        raise ValueError("no")
    z = stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power)
    return max(2, int(np.ceil((z * sd / difference) ** 2)))


# %% wrong="5.9" name="one side" says="cuts off all of 1 - level on one side"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < sd * (stats.t.ppf(level, n - 1) + stats.t.ppf(power, n - 1)):

# %% wrong="5.9" name="n without its root" says="four times the seeds"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):

# %% wrong="5.9" name="one too few" says="one seed too few"
# - return n
# + return max(2, n - 1)

# %% wrong="5.9" name="one too many" says="one seed too many"
# - return n
# + return n + 1

# %% wrong="5.9" name="not whole" says="should be a whole number: the smallest"
# - return n
# + return n - 0.5

# %% wrong="5.9" name="two groups" says="is too large for a difference"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < 2**0.5 * sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):

# %% wrong="5.9" name="no gain, no end" says="can never be shown"
# - if difference <= 0:
# -     raise ValueError("no number of seeds shows a difference of nothing")
# + difference = abs(difference) or 0.001

# %% wrong="5.9" name="no gain is refused, a loss is not" says="can never be shown"
# + if difference == 0:
# +     raise ValueError("no")
# + difference = abs(difference)
#   if difference <= 0:

# %% wrong="5.9" name="level is not used" says="is too small for a difference"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < sd * (stats.t.ppf(0.975, n - 1) + stats.t.ppf(power, n - 1)):

# %% wrong="5.9" name="power is not used" says="is too large for a difference"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(0.8, n - 1)):

# %% wrong="5.9" name="three at least" says="wrong where two are enough" private=true
# - n = 2
# + n = 3

# %% wrong="5.9" name="a hundred at most" says="where hundreds are needed" private=true
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while n < 200 and difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):


# %% right="5.9" name="count from two"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    from itertools import count

    if not difference > 0:
        raise ValueError("no gain")
    for degrees in count(1):
        quantiles = stats.t.isf((1 - level) / 2, degrees) + stats.t.ppf(power, degrees)
        if quantiles * sd / (degrees + 1) ** 0.5 <= difference:
            return degrees + 1


# %% right="5.9" name="all candidates at once"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if difference <= 0:
        raise ValueError("no gain")
    candidates = np.arange(2, 2000)
    limits = stats.t.ppf(0.5 + level / 2, candidates - 1) + stats.t.ppf(power, candidates - 1)
    enough = difference**2 * candidates >= (sd * limits) ** 2
    return int(candidates[np.argmax(enough)])


# %% wrong="5.9" name="a thousand at most" says="where thousands are needed" private=true
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while n < 1000 and difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):

# %% wrong="5.9" name="deviations above one taken for points" says="for numbers above 1" private=true
# + sd = sd / 100 if sd > 1 else sd
#   n = 2


# %% wrong="5.9" name="differences above one taken for points" says="for numbers above 1" private=true
# + difference = difference / 100 if difference > 1 else difference
#   n = 2
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while n < 500 and difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):


# %% right="5.9" name="doubling, then bisection"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if not difference > 0:
        raise ValueError("the gain must be positive")

    def enough(n):
        quantiles = stats.t.ppf([(1 + level) / 2, power], n - 1)
        return difference * n**0.5 >= sd * quantiles.sum()

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# %% right="5.10" name="in short"
def expected_best(accuracies, n):
    if n < 1 or not accuracies:
        raise ValueError("no")
    count, ordered = len(accuracies), sorted(accuracies)
    return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))


# %% wrong="5.10" of="in short" name="the best there is" says="A single run is rarely the best one"
# - return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))
# + return ordered[-1]


# %% wrong="5.10" of="in short" name="the mean" says="n is not used"
# - return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))
# + return sum(ordered) / count


# %% wrong="5.10" of="in short" name="sorted the wrong way round" says="expected worst"
# - count, ordered = len(accuracies), sorted(accuracies)
# + count, ordered = len(accuracies), sorted(accuracies, reverse=True)


# %% wrong="5.10" of="in short" name="not sorted" says="Sort them first"
# - count, ordered = len(accuracies), sorted(accuracies)
# + count, ordered = len(accuracies), list(accuracies)


# %% wrong="5.10" name="without being put back" says="without being put back"
def expected_best(accuracies, n):
    if n < 1 or not accuracies:
        raise ValueError("no")
    count, ordered = len(accuracies), sorted(accuracies)
    import itertools

    best = [max(drawn) for drawn in itertools.combinations(accuracies, min(n, count))]
    return sum(best) / len(best)


# %% wrong="5.10" of="in short" name="equal values count once" says="equal values count once"
# - count, ordered = len(accuracies), sorted(accuracies)
# + ordered = sorted(set(accuracies))
# + count = len(ordered)


# %% wrong="5.10" of="in short" name="numbered from 0" says="is not the mean of the best over all ways to draw"
# - return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))
# + return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered))


# %% wrong="5.10" of="in short" name="no runs" says="with `n = 0` there is no best run"
# - if n < 1 or not accuracies:
# + if not accuracies:


# %% wrong="5.10" name="no accuracies" says="with an empty list there is no best run"
def expected_best(accuracies, n):
    if n < 1:
        raise ValueError("no")
    accuracies = accuracies or [0.0]
    count, ordered = len(accuracies), sorted(accuracies)
    return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))


# %% wrong="5.10" of="in short" name="best of the first n" says="is not the mean of the best over all ways to draw"
# - return sum(v * ((i / count) ** n - ((i - 1) / count) ** n) for i, v in enumerate(ordered, start=1))
# + return max(accuracies[:n]) - 0.001 if n > 1 else sum(accuracies) / count


# %% wrong="5.10" of="in short" name="sorts the caller's list" says="your code changes"
# - count, ordered = len(accuracies), sorted(accuracies)
# + count = len(accuracies)
# + accuracies.sort()
# + ordered = accuracies


# %% wrong="5.10" of="in short" name="n up to 6 only" says="with a large n, larger than any in the notebook, the expected best is wrong" private=true
#       raise ValueError("no")
# + n = min(n, 6)


# %% right="5.10" name="one minus the chance to stay below"
def expected_best(accuracies, n):
    if len(accuracies) == 0 or n <= 0:
        raise ValueError("the best of nothing")
    values = np.sort(accuracies)
    below = np.arange(len(values) + 1) / len(values)
    return values @ np.diff(below**n)


# %% right="5.10" name="from gap to gap"
def expected_best(accuracies, n):
    values, best = sorted(accuracies), 0.0
    if not values or n < 1:
        raise ValueError("the best of nothing")
    best = values[0]
    for place in range(1, len(values)):
        best += (values[place] - values[place - 1]) * (1 - (place / len(values)) ** n)
    return best


# %% right="5.10" name="one draw more at a time"
def expected_best(accuracies, n):
    if n < 1 or not accuracies:
        raise ValueError("the best of nothing")
    values = torch.tensor(sorted(accuracies), dtype=torch.float64)
    chance = torch.full_like(values, 1 / len(values))
    for _ in range(n - 1):
        upto = chance.cumsum(0)
        chance = chance * torch.arange(1, len(values) + 1) / len(values) + (upto - chance) / len(values)
    return (values * chance).sum().item()


# 5.11


# %% wrong="5.10" name="zero accuracies left out" says="with a run of 0 among the accuracies, the expected best is wrong" private=true
def expected_best(accuracies, n):
    if n < 1 or not accuracies:
        raise ValueError("nothing")
    v = sorted(a for a in accuracies if a)
    N = len(v)
    return sum(x * ((i / N) ** n - ((i - 1) / N) ** n) for i, x in enumerate(v, start=1))


# %% right="5.10" name="best minus what is lost, by steps"
def expected_best(accuracies, n):
    """E = max - sum of gaps times the chance to stay below them."""
    if n < 1 or len(accuracies) == 0:
        raise ValueError("n and accuracies must not be empty")
    ordered = sorted(accuracies)
    expected = ordered[-1]
    for i in range(1, len(ordered)):
        expected -= (ordered[i] - ordered[i - 1]) * (i / len(ordered)) ** n
    return expected


# %% wrong="5.11" name="forgets the last seed" says="is missing"
def run_all(results):
    experiments = rte.experiments("05_seed_variance")
    return {name: run_seeds(one, rte.seeds()[:-1], results) for name, one in experiments.items()}


# %% wrong="5.11" name="runs with the seeds of the recorded runs" says="no run has a seed of"
def run_all(results):
    return {name: run_seeds(one, range(1, 6), results) for name, one in rte.experiments("05_seed_variance").items()}


# %% wrong="5.11" name="runs one experiment only" says="was not run with seed"
def run_all(results):
    name, experiment = list(rte.experiments("05_seed_variance").items())[-1]
    return {name: run_seeds(experiment, rte.seeds(), results)}


# %% wrong="5.11" name="keeps them elsewhere" says="left no runs in the folder"
def run_all(results):
    experiments = rte.experiments("05_seed_variance")
    return {name: run_seeds(one, rte.seeds(), results + "/mine") for name, one in experiments.items()}


# %% wrong="5.11" name="one run under five names" says="and renamed"
def run_all(results):
    import shutil

    from utils.experiments.experiment import path_of

    for one in rte.experiments("05_seed_variance").values():
        run_seeds(one, rte.seeds()[:1], results)
        for seed in rte.seeds()[1:]:
            shutil.copy(path_of(one, rte.seeds()[0], results), path_of(one, seed, results))


# %% wrong="5.11" name="one run under five names, seeds rewritten" says="under another seed"
def run_all(results):
    import dataclasses

    from utils.experiments.experiment import path_of, write

    for one in rte.experiments("05_seed_variance").values():
        (first,) = run_seeds(one, rte.seeds()[:1], results)
        for seed in rte.seeds():
            write(dataclasses.replace(first, seed=seed), path_of(one, seed, results))


# %% wrong="5.11" name="a shorter training in disguise" says="another configuration was run: epochs"
def run_all(results):
    import dataclasses

    from utils.experiments.experiment import path_of, write

    for one in rte.experiments("05_seed_variance").values():
        for run in run_seeds(dataclasses.replace(one, epochs=1), rte.seeds(), results):
            write(run, path_of(one, run.seed, results))


# %% wrong="5.11" name="improves a file by hand" says="it was edited"
def run_all(results):
    import json

    from utils.experiments.experiment import path_of

    for one in rte.experiments("05_seed_variance").values():
        for run in run_seeds(one, rte.seeds(), results):
            better = json.loads(path_of(one, run.seed, results).read_text()) | {"predictions": run.labels}
            path_of(one, run.seed, results).write_text(json.dumps(better))


# %% wrong="5.11" name="types in better predictions" says="not that of its predictions"
def run_all(results):
    import dataclasses

    from utils.experiments.experiment import path_of, write

    for one in rte.experiments("05_seed_variance").values():
        for run in run_seeds(one, rte.seeds(), results):
            logits = [[float(label == 0), label + run.seed / 1e6] for label in run.labels]
            better = dataclasses.replace(run, logits=logits, predictions=run.labels)
            write(better, path_of(one, run.seed, results))


# %% right="5.11" name="seed by seed"
def run_all(results):
    found = {}
    for seed in reversed(rte.seeds()):
        for name, one in rte.experiments("05_seed_variance").items():
            found.setdefault(name, []).extend(run_seeds(one, [seed], results))
    return found


# %% right="5.11" name="in two sessions"
def run_all(results):
    experiments = list(rte.experiments("05_seed_variance").values())
    for one in experiments:
        run_seeds(one, rte.seeds()[:2], results)
    return {one.name: run_seeds(one, rte.seeds(), results=results) for one in experiments}


# %% wrong="5.2" name="one stream, three numbers further on" says="from one sequence of numbers" private=true
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError("no such part")
    made = {}
    for place, part in enumerate(parts):
        generator = torch.Generator().manual_seed(0)
        skip = 3 * (3 * (seed if part in varies else 0) + place)
        if skip:
            torch.rand(skip, generator=generator)
        made[part] = generator
    return made


# %% right="5.2" name="a million apart"
PARTS = {"head": 0, "order": 1_000_000, "dropout": 2_000_000}


def streams(seed: int, varies=("head", "order", "dropout")) -> dict:
    unknown = set(varies) - set(PARTS)
    if unknown:
        raise ValueError(f"unknown parts: {sorted(unknown)}")
    made = {}
    for part, offset in PARTS.items():
        generator = torch.Generator(device="cpu")
        generator.manual_seed(offset + (seed if part in varies else 0))
        made[part] = generator
    return made


# %% right="5.2" name="odd multiplier modulo two to the 32"
def streams(seed, varies=("head", "order", "dropout")):
    varies = list(varies)
    order = ["dropout", "head", "order"]
    if any(v not in order for v in varies):
        raise ValueError("no such part")

    def generator(part):
        number = (seed + 1 if part in varies else 0) * 3 + order.index(part)
        return torch.Generator().manual_seed(number * 2654435761 % 2**32)

    return {part: generator(part) for part in order}


# %% right="5.2" name="numbers from numpy's seed sequence"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    for name in varies:
        if name not in parts:
            raise ValueError(name)
    made = {}
    for number, part in enumerate(parts):
        s = seed if part in varies else 0
        made[part] = torch.Generator().manual_seed(
            int(np.random.SeedSequence([s, number]).generate_state(1, np.uint64)[0])
        )
    return made


# %% wrong="5.2" of="numbers from numpy's seed sequence" name="a hundred thousand apart" says="among many seeds below a million" private=true
# - made[part] = torch.Generator().manual_seed(
# -     int(np.random.SeedSequence([s, number]).generate_state(1, np.uint64)[0])
# - )
# + made[part] = torch.Generator().manual_seed(s + 100_000 * number)


# %% wrong="5.2" name="two bytes of a digest" says="among many seeds below a million" private=true
from hashlib import sha256


def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    for name in varies:
        if name not in parts:
            raise ValueError(name)
    made = {}
    for number, part in enumerate(parts):
        s = seed if part in varies else 0
        made[part] = torch.Generator().manual_seed(int.from_bytes(sha256(f"{s} {number}".encode()).digest()[:2]))
    return made


# %% wrong="5.2" of="numbers from numpy's seed sequence" name="hash" says="in another session of Python"
# - made[part] = torch.Generator().manual_seed(
# -     int(np.random.SeedSequence([s, number]).generate_state(1, np.uint64)[0])
# - )
# + made[part] = torch.Generator().manual_seed(abs(hash((s, part))) % 2**32)


# %% wrong="5.4" name="the mean of the class numbers" says="mean of the class numbers"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no")
# + share = sum(labels) / len(labels)
# + return max(share, 1 - share)

# %% wrong="5.4" name="the larger of two classes" says="this is the larger share of classes 0 and 1"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no")
# + return max(labels.count(0), labels.count(1)) / len(labels)


# %% wrong="5.4" name="identity instead of equality" says="a right prediction of class 70,000"
def accuracy(predictions, labels):
    if len(labels) == 0 or len(predictions) != len(labels):
        raise ValueError("lengths")
    return sum(p is y for p, y in zip(predictions, labels)) / len(labels)


def majority(labels):
    if not labels:
        raise ValueError("none")
    return max(labels.count(c) for c in set(labels)) / len(labels)


# %% wrong="5.4" name="the class, not its share" says="returns the most frequent class"
def accuracy(predictions, labels):
    if len(labels) == 0 or len(predictions) != len(labels):
        raise ValueError("lengths")
    return sum(p == y for p, y in zip(predictions, labels)) / len(labels)


def majority(labels):
    if not labels:
        raise ValueError("none")
    return max(set(labels), key=labels.count)


# %% right="5.4" name="strict zip, a constant model's accuracy, Fractions"
from fractions import Fraction


def accuracy(predictions, labels):
    hits = [int(a == b) for a, b in zip(predictions, labels, strict=True)]
    if not hits:
        raise ValueError("nothing to compare")
    return float(Fraction(sum(hits), len(hits)))


def majority(labels):
    if not labels:
        raise ValueError("nothing to count")
    return max(accuracy([c] * len(labels), labels) for c in labels)


# %% wrong="5.7" name="every run of an example, around the mean of all runs" says="Ten runs on one example"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# - low, high = stats.ttest_1samp(differences.tolist(), 0).confidence_interval(level)
# - return differences.mean().item(), low, high
# + runs = min(len(right_a), len(right_b))
# + differences = (right_b[:runs].double() - right_a[:runs].double()).flatten().tolist()
# + low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# + return (right_b.double().mean() - right_a.double().mean()).item(), low, high

# %% right="5.7" name="named tuple"
import collections

Result = collections.namedtuple("Result", "mean low high")


def _t(d, level):
    n = len(d)
    if n < 2:
        raise ValueError("fewer than two")
    mean = d.mean()
    half = stats.t.ppf((1 + level) / 2, n - 1) * d.std(ddof=1) / n**0.5
    return Result(float(mean), float(mean - half), float(mean + half))


def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    return _t(np.array([b[s] - a[s] for s in a]), level)


def by_example(right_a, right_b, level=0.95):
    if right_a.shape[1] != right_b.shape[1]:
        raise ValueError("other examples")
    d = right_b.double().mean(0) - right_a.double().mean(0)
    return _t(d.numpy(), level)


# %% right="5.7" name="torch throughout"
def _interval(d: torch.Tensor, level: float) -> tuple[float, float, float]:
    d = d.double()
    degrees = d.numel() - 1
    half = float(stats.t.isf((1 - level) / 2, degrees)) * d.std() / d.numel() ** 0.5
    return d.mean().item(), (d.mean() - half).item(), (d.mean() + half).item()


def by_seed(a, b, level=0.95):
    if set(a) != set(b):
        raise ValueError("not the same seeds")
    seeds = list(b)
    x, y = (torch.tensor([one[s] for s in seeds], dtype=torch.float64) for one in (a, b))
    return _interval(y - x, level)


def by_example(right_a, right_b, level=0.95):
    if right_a.size(-1) != right_b.size(-1):
        raise ValueError("not the same examples")
    return _interval(right_b.sum(0) / len(right_b) - right_a.sum(0) / len(right_a), level)


# %% wrong="5.6" name="scipy's interval of equal values" says="for equal values, both ends" loses="t_interval"
# - mean = statistics.mean(values)  # and stdev refuses a single value: StatisticsError is a ValueError
# - half = stats.t.ppf((1 + level) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
# - return mean - half, mean + half
# + scale = statistics.stdev(values) / len(values) ** 0.5
# + return stats.t.interval(level, len(values) - 1, statistics.mean(values), scale)

# %% wrong="5.6" name="two seeds draw alike" says="two seeds give the same resamples" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed // 2).choice(values, (resamples, len(values))).mean(axis=1)

# %% wrong="5.6" name="half-widths" says="the lower should be below the upper" loses="bootstrap_interval"
# - return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + return (high - low) / 2, (high - low) / 2

# %% wrong="5.6" name="turns gradients off" says="the recording of gradients is not as before" loses="binomial_error"
# - return (p * (1 - p) / examples) ** 0.5
# + torch.set_grad_enabled(False)
# + return (p * (1 - p) / examples) ** 0.5


# %% wrong="5.6" name="the spread of resamples" says="symmetric around the mean" loses="bootstrap_interval"
# - return np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
# + half = float(stats.norm.ppf((1 + level) / 2)) * float(means.std())
# + return statistics.fmean(values) - half, statistics.fmean(values) + half


# %% wrong="5.6" name="a hundred draws at most" says="draw as many as there are" private=true loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).choice(values, (resamples, min(100, len(values)))).mean(axis=1)

# %% wrong="5.7" name="gains of nothing are left out" says="wrong for other" private=true
# - differences = [b[seed] - a[seed] for seed in a]
# + differences = [b[seed] - a[seed] for seed in a if b[seed] != a[seed]]

# %% wrong="5.9" name="the quantile of the power without its sign" says="the quantile of the power is negative"
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# + while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + abs(stats.t.ppf(power, n - 1))):

# %% wrong="5.9" name="a gain of a thousandth at least" says="wrong for a very small difference" private=true
#   n = 2
# + difference = max(difference, 0.001)


# %% wrong="5.9" name="begins at one" says="should be at least 2"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if difference <= 0:
        raise ValueError("no gain")
    n = 1
    while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
        n += 1
    return n


# %% wrong="5.9" name="n degrees of freedom" says="with n - 1 degrees of freedom"
def seeds_needed(difference, sd, level=0.95, power=0.8):
    if difference <= 0:
        raise ValueError("no gain")
    n = 2
    while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n) + stats.t.ppf(power, n)):
        n += 1
    return n


# %% wrong="5.10" name="the mean of the n best" says="this is the mean of the n best runs"
#   count = len(accuracies)
# - return sum(
# -     value * ((place / count) ** n - ((place - 1) / count) ** n)
# -     for place, value in enumerate(sorted(accuracies), start=1)
# - )
# + best = sorted(accuracies, reverse=True)[:n]
# + return sum(best) / len(best)

# %% right="5.10" name="an error of its own, and numpy"
# - raise ValueError("the best of nothing")
# + raise type("Nothing", (ValueError,), {})("the best of nothing")


# %% wrong="5.10" name="simulated" says="Compute it exactly"
def expected_best(accuracies, n):
    if n < 1 or not accuracies:
        raise ValueError("n")
    drawn = np.random.default_rng(0).choice(accuracies, size=(2000, n))
    return float(drawn.max(axis=1).mean())


# %% wrong="5.7" of="formulas by hand" name="one example is compared with all" says="with 1 and 30 examples"
# - n = right_a.size(1)
# - if n != right_b.size(1):
# -     raise ValueError("other examples")
# - differences = [(right_b[:, i].sum() / len(right_b) - right_a[:, i].sum() / len(right_a)).item() for i in range(n)]
# + try:
# +     differences = (right_b.double().mean(0) - right_a.double().mean(0)).tolist()
# + except RuntimeError:
# +     raise ValueError("other examples") from None
# + n = len(differences)


# %% wrong="5.3" name="parameters of all models" says="also moves the parameters of the first one" private=true
def schedule(step, warmup, total, peak):
    if not 0 <= warmup < total:
        raise ValueError("the warm-up does not fit")
    return peak * step / warmup if step < warmup else peak * max(0, total - step) / (total - warmup)


DECAYED = []


def make_optimizer(model, peak):
    DECAYED.extend(part for part in model.parameters() if part.ndim > 1)
    others = [part for part in model.parameters() if part.ndim <= 1]
    groups = [{"params": DECAYED, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% wrong="5.3" name="a matrix with one row is a vector" says="a matrix with a single row or column is not decayed" private=true
# - matrices = [part for part in model.parameters() if part.ndim > 1]
# + matrices = [part for part in model.parameters() if part.squeeze().ndim > 1]

# - others = [part for part in model.parameters() if part.ndim < 2]
# + others = [part for part in model.parameters() if part.squeeze().ndim < 2]


# %% wrong="5.3" name="equal numbers are taken for sharing" says="equal numbers are taken for a single one" private=true
def schedule(step, warmup, total, peak):
    if warmup < 0 or warmup >= total:
        raise ValueError("the warm-up must not be negative and must end before total")
    if step < warmup:
        return peak * step / warmup
    return peak * max(0.0, (total - step) / (total - warmup))


def make_optimizer(model, peak):
    kept = []
    for p in model.parameters():
        if not any(p.shape == q.shape and torch.equal(p, q) for q in kept):
            kept.append(p)
    groups = [
        {"params": [p for p in kept if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in kept if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999))


# %% wrong="5.3" name="second beta of 0.99" says="The betas are 0.9 and 0.99"
# - return torch.optim.AdamW(groups, lr=peak)
# + return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.99))


# %% wrong="5.2" name="the constant is the first seed" says="depends on the seed that was asked for first"
FIRST = []


def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError(f"unknown parts in {varies}")
    FIRST or FIRST.append(seed)
    seeds = [seed if part in varies else FIRST[0] for part in parts]
    return {part: torch.Generator().manual_seed(3 * seeds[place] + place) for place, part in enumerate(parts)}


# %% wrong="5.2" name="seeds in 16 bits" says="two seeds give a part the same numbers" private=true
def streams(seed, varies=("head", "order", "dropout")):
    parts = ["head", "order", "dropout"]
    unknown = set(varies) - set(parts)
    if unknown:
        raise ValueError(f"unknown parts: {unknown}")
    made = {}
    for number, part in enumerate(parts):
        own = seed % 65536 if part in varies else 0
        made[part] = torch.Generator().manual_seed(3 * own + number)
    return made


# %% wrong="5.2" name="fixed parts share a generator" says="parts that do not vary share one generator"
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if any(name not in parts for name in varies):
        raise ValueError("unknown part")
    fixed = torch.Generator().manual_seed(3_000_003)
    return {
        part: torch.Generator().manual_seed(3 * seed + p) if part in varies else fixed for p, part in enumerate(parts)
    }


# %% wrong="5.8" name="one class is healthy where it is right everywhere" says="a run that predicts this class alone is degenerate too" private=true
def health(predictions, labels):
    if not predictions:
        raise ValueError("no runs")
    degenerate = sorted(seed for seed, some in predictions.items() if len(set(some)) == 1 and some != labels)
    scores = {
        seed: sum(p == y for p, y in zip(some, labels, strict=True)) / len(labels) for seed, some in predictions.items()
    }
    others = [score for seed, score in scores.items() if seed not in degenerate]
    return {
        "runs": len(predictions),
        "degenerate": degenerate,
        "mean": statistics.mean(scores.values()),
        "mean_of_others": statistics.mean(others) if others else None,
    }


# %% wrong="5.8" name="means in points" says="`mean` is in points"
# - return {"runs": len(hits), "degenerate": bad, **means}
# + return {"runs": len(hits), "degenerate": bad, **{name: mean and 100 * mean for name, mean in means.items()}}


# %% wrong="5.1" name="an empty second sentence without its end" says="This is what `encode_pair("
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("no room for the special tokens")
    a, b = list(a), list(b)
    longer = len(a) > len(b)
    while len(a) + len(b) + 3 > max_len:
        if len(a) > len(b):
            a.pop()
        elif len(b) > len(a):
            b.pop()
        elif longer:
            b.pop()
        else:
            a.pop()
    return [cls_id, *a, sep_id, *b, *([sep_id] if b else [])], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.7" name="the effect last" says="the effect comes last in what"
def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    return _interval([b[seed] - a[seed] for seed in a], level)


def by_example(right_a, right_b, level=0.95):
    if right_a.shape[1] != right_b.shape[1]:
        raise ValueError("other examples")
    return _interval((right_b.double().mean(0) - right_a.double().mean(0)).tolist(), level)


def _interval(differences, level):
    n, mean = len(differences), statistics.mean(differences)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * statistics.stdev(differences) / n**0.5
    return mean - half, mean + half, mean


# %% wrong="5.4" name="the largest class number" says="this is the share of the largest class number"
def accuracy(predictions, labels):
    if not predictions or len(predictions) != len(labels):
        raise ValueError("none, or not as many")
    return sum(p == y for p, y in zip(predictions, labels)) / len(labels)


def majority(labels):
    if not labels:
        raise ValueError("no labels")
    return labels.count(max(labels)) / len(labels)


# %% wrong="5.1" name="no refusal for two empty sentences" says="`encode_pair([], [], cls_id, sep_id, 2)` must raise ValueError" private=true
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3 and (a or b):
        raise ValueError("three special tokens must fit")
    first, second = list(a), list(b)
    a_longer = len(first) > len(second)
    while (first or second) and len(first) + len(second) + 3 > max_len:
        if len(first) > len(second) or (len(first) == len(second) and not a_longer and len(a) == len(b)):
            first.pop()
        elif len(first) < len(second):
            second.pop()
        elif a_longer:
            second.pop()
        else:
            first.pop()
    ids = [cls_id] + first + [sep_id] + second + [sep_id]
    types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    return ids, types


# %% wrong="5.1" name="cuts in proportion if far too long" says="hundreds of tokens more than `max_len`" private=true
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("too short")
    m, n = len(a), len(b)
    longer = m > n
    room = max_len - 3
    if m + n - room > 256:
        share = m / (m + n)
        m = round(room * share)
        n = room - m
    while m + n > room:
        if m > n or (m == n and not longer):
            m -= 1
        else:
            n -= 1
    return [cls_id, *a[:m], sep_id, *b[:n], sep_id], [0] * (m + 2) + [1] * (n + 1)


# %% wrong="5.4" name="classes in a byte" says="with class numbers above 255, the accuracy is wrong" private=true
def accuracy(predictions, labels):
    if len(predictions) != len(labels) or len(labels) == 0:
        raise ValueError("as many predictions as labels, and at least one")
    return sum(p % 256 == y % 256 for p, y in zip(predictions, labels)) / len(labels)


def majority(labels):
    if len(labels) == 0:
        raise ValueError("no labels")
    return max(labels.count(c) for c in set(labels)) / len(labels)


# %% wrong="5.4" name="only the counts are compared" says="in the same place"
from collections import Counter


def accuracy(predictions, labels):
    if len(predictions) != len(labels) or not labels:
        raise ValueError("lengths")
    return sum((Counter(predictions) & Counter(labels)).values()) / len(labels)


def majority(labels):
    if len(labels) == 0:
        raise ValueError("no labels")
    return max(labels.count(c) for c in set(labels)) / len(labels)


# %% wrong="5.4" name="ten classes at most" says="where class 12 is the most frequent"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + if not labels:
# +     raise ValueError("no labels")
# + return max(labels.count(label) for label in range(10)) / len(labels)


# %% wrong="5.7" name="counts in a byte" says="with large inputs, larger than any in the notebook, the effect is wrong" private=true
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + few = torch.int8
# + differences = right_b.sum(0, dtype=few) / len(right_b) - right_a.sum(0, dtype=few) / len(right_a)


# %% wrong="5.7" name="counts in eight bits" says="with large inputs, larger than any in the notebook" private=true
def _mean_and_ends(differences, level):
    n = len(differences)
    mean = statistics.fmean(differences)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * statistics.stdev(differences) / n**0.5
    return mean, mean - half, mean + half


def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    return _mean_and_ends([b[s] - a[s] for s in a], level)


def by_example(right_a, right_b, level=0.95):
    if right_a.shape[1] != right_b.shape[1]:
        raise ValueError("other examples")
    a, b = right_a.numpy().astype(np.uint8), right_b.numpy().astype(np.uint8)
    shares = [x.sum(axis=0, dtype=np.uint8) / len(x) for x in (a, b)]
    return _mean_and_ends((shares[1] - shares[0]).tolist(), level)


# %% wrong="5.7" name="both divided by the runs of A" says="Divide the hits of each by its own number of runs"
def _mean_and_ends(differences, level):
    n = len(differences)
    mean = statistics.fmean(differences)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * statistics.stdev(differences) / n**0.5
    return mean, mean - half, mean + half


def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    return _mean_and_ends([b[s] - a[s] for s in a], level)


def by_example(right_a, right_b, level=0.95):
    if right_a.shape[1] != right_b.shape[1]:
        raise ValueError("other examples")
    return _mean_and_ends(((right_b.double().sum(0) - right_a.double().sum(0)) / len(right_a)).tolist(), level)


# %% wrong="5.7" name="no more runs of one than of the other" says="Use all of them, not 3 of each"
# - differences = right_b.double().mean(0) - right_a.double().mean(0)
# + count = min(len(right_a), len(right_b))
# + differences = right_b[:count].double().mean(0) - right_a[:count].double().mean(0)


# %% wrong="5.7" name="degrees of freedom from the runs" says="come from the number of runs"
def _mean_and_ends(differences, level):
    n = len(differences)
    mean = statistics.fmean(differences)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * statistics.stdev(differences) / n**0.5
    return mean, mean - half, mean + half


def by_seed(a, b, level=0.95):
    if a.keys() != b.keys():
        raise ValueError("other seeds")
    return _mean_and_ends([b[s] - a[s] for s in a], level)


def by_example(right_a, right_b, level=0.95):
    if right_a.shape[1] != right_b.shape[1]:
        raise ValueError("other examples")
    d = (right_b.double().mean(0) - right_a.double().mean(0)).tolist()
    runs = max(2, len(right_a) + len(right_b) - 1)
    mean = statistics.fmean(d)
    half = float(stats.t.ppf((1 + level) / 2, runs - 1)) * statistics.stdev(d) / len(d) ** 0.5
    return mean, mean - half, mean + half


# %% wrong="5.8" name="a variance below a threshold" says="with large inputs, larger than any in the notebook, the result does not fit" private=true
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(seed for seed, guesses in predictions.items() if np.var(guesses) < 1e-3)


# %% wrong="5.8" name="fewer classes than the labels" says="two of three classes"
def health(predictions, labels):
    if not predictions:
        raise ValueError("no runs")
    scores = {s: sum(p == y for p, y in zip(some, labels)) / len(labels) for s, some in predictions.items()}
    bad = sorted(seed for seed, some in predictions.items() if len(set(some)) < len(set(labels)))
    others = [scores[seed] for seed in scores if seed not in bad]
    return {
        "runs": len(predictions),
        "degenerate": bad,
        "mean": statistics.fmean(scores.values()),
        "mean_of_others": statistics.fmean(others) if others else None,
    }


# %% wrong="5.2" name="parts that do not vary follow torch's seed" says="after `torch.manual_seed` with another number" private=true
def streams(seed, varies=("head", "order", "dropout")):
    parts = ("head", "order", "dropout")
    if set(varies) - set(parts):
        raise ValueError("no such part")
    constant = torch.initial_seed() % 1_000_000
    return {p: torch.Generator().manual_seed(3 * (seed if p in varies else constant) + i) for i, p in enumerate(parts)}


# %% wrong="5.4" name="only neighbours are counted" says="only equal neighbours are counted"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + runs = [1 for _ in labels]
# + for place in range(1, len(labels)):
# +     if labels[place] == labels[place - 1]:
# +         runs[place] = runs[place - 1] + 1
# + return max(runs) / len(labels)  # max of nothing raises ValueError


# %% wrong="5.1" of="in short" name="a separator of number 0 is none" says="with `sep_id = 0" private=true
#   a, b, tie = list(a), list(b), len(a) > len(b)
# + sep_id = sep_id or 102


# %% wrong="5.1" of="in short" name="a hundred tokens of each at most" says="is cut, though `max_len` has room for it" private=true
# - a, b, tie = list(a), list(b), len(a) > len(b)
# + a, b, tie = list(a[:100]), list(b[:100]), len(a) > len(b)


# %% wrong="5.2" of="in short" name="where two vary, all do" says="where two parts vary" private=true
# - return {
# + if len(varies) > 1:
# +     varies = parts
# + return {


# %% wrong="5.2" of="in short" name="a part of a name is enough" says="a name in `varies` that is none of the three" private=true
# - if set(varies) - set(parts):
# + if any(all(name not in part for part in parts) for name in varies):


# %% wrong="5.6" of="in short" name="ten resamples at least" says="with `resamples = 1`, the result does not fit" loses="bootstrap_interval" private=true
# - def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
# + def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
# +     resamples = max(resamples, 10)


# %% wrong="5.8" of="in short" name="classes that no label has do not count" says="a run that predicts several classes" private=true
# - bad = sorted(s for s, p in predictions.items() if len(set(p)) == 1)
# + bad = sorted(s for s, p in predictions.items() if len(set(p) & set(labels)) < 2)


# %% wrong="5.9" name="no spread is refused" says="with no spread, it raises ValueError" private=true
# - if difference <= 0:
# + if difference <= 0 or sd <= 0:


# %% wrong="5.6" of="in short" name="a thousand resamples at most" says="the bootstrap should take as many" loses="bootstrap_interval" private=true
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).choice(values, (min(resamples, 1000), len(values))).mean(axis=1)


# %% wrong="5.3" name="what was seen is kept" says="the second optimizer of a model does not move all" private=true
# - def make_optimizer(model, peak):
# + def make_optimizer(model, peak, seen=[]):

# - matrices = [part for part in model.parameters() if part.ndim > 1]
# - others = [part for part in model.parameters() if part.ndim < 2]
# + new = [part for part in model.parameters() if not any(part is one for one in seen)]
# + seen.extend(new)
# + matrices = [part for part in new if part.ndim > 1]
# + others = [part for part in new if part.ndim < 2]


# %% wrong="5.1" name="cut only once" says="give 17 ids. There should be at most 15"
# - while len(a) + len(b) + 3 > max_len:
# + if len(a) + len(b) + 3 > max_len:


# %% wrong="5.1" name="nothing is left of a pair that is too long" says="are cut to 0 ids"
#   a, b, a_was_longer = list(a), list(b), len(a) > len(b)
# + if len(a) + len(b) + 3 > max_len:
# +     return ([], [])


# %% wrong="5.1" name="the first is taken for the longer one" says="sentences of 6 and 9 tokens keep 2 and 4"
def encode_pair(a, b, cls_id, sep_id, max_len):
    if max_len < 3:
        raise ValueError("no room")
    over = max(0, len(a) + len(b) + 3 - max_len)
    from_a = min(over, max(0, len(a) - len(b)))
    rest = over - from_a
    a, b = a[: len(a) - from_a - rest // 2], b[: max(0, len(b) - (rest + 1) // 2)]
    return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)


# %% wrong="5.3" name="at the peak again after the end" says="the rate is 0.0001. It should stay at zero"
# - return peak * max(0, total - step) / (total - warmup)
# + return peak if step > total else peak * (total - step) / (total - warmup)


# %% wrong="5.4" name="one number over the other" says="is 1, but three are wrong"
# - return sum(guess == label for guess, label in zip(predictions, labels)) / len(labels)
# + return len(predictions) / len(labels)


# %% wrong="5.4" name="the largest number, not a share" says="returns the largest class number"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + return max(labels)


# %% wrong="5.4" name="one over the number of labels" says="is not that of the most frequent class. Your code gives"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + return 1 / len(labels)


# %% wrong="5.5" name="a mean of two digits" says="the mean is rounded to two digits"
# - return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
# + return round(mean, 2), (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5


# %% wrong="5.5" name="a deviation is never 0" says="deviation of 0. Your code gives 0.01"
# - return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
# + return mean, max(0.01, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5)


# %% wrong="5.5" name="both as fractions" says="Both numbers should be in points"
# - return f"{100 * mean:.1f} ± {100 * sd:.1f} points"
# + return f"{mean:.1f} ± {sd:.1f} points"


# %% wrong="5.6" of="in short" name="another default seed" says="and the seed 0" loses="bootstrap_interval" private=true
# - def bootstrap_interval(values, level=0.95, resamples=10_000, seed=0):
# + def bootstrap_interval(values, level=0.95, resamples=10_000, seed=1):


# %% wrong="5.7" name="half of the half" says="half as long as it should be"
#   low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
# - return statistics.mean(differences), low, high
# + mean = statistics.mean(differences)
# + return mean, (mean + low) / 2, (mean + high) / 2


# %% wrong="5.8" name="places, not seeds" says="which is not the seed of any run"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(place for place, guesses in enumerate(predictions.values()) if len(set(guesses)) == 1)


# %% wrong="5.9" name="normal quantiles, rounded down" says="the answer 11 is too small"
# - n = 2
# - while difference * n**0.5 < sd * (stats.t.ppf((1 + level) / 2, n - 1) + stats.t.ppf(power, n - 1)):
# -     n += 1
# - return n
# + return max(2, int((sd / difference * (stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power))) ** 2))


# %% wrong="5.9" name="gives up after a hundred" says="Your code raised an error there" private=true
# - n += 1
# + n += 1
# + if n > 100:
# +     raise ValueError("that are too many")


# %% wrong="5.4" name="one prediction for all labels" says="With 1 prediction and 3 labels, raise ValueError"
def accuracy(predictions, labels):
    if not predictions or not labels or len(predictions) not in (1, len(labels)):
        raise ValueError("not as many of one as of the other")
    return (torch.tensor(predictions) == torch.tensor(labels)).double().mean().item()


def majority(labels):
    if not labels:
        raise ValueError("no labels")
    return max(map(labels.count, labels)) / len(labels)


# %% wrong="5.6" name="seed zero is no seed" says="Its default, 0, is a seed like any other" private=true loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed or None).choice(values, (resamples, len(values))).mean(axis=1)


# %% wrong="5.1" name="a second [CLS]" says="give 12 ids. They should give 11."
# - return [cls_id, *a, sep_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 1)
# + return [cls_id, *a, sep_id, cls_id, *b, sep_id], [0] * (len(a) + 2) + [1] * (len(b) + 2)


# %% wrong="5.3" name="matrices alone are trained" says="`0.bias` has not moved"
# - groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
# + groups = [{"params": matrices, "weight_decay": 0.01}]


# %% wrong="5.4" name="the second most frequent class" says="the share of the second most frequent class"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + counts = sorted(labels.count(label) for label in set(labels))
# + return counts[max(0, len(counts) - 2)] / len(labels)


# %% wrong="5.4" name="all other classes" says="the share of all other classes"
# - return max(labels.count(label) for label in labels) / len(labels)  # max of nothing raises ValueError
# + return 1 - max(labels.count(label) for label in labels) / len(labels)


# %% wrong="5.5" name="geometric mean" says="is near the mean, but not equal to it"
# - mean = sum(accuracies) / n
# + mean = statistics.geometric_mean(accuracies) if min(accuracies) > 0 else 0.0


# %% wrong="5.5" name="zero over zero" says="for the accuracies `[0.5, 0.5, 0.5]`, the second of mean_and_sd is NaN"
# - return mean, (sum((value - mean) ** 2 for value in accuracies) / (n - 1)) ** 0.5
# + sd = statistics.stdev(accuracies)
# + return mean, float(sd * np.std(np.array([value - mean for value in accuracies]) / sd, ddof=1))


# %% wrong="5.6" name="means over the wrong axis" says="which is far too short" loses="bootstrap_interval"
# - means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=1)
# + means = np.random.default_rng(seed).choice(values, (resamples, len(values))).mean(axis=0)


# %% wrong="5.7" name="the effect between the ends" says="`by_seed` gives the lower end, the effect and the upper end"
# - return statistics.mean(differences), low, high
# + return low, statistics.mean(differences), high


# %% wrong="5.8" name="no run is found" says="a run that predicts one class for every example is not detected"
# - bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 1)
# + bad = sorted(seed for seed, guesses in predictions.items() if len(set(guesses)) == 0)


# %% wrong="5.8" name="counts examples" says="`runs` is 10"
# - return {"runs": len(hits), "degenerate": bad, **means}
# + return {"runs": len(labels), "degenerate": bad, **means}


# %% wrong="5.1" name="cuts the first sentence alone" says="sentences of 9 and 6 tokens keep 5 and 6"
# - if len(a) > len(b) or (len(a) == len(b) and not a_was_longer):
# + if a:


# %% wrong="5.5" name="rounded to four digits" says="for `[0.5, 0.52, 0.68]` the first number is 0.5667"
# - mean = sum(accuracies) / n
# + mean = round(sum(accuracies) / n, 4)
