"""Programs that run the user's own code: the client's streamer and weight program.

User code never runs in a process of ours. It runs in the Python environment that the client
reports, as the job's user, in a process that dies with the pod (`user_processes`), writes its own
log and serves the client's `Appliance` service on a Unix socket that only its user and we can
reach.
"""

import contextlib
import logging
import os
import secrets
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from appliance.core.errors import (
    ClusterError,
    InternalError,
    PodFailedError,
    StreamClosedError,
    UserError,
    WscError,
)
from appliance.core.ids import JobId
from appliance.pods.job_user import JobUser
from appliance.pods.oom_kills import OomKills
from appliance.pods.shared_blocks import SharedBlock
from appliance.user_code.piped_log import PipedLog
from appliance.user_code.user_exec import CannotStartError
from appliance.user_code.user_processes import (
    ForkServerEndedError,
    UserCommand,
    UserProcess,
    start,
)
from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.cluster.cluster_pb2 import ExecuteJobRequest

logger = logging.getLogger(__name__)

START_SECONDS = 120.0
"""How long a program may take to listen: it imports torch, from a cold disk at worst."""

_SOCKET, _DETAILS, _SECRET = "s", "details.json", "programs.key"
_LOOK_SECONDS = 0.02

_JOB_VARIABLE = "WSC_JOB"
"""What `appliance.cluster` knows the processes of a job by."""
_STOP_SECONDS = 2.0
_LOG_TAIL_BYTES = 4000
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 24),  # a user's traceback travels as status details
    # A socket that is not there yet is tried again soon; by default, after a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 300),
]

_PRELOADED = (
    "torch",
    "grpc",
    "cerebras.pytorch",
    "cerebras.appliance.appliance_client",
    "cerebras.pytorch.distributed.cluster_resolver",
    "cerebras.pytorch.core.appliance_utils",
    "cerebras.pytorch.utils._app.utils",
    "cerebras.pytorch.utils.data.streamer.pytorch_generator",
)
"""What the client's streamer and weight program import."""

