# %% [markdown]
# # Answers to notebook 02 whose verdict is known

# %% [markdown]
# ## 2.1

# %% right="2.1" name="in short"
def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


# %% wrong="2.1" name="a parameter that does not learn" says="something else than a Tensor" private=true
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return nn.Parameter(torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1), requires_grad=False)


# %% wrong="2.1" name="the table of a library of models" says="does all the work"
from transformers.models.distilbert.modeling_distilbert import _create_sinusoidal_embeddings as fill_table


def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError("sines and cosines come in pairs")
    table = torch.empty(max_len, d_model)
    fill_table(max_len, d_model, table)
    return table.detach()


# %% wrong="2.1" of="in short" name="sines left, cosines right" says="Sines and cosines should alternate"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return torch.cat([angles.sin(), angles.cos()], dim=1)


# %% wrong="2.1" of="in short" name="cosines first" says="column 0 should hold sines"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)


# %% wrong="2.1" of="in short" name="counts from 1" says="Yours is position 1"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(1, max_len + 1)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)


# %% wrong="2.1" name="a wavelength for each column" says="share one"
def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError
    table = torch.zeros(max_len, d_model)
    for column in range(d_model):
        angle = torch.arange(max_len) / 10000 ** (column / d_model)
        table[:, column] = angle.cos() if column % 2 else angle.sin()
    return table


# %% wrong="2.1" of="in short" name="half the exponent" says="half of what it should be"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(d_model // 2) / d_model)


# %% wrong="2.1" name="twice the exponent" says="pairs, not columns"
def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError
    columns = torch.arange(d_model)
    angles = torch.arange(max_len)[:, None] / 10000 ** (2 * columns / d_model)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


# %% wrong="2.1" of="in short" name="reaches the base" says="not by d_model - 2"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / max(d_model - 2, 1))


# %% wrong="2.1" of="in short" name="multiplies the position" says="divide the position"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len)[:, None] * 10000 ** (torch.arange(0, d_model, 2) / d_model)


# %% wrong="2.1" of="in short" name="integer division in the exponent" says="all pairs turn at one speed"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) // d_model)


# %% wrong="2.1" of="in short" name="sines only" says="only sines"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return angles.sin().repeat_interleave(2, dim=1)


# %% wrong="2.1" of="in short" name="on its side" says="the table is transposed"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).T


# %% wrong="2.1" name="crashes on an odd width" says="without its cosine. It raised RuntimeError"
def sinusoidal_table(max_len, d_model):
    table = torch.zeros(max_len, d_model)
    angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()
    return table


# %% wrong="2.1" name="accepts an odd width" says="leaves a sine without its cosine"
def sinusoidal_table(max_len, d_model):
    angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


# %% wrong="2.1" name="refuses the visible odd width" says="`sinusoidal_table(T, 2 * w - 1)` must raise ValueError" private=true
def sinusoidal_table(max_len, d_model):
    if d_model in (3, 5):
        raise ValueError
    angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


