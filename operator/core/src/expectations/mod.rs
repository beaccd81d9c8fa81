//! What AIConfigurator expects of a model's engines: its table, and which rows are of which engine. Pure.
//!
//! A table is never trusted for a verdict. It only tells the search where to begin, and what is not worth a start.

mod engine;
mod number;
mod table;

#[cfg(test)]
mod tests;

pub use self::{
    engine::{Sought, Subject, expected},
    table::Table,
};
