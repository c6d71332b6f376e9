"""Train one of the conformance models, on the CPU backend or on a cluster, and write what came out.

An ordinary user's script, with everything a test wants to vary as an option:

    python train.py --model gpt_adamw --backend CSX --num-csx 2 --steps 5 --out result.json \
        --mgmt-address localhost:9000

The result is JSON: every phase's losses and other scalar outputs step by step as hexadecimal
floats (`float.fromhex` gives them back exactly), the checkpoints written, and the steps that the
grad scaler skipped. Larger outputs are written as nested lists of floats. Each step also prints
one line, `train step 3 loss 1.25`, as soon as the client has it.

Checkpoints hold model, optimizer, scheduler, grad scaler, step, and the state of a restartable
loader. `--load` goes on from one, as a user would: `--steps` more steps.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cerebras.pytorch as cstorch
import data
import torch
from families import FAMILIES
from models import RECIPES
from recipes import Recipe
from training import Session, cancel_timers, grad_scaler_state

HERE = Path(__file__).resolve().parent
PROGRAMS = {**RECIPES, **FAMILIES}
LOADERS = ["plain", "restartable", "failing", "slow", "stalling"]


@dataclass
class Phase:
    """What one data executor gave back."""

    kind: str
    losses: list[str] = field(default_factory=list)
    outputs: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, outputs: dict[str, torch.Tensor]) -> None:
        """Record one step's outputs."""
        for name, value in outputs.items():
            if name == "loss":
                self.losses.append(float(value).hex())
            else:
                scalar = value.numel() == 1
                kept = float(value).hex() if scalar else value.detach().tolist()
                self.outputs.setdefault(name, []).append(kept)
        loss = float(outputs["loss"])
        print(f"{self.kind} step {len(self.losses)} loss {loss!r}", flush=True)


class Run:
    """A session with its loaders: phases of training and evaluation, and checkpoints."""

    def __init__(self, recipe: Recipe, options: argparse.Namespace) -> None:
        self.recipe, self.options = recipe, options
        self.session = Session(recipe)
        self.step = 0
        self.phases: list[Phase] = []
        self.checkpoints: list[dict[str, Any]] = []
        self.datasets = {
            "train": recipe.dataset,
            "eval": replace(recipe.dataset, seed=recipe.dataset.seed + 1),
        }
        self.loaders = {kind: self.make_loader(kind) for kind in self.datasets}
        self.num_consumed = dict.fromkeys(self.datasets, 0)
        if options.load:
            self.load(options.load)

    def make_loader(self, kind: str, start_index: int = 0):
        """Make the loader that the options name, from a sample on."""
        options = self.options
        named = {
            "plain": data.loader,
            "restartable": data.restartable_loader,
            "failing": functools.partial(data.failing_loader, after=options.fail_after),
            "stalling": functools.partial(
                data.stalling_loader, after=options.fail_after, seconds=options.seconds_per_batch
            ),
            "slow": functools.partial(data.slow_loader, seconds=options.seconds_per_batch),
        }
        # Functions of the module `data` travel by reference, so a streamer has to import it.
        make = named[options.loader]
        return cstorch.utils.data.DataLoader(
            make,
            self.datasets[kind],
            options.batch_size,
            shuffle=options.shuffle,
            start_index=start_index,
        )

    def run(self, kind: str, num_steps: int) -> None:
        """Train or evaluate for a number of steps, in a data executor of its own."""
        phase = Phase(kind)
        self.phases.append(phase)
        self.session.set_training(kind == "train")

        @cstorch.trace
        def step(batch):
            report(**self.session.step(batch))

        @cstorch.step_closure
        def report(**outputs):
            phase.add(outputs)

        @cstorch.checkpoint_closure
        def save():
            self.save(self.step)

        if self.options.backend == "CPU" and self.num_consumed[kind]:
            # On CSX the next phase goes on with the loader, the CPU backend starts it again.
            self.loaders[kind] = self.make_loader(kind, self.num_consumed[kind])
        loader = self.loaders[kind]
        saves = kind == "train" and self.options.save is not None
        every = (self.options.checkpoint_steps or num_steps) if saves else 0
        executor = cstorch.utils.data.DataExecutor(
            loader,
            num_steps=num_steps,
            checkpoint_steps=every,
            activation_steps=self.options.activation_steps,
        )
        for batch in executor:
            step(batch)
            self.step += kind == "train"
            if saves:
                save()
        self.num_consumed[kind] += num_steps * self.options.batch_size

    def save(self, step: int) -> None:
        """Write a checkpoint; `{step}` in the path is replaced."""
        session = self.session
        path = str(self.options.save).format(step=step)
        state = {"model": session.module.state_dict(), "step": step}
        if session.optimizer is not None:
            state["optimizer"] = session.optimizer.state_dict()
        if session.scheduler is not None:
            state["scheduler"] = session.scheduler.state_dict()
        if session.grad_scaler is not None:
            state["grad_scaler"] = grad_scaler_state(session.grad_scaler)
        if self.loaders["train"].is_restartable:
            state["dataloader"] = self.loaders["train"].state_dict()
        cstorch.save(state, path)
        self.checkpoints.append({"step": step, "path": path})
        print(f"checkpoint {path}", flush=True)

    def load(self, path: str) -> None:
        """Go on from a checkpoint."""
        session, state = self.session, cstorch.load(path)
        self.step = int(state["step"])
        session.module.load_state_dict(state["model"])
        if "optimizer" in state:
            session.optimizer.load_state_dict(state["optimizer"])
        if "scheduler" in state:
            session.scheduler.load_state_dict(state["scheduler"])
        if "grad_scaler" in state:
            session.grad_scaler.load_state_dict(state["grad_scaler"])
        if "dataloader" in state:
            self.loaders["train"].load_state_dict(state["dataloader"])
            self.num_consumed["train"] = int(state["dataloader"]["num_consumed"])


