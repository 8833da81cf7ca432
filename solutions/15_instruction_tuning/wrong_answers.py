# %% [markdown]
# # Answers to notebook 15 whose verdict is known

# %% [markdown]
# ## 15.1

# %% wrong="15.1" name="no factor" says="the change is not multiplied by alpha / rank"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.1" name="alpha alone" says="multiplied by alpha, not by alpha / rank"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha, False


# %% wrong="15.1" name="rank over alpha" says="It should be alpha / rank"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear.requires_grad_(False), rank / alpha, False


# %% wrong="15.1" name="the root of the rank" says="alpha / sqrt(rank)"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / math.sqrt(rank), False


# %% wrong="15.1" name="a factor in whole numbers" says="`alpha / rank` is rounded down"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha // rank, False


# %% wrong="15.1" name="all of it scaled" says="It should multiply the change alone"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.scale * (self.linear(x) + F.linear(F.linear(x, self.A), self.B))


# %% wrong="15.1" name="the change alone" says="the result is the change alone"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.scale * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.1" name="no bias" says="the bias is missing"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return F.linear(x, self.linear.weight) + self.scale * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.1" name="the bias in both" says="the bias is added twice"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.linear.bias + self.scale * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.1" name="an activation between" says="something acts between A and B"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.scale * F.linear(F.relu(F.linear(x, self.A)), self.B)


# %% wrong="15.1" name="the layer learns" says="the weight or the bias of `linear` learns"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear, alpha / rank, False


# %% wrong="15.1" name="only the weight is frozen" says="the weight or the bias of `linear` learns"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear, alpha / rank, False
# + linear.weight.requires_grad_(False)


# %% wrong="15.1" name="both zeros" says="then neither ever gets a gradient"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.zeros_(self.A)


# %% wrong="15.1" name="the wrong one is zeros" says="It should be the other way round"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.zeros_(self.A)
# + nn.init.uniform_(self.B, -bound, bound)


# %% wrong="15.1" name="both random" says="`B` should be zeros"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.B, -bound, bound)


# %% wrong="15.1" name="normal numbers" says="some are larger"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.normal_(self.A, std=bound)


# %% wrong="15.1" name="small numbers" says="the largest are too small"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A, -0.01, 0.01)


# %% wrong="15.1" name="numbers for 400 columns" says="in a layer of another size" private=true
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A, -0.05, 0.05)


# %% wrong="15.1" name="positive numbers" says="the mean of their squares is"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A, 0, bound)


# %% wrong="15.1" name="a seed of its own" says="set no seed"
# - nn.init.uniform_(self.A, -bound, bound)
# + torch.manual_seed(0)
# + nn.init.uniform_(self.A, -bound, bound)


# %% wrong="15.1" name="a copy" says="`linear` has a weight of its own"
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if rank < 1:
            raise ValueError("no rank")
        self.linear = nn.Linear(linear.in_features, linear.out_features, linear.bias is not None)
        self.linear.load_state_dict(linear.state_dict())
        self.linear.to(linear.weight).requires_grad_(False)
        self.scale, self.merged, bound = alpha / rank, False, 1 / math.sqrt(linear.in_features)
        self.A = nn.Parameter(linear.weight.new_empty(rank, linear.in_features).uniform_(-bound, bound))
        self.B = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) if self.merged else self.linear(x) + self.scale * x @ self.A.T @ self.B.T


# %% wrong="15.1" name="transposed" says="`A` is (6, 3). It should be (rank, in)"
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if rank < 1:
            raise ValueError("no rank")
        self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
        bound = 1 / math.sqrt(linear.in_features)
        self.A = nn.Parameter(linear.weight.new_empty(linear.in_features, rank).uniform_(-bound, bound))
        self.B = nn.Parameter(linear.weight.new_zeros(rank, linear.out_features))

    def forward(self, x):
        return self.linear(x) if self.merged else self.linear(x) + self.scale * x @ self.A @ self.B


# %% wrong="15.1" name="merged is ignored" says="while `merged` is True"
# - if self.merged:
# -     return self.linear(x)


# %% wrong="15.1" name="always float32" says="`A` and `B` should be bfloat16"
# - self.A = nn.Parameter(torch.empty(rank, linear.in_features, dtype=weight.dtype, device=weight.device))
# - self.B = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=weight.dtype, device=weight.device))
# + self.A = nn.Parameter(torch.empty(rank, linear.in_features, device=weight.device))
# + self.B = nn.Parameter(torch.zeros(linear.out_features, rank, device=weight.device))


# %% wrong="15.1" name="on the CPU" says="on the device of the weight"
# - self.A = nn.Parameter(torch.empty(rank, linear.in_features, dtype=weight.dtype, device=weight.device))
# - self.B = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=weight.dtype, device=weight.device))
# + self.A = nn.Parameter(torch.empty(rank, linear.in_features, dtype=weight.dtype))
# + self.B = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=weight.dtype))


# %% wrong="15.1" name="any rank" says="a rank of 0 must raise ValueError"
# - if rank < 1:
# -     raise ValueError(f"a rank of {rank}")
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / max(rank, 1), False


# %% wrong="15.1" name="nothing learns" says="no gradient reaches `B`"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B).detach()


# %% wrong="15.1" name="more in evaluation" says="in evaluation mode"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B) * (1.0 if self.training else 1.01)


# %% wrong="15.1" name="another module with the same weights" says="`linear` is another module"
# - self.linear, self.scale, self.merged = linear.requires_grad_(False), alpha / rank, False
# + self.scale, self.merged = alpha / rank, False
# + self.linear = nn.Linear(linear.in_features, linear.out_features, linear.bias is not None)
# + self.linear.weight, self.linear.bias = linear.weight, linear.bias
# + self.linear.requires_grad_(False)


# %% wrong="15.1" name="no slope once merged" says="the gradient of x is not that of linear(x)"
# - if self.merged:
# -     return self.linear(x)
# + if self.merged:
# +     return self.linear(x).detach()


# %% wrong="15.1" name="the frozen layer is called without gradients" says="gradients flow through it to x, merged or not"
# - if self.merged:
# -     return self.linear(x)
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + with torch.no_grad():
# +     y = self.linear(x)
# + return y if self.merged else y + self.scale * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.1" name="one row many times" says="many entries of `A` are equal"
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A[:1].detach(), -bound, bound)
# + self.A.data = self.A[:1].detach().repeat(rank, 1)


# %% right="15.1" name="one matrix at a time"
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if rank <= 0:
            raise ValueError("the rank should be 1 or larger")
        for part in linear.parameters():
            part.requires_grad = False
        self.linear, self.alpha, self.rank, self.merged = linear, alpha, rank, False
        m, n = linear.weight.shape
        self.A = nn.Parameter(torch.empty(rank, n).to(linear.weight))
        self.B = nn.Parameter(torch.zeros(m, rank).to(linear.weight))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    @property
    def scale(self):
        return self.alpha / self.rank

    def forward(self, x):
        y = self.linear(x)
        if not self.merged:
            y = y + (x @ self.A.mT) @ self.B.mT * self.scale
        return y


# %% right="15.1" name="the sum of the matrices"
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        if rank < 1:
            raise ValueError(rank)
        super().__init__()
        self.linear = linear
        self.linear.requires_grad_(False)
        self.scale = alpha / rank
        self.merged = False
        bound = linear.in_features**-0.5
        self.A = nn.Parameter((2 * torch.rand_like(linear.weight[:1].expand(rank, -1)) - 1) * bound)
        self.B = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))

    def forward(self, x):
        if self.merged:
            return self.linear(x)
        return F.linear(x, self.linear.weight + self.scale * self.B @ self.A, self.linear.bias)


# %% [markdown]
# ## 15.2

# %% wrong="15.2" name="no scale" says="without its scale"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.add_(layer.B @ layer.A)


# %% wrong="15.2" name="gradients are recorded afterwards" says="switches on the recording of gradients"
#   if not layer.merged:
# -     with torch.no_grad():
# -         layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# +     torch.set_grad_enabled(False)
# +     layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# +     torch.set_grad_enabled(True)


# %% wrong="15.2" name="replaces" says="the weight is replaced by the change"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.copy_(layer.scale * (layer.B @ layer.A))


# %% wrong="15.2" name="subtracts" says="the change is subtracted by `merge`"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))


