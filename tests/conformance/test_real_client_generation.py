"""The unmodified client generates tokens: the same ones as the same model on its CPU backend."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.appliance import Appliance
from tests.support.client import start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

LONG = ("--positions", "72", "--prompt", "8")
"""64 tokens for the shortest prompt."""
SHORT = ("--positions", "40", "--prompt", "8")
"""32 of them."""


def on_both(appliance: Appliance, tmp_path: Path, *arguments: str, systems: int) -> list[Any]:
    """Return the tokens of every batch, once cluster and CPU backend agree."""
    start = partial(start_client, program="generation.py")
    cluster = ("--num-csx", str(systems))
    run = start(tmp_path / "csx", *arguments, *cluster, address=appliance.address)
    tokens: list[Any] = start(tmp_path / "cpu", *arguments).result()["tokens"]
    assert run.result()["tokens"] == tokens
    return tokens


def test_64_greedy_tokens_of_a_gpt_and_its_job_says_how_many(
    appliance: Appliance, tmp_path: Path
) -> None:
    tokens = on_both(appliance, tmp_path, "--model", "gpt2", *LONG, "--batches", "1", systems=1)
    assert all(0 not in sample for sample in tokens[0]), "every position has a token"
    name = next(
        job["meta"]["name"]  # type: ignore[index]
        for job in appliance.jobs()
        if job["spec"]["type"] == "execute"  # type: ignore[index]
    )
    found = json.loads(appliance.csctl("get", "job", str(name), "-o", "json"))["meta"]["properties"]
    assert float(found["generated_tokens"]) == 4 * 64
    assert float(found["generation_passes"]) == 64
    assert float(found["generated_tokens_per_second"]) > 0
    step = float(found["simulated_step_seconds"])
    assert float(found["simulated_seconds"]) == pytest.approx(64 * step, rel=1e-4)


@pytest.mark.parametrize(("model", "systems"), [("llama", 1), ("llama", 2), ("gpt2", 2)])
def test_prompts_of_several_lengths(
    model: str, systems: int, appliance: Appliance, tmp_path: Path
) -> None:
    arguments = ("--model", model, *LONG, "--mixed", "--batches", "2")
    tokens = on_both(appliance, tmp_path, *arguments, systems=systems)
    assert len(tokens) == 2
    assert tokens[0] != tokens[1]


def test_sampled_tokens_with_stop_sequences_and_a_limit(
    appliance: Appliance, tmp_path: Path
) -> None:
    sampling = ("--temperature", "0.5", "--top-k", "8", "--top-p", "0.75")
    arguments = ("--model", "gpt2", *SHORT, *sampling, "--batches", "1")
    free = on_both(appliance, tmp_path / "free", *arguments, systems=1)[0][0]
    stop = ("--stop", str(free[20]), str(free[30]), str(free[31]), "--max-tokens", "24")
    ended = on_both(appliance, tmp_path / "ended", *arguments, *stop, systems=1)[0][0]
    end = ended.index(0)
    assert ended[:end] == free[:end]
    assert end <= 21
