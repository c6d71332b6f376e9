"""`python -m appliance.cluster.kubernetes.hooks.crds DIRECTORY --version V`: updates our kinds.

Helm installs what is in a chart's `crds` once and never again. So the chart runs this before it is
installed, upgraded or rolled back: it creates or changes the definitions in a directory, and adds
the validation rules of `rules.yaml` beside them where the server knows the expression language of
such rules (Kubernetes 1.25). Objects that exist stay as they are, and several releases may share
the definitions: those of a newer chart stay, since older ones would have the server drop fields.
"""

import argparse
import copy
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    GROUP,
    Resource,
    name_of,
)
from appliance.core.errors import UserError
from appliance.observability.logging import configure_logging

logger = logging.getLogger(__name__)

RULES_FILE = "rules.yaml"
"""Rules by name of the definition and property of the object: `NAME: {spec: [{rule, message}]}`."""

VERSION_ANNOTATION = f"{GROUP}/chart-version"
"""On a definition: version of the chart that it is from."""

_RULES_SINCE = (1, 25)
_RULES_KEY = "x-kubernetes-validations"

# `Any`: what Kubernetes calls a schema is JSON.
Rules = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def read_definitions(directory: Path) -> Iterator[Resource]:
    """Yield the definitions in a directory, in order of their files' names.

    Raises:
        UserError: A file cannot be read, or is no definition.
    """
    for path in sorted(directory.glob("*.yaml")):
        if path.name == RULES_FILE:
            continue
        definition = _parsed(path)
        if definition.get("kind") != CUSTOM_RESOURCE_DEFINITION.name:
            raise UserError(f"{path} is no {CUSTOM_RESOURCE_DEFINITION.name}.")
        yield definition


def read_rules(directory: Path) -> Rules:
    """Return the rules of a directory; none if it has none."""
    path = directory / RULES_FILE
    return _parsed(path) if path.exists() else {}


def with_rules(definition: Resource, rules: Rules) -> Resource:
    """Return a definition with its rules in every version.

    Raises:
        UserError: A rule is for a property that a version lacks.
    """
    result = copy.deepcopy(dict(definition))
    for version in result["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        for name, wanted in rules.get(name_of(definition), {}).items():
            if name not in properties:
                raise UserError(f"{name_of(definition)} has rules for {name}, which it lacks.")
            properties[name][_RULES_KEY] = [dict(each) for each in wanted]
    return result


def apply_definitions(api: ApiServer, directory: Path, version: str) -> Sequence[str]:
    """Create or change the definitions in a directory, but for those of a newer chart.

    Args:
        api: The Kubernetes API.
        directory: Where the definitions are.
        version: Version of the chart that they are from.

    Returns:
        Names of the definitions that are now these.
    """
    knows_rules = api.version() >= _RULES_SINCE
    rules = read_rules(directory) if knows_rules else {}
    return [
        name_of(definition)
        for plain in read_definitions(directory)
        if _apply(api, definition := with_rules(plain, rules), version)
    ]


def _apply(api: ApiServer, definition: Resource, version: str) -> bool:
    name = name_of(definition)
    there = api.find(CUSTOM_RESOURCE_DEFINITION, name)
    story = {"definition": name, "version": version, "there": _version_of(there)}
    if _order(_version_of(there)) > _order(version):
        logger.warning("Definition of a newer chart is left as it is", extra=story)
        return False
    marked = {"annotations": {VERSION_ANNOTATION: version}}
    if there is None:
        metadata = {**definition["metadata"], **marked}
        api.create(CUSTOM_RESOURCE_DEFINITION, {**definition, "metadata": metadata})
    else:
        changed = {"metadata": marked, "spec": definition["spec"]}
        api.patch(CUSTOM_RESOURCE_DEFINITION, name, changed)
    logger.info("Definition applied", extra=story)
    return True


def _version_of(definition: Resource | None) -> str:
    annotations = (definition or {}).get("metadata", {}).get("annotations") or {}
    return str(annotations.get(VERSION_ANNOTATION, ""))


def _order(version: str) -> tuple[Sequence[int], bool, Sequence[tuple[bool, int, str]]]:
    """Return what orders versions. Source: Semantic Versioning 2.0.0, section 11."""
    core, _, before = version.partition("+")[0].partition("-")
    numbers = [int(each) for each in re.findall(r"[0-9]+", core)]
    parts = before.split(".") if before else []
    named = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
    return numbers, not before, named


# `Any`: YAML of kinds that are not ours.
def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, Mapping):
        raise UserError(f"{path} holds no object.")
    return document


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.kubernetes.hooks.crds")
    parser.add_argument("directory", type=Path, help="where the definitions are")
    parser.add_argument("--version", required=True, help="of the chart that they are from")
    arguments = parser.parse_args(argv)
    configure_logging(as_json=True, level=logging.INFO, stream=sys.stderr)
    apply_definitions(ApiServer.connect(), arguments.directory, arguments.version)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