Reply = TypeVar("Reply", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEnvironment:
    """Where and as whom the user's code runs.

    Attributes:
        python: The interpreter of the user's environment.
        search_path: Directories for `PYTHONPATH`, in order.
        user: Whom it runs as.
        variables: Further variables, of an administrator's.
    """

    python: Path
    search_path: tuple[str, ...]
    user: JobUser
    variables: Mapping[str, str] = field(default_factory=dict)


def user_environment(
    request: ExecuteJobRequest,
    *,
    uid: int | None = None,
    gid: int | None = None,
    variables: Mapping[str, str] = {},
) -> UserEnvironment:
    """Return the environment that a client reports for its input workers.

    Args:
        request: What the client asked of management.
        uid: The job's user; matters only if we run as root.
        gid: The job's group.
        variables: See `UserEnvironment`.

    Raises:
        UserError: The request names no environment, or there is none at that path.
    """
    site_packages = request.user_sidecar_env.python_path
    if not site_packages:
        raise UserError(
            "The job names no Python environment for its input workers.",
            hint="Leave automount and the mounting of the user's environment switched on.",
        )
    paths = tuple(dict.fromkeys([site_packages, *request.python_paths]))
    if "\0" in "".join(paths):
        raise UserError("A path of the user's Python environment contains a zero byte.")
    user = JobUser.of(uid, gid)
    python = user.look(partial(_interpreter, Path(site_packages)))
    return UserEnvironment(python=python, search_path=paths, user=user, variables=variables)


def _interpreter(site_packages: Path) -> Path:
    """Return the interpreter beside `<prefix>/lib/pythonX.Y/site-packages`."""
    prefix, name = site_packages.parent.parent.parent, site_packages.parent.name
    for candidate in (prefix / "bin" / name, prefix / "bin" / "python3", prefix / "bin" / "python"):
        with contextlib.suppress(PermissionError):
            if candidate.exists():
                return candidate
    raise UserError(
        f"There is no Python interpreter for the environment of {str(site_packages)!r}; looked in "
        f"{str(prefix / 'bin')!r} with the rights of the job's user.",
        hint="The user's environment must be visible under the same path on the appliance's nodes, "
        "and the user must be able to read it.",
    )


class UserProgram:
    """One running program of the client that runs the user's code.

    Args:
        job: The job it belongs to; marks the process, so that the launcher can find it.
        name: For messages, as in `Input worker 3`.
        environment: Where and as whom to run.
        module: Module of the client to run.
        details: Text of the file that the program takes its settings from; `{address}` in it is
            replaced by the address it is to listen at.
        directory: Its working directory, with its socket; made anew here, for the user alone, in a
            directory of ours where the user finds it but can change nothing.
        log_path: Takes its output.
        on_exit: Called with an exit code if it ends before `stop`; from a thread.
    """

    def __init__(
        self,
        job: JobId,
        name: str,
        environment: UserEnvironment,
        *,
        module: str,
        details: Callable[[str], str],
        directory: Path,
        log_path: Path,
        on_exit: Callable[[int], None] | None = None,
    ) -> None:
        self.name = name
        self._job, self._variables = job, _variables(environment)
        self._environment, self._module = environment, module
        self._log_path, self._directory = log_path, directory
        self._log = PipedLog(log_path, name)
        self._on_exit = on_exit
        self._exited, self._started = threading.Event(), threading.Event()
        self._is_stopping = False
        self._process: UserProcess | None = None
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secret = _secret_of(directory.parent)
        self._socket = directory.with_name(f"{directory.name}.sock")
        self._socket.unlink(missing_ok=True)
        self._make_directory(details(f"unix:{directory}/{_SOCKET}"))
        self._channel = grpc.insecure_channel(f"unix:{self._socket}", options=_CHANNEL_OPTIONS)
        self._stub = appliance_service_pb2_grpc.ApplianceStub(self._channel)
        self._exit_code: int | None = None
        self._oom_kills, self._why = OomKills(), ""
        self._thread = threading.Thread(target=self._watch, name=f"watch {name}", daemon=True)
        self._thread.start()
        self._started.wait()

    def wait_until_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until the program serves.

        Raises:
            PodFailedError: It ended, or does not answer in time.
        """
        deadline = time.monotonic() + timeout_seconds
        while not self._take_socket():
            if self._exited.wait(_LOOK_SECONDS):
                raise self._ended_error()
            if time.monotonic() >= deadline:
                raise PodFailedError(
                    f"{self.name} does not listen after {timeout_seconds:g} seconds.\n"
                    f"{self.log_tail()}"
                )
        self.call(
            "UnaryClockSync",
            ws_common_pb2.ClockSyncRequest(),
            ws_common_pb2.ClockSyncResponse,
            timeout_seconds=timeout_seconds,
        )

    def call(
        self,
        method: str,
        request: Message,
        reply_type: type[Reply],
        *,
        timeout_seconds: float | None = None,
        abandoned: threading.Event | None = None,
    ) -> Reply:
        """Call the program and return its reply.

        Args:
            method: A unary method of the `Appliance` service.
            request: Its argument.
            reply_type: What it answers with.
            timeout_seconds: How long to wait; None waits as long as the program lives.
            abandoned: Once set, nobody wants the reply any more.

        Raises:
            StreamClosedError: The call was abandoned; the program may still be at it.
            UserError: The user's code raised; the message ends with its traceback.
            PodFailedError: The program ended or does not answer.
        """
        future = getattr(self._stub, method).future(
            request, timeout=timeout_seconds, wait_for_ready=True
        )
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        while not done.wait(0.2):
            if self._exited.is_set():
                future.cancel()
                raise self._ended_error()
            if abandoned is not None and abandoned.is_set():
                future.cancel()
                raise StreamClosedError(f"{method} of {self.name} was given up.")
        reply = self._result(future, method)
        if not isinstance(reply, reply_type):
            raise InternalError(f"{method} of {self.name} answered a {type(reply).__name__}.")
        return reply

    def stop(self) -> None:
        """End the program and its children, in order if it goes along."""
        self._is_stopping = True
        self._channel.close()
        if self._process is not None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                self._process.send_signal(number)
                if self._exited.wait(_STOP_SECONDS):
                    break
            self._process.kill()  # its children, if it has left any
            self._thread.join(_STOP_SECONDS)
            self._process.close()
        self._log.close()
        self._socket.unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def give_to_user(self, block: SharedBlock) -> None:
        """Make shared memory the user's own, if the program runs as another user."""
        block.give_to(self._environment.user)

    def _result(self, future: "grpc.Future[Message]", method: str) -> object:
        try:
            return future.result()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.INTERNAL:
                raise UserError(f"{self.name} failed in {method}:\n{error.details()}") from error
            if self._exited.wait(1.0):
                raise self._ended_error() from error
            raise PodFailedError(
                f"{self.name} does not answer {method}: {error.details()}.\n{self.log_tail()}"
            ) from error

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        return self._log.tail(_LOG_TAIL_BYTES)

    def _ended_error(self) -> ClusterError:
        code = self._exit_code
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        how += f" ({self._why})" if self._why else ""
        return PodFailedError(
            f"The program of {self.name} ended with {how}; its log is {self._log_path}. "
            f"Last lines:\n{self.log_tail()}"
        )

    def _watch(self) -> None:
        try:
            code = self._run()
        except (OSError, WscError, CannotStartError) as error:
            logger.exception("Program did not start", extra={"program": self.name})
            self._log.note(str(error))
            self._exited.set()
            self._started.set()
            return
        self._exit_code = code
        self._why = self._oom_kills.explain(code)
        self._exited.set()
        if not self._is_stopping:
            logger.error("Program ended", extra={"program": self.name, "exit_code": code})
            if self._on_exit is not None:
                self._on_exit(code)

    def _run(self) -> int:
        """Run the program; return its exit code."""
        while True:
            try:
                self._process = process = self._spawn()
                self._started.set()
                return process.wait()
            except ForkServerEndedError as error:
                self._started.set()
                if self._process is not None:
                    self._process.close()
                if self._is_stopping or error.exit_code is not None:
                    return error.exit_code or 1

    def _spawn(self) -> UserProcess:
        environment = self._environment
        return start(
            UserCommand(
                python=environment.python,
                module=self._module,
                arguments=("-a", str(self._directory / _DETAILS)),
                directory=self._directory,
                search_path=environment.search_path,
                variables=self._variables,
                job_variables={_JOB_VARIABLE: self._job},
                output=self._log.writer,
                user=environment.user,
                secret=self._secret,
                preloaded=_PRELOADED,
            )
        )

    def _make_directory(self, details: str) -> None:
        """Make the program's directory: ours until all is in it, and then the user's.

        What the user's code has left under its name is removed, never written to: it may be links.
        """
        user = self._environment.user
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(mode=0o700)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(_DETAILS, flags, 0o600, dir_fd=directory), "w") as file:
                file.write(details)
                user.give(file.fileno())
            user.give(directory)
        finally:
            os.close(directory)

    def _take_socket(self) -> bool:
        """Link the program's socket to where only we can put one; False if it is not there yet.

        In its own directory the user's code could put a link to another job's socket, and have us
        send there what it likes.
        """
        if self._socket.exists():
            return True
        try:
            os.link(self._directory / _SOCKET, self._socket, follow_symlinks=False)
        except FileNotFoundError:
            return False
        found = self._socket.lstat()
        wanted = self._environment.user.uid
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != (
            os.geteuid() if wanted is None else wanted
        ):
            self._socket.unlink()
            raise PodFailedError(f"{self.name} has put something else where its socket belongs.")
        self._socket.chmod(0o600)
        return True


def _secret_of(directory: Path) -> str:
    """Return what the pods of a job on this node know and nobody else does; the first draws it."""
    path = directory / _SECRET
    if not path.exists():
        drawn = directory / f"{_SECRET}.{secrets.token_hex(8)}"
        drawn.touch(mode=0o600)
        drawn.write_text(secrets.token_hex(16))
        with contextlib.suppress(FileExistsError):
            os.link(drawn, path)
        drawn.unlink()
    return path.read_text()


def _variables(environment: UserEnvironment) -> dict[str, str]:
    """Return the program's environment, apart from where it looks for modules.

    Nothing of ours leaks into it.
    """
    return {
        "LANG": "C.UTF-8",
        **environment.variables,
        "PATH": f"{environment.python.parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "USER": environment.user.name,
        "HOME": environment.user.home,
    }
