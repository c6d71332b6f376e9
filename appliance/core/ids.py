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

WORKFLOW_PREFIX = "wflow-"
"""How every workflow id begins, which is its run's as well."""

ARRAY_PREFIX = "array-"
"""How the id of every array of detached runs begins."""

ARRAY_LABEL, INDEX_LABEL = "array", "index"
"""Labels that show a run's array and its number there; only the appliance gives them."""

AUTHORITY_SUFFIX = "cluster-server.cerebrassc.local"
"""Ending of every authority that clients call; the TLS certificate is for all names below it."""

_SUFFIX_LENGTH = 22
_SECRET_LENGTH = 20
"""What the longest label of a DNS name leaves; a hundred bits, so that nobody guesses it."""

_ALPHABET = (string.ascii_lowercase + string.digits).encode()
_NUM_FAIR = 256 // len(_ALPHABET) * len(_ALPHABET)
_CHARACTERS = _ALPHABET * (256 // len(_ALPHABET)) + bytes(256 - _NUM_FAIR)
"""The character of each byte below `_NUM_FAIR`, which makes all of them equally likely."""
_UNFAIR = bytes(range(_NUM_FAIR, 256))
_NUM_DRAWN = 32


class Role(StrEnum):
    """What a pod does in its job; the value is the word in the pod's name."""

    COORDINATOR = "coordinator"
    WEIGHT = "weight"
    BROADCASTREDUCE = "broadcastreduce"
    CHIEF = "chief"
    ACTIVATION = "activation"
    WORKER = "worker"
    DRIVER = "driver"


def _draw(length: int) -> str:
    drawn = b""
    while len(drawn) < length:  # one call to the kernel nearly always
        drawn += secrets.token_bytes(_NUM_DRAWN).translate(_CHARACTERS, _UNFAIR)
    return drawn[:length].decode()


def new_job_id() -> JobId:
    """Return a fresh job id: `wsjob-` and 22 characters."""
    return JobId(f"{JOB_PREFIX}{_draw(_SUFFIX_LENGTH)}")


def new_authority(job: JobId) -> str:
    """Return a fresh authority by which a job's client calls its coordinator.

    The client proves itself to the coordinator by nothing else, so nobody can guess it. Its first
    label is as long as such a label may be, and tells the SNI proxy which job it is for.
    """
    secret = _draw(_SECRET_LENGTH)
    return f"{pod_name(job, Role.COORDINATOR, 0)}-{secret}.{AUTHORITY_SUFFIX}"


def new_workflow_id() -> WorkflowId:
    """Return a fresh workflow id: `wflow-` and 22 characters."""
    return WorkflowId(f"{WORKFLOW_PREFIX}{_draw(_SUFFIX_LENGTH)}")


def new_array_id() -> str:
    """Return a fresh id of an array of detached runs: `array-` and 22 characters."""
    return f"{ARRAY_PREFIX}{_draw(_SUFFIX_LENGTH)}"


def pod_name(job: JobId, role: Role, index: int) -> PodName:
    """Return the pod's name, as in `wsjob-...-chief-0`."""
    return PodName(f"{job}-{role}-{index}")
