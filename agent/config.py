"""The agent's settings: the [agent] table of one TOML file, environment over it, flags over both, one frozen object."""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast, get_args

from agent.errors import ConfigError
from agent.log_format import FORMATS, LEVELS, LogFormat, LogLevel
from agent.quantity import seconds, size_bytes
from agent.wire.bounded import TOML_BYTES_MOST, read_bounded, toml_said

IdentityMode = Literal["full", "hashed", "none"]
_TABLE = "agent"
_ENVIRONMENT = "GPULEDGER_AGENT_"
_DEFAULT_FILE = Path("/etc/gpuledger/gpuledger.toml")
SECRETS = ("token", "identity_key", "scrape_token", "scrape_password")  # never in an error, never flags
_MIN_KEY = 16  # characters of the key of pseudonyms

Reader = Callable[[Any], object]
_SpoolSync = Literal["batch", "off"]
DcgmNames = Literal["legacy", "v4.9", "both", "off"]


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"{given!r} is not text")
    return given


def _path(given: object) -> Path | None:
    return Path(_text(given)) if given else None


def _flag(given: object) -> bool:
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if isinstance(given, bool):
        return given
    if not isinstance(given, str) or given.lower() not in words:
        raise ConfigError(f"{given!r} is not true or false")
    return words[given.lower()]


def _whole(given: object) -> int:
    try:
        return int(str(given))
    except ValueError as error:
        raise ConfigError(f"{given!r} is not a whole number") from error


def _list(given: object) -> tuple[str, ...]:
    """Return a list of texts, as TOML has it, or separated by blanks, as a variable has it."""
    entries = given.split() if isinstance(given, str) else given
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
        raise ConfigError(f"{given!r} is not a list of strings")
    return tuple(entries)


def _one_of(*words: str) -> Reader:
    def read(given: object) -> str:
        if given not in words:
            raise ConfigError(f"{given!r} is not {', '.join(words[:-1])} or {words[-1]}")
        return str(given)

    return read


