//! The process: a configuration, devices, commands and packets until the end, a report.

use crate::clock::{Clock, RealClock};
use crate::config::Config;
use crate::control::{Command, Lines};
use crate::device::Device;
use crate::processors;
use crate::relay::Relay;
use crate::report::{Effort, Event, Report, print};
use crate::sys::{self, Timer};
use mptune_core::units::Nanos;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Most packets in flight, 2 KiB each: half a gigabyte, 2 s at 1.5 Gbit/s.
const SLOTS: usize = 1 << 18;
/// Files to wait for besides the devices.
const INPUTS: usize = 2;

/// Runs the emulator on standard input and output until it is stopped; returns the exit status.
pub fn main() -> i32 {
    emulate().unwrap_or_else(|reason| {
        print(&Event::Error { reason: &reason });
        1
    })
}

fn emulate() -> Result<i32, String> {
    sys::kill_with_parent().map_err(|error| format!("PR_SET_PDEATHSIG: {error}"))?;
    let mut inputs = Inputs::open().map_err(|error| format!("standard input: {error}"))?;
    let Some(line) = inputs.first_line()? else { return Ok(0) };
    let config = Config::parse(&line)?;
    let receiving = processors::reserve_receiving(config.capacity());
    let create = |interface| Device::create(interface, receiving);
    let devices = config.interfaces.iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let scheduling = sys::raise_priority();
    print(&Event::Ready);
    let mut session = Session::new(&config, inputs, devices)?;
    let outcome = session.carry();
    if let Err(reason) = &outcome {
        print(&Event::Error { reason });
    }
    let effort = session.effort(scheduling);
    let unrecorded = record(&config, &session.relay)?;
    print(&Event::Report(Report::new(&config, &session.relay, effort, unrecorded)));
    Ok(i32::from(outcome.is_err()))
}

/// Writes the recording, if there is one. Returns the number of packets that it lacks.
fn record(config: &Config, relay: &Relay) -> Result<u64, String> {
    let Some(recording) = &config.recording else { return Ok(0) };
    let failed = |error| format!("recording: {}: {error}", recording.file.display());
    relay.write_recording(recording).map_err(failed)
}

/// The sources of commands and of the end.
struct Inputs {
    termination: OwnedFd,
    lines: Lines,
    terminated: bool,
}

impl Inputs {
    fn open() -> io::Result<Self> {
        let termination = sys::catch_termination()?;
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { termination, lines: Lines::new(file), terminated: false })
    }

    /// Files to wait for.
    fn files(&self) -> [libc::pollfd; INPUTS] {
        [sys::readable(self.termination.as_fd()), sys::readable(self.lines.as_fd())]
    }

    /// Takes the results of the wait.
    fn take(&mut self, polled: &[libc::pollfd]) -> Result<(), String> {
        self.terminated |= polled[0].revents != 0;
        if polled[1].revents != 0 {
            self.lines.fill().map_err(|error| format!("standard input: {error}"))?;
        }
        Ok(())
    }

    fn ended(&self) -> bool {
        self.terminated || self.lines.ended()
    }

    /// Waits for the first line; none if the end comes first.
    fn first_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(line) = self.lines.next() {
                return Ok(Some(line));
            }
            if self.ended() {
                return Ok(None);
            }
            let mut files = self.files();
            sys::wait(&mut files, false).map_err(|error| format!("waiting: {error}"))?;
            self.take(&files)?;
        }
    }
}

/// The emulation once the devices exist.
struct Session {
    inputs: Inputs,
    devices: Vec<Device>,
    relay: Relay,
    paths: usize,
    /// The inputs, the devices, the timer.
    files: Vec<libc::pollfd>,
    timer: Timer,
    /// Time of the timer. Most received packets do not change it.
    alarm: Option<Nanos>,
    /// The network's clock and the processor time at its start. Until then devices are not read: packets wait
    /// in them.
    start: Option<(RealClock, Nanos)>,
}

impl Session {
    fn new(config: &Config, inputs: Inputs, devices: Vec<Device>) -> Result<Self, String> {
        let readable = devices.iter().map(|device| sys::readable(device.as_fd()));
        let timer = Timer::new().map_err(|error| format!("timerfd_create: {error}"))?;
        let files = inputs.files().into_iter().chain(readable);
        let files = files.chain([sys::readable(timer.as_fd())]).collect();
        let relay = Relay::new(config, SLOTS);
        let paths = config.network.paths.len();
        Ok(Self { inputs, devices, relay, paths, files, timer, alarm: None, start: None })
    }

    /// Carries packets until the end.
    fn carry(&mut self) -> Result<(), String> {
        loop {
            while let Some(line) = self.inputs.lines.next() {
                if !self.execute(Command::parse(&line, self.paths)?)? {
                    return Ok(());
                }
            }
            if self.inputs.ended() {
                return Ok(());
            }
            self.move_packets().map_err(|error| error.to_string())?;
            self.wait().map_err(|error| format!("waiting: {error}"))?;
            self.inputs.take(&self.files)?;
        }
    }

    /// Reads from devices that are ready, and writes due packets.
    fn move_packets(&mut self) -> io::Result<()> {
        let Some((clock, _)) = &self.start else { return Ok(()) };
        for (device, file) in self.files[INPUTS..].iter().take(self.devices.len()).enumerate() {
            if file.revents != 0 {
                self.relay.receive(device, &mut self.devices, clock)?;
            }
        }
        self.relay.deliver(&mut self.devices, clock);
        Ok(())
    }

    /// Waits for a command, a packet or the time of the next delivery.
    fn wait(&mut self) -> io::Result<()> {
        let Some((clock, _)) = &self.start else {
            return sys::wait(&mut self.files[..INPUTS], false);
        };
        let now = clock.now();
        let at = self.relay.next_at(now);
        if at.is_some_and(|at| at <= now) {
            return sys::wait(&mut self.files, true);
        }
        if at != self.alarm {
            self.timer.set(at.map(|at| Duration::from_nanos(at - now)))?;
            self.alarm = at;
        }
        sys::wait(&mut self.files, false)
    }

    /// Executes a command; false for the end.
    fn execute(&mut self, command: Command) -> Result<bool, String> {
        match command {
            Command::Start if self.start.is_none() => {
                self.start = Some((RealClock::start(), sys::cpu_time()));
            }
            Command::Start => return Err("command: expected one start, found another".into()),
            Command::Down { path } => self.relay.set_path_up(path, false),
            Command::Up { path } => self.relay.set_path_up(path, true),
            Command::Stop => return Ok(false),
        }
        Ok(true)
    }

    /// Time and processor time since the start.
    fn effort(&self, scheduling: &'static str) -> Effort {
        let (elapsed, cpu) =
            self.start.as_ref().map_or((0, 0), |(clock, cpu)| (clock.now(), sys::cpu_time() - cpu));
        let lost = self.devices.iter().map(Device::lost).sum();
        Effort { elapsed, cpu, scheduling, lost }
    }
}
