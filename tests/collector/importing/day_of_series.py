"""What a Prometheus kept of one day, series by series, as OpenMetrics text from which promtool makes blocks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.collector.importing import server

T0 = 1_792_800_000  # 2026-10-24 00:00 UTC, seconds
HOUR, DAY = 3600, 86_400
Labels = Mapping[str, str | None]
TRAINER = {"exported_pod": "train-0", "exported_namespace": "research", "exported_container": "main"}


class DayOfSeries:
    """Series of one day; times are seconds from its beginning."""

    def __init__(self) -> None:
        self._families: dict[str, dict[str, list[tuple[int, float]]]] = {}

    def add(self, name: str, labels: Labels, at: int, value: float) -> None:
        """Add one sample."""
        said = ",".join(f'{key}="{word}"' for key, word in labels.items() if word is not None)
        self._families.setdefault(name, {}).setdefault(said, []).append((at, value))

    def host(
        self,
        node: str,
        gpus: int,
        target: Labels,
        holder: Callable[[int, int], Labels] = lambda gpu, at: {},
        first: int = 0,
        uuid: str = "GPU-{node}-{gpu}",
        up: bool = True,
    ) -> None:
        """Add a host's exporter, scraped every minute; `holder` are labels of the exporter's own."""
        target = {"instance": f"{node}:9400", "job": "dcgm"} | dict(target)
        for at in range(first, DAY + 1, 60):
            if up:
                self.add("up", target, at, 1)
            for gpu in range(gpus):
                labels: dict[str, str | None] = {
                    "gpu": str(gpu),
                    "UUID": uuid.format(node=node, gpu=gpu),
                    "Hostname": node,
                }
                labels |= (
                    {"modelName": "NVIDIA H100 80GB HBM3", "device": f"nvidia{gpu}"} | target | dict(holder(gpu, at))
                )
                self.add("DCGM_FI_DEV_GPU_UTIL", labels, at, 90 if holder(gpu, at) else 0)
                self.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, at, 100_000 * at)

    @contextmanager
    def served(self, folder: Path, *flags: str) -> Iterator[str]:
        """Serve the day, and yield the address."""
        lines: list[str] = []
        for name, series in self._families.items():
            lines.append(f"# TYPE {name} gauge")
            for labels, samples in series.items():
                lines += [f"{name}{{{labels}}} {value} {T0 + at}" for at, value in sorted(samples)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "day.om").write_text("\n".join([*lines, "# EOF\n"]))
        server.make_blocks(folder / "day.om", folder / "data")
        with server.prometheus(folder / "data", None, *flags) as url:
            yield url


def from_one_to_three(gpu: int, at: int) -> Labels:
    """Return the labels of a pod that holds every GPU for two hours."""
    return TRAINER if HOUR < at <= 3 * HOUR else {}
