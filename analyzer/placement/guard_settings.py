"""The table [placement] of the settings: the guards' numbers, and how plans are made; the environment over them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from analyzer.environment import is_true, of_environment, whole
from analyzer.errors import ConfigError
from analyzer.placement.advice_settings import Advising
from analyzer.placement.guards import HUNDRED, Guards
from analyzer.toml_entry import Entry

TABLE = "placement"
ENVIRONMENT = "GPULEDGER_PLACEMENT_"
GUARDS = tuple(key.name for key in fields(Guards))
ADVISING = tuple(key.name for key in fields(Advising))
KEYS = (*GUARDS, *ADVISING)
FLAGS = ("learn_shares",)
PERCENT = ("least_gain_percent", "moved_percent")


def guards_of(content: Entry, environ: Mapping[str, str]) -> Guards:
    """Return the guards of a settings file with GPULEDGER_PLACEMENT_… variables over them.

    Raises:
        ConfigError: a key is unknown or no whole number, or a share is over 100.
    """
    return _checked(replace(Guards(), **_given(content, environ, GUARDS)))


def advising_of(content: Entry, environ: Mapping[str, str]) -> Advising:
    """Return how recommendations are made, by the same table and variables.

    Raises:
        ConfigError: a key is unknown, no whole number, or neither true nor false.
    """
    return replace(Advising(), **_given(content, environ, ADVISING))


def _given(content: Entry, environ: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return those of these keys that are given: whole numbers, and flags as true or false."""
    table, told = content.table(TABLE, KEYS), of_environment(environ, ENVIRONMENT, KEYS)
    given: dict[str, Any] = {}
    for name in wanted:
        if name in told:
            given[name] = (is_true if name in FLAGS else whole)(ENVIRONMENT + name.upper(), told[name])
        elif table.has(name):
            given[name] = table.flag(name) if name in FLAGS else table.count(name)
    return given


def _checked(guards: Guards) -> Guards:
    for name in PERCENT:
        if getattr(guards, name) > HUNDRED:
            raise ConfigError(f"[{TABLE}] {name} is a share and at most {HUNDRED}, not {getattr(guards, name)}")
    return guards
