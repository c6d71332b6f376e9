"""The table of the language: every statement of the reference with a program."""

from tests.support.csl_coverage import (
    builtins,
    copies,
    fifos,
    functions,
    idioms,
    kernels,
    libraries,
    machine,
    members,
    pairs,
    programs,
    refused,
    routes,
    services,
    syntax,
    traffic,
    transforms,
    types,
    values,
    vectors,
)
from tests.support.csl_coverage.rows import Row, expected_of, result_of

ROWS: tuple[Row, ...] = (
    *syntax.ROWS,
    *types.ROWS,
    *values.ROWS,
    *functions.ROWS,
    *types.COMPTIME,
    *copies.ROWS,
    *builtins.ROWS,
    *machine.ROWS,
    *vectors.ROWS,
    *fifos.ROWS,
    *programs.ROWS,
    *routes.ROWS,
    *pairs.ROWS,
    *traffic.ROWS,
    *kernels.ROWS,
    *idioms.ROWS,
    *libraries.ROWS,
    *members.ROWS,
    *refused.ROWS,
    *services.ROWS,
    *transforms.ROWS,
)

__all__ = ["ROWS", "Row", "expected_of", "result_of"]