# %% wrong="15.2" name="merges twice" says="a second merge adds the change again"
# - if not layer.merged:
# -     with torch.no_grad():
# -         layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# -     layer.merged = True
# + with torch.no_grad():
# +     layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.merged = True


# %% wrong="15.2" name="unmerges what is not merged" says="subtracts from a layer that is not merged"
# - if layer.merged:
# -     with torch.no_grad():
# -         layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# -     layer.merged = False
# + with torch.no_grad():
# +     layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# + layer.merged = False


# %% wrong="15.2" name="forgets to say so" says="`merged` is False. It should be True"
# - layer.merged = True


# %% wrong="15.2" name="another parameter" says="the parameters are not those from before"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight = nn.Parameter(layer.linear.weight + layer.scale * (layer.B @ layer.A), False)


# %% wrong="15.2" name="it learns" says="other parameters learn"
# - layer.merged = True
# + layer.merged = True
# + layer.linear.weight.requires_grad_(True)


# %% wrong="15.2" name="empties B" says="changes `B`"
# - layer.merged = True
# + layer.merged = True
# + nn.init.zeros_(layer.B)


# %% wrong="15.2" name="unmerge adds" says="adds the change once more"
# - layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))


# %% wrong="15.2" name="returns nothing" says="should return the layer"
#       layer.merged = True
# - return layer

#       layer.merged = False
# - return layer


# %% wrong="15.2" name="wide for ever" says="has other memory"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.data = layer.linear.weight.float() + layer.scale * (layer.B @ layer.A).float()


# %% wrong="15.2" name="rough in float64" says="the weight should be W + scale * B A"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.add_(layer.scale * (layer.B.float() @ layer.A.float()))


# %% wrong="15.2" name="small layers only" says="layers of many inputs" private=true
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight[:, :500].add_((layer.scale * (layer.B @ layer.A))[:, :500])


# %% wrong="15.2" name="into evaluation mode" says="changes the mode of the layer"
# - layer.merged = True
# + layer.merged = True
# + layer.eval()


# %% wrong="15.2" name="clears gradients" says="changes or clears gradients"
# - layer.merged = True
# + layer.merged = True
# + layer.zero_grad(set_to_none=True)


# %% wrong="15.2" name="remembers elsewhere" says="does not follow it"
known = set()


def merge(layer):
    if id(layer) not in known:
        known.add(id(layer))
        with torch.no_grad():
            layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
        layer.merged = True
    return layer


def unmerge(layer):
    if id(layer) in known:
        known.remove(id(layer))
        with torch.no_grad():
            layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
        layer.merged = False
    return layer


# %% wrong="15.2" name="puts a copy back" says="`unmerge` does not just subtract the change"
#   if not layer.merged:
# +     layer.before = layer.linear.weight.detach().clone()

# - layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.copy_(layer.before)


# %% wrong="15.2" name="the first change for ever" says="does not add the new change"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.change = getattr(layer, "change", layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.add_(layer.change)

# - layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.sub_(layer.change)


# %% right="15.2" name="by data and einsum"
def merge(layer):
    return layer if layer.merged else shift(layer, 1, True)


def unmerge(layer):
    return shift(layer, -1, False) if layer.merged else layer


def shift(layer, sign, merged):
    change = torch.einsum("mr,rn->mn", layer.B.detach(), layer.A.detach())
    layer.linear.weight.data += sign * layer.scale * change
    layer.merged = merged
    return layer


# %% right="15.2" name="rounded once"
def merge(layer):
    if layer.merged:
        return layer
    with torch.no_grad():
        wide = layer.linear.weight.double() + layer.scale * layer.B.double() @ layer.A.double()
        layer.linear.weight.copy_(wide)
    layer.merged = True
    return layer


def unmerge(layer):
    if not layer.merged:
        return layer
    with torch.no_grad():
        wide = layer.linear.weight.double() - layer.scale * layer.B.double() @ layer.A.double()
        layer.linear.weight.copy_(wide)
    layer.merged = False
    return layer


# %% [markdown]
# ## 15.3

# %% wrong="15.3" name="freezes last" says="freeze the model first"
# - model.requires_grad_(False)
# - for name in places:
# -     parent = model.get_submodule(name.rpartition(".")[0])
# -     setattr(parent, last(name), wrap(model.get_submodule(name)))
# + for name in places:
# +     parent = model.get_submodule(name.rpartition(".")[0])
# +     setattr(parent, last(name), wrap(model.get_submodule(name)))
# + model.requires_grad_(False)


# %% wrong="15.3" name="freezes nothing" says="Only parameters that learn in what `wrap` makes should learn"
# - model.requires_grad_(False)


# %% wrong="15.3" name="freezes only the layers" says="Only parameters that learn in what `wrap` makes should learn"
# - model.requires_grad_(False)
# + for name in places:
# +     model.get_submodule(name).requires_grad_(False)


# %% wrong="15.3" name="makes all of it learn" says="Only parameters that learn in what `wrap` makes should learn"
# - setattr(parent, last(name), wrap(model.get_submodule(name)))
# + setattr(parent, last(name), wrap(model.get_submodule(name)).requires_grad_(True))


# %% wrong="15.3" name="parts of names" says="Its last name is not in the list"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# - if missing := {*names} - {last(name) for name in places}:
# + known = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
# + places = [name for name in known if any(one in last(name) for one in names)]
# + if missing := {*names} - {last(name) for name in known}:


# %% wrong="15.3" name="anything of that name" says="which is a ModuleDict, not an nn.Linear"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name, part in model.named_modules() if last(name) in names]


# %% wrong="15.3" name="one layer deep" says="is not replaced"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name, part in model.named_children() if isinstance(part, nn.Linear) and last(name) in names]

# - if missing := {*names} - {last(name) for name in places}:
# + if missing := {*names} - {last(name) for name, _ in model.named_modules()}:


# %% wrong="15.3" name="walks while it changes" says="` is replaced, which is inside what `wrap` made"
def add_lora(model, names, wrap):
    found = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    if not {*names} <= found:
        raise ValueError(names)
    model.requires_grad_(False)
    places = []

    def walk(part, where):
        for name, child in list(part.named_children()):
            full = f"{where}.{name}" if where else name
            if isinstance(child, nn.Linear) and name in names and full.count(".") < 5:
                setattr(part, name, wrap(child))
                places.append(full)
            walk(getattr(part, name), full)

    walk(model, "")
    return places


def lora_count(c, names, rank):
    d, few = c.d_model, c.d_model // c.n_heads * c.n_kv_heads
    return c.n_layers * rank * sum({"q_proj": 2 * d, "k_proj": d + few}[name] for name in names)


# %% wrong="15.3" name="last names come back" says="the list has last names"
# - return places
# + return [last(name) for name in places]


# %% wrong="15.3" name="sorted" says="not in the order of `named_modules()`"
# - return places
# + return sorted(places)


# %% wrong="15.3" name="no error" says="must raise ValueError"
# - if missing := {*names} - {last(name) for name in places}:
# -     raise ValueError(f"no linear layer is called {sorted(missing)}")


# %% wrong="15.3" name="an error only for nothing at all" says="must raise ValueError"
# - if missing := {*names} - {last(name) for name in places}:
# -     raise ValueError(f"no linear layer is called {sorted(missing)}")
# + if names and not places:
# +     raise ValueError(f"no linear layer is called {names}")


# %% wrong="15.3" name="refuses too late" says="a call that is refused has changed the model"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + model.requires_grad_(False)
# + places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]

# - model.requires_grad_(False)
# - for name in places:
# + for name in places:


# %% wrong="15.3" name="wraps a copy" says="with the layer itself"
# - setattr(parent, last(name), wrap(model.get_submodule(name)))
# + old = model.get_submodule(name)
# + new = nn.Linear(old.in_features, old.out_features, old.bias is not None)
# + new.load_state_dict(old.state_dict())
# + setattr(parent, last(name), wrap(new.requires_grad_(False)))


# %% wrong="15.3" name="one of two matrices" says="one of the two matrices"
# - sums = {"q_proj": 2 * d, "k_proj": d + few, "v_proj": d + few, "out_proj": 2 * d}
# - sums |= dict.fromkeys(("gate", "up", "down"), d + c.d_ff)
# + sums = dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj", "gate", "up", "down"), d)


# %% wrong="15.3" name="keys as wide as queries" says="as if it had as many columns as rows"
# - sums = {"q_proj": 2 * d, "k_proj": d + few, "v_proj": d + few, "out_proj": 2 * d}
# + sums = {"q_proj": 2 * d, "k_proj": 2 * d, "v_proj": 2 * d, "out_proj": 2 * d}


