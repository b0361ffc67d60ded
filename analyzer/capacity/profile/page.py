"""A profile in the forms in which people get it: the page that a ticket takes, its JSON, and page one as text.

`page(envelope, decided)` is the seam to the policy checks: with what they decided page one begins with the request, the
verdict and the options; without it, with what was measured. Behind page one are tables: every figure of a profile,
rounded so that columns add up to page one's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.wire.units import HOUR_MS, MICROS, PERMILLE
from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import (
    Alternative,
    CapacityProfile,
    CheckedChange,
    Free,
    Holding,
    OpenAdvice,
    Scale,
    Spread,
    UnitCost,
)
from analyzer.capacity.profile.first_page import (
    DecisionView,
    FirstPage,
    advice_words,
    breakdown_of,
    days_words,
    first_page,
    first_page_text,
    gpus_words,
    lot,
    named,
    rate_words,
    ratio,
    short_id,
    unit_cost,
)
from analyzer.capacity.profile.signature import EMBEDDED, EMBEDDED_END, PAGE_MARK, PAGE_MARK_END, Envelope, signed_text
from analyzer.charts.figures import Share, Size, class_bar, scaling, spreads
from analyzer.charts.figures import Spread as SpreadRow
from analyzer.errors import ConfigError
from analyzer.ledger.breakdown import BreakdownLine, column_like, rounded
from analyzer.states import CLASSES, booking
from analyzer.text.layout import TextLayout
from analyzer.text.table import Row, TableColumn, money_of
from analyzer.text.templating import environment
from analyzer.text.words import (
    UNKNOWN,
    amount,
    bytes_words,
    decimal,
    gib,
    gpu_hours,
    hours_decimals,
    money_decimals,
    nearest,
    plain,
    symbol,
)

_Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its title, its columns (those after the first `words` are figures), its rows, and a line below."""

    title: str
    head: _Cells
    rows: tuple[_Cells, ...]
    words: int = 1
    note: str = ""
    total: _Cells | None = None


def _runs_table(profile: CapacityProfile) -> Table:
    """Return the representative runs with what each held and cost."""
    sign = symbol(profile.currency).strip()
    times = [run.milliseconds for run in profile.runs]
    decimals = hours_decimals(sum(times))
    hours = column_like(nearest(sum(times) * 10**decimals, HOUR_MS), times, HOUR_MS, decimals)
    paid, together = _paid([run.micros for run in profile.runs])
    rows = tuple(
        (
            named(run),
            short_id(run.run_id),
            plain(run.stage or UNKNOWN),
            days_words(run.started_at, run.ended_at, profile.timezone) if run.ended_at else "still running",
            f"{run.gpus:,} {plain(run.sku or 'GPUs')}",
            hour,
            cost,
        )
        for run, hour, cost in zip(profile.runs, hours, paid, strict=True)
    )
    total = (*("total", "", "", "", ""), gpu_hours(sum(times), decimals), together)
    head = ("run", "id", "stage", "days", "GPUs", "GPU-hours", sign)
    return Table("Representative runs", head, rows, 5, profile.chosen and f"Chosen: {plain(profile.chosen)}.", total)


