"""Mixed precision, where SMs are measured busy and tensor cores are measured at rest."""

from analyzer.findings.health.notice import Notice
from analyzer.recommendations.proposal import Proposal, Saved
from analyzer.recommendations.recommendation import Constraint, Move, python
from analyzer.recommendations.saving import Share, recovered
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types.idle import whole_place

# PyTorch, "What Every User Should Know About Mixed Precision Training in PyTorch" (July 2022): networks became 1.5 to
# 5.5 times as fast by it on V100, and on A100 1.3 to 2.5 times on top of that. Taken of working time: 1 - 1/1.3,
# 1 - 1/1.5 and 1 - 1/2.5, in permille.
_FASTER = Share(230, 333, 600)
_NO_BF16 = ("V100", "T4", "P100", "P40", "TITAN", "RTX")  # Turing and older compute no BF16 on tensor cores


def mixed_precision(notice: Notice, site: Site) -> Proposal | None:
    """Train in BF16 with autocast, or in FP16 where the GPU knows no BF16."""
    runs = site.placed(notice.run_ids)
    if not runs:
        return None
    sku = site.sku_of(runs[0])
    half = "float16" if sku is not None and sku.startswith(_NO_BF16) else "bfloat16"
    place = whole_place(site, runs)
    scaler = "\n# and scale the loss: torch.amp.GradScaler(), as FP16 has few exponents" if half == "float16" else ""
    return Proposal(
        kind="mixed_precision",
        title=f"train in mixed precision ({half})",
        from_="; ".join(f"{line.what} {line.seen}" for line in notice.evidence) or notice.sentence,
        to=f"matrix products in {half} on the tensor cores, the rest as it is",
        why="SMs are busy and tensor cores are not",
        saves=_saved(runs, site),
        artefacts=(
            python(
                'torch.set_float32_matmul_precision("high")  # TF32 for what stays FP32\n'
                f'with torch.autocast("cuda", dtype=torch.{half}):\n    loss = loss_function(model(inputs), targets)'
                + scaler
            ),
        ),
        losers="accuracy, where the model does not bear it: compare the loss of a few hundred steps first",
        move=Move(place, place),
        constraints=(
            Constraint(f"{half} on tensor cores", True if sku else None, sku or "its kind of GPU is not known"),
            Constraint("matrix products", None, "whether its work is any, the pipes do not tell: simulation is not"),
        ),
    )


def _saved(runs: list[Placed], site: Site) -> Saved:
    """Return the share of working time alone: what they wait for does not become faster."""
    period = site.end_us - site.start_us
    time = recovered(sum(one.productive_ms for one in runs), period, _FASTER)
    money = [one.productive_micros for one in runs]
    return Saved(time, None if None in money else recovered(sum(each or 0 for each in money), period, _FASTER))
