"""The table [placement] of the settings: the guards' numbers, the environment over them."""

from collections.abc import Mapping
from dataclasses import fields, replace

from analyzer.environment import of_environment, whole
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
    told = of_environment(environ, ENVIRONMENT, KEYS)
    given |= {name: whole(ENVIRONMENT + name.upper(), text) for name, text in told.items()}
    return _checked(replace(Guards(), **given))


def _checked(guards: Guards) -> Guards:
    for name in PERCENT:
        if getattr(guards, name) > HUNDRED:
            raise ConfigError(f"[{TABLE}] {name} is a share and at most {HUNDRED}, not {getattr(guards, name)}")
    return guards
