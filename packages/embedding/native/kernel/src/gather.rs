//! One call: all features of a batch.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::Plan;
use crate::pool::{Bags, pool_bags_of, prefetch_first};
use crate::resolve::{Block, Resolved, resolve, resolve_block};
use crate::simd::Level;
use crate::store::Store;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All rows are written.
    Done,
    /// The id at this index of `ids` is refused by its table; nothing was written (unless another thread changed ids meanwhile).
    OutOfVocabulary(usize),
    /// `ids` or lengths are shorter than the batch needs, a length is negative, or the output has not all of its rows; nothing was
    /// written.
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

/// What calls of one thread reuse, so that they allocate nothing.
pub struct Scratch {
    level: Level,
    /// Rows to prefetch ahead; 0: as many as `prefetch_bytes` hold.
    distance: usize,
    prefetch_bytes: usize,
    addresses: Vec<*const u8>,
    cursors: Vec<usize>,
    /// Lengths of bags, where they differ: those of the first feature, then of the next.
    lengths: Vec<u32>,
    current: Block,
    next: Block,
}

// SAFETY: addresses are only followed inside a call, which keeps their version.
unsafe impl Send for Scratch {}

/// How many addresses a block has, about: they and the block's output must stay in the second level cache.
const BLOCK_ROWS: usize = 4096;

/// How many bytes of rows ahead are prefetched: enough to cover memory's latency, few enough to be there still when they are used.
/// Measured with 512-byte rows: Intel's cores take 100 to 200 rows into the second level cache, AMD's are best at 8 to 32.
fn prefetch_bytes() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let id = std::arch::x86_64::__cpuid(0);
        if [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel" {
            return 128 * 512;
        }
    }
    24 * 512
}

impl Scratch {
    /// For kernels of `level`, which must be one of [`Level::available`]; else the best one is taken.
    pub fn new(level: Level) -> Scratch {
        let level = if Level::available().contains(&level) { level } else { Level::best() };
        Scratch {
            level,
            distance: 0,
            prefetch_bytes: prefetch_bytes(),
            addresses: Vec::new(),
            cursors: Vec::new(),
            lengths: Vec::new(),
            current: Block::default(),
            next: Block::default(),
        }
    }

    /// Prefetches this many rows ahead in every table; 0: as many as fit the row size.
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
        if let Some(at) = ids[start..end].iter().position(refused) {
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

/// Pools a batch into rows `output_row …` of the output. With `lengths` (`[features, batch]`), bags have those instead of the hot sizes,
/// and `ids` are packed: all of the first feature, example after example, then of the next.
#[allow(clippy::too_many_arguments)]
pub fn gather(
    store: &Store,
    plan: &Plan,
    scratch: &mut Scratch,
    ids: &[AtomicI32],
    lengths: Option<&[AtomicI32]>,
    batch: usize,
    output: OutputView,
    output_row: usize,
) -> Outcome {
    if plan.store != store.id() {
        return Outcome::WrongStore;
    }
    let rows_end = output_row.checked_add(batch);
    if !rows_end.is_some_and(|rows| fits(plan.output_width, rows, output.len)) {
        return Outcome::TooShort;
    }
    scratch.cursors.clear();
    let ids_end = if let Some(lengths) = lengths {
        if !fits(plan.features.len(), batch, lengths.len()) {
            return Outcome::TooShort;
        }
        // Another thread may change lengths: what is checked must be what is used.
        let lengths = &lengths[..plan.features.len() * batch];
        scratch.lengths.clear();
        scratch.lengths.extend(lengths.iter().map(|length| length.load(Ordering::Relaxed) as u32));
        let features = plan.features.len();
        match starts_of_ragged(features, batch, &scratch.lengths, ids.len(), &mut scratch.cursors) {
            Some(end) => end,
            None => return Outcome::TooShort,
        }
    } else {
        if !fits(plan.ids_per_example, batch, ids.len()) {
            return Outcome::TooShort;
        }
        scratch.cursors.extend(plan.features.iter().map(|feature| batch * feature.hot_before));
        batch * plan.ids_per_example
    };
    let checked = find_refused(plan, ids, scratch.cursors.iter().copied(), ids_end);
    if checked != Outcome::Done || batch == 0 {
        return checked;
    }
    let version = store.version();
    scratch.addresses.clear();
    let examples_per_block = (BLOCK_ROWS / (ids_end / batch).max(1)).clamp(1, batch);
    let row_bytes = plan.features.iter().map(|feature| feature.row_bytes).max().unwrap_or(1);
    let distance = if scratch.distance > 0 { scratch.distance } else { (scratch.prefetch_bytes / row_bytes).clamp(4, 512) };

    // Ids are read again here: another thread may have changed them since they were checked, and an address must come from a
    // checked id.
    let mut resolved_to = examples_per_block;
    let Scratch { level, addresses, cursors, lengths: own_lengths, current, next, .. } = scratch;
    let lengths_of = |feature: usize, from: usize| lengths.map(|_| &own_lengths[feature * batch + from..(feature + 1) * batch]);
    if let Err(at) = resolve_block(plan, &version, ids, |at| lengths_of(at, 0), cursors, examples_per_block, addresses, current) {
        return Outcome::OutOfVocabulary(at);
    }
    // SAFETY: Scratch has levels this CPU has only.
    unsafe { prefetch_first(*level, &addresses[..distance.min(addresses.len())], row_bytes) };
    let mut from = 0;
    loop {
        let examples = resolved_to - from;
        // The next block's addresses follow this one's, so that prefetching goes on over the boundary.
        let next_examples = examples_per_block.min(batch - resolved_to);
        let lengths = |at| lengths_of(at, resolved_to);
        if let Err(at) = resolve_block(plan, &version, ids, lengths, cursors, next_examples, addresses, next) {
            return Outcome::OutOfVocabulary(at);
        }
        let mut start = 0;
        for (feature, ends) in plan.features.iter().zip(current.ends.chunks_exact(examples)) {
            let row = (output_row + from) * plan.output_width;
            let bags = Bags {
                addresses,
                start,
                ends,
                distance,
                dim: feature.dim,
                row_bytes: feature.row_bytes,
                pooling: feature.pooling,
                // SAFETY: rows up to output_row + batch fit the output, as checked above.
                output: unsafe { output.start.add(row + feature.column) },
                output_stride: plan.output_width,
            };
            // SAFETY: the CPU has the level; addresses are of rows of this feature's table in `version`, which lives until the end of
            // this call; ends come from `resolve_block`; the output has room, as above.
            unsafe { pool_bags_of(*level, feature.dtype)(&bags) };
            start = ends.last().map_or(start, |&end| end as usize);
        }
        if next_examples == 0 {
            return Outcome::Done;
        }
        addresses.copy_within(current.rows.., 0);
        addresses.truncate(next.rows);
        std::mem::swap(current, next);
        from = resolved_to;
        resolved_to += next_examples;
    }
}
