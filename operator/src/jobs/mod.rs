//! Jobs: what is seen of them, when one is tried again, and the template they share.

pub mod attempts;
pub mod template;
pub mod view;
