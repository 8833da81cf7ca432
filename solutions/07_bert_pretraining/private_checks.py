"""Cases of notebook 07 that students never see: other sizes, other seeds, edges, drawn for each submission."""

import random
from collections import Counter

import torch
from torch import nn

from autograder.author.checks import private, swept, tells
from utils import tiny_bert
from utils.checks import nb07_bert_pretraining as seen
from utils.checks import nb07_toys as toys
from utils.grading import expect
from utils.grading.expect import draw, normal
from utils.grading.remote import INFINITY, promised

# 7.1


@private("7.1", tells=("words with other letters, lengths or vocabularies are not cut as the library cuts them."))
def other_words(wordpiece):
    some = draw(710)
    for letters in ("ab", "XyY", "äßé-", "".join(some.sample("abcdefghijklmnopqrstuvwxyz", 4))):
        seen.random_words(wordpiece, some, 40, letters)
        long = letters[0] * some.randint(25, 60)
        vocab = {letters[0]: 0, "##" + letters[0]: 1, "##" + long: 2, long: 3}
        with tells("a piece of dozens of characters is not found, though it is the longest that fits."):
            assert wordpiece(long, vocab) == [long], "a long piece"
            assert wordpiece(letters[0] + long, vocab) == [long, "##" + letters[0]], "a long piece, and one more letter"


@private("7.1", tells="with another `unk` or another `max_chars`, the result is wrong.")
def other_limits(wordpiece):
    some = draw(711)
    for unk in ("<unk>", "".join(some.sample("KLMNOP", 3)), "[UNK]"):
        letters = some.sample("abcdefgh", 3)
        vocab = {letters[0]: 3, "##" + letters[1]: 5} | ({unk: 1} if some.random() < 0.5 else {})
        for most in (some.randint(2, 9), some.randint(101, 120)):
            for extra in (0, 1, some.randint(2, 30)):
                word = letters[0] + letters[1] * (most - 1 + extra)
                wanted = [letters[0]] + ["##" + letters[1]] * (most - 1) if not extra else [unk]
                assert wordpiece(word, vocab, unk, most) == wanted, "wrong for a long word"
        assert wordpiece(letters[0] + letters[2], vocab, unk=unk) == [unk], "another name is not used"
        assert wordpiece("", vocab, unk) == [], "an empty word"
        whole = letters[0] * some.randint(25, 60)
        assert wordpiece(whole, {whole: 0, letters[0]: 1}, unk, 24) == [unk], "a word that is a piece and too long"
        assert wordpiece("ü€ß", {"ü": 0, "##€": 1, "##ß": 2}, unk, 3) == ["ü", "##€", "##ß"], "characters, not bytes"


# 7.2


embedded = swept("7.2", seen.EMBEDDINGS, without={"parts", "layout", "device"})


@private("7.2", tells="two fresh modules have the same tables. Each should draw its own numbers.")
def starts_anew(BertEmbeddings):
    first, second = (BertEmbeddings(20, 8, 6).state_dict() for _ in range(2))
    for name in ("word.weight", "position.weight", "token_type.weight"):
        assert not torch.equal(first[name], second[name]), "always the same"
    with tells("the norm does not start with weights of 1 and biases of 0."):
        assert (first["norm.weight"] == 1).all() and not first["norm.bias"].any(), "another start"


# 7.3


@private("7.3", tells="the shares are wrong for other values of p, `split` or `special`.")
def other_shares(mask_tokens, lib):
    some = draw(750)
    for place in range(4):
        V = some.randint(300, 2000)
        mask_id, *special = some.sample(range(V), 5)
        ids = seen.some_text(some.randint(150, 250), some.randint(90, 150), V, special, mask_id, 751 + place)
        one, two = some.uniform(0.2, 0.5), some.uniform(0.1, 0.4)
        split = [(one, two, 1 - one - two), (0.8, 0.2, 0.0), (0.8, 0.0, 0.2), (0.0, 0.5, 0.5)][place]
        p = some.uniform(0.1, 0.6)
        found = mask_tokens(ids, special, mask_id, V, p, split, lib(toys).seeded(some.randrange(10**6)))
        seen.well_hidden(*seen.hidden_pair(found, ids), ids, special, mask_id, V, p, split)


