import itertools
from dataclasses import replace

import pytest

from appliance.core.cluster.access import Action, Principal, Target, UserRole, refusal
from appliance.core.cluster.records import User

ADA = User(uid=1000, gid=100, name="ada")
BOB = User(uid=1001, gid=100, name="bob")
EVE = User(uid=1002, gid=200, name="eve")
JOB = Target(kind="job", name="wsjob-1", owner=ADA, session="team-a")


def may(user: User, action: Action, target: Target, **traits) -> bool:
    return refusal(Principal(user=user, **traits), action, target) is None


@pytest.mark.parametrize("action", [Action.EDIT_JOB, Action.END_JOB])
def test_a_job_is_for_its_owner_and_administrators(action: Action) -> None:
    assert may(ADA, action, JOB)
    assert not may(BOB, action, JOB)
    assert may(EVE, action, JOB, role=UserRole.SESSION_ADMIN, sessions=("team-a",))
    assert not may(EVE, action, JOB, role=UserRole.SESSION_ADMIN, sessions=("team-b",))
    assert may(EVE, action, JOB, role=UserRole.CLUSTER_ADMIN)


def test_a_jobs_client_is_its_owner_and_no_administrator_of_a_session() -> None:
    """Who reaches the coordinator runs code as the owner."""
    assert may(ADA, Action.ATTACH_JOB, JOB)
    assert not may(BOB, Action.ATTACH_JOB, JOB)
    admin = {"role": UserRole.SESSION_ADMIN, "sessions": ("team-a",)}
    assert not may(EVE, Action.ATTACH_JOB, JOB, **admin)
    assert may(EVE, Action.ATTACH_JOB, JOB, role=UserRole.CLUSTER_ADMIN)
    assert not may(User(), Action.ATTACH_JOB, replace(JOB, owner=User()))


@pytest.mark.parametrize("action", [Action.PRIORITISE_JOB, Action.READ_LOGS])
def test_the_owners_group_may_set_priorities_and_read_logs(action: Action) -> None:
    assert may(BOB, action, JOB)
    assert not may(EVE, action, JOB)


def test_a_hold_is_released_by_who_holds_and_by_administrators() -> None:
    own, admins = (replace(JOB, held_by=name) for name in ("ada", "root"))
    assert may(ADA, Action.RELEASE_JOB, own)
    assert not may(ADA, Action.RELEASE_JOB, admins)
    assert not may(BOB, Action.RELEASE_JOB, own)
    assert may(EVE, Action.RELEASE_JOB, admins, role=UserRole.SESSION_ADMIN, sessions=("team-a",))
    assert may(EVE, Action.RELEASE_JOB, admins, role=UserRole.CLUSTER_ADMIN)


def test_nameless_callers_own_nothing() -> None:
    nobody = User()
    assert not may(nobody, Action.END_JOB, Target(kind="job", name="wsjob-1", owner=nobody))
    assert not may(nobody, Action.PRIORITISE_JOB, Target(kind="job", owner=nobody))


def test_p0_is_for_cluster_administrators() -> None:
    for priority, is_fine in ((99, False), (100, True)):
        target = Target(kind="job", owner=ADA, priority=priority)
        assert may(ADA, Action.SUBMIT, target) is is_fine
        assert may(ADA, Action.PRIORITISE_JOB, target) is is_fine
        assert may(ADA, Action.SUBMIT, target, role=UserRole.CLUSTER_ADMIN)


def test_a_blocked_user_may_look_and_end_their_own() -> None:
    allowed = {action for action in Action if may(ADA, action, JOB, is_blocked=True)}
    assert allowed == {Action.READ, Action.END_JOB, Action.ATTACH_JOB}
    assert not may(BOB, Action.END_JOB, JOB, is_blocked=True)


def test_the_cluster_is_for_its_administrators() -> None:
    for action, role in itertools.product(
        (Action.MANAGE_SESSIONS, Action.MANAGE_SYSTEMS, Action.MANAGE_USERS, Action.READ_AUDIT),
        (UserRole.USER, UserRole.SESSION_ADMIN),
    ):
        target = Target(kind="session", name="team-a", session="team-a")
        assert not may(EVE, action, target, role=role, sessions=("team-a",)), action
        assert may(EVE, action, target, role=UserRole.CLUSTER_ADMIN), action


def test_a_session_is_paused_by_its_administrators() -> None:
    team = Target(kind="session", name="team-a", session="team-a")
    assert may(EVE, Action.PAUSE_SESSION, team, role=UserRole.SESSION_ADMIN, sessions=("team-a",))
    assert not may(EVE, Action.PAUSE_SESSION, team)


def test_a_refusal_names_who_what_and_for_whom() -> None:
    why = refusal(Principal(user=BOB), Action.END_JOB, JOB)
    assert why == (
        "User bob (uid 1001) may not end-job job wsjob-1: that is for its owner and administrators."
    )


def test_every_role_is_stored_as_it_reads() -> None:
    assert [role.value for role in UserRole] == ["user", "session-admin", "cluster-admin"]


@pytest.mark.parametrize("role", UserRole)
def test_a_workflow_is_for_jobs_of_who_opened_it_whoever_administers(role: UserRole) -> None:
    new = Target(kind="job", workflow="wflow-a", workflow_owner=ADA)
    traits = {"role": role, "sessions": ("team-a",)}
    assert may(ADA, Action.SUBMIT, new, **traits)
    why = refusal(Principal(user=BOB, **traits), Action.SUBMIT, new)
    assert why == "User bob (uid 1001) may not use workflow wflow-a: it is for who opened it."
    assert may(BOB, Action.SUBMIT, Target(kind="job"), **traits)
