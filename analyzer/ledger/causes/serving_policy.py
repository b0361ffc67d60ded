"""What a service has to keep in reserve: its declared policy, its requests, and what of its replicas is beyond.

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
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from agent.wire.units import HOUR_MS, MICROS
from analyzer.errors import ConfigError
from analyzer.ledger.teams import CONDITIONS, RunIdentity, fits_all, patterns_of
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.period import WINDOW_MS
from analyzer.queries.ledger_query import labels_of
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import between, fixed, optional, read_rows, since, toml_file, toml_key, until
from collector.store.session import Session

_LONGEST_LOOK_BACK_HOURS = 168  # a week: services follow the hours of the day and the days of the week


def _positive(entry: TomlEntry, key: str) -> int:
    value = entry.micros(key)
    if not value:
        raise ConfigError(f"{entry.where}: {key!r} must be more than 0")
    return value


def _share(entry: TomlEntry, key: str) -> int:
    value = _positive(entry, key)
    if value > MICROS:
        raise ConfigError(f"{entry.where}: {key!r} is a share of time: it must not exceed 1")
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


_FOR_GOOD = 2**62


@dataclass(frozen=True, slots=True)
class Service:
    """Runs that answer the same requests. `rows` are empty where nobody declared a policy."""

    name: str
    run_ids: tuple[str, ...]
    rows: tuple[Policy, ...]


_ServiceKey = tuple[str, str, tuple[Policy, ...]]  # account, name, rows


def find_services(session: Session, book: PolicyBook) -> list[Service]:
    """Return the services by name, and fill the temporary tables `service_runs` and `service_policies`.

    Runs of one name and account are replicas of one service, or those that one row calls so. Reads `run_summary` and
    `run_facts`, which analyzer.ledger.run_facts makes.
    """
    members: dict[_ServiceKey, list[tuple[str, int]]] = defaultdict(list)
    for run_id, rid, name, account, owner, project, queue, labels, started_us in session.rows(
        """
        SELECT run_id, rid, name, account, owner, project, queue, labels, started_us
        FROM run_summary JOIN run_facts USING (rid) WHERE is_service ORDER BY run_id
        """
    ):
        identity = RunIdentity(run_id, started_us, account, owner, queue, project, name, labels_of(labels))
        rows = book.of(identity)
        called = next((row.service for row in rows if row.service is not None), None)
        key = ("", called, rows) if called else (account or "", name or run_id, rows)
        members[key].append((run_id, rid))
    _store(session, members)
    return [
        Service(name, tuple(run_id for run_id, _ in members[account, name, rows]), rows)
        for account, name, rows in sorted(members, key=lambda key: (key[1], key[0], members[key]))
    ]


def _store(session: Session, members: dict[_ServiceKey, list[tuple[str, int]]]) -> None:
    """Fill the tables by which SQL knows services: whose replicas to count, and what each promises, and when."""
    session.execute("CREATE OR REPLACE TEMP TABLE service_runs (rid BIGINT, sid BIGINT, is_declared BOOLEAN)")
    session.execute(
        "CREATE OR REPLACE TEMP TABLE service_policies (rid BIGINT, from_us BIGINT, until_us BIGINT, slo_micros BIGINT)"
    )
    session.without_rows |= {"service_runs", "service_policies"}  # until they are loaded
    runs_of = [(rid, sid, bool(key[2])) for sid, (key, runs) in enumerate(members.items(), 1) for _, rid in runs]
    session.load("service_runs", ("rid", "sid", "is_declared"), runs_of)
    promises = [
        (rid, starts_at, ends_at, slo)
        for key, runs in members.items()
        for starts_at, ends_at, slo in _promises(key[2])
        for _, rid in runs
    ]
    session.load("service_policies", ("rid", "from_us", "until_us", "slo_micros"), promises)


def _promises(rows: tuple[Policy, ...]) -> list[tuple[int, int, int]]:
    """Return the spans in which a row's promise holds; the first row in force counts, so that none overlap."""
    edges = sorted({at for row in rows for at in (row.starts_at, row.ends_at) if at is not None})
    found = []
    for starts_at, ends_at in pairwise([*edges, _FOR_GOOD]):
        row = next((row for row in rows if row.is_in_force(starts_at)), None)
        if row is not None and row.slo_micros is not None:
            found.append((starts_at, ends_at, row.slo_micros))
    return found


