"""The table: small configurations of our own, by name."""

from tests.modelzoo.cases.case import Case
from tests.modelzoo.cases.conversions import CONVERSIONS
from tests.modelzoo.cases.data import DATA
from tests.modelzoo.cases.encoders import ENCODERS
from tests.modelzoo.cases.generation import GENERATION
from tests.modelzoo.cases.language import LANGUAGE
from tests.modelzoo.cases.sparsity import SPARSITY
from tests.modelzoo.cases.training import TRAINING
from tests.modelzoo.cases.vision import VISION

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *LANGUAGE,
        *ENCODERS,
        *VISION,
        *TRAINING,
        *SPARSITY,
        *CONVERSIONS,
        *DATA,
        *GENERATION,
    )
}

__all__ = ["CASES", "Case"]
