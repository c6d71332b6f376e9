"""Jobs as csctl's resources."""

import datetime as dt
from dataclasses import fields

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, JobRecord, NewJob, PodRecord
from appliance.core.ids import Role
from appliance.wire import resources
from protos.csctl import resources_pb2 as pb
from tests.support.management import new_job

SUBMITTED = dt.datetime(2024, 5, 1, 12, 30, 15, 250_001, tzinfo=dt.UTC)


def make_record(**changes):
    new = new_job(labels={"model": "gpt"})
    kept = {
        **{each.name: getattr(new, each.name) for each in fields(NewJob)},
        "sequence": 1,
        "phase": Phase.QUEUED,
        "message": "",
        "systems": (),
        "service_address": "",
        "artifact_dir": "",
        "created_at": SUBMITTED,
        "started_at": None,
        "ended_at": None,
    }
    return JobRecord(**{**kept, **changes})


def test_a_waiting_job_has_no_times_but_that_of_its_submission():
    job = resources.job(make_record(), pending=pb.JobPendingStatus(pending_reason="full"))
    assert job.meta.create_time.ToDatetime(tzinfo=dt.UTC) == SUBMITTED
    assert not job.status.HasField("execution_time")
    assert not job.status.HasField("completion_time")
    assert job.status.phase == pb.JobStatus.QUEUED
    assert job.status.lock.job_pending_status.pending_reason == "full"
    assert (job.meta.labels, dict(job.meta.properties)) == ({"model": "gpt"}, {})
    assert (job.spec.priority, job.spec.user.username) == ("P2 (299)", "ada")


def test_a_job_that_failed_shows_when_why_and_which_pod():
    end = SUBMITTED + dt.timedelta(days=40)
    record = make_record(
        phase=Phase.FAILED, message="lost", started_at=SUBMITTED, ended_at=end, systems=("s1", "s0")
    )
    pod = PodRecord(
        name="wsjob-a-chief-0", job=record.id, role=Role.CHIEF, index=0, node="n", exit_code=9
    )
    event = EventRecord(
        job=record.id, at=end, reason="JobFailed", message="lost", subject="", phase=Phase.FAILED
    )
    job = resources.job(record, pods=[pod], events=[event], dashboard="http://here")
    assert job.status.completion_time.ToDatetime(tzinfo=dt.UTC) == end
    assert list(job.status.systems) == ["s1", "s0"]
    assert dict(job.meta.properties) == {"dashboard": "http://here", "message": "lost"}
    assert [each.exit_code for each in job.status.error_replicas] == [9]
    assert [each.type for each in job.status.conditions] == ["Failed"]


def test_a_job_s_kubernetes_namespace_is_a_property_beside_its_session():
    job = resources.job(make_record(session="research"), namespace="team-research")
    assert job.meta.namespace == "research"
    assert dict(job.meta.properties) == {"namespace": "team-research"}


def test_a_changed_record_differs_in_what_was_changed_alone():
    record = make_record()
    changed = record.changed({"phase": Phase.RUNNING, "num_starts": 1})
    assert (changed.phase, changed.num_starts, record.phase) == (Phase.RUNNING, 1, Phase.QUEUED)
    assert changed.changed({"phase": Phase.QUEUED, "num_starts": 0}) == record
