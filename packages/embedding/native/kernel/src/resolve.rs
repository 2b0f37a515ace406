//! From ids to addresses of rows.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::{Plan, PlannedFeature};
use crate::store::{TableVersion, Version};
use crate::table::Policy;

/// What an id stands for.
pub(crate) enum Resolved {
    Row(u32),
    Nothing,
    Refused,
}

#[inline(always)]
pub(crate) fn resolve(feature: &PlannedFeature, id: i32) -> Resolved {
    // A negative id is a large unsigned one.
    if (id as u32) < feature.rows {
        return Resolved::Row(id as u32);
    }
    match feature.policy {
        Policy::Error => Resolved::Refused,
        Policy::Zero => Resolved::Nothing,
        Policy::DefaultRow(row) if row < feature.rows => Resolved::Row(row),
        Policy::DefaultRow(_) => Resolved::Refused,
        Policy::Modulo => Resolved::Row(id.rem_euclid(feature.rows as i32) as u32),
    }
}

/// What addresses are made of.
pub(crate) struct Inputs<'a> {
    pub plan: &'a Plan,
    pub version: &'a Version,
    pub ids: &'a [AtomicI32],
    /// The bits of a float32 for each id.
    pub weights: Option<&'a [AtomicI32]>,
    /// Lengths of bags where they differ, `[features, batch]`.
    pub lengths: Option<&'a [u32]>,
    pub batch: usize,
}

/// Rows in the order in which they are added: those of one block, then of the next.
#[derive(Default)]
pub(crate) struct Rows {
    pub addresses: Vec<*const u8>,
    /// One for each address, or none at all.
    pub weights: Vec<f32>,
}

// SAFETY: addresses are only followed inside a call, which keeps their version.
unsafe impl Send for Rows {}

impl Rows {
    pub fn clear(&mut self) {
        self.addresses.clear();
        self.weights.clear();
    }

    /// Makes the block after the first `rows` the first one.
    pub fn drop_first(&mut self, rows: usize) {
        self.addresses.copy_within(rows.., 0);
        self.addresses.truncate(self.addresses.len() - rows);
        if !self.weights.is_empty() {
            self.weights.copy_within(rows.., 0);
            self.weights.truncate(self.addresses.len());
        }
    }
}

/// Which of the rows are whose: a block is some examples, feature by feature.
#[derive(Default)]
pub(crate) struct Block {
    /// Where each bag ends in the rows of this block: all bags of the first feature, then of the next.
    pub ends: Vec<u32>,
    pub rows: usize,
}

/// Appends the rows of some examples to `rows` and says where bags end. `cursors` are where each feature's next id stands. `Err` is the
/// index of an id that is refused.
pub(crate) fn resolve_block(
    inputs: &Inputs<'_>,
    cursors: &mut [usize],
    examples: Range<usize>,
    rows: &mut Rows,
    block: &mut Block,
) -> Result<(), usize> {
    let base = rows.addresses.len();
    block.ends.clear();
    for (at, (feature, cursor)) in inputs.plan.features.iter().zip(cursors).enumerate() {
        if inputs.lengths.is_none() && inputs.weights.is_none() {
            let ids = &inputs.ids[*cursor..*cursor + examples.len() * feature.hot_size];
            if append_rows(feature, &inputs.version.tables[feature.table], ids, &mut rows.addresses) {
                *cursor += ids.len();
                let first = rows.addresses.len() - base - ids.len();
                block.ends.extend((1..=examples.len()).map(|bag| (first + bag * feature.hot_size) as u32));
                continue;
            }
        }
        resolve_bags(inputs, at, cursor, examples.clone(), base, rows, &mut block.ends)?;
    }
    block.rows = rows.addresses.len() - base;
    Ok(())
}

/// Appends the rows of ids that all have one. If one has none, nothing is appended, and the answer is false.
#[inline(always)]
fn append_rows(feature: &PlannedFeature, table: &TableVersion, ids: &[AtomicI32], addresses: &mut Vec<*const u8>) -> bool {
    let mut all_are_rows = true;
    let mut row_of = |id: &AtomicI32| {
        let id = id.load(Ordering::Relaxed) as u32;
        all_are_rows &= id < feature.rows;
        // Any row for an id that has none: the addresses are taken back below.
        if id < feature.rows { id } else { 0 }
    };
    let before = addresses.len();
    match table.contiguous() {
        Some(first) => {
            let row_bytes = feature.row_bytes;
            addresses.extend(ids.iter().map(|id| first.wrapping_add(row_of(id) as usize * row_bytes)));
        }
        // SAFETY: `row_of` gives rows of the table only.
        None => addresses.extend(ids.iter().map(|id| unsafe { table.row(row_of(id)) })),
    }
    if !all_are_rows {
        addresses.truncate(before);
    }
    all_are_rows
}

/// `resolve_block` for the bags of one feature, id by id.
fn resolve_bags(
    inputs: &Inputs<'_>,
    at: usize,
    cursor: &mut usize,
    examples: Range<usize>,
    base: usize,
    rows: &mut Rows,
    ends: &mut Vec<u32>,
) -> Result<(), usize> {
    let feature = &inputs.plan.features[at];
    let table = &inputs.version.tables[feature.table];
    for example in examples {
        let length = inputs.lengths.map_or(feature.hot_size, |lengths| lengths[at * inputs.batch + example] as usize);
        let bag = &inputs.ids[*cursor..*cursor + length];
        for (position, id) in bag.iter().enumerate() {
            let row = match resolve(feature, id.load(Ordering::Relaxed)) {
                Resolved::Row(row) => row,
                Resolved::Nothing => continue,
                Resolved::Refused => return Err(*cursor + position),
            };
            // SAFETY: `resolve` gives rows of the table only.
            rows.addresses.push(unsafe { table.row(row) });
            if let Some(weights) = inputs.weights {
                rows.weights.push(f32::from_bits(weights[*cursor + position].load(Ordering::Relaxed) as u32));
            }
        }
        *cursor += length;
        ends.push((rows.addresses.len() - base) as u32);
    }
    Ok(())
}
