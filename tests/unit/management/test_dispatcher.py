"""What the queue learns from jobs that have ended, under this management and an earlier one."""

import datetime as dt
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.scheduler.fair_share import Account
from appliance.scheduler.policy import Policy
from appliance.storage.cluster.past_runs import PastRun
from tests.support.management import make_model, new_job
from tests.support.scheduling import execute, held

SECONDS = 100.0
SHARE = (8 + 1 + 8 * 0.25) / (8 + 1 + 8)
"""After one whole run and eight that ended after a quarter; eight whole ones are assumed before."""


def past_run(clock, seconds, *, has_succeeded):
    now = clock.now()
    return PastRun(
        type=JobType.EXECUTE,
        session="job-operator",
        user="ada",
        num_systems=1,
        program="",
        started_at=now - dt.timedelta(seconds=seconds),
        ended_at=now,
        has_succeeded=has_succeeded,
    )


def remembered(dispatcher, record, clock):
    cut = [past_run(clock, SECONDS / 4, has_succeeded=False)] * 8
    dispatcher.remember([past_run(clock, SECONDS, has_succeeded=True), *cut])


def accounted(dispatcher, record, clock):
    now = clock.now().timestamp()
    grant = replace(held("r", "systemf0"), account=Account("job-operator", "ada"))
    dispatcher.account_for(record, replace(grant, started_seconds=now - SECONDS), Phase.SUCCEEDED)
    ended = (Phase.FAILED, Phase.CANCELLED) * 4
    for phase in ended:
        dispatcher.account_for(record, replace(grant, started_seconds=now - SECONDS / 4), phase)


@pytest.mark.parametrize("learn", [remembered, accounted])
def test_a_waiting_job_is_in_the_way_for_as_long_as_such_jobs_are_on_average(state, clock, learn):
    now = clock.now().timestamp()
    running = held("r", "systemf0", started_seconds=now)
    model = make_model(state, num_systems=1)
    dispatcher = Dispatcher(model, Policy(), clock, lambda: [running])
    ada = User(uid=1, gid=1, name="ada")
    record = state.jobs.create(new_job("wsjob-first", num_systems=1, user=ada))
    learn(dispatcher, record, clock)
    dispatcher.add(record)
    behind = execute("wsjob-behind", 1, sequence=99, user="ada", submitted_seconds=now)
    dispatcher.run_cycle()
    first = dispatcher.published.find(record.id).expected_start.at_seconds
    found = dispatcher.would_start(behind).expected_start.at_seconds
    assert found - first == pytest.approx(SECONDS * SHARE)
