"""BERT with each of its heads, an encoder and decoder as T5 has them, and two towers as DPR has."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from data import Field
from models import LENGTH, VOCAB, WIDTH, Block, RmsNorm, integers
from torch import nn

from families.decoders import TOKENS, RelativePositions, token_loss
from families.together import Batch, Family

MASK = Field(shape=(LENGTH,), kind="prefix_mask", dtype=torch.int32)
TEXT = {"input_ids": TOKENS["input_ids"], "attention_mask": MASK}


def padding(mask):
    """Return what is added to scores of padding, [batch, 1, 1, key]."""
    return (1.0 - mask.float())[:, None, None, :] * -1e4


def weighted_token_loss(logits, labels, mask):
    """Mean cross entropy over the tokens of a mask."""
    losses = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(), labels.view(-1).long(), reduction="none"
    )
    weight = mask.view(-1).float()
    return (losses * weight).sum() / weight.sum()


class Bert(nn.Module):
    """Embeddings of tokens, segments and positions, one block, and a pooled first token."""

    def __init__(self, num_outputs: int = 0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.segments = nn.Embedding(2, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.block = Block()
        self.pooler = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, num_outputs) if num_outputs else None

    def encode(self, ids, mask):
        place = torch.arange(LENGTH, device=ids.device, dtype=torch.int32)
        second = (place >= LENGTH // 2).to(torch.int32)
        x = self.tokens(ids) + self.positions(place) + self.segments(second)
        return self.block(self.norm(x), padding(mask))

    def pool(self, x):
        return torch.tanh(self.pooler(x[:, 0]))


class Pretraining(Bert):
    """Masked tokens, through the transposed embeddings, and whether a sentence follows."""

    def __init__(self) -> None:
        super().__init__(2)
        self.transform = nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, batch: Batch):
        mask = batch["attention_mask"]
        x = self.encode(batch["input_ids"], mask)
        words = F.gelu(self.transform(x))
        table = self.tokens.weight.to(words.dtype)
        logits = torch.matmul(words, table.transpose(0, 1)) + self.bias.to(words.dtype)
        follows = F.cross_entropy(self.head(self.pool(x)).float(), batch["follows"].long())
        return weighted_token_loss(logits, batch["labels"], mask) + follows


class Classifier(Bert):
    """A class for each sequence."""

    def forward(self, batch: Batch):
        x = self.encode(batch["input_ids"], batch["attention_mask"])
        return F.cross_entropy(self.head(self.pool(x)).float(), batch["follows"].long())


class TokenClassifier(Bert):
    """A class for each token."""

    def forward(self, batch: Batch):
        x = self.encode(batch["input_ids"], batch["attention_mask"])
        return weighted_token_loss(self.head(x), batch["tags"], batch["attention_mask"])


class QuestionAnswering(Bert):
    """Where an answer begins and where it ends."""

    def forward(self, batch: Batch):
        x = self.encode(batch["input_ids"], batch["attention_mask"])
        starts, ends = self.head(x).float().permute(2, 0, 1)
        begins = F.cross_entropy(starts, batch["begin"].long())
        return (begins + F.cross_entropy(ends, batch["end"].long())) * 0.5


class CrossBlock(Block):
    """A block of a decoder, which also attends to what an encoder has made."""

    def __init__(self) -> None:
        super().__init__()
        self.norm3 = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

    def forward(self, x, mask, encoded, encoded_mask):
        x = x + self.attention(self.norm1(x), mask)
        key, value = self.key_value(encoded).chunk(2, dim=-1)
        scores = torch.matmul(self.query(self.norm3(x)), key.transpose(-1, -2)) / 4.0
        weights = F.softmax(scores.float() + encoded_mask[:, 0], dim=-1).to(value.dtype)
        x = x + torch.matmul(weights, value)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class EncoderDecoder(nn.Module):
    """T5: relative positions both ways in the encoder, one way in the decoder, one vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.both_ways, self.one_way = RelativePositions(both_ways=True), RelativePositions()
        self.encoder, self.decoder = Block(), CrossBlock()
        self.norm1, self.norm2 = RmsNorm(WIDTH), RmsNorm(WIDTH)

    def forward(self, batch: Batch):
        table = self.tokens
        x, bias = self.both_ways(table(batch["input_ids"]))
        hidden = padding(batch["attention_mask"])
        encoded = self.norm1(self.encoder(x, bias + hidden))
        y, mask = self.one_way(table(batch["target_ids"]))
        y = self.norm2(self.decoder(y, mask, encoded, hidden))
        logits = torch.matmul(y, table.weight.to(y.dtype).transpose(0, 1))
        return token_loss(logits, batch["labels"])


class TwoTowers(nn.Module):
    """DPR: each question's own passage against those of the others in its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.questions, self.passages = Bert(), Bert()

    def forward(self, batch: Batch):
        question = self.questions.encode(batch["input_ids"], batch["attention_mask"])[:, 0]
        passage = self.passages.encode(batch["target_ids"], batch["attention_mask"])[:, 0]
        scores = torch.matmul(question, passage.transpose(0, 1)).float() / 4.0
        own = torch.arange(scores.shape[0], device=scores.device)
        return F.cross_entropy(scores, own)


FOLLOWS = {"follows": integers(high=2)}
TARGETS = {"target_ids": integers(LENGTH), "labels": TOKENS["labels"]}
PLACES = {"begin": integers(high=LENGTH), "end": integers(high=LENGTH)}

ENCODERS = {
    "bert_pretraining": Family(
        build=Pretraining, fields={**TEXT, **FOLLOWS, "labels": TOKENS["labels"]}
    ),
    "bert_classifier": Family(build=lambda: Classifier(2), fields={**TEXT, **FOLLOWS}),
    "bert_tokens": Family(
        build=lambda: TokenClassifier(5), fields={**TEXT, "tags": integers(LENGTH, high=5)}
    ),
    "bert_questions": Family(build=lambda: QuestionAnswering(2), fields={**TEXT, **PLACES}),
    "t5": Family(build=EncoderDecoder, fields={**TEXT, **TARGETS}),
    "dpr": Family(build=TwoTowers, fields={**TEXT, "target_ids": TARGETS["target_ids"]}),
}
