"""What a launcher puts into a job's work directory before its pods start."""

import os
from pathlib import Path

from appliance.core.pods.pod_spec import REQUEST_FILE


def write_request(work_dir: Path, request: bytes) -> None:
    """Write the request that submitted a job where its pods read it.

    Args:
        work_dir: The job's work directory; made if it is not there.
        request: The request, serialised; nothing is done about an empty one, as no pod reads that.

    Raises:
        OSError: The file cannot be written.
    """
    if not request:
        return
    work_dir.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC  # a job that runs again has one from before
    # It may hold addresses of notifications, which are secrets.
    with os.fdopen(os.open(work_dir / REQUEST_FILE, flags, 0o600), "wb") as file:
        file.write(request)
