"""Findings as text: the list, sorted by money, and one finding with everything that argues for and against it."""

from collections.abc import Sequence

from analyzer.findings import Finding
from analyzer.placement.recommendation import Recommendation
from analyzer.report.finding_list import FindingsReport, at_stake_column, trend
from analyzer.report.paper import Paper
from analyzer.report.recommendation_text import saves_words
from analyzer.report.words import counted, gpu_hours, moment, money, plain, symbol
from analyzer.states import booking

NOTICES_SHOWN = 5
SURE = {"high": "high", "medium": "med", "low": "low"}


def findings_text(report: FindingsReport, paper: Paper, top: int | None = None) -> str:
    """Return the list: one line a finding, and a column that adds up to what was avoidable."""
    kind = "week" if "-W" in report.period.label else "period"
    shown = report.findings[:top]
    column, total = at_stake_column(report.findings, report.currency)
    title = f"{counted(len(report.findings), 'open finding')}, {kind} {report.period.label}"
    head = [f"{title}{f'{total} at stake':>{max(1, paper.width - 7 - len(title))}}", ""]
    if not shown:
        head = [title, "", "  Nothing avoidable was found in this period."]
    what = 25 + paper.extra
    stake = f"{symbol(report.currency).strip()} at stake" if report.priced else "GPU-hours"
    table = [f"  {'id':<8}{'run or place':<17}{'what':<{what}}{stake:>10}  {'sure':<6}act"] if shown else []
    for finding, amount in zip(shown, column, strict=False):
        table.append(
            f"  {finding.id:<8}{paper.cut(finding.subject, 16):<17}{paper.cut(finding.what, what - 1):<{what}}"
            f"{amount:>10}  {SURE[finding.confidence]:<6}{finding.actor or '-'}"
        )
    return paper.page([*head, *table, *_foot(report, paper, len(shown))])


def _foot(report: FindingsReport, paper: Paper, shown: int) -> list[str]:
    found = [""]
    if len(report.findings) > shown:
        found.append(f"  {len(report.findings) - shown} more, smaller: without --top")
    if (moves := trend(report)) is not None:
        words = f"new {moves.new} · growing {moves.growing} · as before {moves.steady} · shrinking {moves.shrinking}"
        found += paper.wrap(f"{words} · gone {moves.gone}")
    if report.suspicions and not report.everything:
        found += paper.wrap(
            f"{counted(len(report.suspicions), 'suspicion')} below medium confidence claim nothing: --all lists them"
        )
    if report.everything and report.suspicions:
        found += ["", 'SUSPECTED, NOT PROVEN (claims nothing: this time stays "low, unexplained")']
        for finding in report.suspicions:
            what = paper.cut(finding.what, 24 + paper.extra)
            hours = f"{gpu_hours(finding.milliseconds)} h"
            found.append(f"  {finding.id:<8}{paper.cut(finding.subject, 16):<17}{what:<{25 + paper.extra}}{hours:>10}")
    found += _notices(report, paper)
    if report.not_judged:
        found += paper.wrap(f"not judged: {counted(report.not_judged, 'rule')}, named by gpuledger report week")
    return [
        *found,
        f"next: gpuledger explain {report.findings[0].id}" if report.findings else "next: gpuledger report week",
    ]


def _notices(report: FindingsReport, paper: Paper) -> list[str]:
    """Return what is worth a look; what is no more than possible is listed with everything alone."""
    sure = [notice for notice in report.notices if notice.confidence != "low"]
    shown = report.notices if report.everything else sure[:NOTICES_SHOWN]
    if not shown:
        words = f"{counted(len(report.notices), 'possible notice')} of low confidence: --all lists them"
        return paper.wrap(words) if report.notices else []
    lines = ["", "WORTH A LOOK (claims nothing; what it costs stands in the findings above)"]
    for notice in shown:
        where = notice.node or notice.subject
        what = notice.sentence if where == notice.subject else f"{notice.subject}: {notice.sentence}"
        doubt = "" if notice.confidence == "high" else f" ({notice.confidence} confidence)"
        lines += paper.labelled(paper.cut(where, 11), plain_sentence(what) + doubt, 14)
    if len(report.notices) > len(shown):
        lines.append(f"  {len(report.notices) - len(shown)} more: --all lists them")
    return [*lines, ""]


