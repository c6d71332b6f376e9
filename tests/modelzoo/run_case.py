"""One run of one case with the Model Zoo's trainer, on the CPU backend or on a cluster."""

from __future__ import annotations

import functools
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, ClassVar

KINDS = ("train", "eval", "converted", "tokens")
HERE = Path(__file__).resolve().parent


class _StandIn(ModuleType):
    """A module whose every name is an empty class."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds a package, and all below it, as stand-ins."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name, path=None, target=None):
        below = name.startswith(f"{self.package}.")
        return ModuleSpec(name, self) if below or name == self.package else None

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module):
        pass


def stand_in(package: str) -> None:
    """Let the trainer import a package that it imports always, no case uses and PyPI lacks."""
    if find_spec(package) is None:
        sys.meta_path.append(_Finder(package))


class Run:
    """A trainer, its data, and the losses that came out."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.case, self.order = order["case"], order
        self.losses: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.times: list[float] = []

    def run(self) -> None:
        """Train, then evaluate if the case asks for it."""
        from cerebras.modelzoo.trainer.utils import configure_trainer_from_config
        from cerebras.modelzoo.trainer.validate import validate_trainer_params

        listen(self)
        if self.case.get("wide") and not self.order.get("mgmt_address"):
            widen()
        if self.case["init"].get("sparsity") and not self.order.get("mgmt_address"):
            follow_drop_fractions()
        if self.case.get("by_sorting") and not self.order.get("mgmt_address"):
            choose_by_sorting()
        init, checkpoint = self.init(), None
        if self.case.get("convert"):
            from conversion import from_hugging_face

            checkpoint, init["model"] = from_hugging_face(self.case["convert"], Path("hf"))
        section = {"init": init}
        if self.case.get("data"):
            section["fit"] = {"train_dataloader": placed(self.case["data"], self.order["corpus"])}
        self.config = config = validate_trainer_params({"trainer": section})[0]
        mode = "train" if self.case.get("train_steps", 4) else "eval"
        trainer = configure_trainer_from_config(config, mode)
        if self.case.get("generate"):
            self.generate(trainer)
            return
        if mode == "train":
            trainer.loop.eval_frequency = None
            trainer.fit(self.loader(1, self.case.get("train_steps", 4)), None, checkpoint)
        if self.case.get("eval_steps"):
            trainer.validate(self.loader(2, self.case["eval_steps"]), None)
        if self.case.get("convert"):
            self.convert_back(max(Path("model_dir").glob("checkpoint_*.mdl")), init["model"])

    def generate(self, trainer: Any) -> None:
        """Take the tokens of all answers, and the length of each."""
        from harness import answers

        for _, text in sorted(answers(trainer, self.case["generate"], Path("harness")).items()):
            tokens = [float(word.removeprefix("w")) for word in text.split()]
            self.losses["tokens"] += [float(len(tokens)), *tokens]

    def convert_back(self, checkpoint: Path, model: dict[str, Any]) -> None:
        """Take the loss of the trained model in the Hugging Face format."""
        import batches
        from conversion import loss_in_hugging_face

        size = self.case.get("batch_size", 4)
        batch = next(batches.batches(self.case["fields"], size, 2, 1))
        loss = loss_in_hugging_face(
            self.case["convert"], str(checkpoint), model, Path("back"), batch
        )
        self.record("converted", loss)

    def init(self) -> dict[str, Any]:
        """Return the trainer's section `init`: the case's, and where to run."""
        init = dict(self.case["init"])
        steps = self.case.get("train_steps", 4)
        init.setdefault("seed", 1)
        init.setdefault(
            "loop", {"max_steps": max(steps, 1), "eval_steps": self.case.get("eval_steps") or None}
        )
        init.setdefault("checkpoint", {"steps": steps if self.case.get("convert") else 0})
        init.setdefault("logging", {"log_steps": 1, "log_level": "INFO"})
        init.setdefault("optimizer", {"SGD": {"lr": 0.05, "momentum": 0.0}})
        if not self.order.get("mgmt_address"):
            precision = dict(init.get("precision", {}))
            init["precision"] = {**precision, "enabled": False, "fp16_type": "bfloat16"}
        init["model_dir"] = "./model_dir"
        init["backend"] = self.backend()
        init["loggers"] = [{name: None} for name in ("TensorBoardLogger", "TelemetryLogger")]
        init["callbacks"] = [*init.get("callbacks", []), {"CheckLoss": None}]
        return init

    def backend(self) -> dict[str, Any]:
        """Return where to run."""
        if not self.order.get("mgmt_address"):
            return {"backend_type": "CPU"}
        cluster = {
            "num_csx": self.order["num_csx"],
            "num_workers_per_csx": self.case.get("workers", 1),
            "mgmt_address": self.order.get("mgmt_address"),
            "python_paths": [str(HERE), f"{self.order['modelzoo']}/src"],
        }
        return {"backend_type": "CSX", "cluster_config": cluster}

    def loader(self, seed: int, steps: int) -> Any:
        """Return the case's batches as the client's loader."""
        import batches
        import cerebras.pytorch as cstorch

        if self.case.get("data"):
            from cerebras.modelzoo.trainer.utils import create_dataloader_from_config

            return create_dataloader_from_config(self.config.fit.train_dataloader)
        size = self.case.get("batch_size", 4)
        return cstorch.utils.data.DataLoader(
            batches.batches, self.case["fields"], size, seed, steps
        )

    def record(self, kind: str, loss: float) -> None:
        """Take one loss."""
        self.losses[kind].append(loss)
        self.times.append(time.monotonic())
        print(f"{kind} step {len(self.losses[kind])} loss {loss!r}", flush=True)

    def result(self) -> dict[str, Any]:
        """Return what the parent compares."""
        gaps = [b - a for a, b in pairwise(self.times[: len(self.losses["train"])])]
        return {
            "losses": {kind: [x.hex() for x in found] for kind, found in self.losses.items()},
            "step_seconds": median(gaps) if gaps else 0.0,
        }


