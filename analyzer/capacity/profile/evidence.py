"""Page one's evidence in words: one line a subject, none where nothing is known of it."""

from collections.abc import Iterator

from agent.wire.units import MICROS, PERMILLE
from analyzer.capacity.profile.facts import CapacityProfile, Free, Holding, Represented, UnitCost
from analyzer.period import local
from analyzer.states import booking
from analyzer.text.words import bytes_words, counted, day, decimal, gib, money, nearest, plain

_RUNS_SHOWN = 6
_JOULES_PER_KWH = 3_600_000
_MILLION, _THOUSAND, _BILLION = 1_000_000, 1_000, 1_000_000_000
# So many of a unit are told together; steps differ so much that each is told by itself.
_LOTS = {"tokens": (_MILLION, "million tokens"), "samples": (_THOUSAND, "thousand samples"), "steps": (1, "step")}
_LOT_OF_REQUESTS = (_THOUSAND, "thousand requests")

EvidenceRow = tuple[str, str]


def evidence(profile: CapacityProfile) -> list[EvidenceRow]:
    """Return the lines, each with its label."""
    found = (
        ("runs", _runs(profile)),
        ("data path", _data_path(profile)),
        ("scaling", _scaling(profile)),
        ("memory", _memory(profile)),
        ("network", _network(profile)),
        ("owned now", "; ".join(_holding(each, profile) for each in profile.holdings)),
        ("fleet", "; ".join(_free(each) for each in profile.free)),
        ("unit cost", _unit_cost_words(profile)),
        ("energy", _energy_words(profile)),
        ("recommended", _advice(profile)),
        ("accuracy", _record(profile)),
    )
    return [(label, text) for label, text in found if text]


def ratio(value: float, decimals: int = 1) -> str:
    """Return a share as "40.6%"."""
    return f"{decimal(round(value * 100 * 10**decimals), decimals)}%"