def explain_text(finding: Finding, advice: Sequence[Recommendation], currency: str, timezone: str, paper: Paper) -> str:
    """Return one finding: what was seen, why it says so, what would refute it, what would help."""
    at_stake = money(finding.at_stake_micros, currency) if finding.at_stake_micros is not None else "$ unknown"
    state = "open" if finding.still_open else "ended"
    confidence = f"{finding.confidence}, claims nothing" if finding.suspicion else finding.confidence
    left = f"{finding.id}  {paper.cut(finding.subject, 24)}: {paper.cut(finding.what, 30)}"
    found = [f"{left}{f'{at_stake}  {confidence}  {state}':>{max(2, paper.width - 2 - len(left))}}"]
    actor = {"run": finding.team or "the run's owner"}.get(finding.actor or "", finding.actor or "nobody")
    found += paper.wrap(f"{plain(finding.rule)}   {plain(actor)} can act", "rule    ", " " * 8)
    found += paper.wrap(
        f"{moment(finding.first_at, timezone)} - {moment(finding.last_at, timezone)}, "
        f"{gpu_hours(finding.milliseconds)} GPU-hours of {counted(len(finding.run_ids), 'run')}",
        "when    ",
        " " * 8,
    )
    if finding.caused_by:
        found += paper.wrap(f"{plain(finding.caused_by)} is the root of it", "cause   ", " " * 8)
    found += ["", *paper.wrap(plain_sentence(finding.sentence)), ""]
    found += [*(["  SEEN"] if finding.evidence else []), *evidence_lines(finding, paper)]
    for one in advice:
        found += ["", *paper.labelled("TRY", f"{plain(one.subject)}: {plain(one.title)} ({one.id})", 10)]
        found += paper.labelled("", f"saves {saves_words(one, currency)}", 10)
    following = f"gpuledger show {advice[0].id}" if advice else "gpuledger findings"
    return paper.page([*found, "", f"next: {following}"])


def plain_sentence(text: str) -> str:
    """Return a sentence without control characters, however long."""
    return " ".join(plain(word) for word in text.split())


def heading(finding: Finding, timezone: str, paper: Paper) -> list[str]:
    """Return the line above a finding's evidence."""
    what = booking(finding.state, finding.cause)
    title = f"{finding.id}  {what.label}: {what.cause_label}".upper() if what.cause_label else what.label.upper()
    title = finding.id + title[len(finding.id) :]
    weekday, *_, time = moment(finding.first_at, timezone).split()
    right = f"{finding.confidence} · since {weekday} {time}"
    if len(title) + len(right) + 2 > paper.width - 2:
        return [paper.cut(title, paper.width - 2), f"  {right}"]
    return [f"{title}{right:>{paper.width - 2 - len(title)}}"]


def evidence_lines(finding: Finding, paper: Paper) -> list[str]:
    """Return the evidence as a table, and what would prove it wrong."""
    found = []
    for line in finding.evidence:
        left = f"  {paper.cut(line.what, 15):<16}"
        seen, verdict = plain_sentence(line.seen), plain_sentence(line.verdict)
        if len(left) + len(seen) + len(verdict) + 2 <= paper.width - 2:
            found.append(f"{left}{seen}{verdict:>{paper.width - 2 - len(left) - len(seen)}}")
        else:
            found += paper.wrap(f"{seen}  {verdict}", left, " " * 18)
    return [*found, *paper.labelled("wrong if", plain_sentence(finding.wrong_if), 18)]
