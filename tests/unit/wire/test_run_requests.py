"""A run request becomes steps, checkpoint steps and a place in the dataloader."""

import pytest

from appliance.core.errors import UserError
from appliance.wire.requests.run_requests import DataLoaders, run_schedule
from protos.appliance.appliance_service_pb2 import RunRequest


def request(steps: int = 10, *, loader: int = 0, live: tuple[int, ...] = (), state: str = ""):
    made = RunRequest(num_iterations=steps, activation_freq=2, live_dataloaders=live)
    made.dataloader.id, made.dataloader.initial_state = loader, state
    return made


def test_checkpoint_steps_count_from_one_and_stay_within_the_run() -> None:
    made = request()
    made.checkpoint_schedule.intervals.add(start=3, end=100, step=4, include_last=True)
    schedule = run_schedule(made)
    assert schedule.checkpoint_steps == {4, 8}
    assert (schedule.num_steps, schedule.output_interval) == (10, 2)


def test_the_last_step_of_an_interval_can_be_included() -> None:
    made = request()
    made.checkpoint_schedule.intervals.add(start=4, end=10, step=5, include_last=True)
    assert run_schedule(made).checkpoint_steps == {5, 10}


def test_a_run_without_steps_is_refused() -> None:
    with pytest.raises(UserError, match="A run of 0 steps"):
        run_schedule(request(0))


def test_a_live_loader_goes_on_where_it_stopped() -> None:
    loaders = DataLoaders().after(request(7, loader=1, live=(1,)))
    assert loaders.first_batch(request(5, loader=1, live=(1,))) == 7
    assert loaders.after(request(5, loader=1, live=(1,))).taken == {1: 12}


def test_a_loader_with_a_state_starts_anew() -> None:
    loaders = DataLoaders().after(request(7, loader=1, live=(1,)))
    assert loaders.first_batch(request(5, loader=1, live=(1,), state="ab")) == 0


def test_a_loader_that_is_no_longer_alive_is_forgotten() -> None:
    loaders = DataLoaders().after(request(7, loader=1, live=(1,)))
    assert loaders.after(request(5, loader=2, live=(2,))).taken == {2: 5}
