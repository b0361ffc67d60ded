"""Names in texts that somebody will run: whoever names a run or a host must not write a line of it."""

import shlex
from collections.abc import Iterable


def shell_word(name: str) -> str:
    """Return a name as one word of a shell, whatever is in it."""
    return shlex.quote(remark(name))


def words(names: Iterable[str]) -> str:
    """Return names as words of a shell."""
    return " ".join(map(shell_word, names))


def joined_names(names: Iterable[str]) -> str:
    """Return names as one word, between commas, as Slurm takes hosts."""
    return shell_word(",".join(names))


def remark(text: str) -> str:
    """Return a text as one line, as the rest of a comment needs it."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
