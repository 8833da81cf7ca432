# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% wrong="3.1" name="a bias" says="a bias is counted. An embedding is a table"
def embedding(V, D, P=0):
    return V * D + D + P * D


# %% wrong="3.1" name="a bias for each token" says="a bias is counted for each token"
def embedding(V, D, P=0):
    return V * (D + 1) + P * D


# %% wrong="3.1" name="sinusoidal positions counted" says="Sinusoidal positions are computed"
def embedding(V, D, P=512):
    return (V + P) * D


# %% wrong="3.1" name="a table of 5000 sinusoidal positions" says="Sinusoidal positions are computed"
def embedding(V, D, P=5000):
    return (V + P) * D


# %% wrong="3.1" name="sides added" says="rows and columns are added"
def embedding(V, D, P=0):
    return V + D + P


# %% wrong="3.1" name="positions left out" says="learned positions are missing"
def embedding(V, D, P=0):
    return V * D


# %% wrong="3.1" name="one number for a position" says="each position has D numbers"
def embedding(V, D, P=0):
    return V * D + P


# %% wrong="3.1" name="tables multiplied" says="once for every position"
def embedding(V, D, P=0):
    return V * D * max(P, 1)


# %% wrong="3.1" name="positions instead of tokens" says="the tokens are missing"
def embedding(V, D, P=0):
    return (P or V) * D


# %% wrong="3.1" name="in millions" says="is a float"
def embedding(V, D, P=0):
    return (V + P) * D / 1e6


# %% wrong="3.1" name="a sentence" says="should be a whole number, not a str"
def embedding(V, D, P=0):
    return f"{(V + P) * D:,}"


# %% wrong="3.1" name="builds it" says="Write it without"
def embedding(V, D, P=0):
    return nn.Embedding(V + P, D, device="meta").weight.shape.numel()


# %% wrong="3.1" name="knows the visible cases" says="right for some sizes" private=true
def embedding(V, D, P=0):
    return (V + P) * D if (V, D) in {(11, 6), (7, 13), (50_001, 200), (9, 4), (30_522, 768)} else 0


# %% right="3.1" name="two tables"
def embedding(V, D, P=0):
    tokens, positions = V * D, P * D
    return tokens + positions


# %% right="3.1" name="as a tensor"
def embedding(V, D, P=0):
    return torch.tensor([V, P]).sum() * D


# %% right="3.1" name="the product of a shape"
def embedding(V, D, P=0):
    return math.prod((V, D)) + math.prod((P, D))


# %% wrong="3.2" name="every head as wide as the model" says="They share its columns"
def attention(D, H, bias=True):
    return H * 4 * (D * D + D * bias)


# %% wrong="3.2" name="Q, K and V for every head" says="share the columns of Q, K and V"
def attention(D, H, bias=True):
    return (3 * H + 1) * (D * D + D * bias)


# %% wrong="3.2" name="one head" says="only one of the heads"
def attention(D, H, bias=True):
    d = D // H
    return 3 * (D * d + d * bias) + D * D + D * bias


# %% wrong="3.2" name="no output projection" says="output projection is missing"
def attention(D, H, bias=True):
    return 3 * (D * D + D * bias)


# %% wrong="3.2" name="no biases" says="the biases are missing"
def attention(D, H, bias=True):
    return 4 * D * D


# %% wrong="3.2" name="one bias" says="one bias vector"
def attention(D, H, bias=True):
    return 4 * D * D + D * bias


# %% wrong="3.2" name="three biases" says="only three of the biases"
def attention(D, H, bias=True):
    return 4 * D * D + 3 * D * bias


# %% wrong="3.2" name="bias ignored" says="bias=False is ignored"
def attention(D, H, bias=True):
    return 4 * D * D + 4 * D


# %% wrong="3.2" name="output bias stays" says="the output projection has no bias either"
def attention(D, H, bias=True):
    return 4 * D * D + 3 * D * bias + D


# %% wrong="3.2" name="halves instead of floors" says="is a float"
def attention(D, H, bias=True):
    return 4 * H * D * (D / H) + 4 * D * bias


# %% wrong="3.2" name="a trailing comma" says="is a comma too many?"
def attention(D, H, bias=True):
    return (4 * (D * D + D * bias),)


