"""What a request is judged by: the runs of a profile that it names; names, free GPUs, prices and what the team had."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.wire.units import DAY_MS, DAY_US, HOUR_MS
from analyzer.capacity.gate.decided import Rate
from analyzer.capacity.gate.request import DAYS_MOST, Request
from analyzer.capacity.profile.facts import CapacityProfile, Represented, StateHours
from analyzer.capacity.profile.signature import ReadProfile
from analyzer.errors import ConfigError
from analyzer.ledger.teams import team_book
from analyzer.period import micros
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Settings
from analyzer.text.words import gpu_hours, nearest, plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Policy
    from collector.registry import Registry
    from collector.store.session import Session

_NAMED = 5  # of what a profile has, in a message


@dataclass(frozen=True, slots=True)
class Work:
    """The runs that count, where their GPU time went, and whose they are.

    `is_known` False: nobody has said whose runs these are. `is_own` False: the profile does not say where the time of
    these runs went, so that `booked` is of all its runs. `judged` tells people what counts, where it is not all of it.
    """

    runs: tuple[Represented, ...]
    booked: tuple[StateHours, ...]
    measured: tuple[int, int]  # part and whole: GPU milliseconds, or the profile's own ratio in millionths
    is_known: bool
    is_own: bool
    judged: str

    @property
    def milliseconds(self) -> int:
        """GPU time of what is booked."""
        return sum(each.milliseconds for each in self.booked)

    @property
    def measured_milliseconds(self) -> int:
        """GPU time of it that was measured: what shares are of."""
        return self.of(lambda each: each.state != "unobserved")

    def of(self, which: Callable[[StateHours], bool]) -> int:
        """Return the GPU milliseconds of the bookings that are meant."""
        return sum(each.milliseconds for each in self.booked if which(each))


def work_of(request: Request, profile: CapacityProfile) -> Work:
    """Return the runs of the request's work; of runs of several teams those of the team that asks.

    Raises:
        ConfigError: the profile is of another team, or has no run of something that the request names.
    """
    if profile.team is not None and profile.team != request.team:
        raise ConfigError(f"the profile is of {plain(profile.team)}, the request of {plain(request.team)}")
    named = _named(request, profile)
    own = tuple(run for run in named if _team(run, profile) == request.team)
    runs = own or tuple(run for run in named if _team(run, profile) is None)
    if not runs:
        teams = ", ".join(sorted({plain(run.team or "") for run in named})[:_NAMED])
        raise ConfigError(f"the profile's runs of this work are of {teams}, the request of {plain(request.team)}")
    return _work(request, profile, runs, is_known=bool(own))


def _is_named(run: Represented, word: str) -> bool:
    """Say whether a word of a request means a run: its name, its id, the end of its id."""
    return word in (run.name, run.run_id, run.run_id.rpartition("/")[2])


def _team(run: Represented, profile: CapacityProfile) -> str | None:
    return run.team or profile.team


def _named(request: Request, profile: CapacityProfile) -> tuple[Represented, ...]:
    """Return the runs that the request's words mean; a word that names no run may be a stage: "fine-tuning"."""
    found: set[Represented] = set()
    for word in request.work:
        meant = [run for run in profile.runs if _is_named(run, word)] or [
            run for run in profile.runs if run.stage == word
        ]
        if not meant:
            had = sorted({plain(run.name or run.run_id) for run in profile.runs})[:_NAMED]
            told = f"it has {', '.join(had)}" if had else "it has no runs"
            raise ConfigError(f"the profile has no run of {plain(word)}: {told}")
        found.update(meant)
    return tuple(run for run in profile.runs if run in found)


def _work(request: Request, profile: CapacityProfile, runs: tuple[Represented, ...], *, is_known: bool) -> Work:
    is_all = len(runs) == len(profile.runs)
    is_own = is_all or all(run.booked or not run.milliseconds for run in runs)
    if is_all or not is_own:
        millionths = round(profile.measured_ratio * 10**6)
        return Work(
            runs, profile.booked, (millionths, 10**6), is_known, is_own, _judged(request, profile, runs, is_own)
        )
    booked = tuple(each for run in runs for each in run.booked)
    whole = sum(each.milliseconds for each in booked)
    measured = sum(each.milliseconds for each in booked if each.state != "unobserved")
    return Work(runs, booked, (measured, whole), is_known, is_own, _judged(request, profile, runs, is_own))


def _judged(request: Request, profile: CapacityProfile, runs: Sequence[Represented], is_own: bool) -> str:
    """Say which part of the profile counts; nothing where all of it does."""
    if len(runs) == len(profile.runs):
        return ""
    hours = sum(run.milliseconds for run in runs)
    decimals = 0 if profile.milliseconds >= 100 * HOUR_MS else 1
    told = (
        f"{len(runs):,} of the {len(profile.runs):,} runs of the profile, {gpu_hours(hours, decimals)} of its "
        f"{gpu_hours(profile.milliseconds, decimals)} GPU-hours: {', '.join(map(plain, request.work[:_NAMED]))} of "
        f"{plain(request.team)}"
    )
    return told if is_own else f"{told}; where the time went is known only for all runs together"


