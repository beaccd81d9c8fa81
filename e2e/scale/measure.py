#!/usr/bin/env python3
"""Measures the operator beside a real API server whose cluster is said to be there (fakes.py).

    run.sh --operator FILE --cluster FILE --folder FOLDER [--agents 100 1000] [--rest 300] [--canaries 50] [--silent 8]

Run by run.sh in a network of its own. Prints a table for each number of agents, and writes results.json.
"""

import argparse
import asyncio
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from api import Api, Refused
from evidence import Evidence
from fakes import Fakes

HOST, PORT = "127.0.0.1", 6443
AGENTS = "/apis/slipway.dev/v1alpha1"
PER_NAMESPACE = 10
TICKS = os.sysconf("SC_CLK_TCK")
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TRACE = REPOSITORY / "e2e/manifests/demo/workload/trace.jsonl"
AUDIT_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [operator]}
- {level: Metadata, users: [fakes], verbs: [patch], resources: [{group: apps, resources: [deployments/status]}]}
- {level: None}
"""
# Memory that was given back leaves the process, as in the chart.
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072"}


def agent(name, has_canary, has_campaign):
    rollout = {"traffic": {"type": "ReplicaRatio"}, "judge": {"warmUp": "0s"},
               "steps": [{"weight": 50, "minSoak": "1m", "maxSoak": "30m"}]}
    custom = {"builderImage": "example.com/builder:1", "tritonImage": "example.com/triton:1"}
    objective = {"name": "answer", "metric": "AgentRunLatency", "percentile": "p95", "max": "5s"}
    spec = {"model": {"uri": "http://models.example/react"}, "engine": {"backend": "Custom", "custom": custom},
            "agent": {"systemPrompt": "Answer."}, "slo": {"objectives": [objective]},
            "serving": {"replicas": 2 if has_canary else 1}}
    if has_canary:
        spec["rollout"] = rollout
    if has_campaign:
        trace = {"configMap": {"name": "traffic", "key": "runs.jsonl"}}
        spec["search"] = {"concurrency": [1, 4, 16]}
        spec["agent"]["tools"] = [{"name": "lookup", "type": "HTTP", "http": {
            "url": "http://facts.example/{entity}/{property}", "arguments": ["entity", "property"]}}]
        spec["profiling"] = {"driver": "AgentRun", "budget": {"gpuHours": "1"},
                             "workloads": [{"name": "runs", "agentTrace": trace}]}
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": name}, "spec": spec}


def is_split(item):
    """Whether an agent's canaries get a share of its traffic."""
    return item["spec"]["rollout"].get("traffic", {}).get("type") == "ReplicaRatio"


class Process:
    def __init__(self, name, command, folder, environment=None):
        self.log = open(folder / f"{name}.log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {})})

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, field="VmRSS"):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Audit:
    """Requests that the API server says it answered."""

    def __init__(self, path):
        self.path, self.position, self.lines = path, 0, []

    def read(self):
        with open(self.path) as log:
            log.seek(self.position)
            for line in iter(log.readline, ""):
                if not line.endswith("\n"):
                    break
                self.position += len(line.encode())
                self.lines.append(parsed(json.loads(line)))
        return self.lines


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def parsed(line):
    reference = line.get("objectRef", {})
    resource = "/".join(filter(None, [reference.get("resource", line["requestURI"]), reference.get("subresource")]))
    return {"user": line["user"]["username"], "verb": line["verb"], "resource": resource,
            "namespace": reference.get("namespace", ""), "name": reference.get("name", ""),
            "from": seconds(line["requestReceivedTimestamp"]), "to": seconds(line["stageTimestamp"]),
            "code": line.get("responseStatus", {}).get("code", 0)}


class Agents:
    """The AgentDeployments as a watch shows them."""

    def __init__(self, api):
        self.api, self.stop = api, threading.Event()
        self.seen, self.ready_at = {}, {}
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for kind, item in self.api.watch(f"{AGENTS}/agentdeployments", self.stop):
            key = (item["metadata"]["namespace"], item["metadata"]["name"])
            self.seen[key] = item
            if self.is_ready(key):
                self.ready_at.setdefault(key, time.time())

    def is_ready(self, key):
        item = self.seen[key]
        conditions = item.get("status", {}).get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and item["status"].get("observedGeneration") == item["metadata"]["generation"]

    def phase(self, key):
        rollout = self.rollout(key)
        return {name: rollout.get(name) for name in ("stable", "canary", "weight", "verdict", "reason")}

    def rollout(self, key):
        return self.seen[key].get("status", {}).get("rollout", {})


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def spread(values):
    if not values:
        return {}
    return {"n": len(values), "p50": quantile(values, 0.5), "p99": quantile(values, 0.99), "max": max(values)}


