"""docs/glossary.md: each term of the domain in one line, and each state with its ids, by the ledger's table."""

import sys
from collections.abc import Mapping
from pathlib import Path

from analyzer.states import BOOKINGS, Booking

TERMS: Mapping[str, str] = {
    "adjustment": "A difference to a closed hour, dated when it was learned. Closed hours themselves never change.",
    "agent": "The daemon on a GPU host. It samples, keeps what cannot be sent, and serves /metrics.",
    "allocation": "That a run holds a GPU, as a scheduler says. Whether it uses it is another fact.",
    "attribution": "Who holds which GPU: from Slurm, the kubelet, Docker, mapping files, or the owner of the process.",
    "avoidable": "Time lost that somebody can give back. Only this is ever called waste.",
    "books": "The ledger and all that the analyzer writes, as the lake keeps them for readers of other processes.",
    "cause": "Why a state was booked. It is booked where the confidence is medium or better, else it is a suspicion.",
    "charge": "What a team is billed by the price file's `[[charge]]` rows, which may differ from what its GPUs cost.",
    "class": "What a state means for money: useful, avoidable, overhead, spare or unknown.",
    "collector": "The server that agents send to. It stores samples in DuckDB and answers when they are durable.",
    "confidence": "How well a cause is shown: high, medium or low. It is part of each finding.",
    "finding": "One avoidable loss of one subject, with its evidence and with what would prove it wrong.",
    "FOCUS": "The FinOps Foundation's format of bills, in which the ledger is exported and invoices are read.",
    "GPU-hour": "One GPU, or MIG instance, owned for an hour. The ledger counts it in milliseconds.",
    "headroom": "What a service keeps ready between requests. Its policy says how much; beyond it, it is avoidable.",
    "holder": "The run that has a GPU. A shared GPU has several, and each millisecond is divided among them.",
    "lake": "The store's long-term half: Parquet files and a DuckLake catalogue.",
    "ledger": "GPU × hour × holder × state × cause, in whole milliseconds and millionths of the currency.",
    "MIG": "NVIDIA's Multi-Instance GPU: a GPU cut into instances, each of which is owned and booked by itself.",
    "notice": "An observation (no cost counted): a driver that differs, an agent that is silent.",
    "NVML": "The driver's library. Its utilization says that a kernel ran, not how much of the chip it used.",
    "owned": "What the fleet has and pays for, whether anybody holds or reports it.",
    "policy check": "One condition of the policy for capacity requests; `capacity request` evaluates all of them.",
    "precedence": "Of several states that fit a millisecond, which one takes it: `analyzer/ledger/precedence.py`.",
    "preliminary, closed, final": "Whether an hour's figures may still change; after final only adjustments are added.",
    "price list": "What one GPU-hour costs from when until when, and who says so. Without a price no cost is shown.",
    "profile": "The signed file that a request for more GPUs must carry: what a team's GPUs really do.",
    "recommendation": "A change that would give time back: from where to where, what it saves, and what was checked.",
    "run": "A Slurm job, a pod, a service, or a process: what holds GPUs. Attempts of one run are counted.",
    "SM activity": "The share of time in which the streaming multiprocessors had work; DCGM and GPM measure it.",
    "stage": "The kind of work: training, fine-tuning, evaluation, serving, interactive and so on.",
    "state": "Where a millisecond of a GPU went. Each is booked to exactly one.",
    "suspicion": "A cause that lacked evidence. It is named beside unexplained time and claims none.",
    "verdict": "What the detectors say of one run in ten minutes.",
}
_HEAD = """# Glossary

Made from `bench/glossary_document.py` and `analyzer/states.py` by `make docs`; do not edit.

## Terms
| term | what it is |
|---|---|"""
_STATES = """
## States
In their order of precedence; *lost work* is taken last, of what would otherwise be working, waiting or slow. The ids
stand in files, the API and metrics and do not change; the labels are what people see. What each means:
[ledger.md](ledger.md).

| state | cause | label | of which | class | owner |
|---|---|---|---|---|---|"""


def glossary_md() -> str:
    """Return docs/glossary.md."""
    terms = [f"| {term} | {words} |" for term, words in TERMS.items()]
    return "\n".join([_HEAD, *terms, _STATES, *map(_row, BOOKINGS)]) + "\n"


def _row(booking: Booking) -> str:
    cause = f"`{booking.cause}`" if booking.cause else ""
    actor = booking.actor or ""
    return f"| `{booking.state}` | {cause} | {booking.label} | {booking.cause_label} | {booking.klass} | {actor} |"


def main(argv: list[str]) -> int:
    """Write the document into a directory."""
    (Path(argv[0] if argv else "docs") / "glossary.md").write_text(glossary_md(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
