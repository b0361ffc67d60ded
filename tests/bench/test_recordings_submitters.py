"""Published utilization through sensors and the ledger, on a tenth of the runs; `make bench-real` takes them all."""

import pytest

from bench.truth.real.files import submissions
from bench.truth.real.submitters import ALIKE, RIGHT, Epoch, agreement, judge, tables


@pytest.fixture(scope="module")
def epochs() -> list[Epoch]:
    """Every ninth run, in one store."""
    return judge(submissions()[::9], "fraction")


def test_more_waiting_published_is_more_waiting_booked(epochs: list[Epoch]) -> None:
    """Epochs begin anywhere in a window, and other runs are beside: the order must come through."""
    found = agreement(epochs)
    assert found.spearman is not None
    assert found.spearman >= ALIKE
    assert found.right_at_5_percent >= RIGHT
    assert found.right_at_20_percent >= RIGHT


def test_what_is_well_over_the_band_is_booked_to_the_point(epochs: list[Epoch]) -> None:
    """Where every epoch of a run waits 8% and more, no window is under the band: nothing may be lost or added."""
    runs = {each.run for each in epochs} - {each.run for each in epochs if each.published < 0.08}
    well_over = [each for each in epochs if each.run in runs]
    assert len(well_over) >= 20
    assert [each.booked for each in well_over] == [pytest.approx(each.published, abs=0.01) for each in well_over]


def test_what_is_well_under_the_band_is_not_booked(epochs: list[Epoch]) -> None:
    """Under 5% of the step a run is not bound by its input."""
    runs = {each.run for each in epochs} - {each.run for each in epochs if each.published > 0.04}
    well_under = [each for each in epochs if each.run in runs]
    assert len(well_under) >= 5
    assert {each.booked for each in well_under} == {0.0}


def test_the_published_line_parts_nothing_that_is_the_same() -> None:
    """Epochs of one figure on either side of the line would be a defect of the score."""
    made = [
        Epoch("a", "unet3d", 1, 0.11, 0.11),
        Epoch("b", "unet3d", 1, 0.09, 0.09),
        Epoch("c", "cosmoflow", 1, 0.29, 0.29),
    ]
    assert [each.is_below for each in made] == [True, False, False]
    assert agreement(made).parting == 0.5


def test_a_bar_of_one_point_is_out_of_reach_below_the_band() -> None:
    """What waits 4.9% is rightly no loss, and off by as much; beyond the band nothing excuses an epoch."""
    made = [Epoch("a", "unet3d", 1, 0.049, 0.0), Epoch("a", "unet3d", 2, 0.06, 0.02), Epoch("a", "unet3d", 3, 0.2, 0.2)]
    found = agreement(made)
    assert found.most_off == found.most_off_by_epoch == pytest.approx(0.049)
    assert (found.over_a_point, found.over_a_point_and_band) == (2, 1)


def test_what_was_turned_round_is_told_with_how_far_it_was_apart() -> None:
    """Only pairs on either side of a workload's own line count, and a tie is lost as well."""
    made = [
        Epoch("a", "unet3d", 1, 0.11, 0.1),
        Epoch("b", "unet3d", 1, 0.09, 0.1),
        Epoch("c", "cosmoflow", 1, 0.31, 0.05),
    ]
    assert agreement(made).most_apart == pytest.approx(0.02)
    assert agreement(made[:1]).most_apart == 0


def test_a_host_reads_its_part_of_what_the_run_read() -> None:
    """The one thing that is known of the hosts: bytes a second, over all of them."""
    run = next(each for each in submissions() if each.hosts > 1)
    (read,) = {row["read_bytes"] for row in tables(0, run, "fraction")["disk_samples"]}
    assert read == pytest.approx(run.bytes_per_second / run.hosts * 10, abs=1)
