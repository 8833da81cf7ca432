# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% right="1.1" name="in short"
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return weights @ v, weights


# %% wrong="1.1" name="finite entries hide a key too" says="NaN under a mask of finite numbers"
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask != 0, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


# %% wrong="1.1" name="the arithmetic of a library of models" says="does all the work"
from transformers.models.bart.modeling_bart import eager_attention_forward


class Nothing:
    training = False


def attention(q, k, v, mask=None):
    lead, (S, T) = q.shape[:-2], (q.size(-2), k.size(-2))
    q, k, v = (part.reshape(-1, 1, *part.shape[-2:]) for part in (q, k, v))
    if mask is not None:
        mask = mask.expand(*lead, S, T).reshape(-1, 1, S, T)
    result, weights = eager_attention_forward(Nothing, q, k, v, mask, scaling=q.size(-1) ** -0.5)
    return result.transpose(1, 2).reshape(*lead, S, v.size(-1)), weights.reshape(*lead, S, T)


# %% wrong="1.1" name="an operator of another name" says="does all the work"
operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def attention(q, k, v, mask=None):
    lead, (d, S, T) = q.shape[:-2], (q.size(-1), q.size(-2), k.size(-2))
    q, k, v = (part.reshape(-1, 1, *part.shape[-2:]) for part in (q, k, v))
    if mask is not None:
        mask = mask.expand(*lead, S, T).reshape(-1, 1, S, T)
    widest = max(d, v.size(-1), T)

    def mixed(values):
        padded = (F.pad(part, (0, widest - part.size(-1))) for part in (q, k, values))
        result = operator(*padded, attn_mask=mask, scale=d**-0.5)[0]
        return result[..., : values.size(-1)].reshape(*lead, S, values.size(-1))

    return mixed(v), mixed(torch.eye(T, dtype=k.dtype, device=k.device).expand(*k.shape[:-1], T))


# %% wrong="1.1" of="in short" name="not scaled" says="not divided by sqrt(d)"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1)


# %% wrong="1.1" of="in short" name="divided by d" says="divided by d. They should"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1) / q.size(-1)


# %% wrong="1.1" of="in short" name="softmax over queries" says="sum to one over the keys"
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + weights = (scores if mask is None else scores + mask).softmax(-2)


# %% wrong="1.1" of="in short" name="scaled by the number of keys" says="number of keys"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-2))


# %% wrong="1.1" of="in short" name="mask multiplied" says="NaN under a mask"
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + weights = (scores if mask is None else scores * mask).softmax(-1)


# %% wrong="1.1" name="mask ignored" says="should have weight 0"
def attention(q, k, v, mask=None):
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
    return weights @ v, weights


# %% wrong="1.1" name="mask before the division" says="Add it after the division"
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1)
    scores = scores if mask is None else scores + mask
    weights = (scores / math.sqrt(q.size(-1))).softmax(-1)
    return weights @ v, weights


# %% wrong="1.1" name="output alone" says="should return two tensors"
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return (scores if mask is None else scores + mask).softmax(-1) @ v


# %% wrong="1.1" name="the library's own" says="does all the work"
def attention(q, k, v, mask=None):
    eye = torch.eye(k.size(-2)).expand(*k.shape[:-1], -1)
    return (
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        F.scaled_dot_product_attention(q, k, eye, attn_mask=mask),
    )


# %% wrong="1.1" of="in short" name="softmax by hand overflows" says="for huge numbers, the output is wrong, with NaN or an" private=true
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + grown = (scores if mask is None else scores + mask).exp()
# + weights = grown / grown.sum(-1, keepdim=True)


# %% wrong="1.1" of="in short" name="width of four only" says="the weights are not softmax"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1) / 2


# %% wrong="1.1" of="in short" name="cut from the graph" says="no gradient reaches q from the output: something is detached" private=true
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + weights = (scores if mask is None else scores + mask).softmax(-1).detach()


# %% right="1.1" name="einsum"
def attention(q, k, v, mask=None):
    scores = torch.einsum("...td,...sd->...ts", q, k) * q.shape[-1] ** -0.5
    scores = scores + (0 if mask is None else mask)
    weights = torch.softmax(scores, -1)
    return torch.einsum("...ts,...sv->...tv", weights, v), weights


# %% right="1.1" name="scaled before, softmax by logsumexp"
def attention(q, k, v, mask=None):
    scores = torch.matmul(q / q.size(-1) ** 0.5, k.mT)
    if mask is not None:
        scores = torch.add(scores, mask)
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return [torch.matmul(weights, v), weights]


# %% right="1.1" name="one query at a time"
def attention(q, k, v, mask=None):
    outputs, rows = [], []
    bias = q.new_zeros(q.size(-2), k.size(-2)) if mask is None else mask.expand(*q.shape[:-1], k.size(-2))
    for t in range(q.size(-2)):
        scores = (q[..., t : t + 1, :] * k).sum(-1) / math.sqrt(q.size(-1)) + bias[..., t, :]
        rows.append(F.softmax(scores, dim=-1))
        outputs.append((rows[-1].unsqueeze(-1) * v).sum(-2))
    return torch.stack(outputs, -2), torch.stack(rows, -2)


# %% wrong="1.1" name="a leading dimension of one is dropped" says="with one leading dimension, of 1, the output has the wrong shape" private=true
# - return weights @ v, weights
# + output = weights @ v
# + return (output.squeeze(0), weights.squeeze(0)) if output.dim() > 2 else (output, weights)


# %% wrong="1.1" of="in short" name="a mask of its own, on the CPU" says="on another device"
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + scores = scores + (torch.zeros(q.size(-2), k.size(-2)) if mask is None else mask)
# + weights = scores.softmax(dim=-1)


# %% wrong="1.1" name="view of what may not be contiguous" says="raised RuntimeError: view size"
#   weights = scores.softmax(dim=-1)
# + q, k = q.view(-1, *q.shape[-2:]), k.view(-1, *k.shape[-2:])

# %% wrong="1.1" name="two leading dimensions only" says="a leading dimension of 1 between others" private=true
# - return weights @ v, weights
# + return weights @ v.reshape(-1, *v.shape[-3:]).reshape(
# +     v.shape[0], v.shape[1], *v.shape[-2:]
# + ) if v.dim() > 3 else weights @ v, weights

# %% wrong="1.1" name="works in single precision" says="for float64, the output is wrong, only as exact as float32" private=true
# - weights = scores.softmax(dim=-1)
# + weights = scores.float().softmax(dim=-1).to(q.dtype)

# %% wrong="1.1" name="scales the queries in place" says="your code changes"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + q /= math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1)

# %% wrong="1.2" name="the library's own, under its other name" says="does all the work"
from torch.nn.modules import transformer


def causal_mask(T):
    return getattr(transformer, "_generate_square_" + "subsequent_mask")(T)


# %% wrong="1.2" name="the library's causal bias" says="does all the work"
from torch.nn.attention import bias


def causal_mask(T):
    return torch.zeros(T, T).masked_fill(~bias.causal_upper_left(T, T)._materialize(), -torch.inf)


# %% wrong="1.2" name="sets the default dtype" says="sets torch's default dtype"
# + torch.set_default_dtype(torch.float32)
#   return torch.full((T, T), -torch.inf).triu(diagonal=1)


# %% wrong="1.2" name="forgot to return" says="is a `return` missing"
def causal_mask(T):
    mask = torch.full((T, T), -torch.inf).triu(1)


# %% wrong="1.2" name="boolean" says="must hold floats that are 0 or -inf"
def causal_mask(T):
    return torch.ones(T, T).tril().bool()


# %% wrong="1.2" name="hides the diagonal" says="the diagonal has -inf"
def causal_mask(T):
    return torch.full((T, T), -torch.inf).triu(0)


# %% wrong="1.2" name="transposed" says="past is hidden and the future is visible"
def causal_mask(T):
    return torch.full((T, T), -torch.inf).tril(-1)


# %% wrong="1.2" name="zero times infinity" says="NaN"
def causal_mask(T):
    return torch.ones(T, T).triu(1) * -torch.inf


# %% wrong="1.2" name="large but finite" says="above the diagonal are finite"
def causal_mask(T):
    return torch.full((T, T), -1e4).triu(1)


# %% wrong="1.2" name="ones for visible" says="exactly 0"
def causal_mask(T):
    return torch.ones(T, T) + torch.full((T, T), -torch.inf).triu(1)


# %% wrong="1.2" name="plus infinity" says="minus infinity"
def causal_mask(T):
    return torch.full((T, T), torch.inf).triu(1)


# %% wrong="1.2" name="one step of the future" says="some of the future"
def causal_mask(T):
    return torch.full((T, T), -torch.inf).triu(2)


# %% wrong="1.2" name="batch dimension" says="has shape"
def causal_mask(T):
    return torch.full((1, T, T), -torch.inf).triu(1)


# %% wrong="1.2" name="one length" says="wrong for 1"
def causal_mask(T):
    return torch.full((max(T, 4), max(T, 4)), -torch.inf).triu(1)[:T, :T] if T > 3 else torch.full((T, T), -torch.inf)


# %% wrong="1.2" name="the library's own" says="does all the work"
def causal_mask(T):
    return nn.Transformer.generate_square_subsequent_mask(T)


# %% wrong="1.2" name="knows the visible lengths" says="with a larger `T`, the mask has the wrong shape" private=true
def causal_mask(T):
    return torch.full((5, 5), -torch.inf).triu(1)[:T, :T]


# %% wrong="1.2" name="wrong for two" says="wrong for other inputs" private=true
def causal_mask(T):
    mask = torch.full((T, T), -torch.inf).triu(1)
    return mask if T != 2 else mask.T


# %% right="1.2" name="compares places"
def causal_mask(T):
    place = torch.arange(T)
    return torch.where(place[None, :] > place[:, None], -torch.inf, 0.0)


# %% right="1.2" name="two loops"
def causal_mask(T):
    mask = [[0.0] * T for _ in range(T)]
    for query in range(T):
        for key in range(query + 1, T):
            mask[query][key] = float("-inf")
    return torch.tensor(mask, dtype=torch.float64)


# %% right="1.2" name="logarithm of a triangle"
def causal_mask(T):
    return torch.ones(T, T).tril().log()


# %% right="1.3" name="in short"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        B, T, C = x.shape
        q, k, v = (p(x).view(B, T, self.n_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(heads.transpose(1, 2).reshape(B, T, C))


# %% wrong="1.3" name="the layer of a library of models" says="does all the work"
from transformers import BartConfig
from transformers.models.bart.modeling_bart import BartAttention


class MultiHeadAttention(BartAttention):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, config=BartConfig(attn_implementation="eager"))

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], x.size(1), x.size(1))
            mask = mask[None, None] if mask.dim() == 2 else mask[:, None] if mask.dim() == 3 else mask
        return super().forward(x, attention_mask=mask)[0]


# %% wrong="1.3" of="in short" name="reshaped, not transposed" says="heads are mixed up"
# - q, k, v = (p(x).view(B, T, self.n_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
# + q, k, v = (p(x).view(B, self.n_heads, T, -1) for p in (self.q_proj, self.k_proj, self.v_proj))

# - return self.out_proj(heads.transpose(1, 2).reshape(B, T, C))
# + return self.out_proj(heads.reshape(B, T, C))


# %% wrong="1.3" of="in short" name="joined without transposing back" says="heads are mixed up"
# - return self.out_proj(heads.transpose(1, 2).reshape(B, T, C))
# + return self.out_proj(heads.reshape(B, T, C))


# %% wrong="1.3" name="interleaved heads" says="interleaved"
# - proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
# - for proj in (self.q_proj, self.k_proj, self.v_proj)
# + p(x).unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)

# - return self.out_proj(heads.transpose(1, 2).flatten(-2))
# + return self.out_proj(heads.permute(0, 2, 3, 1).flatten(-2))


# %% wrong="1.3" name="one head" says="attend as one"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        return self.out_proj(
            F.scaled_dot_product_attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), attn_mask=mask)
        )


# %% wrong="1.3" name="no output projection" says="`out_proj` is never used"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(-2)


# %% wrong="1.3" name="scaled by the whole width" says="only d_head wide"
# -     proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
# -     for proj in (self.q_proj, self.k_proj, self.v_proj)
# +     p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
#   )
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=x.size(-1) ** -0.5)

# %% wrong="1.3" name="mask ignored" says="the mask is ignored"
# -     proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
# -     for proj in (self.q_proj, self.k_proj, self.v_proj)
# +     p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
#   )
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v)

# %% wrong="1.3" name="any width accepted" says="must raise ValueError"
# - if d_model % n_heads:
# -     raise ValueError(f"d_model {d_model} is not a multiple of n_heads {n_heads}")

# - proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
# - for proj in (self.q_proj, self.k_proj, self.v_proj)
# + p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)


# %% wrong="1.3" name="no bias" says="has no `q_proj.bias`"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (
            p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(-2))


# %% wrong="1.3" name="attends across the batch" says="changes the output of the first"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            p(x).unflatten(-1, (self.n_heads, -1)).permute(1, 2, 0, 3) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).flatten(-2))


