"""One training or evaluation step of a recipe, on the CSX backend and on the client's CPU backend.

The step is what a user writes with `cstorch.trace`. Some things differ between the backends, and
are handled here so that the numbers can be compared:

* On the CPU backend `GradScaler.scale` returns the loss unscaled while `unscale_` and `update`
  still divide by and adapt the scale, and `GradScaler.step` needs `_amp_state.handle`, which only
  the CSX backend sets (`AttributeError: 'AmpState' object has no attribute 'handle'`).
  `scale_loss` does on the CPU what `scale` does on CSX; the handle is set to the client's own
  `NoOpHandle`.
* `GradScaler.state_dict` is empty on the CPU backend; `grad_scaler_state` reads its attributes.
* With a grad scaler, `Scheduler.step` marks `last_epoch` so that a skipped step does not count.
  The CSX backend opens that context for every batch; on the CPU backend `Session.step` does
  (otherwise "Failed to mark tensor").
* A schedule's value is computed just before the optimizer's step on CSX. On the CPU backend it is
  computed by `Scheduler.step`, so the *first* step would use the optimizer's own `lr`; `Session`
  registers the hook that the CSX backend registers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext

import cerebras.pytorch as cstorch
import torch
from cerebras.pytorch.amp._amp_state import _amp_state
from cerebras.pytorch.amp.grad_scaler import OptState
from cerebras.pytorch.amp.handle import NoOpHandle
from cerebras.pytorch.backend import current_backend_impl
from cerebras.pytorch.backend.base_backend import full_state_dict
from cerebras.pytorch.utils.nest import visit_device_tensors
from recipes import Recipe


class Session:
    """A recipe's model, optimizer, schedule and grad scaler on the current backend."""

    def __init__(self, recipe: Recipe, *, training: bool = True) -> None:
        self.recipe = recipe
        self.backend = current_backend_impl()
        if not self.backend.is_csx:
            _amp_state.handle = NoOpHandle()
        torch.manual_seed(recipe.seed)
        self.module = recipe.build()
        self.model = cstorch.compile(self.module)
        self.optimizer = self.scheduler = self.grad_scaler = None
        if recipe.optimizer is not None:
            self.optimizer = recipe.optimizer(self.module.named_parameters())
            if recipe.scheduler is not None:
                self.scheduler = recipe.scheduler(self.optimizer)
            if recipe.grad_scaler is not None:
                self.grad_scaler = cstorch.amp.GradScaler(**recipe.grad_scaler)
        if recipe.sparsity is not None:
            sparsity = cstorch.sparse.configure(recipe.sparsity)
            self.module.apply(sparsity)
            self.optimizer.apply(sparsity)
        self.set_training(training)
        if self.scheduler is not None and not self.backend.is_csx:
            self.optimizer.register_step_pre_hook(lambda *_: self.scheduler.update_last_value())

    def set_training(self, training: bool) -> None:
        """Switch between training and evaluation; evaluation leaves the state alone."""
        self.training = training and self.optimizer is not None
        self.module.train(self.training)

    def step(self, batch) -> dict[str, torch.Tensor]:
        """Run one step and return the outputs by name; `loss` is among them."""
        if not self.training:
            with torch.no_grad():
                return self.recipe.outputs(self.model, batch)
        outputs = self.recipe.outputs(self.model, batch)
        with self._skippable():
            apply_gradients(
                outputs["loss"], self.optimizer, self.grad_scaler, self.recipe.max_gradient_norm
            )
            if self.scheduler is not None:
                self.scheduler.step()
        return outputs

    def _skippable(self):
        """Undo what the step changes if its gradients overflow; the CSX backend does so itself."""
        if self.backend.is_csx or self.grad_scaler is None:
            return nullcontext()
        return self.optimizer._amp_stash.dls_update_manager


def apply_gradients(loss, optimizer, grad_scaler, max_gradient_norm: float | None) -> None:
    """Backward pass, unscaling, clipping and optimizer step, as in `amp.optimizer_step`."""
    if grad_scaler is None:
        loss.backward()
        clip(optimizer, max_gradient_norm)
        optimizer.step()
        optimizer.zero_grad()
    elif current_backend_impl().is_csx:
        cstorch.amp.optimizer_step(
            loss, optimizer, grad_scaler, max_gradient_norm=max_gradient_norm
        )
    else:
        scale_loss(grad_scaler, loss).backward()
        grad_scaler.unscale_(optimizer)
        clip(optimizer, max_gradient_norm)
        grad_scaler.step(optimizer)
        grad_scaler.update()
        optimizer.zero_grad()


def clip(optimizer, max_gradient_norm: float | None) -> None:
    """Clip the global norm of all gradients, if the recipe asks for it."""
    if max_gradient_norm is not None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, max_gradient_norm)


def scale_loss(grad_scaler, loss: torch.Tensor) -> torch.Tensor:
    """Scale the loss on the CPU backend as `GradScaler.scale` does on CSX."""
    is_identity = not grad_scaler.dynamic and grad_scaler.get_scale() == 1.0
    for optimizer in grad_scaler.backend.optimizer_registry:
        stash = optimizer._amp_stash
        if not is_identity:
            optimizer._prepare_amp_backward()
        stash.state = OptState.UNSCALED if is_identity else OptState.SCALED
    return loss.float() if is_identity else loss.float() * grad_scaler.get_scale()


def grad_scaler_state(grad_scaler) -> dict[str, torch.Tensor | float]:
    """Return what `GradScaler.state_dict` returns on CSX; on the CPU backend that is empty."""
    if current_backend_impl().is_csx:
        return grad_scaler.state_dict()
    keys = ["loss_scale"]
    if grad_scaler.dynamic:
        keys += ["steps_since_rescale", "overflows_since_rescale", "num_skipped_steps"]
    return {key: getattr(grad_scaler, f"_{key}") for key in keys}


def named_state(session: Session) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the CPU backend's state under the names the traced program uses.

    The client names a state tensor by its path in `BaseBackend.state_dict()`, joined by dots after
    `state`: `state.model.<state_dict key>`, `state.optimizer.state.<parameter index>.<key>`,
    `state.schedulers.<index>.last_epoch`, `state.grad_scaler.<index>.<key>`.
    """
    tree = session.backend.state_dict()
    tree["model"] = full_state_dict(session.module)
    if session.grad_scaler is not None:
        tree["grad_scaler"] = [grad_scaler_state(session.grad_scaler)]
    for scope, tensor in visit_device_tensors(tree, device_type="cpu", scope=["state"]):
        yield ".".join(scope), tensor


def named_inputs(batch) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a batch's tensors under their `cs.input_name`: `input_<path joined by _>`."""
    for scope, tensor in visit_device_tensors(batch, device_type="cpu", scope=["input"]):
        yield "_".join(scope), tensor


def cancel_timers() -> None:
    """End what the client would still wait for once the last session is over.

    Its monitor of errors starts a second thread ten seconds after a session has begun, by a timer
    that is not cancelled with the session; the interpreter would wait for it before it ends.
    """
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()
