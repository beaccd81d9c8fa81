//! The Slipway operator: controllers with a pure core and a thin shell.
