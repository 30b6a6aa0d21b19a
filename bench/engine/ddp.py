#!/usr/bin/env python3
"""Yoke against PyTorch DDP: the same libtorch kernels, model, batch and threads, both sides in one run, alternating.

    bench/engine/ddp.py [--build build/release] [--rounds 3] [--models small_cnn,resnet18,...] [--ranks 1,2]

PyTorch gets the BLAS that Yoke is linked with, and so the same kernels; --own-blas leaves it the one that the system
would give it. Prints one JSON object: for each model and number of ranks the median step of both sides, the spread
(quartiles) and the ratio (above 1: Yoke is faster).
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's torch
# model: (shape, classes, batch, steps of a round)
CASES = {
    "small_cnn": ("1,28,28", 10, 32, 150),
    "resnet18": ("3,64,64", 10, 8, 25),
    "resnet50": ("3,224,224", 1000, 4, 6),
    "vgg16": ("3,224,224", 1000, 4, 5),
}
WARM_UP = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def arguments(model, ranks, threads):
    shape, classes, batch, steps = CASES[model]
    return [f"model={model}", f"shape={shape}", f"classes={classes}", f"batch={batch}", f"steps={steps + WARM_UP}",
            f"size={ranks}", f"threads={threads}"]


def cores_of(rank, ranks):
    """Both sides are pinned alike: each rank has its share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // ranks)
    return cores[rank * share:(rank + 1) * share] or cores[:1]


def start(command, rank, ranks, threads, **environment):
    cores = cores_of(rank, ranks)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, OMP_NUM_THREADS=str(threads), **environment),
                            preexec_fn=lambda: os.sched_setaffinity(0, cores))


def blas_of(build):
    """The folder of the BLAS that Yoke's programs load."""
    printed = subprocess.run(["ldd", os.path.join(build, "bin", "bench_ddp_rank")], capture_output=True, text=True, check=True)
    return next(os.path.dirname(line.split()[2]) for line in printed.stdout.splitlines() if "libblas.so" in line)


def seconds_of(processes):
    try:
        lines = [process.communicate(timeout=900)[0].strip().splitlines()[-1] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"a rank ended with {[process.returncode for process in processes]}")
    return json.loads(lines[0])["seconds"][WARM_UP:]


def run_yoke(build, model, ranks, threads, extra=()):
    program = os.path.join(build, "bin", "bench_ddp_rank")
    command = [program, *arguments(model, ranks, threads), *extra]
    first = start([*command, "rank=0"], 0, ranks, threads)
    address = first.stdout.readline().strip()
    others = [start([*command, f"rank={rank}", f"store={address}"], rank, ranks, threads) for rank in range(1, ranks)]
    return seconds_of([first, *others])


def run_torch(model, ranks, threads, blas):
    port = free_port()
    command = [PYTHON, os.path.join(HERE, "ddp_peer.py"), *arguments(model, ranks, threads), f"port={port}"]
    environment = {"LD_LIBRARY_PATH": blas} if blas else {}
    return seconds_of([start([*command, f"rank={rank}"], rank, ranks, threads, **environment) for rank in range(ranks)])


def summary(seconds):
    quartiles = statistics.quantiles(seconds, n=4)
    return {"median_ms": 1e3 * statistics.median(seconds), "quartiles_ms": [1e3 * quartiles[0], 1e3 * quartiles[2]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--reproducible", action="store_true", help="also Yoke with reproducible: true")
    parser.add_argument("--own-blas", action="store_true", help="PyTorch with the BLAS that the system gives it")
    options = parser.parse_args()
    blas = None if options.own_blas else blas_of(options.build)
    results = []
    for model in options.models.split(","):
        for ranks in map(int, options.ranks.split(",")):
            threads = max(1, len(os.sched_getaffinity(0)) // ranks)
            sides = {"yoke": [], "torch": [], "reproducible": []}
            for _ in range(options.rounds):
                sides["yoke"] += run_yoke(options.build, model, ranks, threads)
                sides["torch"] += run_torch(model, ranks, threads, blas)
                if options.reproducible:
                    sides["reproducible"] += run_yoke(options.build, model, ranks, threads, ["reproducible=1"])
            result = {"model": model, "ranks": ranks, "threads": threads, "batch": CASES[model][2],
                      "yoke": summary(sides["yoke"]), "torch_ddp": summary(sides["torch"])}
            result["ratio"] = result["torch_ddp"]["median_ms"] / result["yoke"]["median_ms"]
            if options.reproducible:
                result["yoke_reproducible"] = summary(sides["reproducible"])
            results.append(result)
            print(f"{model} x{ranks}: yoke {result['yoke']['median_ms']:.1f} ms, torch {result['torch_ddp']['median_ms']:.1f} ms, "
                  f"ratio {result['ratio']:.2f}", file=sys.stderr)
    print(json.dumps({"bench": "ddp", "blas_of_both": blas, "results": results}))


if __name__ == "__main__":
    main()
