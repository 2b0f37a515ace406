//! From ids to addresses of rows.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::plan::{Plan, PlannedFeature};
use crate::store::Version;
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

/// Addresses of the rows of some examples, feature by feature.
#[derive(Default)]
pub(crate) struct Block {
    /// Where each bag ends in the addresses of this block: all bags of the first feature, then of the next.
    pub ends: Vec<u32>,
    pub rows: usize,
}

/// Appends the addresses of the next `examples` to `addresses` and says where bags end. `cursors` are where each feature's next id
/// stands, `lengths` those of the next examples' bags where they differ, one slice a feature. `Err` is the index of an id that is refused.
#[allow(clippy::too_many_arguments)]
pub(crate) fn resolve_block<'l>(
    plan: &Plan,
    version: &Version,
    ids: &[AtomicI32],
    lengths: impl Fn(usize) -> Option<&'l [u32]>,
    cursors: &mut [usize],
    examples: usize,
    addresses: &mut Vec<*const u8>,
    block: &mut Block,
) -> Result<(), usize> {
    let base = addresses.len();
    block.ends.clear();
    for (at, (feature, cursor)) in plan.features.iter().zip(cursors).enumerate() {
        let table = &version.tables[feature.table];
        let lengths = lengths(at);
        for example in 0..examples {
            let length = lengths.map_or(feature.hot_size, |lengths| lengths[example] as usize);
            let bag = &ids[*cursor..*cursor + length];
            for (position, id) in bag.iter().enumerate() {
                match resolve(feature, id.load(Ordering::Relaxed)) {
                    // SAFETY: `resolve` gives rows of the table only.
                    Resolved::Row(row) => addresses.push(unsafe { table.row(row) }),
                    Resolved::Nothing => {}
                    Resolved::Refused => return Err(*cursor + position),
                }
            }
            *cursor += length;
            block.ends.push((addresses.len() - base) as u32);
        }
    }
    block.rows = addresses.len() - base;
    Ok(())
}
