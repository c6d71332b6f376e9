"""Takes over the gangs that an older version has launched, whose records are config maps.

Their pods mount secrets, which stay, as do their service accounts, until their wsjob goes: it owns
them. So jobs go on when management is upgraded.
"""

import datetime as dt
import json
import logging

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.gang_records import GangRecords
from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    GROUP,
    JOB_LABEL,
    Resource,
    job_label,
    name_of,
)
from appliance.core.ids import JobId

logger = logging.getLogger(__name__)

_LAUNCHED, _STOP = f"{GROUP}/launched", f"{GROUP}/stop"
_DONE = "done"


def take_over(api: ApiServer, records: GangRecords) -> None:
    """Write the records of gangs that are config maps as they are written now, and remove these.

    Raises:
        ClusterError: The API server does not answer.
    """
    for found in api.list(CONFIG_MAP, JOB_LABEL)[0]:
        try:
            _rewrite(found, records)
        except (KeyError, ValueError, TypeError):
            logger.exception("Record of a gang is damaged", extra={"job": job_label(found)})
        api.delete(CONFIG_MAP, name_of(found))


def _rewrite(found: Resource, records: GangRecords) -> None:
    data, notes = found["data"], found["metadata"].get("annotations") or {}
    if _LAUNCHED not in notes:
        return  # it was cut off: nothing of it runs
    launched_at = dt.datetime.fromisoformat(notes[_LAUNCHED])
    job = JobId(job_label(found))
    gang = records.write(job, json.loads(data["pods"]), {}, launched_at=launched_at)
    if started := data.get("start"):
        gang = records.start(gang, dt.datetime.fromisoformat(started))
    if stop := notes.get(_STOP):
        gang = records.stop(gang)
        if stop == _DONE:
            records.end(gang)
