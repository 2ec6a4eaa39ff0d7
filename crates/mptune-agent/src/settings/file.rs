//! A file of mptune's own: what its daemon reads. Written in one piece, on the disk before anything goes on,
//! and put back with its rights and its owner; one that was not there goes again.
//!
//! Unlike all other settings it outlives a restart of the machine. Its number (inode) and its times are not put
//! back. The directories that it needs are settings too (`directory`).

use crate::files;
use crate::kernel::sys;
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File as Open, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

/// Directories of files: the last directory of each is mptune's.
const PLACES: [&str; 2] = ["/etc/mptune", "/var/lib/mptune/policies"];
/// Directories that every system has.
const THERE: [&str; 2] = ["/etc", "/var/lib"];
/// Rights of a new one, and while it is written.
const READABLE: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// The bits of a mode that are rights.
const RIGHTS: u32 = 0o7777;
/// A larger one is nothing that mptune wrote.
const LARGEST: u64 = 1 << 20;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path.
    pub path: PathBuf,
    /// Its content as ordered; the journal has it as a state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// It is not to be there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// The socket of the program that is asked to read it again when it has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<PathBuf>,
}

impl File {
    /// The same without its content.
    pub fn noted(&self) -> Self {
        Self { content: None, ..self.clone() }
    }

    /// The directories of mptune that it is in, the outermost first.
    pub fn directories(&self) -> Vec<PathBuf> {
        let all = self.path.ancestors().skip(1);
        let own =
            all.take_while(|directory| !THERE.iter().any(|there| *directory == Path::new(there)));
        let mut directories: Vec<_> = own.map(Path::to_owned).collect();
        directories.reverse();
        directories
    }

    /// It is the answer of a run as the daemon measured it again: the same is beside it in the new run
    /// (python/mptune/daemon/remeasure.py).
    pub fn is_renewed(&self, present: &State) -> bool {
        let State::File { content, .. } = present else { return false };
        let is_answer = self.path.file_name().is_some_and(|name| name == "policy.json");
        let run = self.directory().join("run");
        let noted = Self { path: run.join("renewed.json"), ..self.noted() };
        // Somebody else's link would lead elsewhere.
        let leads_here = fs::symlink_metadata(&run).is_ok_and(|about| about.is_dir());
        is_answer
            && leads_here
            && matches!(noted.state(), Ok(State::File { content: same, .. }) if same == *content)
    }