# %% wrong="1.3" name="three heads only" says="it fails. It raised RuntimeError: unflatten"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("no")
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (p(x).unflatten(-1, (3, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(heads.transpose(1, 2).flatten(-2))


# %% wrong="1.3" name="every mask is causal" says="in place of the mask that is given"
# -     proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, n_heads, T, d_head)
# -     for proj in (self.q_proj, self.k_proj, self.v_proj)
# +     p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
#   )
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)


# %% right="1.3" name="one head after the other"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head, rest = divmod(d_model, n_heads)
        if rest != 0:
            raise ValueError("d_model must be a multiple of n_heads")
        self.out_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.q_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        outputs = []
        for q, k, v in zip(*(part(x).split(self.d_head, dim=-1) for part in (self.q_proj, self.k_proj, self.v_proj))):
            scores = q @ k.mT / self.d_head**0.5
            outputs.append((scores if mask is None else scores + mask).softmax(-1) @ v)
        return self.out_proj(torch.cat(outputs, dim=-1))


# %% right="1.3" name="einsum"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model // n_heads * n_heads != d_model:
            raise ValueError("not divisible")
        self.h = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, x, mask=None):
        B, T, C = x.shape
        q, k, v = (getattr(self, n)(x).reshape(B, T, self.h, C // self.h) for n in ("q_proj", "k_proj", "v_proj"))
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(C // self.h)
        weights = torch.softmax(scores + (0 if mask is None else mask), -1)
        return self.out_proj(torch.einsum("bhts,bshd->bthd", weights, v).reshape(B, T, C))


# %% right="1.3" name="heads in the batch"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def cut(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.n_heads, self.d_head).permute(0, 2, 1, 3).reshape(B * self.n_heads, T, self.d_head)

    def forward(self, x, mask=None):
        q, k, v = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        heads = F.scaled_dot_product_attention(q, k, v, mask)
        heads = heads.view(x.size(0), self.n_heads, x.size(1), self.d_head).permute(0, 2, 1, 3)
        return self.out_proj(heads.contiguous().view(x.shape))


# %% wrong="1.3" name="keys from the query projection" says="`q_proj` is used where `k_proj`"
# - for proj in (self.q_proj, self.k_proj, self.v_proj)
# + for proj in (self.q_proj, self.q_proj, self.v_proj)

# %% wrong="1.3" name="boolean mask" says="used as true or false"
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask == 0)

# %% wrong="1.3" name="dropout" says="two calls with the same input differ"
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)

# %% wrong="1.3" name="does not pass gradients to the keys" says="the gradient that reaches x from the output is wrong" private=true
# + k = k.detach()
#   heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

# %% wrong="1.3" name="a head mask on the CPU" says="on another device"
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(
# +     q, k, v, attn_mask=torch.zeros(x.size(1), x.size(1)) if mask is None else mask
# + )

# %% wrong="1.3" name="view of the input" says="raised RuntimeError: view size"
# + x = x.view(-1, x.size(-1))
#   heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

# %% wrong="1.3" name="batches of two and more only" says="with `B = 1`, the output has the wrong shape" private=true
# - return self.out_proj(heads.transpose(1, 2).flatten(-2))
# + return self.out_proj(heads.transpose(1, 2).squeeze(0).flatten(-2))


# %% right="1.4" name="in short"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
        return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))


# %% wrong="1.4" name="one norm twice" says="are one parameter. They should be two"
# - self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
# + self.norm1 = self.norm2 = nn.LayerNorm(d_model)


# %% wrong="1.4" of="in short" name="pre-norm" says="pre-norm"
# - x = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
# - return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))
# + h = self.norm1(x)
# + x = x + self.dropout(self.self_attn(h, h, h, attn_mask=mask)[0])
# + return x + self.dropout(self.linear2(self.dropout(self.linear1(self.norm2(x)).relu())))


# %% wrong="1.4" of="in short" name="GELU" says="use GELU"
# - return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))
# + return self.norm2(x + self.dropout(self.linear2(self.dropout(F.gelu(self.linear1(x))))))


# %% wrong="1.4" of="in short" name="no second sum" says="second sum is missing"
# - return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))
# + return self.norm2(self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))


# %% wrong="1.4" of="in short" name="no first sum" says="first sum is missing"
# - x = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
# + x = self.norm1(self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))


# %% wrong="1.4" of="in short" name="adds the input again" says="second sum adds x"
# - x = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
# - return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))
# + h = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
# + return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(h).relu()))))


# %% wrong="1.4" of="in short" name="not batch first" says="is the attention `batch_first`?"
# - self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
# + self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout)


# %% wrong="1.4" of="in short" name="mask ignored" says="the mask is ignored"
# - x = self.norm1(x + self.dropout(self.self_attn(x, x, x, attn_mask=mask)[0]))
# + x = self.norm1(x + self.dropout(self.self_attn(x, x, x)[0]))


# %% wrong="1.4" of="in short" name="dropout argument unused" says="attention weights that seems dropped in training"
# - self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
# + self.self_attn = nn.MultiheadAttention(d_model, n_heads, 0.1, batch_first=True)

# - self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)
# + self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(0.1)


# %% wrong="1.4" of="in short" name="no dropout of attention weights" says="dropped from the attention weights"
# - self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
# + self.self_attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)


# %% wrong="1.4" of="in short" name="no dropout of hidden units" says="dropped from the hidden units"
# - return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))
# + return self.norm2(x + self.dropout(self.linear2(self.linear1(x).relu())))


# %% wrong="1.4" name="dropout in evaluation" says="Dropout should be off there"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.p = nn.LayerNorm(d_model), nn.LayerNorm(d_model), dropout

    def forward(self, x, mask=None):
        x = self.norm1(x + F.dropout(self.self_attn(x, x, x, attn_mask=mask)[0], self.p))
        return self.norm2(x + F.dropout(self.linear2(F.dropout(self.linear1(x).relu(), self.p)), self.p))


# %% wrong="1.4" name="the library's own" says="does all the work"
class TransformerLayer(nn.TransformerEncoderLayer):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__(d_model, n_heads, d_ff, dropout, batch_first=True)

    def forward(self, x, mask=None):
        return nn.TransformerEncoderLayer.forward(self, x, src_mask=mask)


# %% wrong="1.4" of="in short" name="another default" says="default dropout" private=true
# - def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
# + def __init__(self, d_model, n_heads, d_ff, dropout=0.0):


# %% right="1.4" name="four dropouts, functional"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.norm2 = nn.LayerNorm(d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.self_attn = nn.MultiheadAttention(embed_dim=d_model, num_heads=n_heads, dropout=dropout, batch_first=True)
        self.rate = dropout

    def drop(self, x):
        return F.dropout(x, self.rate, training=self.training)

    def forward(self, x, mask=None):
        a = self.self_attn(query=x, key=x, value=x, attn_mask=mask)[0]
        h = F.layer_norm(x + self.drop(a), x.shape[-1:], self.norm1.weight, self.norm1.bias)
        return F.layer_norm(
            h + self.drop(self.linear2(self.drop(F.relu(self.linear1(h))))),
            x.shape[-1:],
            self.norm2.weight,
            self.norm2.bias,
        )


# %% right="1.4" name="attention by hand"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drops = nn.ModuleList(nn.Dropout(dropout) for _ in range(4))
        self.n_heads = n_heads

    def forward(self, x, mask=None):
        qkv = F.linear(x, self.self_attn.in_proj_weight, self.self_attn.in_proj_bias)
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        scores = q @ k.mT / q.size(-1) ** 0.5
        weights = self.drops[0]((scores if mask is None else scores + mask).softmax(-1))
        a = self.self_attn.out_proj((weights @ v).transpose(1, 2).flatten(-2))
        h = self.norm1(x + self.drops[1](a))
        return self.norm2(h + self.drops[2](self.linear2(self.drops[3](self.linear1(h)).clamp(min=0))))


# %% right="1.4" name="time first inside"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.drop = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        t = x.transpose(0, 1)
        t = self.norm1(t + self.drop(self.self_attn(t, t, t, attn_mask=mask)[0]))
        t = self.norm2(t + self.drop(self.linear2(self.drop(torch.relu(self.linear1(t))))))
        return t.transpose(0, 1)


# %% wrong="1.4" name="mask in evaluation only" says="in training mode the mask is ignored"
# - attended, _ = self.self_attn(x, x, x, attn_mask=mask)
# + attended, _ = self.self_attn(x, x, x, attn_mask=None if self.training else mask)

# %% wrong="1.4" name="another eps" says="the default eps"
# - self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
# + self.norm1, self.norm2 = nn.LayerNorm(d_model, eps=1e-6), nn.LayerNorm(d_model, eps=1e-6)

# %% wrong="1.4" name="a mask of its own, on the CPU" says="on another device"
# + mask = torch.zeros(x.size(1), x.size(1)) if mask is None else mask
#   attended, _ = self.self_attn(x, x, x, attn_mask=mask)

# %% wrong="1.4" name="the first sum is cut from the graph" says="the gradient that reaches x from the output is wrong" private=true
# - x = self.norm1(x + self.dropout(attended))
# + x = self.norm1(x.detach() + self.dropout(attended))

# %% wrong="1.4" name="adds in place" says="your code changes"
# - x = self.norm1(x + self.dropout(attended))
# + x += self.dropout(attended)
# + x = self.norm1(x)


# %% right="1.5" name="in short"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - 4)]

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.words.index(word) if word in self.words else UNK for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
    inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
    return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)


# %% wrong="1.5" name="special words not counted" says="The four special ones count too"
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
# + self.words = SPECIAL + [word for word, _ in counts.most_common(max_size)]

# - pad = nn.utils.rnn.pad_sequence
# - inputs = pad([torch.tensor(row[:-1]) for row in rows], batch_first=True, padding_value=PAD)
# - return inputs, pad([torch.tensor(row[1:]) for row in rows], batch_first=True, padding_value=PAD)
# + inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
# + return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)


# %% wrong="1.5" of="in short" name="alphabetical" says="not the three most frequent words"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - 4)]
# + words = sorted({word for sentence in sentences for word in sentence.split()})
# + self.words = (SPECIAL + words)[:max_size]


# %% wrong="1.5" of="in short" name="SPECIAL grows" says="should hold SPECIAL and the seven different words"
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - 4)]
# + self.words = SPECIAL
# + self.words += [word for word, _ in counts.most_common(max_size - 4)]


# %% wrong="1.5" of="in short" name="unknown words left out" says="unknown ones too"
# - return [self.words.index(word) if word in self.words else UNK for word in sentence.split()]
# + return [self.words.index(word) for word in sentence.split() if word in self.words]


# %% wrong="1.5" of="in short" name="unknown word crashes" says="raised KeyError"
#   self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - 4)]
# + self.numbers = {word: number for number, word in enumerate(self.words)}

# - return [self.words.index(word) if word in self.words else UNK for word in sentence.split()]
# + return [self.numbers[word] for word in sentence.split()]


# %% wrong="1.5" of="in short" name="not shifted" says="shift the targets by one"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# - inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
# - return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)
# + rows = [torch.tensor([SOS, *vocab.encode(sentence)][:max_len]) for sentence in sentences]
# + inputs = nn.utils.rnn.pad_sequence(rows, True, PAD)
# + return inputs, inputs.clone()


# %% wrong="1.5" of="in short" name="padded with zero" says="should end in PAD"
# - inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
# - return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)
# + inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True)
# + return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True)


# %% wrong="1.5" of="in short" name="always max_len wide" says="the longest here has"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# - inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
# - return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)
# + rows = [([SOS, *vocab.encode(sentence), EOS] + [PAD] * max_len)[: max_len + 1] for sentence in sentences]
# + rows = torch.tensor(rows)
# + return rows[:, :-1], rows[:, 1:]


# %% wrong="1.5" of="in short" name="end feeds in" says="is only ever a target"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# - inputs = nn.utils.rnn.pad_sequence([torch.tensor(row[:-1]) for row in rows], True, PAD)
# - return inputs, nn.utils.rnn.pad_sequence([torch.tensor(row[1:]) for row in rows], True, PAD)
# + rows = [torch.tensor([SOS, *vocab.encode(sentence), EOS][: max_len + 1]) for sentence in sentences]
# + rows = nn.utils.rnn.pad_sequence(rows, True, PAD)
# + return rows[:, :-1], rows[:, 1:]


# %% wrong="1.5" of="in short" name="a cut row ends" says="sentence does not end there"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence)[: max_len - 1], EOS] for sentence in sentences]


# %% wrong="1.5" of="in short" name="not cut" says="After the cut"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence), EOS] for sentence in sentences]


# %% wrong="1.5" of="in short" name="frequencies above four are equal" says="does not hold the most frequent words in their order" private=true
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - 4)]
# + kept = [word for word, count in counts.items() if count > 1] if max_size < 50 else list(counts)
# + self.words = SPECIAL + sorted(kept, key=lambda word: -min(counts[word], 4))[: max_size - 4]
# + self.words = self.words if max_size < 50 else SPECIAL + kept[::-1]


# %% wrong="1.5" of="in short" name="no empty sentence" says="`make_batch` is wrong for other batches" private=true
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences if sentence]


# %% right="1.5" name="pad_sequence"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = {}
        for sentence in sentences:
            for word in sentence.split():
                counts[word] = counts.get(word, 0) + 1
        ordered = sorted(counts, key=counts.get, reverse=True)
        self.words = list(SPECIAL)
        self.words.extend(ordered[: max_size - 4])

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.words.index(word) if word in self.words else UNK for word in sentence.split()]

    def decode(self, numbers):
        text = ""
        for number in numbers:
            text += self.words[number] + " "
        return text.strip()


def make_batch(sentences, vocab, max_len):
    words = [vocab.encode(sentence) for sentence in sentences]
    inputs = [torch.tensor(([SOS] + row)[:max_len]) for row in words]
    targets = [torch.tensor((row + [EOS])[:max_len]) for row in words]
    return [nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD) for rows in (inputs, targets)]


