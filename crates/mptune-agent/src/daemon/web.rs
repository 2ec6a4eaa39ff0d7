//! The metrics over HTTP/1.1, as Prometheus reads them: `GET /metrics` or `HEAD /metrics`, and nothing else.
//!
//! One answer a connection, which then ends. Nobody is waited for: requests are short, connections few, and each
//! ends some seconds after it began, however far it is. It changes nothing and asks nobody who they are.

use super::error::Error;
use crate::kernel::sys::Watch;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

/// Most connections at a time, and most that are accepted in a step.
pub const VISITORS: usize = 16;
/// Longest request with all its headers.
const REQUEST_BYTES: usize = 8192;
/// A connection ends so long after its beginning.
const LIFETIME_NS: u64 = 5_000_000_000;
/// The only thing that there is.
const PATH: &str = "/metrics";
/// Media type of `metrics::text` (OpenMetrics 1.0, "Text format").
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Text that is no address to listen at; in a message after its flag or key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an IP address with a port, such as 127.0.0.1:9464 or [::1]:9464, found {0:?}")]
pub struct AddressError(String);

/// An address to listen at: an IP address with a port, or a port of 127.0.0.1 alone.
///
/// # Errors
/// The text is something else.
pub fn address(text: &str) -> Result<SocketAddr, AddressError> {
    let of_loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = text.parse().map(of_loopback);
    port.ok().or_else(|| text.parse().ok()).ok_or_else(|| AddressError(text.to_owned()))
}

/// The listener with those who ask.
pub struct Web {
    listener: TcpListener,
    address: SocketAddr,
    visitors: Vec<Visitor>,
}

struct Visitor {
    stream: TcpStream,
    ends_ns: u64,
    incoming: Vec<u8>,
    /// Bytes that are still to be written.
    outgoing: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its request is not complete.
    Asking,
    /// It waits for the metrics; true if it wants their head alone.
    Waiting(bool),
    /// It is answered.
    Answered,
    /// All was written: what it sends besides is thrown away until it ends, as a reset would take the answer away.
    Leaving,
    /// Nothing more comes of it.
    Over,
}

impl Web {
    /// Listens at an address; `of` names who wants that, for errors.
    ///
    /// # Errors
    /// That is not possible.
    pub fn open(of: &str, address: SocketAddr) -> Result<Self, Error> {
        let named = |error: io::Error| Error::Metrics(of.to_owned(), address, error);
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true).map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        Ok(Self { listener, address, visitors: Vec::new() })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same for a browser.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// More than this machine can reach it.
    pub fn is_open_to_others(&self) -> bool {
        let ip = match self.address.ip() {
            IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
            ip => ip,
        };
        !ip.is_loopback()
    }

    /// Descriptors to wait for.
    pub fn watches(&self) -> Vec<Watch<'_>> {
        let of = |visitor: &'_ Visitor| match visitor.state {
            State::Answered => libc::POLLOUT,
            _ => libc::POLLIN,
        };
        let mut watches = vec![Watch::readable(&self.listener)];
        watches.extend(
            self.visitors
                .iter()
                .map(|visitor| Watch { events: of(visitor), ..Watch::readable(&visitor.stream) }),
        );
        watches
    }

    /// Reads and writes where that is possible; `ready` is about `watches`. True if anybody waits for the metrics.
    pub fn step(&mut self, ready: &[bool], now_ns: u64) -> bool {
        let waiting = ready.get(1..).unwrap_or_default();
        for (visitor, _) in self.visitors.iter_mut().zip(waiting).filter(|(_, ready)| **ready) {
            match visitor.state {
                State::Answered => visitor.write(),
                _ => visitor.read(),
            }
        }
        self.visitors.retain(|visitor| visitor.state != State::Over && now_ns < visitor.ends_ns);
        if ready.first() == Some(&true) {
            self.accept(now_ns);
        }
        self.visitors.iter().any(|visitor| matches!(visitor.state, State::Waiting(_)))
    }

    fn accept(&mut self, now_ns: u64) {
        for _ in 0..VISITORS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (incoming, outgoing) = (Vec::new(), Vec::new());
            let ends_ns = now_ns + LIFETIME_NS;
            let mut visitor = Visitor { stream, ends_ns, incoming, outgoing, state: State::Asking };
            if self.visitors.len() >= VISITORS {
                let words = format!("expected at most {VISITORS} connections, found one more");
                visitor.refuse("503 Service Unavailable", &words);
            } else {
                self.visitors.push(visitor);
            }
        }
    }

    /// The metrics for all who wait for them.
    pub fn answer(&mut self, text: &str) {
        for visitor in &mut self.visitors {
            if let State::Waiting(head_alone) = visitor.state {
                visitor.answer("200 OK", OPEN_METRICS, text, head_alone);
            }
        }
    }
}

