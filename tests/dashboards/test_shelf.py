"""Pages kept for the next start: of this program on this ledger alone, private, bounded, and never damaged."""

import os
import stat
import tempfile
import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.interfaces.api.request_service import Scope
from dashboards.disk_cache import OLDEST_SECONDS, DiskCache, PageRecord, content_of, page_of, spelled
from dashboards.pages.fleet import FleetAsked

KEY = (Scope(), False, "text/html", FleetAsked())
PAGE = PageRecord("state", "<p>Größe</p>", 17)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where a server keeps its pages; there is nothing yet."""
    return tmp_path / "store.duckdb.pages"


def started(folder: Path, edition: str | None = "one", **bounds: int) -> DiskCache:
    """Return the shelf of a server that has started."""
    segments = DiskCache(folder, lambda: edition, **bounds)
    segments.open()
    return segments


def files(folder: Path) -> list[Path]:
    """Return the pages that lie there."""
    return sorted(folder.glob("*.page"))


def test_the_next_server_has_the_page_with_its_time(folder: Path) -> None:
    """It is of the present state where nothing has changed, and of none that could come otherwise."""
    started(folder).put(KEY, PAGE)
    segments = started(folder)
    assert segments.get(KEY, "state") == PAGE
    older = segments.get(KEY, "another")
    assert older is not None
    assert (older.text, older.read_at) == (PAGE.text, PAGE.read_at)
    assert older.state not in ("state", "another")
    assert segments.found == 2


@pytest.mark.parametrize("edition", ["two", None])
def test_another_program_or_ledger_has_none_of_them(folder: Path, edition: str | None) -> None:
    """Figures of a ledger that is not there any more must not be shown once, whatever time stands over them."""
    started(folder).put(KEY, PAGE)
    segments = started(folder, edition)
    assert segments.get(KEY, "state") is None
    assert list(folder.iterdir()) == []


def test_a_pass_of_this_server_leaves_them(folder: Path) -> None:
    """The page of before is what is shown after a restart; it is this ledger's as long as this server has made it."""
    edition = ["one"]
    segments = DiskCache(folder, lambda: edition[0])
    segments.open()
    segments.put(KEY, PAGE)
    edition[0] = "two"
    segments.follow()
    assert started(folder, "two").get(KEY, "state") == PAGE


def test_before_the_first_analysis_nothing_is_kept(folder: Path) -> None:
    """There is nothing then by which another ledger in its place would be told from this one."""
    started(folder, None).put(KEY, PAGE)
    assert list(folder.iterdir()) == []


def test_who_has_not_looked_signs_nothing(folder: Path) -> None:
    """What lies there may be of another ledger, and would be taken for this one's at the next start."""
    started(folder).put(KEY, PAGE)
    segments = DiskCache(folder, lambda: "two")
    segments.put("other", PAGE)
    segments.follow()
    assert len(files(folder)) == 1
    assert (folder / "edition").read_text() == "one"


def test_nobody_else_reads_them(folder: Path) -> None:
    """They name teams, people and money; names of files tell nothing either."""
    mask = os.umask(0)
    try:
        started(folder).put(KEY, PAGE)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 400)), max_size=30), st.booleans())
def test_they_are_bounded(puts: list[tuple[int, int]], again: bool) -> None:
    """Addresses are the visitor's to choose: they must not fill the disk, and the count must not drift from it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pages"
        segments = started(folder, pages=4, size=1_500)
        for key, size in puts:
            segments.put(key, PageRecord(size, os.urandom(size).hex(), 0))
            if again:
                segments = started(folder, pages=4, size=1_500)
            found = files(folder)
            assert len(found) <= 4
            assert segments.bytes == sum(path.stat().st_size for path in found) <= 1_500
        for key in {key for key, _ in puts}:
            size = [size for each, size in puts if each == key][-1]
            assert segments.get(key, size) is None or segments.get(key, size).state == size  # type: ignore[union-attr]


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_damaged_file_is_no_page(place: int, change: int) -> None:
    """A power cut leaves what it leaves: half a page must not be served as one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "pages"
        started(folder).put(KEY, PAGE)
        (path,) = files(folder)
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= change
        path.write_bytes(content)
        segments = started(folder)
        found = segments.get(KEY, "state")
        assert found is None or found.text == PAGE.text
        assert (segments.failed, path.exists()) == ((1, False) if found is None else (0, True))


def test_a_page_is_its_own_key_s_alone(folder: Path) -> None:
    """A file that somebody gave another's name must not be shown to another."""
    segments = started(folder)
    segments.put((Scope(("a",)), "/money"), PAGE)
    (own,) = files(folder)
    segments.put((Scope(("b",)), "/money"), PageRecord("state", "of b", 0))
    (other,) = (path for path in files(folder) if path != own)
    other.replace(own)
    assert started(folder).get((Scope(("a",)), "/money"), "state") is None


def test_what_is_a_week_old_goes(folder: Path) -> None:
    """Names are not kept for ever by a page that nobody opens."""
    started(folder).put(KEY, PAGE)
    (path,) = files(folder)
    long_ago = time.time() - OLDEST_SECONDS - 1
    os.utime(path, (long_ago, long_ago))
    assert started(folder).get(KEY, "state") is None
    assert files(folder) == []


def test_what_is_left_of_a_write_that_was_killed_goes(folder: Path) -> None:
    """It has the page, and no name that is ever looked up."""
    started(folder).put(KEY, PAGE)
    (folder / f"{'0' * 64}.page.new").write_text("half")
    assert started(folder).get(KEY, "state") == PAGE
    assert sorted(path.name for path in folder.iterdir()) == [files(folder)[0].name, "edition"]


def test_who_empties_the_folder_needs_to_stop_nothing(folder: Path) -> None:
    """The pages of then are gone; those that are made next lie there."""
    segments = started(folder)
    segments.put(KEY, PAGE)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert segments.get(KEY, "state") is None
    segments.put("next", PAGE)
    assert segments.get("next", "state") == PAGE
    assert segments.bytes == files(folder)[0].stat().st_size


def test_a_disk_that_refuses_is_counted_and_no_more(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk must not take the pages with it; one line says so, not one for each page."""
    segments = started(folder)
    (folder / "edition.new").mkdir()
    for _ in range(3):
        segments.put(KEY, PAGE)
    assert segments.failed == 3
    assert len(caplog.records) == 1
    assert segments.get(KEY, "state") is None


@dataclass(frozen=True)
class Also:
    """Another key with the same content."""

    teams: tuple[str, ...] | None
    may_decide: bool


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.tuples(inner, inner) | st.builds(Also, st.none() | st.tuples(st.text(max_size=3)), st.booleans()),
    max_leaves=6,
)


@given(PLAIN, PLAIN)
def test_two_keys_are_spelled_alike_only_where_they_are_the_same(one: Hashable, other: Hashable) -> None:
    """The spelling alone parts what one team may see from what another may."""
    assert (spelled(one) == spelled(other)) == (repr(one) == repr(other))
    assert spelled(Also(None, may_decide=True)) != spelled(Scope(None, may_decide=True))


def test_a_key_without_a_spelling_is_our_mistake() -> None:
    """A set has another order in each process: its pages would be found by chance."""
    with pytest.raises(TypeError, match="BUG: a page is kept by a frozenset"):
        spelled(("money", frozenset({"a", "b"})))


@given(st.text(), st.integers())
def test_a_file_gives_back_the_page(text: str, read_at: int) -> None:
    """To the last letter, whatever a name holds."""
    made = PageRecord(("generation", 1, None), text, read_at)
    assert page_of(content_of("key", made), "key", made.state) == made
