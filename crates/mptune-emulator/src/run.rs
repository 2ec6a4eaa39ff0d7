//! The process: a configuration, devices, commands and packets until the end, a report.

use crate::clock::{Clock, RealClock};
use crate::config::Config;
use crate::device::Device;
use crate::driver::{self, Driver};
use crate::emulation::{Effect, Emulation};
use crate::error::ProcessError;
use crate::inputs::{INPUTS, Inputs, STANDARD_INPUT};
use crate::processors;
use crate::report::{Effort, Event, print};
use crate::sys::{self, Timer};
use mptune_core::units::Nanos;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Records of a recording that are written at a time: a third of a megabyte.
const RECORDS: usize = 4096;

/// Runs the emulator on standard input and output until it is stopped; returns the exit status.
pub fn main() -> i32 {
    emulate().unwrap_or_else(|error| {
        print_error(&error);
        1
    })
}

fn print_error(error: &ProcessError) {
    print(&Event::Error { reason: &error.to_string() }.line());
}

fn emulate() -> Result<i32, ProcessError> {
    let failed = |call| move |error| ProcessError::System(call, error);
    sys::kill_with_parent().map_err(failed("PR_SET_PDEATHSIG"))?;
    let mut inputs = Inputs::open().map_err(failed(STANDARD_INPUT))?;
    let Some(line) = inputs.next_line()? else { return Ok(0) };
    let config = Config::parse(&line)?;
    match Driver::open()? {
        Some(driver) => in_kernel(driver, inputs, &line, &config),
        None => in_process(inputs, config),
    }
}

/// Emulates in this process, with TUN devices.
fn in_process(inputs: Inputs, config: Config) -> Result<i32, ProcessError> {
    let receiving = processors::reserve_receiving(config.capacity());
    let create = |interface| Device::create(interface, receiving);
    let devices = config.interfaces.iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let scheduling = sys::raise_priority();
    print(&Event::Ready.line());
    let file = config.recording.as_ref().map(|recording| recording.file.clone());
    let mut session = Session::new(Emulation::of(config), inputs, devices)?;
    let outcome = session.carry();
    if let Err(error) = &outcome {
        print_error(error);
    }
    let effort = session.effort(scheduling);
    let report = session.emulation.report_of(effort);
    if let Some(file) = file {
        write_recording(&file, || Ok(session.emulation.records(RECORDS)))?;
    }
    print(&report);
    Ok(i32::from(outcome.is_err()))
}

/// Lets the kernel of a guest emulate, and passes on what it is told and what it answers.
fn in_kernel(
    mut driver: Driver,
    mut inputs: Inputs,
    line: &[u8],
    config: &Config,
) -> Result<i32, ProcessError> {
    driver.tell(line)?;
    config.interfaces.iter().try_for_each(|interface| driver.add(interface))?;
    print(&Event::Ready.line());
    let mut status = 0;
    let report = loop {
        let command = inputs.next_line()?.unwrap_or_else(|| driver::STOP.to_vec());
        match driver.tell(&command) {
            // Only the end is answered.
            Ok(answer) if answer.is_empty() => {}
            Ok(report) => break report,
            Err(error) => {
                print_error(&error);
                status = 1;
                break driver.tell(driver::STOP)?;
            }
        }
    };
    if let Some(recording) = &config.recording {
        write_recording(&recording.file, || driver.tell(driver::RECORDS))?;
    }
    print(&String::from_utf8_lossy(&report));
    Ok(status)
}

/// Writes pieces of a recording into its file until there are no more.
fn write_recording(
    path: &Path,
    mut next: impl FnMut() -> Result<Vec<u8>, ProcessError>,
) -> Result<(), ProcessError> {
    let failed = |error| ProcessError::Recording { file: path.to_owned(), error };
    let mut file = File::create(path).map_err(failed)?;
    loop {
        let records = next()?;
        if records.is_empty() {
            return Ok(());
        }
        file.write_all(&records).map_err(failed)?;
    }
}

/// The emulation once the devices exist.
struct Session {
    inputs: Inputs,
    devices: Vec<Device>,
    emulation: Emulation,
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
    fn new(
        emulation: Emulation,
        inputs: Inputs,
        devices: Vec<Device>,
    ) -> Result<Self, ProcessError> {
        let readable = devices.iter().map(|device| sys::readable(device.as_fd()));
        let timer = Timer::new().map_err(|error| ProcessError::System("timerfd_create", error))?;
        let files = inputs.files().into_iter().chain(readable);
        let files = files.chain([sys::readable(timer.as_fd())]).collect();
        Ok(Self { inputs, devices, emulation, files, timer, alarm: None, start: None })
    }

    /// Carries packets until the end.
    fn carry(&mut self) -> Result<(), ProcessError> {
        loop {
            while let Some(line) = self.inputs.lines.next() {
                match self.emulation.execute(&line)? {
                    Effect::Start => self.start = Some((RealClock::start(), sys::cpu_time())),
                    Effect::Nothing => {}
                    Effect::End => return Ok(()),
                }
            }
            if self.inputs.ended() {
                return Ok(());
            }
            self.move_packets().map_err(ProcessError::Carrying)?;
            self.wait().map_err(|error| ProcessError::System("waiting", error))?;
            self.inputs.take(&self.files)?;
        }
    }

    /// Reads from devices that are ready, and writes due packets.
    fn move_packets(&mut self) -> io::Result<()> {
        let Some((clock, _)) = &self.start else { return Ok(()) };
        for (device, file) in self.files[INPUTS..].iter().take(self.devices.len()).enumerate() {
            if file.revents != 0 {
                self.emulation.relay.receive(device, &mut self.devices, clock)?;
            }
        }
        self.emulation.relay.deliver(&mut self.devices, clock);
        Ok(())
    }

    /// Waits for a command, a packet or the time of the next delivery.
    fn wait(&mut self) -> io::Result<()> {
        let Some((clock, _)) = &self.start else {
            return sys::wait(&mut self.files[..INPUTS], false);
        };
        let now = clock.now();
        let at = self.emulation.relay.next_at(now);
        if at.is_some_and(|at| at <= now) {
            return sys::wait(&mut self.files, true);
        }
        if at != self.alarm {
            self.timer.set(at.map(|at| Duration::from_nanos(at - now)))?;
            self.alarm = at;
        }
        sys::wait(&mut self.files, false)
    }

    /// Time and processor time since the start.
    fn effort(&self, scheduling: &'static str) -> Effort {
        let (elapsed, cpu) =
            self.start.as_ref().map_or((0, 0), |(clock, cpu)| (clock.now(), sys::cpu_time() - cpu));
        let lost = self.devices.iter().map(Device::lost).sum();
        Effort { elapsed, cpu, scheduling, lost }
    }
}
