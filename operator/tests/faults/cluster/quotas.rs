//! The controller of quotas: what their status says is used, once something has gone or changed.

use super::{all, put_status};
use crate::api::{kinds::QUOTAS, quota, store::Store};

pub fn step(store: &mut Store) {
    for (key, object) in all(store, QUOTAS) {
        let status = quota::counted(store, &key, &object);
        put_status(store, &key, status);
    }
}
