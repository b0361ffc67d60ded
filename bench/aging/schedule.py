"""One schedule: a copy of a site grows old while its upkeep and its passes are killed or fail anywhere.

Each turn is a process of its own that opens the store as a server does after a crash, does the server's own jobs in a
drawn order, and dies at a drawn statement (SIGKILL), at a drawn moment (whatever it is doing), or has its statements
refused from some on, as by a full disk. In the end all jobs go well once, at the age at which nothing is kept.

What a store holds then is held to what one holds that aged in peace, whose readings are all read: readings are made of
nothing else. Where it differs, and of every tenth schedule whatever it holds, they are read.
"""

import multiprocessing
import os
import random
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar, cast

from analyzer.analysis import analyze
from bench.aging.contents import contents
from bench.aging.readings import addresses, commands
from bench.aging.sites import Aged, opened
from bench.aging.told import untold
from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.lake.keeper import jobs
from collector.store.books import mirror
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY

T = TypeVar("T")
Asking = Sequence[object] | dict[str, object]
OLDEST_DAYS = 500  # beyond all tiers
AGES, TURNS, SUBJECTS = 2, 2, 2
READ_EVERY = 10  # schedules
EXPIRES = ("gpu_samples", "service_samples", "progress", "gpu_minutes", "gpu_hours", "network_hours")


@dataclass
class Trouble:
    """What befalls a turn: from the nth statement on all are refused, or it is killed; or killed after so many ms."""

    kind: str
    after: int

    def come(self) -> None:
        """Stand before every statement of every session of this process."""
        if self.kind == "moment":
            signal.setitimer(signal.ITIMER_PROF, self.after / 1000)  # nobody handles it: it ends the process
            return
        execute, rows = Session.execute, Session.rows

        def is_over() -> bool:
            self.after -= 1
            if self.after < 0 and self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            return self.after < 0

        def executed(self: Session, sql: str, parameters: Asking = ()) -> None:
            if is_over() and not sql.startswith(("COMMIT", "ROLLBACK")):
                raise StoreError("the disk is full")
            execute(self, sql, parameters)

        def asked(self: Session, sql: str, parameters: Asking = ()) -> list[tuple[Any, ...]]:
            is_over()
            return rows(self, sql, parameters)

        Session.execute, Session.rows = executed, asked  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Played:
    """What a schedule did, the tables that differ from those of a store in peace, and readings that differ untold."""

    seed: int
    troubles: Counter[str] = field(default_factory=Counter)
    tables: tuple[str, ...] = ()
    readings: int = 0
    said: int = 0
    left: dict[str, int] = field(default_factory=dict)
    differ: dict[str, tuple[str, str]] = field(default_factory=dict)


def in_child(work: Callable[..., T], *given: object) -> T | None:
    """Return what a function of a module returns in a process of its own; None where that was killed.

    Raises:
        RuntimeError: it failed, with what it said.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.aging.schedule"])
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(sending, work, given))
    child.start()
    sending.close()
    try:
        went_well, answer = receiving.recv()
    except EOFError:
        went_well, answer = True, None
    child.join()
    if not went_well:
        raise RuntimeError(answer)
    return cast("T | None", answer)


def _answer(sending: Connection, work: Callable[..., object], given: tuple[object, ...]) -> None:
    try:
        sending.send((True, work(*given)))
    except Exception as error:  # noqa: BLE001 - told to the parent, which raises it
        sending.send((False, "".join(traceback.format_exception(error))))


def work(site: Aged, days: int, draw: random.Random, trouble: Trouble | None) -> bool:
    """Do the upkeep of a day and a pass, in a drawn order; return that it came to the end."""
    with opened(site.folder) as store:
        config = CollectorConfig(store=site.folder / "store.duckdb", job_seconds=3600.0)
        now = site.start_us + days * DAY
        doing: list[Callable[[], object]] = [
            *(
                (lambda job=job: job.run(time.monotonic() + 3600, now))
                for job in jobs(store, config, lambda _: None, lambda: None)
            ),
            lambda: (analyze(store, site.settings, now_us=site.asked.now_us), mirror(store, "bench")),
        ]
        if trouble is None:  # in the server's order, and retention again after what it waits for
            doing += doing[:2]
        else:
            draw.shuffle(doing)
            trouble.come()
        for one in doing:
            if trouble is None:
                one()
                continue
            try:
                one()
            except StoreError:  # as the upkeep does: the next job is begun
                trouble.after = _drawn(draw)
    return True


def _drawn(draw: random.Random) -> int:
    return round(10 ** draw.uniform(0.5, 3.5))


def read(site: Aged, draw: random.Random | None) -> dict[str, str]:
    """Return every reading of a site; of subjects some that are drawn, or all of them."""
    asked = site.asked
    if draw is not None:
        asked = asked.only(
            runs=_some(draw, asked.runs), findings=_some(draw, asked.findings), advice=_some(draw, asked.advice)
        )
    with opened(site.folder) as store:
        with store.session() as session, session.transaction():
            found = commands(session, site.settings, asked)
        return found | addresses(store, site.settings, asked)


def _some(draw: random.Random, of: tuple[str, ...]) -> list[str]:
    return draw.sample(of, min(SUBJECTS, len(of)))


def held(site: Aged) -> tuple[dict[str, str], dict[str, int]]:
    """Return what a site's store holds, and how many rows are left of what was to expire."""
    with opened(site.folder) as store, store.session() as session:
        left = {table: session.row(f"SELECT count(*) FROM {table}")[0] for table in EXPIRES}
        return contents(session), {table: count for table, count in left.items() if count}


def fresh(site: Aged, kept: Path) -> None:
    """Put a site back to what is kept."""
    shutil.rmtree(site.folder, ignore_errors=True)
    shutil.copytree(kept, site.folder)


def peace(site: Aged, kept: Path, before: Mapping[str, str]) -> tuple[dict[str, str], Played]:
    """Let a site age without any trouble, read all of it, and return what its store holds then."""
    fresh(site, kept)
    in_child(work, site, OLDEST_DAYS, random.Random(0), None)
    there, left = in_child(held, site) or ({}, {})
    return there, _compared(Played(-1, left=left), before, in_child(read, site, None))


def play(site: Aged, kept: Path, seed: int, before: Mapping[str, str], there: Mapping[str, str]) -> Played:
    """Play the schedule of a seed on a copy of what is kept, and compare it with what was read and held before."""
    draw, troubles = random.Random(seed), Counter[str]()
    fresh(site, kept)
    for days in sorted(draw.sample(range(14, OLDEST_DAYS), AGES)):
        for _ in range(TURNS):
            trouble = Trouble(draw.choice(("kill", "moment", "refuse")), _drawn(draw))
            ended = in_child(work, site, days, draw, trouble)
            troubles[f"{trouble.kind}{'' if ended is None else ', survived'}"] += 1
    in_child(work, site, OLDEST_DAYS, draw, None)
    found, left = in_child(held, site) or ({}, {})
    tables = tuple(sorted(name for name in {*found, *there} if found.get(name) != there.get(name)))
    played = Played(seed, troubles, tables, left=left)
    if not tables and seed % READ_EVERY:
        return played
    return _compared(played, before, in_child(read, site, draw))


def _compared(played: Played, before: Mapping[str, str], after: Mapping[str, str] | None) -> Played:
    assert after is not None
    differ = {name: (before[name], after[name]) for name in untold(before, after)}
    said = sum(text != before[name] for name, text in after.items()) - len(differ)
    return replace(played, readings=len(after), said=said, differ=differ)
