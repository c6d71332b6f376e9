"""Ways of tuning: DPO against a frozen reference, answers alone, LoRA, and muP's rates."""

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from data import Field
from models import LENGTH, WIDTH, integers
from torch import nn

from families.decoders import TOKENS, Alibi, Decoder, LearnedPositions
from families.together import Batch, Family


class Dpo(nn.Module):
    """Direct preference optimization: answers that were chosen become likelier than others."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.reference = Decoder(LearnedPositions), Decoder(LearnedPositions)
        self.reference.requires_grad_(False)

    def likelihood(self, model, ids, labels):
        """Log-likelihood of each sequence."""
        words = F.log_softmax(model.logits(ids).float(), dim=-1)
        return torch.gather(words, 2, labels.long()[:, :, None])[:, :, 0].sum(-1)

    def gain(self, ids, labels):
        """How much likelier the policy finds a sequence than the reference does."""
        found = (self.likelihood(model, ids, labels) for model in (self.policy, self.reference))
        policy, reference = found
        return policy - reference.detach()

    def forward(self, batch: Batch):
        chosen = self.gain(batch["input_ids"], batch["labels"])
        rejected = self.gain(batch["rejected_ids"], batch["rejected_labels"])
        return -F.logsigmoid(0.125 * (chosen - rejected)).mean()


class LowRank(nn.Module):
    """A frozen linear layer, beside a product of two small ones."""

    def __init__(self, layer: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.frozen = layer.requires_grad_(False)
        self.narrow = nn.Linear(layer.in_features, rank, bias=False)
        self.wide = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.wide.weight)

    def forward(self, x):
        return self.frozen(x) + 2.0 * self.wide(self.narrow(x))


def lora() -> nn.Module:
    """A frozen decoder whose attention is tuned."""
    model = Decoder(Alibi).requires_grad_(False)
    for block in model.blocks:
        block.attention.qkv = LowRank(block.attention.qkv)
        block.attention.proj = LowRank(block.attention.proj)
    return model


class Mup(Decoder):
    """muP: multipliers of embeddings and logits, and learning rates by width."""

    def logits(self, ids):
        x, mask = self.positions(self.tokens(ids) * 2.0)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x)) * 0.25


def groups_by_width(named_parameters):
    """AdamW; matrices between hidden layers learn more slowly than the rest."""
    trained = [p for _, p in named_parameters if p.requires_grad]
    hidden = [p for p in trained if p.dim() == 2 and min(p.shape) >= WIDTH]
    rest = [p for p in trained if not any(p is other for other in hidden)]
    groups = [{"params": hidden, "lr": 1e-2 / 4}, {"params": rest, "lr": 1e-2}]
    return cstorch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)


class Answers(Decoder):
    """Instruction tuning: of a prompt's tokens no label counts, and neither does the padding."""

    def __init__(self) -> None:
        super().__init__(LearnedPositions)

    def forward(self, batch: Batch):
        logits = self.logits(batch["input_ids"])
        return F.cross_entropy(logits.transpose(1, 2), batch["answers"].long())


REJECTED = {"rejected_ids": integers(LENGTH), "rejected_labels": integers(LENGTH)}

ANSWERS = Field(
    shape=(LENGTH,), kind="choices", choices=(-100, -100, *range(16)), dtype=torch.int32
)

TUNING = {
    "dpo": Family(build=Dpo, fields={**TOKENS, **REJECTED}),
    "answers": Family(build=Answers, fields={**TOKENS, "answers": ANSWERS}),
    "lora": Family(build=lora, fields=TOKENS),
    "mup": Family(build=lambda: Mup(LearnedPositions), fields=TOKENS),
}
