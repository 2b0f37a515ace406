//! Reading tables from files, several threads at a time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::prefetch_trial;
use crate::simd::Level;
use crate::store::Builder;
use crate::table::Source;

/// How far a load is, for other threads to see and to stop.
#[derive(Default)]
pub struct LoadProgress {
    loaded_bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl LoadProgress {
    /// Bytes that are in their place.
    pub fn loaded_bytes(&self) -> u64 {
        self.loaded_bytes.load(Ordering::Relaxed)
    }

    /// Makes the load end soon, with [`LoadError::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Why tables were not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The system refused.
    Io(PathBuf, io::Error),
    /// A file ended inside a table.
    Truncated {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// Where the file ended.
        offset: u64,
    },
    /// [`LoadProgress::cancel`] was called.
    Cancelled,
}

/// Pieces this large make threads end together, and calls cheap.
const PIECE_BYTES: usize = 8 * 1024 * 1024;

struct Piece<'a> {
    table: usize,
    path: &'a Path,
    file: &'a File,
    offset: u64,
    start: usize,
    len: usize,
}

/// Reads all tables that come from files into their memory, and finds out how rows are best asked for there.
pub fn load_tables(builder: &mut Builder, threads: usize, progress: &LoadProgress) -> Result<(), LoadError> {
    if builder.mapped {
        return Ok(());
    }
    let mut files: Vec<(PathBuf, File)> = Vec::new();
    for spec in &builder.tables {
        if let Source::File { path, .. } = &spec.source
            && !files.iter().any(|(known, _)| known == path)
        {
            let file = File::open(path).map_err(|error| LoadError::Io(path.clone(), error))?;
            files.push((path.clone(), file));
        }
    }
    let mut pieces = Vec::new();
    for (table, spec) in builder.tables.iter().enumerate() {
        let Source::File { path, offset } = &spec.source else { continue };
        let Some((_, file)) = files.iter().find(|(known, _)| known == path) else { continue };
        for start in (0..spec.table_bytes()).step_by(PIECE_BYTES) {
            let len = PIECE_BYTES.min(spec.table_bytes() - start);
            pieces.push(Piece { table, path, file, offset: offset + start as u64, start, len });
        }
    }
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let filled = &*builder;
    let work = || {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let memory = &filled.memories[piece.table];
            // SAFETY: the piece lies in the table's memory, no other piece overlaps it, and nobody else knows the memory yet: the
            // builder is borrowed mutably by the caller. Anonymous memory is initialized (zeros).
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().add(piece.start), piece.len) };
            let done = if progress.cancelled.load(Ordering::Relaxed) {
                Err(LoadError::Cancelled)
            } else {
                read_piece(piece, bytes, &filled.tables[piece.table].name)
            };
            if let Err(error) = done {
                next.store(pieces.len(), Ordering::Relaxed);
                failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                return;
            }
            progress.loaded_bytes.fetch_add(piece.len as u64, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(pieces.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    builder.prefetch = prefetch_trial::fastest(&builder.memories, Level::best());
    if progress.cancelled.load(Ordering::Relaxed) { Err(LoadError::Cancelled) } else { Ok(()) }
}

fn read_piece(piece: &Piece<'_>, bytes: &mut [u8], table: &str) -> Result<(), LoadError> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(piece.file, &mut bytes[done..], piece.offset + done as u64) {
            Ok(0) => {
                return Err(LoadError::Truncated {
                    path: piece.path.to_owned(),
                    table: table.to_owned(),
                    offset: piece.offset + done as u64,
                });
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LoadError::Io(piece.path.to_owned(), error)),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(test)]
mod tests {
    use super::{LoadError, LoadProgress, load_tables};
    use crate::store::Builder;
    use crate::table::{Dtype, Policy, Source, TableSpec};

    #[test]
    fn a_load_that_is_cancelled_after_its_last_read_ends_as_cancelled() {
        let spec =
            TableSpec { name: "a".into(), rows: 1, dim: 1, dtype: Dtype::Float32, policy: Policy::Error, source: Source::Memory };
        let mut builder = Builder::new(vec![spec], false, false).expect("a builder");
        let progress = LoadProgress::default();
        progress.cancel();
        assert!(matches!(load_tables(&mut builder, 1, &progress), Err(LoadError::Cancelled)));
    }
}
