//! Path policies: which subflows take new data under a scheduler that weighs them by their pacing rate and skips rate 0. One
//! trait, one list, one file each; the programs of the same names are `bpf/scheduling/<name>.h`.
//!
//! A policy is a part of the congestion control's name, `cubic+hold`, and acts with the scheduler `kernel` alone. Not
//! here: the growth of windows (`congestion`), the choice among subflows (`scheduler`). To add a policy, write `<name>.rs`
//! beside this file and one line in the `path_policies!` list.

pub mod cap;
pub mod hold;
mod interface;
pub mod prefer;
pub mod quick;
pub mod weight;

pub use interface::{Parameter, Parameters, PathPolicy, View};

use crate::congestion::Peer;
use crate::mptcp::scheduler::kernel::pacing_rate;
use crate::units::{Nanos, SECOND};

/// Between a window algorithm and its path policy.
const PLUS: char = '+';
/// An idle subflow that is held decides again after this time and a round trip: the smallest time of TCP's keepalive
/// (`TCP_KEEPIDLE`), whose ACK alone runs a program of a subflow that has nothing in flight.
pub const BEAT: Nanos = SECOND;

/// Writes the [`Policy`] enum, the list of names and the dispatch from one list.
macro_rules! path_policies {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every path policy.
        #[derive(Debug, Clone)]
        pub enum Policy {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all path policies, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Policy {
            /// The policy called `name`, or none.
            pub fn new(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::default())),)+
                    _ => None,
                }
            }

            /// [`PathPolicy::GOES_BY`].
            pub fn goes_by(&self) -> Option<Parameter> {
                match self { $(Self::$variant(_) => <$type as PathPolicy>::GOES_BY),+ }
            }

            /// [`PathPolicy::rate`].
            fn rate(&mut self, view: View<'_>) -> f64 {
                match self { $(Self::$variant(policy) => policy.rate(view)),+ }
            }

            /// [`PathPolicy::limit`].
            fn limit(&self, subflow: usize) -> Option<f64> {
                match self { $(Self::$variant(policy) => policy.limit(subflow)),+ }
            }

            /// [`PathPolicy::unsent`].
            fn unsent(&self, view: View<'_>) -> f64 {
                match self { $(Self::$variant(policy) => policy.unsent(view)),+ }
            }

            /// [`PathPolicy::buffered`].
            fn buffered(&self, view: View<'_>) -> f64 {
                match self { $(Self::$variant(policy) => policy.buffered(view)),+ }
            }

            /// [`PathPolicy::reset`].
            fn reset(&mut self, subflow: usize, path: Parameters) {
                match self { $(Self::$variant(policy) => policy.reset(subflow, path)),+ }
            }
        }
    };
}

path_policies! {
    "hold" => Hold(hold::Hold),
    "quick" => Quick(quick::Quick),
    "prefer" => Prefer(prefer::Prefer),
    "cap" => Cap(cap::Cap),
    "weight" => Weight(weight::Weight),
}

/// Name of a congestion control in its parts: the window algorithm, and the path policy if there is one.
pub fn parts(cc: &str) -> (&str, Option<&str>) {
    match cc.split_once(PLUS) {
        Some((window, policy)) => (window, Some(policy)),
        None => (cc, None),
    }
}

/// The rate of a subflow as its policy has chosen it.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    rate: f64,
    limit: Option<f64>,
    unsent: f64,
    buffered: f64,
}

/// The policy of a connection with what it was told of the paths, and the rates that it has chosen.
#[derive(Debug)]
pub struct Paces {
    policy: Policy,
    /// Of each path that has any, by its number.
    parameters: Vec<(usize, Parameters)>,
    /// Of each subflow; none before its first choice.
    rates: Vec<Option<Chosen>>,
}

impl Paces {
    /// The policy of a connection without subflows; a path without parameters has their defaults.
    pub fn new(policy: Policy, parameters: Vec<(usize, Parameters)>) -> Self {
        Self { policy, parameters, rates: Vec::new() }
    }

    /// A subflow starts, or starts again, on a path.
    pub fn reset(&mut self, subflow: usize, path: usize) {
        self.rates.resize(self.rates.len().max(subflow + 1), None);
        self.rates[subflow] = None;
        let told = self.parameters.iter().find(|(number, _)| *number == path);
        self.policy.reset(subflow, told.map_or_else(Parameters::default, |(_, told)| *told));
    }

    /// An ACK arrived: the policy chooses the subflow's rate. The rate above which it does not send.
    pub fn choose(&mut self, view: View<'_>) -> Option<f64> {
        let rate = self.policy.rate(view);
        // The kernel paces by no rate of 0.
        let limit = self.policy.limit(view.own).filter(|_| rate > 0.0);
        let unsent = self.policy.unsent(view);
        let buffered = self.policy.buffered(view);
        self.rates[view.own] = Some(Chosen { rate, limit, unsent, buffered });
        limit
    }

    /// A subflow's send queue may hold one more segment beside these, which are not sent yet.
    pub fn may_queue(&self, subflow: usize, unsent: u32) -> bool {
        let chosen = self.rates.get(subflow).copied().flatten();
        chosen.is_none_or(|chosen| f64::from(unsent) < chosen.unsent)
    }

    /// Segments for which a subflow's part of a send buffer that grows has room beside those of its window algorithm.
    pub fn buffered(&self, subflow: usize) -> f64 {
        self.rates.get(subflow).copied().flatten().map_or(0.0, |chosen| chosen.buffered)
    }

    /// Writes the rate that was chosen into the view of a subflow.
    pub fn apply(&self, subflow: usize, peer: &mut Peer) {
        let Some(Some(chosen)) = self.rates.get(subflow) else { return };
        if chosen.rate.is_finite() {
            peer.pace = chosen.rate;
        } else if let Some(limit) = chosen.limit {
            peer.pace = pacing_rate(&Peer { pace: 0.0, ..*peer }).min(limit);
        }
        peer.held = chosen.rate == 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_window_algorithm_and_perhaps_a_policy() {
        assert_eq!(parts("cubic"), ("cubic", None));
        assert_eq!(parts("cubic+hold"), ("cubic", Some("hold")));
        assert_eq!(parts("cubic+hold+hold"), ("cubic", Some("hold+hold")));
        assert!(NAMES.iter().all(|name| Policy::new(name).is_some()));
        assert!(Policy::new("hold+hold").is_none());
    }

    #[test]
    fn a_subflow_has_its_own_rate_until_the_policy_chooses_and_after_a_new_start() {
        let mut paces = Paces::new(Policy::new("hold").expect("a known name"), vec![]);
        let before = Peer { pace: 3.0, ..Peer::default() };
        let seen = |paces: &Paces| {
            let mut peer = before;
            paces.apply(0, &mut peer);
            peer
        };
        paces.reset(0, 0);
        assert_eq!(seen(&paces), before);
        let own = Peer { usable: true, srtt: 1_000, min_rtt: 1_000, window: 10.0, ..before };
        let subflows = [Peer { paced: 20.0, ..own }];
        let view = View {
            subflows: &subflows,
            own: 0,
            delivers: Some(0.5),
            delivered: 0,
            window: 9.0,
            grows: false,
            waiting: 1e9,
            now: 0,
        };
        paces.choose(view);
        assert_eq!((seen(&paces).pace, seen(&paces).held), (0.02, false));
        paces.reset(0, 0);
        assert_eq!(seen(&paces), before);
    }
}
