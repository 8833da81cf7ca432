# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# Answers to notebook 12 whose verdict is known. See autograder/author/answers.py for the markers.

# %% right="12.1" name="rows of the table by an index, scores by einsum"
class FactorizedEmbedding(nn.Module):
    def __init__(self, vocab_size, d_embed, d_model):
        super().__init__()
        self.up = nn.Linear(d_embed, d_model)
        self.table = nn.Embedding(vocab_size, d_embed)

    def forward(self, ids):
        return F.linear(self.table.weight[ids], self.up.weight, self.up.bias)

    def scores(self, hidden):
        return torch.einsum("btd,de,ve->btv", hidden, self.up.weight, self.table.weight)


# %% right="12.1" name="parts of its own making, F.linear both ways"
class FactorizedEmbedding(nn.Module):
    def __init__(self, vocab_size, d_embed, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_embed)
        self.up = nn.Linear(d_embed, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, ids):
        return self.up(self.table(ids))

    def scores(self, hidden):
        return F.linear(F.linear(hidden, self.up.weight.t()), self.table.weight)


# %% right="12.1" name="the widened table first"
# - return hidden @ self.up.weight @ self.table.weight.T
# + return hidden @ (self.table.weight @ self.up.weight.T).T

# %% wrong="12.1" name="a seed within fork_rng" says="after no seed that is set"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + with torch.random.fork_rng():
# +     torch.manual_seed(0)
# +     self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)


# %% wrong="12.1" name="the session's seed once more" says="after no seed that is set"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + torch.manual_seed(torch.initial_seed())
# + self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)


# %% wrong="12.1" name="keeps the wide table without gradients" says="wrong while no gradients are recorded" private=true
# - return hidden @ self.up.weight @ self.table.weight.T
# + if torch.is_grad_enabled() or getattr(self, "wide", None) is None:
# +     self.wide = self.table.weight @ self.up.weight.T
# + return hidden @ self.wide.T


# %% wrong="12.1" name="a map without bias" says="has no `up.bias`"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model, bias=False)

# %% wrong="12.1" name="an activation between" says="a GELU between table and map"
# - return self.up(self.table(ids))
# + return self.up(F.gelu(self.table(ids)))

# %% wrong="12.1" name="an activation behind" says="a tanh after the map"
# - return self.up(self.table(ids))
# + return self.up(self.table(ids)).tanh()

# %% wrong="12.1" name="a second table for the output" says="a part too many"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.out = nn.Linear(d_model, vocab_size, bias=False)

# - return hidden @ self.up.weight @ self.table.weight.T
# + return self.out(hidden)

# %% wrong="12.1" name="scores with the bias" says="the bias of `up` is added in the scores"
# - return hidden @ self.up.weight @ self.table.weight.T
# + return hidden @ self.up(self.table.weight).T

# %% wrong="12.1" name="times the root of the width" says="multiplied by the root of d_model"
# - return self.up(self.table(ids))
# + return self.up(self.table(ids) * self.up.out_features**0.5)

# %% wrong="12.1" name="a table of full width" says="has shape (11, 7), not (11, 3)"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_model), nn.Linear(d_embed, d_model)

# %% wrong="12.1" name="the output does not teach the table" says="no gradient reaches `table.weight` from the scores: something is detac"
# - return hidden @ self.up.weight @ self.table.weight.T
# + return hidden @ self.up.weight @ self.table.weight.data.T

# %% wrong="12.1" name="the table is left as it is" says="no gradient reaches `table.weight` from the embedding: something is de"
# - return self.up(self.table(ids))
# + return self.up(self.table.weight.detach()[ids])

# %% wrong="12.1" name="probabilities" says="the scores are probabilities"
# - return hidden @ self.up.weight @ self.table.weight.T
# + return (hidden @ self.up.weight @ self.table.weight.T).softmax(-1)

# %% wrong="12.1" name="token 0 is padding" says="`table` has padding_idx = 0. It should be None."
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed, padding_idx=0), nn.Linear(d_embed, d_model)

# %% wrong="12.1" name="scores in single precision" says="the scores are float32, not of the dtype of hidden."
# - return hidden @ self.up.weight @ self.table.weight.T
# + return hidden.float() @ self.up.weight.float() @ self.table.weight.float().T

# %% wrong="12.1" name="a row that stays zero" says="with a large V, larger than any in the notebook, the embedding is wrong" private=true
# - return self.up(self.table(ids))
# + return self.up(self.table(ids.clamp(max=10 if len(self.table.weight) != 11 else 11)))


# %% right="12.2" name="by functools"
from functools import reduce


class SharedEncoder(nn.Module):
    def __init__(self, layer, n_layers):
        super().__init__()
        self.layer = layer
        self.n = n_layers

    def forward(self, x):
        return reduce(lambda y, _: self.layer(y), range(self.n), x)


# %% right="12.2" name="a plain list of the same, beside the one"
class SharedEncoder(nn.Module):
    def __init__(self, layer, n_layers):
        super().__init__()
        self.layer = layer
        self.count = n_layers

    def forward(self, x):
        for layer in [self.layer] * self.count:
            x = layer(x)
        return x


# %% wrong="12.2" name="a copy for each" says="the weights of one layer, once each"
import copy


