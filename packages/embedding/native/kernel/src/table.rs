//! What a table is.

use std::path::PathBuf;

/// How a row's elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE binary32.
    Float32,
    /// IEEE binary16.
    Float16,
    /// The upper half of a binary32.
    Bfloat16,
    /// `dim` uint8 codes, then float32 scale and bias.
    Int8,
    /// Two uint4 codes a byte, the even element in the low half, then float16 scale and bias.
    Int4,
}

impl Dtype {
    /// Bytes of one row.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            Dtype::Float32 => dim * 4,
            Dtype::Float16 | Dtype::Bfloat16 => dim * 2,
            Dtype::Int8 => dim + 8,
            Dtype::Int4 => dim.div_ceil(2) + 4,
        }
    }
}

/// What an id without a row means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The call is refused.
    Error,
    /// It adds nothing.
    Zero,
    /// This row stands in.
    DefaultRow(u32),
    /// Row `id mod rows`, the non-negative remainder.
    Modulo,
}

/// Where a table's rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Read from `offset` of a file on.
    File {
        /// The file.
        path: PathBuf,
        /// Position of the first row's first byte.
        offset: u64,
    },
    /// Given through [`crate::Builder::write`]; zeros where nothing is.
    Memory,
}

/// A table to be built.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// For messages.
    pub name: String,
    /// 1 …= `i32::MAX`.
    pub rows: u32,
    /// Elements of a row, at least 1.
    pub dim: u32,
    /// How elements are stored.
    pub dtype: Dtype,
    /// What ids without a row mean.
    pub policy: Policy,
    /// Where rows come from.
    pub source: Source,
}

impl TableSpec {
    /// Bytes from one row to the next.
    pub fn row_bytes(&self) -> usize {
        self.dtype.row_bytes(self.dim as usize)
    }

    /// Bytes of all rows.
    pub fn table_bytes(&self) -> usize {
        self.row_bytes() * self.rows as usize
    }
}
