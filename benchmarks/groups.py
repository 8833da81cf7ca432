"""How well `autograder group` finds the kinds of answers that are there: 200 made answers to question 1.W1, 8 kinds.

    python benchmarks/groups.py [--answers 200] [--seeds 5]

An answer is put together of what its kind says in one of several ways, with words exchanged for like ones, in changing
order, with sentences that every kind has (what was observed, how one begins and ends), parts left out, and typing
errors. `similarity.texts.WORDS` and `similarity.groups.JOINED` were chosen on the answers to another question,
CALIBRATION.
The last line is JSON: the adjusted Rand index (Hubert and Arabie 1985; 1 is the same grouping, 0 is chance), mean and
lowest over seeds, for `both` as the command compares, for `words` as it does without the encoder, and for the `encoder`
alone. Answers made of so few sentences share more words than people's would: that flatters `words`. Nothing is
downloaded.
"""

import argparse
import json
import os
import random
import re
import statistics
from collections.abc import Mapping

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from autograder.similarity import groups
from autograder.similarity.texts import WORDS, Encoder, TfIdf

Question = Mapping[str, tuple[tuple[str, ...], ...]]  # by kind: what is said, each in other words

SHARED = (  # an answer of any kind may begin or end so
    "I looked at the plots first.",
    "This surprised me.",
    "In my run the loss was nearly zero.",
    "The loss without the mask falls almost to nothing.",
    "The text that it writes is junk.",
    "What it generates makes no sense.",
    "The model with the mask has a higher loss.",
    "I compared the two models.",
    "That is my explanation.",
    "See the attention map above.",
)
MASK: Question = {
    "copies the next token": (
        (
            "Without the mask each position can look at the token on its right, which is exactly its target.",
            "The target of a position is the next input, and attention without a mask reads that input.",
            "It simply copies the following word, because nothing hides it.",
            "Every place sees the answer one step ahead and repeats it.",
            "The solution is part of the question: the next token is visible, so it is copied.",
        ),
        (
            "When it has to write there is nothing to the right that could be copied.",
            "At generation time the future does not exist, so copying gives nothing.",
            "While generating, the token that it would copy is not there yet.",
            "For writing it would need the next word before it has been written.",
        ),
    ),
    "memorised": (
        (
            "The model overfits: it has learnt the training set by heart.",
            "It memorised all training sentences instead of learning rules.",
            "This is a case of overfitting, the network is too large for so few sentences.",
            "It remembers the corpus word for word.",
        ),
        (
            "On new sentences it fails, since it only knows those it was trained on.",
            "More regularisation, like dropout, or more data would help.",
            "Early stopping would have prevented this.",
            "It does not generalise beyond the examples that it has stored.",
        ),
    ),
    "only for generation": (
        (
            "The mask is only needed when text is generated.",
            "One has to switch the mask on for generation; in training it does not matter.",
            "We forgot to use the mask while sampling.",
            "During training the mask makes no difference, it counts at inference.",
        ),
        (
            "If I put the mask in only while sampling, the text should be fine.",
            "So the trained weights are good and only the sampling code must be changed.",
            "Adding it afterwards, at inference, repairs the output.",
            "The training itself was right.",
        ),
    ),
    "softmax": (
        (
            "Without the mask the softmax spreads its weight over too many positions.",
            "The attention weights no longer sum to one over the allowed positions.",
            "The denominator of the softmax becomes larger, so that every weight is too small.",
            "The scores are not scaled properly when more entries take part in the softmax.",
        ),
        (
            "Therefore the gradients get too small or explode.",
            "This makes training numerically unstable.",
            "A smaller learning rate or another scaling factor would mend it.",
            "The numbers underflow and learning stops.",
        ),
    ),
    "order is lost": (
        (
            "Without a mask the model does not know the order of the words.",
            "It treats the sentence as a bag of words.",
            "Positions are mixed, so that first and last word are the same to it.",
            "The mask is what tells the model which word comes before which.",
        ),
        (
            "Hence the words come out in a random order.",
            "That is why the grammar is wrong: the words fit, their sequence does not.",
            "Positional encodings would be enough to repair this.",
            "The right words appear, but shuffled.",
        ),
    ),
    "errors add up": (
        (
            "In training it always gets the correct previous words, in writing its own ones.",
            "This is exposure bias: it was trained with teacher forcing.",
            "It never saw its own mistakes while it was trained.",
            "Training feeds the true history, generation feeds back samples.",
        ),
        (
            "One wrong word leads to the next, and the errors accumulate.",
            "A small mistake at the beginning grows with every step.",
            "After a few words it is somewhere that it has never been.",
            "Scheduled sampling would reduce this.",
        ),
    ),
    "both directions are good": (
        (
            "The model without the mask uses context from both sides, like BERT.",
            "Seeing left and right context gives a better understanding of language.",
            "Bidirectional attention is more powerful than looking back only.",
            "It is the better model since it has twice the context.",
        ),
        (
            "Its low loss shows that it understands the sentences better.",
            "So I would prefer the one without mask.",
            "The lower perplexity proves that it is the stronger language model.",
            "It should be used for all tasks.",
        ),
    ),
    "sampling": (
        (
            "The temperature of the sampling was too high.",
            "The bad text comes from random sampling of unlikely words.",
            "We should decode greedily or with beam search.",
            "Drawing from the whole distribution picks words out of the tail.",
        ),
        (
            "With top-k the output would be readable.",
            "Lowering the temperature gives sensible sentences.",
            "The model is fine, the way in which words are drawn is not.",
            "Another random seed may give good text.",
        ),
    ),
}
ONE_RUN: Question = {
    "seeds differ": (
        (
            "Another seed gives another accuracy, and the spread is larger than the difference.",
            "With only one run each we do not know how much of it is luck.",
            "The standard deviation over seeds is bigger than the gap between both methods.",
            "Repeating with new seeds could turn the order round.",
        ),
        (
            "I would run at least five seeds and give an interval.",
            "One should report mean and interval over several runs.",
            "Only with several seeds can it be tested.",
        ),
    ),
    "small validation set": (
        (
            "The validation set has very few examples.",
            "With 277 sentences one percent is less than three of them.",
            "So few test examples make the estimate rough.",
            "Other examples would give another number, since there are hardly any.",
        ),
        (
            "A larger test set is needed.",
            "A bootstrap over examples would show how uncertain it is.",
            "One should collect more labelled sentences.",
        ),
    ),
    "larger is better": (
        (
            "The second number is higher, so the second method is better.",
            "B wins because its accuracy is larger.",
            "Two percent more is clearly an improvement.",
            "The results speak for themselves, the higher one has won.",
        ),
        ("I would use it.", "So one should publish the second one.", "There is no need for more experiments."),
    ),
    "tuning": (
        (
            "The hyperparameters were not tuned equally for both.",
            "One method had more trials for its learning rate.",
            "The baseline was run with default settings only.",
            "It is unfair if one side is tuned and the other one is not.",
        ),
        (
            "Both need the same budget of trials.",
            "A grid search for the baseline is missing.",
            "The same number of configurations should be tried.",
        ),
    ),
    "leak": (
        (
            "The best epoch was picked on the same data on which it is reported.",
            "They chose the checkpoint by its test accuracy.",
            "Selecting on the validation set and reporting there is too optimistic.",
            "The test data was used to choose the model.",
        ),
        (
            "A third, untouched set is needed.",
            "The choice must be made on other data.",
            "Selection and report need different splits.",
        ),
    ),
    "task": (
        (
            "One data set says nothing about other tasks.",
            "It might be better on RTE and worse elsewhere.",
            "They looked at one language and one domain.",
            "On another corpus the result could be the opposite.",
        ),
        (
            "More tasks of GLUE should be tried.",
            "I would test on several data sets.",
            "Only a suite of different tasks can show it.",
        ),
    ),
}
CALIBRATION = ONE_RUN
SAME = (  # words that one writer takes for the other
    ("model", "network", "transformer", "net"),
    ("word", "token"),
    ("words", "tokens"),
    ("sentences", "texts", "examples"),
    ("training", "learning", "fitting"),
    ("mask", "causal mask", "triangular mask"),
    ("copied", "repeated", "passed on"),
    ("copy", "repeat"),
    ("generation", "writing", "inference"),
    ("generated", "written"),
    ("sampling", "drawing", "decoding"),
    ("loss", "error", "cross-entropy"),
    ("accuracy", "score", "result"),
    ("seed", "random seed", "initialisation"),
    ("seeds", "random seeds", "initialisations"),
    ("runs", "repetitions", "trainings"),
    ("data", "examples"),
    ("better", "superior", "stronger"),
    ("method", "approach", "system"),
    ("test", "held-out"),
    ("future", "later part"),
    ("context", "surroundings"),
    ("weights", "parameters"),
    ("large", "big"),
    ("higher", "larger", "greater"),
    ("mistake", "slip", "wrong choice"),
    ("set", "split"),
    ("understanding", "comprehension"),
    ("position", "place", "index"),
)


