"""What the runs of a Model Zoo case amount to."""

import dataclasses

from tests.modelzoo.__main__ import Table
from tests.modelzoo.cases import CASES, Case
from tests.modelzoo.verdicts import judge, runs_of


def done(*losses: float) -> dict:
    result = {"losses": {"train": [x.hex() for x in losses], "eval": []}, "step_seconds": 0.5}
    return {"status": "done", "result": result}


CASE = Case(name="a/b", model={}, fields={}, refused="no shape")


def test_equal_losses_pass_and_others_fail():
    assert judge(CASE, {"cpu": done(1.0, 2.0), "csx-1": done(1.0, 2.0001)}).word == "pass"
    assert judge(CASE, {"cpu": done(1.0, 2.0), "csx-1": done(1.0, 2.001)}).word == "fail"
    assert judge(CASE, {"cpu": done(1.0, 2.0), "csx-1": done(1.0)}).word == "fail"
    assert judge(CASE, {"cpu": done(1.0), "csx-1": done(float("nan"))}).word == "fail"


def test_only_the_expected_message_of_the_client_excuses_a_case():
    def failed(message: str) -> dict:
        return {"cpu": done(1.0), "csx-1": {"status": "failed", "message": message}}

    assert judge(CASE, failed("RuntimeError: no shape inference")).word == "untraced"
    assert judge(CASE, failed("RuntimeError: other")).word == "fail"


def test_a_case_that_was_not_run_is_missing():
    assert judge(CASE, {"cpu": done(1.0)}).word == "missing"


def test_rounded_numbers_have_the_tolerance_of_their_format_or_of_the_case():
    answers = {"cpu": done(1.0), "csx-1": done(1.0), "exact": done(1.02)}
    assert judge(CASE, answers).word == "fail"
    assert judge(dataclasses.replace(CASE, exact_tolerance=3e-2), answers).word == "pass"


def test_tokens_are_not_chosen_of_rounded_numbers():
    case = dataclasses.replace(CASE, generate={"tokens": 4})
    assert runs_of(case) == ("cpu", "csx-1", "csx-2")
    assert judge(case, {"cpu": done(1.0), "csx-1": done(1.0), "exact": done(2.0)}).exact is None


def test_the_table_has_its_cases():
    assert len(CASES) >= 110


def test_answers_to_a_case_that_has_changed_do_not_count(tmp_path):
    table = Table(tmp_path / "results.json")
    table.put(CASE, "cpu", {"status": "done"})
    assert table.has(CASE, "cpu")
    changed = dataclasses.replace(CASE, train_steps=CASE.train_steps + 1)
    again = Table(tmp_path / "results.json")
    assert again.has(CASE, "cpu")
    assert not again.has(changed, "cpu")
    assert again.of(changed) == {}