def prepare() -> None:
    """Import what every run needs."""
    stand_in("bigcode_eval")
    import batches  # noqa: F401
    import cerebras.modelzoo.trainer.extensions  # noqa: F401
    from cerebras.modelzoo.trainer.utils import configure_trainer_from_config  # noqa: F401
    from cerebras.modelzoo.trainer.validate import validate_trainer_params  # noqa: F401

    ask_pip_once()


def ask_pip_once() -> None:
    """Keep what the client asks of pip for every job: three seconds of a core, always the same."""
    from cerebras.appliance import appliance_manager as manager

    for name in ("pip_config_list", "pip_freeze", "pip_list"):
        setattr(manager, name, functools.cache(getattr(manager, name)))
    manager.pip_config_list()
    manager.pip_freeze(exclude_editable=True)
    manager.pip_list(editable=True)


def placed(section: Any, corpus: str) -> Any:
    """Return a data processor's section with the place of the data sets in its paths."""
    if isinstance(section, str):
        return section.replace("{corpus}", corpus)
    if isinstance(section, dict):
        return {name: placed(value, corpus) for name, value in section.items()}
    if isinstance(section, list):
        return [placed(value, corpus) for value in section]
    return section


def widen() -> None:
    """Have models that ask for the 16-bit type compute in float32."""
    import cerebras.pytorch as cstorch
    import torch

    cstorch.amp.get_half_dtype = lambda: torch.float32


def choose_by_sorting() -> None:
    """Have masks be chosen by sorting scores, as in the program that the client traces.

    Its CPU backend takes `torch.topk`, which leaves open which of equal scores it chooses; all
    weights that were masked out are equal.
    """
    import torch
    from cerebras.pytorch.sparse import utils

    def chosen(score: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        order = torch.sort(score, dim=-1, descending=True, stable=True).indices
        mask = torch.zeros_like(score, dtype=torch.bool)
        return mask.scatter(-1, order[..., : int(count)], True)

    utils._make_mask_topk_k = chosen


def follow_drop_fractions() -> None:
    """Have a drop fraction follow its schedule, as in the program that the client traces.

    Its CPU backend computes it at the first update and keeps it: the value is kept by the step's
    tensor, which changes in place, and only values of sparsity are forgotten after an update.
    """
    from cerebras.pytorch.sparse.dynamic import DynamicSparsityAlgorithm

    update = DynamicSparsityAlgorithm.update

    def updated(self, optimizer=None):
        update(self, optimizer)
        if hasattr(self, "drop_fraction"):
            self.drop_fraction.cache_clear()

    DynamicSparsityAlgorithm.update = updated


def listen(run: Run) -> None:
    """Record every loss that the trainer sees."""
    import cerebras.pytorch as cstorch
    from cerebras.modelzoo.trainer.callbacks import Callback, register_global_callback

    @cstorch.step_closure
    def record(kind: str, loss: Any) -> None:
        run.record(kind, float(loss))

    class Losses(Callback):
        def on_train_batch_end(self, trainer, model, outputs, batch, batch_idx):
            record("train", outputs["loss"])

        def on_validate_batch_end(self, trainer, model, outputs, batch, batch_idx):
            record("eval", outputs["loss"])

    register_global_callback(Losses)
