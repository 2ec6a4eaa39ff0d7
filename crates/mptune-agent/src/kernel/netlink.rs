//! A netlink socket in the network namespace of the thread that opens it: requests and their answers,
//! and events as they arrive.
//!
//! It knows no family: those of path management are in `family`, those of socket statistics in
//! `diag`. Requests are answered in order, each within the call.

use crate::kernel::error::{Error, Refusal};
use crate::kernel::sys::{self, Watch};
use netlink_packet_core::{
    DoneBuffer, ErrorBuffer, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL,
    NLM_F_REPLACE, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkSerializable,
    NlasIterator, nla_align,
};
use netlink_sys::Socket;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The kernel answers a request within the system call; a longer wait than this means that something
/// is broken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Times that a question about all objects is asked while they keep changing under it; then the last answer counts.
const DUMPS: u32 = 5;
/// Room for bursts of events, bytes: thousands of them. Without CAP_NET_ADMIN over the machine the
/// kernel grants less (`net.core.rmem_max`).
const RECEIVE_BUFFER: i32 = 1 << 20;
/// The largest datagram the kernel sends is half of it (`NLMSG_GOODSIZE`, netlink_dump).
const DATAGRAM: usize = 1 << 16;
/// Of several small messages received at once, the largest, bytes: what is known of one socket is below a quarter
/// of it, and so is an event.
const SMALL: usize = 1 << 11;
/// Number of them that fit into the buffer.
const TOGETHER: usize = DATAGRAM / SMALL;
/// The kernel's own words in an answer, include/uapi/linux/netlink.h.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Alignment of the messages of a datagram, and of attributes.
const NLA_ALIGNTO: usize = 4;
/// Bytes of a message's header.
const HEADER: usize = 16;

/// A message as it arrived.
pub type Received<'a> = NetlinkBuffer<&'a [u8]>;

/// A socket of one netlink protocol.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    /// Of the datagrams in it, if there are several.
    lengths: Vec<usize>,
}

