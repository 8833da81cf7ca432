"""What the notebooks import.

Here: what they build on (`positions`, `subwords`, `counting`, `tiny_bert`, `plots`) and what a submission needs
(`setup`, `hand_in`). In `experiments`: runs over seeds, tables of them, and what each experiment trains. In
`checks`: the public checks, one module a notebook. In `grading`: how a check asks an answer, at home and in
grading alike.
"""

import os

# `torch.compile` leaves code as it is: grading has no compiler, and the same code must give the same at home.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
