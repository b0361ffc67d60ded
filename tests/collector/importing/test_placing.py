"""Which GPUs of a host a run had: what is certain, what the samples leave no choice about, and what is assumed."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from collector.importing.placing import END_OF_TIME, Claim, Gpu, Placed, Work, edges, place_claims

HOST = tuple(Gpu(f"g{number}") for number in range(8))
HOUR = 3_600_000_000


def claim(run: str, start: int, end: int | None, gpus: int, *named: str) -> Claim:
    """Return a claim on the host; times in hours."""
    return Claim(
        run,
        0,
        "n1",
        start * HOUR,
        None if end is None else end * HOUR,
        gpus,
        named=tuple((uuid, "told") for uuid in named),
    )


def work(gpus: str, *hours: int) -> list[Work]:
    """Return that these GPUs (by number) were at work in these hours."""
    return [Work(f"g{number}", hour * HOUR, HOUR) for number in gpus for hour in hours]


def found(placed: list[Placed]) -> dict[str, str]:
    """Return by run the numbers of its GPUs, with a letter for each ground: 0s is GPU 0, seen."""
    return {one.claim.run_id: " ".join(f"{uuid[1:]}{ground[0]}" for uuid, ground in one.gpus) for one in placed}


def test_who_takes_all_of_a_host_has_all_of_it() -> None:
    """Most training jobs take whole hosts: nothing needs to be guessed."""
    assert found(place_claims([claim("a", 0, 1, 8)], HOST)) == {"a": "0w 1w 2w 3w 4w 5w 6w 7w"}


def test_a_gpu_that_works_while_only_one_could_have_it_is_its_own() -> None:
    """The samples tell what accounting does not."""
    assert found(place_claims([claim("a", 0, 2, 2)], HOST, work("36", 0, 1))) == {"a": "3s 6s"}


def test_what_is_one_runs_is_not_its_neighbours() -> None:
    """a was alone first, so its GPUs are known; b's are then those that work beside it."""
    claims = [claim("a", 0, 4, 2), claim("b", 1, 3, 2)]
    shown = work("45", 0) + work("4501", 1, 2) + work("45", 3)
    assert found(place_claims(claims, HOST, shown)) == {"a": "4s 5s", "b": "0s 1s"}


def test_the_end_tells_as_well_as_the_start() -> None:
    """Two that began together are told apart when one of them has gone."""
    claims = [claim("a", 0, 1, 2), claim("b", 0, 2, 2)]
    assert found(place_claims(claims, HOST, work("0123", 0) + work("23", 1))) == {"a": "0s 1s", "b": "2s 3s"}


def test_what_is_left_is_the_others() -> None:
    """All placements agree: four of eight are another's, four are needed."""
    claims = [claim("a", 0, 2, 4, "g0", "g2", "g4", "g6"), claim("b", 0, 2, 4)]
    assert found(place_claims(claims, HOST)) == {"a": "0t 2t 4t 6t", "b": "1s 3s 5s 7s"}


def test_what_nobody_knows_is_assumed_and_says_so() -> None:
    """The rule is simple enough to be told: the first that are free."""
    claims = [claim("a", 0, 2, 2), claim("b", 1, 3, 3)]
    assert found(place_claims(claims, HOST)) == {"a": "0a 1a", "b": "2a 3a 4a"}


def test_what_was_assumed_before_is_assumed_again() -> None:
    """A second import, which knows of fewer jobs, must not move a run from one GPU to another."""
    again = replace(claim("b", 1, 3, 2), likely=frozenset({"g2", "g3"}))
    assert found(place_claims([again], HOST)) == {"b": "2a 3a"}


def test_an_idle_gpu_of_a_job_is_assumed_beside_those_that_were_seen() -> None:
    """A job of four that uses two: which the other two are, no sample tells."""
    assert found(place_claims([claim("a", 0, 1, 4)], HOST, work("57", 0))) == {"a": "0a 1a 5s 7s"}


