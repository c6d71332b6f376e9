import pytest

from appliance.core.errors import UserError
from csctl.commands.jobs.submit import parse_restart_policy


def test_a_restart_policy_names_categories_and_a_limit() -> None:
    policy = parse_restart_policy("limit=3,on=pod+node")

    assert (list(policy.on), policy.limit) == (["pod", "node"], 3)


def test_no_policy_is_no_restart() -> None:
    assert parse_restart_policy("").limit == 0


@pytest.mark.parametrize("text", ["on=pod", "limit=3", "on=,limit=3", "on=pod,limit=x", "pod"])
def test_a_policy_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not understood"):
        parse_restart_policy(text)
