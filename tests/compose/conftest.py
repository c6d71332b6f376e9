"""The project of docker-compose.yml, up for the tests of this directory."""

import contextlib
import secrets
from collections.abc import Iterator

import pytest

from tests.support.containers import (
    Compose,
    Engine,
    NoEngineError,
    choose_images,
    composed,
    reason_to_skip,
    running_engine,
)
from tests.support.ports import free_port

NUM_SYSTEMS = 2


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        try:
            engine = stack.enter_context(running_engine())
        except NoEngineError as error:
            pytest.skip(str(error))
        yield engine


@pytest.fixture(scope="session")
def port() -> int:
    return free_port()


@pytest.fixture(scope="session")
def project(engine: Engine, port: int) -> Iterator[Compose]:
    # By rule, as the losses are compared with those of an appliance that measures for itself.
    settings = {"WSC_PORT": str(port), "WSC_KERNELS": "rule"}
    variables = choose_images(engine).variables | settings
    name = f"wsc-test-{secrets.token_hex(4)}"
    with composed(engine, name, variables, csx=NUM_SYSTEMS) as compose:
        yield compose
