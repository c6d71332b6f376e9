"""Every statement of the language reference with a program on both architectures."""

import pytest

from tests.support.csl import check_error_in
from tests.support.csl_coverage import ROWS, Row, expected_of, result_of

CASES = [
    pytest.param(row, architecture, id=f"{row.name} ({architecture})")
    for row in ROWS
    for architecture in row.architectures
]


@pytest.mark.parametrize(("row", "architecture"), CASES)
def test_a_statement_of_the_reference_holds(row: Row, architecture: str) -> None:
    if row.refused:
        options = {"architecture": architecture, "memcpy": True, **row.options}
        check_error_in(row.texts(), row.refused, **options)
    else:
        assert result_of(row, architecture) == expected_of(row)
