import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.drivers import (
    DriverSpec,
    FailureCategory,
    Losses,
    RestartPolicy,
    decide,
)
from appliance.core.errors import UserError

POD, NODE = FailureCategory.POD, FailureCategory.NODE
LOST_POD = Losses(pods=["wsjob-x-chief-0 exited with code 137 (killed by signal 9)"])


def wanted(
    policy: RestartPolicy, losses: Losses, exit_code: int = 1, num_restarts: int = 0
) -> bool:
    return decide(policy, losses, exit_code=exit_code, num_restarts=num_restarts).is_wanted


@pytest.mark.parametrize(
    ("losses", "exit_code", "category"),
    [
        (LOST_POD, 1, POD),
        (Losses(pods=["a pod"], nodes=["a node"]), 1, NODE),
        (Losses(), 137, POD),
    ],
)
def test_a_script_is_started_again_for_the_category_that_was_asked_for(
    losses: Losses, exit_code: int, category: FailureCategory
) -> None:
    other = NODE if category is POD else POD

    assert wanted(RestartPolicy(on=(category,), limit=1), losses, exit_code)
    assert not wanted(RestartPolicy(on=(other,), limit=1), losses, exit_code)


def test_a_script_that_fails_by_itself_is_not_started_again() -> None:
    restart = decide(RestartPolicy(on=(POD, NODE), limit=9), Losses(), exit_code=1, num_restarts=0)

    assert not restart.is_wanted
    assert "category user" in restart.reason


def test_a_script_that_succeeds_is_not_started_again_whatever_was_lost() -> None:
    assert not wanted(RestartPolicy(on=(POD, NODE), limit=9), LOST_POD, exit_code=0)


@given(st.integers(0, 5), st.integers(0, 10))
def test_a_script_is_started_again_as_often_as_the_limit_says(limit: int, so_far: int) -> None:
    policy = RestartPolicy(on=(POD,), limit=limit)

    assert wanted(policy, LOST_POD, num_restarts=so_far) == (so_far < limit)


def test_nobody_can_ask_for_restarts_after_their_own_errors() -> None:
    with pytest.raises(UserError, match="own error"):
        RestartPolicy(on=(FailureCategory.USER,), limit=1)


@pytest.mark.parametrize("limit", [-1, 101])
def test_a_limit_that_makes_no_sense_is_refused(limit: int) -> None:
    with pytest.raises(UserError, match=f"limit of {limit}"):
        RestartPolicy(on=(POD,), limit=limit)


@given(
    st.lists(st.text(min_size=1).filter(lambda text: "\0" not in text), min_size=1),
    st.dictionaries(
        st.text(min_size=1).filter(lambda text: not set("\0=") & set(text)),
        st.text().filter(lambda text: "\0" not in text),
    ),
)
def test_a_spec_survives_its_file(argv: list[str], environment: dict[str, str]) -> None:
    spec = DriverSpec(
        argv=tuple(argv),
        work_dir="/work",
        environment=environment,
        num_systems=2,
        restart=RestartPolicy(on=(POD, NODE), limit=3),
    )

    assert DriverSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("argv", "work_dir"), [((), "/w"), (("",), "/w"), (("a",), "w"), (("a\0",), "/w")]
)
def test_what_cannot_be_run_is_refused(argv: tuple[str, ...], work_dir: str) -> None:
    with pytest.raises(UserError):
        DriverSpec(argv=argv, work_dir=work_dir)


@pytest.mark.parametrize("name", ["", "A=B", "=", "A\0B"])
def test_a_variable_whose_name_no_program_could_get_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"cannot be the name of a variable|zero byte"):
        DriverSpec(argv=("true",), work_dir="/", environment={name: "1"})
