"""The Model Zoo's own data processors, on files that its preprocess_data has written."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import Case
from tests.modelzoo.cases.language import GPT
from tests.modelzoo.corpus import LENGTH

VOCABULARY = 50257
MODEL = {
    "name": "gpt2",
    **GPT,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LENGTH,
}
MAP = {"data_processor": "GptHDF5MapDataProcessor", "batch_size": 4, "shuffle": False}
ITERABLE = {"data_processor": "GptHDF5DataProcessor", "batch_size": 4, "shuffle": False}
FIRST, SECOND, SPANS = (f"{{corpus}}/{name}/hdf5" for name in ("first", "second", "vsl"))
MIXTURE = [{"data_dir": FIRST, "weight": 3}, {"data_dir": SECOND, "weight": 1}]


def processed(name: str, section: dict[str, Any], **options: Any) -> Case:
    """Return a case of a data processor; a system of two deals an iterable's files out anew."""
    return Case(name=f"data/{name}", model=MODEL, fields={}, data=section, eval_steps=1, **options)


DATA = [
    processed("map", {**MAP, "data_dir": FIRST}),
    processed("map_shuffled", {**MAP, "data_dir": FIRST, "shuffle": True, "shuffle_seed": 7}),
    processed("map_processes", {**MAP, "data_dir": FIRST, "num_workers": 2}),
    processed("map_two_workers", {**MAP, "data_dir": FIRST}, workers=2),
    processed("map_mixture", {**MAP, "mixture": MIXTURE, "shuffle": True, "shuffle_seed": 7}),
    processed("map_vsl", {**MAP, "data_dir": SPANS, "use_vsl": True}),
    processed("iterable", {**ITERABLE, "data_dir": FIRST}, systems=1),
    processed(
        "iterable_shuffled",
        {**ITERABLE, "data_dir": FIRST, "shuffle": True, "shuffle_seed": 7},
        systems=1,
    ),
]
