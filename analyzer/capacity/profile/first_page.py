"""Page one of a profile, rounded and in words, and as text: the page and its twin in text print the same figures."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.wire.units import MICROS, PERMILLE
from analyzer.capacity.profile.facts import (
    CapacityProfile,
    Free,
    Holding,
    OpenAdvice,
    Represented,
    StateHours,
    UnitCost,
)
from analyzer.capacity.profile.signature import Envelope, digest
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines, breakdown_table
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown, Unpriced, fold
from analyzer.states import booking
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import (
    bytes_words,
    counted,
    day,
    decimal,
    gib,
    gpu_hours,
    hours_decimals,
    money,
    money_decimals,
    nearest,
    plain,
    some,
    symbol,
)

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


def breakdown_of(booked: Iterable[StateHours]) -> Breakdown:
    """Return what was booked, as reports read it."""
    parts = tuple(booked)
    unpriced = sum(each.milliseconds for each in parts if each.micros is None)
    counted = [(each.state, each.cause, each.milliseconds, each.micros) for each in parts]
    return Breakdown(fold(counted), (Unpriced(None, unpriced),) if unpriced else ())


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


def advice_words(advice: OpenAdvice) -> str:
    """Return whose runs a recommendation is for, and what it says."""
    return f"{', '.join(map(plain, advice.run_names))}: {plain(advice.title)}"


def _advice(profile: CapacityProfile) -> str:
    """Return the first two that help: by a tenth of a GPU or more, or by speed."""
    span_ms = (profile.until_us - profile.since_us) // 1000
    helps = [one for one in profile.advice if one.speedup_permille.p50 > PERMILLE or one.frees.p50 * 10 >= span_ms]
    return "; ".join(
        f"{advice_words(each)}: frees {gpus_words(each.frees.p50 / span_ms)} GPUs, or does "
        f"{each.speedup_permille.p50 / PERMILLE:.2f}x ({each.id})"
        for each in helps[:2]
    )


def _record(profile: CapacityProfile) -> str:
    record = profile.record
    if not record.checked:
        return "no feedback yet: no prediction of this site has been checked"
    said = "prediction" if record.checked == 1 else "predictions"
    return f"of {record.checked:,} such {said} checked so far, {record.inside:,} fell between P20 and P80"


@dataclass(frozen=True, slots=True)
class ShownGate:
    """One gate: what the request has, what is asked of it, and PASS, FAIL or N/E."""

    label: str
    value: str
    bar: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ShownOption:
    """One thing that can be decided: "A approve as asked", "+32", "15", "$111,820.80", "yes", "40% waits"."""

    what: str
    gpus: str
    to_buy: str
    price: str
    in_time: str
    if_wrong: str
    advised: bool = False


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A request and its verdict. `asked` has a line each for what, price and why; `span` heads the column of prices."""

    request_id: str
    asked: tuple[str, ...]
    verdict: str
    answer: str
    options: tuple[ShownOption, ...]
    gates: tuple[ShownGate, ...]
    span: str
    in_time: str = "in time?"  # heads the column that says whether it comes in time
    fix: str | None = None
    stopped: str | None = None  # the gates that stop it, by name
    judged: str | None = None  # which of the profile's runs count, where not all do
    booked: tuple[StateHours, ...] = ()  # and where the time of those went


_TEAMS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FirstPage:
    """Page one. `decided` is what the gates say of a request, None without one: then `answer` says what was measured.

    `lines` are where the time went: of the runs that were judged, where those are not all.
    """

    title: str
    site: str
    whose: str
    held: str
    decided: DecisionView | None
    answer: str
    went: str
    lines: tuple[BreakdownLine, ...]
    sign: str
    evidence: tuple[EvidenceRow, ...]
    caveats: tuple[str, ...]
    made: str
    key: str
    sha256: str


