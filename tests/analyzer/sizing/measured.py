"""Published measurements of throughput and memory, with ours beside them."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from analyzer.sizing.fitting import Fit, GpuKind, named_bytes
from analyzer.sizing.memory import memory
from analyzer.sizing.model import model_named
from analyzer.sizing.throughput import MEASURED, Efficiency, Roofline, Speed, Traffic, speed
from analyzer.sizing.work import Sharding, Work, board_of, precision_named

DATA = Path(__file__).parents[2] / "data" / "sizing"


@dataclass(frozen=True)
class Measured:
    """Output tokens a second of all GPUs; `batch` None: at most."""

    model: str
    sku: str
    tensor: int
    precision: str
    cache: str | None
    is_held_back: bool
    input_tokens: int
    output_tokens: int
    tokens_per_second: int
    batch: int | None

    def ours(self, measured: Efficiency = MEASURED) -> float:
        """Return our estimate."""
        model = model_named(self.model)
        cache = precision_named(self.cache) if self.cache else None
        traffic = Traffic(self.input_tokens, self.output_tokens)
        work = Work("inference", model.held_in(self.precision), context=1, cache=cache)
        kind = GpuKind(self.sku, named_bytes(self.sku), 8, None, None)
        fit = Fit(kind, memory(model, work, Sharding(tensor=self.tensor)))
        if self.batch is not None:
            board = board_of(self.sku)
            assert board is not None
            assert model.shape is not None
            step = Roofline(fit, work, board, model.shape, measured)
            return self.output_tokens / step.request_seconds(self.batch, traffic)
        # Its own settings: 95% of the memory, and of mixtures attention over copies, each with a batch of its own.
        mixed = model.shape is not None and model.shape.experts > 1
        settings = replace(measured, free=0.05, most_batch=2048 * (self.tensor if mixed else 1))
        found = speed(fit, model, work, traffic, settings)
        assert isinstance(found, Speed), (self, found)
        return found.output_tokens_per_second


def throughputs() -> list[Measured]:
    """Return the published measurements."""
    rows = tomllib.loads((DATA / "throughput.toml").read_text())["measured"]
    return [
        Measured(
            row["model"],
            row["sku"],
            row["tensor"],
            row["precision"],
            row.get("cache"),
            row["held_back"],
            tokens_in,
            tokens_out,
            rate,
            batch[0] if batch else None,
        )
        for row in rows
        for tokens_in, tokens_out, rate, *batch in row["figures"]
    ]
