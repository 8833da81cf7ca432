"""The figures of the architecture page: packages of autograder and utils, modules of experiments, and their imports."""

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

import networkx
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("autograder", "utils", "data")
COLOURS = {"autograder": "#d5e8f5", "utils": "#dff2df", "data": "#f5ead5"}


def package(module: str) -> str:
    """The package that a module belongs to: its folder, or the module itself if it lies beside the folders."""
    head, *rest = module.split(".")
    inside = rest and (ROOT / head / rest[0]).is_dir()
    return f"{head}.{rest[0]}" if inside else head


def imports(nodes: Callable[[str], str], folders: Iterable[str] = FOLDERS) -> networkx.DiGraph:
    """An arrow from each node to each one that it imports; `nodes` says which node a module is part of, "" for none.

    No module is imported by its name in a string: `tests/test_structure.py` sees to that.
    """
    found = networkx.DiGraph()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        source = nodes(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ImportFrom(module=str(module), names=parts):
                    names = [f"{module}.{one.name}" for one in parts]
                case ast.Import(names=parts):
                    names = [one.name for one in parts]
                case _:
                    continue
            targets = {nodes(name) for name in names if name.split(".")[0] in FOLDERS} - {source, ""}
            found.add_edges_from((source, target) for target in targets if source)
    return found


def experiment(module: str) -> str:
    """What a module of `utils.experiments` is in the figure: NAME.spec or NAME.train of a package, or the module."""
    below = module.removeprefix("utils.experiments").strip(".").split(".")
    if not module.startswith("utils.experiments.") or below == ["__init__"]:
        return ""
    if not (ROOT / "utils" / "experiments" / below[0]).is_dir():
        return below[0]
    return f"NAME.{below[1]}" if below[1:2] in (["spec"], ["train"]) else "NAME"


def draw(path: Path) -> None:
    """Write the figure of the packages: users above what they use. An arrow that follows from others is left out."""
    graph = imports(package)
    # Modules beside the folders (`utils.files`, `autograder.course`) are used from above and below: they make no level.
    graph.remove_nodes_from([name for name in ("autograder", "utils") if name in graph])
    _write(graph, path, (("autograder", 0.0), ("utils", 1.7), ("data", 1.7)))


def draw_experiments(path: Path) -> None:
    """Write the figure of `utils.experiments`, in which NAME stands for each package of it."""
    graph = imports(experiment, ["utils/experiments"])
    # What a module imports of another package are the names of that package's `spec`.
    for module in [source for source, target in graph.edges if target == "NAME" and source.startswith("NAME.")]:
        graph.remove_edge(module, "NAME")
        if module != "NAME.spec":
            graph.add_edge(module, "NAME.spec")
    _write(graph, path, (("", 0.0),))


def _write(graph: networkx.DiGraph, path: Path, columns: Iterable[tuple[str, float]]) -> None:
    """Draw an acyclic graph; columns: the folder of nodes, "" for all, and where its middle is."""
    graph = networkx.transitive_reduction(graph)
    place = {}
    for level, names in enumerate(networkx.topological_generations(graph)):
        for folder, middle in columns:
            mine = sorted(name for name in names if not folder or name.split(".")[0] == folder)
            for number, name in enumerate(mine):
                place[name] = (middle + number - (len(mine) - 1) / 2, -level)
    figure, axes = pyplot.subplots(figsize=(8, 1.0 - min(y for _, y in place.values())))
    boxes = {}
    for name, (x, y) in place.items():
        box = {
            "boxstyle": "round,pad=0.5",
            "facecolor": COLOURS.get(name.split(".")[0], COLOURS["utils"]),
            "edgecolor": "#555",
        }
        boxes[name] = axes.text(x, y, name, ha="center", va="center", bbox=box, fontsize=11).get_bbox_patch()
    across, down = zip(*place.values(), strict=True)
    axes.set(xlim=(min(across) - 0.6, max(across) + 0.6), ylim=(min(down) - 0.4, max(down) + 0.4))
    axes.axis("off")
    figure.canvas.draw()  # the boxes have their sizes now, at which arrows begin and end
    for source, target in graph.edges:
        ends = {"patchA": boxes[source], "patchB": boxes[target]}
        axes.annotate("", place[target], place[source], arrowprops={"arrowstyle": "-|>", "color": "#555"} | ends)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, facecolor="white", bbox_inches="tight")
    pyplot.close(figure)
