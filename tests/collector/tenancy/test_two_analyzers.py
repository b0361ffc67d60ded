"""Two analyzers over one lake: whatever they do and whenever they die, its books are those of one analyzer alone."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from collector.errors import TakenError
from collector.store import booking, books
from collector.store.lake import LakeSettings
from tests.analyzer.ledger.fleet import Fleet
from tests.analyzer.ledger.generated import generate
from tests.analyzer.ledger.several import NOW, Analyzer, Books, Site, in_folder, same
from tests.analyzer.ledger.several import books as books_in

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = 2
PARTS = (11, 12, 13)  # seeds of what arrives, one after another
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def alone() -> Books:
    """The books of one analyzer that nobody disturbed, in a store of its own."""
    fleet = Fleet()
    for part in PARTS:
        generate(fleet, part, HOSTS)
        analyze(fleet.store, Settings(), now_us=NOW)
    with fleet.store as store:
        found = books_in(store, str(store.hot))
    assert found["ledger"] != []
    return found


def test_who_takes_over_goes_on_from_the_lakes_books(tmp_path: Path, lake: LakeSettings, alone: Books) -> None:
    """Its own hot file has no ledger, or an old one, and the first may come back: each time the other's days stay."""
    with Site(tmp_path / "site", lake) as site:
        for part, analyzer in zip(PARTS, (site.a, site.b, site.a), strict=True):
            generate(site.fleet, part, HOSTS)
            assert analyzer.whole()
        assert same(site.a.books(), alone)
        assert same(site.a.own_books(), alone)


@pytest.mark.soak
def test_of_two_passes_at_once_the_lake_takes_one(tmp_path: Path, lake: LakeSettings, alone: Books) -> None:
    """The one that wakes up late has its pass undone, and makes it again from what the other booked."""
    with Site(tmp_path / "site", lake) as site:
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
            site.a.begin()
            assert site.b.whole()
            with pytest.raises(TakenError, match="b has booked into this lake since this pass began"):
                _books_something(site.a)
            assert site.a.whole()
        assert same(site.b.books(), alone)


def _books_something(analyzer: Analyzer) -> None:
    """Let it book a day that differs, as a pass over other arrivals would have made it."""
    with analyzer.store.session() as session:
        session.execute(f"UPDATE {analyzer.store.hot}.ledger_hours SET input_digest = 'late'")
    books.mirror(analyzer.store, analyzer.name)


# The first draws each kind of death once, in two steps after each arrival.
@pytest.mark.parametrize(
    ("seed", "steps_each"), [(137, 2), *(pytest.param(seed, 3, marks=pytest.mark.soak) for seed in range(1, 9))]
)
def test_no_order_of_passes_and_deaths_changes_the_books(
    tmp_path: Path, lake: LakeSettings, alone: Books, seed: int, steps_each: int
) -> None:
    """Begun, booked, killed within a pass or after the lake's commit, started on an empty disk: drawn by a seed."""
    draw = random.Random(seed)
    with Site(tmp_path / "site", lake) as site:
        steps: list[Callable[[Analyzer], object]] = [
            Analyzer.begin,
            Analyzer.book,
            Analyzer.whole,
            Analyzer.killed,
            Analyzer.reopen,
            Analyzer.lose_all,
            Analyzer.said,
            dies_after_the_commit,
        ]
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
            for _ in range(steps_each):
                draw.choice(steps)(draw.choice((site.a, site.b)))
        for last in (site.a, site.b):
            assert last.whole()
            assert same(last.books(), alone)
            assert same(last.own_books(), alone)


def dies_after_the_commit(analyzer: Analyzer) -> None:
    """Make a pass that the lake takes, and die before the hot file knows."""
    analyzer.begin()
    hot = analyzer.store.hot
    assert hot is not None
    with analyzer.store.session() as session:
        following = booking.set_out(session, hot)
        try:
            with session.transaction():
                books._mirror(session, hot, following, analyzer.name)
        except TakenError:
            return
    analyzer.reopen()


_PASSES = """
import sys
from pathlib import Path
from tests.analyzer.ledger.several import Analyzer, in_folder
folder = Path(sys.argv[1])
one = Analyzer("victim", folder, in_folder(folder))
print("ready", flush=True)
one.whole()
print("done", flush=True)
"""


@pytest.mark.parametrize(
    "after_seconds", [0.7, *(pytest.param(late, marks=pytest.mark.soak) for late in (0.2, 1.0, 1.4, 2.0))]
)
def test_who_takes_over_from_a_killed_process_doubles_nothing(
    tmp_path: Path, alone: Books, after_seconds: float
) -> None:
    """kill -9 in the middle of wherever it is."""
    folder = tmp_path / "site"
    with Site(folder, in_folder(folder)) as site:
        for part in PARTS:
            generate(site.fleet, part, HOSTS)
        with subprocess.Popen(
            [sys.executable, "-c", _PASSES, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "ready\n"
            time.sleep(after_seconds)
            victim.kill()
        assert site.a.whole()
        assert same(site.a.books(), alone)
