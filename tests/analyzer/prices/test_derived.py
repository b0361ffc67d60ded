"""A price that is made of other figures says how, and its hours sum to what was paid, to the millionth."""

from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.errors import ConfigError
from analyzer.prices.check import complaints
from analyzer.prices.derived import PricePart, spread_over_hours
from analyzer.prices.price_book import PriceBook, PriceFile
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, MONDAY, Fleet

HOUR = 3_600_000_000
RESERVED = """
[[reserved]]
sku = "H100-80GB"
usd_upfront_per_node = 105_120
gpus_per_node = 8
usd_per_gpu_hour = 1.10
from = 2026-01-01
until = 2027-01-01
source = "contract 4711"
as_of = 2026-11-01
"""
OWNED = """
[[owned]]
sku = "A100-80GB"
gpus_per_node = 8
usd_capital_per_node = 160_000
usd_resale_per_node = 16_000
depreciation_years = 5
in_service = 2024-03-01
watts_per_node = 4_800
usd_per_kwh = 0.11
pue = 1.30
usd_space_per_node_month = 190
usd_staff_per_gpu_month = 30
from = 2026-01-01
source = "books of 2026"
as_of = 2026-11-01
"""
SPOT = """
[[spot]]
sku = "H100-80GB"
file = "spot.csv"
from = 2026-11-01
until = 2026-11-02
source = "price history"
as_of = 2026-11-01
"""
ANY = """
[[price]]
sku = "H100-80GB"
purchase_option = "any"
usd_per_gpu_hour = 9.00
from = 2026-01-01
source = "contract 1"
as_of = 2026-11-01
"""
SERIES = "time,usd_per_gpu_hour\n2026-11-01T00:00:00Z,1.25\n2026-11-01T03:00:00+01:00,1.5\n"


