//! The sidecar as its clients, its engine and the kubelet see it.

mod admin;
mod certificates;
mod chat;
mod chat_wishes;
mod dialects;
mod drain;
mod faults;
mod feedback;
mod fixture;
mod layers;
mod objectives;
mod open_ai;
mod open_api;
mod parsers;
mod process;
mod proto;
mod readers;
mod readiness;
mod repeats;
mod responses;
mod runs;
mod templates;
mod tokens;
mod tools;
mod triton;
