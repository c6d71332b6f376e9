import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import UserError
from csctl.labels import parse_changes, parse_labels, parse_selection

_PART = st.from_regex(r"\A([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]\Z")


def test_labels_of_one_text_and_of_several_are_joined() -> None:
    assert parse_labels(["a=1,b=2", "c=3"]) == {"a": "1", "b": "2", "c": "3"}


@given(st.dictionaries(_PART, _PART, min_size=1))
def test_every_valid_label_is_read_back(labels: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in labels.items())

    assert parse_labels([text]) == labels
    assert parse_changes(text.split(",")) == labels


def test_a_trailing_dash_removes_a_label() -> None:
    assert parse_changes(["model=gpt", "old-"]) == {"model": "gpt", "old": None}


@pytest.mark.parametrize(
    "text", ["a", "a=b=c", "=b", "=", "-a=b", "a=b-", "a b=c", "a=" + "x" * 64, "", "-", "a=b\n"]
)
def test_what_is_not_a_label_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_changes([text])

    assert f"'{text}'" in caught.value.message
    assert caught.value.hint


def test_a_value_may_be_empty() -> None:
    assert parse_changes(["a="]) == {"a": ""}
    assert parse_labels(["a=,b=1"]) == {"a": "", "b": "1"}


def test_one_label_cannot_be_changed_twice() -> None:
    with pytest.raises(UserError, match="'a' is changed twice"):
        parse_changes(["a=1", "a-"])


def test_two_values_of_one_key_are_refused() -> None:
    with pytest.raises(UserError, match="'a' is given as '1' and as '2'"):
        parse_labels(["a=1", "a=2"])


def test_equal_labels_travel_as_every_release_of_the_appliance_reads_them() -> None:
    selection = parse_selection(["a=1,b in (2)", "c!=3,d in (4, 5),!e,f"])
    assert selection.label_filters == {"a": "1", "b": "2"}
    assert selection.selectors == ["c!=3", "d in (4,5)", "!e", "f"]
