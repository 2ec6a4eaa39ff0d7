//! An emulation with its clock's begin, and the answer to the last line.

use mptune_core::units::Nanos;
use mptune_emulator::{self as emulator, Effect, Emulation};
use thiserror::Error;

/// Bytes of the largest frame: `struct virtio_net_hdr` and a packet.
pub const FRAME: usize = 10 + u16::MAX as usize;
/// Records of a recording in an answer.
const RECORDS: usize = 4096;
/// The line that asks for the next of them.
const NEXT_RECORDS: &[u8] = b"records";
/// The report's scheduling class.
const SCHEDULING: &str = "kernel";

/// A refused line.
#[derive(Debug, Error)]
enum Refusal {
    /// The emulation refuses it.
    #[error(transparent)]
    Emulation(#[from] emulator::Error),
    /// A command after the end.
    #[error("command: expected none after the end")]
    Ended,
}

/// Effect of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Nothing: it was refused, and the answer is the reason.
    Refused = 0,
    /// Something that concerns nobody else.
    Taken = 1,
    /// The network's clock starts.
    Started = 2,
    /// The network has ended.
    Ended = 3,
}

/// The network of a guest.
#[derive(Debug)]
pub struct Model {
    emulation: Option<Emulation>,
    /// The kernel's time at the start, once it has started.
    start: Option<Nanos>,
    ended: bool,
    answer: Vec<u8>,
    /// Bytes of the answer that were read.
    read: usize,
    frame: Box<[u8]>,
}

impl Default for Model {
    fn default() -> Self {
        let frame = vec![0; FRAME].into_boxed_slice();
        Self { emulation: None, start: None, ended: false, answer: Vec::new(), read: 0, frame }
    }
}

impl Model {
    /// Takes a line: the configuration first, then commands, and after the end requests for records.
    pub fn tell(&mut self, line: &[u8], now: Nanos) -> Told {
        self.read = 0;
        self.answer.clear();
        let line = line.trim_ascii();
        self.told(line, now).unwrap_or_else(|error| {
            self.answer = error.to_string().into_bytes();
            Told::Refused
        })
    }

    fn told(&mut self, line: &[u8], now: Nanos) -> Result<Told, Refusal> {
        let Some(emulation) = &mut self.emulation else {
            self.emulation = Some(Emulation::new(line)?);
            return Ok(Told::Taken);
        };
        if self.ended {
            if line != NEXT_RECORDS {
                return Err(Refusal::Ended);
            }
            self.answer = emulation.records(RECORDS);
            return Ok(Told::Taken);
        }
        match emulation.execute(line)? {
            Effect::Nothing => Ok(Told::Taken),
            Effect::Start => {
                self.start = Some(now);
                Ok(Told::Started)
            }
            Effect::End => {
                self.ended = true;
                let elapsed = self.start.map_or(0, |start| now - start);
                self.answer = emulation.report(elapsed, SCHEDULING).into_bytes();
                Ok(Told::Ended)
            }
        }
    }

    /// The next part of the answer, at most as much as `to` holds; returns its length, 0 at the end.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let rest = &self.answer[self.read..];
        let length = rest.len().min(to.len());
        to[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        length
    }