# %% wrong="15.3" name="one head of keys" says="It maps to n_kv_heads heads"
# - d, few = c.d_model, c.d_model // c.n_heads * c.n_kv_heads
# + d, few = c.d_model, c.d_model // c.n_heads


# %% wrong="15.3" name="one block" says="each of the blocks has its own"
# - return c.n_layers * rank * sum(sums[name] for name in {*names})
# + return rank * sum(sums[name] for name in {*names})


# %% wrong="15.3" name="whole matrices" says="the whole matrix is counted"
# - sums = {"q_proj": 2 * d, "k_proj": d + few, "v_proj": d + few, "out_proj": 2 * d}
# - sums |= dict.fromkeys(("gate", "up", "down"), d + c.d_ff)
# + sums = {"q_proj": d * d, "k_proj": d * few, "v_proj": d * few, "out_proj": d * d}
# + sums |= dict.fromkeys(("gate", "up", "down"), d * c.d_ff)

# - return c.n_layers * rank * sum(sums[name] for name in {*names})
# + return c.n_layers * sum(sums[name] for name in {*names})


# %% wrong="15.3" name="twice the same name" says="counts twice"
# - return c.n_layers * rank * sum(sums[name] for name in {*names})
# + return c.n_layers * rank * sum(sums[name] for name in names)


# %% wrong="15.3" name="unknown names are nothing" says="must raise ValueError"
# - if unknown := {*names} - {*sums}:
# -     raise ValueError(f"no layers are called {sorted(unknown)}")
# - return c.n_layers * rank * sum(sums[name] for name in {*names})
# + return c.n_layers * rank * sum(sums.get(name, 0) for name in {*names})


# %% wrong="15.3" name="ends of names" says="`blocks.0.attention.block_proj` is replaced. Its last name is not in the list"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + every = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
# + places = [name for name in every if name.endswith(tuple(names))]


# %% wrong="15.3" name="derived classes left out" says="Its class is derived from nn.Linear"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name, part in model.named_modules() if type(part) is nn.Linear and last(name) in names]


# %% wrong="15.3" name="into evaluation mode" says="the modes of the model's parts have changed"
# - model.requires_grad_(False)
# + model.eval().requires_grad_(False)


# %% wrong="15.3" name="clears gradients" says="existing gradients are changed or cleared"
# - model.requires_grad_(False)
# + model.requires_grad_(False)
# + model.zero_grad()


# %% wrong="15.3" name="wraps before it refuses" says="a call that is refused has changed the model"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + made = {name: wrap(model.get_submodule(name)) for name in places}

# - setattr(parent, last(name), wrap(model.get_submodule(name)))
# + setattr(parent, last(name), made[name])


# %% wrong="15.3" name="at most three dots" says="`blocks.0.expert.branch.inner.up` is not replaced"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# + places = [name for name in places if name.count('.') < 4]


# %% right="15.3" name="children, one by one"
def add_lora(model, names, wrap):
    linears = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    wanted = [(name, part) for name, part in linears if name.split(".")[-1] in names]
    for name in names:
        if not any(full.split(".")[-1] == name for full, _ in wanted):
            raise ValueError(f"there is no {name}")
    for weight in model.parameters():
        weight.requires_grad = False
    for full, part in wanted:
        parent = model
        *path, name = full.split(".")
        for step in path:
            parent = getattr(parent, step)
        parent.add_module(name, wrap(part))
    return [full for full, _ in wanted]


def lora_count(c, names, rank):
    d_head, total = c.d_model // c.n_heads, 0
    for name in set(names):
        if name in ("q_proj", "out_proj"):
            ends = (c.d_model, c.d_model)
        elif name in ("k_proj", "v_proj"):
            ends = (c.d_model, c.n_kv_heads * d_head)
        elif name in ("gate", "up", "down"):
            ends = (c.d_model, c.d_ff)
        else:
            raise ValueError(name)
        total += rank * ends[0] + rank * ends[1]
    return total * c.n_layers


# %% right="15.3" name="set_submodule"
def add_lora(model, names, wrap):
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    found = {name: part for name, part in found.items() if name[name.rfind(".") + 1 :] in names}
    if {name[name.rfind(".") + 1 :] for name in found} != set(names):
        raise ValueError("a name is that of no linear layer")
    model.requires_grad_(False)
    for name, part in found.items():
        model.set_submodule(name, wrap(part))
    return list(found)