@private("7.3", tells="with a small p, too many tokens are chosen. A row may be left without a chosen token.")
def rows_without(mask_tokens, lib):
    seed = draw(757).randrange(10**6)
    ids, p = torch.full((500, 4), 5), 0.02
    _, labels = seen.chosen_pair(mask_tokens(ids, [0], 2, 9, p, generator=lib(toys).seeded(seed)), ids)
    assert int((labels != -100).sum()) < 120, "too many"  # 40 are expected, with a deviation of 6.3


@private("7.3", tells="small probabilities are wrong, as if the random numbers had too few different values.")
def small_shares(mask_tokens, lib):
    """Half precision has 256 or 2,048 numbers from 0 to 1, and float32 has 16 million."""
    seeds, count, small = draw(755), 200_000, 0.0006
    for which, p, split in (
        (0, small, (0.8, 0.1, 0.1)),
        (1, 1.0, (small, 0.0, 1 - small)),
        (2, 1.0, (1 - small, small, 0.0)),
    ):
        found = lib(toys).counts_of(mask_tokens, count, p, [*split], seeds.randrange(10**6))
        expect.likely(expect.items(found, 3, "")[which], count, small, "wrong")


@private("7.3", tells="with p = 0 nothing should be chosen, and with p = 1 every token that is not special.")
def all_or_nothing(mask_tokens, lib):
    some = draw(760)
    V, special = some.randint(20, 40), [some.randrange(2, 10)]
    ids = torch.randint(V, (some.randint(3, 6), some.randint(7, 12)), generator=expect.generator(761))
    ids[1, 2:5] = 1  # a text may hold the mask: it is a token like any other
    going = lib(toys).seeded(some.randrange(10**6))
    inputs, labels = seen.hidden_pair(mask_tokens(ids, special, 1, V, 0.0, generator=going), ids)
    assert torch.equal(inputs, ids) and (labels == -100).all(), "something is chosen"
    free = ids != special[0]
    for split, gives in (((1.0, 0.0, 0.0), torch.where(free, 1, ids)), ((0.0, 0.0, 1.0), ids)):
        inputs, labels = seen.hidden_pair(mask_tokens(ids, special, 1, V, 1.0, split, going), ids)
        assert torch.equal(inputs, gives), "the inputs are wrong"
        assert torch.equal(labels, torch.where(free, ids, -100)), "the labels are wrong"
    single = torch.tensor([[some.randrange(10, 20)]])
    assert seen.hidden_pair(mask_tokens(single, special, 1, V, 1.0, generator=going), single)[1].item() == single.item()


@private(
    "7.3",
    tells=("tokens are not chosen independently, or random tokens are not drawn evenly from the whole vocabulary."),
)
def other_draws(mask_tokens, lib):
    some = draw(765)
    with tells("which tokens are chosen, or what replaces them, is not drawn for each token separately."):
        seen.each_alone(mask_tokens, lib, some.randrange(10**6), some.uniform(0.2, 0.5))
    with tells("random tokens are not drawn evenly from the whole vocabulary."):
        seen.evenly_random(mask_tokens, lib, some.randint(5, 12), some.randrange(10**6))
    with tells("what happens to a token depends on its neighbours, or random tokens are not drawn evenly."):
        seen.apart(mask_tokens, lib, some.randrange(10**6))
    ids, V, going = torch.full((60, 100), 5), some.randint(29_000, 31_000), lib(toys).seeded(some.randrange(10**6))
    inputs, _ = seen.hidden_pair(mask_tokens(ids, [0], 3, V, 1.0, (0.0, 1.0, 0.0), going), ids)
    with tells("most tokens of a large vocabulary are never drawn: the random numbers have too few different values."):
        assert len(inputs.unique()) > 4000, "too few"  # about 5,400 are expected; half precision has 2,048 numbers
    inputs, _ = seen.hidden_pair(mask_tokens(ids, [0], 5, V, 1.0, (0.0, 1.0, 0.0), going), ids)
    with tells("a mask in the text, once chosen, is never replaced by a random token. It is a token like any other."):
        assert (inputs != 5).any(), "none"


# 7.4


@private("7.4", tells="`mask` is called without a generator: call it as mask(ids, generator=generator).")
def generator_given(Masking, lib):
    for copies in (None, 3):
        _, given = expect.items(Masking(torch.arange(6), lib(toys).handed, copies, 5).epoch(4), 2, "")
        assert given.all(), "no generator"


