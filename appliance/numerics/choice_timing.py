"""Times the libraries that can compute a problem, on this machine, and picks the fastest.

What is timed is the kernel that would run, on operands of the problem's sizes. The libraries take
turns, and the times of one round are compared with each other, since the speed of a shared machine
changes from moment to moment. A single thread's time is that of its processor. Another library than
the rule's is chosen only if it gains enough to be no accident, so that small differences do not
decide which bits a program computes.
"""

import functools
import importlib.metadata
import math
import mmap
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.choices import Choices, Implementation, Problem
from appliance.numerics.kernels.compile import compile_node
from appliance.numerics.onednn.library import load_library
from appliance.numerics.openblas import load_openblas
from appliance.numerics.processor import cpu_info

_LEAST_GAIN = 0.03
"""Share of the rule's time by which another library has to be faster."""
_MOST_BYTES = 32 << 20
"""Of the operands and results that are timed: of a larger problem a part is, at the same speed."""
_LEAST_ROUNDS, _MOST_ROUNDS, _ENOUGH_SECONDS = 5, 25, 0.04
_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a problem took by each library.

    Attributes:
        problem: What was computed.
        by_rule: The library that the rule names for it.
        seconds: The least time of each library; of a large problem that of a part.
        shares: The time of each library as a share of the rule's in the same round; the median.
        num_operations: What was computed in that time, as `Problem.num_operations` counts.
    """

    problem: Problem
    by_rule: Implementation
    seconds: Mapping[Implementation, float]
    shares: Mapping[Implementation, float]
    num_operations: int

    @property
    def chosen(self) -> Implementation:
        """The fastest library, or the rule's if that is as fast but for a few per cent."""
        fastest = min(self.shares, key=self.shares.__getitem__)
        return fastest if self.shares[fastest] < 1 - _LEAST_GAIN else self.by_rule


def measure(problem: Problem, *, num_threads: int) -> Timing:
    """Time every library that can compute a problem.

    Args:
        problem: What to compute.
        num_threads: Threads of an operation.

    Raises:
        InternalError: A library refuses a call.
    """
    part = _part(problem)
    node, types = _node(part)
    choices = Choices()
    with _threads(num_threads):
        with choices.collecting():
            kernel = compile_node(node, types)
        by_rule = _implementation(choices, problem)
        with _tensors([*types, *node.types]) as tensors:
            a, b, out = tensors
            assert kernel.into is not None
            run = functools.partial(kernel.into, out, a, b)
            clock = time.thread_time if num_threads == 1 else time.perf_counter
            rounds = _rounds(choices, part, run, _candidates(num_threads), clock)
    return Timing(
        problem=problem,
        by_rule=by_rule,
        seconds={each: min(times[each] for times in rounds) for each in rounds[0]},
        shares={
            each: statistics.median(times[each] / times[by_rule] for times in rounds)
            for each in rounds[0]
        },
        num_operations=part.num_operations,
    )


def has_choice(problem: Problem) -> bool:
    """Return whether there is a choice; small problems are left to PyTorch."""
    choices = Choices()
    with choices.collecting():
        compile_node(*_node(problem))
    return bool(choices.problems)


def machine() -> str:
    """Return what measurements depend on: processor and versions of the libraries, for people."""
    onednn = "" if load_library() is None else importlib.metadata.version("onednn-cpu-gomp")
    openblas = load_openblas()
    names = [
        f"{_processor()}, {platform.machine()}",
        f"PyTorch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})",
        f"oneDNN {onednn}" if onednn else "",
        "" if openblas is None else openblas.description,
    ]
    return "; ".join(name for name in names if name)


def _processor() -> str:
    """Return the processor's name with family, model and stepping, where Linux tells them."""
    found = cpu_info()
    keys = [key for key in ("cpu family", "model", "stepping") if key in found]
    name = found.get("model name") or platform.processor()
    return f"{name} ({', '.join(f'{key} {found[key]}' for key in keys)})"


def _implementation(choices: Choices, problem: Problem) -> Implementation:
    found = choices.implementations
    if len(found) != 1:
        raise InternalError(f"{problem} is too small for a choice between libraries.")
    (implementation,) = found.values()
    return implementation


def _candidates(num_threads: int) -> Sequence[Implementation]:
    found = [Implementation.PYTORCH]
    if load_library() is not None:
        found.append(Implementation.ONEDNN)
    if num_threads == 1 and load_openblas() is not None:
        found.append(Implementation.OPENBLAS)
    return found


def _rounds(
    choices: Choices,
    problem: Problem,
    run: Callable[[], object],
    candidates: Sequence[Implementation],
    clock: Callable[[], float],
) -> Sequence[Mapping[Implementation, float]]:
    """Return the seconds of each library, round by round."""
    for implementation in candidates:  # the first time each of them prepares
        choices.use({problem: implementation})
        run()
    rounds: list[Mapping[Implementation, float]] = []
    total = 0.0
    while len(rounds) < _MOST_ROUNDS:
        if len(rounds) >= _LEAST_ROUNDS and total >= _ENOUGH_SECONDS * len(candidates):
            break
        times: dict[Implementation, float] = {}
        for implementation in candidates:
            choices.use({problem: implementation})
            began = clock()
            run()
            times[implementation] = clock() - began
        rounds.append(times)
        total += sum(times.values())
    return rounds


def _part(problem: Problem) -> Problem:
    """Return a problem of the same kind whose tensors are no larger than what may be timed."""
    sizes = list(problem.sizes)
    while True:
        part = Problem(problem.operation, (sizes[0], sizes[1], sizes[2]))
        node, types = _node(part)
        if sum(type_.num_bytes for type_ in (*types, *node.types)) <= _MOST_BYTES:
            return part
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        sizes[longest] = -(-sizes[longest] // 2)


def _node(problem: Problem) -> tuple[Node, Sequence[TensorType]]:
    """Return an operation that poses a problem, and the types of its operands."""
    rows, inner, columns = problem.sizes
    transposes = problem.operation.value[-2:]
    a = (inner, rows) if transposes[0] == "t" else (rows, inner)
    b = (columns, inner) if transposes[1] == "t" else (inner, columns)
    node = Node(
        op="MatMul",
        operands=("a", "b"),
        results=("product",),
        types=(_float32((rows, columns)),),
        attributes={"transpose_a": transposes[0] == "t", "transpose_b": transposes[1] == "t"},
    )
    return node, [_float32(a), _float32(b)]


def _float32(shape: tuple[int, ...]) -> TensorType:
    return TensorType(shape, DType.F32)


@contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _tensors(types: Sequence[TensorType]) -> Iterator[list[torch.Tensor]]:
    """Provide tensors of given types, with numbers in them, in memory that is given back."""
    starts = [0]
    for type_ in types:
        starts.append(starts[-1] + -(-type_.num_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES)
    memory = mmap.mmap(-1, max(1, starts[-1]))
    generator = torch.Generator().manual_seed(0)
    whole = torch.frombuffer(memory, dtype=torch.float32)
    whole.uniform_(-1, 1, generator=generator)
    yield [
        whole[start // 4 :][: math.prod(type_.shape)].view(type_.shape)
        for start, type_ in zip(starts, types, strict=False)
    ]
