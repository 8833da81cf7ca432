# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# Answers to notebook 09 whose verdict is known. See autograder/author/answers.py for the markers.

# %% wrong="11.1" name="forty masks with ten copies" says="more masks than copies"
# - return epoch if copies is None else epoch % copies
# + return epoch

# %% wrong="11.1" name="dynamic is ten ways over forty epochs" says="Dynamic masking has a new mask for each epoch"
# - return epoch if copies is None else epoch % copies
# + return epoch % (copies or 10)

# %% wrong="11.1" name="each copy for some epochs" says="for several epochs in a row"
# - return epoch if copies is None else epoch % copies
# + return epoch if copies is None else epoch // copies

# %% wrong="11.1" name="one mask for all" says="all epochs share one mask"
# - return epoch if copies is None else epoch % copies
# + return epoch if copies is None else 0

# %% wrong="11.1" name="masks from 1" says="the masks count from 1"
# - return epoch if copies is None else epoch % copies
# + return epoch if copies is None else epoch % copies + 1

# %% wrong="11.1" name="the sentence is not in the seed" says="the number of the sentence does not change the masks"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed} {mask_number(epoch, copies)}")

# %% wrong="11.1" name="the seed is not used" says="the seed does not change the masks"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{sentence} {mask_number(epoch, copies)}")

# %% wrong="11.1" name="the epoch is not used" says="the epoch, without copies, does not change the masks"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed} {sentence} {copies and mask_number(epoch, copies)}")

# %% wrong="11.1" name="a sum as seed" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(seed + sentence + mask_number(epoch, copies))

# %% wrong="11.1" name="numbers joined up" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed}{sentence}{mask_number(epoch, copies)}")

# %% wrong="11.1" name="too little room for the sentence" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(1_000_000 * seed + 1000 * sentence + mask_number(epoch, copies))

# %% wrong="11.1" name="only 200 masks a sentence" says="two share a mask" private=true
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + number = mask_number(epoch, copies)
# + draw = random.Random(f"{seed} {sentence} {number if number in (999, 100, 101) else number % 200}")

# %% wrong="11.1" name="a new mask at each call" says="the same sentence and epoch get another mask at a second call"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random()


# %% wrong="11.1" name="seeds torch's own generator" says="a global generator is seeded"
def mask_number(epoch, copies=None):
    return epoch if copies is None else epoch % copies


def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
    torch.manual_seed(10**10 * seed + 10**4 * sentence + mask_number(epoch, copies))
    return torch.randperm(n) < max(1, round(rate * n))


# %% wrong="11.1" name="seeds Python's own generator" says="a global generator is seeded"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + random.seed(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random

# %% wrong="11.1" name="another default" says="without the argument `seed`, the mask is not the one of seed"
# - def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
# + def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=1):

# %% wrong="11.1" name="each token for itself" says="hidden tokens and others"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# - return hidden
# + return torch.tensor([draw.random() < rate for _ in range(n)])

# %% wrong="11.1" name="none in a short sentence" says="At least one should be"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[draw.sample(range(n), round(rate * n))] = True

# %% wrong="11.1" name="rounded down" says="It should be max(1, round(rate * n)), which is"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[draw.sample(range(n), max(1, int(rate * n)))] = True

# %% wrong="11.1" name="visible is true" says="True is hidden"
# - return hidden
# + return ~hidden

# %% wrong="11.1" name="numbers of the places" says="has shape"
# - return hidden
# + return hidden.nonzero()[:, 0]

# %% wrong="11.1" name="zeros and ones" says="should return booleans"
# - return hidden
# + return hidden.long()

# %% wrong="11.1" name="tokens in a row" says="places should be equally likely"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + many = max(1, round(rate * n))
# + order = draw.sample(range(n), n)
# + start = draw.randrange(n)
# + hidden[order[:many] if n > 50 else [(start + k) % n for k in range(many)]] = True

# %% wrong="11.1" name="copies are not used by the masks" says="different masks of a sentence in 12 epochs"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed} {sentence} {epoch}")

# %% wrong="11.1" name="the first token is never hidden in longer sentences" says="longer sentences" private=true
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[draw.sample(range(n > 4 and rate < 0.5, n), max(1, round(rate * n)))] = True


# %% wrong="11.1" name="the tensor is kept" says="two calls return one tensor, so writing into the first mask"
# - hidden = torch.zeros(n, dtype=torch.bool)
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# - return hidden
# + kept = masked_places.__dict__.setdefault("kept", {})
# + key = n, sentence, mask_number(epoch, copies), rate, seed
# + if key not in kept:
# +     kept[key] = torch.zeros(n, dtype=torch.bool)
# +     kept[key][draw.sample(range(n), max(1, round(rate * n)))] = True
# + return kept[key]

# %% wrong="11.1" name="the rate is not part of what is kept" says="It should be max(1, round(rate * n)), which is"
# - hidden = torch.zeros(n, dtype=torch.bool)
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# - return hidden
# + kept = masked_places.__dict__.setdefault("kept", {})
# + key = n, sentence, mask_number(epoch, copies), seed
# + kept.setdefault(key, draw.sample(range(n), max(1, round(rate * n))))
# + hidden = torch.zeros(n, dtype=torch.bool)
# + hidden[kept[key]] = True
# + return hidden

# %% wrong="11.1" name="halves go up" says="It should be max(1, round(rate * n)), which is"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[draw.sample(range(n), max(1, int(rate * n + 0.5)))] = True

# %% wrong="11.1" name="an epoch turns the mask of the one before" says="in a row are not independent"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed} {sentence}")

# - return hidden
# + return hidden.roll(mask_number(epoch, copies))

# %% wrong="11.1" name="two epochs read one order from its two ends" says="in a row are not independent"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + k = mask_number(epoch, copies)
# + order = random.Random(f"{seed} {sentence} {k // 2}").sample(range(n), n)[:: -1 if k % 2 else 1]

# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[order[: max(1, round(rate * n))]] = True


# %% wrong="11.1" name="a random state of numpy, 32 of 40 bits" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# - hidden = torch.zeros(n, dtype=torch.bool)
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + import numpy as np
# +
# + number = (seed << 30 | sentence << 10 | mask_number(epoch, copies)) % 2**32
# + hidden = torch.zeros(n, dtype=torch.bool)
# + hidden[np.random.RandomState(number).permutation(n)[: max(1, round(rate * n))]] = True

# %% wrong="11.1" name="16 bits of the numbers" says="two share a mask" private=true
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}").getrandbits(16))

# %% wrong="11.1" name="the hash of a text" says="another process gives something else"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(hash(f"{seed} {sentence} {mask_number(epoch, copies)}"))

# %% wrong="11.1" name="where an object lies" says="another process gives something else"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{id(random)} {seed} {sentence} {mask_number(epoch, copies)}")


# %% wrong="11.1" name="the seed turns one mask" says="are not independent"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{sentence} {mask_number(epoch, copies)}")

# - return hidden
# + return hidden.roll(seed)

# %% wrong="11.1" name="sixteen bits of a sentence" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(f"{seed} {sentence % 65536} {mask_number(epoch, copies)}")


# %% right="11.1" name="in inference mode"
# + @torch.inference_mode()
#   def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):


# %% wrong="11.1" name="a generator of torch, which keeps 32 of 40 bits" says="their numbers become the same seed"
def mask_number(epoch, copies=None):
    if copies:
        return epoch % copies
    return epoch


def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
    generator = torch.Generator()
    generator.manual_seed((seed * 1_000_000 + sentence) * 1000 + mask_number(epoch, copies))
    count = max(1, round(rate * n))
    mask = torch.zeros(n, dtype=torch.bool)
    mask[torch.randperm(n, generator=generator)[:count]] = True
    return mask


# %% right="11.1" name="one large number as seed of Python's generator"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random((seed * 1_000_000 + sentence) * 1000 + mask_number(epoch, copies))


# %% right="11.1" name="numpy, a list of seeds"
def mask_number(epoch, copies=None):
    return torch.tensor(epoch if copies is None else epoch % copies)


def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
    import numpy as np

    rng = np.random.default_rng([seed, sentence, int(mask_number(epoch, copies))])
    chosen = rng.choice(n, size=max(1, round(n * rate)), replace=False)
    return torch.isin(torch.arange(n), torch.from_numpy(chosen))


# %% right="11.1" name="the best of random scores"
def mask_number(epoch, copies=None):
    return int(epoch % (copies or float("inf")))


def masked_places(n, sentence, epoch, copies=None, rate=0.15, seed=0):
    own = torch.Generator().manual_seed(hash((seed, sentence, mask_number(epoch, copies))))
    scores = torch.rand(n, generator=own, dtype=torch.float64)
    return scores >= scores.sort(descending=True).values[max(1, round(rate * n)) - 1]


# %% wrong="11.2" name="what is global is changed" says="global random generator"
# - return [row for row in rows if row]
# + torch.manual_seed(0)
# + return [row for row in rows if row]

# %% wrong="11.2" name="the tail is lost" says="the last row is missing"
# - return [row for row in rows if row]
# + return [row for row in rows[:-1] if row]