def _key(default: object, help: str, read: Reader = _text, least: float | None = None) -> Any:  # noqa: A002, ANN401
    """Return a setting: its default, what it is for, how it is read, and the least that makes sense."""
    return field(default=default, metadata={"help": help, "read": read, "least": least})


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Every key with its default and its help; docs/settings.md is tested against it."""

    node: str = _key("", "name of this host, as its scheduler calls it; default: the host name")
    collector: str = _key("", "address of the collector, for example http://host:8470; if empty, nothing is sent")
    token: str = _key("", "token for the collector; keep the file readable by the agent only")
    join_token_file: Path | None = _key(
        None, "file with a join token; with no token or key, the agent exchanges it for its own key", _path
    )
    key_file: Path | None = _key(
        Path("/var/lib/gpuledger/agent.key"),
        "file of this host's own key, written by the agent when it joins",
        _path,
    )
    ca_file: Path | None = _key(None, "CA certificates to trust for https, instead of the system's", _path)
    beat_seconds: float = _key(10.0, "sampling interval", seconds, 0.05)
    batch_seconds: float = _key(
        10.0, "time span of one batch; readings not yet in a batch are lost if the agent dies", seconds
    )
    process_seconds: float = _key(10.0, "sampling interval for processes and their runs", seconds, 0.05)
    hang_seconds: float = _key(0.5, "how long a source may take before the agent stops waiting for it", seconds, 0.01)
    spool: Path = _key(Path("/var/lib/gpuledger/spool"), "directory for batches not yet delivered", _path)
    spool_bytes: int = _key(
        256 * 10**6, "maximum size of undelivered batches; beyond it the oldest are dropped first", size_bytes, 10**5
    )
    kept_bytes: int = _key(64 * 10**6, "maximum size of batches kept after delivery, until sealed", size_bytes, 0)
    spool_sync: _SpoolSync = _key(
        "batch",
        "batch: sync each batch to disk; off: leave it to the kernel",
        _one_of("batch", "off"),
    )
    state: Path | None = _key(
        Path("/var/lib/gpuledger/agent.json"),
        "file for state that survives a restart: GPUs seen, energy counters, open allocations",
        _path,
    )
    expected_gpus: int = _key(0, "number of GPUs that this host should have; 0: as many as it has had", _whole, 0)
    listen: str = _key("127.0.0.1:9477", "address and port of /metrics; off to disable")
    dcgm_names: DcgmNames = _key(
        "legacy",
        "names of dcgm-exporter to serve as well: legacy, v4.9, both or off",
        _one_of("legacy", "v4.9", "both", "off"),
    )
    tls_certificate: Path | None = _key(None, "TLS certificate for /metrics; reloaded when it changes", _path)
    tls_key: Path | None = _key(None, "private key of that certificate", _path)
    scrape_token: str = _key("", "bearer token required by /metrics")
    scrape_user: str = _key("", "user name required by /metrics, with scrape_password")
    scrape_password: str = _key("", "password of scrape_user")
    identity: IdentityMode = _key(
        "full", "names of users, accounts, projects, runs: full, hashed or none", _one_of("full", "hashed", "none")
    )
    identity_key: str = _key("", f"key for the pseudonyms if identity is hashed; {_MIN_KEY} characters or more")
    cluster: str = _key("default", "cluster name used in run ids")
    rack: str = _key("", "rack of this host, if no file has it")
    block: str = _key("", "block or spine group of this host, if no file has it")
    zone: str = _key("", "zone or data hall of this host, if no file has it")
    topology_table: Path | None = _key(None, "CSV file of node, rack, block, zone", _path)
    topology_slurm: Path | None = _key(None, "Slurm's topology.conf or topology.yaml", _path)
    node_group: str = _key("", "name of this host's group of identical hosts")
    region: str = _key("", "region of this host")
    instance_type: str = _key("", "the cloud's instance type")
    kubelet: Path | None = _key(
        Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        "kubelet socket that reports which pod holds which GPU, if present",
        _path,
    )
    dcgm_mapping: Path | None = _key(
        None, "directory of dcgm-exporter's mapping files: one per GPU, with job ids", _path
    )
    jobstats: Path | None = _key(Path("/run/gpustat"), "directory of jobstats files: one per GPU", _path)
    flows: bool = _key(True, "read TCP bytes by run and peer", _flag)
    peers_table: Path | None = _key(
        None, "CSV file of address,node that names peers; networks such as 10.1.0.0/16 are allowed", _path
    )
    services: tuple[str, ...] = _key(
        (), "addresses of /metrics of serving engines on this host (docs/services.md)", _list
    )
    progress: Path | None = _key(
        Path("/run/gpuledger/progress.sock"), "socket on which runs report their steps (GPULEDGER_PROGRESS)", _path
    )
    control: Path | None = _key(
        Path("/run/gpuledger"), "directory for pause files (operators) and quiet requests (runs)", _path
    )
    log_format: LogFormat = _key(
        "text", "format of the log on stderr, one event per line: text or json", _one_of(*FORMATS)
    )
    log_level: LogLevel = _key("info", "minimum log level: debug, info, warning or error", _one_of(*LEVELS))
    proc: Path = _key(Path("/proc"), "mount point of procfs", _path)
    sys: Path = _key(Path("/sys"), "mount point of sysfs", _path)

    def __post_init__(self) -> None:
        self.address  # noqa: B018  a bad address is found at the start, not at the first scrape
        if self.identity == "hashed" and len(self.identity_key) < _MIN_KEY:
            raise ConfigError(f"agent.identity is hashed, and agent.identity_key has fewer than {_MIN_KEY} characters")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("agent.tls_certificate and agent.tls_key must be set together; one of them is missing")
        if bool(self.scrape_user) != bool(self.scrape_password):
            raise ConfigError(
                "agent.scrape_user and agent.scrape_password must be set together; one of them is missing"
            )
        if self.services:
            from agent.sources.services import declared_services

            declared_services(self.services, self.node_name)  # as above: a reload with a bad one keeps the old settings

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of /metrics, None where it is off; port 0 takes any free one."""
        if self.listen == "off":
            return None
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(
                f"agent.listen is {self.listen!r}: expected an address and port such as 127.0.0.1:9477, or off"
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
    for name in SECRETS:
        if (flags or {}).get(name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is not a flag, because every user of this host could read it (ps): set "
                f"{_ENVIRONMENT}{name.upper()}, or {_TABLE}.{name} in a settings file"
            )
    values = _from_file(file) if file else {}
    values |= {
        name.removeprefix(_ENVIRONMENT).lower(): text
        for name, text in environment.items()
        if name.startswith(_ENVIRONMENT)
    }
    values |= {name: text for name, text in (flags or {}).items() if text is not None}
    known = {key.name: key for key in fields(AgentConfig)}
    for name in values:
        if name not in known:
            raise ConfigError(f"agent.{name} is not a setting{_nearest(name, known)}")
    read = {name: _value(known[name], given) for name, given in values.items()}
    return AgentConfig(**cast("dict[str, Any]", read))


def settings_file(named: str | None) -> Path | None:
    """Return the file that --config names, else DEFAULT_FILE where it exists."""
    if named is not None:
        return Path(named)
    return _DEFAULT_FILE if _DEFAULT_FILE.exists() else None


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Give a command the option that names its settings file."""
    parser.add_argument("--config", metavar="FILE", help=f"settings file; default {_DEFAULT_FILE} if it exists")


def settings() -> dict[str, tuple[str, str]]:
    """Return of every key its default and its help, as texts."""
    return {
        key.name: ("" if key.default in (None, ()) else str(key.default), key.metadata["help"])
        for key in fields(AgentConfig)
    }


def _from_file(file: Path) -> dict[str, Any]:
    try:
        content = toml_said(read_bounded(file, TOML_BYTES_MOST))
    except OSError as error:
        raise ConfigError(f"cannot read the settings {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the settings {file} are not TOML: {error}") from error
    for name, value in content.items():  # other packages have tables of their own; a slip of the pen is not passed over
        if name != _TABLE and not isinstance(value, dict):
            raise ConfigError(f"the settings {file} have {name} outside any table; put it under [{_TABLE}]")
        if name != _TABLE and get_close_matches(name, [_TABLE], cutoff=0.8):
            raise ConfigError(f"the settings {file} have a table [{name}]; the nearest is [{_TABLE}]")
    table = content.get(_TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(f"the settings {file} have a value {_TABLE} where the table [{_TABLE}] is expected")
    return dict(table)


def _value(key: Field[Any], given: object) -> object:
    shown = "what was given" if key.name in SECRETS else repr(given)
    try:
        value = key.metadata["read"](given)
    except ConfigError as error:
        raise ConfigError(f"agent.{key.name}: {error if key.name not in SECRETS else 'not text'}") from error
    if value is None and type(None) not in get_args(key.type):
        raise ConfigError(f"agent.{key.name} is empty; omit it to use {key.default}")
    least = key.metadata["least"]
    if least is not None and value < least:
        raise ConfigError(f"agent.{key.name} is {shown}: the minimum is {least:g}")
    return value


def _nearest(name: str, known: Mapping[str, object]) -> str:
    begins = [key for key in known if key.startswith(name)]  # beat: beat_seconds, and not kubelet
    close = begins or get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]}" if close else f"; known are {', '.join(known)}"
