"""Which run a name means, what of it others see, and how it is cancelled."""

import pytest

from appliance.core.cluster.access import Principal, UserRole
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.core.cluster.run import Point
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.queries.job_filter import JobFilter
from appliance.management.jobs.run_service import RunService, may_read
from appliance.management.reconciler.scheduling.dispatcher import Published
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.queue import JobQueue
from tests.support.management import make_model, move, new_job
from tests.support.reconciling import Harness
from tests.support.scheduling import cluster, execute

ADA, BOB = (User(uid=uid, gid=uid, name=name) for uid, name in ((1000, "ada"), (1001, "bob")))
SPEC = DriverSpec(argv=("train",), work_dir="/home/ada")


@pytest.fixture
def harness(state):
    return Harness(state, make_model(state))


@pytest.fixture
def runs(state, harness):
    return RunService(state, harness.jobs, "http://there")


def submit(state, job, workflow, *, name="", user=ADA, has_ended=False, spec=None, **changes):
    labels = {"name": name} if name else {}
    kind = JobType.DRIVER if spec else JobType.EXECUTE
    with state.database.batch():
        new = new_job(job, workflow=workflow, user=user, labels=labels, type=kind, **changes)
        record = state.jobs.create(new)
        state.workflows.ensure(workflow, session=record.session, user=user, first=record)
        if spec:
            state.driver_specs.keep(record.id, spec)
    if has_ended:
        move(state.jobs, record.id, Phase.QUEUED, Phase.FAILED)
    return record


def resolve(runs, name, *, session="", of_names="job-operator", asker=ADA):
    try:
        found = runs.resolve(name, session=session, session_of_names=of_names, asker=asker)
    except (NotFoundError, ConflictError) as error:
        return str(error)
    return found.id


def test_a_name_means_the_own_unfinished_run_then_the_own_newest_then_anybody_s(state, runs):
    submit(state, "wsjob-1", "wflow-bob", name="gpt", user=BOB)
    assert resolve(runs, "gpt") == "wflow-bob"
    submit(state, "wsjob-2", "wflow-old", name="gpt", has_ended=True)
    submit(state, "wsjob-3", "wflow-new", name="gpt", has_ended=True)
    assert resolve(runs, "gpt") == "wflow-new"
    submit(state, "wsjob-4", "wflow-live", name="gpt")
    submit(state, "wsjob-5", "wflow-late", name="gpt", has_ended=True)
    assert resolve(runs, "gpt") == "wflow-live"
    assert resolve(runs, "gpt", asker=BOB) == "wflow-bob"
    submit(state, "wsjob-6", "wflow-two", name="gpt")
    assert "2 unfinished runs are called 'gpt': wflow-two, wflow-live." in resolve(runs, "gpt")


def test_a_run_says_what_its_jobs_wait_for_by_every_name_and_in_lists(state, harness, runs):
    submit(state, "wsjob-1", "wflow-a", name="gpt", spec=SPEC)
    submit(state, "wsjob-2", "wflow-b", has_ended=True)
    held = JobQueue([execute("wsjob-1", 1, held_by="ada"), execute("wsjob-2", 1, held_by="ada")])
    harness.mailbox.published = Published(waits=run_cycle(cluster(1), held).waits)
    found = [
        runs.load("wflow-a"),
        *(
            runs.resolve(name, session="", session_of_names="job-operator", asker=ADA)
            for name in ("gpt", "wflow-a", "wsjob-1")
        ),
        *runs.page(JobFilter()),
    ]
    assert len(found) == 5
    for run in found:
        assert "job is queueing" in run.message
        assert "held by ada" in run.message
    assert "held" not in runs.load("wflow-b").message


def test_names_are_of_a_session_and_ids_of_any_unless_one_is_named(state, runs):
    job = submit(state, "wsjob-1", "wflow-a", name="gpt", session="nlp")
    for name in ("wflow-a", job.id):
        assert resolve(runs, name) == resolve(runs, name, session="nlp") == "wflow-a"
        assert f"no run '{name}' in session job-operator" in resolve(
            runs, name, session="job-operator"
        )
    assert "There is no run 'gpt' in session job-operator" in resolve(runs, "gpt")
    assert resolve(runs, "gpt", session="nlp") == "wflow-a"
    assert resolve(runs, "gpt", of_names="nlp") == "wflow-a"
    assert "There is no run ''" in resolve(runs, "")


def test_a_job_that_kubernetes_has_named_is_a_run_by_that_name(state, runs):
    submit(state, "mine", "wflow-a", spec=SPEC)
    assert resolve(runs, "mine") == "wflow-a"
    assert "There is no run 'mine' in session nlp" in resolve(runs, "mine", session="nlp")


