"""Computes a plan with a loop over positions: takes a step's loads, then runs the whole loop.

It stands where `workers.csx.executor.Executor` stands for other plans: layer step after layer step
it is given what it loads, and with the last one it runs all passes and sends the final tokens. What
is loaded is kept, since every pass needs it: in place where it stays readable, else as a copy that
is made once, unless steps change it.
"""

import copy
import logging
import math

import numpy as np
import torch

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.generation import Generation, LoopRules, Tokens, advance, begin, finished
from appliance.numerics.devices import to_device
from appliance.numerics.programs.pool import TensorPool
from appliance.streams.torch_views import Tensors
from workers.csx.generation.conditions import hold
from workers.csx.generation.loop_program import LoopProgram
from workers.csx.generation.row_passes import RowPasses
from workers.csx.generation.rows import NotByRowsError, by_rows
from workers.csx.generation.stage import KeptLoads, Stage, result_types

logger = logging.getLogger(__name__)


class LoopExecutor:
    """The wafer part of a plan with a loop, for one share of the batch.

    Attributes:
        positions: The positions of the passes of this step.
        num_tokens: Tokens that this step has generated.

    Args:
        part: The wafer part.
        device: Where to compute; None is the processor.
        kept: What is loaded, for all strands.
    """

    def __init__(
        self, part: LoopProgram, device: torch.device | None = None, kept: KeptLoads | None = None
    ) -> None:
        self._part, self._device = part, device
        self._kept = kept or KeptLoads(device)
        self._constants = self._there(part.constants.tensors())
        self._rules = LoopRules.of(part.end)
        self._tokens, _, self._update, self._stop = part.end.operands
        self._shape = part.types[self._tokens].shape
        self._size = self._shape[self._rules.loop_dim]
        self._loads: Tensors = {}
        self._weights: Tensors = {}
        self._batch: Tensors = {}
        self._step = 0
        self.positions: frozenset[int] = frozenset()
        self.num_tokens = 0
        self._make_stages(TensorPool() if device is None else None)

    def _make_stages(self, pool: TensorPool | None) -> None:
        part, known, device = self._part, self._constants, self._device
        body = result_types(part.body)
        self._partials = tuple(dict.fromkeys(partial for _, partial in part.sums))
        read_at_end = {name for node in part.epilogue for name in node.operands}
        self._read_at_end = frozenset(body.keys() & {*read_at_end, *self._partials})
        self._needed = self._read_at_end | (body.keys() & {self._update})
        later = {name for node in (*part.prologue, *part.body, part.end) for name in node.operands}
        later |= {*read_at_end, *self._partials}
        types = dict(part.types)
        self._weight_stage = Stage(
            part.weights, types=types, read_later=later, known=known, pool=pool, device=device
        )
        types.update(self._weight_stage.types)
        self._prologue = Stage(
            part.prologue, types=types, read_later=later, known=known, pool=pool, device=device
        )
        types.update(self._prologue.types)
        self._rows = self._row_passes(types)
        caches = self._rows.caches if self._rows is not None else frozenset()
        self._body = Stage(
            part.body,
            types=types,
            read_later=self._needed | caches,
            known=known,
            pool=pool,
            device=device,
        )
        types.update({**self._body.types, **result_types([part.end])})
        self._epilogue = Stage(
            part.epilogue,
            types=types,
            read_later=(),
            known=known,
            written=self._partials,
            pool=pool,
            device=device,
        )

    def _row_passes(self, types: dict[str, TensorType]) -> RowPasses | None:
        part = self._part
        try:
            rows = by_rows(
                part.body,
                tokens=self._tokens,
                loop_dim=self._rules.loop_dim,
                positions=part.positions,
                update=self._update,
                types=types,
            )
            if not self._needed <= rows.points:
                raise NotByRowsError("values of all positions are read after the loop")
        except NotByRowsError as error:
            logger.info("Every pass computes all positions", extra={"reason": str(error)})
            return None
        return RowPasses(
            rows,
            tokens=self._tokens,
            loop_dim=self._rules.loop_dim,
            size=self._size,
            types=types,
            known=self._constants,
            live_out=self._needed,
            device=self._device,
        )

    @property
    def activations(self) -> Tensors:
        """The values that are resident now, by name."""
        return self._batch

    def begin(self, step: int, batch: Tensors) -> None:
        """Begin a step, whose number is for random operations, with its batch tensors by name."""
        self._step, self._batch = step, batch
        self.positions, self.num_tokens = frozenset(), 0

    def compute(self, layer_step: int, loads: Tensors, sums: Tensors) -> None:
        """Take what a layer step loads; with the last one, run the loop.

        Args:
            layer_step: Its index; they run in order.
            loads: What it loads, by name; may be reused once this returns.
            sums: Where to write what it sends, by the name of the total.

        Raises:
            InternalError: An operation failed.
        """
        part = self._part
        age = self._step if part.loads_change else 0
        for name, tensor in loads.items():
            kept = self._kept.take(name, tensor, age=age, in_place=part.loads_stay)
            self._loads[name] = kept
        if layer_step == part.num_layer_steps - 1:
            try:
                self._run(sums)
            except InternalError as error:
                raise InternalError(f"Generation: {error}") from error

    def end(self) -> None:
        """Forget everything of the step."""
        self._batch = {}
        if self._rows is not None:
            self._rows.end()

    def twin(self) -> "LoopExecutor":
        """Return an executor with samples of its own and everything else in common."""
        return copy.copy(self)

    def _run(self, sums: Tensors) -> None:
        if not self._weights or self._part.loads_change:
            given = {**self._constants, **self._loads}
            self._weights.update(given)
            self._weights.update(self._weight_stage.run(given, step=self._step))
        fixed = {**self._weights, **self._there(self._batch)}
        fixed.update(self._prologue.run(fixed, step=self._step))
        state, last = self._generate(fixed)
        self.num_tokens = state.num_generated
        fixed[self._part.end.results[0]] = self._as_tokens(finished(state), self._shape)
        self._send({**fixed, **last}, sums)

    def _generate(self, fixed: Tensors) -> tuple[Generation, Tensors]:
        """Run all passes; return the state after them and what the last one leaves."""
        state = self._begun()
        rows = self._rows
        if rows is not None and not all(hold(masks, fixed) for masks in rows.conditions):
            rows = None
        positions, last = list[int](), Tensors()
        while state.position is not None:
            if rows is not None and positions:
                last = self._row_pass(rows, fixed, state, state.position)
            else:
                last = self._pass(rows, fixed, state, state.position)
            positions.append(state.position)
            update = last.get(self._update, fixed.get(self._update))
            assert update is not None, "neither a pass nor the batch has the update"
            state = advance(state, update.reshape(len(state.tokens), -1).cpu().numpy())
        if not positions and self._read_at_end:
            last = self._pass(None, fixed, state, 0)
        self.positions = frozenset(positions)
        return state, last

    def _begun(self) -> Generation:
        dim = self._rules.loop_dim
        tokens = self._batch[self._tokens].numpy()
        tokens = tokens.reshape(-1, self._size, math.prod(self._shape[dim + 1 :]))
        stop = self._batch[self._stop].numpy()
        stop = stop.reshape(len(stop), -1, stop.shape[-1])
        return begin(self._rules, tokens, np.repeat(stop, len(tokens) // len(stop), axis=0))

    def _pass(
        self, rows: RowPasses | None, fixed: Tensors, state: Generation, position: int
    ) -> Tensors:
        """Compute all positions, and fill caches if there are some."""
        tokens = self._as_tokens(state.tokens, self._shape)
        values = {**fixed, **self._places(position), self._tokens: tokens}
        found = self._body.run(values, step=self._number(position))
        if rows is not None:
            rows.begin(found)
        return {name: found[name] for name in self._needed}

    def _row_pass(
        self, rows: RowPasses, fixed: Tensors, state: Generation, position: int
    ) -> Tensors:
        """Compute the position of the pass."""
        dim = self._rules.loop_dim
        shape = (*self._shape[:dim], 1, *self._shape[dim + 1 :])
        row = self._as_tokens(state.tokens[:, position], shape)
        values = {**fixed, **self._places(position), self._tokens: row}
        return rows.run(values, position=position, step=self._number(position))

    def _number(self, position: int) -> int:
        """Return the number of a pass for random operations."""
        return self._step * self._size + position

    def _places(self, position: int) -> Tensors:
        types, device = self._part.types, self._device
        return {
            name: torch.full(types[name].shape, position, dtype=torch.int32, device=device)
            for name in self._part.positions
        }

    def _as_tokens(self, tokens: Tokens, shape: tuple[int, ...]) -> torch.Tensor:
        found = torch.from_numpy(np.ascontiguousarray(tokens)).reshape(shape)
        found = found.to(self._batch[self._tokens].dtype)
        return found if self._device is None else to_device(found, self._device)

    def _send(self, values: Tensors, sums: Tensors) -> None:
        first: dict[str, str] = {}
        for total, partial in self._part.sums:
            first.setdefault(partial, total)
        out = {partial: sums[total] for partial, total in first.items()}
        self._epilogue.run(values, step=self._step, out=out)
        for total, partial in self._part.sums:
            if first[partial] != total:
                sums[total].copy_(sums[first[partial]])

    def _there(self, tensors: Tensors) -> Tensors:
        """Return tensors where this computes."""
        if self._device is None:
            return tensors
        return {name: to_device(tensor, self._device) for name, tensor in tensors.items()}