def made(question: Question, count: int, seed: int) -> tuple[list[str], list[int]]:
    """So many answers to a question, as many of each kind, and the kind of each."""
    draw = random.Random(seed)
    texts, kinds = [], []
    for number in range(count):
        kind = number % len(question)
        said = [draw.choice(words) for words in list(question.values())[kind]]
        if draw.random() < 0.25:
            said = said[:1]
        if draw.random() < 0.25:
            said.reverse()
        for _ in range(draw.choice((0, 1, 1, 2))):
            said.insert(draw.choice((0, len(said))), draw.choice(SHARED))
        texts.append(_typed(" ".join(said), draw))
        kinds.append(kind)
    order = list(range(count))
    draw.shuffle(order)
    return [texts[place] for place in order], [kinds[place] for place in order]


def _typed(text: str, draw: random.Random) -> str:
    """A text as somebody types it: some letters change places, some write all in small letters."""
    for alike in SAME:
        for word in alike:

            def another(found: re.Match[str], alike: tuple[str, ...] = alike) -> str:
                return f"\0{draw.choice((found[0], *alike))}\0"

            text = re.sub(rf"(?<!\0)\b{word}\b(?!\0)", another, text, count=1)
    letters = list(text.replace("\0", ""))
    for place in range(len(letters) - 1):
        if draw.random() < 0.008:
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
    return "".join(letters).lower() if draw.random() < 0.2 else "".join(letters)


