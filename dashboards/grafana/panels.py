"""The panels that all dashboards are made of: one look, and none without a description, a unit and thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.bargauge import Panel as BarGauge
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as Lines
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
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_LETTERS = "ABCDEFGH"
_GREEN, YELLOW, RED = "green", "yellow", "red"
_WIDTH = 24  # columns of a dashboard

Limits = Sequence[tuple[float, str]]  # from which value on in which colour; below the first it is green


@dataclass(frozen=True, slots=True)
class Query:
    """One query; `legend` names its series by their labels, in {{ }}."""

    expr: str
    legend: str = ""


def lines(
    title: str, about: str, unit: str, *queries: Query, limits: Limits = (), stacked: bool = False, width: int = 12
) -> Lines:
    """Return a panel of values over time; its thresholds are drawn as lines."""
    panel = (
        Lines()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .height(8)
        .span(width)
        .line_width(1)
        .fill_opacity(60 if stacked else 8)
        .show_points(VisibilityMode.NEVER)
        .legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM))
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .thresholds(_thresholds(limits))
        .thresholds_style(
            GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.LINE if limits else GraphTresholdsStyleMode.OFF)
        )
    )
    if stacked:
        panel.stacking(StackingConfig().mode(StackingMode.NORMAL).group("A"))
    for letter, query in zip(_LETTERS, queries, strict=False):
        panel.with_target(Dataquery().ref_id(letter).expr(query.expr).legend_format(query.legend or "__auto"))
    return panel


def stat(
    title: str, about: str, unit: str, expr: str, *, limits: Limits = (), width: int = 4, decimals: int | None = None
) -> Stat:
    """Return a panel of one number, now, coloured by its thresholds."""
    panel = (
        Stat()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .height(4)
        .span(width)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(limits))
        .with_target(Dataquery().ref_id("A").expr(expr).instant())
    )
    return panel if decimals is None else panel.decimals(decimals)


def bars(title: str, about: str, unit: str, query: Query, *, limits: Limits = (), width: int = 12) -> BarGauge:
    """Return a panel of one bar for each series, now."""
    return (
        BarGauge()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .height(8)
        .span(width)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(limits))
        .with_target(Dataquery().ref_id("A").expr(query.expr).legend_format(query.legend or "__auto").instant())
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
    panel = (
        Table()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .height(8)
        .span(width)
        .thresholds(_thresholds(()))
        .color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color("text"))
    )
    for letter, expr in zip(_LETTERS, exprs, strict=False):
        panel.with_target(Dataquery().ref_id(letter).expr(expr).instant().format(PromQueryFormat.TABLE))
    if len(exprs) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    hidden = {name: True for name in ("Time", "cluster", "Value") if name not in columns}
    order = {name: place for place, name in enumerate(columns)}
    tidy = {"excludeByName": hidden, "indexByName": order, "renameByName": dict(columns)}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=tidy))
    for name, url in (links or {}).items():
        link = [{"title": "Open in gpuledger", "url": url, "targetBlank": True}]
        panel.override_by_name(columns[name], [DynamicConfigValue(id_val="links", value=link)])
    return panel


def _thresholds(limits: Limits) -> ThresholdsConfig:
    steps = [Threshold(value=None, color=_GREEN), *(Threshold(value=value, color=color) for value, color in limits)]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
