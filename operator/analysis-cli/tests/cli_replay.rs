//! The verb `replay`, as a user runs it.

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use support::Bench;

const TABLE: &str = "gpu,users,rate,p95_ms\na,1,10,50\na,2,18,60\na,4,25,120\nb,1,20,40\nb,2,30,70\nb,4,,\n";

fn problem() -> Value {
    json!({
        "table": "t.csv", "arm": ["gpu"], "level": "users", "gpus": 2, "startSeconds": 30, "runSeconds": 60,
        "objective": {"column": "rate", "direction": "max"},
        "constraints": [{"column": "p95_ms", "max": 100}],
        "roles": {"gpu": "gpuType", "users": "concurrency"}
    })
}

fn bench(problem: &Value) -> Bench {
    let bench = Bench::new();
    bench.file("t.csv", TABLE);
    bench.file("p.json", &problem.to_string());
    bench
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut problem = problem();
    change(&mut problem);
    bench(&problem).refusal(&["replay", "--problem", "p.json", "--method", "brute", "--json"])
}

#[test]
fn the_result_is_one_json_line_of_the_documented_fields() {
    let ran = bench(&problem()).run(&["replay", "--problem", "p.json", "--method", "brute", "--seed", "3", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str(), ran.stdout.lines().count()), (Some(0), "", 1));
    let mut result: Value = serde_json::from_str(&ran.stdout).unwrap();
    let trace = result.as_object_mut().unwrap().remove("trace").unwrap();
    let expected = json!({
        "method": "brute", "runs": 6, "starts": 2, "gpuSeconds": 840.0,
        "chosen": {"arm": {"gpu": "b"}, "level": 2.0}, "objective": 30.0, "ratioToOptimum": 1.0, "feasible": true
    });
    assert_eq!(result, expected);
    let last = json!({
        "arm": {"gpu": "b"}, "level": 4.0, "gpuSeconds": 120.0, "feasible": false, "aborted": false, "reason": "every cell"
    });
    assert_eq!(trace[5], last);
}

#[test]
fn every_method_answers_and_the_products_finds_the_optimum() {
    let methods = [
        "slipway",
        "slipway-when-asked",
        "slipway-all",
        "brute",
        "brute-early-exit",
        "ma-quick-sweep",
        "random",
        "tpe",
        "bisection",
    ];
    let bench = bench(&problem());
    for method in methods {
        let ran = bench.run(&["replay", "--problem", "p.json", "--method", method, "--seed", "1", "--json"]);
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["method"], method);
        assert!(result["feasible"] == true, "{method}: {result}");
    }
    let ran = bench.run(&["replay", "--problem", "p.json", "--method", "slipway"]);
    assert!(ran.stdout.contains("1.000 of the optimum"), "{}", ran.stdout);
}

#[test]
fn nothing_feasible_is_a_null_ratio() {
    let mut problem = problem();
    problem["constraints"][0]["max"] = json!(1);
    let ran = bench(&problem).run(&["replay", "--problem", "p.json", "--method", "brute", "--json"]);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&result["chosen"], &result["ratioToOptimum"], &result["feasible"]),
        (&Value::Null, &Value::Null, &json!(false))
    );
}

#[test]
fn a_wrong_problem_is_named_with_its_remedy() {
    assert_eq!(
        refusal(|p| p["constraints"][0]["min"] = json!(3)),
        "p.json: field constraints[0]: needs exactly one limit; give either max or min, a finite number"
    );
    assert_eq!(
        refusal(|p| p["arm"] = json!([])),
        "p.json: field arm: no columns; name the columns that identify a configuration"
    );
    assert_eq!(
        refusal(|p| p["roles"]["rate"] = json!("concurrency")),
        "p.json: field roles.rate: neither an arm column nor the level; give roles to the columns of arm and level"
    );
    assert_eq!(
        refusal(|p| p["prior"] = json!({"users": "rate"})),
        "p.json: field prior.users: neither the objective nor a constraint; give priors to the columns that are measured"
    );
    assert_eq!(
        refusal(|p| p["noise"] = json!({"logSd": -1})),
        "p.json: field noise.logSd: -1 is no standard deviation; give 0 or more"
    );
    assert_eq!(refusal(|p| p["gpus"] = json!(-2)), "p.json: field gpus: -2 is negative or not finite; give 0 or more");
    assert_eq!(
        refusal(|p| p["abort"] = json!({})),
        "p.json: field abort: no rule; give requests and key, or farFraction and nearFraction"
    );
    assert_eq!(
        refusal(|p| p["abort"] = json!({"farFraction": 0.1})),
        "p.json: field abort: one of the fractions is missing; give both farFraction and nearFraction"
    );
    assert_eq!(
        refusal(|p| p["abort"] = json!({"farFraction": 1.1, "nearFraction": 0.3})),
        "p.json: field abort.farFraction: 1.1 is not a share of a run; give a number from 0 to 1"
    );
    assert!(refusal(|p| p["objective"]["direction"] = json!("up")).starts_with(
        "failed to parse p.json; write a problem as docs/search.md describes it: unknown variant `up`, expected `max` or `min`"
    ));
    assert!(refusal(|p| p["bugdet"] = json!(1)).contains("unknown field `bugdet`"));
}

#[test]
fn a_wrong_table_is_named_with_its_remedy() {
    assert_eq!(
        refusal(|p| p["objective"]["column"] = json!("speed")),
        "t.csv: column speed: the table has no such column; use one of its columns: gpu, p95_ms, rate, users"
    );
    assert_eq!(
        refusal(|p| p["table"] = json!("u.csv")),
        "failed to read u.csv: No such file or directory (os error 2)"
    );
    let bench = bench(&problem());
    bench.file("t.csv", "gpu,users,rate,p95_ms\na,1,10,50\na,1,11,50\n");
    assert_eq!(
        bench.refusal(&["replay", "--problem", "p.json", "--method", "brute"]),
        "t.csv: line 3: the same arm and level as line 2; name all identifying columns in arm, or keep one row of each"
    );
    bench.file("t.csv", "gpu,users,rate,p95_ms\na,,10,50\n");
    assert_eq!(
        bench.refusal(&["replay", "--problem", "p.json", "--method", "brute"]),
        "t.csv: line 2, column users: the cell is empty; every row needs a number here"
    );
}

#[test]
fn requests_without_a_key_are_refused() {
    let bench = bench(&{
        let mut problem = problem();
        problem["abort"] = json!({"requests": "r.csv"});
        problem
    });
    bench.file("r.csv", "gpu,users,start_ms,end_ms,ttft_ms,tpot_ms\na,1,0,1,1,1\n");
    assert_eq!(
        bench.refusal(&["replay", "--problem", "p.json", "--method", "brute"]),
        "p.json: field abort.key: missing; name the columns of the requests file that identify a run: arm columns and level"
    );
}
