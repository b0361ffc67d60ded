"""What /metrics names and what stands beside the ledger: bounded, as the reports have it, and alone in its failures."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from prometheus_client import Metric

from analyzer.findings.ledger_findings import findings
from analyzer.interfaces.metrics.fleet_query import FINDINGS_SHOWN, RUNS_SHOWN, TEAMS_SHOWN
from analyzer.interfaces.metrics.snapshot import FleetPage
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.interfaces.api_sites import LATER, settings
from tests.analyzer.interfaces.metrics_fleets import large
from tests.analyzer.interfaces.test_metrics_fleet_page import families, page
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.small_site import small_site

BUDGET = '[[budget]]\nusd_per_month = 1_000\nfrom = 2020-01-01\nsource = "a test"\n'


@made_once
def losing() -> Fleet:
    """Return the small site, analysed, whose runs go on."""
    fleet = small_site()
    with TemporaryDirectory() as folder:
        fleet.analyze(now=LATER, settings=settings(Path(folder)))
    with fleet.store.session() as session:
        session.execute("UPDATE ledger_hours SET status = 'open'")
        session.execute("UPDATE runs SET ended_at = NULL")  # what goes on can still be acted on
    return fleet


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Fleet, Settings]]:
    """A site whose last complete hour has runs that lose time, and that has a budget."""
    fleet = losing()
    (tmp_path / "budgets.toml").write_text(BUDGET)
    yield fleet, replace(settings(tmp_path), budgets=tmp_path / "budgets.toml")
    fleet.store.close()


def sums(family: Metric, label: str) -> dict[str, float]:
    """Return the family's sums by one label."""
    found: dict[str, float] = {}
    for sample in family.samples:
        found[sample.labels[label]] = found.get(sample.labels[label], 0.0) + sample.value
    return found


def test_a_run_is_told_whole(site: tuple[Fleet, Settings]) -> None:
    """Its states sum to the GPUs that it held, so that a share of them is a share of the run."""
    fleet, chosen = site
    told = families(page(fleet.store, chosen))["gpuledger_fleet_run_gpus"]
    with fleet.store.session() as session:
        held = dict(
            session.rows(
                "SELECT run_id, sum(milliseconds) / 3.6e6 FROM ledger WHERE hour = ? AND run_id IS NOT NULL GROUP BY 1",
                [MONDAY + HOUR],
            )
        )
    found = sums(told, "run_id")
    assert found == pytest.approx({run: held[run] for run in found})
    assert all(
        any(s.labels["class"] == "avoidable" for s in told.samples if s.labels["run_id"] == run) for run in found
    )


def test_findings_are_named_as_they_are_listed(site: tuple[Fleet, Settings]) -> None:
    """The page of a finding is found by its name."""
    fleet, chosen = site
    told = families(page(fleet.store, chosen))["gpuledger_fleet_finding_gpu_seconds"]
    with fleet.store.session() as session:
        listed = {each.id: each for each in findings(session, MONDAY, MONDAY + 7 * DAY) if each.still_open}
    assert told.samples
    for sample in told.samples:
        each = listed[sample.labels["finding"]]
        assert sample.value == each.milliseconds / 1000
        assert (sample.labels["kind"], sample.labels["run_id"]) == (each.rule, each.run_ids[0] if each.run_ids else "")


def test_names_have_an_end() -> None:
    """Of 10,000 runs and 200 teams as many are named as a person reads."""
    with Store.open(None) as store:
        large(store, 1_000, 8, 200)
        found = families(page(store, Settings()))
    assert len(sums(found["gpuledger_fleet_run_gpus"], "run_id")) == RUNS_SHOWN
    assert len(sums(found["gpuledger_fleet_team_avoidable_hour_cost_usd"], "team")) == TEAMS_SHOWN
    assert len(found["gpuledger_fleet_finding_at_stake_usd"].samples) == FINDINGS_SHOWN


def test_hostile_names_break_no_scrape(site: tuple[Fleet, Settings]) -> None:
    """A run is called what its user likes."""
    fleet, chosen = site
    name = 'a"} 1\ngpuledger_fleet_gpus{state="\\'
    with fleet.store.session() as session:
        session.execute("UPDATE runs SET name = ?", [name])
    found = families(page(fleet.store, chosen))
    assert set(sums(found["gpuledger_fleet_run_gpus"], "name")) == {name}
    assert name not in sums(found["gpuledger_fleet_gpus"], "state")


def test_a_team_may_be_called_as_we_call_what_is_none(site: tuple[Fleet, Settings]) -> None:
    """Two series with one name would cost the whole scrape."""
    fleet, chosen = site
    with fleet.store.session() as session:
        session.execute("UPDATE runs SET team = 'unmapped' WHERE team = 'holders'")
        session.execute("UPDATE runs SET team = 'nobody' WHERE team = 'workers'")
    for family in families(page(fleet.store, chosen)).values():
        series = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(series) == len(set(series)), family.name


def test_the_month_is_told_against_its_budget(site: tuple[Fleet, Settings]) -> None:
    """Teams and what nobody held sum to the fleet."""
    fleet, chosen = site
    found = families(page(fleet.store, chosen))
    spent = sums(found["gpuledger_fleet_month_spent_usd"], "scope")
    assert spent.keys() == {"team", "unmapped", "nobody", "fleet"}
    assert sum(spent.values()) == pytest.approx(2 * spent["fleet"])
    assert sums(found["gpuledger_fleet_month_budget_usd"], "bearer") == {"the whole fleet": 1000.0}


def test_a_broken_file_costs_its_own_figures_alone(site: tuple[Fleet, Settings]) -> None:
    """Whoever edits the budgets at night must not blind the alerts."""
    fleet, chosen = site
    assert chosen.budgets is not None
    chosen.budgets.write_text("[[budget]\n")
    found = families(page(fleet.store, chosen))
    assert sums(found["gpuledger_fleet_file_unreadable"], "file") == {"budgets": 1.0, "prices": 0.0}
    assert "gpuledger_fleet_month_spent_usd" not in found
    assert found["gpuledger_fleet_gpus"].samples


def test_what_stands_beside_is_read_once_an_hour_of_the_ledger(site: tuple[Fleet, Settings]) -> None:
    """A month reads weeks: not with every pass of the analysis."""
    fleet, chosen = site
    assert chosen.budgets is not None
    made = page(fleet.store, chosen)
    chosen.budgets.write_text("[[budget]\n")
    with fleet.store.session() as session:
        session.execute("UPDATE runs SET name = 'renamed'")
        session.execute("UPDATE analysis SET analysed_at = analysed_at + 1")
    made.once()
    found = families(made)
    assert set(sums(found["gpuledger_fleet_run_gpus"], "name")) == {"renamed"}
    assert sums(found["gpuledger_fleet_file_unreadable"], "file") == {"budgets": 0.0, "prices": 0.0}


def test_the_page_says_where_the_pages_are(site: tuple[Fleet, Settings]) -> None:
    """Links of alerts and of Grafana follow from it; a stroke at the end would be there twice."""
    fleet, chosen = site
    made = FleetPage(lambda: Reader(fleet.store.session(), chosen), "https://gpuledger.example/")
    made.once()
    (sample,) = families(made)["gpuledger_fleet_info"].samples
    assert sample.labels == {"fleet": chosen.cluster, "currency": "USD", "url": "https://gpuledger.example"}
