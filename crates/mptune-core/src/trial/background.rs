//! TCP connections alongside the measured one, so that it shares congestion with others: each on one path
//! with its own congestion control, saturated from its start to its stop.

use super::names;
use crate::error::SpecError;
use crate::mptcp::accounting::{Accounting, BufferMode};
use crate::mptcp::{
    ConnectionOptions, Members, Protocol, ScriptedAction, ScriptedEvent, scheduler,
};
use crate::network::{BackgroundSpec, Family, NetworkSpec};
use crate::pathmanager;
use crate::transport::BIN;
use crate::units::Bytes;
use crate::workload::Workload;

/// Payload bytes, never the limit: a second's worth at 500 Mbit/s, four times the largest receive buffer
/// of the papers' hosts.
const BUFFER: Bytes = 64 << 20;
/// Each needs three event sources; the queue has 2048 in addition to the network's.
const MAX_FLOWS: usize = 256;

/// The connections of a network's background; `mss` is over IPv4, `family` of paths that have none of their own.
///
/// # Errors
/// Too many of them, or an unknown congestion control.
pub(super) fn connections(
    network: &NetworkSpec,
    mss: u32,
    family: Family,
) -> Result<Vec<ConnectionOptions>, SpecError> {
    let flows = &network.background;
    if flows.len() > MAX_FLOWS {
        let expected = format!("expected at most {MAX_FLOWS} flows, found {}", flows.len());
        return Err(SpecError::new("network.background", expected));
    }
    let numbered = flows.iter().enumerate();
    let of_path = |flow: &BackgroundSpec| network.paths[flow.path].family.unwrap_or(family);
    let segment = |flow: &BackgroundSpec| mss - of_path(flow).longer_header();
    numbered.map(|(number, flow)| connection(number, flow, segment(flow))).collect()
}

fn connection(
    number: usize,
    flow: &BackgroundSpec,
    mss: u32,
) -> Result<ConnectionOptions, SpecError> {
    let finish = |stop| ScriptedAction {
        at: stop - flow.start_ns,
        path: flow.path,
        event: ScriptedEvent::Finish,
    };
    Ok(ConnectionOptions {
        // TCP on one path with the ACK size of MPTCP: existing results depend on it.
        protocol: Protocol::Mptcp,
        controller: names::controller(&format!("network.background[{number}].cc"), &flow.cc)?,
        scheduler: scheduler::Policy::MinRtt(scheduler::minrtt::MinRtt),
        path_policy: None,
        path_parameters: vec![],
        path_manager: pathmanager::Policy::Default(pathmanager::default::DefaultManager),
        workload: Workload::ENDLESS,
        size: Workload::ENDLESS.size(),
        accounting: Accounting::Payload,
        buffer_mode: BufferMode::Fixed,
        send_buffer: BUFFER,
        receive_buffer: BUFFER,
        mss,
        initial_path: flow.path,
        members: Members::default(),
        phase: 0,
        bin: BIN,
        start: flow.start_ns,
        reversed: false,
        script: flow.stop_ns.map(finish).into_iter().collect(),
    })
}
