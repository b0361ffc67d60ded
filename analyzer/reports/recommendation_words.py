"""What is said of one recommendation: the same words on screens, pages and tickets."""

from agent.wire.units import SECOND_US
from analyzer.recommendations.recommendation import (
    Alternative,
    Latency,
    Move,
    Placement,
    Range,
    Recommendation,
    over_words,
)
from analyzer.text.words import CENTS_UNDER, counted, gpu_hours, moment_words, money, owner_word, plain, plain_sentence

_NOT_PREDICTED = "not predicted: try it and compare (gpuledger runs compare)"
_NODES_SHOWN = 4
FREE, NOT_PRICED = "no cost of moving", "cost of moving not priced"
HOLDS = {True: "yes", False: "no", None: "?"}


def saves_words(advice: Recommendation, currency: str) -> str:
    """Return "$842 / $1,022 / $1,142 per week (P20/P50/P80)", or GPU-hours where no price is known."""
    if not is_predicted(advice):
        return _NOT_PREDICTED
    words = (
        _money_range(advice.saves_micros, currency)
        if advice.saves_micros
        else f"{_time_range(advice.saves_milliseconds)} GPU-hours"
    )
    return f"{words} {over_words(advice.saves_over_seconds)} (P20/P50/P80)"


def saves_in_run(advice: Recommendation, span_us: int, currency: str, *, running: bool = False) -> str:
    """Return what it saves each run of this length, or of what a run has lost so far, up to a week.

    A saving a week was scaled up from what one run lost. Told a week, a run of a day would promise seven times what
    the list of the fleet does.
    """
    if running and span_us >= advice.saves_over_seconds * SECOND_US:
        return saves_words(advice, currency)
    if not is_predicted(advice):
        return _NOT_PREDICTED
    if advice.saves_micros:
        words = _money_range(advice.in_span(advice.saves_micros, span_us), currency)
    else:
        words = f"{_time_range(advice.in_span(advice.saves_milliseconds, span_us))} GPU-hours"
    return f"{words} {'of what it has lost' if running else 'each run'} (P20/P50/P80)"


def is_predicted(advice: Recommendation) -> bool:
    """Return whether anything is said of how much it saves: some changes can only be tried."""
    return advice.saves_milliseconds.p95 > 0


def _money_range(saves: Range, currency: str) -> str:
    """Return the three quantiles of an amount."""
    decimals = money_places(saves)
    return " / ".join(money(micros, currency, decimals) for micros in (saves.p20, saves.p50, saves.p80))


def money_places(saves: Range) -> int:
    """Return how many decimals amounts of this size are told with."""
    return 2 if abs(saves.p80) < CENTS_UNDER else 0


def _time_range(saves: Range) -> str:
    """Return the three quantiles of GPU time in GPU-hours."""
    return " / ".join(gpu_hours(milliseconds) for milliseconds in (saves.p20, saves.p50, saves.p80))


def tails_words(advice: Recommendation, currency: str) -> str:
    """Return "90% interval $700 to $1,200", and the GPU time of the likely one where money was told before."""
    saves = advice.saves_micros
    if not is_predicted(advice):
        return ""
    if saves is None:
        hours = advice.saves_milliseconds
        return f"90% interval {gpu_hours(hours.p5)} to {gpu_hours(hours.p95)}"
    low, high = (money(each, currency, money_places(saves)) for each in (saves.p5, saves.p95))
    return f"90% interval {low} to {high}; median {gpu_hours(advice.saves_milliseconds.p50)} GPU-hours"


def split_words(advice: Recommendation, currency: str) -> str:
    """Return what of the likely saving is capacity, and what the bill falls by; empty where nothing is predicted."""
    if not is_predicted(advice):
        return ""
    if advice.billed is None:
        return "GPUs freed for other work; whether the bill falls is not known: nobody says how they are paid for"
    if not advice.billed.milliseconds.p50:
        return "GPUs freed for other work; the bill does not change"
    billed = _amount(advice.billed.micros, advice.billed.milliseconds, currency)
    if advice.freed is None or not advice.freed.milliseconds.p50:
        return f"all of it reduces the bill once the GPUs are handed back (median {billed})"
    freed = _amount(advice.freed.micros, advice.freed.milliseconds, currency)
    return f"median {freed} in GPUs freed for other work, {billed} off the bill once they are handed back"


def _amount(micros: Range | None, milliseconds: Range, currency: str) -> str:
    if micros is None:
        return f"{gpu_hours(milliseconds.p50)} GPU-hours"
    return money(micros.p50, currency, money_places(micros))


def cost_words(advice: Recommendation, currency: str) -> str:
    """Return what moving costs: its price first where it has one, then of what it is made."""
    words = plain_sentence(advice.cost_to_move)
    if not advice.cost_to_move_milliseconds:
        return words
    hours = f"{gpu_hours(advice.cost_to_move_milliseconds)} GPU-hours"
    if advice.cost_to_move_micros is None:
        return f"{hours}: {words}"
    return f"{money(advice.cost_to_move_micros, currency)}, {hours}: {words}"