# %% wrong="11.2" name="DOC-SENTENCES" says="that is DOC-SENTENCES"
# - before = [sep] if opens and rows[-1] else []
# - if len(rows[-1]) + len(before) + len(piece) <= max_len:
# + before = []
# + if len(rows[-1]) + len(piece) <= max_len and not (opens and rows[-1]):

# %% wrong="11.2" name="the separator has no place" says="makes a row too long"
# - if len(rows[-1]) + len(before) + len(piece) <= max_len:
# + if len(rows[-1]) + len(piece) <= max_len:

# %% wrong="11.2" name="no separator" says="there is no separator"
# - before = [sep] if opens and rows[-1] else []
# + before = []

# %% wrong="11.2" name="a separator after each sentence" says="between the sentences of a document"
# - before = [sep] if opens and rows[-1] else []
# + before = [sep] if rows[-1] else []

# %% wrong="11.2" name="a separator after each document" says="ends with a separator"
# - before = [sep] if opens and rows[-1] else []
# + before = []

#   opens = False
# + if rows[-1] and len(rows[-1]) < max_len and document:
# +     rows[-1].append(sep)

# %% wrong="11.2" name="a separator begins a row" says="a row begins with a separator"
# - rows.append(piece)
# + rows.append(([sep] if opens and rows[-1] else []) + piece)

# %% wrong="11.2" name="a long sentence is cut off" says="the tokens of a long sentence beyond max_len are lost"
# - for start in range(0, len(sentence), max_len):
# + for start in range(min(1, len(sentence))):

# %% wrong="11.2" name="a long sentence has its own row, whole" says="more than max_len"
# - for start in range(0, len(sentence), max_len):
# -     piece = sentence[start : start + max_len]
# + for piece in [sentence[:]] if sentence else []:


# %% wrong="11.2" name="one stream, cut everywhere" says="sentences are cut to fill the rows"
def full_rows(documents, max_len, sep):
    stream = [token for document in documents for sentence in document for token in sentence]
    return [stream[start : start + max_len] for start in range(0, len(stream), max_len)]


# %% wrong="11.2" name="empty documents leave a separator" says="A document without tokens should add nothing"
def full_rows(documents, max_len, sep):
    rows = [[]]
    for number, document in enumerate(documents):
        if number and rows[-1] and len(rows[-1]) < max_len and any(map(any, documents[number:])):
            rows[-1].append(sep)
        for sentence in document:
            for start in range(0, len(sentence), max_len):
                piece = sentence[start : start + max_len]
                if len(rows[-1]) + len(piece) > max_len:
                    if rows[-1] and rows[-1][-1] == sep:
                        rows[-1].pop()
                    rows.append([])
                rows[-1] += piece
    return [row for row in rows if row]


# %% wrong="11.2" name="an empty row" says="there is an empty row"
# - return [row for row in rows if row]
# + return rows

# %% wrong="11.2" name="writes into the documents" says="your code changes"
# - piece = sentence[start : start + max_len]
# + piece = sentence if len(sentence) <= max_len else sentence[start : start + max_len]

# %% wrong="11.2" name="rows are padded" says="ends with a separator"
# - return [row for row in rows if row]
# + return [row + [sep] * (max_len - len(row)) for row in rows if row]

# %% wrong="11.2" name="first fit" says="the order of the tokens is not kept"
# - if len(rows[-1]) + len(before) + len(piece) <= max_len:
# -     rows[-1] += before + piece
# + room = [row for row in rows if len(row) + len(before) + len(piece) <= max_len]
# + if room:
# +     room[0] += before + piece

# %% wrong="11.2" name="a full row is not full" says="A row should take whole sentences as long as they fit, with a"
# - if len(rows[-1]) + len(before) + len(piece) <= max_len:
# + if len(rows[-1]) + len(before) + len(piece) < max_len or not rows[-1]:

# %% wrong="11.2" name="the separator is 0" says="for other values of max_len or `sep`" private=true
# - return [row for row in rows if row]
# + return [[0 if token == sep and sep > 100 else token for token in row] for row in rows if row]

# %% wrong="11.2" name="equal documents are one" says="not treated as a document of its own" private=true
# - for document in documents:
# -     opens = True
# + for d, document in enumerate(documents):
# +     opens = d == 0 or document != documents[d - 1]

# %% wrong="11.2" name="a token that looks like a separator is one" says="a token that is equal to `sep` is taken for a separator" private=true
# - before = [sep] if opens and rows[-1] else []
# + before = [sep] if opens and rows[-1] and rows[-1][-1] != sep else []


# %% wrong="11.2" name="a call for each sentence" says="RecursionError"
def full_rows(documents, max_len, sep):
    pieces = []
    for document in documents:
        opens = True
        for sentence in document:
            for start in range(0, len(sentence), max_len):
                pieces.append((opens, sentence[start : start + max_len]))
                opens = False

    def rows_from(place, row):
        if place == len(pieces):
            return [row] if row else []
        opens, piece = pieces[place]
        longer = row + ([sep] if opens and row else []) + piece
        if len(longer) <= max_len:
            return rows_from(place + 1, longer)
        return [row, *rows_from(place + 1, piece)]

    return rows_from(0, [])


# %% right="11.2" name="pieces first, then rows"
def full_rows(documents, max_len, sep):
    def pieces():
        for number, document in enumerate(documents):
            for sentence in document:
                rest = list(sentence)
                while rest:
                    yield number, rest[:max_len]
                    rest = rest[max_len:]

    rows, row, last = [], [], None
    for number, piece in pieces():
        candidate = row + ([sep] if row and number != last else []) + piece
        if len(candidate) > max_len:
            rows.append(row)
            candidate = piece
        row, last = candidate, number
    if row:
        rows.append(row)
    return rows