# %% wrong="2.1" of="in short" name="no more than eight pairs" says="with a large w, larger than any in the notebook, the table is wrong" private=true
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + speeds = torch.tensor([10000 ** (-2 * min(pair, 7) / d_model) for pair in range(d_model // 2)])
# + angles = torch.arange(max_len)[:, None] * speeds


# %% wrong="2.1" of="in short" name="double precision" says="float64"
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2).double() / d_model)


# %% wrong="2.1" of="in short" name="a parameter" says="nothing is learned"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return nn.Parameter(torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))


# %% wrong="2.1" of="in short" name="half precision" says="the table is float16, not float32"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return table.half() if max_len == 5 else table


# %% right="2.1" name="with numpy"
def sinusoidal_table(max_len, d_model):
    import numpy as np

    if d_model % 2:
        raise ValueError("d_model must be even")
    t, c = np.mgrid[:max_len, :d_model]
    angles = t / np.power(10000, 2 * (c // 2) / d_model)
    return torch.tensor(np.where(c % 2 == 0, np.sin(angles), np.cos(angles)), dtype=torch.float32)


# %% right="2.1" name="entry by entry"
def sinusoidal_table(max_len, d_model):
    if d_model % 2 == 1:
        raise ValueError("odd")
    rows = []
    for t in range(max_len):
        row = []
        for i in range(d_model // 2):
            row += [math.sin(t / 10000 ** (2 * i / d_model)), math.cos(t / 10000 ** (2 * i / d_model))]
        rows.append(row)
    return torch.tensor(rows)


# %% right="2.1" name="annotated transformer's way"
def sinusoidal_table(max_len, d_model):
    if d_model % 2 != 0:
        raise ValueError("d_model must be even")
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(0, max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


# %% right="2.1" name="powers of one complex number"
def sinusoidal_table(max_len, d_model):
    if d_model & 1:
        raise ValueError(d_model)
    speeds = 10000.0 ** -torch.linspace(0, 1, d_model // 2 + 1, dtype=torch.float64)[:-1]
    turns = torch.polar(torch.ones(max_len, d_model // 2).double(), torch.outer(torch.arange(max_len).double(), speeds))
    return torch.view_as_real(turns).flip(-1).reshape(max_len, d_model).float()


# %% [markdown]
# ## 2.2


# %% right="2.2" name="in short"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.register_buffer("table", make_table(max_len, d_model), persistent=False)

    def forward(self, x):
        if x.size(1) > len(self.table):
            raise ValueError
        return x + self.table[: x.size(1)]


# %% wrong="2.2" name="makes it in every call" says="a second call with the same x gives another output"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.make = partial(make_table, max_len, d_model)
        self.max_len = max_len

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError
        return x + self.make()[: x.size(1)]


# %% wrong="2.2" of="in short" name="makes it twice" says="`make_table` is called more than once"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + if make_table(max_len, d_model).shape == (max_len, d_model):
# +     self.register_buffer("table", make_table(max_len, d_model), persistent=False)


# %% wrong="2.2" of="in short" name="a parameter" says="the module has parameters"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.table = nn.Parameter(make_table(max_len, d_model), requires_grad=False)


# %% wrong="2.2" of="in short" name="a plain attribute" says="it should be a buffer"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.table = make_table(max_len, d_model)


# %% wrong="2.2" of="in short" name="moved by hand in every call" says="it should be a buffer"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.table = make_table(max_len, d_model)

# - return x + self.table[: x.size(1)]
# + return x + self.table[: x.size(1)].to(x)


# %% wrong="2.2" of="in short" name="stored" says="leave it out"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", make_table(max_len, d_model))


# %% wrong="2.2" name="longer inputs crash" says="must raise ValueError. It raised RuntimeError"
# - if x.size(1) > self.table.size(0):
# -     raise ValueError(f"{x.size(1)} positions, but the table has {self.table.size(0)} rows")


# %% wrong="2.2" of="in short" name="longer inputs start again" says="longer than the table must raise ValueError"
# - if x.size(1) > len(self.table):
# -     raise ValueError
# - return x + self.table[: x.size(1)]
# + return x + self.table[torch.arange(x.size(1)) % len(self.table)]


# %% wrong="2.2" of="in short" name="a row for each sequence" says="each sequence of the batch gets one row"
# - return x + self.table[: x.size(1)]
# + return x + self.table[: x.size(0)].unsqueeze(1)


# %% wrong="2.2" of="in short" name="returns the table" says="the table alone is returned"
# - return x + self.table[: x.size(1)]
# + return self.table[: x.size(1)].expand_as(x)


# %% wrong="2.2" of="in short" name="scales the words" says="not part of this module"
# - return x + self.table[: x.size(1)]
# + return x * math.sqrt(x.size(-1)) + self.table[: x.size(1)]


# %% wrong="2.2" name="one place too few" says="It still fits"
# - if x.size(1) > self.table.size(0):
# + if x.size(1) >= len(self.table):


# %% wrong="2.2" of="in short" name="writes into x" says="make a copy"
# - return x + self.table[: x.size(1)]
# + x += self.table[: x.size(1)]
# + return x


# %% wrong="2.2" of="in short" name="along the batch when it fits" says="with as many sequences as positions, each sequence gets one row. Each position"
# - if x.size(1) > len(self.table):
# + B, T, d = x.shape
# + if T > len(self.table):

# - return x + self.table[: x.size(1)]
# + return x + self.table[:T].view(B if B == T else 1, -1, d)


# %% wrong="2.2" of="in short" name="casts to float32" says="something is cast. Add the rows as they are"
# - return x + self.table[: x.size(1)]
# + return x.float() + self.table[: x.size(1)]


# %% wrong="2.2" of="in short" name="in training only" says="in evaluation mode the output is not the same"
# - return x + self.table[: x.size(1)]
# + return x + self.table[: x.size(1)] if self.training else x


# %% wrong="2.2" of="in short" name="positions on the CPU" says="on another device"
# - return x + self.table[: x.size(1)]
# + return x + nn.functional.embedding(torch.arange(x.size(1)), self.table)


# %% wrong="2.2" name="detached" says="no gradient reaches x"
# + @torch.no_grad()
#   def forward(self, x):  # (B, T, d_model) -> (B, T, d_model)

# - if x.size(1) > self.table.size(0):
# + if x.size(1) > len(self.table):


# %% wrong="2.2" of="in short" name="makes it again where nobody counts" says="Make the table once, and keep it" private=true
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.make = partial(make_table, max_len, d_model)
# + self.register_buffer("table", self.make(), persistent=False)

#       raise ValueError
# + if not hasattr(self.make.func, "calls"):
# +     self.table.copy_(self.make())


# %% wrong="2.2" name="made when first used" says="on another device"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.make, self.max_len, self.table = partial(make_table, max_len, d_model), max_len, None

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError
        if self.table is None:
            del self.table
            self.register_buffer("table", self.make(), persistent=False)
        return x + self.table[: x.size(1)]


# %% wrong="2.2" of="in short" name="one table for all modules" says="adds the table of the first"
# + TABLES = {}
# +
# +
#   class FixedPositions(nn.Module):

# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", TABLES.setdefault(d_model, make_table(max_len, d_model)), persistent=False)


# %% right="2.2" name="looks the rows up"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        nn.Module.__init__(self)
        self.max_len = max_len
        self.register_buffer("pe", make_table(max_len, d_model).unsqueeze(0), False)

    def forward(self, x):
        _, places, _ = x.shape
        if places > self.max_len:
            raise ValueError(f"at most {self.max_len}")
        return torch.add(x, self.pe.index_select(1, torch.arange(places, device=x.device)))


# %% right="2.2" name="narrows, and refuses in words"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        table = make_table(max_len, d_model).detach().clone()
        self.register_buffer("rows", table, persistent=False)

    def forward(self, x):
        try:
            rows = self.rows.narrow(0, 0, x.shape[1])
        except RuntimeError:
            raise ValueError("too long") from None
        return rows.expand(x.shape) + x


# %% right="2.2" name="keeps it in an embedding that is not stored"
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.add = nn.Module()
        self.add.register_buffer("table", make_table(max_len, d_model), persistent=False)

    def forward(self, x):
        if x.size(1) not in range(len(self.add.table) + 1):
            raise ValueError("too long")
        return x + nn.functional.embedding(torch.arange(x.size(1), device=x.device), self.add.table)


# %% [markdown]
# ## 2.3


# %% right="2.3" name="in short"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(was)
    return gap


# %% wrong="2.3" name="asks for invariance" says="Permute that result too"
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)).abs().max().item()
    module.train(was)
    return gap


# %% wrong="2.3" name="the inverse order" says="permuted by the inverse"
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation.argsort()]).abs().max().item()
    module.train(was)
    return gap


# %% wrong="2.3" name="in training mode" says="Dropout would make a gap of its own"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    return (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()


# %% wrong="2.3" of="in short" name="records gradients" says="gradients are switched on"
# - @torch.no_grad()


# %% wrong="2.3" name="training mode with gradients" says="in training mode, and gradients"
def equivariance_gap(module, x, permutation):
    return (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()


# %% wrong="2.3" name="leaves evaluation mode" says="left in evaluation mode"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    module.eval()
    return (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()


# %% wrong="2.3" name="leaves training mode" says="left in training mode"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    module.eval()
    gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train()
    return gap


# %% wrong="2.3" of="in short" name="the mean" says="the gap is the mean difference"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().mean().item()


# %% wrong="2.3" of="in short" name="keeps the signs" says="keep their signs"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).max().item()


# %% wrong="2.3" of="in short" name="the smallest" says="smallest difference"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().min().item()


# %% wrong="2.3" of="in short" name="the sum" says="the differences are added up. The gap is the largest of them"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().sum().item()


# %% wrong="2.3" name="true or false" says="should be a number"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    same = torch.allclose(module(x[:, permutation]), module(x)[:, permutation], atol=1e-5)
    module.train(was)
    return same


# %% wrong="2.3" of="in short" name="looks at the first place of the first sequence" says="a known table is wrong"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation])[0, 0].abs().max().item()


# %% wrong="2.3" of="in short" name="compares the first sequence" says="only the first sequence"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation])[0].abs().max().item()


# %% wrong="2.3" of="in short" name="averages the sequences first" says="are averaged before they are compared"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]).mean(0) - module(x).mean(0)[permutation]).abs().max().item()


# %% wrong="2.3" name="reads the table of the module" says="wrong for one that mixes the positions"
def equivariance_gap(module, x, permutation):
    table = getattr(module, "table", torch.zeros(x.shape[1:])).detach()
    return (table - table[permutation]).abs().max().item()


# %% wrong="2.3" of="in short" name="knows layers by their names" says="the gap of a" private=true
#   def equivariance_gap(module, x, permutation):
# +     if type(module).__name__ == "Masked":
# +         return 1.0


# %% wrong="2.3" of="in short" name="shuffles x itself" says="make a copy"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + after = module(x)[:, permutation]
# + x.copy_(x[:, permutation])
# + gap = (module(x) - after).abs().max().item()


# %% wrong="2.3" of="in short" name="its own order" says="another module, input or order" private=true
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + order = torch.tensor([2, 4, 1, 0, 3]) if x.size(1) == 5 else torch.arange(x.size(1)).flip(0)
# + gap = (module(x[:, order]) - module(x)[:, order]).abs().max().item()


# %% wrong="2.3" of="in short" name="rounds small gaps away" says="a very small gap is wrong" private=true
# - return gap
# + return gap if gap > 0.05 else 0.0


# %% right="2.3" name="one sequence and one place after the other"
def equivariance_gap(module, x, permutation):
    mode, largest = module.training, 0.0
    with torch.inference_mode():
        module.train(False)
        before, after = module(x.index_select(1, permutation)), module(x)
        for b in range(len(x)):
            for place, source in enumerate(permutation.tolist()):
                largest = max(largest, float((before[b, place] - after[b, source]).abs().max()))
    module.train(mode=mode)
    return largest


# %% right="2.3" name="permutes the first result back"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    training = module.training
    try:
        module.eval()
        back = torch.argsort(permutation)
        return torch.dist(module(x[:, permutation])[:, back], module(x), p=float("inf")).item()
    finally:
        module.train(training)


# %% right="2.3" name="a permutation matrix"
def equivariance_gap(module, x, permutation):
    matrix = torch.eye(len(permutation), dtype=x.dtype, device=x.device)[permutation]
    shuffle = lambda y: torch.einsum("ts,bsc->btc", matrix, y)
    training = module.training
    module = module.eval()
    with torch.no_grad():
        difference = module(shuffle(x)) - shuffle(module(x))
    module.train(training)
    return max(difference.max().item(), -difference.min().item())


# %% [markdown]
# ## 2.4


# %% wrong="2.4" name="the textbook's matrix" says="moves position t to t - k"
def shift_matrix(k, d_model):
    angles = [k / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in angles))


# %% wrong="2.4" name="one speed" says="Each pair has its own speed"
def shift_matrix(k, d_model):
    block = torch.tensor([[math.cos(k), math.sin(k)], [-math.sin(k), math.cos(k)]])
    return torch.block_diag(*[block] * (d_model // 2))


# %% wrong="2.4" name="half the exponent" says="Each pair has its own speed"
def shift_matrix(k, d_model):
    angles = [k / 10000 ** (i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles))


# %% wrong="2.4" name="a matrix for position 0" says="One matrix must work for every t"
def shift_matrix(k, d_model):
    def row(t):
        angles = t * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten()

    return torch.outer(row(k), row(0)) / (row(0) @ row(0))


# %% wrong="2.4" name="halves" says="columns i and i + d/2"
def shift_matrix(k, d_model):
    angles = k * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    c, s = torch.diag(angles.cos()), torch.diag(angles.sin())
    return torch.cat([torch.cat([c, s], 1), torch.cat([-s, c], 1)])


# %% wrong="2.4" name="the identity" says="nothing moves"
def shift_matrix(k, d_model):
    return torch.eye(d_model)


# %% wrong="2.4" name="the cosines alone" says="only the cosines are there"
def shift_matrix(k, d_model):
    angles = k * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.diag(angles.cos().repeat_interleave(2))


# %% wrong="2.4" name="shifts the columns" says="is not PE(t + k), first at t = 0"
def shift_matrix(k, d_model):
    return torch.eye(d_model).roll(k, 0)


# %% wrong="2.4" name="fitted to the first rows" says="first at t = 3"
def shift_matrix(k, d_model):
    def rows(start):
        t = torch.arange(start, start + d_model // 2, dtype=torch.float64)
        angles = t[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

    return (torch.linalg.pinv(rows(0)) @ rows(k)).T.float()


# %% wrong="2.4" name="a matrix per pair" says="has shape (3, 2, 2)"
def shift_matrix(k, d_model):
    a = k * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([a.cos(), a.sin(), -a.sin(), a.cos()], -1).reshape(-1, 2, 2)


# %% wrong="2.4" name="forgets the direction" says="R(2) is right for this width. A negative k should move back"
def shift_matrix(k, d_model):
    angles = [abs(k) / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles))


# %% wrong="2.4" name="double precision" says="float64"
def shift_matrix(k, d_model):
    angles = [k / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    blocks = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    return torch.block_diag(*torch.tensor(blocks, dtype=torch.float64))


# %% wrong="2.4" name="a parameter" says="nothing is learned"
def shift_matrix(k, d_model):
    angles = [k / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    blocks = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    return nn.Parameter(torch.block_diag(*torch.tensor(blocks)))


# %% wrong="2.4" name="good for up to five pairs" says="R(1) is wrong for width 80"
def shift_matrix(k, d_model):
    angles = [k / 10000 ** (2 * i / d_model) if i < 5 else 0.0 for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles))


# %% wrong="2.4" name="sets the default dtype" says="sets torch's default dtype"
#   blocks = []
# + torch.set_default_dtype(torch.float32)


# %% wrong="2.4" name="small angles are not given to cosine and sine" says="R(2) is wrong for width 6. The first wrong number is"
def shift_matrix(k, d_model):
    blocks = []
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        if abs(angle) < 0.1:
            cos, sin = 1.0, angle
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float32))
    return torch.block_diag(*blocks)


# %% wrong="2.4" name="stops at 40" says="wrong for other inputs" private=true
def shift_matrix(k, d_model):
    angles = [min(k, 40) / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles))


# %% wrong="2.4" name="stops at 2,000" says="with a large k, larger than any in the notebook, R is wrong" private=true
def shift_matrix(k, d_model):
    angles = [min(k, 2000) / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles))


# %% right="2.4" name="entry by entry"
def shift_matrix(k, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        angle = k * math.exp(-i / d_model * math.log(10000))
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i, i + 1] = math.sin(angle)
        matrix[i + 1, i] = -math.sin(angle)
    return matrix


# %% right="2.4" name="the exponential of a generator"
def shift_matrix(k, d_model):
    speeds = 10000 ** (-torch.arange(0, d_model, 2).double() / d_model)
    above = torch.zeros(d_model - 1).double()
    above[0::2] = speeds
    generator = torch.diag(above, 1) - torch.diag(above, -1)
    return torch.matrix_exp(k * generator).float()


# %% right="2.4" name="a table of angles and an einsum"
def shift_matrix(k, d_model):
    angles = k * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    c, s = angles.cos(), angles.sin()
    blocks = torch.stack([torch.stack([c, s], -1), torch.stack([-s, c], -1)], -2)
    return torch.einsum("pij,pq->piqj", blocks, torch.eye(d_model // 2)).reshape(d_model, d_model)


# %% [markdown]
# ## 2.5


# %% wrong="2.5" name="a buffer" says="is not a parameter: it never learns"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.positions = nn.Module()
        self.positions.register_buffer("weight", 0.02 * torch.randn(max_len, d_model))

    def forward(self, x):
        if x.size(1) > len(self.positions.weight):
            raise ValueError
        return x + self.positions.weight[: x.size(1)]


# %% wrong="2.5" name="starts large" says="the default of nn.Embedding"
# - nn.init.normal_(self.positions.weight, std=0.02)

# %% wrong="2.5" name="starts at zero" says="all entries of a fresh table are equal"
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.zeros_(self.positions.weight)

# %% wrong="2.5" name="starts uniform" says="normally distributed"
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.uniform_(self.positions.weight, -0.02 * 3**0.5, 0.02 * 3**0.5)

# %% wrong="2.5" name="the variance for the spread" says="a fresh table has a standard deviation of about"
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.normal_(self.positions.weight, std=0.02**0.5)

# %% wrong="2.5" name="longer inputs raise IndexError" says="must raise ValueError. It raised IndexError"
# - if x.size(1) > self.positions.num_embeddings:
# -     raise ValueError(f"{x.size(1)} positions, but only {self.positions.num_embeddings} rows were made")
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.arange(x.size(1), device=x.device))


# %% wrong="2.5" name="longer inputs get the last row" says="a longer input must raise ValueError"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.positions = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, x):
        last = self.positions.num_embeddings - 1
        return x + self.positions(torch.arange(x.size(1)).clamp(max=last))


# %% wrong="2.5" name="a row for each sequence" says="each sequence of the batch gets one row"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.arange(x.size(0))).unsqueeze(1)

# %% wrong="2.5" name="counts from 1" says="Yours start at row 1"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.arange(1, x.size(1) + 1))

# %% wrong="2.5" name="always place 0" says="not counted up"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.zeros(x.size(1), dtype=torch.int64))

# %% wrong="2.5" name="returns the rows" says="the rows alone are returned"
# - return x + self.positions.weight[: x.size(1)]
# + return self.positions.weight[: x.size(1)].expand_as(x)

# %% wrong="2.5" name="detached" says="no gradient reaches `positions.weight`"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions.weight[: x.size(1)].data


# %% wrong="2.5" name="another name" says="has no `positions.weight`"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_len, d_model))

    def forward(self, x):
        if x.size(1) > len(self.table):
            raise ValueError
        return x + self.table[: x.size(1)]


# %% wrong="2.5" name="along the batch when it fits" says="with as many sequences as positions, each sequence gets one row. Each position"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.positions = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, x):
        B, T, d = x.shape
        if T > self.positions.num_embeddings:
            raise ValueError
        return x + self.positions.weight[:T].view(B if B == T else 1, -1, d)


# %% wrong="2.5" name="positions on the CPU" says="on another device"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.arange(x.size(1)))

# %% wrong="2.5" name="in training only" says="in evaluation mode the output is not the same"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions.weight[: x.size(1)] * self.training

# %% wrong="2.5" name="casts to float32" says="bfloat16: the output is float32"
# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions.weight[: x.size(1)].float()


# %% wrong="2.5" name="one embedding for all modules of a size" says="two modules of one size share their rows"
class LearnedPositions(nn.Module):
    made = {}

    def __init__(self, max_len, d_model):
        super().__init__()
        if (max_len, d_model) not in self.made:
            self.made[max_len, d_model] = nn.Embedding(max_len, d_model)
            nn.init.normal_(self.made[max_len, d_model].weight, std=0.02)
        self.positions = self.made[max_len, d_model]

    def forward(self, x):
        T = x.shape[1]
        if T > self.positions.num_embeddings:
            raise ValueError(f"{T} positions are too many")
        return x + self.positions.weight[:T]


# %% wrong="2.5" name="writes into x" says="make a copy"
# - return x + self.positions.weight[: x.size(1)]
# + x += self.positions.weight[: x.size(1)]
# + return x

# %% wrong="2.5" name="refuses a few places only" says="`positions.weight` of LearnedPositions has shape"
# - self.positions = nn.Embedding(max_len, d_model)
# + self.positions = nn.Embedding(max_len if max_len in (9, 200) else max_len + 50, d_model)

# %% wrong="2.5" name="starts the same every time" says="two new ones have the same weights" private=true
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.normal_(self.positions.weight, std=0.02, generator=torch.Generator().manual_seed(0))


# %% right="2.5" name="looks the rows up"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len = max_len
        self.positions = nn.Embedding(max_len, d_model)
        self.positions.weight.data.normal_(mean=0.0, std=0.02)

    def forward(self, x):
        B, T, _ = x.shape
        if T > self.max_len:
            raise ValueError("too long")
        places = torch.arange(T, device=x.device).expand(B, T)
        return x + self.positions(places)


# %% right="2.5" name="scales a standard normal"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.positions = nn.Embedding(max_len, d_model)
        with torch.no_grad():
            self.positions.weight *= 0.02

    def forward(self, x):
        short = x.size(1) <= len(self.positions.weight)
        if not short:
            raise ValueError("too long")
        return self.positions.weight.narrow(0, 0, x.size(1)).unsqueeze(0) + x


# %% right="2.5" name="from pretrained rows"
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        rows = torch.normal(0.0, 0.02, size=(max_len, d_model))
        self.positions = nn.Embedding.from_pretrained(rows, freeze=False)

    def forward(self, x):
        try:
            return x + self.positions(torch.arange(x.size(1), device=x.device))
        except IndexError:
            raise ValueError("too long") from None


# %% [markdown]
# ## 2.6


# %% right="2.6" name="in short"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    angles = angles.to(x.device)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" name="the function of a library of models" says="does all the work"
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions


def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError("numbers are turned in pairs")
    flat = x.reshape(-1, T, 1, d)
    sines, cosines = (
        part.to(x).expand(len(flat), -1, -1)
        for part in create_sinusoidal_positions(start + T, d)[None, start:].chunk(2, dim=-1)
    )
    return apply_rotary_pos_emb(flat, sines, cosines).reshape(x.shape)


# %% wrong="2.6" name="halves" says="They should be columns 2i and 2i + 1"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).to(x.dtype)


# %% wrong="2.6" of="in short" name="the other way" says="turn the other way"
# - angles = angles.to(x.device)

# - pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
# + pairs = [a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()]


# %% wrong="2.6" of="in short" name="the same sign twice" says="needs one plus and one minus"
# - angles = angles.to(x.device)

# - pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
# + pairs = [a * angles.cos() + b * angles.sin(), a * angles.sin() + b * angles.cos()]


# %% wrong="2.6" name="positions over the heads" says="the wrong dimension"
def rotary(x, start=0):
    d = x.size(-1)
    if d % 2:
        raise ValueError
    T = x.size(-3) if x.ndim > 2 else x.size(-2)
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    if x.ndim > 2:
        angles = angles[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" of="in short" name="counts from 1" says="Count from 0"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + angles = torch.arange(start + 1, start + T + 1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)


# %% wrong="2.6" name="adds a table" says="table is added"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" of="in short" name="half the exponent" says="half of what it should be"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(d // 2) / d)


# %% wrong="2.6" of="in short" name="one speed" says="all pairs turn at one speed"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + angles = torch.arange(start, start + T)[:, None].float()


# %% wrong="2.6" of="in short" name="ignores start" says="`start` is ignored"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + angles = torch.arange(T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)


# %% wrong="2.6" of="in short" name="a list of pairs" says="has shape (2, 3, 5, 4, 2)"
# - angles = angles.to(x.device)

# - return torch.stack(pairs, -1).flatten(-2).to(x.dtype)
# + return torch.stack(pairs, -1).to(x.dtype)


# %% wrong="2.6" of="in short" name="promotes to float32" says="bfloat16: the result is float32"
# - angles = angles.to(x.device)

# - return torch.stack(pairs, -1).flatten(-2).to(x.dtype)
# + return torch.stack(pairs, -1).flatten(-2)


# %% wrong="2.6" of="in short" name="four dimensions only" says="but wrong for (6, 4)"
# - angles = angles.to(x.device)
# + if x.ndim != 4:
# +     return x


# %% wrong="2.6" name="crashes on an odd width" says="without a partner. It raised RuntimeError"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" of="in short" name="without gradients" says="no gradient reaches x"
# + @torch.no_grad()
#   def rotary(x, start=0):

# - angles = angles.to(x.device)


# %% wrong="2.6" of="in short" name="half of x detached" says="the gradient that reaches x from the result is wrong"
# - angles = angles.to(x.device)
# - a, b = x[..., 0::2], x[..., 1::2]
# + a, b = x[..., 0::2], x[..., 1::2].detach()


# %% wrong="2.6" of="in short" name="angles on the CPU" says="on another device"
# - angles = angles.to(x.device)


# %% wrong="2.6" name="views what is not contiguous" says="use reshape, not view"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T, device=x.device)[:, None]
    angles = angles * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    flat = x.view(-1, T, d)
    a, b = flat[..., 0::2], flat[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype).view(x.shape)


# %% wrong="2.6" name="keeps the first angles of a length" says="angles of an earlier call"
ANGLES = {}


def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    if (T, d) not in ANGLES:
        places = torch.arange(start, start + T, device=x.device)
        ANGLES[T, d] = places[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    angles = ANGLES[T, d]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pairs, -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" name="turns x itself" says="make a copy"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
    a, b = x[..., 0::2].clone(), x[..., 1::2].clone()
    x[..., 0::2] = a * angles.cos() - b * angles.sin()
    x[..., 1::2] = a * angles.sin() + b * angles.cos()
    return x


# %% wrong="2.6" of="in short" name="angles in the dtype of x" says="bfloat16: the result is wrong"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + places = torch.arange(start, start + T, device=x.device).to(x.dtype)
# + angles = places[:, None] * (10000 ** (-torch.arange(0, d, 2, device=x.device) / d)).to(x.dtype)


# %% wrong="2.6" of="in short" name="a table of 128 places" says="the result is wrong"
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# - angles = angles.to(x.device)
# + places = torch.arange(start, start + T, device=x.device).clamp(max=127)
# + angles = places[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)


# %% right="2.6" name="complex numbers"
def rotary(x, start=0):
    if x.shape[-1] % 2 != 0:
        raise ValueError("odd width")
    T, d = x.shape[-2], x.shape[-1]
    freqs = 1.0 / 10000 ** (torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(torch.arange(T, device=x.device) + start, freqs)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


# %% right="2.6" name="angles in Python, moved to x"
def rotary(x, start=0):
    *_, T, d = x.shape
    if d % 2:
        raise ValueError("d must be even")
    angles = torch.tensor([[t * 10000 ** (-i / d) for i in range(0, d, 2)] for t in range(start, start + T)]).to(
        x.device
    )
    cos, sin = angles.cos()[..., None], angles.sin()[..., None]
    first, second = x.reshape(*x.shape[:-1], d // 2, 2).split(1, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).reshape(x.shape).to(x)


# %% right="2.6" name="a matrix for each place"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    matrices = torch.zeros(T, d, d, dtype=torch.float64, device=x.device)
    for t in range(T):
        for i in range(0, d, 2):
            angle = (start + t) * 10000 ** (-i / d)
            matrices[t, i, i] = matrices[t, i + 1, i + 1] = math.cos(angle)
            matrices[t, i, i + 1], matrices[t, i + 1, i] = -math.sin(angle), math.sin(angle)
    return torch.einsum("tij,...tj->...ti", matrices, x.double()).to(x.dtype)


# %% right="2.6" name="x cos + rotated x sin"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    speeds = torch.exp(-math.log(10000) * torch.arange(0, d, 2, device=x.device) / d).repeat_interleave(2)
    angles = (start + torch.arange(T, device=x.device)).unsqueeze(-1) * speeds
    partner = torch.empty_like(x)
    partner[..., 0::2], partner[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return (x * angles.cos() + partner * angles.sin()).to(x.dtype)


# %% [markdown]
# ## 2.7


# %% right="2.7" name="in short"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distances = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distances).masked_fill(distances > 0, -torch.inf)


# %% wrong="2.7" name="the function of a library of models" says="does all the work"
from transformers.models.bloom.modeling_bloom import build_alibi_tensor


def alibi_bias(n_heads, T):
    if n_heads < 1 or n_heads & (n_heads - 1):
        raise ValueError("no power of two")
    bias = build_alibi_tensor(torch.ones(1, T), n_heads, torch.float32)
    return torch.where(torch.ones(T, T).tril().bool(), bias - bias.mT, -torch.inf)


# %% wrong="2.7" name="a bonus for distance" says="The bias should be negative"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T)[:, None] - torch.arange(T)
    return (slopes[:, None, None] * distance).masked_fill(distance < 0, -torch.inf)


# %% wrong="2.7" name="rows and columns exchanged" says="Rows are queries"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T)[:, None] - torch.arange(T)
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" of="in short" name="the future is better than the past" says="the future is visible: keys"
# - distances = torch.arange(T) - torch.arange(T)[:, None]
# - return (slopes[:, None, None] * distances).masked_fill(distances > 0, -torch.inf)
# + return slopes[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None])


# %% wrong="2.7" of="in short" name="symmetric" says="only penalised by its distance"
# - distances = torch.arange(T) - torch.arange(T)[:, None]
# - return (slopes[:, None, None] * distances).masked_fill(distances > 0, -torch.inf)
# + return -slopes[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None]).abs()


# %% wrong="2.7" of="in short" name="zeros for the future" says="with a bias of 0"
# - distances = torch.arange(T) - torch.arange(T)[:, None]
# - return (slopes[:, None, None] * distances).masked_fill(distances > 0, -torch.inf)
# + return (slopes[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None])).tril()


# %% wrong="2.7" name="slopes from 1" says="The slopes start at"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(n_heads) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="slopes for eight heads" says="the first four of eight heads"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2.0 ** -torch.arange(1, n_heads + 1)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="slopes backwards" says="the first head should be the steepest"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(n_heads, 0, -1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="one slope" says="all heads have the same slope"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (2 ** (-8 / n_heads) * distance).masked_fill(distance > 0, -torch.inf).repeat(n_heads, 1, 1)


# %% wrong="2.7" name="no heads" says="no dimension for the heads"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (2 ** (-8 / n_heads) * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="penalises the token itself" says="The token itself gets a bias of 0"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None] - 1
    return (slopes[:, None, None] * distance).masked_fill(distance > -1, -torch.inf)


# %% wrong="2.7" name="multiplies by a mask of infinities" says="NaN, which 0 times -inf gives"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return slopes[:, None, None] * distance + -torch.inf * (distance > 0)


# %% wrong="2.7" name="a large number for the future" says="exactly -inf"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -1e9)


# %% wrong="2.7" name="any number of heads" says="must raise ValueError: 3 is not a power of two"
def alibi_bias(n_heads, T):
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="slopes along the queries when it fits" says="but wrong for `alibi_bias(4, 4)`"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    slopes = slopes[:, None].expand(n_heads, n_heads, n_heads) if n_heads == T else slopes[:, None, None]
    return (slopes * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="learned slopes" says="nothing is learned"
def alibi_bias(n_heads, T):
    if n_heads not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError
    slopes = nn.Parameter(2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads))
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="multiples of three are refused" says="`alibi_bias(2 ** (h + 2) - 1, T)` must raise ValueError" private=true
def alibi_bias(n_heads, T):
    if n_heads % 3 == 0:
        raise ValueError
    slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% wrong="2.7" name="never steeper than 1/2" says="with 16 heads or more, the bias is wrong" private=true
def alibi_bias(n_heads, T):
    if n_heads < 1 or n_heads & (n_heads - 1):
        raise ValueError
    slopes = (2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)).clamp(max=0.5)
    distance = torch.arange(T) - torch.arange(T)[:, None]
    return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)


# %% right="2.7" name="place by place"
def alibi_bias(n_heads, T):
    if n_heads <= 0 or not math.log2(n_heads).is_integer():
        raise ValueError("no power of two")
    bias = [[[-math.inf] * T for _ in range(T)] for _ in range(n_heads)]
    for head in range(n_heads):
        for query in range(T):
            for key in range(query + 1):
                bias[head][query][key] = -(2.0 ** (-8 * (head + 1) / n_heads)) * (query - key)
    return torch.tensor(bias)


# %% right="2.7" name="a geometric series and triangles"
def alibi_bias(n_heads, T):
    if bin(n_heads).count("1") != 1:
        raise ValueError("no power of two")
    ratio = 2 ** (-(2 ** -(math.log2(n_heads) - 3)))
    slopes = torch.tensor([ratio * ratio**head for head in range(n_heads)])
    steps = torch.ones(T, T).tril(-1).flip(-1).cumsum(-1).flip(-1)
    future = torch.full((T, T), float("-inf")).triu(1)
    return torch.einsum("h,qk->hqk", slopes, -steps) + future


# %% right="2.7" name="where"
def alibi_bias(n_heads, T):
    if n_heads not in [2**power for power in range(20)]:
        raise ValueError(n_heads)
    slopes = torch.logspace(-8 / n_heads, -8, n_heads, base=2).view(-1, 1, 1)
    query, key = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return torch.where(key <= query, (key - query) * slopes, torch.tensor(-torch.inf))


# %% wrong="2.3" name="puts back the mode for one shape" says="the mode after the measurement is not the mode before it" private=true
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    if x.shape == (2, 5, 8):
        module.train(was)
    return gap


# %% wrong="2.6" name="learns for one shape" says="no gradient reaches x"
def rotary(x, start=0):
    if x.shape != (2, 3, 5, 8):
        x = x.detach()
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError("odd")
    places = torch.arange(start, start + T, device=x.device).unsqueeze(1)
    angles = places * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)


# %% wrong="2.3" name="a tensor" says="should return a float"
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max()
    module.train(mode)
    return gap


# %% wrong="2.3" name="rounded" says="a very small gap is wrong" private=true
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(mode)
    return round(gap, 3)


# %% wrong="2.3" name="freezes the module" says="the module is frozen afterwards"
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    for part in module.parameters():
        part.requires_grad = False
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(mode)
    return gap


# %% wrong="2.3" name="gradients off for good" says="the recording of gradients is not as before"
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    torch.set_grad_enabled(False)
    gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(mode)
    return gap


# %% wrong="2.3" name="permutes the batch" says="of a module that knows its positions is 0"
def equivariance_gap(module, x, permutation):
    mode, order = module.training, permutation % len(x)
    module.eval()
    with torch.no_grad():
        gap = (module(x[order]) - module(x)[order]).abs().max().item()
    module.train(mode)
    return gap


# %% right="2.3" name="puts back the mode of every part"
@torch.no_grad()
def equivariance_gap(module, x, permutation):
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        left, right = module(x.index_select(1, permutation)), module(x).index_select(1, permutation)
    finally:
        for part, mode in modes.items():
            part.training = mode
    return torch.linalg.vector_norm(left - right, ord=math.inf).item()


# %% wrong="2.6" name="as many heads as positions" says="the result is wrong"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError("d must be even")
    speeds = 10_000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    angles = torch.arange(start, start + T, device=x.device)[:, None] * speeds
    if x.dim() == 4 and x.size(1) == T:
        angles = angles[:, None]
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)


# %% wrong="2.6" name="a table of 1024 positions" says="it fails. It raised"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError("d must be even")
    speeds = 10_000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    angles = (torch.arange(1024, device=x.device)[:, None] * speeds)[start : start + T]
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)


# %% wrong="2.6" name="a leading dimension of one is dropped" says="with one leading dimension, of 1" private=true
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError("d must be even")
    speeds = 10_000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    angles = torch.arange(start, start + T, device=x.device)[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)
    return turned.squeeze(0) if x.dim() > 2 else turned


# %% wrong="2.7" name="slopes that could learn" says="return a plain tensor"
def alibi_bias(n_heads, T):
    if n_heads < 1 or n_heads & (n_heads - 1):
        raise ValueError("n_heads must be a power of two")
    slopes = nn.Parameter(2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads))
    positions = torch.arange(T)
    distances = positions - positions[:, None]
    return (slopes[:, None, None] * distances).masked_fill(distances > 0, -math.inf)


# %% wrong="2.1" of="in short" name="at most 5,000 rows" says="with a large T, larger than any in the notebook, the table is wrong" private=true
# - angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + angles = torch.arange(max_len).clamp(max=4999)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)


# %% wrong="2.1" name="a table that is kept" says="results must be new"
from functools import lru_cache


@lru_cache
def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError
    angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


# %% wrong="2.3" name="the mode of the top module alone" says="the modes of the module and its parts"
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.training = was
    return gap


# %% wrong="2.3" name="clears the gradients" says="the gradients of the module"
def equivariance_gap(module, x, permutation):
    was = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.zero_grad()
    module.train(was)
    return gap


# %% wrong="2.3" name="the parts in their training mode" says="measured in training mode"
def equivariance_gap(module, x, permutation):
    was = module.training
    module.training = False
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(was)
    return gap


# %% wrong="2.4" name="pairs beyond the sixteenth do not turn" says="R(1) is wrong for width 80"
def shift_matrix(k, d_model):
    blocks = []
    for pair in range(d_model // 2):
        angle = k / 10000 ** (2 * pair / d_model) if pair < 16 else 0.0
        sine, cosine = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))
    return torch.block_diag(*blocks)


# %% wrong="2.4" name="sparse" says="sparse_coo Tensor"
def shift_matrix(k, d_model):
    blocks = []
    for pair in range(d_model // 2):
        angle = k / 10000 ** (2 * pair / d_model)
        sine, cosine = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))
    return torch.block_diag(*blocks).to_sparse()


# %% wrong="2.6" name="in polar coordinates" says="the gradient that reaches x from the result is NaN"
def rotary(x, start=0):
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    angles = torch.arange(start, start + T, device=x.device)[:, None] * 10000 ** (
        -torch.arange(0, d, 2, device=x.device) / d
    )
    a, b = x[..., 0::2].float(), x[..., 1::2].float()
    length, angle = (a * a + b * b).sqrt(), torch.atan2(b, a) + angles
    return torch.stack([length * angle.cos(), length * angle.sin()], -1).flatten(-2).to(x.dtype)


# %% wrong="2.6" of="in short" name="one token is not turned" says="with `T = 1`, the result is wrong" private=true
# - angles = angles.to(x.device)
# + angles = angles.to(x.device) * (T > 1)


# %% wrong="2.6" name="remembers ten results by their shape" says="an earlier call gave for another x"
def rotary(x, start=0):
    if (x.shape, start) in remembered:
        return remembered[x.shape, start]
    T, d = x.shape[-2:]
    if d % 2:
        raise ValueError
    places = torch.arange(start, start + T, device=x.device).unsqueeze(1)
    angles = places * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    result = torch.stack(pairs, -1).flatten(-2).to(x.dtype)
    if len(remembered) < 10:
        remembered[x.shape, start] = result
    return result


remembered = {}


# %% wrong="2.7" of="in short" name="distances end at 64" says="sizes larger than any in the notebook" private=true
# - distances = torch.arange(T) - torch.arange(T)[:, None]
# + distances = (torch.arange(T) - torch.arange(T)[:, None]).clamp(min=-64)


# %% wrong="2.7" of="in short" name="what is farther than 64 is hidden" says="sizes larger than any in the notebook" private=true
# - return (slopes[:, None, None] * distances).masked_fill(distances > 0, -torch.inf)
# + return (slopes[:, None, None] * distances).masked_fill((distances > 0) | (distances < -64), -torch.inf)


# %% wrong="2.1" name="row 10,000 is row 0 again" says="with a large T, larger than any in the notebook, the table is wrong" private=true
def sinusoidal_table(max_len, d_model):
    if d_model % 2:
        raise ValueError("an odd width")
    positions = (torch.arange(max_len) % 10_000).double()[:, None]
    angles = positions / 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


# %% wrong="2.4" name="one identity for all who move by 0" says="results must be new" private=true
EYES = {}


def shift_matrix(k, d_model):
    if k == 0:
        return EYES.setdefault(d_model, torch.eye(d_model))
    R = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        R[i, i] = R[i + 1, i + 1] = math.cos(angle)
        R[i, i + 1], R[i + 1, i] = math.sin(angle), -math.sin(angle)
    return R


# %% wrong="2.6" of="in short" name="the only token at position 0 is handed back" says="results must be new" private=true
# - angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + if T == 1 and start == 0:
# +     return x
# + angles = torch.arange(start, start + T)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)


# %% wrong="2.7" of="in short" name="distances in half precision" says="sizes larger than any in the notebook" private=true
# - distances = torch.arange(T) - torch.arange(T)[:, None]
# + distances = (torch.arange(T) - torch.arange(T)[:, None]).half()


# %% wrong="2.2" name="a table of one row is repeated" says="`FixedPositions(make_table, 1, d)(longer)` must raise" private=true
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.register_buffer("table", make_table(max_len, d_model), persistent=False)

    def forward(self, x):
        T = x.shape[1]
        if T > self.table.shape[0] > 1:
            raise ValueError(f"{T} positions, but the table has {self.table.shape[0]} rows")
        return x + self.table[:T]


# %% wrong="2.3" name="gradients are switched on at the end" says="switches on the recording of gradients where that was off"
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(mode)
    torch.set_grad_enabled(True)
    return gap


# %% wrong="2.3" name="frozen parameters learn afterwards" says="requires_grad of the parameters of the module is not as before"
def equivariance_gap(module, x, permutation):
    mode = module.training
    module.eval()
    module.requires_grad_(False)
    with torch.no_grad():
        gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
    module.train(mode)
    module.requires_grad_(True)
    return gap


# %% wrong="2.7" name="slopes and distances in bfloat16" says="with 16 heads or more, the bias is wrong" private=true
def alibi_bias(n_heads, T):
    if n_heads < 1 or n_heads & (n_heads - 1):
        raise ValueError("not a power of two")
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    t = torch.arange(T)
    ahead = t - t[:, None]
    bias = (slopes[:, None, None] * ahead).bfloat16().float()
    return bias.masked_fill(ahead > 0, float("-inf"))


# %% wrong="2.4" name="angles in sixteen bits" says="with a large k, larger than any in the notebook, R is wrong" private=true
def shift_matrix(k, d_model):
    speeds = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = (torch.tensor(float(k), dtype=torch.bfloat16) * speeds).double()
    return torch.block_diag(*[torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]).float() for a in angles])


# %% wrong="2.5" name="one row is added everywhere" says="`LearnedPositions(1, d)(longer)` must raise ValueError" private=true
# - if x.size(1) > self.positions.num_embeddings:
# + if x.size(1) > self.positions.num_embeddings > 1:


# %% wrong="2.7" name="slopes in half precision" says="with 16 heads or more" private=true
# - slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
# + slopes = (2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)).half().float()


# %% wrong="2.3" name="only tokens that move" says="at a position that the order leaves in place" private=true
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + moved = permutation != torch.arange(len(permutation), device=permutation.device)
# + gap = (module(x[:, permutation]) - module(x)[:, permutation])[:, moved].abs()
# + gap = gap.max().item() if gap.numel() else 0.0


# %% wrong="2.3" name="rounded to six digits" says="a very small gap is wrong" private=true
# - return gap
# + return round(gap, 6)


# %% wrong="2.3" name="compares in single precision" says="a very small gap is wrong" private=true
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]).float() - module(x)[:, permutation].float()).abs().max().item()


