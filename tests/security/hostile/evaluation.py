# Grader inputs that execute: what a submission brings along is never unpickled, evaluated, imported or rendered.

# %% name="brings pickles along" attack="pickles, logs, result files" where="zip" told="not notebooks and are left out: .* .pkl"
import pickle


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/TOKEN",)


for name in ("results/seed0.pkl", "results/model.pt", "BOOK.pkl", "log.pickle", ".OTTER_LOG"):
    add(name, pickle.dumps(Bomb()))

# %% name="answers with what unpickles" attack="pickles, logs, result files" where="each" twin=false
import os


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/TOKEN",)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()
    __getstate__ = __dask_tokenize__ = __dask_graph__ = __array__ = __torch_function__ = __reduce__


for name in NAMES:
    globals()[name] = lambda *args, **kwargs: Bomb()

# %% name="answers with what runs when shown" attack="pickles, logs, result files" where="each" twin=false
import os


class Shown:
    def run(self, *args):
        open("/tmp/TOKEN-" + str(os.getpid()), "w").write("x")
        return "passed"

    __repr__ = __str__ = __format__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = __index__ = __hash__ = run


for name in NAMES:
    globals()[name] = lambda *args, **kwargs: {"value": Shown(), 1: [Shown()]}


# %% name="raises what runs when shown" attack="pickles, logs, result files" where="each" twin=false told="cannot be shown"
class Odd(Exception):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


def odd(*args, **kwargs):
    raise Odd


for name in NAMES:
    globals()[name] = odd

# %% name="names another kernel" attack="notebook metadata" where="file"
notebook.metadata.kernelspec = {"name": "bash", "display_name": "sh", "argv": ["sh", "-c", "touch /tmp/TOKEN"]}
notebook.metadata.language_info = {"name": "sh", "nbconvert_exporter": "os.system", "pygments_lexer": "../../x"}

# %% name="writes templates into names" attack="notebook metadata" where="file"
template = "{{ self.__init__.__globals__.__builtins__.__import__('os').system('touch /tmp/TOKEN') }}{% raw %}"
notebook.metadata.title = notebook.metadata.authors = template
for cell in notebook.cells:
    cell.metadata.name = template
    if cell.cell_type == "markdown" and "nbgrader" not in cell.metadata:
        cell.source = template

# %% name="calls cells like paths" attack="notebook metadata" where="file"
for number, cell in enumerate(notebook.cells):
    if "nbgrader" not in cell.metadata:
        cell.id = f"../../TOKEN/{number}"
        cell.metadata.nbgrader = {"grade_id": "../../../TOKEN", "grade": True, "points": 99, "schema_version": 99}

# %% name="is nested too deep" attack="notebook metadata" where="raw" told="nested too deep" replaces=true
text = b'{"nbformat": 4, "cells": ' + b"[" * 100_000

# %% name="has numbers that take for ever" attack="notebook metadata" where="raw" told="a notebook format which nobody reads" replaces=true
text = b'{"nbformat": ' + b"9" * 500_000 + b', "cells": []}'

# %% name="has a million lines" attack="notebook metadata" where="file" told="characters of text" replaces=true
notebook.cells[-1].source = "a;" * 600_000

# %% name="has ten thousand cells" attack="notebook metadata" where="file" told="list of at most" replaces=true
notebook.cells += [nbformat.v4.new_code_cell("1") for _ in range(10_000)]

# %% name="parses too deep" attack="notebook metadata" where="first" twin=false
# The judge parses each answer for forbidden names, and must survive this one.
deep = DEEP

# %% name="claims an old format" attack="notebook metadata" where="raw" told="older format" replaces=true
text = b'{"nbformat": 1, "nbformat_minor": 0, "cells": [null]}'

# %% name="runs other languages" attack="notebook metadata" shows="TRICK sh"
get_ipython().run_cell_magic("bash", "", "echo TRICK sh; touch /tmp/TOKEN; cat TREE/gradebook.db; kill -9 GRADER")

# %% name="loads extensions" attack="notebook metadata" shows="TRICK loaded"
open("evil.py", "w").write("def load_ipython_extension(shell):\n    print('TRICK loaded')\n")
get_ipython().run_line_magic("load_ext", "evil")

# %% name="writes to the terminal" attack="logs" where="each" twin=false
ESCAPE = "\x1b]0;TOKEN\x07\x1b[2J\x1b[31m\u202egnp.exe\r\n=HYPERLINK(1)"


def loud(*args, **kwargs):
    raise ValueError(ESCAPE)


for name in NAMES:
    globals()[name] = loud


# %% name="raises long words" attack="logs" where="each" twin=false told="..."
def long(*args, **kwargs):
    raise type("E" * 10**6, (Exception,), {})("x" * 10**7)


for name in NAMES:
    globals()[name] = long

# %% name="answers with long words" attack="logs" where="each" twin=false book="03"
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: "x" * 10**6
