"""Savings in words: what recommendations save together, what of it the bill will show, and what came of them."""

from collections.abc import Callable, Sequence

from agent.wire.units import HOUR_MS, MICROS, WEEK_SECONDS
from analyzer.interfaces.text.sentences import short_sku
from analyzer.ledger.coverage import Sku
from analyzer.period import local
from analyzer.prices.rows import BY_USE, FIXED
from analyzer.recommendations.lifecycle.lifecycle_tables import LifecycleStatus
from analyzer.recommendations.lifecycle.outcome import Outcome
from analyzer.recommendations.lifecycle.realised import (
    INNER_PERMILLE,
    LEAST,
    OUTER_PERMILLE,
    Calibration,
    Realised,
    Tally,
    Weekly,
)
from analyzer.recommendations.recommendation import Recommendation, over_words
from analyzer.reports.recommendation_words import is_predicted
from analyzer.reports.savings import SavingsReport, Together
from analyzer.text.layout import TextLayout
from analyzer.text.words import (
    CENTS_UNDER,
    UNKNOWN,
    counted,
    day,
    decimal,
    gpu_hours,
    money,
    nearest,
    percent,
    plain,
    plain_sentence,
    symbol,
)


def all_priced(shown: Sequence[Recommendation]) -> bool:
    """Return whether each of them has a price: only then is money what is added up."""
    return all(recommendation.saves_micros is not None for recommendation in shown)


def saved_over(shown: Sequence[Recommendation]) -> str:
    """Return the span of which these, all of one period, are told: "per week", or "in the 2 h seen"."""
    return over_words(shown[0].saves_over_seconds if shown else WEEK_SECONDS)


def savings_head(shown: Sequence[Recommendation]) -> str:
    """Return the head of saving_column(): "estimated weekly savings (median)", or of the span that was seen."""
    over = saved_over(shown)
    span = "weekly savings" if over.endswith(" week") else f"savings {over}"
    return f"estimated {span} (median){'' if all_priced(shown) else ', GPU-hours'}"


def saving_column(shown: Sequence[Recommendation], currency: str) -> tuple[list[str], str]:
    """Return what each saves (P50), in the span that saved_over() names, and their sum: money, or time without prices.

    Each is rounded by itself, as wherever else it is shown, and what is summed is what is printed. What can only be
    tried is a dash; where nothing else is shown, there is no sum.
    """
    if not any(map(is_predicted, shown)):
        return [UNKNOWN] * len(shown), ""
    units = _units(shown)
    sign = symbol(currency)
    each = [f"{sign}{unit:,}" if all_priced(shown) else f"{decimal(unit, 1)} h" for unit in units]
    each = [amount if is_predicted(one) else UNKNOWN for one, amount in zip(shown, each, strict=True)]
    return each, _whole(sum(units), shown, currency)


def bill_words(shown: Sequence[Recommendation], fleet: Sequence[Sku], currency: str, timezone: str) -> str:
    """Return what of these savings the bill shows: GPUs bought or reserved cost the same, used or not.

    What it says follows from the recommendations alone, and so is the same for whoever reads them; of `fleet`, which is
    empty for who may not see it, come the names of what is paid for. The two parts sum to what saving_column() prints.
    """
    billed = sum(_billed_unit(one, priced=all_priced(shown)) for one in shown)
    fixed = [sku for sku in fleet if sku.purchase_option in FIXED]
    use = _named([sku for sku in fleet if sku.purchase_option in BY_USE], fleet, timezone)
    if any(one.billed is None for one in shown):
        untold = _named([sku for sku in fleet if sku.purchase_option not in (*BY_USE, *FIXED)], fleet, timezone)
        if billed <= 0:
            return f"GPUs freed for other work. Whether the bill falls is not known, nor how they are paid for{untold}."
        least = f"the bill falls by at least {_whole(billed, shown, currency)} once they are handed back{use}"
        return f"{least}; by how much more is not known, nor how the others are paid for{untold}."
    if billed <= 0:
        paid = _named(fixed or fleet, fleet, timezone) or "; how the GPUs are paid for is not known to you"
        return f"GPUs freed for other work. The bill itself stays as it is{paid}."
    freed = sum(_units(shown)) - billed
    falls = f"the bill falls by {_whole(billed, shown, currency)} once they are handed back{use}."
    if freed <= 0:
        return falls
    stays = f" What is paid for either way stays: {_skus(fixed, fleet, timezone)}." if fixed else ""
    return f"{_whole(freed, shown, currency)} of it in GPUs freed for other work; {falls}{stays}"


