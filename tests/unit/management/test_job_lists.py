"""Lists of jobs for csctl and REST: one filter, one list."""

import pytest
from sqlalchemy import event

from appliance.core.cluster.records import MAX_LABELS, User
from appliance.core.errors import UserError
from appliance.core.queries.job_filter import JobFilter, JobOrder
from appliance.management.jobs.job_lists import JobLists
from appliance.management.rpc.resource_views import ResourceViews
from appliance.wire import resources
from protos.csctl.api_pb2 import GetOptions
from tests.support.management import new_job, opened_state

ME = User(uid=7, gid=70, name="ada")
PRIORITIES = {"wsjob-a": 399, "wsjob-b": 99, "wsjob-c": 299, "wsjob-d": 99}


@pytest.fixture
def state(tmp_path):
    with opened_state(tmp_path) as state:
        for name, priority in PRIORITIES.items():
            state.jobs.create(new_job(name, priority=priority, user=ME, labels={"n": name[-1]}))
        yield state


@pytest.fixture
def views(state, tmp_path):
    return views_of(state, tmp_path, is_one_machine=True)


def views_of(state, tmp_path, *, is_one_machine):
    return ResourceViews(
        state,
        None,
        JobLists(state=state),
        None,
        sessions=None,
        machine="cs2",
        data_dir=tmp_path,
        is_one_machine=is_one_machine,
    )


@pytest.mark.parametrize(
    ("is_one_machine", "kinds"), [(True, ["nfs", "host_path"]), (False, ["nfs"])]
)
def test_a_user_on_the_machine_of_the_pods_may_mount_its_own_paths(
    state, tmp_path, is_one_machine, kinds
):
    views = views_of(state, tmp_path, is_one_machine=is_one_machine)
    found = views.objects("volume", "", GetOptions(), ME)
    assert [volume.WhichOneof("volumeSource") for volume in found.items] == kinds, (
        "the client copies its environment unless an NFS volume comes first"
    )


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (GetOptions(), "dbca"),
        (GetOptions(limit=1), "d"),
        (GetOptions(sort_by="priority"), "dbca"),
        (GetOptions(sort_by="priority", order_by="desc"), "acbd"),
        (GetOptions(sort_by="age", limit=2), "ab"),
        (GetOptions(sort_by="age", order_by="desc", limit=2), "dc"),
        (GetOptions(label_filters={"n": "c"}), "c"),
        (GetOptions(uid=8), ""),
    ],
)
def test_csctl_gets_the_first_jobs_in_the_order_that_it_asks_for(views, options, found):
    jobs = views.find_jobs("", options, ME)
    assert [job.id[-1] for job in jobs] == list(found)


def test_nobody_asks_for_jobs_of_more_labels_than_a_job_has(views):
    labels = {f"key{number}": "x" for number in range(MAX_LABELS)}
    assert views.find_jobs("", GetOptions(label_filters=labels), ME) == []
    with pytest.raises(UserError, match=f"No job has 65 labels; {MAX_LABELS} are the most"):
        views.find_jobs("", GetOptions(label_filters={**labels, "one": "more"}), ME)


def test_a_line_of_a_list_shows_what_the_whole_record_shows(state):
    now = state.clock.now()
    lines = JobLists(state=state).page(JobFilter(order=JobOrder.OLDEST))
    records = state.jobs.list(JobFilter(order=JobOrder.OLDEST))
    assert len(lines) == 4
    for line, record in zip(lines, records, strict=True):
        assert resources.job(line) == resources.job(record)
        assert resources.job_row(line, now=now) == resources.job_row(record, now=now)


def test_a_list_without_a_limit_asks_without_naming_every_job(state):
    values = []
    event.listen(
        state.database.engine, "before_cursor_execute", lambda *told: values.append(told[3])
    )
    assert len(JobLists(state=state).page(JobFilter())) == 4
    assert not any("wsjob-a" in each for each in values)
