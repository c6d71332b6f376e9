"""The root of the tree of commands; `csctl.tree` says how the branches are found."""

from typing import Annotated

import click

from csctl.flags import (
    SETTINGS,
    CsConfigFlag,
    DebugFlag,
    NamespaceFlag,
    show_help_alone,
    take_flags,
)
from csctl.params import option, parameters_of
from csctl.tree import Branch, Tree
from csctl.version import csctl_version

BRANCHES = {
    "attach": Branch(module="attach", attribute="attach_job", example="csctl attach wsjob-0001"),
    "cancel": Branch(module="cancel"),
    "check-volumes": Branch(
        module="check_volumes", attribute="check_volumes", example="csctl check-volumes"
    ),
    "clear-worker-cache": Branch(
        module="worker_cache",
        attribute="clear_worker_cache",
        example="csctl clear-worker-cache",
    ),
    "cluster": Branch(module="cluster"),
    "completion": Branch(
        module="completion",
        attribute="print_completion",
        example='eval "$(csctl completion bash)", say in ~/.bashrc',
    ),
    "config": Branch(module="config"),
    "debug-artifact": Branch(module="log_export"),
    "estimate": Branch(
        module="estimate",
        attribute="estimate_model",
        example="csctl estimate --layers 32 --hidden 4096 --systems 1,4,16",
    ),
    "explain": Branch(module="queue"),
    "get": Branch(module="get"),
    "job": Branch(module="job"),
    "label": Branch(module="label"),
    "log-export": Branch(
        module="log_export",
        attribute="export_logs",
        example="csctl log-export wsjob-0001 --num-lines 1000 --path logs",
    ),
    "logs": Branch(
        module="logs",
        attribute="show_logs",
        example="csctl logs wsjob-0001 --pod chief-0 --tail 20 -f",
    ),
    "plan": Branch(
        module="queue", attribute="plan_job", example="csctl plan --systems 4 --time-limit 3600"
    ),
    "profile": Branch(module="profile"),
    "session": Branch(module="session"),
    "submit": Branch(
        module="submit",
        attribute="submit_run",
        example="csctl submit --name gpt --restart-policy on=pod,limit=3 -- python train.py",
    ),
    "system-maintenance": Branch(module="maintenance"),
    "types": Branch(module="types", attribute="list_types", example="csctl types"),
    "user": Branch(module="user"),
}
"""Every command by name."""

_EPILOG = (
    "Exit codes: 0 done; 1 the job that was followed has not succeeded; 2 the request is at fault; "
    "3 the cluster is, and a retry may help; 4 a defect of csctl or of the cluster; 130 "
    "interrupted. Colours appear on terminals only, and NO_COLOR switches them off."
)


def _root(
    csconfig: CsConfigFlag = None,
    namespace: NamespaceFlag = None,
    debug: DebugFlag = 0,
    version: Annotated[bool, option("--version", help="Show the version.")] = False,
) -> None:
    """Wafer-scale cluster command line tool."""
    ctx = click.get_current_context()
    take_flags(ctx, csconfig=csconfig, namespace=namespace, debug=debug)
    if version:
        click.echo(f"csctl version {csctl_version()}")
        ctx.exit()
    show_help_alone(ctx)


app = Tree(
    BRANCHES,
    name="csctl",
    params=parameters_of(_root),
    callback=_root,
    help=_root.__doc__,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings=SETTINGS,
)