@private("7.4", tells="two seeds, or two epochs far apart, share a mask.")
def far_apart(Masking, lib):
    some = draw(770)
    ids, mask = torch.arange(10).reshape(2, 5), lib(toys).noise
    seed = some.randrange(2, 980)
    found = {}
    gaps = [0, 1, 2, 10, 31, 32, 64, 99, 100, 101, 128, 255, 256, 500, 512, some.randrange(3, 990)]
    for near in {0, seed, seed + 1, seed + 2, seed + 10, (seed + 256) % 1000, (seed + 500) % 1000}:
        masking = Masking(ids, mask, None, near)
        epochs = sorted({min(999, one) for gap in gaps for one in (gap, 999 - gap)})
        for epoch, numbers in zip(epochs, seen.drawn(masking, epochs, ids), strict=True):
            assert tuple(numbers) not in found, f"{(near, epoch)} and {found.get(tuple(numbers))}"
            found[tuple(numbers)] = (near, epoch)


@private(
    "7.4",
    tells=("some copies of one seed are the same masks as those of another seed, such as those of its last epochs."),
)
def copies_apart(Masking, lib):
    some, toy = draw(773), lib(toys)
    for seed in (0, some.randrange(2, 990)):
        ends = [0, 1, 2, 997, 998, 999]
        dynamic = expect.items(toy.noise_of(Masking, None, seed, ends), len(ends), "")
        for near in {max(0, seed - 1), seed + 1} - {seed}:
            for copies in (1, some.randint(2, 9), 1000):
                epochs = [0, 1, copies - 1, copies, 999]
                static = expect.items(toy.noise_of(Masking, copies, near, epochs), len(epochs), "")
                assert not any(one in dynamic for one in static), f"seeds {seed} and {near}, {copies} copies"


@private("7.4", tells="with more than ten copies, the masks do not take turns, or two copies have the same mask.")
def many_copies(Masking, lib):
    some, ids, mask = draw(771), torch.arange(12).reshape(3, 4), lib(toys).noise
    copies, seed = some.randint(11, 30), some.randrange(1000)
    masking = Masking(ids, mask, copies, seed)
    once, again = (seen.drawn(masking, range(first, first + copies), ids) for first in (0, copies))
    assert once == again, "they do not take turns"
    assert len({*map(tuple, once)}) == copies, "two copies are one"
    with tells("without a seed, the masks are not those of seed 0."):
        assert seen.drawn(Masking(ids, mask), [5], ids) == seen.drawn(Masking(ids, mask, None, 0), [5], ids), "others"


# 7.5


@private("7.5", tells="the pairs are wrong where only one document has two sentences, and another has a single one.")
def a_single_sentence(nsp_pairs, lib):
    documents, rng = seen.named_documents([2, 1]), lib(random).Random(draw(780).randrange(10**6))
    seen.paired(seen.pairs_of(nsp_pairs(documents, 400, rng), 400), documents)
    with tells("if no other document has a sentence, ValueError must be raised also where one pair is asked for."):
        for _ in range(20):
            expect.refuses(nsp_pairs, [documents[0], []], 1, rng, says="let through")


@private("7.5", tells=("the pairs are wrong if texts or whole documents repeat. Places in the list count, not texts."))
def repeated_texts(nsp_pairs, lib):
    make, some = lib(random).Random, draw(785)
    a, b, c, d, e = some.sample("abcdefghijklmnop", 5)
    documents, count = [[a, b, a, c, a, d], [e, e, e]], 4000
    found = Counter(seen.pairs_of(nsp_pairs(documents, count, make(some.randrange(10**6))), count))
    wanted = Counter()
    for one, other in ((0, 1), (1, 0)):
        for first, second in zip(documents[one], documents[one][1:], strict=False):
            wanted[first, second, 0] += 1 / 7 / 2
            for text in documents[other]:
                wanted[first, text, 1] += 1 / 7 / 2 / len(documents[other])
    for pair in {*found, *wanted}:
        expect.likely(found[pair], count, wanted[pair], f"{pair} is too often or rare", sigmas=7)
    single = {nsp_pairs(documents, 1, make(seed))[0][0] for seed in range(70)}
    assert len(single) > 2, "the first pair is always of the same sentence"
    twins = [[a, b], [a, b], [a, b]]
    assert len(nsp_pairs(twins, 50, make(some.randrange(10**6)))) == 50, "documents with the same texts"
    with tells(
        "as a random b, a text that the document of `a` has too never comes. It is a place of another document."
    ):
        shared = seen.pairs_of(nsp_pairs([[a, b], [b, c]], 400, make(some.randrange(10**6))), 400)
        assert (a, b, 1) in shared and (b, b, 1) in shared, "a text that both have is left out"
    with tells("where two documents are equal, the first sentence of one never comes as `a` with that of the other."):
        copied = seen.pairs_of(nsp_pairs([[a, b], [a, b], [c, d]], 400, make(some.randrange(10**6))), 400)
        assert (a, a, 1) in copied, "a copy of the document is another document"


