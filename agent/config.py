"""The agent's settings: the [agent] table of one TOML file, environment over it, flags over both, one frozen object."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from agent.errors import ConfigError
from agent.quantity import seconds, size_bytes
from agent.stamp import IdentityMode

TABLE = "agent"
ENVIRONMENT = "GPULEDGER_AGENT_"
DEFAULT_FILE = Path("/etc/gpuledger/gpuledger.toml")
SECRETS = ("token", "identity_key")  # never shown in an error
MIN_KEY = 16  # characters of the key of pseudonyms

Reader = Callable[[Any], object]


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"{given!r} is not a text")
    return given


def _path(given: object) -> Path | None:
    return Path(_text(given)) if given else None


def _identity(given: object) -> str:
    if given not in ("full", "hashed", "none"):
        raise ConfigError(f"{given!r} is not full, hashed or none")
    return str(given)


def _about(help: str, read: Reader = _text, least: float | None = None) -> dict[str, Any]:  # noqa: A002
    """Say of a setting what it is for, how it is read, and the least that makes sense."""
    return {"help": help, "read": read, "least": least}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Every key with its default and its help; the README is tested against it."""

    node: str = field(
        default="", metadata=_about("name of this host, as its scheduler calls it; the host name where empty")
    )
    collector: str = field(
        default="", metadata=_about("address of the collector, like http://host:8470; where empty nothing is sent")
    )
    token: str = field(
        default="", metadata=_about("what the collector asks for; keep the file readable by the agent alone")
    )
    ca_file: Path | None = field(
        default=None, metadata=_about("certificates to trust for https, instead of the system's", _path)
    )
    beat_seconds: float = field(default=10.0, metadata=_about("how often everything is read", seconds, 0.05))
    batch_seconds: float = field(
        default=10.0,
        metadata=_about("how much time one batch holds; what is not yet in one dies with the agent", seconds),
    )
    process_seconds: float = field(
        default=10.0, metadata=_about("how often processes and their runs are read", seconds, 0.05)
    )
    spool: Path = field(
        default=Path("/var/lib/gpuledger/spool"), metadata=_about("directory of what is not yet delivered", _path)
    )
    spool_bytes: int = field(
        default=256 * 10**6,
        metadata=_about("most that waits there; beyond it the oldest goes first", size_bytes, 10**5),
    )
    kept_bytes: int = field(
        default=64 * 10**6, metadata=_about("most that is kept of what is delivered and not yet sealed", size_bytes, 0)
    )
    listen: str = field(default="127.0.0.1:9477", metadata=_about("address and port of /metrics; off for none"))
    identity: IdentityMode = field(
        default="full", metadata=_about("names of users, accounts, projects, runs: full, hashed or none", _identity)
    )
    identity_key: str = field(
        default="", metadata=_about(f"key of the pseudonyms where identity is hashed; {MIN_KEY} characters or more")
    )
    cluster: str = field(default="default", metadata=_about("name of the cluster in the ids of its runs"))
    rack: str = field(default="", metadata=_about("rack of this host, where no file says it"))
    block: str = field(default="", metadata=_about("block or spine group of this host, where no file says it"))
    zone: str = field(default="", metadata=_about("zone or data hall of this host, where no file says it"))
    topology_table: Path | None = field(default=None, metadata=_about("CSV file of node, rack, block, zone", _path))
    topology_slurm: Path | None = field(default=None, metadata=_about("Slurm's topology.conf", _path))
    node_group: str = field(default="", metadata=_about("name of the group of like hosts that this one is in"))
    region: str = field(default="", metadata=_about("region of this host"))
    instance_type: str = field(default="", metadata=_about("the cloud's name of this type of host"))
    proc: Path = field(default=Path("/proc"), metadata=_about("where procfs is", _path))
    sys: Path = field(default=Path("/sys"), metadata=_about("where sysfs is", _path))

    def __post_init__(self) -> None:
        self.address  # noqa: B018  a bad address is found at the start, not at the first scrape
        if self.identity == "hashed" and len(self.identity_key) < MIN_KEY:
            raise ConfigError(f"agent.identity is hashed, and agent.identity_key has fewer than {MIN_KEY} characters")

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of /metrics, None where it is off; port 0 takes any free one."""
        if self.listen == "off":
            return None
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(
                f"agent.listen is {self.listen!r}: not an address and port like 127.0.0.1:9477, and not off"
            )
        return host.strip("[]"), int(port)

    @property
    def node_name(self) -> str:
        """The name of this host."""
        return self.node or os.uname().nodename


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str | None] | None = None
) -> AgentConfig:
    """Return the settings of a TOML file, GPULEDGER_AGENT_… variables over it and flags over both.

    Raises:
        ConfigError: a key is unknown, a value is bad or the file cannot be read; one sentence names it.
    """
    values = _from_file(file) if file else {}
    values |= {
        name.removeprefix(ENVIRONMENT).lower(): text
        for name, text in environment.items()
        if name.startswith(ENVIRONMENT)
    }
    values |= {name: text for name, text in (flags or {}).items() if text is not None}
    known = {key.name: key for key in fields(AgentConfig)}
    for name in values:
        if name not in known:
            raise ConfigError(f"agent.{name} is no setting{_nearest(name, known)}")
    read = {name: _value(known[name], given) for name, given in values.items()}
    return AgentConfig(**cast(dict[str, Any], read))


def settings() -> dict[str, tuple[str, str]]:
    """Return of every key its default and its help, as texts."""
    return {
        key.name: ("" if key.default is None else str(key.default), key.metadata["help"]) for key in fields(AgentConfig)
    }


def _from_file(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text("utf-8"))
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


def _value(key: Field[Any], given: object) -> object:
    shown = "what was given" if key.name in SECRETS else repr(given)
    try:
        value = key.metadata["read"](given)
    except ConfigError as error:
        raise ConfigError(f"agent.{key.name}: {error if key.name not in SECRETS else 'not a text'}") from error
    if value is None and key.default is not None:
        raise ConfigError(f"agent.{key.name} is empty; leave it out for {key.default}")
    least = key.metadata["least"]
    if least is not None and value < least:
        raise ConfigError(f"agent.{key.name} is {shown}: less than {least:g}")
    return value


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]}" if close else f"; known are {', '.join(known)}"
