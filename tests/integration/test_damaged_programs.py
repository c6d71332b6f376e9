"""Damaged program files in a kernel whose every step is watched; `make fuzz` runs more."""

import pytest

from tests.fuzz.programs import fuzz, sanitized, sanitizer


@pytest.mark.skipif(sanitizer() is None, reason="needs gcc with the address sanitizer")
def test_damaged_program_files_are_refused_or_run_within_their_tables() -> None:
    with sanitized() as library:
        findings = fuzz(150, 44, library=library)
    assert findings.broken == {}
    assert findings.answers["refused"] > 5
    assert findings.answers["ran"] > 5
