"""What a period cost besides GPUs, as people and machines read it."""

from dataclasses import asdict

from agent.wire.units import MICROS
from analyzer.finops.non_gpu_costs.costs import Costs
from analyzer.finops.non_gpu_costs.energy import BY_POWER, EnergySum, TeamEnergy
from analyzer.measures.traffic.text import bill_words
from analyzer.prices.non_gpu_rows import Energy, Tariff
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, adding_up, paper_lines
from analyzer.text.words import UNKNOWN, bytes_words, decimal, dollars, money, nearest, percent, plain, symbol

_EDITED = "Rates changed after some hours were final: those hours keep the rates and node groups of when they closed."
_LABEL = 16
_NAME, _CELL = 26, 17
_MILLIJOULES_PER_TENTH_KWH = 360_000_000
_MILLIGRAMS_PER_TENTH_KG = 100_000


def costs_text(costs: Costs, layout: TextLayout) -> str:
    """Return the text: one paragraph a kind, with what it rests on, and what would make an unknown known."""
    version = f"   rows {costs.version}" if costs.version else ""
    found = [f"costs besides GPUs {costs.period.label}{version}", ""]
    found += layout.wrap("Separate from the ledger: not in its bill, and not charged to any team.", "")
    if costs.edited:
        found += layout.wrap(_EDITED, "")
    found += ["", *_energy(costs, layout), *_network(costs, layout), *_storage(costs, layout)]
    found += [line for gap in costs.gaps for line in layout.wrap(gap.words(costs.period.timezone), "")]
    return layout.page([*found, *_checkpoints(costs, layout), *_hosts(costs, layout)])


def energy_words(one: EnergySum, currency: str) -> str:
    """Return one node group's energy: at the GPUs, with the hall, what it costs, and its carbon."""
    words = f"{_kwh(one.gpu_millijoules)} kWh at the GPUs{BY_POWER if one.power_ms else ''}"
    if one.facility_millijoules is None:
        return f"{words}; no [[energy]] row says its PUE, tariff and carbon"
    words += f", {_kwh(one.facility_millijoules)} with the hall"
    words += f": {money(one.cost_micros, currency)}" if one.cost_micros is not None else "; price unknown: no tariff"
    if one.carbon_milligrams is None:
        return f"{words}; carbon unknown: name a country or region as carbon"
    return f"{words}, {decimal(nearest(one.carbon_milligrams, _MILLIGRAMS_PER_TENTH_KG), 1)} kg CO2e"


def rows_told(one: EnergySum) -> str:
    """Return what an energy figure rests on: PUE, tariff, carbon, and who says so."""
    return "; ".join(_row_words(row) for row in one.rows)


def costs_data(costs: Costs) -> dict[str, object]:
    """Return the same for machines: millijoules, milligrams, bytes, and millionths of the currency; null is unknown."""
    return {
        "period": costs.period.label,
        "currency": costs.currency,
        "rows_version": costs.version or None,
        "rates_edited": costs.edited,
        "energy": [
            {
                "node_group": one.node_group,
                "gpu_millijoules": one.gpu_millijoules,
                "facility_millijoules": one.facility_millijoules,
                "measured_ms": one.measured_ms,
                "power_ms": one.power_ms,
                "cost_micros": one.cost_micros,
                "carbon_milligrams": one.carbon_milligrams,
                "by": [_row_words(row) for row in one.rows],
            }
            for one in costs.energy
        ],
        "energy_by_team": [
            {
                "team": one.team,
                "held": one.held,
                "gpu_millijoules": one.millijoules,
                "cost_micros": one.cost_micros,
                "carbon_milligrams": one.carbon_milligrams,
            }
            for one in costs.energy_by_team
        ],
        "network": [
            {"locality": one.locality, "bytes": one.bytes, "cost_micros": one.cost_micros, "by": one.source}
            for one in costs.network
        ],
        "storage": [
            {"name": one.row.name, "cost_micros": one.cost_micros, "by": one.row.source} for one in costs.storage
        ],
        "checkpoints": {
            "written_bytes": costs.written_bytes,
            "cost_micros": costs.checkpoints_micros,
            "is_watched": costs.is_watched,
        },
        "hosts": {"host_hours": costs.host_hours, "cost_micros": costs.hosts_micros},
        "gaps": [asdict(gap) for gap in costs.gaps],
    }


def _energy(costs: Costs, layout: TextLayout) -> list[str]:
    if not costs.energy:
        return layout.labelled("energy", "unknown: no GPU reported its energy", _LABEL)
    found = []
    for one in costs.energy:
        where = plain(one.node_group) if one.node_group else "all nodes" if len(costs.energy) == 1 else "other nodes"
        found += layout.labelled("energy", f"{where}: {energy_words(one, costs.currency)}", _LABEL)
        found += layout.labelled("", rows_told(one), _LABEL) if one.rows else []
    measured = sum(one.measured_ms for one in costs.energy)
    told = f"measured by the GPUs in {percent(min(measured, costs.gpu_ms), costs.gpu_ms)} of GPU time."
    told += " Hosts, network and disks are not in it. The price per GPU-hour already includes power: it is not added."
    return [*found, *layout.labelled("", told, _LABEL), "", *_energy_by_team(costs)]


