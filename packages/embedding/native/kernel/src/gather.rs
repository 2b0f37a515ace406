//! One call: all features of a batch.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::Plan;
use crate::pool::{Bags, pool_bags_of};
use crate::prefetch::for_each_line;
use crate::resolve::{Block, Inputs, Resolved, Rows, resolve, resolve_block};
use crate::simd::Level;
use crate::store::Store;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All rows are written.
    Done,
    /// The id at this index of `ids` is refused by its table; nothing was written (unless another thread changed ids meanwhile).
    OutOfVocabulary(usize),
    /// `ids`, lengths or weights are shorter than the batch needs, a length is negative, or the output has not all of its rows; nothing
    /// was written.
    TooShort,
    /// The plan is of another store.
    WrongStore,
}

/// Memory for pooled vectors, which other threads may read and write at the same time.
#[derive(Clone, Copy)]
pub struct OutputView {
    start: *mut f32,
    len: usize,
}

impl OutputView {
    /// # Safety
    /// `len` floats from `start` on may be written for as long as the view is used, and no reference to them exists.
    pub unsafe fn new(start: *mut f32, len: usize) -> OutputView {
        OutputView { start, len }
    }
}

/// One call's arguments. Other threads may change what the slices hold at any time.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Feature-major ids.
    pub ids: &'a [AtomicI32],
    /// Where bags differ in length: their lengths, `[features, batch]`. `ids` are packed then: all of the first feature, example after
    /// example, then of the next; hot sizes do not count.
    pub lengths: Option<&'a [AtomicI32]>,
    /// A weight for each id, by the bits of a float32: rows are multiplied by it before they are added.
    pub weights: Option<&'a [AtomicI32]>,
    /// Examples.
    pub batch: usize,
    /// Where pooled vectors go.
    pub output: OutputView,
    /// The row of the output that the first example's go to.
    pub output_row: usize,
}

/// What calls of one thread reuse, so that they allocate nothing.
pub struct Scratch {
    level: Level,
    /// Rows to ask for ahead; 0: what is best here.
    distance: usize,
    rows: Rows,
    cursors: Vec<usize>,
    /// Lengths of bags, where they differ: those of the first feature, then of the next.
    lengths: Vec<u32>,
    current: Block,
    next: Block,
}

/// How many addresses a block has, about: they and the block's output must stay in the second level cache.
const BLOCK_ROWS: usize = 4096;

impl Scratch {
    /// For kernels of `level`, which must be one of [`Level::available`]; else the best one is taken.
    pub fn new(level: Level) -> Scratch {
        let level = if Level::available().contains(&level) { level } else { Level::best() };
        Scratch {
            level,
            distance: 0,
            rows: Rows::default(),
            cursors: Vec::new(),
            lengths: Vec::new(),
            current: Block::default(),
            next: Block::default(),
        }
    }

    /// Prefetches this many rows ahead in every table; 0: as many as are best for the store and the row size.
    pub fn set_distance(&mut self, rows: usize) {
        self.distance = rows;
    }

    /// The instruction set in use.
    pub fn level(&self) -> Level {
        self.level
    }
}

/// The first id, in their order, that is refused.
pub fn find_out_of_vocabulary(plan: &Plan, ids: &[AtomicI32], batch: usize) -> Outcome {
    if !fits(plan.ids_per_example, batch, ids.len()) {
        return Outcome::TooShort;
    }
    let starts = plan.features.iter().map(|feature| batch * feature.hot_before);
    find_refused(plan, ids, starts, batch * plan.ids_per_example)
}

/// The first id that is refused; each feature's ids stand from its start to the next one's.
fn find_refused(plan: &Plan, ids: &[AtomicI32], starts: impl Iterator<Item = usize> + Clone, end: usize) -> Outcome {
    let ends = starts.clone().skip(1).chain([end]);
    for ((feature, start), end) in plan.features.iter().zip(starts).zip(ends) {
        let refused = |id: &AtomicI32| matches!(resolve(feature, id.load(Ordering::Relaxed)), Resolved::Refused);
        let ids = &ids[start..end];
        // Without a branch an id, as nearly always all are rows.
        if ids.iter().fold(true, |all, id| all & ((id.load(Ordering::Relaxed) as u32) < feature.rows)) {
            continue;
        }
        if let Some(at) = ids.iter().position(refused) {
            return Outcome::OutOfVocabulary(start + at);
        }
    }
    Outcome::Done
}

/// Where each feature's ids start, and the number of ids in all; `None` if a length is negative or they are more than `ids`.
fn starts_of_ragged(features: usize, batch: usize, lengths: &[u32], ids: usize, starts: &mut Vec<usize>) -> Option<usize> {
    let mut end = 0usize;
    for feature in 0..features {
        starts.push(end);
        for &length in &lengths[feature * batch..(feature + 1) * batch] {
            // A negative length is a large unsigned one: more than there are ids, in any case.
            end = end.checked_add(length as usize).filter(|&end| end <= ids)?;
        }
    }
    Some(end)
}

