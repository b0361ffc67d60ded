"""What dashboards are made of: one look, no panel without a description, unit and thresholds, each query written once.

docs/grafana.md says why each convention of the queries is one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from grafana_foundation_sdk.builders.bargauge import Panel as BarGauge
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    FieldColor,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as Lines
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    Threshold,
    ThresholdsMode,
    VariableHide,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from analyzer.states import BOOKINGS, CLASSES
from analyzer.text.templating import palette

CLUSTER = 'cluster=~"$cluster"'
NODE = f'{CLUSTER}, instance=~"$node"'
RUN = f'{CLUSTER}, run_id="$run"'
# Of the cell itself: fields are called by their headings there, not by their labels.
RUN_PAGE = "${pages}/runs/${__value.raw}"
FINDING_PAGE = "${pages}/findings/${__value.raw}"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG = "gpuledger"
_RATE = "$__rate_interval"
_LETTERS = "ABCDEFGH"
_LAST = ReduceDataOptions().calcs(["lastNotNull"])
_GREEN, YELLOW, RED = "green", "yellow", "red"
_FINDING = {
    "finding": "Finding", "kind": "Why", "confidence": "Confidence", "team": "Team", "run_id": "Run",
    "Value": "Estimated waste",
}  # fmt: skip
# What the SDK gives every variable: one id for all of them, and keys of intervals. Grafana takes the name for the id.
_DEFAULTS = ("id", "auto", "auto_min", "auto_count")

_P = TypeVar("_P", Lines, Stat, BarGauge, Table)
Limits = Sequence[tuple[float, str]]  # from which value on in which colour; below the first it is green
Query = tuple[str, str]  # a query, and what names its series by their labels, in {{ }}; "" for their own name


def ledger(name: str, *by: str, where: str = "") -> str:
    """Return a family of the ledger by these labels: of equal series of several servers one is taken."""
    labels = ", ".join(("cluster", *by))
    matchers = ", ".join(filter(None, (CLUSTER, where)))
    return f"max by ({labels}) (gpuledger_fleet_{name}{{{matchers}}})"


def rate(counter: str, where: str) -> str:
    """Return a counter's growth a second."""
    return f"rate({counter}{{{where}}}[{_RATE}])"


def numbered(query: str) -> str:
    """Return a query by GPU with the number of each GPU, as people call it."""
    return f"({query}) * on (cluster, instance, gpu_uuid) group_left (gpu_index) gpuledger_gpu_info{{{NODE}}}"


def of_run(query: str) -> str:
    """Return a query by GPU for those GPUs alone that the run holds."""
    return f"{query} and on (cluster, instance, gpu_uuid) gpuledger_gpu_run_info{{{RUN}}}"


def share(part: str, whole: str) -> str:
    """Return a sum as a share of another, 0 to 1."""
    return f"sum({part}) / sum({whole})"


def _panel(panel: _P, title: str, about: str, unit: str, width: int, limits: Limits = (), height: int = 8) -> _P:
    steps = [Threshold(value=None, color=_GREEN), *(Threshold(value=value, color=color) for value, color in limits)]
    thresholds = ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    panel = panel.title(title).description(about).datasource(_SOURCE).unit(unit)
    return panel.height(height).span(width).thresholds(thresholds)


def _query(letter: str, expr: str, legend: str = "") -> Dataquery:
    return Dataquery().ref_id(letter).expr(expr).legend_format(legend or "__auto")


def _labels() -> dict[str, str]:
    """Return what people call each state, alone: of one with several labels all that are lost to it."""
    found: dict[str, list[str]] = {}
    for booking in sorted(BOOKINGS, key=lambda one: one.klass != "avoidable"):
        own = found.setdefault(booking.state, [])
        if booking.label not in own and (not own or booking.klass == "avoidable"):
            own.append(booking.label)
    return {state: ", ".join(own) for state, own in found.items()}


_LABELS = _labels()
_CAUSES = {one.cause: one.cause_label for one in BOOKINGS if one.cause}
_KINDS = {f"{one.state}/{one.cause}": f"{one.label}: {one.cause_label}" for one in BOOKINGS if one.cause}
_AVOIDABLE = [one for one in BOOKINGS if one.klass == "avoidable"]  # what boards have curves of, by cause
_MAPPED: Mapping[str, Mapping[str, str]] = {"state": _LABELS, "cause": _CAUSES, "kind": _KINDS}


def _in_words(panel: Lines, legend: str) -> None:
    """Have a legend name states and causes as every screen does, and classes in the colours of the pages."""
    if "{{state}}: {{cause}}" in legend:
        words = [(f"{one.state}: {one.cause}", f"{one.label}: {one.cause_label}") for one in _AVOIDABLE]
    elif "{{state}}" in legend:
        words = list(_LABELS.items())
    else:
        words = []
    for ids, told in words:
        options = {"regex": f"^(.*?){ids}$", "renamePattern": f"$1{told}"}
        panel.with_transformation(DataTransformerConfig(id_val="renameByRegex", options=options))
    if legend == "{{class}}":
        for klass in CLASSES:
            colour = {"mode": FieldColorModeId.FIXED, "fixedColor": palette()[klass]}
            panel.override_by_name(klass, [DynamicConfigValue(id_val="color", value=colour)])


def lines(
    title: str, about: str, unit: str, *queries: Query, limits: Limits = (), stacked: bool = False, width: int = 12
) -> Lines:
    """Return a panel of values over time; its thresholds are drawn as lines."""
    drawn = GraphTresholdsStyleMode.LINE if limits else GraphTresholdsStyleMode.OFF
    panel = (
        _panel(Lines(), title, about, unit, width, limits)
        .min(0)
        .line_width(1)
        .fill_opacity(60 if stacked else 8)
        .show_points(VisibilityMode.NEVER)
        .legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM))
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .thresholds_style(GraphThresholdsStyleConfig().mode(drawn))
    )
    if stacked:
        panel.stacking(StackingConfig().mode(StackingMode.NORMAL).group("A"))
    for letter, (expr, legend) in zip(_LETTERS, queries, strict=False):
        panel.with_target(_query(letter, expr, legend))
        _in_words(panel, legend)
    return panel


