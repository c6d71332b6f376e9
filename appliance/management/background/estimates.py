"""Questions to the planner, each in a process of its own, few at a time and bounded.

A question can cost seconds of processor time and hundreds of megabytes. So it is answered in a
process beside management with a limit of memory and of time, which ends when its caller
disconnects, when the time is over, and with the appliance.
"""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.core.errors import ClusterError, UserError

_PROGRAM = "appliance.management.background.estimate_process"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateLimits:
    """What questions may cost.

    Attributes:
        num_processes: Questions that are thought about at a time; the others wait.
        memory_bytes: Address space of each.
    """

    num_processes: int = 2
    memory_bytes: int = 1024 * _MIB
    seconds: float = 60.0


class Estimates:
    """Answers questions to the planner; belongs to one event loop.

    Args:
        limits: What they may cost.
    """

    def __init__(self, limits: EstimateLimits | None = None) -> None:
        self._limits = limits or EstimateLimits()
        self._turns = asyncio.Semaphore(self._limits.num_processes)
        self._asking: set[asyncio.Task[bytes]] = set()
        self._is_closed = False

    # `Any`: a question is JSON; see `estimate_process`.
    async def ask(self, question: Mapping[str, Any], program: bytes = b"") -> bytes:
        """Return the planner's report as JSON; when this is cancelled, the thinking ends.

        Raises:
            UserError: The question makes no sense, or costs more than it may.
            ClusterError: The appliance goes down.
        """
        text = json.dumps(question).encode() + b"\n" + program
        task = asyncio.create_task(self._answered(text))
        self._asking.add(task)
        try:
            answer = await task
        except asyncio.CancelledError:
            task.cancel()
            if self._is_closed:
                raise ClusterError("The appliance goes down; the estimate is given up.") from None
            raise
        finally:
            self._asking.discard(task)
        if answer.startswith(b'{"report":'):
            return answer.removeprefix(b'{"report":')[:-1]
        refused = json.loads(answer)
        raise UserError(refused["message"], hint=refused["hint"])

    def close(self) -> None:
        """Give up on every question."""
        self._is_closed = True
        for task in self._asking:
            task.cancel()

    async def _answered(self, text: bytes) -> bytes:
        async with self._turns:
            process = await asyncio.create_subprocess_exec(
                *self._command(), stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
            try:
                async with asyncio.timeout(self._limits.seconds):
                    answer, trouble = await process.communicate(text)
            except TimeoutError:
                raise self._too_costly(f"{self._limits.seconds:g} seconds") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if not answer:
            raise self._ended(process.returncode, trouble)
        return answer

    def _command(self) -> list[str]:
        limits = self._limits
        numbers = (limits.memory_bytes, int(limits.seconds) + 1, os.getpid())
        return [sys.executable, "-m", _PROGRAM, *map(str, numbers)]

    def _ended(self, code: int | None, trouble: bytes) -> Exception:
        if code is not None and (code < 0 or b"MemoryError" in trouble):
            return self._too_costly(f"{self._limits.memory_bytes // _MIB:,} MiB of memory")
        return ClusterError(
            f"The planner ended with code {code}: {trouble.decode(errors='replace')[-300:]}"
        )

    def _too_costly(self, limit: str) -> UserError:
        return UserError(
            f"The estimate takes more than {limit}, which is what one may take here.",
            hint="Use csctl estimate on your own machine, or ask about a smaller model.",
        )
