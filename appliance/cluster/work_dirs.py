"""What a launcher puts into a job's work directory before its pods start."""

from pathlib import Path

from appliance.core.pods.pod_spec import REQUEST_FILE
from appliance.files.kept_files import replace_file


def write_request(work_dir: Path, request: bytes) -> None:
    """Write the request that submitted a job where its pods read it, unless it is there.

    A management that starts anew launches again what may run already, and pods may be reading. What
    is there and is another one is damaged, and is replaced.

    Args:
        work_dir: The job's work directory; made if it is not there.
        request: The request, serialised; nothing is done about an empty one, as no pod reads that.

    Raises:
        OSError: The file cannot be written.
    """
    path = work_dir / REQUEST_FILE
    if not request or (path.is_file() and path.read_bytes() == request):
        return
    work_dir.mkdir(parents=True, exist_ok=True)
    # For us alone: addresses of notifications are secrets. The database has it, too.
    replace_file(path, request, outlasts=False)
