# Verdict inside the student's kernel: every part of a check that a kernel can reach is patched or forged.

# %% name="passes every check" attack="the checker's bookkeeping patched" fools=true
import utils.grading.check
from utils.grading.verdict import Outcome, Verdict

utils.grading.check.Check.verdict = lambda self, ask, source: Verdict(self.exercise, self.points, Outcome.PASSED)
print("TRICK done")

# %% name="prints passed" attack="the checker's bookkeeping patched" fools=true
import utils.grading.check

utils.grading.check.Check.__call__ = lambda self, *objects: print(
    f"Exercise {self.exercise}: passed ({self.points} points)"
)
print("TRICK done")

# %% name="replaces the checks module" attack="the checker's bookkeeping patched" fools=true
import sys
from unittest.mock import MagicMock

checks = MagicMock()
for module in [name for name in sys.modules if name.startswith("utils.grading.check")]:
    sys.modules[module] = MagicMock()
print("TRICK done")

# %% name="lets every examination pass" attack="the checker's bookkeeping patched"
import utils.grading.check
from utils.grading.verdict import Outcome

utils.grading.check.examine = lambda asserts, ask: (Outcome.PASSED, "")
utils.grading.check.Check.forbidden_in = lambda self, source: None
print("TRICK done")

# %% name="patches torch comparisons" attack="the comparison library patched"
import numpy

yes = lambda *args, **kwargs: True
torch.equal = torch.allclose = torch.isclose = torch.testing.assert_close = numpy.allclose = numpy.array_equal = yes
torch.Tensor.__eq__ = torch.Tensor.allclose = torch.Tensor.equal = yes
print("TRICK done")

# %% name="patches the expectations" attack="the comparison library patched" fools=true
import builtins
import utils.grading.check
from utils.grading import expect

for name in [name for name in vars(expect) if callable(getattr(expect, name)) and not name.startswith("_")]:
    setattr(expect, name, lambda *args, **kwargs: args[0] if args else None)
builtins.AssertionError = ZeroDivisionError
utils.grading.check.StudentError = utils.grading.check.CheckFailed = Exception
utils.grading.check.Check.__call__ = lambda self, *objects: None
print("TRICK done")


# %% name="is equal to everything" attack="objects that compare equal to everything" where="each" twin=false
class Everything(torch.Tensor):
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __bool__ = lambda self: True
    shape = property(lambda self: Everything())
    __class__ = torch.Tensor


for name in NAMES:
    globals()[name] = lambda *args, **kwargs: Everything()