    /// Number of the configuration's devices; 0 before.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.emulation.as_ref().map_or(0, Emulation::devices)
    }

    /// Room for a frame, to be written before it enters.
    pub fn frame(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    /// The frame of that length enters from a device. Nothing enters before the start and after the end.
    pub fn enter(&mut self, device: usize, length: usize, now: Nanos) {
        let Some(start) = self.start.filter(|_| !self.ended) else { return };
        if let Some(emulation) = &mut self.emulation {
            emulation.enter(device, &self.frame[..length], now - start);
        }
    }

    /// Gives every frame that is due to `send`, with its device; false from there counts it as lost.
    pub fn deliver(&mut self, now: Nanos, send: impl FnMut(usize, &[u8]) -> bool) {
        let Some(start) = self.start.filter(|_| !self.ended) else { return };
        if let Some(emulation) = &mut self.emulation {
            emulation.deliver(now - start, send);
        }
    }

    /// The kernel's time of the next call of [`Self::deliver`]; none for never, unless something enters.
    #[must_use]
    pub fn next_at(&self, now: Nanos) -> Option<Nanos> {
        let start = self.start.filter(|_| !self.ended)?;
        Some(start + self.emulation.as_ref()?.next_at(now - start)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const MS: Nanos = 1_000_000;
    /// The kernel's clock at the start.
    const START: Nanos = 17 * MS;

    /// One path of 8 Mbit/s and 5 ms, whose queue has room for three packets.
    fn configuration() -> Value {
        let link = |name: &str| json!({"name": name, "delay_ns": 5 * MS, "rate_bps": 8_000_000, "queue_bytes": 3000});
        let interface = |side: &str, address: &str| {
            let netns = "/proc/self/ns/net";
            json!({"side": side, "index": 0, "netns": netns, "device": "if0", "ipv4": address})
        };
        let path = json!({"label": "a-b", "local": 0, "remote": 0, "forward": [0], "reverse": [1]});
        json!({
            "seed": 1,
            "network": {"links": [link("up"), link("down")], "paths": [path]},
            "interfaces": [interface("local", "10.64.0.1"), interface("remote", "10.65.0.1")],
            "recording": {"file": "elsewhere", "packets": 10},
        })
    }

    fn tell(model: &mut Model, line: &Value, now: Nanos) -> Told {
        model.tell(format!("{line}\n").as_bytes(), now)
    }

    fn answer(model: &mut Model) -> Vec<u8> {
        let mut part = [0; 7];
        let parts = std::iter::from_fn(|| {
            Some(model.read(&mut part)).filter(|&n| n > 0).map(|n| part[..n].to_vec())
        });
        parts.collect::<Vec<_>>().concat()
    }

    fn started() -> Model {
        let mut model = Model::default();
        assert_eq!(tell(&mut model, &configuration(), 0), Told::Taken);
        assert_eq!(tell(&mut model, &json!({"action": "start"}), START), Told::Started);
        model
    }

    /// A packet of 1000 bytes from the local site to the remote one enters.
    fn send(model: &mut Model, fill: u8, now: Nanos) {
        let frame = model.frame();
        frame[..1010].fill(0);
        frame[10..14].copy_from_slice(&[0x45, 0, 3, 232]);
        frame[22..30].copy_from_slice(&[10, 64, 0, 1, 10, 65, 0, 1]);
        frame[1009] = fill;
        model.enter(0, 1010, now);
    }

    /// Device and last byte of what is due.
    fn due(model: &mut Model, now: Nanos) -> Vec<(usize, u8)> {
        let mut frames = Vec::new();
        model.deliver(now, |device, frame| {
            frames.push((device, frame[frame.len() - 1]));
            true
        });
        frames
    }

    #[test]
    fn packets_are_due_at_the_kernels_times_and_go_to_the_other_end() {
        let mut model = started();
        assert_eq!((model.devices(), model.next_at(START)), (2, None));
        (0..4).for_each(|fill| send(&mut model, fill, START + MS));
        // 1 ms for each packet, after 5 ms; there is no room for the fourth.
        assert_eq!(model.next_at(START + MS), Some(START + 7 * MS));
        assert_eq!(due(&mut model, START + 7 * MS - 1), []);
        assert_eq!(due(&mut model, START + 8 * MS), [(1, 0), (1, 1)]);
        assert_eq!(model.next_at(START + 8 * MS), Some(START + 9 * MS));
        assert_eq!(due(&mut model, START + 20 * MS), [(1, 2)]);
        assert_eq!(model.next_at(START + 20 * MS), None);
    }

    #[test]
    fn nothing_enters_before_the_start_and_after_the_end() {
        let mut model = Model::default();
        tell(&mut model, &configuration(), 0);
        send(&mut model, 1, MS);
        assert_eq!((model.next_at(MS), due(&mut model, 50 * MS)), (None, vec![]));
        tell(&mut model, &json!({"action": "start"}), START);
        send(&mut model, 2, START);
        assert_eq!(tell(&mut model, &json!({"action": "stop"}), START + MS), Told::Ended);
        assert_eq!((model.next_at(START), due(&mut model, 50 * MS)), (None, vec![]));
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason_and_changes_nothing() {
        let mut model = Model::default();
        let mut wrong = configuration();
        wrong["network"]["links"][1]["rate_bps"] = json!(7);
        assert_eq!(tell(&mut model, &wrong, 0), Told::Refused);
        assert!(
            String::from_utf8(answer(&mut model))
                .unwrap()
                .starts_with("network.links[1].rate_bps: ")
        );
        assert_eq!(tell(&mut model, &configuration(), 0), Told::Taken);
        assert!(answer(&mut model).is_empty());
        assert_eq!(tell(&mut model, &json!({"action": "down", "path": 1}), 0), Told::Refused);
        tell(&mut model, &json!({"action": "start"}), START);
        assert_eq!(tell(&mut model, &json!({"action": "start"}), START), Told::Refused);
        send(&mut model, 3, START);
        assert_eq!(due(&mut model, START + 6 * MS), [(1, 3)]);
    }

    #[test]
    fn a_path_that_is_down_carries_nothing() {
        let mut model = started();
        tell(&mut model, &json!({"action": "down", "path": 0}), START);
        send(&mut model, 1, START);
        tell(&mut model, &json!({"action": "up", "path": 0}), START);
        send(&mut model, 2, START + MS);
        assert_eq!(due(&mut model, START + 50 * MS), [(1, 2)]);
    }

    #[test]
    fn the_end_is_answered_with_the_report_and_then_come_the_records() {
        let mut model = started();
        (0..4).for_each(|fill| send(&mut model, fill, START));
        due(&mut model, START + 50 * MS);
        tell(&mut model, &json!({"action": "stop"}), START + 60 * MS);
        let report: Value = serde_json::from_slice(&answer(&mut model)).expect("a report");
        assert_eq!((&report["elapsed_ns"], &report["packets"]), (&json!(60 * MS), &json!(3)));
        assert_eq!(report["links"][0]["dropped"], json!(1));
        assert_eq!(model.tell(b"records", 0), Told::Taken);
        assert_eq!(answer(&mut model).len(), 4 * mptune_core::recording::RECORD_BYTES);
        assert_eq!(model.tell(b"records", 0), Told::Taken);
        assert!(answer(&mut model).is_empty());
        assert_eq!(tell(&mut model, &json!({"action": "stop"}), START), Told::Refused);
    }
}
