"""Embedding tables in memory, and the lookup and sum of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import Bundle, ModelSpec, open_tables, read_table_into
from dlrm_py.memory import aligned_zeros, anonymous_array

#: Ids of a request, feature-major (see IdLayout).
Ids = npt.NDArray[np.int32] | npt.NDArray[np.int64]

# Rows copied by one `take` before they are summed: 512 rows of 128 float32 are 256 KiB, so the sum finds them in the
# second-level cache. Measured best of 256 … 30,000 at 16 and 128 examples a request, and without effect at 1.
SPAN_ROWS = 512
# Plans kept, one a batch size, counted in their examples; one costs 2.6 KB an example of DLRM-DCNv2, and building it
# less than running it once or twice.
MAX_PLAN_EXAMPLES = 1 << 16


class EmbeddingTables:
    """All tables, one below the other, in one array.

    One array means that one `take` can look up the rows of many features: at one example a request that is worth a
    third of the lookup's time. The memory is anonymous and asks for huge pages, since a random row from gigabytes of
    4 KiB pages is a TLB miss besides a cache miss.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        sizes = [feature.vocabulary_size for feature in spec.features]
        #: First row of each feature's table.
        self.first_row: npt.NDArray[np.intp] = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        self.rows: npt.NDArray[np.float32] = anonymous_array(sum(sizes) * spec.embedding_dim).reshape(
            -1, spec.embedding_dim
        )

    @property
    def num_bytes(self) -> int:
        return self.rows.nbytes

    def table(self, feature: int) -> npt.NDArray[np.float32]:
        """Rows of one feature's table: a view, (vocabulary_size, embedding_dim)."""
        first = self.first_row[feature]
        return self.rows[first : first + self.spec.features[feature].vocabulary_size]


def load_tables(bundle: Bundle, on_progress: Callable[[int, int], None] = lambda _done, _total: None) -> EmbeddingTables:
    """Reads every table of the bundle; ``on_progress(bytes read, bytes in all)``. Raises BundleError."""
    tables = EmbeddingTables(bundle.spec)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, tables.num_bytes)

    file, entries = open_tables(bundle)
    with file:
        for index, feature in enumerate(bundle.spec.features):
            read_table_into(file, entries, bundle.tables_path, feature, tables.table(index), on_bytes)
    return tables


class IdLayout:
    """What the ids of a request of one size mean, position by position.

    Ids are feature-major: id ``h`` of example ``b`` of feature ``f`` stands at
    ``batch * (hot sizes before f) + b * hot_size[f] + h``, which is how the tensors of a request follow each other.
    """

    def __init__(self, tables: EmbeddingTables, batch: int) -> None:
        counts = [batch * feature.hot_size for feature in tables.spec.features]
        #: First row of the table of each id.
        self.first_row: npt.NDArray[np.intp] = np.repeat(tables.first_row, counts)
        #: Vocabulary size of the table of each id. Ids are compared as unsigned numbers, as which a negative one is
        #: larger than any vocabulary: one comparison checks both ends.
        self._limit32 = np.repeat(
            np.array([feature.vocabulary_size for feature in tables.spec.features], np.uint32), counts
        )

    def first_outside(self, ids: Ids) -> int | None:
        """Position of the first id that is outside its table, or None."""
        if ids.dtype == np.int32:
            inside = ids.view(np.uint32) < self._limit32
        else:
            inside = ids.view(np.uint64) < self._limit32
        return None if inside.all() else int(inside.argmin())


class _Sum(NamedTuple):
    source: npt.NDArray[np.float32]
    target: npt.NDArray[np.float32]


class _Span(NamedTuple):
    start: int
    end: int
    rows: npt.NDArray[np.float32]
    copies: tuple[_Sum, ...]
    sums: tuple[_Sum, ...]


class _Plan(NamedTuple):
    layout: IdLayout
    spans: tuple[_Span, ...]


