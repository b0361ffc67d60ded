"""A copy of an analysed fleet is as good as the fleet: what tests that share one stand on."""

from tests.analyzer.ledger.fleet import HOUR, Fleet
from tests.analyzer.small_site import END, analysed_site, small_site


def contents(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables."""
    with fleet.store.session() as session:
        names = session.rows("SELECT table_name FROM duckdb_tables() WHERE NOT temporary")
        return {name: session.rows(f"SELECT * FROM {name} ORDER BY ALL") for (name,) in names}


def test_a_copy_has_every_row_and_goes_on_as_the_fleet_does() -> None:
    """Also the second copy, after the first was written into."""
    analysed_site().sample("late", "l0", END, END + HOUR)
    fleets = small_site(), analysed_site()
    fleets[0].analyze()
    assert contents(fleets[1]) == contents(fleets[0])
    for fleet in fleets:
        fleet.sample("z0", "z0g0", END, END + HOUR)
        assert fleet.analyze().gpu_hours > 0
    assert contents(fleets[1]) == contents(fleets[0])
