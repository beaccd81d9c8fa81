//! The command line of the crate: one file per verb, JSON on stdout, errors on stderr with exit code 2. Reads and writes files.