impl Visitor {
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.state = State::Over,
            Ok(length) if self.state == State::Asking => {
                self.incoming.extend(&bytes[..length]);
                self.understand();
            }
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.state = State::Over,
        }
    }

    /// Goes by the request line as soon as all headers are there; none of these is needed.
    fn understand(&mut self) {
        let ends = |mark: &[u8]| self.incoming.windows(mark.len()).any(|bytes| bytes == mark);
        if !ends(b"\r\n\r\n") && !ends(b"\n\n") {
            if self.incoming.len() > REQUEST_BYTES {
                let words = format!("expected at most {REQUEST_BYTES} bytes");
                self.refuse("431 Request Header Fields Too Large", &words);
            }
            return;
        }
        let text = String::from_utf8_lossy(&self.incoming);
        let line = text.lines().next().unwrap_or_default();
        let words: Vec<_> = line.split(' ').collect();
        let [method, target, version] = words[..] else {
            return self.refuse("400 Bad Request", "expected GET /metrics HTTP/1.1");
        };
        let path = target.split('?').next().unwrap_or_default();
        match (method, path) {
            _ if !version.starts_with("HTTP/1.") => {
                self.refuse("505 HTTP Version Not Supported", "expected HTTP/1.1");
            }
            ("GET" | "HEAD", PATH) => self.state = State::Waiting(method == "HEAD"),
            ("GET" | "HEAD", _) => self.refuse("404 Not Found", "expected /metrics"),
            _ => self.refuse("405 Method Not Allowed\r\nAllow: GET, HEAD", "expected GET or HEAD"),
        }
    }

    fn refuse(&mut self, status: &str, words: &str) {
        self.answer(status, PLAIN, &format!("{words}\n"), false);
    }

    fn answer(&mut self, status: &str, kind: &str, text: &str, head_alone: bool) {
        let length = text.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        if !head_alone {
            answer.push_str(text);
        }
        (self.outgoing, self.state) = (answer.into_bytes(), State::Answered);
        self.write();
    }

    fn write(&mut self) {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.state = State::Over,
            }
        }
        let ended = self.stream.shutdown(Shutdown::Write);
        self.state = ended.map_or(State::Over, |()| State::Leaving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Web {
        Web::open("--metrics", address("0").unwrap()).unwrap()
    }

    /// Steps as if everything were ready, with these metrics.
    fn step(web: &mut Web, now_ns: u64) {
        let ready = vec![true; web.watches().len()];
        if web.step(&ready, now_ns) {
            web.answer("# EOF\n");
        }
    }

    /// The answer to a request.
    fn asked(web: &mut Web, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        step(web, 0);
        stream.write_all(request).unwrap();
        step(web, 0);
        step(web, 0);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_address_is_one_of_ip_with_a_port() {
        assert_eq!(address("9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "localhost:9464", "127.0.0.1", ":9464", "70000", "1.2.3.4:x", "::1:9464x"]
        {
            let words = address(text).unwrap_err().to_string();
            assert!(words.ends_with(&format!("found {text:?}")), "{words}");
        }
    }

    #[test]
    fn who_asks_for_the_metrics_gets_them_and_nobody_anything_else() {
        let mut web = web();
        let got = asked(&mut web, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "# EOF\n", "{got}");
        assert!(head.contains(&format!("Content-Type: {OPEN_METRICS}\r\nContent-Length: 6\r\n")));
        let got = asked(&mut web, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(got.contains("Content-Length: 6\r\n") && got.ends_with("\r\n\r\n"), "{got}");
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; 2 * REQUEST_BYTES]].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", "405"),
            (b"GET /metrics HTTP/2\r\n\r\n", "505"),
            (b"hello\n\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
        ] {
            let got = asked(&mut web, request);
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got}");
            assert_eq!(got.contains("\r\nAllow: GET, HEAD\r\n"), status == "405");
        }
        let mut stream = TcpStream::connect(web.address()).unwrap();
        step(&mut web, 0);
        stream.write_all(&long).unwrap();
        for _ in 0..8 {
            step(&mut web, 0);
        }
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 431");
        drop(stream);
        for _ in 0..4 {
            step(&mut web, 0);
        }
        assert!(web.visitors.is_empty());
    }

    #[test]
    fn a_slow_client_ends_and_there_are_no_more_than_so_many() {
        let mut web = web();
        let connect = |web: &Web| TcpStream::connect(web.address()).unwrap();
        let mut slow: Vec<_> = (0..VISITORS).map(|_| connect(&web)).collect();
        step(&mut web, 0);
        step(&mut web, 0);
        assert_eq!(web.visitors.len(), VISITORS);
        let mut late = connect(&web);
        step(&mut web, 1);
        let mut text = String::new();
        late.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 ") && web.visitors.len() == VISITORS);
        slow[0].write_all(b"GET /metrics HTTP/1.1\r\n").unwrap(); // and no end
        step(&mut web, LIFETIME_NS - 1);
        assert_eq!(web.visitors.len(), VISITORS);
        step(&mut web, LIFETIME_NS);
        assert_eq!(web.visitors.len(), 0);
        assert!(asked(&mut web, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn a_port_in_use_is_one_line_that_names_it() {
        let web = web();
        let reason = Web::open("--metrics", web.address()).err().unwrap().to_string();
        let expected = format!(
            "--metrics: expected an address of this machine with a free port, found {}",
            web.address()
        );
        assert!(reason.starts_with(&expected) && !reason.contains('\n'), "{reason}");
        assert!(!web.is_open_to_others());
    }
}
