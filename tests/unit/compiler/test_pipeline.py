"""Keys, errors and dumps of the pipeline."""

from pathlib import Path

import pytest

from appliance.compiler.pipeline import compile_program, plan_key
from appliance.core.errors import ProgramError
from appliance.core.ir.graph_text import parse_graph
from appliance.core.plans.plan import Precision

TEXT = (Path(__file__).parent / "programs" / "mlp.mlir").read_text()


def test_a_key_is_that_of_text_batch_and_precision():
    keys = {
        plan_key(text, batch_size=batch, precision=precision)
        for text in (TEXT, TEXT + "\n")
        for batch in (2, 4)
        for precision in Precision
    }
    assert len(keys) == 8
    assert all(key.startswith("cs_") for key in keys)
    plan = compile_program(TEXT, batch_size=4, precision=Precision.F32)
    assert plan.key == plan_key(TEXT, batch_size=4, precision=Precision.F32)


def test_a_batch_smaller_than_the_number_of_systems_is_refused_with_both_numbers():
    with pytest.raises(ProgramError, match="4 samples cannot be shared by 5 systems"):
        compile_program(TEXT, batch_size=4, precision=Precision.F32, num_systems=5)


def test_a_batch_size_that_is_not_the_programs_is_refused():
    with pytest.raises(ProgramError, match="'input_0' is tensor<4x8xf32>"):
        compile_program(TEXT, batch_size=3, precision=Precision.F32)


def test_every_pass_can_be_dumped():
    dumps: dict[str, str] = {}
    compile_program(TEXT, batch_size=4, precision=Precision.F32, dump=dumps.__setitem__)
    assert list(dumps) == [
        *("normalise", "frozen_norms", "counts", "formats"),
        *("canonicalise", "batch_sharding"),
    ]
    for text in dumps.values():
        assert parse_graph(text).nodes
