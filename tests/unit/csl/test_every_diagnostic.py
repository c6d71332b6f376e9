"""No diagnostic without a wrong program that is told it, at the right place."""

import importlib
from pathlib import Path

import pytest

from tests.support.csl_diagnostics import calls_of, is_reached, recorded, sites


def test_every_diagnostic_has_a_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(monkeypatch) as lines:
        for path in sorted(Path(__file__).parent.glob("test_*.py")):
            module = importlib.import_module(f"{__package__}.{path.stem}")
            for call in calls_of(module):
                call()
    untested = [str(site) for site in sites() if not is_reached(site, lines)]
    assert untested == [], f"{len(untested)} diagnostics have no wrong program in tests/unit/csl"
