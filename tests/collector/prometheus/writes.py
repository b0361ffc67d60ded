"""Remote write requests as senders make them, and what a test's GPUs say."""

from collections.abc import Mapping, Sequence
from typing import Any

import cramjam

from collector.prometheus.request import V1, V2, messages

HEADERS_1 = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
HEADERS_2 = {"Content-Type": f"application/x-protobuf;proto={V2}", "Content-Encoding": "snappy"}
HEADERS = {V1: HEADERS_1, V2: HEADERS_2}
STEP = 30_000  # milliseconds between scrapes
STALE = b"\x02\x00\x00\x00\x00\x00\xf0\x7f"  # the NaN 0x7ff0000000000002, as it lies in a message

Labels = Mapping[str, str]
Series = tuple[Labels, Sequence[tuple[int, float]]]  # samples: milliseconds UTC and value


def labels(name: str, gpu: int = 0, node: str = "n14", **more: str) -> dict[str, str]:
    """Return the labels of a series of dcgm-exporter."""
    named = {"__name__": name, "UUID": f"GPU-{gpu}", "gpu": str(gpu), "device": f"nvidia{gpu}", "Hostname": node}
    return named | {"modelName": "NVIDIA H100 80GB HBM3", "instance": f"{node}:9400", "job": "dcgm"} | more


def content(proto: str, series: Sequence[Series]) -> bytes:
    """Return the message of a request, not compressed."""
    return _first(series) if proto == V1 else _second(series)


def body(proto: str, series: Sequence[Series]) -> bytes:
    """Return a request as it travels."""
    return packed(content(proto, series))


def packed(message: bytes) -> bytes:
    """Return a message in snappy's block format."""
    return bytes(cramjam.snappy.compress_raw(message))


def _first(series: Sequence[Series]) -> bytes:
    kinds = messages()
    request = kinds["Request1"]()
    for named, samples in series:
        one = kinds["Series1"]()
        for name, value in sorted(named.items()):
            one.labels.append(kinds["Label"](name=name, value=value).SerializeToString())
        _fill(one, samples)
        request.timeseries.append(one.SerializeToString())
    return bytes(request.SerializeToString())


def _second(series: Sequence[Series]) -> bytes:
    kinds = messages()
    symbols = [""]
    request = kinds["Request2"]()
    for named, samples in series:
        one = kinds["Series2"]()
        for pair in sorted(named.items()):
            for text in pair:
                if text not in symbols:
                    symbols.append(text)
                one.labels_refs.append(symbols.index(text))
        _fill(one, samples)
        request.timeseries.append(one.SerializeToString())
    request.symbols.extend(symbols)
    return bytes(request.SerializeToString())


def _fill(series: Any, samples: Sequence[tuple[int, float]]) -> None:
    for at, value in samples:
        sample = series.samples.add()
        sample.timestamp, sample.value = at, value
