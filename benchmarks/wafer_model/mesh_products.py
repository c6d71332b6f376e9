"""Products of matrices that stay on the wafer: tiles shifted over a mesh, as in language inference.

Here no weight is streamed. MeshGEMM multiplies in P shifts on P x P PEs, while the next tiles move
to the neighbours; MeshGEMV multiplies once and sums along the columns with a two-phase tree.
A multiply-add of n elements takes the vector start (6 cycles) plus n / 2, half of the 16-bit peak,
because the two operands and the result meet in the same memory banks (the bank rule in the SDK
appendix; the same factor of two as 10,254 against 5,130 cycles in the official simulator). No
number is fitted, but this form was picked among several with the published rates in view.

Source: He et al., WaferLLM, OSDI 2025, arXiv 2502.04563: algorithms, shapes and measurements.
"""

import math
from dataclasses import dataclass

from appliance.wafer.hardware import Machine, VectorOp
from appliance.wafer.timing import collectives
from benchmarks.wafer_model import reductions

WAFERLLM_CLOCK_HERTZ = 1.1e9
"""WaferLLM's figures are for 1.1 GHz."""
_ALLREDUCES_PER_LAYER = 5
"""Two norms, largest score, sum of exponentials, one vector turned from rows to columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """Dimensions that inference needs.

    Attributes:
        layers: Blocks.
        hidden: Width of the residual stream.
        ffn: Width of the gated feed-forward part.
        heads: Query heads.
        kv_heads: Key and value heads.
    """

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int

    @property
    def head_width(self) -> int:
        """Features of one head."""
        return self.hidden // self.heads

    @property
    def kv_width(self) -> int:
        """Features of the keys."""
        return self.head_width * self.kv_heads

    @property
    def weight_shapes(self) -> tuple[tuple[int, int], ...]:
        """Features in and out of the products of one block: attention, then feed-forward."""
        hidden, kv, ffn = self.hidden, self.kv_width, self.ffn
        attention = ((hidden, hidden), (hidden, kv), (hidden, kv), (hidden, hidden))
        return (*attention, (hidden, ffn), (hidden, ffn), (ffn, hidden))


LLAMA3_8B = LanguageModel(layers=32, hidden=4096, ffn=14336, heads=32, kv_heads=8)
CODELLAMA_34B = LanguageModel(layers=48, hidden=8192, ffn=22016, heads=64, kv_heads=8)
QWEN2_72B = LanguageModel(layers=80, hidden=8192, ffn=29568, heads=64, kv_heads=8)


def gemm_cycles(rows: int, inner: int, columns: int, *, side: int, machine: Machine) -> float:
    """Return the cycles of MeshGEMM: (rows, inner) times (inner, columns) on side x side PEs."""
    rows_tile, inner_tile, columns_tile = (
        math.ceil(size / side) for size in (rows, inner, columns)
    )
    short, long = sorted((rows_tile, columns_tile))
    multiply = inner_tile * short * _vector_cycles(long, machine)
    shift = inner_tile * max(rows_tile, columns_tile) / 2
    return side * max(multiply, shift)


def gemv_cycles(inner: int, columns: int, *, side: int, machine: Machine) -> float:
    """Return the cycles of MeshGEMV: (1, inner) times (inner, columns) on side x side PEs."""
    inner_tile, columns_tile = math.ceil(inner / side), math.ceil(columns / side)
    multiply = inner_tile * _vector_cycles(columns_tile, machine)
    words = math.ceil(columns_tile / 2)
    return multiply + reductions.two_phase_reduce(side, words, ramp_cycles=machine.ramp_cycles)


def prefill_tokens_per_second(
    model: LanguageModel, prompt: int, *, side: int, machine: Machine
) -> float:
    """Return the simulated rate at which a prompt is read."""
    products = sum(
        gemm_cycles(prompt, inner, columns, side=side, machine=machine)
        for inner, columns in model.weight_shapes
    )
    width = model.head_width
    scores = gemm_cycles(prompt, width, prompt, side=side, machine=machine)
    context = gemm_cycles(prompt, prompt, width, side=side, machine=machine)
    cycles = model.layers * (products + model.heads * (scores + context))
    return prompt / machine.seconds(cycles)


def decode_tokens_per_second(
    model: LanguageModel, context: int, *, side: int, machine: Machine
) -> float:
    """Return the simulated rate at which tokens are made, one after the other."""
    attention = ((model.hidden, context), (context, model.hidden))
    products = sum(
        gemv_cycles(inner, columns, side=side, machine=machine)
        for inner, columns in (*model.weight_shapes, *attention)
    )
    sums = reductions.two_phase_reduce(side, 1, ramp_cycles=machine.ramp_cycles)
    spread = collectives.broadcast(side, 1, ramp_cycles=machine.ramp_cycles)
    cycles = model.layers * (products + _ALLREDUCES_PER_LAYER * (sums + spread))
    return 1.0 / machine.seconds(cycles)


def _vector_cycles(length: int, machine: Machine) -> float:
    rate = machine.width(VectorOp.FMAC, 16) / 2
    return machine.vector_start_cycles + math.ceil(length / rate)
