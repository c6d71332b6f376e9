"""Stores the programs that a job has compiled with the job, for `csctl log-export --binaries`.

The compile cache belongs to all jobs and forgets; the job's directory stays until the job is
deleted.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.wire.fabric_traces import ARTIFACTS
from workers.sdk.options import SdkLimits

logger = logging.getLogger(__name__)


class Artifacts:
    """Keeps compiled programs in the job's directory.

    Args:
        work_dir: The job's directory.
        limits: How many bytes of programs are kept.
        on_event: Told of each program that cannot be kept.
    """

    def __init__(
        self, work_dir: Path, limits: SdkLimits, on_event: Callable[[str, str], None]
    ) -> None:
        self._directory = work_dir / ARTIFACTS
        self._max_bytes = limits.kept_bytes
        self._on_event = on_event
        self._lock = threading.Lock()
        self._num_bytes: dict[str, int] = {}

    def keep(self, target: str, data: bytes) -> None:
        """Store a program under its hash; the same one again takes its place.

        A program that cannot be kept is none the worse for its job: an event tells of it.
        """
        with self._lock:
            others = sum(size for name, size in self._num_bytes.items() if name != target)
            if others + len(data) > self._max_bytes:
                self._refuse(
                    target,
                    f"with {len(data):,} bytes beside the {others:,} of others it would exceed "
                    f"the {self._max_bytes:,} bytes that are kept of one job",
                )
                return
            try:
                self._directory.mkdir(mode=0o700, exist_ok=True)
                partial = self._directory / f".{target}"
                partial.write_bytes(data)
                partial.replace(self._directory / f"{target}.tar.gz")
            except OSError as error:
                self._refuse(target, str(error))
            else:
                self._num_bytes[target] = len(data)

    def _refuse(self, target: str, why: str) -> None:
        logger.warning("Program cannot be kept", extra={"program": target, "reason": why})
        text = f"Program {target} is not kept for log-export: {why}."
        self._on_event("SdkArtifactRefused", text)
