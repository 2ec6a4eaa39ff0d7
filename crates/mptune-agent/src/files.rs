//! Reading files that may have been replaced: by a pipe without a writer, by a device without an end.
//!
//! Nothing here waits, and nothing grows beyond a limit. Not for the kernel's own files under /proc and /sys.

use std::fmt;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Obstacle to reading a file; in messages after "expected a policy file, found".
#[derive(Debug)]
pub enum Unread {
    /// It cannot be opened or read.
    Failed(io::Error),
    /// It is no file.
    Other(&'static str),
    /// It is longer than this, bytes.
    Longer(u64),
}

impl Unread {
    /// There is nothing of that name.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Failed(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(out, "{error}"),
            Self::Other(what) => out.write_str(what),
            Self::Longer(most) => write!(out, "one of more than {most} bytes"),
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unread> for io::Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Failed(error) => error,
            other => Self::other(format!("expected a file, found {other}")),
        }
    }
}

/// The bytes of a file of at most `most` bytes; a link is followed.
///
/// # Errors
/// [`Unread`].
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    opened(path, 0).and_then(|file| contents(&file, most)).map(|(bytes, _)| bytes)
}

/// The same as text.
///
/// # Errors
/// [`Unread`].
pub fn text(path: &Path, most: u64) -> Result<String, Unread> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|_| Unread::Other("something that is not UTF-8"))
}

/// The bytes of a file that is no link, and its metadata.
///
/// # Errors
/// [`Unread`].
pub fn read_with_metadata(path: &Path, most: u64) -> Result<(Vec<u8>, Metadata), Unread> {
    match opened(path, libc::O_NOFOLLOW) {
        Err(Unread::Failed(error)) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(Unread::Other("a link"))
        }
        opened => contents(&opened?, most),
    }
}

fn opened(path: &Path, flags: i32) -> Result<File, Unread> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    Ok(OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

/// The bytes of an open file and its metadata; it was opened without waiting.
///
/// # Errors
/// [`Unread`].
pub fn contents(file: &File, most: u64) -> Result<(Vec<u8>, Metadata), Unread> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Unread::Other(kind(about.file_type())));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Unread::Longer(most));
    }
    Ok((bytes, about))
}

fn kind(read_with_metadata: FileType) -> &'static str {
    if read_with_metadata.is_fifo() {
        "a named pipe"
    } else if read_with_metadata.is_dir() {
        "a directory"
    } else if read_with_metadata.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_no_file_is_named_at_once() {
        let folder = std::env::temp_dir().join(format!("mptune-files-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (pipe, socket, link) =
            (folder.join("pipe"), folder.join("socket"), folder.join("link"));
        crate::kernel::sys::tests::make_pipe(&CString::new(pipe.as_os_str().as_bytes()).unwrap());
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink("/dev/zero", &link).unwrap();
        let obstacle = |path: &Path| read(path, 10).unwrap_err().to_string();
        assert_eq!(obstacle(&pipe), "a named pipe");
        assert_eq!(obstacle(&folder), "a directory");
        assert_eq!(obstacle(Path::new("/dev/zero")), "a device");
        assert_eq!(obstacle(&link), "a device");
        assert_eq!(read_with_metadata(&link, 10).unwrap_err().to_string(), "a link");
        assert!(read(&folder.join("none"), 10).unwrap_err().is_missing());
        assert!(obstacle(&socket).contains("No such device"), "{}", obstacle(&socket));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_may_be_as_long_as_it_may_and_no_longer() {
        let file = std::env::temp_dir().join(format!("mptune-long-{}", std::process::id()));
        std::fs::write(&file, "0123456789").unwrap();
        assert_eq!(text(&file, 10).unwrap(), "0123456789");
        assert_eq!(read(&file, 9).unwrap_err().to_string(), "one of more than 9 bytes");
        std::fs::write(&file, [0xff]).unwrap();
        assert!(text(&file, 10).unwrap_err().to_string().contains("UTF-8"));
        std::fs::remove_file(&file).unwrap();
    }
}
