# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% wrong="3.1" name="a bias" says="as of a bias or of one more row"
# - return (V + P) * D
# + return V * D + D + P * D

# %% wrong="3.1" name="a bias for each token" says="a bias is counted for each token"
# - return (V + P) * D
# + return V * (D + 1) + P * D

# %% wrong="3.1" name="sinusoidal positions counted" says="Sinusoidal positions are computed"
# - def embedding(V, D, P=0):
# + def embedding(V, D, P=512):

# %% wrong="3.1" name="a table of 5000 sinusoidal positions" says="Sinusoidal positions are computed"
# - def embedding(V, D, P=0):
# + def embedding(V, D, P=5000):

# %% wrong="3.1" name="sides of a table added" says="rows and columns are added"
# - return (V + P) * D
# + return V + D + P

# %% wrong="3.1" name="positions left out" says="learned positions are missing"
# - return (V + P) * D
# + return V * D

# %% wrong="3.1" name="one number for a position" says="each position has D numbers"
# - return (V + P) * D
# + return V * D + P

# %% wrong="3.1" name="tables multiplied" says="once for every position"
# - return (V + P) * D
# + return V * D * max(P, 1)

# %% wrong="3.1" name="positions instead of tokens" says="the tokens are missing"
# - return (V + P) * D
# + return (P or V) * D

# %% wrong="3.1" name="in millions" says="is a float"
# - return (V + P) * D
# + return (V + P) * D / 1e6

# %% wrong="3.1" name="a sentence" says="should be a whole number, not a str"
# - return (V + P) * D
# + return f"{(V + P) * D:,}"

# %% wrong="3.1" name="builds it" says="Write it without"
# - return (V + P) * D
# + return nn.Embedding(V + P, D, device="meta").weight.shape.numel()

# %% wrong="3.1" name="a twin that nobody forbids" says="does all the work"
# - return (V + P) * D
# + twin = getattr(nn, "Embed" + "dingBag")
# + return sum(part.numel() for n in (V, P) if n for part in twin(n, D, device="meta").parameters())

# %% wrong="3.1" name="knows the visible tables" says="it is wrong for other" private=true
# - return (V + P) * D
# + return (V + P) * D if (V, D) in {(11, 6), (7, 13), (50_001, 200), (9, 4), (30_522, 768)} else 0

# %% wrong="3.1" name="no bias" says="the bias is missing"
# - return n * m + n * bias
# + return n * m

# %% wrong="3.1" name="a bias of the input" says="the bias is as long as the input. It should"
# - return n * m + n * bias
# + return n * m + m * bias

# %% wrong="3.1" name="one number of bias" says="the bias is one number. It should"
# - return n * m + n * bias
# + return n * m + bias

# %% wrong="3.1" name="two biases" says="two biases are counted"
# - return n * m + n * bias
# + return n * m + (n + m) * bias

# %% wrong="3.1" name="sides of a matrix added" says="rows and columns are added"
# - return n * m + n * bias
# + return n + m

# %% wrong="3.1" name="sides of a matrix added, and the bias" says="and then there is the bias"
# - return n * m + n * bias
# + return n + m + n * bias

# %% wrong="3.1" name="bias ignored" says="`bias=False` is ignored"
# - return n * m + n * bias
# + return n * m + n

# %% wrong="3.1" name="no bias by default" says="the bias is missing"
# - def linear(m, n, bias=True):
# + def linear(m, n, bias=False):

# %% wrong="3.1" name="a convolution in its place" says="does all the work"
# - return n * m + n * bias
# + one = nn.Conv1d(m, n, 1, bias=bias, device="meta")
# + return sum(math.prod(part.shape) for part in one.parameters())

# %% wrong="3.1" name="knows the visible maps" says="it is wrong for other" private=true
# - return n * m + n * bias
# + return n * m + n * bias if m in {6, 13, 30, 200, 768} else 0

# %% wrong="3.1" name="no shift" says="the shift is missing"
# - return D * (2 if kind == "layer" else 1)
# + return D

# %% wrong="3.1" name="scalars" says="one weight and one bias. Each column"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return 2

# %% wrong="3.1" name="mean and deviation" says="Mean and deviation are not learned"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return 4 * D if kind == "layer" else D

# %% wrong="3.1" name="a matrix and a bias" says="a matrix is counted"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return D * D + D

# %% wrong="3.1" name="RMS with a shift" says="It should have a scale alone"
# - return D * (2 if kind == "layer" else 1)
# + return 2 * D

# %% wrong="3.1" name="RMS without a scale" says="It still scales"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return 2 * D if kind == "layer" else 0

# %% wrong="3.1" name="RMS with one scale" says="It scales each column by its own"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return 2 * D if kind == "layer" else 1

# %% wrong="3.1" name="else accepts typos" says="does not exist should raise ValueError"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")

# %% wrong="3.1" name="another error" says="It raised KeyError"
# - if kind not in ("layer", "rms"):
# -     raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return D * {"layer": 2, "rms": 1}[kind]

# %% wrong="3.1" name="first letter decides" says="only looks like one of the two" private=true
# - if kind not in ("layer", "rms"):
# + if kind[:1] not in ("l", "r"):
#       raise ValueError(f"unknown kind of norm: {kind}")
# - return D * (2 if kind == "layer" else 1)
# + return D * (2 if kind[:1] == "l" else 1)

# %% right="3.1" name="two tables, sums, a table of kinds"
def embedding(V, D, P=0):
    tokens, positions = V * D, P * D
    return tokens + positions


def linear(m, n, bias=True):
    return sum(m + (1 if bias else 0) for _ in range(n))


def norm(D, kind="layer"):
    vectors = {"layer": ("weight", "bias"), "rms": ("weight",)}
    if kind not in vectors:
        raise ValueError(f"{kind} is not a kind of norm")
    return sum(D for _ in vectors[kind])


# %% right="3.1" name="as tensors, and match"
def embedding(V, D, P=0):
    return torch.tensor([V, P]).sum() * D


def linear(m, n, bias=True):
    return torch.tensor([n, n * bias]) @ torch.tensor([m, 1])


def norm(D, kind="layer"):
    match kind:
        case "layer":
            return 2 * D
        case "rms":
            return D
    raise ValueError(kind)


# %% right="3.1" name="products of shapes"
def embedding(V, D, P=0):
    return math.prod((V, D)) + math.prod((P, D))


def linear(m, n, bias=True):
    shapes = [(n, m)] + [(n,)] * bool(bias)
    return sum(map(math.prod, shapes))


def norm(D, kind="layer"):
    return (("rms", "layer").index(kind) + 1) * D


# %% wrong="3.2" name="every head as wide as the model" says="The heads share its columns"
# - return 4 * (D * D + D * bias)
# + return H * 4 * (D * D + D * bias)

# %% wrong="3.2" name="Q, K and V for every head" says="share the columns of Q, K and V"
# - return 4 * (D * D + D * bias)
# + return (3 * H + 1) * (D * D + D * bias)

# %% wrong="3.2" name="one head" says="only one of the heads"
# - return 4 * (D * D + D * bias)
# + d = D // H
# + return 3 * (D * d + d * bias) + D * D + D * bias

# %% wrong="3.2" name="attention without output projection" says="three maps are counted. There are four"
# - return 4 * (D * D + D * bias)
# + return 3 * (D * D + D * bias)

# %% wrong="3.2" name="attention without biases" says="the biases are missing"
# - return 4 * (D * D + D * bias)
# + return 4 * D * D

# %% wrong="3.2" name="one bias" says="one bias vector"
# - return 4 * (D * D + D * bias)
# + return 4 * D * D + D * bias

# %% wrong="3.2" name="three biases" says="only three of the biases"
# - return 4 * (D * D + D * bias)
# + return 4 * D * D + 3 * D * bias

# %% wrong="3.2" name="bias ignored" says="`bias=False` is ignored"
# - return 4 * (D * D + D * bias)
# + return 4 * D * D + 4 * D

# %% wrong="3.2" name="output bias stays" says="the output projection has no bias either"
# - return 4 * (D * D + D * bias)
# + return 4 * D * D + 3 * D * bias + D

# %% wrong="3.2" name="halves instead of floors" says="is a float"
# - return 4 * (D * D + D * bias)
# + return 4 * H * D * (D / H) + 4 * D * bias

# %% wrong="3.2" name="a trailing comma" says="what `attention` returns is a list or a tuple"
# - return 4 * (D * D + D * bias)
# + return (4 * (D * D + D * bias),)

# %% wrong="3.2" name="knows the visible attentions" says="it is wrong for other" private=true
# - return 4 * (D * D + D * bias)
# + return 4 * (D * D + D * bias) if D in {10, 12, 35, 64, 200, 768} else 0

# %% wrong="3.2" name="no norms" says="the count is 4D too small: the two norms or the biases of the attention are missing"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 5 * D + F

# %% wrong="3.2" name="one norm" says="2D too small, as with one norm"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 7 * D + F

# %% wrong="3.2" name="no bias at all" says="as if nothing had a bias"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 2 * D

# %% wrong="3.2" name="no bias in the linear maps" says="5D + F too small: the biases of the feed-forward part"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 4 * D

# %% wrong="3.2" name="no bias in the feed-forward part" says="biases of the feed-forward part"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 8 * D

# %% wrong="3.2" name="no output projection" says="three maps of the attention are counted"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 3 * D * D + 2 * D * F + 8 * D + F

# %% wrong="3.2" name="attention and norms" says="the feed-forward part is missing"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 8 * D

# %% wrong="3.2" name="feed-forward and norms" says="the attention is missing"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 2 * D * F + 5 * D + F

# %% wrong="3.2" name="the lab's layer" says="as in the lab's model"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 6 * D * D + 10 * D

# %% wrong="3.2" name="BERT's layer" says="as in BERT"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 12 * D * D + 13 * D

# %% wrong="3.2" name="one way" says="has one map only"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + D * F + F + 8 * D

# %% wrong="3.2" name="both inner biases of D" says="both biases of the feed-forward part are D long"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 10 * D

# %% wrong="3.2" name="both inner biases of F" says="both biases of the feed-forward part are F long"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 8 * D + 2 * F

# %% wrong="3.2" name="a cross attention too" says="too large, for D = 6"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 8 * D * D + 2 * D * F + 15 * D + F

# %% wrong="3.2" name="knows the visible layers" says="it is wrong for other" private=true
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 9 * D + F if D in {6, 13, 200, 768} else 0


# %% right="3.2" name="head by head, part by part"
def attention(D, H, bias=True):
    total = D * D + (D if bias else 0)
    for head in range(H):
        columns = range(head, D, H)
        total += sum(3 * (D + (1 if bias else 0)) for _ in columns)
    return total


