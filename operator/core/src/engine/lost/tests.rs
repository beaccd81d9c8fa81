use k8s_openapi::{
    api::core::v1::{Container, ContainerState, ContainerStatus, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::engine::EngineArtifact;
use slipway_worker_contract::FetchResult;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn failed(class: FailureClass) -> String {
    let message = Message::Failed { class, text: "the store has no engine".to_owned() };
    String::from_utf8(message.encode(4_096).unwrap()).unwrap()
}

/// A pod whose `materialize` ended so at this second, and waits to be started again.
fn pod(verb: &str, message: &str, second: i64) -> Pod {
    let ended = ContainerStateTerminated {
        exit_code: 15,
        message: Some(message.to_owned()),
        finished_at: Some(Time(at(second))),
        ..Default::default()
    };
    let arguments = [verb, "--identity=engine-1", "--manifest-digest=d1"];
    Pod {
        metadata: ObjectMeta::default(),
        spec: Some(PodSpec {
            init_containers: Some(vec![Container {
                name: "materialize".to_owned(),
                args: Some(arguments.map(str::to_owned).to_vec()),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        status: Some(PodStatus {
            init_container_statuses: Some(vec![ContainerStatus {
                name: "materialize".to_owned(),
                last_state: Some(ContainerState { terminated: Some(ended), ..Default::default() }),
                ..Default::default()
            }]),
            ..Default::default()
        }),
    }
}

fn status(manifest_digest: &str, recorded_at: Option<i64>) -> EngineStatus {
    let artifact = EngineArtifact {
        manifest_digest: manifest_digest.to_owned(),
        location: String::new(),
        size_bytes: 1,
        recorded_at: recorded_at.map(|second| Time(at(second))),
        build_milliseconds: 1,
        step_milliseconds: BTreeMap::new(),
        versions: BTreeMap::new(),
    };
    EngineStatus { artifact: Some(artifact), ..EngineStatus::default() }
}

#[test]
fn a_pod_says_which_artifact_it_misses() {
    let expected = Missed { engine: "engine-1".to_owned(), manifest_digest: "d1".to_owned(), at: at(7) };
    assert_eq!(missed(&pod("materialize", &failed(FailureClass::MissingArtifact), 7)), Some(expected));
}

#[rstest]
#[case::that_cannot_copy("materialize", failed(FailureClass::Infrastructure))]
#[case::of_an_image_without_the_class("materialize", failed(FailureClass::BadModel))]
#[case::that_was_killed("materialize", String::new())]
#[case::of_another_verb("evaluate", failed(FailureClass::MissingArtifact))]
fn a_pod_misses_nothing(#[case] verb: &str, #[case] message: String) {
    assert_eq!(missed(&pod(verb, &message, 7)), None);
}

/// A pod of an older plan goes on missing what nobody builds any more, and says so at each of its starts.
#[rstest]
#[case::since_it_was_recorded("engine-1", status("d1", Some(6)), Some(7))]
#[case::of_a_release_that_did_not_say_when("engine-1", status("d1", None), Some(7))]
#[case::before_it_was_built_again("engine-1", status("d1", Some(7)), None)]
#[case::of_an_older_plan("engine-1", status("d2", Some(0)), None)]
#[case::of_another_engine("engine-2", status("d1", Some(0)), None)]
#[case::while_it_is_built_again("engine-1", EngineStatus::default(), None)]
fn only_the_artifact_as_it_stands_can_be_missed(
    #[case] engine: &str,
    #[case] status: EngineStatus,
    #[case] expected: Option<i64>,
) {
    let pods = [7, 3].map(|second| pod("materialize", &failed(FailureClass::MissingArtifact), second));
    let missed: Vec<Missed> = pods.iter().filter_map(missed).collect();
    assert_eq!(missed_at(&missed, engine, &status), expected.map(at));
}

#[test]
fn the_latest_fetch_of_a_checkpoint_counts() {
    let fetch = |name: &str, digit: &str, ended: i64| {
        let source_digest = digit.repeat(64).parse().unwrap();
        let result = FetchResult { source_digest, files: 1, bytes: 1, transferred_bytes: 1, millis: 1 };
        let phase = JobPhase::Succeeded { outcome: Box::new(Outcome::Fetch(result)), milliseconds: 1 };
        (name.to_owned(), JobView { ended_at: Some(at(ended)), ..JobView::in_phase(name, phase) })
    };
    let jobs = BTreeMap::from([fetch("fetch-1", "a", 5), fetch("fetch-2", "a", 9), fetch("fetch-3", "b", 20)]);
    assert_eq!(fetched_at(&jobs, &"a".repeat(64)), Some(at(9)));
    assert_eq!(fetched_at(&jobs, &"c".repeat(64)), None);
}
