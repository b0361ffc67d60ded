"""Runs as text: their list, and one on one screen: why it was slow, what it cost, what to change."""

from dataclasses import dataclass
from itertools import groupby

from agent.wire.units import HOUR_MS, MICROS, MINUTE_US, SECOND_US
from analyzer.findings.finding import Finding
from analyzer.findings.words import rule_words
from analyzer.interfaces.text.efficiency_text import efficiency_lines, not_known, service_rows
from analyzer.interfaces.text.finding_text import evidence_lines, heading
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.sentences import unpriced_words
from analyzer.ledger.breakdown import breakdown_lines, breakdown_table
from analyzer.ledger.coverage import TimelinePoint
from analyzer.measures.traffic.text import traffic_lines
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.findings import causes_out
from analyzer.reports.host_side import RecordingReport
from analyzer.reports.recommendation_words import actor_words, cost_words, saves_in_run
from analyzer.reports.run import RunDocument, RunFacts, run_energy_words, worth_showing
from analyzer.reports.run_list import RunList, RunSummary
from analyzer.states import booking
from analyzer.text.layout import TextLayout, at_ends
from analyzer.text.table import TableColumn, paper_lines, spark_column
from analyzer.text.words import (
    amount,
    at_least,
    clock,
    counted,
    day,
    duration,
    gpu_hours,
    hours_decimals,
    large,
    moment_words,
    money,
    nearest,
    percent,
    plain,
    plain_sentence,
    symbol,
)

_WAITS = ("starved", "communicating", "throttled")  # what of a run's time a change ends, so that it ends sooner


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds that the same command takes after a change: P20 is the careful one, so the longest."""

    title: str
    p20: int
    p50: int
    p80: int

    @property
    def words(self) -> str:
        """The prediction as people read it: "30:28 (P20 33:02, P80 28:45)"."""
        return f"{clock(self.p50)} (P20 {clock(self.p20)}, P80 {clock(self.p80)})"


def predicted(advice: Recommendation, report: RecordingReport) -> Predicted | None:
    """Return how long the command of a recording would have taken with this change.

    None where the change ends no wait: a GPU that is not held any more makes the command no faster.
    """
    if report.run is None:
        raise AssertionError("BUG: nothing is recommended where no GPU was seen")
    against = [finding for finding in report.run.findings if finding.id in advice.finding_ids]
    if not any(_ends_a_wait(advice, finding) for finding in against):
        return None
    saved = advice.in_span(advice.saves_milliseconds, report.run.span.end - report.run.span.start)
    wall, gpus = report.microseconds // 1000, max(1, report.gpus)
    p20, p50, p80 = (max(0, wall - part // gpus) // 1000 for part in (saved.p20, saved.p50, saved.p80))
    return Predicted(advice.title, p20, p50, p80)


def _ends_a_wait(advice: Recommendation, against: Finding) -> bool:
    """Whether a run is faster by a change: not by one that ends it, or that frees GPUs for which nobody waited."""
    return against.state in _WAITS and not advice.ends_work


def sooner(advice: Recommendation, against: Finding, report: RunDocument) -> str | None:
    """Return how long a run would have taken: "70 h 30 min -> about 60 h 06 min (P50)".

    None where it still runs, or where the change frees GPUs and ends nothing sooner.
    """
    facts = report.facts
    if facts.started_at is None or facts.ended_at is None or facts.started_at < report.span.start:
        return None
    if not _ends_a_wait(advice, against) or not advice.saves_milliseconds.p50 or not facts.gpus:
        return None
    wall = facts.ended_at - facts.started_at
    saved_ms = advice.in_span(advice.saves_milliseconds, report.span.end - report.span.start).p50 // facts.gpus
    left = max(0, wall // 1_000_000 - saved_ms // 1000)
    return f"{duration(wall // 1_000_000)} -> about {duration(left)} (P50)"


TRY_SHOWN = 3


def changes_to_try(run: RunDocument, report: RecordingReport, layout: TextLayout) -> list[str]:
    """Return the first changes to make, each with what it does to the command's time and its lines to paste."""
    found = []
    for number, advice in enumerate(run.recommendations[:TRY_SHOWN], 1):
        found += layout.wrap(plain(advice.title), f"  {number}  ", "     ")
        found += [f"       {line}" for each in advice.artefacts for line in folded(each, layout.width - 7)]
        price = f"cost of moving: {plain_sentence(advice.cost_to_move)}"
        found += layout.wrap(f"{_gain(advice, run, report)}; {price}", "     ", "     ")
    return ["TRY", *found] if found else []


