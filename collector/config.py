"""The collector's settings: one TOML table, environment over it, flags over both, into one frozen object.

The reader of settings is small and each package has its own: the packages share the wire's contract and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from agent.log_format import FORMATS, LEVELS, LogFormat, LogLevel, never_say
from agent.wire.bounded import TOML_BYTES_MOST, read_bounded, toml_said
from collector.errors import ConfigError, StoreError
from collector.tier_tables import kept_days

TABLE = "collector"
SETTINGS_NAME = "gpuledger.toml"  # the settings that lie beside a store are that store's
_ENVIRONMENT = "GPULEDGER_COLLECTOR_"
_MIN_TOKEN = 16  # characters
SECRETS = ("tokens", "s3_secret")  # never taken as flags
_WORDS = {"slurm_format": ("auto", "json", "text"), "log_format": FORMATS, "log_level": LEVELS}
_PASSWORD = re.compile(r"\bpassword\s*=|//[^/@]*:[^/@]*@")  # in the address of a catalogue
# What libpq reads: key=value pairs, values with spaces in quotes, or an address.
_PAIR = r"\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)"
_CONNECTION = re.compile(rf"\s*{_PAIR}(?:\s+{_PAIR})*\s*|postgres(?:ql)?://\S*")
_SECRET_OF_ADDRESS = re.compile(r"password\s*=\s*(?:'((?:[^'\\]|\\.)+)'|((?:[^\s'\\&]|\\.)+))|//[^/@:]*:([^/@]+)@")
_BUCKET = re.compile(r"s3://[A-Za-z0-9._-]+(?:/.*)?")
_ENDPOINT = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?/?")
NO_LAKE = "none"
SHARED = "postgres:"  # how settings name a lake that several hosts share; it may be read where no store's file is
# Keys that there once were, with what has taken their place.
_MOVED = {
    "public_url": "analyzer.site_url, where people reach the site; of several collectors of one lake, each one's own "
    "address for agents is collector.direct_url"
}


def _setting(default: Any, help: str, least: float | None = None) -> Any:  # noqa: A002, ANN401 - of the key's type
    """Return the field of a key: its default, whose type its values have, what people read of it, and the least."""
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """Every key with its default and its help; docs/settings.md is tested against it."""

    store: Path = _setting(Path("gpuledger.duckdb"), "the DuckDB file that holds everything")  # noqa: RUF009
    listen: str = _setting("127.0.0.1:8470", "address and port; anything but loopback needs tokens or keys")
    tokens: tuple[str, ...] = _setting((), f"tokens that grant access; at least {_MIN_TOKEN} characters each")
    tls_certificate: str = _setting(
        "", "file of the certificate and its chain, for https; read again when it changes, and on SIGHUP"
    )
    tls_key: str = _setting("", "file of that certificate's key")
    body_bytes: int = _setting(16 * 2**20, "maximum size of a batch, compressed", 1024)
    unpacked_bytes: int = _setting(64 * 2**20, "maximum size of a batch, uncompressed", 1024)
    rows: int = _setting(1_000_000, "maximum number of rows in one batch", 1)
    body_seconds: float = _setting(30.0, "maximum time for a batch to arrive", 0.1)
    arriving_bytes: int = _setting(
        128 * 2**20, "maximum memory for batches that are arriving; more are asked to retry later", 1
    )
    agent_batches_per_second: float = _setting(
        50.0, "maximum batches per second from one agent; beyond, it is asked to retry later", 0.001
    )
    agent_bytes_per_second: float = _setting(4 * 2.0**20, "maximum bytes per second from one agent", 1.0)
    agent_burst_seconds: float = _setting(30.0, "how many seconds' worth of that it may send in one burst", 0.0)
    remote_write_series: int = _setting(
        200_000, "maximum number of series of Prometheus remote write; more are refused", 1
    )
    remote_write_wait_seconds: float = _setting(
        1.0, "how long a scrape that arrives in several remote write requests waits for the rest", 0.0
    )
    decoders: int = _setting(
        1, "number of processes that decode batches under load; 0: the server's own process does", 0
    )
    queue_batches: int = _setting(
        4096, "maximum number of batches waiting to be written; more are asked to retry later", 1
    )
    queue_bytes: int = _setting(256 * 2**20, "maximum memory for them", 1024)
    gather_seconds: float = _setting(
        0.05, "how long the writer gathers batches after the start of the last commit", 0.0
    )
    group_rows: int = _setting(200_000, "maximum number of rows in one commit, unless a single batch has more", 1)
    memory_limit: str = _setting("600MB", "maximum memory for DuckDB")
    # With two, a thread of ours that waits for DuckDB's spins, and takes Python's lock with every turn: sealing while
    # batches come took a third more processor time.
    threads: int = _setting(1, "maximum number of threads for one DuckDB statement", 1)

    lake: str = _setting(
        "", "where sealed samples go: none for no lake, or postgres:dbname=...; left out, a lake beside the store"
    )
    data: str = _setting("", "the lake's files: a folder or s3://bucket/prefix; empty: beside it")
    s3_endpoint: str = _setting("", "address of the object store, if it is not Amazon's")
    s3_region: str = _setting("us-east-1", "region of the object store")
    s3_key_id: str = _setting("", "access key ID")
    s3_secret: str = _setting("", "secret access key; better in the environment than in a file")
    extensions: str = _setting("", "folder of trusted DuckDB extensions; empty: those of the wheels, verified by hash")
    name: str = _setting("", "name of this collector among several of one lake; empty: the host's name")
    direct_url: str = _setting(
        "",
        "address at which agents reach this collector directly, past any load balancer, like https://collector-1:8470",
    )
    seal_seconds: float = _setting(60.0, "how often new data is sealed into the lake", 0.1)
    seal_rows: int = _setting(2_000_000, "or sooner, when this many rows have arrived", 1)

    raw_days: int = _setting(14, "days to keep raw samples; hours are final after up to 9", 1)
    minute_days: int = _setting(90, "days to keep samples rolled up per minute", 1)
    hour_days: int = _setting(400, "days to keep samples rolled up per hour", 1)
    keep_days: tuple[str, ...] = _setting(
        (), "tables to keep for a different number of days, such as flow_samples=3, gpu_minutes=180"
    )
    keep_bytes: int = _setting(
        0, "maximum size of the lake's files: the oldest days are dropped first; 0: unlimited", 0
    )
    receipt_days: int = _setting(
        30, "days to keep receipts of accepted batches: as long as an agent's spool keeps a batch", 1
    )
    snapshot_hours: float = _setting(
        12.0, "hours for which a reader keeps seeing the lake as it was when it began", 1.0
    )
    job_seconds: float = _setting(60.0, "how long a maintenance job may run before it yields to others", 0.1)

    capacity_requests: int = _setting(1000, "maximum number of capacity requests per team; more are refused", 1)
    capacity_days: int = _setting(400, "days to keep a capacity request and its history after its last entry", 1)

    log_format: LogFormat = _setting("text", "format of the log on stderr, one event per line: text or json")  # noqa: RUF009
    log_level: LogLevel = _setting("info", "minimum level to log: debug, info, warning or error")  # noqa: RUF009

    ready_free_bytes: int = _setting(256 * 2**20, "free disk space below which /readyz reports not ready", 0)
    ready_seal_seconds: float = _setting(900.0, "age of unsealed batches above which /readyz reports not ready", 1.0)
    backups: str = _setting("", "folder in which backups are written; empty: beside the store")

    slurm: str = _setting("", "name of the Slurm cluster to poll for jobs and hosts, as in agent.cluster; empty: none")
    slurm_seconds: float = _setting(60.0, "how often Slurm is polled", 1.0)
    slurm_timeout_seconds: float = _setting(60.0, "timeout of one Slurm command", 1.0)
    slurm_bytes: int = _setting(256 * 2**20, "maximum size of one answer from Slurm", 1024)
    slurm_format: str = _setting("auto", "json or text, which large clusters answer sooner; auto tries json first")
    slurm_commands: str = _setting("", "directory of Slurm's commands, if it is not on the PATH")

    kubernetes: str = _setting(
        "", "name of the Kubernetes cluster to poll for pods and nodes, as in agent.cluster; empty: none"
    )
    kubernetes_api: str = _setting("", "address of its API server; inside the cluster taken from the service account")
    kubernetes_token: str = _setting("", "file with the token for it; inside the cluster the account's own")
    kubernetes_ca: str = _setting("", "file with the CA certificates to trust; inside the cluster the account's")
    kubernetes_seconds: float = _setting(60.0, "how often the API server is polled", 1.0)
    kubernetes_timeout_seconds: float = _setting(30.0, "timeout of one request to the API server", 1.0)
    kubernetes_bytes: int = _setting(64 * 2**20, "maximum size of one answer from the API server", 1024)
    kubernetes_user_labels: tuple[str, ...] = _setting(
        ("gpuledger/user", "hub.jupyter.org/username", "workflows.argoproj.io/creator"),
        "labels of pods and their owners that name the user; the first one present counts",
    )
    kubernetes_project_labels: tuple[str, ...] = _setting(
        ("gpuledger/project", "app.kubernetes.io/part-of"),
        "labels that name the project; the first one present counts",
    )
    kubernetes_labels: tuple[str, ...] = _setting(
        (), "additional labels of pods and their owners to keep; all others are ignored"
    )
    kubernetes_rack_labels: tuple[str, ...] = _setting(
        (), "node labels that name the rack, tried before those that clouds and NVIDIA set"
    )
    kubernetes_block_labels: tuple[str, ...] = _setting(
        (), "node labels that name the block, tried before those that clouds and NVIDIA set"
    )

    def __post_init__(self) -> None:
        self.address  # noqa: B018  a bad one is found at the start
        self.kept_tables  # noqa: B018
        for key, name in (("slurm", self.slurm), ("kubernetes", self.kubernetes)):
            if name and not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise ConfigError(f"collector.{key} is {name!r}: a name has letters, digits, dots, - and _")
        if self.kubernetes_api and not re.match(r"https?://[^/]", self.kubernetes_api):
            raise ConfigError(
                f"collector.kubernetes_api is {self.kubernetes_api!r}: not an address like https://host:6443"
            )
        for key, words in _WORDS.items():
            if (given := getattr(self, key)) not in words:
                raise ConfigError(f"collector.{key} is {given!r}: not {', '.join(words[:-1])} or {words[-1]}")
        weak = [token for token in self.tokens if len(token) < _MIN_TOKEN]
        if weak:
            raise ConfigError(f"collector.tokens: a token has fewer than {_MIN_TOKEN} characters; use a longer one")
        self._require_lake()
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("collector.tls_certificate and collector.tls_key go together; one of them is missing")

    def _require_lake(self) -> None:
        """Refuse what names no lake, before anything is opened: DuckDB and libpq would guess, or repeat passwords."""
        for secret in (*self.tokens, self.s3_secret):
            never_say(secret)
        address = self.lake.removeprefix(SHARED)
        if self.lake not in ("", NO_LAKE):
            for password in _passwords(address):
                never_say(password)
            if address == self.lake or not _CONNECTION.fullmatch(address):
                raise ConfigError(
                    "collector.lake is not an address of a lake: use postgres:dbname=... host=..., with quotes around "
                    "a value that has spaces, postgres:postgresql://user@host/name, none, or leave it empty"
                )
            if not self.data:
                raise ConfigError(
                    "collector.data is missing: several collectors need a folder or an s3:// address that all of them "
                    "reach"
                )
        if "://" in self.data and not _BUCKET.fullmatch(self.data):
            raise ConfigError(f"collector.data is {self.data!r}: not a folder or an address like s3://bucket/prefix")
        if self.s3_endpoint and not _ENDPOINT.fullmatch(self.s3_endpoint):
            raise ConfigError(
                "collector.s3_endpoint is not an address such as https://s3.example:9000: it needs http:// or "
                "https://, and has neither a path nor a password"
            )

    @property
    def kept_tables(self) -> dict[str, int]:
        """For how many days the tables of `keep_days` are kept."""
        return dict(kept_days(text) for text in self.keep_days)

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
    _refuse_secrets(flags or {})
    values = _from_file(file) if file else {}
    prefixed = {
        name.removeprefix(_ENVIRONMENT): text for name, text in environment.items() if name.startswith(_ENVIRONMENT)
    }
    values |= {name.lower(): text for name, text in prefixed.items()}
    values |= {name: text for name, text in (flags or {}).items() if text is not None}
    known = {spec.name: spec for spec in fields(CollectorConfig)}
    for name in values:
        if name in _MOVED:
            raise ConfigError(f"collector.{name} is not a setting anymore; use {_MOVED[name]}")
        if name not in known:
            raise ConfigError(f"collector.{name} is not a setting{_nearest(name, known)}")
    return CollectorConfig(**{name: _value(known[name], value) for name, value in values.items()})


def settings_file(store: Path, config: Path | None) -> Path | None:
    """Return the settings that somebody named, else those that lie beside a store; None where there are none."""
    beside = store.parent / SETTINGS_NAME
    return config or (beside if beside.exists() else None)


def settings_of_store(
    store: Path | None,
    config: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str | None] | None = None,
) -> tuple[CollectorConfig, Path | None]:
    """Return what the server of a store runs with, and its file: that of --config, or the one that lies beside it.

    Whoever opens a store takes its lake from here, so that a command and the server never mean two.

    Raises:
        ConfigError: as load().
    """
    named = dict(flags or {}) | ({"store": str(store)} if store is not None else {})
    file = config or settings_file(load(None, environment, named).store, None)
    return load(file, environment, named), file


def _refuse_secrets(flags: Mapping[str, str | None]) -> None:
    for name in SECRETS:
        if flags.get(name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is not accepted as a flag, which every user of this host could read (ps): "
                f"put it into {_ENVIRONMENT}{name.upper()}, or as {TABLE}.{name} in a settings file"
            )
    if _PASSWORD.search(flags.get("lake") or ""):
        raise ConfigError(
            f"--lake must not contain a password, which every user of this host could read (ps): put the address into "
            f"{_ENVIRONMENT}LAKE, or the password into the file that PGPASSFILE names"
        )


def settings() -> dict[str, tuple[str, str]]:
    """Return of every key its default and its help, as texts."""
    return {
        spec.name: ("" if spec.default == () else str(spec.default), spec.metadata["help"])
        for spec in fields(CollectorConfig)
    }


def _from_file(file: Path) -> dict[str, Any]:
    try:
        content = toml_said(read_bounded(file, TOML_BYTES_MOST))
    except OSError as error:
        raise ConfigError(f"cannot read the settings {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the settings {file} are not TOML: {error}") from error
    for name, value in content.items():  # other packages have tables of their own; a slip of the pen is not passed over
        if name != TABLE and not isinstance(value, dict):
            raise ConfigError(f"the settings {file} have {name} outside any table; put it below [{TABLE}]")
        if name != TABLE and get_close_matches(name, [TABLE], cutoff=0.8):
            raise ConfigError(f"the settings {file} have a table [{name}]; the nearest is [{TABLE}]")
    table = content.get(TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(f"the settings {file} have a value {TABLE} where a table [{TABLE}] is expected")
    return dict(table)


def _value(spec: Field[Any], given: object) -> Any:  # noqa: ANN401 - the type of the default
    """Return a setting's value in the type of its default; texts come from the environment and from flags."""
    try:
        value = _converted(type(spec.default), given)
    except (TypeError, ValueError) as error:
        wanted = {int: "a whole number", float: "a number", tuple: "a list of texts"}.get(type(spec.default), "a text")
        shown = "what was given" if spec.name in (*SECRETS, "lake") else repr(given)
        raise ConfigError(f"collector.{spec.name} is {shown}: not {wanted}") from error
    least = spec.metadata["least"]
    if least is not None and not value >= least:  # so that NaN is refused too
        raise ConfigError(f"collector.{spec.name} is {given!r}: must be at least {least:g}")
    return value


