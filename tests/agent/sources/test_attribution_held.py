"""Who holds what, put together from several witnesses."""

import logging
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.providers import (
    ALIASES_MAX,
    LATE_SECONDS,
    PRECEDENCE,
    Aliases,
    GpuHold,
    HolderProvider,
    HolderProviders,
    Meant,
    ProviderReport,
    combined,
)
from agent.attribution.run import Attribution, Authority
from agent.errors import SourceError, SourceHungError
from agent.files import StateFile
from tests.waiting import PATIENCE_SECONDS

POD = Attribution("kubernetes/a/ml.x-0", "kubernetes", member="ml/x-0/main")
PROCESS = Attribution("kubernetes/a/uid", "cgroup", owner="ada", rank=3, member="Actor/7", labels={"ray_job": "01"})


def test_what_one_leaves_open_another_fills() -> None:
    """The kubelet knows the container, the process knows the rank: one row has both."""
    found = combined([GpuHold("g", PROCESS), GpuHold("g", POD, 0.25)], {POD.run_id: PROCESS.run_id})
    both = Attribution("kubernetes/a/uid", "kubernetes", None, "ada", "ml/x-0/main", 3, {"ray_job": "01"})
    assert found == {("kubernetes/a/uid", "g"): GpuHold("g", both, 0.25)}


def test_runs_of_different_names_stay_side_by_side() -> None:
    """Who of them counts is the ledger's to say, which sees the scheduler's own words too."""
    stray = Attribution("process/n14/7.1", "process", owner="root")
    assert set(combined([GpuHold("g", POD), GpuHold("g", stray)], {})) == {(POD.run_id, "g"), ("process/n14/7.1", "g")}


def test_containers_of_one_pod_add_up_their_parts() -> None:
    """A pod may hold two slices of one GPU in two containers."""
    side = Attribution(POD.run_id, "kubernetes", member="ml/x-0/side")
    (found,) = combined([GpuHold("g", POD, 0.25), GpuHold("g", side, 0.5)], {}).values()
    assert (found.fraction, found.attribution.member) == (0.75, "ml/x-0/main, ml/x-0/side")


ATTRIBUTIONS = st.builds(
    Attribution,
    run_id=st.sampled_from(["r/a/1", "r/a/2"]),
    scheduler=st.sampled_from(PRECEDENCE),
    attempt=st.none() | st.integers(0, 2),
    rank=st.none() | st.integers(0, 3),
    member=st.none() | st.sampled_from(["m", "n", "o"]),
    owner=st.none() | st.sampled_from(["ada", "bob"]),
    labels=st.dictionaries(st.sampled_from("kl"), st.sampled_from("vw")),
)
WITNESSES = st.lists(
    st.builds(GpuHold, st.sampled_from(["g", "h"]), ATTRIBUTIONS, st.none() | st.floats(0.1, 1.0)), max_size=4
)


@given(WITNESSES)
def test_every_holder_is_told_once_with_the_highest_authority(providers: list[GpuHold]) -> None:
    """However many witnesses there are, a run holds a GPU once, and none of them is lost."""
    found = combined(providers, {})
    assert set(found) == {(one.attribution.run_id, one.gpu_uuid) for one in providers}
    for (run_id, gpu), held in found.items():
        said = [one.attribution for one in providers if (one.attribution.run_id, one.gpu_uuid) == (run_id, gpu)]
        assert PRECEDENCE.index(held.attribution.scheduler) == min(PRECEDENCE.index(one.scheduler) for one in said)


@given(WITNESSES)
def test_the_order_of_witnesses_decides_nothing(providers: list[GpuHold]) -> None:
    """Threads answer in any order; a row that changes with it would be told again and again."""

    assert all(combined(order, {}) == combined(providers, {}) for order in permutations(providers))


def test_an_alias_is_told_once_and_again_when_it_means_another(tmp_path: Path) -> None:
    """A pod of a StatefulSet keeps its name through many lives; what an agent told, the next one need not."""
    file = tmp_path / "state.json"
    state_file = StateFile(file)
    aliases = Aliases(state_file)
    for run in ("uid1", "uid1", "uid2"):
        aliases.learn({"k/a/ml.x-0": Meant(f"k/a/{run}", "ml/x-0"), f"k/a/{run}": Meant(f"k/a/{run}")})
    assert [row["run_id"] for row in aliases.rows()] == ["k/a/uid1", "k/a/uid2"]
    assert aliases.rows() == []
    state_file.close()
    assert Aliases(StateFile(file)).last_part("k/a/ml.x-0") == "uid2"


def test_aliases_are_bounded() -> None:
    """A cluster that starts a thousand pods a day must not fill the agent's memory."""
    aliases = Aliases()
    for number in range(ALIASES_MAX + 1):
        aliases.learn({f"k/a/ml.{number}": Meant(f"k/a/{number}")})
    assert len(aliases.runs) == ALIASES_MAX
    assert aliases.last_part("k/a/ml.0") is None


class Scripted:
    """A holder that says what its script holds next."""

    name = "scripted"
    authority: Authority = "kubernetes"
    period_seconds = 0.0

    def __init__(self, *script: ProviderReport | Exception | None) -> None:
        self._script = list(script)

    def read(self) -> ProviderReport | None:
        """Say the next thing."""
        said = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        """There is nothing to give back."""


def holders_of(holder: HolderProvider, at: list[float]) -> HolderProviders:
    """Return one holder as the agent asks it; `at` has the time."""
    return HolderProviders([holder], None, lambda: at[0], patience_seconds=PATIENCE_SECONDS)


def test_a_failure_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A kubelet that is down for an hour must not fill the journal."""
    caplog.set_level(logging.INFO)
    holders = holders_of(Scripted(ProviderReport(), *[SourceError("down")] * 3, ProviderReport()), at=[0.0])
    for _ in range(5):
        holders.told()
    holders.close()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert [one.failures for one in holders.conditions()] == [3]


def test_a_mistake_of_ours_silences_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is counted and named for what it is."""
    holders = HolderProviders(
        [Scripted(ValueError("x")), Scripted(ProviderReport((GpuHold("g", POD),)))], patience_seconds=PATIENCE_SECONDS
    )
    assert len(holders.told().held) == 1
    holders.close()
    assert "BUG" in caplog.text


def test_one_that_is_slow_is_not_failing_for_a_minute() -> None:
    """Late answers count; only silence is worth a line in the journal."""
    at = [0.0]
    holders = holders_of(Scripted(ProviderReport(), SourceHungError("late")), at)
    for _ in range(3):
        holders.told()
    assert [one.failures for one in holders.conditions()] == [0]
    at[0] = LATE_SECONDS + 1
    holders.told()
    holders.close()
    assert [one.failures for one in holders.conditions()] == [1]
