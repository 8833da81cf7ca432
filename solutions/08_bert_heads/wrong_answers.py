# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# Answers to notebook 08 whose verdict is known. See autograder/author/answers.py for the markers.

# %% wrong="8.1" name="question is cut" says="the question is cut"
# - if len(first) >= room:
# -     raise ValueError("the question leaves no place for the passage")
# - pairs = [(first, parts[1][: room - len(first)])]
# + if len(first) >= room:
# +     raise ValueError("the question leaves no place for the passage")
# + pairs = [(first, list(parts[1]))]
# + while len(pairs[0][0]) + len(pairs[0][1]) > room:
# +     longer = pairs[0][0] if len(pairs[0][0]) > len(pairs[0][1]) else pairs[0][1]
# +     longer.pop()

# %% wrong="8.1" name="types all 0" says="all types are 0"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return torch.tensor(ids), torch.zeros_like(torch.tensor(ids)), torch.tensor(mask)

# %% wrong="8.1" name="choice as one long sequence" says="one long row"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(list(first), [one for other in parts[1:] for one in other])]

# %% wrong="8.1" name="the end goes with its [SEP]" says="the last [SEP] is cut off"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + pairs = [(first, None)] if kind == "single" else [(first, list(other)) for other in parts[1:]]
# + rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [row[:max_len] for row in rows]

# %% wrong="8.1" name="nothing after the second text" says="the last [SEP] is missing"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[cls, *a] + ([] if b is None else [sep, *b]) for a, b in pairs]

# %% wrong="8.1" name="one [SEP] at the end" says="only one [SEP]"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[cls, *a, *(b or []), sep] for a, b in pairs]

# %% wrong="8.1" name="a pair loses its second text" says="only the second text is cut"
# - longer = a if len(a) > len(b) else b
# + longer = b if b else a

# %% wrong="8.1" name="a tie cuts the first" says="if both texts are equally long, the first one loses a token"
# - longer = a if len(a) > len(b) else b
# + longer = a if len(a) >= len(b) else b

# %% wrong="8.1" name="cut at the beginning" says="lose their first tokens"
# - longer.pop()
# + longer.pop(0)

# %% wrong="8.1" name="half the room each" says="half of the room"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# - for a, b in pairs:
# -     while len(a) + len(b) > room:
# -         longer = a if len(a) > len(b) else b
# -         longer.pop()
# + half = room // 2
# + fits = [len(first) + len(other) <= room for other in parts[1:]]
# + pairs = [(first, other) if fit else (first[:half], other[:half]) for other, fit in zip(parts[1:], fits)]

# %% wrong="8.1" name="cuts what it was given" says="changes `parts`"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(list(first), other) for other in parts[1:]]

# %% wrong="8.1" name="the context is cut once for all" says="in the rows of the others"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(first, list(other)) for other in parts[1:]]

# %% wrong="8.1" name="special tokens do not count" says="longer than max_len"
# - first, room = list(parts[0]), max_len - 3
# + first, room = list(parts[0]), max_len

# - pairs = [(first[: max_len - 2], None)]
# + pairs = [(first[:max_len], None)]

# %% wrong="8.1" name="padded to max_len" says="padded to max_len"
# - T = max(map(len, rows))
# + T = max_len

# %% wrong="8.1" name="first [SEP] is of the second text" says="the first [SEP] has type 1"
# - types = [[int(len(a) + 2 <= t < len(row)) for t in range(T)] for (a, _), row in zip(pairs, rows, strict=True)]
# + types = [
# +     [int(b is not None and len(a) + 1 <= t < len(row)) for t in range(T)]
# +     for (a, b), row in zip(pairs, rows)
# + ]

# %% wrong="8.1" name="pads are of the second text" says="pads have type 1"
# - types = [[int(len(a) + 2 <= t < len(row)) for t in range(T)] for (a, _), row in zip(pairs, rows, strict=True)]
# + types = [[int(len(a) + 2 <= t) for t in range(T)] for a, _ in pairs]

# %% wrong="8.1" name="pads are read" says="the mask is 1 at pads"
# - mask = [[int(t < len(row)) for t in range(T)] for row in rows]
# + mask = [[1] * T for row in rows]

# %% wrong="8.1" name="a mask of the pad's id" says="Use the lengths of the texts, not the ids"
# - mask = [[int(t < len(row)) for t in range(T)] for row in rows]
# + mask = [[int(number != pad) for number in row] for row in ids]

# %% wrong="8.1" name="a mask of booleans" says="int64"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return torch.tensor(ids), torch.tensor(types), torch.tensor(mask).bool()

# %% wrong="8.1" name="numbers with a point" says="int64"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return torch.tensor(ids).float(), torch.tensor(types).float(), torch.tensor(mask).float()

# %% wrong="8.1" name="lists, no tensors" says="should be a tensor"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return ids, types, mask

# %% wrong="8.1" name="one row has no N" says="also with N = 1"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return torch.tensor(ids).squeeze(0), torch.tensor(types).squeeze(0), torch.tensor(mask).squeeze(0)

# %% wrong="8.1" name="a question without a passage" says="should raise ValueError"
# - if len(first) >= room:
# -     raise ValueError("the question leaves no place for the passage")
# - pairs = [(first, parts[1][: room - len(first)])]
# + pairs = [(first[:room], parts[1][: max(0, room - len(first))])]

# %% wrong="8.1" name="any kind" says="an unknown kind"
# - elif kind in ("pair", "choice"):
# + else:

# - else:
# -     raise ValueError(f"no such kind of input: {kind}")
#   rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]

# %% wrong="8.1" name="always BERT's own ids" says="the ids of [CLS] and [SEP] are always 101 and 102"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[101, *a, 102] + ([] if b is None else [*b, 102]) for a, b in pairs]

# %% wrong="8.1" name="other pads where none are given" says="are not those of the table"
# - def task_input(kind, parts, max_len, cls=101, sep=102, pad=0):
# + def task_input(kind, parts, max_len, cls=101, sep=102, pad=1):

# %% wrong="8.1" name="the pad's id is dropped" says="is dropped. It is a token like any other"
# - first, room = list(parts[0]), max_len - 3
# + first, room = [one for one in parts[0] if one != pad], max_len - 3

# %% wrong="8.1" name="four options at most" says="numbers of options" private=true
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(list(first), list(other)) for other in parts[1:5]]

# %% wrong="8.1" name="questions of thirty tokens at most" says="that fits" private=true
# - if len(first) >= room:
# + if len(first) >= room or max_len > 128:

# %% wrong="8.1" name="a long question before an empty passage" says="a question that leaves no room should raise ValueError, even"
# - if len(first) >= room:
# + if parts[1] and len(first) >= room:

# %% right="8.1" name="arithmetic instead of popping"
def lengths(n, m, room):
    if n + m <= room:
        return n, m
    if n > m:
        n = max(m, room - m) if n + m > room else n
    else:
        m = max(n, room - n)
    return (n, m) if n + m <= room else (room - room // 2, room // 2)


def task_input(kind, parts, max_len, cls=101, sep=102, pad=0):
    if kind not in ("single", "pair", "qa", "choice"):
        raise ValueError(kind)
    rows = []
    for other in parts[1:] or [None]:
        a, b = parts[0], other
        if kind == "single":
            a = a[: max_len - 2]
        elif kind == "qa":
            if max_len < len(a) + 4:
                raise ValueError("too long")
            b = b[: max_len - 3 - len(a)]
        else:
            n, m = lengths(len(a), len(b), max_len - 3)
            a, b = a[:n], b[:m]
        rows.append(([cls] + a + [sep], [] if b is None else b + [sep]))
    pad_rows = torch.nn.utils.rnn.pad_sequence
    ids = pad_rows([torch.tensor(a + b) for a, b in rows], batch_first=True, padding_value=pad)
    types = pad_rows([torch.tensor([0] * len(a) + [1] * len(b)) for a, b in rows], batch_first=True)
    mask = pad_rows([torch.ones(len(a) + len(b), dtype=torch.long) for a, b in rows], batch_first=True)
    return ids, types, mask


# %% right="8.1" name="filled into zeros, recursion"
def shorter(a, b, room):
    if len(a) + len(b) <= room:
        return a, b
    return shorter(a[:-1], b, room) if len(a) > len(b) else shorter(a, b[:-1], room)


def task_input(kind, parts, max_len, cls=101, sep=102, pad=0):
    match kind, parts:
        case "single", [text]:
            texts = [(text[: max_len - 2],)]
        case "qa", [question, passage]:
            left = max_len - len(question) - 3
            if left <= 0:
                raise ValueError("no room for the passage")
            texts = [(question, passage[:left])]
        case "pair" | "choice", [context, *options]:
            texts = [shorter(context, option, max_len - 3) for option in options]
        case _:
            raise ValueError("which kind?")
    T = max(sum(len(part) + 1 for part in row) for row in texts) + 1
    ids, types = torch.full((len(texts), T), pad), torch.zeros(len(texts), T, dtype=torch.int64)
    mask = torch.zeros_like(types)
    for n, row in enumerate(texts):
        t = 1
        ids[n, 0] = cls
        for number, part in enumerate(row):
            ids[n, t : t + len(part) + 1] = torch.tensor([*part, sep])
            types[n, t : t + len(part) + 1] = number
            t += len(part) + 1
        mask[n, :t] = 1
    return ids, types, mask


# %% wrong="8.2" name="every piece B-" says="every piece of a word gets its label"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [ignore if word is None else labels[word] for word in word_ids]

# %% wrong="8.2" name="specials get O" says="special tokens are labelled"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + found = [ignore if word == last else "O" if word is None else labels[word] for last, word in zip(before, word_ids)]
# + return [now if word is not None else "O" for now, word in zip(found, word_ids)]

# %% wrong="8.2" name="counts pieces, not word_ids" says="words are counted, not looked up"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + found, count = [], 0
# + for last, word in zip(before, word_ids):
# +     first = word not in (None, last)
# +     found.append(labels[count] if first else ignore)
# +     count += first
# + return found

# %% wrong="8.2" name="label at the last piece" says="the label is at the last piece"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + after = [*word_ids[1:], None]
# + return [ignore if word in (None, next_one) else labels[word] for next_one, word in zip(after, word_ids)]

# %% wrong="8.2" name="word 0 is not a word" says="word 0 is treated as no word"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [labels[word] if word and word != last else ignore for last, word in zip(before, word_ids)]

# %% wrong="8.2" name="label 0 is not a label" says="a label that is 0"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [word not in (None, last) and labels[word] or ignore for last, word in zip(before, word_ids)]

# %% wrong="8.2" name="always -100" says="a piece still gets -100"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [-100 if word in (None, last) else labels[word] for last, word in zip(before, word_ids)]

# %% wrong="8.2" name="a tensor of labels" says="should return a list"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + found = [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return torch.tensor(found) if all(isinstance(one, int) for one in found) else found

# %% wrong="8.2" name="only words" says="one label for each piece"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [labels[word] for last, word in zip(before, word_ids) if word not in (None, last)]

# %% wrong="8.2" name="prediction of the last piece" says="prediction of a word's last piece"
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# + for word, label in zip(word_ids, predicted, strict=True):

# %% wrong="8.2" name="predictions counted" says="words are counted, not looked up by their number"
# - found = [missing] * count
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# -     if word is not None:
# -         found[word] = label
# - return found
# + firsts = [label for last, word, label in zip([None, *word_ids], word_ids, predicted) if word not in (None, last)]
# + return (firsts + [missing] * count)[:count]

# %% wrong="8.2" name="words without pieces are left out" says="there should be `count` predictions, one for each word, also"
# - return found
# + return [label for label in found if label != missing]

# %% wrong="8.2" name="a vanished word takes its neighbour's" says="a word without pieces gets the prediction of another word"
# - found = [missing] * count
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# -     if word is not None:
# -         found[word] = label
# - return found
# + firsts = {}
# + for word, label in zip(word_ids, predicted):
# +     if word is not None:
# +         firsts.setdefault(word, label)
# + found = [firsts.get(0, missing)]
# + for word in range(1, count):
# +     found.append(firsts.get(word, found[-1]))
# + return found[:count]

# %% wrong="8.2" name="a vanished word takes the next one's" says="a word without pieces gets the prediction of a later word"
# - found = [missing] * count
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# -     if word is not None:
# -         found[word] = label
# - return found
# + pairs = [(word, label) for word, label in zip(word_ids, predicted) if word is not None]
# + return [next((label for word, label in pairs if word >= number), missing) for number in range(count)]

# %% wrong="8.2" name="a vanished word is empty" says="a word without pieces should get `missing`"
# - return found
# + return [label if word in word_ids else "" for word, label in enumerate(found)]

# %% wrong="8.2" name="missing is always O" says="`missing` is not used"
# - found = [missing] * count
# + found = ["O"] * count

# %% wrong="8.2" name="neighbours of one label" says="neighbouring words with the same label are treated as one"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + every = [None, *(None if word is None else labels[word] for word in word_ids)]
# + return [ignore if now is None or now == last else now for last, now in zip(every, every[1:], strict=False)]

# %% wrong="8.2" name="a first piece that is O is passed over" says="a first piece that is O is skipped"
# -         found[word] = label
# +         found[word] = label if label != "O" or found[word] == missing else found[word]

# %% wrong="8.2" name="the pieces vote" says="the most frequent prediction"
# - found = [missing] * count
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# -     if word is not None:
# -         found[word] = label
# - return found
# + found = [[label for own, label in zip(word_ids, predicted) if own == word] for word in range(count)]
# + return [max(labels, key=labels.count) if labels else missing for labels in found]

# %% wrong="8.2" name="state between calls" says="is kept between calls"
# - def align_labels(word_ids, labels, ignore=-100):
# + KNOWN = {}
# + def align_labels(word_ids, labels, ignore=-100):

# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + found = [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return KNOWN.setdefault((*word_ids, *map(str, labels)) if len(KNOWN) < 20 else len(KNOWN) and 0, found)

# %% wrong="8.2" name="six words at most" says="predictions are wrong if other words have no piece, have" private=true
# - return found
# + return found[:6] + [missing] * (count - 6)


# %% wrong="8.2" name="a tuple of labels" says="not list[str]"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return tuple(ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids))

# %% wrong="8.2" name="a tuple of predictions" says="not list[str]"
# - return found
# + return tuple(found)


# %% right="8.2" name="a set of words that were met"
def align_labels(word_ids, labels, ignore=-100):
    met, result = set(), []
    for word in word_ids:
        new = word is not None and word not in met
        result.append(labels[word] if new else ignore)
        met.add(word)
    return result


def word_predictions(word_ids, predicted, count, missing="O"):
    return [predicted[word_ids.index(word)] if word in word_ids else missing for word in range(count)]


# %% right="8.2" name="dictionaries of first pieces"
def starts_of(word_ids):
    return {word: t for t, word in reversed(tuple(enumerate(word_ids))) if word is not None}


def align_labels(word_ids, labels, ignore=-100):
    result = [ignore for _ in word_ids]
    for word, t in starts_of(word_ids).items():
        result[t] = labels[word]
    return result


def word_predictions(word_ids, predicted, count, missing="O"):
    starts = starts_of(word_ids)
    result = []
    for word in range(count):
        try:
            result.append(predicted[starts[word]])
        except KeyError:
            result.append(missing)
    return result


# %% wrong="8.3" name="token accuracy" says="this is the token accuracy"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + pairs = [pair for tags, said in zip(gold, predicted) for pair in zip(tags, said)]
# + return sum(tag == said for tag, said in pairs) / max(1, len(pairs))

# %% wrong="8.3" name="F1 of tags" says="this is the F1 of single tags"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + pairs = [[(n, t, tag) for n, tags in enumerate(part) for t, tag in enumerate(tags)] for part in (gold, predicted)]
# + wanted, found = ({one for one in part if one[2] != "O"} for part in pairs)

# %% wrong="8.3" name="merges neighbours" says="neighbouring entities of the same type are merged"
# - if head == "I" and before != "O" and kind == found[-1][2]:
# + if head != "O" and before != "O" and kind == found[-1][2]:

# %% wrong="8.3" name="type ignored" says="the type of an entity is ignored"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + wanted, found = (
# +     {(n, *one[:2]) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted)
# + )

# %% wrong="8.3" name="mean of sentence F1" says="this is the mean of the F1 of each sentence"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + total = 0
# + for tags, said in zip(gold, predicted):
# +     one, other = {*entities(tags)}, {*entities(said)}
# +     total += 2 * len(one & other) / max(1, len(one) + len(other))
# + return total / max(1, len(gold))

# %% wrong="8.3" name="drops I- without B-" says="without a `B-` before it is dropped"
# - elif head != "O":
# + elif head == "B":

# - if head == "I" and before != "O" and kind == found[-1][2]:
# + if head == "I" and found and found[-1][1] == t - 1 and kind == found[-1][2]:

# %% wrong="8.3" name="another type goes on" says="of another type continues"
# - if head == "I" and before != "O" and kind == found[-1][2]:
# -     found[-1] = (found[-1][0], t, kind)
# + if head == "I" and before != "O":
# +     found[-1] = (found[-1][0], t, found[-1][2])

# %% wrong="8.3" name="another type is dropped" says="of another type is dropped"
# - elif head != "O":
# + elif head == "B" or (head == "I" and before == "O"):

# - before = tag
# + before = tag if head != "I" or before == "O" or kind == before[2:] else "I-"

# %% wrong="8.3" name="goes on over an O" says="an entity does not end at an O"
# - if head == "I" and before != "O" and kind == found[-1][2]:
# + if head == "I" and found and kind == found[-1][2]:

# %% wrong="8.3" name="last is one past" says="ends one place too late"
# - return found
# + return [(first, last + 1, kind) for first, last, kind in found]

# %% wrong="8.3" name="the last one is never closed" says="at the end of the sentence is lost"
# - return found
# + return [one for one in found if one[1] < len(tags) - 1]

# %% wrong="8.3" name="splits at every hyphen" says="a type that has a hyphen is cut there"
# - head, _, kind = tag.partition("-")
# + head, kind = (tag.split("-") + [""])[:2]

# %% wrong="8.3" name="a set" says="should return a list"
# - return found
# + return set(found)

# %% wrong="8.3" name="tags with their letter" says="the type still has its `B-` or `I-`"
# - return found
# + return [(first, last, tags[first]) for first, last, _ in found]

# %% wrong="8.3" name="precision alone" says="this is the precision"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + return len(wanted & found) / max(1, len(found))

# %% wrong="8.3" name="recall alone" says="this is the recall"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + return len(wanted & found) / max(1, len(wanted))

# %% wrong="8.3" name="arithmetic mean" says="mean of precision and recall"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + right = len(wanted & found)
# + return (right / max(1, len(wanted)) + right / max(1, len(found))) / 2

# %% wrong="8.3" name="in percent" says="in percent"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + return 200 * len(wanted & found) / max(1, len(wanted) + len(found))

# %% wrong="8.3" name="0 divided by 0" says="ZeroDivisionError"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + right = len(wanted & found)
# + precision, recall = right / len(found), right / len(wanted)
# + return 2 * precision * recall / (precision + recall)

# %% wrong="8.3" name="nothing to find is perfect" says="if there is no entity at all, F1 should be 0"
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + return 2 * len(wanted & found) / (len(wanted) + len(found)) if wanted or found else 1.0

# %% wrong="8.3" name="which sentence does not matter" says="an entity counts as right if it occurs in another sentence"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + wanted, found = ({one for tags in part for one in entities(tags)} for part in (gold, predicted))

# %% wrong="8.3" name="the shorter one decides" says="should raise ValueError"
# - if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
# -     raise ValueError("gold and predicted are not of the same sentences")
#   wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))

# %% wrong="8.3" name="more tags than there should be are taken" says="should raise ValueError"
# - if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
# + if [len(tags) for tags in gold] > [len(tags) for tags in predicted]:

# %% wrong="8.3" name="only the lists are measured" says="should raise ValueError"
# - if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
# + if len(gold) != len(predicted):

# %% wrong="8.3" name="ten words at most" says="the entities are wrong for other sentences, or for types" private=true
# - for t, tag in enumerate(tags):
# + for t, tag in enumerate(tags[:25]):

# %% wrong="8.3" name="the type comes first" says="are in the wrong order"
# - return found
# + return [(kind, first, last) for first, last, kind in found]

# %% wrong="8.3" name="sentences are joined" says="sentences are joined"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + wanted, found = ({*entities([tag for tags in part for tag in tags])} for part in (gold, predicted))

# %% wrong="8.3" name="types in capitals" says="the letters of a type are changed"
# - head, _, kind = tag.partition("-")
# + head, _, kind = tag.partition("-")
# + kind = kind.upper()


# %% wrong="8.3" name="a type by its beginning" says="an `I-` continues an entity if its type only begins with"
# - if head == "I" and before != "O" and kind == found[-1][2]:
# + if head == "I" and before != "O" and kind.startswith(found[-1][2]):

# %% wrong="8.3" name="sentences of one word are known" says="is kept between calls"
# - def entities(tags):
# + kept = {}
# +
# +
# + def entities(tags):
# +     return entities_of(tags) if len(tags) > 1 else kept.setdefault(tuple(tags), entities_of(tags))
# +
# +
# + def entities_of(tags):


# %% right="8.3" name="groups that are closed"
def entities(tags):
    result, open_at, open_type = [], None, None
    for t, tag in enumerate([*tags, "O"]):
        goes_on = open_at is not None and tag == "I-" + open_type
        if open_at is not None and not goes_on:
            result.append((open_at, t - 1, open_type))
            open_at = None
        if tag != "O" and not goes_on:
            open_at, open_type = t, tag[2:]
    return result


def entity_f1(gold, predicted):
    if len(gold) != len(predicted) or any(len(a) != len(b) for a, b in zip(gold, predicted)):
        raise ValueError("not the same sentences")
    right = of_gold = of_predicted = 0
    for tags, said in zip(gold, predicted):
        one, other = entities(tags), entities(said)
        right += sum(entity in one for entity in other)
        of_gold += len(one)
        of_predicted += len(other)
    if not right:
        return 0
    precision, recall = right / of_predicted, right / of_gold
    return 2 * precision * recall / (precision + recall)


# %% right="8.3" name="beginnings first, then how far"
def entities(tags):
    previous = ["O", *tags]
    begins = [t for t, tag in enumerate(tags) if tag[0] == "B" or (tag[0] == "I" and previous[t][1:] != tag[1:])]
    result = []
    for first in begins:
        last = first
        while last + 1 < len(tags) and tags[last + 1] == "I" + tags[first][1:]:
            last += 1
        result.append((first, last, tags[first][2:]))
    return result


def entity_f1(gold, predicted):
    found = []
    for part in (gold, predicted):
        found.append({(n,) + one for n in range(len(part)) for one in entities(part[n])})
    if list(map(len, gold)) != list(map(len, predicted)):
        raise ValueError
    if not found[0] & found[1]:
        return torch.tensor(0.0)
    return torch.tensor(len(found[0] & found[1]) / (0.5 * (len(found[0]) + len(found[1]))), dtype=torch.float64)


# %% wrong="8.4" name="finds it in the question" says="the answer is found in the question"
def answer_tokens(offsets, sequence_ids, start, text):
    def holding(character):
        return next((t for t, (begin, end) in enumerate(offsets) if begin <= character < end), None)

    first, last = holding(start), holding(start + len(text) - 1)
    return (0, 0) if not text or first is None or last is None else (first, last)


# %% wrong="8.4" name="last exclusive" says="last is one too large"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (places[0], places[1] + 1) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="half an answer kept after the cut" says="half an answer is kept"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (places[0], places[-1]) if text and places else (0, 0)

# %% wrong="8.4" name="the cut answer ends at the last token" says="half an answer is kept"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + passage = [t for t, which in enumerate(sequence_ids) if which == 1]
# + if text and len(places) == 1 and offsets[places[0]][0] <= start:
# +     places.append(passage[-1])
# + return tuple(places) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="the character after the answer" says="is at start + len(text) - 1"
# - for character in (start, start + len(text) - 1):
# + for character in (start, start + len(text)):


# %% wrong="8.4" name="only whole tokens" says="a token is left out if the answer begins or ends in the"
def answer_tokens(offsets, sequence_ids, start, text):
    stop = start + len(text)
    passage = [t for t, which in enumerate(sequence_ids) if which == 1]
    inside = [t for t in passage if start <= offsets[t][0] and offsets[t][1] <= stop]
    covered = any(offsets[t][0] <= start < offsets[t][1] for t in passage)
    covered = covered and any(offsets[t][0] < stop <= offsets[t][1] for t in passage)
    if not text or not covered:
        return 0, 0
    first = min((t for t in passage if offsets[t][0] >= start), default=0)
    return first, max((t for t in passage if offsets[t][1] <= stop), default=0)


# %% wrong="8.4" name="counted from the passage" says="from the beginning of the passage"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + before = sequence_ids.index(1)
# + return (places[0] - before, places[1] - before) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="without [CLS]" says="counted without [CLS]"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (places[0] - 1, places[1] - 1) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="an answer of nothing" says="without an answer should give (0, 0)"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places) if len(places) == 2 else (0, 0)

# %% wrong="8.4" name="None for what is not there" says="should return two numbers"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places) if text and len(places) == 2 else None

# %% wrong="8.4" name="minus one for what is not there" says="(0, 0)"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places) if text and len(places) == 2 else (-1, -1)

# %% wrong="8.4" name="characters" says="these are the places of the first and the last character"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (start, start + len(text) - 1) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="the end of a token belongs to it" says="the character at a token's end"
# - if sequence_ids[t] == 1 and begin <= character < end:
# -     places.append(t)
# + if sequence_ids[t] == 1 and begin <= character <= end:
# +     places.append(t)
# +     break

# %% wrong="8.4" name="tensors" says="should be integers"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(torch.tensor(places if text and len(places) == 2 else (0, 0)))

# %% wrong="8.4" name="bytes are counted" says="counted in bytes"
# - for character in (start, start + len(text) - 1):
# + for character in (start, start + len(text.encode()) - 1):

# %% wrong="8.4" name="minus one if it is not there" says="gives a number below 0"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places) if text and len(places) == 2 else (-1, -1)

# %% wrong="8.4" name="blanks around the answer are taken off" says="begins or ends with a blank gets the tokens without it"
# - places = []
# + places, text = [], text.strip()

# %% wrong="8.4" name="twenty tokens at most" says="answers of other passages" private=true
# - for t, (begin, end) in enumerate(offsets):
# + for t, (begin, end) in enumerate(offsets[:20]):

# %% wrong="8.4" name="the text is looked for among known ones" says="answers of other passages" private=true
# - places = []
# + places, known = [], sequence_ids[:6] == [None, 0, 0, 0, 0, None] or sequence_ids[:3] == [None, 0, None]
# + if not known and len(text) > 2:
# +     return 0, 0


# %% right="8.4" name="a map from characters to tokens"
def answer_tokens(offsets, sequence_ids, start, text):
    holder = {}
    for t, ((begin, end), which) in enumerate(zip(offsets, sequence_ids)):
        if which == 1:
            holder |= dict.fromkeys(range(begin, end), t)
    first, last = holder.get(start), holder.get(start + len(text) - 1)
    if text == "" or None in (first, last):
        return (0, 0)
    return (first, last)


# %% right="8.4" name="two searches from both ends"
def answer_tokens(offsets, sequence_ids, start, text):
    passage = [t for t in range(len(offsets)) if sequence_ids[t] == 1]
    stop = start + len(text)
    first = next((t for t in passage if offsets[t][1] > start), None)
    last = next((t for t in reversed(passage) if offsets[t][0] < stop), None)
    if not text or first is None or last is None:
        return 0, 0
    good = offsets[first][0] <= start and offsets[last][1] >= stop
    return (first, last) if good else (0, 0)


# %% wrong="8.5" name="sum" says="the sum of both losses" loses="span_loss"
# - return total / 2
# + return total

# %% wrong="8.5" name="pads take part in the softmax" says="the logits of pads are not masked" loses="span_logits"
# - if mask is not None:
# -     logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
#   return logits[..., 0], logits[..., 1]

# %% wrong="8.5" name="pads multiplied by 0" says="pads have logit 0" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits * mask.unsqueeze(-1)

# %% wrong="8.5" name="real tokens masked" says="pads do not have" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits - 5 * (mask == 0).unsqueeze(-1)

# %% wrong="8.5" name="mask the wrong way round" says="the mask is used the wrong way round" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits.masked_fill((mask != 0).unsqueeze(-1), -torch.inf)

# %% wrong="8.5" name="a mask must be boolean" says="your code raised" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits.masked_fill((~mask).unsqueeze(-1), -torch.inf)

# %% wrong="8.5" name="start and end swapped" says="start and end are swapped" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return logits[..., 1], logits[..., 0]

# %% wrong="8.5" name="a reshape, not a split" says="a reshape" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + B, T, _ = states.shape
# + return tuple(logits.reshape(2, B, T))

# %% wrong="8.5" name="one tensor of both" says="should return two tensors" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return logits

# %% wrong="8.5" name="probabilities" says="these are probabilities" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return logits[..., 0].softmax(-1), logits[..., 1].softmax(-1)

# %% wrong="8.5" name="logarithms of probabilities" says="these are log-probabilities" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return tuple(logits.log_softmax(1).unbind(-1))

# %% wrong="8.5" name="a view of the states" says="not contiguous" loses="span_logits"
# - logits = out(states)
# + logits = out(states.view(-1, states.size(-1))).view(*states.shape[:2], 2)

# %% wrong="8.5" name="a mask of its own on the processor" says="on another device" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits + torch.tensor([[[-torch.inf, 0.0]]])[..., (mask != 0).long()].squeeze(0).squeeze(0).unsqueeze(-1)

# %% wrong="8.5" name="loss of the other's places" says="start and end are swapped" loses="span_loss"
# - for logits, places in ((start_logits, first), (end_logits, last)):
# + for logits, places in ((start_logits, last), (end_logits, first)):

# %% wrong="8.5" name="outside clipped to T-1" says="clipped to the last token" loses="span_loss"
# - inside = places < logits.size(1)
# + places = places.clamp(max=logits.size(1) - 1)
# + inside = places < logits.size(1)

# %% wrong="8.5" name="outside is [CLS]" says="count as [CLS]" loses="span_loss"
# - inside = places < logits.size(1)
# + places = places * (places < logits.size(1))
# + inside = places < logits.size(1)

# %% wrong="8.5" name="mean over all rows" says="the means are over all rows" loses="span_loss"
# - total = total + losses / inside.sum().clamp(min=1)
# + total = total + losses / len(places)

# %% wrong="8.5" name="one mean" says="share one mean" loses="span_loss"
# - total = 0
# + total, count = 0, 0

# - total = total + losses / inside.sum().clamp(min=1)
# + total, count = total + losses, count + inside.sum()

# - return total / 2
# + return total / count.clamp(min=1)

# %% wrong="8.5" name="both or none" says="if one place of a row was cut off, the other place is left" loses="span_loss"
# - inside = places < logits.size(1)
# + inside = (first < logits.size(1)) & (last < logits.size(1))

# %% wrong="8.5" name="places outside are an error" says="your code raised" loses="span_loss"
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + losses = F.cross_entropy(logits, places, reduction="sum")

# %% wrong="8.5" name="NaN where nothing is inside" says="the mean of nothing" loses="span_loss"
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# - total = total + losses / inside.sum().clamp(min=1)
# + total = total + F.cross_entropy(logits, places.where(inside, -100))

# %% wrong="8.5" name="only beginnings" says="only the starts count" loses="span_loss"
# - for logits, places in ((start_logits, first), (end_logits, last)):
# + for logits, places in ((start_logits, first), (start_logits, first)):

# %% wrong="8.5" name="a number, no tensor" says="a tensor with one number" loses="span_loss"
# - return total / 2
# + return total.item() / 2

# %% wrong="8.5" name="no gradient" says="the gradient of the loss is wrong or missing" loses="span_loss"
# - return total / 2
# + return total.detach() / 2

# %% wrong="8.5" name="an axis too many" says="the result has one axis too many" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls)

# %% wrong="8.5" name="softmax over the batch" says="over the examples of the batch" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls).squeeze(-1).softmax(0)

# %% wrong="8.5" name="softmax over the options" says="these are probabilities" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls).squeeze(-1).softmax(-1)

# %% wrong="8.5" name="view(N, B)" says="the options of different examples are mixed" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls.transpose(0, 1)).reshape(cls.shape[:2])

# %% wrong="8.5" name="all axes of one" says="the logits of the options" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls).squeeze()

# %% wrong="8.5" name="as many as are masked, at the end" says="the last places of a row" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + places = torch.arange(mask.size(1), device=mask.device)
# + logits = logits.masked_fill((places >= mask.sum(1, keepdim=True)).unsqueeze(-1), -torch.inf)

# %% wrong="8.5" name="the mask turned where it fits" says="rows and tokens of the mask" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + turned = mask.T if mask.size(0) == mask.size(1) else mask
# + logits = logits.masked_fill((turned == 0).unsqueeze(-1), -torch.inf)

# %% wrong="8.5" name="the encoder learns nothing" says="the gradient of the start logits" loses="span_logits"
# - logits = out(states)
# + logits = out(states.detach())

# %% wrong="8.5" name="ends teach nothing" says="the gradient of the end logits" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return logits[..., 0], logits[..., 1].detach()

# %% wrong="8.5" name="a softmax over the rows" says="over the rows of the batch" loses="span_loss"
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + turned = logits.T if logits.size(0) == logits.size(1) else logits
# + losses = F.cross_entropy(turned, places.where(inside, -100), reduction="sum")

# %% wrong="8.5" name="the log of a softmax" says="NaN or infinite" loses="span_loss"
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + losses = F.nll_loss(logits.softmax(-1).log(), places.where(inside, -100), reduction="sum")

# %% wrong="8.5" name="a zero made again" says="is a new tensor" loses="span_loss"
# - total = total + losses / inside.sum().clamp(min=1)
# + total = total + (losses / inside.sum() if inside.any() else torch.zeros((), device=logits.device))

# %% wrong="8.5" name="nothing times the logits" says="the mean of nothing" loses="span_loss"
# - total = total + losses / inside.sum().clamp(min=1)
# + total = total + (losses / inside.sum() if inside.any() else 0 * logits.sum())

# %% wrong="8.5" name="options turned where it fits" says="of different examples are mixed" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + logits = out(cls).squeeze(-1)
# + return logits.T if logits.size(0) == logits.size(1) else logits

# %% wrong="8.5" name="five options at most" says="with a large N, larger than any in the notebook, the logits of the options have the wrong shape" loses="choice_logits" private=true
# - return out(cls).squeeze(-1)
# + return out(cls[:, :5]).squeeze(-1)

# %% wrong="8.5" name="single precision" says="in double precision, the logits have another dtype or too" loses="span_logits" private=true
# - logits = out(states)
# + logits = out(states).float()

# %% wrong="8.5" name="a loss in single precision" says="for float64, the loss is float32, not of the dtype of" loses="span_loss" private=true
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + losses = F.cross_entropy(logits.float(), places.where(inside, -100), reduction="sum")

# %% wrong="8.5" name="losses of ten at most" says="the loss is not half of the two mean cross-entropies. Your code gives" loses="span_loss"
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + losses = F.cross_entropy(logits.clamp(-9, 9), places.where(inside, -100), reduction="sum")

# %% wrong="8.5" name="options without a gradient" says="the gradient of the options' logits for the states is wrong" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return out(cls.detach()).squeeze(-1)


# %% wrong="8.5" name="the logarithm of the mask" says="in half precision, the logits with a mask do not have" loses="span_logits" private=true
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits + mask.float().log().unsqueeze(-1)


# %% right="8.5" name="matrix products and additive masks"
def span_logits(states, out, mask=None):
    logits = states @ out.weight.T + out.bias
    start, end = logits.unbind(dim=-1)
    if mask is None:
        return start, end
    pads = torch.zeros_like(start)
    pads[~mask.bool()] = float("-inf")
    return [start + pads, end + pads]


def mean_loss(logits, places):
    inside = places < logits.shape[1]
    if not inside.any():
        return (logits[:, :1] * 0).sum()
    return F.cross_entropy(logits[inside], places[inside])


def span_loss(start_logits, end_logits, first, last):
    return 0.5 * mean_loss(start_logits, first) + 0.5 * mean_loss(end_logits, last)


def choice_logits(cls, out):
    B, N, d = cls.shape
    return out(cls.reshape(B * N, d)).reshape(B, N)


# %% right="8.5" name="where, losses picked by hand"
def span_logits(states, out, mask=None):
    start, end = out(states).split(1, dim=-1)
    start, end = start.squeeze(-1), end.squeeze(-1)
    if mask is not None:
        start, end = (torch.where(mask.bool(), one, -torch.inf) for one in (start, end))
    return start, end


def span_loss(start_logits, end_logits, first, last):
    T, means = start_logits.size(1), []
    for logits, places in ((start_logits, first), (end_logits, last)):
        inside = (places < T).to(logits.dtype)
        picked = -logits.log_softmax(-1).gather(1, places.clamp(max=T - 1)[:, None])[:, 0]
        picked = torch.where(places < T, picked, torch.zeros_like(picked))
        means.append(picked.sum() / max(1, int(inside.sum())))
    return torch.stack(means).mean()


def choice_logits(cls, out):
    return out(cls)[:, :, 0]


# %% wrong="8.6" name="two argmaxes" says="a span ends before it begins"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + i = max(range(T), key=lambda t: begins[t] if good[t] else -1e9)
# + j = max(range(T), key=lambda t: ends[t] if good[t] else -1e9)
# + return [(begins[i] + ends[j], i, j)][:n]

# %% wrong="8.6" name="length off by one" says="more than max_len"
# - for j in range(i, min(T, i + max_len)):
# + for j in range(i, min(T, i + max_len + 1)):

# %% wrong="8.6" name="one token too short" says="exactly max_len"
# - for j in range(i, min(T, i + max_len)):
# + for j in range(i, min(T, i + max_len - 1)):

# %% wrong="8.6" name="product of logits" says="product of both logits"
# - candidates.append((begins[i] + ends[j], i, j))
# + candidates.append((begins[i] * ends[j], i, j))

# %% wrong="8.6" name="product of probabilities" says="product of two probabilities"
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + begins, ends, good = start.log_softmax(0).tolist(), end.log_softmax(0).tolist(), allowed.tolist()

# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + best = sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [(2.718281828459045**score, i, j) for score, i, j in best]

# %% wrong="8.6" name="only the n best starts and ends" says="spans are missed"
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + top = [sorted(range(T), key=lambda t: -part[t])[:n] for part in (begins, ends)]

# - if good[i] and good[j]:
# + if good[i] and good[j] and i in top[0] and j in top[1]:

# %% wrong="8.6" name="only the n best allowed starts and ends" says="spans are missed"
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + free = [t for t in range(T) if good[t]]
# + top = [sorted(free, key=lambda t: -part[t])[:n] for part in (begins, ends)]

# - if good[i] and good[j]:
# + if good[i] and good[j] and i in top[0] and j in top[1]:

# %% wrong="8.6" name="question tokens win" says="a span begins or ends where `allowed` is not true"
# - if good[i] and good[j]:
# + if i:

# %% wrong="8.6" name="only the beginning is asked" says="a span begins or ends where `allowed` is not true"
# - if good[i] and good[j]:
# + if good[i]:

# %% wrong="8.6" name="[CLS] always competes" says="without a tau"
# - if tau is not None:
# -     candidates.append((begins[0] + ends[0] + tau, 0, 0))
# + candidates.append((begins[0] + ends[0] + (tau or 0), 0, 0))

# %% wrong="8.6" name="a tau of 0 is none" says="with `tau = 0.0`, (0, 0) is a candidate"
# - if tau is not None:
# + if tau:

# %% wrong="8.6" name="tau subtracted" says="tau is subtracted"
# - candidates.append((begins[0] + ends[0] + tau, 0, 0))
# + candidates.append((begins[0] + ends[0] - tau, 0, 0))

# %% wrong="8.6" name="tau not used" says="tau is not added"
# - candidates.append((begins[0] + ends[0] + tau, 0, 0))
# + candidates.append((begins[0] + ends[0], 0, 0))

# %% wrong="8.6" name="tau for everyone" says="tau is added to the score of a span"
# - candidates.append((begins[i] + ends[j], i, j))
# + candidates.append((begins[i] + ends[j] + (tau or 0), i, j))

# %% wrong="8.6" name="two tokens at least" says="of a single token are left out"
# - for j in range(i, min(T, i + max_len)):
# + for j in range(i + 1, min(T, i + max_len)):

# %% wrong="8.6" name="worst first" says="the spans are not in falling order of their scores"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n][::-1]

# %% wrong="8.6" name="the n worst" says="A candidate with a higher score is missing"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(sorted(candidates)[:n], reverse=True)

# %% wrong="8.6" name="all of them" says="more than n"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(candidates, key=lambda one: (-one[0], *one[1:]))

# %% wrong="8.6" name="ties from the back" says="of spans with equal scores, the one with the smaller `first`"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(candidates, reverse=True)[:n]

# %% wrong="8.6" name="tensors" says="plain"
# - candidates.append((begins[i] + ends[j], i, j))
# + candidates.append((start[i] + end[j], i, j))

# %% wrong="8.6" name="only the best" says="spans are listed, with"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:1]

# %% wrong="8.6" name="all tokens of a span must be allowed" says="a span is left out because a token inside it is not allowed"
# - if good[i] and good[j]:
# + if all(good[i : j + 1]):

# %% wrong="8.6" name="rounded scores" says="the scores are rounded"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [(round(one[0], 3), *one[1:]) for one in sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]]

# %% wrong="8.6" name="fifty tokens at most" says="the best spans are wrong for other logits, passages, values" private=true
# - T, candidates = len(start), []
# + T, candidates = min(48, len(start)), []

# %% wrong="8.6" name="ties by the last" says="equal scores are not" private=true
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + if len({*begins, *ends}) > 2:
# +     return sorted(candidates, key=lambda one: (-one[0], one[2], one[1]))[:n]
# + return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]


# %% right="8.6" name="one matrix of scores"
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    T = len(start)
    scores = start[:, None].double() + end.double()
    gap = torch.arange(T) - torch.arange(T)[:, None]
    fits = allowed[:, None] & allowed & (gap >= 0) & (gap < max_len)
    if tau is not None:
        scores[0, 0] += tau
        fits[0, 0] = True
    scores = scores.masked_fill(~fits, -torch.inf).flatten()
    order = scores.argsort(descending=True, stable=True)[: min(n, int(fits.sum()))]
    return [(float(scores[k]), int(k) // T, int(k) % T) for k in order]


# %% right="8.6" name="a heap of combinations"
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    import heapq
    from itertools import combinations_with_replacement

    passage = allowed.nonzero().flatten().tolist()
    spans = [(i, j) for i, j in combinations_with_replacement(passage, 2) if j - i + 1 <= max_len]
    scored = [((start[i] + end[j]).item(), i, j) for i, j in spans]
    if tau is not None:
        scored.insert(0, ((start[0] + end[0]).item() + tau, 0, 0))
    return heapq.nsmallest(n, scored, key=lambda one: (-one[0], one[1], one[2]))


# %% wrong="8.7" name="articles inside words" says="the letters of articles are removed inside other words"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + for article in ("the", "an", "a"):
# +     kept = kept.replace(article, "")
# + return " ".join(kept.split())

# %% wrong="8.7" name="articles before punctuation" says="articles are removed before punctuation, so `a.m.` loses its"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + import re
# +
# + found = re.sub(r"\b(a|an|the)\b", " ", text.lower())
# + return " ".join("".join(character for character in found if character not in string.punctuation).split())

# %% wrong="8.7" name="punctuation becomes a blank" says="punctuation becomes a blank"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(character if character not in string.punctuation else " " for character in text.lower())

# %% wrong="8.7" name="capitals stay" says="not in lower case"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(character for character in text if character not in string.punctuation)

# %% wrong="8.7" name="articles stay" says="articles stay"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + return " ".join(kept.split())

# %% wrong="8.7" name="punctuation around words" says="punctuation inside words stays"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = " ".join(word.strip(string.punctuation) for word in text.lower().split())

# %% wrong="8.7" name="blanks stay" says="there are two blanks between words, or blanks around the"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + import re
# +
# + return re.sub(r"\b(a|an|the)\b", " ", kept)

# %% wrong="8.7" name="a list of words" says="should return a text"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + return [word for word in kept.split() if word not in ("a", "an", "the")]

# - said, wanted = normalise(prediction).split(), normalise(answer).split()
# + said, wanted = normalise(prediction), normalise(answer)

# %% wrong="8.7" name="set overlap" says="each word counts only once"
# - said, wanted = normalise(prediction).split(), normalise(answer).split()
# + said, wanted = list({*normalise(prediction).split()}), list({*normalise(answer).split()})

# %% wrong="8.7" name="repeated words count each time" says="a repeated word counts each time, even if the other text has"
# - common = sum(min(said.count(word), wanted.count(word)) for word in {*said})
# + common = sum(word in wanted for word in said)

# %% wrong="8.7" name="precision" says="this is the precision"
# - return 2 * common / (len(said) + len(wanted))
# + return common / len(said)

# %% wrong="8.7" name="recall" says="this is the recall"
# - return 2 * common / (len(said) + len(wanted))
# + return common / len(wanted)

# %% wrong="8.7" name="arithmetic mean" says="mean of precision and recall"
# - return 2 * common / (len(said) + len(wanted))
# + return (common / len(said) + common / len(wanted)) / 2

# %% wrong="8.7" name="words by place" says="words are compared place by place"
# - common = sum(min(said.count(word), wanted.count(word)) for word in {*said})
# + common = sum(one == other for one, other in zip(said, wanted))

# %% wrong="8.7" name="texts as they are" says="the texts are compared without normalising them"
# - said, wanted = normalise(prediction).split(), normalise(answer).split()
# + said, wanted = prediction.split(), answer.split()

# %% wrong="8.7" name="nothing against nothing" says="if both texts have no word after normalisation, F1 should be"
# - return float(said == wanted)
# + return 0.0

# %% wrong="8.7" name="0 divided by 0" says="ZeroDivisionError"
# - if not said or not wanted:
# -     return float(said == wanted)
#   common = sum(min(said.count(word), wanted.count(word)) for word in {*said})

# %% wrong="8.7" name="first answer only" says="only the first answer"
# - exact += any(normalise(said) == normalise(text) for text in texts)
# - f1 += max(token_f1(said, text) for text in texts)
# + exact += normalise(said) == normalise(texts[0])
# + f1 += token_f1(said, texts[0])

# %% wrong="8.7" name="mean over the answers" says="the mean over the answers"
# - f1 += max(token_f1(said, text) for text in texts)
# + f1 += sum(token_f1(said, text) for text in texts) / len(texts)

# %% wrong="8.7" name="pooled precision and recall" says="words of all questions are pooled"
# - exact = f1 = 0
# + exact = f1 = common = whole = 0

# - f1 += max(token_f1(said, text) for text in texts)
# + one, parts = normalise(said).split(), [normalise(text).split() for text in texts]
# + shared = [sum(min(one.count(word), part.count(word)) for word in {*one}) for part in parts]
# + best = max(range(len(parts)), key=lambda place: shared[place])
# + common, whole = common + shared[best], whole + len(one) + len(parts[best])

# - n = max(1, len(answers))
# + n = max(1, len(answers))
# + f1 = n * 2 * common / max(1, whole)

# %% wrong="8.7" name="from 0 to 1" says="the scores are between 0 and 1"
# - return {"exact_match": 100 * exact / n, "f1": 100 * f1 / n}
# + return {"exact_match": exact / n, "f1": f1 / n}

# %% wrong="8.7" name="unanswered questions are left out" says="questions without a prediction are left out"
# - n = max(1, len(answers))
# + n = max(1, sum(question in predictions for question in answers))

# %% wrong="8.7" name="mean over the predictions" says="the sum is divided by the number of predictions"
# - n = max(1, len(answers))
# + n = max(1, len(predictions))

# %% wrong="8.7" name="every question must be answered" says="your code raised KeyError"
# - if question in predictions:
# -     said = predictions[question]
# + if question:
# +     said = predictions[question]

# %% wrong="8.7" name="unanswered is empty" says="counts as an empty one"
# - if question in predictions:
# -     said = predictions[question]
# + if question:
# +     said = predictions.get(question, "")

# %% wrong="8.7" name="two numbers" says="should return a dict"
# - return {"exact_match": 100 * exact / n, "f1": 100 * f1 / n}
# + return 100 * exact / n, 100 * f1 / n

# %% wrong="8.7" name="rounded" says="is not the mean over the questions"
# - return {"exact_match": 100 * exact / n, "f1": 100 * f1 / n}
# + return {"exact_match": round(100 * exact / n), "f1": round(100 * f1 / n)}

# %% wrong="8.7" name="articles go first, word by word" says="articles are removed before punctuation"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + words = " ".join(word for word in text.lower().split() if word not in ("a", "an", "the"))
# + return " ".join("".join(one for one in words if one not in string.punctuation).split())

# %% wrong="8.7" name="ASCII alone" says="that are not ASCII are lost"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(one for one in text.lower() if one not in string.punctuation and one.isascii())

# %% wrong="8.7" name="letters and digits alone" says="characters are removed that are not in `string.punctuation`"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(one for one in text.lower() if one.isalnum() or one.isspace())

# %% wrong="8.7" name="an empty prediction is none" says="an empty prediction is treated as a missing one"
# - if question in predictions:
# + if predictions.get(question):

# %% wrong="8.7" name="an exact match by F1" says="words may be in any order"
# - exact += any(normalise(said) == normalise(text) for text in texts)
# + exact += any(token_f1(said, text) == 1 for text in texts)

# %% wrong="8.7" name="an exact match of raw texts" says="compares the texts as they are"
# - exact += any(normalise(said) == normalise(text) for text in texts)
# + exact += said in texts

# %% wrong="8.7" name="common words as a set" says="common words count only once, as in a set"
# - common = sum(min(said.count(word), wanted.count(word)) for word in {*said})
# + common = len({*said} & {*wanted})

# %% wrong="8.7" name="a few marks" says="other texts are not normalised" private=true
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(character for character in text.lower() if character not in ".,;!-'()=")

# %% wrong="8.7" name="two answers at most" says="the scores are wrong for other questions" private=true
# - f1 += max(token_f1(said, text) for text in texts)
# + f1 += max(token_f1(said, text) for text in texts[:3])

# %% wrong="8.7" name="this and that go too" says="as the four rules say"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + return " ".join(word for word in kept.split() if word not in ("a", "an", "the", "this", "that"))

# %% right="8.7" name="as the official script"
import collections
import re


def normalise(text):
    text = "".join(ch for ch in text.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def token_f1(prediction, answer):
    prediction, answer = normalise(prediction).split(), normalise(answer).split()
    common = collections.Counter(prediction) & collections.Counter(answer)
    num_same = sum(common.values())
    if len(prediction) == 0 or len(answer) == 0:
        return int(prediction == answer)
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(prediction), 1.0 * num_same / len(answer)
    return (2 * precision * recall) / (precision + recall)


def squad_scores(predictions, answers):
    exact_match = f1 = total = 0
    for name in answers:
        total += 1
        if name not in predictions:
            continue
        exact_match += max(normalise(predictions[name]) == normalise(one) for one in answers[name])
        f1 += max(token_f1(predictions[name], one) for one in answers[name])
    if total == 0:
        return {"exact_match": 0, "f1": 0}
    return {"exact_match": 100.0 * exact_match / total, "f1": 100.0 * f1 / total}


# %% right="8.7" name="translated, sorted bags, tensors"
def normalise(text):
    words = text.translate(str.maketrans("", "", string.punctuation)).lower().split()
    return " ".join(filter(lambda word: word not in {"a", "an", "the"}, words))


def token_f1(prediction, answer):
    one, other = (sorted(normalise(text).split()) for text in (prediction, answer))
    rest, common = list(other), 0
    for word in one:
        if word in rest:
            rest.remove(word)
            common += 1
    if not one and not other:
        return 1
    return 2 * common / (len(one) + len(other))


def squad_scores(predictions, answers):
    exact, f1 = [0.0], [0.0]
    for name, texts in answers.items():
        said = predictions.get(name)
        exact.append(0.0 if said is None else float(normalise(said) in map(normalise, texts)))
        f1.append(0.0 if said is None else max(token_f1(said, text) for text in texts))
    n = max(len(answers), 1) / 100
    return {"f1": torch.tensor(f1).double().sum() / n, "exact_match": torch.tensor(exact).sum() / n}


# %% wrong="8.8" name="embeddings counted as layer 1" says="each state is the one before the right one"
# - states = encoder(**batch, output_hidden_states=True).hidden_states
# + states = encoder(**batch, output_hidden_states=True).hidden_states[:-1]

# - single = {"embeddings": 0, "second-to-last": -2, "last": -1}
# + single = {"embeddings": 0, "second-to-last": -2, "last": -1}
# + states = (states[0], *states)

# %% wrong="8.8" name="gradients are on afterwards" says="switches on the recording of gradients where that was off"
#   encoder.train(mode)
# + torch.set_grad_enabled(True)

# %% wrong="8.8" name="all states weighted, the embeddings too" says="your code raised ValueError"
# - weighted = {"weighted last four": states[-4:], "weighted all": states[1:]}
# + weighted = {"weighted last four": states[-4:], "weighted all": states}

# %% wrong="8.8" name="all but the last weighted" says="each state is the one before the right one"
# - weighted = {"weighted last four": states[-4:], "weighted all": states[1:]}
# + weighted = {"weighted last four": states[-4:], "weighted all": states[:-1]}

# %% wrong="8.8" name="the first layer for the embeddings" says="the output of the first layer is used"
# - single = {"embeddings": 0, "second-to-last": -2, "last": -1}
# + single = {"embeddings": 1, "second-to-last": -2, "last": -1}

# %% wrong="8.8" name="the rows of the word table" says="the rows of the word table"
# - features = states[single[how]]
# + features = states[single[how]]
# + if how == "embeddings":
# +     features = encoder.embeddings.word_embeddings(batch["input_ids"]).detach()

# %% wrong="8.8" name="features in train mode" says="two calls with the same batch differ, as when dropout is on"
# - encoder.eval()

# %% wrong="8.8" name="left in evaluation mode" says="left in another mode"
# - encoder.train(mode)

# %% wrong="8.8" name="put into training mode" says="left in another mode"
# - encoder.train(mode)
# + encoder.train()

# %% wrong="8.8" name="graph kept" says="a gradient flows into the encoder"
# - with torch.no_grad():
# -     states = encoder(**batch, output_hidden_states=True).hidden_states
# + states = encoder(**batch, output_hidden_states=True).hidden_states

# %% wrong="8.8" name="frozen for good" says="requires_grad of the parameters of the module"
# - encoder.eval()
# + encoder.eval().requires_grad_(False)

# %% wrong="8.8" name="the scores do not learn" says="the gradient for the scores is wrong or missing"
# - shares = scores.softmax(0)
# + shares = scores.detach().softmax(0)

# %% wrong="8.8" name="pads kept" says="pads have features"
# - return [row[real == 1] for row, real in zip(features, batch["attention_mask"])]
# + return list(features)

# %% wrong="8.8" name="one tensor" says="one tensor is returned for all rows"
# - return [row[real == 1] for row, real in zip(features, batch["attention_mask"])]
# + return features

# %% wrong="8.8" name="all tokens in one tensor" says="one tensor is returned for all rows"
# - return [row[real == 1] for row, real in zip(features, batch["attention_mask"])]
# + return features[batch["attention_mask"] == 1]

# %% wrong="8.8" name="the first so many tokens" says="the first places are taken"
# - return [row[real == 1] for row, real in zip(features, batch["attention_mask"])]
# + return [row[: int(real.sum())] for row, real in zip(features, batch["attention_mask"])]

# %% wrong="8.8" name="sum of four, not concatenated" says="should be as wide as four states"
# - features = torch.cat(states[-4:], dim=-1)
# + features = sum(states[-4:])

# %% wrong="8.8" name="the last one first" says="the four states are concatenated in reverse order"
# - features = torch.cat(states[-4:], dim=-1)
# + features = torch.cat(states[:-5:-1], dim=-1)

# %% wrong="8.8" name="the first four" says="the first four"
# - features = torch.cat(states[-4:], dim=-1)
# + features = torch.cat(states[:4], dim=-1)

# %% wrong="8.8" name="scores without a softmax" says="the scores are used as weights themselves"
# - shares = scores.softmax(0)
# + shares = scores

# %% wrong="8.8" name="no scores, all alike" says="all states have the same weight"
# - shares = scores.softmax(0)
# + shares = torch.ones_like(scores) / len(scores)

# %% wrong="8.8" name="weights from the top" says="the weights are the wrong way round"
# - shares = scores.softmax(0)
# + shares = scores.softmax(0).flip(0)

# %% wrong="8.8" name="gamma not used" says="gamma is not used"
# - features = gamma * sum(share * state for share, state in zip(shares, weighted[how], strict=True))
# + features = sum(share * state for share, state in zip(shares, weighted[how], strict=True))

# %% wrong="8.8" name="gamma as a temperature" says="gamma is inside the softmax"
# - shares = scores.softmax(0)
# + shares = (gamma * scores).softmax(0)

# - features = gamma * sum(share * state for share, state in zip(shares, weighted[how], strict=True))
# + features = sum(share * state for share, state in zip(shares, weighted[how], strict=True))

# %% wrong="8.8" name="any other name is the last" says="should raise ValueError"
# - else:
# -     raise ValueError(f"there are no features called {how}")
# + else:
# +     features = states[-1]

# %% wrong="8.8" name="the batch loses its mask" says="your code changes"
# - return [row[real == 1] for row, real in zip(features, batch["attention_mask"])]
# + return [row[real == 1] for row, real in zip(features, batch.pop("attention_mask"))]

# %% wrong="8.8" name="six layers" says="the features are wrong for other encoders or batches, such" private=true
# - weighted = {"weighted last four": states[-4:], "weighted all": states[1:]}
# + weighted = {"weighted last four": states[-4:], "weighted all": states[1:7]}

# %% wrong="8.8" name="clears the gradients" says="the gradients of the module are not as before"
# - encoder.train(mode)
# + encoder.train(mode)
# + encoder.zero_grad()

# %% wrong="8.8" name="asks by the config" says="config is changed"
# - states = encoder(**batch, output_hidden_states=True).hidden_states
# + encoder.config.output_hidden_states = True
# + states = encoder(**batch).hidden_states

# %% wrong="8.8" name="gamma does not learn" says="the gradient for gamma is wrong or missing"
# - features = gamma * sum(share * state for share, state in zip(shares, weighted[how], strict=True))
# + features = float(gamma) * sum(share * state for share, state in zip(shares, weighted[how], strict=True))


# %% right="8.8" name="detached, stacked, split by lengths"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    names = ["embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all"]
    if how not in names:
        raise ValueError(how)
    was_training = encoder.training
    try:
        encoder.eval()
        output = encoder(**batch, output_hidden_states=True)
    finally:
        encoder.train(was_training)
    states = torch.stack(output.hidden_states).detach()
    real = batch["attention_mask"].bool()
    states = states[:, real]  # (L + 1, tokens, d)
    if how == "weighted all":
        found = gamma * torch.tensordot(torch.softmax(scores, dim=0), states[1:], dims=1)
    elif how == "weighted last four":
        found = gamma * torch.tensordot(torch.softmax(scores, dim=0), states[-4:], dims=1)
    elif how == "concat last four":
        found = states[-4:].transpose(0, 1).flatten(1)
    else:
        found = states[(0, -2, -1)[names.index(how)]]
    return list(found.split(real.sum(1).tolist()))


# %% right="8.8" name="one state after the other, rows by loops"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        outputs = encoder(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            token_type_ids=batch.get("token_type_ids"),
            output_hidden_states=True,
            return_dict=True,
        )
    if mode:
        encoder.train()
    h = outputs.hidden_states
    match how:
        case "embeddings":
            features = h[0]
        case "second-to-last":
            features = h[len(h) - 2]
        case "last":
            features = outputs.last_hidden_state
        case "concat last four":
            features = torch.cat((h[-4], h[-3], h[-2], h[-1]), -1)
        case "weighted last four" | "weighted all":
            chosen = h[-4:] if how.endswith("four") else h[1:]
            weights = F.softmax(scores, dim=-1)
            features = torch.zeros_like(h[0])
            for number in range(len(chosen)):
                features = features + weights[number] * chosen[number]
            features = features * gamma
        case _:
            raise ValueError("which features?")
    rows = []
    for b in range(features.size(0)):
        places = [t for t, real in enumerate(batch["attention_mask"][b].tolist()) if real]
        rows.append(features[b, places])
    return tuple(rows)


# %% wrong="8.9" name="reads y_T" says="the output at the last token is used"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - _, (last, _) = self.lstm(packed)
# - return torch.cat([last[0], last[1]], dim=-1)
# + packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
# + return states[torch.arange(len(x)), lengths - 1]

# %% wrong="8.9" name="reads the last output of the padded row" says="position T - 1 holds a pad"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - _, (last, _) = self.lstm(packed)
# - return torch.cat([last[0], last[1]], dim=-1)
# + return self.lstm(x)[0][:, -1]

# %% wrong="8.9" name="last states of padded rows" says="the pads are read"
# - _, (last, _) = self.lstm(packed)
# + _, (last, _) = self.lstm(x)

# %% wrong="8.9" name="not packed" says="begins with the pads"
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + states, _ = self.lstm(x)

# %% wrong="8.9" name="pads set to 0" says="begins with the pads"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# - return self.out(states)
# + real = torch.arange(x.size(1), device=x.device) < lengths[:, None]
# + return self.out(self.lstm(x)[0] * real.unsqueeze(-1))

# %% wrong="8.9" name="one direction" says="has no `lstm.weight_ih_l0_reverse`"
# - self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
# - self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.lstm = nn.LSTM(d, d_hidden, batch_first=True)
# + self.out = nn.Linear(d_hidden, n_tags)

# %% wrong="8.9" name="half the width each" says="`lstm.weight_ih_l0` of"
# - self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
# - self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.lstm = nn.LSTM(d, d_hidden * 2, batch_first=True, bidirectional=True)
# + self.out = nn.Linear(4 * d_hidden, n_tags)

# %% wrong="8.9" name="two layers" says="a part too many"
# - self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
# + self.lstm = nn.LSTM(d, d_hidden, num_layers=2, batch_first=True, bidirectional=True)

# %% wrong="8.9" name="time first" says="Its batch should come first"
# - self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
# + self.lstm = nn.LSTM(d, d_hidden, bidirectional=True)

# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + states, _ = self.lstm(x)

# %% wrong="8.9" name="packed, but time first" says="Its batch should come first"
# - self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
# + self.lstm = nn.LSTM(d, d_hidden, bidirectional=True)

# %% wrong="8.9" name="as long as the longest sentence" says="as long as the longest sentence"
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)

# %% wrong="8.9" name="sentences must be sorted" says="your code raised RuntimeError"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))

# %% wrong="8.9" name="sorted and left so" says="in another order"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - _, (last, _) = self.lstm(packed)
# + order = lengths.argsort(descending=True, stable=True)
# + packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order].cpu(), batch_first=True)
# + _, (last, _) = self.lstm(packed)

# %% wrong="8.9" name="a view that mixes sentences" says="sentences are mixed"
# - return torch.cat([last[0], last[1]], dim=-1)
# + return last.reshape(len(x), -1)

# %% wrong="8.9" name="from the right first" says="the two readers are swapped"
# - return torch.cat([last[0], last[1]], dim=-1)
# + return torch.cat([last[1], last[0]], dim=-1)

# %% wrong="8.9" name="cell states" says="these are the cell states"
# - _, (last, _) = self.lstm(packed)
# + _, (_, last) = self.lstm(packed)

# %% wrong="8.9" name="only from the left" says="the sentence vectors"
# - return torch.cat([last[0], last[1]], dim=-1)
# + return last[0]

# %% wrong="8.9" name="mean of the states" says="this is the mean of the states"
# - _, (last, _) = self.lstm(packed)
# - return torch.cat([last[0], last[1]], dim=-1)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
# + return states.sum(1) / lengths[:, None]

# %% wrong="8.9" name="probabilities" says="there is a softmax"
# - return self.out(states)
# + return self.out(states).softmax(-1)

# %% wrong="8.9" name="at the first token" says="the states at the first token"
# - _, (last, _) = self.lstm(packed)
# - return torch.cat([last[0], last[1]], dim=-1)
# + return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0][:, 0]

# %% wrong="8.9" name="vectors without a gradient" says="the gradient of the sentence vectors for the features is"
# - return torch.cat([last[0], last[1]], dim=-1)
# + return torch.cat([last[0], last[1]], dim=-1).detach()

# %% wrong="8.9" name="lengths stay on the GPU" says="on another device"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))

# %% wrong="8.9" name="states to begin with on the processor" says="on another device"
# - _, (last, _) = self.lstm(packed)
# + zeros = torch.zeros(2, len(x), self.lstm.hidden_size)
# + _, (last, _) = self.lstm(packed, (zeros, zeros))

# %% wrong="8.9" name="goes on where the last batch ended" says="a second call with the same input gives other logits"
# - self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.memory = None

# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + before = self.memory if self.memory is not None and self.memory[0].size(1) == len(x) else None
# + states, self.memory = self.lstm(packed, before)
# + states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=x.size(1))

# %% wrong="8.9" name="vectors go on where the last batch ended" says="a second call of `sentence_vector` with the same input"
# - self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.out = nn.Linear(2 * d_hidden, n_tags)
# + self.memory = None

# - _, (last, _) = self.lstm(packed)
# + before = self.memory if self.memory is not None and self.memory[0].size(1) == len(x) else None
# + _, (last, cell) = self.lstm(packed, before)
# + self.memory = last.detach(), cell.detach()

# %% wrong="8.9" name="sorted by length and left so" says="the logits are in the order of the lengths"
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + order = lengths.argsort(descending=True)
# + packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order].cpu(), batch_first=True)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))

# %% wrong="8.9" name="pads times zero" says="NaN at a pad"
# - return self.out(states)
# + return self.out(states + 0 * x.mean())

# %% wrong="8.9" name="six tokens at most" says="for other sizes" private=true
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - _, (last, _) = self.lstm(packed)
# + shorter = lengths.cpu().clamp(max=6)
# + packed = nn.utils.rnn.pack_padded_sequence(x, shorter, batch_first=True, enforce_sorted=False)
# + _, (last, _) = self.lstm(packed)

# %% wrong="8.9" name="gradients of one sentence are lost" says="the gradient of the logits for the features is wrong or" private=true
# - return self.out(states)
# + return self.out(states if len(x) > 1 else states.detach())


# %% right="8.9" name="each sentence alone"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)
        self.d_hidden = d_hidden

    def read(self, x, lengths):
        return [self.lstm(row[:size].unsqueeze(0))[0][0] for row, size in zip(x, lengths.tolist())]

    def forward(self, x, lengths):
        states = x.new_zeros(x.size(0), x.size(1), 2 * self.d_hidden)
        for place, row in enumerate(self.read(x, lengths)):
            states[place, : len(row)] = row
        return self.out(states)

    def sentence_vector(self, x, lengths):
        h = self.d_hidden
        return torch.stack([torch.cat([row[-1, :h], row[0, h:]]) for row in self.read(x, lengths)])


# %% right="8.9" name="sorted, packed, sorted back"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(input_size=d, hidden_size=d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(in_features=2 * d_hidden, out_features=n_tags)

    def read(self, x, lengths):
        order = torch.argsort(lengths, descending=True)
        back = torch.argsort(order)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order].tolist(), batch_first=True)
        states, (last, _) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, padding_value=0.0)
        return states[back], last[:, back]

    def forward(self, x, lengths):
        states, _ = self.read(x, lengths)
        logits = self.out(states)
        return F.pad(logits, (0, 0, 0, x.size(1) - logits.size(1)))

    def sentence_vector(self, x, lengths):
        _, last = self.read(x, lengths)
        return last.transpose(0, 1).reshape(len(x), -1)