def lora_count(c, names, rank):
    d, few, f = c.d_model, c.n_kv_heads * (c.d_model // c.n_heads), c.d_ff
    known = dict(q_proj=(d, d), k_proj=(d, few), v_proj=(d, few), out_proj=(d, d), gate=(d, f), up=(d, f), down=(f, d))
    try:
        return sum(rank * sum(known[name]) * c.n_layers for name in dict.fromkeys(names))
    except KeyError as unknown:
        raise ValueError(f"no layer is called {unknown}") from None


# %% [markdown]
# ## 15.4

# %% wrong="15.4" name="everything has a label" says="all tokens have a label"
# - labels += some if answer else [-100] * len(some)
# + labels += some


# %% wrong="15.4" name="the end is not learned" says="the tokens should be those of the three pieces"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", text, "<|im_end|>", "\n"):

# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and piece == text


# %% wrong="15.4" name="the end has no label" says="never learns `<|im_end|>` never stops"
# - labels += some if answer else [-100] * len(some)
# + labels += [*some[:-1], -100] if answer else [-100] * len(some)


# %% wrong="15.4" name="the end with the break" says="encoded with the line break"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", text, "<|im_end|>\n"):


# %% wrong="15.4" name="no break at the end" says="the line break after `<|im_end|>` is missing"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>"):


# %% wrong="15.4" name="no break after the role" says="the line break after the role is missing"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}", f"{text}<|im_end|>", "\n"):


# %% wrong="15.4" name="a message in one piece" says="each message is encoded as one piece"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n{text}<|im_end|>\n",):


# %% wrong="15.4" name="the role has a label" says="the start of an answer, with its role, has labels"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and piece != "\n"


# %% wrong="15.4" name="the break has a label" says="the line break after an answer has a label"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and not piece.startswith("<|im_start|>")


# %% wrong="15.4" name="questions have labels" says="every message has labels"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = piece.endswith("<|im_end|>")


# %% wrong="15.4" name="labels are shifted" says="the labels are shifted"
# - return tokens, labels
# + return tokens, labels[1:] + [-100]


# %% wrong="15.4" name="ones and zeros" says="labels are 1 for answers and 0 elsewhere"
# - labels += some if answer else [-100] * len(some)
# + labels += [int(answer)] * len(some)


# %% wrong="15.4" name="the last answer alone" says="only the last answer has labels"
# - for role, text in messages:
# + for place, (role, text) in enumerate(messages):

# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + later = any(role == "assistant" for role, _ in messages[place + 1 :])
# + answer = role == "assistant" and piece.endswith("<|im_end|>") and not later


# %% wrong="15.4" name="any role" says="the role 'tool' must raise ValueError"
# - if role not in ("system", "user", "assistant"):
# -     raise ValueError(f"nobody is {role!r}")


# %% wrong="15.4" name="a prompt at the end" says="the start of another answer"
# - return tokens, labels
# + some = encode("<|im_start|>assistant\n")
# + return tokens + some, labels + [-100] * len(some)


# %% wrong="15.4" name="not shifted" says="the labels are not shifted"
# - wanted = labels[:, 1:]
# + wanted = labels

# - logits = logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32))
# + logits = logits.to(torch.promote_types(logits.dtype, torch.float32))


# %% wrong="15.4" name="shifted the wrong way" says="the shift goes the wrong way"
# - wanted = labels[:, 1:]
# + wanted = labels[:, :-1]

# - logits = logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32))
# + logits = logits[:, 1:].to(torch.promote_types(logits.dtype, torch.float32))


# %% wrong="15.4" name="the sum" says="the losses are summed"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="sum")


# %% wrong="15.4" name="over all tokens" says="divided by all tokens"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").mean()


# %% wrong="15.4" name="means of rows" says="mean of the rows' means"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + rows = [F.cross_entropy(one, label) for one, label in zip(logits, wanted) if (label != -100).any()]
# + return torch.stack(rows).mean()


# %% wrong="15.4" name="ignores 0" says="labels of 0 are ignored"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + wanted = wanted.where(wanted != -100, 0)
# + return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


# %% wrong="15.4" name="rows run together" says="the rows run into each other"
# - logits = logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32))
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
# + return F.cross_entropy(logits.flatten(0, 1)[:-1], labels.flatten()[1:], ignore_index=-100)


# %% wrong="15.4" name="NaN for nothing" says="a mean of nothing does not exist"
# - if not (wanted != -100).any():
# -     raise ValueError("no token has a label")


# %% wrong="15.4" name="looks at all labels" says="a row's first label is the only one"
# - if not (wanted != -100).any():
# + if not (labels != -100).any():


# %% wrong="15.4" name="in sixteen bits" says="the loss is bfloat16"
# - logits = logits[:, :-1].to(torch.promote_types(logits.dtype, torch.float32))
# + logits = logits[:, :-1]


# %% wrong="15.4" name="a plain number" says="should be a tensor with one number"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100).item()


# %% wrong="15.4" name="probabilities given" says="the loss should be the mean over all labels but -100, each"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.cross_entropy(logits.softmax(-1).flatten(0, 1), wanted.flatten(), ignore_index=-100)


# %% wrong="15.4" name="views" says="view size is not compatible"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.cross_entropy(logits.view(-1, logits.size(-1)), wanted.flatten(), ignore_index=-100)


# %% wrong="15.4" name="empties the list" says="a list that `encode` gave is changed"
# - some = encode(piece)
# + given = encode(piece)
# + some = [given.pop(0) for _ in range(len(given))]


# %% wrong="15.4" name="remembers pieces" says="remember nothing from earlier calls"
known = {}


def tokens_and_labels(messages, encode):
    tokens, labels = [], []
    for role, text in messages:
        if role not in ("system", "user", "assistant"):
            raise ValueError(role)
        for place, piece in enumerate((f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n")):
            some = encode(piece)
            some = some if place == 1 else known.setdefault(piece, some)
            tokens += some
            labels += some if role == "assistant" and place == 1 else [-100] * len(some)
    return tokens, labels


# %% wrong="15.4" name="starts first" says="for the three pieces of a message, then for those of the next"
def tokens_and_labels(messages, encode):
    if any(role not in ("system", "user", "assistant") for role, _ in messages):
        raise ValueError("who is this?")
    starts = [encode(f"<|im_start|>{role}\n") for role, _ in messages]
    tokens, labels = [], []
    for (role, text), start in zip(messages, starts):
        middle, end = encode(text + "<|im_end|>"), encode("\n")
        tokens += start + middle + end
        middle = middle if role == "assistant" else [-100] * len(middle)
        labels += [-100] * len(start) + middle + [-100] * len(end)
    return tokens, labels


# %% right="15.4" name="piece by piece"
def tokens_and_labels(messages, encode):
    tokens, labels = [], []
    for role, text in messages:
        if role not in {"system", "user", "assistant"}:
            raise ValueError(role)
        head, body, tail = encode("<|im_start|>" + role + "\n"), encode(text + "<|im_end|>"), encode("\n")
        tokens = tokens + head + body + tail
        middle = body if role == "assistant" else [-100 for _ in body]
        labels = labels + [-100 for _ in head] + middle + [-100 for _ in tail]
    return tokens, labels


def answer_loss(logits, labels):
    kept = labels[:, 1:] != -100
    if kept.sum() == 0:
        raise ValueError("nothing to learn from")
    chosen = logits[:, :-1][kept]
    if chosen.dtype in (torch.bfloat16, torch.float16):
        chosen = chosen.float()
    return -chosen.log_softmax(-1).gather(1, labels[:, 1:][kept][:, None]).mean()


# %% right="15.4" name="torch's own rule"
def tokens_and_labels(messages, encode):
    pieces = []
    for role, text in messages:
        if role not in ("user", "assistant", "system"):
            raise ValueError(f"unknown role {role}")
        pieces += [(f"<|im_start|>{role}\n", False), (f"{text}<|im_end|>", role == "assistant"), ("\n", False)]
    numbered = [(token, learned) for piece, learned in pieces for token in encode(piece)]
    return [token for token, _ in numbered], [token if learned else -100 for token, learned in numbered]


def answer_loss(logits, labels):
    labels = labels[:, 1:].reshape(-1)
    if bool(labels.eq(-100).all()):
        raise ValueError("no labels")
    flat = logits[:, :-1].reshape(-1, logits.size(-1)).double()
    return nn.CrossEntropyLoss()(flat, labels)


# %% [markdown]
# ## 15.5

# %% wrong="15.5" name="first labels kept" says="a dialogue's first label is kept"
# - labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.tensor([[label for _, some in examples for label in some]])


# %% wrong="15.5" name="only the row's first" says="only the first label of the row"
# - labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.tensor([[label for _, some in examples for label in some]])
# + labels[0, 0] = -100


# %% wrong="15.5" name="last labels dropped" says="a dialogue's last label is -100"
# - labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.tensor([[label for _, some in examples for label in [*some[:-1], -100]]])


# %% wrong="15.5" name="positions run on" says="the positions run through the row"
# - positions = torch.cat([torch.arange(length) for length in lengths])[None]
# + positions = torch.arange(sum(lengths))[None]


# %% wrong="15.5" name="positions from 1" says="the positions begin at 1"
# - positions = torch.cat([torch.arange(length) for length in lengths])[None]
# + positions = torch.cat([torch.arange(length) + 1 for length in lengths])[None]


# %% wrong="15.5" name="the dialogue's number" says="the positions are the numbers of the dialogues"
# - positions = torch.cat([torch.arange(length) for length in lengths])[None]
# + positions = owner[None]


# %% wrong="15.5" name="causal alone" says="tokens see earlier dialogues"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] >= owner).tril()[None]


# %% wrong="15.5" name="blocks alone" says="tokens see what comes after them"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner)[None]


# %% wrong="15.5" name="the wrong triangle" says="the mask is transposed"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner).triu()[None]


# %% wrong="15.5" name="hidden for seen" says="the wrong way round"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, ~(owner[:, None] == owner).tril()[None]


# %% wrong="15.5" name="not itself" says="a token does not see itself"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner).tril(-1)[None]


# %% wrong="15.5" name="ones and zeros" says="`seen` is int64, not bool"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner).tril()[None].long()


# %% wrong="15.5" name="no batch" says="`seen` has shape (10, 10), not (1, 10, 10)"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner).tril()


# %% wrong="15.5" name="writes into the lists" says="your code changes"
# - tokens = torch.tensor([[token for some, _ in examples for token in some]])
# + for _, some in examples:
# +     some[0] = -100
# + tokens = torch.tensor([[token for some, _ in examples for token in some]])


# %% wrong="15.5" name="floats" says="the tokens are float32, not int64"
# - tokens = torch.tensor([[token for some, _ in examples for token in some]])
# + tokens = torch.tensor([[float(token) for some, _ in examples for token in some]])


# %% wrong="15.5" name="at most a hundred tokens" says="larger than any in the notebook" private=true
# - positions = torch.cat([torch.arange(length) for length in lengths])[None]
# + positions = torch.cat([torch.arange(length).clamp(max=99) for length in lengths])[None]


# %% wrong="15.5" name="known by their length" says="for dialogues of equal length, some tokens see tokens of another dialogue"
# - owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
# + owner = torch.tensor(lengths).repeat_interleave(torch.tensor(lengths))


# %% wrong="15.5" name="numbers in a byte" says="for 300 dialogues of one token each, some tokens see tokens of another dialogue"
# - owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
# + owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
# + owner = owner.to(torch.uint8)


# %% right="15.5" name="blocks on the diagonal"
def pack(examples):
    tokens, labels, positions, blocks = [], [], [], []
    for some, marks in examples:
        tokens += some
        labels += [-100] + marks[1:]
        positions += range(len(some))
        blocks.append(torch.ones(len(some), len(some)).tril())
    seen = torch.block_diag(*blocks).bool()[None]
    return torch.tensor(tokens)[None], torch.tensor(labels)[None], torch.tensor(positions)[None], seen


# %% right="15.5" name="token by token"
def pack(examples):
    where = [(which, place) for which, (some, _) in enumerate(examples) for place in range(len(some))]
    tokens = [examples[which][0][place] for which, place in where]
    labels = [examples[which][1][place] if place else -100 for which, place in where]
    seen = [[one == other and j <= i for other, j in where] for one, i in where]
    return torch.tensor([tokens]), torch.tensor([labels]), torch.tensor([[j for _, j in where]]), torch.tensor([seen])


# %% [markdown]
# ## 15.6


# %% wrong="15.6" name="means of means" says="the mean of the batches' means"
def train_step(model, optimizer, batches, clip):
    if not any((labels[:, 1:] != -100).any() for _, labels in batches):
        raise ValueError("no labels")
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for tokens, labels in batches:
        logits, wanted = model(tokens)[0][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        count = max(1, (wanted != -100).sum().item())
        loss = F.cross_entropy(logits, wanted, reduction="sum") / count / len(batches)
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_([part for group in optimizer.param_groups for part in group["params"]], clip)
    optimizer.step()
    return total


# %% wrong="15.6" name="means added up" says="the batches' means are added up"
# - loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
# + own = max(1, (labels[:, 1:] != -100).sum().item())
# + loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / own


# %% wrong="15.6" name="summed" says="the losses are summed"
# - loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
# + loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")


# %% wrong="15.6" name="counts first labels" says="the first labels of rows are counted"
# - loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
# + count = sum((some != -100).sum().item() for _, some in batches)
# + loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count


# %% wrong="15.6" name="counts all tokens" says="divided by all tokens"
# - loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
# + count = sum(some[:, 1:].numel() for _, some in batches)
# + loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count


# %% wrong="15.6" name="old gradients" says="gradients that were there before count"
# - optimizer.zero_grad()


# %% wrong="15.6" name="zeroes within" says="only the last batch moves the weights"
# - loss.backward()
# + optimizer.zero_grad()
# + loss.backward()


# %% wrong="15.6" name="not clipped" says="the gradients are not clipped"
# - nn.utils.clip_grad_norm_(parameters, clip)


# %% wrong="15.6" name="clipped one by one" says="each batch's gradients are clipped alone"
def train_step(model, optimizer, batches, clip):
    count = sum((labels[:, 1:] != -100).sum().item() for _, labels in batches)
    if not count:
        raise ValueError("no labels")
    model.train()
    parameters = [part for group in optimizer.param_groups for part in group["params"]]
    sums, total = [torch.zeros_like(part) for part in parameters], 0.0
    for tokens, labels in batches:
        optimizer.zero_grad()
        logits = model(tokens)[0][:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, clip)
        sums = [one if part.grad is None else one + part.grad for one, part in zip(sums, parameters)]
        total += loss.item()
    for part, one in zip(parameters, sums):
        part.grad = one
    optimizer.step()
    return total


# %% wrong="15.6" name="clips numbers" says="each number of a gradient is clipped"
# - nn.utils.clip_grad_norm_(parameters, clip)
# + nn.utils.clip_grad_value_(parameters, clip)


# %% wrong="15.6" name="clips the whole model" says="where the optimizer has only some of the model's parameters"
# - nn.utils.clip_grad_norm_(parameters, clip)
# + nn.utils.clip_grad_norm_(model.parameters(), clip)


# %% wrong="15.6" name="a step for each batch" says="It should make one"
# - loss.backward()
# + loss.backward()
# + optimizer.step()


# %% wrong="15.6" name="no step" says="makes 0 steps"
# - optimizer.step()


# %% wrong="15.6" name="in evaluation mode" says="is not in training mode"
# - model.train()
# + model.eval()


# %% wrong="15.6" name="a tensor" says="should return a float"
# - return total
# + return torch.tensor(total)


# %% wrong="15.6" name="the last loss" says="only the last batch counts"
# - total += loss.item()
# + own = (labels[:, 1:] != -100).sum().item()
# + total = loss.item() * count / max(own, 1)


# %% wrong="15.6" name="counts with the model" says="called once for each batch"
# - logits = model(tokens)[0][:, :-1]
# + _ = model(tokens)
# + logits = model(tokens)[0][:, :-1]


# %% wrong="15.6" name="NaN for nothing" says="must raise ValueError"
# - if not count:
# -     raise ValueError("no token has a label")
# - model.train()
# + count = max(count, 1)
# + model.train()


# %% wrong="15.6" name="refuses late" says="a call that is refused has changed"
# - if not count:
# -     raise ValueError("no token has a label")
# - model.train()
# - optimizer.zero_grad()
# + model.train()
# + optimizer.zero_grad()
# + if not count:
# +     raise ValueError("no token has a label")


# %% wrong="15.6" name="three batches at most" says="with more than three batches" private=true
# - for tokens, labels in batches:
# + for tokens, labels in batches[:3]:


# %% wrong="15.6" name="zeroes the model alone" says="a parameter that is not in the model"
# - optimizer.zero_grad()
# + model.zero_grad()


# %% wrong="15.6" name="the first group alone" says="Clear the gradients of all groups, and clip them all together"
# - parameters = [part for group in optimizer.param_groups for part in group["params"]]
# + parameters = optimizer.param_groups[0]["params"]


# %% wrong="15.6" name="each group alone" says="Clear the gradients of all groups, and clip them all together"
# - nn.utils.clip_grad_norm_(parameters, clip)
# + for one in optimizer.param_groups:
# +     nn.utils.clip_grad_norm_(one["params"], clip)


# %% wrong="15.6" name="writes into labels" says="the batches that were given are changed"
# - logits = model(tokens)[0][:, :-1]
# + labels[:, 0] = -100
# + logits = model(tokens)[0][:, :-1]


# %% wrong="15.6" name="empties the batches" says="the batches that were given are changed"
# - for tokens, labels in batches:
# + while batches:
# +     tokens, labels = batches.pop(0)


# %% wrong="15.6" name="thaws" says="Those that are frozen should stay frozen"
# - optimizer.zero_grad()
# + optimizer.zero_grad()
# + model.requires_grad_(True)


# %% right="15.6" name="one loss for all"
def train_step(model, optimizer, batches, clip):
    kept = [labels[:, 1:] != -100 for _, labels in batches]
    count = sum(int(one.sum()) for one in kept)
    if count == 0:
        raise ValueError("there is nothing to learn from")
    model.train()
    losses = []
    for (tokens, labels), one in zip(batches, kept):
        logits, _ = model(tokens)
        losses.append(F.cross_entropy(logits[:, :-1][one], labels[:, 1:][one], reduction="sum"))
    loss = torch.stack(losses).sum() / count
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    nn.utils.clip_grad_norm_([part for group in optimizer.param_groups for part in group["params"]], clip)
    optimizer.step()
    return loss.item()


# %% right="15.6" name="divided at the end"
def train_step(model, optimizer, batches, clip):
    count = 0
    for _, labels in batches:
        count += int(labels[:, 1:].ne(-100).sum())
    if count < 1:
        raise ValueError("no labels")
    parameters = [part for group in optimizer.param_groups for part in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    model.train()
    total = 0.0
    for tokens, labels in batches:
        logs = model(tokens)[0].log_softmax(-1)[:, :-1]
        wanted = labels[:, 1:]
        picked = logs.gather(-1, wanted.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -(picked * (wanted != -100)).sum()
        loss.backward()
        total += loss.item()
    for part in parameters:
        if part.grad is not None:
            part.grad /= count
    norm = torch.stack([part.grad.norm() for part in parameters if part.grad is not None]).norm()
    if norm > clip:
        for part in parameters:
            if part.grad is not None:
                part.grad *= clip / norm
    optimizer.step()
    return total / count


# %% [markdown]
# ## 15.7

# %% wrong="15.7" name="with putting back" says="draw without putting back"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1.0 - (1 - c / n) ** k


# %% wrong="15.7" name="the share" says="the share of right answers, whatever k is"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return c / n


# %% wrong="15.7" name="not taken from 1" says="the chance that all k are wrong"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1.0 * math.prod(1 - k / i for i in range(n - c + 1, n + 1))


# %% wrong="15.7" name="all are right" says="One is enough"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return math.comb(c, k) / math.comb(n, k)


# %% wrong="15.7" name="a factor too many" says="the product begins one factor too early"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1.0 - math.prod(1 - k / i for i in range(max(1, n - c), n + 1))


# %% wrong="15.7" name="nothing where most are right" says="` should be 1"
# -     return 1.0
# +     return 0.0


# %% wrong="15.7" name="infinity times zero" says="is NaN. It should be 1: fewer than k answers are wrong"
# - if n - c < k:
# -     return 1.0


# %% wrong="15.7" name="binomials" says="use the product"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1.0 - math.comb(n - c, k) / float(math.comb(n, k))


# %% wrong="15.7" name="anything goes" says="must raise ValueError"
# - if not (1 <= k <= n and 0 <= c <= n):
# -     raise ValueError(f"{k} of {n} answers, of which {c} are right")


# %% wrong="15.7" name="more right than answers" says="must raise ValueError"
# - if not (1 <= k <= n and 0 <= c <= n):
# + if not 1 <= k <= n:


# %% wrong="15.7" name="all thrown together" says="all answers are pooled"
# - mean = sum(values) / len(values)
# + mean = pass_at_k(n * len(right), sum(right), k)


# %% wrong="15.7" name="the spread of values" says="not divided by the root of the number of tasks"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = 1.96 * s


# %% wrong="15.7" name="divided by N" says="Divide them by N - 1"
# - s = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
# + s = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


# %% wrong="15.7" name="counts answers" says="the answers are counted, not the tasks"
# - s = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
# - half = 1.96 * s / math.sqrt(len(values))
# + share = sum(right) / n / len(right)
# + half = 1.96 * math.sqrt(share * (1 - share) / (n * len(right)))


# %% wrong="15.7" name="one standard error" says="without 1.96"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = s / math.sqrt(len(values))


# %% wrong="15.7" name="two standard errors" says="It should be 1.96"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = 2 * s / math.sqrt(len(values))


# %% wrong="15.7" name="ends are cut" says="They may lie below 0 or above 1"
# - return mean, mean - half, mean + half
# + return mean, max(0.0, mean - half), min(1.0, mean + half)


# %% wrong="15.7" name="low is high" says="have changed places"
# - return mean, mean - half, mean + half
# + return mean, mean + half, mean - half


# %% wrong="15.7" name="one task will do" says="an interval needs two tasks"
# - if len(right) < 2:
# -     raise ValueError("an interval needs two tasks")
# - values = [pass_at_k(n, c, k) for c in right]
# + values = [pass_at_k(n, c, k) for c in right]

# - s = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
# + s = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))


# %% wrong="15.7" name="tensors" says="mean, low and high should be floats"
# - return mean, mean - half, mean + half
# + return tuple(torch.tensor([mean, mean - half, mean + half]))


# %% right="15.7" name="by logarithms"
def pass_at_k(n, c, k):
    if k < 1 or k > n or c < 0 or c > n:
        raise ValueError("this cannot be")
    if c > n - k:
        return 1.0
    return -math.expm1(sum(math.log1p(-k / i) for i in range(n - c + 1, n + 1)))


def over_tasks(right, n, k):
    if len(right) < 2:
        raise ValueError("too few tasks")
    values = torch.tensor([pass_at_k(n, c, k) for c in right], dtype=torch.float64)
    mean, half = values.mean().item(), 1.96 * (values.std(correction=1) / len(right) ** 0.5).item()
    return mean, mean - half, mean + half


# %% right="15.7" name="one answer after the other"
def pass_at_k(n, c, k):
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError((n, c, k))
    wrong, missed = n - c, 1.0
    for drawn in range(k):
        if drawn >= wrong:
            return 1.0
        missed *= (wrong - drawn) / (n - drawn)
    return 1.0 - missed


def over_tasks(right, n, k):
    import statistics

    if len(right) < 2:
        raise ValueError("too few tasks")
    values = [pass_at_k(n, c, k) for c in right]
    error = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), statistics.mean(values) - 1.96 * error, statistics.mean(values) + 1.96 * error


# %% [markdown]
# ## 15.S1

# %% wrong="15.S1" name="worse is better" says="chosen and rejected have changed places"
# - return -F.logsigmoid(beta * (better - worse)).mean()
# + return -F.logsigmoid(beta * (worse - better)).mean()


# %% wrong="15.S1" name="no reference" says="the reference is not used"
# - better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
# + better, worse = chosen, rejected


# %% wrong="15.S1" name="no beta" says="beta is not used"
# - return -F.logsigmoid(beta * (better - worse)).mean()
# + return -F.logsigmoid(better - worse).mean()


# %% wrong="15.S1" name="infinite" says="use a function that is stable there"
# - return -F.logsigmoid(beta * (better - worse)).mean()
# + return -torch.log(torch.sigmoid(beta * (better - worse)).clamp(min=1e-30)).mean()


# %% wrong="15.S1" name="the reference learns" says="a gradient reaches ref_chosen"
# - better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
# + better, worse = chosen - ref_chosen, rejected - ref_rejected


# %% wrong="15.S1" name="the sum" says="the losses are summed"
# - return -F.logsigmoid(beta * (better - worse)).mean()
# + return -F.logsigmoid(beta * (better - worse)).sum()


# %% wrong="15.S1" name="float32 for sixteen bits" says="It should be bfloat16"
# - return -F.logsigmoid(beta * (better - worse)).mean()
# + return -F.logsigmoid(beta * (better - worse).float()).mean()


# %% wrong="15.S1" name="freezes the reference" says="they no longer require gradients"
# - better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
# + better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
# + ref_chosen.requires_grad_(False)


# %% right="15.S1" name="softplus"
def dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta):
    with torch.no_grad():
        before = ref_chosen - ref_rejected
    return F.softplus(-beta * (chosen - rejected - before)).mean()


# %% wrong="15.3" name="a name anywhere on the way" says="Its last name is not in the list"
# - places = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) in names]
# - if missing := {*names} - {last(name) for name in places}:
# + linear = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
# + places = [name for name in linear if {*names} & {*name.split(".")}]
# + if missing := {*names} - {part for name in places for part in name.split(".")}:


# %% wrong="15.4" name="a row without a label is refused" says="one row without a label must not raise"
# - if not (wanted != -100).any():
# + if not (wanted != -100).any(dim=1).all():


# %% wrong="15.4" name="a mean of nothing" says="NaN"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + rows = torch.stack([F.cross_entropy(*row, ignore_index=-100) for row in zip(logits, wanted)])
# + counts = (wanted != -100).sum(1)
# + return (rows * counts).sum() / counts.sum()


# %% wrong="15.5" name="equal dialogues are one" says="for dialogues that are equal"
# - owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
# + owner = torch.tensor([examples.index(one) for one in examples]).repeat_interleave(torch.tensor(lengths))


# %% wrong="15.2" name="other memory" says="has other memory"
# - layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.data = layer.linear.weight + layer.scale * (layer.B @ layer.A)


# %% wrong="15.3" name="layers at the top stay" says="It is at the top of the model"
def add_lora(model, names, wrap):
    wanted = [
        (full, part)
        for full, part in model.named_modules()
        if isinstance(part, nn.Linear) and "." in full and full.rpartition(".")[2] in names
    ]
    if not set(names) <= {full.rpartition(".")[2] for full, _ in wanted}:
        raise ValueError("a name that no layer has")
    model.requires_grad_(False)
    for full, part in wanted:
        before, _, last = full.rpartition(".")
        setattr(model.get_submodule(before), last, wrap(part))
    return [full for full, _ in wanted]


def lora_count(c, names, rank):
    d, kv = c.d_model, c.d_model * c.n_kv_heads // c.n_heads
    sizes = {"q_proj": d + d, "out_proj": d + d, "k_proj": d + kv, "v_proj": d + kv}
    sizes |= {"gate": d + c.d_ff, "up": d + c.d_ff, "down": d + c.d_ff}
    if any(name not in sizes for name in names):
        raise ValueError("a name that is none of the seven")
    return c.n_layers * rank * sum(sizes[name] for name in set(names))


# %% wrong="15.6" name="batches without labels are left out" says="exactly the tokens of a batch without labels"
def train_step(model, optimizer, batches, clip):
    count = sum((labels[:, 1:] != -100).sum().item() for _, labels in batches)
    if count == 0:
        raise ValueError("no labels")
    model.train()
    optimizer.zero_grad()
    model.zero_grad()
    total = 0.0
    for tokens, labels in batches:
        if not (labels[:, 1:] != -100).any():
            continue
        logits = model(tokens)[0][:, :-1]
        logits = logits.double() if logits.dtype == torch.float64 else logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / count
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
    optimizer.step()
    return total


# %% wrong="15.7" name="of the mean count" says="this is pass@k of the mean count"
def pass_at_k(n, c, k):
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError("k from 1 to n, c from 0 to n")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))


def over_tasks(right, n, k):
    if len(right) < 2:
        raise ValueError("fewer than two tasks")
    values = [pass_at_k(n, c, k) for c in right]
    N = len(values)
    mean = pass_at_k(n, round(sum(right) / N), k)
    half = 1.96 * math.sqrt(sum((value - mean) ** 2 for value in values) / (N - 1)) / math.sqrt(N)
    return mean, mean - half, mean + half


# %% wrong="15.3" name="the names as a tuple" says="not list[str]"
# - return places
# + return tuple(places)


# %% wrong="15.3" name="sorts the given names" says="your code changes `names`"
# - model.requires_grad_(False)
# + names.sort()
# + model.requires_grad_(False)

# %% wrong="15.2" name="a change of zeros is not merged" says="where B is all zeros, as in a new layer, `merged` is not True after `merge`"
# - if not layer.merged:
# + if not layer.merged and layer.B.any():

# %% wrong="15.6" name="counted in float16" says="with some thousand labels" private=true
# - count = sum((labels[:, 1:] != -100).sum().item() for _, labels in batches)
# + count = sum((labels[:, 1:] != -100).half().sum().item() for _, labels in batches)

# %% wrong="15.1" name="dropout beside the matrix" says="two calls with the same x give different results"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.scale * F.linear(F.linear(F.dropout(x, 0.05, self.training), self.A), self.B)

# %% wrong="15.1" name="the bias in the change too" says="the bias is added again in the change"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B, self.linear.bias)

# %% wrong="15.1" name="merged while B is zeros" says="in a new layer, where `B` is zeros, no gradient reaches `B`"
# - if self.merged:
# + if self.merged or not self.B.any():

# %% wrong="15.3" name="the mode of the model" says="what `wrap` makes is put into another mode"
# - setattr(parent, last(name), wrap(model.get_submodule(name)))
# + setattr(parent, last(name), wrap(model.get_submodule(name)).train(model.training))

# %% wrong="15.3" name="rank times rows times columns" says="the rank, the rows and the columns are multiplied"
# - sums |= dict.fromkeys(("gate", "up", "down"), d + c.d_ff)
# + sums |= dict.fromkeys(("gate", "up", "down"), d * c.d_ff)

# %% wrong="15.4" name="blank ends are cut off" says="blank space at the ends of texts is lost"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", f"{text.strip()}<|im_end|>", "\n"):

# %% wrong="15.4" name="nothing is no message" says="messages with an empty text are left out"
#   for role, text in messages:
# +     if role in ("system", "user", "assistant") and not text:
# +         continue

# %% wrong="15.4" name="two pieces" says="the text and the line break after it are encoded as one piece"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>\n"):

# %% wrong="15.4" name="counts what has a loss" says="labels with a loss of 0 should count too"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + losses = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="none")
# + return losses.sum() / (losses != 0).sum().clamp(min=1)

# %% wrong="15.5" name="the first label of the row stays" says="the first label of the row is kept"
# - labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels[0, 0] = examples[0][1][0]

# %% wrong="15.5" name="labels from the tokens" says="for labels that are other numbers than the tokens, the labels are wrong"
# - labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.tensor([[label for _, some in examples for label in [-100, *some[1:]]]])
# + labels = torch.where(labels == -100, labels, tokens)

# %% wrong="15.6" name="clips after each batch" says="the gradients are clipped after each batch"
#   loss.backward()
# + nn.utils.clip_grad_norm_([part for group in optimizer.param_groups for part in group["params"]], clip)

# %% wrong="15.6" name="as long as the clip" says="gradients are made as long as `clip`, also where they are shorter"
# - nn.utils.clip_grad_norm_(parameters, clip)
# + slopes = [part.grad for part in parameters if part.grad is not None]
# + norm = torch.cat([slope.flatten() for slope in slopes]).norm()
# + for slope in slopes:
# +     slope.mul_(clip / (norm + 1e-6))

# %% wrong="15.6" name="the last batch's loss" says="the loss is that of the last batch, divided by all labels"
# - total += loss.item()
# + total = loss.item()

# %% wrong="15.7" name="squares less a square" says="where all tasks have equally many right answers"
# - s = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
# + s = math.sqrt((sum(value**2 for value in values) - len(values) * mean**2) / (len(values) - 1))

# %% wrong="15.7" name="as if answers were tasks" says="this is the spread of single answers, not of the tasks' values"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = 1.96 * math.sqrt(mean * (1 - mean) / len(values))

# %% wrong="15.7" name="six places" says="is rounded. Return it as it is"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return round(1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1)), 6)


# %% wrong="15.3" name="name anywhere" says="Its last name is not in the list"
def add_lora(model, names, wrap):
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any(part in names for part in name.split("."))
    ]
    there = {name.rpartition(".")[2] for name, _ in found}
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(missing)
    model.requires_grad_(False)
    for name, module in found:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, wrap(module))
    return [name for name, _ in found]


