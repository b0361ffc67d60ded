"""The instruments of one GPU: what is read of it at every beat, and what the next beat subtracts from."""

import ctypes
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from agent.attribution.devices import GpuProcess, Holding
from agent.gpu.nvidia.activity import SHORTEST_SECONDS, Gpm, GpmBuffer, Rings
from agent.gpu.nvidia.calls import (
    EVERY_BEAT,
    NOW_AND_THEN,
    PCIE_REPLAYS,
    RECOVERY_ACTION,
    REMAP_FAILURE,
    REMAP_PENDING,
    REMAPPED_CORRECTED,
    REMAPPED_UNCORRECTED,
    Calls,
    Failures,
    Field,
    Fields,
    Meter,
)
from agent.gpu.nvidia.links import NvLink, PcieLink, PcieWatch
from agent.gpu.nvidia.power import Clocks, EnergyBook, EnergyMeter, Power, Throttles
from agent.gpu.nvidia.xid import XidWatch
from agent.procfs import short
from agent.source import Value


def memory(calls: Calls, handle: object) -> Mapping[str, Value]:
    """Return the memory columns of a GPU or MIG instance, in bytes, and the total as `memory_bytes`.

    Drivers before 510 know only the older form, which counts the reserve as used: it is then None
    (https://github.com/wookayin/gpustat/issues/141).
    """
    found = calls.ask(memory_info_v2, handle)
    if found is not None:
        return _columns(found.used, found.reserved)
    if calls.supports(memory_info_v2.__name__):
        return _columns(None, None)  # it failed this once: the older form would count the reserve for one beat
    found = calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return _columns(None, None) if found is None else _columns(found.used, None)


def memory_total_bytes(calls: Calls, handle: object) -> int | None:
    """Return the device memory in bytes, or None where the GPU shares the host's (GB10); exceptions as `Calls.ask`."""
    found = calls.ask(memory_info_v2, handle) or calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if found is None else int(found.total)


def memory_info_v2(handle: object) -> pynvml.c_nvmlMemory_v2_t:
    """Ask in the newer form, under a name of its own, so that a driver without it is still asked in the older."""
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def _columns(used: int | None, reserved: int | None) -> Mapping[str, Value]:
    return {"memory_used_bytes": used, "memory_reserved_bytes": reserved}


