"""Identities of jobs, workflows and pods, and how new ones are drawn."""

import secrets
import string
from enum import StrEnum
from typing import NewType

JobId = NewType("JobId", str)
WorkflowId = NewType("WorkflowId", str)
PodName = NewType("PodName", str)

JOB_PREFIX = "wsjob-"
"""How every job id begins."""

ARRAY_PREFIX = "array-"
"""How the id of every array of detached runs begins."""

AUTHORITY_SUFFIX = "cluster-server.cerebrassc.local"
"""Ending of every authority that clients call; the TLS certificate is for all names below it."""

_ALPHABET = string.ascii_lowercase + string.digits
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_SUFFIX_PAIRS = 11
_SECRET_PAIRS = 10
"""What the longest label of a DNS name leaves; a hundred bits, so that nobody guesses it."""


class Role(StrEnum):
    """What a pod does in its job; the value is the word in the pod's name."""

    COORDINATOR = "coordinator"
    WEIGHT = "weight"
    BROADCASTREDUCE = "broadcastreduce"
    CHIEF = "chief"
    ACTIVATION = "activation"
    WORKER = "worker"
    DRIVER = "driver"


def _draw(num_pairs: int) -> str:
    number = secrets.randbelow(len(_PAIRS) ** num_pairs)  # one call to the kernel
    pairs = []
    for _ in range(num_pairs):
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    return "".join(pairs)


def new_job_id() -> JobId:
    """Return a fresh job id: `wsjob-` and 22 characters."""
    return JobId(f"{JOB_PREFIX}{_draw(_SUFFIX_PAIRS)}")


def new_authority(job: JobId) -> str:
    """Return a fresh authority by which a job's client calls its coordinator.

    The client proves itself to the coordinator by nothing else, so nobody can guess it. Its first
    label is as long as such a label may be, and tells the SNI proxy which job it is for.
    """
    secret = _draw(_SECRET_PAIRS)
    return f"{pod_name(job, Role.COORDINATOR, 0)}-{secret}.{AUTHORITY_SUFFIX}"


def new_workflow_id() -> WorkflowId:
    """Return a fresh workflow id: `wflow-` and 22 characters."""
    return WorkflowId(f"wflow-{_draw(_SUFFIX_PAIRS)}")


def new_array_id() -> str:
    """Return a fresh id of an array of detached runs: `array-` and 22 characters."""
    return f"{ARRAY_PREFIX}{_draw(_SUFFIX_PAIRS)}"


def pod_name(job: JobId, role: Role, index: int) -> PodName:
    """Return the pod's name, as in `wsjob-...-chief-0`."""
    return PodName(f"{job}-{role.value}-{index}")
