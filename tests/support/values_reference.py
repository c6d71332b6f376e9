"""The reference of the chart's values, docs/chart-values.md, from values.yaml and its schema."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.helm import CHART

_HEAD = """\
# Values of the Helm chart

Generated from the chart by `VALUES_WRITE=1 pytest tests/helm/test_values_page.py`.

How to install it, and what belongs together: [deployment.md](deployment.md). The chart's
`values.schema.json` refuses names that are not here, and values that cannot be.
"""
_KEY = re.compile(r"^( *)([\w-]+):")


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a site may set.

    Attributes:
        path: Its name, as for `--set`.
        default: What it is by default.
        meaning: What values.yaml says above it.
    """

    path: str
    default: object
    meaning: str


def defaults() -> dict[str, Any]:
    """Return values.yaml."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def schema() -> dict[str, Any]:
    """Return values.schema.json."""
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return found


def values() -> list[Value]:
    """Return every value that has no further names below it, in the order of values.yaml."""
    meanings = _meanings()
    found = _leaves(defaults(), schema(), "")
    return [Value(path, default, meanings.get(path, "")) for path, default in found]


def _leaves(
    part: Mapping[str, Any], known: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Any]]:
    for name, default in part.items():
        below = known.get("properties", {}).get(name, {})
        if default and isinstance(default, dict) and below.get("properties"):
            yield from _leaves(default, below, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", default


def named_by_schema() -> set[str]:
    """Return the names of all values that the schema allows; those of Helm itself aside."""
    paths = {value.path for value in values()}

    def below(part: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for name, each in part.get("properties", {}).items():
            if (path := f"{prefix}{name}") in paths or not each.get("properties"):
                yield path
            else:
                yield from below(each, f"{path}.")

    return set(below(schema(), "")) - {"global"}


def _meanings() -> dict[str, str]:
    """Return the comments that begin with `--` by the path of the key below them."""
    found: dict[str, str] = {}
    names: list[str] = []
    said: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            said = [text[4:].strip()] if text.startswith("# --") else [*said, text[1:].strip()]
            continue
        if key := _KEY.match(line):
            names = [*names[: len(key[1]) // 2], key[2]]
            found[".".join(names)] = " ".join(said)
        said = []
    return found


def reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD.rstrip("\n"), *_tables(), ""])


def _tables() -> Iterator[str]:
    title = ""
    for value in values():
        top = value.path.partition(".")[0]
        own = f"`{top}`" if isinstance(defaults()[top], dict) else title or "Names"
        if own != title:
            title = own
            yield f"\n## {title}\n\n| value | default | meaning |\n|---|---|---|"
        yield f"| `{value.path}` | {_shown(value.default)} | {value.meaning} |"


def _shown(default: object) -> str:
    if default in ("", {}, []):
        return "none"
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"
