"""The reconciler's table of live jobs, beside what is stored and what other threads see."""

from concurrent.futures import Future

from appliance.core.cluster.jobs import Phase
from appliance.management.reconciler.mailbox import Write
from appliance.management.store.state import State
from tests.support.management import new_job
from tests.support.reconciling import running_harness


def seen_in_a_turn(harness, job):
    """Return a live job as the reconciler has it within a turn, and its record in the database."""
    found, committed = [], Future()

    def look():
        found.extend((harness.world.jobs.find(job), harness.state.jobs.find(job)))

    harness.mailbox.post(Write(write=look, committed=committed))
    committed.result(timeout=120)
    return found


def test_the_reconciler_has_each_job_in_memory_as_it_is_stored(tmp_path):
    with running_harness(tmp_path) as harness:
        job = harness.submit(new_job())

        def check_in(phase):
            harness.until(lambda: harness.jobs.load(job).phase is phase)
            live, stored = seen_in_a_turn(harness, job)
            assert live.record == stored
            assert (live.run.phase, live.record.phase) == (phase, phase)
            held = () if live.grant is None else live.grant.systems
            assert held == stored.systems

        check_in(Phase.INITIALIZING)
        harness.jobs.coordinator_registered(job, "localhost:7")
        check_in(Phase.RUNNING)
        harness.edits.suspend(job, "ada", "lunch")
        check_in(Phase.QUEUED)
        harness.edits.resume(job)
        check_in(Phase.INITIALIZING)
        harness.jobs.end(job, Phase.FAILED, "no more")
        check_in(Phase.FAILING)


def test_what_others_change_of_a_live_job_stays_when_the_reconciler_changes_it(tmp_path):
    with running_harness(tmp_path) as harness:
        job = harness.submit(new_job(labels={"team": "vision"}))
        harness.until(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)
        harness.jobs.patch_labels(job, {"team": "speech"})
        harness.jobs.set_priority(job, "p0")
        harness.jobs.coordinator_registered(job, "localhost:7")
        harness.until(lambda: harness.jobs.load(job).phase is Phase.RUNNING)
        record = harness.jobs.load(job)
        assert (record.labels, record.priority) == ({"team": "speech"}, 99)
        assert record == State.over(harness.state.database, harness.state.clock).jobs.load(job)