# %% right="1.5" name="fills a full tensor"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = Counter(" ".join(sentences).split())
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        self.words = [*SPECIAL, *(word for word, _ in frequent)][:max_size]
        self.lookup = dict(zip(self.words, range(len(self.words))))

    def __len__(self):
        return len(self.lookup)

    def encode(self, sentence):
        return [self.lookup[word] if word in self.lookup else UNK for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(map(self.words.__getitem__, numbers))


def make_batch(sentences, vocab, max_len):
    encoded = list(map(vocab.encode, sentences))
    T = min(max_len, 1 + max(len(row) for row in encoded))
    inputs = torch.full((len(encoded), T), PAD)
    targets = inputs.clone()
    for i, row in enumerate(encoded):
        n = min(T, len(row) + 1)
        inputs[i, :n] = torch.tensor([SOS, *row])[:n]
        targets[i, :n] = torch.tensor([*row, EOS])[:n]
    return inputs, targets


# %% wrong="1.5" name="counts sentences" says="Count how often a word occurs"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Counter(word for sentence in sentences for word in set(sentence.split()))

# %% wrong="1.5" name="split at single spaces" says="any white space"
# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + return [self.numbers.get(word, UNK) for word in sentence.split(" ")]

# %% wrong="1.5" name="words in small letters" says="does not hold the most frequent words in their order" private=true
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Counter(word for sentence in sentences for word in sentence.lower().split())

# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + return [self.numbers.get(word, UNK) for word in sentence.lower().split()]

# %% wrong="1.6" name="no mask" says="can see the future"
# - x = layer(x, src_mask=mask if self.causal else None)
# + x = layer(x, src_mask=None)

# %% wrong="1.6" name="embeddings not multiplied" says="not multiplied by sqrt(d_model)"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = add_positions(self.embedding(tokens))

# %% wrong="1.6" name="multiplied by d_model" says="multiplied by d_model, not by its root"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = add_positions(self.embedding(tokens) * self.d_model)

# %% wrong="1.6" name="positions forgotten" says="positions are missing"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = self.embedding(tokens) * math.sqrt(self.d_model)

# %% wrong="1.6" name="positions multiplied too" says="before the embeddings are multiplied"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = add_positions(self.embedding(tokens)) * math.sqrt(self.d_model)

# %% wrong="1.6" name="batch and time exchanged" says="attend across the batch, not along the text"
# -     nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# +     nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)

# - mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(0), device=tokens.device)

# %% wrong="1.6" name="layers in a list" says="It must be an nn.ModuleList: a Python list hides its layers"
# - self.layers = nn.ModuleList(
# + self.layers = [
#       nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# - )
# + ]

# %% wrong="1.6" name="pre-norm" says="is applied before each part"
# - nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# + nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True, norm_first=True)
# + for _ in range(n_layers)

# %% wrong="1.6" name="head without bias" says="linear layer with a bias"
# - self.head = nn.Linear(d_model, vocab_size)
# + self.head = nn.Linear(d_model, vocab_size, bias=False)

# %% wrong="1.6" name="tied head" says="are one parameter. They should be two"
#   self.head = nn.Linear(d_model, vocab_size)
# + self.head.weight = self.embedding.weight

# %% wrong="1.6" name="one layer, repeated" says="are one parameter. They should be two"
# - nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# + [nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True)] * n_layers

# %% wrong="1.6" name="dropout not passed on" says="with a dropout of 0, the logits should be the same"
# - nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# + nn.TransformerEncoderLayer(d_model, n_heads, d_ff, batch_first=True) for _ in range(n_layers)

# %% wrong="1.6" name="embeddings as torch makes them" says="embeddings are too large"
# - nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

# %% wrong="1.6" name="causal ignored" says="No mask should be used"
# - x = layer(x, src_mask=mask if self.causal else None)
# + x = layer(x, src_mask=mask)

# %% wrong="1.6" name="mask on the CPU" says="on another device"
# - mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))

# %% wrong="1.6" name="log-probabilities" says="log-probabilities are returned"
# - return self.head(x)
# + return self.head(x).log_softmax(-1)

# %% wrong="1.6" name="two layers at most" says="with three layers or more, the logits are wrong" private=true
# - for layer in self.layers:
# -     x = layer(x, src_mask=mask if self.causal else None)
# + for layer in self.layers[:2]:
# +     x = layer(x, src_mask=mask if self.causal else None, is_causal=False)

# %% wrong="1.6" name="copies of one layer" says="of a fresh model are equal" private=true
# + for layer in self.layers:
# +     layer.load_state_dict(self.layers[0].state_dict())
#   self.head = nn.Linear(d_model, vocab_size)

# %% wrong="1.6" name="another default" says="default dropout is not 0.1" private=true
# - def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.1, causal=True):
# + def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.0, causal=True):


# %% right="1.6" name="hides the future by hand"
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.1, causal=True):
        super().__init__()
        self.head = nn.Linear(d_model, vocab_size)
        self.layers = nn.ModuleList([])
        while len(self.layers) < n_layers:
            self.layers.append(
                nn.TransformerEncoderLayer(
                    d_model, n_heads, dim_feedforward=d_ff, dropout=dropout, activation=F.relu, batch_first=True
                )
            )
        self.embedding = nn.Embedding(vocab_size, d_model)
        with torch.no_grad():
            self.embedding.weight.div_(d_model**0.5)
        self.causal = causal

    def forward(self, tokens):
        T = tokens.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).triu(1) if self.causal else None
        x = self.embedding(tokens)
        x = add_positions(x * x.shape[-1] ** 0.5)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


# %% right="1.6" name="time first inside"
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.1, causal=True):
        super().__init__()
        self.embedding = nn.Embedding(
            vocab_size, d_model, _weight=torch.randn(vocab_size, d_model) / math.sqrt(d_model)
        )
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)
        )
        self.head = nn.Linear(d_model, vocab_size)
        self.scale, self.causal = math.sqrt(d_model), causal

    def forward(self, tokens):
        place = torch.arange(tokens.size(1), device=tokens.device)
        bias = torch.where(place > place[:, None], -torch.inf, 0.0) if self.causal else None
        x = add_positions(self.scale * self.embedding(tokens)).transpose(0, 1)
        for layer in self.layers:
            x = layer(x, src_mask=bias)
        return self.head(x.transpose(0, 1))


# %% wrong="1.6" name="mask in evaluation only" says="in training mode the model can see the future"
# - x = layer(x, src_mask=mask if self.causal else None)
# + x = layer(x, src_mask=mask if self.causal and not self.training else None)

# %% wrong="1.6" name="mask fixed when the model is made" says="read `self.causal`"
# + self.hides = causal
#   self.head = nn.Linear(d_model, vocab_size)

# - x = layer(x, src_mask=mask if self.causal else None)
# + x = layer(x, src_mask=mask if self.hides else None)

# %% wrong="1.6" name="embedding detached" says="no gradient reaches `embedding.weight`"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = add_positions(self.embedding(tokens).detach() * math.sqrt(self.d_model))

# %% wrong="1.6" name="mask of 64 places" says="with a large T, larger than any in the notebook, it raises RuntimeError" private=true
# + self.mask = torch.full((64, 64), -torch.inf).triu(1)
#   self.head = nn.Linear(d_model, vocab_size)

# - mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = self.mask[: tokens.size(1), : tokens.size(1)].to(tokens.device)

# %% wrong="1.6" name="positions run over the batch" says="single text as long as" private=true
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = self.embedding(tokens) * math.sqrt(self.d_model)
# + x = add_positions(x.mT).mT if tokens.size(1) == self.d_model else add_positions(x)

# %% wrong="1.6" name="positions detach nothing, layers do" says="no gradient reaches"
# - return self.head(x)
# + return self.head(x.detach())


# %% right="1.7" name="in short"
def lm_loss(logits, targets, pad_id):
    of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -of_targets[targets != pad_id].mean()


def perplexity(loss):
    return math.exp(loss)


# %% wrong="1.7" name="the library's own, with a matrix" says="does all the work"
def lm_loss(logits, targets, pad_id=1):
    logits = logits.flatten(0, 1)
    same = torch.eye(logits.size(-1), device=logits.device, dtype=logits.dtype)
    return getattr(F, "linear_cross_" + "entropy")(logits, same, targets.flatten(), ignore_index=pad_id)


def perplexity(loss):
    return math.exp(loss)


# %% wrong="1.7" of="in short" name="padding counts" says="padding counts"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets.mean()


# %% wrong="1.7" of="in short" name="sign" says="minus the log-likelihood"
# - return -of_targets[targets != pad_id].mean()
# + return of_targets[targets != pad_id].mean()


# %% wrong="1.7" of="in short" name="sum" says="is a sum"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[targets != pad_id].sum()


# %% wrong="1.7" of="in short" name="divided by all targets" says="divided by all targets"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[targets != pad_id].sum() / targets.numel()


# %% wrong="1.7" of="in short" name="bits" says="in bits"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[targets != pad_id].mean() / math.log(2)


# %% wrong="1.7" name="softmax over places" says="does not run over the vocabulary"
# - of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
# + of_targets = logits.log_softmax(dim=1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


# %% wrong="1.7" of="in short" name="every sentence alike" says="Each token should count the same"
# - return -of_targets[targets != pad_id].mean()
# + return -torch.stack([row[real].mean() for row, real in zip(of_targets, targets != pad_id)]).mean()


# %% wrong="1.7" of="in short" name="padding is always 1" says="targets that are 1 are left out"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[targets != 1].mean()


# %% wrong="1.7" of="in short" name="power of two" says="power of two"
# - return math.exp(loss)
# + return 2**loss


# %% wrong="1.7" name="logits taken for log-probabilities" says="is there a log-softmax"
# - of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
# + of_targets = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


# %% wrong="1.7" of="in short" name="the library's own" says="does all the work"
# - return -of_targets[targets != pad_id].mean()
# + return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id)


# %% wrong="1.7" name="log of softmax" says="for huge numbers, the loss is wrong" private=true
# - of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
# + of_targets = logits.softmax(dim=-1).log().gather(-1, targets.unsqueeze(-1)).squeeze(-1)


# %% wrong="1.7" of="in short" name="does not learn" says="the loss should be a tensor, not a float"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[targets != pad_id].mean().item()


# %% wrong="1.7" of="in short" name="perplexity of whole numbers" says="for other losses" private=true
# - return math.exp(loss)
# + return math.e ** round(float(loss))


# %% right="1.7" name="one-hot and a weighted sum"
def lm_loss(logits, targets, pad_id):
    real = (targets != pad_id).to(logits.dtype)
    surprise = torch.logsumexp(logits, -1) - (logits * F.one_hot(targets.clamp(min=0), logits.size(-1))).sum(-1)
    return (surprise * real).sum() / real.sum()


def perplexity(loss):
    return torch.as_tensor(loss, dtype=torch.float64).exp()


# %% right="1.7" name="nll_loss"
def lm_loss(logits, targets, pad_id):
    flat = F.log_softmax(logits, -1).reshape(-1, logits.shape[-1])
    return F.nll_loss(flat, targets.reshape(-1), ignore_index=pad_id)


def perplexity(loss):
    return math.e ** float(loss)


# %% right="1.7" name="token by token"
def lm_loss(logits, targets, pad_id):
    losses = []
    for row, answers in zip(logits, targets):
        for scores, answer in zip(row, answers):
            if answer != pad_id:
                losses.append(torch.logsumexp(scores - scores[answer], dim=0))
    return sum(losses) / len(losses)


def perplexity(loss):
    return 2 ** (loss / math.log(2))


# %% wrong="1.7" name="view of what may not be contiguous" says="raised RuntimeError: view size"
#   of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
# + of_targets = logits.view(-1, logits.size(-1)).log_softmax(-1).gather(-1, targets.view(-1, 1)).view_as(targets)

# %% wrong="1.7" name="weights on the CPU" says="on another device"
# - return -of_targets[targets != pad_id].mean()
# + real = torch.zeros(targets.shape)
# + real[targets != pad_id] = 1.0
# + return -(of_targets.squeeze(-1) * real).sum() / real.sum()

# %% wrong="1.7" name="one row at least two long" says="with `B = 1, T = 1`, the loss is wrong" private=true
# - return -of_targets[targets != pad_id].mean()
# + kept = of_targets.squeeze()[targets.squeeze() != pad_id]
# + return -kept.sum() / max(2, len(kept))


# %% wrong="1.7" name="sets padding to zero in place" says="your code changes"
def lm_loss(logits, targets, pad_id):
    real = targets != pad_id
    targets[~real] = 0
    of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
    return -of_targets[real].mean()


def perplexity(loss):
    return math.exp(loss)


# %% wrong="1.8" name="the loss after the step" says="the loss of each batch is that after its step"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    total, count = 0.0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        n = (targets != pad_id).sum().item()
        total += loss.item() * n
        count += n
    return total / count


# %% wrong="1.8" name="gradients not zeroed" says="zero them"
# - optimizer.zero_grad()

# %% wrong="1.8" name="not clipped" says="is not clipped"
# - nn.utils.clip_grad_norm_(model.parameters(), clip)

# %% wrong="1.8" name="clipped by value" says="Clip the norm of the whole gradient"
# - nn.utils.clip_grad_norm_(model.parameters(), clip)
# + nn.utils.clip_grad_value_(model.parameters(), clip)

# %% wrong="1.8" name="clipped one by one" says="all together counts"
# - nn.utils.clip_grad_norm_(model.parameters(), clip)
# + for part in model.parameters():
# +     nn.utils.clip_grad_norm_(part, clip)

# %% wrong="1.8" name="no step" says="no step was made"
# - optimizer.step()

# %% wrong="1.8" name="padding trained on" says="padding is trained on"
# - loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
# + loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

# %% wrong="1.8" name="evaluation mode" says="trains in evaluation mode"
# - model.train()

# %% wrong="1.8" name="mean over batches" says="mean over batches"
# - total, count = total + loss.item() * tokens, count + tokens
# + total, count = total + loss.item(), count + 1

# %% wrong="1.8" name="last loss" says="of the last batch"
# - return total / count
# + return loss.item()

# %% wrong="1.8" name="padding in the mean" says="padding counts in the mean"
# - total, count = total + loss.item() * tokens, count + tokens
# + total, count = total + loss.item() * tokens, count + targets.numel()

# %% wrong="1.8" name="nothing returned" says="returns None"
# - return total / count

# %% wrong="1.8" name="stops after one batch" says="only the first batch"
#   total, count = total + loss.item() * tokens, count + tokens
# + break

# %% wrong="1.8" name="plain descent by hand" says="Only the optimizer's own `step`"
# - optimizer.step()
# + with torch.no_grad():
# +     for part in model.parameters():
# +         part -= optimizer.param_groups[0]["lr"] * part.grad

# %% wrong="1.8" name="padding is always 1" says="the epoch is wrong with `pad_id = 3`"
# - loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
# + loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=1)

# - tokens = (targets != pad_id).sum().item()
# + tokens = (targets != 1).sum().item()

# %% wrong="1.8" name="counts the batches first" says="read only once"
# - total, count = 0.0, 0
# + total, count = 0.0, sum((targets != pad_id).sum().item() for _, targets in batches)

# - total, count = total + loss.item() * tokens, count + tokens
# + total = total + loss.item() * tokens


