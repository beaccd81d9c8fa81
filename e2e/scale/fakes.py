"""The cluster beside the API server, all of it said and none of it done.

Nodes are Ready, claims are Bound, Jobs complete with the result that their task asks for, Deployments have their pods,
and pods run and are ready. Nothing is pulled, built or served but the evidence (evidence.py).
"""

import concurrent.futures
import datetime
import hashlib
import json
import threading
import traceback

OURS = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dslipway"
WORKERS = 6


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def outcome(task, job):
    kind = task["kind"]
    if kind == "Resolve":
        return {"kind": kind, "uri": task["uri"], "sourceDigest": digest(task["uri"]), "files": 4, "bytes": 18_250_000}
    if kind == "Fetch":
        return {"kind": kind, "sourceDigest": task["sourceDigest"], "files": 4, "bytes": 18_250_000,
                "transferredBytes": 18_250_000, "millis": 900}
    if kind == "Build":
        return {"kind": kind, "manifestDigest": digest(task["identity"]), "files": 7, "bytes": 17_400_000,
                "durationsMillis": {}, "versions": {}}
    if kind == "Profile":
        return {"kind": kind, "inputHash": task["inputHash"], "rows": rows(task), "omittedRows": 0,
                "gpuMillis": 90_000, "end": "Complete", "reason": "every arm was measured up to its limit"}
    raise ValueError(f"{job}: no fake result for a {kind} task")


def rows(task):
    """A campaign's measurements: more in flight is faster, and slower for each run."""
    campaign = task["campaign"]
    if campaign["kind"] == "Explore":
        cells = [(arm["id"], level) for level in campaign["levels"] for arm in campaign["arms"]]
    elif campaign["kind"] == "Repeat":
        cells = [(point["arm"]["id"], point["level"]) for point in campaign["points"]]
    else:
        cells = [(campaign["arm"]["id"], campaign["level"])]
    known = {(each["arm"], each["level"]) for each in task.get("measured", [])}
    return [row(*cell) for cell in cells if cell not in known]


