"""What people say of findings: right, wrong or planned, and mutes that end. Pure: what is allowed, what was said last.

`planned` means right, and accepted: nobody will change it, and it counts as right. `wrong` changes no second of the
ledger, which says what was measured; it is counted against the rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from analyzer.errors import ConfigError
from analyzer.period import Period, local, micros

Verdict = Literal["right", "wrong", "planned"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
BECAUSE_MAX = 500
MUTE_DAYS_MAX = 90  # a quarter: long enough for a planned change, short enough that somebody looks again (our choice)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a finding said when it was judged: kept, so that a later analysis does not change what was judged."""

    finding_id: str
    subject: str
    team: str | None
    state: str
    cause: str
    confidence: str
    milliseconds: int
    cost_micros: int | None
    rules_version: str
    rule_version: str | None = None  # of the rule itself, as the store knows it of that version of all

    @property
    def rule(self) -> str:
        """The rule that said it."""
        return f"{self.state}/{self.cause}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One word on one finding in one period. `who` is a key's id, or cli: and the user of the machine."""

    judgement_id: str
    claim: Claim
    period_start: int
    period_end: int
    period_label: str
    verdict: Verdict
    because: str
    who: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Mute:
    """A finding that somebody does not want to see until a moment, microseconds UTC."""

    mute_id: str
    finding_id: str
    until: int
    because: str
    who: str
    recorded_at: int
    team: str | None


def verdict_of(word: str) -> Verdict:
    """Return the verdict that a word means.

    Raises:
        ConfigError: it is none of the three.
    """
    for verdict in VERDICTS:
        if word == verdict:
            return verdict
    raise ConfigError(f"a finding is judged {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}, not {word!r}")


def reason_of(text: str) -> str:
    """Return a reason as it is kept: one line, without control characters.

    Raises:
        ConfigError: it is empty or too long.
    """
    reason = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not reason:
        raise ConfigError('say why: --because "the augmentation is meant to be that heavy"')
    if len(reason) > BECAUSE_MAX:
        raise ConfigError(f"a reason has at most {BECAUSE_MAX} characters, this has {len(reason)}")
    return reason


def mute_until(text: str, timezone: str, now_us: int) -> int:
    """Return the moment that a date or a time means; of a date its end, in the site's time zone.

    Raises:
        ConfigError: it is no date, has passed, or is further away than a mute may last.
    """
    zone = ZoneInfo(timezone)
    try:
        if len(text) == len("2026-12-01"):
            until = micros(datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), tzinfo=zone))
        else:
            moment = datetime.fromisoformat(text)
            until = micros(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r} is no date to mute until: say 2026-12-01 or 2026-12-01T08:00") from error
    longest = local(now_us, timezone).date() + timedelta(days=MUTE_DAYS_MAX)
    if until <= now_us:
        raise ConfigError(f"{text} has passed: a mute ends in the future")
    if until > micros(datetime.combine(longest + timedelta(days=1), time(), tzinfo=zone)):
        raise ConfigError(
            f"{text} is too far: a mute lasts at most {MUTE_DAYS_MAX} days, until {longest}; say planned, with "
            "gpuledger findings judge, of what is to stay"
        )
    return until


def last_words(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the word that counts of each finding and period: the last, of words of one moment the later id."""
    ordered = sorted(judgements, key=lambda each: (each.recorded_at, each.judgement_id))
    return list({(one.claim.finding_id, one.period_start, one.period_end): one for one in ordered}.values())


def muted(mutes: Iterable[Mute], now_us: int) -> dict[str, Mute]:
    """Return the mutes that hold at a moment, by finding; the last word on a finding counts."""
    ordered = sorted(mutes, key=lambda each: (each.recorded_at, each.mute_id))
    last = {mute.finding_id: mute for mute in ordered}
    return {finding_id: mute for finding_id, mute in last.items() if mute.until > now_us}


def word_on(judgements: Iterable[Judgement], finding_id: str, period: Period) -> Judgement | None:
    """Return the word that counts on a finding in a period: on the period itself, else the last on one within it."""
    words = [one for one in last_words(judgements) if one.claim.finding_id == finding_id]
    exact = [one for one in words if (one.period_start, one.period_end) == (period.start, period.end)]
    within = [one for one in words if one.period_start < period.end and one.period_end > period.start]
    chosen = exact or within
    return chosen[-1] if chosen else None
