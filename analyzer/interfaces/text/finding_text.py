"""Findings as text: the list, sorted by money, how often such were right, observations, and which rules lacked data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analyzer.findings.finding import Finding, FindingDocument
from analyzer.findings.health.notice import Notice
from analyzer.findings.judgement import PROMISED_PERMILLE, FindingTally, Record, RuleTally
from analyzer.findings.ledger_findings import StillCosts
from analyzer.findings.words import host_words, rule_words
from analyzer.ledger.coverage import Unjudged, by_rule, rules_in
from analyzer.period import Period, local
from analyzer.reports.findings import FindingsReport, at_stake_column
from analyzer.states import booking
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import (
    NO_BREAK,
    counted,
    day,
    decimal,
    gpu_hours,
    moment_words,
    money,
    owner_word,
    plain,
    plain_sentence,
    span_words,
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
    return f'of {tally.judged:,} "{word}" {noun} with feedback, {right}{planned}'


def overconfident_words(one: RuleTally) -> str:
    """Return the sentence on a rule whose "high" did not keep its promise."""
    promised = PROMISED_PERMILLE // 10
    return (
        f'{one.rule.replace("_", " ")} reports "high", and {one.tally.right:,} of {one.tally.judged:,} with feedback '
        f"were right ({one.tally.percent}; {promised}% is promised): read it as medium"
    )


_SHOWN = 5
_PLACE, _COLUMN = 15, 18
_TITLE = "OBSERVATIONS (no cost counted: what they cost is in the tables)"


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
    return NoticeLine(notice.id, plain(place), plain_sentence(what), owner_word(notice.actor), notice.confidence)


def _notice_lines(notices: Sequence[Notice], layout: TextLayout, *, everything: bool) -> list[str]:
    """Return the observations; what is no more than possible is listed with everything alone."""
    sure = [notice for notice in notices if notice.confidence != "low"]
    shown = notices if everything else sure[:_SHOWN]
    if not shown:
        words = f"{counted(len(notices), 'possible observation')} of low confidence: --all lists them"
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
    """Return which rules had insufficient data, of whom, and which signal they lacked; `names` are those of runs."""
    kind = "week" if "-W" in period.label else "period"
    by = by_rule(unjudged)
    found = [f"insufficient data for {counted(rules_in(unjudged), 'rule')}, {kind} {period.label}", ""]
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
    hint = "where no run or host is named, the signal is missing in the whole fleet"
    fleet = ["", *layout.wrap(hint)] if any(whom == ["fleet"] for whom in by.values()) else []
    return layout.page([*found, *fleet, "", "next: gpuledger agent doctor, on one of their hosts: what it can measure"])


def _called(subject: str, names: Mapping[str, str]) -> str:
    name = names.get(subject)
    return f"{plain(name)} ({plain(subject)})" if name and name != subject else plain(subject)


_MARKS = {"new": "+", "growing": "^", "shrinking": "v"}
_SUSPECTED_LEAST_MS = 180_000  # a twentieth of a GPU-hour, which the column would round to 0.0
_CONFIDENCE = {"high": "high", "medium": "med", "low": "low"}


def findings_text(report: FindingsReport, layout: TextLayout, top: int | None = None) -> str:
    """Return the list: one line a finding, and a column that adds up to what was avoidable.

    On narrow paper what it is stands in a line below; so do team, hosts and time of findings that read alike.
    """
    kind = "week" if "-W" in report.period.label else "period"
    column, total = at_stake_column(report.findings, report.currency)
    title = f"{_counts(report)}, {kind} {report.period.label}"
    if not report.findings:
        return layout.page([title, *_whose(report, layout), "", *layout.wrap(report.nothing), *_foot(report, layout)])
    head = [*layout.ends(title, f"{total} estimated waste"), *_whose(report, layout), ""]
    is_narrow, what = layout.extra < 0, 29 + layout.extra
    amounts = dict(zip((finding.id for finding in report.findings), column, strict=True))
    shown = report.shown[:top]
    place = 15 + (what if is_narrow else 0)
    columns: list[TableColumn[FindingDocument]] = [
        TableColumn("  id", lambda finding: f"{_mark(report, finding)} {finding.id}", width=10, align="<"),
        TableColumn("run or place", lambda finding: finding.subject, width=place, align="<", is_cut=True),
        TableColumn("what", lambda finding: finding.what, width=what, align="<", is_cut=True),
        TableColumn(_waste_head(report), lambda finding: amounts[finding.id], width=10),
        TableColumn("conf.", lambda finding: _CONFIDENCE[finding.confidence], width=6, align="<", gap=1),
        TableColumn("owner", lambda finding: owner_word(finding.actor), align="<"),
    ]
    heads, *rows = paper_lines([*columns[:2], columns[3]] if is_narrow else columns, shown, indent="")
    alike = Counter((finding.subject, finding.what) for finding in shown)
    table = [heads]
    for finding, row in zip(shown, rows, strict=True):
        words = [finding.what, f"confidence {finding.confidence}", owner_word(finding.actor)] if is_narrow else []
        if alike[finding.subject, finding.what] > 1:
            span = span_words(finding.first_at, finding.last_at, report.period.timezone)
            words += [*filter(None, (finding.team, host_words(finding.hosts))), span]
        table += [row, *layout.wrap(", ".join(words), " " * 10)] if words else [row]
    return layout.page([*head, *table, *_rest(report, shown, amounts, 25 + what), *_foot(report, layout)])


def _whose(report: FindingsReport, layout: TextLayout) -> list[str]:
    return layout.wrap(f"of {report.part.words}", "") if report.part else []


def _waste_head(report: FindingsReport) -> str:
    return f"waste {symbol(report.currency).strip()}" if report.priced else "GPU-hours"


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
    columns: tuple[TableColumn[tuple[str, list[str]]], ...] = (
        TableColumn("", lambda row: f"{len(row[1]):,} {row[0]}", width=width, align="<"),
        TableColumn("", lambda row: decimal(sum(map(_units, row[1])), 2 if report.priced else 1), width=10),
    )
    return paper_lines(columns, list(left.items()))


def _units(amount: str) -> int:
    return int(amount.replace(",", "").replace(".", ""))


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
            f"{counted(len(report.suspicions), 'suspicion')} of low confidence (no cost counted): --all lists them"
        )
    if report.everything:
        found += _suspicions(report, layout)
    found += _notice_lines(report.notices, layout, everything=report.everything)
    if report.not_judged:
        found += layout.wrap(
            f"insufficient data for {counted(report.not_judged, 'rule')}: gpuledger findings --unjudged"
        )
    if not report.shown:
        return [*found, "next: gpuledger report"]
    ask = f"gpuledger findings judge {report.shown[0].id} right --because WHY"
    return [*found, f"next: gpuledger findings explain {report.shown[0].id}", f"      {ask}"]


def still_words(still: StillCosts, currency: str) -> str:
    """Return what goes on costing, per hour, and where to read what ends it."""
    rate = f"{gpu_hours(still.milliseconds)} GPU-hours" if still.micros is None else money(still.micros, currency)
    verb = "takes" if still.micros is None else "costs"
    return f"{still.finding_id} still {verb} {rate} per hour: gpuledger findings explain {still.finding_id}"


def check_words(alarming: Sequence[str]) -> str:
    """Return what --check found, in one line for a log."""
    if not alarming:
        return "check: no finding is new, of high confidence, open and without feedback"
    return f"check failed: new, of high confidence, open and without feedback: {', '.join(alarming)}"


def _suspicions(report: FindingsReport, layout: TextLayout) -> list[str]:
    """Return the suspicions with what they would claim; those too small for a figure as one row."""
    if not report.suspicions:
        return []
    found = [
        "",
        *layout.wrap(
            'SUSPECTED, NOT PROVEN (no cost counted: this time stays "low utilization, unexplained")', "", "  "
        ),
    ]
    small = [finding for finding in report.suspicions if finding.milliseconds < _SUSPECTED_LEAST_MS]
    columns: tuple[TableColumn[FindingDocument], ...] = (
        TableColumn("", lambda finding: finding.id, width=10, align="<"),
        TableColumn("", lambda finding: finding.subject, width=15, align="<", is_cut=True),
        TableColumn("", _suspected, width=25 + layout.extra, align="<", is_cut=True),
        TableColumn("", lambda finding: f"{gpu_hours(finding.milliseconds)} GPU-hours", width=16),
    )
    found += paper_lines(columns, report.suspicions[: len(report.suspicions) - len(small)])
    if small:
        ids = ", ".join(finding.id for finding in small)
        found += layout.wrap(f"under 0.05 GPU-hours each: {ids}")
    return found


def _suspected(finding: Finding) -> str:
    return finding.what.removeprefix("possibly ")


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
    right = f"{finding.confidence} · {'since' if finding.still_open else 'from'} {weekday} {time}{by}"
    return layout.ends(layout.cut(title, layout.width - 2), right)


def evidence_lines(finding: Finding, layout: TextLayout, ruled_out: Sequence[str] = ()) -> list[str]:
    """Return the evidence as a table, what else it could have been and is not, and what would prove it wrong."""
    found = seen_lines(finding, layout, 18)
    found += layout.labelled("ruled out", " · ".join(ruled_out), 18) if ruled_out else []
    return [*found, *wrong_if_lines(finding, layout)]


def seen_lines(finding: Finding, layout: TextLayout, column: int) -> list[str]:
    """Return the evidence, a line each: what, what was seen, and at the other end what that says."""
    found = []
    for line in finding.evidence:
        label = layout.cut(line.what, column - 3)
        seen, verdict = plain_sentence(line.seen), plain_sentence(line.verdict)
        first, *more = layout.labelled(label, seen, column)
        ends = layout.ends(first, verdict) if verdict and not more else []
        if verdict and len(ends) != 1:
            found += layout.labelled(label, f"{seen}  {verdict}", column)
        else:
            found += ends or [first, *more]
    return found


def wrong_if_lines(finding: Finding, layout: TextLayout) -> list[str]:
    """Return the sentence on what would prove a finding wrong."""
    return layout.wrap(f"This is wrong if {plain_sentence(finding.wrong_if)}.")
