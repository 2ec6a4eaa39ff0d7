//! A directory that no other user can change: opened once, and used by its descriptor from then on.
//!
//! Whoever could put a file into it could have a setting written with the rights of whoever reads it. So it, and
//! everything that is read in it, belongs to this user, and nobody else may write it. What of it there is to be
//! found by others (the socket of the daemon) is elsewhere.

use super::steps;
use crate::files;
use crate::kernel::sys;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Only its owner may use it, or a file in it.
const RIGHTS: u32 = 0o700;
pub const PRIVATE: u32 = 0o600;
/// Rights that no other user may have.
const WRITABLE: u32 = 0o022;
/// Longest file that is read, bytes: a journal has a few hundred for each setting.
pub const LONGEST: u64 = 1 << 24;

/// The directory.
#[derive(Debug)]
pub struct Directory {
    file: File,
    path: PathBuf,
}

impl Directory {
    /// Makes it if it is missing.
    ///
    /// # Errors
    /// It cannot be made, or is not this user's alone.
    pub fn make(path: &Path) -> io::Result<Self> {
        Self::make_for(path, RIGHTS)
    }

    /// The same with these rights, for others to look into.
    ///
    /// # Errors
    /// As for [`Directory::make`].
    pub fn make_for(path: &Path, rights: u32) -> io::Result<Self> {
        let is_new = existing(DirBuilder::new().mode(rights).create(path))?;
        let directory = Self::open(path)?;
        if is_new {
            give(&directory.file, rights)?;
        }
        Ok(directory)
    }

