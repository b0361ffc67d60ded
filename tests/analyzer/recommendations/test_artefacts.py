"""Texts to paste: what Slurm, Kubernetes and NVIDIA's tools really take, with no gap left to fill in."""

import importlib
import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.recommendations.artefacts import (
    PROFILES,
    as_yaml,
    in_rack,
    on_nodes,
    pod_patch,
    pod_resources,
    profile,
    rank_file,
    time_limit,
)
from analyzer.recommendations.proposal import lines, rows
from analyzer.recommendations.recommendation import Change, Form
from analyzer.recommendations.site import Host, Placed
from tests.analyzer.recommendations.valid import code_of, patched, sbatch_options

yaml: Any = importlib.import_module("yaml")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "ranker", "namespace": "ml"},
    "spec": {
        "selector": {"matchLabels": {"app": "ranker"}},
        "template": {
            "metadata": {"labels": {"app": "ranker"}},
            "spec": {"containers": [{"name": "triton", "image": "triton"}]},
        },
    },
}
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def pods(kind: str, name: str = "ranker") -> Placed:
    """Return a run of Kubernetes."""
    return Placed("kubernetes/prod/5e1f", ("n1", "n2"), 16, None, account="ml", kind=kind, name=name)


def host(node: str, rack: str | None, source: str | None) -> Host:
    """Return a host whose place this source told."""
    return Host(node, rack, "H100-80GB", None, None, 8, 0.0, topology_source=source)


@needs_kubectl
def test_kubectl_takes_the_patch_of_a_deployment() -> None:
    """Merged by kubectl itself: the affinity is there, and the container that stood there as well."""
    patch = in_rack(pods("Deployment"), "rack-2", [host("n1", "rack-2", "labels example.com/rack")])
    template = patched(DEPLOYMENT, patch)["spec"]["template"]
    required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "example.com/rack", "operator": "In", "values": ["rack-2"]}]}
    ]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    assert template["spec"]["containers"] == [{"name": "triton", "image": "triton", "resources": {}}] or template[
        "spec"
    ]["containers"] == [{"name": "triton", "image": "triton"}]


@needs_kubectl
def test_kubectl_takes_the_command_that_sets_resources() -> None:
    """Run against an object in a file: requests are merged into every container."""
    text = code_of(pod_resources(pods("Deployment"), {"cpu": "96"}))
    words = text.split()
    assert words[:6] == ["kubectl", "-n", "ml", "set", "resources", "deployment/ranker"]
    said = subprocess.run(
        ["kubectl", "set", "resources", "--local", "-f", "-", *words[6:], "-o", "json"],
        input=json.dumps(DEPLOYMENT),
        capture_output=True,
        text=True,
        check=True,
    )
    (container,) = json.loads(said.stdout)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "96"}


@pytest.mark.parametrize(
    ("kind", "where"), [("Job", "cannot change"), ("PyTorchJob", "wherever its manifest keeps it")]
)
def test_what_cannot_be_patched_says_so(kind: str, where: str) -> None:
    """A Job's template is fixed: a patch that its API refuses would be no artefact."""
    text = pod_patch(pods(kind), on_nodes(["n3"]))
    assert text.startswith("# ")
    assert where in text
    assert "patch-file" not in text
    assert yaml.safe_load(text)


def test_a_rack_that_no_label_told_is_named_by_its_hosts() -> None:
    """Without the label nothing else finds those nodes."""
    text = in_rack(pods("Deployment"), "r2", [host("n1", "r2", "topology.yaml"), host("n2", "r2", None)])
    assert yaml.safe_load(text)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
    ]


def test_a_run_is_given_the_lines_of_its_own_scheduler_alone() -> None:
    """Who runs on Kubernetes has no use for #SBATCH, and who has neither gets neither."""

    def of(run_id: str) -> list[str]:
        placed = Placed(run_id, (), 1, None)
        return [one.form for one in lines("exclude", placed, nodes=["n1"], patch="spec: {}")]

    assert of("slurm/alpha/1") == ["slurm"]
    assert of("kubernetes/prod/uid") == ["kubernetes"]
    assert of("process/host7/4711.1") == []


def test_ranks_are_written_once_a_task(tmp_path: Any) -> None:
    """The lines are run: the file has each host as often as it has ranks, in the order of ranks."""
    for on, wanted in (((2, 2), "b b a a"), ((2, 1), "b b a")):
        run = Placed("slurm/alpha/1", (), 1, None)
        (made,) = lines("rank_order", run, ranks=rank_file(["b", "a"], on), patch="")
        subprocess.run(["bash", "-ec", made.text], cwd=tmp_path, check=True)
        assert (tmp_path / "ranks.txt").read_text().split() == wanted.split()


