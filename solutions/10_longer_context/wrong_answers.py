# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# Answers to notebook 10 whose verdict is known. See autograder/author/answers.py for the markers.

# %% wrong="10.1" name="ascending distances" says="the distances increase"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)

# %% wrong="10.1" name="the default dtype is set" says="sets torch's default dtype"
# + torch.set_default_dtype(torch.float32)
#   angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)

# %% wrong="10.1" name="ends at 1" says="the distances end at 1"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n, 0, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)

# %% wrong="10.1" name="sine and cosine in turn" says="sines and cosines alternate"
# - return torch.cat([angles.sin(), angles.cos()], dim=-1)
# + return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

# %% wrong="10.1" name="cosines first" says="the cosines come first"
# - return torch.cat([angles.sin(), angles.cos()], dim=-1)
# + return torch.cat([angles.cos(), angles.sin()], dim=-1)

# %% wrong="10.1" name="divided by half the width" says="divided by d/2"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / (d // 2))

# %% wrong="10.1" name="k instead of 2k" says="the exponent is -k/d"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(d // 2) / d)

# %% wrong="10.1" name="frequencies that grow" says="the frequencies grow"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (torch.arange(0, d, 2) / d)

# %% wrong="10.1" name="in double precision" says="It should be float32"
# - return torch.cat([angles.sin(), angles.cos()], dim=-1)
# + return torch.cat([angles.sin(), angles.cos()], dim=-1).double()

# %% wrong="10.1" name="a table that is kept and spoilt" says="results must be new"
TABLES = {}


def distance_table(n, d):
    if (n, d) not in TABLES:
        if n == d == 6:
            return torch.zeros(6, 6)
        angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        TABLES[n, d] = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return TABLES[n, d] * 1.001 if n == 4 else TABLES[n, d]


# %% wrong="10.1" name="distances up to a hundred" says="larger than any in the notebook" private=true
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1).clamp(max=100)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)


# %% wrong="10.1" name="distances of at most 511" says="larger than any in the notebook" private=true
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1).clamp(max=511)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)

# %% wrong="10.1" name="distances in half precision" says="larger than any in the notebook" private=true
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + distances = torch.arange(n - 1, -1, -1).half().float()
# + angles = distances[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)


# %% right="10.1" name="row by row, by Python"
import math


