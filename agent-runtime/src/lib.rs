//! The sidecar that serves an agent beside Triton.
