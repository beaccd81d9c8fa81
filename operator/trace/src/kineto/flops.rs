//! Work of an operator from its input shapes. Pure.
//!
//! The chrome trace carries shapes (`record_shapes=True`) but no FLOPs, so they are computed with the formulas that
//! `torch.profiler` itself uses (`torch/csrc/profiler/util.cpp`, `computeFlops`). A product has 2mnk; attention adds
//! both of its products, 4 B H Sq Skv D, without the causal saving.

/// Floating-point operations and bytes moved at least (operands and result once each).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) flops: u64,
    pub(super) bytes: u64,
}

/// Which inputs hold the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// `[m, k] x [k, n]` at these inputs.
    Product(usize, usize),
    /// `[b, m, k] x [b, k, n]` at these inputs.
    BatchedProduct(usize, usize),
    /// Query and key `[batch, sequence, heads, width]`.
    AttentionSequenceFirst,
    /// Query and key `[batch, heads, sequence, width]`.
    AttentionHeadsFirst,
}

/// Returns the formula of an operator that launches its kernel itself; wrappers (`aten::linear`) have none, or their
/// work would count twice.
pub(super) fn formula(operator: &[u8]) -> Option<Formula> {
    Some(match operator {
        b"aten::mm" | b"aten::_scaled_mm" | b"aten::_int_mm" => Formula::Product(0, 1),
        b"aten::addmm" => Formula::Product(1, 2),
        b"aten::bmm" => Formula::BatchedProduct(0, 1),
        b"aten::baddbmm" => Formula::BatchedProduct(1, 2),
        b"aten::_flash_attention_forward" | b"aten::_efficient_attention_forward" => Formula::AttentionSequenceFirst,
        b"aten::_scaled_dot_product_cudnn_attention" => Formula::AttentionHeadsFirst,
        _ => return None,
    })
}

/// Returns the work of one call, or nothing where the shapes are missing or do not fit the formula.
pub(super) fn work(formula: Formula, shapes: &[Vec<u64>], element_bytes: u64) -> Option<Work> {
    let shape = |at: usize| shapes.get(at).map(Vec::as_slice);
    let (flops, elements) = match formula {
        Formula::Product(a, b) => {
            let ([m, k], [_, n]) = (shape(a)?, shape(b)?) else { return None };
            product(1, [*m, *n, *k])
        }
        Formula::BatchedProduct(a, b) => {
            let ([batch, m, k], [_, _, n]) = (shape(a)?, shape(b)?) else { return None };
            product(*batch, [*m, *n, *k])
        }
        Formula::AttentionSequenceFirst => {
            let ([batch, sq, heads, width], [_, skv, kv_heads, _]) = (shape(0)?, shape(1)?) else { return None };
            attention([*batch, *sq, *heads, *width], *skv, *kv_heads)
        }
        Formula::AttentionHeadsFirst => {
            let ([batch, heads, sq, width], [_, kv_heads, skv, _]) = (shape(0)?, shape(1)?) else { return None };
            attention([*batch, *sq, *heads, *width], *skv, *kv_heads)
        }
    };
    Some(Work { flops: u64::try_from(flops).ok()?, bytes: u64::try_from(elements).ok()?.checked_mul(element_bytes)? })
}

fn product(batch: u64, [m, n, k]: [u64; 3]) -> (u128, u128) {
    let [batch, m, n, k] = [batch, m, n, k].map(u128::from);
    let elements = (m * k).saturating_add(k * n).saturating_add(m * n);
    (all(&[2, batch, m, n, k]), batch.saturating_mul(elements))
}

fn attention([batch, sq, heads, width]: [u64; 4], skv: u64, kv_heads: u64) -> (u128, u128) {
    let [batch, sq, heads, width, skv, kv_heads] = [batch, sq, heads, width, skv, kv_heads].map(u128::from);
    let elements = (sq * heads).saturating_add(skv * kv_heads);
    (all(&[4, batch, heads, sq, skv, width]), all(&[2, batch, width, elements]))
}

/// Shapes come from a file: a product past the range saturates and is then refused, never wraps.
fn all(factors: &[u128]) -> u128 {
    factors.iter().fold(1, |product: u128, &factor| product.saturating_mul(factor))
}

/// Returns the bytes of one element of a tensor type as the profiler writes it.
pub(super) fn element_bytes(tensor_type: &[u8]) -> u64 {
    match tensor_type {
        b"double" | b"long int" | b"long" => 8,
        b"float" | b"int" => 4,
        b"signed char" | b"unsigned char" | b"bool" | b"c10::Float8_e4m3fn" | b"c10::Float8_e5m2" => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn of(operator: &str, shapes: &[&[u64]]) -> Option<Work> {
        let shapes: Vec<_> = shapes.iter().map(|shape| shape.to_vec()).collect();
        work(formula(operator.as_bytes())?, &shapes, 2)
    }

    #[test]
    fn a_product_counts_two_operations_per_term() {
        let work = of("aten::addmm", &[&[2_048], &[512, 512], &[512, 2_048], &[], &[]]);

        assert_eq!(
            work,
            Some(Work { flops: 2 * 512 * 512 * 2_048, bytes: 2 * (512 * 512 + 512 * 2_048 + 512 * 2_048) })
        );
    }

    #[test]
    fn attention_counts_both_products() {
        let work = of("aten::_flash_attention_forward", &[&[2, 256, 8, 64], &[2, 300, 4, 64], &[2, 300, 4, 64]]);

        assert_eq!(
            work,
            Some(Work { flops: 4 * 2 * 8 * 256 * 300 * 64, bytes: 2 * (2 * 2 * 64 * (256 * 8 + 300 * 4)) })
        );
    }

    #[test]
    fn wrappers_and_unfitting_shapes_count_nothing() {
        assert_eq!(of("aten::linear", &[&[2, 256, 512], &[1_536, 512]]), None);
        assert_eq!(of("aten::mm", &[&[512]]), None);
        assert_eq!(of("aten::mm", &[]), None);
        assert_eq!(of("aten::mm", &[&[u64::MAX, u64::MAX], &[u64::MAX, u64::MAX]]), None);
    }
}