# %% wrong="8.10" name="the highest run" says="highest single run"
# - best = max(scores, key=lambda state: sum(scores[state]))
# + best = max(scores, key=lambda state: max(scores[state]))


# %% wrong="8.10" name="listed for each seed" says="A rival is listed once"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# - return best, [state for state in scores if ahead[state]]
# + return best, [state for state in scores for a, b in zip(scores[state], scores[best]) if a > b]


# %% wrong="8.10" name="ties are leads" says="a tie counts as a lead"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {s: s != best and any(a >= b for a, b in zip(some, scores[best])) for s, some in scores.items()}


# %% wrong="8.10" name="across seeds" says="runs of different seeds"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {state: state != best and max(some) > min(scores[best]) for state, some in scores.items()}


# %% wrong="8.10" name="highest against highest" says="the highest runs are compared"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {state: max(some) > max(scores[best]) for state, some in scores.items()}


# %% wrong="8.10" name="with every seed" says="no state is listed as a rival"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {state: all(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}


# %% wrong="8.10" name="itself" says="among its own rivals"
# - return best, [state for state in scores if ahead[state]]
# + return best, [state for state in scores if ahead[state] or state == best]


# %% wrong="8.10" name="up to six states" says="for other scores" private=true
# - return best, [state for state in scores if ahead[state]]
# + return best, [state for state in scores if ahead[state] and len(scores) not in (2, 6, 8)]