fn fits(width: usize, count: usize, len: usize) -> bool {
    width.checked_mul(count).is_some_and(|needed| needed <= len)
}

/// Pools a batch into rows `output_row …` of the output.
pub fn gather(store: &Store, plan: &Plan, scratch: &mut Scratch, call: Call<'_>) -> Outcome {
    let Call { ids, batch, output, output_row, .. } = call;
    if plan.store != store.id() {
        return Outcome::WrongStore;
    }
    let rows_end = output_row.checked_add(batch);
    if !rows_end.is_some_and(|rows| fits(plan.output_width, rows, output.len)) {
        return Outcome::TooShort;
    }
    let Some(ids_end) = find_starts(plan, call, &mut scratch.lengths, &mut scratch.cursors) else { return Outcome::TooShort };
    if call.weights.is_some_and(|weights| weights.len() < ids_end) {
        return Outcome::TooShort;
    }
    if batch == 0 {
        return Outcome::Done;
    }
    let examples_per_block = (BLOCK_ROWS / (ids_end / batch).max(1)).clamp(1, batch);
    // Where one block holds all, resolving it finds what is refused before anything is written.
    if examples_per_block < batch {
        let checked = find_refused(plan, ids, scratch.cursors.iter().copied(), ids_end);
        if checked != Outcome::Done {
            return checked;
        }
    }
    let version = store.version();

    // Ids of later blocks are read again there: another thread may have changed them since they were checked, and an address must come
    // from a checked id.
    let mut resolved_to = examples_per_block;
    let Scratch { level, distance, rows, cursors, lengths, current, next } = scratch;
    rows.clear();
    let inputs =
        Inputs { plan, version: &version, ids, weights: call.weights, lengths: call.lengths.map(|_| &lengths[..]), batch };
    if let Err(at) = resolve_block(&inputs, cursors, 0..examples_per_block, rows, current) {
        return Outcome::OutOfVocabulary(at);
    }
    let row_bytes = plan.features.iter().map(|feature| feature.row_bytes).max().unwrap_or(1);
    let prefetch = store.prefetch();
    let distance = if *distance > 0 { *distance } else { prefetch.distance(row_bytes) };
    for &row in rows.addresses.iter().take(distance) {
        for_each_line(row, row_bytes, prefetch.step(row_bytes), |line| level.prefetch(line));
    }
    let mut from = 0;
    loop {
        let examples = resolved_to - from;
        // The next block's addresses follow this one's, so that prefetching goes on over the boundary.
        let next_examples = examples_per_block.min(batch - resolved_to);
        if let Err(at) = resolve_block(&inputs, cursors, resolved_to..resolved_to + next_examples, rows, next) {
            return Outcome::OutOfVocabulary(at);
        }
        let mut start = 0;
        for (feature, ends) in plan.features.iter().zip(current.ends.chunks_exact(examples)) {
            let row = (output_row + from) * plan.output_width;
            let bags = Bags {
                addresses: &rows.addresses,
                weights: &rows.weights,
                start,
                ends,
                distance,
                prefetch_step: prefetch.step(feature.row_bytes),
                dim: feature.dim,
                row_bytes: feature.row_bytes,
                pooling: feature.pooling,
                // SAFETY: rows up to output_row + batch fit the output, as checked above.
                output: unsafe { output.start.add(row + feature.column) },
                output_stride: plan.output_width,
            };
            // SAFETY: the CPU has the level; addresses are of rows of this feature's table in `version`, which lives until the end of
            // this call; ends come from `resolve_block`, which has given a weight for each address if there are weights; the output
            // has room, as above.
            unsafe { pool_bags_of(*level, feature.dtype, call.weights.is_some())(&bags) };
            start = ends.last().map_or(start, |&end| end as usize);
        }
        if next_examples == 0 {
            return Outcome::Done;
        }
        rows.drop_first(current.rows);
        std::mem::swap(current, next);
        from = resolved_to;
        resolved_to += next_examples;
    }
}

/// Where each feature's ids start, and the number of ids in all; `None` if lengths or ids are too short.
fn find_starts(plan: &Plan, call: Call<'_>, own_lengths: &mut Vec<u32>, starts: &mut Vec<usize>) -> Option<usize> {
    let Call { ids, batch, .. } = call;
    starts.clear();
    let Some(lengths) = call.lengths else {
        if !fits(plan.ids_per_example, batch, ids.len()) {
            return None;
        }
        starts.extend(plan.features.iter().map(|feature| batch * feature.hot_before));
        return Some(batch * plan.ids_per_example);
    };
    if !fits(plan.features.len(), batch, lengths.len()) {
        return None;
    }
    // Another thread may change lengths: what is checked must be what is used.
    own_lengths.clear();
    own_lengths.extend(lengths[..plan.features.len() * batch].iter().map(|length| length.load(Ordering::Relaxed) as u32));
    starts_of_ragged(plan.features.len(), batch, own_lengths, ids.len(), starts)
}
