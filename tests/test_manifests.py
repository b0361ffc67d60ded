"""The manifests ask for no right that is not used, and name nothing that the code does not have."""

import importlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agent.config import AgentConfig
from collector.config import CollectorConfig
from collector.schedulers.kubernetes.resources import PATHS
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "kubernetes"
COMPONENTS = sorted(path.parent.name for path in (MANIFESTS / "components").glob("*/kustomization.yaml"))
Thing = dict[str, Any]
yaml: Any = importlib.import_module("yaml")  # uvicorn brings it along; it has no types

# What may be seen of a host, and by which component's word.
HOST_PATHS = {
    "/sys": "",
    "/var/lib/kubelet/pod-resources": "kubelet-socket",
    "/var/log/pods": "kubelet-socket",
    "/var/lib/gpuledger": "host-paths",
    "/run/gpuledger": "host-paths",
}


def documents(text: str) -> list[Thing]:
    """Return the objects of a file."""
    return [thing for thing in yaml.safe_load_all(text) if thing]


def rendered(tmp_path: Path, *components: str) -> list[Thing]:
    """Return the base with these components, as kubectl puts them together."""
    if shutil.which("kubectl") is None:
        pytest.skip("optional: kubectl 1.21 or newer is missing: see kubernetes.io/docs/tasks/tools")
    place = tmp_path / "kubernetes"
    shutil.copytree(MANIFESTS, place)
    chosen = "".join(f"\n  - components/{name}" for name in components)
    (place / "kustomization.yaml").write_text(
        f"resources: [base]\n{'components:' + chosen if chosen else ''}\n"
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    )
    return built(place)


def built(place: Path) -> list[Thing]:
    """Return what kubectl makes of a directory."""
    command = ["kubectl", "kustomize", str(place)]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env={"PATH": "/usr/local/bin:/usr/bin"}
    )
    assert ran.returncode == 0, ran.stderr
    return documents(ran.stdout)


def one(things: list[Thing], kind: str, name: str) -> Thing:
    """Return the object of this kind and name."""
    (found,) = [thing for thing in things if thing["kind"] == kind and thing["metadata"]["name"] == name]
    return found


def pod_of(things: list[Thing], kind: str, name: str) -> Thing:
    """Return the specification of the pods that an object makes."""
    spec: Thing = one(things, kind, name)["spec"]["template"]["spec"]
    return spec


def containers(spec: Thing) -> Iterator[Thing]:
    """Yield the containers of a pod, those before it too."""
    yield from [*spec["containers"], *spec.get("initContainers", [])]


def every_file() -> list[Path]:
    """Return every file of the manifests."""
    return sorted(MANIFESTS.rglob("*.yaml"))


@pytest.fixture
def base() -> list[Thing]:
    """Return the objects of the base, as they are written."""
    return [thing for path in sorted((MANIFESTS / "base").glob("*.yaml")) for thing in documents(path.read_text())]


def test_every_file_is_yaml_and_is_used() -> None:
    """A manifest that no kustomization names is applied by nobody."""
    named = {path for path in every_file() if path.name == "kustomization.yaml"}
    for path in list(named):
        (content,) = documents(path.read_text())
        named |= {path.parent / name for name in content.get("resources", [])}
    assert [path.name for path in every_file() if path not in named] == []


@pytest.mark.parametrize(("kind", "name"), [("DaemonSet", "gpuledger-agent"), ("StatefulSet", "gpuledger-server")])
def test_neither_side_has_more_rights_than_a_user(base: list[Thing], kind: str, name: str) -> None:
    """The level that clusters call restricted, but for the one directory of the host that the agent reads."""
    spec = pod_of(base, kind, name)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any(spec.get(key) for key in ("hostPID", "hostNetwork", "hostIPC"))
    for container in containers(spec):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_the_agent_has_no_right_in_the_cluster(base: list[Thing]) -> None:
    """It runs on every GPU host; what it cannot reach cannot be taken from it."""
    assert pod_of(base, "DaemonSet", "gpuledger-agent")["automountServiceAccountToken"] is False
    assert one(base, "ServiceAccount", "gpuledger-agent")["automountServiceAccountToken"] is False
    bound = [subject["name"] for thing in base for subject in thing.get("subjects", [])]
    assert bound == ["gpuledger-server"]


