"""The tasks of an execute job as the client and its own programs know them.

Task ids of a role count over all systems, system by system: worker `r` of `W` for each system
feeds system `r // W`. The client reads the number of systems from the WSE tasks and the number of
input workers from the WRK tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.ids import Role
from protos.appliance.common_config_pb2 import ClusterDetails

TaskType = ClusterDetails.TaskInfo.TaskType
_ROLES = {
    TaskType.CRD: Role.COORDINATOR,
    TaskType.WGT: Role.WEIGHT,
    TaskType.BR: Role.BROADCASTREDUCE,
    TaskType.CHF: Role.CHIEF,
    TaskType.ACT: Role.ACTIVATION,
    TaskType.WRK: Role.WORKER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSize:
    """How many systems, input workers and MemoryX shards an execute job has.

    Attributes:
        num_systems: CS-2 systems, at least 1.
        workers_per_system: Input workers for each of them, at least 1.
        num_shards: Weight pods of the whole job, at least 1.
    """

    num_systems: int
    workers_per_system: int
    num_shards: int = 1

    def __post_init__(self) -> None:
        if self.num_systems < 1 or self.workers_per_system < 1 or self.num_shards < 1:
            raise ValueError(
                f"a gang of {self.num_systems} systems, {self.workers_per_system} input workers "
                f"for each and {self.num_shards} weight pods"
            )

    def may_run(self, other: "GangSize") -> bool:
        """Whether a program for another gang can run in this one; any number of shards will do."""
        return (self.num_systems, self.workers_per_system) == (
            other.num_systems,
            other.workers_per_system,
        )

    @property
    def num_workers(self) -> int:
        """Input workers of the whole job."""
        return self.num_systems * self.workers_per_system


def cluster_details(gang: GangSize, memory: Mapping[Role, int] = {}) -> ClusterDetails:
    """Return the tasks of an execute job, without addresses.

    Args:
        gang: How many of each there are.
        memory: What one task takes of memory, by role; clients send it back with the job.
    """
    per_system = {
        TaskType.WSE: 1,
        TaskType.CHF: 1,
        TaskType.ACT: 1,
        TaskType.WRK: gang.workers_per_system,
    }
    details = ClusterDetails()
    for task_type, count in ((TaskType.CRD, 1), (TaskType.WGT, gang.num_shards), (TaskType.BR, 1)):
        _add_task(details, task_type, [0] * count)
    for task_type, num_each in per_system.items():
        systems = [system for system in range(gang.num_systems) for _ in range(num_each)]
        _add_task(details, task_type, systems)
    for task in details.tasks:
        if num_bytes := memory.get(_ROLES.get(task.task_type, Role.DRIVER)):
            task.resource_info.memory_bytes = num_bytes
    return details


def task_memory(details: ClusterDetails) -> Mapping[Role, int]:
    """Return what one task of each role takes of memory, as far as a list of tasks says it."""
    return {
        _ROLES[task.task_type]: task.resource_info.memory_bytes
        for task in details.tasks
        if task.task_type in _ROLES and task.resource_info.memory_bytes > 0
    }


def gang_size(details: ClusterDetails) -> GangSize:
    """Return the size of the gang that a list of tasks describes; 1 where it says nothing."""
    counts = {task.task_type: len(task.task_map) for task in details.tasks}
    num_systems = max(1, counts.get(TaskType.WSE, 1))
    num_workers = counts.get(TaskType.WRK, num_systems)
    return GangSize(
        num_systems=num_systems,
        workers_per_system=max(1, num_workers // num_systems),
        num_shards=max(1, counts.get(TaskType.WGT, 1)),
    )


def _add_task(details: ClusterDetails, task_type: "TaskType.ValueType", systems: list[int]) -> None:
    task = details.tasks.add(task_type=task_type)
    for task_id, system in enumerate(systems):
        # The client's programs read `wse_id` in some places and `wse_ids` in others.
        identity = task.task_map.add().task_id
        identity.task_id, identity.wse_id = task_id, system
        identity.wse_ids.append(system)
