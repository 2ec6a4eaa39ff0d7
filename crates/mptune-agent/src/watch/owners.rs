//! Processes that have a socket open: the links in /proc/PID/fd name inodes.
//!
//! They are read once for inodes that are new, all processes in one pass, and not again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub command: String,
}

/// The processes of the sockets seen last.
pub struct Owners {
    proc: PathBuf,
    known: HashMap<u32, Option<Owner>>,
    /// Some processes do not show their files to this one.
    hidden: bool,
}

impl Owners {
    /// Nobody yet; `proc` is where processes are.
    pub fn new(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), known: HashMap::new(), hidden: false }
    }

    /// Looks up the inodes that are new, and forgets those that are gone, as are their processes.
    pub fn update(&mut self, inodes: &HashSet<u32>) {
        let pids: HashSet<u32> = self.known.values().flatten().map(|owner| owner.pid).collect();
        let gone: HashSet<u32> =
            pids.into_iter().filter(|pid| !self.proc.join(pid.to_string()).exists()).collect();
        self.known.retain(|inode, owner| {
            inodes.contains(inode) && owner.as_ref().is_none_or(|owner| !gone.contains(&owner.pid))
        });
        let mut unknown: HashSet<u32> =
            inodes.iter().copied().filter(|inode| !self.known.contains_key(inode)).collect();
        if !unknown.is_empty() {
            self.hidden = false;
            self.look_for(&mut unknown);
            self.known.extend(unknown.into_iter().map(|inode| (inode, None)));
        }
    }

    /// The process of an inode, if it is known.
    pub fn of(&self, inode: u32) -> Option<&Owner> {
        self.known.get(&inode)?.as_ref()
    }

    /// There are sockets without a process, and processes that do not show what they have.
    pub fn lack_rights(&self) -> bool {
        self.hidden && self.known.values().any(Option::is_none)
    }

    /// Finds the processes of inodes, which are taken out of `wanted`.
    fn look_for(&mut self, unknown: &mut HashSet<u32>) {
        let Ok(processes) = fs::read_dir(&self.proc) else { return };
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            self.look_into(pid, &process.path(), unknown);
            if unknown.is_empty() {
                return;
            }
        }
    }

    fn look_into(&mut self, pid: u32, process: &Path, unknown: &mut HashSet<u32>) {
        let files = match fs::read_dir(process.join("fd")) {
            Ok(files) => files,
            Err(error) => {
                self.hidden |= error.kind() == ErrorKind::PermissionDenied;
                return; // or it has ended
            }
        };
        let mut command = None;
        for file in files.flatten() {
            let Some(inode) = fs::read_link(file.path()).ok().and_then(|link| socket(&link)) else {
                continue;
            };
            if unknown.remove(&inode) {
                let command = command.get_or_insert_with(|| name(process)).clone();
                self.known.insert(inode, Some(Owner { pid, command }));
            }
        }
    }
}

/// The inode in a link such as `socket:[123]`.
fn socket(link: &Path) -> Option<u32> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn name(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory like /proc, removed at the end.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("owners-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn process(&self, pid: u32, command: &str, sockets: &[u32]) {
            let files = self.0.join(pid.to_string()).join("fd");
            fs::create_dir_all(&files).unwrap();
            fs::write(files.with_file_name("comm"), format!("{command}\n")).unwrap();
            symlink("/dev/null", files.join("0")).unwrap();
            for (number, inode) in sockets.iter().enumerate() {
                symlink(format!("socket:[{inode}]"), files.join((number + 3).to_string())).unwrap();
            }
        }

        fn end(&self, pid: u32) {
            fs::remove_dir_all(self.0.join(pid.to_string())).unwrap();
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn inodes(those: &[u32]) -> HashSet<u32> {
        those.iter().copied().collect()
    }

    #[test]
    fn sockets_are_matched_by_their_inodes() {
        let proc = Proc::new("found");
        proc.process(7, "curl", &[100, 101]);
        proc.process(8, "nginx", &[200]);
        let mut owners = Owners::new(&proc.0);
        owners.update(&inodes(&[101, 200, 300]));
        let of = |inode| owners.of(inode).map(|owner| (owner.pid, owner.command.as_str()));
        assert_eq!((of(101), of(200), of(300)), (Some((7, "curl")), Some((8, "nginx")), None));
        assert_eq!(of(100), None, "nobody asked");
        assert!(!owners.lack_rights());
    }

    #[test]
    fn a_socket_whose_process_ended_is_looked_for_again() {
        let proc = Proc::new("again");
        proc.process(7, "parent", &[100]);
        let mut owners = Owners::new(&proc.0);
        owners.update(&inodes(&[100]));
        proc.process(9, "child", &[100]);
        proc.end(7);
        owners.update(&inodes(&[100]));
        assert_eq!(owners.of(100).map(|owner| owner.pid), Some(9));
        owners.update(&inodes(&[]));
        assert_eq!(owners.of(100), None);
    }

    #[test]
    fn only_links_to_sockets_have_inodes() {
        assert_eq!(socket(Path::new("socket:[4294967295]")), Some(u32::MAX));
        for other in ["pipe:[12]", "/dev/null", "socket:[]", "socket:[12"] {
            assert_eq!(socket(Path::new(other)), None, "{other}");
        }
    }
}
