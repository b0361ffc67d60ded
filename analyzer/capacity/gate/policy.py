"""The policy of the gates: a versioned file, the package's own or a site's over it, with a source for each number."""

import hashlib
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from analyzer.capacity.profile.signature import TrustedKey, trusted_of
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml, toml_of
from analyzer.settings.toml_model import Mistakes, between, keys_of, one_of, read_row

_DEFAULT = "gates.toml"
_TOP = ("version", "gates", "offer", "pilot", "key")
_SAID = ("need", "waiver", "source", "as_of")
_OFFER = ("step_gpus", "source", "as_of")
_HUNDRED = 100
_STEP_MOST = 10_000

_GateName = Literal[
    "signed", "age", "measured", "runs", "idle", "memory", "scaling", "useful", "waiting", "recommendations",
    "cheaper", "team_idle",
]  # fmt: skip
NAMES: tuple[_GateName, ...] = get_args(_GateName)
_NUMBERS: dict[_GateName, tuple[str, ...]] = {
    "signed": (), "age": ("days",), "measured": ("percent",), "runs": ("runs", "gpu_hours"), "idle": ("percent",),
    "memory": ("percent",), "scaling": ("percent", "hours"), "useful": ("percent",), "waiting": ("percent",),
    "recommendations": ("percent",), "cheaper": ("hours",), "team_idle": (),
}  # fmt: skip
_Need = Literal["required", "optional"]
_Waiver = Literal["approver", "nobody"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One gate of the policy: what it needs, who may waive it, its numbers, and where they come from."""

    name: _GateName
    need: _Need
    waiver: _Waiver
    numbers: tuple[tuple[str, int], ...]
    source: str
    as_of: date

    def number(self, key: str) -> int:
        """Return one of its numbers."""
        return dict(self.numbers)[key]

    @property
    def permille(self) -> int:
        """Its bar as thousandths."""
        return 10 * self.number("percent")


@dataclass(frozen=True, slots=True)
class PilotRule:
    """How small a request of a team without history may be, and what is asked of it afterwards."""

    gpus: int
    weeks: int
    history_gpu_hours: int
    within_days: int
    need_profile_after_weeks: int
    source: str


@dataclass(frozen=True, slots=True)
class Policy:
    """All gates in the order in which they are shown. `name` is the file's, `digest` that of the content."""

    name: str
    version: date
    digest: str
    rules: tuple[Rule, ...]
    step_gpus: int
    pilot: PilotRule
    keys: tuple[TrustedKey, ...] = ()

    def rule(self, name: _GateName) -> Rule:
        """Return the rule of one gate."""
        return next(rule for rule in self.rules if rule.name == name)

    @property
    def told(self) -> str:
        """The file and its date, as people name it."""
        return f"{self.name} of {self.version}"


def read_policy(path: Path | None = None) -> Policy:
    """Return a site's policy over the package's own, or that alone.

    Raises:
        ConfigError: the file cannot be read, has a key that is not known, or a number without its source; it tells all.
    """
    own = files("analyzer.capacity.gate").joinpath(_DEFAULT).read_bytes()
    base = toml_of(_DEFAULT, own, _TOP)
    if path is None:
        return _over(base, base, _DEFAULT, _digest(own))
    return _over(base, read_toml(path, _TOP), path.name, _digest(_digest(own).encode(), path.read_bytes()))


def _over(base: TomlEntry, site: TomlEntry, name: str, digest: str) -> Policy:
    mistakes, rules = Mistakes(), []
    for gate in NAMES:
        with mistakes.gathered():
            entry = _merged(
                *(file.table("gates", NAMES).table(gate, (*_NUMBERS[gate], *_SAID)) for file in (base, site))
            )
            rules.append(_rule(gate, entry))
    with mistakes.gathered():
        offer = _merged(*(file.table("offer", _OFFER) for file in (base, site)))
        step = between(1, _STEP_MOST)(offer, "step_gpus")
        offer.text("source"), offer.day("as_of")
    with mistakes.gathered():
        entry = _merged(*(file.table("pilot", (*keys_of(PilotRule), "as_of")) for file in (base, site)))
        entry.day("as_of")
        pilot = read_row(entry, PilotRule, others=("as_of",))
    with mistakes.gathered():
        version, keys = site.day("version"), trusted_of(site)
    mistakes.refuse()
    return Policy(name, version, digest, tuple(rules), step, pilot, keys)


def _merged(base: TomlEntry, site: TomlEntry) -> TomlEntry:
    """Return a site's table over our own; who changes a number says where it comes from, and since when."""
    given = {key: site.value(key) for key in site.keys}
    is_changed = bool(given.keys() - {"need", "waiver", "as_of"})
    kept = [key for key in base.keys if not (is_changed and key in ("source", "as_of"))]
    return TomlEntry(site.where, {key: base.value(key) for key in kept} | given)


def _rule(name: _GateName, entry: TomlEntry) -> Rule:
    numbers = tuple((key, _number(entry, key)) for key in _NUMBERS[name])
    need, waiver = one_of(get_args(_Need))(entry, "need"), one_of(get_args(_Waiver))(entry, "waiver")
    return Rule(name, need, waiver, numbers, entry.text("source"), entry.day("as_of"))


def _number(entry: TomlEntry, key: str) -> int:
    number = entry.count(key)
    if key == "percent" and number > _HUNDRED:
        raise ConfigError(f"{entry.where}: 'percent' is a share of no more than {_HUNDRED}, not {number}")
    return number


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
