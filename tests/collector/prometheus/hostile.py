"""Requests of remote write and answers of servers that nobody means well: mutants of true ones, the same for a seed."""

import math
import random
from collections.abc import Iterator
from typing import Any

import orjson

from collector.prometheus.names import catalogue
from collector.prometheus.request import V1, V2
from tests.collector.prometheus.writes import HEADERS, Series, content, labels, packed

ODD_TIMES = (-(2**63), -1, 0, 1, 2**63 - 1, 1_420_070_399_999, 4_102_444_800_000)
ODD_VALUES = (math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1.8e308, 2**53 + 1.0, 2147483632.0, 9.3e18)
ODD_TEXTS = ("", "\0", "\n", "a" * 5000, "é" * 300, "../..", "GPU-", "{}", "\x7f", "0" * 400)


def requests(seed: int, now: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield messages of remote write with their version, not compressed; `now` is in milliseconds UTC.

    Most are whole messages that say odd things, the rest are true ones with bytes that were changed, cut or repeated.
    """
    chance = random.Random(seed)
    names = sorted(catalogue())
    for number in range(count):
        proto = chance.choice((V1, V2))
        said = content(proto, [_series(chance, names, now + 30_000 * number) for _ in range(chance.randint(0, 6))])
        yield proto, said if chance.random() < 0.5 else mutant(chance, said)


def http_requests(seed: int, now: int, count: int) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield headers and bodies as they travel: of those above, and with mutants of the compression and the headers."""
    chance = random.Random(seed)
    for proto, said in requests(seed, now, count):
        body = packed(said)
        headers = dict(HEADERS[proto])
        if chance.random() < 0.2:
            body = mutant(chance, body)
        if chance.random() < 0.1:
            headers[chance.choice(sorted(headers))] = chance.choice(("", "x", "gzip", "application/x-protobuf;proto="))
        yield headers, body


def answers(seed: int, count: int) -> Iterator[bytes]:
    """Yield answers of /api/v1/query and /api/v1/export, and mutants of them."""
    chance = random.Random(seed)
    for _ in range(count):
        series = [_series(chance, sorted(catalogue()), 1_763_000_000_000) for _ in range(chance.randint(0, 4))]
        said = _matrix(series) if chance.random() < 0.5 else b"\n".join(map(_line, series))
        yield said if chance.random() < 0.3 else mutant(chance, said)


def mutant(chance: random.Random, said: bytes) -> bytes:
    """Return bytes with one thing wrong with them."""
    if not said:
        return chance.randbytes(chance.randint(0, 40))
    at = chance.randrange(len(said))
    return chance.choice(
        (
            said[:at],
            said[at:],
            said[:at] + bytes([chance.randrange(256)]) + said[at + 1 :],
            said[:at] + chance.randbytes(4) + said[at:],
            said + said,
            said[:at] + b"\xff\xff\xff\xff\xff\x7f" + said[at:],
            chance.randbytes(len(said)),
        )
    )


def _series(chance: random.Random, names: list[str], at: int) -> Series:
    named: dict[str, str] = labels(chance.choice(names), chance.randrange(4), f"n{chance.randrange(3)}")
    named |= {"mode": chance.choice(("idle", "iowait", "user")), "cpu": str(chance.randrange(3)), "device": "sda"}
    if chance.random() < 0.3:
        named[chance.choice([*named, "GPU_I_ID", "exported_pod", "hpc_job", "node"])] = chance.choice(ODD_TEXTS)
    samples = [
        (
            chance.choice(ODD_TIMES) if chance.random() < 0.1 else at + 30_000 * number + chance.randrange(-40_000, 10),
            chance.choice(ODD_VALUES) if chance.random() < 0.3 else chance.uniform(0, 1e6),
        )
        for number in range(chance.randint(0, 4))
    ]
    return named, samples


def _matrix(series: list[Series]) -> bytes:
    result: list[dict[str, Any]] = [
        {"metric": named, "values": [[at / 1000, repr(value)] for at, value in samples] or [[1, "1"]]}
        for named, samples in series
    ]
    return orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def _line(series: Series) -> bytes:
    named, samples = series
    return orjson.dumps({"metric": named, "values": [v for _, v in samples], "timestamps": [t for t, _ in samples]})
