#!/usr/bin/env python3
"""Pipelines at the speed of hardware that is not here: PipeDream's layer profiles, replayed by the real runtime.

    bench/pipeline/replay.py [--build build/release] [--profiles ../shared/data/pipedream/profiles]
                             [--models vgg16,alexnet,resnet50,gnmt_large] [--devices 4,16] [--steps 6] [--link 10Gbit/s]

For each profile and number of devices, data parallelism, the best pipeline that keeps the math and PipeDream's own
schedule are planned by `yoke plan auto`, priced by the simulator and run by `yoke run --emulate-links` with the model
`replay`: blocks sleep as long as was profiled and messages take as long as the link says, so that many devices run on
few cores. Times are stretched and sizes shrunk, the same for all. Prints one JSON object with predicted and measured
steps and the gain over data parallelism, beside that of the SOSP'19 paper where it has one; progress goes to stderr.

The paper's machines are not these: it has a minibatch per update, and 16 V100 in 4 hosts, whose 4 devices share one
card of 10 Gbit/s, or 4 V100 in one host, with PCIe between them. Here every device has a card of its own, so data
parallelism suffers less than there with 16 devices, and more with 4. gnmt is the paper's GNMT-8, gnmt_large GNMT-16.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LBS = 64  # of the profiles; of no other effect than on the samples a second
# PipeDream against data parallelism by epoch time, Table 1 of Narayanan et al., SOSP 2019, Cluster-A: 4x4, and 1x4.
PAPER = {("vgg16", 16): 5.28, ("alexnet", 16): 4.92, ("resnet50", 16): 1.0, ("gnmt_large", 16): 2.34,
         ("gnmt_large", 4): 1.46, ("gnmt", 4): 1.5}
CONTESTANTS = [("data parallel", ["data"]), ("keeps the math", ["1f1b-flush", "gpipe"]), ("1f1b-stash", ["1f1b-stash"])]


def say(text):
    print(text, file=sys.stderr, flush=True)


def yoke(arguments, options):
    command = [os.path.join(options.build, "bin", "yoke"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def bytes_a_second(rate):
    units = {"Mbit/s": 1e6, "Gbit/s": 1e9}
    return next(float(rate.removesuffix(unit)) * bits / 8 for unit, bits in units.items() if rate.endswith(unit))


def write_cluster(path, devices, bandwidth):
    with open(path, "w") as file:
        file.write("nodes:\n")
        for i in range(devices):
            file.write(f"  - {{name: n{i}, devices: 1, inter_bandwidth: {bandwidth / 1e6:.6f}MB/s}}\n")
    return path


def write_job(path, profile, plan, workers, options):
    with open(path, "w") as file:
        file.write(f"model: {{name: replay, path: {profile}, time_scale: {options.time_scale}, "
                   f"size_scale: {options.size_scale}}}\n"
                   f"data: {{name: synthetic, shape: [1], classes: 2, limit: {LBS * workers * options.steps}}}\n"
                   f"batch: {{global: {LBS * workers}, local: {LBS}}}\n"
                   "optimizer: {name: sgd, lr: 0.01, momentum: 0.9}\n"
                   f"epochs: 1\nparallel: {{plan: {plan}}}\ncheckpoint: {{every_steps: 100000}}\n")
    return path


def measure(name, schedules, model, devices, folder, options):
    """Predicted and measured seconds of a step of as many minibatches as there are devices."""
    profile = os.path.abspath(os.path.join(options.profiles, model + ".txt"))
    plan = os.path.join(folder, "plan.json")
    real = write_cluster(os.path.join(folder, "real.yaml"), devices, bytes_a_second(options.link))
    arguments = ["plan", "auto", "--profile", profile, "--cluster", real, "--gbs", str(LBS * devices), "--lbs", str(LBS),
                 "--out", plan]
    for schedule in schedules:
        arguments += ["--schedule", schedule]
    planned = yoke(arguments, options)
    predicted = planned["step_seconds"] * options.time_scale
    scaled = write_cluster(os.path.join(folder, "scaled.yaml"), devices,
                           bytes_a_second(options.link) * options.size_scale / options.time_scale)
    job = write_job(os.path.join(folder, "job.yaml"), profile, plan, devices, options)
    with tempfile.TemporaryDirectory() as parent:
        run_dir = os.path.join(parent, "run")
        yoke(["run", job, "--cluster", scaled, "--emulate-links", "--run-dir", run_dir], options)
        with open(os.path.join(run_dir, "metrics.jsonl")) as file:
            seconds = [json.loads(line)["step_seconds"] for line in file]
    # The first steps warm up and, where the pipeline runs on, fill it; the last one drains it.
    measured = statistics.median(seconds[2:-1])
    say(f"{model} on {devices}, {name} ({planned['winner']}): predicted {predicted:.3f} s, measured {measured:.3f} s "
        f"({100 * (predicted / measured - 1):+.1f}%)")
    return {"model": model, "devices": devices, "contestant": name, "plan": planned["winner"],
            "predicted_seconds": predicted, "measured_seconds": measured, "error": predicted / measured - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--profiles", default="../shared/data/pipedream/profiles")
    parser.add_argument("--models", default="vgg16,alexnet,resnet50,gnmt_large", type=lambda text: text.split(","))
    parser.add_argument("--devices", default="4,16", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--link", default="10Gbit/s", help="of each device")
    parser.add_argument("--time-scale", type=float, default=4, help="so that what the runtime itself takes counts little")
    parser.add_argument("--size-scale", type=float, default=0.05)
    options = parser.parse_args()
    if not os.path.isdir(options.profiles):
        sys.exit(f"{options.profiles} is not there: skipped; give the folder of PipeDream's profiles with --profiles")
    cases, gains = [], []
    for model in options.models:
        for devices in options.devices:
            with tempfile.TemporaryDirectory() as folder:
                found = [measure(name, schedules, model, devices, folder, options) for name, schedules in CONTESTANTS]
            cases += found
            data = found[0]["measured_seconds"]
            gain = {"model": model, "devices": devices, "paper": PAPER.get((model, devices))}
            gain.update({each["contestant"]: data / each["measured_seconds"] for each in found[1:]})
            gains.append(gain)
            say("  gain over data parallelism: " + ", ".join(
                f"{key} {value:.2f}x" for key, value in gain.items() if isinstance(value, float)))
    errors = sorted(abs(case["error"]) for case in cases)
    print(json.dumps({"benchmark": "pipeline replay", "link": options.link, "cases": cases, "gains": gains,
                      "median_error": statistics.median(errors), "worst_error": errors[-1]}))


if __name__ == "__main__":
    main()
