"""What the load generators send is what agents send, and what other stores are given is the same readings."""

import json
from functools import cache

import cramjam
import numpy as np

from agent.wire.envelope import encode_columns
from agent.wire.tables import TABLES
from bench.bodies import SECOND, speaker, window
from bench.telemetry import BEATEN, GPUS, SLOW, UUID, Rows, Simulation
from bench.tsdb_bodies import json_lines, remote_write, series
from collector.pipeline.decoding.batch import decode
from collector.prometheus.request import V1, sent
from tests.frames import unframed

NOW = 1_795_219_200_000_000  # microseconds UTC
FILLED = 51  # columns of gpu_samples that an agent fills on an H100


@cache
def simulation() -> Simulation:
    """Return the simulated fleet, made once."""
    return Simulation()


@cache
def recorded() -> dict[str, Rows]:
    """Return twenty seconds of a host."""
    return simulation().tables(simulation().hosts[0], 20, (*BEATEN, *SLOW))


def test_a_body_is_byte_for_byte_what_that_agent_would_have_sent() -> None:
    """A rate of bodies that differ from an agent's is a rate of something else."""
    who = speaker(7)
    body = window(recorded(), 10, 10).body(who, 3, NOW)
    tables = {name: rows.between(10, 20) for name, rows in recorded().items()}
    for columns in tables.values():
        count = len(columns["node"])
        columns["node"] = [who.node.decode()] * count
        for name in ("started_at", "ended_at"):
            columns[name] = columns[name] + NOW - 20 * SECOND
        if "gpu_uuid" in columns:
            assert set(columns["gpu_uuid"]) == {UUID}
            columns["gpu_uuid"] = [one.decode() for one in who.uuids] * (count // GPUS)
    own = encode_columns(agent="b00007", stream=who.stream, sequence=3, sent_at=NOW + 50_000, tables=tables)
    assert _unpacked(body) == _unpacked(own)


def test_every_body_is_accepted_and_filled_as_an_agents() -> None:
    """The fill decides what a row costs: an agent leaves seven columns null on an H100, and none in the other shape."""
    batch = decode(window(recorded(), 0, 10).body(speaker(1), 0, NOW), NOW)
    assert set(batch.tables) == {*BEATEN, *SLOW}
    assert batch.tables["gpu_samples"].num_rows == 80
    assert sum(not column.null_count for column in batch.tables["gpu_samples"].columns) == FILLED
    full = simulation().tables(simulation().hosts[0], 10, ("gpu_samples",), every_column=True)
    rows = decode(window(full, 0, 10).body(speaker(1), 0, NOW), NOW).tables["gpu_samples"]
    assert sum(not column.null_count for column in rows.columns) == len(TABLES["gpu_samples"].columns)


def test_agents_differ_in_streams_and_gpus() -> None:
    """A body that another agent has sent already would count as repeated, not as throughput."""
    crowd = [speaker(number, generation) for number in range(50) for generation in range(2)]
    assert len({one.stream for one in crowd}) == len(crowd)
    assert len({gpu for one in crowd for gpu in one.uuids}) == GPUS * len(crowd)


def test_remote_write_and_json_lines_tell_the_same_values() -> None:
    """The comparison is of the same data, so both must hold every series with every value and time."""
    who, columns = speaker(2), recorded()["gpu_samples"].between(0, 10)
    times = np.arange(10, dtype=np.int64) * 1000 + NOW // 1000
    expected = {(name, gpu): values.tolist() for name, gpu, values in series(who, columns)}
    told = {}
    for line in json_lines(who, columns, times).splitlines():
        one = json.loads(line)
        assert one["timestamps"] == times.tolist()
        told[one["metric"]["__name__"], one["metric"]["gpu_uuid"]] = one["values"]
    assert told == expected
    written = {}
    for request in sent(bytes(cramjam.snappy.decompress_raw(remote_write(who, columns, times))), V1):
        labels = request.labels.texts()
        assert labels["node"] == "b00002"
        assert [sample.timestamp for sample in request.samples] == times.tolist()
        written[labels["__name__"], labels["gpu_uuid"]] = [sample.value for sample in request.samples]
    assert written == expected


def _unpacked(body: bytes) -> bytes:
    return unframed(body)
