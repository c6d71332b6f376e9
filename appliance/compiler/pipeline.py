"""The compiler's one entry: program text and options in, `Plan` out.

    import -> support -> normalise -> frozen norms -> counts -> formats -> canonicalise
           -> batch sharding -> partition -> updates -> plan -> sparse weights -> packed loads
           -> memory

The graph is verified after every pass; a dump of each can be had for debugging.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from appliance.compiler.assembly import Parts, assemble
from appliance.compiler.importer import import_program
from appliance.compiler.passes.batch_sharding import shard_batch
from appliance.compiler.passes.canonicalise import canonicalise
from appliance.compiler.passes.counts import (
    count_chosen,
    count_from_the_end,
    count_labels,
    count_sums,
    count_towards_zero,
    count_windows,
)
from appliance.compiler.passes.decompositions import freeze_norms
from appliance.compiler.passes.formats import carry_formats, narrow_values
from appliance.compiler.passes.normalise import normalise
from appliance.compiler.passes.partition import partition
from appliance.compiler.passes.support import check_results, check_support, check_values
from appliance.compiler.passes.updates import order_updates
from appliance.compiler.wafer_memory import limit_memory
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Graph, verify
from appliance.core.ir.graph_text import print_graph
from appliance.core.ir.ops import verify_ops
from appliance.core.plans.loads.packed import packed_loads
from appliance.core.plans.micro_batches import UNLIMITED, WaferLimits
from appliance.core.plans.plan import Plan, Precision
from appliance.core.plans.plan import verify as verify_plan
from appliance.core.plans.sparse.marking import mark_sparse

COMPILER_VERSION: Final = 11
"""Part of every plan's key; raised when the same text would give another plan."""

_KEY_BYTES: Final = 8
"""A real cluster's hashes are numbers of 64 bits: enough for the programs of one user."""

Dump = Callable[[str, str], None]
"""Receives the name of a pass and the graph after it, as text."""


def plan_key(
    text: str,
    *,
    batch_size: int,
    precision: Precision,
    num_systems: int = 1,
    limits: WaferLimits = UNLIMITED,
) -> str:
    """Return the content hash under which the plan of a program is kept.

    The number of systems matters only where there are limits: a smaller share fits more easily.
    """
    digest = hashlib.sha256()
    digest.update(f"{COMPILER_VERSION}\n{batch_size}\n{precision.value}\n".encode())
    if limits != UNLIMITED:
        digest.update(f"{num_systems}\n{limits}\n".encode())
    digest.update(text.encode())
    return f"cs_{int.from_bytes(digest.digest()[:_KEY_BYTES])}"


def compile_program(
    text: str,
    *,
    batch_size: int,
    precision: Precision,
    num_systems: int = 1,
    limits: WaferLimits = UNLIMITED,
    dump: Dump | None = None,
) -> Plan:
    """Compile a program.

    The number of systems is checked against the batch, and its share against the limits; nothing
    else in the plan depends on it.

    Args:
        text: Program text as the client sends it.
        batch_size: Global batch.
        precision: How 16-bit formats are carried.
        num_systems: Systems that the job will use, at most `batch_size`.
        limits: What the program may use of each system's wafer.
        dump: Receives the graph after each pass.

    Returns:
        The plan; `appliance.core.plans.plan.verify` holds.

    Raises:
        ProgramError: The program is malformed or not supported, the batch too small, or not even
            one sample fits the wafer.
    """
    check_batch(batch_size, num_systems)
    key = plan_key(
        text, batch_size=batch_size, precision=precision, num_systems=num_systems, limits=limits
    )
    plan = compile_graph(
        import_program(text), key=key, batch_size=batch_size, precision=precision, dump=dump
    )
    return limit_memory(plan, num_systems=num_systems, limits=limits)


def compile_graph(
    written: Graph, *, key: str, batch_size: int, precision: Precision, dump: Dump | None = None
) -> Plan:
    """Compile an imported program; see `compile_program`.

    Raises:
        ProgramError: The program is not supported.
    """
    normal = normal_form(written, dump=dump)
    graph = lower(normal, precision=precision, dump=dump)
    sharded = shard_batch(graph, batch_size)
    _checked("batch_sharding", sharded.graph, dump)
    parts = partition(sharded)
    program = order_updates(sharded.graph, parts)
    plan = assemble(
        Parts(written=written, sharded=sharded, wafer=parts, updates=program),
        key=key,
        batch_size=batch_size,
        precision=precision,
    )
    if precision is Precision.F32:
        plan = replace(plan, narrow=narrow_values(normal, plan))
    plan = mark_sparse(plan)
    plan = replace(plan, packed=packed_loads(plan))
    verify_plan(plan)
    return plan


def check_batch(batch_size: int, num_systems: int) -> None:
    """Refuse a batch that leaves a system without a sample.

    Raises:
        ProgramError: It names both numbers.
    """
    if batch_size < num_systems:
        raise ProgramError(
            f"A batch of {batch_size} samples cannot be shared by {num_systems} systems.",
            hint=f"Use at least {num_systems} samples a batch, or at most {batch_size} systems.",
        )


_COUNTS = (
    count_labels,
    count_sums,
    count_towards_zero,
    count_windows,
    count_from_the_end,
    count_chosen,
)


def normal_form(graph: Graph, *, dump: Dump | None = None) -> Graph:
    """Bring an imported graph into normal form, typed as written.

    Raises:
        ProgramError: The program is not supported.
    """
    check_support(graph)
    check_values(graph)
    check_results(graph)
    graph = normalise(graph)
    _checked("normalise", graph, dump)
    graph = freeze_norms(graph)
    _checked("frozen_norms", graph, dump)
    for count in _COUNTS:
        graph = count(graph)
    _checked("counts", graph, dump)
    return graph


def lower(graph: Graph, *, precision: Precision, dump: Dump | None = None) -> Graph:
    """Bring a graph in normal form into the form that batch sharding starts from.

    Raises:
        ProgramError: The program names a format that does not exist.
    """
    graph = carry_formats(graph, precision)
    _checked("formats", graph, dump)
    graph = canonicalise(graph)
    _checked("canonicalise", graph, dump)
    return graph


def _checked(name: str, graph: Graph, dump: Dump | None) -> None:
    verify(graph)
    verify_ops(graph)
    if dump is not None:
        dump(name, print_graph(graph))