def test_more_gpus_at_work_than_the_only_job_holds_prove_nothing() -> None:
    """Somebody worked past the scheduler; the likeliest are taken, and not called seen."""
    shown = work("12", 0, 1) + work("3", 0)
    assert found(place_claims([claim("a", 0, 2, 2)], HOST, shown)) == {"a": "1a 2a"}


def test_work_beside_a_run_that_shares_gpus_proves_nothing() -> None:
    """It may be the sharer's."""
    claims = [claim("a", 0, 1, 1), claim("shared", 0, 1, 0)]
    assert found(place_claims(claims, HOST, work("5", 0)))["a"] == "5a"


def test_a_board_that_was_replaced_is_no_choice_before_it_came() -> None:
    """Nine GPUs in a month, eight at any time."""
    host = (*HOST[:7], Gpu("g7", last_at=HOUR), Gpu("g8", first_at=2 * HOUR))
    assert found(place_claims([claim("a", 3, 4, 8)], host))["a"].endswith("6w 8w")
    assert found(place_claims([claim("b", 0, 1, 8)], host))["b"].endswith("6w 7w")


def test_a_job_before_the_first_sample_still_has_its_host() -> None:
    """Metrics are kept for less time than accounting."""
    late = tuple(Gpu(f"g{number}", first_at=5 * HOUR) for number in range(8))
    assert len(place_claims([claim("a", 0, 1, 8)], late)[0].gpus) == 8


def test_what_does_not_fit_is_missing_and_not_doubled() -> None:
    """A host that has fewer GPUs than its jobs hold has some that no metric names."""
    placed = place_claims([claim("a", 0, 1, 6), claim("b", 0, 1, 6)], HOST)
    assert [(len(one.gpus), one.missing) for one in placed] == [(6, 0), (2, 4)]


@st.composite
def histories(draw: st.DrawFn) -> list[Claim]:
    """Draw claims that a host of eight could really have held."""
    free_at = [0] * 8
    claims = []
    for number in range(draw(st.integers(1, 12))):
        start = draw(st.integers(0, 40))
        free = sum(until <= start for until in free_at)
        if free:
            count, end = draw(st.integers(1, free)), start + draw(st.integers(1, 30))
            for position in [place for place, until in enumerate(free_at) if until <= start][:count]:
                free_at[position] = end
            claims.append(claim(f"r{number}", start, end, count))
    return claims


@given(histories(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 70)), max_size=60))
def test_no_gpu_is_given_twice_and_the_answer_never_changes(claims: list[Claim], signs: list[tuple[int, int]]) -> None:
    """Whatever the samples say, a GPU has one holder at a time, nobody gets more than asked, and order is no matter."""
    shown = [Work(f"g{gpu}", hour * HOUR, HOUR) for gpu, hour in signs]
    placed = place_claims(claims, HOST, shown)
    for one, other in itertools.combinations(placed, 2):
        overlap = min(one.claim.ended_at or END_OF_TIME, other.claim.ended_at or END_OF_TIME) > max(
            one.claim.started_at, other.claim.started_at
        )
        assert not overlap or not {gpu for gpu, _ in one.gpus} & {gpu for gpu, _ in other.gpus}
    assert all(len(one.gpus) <= one.claim.gpus for one in placed)
    assert place_claims(claims[::-1], HOST, shown[::-1]) == placed


@given(histories())
def test_samples_of_the_truth_never_lead_to_a_wrong_word_that_is_called_seen(claims: list[Claim]) -> None:
    """What is called seen must be so: a truth is drawn up, its samples shown, and each claim held to it."""
    truth = place_claims(claims, HOST)
    moments = edges(claims)
    shown = [
        Work(gpu, at, end - at)
        for one in truth
        for gpu, _ in one.gpus
        for at, end in itertools.pairwise(moments)
        if one.claim.started_at <= at < (one.claim.ended_at or END_OF_TIME)
    ]
    true = {one.claim.run_id: {gpu for gpu, _ in one.gpus} for one in truth if not one.missing}
    for one in place_claims(claims, HOST, shown):
        if not any(each.missing for each in truth):
            assert {gpu for gpu, ground in one.gpus if ground == "seen"} <= true[one.claim.run_id]
