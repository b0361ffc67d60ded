"""What people say of findings: right, wrong or planned, and mutes that end. Pure: what is allowed, what was said last.

`planned` means right, and accepted: nobody will change it, and it counts as right. `wrong` changes no second of the
ledger, which says what was measured; it is counted against the rule.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Annotated, ClassVar, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field

from analyzer.errors import ConfigError
from analyzer.period import Period, iso, local, micros
from analyzer.states import Confidence
from analyzer.text.json_fields import WHOLE, Iso, Micros, Milliseconds, Sentence

Verdict = Literal["right", "wrong", "planned"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
BECAUSE_MAX = 500
MUTE_DAYS_MAX = 90  # a quarter: long enough for a planned change, short enough that somebody looks again (our choice)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One word on one finding in one period; the last on a finding and a period counts. Who said it, the audit has.

    `confidence`, `milliseconds`, `rule` and `rule_version` are those of the finding when it was judged: they are
    kept, so that a later analysis does not change what was judged.
    """

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    judgement_id: str
    finding_id: str
    verdict: Verdict
    because: Sentence
    period_start: Micros
    period_end: Micros
    period_label: str
    recorded_at: Micros
    confidence: Confidence
    milliseconds: Milliseconds
    rule: str
    rule_version: Annotated[str | None, Field(description="The version of the rule that was judged; null: not kept.")]
    recorded_at_iso: Iso = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recorded_at_iso", iso(self.recorded_at))


@dataclass(frozen=True, slots=True)
class Mute:
    """Until when lists leave a finding out."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    mute_id: str
    finding_id: str
    until: Micros
    because: Sentence
    recorded_at: Micros
    until_iso: Iso = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "until_iso", iso(self.until))


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
    return list({(one.finding_id, one.period_start, one.period_end): one for one in ordered}.values())


def muted(mutes: Iterable[Mute], now_us: int) -> dict[str, Mute]:
    """Return the mutes that hold at a moment, by finding; the last word on a finding counts."""
    ordered = sorted(mutes, key=lambda each: (each.recorded_at, each.mute_id))
    last = {mute.finding_id: mute for mute in ordered}
    return {finding_id: mute for finding_id, mute in last.items() if mute.until > now_us}


def word_on(judgements: Iterable[Judgement], finding_id: str, period: Period) -> Judgement | None:
    """Return the word that counts on a finding in a period: on the period itself, else the last on one within it."""
    words = [one for one in last_words(judgements) if one.finding_id == finding_id]
    exact = [one for one in words if (one.period_start, one.period_end) == (period.start, period.end)]
    within = [one for one in words if one.period_start < period.end and one.period_end > period.start]
    chosen = exact or within
    return chosen[-1] if chosen else None


PROMISED_PERMILLE = 950  # what "high" promises: at least 95 of 100 are right
JUDGED_LEAST = 20  # of fewer, one wrong word more or less decides


@dataclass(frozen=True, slots=True)
class Tally:
    """Findings of one kind that somebody judged. `right` holds those that are planned, too."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    judged: int
    right: int
    planned: int
    permille: Annotated[
        int | None, Field(description="The share that was right, rounded down; null where none was judged.")
    ] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permille", self.right * 1000 // self.judged if self.judged else None)

    @property
    def percent(self) -> str | None:
        """The share for a person: the nearest whole, but 100 % only where all were right and 0 % where none was."""
        if not self.judged:
            return None
        nearest = (200 * self.right + self.judged) // (2 * self.judged)
        if 0 < self.right < self.judged:
            nearest = min(99, max(1, nearest))
        return f"{nearest} %"


@dataclass(frozen=True, slots=True)
class VersionTally:
    """One version of a rule at one confidence."""

    version: Annotated[
        str | None, Field(description="Null where it was judged before versions of single rules were kept.")
    ]
    tally: Tally


@dataclass(frozen=True, slots=True)
class RuleTally:
    """One rule at one confidence: over all its versions, and by each."""

    rule: str
    confidence: str
    tally: Tally
    versions: Annotated[
        tuple[VersionTally, ...], Field(description="The same by version of the rule, the first judged first.")
    ]


@dataclass(frozen=True, slots=True)
class Record:
    """How often we were right so far, one word a finding and period."""

    high: Tally
    medium: Tally
    low: Tally
    rules: tuple[RuleTally, ...]

    @property
    def overconfident(self) -> tuple[RuleTally, ...]:
        """The rules whose "high" has not kept what it promises, over at least twenty findings judged."""
        return tuple(
            one
            for one in self.rules
            if one.confidence == "high"
            and one.tally.judged >= JUDGED_LEAST
            and 1000 * one.tally.right < PROMISED_PERMILLE * one.tally.judged
        )


def record_of(judgements: Iterable[Judgement]) -> Record:
    """Return the record of these judgements; of each finding and period the last word counts."""
    words = last_words(judgements)
    by_rule: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for word in words:
        by_rule[word.rule, word.confidence].append(word)

    def of(level: str) -> Tally:
        return _tally([word for word in words if word.confidence == level])

    return Record(
        of("high"),
        of("medium"),
        of("low"),
        tuple(RuleTally(rule, level, _tally(own), _by_version(own)) for (rule, level), own in sorted(by_rule.items())),
    )


def _by_version(words: list[Judgement]) -> tuple[VersionTally, ...]:
    """Return a tally of each version, in the order in which they were first judged."""
    versions = dict.fromkeys(word.rule_version for word in words)
    return tuple(
        VersionTally(version, _tally([word for word in words if word.rule_version == version])) for version in versions
    )


def _tally(words: list[Judgement]) -> Tally:
    planned = sum(word.verdict == "planned" for word in words)
    return Tally(len(words), planned + sum(word.verdict == "right" for word in words), planned)
