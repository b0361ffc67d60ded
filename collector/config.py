"""The collector's settings: one TOML table, environment over it, flags over both, into one frozen object.

The reader of settings is small and each package has its own: the packages share the wire's contract and nothing else.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from collector.errors import ConfigError

TABLE = "collector"
ENVIRONMENT = "GPULEDGER_COLLECTOR_"
MIN_TOKEN = 16  # characters


def _about(help: str, least: float | None = None) -> dict[str, Any]:  # noqa: A002 - what the reader shows
    return {"help": help, "least": least}


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """Every key with its default and its help; the README is tested against it."""

    store: Path = field(default=Path("gpuledger.duckdb"), metadata=_about("the DuckDB file that holds everything"))
    listen: str = field(
        default="127.0.0.1:8470", metadata=_about("address and port; anything but loopback needs tokens")
    )
    tokens: tuple[str, ...] = field(
        default=(), metadata=_about(f"who presents one of these is let in; at least {MIN_TOKEN} characters each")
    )
    body_bytes: int = field(
        default=16 * 2**20, metadata=_about("the largest batch that is accepted, as it travels", 1024)
    )
    unpacked_bytes: int = field(
        default=64 * 2**20, metadata=_about("the largest batch that is accepted, unpacked", 1024)
    )
    rows: int = field(default=1_000_000, metadata=_about("the most rows in one batch", 1))
    body_seconds: float = field(default=30.0, metadata=_about("how long a batch may take to arrive", 0.1))
    arriving_bytes: int = field(
        default=128 * 2**20,
        metadata=_about("how much memory batches may take while they arrive; further ones are told to come later", 1),
    )
    queue_batches: int = field(
        default=4096, metadata=_about("how many batches may wait to be written; further ones are told to come later", 1)
    )
    queue_bytes: int = field(default=256 * 2**20, metadata=_about("how much memory they may take", 1024))
    gather_seconds: float = field(
        default=0.05, metadata=_about("the longest that the writer waits for a commit to be worth it", 0.0)
    )
    group_rows: int = field(
        default=200_000, metadata=_about("the most rows in one commit, where one batch has not more", 1)
    )
    memory_limit: str = field(default="1GB", metadata=_about("how much memory DuckDB may take"))
    threads: int = field(default=2, metadata=_about("how many threads DuckDB may use", 1))

    def __post_init__(self) -> None:
        host, _ = self.address
        weak = [token for token in self.tokens if len(token) < MIN_TOKEN]
        if weak:
            raise ConfigError(f"collector.tokens: a token has fewer than {MIN_TOKEN} characters; use a longer one")
        if not self.tokens and not _is_loopback(host):
            raise ConfigError(
                f"collector.listen is {self.listen}, open to others; set collector.tokens, or use 127.0.0.1"
            )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes any free one."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"collector.listen is {self.listen!r}: not an address and port like 127.0.0.1:8470")
        return host.strip("[]"), int(port)


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str | None] | None = None
) -> CollectorConfig:
    """Return the settings of a TOML file, GPULEDGER_COLLECTOR_… variables over it and flags over both.

    Raises:
        ConfigError: a key is unknown, a value is bad or the file cannot be read; one sentence names it.
    """
    values = _from_file(file) if file else {}
    prefixed = {
        name.removeprefix(ENVIRONMENT): text for name, text in environment.items() if name.startswith(ENVIRONMENT)
    }
    values |= {name.lower(): text for name, text in prefixed.items()}
    values |= {name: text for name, text in (flags or {}).items() if text is not None}
    known = {spec.name: spec for spec in fields(CollectorConfig)}
    for name in values:
        if name not in known:
            raise ConfigError(f"collector.{name} is no setting{_nearest(name, known)}")
    return CollectorConfig(**{name: _value(known[name], value) for name, value in values.items()})


def settings() -> dict[str, tuple[str, str]]:
    """Return of every key its default and its help, as texts."""
    return {spec.name: (str(spec.default), spec.metadata["help"]) for spec in fields(CollectorConfig)}


def _from_file(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the settings {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {file} are not TOML: {error}") from error
    for name, value in content.items():  # other packages have tables of their own; a slip of the pen is not passed over
        if name != TABLE and not isinstance(value, dict):
            raise ConfigError(f"the settings {file} have {name} outside any table; put it below [{TABLE}]")
        if name != TABLE and get_close_matches(name, [TABLE], cutoff=0.8):
            raise ConfigError(f"the settings {file} have a table [{name}]; the nearest is [{TABLE}]")
    table = content.get(TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(f"the settings {file} have a value {TABLE} where a table [{TABLE}] is meant")
    return dict(table)


def _value(spec: Field[Any], given: object) -> Any:  # noqa: ANN401 - the type of the default
    """Return a setting's value in the type of its default; texts come from the environment and from flags."""
    try:
        value = _converted(type(spec.default), given)
    except (TypeError, ValueError) as error:
        wanted = {int: "a whole number", float: "a number", tuple: "a list of texts"}.get(type(spec.default), "a text")
        shown = "what was given" if spec.name == "tokens" else repr(given)  # a secret is never shown
        raise ConfigError(f"collector.{spec.name} is {shown}: not {wanted}") from error
    least = spec.metadata["least"]
    if least is not None and not value >= least:  # so that NaN is refused too
        raise ConfigError(f"collector.{spec.name} is {given!r}: less than {least:g}")
    return value


def _converted(kind: Any, given: object) -> Any:  # noqa: ANN401 - a type, and a value of it
    if kind is tuple:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise TypeError
        return tuple(part.strip() for part in parts if part.strip())
    if issubclass(kind, (str, Path)):
        if not isinstance(given, str) or not given:
            raise TypeError
        return kind(given)
    if isinstance(given, bool) or not isinstance(given, (str, int) if kind is int else (str, int, float)):
        raise TypeError
    return kind(given)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]}" if close else f"; known are {', '.join(known)}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
