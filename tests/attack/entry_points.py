"""Every entry point of the appliance, and the tests that attack it, as docs/security.md shows it.

They come from the tables that docs/entry-points.md is made of. One that is in those tables and
that no test attacks fails the build.
"""

from collections.abc import Mapping

from appliance.api.app import rest_rules
from appliance.core.access_rules.methods import METHODS
from appliance.core.access_rules.open_paths import OPEN
from tests.support.entry_points.sockets import INNER_METHODS, SOCKETS
from tests.support.entry_points.written_files import FILES

_EVERY_METHOD = (
    "architecture/test_entry_points.py::test_nobody_who_is_blocked_or_a_stranger_changes_what_is_not_theirs",
    "integration/test_work_before_the_check.py::test_who_may_call_sends_no_more_than_the_method_takes",
    "integration/test_rest_contract.py::test_fuzzed_calls_leave_the_appliance_serving",
)
_EVERY_ROUTE = (
    "architecture/test_entry_points.py::test_nobody_who_is_blocked_or_a_stranger_changes_what_is_not_theirs",
    "integration/test_routes_of_others.py::test_nobody_else_gets_anything_of_a_job_that_is_not_for_all",
    "integration/test_rest_contract.py::test_no_request_makes_rest_fail",
)
_EVERY_FILE = (
    "integration/test_secrets_in_view.py::test_nothing_that_the_appliance_has_made_is_open_to_others",
    "integration/test_secrets_in_view.py::test_the_table_of_files_says_their_modes",
)
_BY_DIRECTORY = (
    "integration/test_secrets_in_view.py::test_nothing_that_the_appliance_has_made_is_open_to_others",
    "integration/test_secrets_in_view.py::test_nothing_is_started_where_a_stranger_has_made_the_directory_for_sockets",
)
_OF_SOCKETS: Mapping[str, tuple[str, ...]] = {
    "clients": (
        "integration/test_strangers.py::test_without_tokens_an_appliance_of_root_serves_root_alone",
        "integration/test_work_before_the_check.py::test_slow_senders_are_hung_up_on",
    ),
    "front": (
        "integration/test_sni_proxy.py::test_whoever_does_not_know_a_jobs_authority_is_refused_without_an_alert",
        "unit/test_fuzz.py::test_no_decoder_breaks",
    ),
    "rest": (
        "integration/test_work_before_the_check.py::test_slow_senders_are_hung_up_on",
        "unit/api/test_entry.py::test_a_body_is_not_read_before_its_sender_is_known",
    ),
    "coordinator": (
        "integration/test_strangers.py::test_a_coordinator_answers_nobody_who_does_not_know_its_authority",
        "integration/test_peers.py::test_a_job_is_reached_over_loopback_by_its_owner_and_by_us",
        "integration/test_work_before_the_check.py::test_a_jobs_client_does_not_fill_its_coordinators_memory",
    ),
    "SDK pod": (
        "unit/pods/test_client_check.py::test_a_stranger_is_refused_before_anything_of_his_message_is_read",
        "conformance/test_real_sdk_client_users.py::test_programs_of_a_job_have_its_users_rights_and_no_others",
        "unit/sdk/test_file_server.py::test_an_archive_that_leads_out_is_refused",
    ),
    "inner": (
        "integration/test_tunnels.py::test_a_pod_of_another_job_does_not_pass_the_inner_listener",
        "integration/test_tunnels.py::test_who_does_not_know_the_key_gets_nothing_through",
    ),
    "nodes": (
        "integration/test_nodes.py::test_a_node_without_a_token_does_not_join",
        "unit/management/test_join_tokens.py::test_what_is_no_token_is_refused",
    ),
    "pod streams": (
        "integration/test_network_streams.py::test_a_pod_without_the_jobs_key_is_turned_away",
        "integration/test_network_streams.py::test_an_encrypted_stream_refuses_whoever_lacks_the_identity",
    ),
    "streams": (
        *_BY_DIRECTORY,
        "integration/test_streams.py::test_asking_for_another_stream_is_refused_and_harms_nobody",
    ),
    "user programs": (
        "integration/test_user_processes.py::test_what_another_user_does_at_an_address_stops_nobody",
        "integration/test_user_rights.py::test_we_never_call_a_socket_that_a_program_has_only_linked_to",
    ),
    **dict.fromkeys(
        ("management", "agents", "fork server", "pod control", "bridge"), _BY_DIRECTORY
    ),
}
_OF_INNER_SERVICES: Mapping[str, tuple[str, ...]] = {
    "management": _OF_SOCKETS["inner"],
    "agents": _OF_SOCKETS["nodes"],
    "pod control": _BY_DIRECTORY,
}
_MORE_OF_ROUTES: Mapping[str, tuple[str, ...]] = {
    "/api/v1/login": (
        "unit/api/test_refused_requests.py::test_wrong_logins_are_soon_told_to_wait",
        "integration/test_provider_login.py::test_an_answer_counts_only_in_the_browser_that_asked",
        "integration/test_provider_login.py::test_nobody_is_sent_elsewhere_afterwards",
    ),
    "/api/v1/estimate": (
        "integration/test_work_before_the_check.py::test_an_estimate_wants_a_token_and_costs_management_nothing",
    ),
    "/api/v1/stream": (
        "integration/test_revoked_streams.py::test_a_revoked_token_ends_what_is_being_followed",
    ),
}


def entry_points() -> dict[str, tuple[str, ...]]:
    """Return the tests that attack each entry point; none where nobody does."""
    found: dict[str, tuple[str, ...]] = {}
    for name in METHODS:
        found[f"gRPC {name.split('/')[1]}"] = _EVERY_METHOD
    for name, socket in INNER_METHODS.items():
        found[f"gRPC {name.split('/')[1]}"] = _OF_INNER_SERVICES.get(socket, ())
    for path in (route.split(" ", 1)[1] for route in (*rest_rules(), *OPEN)):
        group = "/".join(path.split("/")[: 4 if path.startswith("/api/") else 2])
        found[f"REST {group or '/'}"] = (*_EVERY_ROUTE, *_MORE_OF_ROUTES.get(group, ()))
    for each in SOCKETS:
        found[f"socket {each.name}"] = _OF_SOCKETS.get(each.name, ())
    for file in FILES:
        found[f"file {file.place}"] = _EVERY_FILE
    return found


def table() -> str:
    """Return the entry points as a table: those that the same tests attack in one row."""
    by_tests: dict[tuple[str, ...], list[str]] = {}
    for name, tests in entry_points().items():
        by_tests.setdefault(tests, []).append(f"`{name}`")
    lines = ["| entry point | tests |", "|---|---|"]
    for tests, names in by_tests.items():
        lines.append(f"| {', '.join(names)} | {', '.join(f'`{test}`' for test in tests)} |")
    return "\n".join(lines) + "\n"