def at(text: str) -> int:
    """Return a moment in microseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def book(tmp_path: Path, text: str, series: str | None = None) -> PriceBook:
    """Read a price file of this text, with a spot series beside it."""
    (tmp_path / "prices.toml").write_text(text)
    if series is not None:
        (tmp_path / "spot.csv").write_text(series)
    return PriceBook.read(tmp_path / "prices.toml")


def micros(prices: PriceBook, sku: str, option: str | None, moment: str, group: str | None = None) -> int | None:
    """Return the price of a GPU-hour."""
    price = prices.price(sku, option, at(moment), group)
    return None if price is None else price.micros_per_gpu_hour


def test_what_was_paid_in_advance_is_spread_over_the_term(tmp_path: Path) -> None:
    """105,120 dollars for 8 GPUs over 8,760 hours are 1.50 an hour, beside 1.10; after the term nobody knows."""
    prices = book(tmp_path, RESERVED)
    assert micros(prices, "H100-80GB", "reserved", "2026-01-01") == 2_600_000
    assert micros(prices, "H100-80GB", "reserved", "2026-12-31T23:00") == 2_600_000
    assert micros(prices, "H100-80GB", "reserved", "2027-01-01") is None
    assert micros(prices, "H100-80GB", "on_demand", "2026-01-01") is None


@settings(max_examples=100)
@given(total=st.integers(0, 10**12), gpus=st.integers(1, 72), hours=st.integers(1, 2000), start=st.integers(0, 500_000))
def test_the_hours_of_a_term_sum_to_what_was_paid(total: int, gpus: int, hours: int, start: int) -> None:
    """Each hour is a whole number of millionths; what does not divide is not lost, and no hour is one off."""
    part = spread_over_hours("upfront", Fraction(total, gpus), start * HOUR, (start + hours) * HOUR, "")
    amounts = [part.micros_at((start + hour) * HOUR + 7) for hour in range(hours)]
    assert sum(amounts) == total // gpus
    assert max(amounts) - min(amounts) <= 1
    assert part.micros_at((start + hours) * HOUR) == 0
    assert part.micros_at(start * HOUR - 1) == 0


def test_an_owned_gpu_costs_its_parts(tmp_path: Path) -> None:
    """Whoever argues with the price argues with a part: each is told with its figures, and they sum to the price."""
    prices = book(tmp_path, OWNED)
    parts = prices.parts("A100-80GB", "owned", at("2026-11-09"))
    hours = (at("2029-03-01") - at("2024-03-01")) // HOUR
    exact = {
        "depreciation": Fraction(144_000_000_000, 8 * hours),
        "power": Fraction(4800, 8 * 1000) * Fraction(13, 10) * 110_000,  # PUE once
        "space": Fraction(190_000_000, 8 * 730),
        "staff": Fraction(30_000_000, 730),
    }
    assert {part.name: part.micros for part, _ in parts} == exact
    assert sum(amount for _, amount in parts) == micros(prices, "A100-80GB", "owned", "2026-11-09")
    assert parts[1][0].how == "4,800 W per node of 8 x PUE 1.30 x 0.11 per kWh"


def test_what_is_written_off_costs_what_runs_on(tmp_path: Path) -> None:
    """After its years the capital is paid; power, space and staff are not."""
    prices = book(tmp_path, OWNED)
    before = {part.name: amount for part, amount in prices.parts("A100-80GB", "owned", at("2029-02-28T23:00"))}
    after = {part.name: amount for part, amount in prices.parts("A100-80GB", "owned", at("2029-03-01"))}
    assert before["depreciation"] > 0
    assert after["depreciation"] == 0
    assert micros(prices, "A100-80GB", "owned", "2029-03-01") == sum(after.values())
    kinds = [
        (one.kind, "written off since 2029-03-01" in one.sentence) for one in complaints(prices, [], date(2029, 3, 2))
    ]
    assert ("over", True) in kinds


def test_a_new_tariff_goes_on_with_the_old_depreciation(tmp_path: Path) -> None:
    """`in_service` holds for both rows, so that the capital is written off once, whatever else changes."""
    first = OWNED.replace("source", "until = 2026-07-01\nsource")
    second = OWNED.replace("from = 2026-01-01", "from = 2026-07-01").replace("0.11", "0.20")
    prices = book(tmp_path, first + second)

    def depreciation(prices: PriceBook, moment: int) -> int:
        return prices.parts("A100-80GB", "owned", moment)[0][1]

    whole = book(tmp_path, OWNED)
    days = range(at("2026-06-29"), at("2026-07-03"), HOUR)
    assert [depreciation(prices, hour) for hour in days] == [depreciation(whole, hour) for hour in days]


def test_a_gap_of_a_series_is_unknown(tmp_path: Path) -> None:
    """A spot price is not carried on, and the general price does not take its place; what is not spot has its own."""
    prices = book(tmp_path, SPOT + ANY, SERIES)
    asked = ("2026-11-01T00:59:59", "2026-11-01T01:00", "2026-11-01T02:30", "2026-11-01T03:00")
    assert [micros(prices, "H100-80GB", "spot", moment) for moment in asked] == [1_250_000, None, 1_500_000, None]
    assert micros(prices, "H100-80GB", "reserved", "2026-11-01T01:00") == 9_000_000
    assert micros(prices, "H100-80GB", "spot", "2026-11-02") == 9_000_000  # the series has ended


def test_the_check_counts_the_hours_that_have_no_price(tmp_path: Path) -> None:
    """A gap costs a report its money column, so that it is found before."""
    found = complaints(book(tmp_path, SPOT, SERIES), [], date(2026, 11, 9))
    assert [one.kind for one in found if one.kind != "suspicious"] == ["gaps"]
    assert "22 of 24 hours have no price, the first 2026-11-01T01:00Z" in found[0].sentence
    whole = "".join(f"2026-11-01T{hour:02}:00:00Z,5\n" for hour in range(24))
    assert complaints(book(tmp_path, SPOT, "time,usd_per_gpu_hour\n" + whole), [], date(2026, 11, 9)) == []


def test_the_check_names_parts_that_nobody_told(tmp_path: Path) -> None:
    """A price without power is a price of something else; 0 says that another part has it."""
    bare = "".join(
        line + "\n" for line in OWNED.splitlines() if not line.startswith(("watts", "usd_per_kwh", "pue", "usd_sp"))
    )
    found = complaints(book(tmp_path, bare), [], date(2026, 11, 9))
    assert [(one.kind, "power and space not in the price" in one.sentence) for one in found] == [("missing", True)]
    said = bare.replace(
        "depreciation_years",
        "watts_per_gpu = 0\nusd_per_kwh = 0\npue = 1\nusd_space_per_gpu_month = 0\ndepreciation_years",
    )
    assert complaints(book(tmp_path, said), [], date(2026, 11, 9)) == []


def test_the_check_says_that_a_term_is_over(tmp_path: Path) -> None:
    """Until somebody says what such GPUs cost now."""
    assert complaints(book(tmp_path, RESERVED), [], date(2026, 12, 1)) == []
    assert [one.kind for one in complaints(book(tmp_path, RESERVED), [], date(2026, 12, 2))] == ["ending"]
    found = complaints(book(tmp_path, RESERVED), [], date(2027, 1, 1))
    assert [(one.kind, "its term ended 2027-01-01" in one.sentence) for one in found] == [("over", True)]
    after = ANY.replace('"any"', '"reserved"').replace("2026-01-01", "2027-01-01").replace("9.00", "3.00")
    assert complaints(book(tmp_path, RESERVED + after), [], date(2027, 1, 1)) == []


def test_a_node_group_has_a_price_of_its_own(tmp_path: Path) -> None:
    """A rack on another contract, whatever the price is made of."""
    rack = RESERVED.replace("source", 'node_group = "rack-9"\nsource').replace("1.10", "0.10")
    prices = book(tmp_path, RESERVED + rack + ANY)
    groups = ("rack-9", "rack-1", None)
    assert [micros(prices, "H100-80GB", "reserved", "2026-11-09", group) for group in groups] == [
        1_600_000,
        2_600_000,
        2_600_000,
    ]


def test_the_version_follows_the_series_and_leaves_old_files_alone(tmp_path: Path) -> None:
    """Another price re-opens the ledger; a new release over the same file must not."""
    version = book(tmp_path, SPOT, SERIES).version
    assert book(tmp_path, SPOT, SERIES.replace("1.25", "1.26")).version != version
    assert book(tmp_path, ANY).version == "fc34f8e59341"
    assert book(tmp_path, ANY.replace("source", 'region = "us-east-1"\nsource')).version != "fc34f8e59341"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RESERVED.replace("until = 2027-01-01\n", ""), "'until' is missing"),
        (RESERVED.replace("gpus_per_node = 8\n", ""), "needs 'gpus_per_node'"),
        (RESERVED.replace("gpus_per_node = 8", "gpus_per_node = 0"), "must be 1 to 1,024"),
        (RESERVED.replace("105_120", "-1"), "must be 0 or more"),
        (RESERVED.replace("105_120", "nan"), "must be 0 or more"),
        (RESERVED.replace("105_120", "inf"), "must be 0 or more"),
        (RESERVED.replace("105_120", "1e300"), "more than a trillion"),
        (RESERVED.replace("105_120", "1e-300"), "at most six decimals"),
        (RESERVED.replace("105_120", "1e999999999999"), "more than a trillion"),
        (RESERVED.replace("105_120", "2.6000000000000000000000000000000001"), "at most six decimals"),
        (RESERVED.replace("105_120", "9" * 5000), "is not valid TOML"),
        (
            RESERVED.replace("usd_upfront_per_node", "usd_upfront_per_gpu").replace("1.10", "1_000_000.5"),
            "more than 1,000,000.00",
        ),
        (RESERVED.replace("usd_upfront", "eur_upfront"), "unknown key 'eur_upfront_per_node'"),
        (RESERVED + RESERVED.replace("4711", "4712"), "two prices of H100-80GB (reserved) at the same time"),
        (RESERVED + ANY.replace('"any"', '"reserved"'), "two prices of H100-80GB (reserved) at the same time"),
        (RESERVED.replace("from = 2026-01-01", "from = 0001-01-01T00:00:00+05:00"), "between the years 1 and 9999"),
        (OWNED.replace("pue = 1.30\n", ""), "watts need 'pue'"),
        (OWNED.replace("pue = 1.30", "pue = 130"), "'pue' must be 1 to 3"),
        (OWNED.replace("pue = 1.30", "pue = 0.9"), "'pue' must be 1 to 3"),
        (OWNED.replace("watts_per_node = 4_800\n", ""), "'usd_per_kwh' needs 'watts_per_gpu'"),
        (OWNED.replace("depreciation_years = 5", "depreciation_years = 0"), "must be 1 to 30"),
        (OWNED.replace("in_service = 2024-03-01", "in_service = 2026-03-01"), "must not be later than 'from'"),
        (OWNED.replace("16_000\n", "161_000\n"), "the resale value is more than the capital"),
        (OWNED.replace("usd_staff", "usd_staf"), "did you mean 'usd_staff_per_gpu_month'"),
        (OWNED + "usd_staff_per_node_month = 1\n", "give one of"),
        (SPOT.replace("spot.csv", "../spot.csv"), "must name a CSV beside the price file"),
        (SPOT.replace("spot.csv", "prices.toml"), "must name a CSV beside the price file"),
        (SPOT.replace("spot.csv", "none.csv"), "cannot read"),
    ],
)
def test_a_wrong_figure_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """A price read wrongly is worse than none: it would be believed."""
    with pytest.raises(ConfigError) as refusal:
        book(tmp_path, text, SERIES)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ("", "the first line must be time,usd_per_gpu_hour"),
        (SERIES.replace("usd", "eur"), "the first line must be time,usd_per_gpu_hour"),
        (SERIES.replace("1.25", "-1.25"), "line 2: a price is 0 or more"),
        (SERIES.replace("1.25", "NaN"), "line 2: a price is 0 or more"),
        (SERIES.replace("1.25", "1e300"), "line 2: a price is 0 or more"),
        (SERIES.replace("1.25", "1e-99999999"), "line 2: a price is 0 or more"),
        (SERIES.replace("1.25", "=1+1"), "line 2: a price is 0 or more"),
        (SERIES.replace("1.25", "1.2500001"), "at most six decimals"),
        (SERIES.replace("1.25", "1.25,1"), "a line is a time and a price"),
        (SERIES.replace("00:00:00Z", "00:30:00Z"), "whole hour in UTC"),
        (SERIES.replace("00:00:00Z", "00:00:00"), "with its offset"),
        (SERIES.replace("2026-11-01T00:00:00Z", "0001-01-01T00:00:00+14:00"), "with its offset"),
        (SERIES + "2026-11-01T02:00:00Z,7\n", "is there twice"),
        (SERIES + "2026-11-02T00:00:00Z,7\n", "hours outside 'from' and 'until'"),
        (SERIES + '"a\x00b",7\n', "spot.csv"),
    ],
)
def test_a_wrong_series_is_refused_with_its_line(tmp_path: Path, series: str, message: str) -> None:
    """It is long and written by a machine: the line is what is looked for."""
    with pytest.raises(ConfigError) as refusal:
        book(tmp_path, SPOT, series)
    assert message in str(refusal.value)


def test_a_part_outside_its_period_adds_nothing() -> None:
    """A part without an end runs on."""
    part = PricePart("power", Fraction(5, 2), 10 * HOUR, None, "")
    assert [part.micros_at(hour * HOUR) for hour in (9, 10, 11, 1000)] == [0, 2, 3, 2]


def test_a_server_finds_the_series_beside_its_file(tmp_path: Path) -> None:
    """What an admin puts is read with the series that lies there; one that does not is refused."""
    read = book(tmp_path, ANY + SPOT, SERIES)
    kept = PriceFile(tmp_path / "prices.toml", "USD")
    told = kept.told()
    assert told.version == read.version
    seen: list[str] = []
    with pytest.raises(ConfigError, match=r"cannot read .*other\.csv"):
        kept.put(SPOT.replace("spot.csv", "other.csv").encode(), told.tag, lambda _, then: seen.append(then.version))
    assert (seen, kept.told()) == ([], told)
    with pytest.raises(ConfigError, match="the price file itself is not a file here"):
        PriceBook.parse("prices.toml", SPOT.encode())


def test_the_ledger_books_by_what_prices_are_made_of(tmp_path: Path) -> None:
    """Hour by hour: each costs the millionths that fall into it, and a gap of the series costs unknown, not 0."""
    monday = datetime.fromtimestamp(MONDAY // 1_000_000, UTC)
    owned = OWNED.replace("160_000", "160_001").replace("2026-01-01", "2025-01-01")
    series = f"time,usd_per_gpu_hour\n{monday:%Y-%m-%dT%H}:00:00Z,1.25\n"
    spot = SPOT.replace("from = 2026-11-01", "from = 2025-01-01")
    prices = book(tmp_path, owned + spot, series)
    fleet = Fleet()
    fleet.own("n1", ["g1"], sku="A100-80GB", purchase_option="owned")
    fleet.own("n1", ["g2"], sku="H100-80GB", purchase_option="spot")
    for gpu in ("g1", "g2"):
        fleet.sample("n1", gpu, MONDAY, MONDAY + 3 * HOUR)
    fleet.analyze(MONDAY + DAY, Settings(prices=tmp_path / "prices.toml"))
    with fleet.store.session() as session:
        costs = session.rows("SELECT gpu_uuid, hour, sum(cost_micros)::BIGINT FROM ledger GROUP BY ALL ORDER BY ALL")
    hours = [MONDAY + hour * HOUR for hour in range(3)]
    due = [
        ("g1", hour, price.micros_per_gpu_hour) for hour in hours if (price := prices.price("A100-80GB", "owned", hour))
    ]
    assert costs == [*due, ("g2", hours[0], 1_250_000), ("g2", hours[1], None), ("g2", hours[2], None)]
    assert len(due) == 3