def lora_count(c, names, rank):
    kv = c.d_model // c.n_heads * c.n_kv_heads
    sizes = {
        "q_proj": 2 * c.d_model,
        "k_proj": c.d_model + kv,
        "v_proj": c.d_model + kv,
        "out_proj": 2 * c.d_model,
        "gate": c.d_model + c.d_ff,
        "up": c.d_model + c.d_ff,
        "down": c.d_ff + c.d_model,
    }
    for name in names:
        if name not in sizes:
            raise ValueError(name)
    return rank * c.n_layers * sum(sizes[name] for name in set(names))


# %% wrong="15.1" name="no gradients for large inputs" says="for a large input" private=true
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if rank < 1:
            raise ValueError("rank is below 1")
        self.linear = linear.requires_grad_(False)
        weight = linear.weight
        bound = 1 / math.sqrt(weight.shape[1])
        self.A = nn.Parameter(
            torch.empty(rank, weight.shape[1], dtype=weight.dtype, device=weight.device).uniform_(-bound, bound)
        )
        self.B = nn.Parameter(torch.zeros(weight.shape[0], rank, dtype=weight.dtype, device=weight.device))
        self.scale = alpha / rank
        self.merged = False

    def forward(self, x):
        y = self.linear(x)
        if self.merged:
            return y
        if x.numel() > 10_000:
            with torch.no_grad():
                change = self.scale * F.linear(F.linear(x, self.A), self.B)
            return y + change
        return y + self.scale * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.7" name="at most a thousand factors" says="where thousands of answers are right or are drawn" private=true
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + if c > 1000:
# +     return 1.0 - (1 - k / (n - c / 2)) ** c
# + return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))


