//! The controller of artifact stores: one claim a namespace, whose unneeded files are swept.

mod observe;
pub mod reconcile;
