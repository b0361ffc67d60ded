"""Where a GPU stands chooses its price where the file says which regions there are; elsewhere nothing changes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import ConfigError
from analyzer.interfaces.doctor.invariants import examine
from analyzer.prices.price_book import PriceBook
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

REGIONS = '[regions]\nus-east-1 = "aws"\nus-west-2 = "aws"\neu-north1 = "nebius"\n'
LATER = MONDAY + 10 * DAY  # the week is closed


def row(usd: str, *, option: str = "any", **more: str) -> str:
    """Return one price of an H100."""
    named = "".join(f'{key} = "{value}"\n' for key, value in more.items())
    return (
        f'[[price]]\nsku = "H100-80GB"\npurchase_option = "{option}"\nusd_per_gpu_hour = {usd}\n{named}'
        f'from = 2020-01-01\nsource = "contract {usd}"\nas_of = 2025-11-01\n'
    )


def parsed(*parts: str) -> PriceBook:
    """Read a price file."""
    return PriceBook.parse("prices.toml", "".join(parts).encode())


def usd(book: PriceBook, region: str | None, option: str | None = None, group: str | None = None) -> float | None:
    """Return the price of a GPU-hour in a region."""
    found = book.price("H100-80GB", option, MONDAY, group, region)
    return found.micros_per_gpu_hour / 1e6 if found else None


def test_a_price_of_a_region_is_of_gpus_there_alone() -> None:
    """One SKU costs more in one place than in another, and no row speaks for a place that it does not name."""
    book = parsed(REGIONS, row("3.00", region="us-east-1"), row("2.00", region="eu-north1"))
    assert [usd(book, name) for name in ("us-east-1", "eu-north1", "us-west-2", "elsewhere", None)] == [
        3.0,
        2.0,
        None,
        None,
        None,
    ]


def test_the_more_particular_place_goes_first() -> None:
    """Of the node group, then of the region, then of the provider, then of the very option, then any."""
    rows = [row("9.00"), row("8.00", option="spot"), row("7.00", provider="aws"), row("6.00", region="us-east-1")]
    book = parsed(REGIONS, *rows, row("5.00", node_group="rack-1"))
    assert usd(book, None) == 9.0
    assert usd(book, "eu-north1", "spot") == 8.0
    assert usd(book, "us-west-2", "spot") == 7.0
    assert usd(book, "us-east-1", "spot") == 6.0
    assert usd(book, "us-east-1", "spot", "rack-1") == 5.0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([row("3", region="us-east-1"), row("2", region="us-east-1")], "two prices of H100-80GB"),
        ([row("3", region="us-east-1"), row("2", region="us-east-1", provider="aws")], "two prices of H100-80GB"),
        ([row("3", provider="aws"), row("2", provider="aws")], "two prices of H100-80GB"),
        ([row("3", region="us-east1")], "'us-east1' is not in [regions]; did you mean 'us-east-1'?"),
        ([row("3", region="mars")], "write it there, by the name that hosts give it"),
        ([row("3", provider="gcp")], "no region in [regions] is of provider 'gcp'"),
        (
            [row("3", provider="nebius", region="us-east-1")],
            "of provider 'aws' by [regions], and the row says",
        ),
    ],
)
def test_a_place_that_cannot_be_is_refused(parts: list[str], message: str) -> None:
    """A misspelt region would price nothing, and two prices of one place would depend on the order of lines."""
    with pytest.raises(ConfigError) as refusal:
        parsed(REGIONS, *parts)
    assert message in str(refusal.value)


def test_a_list_price_is_of_its_own_region() -> None:
    """A row of a catalogue names its region: it prices GPUs there, once the file says which regions there are."""
    listed = (
        '[[list_price]]\nprovider = "aws"\nregion = "us-east-1"\ninstance_type = "p5.48xlarge"\n'
        'purchase_option = "on_demand"\nfrom = 2020-01-01\n'
    )
    assert usd(parsed(listed), None, "on_demand") is not None
    assert usd(parsed(REGIONS, listed), None, "on_demand") is None
    assert usd(parsed(REGIONS, listed), "us-east-1", "on_demand") is not None


def test_a_list_price_of_any_region_is_of_all_that_are_its_provider_s() -> None:
    """A provider that asks the same everywhere names no region that a host could be in."""
    listed = (
        '[[list_price]]\nprovider = "nebius"\nregion = "any"\ninstance_type = "HGX H100"\n'
        'purchase_option = "on_demand"\nfrom = 2020-01-01\n'
    )
    book = parsed(REGIONS, listed)
    assert usd(book, "eu-north1", "on_demand") == 3.85
    assert usd(book, "us-east-1", "on_demand") is None


def test_without_the_table_files_mean_what_they_meant() -> None:
    """Files that name a region of their GPUs for the reader were valid before there was a table of them."""
    book = parsed(row("3.00", region="us-east-1", provider="aws"))
    assert [usd(book, name) for name in ("us-east-1", "eu-north1", None)] == [3.0, 3.0, 3.0]
    with pytest.raises(ConfigError, match=r"or write \[regions\], so that provider and region choose"):
        parsed(row("3.00", region="us-east-1"), row("2.00", region="eu-north1"))
    assert parsed(row("3.00")).version != parsed(REGIONS, row("3.00")).version
    assert parsed(row("3.00")).regions.providers == ()


def fleet_of(regions: dict[str, str | None]) -> Fleet:
    """Return a fleet of one GPU a host, each in its region."""
    fleet = Fleet()
    for node, region in regions.items():
        fleet.own(node, [f"g-{node}"], purchase_option="on_demand")
        if region is not None:
            fleet.add("inventory", [{"node": node, "region": region, "started_at": MONDAY, "ended_at": MONDAY + HOUR}])
        fleet.sample(node, f"g-{node}", MONDAY, MONDAY + 2 * HOUR)
        fleet.hold(f"slurm/alpha/{node}", node, [f"g-{node}"], MONDAY, MONDAY + HOUR // 7)
    return fleet


def cost_by_node(fleet: Fleet) -> dict[str, int | None]:
    """Return what each host's GPU cost."""
    with fleet.store.session() as session:
        return dict(session.rows("SELECT node, sum(cost_micros)::BIGINT FROM ledger GROUP BY ALL"))


