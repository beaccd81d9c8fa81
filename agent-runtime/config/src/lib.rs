//! The configuration file of the agent runtime, as the operator writes it.
