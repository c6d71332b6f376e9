"""Stores the fabric trace that a job's programs have written as an artefact of the job."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.core.errors import WscError
from appliance.wire.fabric_traces import TRACE_FILE, TraceFile
from workers.sdk.errors import SdkError
from workers.sdk.files import JobFiles
from workers.sdk.options import SdkLimits
from workers.sdk.programs import TRACE_LEFT_AT, Programs

logger = logging.getLogger(__name__)


class Traces:
    """Takes the latest trace of the job's programs into the job's directory, which outlives it.

    Args:
        files: Reads what programs have left, as the user.
        programs: Knows where they leave it.
        work_dir: The job's directory.
        limits: How large a trace may be.
        on_event: Told of each trace that is taken, and of each that cannot be.
    """

    def __init__(
        self,
        files: JobFiles,
        programs: Programs,
        work_dir: Path,
        limits: SdkLimits,
        on_event: Callable[[str, str], None],
    ) -> None:
        self._files, self._limits = files, limits
        self._left_at = programs.files / TRACE_LEFT_AT
        self._target = work_dir / TRACE_FILE
        self._on_event = on_event
        self._lock = threading.Lock()
        self._taken: tuple[int, int] | None = None

    def take(self) -> None:
        """Take what was left since the last time, if anything was."""
        with self._lock:
            try:
                found = self._left_at.lstat()
            except OSError:  # none was asked for
                return
            seen = (found.st_mtime_ns, found.st_ino)
            if seen == self._taken:
                return
            self._taken = seen
            try:
                num_events = self._keep()
            except (SdkError, WscError, OSError) as error:
                logger.warning("Trace cannot be kept", extra={"reason": str(error)})
                self._on_event("SdkTraceRefused", f"The trace of the fabric is not kept: {error}")
            else:
                text = f"A trace of the fabric with {num_events:,} events is kept."
                self._on_event("SdkTraced", text)

    def _keep(self) -> int:
        data = self._files.read_left(TRACE_LEFT_AT, self._limits.trace_bytes)
        partial = self._target.with_name(f".{self._target.name}")
        partial.write_bytes(data)
        try:
            num_events = sum(block.num_events for block in TraceFile(partial).blocks)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        partial.replace(self._target)
        return num_events