def _units(shown: Sequence[Recommendation]) -> list[int]:
    if all_priced(shown):
        return [nearest(saves.p50, MICROS) for one in shown if (saves := one.saves_micros)]
    return [nearest(one.saves_milliseconds.p50 * 10, HOUR_MS) for one in shown]


def _billed_unit(one: Recommendation, *, priced: bool) -> int:
    if one.billed is None:
        return 0
    if not priced:
        return nearest(one.billed.milliseconds.p50 * 10, HOUR_MS)
    return nearest(one.billed.micros.p50, MICROS) if one.billed.micros is not None else 0


def _whole(units: int, shown: Sequence[Recommendation], currency: str) -> str:
    return f"{symbol(currency)}{units:,}" if all_priced(shown) else f"{decimal(units, 1)} GPU-hours"


def _named(some: Sequence[Sku], fleet: Sequence[Sku], timezone: str) -> str:
    return f" ({_skus(some, fleet, timezone)})" if some else ""


def _skus(some: Sequence[Sku], fleet: Sequence[Sku], timezone: str) -> str:
    names = {sku.sku for sku in fleet}
    return ", ".join(
        f"{sku.gpus:,} {short_sku(sku.sku, names)} {(sku.purchase_option or 'of unknown purchase').replace('_', ' ')}"
        f"{_until(sku, timezone)}"
        for sku in some
    )


def _until(sku: Sku, timezone: str) -> str:
    if sku.until is None:
        return ""
    last = local(sku.until - 1, timezone)
    return f" until {day(last).split(' ', 1)[1]} {last.year}"


_HEAD = "CHECKED AFTERWARDS"
_UNITS = {"tokens": "token", "samples": "sample", "steps": "step", "run": "completed run"}


def savings_text(report: SavingsReport, layout: TextLayout, top: int | None = None) -> str:
    """Return the book as text: what was applied and came of it, what is still to be seen, how good predictions were."""
    sections = [
        layout.wrap(_first_sentence(report), ""),
        checked_lines(report.applied[:top], report.currency, report.timezone, layout),
        _accepted(report, layout, top),
        _rejected(report, layout, top),
        _together(report, layout) if report.together.changes else [],
        _calibration(report.calibration, layout) if report.calibration.whole.cases else [],
        _shares(report, layout) if report.proposed_shares else [],
    ]
    body = [line for section in sections if section for line in (*section, "")]
    return layout.page([*body, _next(report)])


def checked_lines(applied: Sequence[Realised], currency: str, timezone: str, layout: TextLayout) -> list[str]:
    """Return the section on what was applied: what was predicted per week, and what came out; empty without any."""
    found = [f"{_HEAD} (saved per week; 95% interval in brackets)"] if applied else []
    for one in applied:
        title, *told = checked_words(one, currency, timezone)
        found += layout.wrap(title, f"  {one.id} ", " " * 10)
        found += [line for words in told for line in layout.wrap(words, " " * 10)]
    return found


def checked_words(one: Realised, currency: str, timezone: str) -> list[str]:
    """Return what was done and when, what was predicted and came out, and where no effect can be told what is lost."""
    prediction = one.prediction
    done = _date(one.applied_at, timezone)
    found = [f"{plain(prediction.subject)}: {plain(prediction.title)}, done {done}"]
    found.append(f"{predicted_words(one, currency)}; {came_words(one, currency)}")
    if one.outcome.effect is None and (lost := _lost_words(one, currency)):
        found.append(lost)
    return found