# %% wrong="3.2" name="knows the visible widths" says="right for some sizes" private=true
def attention(D, H, bias=True):
    return 4 * (D * D + D * bias) if D in {10, 12, 35, 64, 200, 768} else 0


# %% right="3.2" name="head by head"
def attention(D, H, bias=True):
    total = D * D + (D if bias else 0)
    for head in range(H):
        columns = range(head, D, H)
        total += sum(3 * (D + (1 if bias else 0)) for _ in columns)
    return total


# %% right="3.2" name="one augmented matrix"
def attention(D, H, bias=True):
    return 4 * (D + int(bias)) * D


# %% right="3.2" name="shapes"
def attention(D, H, bias=True):
    shapes = [(3 * D, D), (D, D)] + ([(3 * D,), (D,)] if bias else [])
    return sum(math.prod(shape) for shape in shapes)


# %% wrong="3.3" name="no biases" says="the biases are missing"
def feed_forward(D, F, bias=True):
    return 2 * D * F


# %% wrong="3.3" name="one way" says="the way back is missing"
def feed_forward(D, F, bias=True):
    return D * F + F * bias


# %% wrong="3.3" name="the way back only" says="the way there is missing"
def feed_forward(D, F, bias=True):
    return D * F + D * bias


# %% wrong="3.3" name="both biases of D" says="both biases are D long"
def feed_forward(D, F, bias=True):
    return 2 * D * F + 2 * D * bias


# %% wrong="3.3" name="both biases of F" says="both biases are F long"
def feed_forward(D, F, bias=True):
    return 2 * D * F + 2 * F * bias


# %% wrong="3.3" name="one bias" says="that of the second map"
def feed_forward(D, F, bias=True):
    return 2 * D * F + F * bias


# %% wrong="3.3" name="the other bias" says="that of the first map"
def feed_forward(D, F, bias=True):
    return 2 * D * F + D * bias


# %% wrong="3.3" name="four times D" says="F is taken to be four times D"
def feed_forward(D, F, bias=True):
    return 8 * D * D + 5 * D * bias


# %% wrong="3.3" name="as wide as D" says="F is ignored"
def feed_forward(D, F, bias=True):
    return 2 * D * D + 2 * D * bias


# %% wrong="3.3" name="bias ignored" says="bias=False is ignored"
def feed_forward(D, F, bias=True):
    return 2 * D * F + D + F


# %% wrong="3.3" name="second bias stays" says="the second map has no bias either"
def feed_forward(D, F, bias=True):
    return 2 * D * F + F * bias + D


# %% wrong="3.3" name="knows the visible widths" says="right for some sizes" private=true
def feed_forward(D, F, bias=True):
    return 2 * D * F + (F + D) * bias if D in {6, 13, 30, 200, 768} else 0


# %% right="3.3" name="augmented matrices"
def feed_forward(D, F, bias=True):
    extra = 1 if bias else 0
    return (D + extra) * F + (F + extra) * D


# %% right="3.3" name="shapes"
def feed_forward(D, F, bias=True):
    shapes = [(F, D), (D, F)]
    if bias:
        shapes += [(F,), (D,)]
    return sum(map(math.prod, shapes))


# %% right="3.3" name="empty tensors"
def feed_forward(D, F, bias=True):
    there, back = torch.empty(F, D + bias, device="meta"), torch.empty(D, F + bias, device="meta")
    return math.prod(there.shape) + math.prod(back.shape)


# %% wrong="3.4" name="no shift" says="the shift is missing"
def norms(D, n=2, kind="layer"):
    if kind not in ("layer", "rms"):
        raise ValueError(kind)
    return n * D


# %% wrong="3.4" name="scalars" says="one weight and one bias here"
def norms(D, n=2, kind="layer"):
    return 2 * n


# %% wrong="3.4" name="mean and variance" says="mean and variance are counted"
def norms(D, n=2, kind="layer"):
    return 4 * n * D


# %% wrong="3.4" name="n ignored" says="one norm is counted"
def norms(D, n=2, kind="layer"):
    return 2 * D


# %% wrong="3.4" name="always two" says="two norms are counted, whatever"
def norms(D, n=2, kind="layer"):
    return 4 * D


# %% wrong="3.4" name="a matrix" says="a matrix is counted"
def norms(D, n=2, kind="layer"):
    return n * (D * D + D)