def test_the_server_may_read_and_nothing_else(base: list[Thing]) -> None:
    """And no secret, no configuration, no log, of any namespace."""
    rules = one(base, "ClusterRole", "gpuledger-reader")["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert [rule["resources"] for rule in rules if rule["apiGroups"] == [""]] == [["pods", "nodes"]]
    assert not any("*" in [*rule["resources"], *rule["apiGroups"]] for rule in rules)
    listed = {group for rule in rules if "list" in rule["verbs"] for group in rule["apiGroups"]}
    assert listed == {"", *{path.split("/")[2] for path in PATHS}}


def test_every_variable_is_a_setting() -> None:
    """A misspelt one would be refused at the start, on every host at once."""
    known = {f"GPULEDGER_AGENT_{key.name.upper()}" for key in fields(AgentConfig)}
    known |= {f"GPULEDGER_COLLECTOR_{key.name.upper()}" for key in fields(CollectorConfig)}
    used = {name for path in every_file() for name in re.findall(r"name: (GPULEDGER_\w+)", path.read_text())}
    assert len(used) > 8
    assert used - known == set()


def test_ports_images_and_users_are_those_of_the_code(base: list[Thing]) -> None:
    """What the one file calls 8470 must not be 8480 in another."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    targets = set(re.findall(r"FROM role AS (\w+)", dockerfile))
    images = {container["image"] for kind in ("DaemonSet", "StatefulSet") for container in _of(base, kind)}
    assert images == {f"gpuledger-{target}" for target in targets}
    (top,) = documents((MANIFESTS / "kustomization.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {(image["name"], image["newTag"]) for image in top["images"]} == {(name, version) for name in images}
    assert "USER 10001:10001" in dockerfile
    port = CollectorConfig().address[1]
    assert one(base, "Service", "gpuledger")["spec"]["ports"][0]["port"] == port
    assert f"EXPOSE {port}" in dockerfile
    (agent,) = _of(base, "DaemonSet")
    assert {"name": "GPULEDGER_AGENT_COLLECTOR", "value": f"http://gpuledger:{port}"} in agent["env"]
    metrics = AgentConfig().address
    assert metrics is not None
    monitored = (MANIFESTS / "components/prometheus/kustomization.yaml").read_text()
    assert f"containerPort: {metrics[1]}" in monitored
    assert f'value: "0.0.0.0:{metrics[1]}"' in monitored


def _of(things: list[Thing], kind: str) -> list[Thing]:
    return [container for thing in things if thing["kind"] == kind for container in containers(_spec(thing))]


def _spec(thing: Thing) -> Thing:
    spec: Thing = thing["spec"]["template"]["spec"]
    return spec


def test_the_dockerfile_takes_what_is_there() -> None:
    """Files that it copies exist, stages that it names come before, and both roles are built from locks."""
    text = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)
    copied = re.findall(r"^COPY (?:--from=(\S+) )?(.*) \S+$", text, re.MULTILINE)
    assert [stage for stage, _ in copied if stage and stage not in stages] == []
    files = {name for stage, names in copied if not stage for name in names.split() if not name.startswith("dist/")}
    assert files == {"requirements-kubernetes.lock", "requirements-${ROLE}.lock"}
    roles = set(re.findall(r"ROLE=(\w+)", text))
    assert roles == {"server", "fleet", "full"}
    assert "ARG ROLE=server\n" in text
    assert [role for role in roles if not (ROOT / f"requirements-{role}.lock").exists()] == []
    assert stages[-2:] == ["agent", "server"]
    assert text.count("--require-hashes") == 2


def test_what_is_applied_by_default_is_whole() -> None:
    """`kubectl apply -k kubernetes` is the one line that most people type."""
    if shutil.which("kubectl") is None:
        pytest.skip("optional: kubectl 1.21 or newer is missing: see kubernetes.io/docs/tasks/tools")
    things = built(MANIFESTS)
    assert {thing["metadata"].get("namespace") for thing in things if thing["kind"] == "DaemonSet"} == {"gpuledger"}
    config = next(thing["metadata"]["name"] for thing in things if thing["kind"] == "ConfigMap")
    agent, server = _of(things, "DaemonSet")[0], _of(things, "StatefulSet")[0]
    named = {(one["name"], _reference(one)) for one in [*agent["env"], *server["env"]]}
    assert ("GPULEDGER_AGENT_CLUSTER", config) in named
    assert ("GPULEDGER_COLLECTOR_KUBERNETES", config) in named


def _reference(variable: Thing) -> str | None:
    return (variable.get("valueFrom", {}).get("configMapKeyRef") or {}).get("name")


@pytest.mark.parametrize("component", ["", *COMPONENTS])
def test_a_component_adds_what_it_says_and_nothing_else(tmp_path: Path, component: str) -> None:
    """Whoever leaves one out must be sure that its right is gone."""
    things = rendered(tmp_path, *([component] if component else []))
    spec = pod_of(things, "DaemonSet", "gpuledger-agent")
    paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert paths == {path for path, owner in HOST_PATHS.items() if owner in ("", component)}
    assert spec.get("hostPID", False) is (component == "host-pid")
    assert spec.get("hostNetwork", False) is (component == "host-network")
    assert spec.get("runtimeClassName") == ("nvidia" if component == "nvidia-runtime" else None)
    assert (spec["securityContext"]["runAsUser"] == 0) is (component == "kubelet-socket")
    assert any("ports" in container for container in containers(spec)) is (component == "prometheus")
    mounts = {mount["name"]: mount for container in spec["containers"] for mount in container["volumeMounts"]}
    assert all(mounts[volume["name"]].get("readOnly") for volume in spec["volumes"] if _of_the_host(volume))


def _of_the_host(volume: Thing) -> bool:
    return "hostPath" in volume and not volume["hostPath"]["path"].endswith("/gpuledger")


def test_even_all_components_together_take_no_capability(tmp_path: Path) -> None:
    """Root's user id opens the kubelet's socket; root's powers are never asked for."""
    spec = pod_of(rendered(tmp_path, *COMPONENTS), "DaemonSet", "gpuledger-agent")
    for container in containers(spec):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert not container["securityContext"].get("privileged")


def test_the_document_speaks_of_every_component_and_every_label_key() -> None:
    """What a right is for must be read before it is given."""
    text = (ROOT / "docs/kubernetes.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert sorted(rows) == COMPONENTS
    assert set(re.findall(r"`(?:collector\.)?(kubernetes_\w+)`", text)) <= {key.name for key in fields(CollectorConfig)}
