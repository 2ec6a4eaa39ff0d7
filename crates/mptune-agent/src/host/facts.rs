//! The facts of a host that matter to measurements between hosts. Nothing is changed.

use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::endpoints::{self as pm, PathManager};
use crate::kernel::mptcp_pm::family;
use crate::kernel::mptcp_pm::most::{self, Most};
use crate::kernel::routes::{Address, DefaultRoute, Link, Routes, Rule};
use crate::kernel::sysctl::single_spaced;
use crate::kernel::sysctl::{self, Values};
use crate::kernel::{offloads, sys};
use crate::undo::places;
use crate::{congestion, role};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

/// `CAP_NET_ADMIN`.
const NET_ADMIN: u32 = 12;

/// The facts.
#[derive(Debug, Serialize)]
pub struct Facts {
    interfaces: Vec<Interface>,
    rp_filter_all: Option<u32>,
    rules: Vec<Rule>,
    kernel: String,
    machine: &'static str,
    /// The reason for no MPTCP; none if there is MPTCP.
    mptcp: Option<String>,
    /// The reason why no program can manage paths here; none if programs can.
    path_manager: Option<String>,
    /// Of the kernel's own path manager; none where they cannot be read.
    endpoints: Option<Vec<Endpoint>>,
    limits: Option<Limits>,
    most: Option<Most>,
    net_admin: bool,
    /// It runs under sudo.
    sudo: bool,
    congestion_controls: CongestionControls,
    /// The obstacle to registering congestion controls as BPF programs; none if none is known.
    bpf: Option<String>,
    sysctls: Values,
    rmem_max: Option<u64>,
    wmem_max: Option<u64>,
    processors: usize,
    /// Load average of the last minute.
    load: Option<f64>,
    /// `MemAvailable`, bytes.
    memory_available: Option<u64>,
    /// By device.
    offloads: BTreeMap<String, Vec<&'static str>>,
    leaves: Vec<Leaves>,
}

#[derive(Debug, Serialize)]
struct Interface {
    device: String,
    up: bool,
    mtu: u32,
    addresses: Vec<Address>,
    default_routes: Vec<DefaultRoute>,
    rp_filter: Option<u32>,
}

