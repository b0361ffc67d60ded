"""What one shape of batches came to: the figures, their table, and the bars they are held to."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from bench.machine import quantile
from bench.serving import Spent
from bench.telemetry import BEATEN, SLOW
from bench.volley import Volley

MOST_RSS_BYTES = 1_500_000_000
MOST_WAIT_SECONDS = 2.0
MOST_BEHIND_SECONDS = 60.0  # sealing, behind what comes: it begins every minute, or after two million rows
BUSY = 0.92  # of all cores: beyond this it is processor time that bounds


@dataclass(frozen=True, slots=True)
class Shape:
    """What every body of a run holds.

    `least` is the bar in rows of gpu_samples a second, None where there is none. `paced` says that bodies are due a
    little faster than that, and not as soon as there is room for them.
    """

    key: str
    name: str
    tables: tuple[str, ...]
    beats: int
    least: int | None
    every_column: bool = False
    paced: bool = False


SHAPES = (
    Shape("480", "480 rows of gpu_samples", ("gpu_samples",), 60, 200_000, paced=True),
    Shape("80", "80 rows of gpu_samples", ("gpu_samples",), 10, 100_000),
    Shape("all", "all tables that an agent sends of 10 s", tuple(BEATEN | SLOW), 10, 60_000),
    Shape("480-full", "480 rows, every column filled", ("gpu_samples",), 60, None, every_column=True),
    Shape("80-full", "80 rows, every column filled", ("gpu_samples",), 10, None, every_column=True),
)


@dataclass
class Result:
    """What one shape came to."""

    shape: str
    rows_per_body: dict[str, int]
    bytes_per_body: float
    seconds: float
    bodies: int
    gpu_samples_per_second: int
    rows_per_second: int
    wait_seconds_p50: float
    wait_seconds_p99: float
    wait_seconds_max: float
    answers: dict[str, int]
    ran_out_of_bodies: bool
    server_cores: float
    server_cores_by_thread: dict[str, float]
    generator_cores: float
    machine_busy_ratio: float
    machine_waiting_for_disk_ratio: float
    rss_bytes_max: int
    rss_bytes_every_10_s: list[int]
    sealing_behind_seconds: float
    seconds_until_all_is_sealed: float
    lake_bytes_per_row: float
    peak_gpu_samples_per_second: int
    bound: str


def result_of(
    shape: Shape,
    volley: Volley,
    spent: Spent,
    rows: dict[str, int],
    size: float,
    sealed: tuple[int, float],
) -> Result:
    """Return what one shape came to.

    `sealed` is how many batches were when the last was answered, and the seconds from then on until all were.
    """
    waits = sorted(volley.waits)
    rate = volley.rate
    return Result(
        shape=shape.name,
        rows_per_body=rows,
        bytes_per_body=round(size, 1),
        seconds=round(volley.seconds, 2),
        bodies=volley.accepted,
        gpu_samples_per_second=round(rate * rows["gpu_samples"]),
        rows_per_second=round(rate * sum(rows.values())),
        wait_seconds_p50=round(quantile(waits, 0.5), 3),
        wait_seconds_p99=round(quantile(waits, 0.99), 3),
        wait_seconds_max=round(quantile(waits, 1.0), 3),
        answers={str(status): count for status, count in volley.answers.items()},
        ran_out_of_bodies=volley.ran_out,
        server_cores=round(spent.cores, 3),
        server_cores_by_thread=spent.cores_by_thread,
        generator_cores=round(volley.cpu_seconds / volley.seconds, 3),
        machine_busy_ratio=spent.machine_busy_ratio,
        machine_waiting_for_disk_ratio=spent.machine_waiting_for_disk_ratio,
        rss_bytes_max=max(spent.rss_bytes),
        rss_bytes_every_10_s=list(spent.rss_bytes[::10]),
        sealing_behind_seconds=round((volley.accepted - sealed[0]) / rate, 1),
        seconds_until_all_is_sealed=round(sealed[1], 1),
        lake_bytes_per_row=0.0,
        peak_gpu_samples_per_second=0,
        bound="",
    )


def bound_of(spent: Spent) -> str:
    """Say what bounded the rate of a closed loop, as far as processor times can tell."""
    name, cores = next(iter(spent.cores_by_thread.items()), ("none", 0.0))
    if spent.machine_busy_ratio >= BUSY:
        return (
            f"processor time: all cores are {spent.machine_busy_ratio:.0%} busy, {name} takes most ({cores:.2f} cores)"
        )
    if cores >= BUSY:
        return f"one thread: {name} takes {cores:.2f} cores"
    threads = ", ".join(f"{each} {share:.2f}" for each, share in islice(spent.cores_by_thread.items(), 3))
    return (
        f"waiting: cores are {spent.machine_busy_ratio:.0%} busy and {spent.machine_waiting_for_disk_ratio:.0%} wait "
        f"for the disk; threads of one interpreter take turns ({threads})"
    )


def table(results: Sequence[Result]) -> str:
    """Return the figures as the table of bench/README.md."""
    lines = [
        "| body | bytes | GPU samples/s | rows/s | wait p50, p99, max | sealing behind | memory (max) "
        "| server, generator | at most, for 15 s | which is bound by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.shape} | {one.bytes_per_body:,.0f} | {one.gpu_samples_per_second:,} | {one.rows_per_second:,} "
        f"| {one.wait_seconds_p50:.2f}, {one.wait_seconds_p99:.2f}, {one.wait_seconds_max:.2f} s "
        f"| {one.sealing_behind_seconds:.0f} s | {one.rss_bytes_max / 1e6:,.0f} MB "
        f"| {one.server_cores:.2f}, {one.generator_cores:.2f} cores "
        f"| {one.peak_gpu_samples_per_second:,} | {one.bound} |"
        for one in results
    ]
    return "\n".join(lines)


def bars(results: Sequence[Result], shapes: Sequence[Shape]) -> dict[str, bool]:
    """Return what is promised, and whether it was kept."""
    found = {}
    for shape, one in zip(shapes, results, strict=True):
        if shape.least is not None:
            found[f"{shape.name}: at least {shape.least:,} GPU samples/s"] = one.gpu_samples_per_second >= shape.least
            found[f"{shape.name}: p99 at most {MOST_WAIT_SECONDS:g} s"] = one.wait_seconds_p99 <= MOST_WAIT_SECONDS
            found[f"{shape.name}: memory at most 1.5 GB"] = one.rss_bytes_max <= MOST_RSS_BYTES
        if shape.paced:
            behind = one.sealing_behind_seconds
            found[f"{shape.name}: sealing keeps up, within a minute"] = behind <= MOST_BEHIND_SECONDS
    return found