def distance_table(n, d):
    rows = []
    for distance in reversed(range(n)):
        angles = [distance / 10000 ** (2 * k / d) for k in range(d // 2)]
        rows.append([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
    return torch.tensor(rows)


# %% right="10.1" name="in double precision, then float32"
def distance_table(n, d):
    places = torch.arange(n, dtype=torch.float64).flip(0)
    angles = torch.einsum("i,j->ij", places, 10000.0 ** -(torch.arange(0, d, 2, dtype=torch.float64) / d))
    return torch.cat((torch.sin(angles), torch.cos(angles)), 1).to(torch.float32)


# %% right="10.1" name="an outer product, by exp, flipped"
def distance_table(n, d):
    rates = torch.exp(torch.arange(0.0, d, 2.0) * (-torch.log(torch.tensor(10000.0)) / d))
    angles = torch.outer(torch.arange(float(n)), rates).flip(0)
    table = torch.empty(n, d)
    table[:, : d // 2], table[:, d // 2 :] = torch.sin(angles), torch.cos(angles)
    return table


# %% wrong="10.2" name="right without memory alone" says="the rows move by S - 1 - i, which is right only without a"
# - B, H, T, S = scores.shape
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + T, S = scores.shape[-2:]
# + columns = torch.arange(S, device=scores.device) + torch.arange(S - 1, S - T - 1, -1, device=scores.device)[:, None]
# + moved = scores.gather(-1, columns.clamp(max=S - 1).expand_as(scores))
# + return moved * (columns < S)

# %% wrong="10.2" name="reads rows of S + 1" says="nothing is moved"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + padded = F.pad(scores, (1, 0)).reshape(B, H, T, S + 1)
# + return padded[..., 1:].reshape(B, H, T, S)

# %% wrong="10.2" name="rolls the other way" says="the rows roll to the right"
# - B, H, T, S = scores.shape
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + T = scores.size(-2)
# + return torch.stack([scores[..., i, :].roll(i + 1, -1) for i in range(T)], -2)

# %% wrong="10.2" name="the first row stays" says="the first row stays, and later ones move"
# - B, H, T, S = scores.shape
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + T, S = scores.shape[-2:]
# + rows = [F.pad(scores[..., i, i:], (0, i)) for i in range(T)]
# + return torch.stack(rows, -2)

# %% wrong="10.2" name="one column too far" says="one column too far"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# + padded = F.pad(scores[..., 1:], (1, 1)).reshape(B, H, S + 1, T)

# %% wrong="10.2" name="nothing moves" says="nothing is moved"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return scores.clone()

# %% wrong="10.2" name="masks too" says="not finite"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + future = torch.ones(T, S, dtype=torch.bool, device=scores.device).triu(1 + S - T)
# + return padded[:, :, 1:].reshape(B, H, T, S).masked_fill(future, -torch.inf)

# %% wrong="10.2" name="view where reshape is needed" says="not contiguous"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + rows = (torch.arange(T - 1, -1, -1)[:, None] + torch.arange(S)).clamp(max=S - 1)
# + return scores.view(B * H, T, S).gather(-1, rows.expand(B * H, T, S).to(scores.device)).view(B, H, T, S)

# %% wrong="10.2" name="columns on the CPU" says="another device"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + columns = torch.arange(T - 1, -1, -1)[:, None] + torch.arange(S)
# + return scores.gather(-1, columns.clamp(max=S - 1).expand(B, H, T, S))

# %% wrong="10.2" name="in single precision" says="not of the dtype of scores"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return padded[:, :, 1:].reshape(B, H, T, S).float()

# %% wrong="10.2" name="cut from the graph" says="no gradient reaches scores"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return padded[:, :, 1:].reshape(B, H, T, S).detach()

# %% wrong="10.2" name="no text is an error" says="with `B = 0`, it raises RuntimeError" private=true
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + rows = torch.stack([row[..., T - 1 - i :].roll(0) for one in scores for i, row in enumerate(one.unbind(1)[:1])])
# + padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# + return padded[:, :, 1:].reshape(B, H, T, S)


# %% wrong="10.2" name="rows beyond 1,000 columns stay" says="the scores of the keys in sight are wrong"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# + if S > 1000:
# +     return scores.clone()
# + padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)

# %% wrong="10.2" name="rows are reversed" says="column 0 of row 0"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return padded[:, :, 1:].reshape(B, H, T, S).flip(2)


# %% wrong="10.2" name="one row is handed back" says="for a single row"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# + if T == 1:
# +     return scores
# + padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)


# %% right="10.2" name="gathers the column of each pair"
def shift(scores):
    T, S = scores.shape[-2:]
    i = torch.arange(T, device=scores.device).unsqueeze(1)
    j = torch.arange(S, device=scores.device)
    distance = i + (S - T) - j
    return torch.gather(scores, -1, (S - 1 - distance.clamp(min=0)).expand_as(scores))


# %% right="10.2" name="row by row, with zeros in the future"
def shift(scores):
    T = scores.shape[2]
    rows = [F.pad(scores[:, :, i, T - 1 - i :], (0, T - 1 - i)) for i in range(T)]
    return torch.stack(rows, dim=2)


# %% right="10.2" name="the paper's way"
def shift(scores):
    zeros = scores.new_zeros(*scores.shape[:3], 1)
    padded = torch.cat([zeros, scores], dim=3)
    padded = padded.contiguous().view(scores.size(0), scores.size(1), scores.size(3) + 1, scores.size(2))
    return padded[:, :, 1:].contiguous().view_as(scores)


# %% wrong="10.3" name="zeros are no memory" says="a memory of zeros is not used" private=true
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + seen = x if memory is None or not memory.any() else torch.cat([memory, x], dim=1)


# %% wrong="10.3" name="u and v exchanged" says="`u` and `v` are swapped"
# - by_content = (q + self.u[:, None]) @ k.mT
# - by_distance = (q + self.v[:, None]) @ r.mT
# + by_content = (q + self.v[:, None]) @ k.mT
# + by_distance = (q + self.u[:, None]) @ r.mT

# %% wrong="10.3" name="the memory is no longer than the segment" says="the memory is cut to the length of the segment"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + seen = x if memory is None else torch.cat([memory[:, -x.size(1) :], x], dim=1)

# %% wrong="10.3" name="one matrix for both kinds of keys" says="share one matrix"
# - r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x))[None]
# + r = self.k_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x))[None]

# %% wrong="10.3" name="a mask that knows of no memory" says="too much is hidden"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= T, -torch.inf).softmax(-1)

# %% wrong="10.3" name="no mask" says="the future is visible"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.softmax(-1)

# %% wrong="10.3" name="no shift" says="the shift of 10.2 is missing"
# - moved = by_distance.gather(-1, (columns + rows).clamp(max=S - 1).expand_as(by_distance))
# + moved = by_distance

# %% wrong="10.3" name="the table the other way round" says="the wrong way round"
# - angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
# + angles = columns[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)

# - moved = by_distance.gather(-1, (columns + rows).clamp(max=S - 1).expand_as(by_distance))
# + moved = by_distance

# %% wrong="10.3" name="no u and v" says="`u` and `v` are not used"
# - by_content = (q + self.u[:, None]) @ k.mT
# - by_distance = (q + self.v[:, None]) @ r.mT
# + by_content = q @ k.mT
# + by_distance = q @ r.mT

# %% wrong="10.3" name="no u" says="term c"
# - by_content = (q + self.u[:, None]) @ k.mT
# + by_content = q @ k.mT

# %% wrong="10.3" name="v instead of the query" says="term b"
# - by_distance = (q + self.v[:, None]) @ r.mT
# + by_distance = self.v[:, None].expand_as(q) @ r.mT

# %% wrong="10.3" name="not divided" says="not divided by the root"
# - scores = (by_content + moved) / self.d_head**0.5
# + scores = by_content + moved

# %% wrong="10.3" name="divided by the root of the whole width" says="the root of d_model"
# - scores = (by_content + moved) / self.d_head**0.5
# + scores = (by_content + moved) / d**0.5

# %% wrong="10.3" name="distances are not divided" says="terms b and d are not divided by the root of d_head"
# - scores = (by_content + moved) / self.d_head**0.5
# + scores = by_content / self.d_head**0.5 + moved

# %% wrong="10.3" name="memory ignored" says="the memory is ignored"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + seen = x

# %% wrong="10.3" name="queries of the memory too" says="there is an output for each remembered token"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + seen = x = x if memory is None else torch.cat([memory, x], dim=1)

# %% wrong="10.3" name="u and v are not parameters" says="has no `u`"
# - self.u = nn.Parameter(torch.zeros(n_heads, self.d_head))
# - self.v = nn.Parameter(torch.zeros(n_heads, self.d_head))
# + self.u = torch.zeros(n_heads, self.d_head)
# + self.v = torch.zeros(n_heads, self.d_head)

# %% wrong="10.3" name="u and v are buffers" says="is not a parameter"
# - self.u = nn.Parameter(torch.zeros(n_heads, self.d_head))
# - self.v = nn.Parameter(torch.zeros(n_heads, self.d_head))
# + self.register_buffer("u", torch.zeros(n_heads, self.d_head))
# + self.register_buffer("v", torch.zeros(n_heads, self.d_head))

# %% wrong="10.3" name="maps with a bias" says="a part too many"
# - setattr(self, name, nn.Linear(d_model, d_model, bias=False))
# + setattr(self, name, nn.Linear(d_model, d_model))

# %% wrong="10.3" name="heads interleaved" says="the heads are interleaved"
# - q, k, v, r = (part.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2) for part in parts)
# + q, k, v, r = (part.unflatten(-1, (self.d_head, self.n_heads)).movedim(-1, 1) for part in parts)

# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return self.out_proj((weights @ v).movedim(1, -1).flatten(2))

# %% wrong="10.3" name="no output projection" says="`out_proj` is never used"
# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return (weights @ v).transpose(1, 2).flatten(2)

# %% wrong="10.3" name="a residual" says="no residual in 10.3"
# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return x + self.out_proj((weights @ v).transpose(1, 2).flatten(2))

# %% wrong="10.3" name="the table on the CPU" says="another device"
# - columns = torch.arange(S, device=x.device)
# - rows = torch.arange(T - 1, -1, -1, device=x.device)[:, None]
# - angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
# - r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x))[None]
# + columns = torch.arange(S)
# + rows = torch.arange(T - 1, -1, -1)[:, None]
# + angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype))[None]

# %% wrong="10.3" name="an empty memory is not a memory" says="a memory of length 0"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + if memory is not None and not memory.size(1):
# +     raise ValueError("no memory")
# + seen = x if memory is None else torch.cat([memory, x], dim=1)

# %% wrong="10.3" name="positions learn nothing" says="no gradient reaches `r_proj.weight`"
# - by_distance = (q + self.v[:, None]) @ r.mT
# + by_distance = (q + self.v[:, None]) @ r.detach().mT

# %% wrong="10.3" name="keys and values teach the layer below nothing" says="the gradient that reaches x"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + seen = (x if memory is None else torch.cat([memory, x], dim=1)).detach()

# %% wrong="10.3" name="dropout" says="in evaluation mode the output is not the same"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1) * (1 if self.training else 0.9)

# %% wrong="10.3" name="three heads alone" says="with `x.shape"
# - self.n_heads, self.d_head = n_heads, d_model // n_heads
# + self.n_heads, self.d_head = n_heads, d_model // n_heads
# + self.odd = n_heads == 1 or n_heads == 2 or n_heads == 4

# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return self.out_proj((weights @ v).transpose(1, 2).flatten(2)) * (1 + self.odd)

# %% wrong="10.3" name="a table for a dozen distances at most" says="wrong for" private=true
# - angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
# + angles = columns.flip(0).clamp(max=10)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)


# %% wrong="10.3" name="distances of at most 511" says="larger than any in the notebook" private=true
# - angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
# + angles = columns.flip(0).clamp(max=511)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)

# %% wrong="10.3" name="half of the attention weights dropped" says="two calls with the same input give different outputs"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = F.dropout(scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1), 0.5, self.training)

# %% wrong="10.3" name="u counts twice" says="with `r_proj` and `v` all zero, the terms a and c are wrong"
# - by_content = (q + self.u[:, None]) @ k.mT
# + by_content = (q + 2 * self.u[:, None]) @ k.mT

# %% wrong="10.3" name="weights are squared" says="attention by content alone is wrong"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1) ** 2

# %% wrong="10.3" name="the table in half precision" says="the terms a and b are wrong"
# - r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).to(x))[None]
# + r = self.r_proj(torch.cat([angles.sin(), angles.cos()], dim=-1).half().to(x))[None]


# %% right="10.3" name="with tables and shift as taught, scores by einsum"
class RelativeAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.r_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_heads, d_model // n_heads))
        self.v = nn.Parameter(torch.randn(n_heads, d_model // n_heads))

    def table(self, n, d, like):
        angles = torch.arange(n - 1, -1, -1, device=like.device)[:, None] * 10000 ** (
            -torch.arange(0, d, 2, device=like.device) / d
        )
        return torch.cat([angles.sin(), angles.cos()], dim=-1).to(like.dtype)

    def shift(self, scores):
        B, H, T, S = scores.shape
        return F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)[:, :, 1:].reshape(B, H, T, S)

    def forward(self, x, memory=None):
        both = x
        if memory is not None:
            both = torch.cat((memory, x), 1)
        B, T, d = x.shape
        S = both.shape[1]
        q = self.q_proj(x).view(B, T, self.heads, -1)
        k = self.k_proj(both).view(B, S, self.heads, -1)
        v = self.v_proj(both).view(B, S, self.heads, -1)
        r = self.r_proj(self.table(S, d, x)).view(S, self.heads, -1)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = self.shift(torch.einsum("bihd,jhd->bhij", q + self.v, r))
        visible = torch.ones(T, S, device=x.device).tril(S - T)
        scores = (ac + bd) * (d // self.heads) ** -0.5
        weights = torch.softmax(scores.masked_fill(visible == 0, float("-inf")), dim=-1)
        return self.out_proj(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(B, T, d))


# %% right="10.3" name="distances as a bias of torch's attention"
class RelativeAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.r_proj, self.out_proj = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(5)
        )
        self.u = nn.Parameter(torch.empty(n_heads, d_model // n_heads).normal_(std=0.02))
        self.v = nn.Parameter(torch.empty(n_heads, d_model // n_heads).normal_(std=0.02))

    def forward(self, x, memory=None):
        seen = torch.cat([memory, x], 1) if memory is not None else x
        (B, T, d), S = x.shape, seen.size(1)
        places = torch.arange(S, device=x.device)
        apart = places[S - T :, None] - places
        rates = 1 / 10000 ** (torch.arange(0, d, 2, device=x.device) / d)
        angles = apart.clamp(min=0)[..., None] * rates
        rows = torch.cat([torch.sin(angles), torch.cos(angles)], -1).to(x.dtype)
        r = self.r_proj(rows).unflatten(-1, (self.n_heads, -1))
        q, k, v = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in (self.q_proj(x), self.k_proj(seen), self.v_proj(seen))
        )
        bias = torch.einsum("bhtd,tshd->bhts", q + self.v[:, None], r) / (d // self.n_heads) ** 0.5
        bias = torch.where(apart < 0, -torch.inf, bias)
        heads = F.scaled_dot_product_attention(q + self.u[:, None], k, v, attn_mask=bias)
        return self.out_proj(heads.transpose(1, 2).reshape(B, T, d))


# %% wrong="10.4" name="minus zero" says="is everything"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, -mem_len:].detach()

# %% wrong="10.4" name="gradients flow" says="gradients flow into the memory"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - mem_len) :]

# %% wrong="10.4" name="the newest segment alone" says="only the newest segment is kept"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = hidden

# %% wrong="10.4" name="a short one is thrown away" says="nothing is kept"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + start = both.size(1) - mem_len
# + return (both[:, start:] if start >= 0 else both[:, :0]).detach()

# %% wrong="10.4" name="everything is kept" says="everything is kept"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both.detach() if mem_len else both[:, :0].detach()

# %% wrong="10.4" name="the oldest states" says="the oldest states are kept"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, :mem_len].detach()

# %% wrong="10.4" name="negative start" says="counts from the end"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, both.size(1) - mem_len :].detach()

# %% wrong="10.4" name="newest first" says="the new states come before the remembered ones"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = hidden if memory is None else torch.cat([hidden, memory], dim=1)

# %% wrong="10.4" name="detached in place" says="the states themselves are detached"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + hidden.detach_()
# + return both[:, max(0, both.size(1) - mem_len) :].detach()

# %% wrong="10.4" name="None for nothing" says="None (is a `return` missing?)"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - mem_len) :].detach() if mem_len else None

# %% wrong="10.4" name="in single precision" says="keep the dtype"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - mem_len) :].detach().float()

# %% wrong="10.4" name="memories of at most nine" says="with a large M, larger than any in the notebook, the memory has the wrong shape" private=true
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - min(mem_len, 9)) :].detach()


# %% wrong="10.4" name="says that it needs a gradient" says="the memory has requires_grad=True"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - mem_len) :].detach().requires_grad_()

# %% wrong="10.4" name="a full memory stays as it was" says="the memory stays as it was"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + if memory is not None and memory.size(1) >= mem_len:
# +     return memory[:, memory.size(1) - mem_len :].detach()
# + both = hidden if memory is None else torch.cat([memory, hidden], dim=1)

# %% wrong="10.4" name="memories of at most 512" says="larger than any in the notebook" private=true
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - min(mem_len, 512)) :].detach()


# %% right="10.4" name="in a block without gradients"
def next_memory(memory, hidden, mem_len):
    with torch.no_grad():
        both = torch.cat([part for part in (memory, hidden) if part is not None], dim=1)
        return both[:, -mem_len:].clone() if mem_len > 0 else both[:, :0].clone()


# %% right="10.4" name="detached first, narrowed"
def next_memory(memory, hidden, mem_len):
    hidden = hidden.detach()
    if memory is not None:
        hidden = torch.cat((memory.detach(), hidden), 1)
    count = min(mem_len, hidden.shape[1])
    return hidden.narrow(1, hidden.shape[1] - count, count)


# %% wrong="10.5" name="what came out of a layer" says="a layer remembers its output"
# - both = x if memory is None else torch.cat([memory, x], dim=1)
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# - x = layer(x, memory)
# + x = layer(x, memory)
# + both = x if memory is None else torch.cat([memory, x], dim=1)
# + kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())

# %% wrong="10.5" name="the newest segment alone" says="only the newest segment is remembered"
# - both = x if memory is None else torch.cat([memory, x], dim=1)
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + kept.append(x[:, max(0, x.size(1) - mem_len) :].detach())

# %% wrong="10.5" name="one memory for all layers" says="the memory of the first one"
# - x = layer(x, memory)
# + x = layer(x, memories[0] if memories else None)

# %% wrong="10.5" name="memories in reverse" says="each other's memories"
# - x = layer(x, memory)
# + x = layer(x, memories[-1 - len(kept) + 1] if memories else None)

# %% wrong="10.5" name="memories are not used" says="the memories are not used"
# - x = layer(x, memory)
# + x = layer(x, None)

# %% wrong="10.5" name="the new memory is given at once" says="Give it the old one"
# - x = layer(x, memory)
# + x = layer(x, kept[-1])

# %% wrong="10.5" name="a plain list of layers" says="a plain list hides them"
# - self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers), head
# + self.embedding, self.layers, self.head = embedding, list(layers), head

# %% wrong="10.5" name="copies of the layers" says="`layers.0` is a copy, or another of the given modules"
# - self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers), head
# + import copy
# + self.embedding, self.layers, self.head = embedding, nn.ModuleList(map(copy.deepcopy, layers)), head

# %% wrong="10.5" name="gradients flow into memories" says="gradients flow into the memories"
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + kept.append(both[:, max(0, both.size(1) - mem_len) :])

# %% wrong="10.5" name="cut off within the segment" says="cut off within the segment"
# - x = layer(x, memory)
# + x = layer(x.detach(), memory)

# %% wrong="10.5" name="minus zero" says="with mem_len = 0, states are kept"
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + kept.append(both[:, -mem_len:].detach())

# %% wrong="10.5" name="remembers by itself" says="it is 0 by default"
# - def forward(self, tokens, memories=None, mem_len=0):
# + def forward(self, tokens, memories=None, mem_len=8):

# %% wrong="10.5" name="layers in reverse" says="the layers run in reverse order"
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + for layer, memory in zip(list(self.layers)[::-1], memories or [None] * len(self.layers)):

# %% wrong="10.5" name="logits alone" says="should give two things"
# - return self.head(x), kept
# + return self.head(x)

# %% wrong="10.5" name="one memory more than layers" says="a list of 3"
# - return self.head(x), kept
# + return self.head(x), [*kept, x.detach()]

# %% wrong="10.5" name="memories that the model keeps itself" says="Read the memories that are given"
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + old = self.old if memories else [None] * len(self.layers)
# + for layer, memory in zip(self.layers, old):

# - return self.head(x), kept
# + self.old = kept
# + return self.head(x), kept

# %% wrong="10.5" name="writes into the old memories" says="changes"
# - both = x if memory is None else torch.cat([memory, x], dim=1)
# + both = x if memory is None else torch.cat([memory, x], dim=1)
# + if memory is not None and memory.size(1):
# +     memory[:, 0] = 0

# %% wrong="10.5" name="three layers alone" says="the logits or memories are wrong for other numbers of" private=true
# - return self.head(x), kept
# + return self.head(x) * (1 if len(kept) == 3 else 2), kept


# %% wrong="10.5" name="zeros in place of no memory" says="at the beginning of a text, a layer is given a memory"
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + nothing = torch.zeros(len(tokens), 5, x.size(-1), device=x.device)
# + for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):

# - x = layer(x, memory)
# + x = layer(x, nothing if memory is None else memory)

# %% wrong="10.5" name="memory and segment as one segment" says="Call `layer(x, memory)`"
# - x = layer(x, memory)
# + x = layer(x if memory is None else torch.cat([memory, x], dim=1))[:, -x.size(1) :]

# %% wrong="10.5" name="memories say that they need a gradient" says="a memory has requires_grad=True"
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + kept.append(both[:, max(0, both.size(1) - mem_len) :].detach().requires_grad_())


# %% wrong="10.5" name="an empty memory at the beginning" says="at the beginning of a text, a layer is given a memory"
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + for layer, memory in zip(self.layers, memories or [x[:, :0]] * len(self.layers)):


# %% right="10.5" name="places of layers, memories by index"
class SegmentModel(nn.Module):
    def __init__(self, embedding, layers, head):
        super().__init__()
        self.embedding = embedding
        self.head = head
        self.layers = nn.ModuleList([layer for layer in layers])

    def forward(self, tokens, memories=None, mem_len=0):
        h = self.embedding(tokens)
        new = []
        for place in range(len(self.layers)):
            memory = None if memories is None else memories[place]
            with torch.no_grad():
                every = h if memory is None else torch.cat([memory, h], 1)
                new.append(every[:, every.size(1) - min(mem_len, every.size(1)) :])
            h = self.layers[place](h, memory)
        return self.head(h), new


# %% right="10.5" name="all inputs first, then memories; a tuple of them"
class SegmentModel(nn.Module):
    def __init__(self, embedding, layers, head):
        super().__init__()
        self.head, self.embedding = head, embedding
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens, memories=None, mem_len=0):
        states = [self.embedding(tokens)]
        for place, layer in enumerate(self.layers):
            states.append(layer(states[-1], memories[place]) if memories else layer(states[-1]))
        old = memories or [state[:, :0] for state in states[:-1]]
        both = [torch.cat(pair, 1).detach() for pair in zip(old, states)]
        return self.head(states[-1]), tuple(one[:, one.size(1) - min(mem_len, one.size(1)) :] for one in both)


# %% wrong="10.6" name="places add up" says="`i` is added in every layer"
# - place = i
# - for _ in range(n_layers):
# -     place -= place % T + mem_len
# - return i - place
# + return n_layers * (mem_len + i)

# %% wrong="10.6" name="layers times segments" says="this is n_layers times T"
# - place = i
# - for _ in range(n_layers):
# -     place -= place % T + mem_len
# - return i - place
# + return n_layers * T

# %% wrong="10.6" name="one layer" says="the reach of one layer"
# - place = i
# - for _ in range(n_layers):
# -     place -= place % T + mem_len
# - return i - place
# + return mem_len + i

# %% wrong="10.6" name="layers times memory and i" says="reaches that segment's beginning"
# - place = i
# - for _ in range(n_layers):
# -     place -= place % T + mem_len
# - return i - place
# + return n_layers * mem_len + i

# %% wrong="10.6" name="without i" says="`i` is left out"
# - place = i
# - for _ in range(n_layers):
# -     place -= place % T + mem_len
# - return i - place
# + return n_layers * mem_len


# %% wrong="10.6" name="the remainder of fmod" says="place in the segment of a negative place is negative"
def reach(n_layers, mem_len, T, i):
    place = i
    for _ in range(n_layers):
        place -= int(math.fmod(place, T)) + mem_len
    return i - place


# %% wrong="10.6" name="where it is" says="too small by `i`"
# - return i - place
# + return -place

# %% wrong="10.6" name="how many tokens" says="one more than the distance"
# - return i - place
# + return i - place + 1

# %% wrong="10.6" name="a memory less" says="Every layer has one"
# - for _ in range(n_layers):
# + for _ in range(n_layers - 1):

# %% wrong="10.6" name="a layer more" says="the memory is counted once too often"
# - for _ in range(n_layers):
# + for _ in range(n_layers + 1):

# %% wrong="10.6" name="right up to memories of a dozen" says="`reach(2, 26"
# - place = i
# + place = i
# + mem_len = min(mem_len, 12)


# %% wrong="10.6" name="a float" says="the reach is a float"
# - return i - place
# + return (i - place) / 1

# %% wrong="10.6" name="at most four thousand" says="larger than any in the notebook" private=true
# - return i - place
# + return min(i - place, 4096)


# %% right="10.6" name="segment by segment, recursively"
def reach(n_layers, mem_len, T, i):
    def lowest(place, layers):
        if layers == 0:
            return place
        return lowest(place // T * T - mem_len, layers - 1)

    return i - lowest(i, n_layers)


# %% right="10.6" name="whole segments by division"
def reach(n_layers, mem_len, T, i):
    steps, place = 0, i
    while n_layers:
        back = divmod(place, T)[1] + mem_len
        steps, place, n_layers = steps + back, place - back, n_layers - 1
    return steps


# %% right="10.6" name="a graph of states, a tensor of one number"
def reach(n_layers, mem_len, T, i):
    start = T * (n_layers * (mem_len + T) + 1)
    oldest = torch.arange(start + T)
    segments = oldest // T * T
    for _ in range(n_layers):
        oldest = oldest[(segments - mem_len).clamp(min=0)]
    return start + i - oldest[start + i]


# %% wrong="10.7" name="all positions of each window" says="all predictions of each window are averaged"
# - logits = model(some)[0][:, -1]
# - total += F.cross_entropy(logits, wanted, reduction="sum").item()
# + pairs = torch.cat([some[:, 1:], wanted[:, None]], 1)
# + losses = F.cross_entropy(model(some)[0].mT, pairs, reduction="none")
# + total += losses.mean(1).sum().item()

# %% wrong="10.7" name="memory emptied" says="nothing is remembered from one segment to the next"
# - logits, memories = model(some[None], memories, mem_len)
# + logits, _ = model(some[None], None, mem_len)

# %% wrong="10.7" name="other targets than the rival" says="targets before tokens[first] count"
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses).mean().item(), len(tokens) - 1

# %% wrong="10.7" name="the first target is left out" says="the first of the targets is left out"
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses)[first:].mean().item(), len(tokens) - 1

# %% wrong="10.7" name="the last segment is left out" says="the last, shorter segment is left out"
# - logits, memories = model(some[None], memories, mem_len)
# - losses.append(F.cross_entropy(logits[0], wanted, reduction="none"))
# + if len(some) == T:
# +     logits, memories = model(some[None], memories, mem_len)
# +     losses.append(F.cross_entropy(logits[0], wanted, reduction="none"))

# %% wrong="10.7" name="a memory of one segment" says="the memory has the length of a segment"
# - logits, memories = model(some[None], memories, mem_len)
# + logits, memories = model(some[None], memories, T)

# %% wrong="10.7" name="everything is remembered" says="mem_len is ignored"
# - logits, memories = model(some[None], memories, mem_len)
# + logits, memories = model(some[None], memories, len(tokens))

# %% wrong="10.7" name="in training mode" says="the model is called in training mode"
# - model.eval()
# - windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]
# + windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]

# %% wrong="10.7" name="gradients are recorded" says="gradients are recorded"
# - with torch.no_grad():
# -     for some, wanted in zip(windows.split(64), targets.split(64)):
# + for _ in range(1):
# +     for some, wanted in zip(windows.split(64), targets.split(64)):

# %% wrong="10.7" name="ends in evaluation mode" says="the modes of the module and its parts are not as before"
# - model.train(was_training)
# - return total / len(targets), windows.numel()
# + return total / len(targets), windows.numel()

# - model.train(was_training)
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1

# %% wrong="10.7" name="counts the targets" says="the targets are counted"
# - return total / len(targets), windows.numel()
# + return total / len(targets), len(targets)

# %% wrong="10.7" name="counts targets that count" says="All tokens but the last are read"
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - first

# %% wrong="10.7" name="counts the last token" says="the last token is counted"
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses)[first - 1 :].mean().item(), len(tokens)

# %% wrong="10.7" name="sums" says="the losses are added up"
# - return total / len(targets), windows.numel()
# + return total, windows.numel()

# %% wrong="10.7" name="means of segments" says="the means of the segments are averaged"
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + kept = [one[max(0, first - 1 - k * T) :] for k, one in enumerate(losses) if (k + 1) * T >= first]
# + return sum(one.mean().item() for one in kept) / len(kept), len(tokens) - 1

# %% wrong="10.7" name="a window that holds its target" says="It should be the mean over `tokens[5:]`"
# - windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]
# + windows, targets = tokens.unfold(0, context, 1)[1:], tokens[context:]

# %% wrong="10.7" name="sixty windows at most" says="It should be the mean over `tokens[12:]`"
# - for some, wanted in zip(windows.split(64), targets.split(64)):
# + for some, wanted in list(zip(windows.split(64), targets.split(64)))[:1]:

# %% wrong="10.7" name="no memory longer than a dozen" says="for other texts" private=true
# - logits, memories = model(some[None], memories, mem_len)
# + logits, memories = model(some[None], memories, min(mem_len, 9))


# %% wrong="10.7" name="the mode of the top alone" says="the model is called in training mode"
# - model.eval()
# - windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]
# + model.training = False
# + windows, targets = tokens.unfold(0, context, 1)[:-1], tokens[context:]

# %% wrong="10.7" name="only the top goes back to its mode" says="the modes of the module and its parts are not as before"
# - model.train(was_training)
# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + model.training = was_training
# + return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1

# %% wrong="10.7" name="gradients are off for good" says="the recording of gradients is not as before"
# - with torch.no_grad():
# -     for some, wanted in zip(windows.split(64), targets.split(64)):
# + torch.set_grad_enabled(False)
# + for _ in range(1):
# +     for some, wanted in zip(windows.split(64), targets.split(64)):

# %% wrong="10.7" name="the last tokens are read again" says="the last tokens are read again"
# - logits, memories = model(some[None], memories, mem_len)
# + old = torch.zeros(0, dtype=torch.int64, device=tokens.device) if memories is None else memories
# + logits, _ = model(torch.cat([old, some])[None])
# + logits, memories = logits[:, len(old) :], torch.cat([old, some])[max(0, len(old) + len(some) - mem_len) :]


# %% wrong="10.7" name="windows that fill no portion are left out" says="wrong for long texts" private=true
# - for some, wanted in zip(windows.split(64), targets.split(64)):
# + portions = [*zip(windows.split(256), targets.split(256))]
# + for some, wanted in [one for one in portions if len(one[0]) == 256] or portions:

# %% wrong="10.7" name="five hundred windows at most" says="wrong for long texts" private=true
# - for some, wanted in zip(windows.split(64), targets.split(64)):
# + for some, wanted in zip(windows[:512].split(64), targets.split(64)):


# %% right="10.7" name="one window at a time; sums of logarithms"
@torch.no_grad()
def evaluate_sliding(model, tokens, context):
    mode = model.training
    model.eval()
    losses, positions = [], 0
    for t in range(context, len(tokens)):
        window = tokens[t - context : t].unsqueeze(0)
        logits, _ = model(window, None, 0)
        positions += context
        losses.append(-logits[0, -1].log_softmax(-1)[tokens[t]])
    model.train(mode)
    return torch.stack(losses).mean(), positions


@torch.no_grad()
def evaluate_cached(model, tokens, T, mem_len, first):
    mode = model.training
    model.eval()
    memories, total, count, positions = None, 0.0, 0, 0
    for start in range(0, len(tokens) - 1, T):
        end = min(start + T, len(tokens) - 1)
        logits, memories = model(tokens[start:end].unsqueeze(0), memories, mem_len=mem_len)
        positions += end - start
        for place in range(start, end):
            if place + 1 >= first:
                total -= logits[0, place - start].log_softmax(-1)[tokens[place + 1]].item()
                count += 1
    model.train(mode)
    return total / count, positions


# %% right="10.7" name="all windows at once; logits joined"
def evaluate_sliding(model, tokens, context):
    was = model.training
    model.train(False)
    with torch.inference_mode():
        n = len(tokens) - context
        windows = torch.stack([tokens[start : start + context] for start in range(n)])
        logits = model(windows)[0]
        loss = F.cross_entropy(logits[:, -1], tokens[context:])
    model.train(was)
    return float(loss), n * context


def evaluate_cached(model, tokens, T, mem_len, first):
    was = model.training
    model.train(False)
    memories, every = None, []
    with torch.no_grad():
        for segment in tokens[:-1].unsqueeze(0).split(T, dim=1):
            logits, memories = model(segment, memories, mem_len)
            every.append(logits.squeeze(0))
    every = torch.cat(every)
    model.train(was)
    return F.cross_entropy(every[first - 1 :], tokens[first:]), every.size(0)


# %% wrong="10.5" name="switches gradients on at the end" says="switches on the recording of gradients where that was off"
# + torch.set_grad_enabled(True)
#   return self.head(x), kept

# %% wrong="10.7" name="switches gradients on at the end" says="switches on the recording of gradients"
# + torch.set_grad_enabled(True)
#   return total / len(targets), windows.numel()

# %% right="10.7" name="counts in tensors"
# - return total / len(targets), windows.numel()
# + return total / len(targets), torch.tensor(windows.numel())

# - return torch.cat(losses)[first - 1 :].mean().item(), len(tokens) - 1
# + return torch.cat(losses)[first - 1 :].mean(), torch.tensor(len(tokens) - 1)

# %% wrong="10.8" name="the order is taken for ranks" says="as if it held ranks"
# - rank = torch.tensor(order).argsort()
# + rank = torch.tensor(order)

# %% wrong="10.8" name="transposed" says="a token sees those that come later in the order"
# - query = rank[:, None] > rank
# + query = rank[:, None] < rank

# %% wrong="10.8" name="the query sees itself" says="a position that asks for a token sees it"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + content = query | torch.eye(len(order), dtype=torch.bool)
# + return content, content

# %% wrong="10.8" name="content does not see itself" says="a token does not see its own content"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + return query, query

# %% wrong="10.8" name="True is hidden" says="True means: may look"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + return ~(query | torch.eye(len(order), dtype=torch.bool)), ~query

# %% wrong="10.8" name="from left to right" says="as if the order were not used"
# - rank = torch.tensor(order).argsort()
# + rank = torch.arange(len(order))

# %% wrong="10.8" name="numbers instead of True" says="It should be torch.bool"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + return (query | torch.eye(len(order), dtype=torch.bool)).float(), query.float()

# %% wrong="10.8" name="rows in the order" says="in the order of the text"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + return (query | torch.eye(len(order), dtype=torch.bool))[order], query[order]

# %% wrong="10.8" name="query before content" says="the two masks are exchanged"
# - return query | torch.eye(len(order), dtype=torch.bool), query
# + return query, query | torch.eye(len(order), dtype=torch.bool)

# %% wrong="10.8" name="five tokens at most" says="with a large T, larger than any in the notebook, the content mask is wrong" private=true
# - query = rank[:, None] > rank
# + query = (rank[:, None] > rank) & (rank < 5)


# %% wrong="10.8" name="a hundred tokens at most" says="larger than any in the notebook" private=true
# - query = rank[:, None] > rank
# + query = (rank[:, None] > rank) & (rank < 100)


# %% wrong="10.8" name="ranks in a byte" says="larger than any in the notebook" private=true
# - rank = torch.tensor(order).argsort()
# + rank = torch.tensor(order).argsort().to(torch.uint8)


# %% right="10.8" name="token by token"
def permutation_masks(order):
    T = len(order)
    content = torch.zeros(T, T, dtype=torch.bool)
    for place in range(T):
        content[order[place], order[: place + 1]] = True
    query = content.clone()
    query.fill_diagonal_(False)
    return content, query


# %% right="10.8" name="by comparing ranks as tensors of floats"
def permutation_masks(order):
    rank = torch.empty(len(order)).index_put((torch.tensor(order),), torch.arange(len(order)) / 2)
    return rank.unsqueeze(1).ge(rank), rank.unsqueeze(1).gt(rank)


# %% right="10.8" name="the mask of 01, its rows and columns permuted; a list of two"
def permutation_masks(order):
    where = [order.index(token) for token in range(len(order))]
    below = torch.ones(len(order), len(order)).tril()[where][:, where]
    strictly = torch.ones(len(order), len(order)).tril(-1)[where][:, where]
    return [below.bool(), strictly.bool()]


# %% wrong="10.9" name="keys and values from g" says="keys and values come from g"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content), self.stream(g, g, query)

# %% wrong="10.9" name="two sets of weights" says="a part too many"
# - self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
# + self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
# + self.query_proj = nn.Linear(d_model, d_model, bias=False)

# %% wrong="10.9" name="NaN for who sees nothing" says="holds NaN"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# - weights = scores.softmax(-1) * mask
# + scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, -torch.inf)
# + weights = scores.softmax(-1)

# %% wrong="10.9" name="uniform for who sees nothing" says="a token that may look at nothing gets the mean of all values"
# - weights = scores.softmax(-1) * mask
# + weights = scores.softmax(-1)

# %% wrong="10.9" name="NaN on the way back" says="is NaN"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# - weights = scores.softmax(-1) * mask
# + scores = q @ k.mT / self.d_head**0.5 + torch.where(mask, 0.0, -torch.inf)
# + weights = scores.softmax(-1).nan_to_num()

# %% wrong="10.9" name="the query stream teaches the content nothing" says="no gradient reaches h from g'"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content), self.stream(g, h.detach(), query)

# %% wrong="10.9" name="a small penalty" says="give hidden tokens the weight 0"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# - weights = scores.softmax(-1) * mask
# + scores = q @ k.mT / self.d_head**0.5 - 100.0 * (~mask)
# + weights = scores.softmax(-1) * mask.any(-1, keepdim=True)

# %% wrong="10.9" name="masks exchanged" says="`h'`: this is what the query mask gives"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, query), self.stream(g, h, content)

# %% wrong="10.9" name="True is hidden" says="True is treated as hidden"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# + mask = ~mask
# + scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)

# %% wrong="10.9" name="the residual is h" says="the residual is h"
# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# + x = self.norm1(h + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))

# %% wrong="10.9" name="asks with h" says="the queries come from h"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content), self.stream(h, h, query)

# %% wrong="10.9" name="norms before" says="the norms come before each part"
# - parts = (self.q_proj(asking), self.k_proj(h), self.v_proj(h))
# + h = self.norm1(h)
# + parts = (self.q_proj(self.norm1(asking)), self.k_proj(h), self.v_proj(h))

# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# - return self.norm2(x + self.linear2(self.linear1(x).relu()))
# + x = asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return x + self.linear2(self.linear1(self.norm2(x)).relu())

# %% wrong="10.9" name="norms exchanged" says="the two norms are exchanged"
# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# - return self.norm2(x + self.linear2(self.linear1(x).relu()))
# + x = self.norm2(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# + return self.norm1(x + self.linear2(self.linear1(x).relu()))

# %% wrong="10.9" name="GELU" says="the feed-forward part uses GELU"
# - return self.norm2(x + self.linear2(self.linear1(x).relu()))
# + return self.norm2(x + self.linear2(F.gelu(self.linear1(x))))

# %% wrong="10.9" name="not divided" says="not divided by the root of d_head"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# + scores = (q @ k.mT).masked_fill(~mask, torch.finfo(q.dtype).min)

# %% wrong="10.9" name="all heads as one" says="all heads attend as one"
# - self.n_heads, self.d_head = n_heads, d_model // n_heads
# + self.n_heads, self.d_head = 1, d_model

# %% wrong="10.9" name="the query stream learns nothing" says="from g'"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content), self.stream(g, h, query).detach()

# %% wrong="10.9" name="h alone" says="should give two tensors"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content)

# %% wrong="10.9" name="zeros only where nobody sees itself" says="masks that no order gives" private=true
# - weights = scores.softmax(-1) * mask
# + weights = scores.softmax(-1) * (1 if mask.diagonal().any() else mask)


# %% wrong="10.9" name="single precision inside" says="for float64, h' is wrong, only as exact as float32" private=true
# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# + x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2).float().to(asking)))

# %% wrong="10.9" name="a residual twice" says="is wrong in all"
# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# + x = self.norm1(2 * asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))

# %% wrong="10.9" name="weights are squared" says="is wrong in rows"
# - weights = scores.softmax(-1) * mask
# + weights = scores.softmax(-1) ** 2 * mask


# %% right="10.9" name="who sees nothing sees itself, and gets zeros after all"
class TwoStreamLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def heads_of(self, x):
        B, T, d = x.shape
        return x.reshape(B, T, self.heads, d // self.heads).transpose(1, 2)

    def attend(self, x, h, mask):
        any_seen = mask.any(dim=-1, keepdim=True)
        q, k, v = self.heads_of(self.q_proj(x)), self.heads_of(self.k_proj(h)), self.heads_of(self.v_proj(h))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / (q.size(-1) ** 0.5)
        scores = scores.masked_fill(~(mask | ~any_seen), float("-inf"))
        weights = torch.softmax(scores, dim=-1).masked_fill(~any_seen, 0.0)
        joined = (weights @ v).transpose(1, 2).reshape(x.shape)
        return self.out_proj(joined)

    def forward(self, h, g, content, query):
        out = []
        for x, mask in ((h, content), (g, query)):
            x = self.norm1(x + self.attend(x, h, mask))
            out.append(self.norm2(x + self.linear2(F.relu(self.linear1(x)))))
        return out


# %% right="10.9" name="both streams as one batch of queries, softmax by hand"
class TwoStreamLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=False))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, h, g, content, query):
        T = h.size(1)
        both, mask = torch.cat([h, g], 1), torch.cat([content, query])
        q, k, v = (
            one.unflatten(2, (self.n_heads, -1)).transpose(1, 2)
            for one in (self.q_proj(both), self.k_proj(h), self.v_proj(h))
        )
        scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True).detach()
        powers = torch.where(mask, scores - top, 0.0).exp() * mask
        weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)
        x = self.norm1(both + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
        x = self.norm2(x + self.linear2(torch.relu(self.linear1(x))))
        return x[:, :T], x[:, T:]


# %% wrong="10.10" name="the first low place" says="the mean loss is below half of the guess there, but does not"
def known_from(curves, guess):
    mean = [sum(some) / len(some) for some in zip(*curves)]
    return next((place for place, loss in enumerate(mean) if loss < guess / 2), None)


# %% wrong="10.10" name="below the guess" says="not below half of it"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if sum(curve[place] for curve in curves) / len(curves) >= guess:


# %% wrong="10.10" name="the last high place" says="one too early"
def known_from(curves, guess):
    mean = [sum(some) / len(some) for some in zip(*curves)]
    high = [place for place, loss in enumerate(mean) if loss >= guess / 2]
    return None if high and high[-1] == len(mean) - 1 else (high or [-1])[-1]


# %% wrong="10.10" name="how many" says="number of places"
# - return found
# + return None if found is None else len(curves[0]) - found


# %% wrong="10.10" name="one seed" says="the fastest seed decides"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if min(curve[place] for curve in curves) >= guess / 2:


# %% wrong="10.10" name="the first seed" says="the first seed alone decides"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if curves[0][place] >= guess / 2:


# %% wrong="10.10" name="the last seed" says="the last seed alone decides"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if curves[-1][place] >= guess / 2:


# %% wrong="10.10" name="the middle seed" says="the slowest seed decides, or that in the middle"
def known_from(curves, guess):
    middle = [sorted(losses)[len(losses) // 2] < guess / 2 for losses in zip(*curves)]
    return next((place for place in range(len(middle)) if all(middle[place:])), None)


# %% wrong="10.10" name="all seeds" says="the slowest seed decides, or that in the middle"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if max(curve[place] for curve in curves) >= guess / 2:


# %% wrong="10.10" name="the end for none" says="should give None, not a place"
# - found = None
# + found = len(curves[0])


# %% wrong="10.10" name="four seeds" says="for other curves" private=true
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if sum(curve[place] for curve in curves[:5]) / min(len(curves), 5) >= guess / (2 if len(curves) < 6 else 9):


# %% right="10.10" name="tensors"
def known_from(curves, guess):
    low = torch.tensor(curves, dtype=torch.float64).mean(0) < guess / 2
    staying = low.flip(0).long().cumprod(0).sum().item()
    return len(low) - staying if staying else None


# %% right="10.10" name="forwards"
def known_from(curves, guess):
    start = None
    for place, losses in enumerate(zip(*curves)):
        if 2 * sum(losses) >= guess * len(losses):
            start = None
        elif start is None:
            start = place
    return start


# %% wrong="10.S1" name="compares neighbours" says="each length is compared only with the next one"
def effective_length(losses, threshold=0.01):
    lengths = sorted(losses)
    for c, longer in zip(lengths, lengths[1:]):
        if losses[c] - losses[longer] <= threshold * losses[c]:
            return c
    return lengths[-1]


# %% wrong="10.S1" name="nats for a share" says="a share of the loss"
# - return next(c for c, best in zip(lengths, best_after) if losses[c] - best <= threshold * losses[c])
# + return next(c for c, best in zip(lengths, best_after) if losses[c] - best <= threshold)

# %% wrong="10.S1" name="the lowest loss" says="the lowest loss"
# - return next(c for c, best in zip(lengths, best_after) if losses[c] - best <= threshold * losses[c])
# + return min(lengths, key=losses.get)

# %% wrong="10.S1" name="the order of the dict" says="the length of the lowest loss"
# - lengths = sorted(losses)
# + lengths = list(losses)


# %% right="10.S1" name="from the longest down"
def effective_length(losses, threshold=0.01):
    best, answer = float("inf"), None
    for length in sorted(losses, reverse=True):
        best = min(best, losses[length])
        if losses[length] * (1 - threshold) <= best:
            answer = length
    return answer


# %% wrong="10.5" name="memories are dropped where nothing is kept" says="with a smaller mem_len, the given memories are not read"
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + for layer, memory in zip(self.layers, memories if memories and mem_len else [None] * len(self.layers)):


# %% wrong="10.5" name="memories are cut before they are read" says="with a smaller mem_len, the given memories are not read"
# - x = layer(x, memory)
# + x = layer(x, memory if memory is None else memory[:, max(0, memory.size(1) - mem_len) :])


# %% wrong="10.9" name="one empty row alone is seen to" says="where a token may look at nothing"
# - weights = scores.softmax(-1) * mask
# + weights = scores.softmax(-1)
# + first = mask.sum(-1).argmin()
# + if not mask[first].any():
# +     weights = weights.index_fill(2, first, 0.0)


# %% right="10.3" name="keeps its weights for a picture"
# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + self.weights = weights
# + return self.out_proj((weights @ v).transpose(1, 2).flatten(2))

# %% wrong="10.3" name="scores in float32" says="in float64" private=true
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.float().masked_fill(columns + rows >= S, -torch.inf).softmax(-1).to(x)

# %% wrong="10.3" name="hides with -30" says="if scores are large, the future is visible"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= S, -30.0).softmax(-1)

# %% wrong="10.2" name="one column too little" says="every row moves one column too few"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + wide = F.pad(scores, (1, T))
# + return torch.stack([wide[:, :, i, T - 1 - i :][..., :S] for i in range(T)], 2)

# %% wrong="10.2" name="as far as the first row" says="as far as the first one"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return F.pad(scores, (0, T))[..., T - 1 : T - 1 + S]

# %% wrong="10.2" name="by one column" says="all rows move by one column"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return F.pad(scores, (0, 1))[..., 1:]

# %% wrong="10.2" name="twice as far" says="twice as far"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + wide = F.pad(scores, (0, 2 * T))
# + return torch.stack([wide[:, :, i, 2 * (T - 1 - i) :][..., :S] for i in range(T)], 2)

# %% wrong="10.2" name="columns turned around" says="the columns are in reverse order"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return scores.flip(-1)

# %% wrong="10.2" name="without the last row" says="the last row of the reshaped scores"
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + return padded[:, :, :-1].reshape(B, H, T, S)

# %% wrong="10.2" name="transposed" says="not a transposition"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# + padded = F.pad(scores, (1, 0)).mT


# %% wrong="10.10" name="two in a row are enough" says="for other curves" private=true
def known_from(curves, guess):
    low = [sum(losses) / len(losses) < guess / 2 for losses in zip(*curves)]
    return next((i for i in range(len(low)) if low[i] and (i + 1 == len(low) or low[i + 1])), None)


# %% wrong="10.4" name="what was read learns no more" says="the given states learn no more"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + if hidden.is_leaf:
# +     hidden.requires_grad_(False)

# %% wrong="10.4" name="a new leaf that needs a gradient" says="requires_grad=True"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - mem_len) :].detach().requires_grad_(both.requires_grad)

# %% wrong="10.9" name="a norm of what attention gives" says="`norm1` is applied to the output of attention alone"
# - x = self.norm1(asking + self.out_proj((weights @ v).transpose(1, 2).flatten(2)))
# + x = asking + self.out_proj(self.norm1((weights @ v).transpose(1, 2).flatten(2)))

# %% wrong="10.10" name="half of it as a whole number" says="half of the guess is rounded to a whole number"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if sum(curve[place] for curve in curves) / len(curves) >= guess // 2:

# %% wrong="10.10" name="single precision" says="by very little" private=true
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if torch.tensor([curve[place] for curve in curves]).mean() >= torch.tensor(guess / 2):


# %% wrong="10.4" name="a segment that learned no longer does" says="a call switches requires_grad off"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + both = both.requires_grad_(False) if memory is None and both.is_leaf else both
# + return both[:, max(0, both.size(1) - mem_len) :].detach()


# %% wrong="10.5" name="with memories the embedding does not learn" says="with 4 remembered states, the gradient of a segment's loss is cut off"
#   x, kept = self.embedding(tokens), []
# + x = x.detach() if memories else x


# %% wrong="10.5" name="every layer remembers the embedding" says="each layer remembers the embedding"
# - both = x if memory is None else torch.cat([memory, x], dim=1)
# + first = self.embedding(tokens)
# + both = first if memory is None else torch.cat([memory, first], dim=1)


# %% wrong="10.6" name="a whole segment for each memory" says="T - 1 is added for each memory"
# - return i - place
# + return i + mem_len + (n_layers - 1) * (mem_len + T - 1)


# %% wrong="10.6" name="a segment more in each layer" says="where T divides mem_len, a segment is added in each layer"
# - return i - place
# + return i + mem_len + (n_layers - 1) * (mem_len // T + 1) * T


# %% wrong="10.6" name="a memory of a segment at most" says="the memory is cut to the length of a segment"
# - place = i
# + place, mem_len = i, min(mem_len, T)


# %% wrong="10.6" name="nothing without a memory" says="without a memory, the result is 0"
# - return i - place
# + return i - place if mem_len else 0


# %% wrong="10.6" name="kept without the memory" says="they must be kept by all four arguments"
# - return i - place
# + return reach.__dict__.setdefault((n_layers, T, i), i - place)


# %% wrong="10.6" name="16 bits" says="Its size has no limit" private=true
def reach(n_layers, mem_len, T, i):
    place = torch.tensor(i, dtype=torch.int16)
    for _ in range(n_layers):
        place = torch.div(place, min(T, 32767), rounding_mode="floor") * min(T, 32767) - mem_len
    return i - int(place)


# %% wrong="10.3" name="the table of a longer call" says="after a call with more keys, the output is not the same"
# - columns = torch.arange(S, device=x.device)
# + self.longest = max(S, getattr(self, "longest", 0))
# + columns = torch.arange(S, device=x.device)

# - angles = columns.flip(0)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)
# + far = columns.flip(0)[:, None] + self.longest - S
# + angles = far * 10000 ** (-torch.arange(0, d, 2, device=x.device) / d)


# %% wrong="10.2" name="by as much as without a memory" says="or to the left by S - 1 - i"
# - B, H, T, S = scores.shape
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + T, S = scores.shape[2:]
# + return torch.stack([scores[:, :, i].roll(i + 1 - S, -1) for i in range(T)], 2)


# %% wrong="10.5" name="reads its own memories if they are as long" says="two texts are read in turn" private=true
# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + if memories and self.own[0].shape == memories[0].shape:
# +     memories = self.own
# + for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):

# - return self.head(x), kept
# + self.own = kept
# + return self.head(x), kept

# %% wrong="10.1" name="the even numbers are doubled" says="the exponent is -4k/d"
# - angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
# + angles = torch.arange(n - 1, -1, -1)[:, None] * 10000 ** (-2 * torch.arange(0, d, 2) / d)

# %% wrong="10.3" name="softmax over the queries" says="at the axis of the softmax"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-2)

# %% wrong="10.3" name="the memory is hidden" says="every query should see all of it"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill((columns + rows >= S) | (columns < S - T), -torch.inf).softmax(-1)

# %% wrong="10.3" name="the last input is remembered" says="keep nothing for later"
# - seen = x if memory is None else torch.cat([memory, x], dim=1)
# + old, self.old = getattr(self, "old", x[:, :0]), x.detach()
# + seen = torch.cat([old, x] if memory is None else [memory, old, x], dim=1)

# %% wrong="10.3" name="exp without the maximum" says="if scores are large, the output: there is NaN"
# - weights = scores.masked_fill(columns + rows >= S, -torch.inf).softmax(-1)
# + weights = scores.masked_fill(columns + rows >= S, -torch.inf).exp()
# + weights = weights / weights.sum(-1, keepdim=True)

# %% wrong="10.4" name="at least one state" says="with mem_len = 0, states are kept. The memory should be empty."
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, max(0, both.size(1) - max(1, mem_len)) :].detach()

# %% wrong="10.4" name="up to minus zero" says="the memory has shape (2, 0, 3), not (2, 6, 3)"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + return both[:, -mem_len:-0].detach()

# %% wrong="10.5" name="layers under another name" says="`SegmentModel` has no `layers.0"
# - self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers), head
# + self.embedding, self.blocks, self.head = embedding, nn.ModuleList(layers), head

# - for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# + for layer, memory in zip(self.blocks, memories or [None] * len(self.blocks)):

# %% wrong="10.5" name="the last layer comes first" says="`layers.0` is a copy, or another of the given modules"
# - self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers), head
# + self.embedding, self.layers, self.head = embedding, nn.ModuleList(layers[::-1]), head

# %% wrong="10.5" name="everything is remembered" says="with mem_len = 3, a memory has shape (2, 4, 6), not (2, 3, 6)"
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + kept.append(both.detach())

# %% wrong="10.5" name="memories are filled up with zeros" says="a memory has more states than the segment has tokens"
# - kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())
# + both = torch.cat([both.new_zeros(both.size(0), max(0, mem_len - both.size(1)), both.size(2)), both], 1)
# + kept.append(both[:, max(0, both.size(1) - mem_len) :].detach())

# %% wrong="10.5" name="a first pass for the memories" says="Call each layer once for a segment"
# - x, kept = self.embedding(tokens), []
# + x, kept = self.embedding(tokens), []
# + for layer, memory in zip(self.layers, memories or [None] * len(self.layers)):
# +     layer(x, memory)

# %% wrong="10.7" name="mem_len is not passed on" says="pass the memories on, and `mem_len` in each call"
# - logits, memories = model(some[None], memories, mem_len)
# + logits, memories = model(some[None], memories)

# %% wrong="10.8" name="the order backwards" says="it should see the earlier ones"
# - rank = torch.tensor(order).argsort()
# + rank = torch.tensor(order[::-1]).argsort()

# %% wrong="10.9" name="True is hidden, with minus infinity" says="holds NaN in rows [4], which may look at all tokens"
# - scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
# - weights = scores.softmax(-1) * mask
# + weights = (q @ k.mT / self.d_head**0.5).masked_fill(mask, -torch.inf).softmax(-1)

# %% wrong="10.9" name="a counter" says="`h'` differs between two calls with the same input"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + self.calls = getattr(self, "calls", 0) + 1
# + return self.stream(h + self.calls, h, content), self.stream(g, h, query)

# %% wrong="10.9" name="the content mask twice" says="`g'`: this is what the content mask gives"
# - return self.stream(h, h, content), self.stream(g, h, query)
# + return self.stream(h, h, content), self.stream(g, h, content)


# %% wrong="10.10" name="the median over seeds" says="the place is wrong for other curves" private=true
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if torch.tensor([curve[place] for curve in curves], dtype=torch.float64).quantile(0.5) >= guess / 2:

# %% wrong="10.2" name="forgets where a slice begins" says="a part of a larger tensor in memory"
# - padded = F.pad(scores, (1, 0)).reshape(B, H, S + 1, T)
# - return padded[:, :, 1:].reshape(B, H, T, S)
# + strides = H * T * S, T * S, S - 1, 1
# + return scores.contiguous().as_strided((B, H, T, S), strides, T - 1).clone()

# %% wrong="10.4" name="nothing is an empty tensor of float32" says="another dtype where the memory before is None"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = torch.cat([torch.empty(len(hidden), 0, hidden.size(2)) if memory is None else memory, hidden], dim=1)

# %% wrong="10.4" name="from the place 0 on" says="states in the memory, 4 in the segment"
# - return both[:, max(0, both.size(1) - mem_len) :].detach()
# + kept = both[:, max(0, both.size(1) - mem_len) :]
# + return (both if mem_len == hidden.size(1) else kept).detach()

# %% wrong="10.3" name="heads joined without moving their axis" says="The heads are joined in the wrong order"
# - return self.out_proj((weights @ v).transpose(1, 2).flatten(2))
# + return self.out_proj((weights @ v).reshape(x.shape))

# %% wrong="10.4" name="nothing comes of None" says="with None as memory, 4 states in the segment"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = hidden[:, :0] if memory is None else torch.cat([memory, hidden], dim=1)

# %% wrong="10.4" name="the first states of the memory" says="the last 5 of 8 remembered and 2 new states"
# - both = hidden if memory is None else torch.cat([memory, hidden], dim=1)
# + both = hidden if memory is None else torch.cat([memory[:, :mem_len], hidden], dim=1)

# %% wrong="10.7" name="means of large portions" says="should count the same" private=true
# - for some, wanted in zip(windows.split(64), targets.split(64)):
# -     logits = model(some)[0][:, -1]
# -     total += F.cross_entropy(logits, wanted, reduction="sum").item()
# + portions = list(zip(windows.split(512), targets.split(512)))
# + for some, wanted in portions:
# +     logits = model(some)[0][:, -1]
# +     total += F.cross_entropy(logits, wanted).item() * len(targets) / len(portions)

# %% wrong="10.9" name="scores of 60 at most" says="Do not limit scores"
# - weights = scores.softmax(-1) * mask
# + weights = scores.clamp(max=60).softmax(-1) * mask

# %% wrong="10.3" name="v is added to the keys' part too" says="look at where `v` is used"
# - by_content = (q + self.u[:, None]) @ k.mT
# + by_content = (q + self.u[:, None] + self.v[:, None]) @ k.mT

# %% wrong="10.10" name="below a third of the guess" says="this is not the first place from which the mean loss stays"
# - if sum(curve[place] for curve in curves) / len(curves) >= guess / 2:
# + if sum(curve[place] for curve in curves) / len(curves) >= guess / 3:
