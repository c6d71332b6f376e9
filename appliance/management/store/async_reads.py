"""Queries from the event loop: answered immediately from memory, else in a thread."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from appliance.storage.engine.database import Database, WouldWaitError

_Answer = TypeVar("_Answer")

# `Any`: whatever arguments the question takes.
InThread = Callable[..., Coroutine[Any, Any, _Answer]]


async def ask(
    database: Database,
    question: Callable[..., _Answer],
    *arguments: object,
    in_thread: InThread[_Answer] = asyncio.to_thread,
) -> _Answer:
    """Ask a question at once if it needs not wait for the database, else in a thread.

    Args:
        database: What the question may wait for.
        question: A function that changes nothing before it waits, since it may be called twice.
        arguments: Its arguments.
        in_thread: Runs it in a thread.
    """
    try:
        with database.without_waiting():
            return question(*arguments)
    except WouldWaitError:
        return await in_thread(question, *arguments)