_LISTED_MOST = 8


@dataclass(frozen=True, slots=True)
class Names:
    """What a site knows: teams of its teams file and its ledger, kinds of GPU of its ledger and its price file.

    `told` are the teams whose names whoever asks may read, `timezone` is whose days the site follows.
    """

    teams: frozenset[str]
    told: frozenset[str]
    skus: frozenset[str]
    timezone: str


def check_known(request: Request, read: ReadProfile | None, names: Names | None, now_us: int) -> None:
    """Refuse a request for what nobody knows. Without a site (`names` None) the profile alone says what there is.

    An unknown team would have neither a history nor earlier pilots, whatever GPUs its members had under another name.

    Raises:
        ConfigError: the team or the kind of GPU is unknown, or the first day is past or years away.
    """
    if names is not None and request.team not in names.teams and not _is_vouched(request.team, read):
        told = _nearest(request.team, names.told)
        raise ConfigError(
            f"'team' is {plain(request.team)}, which is neither in the teams file nor in the ledger{told or _NO_TEAM}"
        )
    skus = (names.skus if names else frozenset()) | (_skus(read.profile) if read else frozenset())
    if skus and request.sku not in skus:
        raise ConfigError(
            f"'sku' is {plain(request.sku)}, and no GPU of the fleet, the price file or the profile has that "
            f"name{_nearest(request.sku, skus)} (a type that is yet to be bought needs a row in the price file)"
        )
    _check_start(request, _timezone(read, names), now_us)


_NO_TEAM = ": a rule of the teams file makes one known"


def _is_vouched(team: str, read: ReadProfile | None) -> bool:
    """Whether a collector that the policy trusts has signed that there is such a team: it took it of its own ledger."""
    if read is None or not read.valid or read.profile.made.by != "collector":
        return False
    return team == read.profile.team or any(team == run.team for run in read.profile.runs)


def _skus(profile: CapacityProfile) -> frozenset[str]:
    told = (profile.runs, profile.memory, profile.alternatives, profile.holdings, profile.free)
    return frozenset(each.sku for part in told for each in part if each.sku is not None)


def _nearest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {plain(near[0])}?"
    listed = ", ".join(plain(each) for each in sorted(known)[:_LISTED_MOST])
    return f"; known are {listed}{' and others' if len(known) > _LISTED_MOST else ''}" if known else ""


def _timezone(read: ReadProfile | None, names: Names | None) -> str:
    if names is not None:
        return names.timezone
    return read.profile.timezone if read is not None else "UTC"


