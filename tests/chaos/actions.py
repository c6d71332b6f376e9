"""What is done to a target."""

from enum import StrEnum


class Action(StrEnum):
    """What is done."""

    STOP = "stopped"
    KILL = "killed"
    LIMIT = "memory limited"
    CUT = "cut"
    LOSE = "losing packets"
    SET = "set"
    MAKE = "made"
