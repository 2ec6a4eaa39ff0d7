//! Failures to record a change or to put it back.

use super::kind;
use crate::kernel::error::plain;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Failure of a journal, of its lock, or of what watches over it.
#[derive(Debug, Error)]
pub enum Error {
    /// Another order is being carried out.
    #[error("another apply or rollback is running on this machine")]
    Busy,
    /// This user may not read the journal.
    #[error("settings of mptune are applied here, with files: only root may see which")]
    Hidden,
    /// A system call on a file or directory failed.
    #[error("{}: {}", .0.display(), plain(.1))]
    File(PathBuf, io::Error),
    /// A journal is not what this version writes.
    #[error("{}: {}", .0.display(), .1)]
    Content(PathBuf, serde_json::Error),
    /// A journal of another version.
    #[error("{}: expected version {expected}, found {found}: use the mptune that wrote it", .file.display())]
    Version {
        /// The journal.
        file: PathBuf,
        /// The version that this program writes.
        expected: u32,
        /// The version of the file.
        found: u32,
    },
    /// The directory for journals cannot be used.
    #[error("{}: {} (the directory for what must not be forgotten)", .0.display(), .1)]
    Directory(PathBuf, io::Error),
    /// The process that would revert unconfirmed settings cannot be started.
    #[error("nothing can wait for a confirmation: {0}")]
    Unguarded(io::Error),
    /// A session, or a daemon, has the lock of this network namespace.
    #[error("another {holder} is running in this network namespace: process {pid}")]
    Taken {
        /// Its kind, in a word.
        holder: &'static str,
        /// Number of its process.
        pid: u32,
    },
    /// The last holder has ended, and its guardian has not.
    #[error("the last {0} in this network namespace has not ended yet")]
    Ending(&'static str),
    /// A system call on the lock of this holder failed.
    #[error("the {0}'s lock: {1}")]
    Lock(&'static str, io::Error),
    /// A signal ended the wait for the lock.
    #[error("ended by {0}")]
    Signal(&'static str),
    /// A setting cannot be read or made.
    #[error(transparent)]
    Setting(#[from] kind::Error),
}

impl Error {
    /// A system call failed on a file or directory.
    pub fn io(path: &Path, error: io::Error) -> Self {
        Self::File(path.to_owned(), error)
    }

    /// This user may not write a setting.
    pub fn is_denied(&self) -> bool {
        let Self::Setting(kind::Error::File { error, .. }) = self else { return false };
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}
