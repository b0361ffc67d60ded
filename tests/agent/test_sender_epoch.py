"""A stream that changes hands: the agent sends again what the new owner may not have, and says so."""

from pathlib import Path

import pytest

from agent.clock import Clock
from agent.delivery.link import Backoff, Link
from agent.delivery.sender import Sender
from agent.spool.queue import open_spool
from tests.agent.batches import identity, maker
from tests.agent.receiver import Receiver, Reply


def test_what_is_kept_is_sent_again_under_the_new_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What the last owner had answered and not sealed may be gone with it; the new one takes nothing before it came."""
    spool = open_spool(tmp_path / "spool", 10**7, 10**7, sync=False)
    for _ in range(3):
        spool.append(maker())
    with Receiver() as receiver:
        receiver.answer = lambda body: Reply(200, {"sequence": identity(body)[1], "sealed_through": -1})
        sending = Sender(spool, Link(receiver.url), Clock(), Backoff(lambda: 0.0))
        assert [sending.step(0), sending.step(0)] == [0.0, 0.0]
        receiver.answer = lambda body: Reply(412, {"error": "changed hands", "reason": "epoch", "epoch": 2})
        assert sending.step(0) == 0.0
        receiver.answer = receiver.accept
        assert [sending.step(0) for _ in range(3)] == [0.0] * 3
        assert [identity(body)[1] for body in receiver.bodies] == [0, 1, 2, 0, 1, 2]
        assert receiver.epochs == [None, None, None, "2", "2", "2"]
        sending.close()
    assert "resending" in caplog.text
    spool.close()


def test_a_collector_that_asks_for_the_same_epoch_for_ever_is_waited_for(tmp_path: Path) -> None:
    """It would otherwise have everything sent to it in circles."""
    spool = open_spool(tmp_path / "spool", 10**7, 10**7, sync=False)
    spool.append(maker())
    with Receiver(lambda body: Reply(412, {"error": "changed hands", "reason": "epoch", "epoch": 2})) as receiver:
        sending = Sender(spool, Link(receiver.url), Clock(), Backoff(lambda: 0.0))
        assert sending.step(0) == 0.0
        assert sending.step(0) > 0
        sending.close()
    assert spool.waiting == 1
    spool.close()
