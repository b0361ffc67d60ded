"""Findings as text: the list, sorted by money, how often such were right, notices, and what could not be judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analyzer.findings.finding import Finding, FindingDocument
from analyzer.findings.health.notice import Notice
from analyzer.findings.judgement import PROMISED_PERMILLE, FindingTally, Record, RuleTally
from analyzer.findings.ledger_findings import StillCosts
from analyzer.findings.words import rule_words
from analyzer.ledger.coverage import Unjudged, by_rule, rules_in
from analyzer.period import Period, local
from analyzer.reports.finding_list import FindingsReport, at_stake_column
from analyzer.states import booking
from analyzer.text.layout import TextLayout
from analyzer.text.words import (
    NO_BREAK,
    counted,
    day,
    decimal,
    gpu_hours,
    moment_words,
    money,
    plain,
    plain_sentence,
    symbol,
)


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
        f"({one.tally.percent}, promised are {promised}%): read it as medium"
    )


_SHOWN = 5
_PLACE, _COLUMN = 15, 18
_TITLE = "WORTH A LOOK (claims no GPU time: what it costs is in the tables)"


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice in words: `place` is a host, a queue or a run; the sentence says what to do."""

    id: str
    place: str
    sentence: str
    actor: str
    confidence: str


def notice_line(notice: Notice) -> NoticeLine:
    """Return a notice in words, without control characters."""
    place = notice.node or notice.subject
    what = notice.sentence if place == notice.subject else f"{notice.subject}: {notice.sentence}"
    return NoticeLine(notice.id, plain(place), plain_sentence(what), notice.actor, notice.confidence)


def notice_lines(notices: Sequence[Notice], layout: TextLayout, *, everything: bool) -> list[str]:
    """Return what is worth a look; what is no more than possible is listed with everything alone."""
    sure = [notice for notice in notices if notice.confidence != "low"]
    shown = notices if everything else sure[:_SHOWN]
    if not shown:
        words = f"{counted(len(notices), 'possible notice')} of low confidence: --all lists them"
        return layout.wrap(words) if notices else []
    lines = ["", *layout.wrap(_TITLE, "", "  ")]
    for notice in shown:
        line = notice_line(notice)
        text = f"{line.sentence} ({line.actor}; {line.confidence} confidence)"
        lines += layout.labelled(layout.cut(line.place, _PLACE), text, _COLUMN)
    if len(notices) > len(shown):
        lines.append(f"  {len(notices) - len(shown)} more: --all lists them")
    return [*lines, ""]


_SUBJECTS_SHOWN = 10


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
        found += [
            f"    {layout.cut(_called(subject, names), layout.width - 6)}" for subject in whom[: top or _SUBJECTS_SHOWN]
        ]
        if len(whom) > (top or _SUBJECTS_SHOWN):
            found.append(f"    and {len(whom) - (top or _SUBJECTS_SHOWN):,} more: --top N")
    hint = "what is missing is missing of the whole fleet, where no run or host is named"
    fleet = ["", *layout.wrap(hint)] if any(whom == ["fleet"] for whom in by.values()) else []
    return layout.page([*found, *fleet, "", "next: gpuledger agent doctor, on a host of theirs: what it can measure"])


def _called(subject: str, names: Mapping[str, str]) -> str:
    name = names.get(subject)
    return f"{plain(name)} ({plain(subject)})" if name and name != subject else plain(subject)


_MARKS = {"new": "+", "growing": "^", "shrinking": "v"}
_SUSPECTED_LEAST_MS = 180_000  # a twentieth of a GPU-hour, which the column would round to 0.0
_SURE = {"high": "high", "medium": "med", "low": "low"}


