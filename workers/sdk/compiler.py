"""Runs `cslc` for the client, as the user on the uploaded sources, or answers from the cache."""

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from appliance.core.errors import UserError
from appliance.sdk.arguments import parse
from protos.sdk.sdk_common_pb2 import StatusCode
from workers.sdk.cache import ProgramCache
from workers.sdk.commands import Output, Watch
from workers.sdk.errors import SdkError, file_error
from workers.sdk.files import JobFiles, Upload
from workers.sdk.options import SdkLimits
from workers.sdk.programs import Programs, end

_NAME_FILE = ".csl_bin_name"
"""File in an artifact whose first line names the directory that the compiler wrote."""


class Compilation:
    """Compiles the programs of one job.

    Args:
        programs: Starts the compiler.
        files: Where sources lie.
        cache: What was compiled before.
        limits: How long and how much.
        keep: Stores a program with the job, by its hash.
    """

    def __init__(
        self,
        programs: Programs,
        files: JobFiles,
        cache: ProgramCache,
        limits: SdkLimits,
        keep: Callable[[str, bytes], None],
    ) -> None:
        self._programs, self._files, self._cache = programs, files, cache
        self._limits, self._keep = limits, keep
        self._lock = threading.Lock()
        self._uploads: dict[str, Upload] = {}
        self._compiled: dict[str, bytes] = {}

    def take_sources(self, upload: Upload) -> bool:
        """Take note of sources; returns whether they are compiled already."""
        found = self._cache.find(upload)
        with self._lock:
            self._uploads[upload.target] = upload
            if found is not None:
                self._compiled[upload.target] = found
        if found is not None:
            self._keep(upload.target, found)
        return found is not None

    def find(self, target: str) -> bytes | None:
        """Return a program that this job has compiled, or found compiled, by its hash."""
        with self._lock:
            return self._compiled.get(target)

    def compile(self, target: str, options: Sequence[str], watch: Watch) -> str:
        """Compile uploaded sources and return the compiler's output.

        Args:
            target: The hash by which they were uploaded.
            options: Command line of `cslc`.
            watch: Tells if the client has gone.

        Raises:
            SdkError: They are not there, or contain errors.
        """
        with self._lock:
            upload = self._uploads.get(target)
        if upload is None:
            raise file_error(f"No sources of {target!r} were uploaded in this job.")
        output = _output_of(options)
        text = self._run(target, options, watch)
        self._files.write_beside_sources(target, _NAME_FILE, f"{output}\n".encode())
        data = self._files.pack(target, (_NAME_FILE, output))
        self._cache.keep(upload, data)
        self._keep(target, data)
        with self._lock:
            self._compiled[target] = data
        return text

    def _run(self, target: str, options: Sequence[str], watch: Watch) -> str:
        output = Output(self._programs.log_path, self._limits.output_bytes)
        with output:
            process = self._programs.start_python(
                "-m",
                "appliance.sdk.cslc",
                *options,
                directory=self._files.sources(target),
                output=output.writer("out"),
            )
            output.read()
            with watch.ends(process):
                try:
                    code = process.wait(self._limits.compile_seconds)
                except subprocess.TimeoutExpired as error:
                    raise _failed(
                        f"The compile took longer than {self._limits.compile_seconds:g} seconds."
                    ) from error
                finally:
                    end(process)
        if code != 0:
            how = f"cslc was ended by signal {-code}." if code < 0 else ""
            raise _failed(output.text() + how or f"cslc ended with exit code {code}.")
        return output.text()


def _output_of(options: Sequence[str]) -> str:
    """Return the directory that the compiler is to write, if it lies beside the sources."""
    try:
        output = PurePosixPath(parse(options).output)
    except UserError as error:
        raise _failed(f"cslc: error: {error}\n") from error
    if output.is_absolute() or ".." in output.parts or not output.parts:
        raise _failed(f"cslc: error: Output directory {output} is not below the program's own.\n")
    return str(output)


def _failed(text: str) -> SdkError:
    return SdkError(text, StatusCode.SDK_RT_COMPILE_ERROR)