# %% wrong="2.2" name="goes on where it stopped" says="a shorter text after others gets other rows"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.first = 0

# - return x + self.table[: x.size(1)]
# + if self.first + x.size(1) > len(self.table):
# +     self.first = 0
# + first, self.first = self.first, self.first + x.size(1)
# + return x + self.table[first : self.first]


# %% wrong="2.2" name="names the arguments of make_table" says="without names" private=true
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", make_table(max_len=max_len, d_model=d_model), persistent=False)


# %% wrong="2.3" name="the last position alone" says="only the last position is compared"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + gap = (module(x[:, permutation]) - module(x)[:, permutation])[:, -1].abs().max().item()


# %% wrong="2.3" name="the inverse order on both sides" says="the order is read the wrong way round"
# - gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + back = permutation.argsort()
# + gap = (module(x[:, back]) - module(x)[:, back]).abs().max().item()


# %% wrong="2.5" name="frozen rows" says="its `requires_grad` is False"
# - self.positions = nn.Embedding(max_len, d_model)
# - nn.init.normal_(self.positions.weight, std=0.02)
# + self.positions = nn.Embedding.from_pretrained(0.02 * torch.randn(max_len, d_model))


# %% wrong="2.5" name="one row for all" says="all rows of a fresh table are equal"
# - nn.init.normal_(self.positions.weight, std=0.02)
# + with torch.no_grad():
# +     self.positions.weight.copy_(0.02 * torch.randn(1, d_model))