def row(arm, level):
    def latency(percentile, micros):
        return ["AgentRunLatency", percentile, micros, micros * 95 // 100, micros * 105 // 100]
    run = 900_000 + 20_000 * level
    return {"arm": arm, "level": level, "verdict": "Feasible", "count": 400, "errors": 0, "millis": 30_000,
            "perKilosecond": level * 1_000_000_000 // run, "perKilosecondError": 5,
            "latencies": [latency("p50", run), latency("p95", run * 6 // 5)], "gpuMillis": 30_000,
            "records": digest(f"{arm} {level}")}


def container_status(container, state, ready):
    image = container["image"]
    repository = image.split("@")[0].rsplit(":", 1)[0]
    return {"name": container["name"], "image": image, "imageID": f"{repository}@sha256:{digest(image)}",
            "ready": ready, "started": ready, "restartCount": 0, "state": state}


class Fakes:
    def __init__(self, api, evidence):
        self.api, self.evidence = api, evidence
        self.stop = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.lock = threading.Lock()
        self.addresses, self.pods, self.done = 0, {}, set()
        self.failures = []

    def start(self):
        self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake"}})
        self.api.merge("/api/v1/nodes/fake/status", {"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}]}})
        for path, act in [
            (f"/api/v1/persistentvolumeclaims?{OURS}", self.claim),
            (f"/apis/batch/v1/jobs?{OURS}", self.job),
            (f"/apis/apps/v1/deployments?{OURS}", self.deployment),
        ]:
            threading.Thread(target=self.follow, args=(path, act), daemon=True).start()

    def follow(self, path, act):
        for kind, item in self.api.watch(path, self.stop):
            self.pool.submit(self.tried, act, kind, item)

    def tried(self, act, kind, item):
        try:
            act(kind, item)
        except Exception:  # noqa: BLE001
            self.failures.append(traceback.format_exc(limit=3))

    def claim(self, kind, claim):
        meta = claim["metadata"]
        if kind == "DELETED" or claim.get("status", {}).get("phase") == "Bound":
            return
        path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}/status"
        self.api.merge(path, {"status": {"phase": "Bound"}})

    def create_pod(self, owner, kind, api_version, name):
        meta, template = owner["metadata"], owner["spec"]["template"]
        reference = {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"],
                     "controller": True, "blockOwnerDeletion": True}
        labels = template["metadata"]["labels"]
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": name, "labels": labels, "ownerReferences": [reference],
                            "annotations": template["metadata"].get("annotations", {})},
               "spec": {**template["spec"], "nodeName": "fake"}}
        self.api.create(f"/api/v1/namespaces/{meta['namespace']}/pods", pod)

    def job(self, kind, job):
        meta, key = job["metadata"], job["metadata"]["uid"]
        with self.lock:
            if kind == "DELETED" or key in self.done:
                return
            self.done.add(key)
        namespace, name = meta["namespace"], meta["name"]
        spec = job["spec"]["template"]["spec"]
        maps = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
        tasks = (self.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{found}") for found in maps)
        task = next(json.loads(found["data"]["task.json"]) for found in tasks if "task.json" in found["data"])
        self.create_pod(job, "Job", "batch/v1", f"{name}-pod")
        message = json.dumps({"formatVersion": 1, "outcome": "Succeeded", "result": outcome(task, name)})
        ended = {"exitCode": 0, "startedAt": now(), "finishedAt": now()}
        said = [container_status(each, {"terminated": ended}, False) for each in spec.get("initContainers", [])]
        last = [container_status(each, {"terminated": {**ended, "message": message}}, False)
                for each in spec["containers"]]
        self.api.merge(f"/api/v1/namespaces/{namespace}/pods/{name}-pod/status", {"status": {
            "phase": "Succeeded", "startTime": now(), "initContainerStatuses": said, "containerStatuses": last,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}]}})
        conditions = [{"type": type_, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now(),
                       "lastProbeTime": now()} for type_ in ("SuccessCriteriaMet", "Complete")]
        self.api.merge(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}/status", {"status": {
            "startTime": now(), "completionTime": now(), "succeeded": 1, "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {}, "conditions": conditions}})

    def deployment(self, kind, deployment):
        meta = deployment["metadata"]
        key = meta["uid"]
        if kind == "DELETED":
            for name, _ in self.pods.pop(key, []):
                self.api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{name}?gracePeriodSeconds=0")
            return
        wanted = deployment["spec"].get("replicas", 1)
        seen = deployment.get("status", {})
        if seen.get("observedGeneration") == meta["generation"] and seen.get("replicas", 0) == wanted:
            return
        with self.lock:
            if (key, meta["generation"]) in self.done:
                return
            self.done.add((key, meta["generation"]))
        pods = self.pods.setdefault(key, [])
        while len(pods) > wanted:
            name, address = pods.pop()
            self.evidence.pods.pop(address, None)
            self.api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{name}?gracePeriodSeconds=0")
        while len(pods) < wanted:
            pods.append(self.serving_pod(deployment, f"{meta['name']}-{len(pods)}"))
        self.report(deployment, wanted)

    def serving_pod(self, deployment, name):
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        self.create_pod(deployment, "Deployment", "apps/v1", name)
        with self.lock:
            self.addresses += 1
            address = f"10.128.{self.addresses // 250}.{self.addresses % 250 + 1}"
        started = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
        labels = template["metadata"]["labels"]
        revision = labels["slipway.dev/revision"]
        self.evidence.pods[address] = {"revision": revision, "name": name,
                                       "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                       "agent": labels["slipway.dev/agent-deployment"],
                                       "namespace": meta["namespace"]}
        running = {"running": {"startedAt": now()}}
        spec = template["spec"]
        conditions = [{"type": type_, "status": "True", "lastTransitionTime": now()}
                      for type_ in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
        self.api.merge(f"/api/v1/namespaces/{meta['namespace']}/pods/{name}/status", {"status": {
            "phase": "Running", "startTime": now(), "podIP": address, "podIPs": [{"ip": address}],
            "initContainerStatuses": [container_status(each, running, True) for each in spec.get("initContainers", [])],
            "containerStatuses": [container_status(each, running, True) for each in spec["containers"]],
            "conditions": conditions}})
        return name, address

    def report(self, deployment, ready):
        meta = deployment["metadata"]
        path = f"/apis/apps/v1/namespaces/{meta['namespace']}/deployments/{meta['name']}/status"
        wanted = deployment["spec"].get("replicas", 1)
        self.api.merge(path, {"status": {
            "observedGeneration": meta["generation"], "replicas": wanted, "updatedReplicas": wanted,
            "readyReplicas": ready, "availableReplicas": ready,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                            "lastUpdateTime": now(), "lastTransitionTime": now()}]}})
