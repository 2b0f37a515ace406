//! Filling tables.

use std::sync::{Arc, Mutex, PoisonError};

use dlrm_embedding_kernel::{Builder, Dtype, LoadError, LoadProgress, Policy, Source, TableSpec, load_tables};
use napi::bindgen_prelude::{AsyncTask, Unknown};
use napi::{Env, Error, Result, Task};
use napi_derive::napi;

use crate::arrays::Elements;
use crate::session::Session;

/// A table to be filled.
#[napi(object, object_to_js = false)]
pub struct NativeTable {
    /// For messages.
    pub name: String,
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub dim: u32,
    /// `float32`, `float16`, `bfloat16`, `int8` or `int4`.
    pub dtype: String,
    /// `error`, `zero`, `default-row` or `modulo`.
    pub policy: String,
    /// The row of `default-row`.
    pub default_row: u32,
    /// The file, or nothing if rows are given by `write`.
    pub path: Option<String>,
    /// Where in the file rows start.
    pub offset: f64,
}

/// An error that the TypeScript side takes apart again: its code, a bar, and the message.
pub(crate) fn error(code: &str, message: impl std::fmt::Display) -> Error {
    Error::from_reason(format!("{code}|{message}"))
}

/// Tables that are being filled.
#[napi]
pub struct Loader {
    builder: Arc<Mutex<Option<Builder>>>,
    progress: Arc<LoadProgress>,
}

#[napi]
impl Loader {
    /// Takes memory for all tables; with `map_files`, maps those of files instead.
    #[napi(constructor, catch_unwind)]
    pub fn new(tables: Vec<NativeTable>, map_files: bool, interleave: bool) -> Result<Loader> {
        let specs = tables.into_iter().map(spec_of).collect::<Result<Vec<_>>>()?;
        let builder = Builder::new(specs, map_files, interleave).map_err(|message| error("io", message))?;
        Ok(Loader { builder: Arc::new(Mutex::new(Some(builder))), progress: Arc::default() })
    }

    /// Reads the tables that come from files.
    #[napi(catch_unwind)]
    pub fn load(&self, threads: u32) -> AsyncTask<Load> {
        let (builder, progress) = (self.builder.clone(), self.progress.clone());
        AsyncTask::new(Load { builder, progress, threads: threads as usize })
    }

    /// Puts bytes into a table that comes from memory.
    #[napi(catch_unwind)]
    pub fn write(&self, env: Env, table: u32, at: f64, bytes: Unknown<'_>) -> Result<()> {
        // SAFETY: used within this call only, which no JavaScript of this thread interrupts.
        let Some(bytes) = Elements::of(&env, &bytes).and_then(|elements| unsafe { elements.as_bytes() }) else {
            return Err(error("invalid_argument", "bytes are no Uint8Array"));
        };
        match self.builder.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(builder) => {
                builder.write(table as usize, at as usize, bytes).map_err(|message| error("invalid_argument", message))
            }
            None => Err(error("closed", "the tables are finished")),
        }
    }

    /// Bytes read so far.
    #[napi(catch_unwind)]
    pub fn loaded_bytes(&self) -> f64 {
        self.progress.loaded_bytes() as f64
    }

    /// Makes `load` end soon, rejected with the code `aborted`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.progress.cancel();
    }

    /// The tables, to be used.
    #[napi(catch_unwind)]
    pub fn finish(&self) -> Result<Session> {
        match self.builder.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(builder) => Ok(Session::new(Arc::new(builder.finish()))),
            None => Err(error("closed", "the tables are finished")),
        }
    }
}

/// Reads tables, off the event loop.
pub struct Load {
    builder: Arc<Mutex<Option<Builder>>>,
    progress: Arc<LoadProgress>,
    threads: usize,
}

impl Task for Load {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<()> {
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(builder) = builder.as_mut() else { return Err(error("closed", "the tables are finished")) };
        load_tables(builder, self.threads.max(1), &self.progress).map_err(|failure| match failure {
            LoadError::Io(path, cause) => error("io", format!("cannot read {}: {cause}", path.display())),
            LoadError::Truncated { path, table, offset } => error(
                "invalid_file",
                format!("{}: is truncated: table {table:?} ended at offset {offset} while reading", path.display()),
            ),
            LoadError::Cancelled => error("aborted", "loading tables was aborted"),
        })
    }

    fn resolve(&mut self, _env: Env, (): ()) -> Result<()> {
        Ok(())
    }
}

fn spec_of(table: NativeTable) -> Result<TableSpec> {
    let dtype = match table.dtype.as_str() {
        "float32" => Dtype::Float32,
        "float16" => Dtype::Float16,
        "bfloat16" => Dtype::Bfloat16,
        "int8" => Dtype::Int8,
        "int4" => Dtype::Int4,
        other => return Err(error("invalid_table", format!("dtype {other:?}"))),
    };
    let policy = match table.policy.as_str() {
        "error" => Policy::Error,
        "zero" => Policy::Zero,
        "default-row" => Policy::DefaultRow(table.default_row),
        "modulo" => Policy::Modulo,
        other => return Err(error("invalid_argument", format!("policy {other:?}"))),
    };
    let source = match table.path {
        Some(path) => Source::File { path: path.into(), offset: table.offset as u64 },
        None => Source::Memory,
    };
    Ok(TableSpec { name: table.name, rows: table.rows, dim: table.dim, dtype, policy, source })
}