@private(
    "7.5",
    tells=(
        "sentences are drawn without replacement. Each pair should be drawn independently, "
        "so a sentence may come twice."
    ),
)
def drawn_again(nsp_pairs, lib):
    """30 draws among 30 sentences, and about 15 among those of other documents: right answers repeat some."""
    some, make = draw(786), lib(random).Random
    documents, calls = seen.named_documents([11, 11, 11]), list[list]()
    for _ in range(10):
        calls.append(seen.pairs_of(nsp_pairs(documents, 30, make(some.randrange(10**6))), 30))
    for which in (0, 1):
        drawn = [[pair[which] for pair in pairs if pair[2] == 1 or which == 0] for pairs in calls]
        assert any(len({*one}) < len(one) for one in drawn), "never twice"


@private(
    "7.5",
    tells=("if the documents allow no pairs with label 0, or none with label 1, `nsp_pairs` should raise ValueError."),
)
def no_pairs(nsp_pairs, lib):
    make = lib(random).Random
    with tells("without any document, `nsp_pairs` should raise ValueError: there is nothing to draw from."):
        expect.refuses(lambda: nsp_pairs([], 3, make(1)), says="no error")
    for wrong in ([[]], [["x"]], [["x"], ["y"], ["z"]], [[], ["x", "y", "z"], []], [["x", "y"]]):
        call = lambda wrong=wrong: nsp_pairs(wrong, 3, make(1))  # noqa: E731
        expect.refuses(call, says="no error")


# 7.6


@private("7.6", tells="`blanks_nll` is wrong where the product of the probabilities is too small for a float.")
def tiny_probabilities(blanks_nll):
    tiny = [{"u": 1e-200}] * 3
    seen.all_blanks(seen.blanks(blanks_nll(tiny, ["u"] * 3), tiny, ["u"] * 3))


masked = swept("7.6", seen.MASKED, without={"layout", "device"})
sums = swept("7.6", seen.BOTH)


@private("7.6", tells="the loss is wrong for other sizes or for rows without a label.")
def other_batches(masked_nll):
    some = draw(791)
    T = some.randint(3, 5)
    for place, (B, length, V) in enumerate(((T, T, T), (1, 1, 2), (some.randint(3, 5), some.randint(6, 9), 50))):
        logits = 3 * normal(B, length, V, seed=792 + place)
        labels = torch.randint(V, (B, length), generator=expect.generator(795 + place))
        hidden = torch.rand(B, length, generator=expect.generator(798 + place)) < 0.6
        hidden[0, 0] = False
        if B > 2:
            hidden[1] = True
        labels[hidden] = -100
        seen.all_rated(seen.rated(masked_nll, logits, labels))
    V = some.randint(3, 9)
    with tells("equal logits, if they are large, do not cost log V. Subtract the largest logit from all others first."):
        for size in (10.0 ** some.randint(8, 12), -1e20, 1e30):
            loss = masked_nll(torch.full((2, 3, V), size), torch.full((2, 3), some.randrange(V)))
            expect.close(loss.reshape(()), torch.tensor(V).float().log(), "not log V")
    labels = torch.full((2, 3), -100)
    labels[1, some.randrange(3)] = 0
    seen.all_rated(seen.rated(masked_nll, normal(2, 3, 4, seed=801), labels))


# 7.7


