"""The same readings in the words of time-series stores: JSON lines for VictoriaMetrics, remote write for either.

A value is a cell of gpu_samples that is no key and not null, and a number or a flag: one sample of one series.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt
import orjson

from agent.wire.tables import TABLES
from bench.bodies import Speaker
from bench.telemetry import GPUS, Values

TABLE = TABLES["gpu_samples"]
VALUES = tuple(column.name for column in TABLE.columns if column.kind != "key" and column.type != "string")

# Fields of prometheus.WriteRequest, TimeSeries, Label and Sample (remote write 1.0), as tag bytes.
_SERIES, _LABEL, _SAMPLE, _NAME, _TEXT, _VALUE, _TIME = b"\x0a", b"\x0a", 0x12, b"\x0a", b"\x12", 0x09, 0x10
_TIME_BYTES = 6  # of a varint of milliseconds since 1970, from 2004 until 2109
_SAMPLE_BYTES = 1 + 8 + 1 + _TIME_BYTES


def series(who: Speaker, columns: Mapping[str, Values]) -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Yield name, GPU and values of each series of a window of one host."""
    for name in VALUES:
        if name in columns:
            values = np.asarray(columns[name], dtype=np.float64)
            for gpu in range(GPUS):
                yield f"gpuledger_gpu_{name}", who.uuids[gpu].decode(), values[gpu::GPUS]


def json_lines(who: Speaker, columns: Mapping[str, Values], milliseconds: npt.NDArray[np.int64]) -> bytes:
    """Return a window as VictoriaMetrics' /api/v1/import takes it."""
    node = who.node.decode()
    return b"\n".join(
        orjson.dumps(
            {
                "metric": {"__name__": name, "node": node, "gpu_uuid": gpu},
                "values": np.ascontiguousarray(values),
                "timestamps": milliseconds,
            },
            option=orjson.OPT_SERIALIZE_NUMPY,
        )
        for name, gpu, values in series(who, columns)
    )


def remote_write(who: Speaker, columns: Mapping[str, Values], milliseconds: npt.NDArray[np.int64]) -> bytes:
    """Return a window as a remote write request 1.0, compressed as it travels."""
    times = _varints(milliseconds)
    parts = []
    for name, gpu, values in series(who, columns):
        labels = (("__name__", name), ("gpu_uuid", gpu), ("node", who.node.decode()))
        content = b"".join(_label(*pair) for pair in labels) + _samples(values, times)
        parts.append(_SERIES + _varint(len(content)) + content)
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def _label(name: str, value: str) -> bytes:
    text = _NAME + _varint(len(name)) + name.encode() + _TEXT + _varint(len(value)) + value.encode()
    return _LABEL + _varint(len(text)) + text


def _samples(values: npt.NDArray[np.float64], times: npt.NDArray[np.uint8]) -> bytes:
    """Return samples in one go: each is as long as the others, so they are rows of one array of bytes."""
    rows: npt.NDArray[np.uint8] = np.empty((len(values), 2 + _SAMPLE_BYTES), dtype=np.uint8)
    rows[:, 0], rows[:, 1], rows[:, 2] = _SAMPLE, _SAMPLE_BYTES, _VALUE
    rows[:, 3:11] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)
    rows[:, 11] = _TIME
    rows[:, 12:] = times
    return rows.tobytes()


def _varints(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    found: npt.NDArray[Any] = np.stack([(numbers >> 7 * index) & 0x7F for index in range(_TIME_BYTES)], axis=1)
    found[:, :-1] |= 0x80
    return found.astype(np.uint8)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
