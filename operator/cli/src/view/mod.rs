//! What commands show, as types of which texts and documents are made. Pure.
//!
//! Parts of the API's status appear as the API has them. What commands add has a type here: shares, candidates with
//! the outcome of each, evidence against its bound, reasons, and what pods count.

pub mod explanation;
pub mod rollout;
pub mod status;
pub mod store;
pub mod wait;
