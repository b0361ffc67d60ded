"""A table of truths, and the advice that each forbids, over every mixture of what can be known of a run.

Right advice is another matter: what a case forbids may never be said of it, whatever else is known.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, product
from operator import attrgetter
from random import Random
from typing import Any

import pytest

from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.rules import FINDINGS
from analyzer.recommendations.site import Limited, Site
from tests.analyzer.recommendations.sites import RUN, finding, host, run, site, text_of

HOUR_MS = 3_600_000
SLOWEST = "n1-0"


@dataclass(frozen=True, slots=True)
class Truth:
    """What is so of one run; None is not known. The clock of n1-0 is below those of its peers, or all are as slow."""

    nodes: tuple[str, ...]
    each: int  # GPUs on each host
    idle_ranks: int | None
    has_computed: bool | None
    ends_in_saves: bool
    exit_status: str
    memory_is_full: bool | None
    workers: int | None
    is_below_peers: bool
    has_beside: bool  # another run on its first host, whose board has a low limit

    @property
    def is_gang(self) -> bool:
        """Whether several ranks work together."""
        return self.each * len(self.nodes) > 1

    def site(self) -> Site:
        """Return a site on which it is so, with free hosts of its kind."""
        known = ("each", "idle_ranks", "has_computed", "ends_in_saves", "exit_status", "memory_is_full", "workers")
        facts: dict[str, Any] = {name: getattr(self, name) for name in known}
        one = run(nodes=self.nodes, never_used_ms=40 * HOUR_MS, idle_seconds=7200, **facts)
        beside = [run("slurm/alpha/9", ("n1",), each=1, gpu_uuids=("n1-7",))] if self.has_beside else []
        low = [SLOWEST, "n1-7"] if self.has_beside else [SLOWEST]
        slow = [SLOWEST] if self.is_below_peers else one.gpu_uuids
        return site(
            [host("n1"), host("n2"), host("n3", free=8), host("n4", free=8)],
            [one, *beside],
            slowed={RUN: dict.fromkeys(slow, HOUR_MS)},
            limited={gpu: Limited(gpu, "n1", 500.0, 700.0, 480.0, False) for gpu in low},
        )


TRUTHS = tuple(
    Truth(*facts)
    for facts in product(
        (("n1",), ("n1", "n2")),
        (1, 4),
        (None, 0, 1),
        (None, False, True),
        (False, True),
        ("failed", "out_of_memory"),
        (None, True),
        (None, 0, 4),
        (False, True),
        (False, True),
    )
)

# What is so, and the kinds of advice that it forbids.
FORBIDDEN: tuple[tuple[str, Callable[[Truth], bool | None], tuple[str, ...]], ...] = (
    ("ranks wait for one another", lambda so: so.is_gang, ("pack", "share_mig")),
    ("a rank waits where no kernel ran", lambda so: so.is_gang and bool(so.idle_ranks), ("right_size", "checkpoint")),
    ("nobody saw whether a rank waits", lambda so: so.is_gang and so.idle_ranks is None, ("right_size",)),
    ("all ranks wait for ever", lambda so: so.is_gang and so.has_computed is False, ("checkpoint",)),
    ("it dies as it saves", lambda so: so.ends_in_saves, ("checkpoint",)),
    ("it ran out of memory", lambda so: so.exit_status == "out_of_memory", ("checkpoint",)),
    ("its hosts are full", lambda so: so.memory_is_full, ("cache_input", "more_cpu", "loader_settings")),
    ("it has one host", lambda so: len(so.nodes) == 1, ("drain_slow_gpu",)),
    ("its peers are as slow", lambda so: not so.is_below_peers, ("drain_slow_gpu",)),
)


def advice(so: Truth) -> Iterator[Proposal]:
    """Yield what is proposed where each finding is made of the run."""
    where = so.site()
    for rule in FINDINGS:
        proposal = rule.propose(finding(rule.state, rule.cause, caused_by=SLOWEST), where)
        if proposal is not None:
            yield proposal.answering(finding(rule.state, rule.cause))


Given = Sequence[tuple[Truth, tuple[Proposal, ...]]]


@pytest.fixture(scope="module", params=[len(TRUTHS) // 4, pytest.param(len(TRUTHS), marks=pytest.mark.soak)])
def given(request: pytest.FixtureRequest) -> Given:
    """Return all that is proposed, by what is so: in a quarter of the mixtures, in which any three facts have all."""
    drawn = Random(6).sample(TRUTHS, request.param)
    for names in combinations([field.name for field in fields(Truth)], 3):
        mixed = attrgetter(*names)
        assert set(map(mixed, drawn)) == set(map(mixed, TRUTHS)), names
    return [(so, tuple(advice(so))) for so in drawn]


@pytest.mark.parametrize(("forbids", "kinds"), [row[1:] for row in FORBIDDEN], ids=[row[0] for row in FORBIDDEN])
def test_what_is_so_forbids_advice(forbids: Callable[[Truth], bool], kinds: tuple[str, ...], given: Given) -> None:
    """In none of its mixtures with what else may be so; and each kind is given where it is not so."""
    said = [(bool(forbids(so)), so, one) for so, proposals in given for one in proposals if one.kind in kinds]
    assert not [(one.kind, so) for is_so, so, one in said if is_so]
    assert {one.kind for is_so, _, one in said if not is_so} == set(kinds)


def test_no_run_is_sent_away_from_all_of_its_hosts(given: Given) -> None:
    """By no line of any advice: who excludes them all compares them with nobody."""
    for so, proposals in given:
        for one in proposals:
            for excluded in re.findall(r"--exclude=(\S+)", text_of(one, "slurm")):
                assert not set(so.nodes) <= set(excluded.split(",")), (one.kind, so)


def test_a_power_limit_is_that_of_the_board_that_needs_it(given: Given) -> None:
    """Neither a neighbour's board nor those of the same run that are as they were built."""
    for so, proposals in given:
        for one in proposals:
            assert set(re.findall(r"-i (\S+) -pl", text_of(one, "shell"))) <= {SLOWEST}, (one.kind, so)


def test_loaders_are_given_settings_that_pytorch_takes(given: Given) -> None:
    """Of loaders without workers it takes neither prefetch_factor nor persistent_workers."""
    seen: set[Any] = set()
    for so, proposals in given:
        for line in (line for one in proposals for line in text_of(one, "python").splitlines()):
            if "prefetch_factor" in line or "persistent_workers" in line:
                seen.add((so.workers, *re.findall(r"num_workers=(\d+)", line)))
    assert seen == {(None,), (0, "4"), (4, "8")}
