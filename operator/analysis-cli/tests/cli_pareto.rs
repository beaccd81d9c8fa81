//! The verb `pareto`, as a user runs it.

mod support;

use pretty_assertions::assert_eq;

use support::{Bench, Ran};

const TABLE: &str =
    "engine,users,rate,p95,memory\na,1,10,5,1\na,2,18,9,1\nb,1,12,6,4\nb,2,17,9,4\nb,4,,,4\nc,1,30,90,1\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("t.csv", TABLE);
    bench
}

#[test]
fn the_front_names_its_rows_and_counts_what_was_left_out() {
    let args = ["pareto", "--table", "t.csv", "--objective", "rate:max", "--objective", "p95:min"];
    let ran = bench()
        .run(&[&args[..], &["--constraint", "p95:max:50", "--key", "engine,users", "--reference", "0,10"]].concat());
    let expected = concat!(
        r#"{"rows":6,"failed":1,"infeasible":1,"front":["#,
        r#"{"line":2,"key":{"engine":"a","users":"1"},"values":{"p95":5.0,"rate":10.0}},"#,
        r#"{"line":3,"key":{"engine":"a","users":"2"},"values":{"p95":9.0,"rate":18.0}},"#,
        r#"{"line":4,"key":{"engine":"b","users":"1"},"values":{"p95":6.0,"rate":12.0}}],"#,
        r#""reference":[0.0,10.0],"hypervolume":64.0}"#,
        "\n"
    );
    assert_eq!(ran, Ran { code: Some(0), stdout: expected.into(), stderr: String::new() });
}

#[test]
fn bad_input_is_named_with_its_remedy() {
    let bench = bench();
    let with = |extra: &[&str]| {
        bench.refusal(&[&["pareto", "--table", "t.csv", "--objective", "rate:max"][..], extra].concat())
    };
    assert_eq!(
        with(&["--objective", "p59:min"]),
        "t.csv: column p59: the table has no such column; use one of its columns: engine, memory, p95, rate, users"
    );
    assert_eq!(with(&["--objective", "p95"]), "--objective p95: not an objective; write COLUMN:max or COLUMN:min");
    assert_eq!(
        with(&["--objective", "p95:min", "--constraint", "p95:max:fast"]),
        "--constraint p95:max:fast: not a constraint; write COLUMN:max:LIMIT or COLUMN:min:LIMIT with a finite number"
    );
    assert_eq!(with(&[]), "--objective, --reference: 1 objectives were given; give 2 or 3; see --help");
    assert_eq!(
        with(&["--objective", "engine:min"]),
        "t.csv: line 2, column engine: \"a\" is not a finite number; write a number, or leave the cell of a failed run empty"
    );
}

#[test]
fn a_missing_or_malformed_table_is_named() {
    let bench = bench();
    bench.file("ragged.csv", "rate,p95\n1,2\n1\n");
    bench.file("empty.csv", "rate,p95\n");
    bench.file("twice.csv", "rate,rate\n1,2\n");
    let with =
        |table: &str| bench.refusal(&["pareto", "--table", table, "--objective", "rate:max", "--objective", "p95:min"]);
    assert_eq!(with("none.csv"), "failed to read none.csv: No such file or directory (os error 2)");
    assert!(
        with("ragged.csv").starts_with("failed to parse ragged.csv; every line needs as many cells as the header: ")
    );
    assert_eq!(with("empty.csv"), "empty.csv: line 2: the table has no rows; give at least one row of measurements");
    assert_eq!(with("twice.csv"), "twice.csv: column rate: named twice in the header; rename one of them");
}
