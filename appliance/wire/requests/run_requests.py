"""What a client's run request says about steps and dataloaders."""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import islice

from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import UserError
from protos.appliance.appliance_service_pb2 import RunRequest

_MAX_CHECKPOINTS = 1_000_000


def run_schedule(request: RunRequest) -> RunSchedule:
    """Return the steps of the session that a run request describes.

    Raises:
        UserError: It asks for no step at all, or for more checkpoints than anybody keeps.
    """
    if request.num_iterations < 1:
        raise UserError(f"A run of {request.num_iterations} steps was asked for; 1 is the least.")
    steps = {
        step
        for step in islice(_checkpoint_steps(request), _MAX_CHECKPOINTS + 1)
        if step <= request.num_iterations
    }
    if len(steps) > _MAX_CHECKPOINTS:
        raise UserError(
            f"The run's schedule has more than {_MAX_CHECKPOINTS:,} checkpoints.",
            hint="Take them less often.",
        )
    return RunSchedule(
        num_steps=request.num_iterations,
        output_interval=request.activation_freq,
        checkpoint_steps=frozenset(steps),
    )


def _checkpoint_steps(request: RunRequest) -> Iterator[int]:
    """Yield the 1-based checkpoint steps; the request's own numbers are 0-based."""
    for interval in request.checkpoint_schedule.intervals:
        end = min(interval.end, request.num_iterations)
        yield from range(interval.start + 1, end + 1, max(1, interval.step))
        if interval.include_last:
            yield interval.end


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLoaders:
    """The dataloaders that the input workers keep from session to session.

    A loader that cannot be restarted from a state stays alive while the client lists it, and goes
    on where it stopped; the round robin of a system's workers then has to go on as well.

    Attributes:
        taken: Batches taken from each loader that is alive, by its id.
    """

    taken: dict[int, int] = field(default_factory=dict)

    def first_batch(self, request: RunRequest) -> int:
        """Return how many batches the session's loader has given before."""
        if request.dataloader.initial_state:
            return 0
        return self.taken.get(request.dataloader.id, 0)

    def after(self, request: RunRequest) -> "DataLoaders":
        """Return the loaders once the session that the request begins is over."""
        alive: Set[int] = {*request.live_dataloaders, request.dataloader.id}
        taken = {key: count for key, count in self.taken.items() if key in alive}
        taken[request.dataloader.id] = self.first_batch(request) + request.num_iterations
        return replace(self, taken=taken)
