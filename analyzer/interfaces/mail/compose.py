"""Make an e-mail's words from the report of a week: the same lines, sums and sentences that `report` prints."""

import re
from calendar import month_name
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from agent.wire.units import WEEK_SECONDS
from analyzer.interfaces.mail.content import Action, Actions, ClassShare, Content, Extras, Headline, WentLine
from analyzer.interfaces.mail.message import attachments
from analyzer.interfaces.mail.sections import sections
from analyzer.interfaces.mail.team_week import Came
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.savings_text import all_priced, bill_words, saved_over, saving_column
from analyzer.interfaces.text.sentences import cost_words, first_sentence, is_unheld, is_unmeasured, unheld_sentence
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.queries.ledger_query import alike_measured
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import is_predicted
from analyzer.reports.week import WeekReport
from analyzer.text.words import (
    at_least,
    counted,
    decimal,
    gpu_hours,
    hours_decimals,
    kind_of,
    money,
    money_decimals,
    nearest,
    owner_word,
    plain,
    plain_sentence,
    symbol,
)

_SHOWN = 5
_PASTED_LINES = 4  # of more, a mail names the command that prints them whole: half a script is worse than none
_FOLDED_LINES = 9  # the same, where they had to be folded
_PASTE_COLUMNS = 72
# What ends somebody's job is pasted by no reader of a mail: it goes to more people than the job's owner.
_ENDS_JOBS = re.compile(r"\b(scancel|qdel|bkill|condor_rm|kubectl\s+(delete|scale))\b")


def actions(report: WeekReport, site_url: str | None) -> Actions | None:
    """Return the first five recommendations as `report` orders them; None where there is none."""
    shown = report.recommendations[:_SHOWN]
    if not shown:
        return None
    amounts, together = saving_column(shown, report.currency)
    return Actions(
        "top recommendation" if len(shown) == 1 else "top recommendations",
        _saving_head(shown),
        tuple(_action(one, amount, report, site_url) for one, amount in zip(shown, amounts, strict=True)),
        together,
        bill_words(shown, report.fleet, report.currency, report.period.timezone),
    )


def _action(one: Recommendation, amount: str, report: WeekReport, site_url: str | None) -> Action:
    linked = site_url and one.finding_ids
    return Action(
        one.id,
        plain(one.team) if one.actor == "run" and one.team else owner_word(one.actor, "unknown"),
        f"{plain(one.subject)}: {_question(one)}{plain(one.title)}",
        _how(one),
        _evidence(one, report),
        amount if is_predicted(one) else "not predicted",
        f"{site_url}/findings/{one.finding_ids[0]}?week={report.period.label}" if linked else None,
    )


def _saving_head(shown: Sequence[Recommendation]) -> str:
    is_weekly = shown[0].saves_over_seconds >= WEEK_SECONDS
    unit = "savings" if all_priced(shown) else "GPU-hours saved"
    return f"estimated {'weekly ' if is_weekly else ''}{unit}{'' if is_weekly else f' {saved_over(shown)}'} (median)"


def _question(one: Recommendation) -> str:
    if not one.ends_work:
        return ""
    return "still needed? " if one.kind == "release" else "does its owner agree? "


def _how(one: Recommendation) -> tuple[str, ...]:
    """Return the lines to paste where they are few, else the command that prints them.

    What ends somebody's work is a question to its owner, with what may be lost, and no line to paste.
    """
    if one.ends_work:
        return (
            f"ask its owner first; at risk: {plain(one.cost_to_move)}",
            f"gpuledger recommendations show {one.id}",
        )
    count = sum(bool(line.strip()) for each in one.artefacts for line in each.text.splitlines())
    lines = [line for each in one.artefacts for line in folded(each, _PASTE_COLUMNS) if line.strip()]
    is_short = 0 < count <= _PASTED_LINES and len(lines) <= _FOLDED_LINES and not any(map(_ENDS_JOBS.search, lines))
    return tuple(lines) if is_short else (f"gpuledger recommendations show {one.id}",)


def _evidence(one: Recommendation, report: WeekReport) -> str:
    """Return why, with the finding that it stands on and what that says is at stake."""
    found = {finding.id: finding for finding in report.findings}
    cited = [f"{each} ({found[each].confidence})" if each in found else each for each in one.finding_ids[:2]]
    return plain_sentence(one.why) + (f" [{', '.join(cited)}]" if cited else "")


_CLEAR_PERMILLE = 950  # of held time measured before a week may be called clear: the coverage a profile needs as well
_SPREAD = ("useful", "avoidable")  # classes of which every row is shown; of the others the sum, with its parts named