def _check_start(request: Request, timezone: str, now_us: int) -> None:
    today = datetime.fromtimestamp(now_us // 1_000_000, UTC).astimezone(ZoneInfo(timezone)).date()
    starts = date.fromisoformat(request.starts)
    if starts < today:
        raise ConfigError(
            f"'starts' is {starts}, which is in the past: today is {today} ({timezone}); ask for GPUs from then on"
        )
    if (starts - today).days > DAYS_MOST:
        raise ConfigError(f"'starts' is {starts}, more than {DAYS_MOST // 364} years from today ({today})")


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """GPUs of the asked kind that nobody held on the day with the fewest of them."""

    gpus: int
    day: str  # ISO date


@dataclass(frozen=True, slots=True)
class History:
    """What a team did before: its GPU milliseconds in the days that the policy looks back, and its earlier pilots.

    `pilots` None is not looked up: without a registry nobody knows. They are counted from `since_us` on.
    """

    milliseconds: int
    pilots: int | None
    told: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Supply:
    """What a request is priced and compared with. None is unknown, and the decision then says so."""

    free: FreeGpus | None = None
    rate: Rate | None = None
    history: History | None = None
    names: Names | None = None


def completed(known: Supply, request: Request, profile: CapacityProfile | None) -> Supply:
    """Return the site's price, else the profile's; the profile's free GPUs, which its page shows, else the site's."""
    if profile is None:
        return known
    return replace(known, free=_free(request, profile) or known.free, rate=known.rate or _rate(request, profile))


def _free(request: Request, profile: CapacityProfile) -> FreeGpus | None:
    told = [each for each in profile.free if each.sku == request.sku]
    return FreeGpus(max(0, told[0].lowest_gpus), told[0].lowest_day) if len(told) == 1 else None


def _rate(request: Request, profile: CapacityProfile) -> Rate | None:
    """Return what the profile's own runs on this kind cost an hour, else what it says of the kind as another choice."""
    paid = [(run.micros, run.milliseconds) for run in profile.runs if run.sku == request.sku and run.milliseconds > 0]
    if paid and all(micros is not None for micros, _ in paid):
        micros, milliseconds = sum(micros or 0 for micros, _ in paid), sum(each for _, each in paid)
        return Rate(nearest(micros * HOUR_MS, milliseconds), "by the profile", profile.currency)
    for each in profile.alternatives:
        if each.sku == request.sku and each.micros_per_gpu_hour is not None:
            return Rate(each.micros_per_gpu_hour, "by the profile", profile.currency)
    return None


# The last seven days whose every hour is in the ledger (a week has its quiet days and its busy ones), and the time in
# which nobody held a GPU of a kind that could be had.
_FREE = """
    WITH days AS (
        SELECT hour // 86400000000 AS day FROM ledger_hours GROUP BY day HAVING count(*) = 24 ORDER BY day DESC LIMIT 7
    ), free AS (
        SELECT hour // 86400000000 AS day, sum(milliseconds)::BIGINT AS milliseconds FROM ledger
        WHERE sku = ? AND state = 'unallocated' AND cause = 'free' GROUP BY day
    )
    SELECT day, coalesce(milliseconds, 0) FROM days LEFT JOIN free USING (day) ORDER BY 2, 1 DESC LIMIT 1
"""
_OWNED = "SELECT count(*) FROM ledger WHERE sku = ?"
_OPTION = """
    SELECT purchase_option FROM ownership WHERE sku = ? AND purchase_option IS NOT NULL
    GROUP BY purchase_option ORDER BY count(*) DESC, purchase_option LIMIT 1
"""
_TEAMS = "SELECT DISTINCT team FROM runs WHERE team IS NOT NULL"
_SKUS = """
    SELECT sku FROM (SELECT sku FROM ownership UNION SELECT sku FROM inventory) WHERE sku IS NOT NULL
"""
_HELD = """
    SELECT coalesce(sum(milliseconds), 0)::BIGINT FROM ledger WHERE hour >= ? AND run_id IN (
        SELECT run_id FROM runs WHERE team = ?
    )
"""


def supply_of(
    session: "Session",
    settings: Settings,
    registry: "Registry | None",
    request: Request,
    policy: "Policy",
    identity: str,
    now_us: int,
    sees: Callable[[str], bool] = lambda _: True,
) -> Supply:
    """Return what the ledger, the price file and the registry say; `identity` is the id of the request itself.

    `sees` says of a team whether whoever asks may read its name.
    """
    return Supply(
        free=_free_of(session, request.sku),
        rate=_rate_of(session, settings, request),
        history=_history_of(session, registry, request, policy, identity, now_us),
        names=_names_of(session, settings, sees),
    )


def _names_of(session: "Session", settings: Settings, sees: Callable[[str], bool]) -> Names:
    """Return the teams and the kinds of GPU that this site knows."""
    ruled = {rule.team.name for rule in team_book(settings).rules}
    teams = frozenset(ruled | {team for (team,) in session.rows(_TEAMS)})
    book = price_book(settings)
    priced = {row.subject[0] for row in (*book.rows, *book.derived)}
    skus = {sku for sku in priced if sku is not None} | {sku for (sku,) in session.rows(_SKUS)}
    return Names(teams, frozenset(filter(sees, teams)), frozenset(skus), settings.timezone)


def _free_of(session: "Session", sku: str) -> FreeGpus | None:
    """Return the GPUs of a kind that were free on the day with the fewest, None where the ledger has no such kind."""
    if not session.row(_OWNED, [sku])[0]:
        return None
    rows = session.rows(_FREE, [sku])
    if not rows:
        return None
    day, milliseconds = rows[0]
    return FreeGpus(milliseconds // DAY_MS, datetime.fromtimestamp(day * DAY_US // 1_000_000, UTC).date().isoformat())


def _rate_of(session: "Session", settings: Settings, request: Request) -> Rate | None:
    """Return the price of the first day; of the purchase option that is asked for, else of the one that most have."""
    option = request.purchase_option
    if option is None:
        owned = session.rows(_OPTION, [request.sku])
        option = owned[0][0] if owned else None
    starts = datetime.combine(datetime.fromisoformat(request.starts), time(), tzinfo=ZoneInfo(settings.timezone))
    price = price_book(settings).price(request.sku, option, micros(starts))
    if price is None:
        return None
    return Rate(price.micros_per_gpu_hour, price.option or price.source, settings.currency)


def _history_of(
    session: "Session", registry: "Registry | None", request: Request, policy: "Policy", identity: str, now_us: int
) -> History:
    """Return what the team held in the days that the policy looks back, and its earlier pilots.

    Raises:
        ConfigError: the site forgets requests before the policy has done looking back for them.
    """
    if registry is not None and registry.capacity.bounds.days < policy.pilot.within_days:
        raise ConfigError(
            f"the policy looks back {policy.pilot.within_days} days for pilots, and requests are kept for "
            f"{registry.capacity.bounds.days} (capacity_days): make that as many"
        )
    since = now_us - policy.pilot.within_days * DAY_US
    (milliseconds,) = session.row(_HELD, [since, request.team])
    pilots = None if registry is None else registry.capacity.pilots(request.team, since, identity)
    return History(milliseconds, pilots, f"the ledger, {policy.pilot.within_days} days", since)
