//! Stories of campaigns, carried out by a worker that measures by a formula.

mod adopting;
mod asking;
mod cluster;
mod costs;
mod expecting;
mod gitops;
mod gpu_products;
mod ordering;
mod repeating;
mod selection;
mod stories;
mod warm_start;
