"""Generation by the Model Zoo's evaluation harness with a task of our own, and by a plain loop.

Imported by the client. The CPU backend has no loop over positions; there every pass runs the model
on what has been generated so far.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

EOS = 0
TASK = "words"


def answers(trainer: Any, generation: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the answer to each prompt.

    Args:
        trainer: The Model Zoo's, on any backend.
        generation: `prompts`, their numbers of words; `stop`, texts that end an answer; `tokens`,
            most tokens of an answer; `length`, positions; and `start`, the start token.
        folder: Where files of the task go.
    """
    tokenizer = write_tokenizer(folder / "tokenizer.json", trainer.model.vocab_size)
    prompts = write_task(folder, generation, trainer.model.vocab_size)
    if trainer.backend.backend_type.name == "CPU":
        return {prompt: by_loop(trainer.model, tokenizer, prompt, generation) for prompt in prompts}
    return by_harness(trainer, generation, folder)


def write_tokenizer(path: Path, vocabulary: int) -> Any:
    """Write a tokenizer that has a word for each token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{number}": number for number in range(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return tokenizer


def write_task(folder: Path, generation: Mapping[str, Any], vocabulary: int) -> list[str]:
    """Write the task and its prompts, and return those."""
    draw = random.Random(5)
    prompts = [
        " ".join(f"w{draw.randrange(1, vocabulary - 1)}" for _ in range(words))
        for words in generation["prompts"]
    ]
    data = folder / "prompts.jsonl"
    data.write_text("".join(json.dumps({"text": text, "answer": "w1"}) + "\n" for text in prompts))
    task = {
        "task": TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data.resolve())}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{text}}",
        "doc_to_target": "{{answer}}",
        "target_delimiter": "",
        "generation_kwargs": {"until": list(generation["stop"]), "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    }
    (folder / "tasks").mkdir(exist_ok=True)
    (folder / "tasks" / f"{TASK}.yaml").write_text(json.dumps(task))
    return prompts


def by_harness(trainer: Any, generation: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Run the harness as the trainer's callback would, and keep its answers."""
    from cerebras.modelzoo.trainer.extensions.eleuther import lm_eval_harness

    found: dict[str, str] = {}
    generate = lm_eval_harness.EleutherLM.generate_until

    def recorded(self, requests):
        texts = generate(self, requests)
        found.update({request.args[0]: text for request, text in zip(requests, texts, strict=True)})
        return texts

    lm_eval_harness.EleutherLM.generate_until = recorded
    harness = lm_eval_harness.EleutherEvalHarness(
        eeh_args={"tasks": TASK, "include_path": str((folder / "tasks").resolve())},
        batch_size=generation["batch_size"],
        data_dir=str((folder / "requests").resolve()),
        max_sequence_length=generation["length"],
        tokenizer_file_path=str((folder / "tokenizer.json").resolve()),
        eos_id=EOS,
    )
    harness.run_validation(trainer, 0, True)
    return found


def by_loop(model: Any, tokenizer: Any, prompt: str, generation: Mapping[str, Any]) -> str:
    """Generate one answer greedily."""
    ids = tokenizer.encode(prompt).ids
    first = len(ids)
    model.eval()
    while len(ids) < generation["length"] and len(ids) - first < generation["tokens"]:
        padded = torch.zeros(1, generation["length"], dtype=torch.int32)
        padded[0, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
        with torch.no_grad():
            logits = model.model(input_ids=padded)
        ids.append(int(logits[0, len(ids) - 1].argmax()))
        if ids[-1] == generation["start"]:
            ids.pop()
            break
        text = tokenizer.decode(ids[first:])
        if any(stop in text for stop in generation["stop"]):
            break
    text = tokenizer.decode(ids[first:])
    for stop in generation["stop"]:
        text = text.split(stop)[0]
    return text
