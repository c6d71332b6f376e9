"""Taking in detached runs: what is kept with one, and how many a user may have."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.clock import SystemClock
from appliance.core.cluster.access import Action, Target
from appliance.core.cluster.drivers import PREEMPTED_EVENT, DriverSpec
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import DEFAULT_SESSION, User
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.dependencies import Dependency
from appliance.core.errors import ConflictError, NotFoundError, UnschedulableError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.audit_trail import AuditFilter
from appliance.core.queries.job_filter import JobFilter
from appliance.core.queries.label_selector import equal_to
from appliance.management.access.authorization import open_access
from appliance.management.access.driver_tokens import DriverTokens
from appliance.management.jobs.driver_service import DriverService, DriverSubmission
from appliance.management.jobs.submissions import SubmissionOptions, SubmissionService
from appliance.management.store.state import State
from appliance.wire.caller import Caller
from tests.support.appliance_process import wait_for
from tests.support.management import make_model, new_job, opened_state
from tests.support.reconciling import Harness

ADA, BOB = (User(uid=uid, gid=100, name=name) for uid, name in ((1000, "ada"), (1001, "bob")))
SPEC = DriverSpec(argv=("true",), work_dir="/", environment={"TOKEN": "secret"})


def run_of(user, spec=SPEC):
    return DriverSubmission(spec=spec, session="", user=user, priority=299, labels={"a": "b"})


MAX_DRIVERS = 64


@contextmanager
def serving(path):
    with opened_state(path, SystemClock()) as state:
        model = make_model(state, num_systems=2)
        harness = Harness(state, model)
        harness.reconciler.start()
        harness.drivers = DriverService(
            state,
            harness.mailbox,
            DriverTokens(b"k"),
            harness.sessions,
            path,
            model=model,
            max_drivers=MAX_DRIVERS,
            on_kubernetes=True,
        )
        yield harness
        harness.reconciler.close()


def submit(harness, user):
    try:
        return harness.drivers.submit_and_wait(run_of(user)).id
    except ConflictError as error:
        return str(error)


def test_a_user_has_so_many_runs_at_a_time_however_many_come_at_once(tmp_path):
    with serving(tmp_path) as harness:
        with ThreadPoolExecutor(16) as callers:
            answers = list(callers.map(lambda _: submit(harness, ADA), range(MAX_DRIVERS + 9)))
        taken = [answer for answer in answers if answer.startswith("wsjob-")]
        assert len(taken) == MAX_DRIVERS
        assert all(f"the most is {MAX_DRIVERS}" in each for each in set(answers) - set(taken))
        assert submit(harness, BOB).startswith("wsjob-")
        harness.jobs.cancel(taken[0], "by ada")
        wait_for(lambda: harness.jobs.load(taken[0]).phase is Phase.CANCELLED)
        assert submit(harness, ADA).startswith("wsjob-")
        assert not submit(harness, ADA).startswith("wsjob-")


def test_what_a_run_consists_of_is_kept_with_it_and_found_by_the_next_management(tmp_path):
    with serving(tmp_path) as harness:
        job = harness.drivers.submit_and_wait(run_of(ADA)).id
        later = State.over(harness.state.database, harness.state.clock)
        assert later.driver_specs.load(job) == SPEC
        assert DriverSpec.from_json(later.driver_specs.take_text(job)) == SPEC
        assert later.jobs.load(job).labels == {"a": "b"}
        assert later.jobs.unfinished_drivers(ADA.uid) == {job}
        assert not (tmp_path / "jobs").exists()
        with pytest.raises(NotFoundError, match="wsjob-none"):
            later.driver_specs.load(JobId("wsjob-none"))


def test_a_run_and_the_record_of_who_submitted_it_are_one_transaction(tmp_path):
    with serving(tmp_path) as harness:
        access = open_access(tmp_path, harness.state.database, SystemClock(), needs_token=False)
        principal = access.identify(ADA, "", os.getuid())
        change = access.begin(principal, Action.SUBMIT, Target(kind="job"), entry_point="grpc")
        with change.present():
            job = harness.drivers.submit_and_wait(run_of(ADA)).id
        (record,) = access.audit(AuditFilter())
        assert (record.name, record.user, record.problem) == (job, "ada", "")
        change.done(job)
        assert access.audit(AuditFilter()) == [record]


def test_a_run_that_is_refused_takes_no_place(tmp_path):
    with serving(tmp_path) as harness:
        greedy = DriverSpec(argv=("true",), work_dir="/", num_systems=3)
        with pytest.raises(UnschedulableError, match="3 systems; the cluster has 2"):
            harness.drivers.submit_and_wait(run_of(ADA, greedy))
        assert harness.drivers._arriving == {}
        assert harness.state.jobs.unfinished() == []


def test_the_jobs_of_a_run_with_a_limit_have_it(tmp_path):
    with serving(tmp_path) as harness:
        limited = harness.drivers.submit_and_wait(
            run_of(ADA, replace(SPEC, time_limit_seconds=90.0))
        )
        free = harness.drivers.submit_and_wait(run_of(ADA))
        tokens = DriverTokens(b"k")
        drivers = harness.drivers
        assert drivers.time_limit_of(drivers.running(tokens.mint(limited.id))) == 90.0
        assert drivers.time_limit_of(drivers.running(tokens.mint(free.id))) is None
        assert drivers.running("no token") is None


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_limit_that_is_no_time_is_refused(seconds):
    with pytest.raises(UserError, match="time limit"):
        replace(SPEC, time_limit_seconds=seconds)


def following(harness, *after):
    return harness.drivers.submit_and_wait(replace(run_of(ADA), after=after)).id


def has_phase(harness, job, phase):
    return lambda: harness.jobs.load(job).phase is phase


def test_a_run_after_others_starts_when_they_have_succeeded_also_over_a_restart(tmp_path):
    with serving(tmp_path) as harness:
        first = harness.drivers.submit_and_wait(run_of(ADA)).id
        second = following(harness, first)
        wait_for(lambda: harness.is_queued(second))
        assert harness.queue.explain(second).blocking == (first,)
        harness.reconciler.pause()
        successor = Harness(harness.state, harness.model)
        successor.launcher.known = harness.launcher.known
        successor.reconciler.start()
        wait_for(lambda: successor.is_queued(second))
        assert successor.queue.explain(second).kind == "Dependency"
        successor.jobs.end(first, Phase.SUCCEEDED, "")
        wait_for(lambda: successor.jobs.load(second).num_starts == 1)
        harness.drivers._mailbox = successor.mailbox
        at_once = following(harness, first)
        wait_for(lambda: successor.jobs.load(at_once).num_starts == 1)
        successor.reconciler.close()


def test_a_run_that_has_started_waits_for_nobody_when_it_is_queued_again(tmp_path):
    with serving(tmp_path) as harness:
        first = harness.drivers.submit_and_wait(run_of(ADA)).id
        second = following(harness, first)
        harness.jobs.end(first, Phase.SUCCEEDED, "")
        for starts in (1, 2, 3):
            wait_for(lambda: harness.jobs.load(second).num_starts == starts)  # noqa: B023
            if starts == 1:
                harness.jobs.delete(first)
            harness.mailbox.hold_back(second, "ada", stops=True)
            wait_for(has_phase(harness, second, Phase.QUEUED))
            harness.mailbox.hold_back(second, "", stops=True)


def test_a_run_that_goes_on_is_held_and_resumed_or_queued_again(tmp_path):
    with serving(tmp_path) as harness:
        run = harness.drivers.submit_and_wait(run_of(ADA)).id
        starts = iter((1, 2, 3))

        def has_started():
            number = next(starts)
            wait_for(lambda: harness.jobs.load(run).num_starts == number)

        has_started()
        with pytest.raises(ConflictError, match="only what waits can be held"):
            harness.edits.hold(run, ADA)
        harness.edits.hold(run, ADA, stops=True)
        wait_for(has_phase(harness, run, Phase.QUEUED))
        assert harness.queue.explain(run).kind == "Held"
        for refused in (
            lambda: harness.edits.hold(run, ADA, stops=True),
            lambda: harness.edits.requeue(run, ADA),
        ):
            with pytest.raises(ConflictError, match="is held by ada"):
                refused()
        harness.edits.release(run)
        has_started()
        harness.edits.requeue(run, ADA)
        has_started()
        told = [event for event in harness.jobs.events(run) if "stopped" in event.message]
        assert [event.message for event in told if event.reason == PREEMPTED_EVENT] == [
            "the script is stopped and queued again: held by ada",
            "the script is stopped and queued again by ada",
        ]
        harness.jobs.end(run, Phase.CANCELLED, "")
        wait_for(has_phase(harness, run, Phase.CANCELLED))
        for refused in (
            lambda: harness.edits.hold(run, ADA, stops=True),
            lambda: harness.edits.requeue(run, ADA),
        ):
            with pytest.raises(ConflictError, match="is CANCELLED; there is nothing to"):
                refused()


def test_a_job_of_a_client_is_never_stopped_to_be_queued_again(tmp_path):
    with serving(tmp_path) as harness:
        running = harness.submit(new_job("wsjob-r"))
        wait_for(has_phase(harness, running, Phase.INITIALIZING))
        waiting = harness.submit(new_job("wsjob-w", num_systems=2))
        for refused in (
            lambda: harness.edits.hold(running, ADA, stops=True),
            lambda: harness.edits.requeue(running, ADA),
        ):
            with pytest.raises(ConflictError, match="for a client, which would lose it"):
                refused()
        with pytest.raises(ConflictError, match="waits already"):
            harness.edits.requeue(waiting, ADA)


def test_a_run_after_one_that_fails_is_cancelled_with_all_that_follow_it(tmp_path):
    with serving(tmp_path) as harness:
        first = harness.drivers.submit_and_wait(run_of(ADA)).id
        second = following(harness, first)
        third = following(harness, second)
        harness.jobs.end(first, Phase.FAILED, "")
        for job, before in ((second, first), (third, second)):
            wait_for(has_phase(harness, job, Phase.CANCELLED))
            assert f"after {before} had succeeded" in harness.jobs.load(job).message
            assert harness.jobs.load(job).num_starts == 0
        with pytest.raises(ConflictError, match=f"Job {first} is FAILED"):
            following(harness, first)
        with pytest.raises(NotFoundError, match="wsjob-none"):
            following(harness, "wsjob-none")
        assert harness.drivers._arriving == {}


def test_a_run_starts_after_the_end_that_it_asks_for(tmp_path):
    with serving(tmp_path) as harness:
        first = harness.drivers.submit_and_wait(run_of(ADA)).id
        ended, failed, succeeded = (
            following(harness, f"{how}:{first}") for how in ("any", "notok", "ok")
        )
        harness.jobs.end(first, Phase.FAILED, "")
        for job in (ended, failed):
            wait_for(lambda: harness.jobs.load(job).num_starts == 1)  # noqa: B023
        wait_for(has_phase(harness, succeeded, Phase.CANCELLED))
        at_once = following(harness, f"afterany:{first},afternotok:{first}")
        wait_for(lambda: harness.jobs.load(at_once).num_starts == 1)
        harness.jobs.end(at_once, Phase.SUCCEEDED, "")
        wait_for(has_phase(harness, at_once, Phase.SUCCEEDED))
        with pytest.raises(ConflictError, match="nothing can start after its failure"):
            following(harness, f"notok:{at_once}")


def test_of_a_limited_array_only_so_many_run_at_once(tmp_path):
    with serving(tmp_path) as harness:
        limited = replace(run_of(ADA), array_limit=2)
        _, jobs = harness.drivers.submit_array_and_wait(limited, range(5))

        def started():
            return [harness.jobs.load(job.id).num_starts for job in jobs]

        wait_for(lambda: started() == [1, 1, 0, 0, 0])
        wait_for(lambda: harness.queue.explain(jobs[2].id) is not None)
        assert harness.queue.explain(jobs[2].id).kind == "ArrayLimit"
        harness.jobs.end(jobs[1].id, Phase.FAILED, "")
        wait_for(lambda: started() == [1, 1, 1, 0, 0])
        harness.mailbox.hold_back(jobs[3].id, "ada")
        harness.jobs.end(jobs[0].id, Phase.SUCCEEDED, "")
        wait_for(lambda: started() == [1, 1, 1, 0, 1])
        with pytest.raises(UserError, match="limit"):
            harness.drivers.submit_array_and_wait(replace(limited, array_limit=-1), [1])
        with pytest.raises(UserError, match="the run is of none"):
            harness.drivers.submit_and_wait(limited)


def test_an_array_is_one_run_for_each_index_or_none(tmp_path):
    with serving(tmp_path) as harness:
        array, jobs = harness.drivers.submit_array_and_wait(run_of(ADA), [1, 2, 5])
        for index, job in zip((1, 2, 5), jobs, strict=True):
            assert job.labels == {"a": "b", "array": array, "index": str(index)}
            environment = harness.state.driver_specs.load(job.id).environment
            assert environment["WSC_ARRAY_INDEX"] == str(index)
            assert environment["WSC_ARRAY"] == array
            assert environment["WSC_ARRAY_SIZE"] == "3"
        assert len({job.workflow for job in jobs}) == 3
        last = following(harness, array)
        assert harness.jobs.load(last).requirements.after == (
            Dependency(jobs=tuple(job.id for job in jobs)),
        )
        with pytest.raises(ConflictError, match="4 unfinished drivers, and 61 more"):
            harness.drivers.submit_array_and_wait(run_of(ADA), range(61))
        assert len(harness.state.jobs.unfinished()) == 4
        own = replace(run_of(ADA), labels={"index": "1"})
        with pytest.raises(UserError, match="Label 'index'"):
            harness.drivers.submit_array_and_wait(own, [1])
        with pytest.raises(UserError, match="different numbers"):
            harness.drivers.submit_array_and_wait(run_of(ADA), [1, 1])
        with pytest.raises(NotFoundError, match="array-none"):
            following(harness, "array-none")
        for job in jobs:
            harness.jobs.end(job.id, Phase.SUCCEEDED, "")
        wait_for(lambda: harness.jobs.load(last).num_starts == 1)


def test_a_job_belongs_to_an_array_by_a_field_and_not_by_a_label(tmp_path):
    with serving(tmp_path) as harness:
        array, (member,) = harness.drivers.submit_array_and_wait(run_of(ADA), [7])
        stranger = harness.state.jobs.create(
            new_job("wsjob-s", user=ADA, labels={"array": array, "index": "8"})
        )
        found = harness.state.jobs.list(JobFilter(labels=equal_to({"array": array})))
        assert [job.id for job in found] == [member.id]
        for name in (array, f"{DEFAULT_SESSION}/{array}", f"{DEFAULT_SESSION}/{member.id}"):
            follower = harness.jobs.load(following(harness, name))
            assert follower.requirements.after == (Dependency(jobs=(member.id,)),)
        for name in (f"nosuch/{array}", f"nosuch/{member.id}"):
            with pytest.raises(NotFoundError, match="in session nosuch"):
                following(harness, name)
        for labels in ({"array": array}, {"index": "1"}):
            forged = replace(run_of(ADA), labels=labels)
            with pytest.raises(UserError, match="is the appliance's own"):
                harness.drivers.submit_and_wait(forged)
            for changes in (labels, dict.fromkeys(labels)):
                with pytest.raises(UserError, match="is the appliance's own"):
                    harness.jobs.patch_labels(stranger.id, changes)


@pytest.mark.parametrize(
    ("named", "expected"), [("", "nlp"), ("job-operator", "nlp"), ("vision", "vision")]
)
def test_jobs_of_a_script_are_in_its_driver_s_session_unless_they_name_another(
    tmp_path, named, expected
):
    with serving(tmp_path) as harness:
        for session in ("nlp", "vision"):
            harness.sessions.create(session, SessionSpec())
        driver = harness.drivers.submit_and_wait(replace(run_of(ADA), session="nlp"))
        options = SubmissionOptions(
            data_dir=tmp_path,
            lease_seconds=30,
            notifies=(),
            compile_cache=CompileCache(root=tmp_path / "compile"),
        )
        submissions = SubmissionService(
            harness.state,
            harness.mailbox,
            options,
            drivers=harness.drivers,
            model=make_model(harness.state, num_systems=2),
            sessions=harness.sessions,
        )
        token = DriverTokens(b"k").mint(driver.id)
        by_script = Caller(user=ADA, token=token, session=named)
        running = harness.drivers.running(token)
        assert submissions.session_of("", by_script, running) == expected
        by_hand = Caller(user=ADA, session=named)
        assert submissions.session_of("", by_hand, None) == (named or DEFAULT_SESSION)