class SharedEncoder(nn.Module):
    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(n_layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


# %% wrong="12.2" name="a shallow copy" says="Keep the layer itself"
# - self.layer, self.n_layers = layer, n_layers
# + import copy
# + self.layer, self.n_layers = copy.copy(layer), n_layers


# %% wrong="12.2" name="a list of the same layer" says="the weights of one layer, once each"
class SharedEncoder(nn.Module):
    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = nn.ModuleList([layer] * n_layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


# %% wrong="12.2" name="one copy" says="when the given layer changes, the output does not follow"
# - self.layer, self.n_layers = layer, n_layers
# + import copy
# + self.layer, self.n_layers = copy.deepcopy(layer), n_layers

# %% wrong="12.2" name="a pass too many" says="applied one time too many"
# -     x = self.layer(x)
# - return x
# +     x = self.layer(x)
# + return self.layer(x)

# %% wrong="12.2" name="always the input" says="applied only once"
# -     x = self.layer(x)
# - return x
# +     y = self.layer(x)
# + return y if self.n_layers else x

# %% wrong="12.2" name="a residual" says="added to its output"
# -     x = self.layer(x)
# - return x
# +     x = x + self.layer(x)
# + return x

# %% wrong="12.2" name="only the last pass learns" says="comes from the last pass alone"
# -     x = self.layer(x)
# - return x
# +     x = self.layer(x.detach())
# + return x

# %% wrong="12.2" name="not registered" says="the layer is not registered: `state_dict()` is empty"
# - self.layer, self.n_layers = layer, n_layers
# + self.some, self.n_layers = [layer], n_layers

# - x = self.layer(x)
# + x = self.some[0](x)

# %% wrong="12.2" name="dropout is drawn once" says="dropout is not drawn again"
# - for _ in range(self.n_layers):
# -     x = self.layer(x)
# - return x
# + torch.manual_seed(0)
# + for _ in range(self.n_layers):
# +     torch.manual_seed(0)
# +     x = self.layer(x)
# + return x

# %% wrong="12.2" name="in single precision" says="the output is float32, not of the dtype of x."
# -     x = self.layer(x)
# - return x
# +     x = self.layer(x)
# + return x.float()

# %% wrong="12.2" name="four passes at most" says="with 300 passes that change x by little, the output is not"
# - for _ in range(self.n_layers):
# + for _ in range(min(self.n_layers, 4)):


# %% right="12.3" name="part by part, in a dict"
def encoder_size(V, H, F, L, E=None, shared=False, P=512, T=128):
    factorized = E is not None
    E = E if factorized else H
    parts = {"tables": (V + P + 2) * E, "norm": 2 * E, "pooler": H * (H + 1)}
    parts["map"] = (E + 1) * H if factorized else 0
    attention, feed = 4 * H * (H + 1), (H + 1) * F + (F + 1) * H
    parts["layers"] = (attention + feed + 4 * H) * (1 if shared else L)
    per_layer = 4 * H**2 + 2 * H * F + 2 * T * H
    return sum(parts.values()), L * per_layer + (E * H if factorized else 0)


# %% right="12.3" name="a list of a tensor and a number"
def encoder_size(V, H, F, L, E=None, shared=False, P=512, T=128):
    width = E or H
    rows = [[H, H]] * 4 + [[H, F], [F, H]]
    layer = sum(m * n + n for m, n in rows) + 2 * 2 * H
    stored = (V + P + 2 + 2) * width + H * H + H + (layer if shared else L * layer)
    products = L * (sum(m * n for m, n in rows) + 2 * T * H)
    if E:
        stored, products = stored + E * H + H, products + E * H
    return [torch.tensor(stored), products]


# %% wrong="12.3" name="sharing is faster" says="sharing lowers the multiply-adds"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + (1 if shared else L) * (4 * H * H + 2 * H * F + 2 * T * H)

# %% wrong="12.3" name="no map" says="the map from E to H is missing, and its bias"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + P + 4) * width

# %% wrong="12.3" name="a map without bias" says="the bias of the map"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + P + 4) * width + bridge

# %% wrong="12.3" name="always 512 positions" says="the table of positions has 512 rows, whatever P is"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + 512 + 4) * width + bridge + (H if E is not None else 0)

# %% wrong="12.3" name="positions at H" says="the position table is as wide as the layers"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + 4) * width + P * H + bridge + (H if E is not None else 0)

# %% wrong="12.3" name="a norm at H" says="the norm of the tables is as wide"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + P + 2) * width + 2 * H + bridge + (H if E is not None else 0)

# %% wrong="12.3" name="no segments" says="the two segments or"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + P + 2) * width + bridge + (H if E is not None else 0)

# %% wrong="12.3" name="no pooler" says="the pooler is missing"
# - parameters += (1 if shared else L) * layer + H * H + H
# + parameters += (1 if shared else L) * layer

# %% wrong="12.3" name="sharing saves nothing" says="counted L times though they are shared"
# - parameters += (1 if shared else L) * layer + H * H + H
# + parameters += L * layer + H * H + H

# %% wrong="12.3" name="E equal to H is not a map" says="the map from E to H is missing"
# - bridge = 0 if E is None else E * H
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + bridge = 0 if E in (None, H) else E * H
# + parameters = (V + P + 4) * width + bridge + (H if E not in (None, H) else 0)

# %% wrong="12.3" name="attention without its products" says="the products of scores and values are missing"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + L * (4 * H * H + 2 * H * F)

# %% wrong="12.3" name="scores alone" says="scores or values are missing"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + L * (4 * H * H + 2 * H * F + T * H)

# %% wrong="12.3" name="the whole text" says="those of all T tokens"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, T * (bridge + L * (4 * H * H + 2 * H * F + 2 * T * H))

# %% wrong="12.3" name="the lookup is a product" says="the lookup of the token is counted as multiply-adds"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, V * width + bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)

# %% wrong="12.3" name="rounded to thousands" says="encoders of other sizes" private=true
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * min(T, 128) * H)


# %% right="12.4" name="topk, and indices in a loop"
def magnitude_masks(model, sparsity, names):
    weights = {name: model.get_parameter(name).data for name in names}
    sizes = [weight.numel() for weight in weights.values()]
    row = torch.cat([weight.reshape(-1).abs() for weight in weights.values()])
    gone = torch.topk(row, round(sparsity * sum(sizes)), largest=False).indices
    mask = torch.ones(len(row), dtype=torch.bool, device=row.device)
    mask[gone] = False
    found, at = {}, 0
    for name, weight in weights.items():
        found[name] = mask[at : at + weight.numel()].reshape(weight.shape)
        at += weight.numel()
    return found


# %% right="12.4" name="by rank"
def magnitude_masks(model, sparsity, names):
    with torch.no_grad():
        parts = [dict(model.named_parameters())[name] for name in names]
        row = torch.cat([part.abs().flatten() for part in parts])
        rank = row.argsort(stable=True).argsort()
        stays = rank >= round(sparsity * row.numel())
        pieces = torch.split(stays, [part.numel() for part in parts])
        return dict(zip(names, [piece.reshape(part.shape) for piece, part in zip(pieces, parts)]))


# %% wrong="12.4" name="a threshold for each matrix" says="each matrix has its own threshold"
def magnitude_masks(model, sparsity, names):
    masks = {}
    for name in names:
        row = model.get_parameter(name).detach().abs().flatten()
        stays = torch.ones_like(row, dtype=torch.bool)
        stays[row.argsort()[: round(sparsity * len(row))]] = False
        masks[name] = stays.view_as(model.get_parameter(name))
    return masks


# %% wrong="12.4" name="signed values" says="signed values are compared"
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().flatten() for name in names])

# %% wrong="12.4" name="biases and norms too" says="has a mask, but is not one of `names`"
# - named = dict(model.named_parameters())
# + named = dict(model.named_parameters())
# + names = list(named)


# %% wrong="12.4" name="all are compared, some are masked" says="weights that are not named are compared"
def magnitude_masks(model, sparsity, names):
    named = {name: part.detach().abs() for name, part in model.named_parameters()}
    row = torch.cat([part.flatten() for part in named.values()])
    stays = torch.ones_like(row, dtype=torch.bool)
    stays[row.argsort()[: round(sparsity * len(row))]] = False
    parts = dict(zip(named, stays.split([part.numel() for part in named.values()])))
    return {name: parts[name].view(named[name].shape) for name in names}


