//! Embedding tables in host memory, and gather-and-pool over them.
//!
//! ```text
//! row(f, b, h) = resolve(table[f], ids[batch * hot_before[f] + b * hot_size[f] + h])
//! if any resolve() is an error: the index of the first such id; nothing is written, no table memory is read
//! for f in features, b in 0 .. batch:
//!   sum[0 .. dim] = 0, shift = 0
//!   for h in 0 .. hot_size[f], ids that resolve to no row left out:
//!     sum[d] += value(row, d)            // float32, float16, bfloat16
//!     sum[d] += scale(row) * code(row, d), shift += bias(row)    // int8, int4
//!     with weights, w the id's: sum[d] += w * value(row, d), or sum[d] += (w * scale(row)) * code(row, d), shift += w * bias(row)
//!   output[(output_row + b) * output_width + column[f] + d] = sum[d] + shift    // mean: divided by the rows added
//! ```
//!
//! All arithmetic is float32, in the order of `h`, nothing fused, and the first term is stored rather than added to zero: every
//! instruction set gives the same bits.

mod format;
mod gather;
mod load;
mod memory;
mod plan;
mod pool;
mod prefetch;
mod prefetch_trial;
mod resolve;
mod simd;
mod store;
mod table;

pub use gather::{Call, Outcome, OutputView, Scratch, find_out_of_vocabulary, gather};
pub use load::{LoadError, LoadProgress, load_tables};
pub use plan::{Feature, Plan, Pooling};
pub use simd::Level;
pub use store::{Builder, Store, Update};
pub use table::{Dtype, Policy, Source, TableSpec};
