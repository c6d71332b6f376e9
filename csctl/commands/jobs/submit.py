"""`csctl submit`: a detached run, which continues without the terminal."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from appliance.core.cluster.drivers import MAX_RESTARTS
from appliance.core.dependencies import parse_conditions
from appliance.core.errors import UserError
from appliance.core.ids import ARRAY_PREFIX, JOB_PREFIX
from appliance.core.integers import find_integer
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.commands.jobs.attach import follow
from csctl.commands.runs.named_runs import load_run
from csctl.connection.client import ClusterClient
from csctl.git_state import git_state
from csctl.labels import parse_labels
from csctl.names import JobName, parse_job_name
from csctl.priorities import parse_priority
from csctl.time_limits import parse_time_limit
from protos.wsc.v1.drivers_pb2 import RestartPolicy, SubmitDriverRequest
from protos.wsc.v1.drivers_pb2_grpc import DriversStub

_CARRIED = (
    "CEREBRAS_WAFER_SCALE_CLUSTER_DEFAULTS",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CSTORCH_DEBUG",
    "HF_HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PATH",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "TMPDIR",
    "TORCH_HOME",
    "TZ",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
)
"""Variables that a run gets from the terminal; no others, so that no secret travels by accident."""

SystemsOption: TypeAlias = Annotated[
    int | None,
    option(
        "--systems",
        min=1,
        metavar="N",
        help="Systems that the script will ask for: refused at once if the cluster has fewer; "
        "the script sees WSC_NUM_SYSTEMS.",
    ),
]
TimeLimitOption: TypeAlias = Annotated[
    str,
    option(
        "--time-limit",
        metavar="TIME",
        help="Each job of the script ends so long after its start: 90m, 1h30m, or seconds.",
    ),
]
RestartOption: TypeAlias = Annotated[
    str,
    option(
        "--restart-policy",
        metavar="on=CATEGORY,limit=N",
        help="Start the script again when it fails because a `pod` or a `node` was lost "
        "(`pod+node` for both), at most N times. It must load its own last checkpoint; "
        "WSC_RESTART_COUNT tells it that it may.",
    ),
]
VariablesOption: TypeAlias = Annotated[
    list[str] | None,
    option(
        "-e",
        "--env",
        metavar="NAME[=VALUE]",
        help="A variable for the script; may be repeated.",
    ),
]
AfterOption: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--after",
        "--dependency",
        metavar="[HOW:]NAME",
        help="Start only when this run or job, or every run of this array, has succeeded; with "
        "`afterany:` when it has ended, with `afternotok:` when it has failed. Canceled if that "
        "cannot come any more. May be repeated.",
    ),
]
ArrayOption: TypeAlias = Annotated[
    str,
    option(
        "--array",
        metavar="INDICES[%N]",
        help="One run for each index, as in 1-8, 0-30:10 or 1,3,5, at most N at once; each sees "
        "its own in WSC_ARRAY_INDEX, and all have the label `array`.",
    ),
]

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_MAX_INDICES = 1000


def submit_run(
    invocation: Invocation,
    program: Annotated[
        list[str],
        argument(
            "PROGRAM [ARGS]...",
            help="What to run, after `--`; as in `-- python train.py`.",
            is_free=True,
        ),
    ],
    *,
    name: Annotated[
        str, option("--name", metavar="NAME", help="Name of the run; becomes the label `name`.")
    ] = "",
    systems: SystemsOption = None,
    priority: Annotated[
        str, option("--priority", metavar="P", help="p1, p2 or p3, or a value from 0 to 399.")
    ] = "",
    labels: Annotated[
        list[str] | None, option("-l", "--labels", metavar="K=V,...", help="Labels of the run.")
    ] = None,
    time_limit: TimeLimitOption = "",
    restart_policy: RestartOption = "",
    variables: VariablesOption = None,
    after: AfterOption = None,
    array: ArrayOption = "",
    attach: Annotated[bool, option("--attach", help="Follow the output; Ctrl-C detaches.")] = False,
) -> None:
    """Run a script on the cluster's side, so that it outlives this terminal.

    The script runs as you, in this directory, with your PATH and Python environment, in a job of
    type `driver`. Its own jobs belong to the same workflow; cancelling the driver cancels them.
    """
    if array and attach:
        raise UserError("--attach follows one run; --array submits several.")
    indices, limit = parse_array(array) if array else ([], 0)
    request = SubmitDriverRequest(
        argv=program,
        work_dir=working_directory(),
        environment=_environment(invocation, variables or (), program),
        priority=parse_priority(priority) if priority else "",
        labels=_labels(name, labels or ()),
        num_systems=systems or 0,
        restart=parse_restart_policy(restart_policy),
        time_limit_seconds=parse_time_limit(time_limit) if time_limit else 0,
        array=indices,
        array_limit=limit,
    )
    if (git := git_state(Path.cwd())) is not None:
        request.git_commit = git.commit
        if git.is_dirty is not None:
            request.is_dirty = git.is_dirty
    with invocation.connect() as client:
        request.session = client.namespace
        request.after.extend(
            each._replace(name=_followed(invocation, client, parse_job_name(each.name))).text
            for each in parse_conditions(after or ())
        )
        reply = client.call(DriversStub(client.channel).SubmitDriver, request)
        for index, job in zip(request.array, reply.jobs, strict=False):
            invocation.write(f"job/{job} was submitted, index {index} of {reply.array}")
        if reply.array:
            invocation.note(
                f"`csctl get jobs -l array={reply.array}` lists them, "
                f"`csctl cancel job {reply.array}` cancels them."
            )
            return
        invocation.write(f"job/{reply.job} was submitted, workflow {reply.workflow}")
        if attach:
            follow(invocation, client, reply.job)


def _followed(invocation: Invocation, client: ClusterClient, wanted: JobName) -> str:
    """Return the job or array that `--after` means: of a run it is the one that tells its end."""
    if wanted.name.startswith((JOB_PREFIX, ARRAY_PREFIX)):
        return wanted.text
    run = load_run(invocation, client, wanted)
    if run.kind == "attached":
        raise UserError(
            f"Run {run.run_id} is of a script in a terminal, and its end is not known.",
            hint="Name one of its jobs.",
        )
    return run.log_job


def parse_restart_policy(text: str) -> RestartPolicy:
    """Return the policy that `on=pod+node,limit=3` is; never, for an empty text.

    Raises:
        UserError: It is not understood.
    """
    if not text:
        return RestartPolicy()
    parts = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    limit = parts.get("limit", "")
    most = find_integer(limit, MAX_RESTARTS)
    if set(parts) != {"on", "limit"} or not parts["on"] or most is None:
        raise UserError(
            f"Restart policy '{text}' is not understood.", hint="Write, say, on=pod,limit=3."
        )
    return RestartPolicy(on=parts["on"].split("+"), limit=most)


def parse_array(text: str) -> tuple[list[int], int]:
    """Return the indices that `0-15%4` is, and how many of them may run at once; 0 for all.

    Raises:
        UserError: It is not understood; see `parse_indices`.
    """
    indices, has_limit, limit = text.partition("%")
    if not has_limit:
        return parse_indices(text), 0
    most = find_integer(limit, _MAX_INDICES)
    if not most:
        raise UserError(
            f"Array '{text}' is not understood at '%{limit}'.",
            hint=f"Write, say, 1-8%2 for two at once; the number is from 1 to {_MAX_INDICES}.",
        )
    return parse_indices(indices), most


def parse_indices(text: str) -> list[int]:
    """Return the indices that `1-8`, `0-30:10` or `1,3,5` is, in the order given.

    Raises:
        UserError: It is not understood, names an index twice, or names too many.
    """
    indices: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise UserError(
                f"Array '{text}' is not understood at '{part}'.",
                hint="Write, say, 1-8, 0-30:10 or 1,3,5.",
            )
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or not step:
            raise UserError(f"Array '{text}': '{part}' has no index.", hint="Write, say, 1-8.")
        span = range(first, last + 1, step)
        if len(indices) + len(span) > _MAX_INDICES:
            raise UserError(f"Array '{text}' has more than {_MAX_INDICES} indices.")
        indices += span
    if len(set(indices)) < len(indices):
        raise UserError(f"Array '{text}' names an index twice.")
    return indices


def _labels(name: str, labels: Sequence[str]) -> dict[str, str]:
    named = {"name": name} if name else {}
    return {**parse_labels(labels), **named}


def search_path(program: str, path: str, work_dir: str) -> str:
    """Return PATH for a program: a Python that is called by its path brings its directory.

    The client starts other programs of its environment by their names, which lie beside it.
    """
    folder, has_folder, name = program.rpartition("/")
    if not has_folder or not name.startswith("python"):
        return path
    own = os.path.normpath(os.path.join(work_dir, folder or "/"))
    rest = [each for each in path.split(os.pathsep) if each and each != own]
    return os.pathsep.join([own, *rest])


def working_directory() -> str:
    """Return the directory that csctl was called in."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise UserError(
            "The directory that you are in has been removed.", hint="Go to one that is there."
        ) from error


def _environment(
    invocation: Invocation, wanted: Sequence[str], program: Sequence[str]
) -> Mapping[str, str]:
    """Return the run's environment: what is carried, what was asked for, the way to the cluster."""
    ours = invocation.environ
    kept = {
        name: value for name, value in ours.items() if name in _CARRIED or name.startswith("LC_")
    }
    if path := search_path(program[0], kept.get("PATH", ""), working_directory()):
        kept["PATH"] = path
    for each in wanted:
        name, has_value, value = each.partition("=")
        if not name or (not has_value and name not in ours):
            raise UserError(f"Variable '{each}' is not set.", hint=f"Write {name or 'NAME'}=VALUE.")
        kept[name] = value if has_value else ours[name]
    return {**kept, "CSCONFIG_PATH": str(invocation.config_path.absolute())}