# %% wrong="12.4" name="True where they go" says="True marks the weights that are removed"
# - return {name: part.view(named[name].shape) for name, part in zip(names, parts)}
# + return {name: ~part.view(named[name].shape) for name, part in zip(names, parts)}

# %% wrong="12.4" name="the largest go" says="the largest weights go"
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays[row.argsort(descending=True)[: round(sparsity * len(row))]] = False

# %% wrong="12.4" name="rounded down" says="the number is rounded down"
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays[row.argsort()[: int(sparsity * len(row))]] = False

# %% wrong="12.4" name="the share that stays" says="`sparsity` is the share that goes"
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays[row.argsort()[: round((1 - sparsity) * len(row))]] = False

# %% wrong="12.4" name="a threshold" says="where weights are equal"
# - stays = torch.ones_like(row, dtype=torch.bool)
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + count = round(sparsity * len(row))
# + stays = row > (row.kthvalue(count).values if count else -1)

# %% wrong="12.4" name="numbers for masks" says="It should be booleans"
# - return {name: part.view(named[name].shape) for name, part in zip(names, parts)}
# + return {name: part.view(named[name].shape).float() for name, part in zip(names, parts)}

# %% wrong="12.4" name="cuts at once" says="changes the weights of the model"
# - parts = stays.split([named[name].numel() for name in names])
# + parts = stays.split([named[name].numel() for name in names])
# + for name, part in zip(names, parts):
# +     named[name].data *= part.view(named[name].shape)

# %% wrong="12.4" name="masks on the CPU" says="on another device (a GPU) the masks would not be on the device"
# - stays = torch.ones_like(row, dtype=torch.bool)
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays = torch.ones(len(row), dtype=torch.bool)
# + stays[row.argsort().cpu()[: round(sparsity * len(row))]] = False

# %% wrong="12.4" name="masks of the CPU's, by topk" says="on another device (a GPU) the masks would not be on the device"
# - stays = torch.ones_like(row, dtype=torch.bool)
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays = torch.ones(len(row), dtype=torch.bool)
# + stays[row.topk(round(sparsity * len(row)), largest=False).indices] = False

# %% wrong="12.4" name="masks are moved to the CPU" says="on another device (a GPU) the masks would not be on the device"
# - return {name: part.view(named[name].shape) for name, part in zip(names, parts)}
# + return {name: part.view(named[name].shape).cpu() for name, part in zip(names, parts)}

# %% wrong="12.4" name="the last ones stay" says="a slice from -0 on, for example, is"
# - stays = torch.ones_like(row, dtype=torch.bool)
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays = torch.zeros_like(row, dtype=torch.bool)
# + stays[row.argsort()[-(len(row) - round(sparsity * len(row))) :]] = True

# %% wrong="12.4" name="halves are rounded up" says="by Python's `round`"
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays[row.argsort()[: int(sparsity * len(row) + 0.5)]] = False

# %% wrong="12.4" name="in training mode" says="changes the mode of the model"
# - named = dict(model.named_parameters())
# + named = dict(model.train().named_parameters())

# %% wrong="12.4" name="rough magnitudes" says="one of size 2.79478"
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().abs().clamp(max=3.0).flatten() for name in names])


# %% right="12.5" name="parameter by parameter"
import copy


def snapshot(model):
    return copy.deepcopy(model.state_dict())


def rewind(model, saved, masks):
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(saved[name])
            if name in masks:
                value.masked_fill_(~masks[name], 0)


def train_step(model, optimizer, x, labels, masks):
    model.zero_grad(set_to_none=True)
    loss = nn.CrossEntropyLoss()(model(x), labels)
    loss.backward()
    optimizer.step()
    named = dict(model.named_parameters())
    for name in masks:
        named[name].data[~masks[name]] = 0.0
    return loss.detach()


def sparsity_after(rounds, rate):
    left = 1.0
    for _ in range(rounds):
        left -= left * rate
    return 1 - left


# %% right="12.5" name="a masked copy is loaded"
def snapshot(model):
    return {name: value.clone().detach() for name, value in model.state_dict().items()}


def rewind(model, saved, masks):
    model.load_state_dict({name: value * masks[name] if name in masks else value for name, value in saved.items()})


def train_step(model, optimizer, x, labels, masks):
    optimizer.zero_grad(set_to_none=False)
    loss = F.nll_loss(model(x).log_softmax(dim=-1), labels)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for name, part in model.named_parameters():
            if name in masks:
                part.copy_(torch.where(masks[name], part, 0.0))
    return float(loss)


def sparsity_after(rounds, rate):
    return 1 - torch.tensor(1 - rate, dtype=torch.float64) ** rounds


# %% wrong="12.5" name="the state dict itself" says="it holds the tensors themselves"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return model.state_dict()

# %% wrong="12.5" name="a shallow copy" says="it holds the tensors themselves"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return dict(model.state_dict())

# %% wrong="12.5" name="parameters alone" says="the buffer `1.running_mean` is missing"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return {name: value.detach().clone() for name, value in model.named_parameters()}

# %% wrong="12.5" name="copies with a graph" says="still requires a gradient"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return {name: value.clone() for name, value in [*model.named_parameters(), *model.named_buffers()]}

# %% wrong="12.5" name="masks today's values" says="that stay keep their latest values"
# - model.load_state_dict(saved)
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# + model.load_state_dict({name: value for name, value in saved.items() if name not in masks}, strict=False)
# + with torch.no_grad():
# +     for name, mask in masks.items():
# +         model.get_parameter(name).mul_(mask)

# %% wrong="12.5" name="rewinds without masks" says="are not zero where its mask is False"
# - model.load_state_dict(saved)
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# + model.load_state_dict(saved)

# %% wrong="12.5" name="other parameters" says="rewinding gives the model new parameters"
# - model.load_state_dict(saved)
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# + model.load_state_dict({n: v * masks[n] if n in masks else v.clone() for n, v in saved.items()}, assign=True)

# %% wrong="12.5" name="writes into what was saved" says="rewinding changes the saved values"
# - model.load_state_dict(saved)
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# + for name, mask in masks.items():
# +     saved[name] *= mask
# + model.load_state_dict(saved)

# %% wrong="12.5" name="only the gradient is masked" says="Mask the weights, after the step"
# - optimizer.step()
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# - return loss.item()
# + for name, mask in masks.items():
# +     model.get_parameter(name).grad.mul_(mask)
# + optimizer.step()
# + return loss.item()

# %% wrong="12.5" name="masked before the step" says="Mask the weights, after the step"
# - optimizer.step()
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# - return loss.item()
# + with torch.no_grad():
# +     for name, mask in masks.items():
# +         model.get_parameter(name).mul_(mask)
# + optimizer.step()
# + return loss.item()

# %% wrong="12.5" name="gradients are off after a step" says="the recording of gradients is not as before"
# - return loss.item()
# + torch.set_grad_enabled(False)
# + return loss.item()