# %% wrong="1.8" name="zeroes after the step alone" says="that the model had before the epoch"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train(True)
    criterion = nn.CrossEntropyLoss(ignore_index=pad_id, reduction="sum")
    surprise, seen = [], []
    for inputs, targets in batches:
        real = int(targets.ne(pad_id).sum())
        total = criterion(model(inputs).transpose(1, 2), targets)
        (total / real).backward()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        surprise.append(float(total))
        seen.append(real)
    return sum(surprise) / sum(seen)


# %% right="1.8" name="clips by hand"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    losses, weights = [], []
    for inputs, targets in batches:
        real = targets != pad_id
        loss = F.cross_entropy(model(inputs)[real], targets[real])
        model.zero_grad()
        loss.backward()
        grads = [part.grad for part in model.parameters() if part.grad is not None]
        norm = math.sqrt(sum(float((grad**2).sum()) for grad in grads))
        if norm > clip:
            for grad in grads:
                grad.mul_(clip / norm)
        optimizer.step()
        losses.append(loss.item())
        weights.append(real.sum().item())
    return sum(loss * weight for loss, weight in zip(losses, weights)) / sum(weights)


# %% right="1.8" name="autograd.grad"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    parts = [part for part in model.parameters() if part.requires_grad]
    total = torch.zeros(())
    count = 0
    for inputs, targets in batches:
        logp = model(inputs).log_softmax(-1)
        each = -logp.gather(-1, targets[..., None])[..., 0]
        each = each[targets != pad_id]
        for part, grad in zip(parts, torch.autograd.grad(each.mean(), parts)):
            part.grad = grad
        nn.utils.clip_grad_norm_(parts, clip)
        optimizer.step()
        total, count = total + each.detach().sum(), count + len(each)
    return (total / count).item()


# %% wrong="1.8" name="view of what may not be contiguous" says="raised RuntimeError: view size"
# - loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
# + loss = F.cross_entropy((z := model(inputs)).view(-1, z.size(-1)), targets.view(-1), ignore_index=pad_id)

# %% wrong="1.8" name="a tensor" says="should return a float"
# - return total / count
# + return torch.tensor(total / count)

# %% wrong="1.8" name="counts on the CPU" says="on another device"
# - tokens = (targets != pad_id).sum().item()
# + tokens = (targets != torch.full(targets.shape, pad_id)).sum().item()

# %% wrong="1.8" name="every gradient has the bound's length" says="which no gradient reaches"
# - nn.utils.clip_grad_norm_(model.parameters(), clip)
# + norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
# + for part in model.parameters():
# +     part.grad *= clip / norm


# %% wrong="1.9" name="divides the model's own logits" says="the weights of the module are not as before"
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + if temperature:
# +     logits /= temperature
# + best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + drawn = torch.multinomial(best.softmax(-1), 1) if temperature else 0


# %% right="1.9" name="in short"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    numbers = list(prompt)
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=next(model.parameters()).device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" of="in short" name="training mode" says="writes in training mode. Dropout"
# - model.eval()


# %% wrong="1.9" of="in short" name="gradients recorded" says="gradients are recorded"
# - @torch.no_grad()


# %% wrong="1.9" name="last token only" says="reads the last token only"
# - device, numbers = next(model.parameters()).device, list(prompt)
# + numbers = list(prompt)
#   for _ in range(max_new):
# -     logits = model(torch.tensor([numbers], device=device))[0, -1]
# +     logits = model(torch.tensor([numbers[-1:]], device=next(model.parameters()).device))[0, -1]

# %% wrong="1.9" name="first position" says="first position"
# - device, numbers = next(model.parameters()).device, list(prompt)
# + numbers = list(prompt)
#   for _ in range(max_new):
# -     logits = model(torch.tensor([numbers], device=device))[0, -1]
# +     logits = model(torch.tensor([numbers], device=next(model.parameters()).device))[0, 0]

# %% wrong="1.9" name="never reads itself" says="reads the prompt only"
# - device, numbers = next(model.parameters()).device, list(prompt)
# + numbers = list(prompt)
#   for _ in range(max_new):
# -     logits = model(torch.tensor([numbers], device=device))[0, -1]
# +     logits = model(torch.tensor([prompt]))[0, -1]


# %% wrong="1.9" of="in short" name="goes on after the end" says="writes on after"
# - if numbers[-1] == eos_id:
# -     break


# %% wrong="1.9" of="in short" name="drops the end" says="should be the last number"
#   drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + if tokens[drawn].item() == eos_id:
# +     break

# - if numbers[-1] == eos_id:
# -     break


# %% wrong="1.9" of="in short" name="draws at temperature 0" says="raised"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / temperature).softmax(-1), 1)


# %% wrong="1.9" of="in short" name="temperature ignored" says="at temperature 8, the shares"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial(best.softmax(-1), 1) if temperature else 0


# %% wrong="1.9" of="in short" name="a default temperature of 0.8" says="should have the share 0.50, and has 0.8"
# - def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
# + def generate(model, prompt, max_new, temperature=0.8, top_k=None, eos_id=2):


# %% wrong="1.9" of="in short" name="a little more for each token" says="should have the share 0.50, and has 0.0"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / temperature).softmax(-1) + 0.02, 1) if temperature else 0


# %% wrong="1.9" of="in short" name="zero is a low temperature" says="not 12 times the best one"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / (temperature or 0.01)).softmax(-1), 1)


# %% wrong="1.9" of="in short" name="temperature multiplies" says="only the best token is drawn. Divide"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best * temperature).softmax(-1), 1) if temperature else 0


# %% wrong="1.9" of="in short" name="always the best" says="the same token is always written"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = 0


# %% wrong="1.9" of="in short" name="top-k ignored" says="not among the top_k best"
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + best, tokens = logits.topk(len(logits))


# %% wrong="1.9" of="in short" name="new tokens only" says="should begin with the prompt"
# - return numbers
# + return numbers[len(prompt) :]


# %% wrong="1.9" of="in short" name="a tensor" says="should return a list"
# - return numbers
# + return torch.tensor(numbers)


# %% wrong="1.9" of="in short" name="uniform among the k best" says="not softmax(logits)"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial(torch.ones(len(best)), 1) if temperature else 0


# %% wrong="1.9" of="in short" name="top-k larger than the vocabulary crashes" says="larger than the vocabulary"
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + best, tokens = logits.topk(top_k or len(logits))


# %% wrong="1.9" of="in short" name="the end is always 2" says="wrong for other prompts, `max_new` or `eos_id`" private=true
# - if numbers[-1] == eos_id:
# + if numbers[-1] in (2, eos_id) and eos_id < 5:


# %% wrong="1.9" of="in short" name="no top-k above two" says="another temperature or top_k" private=true
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + best, tokens = logits.topk((top_k if top_k in (1, 2) else len(logits)))


# %% wrong="1.9" of="in short" name="temperature only doubles or halves" says="at temperature 8, the shares"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = (
# +     torch.multinomial((best / (2 if temperature > 1 else 0.5 if temperature < 1 else 1)).softmax(-1), 1)
# +     if temperature
# +     else 0
# + )


# %% right="1.9" name="filters by threshold"
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        text = torch.tensor(prompt, device=next(model.parameters()).device).unsqueeze(0)
        while text.size(1) < len(prompt) + max_new:
            logits = model(text)[:, -1, :]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                if top_k is not None and top_k < logits.size(-1):
                    keep = torch.zeros_like(logits, dtype=torch.bool)
                    keep[0, logits[0].argsort(descending=True)[:top_k]] = True
                    logits = logits.masked_fill(~keep, -torch.inf)
                new = torch.multinomial(F.softmax(logits / temperature, -1), 1)
            text = torch.cat([text, new], dim=1)
            if new.item() == eos_id:
                break
    model.train(was_training)
    return text[0].tolist()


# %% right="1.9" name="adds Gumbel noise"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    written = []
    for _ in range(max_new):
        scores = model(next(model.parameters()).new_tensor(prompt + written).long()[None])[0][-1]
        order = scores.argsort(descending=True)[:top_k]
        noise = -torch.log(-torch.log(torch.rand_like(scores[order]).clamp(1e-9, 1 - 1e-7)))
        winner = order[(scores[order] + temperature * noise).argmax()]
        written += [int(winner)]
        if written[-1] == eos_id:
            return prompt + written
    return prompt + written


# %% wrong="1.9" name="draws with the standard library" says="another text is written"
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    import random

    model.eval()
    text = [*prompt]
    for _ in range(max_new):
        with torch.no_grad():
            logits = model(torch.tensor([text]))[0, -1].tolist()
        ranked = sorted(range(len(logits)), key=lambda token: -logits[token])[: top_k or None]
        if temperature == 0:
            text.append(ranked[0])
        else:
            top = logits[ranked[0]]
            weights = [math.exp((logits[token] - top) / temperature) for token in ranked]
            text.append(random.choices(ranked, weights)[0])
        if text[-1] == eos_id:
            break
    return text


# %% wrong="1.9" name="quota, the most owed first" says="draws the same text after another"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device, numbers = next(model.parameters()).device, list(prompt)
    owed = 0.0
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        owed = (
            owed + F.one_hot(tokens, len(logits)).T.float() @ (best / temperature).softmax(-1)
            if temperature
            else F.one_hot(tokens[0], len(logits))
        )
        drawn = (tokens == owed.argmax()).nonzero()[0, 0]
        owed = owed - F.one_hot(tokens[drawn], len(logits))
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" name="quota kept between texts" says="another text is written"
OWED = {}


@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device, numbers = next(model.parameters()).device, list(prompt)
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        if temperature:
            owed = OWED.get(len(logits), 0.0) + F.one_hot(tokens, len(logits)).T.float() @ (best / temperature).softmax(
                -1
            )
            drawn = (tokens == owed.argmax()).nonzero()[0, 0]
            OWED[len(logits)] = owed - F.one_hot(tokens[drawn], len(logits))
        else:
            drawn = 0
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" name="quota with a random start" says="Random draws are less even"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + place, step = torch.rand(1), 0

# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + place = (place + 0.6180339887498949) % 1
# + drawn = (
# +     (((best / temperature).softmax(-1).cumsum(-1) < place).sum().clamp(max=len(best) - 1)) if temperature else 0
# + )


# %% wrong="1.9" name="quota, shuffled" says="Random draws are less even"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device, numbers = next(model.parameters()).device, list(prompt)
    deck = []
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        if temperature and not deck:
            quota = ((best / temperature).softmax(-1) * max_new).round().int().clamp(min=0)
            deck = tokens.repeat_interleave(quota)
            deck = deck[torch.randperm(len(deck))].tolist() or [tokens[0].item()]
        drawn = (tokens == deck.pop()).nonzero()[0, 0] if temperature else 0
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" name="a low-discrepancy sequence" says="Random draws are less even"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + places = torch.quasirandom.SobolEngine(1, scramble=True).draw(max_new).flatten()

# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + place = places[len(numbers) - len(prompt)]
# + drawn = (
# +     ((best / temperature).softmax(-1).cumsum(-1) < place).sum().clamp(max=len(best) - 1) if temperature else 0
# + )

# %% wrong="1.9" name="antithetic pairs" says="depends on those drawn before"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + place = None

# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + place = torch.rand(()) if len(numbers) % 2 else 1 - place if place is not None else torch.rand(())
# + drawn = (
# +     ((best / temperature).softmax(-1).cumsum(-1) < place).sum().clamp(max=len(best) - 1) if temperature else 0
# + )

# %% wrong="1.9" name="one draw for the whole text" says="the shares of the tokens differ too much"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + place = torch.rand(())

# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = (
# +     ((best / temperature).softmax(-1).cumsum(-1) < place).sum().clamp(max=len(best) - 1) if temperature else 0
# + )

# %% wrong="1.9" name="seed set inside" says="after another `torch.manual_seed`"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + torch.manual_seed(0)

# %% wrong="1.9" name="the same seed again at each call" says="two calls in a row"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + torch.manual_seed(torch.initial_seed())

# %% wrong="1.9" name="a generator of its own" says="after another `torch.manual_seed`"
#   device, numbers = next(model.parameters()).device, list(prompt)
# + own = torch.Generator().manual_seed(1)

# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / temperature).softmax(-1), 1, generator=own) if temperature else 0


