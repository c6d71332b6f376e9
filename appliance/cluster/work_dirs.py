"""What a launcher puts into a job's work directory before its pods start."""

import os
from pathlib import Path

from appliance.core.pods.pod_spec import REQUEST_FILE


def write_request(work_dir: Path, request: bytes) -> None:
    """Write the request that submitted a job where its pods read it, unless it is there.

    A management that starts anew launches again what may run already, and pods may be reading.

    Args:
        work_dir: The job's work directory; made if it is not there.
        request: The request, serialised; nothing is done about an empty one, as no pod reads that.

    Raises:
        OSError: The file cannot be written.
    """
    path = work_dir / REQUEST_FILE
    if not request or path.exists():
        return
    work_dir.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    # It may hold addresses of notifications, which are secrets.
    with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
        file.write(request)
    partial.replace(path)
