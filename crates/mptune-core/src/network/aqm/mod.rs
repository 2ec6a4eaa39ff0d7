//! Active queue management: two traits, one list, one file per discipline.
//!
//! A discipline decides on arrival, so that departures are known at once ([`OnArrival`], in a [`super::passive`]
//! queue), or on departure ([`OnDeparture`], in an [`super::active`] one). To add a discipline, write
//! `<name>.rs` beside this file and its two lines here.

mod chains;
mod codel;
mod discipline;
mod fq_codel;
mod red;
mod step;

pub(super) use discipline::{Arrival, OnArrival, OnDeparture, Verdict};

use super::carried::Carried;
use super::counters::LinkCounters;
use super::place::InFlight;
use crate::engine::Random;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;

/// Writes [`AqmSpec`] and the dispatch to both kinds of discipline from one list.
macro_rules! disciplines {
    (
        on arrival { $($a:ident($a_mod:ident::$a_spec:ident => $a_queue:ident)),+ $(,)? }
        on departure { $($d:ident($d_mod:ident::$d_spec:ident => $d_queue:ident)),+ $(,)? }
    ) => {
        $(pub use $a_mod::$a_spec;)+
        $(pub use $d_mod::$d_spec;)+

        /// The parameters of a discipline.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum AqmSpec {
            $($a($a_spec),)+
            $($d($d_spec),)+
        }

        impl AqmSpec {
            /// It decides on departure.
            pub(super) fn is_active(&self) -> bool {
                matches!(self, $(Self::$d(_))|+)
            }

            pub(super) fn validate(&self, queue: Option<Bytes>) -> Result<(), SpecError> {
                match self {
                    $(Self::$a(spec) => spec.validate(queue),)+
                    $(Self::$d(spec) => spec.validate(queue),)+
                }
            }
        }

        /// A discipline that decides on arrival; static dispatch.
        #[derive(Debug, Clone)]
        pub(super) enum ArrivalDiscipline {
            $($a(Box<$a_mod::$a_queue>),)+
        }

        impl ArrivalDiscipline {
            /// None if it is active.
            pub fn new(spec: &AqmSpec, random: Random) -> Option<Self> {
                match spec {
                    $(AqmSpec::$a(spec) => Some(Self::$a(Box::new(OnArrival::new(spec, random)))),)+
                    _ => None,
                }
            }

            /// [`OnArrival::judge`].
            pub fn judge(&mut self, arrival: &Arrival) -> Verdict {
                match self { $(Self::$a(queue) => queue.judge(arrival),)+ }
            }
        }

        /// A discipline that decides on departure; static dispatch.
        #[derive(Debug)]
        pub(super) enum DepartureDiscipline<P> {
            $($d($d_mod::$d_queue<P>),)+
        }

        impl<P: Carried> DepartureDiscipline<P> {
            /// None if it is not active.
            pub fn new(spec: &AqmSpec, random: Random) -> Option<Self> {
                match spec {
                    $(AqmSpec::$d(spec) => Some(Self::$d(OnDeparture::new(spec, random))),)+
                    _ => None,
                }
            }

            /// [`OnDeparture::len`].
            pub fn len(&self) -> usize {
                match self { $(Self::$d(queue) => queue.len(),)+ }
            }

            /// [`OnDeparture::push`].
            pub fn push(
                &mut self,
                packet: InFlight<P>,
                flow: u32,
                limit: Bytes,
                counters: &mut LinkCounters,
            ) {
                match self { $(Self::$d(queue) => queue.push(packet, flow, limit, counters),)+ }
            }

            /// [`OnDeparture::next`].
            pub fn next(&mut self, now: Nanos, counters: &mut LinkCounters) -> Option<InFlight<P>> {
                match self { $(Self::$d(queue) => queue.next(now, counters),)+ }
            }

            /// [`OnDeparture::for_each`].
            pub fn for_each(&self, visit: impl FnMut(&InFlight<P>)) {
                match self { $(Self::$d(queue) => queue.for_each(visit),)+ }
            }
        }
    };
}

disciplines! {
    on arrival {
        Red(red::RedSpec => Red),
        Step(step::StepMarkingSpec => StepMarkingSpec),
    }
    on departure {
        Codel(codel::CodelSpec => CodelQueue),
        FqCodel(fq_codel::FqCodelSpec => FqCodel),
    }
}
