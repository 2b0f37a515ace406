"""CPU time an example of the lookup alone, in one thread: a plain loop of NumPy's take and sum, and this server's.

PYTHONPATH=packages/arms/py/python taskset -c 0 PYTHON packages/arms/py/bench/lookup.py BUNDLE [seconds a measurement]

Both read the same tables and random ids, and take turns; the medians of three rounds are printed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import read_bundle
from dlrm_py.embedding import EmbeddingTables, Gatherer, load_tables

ROUNDS = 3
# Ids are cycled from a pool that looks up far more rows than a cache holds.
POOL_EXAMPLES = 4096

Lookup = Callable[[list[npt.NDArray[np.int32]]], npt.NDArray[np.float32]]


def plain_loop(tables: EmbeddingTables, batch: int) -> Lookup:
    """What one writes first: a take and a sum a table."""
    features = tables.spec.features
    views = [tables.table(index) for index in range(len(features))]
    pooled = np.empty((batch, len(features), tables.spec.embedding_dim), np.float32)

    def lookup(ids: list[npt.NDArray[np.int32]]) -> npt.NDArray[np.float32]:
        for index, feature in enumerate(features):
            rows = views[index].take(ids[index], axis=0)
            rows.reshape(batch, feature.hot_size, -1).sum(axis=1, out=pooled[:, index])
        return pooled

    return lookup


def server_lookup(tables: EmbeddingTables, batch: int) -> Lookup:
    """This server's, with the ids' bytes joined and their ranges checked as for a request."""
    gatherer = Gatherer(tables)
    layout = gatherer.layout(batch)

    def lookup(ids: list[npt.NDArray[np.int32]]) -> npt.NDArray[np.float32]:
        joined = np.concatenate(ids)
        assert layout.first_outside(joined) is None
        return gatherer.gather(joined, batch)

    return lookup


def requests(tables: EmbeddingTables, batch: int) -> list[list[npt.NDArray[np.int32]]]:
    random = np.random.default_rng(1)
    return [
        [
            random.integers(0, feature.vocabulary_size, batch * feature.hot_size, np.int32)
            for feature in tables.spec.features
        ]
        for _ in range(max(1, POOL_EXAMPLES // batch))
    ]


def cpu_micros(lookup: Lookup, pool: list[list[npt.NDArray[np.int32]]], batch: int, seconds: float) -> float:
    """CPU time of the process, µs an example."""
    done = 0
    started = time.process_time()
    while time.process_time() - started < seconds:
        # Whole passes of 16: the clock is read too seldom to count.
        for _ in range(16 if batch < 16 else 1):
            lookup(pool[done % len(pool)])
            done += 1
    return (time.process_time() - started) * 1e6 / (done * batch)


def main() -> None:
    directory, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    tables = load_tables(read_bundle(directory))
    print(f"{len(tables.rows):,} rows, {tables.num_bytes / 1e9:.2f} GB; CPU µs an example")
    print("examples a request | plain loop of take and sum | this server's lookup")
    for batch in (1, 16, 128):
        pool = requests(tables, batch)
        variants = (plain_loop(tables, batch), server_lookup(tables, batch))
        np.testing.assert_allclose(variants[0](pool[0]), variants[1](pool[0]), atol=1e-4)
        rounds = [[cpu_micros(variant, pool, batch, seconds) for variant in variants] for _ in range(ROUNDS)]
        plain, server = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{batch:18} | {plain:26.1f} | {server:20.1f}", flush=True)


if __name__ == "__main__":
    main()
