"""How programs of the user are started: as the user, in the job's directory, within its limits.

sdk/            in the job's runtime directory, with which it goes, whoever ends the job
  bin/          `python`, `cs_python`, `cslc` and so on, first on the programs' path
  files/        what the client uploads and what its programs write
  home/, tmp/   what they take for their home directory, and for temporary files
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.job_user import JobUser
from appliance.pods.user_variables import user_variables
from appliance.sdk import cs_python
from appliance.sdk.cs_python import SYSTEM_VARIABLE
from appliance.sdk.host.fabric_traces import DEFAULT_NAME, JOB_VARIABLE, TRACE_VARIABLE
from appliance.sdk.host.machine_code_directory import DIRECTORY_VARIABLE
from appliance.user_code import user_exec
from appliance.user_code.user_exec import CannotStartError, Order
from appliance.wire.fabric_traces import TRACE_FILE
from protos.sdk.sdk_common_pb2 import StatusCode
from workers.sdk.errors import SdkError
from workers.sdk.options import SdkOptions

TRACE_LEFT_AT = f".traces/{TRACE_FILE}"
"""Where programs leave a trace of the fabric, relative to the job's files."""
_SHELLS = ("/bin/bash", "/bin/sh")
_TOOLS = {
    "python": ("-I", cs_python.__file__),
    "python3": ("-I", cs_python.__file__),
    "cs_python": ("-I", cs_python.__file__),
    "cslc": ("-I", "-m", "appliance.sdk.cslc"),
    "cs_trace": ("-I", "-m", "appliance.sdk.cs_trace"),
    "sdk_debug_shell": ("-I", "-m", "appliance.sdk.sdk_debug_shell"),
}


class Programs:
    """Starts programs of the job's user.

    Args:
        options: Whose programs they are, and what they may use.
    """

    def __init__(self, spec: PodSpec, options: SdkOptions) -> None:
        self._user = JobUser.of(options.user_uid, options.user_gid)
        self._memory_bytes = options.limits.memory_bytes
        self._scratch = spec.runtime_dir / "sdk"
        self.files = self._scratch / "files"
        self.log_path = spec.work_dir / "logs" / "sdk-0.log"
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._why_closed = ""
        self._make_directories()
        self._machine_code = spec.runtime_dir.parent / "machine-code"
        self._environment = self._variables(spec, options)

    def start_python(
        self, *arguments: str, directory: Path, output: int, pass_fds: tuple[int, ...] = ()
    ) -> "subprocess.Popen[bytes]":
        """Start our interpreter with a program of ours, as the user.

        Args:
            arguments: Its command line.
            directory: Its working directory.
            output: Descriptor that takes what it prints.
            pass_fds: Descriptors that it is to have.

        Raises:
            SdkError: It cannot be run.
        """
        return self._start((sys.executable,), ("-I", *arguments), directory, output, pass_fds)

    def start_shell(
        self, command: str, *, directory: Path, output: int, errors: int
    ) -> "subprocess.Popen[bytes]":
        """Start a shell command.

        Args:
            command: What the shell is told.
            directory: Its working directory.
            output: Descriptor of its standard output.
            errors: Descriptor of its standard error.

        Raises:
            SdkError: No shell can be run, or nothing in the job's directory.
        """
        if not os.access(self._scratch / "bin" / "python", os.X_OK):
            # The shell would take the next `python` of its path without a word.
            raise SdkError(
                f"No program in {self._scratch} can be executed, as commands need; its file system "
                "must not be mounted with noexec.",
                StatusCode.SDK_RT_INTERNAL_ERROR,
            )
        text = f"exec 2>&{errors} {errors}>&-\n{command}"
        return self._start(_SHELLS, ("-c", text), directory, output, (errors,))

    def prepare_machine_code(self) -> None:
        """Compile the simulator's kernel for all SDK jobs of this host, if that was not done yet.

        This runs nothing of the user's, and as ourselves: users only read what it leaves.
        """
        self._machine_code.mkdir(mode=0o755, exist_ok=True)
        if any(self._machine_code.glob("*.o")):  # the directory goes with the appliance
            return
        command = [sys.executable, "-I", "-m", "appliance.sdk.host.machine_code_directory"]
        subprocess.run([*command, str(self._machine_code)], check=False, stdin=subprocess.DEVNULL)

    def close(self, reason: str) -> None:
        """End every program, and start no other."""
        with self._lock:
            self._why_closed = self._why_closed or reason
            running = list(self._running)
        for process in running:
            end(process)

    def remove(self) -> None:
        """Remove the job's directory, after `close`."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(
        self,
        programs: tuple[str, ...],
        arguments: tuple[str, ...],
        directory: Path,
        output: int,
        pass_fds: tuple[int, ...],
    ) -> "subprocess.Popen[bytes]":
        order = Order(
            programs=programs,
            arguments=arguments,
            environment=self._environment,
            directory=str(directory),
            uid=self._user.uid,
            gid=self._user.gid,
            groups=self._user.groups,
            memory_bytes=self._memory_bytes,
        )
        try:
            process = user_exec.start(order, output=output, pass_fds=pass_fds)
        except CannotStartError as error:
            raise SdkError(
                f"A program of user {self._user.name} could not be started: {error}.",
                StatusCode.SDK_RT_INTERNAL_ERROR,
            ) from error
        with self._lock:
            self._running = {each for each in self._running if each.poll() is None} | {process}
            reason = self._why_closed
        if reason:
            end(process)
            raise SdkError(reason, StatusCode.SDK_RT_USER_TERMINATED)
        return process

    def _make_directories(self) -> None:
        bin_dir = self._scratch / "bin"
        bin_dir.mkdir(parents=True, exist_ok=True)
        for path in (self._scratch, bin_dir):
            path.chmod(0o711)  # to be passed through by the user, and changed by us alone
        for name, arguments in _TOOLS.items():
            words = " ".join(f"'{word}'" for word in (sys.executable, *arguments))
            (bin_dir / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (bin_dir / name).chmod(0o755)
        for path in (self.files, self._scratch / "home", self._scratch / "tmp"):
            path.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._user.give(descriptor)
            finally:
                os.close(descriptor)

    def _variables(self, spec: PodSpec, options: SdkOptions) -> Mapping[str, str]:
        found = {
            "LANG": "C.UTF-8",
            **user_variables(spec.options),
            "PATH": f"{self._scratch / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self._scratch / "home"),
            "TMPDIR": str(self._scratch / "tmp"),
            "USER": self._user.name,
            "LOGNAME": self._user.name,
            "PYTHONUNBUFFERED": "1",
            "MPLBACKEND": "Agg",
            "WSC_JOB": spec.job,
            DIRECTORY_VARIABLE: str(self._machine_code),
            JOB_VARIABLE: str(self.files / TRACE_LEFT_AT),
        }
        if options.system_address:
            found[SYSTEM_VARIABLE] = options.system_address
        if options.is_traced:
            found[TRACE_VARIABLE] = DEFAULT_NAME
        return found


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a program and what it has started in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
