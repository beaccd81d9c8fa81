//! What is asked of the search, and what was measured.

use super::tables::table;

/// A suite's tables and the gates that they decide.
#[derive(Default)]
pub struct Section {
    pub text: String,
    pub gates: Vec<Gate>,
}

/// Something asked of the search.
pub struct Gate {
    pub asked: String,
    pub measured: String,
    pub is_met: bool,
}

impl Gate {
    pub fn new(asked: impl Into<String>, measured: impl Into<String>, is_met: bool) -> Self {
        Self { asked: asked.into(), measured: measured.into(), is_met }
    }
}

/// The gates as a table.
pub fn summary(gates: &[Gate]) -> String {
    let met = |gate: &Gate| if gate.is_met { "yes" } else { "**no**" }.to_owned();
    let row = |gate: &Gate| vec![gate.asked.clone(), gate.measured.clone(), met(gate)];
    let rows: Vec<Vec<String>> = gates.iter().map(row).collect();
    table(&["gate", "measured", "met"], &rows)
}