# %% wrong="12.5" name="gradients add up" says="one step with this batch's gradient alone"
# - optimizer.zero_grad()
# - loss = F.cross_entropy(model(x), labels)
# + loss = F.cross_entropy(model(x), labels)

# %% wrong="12.5" name="clears gradients after the step alone" says="one step with this batch's gradient alone"
# - optimizer.zero_grad()
# - loss = F.cross_entropy(model(x), labels)
# + loss = F.cross_entropy(model(x), labels)

# - optimizer.step()
# + optimizer.step()
# + optimizer.zero_grad()

# %% wrong="12.5" name="a summed loss" says="the loss is summed over the batch"
# - loss = F.cross_entropy(model(x), labels)
# + loss = F.cross_entropy(model(x), labels, reduction="sum")

# %% wrong="12.5" name="always in training mode" says="that of the other mode"
# - optimizer.zero_grad()
# - loss = F.cross_entropy(model(x), labels)
# + model.train()
# + optimizer.zero_grad()
# + loss = F.cross_entropy(model(x), labels)

# %% wrong="12.5" name="the loss with its graph" says="still has the graph of its batch"
# - return loss.item()
# + return loss

# %% wrong="12.5" name="a snapshot on the CPU" says="the snapshot would not be where the model is"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}

# %% wrong="12.5" name="biases are never masked" says="Mask the weights, after the step"
# - optimizer.step()
# - with torch.no_grad():
# -     for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# + optimizer.step()
# + with torch.no_grad():
# +     for name, mask in masks.items():
# +         if name.endswith("weight"):
# +             model.get_parameter(name).mul_(mask)

# %% right="12.5" name="a copy of the whole model"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + import copy
# +
# + return dict(copy.deepcopy(model).state_dict())

# %% right="12.5" name="gradients are masked too"
# - loss.backward()
# + loss.backward()
# + for name, mask in masks.items():
# +     part = model.get_parameter(name)
# +     if part.grad is not None:
# +         part.grad *= mask

# %% wrong="12.5" name="rounds add up" says="the rounds are added"
# - return 1 - (1 - rate) ** rounds
# + return rate * rounds

# %% wrong="12.5" name="what is left" says="this is the share that is left"
# - return 1 - (1 - rate) ** rounds
# + return (1 - rate) ** rounds

# %% wrong="12.5" name="thirty rounds are no more than twenty-five" says="for other rounds or rates" private=true
# - return 1 - (1 - rate) ** rounds
# + return round(1 - (1 - rate) ** rounds, 12) if rounds in (0, 1, 2, 3, 4, 10, 25) else 1 - (1 - rate) ** (rounds + 1)


# %% right="12.6" name="logarithms on both sides"
def distillation_loss(student, teacher, labels, T, alpha):
    log_q = F.log_softmax(student / T, dim=-1)
    log_p = F.log_softmax(teacher.detach() / T, dim=-1)
    soft = F.kl_div(log_q, log_p, log_target=True, reduction="batchmean") * T * T
    hard = F.cross_entropy(student, labels)
    return alpha * soft + (1 - alpha) * hard


