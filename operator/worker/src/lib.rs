//! The static binary that runs in Jobs: resolve, fetch, build steps, quality, profile, report.
