//! Named ranges as a tree of paths, and the GPU work launched under each. Pure.

use std::collections::{BTreeMap, HashMap};

use super::super::record::{NameId, Names};

/// A path of nested ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeNode(u32);

impl RangeNode {
    /// Outside every range.
    pub const ROOT: Self = Self(0);
}

/// Distinct paths kept; past it new paths count for their parent.
const MOST_PATHS: usize = 50_000;

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: RangeNode,
    name: NameId,
    gpu_nanos: u64,
    kernels: u64,
    count: u64,
    wall_nanos: u64,
}

/// The tree.
#[derive(Debug)]
pub struct RangeTree {
    nodes: Vec<Node>,
    children: HashMap<(RangeNode, NameId), RangeNode>,
}

/// Totals of one name over all its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotals {
    /// Times the range was entered.
    pub count: u64,
    /// Time inside it, a range within itself counted once.
    pub wall_nanos: u64,
    /// Kernel time launched inside it, enclosed ranges included.
    pub gpu_nanos: u64,
    /// Kernel time launched inside it and outside every enclosed range.
    pub self_gpu_nanos: u64,
    /// Kernels launched inside it, enclosed ranges included.
    pub kernels: u64,
}

impl Default for RangeTree {
    fn default() -> Self {
        let root =
            Node { parent: RangeNode::ROOT, name: Names::OTHER, gpu_nanos: 0, kernels: 0, count: 0, wall_nanos: 0 };
        Self { nodes: vec![root], children: HashMap::new() }
    }
}

impl RangeTree {
    /// Enters a range below a path.
    pub fn enter(&mut self, parent: RangeNode, name: NameId, nanos: u64) -> RangeNode {
        let node = match self.children.get(&(parent, name)) {
            Some(&node) => node,
            None if self.nodes.len() >= MOST_PATHS => return parent,
            None => {
                let node = RangeNode(self.nodes.len() as u32);
                self.nodes.push(Node { parent, name, gpu_nanos: 0, kernels: 0, count: 0, wall_nanos: 0 });
                self.children.insert((parent, name), node);
                node
            }
        };
        let entered = &mut self.nodes[node.0 as usize];
        entered.count += 1;
        entered.wall_nanos = entered.wall_nanos.saturating_add(nanos);
        node
    }

    /// Adds a kernel that was launched on a path.
    pub fn kernel(&mut self, node: RangeNode, nanos: u64) {
        let node = &mut self.nodes[node.0 as usize];
        node.gpu_nanos = node.gpu_nanos.saturating_add(nanos);
        node.kernels += 1;
    }

    /// Says whether there were ranges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Returns the totals by a key made of the name; names with the same key count as one.
    pub fn totals(&self, names: &Names, key: impl Fn(&str) -> String) -> BTreeMap<String, RangeTotals> {
        let mut totals = BTreeMap::<String, RangeTotals>::new();
        let keys: Vec<_> = self.nodes.iter().map(|node| key(names.text(node.name))).collect();
        for (at, node) in self.nodes.iter().enumerate().skip(1) {
            let path = self.path(RangeNode(at as u32));
            let outermost = !path[1..].iter().any(|above| keys[above.0 as usize] == keys[at]);
            let own = totals.entry(keys[at].clone()).or_default();
            own.count += node.count;
            own.wall_nanos = own.wall_nanos.saturating_add(if outermost { node.wall_nanos } else { 0 });
            own.self_gpu_nanos = own.self_gpu_nanos.saturating_add(node.gpu_nanos);
            let mut seen: Vec<&String> = Vec::new();
            for above in path {
                let key = &keys[above.0 as usize];
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let total = totals.entry(key.clone()).or_default();
                total.gpu_nanos = total.gpu_nanos.saturating_add(node.gpu_nanos);
                total.kernels += node.kernels;
            }
        }
        totals
    }

    /// The node and all above it, without the root.
    fn path(&self, mut node: RangeNode) -> Vec<RangeNode> {
        let mut path = Vec::new();
        while node != RangeNode::ROOT {
            path.push(node);
            node = self.nodes[node.0 as usize].parent;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_kernel_counts_for_every_range_around_it_once() {
        let mut names = Names::default();
        let (run, step) = (names.intern("run 1"), names.intern("step"));
        let mut tree = RangeTree::default();
        let outer = tree.enter(RangeNode::ROOT, run, 100);
        let inner = tree.enter(outer, step, 40);
        let recursive = tree.enter(inner, step, 20);
        tree.kernel(outer, 5);
        tree.kernel(recursive, 7);

        let totals = tree.totals(&names, str::to_owned);

        let expected = BTreeMap::from([
            (
                "run 1".to_owned(),
                RangeTotals { count: 1, wall_nanos: 100, gpu_nanos: 12, self_gpu_nanos: 5, kernels: 2 },
            ),
            ("step".to_owned(), RangeTotals { count: 2, wall_nanos: 40, gpu_nanos: 7, self_gpu_nanos: 7, kernels: 1 }),
        ]);
        assert_eq!(totals, expected);
    }
}