class Rig:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.processes, self.results, self.created = {}, [], {}
        self.evidence = Evidence()
        threading.Thread(target=lambda: asyncio.run(self.evidence.serve()), daemon=True).start()

    def start(self):
        for file, text in [("audit.yaml", AUDIT_POLICY), ("tokens.csv", "".join(
                f"{user}-token,{user},{user},system:masters\n" for user in ("operator", "fakes", "people")))]:
            (self.folder / file).write_text(text)
        key = self.folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        cluster = str(self.options.cluster)
        self.begin("etcd", [cluster, "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level",
                            "warn", "--listen-client-urls", client, "--advertise-client-urls", client,
                            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                            "--initial-cluster", f"default={peer}"])
        self.begin("kube-apiserver", [
            cluster, "kube-apiserver", "--etcd-servers", client, "--secure-port", str(PORT), "--advertise-address",
            "10.96.255.1", "--service-cluster-ip-range", "10.96.0.0/16", "--cert-dir", self.folder / "certificates",
            "--token-auth-file", self.folder / "tokens.csv", "--service-account-key-file", key,
            "--service-account-signing-key-file", key, "--service-account-issuer", "https://scale.example",
            "--authorization-mode", "RBAC", "--allow-privileged=true", "--endpoint-reconciler-type", "none",
            "--disable-admission-plugins", "ServiceAccount", "--max-requests-inflight", "800",
            "--audit-policy-file", self.folder / "audit.yaml", "--audit-log-path", self.folder / "audit.log",
            "--audit-log-maxsize", "4000"])
        self.people, fakes = Api(HOST, PORT, "people-token"), Api(HOST, PORT, "fakes-token")
        self.wait(lambda: self.people.get("/readyz") == "ok", 90, "the API server is ready")
        self.install()
        self.fakes = Fakes(fakes, self.evidence)
        self.fakes.start()
        self.agents = Agents(self.people)
        self.audit = Audit(self.folder / "audit.log")

    def begin(self, name, command, environment=None):
        self.processes[name] = Process(name, [str(part) for part in command], self.folder, environment)

    def wait(self, condition, limit, what):
        begin = time.time()
        while time.time() - begin < limit:
            for name, process in self.processes.items():
                if process.process.poll() is not None:
                    sys.exit(f"{name} ended: see {self.folder}/{name}.log")
            try:
                if condition():
                    return time.time() - begin
            except (OSError, Refused):
                pass
            time.sleep(0.25)
        print(f"not within {limit} s: {what}", file=sys.stderr)
        return None

    def install(self):
        import yaml
        for file in sorted((REPOSITORY / "crds/yaml").glob("*.yaml")):
            definition = yaml.safe_load(file.read_text())
            self.people.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        self.people.create("/api/v1/namespaces", {"metadata": {"name": "slipway-system"}})
        self.wait(lambda: self.people.get(f"{AGENTS}/agentdeployments"), 30, "the kinds are served")

    def start_operator(self):
        config = self.folder / "config.yaml"
        config.write_text("images: {worker: 'example.com/worker:1', agentRuntime: 'example.com/agent-runtime:1'}\n")
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "scale",
            "clusters": [{"name": "scale", "cluster": {"server": f"https://{HOST}:{PORT}",
                                                       "insecure-skip-tls-verify": True}}],
            "users": [{"name": "operator", "user": {"token": "operator-token"}}],
            "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "operator"}}]}))
        self.begin("operator", [self.options.operator, "--config", config, "--listen", "127.0.0.1:8081"],
                   {"KUBECONFIG": str(kubeconfig), "RUST_LOG": self.options.log, **MALLOC})
        self.wait(lambda: self.people.get("/apis/coordination.k8s.io/v1/namespaces/slipway-system/leases/"
                                          "slipway-operator"), 60, "an operator leads")

    def usage(self):
        return {name: process.cpu() for name, process in self.processes.items()}

    def requests(self, begin, end):
        lines = [line for line in self.audit.read() if line["user"] == "operator" and begin <= line["to"] < end]
        return [line for line in lines if line["verb"] != "watch"]

    # The measurements.

    def grow(self, count):
        known = len(self.agents.seen)
        self.audit.read()
        begin, before = time.time(), self.usage()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.create, range(known, count)))
        applied = time.time() - begin
        limit = self.options.limit
        took = self.wait(lambda: len(self.agents.seen) >= count and all(map(self.agents.is_ready, self.agents.seen)),
                         limit, f"{count} agents are Ready")
        end = time.time()
        ready = sum(map(self.agents.is_ready, list(self.agents.seen)))
        after = self.usage()
        requests = self.requests(begin, end)
        return {"agents": count, "created": count - known, "applied_s": applied, "ready": ready,
                "all_ready_s": None if took is None else end - begin, "requests": len(requests),
                "writes": sum(line["verb"] not in ("get", "list") for line in requests),
                "delay_s": spread(self.delays(begin, end)), "first_status_s": spread(self.first_statuses(begin, end)),
                "cpu_s": {name: after[name] - before[name] for name in after}}

    def create(self, number):
        namespace = f"team-{number // PER_NAMESPACE}"
        if number % PER_NAMESPACE == 0:
            self.people.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            self.people.create(f"/api/v1/namespaces/{namespace}/configmaps", {
                "metadata": {"name": "traffic"}, "data": {"runs.jsonl": TRACE.read_text()}})
        for attempt in range(20):
            try:
                has_canary = number % 10 < 5 and number < 2 * self.options.canaries
                body = agent(f"agent-{number}", has_canary, number % PER_NAMESPACE == PER_NAMESPACE - 1)
                self.people.create(f"{AGENTS}/namespaces/{namespace}/agentdeployments", body)
                self.created[namespace, f"agent-{number}"] = time.time()
                return
            except Refused as refused:
                # Another thread makes the namespace.
                if refused.code != 404 or attempt == 19:
                    raise
                time.sleep(0.2)

    def first_statuses(self, begin, end):
        """From the creation of an agent to the operator's first status of it."""
        first = {}
        for line in self.audit.read():
            if line["user"] == "operator" and line["resource"] == "agentdeployments/status" and line["code"] < 300:
                first.setdefault((line["namespace"], line["name"]), line["to"])
        return [first[key] - at for key, at in self.created.items() if begin <= at < end and key in first]

    def delays(self, begin, end):
        """From the fakes' word that a Deployment's pods are ready, or not, to the operator's next status of its
        agent, by the API server's clock."""
        events, writes = [], collections.defaultdict(list)
        for line in self.audit.read():
            if not begin <= line["from"] < end or line["code"] >= 300:
                continue
            if line["user"] == "fakes" and line["resource"] == "deployments/status":
                events.append((line["namespace"], line["name"].rsplit("-", 1)[0], line["to"]))
            if line["user"] == "operator" and line["resource"] == "agentdeployments/status":
                writes[line["namespace"], line["name"]].append(line["to"])
        delays = []
        for namespace, name, at in events:
            later = [write for write in writes[namespace, name] if write >= at]
            if later:
                delays.append(min(later) - at)
        return delays

    def settle(self):
        def is_silent():
            requests = self.requests(time.time() - 10, time.time() + 1)
            return all("leases" in line["resource"] for line in requests)

        self.wait(is_silent, self.options.settle, "10 s of silence")

    def rest(self, span):
        self.audit.read()
        before, began, answers, size = self.usage(), time.time(), self.evidence.answers, self.evidence.bytes
        whole = self.evidence.whole
        memory, scraped = [], 0
        while time.time() - began < span:
            time.sleep(5)
            memory.append(self.processes["operator"].memory())
            if time.time() - scraped >= 30:
                # As Prometheus does.
                scraped = time.time()
                with urllib.request.urlopen("http://127.0.0.1:8081/metrics", timeout=30) as answer:
                    series = answer.read().count(b"\nslipway_")
        end, after = time.time(), self.usage()
        requests = self.requests(began, end)
        counts = collections.Counter(f"{line['verb']} {line['resource']}" for line in requests)
        leases = sum(number for what, number in counts.items() if "leases" in what)
        elapsed = end - began
        return {"agents": len(self.agents.seen), "seconds": elapsed,
                "requests_per_s": len(requests) / elapsed, "without_lease_per_s": (len(requests) - leases) / elapsed,
                "writes_per_s": sum(line["verb"] not in ("get", "list") and "leases" not in line["resource"]
                                    for line in requests) / elapsed,
                "by_kind": dict(counts.most_common(30)), "rss_mib": statistics.median(memory),
                "anonymous_mib": self.processes["operator"].memory("RssAnon"),
                "program_mib": self.processes["operator"].memory("RssFile"),
                "rss_most_mib": self.processes["operator"].memory("VmHWM"), "rss_at_end_mib": memory[-1],
                "series": series,
                "cpu_share": {name: (after[name] - before[name]) / elapsed for name in after},
                "evidence_per_s": (self.evidence.answers - answers) / elapsed,
                "evidence_whole_per_s": (self.evidence.whole - whole) / elapsed,
                "evidence_bytes_per_s": (self.evidence.bytes - size) / elapsed}

    def events(self, number):
        """Pods of agents are said to be unready, and ready again, one agent every quarter of a second."""
        keys = random.Random(1).sample(sorted(self.agents.seen), min(number, len(self.agents.seen)))
        begin = time.time()
        for namespace, name in keys:
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            label = f"labelSelector=slipway.dev%2Fagent-deployment%3D{name}"
            for deployment in self.people.get(f"{path}?{label}")["items"]:
                if deployment["spec"].get("replicas", 1) > 0:
                    self.fakes.report(deployment, 0)
                    time.sleep(2)
                    self.fakes.report(deployment, deployment["spec"].get("replicas", 1))
            time.sleep(0.25)
        time.sleep(10)
        return spread(self.delays(begin, time.time()))

    def canaries(self):
        number = self.options.canaries
        keys = sorted(key for key, item in list(self.agents.seen.items()) if is_split(item))[:number]
        begin = time.time()
        for namespace, name in keys:
            self.people.merge(f"{AGENTS}/namespaces/{namespace}/agentdeployments/{name}",
                              {"spec": {"agent": {"systemPrompt": f"Answer in {number} words."}}})
        seen = set()

        def have_begun():
            seen.update(key for key in keys if self.agents.rollout(key).get("weight"))
            return len(seen) == len(keys)

        started = self.wait(have_begun, 300, "all canaries have a share")
        print([self.agents.phase(key) for key in keys[:3]], file=sys.stderr)
        judged = time.time()
        took = self.wait(lambda: all(not self.agents.rollout(key).get("canary") and self.agents.is_ready(key)
                                     for key in keys), self.options.judged, "all canaries are decided")
        end = time.time()
        waits = []
        for address, pod in list(self.evidence.pods.items()):
            if (pod["namespace"], pod["agent"]) in keys and started is not None:
                asked = [at for at in list(self.evidence.asked[address]) if judged <= at < end]
                waits.extend(b - a for a, b in zip(asked, asked[1:]))
        outcomes = collections.Counter(
            "promoted" if self.agents.is_ready(key) and not self.agents.rollout(key).get("canary") else "undecided"
            for key in keys)
        return {"canaries": len(keys), "all_started_s": started, "all_decided_s": None if took is None else end - begin,
                "outcomes": dict(outcomes), "between_looks_s": spread(waits)}

    def silence(self, number):
        """The pods of some agents never answer any more. Measures what the others notice."""
        keys = random.Random(2).sample(sorted(self.agents.seen), number)
        for address, pod in self.evidence.pods.items():
            if (pod["namespace"], pod["agent"]) in keys:
                self.evidence.silent.add(address)
        time.sleep(35)
        found = self.events(20)
        self.evidence.silent.clear()
        return {"silent": number, "delay_s": found}

    def run(self):
        self.start()
        self.start_operator()
        for count in self.options.agents:
            found = {"grow": self.grow(count)}
            self.show(found)
            if self.options.rest:
                self.settle()
                found["rest"] = self.rest(self.options.rest)
                self.show(found["rest"])
            if self.options.events:
                found["events"] = self.events(self.options.events)
                self.show(found["events"])
            self.results.append(found)
            self.write()
        if self.options.silent:
            self.results.append({"silence": self.silence(self.options.silent)})
            self.show(self.results[-1])
        if self.options.canaries:
            self.results.append({"canaries": self.canaries()})
            self.show(self.results[-1])
        self.write()

    def show(self, found):
        print(json.dumps(found, indent=1), flush=True)

    def write(self):
        (self.folder / "results.json").write_text(json.dumps(self.results, indent=1))
        unready = [item for key, item in self.agents.seen.items() if not self.agents.is_ready(key)]
        (self.folder / "unready.json").write_text(json.dumps(unready[:3], indent=1))

    def end(self):
        if hasattr(self, "fakes"):
            self.agents.stop.set()
            self.fakes.stop.set()
            for failure in self.fakes.failures[:3]:
                print(failure, file=sys.stderr)
            if self.fakes.failures:
                print(f"{len(self.fakes.failures)} failures of the fakes", file=sys.stderr)
        for process in reversed(list(self.processes.values())):
            process.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operator", type=pathlib.Path, required=True, help="the operator's binary")
    parser.add_argument("--cluster", type=pathlib.Path, required=True, help="the binary of e2e/cluster")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for data and logs; it is emptied first")
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rest", type=int, default=300, help="seconds at rest; 0 leaves it out")
    parser.add_argument("--settle", type=int, default=60, help="seconds to wait for rest at most")
    parser.add_argument("--events", type=int, default=50, help="agents whose pods are said to change")
    parser.add_argument("--canaries", type=int, default=50)
    parser.add_argument("--judged", type=int, default=1200, help="seconds for which canaries are judged at most")
    parser.add_argument("--silent", type=int, default=8, help="agents whose pods never answer")
    parser.add_argument("--limit", type=int, default=1800, help="seconds in which all must be Ready")
    parser.add_argument("--log", default="warn", help="RUST_LOG of the operator")
    rig = Rig(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        rig.run()
    finally:
        rig.end()


if __name__ == "__main__":
    main()
