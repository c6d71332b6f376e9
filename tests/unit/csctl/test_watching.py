from csctl.watching import Changes, looks
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
