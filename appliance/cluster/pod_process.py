"""What a freshly forked process does before and after the code of its role."""

import atexit
import ctypes
import importlib
import logging
import os
import signal
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from appliance.cluster.process_tree import JOB_VARIABLE
from appliance.core.ids import Role
from appliance.core.pods.pod_options import SdkPodOptions
from appliance.core.pods.pod_spec import PodSpec

ENTRY_MODULES: Mapping[Role, str] = {
    Role.COORDINATOR: "appliance.coordinator.__main__",
    Role.WEIGHT: "workers.memoryx.__main__",
    Role.BROADCASTREDUCE: "workers.swarmx.__main__",
    Role.CHIEF: "workers.csx.__main__",
    Role.ACTIVATION: "workers.input.__main__",
    Role.WORKER: "workers.input.__main__",
    Role.DRIVER: "workers.driver.__main__",
}
"""Where each role's `run_pod(spec) -> int` is."""

SDK_MODULE = "workers.sdk.__main__"
"""The same for the pod of an SDK job, which is to its client what a coordinator is to others."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

logger = logging.getLogger(__name__)


def become_subreaper() -> None:
    """Make orphans among this process's descendants its own children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def entry_module(spec: PodSpec, modules: Mapping[Role, str] = ENTRY_MODULES) -> str:
    """Return where a pod's `run_pod` is, given the modules of the roles."""
    if isinstance(spec.options, SdkPodOptions):
        return SDK_MODULE
    return modules[spec.role]


def run_forked(spec: PodSpec, entry_module: str, parent: int) -> NoReturn:
    """Turn this forked process into a pod, run its role and end.

    Args:
        spec: What to run.
        entry_module: Module with the role's `run_pod`.
        parent: Process id of the fork server, with which the pod is to die.
    """
    _run_to_end(spec, entry_module, lambda: _detach(spec, parent))


def run_role(spec: PodSpec, entry_module: str, *, output: int) -> NoReturn:
    """Be a container's pod: run the role in this forked process and end.

    Args:
        spec: What to run.
        entry_module: Module with the role's `run_pod`.
        output: Descriptor that takes what it prints.
    """
    _run_to_end(spec, entry_module, lambda: _detach_in_container(spec, output))


def _run_to_end(spec: PodSpec, entry_module: str, detach: Callable[[], None]) -> NoReturn:
    exit_code = 1
    try:
        detach()
        _leave_finalizers()
        exit_code = _run_role(spec, entry_module)
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - outermost frame of a process; nothing may pass it
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _detach_in_container(spec: PodSpec, output: int) -> None:
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _take_no_signals()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO in typeshed
    os.environ[JOB_VARIABLE] = spec.job
    os.chdir(spec.work_dir)


def _detach(spec: PodSpec, parent: int) -> None:
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the fork server died before the line above took effect
    _prctl(_PR_SET_NAME, ctypes.c_char_p(f"wsc-{spec.role.value}-{spec.index}".encode()[:15]))
    _set_command_line(spec.name)
    signal.set_wakeup_fd(-1)
    _take_no_signals()
    log = os.open(spec.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, _max_descriptor() + 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO in typeshed
    os.environ[JOB_VARIABLE] = spec.job
    os.chdir(spec.work_dir)


def _take_no_signals() -> None:
    """Leave the handlers of the process that forked this one to that one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _leave_finalizers() -> None:
    """Leave what is to be finalized at the end of the process that forked this one to that one.

    PyTorch registers one for each of its libraries, whose ends take longer than a pod's.
    """
    for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]  # of no public name
        finalizer.detach()


def _set_command_line(text: str) -> None:
    # A forked process shows its parent's command line. The kernel reads it from the process's own
    # memory, between two addresses that /proc names (fields 48 and 49 of stat, see proc(5)).
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        room = end - start
        ctypes.memmove(start, text.encode()[: room - 1].ljust(room, b"\0"), room)


def _run_role(spec: PodSpec, entry_module: str) -> int:
    threads = spec.options.torch_threads
    if threads and (torch := sys.modules.get("torch")):
        torch.set_num_threads(threads)
    module = importlib.import_module(entry_module)
    return int(module.run_pod(spec) or 0)


def _max_descriptor() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd"))


def _prctl(option: int, value: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
