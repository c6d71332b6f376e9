"""Traced programs in 16-bit precision, whose weights are cast wherever they are used."""

from pathlib import Path

from appliance.compiler.pipeline import compile_program
from appliance.core.plans.plan import Plan, Precision
from tests.support.masked_plans import BATCH_SIZE

FORMATS = ("float16", "bfloat16", "cbfloat16")
GPT = Path(__file__).parents[1] / "unit" / "compiler" / "programs" / "gpt.mlir"


def narrow_plan(text: Path = GPT, *, half: str = "float16") -> Plan:
    """Return the plan of a program whose 16-bit values have a format; for `masked_data`."""
    program = text.read_text().replace('cs.fp16_type = "float16"', f'cs.fp16_type = "{half}"')
    return compile_program(program, batch_size=BATCH_SIZE, precision=Precision.EXACT)
