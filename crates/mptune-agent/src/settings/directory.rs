//! Directories that settings need: the one in the BPF file system that keeps congestion controls registered, and
//! those of mptune's files. Made for them only, and gone with them.

use super::congestion;
use crate::undo::kind::{Error, Kind, State};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
}

impl Directory {
    /// True if it keeps congestion controls, which end with the machine.
    pub fn is_of_bpf(&self) -> bool {
        self.path == congestion::pins()
    }

    fn shown_path(&self) -> String {
        self.path.display().to_string()
    }
}

impl Kind for Directory {
    fn name(&self) -> String {
        format!("directory {}", self.path.display())
    }

    fn rank(&self) -> u8 {
        0
    }

    fn read(&self) -> Result<State, Error> {
        match fs::symlink_metadata(&self.path) {
            Ok(about) if about.is_dir() => Ok(State::Present),
            Ok(_) => Err(Error::impossible(self.shown_path(), "expected a directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
            Err(error) => Err(Error::file(self.shown_path(), error)),
        }
    }

    fn target(&self, _present: &State, _known: &[State]) -> Result<State, Error> {
        Ok(State::Present)
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        let done = match to {
            State::Present => fs::create_dir(&self.path),
            _ => fs::remove_dir(&self.path),
        };
        done.map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => {
                Error::impossible(self.shown_path(), "others use it")
            }
            _ => Error::file(self.shown_path(), error),
        })?;
        steps::changed();
        Ok(())
    }

    fn as_order(&self, state: &State) -> Value {
        let path = self.shown_path();
        match state {
            State::Present => json!({"kind": "directory", "path": path}),
            _ => json!({"kind": "directory", "path": path, "absent": true}),
        }
    }
}
