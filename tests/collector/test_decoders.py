"""While many batches come, another process decodes them, and no sender can tell."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psutil
import pytest

from collector.config import CollectorConfig
from collector.http import ingest
from collector.pipeline.writer import Writer
from tests.collector.batches import NOW, body, gpu_rows
from tests.collector.serving import Running, running
from tests.waiting import PATIENCE_SECONDS, until


def _processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "collector.pipeline.decoding.decoder" in _command(child)]


def _command(child: psutil.Process) -> list[str]:
    """Return what was started; nothing of one that has ended, of this test or of one before."""
    try:
        return child.cmdline()
    except psutil.Error:
        return []


def _decoders() -> int:
    return len(_processes())


@pytest.fixture
def busy(config: CollectorConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A collector to which one request is many."""
    monkeypatch.setattr(ingest, "MANY", 1)
    with running(config, lake=True) as serving:
        yield serving


def test_few_batches_start_no_process(config: CollectorConfig) -> None:
    """A small site's collector stays as small as it is."""
    with running(config, lake=True) as serving:
        for sequence in range(5):
            assert serving.client.post(body(sequence)).status == 200
        assert _decoders() == 0


def test_many_batches_count_once_each(config: CollectorConfig) -> None:
    """Sixty-four senders, a process that decodes, and every batch twice."""

    class Together(Writer):
        """A writer whose first commit takes until many wait behind it, on however fast a machine."""

        begun = False

        def _commit(self, *given: Any) -> None:
            if not self.begun:
                self.begun = True
                until(lambda: self.waiting[0] >= ingest.MANY, "many wait at once")
            super()._commit(*given)

    with running(config, Together, lake=True) as serving, ThreadPoolExecutor(64) as pool:
        bodies = [body(1, stream=f"stream-{number}") for number in range(200)] * 2
        answers = list(pool.map(serving.client.post, bodies))
        assert Counter(answer.status for answer in answers) == {200: 400}
        with serving.store.hot_session() as session:
            assert session.row("SELECT count(*) FROM receipts") == (200,)
        assert _decoders() == 1
    assert _decoders() == 0


def test_what_was_many_a_moment_ago_is_decoded_there_still(
    config: CollectorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred posts a second are forty at once now and twenty then; the event loop has no time for the twenty."""
    with running(config, lake=True) as serving:
        monkeypatch.setattr(ingest, "STILL_MANY_SECONDS", PATIENCE_SECONDS)
        monkeypatch.setattr(ingest, "MANY", 1)
        assert serving.client.post(body(1)).status == 200
        monkeypatch.setattr(ingest, "MANY", 32)
        (decoder,) = _processes()
        decoder.kill()
        assert serving.client.post(body(2)).status == 503  # as who is decoded by a process that ended is told
        assert serving.client.post(body(2)).status == 200


def test_what_is_wrong_is_told_in_the_same_words(busy: Running, config: CollectorConfig) -> None:
    """Who decodes is our affair."""
    wrong = [b"", b"nothing", body()[:-5], body(2, {"gpu_samples": gpu_rows(3, utilization_ratio=7.0)})]
    heard = [busy.client.post(one) for one in (body(1), *wrong)]
    assert _decoders() == 1
    with running(replace(config, store=config.store.with_name("other.duckdb"), decoders=0), lake=True) as other:
        alone = [other.client.post(one) for one in (body(1), *wrong)]
    assert [answer.status for answer in heard] == [200, 400, 400, 400, 200]
    assert [(one.status, one.json.get("error"), one.json.get("reasons")) for one in heard] == [
        (one.status, one.json.get("error"), one.json.get("reasons")) for one in alone
    ]
    assert busy.count("quarantine") == 3


def test_a_sender_that_sends_too_much_is_told_so(config: CollectorConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rate is looked at whoever decodes."""
    monkeypatch.setattr(ingest, "MANY", 1)
    slow = replace(config, agent_batches_per_second=0.001, agent_burst_seconds=1.0)
    with running(slow, lake=True) as serving:
        assert serving.client.post(body(1)).status == 200
        refused = serving.client.post(body(2))
        assert (refused.status, refused.json["reason"]) == (429, "rate")


def test_times_are_of_the_collectors_clock(busy: Running) -> None:
    """When a batch came is told by who took it, not by who decoded it."""
    assert busy.client.post(body(1)).status == 200
    with busy.store.hot_session() as session:
        ((received_at,),) = session.rows("SELECT received_at FROM receipts")
    assert received_at > NOW
