"""Write what each role installs as CycloneDX 1.6: python .ci/sbom.py FOLDER; `make sbom` writes to dist/.

One file a role, from its lock: packages with version, licence and what they need. The same locks make the same bytes.
A package that this machine's Python has no use for is listed without its needs, which are then not known. Source:
https://cyclonedx.org/docs/1.6/json/
"""

import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from licences import licence_of

ROOT = Path(__file__).resolve().parents[1]
ROLES = ("agent", "kubernetes", "server", "fleet", "full")
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)(?: ; (.*?))?(?: \\)?$", re.MULTILINE)


def document(role: str) -> dict[str, Any]:
    """Return the document of one role."""
    told = tomllib.loads((ROOT / ".ci" / "packages.toml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = f"pkg:generic/gpuledger@{project['version']}"
    lock = (ROOT / f"requirements-{role}.lock").read_text("utf-8")
    pins = [(name, version, marker) for name, version, marker in PIN.findall(lock)]
    refs: dict[str, list[str]] = {}
    for name, version, _ in pins:
        refs.setdefault(name, []).append(purl(name, version))
    components = [component(name, version, marker, told) for name, version, marker in pins]
    direct = [*project["dependencies"], *(project["optional-dependencies"].get(role, ()))]
    needs = [{"ref": own, "dependsOn": among(direct, refs)}]
    for name, version, _ in pins:
        if (lines := needed(name)) is not None:
            needs.append({"ref": purl(name, version), "dependsOn": among(lines, refs)})
    body = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "gpuledger",
                "version": project["version"],
                "description": f"{project['description']} Role: {role}.",
                "licenses": [{"expression": project["license"]}],
                "purl": own,
            }
        },
        "components": components,
        "dependencies": needs,
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1}
    return head | body


def purl(name: str, version: str) -> str:
    """Return a package's address in the words of package URLs."""
    return f"pkg:pypi/{name}@{version.replace('!', '%21').replace('+', '%2B')}"


def component(name: str, version: str, marker: str, told: dict[str, str]) -> dict[str, Any]:
    """Return one package; `marker` says of which Pythons and systems it is.

    Raises:
        SystemExit: its licence is not known.
    """
    licence = licence_of(name, told)
    if licence is None:
        raise SystemExit(f"{name} {version}: no licence; make licences says more")
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(name, version),
        "name": name,
        "version": version,
        "licenses": [{"expression": licence}],
        "purl": purl(name, version),
    }
    return made | ({"properties": [{"name": "gpuledger:marker", "value": marker}]} if marker else {})


def needed(name: str) -> list[str] | None:
    """Return what a package says that it needs; None where it is not installed here."""
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return None


def among(lines: list[str], refs: dict[str, list[str]]) -> list[str]:
    """Return those of the role that requirements name, whatever they ask of versions and systems."""
    names = {re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~;\[(]", line)[0]).lower() for line in lines}
    return sorted(ref for name in names for ref in refs.get(name, ()))


def main(argv: list[str]) -> int:
    """Write the documents, and print where they are."""
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    for role in ROLES:
        made = document(role)
        path = folder / f"sbom-{role}.cdx.json"
        path.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
        print(f"{path}: {len(made['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
