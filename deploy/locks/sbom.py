"""Writes what the images consist of, as CycloneDX 1.5: `sbom.py DIRECTORY`.

One file for each image of deploy/Dockerfile, from the locks and the client's constraints alone, so
that it is the same on every machine. What Debian's base image brings is named, not listed: its own
SBOM comes with it.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lock import HERE, HOST_PACKAGES, ROOT, normalised, read_lock

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://wafer-appliance.example/sbom")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")

Component = Mapping[str, Any]  # JSON


def main() -> None:
    """Write one file for each image."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for image, components in images().items():
        path = directory / f"{image}.cdx.json"
        path.write_text(json.dumps(document(image, components), indent=1, sort_keys=True) + "\n")
        print(f"{path}: {len(components)} components")


def images() -> dict[str, list[Component]]:
    """Return the components of each image."""
    appliance = [
        *_locked("appliance.txt"),
        *_locked("sdk.txt"),
        *_locked("tracing.txt"),
        *_locked(str(HOST_PACKAGES)),
        *_locked("torch.txt"),
        _ours(),
        _base(),
    ]
    client = [*_pinned(ROOT / "deploy" / "client-constraints.txt"), _base()]
    return {
        "appliance": appliance,
        "user-node": [*client, _ours()],
        "input-node": _once([*appliance, *client]),
    }


def document(image: str, components: Iterable[Component]) -> dict[str, Any]:
    """Return the document of an image."""
    listed = sorted(components, key=lambda each: (each["name"], each["version"]))
    identity = json.dumps([image, listed], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, identity)}",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "name": f"wsc-appliance/{image}", "bom-ref": image}
        },
        "components": listed,
    }


def _locked(name: str) -> list[Component]:
    return [
        _package(package, version, hashes)
        for (package, version), hashes in read_lock(HERE / name).items()
    ]


def _pinned(path: Path) -> list[Component]:
    found = map(_PIN.match, path.read_text().splitlines())
    return [_package(normalised(each[1]), each[2], ()) for each in found if each is not None]


def _package(name: str, version: str, hashes: Iterable[str]) -> Component:
    locator = f"pkg:pypi/{name}@{version}"
    fields = {"type": "library", "name": name, "version": version, "purl": locator}
    if listed := [{"alg": "SHA-256", "content": each} for each in sorted(hashes)]:
        fields["hashes"] = listed
    return {**fields, "bom-ref": locator}


def _ours() -> Component:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    component = _package(project["name"], project["version"], ())
    return {**component, "licenses": [{"license": {"id": project["license"]}}]}


def _base() -> Component:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    found = re.search(r"^ARG BASE=(\S+):(\S+)$", text, re.MULTILINE)
    assert found is not None
    name, version = found.groups()
    locator = f"pkg:docker/{name}@{version}"
    return {
        "type": "container",
        "name": name,
        "version": version,
        "purl": locator,
        "bom-ref": locator,
    }


def _once(components: Iterable[Component]) -> list[Component]:
    return list({each["bom-ref"]: each for each in components}.values())


if __name__ == "__main__":
    main()
