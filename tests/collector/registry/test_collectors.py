"""Numbers of collectors: a name has one for good, and no two names have the same."""

import threading
from collections.abc import Callable

import pytest

from collector.errors import RegistryError
from collector.registry import Registry

NOW = 1_795_000_000_000_000


def test_a_name_keeps_its_number(opened: Callable[[], Registry]) -> None:
    """The number is part of every batch's number: a restart, elsewhere even, goes on with it."""
    first = opened()
    numbers = {name: first.collectors.claim_number(name, f"http://{name}") for name in ("a", "b", "c")}
    assert sorted(numbers.values()) == [0, 1, 2]
    again = opened()
    assert again.collectors.claim_number("b", "http://moved") == numbers["b"]
    assert {one.name: one.url for one in again.collectors.listed()}["b"] == "http://moved"


def test_names_that_come_together_get_numbers_of_their_own(opened: Callable[[], Registry]) -> None:
    """A fleet is started by one command."""
    registries = [opened() for _ in range(6)]
    start = threading.Barrier(6)
    numbers: list[int] = []

    def claim(registry: Registry, name: str) -> None:
        start.wait()
        numbers.append(registry.collectors.claim_number(name, "http://c"))

    threads = [threading.Thread(target=claim, args=(one, f"c{index}")) for index, one in enumerate(registries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(6))


def test_one_name_for_two_stores_is_refused_while_both_live(registry: Registry) -> None:
    """Their batches would have the same numbers. A store that was made anew takes the name of the dead one."""
    number = registry.collectors.claim_number("a", "http://one", identity="store 1", now=NOW)
    registry.collectors.heartbeat(number, NOW, 10)
    assert registry.collectors.claim_number("a", "http://one", identity="store 1", now=NOW) == number
    with pytest.raises(RegistryError, match="named 'a' is running at http://one with another store"):
        registry.collectors.claim_number("a", "http://two", identity="store 2", now=NOW)
    assert registry.collectors.claim_number("a", "http://two", identity="store 2", now=NOW + 11_000_000) == number


def test_numbers_end(registry: Registry) -> None:
    """They fill one byte; the sentence says what uses them up."""
    for number in range(256):
        assert registry.collectors.claim_number(f"c{number}", "http://c") == number
    with pytest.raises(RegistryError, match="StatefulSet"):
        registry.collectors.claim_number("one-more", "http://c")