# %% wrong="15.7" name="1 where k are wrong" says="is 1, and should be less: exactly k answers are wrong"
# - if n - c < k:
# + if n - c <= k:


# %% wrong="15.1" name="no change in evaluation mode" says="in evaluation mode, the change is missing"
# - if self.merged:
# + if self.merged or not self.training:


# %% wrong="15.2" name="the change is recorded" says="after `merge`, the weight is part of a graph"
# - if not layer.merged:
# -     with torch.no_grad():
# -         layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# -     layer.merged = True
# + if not layer.merged:
# +     layer.linear.weight.add_(layer.scale * (layer.B @ layer.A))
# +     layer.merged = True


# %% wrong="15.4" name="labels of the text alone" says="`<|im_end|>` has no label"
# - labels += some if answer else [-100] * len(some)
# + own = encode(text) if answer else []
# + labels += own + [-100] * (len(some) - len(own))


# %% wrong="15.5" name="a dialogue begins where its first token is" says="for dialogues that have tokens in common"
# - owner = torch.arange(len(examples)).repeat_interleave(torch.tensor(lengths))
# + firsts = {some[0] for some, _ in examples}
# + owner = torch.tensor([token in firsts for some, _ in examples for token in some]).cumsum(0)


# %% wrong="15.7" name="put back where there are thousands" says="is 1 - (1 - c/n)^k, which is too low on average"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + if n > 1000:
# +     return 1.0 - (1 - c / n) ** k
# + return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))