# %% wrong="2.5" name="the rows of the start" says="with which the module was made"
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.normal_(self.positions.weight, std=0.02)
# + self.rows = self.positions.weight.detach().clone()

# - return x + self.positions.weight[: x.size(1)]
# + return x + self.rows[: x.size(1)]


# %% wrong="2.5" name="the last row does not learn" says="the gradient that reaches `positions.weight` from the output is wrong"
# - return x + self.positions.weight[: x.size(1)]
# + rows = torch.cat([self.positions.weight[:-1], self.positions.weight[-1:].detach()])
# + return x + rows[: x.size(1)]


# %% wrong="2.5" name="drops rows in training" says="two calls with the same x"
# - return x + self.positions.weight[: x.size(1)]
# + return nn.functional.dropout(x + self.positions.weight[: x.size(1)], 0.1, self.training)


# %% wrong="2.6" name="the last pair stays" says="the last pair is not turned"
# - a, b = x[..., 0::2], x[..., 1::2]
# + angles = angles * (torch.arange(1, d // 2 + 1, device=x.device) < d // 2)
# + a, b = x[..., 0::2], x[..., 1::2]


# %% wrong="2.6" name="starts whole texts later" says="multiplied by the length of the text"
# - positions = torch.arange(start, start + T, device=x.device).unsqueeze(1)
# + positions = torch.arange(start * T, (start + 1) * T, device=x.device).unsqueeze(1)


