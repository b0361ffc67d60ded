"""What the driver's own rings show, and what they must not be taken for."""

from tests.agent.gpu.conftest import Host


def test_peaks_of_power_and_dips_of_the_clock_are_seen_between_two_beats(host: Host) -> None:
    """A power cap bites for a tenth of a second: at a beat of 10 s only the ring knows."""
    host.rows()
    host.scenario.every(samples_0="4000:300000,5000:690000,6000:500000", samples_5="4000:1980,5000:1200,6000:1980")
    row = host.rows()[0]
    assert (row["power_watts_min"], row["power_watts_max"]) == (300, 690)
    assert row["sm_clock_hertz_min"] == 1_200_000_000


def test_memory_utilization_is_the_mean_of_its_ring(host: Host) -> None:
    """Memory is read and written in bursts too."""
    host.rows()
    host.scenario.every(samples_2="4000:80,5000:40")
    assert host.rows()[0]["memory_utilization_ratio"] == 0.6


def test_without_new_samples_memory_utilization_is_a_snapshot(host: Host) -> None:
    """An idle GPU adds none, and silence would read as a dead agent."""
    host.rows()
    assert host.rows()[0]["memory_utilization_ratio"] == 0.35


def test_extremes_without_samples_are_unknown(host: Host) -> None:
    """One reading is neither the least nor the most of an interval."""
    host.rows()
    row = host.rows()[0]
    assert [row[name] for name in ("power_watts_min", "power_watts_max", "sm_clock_hertz_min")] == [None] * 3


def test_what_lies_before_the_rings_reach_is_not_claimed(host: Host) -> None:
    """At a beat of a minute the ring has forgotten most of it: of the rest there is a mean, and no share."""
    host.rows()
    host.scenario.every(
        samples_0="45000000:300000,45100000:690000",
        samples_1="45000000:100,45100000:50",
        samples_5="45000000:1200",
    )
    row = host.rows(seconds=60)[0]
    assert row["utilization_ratio"] == 0.75
    assert row["utilization_high_ratio"] is None
    assert row["power_watts_max"] is None
    assert row["sm_clock_hertz_min"] is None


def test_a_ring_that_is_not_supported_is_asked_once_and_stops_no_other(host: Host) -> None:
    """Consumer cards have some of them."""
    host.scenario.every(samples_0=None)
    host.rows()
    host.scenario.every(samples_1="4000:30")
    row = host.rows()[0]
    assert row["power_watts_max"] is None
    assert row["utilization_ratio"] == 0.3
    assert row["sm_clock_hertz_min"] is None


def test_in_short_intervals_extremes_are_not_asked_for(host: Host) -> None:
    """The driver takes six samples a second: at ten beats a second asking is nearly always for nothing."""
    host.rows()
    before = host.calls("nvmlDeviceGetSamples")
    host.rows(seconds=0.1)
    assert host.calls("nvmlDeviceGetSamples") - before == 4  # utilization and memory of two GPUs, with nothing new


def test_a_clock_that_was_set_back_silences_no_ring_for_long(host: Host) -> None:
    """The samples bear the host's time: nothing would be new until it has caught up."""
    host.scenario.every(samples_1="9000000:50")
    host.rows()
    host.scenario.every(samples_1="1000:100,2000:100")
    for _ in range(61):
        host.rows(seconds=1)
    host.scenario.every(samples_1="1000:100,2000:100,3000:20")
    assert host.rows(seconds=1)[0]["utilization_ratio"] == 0.2
