"""The host now: every GPU has its line, what is not known is a dash, and no name draws on the terminal."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.top import NARROWEST, GpuNow, HoldingRun, HostNow, host_now, screen, state, throttled
from tests.agent.situations import SITUATIONS
from tests.agent.test_exporter_situations import scrape

GPU = GpuNow("GPU-1", 0, "H100-80GB", "", True, 0.5, 0.4, 2**30, 300.0, 50.0, {"thermal": 10.0, "power": 5.0}, ())
LATER = replace(GPU, throttled_seconds={"thermal": 16.0, "power": 6.0})


def said(name: str) -> HostNow:
    """Return what the agent of a host in a situation says."""
    return replace(host_now(scrape(SITUATIONS[name]())), node="n14")


@pytest.mark.parametrize("name", ["healthy", "mig", "lost_gpu", "time_sliced", "without_gpm", "no_gpu"])
def test_the_screen(golden: Callable[[str, str], None], name: str) -> None:
    """Of the exporter's real bytes, at 80 columns."""
    lines = screen(said(name), None, 0.0, 80)
    assert max(map(len, lines)) <= 80
    golden(f"top_agent/{name}.txt", "\n".join(lines) + "\n")


def test_a_wide_screen_has_users_and_what_was_throttled(golden: Callable[[str, str], None]) -> None:
    """The second look tells of the time between both."""
    held = (HoldingRun("slurm/alpha/81234", "llama-sft", "anna", 9), HoldingRun("slurm/alpha/81240", "", "", None))
    before, now = replace(GPU, held=held), replace(LATER, held=held)
    lines = screen(HostNow("n14", "1.2.3", (now,)), HostNow("n14", "1.2.3", (before,)), 60.0, 110)
    golden("top_agent/wide.txt", "\n".join(lines) + "\n")


def test_holders_that_the_driver_does_not_tell_are_not_nobody() -> None:
    """Who frees a GPU that nobody seems to hold ends somebody's work."""
    page = (
        'gpuledger_gpu_up{gpu_uuid="GPU-1"} 1\n'
        'gpuledger_gpu_supported{gpu_uuid="GPU-1",subject="processes",reason="x"} '
    )
    (refused,), (listed,) = host_now(page + "0\n").gpus, host_now(page + "1\n").gpus
    assert "(unknown)" in "".join(screen(HostNow("n14", "1", (refused,)), None, 0.0, 80))
    assert "(nobody)" in "".join(screen(HostNow("n14", "1", (listed,)), None, 0.0, 80))


def test_one_moment_accuses_nobody() -> None:
    """No kernel in ten seconds is no idle GPU: that is the ledger's to say, of hours."""
    seen = [replace(GPU, utilization_ratio=ratio, sm_active_ratio=None) for ratio in (0.0, 0.01, None)]
    assert [state(gpu) for gpu in seen] == ["quiet", "busy", "-"]
    assert state(replace(GPU, up=False, utilization_ratio=None)) == "lost"


def test_the_worst_reason_is_told_with_its_share() -> None:
    """Six of sixty seconds by heat, one by power."""
    assert throttled(GPU, LATER, 60.0) == ("thermal", 0.1)
    assert throttled(GPU, GPU, 60.0) is None
    assert throttled(None, GPU, 60.0) is None


def test_a_counter_that_began_anew_slows_nobody() -> None:
    """An agent that was restarted counts from 0."""
    assert throttled(LATER, GPU, 60.0) is None
    assert throttled(GPU, replace(GPU, throttled_seconds={}), 60.0) is None


def test_a_name_cannot_draw() -> None:
    """Jobs are called by their users."""
    evil = HoldingRun("slurm/alpha/1\x1b[2J", "a\r\nb\x1b[31m", "c\x07", 1)
    text = "".join(screen(HostNow("n\x1b", "1", (replace(GPU, held=(evil,)),)), None, 0.0, 120))
    assert text.isprintable()


@given(st.text(max_size=400))
def test_any_text_makes_a_screen(text: str) -> None:
    """What listens on that port may be something else."""
    broken = (
        text + '\ngpuledger_gpu_info{gpu_index="²",gpu_uuid="' + text + '"} 1\ngpuledger_gpu_up{gpu_uuid="x"} inf\n'
    )
    lines = screen(host_now(broken), None, 0.0, NARROWEST)
    assert max(map(len, lines)) <= NARROWEST