def findings_text(report: FindingsReport, layout: TextLayout, top: int | None = None) -> str:
    """Return the list: one line a finding, and a column that adds up to what was avoidable."""
    kind = "week" if "-W" in report.period.label else "period"
    column, total = at_stake_column(report.findings, report.currency)
    title = f"{_counts(report)}, {kind} {report.period.label}"
    head = [f"{title}{f'{total} at stake':>{max(1, layout.width - 7 - len(title))}}", *_whose(report, layout), ""]
    if not report.findings:
        head = [title, *_whose(report, layout), "", *layout.wrap(report.nothing)]
    what = 29 + layout.extra
    stake = f"{symbol(report.currency).strip()} at stake" if report.priced else "GPU-hours"
    table = [f"  {'id':<8}{'run or place':<15}{'what':<{what}}{stake:>10}  {'sure':<6}owner"] if report.findings else []
    amounts = dict(zip((finding.id for finding in report.findings), column, strict=True))
    shown = report.shown[:top]
    table += [_row(report, finding, amounts[finding.id], layout, what) for finding in shown]
    table += _rest(report, shown, amounts, 25 + what)
    return layout.page([*head, *table, *_foot(report, layout)])


def _whose(report: FindingsReport, layout: TextLayout) -> list[str]:
    return layout.wrap(f"of {report.part.words}", "") if report.part else []


def _row(report: FindingsReport, finding: FindingDocument, amount: str, layout: TextLayout, what: int) -> str:
    return (
        f"{_mark(report, finding)} {finding.id:<7} {layout.cut(finding.subject, 14):<15}"
        f"{layout.cut(finding.what, what - 1):<{what}}{amount:>10}  {_SURE[finding.confidence]:<6}"
        f"{finding.actor or '-'}"
    )


def _counts(report: FindingsReport) -> str:
    still = report.still_open
    if still == len(report.findings):
        return counted(still, "open finding")
    return f"{counted(len(report.findings), 'finding')}, {still:,} still open"


def _mark(report: FindingsReport, finding: FindingDocument) -> str:
    """Return one character for how a finding moved; the foot of the list says what it means."""
    if finding.mute is not None:
        return "m"
    is_closed = finding.life is not None and finding.life.state == "closed"
    return "x" if is_closed else _MARKS.get(report.moved.get(finding.id, ""), " ")


def _rest(report: FindingsReport, shown: Sequence[Finding], amounts: dict[str, str], width: int) -> list[str]:
    """Return a row for each kind of finding that is not shown, so that the column adds up on the page."""
    seen = {finding.id for finding in shown}
    left: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.id not in seen:
            left.setdefault(report.why_not_shown(finding) or "more, smaller", []).append(amounts[finding.id])
    decimals = 2 if report.priced else 1
    found = []
    for why, own in left.items():
        units = sum(int(amount.replace(",", "").replace(".", "")) for amount in own)
        found.append(f"  {f'{len(own):,} {why}':<{width - 2}}{decimal(units, decimals):>10}")
    return found


def _foot(report: FindingsReport, layout: TextLayout) -> list[str]:
    found = [""]
    if (moves := report.trend) is not None:
        again = f" ({moves.again} again)" if moves.again else ""
        words = f"+ new {moves.new}{again} · ^ growing {moves.growing} · as before {moves.steady}"
        words += f" · v shrinking {moves.shrinking}"
        ended = f" · x closed {moves.closed}" if moves.closed is not None else f" · gone {moves.gone}"
        found += layout.wrap(words + ended)
    elif report.closed:
        found += layout.wrap(f"x closed {report.closed}")
    if report.still is not None:
        found += layout.wrap(still_words(report.still, report.currency))
    found += _muted(report, layout)
    found += [line for one in report.overconfident for line in layout.wrap(overconfident_words(one))]
    if report.suspicions and not report.everything:
        found += layout.wrap(
            f"{counted(len(report.suspicions), 'suspicion')} below medium confidence claim nothing: --all lists them"
        )
    if report.everything:
        found += _suspicions(report, layout)
    found += notice_lines(report.notices, layout, everything=report.everything)
    if report.not_judged:
        found += layout.wrap(f"not judged: {counted(report.not_judged, 'rule')}: gpuledger findings --unjudged")
    if not report.shown:
        return [*found, "next: gpuledger report"]
    ask = f"gpuledger findings judge {report.shown[0].id} right --because WHY"
    return [*found, f"next: gpuledger findings explain {report.shown[0].id}", f"      {ask}"]