def start_backend(options: argparse.Namespace) -> None:
    """Start the backend that the options ask for."""
    artifacts = str(options.artifact_dir)
    if options.backend == "CPU":
        cstorch.backend("CPU", artifact_dir=artifacts)
        return
    if options.micro_batch_size is not None:
        cstorch.backends.csx.performance.micro_batch_size = options.micro_batch_size
    cluster = cstorch.distributed.ClusterConfig(
        mgmt_address=options.mgmt_address,
        num_csx=options.num_csx,
        max_wgt_servers=options.max_wgt_servers,
        num_workers_per_csx=options.num_workers_per_csx,
        job_labels=options.job_label,
        job_priority=options.job_priority or cstorch.distributed.ClusterConfig.DEFAULT,
        python_paths=[str(HERE)],
    )
    cstorch.backend(
        "CSX",
        artifact_dir=artifacts,
        compile_dir=options.compile_dir,
        compile_only=options.compile_only,
        validate_only=options.validate_only,
        cluster_config=cluster,
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", choices=sorted(PROGRAMS), required=True)
    add("--backend", choices=["CPU", "CSX"], default="CPU")
    add("--out", type=Path, help="where the result goes as JSON")
    add("--artifact-dir", type=Path, default=Path("artifacts"))

    cluster = parser.add_argument_group("cluster")
    add = cluster.add_argument
    add("--mgmt-address", help="localhost:PORT; not needed with CSCONFIG_PATH")
    add("--num-csx", type=int, default=1)
    add("--max-wgt-servers", type=int, default=0)
    add("--num-workers-per-csx", type=int, default=1)
    add("--job-label", action="append", default=[], metavar="KEY=VALUE")
    add("--job-priority", choices=["p1", "p2", "p3"])
    add("--compile-dir", default=None)
    add("--compile-only", action="store_true")
    add("--validate-only", action="store_true")

    run = parser.add_argument_group("run")
    add = run.add_argument
    add("--steps", type=int, default=5, help="steps of each phase")
    add("--batch-size", type=int, default=8, help="global batch size")
    add("--micro-batch-size", type=int, default=None, help="samples computed at a time")
    add("--half-dtype", choices=["float16", "bfloat16", "cbfloat16"], default=None)
    add("--profile-steps", type=int, nargs=2, metavar=("FIRST", "LAST"), help="profile these")
    add("--activation-steps", type=int, default=1, help="fetch outputs every so many steps")
    add("--eval", action="store_true", help="evaluate only")
    add("--train-eval-train-eval", action="store_true", help="four phases in one process")

    loaders = parser.add_argument_group("data")
    add = loaders.add_argument
    add("--loader", choices=LOADERS, default="plain")
    add("--shuffle", action="store_true")
    add(
        "--fail-after", type=int, default=2, help="batches that a failing or stalling loader yields"
    )
    add("--seconds-per-batch", type=float, default=1.0, help="pause of a slow or stalling loader")

    checkpoints = parser.add_argument_group("checkpoints")
    add = checkpoints.add_argument
    add("--save", type=Path, help="checkpoint to write; {step} is replaced by the step")
    add("--checkpoint-steps", type=int, default=0, help="every so many steps; 0: the last only")
    add("--load", type=Path, help="checkpoint to go on from")
    return parser.parse_args()


def profiling(options: argparse.Namespace):
    """Profile the steps that the options name, as a user does; else do nothing."""
    if options.profile_steps is None:
        return contextlib.nullcontext()
    first, last = options.profile_steps
    schedule = cstorch.profiler.schedule(start_step=first, end_step=last)
    return cstorch.profiler.profile(schedule=schedule)


def main() -> None:
    """Run the phases and write the result."""
    options = parse()
    start_backend(options)
    recipe = PROGRAMS[options.model]
    half_dtype = options.half_dtype or recipe.half_dtype
    if options.backend == "CSX":
        cstorch.amp.set_half_dtype(half_dtype)
    run = Run(recipe, options)
    kinds = ["eval"] if options.eval else ["train"]
    if options.train_eval_train_eval:
        kinds = ["train", "eval", "train", "eval"]
    with profiling(options) as profiler:
        for kind in kinds:
            run.run(kind, options.steps)
    if options.out:
        result = {
            "model": options.model,
            "backend": options.backend,
            "num_csx": options.num_csx,
            "phases": [vars(phase) for phase in run.phases],
            "losses": [loss for phase in run.phases for loss in phase.losses],
            "checkpoints": run.checkpoints,
        }
        if profiler is not None:
            result["profile"] = profiler.get_summary()
            profiler.export_chrome_trace("trace.json")
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    cancel_timers()


if __name__ == "__main__":
    main()
