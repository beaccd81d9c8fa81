//! An operator that is killed or overtaken, and an API server that is away, silent or forgetful. Every story ends as
//! the undisturbed one does: nothing is made twice, and users notice nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeSet, time::Duration};

use kube::api::DeleteParams;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{AgentDeployment, agent_deployment::Stage},
};
use slipway_e2e::{
    agents::namespace_with_servers,
    cluster,
    faults::{
        control_plane::{Away, Forgetful, Outage, be_away},
        leaders::{Silence, holders, longest_pause, writes_without_a_claim},
        processes::{self, Still},
        told::{self, Commits, End},
        watches::forgotten,
    },
    load::report::Report,
    namespace::Namespace,
    operator::{Mark, Operator, Write},
    rollouts::{
        AGENT, Bench, kill_operator,
        watch::{Seen, Watch, shares_of, tasks_done_twice, unready_with_traffic, verdicts},
    },
};
use tokio::{sync::OnceCell, time::Instant};

/// Milliseconds that the engines of the edits take: as long as before, as far as users can tell.
const EDITS: [&str; 2] = ["195", "196"];
/// How long the API server is away. Its clients give up after half of that, and the leader after 10 s.
const AWAY: Duration = Duration::from_secs(60);
/// Longest time in which something comes to rest.
const LIMIT: Duration = Duration::from_secs(180);
/// The same where every watch must be asked for again first, which each is once a minute.
const FORGOTTEN_LIMIT: Duration = Duration::from_secs(240);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Two for each minute without an API server, and one each time that it is exchanged.
const MOST_RESTARTS: i32 = 6;
/// Requests that must be answered while the API server is away, silent and forgetful.
const REQUESTS: u64 = 10_000;
/// Kinds that the operator watches here.
const WATCHED: [&str; 11] = [
    "AgentDeployment",
    "ConfigMap",
    "ControllerRevision",
    "Deployment",
    "Engine",
    "HTTPRoute",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "Profile",
    "Service",
];

/// What a story has led to after an act.
struct Told {
    end: End,
    commits: Commits,
}

/// Creation, two edits and the deletion of an agent that nobody disturbs.
static UNDISTURBED: OnceCell<[Told; 4]> = OnceCell::const_new();

/// An agent, and where in the audit log its story begins.
struct Story {
    bench: Bench,
    operator: Operator,
    begun: Mark,
}

impl Story {
    async fn begin(name: &str) -> Self {
        let operator = Operator::find().await.unwrap();
        operator.leader(":dev", LIMIT).await.unwrap();
        let begun = operator.mark().unwrap();
        let namespace = namespace_with_servers(name).await.unwrap();
        Self { bench: Bench::start_in(namespace, judge_quickly).await.unwrap(), operator, begun }
    }

    fn namespace(&self) -> &Namespace {
        &self.bench.namespace
    }

    fn writes(&self) -> Vec<Write> {
        self.operator.writes_since(self.begun).unwrap()
    }

    async fn told(&self) -> Told {
        let commits = told::commits(&self.writes(), self.namespace().name());
        Told { end: told::end(self.namespace()).await.unwrap(), commits }
    }

    async fn edit(&self, milliseconds: &str) -> AgentDeployment {
        self.bench.apply(&self.bench.with(&[("medianMilliseconds", milliseconds)])).await.unwrap()
    }

    /// Waits until a plan has taken over from another, of which nothing serves any more.
    async fn wait_until_taken_over(&self, edited: &AgentDeployment, (from, to): (&str, &str)) {
        self.bench.wait_for_promotion(to).await.unwrap();
        let of_before = format!("{}={from}", labels::REVISION);
        self.namespace().wait_until_no_pods(&of_before, LIMIT).await.unwrap();
        self.namespace().wait_until_served(edited, LIMIT).await.unwrap();
    }

    async fn wait_for_share(&self, weight: i32) {
        self.bench.wait_for(&format!("{weight} %"), |rollout| rollout.weight == Some(weight)).await.unwrap();
    }

    async fn delete(&self) {
        let agents = self.namespace().api::<AgentDeployment>();
        agents.delete(AGENT, &DeleteParams::background()).await.unwrap();
    }

    async fn wait_until_gone(&self) {
        self.namespace().wait_until_gone::<AgentDeployment>(AGENT, LIMIT).await.unwrap();
        let pods = format!("{}={AGENT}", labels::AGENT_DEPLOYMENT);
        self.namespace().wait_until_no_pods(&pods, LIMIT).await.unwrap();
        told::wait_until_forgotten(self.namespace(), AGENT, LIMIT).await.unwrap();
    }

