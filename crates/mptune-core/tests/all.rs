//! Tests of whole connections, one module a subject, in one binary: each of its own would be linked with the whole core.

mod common;

mod accounting;
mod addresses;
mod any_trial;
mod background;
mod bursts;
mod coupling;
mod dctcp;
mod faults;
mod guard;
mod laws;
mod many;
mod messages;
mod multipath;
mod network_models;
mod outages;
mod path_policies;
mod properties;
mod recorded;
mod requests;
mod tcp;
mod transport;