def came_words(one: Realised, currency: str) -> str:
    """Return what came out: "came out $540 (420 to 660); 11 runs compared, by cost per token"."""
    outcome = one.outcome
    if outcome.standing == "not_yet":
        return _needs_words(outcome)
    if outcome.standing == "not_provable":
        runs = f"{counted(outcome.before, 'run')} before it, {outcome.after:,} after"
        return f"not provable: {outcome.why} ({runs})"
    amount = _weekly_words(one, currency)
    compared = f"{counted(outcome.before + outcome.after, 'run')} compared"
    if outcome.effect is not None and outcome.effect.method == "difference":
        compared += f", with {counted(outcome.others, 'run')} that did not change"
    compared += f", by cost per {_UNITS[outcome.unit or 'run']}"
    if outcome.standing == "no_effect":
        return f"no effect shown: {amount}; {compared}; {_needs_words(outcome)}"
    cautions = [] if outcome.is_held_out else ["the runs that led to it are among them, so some of it may be luck"]
    cautions += [] if outcome.is_checked else ["too few runs before it to rule out an earlier trend"]
    caution = "".join(f"; {each}" for each in cautions)
    return (
        f"{'came out' if outcome.standing == 'verified' else 'it became more expensive:'} {amount}; {compared}{caution}"
    )


def _lost_words(one: Realised, currency: str) -> str:
    """Return what the loss that it stands on came to since: no proof, but what can be seen meanwhile."""
    prediction, since = one.prediction, one.lost_since
    if since is None:
        return ""
    if since.micros is not None and prediction.lost.micros is not None:
        then, now = (_money(micros, currency) for micros in (prediction.weekly(prediction.lost.micros), since.micros))
    elif since.milliseconds is not None and prediction.lost.milliseconds is not None:
        weekly = (prediction.weekly(prediction.lost.milliseconds), since.milliseconds)
        then, now = (f"{gpu_hours(milliseconds)} GPU-hours" for milliseconds in weekly)
    else:
        return ""
    return f"the loss behind it: {then} per week then, {now} since; less work also loses less"


def _needs_words(outcome: Outcome) -> str:
    if outcome.needs is None:
        return "its runs vary too much to ever tell"
    return f"not provable yet: needs {counted(outcome.needs, 'more run')}"


def _weekly_words(one: Realised, currency: str) -> str:
    if one.micros is not None:
        decimals = 2 if abs(one.micros.likely) < CENTS_UNDER else 0
        return _ranged(one.micros, lambda micros: money(micros, currency, decimals))
    if one.milliseconds is not None:
        return f"{_ranged(one.milliseconds, gpu_hours)} GPU-hours"
    effect = one.outcome.effect
    return f"{100 * effect.saved:.0f}% of its cost" if effect is not None else "nothing that is known"


def _ranged(came: Weekly, written: Callable[[int], str]) -> str:
    return f"{written(came.likely)} ({written(came.low)} to {written(came.high)})"


def predicted_words(one: Realised, currency: str) -> str:
    """Return what was predicted per week: "predicted $610 ($480 to $700: 60%)"."""
    prediction = one.prediction
    if prediction.saves_micros is not None:
        p20, p50, p80 = (_money(prediction.saves_micros[name], currency) for name in ("p20", "p50", "p80"))
        return f"predicted {p50} ({p20} to {p80}: 60%)"
    p20, p50, p80 = (gpu_hours(prediction.saves_milliseconds[name]) for name in ("p20", "p50", "p80"))
    return f"predicted {p50} ({p20} to {p80}: 60%) GPU-hours"


def _money(micros: int, currency: str) -> str:
    return money(micros, currency, 2 if abs(micros) < CENTS_UNDER else 0)


def _date(moment_us: int | None, timezone: str) -> str:
    return day(local(moment_us or 0, timezone)).partition(" ")[2]


def _first_sentence(report: SavingsReport) -> str:
    said = [
        f"{len(report.applied):,} applied",
        f"{len(report.accepted):,} accepted and not seen to be applied",
        f"{len(report.rejected):,} rejected",
        f"{report.proposed:,} proposed and not decided on",
    ]
    return "recommendations: " + ", ".join(said)


