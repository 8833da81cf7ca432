# Honest students whom graders hurt: right answers, and something that other graders take points for.

# %% name="warns" attack="warnings" where="each"
import sys, warnings

warnings.warn("this is deprecated")
print("loading 3%|#         | 1/30", file=sys.stderr)

# %% name="warns within the answer" attack="warnings" where="each"
import functools, logging, sys, warnings


def noisy(call):
    @functools.wraps(call)
    def inner(*args, **kwargs):
        warnings.warn("slow path")
        logging.getLogger().error("not an error")
        print("called with", len(args), file=sys.stderr)
        return call(*args, **kwargs)

    return inner


for name in NAMES:
    if not isinstance(globals()[name], type):
        globals()[name] = noisy(globals()[name])

# %% name="copied a check" attack="a copied cell" where="file"
for cell in [cell for cell in notebook.cells if cell.id.startswith("check_")]:
    notebook.cells.append(nbformat.from_dict(cell | {"id": "copy-" + cell.id.replace("_", "-")}))

# %% name="copied an answer" attack="a copied cell" where="file" told="more than once"
for cell in [cell for cell in notebook.cells if cell.id.startswith("exercise_")]:
    older = nbformat.from_dict(
        cell | {"id": "old-" + cell.id.replace("_", "-"), "source": "raise ValueError('a draft')"}
    )
    notebook.cells.insert(notebook.cells.index(cell), older)

# %% name="lost all ids" attack="a lost cell id" where="file" told="had lost their ids"
for number, cell in enumerate(notebook.cells):
    cell.id, cell.metadata = f"{number:08x}", nbformat.from_dict({"colab": {"base_uri": "https://colab"}})

# %% name="uses an older format" attack="a lost cell id" where="file" told="had lost their ids"
notebook.nbformat_minor = 4
for cell in notebook.cells:
    cell.pop("id")
    cell.metadata = nbformat.from_dict({"id": "x"})

# %% name="renamed the notebook" attack="a renamed notebook" where="zip" replaces=true
add("My final answer (2) really final.ipynb", file)

# %% name="handed in a zip" attack="a renamed notebook" where="zip" replaces=true own=true
add("Homework/BOOK-Copy1.ipynb", file)
add("Homework/notes.txt", "thoughts")

# %% name="dies at the end" attack="a dead kernel in the last cell" where="last" told="kernel restarted"
import os

os._exit(1)

# %% name="loops at the end" attack="a dead kernel in the last cell" where="last" told="longer than"
while True:
    pass

# %% name="dies at the beginning" attack="a dead kernel in the last cell" told="kernel restarted"
import os

os._exit(1)

# %% name="quits" attack="a dead kernel in the last cell" where="last"
exit()

# %% name="returns other kinds of numbers" attack="a score type nobody expected" where="each" book="03"
import functools
import numpy as np


def as_numpy(call):
    def inner(*args, **kwargs):
        value = call(*args, **kwargs)
        return np.int64(value) if type(value) is int else value

    return functools.wraps(call)(inner)


for name in NAMES:
    globals()[name] = as_numpy(globals()[name])

# %% name="reuses variables" attack="a test that depends on a variable they reused"
checks = scoreboard = plots = x = q = k = words = scores = _ = len = None

# %% name="reuses variables of the preamble" attack="a test that depends on a variable they reused" where="last"
torch = nn = math = F = utils = None

# %% name="changes the defaults of torch" attack="a test that depends on a variable they reused"
torch.manual_seed(7)
torch.set_grad_enabled(True)
torch.set_num_threads(2)
torch.set_printoptions(precision=1)

# %% name="uses magics" attack="warnings"
get_ipython().run_line_magic("matplotlib", "inline")
get_ipython().system("ls")
get_ipython().system("pip install -q nothing-that-exists-here 2>/dev/null")
get_ipython().run_line_magic("timeit", "-n1 -r1 1")

# %% name="fails to mount Colab's drive" attack="warnings"
from google.colab import drive

drive.mount("/content/drive")

# %% name="shows a lot" attack="warnings" shows="progress"
from tqdm.auto import tqdm

for _ in tqdm(range(100), desc="progress"):
    pass
print("progress")

# %% name="moved cells around" attack="a copied cell" where="file" told="out of order"
notebook.cells.reverse()

# %% name="deleted the checks" attack="a copied cell" where="file" told="was deleted: put back"
notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("check_")]

# %% name="saved with Windows" attack="a renamed notebook" where="raw"
text = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
