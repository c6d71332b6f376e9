"""What each target of the Makefile runs, what it leaves out, and how long it may take.

    python -m tests.tiers

prints what `make test` runs of the tests that start processes: every subsystem once, from end to
end. A test's folder decides for the rest: `make check` has tests/unit and tests/architecture,
`make test-all` everything.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

RECORDS = Path(__file__).with_name("times")
"""What runs took: `build/times` of a run of the whole target, copied."""


class Tier(StrEnum):
    """A target, by what it runs."""

    CHECK = "check"
    TEST = "test"
    ALL = "test-all"


LEFT_OUT: Mapping[Tier, str] = {
    Tier.CHECK: (
        "every test that starts processes: `make test` goes through each subsystem once, from "
        "end to end; `make test-all` runs all of them"
    ),
    Tier.TEST: (
        "all but one way through each subsystem (tests/tiers.py lists them), faults, benchmarks: "
        "`make test-all` runs them"
    ),
    Tier.ALL: (
        "containers (`make test-compose`), the Model Zoo (`make test-modelzoo`), a thousand "
        "faults (`make chaos`), a million malformed messages (`make fuzz`)"
    ),
}
"""Printed at the end of each."""

BUDGET_SECONDS: Mapping[Tier, float] = {Tier.CHECK: 180, Tier.TEST: 600, Tier.ALL: 2400}
"""What pytest takes on two cores; `make test` runs `make check` first. 1,800 s are aimed at."""
FILE_SECONDS: Mapping[Tier, float] = {Tier.CHECK: 60, Tier.TEST: 120, Tier.ALL: 420}
"""The same for one file, which one process of tests runs; 300 s of all are aimed at."""

ONCE: Mapping[str, tuple[str, ...]] = {
    "conformance/test_real_client_training.py::test_training_equals_the_cpu_backend[gpt_adamw-3]": (
        *("appliance/coordinator", "appliance/compiler", "appliance/numerics", "appliance/core"),
        *("appliance/scheduler", "appliance/streams", "appliance/pods", "appliance/wire"),
        *("workers/csx", "workers/memoryx", "workers/swarmx", "workers/input", "protos"),
    ),
    "conformance/test_real_client_training.py::"
    "test_training_equals_the_cpu_backend[sparse_gpt-1]": ("appliance/core", "workers/memoryx"),
    "conformance/test_real_client_state.py::"
    "test_three_and_three_steps_over_a_checkpoint_equal_six": ("workers/memoryx",),
    "conformance/test_real_client_failures.py::"
    "test_an_exception_of_the_dataloader_reaches_the_user": (
        *("appliance/user_code", "workers/input"),
    ),
    "conformance/test_real_client_failures.py::"
    "test_killing_a_pod_fails_the_job_with_its_name[chief]": ("appliance/cluster",),
    "conformance/test_real_client_network.py": ("appliance/streams",),
    "conformance/test_real_client_tokens.py": ("appliance/management", "appliance/cli"),
    "conformance/test_real_client_micro_batches.py::"
    "test_a_gpt_of_one_and_a_half_wafers_trains_in_micro_batches": ("appliance/compiler",),
    "conformance/test_real_client_generation.py::test_prompts_of_several_lengths": ("workers/csx",),
    "conformance/test_real_client_simulated_time.py::test_a_finished_job_shows_simulated_time": (
        "appliance/wafer",
    ),
    "conformance/test_real_client_pages.py::test_a_script_of_one_s_own_trains_as_the_readme_says": (
        "examples",
    ),
    "conformance/test_real_sdk_client.py::test_a_host_program_runs_as_it_does_on_a_laptop": (
        *("appliance/csl", "appliance/fabric", "appliance/sdk", "workers/sdk"),
    ),
    "conformance/test_real_sdk_client.py::test_the_client_drives_a_program_itself": (
        "workers/sdk",
    ),
    "conformance/csctl/test_running_appliance.py": ("csctl",),
    "integration/test_appliance.py": ("appliance/management", "appliance/cli"),
    "integration/test_csl_tools.py::test_the_example_of_the_documentation_runs": (
        *("appliance/csl", "appliance/sdk"),
    ),
    "integration/test_detached_runs.py::test_a_script_that_is_killed_is_started_again": (
        "workers/driver",
    ),
    "integration/test_engine.py::test_every_number_of_systems_gives_the_numbers_of_plain_torch": (
        "workers/csx",
    ),
    "integration/test_launcher.py": ("appliance/cluster",),
    "integration/test_nodes.py::"
    "test_a_job_runs_on_the_nodes_that_its_pods_belong_to_and_leaves_nothing": (
        "appliance/cluster",
    ),
    "integration/test_postgres.py::test_jobs_users_and_tokens_of_an_appliance_are_in_postgresql": (
        "appliance/storage",
    ),
    "integration/test_rest.py": ("appliance/api",),
    "integration/test_restarts.py": ("appliance/files", "appliance/storage"),
    "integration/test_traces.py": ("appliance/observability",),
    "e2e/test_queue_page.py": ("appliance/dashboard",),
    "helm/test_chart.py::test_helm_finds_no_fault": ("helm",),
    "kubernetes/test_launcher.py::test_a_gang_runs_and_goes_without_a_trace": (
        "appliance/cluster",
    ),
    "kubernetes/test_real_client.py": ("appliance/management", "deploy"),
}
"""What `make test` runs, below tests: files or single tests, and the subsystems they go through."""


def recorded_seconds(tier: Tier) -> Mapping[str, float]:
    """Return what each file took in the run that was recorded last."""
    path = RECORDS / f"{tier}.json"
    if not path.exists():
        return {}
    found: dict[str, float] = json.loads(path.read_text())["files"]
    return found


def main() -> None:
    """Print the tests of `make test` that start processes, for pytest's command line."""
    print(" ".join(f"tests/{name}" for name in ONCE))


if __name__ == "__main__":
    main()