def _accepted(report: SavingsReport, layout: TextLayout, top: int | None) -> list[str]:
    found = ["ACCEPTED, NOT SEEN TO BE APPLIED"] if report.accepted else []
    for one in report.accepted[:top]:
        found += _decided(one, report, layout)
    hint = "once it is made and cannot be seen: gpuledger recommendations accept ID --applied-at DATE"
    return [*found, *layout.wrap(hint)] if found else []


def _rejected(report: SavingsReport, layout: TextLayout, top: int | None) -> list[str]:
    found = ["REJECTED"] if report.rejected else []
    for one in report.rejected[:top]:
        found += _decided(one, report, layout)
    return found


def _decided(one: LifecycleStatus, report: SavingsReport, layout: TextLayout) -> list[str]:
    prediction, word = one.prediction, one.word
    on = _date(word.recorded_at, report.timezone) if word else ""
    because = f": {plain_sentence(word.because)}" if word and word.because else ""
    text = f"{plain(prediction.subject)}: {plain(prediction.title)} ({on}{because})"
    return layout.wrap(text, f"  {one.id} ", " " * 10)


def _together(report: SavingsReport, layout: TextLayout) -> list[str]:
    said: Together = report.together
    if said.predicted_micros is not None and said.realised_micros is not None:
        predicted, came = (_money(micros, report.currency) for micros in (said.predicted_micros, said.realised_micros))
    else:
        predicted, came = (
            f"{gpu_hours(ms)} GPU-hours" for ms in (said.predicted_milliseconds, said.realised_milliseconds)
        )
    words = (
        f"{counted(said.changes, 'change')} with a measurable effect: predicted {predicted} per week, came out "
        f"{came}. It is how much more the same work would have cost; freed GPUs save money once they are used or "
        "given back."
    )
    return ["TOGETHER", *layout.wrap(words)]


def _calibration(found: Calibration, layout: TextLayout) -> list[str]:
    lines = ["HOW GOOD THE PREDICTIONS WERE"]
    lines += layout.labelled("P20 to P80", _tally_words(found.whole.inside, found.whole.cases, INNER_PERMILLE))
    if found.whole.outer:
        lines += layout.labelled("P5 to P95", _tally_words(found.whole.inside_outer, found.whole.outer, OUTER_PERMILLE))
    kinds = "; ".join(f"{kind.replace('_', ' ')} {_short(tally)}" for kind, tally in found.by_kind.items())
    months = "; ".join(f"{when} {_short(tally)}" for when, tally in found.by_month.items())
    return lines + layout.labelled("by kind", kinds) + layout.labelled("by month", months)


def _tally_words(inside: int, cases: int, promised: int) -> str:
    said = f"{inside:,} of {cases:,} came out inside; {promised // 10}% is promised"
    if cases < LEAST:
        return f"{said}. Fewer than {LEAST} give no rate"
    return f"{said}, {percent(inside * 1000 // cases)} came out"


def _short(tally: Tally) -> str:
    less = f", {tally.below:,} came out less" if tally.below else ""
    return f"{tally.inside:,} of {tally.cases:,} inside{less}"


def _shares(report: SavingsReport, layout: TextLayout) -> list[str]:
    use = "in use for what is assumed" if report.shares_in_use else "offered; [placement] learn_shares uses them"
    found = [f"SHARES OF A LOSS THAT WERE RECOVERED (%; {use})"]
    for kind, quantiles in report.proposed_shares.items():
        told = ", ".join(f"{name.upper()} {permille / 10:.0f}" for name, permille in quantiles.items())
        found += layout.labelled(kind.replace("_", " "), told, 22)
    return found


def _next(report: SavingsReport) -> str:
    if report.applied or report.accepted:
        first = report.applied[0] if report.applied else report.accepted[0]
        return f"next: gpuledger recommendations show {first.id}"
    return "next: gpuledger recommendations       gpuledger recommendations accept ID"