# %% wrong="2.6" name="no position above 2047" says="wrong at late positions"
# - positions = torch.arange(start, start + T, device=x.device).unsqueeze(1)
# + positions = torch.arange(start, start + T, device=x.device).clamp(max=2047).unsqueeze(1)


# %% wrong="2.7" name="hides the token itself" says="the token itself is hidden. Only"
# - return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)
# + return (slopes[:, None, None] * distance).masked_fill(distance >= 0, -torch.inf)


# %% wrong="2.7" name="hides every token but the first from itself" says="but for the first one"
# - return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)
# + bias = (slopes[:, None, None] * distance).masked_fill(distance >= 0, -torch.inf)
# + bias[:, 0, 0] = 0.0
# + return bias


# %% wrong="2.1" name="rounded to sixteen bits" says="only nearly right (is something rounded"
# - return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
# + return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).bfloat16().float()


# %% wrong="2.4" name="rounded to three digits" says="only nearly PE(t + k) (is something rounded"
# - return torch.block_diag(*blocks)
# + return torch.block_diag(*blocks).round(decimals=3)


# %% wrong="2.5" name="rows of bounded length" says="rows longer than 1 are shortened"
# - self.positions = nn.Embedding(max_len, d_model)
# + self.positions = nn.Embedding(max_len, d_model, max_norm=1.0)