def _gain(advice: Recommendation, run: RunDocument, report: RecordingReport) -> str:
    """Return "45:00 -> about 30:28 (P20 33:02, P80 28:45)"; of a change that ends no wait, the GPU time it frees."""
    said = predicted(advice, report)
    if said is None:
        return f"saves {saves_in_run(advice, run.span.end - run.span.start, run.currency)}"
    return f"{clock(report.microseconds // SECOND_US)} -> about {said.words}"


_NODES_SHOWN = 4
_SPARK_LEAST = 20  # fewer stretches say less than the table above them
_LEFT = 39  # width of the left column of the head
_PAIR = (
    TableColumn[tuple[str, str]]("", lambda pair: pair[0], width=_LEFT, align="<"),
    TableColumn[tuple[str, str]]("", lambda pair: pair[1]),
)


def run_text(report: RunDocument, layout: TextLayout, *, whole_traffic: bool = False) -> str:
    """Return the report as text for this paper; `whole_traffic` adds the matrix of who sent how much to whom."""
    shown = worth_showing(report)
    sections = [
        _head(report, layout),
        layout.wrap(run_sentence(report)),
        breakdown_table(breakdown_lines(report.breakdown, subtotals=False), layout, symbol(report.currency)),
        sparks(report, layout),
    ]
    for finding in shown:
        out = causes_out(report.ruled_out.get(finding.id, ()))
        sections.append([*heading(finding, report.timezone, layout), *evidence_lines(finding, layout, out)])
        sections += [_advice(one, finding, report, layout) for one in _told_at(report, finding, shown)]
    sections.append(traffic_lines(report.traffic, report.currency, layout, whole=whole_traffic))
    sections.append(efficiency_lines(report, layout))
    served = [line for row in service_rows(report) for line in layout.labelled(*row, 18)]
    sections.append(["SERVICE", *served] if served else [])
    sections.append(_insufficient_data(report, layout))
    body = [line for section in sections if section for line in (*section, "")]
    return layout.page([*body[:-1], *_onwards(report, shown)])


def _head(report: RunDocument, layout: TextLayout) -> list[str]:
    found = []
    for left, right in head_pairs(report):
        if len(left) < _LEFT and len(right) <= layout.width - 2 - _LEFT:
            found += paper_lines(_PAIR, [(left, right)], indent="")
        else:
            found += [layout.cut(left, layout.width - 2), *([layout.cut(right, layout.width - 2)] if right else [])]
    return found


def head_pairs(report: RunDocument) -> list[tuple[str, str]]:
    """Return what stands above a run's report: who, where, when, how much; two columns."""
    facts = report.facts
    about = [facts.team or "unmapped", *([facts.stage_words] if facts.stage_words else []), _status(report)]
    racks = f" ({', '.join(report.racks)})" if report.racks else ""
    nodes = ", ".join(report.nodes[:_NODES_SHOWN])
    nodes += f" and {len(report.nodes) - _NODES_SHOWN} more" if len(report.nodes) > _NODES_SHOWN else ""
    over = " over all attempts" if facts.attempts > 1 else ""
    return [
        (f"{plain(facts.run_id)}  {plain(facts.subject)}", " · ".join(map(plain, about))),
        (f"{facts.gpus} {plain(facts.sku or 'GPUs of unknown model')}{over}: {plain(nodes + racks)}", _times(report)),
        (_size(report), _cost(report)),
        *_rest(report),
    ]


