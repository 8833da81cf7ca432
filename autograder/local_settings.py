"""A course's own settings: `course.local.toml`, laid over `course.toml` key by key.

Git ignores that file, so that a new version of the course meets none of its lines.
"""

import copy
import os
import re
from pathlib import Path
from typing import Any

NAME = "course.local.toml"
CHOICE = "taught"  # the key that lists the notebooks of this course, in their order
BY_NAME = ("notebooks", "platforms")  # lists of tables that are merged by the `name` of each table
Table = dict[str, Any]


def path_beside(path: Path) -> Path | None:
    """The file of own settings for a course file, or None if there is none.

    AUTOGRADER_LOCAL names another file in its place; empty, it turns own settings off.

    Raises:
        ValueError: the file that AUTOGRADER_LOCAL names is not there.
    """
    stated = os.environ.get("AUTOGRADER_LOCAL")
    if stated is None:
        own = path.with_name(NAME)
        return own if own.is_file() else None
    if stated and not Path(stated).is_file():
        raise ValueError(f"AUTOGRADER_LOCAL names {stated}, which is not a file: correct it, or unset it")
    return Path(stated).resolve() if stated else None


def merged(stated: Table, own: Table) -> Table:
    """The settings of a course with its own ones laid over them.

    Tables are merged key by key. `[[notebooks]]` and `[[platforms]]` are merged by name, for which a notebook's number
    is enough; a new name adds a row. Every other list, and every other value, replaces the one in `course.toml`.
    `taught` chooses notebooks and their order.

    Raises:
        ValueError: a row has no name, two rows have the same name, or `taught` lists a notebook that does not exist.
    """
    whole = _tables(copy.deepcopy(stated), {key: value for key, value in own.items() if key not in BY_NAME})
    for key in BY_NAME:
        if key in own:
            whole[key] = _rows(whole.get(key, []), own[key], key)
    return _chosen(whole)


def states(own: Table, whole: Table, place: tuple[int | str, ...]) -> bool:
    """Whether own settings state the key at this place of the merged settings."""
    value: Any = own
    for at, key in enumerate(place):
        if at == 1 and place[0] in BY_NAME and isinstance(key, int):
            name = _name(whole[str(place[0])][key])
            value = next((row for row in value if _same(_name(row), name)), None)
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return False
    return value is not None


def _tables(stated: Table, own: Table) -> Table:
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(stated.get(key), dict)
        stated[key] = _tables(stated[key], value) if both else value
    return stated


def _rows(stated: Any, own: Any, key: str) -> Any:
    """Rows merged by name; what is not a list of tables in `course.toml` is left to the course's own checks."""
    if not _is_rows(own):
        choice = f'; to choose notebooks, write {CHOICE} = ["01", "05"]' if key == "notebooks" else ""
        raise ValueError(f"{key}: write a table below [[{key}]] for each, with its name and what differs{choice}")
    if not _is_rows(stated):
        return own
    whole, changed = list(stated), set()
    for row in own:
        if "name" not in row:
            raise ValueError(f"a row of [[{key}]] has no `name`: write the one of course.toml, or a new one")
        name = _name(row)
        at = next((place for place, row in enumerate(whole) if _same(name, _name(row))), None)
        if name in changed:
            raise ValueError(f"[[{key}]] lists {name} twice: write its keys below one of the two")
        changed.add(name)
        if at is None:
            if key == "notebooks" and name.isdigit():
                raise ValueError(f"[[notebooks]] names {name}; {_known(whole)}")
            whole.append(row)
        else:
            whole[at] = _tables(whole[at], row | {"name": _name(whole[at])})
    return whole


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _chosen(whole: Table) -> Table:
    """The notebooks that `taught` lists, in its order; all of them without that key."""
    if CHOICE not in whole:
        return whole
    names, rows = whole.pop(CHOICE), whole.get("notebooks", [])
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f'{CHOICE}: list the notebooks that you teach, in their order: {CHOICE} = ["01", "05"]')
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return whole
    chosen = []
    for name in names:
        same = [row for row in rows if _same(name, _name(row))]
        if not same:
            raise ValueError(f"{CHOICE}: there is no notebook {name}; {_known(rows)}")
        if same[0] in chosen:
            raise ValueError(f"{CHOICE}: {name} is listed twice")
        chosen.append(same[0])
    return whole | {"notebooks": chosen}


def _known(rows: list[Table]) -> str:
    return f"course.toml has {', '.join(_name(row) for row in rows)}"


def _name(row: Table) -> str:
    return str(row.get("name", ""))


def _same(one: str, other: str) -> bool:
    """Whether two names are the same: of notebooks, the number is enough."""
    if one.isdigit() or other.isdigit():
        numbers = [re.match(r"\d+", name) for name in (one, other)]
        return all(numbers) and len({int(match[0]) for match in numbers if match}) == 1
    return one == other