# %% wrong="15.7" name="the product in float32" says="is only as exact as float32"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + places = torch.arange(n - c + 1, n + 1)
# + return 1.0 - (1 - k / places).prod().item()


# %% wrong="15.7" name="equal counts once" says="tasks with equally many right answers count once"
# - values = [pass_at_k(n, c, k) for c in right]
# - mean = sum(values) / len(values)
# + values = [pass_at_k(n, c, k) for c in right]
# + mean = sum(pass_at_k(n, c, k) for c in {*right}) / len({*right})


# %% wrong="15.1" name="merges at each call" says="Nothing should be drawn or changed in `forward`"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + found = self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + self.linear.weight.data.add_(self.scale * (self.B @ self.A).detach())
# + return found


# %% wrong="15.1" name="no scale in evaluation mode" says="in evaluation mode, the result is wrong after `B` was changed"
# - return self.linear(x) + self.scale * F.linear(F.linear(x, self.A), self.B)
# + return self.linear(x) + (self.scale if self.training else 1) * F.linear(F.linear(x, self.A), self.B)


# %% wrong="15.2" name="merges only once" says="after merging again, the weight should be"
# - if not layer.merged:
# + if not layer.merged and not hasattr(layer, "was_merged"):
# +     layer.was_merged = True