def _status(report: RunDocument) -> str:
    if report.running:
        return "still running"
    status = (report.facts.exit_status or "").replace("_", " ")
    return {"completed": "ended, exit 0", "": "ended, exit status unknown"}.get(status, f"ended: {status}")


def _times(report: RunDocument) -> str:
    facts = report.facts
    began = moment_words(facts.started_at, report.timezone) if facts.started_at is not None else "start unknown"
    ended = moment_words(facts.ended_at, report.timezone) if facts.ended_at is not None else "now"
    return f"{began} - {ended}"


def _size(report: RunDocument) -> str:
    facts, total = report.facts, report.breakdown.milliseconds
    hours = f"{gpu_hours(total, hours_decimals(total))} GPU-hours"
    if facts.started_at is not None and facts.started_at < report.span.start:  # the ledger does not go back so far
        return f"{hours} since {moment_words(report.span.start, report.timezone)}"
    hours += " so far" if report.running else ""
    if facts.started_at is None or facts.ended_at is None:
        return hours
    return f"{duration((facts.ended_at - facts.started_at) // 1_000_000)} = {hours}"


def _cost(report: RunDocument) -> str:
    cost, total = report.breakdown.cost_micros, report.breakdown.milliseconds
    if not report.breakdown.priced or cost is None:
        return "; ".join(unpriced_words(report.breakdown, report.currency)) or "no GPU time yet"
    rate = money(nearest(cost * HOUR_MS, total), report.currency)
    options = ", ".join(report.purchase_options).replace("_", " ")
    return f"{money(cost, report.currency)} at {rate}{f' ({options})' if options else ''}"


def _rest(report: RunDocument) -> list[tuple[str, str]]:
    found = []
    if report.steps:
        found.append((f"{large(report.steps)} steps (said by the run)", ""))
    if report.tokens:
        found.append((f"{large(report.tokens)} tokens (said by the run)", _of_tokens(report)))
    drawn = run_energy_words(report.energy, report.breakdown.milliseconds) if report.energy is not None else ""
    begun = _begun(report.facts)
    if begun or drawn:
        found.append((begun or "energy", drawn))
    if (at_limit := projection(report)) is not None:
        found.append(at_limit)
    return found


def _of_tokens(report: RunDocument) -> str:
    """Return "$0.75 per million; before: $0.75, $0.74", where the last runs of its name say their tokens too."""
    cost = report.breakdown.cost_micros
    if not cost or not report.tokens:
        return ""
    told = f"{money(nearest(cost * MICROS, report.tokens), report.currency)} per million"
    before = [one.micros_per_million_tokens for one in report.earlier]
    words = [money(each, report.currency) for each in before if each is not None]
    return f"{told}; before: {', '.join(words)}" if words else told


