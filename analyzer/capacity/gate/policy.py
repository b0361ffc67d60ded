"""The policy of the gates: a versioned file, the package's own or a site's over it, with a source for each number."""

import hashlib
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from analyzer.capacity.profile.signature import TrustedKey, trusted_of
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml, toml_of

_DEFAULT = "gates.toml"
_TOP = ("version", "gates", "offer", "pilot", "key")
_SAID = ("need", "waiver", "source", "as_of")
_OFFER = ("step_gpus", "source", "as_of")
_PILOT = ("gpus", "weeks", "history_gpu_hours", "within_days", "need_profile_after_weeks", "source", "as_of")
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
        ConfigError: the file cannot be read, has a key that is not known, or a number without its source.
    """
    own = files("analyzer.capacity.gate").joinpath(_DEFAULT).read_bytes()
    base = _first(toml_of(_DEFAULT, own, _TOP), own)
    if path is None:
        return base
    content = read_toml(path, _TOP)
    return _over(base, content, path)


def _first(content: TomlEntry, raw: bytes) -> Policy:
    table = content.table("gates", NAMES)
    rules = tuple(_rule(table.table(name, (*_NUMBERS[name], *_SAID)), name, None) for name in NAMES)
    empty = PilotRule(0, 0, 0, 0, 0, "")
    pilot = _pilot(content.table("pilot", _PILOT), empty)
    step = _step(content.table("offer", _OFFER), 0)
    return Policy(_DEFAULT, content.day("version"), _digest(raw), rules, step, pilot, trusted_of(content))


def _over(base: Policy, content: TomlEntry, path: Path) -> Policy:
    table = content.table("gates", NAMES)
    rules = tuple(
        _rule(table.table(rule.name, (*_NUMBERS[rule.name], *_SAID)), rule.name, rule) if table.has(rule.name) else rule
        for rule in base.rules
    )
    return replace(
        base,
        name=path.name,
        version=content.day("version"),
        digest=_digest(base.digest.encode(), path.read_bytes()),
        rules=rules,
        step_gpus=_step(content.table("offer", _OFFER), base.step_gpus),
        pilot=_pilot(content.table("pilot", _PILOT), base.pilot),
        keys=trusted_of(content),
    )


def _rule(entry: TomlEntry, name: _GateName, base: Rule | None) -> Rule:
    known = _NUMBERS[name]
    given = {key: _number(entry, key) for key in known if base is None or entry.has(key)}
    kept = dict(base.numbers) if base else {}
    numbers = tuple((key, given[key] if key in given else kept[key]) for key in known)
    told = base is None or given or entry.has("source")
    source, as_of = (entry.text("source"), entry.day("as_of")) if told or base is None else (base.source, base.as_of)
    need = _word(entry, "need", get_args(_Need), base.need if base else None)
    waiver = _word(entry, "waiver", get_args(_Waiver), base.waiver if base else None)
    return Rule(
        name,
        "optional" if need == "optional" else "required",
        "nobody" if waiver == "nobody" else "approver",
        numbers,
        source,
        as_of,
    )


def _number(entry: TomlEntry, key: str) -> int:
    number = entry.count(key)
    if key == "percent" and number > _HUNDRED:
        raise ConfigError(f"{entry.where}: 'percent' is a share and at most {_HUNDRED}, not {number}")
    return number


def _word(entry: TomlEntry, key: str, allowed: tuple[str, ...], default: str | None) -> str:
    word = entry.text(key) if default is None else entry.text_or_none(key) or default
    if word not in allowed:
        raise ConfigError(f"{entry.where}: {key!r} must be {' or '.join(map(repr, allowed))}, not {word!r}")
    return word


def _step(entry: TomlEntry, default: int) -> int:
    if default and not entry.has("step_gpus"):
        return default
    step = entry.count("step_gpus")
    if not 1 <= step <= _STEP_MOST:
        raise ConfigError(f"{entry.where}: 'step_gpus' must be 1 to {_STEP_MOST:,}, not {step}")
    entry.text("source"), entry.day("as_of")
    return step


def _pilot(entry: TomlEntry, base: PilotRule) -> PilotRule:
    numbers = [key for key in _PILOT if key not in ("source", "as_of")]
    given = {key: entry.count(key) for key in numbers if not base.source or entry.has(key)}
    if not given:
        return base
    entry.day("as_of")
    kept = {key: getattr(base, key) for key in numbers}
    return PilotRule(**{**kept, **given}, source=entry.text("source"))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
