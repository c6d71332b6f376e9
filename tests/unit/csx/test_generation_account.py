"""What a session reports of the tokens that it has generated."""

from appliance.core.cluster.readings import GENERATED_RATE, GENERATED_TOKENS, GENERATION_PASSES
from workers.csx.generation.account import GenerationAccount
from workers.csx.simulated import SimulatedTime

NO_TIME = SimulatedTime(None, None)


def test_passes_and_tokens_of_all_steps_are_counted():
    account = GenerationAccount()
    for generated in [(5, 12), None, (7, 30)]:
        account.add(generated)
    assert account.steps(3) == 12
    assert account.readings(NO_TIME, 2.0) == {
        GENERATED_TOKENS: 42.0,
        GENERATION_PASSES: 12.0,
        GENERATED_RATE: 21.0,
    }


def test_a_program_without_a_loop_counts_its_steps_and_reports_nothing():
    account = GenerationAccount()
    account.add(None)
    assert account.steps(3) == 3
    assert account.readings(NO_TIME, 2.0) == {}
