"""What a service may keep in reserve, declared by its owner in dated rows.

    [[service]]
    name = "ranker-*"                 # shell patterns; every condition given must fit
    labels = { tier = "online" }      # optional, as are user, queue, project, account and namespace
    service = "ranker"                # optional: all that fit are replicas of one service; else runs of one name are
    minimum_replicas = 2              # kept whatever the traffic
    requests_per_second = 40          # what one replica answers within its SLO; or busy_ratio = 0.6
    standby_ratio = 0.25              # optional: beyond what the traffic needs
    slo_seconds = 0.25                # optional: first token, 99th percentile
    look_back_hours = 24              # optional: the traffic of its busiest ten minutes counts
    gpus_per_replica = 1              # optional: where the scheduler does not tell the replicas of a run apart
    from = 2026-01-01                 # UTC midnight, or a time with offset that is a whole UTC hour
    until = 2026-10-01                # optional, exclusive
    source = "load test of 2026-01-14"

The first row that fits and is in force counts. A service without a row keeps all of its reserve.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.ledger.teams import CONDITIONS, RunIdentity, fits_all, patterns_of
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import MICROS, TomlEntry
from analyzer.settings.toml_model import between, fixed, optional, read_rows, since, toml_file, toml_key, until

_LONGEST_LOOK_BACK_HOURS = 168  # a week: services follow the hours of the day and the days of the week


def _positive(entry: TomlEntry, key: str) -> int:
    value = entry.micros(key)
    if not value:
        raise ConfigError(f"{entry.where}: {key!r} must be more than 0")
    return value


def _share(entry: TomlEntry, key: str) -> int:
    value = _positive(entry, key)
    if value > MICROS:
        raise ConfigError(f"{entry.where}: {key!r} is a share of time, at most 1")
    return value


@dataclass(frozen=True, slots=True)
class Policy:
    """One dated row. Ratios, rates and seconds are in millionths; one of the two targets is None."""

    number: int = field(metadata=fixed(0))  # its place in the file
    patterns: Mapping[str, str] = field(hash=False, metadata=toml_key(*CONDITIONS, read=patterns_of))
    labels: Mapping[str, str] = field(hash=False)
    service: str | None
    minimum_replicas: int
    requests_per_second_micros: int | None = field(metadata=toml_key("requests_per_second", read=optional(_positive)))
    busy_micros: int | None = field(metadata=toml_key("busy_ratio", read=optional(_share)))
    standby_micros: int = field(metadata=toml_key("standby_ratio", read=optional(TomlEntry.micros, 0)))
    slo_micros: int | None = field(metadata=toml_key("slo_seconds", read=optional(_positive)))
    look_back_hours: int = field(metadata=toml_key(read=optional(between(1, _LONGEST_LOOK_BACK_HOURS), 24)))
    gpus_per_replica: int | None = field(metadata=toml_key(read=optional(between(1, 1_024))))
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str

    def __post_init__(self) -> None:
        if not self.patterns and not self.labels:
            raise ValueError(f"a service needs one of {', '.join(CONDITIONS)} or labels; '*' fits any value")
        if (self.requests_per_second_micros is None) == (self.busy_micros is None):
            raise ValueError("a service needs either 'requests_per_second' or 'busy_ratio'")

    def fits(self, run: RunIdentity) -> bool:
        """Say whether the row is about this run, whenever it is in force."""
        return fits_all(run, self.patterns, self.labels)

    def is_in_force(self, at_us: int) -> bool:
        """Say whether the row holds at this microsecond."""
        return self.starts_at <= at_us and (self.ends_at is None or at_us < self.ends_at)

    @property
    def words(self) -> str:
        """What evidence calls it: its row, since when it holds, and who says so."""
        since = datetime.fromtimestamp(self.starts_at / 1_000_000, UTC).date()
        return f"row {self.number}, since {since}: {self.source}"


@dataclass(frozen=True, slots=True)
class PolicyBook:
    """All rows in the file's order, and a digest of them that becomes part of the rules' version."""

    rows: tuple[Policy, ...] = ()
    version: str = ""

    @classmethod
    def read(cls, path: Path) -> "PolicyBook":
        """Read a services file.

        Raises:
            ConfigError: the file cannot be read, a key is unknown, or a row lacks condition, target, date or source.
        """
        with toml_file(path, ("service",)) as (file, mistakes):
            read = read_rows(file, "service", Policy, mistakes)
        rows = tuple(replace(row, number=number) for number, row in enumerate(read, 1))
        lines = json.dumps([asdict(row) for row in rows], sort_keys=True)
        return cls(rows, hashlib.sha256(lines.encode()).hexdigest()[:8])

    def of(self, run: RunIdentity) -> tuple[Policy, ...]:
        """Return the rows about this run in the file's order, in force or not."""
        return tuple(row for row in self.rows if row.fits(run))

    def rules_version(self, rules: str) -> str:
        """Return the version of rules that also judge by this file: where it changes, the ledger is made anew."""
        return f"{rules}+services.{self.version}" if self.rows else rules


def in_force(rows: tuple[Policy, ...], at_us: int) -> Policy | None:
    """Return the first of a run's rows that holds at this microsecond, or None."""
    return next((row for row in rows if row.is_in_force(at_us)), None)


def policy_book(settings: Settings) -> PolicyBook:
    """Read the services file of a site's settings; without one, no service has a policy.

    Raises:
        ConfigError: the file cannot be read.
    """
    return PolicyBook() if settings.services is None else PolicyBook.read(settings.services)
