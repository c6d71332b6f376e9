"""The table of the language: every statement of the reference with a program."""

from tests.support.csl_coverage import (
    builtins,
    copies,
    fifos,
    libraries,
    programs,
    routes,
    types,
    vectors,
)
from tests.support.csl_coverage.rows import Row, expected_of, result_of

ROWS: tuple[Row, ...] = (
    *types.ROWS,
    *types.COMPTIME,
    *copies.ROWS,
    *builtins.ROWS,
    *vectors.ROWS,
    *fifos.ROWS,
    *programs.ROWS,
    *routes.ROWS,
    *libraries.ROWS,
)

__all__ = ["ROWS", "Row", "expected_of", "result_of"]
