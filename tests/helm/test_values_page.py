"""docs/chart-values.md has every value of the chart; `VALUES_WRITE=1` writes it anew."""

import os
import re
from collections.abc import Iterator
from typing import Any

from tests.support.helm import CHART, ROOT
from tests.support.values_reference import defaults, named_by_schema, reference, schema, values

PAGE = ROOT / "docs" / "chart-values.md"


def test_the_page_of_values_is_the_generated_one() -> None:
    if os.environ.get("VALUES_WRITE"):
        PAGE.write_text(reference())
    assert PAGE.read_text() == reference(), "run VALUES_WRITE=1 pytest tests/helm"


def test_values_and_schema_name_the_same() -> None:
    assert {value.path for value in values()} == named_by_schema()


def test_every_value_says_what_it_does() -> None:
    assert [value.path for value in values() if len(value.meaning.split()) < 3] == []


def test_every_value_is_used_by_a_template() -> None:
    """By its whole path, or by a variable or a `with` of what is above it."""
    texts = [path.read_text() for path in (CHART / "templates").rglob("*.*")]
    code = "\n".join(texts)
    unused = []
    for value in values():
        *above, name = value.path.split(".")
        if not re.search(rf"\.{name}\b", code) or (above and f".Values.{above[0]}" not in code):
            unused.append(value.path)
    assert unused == []


def _optional(part: dict[str, Any], known: dict[str, Any], prefix: str) -> Iterator[str]:
    for name in set(part) & set(known.get("properties", {})):
        if name not in known.get("required", ()):
            yield f"{prefix}{name}"
        if isinstance(part[name], dict):
            yield from _optional(part[name], known["properties"][name], f"{prefix}{name}.")


def test_a_value_that_is_missing_is_refused_by_its_name() -> None:
    """Templates would take it for false; `helm upgrade --reuse-values` leaves out new ones."""
    assert list(_optional(defaults(), schema(), "")) == []