@private("7.7", tells="the head is wrong for other sizes or shapes.")
def other_heads(MLMHead, lib):
    some = draw(820)
    for place, shape in enumerate(((1, 1), (some.randint(2, 4), some.randint(2, 5)))):
        V, d = ((6, 6), (some.randint(20, 30), some.randint(5, 9)))[place]
        head, embedding, state = seen.new_head(MLMHead, lib, V, d, 830 + 10 * place)
        seen.heads_right(head, state, normal(*shape, d, seed=825 + place))
        count = lib(toys).numel_beyond(head, embedding)
        assert count == d * d + d + 2 * d + V, "other new parameters"


@private(
    "7.7", tells=("the head is wrong for many states or in double precision, or its logits depend on earlier calls.")
)
def long_and_exact(MLMHead, lib):
    some = draw(835)
    V, d, T = some.randint(9, 14), some.randint(5, 8), some.randint(1100, 1300)
    head, embedding, state = seen.new_head(MLMHead, lib, V, d, 836)
    short, other = normal(2, 3, d, seed=837), normal(2, 3, d, seed=838)
    with tells("a head's logits for other states of the same shape are wrong, or depend on earlier calls."):
        for x in (short, other, short):
            for mode in (True, False):
                head.train(mode)
                found = expect.floats(head(x), (*x.shape[:-1], V), "the logits")
                expect.close(found, seen.scored(state, x), "they are wrong")
    embedding.double()
    head.double()
    state = {name: value.double() for name, value in state.items()}
    # Of so many states a few are nearly alike, and a norm of theirs is nothing but rounding in single precision.
    for x in (short.double(), normal(1, T, d, seed=839).double()):
        with tells("with a head in double precision, the logits are not in double precision, or an error is raised."):
            exact = head(x)
            assert type(exact) is torch.Tensor and exact.dtype is torch.float64, "not in double precision"
        where = "for more than a thousand states" if x.size(1) > 3 else "in double precision"
        with tells(f"{where}, the logits are wrong, or less exact than the states."):
            expect.close(exact, seen.scored(state, x), "imprecise", 1e-9)


@private("7.7", tells="gradients are wrong, or one step of training leaves head and embedding apart.")
def stays_tied(MLMHead, lib):
    some = draw(840)
    V, d = some.randint(9, 14), some.randint(5, 8)
    head, embedding, state = seen.new_head(MLMHead, lib, V, d, 841)
    x, toy = normal(2, 3, d, seed=842), lib(toys)
    (slope,) = toy.gradients(head, [x])
    (wanted,) = toys.gradients(lambda x: seen.scored(state, x), [x])
    expect.close(slope, wanted, "the gradient of the states is wrong", 1e-3)
    with tells("in evaluation mode, the gradient of the logits for the embedding is wrong or missing."):
        head.eval()
        expect.close(toy.slope_of_table(head, x, embedding), seen.slope_of_scores(state, x), "no gradient", 1e-3)
    head.train()
    labels = torch.randint(3, (2, V), generator=expect.generator(843))  # the places are the classes
    toy.step_of_part(head, embedding, x, labels)
    moved = embedding.state_dict()["weight"]
    assert not torch.equal(moved, state["table"]), "the embedding does not learn from the head"
    expect.close(head(x), seen.scored(state | {"table": moved}, x), "the head has not followed", 1e-3)


@private("7.7", tells="if the embedding has a `padding_idx`, its row is wrong, or does not learn from the logits.")
def padded_table(MLMHead, lib):
    some = draw(845)
    V, d, toy = some.randint(9, 14), some.randint(5, 8), lib(toys)
    embedding = lib(nn).Embedding(V, d, padding_idx=some.randrange(V))
    head, table, x = MLMHead(embedding), normal(V, d, seed=846), normal(2, 3, d, seed=847)
    embedding.load_state_dict({"weight": table})
    state = seen.head_state(V, d, 848)
    head.load_state_dict(state, False)
    state["table"] = table
    expect.close(head(x), seen.scored(state, x), "the logits are wrong")
    expect.close(toy.slope_of_table(head, x, embedding), seen.slope_of_scores(state, x), "no gradient", 1e-3)


