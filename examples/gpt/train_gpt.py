"""Train a byte-level GPT on the source of Python's standard library.

    python train_gpt.py --num-csx 2 --steps 80

trains on two systems of the cluster that CSCONFIG_PATH (or /opt/cerebras/config_v2) describes,
validates, and writes a checkpoint. `--resume` goes on from the newest checkpoint, `--backend CPU`
runs the same script without a cluster. As a detached run that may be started again,

    csctl submit --restart-policy on=pod,limit=3 -- \
        python train_gpt.py --until-step 80 --checkpoint-steps 20

it goes on from its newest checkpoint after each restart.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path

import cerebras.pytorch as cstorch
import torch
from data import VOCAB_SIZE, Batches
from model import Gpt

PEAK_RATE, FLOOR_RATE = 1e-3, 1e-4
WARMUP_STEPS, DECAY_STEPS = 10, 190
MAX_GRADIENT_NORM = 1.0


class Trainer:
    """A model with everything that is trained and saved together with it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        torch.manual_seed(options.seed)
        self.module = Gpt(VOCAB_SIZE, options.seq_len)
        self.model = cstorch.compile(self.module)
        self.optimizer = make_optimizer(self.module)
        self.scheduler = make_scheduler(self.optimizer)
        self.grad_scaler = make_grad_scaler()
        self.train_loader = self.make_loader("train")
        self.step = 0

    def make_loader(self, split: str):
        options = self.options
        return cstorch.utils.data.DataLoader(Batches, split, options.batch_size, options.seq_len)

    def train(self) -> list[float]:
        """Run the training steps, save at the end, and return the losses."""
        num_steps = self.num_steps()
        target = self.checkpoint_after(self.step + num_steps)
        if target.exists():  # saving does not overwrite; say so before training, not after
            raise SystemExit(f"{target} exists; use --resume, or another --checkpoint-dir")
        losses: list[float] = []
        times = [time.monotonic()]

        @cstorch.trace
        def training_step(batch):
            loss = self.model(**batch)
            self.apply_gradients(loss)
            self.scheduler.step()
            report(loss)

        @cstorch.step_closure
        def report(loss):
            self.step += 1
            losses.append(float(loss))
            times.append(time.monotonic())
            seconds = times[-1] - times[-2]
            print(f"train step={self.step} loss={losses[-1]:.5f} ({seconds:.2f} s)", flush=True)

        @cstorch.checkpoint_closure
        def save():
            self.save()

        self.module.train()
        executor = cstorch.utils.data.DataExecutor(
            self.train_loader,
            num_steps=num_steps,
            checkpoint_steps=self.options.checkpoint_steps or num_steps,
        )
        for batch in executor:
            training_step(batch)
            save()
        return losses

    def num_steps(self) -> int:
        """Return how many steps this run is to do."""
        if self.options.until_step is None:
            return self.options.steps
        if self.options.until_step <= self.step:
            raise SystemExit(
                f"the checkpoint is of step {self.step} already: nothing is left to do"
            )
        return self.options.until_step - self.step

    def apply_gradients(self, loss) -> None:
        """Scale the loss, clip the gradients, step."""
        if self.grad_scaler is not None:
            cstorch.amp.optimizer_step(
                loss, self.optimizer, self.grad_scaler, max_gradient_norm=MAX_GRADIENT_NORM
            )
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), MAX_GRADIENT_NORM)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def validate(self) -> float:
        """Return the mean loss on text that training never sees."""
        losses: list[float] = []

        @cstorch.trace
        def validation_step(batch):
            with torch.no_grad():
                report(self.model(**batch))

        @cstorch.step_closure
        def report(loss):
            losses.append(float(loss))

        self.module.eval()
        loader = self.make_loader("validation")
        for batch in cstorch.utils.data.DataExecutor(loader, num_steps=self.options.eval_steps):
            validation_step(batch)
        return sum(losses) / len(losses)

    def checkpoint_after(self, step: int) -> Path:
        """Return where the checkpoint after a step goes."""
        return self.options.checkpoint_dir / f"checkpoint_{step}.mdl"

    def save(self) -> None:
        """Write a checkpoint."""
        path = self.checkpoint_after(self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "dataloader": self.train_loader.state_dict(),
            "step": self.step,
        }
        if self.grad_scaler is not None:
            state["grad_scaler"] = self.grad_scaler.state_dict()
        cstorch.save(state, str(path))
        print(f"saved {path}", flush=True)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint, with the text where that run had stopped."""
        state = cstorch.load(str(path))
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        if self.grad_scaler is not None:
            self.grad_scaler.load_state_dict(state["grad_scaler"])
        self.train_loader.load_state_dict(state["dataloader"])
        self.step = int(state["step"])
        print(f"resuming from {path} after step {self.step}", flush=True)


def make_optimizer(module: torch.nn.Module):
    """AdamW that decays matrices, and leaves biases and norms alone."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return cstorch.optim.AdamW(groups, lr=PEAK_RATE / WARMUP_STEPS, betas=(0.9, 0.95))


