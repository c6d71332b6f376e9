"""Dataloaders for tests of the input pods; imported by the client's streamer, never by ours."""

import cerebras.pytorch as cstorch
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Row i is (i, i + 0.5) as float16 with label i and the flag that i is even."""

    def __init__(self, num_rows):
        self.num_rows = num_rows

    def __len__(self):
        return self.num_rows

    def __getitem__(self, index):
        row = torch.tensor([index, index + 0.5], dtype=torch.float16)
        return row, torch.tensor(index, dtype=torch.int32), torch.tensor(index % 2 == 0)


def rows(num_rows, batch_size):
    dataset = Rows(num_rows)
    sampler = cstorch.utils.data.DistributedSampler(
        dataset, shuffle=False, seed=1, batch_size=batch_size
    )
    return DataLoader(dataset, batch_sampler=sampler, num_workers=0)


def failing_rows(num_rows, batch_size, after):
    for count, batch in enumerate(rows(num_rows, batch_size)):
        if count == after:
            raise RuntimeError(f"row file is damaged after {after} batches")
        yield batch


def sleepy_rows(num_rows, batch_size):
    import threading

    for batch in rows(num_rows, batch_size):
        threading.Event().wait(3600)
        yield batch


class RestartableRows:
    def __init__(self, num_rows, batch_size):
        self.num_rows, self.batch_size, self.start = num_rows, batch_size, 0

    def __iter__(self):
        size = cstorch.distributed.get_streaming_batch_size(self.batch_size)
        for index in range(self.start, self.num_rows - size + 1, size):
            items = [Rows(self.num_rows)[row] for row in range(index, index + size)]
            yield tuple(torch.stack(column) for column in zip(*items, strict=True))

    def state_dict(self):
        return {"next": self.start + cstorch.distributed.get_worker_state().samples_streamed}

    def aggregate_state_dict(self, states):
        return states[0]

    def deaggregate_state_dict(self, state):
        return state

    def load_state_dict(self, state):
        self.start = state["next"]


def restartable_rows(num_rows, batch_size):
    return RestartableRows(num_rows, batch_size)
