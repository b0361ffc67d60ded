"""The five things worth doing: who can act, the lines to paste, the evidence, and what it saves a week."""

from analyzer.interfaces.mail.content import Action, Actions
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.saving_words import all_priced, bill_words, saved_over, saving_column
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import is_predicted
from analyzer.reports.week import WeekReport
from analyzer.text.words import plain, plain_sentence

_SHOWN = 5
_PASTED_LINES = 4  # of more, a mail names the command that prints them whole: half a script is worse than none
_FOLDED_LINES = 9  # the same, where they had to be folded
_PASTE_COLUMNS = 72
_NUMBERS = ("no", "one", "two", "three", "four", "five")


def actions(report: WeekReport, site_url: str | None) -> Actions | None:
    """Return the first five recommendations as `report` orders them; None where there is none."""
    shown = report.recommendations[:_SHOWN]
    if not shown:
        return None
    amounts, together = saving_column(shown, report.currency)
    things = "thing" if len(shown) == 1 else "things"
    return Actions(
        f"{_NUMBERS[len(shown)]} {things} worth doing",
        f"{'saves' if all_priced(shown) else 'GPU-hours'} {saved_over(shown)} (P50)",
        tuple(_action(one, amount, report, site_url) for one, amount in zip(shown, amounts, strict=True)),
        together,
        bill_words(shown, report.fleet, report.currency, report.period.timezone),
    )


def _action(one: Recommendation, amount: str, report: WeekReport, site_url: str | None) -> Action:
    linked = site_url and one.finding_ids
    return Action(
        one.id,
        _owner(one),
        f"{plain(one.subject)}: {_question(one)}{plain(one.title)}",
        _how(one),
        _evidence(one, report),
        amount if is_predicted(one) else "not predicted",
        f"{site_url}/findings/{one.finding_ids[0]}?week={report.period.label}" if linked else None,
    )


def _question(one: Recommendation) -> str:
    if not one.ends_work:
        return ""
    return "still needed? " if one.kind == "release" else "does its owner agree? "


def _owner(one: Recommendation) -> str:
    if one.actor == "run":
        return plain(one.team) if one.team else "its run's owner"
    return one.actor or "not known"


def _how(one: Recommendation) -> tuple[str, ...]:
    """Return the lines to paste where they are few, else the command that prints them.

    What ends somebody's work is a question to its owner, with what may be lost, and no line to paste.
    """
    if one.ends_work:
        return (
            f"a question to its owner; at risk: {plain(one.cost_to_move)}",
            f"gpuledger recommendations show {one.id}",
        )
    count = sum(bool(line.strip()) for each in one.artefacts for line in each.text.splitlines())
    lines = [line for each in one.artefacts for line in folded(each, _PASTE_COLUMNS) if line.strip()]
    is_short = 0 < count <= _PASTED_LINES and len(lines) <= _FOLDED_LINES
    return tuple(lines) if is_short else (f"gpuledger recommendations show {one.id}",)


def _evidence(one: Recommendation, report: WeekReport) -> str:
    """Return why, with the finding that it stands on and what that says is at stake."""
    found = {finding.id: finding for finding in report.findings}
    cited = [f"{each} ({found[each].confidence})" if each in found else each for each in one.finding_ids[:2]]
    return plain_sentence(one.why) + (f" [{', '.join(cited)}]" if cited else "")
