//! Why nothing can be noted or put back, one readable line each.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a journal is of no use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Another order is being carried out.
    Busy,
    /// This user may not read it.
    Hidden,
    /// A file or directory: what is wrong with it.
    File(PathBuf, String),
    /// Nothing would put it back.
    Unguarded(String),
}

impl Error {
    /// A system call failed on a file or directory.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let words = error.to_string();
        let words = words.split(" (os error").next().unwrap_or_default();
        Self::File(path.to_owned(), words.to_owned())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another apply or rollback is at work on this machine"),
            Self::Hidden => f.write_str(
                "settings of mptune are applied here, with files: only root may see which",
            ),
            Self::File(path, words) => write!(f, "{}: {words}", path.display()),
            Self::Unguarded(words) => write!(f, "nothing can wait for a confirmation: {words}"),
        }
    }
}
