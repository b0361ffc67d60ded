"""Build the driver library that is none, and write the scenarios that it plays.

    folder = build(directory)
    scenario = healthy(directory / "scenario", gpus=8)
    LD_LIBRARY_PATH=<folder> GPULEDGER_FAKE_NVML=<scenario.path> gpuledger agent --once

`LD_LIBRARY_PATH` must stand before the process starts. A scenario may be changed and written again at any time: the
library looks at the file at every call.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

DOTTED = re.compile(r"^(field|gpm|samples|ring)_(?=\d|instance)")  # a Python name has no dot, a key has
LIBRARY = "libnvidia-ml.so.1"
MIB = 2**20
GIB = 2**30


def compiler() -> str | None:
    """Return the C compiler, or None where this machine has none."""
    return shutil.which("gcc") or shutil.which("cc")


def build(directory: Path) -> Path:
    """Compile the library into a folder below `directory` and return that folder, for LD_LIBRARY_PATH."""
    gcc = compiler()
    if gcc is None:
        raise RuntimeError("no C compiler here: install gcc to build the fake NVIDIA driver library")
    folder = directory / "fake-nvml"
    folder.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}", "-pthread"]
    output = folder / f"{LIBRARY}.{os.getpid()}"
    subprocess.run([gcc, *flags, "-o", output, *sorted(here.glob("*.c"))], check=True)
    output.replace(folder / LIBRARY)
    return folder


class Scenario:
    """What the fake driver plays: `key=value` lines, for every GPU ("*"), for one, or for the whole host.

    The keys are those that *.c here ask for: `power_mw`, `energy_mj` (and `energy_mj_per_s` for one that
    moves by itself), `field.74`, `samples.1` (`time:percent,…`), `processes` (`pid:bytes,…`), `gpm.2`. None takes a
    value away.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, str] = {}

    def host(self, **values: object) -> "Scenario":
        """Set values of the whole host, and write."""
        return self._put("", values)

    def every(self, **values: object) -> "Scenario":
        """Set values of every GPU that has none of its own, and write. `field_74` stands for `field.74`."""
        return self._put("*.", values)

    def gpu(self, index: int, **values: object) -> "Scenario":
        """Set values of one GPU, and write."""
        return self._put(f"{index}.", values)

    def instance(self, index: int, part: int, **values: object) -> "Scenario":
        """Set values of one MIG instance of a GPU, and write."""
        return self._put(f"{index}.mig.{part}.", values)

    def fail(self, function: str, code: int, index: int | None = None) -> "Scenario":
        """Let a call fail with a code of the driver's, 0 to let it work again; of every GPU where none is named."""
        prefix = "*." if index is None else f"{index}."
        return self._put(prefix, {f"fail.{function}": code})

    def hang(self, function: str, seconds: float, index: int | None = None) -> "Scenario":
        """Let a call take so long; 0 ends the hang, also of a call that hangs now."""
        return self._put("*." if index is None else f"{index}.", {f"hang.{function}": seconds})

    def host_hang(self, function: str, seconds: float) -> "Scenario":
        """Let a call hang that is of no GPU, as nvmlDeviceGetCount_v2."""
        return self._put("", {f"hang.{function}": seconds})

    def _put(self, prefix: str, values: dict[str, object]) -> "Scenario":
        for name, value in values.items():
            key = prefix + DOTTED.sub(r"\1.", "samples_1" if name == "samples" else name)
            self.lines[key] = "" if value is None else str(value)
        fresh = self.path.with_name(self.path.name + ".new")
        content = "".join(f"{key}={value}\n" for key, value in self.lines.items())
        fresh.write_bytes(content.encode(errors="surrogateescape"))  # so that a value may be no text
        fresh.replace(self.path)
        return self


def healthy(path: Path, gpus: int = 8) -> Scenario:
    """Return a scenario of H100s at work (without GPM), written to `path`."""
    return (
        Scenario(path)
        .host(count=gpus, driver="570.86.10")
        .every(
            name="NVIDIA H100 80GB HBM3",
            memory_total=81559 * MIB,
            memory_used=60000 * MIB,
            memory_reserved=544 * MIB,
            power_limit_mw=700_000,
            sm_clock_mhz=1755,
            sm_clock_max_mhz=1980,
            mem_clock_mhz=2619,
            mem_clock_max_mhz=2619,
            video_clock_mhz=1545,
            video_clock_max_mhz=1785,
            clock_reasons=0,
            performance_state=0,
            compute_mode=0,
            architecture=9,
            celsius=61,
            utilization=80,
            memory_utilization=35,
            encoder=0,
            decoder=0,
            bar1_total=131072 * MIB,
            bar1_used=2 * MIB,
            ecc_corrected=0,
            ecc_uncorrected=0,
            ecc_corrected_ever=0,
            ecc_uncorrected_ever=0,
            remapped_corrected=0,
            mig=0,
            nvlink=1,
            nvlinks=18,
            gpm=0,
            pcie_generation=5,
            pcie_generation_max=5,
            pcie_width=16,
            pcie_width_max=16,
            pcie_rx_kb=2_000_000,
            pcie_tx_kb=500_000,
            processes=f"{NOBODY}:1000000000",
            **{f"field_{number}": value for number, value in FIELDS.items()},
            **{f"samples_{kind}": ring for kind, ring in SAMPLES.items()},
        )
    )


def living(path: Path, gpus: int = 8) -> Scenario:
    """Return a scenario whose counters and rings move with real time, for measurements, written to `path`."""
    moving = {f"field_{number}_per_s": rate for number, rate in RATES.items()}
    rings = {f"ring_{kind}": levels for kind, levels in RINGS.items()}
    energy = {"power_mw": 520_000, "energy_mj": 1_000_000_000, "energy_mj_per_s": 520_000}
    return healthy(path, gpus).every(gpm=1, **ACTIVITY, **moving, **rings, **energy)


# The first number that Linux gives to no process: one that this machine gives was a holder, now and then.
NOBODY = 2**22
# Milliwatts, millijoules, KiB over NVLink, nanoseconds below the wanted clock, degrees, events, rows, what to do.
MEASURED = {186: 520_000, 83: 1_000_000_000, 138: 1000, 139: 2000, 82: 72}
FIELDS = MEASURED | dict.fromkeys((74, 75, 77, 79, 94, 142, 143, 144, 145, 230, 269, 270, 271), 0)
RATES = {83: 520_000, 138: 9_000_000, 139: 9_000_000}
# By sampling type: power in mW, utilization, memory utilization, encoder, decoder, SM and memory clock in MHz.
SAMPLES = {
    0: "1000:500000,2000:540000,3000:520000",
    1: "1000:100,2000:0,3000:100",
    2: "1000:40,2000:0,3000:50",
    **dict.fromkeys((3, 4), "none"),
    5: "1000:1755,2000:1980,3000:1755",
    6: "1000:2619,2000:2619",
}
RINGS = {0: "610000:160000", 1: "97:0", 2: "55:0", 3: "0:0", 4: "0:0", 5: "1755:1980", 6: "2619:2619"}
# Percent for 1 to 13; MiB/s for PCIe.
METRICS = {1: 88.0, 2: 71.5, 3: 33.0, 5: 41.25, 10: 52.0, 11: 1.5, 12: 22.0, 13: 6.0, 20: 500, 21: 2000}
ACTIVITY = {f"gpm_{metric}": value for metric, value in METRICS.items()}
