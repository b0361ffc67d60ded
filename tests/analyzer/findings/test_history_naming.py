"""Ids of findings are unique within a store, however many letters two of them share."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import LedgerError
from analyzer.findings.judgement import read_case
from analyzer.findings.ledger_findings import findings
from analyzer.findings.life import LossKey, finding_id, named
from analyzer.ids import LENGTH
from analyzer.period import Period
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.small_site import IDLE

KIND = ("held_idle", "abandoned")


def twins() -> tuple[str, str]:
    """Return the names of two runs whose findings would share all five letters."""
    met: dict[str, str] = {}
    for number in itertools.count():
        name = f"sweep-{number}"
        before = met.setdefault(finding_id(name, None, *KIND), name)
        if before != name:
            return before, name
    raise AssertionError


@pytest.fixture(scope="module")
def two() -> Fleet:
    """Return a fleet on which both of them left a GPU idle, one an hour after the other."""
    fleet = Fleet()
    for number, name in enumerate((*twins(), "other"), 1):
        node, gpu, run = f"n{number}", f"G{number}", f"slurm/alpha/{number}"
        fleet.own(node, [gpu])
        fleet.hold(run, node, [gpu], MONDAY, name=name)
        fleet.sample(node, gpu, MONDAY, MONDAY + (1 + number) * HOUR)
        fleet.sample(node, gpu, MONDAY + (1 + number) * HOUR, MONDAY + 6 * HOUR, **IDLE)
    fleet.analyze(now=MONDAY + DAY)
    return fleet


def test_two_findings_never_share_an_id(two: Fleet) -> None:
    """The one that was opened first keeps the five letters that people know; the other takes one more."""
    first, second = twins()
    with two.store.session() as session:
        ids = {one.subject: one.id for one in findings(session, MONDAY, MONDAY + DAY) if one.cause == KIND[1]}
        book = dict(session.rows("SELECT subject, finding_id FROM finding_book WHERE cause = ?", [KIND[1]]))
    assert ids == book
    assert ids[first] == finding_id(first, None, *KIND)
    assert ids[second] == finding_id(second, None, *KIND, length=6)


def test_it_keeps_its_id_where_the_other_is_not_listed(two: Fleet) -> None:
    """Of a run's own page, and of a week without the first, the id is that of the fleet's list."""
    _, second = twins()
    with two.store.session() as session:
        (alone,) = [one for one in findings(session, MONDAY, MONDAY + DAY, "slurm/alpha/2") if one.cause == KIND[1]]
    assert alone.id == finding_id(second, None, *KIND, length=6)


def test_each_has_a_life_of_its_own(two: Fleet) -> None:
    """Merged, one finding would have been opened when the other was."""
    with two.store.session() as session:
        lives = read_case(session, Period(MONDAY, MONDAY + DAY, "x", "UTC"), MONDAY + DAY).lives
    opened = [lives[finding_id(name, None, *KIND, length=5 + n)].opened_at for n, name in enumerate(twins())]
    assert opened == [MONDAY + 2 * HOUR, MONDAY + 3 * HOUR]


def test_explain_finds_both_and_refuses_what_may_be_either(two: Fleet) -> None:
    """Five letters are the first's own; the four that a ticket of a former release names begin both."""
    first, second = twins()
    with two.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: MONDAY + DAY)
        period = reader.period("2025-11-10")
        ids = (finding_id(first, None, *KIND), finding_id(second, None, *KIND, length=6))
        assert [reader.explain(one, period).finding.subject for one in ids] == [first, second]
        with pytest.raises(LedgerError, match=f"{ids[0]} or {ids[1]}"):
            reader.explain(ids[0][:-1], period)


def test_explain_finds_an_id_of_former_releases(two: Fleet) -> None:
    """They had four letters, which begin today's five."""
    with two.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: MONDAY + DAY)
        period = reader.period("2025-11-10")
        others = [one.id for one in reader.findings(period) if one.subject not in twins()]
        assert [reader.explain(one[: len("f-") + 4], period).finding.id for one in others] == others


@given(st.lists(st.text("ab", max_size=3), unique=True, max_size=12))
def test_names_are_unique_and_kept(subjects: list[str]) -> None:
    """Whatever is named together has different ids, and an id that is given stays."""
    keys: list[LossKey] = [(subject, None, *KIND) for subject in subjects]
    ids = named(keys)
    assert len(set(ids.values())) == len(keys)
    assert named(reversed(keys), ids) == ids


def test_a_digest_that_is_met_on_purpose_merges_nothing() -> None:
    """Whoever names runs can make two with the same eight bytes; that must neither fail nor hide one of them."""
    keys: list[LossKey] = [(subject, None, *KIND) for subject in ("one", "two", "three")]
    taken: dict[LossKey, str] = {("who", None, "x", str(n)): finding_id(*keys[0], length=n) for n in range(LENGTH, 14)}
    ids = named(keys, taken)
    assert len(set(ids.values())) == len(keys) + len(taken)
