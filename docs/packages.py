"""The figures of the architecture page: who has what and which process runs it, packages, and their imports."""

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

import networkx
from matplotlib import pyplot

from utils.diagrams import Box, Diagram, flow, svg, tensor, title

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("autograder", "utils", "data")
COLOURS = {"autograder": "#d5e8f5", "utils": "#dff2df", "data": "#f5ead5"}

# What a kernel runs is a student's code; every other process runs the course's.
MACHINES = Diagram(
    height=598,
    boxes={
        "student": title(240, 576, "the student's machine", 230),
        "notebooks": tensor(92, 532, "notebooks/", 124),
        "utils": tensor(240, 532, "utils/", 100),
        "data": tensor(388, 532, "data/", 100),
        "jupyter": Box(240, 470, "Jupyter: cells and public checks", 400, 34, "new"),
        "submission": tensor(130, 402, "submission", 130),
        "command": Box(130, 310, "command: plan,\ngradebook, records", 206, 54),
        "child": Box(362, 310, "child with limits:\nreads submissions", 206, 54),
        "worker": Box(130, 212, "worker with judge:\npublic, private checks", 206, 54),
        "fork server": Box(362, 212, "fork server:\nforks kernels", 206, 54),
        "solutions": tensor(76, 118, "solutions/", 118),
        "kernel": Box(362, 118, "kernel in a sandbox:\nthe student's cells", 206, 54, "new"),
        "instructor": title(240, 48, "the instructor's machine", 256),
    },
    lines=[
        flow("notebooks", "jupyter"),
        flow("utils", "jupyter"),
        flow("data", "jupyter"),
        flow("jupyter", "submission"),
        flow("submission", "command"),
        flow("command", "child"),
        flow("command", "worker"),
        flow("fork server", "kernel"),
        flow("solutions", "worker"),
        flow("worker", (208, 128), "kernel"),
        flow("kernel", (180, 108), "worker"),
    ],
    frames=[
        ("student", "notebooks", "data", "jupyter"),
        ("command", "child", "solutions", "kernel", "instructor"),
    ],
    alt="Two machines. On the student's machine, notebooks/, utils/ and data/ go into Jupyter: cells and public "
    "checks. Its submission goes to the instructor's machine. There a command: plan, gradebook, records, hands it "
    "to a child with limits: reads submissions. Then the command hands it to a worker with judge: public, private "
    "checks, which also has solutions/. The worker asks a kernel in a sandbox: the student's cells, and gets data "
    "back. The kernel comes from a fork server: forks kernels.",
)


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


def draw_machines(path: Path) -> None:
    """Write the figure of who has which files and which process runs what."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(svg(MACHINES))


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
    for source, target in sorted(graph.edges):
        ends = {"patchA": boxes[source], "patchB": boxes[target]}
        axes.annotate("", place[target], place[source], arrowprops={"arrowstyle": "-|>", "color": "#555"} | ends)
    path.parent.mkdir(exist_ok=True)
    with pyplot.rc_context({"svg.hashsalt": "course"}):  # the same file for the same figure
        figure.savefig(path, facecolor="white", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