impl Netlink {
    /// A socket of a protocol (`netlink_sys::protocols`) in the current namespace.
    pub fn open(protocol: isize) -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(protocol)?;
            socket.set_cap_ack(true)?;
            socket.set_ext_ack(true)?;
            socket.set_rx_buf_sz(RECEIVE_BUFFER)?;
            socket.set_non_blocking(true)?;
            socket.bind_auto()?;
            Ok(socket)
        };
        let socket = open().map_err(|error| Error::io("netlink", &error))?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(DATAGRAM), lengths: Vec::new() })
    }

    /// Receives the messages of a multicast group from now on.
    pub fn join(&self, group: u32) -> Result<(), Error> {
        let joined = self.socket.add_membership(group);
        joined.map_err(|error| Error::io("netlink events", &error))
    }

    /// A command: sent and acknowledged.
    ///
    /// # Errors
    /// The kernel refuses `name`, or does not answer.
    pub fn command<I: NetlinkSerializable>(&mut self, name: &str, message: I) -> Result<(), Error> {
        self.request(name, &message, NLM_F_ACK, |_| Ok(())).map(drop)
    }

    /// A command that makes something that is not there (`NLM_F_CREATE`, `NLM_F_EXCL`).
    ///
    /// # Errors
    /// As for a command.
    pub fn create<I: NetlinkSerializable>(&mut self, name: &str, message: I) -> Result<(), Error> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.request(name, &message, flags, |_| Ok(())).map(drop)
    }

    /// A command that takes the place of what is there (`NLM_F_REPLACE`), which must be there.
    ///
    /// # Errors
    /// As for a command.
    pub fn replace<I: NetlinkSerializable>(&mut self, name: &str, message: I) -> Result<(), Error> {
        self.request(name, &message, NLM_F_ACK | NLM_F_REPLACE, |_| Ok(())).map(drop)
    }

    /// A question; `each` is called for every answer.
    ///
    /// # Errors
    /// As for a command, and errors from `each`.
    pub fn ask<I: NetlinkSerializable>(
        &mut self,
        name: &str,
        message: I,
        each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.request(name, &message, NLM_F_ACK, each).map(drop)
    }

    /// Several questions at once, each with one small answer; `each` is called with a question's place among
    /// them, and its answer or refusal.
    ///
    /// # Errors
    /// The kernel does not answer, and errors from `each`, the first of them after all answers have arrived.
    pub fn ask_all<I: NetlinkSerializable>(
        &mut self,
        name: &str,
        questions: &[I],
        mut each: impl FnMut(usize, Result<&Received<'_>, Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut done = Ok(());
        for (number, some) in questions.chunks(TOGETHER).enumerate() {
            let first = self.sequence.wrapping_add(1);
            let mut bytes = Vec::new();
            for question in some {
                self.sequence = self.sequence.wrapping_add(1);
                self.pack(question, 0, &mut bytes);
            }
            self.socket.send(&bytes, 0).map_err(|error| Error::io(name, &error))?;
            let mut answered = 0;
            while answered < some.len() {
                self.wait_for_answer(name, Self::receive_some)?;
                for part in self.parts() {
                    let Some(part) = part else {
                        return Err(Error::Failed(format!(
                            "{name}: an answer above {SMALL} bytes"
                        )));
                    };
                    messages(part, |message| {
                        let place = message.sequence_number().wrapping_sub(first) as usize;
                        if place >= some.len() {
                            return Ok(()); // to a question that was given up
                        }
                        answered += 1;
                        let answer = match end(name, message) {
                            Ok(true) => return Ok(()),
                            Ok(false) => Ok(message),
                            Err(error) => Err(error),
                        };
                        let noted = each(number * TOGETHER + place, answer);
                        done = std::mem::replace(&mut done, Ok(())).and(noted);
                        Ok(())
                    })?;
                }
            }
        }
        done
    }

    /// A question about all objects; `each` is called for every answer. It is asked again if they have changed
    /// between two parts of the answer, which may lack one then or have one twice.
    ///
    /// # Errors
    /// As for a question.
    pub fn dump<I: NetlinkSerializable>(
        &mut self,
        name: &str,
        message: I,
        each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let answers = consistent(|| {
            let mut answers = Vec::new();
            let interrupted = self.request(name, &message, NLM_F_DUMP, |answer| {
                let whole = answer.clone().into_inner().get(..answer.length() as usize);
                answers.extend(whole.unwrap_or_default());
                answers.resize(nla_align!(answers.len()), 0);
                Ok(())
            })?;
            Ok((answers, interrupted))
        })?;
        messages(&answers, each)
    }

    /// The same of objects of which the kernel does not say that they have changed, and of which there may be very
    /// many: sockets. Nothing is kept here.
    ///
    /// # Errors
    /// As for a question.
    pub fn stream<I: NetlinkSerializable>(
        &mut self,
        name: &str,
        message: I,
        each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.request(name, &message, NLM_F_DUMP, each).map(drop)
    }

    /// Messages that have arrived, without waiting; true if some are missing, because the kernel dropped them
    /// as they were not read in time, or because they are long.
    pub fn take(
        &mut self,
        mut each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut lost = false;
        loop {
            match self.receive_some() {
                Ok(true) => {
                    for part in self.parts() {
                        match part {
                            Some(whole) => messages(whole, &mut each)?,
                            None => lost = true,
                        }
                    }
                    if self.lengths.len() < TOGETHER {
                        return Ok(lost);
                    }
                }
                Ok(false) => return Ok(lost),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => lost = true,
                Err(error) => return Err(Error::io("netlink events", &error)),
            }
        }
    }

    /// Messages that the kernel has dropped so far; it counts without end, and begins again after 2^32.
    pub fn dropped(&self) -> u32 {
        sys::dropped(self.socket.as_fd()).unwrap_or(0)
    }

    /// True if the objects have changed meanwhile (`NLM_F_DUMP_INTR`).
    fn request<I: NetlinkSerializable>(
        &mut self,
        name: &str,
        message: &I,
        flags: u16,
        mut each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(message, flags).map_err(|error| Error::io(name, &error))?;
        let (mut over, mut interrupted) = (false, false);
        while !over {
            self.wait_for_answer(name, Self::receive)?;
            let sequence = self.sequence;
            messages(&self.buffer, |message| {
                if message.sequence_number() != sequence {
                    return Ok(());
                }
                interrupted |= is_interrupted(message);
                match end(name, message)? {
                    true => over = true,
                    false => each(message)?,
                }
                Ok(())
            })?;
        }
        Ok(interrupted)
    }

    fn send<I: NetlinkSerializable>(&self, message: &I, flags: u16) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        self.pack(message, flags, &mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Appends a request.
    fn pack<I: NetlinkSerializable>(&self, message: &I, flags: u16, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let length = HEADER + message.buffer_len();
        bytes.resize(start + nla_align!(length), 0);
        let (header, payload) = bytes[start..start + length].split_at_mut(HEADER);
        header[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        header[4..6].copy_from_slice(&message.message_type().to_ne_bytes());
        header[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        header[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        message.serialize(payload);
    }

    fn wait_for_answer(
        &mut self,
        name: &str,
        receive: impl Fn(&mut Self) -> std::io::Result<bool>,
    ) -> Result<(), Error> {
        let wait = |own: &mut Self, left| sys::wait(&mut [Watch::readable(&own.socket)], left);
        let heard = received(self, receive, wait).map_err(|error| Error::io(name, &error))?;
        if heard {
            return Ok(());
        }
        let limit = PATIENCE.as_secs();
        Err(Error::Failed(format!("{name}: no answer from the kernel within {limit} s")))
    }

    /// Fills the buffer with the next datagram; false if there is none.
    fn receive(&mut self) -> std::io::Result<bool> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fills the buffer with small datagrams ([`Netlink::parts`]); false if there is none.
    fn receive_some(&mut self) -> std::io::Result<bool> {
        self.buffer.resize(DATAGRAM, 0);
        match sys::receive_some(self.socket.as_fd(), &mut self.buffer, SMALL, &mut self.lengths) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.lengths.clear();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The datagrams that [`Netlink::receive_some`] received; none for one that is longer than its room.
    fn parts(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.buffer.chunks(SMALL).zip(&self.lengths).map(|(part, &length)| part.get(..length))
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until something is received; false if nothing is in time. Signals end single waits early.
fn received<T>(
    from: &mut T,
    receive: impl Fn(&mut T) -> std::io::Result<bool>,
    wait: impl Fn(&mut T, Duration) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let end = Instant::now() + PATIENCE;
    while !receive(from)? {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        wait(from, left)?;
    }
    Ok(true)
}

/// The first answer that was not interrupted, or the last of several.
fn consistent<T>(mut ask: impl FnMut() -> Result<(T, bool), Error>) -> Result<T, Error> {
    let mut asked = 0;
    loop {
        let (answer, interrupted) = ask()?;
        asked += 1;
        if !interrupted || asked == DUMPS {
            return Ok(answer);
        }
    }
}

/// Calls `each` for the messages of a datagram.
fn messages(
    mut datagram: &[u8],
    mut each: impl FnMut(&Received<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    while datagram.len() >= HEADER {
        let message = NetlinkBuffer::new_checked(datagram)?;
        let length = nla_align!(message.length() as usize).max(HEADER);
        each(&message)?;
        datagram = datagram.get(length..).unwrap_or_default();
    }
    Ok(())
}

/// True if objects have changed since the message before this one.
fn is_interrupted(message: &Received<'_>) -> bool {
    message.flags() & NLM_F_DUMP_INTR != 0
}

/// True if a message ends the answer to `name`.
fn end(name: &str, message: &Received<'_>) -> Result<bool, Error> {
    let (status, words) = match message.message_type() {
        NLMSG_ERROR => {
            let error = ErrorBuffer::new_checked(message.payload())?;
            // The request's header comes first; NETLINK_CAP_ACK leaves out the rest of it.
            let words = error.payload().get(HEADER..).unwrap_or_default();
            (error.code().map_or(0, |code| code.get()), words)
        }
        NLMSG_DONE if message.payload().is_empty() => return Ok(true),
        NLMSG_DONE => {
            let done = DoneBuffer::new_checked(message.payload())?;
            (done.code(), done.extended_ack())
        }
        _ => return Ok(false),
    };
    if status >= 0 {
        return Ok(true);
    }
    Err(Error::Refused(Refusal::new(name, -status, explanation(words))))
}

/// The kernel's own words among the attributes of an answer, if there are any.
fn explanation(attributes: &[u8]) -> Option<String> {
    let mut known = NlasIterator::new(attributes).filter_map(Result::ok);
    let words = known.find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)?;
    Some(String::from_utf8_lossy(words.value()).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    //! Answers as the kernel packs them, by hand.

    use super::*;
    use crate::kernel::testing::attribute;

    const NLM_F_CAPPED: u16 = 0x100;
    const NLM_F_ACK_TLVS: u16 = 0x200;

    fn header(kind: u16, flags: u16, payload: usize) -> Vec<u8> {
        let mut bytes = ((HEADER + payload) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]); // sequence number and port
        bytes
    }

    /// The answer to a command: an error number, the command's header, and words.
    fn answer(number: i32, words: Option<&str>) -> Vec<u8> {
        let mut payload = (-number).to_ne_bytes().to_vec();
        payload.extend(header(28, 0, 60));
        if let Some(words) = words {
            payload.extend(attribute(NLMSGERR_ATTR_MSG, format!("{words}\0").as_bytes()));
        }
        let flags = NLM_F_CAPPED | if words.is_some() { NLM_F_ACK_TLVS } else { 0 };
        [header(NLMSG_ERROR, flags, payload.len()), payload].concat()
    }

    fn read(name: &str, answer: &[u8]) -> Result<bool, Error> {
        end(name, &NetlinkBuffer::new_checked(answer).unwrap())
    }

    #[test]
    fn a_refusal_is_read_with_the_kernels_words() {
        let name = "priority of subflow a to b";
        let Err(Error::Refused(refusal)) = read(name, &answer(libc::EINVAL, Some("invalid token")))
        else {
            panic!("a refusal");
        };
        assert_eq!(refusal.number(), libc::EINVAL);
        let line = "priority of subflow a to b: Invalid argument (invalid token)";
        assert_eq!(refusal.to_string(), line);
    }

    #[test]
    fn a_refusal_without_words_is_read_by_its_number() {
        let Err(Error::Refused(refusal)) = read("end of subflow", &answer(libc::ESRCH, None))
        else {
            panic!("a refusal");
        };
        assert_eq!(refusal, Refusal::new("end of subflow", libc::ESRCH, None));
    }

    #[test]
    fn an_acknowledgement_ends_the_answer_and_anything_else_does_not() {
        assert_eq!(read("a", &answer(0, None)), Ok(true));
        assert_eq!(read("a", &header(NLMSG_DONE, 0, 0)), Ok(true));
        assert_eq!(read("a", &header(28, 0, 0)), Ok(false));
    }

    #[test]
    fn an_answer_that_was_interrupted_is_asked_for_again_and_not_forever() {
        for (interruptions, expected) in [(0, 1), (2, 3), (DUMPS, DUMPS)] {
            let mut asked = 0;
            let answer = consistent(|| {
                asked += 1;
                Ok((asked, asked <= interruptions))
            });
            assert_eq!(answer, Ok(expected));
        }
        let refused = Err(Error::Failed("no".to_owned()));
        assert_eq!(consistent::<()>(|| refused.clone().map(|()| ((), true))), refused);
    }

    #[test]
    fn signals_take_nothing_from_the_wait_for_an_answer() {
        let mut waits = 0;
        let wait = |waits: &mut u32, left: Duration| {
            *waits += 1;
            assert!(left <= PATIENCE);
            Ok(())
        };
        assert!(received(&mut waits, |waits| Ok(*waits == 7), wait).unwrap());
        assert_eq!(waits, 7);
    }

    #[test]
    fn an_answer_says_that_it_was_interrupted_in_any_of_its_messages() {
        let whole = [header(28, 2, 0), header(NLMSG_DONE, 2, 0)].concat();
        for marked in [None, Some(6), Some(HEADER + 6)] {
            let mut datagram = whole.clone();
            if let Some(place) = marked {
                datagram[place] |= NLM_F_DUMP_INTR as u8;
            }
            let mut interrupted = false;
            messages(&datagram, |message| {
                interrupted |= is_interrupted(message);
                Ok(())
            })
            .unwrap();
            assert_eq!(interrupted, marked.is_some());
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_ends_the_reading_with_an_error() {
        let failing = |message: &Received<'_>| match message.message_type() {
            28 => Err(Error::Failed("no".to_owned())),
            _ => Ok(()),
        };
        let datagram = [header(29, 0, 0), header(28, 0, 0)].concat();
        assert_eq!(messages(&datagram, failing), Err(Error::Failed("no".to_owned())));
        let mut too_long = header(29, 0, 0);
        too_long[0] = 200;
        assert!(messages(&too_long, |_| Ok(())).is_err());
    }
}
