"""A student's own functions in runs of experiments: the solution's, offered as after a check that they passed."""

import ast
import types
from collections import Counter

from autograder import course
from autograder.author import answers, build
from utils.experiments import student
from utils.grading.verdict import Outcome, Verdict


def solutions(number, names):
    """The functions and classes of these names that the solution of a notebook defines, as a student has them."""
    known = course.load()
    entry, found = known.notebook(number), {}
    notebook = build.student_notebook(known, entry)
    for case in answers.reference_cases(known, entry):
        space = answers.at_home(notebook, case.source, case.exercise)
        found |= {name: space[name] for name in names if name in space and space[name].__module__ == "__main__"}
    assert {*found} == {*names}
    return found


def passed(*names, outcome=Outcome.PASSED):
    """A module of checks, of which one, for these names, was run."""
    return types.SimpleNamespace(
        one=types.SimpleNamespace(latest=Verdict("0.1", 1, outcome), names=names),
        other=types.SimpleNamespace(latest=None, names=("pack",)),
        number=3,
    )


def use(**functions):
    """Have runs use these functions, whose check passed."""
    student.use(passed(*functions), **functions)


def use_counted(functions):
    """Have runs use these functions; answers with a count of the calls by name, which grows."""
    called = Counter()

    def counted(name):
        def function(*args, **kwargs):
            called[name] += 1
            return functions[name](*args, **kwargs)

        return function

    use(**{name: counted(name) for name in functions})
    return called


def offered(number):
    """The functions that the student's notebook offers to the runs, in order."""
    known = course.load()
    cells = build.student_notebook(known, known.notebook(number)).cells
    (used,) = [cell.source for cell in cells if "student.use(" in cell.source]
    tree = ast.parse(used)
    (call,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "student.use"
    ]
    assert [ast.unparse(one) for one in call.args] == ["checks"]
    found = {}
    for keyword in call.keywords:
        if keyword.arg:
            found[keyword.arg] = ast.unparse(keyword.value)
        else:  # **mine, a dictionary of the same cell
            name = ast.unparse(keyword.value)
            (mine,) = [
                one.value for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name
            ]
            found |= {ast.literal_eval(key): ast.unparse(one) for key, one in zip(mine.keys, mine.values, strict=True)}
    assert all(name == function for name, function in found.items())
    return tuple(found)
