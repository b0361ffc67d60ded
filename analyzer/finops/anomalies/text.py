"""What was out of the ordinary, as text: what it came to, what was expected, and which runs made the difference."""

from analyzer.finops.anomalies.anomaly_query import Anomalies, Anomaly
from analyzer.finops.unit_cost.report import UnitReport
from analyzer.finops.unit_cost.text import change_words
from analyzer.text.layout import TextLayout
from analyzer.text.words import counted, days, money, percent, plain, span_words

_ROWS = 10
_HEAD = "OUT OF THE ORDINARY"


def anomalies_text(report: Anomalies, units: UnitReport, layout: TextLayout, top: int | None = None) -> str:
    """Return a period's anomalies as text: of unit costs and of teams."""
    lines = [f"anomalies {report.period.label}   {days(report.period)}, {report.period.timezone}", ""]
    body = _sentences(report, units, top or _ROWS)
    if not body and report.weeks_missing:
        lines += [*layout.wrap("Nothing can be called out of the ordinary yet."), ""]
    elif not body:
        lines += [*layout.wrap("Nothing was out of the ordinary."), ""]
    else:
        lines.append(_HEAD)
        for sentence in body:
            lines += layout.wrap(sentence, "  - ", "    ")
        lines.append("")
    if more := report.more + sum(max(0, len(each) - (top or _ROWS)) for each in (report.found, units.changes)):
        lines += [*layout.wrap(f"and {counted(more, 'smaller one')}"), ""]
    if report.weeks_missing:
        missing = counted(report.weeks_missing, "more week")
        lines += [*layout.wrap(f"What teams usually cost is known after {missing} of ledger before this period."), ""]
    return layout.page([*lines, "next: gpuledger bill units      gpuledger findings"])


def _sentences(report: Anomalies, units: UnitReport, top: int = _ROWS) -> list[str]:
    """Return what was odd as sentences, unit costs first, then teams; at most `top` of each."""
    zone = report.period.timezone
    changes = [change_words(line, change, report.currency, zone) for line, change in units.changes[:top]]
    return [*changes, *(anomaly_words(one, report) for one in report.found[:top])]


def anomaly_words(one: Anomaly, report: Anomalies) -> str:
    """Return "team-nlp cost $412 more than such hours did, Tue 10 Nov 14:00 - 20:00: $900 (+84.2 %). ..."."""
    odd, currency = one.odd, report.currency
    more = "more" if odd.impact > 0 else "less"
    share = percent(abs(odd.impact), odd.expected)
    told = f" ({'+' if odd.impact > 0 else '-'}{share})" if odd.expected else ""
    what = "cost" if one.what == "cost" else "had avoidable cost of"
    who = plain(one.team) if one.team is not None else "what maps to no team"
    when = span_words(odd.start, odd.end, report.period.timezone)
    difference = money(abs(odd.impact), currency, 0)
    if not odd.expected:
        first = f"{who} {what} {money(odd.actual, currency, 0)}, where there is usually none, {when}"
    elif one.what == "cost":
        first = f"{who} {what} {difference} {more} than usual, {when}: {money(odd.actual, currency, 0)}{told}"
    else:
        first = f"{who} {what} {money(odd.actual, currency, 0)}, {difference} {more} than usual{told}, {when}"
    names = [f"{plain(each.name)} {_signed(each.actual - each.expected, currency)}" for each in one.by_name]
    if one.others:
        names.append(counted(one.others, "other"))
    return f"{first}. What moved most: {', '.join(names)}." if names else f"{first}."


def _signed(micros: int, currency: str) -> str:
    return f"{'+' if micros > 0 else '-'}{money(abs(micros), currency, 0)}"
