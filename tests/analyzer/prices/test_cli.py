"""`gpuledger bill prices` and `gpuledger bill teams`, as a person or a cron job meets them."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from analyzer.interfaces.cli.prices import prices, teams
from analyzer.prices.check import Owned, complaints
from analyzer.prices.price_book import PriceBook
from analyzer.text.words import dollars
from collector.store.database import Store

NOW_US = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp()) * 1_000_000
PRICES = """
[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2026-01-01
source = "contract 4711"
as_of = {as_of}
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two hosts and three runs."""
    path = tmp_path / "store.duckdb"
    with Store.open(path) as opened, opened.session() as session:
        for gpu, sku, option in (("g0", "H100-80GB", "reserved"), ("g1", "V100-16GB", None), ("g2", None, "owned")):
            session.execute(
                "INSERT INTO ownership (node, gpu_uuid, owned_from, sku, purchase_option, batch)"
                " VALUES ('n1', ?, ?, ?, ?, 1)",
                [gpu, NOW_US - 10**12, sku, option],
            )
        for number, account in enumerate(("nlp", "vision", "vision")):
            session.execute(
                'INSERT INTO allocations (node, started_at, run_id, account, "user", batch) VALUES (?, ?, ?, ?, ?, 1)',
                ["n1", NOW_US, f"slurm/alpha/{number}", account, None],
            )
    return path


def settings(directory: Path) -> None:
    """Write a price file, rules, and the settings that name both beside the store."""
    (directory / "gpuledger.toml").write_text('[analyzer]\nprices = "prices.toml"\nteams = "teams.toml"\n')
    (directory / "prices.toml").write_text(PRICES.format(as_of=datetime.now(UTC).date()))
    (directory / "teams.toml").write_text('[[rule]]\nteam = "team-nlp"\naccount = "nlp"\nfrom = 2020-01-01\n')


def test_the_book_is_listed_with_source_and_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A price without its source cannot be argued with."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES.format(as_of="2026-11-01"))
    assert prices(["--prices", str(path), "--sku", "h100"]) == 0
    shown = capsys.readouterr().out
    assert "2.60  2026-01-01 until further notice\n      contract 4711, checked 2026-11-01\n" in shown
    assert "H100-80GB          2.89 to 14.779604   (18 rows)" in shown
    assert "A100" not in shown


def test_the_json_has_exact_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Machines get millionths, never a rounded display."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES.format(as_of="2026-11-01"))
    assert prices(["--prices", str(path), "--json", "--sku", "H100-80GB"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["prices"][0]["micros_per_gpu_hour"] == 2_600_000
    assert answer["list_prices_on_demand"]["H100-80GB"] == {
        "low_micros": 2_890_000,
        "high_micros": 14_779_604,
        "rows": 18,
    }


def test_all_shows_what_is_wrong_with_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An estimate may be looked at, as long as it says that it is one."""
    assert prices(["--all", "--sku", "H100-80GB", "--prices", str(_empty(tmp_path))]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("is an estimate, not a quote") == 6


def _empty(directory: Path) -> Path:
    path = directory / "prices.toml"
    path.write_text("")
    return path


def test_the_check_names_gpus_without_a_price(tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing price empties the money column, so that it must be found before the report is."""
    settings(tmp_path)
    assert prices(["check", "--store", str(store)]) == 1
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    shown = " ".join(told.split())
    assert "missing 1 x V100-16GB (purchase option unknown): no price is known" in shown
    assert "missing 1 x GPU of unknown SKU (owned)" in shown
    assert "list prices on demand: $3.06 to $3.06" in shown
    assert "H100" not in shown


def test_a_sound_book_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 is what a cron job waits for; what was not checked is said."""
    settings(tmp_path)
    assert prices(["check", "--prices", str(tmp_path / "prices.toml")]) == 0
    said = capsys.readouterr()
    assert said.out == "1 price: none stale, missing or suspicious\n"
    assert "not checked" in said.err


@pytest.mark.parametrize(
    ("as_of", "micros", "kinds"),
    [
        ("2026-11-01", "2.60", []),
        ("2026-08-18", "2.60", []),  # 90 days
        ("2026-08-17", "2.60", ["stale"]),
        ("2026-11-01", "1.99", ["suspicious"]),  # the median list price is $10.00
        ("2026-11-01", "2.00", []),
        ("2026-11-01", "50.00", []),
        ("2026-11-01", "50.01", ["suspicious"]),
    ],
)
def test_stale_and_suspicious_have_edges(tmp_path: Path, as_of: str, micros: str, kinds: list[str]) -> None:
    """90 days, and a fifth to five times the median list price: both ends are still sound."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES.format(as_of=as_of).replace("2.60", micros))
    found = complaints(PriceBook.read(path), [], date(2026, 11, 16))
    assert [complaint.kind for complaint in found] == kinds


def test_a_price_that_has_ended_is_not_stale(tmp_path: Path) -> None:
    """Nobody needs to look again at what is over."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES.format(as_of="2026-01-01").replace("source", "until = 2026-11-01\nsource"))
    book = PriceBook.read(path)
    assert complaints(book, [], date(2026, 11, 16)) == []
    owned = Owned("H100-80GB", "reserved", None, 8, NOW_US)
    assert [complaint.kind for complaint in complaints(book, [owned], date(2026, 11, 16))] == ["missing"]


def test_unmapped_runs_are_grouped_and_fail_the_check(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One new rule takes a whole line, so that the lines are what the runs say of themselves."""
    settings(tmp_path)
    assert teams(["check", "--store", str(store)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("1 runs map to a team, 2 to none")
    assert "2 runs  account vision   for example slurm/alpha/1" in shown


def test_money_hides_no_millionth() -> None:
    """Two decimals where they are the whole truth, more where they are not."""
    assert [dollars(micros) for micros in (2_600_000, 2_744_705, 0, 1_234_567_890_000)] == [
        "2.60",
        "2.744705",
        "0.00",
        "1,234,567.89",
    ]


DERIVED = """
[[owned]]
sku = "A100-80GB"
gpus_per_node = 8
usd_capital_per_node = 175_296
depreciation_years = 5
in_service = 2024-03-01
watts_per_node = 4_800
usd_per_kwh = 0.11
pue = 1.30
from = 2026-01-01
source = "books of 2026"
as_of = 2026-11-01

[[spot]]
sku = "H100-80GB"
file = "spot.csv"
from = 2026-01-01
source = "price history"
as_of = 2026-11-01
provider = "aws"
region = "us-east-1"

[[charge]]
team = "team-nlp"
usd_per_gpu_hour = 2.90
from = 2026-01-01
source = "internal price list"
as_of = 2026-01-01

[[energy]]
pue = 1.30
carbon = "DEU"
from = 2026-01-01
source = "hall 2"
as_of = 2026-11-01
"""


def test_a_derived_price_is_listed_with_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How it came about is what people argue with; the parts sum to the price above them."""
    path = tmp_path / "prices.toml"
    path.write_text(DERIVED)
    (tmp_path / "spot.csv").write_text("time,usd_per_gpu_hour\n2026-01-01T05:00:00Z,1.25\n2026-01-02T05:00:00Z,2.5\n")
    assert prices(["--prices", str(path), "--sku", "A100"]) == 0
    shown = capsys.readouterr().out
    assert "A100-80GB          owned" in shown
    assert "depreciation                     0.50  175,296.00 per node of 8 over 5\n" in shown
    assert f"\n{'':45}years\n" in shown
    assert "power                          0.0858  4,800 W per node of 8 x PUE 1.30 x" in shown
    assert "any GPU (any) for team-nlp           2.90  2026-01-01 until further notice\n      internal" in shown
    assert "energy                                     2026-01-01 until further notice\n      hall 2" in shown
    assert prices(["--prices", str(path), "--sku", "H100"]) == 0
    shown = capsys.readouterr().out
    assert "2 hours from 2026-01-01T05:00Z to 2026-01-02T05:00Z, 1.25 to 2.50" in shown
    assert "      in aws us-east-1; price history" in shown
    assert prices(["--prices", str(path), "--all"]) == 0
    ours = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) not in line]
    assert max(map(len, ours)) <= 80


def test_the_json_has_the_parts_as_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parts sum to the price in millionths, in the very hour that is told."""
    path = tmp_path / "prices.toml"
    path.write_text(DERIVED)
    (tmp_path / "spot.csv").write_text("time,usd_per_gpu_hour\n")
    assert prices(["--prices", str(path), "--json"]) == 0
    owned, spot = json.loads(capsys.readouterr().out)["derived_prices"]
    assert sum(part["micros"] for part in owned["parts"]) == owned["micros_per_gpu_hour"]
    assert spot["micros_per_gpu_hour"] is None


def test_the_store_of_the_settings_is_checked(tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has settings that name the store was told to name it again; all other commands take it from there."""
    settings(tmp_path)
    file = tmp_path / "gpuledger.toml"
    file.write_text(f'[collector]\nstore = "{store}"\n{file.read_text()}')
    assert prices(["check", "--config", str(file)]) == 1
    assert "not checked" not in capsys.readouterr().err
    assert teams(["check", "--config", str(file)]) == 1
    assert "to none" in capsys.readouterr().out
