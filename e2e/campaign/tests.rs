use pretty_assertions::assert_eq;

use super::*;
use crate::figures::fixtures::{cell, row};

const MODEL: &str = "react-256";
const LIMIT: i64 = 100_000;

fn campaign((kind, number): (Kind, usize), pod_seconds: f64, choice: Option<i32>, rows: Vec<Row>) -> Campaign {
    Campaign {
        model: MODEL.into(),
        kind,
        number,
        ended: 0,
        seconds: pod_seconds,
        pod_seconds,
        pods: 1,
        choice: choice.map(cell),
        message: String::new(),
        rows,
    }
}

fn report(campaigns: impl IntoIterator<Item = Campaign>) -> Report {
    let grid = Grid {
        precisions: vec!["INT8".into()],
        instances: vec![1],
        batches: vec!["4".into()],
        delays: vec!["0".into()],
        levels: vec![2, 4, 8],
    };
    let named = campaigns.into_iter().enumerate().map(|(number, campaign)| (format!("{number:03}"), campaign));
    Report {
        grid,
        cpus: "2".into(),
        parallel: 1,
        limits: BTreeMap::from([(MODEL.to_owned(), LIMIT)]),
        campaigns: named.collect(),
        summary: Vec::new(),
    }
}

/// Three cells: one far from the limit, one near it, and one beyond it.
fn brute() -> [Campaign; 3] {
    [(2, 5_000, 20), (4, 9_000, 80), (8, 12_000, 200)].map(|(level, throughput, millis)| {
        campaign((Kind::Brute, 1), 100.0, None, vec![row(level, throughput, millis)])
    })
}

fn search(number: usize, pod_seconds: f64, choice: Option<i32>) -> Campaign {
    campaign((Kind::Search, number), pod_seconds, choice, vec![row(4, 9_000, 80), row(2, 5_000, 20)])
}

/// The best cell and another one, each in two rounds.
fn again(of_other: i64) -> Vec<Campaign> {
    let again = |round, level, throughput| campaign((Kind::Again, round), 30.0, None, vec![row(level, throughput, 90)]);
    (1..=2).flat_map(|round| [again(round, 4, 9_000), again(round, 2, of_other)]).collect()
}

#[test]
fn a_choice_that_is_brute_forces_best_passes_in_a_quarter_of_its_pod_seconds() {
    let summary = |seconds| report(brute().into_iter().chain([search(1, seconds, Some(4))])).summary_of(MODEL).unwrap();
    let cheap = summary(75.0);
    assert_eq!((cheap.best.clone(), cheap.best_per_kilosecond, cheap.pod_seconds), (Some(cell(4)), 9_000, 300.0));
    assert_eq!((cheap.met, cheap.missed, cheap.undecided), (2, 1, 0));
    assert_eq!((cheap.searches[0].ratio, cheap.searches[0].share, cheap.has_passed()), (None, 0.25, true));
    assert!(!summary(75.1).has_passed());
}

#[test]
fn another_choice_is_held_to_what_both_do_when_measured_again() {
    let summary = |throughput| {
        let all = brute().into_iter().chain([search(1, 50.0, Some(2))]).chain(again(throughput));
        report(all).summary_of(MODEL).unwrap()
    };
    let (close, far) = (summary(8_730), summary(8_700));
    assert!((close.searches[0].ratio.unwrap().value - 0.97).abs() < 1e-9);
    assert_eq!((close.searches[0].choice_met, close.best_met), ((2, 2), (2, 2)));
    assert_eq!((close.has_passed(), far.has_passed()), (true, false));
}

#[test]
fn four_of_five_repetitions_must_pass_and_one_without_a_choice_does_not() {
    let of = |good: usize| {
        let searches = (1..=5).map(move |number| search(number, 50.0, (number <= good).then_some(4)));
        report(brute().into_iter().chain(searches)).summary_of(MODEL).unwrap().has_passed()
    };
    assert_eq!((of(5), of(4), of(3)), (true, true, false));
    assert!(!report(brute()).summary_of(MODEL).unwrap().has_passed(), "nothing was searched");
}

#[test]
fn contenders_of_brute_force_are_settled_by_what_was_measured_again() {
    let settle = |throughput, millis| campaign((Kind::Settle, 1), 30.0, None, vec![row(8, throughput, millis)]);
    let open = campaign((Kind::Brute, 1), 100.0, None, vec![row(8, 12_000, 95)]);
    let with = |settled: Vec<Campaign>| {
        let [slow, near, _] = brute();
        let report = report([slow, near, open.clone()].into_iter().chain(settled));
        let best = report.best(MODEL, LIMIT).unwrap();
        (best.cell.level, best.per_kilosecond)
    };
    assert_eq!(with(Vec::new()), (4, 9_000), "undecided");
    assert_eq!(with(vec![settle(11_000, 85), settle(11_500, 86)]), (8, 11_000));
    assert_eq!(with(vec![settle(11_000, 120), settle(11_500, 130)]), (4, 9_000));
}

#[test]
fn the_tables_have_a_line_for_each_model_and_search() {
    let all = brute().into_iter().chain([search(1, 50.0, Some(4)), search(2, 50.0, Some(2))]).chain(again(8_730));
    let text = markdown(&[report(all).summary_of(MODEL).unwrap()]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| react")).collect();
    let best = "INT8 x1, batch 4, delay 0 ms, 4 in flight";
    let other = "INT8 x1, batch 4, delay 0 ms, 2 in flight";
    let shares = "2 | 2 | 1 | 50 | 17 % (67 %)";
    let expected = [
        format!("| react-256 | 3 | 100 ms | 2, 1, 0 | {best} | 9.0 | 300 (27) | 2 of 2 |"),
        format!("| react-256 | 1 | {best} | {shares} | the same cell | 2 of 2 | passed |"),
        format!("| react-256 | 2 | {other} | {shares} | 0.970 (0.970 to 0.970), 2 pairs | 2 of 2 | passed |"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_run_goes_on_where_it_was_cut_off_unless_it_is_another() {
    let settings = Settings {
        models: vec![MODEL.to_owned()],
        grid: report([]).grid,
        repetitions: 1,
        rounds: 1,
        settles: 1,
        parallel: 1,
        cpus: "2".to_owned(),
        limit: None,
        output: None,
        is_full: false,
    };
    let cut_off = report([campaign((Kind::Brute, 1), 1.0, None, vec![row(2, 1, 1)]), search(1, 1.0, None), {
        campaign((Kind::Search, 2), 1.0, None, Vec::new())
    }]);
    let resumed = cut_off.clone().resumed(&settings).unwrap();
    assert_eq!(resumed.campaigns.keys().collect::<Vec<_>>(), ["000", "001"], "what has no rows is tried again");
    let text = serde_json::to_string(&resumed).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), resumed);
    assert!(cut_off.resumed(&Settings { cpus: "3".to_owned(), ..settings }).is_err());
}
