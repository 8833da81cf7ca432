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
