"""Reports as HTML: a fragment for the page, or one self-contained file, which loads nothing. Every name is escaped."""

from collections.abc import Mapping

from analyzer.interfaces.text.finding_text import record_words
from analyzer.interfaces.text.recording_text import recording_sentence, time_rows
from analyzer.interfaces.text.savings_text import bill_words, checked_words, saving_column, savings_head
from analyzer.interfaces.text.sentences import cost_words, data_gap_words, first_sentence, fleet_words
from analyzer.interfaces.text.week_text import (
    CHECKED_SHOWN,
    RECOMMENDATIONS_SHOWN,
    correction_words,
    gpus_words,
    measured_with_words,
    prices_words,
    silent_words,
    status_words,
)
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.reports.findings import Explained, Words, finding_charts
from analyzer.reports.host_side import RecordingReport
from analyzer.reports.run import worth_showing
from analyzer.reports.week import WeekReport, charge_lines, group_lines
from analyzer.text.templating import environment
from analyzer.text.words import days, decimal, gpu_hours, hours_decimals, kind_of, plain, symbol


def week_view(report: WeekReport) -> dict[str, object]:
    """Return everything that a template prints of a week, rounded and in words."""
    shown = report.recommendations[:RECOMMENDATIONS_SHOWN]
    savings, together = saving_column(shown, report.currency) if shown else ([], "")
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    return {
        "report": report,
        "title": f"{kind_of(report.period)} {report.period.label}",
        "days": f"{days(report.period)}, {report.period.timezone}",
        "status": status_words(report),
        "fleet": fleet_words(report.fleet) if report.fleet else "no GPU",
        "owned": gpu_hours(report.breakdown.milliseconds, hours_decimals(report.breakdown.milliseconds)),
        "gpus": gpus_words(report),
        "cost": cost_words(report.breakdown, report.currency) if report.breakdown.cost_micros is not None else None,
        "prices": prices_words(report),
        "sentence": first_sentence(report),
        "tone": "lost" if report.breakdown.of("avoidable").milliseconds else "",
        "sign": symbol(report.currency).strip(),
        "lines": breakdown_lines(report.breakdown, report.previous) if report.breakdown.entries else (),
        "by": report.table.by.replace("-", " "),
        "teams": group_lines(report, report.table) if report.table.rows else (),
        "charged": charge_lines(report),
        "advice": list(zip(shown, savings, strict=True)),
        "together": together,
        "savings_head": savings_head(shown),
        "bill": bill_words(shown, report.fleet, report.currency, report.period.timezone),
        "checked": [(one.id, *_checked(one, report)) for one in report.checked[:CHECKED_SHOWN]],
        "corrections": correction_words(report),
        "measured": f"{decimal((held - silent) * 1000 // held, 1)}%" if held else None,
        "measured_with": measured_with_words(report.by_what),
        "silent": [silent_words(node, report.period.timezone) for node in report.measured.nodes],
        "not_judged": [data_gap_words(rule) for rule in report.not_judged],
        "record": record_words(report.record) if report.record is not None else None,
    }


def _checked(one: Realised, report: WeekReport) -> tuple[str, str]:
    """Return what was done, and in one text what came of it."""
    title, *told = checked_words(one, report.currency, report.period.timezone)
    return title, "; ".join(told)


def week_html(report: WeekReport) -> str:
    """Return the report of a week as one self-contained HTML document."""
    return environment().get_template("week_document.html").render(week_view(report))


def finding_html(explained: Explained) -> str:
    """Return one finding with its picture as one self-contained HTML document."""
    from analyzer.charts.figures import stacked_bars  # plotly takes 0.3 s, and most answers draw nothing

    plot = explained.argument.plot if explained.argument else None
    charts = [(each, stacked_bars(each)) for each in finding_charts(explained.finding, plot, explained.timezone)]
    return environment().get_template("finding_document.html").render(view=explained, charts=charts)


def recording_html(
    report: RecordingReport, before: RecordingReport | None, lanes: Mapping[str, object] | None, text: str
) -> str:
    """Return the report on one command as one file: the answer, its timeline with all signals, and what to change.

    `lanes` is None where there is nothing to draw; `text` is the whole report, which stands below.
    """
    run = report.run if before is None else None
    return (
        environment()
        .get_template("recording_document.html")
        .render(
            title=plain(report.header.command),
            sentence=recording_sentence(report, before),
            lanes=lanes,
            rows=time_rows(run.breakdown, max(1, report.gpus)) if run else (),
            findings=worth_showing(run) if run else (),
            advice=run.recommendations if run else (),
            words=Words(run.currency, run.timezone, run.span) if run else None,
            timezone=report.run.timezone if report.run else "",
            text=text,
        )
    )


def text_html(title: str, text: str) -> str:
    """Return a report that has no page of its own as its text in one self-contained HTML document."""
    return environment().get_template("text_document.html").render(title=title, text=text)
