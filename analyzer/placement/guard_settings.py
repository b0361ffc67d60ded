"""The table [placement] of the settings: the guards' numbers, the environment over them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches

from analyzer.errors import ConfigError
from analyzer.placement.guards import HUNDRED, Guards
from analyzer.toml_entry import Entry

TABLE = "placement"
ENVIRONMENT = "GPULEDGER_PLACEMENT_"
KEYS = tuple(key.name for key in fields(Guards))
PERCENT = ("least_gain_percent", "moved_percent")


def guards_of(content: Entry, environ: Mapping[str, str]) -> Guards:
    """Return the guards of a settings file with GPULEDGER_PLACEMENT_… variables over them.

    Raises:
        ConfigError: a key is unknown or no whole number, or a share is over 100.
    """
    table = content.table(TABLE, KEYS)
    given = {name: table.count(name) for name in KEYS if table.has(name)}
    return _checked(replace(Guards(), **(given | _of_environment(environ))))


def _of_environment(environ: Mapping[str, str]) -> dict[str, int]:
    given = {}
    for variable in sorted(name for name in environ if name.startswith(ENVIRONMENT)):
        name = variable.removeprefix(ENVIRONMENT).lower()
        if name not in KEYS:
            near = get_close_matches(name, KEYS, n=1, cutoff=0.5)
            hint = ("the nearest is " if near else "known are ") + ", ".join(
                ENVIRONMENT + key.upper() for key in near or KEYS
            )
            raise ConfigError(f"{variable} is no setting; {hint}")
        if not environ[variable].isdecimal():
            raise ConfigError(f"{variable} must be a whole number, not {environ[variable]!r}")
        given[name] = int(environ[variable])
    return given


def _checked(guards: Guards) -> Guards:
    for name in PERCENT:
        if getattr(guards, name) > HUNDRED:
            raise ConfigError(f"[{TABLE}] {name} is a share and at most {HUNDRED}, not {getattr(guards, name)}")
    return guards
