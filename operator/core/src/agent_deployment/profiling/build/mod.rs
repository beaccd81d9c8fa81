//! The Profile of a campaign. Pure.

pub mod profile;