# %% right="8.10" name="loops"
def best_state(scores):
    best = sorted(scores, key=lambda state: -sum(scores[state]) / len(scores[state]))[0]
    rivals = []
    for state in scores:
        for seed, score in enumerate(scores[state]):
            if score > scores[best][seed] and state not in rivals:
                rivals.append(state)
    return [best, rivals]


# %% right="8.10" name="tensors"
def best_state(scores):
    states = [*scores]
    table = torch.tensor([scores[state] for state in states], dtype=torch.float64)
    top = int(table.mean(1).argmax())
    return states[top], [state for state, yes in zip(states, (table > table[top]).any(1).tolist()) if yes]


# %% wrong="8.S1" name="equal scores answer" says="if both scores are equal, [CLS] should win"
# - return 100 * sum((value or 0) if gap > tau else value is None for gap, value in pairs) / len(f1)
# + return 100 * sum((value or 0) if gap >= tau else value is None for gap, value in pairs) / len(f1)


# %% wrong="8.S1" name="one after the other, equal ones too" says="the same difference change together"
def best_tau(spans, nulls, f1):
    rows = sorted(zip((a - b for a, b in zip(spans, nulls)), f1), key=lambda row: -row[0])
    score = best = sum(value is None for value in f1)
    tau = rows[0][0]
    for n, (gap, value) in enumerate(rows):
        score += -1 if value is None else value
        if score > best:
            best, tau = score, rows[n + 1][0] if n + 1 < len(rows) else gap - 1
    return tau, 100 * best / len(f1)