    /// Waits until everything is as in the undisturbed story, made and removed as often.
    async fn compare_with(&self, expected: &Told, after: &str) {
        told::wait_for(self.namespace(), &expected.end, LIMIT).await.unwrap();
        let commits = told::commits(&self.writes(), self.namespace().name());
        let differences = told::differences(&expected.commits, &commits);
        assert!(differences.is_empty(), "created and deleted after {after}:\n{}", differences.join("\n"));
    }

    /// Waits until this many objects were created since.
    async fn wait_for_creations(&self, since: Mark, count: usize) {
        wait_for_creations(&self.operator, (self.namespace().name(), since), count).await;
    }

    /// Waits until somebody leads who has renewed the claim from now on, and gives the pod.
    async fn wait_for_leader(&self) -> String {
        let since = self.operator.mark().unwrap();
        let has_renewed = async || {
            let writes = self.operator.writes_since(since).unwrap();
            writes.iter().any(|write| write.is_of_lease() && write.is_committed())
        };
        eventually("a renewal of the lease", has_renewed).await;
        self.operator.leader(":dev", LIMIT).await.unwrap()
    }
}

/// Faults are the subject and not statistics: twice as slow would be found within seconds.
fn judge_quickly(manifest: &mut Value) {
    let rollout = &mut manifest["spec"]["rollout"];
    rollout["judge"] = json!({"maxRegression": "50%", "falseRollback": "1%", "warmUp": "5s"});
    rollout["steps"][0]["minSoak"] = json!("10s");
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited {} s for {what}", LIMIT.as_secs());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn wait_for_creations(operator: &Operator, (namespace, since): (&str, Mark), count: usize) {
    let are_there = async || {
        let commits = told::commits(&operator.writes_since(since).unwrap(), namespace);
        commits.keys().filter(|what| what.starts_with("created")).count() >= count
    };
    eventually(&format!("{count} created objects in {namespace}"), are_there).await;
}

/// How many objects an act creates: those of the story up to it, less those up to the act before.
fn created(told: &Told, before: Option<&Told>) -> usize {
    let count = |told: &Told| told.commits.keys().filter(|what| what.starts_with("created")).count();
    count(told) - before.map_or(0, count)
}

async fn undisturbed() -> &'static [Told; 4] {
    UNDISTURBED.get_or_init(tell_undisturbed).await
}

async fn tell_undisturbed() -> [Told; 4] {
    let story = Story::begin("undisturbed").await;
    let load = story.bench.start_load().await.unwrap();
    // What the pods' becoming ready has set going comes to its end.
    load.next_intervals(1).await.unwrap();
    let created = story.told().await;
    let first = story.edit(EDITS[0]).await;
    let one = story.bench.wait_for_canary().await.unwrap();
    story.wait_until_taken_over(&first, (&story.bench.stable, &one)).await;
    let edited = story.told().await;
    let second = story.edit(EDITS[1]).await;
    let two = story.bench.wait_for_canary().await.unwrap();
    story.wait_until_taken_over(&second, (&one, &two)).await;
    let edited_again = story.told().await;
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    story.delete().await;
    story.wait_until_gone().await;
    let told = [created, edited, edited_again, story.told().await];
    let commits = told.each_ref().map(|told| told.commits.values().sum::<usize>());
    println!("undisturbed: {commits:?} objects created and deleted by the end of each act; {} requests", summary.ok());
    story.bench.namespace.delete().await.unwrap();
    told
}

/// What must hold of all that was seen, and of users.
fn check_users((history, summary): (&[Seen], &Report), [one, two]: [&str; 2]) {
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()), "{summary:?}");
    let served = history.iter().position(|seen| seen.stage == Some(Stage::Serving)).unwrap();
    let unready = unready_with_traffic(&history[served..]);
    assert!(unready.is_empty(), "traffic without a ready pod: {unready:?}");
    assert_eq!(tasks_done_twice(history), Vec::<&Seen>::new(), "two Jobs for one task");
    assert_eq!(shares_of(history, one), [0, 20, 50, 100, 80, 50, 0], "{one}: {:?}", verdicts(history));
    assert_eq!(shares_of(history, two), [0, 20, 50, 100], "{two}: {:?}", verdicts(history));
}

fn check_leaders(writes: &[Write], silences: &[Silence]) {
    let holders = holders(writes);
    assert!(!holders.is_empty() && !holders.contains(&""), "the audit log names no pods: {holders:?}");
    let unclaimed = writes_without_a_claim(writes, silences);
    assert!(unclaimed.is_empty(), "writes without a claim:\n{}", unclaimed.join("\n"));
    println!("leaders, one after the other: {holders:?}; no write without a claim among {}", writes.len());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    /// The kubelet starts another process in the same pod, which is the same candidate.
    Process,
    /// Another pod comes, which waits until the claim has expired.
    Pod,
}