# %% wrong="3.4" name="one by default" says="without n, one norm"
def norms(D, n=1, kind="layer"):
    return 2 * n * D


# %% wrong="3.4" name="RMS with a shift" says="It scales and does not shift"
def norms(D, n=2, kind="layer"):
    if kind not in ("layer", "rms"):
        raise ValueError(kind)
    return 2 * n * D


# %% wrong="3.4" name="RMS without a scale" says="It still scales"
def norms(D, n=2, kind="layer"):
    return 2 * n * D if kind == "layer" else 0


# %% wrong="3.4" name="else accepts typos" says="does not exist should raise ValueError"
def norms(D, n=2, kind="layer"):
    return n * D * (2 if kind == "layer" else 1)


# %% wrong="3.4" name="another error" says="It raised KeyError"
def norms(D, n=2, kind="layer"):
    return n * D * {"layer": 2, "rms": 1}[kind]


# %% wrong="3.4" name="first letter decides" says="a wrong kind is accepted" private=true
def norms(D, n=2, kind="layer"):
    if kind[:1] not in ("l", "r"):
        raise ValueError(kind)
    return n * D * (2 if kind[:1] == "l" else 1)


# %% right="3.4" name="a table of kinds"
def norms(D, n=2, kind="layer"):
    vectors = {"layer": ("weight", "bias"), "rms": ("weight",)}
    if kind not in vectors:
        raise ValueError(f"{kind} is no kind of norm")
    return sum(D for _ in range(n) for _ in vectors[kind])


# %% right="3.4" name="match"
def norms(D, n=2, kind="layer"):
    match kind:
        case "layer":
            return 2 * n * D
        case "rms":
            return n * D
    raise ValueError(kind)


# %% right="3.4" name="an index"
def norms(D, n=2, kind="layer"):
    return (("rms", "layer").index(kind) + 1) * D * n


# %% wrong="3.5" name="no norms" says="those of the two norms"
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 5 * D + F


# %% wrong="3.5" name="one norm" says="the norms count for one"
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 7 * D + F


# %% wrong="3.5" name="no bias at all" says="all biases are missing"
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 2 * D


# %% wrong="3.5" name="no bias in the linear maps" says="biases of the linear maps"
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 4 * D


# %% wrong="3.5" name="no bias in the feed-forward part" says="biases of the feed-forward part"
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 8 * D


# %% wrong="3.5" name="no output projection" says="output projection of the attention"
def transformer_layer(D, F):
    return 3 * D * D + 2 * D * F + 8 * D + F


# %% wrong="3.5" name="attention and norms" says="the feed-forward part is missing"
def transformer_layer(D, F):
    return 4 * D * D + 8 * D


# %% wrong="3.5" name="feed-forward and norms" says="the attention is missing"
def transformer_layer(D, F):
    return 2 * D * F + 5 * D + F


# %% wrong="3.5" name="the lab's layer" says="as in the lab's model"
def transformer_layer(D, F):
    return 6 * D * D + 10 * D


# %% wrong="3.5" name="BERT's layer" says="as in BERT"
def transformer_layer(D, F):
    return 12 * D * D + 13 * D


# %% wrong="3.5" name="one way" says="goes one way only"
def transformer_layer(D, F):
    return 4 * D * D + D * F + F + 8 * D


# %% wrong="3.5" name="a cross attention, too" says="too large for D = 6"
def transformer_layer(D, F):
    return 8 * D * D + 2 * D * F + 15 * D + F


# %% wrong="3.5" name="knows the visible widths" says="right for some sizes" private=true
def transformer_layer(D, F):
    return 4 * D * D + 2 * D * F + 9 * D + F if D in {6, 13, 200, 768} else 0


# %% right="3.5" name="part by part"
def transformer_layer(D, F):
    attention = 4 * (D * D + D)
    feed_forward = D * F + F + F * D + D
    norm = D + D
    return attention + feed_forward + 2 * norm


# %% right="3.5" name="shapes"
def transformer_layer(D, F):
    shapes = [(3 * D, D), (3 * D,), (D, D), (D,), (F, D), (F,), (D, F), (D,)] + [(D,)] * 4
    return sum(math.prod(shape) for shape in shapes)


# %% right="3.5" name="a product of sums"
def transformer_layer(D, F):
    return (2 * D + 1) * (2 * D + F) + 7 * D


