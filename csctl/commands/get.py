"""`csctl get`: resources as tables and documents."""

from csctl.command_line.command_tree import Branch, new_tree

group = new_tree(
    "Get resources.",
    {
        "cluster": Branch(
            module="cluster.nodes",
            attribute="get_cluster",
            example="csctl get cluster --system-only",
        ),
        "job": Branch(
            module="jobs.get_job", attribute="get_job", example="csctl get job wsjob-0001 -o yaml"
        ),
        "jobs": Branch(
            module="jobs.jobs",
            attribute="list_jobs",
            example="csctl get jobs -a -l model=gpt -o wide",
        ),
        "nodegroups": Branch(
            module="cluster.nodes",
            attribute="list_node_groups",
            aliases=("nodegroup",),
            example="csctl get nodegroups -o wide",
        ),
        "nodes": Branch(
            module="cluster.nodes",
            attribute="list_nodes",
            aliases=("node",),
            example="csctl get nodes --role memory",
        ),
        "queue": Branch(
            module="jobs.queue", attribute="list_queue", example="csctl get queue -A -o wide"
        ),
        "run": Branch(
            module="runs.get_run", attribute="get_run", example="csctl get run gpt -o yaml"
        ),
        "runs": Branch(
            module="runs.get_run", attribute="list_runs", example="csctl get runs -a -l array=..."
        ),
        "systems": Branch(
            module="cluster.nodes",
            attribute="list_systems",
            aliases=("system",),
            example="csctl get systems -o json",
        ),
        "version": Branch(
            module="versions",
            attribute="get_version",
            aliases=("versions",),
            example="csctl get version",
        ),
        "volumes": Branch(
            module="cluster.volumes",
            attribute="list_volumes",
            aliases=("volume",),
            example="csctl get volumes",
        ),
        "worker-cache": Branch(
            module="cluster.worker_cache",
            attribute="list_worker_caches",
            aliases=("worker-caches",),
            example="csctl get worker-cache",
        ),
    },
)
