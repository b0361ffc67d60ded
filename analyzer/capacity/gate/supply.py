"""What a request is compared with: names that are known, free GPUs, an hour's price, and what the team had before."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from difflib import get_close_matches
from zoneinfo import ZoneInfo

from agent.wire.units import HOUR_MS
from analyzer.capacity.gate.decided import Rate
from analyzer.capacity.gate.request import DAYS_MOST, Request
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.read import ReadProfile
from analyzer.errors import ConfigError
from analyzer.text.rounding import nearest
from analyzer.text.words import plain

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
            f"'team' is {plain(request.team)}, which neither the teams file nor the ledger knows{told or _NO_TEAM}"
        )
    skus = (names.skus if names else frozenset()) | (_skus(read.profile) if read else frozenset())
    if skus and request.sku not in skus:
        raise ConfigError(
            f"'sku' is {plain(request.sku)}, and no GPU of the fleet, of the price file or of the profile is called "
            f"so{_nearest(request.sku, skus)} (a kind that is yet to be bought needs its row in the price file)"
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
            f"'starts' is {starts}, which is past: today is {today} ({timezone}), and GPUs are asked for from then on"
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
