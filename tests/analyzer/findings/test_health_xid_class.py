"""The agent and the notices call the same XID errors hardware: neither may import the other, so a test says it."""

from agent.gpu.nvidia.xid import HARDWARE, PROGRAM, xid_class
from analyzer.findings.health.notice import LIMITS


def test_the_alert_and_the_notice_mean_the_same_errors() -> None:
    """Who is called at night for one finds it on the page in the morning."""
    assert frozenset(LIMITS.hardware_xids) == HARDWARE


def test_each_error_has_one_class() -> None:
    """What neither list knows is neither the program's nor the board's."""
    assert not HARDWARE & PROGRAM
    assert [xid_class(number) for number in (79, 31, 119, 999)] == ["hardware", "program", "other", "other"]
