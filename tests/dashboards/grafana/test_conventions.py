"""The dashboards keep our conventions, and the conventions catch what they are for."""

import re
from itertools import permutations

import pytest

from analyzer.states import BOOKINGS, CLASSES, Booking
from analyzer.text.templating import palette
from dashboards.grafana.__main__ import dashboard_files
from dashboards.grafana.panels import table
from tests.dashboards.grafana.boards import FOLDER, NAMES, Asking, board, everything, panels
from tests.dashboards.grafana.conventions import EXCLUSIONS, RULES, complaints

C = 'cluster=~"$cluster"'
GOOD = f"sum(max by (cluster, state) (gpuledger_fleet_gpus{{{C}}}))"
PAGES = {"run_id": "runs", "finding": "findings"}  # by the label that names what they are of
# For each rule a query, or the legend and the unit of a panel, that it must not let pass.
BAD = {
    "named": f"max(gpuledger_gpu_utilisation_ratio{{{C}}})",
    "counted": f"sum(rate(gpuledger_gpu_power_watts{{{C}}}[$__rate_interval]))",
    "ranged": f"sum(rate(gpuledger_gpu_pcie_receive_bytes_total{{{C}}}[5m]))",
    "unit": f"max(gpuledger_gpu_memory_used_bytes{{{C}}})",
    "filtered": "sum(gpuledger_gpu_up)",
    "bounded": f"gpuledger_gpu_power_watts{{{C}}}",
    "once": f"sum(gpuledger_fleet_gpus{{{C}}})",
    "averaged": f"sum(gpuledger_gpu_sm_active_ratio{{{C}}})",
    "silent": f"sum(gpuledger_gpu_up{{{C}}}) or vector(0)",
}


def asking(
    expr: str, unit: str = "none", legend: str = "GPUs", about: str = "GPUs of the last complete hour."
) -> Asking:
    """Return a query of a panel that is well in all else."""
    defaults = {"unit": unit, "thresholds": {"steps": [{"color": "green", "value": None}]}}
    panel = {"title": "GPUs", "type": "timeseries", "description": about, "fieldConfig": {"defaults": defaults}}
    return Asking("a dashboard", panel, expr, legend)


def test_no_query_breaks_a_convention() -> None:
    """Each of them is from a panel that looked right and was wrong."""
    found = everything()
    assert len(found) > 100
    assert [said for each in found for said in complaints(each)] == []


@pytest.mark.parametrize("rule", BAD)
def test_a_rule_catches_what_it_is_for(rule: str) -> None:
    """A linter that says nothing may as well be broken."""
    assert RULES[rule](asking(BAD[rule]))
    assert RULES[rule](asking(GOOD)) is None


@pytest.mark.parametrize(
    ("expr", "unit"),
    [
        (f"max(gpuledger_gpu_throttle_thermal_seconds_total{{{C}}})", "s"),  # a counter as it is
        (f"max(increase(gpuledger_gpu_xid_events_total{{{C}}}[10m]))", "none"),
        (f"max(DCGM_FI_DEV_FB_USED{{{C}}})", "bytes"),  # they are MiB
        (f"max(DCGM_FI_DEV_GPU_UTIL{{{C}}})", "percentunit"),  # and these 0 to 100
    ],
)
def test_what_looks_right_and_is_not(expr: str, unit: str) -> None:
    """Off by a million, or growing for ever."""
    assert [said for rule in RULES.values() if (said := rule(asking(expr, unit)))]


def test_a_panel_says_what_it_is() -> None:
    """And its lines what they are."""
    assert RULES["legend"](asking(GOOD, legend=""))
    assert RULES["described"](asking(GOOD, about="GPUs"))
    assert RULES["described"](asking(GOOD, unit=""))
    assert not list(complaints(asking(GOOD)))


def test_every_exclusion_is_needed() -> None:
    """One that nothing needs any more hides the next mistake."""
    found = {(name, each.where) for each in everything() for name, rule in RULES.items() if rule(each)}
    assert set(EXCLUSIONS) - found == set()
    assert all(len(reason) > 20 for reason in EXCLUSIONS.values())


