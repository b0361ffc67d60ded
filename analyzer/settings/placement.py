"""The table [placement] of the settings: the guards' numbers, and how plans are made; the environment over them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from analyzer.errors import ConfigError
from analyzer.settings.environment import is_true, of_environment, whole_number
from analyzer.settings.toml_entry import TomlEntry

TABLE = "placement"
_ENVIRONMENT = "GPULEDGER_PLACEMENT_"
HUNDRED = 100


def _about(help: str) -> dict[str, Any]:  # noqa: A002 - what the reader shows
    return {"help": help}


@dataclass(frozen=True, slots=True)
class Guards:
    """The numbers of the guards, the table [placement] of the settings.

    12 hours and 10 percent are the Vertical Pod Autoscaler's (in-recommendation-bounds-eviction-lifetime-threshold,
    pod-update-threshold); that there is a limit on how much is moved at once is the Kubernetes descheduler's
    (maxNoOfPodsToEvictTotal), its size is ours, as is all else.
    """

    least_gain: int = field(
        default=10, metadata=_about("a restart is recommended where it gains so much at P20, in whole currency units")
    )
    least_gain_percent: int = field(default=10, metadata=_about("and so much of what the restart itself costs"))
    hours_between_moves: int = field(default=12, metadata=_about("how long a run is left alone once it was moved"))
    moved_percent: int = field(
        default=5, metadata=_about("how much of the fleet's GPUs may be restarted at once; one run may be more")
    )
    rejected_hours: int = field(default=24, metadata=_about("how long what was rejected is not recommended again"))
    horizon_days: int = field(default=28, metadata=_about("how far ahead a saving counts at most"))
    valid_days: int = field(default=14, metadata=_about("how long after its period a recommendation holds"))


@dataclass(frozen=True, slots=True)
class Advising:
    """How long the whole fleet is planned for, and whether realised savings correct what is assumed; both are ours."""

    plan_seconds: int = field(
        default=10, metadata=_about("how long a plan of the whole fleet may be searched for at most; 0 makes none")
    )
    learn_shares: bool = field(
        default=False,
        metadata=_about("whether shares that twenty realised cases of a kind show take the place of the assumed ones"),
    )


DEFAULT = Guards()
_GUARDS = tuple(key.name for key in fields(Guards))
_ADVISING = tuple(key.name for key in fields(Advising))
_KEYS = (*_GUARDS, *_ADVISING)
_FLAGS = ("learn_shares",)
_PERCENT = ("least_gain_percent", "moved_percent")


def guards_of(content: TomlEntry, environ: Mapping[str, str]) -> Guards:
    """Return the guards of a settings file with GPULEDGER_PLACEMENT_… variables over them.

    Raises:
        ConfigError: a key is unknown or no whole number, or a share is over 100.
    """
    return _checked(replace(Guards(), **_given(content, environ, _GUARDS)))


def advising_of(content: TomlEntry, environ: Mapping[str, str]) -> Advising:
    """Return how recommendations are made, by the same table and variables.

    Raises:
        ConfigError: a key is unknown, no whole number, or neither true nor false.
    """
    return replace(Advising(), **_given(content, environ, _ADVISING))


def _given(content: TomlEntry, environ: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return those of these keys that are given: whole numbers, and flags as true or false."""
    table, told = content.table(TABLE, _KEYS), of_environment(environ, _ENVIRONMENT, _KEYS)
    given: dict[str, Any] = {}
    for name in wanted:
        if name in told:
            given[name] = (is_true if name in _FLAGS else whole_number)(_ENVIRONMENT + name.upper(), told[name])
        elif table.has(name):
            given[name] = table.flag(name) if name in _FLAGS else table.count(name)
    return given


def _checked(guards: Guards) -> Guards:
    for name in _PERCENT:
        if getattr(guards, name) > HUNDRED:
            raise ConfigError(f"[{TABLE}] {name} is a share and at most {HUNDRED}, not {getattr(guards, name)}")
    return guards