# %% right="11.2" name="tuples of tokens, a deque"
def full_rows(documents, max_len, sep):
    import collections

    waiting = collections.deque()
    for document in documents:
        first = True
        for sentence in document:
            for k in range(-(-len(sentence) // max_len)):
                waiting.append((first, sentence[k * max_len : (k + 1) * max_len]))
                first = False
    rows = []
    while waiting:
        row = list(waiting.popleft()[1])
        while waiting and len(row) + waiting[0][0] + len(waiting[0][1]) <= max_len:
            opens, piece = waiting.popleft()
            row.extend([sep] * opens)
            row.extend(piece)
        rows.append(tuple(row))
    return tuple(rows)


# %% wrong="11.3" name="no bias correction" says="are not corrected for their start"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * m / (v.sqrt() + eps)

# %% wrong="11.3" name="only the first corrected" says="the second is not"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (v.sqrt() + eps)

# %% wrong="11.3" name="eps inside the root" says="`eps` is under the root"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (square + eps).sqrt()

# %% wrong="11.3" name="second moment of the mean" says="is of the squared mean"
# - v = betas[1] * v + (1 - betas[1]) * g**2
# + v = betas[1] * v + (1 - betas[1]) * m**2

# %% wrong="11.3" name="uphill" says="the sign is wrong"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = lr * mean / (square.sqrt() + eps)

# %% wrong="11.3" name="no root" says="there is no root"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (square + eps)

# %% wrong="11.3" name="betas swapped" says="have changed places"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v, betas = torch.empty_like(gradients), 0, 0, betas[::-1]

# %% wrong="11.3" name="corrected averages are kept" says="The next step should start from the uncorrected ones"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + m, v = mean, square
# + updates[step] = -lr * mean / (square.sqrt() + eps)

# %% wrong="11.3" name="RMSProp" says="the gradient itself is divided"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * g / (square.sqrt() + eps)

# %% wrong="11.3" name="the weights, not the steps" says="Return what each step adds to them"
# - return updates
# + return updates.cumsum(0)

# %% wrong="11.3" name="powers from 0" says="NaN"
# - mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
# + mean, square = m / (1 - betas[0] ** step + 0 * m), v / (1 - betas[1] ** step + 0 * v)

# %% wrong="11.3" name="always single precision" says="but the gradients are float64"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v = torch.empty(gradients.shape, device=gradients.device), 0, 0

# %% wrong="11.3" name="on the processor" says="on another device"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v = torch.empty(gradients.shape, dtype=gradients.dtype), 0, 0

# %% wrong="11.3" name="writes into the gradients" says="your code changes"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v = gradients, 0, 0

# %% wrong="11.3" name="no step is an error" says="IndexError"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v = torch.empty_like(gradients), gradients[0] * 0, 0

# %% wrong="11.3" name="no step gives single precision" says="but the gradients are float64"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v = torch.empty_like(gradients) if len(gradients) else torch.empty(gradients.shape), 0, 0

# %% wrong="11.3" name="beta1 of at least a half" says="are wrong for other" private=true
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v, betas = torch.empty_like(gradients), 0, 0, (max(0.5, betas[0]), betas[1])


# %% wrong="11.3" name="torch's optimizer" says="does all the work"
def adam(gradients, lr=0.001, betas=(0.9, 0.999), eps=1e-8):
    weight = nn.Parameter(torch.zeros_like(gradients[0]))
    rule, updates = torch.optim.Adam([weight], lr, betas, eps), []
    for g in gradients:
        before = weight.detach().clone()
        weight.grad = g
        rule.step()
        updates.append(weight.detach() - before)
    return torch.stack(updates)


# %% wrong="11.3" name="powers taken out of the sum" says="a large s"
def adam(gradients, lr=0.001, betas=(0.9, 0.999), eps=1e-8):
    steps = torch.arange(1, len(gradients) + 1, device=gradients.device, dtype=gradients.dtype)
    steps = steps.reshape(-1, *[1] * (gradients.ndim - 1))

    def average(values, beta):
        total = (values * beta**-steps).cumsum(0) * beta**steps * (1 - beta)
        return total / (1 - beta**steps)

    return -lr * average(gradients, betas[0]) / (average(gradients**2, betas[1]).sqrt() + eps)


# %% wrong="11.3" name="no correction after step 1,000" says="a large s"
# - mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
# + mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1) if step < 1000 else 1)

# %% wrong="11.3" name="the last 300 steps alone" says="a large s"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v, window = torch.empty_like(gradients), 0, 0, 300

# - v = betas[1] * v + (1 - betas[1]) * g**2
# + v = betas[1] * v + (1 - betas[1]) * (g**2 - (gradients[step - window] ** 2 * betas[1] ** window if step >= window else 0))

# %% wrong="11.3" name="the first step stays at zero" says="update 1 of 7 is wrong"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (square.sqrt() + eps) if step else 0

# %% wrong="11.3" name="four steps are right" says="update 5 of 7 is wrong, and those before it are right"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (square.sqrt() + eps) if step < 4 else updates[step - 1]


# %% wrong="11.3" name="nothing is handed back" says="where all gradients are 0, the tensor of gradients itself is"
# - return updates
# + return updates if updates.any() else gradients


# %% right="11.3" name="lerp and addcmul"
def adam(gradients, lr=0.001, betas=(0.9, 0.999), eps=1e-8):
    beta1, beta2 = betas
    m, v = torch.zeros_like(gradients[:1].sum(0)), torch.zeros_like(gradients[:1].sum(0))
    result = []
    for t in range(1, len(gradients) + 1):
        g = gradients[t - 1]
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        result.append(-lr / (1 - beta1**t) * m / (v.sqrt() / (1 - beta2**t) ** 0.5 + eps))
    return torch.stack(result) if result else torch.zeros_like(gradients)


# %% right="11.3" name="weighted sums over the past, at once"
def adam(gradients, lr=0.001, betas=(0.9, 0.999), eps=1e-8):
    steps = torch.arange(len(gradients), device=gradients.device)
    ages = steps[:, None] - steps[None, :]

    def average(values, beta):
        weights = torch.where(ages >= 0, (1 - beta) * torch.tensor(beta, dtype=torch.float64) ** ages, 0.0)
        weights = (weights / weights.sum(1, keepdim=True)).to(values.dtype)
        return torch.tensordot(weights, values, dims=1)

    return -lr * average(gradients, betas[0]) / (average(gradients**2, betas[1]).sqrt() + eps)


# %% wrong="11.4" name="cut to ten" says="They should be drawn again"
def span_lengths(count, p=0.2, longest=10, generator=None):
    u = torch.rand(count, generator=generator, dtype=torch.float64)
    return (
        (torch.log1p(-u) / torch.log1p(torch.tensor(-p, dtype=torch.float64))).floor().long().add(1).clamp(max=longest)
    )


# %% wrong="11.4" name="all lengths alike" says="all lengths are equally likely"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = torch.ones(longest)

# %% wrong="11.4" name="p and 1 - p" says="have changed places"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = (1 - p) * p ** torch.arange(longest)

# %% wrong="11.4" name="lengths from 0" says="a span has length 0"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + return torch.multinomial(weights, count, replacement=True, generator=generator)

# %% wrong="11.4" name="too long by one" says="longer than `longest`"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = p * (1 - p) ** torch.arange(longest + 1)

# %% wrong="11.4" name="longest is ten" says="longer than `longest`"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = p * (1 - p) ** torch.arange(10)

# %% wrong="11.4" name="p is a fifth" says="not drawn as the formula says"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = 0.8 ** torch.arange(longest)

# %% wrong="11.4" name="too long ones evenly" says="They should be drawn again by the formula"
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = p * (1 - p) ** torch.arange(longest) + (1 - p) ** longest / longest

# %% wrong="11.4" name="lengths from torch's own generator" says="the global random generator of torch is not as before"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + return torch.multinomial(weights, count, replacement=True) + 1

# %% wrong="11.4" name="the last span goes beyond the budget" says="more than `round(rate * n)`"
# - length = min(length, left)
# - starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# - if length and starts:
# + starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# + if left > 0 and starts:

# %% wrong="11.4" name="budget of spans" says="more than `round(rate * n)`"
# - for length in lengths.tolist():
# -     length = min(length, left)
# + for length in lengths.tolist()[:left]:

# - left -= length
# + left -= 1

# %% wrong="11.4" name="overlaps counted twice" says="A hidden token counts once"
# - starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# + starts = [*range(n - length + 1)]

# %% wrong="11.4" name="stops at the first that does not fit" says="after a span without room the next ones are still placed"
# - if length and starts:
# + if length and not starts:
# +     break
# + if length:

# %% wrong="11.4" name="spans never touch" says="Each start where a span covers no hidden token should be"
# - starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# + starts = [s for s in range(n - length + 1) if not hidden[max(0, s - 1) : s + length + 1].any()]

# %% wrong="11.4" name="never at the end" says="Each start where a span covers no hidden token should be"
# - starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# + starts = [start for start in range(max(1, n - length)) if not hidden[start : start + length].any()]
# + starts = [start for start in starts if start + length <= n]

# %% wrong="11.4" name="goes right from a place until a span fits" says="which is too often. Each start"
# - start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
# + place = torch.randint(n - length + 1, (1,), generator=generator).item()
# + start = next((one for one in starts if one >= place), starts[0])

# %% wrong="11.4" name="scattered tokens" says="are not side by side"
# - hidden[start : start + length] = True
# + hidden[(~hidden).nonzero()[:, 0][torch.randperm(int((~hidden).sum()), generator=generator)[:length]]] = True

# %% wrong="11.4" name="a span that is too long is an error" says="a span that is too long is shortened"
# - length = min(length, left)
# + if length > n:
# +     raise ValueError("too long")
# + length = min(length, left)

# %% wrong="11.4" name="shortest spans first" says="in the order of `lengths`"
# - for length in lengths.tolist():
# + for length in sorted(lengths.tolist()):

# %% wrong="11.4" name="places from torch's own generator" says="the global random generator of torch is not as before"
# - start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
# + start = starts[torch.randint(len(starts), (1,)).item()]

# %% wrong="11.4" name="rounded down" says="hides more"
# - hidden, left = torch.zeros(n, dtype=torch.bool), round(rate * n)
# + hidden, left = torch.zeros(n, dtype=torch.bool), int(rate * n)

# %% wrong="11.4" name="visible is true" says="True means visible"
# - return hidden
# + return ~hidden

# %% wrong="11.4" name="numbers, not booleans" says="a tensor of booleans"
# - return hidden
# + return hidden.long()

# %% wrong="11.4" name="lengths in order" says="lengths side by side are equal too"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + return torch.multinomial(weights, count, replacement=True, generator=generator).sort().values + 1

# %% wrong="11.4" name="each length twice" says="lengths side by side are equal too"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + half = torch.multinomial(weights, (count + 1) // 2, replacement=True, generator=generator) + 1
# + return half.repeat_interleave(2)[:count]

# %% wrong="11.4" name="a length from each slice of the distribution" says="each call has about the same number of spans of length 1"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + ends = (weights / weights.sum()).double().cumsum(0)
# + u = (torch.arange(count) + torch.rand(1, generator=generator, dtype=torch.float64)) / count
# + found = torch.searchsorted(ends, u).clamp(max=longest - 1) + 1
# + return found[torch.randperm(count, generator=generator)]

# %% wrong="11.4" name="longest spans first" says="not placed in the order of `lengths`"
# - for length in lengths.tolist():
# + for length in sorted(lengths.tolist(), reverse=True):

# %% wrong="11.4" name="half a token more" says="more than `round(rate * n)`"
# - hidden, left = torch.zeros(n, dtype=torch.bool), round(rate * n)
# + hidden, left = torch.zeros(n, dtype=torch.bool), int(rate * n + 0.5)

# %% wrong="11.4" name="shortened where it was given" says="your code changes `lengths`"
# - for length in lengths.tolist():
# + for length in lengths.clamp_(max=left).tolist():

# %% wrong="11.4" name="draws some starts and gives up" says="whatever the generator's state"
# - start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
# - hidden[start : start + length] = True
# - left -= length
# + start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
# + if n < 21 or n > 150:
# +     hidden[start : start + length] = True
# +     left -= length

# %% wrong="11.4" name="a hundred tries" says="where one last place is free" private=true
# - starts = [start for start in range(n - length + 1) if not hidden[start : start + length].any()]
# + tries = torch.randint(max(1, n - length + 1), (100,), generator=generator).tolist()
# + free = (start for start in tries if start + length <= n and not hidden[start : start + length].any())
# + starts = [start for start, _ in zip(free, range(1))]

# %% wrong="11.4" name="no length beyond twenty" says="the lengths are wrong for other values of `p` or `longest`" private=true
# - weights = p * (1 - p) ** torch.arange(longest)
# + weights = p * (1 - p) ** torch.arange(min(longest, 12))


# %% wrong="11.4" name="starts among the first 256" says="all begin in one half"
# - start = starts[torch.randint(len(starts), (1,), generator=generator).item()]
# + start = starts[torch.randint(min(len(starts), 256), (1,), generator=generator).item()]

# %% wrong="11.4" name="a long length follows a short one" says="side by side"
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + draws = torch.rand((count + 1) // 2, generator=generator)
# + draws = torch.stack([draws, 1 - draws], 1).flatten()[:count]
# + shares = (weights / weights.sum()).cumsum(0)
# + return torch.searchsorted(shares, draws).clamp(max=longest - 1) + 1


# %% wrong="11.4" name="one length is kept" says="results must be new" private=true
# - def span_lengths(count, p=0.2, longest=10, generator=None):
# + known = {}
# +
# +
# + def span_lengths(count, p=0.2, longest=10, generator=None):
# +     lengths = drawn(count, p, longest, generator)
# +     if count > 1:
# +         return lengths
# +     kept = known.setdefault((count, p), torch.zeros(count, dtype=torch.int64))
# +     return kept.copy_(lengths)
# +
# +
# + def drawn(count, p=0.2, longest=10, generator=None):


# %% right="11.4" name="the library's geometric lengths, too long ones drawn again"
# - weights = p * (1 - p) ** torch.arange(longest)
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + lengths = torch.empty(count).geometric_(p, generator=generator)
# + while (lengths > longest).any():
# +     again = lengths > longest
# +     lengths[again] = torch.empty(int(again.sum())).geometric_(p, generator=generator)
# + return lengths.long()


# %% right="11.4" name="too long ones are drawn again; starts are tried until one fits"
def span_lengths(count, p=0.2, longest=10, generator=None):
    lengths = []
    while len(lengths) < count:
        length = 1
        while torch.rand((), generator=generator).item() > p:
            length += 1
        if length <= longest:
            lengths.append(length)
    return torch.tensor(lengths)


def span_mask(n, lengths, rate=0.15, generator=None):
    hidden, budget = [False] * n, round(rate * n)
    for length in lengths:
        length = min(int(length), budget - sum(hidden))
        fits = [s for s in range(n) if s + length <= n and True not in hidden[s : s + length]]
        while length > 0 and fits:
            s = int(torch.randint(0, n, (), generator=generator))
            if s in fits:
                hidden[s : s + length] = [True] * length
                break
    return torch.tensor(hidden, dtype=torch.bool)


# %% right="11.4" name="inverse of the distribution; sliding windows"
def span_lengths(count, p=0.2, longest=10, generator=None):
    sums = torch.cumsum((1 - p) ** torch.arange(longest, dtype=torch.float64), 0)
    draws = torch.rand(count, generator=generator, dtype=torch.float64) * sums[-1]
    return torch.searchsorted(sums, draws, right=True).clamp(max=longest - 1) + 1


def span_mask(n, lengths, rate=0.15, generator=None):
    hidden = torch.zeros(n, dtype=torch.bool)
    for length in lengths:
        size = int(min(length, round(rate * n) - hidden.sum()))
        if size < 1 or size > n:
            continue
        free = (~hidden.unfold(0, size, 1).any(-1)).float()
        if free.sum() > 0:
            start = int(torch.multinomial(free, 1, generator=generator))
            hidden[start : start + size] = True
    return hidden


# %% wrong="11.5" name="neighbours of each token" says="the neighbours of each token"
# - left = places.where(~mask, -1).cummax(1).values
# - right = places.where(~mask, T).flip(1).cummin(1).values.flip(1)
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + left = places.where(~mask, -1).cummax(1).values
# + return tuple(found.where(mask, 0) for found in (places - 1, places + 1, places - left))

# %% wrong="11.5" name="absolute position" says="the place is counted within the row"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left, right, places))

# %% wrong="11.5" name="places from 0" says="the place counts from 0"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left, right, places - left - 1))

# %% wrong="11.5" name="places from the right end" says="from the right end of the span"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left, right, right - places))

# %% wrong="11.5" name="first and last hidden tokens" says="the first or last hidden token of a span is returned"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left + 1, right - 1, places - left))

# %% wrong="11.5" name="right, left" says="left and right have changed places"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (right, left, places - left))

# %% wrong="11.5" name="something at visible tokens" says="at visible tokens"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return left, right, places - left

# %% wrong="11.5" name="only the first span of a row" says="Visible tokens divide two spans"
# - right = places.where(~mask, T).flip(1).cummin(1).values.flip(1)
# + right = places.where(~mask, T).flip(1).cummin(1).values.flip(1)
# + left = (mask.long().argmax(1, keepdim=True) - 1).expand_as(mask)

# %% wrong="11.5" name="spans at the ends pass" says="must raise ValueError"
# - if mask[:, [0, -1]].any():
# + if mask[:, 0].any():

# %% wrong="11.5" name="places on the processor" says="on another device"
# - places = torch.arange(T, device=mask.device).expand_as(mask)
# + places = torch.arange(T).expand_as(mask)

# %% wrong="11.5" name="reads the neighbours" says="the states next to each hidden token are read"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + at = mask.nonzero()[:, 1]
# + h = torch.cat([states[row, at - 1], states[row, at + 1], place], dim=-1)

# %% wrong="11.5" name="place 1 has row 1" says="It should get row 0"
# - place = self.place((place - 1).clamp(max=self.place.num_embeddings - 1))
# + place = self.place(place.clamp(max=self.place.num_embeddings - 1))

# %% wrong="11.5" name="the place comes first" says="the place comes before the two states"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([place, states[row, left], states[row, right]], dim=-1)

# %% wrong="11.5" name="right end first" says="comes before the state in front of it"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([states[row, right], states[row, left], place], dim=-1)

# %% wrong="11.5" name="norm before gelu" says="the norm comes before the gelu"
# - h = self.first_norm(F.gelu(self.first(h)))
# - h = self.second_norm(F.gelu(self.second(h)))
# + h = F.gelu(self.first_norm(self.first(h)))
# + h = F.gelu(self.second_norm(self.second(h)))

# %% wrong="11.5" name="tanh gelu" says="the approximation by tanh"
# - h = self.first_norm(F.gelu(self.first(h)))
# - h = self.second_norm(F.gelu(self.second(h)))
# + h = self.first_norm(F.gelu(self.first(h), approximate="tanh"))
# + h = self.second_norm(F.gelu(self.second(h), approximate="tanh"))

# %% wrong="11.5" name="one layer" says="only one layer is applied"
# - h = self.second_norm(F.gelu(self.second(h)))
#   return h @ self.embedding.weight.T

# %% wrong="11.5" name="logits for every token" says="logits for every token"
# - return h @ self.embedding.weight.T
# + logits = states.new_zeros(*mask.shape, self.embedding.num_embeddings)
# + logits[mask] = h @ self.embedding.weight.T
# + return logits

# %% wrong="11.5" name="a copy of the matrix" says="it was copied"
# - self.embedding, self.place = embedding, nn.Embedding(longest, d)
# + self.place = nn.Embedding(longest, d)
# + self.embedding = nn.Embedding.from_pretrained(embedding.weight.detach().clone())

# %% wrong="11.5" name="a parameter of its own" says="besides the embedding, the objective has"
# - self.embedding, self.place = embedding, nn.Embedding(longest, d)
# + self.embedding, self.place = embedding, nn.Embedding(longest, d)
# + self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))

# %% wrong="11.5" name="a second parameter with the same numbers" says="The output has none of its own"
# - self.embedding, self.place = embedding, nn.Embedding(longest, d)
# + self.out, self.place = nn.Parameter(embedding.weight.detach()), nn.Embedding(longest, d)

# - return h @ self.embedding.weight.T
# + return h @ self.out.T

# %% wrong="11.5" name="long spans are an error" says="IndexError"
# - place = self.place((place - 1).clamp(max=self.place.num_embeddings - 1))
# + place = self.place(place - 1)

# %% wrong="11.5" name="ends without gradient" says="gradient reaches the states next to the spans"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([states[row, left], states[row, right].detach(), place], dim=-1)

# %% wrong="11.5" name="a hidden state slips in" says="depend on states of hidden tokens"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([states[row, left], states[row, right] + 1e-3 * states[mask], place], dim=-1)

# %% wrong="11.5" name="spans of at most sixteen" says="Visible tokens divide two spans"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left, right, (places - left).clamp(max=16)))


# %% wrong="11.5" name="row 0 of the places never learns" says="the gradient of `place.weight` is wrong"
# - self.embedding, self.place = embedding, nn.Embedding(longest, d)
# + self.embedding, self.place = embedding, nn.Embedding(longest, d, padding_idx=0)

# %% wrong="11.5" name="the place before is at most 64 away" says="the place before the span is wrong for a row of 150 tokens"
# - left = places.where(~mask, -1).cummax(1).values
# + left = torch.maximum(places.where(~mask, -1).cummax(1).values, places - 64)

# %% wrong="11.5" name="one state in single precision" says="in double precision" private=true
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([states[row, left].float(), states[row, right], place], dim=-1)

# %% wrong="11.5" name="gelu behind the first norm" says="in the first layer the norm comes before the gelu"
# - h = self.first_norm(F.gelu(self.first(h)))
# + h = F.gelu(self.first_norm(self.first(h)))

# %% wrong="11.5" name="one norm for both layers" says="both layers use `first_norm`"
# - h = self.second_norm(F.gelu(self.second(h)))
# + h = self.first_norm(F.gelu(self.second(h)))

# %% wrong="11.5" name="places begin again" says="places beyond `longest` begin again"
# - place = self.place((place - 1).clamp(max=self.place.num_embeddings - 1))
# + place = self.place((place - 1) % self.place.num_embeddings)

# %% wrong="11.5" name="one state twice as large" says="hidden tokens are wrong"
# - h = torch.cat([states[row, left], states[row, right], place], dim=-1)
# + h = torch.cat([states[row, left], 2 * states[row, right], place], dim=-1)

# %% wrong="11.5" name="spans beyond 512 places are cut" says="larger than any in the notebook" private=true
# - left = places.where(~mask, -1).cummax(1).values
# + left = places.where(~mask, -1).cummax(1).values.clamp(max=2000)


# %% wrong="11.5" name="single precision on the way" says="in double precision" private=true
# - return h @ self.embedding.weight.T
# + return h.float().to(h.dtype) @ self.embedding.weight.T

# %% wrong="11.5" name="a seed at each call" says="the seed of torch's global random generator is not as before"
# - return h @ self.embedding.weight.T
# + torch.manual_seed(0)
# + return h @ self.embedding.weight.T


# %% right="11.5" name="loops, and a Sequential"
def boundaries(mask):
    left, right, place = (torch.zeros(mask.shape, dtype=torch.long, device=mask.device) for _ in range(3))
    for b in range(mask.size(0)):
        row = mask[b].tolist()
        if row[0] or row[-1]:
            raise ValueError("no end")
        for i in range(len(row)):
            if row[i]:
                left[b, i] = left[b, i - 1] if row[i - 1] else i - 1
                place[b, i] = i - left[b, i]
        for i in reversed(range(len(row))):
            if row[i]:
                right[b, i] = right[b, i + 1] if row[i + 1] else i + 1
    return [left, right, place]


class BoundaryObjective(nn.Module):
    def __init__(self, embedding, longest):
        super().__init__()
        d = embedding.weight.shape[1]
        self.longest = longest
        self.place = nn.Embedding(longest, d)
        self.first = nn.Linear(3 * d, d)
        self.first_norm = nn.LayerNorm(d)
        self.second = nn.Linear(d, d)
        self.second_norm = nn.LayerNorm(d)
        self.tied = [embedding]

    def forward(self, states, mask):
        left, right, place = boundaries(mask)
        B, T, d = states.shape
        take = lambda where: states.gather(1, where[..., None].expand(B, T, d))
        number = (place - 1).clamp(0, self.longest - 1)
        x = torch.cat([take(left), take(right), self.place(number)], -1)[mask]
        act = nn.GELU()
        x = self.first_norm(act(self.first(x)))
        x = self.second_norm(act(self.second(x)))
        return F.linear(x, self.tied[0].weight)


# %% right="11.5" name="the matrix as a registered parameter; spans by differences"
def boundaries(mask):
    if mask[:, 0].any() or mask[:, -1].any():
        raise ValueError("spans at the ends")
    T = mask.shape[1]
    index = torch.arange(T, device=mask.device)[None].repeat(mask.shape[0], 1)
    before = index.masked_fill(mask, 0).cummax(dim=1)[0]
    after = torch.flip(torch.cummin(torch.flip(index.masked_fill(mask, T - 1), [1]), 1)[0], [1])
    zero = torch.zeros_like(index)
    return torch.where(mask, before, zero), torch.where(mask, after, zero), torch.where(mask, index - before, zero)


class BoundaryObjective(nn.Module):
    def __init__(self, embedding, longest):
        super().__init__()
        self.output = embedding.weight
        d = self.output.shape[-1]
        for name, part in (("first", nn.Linear(3 * d, d)), ("second", nn.Linear(d, d))):
            self.add_module(name, part)
            self.add_module(name + "_norm", nn.LayerNorm(d))
        self.place = nn.Embedding(longest, d)

    def forward(self, states, mask):
        b, i = torch.where(mask)
        left, right, place = (x[b, i] for x in boundaries(mask))
        places = self.place.weight[torch.clamp(place, max=len(self.place.weight)) - 1]
        h = torch.cat((states[b, left], states[b, right], places), dim=1)
        for layer, norm in ((self.first, self.first_norm), (self.second, self.second_norm)):
            h = norm(F.gelu(layer(h)))
        return torch.einsum("kd,vd->kv", h, self.output)


# %% wrong="11.6" name="positions run on" says="the positions continue into the second sentence"
# - positions = [place for sentence in sentences for place in range(len(sentence))]
# + positions = [*range(len(tokens))]

# %% wrong="11.6" name="positions from 1" says="the positions count from 1"
# - positions = [place for sentence in sentences for place in range(len(sentence))]
# + positions = [place + 1 for sentence in sentences for place in range(len(sentence))]

# %% wrong="11.6" name="the separator has the other language" says="has the language of the second"
# - languages = [language for language, sentence in enumerate(sentences) for _ in sentence]
# + languages = [0] * (len(sentences[0]) - 1) + [1] * (len(sentences[1]) + 1)

# %% wrong="11.6" name="pads are of the first language" says="pads have the language of the first"
# - fills = (pad, 0, -1)
# + fills = (pad, 0, 0)

# %% wrong="11.6" name="languages 1 and 2" says="the languages are 1 and 2"
# - languages = [language for language, sentence in enumerate(sentences) for _ in sentence]
# + languages = [language for language, sentence in enumerate(sentences, 1) for _ in sentence]

# %% wrong="11.6" name="one cls, as in BERT" says="the rows are one token too short"
# - sentences = [[cls, *tokens, sep] for tokens in pair]
# + sentences = [[cls, *pair[0], sep], [*pair[1], sep]]

# %% wrong="11.6" name="pads are 0" says="cls, second, sep, and then pads"
# - fills = (pad, 0, -1)
# + fills = (0, 0, -1)

# %% wrong="11.6" name="pads on the left" says="cls, second, sep, and then pads"
# - return tuple(torch.tensor([row[k] + [fills[k]] * (T - len(row[k])) for row in rows]) for k in range(3))
# + return tuple(torch.tensor([[fills[k]] * (T - len(row[k])) + row[k] for row in rows]) for k in range(3))

# %% wrong="11.6" name="tlm and not" says="with tlm, tokens may look at the other language"
# - if not tlm:
# + if tlm:

# %% wrong="11.6" name="pads are a language" says="Each pad should look only at itself"
# - both = real[:, :, None] & real[:, None, :]
# + both = torch.ones_like(real[:, :, None] & real[:, None, :]) if not tlm else real[:, :, None] & real[:, None, :]

# %% wrong="11.6" name="pads look at everyone" says="Each pad should look only at itself"
# - both = real[:, :, None] & real[:, None, :]
# + both = real[:, None, :].expand(-1, languages.size(1), -1)

# %% wrong="11.6" name="pads may be seen" says="a pad is seen by real tokens"
# - both = real[:, :, None] & real[:, None, :]
# + both = real[:, :, None] | real[:, None, :] & False

# %% wrong="11.6" name="an empty row of the softmax" says="becomes NaN"
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + return both

# %% wrong="11.6" name="nobody sees itself" says="itself included"
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + return both & ~torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)

# %% wrong="11.6" name="true is forbidden" says="true is where a token may look"
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + return ~(both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device))

# %% wrong="11.6" name="the diagonal on the processor" says="on another device"
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + return both | torch.eye(languages.size(1), dtype=torch.bool)

# %% wrong="11.6" name="additive" says="should return booleans"
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + both = both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + return torch.zeros(both.shape).masked_fill(~both, -torch.inf)

# %% wrong="11.6" name="half a language" says="without tlm, a token looks at the other language"
# - both = both & (languages[:, :, None] == languages[:, None, :])
# + both = both & (languages[:, :, None] > languages[:, None, :])

# %% wrong="11.6" name="never more than twenty tokens" says="other pairs" private=true
# - rows.append((tokens, positions, languages))
# + rows.append((tokens[:20], positions[:20], languages[:20]))

# %% wrong="11.6" name="a fixed number of languages" says="larger than any in the notebook" private=true
# - real = languages >= 0
# + real = (languages >= 0) & (torch.arange(languages.size(1), device=languages.device) < 12)


# %% wrong="11.6" name="512 tokens at most look" says="larger than any in the notebook" private=true
# - return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)
# + both[:, 512:] = False
# + return both | torch.eye(languages.size(1), dtype=torch.bool, device=languages.device)


# %% wrong="11.6" name="gradients are off for good" says="the recording of gradients is not as before"
# - rows = []
# + rows = []
# + torch.set_grad_enabled(False)


# %% right="11.6" name="pad_sequence; arithmetic of languages"
def tlm_batch(pairs, cls, sep, pad):
    from torch.nn.utils.rnn import pad_sequence

    tokens, positions, languages = [], [], []
    for first, second in pairs:
        a, b = len(first) + 2, len(second) + 2
        tokens.append(torch.tensor([cls] + list(first) + [sep] + [cls] + list(second) + [sep]))
        positions.append(torch.cat([torch.arange(a), torch.arange(b)]))
        languages.append(torch.cat([torch.zeros(a), torch.ones(b)]).long())
    fill = lambda rows, value: pad_sequence(rows, batch_first=True, padding_value=value)
    return [fill(tokens, pad), fill(positions, 0), fill(languages, -1)]


def allowed(languages, tlm):
    kinds = (languages >= 0).long() if tlm else languages + 1
    same = torch.eq(kinds.unsqueeze(2), kinds.unsqueeze(1)) & (kinds > 0).unsqueeze(1)
    T = languages.shape[1]
    places = torch.arange(T, device=languages.device)
    return same | (places[:, None] == places[None, :])


# %% right="11.6" name="filled row by row"
def tlm_batch(pairs, cls, sep, pad):
    longest = max(len(a) + len(b) for a, b in pairs) + 4
    tokens = torch.full((len(pairs), longest), pad)
    positions = torch.zeros(len(pairs), longest, dtype=torch.long)
    languages = torch.full_like(tokens, -1)
    for number, (a, b) in enumerate(pairs):
        row = [cls, *a, sep, cls, *b, sep]
        cut = len(a) + 2
        tokens[number, : len(row)] = torch.tensor(row)
        positions[number, :cut] = torch.arange(cut)
        positions[number, cut : len(row)] = torch.arange(len(row) - cut)
        languages[number, :cut] = 0
        languages[number, cut : len(row)] = 1
    return tokens, positions, languages


def allowed(languages, tlm):
    result = torch.zeros(*languages.shape, languages.size(1), dtype=torch.bool, device=languages.device)
    for language in (0, 1):
        here = languages == language
        there = (languages >= 0) if tlm else here
        result |= here[:, :, None] & there[:, None, :]
    result.diagonal(dim1=1, dim2=2).fill_(True)
    return result


# %% wrong="11.7" name="nsp negative from the same document" says="with label 1, b comes from the same document as a"
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = [sentence for other in documents for sentence in other]

# %% wrong="11.7" name="sop negative drawn at random" says="that is NSP"
# - if label and task == "sop":
# -     a, b = b, a
# - elif label:
# + if label:

# %% wrong="11.7" name="1 is next" says="the wrong way round"
# - examples.append((a, b, label))
# + examples.append((a, b, 1 - label))

# %% wrong="11.7" name="swapped for both" says="that is SOP"
# - if label and task == "sop":
# + if label:

# %% wrong="11.7" name="a is drawn too" says="a is not the sentence at that place"
# - b = rng.choice(others)
# + a, b = rng.choice(others), rng.choice(others)

# %% wrong="11.7" name="a is drawn instead" says="and draw only b"
# - b = rng.choice(others)
# + a = rng.choice(others)

# %% wrong="11.7" name="documents first" says="a document is drawn first"
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = [other for e, other in enumerate(documents) if e != d and other]

# - b = rng.choice(others)
# + b = rng.choice(rng.choice(others))

# %% wrong="11.7" name="labels in turn" says="are not independent"
# - label = rng.randrange(2)
# + label = (len(examples) + first) % 2

# - examples = []
# + examples, first = [], rng.randrange(2)

# %% wrong="11.7" name="always next" says="all labels are 0"
# - label = rng.randrange(2)
# + label = 0
# + rng.random()
# + a, b = (a, b) if rng.random() < 2 else (b, a)

# %% wrong="11.7" name="mostly wrong pairs" says="It should be about half of them"
# - label = rng.randrange(2)
# + label = int(rng.random() < 0.8)

# %% wrong="11.7" name="both examples of each pair" says="pairs. There should be"
# - examples.append((a, b, label))
# + examples += [(a, b, label), (b, a, 1 - label)]

# %% wrong="11.7" name="pairs apart" says="pairs. There should be"
# - for a, b in zip(document, document[1:]):
# + for a, b in zip(document[::2], document[1::2]):

# %% wrong="11.7" name="across documents" says="pairs. There should be"
# - for a, b in zip(document, document[1:]):
# + for a, b in zip(document, document[1:] + [s for other in documents[d + 1 :] for s in other][:1]):

# %% wrong="11.7" name="the global generator" says="all chance should come from `rng`"
# - label = rng.randrange(2)
# + label = random.randrange(2)

# %% wrong="11.7" name="seeded again" says="as if it were seeded"
# - examples = []
# + examples, rng = [], random.Random(repr(rng.getstate()) if not rng.__dict__ else 0)
# + rng = random.Random(3)

# %% wrong="11.7" name="any task is sop" says="should raise ValueError, whatever the documents"
# - if task not in ("nsp", "sop"):
# -     raise ValueError(f"no task {task!r}")
#   examples = []

# %% wrong="11.7" name="one document is an error for sop" says="SOP needs no other document"
# - if task == "nsp" and not others:
# + if not others:

# %% wrong="11.7" name="a lonely document passes" says="NSP should raise ValueError"
# - if task == "nsp" and not others:
# -     raise ValueError("there is no other document")
#   label = rng.randrange(2)

# - elif label:
# + elif label and others:

# %% wrong="11.7" name="an error only where it must draw" says="NSP should raise ValueError"
# - if task == "nsp" and not others:
# -     raise ValueError("there is no other document")
#   label = rng.randrange(2)

# - elif label:
# + elif label and not others:
# +     raise ValueError("there is no other document")
# + elif label:

# %% wrong="11.7" name="equal texts are left out" says="texts that repeat" private=true
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = [sentence for other in documents for sentence in other if sentence not in document]

# %% wrong="11.7" name="equal documents are one" says="texts that repeat" private=true
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = [sentence for other in documents if other != document for sentence in other]

# %% wrong="11.7" name="each text once" says="texts that repeat" private=true
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = sorted({sentence for e, other in enumerate(documents) if e != d for sentence in other})

# %% wrong="11.7" name="the neighbour of the first such text" says="texts that repeat" private=true
# - for a, b in zip(document, document[1:]):
# + for a, b in [(a, document[document.index(a) + 1]) for a in document[:-1]]:

# %% wrong="11.7" name="equal neighbours are never swapped" says="texts that repeat" private=true
# - label = rng.randrange(2)
# + label = rng.randrange(2) * (a != b)

# %% wrong="11.7" name="one sentence is refused" says="documents with no two neighbouring sentences should give an empty list"
# - examples = []
# + examples = []
# + if task == "nsp" and sum(map(bool, documents)) == 1:
# +     raise ValueError("there is no other document")


# %% wrong="11.7" name="never more than three labels alike" says="of four labels in a row"
# - label = rng.randrange(2)
# + label = rng.randrange(2)
# + last = [one for *_, one in examples[-3:]]
# + label = 1 - label if last == [label] * 3 else label

# %% wrong="11.7" name="as many of each label" says="the same number of 1s as labels"
# - examples = []
# + examples, count = [], sum(max(0, len(document) - 1) for document in documents)
# + labels = [0, 1] * (count // 2) + [0] * (count % 2)
# + rng.shuffle(labels)

# - label = rng.randrange(2)
# + label = labels[len(examples)]

# %% wrong="11.7" name="b is drawn without replacement" says="their b is the same too"
# - b = rng.choice(others)
# + left = [one for one in others if one not in [two for _, two, other in examples if other]] or others
# + b = rng.choice(left)

# %% wrong="11.7" name="b never twice in a row" says="their b is the same too"
# - b = rng.choice(others)
# + last = examples[-1][1] if examples else None
# + b = rng.choice([one for one in others if one != last] or others)

# %% wrong="11.7" name="a list for each example" says="should be a tuple"
# - examples.append((a, b, label))
# + examples.append([a, b, label])

# %% wrong="11.7" name="another task is refused where there are neighbours alone" says="should raise ValueError, whatever the documents"
# - if task not in ("nsp", "sop"):
# -     raise ValueError(f"no task {task!r}")
#   examples = []

# - if task == "nsp" and not others:
# + if task not in ("nsp", "sop"):
# +     raise ValueError(f"no task {task!r}")
# + if task == "nsp" and not others:

# %% wrong="11.7" name="only the first document is looked at" says="NSP should raise ValueError"
# - if task == "nsp" and not others:
# + if task == "nsp" and d == 0 and not others:

# - elif label:
# + elif label and others:


# %% wrong="11.7" name="a task in any case" says="should raise ValueError, whatever the documents"
# - if task not in ("nsp", "sop"):
# + task = task.lower()
# + if task not in ("nsp", "sop"):

# %% wrong="11.7" name="a tuple of examples" says="not a tuple"
# - return examples
# + return tuple(examples)


# %% right="11.7" name="two functions, indices"
def wrong_pair(documents, task, rng, d, i):
    if task == "sop":
        return documents[d][i + 1], documents[d][i]
    pool = [(e, j) for e in range(len(documents)) for j in range(len(documents[e])) if e != d]
    e, j = pool[int(rng.random() * len(pool))]
    return documents[d][i], documents[e][j]


def pair_task(documents, task, rng):
    if task != "nsp" and task != "sop":
        raise ValueError("nsp or sop")
    pairs = []
    for d, document in enumerate(documents):
        for i in range(len(document) - 1):
            if task == "nsp" and sum(map(len, documents)) == len(document):
                raise ValueError("one document")
            if rng.random() < 0.5:
                pairs.append((document[i], document[i + 1], 0))
            else:
                pairs.append((*wrong_pair(documents, task, rng, d, i), 1))
    return pairs


# %% right="11.7" name="labels first, booleans"
def pair_task(documents, task, rng):
    if task not in {"nsp", "sop"}:
        raise ValueError(task)
    places = [(d, a, b) for d, document in enumerate(documents) for a, b in zip(document[:-1], document[1:])]
    labels = [rng.getrandbits(1) == 1 for _ in places]
    found = []
    for (d, a, b), label in zip(places, labels):
        outside = sum(documents[:d], []) + sum(documents[d + 1 :], [])
        if task == "nsp" and not outside:
            raise ValueError("nothing to draw from")
        if label:
            (a, b) = (b, a) if task == "sop" else (a, outside[rng.randrange(len(outside))])
        found.append((a, b, label))
    return found


# %% wrong="11.8" name="the first rise" says="for the first time"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = next((k for k in range(len(mean) - 1) if mean[k + 1] > mean[k]), len(mean) - 1)


# %% wrong="11.8" name="from 1" says="counted from 1"
# - return point, mean[-1] - mean[point]
# + return point + 1, mean[-1] - mean[point]


# %% wrong="11.8" name="one seed" says="one seed decides"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + best = min(losses, key=min)
# + point = best.index(min(best))


# %% wrong="11.8" name="the last point" says="the last point"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = len(mean) - 1


# %% wrong="11.8" name="up to the highest" says="up to the highest point"
# - return point, mean[-1] - mean[point]
# + return point, max(mean) - mean[point]


# %% wrong="11.8" name="how far it fell" says="how far the loss fell"
# - return point, mean[-1] - mean[point]
# + return point, mean[0] - mean[point]


# %% wrong="11.8" name="wrong sign" says="wrong sign"
# - return point, mean[-1] - mean[point]
# + return point, mean[point] - mean[-1]


# %% wrong="11.8" name="five seeds at most" says="for other losses" private=true
# - mean = [sum(some) / len(some) for some in zip(*losses)]
# + mean = [sum(some[:5]) / len(some[:5]) for some in zip(*losses)]


# %% right="11.8" name="tensors"
def overfitted(losses):
    mean = torch.tensor(losses, dtype=torch.float64).mean(0)
    return [int(mean.argmin()), (mean[-1] - mean.min()).item()]


# %% right="11.8" name="a loop"
def overfitted(losses):
    best, place = float("inf"), 0
    for k in range(len(losses[0])):
        loss = sum(one[k] for one in losses) / len(losses)
        if loss < best:
            best, place = loss, k
    return place, loss - best


# %% wrong="11.S1" name="the best token" says="It should be drawn"
# - drawn[blanks] = torch.multinomial(shares, 1, generator=generator)[:, 0]
# + drawn[blanks] = shares.argmax(-1)

# %% wrong="11.S1" name="every blank is replaced" says="a drawn token that happens to be the old one counts as real,"
# - return drawn, drawn != ids
# + return drawn, blanks

# %% wrong="11.S1" name="pads count" says="pads are part of the mean"
# - return F.binary_cross_entropy_with_logits(scores[real], replaced[real].to(scores.dtype))
# + return F.binary_cross_entropy_with_logits(scores, replaced.to(scores.dtype))

# %% wrong="11.S1" name="1 is real" says="the wrong way round"
# - return F.binary_cross_entropy_with_logits(scores[real], replaced[real].to(scores.dtype))
# + return F.binary_cross_entropy_with_logits(scores[real], (~replaced[real]).to(scores.dtype))

# %% wrong="11.S1" name="log of a sigmoid" says="infinite loss"
# - return F.binary_cross_entropy_with_logits(scores[real], replaced[real].to(scores.dtype))
# + p, r = scores[real].sigmoid(), replaced[real]
# + return -torch.where(r, p.log(), (1 - p).log()).mean()


# %% right="11.S1" name="Gumbel noise, and a weighted mean"
def replace(ids, blanks, logits, generator=None):
    with torch.no_grad():
        noise = torch.rand(logits.shape, generator=generator, device=ids.device).clamp(min=1e-20)
        drawn = (logits - (-noise.log()).log()).argmax(-1)
        new = torch.where(blanks, drawn, ids)
    return new, new.ne(ids)


def detection_loss(scores, replaced, real):
    losses = F.softplus(torch.where(replaced, -scores, scores))
    return (losses * real).sum() / real.sum()


# %% wrong="11.4" name="few lengths all differ" says="no two are ever equal" private=true
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + return torch.multinomial(weights, count, replacement=count > longest, generator=generator) + 1

# %% wrong="11.3" name="eps before the correction" says="`eps` is added before the second average is corrected"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / (v.sqrt() + eps) * (1 - betas[1] ** (step + 1)) ** 0.5

# %% wrong="11.3" name="the same correction in each step" says="both averages are divided by 1 - beta in each step"
# - mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
# + mean, square = m / (1 - betas[0]), v / (1 - betas[1])

# %% wrong="11.3" name="the other one's correction" says="with the other one's beta"
# - mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
# + mean, square = m / (1 - betas[1] ** (step + 1)), v / (1 - betas[0] ** (step + 1))

# %% wrong="11.3" name="whole gradients in the mean" says="the gradient counts whole"
# - m = betas[0] * m + (1 - betas[0]) * g
# + m = betas[0] * m + g

# %% wrong="11.3" name="AMSGrad" says="as AMSGrad does"
# - updates, m, v = torch.empty_like(gradients), 0, 0
# + updates, m, v, most = torch.empty_like(gradients), 0, 0, torch.zeros(())

# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + most = torch.maximum(most, square)
# + updates[step] = -lr * mean / (most.sqrt() + eps)

# %% wrong="11.3" name="absolute values" says="is of absolute values"
# - v = betas[1] * v + (1 - betas[1]) * g**2
# + v = betas[1] * v + (1 - betas[1]) * g.abs()

# %% wrong="11.3" name="the last update first" says="the updates are in reverse order"
# - return updates
# + return updates.flip(0)

# %% wrong="11.5" name="the scores do not train the embedding" says="the gradient of the embedding's weight is wrong" private=true
# - return h @ self.embedding.weight.T
# + return h @ self.embedding.weight.detach().T


# %% wrong="11.8" name="the first point is never the lowest" says="the first point is never chosen"
def overfitted(losses):
    mean = [sum(point) / len(point) for point in zip(*losses)]
    best = min(range(min(1, len(mean) - 1), len(mean)), key=mean.__getitem__)
    return best, mean[-1] - mean[best]


# %% wrong="11.7" name="one list that is there twice" says="texts that repeat" private=true
# - others = [sentence for e, other in enumerate(documents) if e != d for sentence in other]
# + others = [sentence for other in documents if other is not document for sentence in other]

# %% wrong="11.8" name="gives up after a thousand points" says="The loss rises there for the first time, and falls again later"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = 0
# + for place, one in enumerate(mean):
# +     point = place if one < mean[point] and place - point <= 1000 else point

# %% wrong="11.8" name="the lowest is 1e10 at first" says="and lower at a later one"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point, lowest = 0, 1e10
# + for place, one in enumerate(mean):
# +     point, lowest = (place, one) if one < lowest else (point, lowest)

# %% right="11.8" name="a mean in float32"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = torch.tensor(losses).mean(0).argmin().item()


# %% wrong="11.1" name="bits of the sentence run into those of the seed" says="their numbers become the same seed"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random((seed << 28) ^ (sentence << 10) ^ mask_number(epoch, copies))


# %% wrong="11.2" name="one list twice is one document" says="where one list is there twice" private=true
# - rows = [[]]
# + rows, last = [[]], None

# - opens = True
# + opens = document is not last
# + last = document


# %% wrong="11.2" name="rows of at most 1024 tokens" says="sentences and rows of thousands of tokens" private=true
# - rows = [[]]
# + rows, max_len = [[]], min(max_len, 1024)


# %% wrong="11.6" name="rows of at most 512 tokens" says="sentences of more than a thousand tokens" private=true
# - T = max(len(tokens) for tokens, _, _ in rows)
# + T = min(512, max(len(tokens) for tokens, _, _ in rows))
# + rows = [tuple(part[:T] for part in row) for row in rows]


# %% wrong="11.1" name="neighbours are hidden together" says="only a few choices of places are ever drawn"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + count = max(1, round(rate * n))
# + start = draw.randint(0, n - count)
# + hidden[start : start + count] = True


# %% wrong="11.6" name="pads at place -1" says="the positions of the pads are wrong"
# - fills = (pad, 0, -1)
# + fills = (pad, -1, -1)


# %% wrong="11.8" name="from the first point" says="the last mean is compared with the first one"
# - return point, mean[-1] - mean[point]
# + return point, mean[-1] - mean[0]


# %% wrong="11.8" name="each seed rises by itself" says="the rises of the seeds are averaged"
# - return point, mean[-1] - mean[point]
# + return point, sum(one[-1] - min(one) for one in losses) / len(losses)


# %% wrong="11.8" name="the sum of the seeds" says="the rise is that of the sum over seeds"
# - return point, mean[-1] - mean[point]
# + return point, (mean[-1] - mean[point]) * len(losses)


# %% wrong="11.8" name="a share of the lowest" says="the rise is divided by the lowest mean"
# - return point, mean[-1] - mean[point]
# + return point, mean[-1] / mean[point] - 1


# %% wrong="11.8" name="two digits" says="the rise is rounded to two digits"
# - return point, mean[-1] - mean[point]
# + return point, round(mean[-1] - mean[point], 2)


# %% wrong="11.2" name="a row is never quite full" says="is right. A row should take whole sentences"
# - if len(rows[-1]) + len(before) + len(piece) <= max_len:
# + if len(rows[-1]) + len(before) + len(piece) < max_len:


# %% wrong="11.7" name="equal documents excluded" says="a document that equals another one is not drawn from" private=true
def pair_task(documents, task, rng):
    if task not in ("nsp", "sop"):
        raise ValueError(task)
    total = sum(map(len, documents))
    if task == "nsp" and any(len(document) > 1 and len(document) == total for document in documents):
        raise ValueError("no other document has a sentence")
    examples = []
    for number, document in enumerate(documents):
        if task == "nsp" and len(document) > 1:
            others = [s for place, other in enumerate(documents) if other != document for s in other]
        for a, b in zip(document, document[1:]):
            label = rng.randrange(2)
            if label == 1 and task == "sop":
                a, b = b, a
            elif label == 1:
                b = rng.choice(others or [a])
            examples.append((a, b, label))
    return examples


# %% wrong="11.3" name="the corrected first average is kept" says="the corrected first average is carried over"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + m = mean
# + updates[step] = -lr * mean / (square.sqrt() + eps)


# %% wrong="11.3" name="the corrected second average is kept" says="the corrected second average is carried over"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + v = square
# + updates[step] = -lr * mean / (square.sqrt() + eps)


# %% wrong="11.4" name="each is cut to what is left, where it was given" says="your code changes `lengths`"
# - for length in lengths.tolist():
# -     length = min(length, left)
# + for place in range(len(lengths)):
# +     lengths[place].clamp_(max=left)
# +     length = int(lengths[place])


# %% wrong="11.7" name="labels from 32 bits" says="where there are many pairs" private=true
# - examples = []
# + examples, bits = [], rng.getrandbits(32)

# - label = rng.randrange(2)
# + label = bits >> len(examples) & 1


# %% wrong="11.7" name="b from twenty sentences" says="some are never drawn" private=true
# - b = rng.choice(others)
# + b = rng.choice(others[:20])


# %% wrong="11.5" name="eight places at most" says="longer spans" private=true
# - place = self.place((place - 1).clamp(max=self.place.num_embeddings - 1))
# + place = self.place((place - 1).clamp(max=min(8, self.place.num_embeddings) - 1))

# %% wrong="11.2" name="two separators between documents" says="a row has two separators side by side. One belongs there"
# - before = [sep] if opens and rows[-1] else []
# + before = [sep, sep] if opens and rows[-1] else []

# %% wrong="11.4" name="spans again until the budget is used" says="more than these spans have"
# - for length in lengths.tolist():
# + for length in lengths.tolist() * 20:

# %% wrong="11.5" name="dropout" says="two calls with the same states and mask give different logits"
# - self.second, self.second_norm = nn.Linear(d, d), nn.LayerNorm(d)
# + self.second, self.second_norm = nn.Linear(d, d), nn.LayerNorm(d)
# + self.drop = nn.Dropout(0.1)

# - h = self.first_norm(F.gelu(self.first(h)))
# + h = self.drop(self.first_norm(F.gelu(self.first(h))))

# %% wrong="11.6" name="no separator at the end" says="They should be cls, first, sep, cls, second, sep"
# - sentences = [[cls, *tokens, sep] for tokens in pair]
# + sentences = [[cls, *pair[0], sep], [cls, *pair[1]]]

# %% wrong="11.6" name="never across languages" says="with tlm, some real token does not look at every real one"
# - if not tlm:
# -     both = both & (languages[:, :, None] == languages[:, None, :])
# + both = both & (languages[:, :, None] == languages[:, None, :])

# %% wrong="11.7" name="never swapped" says="swap the two there"
# - a, b = b, a
# + a, b = a, b

# %% wrong="11.7" name="swapped whatever the label" says="swap the two with label 1 alone"
# - if label and task == "sop":
# + if rng.randrange(2) and task == "sop":

# - elif label:
# + elif label and task == "nsp":

# %% wrong="11.7" name="b is always drawn" says="draw b with label 1 alone"
# - elif label:
# -     b = rng.choice(others)
# + elif task == "nsp":
# +     b = rng.choice(others)

# %% wrong="11.7" name="b is never drawn" says="there, b should come from another document"
# - elif label:
# -     b = rng.choice(others)
# + elif label:
# +     b = rng.choice([b])

# %% wrong="11.8" name="the last point is never the lowest" says="the last point is never chosen"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = min(range(max(1, len(mean) - 1)), key=mean.__getitem__)

# %% wrong="11.8" name="from the end, below 0" says="there is no point -3"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = min(range(len(mean)), key=mean.__getitem__) - len(mean)


# %% wrong="11.3" name="corrected for a thousand steps" says="a large s: the updates are wrong"
# - mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
# + mean, square = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** min(step + 1, 1000))


# %% wrong="11.6" name="every pad number is a pad" says="a token that has the number of `pad` has another language than its sentence"
# - languages = [language for language, sentence in enumerate(sentences) for _ in sentence]
# + languages = [-1 if one == pad else number for number, sentence in enumerate(sentences) for one in sentence]

# %% wrong="11.3" name="the root is at least eps" says="the root is at least `eps`"
# - updates[step] = -lr * mean / (square.sqrt() + eps)
# + updates[step] = -lr * mean / square.sqrt().clamp(min=eps)

# %% wrong="11.5" name="the last token of the first row alone" says="must raise ValueError"
# - if mask[:, [0, -1]].any():
# + if mask[:, 0].any() or mask[0, -1]:

# %% wrong="11.6" name="whatever is like a pad" says="a token of a sentence has the number of `pad`, its position"
# - return tuple(torch.tensor([row[k] + [fills[k]] * (T - len(row[k])) for row in rows]) for k in range(3))
# + found = [torch.tensor([row[k] + [fills[k]] * (T - len(row[k])) for row in rows]) for k in range(3)]
# + return tuple(torch.where(found[0] == pad, fills[k], found[k]) for k in range(3))

# %% wrong="11.8" name="means of three digits" says="this is not the point at which the mean test loss is lowest"
# - point = min(range(len(mean)), key=mean.__getitem__)
# + point = min(range(len(mean)), key=lambda place: round(mean[place], 3))

# %% wrong="11.1" name="the rate of what stays" says="True is hidden"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + hidden[draw.sample(range(n), max(1, round((1 - rate) * n)))] = True

# %% wrong="11.1" name="one seed for all masks" says="the number of different masks of a sentence in 12 epochs is 1"
# - draw = random.Random(f"{seed} {sentence} {mask_number(epoch, copies)}")
# + draw = random.Random(0)

# %% wrong="11.1" name="hidden in one block" says="or only a few choices of places are ever drawn"
# - hidden[draw.sample(range(n), max(1, round(rate * n)))] = True
# + count = max(1, round(rate * n))
# + start = draw.randrange(n - count + 1)
# + hidden[start : start + count] = True

# %% wrong="11.2" name="a separator at the end and another one before" says="side by side. One belongs there."
# - before = [sep] if opens and rows[-1] else []
# + before = [sep, sep] if opens and rows[-1] else []

# %% wrong="11.4" name="drawn again once, then cut" says="are not drawn as the formula says"
# - weights = p * (1 - p) ** torch.arange(longest)
# - return torch.multinomial(weights, count, replacement=True, generator=generator) + 1
# + weights = p * (1 - p) ** torch.arange(200)
# + first, again = (torch.multinomial(weights, count, True, generator=generator) + 1 for _ in range(2))
# + return torch.where(first > longest, again, first).clamp(max=longest)

# %% wrong="11.4" name="nothing is hidden" says="hides only 0 tokens. Any correct placing hides more"
# - hidden[start : start + length] = True
# + hidden[start:start] = True

# %% wrong="11.5" name="places count from 1" says="the place before the span is wrong for a row of 11 tokens"
# - return tuple(found.where(mask, 0) for found in (left, right, places - left))
# + return tuple(found.where(mask, 0) for found in (left + 1, right + 1, places - left))


# %% wrong="11.5" name="a hidden last token is not refused" says="whose last token is hidden must raise ValueError"
# - if mask[:, [0, -1]].any():
# + if mask[:, 0].any():

# %% wrong="11.6" name="an empty sentence is left out" says="the tokens of a row of an empty sentence"
# - sentences = [[cls, *tokens, sep] for tokens in pair]
# + sentences = [[cls, *tokens, sep] if tokens else [] for tokens in pair]