def test_every_slice_has_its_share_of_the_gpu() -> None:
    """As many as are said fit into the seven (four) slices and the memory of a GPU of that kind; NVIDIA's table."""
    for sku, profiles in PROFILES.items():
        memory = int(sku.rsplit("-", 1)[1].removesuffix("GB"))
        most = 4 if sku.startswith("A30") else 7
        for each in profiles:
            assert int(each.name.split("g.")[0]) * each.count <= most, (sku, each)
            assert each.memory_bytes // 2**30 * each.count <= memory * 1.03, (sku, each)  # names are rounded


@pytest.mark.parametrize(
    ("sku", "wanted", "name"),
    [
        ("H100-80GB", 0, "1g.10gb"),
        ("H100-80GB", 12 * 2**30, "1g.20gb"),
        ("H100-80GB", 30 * 2**30, "3g.40gb"),
        ("H100-80GB", 50 * 2**30, None),
        ("A30-24GB", 8 * 2**30, "2g.12gb"),
        ("V100-32GB", 0, None),
        (None, 0, None),
    ],
)
def test_the_slice_is_the_smallest_that_holds_it(sku: str | None, wanted: int, name: str | None) -> None:
    """More slices serve more sessions; what fits no half of a GPU needs a whole one."""
    found = profile(sku, wanted)
    assert (found.name if found else None) == name


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="Slurm is not installed")
def test_the_list_of_sbatch_s_options_was_read() -> None:
    """Else every option of every artefact would pass."""
    assert {"nodelist", "exclude", "switches", "requeue", "signal", "gres", "time"} <= sbatch_options()
    assert "nodes-like" not in sbatch_options()


@pytest.mark.parametrize(("seconds", "text"), [(1, "00:01:00"), (3_600, "01:00:00"), (93_601, "1-02:01:00")])
def test_a_time_limit_is_what_slurm_takes(seconds: int, text: str) -> None:
    """Days, hours and whole minutes, never less than asked for."""
    assert time_limit(seconds) == text


def test_every_row_of_words_is_used_and_has_known_fields() -> None:
    """A row that nothing names, or a field that a proposal has not, would be words that nobody ever reads."""
    said = {field.name for field in fields(Change)}
    told = {"kind", "title", "from", "to", "why", "losers", "winners", "cost", "latency", "actor", "ends_work"}
    assert {{"from": "from_", "cost": "cost_to_move"}.get(name, name) for name in told} <= said
    assert {name for row in rows("change").values() for name in row} <= told
    assert {form for row in rows("lines").values() for form in row} <= set(get_args(Form))
    source = "".join(path.read_text() for path in Path("analyzer/recommendations").rglob("*.py"))
    named = set(re.findall(r'"([a-z_]+)"', source)) | {f"{name}_and_cores" for name in ("nodelist", "exclude")}
    assert {*rows("change"), *rows("lines")} <= named


def test_no_name_writes_a_line_of_what_is_pasted() -> None:
    """Whoever names a host or a run is not whoever pastes: a text in a row is one line, or one word of a shell."""
    (made,) = lines("nodelist_of", pods("Job"), note="x\nrm -rf /", nodes=["n1"], patch="spec: {}")
    assert made.text == "spec: {}"
    placed = Placed("slurm/alpha/1", (), 1, None)
    (made,) = lines("nodelist_of", placed, note="x\nrm -rf /", nodes=["n1\n#SBATCH --x"], patch="")
    assert made.text.splitlines() == ["# x rm -rf /", "#SBATCH --nodelist=n1 #SBATCH --x"]
    (made,) = lines("drain", ["slurm"], nodes=["n1; reboot"], why="it's hot")
    assert made.text == "scontrol update nodename='n1; reboot' state=drain reason='it'\"'\"'s hot'"


_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8) | st.sampled_from(
    ["yes", "no", "1", "on", "null"]
)
_VALUES = st.recursive(
    _TEXTS | st.integers(-(10**6), 10**6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS.filter(bool), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(_TEXTS.filter(bool), _VALUES, min_size=1, max_size=3))
def test_our_yaml_reads_back_as_it_was(thing: dict[str, Any]) -> None:
    """A name of a run may be "no", or hold a colon: what a parser makes of it must be the same text."""
    assert yaml.safe_load(as_yaml(thing)) == thing