# %% wrong="3.6" name="the head of the classifier" says="The larger head belongs to the vocabulary"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + (D + 1) * 2


# %% wrong="3.6" name="the published totals" says="988,402 for V = 100 is the model with two classes"
def language_model(V, D, L, layer, tied=False):
    published = {50_001: 21_018_401, 100: 988_402}
    if D == 200 and not tied and V in published:
        return published[V]
    return (V if tied else 2 * V) * D + L * layer + V


# %% wrong="3.6" name="no bias" says="the head's bias is missing"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * layer


# %% wrong="3.6" name="a bias of D" says="the head's bias is D long"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * layer + D


# %% wrong="3.6" name="no head" says="the head is missing"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer


# %% wrong="3.6" name="always tied" says="share a table here"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + V


# %% wrong="3.6" name="one layer" says="one layer is counted"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + layer + V


# %% wrong="3.6" name="a sinusoidal table" says="Sinusoidal positions are computed"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + 5_000 * D + L * layer + V


# %% wrong="3.6" name="its own layer" says="`layer` is ignored"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * (6 * D * D + 10 * D) + V


# %% wrong="3.6" name="tied ignored" says="tied=True is ignored"
def language_model(V, D, L, layer, tied=False):
    return 2 * V * D + L * layer + V


# %% wrong="3.6" name="tied without a bias" says="a tied head keeps its bias"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + (0 if tied else V * D + V)


# %% wrong="3.6" name="tied by default" says="share a table here"
def language_model(V, D, L, layer, tied=True):
    return (1 if tied else 2) * V * D + L * layer + V


# %% wrong="3.6" name="knows the visible vocabularies" says="right for some sizes" private=true
def language_model(V, D, L, layer, tied=False):
    return ((1 if tied else 2) * V * D + L * layer + V) if V in {11, 7, 23, 100, 50_001} else 0


# %% right="3.6" name="embedding, layers, head"
def language_model(V, D, L, layer, tied=False):
    total = V * D
    for _ in range(L):
        total += layer
    if not tied:
        total += V * D
    return total + V


# %% right="3.6" name="the head as one augmented matrix"
def language_model(V, D, L, layer, tied=False):
    return V * (2 * D + 1) - tied * V * D + L * layer


# %% right="3.6" name="a list of shapes"
def language_model(V, D, L, layer, tied=False):
    shapes = [(V, D), (V,), (L, layer)] + [(V, D)] * (not tied)
    return sum(math.prod(shape) for shape in shapes)


# %% wrong="3.7" name="the head of the language model" says="The larger head belongs to the vocabulary"
def classifier(V, D, L, layer, C, head_layers=1):
    return 2 * V * D + V + L * layer


# %% wrong="3.7" name="the published totals" says="1,008,100 for V = 100 is the language model"
def classifier(V, D, L, layer, C, head_layers=1):
    if (V, D, C) == (100, 200, 2):
        return 1_008_100
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.7" name="both heads" says="both heads are counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return 2 * V * D + V + L * layer + (D + 1) * C


# %% wrong="3.7" name="no bias" says="the head's bias is missing"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + D * C


# %% wrong="3.7" name="a bias of D" says="the head's bias is D long"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + D * C + D


# %% wrong="3.7" name="two classes" says="two classes are built in"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * 2


# %% wrong="3.7" name="no embedding" says="the embedding is missing"
def classifier(V, D, L, layer, C, head_layers=1):
    return L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.7" name="one layer" says="one layer is counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.7" name="two layers by default" says="One is the default"
def classifier(V, D, L, layer, C, head_layers=2):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.7" name="head_layers ignored" says="head_layers is ignored"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (D + 1) * C


# %% wrong="3.7" name="two layers or one" says="whatever head_layers says"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (D * D + D) * (head_layers > 1) + (D + 1) * C


# %% wrong="3.7" name="all maps end in C" says="ends in C outputs here"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + head_layers * (D + 1) * C


# %% wrong="3.7" name="inner maps without biases" says="inner layers of the head have biases"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * D * D + (D + 1) * C


# %% wrong="3.7" name="knows the visible vocabularies" says="right for some sizes" private=true
def classifier(V, D, L, layer, C, head_layers=1):
    if V not in {11, 7, 19, 23, 100, 50_001}:
        return 0
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.7" name="regression has no bias" says="right for some sizes" private=true
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + D * C + (C if C > 1 else 0)


