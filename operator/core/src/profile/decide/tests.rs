//! Stories of campaigns, carried out by a worker that measures by a formula.

mod adopting;
mod asking;
mod cluster;
mod costs;
mod expecting;
mod gitops;
mod ordering;
mod repeating;
mod selection;
mod stories;
