"""What the rows of one moment come to: processes of a GPU, GPUs that are not named, or one GPU read several times.

A log that does not tell its GPUs, hosts or runs apart must not have one of them overwrite the others.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from collector.importing.log_names import Gpu, Log, LogRow

_MOST_GPUS = 16  # of a host
_BURST = 0.6  # of the time between two rounds of a logger: a longer gap is between them
_NEARLY_ALL = 0.9
_OF_THE_BOARD = ("power_watts", "energy_joules", "energy_joules_total")


def settle(log: Log) -> None:
    """Make readings by moment of the rows of each GPU.

    Raises:
        ValueError: what told them apart is not in the log.
    """
    for (host, key), gpu in list(log.gpus.items()):
        if gpu.is_named or not (apart := _apart(gpu.rows)):
            continue
        log.assume(
            f"{len(apart)} rows come at a time and name no GPU: they are {len(apart)} GPUs, in the order of the rows"
        )
        log.skipped += len(gpu.rows) - sum(map(len, apart))
        del log.gpus[host, key]
        for index, rows in enumerate(apart):
            log.gpus[host, f"gpu{index}"] = replace(gpu, index=index, rows=rows, readings={})
    for (_, key), gpu in log.gpus.items():
        _merge(log, key, gpu)
        if gpu.uuid and "/" in gpu.uuid:
            _leave_to_board(log, gpu)


def _apart(rows: Sequence[LogRow]) -> list[list[LogRow]] | None:
    """Return rows that come in rounds of as many each time as those of so many GPUs, None where they do not."""
    ordered = sorted(rows, key=lambda row: row.at)
    for count in range(2, min(_MOST_GPUS, len(ordered) // 3) + 1):
        period = statistics.median(after.at - row.at for row, after in zip(ordered, ordered[count:], strict=False))
        rounds: list[list[LogRow]] = []
        for row in ordered:
            if not rounds or row.at - rounds[-1][-1].at > _BURST * period:
                rounds.append([])
            rounds[-1].append(row)
        whole = [one for one in rounds if len(one) == count]
        if len(whole) > 1 and len(whole) >= _NEARLY_ALL * len(rounds):
            apart = [list(one) for one in zip(*whole, strict=True)]
            return apart if _are_gpus(apart) else None
    return None


def _are_gpus(apart: Sequence[Sequence[LogRow]]) -> bool:
    """Say whether rounds are of several GPUs: their clock moves within a round, or one is above the other throughout.

    A logger that is faster than its clock tells one GPU several times in a second.
    """
    pairs = list(zip(apart[0], apart[1], strict=True))
    shared = {column for one, other in pairs for column in one.values.keys() & other.values.keys()}
    if not shared:  # a metric after another, of one GPU
        return False
    above = [[one.values.get(name, 0) > other.values.get(name, 0) for one, other in pairs] for name in shared]
    below = [[one.values.get(name, 0) < other.values.get(name, 0) for one, other in pairs] for name in shared]
    return any(one.at != other.at for one, other in pairs) or any(
        sum(each) >= _NEARLY_ALL * len(pairs) for each in (*above, *below)
    )


def _merge(log: Log, key: str, gpu: Gpu) -> None:
    """Make a reading of the rows of each moment: sums of processes, else means where they differ."""
    moments: dict[int, list[LogRow]] = defaultdict(list)
    for row in gpu.rows:
        moments[row.at].append(row)
    is_in_order = all(one.at <= other.at for one, other in pairwise(gpu.rows))
    gpu.rows.clear()
    differs = [at for at, rows in moments.items() if _read(gpu.readings.setdefault(at, {}), key, rows)]
    if differs and not is_in_order:
        raise ValueError(
            f"{key} has several readings at one moment, as of several hosts or runs: name the column that tells them "
            "apart host, or split the file"
        )
    if differs:
        log.assume("rows of one moment are one reading, their mean")


def _read(reading: dict[str, float], key: str, rows: Sequence[LogRow]) -> bool:
    """Put the rows of a moment into a reading, and say whether any two of one process or of none differ."""
    by_column: dict[str, list[LogRow]] = defaultdict(list)
    for row in rows:
        for column in row.values:
            by_column[column].append(row)
    differs = False
    for column, told in by_column.items():
        values = {row.values[column] for row in told}
        if told[0].process:
            reading[column] = _of_processes(column, {row.process: row.values[column] for row in told})
        elif len(values) > 1:
            differs = True
            _require_one_run(key, told)
            reading[column] = max(values) if "_total" in column else statistics.fmean(r.values[column] for r in told)
        else:
            reading[column] = values.pop()
    return differs


def _of_processes(column: str, values: dict[str, float]) -> float:
    most = {"_ratio": 1.0, "_ratio?": 100.0}.get(column[column.rfind("_") :])
    return sum(values.values()) if most is None else min(most, sum(values.values()))


def _require_one_run(key: str, told: Sequence[LogRow]) -> None:
    runs = sorted({row.run for row in told})
    if len(runs) > 1:
        raise ValueError(f"{key} is told by runs {' and '.join(runs)} at one moment: keep the rows of one")


def _leave_to_board(log: Log, gpu: Gpu) -> None:
    """Take away what is the whole board's: told of each of its instances, it would count as often as there are some."""
    told = [reading.pop(name) for reading in gpu.readings.values() for name in _OF_THE_BOARD if name in reading]
    if told:
        log.assume("the power of a GPU that is cut into instances is of none of them alone, and is not read")
