"""Requests of remote write become batches: one thread that reads them, waits for what belongs together, and submits.

A sender shards its series over parallel requests, so that one scrape of a target comes in several. A scrape is put
together when all has come that came the last time, or when it has waited long enough. A request is answered when every
scrape that it has a part in is durable; until then the sender keeps it, and sends it again if we die.

A scrape is one batch, known by its target and its time. What is sent again after it was stored adds nothing, and what
the store refused is kept and submitted again when the sender comes back with it. After a restart the receipts say when
each target was last scraped, so that its next row begins there.
"""

import logging
import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pyarrow as pa

from agent.wire.contract import AHEAD_OF_SENDER, EARLIEST
from agent.wire.units import MILLISECOND_US
from collector.errors import BatchError, StoreError
from collector.pipeline.batch_commit import Receipt
from collector.pipeline.writer import Writer
from collector.prometheus.labels import Clusters, Namesakes, target_pod
from collector.prometheus.request import Pending, Sent, Written, sent, temporary
from collector.prometheus.targets import (
    STREAM,
    Bucket,
    LabelMemory,
    Meaning,
    Scrapes,
    Settling,
    Target,
    Targets,
    batch_of,
    meaning,
)
from collector.store.database import Store

_MOST_REQUESTS = 1024  # that wait for their answer
_MOST_BYTES = 128 * 2**20  # of requests that wait to be read
_MOST_SAMPLES = 2_000_000  # of scrapes that wait for the rest of them
_READ_AT_ONCE = 64  # requests, before what is whole is put together
_MOST_SCRAPES = 256  # of one target that wait at a time; of a long history the oldest are put together first
_MOST_UNSETTLED = 256  # batches of one target that the store has refused
_IDLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the receiver may hold: series remembered, and how long a scrape waits for the rest of it."""

    series: int = 200_000
    wait_seconds: float = 1.0


@dataclass(slots=True)
class Counts:
    """What came of the samples."""

    accepted: int = 0
    left_out: int = 0  # of metrics that the contract has no word for
    late: int = 0  # after their scrape had been put together without them
    refused: int = 0
    implausible: int = 0


class Receiver:
    """Takes requests from any thread; stop it when done."""

    def __init__(
        self,
        writer: Writer,
        limits: Limits,
        clusters: Clusters,
        resumed: Callable[[], Mapping[str, int]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self._writer = writer
        self._limits = limits
        self._resumed = resumed
        self._clock = clock
        self._incoming: queue.SimpleQueue[tuple[bytes, str, Pending] | None] = queue.SimpleQueue()
        self._meanings: OrderedDict[bytes, Meaning | None] = OrderedDict()
        self._targets = Targets(limits.series, {})
        self._open: dict[str, Target] = {}  # with scrapes that wait
        self._clusters = clusters
        self._exporters: set[tuple[str, str]] = set()  # pods that are targets, by what labels prove
        self._told = LabelMemory(clusters)
        self._namesakes = Namesakes()
        self._held = 0
        self._held_bytes = 0
        self._held_samples = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="remote-write", daemon=True)
        self._is_stopping = False

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Put together what waits, and read no more."""
        self._is_stopping = True
        self._incoming.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def series(self) -> int:
        """Series that are remembered."""
        return self._targets.series

    @property
    def waiting(self) -> int:
        """Requests waiting for their answer."""
        return self._held

    def take(self, content: bytes, proto: str) -> Future[Written]:
        """Queue an unpacked request; the future holds what became of it, or the BatchError that refuses it.

        Raises:
            BatchError: 503, too many requests wait, or the collector is stopping.
        """
        with self._lock:
            many = self._held >= _MOST_REQUESTS
            large = self._held_bytes > 0 and self._held_bytes + len(content) > _MOST_BYTES  # one alone always fits
            if self._is_stopping or many or large:
                raise BatchError(503, "busy", "too many concurrent requests; retry in a few seconds")
            self._held += 1
            self._held_bytes += len(content)
        pending = Pending()
        pending.answer.add_done_callback(self._let_go)
        self._incoming.put((content, proto, pending))
        return pending.answer

    def _let_go(self, _: object) -> None:
        with self._lock:
            self._held -= 1

    def _run(self) -> None:
        try:
            self._targets = Targets(self._limits.series, self._resumed())
            while not self._is_stopping:
                self._turn()
            self._put_together(self._due(math.inf))
        finally:
            self._is_stopping = True
            self._refuse_rest()

    def _turn(self) -> None:
        """Read what has come, then put together what is whole or due."""
        try:
            self._read(self._incoming.get(timeout=self._patience()))
            for _ in range(_READ_AT_ONCE):
                self._read(self._incoming.get_nowait())
        except queue.Empty:
            pass
        self._put_together(self._due(self._clock()))
        for target in self._targets.forget_silent(self._clock()):
            self._told.forget(target)

    def _patience(self) -> float:
        dues = [bucket.due for target in self._open.values() for bucket in target.buckets.values()]
        return max(0.0, min(dues) - self._clock()) if dues else _IDLE_SECONDS

    def _read(self, arrived: tuple[bytes, str, Pending] | None) -> None:
        if arrived is None:  # it is to stop
            return
        content, proto, pending = arrived
        with self._lock:
            self._held_bytes -= len(content)
        try:
            for series in sent(content, proto):
                self._series(series, pending)
        except BatchError as refusal:
            pending.fail(refusal)
        pending.done()

    def _series(self, series: Sent, pending: Pending) -> None:
        """Sort the samples of one series into the scrapes that they are of."""
        pending.samples += len(series.samples)
        pending.histograms += series.histograms
        pending.exemplars += series.exemplars
        try:
            found = self._meaning(series)
        except ValueError as error:
            pending.refuse(str(error), len(series.samples))
            return
        now = self._clock()
        times = [sample.timestamp for sample in series.samples] or [0]
        if found is None or not self._targets.believes(found, min(times), max(times), now):
            self.counts.left_out += len(series.samples)
            return
        of, number = found.components[0].subject, None if found.facts is None else found.facts.index
        if (apart := self._namesakes.foreign(of, number, series.labels.texts, now)) is not None:
            label, kept, other = apart
            pending.refuse(
                f'there are hosts called {of.node} of {label}="{kept}" and of {label}="{other}", and the latter\'s '
                f"samples are refused: give its hosts names of their own, by a label node",
                len(series.samples),
            )
            return
        target = self._targets.of(found, now)
        if target is None:
            pending.refuse(f"there are more than {self._limits.series} series; send fewer", len(series.samples))
            return
        latest = time.time_ns() // 1000 + AHEAD_OF_SENDER
        for sample in series.samples:
            at, value = sample.timestamp, sample.value
            if not EARLIEST <= at * MILLISECOND_US <= latest:
                pending.refuse("a sample is in the future, or before 2015")
            else:
                self._sample(target, found, at, value, pending)

    def _sample(self, target: Target, found: Meaning, at: int, value: float, pending: Pending) -> None:
        if at <= target.last_time:
            self._repeated(target, found, at, value, pending)
            return
        if len(target.unsettled) >= _MOST_UNSETTLED or self._held_samples >= _MOST_SAMPLES:
            pending.fail(temporary(BatchError(503, "busy", "too much is waiting to be stored; retry in a few seconds")))
            return
        bucket = target.buckets.get(at)
        if bucket is None:
            bucket = target.buckets[at] = Bucket(at, self._clock() + self._limits.wait_seconds)
            self._open[target.stream] = target
        if len(bucket.values) >= self._limits.series:
            pending.refuse(f"a scrape has more than {self._limits.series} series; send fewer")
            return
        self._held_samples -= len(bucket.values)
        for component in found.components:
            if value == value or component not in bucket.values:  # a pod's series ends as another's begins
                bucket.values[component] = value
        self._held_samples += len(bucket.values)
        if found.facts is not None and value == value:
            bucket.facts[found.components[0].subject] = found.facts
            if found.holder is not None:
                bucket.holders.setdefault(found.components[0].subject, set()).add(found.holder)
        if pending not in bucket.waiting:
            bucket.waiting.add(pending)
            pending.hold()
        self.counts.accepted += 1

    def _repeated(self, target: Target, found: Meaning, at: int, value: float, pending: Pending) -> None:
        """A sample of a scrape that was put together: sent again, or too late to be in it.

        Which of the two, only the last scrape tells; what is older passes for sent again.
        """
        is_last = at == target.last_time and not target.is_resumed and value == value
        if is_last and found.components[0] not in target.last:
            self.counts.late += 1
            pending.refuse("a sample arrived after the rest of its scrape had been stored")
        if target.stream in pending.repeats:
            return
        pending.repeats.add(target.stream)
        for settling in list(target.unsettled):
            receipt = settling.receipt
            if receipt is None or (receipt.done() and receipt.exception() is not None):
                receipt = settling.receipt = self._submitted(target, settling)
            pending.hold()
            receipt.add_done_callback(lambda done: _release((pending,), done.exception()))

    def _meaning(self, series: Sent) -> Meaning | None:
        if series.key in self._meanings:
            return self._meanings[series.key]
        labels = series.labels.texts()
        if (pod := target_pod(labels)) is not None and pod not in self._exporters:
            self._exporters.add(pod)  # whoever passed for its holder until now is it no longer
            self._meanings = OrderedDict((key, one) for key, one in self._meanings.items() if not _is_held_by(one, pod))
            if len(self._exporters) > self._limits.series:
                self._exporters.clear()
        found = meaning(labels, self._clusters)
        own = labels.get("namespace", ""), labels.get("pod", "")
        if found is not None and own in self._exporters and _is_held_by(found, own):
            found = replace(found, holder=None)
        self._meanings[series.key] = found
        if len(self._meanings) > 2 * self._limits.series:
            self._meanings.popitem(last=False)
        return found

    def _due(self, now: float) -> dict[str, tuple[Target, list[Bucket]]]:
        """Return the scrapes that are to be put together, of each target in order of time, without a gap in it."""
        due: dict[str, tuple[Target, list[Bucket]]] = {}
        for target in list(self._open.values()):
            times = sorted(target.buckets)
            ready = 0
            for place, at in enumerate(times, 1):
                bucket = target.buckets[at]
                if bucket.due <= now or target.is_whole(bucket) or place <= len(times) - _MOST_SCRAPES:
                    ready = place
            if ready:
                due[target.stream] = target, [target.buckets.pop(at) for at in times[:ready]]
            if not target.buckets:
                del self._open[target.stream]
        return due

    def _put_together(self, due: dict[str, tuple[Target, list[Bucket]]]) -> None:
        if not due:
            return
        scrapes = Scrapes()
        for target, buckets in due.values():
            scrapes.add(target, buckets)
        rows = scrapes.rows()
        self.counts.implausible += scrapes.implausible
        for target, buckets in due.values():
            for bucket in buckets:
                self._held_samples -= len(bucket.values)
                tables = rows.get((target.stream, bucket.time), {})
                self._settle(target, bucket, self._told.with_facts(target, bucket, tables))
            last = {component: value for component, value in buckets[-1].values.items() if value == value}
            self._targets.remembers(target, last)
            target.last_time = buckets[-1].time

    def _settle(self, target: Target, bucket: Bucket, tables: Mapping[str, pa.Table]) -> None:
        """Submit what a scrape came to, and let its requests wait for it; a scrape without rows is settled at once."""
        if not tables:
            _release(bucket.waiting, None)
            return
        for refused in list(target.unsettled):  # who sent it may not come back with it
            if refused.receipt is None or (refused.receipt.done() and refused.receipt.exception() is not None):
                refused.receipt = self._submitted(target, refused)
        settling = Settling(batch_of(target, bucket.time, tables))
        target.unsettled.append(settling)
        settling.receipt = self._submitted(target, settling)
        waiting = frozenset(bucket.waiting)
        settling.receipt.add_done_callback(lambda done: _release(waiting, done.exception()))

    def _submitted(self, target: Target, settling: Settling) -> Future[Receipt]:
        """Submit a batch, again where it failed before; once it is stored it is no longer kept."""
        try:
            receipt = self._writer.submit(settling.batch)
        except BatchError as error:
            receipt = Future()
            receipt.set_exception(error)
        receipt.add_done_callback(lambda done: _forget(target, settling) if done.exception() is None else None)
        return receipt

    def _refuse_rest(self) -> None:
        stopping = BatchError(503, "stopping", "the collector is stopping; retry in a few seconds")
        while True:
            try:
                arrived = self._incoming.get_nowait()
            except queue.Empty:
                return
            if arrived is not None:
                arrived[2].done(stopping)


