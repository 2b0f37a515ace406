//! Node-API binding of the embedding kernels: conversions, lifetimes and nothing else.

#![deny(clippy::all)]

mod arrays;
mod loader;
mod session;

use napi_derive::napi;

/// Grows whenever the binding's functions change: a library built from other sources is refused by the loader.
#[napi]
pub const BINDING_VERSION: u32 = 4;

/// Names of the instruction sets this CPU runs, slowest first.
#[napi]
pub fn levels() -> Vec<String> {
    dlrm_embedding_kernel::Level::available().into_iter().map(|level| level.name().to_owned()).collect()
}