#[derive(Debug, Serialize)]
struct CongestionControls {
    available: Vec<String>,
    /// Those for processes without CAP_NET_ADMIN.
    allowed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Endpoint {
    address: IpAddr,
    id: u8,
    port: u16,
    flags: Vec<&'static str>,
    device: Option<String>,
}

#[derive(Debug, Serialize)]
struct Limits {
    subflows: u32,
    add_addr_accepted: u32,
}

/// The device by which packets leave.
#[derive(Debug, Serialize)]
struct Leaves {
    from: IpAddr,
    to: IpAddr,
    /// None if they cannot leave.
    device: Option<String>,
    /// The reason if they cannot.
    reason: Option<String>,
}

/// Looks at the host, reads the settings `names`, and looks up the routes of `pairs`.
///
/// # Errors
/// The kernel does not answer.
pub fn read(names: &[String], pairs: &[(IpAddr, IpAddr)]) -> Result<Facts, Error> {
    let mut routes = Routes::open()?;
    let links = routes.links()?;
    let (endpoints, limits) = managed(&links).unzip();
    let devices = links.values().map(|link| link.device.clone());
    let read = |name: &str| Some((name.to_owned(), setting(name)?));
    Ok(Facts {
        interfaces: interfaces(&mut routes, &links)?,
        rp_filter_all: number("net.ipv4.conf.all.rp_filter"),
        rules: routes.rules()?,
        kernel: kernel("osrelease"),
        machine: std::env::consts::ARCH,
        mptcp: no_mptcp(),
        path_manager: no_path_manager(),
        endpoints,
        limits,
        most: most::read(),
        net_admin: may_administrate(),
        sudo: std::env::var_os("SUDO_UID").is_some(),
        congestion_controls: CongestionControls {
            available: list("net.ipv4.tcp_available_congestion_control"),
            allowed: list("net.ipv4.tcp_allowed_congestion_control"),
        },
        bpf: congestion::possible().err().map(|error| error.to_string()),
        sysctls: names.iter().filter_map(|name| read(name)).collect(),
        rmem_max: number("net.core.rmem_max"),
        wmem_max: number("net.core.wmem_max"),
        processors: sys::processors().map_or(0, |processors| processors.len()),
        load: load(),
        memory_available: memory_available(),
        offloads: devices.map(|device| (device.clone(), offloads::of(&device))).collect(),
        leaves: pairs.iter().map(|&(from, to)| leaves(&mut routes, &links, from, to)).collect(),
    })
}

/// Text of a file of /proc/sys/kernel, without its line feed.
pub fn kernel(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    text.unwrap_or_default().trim().to_owned()
}

/// True if this process has CAP_NET_ADMIN.
pub fn may_administrate() -> bool {
    role::capabilities() >> NET_ADMIN & 1 == 1
}

fn setting(name: &str) -> Option<String> {
    let file = sysctl::file(&places::sysctl_root(), name).ok()?;
    sysctl::read(&file).ok().map(|value| single_spaced(&value))
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    setting(name)?.parse().ok()
}

fn list(name: &str) -> Vec<String> {
    setting(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    // "kB" there are 1024 bytes (proc_meminfo(5)).
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn interfaces(routes: &mut Routes, links: &BTreeMap<u32, Link>) -> Result<Vec<Interface>, Error> {
    let mut addresses = routes.addresses()?;
    let mut defaults = routes.default_routes()?;
    let interface = |(index, link): (&u32, &Link)| {
        // In the name of a setting a slash stands for a dot in that of a device.
        let device = link.device.replace('.', "/");
        Interface {
            device: link.device.clone(),
            up: link.up,
            mtu: link.mtu,
            addresses: addresses.remove(index).unwrap_or_default(),
            default_routes: defaults.remove(index).unwrap_or_default(),
            rp_filter: number(&format!("net.ipv4.conf.{device}.rp_filter")),
        }
    };
    Ok(links.iter().map(interface).collect())
}

fn leaves(routes: &mut Routes, links: &BTreeMap<u32, Link>, from: IpAddr, to: IpAddr) -> Leaves {
    let (device, reason) = match routes.leaves_by(from, to) {
        Ok(index) => {
            let link = index.and_then(|index| links.get(&index));
            (link.map(|link| link.device.clone()), None)
        }
        Err(error) => (None, Some(error.to_string())),
    };
    Leaves { from, to, device, reason }
}

/// Endpoints and limits; none without MPTCP, or without the privilege that reading them takes.
fn managed(links: &BTreeMap<u32, Link>) -> Option<(Vec<Endpoint>, Limits)> {
    let mut manager = PathManager::open().ok()?;
    let device = |number: i32| links.get(&u32::try_from(number).ok()?);
    let endpoint = |one: pm::Endpoint| Endpoint {
        address: one.ip,
        id: one.id,
        port: one.port,
        flags: pm::names(one.flags),
        device: device(one.device).map(|link| link.device.clone()),
    };
    let endpoints = manager.endpoints().ok()?.into_iter().map(endpoint).collect();
    let pm::Limits { subflows, add_addr_accepted } = manager.limits().ok()?;
    Some((endpoints, Limits { subflows, add_addr_accepted }))
}

fn no_mptcp() -> Option<String> {
    match setting("net.mptcp.enabled").as_deref() {
        None => Some("this kernel has no MPTCP".to_owned()),
        Some("0") => Some("net.mptcp.enabled is 0".to_owned()),
        Some(_) => sys::socket(libc::AF_INET, libc::SOCK_STREAM, sys::IPPROTO_MPTCP)
            .err()
            .map(|error| error.to_string()),
    }
}

fn no_path_manager() -> Option<String> {
    let known = list("net.mptcp.available_path_managers");
    // Its name since Linux 6.15; before, a number of `pm_type` since 5.19.
    if !known.iter().any(|name| name == "userspace") && setting("net.mptcp.pm_type").is_none() {
        return Some("this kernel has no userspace path manager".to_owned());
    }
    family::open().err().map(|error| error.to_string())
}