def still_words(still: StillCosts, currency: str) -> str:
    """Return what goes on costing, an hour, and where to read what ends it."""
    rate = f"{gpu_hours(still.milliseconds)} GPU-hours" if still.micros is None else money(still.micros, currency)
    verb = "takes" if still.micros is None else "costs"
    return f"{still.finding_id} still {verb} {rate} an hour: gpuledger findings explain {still.finding_id}"


def check_words(alarming: Sequence[str]) -> str:
    """Return what --check found, in one line for a log."""
    if not alarming:
        return "check: no finding is new, of high confidence, open and not judged"
    return f"check failed: new, of high confidence, open and not judged: {', '.join(alarming)}"


def _suspicions(report: FindingsReport, layout: TextLayout) -> list[str]:
    """Return the suspicions with what they would claim; those too small for a figure as one row."""
    if not report.suspicions:
        return []
    found = [
        "",
        *layout.wrap(
            'SUSPECTED, NOT PROVEN (claims nothing: this time stays "low utilization, unexplained")', "", "  "
        ),
    ]
    small = [finding for finding in report.suspicions if finding.milliseconds < _SUSPECTED_LEAST_MS]
    for finding in report.suspicions[: len(report.suspicions) - len(small)]:
        what = layout.cut(finding.what.removeprefix("perhaps "), 24 + layout.extra)
        hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
        found.append(f"  {finding.id:<7} {layout.cut(finding.subject, 14):<15}{what:<{25 + layout.extra}}{hours:>16}")
    if small:
        ids = ", ".join(finding.id for finding in small)
        found += layout.wrap(f"under 0.05 GPU-hours each: {ids}")
    return found


def _muted(report: FindingsReport, layout: TextLayout) -> list[str]:
    mutes = sorted(report.muted_until)
    if not mutes:
        return []
    days = [day(local(until - 1, report.period.timezone)).split(" ", 1)[1] for until in mutes]
    shown = ", ".join(dict.fromkeys(days))
    if report.everything:
        return layout.wrap(f"m muted {len(mutes)} (until {shown})")
    return layout.wrap(f"muted {len(mutes)} (until {shown}): --all lists them")


def heading(finding: Finding, timezone: str, layout: TextLayout) -> list[str]:
    """Return the line above a finding's evidence: what, how sure, since when, and by which version of its rule."""
    what = booking(finding.state, finding.cause)
    title = f"{finding.id}  {what.label}: {what.cause_label}".upper() if what.cause_label else what.label.upper()
    title = finding.id + title[len(finding.id) :]
    weekday, *_, time = moment_words(finding.first_at, timezone).split()
    revision = (finding.rule_version or "").partition(".")[0]  # explain has it whole, with the digest of its numbers
    by = f" · rule {plain(revision)}" if revision else ""
    right = f"{finding.confidence} · since {weekday} {time}{by}"
    if len(title) + len(right) + 2 > layout.width - 2:
        return [layout.cut(title, layout.width - 2), f"  {right}"]
    return [f"{title}{right:>{layout.width - 2 - len(title)}}"]


def evidence_lines(finding: Finding, layout: TextLayout, ruled_out: Sequence[str] = ()) -> list[str]:
    """Return the evidence as a table, what else it could have been and is not, and what would prove it wrong."""
    found = []
    for line in finding.evidence:
        left = f"  {layout.cut(line.what, 15):<16}"
        seen, verdict = plain_sentence(line.seen), plain_sentence(line.verdict)
        if len(left) + len(seen) + len(verdict) + 2 <= layout.width - 2:
            found.append(f"{left}{seen}{verdict:>{layout.width - 2 - len(left) - len(seen)}}")
        else:
            found += layout.wrap(f"{seen}  {verdict}", left, " " * 18)
    found += layout.labelled("ruled out", " · ".join(ruled_out), 18) if ruled_out else []
    return [*found, *layout.labelled("wrong if", plain_sentence(finding.wrong_if), 18)]