    /// Opens one that is there.
    ///
    /// # Errors
    /// It is missing, or not this user's alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOTDIR | libc::ELOOP) => io::Error::other("expected a directory"),
            _ => error,
        })?;
        check(&file.metadata()?)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// One in it, which is made if it is missing.
    ///
    /// # Errors
    /// As for [`Directory::make`].
    pub fn make_below(&self, name: &str) -> io::Result<Self> {
        existing(sys::make_directory_at(self.file.as_fd(), name, RIGHTS))?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let file = sys::open_at(self.file.as_fd(), name, flags, 0)?;
        check(&file.metadata()?)?;
        Ok(Self { file, path: self.path.join(name) })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Itself, for a process that is started in it.
    pub fn as_link(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// The names in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(self.as_link())?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Content of a file.
    ///
    /// # Errors
    /// It is missing, no file, too long, or not this user's alone.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = sys::open_at(self.file.as_fd(), name, libc::O_RDONLY, 0)?;
        let (bytes, about) = files::contents(&file, LONGEST)?;
        check(&about)?;
        Ok(bytes)
    }

    /// Writes a file in the place of what has its name, so that this survives a crash of the machine. `new` is its name
    /// until it is complete.
    ///
    /// # Errors
    /// The disk is full or fails; what had the name is still there.
    pub fn replace(&self, new: &str, name: &str, bytes: &[u8], rights: u32) -> io::Result<()> {
        let written = self.write(new, bytes, rights).and_then(|()| {
            sys::rename_at(self.file.as_fd(), new, name)?;
            steps::changed();
            self.file.sync_all()
        });
        if written.is_err() {
            let _ = self.remove(new);
        }
        written
    }

    fn write(&self, name: &str, bytes: &[u8], rights: u32) -> io::Result<()> {
        // Whatever has the name is not written to: it may be a link, or more readable.
        self.remove(name)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut file = sys::open_at(self.file.as_fd(), name, flags, rights)?;
        steps::changed();
        give(&file, rights)?;
        file.write_all(bytes)?;
        steps::changed();
        file.sync_all()
    }

    /// A file to lock: made if it is missing, and never emptied by that.
    ///
    /// # Errors
    /// It cannot be made, or is not this user's alone.
    pub fn open_or_create(&self, name: &str) -> io::Result<File> {
        let flags = libc::O_RDWR | libc::O_CREAT;
        let file = sys::open_at(self.file.as_fd(), name, flags, PRIVATE)?;
        steps::changed();
        check(&file.metadata()?)?;
        Ok(file)
    }

    /// True if a name in it is still that of an open file.
    pub fn has(&self, name: &str, file: &File) -> bool {
        let there = sys::open_at(self.file.as_fd(), name, libc::O_PATH, 0);
        let same = |there: File| Some(there.metadata().ok()?.ino() == file.metadata().ok()?.ino());
        there.ok().and_then(same) == Some(true)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match sys::remove_at(self.file.as_fd(), name) {
            Ok(()) => {
                steps::changed();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes the directory if nothing is in it.
    pub fn leave(&self) {
        if fs::remove_dir(&self.path).is_ok() {
            steps::changed();
        }
    }

    /// The same directory, with a descriptor for another owner in this process.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, path: self.path.clone() })
    }

    /// The same directory under the name that others know it by.
    pub fn called(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }
}

/// True if it was made, false if it was there.
fn existing(made: io::Result<()>) -> io::Result<bool> {
    match made {
        Ok(()) => {
            steps::changed();
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives what was just made exactly these rights: the umask of whoever started the agent may have taken some, and
/// what others cannot read here the daemon, which is not root, cannot read either.
///
/// # Errors
/// The file system knows no rights.
pub fn give(file: &File, rights: u32) -> io::Result<()> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & 0o777 != rights {
        file.set_permissions(Permissions::from_mode(mode & 0o7000 | rights))?;
        steps::changed();
    }
    Ok(())
}

/// Makes a directory with those above it, which everybody may look into.
///
/// # Errors
/// One of them cannot be made.
pub fn make_all(path: &Path, rights: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_all(above, rights)?;
    }
    match existing(fs::create_dir(path))? {
        true => give(&File::open(path)?, rights),
        false => Ok(()),
    }
}

/// Checks that something is this user's, and that nobody else may write it.
fn check(about: &Metadata) -> io::Result<()> {
    let (owner, user, rights) = (about.uid(), sys::user(), about.mode() & 0o7777);
    if owner != user {
        return Err(io::Error::other(format!(
            "expected it to be user {user}'s, found user {owner}'s"
        )));
    }
    if rights & WRITABLE != 0 {
        let problem = format!("expected that nobody else can write it, found mode {rights:o}");
        return Err(io::Error::other(problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing;
    use std::fs::hard_link;
    use std::os::unix::fs::symlink;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_others_can_write_or_lead_elsewhere_is_refused() {
        let path = place("directory");
        let directory = Directory::make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        directory.replace("new", "one", b"text", PRIVATE).unwrap();
        assert_eq!(directory.read("one").unwrap(), b"text");
        assert_eq!(fs::metadata(path.join("one")).unwrap().mode() & 0o777, 0o600);
        symlink("one", path.join("link")).unwrap();
        assert!(directory.read("link").is_err());
        fs::set_permissions(path.join("one"), Permissions::from_mode(0o620)).unwrap();
        let reason = directory.read("one").unwrap_err().to_string();
        assert_eq!(reason, "expected that nobody else can write it, found mode 620");
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert!(Directory::make(&path).is_err());
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        let link = place("directory-link");
        symlink(&path, &link).unwrap();
        assert_eq!(Directory::open(&link).unwrap_err().to_string(), "expected a directory");
        fs::remove_file(link).unwrap();
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_others_are_to_read_they_can_whatever_the_umask() {
        let name = "undo::directory::tests::what_others_are_to_read_they_can_whatever_the_umask";
        if !testing::under_umask("077", name) {
            return;
        }
        let above = place("umask");
        let path = above.join("mptune");
        make_all(&above, 0o755).unwrap();
        let directory = Directory::make_for(&path, 0o755).unwrap();
        directory.replace("new", "one", b"text", 0o644).unwrap();
        directory.replace("new", "two", b"text", PRIVATE).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let modes = [&above, &path, &path.join("one"), &path.join("two")].map(|path| mode(path));
        fs::remove_dir_all(above).unwrap();
        assert_eq!(modes, [0o755, 0o755, 0o644, 0o600]);
    }

    #[test]
    fn a_file_is_made_anew_whatever_had_its_name() {
        let path = place("anew");
        let directory = Directory::make(&path).unwrap();
        let other = place("anew-other");
        fs::write(&other, "mine").unwrap();
        for link in [hard_link(&other, path.join("one")), symlink(&other, path.join("two"))] {
            link.unwrap();
        }
        for name in ["one", "two"] {
            directory.replace(name, name, b"new", PRIVATE).unwrap();
        }
        assert_eq!(fs::read(&other).unwrap(), b"mine");
        let held = directory.open_or_create("one").unwrap();
        assert!(directory.has("one", &held));
        directory.remove("one").unwrap();
        assert!(!directory.has("one", &held));
        directory.remove("two").unwrap();
        directory.leave();
        assert!(!path.exists());
        fs::remove_file(other).unwrap();
    }
}