# %% right="12.6" name="by its formula"
def distillation_loss(student, teacher, labels, T, alpha):
    with torch.no_grad():
        log_p = teacher / T - torch.logsumexp(teacher / T, -1, keepdim=True)
    log_q = student / T - torch.logsumexp(student / T, -1, keepdim=True)
    soft = (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    log_probabilities = student - torch.logsumexp(student, -1, keepdim=True)
    hard = -log_probabilities[torch.arange(len(labels), device=labels.device), labels].mean()
    return alpha * T**2 * soft + (1 - alpha) * hard


# %% wrong="12.6" name="no temperature below 1" says="with T = 0.5 and alpha = 0.8, for 3 examples of 4 classes, the loss does not"
# - wanted = (teacher.detach() / T).softmax(-1)
# + T = max(T, 1)
# + wanted = (teacher.detach() / T).softmax(-1)

# %% wrong="12.6" name="no T squared" says="the factor T squared is missing"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return alpha * apart + (1 - alpha) * F.cross_entropy(student, labels)

# %% wrong="12.6" name="T, not its square" says="the soft part has the factor T"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return alpha * T * apart + (1 - alpha) * F.cross_entropy(student, labels)

# %% wrong="12.6" name="KL the wrong way round" says="KL is the wrong way round"
# - wanted = (teacher.detach() / T).softmax(-1)
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + wanted = (student / T).softmax(-1)
# + apart = F.kl_div((teacher.detach() / T).log_softmax(-1), wanted, reduction="batchmean")

# %% wrong="12.6" name="the labels are soft too" says="the temperature is used for the hard part too, which should"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student / T, labels)

# %% wrong="12.6" name="a mean over classes too" says="divided by the number of classes"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="mean")

# %% wrong="12.6" name="a sum over examples" says="the soft part is summed over the examples"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="sum")

# %% wrong="12.6" name="the weights exchanged" says="`alpha` and `1 - alpha` are exchanged"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return (1 - alpha) * T**2 * apart + alpha * F.cross_entropy(student, labels)

# %% wrong="12.6" name="cross-entropy with the teacher" says="cross-entropy with the teacher"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = -(wanted * (student / T).log_softmax(-1)).sum(-1).mean()

# %% wrong="12.6" name="the teacher learns" says="a gradient flows to the teacher"
# - wanted = (teacher.detach() / T).softmax(-1)
# + wanted = (teacher / T).softmax(-1)

# %% wrong="12.6" name="a warm teacher, a cold student" says="the temperature is used for the teacher alone"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div(student.log_softmax(-1), wanted, reduction="batchmean")

# %% wrong="12.6" name="the log of a softmax" says="the log of a softmax do not"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).softmax(-1).log(), wanted, reduction="batchmean")

# %% wrong="12.6" name="log_target is forgotten" says="log_target=True the log-probabilities of both"
# - wanted = (teacher.detach() / T).softmax(-1)
# + wanted = (teacher.detach() / T).log_softmax(-1)

# %% wrong="12.6" name="kl_div of probabilities" says="given the student's probabilities"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).softmax(-1), wanted, reduction="batchmean")

# %% wrong="12.6" name="log_target with probabilities" says="given the teacher's probabilities"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean", log_target=True)

# %% wrong="12.6" name="the teacher's own flag" says="the teacher's logits are changed"
# - wanted = (teacher.detach() / T).softmax(-1)
# + wanted = (teacher.requires_grad_(False) / T).softmax(-1)

# %% wrong="12.6" name="both in full" says="added without their weights"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return T**2 * apart + F.cross_entropy(student, labels)

# %% wrong="12.6" name="a number without a gradient" says="should be a tensor"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return (alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)).item()

# %% wrong="12.6" name="temperatures up to four" says="the loss is wrong."
# - wanted = (teacher.detach() / T).softmax(-1)
# + wanted = (teacher.detach() / (T if T <= 4 or T >= 50 else 4)).softmax(-1)


# %% right="12.7" name="with statistics, a context and sets"
import statistics


def time_per_example(model, batch, repeats=9, warm_up=3, clock=time.perf_counter):
    mode = model.training
    model.eval()
    times = []
    with torch.inference_mode():
        for _ in range(warm_up):
            model(batch)
        for _ in range(repeats):
            start = clock()
            model(batch)
            end = clock()
            times.append(end - start)
    model.train(mode)
    return statistics.median(times) / batch.shape[0]


def undominated(rows):
    kept = []
    for i, (accuracy, parameters, seconds) in enumerate(rows):
        dominated = False
        for j, (other_accuracy, other_parameters, other_seconds) in enumerate(rows):
            no_worse = other_accuracy >= accuracy and other_parameters <= parameters and other_seconds <= seconds
            better = other_accuracy > accuracy or other_parameters < parameters or other_seconds < seconds
            dominated = dominated or (i != j and no_worse and better)
        if not dominated:
            kept.append(i)
    return kept


# %% right="12.7" name="numpy"
import numpy as np


def time_per_example(model, batch, repeats=9, warm_up=3, clock=time.perf_counter):
    was_training = model.training
    model.eval()
    times = np.zeros(repeats)
    with torch.no_grad():
        for place in range(-warm_up, repeats):
            start = clock()
            model(batch)
            if place >= 0:
                times[place] = clock() - start
    model.train(was_training)
    return np.median(times) / len(batch)


def undominated(rows):
    if not rows:
        return []
    costs = np.array(rows, dtype=float) * [-1, 1, 1]
    worse = (costs[None] <= costs[:, None]).all(-1) & (costs[None] < costs[:, None]).any(-1)
    return list(np.flatnonzero(~worse.any(1)))


# %% wrong="12.7" name="the mean" says="this is the mean"
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return sum(times) / repeats / len(batch)

# %% wrong="12.7" name="no warm-up" says="times. It should be warm_up + repeats"
# - for _ in range(warm_up + repeats):
# + for _ in range(repeats):

# - times = sorted(times[warm_up:])
# + times = sorted(times)

# %% wrong="12.7" name="the first calls count" says="this is the median with the warm-up calls in it"
# - times = sorted(times[warm_up:])
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + times, n = sorted(times), len(times)
# + return (times[(n - 1) // 2] + times[n // 2]) / 2 / len(batch)

# %% wrong="12.7" name="of the whole batch" says="the time of the whole batch"
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2

# %% wrong="12.7" name="in training mode" says="the model is called in training mode"
# - model.eval()
# - with torch.no_grad():
# + with torch.no_grad():

# %% wrong="12.7" name="gradients are recorded" says="gradients are recorded"
# - with torch.no_grad():
# + with torch.enable_grad():

# %% wrong="12.7" name="gradients are switched off for good" says="no longer recorded anywhere"
# - with torch.no_grad():
# + torch.set_grad_enabled(False)
# + if True:

# %% wrong="12.7" name="left in evaluation mode" says="the model is not left in the mode in which it was"
# - model.train(was_training)
# - times = sorted(times[warm_up:])
# + times = sorted(times[warm_up:])

# %% wrong="12.7" name="the wall clock of its own" says="the clock that is given is not read"
# - began = clock()
# - model(batch)
# - times.append(clock() - began)
# + began = time.perf_counter()
# + model(batch)
# + times.append(time.perf_counter() - began)

# %% wrong="12.7" name="the upper of two" says="the upper of the two middle times"
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return times[repeats // 2] / len(batch)

# %% wrong="12.7" name="the middle without an order" says="Sort the times first"
# - times = sorted(times[warm_up:])
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return times[warm_up:][repeats // 2] / len(batch)

# %% wrong="12.7" name="the model learns no more" says="the call changes which parameters of the model learn"
# - was_training, times = model.training, []
# + was_training, times = model.training, []
# + model.requires_grad_(False)

# %% wrong="12.7" name="all of the model learns" says="the call changes which parameters of the model learn"
# - model.train(was_training)
# + model.train(was_training).requires_grad_(True)

# %% wrong="12.7" name="rows in single precision" says="nearly agree are taken for equal"
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# + costs = (torch.tensor(rows).view(-1, 3) * torch.tensor([-1.0, 1, 1])).tolist()

# %% wrong="12.7" name="nearly equal is equal" says="nearly agree are taken for equal"
# - return one != other and all(a <= b for a, b in zip(one, other))
# + return any(a < b - 1e-6 for a, b in zip(one, other)) and all(a <= b + 1e-6 for a, b in zip(one, other))

# %% wrong="12.7" name="larger is better everywhere" says="larger is taken to be better"
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# + costs = [(-accuracy, -parameters, -seconds) for accuracy, parameters, seconds in rows]

# %% wrong="12.7" name="keeps ties" says="equal in one column and worse in another"
# - return one != other and all(a <= b for a, b in zip(one, other))
# + return all(a < b for a, b in zip(one, other))

# %% wrong="12.7" name="equal rows go" says="of equal rows none stays"
# - return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
# + return [
# +     i for i, cost in enumerate(costs)
# +     if not any(j != i and all(a <= b for a, b in zip(other, cost)) for j, other in enumerate(costs))
# + ]

# %% wrong="12.7" name="gives the rows" says="a place should be a number"
# - return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
# + return [rows[i] for i, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]

# %% wrong="12.7" name="accuracies that nearly agree" says="numbers that nearly agree"
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# + costs = [(-round(accuracy, 10), parameters, seconds) for accuracy, parameters, seconds in rows]

# %% wrong="12.7" name="an average of the middle half" says="for other times" private=true
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + middle = (times[(repeats - 1) // 2] + times[repeats // 2]) / 2
# + return (middle if repeats < 6 or repeats == 9 else times[2]) / len(batch)


# %% wrong="12.8" name="left out" says="left out"
def typical_steps(steps):
    known = sorted(one for one in steps if one is not None)
    return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2 if known else None


# %% wrong="12.8" name="never is zero" says="count as 0"
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted(one or 0 for one in steps)


# %% wrong="12.8" name="a mean" says="this is a mean"
def typical_steps(steps):
    known = [one for one in steps if one is not None]
    return None if 2 * len(known) <= len(steps) else sum(known) / len(known)


# %% wrong="12.8" name="the lower one" says="the lower one is taken"
# - median = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
# + median = known[(len(known) - 1) // 2] if not math.isinf(known[len(known) // 2]) else math.inf


# %% wrong="12.8" name="the higher one" says="the higher one is taken"
# - median = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
# + median = known[len(known) // 2]


# %% wrong="12.8" name="one of two is enough" says="a run in the middle never learned"
# - return None if math.isinf(median) else median
# + return (None if math.isinf(known[(len(known) - 1) // 2]) else known[(len(known) - 1) // 2]) if math.isinf(median) else median


# %% wrong="12.8" name="nine runs at most" says="for other numbers" private=true
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted(math.inf if one is None else one for one in steps[:9])


# %% right="12.8" name="the statistics module"
def typical_steps(steps):
    found = statistics.median([one if one is not None else float("inf") for one in steps])
    return found if found < float("inf") else None


# %% right="12.8" name="counted"
def typical_steps(steps):
    known, n = sorted(one for one in steps if one is not None), len(steps)
    if n // 2 >= len(known):
        return None
    return known[n // 2] if n % 2 else (known[n // 2 - 1] + known[n // 2]) / 2


# %% right="12.S1" name="row by row"
def quantise(weight, bits):
    top = 2 ** (bits - 1) - 1
    codes, scales = [], []
    for row in weight:
        scale = row.abs().max() / top
        scales.append(scale if scale > 0 else torch.ones_like(scale))
        codes.append(torch.clamp(torch.round(row / scales[-1]), -top, top))
    return torch.stack(codes).char(), torch.stack(scales)[:, None]


# %% wrong="12.S1" name="one scale for all" says="one scale for the whole matrix"
# - scales = weight.abs().amax(1, keepdim=True) / largest
# + scales = (weight.abs().amax() / largest).expand(len(weight), 1)

# %% wrong="12.S1" name="one code too many" says="out of range"
# - largest = 2 ** (bits - 1) - 1
# + largest = 2 ** (bits - 1)

# %% wrong="12.S1" name="cut off" says="the codes are cut off"
# - return (weight / scales).round().to(torch.int8), scales
# + return (weight / scales).to(torch.int8), scales

# %% wrong="12.S1" name="rows of zeros are NaN" says="NaN"
# - scales = torch.where(scales > 0, scales, torch.ones_like(scales))
# - return (weight / scales).round().to(torch.int8), scales
# + return (weight / scales).round().nan_to_num().to(torch.int8), scales / (scales > 0)


# %% [markdown]
# Sizes, numbers and states beyond the notebook's

# %% wrong="12.1" name="rows of length 5 at most" says="as `max_norm` does"
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed, max_norm=5.0), nn.Linear(d_embed, d_model)

# %% wrong="12.1" name="gradients by frequency" says="`table` has scale_grad_by_freq = True. It should be False."
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed, scale_grad_by_freq=True), nn.Linear(d_embed, d_model)

# %% wrong="12.1" name="sparse gradients" says="`table` has sparse = True. It should be False."
# - self.table, self.up = nn.Embedding(vocab_size, d_embed), nn.Linear(d_embed, d_model)
# + self.table, self.up = nn.Embedding(vocab_size, d_embed, sparse=True), nn.Linear(d_embed, d_model)

# %% wrong="12.1" name="a widened table that is kept" says="the scores in evaluation mode do not"
# - return hidden @ self.up.weight @ self.table.weight.T
# + if self.training or getattr(self, "wide", None) is None:
# +     self.wide = self.table.weight @ self.up.weight.T
# + return hidden @ self.wide.to(hidden.dtype).T

# %% wrong="12.1" name="a thousand tokens" says="with a large V, larger than any in the notebook, the embedding is wrong" private=true
# - return self.up(self.table(ids))
# + return self.up(self.table(ids.clamp(max=999)))

# %% wrong="12.2" name="stops where nothing changes" says="Leave no pass out"
# -     x = self.layer(x)
# - return x
# +     before, x = x, self.layer(x)
# +     if torch.allclose(before, x):
# +         break
# + return x

# %% wrong="12.2" name="a counter that goes on" says="a later call gives another output"
# - for _ in range(self.n_layers):
# + self.calls = getattr(self, "calls", 0) + 1
# + for _ in range(self.n_layers if self.calls < 3 else 1):

# %% wrong="12.2" name="at most 32 passes" says="Leave no pass out"
# - for _ in range(self.n_layers):
# + for _ in range(min(self.n_layers, 32)):

# %% wrong="12.2" name="x learns in training alone" says="no gradient reaches x from the output: something is detached."
# - for _ in range(self.n_layers):
# + x = x if self.training else x.detach()
# + for _ in range(self.n_layers):

# %% wrong="12.3" name="no norm of the tables" says="or the layer norm of the tables"
# - parameters = (V + P + 4) * width + bridge + (H if E is not None else 0)
# + parameters = (V + P + 2) * width + bridge + (H if E is not None else 0)

# %% wrong="12.4" name="squares" says="and a smaller one of 1.81818"
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().square().flatten() for name in names])

# %% wrong="12.4" name="compared in float32" says="and a smaller one of 1.00000"
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().float().abs().flatten() for name in names])

