//! The hunt for a defect that is planted in the product itself (`operator/tests/planted`).

use crate::{
    plans::{Findings, Undisturbed, plans},
    stories,
    story::tell,
};

/// Plays all stories undisturbed, and then their plans, until something is wrong.
async fn hunt() -> Option<String> {
    let mut told = Vec::new();
    for story in stories::all() {
        let played = tell(&story.acts).await;
        if let Some(line) = story.unmet(&played.iter().collect::<Vec<_>>()).first() {
            return Some(format!("without a fault, story {} of {}: {line}", told.len() + 1, story.name));
        }
        told.push((story, played));
    }
    let mut findings = Findings::default();
    for (story, played) in &told {
        for at in story.from..played.len() {
            let act = Undisturbed::of(story, played, at, None).await;
            for (plan, name) in plans(act.played) {
                findings.add(format!("{}, act {at}: {name}", story.name), &act, plan).await;
                if let Some((plan, lines)) = findings.wrong.first_key_value() {
                    return Some(format!("by plan {}, {plan}: {}", findings.plans, lines[0]));
                }
            }
        }
    }
    println!("nothing after {} plans", findings.plans);
    None
}

#[tokio::test]
#[ignore = "needs a product with a defect: make test-planted-bugs"]
async fn a_defect_in_the_product_is_found() {
    let found = hunt().await;
    println!("found {}", found.as_deref().unwrap_or("nothing"));
    assert!(found.is_some());
}
