//! Profiles: one measurement campaign, carried out by one Job at a time.

pub mod build;
pub mod decide;
pub mod observe;
pub mod reconcile;
pub mod status;
