"""What the check of the prices finds: each fault has its edge, a sentence with the way out, and no false alarm."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from analyzer.interfaces.cli.prices import prices
from analyzer.prices.check import KindHour, Owned, complaints
from analyzer.prices.price_book import PriceBook
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

TODAY = date(2026, 11, 16)
NOW = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp()) * 1_000_000
REGIONS = '[regions]\nus-east-1 = "aws"\neu-north1 = "nebius"\n'


def row(usd: str, option: str = "reserved", start: str = "2026-01-01", **more: str) -> str:
    """Return a price of an H100; `more` are further keys, as the file has them."""
    said = {"sku": '"H100-80GB"', "usd_per_gpu_hour": usd, "from": start, "source": '"x"', "as_of": "2026-11-01"} | more
    return f'[[price]]\npurchase_option = "{option}"\n' + "".join(f"{key} = {value}\n" for key, value in said.items())


def owned(option: str | None = "reserved", region: str | None = None, watts: float | None = None) -> Owned:
    """Return GPUs of the fleet."""
    return Owned("H100-80GB", option, None, 8, NOW, region, watts)


def found(text: str, *fleet: Owned, booked: tuple[KindHour, ...] = ()) -> list[tuple[str, str]]:
    """Return what is wrong with a file."""
    book = PriceBook.parse("prices.toml", text.encode())
    return [(one.kind, one.sentence) for one in complaints(book, fleet, TODAY, None, booked)]


@pytest.mark.parametrize(
    ("later", "times"), [("3.90", None), ("3.91", "1.50"), ("1.30", None), ("1.29", "0.50"), ("20.80", "8.00")]
)
def test_a_price_that_jumps_is_asked_about(later: str, times: str | None) -> None:
    """A figure of a node in the place of a GPU's is eight times too much, and each row by itself may look right."""
    text = row("2.60", until="2026-06-01") + row(later, start="2026-06-01")
    said = [sentence for kind, sentence in found(text) if "before 2026-06-01" in sentence and kind == "suspicious"]
    assert [f"{times} times the 2.60 before" in one for one in said] == ([True] if times else [])


def test_rows_of_two_things_are_no_jump() -> None:
    """One place is dearer than the other, and spot is a market."""
    assert found(row("2.60", until="2026-06-01") + row("6.00", "on_demand", "2026-06-01")) == []
    placed = row("2.60", until="2026-06-01", region='"us-east-1"') + row(
        "6.00", start="2026-06-01", region='"eu-north1"'
    )
    assert found(REGIONS + placed) == []


def test_spot_above_on_demand_is_asked_about(tmp_path: Path) -> None:
    """Nobody buys on the market what is cheaper on the list: it is of another place, or of a node."""
    ((kind, sentence),) = found(row("6.00", "on_demand") + row("7.00", "spot"))
    assert kind == "suspicious"
    assert "H100-80GB (spot) at 7.00: more than on demand from 2026-01-01 on" in sentence
    assert found(row("6.00", "on_demand") + row("6.00", "spot")) == []
    assert found(row("6.00", "any") + row("7.00", "spot")) == []  # nobody says what it costs on demand
    (tmp_path / "spot.csv").write_text(
        "time,usd_per_gpu_hour\n2026-11-01T00:00:00Z,5.0\n2026-11-01T01:00:00Z,6.5\n2026-11-01T02:00:00Z,9.0\n"
    )
    series = (
        '[[spot]]\nsku = "H100-80GB"\nfile = "spot.csv"\nfrom = 2026-11-01\n'
        'until = 2026-11-01T03:00:00Z\nsource = "x"\n'
        "as_of = 2026-11-01\n"
    )
    book = PriceBook.parse("prices.toml", (row("6.00", "on_demand") + series).encode(), tmp_path)
    (one,) = complaints(book, [], TODAY)
    assert "more than on demand in 2 hours" in one.sentence


@pytest.mark.parametrize(("until", "kinds"), [("2026-12-16", ["ending"]), ("2026-12-17", []), ("2026-11-16", [])])
def test_a_price_that_ends_soon_is_said_in_time(until: str, kinds: list[str]) -> None:
    """The day after, every figure would be unknown; the next row takes a month to get."""
    assert [kind for kind, _ in found(row("2.60", until=until))] == kinds
    assert found(row("2.60", until=until) + row("2.70", start=until)) == []
    assert found(row("2.60", until=until) + row("2.70", "any")) == []