def first_page(envelope: Envelope, decided: DecisionView | None = None) -> FirstPage:
    """Return what page one says of a profile, and of a request that was judged by it."""
    profile = envelope.profile
    judged = decided.booked if decided else ()
    breakdown = breakdown_of(judged or profile.booked)
    said = breakdown_lines(breakdown) if breakdown.entries else ()
    runs = counted(len(profile.runs), "run")
    return FirstPage(
        title=f"Capacity profile{f' {plain(decided.request_id)}' if decided else ''}",
        site=_site(profile),
        whose=_whose(profile),
        held=_held(profile),
        decided=decided,
        answer=_plain_answer(profile, said),
        went="Where the time of the evaluated runs went" if judged else f"Where {_hours(profile)} of {runs} went",
        lines=said,
        sign=symbol(profile.currency).strip(),
        evidence=tuple(evidence(profile)),
        caveats=tuple(plain(text) for text in profile.caveats),
        made=_made(profile),
        key=_key(envelope),
        sha256=digest(profile),
    )


def _plain_answer(profile: CapacityProfile, said: "tuple[BreakdownLine, ...]") -> str:
    """Return what was measured in a sentence or two, as page one's table rounds it."""
    shares = {line.klass: line.percent for line in said if line.level in ("class", "only")}
    useful, avoidable = shares.get("useful", "0.0"), shares.get("avoidable")
    answer = f"{useful}% of this GPU time was useful"
    if not profile.measured_ratio:
        return "None of this GPU time was measured: what of it was useful or avoidable is not known."
    if avoidable is None:
        whole = profile.measured_ratio == 1
        return f"{answer}; nothing avoidable was found{'' if whole else ' in what of it was measured'}."
    worst = max(
        (line for line in said if line.klass == "avoidable" and line.level in ("row", "only")),
        key=lambda line: line.share,
    )
    what = f"{avoidable}% was avoidable"
    most = f", most of it {worst.label} ({worst.percent}%)" if worst.level == "row" else f": {worst.label}"
    return f"{answer}; {what}{most}.{_first_step(profile)}"


def _first_step(profile: CapacityProfile) -> str:
    if not profile.advice:
        return ""
    best = profile.advice[0]
    speed = f"{best.speedup_permille.p50 / 1000:.2f}x"
    return f" Not done yet: {advice_words(best)} ({plain(best.id)}); the same GPUs then do about {speed}."


def _site(profile: CapacityProfile) -> str:
    made = local(profile.made.at_us, profile.timezone)
    where = "cluster" if profile.made.by == "collector" else "host"
    return f"{where} {plain(profile.made.site)}, {day(made).split(' ', 1)[1]} {made.year}"


def _whose(profile: CapacityProfile) -> str:
    teams = sorted({profile.team} if profile.team else {run.team for run in profile.runs if run.team})
    team = some([*map(plain, teams)], _TEAMS_SHOWN) or "team not known"
    project = f", project {plain(profile.project)}" if profile.project else ""
    days = days_words(profile.since_us, profile.until_us, profile.timezone)
    year = local(profile.until_us - 1, profile.timezone).year
    return f"{team}{project}; {days} {year}, {profile.timezone}"


def _held(profile: CapacityProfile) -> str:
    cost = f" = {money(profile.micros, profile.currency, money_decimals(profile.micros))}" if profile.micros else ""
    runs = counted(len(profile.runs), "run")
    return f"{runs}, {_hours(profile)}{cost}; {ratio(profile.measured_ratio)} of it measured"


def _hours(profile: CapacityProfile) -> str:
    return f"{gpu_hours(profile.milliseconds, hours_decimals(profile.milliseconds))} GPU-hours"


def _made(profile: CapacityProfile) -> str:
    made = profile.made
    by = "measured by" if made.by == "collector" else "self-measured on"
    prices = f", prices {plain(made.prices_version)}" if made.prices_version else ", no prices"
    return f"{by} {plain(made.site)}; gpuledger {plain(made.tool_version)}, rules {plain(made.rules_version)}{prices}"