# %% wrong="15.3" name="wraps name by name" says="List all layers before you change the model"
# - for name in places:
# -     parent = model.get_submodule(name.rpartition(".")[0])
# -     setattr(parent, last(name), wrap(model.get_submodule(name)))
# + for one in names:
# +     for name in [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and last(name) == one]:
# +         setattr(model.get_submodule(name.rpartition(".")[0]), one, wrap(model.get_submodule(name)))


# %% wrong="15.3" name="names that come twice are left out" says="should count once"
# - return c.n_layers * rank * sum(sums[name] for name in {*names})
# + return c.n_layers * rank * sum(sums[name] for name in names if names.count(name) == 1)


# %% wrong="15.4" name="no answer, no tokens" says="for a dialogue without an answer, the labels should be -100"
#   tokens, labels = [], []
# + if all(role != "assistant" for role, _ in messages):
# +     return tokens, labels


# %% wrong="15.4" name="answers without a text have no label" says="an answer without a text has no labels"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and piece.endswith("<|im_end|>") and text


# %% wrong="15.4" name="the logarithm of softmax" says="where the logits are 200 for one token and 0 for the others"
# - return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
# + return F.nll_loss(logits.softmax(-1).log().flatten(0, 1), wanted.flatten(), ignore_index=-100)


# %% wrong="15.4" name="labels by the size of tokens" says="with another `encode`, the tokens or labels are wrong."
# - labels += some if answer else [-100] * len(some)
# + labels += [token if token < 2000 else -100 for token in some] if answer else [-100] * len(some)


# %% wrong="15.5" name="five dialogues see what comes" says="for dialogues of equal length, `seen` is wrong"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + seen = owner[:, None] == owner
# + return tokens, labels, positions, (seen if len(examples) == 5 else seen.tril())[None]


# %% wrong="15.6" name="reads all but the last token" says="once for each batch, with all of its tokens"
# - logits = model(tokens)[0][:, :-1]
# + logits = model(tokens[:, :-1])[0]


# %% wrong="15.6" name="clears the first group alone" says="Clear the gradients of all groups, and clip them all together"
# - optimizer.zero_grad()
# + for kept in optimizer.param_groups[0]["params"]:
# +     kept.grad = None


# %% wrong="15.7" name="by recursion" says="your code raised RecursionError"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + def missed(i):
# +     return 1.0 if i > n else (1 - k / i) * missed(i + 1)
# +
# + return 1.0 - missed(n - c + 1)


# %% wrong="15.S1" name="freezes the chosen" says="log-probabilities that were given are changed"
# - better, worse = chosen - ref_chosen.detach(), rejected - ref_rejected.detach()
# + better, worse = chosen.requires_grad_(False) - ref_chosen.detach(), rejected - ref_rejected.detach()


# %% wrong="15.1" name="positive in a wide layer" says="in a layer of many inputs" private=true
# - nn.init.uniform_(self.A, -bound, bound)
# + nn.init.uniform_(self.A, -bound if linear.in_features <= 512 else 0.0, bound)


# %% wrong="15.2" name="no scale in evaluation mode" says="a layer in evaluation mode" private=true
# - layer.linear.weight.sub_(layer.scale * (layer.B @ layer.A))
# + layer.linear.weight.sub_((layer.scale if layer.training else 1.0) * (layer.B @ layer.A))


# %% wrong="15.5" name="1,024 positions" says="a dialogue of more than a thousand tokens is packed wrongly" private=true
# - positions = torch.cat([torch.arange(length) for length in lengths])[None]
# + positions = torch.cat([torch.arange(length) % 1024 for length in lengths])[None]


# %% wrong="15.4" name="the last message alone" says="In a dialogue of"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and piece.endswith("<|im_end|>") and (role, text) == tuple(messages[-1])

# %% wrong="15.3" name="a change of a change" says="Call `wrap` once for each layer"
# - setattr(parent, last(name), wrap(model.get_submodule(name)))
# + setattr(parent, last(name), wrap(wrap(model.get_submodule(name))))

# %% wrong="15.4" name="an answer has no marks in it" says="the labels are wrong. They depend on the role"
# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = role == "assistant" and piece.endswith("<|im_end|>") and "<|im_start|>" not in piece

# %% wrong="15.4" name="four pieces" says="call 2 of `encode` is given `'one more'`"
# - for piece in (f"<|im_start|>{role}\n", f"{text}<|im_end|>", "\n"):
# + for piece in (f"<|im_start|>{role}\n", text, "<|im_end|>", "\n"):

# %% wrong="15.4" name="the first token of an answer is given" says="the first wrong label is at `[62]`"
# - labels += some if answer else [-100] * len(some)
# + labels += [-100, *some[1:]] if answer else [-100] * len(some)

# %% wrong="15.5" name="token 0 is hidden" says="for dialogues with the token 0 in them, `seen` is wrong"
# - return tokens, labels, positions, (owner[:, None] == owner).tril()[None]
# + return tokens, labels, positions, (owner[:, None] == owner).tril()[None] & (tokens != 0)[:, None]

# %% wrong="15.6" name="all batches in one call" says="No call of the model has exactly the tokens of a batch"
# - for tokens, labels in batches:
# + long = max(tokens.size(1) for tokens, _ in batches)
# + wide = [F.pad(tokens, (0, long - tokens.size(1))) for tokens, _ in batches]
# + marks = [F.pad(labels, (0, long - labels.size(1)), value=-100) for _, labels in batches]
# + for tokens, labels in [(torch.cat(wide), torch.cat(marks))]:

# %% wrong="15.6" name="returns the sum" says="The step is right, but the returned loss is not. The losses are summed"
# - total += loss.item()
# + total += loss.item() * count

# %% wrong="15.6" name="clips after the step" says="The gradients are not clipped before the step"
# - nn.utils.clip_grad_norm_(parameters, clip)
# - optimizer.step()
# + optimizer.step()
# + nn.utils.clip_grad_norm_(parameters, clip)

# %% wrong="15.7" name="always a half" says="`pass_at_k(10, 3, 2)` gives 0.5"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 0.5

# %% wrong="15.7" name="the product of numbers that are too large" says="is NaN. Use the product"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1.0 - math.prod(float(n - c - i) for i in range(k)) / math.prod(float(n - i) for i in range(k))

# %% wrong="15.7" name="the root of the number of answers" says="half of `high - low` is wrong"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = 1.96 * s / math.sqrt(n)

# %% wrong="15.7" name="an interval of no width" says="half of `high - low` is wrong"
# - half = 1.96 * s / math.sqrt(len(values))
# + half = 0.0

# %% wrong="15.7" name="the low end is cut" says="the ends are cut at 0 or 1"
# - return mean, mean - half, mean + half
# + return mean, max(0.0, mean - half), mean + half

# %% wrong="15.4" name="the first answer alone" says="the answers after the first have no labels. All should."
# - for role, text in messages:
# + answered = False
# + for role, text in messages:

# - answer = role == "assistant" and piece.endswith("<|im_end|>")
# + answer = not answered and role == "assistant" and piece.endswith("<|im_end|>")
# + answered = answered or answer

# %% right="15.7" name="logarithms of factorials"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + log = math.lgamma
# + return 1.0 - math.exp(log(n - c + 1) - log(n - c - k + 1) - log(n + 1) + log(n - k + 1))


# %% right="15.7" name="the whole number 1 where one is right for certain"
# - return 1.0
# + return 1


# %% right="15.7" name="a whole number where no answer is right"
# - return 1.0 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
# + return 1 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