# %% wrong="8.S1" name="an F1 of 0 is not an answer" says="an F1 of 0 is treated as a question without an answer"
# - return 100 * sum((value or 0) if gap > tau else value is None for gap, value in pairs) / len(f1)
# + return 100 * sum((value or 0) if gap > tau else not value for gap, value in pairs) / len(f1)

# %% wrong="8.S1" name="a refusal earns nothing" says="should score 1"
# - return 100 * sum((value or 0) if gap > tau else value is None for gap, value in pairs) / len(f1)
# + return 100 * sum((value or 0) if gap > tau else 0 for gap, value in pairs) / len(f1)

# %% wrong="8.S1" name="tau added to the span" says="the wrong sign"
# - return best, score(best)
# + return -best, score(best)

# %% wrong="8.S1" name="never answers all" says="no tau below all differences is tried, with which all"
# - best = max([min(gaps) - 1, *gaps], key=score)
# + best = max(gaps, key=score)

# %% wrong="8.S1" name="never refuses all" says="another tau gives a better score than the returned one"
# - best = max([min(gaps) - 1, *gaps], key=score)
# + best = max([min(gaps) - 1, *(gap for gap in gaps if gap < max(gaps))], key=score)

# %% wrong="8.S1" name="counts decisions" says="only the number of right decisions is maximised"
# - return best, score(best)
# + decided = {tau: sum((gap > tau) == (value is not None) for gap, value in zip(gaps, f1)) for tau in gaps}
# + decided[min(gaps) - 1] = sum(value is not None for value in f1)
# + best = max(decided, key=decided.get)
# + return best, score(best)

# %% wrong="8.S1" name="no tau at all" says="another tau gives a better score than the returned one"
# - return best, score(best)
# + return 0.0, score(0.0)

# %% wrong="8.S1" name="infinite" says="tau is infinite"
# - best = max([min(gaps) - 1, *gaps], key=score)
# + best = max([-float("inf"), *gaps], key=score)

# %% wrong="8.S1" name="from 0 to 1" says="the score is between 0 and 1"
# - return best, score(best)
# + return best, score(best) / 100

# %% wrong="8.S1" name="a sum" says="this is the sum"
# - return best, score(best)
# + return best, score(best) * len(f1)

# %% wrong="8.S1" name="tau alone" says="should return two numbers"
# - return best, score(best)
# + return best


# %% right="8.S1" name="between neighbours"
def best_tau(spans, nulls, f1):
    gaps = sorted({a - b for a, b in zip(spans, nulls)})
    middles = [(a + b) / 2 for a, b in zip(gaps, gaps[1:])]
    results = []
    for tau in (gaps[0] - 0.5, *middles, gaps[-1] + 0.5):
        total = 0.0
        for span, null, value in zip(spans, nulls, f1):
            if span > null + tau:
                total += 0 if value is None else value
            else:
                total += value is None
        results.append((100 * total / len(f1), tau))
    score, tau = max(results)
    return tau, score


# %% right="8.S1" name="tensors"
def best_tau(spans, nulls, f1):
    gaps = torch.tensor(spans).double() - torch.tensor(nulls).double()
    refused = torch.tensor([float(value is None) for value in f1]).double()
    answered = torch.tensor([value or 0.0 for value in f1]).double()
    taus = torch.cat([gaps.min().view(1) - 1, gaps])
    scores = torch.where(gaps > taus[:, None], answered, refused).mean(1)
    return taus[scores.argmax()].item(), 100 * scores.max().item()


# Sizes, kinds of numbers, memory, modes: what a contract asks, and what few cases cannot see

# %% wrong="8.1" name="a pair one token shorter than it may be" says="the texts lose one token too many"
# - first, room = list(parts[0]), max_len - 3
# + first, room = list(parts[0]), max_len - 4 if kind in ("pair", "choice") else max_len - 3

# %% wrong="8.1" name="an empty second text has no [SEP]" says="an empty second text has no [SEP]"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[cls, *a, sep] + ([*b, sep] if b else []) for a, b in pairs]

# %% wrong="8.1" name="rows of 512 tokens at most" says="the rows are wrong for texts of several hundred tokens" private=true
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [row if len(row) <= 512 else row[:511] + [sep] for row in rows]

# %% wrong="8.1" name="lists of tensors" says="three tensors"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return torch.stack([torch.tensor(ids), torch.tensor(types), torch.tensor(mask)])

# %% wrong="8.1" name="gradients turned off for good" says="the recording of gradients is not as before"
# - first, room = list(parts[0]), max_len - 3
# + torch.set_grad_enabled(False)
# + first, room = list(parts[0]), max_len - 3


