//! Wire types and bucket arithmetic of the evidence that pods report.
