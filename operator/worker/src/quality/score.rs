//! Scores one output against its expected text. Pure.

use slipway_worker_contract::QualityMetric;

/// Returns the score of an output, between 0 and 1.
pub fn score(metric: QualityMetric, output: &str, expected: &str) -> f64 {
    match metric {
        QualityMetric::ExactMatch => f64::from(u8::from(output.trim() == expected.trim())),
        QualityMetric::RougeL => rouge_l(output, expected),
    }
}

/// ROUGE-L with equal weight of precision and recall: F1 of the longest common subsequence of words (Lin, "ROUGE: A
/// Package for Automatic Evaluation of Summaries", 2004, section 3.1). Words are runs of letters and digits, in
/// lowercase.
fn rouge_l(output: &str, expected: &str) -> f64 {
    let (output, expected) = (words(output), words(expected));
    match (output.len(), expected.len()) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        // 2 P R / (P + R) with P = lcs / |output| and R = lcs / |expected|.
        (n, m) => 2.0 * longest_common_subsequence(&output, &expected) as f64 / (n + m) as f64,
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn longest_common_subsequence(a: &[String], b: &[String]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_exact_match_forgives_only_white_space_at_the_ends() {
        let exact = |a, b| score(QualityMetric::ExactMatch, a, b);
        assert_eq!(exact("Answer: 42\n\n", "Answer: 42"), 1.0);
        assert_eq!(exact("Answer:  42", "Answer: 42"), 0.0);
    }

    #[test]
    fn rouge_l_of_lins_examples_is_as_published() {
        // Lin 2004, section 3.1: S1 = "police killed the gunman"; S2 has 3 of 4 words in order, S3 has 2 of 4.
        let rouge = |a| score(QualityMetric::RougeL, a, "police killed the gunman");
        assert_eq!(rouge("police kill the gunman"), 0.75);
        assert_eq!(rouge("the gunman kill police"), 0.5);
    }

    #[test]
    fn empty_texts_are_equal_to_each_other_and_to_nothing_else() {
        let rouge = |a, b| score(QualityMetric::RougeL, a, b);
        assert_eq!((rouge("", " . "), rouge("", "x"), rouge("x", "")), (1.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn rouge_l_is_symmetric_bounded_and_one_only_on_equal_words(a in "[ab ]{0,12}", b in "[ab ]{0,12}") {
            let s = score(QualityMetric::RougeL, &a, &b);
            prop_assert!((0.0..=1.0).contains(&s));
            prop_assert_eq!(s, score(QualityMetric::RougeL, &b, &a));
            prop_assert_eq!(s == 1.0, words(&a) == words(&b));
        }
    }
}
