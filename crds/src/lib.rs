//! API types of slipway.dev: resources, condition reasons, labels and identities.