class Gatherer:
    """Looks up and sums rows for one thread, into memory that is used again and again.

    The memory is what ``new_pooled(rows)`` returns, which may have more rows than it was asked for. By default it starts
    at a multiple of 64 bytes, so that JAX on the CPU reads it where it is.

    For each request size it keeps a plan: the ids are cut into spans of at most SPAN_ROWS rows; a span is one ``take``
    into scratch and then one ``np.add.reduce`` a feature, from views and into views that were made beforehand.
    """

    def __init__(
        self, tables: EmbeddingTables, new_pooled: Callable[[int], npt.NDArray[np.float32]] | None = None
    ) -> None:
        self._tables = tables
        spec = tables.spec
        self._new_pooled = new_pooled or (
            lambda rows: aligned_zeros((rows, len(spec.features), spec.embedding_dim))
        )
        largest_bag = max(feature.hot_size for feature in tables.spec.features)
        self._scratch = np.empty((max(SPAN_ROWS, largest_bag), tables.spec.embedding_dim), np.float32)
        self._row_numbers = np.empty(0, np.intp)
        self._pooled = aligned_zeros((0, len(tables.spec.features), tables.spec.embedding_dim))
        self._plans: dict[int, _Plan] = {}

    def reserve(self, rows: int) -> npt.NDArray[np.float32]:
        """The first ``rows`` pooled rows, (rows, features, embedding_dim); valid until a larger ``reserve``."""
        if len(self._pooled) < rows:
            self._pooled = self._new_pooled(rows)
            self._row_numbers = np.empty(len(self._pooled) * self._tables.spec.ids_per_example, np.intp)
            self._plans.clear()  # Their views are of the old memory.
        return self._pooled[:rows]

    def layout(self, batch: int) -> IdLayout:
        """The layout of ``batch`` examples, kept with their plan."""
        return self._plan(batch).layout

    def gather(self, ids: Ids, batch: int) -> npt.NDArray[np.float32]:
        """Sums of bags: ``result[b, f] = sum over h of table[f][ids[f, b, h]]``, (batch, features, embedding_dim).

        Ids must be inside their tables (``IdLayout.first_outside``). The result is this gatherer's memory: the next call
        overwrites it.
        """
        layout, spans = self._plan(batch)
        rows = self._row_numbers[: len(ids)]
        np.add(ids, layout.first_row, out=rows)
        take = self._tables.rows.take
        reduce = np.add.reduce
        for start, end, scratch, copies, sums in spans:
            # mode: "raise" would go through a temporary array in order to leave `out` alone on errors.
            take(rows[start:end], 0, scratch, "clip")
            for source, target in copies:
                target[...] = source
            for source, target in sums:
                reduce(source, 1, None, target)
        return self._pooled[:batch]

    def _plan(self, batch: int) -> _Plan:
        plan = self._plans.get(batch)
        if plan is None:
            self.reserve(batch)
            while self._plans and sum(self._plans) + batch > MAX_PLAN_EXAMPLES:
                del self._plans[next(iter(self._plans))]
            plan = self._plans[batch] = _Plan(IdLayout(self._tables, batch), self._spans(batch))
        return plan

    def _spans(self, batch: int) -> tuple[_Span, ...]:
        dim = self._tables.spec.embedding_dim
        capacity = len(self._scratch)
        spans: list[_Span] = []
        copies: list[_Sum] = []
        sums: list[_Sum] = []
        start = used = 0

        def cut() -> None:
            nonlocal start, used
            if used > 0:
                spans.append(_Span(start, start + used, self._scratch[:used], tuple(copies), tuple(sums)))
                copies.clear()
                sums.clear()
                start += used
                used = 0

        for index, feature in enumerate(self._tables.spec.features):
            hot_size = feature.hot_size
            first = 0
            while first < batch:
                examples = min(batch - first, (capacity - used) // hot_size)
                # Rather a new span than a sliver of a feature at the end of this one.
                if examples < batch - first and 4 * examples * hot_size < capacity and used > 0:
                    cut()
                    continue
                source = self._scratch[used : used + examples * hot_size]
                target = self._pooled[first : first + examples, index]
                if hot_size == 1:
                    copies.append(_Sum(source, target))
                else:
                    sums.append(_Sum(source.reshape(examples, hot_size, dim), target))
                used += examples * hot_size
                first += examples
        cut()
        return tuple(spans)
