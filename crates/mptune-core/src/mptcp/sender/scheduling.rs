//! The scheduler with its view of the subflows.

use crate::congestion::Peer;
use crate::mptcp::pathpolicy::Paces;
use crate::mptcp::scheduler::{self, Candidates, Style};
use crate::pathmanager::SubflowId;
use crate::units::{Nanos, Seq};

/// The scheduler with its view.
#[derive(Debug)]
pub(super) struct Scheduling {
    policy: scheduler::Policy,
    pub style: Style,
    /// [`scheduler::Policy::takes_only_ready`].
    takes_only_ready: bool,
    /// The path policy, if there is one.
    pub paces: Option<Box<Paces>>,
    /// Every subflow in order of creation.
    pub peers: Vec<Peer>,
    /// Bit sets of subflows: with room in their window; allowed to carry data.
    pub room: u64,
    pub usable: u64,
    /// Segments that both shared buffers can hold.
    whole_window: Seq,
}

impl Scheduling {
    pub fn new(policy: scheduler::Policy, paces: Option<Paces>, whole_window: Seq) -> Self {
        let (style, takes_only_ready) = (policy.style(), policy.takes_only_ready());
        Self {
            policy,
            style,
            takes_only_ready,
            paces: paces.map(Box::new),
            peers: Vec::new(),
            room: 0,
            usable: 0,
            whole_window,
        }
    }

    /// Subflows that may carry data and have room for it.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.usable & self.room
    }

    #[inline]
    pub fn has_room(&self, id: SubflowId) -> bool {
        self.room >> id & 1 == 1
    }

    #[inline]
    pub fn set_room(&mut self, id: SubflowId, room: bool) {
        if room {
            self.room |= 1 << id;
        } else {
            self.room &= !(1 << id);
        }
    }

    /// The subflow selected last also takes the next segment, if it is still ready.
    #[inline]
    pub fn continues(&self) -> bool {
        self.policy.continues()
    }

    /// The program writes: what is selected next is another event's.
    pub fn on_write(&mut self) {
        self.policy.on_write();
    }

    /// It got so many full segments.
    #[inline]
    pub fn note_handed(&mut self, segments: f64) {
        self.policy.note_handed(segments);
    }

    /// The quickest of the idle subflows repeats what is missing, not the first.
    pub fn repeats_on_quickest(&self) -> bool {
        self.policy.repeats_on_quickest()
    }

    /// TCP paces a subflow by its own rate, if the scheduler wants that.
    pub fn paces(&self, id: SubflowId) -> bool {
        self.policy.paces(id)
    }

    /// The fast path of [`Self::select`]: the only ready subflow, usually that of the ACK just processed.
    #[inline]
    pub fn only_ready(&self, ready: u64) -> Option<SubflowId> {
        let known = self.takes_only_ready && ready.is_power_of_two();
        known.then(|| ready.trailing_zeros() as SubflowId)
    }

    /// The subflow that takes the next segment; `window` segments fit the buffers.
    #[inline(never)]
    pub fn select(
        &mut self,
        now: Nanos,
        ready: u64,
        window: Seq,
        burst_may_end: bool,
        under_way: f64,
    ) -> Option<SubflowId> {
        self.policy.select(Candidates {
            subflows: &self.peers,
            ready,
            usable: self.usable,
            window,
            burst_may_end,
            whole_window: self.whole_window,
            under_way,
            now,
        })
    }
}