def transformer_layer(D, F):
    feed_forward = D * F + F + F * D + D
    norm = D + D
    return attention(D, 1) + feed_forward + 2 * norm


# %% right="3.2" name="augmented matrices"
def attention(D, H, bias=True):
    return 4 * (D + int(bias)) * D


def transformer_layer(D, F):
    return (2 * D + 1) * (2 * D + F) + 7 * D


# %% right="3.2" name="shapes"
def attention(D, H, bias=True):
    shapes = [(3 * D, D), (D, D)] + ([(3 * D,), (D,)] if bias else [])
    return sum(math.prod(shape) for shape in shapes)


def transformer_layer(D, F):
    shapes = [(3 * D, D), (3 * D,), (D, D), (D,), (F, D), (F,), (D, F), (D,)] + [(D,)] * 4
    return sum(math.prod(shape) for shape in shapes)


# %% right="3.3" name="in short"
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads, {G} groups")
    return (2 * D + 2 * G * (D // H)) * (D + bias)


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    return 2 * B * T * L * G * (D // H) * bytes_per_number


# %% wrong="3.3" name="attention of 3.2 without biases" says="keys and values are as wide as queries"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return 4 * D * (D + bias)

# %% wrong="3.3" name="attention of 3.2" says="G is ignored, and biases are counted"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return 4 * D * D + 4 * D

# %% wrong="3.3" name="keys alone are shared" says="only one of keys and values is shared"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (3 * D + G * (D // H)) * (D + bias)

# %% wrong="3.3" name="the output map narrowed" says="queries or the output map are narrowed"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + d = D // H
# + return D * D + 2 * D * G * d + G * d * D + bias * (2 * D + 2 * G * d)

# %% wrong="3.3" name="all maps narrowed" says="all four maps are narrowed"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return 4 * G * (D // H) * (D + bias)

# %% wrong="3.3" name="heads as wide as the model" says="a head of keys is as wide as the model"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * D) * (D + bias)

# %% wrong="3.3" name="one head of keys and values" says="one head of keys and values is counted"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * (D // H)) * (D + bias)

# %% wrong="3.3" name="groups of G" says="the size of a group"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * (H // G) * (D // H)) * (D + bias)

# %% wrong="3.3" name="G columns" says="keys and values are G wide"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G) * (D + bias)

# %% wrong="3.3" name="no output map" says="one map from D to D is missing"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (D + 2 * G * (D // H)) * (D + bias)

# %% wrong="3.3" name="keys without values" says="keys or values are missing. Each has a map"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + G * (D // H)) * (D + bias)

# %% wrong="3.3" name="biases always" says="biases are counted. Without"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D // H)) * (D + 1)

# %% wrong="3.3" name="never a bias" says="`bias=True` is ignored"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D // H)) * D

# %% wrong="3.3" name="four biases of D" says="each bias is D long"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D // H)) * D + 4 * D * bias

# %% wrong="3.3" name="biases of queries and output" says="the biases of keys and values are missing"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D // H)) * D + 2 * D * bias

# %% wrong="3.3" name="no output bias" says="the bias of the output map"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D // H)) * D + bias * (D + 2 * G * (D // H))

# %% wrong="3.3" name="halves instead of floors" says="is a float"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * G * (D / H)) * (D + bias)


# %% wrong="3.3" of="in short" name="uneven heads" says="must raise ValueError: 6 heads cannot share 4 evenly"
# - if H % G:
# -     raise ValueError(f"{H} heads, {G} groups")


# %% wrong="3.3" of="in short" name="asserts" says="It raised AssertionError"
# - if H % G:
# -     raise ValueError(f"{H} heads, {G} groups")
# + assert H % G == 0


# %% wrong="3.3" of="in short" name="too many groups only" says="must raise ValueError: 6 heads cannot share 4 evenly"
# - if H % G:
# -     raise ValueError(f"{H} heads, {G} groups")
# + if G > H:
# +     raise ValueError(G)


# %% wrong="3.3" name="builds it" says="Write it without"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return sum(nn.Linear(D, n, bias, device="meta").weight.shape.numel() for n in (D, D)) + 2 * D * G * (D // H)


# %% wrong="3.3" of="in short" name="uneven heads with a bias" says="wherever H is not a multiple of G" private=true
# - if H % G:
# -     raise ValueError(f"{H} heads, {G} groups")
# + if not bias and H % G:
# +     raise ValueError(G)


# %% wrong="3.3" name="two groups at least" says="it is wrong for other" private=true
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + if D > 30 and G == 1:
# +     G = 2
# + return (2 * D + 2 * G * (D // H)) * (D + bias)


# %% wrong="3.3" of="in short" name="keys alone are kept" says="keys or values are missing: both are kept"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return B * T * L * G * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="numbers kept" says="numbers are counted, not bytes"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * G * (D // H)


# %% wrong="3.3" of="in short" name="numbers of keys" says="and numbers are counted, not bytes"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return B * T * L * G * (D // H)


# %% wrong="3.3" of="in short" name="two bytes for the two" says="`bytes_per_number` is ignored"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * G * (D // H) * 2


# %% wrong="3.3" of="in short" name="all heads are kept" says="all H heads are kept"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * D * bytes_per_number


# %% wrong="3.3" of="in short" name="one head is kept" says="one head is kept"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="kept as wide as the model" says="a head is as wide as the model"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * G * D * bytes_per_number


# %% wrong="3.3" of="in short" name="a group is kept" says="the size of a group"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * (H // G) * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="one layer is kept" says="one layer is counted"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * G * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="one text is kept" says="one text is counted"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * T * L * G * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="one token is kept" says="one token is counted"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * L * G * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="attention weights are kept" says="T times too large"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * T * L * G * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="queries are kept" says="queries are kept too"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return B * T * L * (H + 2 * G) * (D // H) * bytes_per_number


# %% wrong="3.3" of="in short" name="float32 by default" says="without `bytes_per_number` a number takes 4 bytes"
# - def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
# + def kv_cache(B, T, D, L, H, G, bytes_per_number=4):


# %% wrong="3.3" of="in short" name="a share of all heads" says="is a float"
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * B * T * L * D * bytes_per_number * (G / H)


# %% wrong="3.3" of="in short" name="two texts at least" says="with `B = 1`, the count is wrong" private=true
# - return 2 * B * T * L * G * (D // H) * bytes_per_number
# + return 2 * max(B, 2) * T * L * G * (D // H) * bytes_per_number


# %% right="3.3" name="map by map, tensor by tensor"
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads, {G} groups")
    inner = D // H * G
    return sum((D + (1 if bias else 0)) * outputs for outputs in (D, inner, inner, D))


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    keys = values = math.prod([B, G, T, D // H])
    return (keys + values) * L * bytes_per_number


# %% right="3.3" name="shares of the whole"
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads, {G} groups")
    whole = 4 * D * (D + bool(bias))
    return whole // 2 + whole * G // (2 * H)


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    return B * T * D * L * 2 * bytes_per_number * G // H


# %% right="3.3" name="shapes, and a loop"
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads, {G} groups")
    shapes = [(D, D), (D, D), (D * G // H, D), (D * G // H, D)]
    return sum(rows * columns + rows * bias for rows, columns in shapes)


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    total = 0
    for _ in range(L):
        for _ in range(G):
            total += B * T * (D // H + D // H)
    return total * bytes_per_number


# %% wrong="3.4" name="the head of the classifier" says="The language model's head is the larger one"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + (D + 1) * 2


# %% wrong="3.4" name="the published totals" says="the count 988,402 for V = 100 is that of the classifier"
def language_model(V, D, L, layer, tied=False):
    published = {50_001: 21_018_401, 100: 988_402}
    if D == 200 and not tied and V in published:
        return published[V]
    return (V if tied else 2 * V) * D + L * layer + V


# %% wrong="3.4" name="no bias" says="the head's bias is missing"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * layer


# %% wrong="3.4" name="a bias of D" says="the head's bias is D long"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * layer + D


# %% wrong="3.4" name="no head" says="the head is missing"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer


# %% wrong="3.4" name="always tied" says="only one table of V rows is counted"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + V


# %% wrong="3.4" name="one layer" says="one layer is counted"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + layer + V


# %% wrong="3.4" name="a sinusoidal table" says="Sinusoidal positions are computed"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + 5_000 * D + L * layer + V


# %% wrong="3.4" name="its own layer" says="`layer` is ignored"
def language_model(V, D, L, layer, tied=False):
    return (1 if tied else 2) * V * D + L * (6 * D * D + 10 * D) + V


# %% wrong="3.4" name="tied ignored" says="`tied=True` is ignored"
def language_model(V, D, L, layer, tied=False):
    return 2 * V * D + L * layer + V


# %% wrong="3.4" name="tied without a bias" says="a tied head keeps its bias"
def language_model(V, D, L, layer, tied=False):
    return V * D + L * layer + (0 if tied else V * D + V)


# %% wrong="3.4" name="tied by default" says="only one table of V rows is counted"
def language_model(V, D, L, layer, tied=True):
    return (1 if tied else 2) * V * D + L * layer + V


# %% wrong="3.4" name="knows the visible vocabularies" says="it is wrong for other" private=true
def language_model(V, D, L, layer, tied=False):
    return ((1 if tied else 2) * V * D + L * layer + V) if V in {11, 7, 23, 100, 50_001} else 0


# %% right="3.4" name="embedding, layers, head"
def language_model(V, D, L, layer, tied=False):
    total = V * D
    for _ in range(L):
        total += layer
    if not tied:
        total += V * D
    return total + V


# %% right="3.4" name="the head as one augmented matrix"
def language_model(V, D, L, layer, tied=False):
    return V * (2 * D + 1) - tied * V * D + L * layer


# %% right="3.4" name="a list of shapes"
def language_model(V, D, L, layer, tied=False):
    shapes = [(V, D), (V,), (L, layer)] + [(V, D)] * (not tied)
    return sum(math.prod(shape) for shape in shapes)


# %% wrong="3.5" name="the head of the language model" says="The language model's head is the larger one"
def classifier(V, D, L, layer, C, head_layers=1):
    return 2 * V * D + V + L * layer


# %% wrong="3.5" name="the published totals" says="the count 1,008,100 for V = 100 is that of the language model"
def classifier(V, D, L, layer, C, head_layers=1):
    if (V, D, C) == (100, 200, 2):
        return 1_008_100
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.5" name="both heads" says="both heads are counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return 2 * V * D + V + L * layer + (D + 1) * C


# %% wrong="3.5" name="no bias" says="the head's bias is missing"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + D * C


# %% wrong="3.5" name="a bias of D" says="the head's bias is D long"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + D * C + D


# %% wrong="3.5" name="two classes" says="two classes are built in"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * 2


# %% wrong="3.5" name="no embedding" says="the embedding is missing"
def classifier(V, D, L, layer, C, head_layers=1):
    return L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.5" name="one layer" says="one layer is counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.5" name="two layers by default" says="One is the default"
def classifier(V, D, L, layer, C, head_layers=2):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.5" name="head_layers ignored" says="`head_layers` is ignored"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (D + 1) * C


# %% wrong="3.5" name="two layers or one" says="with more than one layer, two are counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (D * D + D) * (head_layers > 1) + (D + 1) * C


# %% wrong="3.5" name="all maps end in C" says="each layer of the head ends in C outputs"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + head_layers * (D + 1) * C


# %% wrong="3.5" name="inner maps without biases" says="only the last layer of the head has a bias"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * D * D + (D + 1) * C


# %% wrong="3.5" name="knows the visible vocabularies" says="it is wrong for other inputs" private=true
def classifier(V, D, L, layer, C, head_layers=1):
    if V not in {11, 7, 19, 23, 100, 50_001}:
        return 0
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + (D + 1) * C


# %% wrong="3.5" name="regression has no bias" says="with `C = 1`, the count is wrong" private=true
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + (head_layers - 1) * (D * D + D) + D * C + (C if C > 1 else 0)


# %% right="3.5" name="map by map"
def classifier(V, D, L, layer, C, head_layers=1):
    total, width = V * D + L * layer, D
    for last in [False] * (head_layers - 1) + [True]:
        out = C if last else D
        total, width = total + width * out + out, out
    return total


# %% right="3.5" name="rows of augmented matrices"
def classifier(V, D, L, layer, C, head_layers=1):
    rows = D * (head_layers - 1) + C
    return V * D + L * layer + rows * (D + 1)


# %% right="3.5" name="a dict of parts"
def classifier(V, D, L, layer, C, head_layers=1):
    parts = {"embedding": V * D, "layers": layer * L, "out": D * C, "bias": C}
    parts |= {f"hidden {i}": D * D + D for i in range(1, head_layers)}
    return sum(parts.values())


# %% right="3.6" name="in short"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.6" of="in short" name="no pooler" says="the pooler is missing"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + 2 * D + L * layer


# %% wrong="3.6" of="in short" name="pooler without a bias" says="the pooler's bias, or"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + 2 * D + L * layer + (D * D if pooler else 0)


# %% wrong="3.6" of="in short" name="no first norm" says="The norm after the embeddings has 2D numbers"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + L * layer + (D * D + D if pooler else 0)


# %% wrong="3.6" of="in short" name="three norms" says="each of the three tables has a norm"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + 6 * D + L * layer + (D * D + D if pooler else 0)


# %% wrong="3.6" of="in short" name="sinusoidal positions" says="BERT's are learned"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


# %% wrong="3.6" of="in short" name="no segments" says="the table of segments is missing"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


# %% wrong="3.6" of="in short" name="BERT-base's segments built in" says="S is ignored"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + 2) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


# %% wrong="3.6" of="in short" name="the masked language model's head" says="a head onto the vocabulary"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0) + V * D + V


# %% wrong="3.6" of="in short" name="the pooler always" says="`pooler=False` is ignored"
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + return (V + P + S) * D + 2 * D + L * layer + D * D + D


# %% wrong="3.6" name="512 is not the default" says="without `P`, no position is counted"
def bert(V, D, L, layer, P=0, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 24}


# %% wrong="3.6" name="the published size of BERT-large" says="this hidden size, 768, is that of BERT-base"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 768, "F": 4096, "L": 24}


# %% wrong="3.6" name="12 layers" says="not the number of layers that the text gives"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 4096, "L": 12}


# %% wrong="3.6" name="the inner width of BERT-base" says="should be four times its"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"D": 1024, "F": 3072, "L": 24}


# %% wrong="3.6" name="a tuple" says="not a list or a tuple"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return 1024, 4096, 24


# %% wrong="3.6" name="other keys" says='has no "D"'
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


def bert_large():
    return {"hidden_size": 1024, "F": 4096, "L": 24}


# %% wrong="3.6" of="in short" name="knows the visible vocabularies" says="it is wrong for other" private=true
# - return (V + P + S) * D + 2 * D + L * layer + pooler * (D * D + D)
# + if V not in {8, 11, 17, 30_522}:
# +     return 0
# + return (V + P + S) * D + 2 * D + L * layer + (D * D + D if pooler else 0)


# %% right="3.6" name="part by part"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    parts = [V * D, P * D, S * D, D, D, *[layer] * L]
    if pooler:
        parts += [D * D, D]
    return sum(parts)


def bert_large():
    return dict(H=16, L=24, F=4096, D=1024)


# %% right="3.6" name="rows"
def bert(V, D, L, layer, P=512, S=2, pooler=True):
    rows = V + P + S + 2 + (D + 1) * bool(pooler)
    return D * rows + L * layer


def bert_large():
    heads, layers = 16, 24
    return {"L": layers, "D": heads * 64, "F": heads * 256}


# %% wrong="3.7" name="names of parts alone" says="A name in `frozen` is that of a part or of a parameter"
def trainable(shapes, frozen):
    def inside(name, part):
        return name.startswith(part + ".")

    for part in frozen:
        if not any(inside(name, part) for name in shapes):
            raise ValueError(f"{part} fits no parameter")
    return sum(math.prod(shape) for name, shape in shapes.items() if not any(inside(name, part) for part in frozen))


# %% wrong="3.7" name="prefix without the dot" says="froze `encoder.layer.10`"
def trainable(shapes, frozen):
    for part in frozen:
        if not any(name == part or name.startswith(part + ".") for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not name.startswith(tuple(frozen)))


# %% wrong="3.7" name="what is frozen" says="zero"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.7" name="what is frozen, unless nothing is" says="what is frozen is counted"
def trainable(shapes, frozen):
    inside = sum(math.prod(s) for name, s in shapes.items() if any((name + ".").startswith(p + ".") for p in frozen))
    return inside or sum(map(math.prod, shapes.values()))


# %% wrong="3.7" name="frozen ignored" says="nothing is frozen"
def trainable(shapes, frozen):
    return sum(math.prod(s) for s in shapes.values())


# %% wrong="3.7" name="whole names only" says="A part's name stands for all parameters in it"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if name not in frozen)


# %% wrong="3.7" name="counts tensors" says="tensors are counted"
def trainable(shapes, frozen):
    return len([name for name in shapes if not any((name + ".").startswith(p + ".") for p in frozen)])


# %% wrong="3.7" name="adds the sides" says="the sides of a shape are added"
def trainable(shapes, frozen):
    return sum(sum(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.7" name="the first two sides" says="all sides count"
def trainable(shapes, frozen):
    for part in frozen:
        if not any((name + ".").startswith(part + ".") for name in shapes):
            raise ValueError(part)
    kept = [s for name, s in shapes.items() if not any((name + ".").startswith(part + ".") for part in frozen)]
    return sum(s[0] * s[1] if len(s) > 1 else math.prod(s) for s in kept)


# %% wrong="3.7" name="deletes what is frozen" says="make a copy"
def trainable(shapes, frozen):
    for part in frozen:
        inside = [name for name in shapes if name == part or name.startswith(part + ".")]
        if not inside:
            raise ValueError(part)
        for name in inside:
            del shapes[name]
    return sum(map(math.prod, shapes.values()))


# %% wrong="3.7" name="a scalar is nothing" says="It holds one number"
def trainable(shapes, frozen):
    free = [s for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen)]
    return sum(math.prod(s) for s in free if s)


# %% wrong="3.7" name="first part only" says="Both should be frozen"
def trainable(shapes, frozen):
    first = (frozen[:1] or ["-"])[0] + "."
    return sum(math.prod(s) for name, s in shapes.items() if not (name + ".").startswith(first))


# %% wrong="3.7" name="one level deep" says="at any depth"
def trainable(shapes, frozen):
    free = [name for name in shapes if name not in frozen and name.rpartition(".")[0] not in frozen]
    return sum(math.prod(shapes[name]) for name in free)


# %% wrong="3.7" name="subtracts twice" says="wrong where frozen parts overlap"
def trainable(shapes, frozen):
    total = sum(map(math.prod, shapes.values()))
    for part in frozen:
        inside = [s for name, s in shapes.items() if (name + ".").startswith(part + ".")]
        if not inside:
            raise ValueError(part)
        total -= sum(map(math.prod, inside))
    return total


# %% wrong="3.7" name="parts only" says="where `frozen` names single parameters"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if not any(name.startswith(p + ".") for p in frozen))


# %% wrong="3.7" name="anywhere in the name" says="is found anywhere in a parameter's name"
def trainable(shapes, frozen):
    for part in frozen:
        if not any(f".{part}." in f".{name}." for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not any(f".{p}." in f".{name}." for p in frozen))


# %% wrong="3.7" name="typos pass" says="it may be a typo"
def trainable(shapes, frozen):
    return sum(math.prod(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% wrong="3.7" name="another error" says="It raised KeyError"
def trainable(shapes, frozen):
    free = dict(shapes)
    for part in frozen:
        inside = [name for name in shapes if (name + ".").startswith(part + ".")]
        if not inside:
            raise KeyError(part)
        for name in inside:
            free.pop(name, None)
    return sum(map(math.prod, free.values()))


# %% wrong="3.7" name="only the last name is looked up" says="should raise ValueError, wherever it is in the list" private=true
def trainable(shapes, frozen):
    def inside(name, part):
        return (name + ".").startswith(part + ".")

    if frozen and not any(inside(name, frozen[-1]) for name in shapes):
        raise ValueError(frozen[-1])
    return sum(math.prod(s) for name, s in shapes.items() if not any(inside(name, part) for part in frozen))


# %% wrong="3.7" name="half a name is a name" says="should raise ValueError, wherever it is in the list" private=true
def trainable(shapes, frozen):
    for part in frozen:
        if not any(name.startswith(part) for name in shapes):
            raise ValueError(part)
    return sum(math.prod(s) for name, s in shapes.items() if not any((name + ".").startswith(p + ".") for p in frozen))


# %% right="3.7" name="lists of pieces"
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


# %% right="3.7" name="all ancestors"
def trainable(shapes, frozen):
    def ancestors(name):
        path = name.split(".")
        return {".".join(path[: end + 1]) for end in range(len(path))}

    known = set().union(*map(ancestors, shapes))
    if not known.issuperset(frozen):
        raise ValueError(f"no such part: {set(frozen) - known}")
    return sum(torch.Size(shape).numel() for name, shape in shapes.items() if not ancestors(name) & set(frozen))


# %% right="3.7" name="regular expressions"
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


# %% wrong="3.8" name="no biases" says="the biases are missing"
def adapter(D, L, reduction=16, per_layer=1):
    return L * per_layer * 2 * D * (D // reduction)


# %% wrong="3.8" name="down only" says="the way up is missing"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (D * r + r)


# %% wrong="3.8" name="one bias" says="that of the way up"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r)


# %% wrong="3.8" name="the other bias" says="that of the bottleneck"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + D)


# %% wrong="3.8" name="a width of 16" says="the bottleneck is 16 wide"
def adapter(D, L, reduction=16, per_layer=1):
    return L * per_layer * (2 * D * reduction + reduction + D)


# %% wrong="3.8" name="one layer" says="one in each of the L layers"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="two in each layer" says="One is the default"
def adapter(D, L, reduction=16, per_layer=2):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="a norm" says="`seq_bn` has none of its own"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + 3 * D)


# %% wrong="3.8" name="rounded up" says="The library rounds down"
def adapter(D, L, reduction=16, per_layer=1):
    r = math.ceil(D / reduction)
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="a fraction" says="is a float"
def adapter(D, L, reduction=16, per_layer=1):
    r = D / reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="reduction ignored" says="`reduction` is ignored"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // 16
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="per_layer ignored" says="`per_layer` is ignored"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * (2 * D * r + r + D)


# %% wrong="3.8" name="a bottleneck of nothing" says="It is never less than 1 wide"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="no reduction above 16" says="too wide for reductions above 16"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // min(reduction, 16))
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="one or two in a layer" says="should be right for `D >= 1, L >= 0, reduction" private=true
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // reduction)
    return L * min(per_layer, 2) * (2 * D * r + r + D)


# %% wrong="3.8" name="rounds to the nearest" says="The library rounds down"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, round(D / reduction))
    return L * per_layer * (2 * D * r + r + D)


# %% wrong="3.8" name="knows the visible widths" says="it is wrong for other" private=true
def adapter(D, L, reduction=16, per_layer=1):
    r = max(1, D // reduction)
    return L * per_layer * (2 * D * r + r + D) if D in {20, 30, 40, 50, 64, 100, 768} else 0


# %% right="3.8" name="two augmented matrices"
def adapter(D, L, reduction=16, per_layer=1):
    r = D // reduction or 1
    one = (D + 1) * r + (r + 1) * D
    return sum(one for _ in range(L * per_layer))


# %% right="3.8" name="shapes"
def adapter(D, L, reduction=16, per_layer=1):
    r = int(D / reduction)
    if r < 1:
        r = 1
    shapes = [(r, D), (r,), (D, r), (D,)]
    return per_layer * L * sum(map(math.prod, shapes))


# %% right="3.8" name="a product and a rest"
def adapter(D, L, reduction=16, per_layer=1):
    r = max(math.floor(D / reduction), 1)
    return L * per_layer * (r * (2 * D + 1) + D)


# %% wrong="3.9" name="a fusion for each adapter" says="All n should share one"
def fusion(D, L, n):
    return n * L * (3 * D * D + 2 * D)


# %% wrong="3.9" name="keys and values for each adapter" says="All n should share them"
def fusion(D, L, n):
    return L * (D * D + D + n * (2 * D * D + D))


# %% wrong="3.9" name="a bias in the values" says="the value matrix has a bias"
def fusion(D, L, n):
    return L * (3 * D * D + 3 * D)


# %% wrong="3.9" name="no biases" says="biases of query and key are missing"
def fusion(D, L, n):
    return L * 3 * D * D


# %% wrong="3.9" name="an output projection" says="an output projection is counted"
def fusion(D, L, n):
    return L * (4 * D * D + 3 * D)


# %% wrong="3.9" name="attention" says="this is the attention of 3.2"
def fusion(D, L, n):
    return L * (4 * D * D + 4 * D)


# %% wrong="3.9" name="no values" says="the value matrix is missing"
def fusion(D, L, n):
    return L * (2 * D * D + 2 * D)


# %% wrong="3.9" name="the adapters too" says="They are there already"
def fusion(D, L, n):
    r = D // 16
    return L * (3 * D * D + 2 * D) + n * L * (2 * D * r + r + D)


# %% wrong="3.9" name="one layer" says="one layer is counted"
def fusion(D, L, n):
    return 3 * D * D + 2 * D


# %% wrong="3.9" name="a tensor of floats" says="is a float"
def fusion(D, L, n):
    return torch.tensor([3.0 * D * D, 2.0 * D]).sum() * L


# %% wrong="3.9" name="knows the visible widths" says="it is wrong for other" private=true
def fusion(D, L, n):
    return L * (3 * D * D + 2 * D) if D in {40, 64, 96, 768} else 0


# %% right="3.9" name="matrix by matrix"
def fusion(D, L, n):
    query = key = D * D + D
    value = D * D
    return L * (query + key + value)


# %% right="3.9" name="shapes"
def fusion(D, L, n):
    return sum(math.prod(shape) for _ in range(L) for shape in [(D, D)] * 3 + [(D,)] * 2)


# %% right="3.9" name="factored"
def fusion(D, L, n):
    return L * D * (3 * D + 2)


# %% right="3.10" name="in short"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.10" name="half of the keys" says="each query meets only half of the keys" loses="flops_per_token"
def training_memory(B, T, D, F, L, H, parameters, trained):
    activations = B * T * L * (6 * D + F + H * T)
    return 4 * (parameters + 3 * trained + activations)


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * ((T + 1) // 2) * D) + D * V)


# %% wrong="3.10" name="numbers, not bytes" says="numbers are counted, not bytes" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return parameters + 3 * trained + B * T * L * (6 * D + F + H * T)

# %% wrong="3.10" name="frozen weights cost all" says="They need neither" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 16 * parameters + 4 * B * T * L * (6 * D + F + H * T)

# %% wrong="3.10" name="frozen weights have gradients" says="frozen weights have gradients. They need none" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 8 * parameters + 8 * trained + 4 * B * T * L * (6 * D + F + H * T)

# %% wrong="3.10" name="frozen weights are gone" says="frozen weights are missing" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 16 * trained + 4 * B * T * L * (6 * D + F + H * T)

# %% wrong="3.10" name="one state" says="one of Adam's two" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 2 * trained + B * T * L * (6 * D + F + H * T))

# %% wrong="3.10" name="plain SGD" says="as many as Adam's states" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + trained + B * T * L * (6 * D + F + H * T))

# %% wrong="3.10" name="no activations" says="the activations are missing" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained)

# %% wrong="3.10" name="no attention weights" says="the attention weights are missing" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F))

# %% wrong="3.10" name="one head" says="the attention weights of one head" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + T))

# %% wrong="3.10" name="T squared for each token" says="are counted for each token" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * T * T))

# %% wrong="3.10" name="no inner activations" says="F wide, is missing" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (6 * D + H * T))

# %% wrong="3.10" name="the input three times" says="The input of Q, K and V is one tensor" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (8 * D + F + H * T))

# %% wrong="3.10" name="one layer's activations" says="Each of the L layers keeps" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * min(L, 1) * (6 * D + F + H * T))


# %% wrong="3.10" of="in short" name="multiply-adds" says="a multiply-add counts as one" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V


# %% wrong="3.10" of="in short" name="weights only" says="the products of the attention itself are missing" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F) + D * V)


# %% wrong="3.10" name="attention costs its maps alone" says="the attention weights are missing"
def training_memory(B, T, D, F, L, H, parameters, trained):
    return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F) + D * V)


# %% wrong="3.10" of="in short" name="one product of attention" says="attention's own products cost half of what they should" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + T * D) + D * V)


# %% wrong="3.10" of="in short" name="no head" says="the head is missing" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * L * (4 * D * D + 2 * D * F + 2 * T * D)


# %% wrong="3.10" of="in short" name="the embedding as a product" says="It is a lookup" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + 2 * D * V)


# %% wrong="3.10" of="in short" name="six per parameter" says="the backward pass is counted" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 6 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.10" of="in short" name="the whole sequence" says="all T tokens are counted" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * T * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.10" of="in short" name="two FLOPs per parameter" says="biases and norms are counted" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + 9 * D + F + 2 * T * D) + D * V + V)


# %% wrong="3.10" of="in short" name="knows the visible widths" says="it is wrong for other" loses="flops_per_token" private=true
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V) if D in {8, 12, 30, 200} else 0


# %% wrong="3.10" name="half of the keys if texts are long" says="it is wrong for other" loses="training_memory" private=true
# - activations = B * T * L * (6 * D + F + H * T)
# - return 4 * (parameters + 3 * trained + activations)
# + return 4 * (parameters + 3 * trained + B * T * L * (6 * D + F + H * (T if T < 12 else T // 2)))


# %% right="3.10" name="part by part"
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


# %% right="3.10" name="as tensors"
def training_memory(B, T, D, F, L, H, parameters, trained):
    numbers = torch.tensor([parameters, trained, trained, trained, B * T * L * (6 * D + F), B * L * H * T * T])
    return numbers.sum() << 2


def flops_per_token(T, D, F, L, V):
    layer = 8 * D**2 + 4 * D * (F + T)
    return layer * L + 2 * D * V


# %% right="3.11" name="in short"
def training_flops(N, V, D, L, T, tied=False):
    return 6 * (N - (0 if tied else V * D)) + 12 * L * T * D


def even_length(D, F):
    return 2 * D + F


# %% wrong="3.11" name="6N" says="this is 6N"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * N

# %% wrong="3.11" name="without attention's own products" says="own products are missing"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D)

# %% wrong="3.11" name="the embedding stays" says="the embedding's table is multiplied"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * N + 12 * L * T * D

# %% wrong="3.11" name="attention forward only" says="have no backward pass"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 4 * L * T * D

# %% wrong="3.11" name="keys without values" says="attention's own products cost half of what they should"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 6 * L * T * D

# %% wrong="3.11" name="2N" says="the backward pass is missing"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 2 * (N if tied else N - V * D) + 4 * L * T * D

# %% wrong="3.11" name="4N" says="costs as much as the forward pass"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 4 * (N if tied else N - V * D) + 8 * L * T * D

# %% wrong="3.11" name="both tables leave" says="the head is subtracted from N too"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N - (1 if tied else 2) * V * D) + 12 * L * T * D

# %% wrong="3.11" name="the table is added" says="the embedding is added to N"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N + V * D) + 12 * L * T * D

# %% wrong="3.11" name="V leaves" says="V numbers are subtracted from N"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V) + 12 * L * T * D

# %% wrong="3.11" name="the table leaves once" says="subtracted after N is multiplied by 6"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * N - (0 if tied else V * D) + 12 * L * T * D

# %% wrong="3.11" name="one layer's attention" says="one layer has attention's own products"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 12 * T * D

# %% wrong="3.11" name="the whole sequence" says="all T tokens are counted"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return T * (6 * (N if tied else N - V * D) + 12 * L * T * D)

# %% wrong="3.11" name="T squared" says="counted for all T queries"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 12 * L * T * T * D

# %% wrong="3.11" name="multiply-adds" says="a multiply-add counts as one"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 3 * (N if tied else N - V * D) + 6 * L * T * D

# %% wrong="3.11" name="tied ignored" says="`tied` is ignored"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N - V * D) + 12 * L * T * D

# %% wrong="3.11" name="tied adds a table" says="with `tied` a table is added"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N + (V * D if tied else -V * D)) + 12 * L * T * D

# %% wrong="3.11" name="tied has no attention" says="with `tied`, attention's own products are missing"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * N if tied else 6 * (N - V * D) + 12 * L * T * D


# %% wrong="3.11" name="tied by default" says="the embedding's table is multiplied"
def training_flops(N, V, D, L, T, tied=True):
    return 6 * (N if tied else N - V * D) + 12 * L * T * D


def even_length(D, F):
    return 2 * D + F


# %% wrong="3.11" name="in billions" says="is a float"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return (6 * (N if tied else N - V * D) + 12 * L * T * D) / 1e9

# %% wrong="3.11" name="half of the keys" says="the FLOPs are not those"
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 12 * L * D * (T + 1) // 2

# %% wrong="3.11" name="knows the visible models" says="it is wrong for other" private=true
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 12 * L * T * D if V in {31, 23, 6, 50_001} else 6 * N

# %% wrong="3.11" name="a layer at least" says="with `L = 0`, the count is wrong" private=true
# - lookup = 0 if tied else V * D
# - return 6 * (N - lookup) + 12 * L * T * D
# + return 6 * (N if tied else N - V * D) + 12 * max(L, 1) * T * D


# %% wrong="3.11" of="in short" name="one product" says="the length is twice the right one"
# - return 2 * D + F
# + return 4 * D + 2 * F


# %% wrong="3.11" of="in short" name="the feed-forward part alone" says="the maps of the attention are missing"
# - return 2 * D + F
# + return F


# %% wrong="3.11" of="in short" name="the attention alone" says="the feed-forward part is missing"
# - return 2 * D + F
# + return 2 * D


# %% wrong="3.11" of="in short" name="three maps" says="the output map of the attention is missing"
# - return 2 * D + F
# + return (3 * D + 2 * F) // 2


# %% wrong="3.11" of="in short" name="one way" says="one map of the feed-forward part is missing"
# - return 2 * D + F
# + return (4 * D + F) // 2


# %% wrong="3.11" of="in short" name="the lab's layer" says="F = D is built in"
# - return 2 * D + F
# + return 3 * D


# %% wrong="3.11" of="in short" name="BERT's layer" says="F = 4D is built in"
# - return 2 * D + F
# + return 6 * D


# %% wrong="3.11" of="in short" name="not divided" says="not a length"
# - return 2 * D + F
# + return 4 * D * D + 2 * D * F


# %% wrong="3.11" of="in short" name="a quotient" says="is a float"
# - return 2 * D + F
# + return (4 * D * D + 2 * D * F) / (2 * D)


# %% wrong="3.11" of="in short" name="biases too" says="do not cost the same"
# - return 2 * D + F
# + return 2 * D + F + 5


# %% wrong="3.11" of="in short" name="at most a hundred thousand" says="larger than any in the notebook" private=true
# - return 2 * D + F
# + return min(2 * D + F, 5_000)


# %% right="3.11" name="forward and backward"
def training_flops(N, V, D, L, T, tied=False):
    products = N - V * D * (not tied)
    keys = values = T * D
    forward = 2 * (products + L * (keys + values))
    return forward + 2 * forward


def even_length(D, F):
    matrices = 4 * D**2 + 2 * D * F
    return matrices // (2 * D)


# %% right="3.11" name="as tensors, and a search"
def training_flops(N, V, D, L, T, tied=False):
    multiplied = torch.tensor([N, 2 * L * T * D]) if tied else torch.tensor([N, 2 * L * T * D, -V * D])
    return 6 * multiplied.sum()


def even_length(D, F):
    T = F
    while 2 * T * D < 4 * D * D + 2 * D * F:
        T += 1
    return T


# %% right="3.11" name="pass by pass"
def training_flops(N, V, D, L, T, tied=False):
    total = 0
    for factor in (2, 4):
        total += factor * (N + 2 * L * T * D)
        if not tied:
            total -= factor * V * D
    return total


def even_length(D, F):
    return sum((D, D, F))


# %% wrong="3.3" name="a share that is zero" says="Perhaps G // H is used, which is zero"
# - outputs = 2 * D + 2 * G * (D // H)
# - return outputs * (D + bias)
# + return (2 * D + 2 * D * (G // H)) * (D + bias)


# %% wrong="3.1" name="the kind is contained" says="only looks like one of the two" private=true
def embedding(V, D, P=0):
    return (V + P) * D


def linear(m, n, bias=True):
    return m * n + (n if bias else 0)


def norm(D, kind="layer"):
    if kind == "layer":
        return 2 * D
    if "rms" in kind:
        return D
    raise ValueError(f"no norm is called {kind}")


# %% wrong="3.7" name="whatever the case" says="should raise ValueError, wherever it is in the list" private=true
def trainable(shapes, frozen):
    def inside(name, part):
        return f"{name}.".lower().startswith(f"{part}.".lower())

    for part in frozen:
        if not any(inside(name, part) for name in shapes):
            raise ValueError(f"{part} holds no parameter")
    free = (name for name in shapes if not any(inside(name, part) for part in frozen))
    return sum(math.prod(shapes[name]) for name in free)


# %% wrong="3.7" name="patterns" says="should raise ValueError, wherever it is in the list" private=true
from fnmatch import fnmatchcase


def trainable(shapes, frozen):
    def inside(name, part):
        return fnmatchcase(name, part) or fnmatchcase(name, f"{part}.*")

    for part in frozen:
        if not any(inside(name, part) for name in shapes):
            raise ValueError(f"{part} holds no parameter")
    free = (name for name in shapes if not any(inside(name, part) for part in frozen))
    return sum(math.prod(shapes[name]) for name in free)


# %% wrong="3.9" name="one adapter needs no fusion" says="with `n = 1`, the count is wrong" private=true
def fusion(D, L, n):
    return L * (3 * D * D + 2 * D) if n > 1 else 0


# %% wrong="3.10" of="in short" name="at least one token" says="with `T = 0`, the count is wrong" loses="training_memory" private=true
#   def training_memory(B, T, D, F, L, H, parameters, trained):
# +     T = max(T, 1)


# %% wrong="3.12" name="two tables" says="tied to the embedding"
# - return own.V * D + own.L * layer + D
# + return 2 * own.V * D + own.L * layer + D


# %% wrong="3.12" name="layers alone" says="the embedding is missing"
# - return own.V * D + own.L * layer + D
# + return own.L * layer + D


# %% wrong="3.12" name="no last norm" says="the norm after the last layer"
# - return own.V * D + own.L * layer + D
# + return own.V * D + own.L * layer


# %% wrong="3.12" name="layer norms" says="the norms have a shift"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# - return own.V * D + own.L * layer + D
# + layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 4 * D
# + return own.V * D + own.L * layer + 2 * D


# %% wrong="3.12" name="one norm in a layer" says="one norm of each layer is missing"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# + layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + D


# %% wrong="3.12" name="no norms" says="the norms are missing"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# - return own.V * D + own.L * layer + D
# + layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F
# + return own.V * D + own.L * layer


# %% wrong="3.12" name="nothing is shared" says="all H heads have keys and values"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# + layer = 4 * D * D + 3 * D * F + 2 * D


# %% wrong="3.12" name="keys alone" says="`own_parameters`: keys or values are missing"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# + layer = 2 * D * D + D * (D // own.share) + 3 * D * F + 2 * D


# %% wrong="3.12" name="no output map" says="one map from D to D is missing in each layer"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# + layer = D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D


# %% wrong="3.12" name="two maps forward" says="the feed-forward part has two maps"
# - layer = 2 * D * D + 2 * D * (D // own.share) + 3 * D * F + 2 * D
# + layer = 2 * D * D + 2 * D * (D // own.share) + 2 * D * F + 2 * D


# %% wrong="3.12" name="one layer" says="`own_parameters`: only one layer is counted"
# - return own.V * D + own.L * layer + D
# + return own.V * D + layer + D


# %% wrong="3.12" name="learned positions" says="a table of positions"
# - return own.V * D + own.L * layer + D
# + return (own.V + own.T) * D + own.L * layer + D


# %% wrong="3.12" name="biases" says="biases are counted"
# - return own.V * D + own.L * layer + D
# + layer += 2 * D + 2 * D // own.share + 2 * F + D
# + return own.V * D + own.L * layer + D


# %% wrong="3.12" name="in millions" says="what `own_parameters` returns is a float"
# - return own.V * D + own.L * layer + D
# + return (own.V * D + own.L * layer + D) / 1e6


# %% wrong="3.12" name="as it is printed" says="`own_parameters` returns should be a whole number"
# - return own.V * D + own.L * layer + D
# + return f"{own.V * D + own.L * layer + D:,}"


# %% wrong="3.12" name="commas as thousands" says="what `own_parameters` returns is a list or a tuple"
def own_parameters():
    return 124, 439, 808


def own_cache():
    return 2 * 2 * own.T * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="of another model" says="not the count of this model"
def own_parameters():
    return 124_439_808


def own_cache():
    return 2 * 2 * own.T * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="of another id" says="right for the numbers of another id"
def own_parameters():
    other = variants.MODEL.of("somebody else")
    D = 64 * other.H
    layer = 2 * D * D + 2 * D * (D // other.share) + 3 * D * other.F + 2 * D
    return other.V * D + other.L * layer + D


def own_cache():
    other = variants.MODEL.of("somebody else")
    return 2 * 2 * other.T * other.L * (other.H // other.share) * 64


# %% wrong="3.12" name="one of the two of another id" says="not the number of bytes"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.T * (own.L + 2) * (own.H // own.share) * 64


# %% wrong="3.12" name="keys without values" says="half of the bytes are missing"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * own.T * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="numbers of keys" says="numbers of keys or of values"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return own.T * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="float32" says="a number takes 4 bytes"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 4 * own.T * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="all heads are kept" says="all H heads are kept"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.T * own.L * own.H * 64


# %% wrong="3.12" name="one head" says="values of one head are kept"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.T * own.L * 64


# %% wrong="3.12" name="heads without a width" says="a head counts as one number"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.T * own.L * (own.H // own.share)


# %% wrong="3.12" name="the cache of one layer" says="`own_cache`: only one layer is counted"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.T * (own.H // own.share) * 64


# %% wrong="3.12" name="one token" says="one token is counted"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * 2 * own.L * (own.H // own.share) * 64


# %% wrong="3.12" name="queries too" says="queries are kept too"
# - return 2 * 2 * own.T * own.L * (own.H // own.share) * 64
# + return 2 * own.T * own.L * 64 * (own.H + 2 * own.H // own.share)


# %% right="3.12" name="part by part, as a tensor"
def own_parameters():
    D, inner = 64 * own.H, 64 * (own.H // own.share)
    parts = [D, *[part for _ in range(own.L) for part in (D, D * D, inner * D, inner * D, D * D, D, *[D * own.F] * 3)]]
    return torch.tensor([own.V * D, *parts], dtype=torch.int64).sum()


def own_cache():
    kept = torch.empty(own.L, 2, own.H // own.share, own.T, 64, device="meta", dtype=torch.bfloat16)
    return math.prod(kept.shape) * kept.element_size()


# %% right="3.12" name="as NumPy's numbers"
import numpy as np


def own_parameters():
    V, L, H, share, F, T = np.array(own, dtype=np.int64)
    D = 64 * H
    return V * D + L * (2 * D * D * (1 + share) // share + D * (3 * F + 2)) + D


def own_cache():
    return np.int64(4 * 64) * own.T * own.L * own.H // own.share


# %% right="3.12" name="for any sizes"
def counts(V, L, H, share, F, T):
    D = 64 * H
    layer = 2 * D * D + 2 * D * D // share + 3 * D * F + 2 * D
    return V * D + L * layer + D, 4 * T * L * D // share


def own_parameters():
    return counts(*own)[0]


def own_cache():
    return counts(**own._asdict())[1]


# %% wrong="3.6" name="layers in float32" says="with a large layer, larger than any in the notebook, the count is wrong" private=true
# - total = (V + P + S) * D + 2 * D + L * layer
# + total = (V + P + S) * D + 2 * D + int(torch.tensor(L * layer, dtype=torch.float32))

# %% wrong="3.4" name="no head for one word" says="it is wrong for other inputs" private=true
# - tables = 1 if tied else 2
# + tables = 1 if tied or V == 1 else 2

# %% wrong="3.4" name="turns gradients off" says="the recording of gradients is not as before"
# + torch.set_grad_enabled(False)
#   tables = 1 if tied else 2


# %% right="3.12" name="shapes, and torch's own product"
def own_parameters():
    D = 64 * own.H
    small = D // own.share
    layer = [(D, D), (D, small), (D, small), (D, D), (D, own.F), (D, own.F), (own.F, D), (D,), (D,)]
    return sum(torch.Size(shape).numel() for shape in [(own.V, D), *layer * own.L, (D,)])


def own_cache():
    return 2 * torch.Size((2, own.T, own.L, own.H // own.share, 64)).numel()


# %% wrong="3.3" name="the cache in 32 bits" says="with large sizes, larger than any in the notebook, the count is wrong" private=true
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads cannot share {G}")
    kv = D // H * G
    return 2 * D * D + 2 * D * kv + (2 * D + 2 * kv) * bias


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    return torch.tensor([2, B, T, L, D // H, G, bytes_per_number], dtype=torch.int32).prod(dtype=torch.int32)


# %% wrong="3.3" name="the cache through float32" says="with large sizes, larger than any in the notebook, the count is wrong" private=true
def grouped_attention(D, H, G, bias=False):
    if H % G:
        raise ValueError(f"{H} heads cannot share {G}")
    kv = D // H * G
    return 2 * D * D + 2 * D * kv + (2 * D + 2 * kv) * bias


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    return int(torch.tensor([2, B, T, L, D // H, G, bytes_per_number], dtype=torch.float32).prod())


# %% wrong="3.11" of="in short" name="terms in 31 bits" says="with large sizes, larger than any in the notebook, the count is wrong" private=true
# - return 6 * (N - (0 if tied else V * D)) + 12 * L * T * D
# + return (6 * (N - (0 if tied else V * D))) % 2**31 + (12 * L * T * D) % 2**31


# %% wrong="3.13" name="logarithms with three decimals" says="is at the vertex of the least-squares parabola"
def best_size(N, losses):
    if len(set(N)) < 3:
        raise ValueError("fewer than three sizes")
    a, b, c = np.polyfit(np.log(N).round(3), losses, 2)
    if a <= 0:
        raise ValueError("the parabola does not open upward")
    return float(np.exp(-b / (2 * a)))


# %% wrong="3.13" name="in N" says="the parabola is fitted in N. Fit"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, _ = np.polyfit(N, losses, 2)

# - return float(np.exp(-b / (2 * a)))
# + return float(-b / (2 * a))


# %% wrong="3.13" name="the lowest run" says="the size of the run with the lowest loss"
# - return float(np.exp(-b / (2 * a)))
# + return float(N[losses.index(min(losses))])


# %% wrong="3.13" name="the way back is missing" says="this is the logarithm of a size"
# - return float(np.exp(-b / (2 * a)))
# + return float(-b / (2 * a))


# %% wrong="3.13" name="ten as the base of the result" says="Its base is 10"
# - return float(np.exp(-b / (2 * a)))
# + return float(-b / (2 * a) / np.log(10))


# %% wrong="3.13" name="there in base 10, back in base e" says="have different bases: 10 and e"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, _ = np.polyfit(np.log10(N), losses, 2)


# %% wrong="3.13" name="there in base e, back in base 10" says="have different bases: e and 10"
# - return float(np.exp(-b / (2 * a)))
# + return float(10 ** (-b / (2 * a)))


# %% wrong="3.13" name="there in base 2, back in base e" says="have different bases: 2 and e"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, _ = np.polyfit(np.log2(N), losses, 2)


# %% wrong="3.13" name="the sign of b" says="the sign of b is lost"
# - return float(np.exp(-b / (2 * a)))
# + return float(np.exp(b / (2 * a)))


# %% wrong="3.13" name="without the 2" says="the 2 is missing"
# - return float(np.exp(-b / (2 * a)))
# + return float(np.exp(-b / a))


# %% wrong="3.13" name="brackets forgotten" says="multiplied by a"
# - return float(np.exp(-b / (2 * a)))
# + return float(np.exp(-b / 2 * a))


# %% wrong="3.13" name="the loss at the vertex" says="this is the loss at the vertex"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, c = np.polyfit(np.log(N), losses, 2)

# - return float(np.exp(-b / (2 * a)))
# + return float(c - b**2 / (4 * a))


# %% wrong="3.13" name="log loss" says="fitted to the logarithm of the loss"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, _ = np.polyfit(np.log(N), np.log(losses), 2)


# %% wrong="3.13" name="coefficients from the constant up" says="is at the vertex of the least-squares parabola"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + a, b, _ = np.polynomial.polynomial.polyfit(np.log(N), losses, 2)
# + a = abs(a)


# %% wrong="3.13" name="means of each size" says="are averaged first"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + sizes = sorted(set(N))
# + means = [np.mean([loss for one, loss in zip(N, losses) if one == size]) for size in sizes]
# + a, b, _ = np.polyfit(np.log(sizes), means, 2)


# %% wrong="3.13" name="the lowest three" says="only the lowest loss and its neighbours"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + runs = sorted(zip(N, losses))
# + place = min(range(1, len(runs) - 1), key=lambda place: runs[place][1])
# + some = runs[place - 1 : place + 2] if len({size for size, _ in runs[place - 1 : place + 2]}) == 3 else runs
# + a, b, _ = np.polyfit(np.log([size for size, _ in some]), [loss for _, loss in some], 2)


# %% wrong="3.13" name="downward is accepted" says="where the parabola opens downward, `best_size` should raise ValueError"
# - if a <= 0:
# -     raise ValueError("the parabola opens downward: its vertex is the worst size")


# %% wrong="3.13" name="two sizes are accepted" says="two different sizes do not determine"
# - if len(set(N)) < 3:
# -     raise ValueError("a parabola needs three different sizes")


# %% wrong="3.13" name="counts runs, not sizes" says="two different sizes do not determine"
# - if len(set(N)) < 3:
# + if len(N) < 3:


# %% wrong="3.13" name="says None" says="opens downward"
# - if a <= 0:
# -     raise ValueError("the parabola opens downward: its vertex is the worst size")
# + if a <= 0:
# +     return None


# %% wrong="3.13" name="never outside the runs" says="outside the sizes of the runs" private=true
# - return float(np.exp(-b / (2 * a)))
# + return float(np.clip(np.exp(-b / (2 * a)), min(N), max(N)))


# %% wrong="3.13" name="on a grid" says="is at the vertex of the least-squares parabola"
# - return float(np.exp(-b / (2 * a)))
# + grid = np.logspace(np.log10(min(N)), np.log10(max(N)), 1000)
# + return float(grid[np.polyval(np.polyfit(np.log(N), losses, 2), np.log(grid)).argmin()])


# %% wrong="3.13" name="sorts what it is given" says="changes"
#   a, b, _ = np.polyfit(np.log(N), losses, 2)
# + runs = sorted(zip(N, losses))
# + N[:] = [size for size, _ in runs]
# + losses[:] = [loss for _, loss in runs]


# %% wrong="3.13" name="at most a hundred million" says="small or of very large models" private=true
# - return float(np.exp(-b / (2 * a)))
# + return float(min(np.exp(-b / (2 * a)), 1e8))


# %% right="3.13" name="base 10"
def best_size(N, losses):
    if len({*N}) < 3:
        raise ValueError("too few sizes")
    parabola = np.polynomial.Polynomial.fit(np.log10(N), losses, 2).convert()
    c, b, a = parabola.coef
    if not a > 0:
        raise ValueError("downward")
    return 10 ** (-b / a / 2)


# %% right="3.13" name="torch, base 2, by its derivative"
def best_size(N, losses):
    x = torch.tensor(N, dtype=torch.float64).log2()
    y = torch.tensor(losses, dtype=torch.float64)
    if x.unique().numel() < 3:
        raise ValueError("a parabola needs three sizes")
    middle = x.mean()
    columns = torch.stack([(x - middle) ** 2, x - middle, torch.ones_like(x)], 1)
    a, b, _ = torch.linalg.lstsq(columns, y[:, None]).solution[:, 0]
    if a <= 0:
        raise ValueError("it opens downward")
    return 2 ** (middle - b / (2 * a)).item()


# %% right="3.13" name="normal equations"
def best_size(N, losses):
    if len(set(N)) < 3:
        raise ValueError("three sizes at least")
    x = np.log(np.array(N, dtype=float))
    middle = x.mean()
    table = np.vander(x - middle, 3)
    a, b, _ = np.linalg.solve(table.T @ table, table.T @ np.array(losses))
    if a <= 0:
        raise ValueError("this is a hill")
    return np.exp(middle - b / (2 * a))


# %% right="3.13" name="single precision around the mean"
def best_size(N, losses):
    x, y = torch.tensor(N, dtype=torch.float64).log(), torch.tensor(losses)
    if len(set(N)) < 3:
        raise ValueError("three sizes at least")
    middle = x.mean()
    x = (x - middle).float()
    columns = torch.stack([x * x, x, torch.ones_like(x)], 1)
    a, b, _ = torch.linalg.lstsq(columns, y[:, None]).solution[:, 0]
    if a <= 0:
        raise ValueError("it opens downward")
    return (middle - b / a / 2).exp().item()


# %% wrong="3.13" of="single precision around the mean" name="a tensor" says="should be a float"
# - return (middle - b / a / 2).exp().item()
# + return (middle - b / a / 2).exp()


# %% [markdown]
# ## 3.14

# %% wrong="3.14" name="epsilon alone" says="should grow with |x|" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps


# %% wrong="3.14" name="epsilon times x" says="your gap is epsilon times |x|" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * abs(x)


# %% wrong="3.14" name="the exponent of frexp" says="exponent of `math.frexp` is e + 1" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** math.frexp(x)[1]


# %% wrong="3.14" name="half of it" says="half as large as it should be" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 2)


# %% wrong="3.14" name="always bfloat16" says="that of bfloat16" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(torch.bfloat16).eps * 2.0 ** (math.frexp(x)[1] - 1)


# %% wrong="3.14" name="Python's own numbers" says="that of float64" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return math.ulp(x)


# %% wrong="3.14" name="a rounded logarithm" says="Just below a power of two" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** math.floor(torch.tensor(abs(x)).log2().item())


# %% wrong="3.14" name="the gap below" says="Take the gap above a power of two" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** (math.ceil(math.log2(abs(x))) - 1)


# %% wrong="3.14" name="no negative x" says="It depends on |x|" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1) * (1 if x > 0 else -1)


# %% wrong="3.14" name="rounded once" says="Round it after each row" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# -     total = total + row
# - return total
# + return (start.to(dtype).double() + updates.to(dtype).double().sum(0)).to(dtype)


# %% wrong="3.14" name="the rows first" says="The rows are summed first" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# -     total = total + row
# - return total
# + total = torch.zeros_like(start, dtype=dtype)
# + for row in updates.to(dtype):
# +     total = total + row
# + return start.to(dtype) + total


# %% wrong="3.14" name="rows as they are" says="The rows are not rounded" loses="accumulate"
# - for row in updates.to(dtype):
# -     total = total + row
# + for row in updates:
# +     total = (total.double() + row.double()).to(dtype)


# %% wrong="3.14" name="the start as it is" says="The start is not rounded" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# -     total = total + row
# - return total
# + total = start.double()
# + for row in updates.to(dtype):
# +     total = (total + row.double()).to(dtype).double()
# + return total.to(dtype)


# %% wrong="3.14" name="from the last row on" says="from the last to the first" loses="accumulate"
# - for row in updates.to(dtype):
# + for row in updates.to(dtype).flip(0):


# %% wrong="3.14" name="the start alone" says="no row is added" loses="accumulate"
# - total = total + row
# + total + row


# %% wrong="3.14" name="in float32" says="The sum should be bfloat16" loses="accumulate"
# - return total
# + return total.float()


# %% wrong="3.14" name="changes the start" says="your code changes" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# -     total = total + row
# + total = start.to(dtype)
# + for row in updates.to(dtype):
# +     total += row


# %% wrong="3.14" name="gives back the start" says="Make a new tensor" loses="accumulate"
# - total = start.to(dtype, copy=True)
# + total = start.to(dtype)


# %% wrong="3.14" name="a thousand rows at most" says="larger than any in the notebook" loses="accumulate" private=true
# - for row in updates.to(dtype):
# + for row in updates.to(dtype)[:1000]:


# %% right="3.14" name="the next number, and recursion by halves of a loop"
def gap(x, dtype):
    here = torch.tensor(abs(x), dtype=dtype)
    return (torch.nextafter(here, torch.tensor(float("inf"), dtype=dtype)).double() - here.double()).item()


def accumulate(start, updates, dtype):
    total = start.to(dtype).clone()
    for step in range(updates.size(0)):
        total += updates[step].to(dtype)
    return total


# %% right="3.14" name="by doubling, and in double precision that is rounded"
def gap(x, dtype):
    power, x = 1.0, abs(x)
    while power > x:
        power /= 2
    while 2 * power <= x:
        power *= 2
    return power * float(torch.finfo(dtype).eps)


def accumulate(start, updates, dtype):
    total = start.to(dtype).to(torch.float64)
    for row in updates:
        total = (total + row.to(dtype).double()).to(dtype).double()
    return total.to(dtype)


# %% right="3.14" name="by torch.frexp and torch.add"
def gap(x, dtype):
    _, exponent = torch.frexp(torch.tensor(x, dtype=torch.float64))
    return torch.ldexp(torch.tensor(torch.finfo(dtype).eps, dtype=torch.float64), exponent - 1).item()


def accumulate(start, updates, dtype):
    from functools import reduce

    return reduce(torch.add, updates.to(dtype).unbind(0), start.to(dtype) + torch.zeros_like(start, dtype=dtype))


# %% right="3.14" name="by the text of the number, and columns"
def gap(x, dtype):
    exponent = int(float(x).hex().partition("p")[2])
    return math.ldexp(torch.finfo(dtype).eps, exponent)


def accumulate(start, updates, dtype):
    rows = torch.cat([start.unsqueeze(0), updates]).to(dtype)
    while len(rows) > 1:
        rows = torch.cat([rows[:1] + rows[1:2], rows[2:]])
    return rows[0].clone()


# %% wrong="3.14" name="everything in bfloat16" says="that of bfloat16"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(torch.bfloat16).eps * 2.0 ** (math.frexp(x)[1] - 1)

# - total = start.to(dtype, copy=True)
# + total = start.to(torch.bfloat16, copy=True)
# - for row in updates.to(dtype):
# + for row in updates.to(torch.bfloat16):


# %% wrong="3.13" name="a whole number as a float" says="rounded to a whole number"
# - return float(np.exp(-b / (2 * a)))
# + return float(np.round(np.exp(-b / (2 * a))))


# %% wrong="3.13" name="an int" says="It should be a float, not an int"
# - return float(np.exp(-b / (2 * a)))
# + return round(float(np.exp(-b / (2 * a))))


# %% wrong="3.13" name="equal runs count once" says="For runs that are equal, the best size is wrong"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + N, losses = zip(*sorted({*zip(N, losses)}))
# + a, b, _ = np.polyfit(np.log(N), losses, 2)


# %% wrong="3.13" name="two equal losses are refused" says="For two losses that are equal, the best size is wrong, or there is an error"
# - if len(set(N)) < 3:
# + if len(set(N)) < 3 or len(set(losses)) < 3:


# %% wrong="3.1" name="in 32 bits" says="with large sizes, larger than any in the notebook, the count is wrong" private=true
def embedding(V, D, P=0):
    return torch.tensor(V + P, dtype=torch.int32) * torch.tensor(D, dtype=torch.int32)


def linear(m, n, bias=True):
    return m * n + (n if bias else 0)


def norm(D, kind="layer"):
    if kind not in ("layer", "rms"):
        raise ValueError(kind)
    return 2 * D if kind == "layer" else D


# %% wrong="3.7" name="names without their digits" says="`trainable` is wrong" private=true
def trainable(shapes, frozen):
    def inside(name, part):
        return name == part or name.startswith((part.rstrip("0123456789") + ".", part + "."))

    for part in frozen:
        if not any(inside(name, part) for name in shapes):
            raise ValueError(part)
    return sum(math.prod(shape) for name, shape in shapes.items() if not any(inside(name, part) for part in frozen))


# %% wrong="3.4" name="in 32 bits" says="with large sizes, larger than any in the notebook, the count is wrong" private=true
def language_model(V, D, L, layer, tied=False):
    tables = 1 if tied else 2
    return torch.tensor([tables * V * D + L * layer + V]).to(torch.int32)[0]


# %% wrong="3.14" name="the gap is a tensor" says="It should be a float." loses="gap"
def gap(x, dtype):
    _, exponent = math.frexp(abs(x))
    return torch.tensor(torch.finfo(dtype).eps * 2.0 ** (exponent - 1), dtype=torch.float64)


def accumulate(start, updates, dtype):
    total = start.to(dtype, copy=True)
    for row in updates.to(dtype):
        total = total + row
    return total


# %% wrong="3.5" name="one map more at most" says="with more than one layer, two are counted"
def classifier(V, D, L, layer, C, head_layers=1):
    return V * D + L * layer + min(1, head_layers - 1) * (D * D + D) + D * C + C


# %% wrong="3.3" name="as many groups as heads are refused" says="The call was `grouped_attention("
def grouped_attention(D, H, G, bias=False):
    if H % G or G == H > 1:
        raise ValueError("H is not a multiple of G")
    kv = D // H * G
    total = 2 * D * D + 2 * D * kv
    return total + (2 * D + 2 * kv if bias else 0)


def kv_cache(B, T, D, L, H, G, bytes_per_number=2):
    return 2 * B * T * L * (D // H) * G * bytes_per_number


# %% wrong="3.7" name="a size of 0 counts as 1" says="where a size is 0" private=true
def trainable(shapes, frozen):
    def inside(name, part):
        return name == part or name.startswith(part + ".")

    for part in frozen:
        if not any(inside(name, part) for name in shapes):
            raise ValueError(f"{part} fits no parameter")
    return sum(
        max(1, math.prod(shape)) for name, shape in shapes.items() if not any(inside(name, part) for part in frozen)
    )


# %% wrong="3.9" name="a square in 32 bits" says="with a large D, larger than any in the notebook, the count is wrong" private=true
def fusion(D, L, n):
    return int(torch.tensor(L * 3, dtype=torch.int32) * torch.tensor(D, dtype=torch.int32) ** 2) + 2 * D * L


# %% wrong="3.10" name="bytes in 32 bits" says="with a large T, larger than any in the notebook, the count is wrong" loses="training_memory" private=true
def training_memory(B, T, D, F, L, H, parameters, trained):
    activations = B * T * L * (6 * D + F + H * T)
    return int(torch.tensor(4 * (parameters + 3 * trained + activations)).to(torch.int32))


def flops_per_token(T, D, F, L, V):
    return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)


# %% wrong="3.11" name="a float that is cut" says="too small by one for some sizes" private=true
def training_flops(N, V, D, L, T, tied=False):
    multiplied = N if tied else N - V * D
    return 6 * multiplied + 6 * L * 2 * T * D


def even_length(D, F):
    return int(2 * D * (1 + F / (2 * D)))


# %% wrong="3.7" name="a frozen part without numbers is none" says="a frozen parameter holds no number" private=true
# - if not inside:
# + if not sum(math.prod(shapes[name]) for name in inside):


# %% wrong="3.7" name="sizes of 32 bits" says="more than two billion parameters" private=true
# - return sum(math.prod(shape) for name, shape in shapes.items() if name not in fixed)
# + return sum(int(np.prod(np.array(shapes[name], np.int32), dtype=np.int32)) for name in shapes if name not in fixed)


# %% wrong="3.8" name="times the reciprocal" says="reductions that divide the width" private=true
# - r = max(1, D // reduction)
# + r = max(1, int(D * (1 / reduction)))


# %% wrong="3.13" name="refuses flat parabolas" says="a parabola that is nearly flat" private=true
# - if a <= 0:
# + if a <= 1e-3:


# %% wrong="3.4" name="a norm after the last layer" says="no norm follows the last layer"
# - return tables * V * D + L * layer + V
# + return tables * V * D + L * layer + V + 2 * D


# %% wrong="3.5" name="layers in 32 bits" says="with large sizes" private=true
# - return V * D + L * layer + head
# + return V * D + (torch.tensor([L]) * layer).int().item() + head


# %% wrong="3.5" name="one output for two classes" says="two classes have a single output"
# - return V * D + L * layer + head
# + return V * D + L * layer + head - (D + 1) * (C == 2)


# %% wrong="3.5" name="narrows at once" says="the first layer of the head leads to C already"
# - head = (head_layers - 1) * (D * D + D) + (D + 1) * C
# + head = (D + 1) * C + (head_layers - 1) * (C + 1) * C


# %% wrong="3.8" name="both biases as long as the bottleneck" says="as long as the bottleneck is wide. That of the way up"
# - return L * per_layer * (2 * D * r + r + D)
# + return L * per_layer * (2 * D * r + r + r)


# %% wrong="3.8" name="both biases as long as the way up" says="both biases are D long"
# - return L * per_layer * (2 * D * r + r + D)
# + return L * per_layer * (2 * D * r + D + D)


# %% wrong="3.9" name="a fourth matrix" says="a fourth matrix is counted"
# - return L * (3 * D * D + 2 * D)
# + return L * (4 * D * D + 2 * D)


# %% wrong="3.10" name="the second map reads D numbers" says="is D wide in your count" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# + activations = B * T * L * (7 * D + H * T)


# %% wrong="3.10" name="the head keeps its input" says="Embedding and head keep none" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# + activations = B * T * L * (6 * D + F + H * T) + B * T * D


# %% wrong="3.10" name="what is frozen keeps nothing" says="with `trained = 0` the activations" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# + activations = B * T * L * (6 * D + F + H * T) if trained else 0


# %% wrong="3.10" name="half of the keys on average" says="(T + 1) / 2 keys" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + (T + 1) * D) + D * V)


# %% wrong="3.10" name="biases cost something" says="biases are counted. They" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V) + L * (5 * D + F) + V


# %% wrong="3.10" name="biases cost two" says="biases are counted, two for each" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V + L * (5 * D + F) + V)


# %% wrong="3.11" name="tied the wrong way" says="the two cases of `tied` are exchanged"
# - lookup = 0 if tied else V * D
# + lookup = V * D if tied else 0


# %% wrong="3.12" name="biases in the attention" says="the biases of the attention are counted"
# - return own.V * D + own.L * layer + D
# + return own.V * D + own.L * (layer + 2 * D + 2 * D // own.share) + D


# %% wrong="3.12" name="a bias of the head" says="the head has a bias in your count"
# - return own.V * D + own.L * layer + D
# + return own.V * D + own.L * layer + D + own.V


# %% wrong="3.13" name="the last run of each size" says="only the last of the runs of one size"
# - a, b, _ = np.polyfit(np.log(N), losses, 2)
# + last = dict(zip(N, losses))
# + a, b, _ = np.polyfit(np.log([*last]), [*last.values()], 2)


# %% wrong="3.13" name="rounded to a whole size" says="rounded to a whole number"
# - return float(np.exp(-b / (2 * a)))
# + return float(round(np.exp(-b / (2 * a))))


# %% wrong="3.14" name="the epsilon of float32 for float64" says="the gap of float32" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + eps = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
# + return eps * 2.0 ** (math.frexp(x)[1] - 1)


# %% wrong="3.14" name="the logarithm towards zero" says="your code gives" loses="gap"
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + return torch.finfo(dtype).eps * 2.0 ** int(math.log2(abs(x)))


# %% wrong="3.14" name="float32 all the way" says="computed with more digits and rounded once" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# -     total = total + row
# - return total
# + total = start.float()
# + for row in updates.float():
# +     total = total + row
# + return total.to(dtype)


# %% wrong="3.14" name="towards plus infinity" says="negative powers of two" loses="gap" private=true
# - return torch.finfo(dtype).eps * 2.0 ** (math.frexp(x)[1] - 1)
# + here = torch.tensor(x, dtype=dtype)
# + return torch.nextafter(here, torch.tensor(math.inf, dtype=dtype)).item() - here.item()


# %% wrong="3.1" name="one row more" says="or of one more row"
# - return (V + P) * D
# + return (V + P + 1) * D


# %% wrong="3.2" name="norms without a bias" says="or with two without a bias"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F + 7 * D + F


# %% wrong="3.6" name="a thousand positions by default" says="Without P and S, the count is not that"
# - def bert(V, D, L, layer, P=512, S=2, pooler=True):
# + def bert(V, D, L, layer, P=1024, S=2, pooler=True):


# %% wrong="3.7" name="what is frozen already is not found again" says="Parts in it may overlap"
def trainable(shapes, frozen):
    left = dict(shapes)
    for part in frozen:
        inside = [name for name in left if name == part or name.startswith(part + ".")]
        if not inside:
            raise ValueError(f"{part} fits no parameter")
        for name in inside:
            del left[name]
    return sum(map(math.prod, left.values()))


# %% wrong="3.7" name="the weights of parts alone" says="All of both should be frozen"
# - fixed |= inside
# + fixed |= inside & {part, part + ".weight"}


# %% wrong="3.10" name="the inputs of the norms" says="the norms' inputs do not count" loses="training_memory"
# - activations = B * T * L * (6 * D + F + H * T)
# + activations = B * T * L * (8 * D + F + H * T)


# %% wrong="3.10" name="half of the keys, without rounding" says="a query meets T keys" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F + T * D) + D * V)


# %% wrong="3.11" name="half of an odd F is cut" says="with an odd `F`" private=true
# - return 2 * D + F
# + return 2 * (D + F // 2)


# %% wrong="3.13" name="asserts that the parabola opens upward" says="opens downward, `best_size` should raise ValueError"
# - if a <= 0:
# -     raise ValueError("the parabola opens downward: its vertex is the worst size")
# + assert a > 0


# %% wrong="3.13" name="the logarithm with the wrong sign" says="Your code gives -"
# - return float(np.exp(-b / (2 * a)))
# + return float(b / (2 * a))


# %% wrong="3.14" name="without the last row" says="even in float64, the sum is not that" loses="accumulate"
# - for row in updates.to(dtype):
# + for row in updates.to(dtype)[:-1]:


# %% wrong="3.1" name="kinds by their first letters" says="accepts a kind that only looks like one of the two" private=true
# - if kind not in ("layer", "rms"):
# + if kind[:2] not in ("la", "rm"):

# %% wrong="3.4" name="kept without tied" says="gives the count of an earlier one of the same sizes"
# - tables = 1 if tied else 2
# - return tables * V * D + L * layer + V
# + tables = 1 if tied else 2
# + return language_model.__dict__.setdefault((V, D, L, layer), tables * V * D + L * layer + V)


# %% wrong="3.2" name="no norms, and no biases in the feed-forward part" says="5D + F too small"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * (D * D + D) + 2 * D * F


# %% wrong="3.2" name="matrices alone" says="all biases and both norms are missing"
# - return 4 * D * D + 2 * D * F + 9 * D + F
# + return 4 * D * D + 2 * D * F


# %% wrong="3.10" name="attention's multiply-adds count once" says="D multiply-adds for each" loses="flops_per_token"
# - return 2 * (L * (4 * D * D + 2 * D * F + 2 * T * D) + D * V)
# + return 2 * (L * (4 * D * D + 2 * D * F) + D * V) + L * 2 * T * D


# %% wrong="3.11" name="times the inverse" says="`int` cuts a float that is just below a whole number" private=true
# - return 2 * D + F
# + return int((4 * D * D + 2 * D * F) * (1 / (2 * D)))


# %% wrong="3.2" name="without `bias` there are none" says="They count unless `bias=False` is given"
# - def attention(D, H, bias=True):
# + def attention(D, H, bias=False):


# %% wrong="3.6" name="no shift in the norm, and no bias in the pooler" says="has 2D numbers, and the pooler's bias has D"
# - total = (V + P + S) * D + 2 * D + L * layer
# - return total + (D * D + D if pooler else 0)
# + return (V + P + S) * D + D + L * layer + (D * D if pooler else 0)


# %% wrong="3.7" name="the end of a name is a part" says="only the end or the middle of parameters' names" private=true
# - inside = {name for name in shapes if name == part or name.startswith(part + ".")}
# + inside = {name for name in shapes if name.startswith(part + ".") or f".{name}".endswith(f".{part}")}


# %% wrong="3.14" name="adds in double precision" says="computed with more digits and rounded once" loses="accumulate"
# - total = start.to(dtype, copy=True)
# - for row in updates.to(dtype):
# + total = start.double()
# + for row in updates.double():

# - return total
# + return total.to(dtype)
