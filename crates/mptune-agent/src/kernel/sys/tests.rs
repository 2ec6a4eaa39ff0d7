//! System calls on files of their own, and what tests of others make with them.

use super::*;
use std::ffi::CStr;

/// A named pipe.
pub fn make_pipe(path: &CStr) {
    // SAFETY: a C string and an integer.
    check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }).unwrap();
}

#[test]
fn nobody_waits_for_a_socket_that_takes_nobody_in() {
    let path = std::env::temp_dir().join(format!("mptune-full-{}", std::process::id()));
    let listener = socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).unwrap();
    let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
    let name = [&family[..], path.as_os_str().as_bytes(), &[0]].concat();
    bind(listener.as_fd(), &name).unwrap();
    let refused = connect_unix(&path).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    listen(listener.as_fd(), 0).unwrap();
    let _held = connect_unix(&path).unwrap();
    assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    let long = connect_unix(&path.join("x".repeat(UNIX_PATH_ROOM))).unwrap_err();
    assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
}