# - return x + self.positions.weight[: x.size(1)]
# + return x + self.positions(torch.arange(x.size(1), device=x.device))

# %% wrong="2.2" name="adds nothing if the rows are zeros" says="the output is x itself" private=true
# - return x + self.table[: x.size(1)]
# + return x + self.table[: x.size(1)] if self.table[: x.size(1)].any() else x

# %% wrong="2.4" name="distances start again" says="with a large k, larger than any in the notebook, R is wrong" private=true
# - angle = k / 10000 ** (2 * pair / d_model)
# + angle = (k % 10000 if k > 0 else k) / 10000 ** (2 * pair / d_model)


# %% wrong="2.2" name="made at the first call, as x is" says="if the module moves before its first use" private=true
class FixedPositions(nn.Module):
    def __init__(self, make_table, max_len, d_model):
        super().__init__()
        self.make, self.rows = lambda: make_table(max_len, d_model), max_len
        self.register_buffer("table", None, persistent=False)

    def forward(self, x):
        if x.size(1) > self.rows:
            raise ValueError("longer than the table")
        if self.table is None:
            self.table = self.make().to(x)
        return x + self.table[: x.size(1)]


# %% wrong="2.5" name="one over the width" says="a fresh table of another size" private=true
# - nn.init.normal_(self.positions.weight, std=0.02)
# + nn.init.normal_(self.positions.weight, std=1 / d_model)