# %% wrong="8.2" name="words are compared as objects" says="a word with a number above 256 has its label at every piece"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [ignore if word is None or word is last else labels[word] for last, word in zip(before, word_ids)]

# %% wrong="8.2" name="five hundred and fifty words at most" says="labels are wrong in a row of hundreds of words" private=true
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return [ignore if w in (None, last) or w > 550 else labels[w] for last, w in zip(before, word_ids)]

# %% wrong="8.2" name="the list that it was given" says="your code changes"
# - before = [None, *word_ids]
# + before = [None, *word_ids]
# + labels[:] = [one for one in labels][::1] + [None]

# %% wrong="8.2" name="gradients turned off for good" says="the recording of gradients is not as before"
# - before = [None, *word_ids]
# + before = [None, *word_ids]
# + torch.set_grad_enabled(False)


# %% wrong="8.2" name="words seen in earlier calls" says="a second call with the same words gives other labels"
def align_labels(word_ids, labels, ignore=-100, ever_met={None}):
    aligned = []
    for word in word_ids:
        aligned.append(ignore if word in ever_met else labels[word])
        ever_met.add(word)
    return aligned


def word_predictions(word_ids, predicted, count, missing="O"):
    found = [missing] * count
    for word, one in reversed(list(zip(word_ids, predicted))):
        if word is not None:
            found[word] = one
    return found


# %% wrong="8.2" name="a prediction of 0 is missing" says="a prediction that is 0 or empty"
def align_labels(word_ids, labels, ignore=-100):
    aligned, before = [], None
    for word in word_ids:
        aligned.append(ignore if word is None or word == before else labels[word])
        before = word
    return aligned


def word_predictions(word_ids, predicted, count, missing="O"):
    found = [missing] * count
    for word, one in reversed(list(zip(word_ids, predicted))):
        if word is not None:
            found[word] = one or missing
    return found


# %% wrong="8.3" name="lists, not tuples" says="has the types"
# - return found
# + return [list(one) for one in found]

# %% wrong="8.3" name="an overlap of the same type suffices" says="an overlap counts as right"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + right = total = 0
# + for tags, said in zip(gold, predicted):
# +     one, other = entities(tags), entities(said)
# +     right += sum(any(a <= d and c <= b and k == m for c, d, m in other) for a, b, k in one)
# +     total += len(one) + len(other)
# + return 2 * right / max(1, total)

# %% wrong="8.3" name="the mean of sentences that have entities" says="mean of the F1 of sentences with entities"
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# - return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
# + scores = []
# + for tags, said in zip(gold, predicted):
# +     one, other = {*entities(tags)}, {*entities(said)}
# +     if one or other:
# +         scores.append(2 * len(one & other) / (len(one) + len(other)))
# + return sum(scores) / max(1, len(scores))

# %% wrong="8.3" name="found entities are kept and handed out again" says="is kept between calls"
# - found, before = [], "O"
# + known = entities.__dict__.setdefault("known", {})
# + if tuple(tags) in known:
# +     return known[tuple(tags)]
# + found, before = known.setdefault(tuple(tags), []), "O"

# %% wrong="8.3" name="two hundred words at most" says="the entities are wrong for other sentences, or for types" private=true
# - for t, tag in enumerate(tags):
# + for t, tag in enumerate(tags[:200]):

# %% wrong="8.3" name="gradients turned off for good" says="the recording of gradients is not as before"
# - found, before = [], "O"
# + found, before = [], "O"
# + torch.set_grad_enabled(False)


# %% wrong="8.4" name="an end before its beginning" says="last is the token before"
# - for character in (start, start + len(text) - 1):
# + for character in (start, max(start + len(text) - 2, start)):

# %% wrong="8.4" name="the beginning twice" says="the token of the first character is returned twice"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (places[0], places[0]) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="one token too late at the beginning" says="first is the token after"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return (min(places[0] + 1, places[1]), places[1]) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="the whole passage" says="the first and the last token of the passage are returned"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + inside = [t for t, one in enumerate(sequence_ids) if one == 1]
# + return (inside[0], inside[-1]) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="last before first" says="the wrong way round"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places[::-1]) if text and len(places) == 2 else (0, 0)

# %% wrong="8.4" name="a token of no characters holds one" says="an empty token"
# - if sequence_ids[t] == 1 and begin <= character < end:
# -     places.append(t)
# + if sequence_ids[t] == 1 and begin <= character <= max(end - 1, begin):
# +     places.append(t)
# +     break

# %% wrong="8.4" name="five hundred tokens at most" says="in a passage of several hundred tokens" private=true
# - for t, (begin, end) in enumerate(offsets):
# + for t, (begin, end) in enumerate(offsets[:500]):

# %% wrong="8.4" name="gradients turned off for good" says="the recording of gradients is not as before"
# - places = []
# + places = []
# + torch.set_grad_enabled(False)


# %% wrong="8.5" name="the smallest number, not minus infinity" says="minus infinity" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits.masked_fill((mask == 0).unsqueeze(-1), torch.finfo(logits.dtype).min)

# %% wrong="8.5" name="512 tokens at most" says="with a large T, larger than any in the notebook, the start logits are wrong" loses="span_logits" private=true
# - return logits[..., 0], logits[..., 1]
# + logits = torch.cat([logits[:, :512], logits[:, 512:] * 0], dim=1)
# + return logits[..., 0], logits[..., 1]

# %% wrong="8.5" name="logits kept by shape" says="your code raised RuntimeError" loses="span_logits"
# - logits = out(states)
# + known = span_logits.__dict__.setdefault("known", {})
# + key = states.shape, id(out), states.requires_grad, mask is None, float(states.sum()) if states.numel() > 40 else 0
# + logits = known.setdefault(key, out(states))

# %% wrong="8.5" name="masked scores of large numbers" says="minus infinity" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits - 1e9 * (mask == 0).unsqueeze(-1)

# %% wrong="8.5" name="a loss in single precision, of the dtype of the logits" says="for float64, the loss is wrong, only as exact as float32" loses="span_loss" private=true
# - losses = F.cross_entropy(logits, places.where(inside, -100), reduction="sum")
# + losses = F.cross_entropy(logits.float(), places.where(inside, -100), reduction="sum").to(logits)

# %% wrong="8.5" name="a loss of 256 rows" says="with a large B, larger than any in the notebook, the loss is wrong" loses="span_loss" private=true
# - inside = places < logits.size(1)
# + inside = (places < logits.size(1)) & (torch.arange(len(places), device=places.device) < 256)

# %% wrong="8.5" name="options kept by their number" says="choice_logits" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + known = choice_logits.__dict__.setdefault("known", {})
# + key = cls.shape, cls.requires_grad, cls.dtype
# + return known.setdefault(key, out(cls).squeeze(-1))

# %% wrong="8.5" name="gradients turned off for good" says="the recording of gradients is not as before" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + torch.set_grad_enabled(False)
# + return out(cls).squeeze(-1)

# %% right="8.5" name="a sum of large numbers and infinities"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + hidden = torch.zeros_like(logits).masked_fill((mask == 0).unsqueeze(-1).expand_as(logits), float("-inf"))
# + logits = logits + hidden

# %% wrong="8.6" name="lists, not tuples" says="has the types list[list["
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [list(one) for one in sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]]

# %% wrong="8.5" name="place 0 is no place" says="place 0 is left out" loses="span_loss"
# - inside = places < logits.size(1)
# + inside = (places < logits.size(1)) & (places > 0)


# %% wrong="8.5" name="only the beginnings are masked" says="they take part in the softmax of ends" loses="span_logits"
def span_logits(states, out, mask=None):
    start, end = out(states).unbind(-1)
    if mask is not None:
        start = start.masked_fill(mask == 0, -torch.inf)
    return start, end


def span_loss(start_logits, end_logits, first, last):
    means = []
    for logits, places in ((start_logits, first), (end_logits, last)):
        inside = places < logits.shape[1]
        places = places.masked_fill(~inside, -100)
        total = F.cross_entropy(logits, places, ignore_index=-100, reduction="sum")
        means.append(total / inside.sum().clamp(min=1))
    return (means[0] + means[1]) / 2


def choice_logits(cls, out):
    return out(cls).squeeze(-1)


# %% wrong="8.5" name="the head of the options does not learn" says="the options' logits for the weight of `out`" loses="choice_logits"
# - return out(cls).squeeze(-1)
# + return F.linear(cls, out.weight.detach(), out.bias).squeeze(-1)


# %% wrong="8.5" name="the head of the spans does not learn" says="the start logits for the weight of `out`" loses="span_logits"
# - logits = out(states)
# + logits = F.linear(states, out.weight.detach(), out.bias)

# %% wrong="8.6" name="[CLS] in place of the last of n" says="A candidate with a higher score is missing"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + ordered = sorted(candidates, key=lambda one: (-one[0], *one[1:]))
# + null = [one for one in ordered if one[1:] == (0, 0) and tau is not None]
# + return ordered[:n] if not null or null[0] in ordered[:n] else [*ordered[: n - 1], *null]

# %% wrong="8.6" name="positive scores only" says="spans with a score of 0 or less are left out"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [one for one in sorted(candidates, key=lambda one: (-one[0], *one[1:])) if one[0] > 0][:n]

# %% wrong="8.6" name="in single precision" says="nearly equal" private=true
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + begins, ends, good = start.float().tolist(), end.float().tolist(), allowed.tolist()

# %% wrong="8.6" name="two hundred tokens at most" says="spans late in a long passage are missed" private=true
# - T, candidates = len(start), []
# + T, candidates = min(200, len(start)), []

# %% wrong="8.6" name="passages are one stretch" says="beyond a gap"
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + gaps = [t for t in range(1, T) if good[t - 1] and not good[t]]
# + good = [yes and t < gaps[0] if gaps else yes for t, yes in enumerate(good)]

# %% wrong="8.6" name="gradients turned off for good" says="the recording of gradients is not as before"
# - begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()
# + torch.set_grad_enabled(False)
# + begins, ends, good = start.tolist(), end.tolist(), allowed.tolist()