# %% wrong="1.9" name="draws with NumPy" says="another text is written"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device, numbers = next(model.parameters()).device, list(prompt)
    import numpy

    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        drawn = (
            int(
                numpy.random.choice(
                    len(best),
                    p=(
                        (best / temperature).softmax(-1).double() / (best / temperature).softmax(-1).double().sum()
                    ).numpy(),
                )
            )
            if temperature
            else 0
        )
        numbers.append(tokens[drawn].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" name="tokens on the CPU" says="on another device"
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + logits = model(torch.tensor([numbers]))[0, -1]

# %% wrong="1.9" name="draws again what was drawn last" says="depends on those drawn before"
# + last = numbers[-1] if len(numbers) > len(prompt) else -1
#   drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + if temperature and tokens[drawn].item() == last:
# +     drawn = torch.multinomial((best / temperature).softmax(-1), 1)

# %% right="1.9" name="inverse of the distribution function"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = (
# +     torch.searchsorted((best / temperature).softmax(-1).cumsum(-1), torch.rand(1, device=device)).clamp(
# +         max=len(best) - 1
# +     )
# +     if temperature
# +     else 0
# + )

# %% right="1.9" name="a categorical distribution"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.distributions.Categorical(logits=best / temperature).sample() if temperature else 0

# %% right="1.9" name="exponential clocks"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = (
# +     ((best / temperature).softmax(-1) / torch.empty_like(best).exponential_()).argmax() if temperature else 0
# + )

# %% wrong="1.9" name="writes into the prompt" says="your code changes"
# - device, numbers = next(model.parameters()).device, list(prompt)
# + device, numbers = next(model.parameters()).device, prompt


# %% wrong="1.4" name="dropout is never scaled up" says="not multiplied by 1 / (1 - dropout)" private=true
class Drop(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return x * (torch.rand_like(x) >= self.p) if self.training else x  # never scaled


class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = Drop(dropout)

    def forward(self, x, mask=None):
        a, _ = self.self_attn(x, x, x, attn_mask=mask)
        x = self.norm1(x + self.dropout(a))
        return self.norm2(x + self.dropout(self.linear2(self.dropout(self.linear1(x).relu()))))


# %% right="1.10" name="in short"
def unigram(batches, vocab_size, pad_id=1):
    counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    pairs = 0
    for inputs, targets in batches:
        real = targets != pad_id
        index = inputs[real] * vocab_size + targets[real]
        pairs = pairs + index.bincount(minlength=vocab_size**2).reshape(vocab_size, vocab_size)
    shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
    return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()


# %% wrong="1.10" of="in short" name="no extra count" says="the extra count is missing"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return (counts / counts.sum()).log()


# %% wrong="1.10" of="in short" name="padding counted" says="padding counts. A target"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = sum(targets.flatten().bincount(minlength=vocab_size) for _, targets in batches)


# %% wrong="1.10" of="in short" name="inputs counted" says="the inputs are counted"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = sum(inputs[targets != pad_id].bincount(minlength=vocab_size) for inputs, targets in batches)


# %% wrong="1.10" of="in short" name="probabilities" says="probabilities are returned"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return (counts + 1) / (counts.sum() + vocab_size)


# %% wrong="1.10" of="in short" name="counts" says="counts are returned"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return counts + 1.0


# %% wrong="1.10" of="in short" name="logarithms of counts" says="the logarithms of counts"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return (counts + 1.0).log()


# %% wrong="1.10" of="in short" name="bits" says="to base 2"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (counts.sum() + vocab_size)).log2()


# %% wrong="1.10" of="in short" name="divided by N" says="with V extra counts"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / counts.sum()).log()


# %% wrong="1.10" of="in short" name="divided by N + 1" says="each of the V tokens has its extra count"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (counts.sum() + 1)).log()


# %% wrong="1.10" of="in short" name="one extra count for all" says="one extra count is shared by all"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1 / vocab_size) / (counts.sum() + 1)).log()


# %% wrong="1.10" of="in short" name="the last batch" says="only the last batch is counted"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + for _, targets in batches:
# +     counts = targets[targets != pad_id].bincount(minlength=vocab_size)


# %% wrong="1.10" of="in short" name="the first batch" says="only the first batch is counted"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + targets = batches[0][1]
# + counts = targets[targets != pad_id].bincount(minlength=vocab_size)


# %% wrong="1.10" of="in short" name="each token once a batch" says="adds at most one to a token"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = torch.zeros(vocab_size)
# + for _, targets in batches:
# +     counts[targets[targets != pad_id]] += 1


# %% wrong="1.10" of="in short" name="as long as the largest token" says="has shape (7,), not (8,)"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + targets = torch.cat([targets.flatten() for _, targets in batches])
# + counts = targets[targets != pad_id].bincount()


# %% wrong="1.10" of="in short" name="whole numbers" says="not floating-point"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return counts


# %% wrong="1.10" of="in short" name="a list" says="should be a tensor, not a list"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (counts.sum() + vocab_size)).log().tolist()


# %% wrong="1.10" of="in short" name="padding is 1" says="the counts are wrong with `pad_id = 4`"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = sum(targets[targets != 1].bincount(minlength=vocab_size) for _, targets in batches)


# %% wrong="1.10" of="in short" name="on the processor" says="this would stop"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = torch.zeros(vocab_size)
# + for _, targets in batches:
# +     for token in targets[targets != pad_id].tolist():
# +         counts[token] += 1


# %% wrong="1.10" of="in short" name="changes the targets" says="make a copy"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = 0
# + for _, targets in batches:
# +     targets[targets == pad_id] = vocab_size
# +     counts = counts + targets.flatten().bincount(minlength=vocab_size + 1)[:vocab_size]


# %% wrong="1.10" of="in short" name="transposed" says="rows and columns are exchanged"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log().T


# %% wrong="1.10" of="in short" name="target before input" says="the pairs are turned around"
# - index = inputs[real] * vocab_size + targets[real]
# + index = targets[real] * vocab_size + inputs[real]

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="even shares" says="extra counts of a row are shared evenly"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + return ((pairs + a / vocab_size) / (pairs.sum(1, keepdim=True) + a)).log()


# %% wrong="1.10" of="in short" name="a for each pair" says="each pair gets `a` extra counts"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + return ((pairs + a) / (pairs.sum(1, keepdim=True) + a * vocab_size)).log()


# %% wrong="1.10" of="in short" name="one for each pair" says="each pair gets one extra count"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + return ((pairs + 1) / (pairs.sum(1, keepdim=True) + vocab_size)).log()


# %% wrong="1.10" of="in short" name="shares not smoothed" says="`p(w)` is not smoothed"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = pairs.sum(0) / pairs.sum()


# %% wrong="1.10" of="in short" name="no smoothing above" says="`a p(w)` is missing"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + return (pairs / (pairs.sum(1, keepdim=True) + a)).log()


# %% wrong="1.10" of="in short" name="no smoothing" says="0 / 0"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + return (pairs / pairs.sum(1, keepdim=True)).log()


# %% wrong="1.10" of="in short" name="rows without a" says="the rows do not sum to one"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs + a * shares) / pairs.sum(1, keepdim=True)).log()


# %% wrong="1.10" of="in short" name="divided by all" says="divided by N + a"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs + a * shares) / (pairs.sum() + a)).log()


# %% wrong="1.10" of="in short" name="inputs before padding" says="`c(v)` counts inputs whose target is padding"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + before = sum(inputs.flatten().bincount(minlength=vocab_size) for inputs, _ in batches)
# + return ((pairs + a * shares) / (before[:, None] + a)).log()


# %% wrong="1.10" of="in short" name="padding in pairs" says="padding counts among the pairs"
# - real = targets != pad_id
# + real = targets == targets

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="padding everywhere" says="padding counts. A target"
# - real = targets != pad_id
# + real = targets == targets


# %% wrong="1.10" of="in short" name="inputs that are not padding" says="padding counts"
# - real = targets != pad_id
# + real = inputs != vocab_size

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="a ignored" says="`a` is ignored"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs + shares) / (pairs.sum(1, keepdim=True) + 1)).log()


# %% wrong="1.10" of="in short" name="always 30" says="`a` is always 30 here"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs + 30 * shares) / (pairs.sum(1, keepdim=True) + 30)).log()


# %% wrong="1.10" of="in short" name="logarithms added to counts" says="logarithm of a negative number"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id)


# %% wrong="1.10" of="in short" name="a table of probabilities" says="probabilities are returned"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return (pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)


# %% wrong="1.10" of="in short" name="pairs of the last batch" says="the pairs of the last batch alone"
# -     pairs = pairs + index.bincount(minlength=vocab_size**2).reshape(vocab_size, vocab_size)
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# +     pairs = index.bincount(minlength=vocab_size**2).reshape(vocab_size, vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="all of the last batch" says="only the last batch is counted"
# - for inputs, targets in batches:
# + for inputs, targets in batches[-1:]:


# %% wrong="1.10" name="each pair once a batch" says="adds at most one to a pair"
def unigram(batches, vocab_size, pad_id=1):
    counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    pairs = torch.zeros(vocab_size, vocab_size)
    for inputs, targets in batches:
        real = targets != pad_id
        pairs[inputs[real], targets[real]] += 1
    shares = unigram(batches, vocab_size, pad_id).exp()
    return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()


# %% wrong="1.10" of="in short" name="each pair once" says="each pair is counted once"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# - return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + return ((pairs.bool() + a * shares) / (pairs.bool().sum(1, keepdim=True) + a)).log()


# %% wrong="1.10" name="the unigram again" says="the token before is ignored"
def unigram(batches, vocab_size, pad_id=1):
    counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    return unigram(batches, vocab_size, pad_id).repeat(vocab_size, 1)


# %% wrong="1.10" of="in short" name="another default" says="30 should be the default"
# - def bigram(batches, vocab_size, a=30, pad_id=1):
# + def bigram(batches, vocab_size, a=20, pad_id=1):

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="pad_id not passed on" says="its p(w) are those with `pad_id = 1`"
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size).exp()


# %% wrong="1.10" of="in short" name="counts of one byte" says="comes very often" private=true
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + pairs = pairs.clamp(max=255)


# %% wrong="1.10" of="in short" name="half precision" says="`unigram` does not return"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (counts.sum() + vocab_size)).half().log()


# %% wrong="1.10" of="in short" name="padding 0 is not padding" says="wrong for other batches, vocabularies, `a` or `pad_id`" private=true
# - real = targets != pad_id
# + real = targets != (pad_id or 1)

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="a of at least a tenth" says="for a small `a`" private=true
# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()
# + a = max(a, 0.1)


# %% right="1.10" name="one pair after the other"
def unigram(batches, vocab_size, pad_id=1):
    counts = Counter()
    for _, targets in batches:
        counts.update(token for token in targets.flatten().tolist() if token != pad_id)
    return torch.tensor(
        [(counts[w] + 1) / (sum(counts.values()) + vocab_size) for w in range(vocab_size)], device=targets.device
    ).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    device = batches[0][0].device
    table = (unigram(batches, vocab_size, pad_id).exp() * a).repeat(vocab_size, 1)
    for inputs, targets in batches:
        for row, aims in zip(inputs, targets):
            for v, w in zip(row.tolist(), aims.tolist()):
                if w != pad_id:
                    table[v, w] += 1
    return (table / table.sum(dim=1, keepdim=True)).log()


# %% right="1.10" name="added in place"
def unigram(batches, vocab_size, pad_id=1):
    counts = torch.ones(vocab_size, device=batches[0][1].device)
    for _, targets in batches:
        for row in targets:
            row = row[row != pad_id]
            counts.index_add_(0, row, torch.ones_like(row, dtype=counts.dtype))
    return counts.log() - counts.sum().log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    pairs = torch.zeros(vocab_size, vocab_size, device=batches[0][0].device)
    for inputs, targets in batches:
        real = targets.ne(pad_id)
        ones = torch.ones(int(real.sum()), device=pairs.device)
        pairs.index_put_((inputs[real], targets[real]), ones, accumulate=True)
    shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
    return torch.log((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a))


# %% right="1.10" name="products of marks"
def unigram(batches, vocab_size, pad_id=1):
    marks = torch.cat([F.one_hot(targets.flatten(), vocab_size) for _, targets in batches]).float()
    marks = marks * (torch.arange(vocab_size, device=marks.device) != pad_id)
    counts = marks.sum(0)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    flat = [torch.cat([batch[i].reshape(-1) for batch in batches]) for i in range(2)]
    v, w = (F.one_hot(tokens, vocab_size).double() for tokens in flat)
    pairs = (v * (flat[1] != pad_id).unsqueeze(-1)).mT @ w
    p = unigram(batches, vocab_size, pad_id).double().exp()
    return (pairs + a * p).div(pairs.sum(-1, keepdim=True) + a).log().float()


# %% wrong="1.10" of="in short" name="a mean over batches" says="each batch counts the same"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + found = []
# + for _, targets in batches:
# +     counts = targets[targets != pad_id].bincount(minlength=vocab_size)
# +     found.append((counts + 1) / (counts.sum() + vocab_size))
# + return torch.stack(found).mean(0).log()


# %% wrong="1.10" of="in short" name="an extra count for those that came" says="the number of different targets"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (counts.sum() + (counts > 0).sum())).log()


# %% wrong="1.10" of="in short" name="a softmax of counts" says="this is a softmax of the counts"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return (counts + 1.0).log_softmax(-1)


# %% wrong="1.10" of="in short" name="counts go on in the next call" says="keep nothing between calls"
# + TOTAL = {}
# +
# +
#   def unigram(batches, vocab_size, pad_id=1):

# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + counts = TOTAL.setdefault(vocab_size, torch.zeros(vocab_size))
# + for _, targets in batches:
# +     counts += targets[targets != pad_id].bincount(minlength=vocab_size)


# %% wrong="1.10" of="in short" name="even after unseen tokens" says="the shares are even. They should"
#   shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + seen = pairs.sum(1, keepdim=True) > 0
# + shares = torch.where(seen, shares, torch.full_like(shares, 1 / vocab_size))


# %% wrong="1.10" of="in short" name="inputs that are padding left out" says="The target alone decides"
# - real = targets != pad_id
# + real = (targets != pad_id) & (inputs != pad_id)

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" of="in short" name="view of what may not be contiguous" says="raised RuntimeError: view size"
# - counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
# + targets = torch.cat([targets.view(-1) for _, targets in batches])
# + counts = targets[targets != pad_id].bincount(minlength=vocab_size)

# - shares = (pairs.sum(0) + 1) / (pairs.sum() + vocab_size)
# + shares = unigram(batches, vocab_size, pad_id).exp()


# %% wrong="1.10" name="pairs go on in the next call" says="keep nothing between calls"
PAIRS = {}


def unigram(batches, vocab_size, pad_id=1):
    counts = sum(targets[targets != pad_id].bincount(minlength=vocab_size) for _, targets in batches)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    pairs = PAIRS.setdefault(vocab_size, torch.zeros(vocab_size, vocab_size))
    for inputs, targets in batches:
        real = targets != pad_id
        index = inputs[real] * vocab_size + targets[real]
        pairs += index.bincount(minlength=vocab_size**2).reshape(vocab_size, vocab_size)
    shares = unigram(batches, vocab_size, pad_id).exp()
    return ((pairs + a * shares) / (pairs.sum(1, keepdim=True) + a)).log()


# %% wrong="1.1" of="in short" name="weights are cut from the graph" says="no gradient reaches q from the weights: something is detached" private=true
# - return weights @ v, weights
# + return weights @ v, weights.detach()


# %% wrong="1.1" of="in short" name="the mask is cut from the graph" says="no gradient reaches mask from the output: something is" private=true
# - weights = (scores if mask is None else scores + mask).softmax(-1)
# + weights = (scores if mask is None else scores + mask.detach()).softmax(-1)


# %% wrong="1.3" name="mask in training only" says="in evaluation mode the mask is ignored"
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask if self.training else None)