def stat(
    title: str, about: str, unit: str, expr: str, *, limits: Limits = (), width: int = 4, decimals: int | None = None
) -> Stat:
    """Return a panel of one number, now, coloured by its thresholds."""
    panel = (
        _panel(Stat(), title, about, unit, width, limits, height=4)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(_LAST)
        .with_target(Dataquery().ref_id("A").expr(expr).instant())
    )
    return panel if decimals is None else panel.decimals(decimals)


def bars(title: str, about: str, unit: str, query: Query, *, limits: Limits = (), width: int = 12) -> BarGauge:
    """Return a panel of one bar for each series, now."""
    return (
        _panel(BarGauge(), title, about, unit, width, limits)
        .min(0)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(_LAST)
        .with_target(_query("A", *query).instant())
    )


def table(
    title: str,
    about: str,
    unit: str,
    columns: Mapping[str, str],
    *exprs: str,
    links: Mapping[str, str] | None = None,
    width: int = 12,
) -> Table:
    """Return a panel of rows, now: a column for each label, then for each query; `columns` has their headings by name.

    The value of a query is called Value, and of several Value #A, Value #B. `links` has the address that a cell opens.
    """
    colour = FieldColor().mode(FieldColorModeId.FIXED).fixed_color("text")
    panel = _panel(Table(), title, about, unit, width).color_scheme(colour)
    for letter, expr in zip(_LETTERS, exprs, strict=False):
        panel.with_target(Dataquery().ref_id(letter).expr(expr).instant().format(PromQueryFormat.TABLE))
    if len(exprs) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    hidden = {name: True for name in ("Time", "cluster", "Value") if name not in columns}
    order = {name: place for place, name in enumerate(columns)}
    tidy = {"excludeByName": hidden, "indexByName": order, "renameByName": dict(columns)}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=tidy))
    for name in filter(_MAPPED.__contains__, columns):  # in their order: the JSON is the same whenever it is made
        shown = {ids: {"text": told} for ids, told in _MAPPED[name].items()}
        mapping = [{"type": "value", "options": shown}]
        panel.override_by_name(columns[name], [DynamicConfigValue(id_val="mappings", value=mapping)])
    for name, url in (links or {}).items():
        link = [{"title": "Open in gpuledger", "url": url, "targetBlank": True}]
        panel.override_by_name(columns[name], [DynamicConfigValue(id_val="links", value=link)])
    return panel


def dearest_findings() -> Table:
    """Return the dearest open findings of the chosen teams, each with its page."""
    labels = (name for name in _FINDING if name != "Value")
    at_stake = ledger("finding_at_stake_usd", *labels, where='team=~"$team"')
    about = "The 20 most expensive findings of the week that are still open; each opens with its evidence."
    links = {"finding": FINDING_PAGE, "run_id": RUN_PAGE}
    return table("Most expensive findings", about, "currencyUSD", _FINDING, f"sort_desc({at_stake})", links=links)


def board(
    uid: str,
    title: str,
    about: str,
    since: str,
    variables: Sequence[QueryVariable],
    rows: Mapping[str, Sequence[Builder[Panel]]],
    link: tuple[str, str] | None = None,
) -> Dashboard:
    """Return a dashboard of the time from `since`, such as now-6h, until now: rows of panels, each under its title.

    `link` is the title and address of the page of ours that its head leads to.
    """
    made = (
        Dashboard(title)
        .uid(uid)
        .description(about)
        .tags([_TAG])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("1m")
        .time(since, "now")
        .timezone("browser")
        .link(
            DashboardLink("gpuledger")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in variables:
        made.with_variable(variable)
    if link is not None:
        title, url = link
        made.link(DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True).icon("external link"))
    for row, panels in rows.items():
        made.with_row(Row(row))
        for panel in panels:
            made.with_panel(panel)
    return made


def chosen(name: str, label: str, values: str, *, many: bool = True) -> QueryVariable:
    """Return a variable of what label_values(...) finds; of many all may be chosen, also where no label is found."""
    variable = (
        QueryVariable(name)
        .label(label)
        .datasource(_SOURCE)
        .query({"query": values, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".*") if many else variable


def pages() -> QueryVariable:
    """Return the hidden variable of where our pages are: the server says so itself."""
    found = chosen("pages", "Pages", f"label_values(gpuledger_fleet_info{{{CLUSTER}}}, url)", many=False)
    return found.hide(VariableHide.HIDE_VARIABLE)


def board_text(made: Dashboard) -> str:
    """Return a dashboard as the JSON that Grafana reads, byte for byte the same each time."""
    found: dict[str, Any] = json.loads(JSONEncoder().encode(made.build()))
    for number, panel in enumerate(found["panels"], start=1):
        panel["id"] = number  # a link to one panel stays what it is
    found.pop("style")  # light or dark is the reader's choice
    for variable in found["templating"]["list"]:
        for key in _DEFAULTS:
            variable.pop(key, None)
    return json.dumps(_without_nulls(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _without_nulls(value: object) -> object:
    """Grafana's own schema takes no null but that of the lowest threshold, which stands for minus infinity."""
    if isinstance(value, dict):
        is_step = value.keys() == {"value", "color"}
        return {key: _without_nulls(one) for key, one in value.items() if one is not None or is_step}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