def _energy_by_team(costs: Costs) -> list[str]:
    """Return a table: what the GPUs drew that each team held, its part of the price and of the carbon.

    The columns add up as printed, to what is said of the fleet.
    """
    teams = sorted(costs.energy_by_team, key=lambda one: (not one.held, one.team is None, -one.millijoules))
    columns: tuple[TableColumn[TeamEnergy | None], ...] = (
        TableColumn("  ENERGY BY TEAM", _bearer, width=_NAME + 2, align="<"),
        _adding("kWh at the GPUs", "millijoules", _MILLIJOULES_PER_TENTH_KWH, 1),
        _adding("price", "cost_micros", MICROS // 100, 2, symbol(costs.currency)),
        _adding("kg CO2e", "carbon_milligrams", _MILLIGRAMS_PER_TENTH_KG, 1),
    )
    return [*paper_lines(columns, [*teams, None]), ""]


def _bearer(team: TeamEnergy | None) -> str:
    if team is None:
        return "total"
    return "nobody (not allocated)" if not team.held else plain(team.team)[: _NAME - 1] if team.team else "unmapped"


def _adding(head: str, figure: str, per_unit: int, decimals: int, sign: str = "") -> TableColumn[TeamEnergy | None]:
    """Return the column of a figure, whose last row is its total."""
    return TableColumn(
        head,
        lambda team: None if team is None else getattr(team, figure),
        width=_CELL,
        together=adding_up(per_unit, decimals, sign),
    )


def _network(costs: Costs, layout: TextLayout) -> list[str]:
    if not costs.network:
        return [*layout.labelled("network", "no traffic between zones or regions is known", _LABEL), ""]
    return [
        *(
            line
            for bill in costs.network
            for line in layout.labelled("network", bill_words(bill, costs.currency), _LABEL)
        ),
        "",
    ]


def _storage(costs: Costs, layout: TextLayout) -> list[str]:
    if not costs.storage:
        return [*layout.labelled("storage", "not set: add a [[storage]] row for what is paid by the month", _LABEL), ""]
    found = []
    for one in costs.storage:
        row = one.row
        words = (
            f"{plain(row.name or '')}: {money(one.cost_micros, costs.currency)}, {_plain(row.gib_millionths)} GiB at"
        )
        words += f" {dollars(row.micros_per_gib_month)} per GiB and month; {_source(row)}"
        found += layout.labelled("storage", words, _LABEL)
    return [*found, ""]


def _checkpoints(costs: Costs, layout: TextLayout) -> list[str]:
    if costs.written_bytes is None:
        words = "none seen" if costs.is_watched else f"{UNKNOWN}: what hosts wrote was not measured, or is not kept"
        return [*layout.labelled("checkpoints", words, _LABEL), ""]
    words = f"{bytes_words(costs.written_bytes)} written"
    if costs.checkpoints_micros is None:
        return [*layout.labelled("checkpoints", f"{words}; no [[checkpoints]] row prices all of it", _LABEL), ""]
    sources = "; ".join(_source(row) for row in costs.checkpoint_rows)
    words += f": {money(costs.checkpoints_micros, costs.currency)}; {sources}"
    return [*layout.labelled("checkpoints", words, _LABEL), ""]


def _hosts(costs: Costs, layout: TextLayout) -> list[str]:
    if not costs.host_rows:
        return layout.labelled("hosts", "CPU and memory are in the GPUs' price: no [[host]] prices them apart", _LABEL)
    sources = "; ".join(_source(row) for row in costs.host_rows)
    if costs.hosts_micros is None:
        words = f"{UNKNOWN}: a host has not reported its cores and memory; its agent's inventory does"
        return layout.labelled("hosts", words, _LABEL)
    words = f"{money(costs.hosts_micros, costs.currency)} for {costs.host_hours:,} host-hours; {sources}"
    return layout.labelled("hosts", words, _LABEL)


def _row_words(row: Energy) -> str:
    words = [f"PUE {dollars(row.pue_millionths)}"]
    if row.micros_per_kwh is not None:
        words.append(f"{dollars(row.micros_per_kwh)} per kWh ({_source(row)})")
    if row.carbon is not None:
        grams = decimal(
            nearest(row.carbon.milligrams_per_kwh.numerator, row.carbon.milligrams_per_kwh.denominator * 1000), 0
        )
        words.append(f"{grams} g/kWh ({row.carbon.told})")
    return ", ".join(words)


def _source(row: Tariff) -> str:
    return f"{plain(row.source)}, checked {row.as_of}"


def _kwh(millijoules: int) -> str:
    return decimal(nearest(millijoules, _MILLIJOULES_PER_TENTH_KWH), 1)


def _plain(millionths: int) -> str:
    return dollars(millionths).removesuffix(".00")
