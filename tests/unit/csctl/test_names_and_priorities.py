import pytest

from appliance.core.errors import UserError
from csctl.names import parse_job_name
from csctl.priorities import parse_priority


def test_a_name_may_carry_its_session() -> None:
    assert parse_job_name("wsjob-a") == (None, "wsjob-a")
    assert parse_job_name("team/wsjob-a") == ("team", "wsjob-a")


@pytest.mark.parametrize(
    "text", ["", "/wsjob-a", "team/", "a/b/c", "../wsjob-a", "./wsjob-a", "a b", "*/wsjob-a", "-x"]
)
def test_what_is_not_a_name_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not a job's name"):
        parse_job_name(text)


@pytest.mark.parametrize(
    ("text", "want"), [("p1", "p1"), ("P3", "p3"), ("0", "0"), ("399", "399"), ("007", "7")]
)
def test_a_priority_is_a_bucket_or_a_value(text: str, want: str) -> None:
    assert parse_priority(text) == want


@pytest.mark.parametrize("text", ["p4", "400", "-1", "", "high", "1.5", "\u0664"])
def test_any_other_priority_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match="neither p1, p2 or p3 nor a value from 0 to 399"):
        parse_priority(text)
