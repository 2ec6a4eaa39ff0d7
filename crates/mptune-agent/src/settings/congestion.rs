//! A congestion control that the kernel lacks: registered, and kept by a pin in the BPF file system, so that
//! it stays when this process ends.
//!
//! The pin is where `mptune cc load` has it, for every program of this machine. What loads it is in
//! `crate::congestion`.

use crate::congestion::{self, Program};
use crate::undo::kind::{Kind, State, words};
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
/// How long the kernel may need to forget one that nobody holds any more.
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

/// Where the pins are.
pub fn pins() -> PathBuf {
    file_system().join("mptune")
}

/// Whether a BPF file system is mounted there.
fn mounted(on: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        fields.get(1).is_some_and(|&path| Path::new(path) == on) && fields.get(2) == Some(&KIND)
    })
}

impl Congestion {
    fn pin(&self) -> PathBuf {
        pins().join(&self.name)
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

    fn keep(&self) -> Result<(), String> {
        let file_system = file_system();
        if !mounted(&file_system) {
            let path = file_system.display();
            return Err(format!("{}: no BPF file system: mount -t bpf bpf {path}", self.name));
        }
        congestion::possible().map_err(|error| format!("{}: {error}", self.name))?;
        // One that was just taken away may not be gone yet.
        if !self.forgotten() {
            return Err(format!("{}: another program has registered it and may end", self.name));
        }
        let program = Program { name: self.name.clone(), object: self.object.clone() };
        let held = congestion::register(&program).map_err(|error| error.to_string())?;
        steps::changed();
        congestion::pin(&held, &self.pin())
            .map_err(|reason| format!("{}: {reason}", self.pin().display()))?;
        steps::changed();
        Ok(())
    }

    fn release(&self) -> Result<(), String> {
        let pin = self.pin();
        fs::remove_file(&pin).map_err(|error| format!("{}: {error}", pin.display()))?;
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

    fn check(&self) -> Result<(), String> {
        congestion::check_name(&self.name).map_err(|error| error.to_string())
    }

    fn read(&self) -> Result<State, String> {
        match fs::symlink_metadata(self.pin()) {
            Ok(_) => Ok(State::Present),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
            Err(error) => Err(format!("{}: {error}", self.pin().display())),
        }
    }

    fn wanted(&self, present: &State, _known: &[State]) -> Result<State, String> {
        if *present != State::Present && self.object.is_empty() {
            return Err(format!(
                "congestion {}: object: expected a program, found none",
                self.name
            ));
        }
        Ok(State::Present)
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), String> {
        match to {
            State::Present => self.keep(),
            State::Absent => self.release(),
            _ => Err(format!("{}: expected to be there or not, found {}", self.name(), words(to))),
        }
    }

    fn settle(&self, state: &State) {
        if *state == State::Absent {
            self.forgotten();
        }
    }

    fn shown(&self, state: &State) -> Value {
        match state {
            State::Present => json!({"kind": "congestion", "name": self.name}),
            _ => json!({"kind": "congestion", "name": self.name, "absent": true}),
        }
    }
}