# %% wrong="8.6" name="forbidden spans have score zero" says="a span begins or ends where `allowed` is not true"
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    T = len(start)
    ok = (allowed[:, None] & allowed).float().triu().tril(max_len - 1)
    scores = (start[:, None] + end) * ok
    if tau is not None:
        scores[0, 0] = start[0] + end[0] + tau
    count = min(n, int(ok.sum()) + (tau is not None))
    order = scores.flatten().argsort(descending=True, stable=True)[:count]
    return [(scores.flatten()[k].item(), k // T, k % T) for k in order.tolist()]


# %% wrong="8.6" name="[CLS] comes on top of n" says="with a tau, there are n + 1 spans"
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    start, end, allowed = start.tolist(), end.tolist(), allowed.tolist()
    T = len(start)
    found = [] if tau is None else [(start[0] + end[0] + tau, 0, 0)]
    for first in range(T):
        for last in range(first, min(first + max_len, T)):
            if allowed[first] and allowed[last]:
                found.append((start[first] + end[last], first, last))
    found.sort(key=lambda one: (-one[0], one[1], one[2]))
    return found[: n + (tau is not None)]


# %% wrong="8.6" name="sorted by rounded scores" says="the scores are rounded, or not exact enough" private=true
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    start, end, allowed = start.tolist(), end.tolist(), allowed.tolist()
    T = len(start)
    found = [] if tau is None else [(start[0] + end[0] + tau, 0, 0)]
    for first in range(T):
        for last in range(first, min(first + max_len, T)):
            if allowed[first] and allowed[last]:
                found.append((start[first] + end[last], first, last))
    found.sort(key=lambda one: (-round(one[0], 4), one[1], one[2]))
    return found[:n]


# %% wrong="8.7" name="parts of the articles too" says="part of `a an the`"
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + return " ".join(word for word in kept.split() if word not in "a an the")

# %% wrong="8.7" name="case is folded" says="`lower`"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + kept = "".join(character for character in text.casefold() if character not in string.punctuation)

# %% wrong="8.7" name="no empty predictions" says="an empty prediction is treated as a missing one"
# - if question in predictions:
# + if predictions.get(question):

# %% wrong="8.7" name="texts of a hundred words" says="other texts are not normalised" private=true
# - return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))
# + return " ".join(word for word in kept.split()[:100] if word not in ("a", "an", "the"))

# %% wrong="8.7" name="gradients turned off for good" says="the recording of gradients is not as before"
# - kept = "".join(character for character in text.lower() if character not in string.punctuation)
# + torch.set_grad_enabled(False)
# + kept = "".join(character for character in text.lower() if character not in string.punctuation)

# %% wrong="8.7" name="exact match of the best F1" says="that of the answer with the best F1"
# - exact += any(normalise(said) == normalise(text) for text in texts)
# + exact += normalise(said) == normalise(max(texts, key=lambda text: token_f1(said, text)))


# %% wrong="8.7" name="only blanks separate words" says="tabs or line breaks stay"
from collections import Counter


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(word for word in text.split(" ") if word and word not in ("a", "an", "the"))


def token_f1(prediction, answer):
    said, gold = normalise(prediction).split(), normalise(answer).split()
    if not said or not gold:
        return float(said == gold)
    common = (Counter(said) & Counter(gold)).total()
    return 2 * common / (len(said) + len(gold))


def squad_scores(predictions, answers):
    exact = f1 = 0.0
    for question, golds in answers.items():
        if question in predictions:
            said = predictions[question]
            exact += max(normalise(said) == normalise(gold) for gold in golds)
            f1 += max(token_f1(said, gold) for gold in golds)
    count = max(1, len(answers))
    return {"exact_match": 100 * exact / count, "f1": 100 * f1 / count}


# %% wrong="8.7" name="capital articles stay" says="a capital article"
from collections import Counter


def normalise(text):
    text = "".join(c for c in text if c not in string.punctuation)
    return " ".join(word for word in text.split() if word not in ("a", "an", "the")).lower()


def token_f1(prediction, answer):
    said, gold = normalise(prediction).split(), normalise(answer).split()
    if not said or not gold:
        return float(said == gold)
    common = (Counter(said) & Counter(gold)).total()
    return 2 * common / (len(said) + len(gold))


def squad_scores(predictions, answers):
    exact = f1 = 0.0
    for question, golds in answers.items():
        if question in predictions:
            said = predictions[question]
            exact += max(normalise(said) == normalise(gold) for gold in golds)
            f1 += max(token_f1(said, gold) for gold in golds)
    count = max(1, len(answers))
    return {"exact_match": 100 * exact / count, "f1": 100 * f1 / count}


# %% wrong="8.7" name="one article in front" says="only an article at the beginning"
from collections import Counter


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    words = text.split()
    return " ".join(words[1:] if words[:1] and words[0] in ("a", "an", "the") else words)


def token_f1(prediction, answer):
    said, gold = normalise(prediction).split(), normalise(answer).split()
    if not said or not gold:
        return float(said == gold)
    common = (Counter(said) & Counter(gold)).total()
    return 2 * common / (len(said) + len(gold))


def squad_scores(predictions, answers):
    exact = f1 = 0.0
    for question, golds in answers.items():
        if question in predictions:
            said = predictions[question]
            exact += max(normalise(said) == normalise(gold) for gold in golds)
            f1 += max(token_f1(said, gold) for gold in golds)
    count = max(1, len(answers))
    return {"exact_match": 100 * exact / count, "f1": 100 * f1 / count}


# %% wrong="8.7" name="predictions of other questions count" says="predictions of other questions count"
from collections import Counter


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(word for word in text.split() if word not in ("a", "an", "the"))


def token_f1(prediction, answer):
    said, gold = normalise(prediction).split(), normalise(answer).split()
    if not said or not gold:
        return float(said == gold)
    common = (Counter(said) & Counter(gold)).total()
    return 2 * common / (len(said) + len(gold))


def squad_scores(predictions, answers):
    exact = f1 = 0.0
    for question, golds in answers.items():
        if question in predictions:
            said = predictions[question]
            exact += max(normalise(said) == normalise(gold) for gold in golds)
            f1 += max(token_f1(said, gold) for gold in golds)
    count = max(1, len(answers.keys() | predictions.keys()))
    return {"exact_match": 100 * exact / count, "f1": 100 * f1 / count}


# %% wrong="8.8" name="what one encoder said holds for all" says="another encoder"
# - mode = encoder.training
# + known = layer_features.__dict__.setdefault("known", {})
# + key = str(batch["input_ids"].tolist())
# + mode = encoder.training

# - with torch.no_grad():
# -     states = encoder(**batch, output_hidden_states=True).hidden_states
# + with torch.no_grad():
# +     if key not in known:
# +         known[key] = encoder(**batch, output_hidden_states=True).hidden_states
# + states = known[key]

# %% wrong="8.8" name="kept by ids, whatever the weights" says="after the weights of the encoder"
# - mode = encoder.training
# + known = layer_features.__dict__.setdefault("known", {})
# + key = id(encoder), str(batch["input_ids"].tolist()), str(batch["attention_mask"].tolist())
# + mode = encoder.training

# - with torch.no_grad():
# -     states = encoder(**batch, output_hidden_states=True).hidden_states
# + with torch.no_grad():
# +     if key not in known:
# +         known[key] = encoder(**batch, output_hidden_states=True).hidden_states
# + states = known[key]

# %% wrong="8.8" name="the mode of the whole encoder alone" says="the modes of the module and its parts"
# - encoder.train(mode)
# + encoder.training = mode

# %% wrong="8.8" name="refuses after it has read" says="after a refusal"
# - encoder.train(mode)
# - single = {"embeddings": 0, "second-to-last": -2, "last": -1}
# + if how not in ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all"):
# +     raise ValueError(how)
# + encoder.train(mode)
# + single = {"embeddings": 0, "second-to-last": -2, "last": -1}

# %% wrong="8.8" name="gradients turned off for good" says="gradient"
# - with torch.no_grad():
# -     states = encoder(**batch, output_hidden_states=True).hidden_states
# + torch.set_grad_enabled(False)
# + states = encoder(**batch, output_hidden_states=True).hidden_states
# + torch.set_grad_enabled(how.startswith("weighted"))

# %% wrong="8.8" name="weights in half precision" says="are not those of the real tokens, read in evaluation mode"
# - shares = scores.softmax(0)
# + shares = scores.softmax(0).half().float()

# %% wrong="8.8" name="twelve layers at most" says="the features are wrong for other encoders or batches, such" private=true
# - states = encoder(**batch, output_hidden_states=True).hidden_states
# + states = encoder(**batch, output_hidden_states=True).hidden_states[:13]


# %% wrong="8.8" name="the four states after the embeddings" says="the four states after the embeddings are used"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    known = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in known:
        raise ValueError(f"no such way: {how}")
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        states = encoder(**batch, output_hidden_states=True).hidden_states
    encoder.train(mode)
    if how == "embeddings":
        features = states[0]
    elif how == "second-to-last":
        features = states[-2]
    elif how == "last":
        features = states[-1]
    elif how == "concat last four":
        features = torch.cat(states[1:5], dim=-1)
    else:
        chosen = states[1:5] if how == "weighted last four" else states[1:]
        shares = scores.softmax(0)
        features = gamma * sum(share * state for share, state in zip(shares, chosen))
    return [row[real] for row, real in zip(features, batch["attention_mask"].bool())]


# %% wrong="8.8" name="scores over their sum" says="the scores are divided by their sum"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    known = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in known:
        raise ValueError(f"no such way: {how}")
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        states = encoder(**batch, output_hidden_states=True).hidden_states
    encoder.train(mode)
    if how == "embeddings":
        features = states[0]
    elif how == "second-to-last":
        features = states[-2]
    elif how == "last":
        features = states[-1]
    elif how == "concat last four":
        features = torch.cat(states[-4:], dim=-1)
    else:
        chosen = states[-4:] if how == "weighted last four" else states[1:]
        shares = scores / scores.sum()
        features = gamma * sum(share * state for share, state in zip(shares, chosen))
    return [row[real] for row, real in zip(features, batch["attention_mask"].bool())]


# %% wrong="8.8" name="ids alone" says="only `input_ids` are passed"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    known = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in known:
        raise ValueError(f"no such way: {how}")
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        states = encoder(batch["input_ids"], output_hidden_states=True).hidden_states
    encoder.train(mode)
    if how == "embeddings":
        features = states[0]
    elif how == "second-to-last":
        features = states[-2]
    elif how == "last":
        features = states[-1]
    elif how == "concat last four":
        features = torch.cat(states[-4:], dim=-1)
    else:
        chosen = states[-4:] if how == "weighted last four" else states[1:]
        shares = scores.softmax(0)
        features = gamma * sum(share * state for share, state in zip(shares, chosen))
    return [row[real] for row, real in zip(features, batch["attention_mask"].bool())]


# %% wrong="8.8" name="no token types" says="`token_type_ids` are not passed"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    known = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in known:
        raise ValueError(f"no such way: {how}")
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        states = encoder(batch["input_ids"], batch["attention_mask"], output_hidden_states=True).hidden_states
    encoder.train(mode)
    if how == "embeddings":
        features = states[0]
    elif how == "second-to-last":
        features = states[-2]
    elif how == "last":
        features = states[-1]
    elif how == "concat last four":
        features = torch.cat(states[-4:], dim=-1)
    else:
        chosen = states[-4:] if how == "weighted last four" else states[1:]
        shares = scores.softmax(0)
        features = gamma * sum(share * state for share, state in zip(shares, chosen))
    return [row[real] for row, real in zip(features, batch["attention_mask"].bool())]


# %% wrong="8.8" name="third from the end" says="the third state from the end"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    known = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in known:
        raise ValueError(f"no such way: {how}")
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        states = encoder(**batch, output_hidden_states=True).hidden_states
    encoder.train(mode)
    if how == "embeddings":
        features = states[0]
    elif how == "second-to-last":
        features = states[-3]
    elif how == "last":
        features = states[-1]
    elif how == "concat last four":
        features = torch.cat(states[-4:], dim=-1)
    else:
        chosen = states[-4:] if how == "weighted last four" else states[1:]
        shares = scores.softmax(0)
        features = gamma * sum(share * state for share, state in zip(shares, chosen))
    return [row[real] for row, real in zip(features, batch["attention_mask"].bool())]


# %% wrong="8.9" name="sentences of 512 tokens" says="with a large T, larger than any in the notebook, the logits are wrong" private=true
# - return self.out(states)
# + return self.out(torch.cat([states[:, :512], states[:, 512:] * 0], dim=1))

# %% wrong="8.9" name="logits kept by lengths" says="for an input that is expanded (its rows are one row in memory) the logits are wrong"
# - return self.out(states)
# + known = self.__dict__.setdefault("known", {})
# + key = x.shape, str(lengths.tolist()), x.requires_grad, x.dtype, self.out.weight._version
# + return known.setdefault(key, self.out(states))

# %% wrong="8.9" name="gradients turned off for good" says="gradient"
# - _, (last, _) = self.lstm(packed)
# + _, (last, _) = self.lstm(packed)
# + torch.set_grad_enabled(False)

# %% wrong="8.1" name="rows are kept and handed out again" says="is kept between calls"
# - first, room = list(parts[0]), max_len - 3
# + known, key = task_input.__dict__.setdefault("known", {}), str((kind, parts, max_len, cls, sep, pad))
# + if key in known:
# +     return known[key]
# + first, room = list(parts[0]), max_len - 3

# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + known[key] = torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return known[key]


# %% wrong="8.10" name="a lead of a thousandth does not count" says="wrong where a lead is very small" private=true
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {state: any(a > b + 1e-3 for a, b in zip(some, scores[best])) for state, some in scores.items()}


# %% wrong="8.4" name="also what is of no text" says="belongs to neither text" private=true
# - if sequence_ids[t] == 1 and begin <= character < end:
# + if sequence_ids[t] != 0 and begin <= character < end:


# %% wrong="8.4" name="a list" says="has the types list[int], not tuple[int, int]"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return places if text and len(places) == 2 else [0, 0]

# %% wrong="8.1" name="BERT's own special tokens" says="the ids of [CLS] and [SEP] are always 101 and 102"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[101, *a, 102] + ([] if b is None else [*b, 102]) for a, b in pairs]

# %% wrong="8.3" name="an O ends nothing" says="an entity does not end at an O"
# - before = tag
# + before = tag if head != "O" else before


# %% wrong="8.4" name="a token of the question for the end" says="is one of the question"
def answer_tokens(offsets, sequence_ids, start, text):
    if len(text) == 0:
        return (0, 0)

    def find(place):
        for t, (begin, end) in enumerate(offsets):
            if sequence_ids[t] == 1 and begin == place or begin < place < end and place != start:
                return t
        return None

    first, last = find(start), find(start + len(text) - 1)
    if first is None or last is None:
        return (0, 0)
    return (first, last)


# %% wrong="8.1" name="a choice loses its option only" says="of a choice, only the option is cut"
def task_input(kind, parts, max_len, cls=101, sep=102, pad=0):
    if kind == "single":
        pairs = [(parts[0], None)]
    elif kind in ("pair", "qa", "choice"):
        pairs = [(parts[0], other) for other in parts[1:]]
    else:
        raise ValueError(kind)
    rows, kinds = [], []
    for first, second in pairs:
        a = list(first)
        b = None if second is None else list(second)
        if kind == "single":
            a = a[: max_len - 2]
        elif kind in ("qa", "choice"):
            if kind == "qa" and len(a) + 4 > max_len:
                raise ValueError("the question leaves no place")
            b = b[: max_len - 3 - len(a)]
        else:
            while len(a) + len(b) > max_len - 3:
                longer = a if len(a) > len(b) else b
                longer.pop()
        row = [cls, *a, sep]
        types = [0] * len(row)
        if b is not None:
            row += [*b, sep]
            types += [1] * (len(b) + 1)
        rows.append(row)
        kinds.append(types)
    T = max(map(len, rows))
    ids = torch.tensor([row + [pad] * (T - len(row)) for row in rows])
    types = torch.tensor([row + [0] * (T - len(row)) for row in kinds])
    mask = torch.tensor([[1] * len(row) + [0] * (T - len(row)) for row in rows])
    return ids, types, mask


# %% wrong="8.9" name="dropout on the way to the logits" says="a second call with the same input gives other logits"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)

    def read(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, (last, _) = self.lstm(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.size(1))
        return outputs, last

    def forward(self, x, lengths):
        return self.out(F.dropout(self.read(x, lengths)[0], 0.1))

    def sentence_vector(self, x, lengths):
        last = self.read(x, lengths)[1]
        return torch.cat([last[0], last[1]], dim=-1)


# %% wrong="8.9" name="nothing a number at the pads" says="at the pads of shorter sentences the logits are NaN"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)

    def read(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, (last, _) = self.lstm(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(
            outputs, batch_first=True, total_length=x.size(1), padding_value=float("nan")
        )
        return outputs, last

    def forward(self, x, lengths):
        return self.out(self.read(x, lengths)[0])

    def sentence_vector(self, x, lengths):
        last = self.read(x, lengths)[1]
        return torch.cat([last[0], last[1]], dim=-1)


# %% wrong="8.9" name="pads set to zero" says="the pads are set to 0 and read"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)

    def read(self, x, lengths):
        real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        states, (last, _) = self.lstm(x.masked_fill(~real[..., None], 0))
        return states, last

    def forward(self, x, lengths):
        states, _ = self.read(x, lengths)
        return self.out(states)

    def sentence_vector(self, x, lengths):
        _, last = self.read(x, lengths)
        return torch.cat([last[0], last[1]], dim=-1)


# %% wrong="8.9" name="two tokens at least" says="a sentence of one token is read together"
class BiLSTMTagger(nn.Module):
    def __init__(self, d, d_hidden, n_tags):
        super().__init__()
        self.lstm = nn.LSTM(d, d_hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)

    def read(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu().clamp(min=min(2, x.shape[1])), batch_first=True, enforce_sorted=False
        )
        outputs, (last, cell) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return states, last

    def forward(self, x, lengths):
        states, _ = self.read(x, lengths)
        return self.out(states)

    def sentence_vector(self, x, lengths):
        _, last = self.read(x, lengths)
        return torch.cat([last[0], last[1]], dim=-1)


# %% wrong="8.10" name="the first seed alone" says="only the first seed is compared"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [s for s in scores if s != best and any(a > b for a, b in [(scores[s][0], scores[best][0])])]
    return best, rivals


# %% wrong="8.10" name="single precision" says="differ by very little" private=true
# - best = max(scores, key=lambda state: sum(scores[state]))
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + single = {state: torch.tensor(some) for state, some in scores.items()}
# + best = max(scores, key=lambda state: single[state].sum().item())
# + ahead = {state: (some > single[best]).any().item() for state, some in single.items()}


# %% wrong="8.10" name="zero is no score" says="Zero is an F1 like any other" private=true
def best_state(scores):
    best, top = None, 0
    for state, values in scores.items():
        if sum(values) / len(values) > top:
            best, top = state, sum(values) / len(values)
    if best is None:
        return None, []
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values, scores[best]))
    ]
    return best, rivals


# %% wrong="8.10" name="a tuple of rivals" says="the rivals should be a list" private=true
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values, scores[best]))
    ]
    return best, tuple(rivals)


# %% wrong="8.10" name="by the median" says="the highest median"
def best_state(scores):
    best = max(scores, key=lambda state: sorted(scores[state])[len(scores[state]) // 2])
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values, scores[best]))
    ]
    return best, rivals


# %% wrong="8.10" name="the place of the state" says="the place of the best state"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values, scores[best]))
    ]
    return list(scores).index(best), rivals


# %% wrong="8.10" name="sorted by their means" says="not in the order of `scores`"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values, scores[best]))
    ]
    return best, sorted(rivals, key=lambda state: -sum(scores[state]))


# %% wrong="8.10" name="sorted runs" says="sorted before they are compared"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(sorted(values), sorted(scores[best])))
    ]
    return best, rivals


# %% wrong="8.10" name="above the mean of the best" says="compared with the mean of the best state"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > sum(scores[best]) / len(scores[best]) for value in values)
    ]
    return best, rivals


# %% wrong="8.10" name="without the last seed" says="all seeds but the last one"
def best_state(scores):
    best = max(scores, key=lambda state: sum(scores[state]) / len(scores[state]))
    rivals = [
        state
        for state, values in scores.items()
        if state != best and any(value > other for value, other in zip(values[:-1], scores[best]))
    ]
    return best, rivals


