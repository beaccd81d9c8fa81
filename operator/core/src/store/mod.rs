//! The artifact store of a namespace over time: what needs what it holds, since when nothing does, and the Job that
//! removes that. Pure.
//!
//! [`references`] says what is needed, [`ledger`] since when it is not, and [`decide`] what follows. The record is in
//! [`slipway_crds::store`].

mod build;
pub mod decide;
mod ledger;
pub mod references;
pub mod world;

#[cfg(test)]
mod tests;
