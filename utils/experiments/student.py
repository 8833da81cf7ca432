"""Who runs the experiments, with which seeds and with whose code.

Seeds follow from the name, so nobody else's runs will do.

A notebook says it once, `student.sign(STUDENT, KEY)`. The grader computes the same seeds from the name that
the files of the runs carry. With keys (the instructor hands them out) a name alone does not give its seeds away.
"""

import hashlib
import hmac
import unicodedata
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

COURSE = "attention_graded"  # as course.toml calls it
LOWEST, HIGHEST = 1_000, 999_999  # of a student's seeds; the runs that come with the course have 1 to 5
MAX_NAME = 100  # characters
SIGNS = 12  # of a key; four more find a typing error at home, before hours of training
ASK = "Write your name into STUDENT, near the top of the notebook, and run that cell; then run this one again."
Own = Callable[..., Any]  # a function of the student's, see `use`
T = TypeVar("T")
signature = ("", "")
own_functions: dict[str, Own] = {}


def fold(name: str) -> str:
    """A name as it is compared: case, accents, signs, spaces and the order of its words do not count."""
    plain = unicodedata.normalize("NFKD", name)
    kept = (one if is_letter(one) else "" if unicodedata.combining(one) else " " for one in plain)
    return " ".join(sorted("".join(kept).casefold().split()))


def letters(name: str) -> str:
    """The letters and digits of a name without accents. Vowel signs, as Hindi and Thai write them, are letters."""
    return "".join(one for one in unicodedata.normalize("NFKD", name) if is_letter(one))


def is_letter(one: str) -> bool:
    """Whether a character of a decomposed name is a letter, a digit or a vowel sign.

    A vowel sign is a mark that says another sound, not an accent: one with a place of its own (combining class 0 or 9),
    or with a place that only its script has (84 to 132: Telugu, Thai, Lao and Tibetan).
    """
    kind, place = unicodedata.category(one), unicodedata.combining(one)
    vowel_sign = kind in ("Mn", "Mc") and (place in (0, 9) or 84 <= place <= 132)
    return one.isalnum() or (vowel_sign and "VARIATION SELECTOR" not in unicodedata.name(one, ""))


def sign(name: str, key: str = "") -> None:
    """Say who runs the experiments of this session, and show their seeds. A blank name says nobody.

    `key` is what an instructor may have given to this student; most give none.

    Raises:
        ValueError: the name is empty or no name, or the key belongs to another name; says what to do.
    """
    global signature
    if type(name) is not str or type(key) is not str or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(f"STUDENT and KEY are text in quotes, on one line, at most {MAX_NAME} characters")
    name, key = name.strip(), key.strip().lower()
    if name and not fold(name):
        raise ValueError("STUDENT has no letter or digit in it: give the name under which you hand in")
    if key and key[SIGNS:] != _typed_right(name, key[:SIGNS]):
        raise ValueError(f"KEY does not belong to STUDENT {name!r}: copy both as your instructor gave them")
    signature = (name, key)
    if not name:
        print("STUDENT is blank: everything works but the experiments that you hand in.")
        return
    hint = "" if key else " If your instructor gave you a key, write it into KEY before you train."
    print(
        f"{name}: your seeds are {', '.join(map(str, seeds_of(name, key, 5)))}.{hint} Everybody who has this name in "
        "your course has the same seeds: then write your id (the student number or user name of your platform) instead."
    )


def signed() -> tuple[str, str]:
    """The name and the key of this session, "" where there is none."""
    return signature


def use(checks: ModuleType, **functions: Callable[..., Any]) -> None:
    """Let the runs of this session use functions of the notebook, each under its name, and say which.

    A function is taken if its check has passed in this session. An experiment takes it only where it
    gives what the course's own function gives, so that no number of a run depends on whose code it was; see `leave`.
    """
    found = [one for one in vars(checks).values() if getattr(one, "latest", None) is not None]
    passed = {name for one in found if one.latest.outcome == "passed" for name in one.names}
    own_functions.clear()
    own_functions.update({name: function for name, function in functions.items() if name in passed})
    others = [name for name in functions if name not in passed]
    if own_functions:
        print(f"Yours, in the runs: {', '.join(own_functions)}.")
    if others:
        print(f"The course's, until you have passed their checks in this session: {', '.join(others)}.")


def own(name: str) -> Own | None:
    """The student's function of this name that runs are to use, if there is one."""
    return own_functions.get(name)


def instead(name: str, made_with: Callable[[Own], T], same: Callable[[T], bool]) -> T | None:
    """What the student's function of this name makes, where that is the same as what the course's makes.

    None where there is no such function; where it makes something else or fails, that is said, and it is left.
    """
    function = own(name)
    if function is None:
        return None
    try:
        made = made_with(function)
        why = "" if same(made) else "it gives something else"
    except Exception as problem:  # whatever the student's code raises
        why = f"it raised {type(problem).__name__}"
    if why:
        leave(name, why)
        return None
    return made


def any_own() -> bool:
    """Whether runs are to use any function of the student's."""
    return bool(own_functions)


def leave(name: str, why: str) -> None:
    """Use the course's function of this name from now on, and say why."""
    del own_functions[name]
    print(f"The runs use the course's `{name}` instead of yours, so that they can be repeated: {why}.")


def seeds_of(name: str, key: str, count: int) -> list[int]:
    """The first `count` seeds of a student, all different: a hash of course, folded name and key."""
    found: list[int] = []
    number = 0
    while len(found) < count:
        text = f"{COURSE}\0{fold(name)}\0{key}\0{number}"
        drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        seed = LOWEST + drawn % (HIGHEST - LOWEST + 1)
        if seed not in found:
            found.append(seed)
        number += 1
    return found


def key_of(secret: bytes, name: str) -> str:
    """The key of a student, for the instructor: it cannot be told from the name without the course's secret."""
    key = hmac.new(secret, f"key of {fold(name)}".encode(), hashlib.sha256).hexdigest()[:SIGNS]
    return key + _typed_right(name, key)


def _typed_right(name: str, key: str) -> str:
    return hashlib.sha256(f"{fold(name)} {key}".encode()).hexdigest()[:4]