def make_scheduler(optimizer):
    """Linear warmup, then cosine decay."""
    schedules = cstorch.optim.lr_scheduler
    warmup = schedules.LinearLR(
        optimizer,
        initial_learning_rate=PEAK_RATE / WARMUP_STEPS,
        end_learning_rate=PEAK_RATE,
        total_iters=WARMUP_STEPS,
    )
    decay = schedules.CosineDecayLR(
        optimizer,
        initial_learning_rate=PEAK_RATE,
        end_learning_rate=FLOOR_RATE,
        total_iters=DECAY_STEPS,
    )
    return schedules.SequentialLR(optimizer, [warmup, decay], milestones=[WARMUP_STEPS])


def make_grad_scaler():
    """Scale the loss dynamically on the cluster; the CPU backend computes in f32 and needs none."""
    if cstorch.backend().is_cpu:
        return None
    return cstorch.amp.GradScaler(loss_scale="dynamic", init_scale=2.0**15, max_loss_scale=2.0**31)


def is_restarted(options: argparse.Namespace) -> bool:
    """Whether this is a detached run that was started again after it had saved something."""
    has_saved = any(options.checkpoint_dir.glob("checkpoint_*.mdl"))
    return has_saved and os.environ.get("WSC_RESTART_COUNT", "0") != "0"


def newest_checkpoint(folder: Path) -> Path:
    """Return the checkpoint with the highest step in its name."""
    found = sorted(folder.glob("checkpoint_*.mdl"), key=lambda p: int(p.stem.split("_")[1]))
    if not found:
        raise SystemExit(f"--resume: there is no checkpoint in {folder}; train without it first")
    return found[-1]


def start_backend(options: argparse.Namespace) -> None:
    """Choose where the program runs."""
    if options.backend == "CPU":
        cstorch.backend("CPU", artifact_dir=str(options.artifact_dir))
        torch.set_num_threads(options.cpu_threads)
        return
    cluster = cstorch.distributed.ClusterConfig(
        mgmt_address=options.mgmt_address,
        num_csx=options.num_csx,
        num_workers_per_csx=options.num_workers_per_csx,
        job_labels=["example=gpt"],
        python_paths=[str(Path(__file__).resolve().parent)],
    )
    cstorch.backend("CSX", artifact_dir=str(options.artifact_dir), cluster_config=cluster)
    cstorch.amp.set_half_dtype("cbfloat16")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--backend", choices=["CSX", "CPU"], default="CSX")
    add("--num-csx", type=int, default=1, help="systems to train on")
    add("--num-workers-per-csx", type=int, default=1, help="input workers for each system")
    add("--mgmt-address", help="HOST:PORT of the cluster; default: from the cluster's config file")
    add("--steps", type=int, default=80, help="training steps of this run")
    add("--eval-steps", type=int, default=8, help="validation batches; 0: no validation")
    add("--batch-size", type=int, default=8, help="sequences in a step, over all systems")
    add("--until-step", type=int, help="train up to this step, instead of --steps more")
    add("--checkpoint-steps", type=int, help="steps between checkpoints; default: one at the end")
    add("--seq-len", type=int, default=128)
    add("--seed", type=int, default=1)
    add("--checkpoint-dir", type=Path, default=Path("checkpoints"))
    add("--artifact-dir", type=Path, default=Path("cerebras_logs"))
    add("--resume", action="store_true", help="go on from the newest checkpoint")
    add("--cpu-threads", type=int, default=2, help="threads of the CPU backend")
    return parser.parse_args()


def main() -> None:
    """Train, validate, and say how it went."""
    options = parse()
    start_backend(options)
    trainer = Trainer(options)
    num_parameters = sum(p.numel() for p in trainer.module.parameters())
    print(f"{num_parameters:,} parameters", flush=True)
    if options.resume or is_restarted(options):
        trainer.resume(newest_checkpoint(options.checkpoint_dir))
    losses = trainer.train()
    print(f"initial train loss {losses[0]:.4f}")
    print(f"final train loss   {losses[-1]:.4f}")
    if options.eval_steps:
        loss = trainer.validate()
        print(f"validation loss    {loss:.4f} ({loss / math.log(2):.4f} bits per byte)")


if __name__ == "__main__":
    main()