    fn shown_path(&self) -> String {
        self.path.display().to_string()
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The file while it is written.
    fn unfinished(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.directory().join(format!(".{name}.mptune-new"))
    }

    fn state(&self) -> io::Result<State> {
        let (content, about) = match files::read_with_metadata(&self.path, LARGEST) {
            Err(unread) if unread.is_missing() => return Ok(State::Absent),
            read => read?,
        };
        let (mode, owner, group) = (about.mode() & RIGHTS, about.uid(), about.gid());
        Ok(State::File { content, mode, owner, group })
    }

    fn write(&self, content: &[u8], mode: u32, owner: u32, group: u32) -> io::Result<()> {
        let new = self.unfinished();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(PRIVATE);
        let mut file = options.open(&new)?;
        steps::changed();
        file.write_all(content)?;
        steps::changed();
        let about = file.metadata()?;
        if (about.uid(), about.gid()) != (owner, group) {
            fchown(&file, Some(owner), Some(group))?;
            steps::changed();
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        steps::changed();
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        steps::changed();
        self.settled()
    }

    /// The directory is on the disk.
    fn settled(&self) -> io::Result<()> {
        Open::open(self.directory())?.sync_all()
    }
}

impl Kind for File {
    fn name(&self) -> String {
        format!("file {}", self.shown_path())
    }

    fn rank(&self) -> u8 {
        6
    }

    fn check(&self) -> Result<(), Error> {
        let path = self.shown_path();
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        // Components leave out dots and doubled slashes, which are no part of a name.
        let same = self.path.components().collect::<PathBuf>().as_os_str() == self.path.as_os_str();
        let below = |place: &&str| self.path.starts_with(place) && self.path != Path::new(place);
        if !same || !self.path.components().all(plain) || !PLACES.iter().any(below) {
            let expected = format!("a file below {}/", PLACES.join("/ or "));
            return Err(Error::unexpected("path", expected, path));
        }
        if self.absent == self.content.is_some() {
            return Err(Error::impossible(path, "expected one of content and absent"));
        }
        if self.content.as_ref().is_some_and(|text| text.len() as u64 > LARGEST) {
            let place = format!("{path}: content");
            return Err(Error::impossible(place, "expected at most 1 MiB"));
        }
        Ok(())
    }

    fn read(&self) -> Result<State, Error> {
        self.state().map_err(|error| Error::file(self.shown_path(), error))
    }

    fn target(&self, present: &State, _known: &[State]) -> Result<State, Error> {
        let Some(text) = &self.content else { return Ok(State::Absent) };
        let content = text.clone().into_bytes();
        Ok(match present {
            State::File { mode, owner, group, .. } => {
                State::File { content, mode: *mode, owner: *owner, group: *group }
            }
            _ => State::File { content, mode: READABLE, owner: sys::user(), group: sys::group() },
        })
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        self.tidy();
        let done = match to {
            State::File { content, mode, owner, group } => {
                self.write(content, *mode, *owner, *group).inspect_err(|_| self.tidy())
            }
            State::Absent => fs::remove_file(&self.path).and_then(|()| {
                steps::changed();
                self.settled()
            }),
            _ => Err(io::Error::other(format!("expected a file, found {}", words(to)))),
        };
        done.map_err(|error| Error::file(self.shown_path(), error))
    }

    fn tidy(&self) {
        if fs::remove_file(self.unfinished()).is_ok() {
            steps::changed();
        }
    }

    fn as_order(&self, state: &State) -> Value {
        let path = self.shown_path();
        match state {
            State::File { content, mode, owner, group } => {
                // Nobody but people reads one that is no text.
                let text = std::str::from_utf8(content).ok();
                json!({
                    "kind": "file", "path": path, "content": text, "bytes": content.len(),
                    "mode": format!("{mode:o}"), "owner": owner, "group": group,
                })
            }
            _ => json!({"kind": "file", "path": path, "absent": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.into(), content: Some("text".to_owned()), absent: false, reload: None }
    }

    #[test]
    fn only_files_of_mptune_are_written() {
        for good in ["/etc/mptune/policy.toml", "/var/lib/mptune/policies/a/policy.json"] {
            file(good).check().unwrap();
        }
        for bad in [
            "/etc/passwd",
            "/etc/mptune",
            "/etc/mptune/",
            "/etc/mptune/../passwd",
            "/etc/mptune/./policy.toml",
            "/etc//mptune/policy.toml",
            "/etc/mptuned/policy.toml",
            "/var/lib/mptune/applied.json",
            "etc/mptune/policy.toml",
        ] {
            let reason = file(bad).check().unwrap_err().to_string();
            assert!(reason.contains("expected a file below"), "{bad}");
        }
        let neither = File { content: None, ..file("/etc/mptune/x") };
        assert!(neither.check().unwrap_err().to_string().contains("content and absent"));
    }

    #[test]
    fn it_needs_the_directories_of_mptune_alone() {
        let directories = |path| file(path).directories();
        assert_eq!(directories("/etc/mptune/policy.toml"), [Path::new("/etc/mptune")]);
        let deep = ["/var/lib/mptune", "/var/lib/mptune/policies", "/var/lib/mptune/policies/a"];
        assert_eq!(directories("/var/lib/mptune/policies/a/policy.json"), deep.map(PathBuf::from));
    }

    #[test]
    fn a_new_one_is_readable_and_another_keeps_its_rights() {
        let setting = file("/etc/mptune/x");
        let content = b"text".to_vec();
        let State::File { mode, .. } = setting.target(&State::Absent, &[]).unwrap() else {
            panic!()
        };
        assert_eq!(mode, 0o644);
        let there = State::File { content: vec![1], mode: 0o640, owner: 7, group: 8 };
        let expected = State::File { content, mode: 0o640, owner: 7, group: 8 };
        assert_eq!(setting.target(&there, &[]).unwrap(), expected);
    }

    #[test]
    fn bytes_survive_the_journal() {
        for content in [vec![], vec![0, 0xff, b'\n'], b"text".to_vec()] {
            let state = State::File { content, mode: 0o600, owner: 0, group: 0 };
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
        }
        let wrong = r#"{"file": {"content": "0g", "mode": 1, "owner": 0, "group": 0}}"#;
        assert!(serde_json::from_str::<State>(wrong).is_err());
    }
}
