"""One schedule of what befalls the places of a site: its lake is older, its disk is away, its clock jumps.

Agents are the real spool and the real sender; the store, its lake, the writer's commits, the sealing and the upkeep are
the server's. The disk of the lake's files is a folder that goes and comes back; an older lake is a copy of the whole of
it that is put in its place. What a schedule came to is told in sentences of what is wrong.
"""

import random
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from agent.clock import Clock
from agent.delivery.link import Backoff, PostAnswer
from agent.delivery.sender import Sender
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from agent.wire.envelope import encode
from agent.wire.units import DAY_US, HOUR_US
from collector.background import ProvenClock
from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.lake.keeper import jobs
from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.lake import LakeSettings
from collector.store.noted import lost
from collector.store.schemas import make_tier_tables
from collector.store.seal_mark import Mark

HOSTS, STEPS = 3, 14
JUMPS = [sign * size for size in (HOUR_US, 40 * DAY_US, 400 * DAY_US) for sign in (1, -1)]
_ROUNDS = 3  # of speaking and sealing in the end, by which every agent has been asked and has answered


class _Host:
    """An agent, which speaks and delivers when it is told to. `site` is where its link leads."""

    def __init__(self, folder: Path, site: "_Site") -> None:
        self.name, self.said, self.url = folder.name, 0, "the site"
        self._site = site
        self._spool = Spool(SegmentStore(folder), 10**8, 10**8)
        self._sender = Sender(self._spool, self, Clock(), Backoff(lambda: 0.0))  # type: ignore[arg-type]

    def post(self, body: bytes, epoch: int | None) -> PostAnswer:  # noqa: ARG002  one site has one collector
        """Deliver as a link does."""
        receipt = self._site.takes(body)
        return PostAnswer(status=200, error="", sealed_through=receipt.sealed_through)

    def speak(self, batches: int) -> None:
        """Put batches into the spool, and deliver what waits."""
        for _ in range(batches):
            self._spool.append(partial(_batch, self.name))
            self.said += 1
        while self._spool.waiting:
            self._sender.step(0)

    def held(self) -> set[tuple[str, int]]:
        """Return what it could send again."""
        piles = (self._spool._kept, self._spool._waiting)
        return {(self.name, sequence) for sequence in range(self.said) if any(sequence in pile for pile in piles)}

    def close(self) -> None:
        """End it; a link has nothing to close after an answer."""
        self._spool.close()


def _batch(node: str, stream: str, sequence: int) -> bytes:
    now = time.time_ns() // 1000
    row: dict[str, Any] = {"node": node, "gpu_uuid": f"GPU-{node}", "started_at": now - 1000, "ended_at": now}
    tables = {"gpu_samples": [row | {"up": True, "memory_used_bytes": sequence}]}
    return encode(agent=node, stream=stream, sequence=sequence, sent_at=now, tables=tables)


class _Site:
    """A store with its lake, as a server has it open."""

    def __init__(self, folder: Path) -> None:
        self.path, self.disk, self.catalogue = folder / "store.duckdb", folder / "disk", folder / "lake"
        self.settings = LakeSettings(f"sqlite:{self.catalogue / 'catalogue.sqlite'}", str(self.disk / "data"))
        self.off = 0  # of its wall clock, microseconds
        self.start()

    def start(self) -> None:
        """Open the store as a server does."""
        self.store = Store.open(self.path, lake=self.settings, memory_limit="300MB")
        make_tier_tables(self.store)
        self.mark = Mark.of(self.store)
        self._commit = BatchCommit(self.store, self.mark)
        with self.store.hot_session() as session:
            (newest,) = session.row("SELECT max(sent_at) FROM receipts")
        self.clock = ProvenClock(newest, self.wall)

    def stop(self) -> None:
        """Close it."""
        self._commit.close()
        self.store.close()

    def wall(self) -> int:
        """Return what its clock says."""
        return time.time_ns() // 1000 + self.off

    def takes(self, body: bytes) -> Receipt:
        """Commit a batch as the writer does."""
        batch = decode(body, time.time_ns() // 1000)
        (answer,) = self._commit.land([batch])
        assert isinstance(answer, Receipt), answer
        self.clock.heard(batch.header.agent, batch.header.sent_at)
        return answer

    def seals(self) -> bool:
        """Seal, and say whether that could be done."""
        try:
            seal(self.store, self.mark)
        except StoreError:
            return False
        return True

    def there(self) -> Counter[tuple[str, int]]:
        """Return whose batches are in the lake, each so often."""
        with self.store.session() as session:
            return Counter(session.rows("SELECT node, memory_used_bytes FROM gpu_samples"))

    def kept_up(self) -> None:
        """Do the upkeep that drops anything, by the clock that the server goes by."""
        for job in jobs(self.store, _CONFIG, lambda _: None, lambda: None):
            if job.name in _DROPPING:
                job.run(time.monotonic() + _JOB_SECONDS, self.clock.now())


_CONFIG = CollectorConfig(raw_days=14, receipt_days=30)
_DROPPING, _JOB_SECONDS = ("retention", "receipts", "expiry", "orphans"), 60.0


class Schedule:
    """A schedule that dice draw. `wrong` are the sentences of what must not be; `happened` what befell the site."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._dice, self._folder = random.Random(seed), folder
        self._site = _Site(folder)
        self._hosts = [_Host(folder / f"host-{number}", self._site) for number in range(HOSTS)]
        self._kept: list[Path] = []
        self._owed: set[tuple[str, int]] = set()  # what was there, or held, when the lake was last changed
        self._missed: set[tuple[str, int]] = set()
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []

    def play(self, steps: int = STEPS) -> "Schedule":
        """Play it to its end."""
        often = (self._speak, self._seal, self._older)
        befalls = (*often, *often, self._keep, self._jump, self._unmount)
        try:
            for _ in range(steps):
                befall = self._dice.choice(befalls)
                self.happened[befall.__name__.strip("_")] += 1
                befall()
            self._settle()
        finally:
            self._site.stop()
            for host in self._hosts:
                host.close()
        return self

    def _speak(self) -> None:
        for host in self._dice.sample(self._hosts, self._dice.randint(1, HOSTS)):
            host.speak(self._dice.randint(1, 3))

    def _seal(self) -> None:
        if not self._site.seals():
            self.wrong.append("a sealing failed where nothing was in its way")

    def _keep(self) -> None:
        """Keep a copy of the lake as it is."""
        self._site.stop()
        kept = self._folder / f"kept-{len(self._kept)}"
        for part in (self._site.disk, self._site.catalogue):
            shutil.copytree(part, kept / part.name)
        self._kept.append(kept)
        self._site.start()

    def _older(self) -> None:
        """Put another lake in its place: an older one, or a newer one that comes back."""
        if not self._kept:
            return
        self._site.stop()
        kept = self._dice.choice(self._kept)
        for part in (self._site.disk, self._site.catalogue):
            shutil.rmtree(part)
            shutil.copytree(kept / part.name, part)
        self._site.start()
        held = {each for host in self._hosts for each in host.held()}
        self._owed = {*self._site.there(), *held}

    def _jump(self) -> None:
        """Let the clock jump, at a boot or while it runs; the upkeep goes on meanwhile."""
        self._site.off = self._dice.choice((*JUMPS, 0))
        if self._dice.random() < 0.5:
            self._site.stop()
            self._site.start()
        before, receipts = self._site.there(), self._receipts()
        self._site.kept_up()
        if (self._site.there(), self._receipts()) != (before, receipts):
            self.wrong.append(f"something expired by a clock that was {self._site.off // DAY_US} days off")

    def _receipts(self) -> int:
        with self._site.store.hot_session() as session:
            return int(session.row("SELECT count(*) FROM receipts")[0])

    def _unmount(self) -> None:
        """Take the disk away, while it runs or before it starts, and bring it back."""
        disk, aside = self._site.disk, self._folder / "unmounted"
        late = self._dice.random() < 0.5 and self._has_sealed()
        if late:
            self._site.stop()
        disk.rename(aside)
        disk.mkdir()
        if late:
            try:
                self._site.start()
                self.wrong.append("it started on what lies where its disk is mounted")
            except StoreError:
                pass
        else:
            self._speak()
            if self._has_sealed() and self._site.seals():
                self.wrong.append("it sealed into what lies where its disk is mounted")
        shutil.rmtree(disk)
        aside.rename(disk)
        if late:
            self._site.start()

    def _has_sealed(self) -> bool:
        return self._site.mark.upto > 0

    def _settle(self) -> None:
        for _ in range(_ROUNDS):
            for host in self._hosts:
                host.speak(1)
            self._seal()
        there = self._site.there()
        said = {(host.name, sequence) for host in self._hosts for sequence in range(host.said)}
        held = {each for host in self._hosts for each in host.held()}
        gone = said - there.keys()
        self.wrong += [f"{each} is there {count} times" for each, count in there.items() if count > 1]
        self.wrong += [f"{each} is nowhere, and was held or there" for each in sorted(gone & (self._owed | held))]
        if "older" not in self.happened:
            self.wrong += [f"{each} is nowhere, and no lake was changed" for each in sorted(gone)]
        with self._site.store.session() as session:
            is_named = bool(lost(session))
        if is_named != bool(gone):
            self.wrong.append(f"{len(gone)} batches are lost, which is {'' if is_named else 'not '}named")
