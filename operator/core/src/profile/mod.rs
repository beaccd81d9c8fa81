//! Profiles: one measurement campaign, carried out by one Job at a time. Pure.

pub mod build;
pub mod decide;
mod parts;
pub mod rows;
pub mod scope;
pub mod status;
pub mod world;
