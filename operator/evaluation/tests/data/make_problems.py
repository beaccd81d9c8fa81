#!/usr/bin/env python3
"""Writes the problem files and tables of the search gates from the two public data sets named in the READMEs.

usage: make_problems.py --model-analyzer GRID.csv --llm-pilot DIR, with the files that the READMEs describe.
Other models and grids of the same format work as well: see --model-analyzer and --llm-pilot. For cross-checks that are
not committed: --argonne and --inferencex take two more public sets, --perturb N writes N altered copies of each problem
in the target: tables with every arm's speed off by 10 %, every cell by 2 %, an arm in ten missing, limits off by 20 %.
"""
import argparse
import csv
import json
import math
import pathlib
import random

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


def device_limits(checkpoint, target):
    """Model Analyzer's checkpoint of two models: limits on what it samples of the GPU, as tight as quantiles of all cells."""
    results = json.loads(checkpoint.read_text())["ResultManager.results"]["_results"]
    for model, variants in sorted(results.items()):
        name = model.removesuffix("_libtorch")
        out = []
        for variant, (configs, measurements) in sorted(variants.items()):
            config = configs["_model_run_configs"][0]["_model_config"]
            if variant.endswith("default"):
                continue  # the same configuration as one instance with batch 128
            for measurement in measurements.values():
                (run,) = measurement["_model_config_measurements"]
                values = {key: entry["_value"] for key, entry in run["_non_gpu_data"] + measurement["_avg_gpu_data"]}
                used, free = values["gpu_used_memory"], values["gpu_free_memory"]
                out.append({
                    "instance_count": config["instanceGroup"][0]["count"], "max_batch_size": config["maxBatchSize"],
                    "concurrency": run["_model_specific_pa_params"]["concurrency-range"],
                    "perf_latency_p99": values["perf_latency_p99"], "perf_throughput": values["perf_throughput"],
                    "gpu_utilization": f"{values['gpu_utilization']:.4f}",
                    "gpu_power_usage": f"{values['gpu_power_usage']:.3f}",
                    "gpu_memory_percent": f"{100 * used / (used + free):.4f}",
                    "run_seconds": f"{3 * max(1.0, 50 / values['perf_throughput']) + 5:.3f}"})
        out.sort(key=lambda row: (row["instance_count"], row["max_batch_size"], row["concurrency"]))
        with open(target / f"{name}.csv", "w", newline="") as f:
            writer = csv.DictWriter(f, out[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(out)
        base = {"table": f"{name}.csv", "arm": ["instance_count", "max_batch_size"], "level": "concurrency", "gpus": 1,
                "startSeconds": 15, "runSeconds": "run_seconds",
                "roles": {"instance_count": "instances", "max_batch_size": "maxBatchSize", "concurrency": "concurrency"},
                "objective": {"column": "perf_throughput", "direction": "max"}}

        def quantile(column, percent):
            values = sorted(float(row[column]) for row in out)
            return round(values[len(values) * percent // 100], 3)

        p99 = {"column": "perf_latency_p99", "max": 50}
        for percent in (25, 50, 70, 80, 85, 90, 95):
            utilization = {"column": "gpu_utilization", "min": quantile("gpu_utilization", percent)}
            write(target / f"{name}-utilization-{percent}.json", {**base, "constraints": [utilization]})
        for percent in (25, 50):
            utilization = {"column": "gpu_utilization", "min": quantile("gpu_utilization", percent)}
            write(target / f"{name}-utilization-{percent}-p99-50ms.json", {**base, "constraints": [utilization, p99]})
        for percent in (5, 10, 25, 50, 75):
            power = {"column": "gpu_power_usage", "max": quantile("gpu_power_usage", percent)}
            write(target / f"{name}-power-{percent}.json", {**base, "constraints": [power]})


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


def argonne(source, target, lengths):
    """Offline batches: the batch is the level; latency limits at three quantiles; ten batches a run, a start 180 s."""
    groups = {}
    for row in csv.DictReader(open(source)):
        if row["Latency"] and row["Throughput"] and float(row["Throughput"]) > 0:
            groups.setdefault((row["Model"].split("/")[-1], row["Input Output Length"]), []).append(row)
    for (model, length), rows in sorted(groups.items()):
        cells = {}
        for row in rows:
            key = row["Hardware"], row["Num of Hardware"], row["Framework"], row["Batch Size"]
            cells.setdefault(key, (float(row["Latency"]), float(row["Throughput"])))
        if len({key[:3] for key in cells}) < 12 or length not in lengths:
            continue
        name = f"argonne-{model.lower()}-{length}"
        with open(target / f"{name}.csv", "w", newline="") as f:
            writer = csv.writer(f, lineterminator="\n")
            writer.writerow(["hardware", "devices", "framework", "batch", "latency_s", "tok_per_s_per_gpu", "run_seconds"])
            for (hardware, devices, framework, batch), (latency, tokens) in sorted(cells.items()):
                writer.writerow([hardware, devices, framework, batch, latency, tokens / float(devices), max(10, 10 * latency)])
        latencies = sorted(latency for latency, _ in cells.values())
        for quantile in (25, 50, 75):
            limit = latencies[len(latencies) * quantile // 100]
            write(target / f"{name}-gpu-{quantile}.json", {
                "table": f"{name}.csv", "arm": ["hardware", "devices", "framework"], "level": "batch", "gpus": "devices",
                "startSeconds": 180, "runSeconds": "run_seconds",
                "objective": {"column": "tok_per_s_per_gpu", "direction": "max"},
                "constraints": [{"column": "latency_s", "max": limit}],
                "roles": {"hardware": "gpuType", "devices": "tensorParallel", "batch": "concurrency"},
                "abort": {"farFraction": 0.11, "nearFraction": 0.3, "floorSeconds": 10}})


def inferencex(source, target):
    """Eight-GPU servers, measured durations; p99 TPOT limits at three quantiles of each prompt length."""
    rows = list(csv.DictReader(open(source)))
    for isl in sorted({row["isl"] for row in rows}, key=int):
        own = [row for row in rows if row["isl"] == isl]
        if len(own) < 16:
            continue
        name = f"inferencex-{isl}"
        with open(target / f"{name}.csv", "w", newline="") as f:
            writer = csv.writer(f, lineterminator="\n")
            writer.writerow(["series", "conc", "tok_per_s_per_gpu", "ttft_p99_ms", "tpot_p99_ms", "run_seconds"])
            for row in own:
                writer.writerow([row["series"], row["conc"], float(row["output_throughput"]) / 8,
                                 1000 * float(row["p99_ttft"]), 1000 * float(row["p99_tpot"]), row["duration"]])
        times = sorted(1000 * float(row["p99_tpot"]) for row in own)
        for quantile in (25, 50, 75):
            write(target / f"{name}-gpu-{quantile}.json", {
                "table": f"{name}.csv", "arm": ["series"], "level": "conc", "gpus": 8,
                "startSeconds": 180, "runSeconds": "run_seconds",
                "objective": {"column": "tok_per_s_per_gpu", "direction": "max"},
                "constraints": [{"column": "tpot_p99_ms", "max": times[len(times) * quantile // 100]}],
                "roles": {"conc": "concurrency"},
                "abort": {"farFraction": 0.11, "nearFraction": 0.3, "floorSeconds": 13}})


def perturb(folder, copies):
    """Altered copies of every problem of a folder, so that no table can be learned by heart."""
    for path in sorted(folder.glob("*.json")):
        problem = json.loads(path.read_text())
        rows = list(csv.DictReader(open(folder / problem["table"])))
        columns = [problem["objective"]["column"]] + [c["column"] for c in problem["constraints"]]
        abort = {"farFraction": 0.11, "nearFraction": 0.3, "floorSeconds": 13} if "abort" in problem else None
        for copy in range(copies):
            rng = random.Random(f"{copy} {problem['table']}")
            arms = sorted({tuple(row[c] for c in problem["arm"]) for row in rows})
            speed = {arm: math.exp(rng.gauss(0, 0.1)) for arm in arms if rng.random() < 0.9}
            out = []
            for row in rows:
                arm = tuple(row[c] for c in problem["arm"])
                if arm not in speed:
                    continue
                row, faster = dict(row), speed[arm] * math.exp(rng.gauss(0, 0.02))
                for column in row:
                    try:
                        value = float(row[column])
                    except ValueError:
                        continue
                    if any(word in column for word in ("tok_per", "throughput", "thr")):
                        row[column] = f"{value * faster:.6g}"
                    elif any(word in column for word in ("ttft", "tpot", "latency")):
                        row[column] = f"{value / faster * math.exp(rng.gauss(0, 0.01)):.6g}"
                    elif "util" in column:
                        row[column] = f"{min(100, value * math.exp(rng.gauss(0, 0.05))):.6g}"
                out.append(row)
            table = problem["table"].removesuffix(".csv") + f"-p{copy}.csv"
            with open(folder / table, "w", newline="") as f:
                writer = csv.DictWriter(f, out[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows(out)
            shift = random.Random(f"{copy} {path.stem}")
            limits = []
            for constraint in problem["constraints"]:
                bound = "max" if "max" in constraint else "min"
                factor = 1 if "error" in constraint["column"] else math.exp(shift.gauss(0, 0.2 if bound == "max" else 0.05))
                limits.append({**constraint, bound: constraint[bound] * factor})
            altered = {**problem, "table": table, "constraints": limits}
            if abort:
                altered["abort"] = abort
            write(folder / f"{path.stem}-p{copy}.json", altered)
        path.unlink()


def ladder(source, target):
    """Rows of vLLM that e2e/gpu/ladder.py measured on one GPU; its file has no starts, which are taken as a minute."""
    out = []
    for row in json.load(open(source)):
        if "engine" not in row:
            continue
        precision, cache, tokens = row["engine"].split("-")
        seconds = sorted(row["seconds"])
        out.append({
            "gpu": row["device"].replace(" ", "-"), "precision": precision.upper(), "kv_cache": cache[2:],
            "iteration_tokens": tokens[1:], "agents": row["agents"], "throughput": f"{row['runs'] / row['took']:.4f}",
            "latency_p95_s": f"{seconds[math.ceil(len(seconds) * 0.95) - 1]:.4f}", "run_seconds": f"{row['took']:.3f}"})
    with open(target / "ladder.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, out[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(out)
    for limit in (2.5, 4, 5, 5.5, 6, 8):
        write(target / f"llama-8b-p95-{limit:g}s.json", {
            "table": "ladder.csv", "arm": ["gpu", "precision", "kv_cache", "iteration_tokens"], "level": "agents", "gpus": 1,
            "startSeconds": 60, "runSeconds": "run_seconds",
            "objective": {"column": "throughput", "direction": "max"},
            "constraints": [{"column": "latency_p95_s", "max": limit}],
            "roles": {"gpu": "gpuType", "precision": "precision", "agents": "concurrency"},
            "model": {"parameters": 8030261248, "active": 8030261248}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-analyzer", type=pathlib.Path, help="a brute grid of Model Analyzer as CSV")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="Model Analyzer's experiments/data/*/0.ckpt, for device limits")
    parser.add_argument("--llm-pilot", type=pathlib.Path, help="a directory with aggregate.csv and prices.csv")
    parser.add_argument("--argonne", type=pathlib.Path, help="throughput_latency_all.csv of LLM-Inference-Bench")
    parser.add_argument("--lengths", default="512,1024", help="of LLM-Inference-Bench's loads, those to keep")
    parser.add_argument("--inferencex", type=pathlib.Path, help="points.csv of the decode SLO experiment")
    parser.add_argument("--ladder", type=pathlib.Path, help="ladder.json of e2e/gpu/ladder.py")
    parser.add_argument("--perturb", type=int, default=0, help="replace the problems in the target by N altered copies each")
    parser.add_argument("--streams", default="llama-7b=llama-7b-requests.csv.gz", help="MODEL=FILE,... relative to the target")
    parser.add_argument("--target", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    if args.model_analyzer:
        (args.target / "resnet50").mkdir(parents=True, exist_ok=True)
        resnet50(args.model_analyzer, args.target / "resnet50")
    if args.checkpoint:
        (args.target / "device").mkdir(parents=True, exist_ok=True)
        device_limits(args.checkpoint, args.target / "device")
    if args.llm_pilot:
        (args.target / "llm_pilot").mkdir(parents=True, exist_ok=True)
        llm_pilot(args.llm_pilot, args.target / "llm_pilot", dict(s.split("=") for s in args.streams.split(",") if s))
    if args.argonne or args.inferencex:
        (args.target / "llm_pilot").mkdir(parents=True, exist_ok=True)
    if args.argonne:
        argonne(args.argonne, args.target / "llm_pilot", args.lengths.split(","))
    if args.inferencex:
        inferencex(args.inferencex, args.target / "llm_pilot")
    if args.ladder:
        (args.target / "ladder_h200").mkdir(parents=True, exist_ok=True)
        ladder(args.ladder, args.target / "ladder_h200")
    if args.perturb and args.target == HERE:
        parser.error("--perturb replaces the problems of its target; name one with --target")
    if args.perturb:
        for folder in (args.target / "resnet50", args.target / "llm_pilot"):
            perturb(folder, args.perturb)


main()
