"""What could not be judged: the rule, what it lacked, and of whom."""

from collections.abc import Iterable

from analyzer.findings.rule_words import rule_words
from analyzer.ledger.unjudged import Unjudged, by_rule


def unjudged_rules(missing: Iterable[Unjudged]) -> list[tuple[str, str, list[str]]]:
    """Return the rules that lacked a signal, those of most subjects first; of the whole fleet without names."""
    found = by_rule(missing)
    said = [(rule_words(rule), why, [] if whom == ["fleet"] else whom) for (rule, why), whom in found.items()]
    return sorted(said, key=lambda one: (-len(one[2]), one[0]))
