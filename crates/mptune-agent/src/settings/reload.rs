//! Asking a running daemon to read its files again, by its socket.

use super::outcome::Reload;
use super::setting::Setting;
use crate::kernel::sys;
use crate::undo::places;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time for an answer; tests answer by a thread that a busy machine lets wait.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 5 });
/// Time between two attempts to reach a busy daemon.
const PAUSE: Duration = Duration::from_millis(10);
const ORDER: &[u8] = b"{\"action\": \"reload\"}\n";
/// Most lines that are read: beyond them the daemon reports something else.
const LINES: usize = 1000;

/// Asks the reader of these files, if any of them changed; none if there is no reader to ask.
pub fn ask(settings: impl Iterator<Item = (Setting, bool)>) -> Option<Reload> {
    let socket = |(setting, changed): (Setting, bool)| match setting {
        Setting::File(file) if changed => file.reload,
        _ => None,
    };
    let sockets: BTreeSet<PathBuf> = settings.filter_map(socket).collect();
    // There is one daemon.
    sockets.first().map(|socket| tell(&places::located(socket)))
}

fn tell(socket: &Path) -> Reload {
    let stream = match connected(socket) {
        Ok(stream) => stream,
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Reload::Absent;
        }
        Err(error) => return failed(socket, &error),
    };
    asked(stream).unwrap_or_else(|error| failed(socket, &error))
}

fn failed(socket: &Path, error: &std::io::Error) -> Reload {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            refused(socket, &format!("no answer within {} s", PATIENCE.as_secs()))
        }
        _ => refused(socket, &error.to_string()),
    }
}

/// A connection to the daemon, if it accepts one within the time.
fn connected(socket: &Path) -> std::io::Result<UnixStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        match sys::connect_unix(socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
}

fn refused(socket: &Path, reason: &str) -> Reload {
    Reload::Refused { reason: format!("{}: {reason}", socket.display()) }
}

/// Its answer; it also reports its connections on the same socket.
fn asked(mut stream: UnixStream) -> std::io::Result<Reload> {
    let end = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(ORDER)?;
    let mut lines = BufReader::new(stream);
    for _ in 0..LINES {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        lines.get_ref().set_read_timeout(Some(left))?;
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let Ok(line_of_daemon) = serde_json::from_str::<Value>(&line) else { continue };
        match line_of_daemon["event"].as_str() {
            Some("reloaded") => return Ok(Reload::Reloaded),
            Some("refused") => {
                let reason =
                    line_of_daemon["reason"].as_str().unwrap_or("no reason given").to_owned();
                return Ok(Reload::Refused { reason });
            }
            _ => {}
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::super::file::File;
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Outcome with a daemon that sends these lines.
    fn answered(name: &str, lines: &'static str) -> Reload {
        let socket = std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut heard = String::new();
            BufReader::new(&stream).read_line(&mut heard).unwrap();
            (&stream).write_all(lines.as_bytes()).unwrap();
            heard
        });
        let outcome = tell(&socket);
        assert_eq!(daemon.join().unwrap().as_bytes(), ORDER);
        assert_eq!(tell(&socket), Reload::Absent);
        std::fs::remove_file(&socket).unwrap();
        assert_eq!(tell(&socket), Reload::Absent);
        outcome
    }

    #[test]
    fn other_lines_beside_the_answer_are_skipped() {
        let outcome = answered(
            "reloads",
            "{\"event\": \"connections\"}\nnonsense\n{\"event\": \"reloaded\"}\n",
        );
        assert_eq!(outcome, Reload::Reloaded);
        let outcome =
            answered("refuses", "{\"event\": \"refused\", \"reason\": \"policy.toml: to\"}\n");
        assert_eq!(outcome, Reload::Refused { reason: "policy.toml: to".to_owned() });
        let Reload::Refused { reason } = answered("ends", "") else { panic!() };
        assert!(reason.contains("mptune-ends"), "{reason}");
    }

    #[test]
    fn nobody_is_asked_about_what_did_not_change() {
        let setting = Setting::File(File {
            path: "/etc/mptune/policy.toml".into(),
            content: None,
            absent: true,
            reload: Some("/nowhere/daemon.sock".into()),
        });
        assert_eq!(ask([(setting.clone(), false)].into_iter()), None);
        assert_eq!(ask([(setting, true)].into_iter()), Some(Reload::Absent));
    }
}
