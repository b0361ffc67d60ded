"""Texts to paste: what Slurm, Kubernetes and NVIDIA's tools really take, with no gap left to fill in."""

import importlib
import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.recommendations.artefacts import kubernetes, mig, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.artefacts.rank_file import rank_file
from analyzer.recommendations.artefacts.yaml_text import as_yaml
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
    patch = kubernetes.in_rack(pods("Deployment"), "rack-2", [host("n1", "rack-2", "labels example.com/rack")])
    template = patched(DEPLOYMENT, patch.text)["spec"]["template"]
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
    text = code_of(kubernetes.resources(pods("Deployment"), {"cpu": "96"}).text)
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
    text = kubernetes.patch(pods(kind), kubernetes.on_nodes(["n3"])).text
    assert text.startswith("# ")
    assert where in text
    assert "patch-file" not in text
    assert yaml.safe_load(text)


def test_a_rack_that_no_label_told_is_named_by_its_hosts() -> None:
    """Without the label nothing else finds those nodes."""
    text = kubernetes.in_rack(
        pods("Deployment"), "r2", [host("n1", "r2", "topology.yaml"), host("n2", "r2", None)]
    ).text
    assert yaml.safe_load(text)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
    ]


def test_a_run_is_given_the_lines_of_its_own_scheduler_alone() -> None:
    """Who runs on Kubernetes has no use for #SBATCH, and who has neither gets neither."""

    def of(run_id: str) -> list[str]:
        placed = Placed(run_id, (), 1, None)
        return [one.form for one in for_scheduler(placed, lambda: slurm.options("x"), lambda: kubernetes.text("x"))]

    assert of("slurm/alpha/1") == ["slurm"]
    assert of("kubernetes/prod/uid") == ["kubernetes"]
    assert of("process/host7/4711.1") == []


def test_ranks_are_written_once_a_task(tmp_path: Any) -> None:
    """The lines are run: the file has each host as often as it has ranks, in the order of ranks."""
    for on, wanted in (((2, 2), "b b a a"), ((2, 1), "b b a")):
        subprocess.run(["bash", "-ec", rank_file(["b", "a"], on).text], cwd=tmp_path, check=True)
        assert (tmp_path / "ranks.txt").read_text().split() == wanted.split()


def test_every_slice_has_its_share_of_the_gpu() -> None:
    """As many as are said fit into the seven (four) slices and the memory of a GPU of that kind; NVIDIA's table."""
    for sku, profiles in mig.PROFILES.items():
        memory = int(sku.rsplit("-", 1)[1].removesuffix("GB"))
        most = 4 if sku.startswith("A30") else 7
        for profile in profiles:
            assert profile.slices * profile.count <= most, (sku, profile)
            assert profile.memory_bytes // 2**30 * profile.count <= memory * 1.03, (sku, profile)  # names are rounded


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
    found = mig.profile(sku, wanted)
    assert (found.name if found else None) == name


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="Slurm is not installed")
def test_the_list_of_sbatch_s_options_was_read() -> None:
    """Else every option of every artefact would pass."""
    assert {"nodelist", "exclude", "switches", "requeue", "signal", "gres", "time"} <= sbatch_options()
    assert "nodes-like" not in sbatch_options()


@pytest.mark.parametrize(("seconds", "text"), [(1, "00:01:00"), (3_600, "01:00:00"), (93_601, "1-02:01:00")])
def test_a_time_limit_is_what_slurm_takes(seconds: int, text: str) -> None:
    """Days, hours and whole minutes, never less than asked for."""
    assert slurm.duration(seconds) == text


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
