"""Write small random numbers into tensors of a store, in a process of its own.

    python -m tests.support.fill_store ADDRESS NAME ...

A process of its own, so that it can be put into a control group: memory counts for whoever touches
it first. The numbers depend on nothing but the tensors' shapes and order.
"""

import sys

import numpy as np

from appliance.streams.store import attach_store
from appliance.streams.stream_topology import STATE_SEGMENT


def main(address, names):
    generator = np.random.default_rng(0)
    wanted = set(names)
    with attach_store(address, timeout_seconds=60) as store:
        memory = store.attach(STATE_SEGMENT)
        for item in store.layout(STATE_SEGMENT).items:
            if item.name in wanted:
                for row in item.view(memory).reshape(-1, item.type.shape[-1]):
                    row[...] = generator.standard_normal(row.shape, dtype=np.float32) * 0.02


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
