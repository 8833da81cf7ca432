"""Small stock nbgrader courses, and what was made of them."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from autograder.any_course import compare, directory
from autograder.any_course import grade as grading

QUICK = "[limits]\ncell_seconds = 1\nmemory_mb = 600\nnotebook_mb = 1\n"


def graded(cell, name, points=1, **more):
    about = {"grade": True, "solution": False, "locked": True, "points": points, "grade_id": name}
    cell.metadata["nbgrader"] = about | {"schema_version": 3, "task": False} | more
    return cell


def solution(source, name):
    cell = new_code_cell(source)
    about = {"grade": False, "solution": True, "locked": False, "grade_id": name, "schema_version": 3, "task": False}
    cell.metadata["nbgrader"] = about
    return cell


def notebook(*cells, **spec):
    python = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return new_notebook(cells=list(cells), metadata={"kernelspec": python | spec})


def write(path, made):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(made))


def make(root, answer, *tests, settings="", toml=QUICK, **spec):
    """Make a course of one notebook with these graded cells, handed in with this answer; answer with its folder."""
    cells = [graded(new_code_cell(text), f"t{number}") for number, text in enumerate(tests)]
    write(root / "source/one/n.ipynb", notebook(solution("### BEGIN SOLUTION\n1\n### END SOLUTION", "answer"), *cells))
    (root / "course.toml").write_text(toml)
    assert compare.Stock(root).assign("one") == ""
    (root / "nbgrader_config.py").write_text(f"c = get_config()\n{settings}")
    made = nbformat.read(root / "release/one/n.ipynb", as_version=4)
    made.cells[0].source = answer
    made.metadata["kernelspec"].update(spec)
    write(root / "submitted/eve/one/n.ipynb", made)
    return root


def run(root, *names, **how):
    known = directory.open_course(root)
    return grading.grade(known, list(names) or directory.assignments(known), **how)


def scores(root):
    """The marks of the lone submission, and its graded notebook's cells by name."""
    found = compare.marks(root).get(("one", "eve"), {})
    marks = [value[0] for name, value in sorted(found.items()) if name.startswith("mark")]
    path = root / "autograded/eve/one/n.ipynb"
    cells = nbformat.read(path, as_version=4).cells if path.exists() else []
    return marks, {cell.metadata.nbgrader.grade_id: cell for cell in cells if "nbgrader" in cell.metadata}


def text_of(cell):
    return "".join(output.get("text", "") + output.get("evalue", "") for output in cell.outputs)
