#!/usr/bin/env python3
"""Writes the problem files and tables of the search gates from the two public data sets named in the READMEs.

usage: make_problems.py DIR, where DIR holds model_analyzer_resnet50/ and llm_pilot/ as the READMEs describe them.
Other models and grids of the same format work as well: see --model-analyzer and --llm-pilot.
"""
import argparse
import csv
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def write(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def resnet50(source, target):
    """A brute grid of Model Analyzer: perf_analyzer runs three windows of >= 1 s or 50 requests, plus 5 s; a load 15 s."""
    rows = list(csv.DictReader(open(source)))
    keep = ["instance_count", "max_batch_size", "concurrency", "perf_latency_avg", "perf_latency_p99",
            "perf_throughput", "gpu_utilization"]
    out = []
    for row in rows:
        if row["variant"] == "default":
            continue  # the same configuration as one instance with batch 128
        kept = {key: row[key] for key in keep}
        used, free = float(row["gpu_used_memory"]), float(row["gpu_free_memory"])
        kept["gpu_memory_percent"] = f"{100 * used / (used + free):.4f}"
        kept["run_seconds"] = f"{3 * max(1.0, 50 / float(row['perf_throughput'])) + 5:.3f}"
        out.append(kept)
    with open(target / "grid.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, out[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(out)
    best = max(out, key=lambda row: float(row["perf_throughput"]))
    base = {"table": "grid.csv", "arm": ["instance_count", "max_batch_size"], "level": "concurrency", "gpus": 1,
            "startSeconds": 15, "runSeconds": "run_seconds",
            "roles": {"instance_count": "instances", "max_batch_size": "maxBatchSize", "concurrency": "concurrency"}}
    throughput = {"column": "perf_throughput", "direction": "max"}

    def p99(limit):
        return {"column": "perf_latency_p99", "max": limit}

    memory = {"column": "gpu_memory_percent", "max": 50}
    problems = {"none": (throughput, [])}
    for limit in (10, 15, 20, 30, 50, 100):
        problems[f"p99-{limit}ms"] = (throughput, [p99(limit)])
    problems["p99-0.9-of-best"] = (throughput, [p99(round(0.9 * float(best["perf_latency_p99"]), 3))])
    problems["least-latency"] = ({"column": "perf_latency_p99", "direction": "min"},
                                 [{"column": "perf_throughput", "min": 0.5 * float(best["perf_throughput"])}])
    problems["memory"] = (throughput, [memory])
    problems["gpu-60"] = (throughput, [{"column": "gpu_utilization", "min": 60}])
    problems["p99-30ms-memory"] = (throughput, [p99(30), memory])
    for name, (objective, constraints) in problems.items():
        write(target / f"{name}.json", {**base, "objective": objective, "constraints": constraints})


def llm_pilot(source, target, streams):
    """Runs of 120 s, a start of 120 s; an infeasible run is cut on its recorded requests, or charged as measured on them."""
    rows = list(csv.DictReader(open(source / "aggregate.csv")))
    price = {}
    for row in csv.DictReader(open(source / "prices.csv")):
        count, gpu = row["GPU"].lower().split(" x ")
        price[gpu, count] = float(row["price"])
    for model in sorted({row["model"] for row in rows}):
        short = model.split("__")[-1]
        out = []
        for row in (r for r in rows if r["model"] == model):
            tokens, gpus = row["out_tok_per_s"], float(row["n_gpus"])
            usd = price[row["gpu_type"], row["n_gpus"]]
            requests = float(row["n_requests"] or 0) + float(row["errors"] or 0)
            out.append({
                "gpu_type": row["gpu_type"], "n_gpus": row["n_gpus"], "users": row["users"],
                "tok_per_s_per_dollar": f"{float(tokens) / usd:.6g}" if tokens else "",
                "tok_per_s_per_gpu": f"{float(tokens) / gpus:.6g}" if tokens else "",
                "ttft_p95_ms": row["ttft_p95_ms"], "tpot_p95_ms": row["tpot_p95_ms"],
                "error_rate": f"{float(row['errors']) / requests:.6g}" if tokens and requests else "",
            })
        with open(target / f"{short}.csv", "w", newline="") as f:
            writer = csv.DictWriter(f, out[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(out)
        abort = {"farFraction": 0.11, "nearFraction": 0.3, "floorSeconds": 13}
        if short in streams:
            abort = {"requests": streams[short], "key": ["gpu_type", "n_gpus", "users"], **abort}
        for unit in ("dollar", "gpu"):
            for ttft, tpot in ((500, 60), (1000, 100), (2000, 150), (3000, 300)):
                write(target / f"{short}-{unit}-{ttft}-{tpot}.json", {
                    "table": f"{short}.csv", "arm": ["gpu_type", "n_gpus"], "level": "users", "gpus": "n_gpus",
                    "startSeconds": 120, "runSeconds": 120,
                    "objective": {"column": f"tok_per_s_per_{unit}", "direction": "max"},
                    "constraints": [{"column": "ttft_p95_ms", "max": ttft}, {"column": "tpot_p95_ms", "max": tpot},
                                    {"column": "error_rate", "max": 0.01}],
                    "roles": {"gpu_type": "gpuType", "n_gpus": "tensorParallel", "users": "concurrency"},
                    "abort": abort})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-analyzer", type=pathlib.Path, help="a brute grid of Model Analyzer as CSV")
    parser.add_argument("--llm-pilot", type=pathlib.Path, help="a directory with aggregate.csv and prices.csv")
    parser.add_argument("--streams", default="llama-7b=llama-7b-requests.csv.gz", help="MODEL=FILE,... relative to the target")
    parser.add_argument("--target", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    if args.model_analyzer:
        (args.target / "resnet50").mkdir(parents=True, exist_ok=True)
        resnet50(args.model_analyzer, args.target / "resnet50")
    if args.llm_pilot:
        (args.target / "llm_pilot").mkdir(parents=True, exist_ok=True)
        llm_pilot(args.llm_pilot, args.target / "llm_pilot", dict(s.split("=") for s in args.streams.split(",") if s))


main()