def _is_held_by(found: Meaning | None, pod: tuple[str, str]) -> bool:
    who = found.holder if found is not None else None
    return who is not None and (who.namespace or "", who.pod) == pod and not who.hpc_job


def _forget(target: Target, settling: Settling) -> None:
    if settling in target.unsettled:
        target.unsettled.remove(settling)


def _release(waiting: Iterable[Pending], error: BaseException | None) -> None:
    for pending in waiting:
        pending.done(None if error is None else temporary(error))


_LOG = logging.getLogger(__name__)
_RECENT = 3_600_000_000  # microseconds; what was last scraped longer ago has a gap in any case


def last_scrapes(store: Store) -> dict[str, int]:
    """Return the last scrape that is stored of each target that was heard within the hour, milliseconds UTC.

    A store that cannot tell costs a row a target, and no more.
    """
    since = time.time_ns() // 1000 - _RECENT
    asked = (
        "SELECT stream, max(sequence) FROM receipts WHERE received_at > ? AND starts_with(stream, ?) GROUP BY stream"
    )
    found: dict[str, int] = {}
    try:
        for session in (store.hot_session(), store.session()):  # what is not sealed yet, and what is
            with session:
                for stream, last in session.rows(asked, [since, STREAM]):
                    found[stream] = max(last, found.get(stream, -1))
    except StoreError as error:
        _LOG.warning("where remote write stopped is not known: %s", error)
    return found
