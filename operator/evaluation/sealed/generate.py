#!/usr/bin/env python3
"""Generates the evidence of simulated rollouts of agents, in the format that `slipway-analysis judge` reads.

It shares no code with the judge. A rollout follows from the seed of its row and its own number alone. Rows are in
rows.json; every parameter and its default is a field of `Row`. Uses the standard library only.

    generate.py --row stalls --rollout 3 > evidence.jsonl
"""

import argparse
import bisect
import dataclasses
import heapq
import json
import math
import random
import sys
from pathlib import Path

WINDOW = 10.0
EPOCH = 1_789_000_000
LATENCIES = ("AgentRunLatency", "ModelTime", "ToolTime", "RequestLatency", "RequestTimeToFirstToken")
METRICS = LATENCIES + ("InterTokenLatency", "ModelCallsPerRun", "OutputTokensPerRun", "RunSuccess")
# A run that takes longer has failed, as with the runtime's own limit.
RUN_TIMEOUT = 300.0
# The share of a model call before its first token.
PREFILL = 0.15
# Requests that a pod takes at once; more are shed.
MOST_IN_FLIGHT = 64
# What clients say of tasks in a window of a pod.
TASKS = '"metric":"TaskSuccess","unit":"Run","started":0,"inFlight":0,"count":%d,"errors":%d}'
# Seconds until a pod that was lost has a successor.
REPLACED_AFTER = 20.0


@dataclasses.dataclass
class Row:
    """One row of the table: a world, and what a good judge does in it."""

    name: str
    seed: int
    gate: str = "report"
    # Part of the rollouts that the row is worth: busy rows cost much.
    share: float = 1.0
    runs_per_second: float = 2.0
    steps: tuple = ((5, 600), (20, 600), (50, 600))
    stable_pods: int = 4
    canary_pods: int = 2
    # Model calls of a run: a geometric number of this mean, at least one and at most thirty.
    calls: float = 4.0
    most_calls: int = 30
    # Seconds of a model call: median, sigma of its logarithm, and the exponent of a Pareto tail instead (0 for none).
    call_median: float = 1.0
    call_sigma: float = 0.3
    call_tail: float = 0.0
    tool_median: float = 1.0
    tool_sigma: float = 0.5
    # A call stalls with this probability for so many seconds.
    stall_probability: float = 0.0
    stall_seconds: float = 15.0
    # Latency of a pod: a persistent factor in 1 +- this, and noise with a memory of a minute and a half.
    pod_offset: float = 0.0
    pod_noise: float = 0.0
    # Both arms follow a wave of half an hour.
    drift: float = 0.0
    # Latency grows by this share with every other run in flight on the pod.
    load_slope: float = 0.0
    # Share of runs that fail on their own: stable, canary.
    error_rates: tuple = (0.005, 0.005)
    # Every run under way on one pod of each arm named fails for so many seconds, once.
    outage_arms: tuple = ()
    outage_seconds: float = 40.0
    # In a minute of a pod, with this probability, a share of runs fails.
    bad_minute_probability: float = 0.0
    bad_minute_errors: float = 0.3
    # [[how, arm, second, pods], ...]; how is drain, scaleDown or kill.
    lost: tuple = ()
    # Of a pod that is drained, the last windows that nobody can read.
    unread_windows: int = 0
    # One pod of an arm is slower by a factor for so many seconds: [arm, factor, from, seconds].
    pressure: tuple = ()
    # Runs of a session, on average; its later runs stay in its arm.
    session_runs: float = 1.0
    think_seconds: float = 20.0
    prompt_bands: int = 1
    # What is wrong with the canary: model time, values above p90 alone, share of runs that never end, time of tools.
    model_ratio: float = 1.0
    tail_ratio: float = 1.0
    hang_share: float = 0.0
    tool_ratio: float = 1.0
    warm_up_seconds: int = 30
    # The shortest soak of each step; 0 for the whole step.
    soak_seconds: int = 0
    # Metric, percentile and limit in microseconds of an objective.
    objective: tuple = ()
    # [[metric, most that it may rise], ...] of what a run costs, as in `costGuards`.
    costs: tuple = ()
    # How many times as many tokens a call of the canary writes. Its time stays the same.
    token_ratio: float = 1.0
    # Sigma of the logarithm of the tokens of a run, and of a session's: people differ in how much they ask for.
    token_sigma: float = 0.0
    session_token_sigma: float = 0.0
    # `taskFailuresMax`, 0 for none; the share of runs of which a client says how they ended, and after how many
    # seconds on average.
    tasks: float = 0.0
    told_share: float = 0.0
    told_after: float = 30.0
    # Share of tasks that fail: stable, canary.
    task_failures: tuple = (0.1, 0.1)
    # Share of the sessions whose user calls every task a failure, of those failures.
    session_failures: float = 0.0


