"""Accuracy in words: how many of the findings that owners judged were right. None judged is said, and never 0 %."""

from analyzer.findings.judgement import PROMISED_PERMILLE, FindingTally, Record, RuleTally
from analyzer.text.words import NO_BREAK


def record_words(record: Record) -> str:
    """Return the published sentence: of "high" findings, and where there are any, of "medium" ones."""
    if not record.high.judged and not record.medium.judged:
        return "no feedback yet: gpuledger findings judge ID right --because WHY"
    said = [_level(word, tally) for word, tally in (("high", record.high), ("medium", record.medium)) if tally.judged]
    return "; ".join(said)


def _level(word: str, tally: FindingTally) -> str:
    noun = "finding" if tally.judged == 1 else "findings"
    share = (tally.percent or "").replace(" ", NO_BREAK)
    right = f"{tally.right:,} {'was' if tally.right == 1 else 'were'} right ({share})"
    planned = f", {tally.planned:,} of them planned" if tally.planned else ""
    return f'of {tally.judged:,} "{word}" {noun} judged by owners, {right}{planned}'


def overconfident_words(one: RuleTally) -> str:
    """Return the sentence on a rule whose "high" did not keep its promise."""
    promised = PROMISED_PERMILLE // 10
    return (
        f'{one.rule.replace("_", " ")} says "high", and {one.tally.right:,} of {one.tally.judged:,} judged were right '
        f"({one.tally.percent}, promised are {promised} %): read it as medium"
    )
