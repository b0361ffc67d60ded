"""The sizing guide says what the measurements say: its tables are computed from them, and so are held to them."""

from dataclasses import replace

import pytest

from bench.sizing import (
    BEATEN,
    DOCUMENT,
    GPUS,
    SLOW,
    Measured,
    bytes_per_gpu_day,
    collectors_needed,
    files_per_hour,
    rows_per_second,
    written,
)

MEASURED = Measured(
    gpu_samples_per_second=60_000,
    posts_per_second=1_000.0,
    cores=2,
    rss_bytes=10**9,
    bytes_per_row={"gpu_samples": 20.0, "gpu_minutes": 100.0, "gpu_hours": 600.0, "receipts": 40.0},
    rows_per_gpu_hour={"gpu_samples": 3600.0, "gpu_minutes": 60.0, "gpu_hours": 1.0, "receipts": 7.5},
    body_bytes_of_a_minute=60_000.0,
    analyzer_samples_per_second=773_000.0,
    ledger_rows_per_gpu_day=67.0,
    agents_held=None,
)


def test_the_document_is_what_the_measurements_give() -> None:
    """Who measures anew types `make docs`; a figure typed by hand would be believed for years."""
    text = DOCUMENT.read_text("utf-8")
    assert text == written(text, Measured.read()), "python -m bench.sizing writes docs/sizing.md anew"


def test_the_arithmetic_by_hand() -> None:
    """100,000 GPUs at a reading every 10 s, worked out here in another way."""
    assert rows_per_second("gpu_samples", 10) == GPUS / 10
    assert rows_per_second("gpu_samples", 1) == GPUS
    assert rows_per_second("process_samples", 1) == rows_per_second("process_samples", 10) == GPUS / 10
    assert (collectors_needed(MEASURED, 10, 60), collectors_needed(MEASURED, 1, 60)) == (1, 4)
    assert collectors_needed(MEASURED, 10, 10) == 3  # 1,250 posts a second, at half of 1,000
    assert files_per_hour(MEASURED, 1, 60) == 5 * (len(BEATEN) + len(SLOW) + 1) * 60
    assert bytes_per_gpu_day(MEASURED, "raw", 10) == 8640 * 20
    assert bytes_per_gpu_day(MEASURED, "minutes", 1) == 1440 * 100
    assert bytes_per_gpu_day(MEASURED, "hours", 10) == 24 * 600


def test_another_measurement_is_another_document() -> None:
    """The text follows the figures, or it could not be held to them."""
    text = DOCUMENT.read_text("utf-8")
    measured = Measured.read()
    assert written(text, replace(measured, gpu_samples_per_second=1)) != written(text, measured)


def test_a_document_that_has_lost_a_section_is_said() -> None:
    """It would keep the old figures in silence."""
    with pytest.raises(ValueError, match="no section"):
        written("nothing", MEASURED)
