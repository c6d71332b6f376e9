"""What a worker pod is told beside its identity."""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.pods import PodSpec
from appliance.wire.cluster_details import GangSize


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
    uid: int | None = None
    gid: int | None = None

    @classmethod
    def of(cls, spec: PodSpec) -> "WorkerOptions":
        """Return the options in a pod's spec."""
        options = spec.options
        return cls(
            request_path=Path(options["request_path"]),
            gang=GangSize(
                num_systems=int(options["num_systems"]),
                workers_per_system=int(options["workers_per_system"]),
            ),
            uid=_number(options.get("user_uid", "")),
            gid=_number(options.get("user_gid", "")),
        )


def _number(text: str) -> int | None:
    return int(text) if text else None
