"""How a user says how the wafer is to be used.

The client knows weight streaming alone and has no setting for it, so a job says it with the label
`wsc.execution`; without one the appliance's own choice holds.
"""

from collections.abc import Mapping
from typing import Final

from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution

LABEL_KEY: Final = "wsc.execution"
AUTO: Final = "auto"
"""Pipelined where the program fits on a wafer, else weight streaming."""


def parse_execution(text: str) -> Execution | None:
    """Return what a word means; None leaves it to the compiler.

    Raises:
        UserError: It means nothing.
    """
    if text == AUTO:
        return None
    try:
        return Execution(text)
    except ValueError:
        words = ", ".join(Execution)
        raise UserError(
            f"There is no execution {text!r}.", hint=f"Choose {AUTO}, or one of {words}."
        ) from None


def chosen_execution(labels: Mapping[str, str], default: Execution | None) -> Execution | None:
    """Return what a job's labels ask for; raises as `parse_execution` does."""
    text = labels.get(LABEL_KEY)
    return default if text is None else parse_execution(text)
