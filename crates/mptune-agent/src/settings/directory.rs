//! Directories that settings need: the one in the BPF file system that keeps congestion controls registered, and
//! those of mptune's files. Made for them only, and gone with them.

use super::congestion;
use crate::undo::directory::give;
use crate::undo::kind::{Error, Kind, State};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::PathBuf;

/// Everybody may look into it: the daemon, which is not root, reads files there.
const RIGHTS: u32 = 0o755;

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

    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        steps::changed();
        let given = fs::File::open(&self.path).and_then(|directory| give(&directory, RIGHTS));
        given.inspect_err(|_| drop(fs::remove_dir(&self.path)))
    }

    fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)?;
        steps::changed();
        Ok(())
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
            State::Present => self.make(),
            _ => self.remove(),
        };
        done.map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => {
                Error::impossible(self.shown_path(), "others use it")
            }
            _ => Error::file(self.shown_path(), error),
        })
    }

    fn as_order(&self, state: &State) -> Value {
        let path = self.shown_path();
        match state {
            State::Present => json!({"kind": "directory", "path": path}),
            _ => json!({"kind": "directory", "path": path, "absent": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn everybody_can_look_into_it_whatever_the_umask() {
        let name = "settings::directory::tests::everybody_can_look_into_it_whatever_the_umask";
        if !testing::under_umask("077", name) {
            return;
        }
        let path = std::env::temp_dir().join(format!("mptune-setting-{}", std::process::id()));
        let directory = Directory { path: path.clone() };
        directory.step(&State::Absent, &State::Present).unwrap();
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        directory.step(&State::Present, &State::Absent).unwrap();
        assert_eq!((mode, path.exists()), (0o755, false));
    }
}
