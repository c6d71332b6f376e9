from appliance.core.errors import UserError
from csctl.watching import Changes, looks, with_ends
from protos.csctl.resources_pb2 import Job
from tests.support.csctl import make_job


def test_new_and_changed_resources_are_named_and_others_are_not() -> None:
    changes = Changes()

    assert changes([make_job("a"), make_job("b")]) == ["a", "b"]
    assert changes([make_job("a"), make_job("b", phase="FAILED")]) == ["b"]
    assert changes([make_job("a"), make_job("b", phase="FAILED"), make_job("c")]) == ["c"]


def test_a_resource_that_comes_back_is_new() -> None:
    changes = Changes()
    changes([make_job("a")])
    changes([])

    assert changes([make_job("a")]) == ["a"]


def test_each_look_asks_again() -> None:
    answers = iter(["first", "second"])
    seen = looks(lambda: next(answers), interval_seconds=0)

    assert [next(seen), next(seen)] == ["first", "second"]


def test_what_leaves_a_list_is_shown_once_more_as_it_is_then() -> None:
    lists = iter([["a", "b", "c"], ["c"], ["c", "d"], []])
    changes = Changes()

    def find(name: str) -> Job:
        if name == "b":
            raise UserError("It is forgotten.")
        return make_job(name, phase="SUCCEEDED")

    look = with_ends(lambda: [make_job(name) for name in next(lists)], find)
    assert [changes(look()) for _ in range(4)] == [["a", "b", "c"], ["a"], ["d"], ["c", "d"]]


def test_what_leaves_a_list_unchanged_is_not_shown_again() -> None:
    lists = iter([["a"], []])
    changes = Changes()
    look = with_ends(lambda: [make_job(name) for name in next(lists)], make_job)
    assert [changes(look()) for _ in range(2)] == [["a"], []]
