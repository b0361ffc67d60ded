"""What an agent leaves to the next one of the driver's counters."""

from tests.agent.gpu.conftest import Host


def boot(host: Host, name: str) -> None:
    """Let the host have booted; its kernel makes a new id each time."""
    place = host.proc / "sys/kernel/random/boot_id"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{name}\n")


def epoch(host: Host, seconds: float = 10) -> int:
    """Read, and return the energy epoch of the first GPU."""
    return int(host.rows(seconds)[0]["energy_epoch"])


def test_an_energy_epoch_outlives_a_restart_of_the_agent(host: Host) -> None:
    """Totals before and after can be subtracted: no joule is lost with an update."""
    boot(host, "first")
    before = epoch(host)
    host.close()
    host.scenario.every(field_83=1_000_500_000)
    assert epoch(host, seconds=5000) == before


def test_a_counter_that_fell_while_no_agent_ran_begins_a_new_epoch(host: Host) -> None:
    """The driver was loaded anew meanwhile."""
    boot(host, "first")
    before = epoch(host)
    host.close()
    host.scenario.every(field_83=5_000)
    assert epoch(host, seconds=5000) > before


def test_a_boot_begins_a_new_epoch_even_where_the_counter_is_higher(host: Host) -> None:
    """Long after a boot the new counter has passed the old one, and a difference would be energy never spent."""
    boot(host, "first")
    before = epoch(host)
    host.close()
    boot(host, "second")
    host.scenario.every(field_83=2_000_000_000)
    assert epoch(host, seconds=5000) > before


def test_without_a_boot_id_nothing_is_joined(host: Host) -> None:
    """Who cannot know whether the host booted must not guess."""
    before = epoch(host)
    host.close()
    assert epoch(host, seconds=5000) > before