def load_rows():
    """The rows of the manifest, by name."""
    text = (Path(__file__).parent / "rows.json").read_text()
    rows = [Row(**fields) for fields in json.loads(text)["rows"]]
    assert len({row.seed for row in rows}) == len(rows), "each row has a seed of its own"
    return {row.name: row for row in rows}


class Pod:
    """A pod of an arm, from its start to its end."""

    def __init__(self, arm, name, start, rng, row):
        self.arm, self.name, self.start = arm, name, start
        self.accepts_until = math.inf
        self.killed_at = math.inf
        self.ends_at = math.inf
        self.is_ended_by_us = False
        self.offset = 1.0 + row.pod_offset * rng.uniform(-1.0, 1.0)
        self.noise = {}
        self.bad_minutes = {}
        self.outage = (math.inf, math.inf)
        self.pressure = (1.0, math.inf, math.inf)
        self.in_flight = []

    def accepts(self, now):
        return self.start <= now < min(self.accepts_until, self.killed_at)

    def running(self, now):
        """How many runs are in flight."""
        while self.in_flight and self.in_flight[0] <= now:
            heapq.heappop(self.in_flight)
        return len(self.in_flight)

    def noise_at(self, now, rng, sd):
        """The logarithm of its slow noise, window by window."""
        window = int(now // WINDOW)
        if window not in self.noise:
            before = self.noise.get(window - 1, rng.gauss(0.0, sd))
            self.noise[window] = 0.9 * before + rng.gauss(0.0, sd * math.sqrt(1 - 0.81))
        return self.noise[window]

    def factor(self, now, rng, row):
        """How much slower a run is that begins now."""
        ratio, begin, end = self.pressure
        value = self.offset * (ratio if begin <= now < end else 1.0)
        value *= 1.0 + row.load_slope * self.running(now)
        return value * (math.exp(self.noise_at(now, rng, row.pod_noise)) if row.pod_noise else 1.0)

    def error_rate(self, now, rng, row):
        """The share of runs that fail on this pod."""
        base = row.error_rates[self.arm == "canary"]
        if not row.bad_minute_probability:
            return base
        is_bad = self.bad_minutes.setdefault(int(now // 60), rng.random() < row.bad_minute_probability)
        return row.bad_minute_errors if is_bad else base


class Rollout:
    """One rollout: pods, arrivals, runs, and what the pods count of them."""

    def __init__(self, row, number):
        self.row = row
        self.rng = random.Random(f"{row.seed}:{number}")
        self.end = float(sum(seconds for _, seconds in row.steps))
        self.phase = self.rng.random() * math.tau
        self.pods = [self.pod("stable", i, -600.0) for i in range(row.stable_pods)]
        self.pods += [self.pod("canary", i, 0.0) for i in range(row.canary_pods)]
        # What the rows with costs and tasks draw: the others stay as they were.
        self.more = random.Random(f"{row.seed}:{number}:more")
        # Factor of tokens and whether all fails, of the latest session of each arm.
        self.sessions = {}
        # (window, pod) -> tasks of which clients say how they ended, and failures
        self.told = {}
        # (window, pod, stratum) -> started, new sessions, count, errors, buckets by metric, ages by metric, in flight
        self.counted = {}

    def pod(self, arm, number, start):
        return Pod(arm, f"{arm[0]}{number}", start, self.rng, self.row)

    def weight_at(self, now):
        for weight, seconds in self.row.steps:
            if now < seconds:
                return weight
            now -= seconds
        return self.row.steps[-1][0]

    def disturb(self):
        """Draws outages and pressure, and ends pods."""
        row, rng = self.row, self.rng
        for arm in row.outage_arms:
            begin = rng.uniform(60.0, self.end - 60.0)
            rng.choice([pod for pod in self.pods if pod.arm == arm]).outage = (begin, begin + row.outage_seconds)
        if row.pressure:
            arm, factor, begin, seconds = row.pressure
            rng.choice([pod for pod in self.pods if pod.arm == arm]).pressure = (factor, begin, begin + seconds)
        for how, arm, second, count in row.lost:
            mine = [pod for pod in self.pods if pod.arm == arm and pod.accepts(second)]
            for pod in rng.sample(mine, count):
                self.lose(pod, how, second + rng.uniform(0.0, 9.0))

    def lose(self, pod, how, second):
        if how == "kill":
            pod.killed_at = pod.ends_at = second
        else:
            pod.accepts_until = pod.ends_at = second
            pod.is_ended_by_us = True
        if how != "scaleDown":
            same = sum(1 for other in self.pods if other.arm == pod.arm)
            self.pods.append(self.pod(pod.arm, same, second + REPLACED_AFTER))

    def arrivals(self):
        """Runs in order of time: when, of which arm, whether they begin a session."""
        row, rng = self.row, self.rng
        times, now = [], 0.0
        while True:
            now += rng.expovariate(row.runs_per_second / row.session_runs)
            if now >= self.end:
                return sorted(times)
            arm = "canary" if rng.random() * 100.0 < self.weight_at(now) else "stable"
            times.append((now, arm, True))
            at = now
            while rng.random() > 1.0 / row.session_runs:
                at += rng.expovariate(1.0 / row.think_seconds) + row.calls * (row.call_median + row.tool_median)
                if at < self.end:
                    times.append((at, arm, False))

    def call_seconds(self):
        row, rng = self.row, self.rng
        if row.call_tail:
            return row.call_median * min((1.0 - rng.random()) ** (-1.0 / row.call_tail), 60.0)
        return row.call_median * math.exp(row.call_sigma * rng.gauss(0.0, 1.0))

    def model_seconds(self, pod, factor):
        """The time of one model call."""
        row = self.row
        seconds = self.call_seconds() * factor
        if pod.arm == "canary":
            seconds *= row.model_ratio
            p90 = row.call_median * math.exp(1.2815515655446004 * row.call_sigma)
            if row.tail_ratio > 1.0 and seconds > p90:
                seconds *= row.tail_ratio
        if row.stall_probability and self.rng.random() < row.stall_probability:
            seconds += row.stall_seconds
        return seconds

    def run(self, now, arm, is_new):
        """Sends one run to a pod of the arm, and counts it."""
        row, rng = self.row, self.rng
        pods = [pod for pod in self.pods if pod.arm == arm and pod.accepts(now)]
        if not pods:
            return
        pod = rng.choice(pods)
        ahead = pod.running(now)
        if ahead >= MOST_IN_FLIGHT:
            return
        factor = pod.factor(now, rng, row) * (1.0 + row.drift * math.sin(math.tau * now / 1_800 + self.phase))
        # Each segment: from, to, first token (nothing for tools).
        segments, at, calls = [], now, 1
        while calls < row.most_calls and rng.random() > 1.0 / row.calls:
            calls += 1
        for call in range(calls):
            seconds = self.model_seconds(pod, factor)
            segments.append((at, at + seconds, at + PREFILL * seconds))
            at += seconds
            if call + 1 < calls:
                seconds = row.tool_median * math.exp(row.tool_sigma * rng.gauss(0.0, 1.0))
                seconds *= row.tool_ratio if arm == "canary" else 1.0
                segments.append((at, at + seconds, None))
                at += seconds
        tokens = [max(2, int(rng.gauss(60.0, 20.0))) for _ in range(calls)]
        factor_of_tokens, fails = self.session(arm, is_new)
        if factor_of_tokens != 1.0:
            tokens = [max(2, int(count * factor_of_tokens)) for count in tokens]
        is_error = rng.random() < pod.error_rate(now, rng, row)
        end = at
        if end - now > RUN_TIMEOUT:
            end, is_error = now + RUN_TIMEOUT, True
        begin, until = pod.outage
        if now < until and end > begin:
            end, is_error = min(end, max(now, begin) + rng.uniform(0.1, 1.0)), True
        if arm == "canary" and row.hang_share and rng.random() < row.hang_share:
            end = math.inf
            segments = [(now, math.inf, math.inf)]
        heapq.heappush(pod.in_flight, end)
        if pod.is_ended_by_us:
            pod.ends_at = max(pod.ends_at, end)
        stratum = f"miss/p{8 + rng.randrange(row.prompt_bands)}/f{(ahead + 1).bit_length() - 1}"
        self.count(pod, stratum, (now, end), segments, tokens, is_error, is_new)
        if row.told_share and end < min(pod.killed_at, self.end) and not is_error:
            self.tell(pod, end, fails)

    def session(self, arm, is_new):
        """How many times as many tokens a run has, and whether the user of its session calls every task a failure."""
        row, more = self.row, self.more
        if not (row.costs or row.told_share):
            return 1.0, False
        if is_new or arm not in self.sessions:
            rate = row.task_failures[arm == "canary"] * row.session_failures
            factor = math.exp(row.session_token_sigma * more.gauss(0.0, 1.0))
            self.sessions[arm] = (factor, more.random() < rate)
        factor, fails = self.sessions[arm]
        factor *= math.exp(row.token_sigma * more.gauss(0.0, 1.0))
        return factor * (row.token_ratio if arm == "canary" else 1.0), fails

    def tell(self, pod, end, fails):
        """A client says how a task ended, some time after its run; the pod that served it counts that."""
        row, more = self.row, self.more
        is_told, at = more.random() < row.told_share, end + more.expovariate(1.0 / row.told_after)
        rate = row.task_failures[pod.arm == "canary"]
        # Of those whose session does not fail as a whole, so many fail that the share is the row's.
        alone = rate * (1.0 - row.session_failures) / (1.0 - rate * row.session_failures)
        is_failure = fails or more.random() < alone
        if is_told and at < min(pod.killed_at, pod.accepts_until, self.end):
            counts = self.told.setdefault((int(at // WINDOW), pod.name), [0, 0])
            counts[0] += 1
            counts[1] += is_failure

    def cell(self, window, pod, stratum):
        key = (window, pod.name, stratum)
        if key not in self.counted:
            self.counted[key] = [0, 0, 0, 0, [{} for _ in METRICS], [{} for _ in LATENCIES], 0, [0] * len(METRICS)]
        return self.counted[key]

    def count(self, pod, stratum, times, segments, tokens, is_error, is_new):
        """What the pod counts of a run, window by window."""
        start, end = times
        cell = self.cell(int(start // WINDOW), pod, stratum)
        cell[0] += 1
        cell[1] += is_new
        last = min(end, pod.killed_at, self.end)
        window = int(start // WINDOW)
        while (window + 1) * WINDOW <= last:
            self.count_in_flight(self.cell(window, pod, stratum), start, segments, (window + 1) * WINDOW)
            window += 1
        if end >= min(pod.killed_at, self.end):
            return
        cell = self.cell(int(end // WINDOW), pod, stratum)
        cell[2] += 1
        if is_error:
            cell[3] += 1
            return
        model = [to - begin for begin, to, first in segments if first is not None]
        tools = sum(to - begin for begin, to, first in segments if first is None)
        gaps = [seconds * (1 - PREFILL) / count for seconds, count in zip(model, tokens)]
        values = (end - start, sum(model), tools, max(model), max(model) * PREFILL, max(gaps))
        whole = [int(value * 1e6) for value in values] + [len(model), sum(tokens)]
        for buckets, value in zip(cell[4], whole):
            index = math.floor(32.0 * math.log2(max(1, value)))
            buckets[index] = buckets.get(index, 0) + 1

    def count_in_flight(self, cell, start, segments, now):
        """A run that is in flight at a window's end: what is already certain of it."""
        cell[6] += 1
        index = bisect.bisect_right(segments, now, key=lambda segment: segment[0]) - 1
        done = segments[:index]
        begin, _, first = segments[index]
        waited = now - begin
        model = [to - at for at, to, token in done if token is not None]
        tools = sum(to - at for at, to, token in done if token is None)
        in_model = waited if first is not None else 0.0
        in_first = waited if first is not None and now < first else 0.0
        certain = (
            now - start,
            sum(model) + in_model,
            tools + (waited if first is None else 0.0),
            max(model + [in_model]),
            max([seconds * PREFILL for seconds in model] + [in_first]),
        )
        for ages, seconds in zip(cell[5], certain):
            age = int(max(0.0, seconds - 1e-6) // WINDOW)
            if age > 0:
                ages[age] = ages.get(age, 0) + 1
        oldest = cell[7]
        for metric, seconds in enumerate(certain):
            oldest[metric] = max(oldest[metric], int(seconds * 1e6))
        oldest[METRICS.index("RunSuccess")] = oldest[0]

    def lines(self):
        """The evidence, a line per window, pod, metric and stratum."""
        self.disturb()
        for now, arm, is_new in self.arrivals():
            self.run(now, arm, is_new)
        yield json.dumps({"config": self.config()})
        by_window = {}
        for (window, pod, stratum), cell in self.counted.items():
            by_window.setdefault((window, pod), []).append((stratum, cell))
        for window in range(int(self.end // WINDOW)):
            yield from self.window_lines(window, by_window)

    def config(self):
        steps = [
            {"weightPercent": weight, "minSoakSeconds": self.row.soak_seconds or seconds, "maxSoakSeconds": seconds}
            for weight, seconds in self.row.steps
        ]
        fields = ("metric", "percentile", "maxMicroseconds")
        objectives = [dict(zip(fields, self.row.objective))] if self.row.objective else []
        config = {"steps": steps, "warmUpSeconds": self.row.warm_up_seconds, "objectives": objectives}
        if self.row.costs:
            config["costGuards"] = [{"metric": metric, "maxIncrease": most} for metric, most in self.row.costs]
        if self.row.tasks:
            config["taskFailuresMax"] = self.row.tasks
        return config

    def window_lines(self, window, by_window):
        begin, end = window * WINDOW, (window + 1) * WINDOW
        head = f'{{"t":{EPOCH + int(end)},"weightPercent":{self.weight_at(begin)},'
        ended = [pod.name for pod in self.pods if pod.is_ended_by_us and begin <= pod.ends_at < end]
        if ended:
            head += f'"endedPods":{json.dumps(ended)},'
        for pod in self.pods:
            unread = self.row.unread_windows * WINDOW if pod.is_ended_by_us else 0.0
            if pod.start >= end or pod.ends_at - unread < end:
                continue
            of_pod = f'{head}"arm":"{pod.arm}","pod":"{pod.name}",'
            cells = by_window.get((window, pod.name))
            if told := self.told.get((window, pod.name)):
                yield of_pod + TASKS % tuple(told)
            if not cells:
                yield of_pod + '"metric":"Shed","unit":"Run","started":0,"inFlight":0,"count":0,"errors":0}'
                continue
            for stratum, cell in sorted(cells):
                yield from cell_lines(f'{of_pod}"stratum":"{stratum}",', cell)


def cell_lines(head, cell):
    """One stratum of a pod in a window, a line per metric."""
    started, new_sessions, count, errors, buckets, ages, in_flight, oldest = cell
    for index, metric in enumerate(METRICS):
        pairs = json.dumps(sorted(buckets[index].items()), separators=(",", ":"))
        of_age = sorted(ages[index].items()) if index < len(LATENCIES) else sorted(ages[0].items()) * (index == 8)
        yield (
            f'{head}"metric":"{metric}","unit":"Run","started":{started},"newSessions":{new_sessions},'
            f'"inFlight":{in_flight},"oldestInFlightMicroseconds":{oldest[index]},'
            f'"inFlightAges":{json.dumps(of_age, separators=(",", ":"))},'
            f'"count":{count},"errors":{errors},"buckets":{pairs}}}'
        )


def evidence(row, number):
    """The text of one rollout's evidence."""
    return "\n".join(Rollout(row, number).lines()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", required=True, help="name of a row of rows.json")
    parser.add_argument("--rollout", type=int, default=0, help="number of the rollout")
    arguments = parser.parse_args()
    rows = load_rows()
    if arguments.row not in rows:
        parser.error(f"--row: {arguments.row!r} is none of {', '.join(rows)}")
    sys.stdout.write(evidence(rows[arguments.row], arguments.rollout))


if __name__ == "__main__":
    main()