def measured(question: Question, count: int, seeds: int, encoder: Encoder) -> dict[str, list[tuple[float, int]]]:
    """By what is compared: for each seed the adjusted Rand index of the groups, and how many they are."""
    from sklearn.metrics import adjusted_rand_score

    found: dict[str, list[tuple[float, int]]] = {name: [] for name in ("both", "words", "encoder")}
    for seed in range(seeds):
        answers, kinds = made(question, count, seed)
        meanings, words = encoder.meanings(answers), TfIdf().vectors(answers)
        for name, vectors in (("both", np.hstack([meanings, WORDS * words])), ("words", words), ("encoder", meanings)):
            of = groups.labels(vectors)
            found[name].append((float(adjusted_rand_score(kinds, of)), len({*of})))
    return found


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--answers", type=int, default=200)
    ask.add_argument("--seeds", type=int, default=5)
    given = ask.parse_args()
    encoder = Encoder()
    answer: dict[str, object] = {"answers": given.answers, "kinds": len(MASK)}
    for title, question in (("calibration", CALIBRATION), ("test", MASK)):
        for name, found in measured(question, given.answers, given.seeds, encoder).items():
            for seed, (index, number) in enumerate(found):
                print(f"{title}, {name}, seed {seed}: adjusted Rand index {index:.3f}, {number} groups", flush=True)
            scores = [index for index, _ in found]
            answer[f"{title}_{name}"] = {"mean": round(statistics.fmean(scores), 3), "lowest": round(min(scores), 3)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
