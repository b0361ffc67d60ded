"""Lines for Slurm: options of batch scripts, and commands. Sources: sbatch(1), scontrol(1), scancel(1) of 22.05 on."""

from collections.abc import Iterable, Sequence

from analyzer.recommendations.artefacts.owner import native, scheduler
from analyzer.recommendations.artefacts.quoting import joined_names, remark, shell_word, words
from analyzer.recommendations.recommendation import Artefact
from analyzer.recommendations.site import Placed


def options(*lines: str, note: str = "") -> Artefact:
    """Return options of a batch script, such as "cpus-per-gpu=12"; `note` is what the script's owner must know."""
    said = [f"# {remark(line)}" for line in note.splitlines()]
    return Artefact("slurm", "\n".join([*said, *(f"#SBATCH --{remark(line)}" for line in lines)]))


def commands(*lines: str) -> Artefact:
    """Return commands of Slurm for whoever may give them."""
    return Artefact("slurm", "\n".join(lines))


def cancel(runs: Iterable[Placed]) -> str:
    """Return the command that ends these runs."""
    return "scancel " + words(native(run.run_id) for run in runs if scheduler(run.run_id) == "slurm")


def drain(nodes: Sequence[str], reason: str) -> Artefact:
    """Return the command that gives no more runs to these hosts; what runs there goes on until it ends."""
    return commands(f"scontrol update nodename={joined_names(nodes)} state=drain reason={shell_word(reason)}")


def duration(seconds: int) -> str:
    """Return a length of time as --time takes it, rounded up to minutes: 1-02:30:00."""
    minutes = max(1, -(-seconds // 60))
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02}:{rest % 60:02}:00"