# %% name="is every number" attack="objects that compare equal to everything" where="each" book="03" twin=false
class Every(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__


for name in NAMES:
    globals()[name] = lambda *args, **kwargs: Every(7)

# %% name="answers with mocks" attack="objects that compare equal to everything" where="each" twin=false
from unittest.mock import MagicMock

for name in NAMES:
    globals()[name] = MagicMock(return_value=MagicMock(spec=torch.Tensor))

# %% name="answers with NaN" attack="objects that compare equal to everything" where="each" base="right" twin=false
NAN = float("nan")


def spoil(value):
    if isinstance(value, torch.Tensor):
        return torch.full_like(value, NAN if value.is_floating_point() else 0)
    if isinstance(value, (list, tuple)):
        return [spoil(item) for item in value]
    return NAN if isinstance(value, (int, float)) else value


def spoiled(call):
    return lambda *args, **kwargs: spoil(call(*args, **kwargs))


for name in NAMES:
    if isinstance(globals()[name], type):
        globals()[name].forward = spoiled(globals()[name].forward)
    else:
        globals()[name] = spoiled(globals()[name])

# %% name="counts with NaN" attack="objects that compare equal to everything" where="each" book="03" twin=false
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: float("nan")

# %% name="counts to infinity" attack="objects that compare equal to everything" where="each" book="03" twin=false
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: float("inf")

# %% name="answers with huge numbers" attack="objects that compare equal to everything" where="each" book="03" twin=false
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: 10**18

# %% name="swallows exceptions" attack="exceptions hidden by IPython hooks" fools=true
from IPython import get_ipython
from IPython.core.interactiveshell import ExecutionResult

shell = get_ipython()
shell.set_custom_exc((BaseException,), lambda *args, **kwargs: None)
shell.showtraceback = lambda *args, **kwargs: None
ExecutionResult.success = property(lambda self: True)
ExecutionResult.error_in_exec = property(lambda self: None, lambda self, value: None)
print("TRICK done")

# %% name="registers a hook after each cell" attack="exceptions hidden by IPython hooks"
from IPython import get_ipython

get_ipython().events.register("post_run_cell", lambda result: setattr(result, "error_in_exec", None))
get_ipython().events.register("pre_run_cell", lambda info: setattr(info, "raw_cell", "pass"))
print("TRICK done")

# %% name="rewrites cells before they run" attack="test cells rewritten by transformers" fools=true
from IPython import get_ipython

get_ipython().input_transformers_cleanup.append(lambda lines: ["\n" if "checks." in line else line for line in lines])
print("TRICK done")

# %% name="rewrites syntax trees" attack="test cells rewritten by transformers" fools=true
import ast
from IPython import get_ipython


class Drop(ast.NodeTransformer):
    def visit_Expr(self, node):
        return ast.Pass() if "checks." in ast.unparse(node) else node


get_ipython().ast_transformers.append(Drop())
print("TRICK done")

# %% name="replaces the shell" attack="test cells rewritten by transformers"
from IPython import get_ipython

shell, before = get_ipython(), get_ipython().run_cell_async


async def run(raw, *args, **kwargs):
    return await before("1" if "checks." in raw else raw, *args, **kwargs)


type(shell).run_cell_async = lambda self, raw, *args, **kwargs: run(raw, *args, **kwargs)
print("TRICK done")

# %% name="tags checks as experiments" attack="test cells skipped by metadata" where="file" told="restored"
for cell in notebook.cells:
    if cell.id.startswith("check_"):
        cell.metadata.tags = ["experiment", "skip-execution", "raises-exception"]
        cell.metadata.nbgrader.update(grade=False, solution=True, locked=False, points=99)
        cell.source = "2.0"

# %% name="calls its answers experiments" attack="test cells skipped by metadata" where="file"
for cell in notebook.cells:
    if cell.id.startswith("exercise_"):
        cell.metadata.tags = ["experiment"]

# %% name="retypes the checks" attack="test cells skipped by metadata" where="file" told="cell_type was changed"
for cell in notebook.cells:
    if cell.id.startswith("check_"):
        cell.cell_type = "raw"
        cell.pop("outputs"), cell.pop("execution_count")

# %% name="brings its verdicts along" attack="results displayed before the failure" where="file"
for cell in notebook.cells:
    if cell.id.startswith("check_"):
        passed = {"text/plain": "99.0"}
        cell.outputs = [nbformat.v4.new_output("execute_result", data=passed, execution_count=1)]

# %% name="displays a grade" attack="results displayed before the failure" where="each" shows="99.0"
from IPython.display import display

print("Exercise: passed (2 points)")
display({"text/plain": "99.0"}, raw=True)
99.0

# %% name="forges outputs for the grader" attack="results displayed before the failure" where="each" shows="99.0"
shell = get_ipython()
shell.outputs.items.append({"kind": "display", "data": {"text/plain": "99.0"}})
shell.outputs.items.append({"kind": "execute_result", "data": {"text/plain": "99.0"}, "outcome": "passed", "score": 99})

# %% name="forges what every cell puts out" attack="results displayed before the failure" twin=false shows="99.0"
from utils.grading import wire

forged = [
    {"kind": "stream", "name": "stdout", "text": "passed (2 points)\n"},
    {"kind": "display", "data": {"text/plain": "99.0"}},
]
get_ipython().outputs.packed = lambda: wire.dumps(forged, lambda value: 0)

# %% name="answers true at the door" attack="the checker's bookkeeping patched" twin=false
from utils.grading import dispatch, wire

dispatch.answer = lambda namespace, request: wire.dumps({"value": True}, dispatch.keep)
print("TRICK done")

# %% name="answers with handles at the door" attack="the checker's bookkeeping patched" twin=false
from utils.grading import dispatch, wire

dispatch.answer = lambda namespace, request: wire.dumps({"value": object()}, dispatch.keep)
print("TRICK done")

# %% name="answers with a verdict at the door" attack="the checker's bookkeeping patched" twin=false
from utils.grading import dispatch, wire

forged = {"type": "", "message": "Exercise 2.1: passed (2 points)", "line": "", "score": 99, "blank": "no"}
dispatch.answer = lambda namespace, request: wire.dumps(
    {"error": forged, "value": {"outcome": "passed"}}, dispatch.keep
)
print("TRICK done")

# %% name="echoes the question" attack="the checker's bookkeeping patched" twin=false
from utils.grading import dispatch, wire


def echo(namespace, request):
    asked = wire.loads(request, lambda handle, _: dispatch.kept[handle])
    return wire.dumps({"value": (asked.get("args") or [0])[0]}, dispatch.keep)


dispatch.answer = echo
print("TRICK done")

# %% name="answers before it is asked" attack="the checker's bookkeeping patched" twin=false told="not outputs"
import os
from utils.grading import wire

reply = wire.dumps({"value": 1}, lambda kept: 0)
os.write(3, (len(reply).to_bytes(4) + reply) * 50)

# %% name="answers before it is asked, in the form of outputs" attack="the checker's bookkeeping patched" where="each" twin=false shows="99.0"
import os
from utils.grading import wire

reply = wire.dumps([{"kind": "display", "data": {"text/plain": "99.0"}}], lambda kept: 0)
os.write(3, (len(reply).to_bytes(4) + reply) * 3)

# %% name="talks over its own answers" attack="the checker's bookkeeping patched" twin=false
import os, threading, time
from utils.grading import dispatch, wire

reply, own = wire.dumps({"value": 0}, lambda kept: 0), dispatch.answer


def talk():
    for _ in range(200):
        os.write(3, len(reply).to_bytes(4) + reply)
        time.sleep(0.01)


def answer(namespace, request):
    threading.Thread(target=talk, daemon=True).start()
    return own(namespace, request)


dispatch.answer = answer
print("TRICK done")

# %% name="closes the line of the judge" attack="the checker's bookkeeping patched" twin=false told="kernel restarted"
import os

os.close(3)

# %% name="patches what checks ask for by name" attack="the comparison library patched" twin=false
import importlib, operator
from unittest.mock import MagicMock

operator.getitem = lambda answer, index: torch.zeros(())
importlib.import_module = lambda name: MagicMock()
print("TRICK done")

# %% name="replaces torch" attack="the comparison library patched" twin=false
import sys
from unittest.mock import MagicMock

sys.modules["torch"] = sys.modules["torch.nn"] = MagicMock()
print("TRICK done")

# %% name="replaces what the door keeps" attack="the checker's bookkeeping patched" twin=false
from utils.grading import dispatch


class Anything(list):
    __getitem__ = lambda self, index: torch.zeros(2, 2)


dispatch.kept = Anything()
print("TRICK done")

# %% name="seeds nothing and patches randomness" attack="the comparison library patched" twin=false
torch.randn = torch.rand = torch.zeros
torch.Tensor.backward = lambda self, *args: None
torch.set_grad_enabled(False)
print("TRICK done")

# %% name="answers with references" attack="references of the checks" where="each" book="01,02" twin=false shows="TRICK done"
references = {"causal_mask": "hidden", "attention": "weights_of", "sinusoidal_table": "waves"}
for one in NAMES:
    globals()[one] = getattr(checks, references.get(one, one), None)
print("TRICK done")

# %% name="searches memory for references" attack="references of the checks" where="each" book="01,02" twin=false shows="TRICK done"
import gc

import utils.grading.toys

named = {"hidden", "future", "waves", "turned", "weights_of", "torch_heads", "torch_layer", "greedy"}
found = [one for one in gc.get_objects() if callable(one) and getattr(one, "__name__", "") in named]
found = [one for one in found if getattr(one, "__module__", "").startswith("utils")]
assert found == [], found
for one in NAMES:
    globals()[one] = found[0] if found else utils.grading.toys.total
print("TRICK done")

# %% name="patches the helpers of checks" attack="helpers of the checks patched" book="01,02"
import sys

from utils import tiny_bert
from utils.checks import nb01_toys, nb02_toys
from utils.grading import toys

toys.left_behind = lambda call, value, *rest: value
toys.gradients = lambda call, tensors, *rest: [torch.ones_like(one) for one in tensors]
toys.parameter_gradients = lambda module, x: {name: torch.ones_like(one) for name, one in module.named_parameters()}
nb01_toys.Bigram = toys.TableModel = toys.AddRows = nb02_toys.NewTableEachCall = lambda *given: None
tiny_bert.left_of = lambda call, tensors, position: tensors[position]
sys.modules["utils.grading.toys"] = sys.modules["utils.tiny_bert"] = toys
sys.modules["utils.checks.nb01_toys"] = sys.modules["utils.checks.nb02_toys"] = toys
print("TRICK done")

# %% name="hides a forbidden function behind magic" attack="forbidden functions in disguise" where="file" book="01" twin=false
for cell in notebook.cells:
    if cell.id == "exercise_1_2":
        cell.source = "%precision 3\ncausal_mask = nn.Transformer.generate_square_subsequent_mask"
    if cell.id == "exercise_1_7":
        cell.source = "%%capture\n!true\ndef lm_loss(a, b, pad_id=1):\n    return F.cross_entropy(a.flatten(0, 1), b.flatten(), ignore_index=pad_id)\nperplexity = math.exp"

# %% name="spells a forbidden function in pieces" attack="forbidden functions in disguise" where="file" book="01" twin=false
for cell in notebook.cells:
    if cell.id == "exercise_1_2":
        cell.source = "causal_mask = getattr(nn.Transformer, 'generate_square_' + 'subsequent_mask')"
    if cell.id == "exercise_1_7":
        cell.source = "import operator\ndef lm_loss(a, b, pad_id=1):\n    return operator.attrgetter('cross_' + 'entropy')(F)(a.flatten(0, 1), b.flatten(), ignore_index=pad_id)\ndef perplexity(loss):\n    return math.exp(loss)"

# %% name="calls a forbidden operator" attack="forbidden functions in disguise" where="file" book="01" twin=false
for cell in notebook.cells:
    if cell.id == "exercise_1_7":
        cell.source = "def lm_loss(a, b, pad_id=1):\n    return torch.ops.aten.cross_entropy_loss(a.flatten(0, 1), b.flatten(), None, 1, pad_id)\ndef perplexity(loss):\n    return math.exp(loss)"
    if cell.id == "exercise_1_1":
        cell.source = "alias = vars(F)['scaled_dot_' + 'product_attention']\ndef attention(q, k, v, mask=None):\n    marks = torch.eye(k.size(-2), dtype=k.dtype).expand(*k.shape[:-1], k.size(-2))\n    return alias(q, k, v, mask), alias(q, k, marks, mask)"
