//! A congestion control that the kernel lacks: registered, and kept by a pin in the BPF file system, so that
//! it stays when this process ends.
//!
//! The pin is where `mptune cc load` has it, for every program of this machine. What loads it is in
//! `crate::congestion`.

use crate::congestion::{self, Program};
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";
/// Instead of it, for tests.
const VARIABLE: &str = "MPTUNE_BPF_FILE_SYSTEM";
/// `BPF_FS_MAGIC` (include/uapi/linux/magic.h), as mountinfo names the file system.
const KIND: &str = "bpf";
/// Time for the kernel to forget one that no process holds any more.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// A congestion control, by its name in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Congestion {
    /// Its name.
    pub name: String,
    /// The program, base64; not in the journal, which only has to take it away.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
}

fn file_system() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| FILE_SYSTEM.into(), PathBuf::from)
}

/// The directory of the pins.
pub fn pins() -> PathBuf {
    file_system().join("mptune")
}

/// True if a BPF file system is mounted there.
fn mounted(on: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        fields.get(1).is_some_and(|&path| Path::new(path) == on) && fields.get(2) == Some(&KIND)
    })
}

impl From<congestion::Error> for Error {
    fn from(error: congestion::Error) -> Self {
        Self::Other(Box::new(error))
    }
}

impl Congestion {
    fn pin(&self) -> PathBuf {
        pins().join(&self.name)
    }

    fn shown_pin(&self) -> String {
        self.pin().display().to_string()
    }

    /// Waits until the kernel has forgotten it; it is not forgotten while programs use it.
    fn forgotten(&self) -> bool {
        let end = Instant::now() + PATIENCE;
        while congestion::known(&self.name) {
            if Instant::now() > end {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }

    fn impossible(&self, obstacle: impl Into<String>) -> Error {
        Error::impossible(&self.name, obstacle)
    }

    fn keep(&self) -> Result<(), Error> {
        let file_system = file_system();
        if !mounted(&file_system) {
            let path = file_system.display();
            return Err(self.impossible(format!("no BPF file system: mount -t bpf bpf {path}")));
        }
        congestion::possible().map_err(|error| self.impossible(error.to_string()))?;
        // One that was just taken away may not be gone yet.
        if !self.forgotten() {
            return Err(self.impossible("another program has registered it and may end"));
        }
        let program = Program { name: self.name.clone(), object: self.object.clone() };
        let held = congestion::register(&program)?;
        steps::changed();
        congestion::pin(&held, &self.pin())
            .map_err(|error| Error::impossible(self.shown_pin(), error.to_string()))?;
        steps::changed();
        Ok(())
    }

    fn release(&self) -> Result<(), Error> {
        fs::remove_file(self.pin()).map_err(|error| Error::file(self.shown_pin(), error))?;
        steps::changed();
        Ok(())
    }
}

impl Kind for Congestion {
    fn name(&self) -> String {
        format!("congestion {}", self.name)
    }

    fn rank(&self) -> u8 {
        1
    }

    fn check(&self) -> Result<(), Error> {
        Ok(congestion::check_name(&self.name)?)
    }

    fn read(&self) -> Result<State, Error> {
        match fs::symlink_metadata(self.pin()) {
            Ok(_) => Ok(State::Present),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
            Err(error) => Err(Error::file(self.shown_pin(), error)),
        }
    }

    fn target(&self, present: &State, _known: &[State]) -> Result<State, Error> {
        if *present != State::Present && self.object.is_empty() {
            let place = format!("{}: object", self.name());
            return Err(Error::unexpected(place, "a program", "none"));
        }
        Ok(State::Present)
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        match to {
            State::Present => self.keep(),
            State::Absent => self.release(),
            _ => Err(Error::unexpected(self.name(), "to be there or not", words(to))),
        }
    }

    fn settle(&self, state: &State) {
        if *state == State::Absent {
            self.forgotten();
        }
    }

    fn as_order(&self, state: &State) -> Value {
        match state {
            State::Present => json!({"kind": "congestion", "name": self.name}),
            _ => json!({"kind": "congestion", "name": self.name, "absent": true}),
        }
    }
}
