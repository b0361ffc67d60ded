"""What an alarm is, and which findings and notices are one. Pure: no clock, no store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice

OPEN_MOST = 1000  # at once; beyond it the dearest count
# What must not wait for a floor or a day's limit: a GPU is gone, a host is dark, a run burns money and moves nothing.
_URGENT_FINDINGS = (("broken", "gpu_lost"), ("communicating", "hang"))
_URGENT_NOTICES = ("fleet/ecc/xid", "fleet/silent_agents/silent", "fleet/silent_agents/never_seen")


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing to hear of. Its id is the finding's or the notice's, and so the same as long as it lasts."""

    id: str
    rule: str
    urgent: bool
    team: str | None
    subject: str
    sentence: str
    action: str | None  # what to do about it: a recommendation, or what the notice asks for
    link: str | None  # its page
    since: int  # microseconds UTC
    at_stake_micros: int | None


@dataclass(frozen=True, slots=True)
class Floor:
    """From how much on a finding is told: money, or GPU time where no price is known."""

    micros: int
    milliseconds: int

    @classmethod
    def of(cls, least: int, least_gpu_hours: int) -> "Floor":
        """Return the floor of whole units of a currency, and of GPU-hours."""
        return cls(least * MICROS, least_gpu_hours * HOUR_MS)


def alarming(found: Iterable[Finding], quiet: Callable[[str], bool], floor: Floor) -> list[Finding]:
    """Return the findings to tell of, the urgent and the dearest first; `quiet` says which somebody has answered."""
    chosen = [
        each
        for each in found
        if each.still_open and not each.suspicion and not quiet(each.id) and (is_urgent(each) or _weighs(each, floor))
    ]
    return sorted(chosen, key=lambda each: (not is_urgent(each), -(each.at_stake_micros or 0), -each.milliseconds))[
        :OPEN_MOST
    ]


def is_urgent(finding: Finding) -> bool:
    """Return whether it is told whatever it costs."""
    return (finding.state, finding.cause) in _URGENT_FINDINGS


def _weighs(finding: Finding, floor: Floor) -> bool:
    """Whether it is sure, and dear enough: a guess that wakes somebody is the last that he reads."""
    if finding.confidence != "high":
        return False
    if finding.at_stake_micros is None:
        return finding.milliseconds >= floor.milliseconds
    return finding.at_stake_micros >= floor.micros


def urgent_notices(noticed: Iterable[Notice]) -> list[Notice]:
    """Return the notices that are told."""
    return [each for each in noticed if each.rule in _URGENT_NOTICES and each.confidence == "high"][:OPEN_MOST]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is new since the last look: to be remembered, to be said, and what is over."""

    opened: tuple[Alarm, ...]
    said: tuple[Alarm, ...]
    ended: tuple[str, ...]


def turn(now: Sequence[Alarm], known: Mapping[str, bool], said_today: Callable[[str | None], int], a_day: int) -> Turn:
    """Return what changes: each is said once, of a team at most `a_day` a day, in their order; the urgent always.

    `known` are the ids that lasted at the last look, and whether each was said: some were held back by their team's
    limit. `said_today` counts what was said of a team today, the urgent ones aside.
    """
    left: dict[str | None, int] = {}
    said = []
    for alarm in now:
        if known.get(alarm.id):
            continue
        if not alarm.urgent:
            room = left.setdefault(alarm.team, a_day - said_today(alarm.team))
            if room <= 0:
                continue
            left[alarm.team] = room - 1
        said.append(alarm)
    present = {alarm.id for alarm in now}
    return Turn(
        tuple(alarm for alarm in now if alarm.id not in known),
        tuple(said),
        tuple(sorted(known.keys() - present)),
    )
