# %% [markdown]
# # Answers to notebook 14 whose verdict is known
