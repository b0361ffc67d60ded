"""Demand is what was asked for: queues count from the request on, and a fleet that is full does not hide them."""

from analyzer.finops.demand import Outlook, demand_text, outlook
from analyzer.prices.price_book import PriceBook, PriceRow
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, WEEK, Written

NOW = MONDAY + 6 * WEEK
OPTIONS = {"reserved": 2_000_000, "on_demand": 4_000_000}


def book(options: dict[str, int] = OPTIONS) -> PriceBook:
    """Return prices of the one kind of GPU."""
    rows = [PriceRow("H100", option, None, micros, 0, None, "test", None) for option, micros in options.items()]
    return PriceBook.of(rows)


def read(written: Written, prices: PriceBook | None = None, reserved: int = 16) -> Outlook:
    """Read six weeks."""
    written.know(MONDAY, NOW)
    with written.store.session() as session:
        return outlook(session, NOW, "UTC", "USD", prices or book(), {("H100", "reserved"): reserved})


def daily(gpus: int = 8, queued_hours: int = 0, hours: int = 12) -> Written:
    """Return a run a day that trains for some hours, after waiting for some."""
    written = Written()
    for day in range(42):
        asked = MONDAY + day * 24 * HOUR
        start = asked + queued_hours * HOUR
        times = {"submitted_at": asked, "started_at": start, "ended_at": start + hours * HOUR}
        written.run(f"slurm/a/{day}", "train", "nlp", stage="training", sku="H100", **times | {"gpus": gpus})
    return written


def test_a_queue_is_demand_of_the_hour_in_which_it_was_asked_for() -> None:
    """Twelve hours in the queue move nothing: what was used would show the evening's demand at night."""
    for queued in (0, 10):
        report = read(daily(queued_hours=queued))
        assert report.whole.milliseconds == 28 * 8 * 12 * 3_600_000
        assert report.whole.ahead is not None
        assert report.whole.ahead.total == 28 * 8 * 12 * 3_600_000


def test_what_waits_is_wanted_until_now() -> None:
    """A run that nobody could place yet is the demand that the fleet cannot meet."""
    written = daily()
    row = {"run_id": "slurm/a/waits", "name": "big", "scheduler": "slurm", "requested_gpus": 64, "batch": 1}
    row["submitted_at"] = NOW - 30 * HOUR
    with written.store.session() as session:
        session.load("allocations", list(row), [list(row.values())])
    report = read(written)
    assert [(each.sku, each.runs, each.gpus) for each in report.waiting] == [("H100", 1, 64)]
    assert report.whole.milliseconds == (28 * 8 * 12 + 30 * 64) * 3_600_000
    assert "1 run waits for 64 H100 now." in " ".join(demand_text(report, TextLayout(80)).split())


def test_fewer_are_advised_where_half_the_day_is_empty() -> None:
    """Eight GPUs for twelve hours a day, sixteen reserved: eight would do, at half the on-demand price."""
    report = read(daily(hours=13))
    (mix,) = report.mixes
    assert mix.best is not None
    assert mix.best.held_gpus == 8
    text = " ".join(demand_text(report, TextLayout(80)).split())
    assert "8 fewer reserved would save $2,688 per week." in text
    assert "Spot is for" not in text, "none is bought"


def test_a_missing_price_is_named() -> None:
    """What cannot be told says what it lacks, and where to write it."""
    report = read(daily(), book({"reserved": 2_000_000}))
    assert report.mixes[0].best is None
    assert "no on-demand price of H100" in " ".join(demand_text(report, TextLayout(80)).split())


def test_an_empty_ledger_has_no_demand() -> None:
    """The first day of a site."""
    written = Written()
    with written.store.session() as session:
        report = outlook(session, NOW, "UTC", "USD", book(), {})
    assert "less than one full day is known" in demand_text(report, TextLayout(80))
