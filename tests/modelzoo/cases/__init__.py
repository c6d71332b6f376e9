"""The table: small configurations of our own, by name."""

from tests.modelzoo.cases.case import Case
from tests.modelzoo.cases.encoders import ENCODERS
from tests.modelzoo.cases.language import LANGUAGE
from tests.modelzoo.cases.training import TRAINING

CASES: dict[str, Case] = {case.name: case for case in (*LANGUAGE, *ENCODERS, *TRAINING)}

__all__ = ["CASES", "Case"]