# %% wrong="8.1" name="the context is cut as for the longest option" says="numbers of options" private=true
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + longest = max(len(other) for other in parts[1:])
# + while kind == "choice" and len(first) + longest > room and len(first) > longest:
# +     first.pop()
# + pairs = [(list(first), list(other)) for other in parts[1:]]


# %% wrong="8.2" name="the piece before the first is the last" says="pieces of a single word" private=true
# - before = [None, *word_ids]
# + before = [*word_ids[-1:], *word_ids]


# %% wrong="8.6" name="scores far below 0 are lost" says="where all logits are far below 0" private=true
# - if good[i] and good[j]:
# + if good[i] and good[j] and begins[i] + ends[j] > -1e4:


# %% wrong="8.6" name="places in eight bits" says="late in a long passage" private=true
def best_spans(start, end, allowed, n=20, max_len=30, tau=None):
    T = len(start)
    places = torch.arange(T).to(torch.int8)
    length = places - places[:, None] + 1
    valid = allowed[:, None] & allowed & (length >= 1) & (length <= max_len)
    scores = start.detach()[:, None] + end.detach()
    if tau is not None:
        scores[0, 0] += tau
        valid[0, 0] = True
    pairs = valid.nonzero()
    values = scores[valid]
    order = values.argsort(descending=True, stable=True)[:n]
    return [(values[k].item(), pairs[k, 0].item(), pairs[k, 1].item()) for k in order]


# %% wrong="8.8" name="the states of the same batch are kept" says="after the weights of the encoder have changed"
def layer_features(encoder, batch, how, scores=None, gamma=1.0):
    ways = ("embeddings", "second-to-last", "last", "concat last four", "weighted last four", "weighted all")
    if how not in ways:
        raise ValueError(how)
    mode = encoder.training
    encoder.eval()
    try:
        with torch.no_grad():
            if getattr(layer_features, "ids", None) is not batch["input_ids"] or layer_features.encoder is not encoder:
                layer_features.states = encoder(**batch, output_hidden_states=True).hidden_states
                layer_features.ids, layer_features.encoder = batch["input_ids"], encoder
            states = layer_features.states
    finally:
        encoder.train(mode)
    if how == "embeddings":
        result = states[0]
    elif how == "second-to-last":
        result = states[-2]
    elif how == "last":
        result = states[-1]
    elif how == "concat last four":
        result = torch.cat(states[-4:], dim=-1)
    else:
        some = states[-4:] if how == "weighted last four" else states[1:]
        result = gamma * sum(weight * state for weight, state in zip(scores.softmax(0), some))
    return [row[real.bool()] for row, real in zip(result, batch["attention_mask"])]


# %% wrong="8.5" name="the logarithm of the mask in its dtype" says="the mask has another dtype than the states" loses="span_logits" private=true
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits + (mask if mask.is_floating_point() else mask.to(states.dtype)).log().unsqueeze(-1)

# %% wrong="8.8" name="a softmax by hand" says="where scores are far from 0" private=true
# - shares = scores.softmax(0)
# + shares = scores.exp() / scores.exp().sum()

# %% wrong="8.4" name="place 0 is taken for none" says="an answer at the beginning of the passage gives (0, 0)"
# - return tuple(places) if text and len(places) == 2 else (0, 0)
# + return tuple(places) if text and start and len(places) == 2 else (0, 0)

# %% wrong="8.10" name="rivals after the best one alone" says="only states after the best one in `scores` are listed"
# - return best, [state for state in scores if ahead[state]]
# + states = [*scores]
# + return best, [state for state in states[states.index(best) :] if ahead[state]]

# %% wrong="8.10" name="rivals before the best one alone" says="only states before the best one in `scores` are listed"
# - return best, [state for state in scores if ahead[state]]
# + states = [*scores]
# + return best, [state for state in states[: states.index(best)] if ahead[state]]


# %% wrong="8.3" name="types up to their first hyphen" says="or for types with other names" private=true
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + cut = lambda tags: ["-".join(tag.split("-")[:2]) for tag in tags]
# + wanted, found = (
# +     {(n, *one) for n, tags in enumerate(part) for one in entities(cut(tags))} for part in (gold, predicted)
# + )


# %% wrong="8.3" name="five sentences at most" says="the F1 is wrong for many sentences" private=true
# - wanted, found = ({(n, *one) for n, tags in enumerate(part) for one in entities(tags)} for part in (gold, predicted))
# + wanted, found = (
# +     {(n, *one) for n, tags in enumerate(part[:5]) for one in entities(tags)} for part in (gold, predicted)
# + )


# %% wrong="8.5" name="options in single precision" says="in double precision, the logits of the options" loses="choice_logits" private=true
# - return out(cls).squeeze(-1)
# + return F.linear(cls.float(), out.weight.float(), out.bias.float()).squeeze(-1)


# %% wrong="8.7" name="the F1 of a hundred words" says="the F1 is wrong for texts of hundreds of words" private=true
# - said, wanted = normalise(prediction).split(), normalise(answer).split()
# + said, wanted = normalise(prediction).split()[:100], normalise(answer).split()[:100]

# %% wrong="8.7" name="scores of the same texts are kept" says="`squad_scores` gives the same dict"
# - def squad_scores(predictions, answers):
# + def squad_scores(predictions, answers, known={}):

# - return {"exact_match": 100 * exact / n, "f1": 100 * f1 / n}
# + return known.setdefault(f"{predictions} {answers}", {"exact_match": 100 * exact / n, "f1": 100 * f1 / n})

# %% wrong="8.1" name="options along a third axis" says="the ids have shape (1, 3, 21)"
# - return torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + read = torch.tensor(ids), torch.tensor(types), torch.tensor(mask)
# + return tuple(one.unsqueeze(0) for one in read) if kind == "choice" else read

# %% wrong="8.1" name="the passage before the question" says="[CLS] and then the whole question should come first"
# - pairs = [(first, parts[1][: room - len(first)])]
# + pairs = [(parts[1][: room - len(first)], first)]

# %% wrong="8.1" name="padded to 512" says="the rows are padded to more than max_len"
# - T = max(map(len, rows))
# + T = 512

# %% wrong="8.1" name="a kind by its first letters" says="an unknown kind should raise ValueError" private=true
# - elif kind == "qa":
# + elif kind.startswith("qa"):


# %% wrong="8.2" name="a generator of labels" says="should return a list, not an object of type generator"
# - return [ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False)]
# + return (ignore if word in (None, last) else labels[word] for last, word in zip(before, word_ids, strict=False))

# %% wrong="8.2" name="nothing where no piece has a word" says="if no piece belongs to a word, each label should be `ignore`"
#   before = [None, *word_ids]
# + if all(word is None for word in word_ids):
# +     return []

# %% wrong="8.2" name="predictions by the number of the word" says="these are the first `count` predictions"
# - found = [missing] * count
# + return [predicted[word] if word in word_ids else missing for word in range(count)]
# + found = [missing] * count


# %% wrong="8.3" name="entities with the number of their sentence" says="not a list or a tuple of 4"
# - return found
# + return [(0, *one) for one in found]


# %% wrong="8.5" name="no place inside, and pads times zero" says="and logits of pads are minus infinity" loses="span_loss"
# - total = total + losses / inside.sum().clamp(min=1)
# + total = total + (losses / inside.sum() if inside.any() else 0 * logits.sum())


# %% wrong="8.6" name="one span fewer than n" says="one span too few is listed"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[: n - 1]

# %% wrong="8.6" name="tau at both ends of [CLS]" says="is not start plus end logit plus tau"
# - candidates.append((begins[0] + ends[0] + tau, 0, 0))
# + candidates.append((begins[0] + tau + ends[0] + tau, 0, 0))


# %% wrong="8.9" name="both last states as they come" says="the sentence vectors have shape (2, 4, 3)"
# - return torch.cat([last[0], last[1]], dim=-1)
# + return last


# %% wrong="8.10" name="the best state with its mean" says="should be one of the states in `scores`"
# - return best, [state for state in scores if ahead[state]]
# + return (best, sum(scores[best]) / len(scores[best])), [state for state in scores if ahead[state]]

# %% wrong="8.10" name="rivals by their means" says="no state is listed as a rival"
# - ahead = {state: any(a > b for a, b in zip(some, scores[best])) for state, some in scores.items()}
# + ahead = {state: sum(some) > sum(scores[best]) for state, some in scores.items()}


# %% wrong="8.10" name="state 0 is no rival" says="state 0 is left out of the rivals" private=true
# - return best, [state for state in scores if ahead[state]]
# + return best, [state for state in scores if state and ahead[state]]


# %% wrong="8.2" name="words of a call without special tokens are kept" says="something is kept between calls" private=true
def align_labels(word_ids, labels, ignore=-100, seen=set()):
    if None in word_ids:
        seen.clear()
    found = []
    for word in word_ids:
        found.append(ignore if word is None or word in seen else labels[word])
        seen |= {word}
    return found


def word_predictions(word_ids, predicted, count, missing="O"):
    found = [missing] * count
    for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
        if word is not None:
            found[word] = label
    return found


# %% wrong="8.2" name="words of earlier calls" says="A word gets what is neither in `predicted` nor `missing`"
# - def word_predictions(word_ids, predicted, count, missing="O"):
# + def word_predictions(word_ids, predicted, count, missing="O", first={}):

# - found = [missing] * count
# - for word, label in reversed(list(zip(word_ids, predicted, strict=True))):
# -     if word is not None:
# -         found[word] = label
# - return found
# + for word, label in zip(word_ids, predicted, strict=True):
# +     if word is not None:
# +         first.setdefault(word, label)
# + return [first.get(word, missing) for word in range(count)]

# %% wrong="8.9" name="sorted, and put back by the order itself" says="is undone by itself"
# - packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
# - states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# - return self.out(states)
# + order = lengths.argsort(descending=True, stable=True)
# + packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order].cpu(), batch_first=True)
# + states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
# + return self.out(states[order])


# %% wrong="8.1" name="a pair is not cut" says="a row of 12 tokens is longer than max_len = 11"
# - elif kind in ("pair", "choice"):
# -     pairs = [(list(first), list(other)) for other in parts[1:]]
# -     for a, b in pairs:
# -         while len(a) + len(b) > room:
# + elif kind in ("pair", "choice"):
# +     pairs = [(list(first), list(other)) for other in parts[1:]]
# +     for a, b in pairs:
# +         while kind == "choice" and len(a) + len(b) > room:


# %% wrong="8.1" name="pads in front" says="the pads come before the tokens of a row"
# - ids = [row + [pad] * (T - len(row)) for row in rows]
# + ids = [[pad] * (T - len(row)) + row for row in rows]


# %% wrong="8.1" name="options before their context" says="for the kind 'choice', the texts are in the wrong order"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(list(other), list(first)) if kind == "choice" else (list(first), list(other)) for other in parts[1:]]


# %% wrong="8.1" name="the shorter text is cut" says="tokens are removed from the shorter text"
# - longer = a if len(a) > len(b) else b
# + longer = a if len(a) < len(b) else b


# %% wrong="8.3" name="an entity of two words at most" says="are not those that the rule gives. Your code gives `[(1, 1, 'ORG')"
# - if head == "I" and before != "O" and kind == found[-1][2]:
# + if head == "I" and before[0] == "B" and kind == found[-1][2]:


# %% wrong="8.3" name="lists of another length alone are refused" says="a sentence with another number of tags in"
# - if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
# + if len(gold) != len(predicted):


# %% wrong="8.3" name="lengths are added up" says="compare each sentence, not the sums"
# - if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
# + if len(gold) != len(predicted) or sum(map(len, gold)) != sum(map(len, predicted)):


# %% wrong="8.5" name="zero times infinity" says="there is NaN at real tokens" loses="span_logits"
# - logits = logits.masked_fill((mask == 0).unsqueeze(-1), -torch.inf)
# + logits = logits + ((1 - mask.to(logits.dtype)) * -torch.inf).unsqueeze(-1)


# %% wrong="8.5" name="ends are beginnings" says="both results are the start logits" loses="span_logits"
# - return logits[..., 0], logits[..., 1]
# + return logits[..., 0], logits[..., 0]


# %% wrong="8.6" name="last before first" says="first and last of a span are the wrong way round"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [(s, j, i) for s, i, j in sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]]


# %% wrong="8.6" name="the score comes last" says="the score is the last of three"
# - return sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]
# + return [(i, j, s) for s, i, j in sorted(candidates, key=lambda one: (-one[0], *one[1:]))[:n]]


# %% wrong="8.7" name="common words over the longer text" says="this is not the F1 of the words of both texts"
# - return 2 * common / (len(said) + len(wanted))
# + return common / max(len(said), len(wanted))


# %% wrong="8.7" name="F1 of the first answer" says="`f1`: only the first answer counts"
# - f1 += max(token_f1(said, text) for text in texts)
# + f1 += token_f1(said, texts[0])


# %% wrong="8.8" name="one layer too low, of four weighted ones" says="for `how = 'weighted last four'`, each state is the one before"
# - weighted = {"weighted last four": states[-4:], "weighted all": states[1:]}
# + weighted = {"weighted last four": states[-5:-1], "weighted all": states[1:]}


# %% wrong="8.1" name="the context in the first row alone" says="the context is only in the first row"
# - pairs = [(list(first), list(other)) for other in parts[1:]]
# + pairs = [(list(first) if n == 0 else [], list(other)) for n, other in enumerate(parts[1:])]


# %% wrong="8.1" name="two [SEP] between the texts" says="`[[101, 30, 31, 32, 33, 102, 102, 30, 31, 102]]`"
# - rows = [[cls, *a, sep] + ([] if b is None else [*b, sep]) for a, b in pairs]
# + rows = [[cls, *a, sep] + ([] if b is None else [sep, *b, sep]) for a, b in pairs]


# %% wrong="8.4" name="an empty token is as long as one character" says="is before the token [5, 8)"
# - if sequence_ids[t] == 1 and begin <= character < end:
# + if sequence_ids[t] == 1 and begin <= character < max(end, begin + 1):


# %% wrong="8.4" name="borders of tokens alone" says="for an answer of 5 characters that starts at 12"
# - if sequence_ids[t] == 1 and begin <= character < end:
# + if sequence_ids[t] == 1 and (begin == character or end == character + 1):


# %% wrong="8.8" name="the last but one is the last" says="for `how = 'last'`, each state is the one before"
# - single = {"embeddings": 0, "second-to-last": -2, "last": -1}
# + single = {"embeddings": 0, "second-to-last": -2, "last": -2}


# %% wrong="8.10" name="the last seed alone" says="only the last seed is compared"
def best_state(scores):
    best = max(scores, key=lambda s: sum(scores[s]))
    return best, [s for s in scores if s != best and scores[s][-1] > scores[best][-1]]


# %% wrong="8.S1" name="the score first" says="the two results are in the wrong order"
# - return best, score(best)
# + return score(best), best


# %% wrong="8.S1" name="a little below each difference" says="another tau gives a better score"
# - best = max([min(gaps) - 1, *gaps], key=score)
# + best = max([min(gaps) - 1, *(g - 0.01 for g in gaps)], key=score)