def test_the_json_is_what_the_code_makes() -> None:
    """Who changed one of them by hand finds it gone: python -m dashboards.grafana writes them anew."""
    assert {path.name for path in FOLDER.glob("*.json")} == {name for name, _ in dashboard_files()}
    for name, text in dashboard_files():
        assert (FOLDER / name).read_text("utf-8") == text, f"{name}: make grafana"


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_side_by_side(name: str) -> None:
    """Grafana moves panels that overlap, and each person then sees another page."""
    taken: set[tuple[int, int]] = set()
    for panel in board(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_dashboards_can_be_told_apart() -> None:
    """By their address, and panels by their titles and numbers: an alert or a link names one."""
    boards = [board(name) for name in NAMES]
    assert len({each["uid"] for each in boards}) == len({each["title"] for each in boards}) == len(NAMES)
    for name in NAMES:
        titles, numbers = ([panel[key] for panel in panels(name)] for key in ("title", "id"))
        assert len(set(titles)) == len(titles)
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", ["fleet", "node", "run", "finops"])
def test_a_dashboard_leads_to_our_pages(name: str) -> None:
    """Whose figures are looked at is one click from why."""
    links = [link["url"] for link in board(name)["links"] if link["type"] == "link"]
    assert links
    assert all(link.startswith("${pages}/") for link in links)
    assert "pages" in {variable["name"] for variable in board(name)["templating"]["list"]}


def test_states_are_named_in_words_and_classes_have_the_colours_of_the_pages() -> None:
    """held_idle is for machines; and what is green on a page is not blue beside it."""
    legends = 0
    for panel in (panel for name in NAMES for panel in panels(name) if panel["type"] == "timeseries"):
        renames = [one["options"] for one in panel.get("transformations", ()) if one["id"] == "renameByRegex"]
        for legend in (target.get("legendFormat", "") for target in panel["targets"]):
            if "{{state}}" in legend:
                legends += 1
                shown = {_renamed(legend, one, renames) for one in BOOKINGS if one.klass == "avoidable"}
                assert not [each for each in shown if "_" in each], shown
                assert any("input starvation" in each for each in shown)
            if legend == "{{class}}":
                legends += 1
                colours = {
                    one["matcher"]["options"]: one["properties"][0]["value"]["fixedColor"]
                    for one in panel["fieldConfig"]["overrides"]
                }
                assert colours == {klass: palette()[klass] for klass in CLASSES}
    assert legends == 5


def _renamed(legend: str, booking: Booking, renames: list[dict[str, str]]) -> str:
    """Return a series' name as Grafana shows it: each renaming in its order."""
    text = legend.replace("{{state}}", booking.state).replace("{{cause}}", booking.cause or "")
    for one in renames:
        text = re.sub(one["regex"], one["renamePattern"].replace("$1", r"\1"), text.replace("{{team}}", "team-nlp"))
    return text


def test_a_cell_opens_what_it_names() -> None:
    """A link that reads a column by its label finds nothing once the column has a heading."""
    found = 0
    for panel in (panel for name in NAMES for panel in panels(name) if panel["type"] == "table"):
        (tidy,) = [each["options"] for each in panel["transformations"] if each["id"] == "organize"]
        headings = {heading: label for label, heading in tidy["renameByName"].items()}
        for override in panel["fieldConfig"]["overrides"]:
            label = headings[override["matcher"]["options"]]
            if override["properties"][0]["id"] != "links":
                continue
            (link,) = override["properties"][0]["value"]
            assert link["url"] == f"${{pages}}/{PAGES[label]}/${{__value.raw}}"
            found += 1
    assert found >= 5


def test_columns_are_told_in_their_order() -> None:
    """By the order of a set of names, which is another in each process, one dashboard was another file in each."""
    columns = {"cause": "Cause", "state": "State"}
    for order in permutations(columns):
        made = table("Losses", "", "none", {name: columns[name] for name in order}, "up").build()
        overrides = made.field_config.overrides if made.field_config else []
        assert [each.matcher.options for each in overrides] == [columns[name] for name in order]
