"""The table that one of the articles behind gpuledger gives, and another, each cell with ours beside it."""

from dataclasses import dataclass

from analyzer.sizing.fitting import Fit, GpuKind, fitting_offers
from analyzer.sizing.memory import memory, weight_bytes
from analyzer.sizing.model import Model, model_named
from analyzer.sizing.work import Purpose, Sharding, work_of

GIGA = 10**9
CONTEXT = 2048
H100 = GpuKind("H100-80GB", 80 * 2**30, 8, None, None)
BY_SIZE = {"7B": "llama-2-7b", "13B": "llama-2-13b", "70B": "llama-2-70b"}


@dataclass(frozen=True)
class Cell:
    """What is published of one task and size, in GB; `high` None: no end is given. `why` ours lies elsewhere."""

    task: str
    purpose: Purpose
    size: str
    told: str
    low: float
    high: float | None
    second: str  # LLaMA-Factory's README: 7B, 13B, 65B (here beside 70B)
    why: str = ""

    @property
    def model(self) -> Model:
        """The model of the table that we take for it."""
        return model_named(BY_SIZE[self.size])

    @property
    def ours(self) -> tuple[float, float]:
        """Our lowest and highest figure: with checkpoints of activations and without; of inference weights and all."""
        if self.purpose == "inference":
            work = work_of("inference", "fp16", context=CONTEXT)
            return weight_bytes(self.model, work) / GIGA, memory(self.model, work, Sharding()).total_bytes / GIGA
        full, selective = (
            memory(self.model, work_of(self.purpose, recompute=how, context=CONTEXT), Sharding()).total_bytes / GIGA
            for how in ("full", "selective")
        )
        return full, selective

    @property
    def overlaps(self) -> bool:
        """Whether some of our range is in theirs."""
        low, high = self.ours
        return low <= (self.high or float("inf")) and high >= self.low

    @property
    def is_inside(self) -> bool:
        """Whether all of our range is in theirs."""
        low, high = self.ours
        return low >= self.low and high <= (self.high or float("inf"))

    def nodes(self) -> int:
        """Return how many nodes of eight H100 hold it, with a tenth of their memory free."""
        (fit,), _ = fitting_offers(self.model, work_of(self.purpose, context=CONTEXT), [H100])
        assert isinstance(fit, Fit)
        return fit.nodes


CHECKPOINTS = "at batch 1 with gradient checkpointing it takes less; without, it is in the range"
CELLS = (
    Cell("inference, FP16", "inference", "7B", "~14 GB", 13.3, 14.7, "-",
         "theirs is 2 bytes x 7 bn, weights alone; the model has 6.74 bn, and a cache and the framework come on top"),
    Cell("inference, FP16", "inference", "13B", "~26 GB", 24.7, 27.3, "-", "theirs is weights alone"),
    Cell("inference, FP16", "inference", "70B", "~140 GB", 133.0, 147.0, "-"),
    Cell("QLoRA", "qlora", "7B", "8-16 GB", 8, 16, "6 GB", CHECKPOINTS),
    Cell("QLoRA", "qlora", "13B", "20-28 GB", 20, 28, "12 GB", CHECKPOINTS),
    Cell("QLoRA", "qlora", "70B", "48-80 GB", 48, 80, "48 GB",
         "with checkpointing below their range, without it above: activations of 2,048 tokens alone are 55 GB"),
    Cell("LoRA", "lora", "7B", "24-40 GB", 24, 40, "16 GB", CHECKPOINTS),
    Cell("LoRA", "lora", "13B", "40-60 GB", 40, 60, "32 GB", CHECKPOINTS),
    Cell("LoRA", "lora", "70B", "80+ GB, several GPUs", 80, None, "160 GB"),
    Cell("full, Adam, mixed", "full", "7B", "112+ GB", 112, None, "160 GB",
         "theirs is 16 bytes x 7 bn; 16 x 6.74 bn is 108 GB, and checkpointing adds little"),
    Cell("full, Adam, mixed", "full", "13B", "200+ GB", 200, None, "320 GB"),
    Cell("full, Adam, mixed", "full", "70B", "several nodes", 8 * 85.9, None, "1200 GB"),
)  # fmt: skip


def table() -> str:
    """Return the comparison as Markdown."""
    lines = [
        "| task | model | published, GB | LLaMA-Factory | ours, GB | where ours lies elsewhere |",
        "|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        low, high = cell.ours
        told = cell.told.removesuffix(" GB")
        why = "" if cell.is_inside else cell.why
        nodes = f"; {cell.nodes()} nodes of 8 H100" if cell.told == "several nodes" else ""
        lines.append(f"| {cell.task} | {cell.size} | {told} | {cell.second} | {low:.1f} to {high:.1f}{nodes} | {why} |")
    return "\n".join(lines) + "\n"
