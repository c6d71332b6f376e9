"""YAML text, separate from JSON because importing yaml takes longer than most commands."""

from collections.abc import Mapping

import yaml

from csctl.output.documents.document import Json


def dump_yaml(document: Mapping[str, Json]) -> str:
    """Return block-style YAML with sorted keys, without a final newline."""
    text: str = yaml.safe_dump(document, default_flow_style=False, sort_keys=True)
    return text.rstrip("\n")
