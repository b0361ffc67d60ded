"""How often we were right, by those who judged: by confidence and by rule. None judged is no share, and never 0 %."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from analyzer.findings.history.judgement import Judgement, last_words

PROMISED_PERMILLE = 950  # what "high" promises: at least 95 of 100 are right
JUDGED_LEAST = 20  # of fewer, one wrong word more or less decides


@dataclass(frozen=True, slots=True)
class Tally:
    """Findings of one kind that somebody judged. `right` holds those that are planned, too."""

    judged: int
    right: int
    planned: int

    @property
    def permille(self) -> int | None:
        """The share that was right, rounded down; None where nothing was judged."""
        return self.right * 1000 // self.judged if self.judged else None

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
    """One version of a rule at one confidence; None where it was not kept."""

    version: str | None
    tally: Tally


@dataclass(frozen=True, slots=True)
class RuleTally:
    """One rule at one confidence: over all its versions, and by each."""

    rule: str
    confidence: str
    tally: Tally
    versions: tuple[VersionTally, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """What owners said of our findings so far, one word a finding and period."""

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
        by_rule[word.claim.rule, word.claim.confidence].append(word)

    def of(level: str) -> Tally:
        return _tally([word for word in words if word.claim.confidence == level])

    return Record(
        of("high"),
        of("medium"),
        of("low"),
        tuple(RuleTally(rule, level, _tally(own), _by_version(own)) for (rule, level), own in sorted(by_rule.items())),
    )


def _by_version(words: list[Judgement]) -> tuple[VersionTally, ...]:
    """Return a tally of each version, in the order in which they were first judged."""
    versions = dict.fromkeys(word.claim.rule_version for word in words)
    return tuple(
        VersionTally(version, _tally([word for word in words if word.claim.rule_version == version]))
        for version in versions
    )


def _tally(words: list[Judgement]) -> Tally:
    planned = sum(word.verdict == "planned" for word in words)
    return Tally(len(words), planned + sum(word.verdict == "right" for word in words), planned)