def _causes_table(profile: CapacityProfile) -> Table:
    """Return the labels of page one by cause: each label's causes add up to the figure that page one has."""
    whole = breakdown_of(profile.booked)
    columns = rounded(whole)
    rows: list[_Cells] = []
    for place, group in enumerate(columns.groups):
        for member, entry in enumerate(group):
            parts = [
                each
                for each in profile.booked
                if (found := booking(each.state, each.cause)).klass == entry.klass and found.label == entry.label
            ]
            hours = column_like(
                columns.hours.members[place][member],
                [p.milliseconds for p in parts],
                HOUR_MS,
                columns.hours.decimals,
            )
            if columns.money is not None:
                costs = [part.micros or 0 for part in parts]
                paid = column_like(columns.money.members[place][member], costs, MICROS, columns.money.decimals)
            else:
                paid = [UNKNOWN] * len(parts)
            rows += [
                (entry.klass, entry.label, booking(part.state, part.cause).cause_label or UNKNOWN, hour, cost)
                for part, hour, cost in zip(parts, hours, paid, strict=True)
            ]
    ordered = [row for klass in CLASSES for row in rows if row[0] == klass]
    shown = tuple(
        ("" if at else row[0], *row[1:])
        for _, of_class in groupby(ordered, key=lambda row: row[0])
        for at, row in enumerate(of_class)
    )
    together = UNKNOWN if columns.money is None else decimal(columns.money.total, columns.money.decimals)
    total = ("total", "", "", decimal(columns.hours.total, columns.hours.decimals), together)
    head = ("class", "state", "cause", "GPU-hours", symbol(profile.currency).strip())
    return Table("Where it went, by cause", head, shown, 3, "", total)


def _paid(costs: list[int | None]) -> tuple[list[str], str]:
    """Return a column of money that adds up, and its sum; where one is unknown each stands for itself."""
    known = [cost for cost in costs if cost is not None]
    decimals = money_decimals(sum(known))
    if len(known) < len(costs):
        return [UNKNOWN if cost is None else amount(cost, decimals) for cost in costs], UNKNOWN
    whole = nearest(sum(known) * 10**decimals, MICROS)
    return column_like(whole, known, MICROS, decimals), decimal(whole, decimals)


SIGNALS = {
    "utilization_ratio": "utilization (any kernel)",
    "sm_active_ratio": "SM activity",
    "power_watts": "power, W",
}


def tables(profile: CapacityProfile) -> list[Table]:
    """Return the tables that have a row, in the order in which they are read."""
    found = [
        _runs_table(profile),
        _causes_table(profile),
        _spreads(profile),
        _sizes(profile),
        _input(profile),
        _talk(profile),
        _instead(profile),
        _team(profile),
        _fleet(profile),
        _advice(profile),
        _done(profile),
        _units(profile),
    ]
    return [table for table in found if table.rows]


def _spreads(profile: CapacityProfile) -> Table:
    def shown(value: float, signal: str) -> str:
        return ratio(value) if signal.endswith("_ratio") else f"{value:,.0f}"

    rows = [
        (
            SIGNALS.get(each.signal, plain(each.signal)),
            plain(each.sku or UNKNOWN),
            *(shown(value, each.signal) for value in (each.p10, each.p50, each.p90, each.highest)),
        )
        for each in profile.distributions
    ]
    rows += [("memory in use", plain(each.sku or UNKNOWN), "", "", "", gib(each.peak_bytes)) for each in profile.memory]
    zero = profile.at_zero_ratio
    note = f"No kernel ran at all in {ratio(zero)} of the readings." if zero is not None else ""
    return Table(
        "How signals are spread over time", ("signal", "GPU", "p10", "p50", "p90", "highest"), tuple(rows), 2, note
    )


def _of_columns(
    title: str, rows: Sequence[Row], columns: Sequence[TableColumn[Row]], words: int = 1, note: str = ""
) -> Table:
    cells = zip(*(column.cells(rows) for column in columns), strict=True)
    return Table(title, tuple(column.head for column in columns), tuple(cells), words, note)


def _sizes(profile: CapacityProfile) -> Table:
    smallest = profile.scaling[0].work_per_second if profile.scaling else 0.0
    columns = (
        TableColumn[Scale]("GPUs", lambda size: f"{size.gpus:,}"),
        TableColumn[Scale]("runs", lambda size: f"{size.runs:,}"),
        TableColumn[Scale]("work", lambda size: f"{rate_words(size.work_per_second)} {plain(size.unit)}/s"),
        TableColumn[Scale]("speed-up", lambda size: f"{size.work_per_second / smallest:.2f}x" if smallest else None),
        TableColumn[Scale]("efficiency", lambda size: ratio(size.efficiency_ratio)),
    )
    knee = profile.knee_gpus
    note = "Every measured size still pays; larger ones were not tried."
    if knee is not None:
        note = f"The knee is at {knee:,} GPUs: at the next size each GPU does less than 70% of it."
    return _of_columns("Scaling", profile.scaling, columns, 0, note)


