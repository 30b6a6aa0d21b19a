#!/usr/bin/env python3
"""How well profiles foretell steps: profiles models on this machine, prices plans, runs them, compares.

    bench/prediction/prediction.py [--build build/release] [--models small_cnn,resnet18,vgg11] [--devices 1,2] [--runs 3]

Two devices are unlike: one waits as long again as it computes (`speed: 0.5`). Every plan is run by `yoke run` with a plan
file, all plans of a model in turns; what counts is the median of its runs, for a virtual machine may be slow for a
minute, and its cores far from each other, which is measured before every run (see docs/benchmarks.md). The prediction
is that of the cost model `measured` (and, beside it, `iidp`). Prints one JSON object: every case, and the median and
worst error over all of them. Progress goes to stderr.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# model: shape of a sample, classes, local batch sizes
CASES = {
    "small_cnn": ([1, 28, 28], 10, [32, 64, 128]),
    "resnet18": ([3, 32, 32], 10, [8, 16, 32]),
    "vgg11": ([3, 32, 32], 10, [4, 8, 16]),
}
LEAST_STEPS = 12
RUN_SECONDS = 4  # so that a moment of noise does not decide over short steps
BANDWIDTH = 1e9  # of the cluster file; it cancels out: the all-reduce profile is relative to it
CLUSTERS = {
    1: "nodes:\n  - {name: localhost}\n",
    2: f"nodes:\n  - {{name: fast, inter_bandwidth: {BANDWIDTH:.0f}}}\n"
       f"  - {{name: slow, speed: 0.5, inter_bandwidth: {BANDWIDTH:.0f}}}\n",
}
# (vsw, ga) of each device
LANES = {
    1: [[(1, 0)], [(1, 3)], [(2, 0)], [(2, 1)]],
    2: [[(1, 0), (1, 0)], [(1, 1), (1, 0)], [(1, 3), (1, 1)], [(2, 1), (2, 0)]],
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def settings(model):
    shape, classes, _ = CASES[model]
    return ["--set", f"data.shape={json.dumps(shape)}", "--set", f"data.classes={classes}"]


def core_distance(build):
    """Nanoseconds for a word from one core to another and back."""
    return json.loads(run([os.path.join(build, "bin", "bench_core_distance")]))["median_ns"]


def profile(yoke, model, cluster, out):
    sizes = ",".join(map(str, CASES[model][2]))
    began = time.monotonic()
    run([yoke, "profile", "all", "--model", model, *settings(model), "--lbs", sizes, "--most-vsw", "2", "--cluster",
         cluster, "--out", out, "--json"])
    return time.monotonic() - began


def price(build, cluster, profiles, cost, lbs, lanes, path):
    text = run([os.path.join(build, "bin", "bench_price"), cluster, profiles, cost, str(lbs), lanes])
    with open(path, "w") as file:
        file.write(text)
    return json.loads(text)


def run_plan(yoke, model, cluster, plan, predicted, folder):
    shape, classes, _ = CASES[model]
    steps = max(LEAST_STEPS, min(400, int(RUN_SECONDS / predicted)))
    job = os.path.join(folder, "job.yaml")
    with open(plan) as file:
        gbs = json.load(file)["gbs"]
    with open(job, "w") as file:
        file.write(f"model: {{name: {model}}}\n"
                   f"data: {{name: synthetic, shape: {json.dumps(shape)}, classes: {classes}, limit: {gbs * steps}}}\n"
                   f"batch: {{global: {gbs}}}\noptimizer: {{name: sgd, lr: 0.0001}}\n"
                   f"parallel: {{plan: {plan}}}\nepochs: 1\ncheckpoint: {{every_steps: 1000000, keep: 1}}\n")
    out = os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    run([yoke, "--log-level", "error", "run", job, "--cluster", cluster, "--run-dir", out, "--json"])
    with open(os.path.join(out, "result.json")) as file:
        return json.load(file)["measured_step_seconds"]


def cases_of(model, devices):
    sizes = CASES[model][2]
    for index, lanes in enumerate(LANES[devices]):
        for lbs in (sizes if index == 0 else [sizes[index % len(sizes)]]):
            yield lbs, lanes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--models", default="small_cnn,resnet18,vgg11")
    parser.add_argument("--devices", default="1,2")
    parser.add_argument("--runs", type=int, default=3, help="of every plan")
    options = parser.parse_args()
    yoke = os.path.abspath(os.path.join(options.build, "bin", "yoke"))
    results = []
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="yoke-prediction-") as work:
        for devices in map(int, options.devices.split(",")):
            cluster = os.path.join(work, f"cluster{devices}.yaml")
            with open(cluster, "w") as file:
                file.write(CLUSTERS[devices])
            names = ["localhost"] if devices == 1 else ["fast", "slow"]
            for model in options.models.split(","):
                out = os.path.join(work, f"{model}-{devices}")
                say(f"profile {model} for {devices}")
                seconds[f"{model}, {devices}"] = profile(yoke, model, cluster, out)
                cases = []
                for lbs, lanes in cases_of(model, devices):
                    text = ",".join(f"{name}:{vsw}:{ga}" for name, (vsw, ga) in zip(names, lanes))
                    plan = os.path.join(work, f"plan{len(cases)}.json")
                    iidp = price(options.build, cluster, out, "iidp", lbs, text, plan)["step_seconds"]
                    measured = price(options.build, cluster, out, "measured", lbs, text, plan)["step_seconds"]
                    cases.append({"model": model, "devices": devices, "lbs": lbs, "lanes": text, "plan": plan,
                                  "predicted": measured, "predicted_iidp": iidp, "core_distance_ns": [], "runs": []})
                for _ in range(options.runs):
                    for case in cases:
                        case["core_distance_ns"].append(core_distance(options.build))
                        case["runs"].append(run_plan(yoke, model, cluster, case["plan"], case["predicted"], work))
                for case in cases:
                    del case["plan"]
                    case["measured"] = statistics.median(case["runs"])
                    case["error"] = case["predicted"] / case["measured"] - 1
                    case["error_iidp"] = case["predicted_iidp"] / case["measured"] - 1
                    runs = ", ".join(f"{seconds * 1e3:.1f} ({distance} ns)" for seconds, distance in
                                     zip(case["runs"], case["core_distance_ns"]))
                    say(f"{model} {case['lbs']} {case['lanes']}: {case['predicted'] * 1e3:.1f} ms, "
                        f"iidp {case['predicted_iidp'] * 1e3:.1f} ms, ran {runs} ms ({100 * case['error']:+.1f}%)")
                results += cases
    summary = {}
    for key in ("error", "error_iidp"):
        errors = [abs(result[key]) for result in results]
        summary[key] = {"median": statistics.median(errors), "worst": max(errors)}
    print(json.dumps({"bench": "prediction", "cases": results, "profile_seconds": seconds,
                      "cost_measured": summary["error"], "cost_iidp": summary["error_iidp"]}))


if __name__ == "__main__":
    main()
