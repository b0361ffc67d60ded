"""Hostile remote writes: valid requests of either version, changed in their bytes, their message or what they say."""

import random

import cramjam

from bench.fuzz.rubbish import FLOATS, INTEGERS, TEXTS, bytes_of
from collector.prometheus.request import V1, V2
from tests.collector.prometheus.writes import Series, body, content, labels, packed

NAMES = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_DEV_XID_ERRORS",
    "node_memory_MemAvailable_bytes",
    "node_network_receive_bytes_total",
    "up",
    "no_such_metric",
)
STEP = 15_000  # milliseconds between scrapes
NODES = 40
LAYERS = ("body bytes", "message bytes", "labels", "values", "snappy", "none")
WEIGHTS = (1, 3, 2, 3, 1, 1)


class Writes:
    """Makes one hostile request after another."""

    def __init__(self, now: int, dice: random.Random) -> None:
        self._dice = dice
        self._time = now // 1000 - 3_000_000_000  # milliseconds: some weeks ago, and then on
        self._turn = 0

    def next(self) -> tuple[str, bytes, str]:
        """Return the layer that was changed, the body and the message that it says it is."""
        dice = self._dice
        self._turn += 1
        proto = dice.choice((V1, V2))
        (layer,) = dice.choices(LAYERS, WEIGHTS)
        series = self._series(layer)
        if layer == "body bytes":
            return layer, bytes_of(body(proto, series), dice), proto
        if layer == "message bytes":
            return layer, packed(bytes_of(content(proto, series), dice)), dice.choice((proto, proto, V1, V2))
        if layer == "snappy":
            return layer, self._snappy(content(proto, series)), proto
        return layer, body(proto, series), proto

    def _series(self, layer: str) -> list[Series]:
        dice = self._dice
        node = f"n{self._turn % NODES}"
        at = self._time + self._turn // NODES * STEP
        return [
            self._one(layer, name, node, gpu, at)
            for gpu in range(dice.choice((1, 2)))
            for name in dice.sample(NAMES, dice.choice((1, 4, 8)))
        ]

    def _one(self, layer: str, name: str, node: str, gpu: int, at: int) -> Series:
        dice = self._dice
        named = labels(name, gpu, node)
        samples: list[tuple[int, float]] = [(at, dice.uniform(0, 100))]
        if layer == "labels" and dice.random() < 0.5:
            self._spoil(named)
        if layer == "values" and dice.random() < 0.7:
            time = dice.choice((at, at, 0, -1, 2**62, -(2**63), at + 10**12, at - STEP))
            samples = [(time, dice.choice((*FLOATS, *map(float, INTEGERS))))] * dice.choice((1, 1, 3))
        return named, samples

    def _spoil(self, named: dict[str, str]) -> None:
        dice = self._dice
        kind = dice.randrange(5)
        if kind == 0:
            named[dice.choice(list(named))] = dice.choice(TEXTS)
        elif kind == 1:
            del named[dice.choice(list(named))]
        elif kind == 2:
            named |= {f"label_{index}": "x" for index in range(dice.choice((50, 130)))}
        elif kind == 3:
            named[dice.choice(TEXTS)] = "x"
        else:
            named |= {"namespace": dice.choice(TEXTS), "pod": dice.choice(TEXTS), "hpc_job": dice.choice(TEXTS)}

    def _snappy(self, message: bytes) -> bytes:
        """Return what is snappy and lies, or is none."""
        dice = self._dice
        kind = dice.randrange(4)
        if kind == 0:
            return bytes(cramjam.snappy.compress(message))  # the framed format
        if kind == 1:
            return b"\xff\xff\xff\xff\x0f" + bytes(dice.randrange(20))  # four gigabytes, it says
        if kind == 2 and dice.random() < 0.02:
            return bytes(cramjam.snappy.compress_raw(bytes(80 * 2**20)))
        return dice.choice((b"", message, dice.randbytes(100)))