def compose(
    report: WeekReport,
    *,
    team: str | None = None,
    oldest_price: date | None = None,
    extras: Extras | None = None,
    usual: Came | None = None,
    site_url: str | None = None,
) -> Content:
    """Return what the mail on a week says: of the fleet, or of the team whose report this is.

    `oldest_price` is the date of the oldest price in use, `usual` the median of the weeks before; `site_url` is where
    pages are, without it nothing is linked.
    """
    more = extras if extras is not None else Extras()
    table = breakdown_lines(report.breakdown, report.previous)
    is_clear = _is_all_clear(report)
    return Content(
        _subject(report, table, team, is_clear=is_clear),
        _title(report, team),
        team,
        report.period.label,
        report.cluster,
        _figures(report, table, team, usual),
        _answer(report, is_clear=is_clear),
        symbol(report.currency).strip() if report.breakdown.cost_micros is not None else "GPU-hours",
        _went(table),
        _classes(table),
        actions(report, site_url),
        sections(report, more, oldest_price, team),
        f"{site_url}/?week={report.period.label}" if site_url and "-W" in report.period.label else site_url,
        is_clear,
        attachments(report, team),
        site_url,
    )


def _is_all_clear(report: WeekReport) -> bool:
    """Return whether a week may be called clear: measured, nothing avoidable, and nothing to recommend."""
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    return (
        bool(report.breakdown.entries)
        and not report.avoidable.milliseconds
        and not report.recommendations
        and report.hours.complete
        and not unheld_sentence(report)
        and not is_unmeasured(report)
        and not is_unheld(report)
        and not report.not_judged
        and (held - silent) * 1000 >= held * _CLEAR_PERMILLE
    )


def _days_words(report: WeekReport) -> str:
    """Return the days of a period with their months in full: "9-15 November"."""
    first, last = report.period.first_day, report.period.last_day
    end = f"{last.day} {month_name[last.month]}"
    if (first.year, first.month) == (last.year, last.month):
        return end if first == last else f"{first.day}-{end}"
    return f"{first.day} {month_name[first.month]} - {end}"


def _title(report: WeekReport, team: str | None) -> str:
    whose = [f"cluster {plain(report.cluster)}"] if report.cluster else []
    whose += [plain(team)] if team is not None else []
    return ", ".join([f"{kind_of(report.period)} {report.period.label}", _days_words(report), *whose])


def _subject(report: WeekReport, table: tuple[BreakdownLine, ...], team: str | None, *, is_clear: bool) -> str:
    """Return a line that is worth reading alone: what it cost, what was useful, what was avoidable."""
    whose = f"{plain(team)}'s GPUs" if team is not None else "GPUs"
    week = report.period.label.partition("-")[2] if "-W" in report.period.label else report.period.label
    if not report.breakdown.entries:
        return f"{whose} {week}: no data for this week"
    if is_unheld(report):
        return f"{whose} {week}: {_all_of_it(report)}, no runs known"
    if is_unmeasured(report):
        return f"{whose} {week}: {_all_of_it(report)}, nothing measured"
    breakdown = report.breakdown.measured if report.breakdown.has_gap else report.breakdown
    useful = sum(breakdown.weight(entry) for entry in breakdown.entries if entry.klass == "useful")
    share = nearest(100 * useful, max(1, breakdown.total_weight))
    of = " of what was measured" if report.breakdown.has_gap else ""
    said = f"{whose} {week}: {_all_of_it(report)}, useful {share}%{of}"
    if is_clear:
        return f"{said}, all clear"
    figure = _avoidable(report, table)
    change = f" ({figure.change})" if figure.change else ""
    return f"{said}, avoidable {figure.value}{change}"


def _all_of_it(report: WeekReport) -> str:
    cost = report.breakdown.cost_micros
    if cost is None:
        total = report.breakdown.milliseconds
        return f"{gpu_hours(total, hours_decimals(total))} GPU-hours"
    return cost_words(report.breakdown, report.currency)


def _figures(
    report: WeekReport, table: tuple[BreakdownLine, ...], team: str | None, usual: Came | None
) -> tuple[Headline, Headline, Headline]:
    owned, avoidable = _owned(report, team), _avoidable(report, table)
    if usual is not None and report.breakdown.priced == usual.is_priced:
        owned = replace(owned, usual=_median(usual.micros, usual.milliseconds, report))
        avoidable = replace(avoidable, usual=_median(usual.avoidable_micros, usual.avoidable_milliseconds, report))
    return owned, avoidable, _saved(report)


def _median(micros: int, milliseconds: int, report: WeekReport) -> str:
    """Return it as the week's own figures are rounded."""
    breakdown = report.breakdown
    if breakdown.priced:
        amount = money(micros, report.currency, money_decimals(breakdown.cost_micros))
    else:
        amount = f"{gpu_hours(milliseconds, hours_decimals(breakdown.milliseconds))} h"
    return f"4-week median {amount}"