def _key(envelope: Envelope) -> str:
    if envelope.signature is None:
        return "not signed"
    key = envelope.signature.key_id
    return f"signed by key {' '.join(key[place : place + 4] for place in range(0, len(key), 4))}"


_LABEL = 12  # of the evidence
_WHAT, _TIME = 31, 8  # of the choices; what is left of a line is for what happens if it is wrong


def first_page_text(first: FirstPage, layout: TextLayout) -> str:
    """Return page one for this paper, its parts between rules."""
    rule = "-" * layout.width
    parts = (
        _asked(first, layout),
        *((_verdict(first.decided, layout), _options(first.decided, layout)) if first.decided else ()),
        breakdown_table(first.lines, layout, first.sign, first.went.upper()) if first.lines else [],
        _evidence(first, layout),
        layout.wrap(f"CAVEATS  {' '.join(first.caveats)}", "", " ") if first.caveats else [],
        [
            *layout.wrap(f"{first.made}; {first.key}", ""),
            *layout.wrap(f"sha256 {first.sha256}", ""),
            *layout.wrap("check it: gpuledger capacity profile verify profile.json --keys trusted.toml", ""),
        ],
    )
    return layout.page([rule, *(line for part in parts if part for line in (*part, rule))])


def _asked(first: FirstPage, layout: TextLayout) -> list[str]:
    """Return whose profile it is, and what is asked for or was measured."""
    site = layout.cut(first.site, layout.width // 2)
    title = layout.cut(first.title.replace("Capacity profile", "CAPACITY PROFILE"), layout.width - len(site) - 4)
    said = (first.whose, first.held, first.answer)
    if first.decided is not None:
        judged = (first.decided.judged,) if first.decided.judged else ()
        said = (*first.decided.asked, f"Measured: {first.whose}; {first.held}.", *judged)
    return [*layout.ends(title, site), *(line for text in said for line in layout.wrap(text, ""))]


def _verdict(decided: DecisionView, layout: TextLayout) -> list[str]:
    said = (decided.answer, decided.stopped or "")
    head = layout.wrap(f"VERDICT: {decided.verdict}", "")
    return [*head, *(line for text in said for line in layout.wrap(text, ""))]


def _options(decided: DecisionView, layout: TextLayout) -> list[str]:
    if not decided.options:
        return []
    room = _WHAT + min(0, layout.extra)

    def name(option: ShownOption) -> str:
        return f"{option.what}{' (advised)' if option.advised else ''}"

    def is_long(option: ShownOption) -> bool:
        return len(name(option)) >= room

    columns = (
        TableColumn[ShownOption](
            "WHAT CAN BE DECIDED", lambda option: "" if is_long(option) else name(option), width=room, align="<"
        ),
        TableColumn[ShownOption]("GPUs", lambda option: option.gpus, width=5),
        TableColumn[ShownOption]("to buy", lambda option: option.to_buy, width=7),
        TableColumn[ShownOption](decided.span, lambda option: option.price, width=13),
        TableColumn[ShownOption](
            layout.cut(decided.in_time, _TIME - 1), lambda option: option.in_time, width=_TIME, align="<", gap=1
        ),
        TableColumn[ShownOption]("if wrong", lambda option: option.if_wrong, align="<"),
    )
    lines = paper_lines(columns, ())
    for option in decided.options:  # a name that is too long for its column stands above its figures
        lines += layout.wrap(name(option), " ", "   ") if is_long(option) else []
        lines += paper_lines(columns, [option], " ", layout)[1:]
    return [*lines, *(layout.wrap(decided.fix, "") if decided.fix else ())]


def _evidence(first: FirstPage, layout: TextLayout) -> list[str]:
    of_all = " (of all runs of the profile)" if first.decided is not None and first.decided.booked else ""
    rows = (layout.labelled(label, text, _LABEL + 2) for label, text in first.evidence)
    return [f"EVIDENCE{of_all}", *(line for row in rows for line in row)]