def _input(profile: CapacityProfile) -> Table:
    path = profile.data_path
    if path is None:
        return Table("Data path", (), ())
    limit = booking("starved", path.limit).cause_label if path.limit else UNKNOWN
    rows = (
        ("input starvation", ratio(path.waiting_ratio)),
        ("its main cause", limit),
        ("loader workers per rank, maximum", _count(path.loader_workers)),
        ("busiest worker, of a core", _share(path.busiest_worker_ratio)),
        ("busiest disk, busy", _share(path.disk_busy_ratio)),
        ("read from disks and mounts, per run", _speed(path.input_bytes_per_second)),
        ("into each GPU over PCIe, mean", _speed(path.pcie_bytes_per_second)),
    )
    return Table("Data path", ("what", "measured"), rows, 2)


def _talk(profile: CapacityProfile) -> Table:
    talk = profile.communication
    if talk is None:
        return Table("Communication", (), ())
    rows = (
        ("communication between ranks, useful or not", ratio(talk.waiting_ratio)),
        ("racks per run, maximum", _count(talk.racks_max)),
        ("over NVLink", _bytes(talk.nvlink_bytes)),
        ("between hosts (RDMA)", _bytes(talk.network_bytes)),
        ("of it across racks", _bytes(talk.cross_rack_bytes)),
    )
    return Table("Communication", ("what", "measured"), rows, 2)


def _instead(profile: CapacityProfile) -> Table:
    fits = {True: "yes", False: "no", None: "not known"}
    columns = (
        TableColumn[Alternative]("GPU", lambda each: plain(each.sku)),
        TableColumn[Alternative]("what", lambda each: plain(each.what)),
        TableColumn[Alternative]("tried", lambda each: "yes" if each.tried else "no"),
        TableColumn[Alternative]("fits", lambda each: fits[each.fits]),
        TableColumn[Alternative]("per GPU-hour", lambda each: each.micros_per_gpu_hour, money_of(profile.currency)),
        TableColumn[Alternative]("why", lambda each: plain(each.why)),
    )
    return _of_columns("What else it could run on", profile.alternatives, columns, 6)


def _team(profile: CapacityProfile) -> Table:
    columns = (
        TableColumn[Holding]("GPU", lambda each: plain(each.sku or UNKNOWN)),
        TableColumn[Holding]("held", lambda each: gpus_words(each.gpus)),
        TableColumn[Holding]("for these runs", lambda each: gpus_words(each.for_this_gpus)),
        TableColumn[Holding]("idle allocation", lambda each: gpus_words(each.idle_gpus)),
    )
    return _of_columns("What the team has, on average", profile.holdings, columns)


def _fleet(profile: CapacityProfile) -> Table:
    columns = (
        TableColumn[Free]("GPU", lambda each: plain(each.sku or UNKNOWN)),
        TableColumn[Free]("owned", lambda each: f"{each.owned_gpus:,}"),
        TableColumn[Free]("free, mean", lambda each: gpus_words(each.mean_gpus)),
        TableColumn[Free]("free, lowest day", lambda each: f"{each.lowest_gpus:,}"),
        TableColumn[Free]("that day", lambda each: plain(each.lowest_day)),
        TableColumn[Free]("drained", lambda each: f"{each.drained_gpus:,}"),
    )
    return _of_columns("What the fleet has free", profile.free, columns)


