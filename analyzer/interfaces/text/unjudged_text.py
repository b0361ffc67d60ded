"""What could not be judged as text: by rule and by the signal that it lacked, and of whom."""

from collections.abc import Mapping, Sequence

from analyzer.findings.words import rule_words
from analyzer.ledger.coverage import Unjudged, by_rule, rules_in
from analyzer.period import Period
from analyzer.text.layout import TextLayout
from analyzer.text.words import counted, plain, plain_sentence

_SHOWN = 10


def unjudged_text(
    period: Period, unjudged: Sequence[Unjudged], names: Mapping[str, str], layout: TextLayout, top: int | None = None
) -> str:
    """Return which rules could not be judged, of whom, and for want of which signal; `names` are those of runs."""
    kind = "week" if "-W" in period.label else "period"
    by = by_rule(unjudged)
    found = [f"{counted(rules_in(unjudged), 'rule')} not judged, {kind} {period.label}", ""]
    if not by:
        found.append("  Every rule had the signals that it needs.")
    for (rule, missing), whom in sorted(by.items(), key=lambda one: (-len(one[1]), rule_words(one[0][0]), one[0])):
        found += layout.wrap(f"{rule_words(rule)}: {plain_sentence(missing)}")
        if whom == ["fleet"]:
            continue
        found += [f"    {layout.cut(_called(subject, names), layout.width - 6)}" for subject in whom[: top or _SHOWN]]
        if len(whom) > (top or _SHOWN):
            found.append(f"    and {len(whom) - (top or _SHOWN):,} more: --top N")
    hint = "what is missing is missing of the whole fleet, where no run or host is named"
    fleet = ["", *layout.wrap(hint)] if any(whom == ["fleet"] for whom in by.values()) else []
    return layout.page([*found, *fleet, "", "next: gpuledger agent doctor, on a host of theirs: what it can measure"])


def _called(subject: str, names: Mapping[str, str]) -> str:
    name = names.get(subject)
    return f"{plain(name)} ({plain(subject)})" if name and name != subject else plain(subject)
