#!/usr/bin/env python3
"""Pipelines at the speed of hardware that is not here: PipeDream's layer profiles, replayed by the real runtime.

    bench/pipeline/replay.py [--build build/release] [--profiles ../shared/data/pipedream/profiles]
                             [--models vgg16,alexnet,resnet50,gnmt] [--devices 4] [--steps 6] [--time-scale 1]

For each profile and schedule: the best pipeline, simulated and then run by
`yoke run` with model `replay` (blocks sleep as long as was profiled, so that many devices run on few cores). Links are
as fast as this machine's memory on both sides: it is the schedule that is compared, not the network. Prints one JSON
object with predicted and measured steps; progress goes to stderr.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

LBS = 64      # of the profiles; of no other effect than on the samples a second
WORKERS = 8   # of a step
SIZE_SCALE = 1e-4
LINK = "10000Gbit/s"


def say(text):
    print(text, file=sys.stderr, flush=True)


def yoke(arguments, options):
    command = [os.path.join(options.build, "bin", "yoke"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def cluster(folder, devices, link):
    path = os.path.join(folder, f"cluster-{link.replace('/', '')}.yaml")
    with open(path, "w") as file:
        file.write(f"nodes:\n  - {{name: here, address: 127.0.0.1, devices: {devices}, intra_bandwidth: {link}, "
                   f"inter_bandwidth: {link}}}\n")
    return path


def compare(name, plan, profile, fast, folder, options):
    predicted = yoke(["simulate", plan, "--profile", profile, "--cluster", fast], options)["step_seconds"]
    predicted *= options.time_scale
    job = os.path.join(folder, f"{name}.yaml")
    with open(job, "w") as file:
        file.write(f"model: {{name: replay, path: {profile}, time_scale: {options.time_scale}, size_scale: {SIZE_SCALE}}}\n"
                   f"data: {{name: synthetic, shape: [1], classes: 2, limit: {LBS * WORKERS * options.steps}}}\n"
                   f"batch: {{global: {LBS * WORKERS}, local: {LBS}}}\n"
                   f"optimizer: {{name: sgd, lr: 0.01, momentum: 0.9}}\n"
                   f"epochs: 1\nparallel: {{plan: {plan}}}\n")
    result = yoke(["run", job, "--cluster", fast, "--run-dir", os.path.join(folder, f"run-{name}")], options)
    measured = result["measured_step_seconds"]
    say(f"{name}: predicted {predicted:.3f} s, measured {measured:.3f} s ({100 * (predicted / measured - 1):+.1f}%)")
    return {"plan": name, "predicted_seconds": predicted, "measured_seconds": measured,
            "error": predicted / measured - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--profiles", default="../shared/data/pipedream/profiles")
    parser.add_argument("--models", default="vgg16,alexnet,resnet50,gnmt")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--time-scale", type=float, default=1)
    # A slow link makes the planner cut where little crosses; it plays no part in what is compared.
    parser.add_argument("--planned-link", default="1Gbit/s")
    options = parser.parse_args()
    if not os.path.isdir(options.profiles):
        sys.exit(f"{options.profiles} is not there: skipped; give the folder of PipeDream's profiles with --profiles")
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        slow = cluster(folder, options.devices, options.planned_link)
        fast = cluster(folder, options.devices, LINK)
        for model in options.models.split(","):
            profile = os.path.abspath(os.path.join(options.profiles, model + ".txt"))
            for kind in ["1f1b-flush", "gpipe"]:
                plan = os.path.join(folder, f"{model}-{kind}.json")
                yoke(["plan", "auto", "--profile", profile, "--cluster", slow, "--gbs", str(LBS * WORKERS), "--lbs",
                      str(LBS), "--schedule", kind, "--out", plan], options)
                cases.append({"model": model, "devices": options.devices,
                              **compare(f"{model}-{kind}", plan, profile, fast, folder, options)})
    errors = sorted(abs(case["error"]) for case in cases)
    print(json.dumps({"benchmark": "pipeline replay", "cases": cases, "median_error": errors[len(errors) // 2],
                      "worst_error": errors[-1]}))


if __name__ == "__main__":
    main()