def gpus_words(gpus: float) -> str:
    """Return a number of GPUs as "82.5", or "16" where it is whole."""
    tenths = round(gpus * 10)
    return decimal(tenths // 10, 0) if tenths % 10 == 0 else decimal(tenths, 1)


def short_id(run_id: str) -> str:
    """Return what people call a run's id by: its last part."""
    return plain(run_id.rsplit("/", 1)[-1])


def named(run: Represented) -> str:
    """Return a run's name, or the end of its id."""
    return plain(run.name) if run.name else short_id(run.run_id)


def days_words(start: int, end: int, timezone: str) -> str:
    """Return the days of a span: "26 Oct - 13 Nov"."""
    first, last = (day(local(each, timezone)).split(" ", 1)[1] for each in (start, end - 1))
    return first if first == last else f"{first} - {last}"


def _runs(profile: CapacityProfile) -> str:
    by_kind: dict[tuple[str, int, str | None], list[Represented]] = {}
    for run in profile.runs[:_RUNS_SHOWN]:
        by_kind.setdefault((named(run), run.gpus, run.sku), []).append(run)
    parts = []
    for (name, gpus, sku), runs in by_kind.items():
        each = " each" if len(runs) > 1 else ""
        ids = ", ".join(short_id(run.run_id) for run in runs)
        parts.append(f"{ids}: {name}, {gpus:,} {plain(sku or 'GPUs')}{each}")
    more = len(profile.runs) - _RUNS_SHOWN
    return "; ".join(parts) + (f"; and {counted(more, 'run')} more" if more > 0 else "")


def _data_path(profile: CapacityProfile) -> str:
    path = profile.data_path
    if path is None:
        return ""
    limit = f", most of it from {booking('starved', path.limit).cause_label}" if path.limit else ""
    parts = [f"{ratio(path.waiting_ratio)} input starvation{limit}"]
    if path.loader_workers is not None:
        busy = path.busiest_worker_ratio
        told = f", the busiest at {ratio(busy, 0)} of a core" if busy is not None else ""
        parts.append(f"{counted(path.loader_workers, 'loader worker')} per rank at most{told}")
    if path.disk_busy_ratio is not None:
        parts.append(f"busiest disk {ratio(path.disk_busy_ratio, 0)} busy")
    return "; ".join(parts)


def _scaling(profile: CapacityProfile) -> str:
    sizes = [
        f"{size.gpus:,} GPUs {rate_words(size.work_per_second)} {plain(size.unit)}/s "
        f"({ratio(size.efficiency_ratio, 0)})"
        for size in profile.scaling
    ]
    if not sizes:
        return ""
    largest = profile.scaling[-1].gpus
    knee = f"; it pays up to {profile.knee_gpus:,}" if profile.knee_gpus is not None else ""
    return f"{', '.join(sizes)}{knee}; more than {largest:,} not tried"


def rate_words(per_second: float) -> str:
    """Return an amount of work a second with three figures: "8.40 k", "0.121"."""
    for unit, name in ((_BILLION, " G"), (_MILLION, " M"), (_THOUSAND, " k")):
        if per_second >= unit:
            return f"{_three(per_second / unit)}{name}"
    return _three(per_second)


def _three(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _memory(profile: CapacityProfile) -> str:
    return "; ".join(
        f"{gib(each.peak_bytes)}{f' of {gib(each.total_bytes)}' if each.total_bytes else ''} "
        f"at the peak{f' ({plain(each.sku)})' if each.sku else ''}"
        for each in profile.memory
    )


def _network(profile: CapacityProfile) -> str:
    talk = profile.communication
    if talk is None:
        return ""
    parts = [f"{ratio(talk.waiting_ratio)} communication between ranks"]
    if talk.racks_max is not None:
        parts.append("inside one rack" if talk.racks_max == 1 else f"over {talk.racks_max:,} racks")
    if talk.cross_rack_bytes:
        parts.append(f"{bytes_words(talk.cross_rack_bytes)} across racks")
    elif talk.cross_rack_bytes == 0:
        parts.append("no cross-rack traffic")
    return "; ".join(parts)


def _holding(each: Holding, profile: CapacityProfile) -> str:
    whose = plain(profile.team) if profile.team else "the team"
    return (
        f"{whose} holds {gpus_words(each.gpus)} {plain(each.sku or 'GPUs')}, "
        f"{gpus_words(each.for_this_gpus)} for this, {gpus_words(each.idle_gpus)} idle"
    )


def _free(each: Free) -> str:
    return (
        f"of {each.owned_gpus:,} {plain(each.sku or 'GPUs')} {gpus_words(each.mean_gpus)} free on average, "
        f"{each.lowest_gpus:,} on the lowest day ({plain(each.lowest_day)}), {each.drained_gpus:,} drained"
    )


def lot(unit: str) -> tuple[int, str]:
    """Return of how many a unit's cost is told, and what they are called."""
    return _LOTS.get(unit, _LOT_OF_REQUESTS)


def unit_cost(each: UnitCost, currency: str) -> str:
    """Return what a lot of it cost, with three figures below one."""
    if each.micros is None or each.units <= 0:
        return "-"
    size, _ = lot(each.unit)
    micros = nearest(each.micros * size, each.units)
    return money(micros, currency, 2 if micros >= MICROS // 10 else 4)


def _unit_cost_words(profile: CapacityProfile) -> str:
    """Return what a unit came to in each run, by unit."""
    by_unit: dict[str, list[str]] = {}
    for each in profile.unit_costs[:_RUNS_SHOWN]:
        if each.micros is not None:
            by_unit.setdefault(each.unit, []).append(unit_cost(each, profile.currency))
    return "; ".join(f"{', '.join(costs)} per {lot(unit)[1]}" for unit, costs in by_unit.items())


def _energy_words(profile: CapacityProfile) -> str:
    """Return kilowatt-hours at the GPUs and with cooling, and carbon; by what they are counted stands behind them."""
    energy = profile.energy
    if energy is None:
        return ""
    parts = [f"{decimal(nearest(energy.gpu_joules, _JOULES_PER_KWH), 0)} kWh at the GPUs"]
    if energy.facility_joules is not None:
        parts.append(f"{decimal(nearest(energy.facility_joules, _JOULES_PER_KWH), 0)} kWh with cooling")
    if energy.carbon_grams is not None:
        parts.append(f"{decimal(nearest(energy.carbon_grams, 1000), 0)} kg CO2e")
    if len(parts) == 1:
        return f"{parts[0]}; cooling and carbon are not known"
    return f"{'; '.join(parts)} ({plain(energy.told)})"


def _advice(profile: CapacityProfile) -> str:
    return "; ".join(f"{advice} ({each_id})" for advice, each_id in _first_advice(profile))


def _first_advice(profile: CapacityProfile) -> Iterator[EvidenceRow]:
    span_ms = (profile.until_us - profile.since_us) // 1000
    helps = [one for one in profile.advice if one.speedup_permille.p50 > PERMILLE or one.frees.p50 * 10 >= span_ms]
    for each in helps[:2]:
        speed = f"{each.speedup_permille.p50 / PERMILLE:.2f}x"
        freed = gpus_words(each.frees.p50 / span_ms)
        yield (
            f"{', '.join(map(plain, each.run_names))}: {plain(each.title)}: frees {freed} GPUs, or does {speed}",
            each.id,
        )


def _record(profile: CapacityProfile) -> str:
    record = profile.record
    if not record.checked:
        return "no feedback yet: no prediction of this site has been checked"
    said = "prediction" if record.checked == 1 else "predictions"
    return f"of {record.checked:,} such {said} checked so far, {record.inside:,} fell between P20 and P80"
