"""The frame of a dashboard: its variables, and the links to its siblings and to our pages."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableHide,
    VariableRefresh,
    VariableSort,
)

from dashboards.grafana.panels import SOURCE
from dashboards.grafana.queries import CLUSTER

_TAG = "gpuledger"
# Of the cell itself: fields are called by their headings there, not by their labels.
RUN_PAGE = "${pages}/runs/${__value.raw}"
FINDING_PAGE = "${pages}/findings/${__value.raw}"

Panels = Sequence[Builder[Panel]]


def board(uid: str, title: str, about: str, since: str, variables: Sequence[QueryVariable]) -> Dashboard:
    """Return an empty dashboard that shows the time from `since`, such as now-6h, until now."""
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
    return made


def filled(made: Dashboard, rows: Sequence[tuple[str, Panels]]) -> Dashboard:
    """Return a dashboard with these rows of panels, each under its title."""
    for title, panels in rows:
        made.with_row(Row(title))
        for panel in panels:
            made.with_panel(panel)
    return made


def chosen(name: str, label: str, values: str, *, many: bool = True) -> QueryVariable:
    """Return a variable of what label_values(...) finds; of many all may be chosen, also where no label is found."""
    variable = (
        QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": values, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".*") if many else variable


def pages() -> QueryVariable:
    """Return the hidden variable of where our pages are: the server says so itself."""
    found = chosen("pages", "Pages", f"label_values(gpuledger_fleet_info{{{CLUSTER}}}, url)", many=False)
    return found.hide(VariableHide.HIDE_VARIABLE)


def page_link(title: str, url: str) -> DashboardLink:
    """Return a link from the head of a dashboard to a page of ours."""
    return DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True).icon("external link")