# Whether one GPU is well: ECC errors, replaced rows, replayed packets, and what the driver asks for.
#
# All of it changes rarely and is dear to ask for, so it is asked for now and then. What holds is repeated in between;
# what is counted is told when it was asked for, and unknown in between.
_ECC = {
    "ecc_corrected_events": ("nvmlDeviceGetTotalEccErrors(corrected)", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    "ecc_uncorrected_events": ("nvmlDeviceGetTotalEccErrors(uncorrected)", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
}
_ECC_QUESTION = _ECC["ecc_uncorrected_events"][0]
_ROWS = {
    "remapped_rows_corrected": REMAPPED_CORRECTED,
    "remapped_rows_uncorrected": REMAPPED_UNCORRECTED,
    "row_remap_pending": REMAP_PENDING,
    "row_remap_failure": REMAP_FAILURE,
}
_FLAGS = frozenset(("row_remap_pending", "row_remap_failure"))
# nvml.h, NVML_GPU_RECOVERY_ACTION_*, from 0
_ACTIONS = (
    "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset",
    "system_reboot",
)  # fmt: skip


class Health:
    """Asks about one GPU's health at each `look`, and tells the newest answers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._batch = Fields(calls, NOW_AND_THEN)
        self._events = {name: Meter(over_silence=True) for name in (*_ECC, "pcie_replay_events")}
        self._lasting: Mapping[str, Value] = {}
        self._counted: Mapping[str, Value] = dict.fromkeys(self._events)

    def look(self, handle: object) -> None:
        """Ask the driver; exceptions as `Calls.ask`."""
        values = self._batch.read(handle)
        self._lasting = {**self._rows(handle, values), "recovery_action": action(values.get(RECOVERY_ACTION))}
        totals = {"pcie_replay_events": values.get(PCIE_REPLAYS)}
        for column, (name, kind) in _ECC.items():
            totals[column] = self._calls.ask_as(
                name, pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC
            )
        self._counted = {column: meter.amount(totals[column]) for column, meter in self._events.items()}

    def read(self) -> Mapping[str, Value]:
        """Return the columns, each count once."""
        counted, self._counted = self._counted, dict.fromkeys(self._events)
        return {**self._lasting, **counted}

    @property
    def ecc_refusal(self) -> str | None:
        """Why ECC errors are not counted, in words; None where they are."""
        return self._calls.refusal(_ECC_QUESTION)

    @property
    def rows_refusal(self) -> str | None:
        """Why replaced rows are unknown, in words; None where they are known."""
        if self._batch.refusal(REMAPPED_CORRECTED) is None:
            return None
        return self._calls.refusal(pynvml.nvmlDeviceGetRemappedRows.__name__)

    def _rows(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Replaced rows by field, else by the older call (corrected, uncorrected, pending, failure)."""
        found: Mapping[str, int | None] = {name: values.get(field) for name, field in _ROWS.items()}
        if all(value is None for value in found.values()):
            answer = self._calls.ask(pynvml.nvmlDeviceGetRemappedRows, handle)
            found = dict(zip(_ROWS, answer or (None,) * len(_ROWS), strict=True))
        return {name: bool(value) if name in _FLAGS and value is not None else value for name, value in found.items()}


def action(number: int | None) -> str | None:
    """Return the driver's word for what it asks for; one that is newer than we are keeps its number."""
    if number is None:
        return None
    return _ACTIONS[number] if number < len(_ACTIONS) else f"action_{number}"


# Which processes hold a GPU, how much of its memory, and how much of its SM time they take.
MOST_PROCESSES = 4096  # of one GPU and one reading; a longer list is not known whole
_ROOM = 37  # entries that are asked for at first; a prime, so that no other number of entries is as long
_ROOM_TRIES = 3  # a list may grow between two questions
_ENTRY_BYTES = range(16, 72, 8)  # 16 at first, 24 as of drivers 450, 32 in 535.43 to 535.86 under the name of 24
_ENTRY = struct.Struct("=I4xQ")  # pid and bytes: how every version of an entry begins
_MARK = b"\xa5"  # what no entry ends in: not a number of an instance, and not the top byte of a size
_PID_MAX = 2**22  # the kernel's own limit (PID_MAX_LIMIT)
_MEMORY_UNKNOWN, _MEMORY_BYTES_MAX = 2**64 - 1, 2**50
_FORMS = ("_v3", "_v2", "")  # of each question, the newest first

# Who draws a screen with a few MiB of every GPU holds none of them. Names as the kernel cuts them, to 15 characters.
_DISPLAY_SERVERS = frozenset((
    "Xorg", "Xorg.bin", "X", "Xwayland", "Xvfb", "Xvnc", "gnome-shell", "gnome-remote-de", "mutter", "kwin_x11",
    "kwin_wayland", "plasmashell", "weston", "sway", "gdm-x-session", "sddm", "lightdm", "cinnamon", "compiz", "xfwm4",
    "nxagent", "dcvxgl", "nvidia-settings",
))  # fmt: skip
_SCREEN_BYTES_MAX = 16 * 2**20  # a context that only draws a screen; a renderer's own takes more


def process_entries(answer: bytes, count: int, room: int) -> list[tuple[int, int | None]]:
    """Return pid and memory of each entry of a list that the driver wrote over `_MARK`, asked for `room` entries.

    Drivers differ in the size of an entry under one name. How far the answer was written tells it: an entry's last
    number is its end, but for padding. Where a driver clears all the room first, that is how far it was written. Where
    it wrote on for another reason, all sizes that make a list of processes have to tell the same.

    Raises:
        ValueError: no size of an entry explains what was written; nobody knows who is listed.
    """
    written = len(answer.rstrip(_MARK))
    ends = [size for entries in (count, room) for size in _ENTRY_BYTES if 0 <= entries * size - written < 8]
    for sizes in (ends[:1], [size for size in _ENTRY_BYTES if count * size - written < 8]):
        lists = [_entries_of(answer, count, size) for size in sizes]
        found = [entries for entries in lists if entries is not None]
        if found and all(entries == found[0] for entries in found):
            return found[0]
    raise ValueError(f"{written} bytes are no list of {count} processes that is known")


def _entries_of(answer: bytes, count: int, size: int) -> list[tuple[int, int | None]] | None:
    """Return the entries of a list whose entries have this size; None where they are none of processes."""
    found = [_ENTRY.unpack_from(answer, place * size) for place in range(count)]
    if not all(0 < pid <= _PID_MAX and (used == _MEMORY_UNKNOWN or used < _MEMORY_BYTES_MAX) for pid, used in found):
        return None
    return [(pid, None if used == _MEMORY_UNKNOWN else used) for pid, used in found]


def _process_list(symbol: str, handle: object) -> list[tuple[int, int | None]]:
    """Ask the driver for a list of processes under the name of this function; the binding takes its size on trust."""
    function, room = pynvml._nvmlGetFunctionPointer(symbol), _ROOM
    for _ in range(_ROOM_TRIES):
        answer, count = bytearray(_MARK) * (room * _ENTRY_BYTES[-1]), ctypes.c_uint(room)
        code = function(handle, ctypes.byref(count), (ctypes.c_char * len(answer)).from_buffer(answer))
        if code == pynvml.NVML_SUCCESS and count.value <= room:
            return process_entries(bytes(answer), count.value, room) if count.value else []
        if code not in (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, pynvml.NVML_SUCCESS):
            raise pynvml.NVMLError(code)
        room = min(2 * max(count.value, room), 2 * MOST_PROCESSES) + 1
    raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)


class Processes:
    """The processes of one GPU or MIG instance, and how far the driver's record of their SM time was read.

    `proc` is where the names of processes that draw are looked up.
    """

    def __init__(self, uuid: str, calls: Calls, proc: Path) -> None:
        self._uuid = uuid
        self._calls = calls
        self._proc = proc
        self._read_until: int | None = None
        self.refusal: str | None = None  # why who computes is not told, in words
        self._answered: set[str] = set()  # lists that had an entry once: a refusal is then no proof that there is none

    def read(self, handle: object) -> Holding:
        """Return who holds the GPU now, by pid; where a list cannot be read it is not known whole.

        Who computes holds it, also through MPS, and who draws more than a screen.
        """
        compute, mps = self._list("Compute", handle), self._list("MPSCompute", handle, is_optional=True)
        graphics = self._list("Graphics", handle, is_optional=True)
        memory = _memory((*(compute or ()), *(mps or ())))
        drawn = [(pid, size) for pid, size in graphics or () if pid in memory or not self._only_draws(pid, size)]
        memory = _memory((*memory.items(), *drawn))
        kept = sorted(memory)[:MOST_PROCESSES]
        shares = self._shares(handle, set(memory)) if memory else {}
        is_whole = None not in (compute, mps, graphics) and len(kept) == len(memory)
        return Holding(
            tuple(GpuProcess(self._uuid, pid, memory[pid], shares.get(pid)) for pid in kept),
            frozenset((self._uuid,)) if is_whole else frozenset(),
        )

    def _list(self, kind: str, handle: object, *, is_optional: bool = False) -> Sequence[tuple[int, int | None]] | None:
        """Return a list of the driver's, or None where it could not be read: that is not an empty one.

        It is asked for in the driver's newest form, and in older ones where there is no such. What `is_optional` is
        empty where the driver has it in no form.
        """
        for form in _FORMS:
            symbol = f"nvmlDeviceGet{kind}RunningProcesses{form}"
            listed = self._calls.ask_as(symbol, _process_list, symbol, handle)
            refusal = self._calls.refusal(symbol)
            self.refusal = refusal if kind == "Compute" else self.refusal
            if listed is not None or self._calls.supports(symbol):
                self._answered.update([kind] if listed else [])
                return listed if listed is not None or refusal is not None else ()
        return () if is_optional and kind not in self._answered else None

    def _only_draws(self, pid: int, memory_bytes: int | None) -> bool:
        name = (short(f"{self._proc}/{pid}/comm") or b"").decode("utf-8", "replace").strip()
        return name in _DISPLAY_SERVERS or (memory_bytes is not None and memory_bytes <= _SCREEN_BYTES_MAX)

    def _shares(self, handle: object, holders: set[int]) -> dict[int, float]:
        """Return pid to share of SM time, for all holders or for none."""
        since, question = self._read_until, pynvml.nvmlDeviceGetProcessUtilization
        samples = self._calls.ask(question, handle, since or 0)
        if samples is None and self._calls.refusal(question.__name__) is not None:
            return {}
        samples = samples or ()  # the binding raises an error of code 0 where there is nothing new
        new = [sample for sample in samples if sample.timeStamp > (since or 0)]
        self._read_until = max((sample.timeStamp for sample in new), default=since or 0)
        if since is None:  # asked from the beginning of time, the driver answers with samples of any age
            return {}
        busy: dict[int, list[int]] = defaultdict(list)
        for sample in new:
            if sample.smUtil <= 100:  # the driver is known to return garbage above 100%
                busy[sample.pid].append(sample.smUtil)
        if not holders.intersection(busy):
            return {}
        return {pid: sum(busy[pid]) / len(busy[pid]) / 100 if pid in busy else 0.0 for pid in holders}


def _memory(entries: Iterable[tuple[int, int | None]]) -> dict[int, int | None]:
    """Return pid to bytes; a process with several contexts is one process."""
    found: dict[int, int | None] = {}
    for pid, size in entries:
        found[pid] = _larger(found.get(pid), size)
    return found


def _larger(first: int | None, second: int | None) -> int | None:
    return max((value for value in (first, second) if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class NvmlContext:
    """Made once for a source and handed to each of its GPUs. `failures` counts refused questions by their name."""

    failures: Failures
    seconds: Callable[[], float]  # monotonic
    wall_seconds: Callable[[], float]
    pcie: PcieWatch
    xid: XidWatch
    energy: EnergyBook
    proc: Path
    sysfs: Path
    driver: str | None  # its version
    process_seconds: float  # between two lists of processes

    def gpm(self, calls: Calls, handle: object, buffer: GpmBuffer, instance: int | None = None) -> Gpm | None:
        """Return the activity meter of a GPU, or of a GPU instance by its number; None where the GPU has none."""
        support = calls.ask(pynvml.nvmlGpmQueryDeviceSupport, handle)
        if support is None or not support.isSupportedDevice:
            return None
        earlier, later = calls.ask(pynvml.nvmlGpmSampleAlloc), calls.ask(pynvml.nvmlGpmSampleAlloc)
        if earlier is None or later is None:
            return None
        return Gpm(calls, instance, (earlier, later), buffer, self.seconds)


_LOOK_SECONDS = 30.0  # between two looks at what changes rarely


class Instruments:
    """Made anew after a loss or a change of mode, since nothing measured before it may be subtracted from.

    Only the energy meter outlives that: it sees by itself whether the driver's counter started anew.
    """

    def __init__(self, uuid: str, calls: Calls, energy: EnergyMeter, context: NvmlContext) -> None:
        self.gpm: Gpm | None = None
        self._uuid = uuid
        self._calls = calls
        self._context = context
        self.batch = Fields(calls, EVERY_BEAT)
        self.rings = Rings(calls)
        self.power = Power(calls, self.batch, energy)
        self.clocks = Clocks(calls)
        self.throttles = Throttles(self.batch)
        self.health = Health(calls)
        self.nvlink = NvLink(self.batch)
        self._link = PcieLink(calls)
        self._looked: float | None = None

    def row(self, handle: Any, seconds: float | None) -> Mapping[str, Value]:  # noqa: ANN401  # an opaque pointer
        """Return the columns of gpu_samples for the `seconds` since the last call, None where it is the first."""
        values = self.batch.read(handle)
        if self._look_is_due():
            self._look(handle)
        rings = self.rings.read(handle, seconds)
        return {
            **rings,
            **memory(self._calls, handle),
            **self.power.read(handle, values),
            **self.clocks.read(handle, values),
            **self.throttles.read(values),
            **self.health.read(),
            **self._link.read(handle, rings["utilization_ratio"]),
            **(self._video(handle) if seconds is None or seconds >= SHORTEST_SECONDS else {}),
            **(self.gpm.read(handle, seconds) if self.gpm else self._pcie(seconds)),
            **self.nvlink.read(values),
        }

    def gpm_tells(self, column: str) -> bool:
        """Return whether the chip itself measures what this column says."""
        gpm = self.gpm
        return gpm is not None and column in gpm.tells

    def look_soon(self) -> None:
        """Ask for what changes rarely at the next reading: something happened."""
        self._looked = None

    def close(self) -> None:
        """Give the activity meter's memory back."""
        if self.gpm is not None:
            self.gpm.close()
            self.gpm = None

    def _look_is_due(self) -> bool:
        return self._looked is None or self._context.seconds() - self._looked >= _LOOK_SECONDS

    def _look(self, handle: object) -> None:
        self._looked = self._context.seconds()
        self.clocks.look(handle)
        self.health.look(handle)
        self._link.look(handle)
        self.nvlink.look(self._calls, handle)

    def _video(self, handle: object) -> Mapping[str, Value]:
        """Encoders and decoders, as the driver last averaged them over up to a second."""
        encoder = self._calls.ask(pynvml.nvmlDeviceGetEncoderUtilization, handle)
        decoder = self._calls.ask(pynvml.nvmlDeviceGetDecoderUtilization, handle)
        return {
            "encoder_utilization_ratio": encoder[0] / 100 if encoder and encoder[0] <= 100 else None,
            "decoder_utilization_ratio": decoder[0] / 100 if decoder and decoder[0] <= 100 else None,
        }

    def _pcie(self, seconds: float | None) -> dict[str, Value]:
        rates = self._context.pcie.take(self._uuid)
        return {
            name: None if rate is None or seconds is None else round(rate * seconds)
            for name, rate in zip(("pcie_receive_bytes", "pcie_transmit_bytes"), rates, strict=True)
        }