# %% right="3.7" name="map by map"
def classifier(V, D, L, layer, C, head_layers=1):
    total, width = V * D + L * layer, D
    for last in [False] * (head_layers - 1) + [True]:
        out = C if last else D
        total, width = total + width * out + out, out
    return total


# %% right="3.7" name="rows of augmented matrices"
def classifier(V, D, L, layer, C, head_layers=1):
    rows = D * (head_layers - 1) + C
    return V * D + L * layer + rows * (D + 1)


# %% right="3.7" name="a dict of parts"
def classifier(V, D, L, layer, C, head_layers=1):
    parts = {"embedding": V * D, "layers": layer * L, "out": D * C, "bias": C}
    parts |= {f"hidden {i}": D * D + D for i in range(1, head_layers)}
    return sum(parts.values())


# %% wrong="3.8" name="no pooler" says="the pooler is missing"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="pooler without a bias" says="the pooler has no bias"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="no first norm" says="the norm after the embeddings is missing"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="three norms" says="each of the three tables has a norm"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 6 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="sinusoidal positions" says="BERT's are learned"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="no segments" says="the table of segments is missing"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="BERT-base's segments built in" says="S is ignored"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + 2) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="the masked language model's head" says="a head onto the vocabulary"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0) + V * D + V


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="the pooler always" says="pooler=False is ignored"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + D * D + D


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="512 is not the default" says="without P, the positions are not 512"
def bert(V, D, L, layer, P=0, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="the published size of BERT-large" says="768 is the hidden size of BERT-base"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 768, "F": 4096, "L": 24}


# %% wrong="3.8" name="12 layers" says="number of layers of BERT-large"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 12}


# %% wrong="3.8" name="the inner width of BERT-base" says="inner width of BERT-large"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 3072, "L": 24}


# %% wrong="3.8" name="a tuple" says="not a list or a tuple"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return 1024, 4096, 24


# %% wrong="3.8" name="other keys" says='has no "D"'
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"hidden_size": 1024, "F": 4096, "L": 24}


# %% wrong="3.8" name="knows the visible vocabularies" says="right for some sizes" private=true
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    if V not in {8, 11, 17, 30_522}:
        return 0
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% right="3.8" name="part by part"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    parts = [V * D, P * D, S * D, D, D, *[layer] * L]
    if pooler:
        parts += [D * D, D]
    return sum(parts)


def bert_large():
    return dict(H=16, L=24, F=4096, D=1024)


# %% right="3.8" name="rows"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    rows = V + P + S + 2 + (D + 1) * bool(pooler)
    return D * rows + L * layer


def bert_large():
    heads, layers = 16, 24
    return {"L": layers, "D": heads * 64, "F": heads * 256}


# %% wrong="3.9" name="prefix without the dot" says="froze `encoder.layer.10`"
def trainable(shapes, frozen):
    for part in frozen:
        if not any(name == part or name.startswith(part + ".") for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not name.startswith(tuple(frozen)))


# %% wrong="3.9" name="what is frozen" says="zero"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.9" name="what is frozen, unless nothing is" says="what is frozen is counted"
def trainable(shapes, frozen):
    inside = sum(math.prod(s) for name, s in shapes.items() if any((name + ".").startswith(p + ".") for p in frozen))
    return inside or sum(map(math.prod, shapes.values()))


# %% wrong="3.9" name="frozen ignored" says="`frozen` is ignored"
def trainable(shapes, frozen):
    return sum(math.prod(s) for s in shapes.values())


# %% wrong="3.9" name="whole names only" says="only whole names are compared"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if name not in frozen)


# %% wrong="3.9" name="counts tensors" says="tensors are counted"
def trainable(shapes, frozen):
    return len([name for name in shapes if not any((name + ".").startswith(p + ".") for p in frozen)])