def _owned(report: WeekReport, team: str | None) -> Headline:
    name = "owned" if team is None else "held"
    now, before = report.breakdown, report.previous
    if before is None or before.priced != now.priced:
        return Headline(_all_of_it(report), name, "")
    if not now.priced:
        return Headline(_all_of_it(report), name, _time_moved(now.milliseconds - before.milliseconds, report))
    difference = (now.cost_micros or 0) - (before.cost_micros or 0)
    return Headline(_all_of_it(report), name, _money_moved(difference, report))


def _avoidable(report: WeekReport, table: tuple[BreakdownLine, ...]) -> Headline:
    """Return the figure as the table rounds it, and how it moved, as the first sentence of the report says it."""
    line = next((line for line in table if line.klass == "avoidable" and line.level in ("class", "only")), None)
    if line is None and is_unheld(report):
        return Headline("unknown", "avoidable", "")
    if line is None and is_unmeasured(report):
        return Headline("not measured", "avoidable", "")
    if line is None:
        is_priced = report.breakdown.cost_micros is not None
        value = f"{symbol(report.currency)}0" if is_priced else "0 GPU-hours"
    else:
        told = at_least(f"{symbol(report.currency)}{line.money}", line.is_part)
        value = told if line.money is not None else f"{line.hours} GPU-hours"
    before = report.previous
    if before is None or before.priced != report.breakdown.priced or not alike_measured(before, report.breakdown):
        return Headline(value, "avoidable", "")
    before = before.of("avoidable")
    if not report.breakdown.priced:
        moved = _time_moved(report.avoidable.milliseconds - before.milliseconds, report)
    else:
        moved = _money_moved((report.avoidable.cost_micros or 0) - (before.cost_micros or 0), report)
    return Headline(value, "avoidable", moved)


def _money_moved(difference: int, report: WeekReport) -> str:
    words = money(abs(difference), report.currency, money_decimals(report.breakdown.cost_micros))
    if words == money(0, report.currency, money_decimals(report.breakdown.cost_micros)):
        return "unchanged"
    return f"{'down' if difference < 0 else 'up'} {words}"


def _time_moved(difference: int, report: WeekReport) -> str:
    words = gpu_hours(abs(difference), 0)
    return (
        f"same as the {kind_of(report.period)} before"
        if words == "0"
        else f"{'down' if difference < 0 else 'up'} {words} h"
    )


def _saved(report: WeekReport) -> Headline:
    """Return what changes that were made are known to save; what could not be told is not added."""
    told = [one for one in report.checked if one.outcome.standing == "verified"]
    name = "saved, verified"
    if not told:
        waits = len(report.checked)
        return Headline("none yet", name, f"{counted(waits, 'change')} not yet verified" if waits else "no change made")
    runs = sum(one.outcome.before + one.outcome.after for one in told)
    how = f"{counted(len(told), 'change')}, {counted(runs, 'run')}"
    amounts = [one.micros.likely for one in told if one.micros is not None]
    if len(amounts) == len(told):
        return Headline(f"{money(sum(amounts), report.currency, 0)} per week", name, how)
    time = sum(one.milliseconds.likely for one in told if one.milliseconds is not None)
    return Headline(f"{gpu_hours(time)} h per week", name, how)


def _answer(report: WeekReport, *, is_clear: bool) -> str:
    if not is_clear:
        return first_sentence(report)
    held = report.measured.held_milliseconds
    share = decimal((held - report.measured.not_measured_milliseconds) * 1000 // held, 1)
    among = f"in the {share}% of held GPU-hours that were measured"
    return f"All clear: nothing avoidable was found {among}, and there are no recommendations."


def _went(table: tuple[BreakdownLine, ...]) -> tuple[WentLine, ...]:
    found: list[WentLine] = []
    named: str | None = None
    for line in table:
        if line.level == "total":
            found.append(WentLine("total", "", _amount(line), line.percent, 1.0, is_total=True))
        elif line.klass in _SPREAD and line.level != "class":
            found.append(
                WentLine(
                    "" if line.klass == named else str(line.klass), line.label, _amount(line), line.percent, line.share
                )
            )
            named = line.klass
        elif line.klass not in _SPREAD and line.level in ("class", "only"):
            parts = [row.label for row in table if row.klass == line.klass and row.level in ("row", "only")]
            found.append(WentLine(str(line.klass), "; ".join(parts), _amount(line), line.percent, line.share))
    return tuple(found)


def _amount(line: BreakdownLine) -> str:
    return line.paid if line.paid is not None else line.hours


def _classes(table: tuple[BreakdownLine, ...]) -> tuple[ClassShare, ...]:
    """Return the picture's classes, as the report rounds them."""
    shown = [line for line in table if line.level in ("class", "only")]
    return tuple(ClassShare(str(line.klass), line.share, line.percent) for line in shown)
