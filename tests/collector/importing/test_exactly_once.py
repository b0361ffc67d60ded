"""However a history is cut into imports, it is told once: the same runs, the same times, no GPU twice."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.schedulers.slurm.jobs import Job
from tests.analyzer.ledger.fleet import DAY, HOUR
from tests.campaign import examples
from tests.collector.importing.site import GPUS, HOSTS, Site, T, job

Held = tuple[str, str, int, int | None, str | None]


@st.composite
def days(draw: st.DrawFn) -> list[Job]:
    """Draw a day of jobs that two hosts of four GPUs could really have held."""
    free_at = {(host, gpu): 0 for host in HOSTS for gpu in range(GPUS)}
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 10))):
        host, start = draw(st.sampled_from(HOSTS)), draw(st.integers(0, 20))
        free = [place for place, until in free_at.items() if place[0] == host and until <= start]
        if free:
            count = draw(st.integers(1, len(free)))
            end = draw(st.one_of(st.none(), st.integers(start + 1, 24)))
            free_at |= dict.fromkeys(free[:count], 99 if end is None else end)
            jobs.append(job(number + 1, start, end, count, host))
    return jobs


def told(*spans: tuple[int, int], jobs: list[Job]) -> tuple[list[Held], int]:
    """Import spans one after the other; return each run's GPUs, times and end, and what a last import of all adds."""
    site = Site(accounted=jobs)
    for since, until in spans:
        site.bring(T + since * HOUR, T + until * HOUR)
    held = site.allocations("run_id", "gpu_uuid", "started_at", "ended_at", "exit_status")
    site.bring()  # which may make an assumption sure, now that all is known at once
    more = sum(site.bring().new.values())
    site.store.close()
    return held, more


@pytest.mark.parametrize("count", examples(12, here=6))
def test_cut_into_overlapping_spans_it_is_the_same_history(count: int) -> None:
    """First the earlier part, then one that overlaps it: as if all had been brought at once."""
    settings(max_examples=count)(given(days(), st.integers(1, 23), st.integers(1, 23))(_is_the_same_history))()


def _is_the_same_history(jobs: list[Job], one: int, other: int) -> None:
    first, second = sorted((one, other))
    whole, none = told((0, 24), jobs=jobs)
    parts, nothing = told((0, second), (first, 24), jobs=jobs)
    assert (none, nothing) == (0, 0)
    assert _counted(parts) == _counted(whole)
    for (_, gpu, start, end, _), (_, other_gpu, other_start, other_end, _) in itertools.combinations(parts, 2):
        overlap = start < (other_end or T + DAY) and other_start < (end or T + DAY)
        assert gpu != other_gpu or not overlap


def _counted(held: list[Held]) -> dict[tuple[str, int, int | None, str | None], int]:
    """Return how many GPUs each run had, and when; which ones it may be that nobody knows."""
    found: dict[tuple[str, int, int | None, str | None], int] = {}
    for run, _, start, end, status in held:
        key = run, start, end, status
        found[key] = found.get(key, 0) + 1
    return found
