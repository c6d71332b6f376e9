"""What administrators do to systems, and what the scheduler sees of it."""

import dataclasses
import datetime as dt

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.cluster.systems import (
    ClusterDescription,
    System,
    SystemEvent,
    SystemEventKind,
    SystemState,
)
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.reconciler.scheduling.dispatcher import snapshot_of
from appliance.scheduler.fair_share import UsageLedger
from appliance.scheduler.policy import Policy
from appliance.scheduler.snapshot import Maintenance, SessionQuota
from tests.support.clock import FakeClock
from tests.support.management import make_model, move, new_job, opened_state


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def state(tmp_path, clock):
    with opened_state(tmp_path, clock) as state:
        yield state


@pytest.fixture
def model(state):
    return make_model(state, num_systems=3)


@pytest.fixture
def systems(state, model):
    return SystemService(state, model)


def snapshot(model, clock):
    return snapshot_of(
        model.facts,
        (),
        now_seconds=clock.now().timestamp(),
        usage=UsageLedger(1.0),
        policy=Policy(),
    )


def test_a_drained_or_unhealthy_system_gets_no_job(systems, model, clock):
    systems.set_state("systemf0", SystemState.DRAIN, notes="swap a fan")
    systems.set_health("systemf1", is_healthy=False)
    free = snapshot(model, clock).free_systems()
    assert [system.name for system in free] == ["systemf2"]
    assert systems.load("systemf0").notes == "swap a fan"
    systems.set_state("systemf0", SystemState.UP)
    assert len(snapshot(model, clock).free_systems()) == 2


def test_a_stale_or_unknown_system_is_refused(systems):
    systems.set_state("systemf0", SystemState.DRAIN, version=1)
    with pytest.raises(ConflictError, match="version 2"):
        systems.set_health("systemf0", is_healthy=False, version=1)
    with pytest.raises(NotFoundError, match="no system 'systemf7'"):
        systems.set_state("systemf7", SystemState.UP)


def test_maintenance_is_planned_seen_and_ended(systems, model, clock):
    later = clock.now() + dt.timedelta(hours=1)
    planned = systems.plan_maintenance(["systemf0", "systemf1"], starts_at=later, seconds=600)
    assert len({window.id for window in planned}) == 1
    start = later.timestamp()
    assert snapshot(model, clock).maintenance == (
        Maintenance(system="systemf0", start_seconds=start, end_seconds=start + 600),
        Maintenance(system="systemf1", start_seconds=start, end_seconds=start + 600),
    )
    with pytest.raises(ConflictError, match=planned[0].id):
        systems.plan_maintenance(["systemf1"], starts_at=None, seconds=4000)
    assert systems.end_maintenance(planned[0].id) == 2
    assert systems.windows() == []
    with pytest.raises(NotFoundError):
        systems.end_maintenance(planned[0].id)


def test_past_maintenance_is_history(systems, model, clock):
    systems.plan_maintenance(["systemf0"], starts_at=None, seconds=60)
    clock.advance(61)
    assert systems.windows() == []
    assert len(systems.windows(with_past=True)) == 1
    assert snapshot(model, clock).maintenance == ()


def test_a_dry_run_of_maintenance_checks_and_keeps_nothing(systems):
    assert systems.plan_maintenance(["systemf0"], starts_at=None, seconds=60, dry_run=True)
    assert systems.windows() == []
    for names, seconds in (([], 60), (["systemf0", "systemf0"], 60), (["systemf0"], 0)):
        with pytest.raises(UserError, match="aintenance"):
            systems.plan_maintenance(names, starts_at=None, seconds=seconds, dry_run=True)


def test_the_cluster_is_changed_while_it_runs_but_not_under_a_job(systems, state):
    state.jobs.create(new_job())
    job = JobId("wsjob-a")
    move(state.jobs, job, Phase.QUEUED, Phase.SCHEDULED, systems=["systemf2"])
    smaller = ClusterDescription(systems=(System(name="systemf0"),))
    with pytest.raises(ConflictError, match="systemf2 cannot be removed: job wsjob-a"):
        systems.apply(smaller)
    move(state.jobs, job, Phase.SCHEDULED, Phase.FAILED)
    assert [system.name for system in systems.apply(smaller).systems] == ["systemf0"]


def test_only_sessions_with_rules_reach_the_scheduler(state, model, clock):
    sessions = SessionService(state, model)
    sessions.create("plain", SessionSpec(members=("ada",)))
    sessions.create("ruled", SessionSpec(num_systems=1, max_node_groups=2))
    assert snapshot(model, clock).sessions == (
        SessionQuota(name="ruled", num_systems=1, max_node_groups=2),
    )


def test_what_happens_to_systems_is_kept_and_found_again(systems, clock):
    systems.set_state("systemf0", SystemState.DRAIN, notes="swap a fan", by="root")
    clock.advance(10.0)
    systems.set_health("systemf1", is_healthy=False, notes="link down", by="ada", port="n05")
    clock.advance(10.0)
    stall = SystemEvent(
        system="systemf1", at=clock.now(), kind=SystemEventKind.STALL, details={"job": "wsjob-1"}
    )
    systems.report(stall)
    first, second, third = systems.events(SystemEventFilter())
    assert (first.system, first.details["state"], first.note) == ("systemf0", "drain", "swap a fan")
    assert second.details == {"state": "unhealthy", "port": "n05", "caller": "ada"}
    assert third == stall
    of_one = systems.events(SystemEventFilter(system="systemf1"))
    assert of_one == [second, third]
    assert systems.events(SystemEventFilter(kind=SystemEventKind.STALL)) == [third]
    assert systems.events(SystemEventFilter(since=second.at, until=third.at)) == [second]
    with pytest.raises(NotFoundError):
        systems.report(dataclasses.replace(stall, system="systemf9"))
