"""The options of a worker pod beside its identity."""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import InternalError
from appliance.core.pods.pod_options import WorkerPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.wire.requests.cluster_details import GangSize


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a `worker` pod.

    Attributes:
        request_path: `request_path`: file with the client's serialised `ExecuteJobRequest`.
        gang: `num_systems` and `workers_per_system`.
        uid: `user_uid`: whose rights the dataloader has, if we run as root; None or absent means
            ours.
        gid: `user_gid`: its group, likewise.
    """

    request_path: Path
    gang: GangSize
    uid: int | None
    gid: int | None

    @classmethod
    def of(cls, spec: PodSpec) -> "WorkerOptions":
        """Return the options in a pod's spec."""
        options = spec.options_of(WorkerPodOptions)
        if options.request_path is None:
            raise InternalError("A worker is not told its job's request.")
        return cls(
            request_path=options.request_path,
            gang=GangSize(
                num_systems=options.num_systems, workers_per_system=options.workers_per_system
            ),
            uid=options.user_uid,
            gid=options.user_gid,
        )
