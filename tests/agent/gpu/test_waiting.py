"""A driver that is loaded after the agent began, or hangs when it is opened."""

from tests.agent.gpu.conftest import Host
from tests.waiting import until

DRIVER_NOT_LOADED = 9
MISMATCH = 18


def test_a_driver_that_is_loaded_later_is_read_from_then_on(host: Host) -> None:
    """At boot the agent is often the faster of the two."""
    host.scenario.host(**{"fail.nvmlInitWithFlags": DRIVER_NOT_LOADED})
    assert host.read()["reading"] == {}
    host.scenario.host(**{"fail.nvmlInitWithFlags": 0})
    assert host.read(seconds=30)["reading"] == {}
    answer = host.read(seconds=30)
    assert [row["up"] for row in answer["reading"]["gpu_samples"]] == [True, True]
    assert answer["counts"] == [2, 2]


def test_the_driver_is_looked_for_once_a_minute(host: Host) -> None:
    """Most hosts have none, and asking at every beat would be for nothing."""
    host.scenario.host(**{"fail.nvmlInitWithFlags": DRIVER_NOT_LOADED})
    for _ in range(13):
        answer = host.read(seconds=10)
    assert host.calls("nvmlInitWithFlags") == 3
    assert answer["counts"] is None


def test_a_driver_that_does_not_fit_ends_the_agent_then_too(host: Host) -> None:
    """Only a new process can load the new library."""
    host.scenario.host(**{"fail.nvmlInitWithFlags": DRIVER_NOT_LOADED})
    host.read()
    host.scenario.host(**{"fail.nvmlInitWithFlags": MISMATCH})
    assert host.read(seconds=61)["error"] == "DriverChangedError"
    host.scenario.host(**{"fail.nvmlInitWithFlags": DRIVER_NOT_LOADED})


def test_a_driver_that_hangs_when_it_is_opened_is_read_once_it_answers(host: Host) -> None:
    """One ill GPU can keep the first call for ever; the host's other sources must not wait, nor `run`'s command."""
    host.opening_seconds = 0.2
    host.scenario.host_hang("nvmlInitWithFlags", 3600)
    host.start()
    assert not host.opened["open"]
    assert "hung" in host.opened["reason"]
    host.scenario.host_hang("nvmlInitWithFlags", 0)
    rows = until(lambda: host.read()["reading"].get("gpu_samples"), "the driver is read")
    assert [row["up"] for row in rows] == [True, True]
    assert host.calls("nvmlInitWithFlags") == 1
