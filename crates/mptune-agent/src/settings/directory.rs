//! Directories that settings need: the one in the BPF file system that keeps congestion controls registered, and
//! those of mptune's files. Made for them only, and gone with them.

use super::congestion;
use crate::undo::kind::{Kind, State};
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
    /// Where it is.
    pub path: PathBuf,
}

impl Directory {
    /// Whether it keeps congestion controls, which end with the machine.
    pub fn is_of_bpf(&self) -> bool {
        self.path == congestion::pins()
    }

    fn named(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }
}

impl Kind for Directory {
    fn name(&self) -> String {
        format!("directory {}", self.path.display())
    }

    fn rank(&self) -> u8 {
        0
    }

    fn read(&self) -> Result<State, String> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_dir() => Ok(State::Present),
            Ok(_) => Err(format!("{}: expected a directory", self.path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
            Err(error) => Err(self.named(&error)),
        }
    }

    fn wanted(&self, _present: &State, _known: &[State]) -> Result<State, String> {
        Ok(State::Present)
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), String> {
        let done = match to {
            State::Present => fs::create_dir(&self.path),
            _ => fs::remove_dir(&self.path),
        };
        done.map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => format!("{}: others use it", self.path.display()),
            _ => self.named(&error),
        })?;
        steps::changed();
        Ok(())
    }

    fn shown(&self, state: &State) -> Value {
        let path = self.path.display().to_string();
        match state {
            State::Present => json!({"kind": "directory", "path": path}),
            _ => json!({"kind": "directory", "path": path, "absent": true}),
        }
    }
}