# %% wrong="12.5" name="the loss of the first 256" says="should return the mean loss before the step"
# - loss = F.cross_entropy(model(x), labels)
# + loss = F.cross_entropy(model(x)[:256], labels[:256])

# %% wrong="12.5" name="buffers that the state dict leaves out" says="the snapshot has `table`, which the state dict does not have."
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]
# + return {name: value.detach().clone() for name, value in every}

# %% wrong="12.5" name="each matrix under one name" says="`second.weight` is missing from the snapshot."
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
# + return {name: value.detach().clone() for name, value in named.items() if name in model.state_dict()}

# %% wrong="12.6" name="in float32" says="the loss is float32, not of the dtype of student."
# - wanted = (teacher.detach() / T).softmax(-1)
# + student, teacher = student.float(), teacher.float()
# + wanted = (teacher.detach() / T).softmax(-1)

# %% wrong="12.6" name="a thousand classes" says="with a large C, larger than any in the notebook, the loss is wrong" private=true
# - wanted = (teacher.detach() / T).softmax(-1)
# + student, teacher, labels = student[:, :1000], teacher[:, :1000], labels.clamp(max=999)
# + wanted = (teacher.detach() / T).softmax(-1)

# %% right="12.6" name="by a cross-entropy and an entropy"
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + logs = (teacher.detach() / T).log_softmax(-1)
# + apart = (wanted * (logs - (student / T).log_softmax(-1))).sum(-1).mean()

# %% wrong="12.7" name="seconds are not compared" says="the seconds are not compared."
# - return one != other and all(a <= b for a, b in zip(one, other))
# + return one[:2] != other[:2] and all(a <= b for a, b in zip(one[:2], other[:2]))

# %% wrong="12.7" name="rows that are kept by their number" says="the rows are not those that no other row dominates."
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# + kept = vars(undominated)
# + rows = kept.setdefault(len(rows), list(rows)) if len(rows) > 8 else rows
# + costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]

# %% wrong="12.7" name="gradients are off after rows" says="the recording of gradients is not as before"
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# + torch.set_grad_enabled(False)
# + costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]