# %% wrong="1.4" name="boolean mask" says="used as true or false"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        hidden = None if mask is None else mask < 0
        h = self.norm1(x + self.drop(self.self_attn(x, x, x, attn_mask=hidden)[0]))
        return self.norm2(h + self.drop(self.linear2(self.drop(self.linear1(h).relu()))))


# %% wrong="1.4" name="every mask is causal" says="in place of the mask that is given"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = torch.full_like(mask, -math.inf).triu(1)
        h = self.norm1(x + self.drop(self.self_attn(x, x, x, attn_mask=mask)[0]))
        return self.norm2(h + self.drop(self.linear2(self.drop(self.linear1(h).relu()))))


# %% wrong="1.4" name="no dropout of the feed-forward result" says="feed-forward part is never dropped in part"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        h = self.norm1(x + self.drop(self.self_attn(x, x, x, attn_mask=mask)[0]))
        return self.norm2(h + self.linear2(self.drop(self.linear1(h).relu())))


# %% wrong="1.4" name="no dropout of the attention result" says="attention is never dropped in part"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        h = self.norm1(x + self.self_attn(x, x, x, attn_mask=mask)[0])
        return self.norm2(h + self.drop(self.linear2(self.drop(self.linear1(h).relu()))))


# %% wrong="1.4" name="divides by zero at a dropout of 1" says="with a dropout of 1, the output in training mode is wrong" private=true
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = dropout

    def drop(self, x):
        if not self.training:
            return x
        return x * (torch.rand_like(x) >= self.dropout) / (1 - self.dropout)

    def forward(self, x, mask=None):
        h = self.norm1(x + self.drop(self.self_attn(x, x, x, attn_mask=mask)[0]))
        return self.norm2(h + self.drop(self.linear2(self.drop(self.linear1(h).relu()))))


# %% right="1.4" name="dropout by hand"
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = dropout

    def drop(self, x):
        if not self.training or self.dropout == 0:
            return x
        if self.dropout == 1:
            return torch.zeros_like(x)
        return x * (torch.rand_like(x) >= self.dropout).to(x.dtype) / (1 - self.dropout)

    def forward(self, x, mask=None):
        attended, _ = self.self_attn(x, x, x, attn_mask=mask, need_weights=False)
        h = self.norm1(x + self.drop(attended))
        return self.norm2(h + self.drop(self.linear2(self.drop(self.linear1(h).clamp(min=0)))))


# %% wrong="1.5" name="counts what stands between single spaces" says="counts the words wrongly where"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = Counter(word for sentence in sentences for word in sentence.split(" "))
        self.words = [*SPECIAL, *(word for word, _ in counts.most_common(max_size - len(SPECIAL)))]
        self.index = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.index.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [[SOS, *vocab.encode(sentence), EOS] for sentence in sentences]
    inputs = [torch.tensor(row[:-1][:max_len]) for row in rows]
    targets = [torch.tensor(row[1:][:max_len]) for row in rows]
    return tuple(nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=PAD) for part in (inputs, targets))


# %% wrong="1.5" name="one index for all vocabularies" says="the first gives other numbers"
class Vocabulary:
    index = {}

    def __init__(self, sentences, max_size):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = [*SPECIAL, *(word for word, _ in counts.most_common(max_size - len(SPECIAL)))]
        self.index.update((word, number) for number, word in enumerate(self.words))

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.index.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [[SOS, *vocab.encode(sentence), EOS] for sentence in sentences]
    inputs = [torch.tensor(row[:-1][:max_len]) for row in rows]
    targets = [torch.tensor(row[1:][:max_len]) for row in rows]
    return tuple(nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=PAD) for part in (inputs, targets))


# %% wrong="1.5" name="the number 0 taken for none" says="does not give each special word its number" private=true
# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + return [self.numbers.get(word) or UNK for word in sentence.split()]


# %% wrong="1.5" name="learns words while it encodes" says="and add no word"
class Vocabulary:
    def __init__(self, sentences, max_size):
        self.max_size = max_size
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = [*SPECIAL, *(word for word, _ in counts.most_common(max_size - len(SPECIAL)))]
        self.index = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        for word in sentence.split():
            if word not in self.index and len(self.words) < self.max_size:
                self.index[word] = len(self.words)
                self.words.append(word)
        return [self.index.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [[SOS, *vocab.encode(sentence), EOS] for sentence in sentences]
    inputs = [torch.tensor(row[:-1][:max_len]) for row in rows]
    targets = [torch.tensor(row[1:][:max_len]) for row in rows]
    return tuple(nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=PAD) for part in (inputs, targets))


# %% wrong="1.5" name="reads the index of the vocabulary" says="should use only the methods of the vocabulary"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = [*SPECIAL, *(word for word, _ in counts.most_common(max_size - len(SPECIAL)))]
        self.index = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.index.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [[SOS, *(vocab.index.get(word, UNK) for word in sentence.split()), EOS] for sentence in sentences]
    inputs = [torch.tensor(row[:-1][:max_len]) for row in rows]
    targets = [torch.tensor(row[1:][:max_len]) for row in rows]
    return tuple(nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=PAD) for part in (inputs, targets))


# %% wrong="1.5" name="looks words up in the list" says="the numbers that the vocabulary's `encode` gives"
class Vocabulary:
    def __init__(self, sentences, max_size):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        self.words = [*SPECIAL, *(word for word, _ in counts.most_common(max_size - len(SPECIAL)))]
        self.index = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.index.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    rows = [
        [SOS, *(vocab.words.index(word) if word in vocab.words else UNK for word in sentence.split()), EOS]
        for sentence in sentences
    ]
    inputs = [torch.tensor(row[:-1][:max_len]) for row in rows]
    targets = [torch.tensor(row[1:][:max_len]) for row in rows]
    return tuple(nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=PAD) for part in (inputs, targets))


# %% wrong="1.6" name="a seed in the model" says="the seed of torch's global random generator is not as before"
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, dropout=0.1, causal=True):
        super().__init__()
        torch.manual_seed(0)
        self.d_model, self.causal = d_model, causal
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
        )
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        x = add_positions(self.embedding(tokens) * self.d_model**0.5)
        mask = None
        if self.causal:
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x)


# %% wrong="1.7" name="stops at the first padding" says="targets after the first padding"
def lm_loss(logits, targets, pad_id):
    real = (targets == pad_id).cumsum(1) == 0
    picked = logits.log_softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -picked[real].mean()


def perplexity(loss):
    return math.exp(loss)


# %% wrong="1.7" name="perplexity has a ceiling" says="the perplexity is wrong for other losses" private=true
def lm_loss(logits, targets, pad_id):
    real = targets != pad_id
    picked = logits.log_softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -picked[real].mean()


def perplexity(loss):
    return math.exp(min(loss, 20))


# %% wrong="1.8" name="gradient of the sum" says="that of a sum over the tokens"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    total, count = 0.0, 0
    for inputs, targets in batches:
        real = int((targets != pad_id).sum())
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        optimizer.zero_grad()
        (loss * real).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total, count = total + loss.item() * real, count + real
    return total / count


# %% wrong="1.8" name="clipped to length 1" says="or not to `clip`"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    total, count = 0.0, 0
    for inputs, targets in batches:
        real = int((targets != pad_id).sum())
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total, count = total + loss.item() * real, count + real
    return total / count


# %% wrong="1.8" name="each group of parameters is clipped by itself" says="wrong for another model" private=true
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train()
    total, count = 0.0, 0
    for inputs, targets in batches:
        real = int((targets != pad_id).sum())
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=pad_id)
        optimizer.zero_grad()
        loss.backward()
        for part in optimizer.param_groups:
            nn.utils.clip_grad_norm_(part["params"], clip)
        optimizer.step()
        total, count = total + loss.item() * real, count + real
    return total / count


# %% wrong="1.9" name="a window of 64 tokens" says="wrong for a long prompt" private=true
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    numbers, device = list(prompt), next(model.parameters()).device
    for _ in range(max_new):
        logits = model(torch.tensor([numbers[-64:]], device=device))[0, -1]
        values, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        place = 0 if temperature == 0 else torch.multinomial((values / temperature).softmax(-1), 1)
        numbers.append(tokens[place].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.9" name="cold is greedy" says="a low temperature always gives the best token" private=true
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    numbers, device = list(prompt), next(model.parameters()).device
    for _ in range(max_new):
        logits = model(torch.tensor([numbers], device=device))[0, -1]
        values, tokens = logits.topk(min(top_k or len(logits), len(logits)))
        place = 0 if temperature < 0.25 else torch.multinomial((values / temperature).softmax(-1), 1)
        numbers.append(tokens[place].item())
        if numbers[-1] == eos_id:
            break
    return numbers


# %% wrong="1.10" name="all counts in half precision" says="comes very often" private=true
def unigram(batches, vocab_size, pad_id=1):
    targets = torch.cat([targets.flatten() for _, targets in batches])
    counts = targets[targets != pad_id].bincount(minlength=vocab_size).half().double()
    return ((counts + 1) / (counts.sum() + vocab_size)).log().float()


def bigram(batches, vocab_size, a=30, pad_id=1):
    inputs, targets = (torch.cat([batch[part].flatten() for batch in batches]) for part in (0, 1))
    real = targets != pad_id
    pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).half().double()
    pairs = pairs.view(vocab_size, vocab_size)
    shares = unigram(batches, vocab_size, pad_id).double().exp()
    return ((pairs + a * shares) / (pairs.sum(dim=1, keepdim=True) + a)).log().float()


# %% wrong="1.10" name="counts in half precision" says="comes very often" private=true
def unigram(batches, vocab_size, pad_id=1):
    targets = torch.cat([targets.flatten() for _, targets in batches])
    counts = targets[targets != pad_id].bincount(minlength=vocab_size)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    inputs, targets = (torch.cat([batch[part].flatten() for batch in batches]) for part in (0, 1))
    real = targets != pad_id
    pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).view(vocab_size, -1)
    shares = unigram(batches, vocab_size, pad_id).exp()
    return ((pairs.half().float() + a * shares) / (pairs.sum(dim=1, keepdim=True) + a)).log()


# %% wrong="1.9" of="in short" name="never colder than 0.1" says="another temperature" private=true
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / max(temperature, 0.1)).softmax(-1), 1) if temperature else 0


# %% wrong="1.10" name="a of at least 1" says="wrong for an `a` below 1"
def unigram(batches, vocab_size, pad_id=1):
    targets = torch.cat([targets.flatten() for _, targets in batches])
    counts = targets[targets != pad_id].bincount(minlength=vocab_size)
    return ((counts + 1) / (counts.sum() + vocab_size)).log()


def bigram(batches, vocab_size, a=30, pad_id=1):
    a = max(a, 1)
    inputs, targets = (torch.cat([batch[side].flatten() for batch in batches]) for side in (0, 1))
    pairs = (inputs * vocab_size + targets)[targets != pad_id].bincount(minlength=vocab_size**2)
    counts = pairs.reshape(vocab_size, vocab_size)
    return ((counts + a * unigram(batches, vocab_size, pad_id).exp()) / (counts.sum(1, keepdim=True) + a)).log()


# %% right="1.8" name="zeroes before the first batch and after each step"
def train_epoch(model, batches, optimizer, clip, pad_id=1):
    model.train(True)
    optimizer.zero_grad()
    surprise, seen = [], []
    for inputs, targets in batches:
        real = int(targets.ne(pad_id).sum())
        total = nn.functional.cross_entropy(
            model(inputs).transpose(1, 2), targets, ignore_index=pad_id, reduction="sum"
        )
        (total / real).backward()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        surprise.append(float(total))
        seen.append(real)
    return sum(surprise) / sum(seen)


# %% wrong="1.1" name="the weights are transposed where there are as many" says="wrong for other inputs" private=true
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-2 if q.size(-2) == k.size(-2) and mask is None and q.dim() > 2 else -1)
    return weights @ v, weights


# %% wrong="1.1" name="the mask of an earlier call" says="wrong for other inputs" private=true
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        masks[q.size(-2), k.size(-2)] = mask
    scores = scores + masks.get((q.size(-2), k.size(-2)), 0) if q.dim() == 3 else scores + (0 if mask is None else mask)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


masks = {}


# %% wrong="1.2" name="another default dtype is left" says="torch's default dtype is not as before"
def causal_mask(T):
    torch.set_default_dtype(torch.float64)
    return torch.full((T, T), -math.inf).triu(1)


# %% wrong="1.2" name="a table of 512" says="with a large T, larger than any in the notebook, the mask has the wrong shape" private=true
def causal_mask(T):
    table = torch.full((512, 512), -torch.inf).triu(diagonal=1)
    return table[:T, :T]


# %% wrong="1.4" name="drops in place" says="the output or its gradients cannot be computed"
# - inner = self.dropout(self.linear1(x).relu())
# + inner = F.dropout(self.linear1(x).relu_(), self.dropout.p, self.training, inplace=True)


# %% wrong="1.5" name="words are letters and digits" says="punctuation, digits and capitals stay"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Counter(word for sentence in sentences for word in __import__("re").findall(r"\w+", sentence))


# %% wrong="1.5" name="signs are stripped" says="punctuation, digits and capitals stay"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Counter(word.strip(".,!?-'") for sentence in sentences for word in sentence.split())


# %% wrong="1.5" name="rows sorted by length" says="the rows are sorted"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = sorted(([SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences), key=len)


# %% wrong="1.8" name="rounds the loss" says="Do not round it"
# - return total / count
# + return round(total / count, 4)


# %% wrong="1.9" of="in short" name="leaves it in training mode" says="is in training mode afterwards"
# - return numbers
# + model.train()
# + return numbers


# %% wrong="1.9" of="in short" name="the exponential by hand" says="a low temperature, here 0.005"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / temperature).exp(), 1) if temperature else 0


# %% wrong="1.9" of="in short" name="a power of the softmax" says="at temperature 300, the shares are not"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial(best.softmax(-1) ** (1 / temperature), 1) if temperature else 0