def test_a_row_that_prices_nothing_is_named() -> None:
    """Its SKU is misspelt, or the GPUs are gone: both are worth knowing, and rows of other times are not."""
    text = row("2.60") + row("2.70", sku='"H100-80G"')
    (first, second) = found(text, owned())[:1], found(text, owned())[1:]
    assert [kind for kind, _ in first] == ["unused"]
    assert (
        "H100-80G (reserved): prices no GPU of the fleet and no hour of the ledger; did you mean 'H100-80GB'?"
        in first[0][1]
    )
    assert second == []
    assert found(text) == []  # without a fleet nobody knows
    ahead = row("2.60", until="2027-01-01") + row("2.70", start="2027-01-01")
    assert found(ahead, owned()) == []
    past = row("2.50", start="2025-01-01", until="2026-01-01") + row("2.60")
    assert found(past, owned(), booked=(KindHour("H100-80GB", "reserved", None, None, NOW - HOUR, 1),)) == []


def test_hours_of_the_ledger_before_the_first_row_are_named() -> None:
    """What is priced now may have cost unknown in March, and the month's bill lacks it."""
    march = int(datetime(2025, 12, 30, tzinfo=UTC).timestamp()) * 1_000_000
    hours = tuple(
        KindHour("H100-80GB", "reserved", None, None, march + hour * HOUR, 8 * 3_600_000) for hour in range(72)
    )
    ((kind, sentence),) = found(row("2.60"), owned(), booked=hours)
    assert kind == "missing"
    assert "of 48 hours of the ledger, 2025-12-30 to 2025-12-31, no price is known (384.0 GPU-hours)" in sentence


def test_regions_are_held_to_where_hosts_stand() -> None:
    """A row of a place without hosts prices nothing, and a region that is told and chooses nothing misleads."""
    text = REGIONS + row("2.60", region='"us-east-1"')
    kinds = [kind for kind, _ in found(text, owned(region="eu-north1"))]
    assert kinds == ["missing", "unknown"]
    ((_, missing), *_) = found(text, owned(region="mars"))
    assert "these hosts name region 'mars', which [regions] does not" in missing
    ((_, missing), *_) = found(text, owned())
    assert "these hosts name no region" in missing
    assert found(text, owned(region="us-east-1")) == []
    ((kind, sentence),) = found(row("2.60", region='"us-east-1"'), owned(region="eu-north1"))
    assert (kind, "its region is given but selects nothing, and hosts name eu-north1" in sentence) == ("unknown", True)
    assert found(row("2.60", region='"us-east-1"'), owned(region="us-east-1")) == []
    assert found(row("2.60", region='"us-east-1"'), owned()) == []


def test_owned_for_less_than_its_power_is_asked_about() -> None:
    """700 W at 0.11 and a PUE of 1.3 are ten cents an hour: books that say less were meant otherwise."""
    energy = '[[energy]]\nusd_per_kwh = 0.11\npue = 1.30\nfrom = 2026-01-01\nsource = "x"\nas_of = 2026-11-01\n'
    cheap, sound = row("0.10", "owned"), row("0.11", "owned")
    told = [sentence for _, sentence in found(cheap + energy, owned("owned", watts=700.0))]
    assert sum("less than the 0.1001 per hour of its power alone, at its limit of 700 W" in one for one in told) == 1
    for text, gpus in (
        (sound + energy, owned("owned", watts=700.0)),
        (cheap, owned("owned", watts=700.0)),
        (cheap + energy, owned("owned")),
    ):
        assert not any("power alone" in sentence for _, sentence in found(text, gpus))


def test_the_command_holds_the_file_to_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the ledger booked is read with the names that hosts have, and machines get the same as JSON."""
    with Store.open(tmp_path / "store.duckdb") as store:
        fleet = Fleet(store)
        fleet.own("n1", ["g1"], purchase_option="reserved")
        fleet.add("inventory", [{"node": "n1", "region": "eu-north1", "started_at": MONDAY, "ended_at": MONDAY + HOUR}])
        fleet.sample("n1", "g1", MONDAY, MONDAY + 2 * HOUR)
        fleet.analyze(MONDAY + DAY, Settings())
    file = tmp_path / "prices.toml"
    start = datetime.fromtimestamp(MONDAY // 1_000_000 + 3600, UTC)
    file.write_text(REGIONS + row("2.60", start=f"{start:%Y-%m-%dT%H:%M:%SZ}", region='"eu-north1"'))
    asked = ["check", "--prices", str(file), "--store", str(tmp_path / "store.duckdb")]
    assert prices([*asked, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["complaints"]
    assert "H100-80GB (reserved): of 1 hour of the ledger, 2025-11-10, no price is known" in told[0]["sentence"]
    assert prices(asked) == 1
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