def test_the_ledger_prices_each_host_where_it_stands(tmp_path: Path) -> None:
    """Costs still sum to the price of what is owned, and a host of which nobody says where it is costs unknown."""
    settings = Settings(prices=tmp_path / "prices.toml")
    (tmp_path / "prices.toml").write_text(REGIONS + row("3.00", region="us-east-1") + row("2.00", provider="nebius"))
    fleet = fleet_of({"n1": "us-east-1", "n2": "eu-north1", "n3": None})
    fleet.analyze(MONDAY + DAY, settings)
    assert cost_by_node(fleet) == {"n1": 6_000_000, "n2": 4_000_000, "n3": None}
    with fleet.store.session() as session:
        assert {check.name: check.off for check in examine(session, settings)}["money"] == 0


def test_closed_hours_keep_the_price_of_before_the_table(tmp_path: Path) -> None:
    """A table of regions is a change of prices like any other: closed hours stay, the difference is a correction."""
    settings = Settings(prices=tmp_path / "prices.toml")
    (tmp_path / "prices.toml").write_text(row("3.00", region="us-east-1"))
    fleet = fleet_of({"n1": "us-east-1", "n2": "eu-north1"})
    fleet.analyze(LATER, settings)
    before = cost_by_node(fleet)
    assert before == {"n1": 6_000_000, "n2": 6_000_000}
    (tmp_path / "prices.toml").write_text(REGIONS + row("3.00", region="us-east-1") + row("2.00", region="eu-north1"))
    fleet.analyze(LATER, settings)
    assert cost_by_node(fleet) == before
    with fleet.store.session() as session:
        moved = session.rows("SELECT node, sum(cost_micros)::BIGINT FROM adjustments GROUP BY ALL")
    assert moved == [("n2", -2_000_000)]


@given(st.data())
def test_one_row_at_most_is_the_most_particular(data: st.DataObject) -> None:
    """Whatever rows a file may have, the price of a GPU does not depend on their order."""
    places = st.sampled_from([{}, {"provider": "aws"}, {"provider": "nebius"}, {"region": "us-east-1"}])
    kinds = st.tuples(places, st.sampled_from(["any", "spot"]), st.sampled_from([None, "rack-1"]))
    chosen = data.draw(st.lists(kinds, unique_by=str, max_size=8))
    rows = [
        row(f"{number}.00", option=option, **place, **({"node_group": group} if group else {}))
        for number, (place, option, group) in enumerate(chosen)
    ]
    one, other = parsed(REGIONS, *rows), parsed(REGIONS, *reversed(rows))
    assert one.version == other.version
    for region in (None, "us-east-1", "eu-north1", "mars"):
        for option, group in ((None, None), ("spot", None), ("spot", "rack-1")):
            assert usd(one, region, option, group) == usd(other, region, option, group)
