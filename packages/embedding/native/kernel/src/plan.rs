//! A list of features, laid out over ids and output.

use crate::store::Store;
use crate::table::{Dtype, Policy};

/// How a bag's rows become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their sum.
    Sum,
    /// Their sum divided by their number; zeros for an empty bag.
    Mean,
}

/// One feature: a table, and the ids an example has in it.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Index of the table.
    pub table: u32,
    /// Ids of one example.
    pub hot_size: u32,
    /// How they are pooled.
    pub pooling: Pooling,
}

/// A feature with its place worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedFeature {
    pub table: usize,
    pub hot_size: usize,
    pub hot_before: usize,
    pub column: usize,
    pub dim: usize,
    pub dtype: Dtype,
    pub row_bytes: usize,
    pub rows: u32,
    pub policy: Policy,
    pub pooling: Pooling,
}

/// Features laid out over the tables of one store.
#[derive(Debug)]
pub struct Plan {
    pub(crate) features: Vec<PlannedFeature>,
    pub(crate) ids_per_example: usize,
    pub(crate) output_width: usize,
    pub(crate) store: u64,
}

impl Plan {
    /// Lays `features` out. `None` if one names a table the store does not have, or sizes overflow.
    pub fn new(store: &Store, features: &[Feature]) -> Option<Plan> {
        let mut planned = Vec::with_capacity(features.len());
        let mut hot_before = 0u32;
        let mut column = 0u32;
        for feature in features {
            let table = store.tables().get(feature.table as usize)?;
            planned.push(PlannedFeature {
                table: feature.table as usize,
                hot_size: feature.hot_size as usize,
                hot_before: hot_before as usize,
                column: column as usize,
                dim: table.dim as usize,
                dtype: table.dtype,
                row_bytes: table.row_bytes(),
                rows: table.rows,
                policy: table.policy,
                pooling: feature.pooling,
            });
            hot_before = hot_before.checked_add(feature.hot_size)?;
            column = column.checked_add(table.dim)?;
        }
        if hot_before > i32::MAX as u32 || column > i32::MAX as u32 {
            return None;
        }
        Some(Plan { features: planned, ids_per_example: hot_before as usize, output_width: column as usize, store: store.id() })
    }

    /// Sum of the hot sizes.
    pub fn ids_per_example(&self) -> usize {
        self.ids_per_example
    }

    /// Sum of the dims: elements of an output row.
    pub fn output_width(&self) -> usize {
        self.output_width
    }
}
