//! Saturated and fixed-size traffic over MPTCP sockets, measured, with both ends in one process.
//!
//! A process of its own, driven by lines of JSON: the configuration on standard input (`config`),
//! news and the result on standard output (`session::News`, `report`). Each end is a thread in
//! a network namespace of its own (`sender`, `receiver`); a third one, here, listens to
//! commands and signals, so that neither can hold up the measurement.
//!
//! Not here: namespaces and addresses (they exist when the meter starts), the network between them
//! (mptune-emulator), subflows (path managers open them; the meter counts what there is).

#![cfg(target_os = "linux")]

mod address;
mod bins;
mod config;
mod control;
mod counters;
mod diag;
mod info;
mod pattern;
mod receiver;
mod report;
mod sender;
mod session;
mod socket;
mod subflows;
mod sys;

use config::Config;
use control::{Control, Input};
use receiver::Received;
use report::Report;
use sender::Sent;
use serde::{Deserialize, Serialize};
use session::{Ending, Session};
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longest wait for anything: what is missed by a wake-up is seen after it.
const TICK: Duration = Duration::from_millis(100);

/// The same once the measurement is over and its threads are leaving.
const LAST_TICK: Duration = Duration::from_millis(1);

/// A line on standard input after the first.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Command {
    /// A saturated measurement is over now.
    Stop,
}

/// The line of a measurement that did not take place.
#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct Refusal<'a> {
    reason: &'a str,
}

/// Runs one measurement between standard input and output; the exit status: 0 with a result, even
/// one of a measurement that failed, 1 if none took place.
pub fn main() -> i32 {
    let mut control = match Control::new() {
        Ok(control) => control,
        Err(error) => {
            eprintln!("meter: {error}");
            return 1;
        }
    };
    let (line, status) = match run(&mut control) {
        Ok(line) => (line, 0),
        Err(reason) => (json(&Refusal { reason: &reason }), 1),
    };
    // Nobody reads: nothing is left to be told.
    control.print(&line).map_or(1, |()| status)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structures with string keys always serialise")
}

/// The line of the result.
fn run(control: &mut Control) -> Result<String, String> {
    match sys::die_with_parent() {
        Ok(true) => {}
        Ok(false) => return Err("whoever started the meter is gone".to_owned()),
        Err(error) => return Err(format!("PR_SET_PDEATHSIG: {error}")),
    }
    let config = Config::parse(&first_line(control)?)?;
    let session = Session::new().map_err(|error| format!("eventfd: {error}"))?;
    let cpu_before_ns = sys::cpu_ns();
    let (mut sent, mut received) = measure(&config, &session, control);
    let streams = [
        sent.as_mut().ok().and_then(|sent| sent.stream.take()),
        received.as_mut().ok().and_then(|received| received.stream.take()),
    ];
    streams.into_iter().flatten().for_each(socket::abort);
    print_news(control, &session).map_err(|error| format!("standard output: {error}"))?;
    match session.ending() {
        Some(Ending::Impossible(reason)) => Err(reason.clone()),
        Some(ending) => {
            let cpu_ns = sys::cpu_ns() - cpu_before_ns;
            Ok(json(&Report::new(&config, ending, sent?, received?, cpu_ns)))
        }
        None => unreachable!("an end leaves an ending behind, see Leaving"),
    }
}

fn first_line(control: &mut Control) -> Result<String, String> {
    loop {
        match control.next(None, TICK).map_err(|error| format!("standard input: {error}"))? {
            Some(Input::Line(line)) => return Ok(line),
            Some(Input::Closed) => return Err("configuration: a line of JSON expected".to_owned()),
            Some(Input::Signal(name)) => return Err(format!("ended by {name}")),
            None => {}
        }
    }
}

/// Both ends at work, each in a thread, and the control of them in this one.
fn measure(
    config: &Config,
    session: &Session,
    control: &mut Control,
) -> (Result<Sent, String>, Result<Received, String>) {
    let (ready, listening) = mpsc::channel();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver::run(config, session, ready));
        let sender = scope.spawn(|| sender::run(config, session, listening));
        while !(receiver.is_finished() && sender.is_finished()) {
            if let Err(error) = follow(control, session) {
                session.end(Ending::Failed(format!("standard input or output: {error}")));
                break;
            }
        }
        let panicked = "a thread of the meter panicked".to_owned();
        let sent = sender.join().unwrap_or(Err(panicked.clone()));
        (sent, receiver.join().unwrap_or(Err(panicked)))
    })
}

/// One step of the control: at most one input, and all news.
fn follow(control: &mut Control, session: &Session) -> io::Result<()> {
    let tick = if session.ending().is_some() { LAST_TICK } else { TICK };
    match control.next(Some(session.bell()), tick)? {
        Some(Input::Line(line)) => match serde_json::from_str(&line) {
            Ok(Command::Stop) => session.end(Ending::Stopped),
            Err(error) => session.end(Ending::Failed(format!("a command expected: {error}"))),
        },
        Some(Input::Closed) => session.end(Ending::Failed("standard input was closed".to_owned())),
        Some(Input::Signal(name)) => session.end(Ending::Failed(format!("ended by {name}"))),
        None => {}
    }
    print_news(control, session)
}

fn print_news(control: &mut Control, session: &Session) -> io::Result<()> {
    session.take_news().iter().try_for_each(|news| control.print(&json(news)))
}
