"""Every statement of the language reference with a program on both architectures."""

import re
from pathlib import Path

import pytest

from appliance.csl import builtins, libraries
from appliance.csl.builtins.registry import names_of_builtins
from tests.support.csl import check_error_in
from tests.support.csl_coverage import ROWS, Row, expected_of, result_of
from tests.support.csl_coverage.table import PAGE, table_text

CASES = [
    pytest.param(row, architecture, id=f"{row.name} ({architecture})")
    for row in ROWS
    for architecture in row.architectures
]
OF_LIBRARIES = {"intrinsic", "host_stream", "control_mask", "type_bits", "type_bytes", "type_kind"}
"""Builtins that only our libraries call."""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("row", "architecture"), CASES)
def test_a_statement_of_the_reference_holds(row: Row, architecture: str) -> None:
    if row.refused:
        options = {"architecture": architecture, "memcpy": True, **row.options}
        check_error_in(row.texts(), row.refused, **options)
    else:
        assert result_of(row, architecture) == expected_of(row)


def test_every_builtin_is_in_a_program_of_the_table() -> None:
    text = "\n".join(text for row in ROWS for text in row.texts().values())
    used = set(re.findall(r"@(\w+)", text))
    assert builtins is not None
    assert names_of_builtins() - OF_LIBRARIES - used == set()


def test_every_library_of_its_own_page_is_in_a_program_of_the_table() -> None:
    text = "\n".join(text for row in ROWS for text in row.texts().values())
    folder = Path(libraries.__file__).parent
    names = {path.stem for path in folder.glob("*.csl")}
    elsewhere = {"layout"}  # test_libraries
    assert {name for name in names if f"<{name}>" not in text} == elsewhere


def test_no_two_rows_say_the_same() -> None:
    names = [row.name for row in ROWS]
    assert sorted(names) == sorted(set(names))


def test_the_page_of_the_table_is_the_rows() -> None:
    """`python -m tests.support.csl_coverage.table` writes it."""
    assert (ROOT / PAGE).read_text() == table_text()