def _converted(kind: Any, given: object) -> Any:  # noqa: ANN401 - a type, and a value of it
    if kind is tuple:
        parts = given.split(",") if isinstance(given, str) else given
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise TypeError
        return tuple(part.strip() for part in parts if part.strip())
    if issubclass(kind, (str, Path)):
        if not isinstance(given, str) or (issubclass(kind, Path) and not given):
            raise TypeError
        return kind(given)
    if isinstance(given, bool) or not isinstance(given, (str, int) if kind is int else (str, int, float)):
        raise TypeError
    return kind(given)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    begins = [key for key in known if key.startswith(name)]  # beat: beat_seconds, and not kubelet
    close = begins or get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]}" if close else f"; known are {', '.join(known)}"


@lru_cache(maxsize=256)  # an agent says the same with every batch
def is_loopback(host: str) -> bool:
    """Return whether a host of an address is this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _passwords(address: str) -> Iterator[str]:
    """Yield the password of a catalogue's address as it is written there, and as libpq then says it."""
    for found in _SECRET_OF_ADDRESS.finditer(address):
        given = next(part for part in found.groups() if part is not None)
        yield from {given, unquote(given), re.sub(r"\\(.)", r"\1", given)}


def absent(path: Path | None) -> StoreError:
    """Return the one sentence that says so."""
    return StoreError(f"there is no store at {path}; create one with gpuledger serve --store or gpuledger demo --store")


def check_there(config: CollectorConfig) -> None:
    """See that there is a store where the settings say, or a lake that they share with other hosts.

    Raises:
        StoreError: there is neither.
    """
    if not config.store.exists() and not config.lake.startswith(SHARED):
        raise absent(config.store)
