"""Make the data sets of the table with the Model Zoo's preprocess_data, from drawn text.

A program of the client's environment:

    python corpus.py MODELZOO DIR
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

LENGTH = 32
PAIRS = "cerebras.modelzoo.data_preparation.data_preprocessing.hooks"
DATA_SETS: dict[str, dict[str, Any]] = {
    "first": {"seed": 1},
    "second": {"seed": 2},
    "vsl": {"seed": 3, "words": (3, 6), "dataset": {"use_vsl": True}},
}


def main(modelzoo: Path, folder: Path) -> int:
    """Make what is missing below the folder."""
    for name, options in DATA_SETS.items():
        if not (folder / name / "done").exists():
            make(modelzoo, folder / name, options)
            (folder / name / "done").touch()
    return 0


def make(modelzoo: Path, folder: Path, options: dict[str, Any]) -> None:
    """Write documents, and have them cut into sequences of tokens."""
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "documents.jsonl").write_text(
        documents(options["seed"], *options.get("words", (20, 60)))
    )
    vocabulary = modelzoo / "src/cerebras/modelzoo/models/vocab"
    config = {
        "setup": {
            "data": {"source": str(source), "type": "local"},
            "mode": "pretraining",
            "output_dir": str(folder / "hdf5"),
            "processes": 1,
        },
        "processing": {
            "custom_tokenizer": "gpt2tokenizer",
            "tokenizer_params": {
                "vocab_file": str(vocabulary / "gpt2-vocab.bpe"),
                "encoder_file": str(vocabulary / "gpt2-encoder.json"),
            },
            "max_seq_length": LENGTH,
            "read_hook": f"{PAIRS}:text_read_hook",
            "read_hook_kwargs": {"text_key": "text"},
            "shuffle": False,
            "use_ftfy": False,
        },
        "dataset": options.get("dataset", {"pack_sequences": True}),
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    program = (
        modelzoo / "src/cerebras/modelzoo/data_preparation/data_preprocessing/preprocess_data.py"
    )
    subprocess.run([sys.executable, str(program), "--config", str(path)], check=True, cwd=folder)


def documents(seed: int, fewest: int, most: int) -> str:
    """Return documents of invented words, one JSON object a line."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("aeioubdgklmnprst", k=draw.randint(2, 8))) for _ in range(200)]
    texts = (" ".join(draw.choices(words, k=draw.randint(fewest, most))) for _ in range(48))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
