"""Several collectors, one lake, kills at random: what agents are told is safe is there, once."""

import random
import threading
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.database import Store
from tests.fleet.fleet import Fleet, half_batches
from tests.fleet.postgres import Postgres
from tests.fleet.s3 import S3Server

KILLS = 2
LOOK_SECONDS = 0.5


def test_two_collectors_seal_into_one_lake_and_one_that_is_killed_loses_nothing(
    tmp_path: Path, postgres: Postgres, s3: S3Server
) -> None:
    """The short form of the next: both at once in one catalogue and one object store, with one kill."""
    with Fleet(tmp_path, postgres, s3, collectors=2, agents=4, every_seconds=0.25) as fleet, _Reader(fleet) as reader:
        fleet.kill_and_restart(fleet.collectors[0], after=8)
        fleet.wait_for_all()
        fleet.settle()
        reader.stop()
        assert fleet.faults() == []
        assert len(fleet.sealers()) == 2, "one collector sealed everything; the test shows nothing"
        assert reader.troubles == []


@pytest.mark.soak
def test_what_agents_were_told_is_safe_is_there_once_whatever_becomes_of_collectors(
    tmp_path: Path, postgres: Postgres, s3: S3Server
) -> None:
    """Agents forget what is sealed, and nothing else: collectors may not lose or double it.

    Of three, one is killed again and again while it takes and seals, one is gone with its disk, and one is away for so
    long that others take its agents, and comes back with batches that these have sent to others meanwhile. A reader
    elsewhere never sees a part of a batch, nor a batch twice.
    """
    dice = random.Random(4)
    fleet = Fleet(tmp_path, postgres, s3, collectors=3, agents=9, every_seconds=0.25, settings={"seal_seconds": "3"})
    with fleet as f, _Reader(f) as reader:
        steady, away, gone = f.collectors
        f.wait_for_more(30)
        away.kill()
        gone.kill_and_lose_all()
        assert f.unsealed > 0, "no agent was answered for what is not sealed; the test shows nothing"
        for _ in range(KILLS):
            f.kill_and_restart(steady, after=dice.randrange(3, 12))
        f.wait_for_all()
        away.start()
        f.wait_for_more(9)
        f.settle()
        assert f.faults() == []
        assert f.new_streams == 0, "a collector saw a conflict where there was none"
        reader.stop()
        assert reader.looks > 0, "the reader never looked"
        assert reader.troubles == []


class _Reader(threading.Thread):
    """Looks at the lake again and again. `troubles` are the looks that saw what is not whole."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(name="reader", daemon=True)
        self.looks = 0
        self.troubles: list[object] = []
        self._fleet = fleet
        self._ending = threading.Event()

    def __enter__(self) -> "_Reader":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self) -> None:
        with self._fleet.reader() as store:
            while not self._ending.wait(LOOK_SECONDS):
                if trouble := _look(store):
                    self.troubles.append(trouble)
                self.looks += 1

    def stop(self) -> None:
        """End it."""
        self._ending.set()
        self.join()


def _look(store: Store) -> object:
    """Return what one look saw that is not whole, or why it saw nothing: the lake itself is never killed here."""
    try:
        return half_batches(store)
    except StoreError as error:
        return str(error)
