"""Lists of jobs for csctl and REST: one filter, one list."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from sqlalchemy import event

from appliance.core.cluster.records import MAX_LABELS, User
from appliance.core.cluster.systems import Node, System
from appliance.core.errors import UserError
from appliance.core.queries.job_filter import JobFilter, JobOrder
from appliance.management.cluster.inventory import NodeUse, SystemUse
from appliance.management.jobs.job_lists import JobLists
from appliance.management.rpc.resource_views import ResourceViews
from appliance.wire import resources
from appliance.wire.caller import Caller
from protos.csctl.api_pb2 import GetOptions
from tests.support.management import new_job, opened_state

ME = Caller(user=User(uid=7, gid=70, name="ada"))
IDLE = resources.NodeLoad(cpu_percent=0.0, memory_percent=0.0)
PRIORITIES = {"wsjob-a": 399, "wsjob-b": 99, "wsjob-c": 299, "wsjob-d": 99}


@pytest.fixture
def state(tmp_path):
    with opened_state(tmp_path) as state:
        for name, priority in PRIORITIES.items():
            state.jobs.create(
                new_job(name, priority=priority, user=ME.user, labels={"n": name[-1]})
            )
        yield state


@pytest.fixture
def views(state, tmp_path):
    return views_of(state, tmp_path, is_one_machine=True)


def cluster(state, tmp_path, **wanted):
    node = Node(name="vm", roles=("worker",), num_cores=2, memory_bytes=1 << 30)
    inventory = Mock(
        system_uses=lambda: [SystemUse(system=System(name="systemf0"), holder=None)],
        node_uses=lambda: [NodeUse(node=node, load=IDLE, holders=())],
    )
    views = views_of(state, tmp_path, is_one_machine=True, inventory=inventory)
    return views.objects("cluster", "", GetOptions(**wanted), ME)


def views_of(state, tmp_path, *, is_one_machine, sessions=None, inventory=None):
    return ResourceViews(
        state,
        None,
        JobLists(state=state),
        inventory,
        sessions=sessions,
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
        (GetOptions(sort_by="priority", order_by="desc"), "dbca"),
        (GetOptions(sort_by="priority", order_by="asc"), "acbd"),
        (GetOptions(sort_by="age", limit=2), "ab"),
        (GetOptions(sort_by="age", order_by="desc", limit=2), "ab"),
        (GetOptions(sort_by="age", order_by="asc", limit=2), "dc"),
        (GetOptions(label_filters={"n": "c"}), "c"),
        (GetOptions(selectors=["n in (a,d)"]), "da"),
        (GetOptions(selectors=["n,n!=a"], label_filters={"n": "c"}), "c"),
        (GetOptions(selectors=["!n"]), ""),
        (GetOptions(uid=8), ""),
        (GetOptions(uid=7), "dbca"),
        (GetOptions(uid=-1), "dbca"),
        (GetOptions(uid=-1, current_user_only=True), "dbca"),
    ],
)
def test_csctl_gets_the_first_jobs_in_the_order_that_it_asks_for(views, options, found):
    jobs = views.find_jobs("", options, ME)
    assert [job.id[-1] for job in jobs] == list(found)


def test_the_csctl_of_a_release_lists_the_jobs_of_the_session_that_its_metadata_name(
    state, tmp_path
):
    state.jobs.create(new_job("wsjob-e", user=ME.user, session="other"))
    views = views_of(state, tmp_path, is_one_machine=True, sessions=Mock())
    there = replace(ME, session_of_lists="other")
    assert [job.id for job in views.find_jobs("", GetOptions(), there)] == ["wsjob-e"]
    here = GetOptions(namespace="job-operator")
    assert "wsjob-e" not in [job.id for job in views.find_jobs("", here, there)]
    assert len(views.find_jobs("", GetOptions(), ME)) == len(PRIORITIES) + 1


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("2.6.0", "2.6.0+0c2f21fdef"),
        ("2.9.0", "2.9.0+e2e12a41a8"),
        ("2.10.0", "2.10.0+32008fd851"),
        ("", "2.10.0+32008fd851"),
        ("0.1.0", "2.10.0+32008fd851"),
    ],
)
def test_a_client_is_told_the_versions_of_a_cluster_of_its_own_release(views, release, told):
    asker = replace(ME, client_release=release)
    found = views.objects("version", "", GetOptions(version="version=v1"), asker)
    assert (found.cluster_server, found.cbcore) == (told, told)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("version=simulated cs2", ["systemf0"]),
        ("version!=simulated cs2", ["vm"]),
        ("version=v1", []),
        ("version!=v1", ["vm", "systemf0"]),
    ],
)
def test_nodes_and_systems_are_filtered_by_the_version_of_their_platform(
    state, tmp_path, wanted, found
):
    assert [item.meta.name for item in cluster(state, tmp_path, version=wanted).items] == found


@pytest.mark.parametrize("wanted", ["v1", "version", "version=", "version!=", "name=v1", "=v1"])
def test_a_filter_of_versions_that_is_none_is_refused(state, tmp_path, wanted):
    with pytest.raises(UserError, match="is no filter of versions") as refused:
        cluster(state, tmp_path, version=wanted)
    assert refused.value.hint == "Write version=NAME or version!=NAME."


def test_nobody_asks_for_jobs_of_more_labels_than_a_job_has(views):
    labels = {f"key{number}": "x" for number in range(MAX_LABELS)}
    assert views.find_jobs("", GetOptions(label_filters=labels), ME) == []
    with pytest.raises(UserError, match=f"selector has 65 parts; {MAX_LABELS} are the most"):
        views.find_jobs("", GetOptions(label_filters={**labels, "one": "more"}), ME)


def test_nodes_of_a_role_are_listed_and_a_role_that_there_is_not_is_refused(state, tmp_path):
    for role, names in (("", ["vm", "systemf0"]), ("worker", ["vm"]), ("memory", [])):
        found = cluster(state, tmp_path, role=role).items
        assert [item.meta.name for item in found] == names
    for role in ("memroy", "Worker", "worker,memory"):
        with pytest.raises(UserError, match=f"no role '{role}'") as caught:
            cluster(state, tmp_path, role=role)
        assert "broadcastreduce, management, memory" in caught.value.hint


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
