import numpy as np
import pytest

from conftest import EMBEDDING_DIM, HOT_SIZES, VOCABULARY_SIZES, Model, random_example
from dlrm_py.bundle import DenseNetworkSpec, Feature, ModelSpec, read_bundle
from dlrm_py.embedding import MAX_PLAN_EXAMPLES, SPAN_ROWS, EmbeddingTables, Gatherer, IdLayout, load_tables

DCNV2_HOT_SIZES = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


def make_tables(hot_sizes: tuple[int, ...], dim: int, seed: int) -> EmbeddingTables:
    rng = np.random.default_rng(seed)
    features = tuple(Feature(f"f{i}", int(rng.integers(1, 60)), hot_size) for i, hot_size in enumerate(hot_sizes))
    tables = EmbeddingTables(ModelSpec(dim, 1, features, DenseNetworkSpec((), 0, 0, ())))
    tables.rows[...] = rng.uniform(-1, 1, tables.rows.shape)
    return tables


def make_ids(tables: EmbeddingTables, batch: int, seed: int, dtype: type = np.int32) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, f.vocabulary_size, (batch, f.hot_size)).astype(dtype) for f in tables.spec.features]


def naive(tables: EmbeddingTables, ids: list[np.ndarray]) -> np.ndarray:
    """One row after the other, in float32 and in the order of the ids."""
    batch = len(ids[0])
    out = np.zeros((batch, len(ids), tables.spec.embedding_dim), np.float32)
    for feature, part in enumerate(ids):
        for b in range(batch):
            for row in part[b]:
                out[b, feature] += tables.table(feature)[row]
    return out


def feature_major(ids: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part.reshape(-1) for part in ids])


@pytest.mark.parametrize("batch", [1, 2, 3, 16, 37, 128])
def test_gather_equals_a_plain_loop_exactly_for_the_hot_sizes_of_dcnv2(batch: int) -> None:
    tables = make_tables(DCNV2_HOT_SIZES, 128, 1)
    ids = make_ids(tables, batch, batch)
    assert np.array_equal(Gatherer(tables).gather(feature_major(ids), batch), naive(tables, ids))


@pytest.mark.parametrize("seed", range(30))
def test_gather_equals_a_plain_loop_exactly_for_random_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Bags around the size of a span, so that features are cut inside, between, and not at all.
    hot_sizes = tuple(int(h) for h in rng.choice([1, 2, 3, 50, SPAN_ROWS // 2, SPAN_ROWS - 1, SPAN_ROWS, 700], 5))
    tables = make_tables(hot_sizes, 4, seed)
    gatherer = Gatherer(tables)
    for batch in (1, 2, 5, 3, 1, 9):
        dtype = np.int64 if batch % 2 == 0 else np.int32
        ids = make_ids(tables, batch, seed + batch, dtype)
        assert np.array_equal(gatherer.gather(feature_major(ids), batch), naive(tables, ids))


def test_a_gatherer_keeps_no_more_plans_than_it_may_and_stays_right() -> None:
    tables = make_tables((2, 1), 4, 5)
    gatherer = Gatherer(tables)
    half = MAX_PLAN_EXAMPLES // 2
    gatherer.reserve(half)
    kept = []
    for batch in (1, half - 1, half, 2, 1):
        ids = make_ids(tables, batch, batch)
        assert np.array_equal(gatherer.gather(feature_major(ids), batch), naive(tables, ids))
        kept.append(list(gatherer._plans))
    assert kept == [[1], [1, half - 1], [1, half - 1, half], [half, 2], [half, 2, 1]]


def test_rows_that_are_reserved_are_the_rows_that_are_gathered_into() -> None:
    tables = make_tables((2, 1), 4, 5)
    gatherer = Gatherer(tables)
    pooled = gatherer.reserve(8)
    ids = make_ids(tables, 5, 1)
    gatherer.gather(feature_major(ids), 5)
    assert np.array_equal(pooled[:5], naive(tables, ids))
    assert pooled.ctypes.data % 64 == 0
    assert np.shares_memory(pooled, gatherer.reserve(3))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_first_id_outside_its_table_is_found_wherever_it_stands(dtype: type, batch: int) -> None:
    tables = EmbeddingTables(
        ModelSpec(
            EMBEDDING_DIM,
            1,
            tuple(Feature(f"f{i}", v, h) for i, (v, h) in enumerate(zip(VOCABULARY_SIZES, HOT_SIZES, strict=True))),
            DenseNetworkSpec((), 0, 0, ()),
        )
    )
    layout = IdLayout(tables, batch)
    example = random_example(batch, 1, dtype)
    assert layout.first_outside(example.feature_major) is None
    limits = np.concatenate([np.full(batch * h, v) for v, h in zip(VOCABULARY_SIZES, HOT_SIZES, strict=True)])
    for position in range(len(limits)):
        for bad in (-1, limits[position], np.iinfo(dtype).min, np.iinfo(dtype).max):
            ids = example.feature_major
            ids[position] = bad
            assert layout.first_outside(ids) == position
            ids[-1] = -1  # A later one does not matter.
            assert layout.first_outside(ids) == position
        for good in (0, limits[position] - 1):
            ids = example.feature_major
            ids[position] = good
            assert layout.first_outside(ids) is None


def test_tables_are_read_from_the_bundle_exactly_with_progress(model: Model) -> None:
    seen = []
    tables = load_tables(read_bundle(model.dir), lambda done, total: seen.append((done, total)))
    for feature, table in enumerate(model.tables):
        assert np.array_equal(tables.table(feature), table)
    total = sum(table.nbytes for table in model.tables)
    assert tables.num_bytes == total
    assert seen[-1] == (total, total)
    assert [done for done, _total in seen] == sorted(done for done, _total in seen)
