"""One trial: everybody at the same time on one host, and what each took of it."""

import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from bench.agent_contestants import ROOT, Contestant
from bench.agent_host import GPUS, Host
from bench.agent_meter import Meter, Page, kept_by, scrape

START_SECONDS = 60.0  # until its page answers
WARM_SECONDS = 10.0
SCRAPE_SECONDS = 15.0
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Cost:
    """What one of them took over the measured time. None where there is no page to read it from."""

    name: str
    measured_seconds: float
    cpu_seconds: float
    cpu_seconds_per_gpu_hour: float
    share_of_a_core: float
    rss_bytes_max: int
    threads: int
    metrics: int
    series: int | None
    cpu_seconds_per_hour_and_metric: float
    lateness_seconds_p50: float | None = None  # upper bounds, from the agent's own histogram
    lateness_seconds_p99: float | None = None
    lateness_seconds_max: float | None = None


class Running:
    """A contestant at work."""

    def __init__(self, contestant: Contestant, host: Host, directory: Path) -> None:
        self._contestant = contestant
        self._log = directory / f"{contestant.name.split()[0]}-{contestant.port}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                contestant.command, cwd=ROOT, env=host.environment, stdout=log, stderr=subprocess.STDOUT
            )
        self._meter = Meter(psutil.Process(self._process.pid))
        self._first: Page | None = None

    def __enter__(self) -> "Running":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def wait(self) -> None:
        """Wait until its page answers; raises as `look` does, and where it never answers."""
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            self.look()
            if time.monotonic() > until:
                raise RuntimeError(f"{self._contestant.name} does not answer: {self._said()}")
            time.sleep(0.5)

    def begin(self) -> None:
        """Count from now on."""
        self._first = self.scrape()
        self._meter.begin()

    def look(self) -> None:
        """Note its memory.

        Raises:
            RuntimeError: it has ended.
        """
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._contestant.name} ended: {self._said()}")
        self._meter.look()

    def scrape(self) -> Page | None:
        """Read its page, where it has one."""
        return None if self._contestant.port is None else scrape(self._contestant.port)

    def _answers(self) -> bool:
        try:
            self.scrape()
        except OSError:
            return False
        return True

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def cost(self, took: float) -> Cost:
        """Return what it took in so many seconds."""
        used, page = self._meter.cpu_seconds(), self.scrape()
        metrics = self._contestant.metrics if page is None else page.metrics
        before, after = (self._first.lateness, page.lateness) if self._first and page else ((), ())
        return Cost(
            name=self._contestant.name,
            measured_seconds=round(took, 1),
            cpu_seconds=round(used, 2),
            cpu_seconds_per_gpu_hour=round(used / took * SECONDS_PER_HOUR / GPUS, 3),
            share_of_a_core=round(used / took, 5),
            rss_bytes_max=self._meter.rss_bytes_max,
            threads=self._meter.process.num_threads(),
            metrics=len(metrics),
            series=None if page is None else page.series,
            cpu_seconds_per_hour_and_metric=round(used / took * SECONDS_PER_HOUR / max(1, len(metrics)), 3),
            lateness_seconds_p50=kept_by(0.5, before, after),
            lateness_seconds_p99=kept_by(0.99, before, after),
            lateness_seconds_max=kept_by(1.0, before, after),
        )


def measure(contestants: Sequence[Contestant], host: Host, directory: Path, seconds: float) -> list[Cost]:
    """Let all of them run at the same time, and return what each took."""
    with ExitStack() as stack:
        running = [stack.enter_context(Running(each, host, directory)) for each in contestants]
        for each in running:
            each.wait()
        time.sleep(WARM_SECONDS)
        for each in running:
            each.begin()
        began = time.monotonic()
        scraped = began
        while (now := time.monotonic()) - began < seconds:
            for each in running:
                each.look()
                if now - scraped >= SCRAPE_SECONDS:
                    each.scrape()
            scraped = now if now - scraped >= SCRAPE_SECONDS else scraped
            time.sleep(1)
        took = time.monotonic() - began
        return [each.cost(took) for each in running]