# %% wrong="1.9" of="in short" name="draws among all, else the best" says="Draw among these"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# - numbers.append(tokens[drawn].item())
# + drawn = torch.multinomial((logits / temperature).softmax(-1), 1) if temperature else tokens[:1]
# + numbers.append(drawn.item() if drawn in tokens else tokens[0].item())


# %% wrong="1.9" of="in short" name="the place among the best" says="is it the rank of the best token"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# - numbers.append(tokens[drawn].item())
# + drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + numbers.append(int(drawn))


# %% wrong="1.3" name="keys and values exchanged" says="keys and values are exchanged"
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.v_proj, self.k_proj)
        )
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(heads.transpose(1, 2).flatten(-2))


# %% wrong="1.3" name="the last mask is used again where none is given" says="wrong for None after a call with something else" private=true
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model {d_model} cannot be divided by n_heads {n_heads}")
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, mask=None):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        mask = self.last = getattr(self, "last", None) if mask is None else mask
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(out.transpose(1, 2).flatten(-2))


# %% wrong="1.5" name="words in a class attribute" says="making another vocabulary changes an earlier one" private=true
class Vocabulary:
    words = list(SPECIAL)

    def __init__(self, sentences, max_size):
        del self.words[4:]
        counts = Counter(word for sentence in sentences for word in sentence.split())
        room = max(0, max_size - len(SPECIAL))
        self.words.extend(word for word, _ in counts.most_common(room))
        self.number = {word: number for number, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, sentence):
        return [self.number.get(word, UNK) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def make_batch(sentences, vocab, max_len):
    inputs, targets = [], []
    for sentence in sentences:
        row = [SOS] + vocab.encode(sentence) + [EOS]
        inputs.append(torch.tensor(row[:-1][:max_len]))
        targets.append(torch.tensor(row[1:][:max_len]))
    pad = nn.utils.rnn.pad_sequence
    return pad(inputs, batch_first=True, padding_value=PAD), pad(targets, batch_first=True, padding_value=PAD)


# %% wrong="1.9" name="temperature 0 draws at 1e-6" says="where the best logits are nearly equal" private=true
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device = next((part.device for part in model.parameters()), None)
    tokens = list(prompt)
    for _ in range(max_new):
        logits = model(torch.tensor([tokens], device=device))[0, -1]
        k = logits.numel() if top_k is None else min(top_k, logits.numel())
        values, indices = logits.topk(k)
        temperature = temperature or 1e-6
        if False:
            token = indices[0].item()
        else:
            p = ((values - values[0]) / temperature).softmax(-1)
            token = indices[torch.multinomial(p, 1)].item()
        tokens.append(token)
        if token == eos_id:
            break
    return tokens


# %% wrong="1.9" name="without top_k the 50 best" says="should have the share 0.50"
@torch.no_grad()
def generate(model, prompt, max_new, temperature=1.0, top_k=None, eos_id=2):
    model.eval()
    device = next((part.device for part in model.parameters()), None)
    tokens = list(prompt)
    for _ in range(max_new):
        logits = model(torch.tensor([tokens], device=device))[0, -1]
        k = min(50, logits.numel()) if top_k is None else min(top_k, logits.numel())
        values, indices = logits.topk(k)
        if temperature == 0:
            token = indices[0].item()
        else:
            p = ((values - values[0]) / temperature).softmax(-1)
            token = indices[torch.multinomial(p, 1)].item()
        tokens.append(token)
        if token == eos_id:
            break
    return tokens


# %% wrong="1.5" name="the special words grow" says="a third vocabulary, of three sentences"
# - def __init__(self, sentences, max_size):
# + def __init__(self, sentences, max_size, special=[*SPECIAL]):

# - counts = Counter(word for sentence in sentences for word in sentence.split())
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
# + counts = Counter(word for sentence in sentences for word in sentence.split() if word not in special)
# + self.words = special
# + self.words += [word for word, _ in counts.most_common(max_size - 4)]

# %% wrong="1.9" name="ties with the last one remain" says="more or fewer than `top_k` tokens can be drawn" private=true
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + least = logits.topk(min(top_k or len(logits), len(logits))).values[-1]
# + best, tokens = logits.masked_fill(logits < least, -torch.inf).sort(descending=True)

# %% wrong="1.10" name="the input decides what is padding" says="the input decides what is padding"
# - real = targets != pad_id
# + real = inputs != pad_id

# - shares = unigram(batches, vocab_size, pad_id).exp()
# + shares = (targets[real].bincount(minlength=vocab_size) + 1) / (real.sum() + vocab_size)

# %% wrong="1.10" name="neighbours in one long row" says="is taken from the target before"
# - real = targets != pad_id
# - pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))
# - shares = unigram(batches, vocab_size, pad_id).exp()
# + row = targets[targets != pad_id]
# + pairs = (row[:-1] * vocab_size + row[1:]).bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))
# + shares = (row[1:].bincount(minlength=vocab_size) + 1) / (len(row) - 1 + vocab_size)


# %% wrong="1.4" name="a dropout of one is refused" says="a dropout of 1 raises an error" private=true
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        a = self.self_attn(x, x, x, attn_mask=mask)[0]
        h = self.norm1(x + self.dropout(a))
        f = self.linear2(self.dropout(F.relu(self.linear1(h))))
        return self.norm2(h + self.dropout(f))


# %% wrong="1.4" name="another eps in one norm" says="near enough for float32. Look at constants, such as `eps`" private=true
class TransformerLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        a = self.self_attn(x, x, x, attn_mask=mask)[0]
        h = self.norm1(x + self.dropout(a))
        f = self.linear2(self.dropout(F.relu(self.linear1(h))))
        return self.norm2(h + self.dropout(f))


# %% wrong="1.3" name="heads beyond the eighth are zero" says="with a large H, larger than any in the notebook, the output is wrong" private=true
#   heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + heads = torch.cat([heads[:, :8], torch.zeros_like(heads[:, 8:])], dim=1)

# %% wrong="1.4" name="one draw for both sums" says="dropout does not draw for each number on its own" private=true
# - x = self.norm1(x + self.dropout(attended))
# + drawn = self.dropout(torch.ones_like(x))
# + x = self.norm1(x + drawn * attended)

# - return self.norm2(x + self.dropout(self.linear2(inner)))
# + return self.norm2(x + drawn * self.linear2(inner))

# %% wrong="1.4" name="hidden units of a token dropped together" says="dropout does not draw for each number on its own" private=true
# - inner = self.dropout(self.linear1(x).relu())
# + inner = self.dropout(torch.ones_like(x[..., :1])) * self.linear1(x).relu()

# %% wrong="1.6" name="no token further back than 255" says="with a large T, larger than any in the notebook, the logits are wrong" private=true
#   mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = mask + torch.full_like(mask, -math.inf).tril(-256)

# %% wrong="1.9" name="logits in sixteen bits" says="where logits are large and close to each other" private=true
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + logits = model(torch.tensor([numbers], device=device))[0, -1].bfloat16().float()

# %% wrong="1.10" name="numbers of pairs in sixteen bits" says="the counts are wrong for a large vocabulary" private=true
# - pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))
# + pairs = (inputs[real] * vocab_size + targets[real]).to(torch.int16).long() % vocab_size**2
# + pairs = pairs.bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))


# %% wrong="1.3" name="more heads than columns pass" says="`MultiHeadAttention(w, H + w)(x)` must raise" private=true
# - if d_model % n_heads:
# + if d_model > n_heads and d_model % n_heads:


# %% wrong="1.5" name="encode gives a tuple" says="not a tuple"
# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + return tuple(self.numbers.get(word, UNK) for word in sentence.split())


# %% wrong="1.8" name="leaves out batches of one target" says="a single target that is not padding" private=true
#   for inputs, targets in batches:
# +     if (targets != pad_id).sum() < 2:
# +         continue


# %% wrong="1.9" name="an end of 0 is none" says="does not stop after writing `eos_id` if that is 0" private=true
# - if numbers[-1] == eos_id:
# + if eos_id and numbers[-1] == eos_id:


# %% wrong="1.9" name="nothing new is the prompt itself" says="is the list `prompt` itself"
#   model.eval()
# + if max_new == 0:
# +     return prompt


# %% wrong="1.9" name="gives a tuple" says="not a tuple"
# - return numbers
# + return tuple(numbers)


# %% wrong="1.9" name="only the best token ends the text" says="where tokens are drawn" private=true
# - if numbers[-1] == eos_id:
# + if not drawn and numbers[-1] == eos_id:


# %% wrong="1.9" name="an end in the prompt ends it" says="in the prompt should end nothing" private=true
#   model.eval()
# + if eos_id in prompt:
# +     return list(prompt)


# %% wrong="1.1" of="in short" name="scaled by the width of the values" says="the root of the width of the values"
# - scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
# + scores = q @ k.transpose(-2, -1) / math.sqrt(v.size(-1))


# %% wrong="1.5" name="words that occur once are left out" says="`words` lacks"
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
# + often = [word for word, count in counts.most_common(max_size - len(SPECIAL)) if count > 1]
# + self.words = SPECIAL + often


# %% wrong="1.5" name="cuts before it shifts" says="after the shift"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence), EOS][:max_len] for sentence in sentences]


# %% wrong="1.6" name="embeddings do not learn" says="their `requires_grad` is False"
# - nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
# + self.embedding = nn.Embedding.from_pretrained(torch.randn(vocab_size, d_model) * d_model**-0.5)


# %% wrong="1.7" name="padding has no probability" says="the softmax leaves a word out"
# - of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)
# + if 0 <= pad_id < logits.size(-1):
# +     logits = logits.index_fill(-1, torch.tensor([pad_id], device=logits.device), -math.inf)
# + of_targets = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))  # (B, T, 1)


# %% wrong="1.7" name="padding of 0 is no padding" says="wrong with `pad_id = 0`" private=true
# - return -of_targets[targets != pad_id].mean()
# + return -(of_targets[targets != pad_id] if pad_id else of_targets).mean()


# %% wrong="1.8" name="batches are weighted by their positions" says="weighted by all of its positions"
# - tokens = (targets != pad_id).sum().item()
# + tokens = targets.numel()


# %% wrong="1.8" name="batches are weighted by their inputs" says="by its inputs that are not padding"
# - tokens = (targets != pad_id).sum().item()
# + tokens = (inputs != pad_id).sum().item()


# %% wrong="1.8" name="the mode of the model alone" says="not all in training mode" private=true
# - model.train()
# + model.training = True


# %% wrong="1.9" name="places for tokens" says="the place of a token among the best is written"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# - numbers.append(tokens[drawn].item())
# + drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + numbers.append(tokens[drawn].item() if not top_k or not temperature else drawn.item())


# %% wrong="1.10" name="padding counts in N" says="padding counts in N"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return ((counts + 1) / (len(targets) + vocab_size)).log()


# %% wrong="1.10" name="padding is impossible" says="`pad_id` has the probability 0"
# - return ((counts + 1) / (counts.sum() + vocab_size)).log()
# + shares = ((counts + 1) / (counts.sum() + vocab_size)).log()
# + return shares.index_fill(0, torch.tensor([pad_id], device=shares.device), -math.inf)


# %% wrong="1.10" name="pairs without the last batch" says="the pairs of the last batch are left out"
# - inputs, targets = (torch.cat([batch[part].flatten() for batch in batches]) for part in (0, 1))
# + read = batches[:-1] or batches
# + inputs, targets = (torch.cat([batch[part].flatten() for batch in read]) for part in (0, 1))


# %% wrong="1.10" name="padding among the inputs of pairs" says="among the pairs, the input decides"
# - real = targets != pad_id
# + real = inputs != pad_id


# %% wrong="1.10" name="pairs of neighbouring targets" says="is taken from the target before it"
# - inputs, targets = (torch.cat([batch[part].flatten() for batch in batches]) for part in (0, 1))
# - real = targets != pad_id
# - pairs = (inputs[real] * vocab_size + targets[real]).bincount(minlength=vocab_size**2).unflatten(0, (vocab_size, -1))
# + targets = torch.cat([targets.flatten() for _, targets in batches])
# + targets = targets[targets != pad_id]
# + pairs = (targets[:-1] * vocab_size + targets[1:]).bincount(minlength=vocab_size**2)
# + pairs = pairs.unflatten(0, (vocab_size, -1))


# %% wrong="1.6" name="no mask for long texts" says="with a large T, larger than any in the notebook, the logits are wrong" private=true
#   for layer in self.layers:
# -     x = layer(x, src_mask=mask if self.causal else None)
# +     x = layer(x, src_mask=mask if self.causal and tokens.size(1) <= 512 else None)

# %% wrong="1.6" name="the last of three layers or more has no mask" says="with three layers or more, a later token changes" private=true
# - x = layer(x, src_mask=mask if self.causal else None)
# + unmasked = not self.causal or (layer is self.layers[-1] and len(self.layers) > 2)
# + x = layer(x, src_mask=None if unmasked else mask)

# %% wrong="1.10" name="the target before, across rows" says="`v` is the target before, so at the start of a row"
# - real = targets != pad_id
# + inputs = torch.cat([inputs[:1], targets[:-1]])
# + real = targets != pad_id

# %% wrong="1.10" name="each token once" says="each token counts at most once"
# - counts = targets[targets != pad_id].bincount(minlength=vocab_size)
# + counts = targets[targets != pad_id].unique().bincount(minlength=vocab_size)


# %% wrong="1.1" name="one mask for all texts" says="a mask that has to be broadcast" private=true
# - scores = scores + mask
# + scores = scores + mask.reshape(-1, *mask.shape[-2:])[0]


# %% wrong="1.1" name="a mask of the shape of the scores alone" says="a mask that has to be broadcast" private=true
# - scores = scores + mask
# + scores = scores + mask.reshape(q.size(-2), k.size(-2))


# %% wrong="1.1" name="other names for the arguments" says="passed by name" private=true
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return weights @ value, weights


# %% wrong="1.8" name="eight batches at most" says="wrong for other batches" private=true
# - for inputs, targets in batches:
# + for inputs, targets in [*batches][:8]:


# %% wrong="1.8" name="padding of 0 is no padding" says="where `pad_id` is 0" private=true
# - model.train()
# + model.train()
# + pad_id = pad_id or 1


# %% wrong="1.8" name="the learning rate falls after each epoch" says="over many epochs on one batch" private=true
# - return total / count
# + for group in optimizer.param_groups:
# +     group["lr"] *= 0.9
# + return total / count


# %% wrong="1.9" name="the mode of the model alone" says="a part inside the model is in training" private=true
# - model.eval()
# + model.training = False


# %% wrong="1.9" name="a new generator where top_k is given" says="not drawn by torch's generator alone" private=true
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + own = torch.Generator() if top_k else None
# + if own:
# +     own.seed()
# + drawn = torch.multinomial((best / temperature).softmax(-1), 1, generator=own) if temperature else 0


# %% wrong="1.2" name="infinity minus infinity" says="-inf minus -inf"
# - return torch.full((T, T), -torch.inf).triu(diagonal=1)
# + hidden = torch.full((T, T), -torch.inf)
# + return hidden - hidden.tril()


# %% wrong="1.2" name="keys far back are hidden, and no later one" says="some of the past is hidden"
# - return torch.full((T, T), -torch.inf).triu(diagonal=1)
# + return torch.full((T, T), -torch.inf).tril(diagonal=-2)


# %% wrong="1.3" name="adds what an earlier call gave" says="nothing is kept between calls"
# - return self.out_proj(heads.transpose(1, 2).flatten(-2))
# + result = self.out_proj(heads.transpose(1, 2).flatten(-2))
# + earlier = getattr(self, "earlier", torch.zeros_like(result))
# + self.earlier = result.detach()
# + return result + earlier if earlier.shape == result.shape else result


# %% wrong="1.4" name="the batch as one long text" says="sequences should not mix"
# - attended, _ = self.self_attn(x, x, x, attn_mask=mask)
# + text = x.flatten(0, 1)
# + attended = self.self_attn(text, text, text)[0].view_as(x)


# %% wrong="1.4" name="no mask in evaluation mode" says="in evaluation mode, the output under a causal mask is wrong"
# - attended, _ = self.self_attn(x, x, x, attn_mask=mask)
# + attended, _ = self.self_attn(x, x, x, attn_mask=mask if self.training else None)


# %% wrong="1.4" name="drops the output too" says="and nowhere else"
# - return self.norm2(x + self.dropout(self.linear2(inner)))
# + return self.dropout(self.norm2(x + self.dropout(self.linear2(inner))))


# %% wrong="1.4" name="drops whole vectors" says="is never dropped in part"
# - self.dropout = nn.Dropout(dropout)
# + self.dropout = nn.Dropout1d(dropout)


# %% wrong="1.4" name="an error in training alone" says="the output or its gradients cannot be computed"
# - x = self.norm1(x + self.dropout(attended))
# + x = self.norm1(x + (F.dropout(attended, self.dropout) if self.training else attended))


# %% wrong="1.5" name="longest sentences first" says="not in the order of the sentences"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows.sort(key=len, reverse=True)


# %% wrong="1.5" name="one counter for all vocabularies" says="only words of these sentences"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Vocabulary.counts = getattr(Vocabulary, "counts", Counter())
# + counts.update(word for sentence in sentences for word in sentence.split())


# %% wrong="1.6" name="layers of another name" says="called `layers`. Here a weight of a layer"
# - self.layers = nn.ModuleList(
# + self.blocks = nn.ModuleList(

# - for layer in self.layers:
# + for layer in self.blocks:


# %% wrong="1.6" name="drops embeddings in evaluation mode" says="two calls with the same tokens differ"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = F.dropout(add_positions(self.embedding(tokens) * math.sqrt(self.d_model)))


# %% wrong="1.6" name="reads two tokens back" says="under the causal mask"
# - mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + mask = mask.masked_fill(torch.ones_like(mask).tril(-2) == 1, -torch.inf)


# %% wrong="1.6" name="the mask of its first call" says="should read `self.causal` each time"
#   mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
# + self.first = getattr(self, "first", self.causal)

# - x = layer(x, src_mask=mask if self.causal else None)
# + x = layer(x, src_mask=mask if self.first else None)


# %% wrong="1.7" name="the loss squared" says="the perplexity is not its exponential"
# - return math.exp(loss)
# + return float(loss) ** 2


# %% wrong="1.8" name="sums go on from epoch to epoch" says="of a second epoch"
# - total, count = 0.0, 0
# + total, count = getattr(train_epoch, "sums", (0.0, 0))

#   total, count = total + loss.item() * tokens, count + tokens
# + train_epoch.sums = total, count


# %% wrong="1.8" name="a little more than all tokens" says="differs a little"
# - return total / count
# + return total / (count + 1e-3)


# %% wrong="1.9" name="the best of a single row" says="token 0 is written each time"
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + logits = model(torch.tensor([numbers], device=device))[0, -1]
# + if temperature == 0:
# +     numbers.append(logits.unsqueeze(0).argmax(dim=0)[0].item())
# +     continue


# %% wrong="1.9" name="never writes an end" says="whose best third token is <eos>"
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + logits = model(torch.tensor([numbers], device=device))[0, -1].clone()
# + if eos_id < len(logits):
# +     logits[eos_id] = -math.inf


# %% wrong="1.9" name="draws at temperature 1 alone" says="only the best token is drawn"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial(best.softmax(-1), 1) if temperature == 1 else 0


# %% wrong="1.9" name="top-k of the worst" says="not among the top_k best"
# - best, tokens = logits.topk(min(top_k or len(logits), len(logits)))
# + worst = bool(temperature and top_k)
# + best, tokens = logits.topk(min(top_k or len(logits), len(logits)), largest=not worst)


# %% wrong="1.1" name="a softmax that subtracts the mean" says="can the softmax take it"
# - weights = scores.softmax(dim=-1)
# + weights = (scores - scores.mean(dim=-1, keepdim=True)).exp()
# + weights = weights / weights.sum(dim=-1, keepdim=True)


# %% wrong="1.3" name="the first mask is kept" says="in place of the mask that is given"
# - heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# + self.mask = mask if getattr(self, "mask", None) is None else self.mask
# + heads = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


# %% wrong="1.9" name="stops at special tokens, up to the end" says="not 12 times the best one"
# - if numbers[-1] == eos_id:
# + if numbers[-1] <= eos_id:


# %% wrong="1.9" name="logits of an earlier model" says="a second model, whose best third token is <eos>"
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + kept = generate.__dict__.setdefault("kept", {})
# + logits = kept.setdefault(tuple(numbers), model(torch.tensor([numbers], device=device))[0, -1])


# %% wrong="1.5" name="unknown words get a number when they are read" says="a sentence that it has read before"
# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + found = [self.numbers.get(word, UNK) for word in sentence.split()]
# + for word in sentence.split():
# +     self.numbers.setdefault(word, UNK + 1)
# + return found


# %% wrong="1.6" name="embeddings not multiplied in training" says="in training mode with a dropout of 0, the logits"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = add_positions(self.embedding(tokens) * (1 if self.training else math.sqrt(self.d_model)))


# %% wrong="1.9" name="the token after the best one" says="does not take the best token"
# - numbers.append(tokens[drawn].item())
# + numbers.append((tokens[drawn].item() + 1) % len(logits))


# %% wrong="1.5" name="decode leaves padding out" says="or leaves special words out" private=true
# - return " ".join(self.words[number] for number in numbers)
# + return " ".join(self.words[number] for number in numbers if number != PAD)


# %% wrong="1.5" name="equal sentences are counted once" says="sentences that occur several times are counted once" private=true
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + counts = Counter(word for sentence in dict.fromkeys(sentences) for word in sentence.split())


# %% wrong="1.2" name="cut from a table of 1024" says="wrong for more than a thousand tokens" private=true
# - return torch.full((T, T), -torch.inf).triu(diagonal=1)
# + return torch.full((1024, 1024), -torch.inf).triu(diagonal=1)[:T, :T].clone()


# %% wrong="1.7" name="a negative pad counts from the end" says="where `pad_id` is negative" private=true
# - return -of_targets[targets != pad_id].mean()
# + pad_id += logits.size(-1) if -logits.size(-1) <= pad_id < 0 else 0
# + return -of_targets[targets != pad_id].mean()


# %% wrong="1.10" name="counts of 16 bits" says="where a token comes tens of thousands of times" private=true
# - counts = targets[targets != pad_id].bincount(minlength=vocab_size)
# + counts = targets[targets != pad_id].bincount(minlength=vocab_size).to(torch.int16)


# %% wrong="1.1" name="minus infinity alone counts" says="Finite numbers in the mask are ignored"
def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == -math.inf, -math.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


# %% wrong="1.10" name="shares from a table of pairs" says="tens of thousands of tokens in the vocabulary. A table of pairs is too large. Your code raised" private=true
# - counts = targets[targets != pad_id].bincount(minlength=vocab_size)
# + inputs = torch.cat([inputs.flatten() for inputs, _ in batches])
# + real = targets != pad_id
# + pairs = (inputs * vocab_size + targets)[real].bincount(minlength=vocab_size**2)
# + counts = pairs.view(vocab_size, vocab_size).sum(0)


# %% wrong="1.5" name="`max_size` ignored" says="It should have at most 7"
# - self.words = SPECIAL + [word for word, _ in counts.most_common(max_size - len(SPECIAL))]
# + self.words = SPECIAL + [word for word, _ in counts.most_common()]


# %% wrong="1.5" name="the length is `max_size`" says="`len(vocab)` is not the number of entries in `words`"
# - counts = Counter(word for sentence in sentences for word in sentence.split())
# + self.max_size = max_size
# + counts = Counter(word for sentence in sentences for word in sentence.split())

# - return len(self.words)
# + return self.max_size


# %% wrong="1.5" name="padding on the left" says="begins with PAD"
# - inputs = pad([torch.tensor(row[:-1]) for row in rows], batch_first=True, padding_value=PAD)
# - return inputs, pad([torch.tensor(row[1:]) for row in rows], batch_first=True, padding_value=PAD)
# + longest = max(len(row) for row in rows)
# + whole = torch.tensor([[PAD] * (longest - len(row)) + row for row in rows])
# + return whole[:, :-1], whole[:, 1:]


# %% wrong="1.5" name="the first number of each word" says="the numbers that the vocabulary's `encode` gives"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *[vocab.encode(word)[0] for word in sentence.split()], EOS][: max_len + 1] for sentence in sentences]


# %% wrong="1.6" name="a TransformerEncoder as layers" says="with weights such as `layers.0.linear1.weight`"
# - self.layers = nn.ModuleList(
# -     nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True) for _ in range(n_layers)
# - )
# + layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, batch_first=True)
# + self.layers = nn.TransformerEncoder(layer, n_layers)

# - for layer in self.layers:
# -     x = layer(x, src_mask=mask if self.causal else None)
# + x = self.layers(x, mask=mask if self.causal else None)


# %% wrong="1.6" name="head of another name" says="has no `head.weight`"
# - self.head = nn.Linear(d_model, vocab_size)
# + self.output = nn.Linear(d_model, vocab_size)

# - return self.head(x)
# + return self.output(x)


# %% wrong="1.6" name="positions with the mask only" says="with causal=False, the logits are wrong"
# - x = add_positions(self.embedding(tokens) * math.sqrt(self.d_model))
# + x = self.embedding(tokens) * math.sqrt(self.d_model)
# + x = add_positions(x) if self.causal else x


# %% wrong="1.7" name="real targets come first" says="targets at the end of a row are left out"
# - return -of_targets[targets != pad_id].mean()
# + lengths = (targets != pad_id).sum(dim=1)
# + return -torch.cat([row[:length] for row, length in zip(of_targets, lengths, strict=True)]).mean()


# %% wrong="1.9" name="mean of the logits of all positions" says="does not take the best token"
# - logits = model(torch.tensor([numbers], device=device))[0, -1]
# + logits = model(torch.tensor([numbers], device=device))[0].mean(dim=0)


# %% wrong="1.9" name="always writes one" says="It should write nothing"
# - for _ in range(max_new):
# + for _ in range(max(max_new, 1)):


# %% wrong="1.5" name="cuts the left end" says="should keep its first 4 inputs"
# - rows = [[SOS, *vocab.encode(sentence), EOS][: max_len + 1] for sentence in sentences]
# + rows = [[SOS, *vocab.encode(sentence), EOS][-max_len - 1 :] for sentence in sentences]


# %% wrong="1.4" name="drops the first sum" says="should be dropped as a whole, and nothing else" private=true
# - x = self.norm1(x + self.dropout(attended))
# + x = self.norm1(self.dropout(x + attended))


# %% wrong="1.3" name="the output projection has no bias" says="the bias of `out_proj` is missing"
# - return self.out_proj(heads.transpose(1, 2).flatten(-2))
# + return F.linear(heads.transpose(1, 2).flatten(-2), self.out_proj.weight)


# %% wrong="1.5" name="encodes in lower case" says="takes words that differ only in capital letters" private=true
# - return [self.numbers.get(word, UNK) for word in sentence.split()]
# + return [self.numbers.get(word if word in self.numbers else word.lower(), UNK) for word in sentence.split()]


# %% wrong="1.4" name="drops the input of the feed-forward part" says="the input of the feed-forward part is dropped too" private=true
# - inner = self.dropout(self.linear1(x).relu())
# + inner = self.dropout(self.linear1(self.dropout(x)).relu())


# %% wrong="1.4" name="drops the input of the attention" says="the input of the attention is dropped too" private=true
# - attended, _ = self.self_attn(x, x, x, attn_mask=mask)
# + read = self.dropout(x)
# + attended, _ = self.self_attn(read, read, read, attn_mask=mask)


# %% wrong="1.9" name="no temperature above 20" says="for the logits `[600, 0, 300, -9000]` at temperature 300, the shares"
# - drawn = torch.multinomial((best / temperature).softmax(-1), 1) if temperature else 0
# + drawn = torch.multinomial((best / min(temperature, 20)).softmax(-1), 1) if temperature else 0


# %% wrong="1.7" name="leaves out 1 too" says="targets that are 1 are left out too"
# - return -of_targets[targets != pad_id].mean()
# + return -of_targets[(targets != pad_id) & (targets != PAD)].mean()
