"""The fleet on /metrics: the ledger's own figures, with an end to the page however large the fleet."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from analyzer.findings.ledger_findings import findings
from analyzer.interfaces.metrics.fleet_query import NOBODY, OTHER, TEAMS_SHOWN, UNMAPPED
from analyzer.interfaces.metrics.snapshot import FleetPage
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from analyzer.states import BOOKINGS, CLASSES
from collector.store.database import Store
from tests.agent.test_exporter_situations import promtool
from tests.analyzer.interfaces.api_sites import LATER, settings
from tests.analyzer.interfaces.metrics_fleets import large
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.small_site import small_site
from tests.campaign import examples
from tests.exposed import exposed

GPUS, TEAMS = 8, 200
MOST_SERIES = 1_000


def page(store: Store, chosen: Settings) -> FleetPage:
    """Return a page of the fleet that was made once."""
    made = FleetPage(lambda: Reader(store.session(), chosen))
    made.once()
    return made


def families(made: FleetPage) -> dict[str, Metric]:
    """Return what a scrape finds."""
    return {family.name: family for family in text_string_to_metric_families(exposed(made).decode())}


def values(family: Metric) -> dict[tuple[str, ...], float]:
    """Return the samples by the values of their labels."""
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Settings]]:
    """The small site, analysed a day later, so that its hours are settled; nobody changes it."""
    yield from _settled(tmp_path_factory.mktemp("small"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Fleet, Settings]]:
    """The same, to be changed."""
    yield from _settled(tmp_path)


def _settled(folder: Path) -> Iterator[tuple[Fleet, Settings]]:
    fleet = settled()
    yield fleet, settings(folder)
    fleet.store.close()


@made_once
def settled() -> Fleet:
    """Return the small site, analysed a day later, and its hours before the last are complete."""
    fleet = small_site()
    fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + 4 * HOUR)
    with TemporaryDirectory() as folder:
        fleet.analyze(now=LATER, settings=settings(Path(folder)))
    return fleet


def test_the_page_says_what_the_ledger_says(small: tuple[Fleet, Settings]) -> None:
    """Two figures for one thing cost more trust than either is worth."""
    fleet, chosen = small
    found = families(page(fleet.store, chosen))
    week = values(found["gpuledger_fleet_week_gpu_seconds"])
    booked = {(state, cause or ""): ms / 1000 for (state, cause), ms in fleet.states().items()}
    assert {(state, cause): seconds for (_, state, cause), seconds in _by_name(week, found)} == booked
    cost = sum(values(found["gpuledger_fleet_week_cost_usd"]).values())
    assert cost == pytest.approx(sum(booked.values()) / 3600 * 2.6)
    assert sum(values(found["gpuledger_fleet_team_week_cost_usd"]).values()) == pytest.approx(cost)
    assert sum(values(found["gpuledger_fleet_gpus"]).values()) == 26
    assert sum(values(found["gpuledger_fleet_hour_cost_usd"]).values()) == pytest.approx(26 * 2.6)
    assert values(found["gpuledger_fleet_hour_timestamp_seconds"]) == {(): (MONDAY + 2 * HOUR) / 1e6}


def _by_name(week: dict[tuple[str, ...], float], found: dict[str, Metric]) -> list[tuple[tuple[str, ...], float]]:
    names = list(found["gpuledger_fleet_week_gpu_seconds"].samples[0].labels)
    order = [names.index(name) for name in ("class", "state", "cause")]
    return [(tuple(key[place] for place in order), value) for key, value in week.items()]


def test_findings_are_counted_as_they_are_listed(small: tuple[Fleet, Settings]) -> None:
    """Who counts them reads no evidence, and comes to the same."""
    fleet, _ = small
    with fleet.store.session() as session:
        listed = findings(session, MONDAY, MONDAY + DAY)
        counted = findings(session, MONDAY, MONDAY + DAY, with_evidence=False)
    assert any(finding.evidence for finding in listed)
    bare = [replace(finding, evidence=(), claim="", wrong_if="", what="") for finding in listed]
    assert bare == [replace(finding, claim="", wrong_if="", what="") for finding in counted]


def test_what_nobody_mapped_and_nobody_held_has_a_name(small: tuple[Fleet, Settings]) -> None:
    """The teams' sum is then the fleet's."""
    fleet, chosen = small
    samples = families(page(fleet.store, chosen))["gpuledger_fleet_team_week_gpu_seconds"].samples
    assert {sample.labels["team"] for sample in samples} == {"holders", "workers", UNMAPPED, NOBODY}


def test_promtool_finds_nothing(small: tuple[Fleet, Settings]) -> None:
    """Names and units are as Prometheus has them."""
    fleet, chosen = small
    lint(exposed(page(fleet.store, chosen)))


def lint(text: bytes) -> None:
    """Let promtool look at a page."""
    done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@pytest.mark.parametrize("hosts", examples(10_000, here=2_000))
def test_ten_thousand_hosts_have_a_short_page(hosts: int) -> None:
    """80,000 GPUs in every state, 200 teams: what grows with them is summed, and named only at the top.

    More hosts than the page may have series show as much.
    """
    with Store.open(None) as store:
        large(store, hosts, GPUS, TEAMS)
        made = page(store, Settings())
        found = families(made)
        series = sum(len(family.samples) for family in found.values())
        assert series < MOST_SERIES
        lint(exposed(made))
    states = found["gpuledger_fleet_week_gpu_seconds"].samples
    assert len(states) == len(BOOKINGS)
    assert sum(sample.value for sample in states) == hosts * GPUS * 3600
    teams = {sample.labels["team"] for sample in found["gpuledger_fleet_team_week_cost_usd"].samples}
    assert len(teams) == TEAMS_SHOWN + 3
    assert {OTHER, UNMAPPED, NOBODY} < teams
    assert sum(sample.value for sample in found["gpuledger_fleet_gpus"].samples) == hosts * GPUS
    assert len(found["gpuledger_fleet_team_week_cost_usd"].samples) <= (TEAMS_SHOWN + 3) * len(CLASSES)


def test_money_bears_its_currency(small: tuple[Fleet, Settings]) -> None:
    """Euros are not dollars by another name."""
    fleet, chosen = small
    found = families(page(fleet.store, replace(chosen, currency="EUR")))
    assert "gpuledger_fleet_week_cost_eur" in found
    assert not [name for name in found if name.endswith("_usd")]


def test_what_has_no_price_has_no_cost() -> None:
    """It is told as GPUs without a price, and never as 0."""
    fleet = small_site()
    fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + 4 * HOUR)
    fleet.analyze(now=LATER)
    found = families(page(fleet.store, Settings()))
    assert not [family for name, family in found.items() if name.endswith("_usd") and family.samples]
    assert values(found["gpuledger_fleet_unpriced_gpus"]) == {(): 26.0}


def test_an_empty_ledger_has_a_page() -> None:
    """A new site is scraped too."""
    with Store.open(None) as store:
        found = families(page(store, Settings()))
        assert set(found) == {f"gpuledger_fleet_{name}" for name in ("info", "read_failures", "read_timestamp_seconds")}


def test_the_page_is_made_anew_when_the_ledger_changes(own: tuple[Fleet, Settings]) -> None:
    """And not else: a look at one row is all that a quiet ledger costs."""
    fleet, chosen = own
    made = page(fleet.store, chosen)
    before = families(made)["gpuledger_fleet_known_until_timestamp_seconds"].samples[0].value
    fleet.sample("z0", "z0g0", MONDAY + 4 * HOUR, MONDAY + 6 * HOUR)
    made.once()
    assert families(made)["gpuledger_fleet_known_until_timestamp_seconds"].samples[0].value == before
    fleet.analyze(now=LATER, settings=chosen)
    made.once()
    assert families(made)["gpuledger_fleet_known_until_timestamp_seconds"].samples[0].value == before + 7200


def test_a_store_that_does_not_answer_leaves_the_page_as_it_was(own: tuple[Fleet, Settings]) -> None:
    """Old figures that say how old they are beat no figures; the failures are counted."""
    fleet, chosen = own
    made = page(fleet.store, chosen)
    before = families(made)["gpuledger_fleet_week_gpu_seconds"].samples
    with fleet.store.session() as session:
        session.execute("ALTER TABLE analysis RENAME TO gone")
    made.once()
    found = families(made)
    assert found["gpuledger_fleet_week_gpu_seconds"].samples == before
    assert values(found["gpuledger_fleet_read_failures"]) == {(): 1.0}