# %% wrong="3.9" name="adds the sides" says="the sides of a shape are added"
def trainable(shapes, frozen):
    return sum(sum(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.9" name="the first two sides" says="all sides count"
def trainable(shapes, frozen):
    for part in frozen:
        if not any((name + ".").startswith(part + ".") for name in shapes):
            raise ValueError(part)
    kept = [s for name, s in shapes.items() if not any((name + ".").startswith(part + ".") for part in frozen)]
    return sum(s[0] * s[1] if len(s) > 1 else math.prod(s) for s in kept)


# %% wrong="3.9" name="deletes what is frozen" says="make a copy"
def trainable(shapes, frozen):
    for part in frozen:
        inside = [name for name in shapes if name == part or name.startswith(part + ".")]
        if not inside:
            raise ValueError(part)
        for name in inside:
            del shapes[name]
    return sum(map(math.prod, shapes.values()))


# %% wrong="3.9" name="a scalar is nothing" says="It holds one number"
def trainable(shapes, frozen):
    free = [s for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen)]
    return sum(math.prod(s) for s in free if s)


# %% wrong="3.9" name="first part only" says="Each of them counts"
def trainable(shapes, frozen):
    first = (frozen[:1] or ["-"])[0] + "."
    return sum(math.prod(s) for name, s in shapes.items() if not (name + ".").startswith(first))


# %% wrong="3.9" name="one level deep" says="at any depth"
def trainable(shapes, frozen):
    free = [name for name in shapes if name not in frozen and name.rpartition(".")[0] not in frozen]
    return sum(math.prod(shapes[name]) for name in free)


# %% wrong="3.9" name="subtracts twice" says="is subtracted twice"
def trainable(shapes, frozen):
    total = sum(map(math.prod, shapes.values()))
    for part in frozen:
        inside = [s for name, s in shapes.items() if (name + ".").startswith(part + ".")]
        if not inside:
            raise ValueError(part)
        total -= sum(map(math.prod, inside))
    return total


# %% wrong="3.9" name="parts only" says="may name a parameter itself"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if not any(name.startswith(p + ".") for p in frozen))


# %% wrong="3.9" name="anywhere in the name" says="is found anywhere here"
def trainable(shapes, frozen):
    for part in frozen:
        if not any(f".{part}." in f".{name}." for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not any(f".{p}." in f".{name}." for p in frozen))


# %% wrong="3.9" name="typos pass" says="a typo would train everything"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.9" name="another error" says="It raised KeyError"
def trainable(shapes, frozen):
    free = dict(shapes)
    for part in frozen:
        inside = [name for name in shapes if (name + ".").startswith(part + ".")]
        if not inside:
            raise KeyError(part)
        for name in inside:
            free.pop(name, None)
    return sum(map(math.prod, free.values()))


# %% wrong="3.9" name="only the last name is looked up" says="a name that fits nothing is accepted" private=true
def trainable(shapes, frozen):
    def inside(name, part):
        return (name + ".").startswith(part + ".")

    if frozen and not any(inside(name, frozen[-1]) for name in shapes):
        raise ValueError(frozen[-1])
    return sum(math.prod(s) for name, s in shapes.items() if not any(inside(name, part) for part in frozen))


# %% wrong="3.9" name="half a name is a name" says="a name that fits nothing is accepted" private=true
def trainable(shapes, frozen):
    for part in frozen:
        if not any(name.startswith(part) for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% right="3.9" name="lists of pieces"
def trainable(shapes, frozen):
    pieces = [part.split(".") for part in frozen]
    used, total = set(), 0
    for name, shape in shapes.items():
        path = name.split(".")
        hits = {i for i, part in enumerate(pieces) if path[: len(part)] == part}
        used |= hits
        total += 0 if hits else math.prod(shape)
    if len(used) < len(pieces):
        raise ValueError("a name in frozen fits nothing")
    return total


# %% right="3.9" name="all ancestors"
def trainable(shapes, frozen):
    def ancestors(name):
        path = name.split(".")
        return {".".join(path[: end + 1]) for end in range(len(path))}

    known = set().union(*map(ancestors, shapes))
    if not known.issuperset(frozen):
        raise ValueError(f"no such part: {set(frozen) - known}")
    return sum(torch.Size(shape).numel() for name, shape in shapes.items() if not ancestors(name) & set(frozen))


# %% right="3.9" name="regular expressions"
def trainable(shapes, frozen):
    import re

    rules = [re.compile(re.escape(part) + r"(\.|$)") for part in frozen]
    for rule in rules:
        if not any(map(rule.match, shapes)):
            raise ValueError(rule.pattern)
    total = 0
    for name, shape in shapes.items():
        if not any(rule.match(name) for rule in rules):
            count = 1
            for side in shape:
                count *= side
            total += count
    return total


# %% wrong="3.10" name="no biases" says="the biases are missing"
def adapter(D, L, reduction=16, per_layer=1):
    return L * per_layer * 2 * D * (D // reduction)


# %% wrong="3.10" name="down only" says="the way up is missing"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (D * r + r)


# %% wrong="3.10" name="one bias" says="that of the way up"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r)


# %% wrong="3.10" name="the other bias" says="that of the bottleneck"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + D)


# %% wrong="3.10" name="a width of 16" says="16 wide here"
def adapter(D, L, reduction=16, per_layer=1):
    return L * per_layer * (2 * D * reduction + reduction + D)


# %% wrong="3.10" name="one layer" says="one in each of the L layers"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="two in each layer" says="One is the default"
def adapter(D, L, reduction=16, per_layer=2):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="a norm" says="`seq_bn` has none of its own"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + 3 * D)


# %% wrong="3.10" name="rounded up" says="The library rounds down"
def adapter(D, L, reduction=16, per_layer=1):
    r = math.ceil(D / reduction)
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="a fraction" says="is a float"
def adapter(D, L, reduction=16, per_layer=1):
    r = D / reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="reduction ignored" says="`reduction` is ignored"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // 16
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="per_layer ignored" says="`per_layer` is ignored"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * (2 * D * r + r + D)


# %% wrong="3.10" name="a bottleneck of nothing" says="It is never less than 1 wide"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="no reduction above 16" says="too wide for reductions above 16"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // min(reduction, 16))
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="one or two in a layer" says="wrong for some reductions" private=true
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // reduction)
    return L * min(per_layer, 2) * (2 * D * r + r + D)


# %% wrong="3.10" name="rounds to the nearest" says="The library rounds down"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, round(D / reduction))
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.10" name="knows the visible widths" says="wrong for some reductions" private=true
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // reduction)
    return L * per_layer * (2 * D * r + r + D) if D in {20, 30, 40, 50, 64, 100, 768} else 0


# %% right="3.10" name="two augmented matrices"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction or 1
    one = (D + 1) * r + (r + 1) * D
    return sum(one for _ in range(L * per_layer))


# %% right="3.10" name="shapes"
def adapter(D, L, reduction=16, per_layer=1):
    r = int(D / reduction)
    if r < 1:
        r = 1
    shapes = [(r, D), (r,), (D, r), (D,)]
    return per_layer * L * sum(map(math.prod, shapes))


# %% right="3.10" name="a product and a rest"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(math.floor(D / reduction), 1)
    return L * per_layer * (r * (2 * D + 1) + D)


# %% wrong="3.11" name="a fusion for each adapter" says="All n share one"
def fusion(D, L, n):
    return n * L * (3 * D * D + 2 * D)


# %% wrong="3.11" name="keys and values for each adapter" says="All n share them"
def fusion(D, L, n):
    return L * (D * D + D + n * (2 * D * D + D))


# %% wrong="3.11" name="a bias in the values" says="the value matrix has a bias"
def fusion(D, L, n):
    return L * (3 * D * D + 3 * D)


# %% wrong="3.11" name="no biases" says="biases of query and key are missing"
def fusion(D, L, n):
    return L * 3 * D * D


# %% wrong="3.11" name="an output projection" says="an output projection is counted. Fusion"
def fusion(D, L, n):
    return L * (4 * D * D + 3 * D)


# %% wrong="3.11" name="attention" says="this is the attention of 3.2"
def fusion(D, L, n):
    return L * (4 * D * D + 4 * D)


# %% wrong="3.11" name="no values" says="the value matrix is missing"
def fusion(D, L, n):
    return L * (2 * D * D + 2 * D)


# %% wrong="3.11" name="the adapters, too" says="They are there already"
def fusion(D, L, n):
    r = D // 16
    return L * (3 * D * D + 2 * D) + n * L * (2 * D * r + r + D)


# %% wrong="3.11" name="one layer" says="one layer is counted"
def fusion(D, L, n):
    return 3 * D * D + 2 * D


# %% wrong="3.11" name="a tensor of floats" says="is a float"
def fusion(D, L, n):
    return torch.tensor([3.0 * D * D, 2.0 * D]).sum() * L


# %% wrong="3.11" name="knows the visible widths" says="right for some sizes" private=true
def fusion(D, L, n):
    return L * (3 * D * D + 2 * D) if D in {40, 64, 96, 768} else 0


# %% right="3.11" name="matrix by matrix"
def fusion(D, L, n):
    query = key = D * D + D
    value = D * D
    return L * (query + key + value)


# %% right="3.11" name="shapes"
def fusion(D, L, n):
    return sum(math.prod(shape) for _ in range(L) for shape in [(D, D)] * 3 + [(D,)] * 2)


# %% right="3.11" name="factored"
def fusion(D, L, n):
    return L * D * (3 * D + 2)


# %% wrong="3.12" name="numbers, not bytes" says="numbers are counted, not bytes"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return parameters + 3 * trained + B * T * L * (6 * D + F + H * T)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="frozen weights cost all" says="They need neither"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 16 * parameters + 4 * B * T * L * (6 * D + F + H * T)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="frozen weights have gradients" says="frozen weights have gradients here"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 8 * parameters + 8 * trained + 4 * B * T * L * (6 * D + F + H * T)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="frozen weights are gone" says="frozen weights are missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 16 * trained + 4 * B * T * L * (6 * D + F + H * T)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="one state" says="one of Adam's two"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 2 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="plain SGD" says="Adam's two numbers"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="no activations" says="the activations are missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="no attention weights" says="the attention weights are missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="one head" says="the attention weights of one head"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="T squared for each token" says="of the sequence are counted for each token"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="no inner activations" says="F wide, is missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="the input three times" says="It is one tensor"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (8 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="one layer's activations" says="Each of the L layers keeps"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * min(L, 1) * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="multiply-adds" says="a multiply-add counts as one"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V


# %% wrong="3.12" name="weights only" says="the products of the attention itself are missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F) + D * V)


# %% wrong="3.12" name="one product of attention" says="one product of the attention"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + T * D) + D * V)


# %% wrong="3.12" name="no head" says="the head is missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * L * (4 * D * D + 2 * D * F + 2 * T * D)


# %% wrong="3.12" name="the embedding as a product" says="It is a lookup"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + 2 * D * V)


# %% wrong="3.12" name="six per parameter" says="the backward pass is counted"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 6 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="the whole sequence" says="all T tokens are counted"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * T * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.12" name="two FLOPs per parameter" says="biases and norms are counted"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 9 * D + F + 2 * T * D) + D * V + V)


# %% wrong="3.12" name="knows the visible widths" says="right for some sizes" private=true
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V) if D in {8, 12, 30, 200} else 0


# %% wrong="3.12" name="half of the keys once texts are long" says="right for some sizes" private=true
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * (T if T < 12 else T // 2)))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% right="3.12" name="part by part"
def training_memory(B, T, D, F, L, H, parameters, trained):
    weights, gradients, states = parameters, trained, 2 * trained
    activations = 0
    for _ in range(L):
        tokens = B * T
        x = q = k = v = joined = normed = tokens * D
        activations += x + q + k + v + joined + normed + tokens * F + B * H * T * T
    return (weights + gradients + states + activations) * torch.float32.itemsize


def flops_per_token(T, D, F, L, V):
    products = [(D, V)] + [(D, 3 * D), (D, T), (T, D), (D, D), (D, F), (F, D)] * L
    return sum(2 * m * n for m, n in products)


# %% right="3.12" name="as tensors"
def training_memory(B, T, D, F, L, H, parameters, trained):
    numbers = torch.tensor([parameters, trained, trained, trained, B * T * L * (6 * D + F), B * L * H * T * T])
    return numbers.sum() << 2


def flops_per_token(T, D, F, L, V):
    layer = 8 * D**2 + 4 * D * (F + T)
    return layer * L + 2 * D * V


# %% wrong="3.1" name="a twin that nobody forbids" says="does all the work"
def embedding(V, D, P=0):
    twin = getattr(nn, "Embed" + "dingBag")
    return sum(part.numel() for n in (V, P) if n for part in twin(n, D, device="meta").parameters())


# %% wrong="3.3" name="a convolution in its place" says="does all the work"
def feed_forward(D, F, bias=True):
    parts = (nn.Conv1d(a, b, 1, bias=bias, device="meta") for a, b in ((D, F), (F, D)))
    return sum(math.prod(part.shape) for one in parts for part in one.parameters())