def cost_short(advice: Recommendation, currency: str) -> str:
    """Return what moving costs in a word or two, for the list."""
    if advice.ends_work:
        return "ends work: ask its owner"
    if not advice.cost_to_move_milliseconds and not advice.cost_to_move_micros:
        return FREE if advice.cost_to_move.startswith("none") else NOT_PRICED
    if advice.cost_to_move_micros is None:
        return f"moving costs {gpu_hours(advice.cost_to_move_milliseconds)} GPU-hours"
    return f"moving costs {money(advice.cost_to_move_micros, currency, 0)}"


def actor_words(advice: Recommendation) -> str:
    """Return the owner; of a run it is its team."""
    if advice.actor != "run" or not advice.team:
        return owner_word(advice.actor)
    return f"job owner: {plain(advice.team)}"


def when_words(advice: Recommendation, timezone: str) -> str:
    """Return when it takes effect, for how long it can save, and until when it holds."""
    at_once = "with a restart, at once" if advice.restarts else "at once"
    words = [at_once if advice.takes_effect == "now" else "from the next start"]
    if outlook := advice.outlook:
        if not outlook.running:
            words.append("the run has ended")
        elif outlook.remaining_seconds is not None:
            hours = outlook.remaining_seconds // 3600
            rest = f"{hours // 24} d" if hours >= 48 else f"{hours} h"
            words.append(f"it runs for another {rest} ({outlook.told})")
        again = counted(outlook.recurs, "other run") if outlook.recurs else "no other run"
        words.append(f"{again} of its name in four weeks")
    if advice.expires_at is not None:
        words.append(f"valid until {moment_words(advice.expires_at, timezone)}")
    return "; ".join(words)


def latency_words(latency: Latency) -> str:
    """Return what requests wait for before and after, and what is promised."""
    told = plain_sentence(latency.told)
    if latency.before_seconds is None and latency.after_seconds is None:
        return told
    promise = f", objective {_seconds(latency.slo_seconds)}" if latency.slo_seconds is not None else ""
    return f"P99 {_seconds(latency.before_seconds)} before, {_seconds(latency.after_seconds)} after{promise} ({told})"


def _seconds(value: float | None) -> str:
    return "not known" if value is None else f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.1f} s"


def move_words(move: Move) -> str:
    """Return from where to where, in GPUs, nodes and racks."""
    if stays(move):
        return f"nothing; it stays: {place_words(move.to)}" if move.to is not None else "nothing"
    here = place_words(move.from_) if move.from_ is not None else "not placed yet"
    there = place_words(move.to) if move.to is not None else "given back"
    return f"{here} -> {there}"


def stays(move: Move) -> bool:
    """Return whether all of it stays: the same GPUs of the same hosts, in the same order of ranks."""
    here, there = move.from_, move.to
    if here is None or there is None or here.nodes != there.nodes:
        return False
    return (here.gpus, here.sku, here.slice_) == (there.gpus, there.sku, there.slice_)


def place_words(place: Placement) -> str:
    """Return "16 H100-80GB on n14, n15 (rack-2)"."""
    kind = " ".join(filter(None, (plain(place.sku or ""), plain(place.slice_ or ""))))
    what = f"{place.gpus:,} {kind}" if kind else counted(place.gpus, "GPU")
    if not place.nodes:
        return what
    shown = ", ".join(map(plain, place.nodes[:_NODES_SHOWN]))
    more = f" and {len(place.nodes) - _NODES_SHOWN} more" if len(place.nodes) > _NODES_SHOWN else ""
    racks = sorted({plain(rack) for rack in place.racks if rack is not None})
    where = f" ({', '.join(racks[:_NODES_SHOWN])}{', ...' if len(racks) > _NODES_SHOWN else ''})" if racks else ""
    return f"{what} on {shown}{more}{where}"


def alternatives_words(advice: Recommendation, currency: str) -> str:
    """Return "r-abcde order the ranks by rack (saves less: $1,022 per week)"; empty where there are none."""
    return "; ".join(_alternative(one, advice, currency) for one in advice.alternatives)


def _alternative(one: Alternative, advice: Recommendation, currency: str) -> str:
    amount = (
        f"{gpu_hours(one.saves_milliseconds)} GPU-hours"
        if one.saves_micros is None
        else money(one.saves_micros, currency, 2 if abs(one.saves_micros) < CENTS_UNDER else 0)
    )
    best = advice.saves_micros.p50 if advice.saves_micros is not None else None
    is_less = (one.saves_micros or 0, one.saves_milliseconds) < (best or 0, advice.saves_milliseconds.p50)
    less, over = "less: " if is_less else "as much: ", over_words(advice.saves_over_seconds)
    return f"{one.id} {plain_sentence(one.title)} (saves {less}{amount} {over})"


def standing_words(advice: Recommendation) -> str:
    """Return why it is not recommended now; empty where it is."""
    if advice.held_back is not None:
        return f"held back: {plain_sentence(advice.held_back)}"
    return f"instead of {advice.instead_of}, which saves more of the same seconds" if advice.instead_of else ""