@private("7.7", tells="where no gradients are recorded, the logits do not follow a write into the embedding's `data`.")
def follows_every_write(MLMHead, lib):
    some = draw(849)
    V, d = some.randint(9, 14), some.randint(5, 8)
    head, embedding, state = seen.new_head(MLMHead, lib, V, d, 855)
    x, moved = normal(2, 3, d, seed=856), normal(V, d, seed=857)
    found = expect.items(lib(toys).around_a_write(head, embedding, moved, x), 4, "")
    for before, after in (found[:2], found[2:]):
        expect.close(before, seen.scored(state, x), "the logits are wrong")
        expect.close(after, seen.scored(state | {"table": moved}, x), "something is kept")


# 7.8


@private("7.8", tells="in a long text, the blanks are not filled correctly.")
def long_texts(fill_mask, lib):
    some = draw(851)
    sizes, seed = {"places": 300}, some.randrange(2**31)
    model, ours = (one.masked(seen.PIECES, sizes, seed) for one in (lib(tiny_bert), tiny_bert))
    words = some.choices(["the", "cats", "dog", "playing", "milk", "likes", "cup"], k=some.randint(130, 138))
    for place in (0, some.randint(20, 60), some.randint(70, 120), len(words)):
        words.insert(place, "[MASK]")
    seen.filled(fill_mask, lib, model, ours, seen.PIECES, " ".join(words), 3)


@private("7.8", tells="the pieces are wrong where two masks are next to each other, or where `k` is left out.")
def masks_side_by_side(fill_mask, lib):
    pieces, sizes, seed = [*seen.PIECES], {"d_model": 6, "dropout": 0.1}, draw(851).randrange(2**31)
    model, ours = lib(tiny_bert).masked(pieces, sizes, seed), tiny_bert.masked(pieces, sizes, seed)
    for text, k in (("dog [MASK] [MASK] milk", 3), ("[MASK] [MASK]", None)):
        seen.filled(fill_mask, lib, model, ours, pieces, text, k)


# 7.9


@private("7.9", tells="the groups are wrong for other models or rates, or where parts are frozen.")
def other_groups(decay_groups, lib):
    some, toy = draw(860), lib(toys)
    for width in (some.choice([4, 5, 7]), some.randint(2, 3), some.randint(15, 40)):
        model, rate = toy.sharing(some.randint(8, 12), width), some.uniform(0.02, 0.5)
        frozen = some.sample(range(1, 6), some.randint(0, 3))
        for place in frozen:
            model[place].requires_grad_(False)
        names = [f"{place}.{name}" for place in frozen for name in ("weight", "bias") if (place, name) != (3, "bias")]
        seen.spared(seen.groups_of(decay_groups, lib, model, rate), rate, names)
    model = toy.sharing(6, 4)
    model[0].requires_grad_(False)
    model.start.requires_grad_(False)
    seen.spared(seen.groups_of(decay_groups, lib, model, 0.1), 0.1, ["0.weight", "start"])
    found = seen.groups_of(decay_groups, lib, toy.layers(some.randint(60, 90), 2), 0.5)
    assert all(values == [0.5 * name.endswith("weight")] for name, values in found.items()), "of many layers"
    found = seen.groups_of(decay_groups, lib, toy.sharing(6, 4), 0.0)
    with tells("with a weight_decay of 0, some group has another decay."):
        assert all(values == [0.0] for values in found.values()), "a decay of 0"


@private("7.9", tells="tokens and epochs are wrong for other numbers.")
def other_steps(step_facts):
    some = draw(865)
    for _ in range(4):
        numbers = some.randint(2, 4000), some.randint(2, 600), some.randint(10, 10**6)
        seen.steps(step_facts, *numbers, some.randint(1000, 10**10))
    sequences, length, count = some.randint(2, 9), some.randint(2, 9), some.randint(10, 99)
    part = some.uniform(1e-5, 4e-5)  # of an epoch
    seen.steps(step_facts, sequences, length, count, int(sequences * length * count / part))


# 7.10


@private("7.10", tells="for other tables, the row or its gap is wrong.")
def other_rows(copier):
    some = draw(7101)
    for rows in (1, 3, 5, 7, 8):
        seen.copies_most(copier, seen.rows_of_losses(some, rows, seeds=12))


@private("7.10", tells="the answer is wrong where all losses at random tokens are below those at kept ones.")
def gaps_below_zero(copier):
    seen.copies_most(copier, {"near": [[2.0, 5.0, 4.5]], "far": [[2.0, 5.0, 1.0]], "between": [[2.0, 3.0, 2.0]]})
