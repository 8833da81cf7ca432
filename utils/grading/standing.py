"""What is known of a student's runs besides their files."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """What is known of a student's runs besides the files: from all submissions, and from the instructor."""

    against: tuple[str, ...] = ()  # what a person decided; it costs the points
    flags: tuple[str, ...] = ()  # what a person has to look at; it costs nothing, and the student is not told
    keys: tuple[tuple[str, str], ...] | None = None  # folded name and key; None: the course works without keys


NO_STANDING = Standing()