def test_a_job_comes_before_a_namesake_among_runs_in_its_own_session_alone(state, runs):
    submit(state, "gpt", "wflow-kube", user=BOB)
    submit(state, "wsjob-1", "wflow-mine", name="gpt")
    submit(state, "wsjob-2", "wflow-nlp", name="gpt", session="nlp")
    assert resolve(runs, "gpt") == "wflow-kube"
    assert resolve(runs, "gpt", of_names="nlp") == "wflow-nlp"
    assert resolve(runs, "gpt", session="nlp") == "wflow-nlp"


def test_the_name_of_an_array_says_how_its_runs_are_called(state, runs):
    of_array = {"array": "array-x", "index": "3", "name": "sweep"}
    with state.database.batch():
        kind = {"type": JobType.DRIVER, "labels": of_array, "array": "array-x"}
        new = new_job("wsjob-1", workflow="wflow-a", user=ADA, **kind)
        record = state.jobs.create(new)
        state.workflows.ensure("wflow-a", session=record.session, user=ADA, first=record)
        state.driver_specs.keep(record.id, SPEC)
    assert resolve(runs, "sweep.3") == "wflow-a"
    said = resolve(runs, "sweep")
    assert "There is no run 'sweep', but an array of that name, array-x." in said
    assert "as in sweep.3" in said


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (Principal(user=ADA, role=UserRole.USER), True),
        (Principal(user=User(uid=7, gid=1000, name="colleague"), role=UserRole.USER), True),
        (Principal(user=BOB, role=UserRole.USER), False),
        (Principal(user=BOB, role=UserRole.SESSION_ADMIN, sessions=("job-operator",)), True),
        (Principal(user=BOB, role=UserRole.SESSION_ADMIN, sessions=("nlp",)), False),
        (Principal(user=BOB, role=UserRole.CLUSTER_ADMIN), True),
    ],
)
def test_what_a_run_executes_is_for_those_who_may_read_its_logs(state, runs, principal, expected):
    submit(state, "wsjob-1", "wflow-a", spec=SPEC)
    assert may_read(principal, runs.load("wflow-a")) is expected


def test_a_run_is_as_far_as_the_newest_session_of_its_newest_job(state, runs, clock):
    submit(state, "wsjob-d", "wflow-a", spec=SPEC)
    old, new = (submit(state, f"wsjob-{n}", "wflow-a") for n in (1, 2))
    submit(state, "wsjob-3", "wflow-b")

    def add(job, name, *points):
        told = [Point(name=name, session=s, step=n, value=v, at=clock.now()) for s, n, v in points]
        state.series.add(job.id, told)

    add(old, "output_loss", (1, 90, 9.0))
    add(new, "output_loss", (1, 40, 2.0), (2, 7, 1.5))
    add(new, "output_accuracy", (1, 40, None))
    progress = runs.progress(runs.page(JobFilter()))
    assert progress["wflow-a"].step == 7
    assert progress["wflow-a"].last_values == {"loss": 1.5}
    assert (progress["wflow-b"].step, progress["wflow-b"].last_values) == (0, {})


def test_the_last_values_of_jobs_that_ended_a_while_ago_are_not_asked_for_again(
    state, runs, clock, monkeypatch
):
    jobs = [submit(state, f"wsjob-{n}", f"wflow-{n}", has_ended=n > 1) for n in (1, 2)]
    for job in jobs:
        point = Point(name="output_loss", session=1, step=3, value=2.0, at=clock.now())
        state.series.add(job.id, [point])
    asked, latest = [], state.series.latest

    def counted(names):
        asked.append(sorted(names))
        return latest(names)

    monkeypatch.setattr(state.series, "latest", counted)
    every = JobFilter(with_finished=True)
    first = runs.progress(runs.page(every))
    clock.advance(61.0)
    assert [runs.progress(runs.page(every)) for _ in range(2)] == [first, first]
    assert first["wflow-2"].last_values == {"loss": 2.0}
    assert asked == [["wsjob-1", "wsjob-2"], ["wsjob-1", "wsjob-2"], ["wsjob-1"]]


def test_cancelling_a_run_ends_all_of_it_once(state, runs, harness):
    submit(state, "wsjob-old", "wflow-a", has_ended=True)
    new = [submit(state, f"wsjob-{number}", "wflow-a") for number in (1, 2)]
    harness.reconciler.start()
    runs.cancel("wflow-a", "cancelled by ada over REST")
    harness.until(lambda: all(harness.jobs.load(job.id).phase.is_terminal for job in new))
    harness.reconciler.close()
    assert runs.load("wflow-a").phase is Phase.CANCELLED
    with pytest.raises(ConflictError, match="Run wflow-a is CANCELLED already"):
        runs.cancel("wflow-a", "again")
    with pytest.raises(NotFoundError, match="There is no run 'wflow-b'"):
        runs.cancel("wflow-b", "")