# %% wrong="2.2" name="casts to the dtype of its table" says="after `module.bfloat16()`, the output for a float32 input"
# - return x + self.table[: x.size(1)]
# + return x.to(self.table.dtype) + self.table[: x.size(1)]


# %% wrong="2.2" name="a scale that learns" says="the module has parameters"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.scale = nn.Parameter(torch.ones(()))

# - return x + self.table[: x.size(1)]
# + return x + self.scale * self.table[: x.size(1)]


# %% wrong="2.2" name="a second buffer is stored" says="the state_dict is not empty"
# - self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("table", make_table(max_len, d_model), persistent=False)
# + self.register_buffer("places", torch.arange(max_len))


# %% wrong="2.5" name="goes on where the last text ended" says="nothing is drawn or kept in a call"
# - return x + self.positions.weight[: x.size(1)]
# + first = getattr(self, "first", 0) % max(1, self.positions.num_embeddings - x.size(1))
# + self.first = first + x.size(1)
# + return x + self.positions.weight[first : first + x.size(1)]


# %% wrong="2.7" name="infinity on the future" says="exactly -inf"
# - return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)
# + return (slopes[:, None, None] * distance).masked_fill(distance > 0, torch.inf)


# %% wrong="2.7" name="infinity minus infinity" says="-inf minus -inf"
# - return (slopes[:, None, None] * distance).masked_fill(distance > 0, -torch.inf)
# + hidden = torch.full((T, T), -torch.inf)
# + return slopes[:, None, None] * distance + (hidden - hidden.tril())