Span = tuple[int, int]  # [from_ms, until_ms)


def idle_spans(requests: Sequence[Span], gpus: Iterable[Sequence[Span]], at_least_ms: int) -> list[Span]:
    """Return the spans in which no request was answered and every GPU was quiet, those of `at_least_ms` and more.

    Each sequence is of disjoint spans in order of time. Without one for the requests, nothing is known to be idle.
    """
    common = list(requests)
    for quiet in gpus:
        common = _both(common, quiet)
    return [span for span in common if span[1] - span[0] >= at_least_ms]


def overlap_ms(spans: Iterable[Span], from_ms: int, until_ms: int) -> int:
    """Return how much of [from_ms, until_ms) disjoint spans cover, milliseconds."""
    return sum(max(0, min(end, until_ms) - max(start, from_ms)) for start, end in spans)


def _both(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    found, at, beside = [], 0, 0
    while at < len(one) and beside < len(other):
        start, end = max(one[at][0], other[beside][0]), min(one[at][1], other[beside][1])
        if start < end:
            found.append((start, end))
        if one[at][1] < other[beside][1]:
            at += 1
        else:
            beside += 1
    return found


@dataclass(frozen=True, slots=True)
class Use:
    """What one run of a service did in one window: the counts of its RunWindow, or of one that was kept."""

    ms: int  # of its GPUs
    gpus: int
    still: int  # permille
    replicas: int
    requests: int | None = None
    requests_ms: int | None = None  # of replicas whose count was read

    @classmethod
    def of(cls, window: RunWindow, policy: Policy) -> "Use":
        """Return what a window counted, with its replicas as the policy or the scheduler tells them apart."""
        replicas = replicas_of(window.gpus, window.members, policy)
        return cls(window.ms, window.gpus, window.still, replicas, window.requests, window.requests_ms)

    @property
    def there_ms(self) -> int:
        """Milliseconds of its replicas."""
        return self.ms * self.replicas // self.gpus

    @property
    def busy_ms(self) -> int:
        """Milliseconds of its replicas with a kernel."""
        return self.ms * (1000 - self.still) * self.replicas // (1000 * self.gpus)


def replicas_of(gpus: int, members: int | None, policy: Policy) -> int:
    """Return how many replicas a run's GPUs make up: as declared, as its scheduler tells them apart, or one."""
    if policy.gpus_per_replica is not None:
        return -(-gpus // policy.gpus_per_replica)
    return members or 1


def needed(uses: Sequence[Use], policy: Policy, limits: Thresholds) -> int | None:
    """Return the replicas that the traffic of one window needs; None where it is not known.

    `uses` are all runs of the service. What was not read of a replica's requests is taken to be like what was, up to a
    fifth of the time.
    """
    wanted = MICROS + policy.standby_micros
    if policy.requests_per_second_micros is None:
        busy_ms = sum(use.busy_ms for use in uses)
        return _ceiling(busy_ms * wanted, WINDOW_MS * (policy.busy_micros or MICROS))
    there_ms = sum(use.there_ms for use in uses)
    read_ms = sum(use.requests_ms or 0 for use in uses)
    if read_ms == 0 or read_ms * 1000 < there_ms * limits.covered_permille:
        return None
    requests = sum(use.requests or 0 for use in uses) * max(there_ms, read_ms)
    each = read_ms * WINDOW_MS * policy.requests_per_second_micros  # what one replica answers in the window
    return _ceiling(requests * 1000 * wanted, each)


@dataclass(frozen=True, slots=True)
class Need:
    """What a service's policy asks for in one window. `traffic` is None where too little of the look-back is known."""

    minimum: int
    traffic: int | None

    @property
    def replicas(self) -> int | None:
        """The replicas that may stand by, or None: not evaluated."""
        return None if self.traffic is None else max(self.minimum, self.traffic)


def needs(
    windows: Iterable[int],
    uses: Mapping[int, Sequence[Use]],
    held: Mapping[str, Sequence[Span]],
    policy: Policy,
    limits: Thresholds,
) -> dict[int, Need]:
    """Return the need in each of these windows, from what the service did in them and before.

    `uses` are by window, `held` the spans in which each of its runs held a GPU: time without any, once there was a
    first, is time that needed none. Where more than a fifth of the look-back is not known, nobody knows its peak.
    """
    wanted = set(windows)
    if not wanted:
        return {}
    back = policy.look_back_hours * HOUR_MS // WINDOW_MS
    every = range(min(wanted) - back * WINDOW_MS, max(wanted) + WINDOW_MS, WINDOW_MS)
    holding = _holding(every, held)
    first = min((span[0] for spans in held.values() for span in spans), default=every.stop)
    known: dict[int, int | None] = {}
    for at in every:
        some, throughout = holding.get(at, (0, 0))
        seen = len(uses.get(at, ()))
        if some == 0 and at >= first:
            known[at] = 0
        elif seen == 0 or seen * 1000 < throughout * limits.covered_permille:
            known[at] = None  # runs that were there and not seen may have done anything
        else:
            known[at] = needed(uses[at], policy, limits)
    return {at: found for at, found in _sliding(known, back, policy, limits) if at in wanted}


def _sliding(known: Mapping[int, int | None], back: int, policy: Policy, limits: Thresholds) -> list[tuple[int, Need]]:
    """Return the need at each window: the most of it and of those in its look-back."""
    highest: deque[tuple[int, int]] = deque()  # falling needs, with their windows
    found, unknown, order = [], 0, list(known)
    for place, at in enumerate(order):
        now = known[at]
        unknown += now is None
        if place > back:
            unknown -= known[order[place - back - 1]] is None
        while highest and highest[0][1] < at - back * WINDOW_MS:
            highest.popleft()
        while now is not None and highest and highest[-1][0] < now:
            highest.pop()
        if now is not None:
            highest.append((now, at))
        is_known = now is not None and unknown * 1000 <= (back + 1) * (1000 - limits.covered_permille)
        found.append((at, Need(policy.minimum_replicas, highest[0][0] if is_known else None)))
    return found


def _holding(windows: range, held: Mapping[str, Sequence[Span]]) -> dict[int, tuple[int, int]]:
    """Return how many runs held a GPU in each window at all, and how many throughout."""
    some: Counter[int] = Counter()
    throughout: Counter[int] = Counter()
    for spans in held.values():
        touched: set[int] = set()
        filled: set[int] = set()
        for from_ms, until_ms in spans:
            low, high = max(windows.start, from_ms // WINDOW_MS * WINDOW_MS), min(windows.stop, until_ms)
            touched.update(range(low, high, WINDOW_MS))
            filled.update(at for at in range(low, high, WINDOW_MS) if from_ms <= at and at + WINDOW_MS <= until_ms)
        some.update(touched)
        throughout.update(filled)
    return {at: (some[at], throughout[at]) for at in some}


def _ceiling(part: int, whole: int) -> int:
    return -(-part // whole)


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica in one window. `there_ms` is its own time; the others are sums over its GPUs."""

    run_id: str
    name: str
    there_ms: int
    gpu_ms: int
    still_ms: int
    idle_ms: int = 0  # of still_ms: in spans long enough for an abandoned GPU, without a request


@dataclass(frozen=True, slots=True)
class Excess:
    """Permille of a stand-still in one window that are no reserve: beyond the policy, idle for long, with requests."""

    beyond_permille: int = 0
    idle_permille: int = 0
    asked_permille: int = 0


def surplus(replicas: Sequence[Replica], needed: int, span_ms: int) -> dict[Replica, Excess]:
    """Return by replica what of its stand-still exceeds a policy that asks for `needed` throughout `span_ms`.

    The least used are surplus first, ties by run id and name. Replicas that were there for a part of the time (a
    roll-out shows both generations) count by it, so that the last one may be surplus for a part. Only stand-still is
    taken: what a surplus replica answered was work.
    """
    left_ms = sum(replica.there_ms for replica in replicas) - needed * span_ms
    found: dict[Replica, Excess] = {}
    for replica in sorted(replicas, key=_use):
        taken_ms = min(replica.there_ms, left_ms)
        if taken_ms <= 0:
            break
        left_ms -= taken_ms
        if replica.still_ms:
            still_ms = replica.still_ms * taken_ms // replica.there_ms
            idle_ms = min(still_ms, replica.idle_ms * taken_ms // replica.there_ms)
            found[replica] = Excess((still_ms - idle_ms) * 1000 // replica.still_ms, idle_ms * 1000 // replica.still_ms)
    return found


def _use(replica: Replica) -> tuple[int, str, str]:
    return (replica.gpu_ms - replica.still_ms) * 1000 // max(1, replica.gpu_ms), replica.run_id, replica.name
