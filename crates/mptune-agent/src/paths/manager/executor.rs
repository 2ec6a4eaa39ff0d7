//! Executor of the orders of connections: the kernel's commands, or another in their place.

use crate::kernel::diag::{Diag, ESTABLISHED, Single};
use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::commands::Commands;
use crate::kernel::pair::Pair;
use crate::paths::connection::{Act, Connection};
use std::net::SocketAddr;

/// Carries out what connections want.
pub trait Executor {
    /// Carries out an order.
    ///
    /// # Errors
    /// It is refused, or nothing works any more.
    fn obey(&mut self, diag: &mut Diag, token: u32, act: &Act) -> Result<(), Error>;

    /// A connection that was there before is one whose orders are carried out.
    ///
    /// # Errors
    /// Nothing works any more.
    fn is_managed(&mut self, token: u32, pair: &Pair) -> Result<bool, Error>;

    /// Subflows may be opened.
    fn opens(&self) -> bool;
}

impl Executor for Commands {
    fn obey(&mut self, diag: &mut Diag, token: u32, act: &Act) -> Result<(), Error> {
        match *act {
            Act::Create { pair, address_id, backup, .. } => {
                self.create(token, &pair, address_id, backup)
            }
            Act::SetPriority { pair, backup, .. } => self.set_backup(token, &pair, backup),
            Act::Destroy { pair, .. } => self.destroy(token, &pair),
            Act::Announce { end, address_id } => match diag.is_listened_at(end)? {
                true => self.announce(token, SocketAddr::new(end.ip(), 0), address_id),
                false => Ok(()),
            },
            Act::Retract { address_id } => self.remove(token, address_id),
        }
    }

    fn is_managed(&mut self, token: u32, pair: &Pair) -> Result<bool, Error> {
        Commands::is_managed(self, token, pair)
    }

    fn opens(&self) -> bool {
        true
    }
}

/// A subflow of the connection is established, and some program still has the connection: one that is closed lives
/// on for a while, without taking orders. (Another connection may have the ends by now.)
pub(super) fn is_there(
    diag: &mut Diag,
    token: u32,
    connection: &Connection,
) -> Result<bool, Error> {
    let established = connection.established();
    let subflows: Vec<_> = established.iter().map(|(_, pair)| Single::Subflow(*pair)).collect();
    let mut is_established = false;
    diag.count(&subflows, |_, counted| {
        let is_its = counted.mptcp.is_some_and(|mptcp| mptcp.token == token);
        is_established |= is_its && counted.state == ESTABLISHED && counted.inode != 0;
    })?;
    Ok(is_established)
}