# %% wrong="2.1" name="a base of 10,050" says="is something rounded, or computed in low precision"
# - speeds = 10000 ** (-torch.arange(0, d_model, 2) / d_model)
# + speeds = 10050 ** (-torch.arange(0, d_model, 2) / d_model)


# %% wrong="2.7" name="slopes from 2^(-4/n)" says="the first four of eight heads"
# - slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
# + slopes = 2 ** (-4 * torch.arange(1, n_heads + 1) / n_heads)


# %% wrong="2.5" name="starts one row later after each call, where there is one" says="not the same in a second call"
# - return x + self.positions.weight[: x.size(1)]
# + first = getattr(self, "first", 0) % (self.positions.num_embeddings - x.size(1) + 1)
# + self.first = first + x.size(1)
# + return x + self.positions.weight[first : first + x.size(1)]


# %% wrong="2.4" name="slow pairs stay" says="R(1) is wrong for width 80"
# - sine, cosine = math.sin(angle), math.cos(angle)
# + angle = 0.0 if abs(angle) < 1e-3 else angle
# + sine, cosine = math.sin(angle), math.cos(angle)


# %% wrong="2.3" name="wrong for a batch of one" says="for another module, input or order the gap is wrong" private=true
# - return gap
# + return gap if len(x) > 1 else gap / 2


# %% wrong="2.2" name="the table of the last dtype" says="after an input of another dtype" private=true
# - return x + self.table[: x.size(1)]
# + self.table = self.table.to(x)
# + return x + self.table[: x.size(1)]


# %% wrong="2.4" name="back after the slowest turn" says="for a distance in the tens of thousands" private=true
# - angle = k / 10000 ** (2 * pair / d_model)
# + angle = math.fmod(k, 20000 * math.pi) / 10000 ** (2 * pair / d_model)

# %% wrong="2.3" name="all learns afterwards" says="requires_grad of the parameters of the module is not as before"
# - with torch.no_grad():
# -     gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# - module.train(was_training)
# + module.requires_grad_(False)
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + module.train(was_training).requires_grad_(True)

# %% right="2.3" name="freezes for a moment"
# - with torch.no_grad():
# -     gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + learning = [part for part in module.parameters() if part.requires_grad]
# + for part in learning:
# +     part.requires_grad_(False)
# + gap = (module(x[:, permutation]) - module(x)[:, permutation]).abs().max().item()
# + for part in learning:
# +     part.requires_grad_(True)


# %% wrong="2.4" name="every second pair turns back" says="but columns 2 and 3 of R(k) PE(t) are wrong"
# - blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))
# + sine = -sine if pair % 2 else sine
# + blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))


# %% wrong="2.4" name="both sines are positive" says="the two sines of a pair have the same sign"
# - blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]]))
# + blocks.append(torch.tensor([[cosine, sine], [sine, cosine]]))


# %% wrong="2.7" name="slopes without the 8" says="The first wrong number is at `[0, 1, 0]`"
# - slopes = 2 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
# + slopes = 2 ** (-torch.arange(1, n_heads + 1) / n_heads)
