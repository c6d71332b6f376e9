"""Which library computes an operation where several can.

A kernel whose operation is large enough to be worth a choice asks for a `Choice` when it is built
and looks at it whenever it runs. At first the choice is what a rule says, which follows from the
processor alone; a session may then be told what was measured
(docs/decisions/0138-kernels-are-chosen-by-measurement.md). A choice does not change once steps run.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.errors import InternalError


class Implementation(StrEnum):
    """By which library an operation is computed."""

    PYTORCH = "pytorch"
    """PyTorch, whose matrix products are MKL's on x86-64."""
    ONEDNN = "onednn"
    OPENBLAS = "openblas"


class Operation(StrEnum):
    """What several libraries compute.

    The two letters of a product say of either matrix whether it lies row by row as it is
    multiplied (n) or is given transposed (t), as in BLAS.
    """

    PRODUCT_NN = "product-nn"
    PRODUCT_NT = "product-nt"
    PRODUCT_TN = "product-tn"
    PRODUCT_TT = "product-tt"


_MOST_ELEMENTS = 1 << 48
"""Of a problem that is read from a text: more than any tensor has."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An operation on float32 values of given sizes.

    Attributes:
        operation: What is computed.
        sizes: Rows, inner size and columns of a product.
    """

    operation: Operation
    sizes: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.operation.value} {'x'.join(map(str, self.sizes))}"

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """Return the problem that `str` has written.

        Raises:
            InternalError: It is none.
        """
        name, _, sizes = text.partition(" ")
        try:
            rows, inner, columns = map(int, sizes.split("x"))
            problem = cls(Operation(name), (rows, inner, columns))
        except ValueError as error:
            raise InternalError(f"{text!r} names no operation with its sizes: {error}") from error
        if min(problem.sizes) < 1:
            raise InternalError(f"{text!r} should have sizes of at least 1.")
        if math.prod(problem.sizes) > _MOST_ELEMENTS:
            raise InternalError(f"{text!r} is larger than anything that is computed.")
        return problem

    @property
    def num_operations(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.sizes)


@dataclass(slots=True)
class Choice:
    """How a problem is computed; shared with the kernel that computes it.

    Attributes:
        problem: What is computed.
        implementation: By which library.
    """

    problem: Problem
    implementation: Implementation


_collectors: contextvars.ContextVar["Choices | None"] = contextvars.ContextVar(
    "collectors", default=None
)


def choose(problem: Problem, by_rule: Implementation) -> Choice:
    """Return the choice for a kernel that is being built.

    Args:
        problem: What it computes.
        by_rule: What it is computed by unless a session is told otherwise.
    """
    choice = Choice(problem, by_rule)
    collector = _collectors.get()
    if collector is not None:
        collector.add(choice)
    return choice


class Choices:
    """The choices of all kernels that are built within `collecting`."""

    def __init__(self) -> None:
        self._made: list[Choice] = []

    def add(self, choice: Choice) -> None:
        """Take in a choice."""
        self._made.append(choice)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Take in the choices of the kernels that this thread builds meanwhile."""
        token = _collectors.set(self)
        try:
            yield
        finally:
            _collectors.reset(token)

    @property
    def implementations(self) -> Mapping[Problem, Implementation]:
        """How every problem is computed now."""
        return {choice.problem: choice.implementation for choice in self._made}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What there is to choose for, each once, in order."""
        return tuple(sorted({choice.problem for choice in self._made}))

    def use(self, implementations: Mapping[Problem, Implementation]) -> None:
        """Compute every problem as is said; what is not named stays as it is."""
        for choice in self._made:
            choice.implementation = implementations.get(choice.problem, choice.implementation)
