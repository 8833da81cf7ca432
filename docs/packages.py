"""The figure of the architecture page: the packages of autograder and utils, and who imports whom."""

import ast
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


def imports() -> networkx.DiGraph:
    """An arrow from each package to each one that it imports."""
    found = networkx.DiGraph()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = package(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FOLDERS:
                    names = [f"{node.module}.{one.name}" for one in node.names]
                elif isinstance(node, ast.Import):
                    names = [one.name for one in node.names if one.name.split(".")[0] in FOLDERS]
                else:
                    continue
                found.add_edges_from((source, target) for name in names if (target := package(name)) != source)
    return found


def draw(path: Path) -> None:
    """Write the figure: users above what they use. An arrow that follows from others is left out."""
    graph = imports()
    # Modules beside the folders (`utils.files`, `autograder.course`) are used from above and below: they make no level.
    graph.remove_nodes_from([name for name in ("autograder", "utils") if name in graph])
    graph = networkx.transitive_reduction(graph)
    place = {}
    for level, names in enumerate(networkx.topological_generations(graph)):
        for folder, middle in (("autograder", 0.0), ("utils", 1.7), ("data", 1.7)):
            mine = sorted(name for name in names if name.split(".")[0] == folder)
            for number, name in enumerate(mine):
                place[name] = (middle + number - (len(mine) - 1) / 2, -level)
    figure, axes = pyplot.subplots(figsize=(8, 1.0 - min(y for _, y in place.values())))
    boxes = {}
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.5", "facecolor": COLOURS[name.split(".")[0]], "edgecolor": "#555"}
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
