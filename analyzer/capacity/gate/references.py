"""What a request names must be there: its team, its kind of GPU, and a first day that is not past.

An unknown team would have neither a history nor earlier pilots, whatever GPUs its members had under another name.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from zoneinfo import ZoneInfo

from analyzer.capacity.gate.request import DAYS_MOST, Request
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.read import ReadProfile
from analyzer.errors import ConfigError
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