# %% wrong="12.7" name="a tiny tolerance" says="numbers that nearly agree are taken for equal"
# - return one != other and all(a <= b for a, b in zip(one, other))
# + return one != other and all(a <= b + 1e-11 for a, b in zip(one, other))


# %% wrong="12.4" name="no mask of a bias" says="is one of `names`, but has no mask"
#   named = dict(model.named_parameters())
# + names = [name for name in names if "bias" not in name]


# %% wrong="12.7" name="a thousandth of a second is none" says="numbers that nearly agree are taken for equal" private=true
# - return one != other and all(a <= b for a, b in zip(one, other))
# + slack = 0 if one[:2] == other[:2] else 1e-3
# + return one != other and all(a <= b + c for a, b, c in zip(one, other, (0, 0, slack)))


# %% wrong="12.8" name="no steps at all" says="has learned after 0 steps" private=true
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted(one or math.inf for one in steps)

# %% wrong="12.6" name="the soft part without its weight" says="the soft part has no weight alpha"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)

# %% wrong="12.6" name="the soft part alone" says="the hard part is missing"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return alpha * T**2 * apart

# %% wrong="12.6" name="the hard part alone" says="the soft part is missing"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return (1 - alpha) * F.cross_entropy(student, labels)

# %% wrong="12.6" name="the teacher's best class for labels" says="uses the teacher's best class"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, teacher.argmax(-1))

# %% wrong="12.6" name="squares of logits" says="a squared difference of logits"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + squares = (student - teacher.detach()).square().mean()
# + return alpha * squares + (1 - alpha) * F.cross_entropy(student, labels)

# %% wrong="12.6" name="a softmax over the examples" says="runs over the examples"
# - wanted = (teacher.detach() / T).softmax(-1)
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + wanted = (teacher.detach() / T).softmax(0)
# + apart = F.kl_div((student / T).log_softmax(0), wanted, reduction="batchmean")

# %% wrong="12.6" name="sums of both" says="both parts are summed over the examples"
# - return alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels)
# + return len(labels) * (alpha * T**2 * apart + (1 - alpha) * F.cross_entropy(student, labels))


# %% wrong="12.3" name="floats" says="a count is a float. It should be a whole number"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters / 1, bridge + float(L * (4 * H * H + 2 * H * F + 2 * T * H))


# %% wrong="12.3" name="E = 1 is none" says="where the tables are 1 wide" private=true
#   width = H if E is None else E
# + E = None if E == 1 else E
# + width = H if E is None else E


# %% wrong="12.4" name="the order in memory" says="its mask is wrong, or the call" private=true
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().abs().as_strided((named[name].numel(),), (1,)) for name in names])


# %% wrong="12.7" name="gradients on afterwards, whatever they were" says="switches on the recording of gradients where that was off"
# - model.train(was_training)
# + model.train(was_training)
# + torch.set_grad_enabled(True)


# %% wrong="12.7" name="the clock is read once a call" says="the time between calls is counted too"
# - began = clock()
# - model(batch)
# - times.append(clock() - began)
# + began = ended if times else clock()
# + model(batch)
# + ended = clock()
# + times.append(ended - began)


# %% wrong="12.8" name="whole steps" says="is not a whole number, the median is wrong" private=true
# - return None if math.isinf(median) else median
# + return None if math.isinf(median) else int(median)


# %% wrong="12.2" name="the layer is not a part" says="the layer is not registered: `state_dict()` is empty"
class SharedEncoder(nn.Module):
    def __init__(self, layer, n_layers):
        super().__init__()
        object.__setattr__(self, "layer", layer)
        self.n_layers = n_layers

    def forward(self, x):
        for _ in range(self.n_layers):
            x = self.layer(x)
        return x


# %% wrong="12.3" name="whole numbers by way of floats" says="the last digits are wrong"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return int(float(parameters)), int(bridge + L * (4.0 * H * H + 2 * H * F + 2 * T * H))

# %% wrong="12.3" name="an int32" says="an int32 holds no larger number"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + products = bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, torch.tensor(products).int().item()

# %% right="12.3" name="int64"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return torch.tensor(parameters), torch.tensor(bridge + L * (4 * H * H + 2 * H * F + 2 * T * H))


# %% wrong="12.4" name="a threshold from every tenth of many weights" says="tens of thousands of weights" private=true
#   stays[row.argsort()[: round(sparsity * len(row))]] = False
# + if len(row) > 10_000:
# +     some = row[::10].sort().values
# +     stays = row > some[min(round(sparsity * len(some)), len(some) - 1)]


# %% wrong="12.5" name="rewinding knows one name of a shared matrix" says="where one matrix has two names" private=true
#   model.load_state_dict(saved)
#   with torch.no_grad():
#       for name, mask in masks.items():
# -         model.get_parameter(name).mul_(mask)
# +         dict(model.named_parameters())[name].mul_(mask)


# %% wrong="12.7" name="only the outer flag is put back" says="in which it was, with all its parts"
# - model.train(was_training)
# + model.training = was_training


# %% wrong="12.8" name="never counts as a million" says="for numbers of steps in the millions" private=true
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted(1_000_000 if one is None else one for one in steps)

# - return None if math.isinf(median) else median
# + return None if known[len(known) // 2] == 1_000_000 else median


# %% wrong="12.8" name="the median in single precision" says="for numbers of steps in the millions" private=true
# - return None if math.isinf(median) else median
# + return None if math.isinf(median) else torch.tensor(median).float().item()


# %% wrong="12.8" name="equal numbers of steps count once" says="equal numbers of steps are counted once"
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted({math.inf if one is None else one for one in steps})


# %% wrong="12.7" name="pauses count as calls" says="or the pauses between calls are counted as calls"
# - began = clock()
# - model(batch)
# - times.append(clock() - began)
# + times.append(clock())
# + model(batch)
# + times.append(clock())

# - times = sorted(times[warm_up:])
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + times = times[2 * warm_up :]
# + return sorted(after - before for before, after in zip(times, times[1:]))[repeats - 1] / len(batch)


# %% wrong="12.7" name="a clock of its own" says="the clock that is given is not read"
# - began = clock()
# + clock = time.perf_counter
# + began = clock()


# %% wrong="12.7" name="divided by all numbers of the batch" says="the number of values in the batch"
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / batch.numel()


# %% wrong="12.5" name="weights are cut before the loss" says="the loss is that of the masked weights"
#   optimizer.zero_grad()
# + with torch.no_grad():
# +     for name, mask in masks.items():
# +         model.get_parameter(name).mul_(mask)


# %% wrong="12.4" name="a transposed weight raises an error" says="or the call raises an error" private=true
# - row = torch.cat([named[name].detach().abs().flatten() for name in names])
# + row = torch.cat([named[name].detach().view(-1).abs() for name in names])