async fn kill(what: Kill, when: &str) {
    let killed = processes::kill().await.unwrap();
    if what == Kill::Pod {
        kill_operator().unwrap();
    }
    println!("{when}: SIGKILL to {killed:?}, {what:?}");
}

/// Two pods of the operator, one of which waits; one again when this is dropped.
struct TwoCandidates;

impl TwoCandidates {
    async fn begin() -> Self {
        let two = Self;
        scale_operator(2);
        eventually("two processes of the operator", async || processes::running().unwrap().len() == 2).await;
        two
    }
}

impl Drop for TwoCandidates {
    fn drop(&mut self) {
        scale_operator(1);
    }
}

fn scale_operator(replicas: u32) {
    let replicas = format!("--replicas={replicas}");
    let scale = ["--namespace", "slipway-system", "scale", "deployment", "slipway-operator", &replicas];
    let output = cluster::kubectl(&scale).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The leader stands still after its next creation until another one leads. Then it goes on, in the middle of what it
/// did, and must end.
async fn overtake_the_leader(story: &Story, since: Mark) {
    let leader = story.operator.leader(":dev", LIMIT).await.unwrap();
    let before = story.operator.restarts().await.unwrap()[&leader];
    story.wait_for_creations(since, 1).await;
    let still = Still::of(&leader).unwrap();
    eventually("another leader", async || story.operator.claim().await.unwrap().holder != leader).await;
    let next = story.operator.claim().await.unwrap();
    drop(still);
    let has_ended = async || story.operator.restarts().await.unwrap().get(&leader).is_some_and(|now| *now > before);
    eventually(&format!("the end of {leader}, which {} has overtaken", next.holder), has_ended).await;
    println!("{leader} stood still, and ended by itself after {} had taken the lease", next.holder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_is_killed_or_overtaken_at_any_moment_makes_nothing_twice() {
    let [of_creation, of_first, of_second, of_deletion] = undisturbed().await;
    let operator = Operator::find().await.unwrap();
    operator.leader(":dev", LIMIT).await.unwrap();
    let (name, begun) = ("killed", operator.mark().unwrap());
    let namespace = namespace_with_servers(name).await.unwrap();
    let watch = Watch::start(&namespace);
    let all = created(of_creation, None);
    let kills = async {
        for (count, what) in [(1, Kill::Process), (all / 2, Kill::Pod), (all - 1, Kill::Process)] {
            wait_for_creations(&operator, (name, begun), count).await;
            kill(what, &format!("after creation {count} of {all}")).await;
        }
    };
    let (bench, ()) = tokio::join!(Bench::start_in(namespace, judge_quickly), kills);
    let story = Story { bench: bench.unwrap(), operator, begun };
    story.compare_with(of_creation, "the creation").await;
    let load = story.bench.start_load().await.unwrap();

    let (since, all) = (story.operator.mark().unwrap(), created(of_first, Some(of_creation)));
    let edited = story.edit(EDITS[0]).await;
    for (count, what) in [(1, Kill::Pod), (all / 2 + 1, Kill::Process)] {
        story.wait_for_creations(since, count).await;
        kill(what, &format!("after creation {count} of {all} of an edit")).await;
    }
    let one = story.bench.wait_for_canary().await.unwrap();
    story.wait_for_share(20).await;
    kill(Kill::Pod, "at 20 %").await;
    story.wait_for_share(50).await;
    kill(Kill::Process, "at 50 %").await;
    story.wait_until_taken_over(&edited, (&story.bench.stable, &one)).await;
    story.compare_with(of_first, "the first edit").await;

    let two_candidates = TwoCandidates::begin().await;
    let since = story.operator.mark().unwrap();
    let edited = story.edit(EDITS[1]).await;
    overtake_the_leader(&story, since).await;
    drop(two_candidates);
    let two = story.bench.wait_for_canary().await.unwrap();
    story.wait_until_taken_over(&edited, (&one, &two)).await;
    story.compare_with(of_second, "the second edit").await;

    // The watch is another connection, and is to see the end too.
    load.next_intervals(1).await.unwrap();
    let history = watch.stop().await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    story.delete().await;
    kill(Kill::Process, "after the deletion").await;
    story.wait_until_gone().await;
    story.wait_for_leader().await;
    story.compare_with(of_deletion, "the deletion").await;
    check_users((&history, &summary), [&one, &two]);
    let writes = story.writes();
    check_leaders(&writes, &[]);
    assert!(holders(&writes).len() >= 5, "three pods were replaced, and one was overtaken: {:?}", holders(&writes));
    println!("killed eight times, overtaken once; {} requests, none failed", summary.ok());
    story.bench.namespace.delete().await.unwrap();
}

/// The API server is away for a minute. The operator ends once and is started again, nobody else leads, and it goes on
/// by itself.
async fn play(story: &Story, away: Away) -> Outage {
    let since = story.operator.mark().unwrap();
    // A renewal from which the pause counts.
    story.wait_for_leader().await;
    let (claim, before) = (story.operator.claim().await.unwrap(), processes::running().unwrap());
    let outage = be_away(away, AWAY).await.unwrap();
    story.wait_for_leader().await;
    let refusal = outage.refusal.as_deref().unwrap_or("an answer");
    let is_as_asked = outage.refusal.is_some() && refusal.contains("refused") == (away == Away::Refusing);
    assert!(is_as_asked, "what kubectl got while {away:?}: {refusal}");
    let pause = longest_pause(&story.operator.writes_since(since).unwrap());
    let longest = i64::try_from(AWAY.as_millis()).unwrap() - 3_000;
    assert!(pause >= longest, "the lease was renewed after {pause} ms: nothing was away");
    let now = processes::running().unwrap();
    assert!(before.len() == 1 && now.len() == 1 && now != before, "a leader without a claim ends: {before:?}, {now:?}");
    let after = story.operator.claim().await.unwrap();
    assert_eq!(after, claim, "nobody else leads after the API server was {away:?}");
    println!("{away:?} for {} s: no renewal for {pause} ms, then of {now:?}", AWAY.as_secs());
    outage
}

/// Every watch of the operator is answered with 410 once, while it leads on. Gives the API server that forgets.
async fn play_forgetting(story: &Story) -> Forgetful {
    let forgetful = Forgetful::begin().unwrap();
    let leader = story.wait_for_leader().await;
    let before = processes::running().unwrap();
    let logged = story.operator.log(&leader).await.unwrap().len();
    let (begun, mut revision) = (Instant::now(), String::new());
    let mut left: BTreeSet<&str> = WATCHED.into();
    while !left.is_empty() {
        let limit = FORGOTTEN_LIMIT.as_secs();
        assert!(begun.elapsed() < FORGOTTEN_LIMIT, "no 410 within {limit} s to watches of {left:?}");
        revision = forgetful.forget().unwrap();
        tokio::time::sleep(LOOK_EVERY * 20).await;
        let log = story.operator.log(&leader).await.unwrap();
        let kinds = forgotten(log.get(logged..).unwrap_or_default());
        left.retain(|kind| !kinds.contains(*kind));
    }
    assert_eq!(processes::running().unwrap(), before, "410 on its watches ends no operator");
    let taken = begun.elapsed().as_secs();
    println!("watches of {} kinds were answered with 410 within {taken} s, up to revision {revision}", WATCHED.len());
    forgetful
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_away_silent_or_forgetful_loses_no_request_and_changes_no_end() {
    let [of_creation, of_first, of_second, _] = undisturbed().await;
    let story = Story::begin("outages").await;
    story.compare_with(of_creation, "the creation").await;
    let load = story.bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start_beside_outages(story.namespace());
    let restarts = async || story.operator.restarts().await.unwrap().values().sum::<i32>();
    let before = restarts().await;

    // The engine of the edit is built while the API server is away.
    let builds = format!("{}={}", labels::APP_COMPONENT, Component::Build.as_str());
    let built = story.namespace().pods(&builds).await.unwrap().len();
    let edited = story.edit(EDITS[0]).await;
    let is_building = async || story.namespace().pods(&builds).await.unwrap().len() > built;
    eventually("a pod that builds", is_building).await;
    play(&story, Away::Refusing).await;
    let one = story.bench.wait_for_canary().await.unwrap();
    story.wait_until_taken_over(&edited, (&story.bench.stable, &one)).await;
    story.compare_with(of_first, "the first edit").await;

    let edited = story.edit(EDITS[1]).await;
    let two = story.bench.wait_for_canary().await.unwrap();
    story.wait_for_share(20).await;
    let silent = play(&story, Away::Silent).await;
    story.wait_for_share(50).await;
    let forgetful = play_forgetting(&story).await;
    story.wait_until_taken_over(&edited, (&one, &two)).await;
    story.compare_with(of_second, "the second edit").await;
    forgetful.end().unwrap();
    story.wait_for_leader().await;

    // An interval is long enough for the kubelet to report restarts, and for the watch to see the end.
    load.next_intervals(1).await.unwrap();
    let ended = restarts().await - before;
    assert!((2..=MOST_RESTARTS).contains(&ended), "the operator ended {ended} times in two minutes and two exchanges");
    let history = watch.stop().await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    check_users((&history, &summary), [&one, &two]);
    check_leaders(&story.writes(), &[(silent.from_unix_millis, silent.to_unix_millis)]);
    assert!(summary.ok() >= REQUESTS, "{} requests, of {REQUESTS} that are to be answered", summary.ok());
    println!("{} requests, none failed; the operator ended {ended} times", summary.ok());
    story.bench.namespace.delete().await.unwrap();
}
