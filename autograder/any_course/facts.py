"""What a notebook of another course asks for: modules, programs, files, the network. Read, never run.

A part of it runs in a child with limits, since submissions are read too. It imports nothing heavy but IPython.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

SHELLS = ("%%bash", "%%sh", "%%script", "%%!")
BUILT_IN = frozenset(
    re.findall(
        r"\w+",
        "alias bg break case cd command continue do done echo elif else esac eval exec exit export false fg fi for "
        "function if in let local popd printf pushd pwd read return set shift source test then time trap true type "
        "ulimit umask unset until wait while",
    )
)
WORD = re.compile(r"[A-Za-z_][\w.+-]*")
SEPARATORS = re.compile(r"\|\|?|&&?|;|\n|\$\(|`")
STARTS = ("system", "popen", "run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput")
ONLY_SHOW = ("print", "display", "Markdown", "HTML", "IFrame", "YouTubeVideo", "Link")  # of an address
FETCH = ("urlopen", "urlretrieve", "load_dataset", "download", "get_file", "hf_hub_download")
ADDRESS = re.compile(r"(?:https?|ftp)://")
ABSOLUTE = re.compile(
    r"/(?:home|Users|content|kaggle|mnt|media|srv|opt|root|data|drive|course|courses)(?:/|$)|[A-Za-z]:[\\/]|~/"
)
CLOCKS = ("time", "perf_counter", "process_time", "monotonic", "timeit")
GUARDED = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def of_notebook(text: bytes) -> dict[str, Any]:
    """What a notebook asks for, as plain data; for `autograder.limited`. Cells that are not Python are left out."""
    from IPython.core.inputtransformer2 import TransformerManager

    facts = no_facts()
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        about = cell.get("metadata", {}).get("nbgrader")
        if isinstance(about, dict) and about:
            version = about.get("schema_version", 0)
            facts["schemas"].append(version if type(version) is int else 0)
        if cell.get("cell_type") != "code":
            continue
        source = "".join(cell.get("source", ""))
        if source.startswith(SHELLS):
            note_command(source.partition("\n")[2], facts)
            continue
        try:
            tree = ast.parse(TransformerManager().transform_cell(source))
        except SyntaxError:
            continue
        _add(tree, facts, bool(isinstance(about, dict) and about.get("grade")))
    return {name: sorted(set(values)) for name, values in facts.items()}


def of_module(text: bytes) -> dict[str, Any]:
    """The same of a Python file beside the notebook."""
    facts = no_facts()
    try:
        _add(ast.parse(text), facts, False)
    except (SyntaxError, ValueError):
        return facts
    return {name: sorted(set(values)) for name, values in facts.items()}


def no_facts() -> dict[str, list[Any]]:
    """Return the kinds of facts, with none of them found yet."""
    return {name: [] for name in ("imports", "programs", "network", "absolute", "above", "clocks", "schemas")}


def _add(tree: ast.AST, facts: dict[str, list[Any]], graded: bool) -> None:
    for node in _unguarded(tree):
        if isinstance(node, ast.Import):
            facts["imports"] += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            facts["imports"].append(node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            _call(node, facts, graded)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 300:
            if node.value.startswith("../"):
                facts["above"].append(node.value)
            elif ABSOLUTE.match(node.value):
                facts["absolute"].append(node.value)


def _unguarded(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but the imports that a cell can do without: those in a `try` that catches their failure."""
    yield node
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(node, ast.Try)
            and child in node.body
            and any(_catches(handler.type) for handler in node.handlers)
        ):
            yield from (node for node in ast.walk(child) if not isinstance(node, ast.Import | ast.ImportFrom))
        else:
            yield from _unguarded(child)


def _catches(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in GUARDED) for kind in kinds)


def _call(node: ast.Call, facts: dict[str, list[Any]], graded: bool) -> None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    texts = [
        argument.value
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    if graded and name in CLOCKS and (isinstance(node.func, ast.Attribute) or name != "time"):
        facts["clocks"].append(name)
    if name == "run_line_magic" and texts[:1] in (["pip"], ["conda"]):
        facts["network"].append(f"%{' '.join(texts)}"[:100])
    elif name == "run_line_magic" and texts[:1] in (["timeit"], ["time"]) and graded:
        facts["clocks"].append(f"%{texts[0]}")
    elif name in STARTS and texts:
        note_command(texts[0], facts)
    elif name in STARTS and node.args and isinstance(node.args[0], ast.List) and node.args[0].elts:
        first = node.args[0].elts[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            note_command(first.value, facts)
    elif any(ADDRESS.match(text) for text in texts) and name not in ONLY_SHOW:
        facts["network"].append(next(text for text in texts if ADDRESS.match(text))[:100])
    elif name in FETCH or name.startswith("fetch_"):
        facts["network"].append(f"{name}()")


def note_command(text: str, facts: dict[str, list[Any]]) -> None:
    """Note the programs of a command of the shell."""
    for part in SEPARATORS.split(text):
        words = [word for word in part.split() if "=" not in word]
        if words and WORD.fullmatch(words[0]) and words[0] not in BUILT_IN:
            facts["programs"].append(words[0])
            if words[0] in ("pip", "pip3", "conda", "curl", "wget") or words[:2] == ["git", "clone"]:
                facts["network"].append(part.strip()[:100])


KINDS: dict[str, Callable[[bytes], dict[str, Any]]] = {".ipynb": of_notebook, ".py": of_module}