def _advice(profile: CapacityProfile) -> Table:
    columns = (
        TableColumn[OpenAdvice]("id", lambda each: plain(each.id)),
        TableColumn[OpenAdvice]("what to change", advice_words),
        TableColumn[OpenAdvice]("line", lambda each: plain(each.paste or f"gpuledger recommendations show {each.id}")),
        TableColumn[OpenAdvice]("frees GPUs: P20, P50, P80", lambda each: _gpus(each.frees, profile)),
        TableColumn[OpenAdvice]("or the same GPUs do", _speeds),
        TableColumn[OpenAdvice](
            "estimated weekly savings (median)",
            lambda each: each.micros_a_week.p50 if each.micros_a_week else None,
            money_of(profile.currency),
        ),
    )
    note = "None of them has been applied yet; P20 is conservative, P50 likely."
    return _of_columns("Open recommendations", profile.advice, columns, 3, note)


def _gpus(frees: Spread, profile: CapacityProfile) -> str:
    span_ms = (profile.until_us - profile.since_us) // 1000
    return ", ".join(decimal(nearest(each * 10, span_ms), 1) for each in (frees.p20, frees.p50, frees.p80))


def _speeds(each: OpenAdvice) -> str:
    speed = each.speedup_permille
    return ", ".join(f"{value / PERMILLE:.2f}x" for value in (speed.p20, speed.p50, speed.p80))


def _done(profile: CapacityProfile) -> Table:
    inside, cost = {True: "inside", False: "outside", None: "N/A"}, money_of(profile.currency)
    columns = (
        TableColumn[CheckedChange]("id", lambda each: plain(each.id)),
        TableColumn[CheckedChange]("what was changed", lambda each: plain(each.title)),
        TableColumn[CheckedChange]("predicted per week", lambda each: each.predicted_micros, cost),
        TableColumn[CheckedChange]("measured per week", lambda each: each.realised_micros, cost),
        TableColumn[CheckedChange]("P20 to P80", lambda each: inside[each.inside]),
    )
    return _of_columns("Verified savings of this team", profile.checked, columns, 2)


def _units(profile: CapacityProfile) -> Table:
    columns = (
        TableColumn[UnitCost]("run", lambda each: short_id(each.run_id)),
        TableColumn[UnitCost]("reported by the run", lambda each: f"{each.units:,} {plain(each.unit)}"),
        TableColumn[UnitCost]("cost", lambda each: each.micros, money_of(profile.currency)),
        TableColumn[UnitCost]("per unit", lambda each: f"{unit_cost(each, profile.currency)} per {lot(each.unit)[1]}"),
    )
    return _of_columns("What a unit of work cost", profile.unit_costs, columns)


def _count(value: int | None) -> str:
    return "not measured" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "not measured" if value is None else ratio(value, 0)


def _speed(value: float | None) -> str:
    return "not measured" if value is None else f"{bytes_words(round(value))}/s"


def _bytes(value: int | None) -> str:
    return "not measured" if value is None else bytes_words(value)


def _class_rows(said: Sequence[BreakdownLine]) -> tuple[Share, ...]:
    """Return the classes of page one's table with its figures; those that have none are left out."""
    return tuple(
        Share(f"{line.klass} {line.percent}%", line.klass, line.share)
        for line in said
        if line.klass is not None and line.level in ("class", "only") and line.share > 0
    )


def signals(profile: CapacityProfile) -> tuple[SpreadRow, ...]:
    """Return the spread of each signal: of shares up to 100%, of power up to the highest."""
    found = []
    for each in profile.distributions:
        is_ratio = each.signal.endswith("_ratio")
        top = 1.0 if is_ratio else max(each.highest, 1e-9)
        p10, p50, p90 = (min(1.0, max(0.0, value / top)) for value in (each.p10, each.p50, each.p90))
        label = f"{SIGNALS.get(each.signal, plain(each.signal))}{f', {plain(each.sku)}' if each.sku else ''}"
        found.append(SpreadRow(label, p10, p50, p90, ratio(each.p50, 0) if is_ratio else f"{each.p50:,.0f}"))
    return tuple(found)


