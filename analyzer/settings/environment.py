"""Settings from variables of the environment: one prefix a table, unknown names refused with the nearest known."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from analyzer.errors import ConfigError


def of_environment(environ: Mapping[str, str], prefix: str, known: Sequence[str]) -> dict[str, str]:
    """Return the texts of all variables that begin with a prefix, by the key that each sets.

    Raises:
        ConfigError: one of them sets no known key.
    """
    given = {}
    for variable in sorted(name for name in environ if name.startswith(prefix)):
        name = variable.removeprefix(prefix).lower()
        if name not in known:
            raise ConfigError(f"{variable} is no setting; {_nearest(name, prefix, known)}")
        given[name] = environ[variable]
    return given


def whole_number(variable: str, text: str) -> int:
    """Return a variable's text as a whole number.

    Raises:
        ConfigError: it is none.
    """
    if not text.isdecimal():
        raise ConfigError(f"{variable} must be a whole number, not {text!r}")
    return int(text)


def is_true(variable: str, text: str) -> bool:
    """Return a variable's text as true or false.

    Raises:
        ConfigError: it is neither.
    """
    if text not in ("true", "false"):
        raise ConfigError(f"{variable} must be true or false, not {text!r}")
    return text == "true"


def _nearest(name: str, prefix: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return ("the nearest is " if close else "known are ") + ", ".join(prefix + key.upper() for key in close or known)
