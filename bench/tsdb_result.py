"""What one store made of the same readings: the figures, their table, and the bars they are held to."""

from collections.abc import Sequence
from dataclasses import dataclass

TIMES_FASTER = 4.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What one store made of it. `until_sealed` is until all could be asked for; with the others that is at once."""

    name: str
    values: int
    seconds: float
    seconds_until_sealed: float
    values_per_second: int
    values_per_second_until_sealed: int
    bytes_sent_per_value: float
    server_cores: float
    client_cores: float
    rss_bytes_max: int
    bytes_at_rest: int
    bytes_per_value: float
    remark: str = ""


def taken_of(
    name: str,
    values: int,
    seconds: float,
    rest: float,
    size: int,
    cores: float,
    cpu: float,
    rss: int,
    at_rest: int,
    remark: str,
) -> Taken:
    """Return the figures of one store; `rest` is the seconds from the last answer until all could be asked for."""
    return Taken(
        name=name,
        values=values,
        seconds=round(seconds, 2),
        seconds_until_sealed=round(seconds + rest, 2),
        values_per_second=round(values / seconds),
        values_per_second_until_sealed=round(values / (seconds + rest)),
        bytes_sent_per_value=round(size / values, 3),
        server_cores=round(cores, 2),
        client_cores=round(cpu / seconds, 2),
        rss_bytes_max=rss,
        bytes_at_rest=at_rest,
        bytes_per_value=round(at_rest / values, 4),
        remark=remark,
    )


def table(found: Sequence[Taken]) -> str:
    """Return the figures as the table of bench/README.md."""
    rows = [
        "| | values/s taken | values/s until they can be asked for | bytes/value sent | bytes/value at rest "
        "| server, client cores | memory (max) |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {one.name} | {one.values_per_second:,} | {one.values_per_second_until_sealed:,} "
        f"| {one.bytes_sent_per_value:.2f} | {one.bytes_per_value:.3f} "
        f"| {one.server_cores:.2f}, {one.client_cores:.2f} | {one.rss_bytes_max / 1e6:,.0f} MB |"
        for one in found
    ]
    return "\n".join(rows)


def bars(mine: Taken, others: Sequence[Taken]) -> dict[str, bool]:
    """Return what is promised, and whether it was kept: of values that are taken (ours are durable then, theirs are
    not), and of bytes at rest. How we compare until all is sealed is told beside it.
    """
    kept = {}
    for one in others:
        times = mine.values_per_second / one.values_per_second
        sealed = mine.values_per_second_until_sealed / one.values_per_second
        promise = f"{TIMES_FASTER:g} times the values a second of {one.name} ({times:.1f}; {sealed:.1f} until sealed)"
        kept[promise] = times >= TIMES_FASTER
        kept[f"no more bytes a value than {one.name}"] = mine.bytes_per_value <= one.bytes_per_value
    return kept