def sizes(profile: CapacityProfile) -> tuple[Size, ...]:
    """Return what each size came to; nothing of fewer than two."""
    found = [size for size in profile.scaling if size.gpus > 0 and size.work_per_second > 0]
    if len(found) < 2:
        return ()
    first = found[0]
    return tuple(
        Size(
            f"{size.gpus:,} GPUs",
            f"{rate_words(size.work_per_second)} {plain(size.unit)}/s, {ratio(size.efficiency_ratio, 0)}",
            size.work_per_second / first.work_per_second,
            size.gpus / first.gpus,
        )
        for size in found
    )


_TEMPLATE = "profile.html"
_HEAD, _BODY_END = "<head>", "</body>"  # names are escaped: only the template can have written these


def page(envelope: Envelope, decided: DecisionView | None = None, key: Ed25519PrivateKey | None = None) -> str:
    """Return the page. `key` is that of the envelope, and signs the words of the page; None leaves them unsigned."""
    html = environment().get_template(_TEMPLATE).render(view(envelope, decided))
    mark = f"{PAGE_MARK}{PAGE_MARK_END}"
    before, head, after = html.partition(_HEAD)
    html = f"{before}{head}\n{mark}{after}"
    body, end, rest = html.rpartition(_BODY_END)
    html = f"{body}{EMBEDDED}{canonical(envelope)}{EMBEDDED_END}\n{end}{rest}"
    if key is None:
        return html
    return html.replace(mark, f"{PAGE_MARK}{signed_text(html, key)}{PAGE_MARK_END}", 1)


def view(envelope: Envelope, decided: DecisionView | None = None) -> dict[str, object]:
    """Return everything that the template prints: page one, and the figures and pictures after it."""
    first, profile = first_page(envelope, decided), envelope.profile
    classes, spread, came = _class_rows(first.lines), signals(profile), sizes(profile)
    return {name: getattr(first, name) for name in FirstPage.__slots__} | {
        "tables": tables(profile),
        "whole": class_bar(classes) if classes else None,
        "spreads": spreads(spread) if spread else None,
        "scaling": scaling(came) if came else None,
    }


Form = Literal["html", "json", "text"]
FORMS: dict[str, Form] = {".html": "html", ".htm": "html", ".json": "json", ".txt": "text"}


def form_of(out: Path) -> Form:
    """Return the form that a file's name ends with; a page where it says none."""
    return FORMS.get(out.suffix, "html")


def in_form(
    form: Form,
    envelope: Envelope,
    decided: DecisionView | None = None,
    *,
    key: Ed25519PrivateKey | None = None,
    layout: TextLayout | None = None,
) -> str:
    """Return a profile in a form. Words are signed in a page alone, by `key`: a text carries no signature."""
    if form == "json":
        return f"{canonical(envelope)}\n"
    if form == "text":
        return first_page_text(first_page(envelope, decided), layout or TextLayout())
    return page(envelope, decided, key)


@dataclass(frozen=True, slots=True)
class Ready:
    """A signed profile that is to be written. `sent` has the forms that a server made: they stay as they came."""

    envelope: Envelope
    key: Ed25519PrivateKey | None = None
    sent: Mapping[Form, str] = field(default_factory=dict)

    def form(self, form: Form, layout: TextLayout | None = None) -> str:
        """Return it in a form."""
        return self.sent.get(form) or in_form(form, self.envelope, key=self.key, layout=layout)

    def write(self, out: Path) -> str:
        """Write it in the form that a file's name says, its JSON beside it, and return what was written, in a sentence.

        Raises:
            ConfigError: one of them cannot be written.
        """
        files = {out: self.form(form_of(out)), out.with_suffix(".json"): self.form("json")}
        for path, content in files.items():
            try:
                path.write_text(content, encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"cannot write {path}: {error.strerror}") from error
        return f"wrote {' and '.join(str(path) for path in files)}"
