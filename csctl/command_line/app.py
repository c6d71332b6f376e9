"""The root of the tree of commands; `csctl.command_line.command_tree` finds the branches."""

from typing import Annotated

import click

from csctl.command_line.command_tree import Branch, Tree
from csctl.command_line.flags import (
    SETTINGS,
    CsConfigFlag,
    DebugFlag,
    NamespaceFlag,
    show_help_alone,
    take_flags,
)
from csctl.command_line.params import option, parameters_of
from csctl.command_line.version import csctl_version

BRANCHES = {
    "attach": Branch(
        module="jobs.attach", attribute="attach_job", example="csctl attach wsjob-0001"
    ),
    "cancel": Branch(module="jobs.cancel"),
    "check-volumes": Branch(
        module="cluster.check_volumes", attribute="check_volumes", example="csctl check-volumes"
    ),
    "clear-worker-cache": Branch(
        module="cluster.worker_cache",
        attribute="clear_worker_cache",
        example="csctl clear-worker-cache",
    ),
    "cluster": Branch(module="cluster.cluster"),
    "completion": Branch(
        module="completion",
        attribute="print_completion",
        example='eval "$(csctl completion bash)", say in ~/.bashrc',
    ),
    "config": Branch(module="config"),
    "debug-artifact": Branch(module="jobs.log_export"),
    "estimate": Branch(
        module="jobs.estimate",
        attribute="estimate_model",
        example="csctl estimate --layers 32 --hidden 4096 --systems 1,4,16",
    ),
    "explain": Branch(module="jobs.queue"),
    "get": Branch(module="get"),
    "hold": Branch(module="runs.holds", attribute="hold_run", example="csctl hold gpt"),
    "job": Branch(module="jobs.job"),
    "label": Branch(module="jobs.label"),
    "log-export": Branch(
        module="jobs.log_export",
        attribute="export_logs",
        example="csctl log-export wsjob-0001 --num-lines 1000 --path logs",
    ),
    "logs": Branch(
        module="jobs.logs",
        attribute="show_logs",
        example="csctl logs wsjob-0001 --pod chief-0 --tail 20 -f",
    ),
    "plan": Branch(
        module="jobs.queue",
        attribute="plan_job",
        example="csctl plan --systems 4 --time-limit 3600",
    ),
    "profile": Branch(module="jobs.profile"),
    "report": Branch(
        module="jobs.report",
        attribute="report_use",
        example="csctl report --by user --by month --since 2026-01-01 -o csv",
    ),
    "requeue": Branch(module="runs.holds", attribute="requeue_run", example="csctl requeue gpt"),
    "resume": Branch(module="runs.holds", attribute="resume_run", example="csctl resume gpt"),
    "session": Branch(module="cluster.session"),
    "submit": Branch(
        module="jobs.submit",
        attribute="submit_run",
        example="csctl submit --name gpt --restart-policy on=pod,limit=3 -- python train.py",
    ),
    "system-maintenance": Branch(module="cluster.maintenance"),
    "types": Branch(module="types", attribute="list_types", example="csctl types"),
    "user": Branch(module="cluster.user"),
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
    version: Annotated[bool, option("-v", "--version", help="Show the version.")] = False,
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