def _begun(facts: RunFacts) -> str:
    """Return how long it was queued, and how often it was begun; empty where neither is worth a word."""
    attempts = f"{facts.attempts} attempts" if facts.attempts > 1 else ""
    if facts.submitted_at is None or facts.started_at is None or facts.started_at <= facts.submitted_at:
        return attempts
    waited = duration((facts.started_at - facts.submitted_at) // 1_000_000)
    return f"queued {waited}; {attempts}" if attempts else f"queued {waited} before it began"


def projection(report: RunDocument) -> tuple[str, str] | None:
    """Return what the run will have cost at its limit if it goes on as on average so far; a limit may have passed.

    None where it has ended, or no limit is known.
    """
    limit_at, started_at = report.limit_at, report.facts.started_at
    if not report.running or limit_at is None or started_at is None:
        return None
    if limit_at <= report.span.end:
        return f"its limit was {moment_words(limit_at, report.timezone)}, and it still runs", ""
    known = max(1, report.span.end - max(report.span.start, started_at))
    whole = known + limit_at - report.span.end
    total = nearest(report.breakdown.milliseconds * whole, known)
    cost = report.breakdown.cost_micros
    paid = f", {money(nearest(cost * whole, known), report.currency)}" if cost and report.breakdown.priced else ""
    left = f"at its limit, {moment_words(limit_at, report.timezone)}:"
    return left, f"about {gpu_hours(total, hours_decimals(total))} GPU-hours{paid}"


def run_sentence(report: RunDocument) -> str:
    """Return the answer: the largest finding's own sentence, after what is larger and unexplained; or how it did; and
    whether others computed there.
    """
    answer = f"{_unexplained_words(report)}{report.findings[0].claim}" if report.findings else _course(report)
    return " ".join(filter(None, (answer, _others(report))))


LINE_MOST = 300  # characters: a comment of Slurm, a line of a mail
SO_FAR = "so far"


def run_line(report: RunDocument) -> str:
    """Return a run in one line of ASCII: what it held and cost, what was lost, the one thing to change.

    While the ledger has not booked it to its end, it says so: SO_FAR.
    """
    whole, lost = report.breakdown, report.breakdown.of("avoidable")
    told = f"{gpu_hours(whole.milliseconds, hours_decimals(whole.milliseconds))} GPU-hours"
    told += f", {at_least(money(whole.cost_micros, report.currency), whole.is_part)}" if whole.cost_micros else ""
    parts = [told]
    main = whole.main_loss
    if not whole.measured.milliseconds:
        parts.append("not measured")
    elif main is None:
        parts.append("nothing avoidable was found")
    else:
        paid = f" ({money(lost.cost_micros, report.currency)})" if lost.cost_micros else ""
        share = percent(lost.milliseconds, whole.measured.milliseconds)
        parts.append(f"lost {share}{paid}, most to {main.label}")
    if report.recommendations:
        parts.append(f"to change: {report.recommendations[0].title}")
    ended_at = report.facts.ended_at
    if ended_at is None or report.span.end < ended_at - MINUTE_US:  # of a last minute there may be nothing to book
        parts.append(SO_FAR)
    return TextLayout(LINE_MOST, ascii=True).page([" ".join("; ".join(parts).split())[:LINE_MOST]]).strip()


def _others(report: RunDocument) -> str:
    if report.shared is None:
        return ""
    if others := report.shared.others_milliseconds:
        hours = gpu_hours(others, hours_decimals(others))
        return f"Others computed on its GPUs, and {hours} GPU-hours of them are theirs."
    own = report.shared.milliseconds
    return f"Others computed on its GPUs during {gpu_hours(own, hours_decimals(own))} GPU-hours of its time."


def _course(report: RunDocument) -> str:
    useful, whole = report.breakdown.of("useful"), report.breakdown.measured
    if not whole.milliseconds:
        return "Nothing was measured of its GPU time: what it did with it is not known."
    share = percent(useful.milliseconds, whole.milliseconds)
    losses = [entry for entry in whole.entries if entry.klass != "useful"]
    largest = max(losses, key=whole.weight, default=None)
    silent = report.breakdown.milliseconds - whole.milliseconds
    of = f"the {percent(whole.milliseconds, report.breakdown.milliseconds)} of its GPU time that was measured"
    told = f"{'It' if report.shared else 'Nothing was found to change: it'} worked {share} of "
    told += of if silent else "its GPU time"
    if largest is None:
        return f"{told}."
    return f"{told}; the largest rest is {largest.label} ({percent(whole.weight(largest), whole.total_weight)})."


def _unexplained_words(report: RunDocument) -> str:
    """Return how much of a run nobody can explain, where that is more than its largest finding; else nothing."""
    unexplained = report.breakdown.measured.of("unknown").milliseconds
    if unexplained <= report.findings[0].milliseconds:
        return ""
    share = percent(unexplained, report.breakdown.milliseconds)
    return f"{share} of its GPU time is low utilization without a proven cause; the largest loss that has one: "


def sparks(report: RunDocument, layout: TextLayout) -> list[str]:
    """Return two lines of the share of working and of the largest loss over time, and the axis under them."""
    buckets = [(at, list(points)) for at, points in groupby(report.timeline, key=lambda point: point.bucket_start)]
    if len(buckets) < _SPARK_LEAST:
        return []
    totals: dict[str, int] = {}
    for point in report.timeline:
        what = booking(point.state, point.cause)
        if what.klass == "avoidable":
            totals[what.label] = totals.get(what.label, 0) + point.milliseconds
    labels = ["productive", *([max(totals, key=lambda label: totals[label])] if totals else [])]
    indent = min(18, max(map(len, labels))) + 4
    cells = _merged([points for _, points in buckets], layout.width - 2 - indent)
    columns: tuple[TableColumn[str], ...] = (
        TableColumn("", lambda label: layout.cut(label, 18), width=indent, align="<"),
        spark_column("", lambda label: [_share(points, label) for points in cells], len(cells), layout),
    )
    began = max(buckets[0][0], report.facts.started_at or 0)  # in the middle of a stretch
    ended = min(report.span.end, report.facts.ended_at or report.span.end)
    return [*paper_lines(columns, labels), _axis(began, ended, len(cells), indent, report.timezone)]


def _merged(buckets: list[list[TimelinePoint]], most: int) -> list[list[TimelinePoint]]:
    """Return at most so many buckets, neighbours put together."""
    cells = min(len(buckets), most)
    merged: list[list[TimelinePoint]] = [[] for _ in range(cells)]
    for place, points in enumerate(buckets):
        merged[place * cells // len(buckets)] += points
    return merged


def _share(points: list[TimelinePoint], label: str) -> float:
    whole = sum(point.milliseconds for point in points)
    own = sum(point.milliseconds for point in points if booking(point.state, point.cause).label == label)
    return own / whole if whole else 0.0


def _axis(first: int, last: int, cells: int, indent: int, timezone: str) -> str:
    began, ended = local(first, timezone), local(last, timezone)
    left = f"{day(began).split()[0]} {began:%H:%M}"
    right = f"{day(ended).split()[0]} {ended:%H:%M}"
    return " " * indent + at_ends(left, right, cells)


def _told_at(report: RunDocument, finding: Finding, shown: tuple[Finding, ...]) -> list[Recommendation]:
    """Return the changes that are told below a finding: one that ends two losses is told once, at the first."""

    def first(advice: Recommendation) -> Finding | None:
        return next((each for each in shown if each.id in advice.finding_ids), None)

    return [advice for advice in report.recommendations if first(advice) is finding]


def _advice(advice: Recommendation, against: Finding, report: RunDocument, layout: TextLayout) -> list[str]:
    found = [layout.cut(f"{advice.id}  TRY: {advice.title}", layout.width - 2)]
    span_us = report.span.end - report.span.start
    saves = saves_in_run(advice, span_us, report.currency, running=report.running)
    found += layout.labelled("saves", saves, 18)
    if (words := sooner(advice, against, report)) is not None:
        found += layout.labelled("the run", words, 18)
    found += layout.labelled("moving costs", cost_words(advice, report.currency), 18)
    found += [f"    {line}" for each in advice.artefacts for line in folded(each, layout.width - 4)]
    found += layout.labelled("owner", actor_words(advice), 18)
    return [*found, *layout.labelled("side effects", plain(advice.losers), 18)]


def _insufficient_data(report: RunDocument, layout: TextLayout) -> list[str]:
    words = insufficient_data_words(report)
    return layout.labelled("INSUFFICIENT DATA", " · ".join(words), 19, indent=0) if words else []


def insufficient_data_words(report: RunDocument) -> list[str]:
    """Return each rule and figure that lacked data of the run, and which."""
    words = [f"{rule_words(rule.rule)}: {plain(rule.missing)}" for rule in report.not_judged]
    return words + [f"{what}: {plain(because)}" for what, because in not_known(report.efficiency)]


def _onwards(report: RunDocument, shown: tuple[Finding, ...]) -> list[str]:
    """Return where to look next: its page, its first finding, and the run of its name before it."""
    more = len(report.findings) - len(shown)
    hint = f"       {counted(more, 'smaller finding')}: --json" if more > 0 else ""
    found = [f"ranks, timeline, evidence: {report.page}"] if report.page else []
    found.append(f"next: gpuledger findings explain {shown[0].id}{hint}" if shown else "next: gpuledger findings")
    if report.earlier:
        ids = (report.earlier[0].run_id, report.facts.run_id)
        found.append(f"      gpuledger runs compare {' '.join(plain(one).rsplit('/', 1)[-1] for one in ids)}")
    return found


RUNS_SHOWN = 20
_NAME, _TEAM = 27, 12  # characters of a run's id and name on 80 columns, and of its team


def runs_text(report: RunList, layout: TextLayout, top: int | None) -> str:
    """Return the first runs of the list, at most `top`: a line of figures and a line of words each."""
    shown = report.runs[: top or RUNS_SHOWN]
    if not shown:
        return layout.page([f"{report.period.label}: no run held a GPU"])
    sign = symbol(report.currency).strip()
    is_narrow = layout.extra < 0  # the team then stands in the line below
    width = _NAME + layout.extra + (_TEAM if is_narrow else 0)
    team = TableColumn[RunSummary]("TEAM", lambda run: layout.cut(_team(run), _TEAM - 1), width=_TEAM, align="<")
    head, *rows = paper_lines(
        (
            TableColumn("RUN", lambda run: layout.cut(_called(run), width - 1), width=width, align="<"),
            *([] if is_narrow else [team]),
            TableColumn("GPU-hours", lambda run: gpu_hours(run.breakdown.milliseconds), width=10),
            TableColumn(f"cost {sign}", lambda run: _amount(run.breakdown), width=11),
            TableColumn("useful", _useful, width=8),
            TableColumn(f"avoidable {sign}", _lost, width=12),
        ),
        shown,
        indent="",
    )
    lines = [head]
    for run, row in zip(shown, rows, strict=True):
        lines += [row, *layout.wrap(f"{f'{_team(run)}; ' if is_narrow else ''}{_size_and_loss(run)}", "    ")]
    left = f"{len(shown)} of {counted(len(report.runs), 'run')}; next: gpuledger report run {_short(shown[0])}"
    return layout.page([*lines, "", left])


def _called(run: RunSummary) -> str:
    return f"{_short(run)} {run.name}" if run.name != _short(run) else run.name


def _team(run: RunSummary) -> str:
    return plain(run.team or "unmapped")


def _amount(breakdown: Breakdown) -> str | None:
    cost = breakdown.cost_micros
    return None if cost is None else at_least(amount(cost, 2), breakdown.is_part)


def _useful(run: RunSummary) -> str | None:
    measured = run.breakdown.measured.milliseconds
    return percent(run.breakdown.of("useful").milliseconds, measured) if measured else None


def _lost(run: RunSummary) -> str | None:
    avoidable = run.breakdown.of("avoidable")
    if not run.breakdown.measured.milliseconds:
        return None
    return _amount(avoidable) if avoidable.milliseconds else amount(0, 2)


def _size_and_loss(run: RunSummary) -> str:
    loss = run.main_loss
    size = f"{run.gpus} {run.sku or 'GPUs of several kinds'}" if run.gpus else "size not known"
    measured = "nothing avoidable" if run.breakdown.measured.milliseconds else "not measured"
    return f"{size}; {f'most of it {loss.label}' if loss else measured}"


def _short(run: RunSummary) -> str:
    return run.run_id.rsplit("/", 1)[-1]
