//! Traces end to end: each known way to misread one is a small fixture with the answer it must give.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod chrome;
mod nsys;
mod real;
mod refusals;
mod rules;
mod traps;
