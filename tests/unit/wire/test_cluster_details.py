"""The client finds every task of its job where its own parser looks for it."""

import pytest

from appliance.core.ids import Role
from appliance.wire.requests.cluster_details import (
    GangSize,
    TaskType,
    cluster_details,
    gang_size,
    task_memory,
)
from protos.appliance.common_config_pb2 import ClusterDetails


@pytest.mark.parametrize(("num_systems", "workers", "shards"), [(1, 1, 1), (2, 1, 3), (3, 2, 2)])
def test_tasks_are_counted_per_job_and_per_system(
    num_systems: int, workers: int, shards: int
) -> None:
    details = cluster_details(
        GangSize(num_systems=num_systems, workers_per_system=workers, num_shards=shards)
    )
    counts = {TaskType.Name(task.task_type): len(task.task_map) for task in details.tasks}
    assert counts == {
        "CRD": 1,
        "WGT": shards,
        "BR": 1,
        "WSE": num_systems,
        "CHF": num_systems,
        "ACT": num_systems,
        "WRK": num_systems * workers,
    }


def test_workers_are_numbered_system_by_system() -> None:
    details = cluster_details(GangSize(num_systems=2, workers_per_system=3))
    (workers,) = [task for task in details.tasks if task.task_type == TaskType.WRK]
    identities = [entry.task_id for entry in workers.task_map]
    assert [identity.task_id for identity in identities] == list(range(6))
    assert [identity.wse_id for identity in identities] == [0, 0, 0, 1, 1, 1]
    assert [list(identity.wse_ids) for identity in identities] == [[0]] * 3 + [[1]] * 3


def test_the_size_is_read_back_from_the_tasks() -> None:
    gang = GangSize(num_systems=3, workers_per_system=2, num_shards=4)
    assert gang_size(cluster_details(gang)) == gang


def test_a_program_runs_on_any_number_of_shards_but_on_its_own_systems() -> None:
    gang = GangSize(num_systems=3, workers_per_system=2, num_shards=4)
    assert gang.may_run(GangSize(num_systems=3, workers_per_system=2))
    assert not gang.may_run(GangSize(num_systems=2, workers_per_system=2, num_shards=4))


def test_what_a_plan_needs_of_memory_travels_with_the_client():
    memory = {Role.COORDINATOR: 5, Role.WEIGHT: 1 << 40, Role.CHIEF: 7, Role.WORKER: 1}
    details = cluster_details(GangSize(num_systems=2, workers_per_system=1), memory)
    assert task_memory(ClusterDetails.FromString(details.SerializeToString())) == memory
    assert task_memory(cluster_details(GangSize(num_systems=2, workers_per_system=1))) == {}