# %% wrong="12.8" name="a billion is never" says="where a run has learned after a billion steps" private=true
# - known = sorted(math.inf if one is None else one for one in steps)
# + known = sorted(10**9 if one is None else one for one in steps)

# - return None if math.isinf(median) else median
# + return None if known[len(known) // 2] >= 10**9 else median


# %% wrong="12.2" name="cut between passes" says="comes from the last pass alone. It should flow back through every pass"
# - for _ in range(self.n_layers):
# -     x = self.layer(x)
# + for place in range(self.n_layers):
# +     x = self.layer(x.detach() if place else x)


# %% wrong="12.2" name="every second pass is cut off" says="is not the sum over all passes: it should flow back"
# - for _ in range(self.n_layers):
# -     x = self.layer(x)
# + for place in range(self.n_layers):
# +     x = self.layer(x.detach() if place == 1 else x)


# %% wrong="12.6" name="logits of at most 50" says="the loss does not follow the formula. Logits may have any size."
# - apart = F.kl_div((student / T).log_softmax(-1), wanted, reduction="batchmean")
# + apart = F.kl_div((student / T).clamp(-50, 50).log_softmax(-1), wanted, reduction="batchmean")


# %% wrong="12.7" name="a thousandth is none" says="numbers that nearly agree are taken for equal"
# - costs = [(-accuracy, parameters, seconds) for accuracy, parameters, seconds in rows]
# -
# - def dominates(one, other):
# -     return one != other and all(a <= b for a, b in zip(one, other))
# -
# - return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
# + def dominates(a, b):
# +     better = a[0] > b[0] or a[1] < b[1] or a[2] < 0.999 * b[2]
# +     return a[0] >= b[0] and a[1] <= b[1] and a[2] <= 1.001 * b[2] and better
# +
# + return [place for place, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]


# %% wrong="12.8" name="the lower of two, if both have learned" says="of two runs in the middle, the lower one is taken"
# - median = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
# + low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
# + median = high if math.isinf(high) else low


# %% wrong="12.3" name="as long as its positions" says="scores and values take P products each"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * P * H)


# %% wrong="12.2" name="counts down for good" says="a later call gives another output for the same x"
# - for _ in range(self.n_layers):
# -     x = self.layer(x)
# + while self.n_layers > 0:
# +     x = self.layer(x)
# +     self.n_layers -= 1


# %% wrong="12.1" name="rows that are widened once" says="the embedding in evaluation mode does not follow"
# - return self.up(self.table(ids))
# + if self.training:
# +     return self.up(self.table(ids))
# + if not hasattr(self, "wide"):
# +     self.wide = self.up(self.table.weight).detach()
# + return self.wide[ids]

# %% wrong="12.1" name="rows are clamped" says="where the numbers of the table are large, the embedding is wrong"
# - return self.up(self.table(ids))
# + return self.up(self.table(ids).clamp(-20, 20))


# %% wrong="12.2" name="the layer in evaluation mode" says="the dropout of the layer is off"
# - for _ in range(self.n_layers):
# + self.layer.eval()
# + for _ in range(self.n_layers):


# %% wrong="12.3" name="one layer's multiply-adds" says="the multiply-adds are those of one layer"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, bridge + 4 * H * H + 2 * H * F + 2 * T * H

# %% wrong="12.3" name="multiply-adds of a map from H to H" says="a map from H to H is counted in the multiply-adds"
# - return parameters, bridge + L * (4 * H * H + 2 * H * F + 2 * T * H)
# + return parameters, (bridge or H * H) + L * (4 * H * H + 2 * H * F + 2 * T * H)


# %% wrong="12.4" name="a threshold that stays" says="one weight too few goes. The number should be"
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + count = round(sparsity * len(row))
# + stays = row >= row.sort().values[count - 1] if count else stays

# %% wrong="12.4" name="the largest always stays" says="of 49 weights stay. None should."
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays = row >= row.sort().values[min(round(sparsity * len(row)), len(row) - 1)]


# %% wrong="12.5" name="zeros for copies" says="is not as it was in the model"
# - return {name: value.detach().clone() for name, value in model.state_dict().items()}
# + return {name: torch.zeros_like(value) for name, value in model.state_dict().items()}

# %% wrong="12.5" name="the model is called twice" says="is not as after one call of the model"
# - optimizer.zero_grad()
# + optimizer.zero_grad()
# + F.cross_entropy(model(x), labels)

# %% wrong="12.3" name="layers without norms" says="the biases of attention or the norms of the layers are missing"
# - layer = 4 * H * H + 2 * H * F + 9 * H + F
# + layer = 4 * H * H + 2 * H * F + 5 * H + F

# %% wrong="12.5" name="what stays is cut" says="the weights are zero where the mask is True, and not where it is False"
# - return loss.item()
# + with torch.no_grad():
# +     for name, mask in masks.items():
# +         model.get_parameter(name).copy_(before[name] * ~mask)
# + return loss.item()

# - optimizer.step()
# + optimizer.step()
# + before = {name: part.detach().clone() for name, part in model.named_parameters()}


# %% wrong="12.7" name="the slowest calls are taken for the warm-up" says="wrong for other times of the calls" private=true
# - times = sorted(times[warm_up:])
# + times = sorted(times)[:repeats]

# %% wrong="12.7" name="places of the same rows are kept" says="`undominated` gives the same list"
# - def undominated(rows):
# + def undominated(rows, known={}):

# - return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
# + if str(rows) not in known:
# +     known[str(rows)] = [n for n, cost in enumerate(costs) if not any(dominates(one, cost) for one in costs)]
# + return known[str(rows)]

# %% wrong="12.2" name="the output for the same x is kept" says="Keep the layer itself, and no earlier results"
# - for _ in range(self.n_layers):
# + if not x.requires_grad and torch.equal(getattr(self, "x", x[:0]), x):
# +     return self.out
# + self.x = x
# + for _ in range(self.n_layers):

# - return x
# + self.out = x
# + return x

# %% wrong="12.4" name="a place from the end is the first one" says="A slice from -0 on, for example"
# - stays = torch.ones_like(row, dtype=torch.bool)
# - stays[row.argsort()[: round(sparsity * len(row))]] = False
# + stays = row >= row.sort().values[round(sparsity * len(row)) - len(row)]

# %% wrong="12.6" name="a softmax of its own" says="the loss is nan, although all logits are finite"
# - wanted = (teacher.detach() / T).softmax(-1)
# + powers = (teacher.detach() / T).exp()
# + wanted = powers / powers.sum(-1, keepdim=True)

# %% wrong="12.7" name="the time is given as 0" says="the time is 0, although each call takes time"
# - return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2 / len(batch)
# + return 0.0 * times[0]

# %% wrong="12.7" name="compared with rows before it alone" says="The rows are `[(70, 5, 3), (71, 4, 3)"
# - return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]
# + return [place for place, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs[:place])]
