//! Messages of threads, passed on by the thread that owns the standard output.

use super::protocol::Message;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The sending end, for a thread.
#[derive(Clone)]
pub struct Outbox {
    messages: Sender<Message>,
    bell: Arc<UnixStream>,
}

impl Outbox {
    /// Sends a message; ignored if the other end is gone.
    pub fn tell(&self, message: Message) {
        let _ = self.messages.send(message);
        let _ = (&*self.bell).write(&[0]);
    }
}

/// The receiving end.
pub struct Inbox {
    messages: Receiver<Message>,
    bell: UnixStream,
    outbox: Outbox,
}

impl Inbox {
    /// Opens it.
    pub fn new() -> io::Result<Self> {
        let (bell, far) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let (sender, messages) = channel();
        Ok(Self { messages, bell, outbox: Outbox { messages: sender, bell: Arc::new(far) } })
    }

    /// An end for another thread.
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Readable when there is a message.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The messages that have arrived.
    pub fn take(&self) -> Vec<Message> {
        while matches!((&self.bell).read(&mut [0; 64]), Ok(length) if length > 0) {}
        self.messages.try_iter().collect()
    }
}
