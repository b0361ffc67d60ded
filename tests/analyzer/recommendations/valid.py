"""Whether a text to paste is what it claims to be: by the programs that would read it, where they are installed."""

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analyzer.recommendations.artefacts import PROFILES
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact

yaml: Any = importlib.import_module("yaml")  # uvicorn brings it along; it has no types
# A line that ends what runs, or what is begun with it; and the words that must stand above one.
ENDS = re.compile(
    r"^(?!# ).*(?:\bscancel\b|\bkubectl .*\b(?:delete|scale|autoscale)\b|--time=|activeDeadlineSeconds|requeuehold"
    r"|--gpu-reset|-mig 1)",
    re.MULTILINE,
)
EMPTY, TRIAL = "once nothing runs", "a trial of an hour, whose work is lost"
NAMED = re.compile(rf"once its owner agrees|loses what it has not saved|{EMPTY}|{TRIAL}")
GAP = re.compile(r"<[a-z_ ]+>|TODO|FIXME")


@cache
def sbatch_options() -> frozenset[str]:
    """Return the options that the sbatch of this machine has; none where it is not installed."""
    if shutil.which("sbatch") is None:
        return frozenset()
    with TemporaryDirectory() as here:
        conf = Path(here) / "slurm.conf"
        conf.write_text("ClusterName=x\nSlurmctldHost=localhost\n")
        said = subprocess.run(
            ["sbatch", "--help"], env=os.environ | {"SLURM_CONF": str(conf)}, capture_output=True, text=True, check=True
        )
    return frozenset(re.findall(r"--([a-z][a-z-]+)", said.stdout))


def check(proposal: Proposal) -> None:
    """Check all that a proposal hands out: nothing to fill in, and each text readable by whom it is for."""
    check_ending(proposal)
    for artefact in proposal.artefacts:
        assert artefact.text.strip(), f"{proposal.kind}: an empty {artefact.form}"
        assert not GAP.search(artefact.text), f"{proposal.kind}: {artefact.text}"
        _CHECKS[artefact.form](artefact)


def check_ending(proposal: Proposal) -> None:
    """Check that what ends somebody's work says whose and what is lost, and counts as a question to its owner."""
    for text in (artefact.text for artefact in proposal.artefacts if proposal.kind != "one_replica_more"):
        if unnamed := unnamed_endings(text):
            raise AssertionError(f"{proposal.kind}: {unnamed} in {text}")
        if ENDS.search(text) and EMPTY not in text and TRIAL not in text:
            assert proposal.ends_work, f"{proposal.kind}: {text}"
    if proposal.ends_work:
        assert re.search(r"unsaved|since its last checkpoint|computes|requests", proposal.cost_to_move), (
            proposal.cost_to_move
        )
        assert not proposal.moving_gpu_ms


def unnamed_endings(text: str) -> list[str]:
    """Return the lines that end something and have no word above them of what is lost."""
    return [match[0] for match in ENDS.finditer(text) if not NAMED.search(_unfolded(text[: match.start()]))]


def _unfolded(text: str) -> str:
    return re.sub(r"\s+(?:# )?", " ", text)


def code_of(text: str) -> str:
    """Return a text without its lines of comment."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("# "))


def _slurm(artefact: Artefact) -> None:
    _shell(artefact)
    used = re.findall(r"^#SBATCH --([a-z-]+)=?(\S*)$", artefact.text, re.MULTILINE)
    assert len(used) == artefact.text.count("#SBATCH"), artefact.text
    known = sbatch_options()
    assert not known or {option for option, _ in used} <= known, artefact.text
    for command in re.findall(r"^(?!#)(\w+)", artefact.text, re.MULTILINE):
        assert command in ("scancel", "scontrol", "srun"), artefact.text


def _kubernetes(artefact: Artefact) -> None:
    code = code_of(artefact.text)
    commands = [line for line in code.splitlines() if line.startswith("kubectl ")]
    rest = "\n".join(line for line in code.splitlines() if not line.startswith("kubectl "))
    assert "\n".join(commands) or rest.strip() or "#" in artefact.text
    if rest.strip():
        assert isinstance(yaml.safe_load(rest), dict), artefact.text
    for command in commands:
        _shell(Artefact("shell", command))


def _shell(artefact: Artefact) -> None:
    said = subprocess.run(["bash", "-n"], input=artefact.text, capture_output=True, text=True, check=False)
    assert said.returncode == 0, f"{said.stderr}\n{artefact.text}"


def _mig(artefact: Artefact) -> None:
    _shell(artefact)
    known = {profile.name for profiles in PROFILES.values() for profile in profiles}
    for slices in re.findall(r"-cgi (\S+)", artefact.text):
        assert set(slices.split(",")) <= known, artefact.text


def _python(artefact: Artefact) -> None:
    ast.parse(artefact.text)


def _config(artefact: Artefact) -> None:
    assert artefact.text.count("{") == artefact.text.count("}")


_CHECKS = {
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "rankfile": _shell,
    "shell": _shell,
    "mig": _mig,
    "python": _python,
    "config": _config,
}


def patched(thing: dict[str, Any], patch: str) -> dict[str, Any]:
    """Return a Kubernetes object with a strategic merge applied by kubectl itself, without a cluster."""
    with TemporaryDirectory() as here:
        file, change = Path(here) / "thing.json", Path(here) / "patch.yaml"
        file.write_text(json.dumps(thing))
        change.write_text(patch)
        said = subprocess.run(
            ["kubectl", "patch", "--local", "-f", file, "--type=strategic", f"--patch-file={change}", "-o", "json"],
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(said.stdout)
    return found
