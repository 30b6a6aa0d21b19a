#!/usr/bin/env python3
"""VGG-16 on small images over slow networks: PyTorch DDP, Yoke's data parallelism and the plan that Yoke chooses.

    bench/pipeline/network.py [--build build/release] [--hosts 2,4] [--rates 100Mbit/s,1Gbit/s,unlimited]
                              [--gbs 64] [--lbs 4,8,16] [--side 32] [--steps 4] [--core-share 0.5]

A host is a network namespace of its own with a link of that rate in both directions (tc tbf) to a switch, and a share
of a core (cgroup), so that four hosts on two cores do not take each other's time. The layers are profiled with that
share, the link by `yoke profile comm`, the plan is what `yoke plan auto` finds for both. Every contestant does the same
global batch. Without the rights for that (root, ip, tc, cgroup v1) it says so and compares Yoke's own plans behind links
that Yoke emulates. Prints one JSON object; progress goes to stderr.
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = "vgg16"
CLASSES = 1000
QUEUE = "50ms"  # that a link holds
PORT = 29533
SUBNET = "10.213.77"
CGROUP = "/sys/fs/cgroup/cpu"
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engine", "ddp_peer.py")


def say(text):
    print(text, file=sys.stderr, flush=True)


def must(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Hosts:
    """Namespaces around a switch, each with a share of a core; all of it is gone at the end."""

    def __init__(self, count, rate, core_share):
        self.name = f"yb{os.getpid()}"
        self.count, self.rate, self.core_share = count, rate, core_share
        self.groups = []

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        switch = f"{self.name}s"
        must(["ip", "netns", "add", switch])
        must(["ip", "-n", switch, "link", "add", "bridge", "type", "bridge"])
        must(["ip", "-n", switch, "link", "set", "bridge", "up"])
        for i in range(self.count):
            host = self.namespace(i)
            must(["ip", "netns", "add", host])
            must(["ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", switch])
            must(["ip", "-n", switch, "link", "set", f"port{i}", "master", "bridge", "up"])
            must(["ip", "-n", host, "addr", "add", f"{self.address(i)}/24", "dev", "eth0"])
            # bbr, where it is the default, does not fill a link that is busy in both directions.
            must(["ip", "netns", "exec", host, "sysctl", "-q", "net.ipv4.tcp_congestion_control=reno"])
            for device in ["eth0", "lo"]:
                must(["ip", "-n", host, "link", "set", device, "up"])
            if self.rate != "unlimited":
                for namespace, device in [(host, "eth0"), (switch, f"port{i}")]:
                    tc = ["ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", device]
                    must([*tc, "root", "tbf", "rate", self.rate.replace("/s", "").lower(), "burst",
                          burst_of(self.rate), "latency", QUEUE])
            self.groups.append(limit_cpu(f"{self.name}-{i}", self.core_share))

    def __exit__(self, *_):
        for group in self.groups:
            unlimit_cpu(group)
        for namespace in [f"{self.name}s"] + [self.namespace(i) for i in range(self.count)]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=60)

    def namespace(self, i):
        return f"{self.name}h{i}"

    def address(self, i):
        return f"{SUBNET}.{i + 1}"

    def run(self, commands, environments, timeout, on=None):
        """One command on each host, or on each of `on`; what the first one printed."""
        processes = []
        try:
            for i, command, environment in zip(on or range(self.count), commands, environments):
                # The namespace has a /sys of its own: the group is joined before. A host has one core: two threads on a
                # share of one would wait for each other.
                inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.groups[i], "taskset",
                          "-c", str(i % os.cpu_count()), "ip", "netns", "exec", self.namespace(i), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"host{i}"]
                processes.append(subprocess.Popen(inside + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                  env={**os.environ, **environment}))
            end = time.monotonic() + timeout
            printed = [process.communicate(timeout=max(1, end - time.monotonic())) for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        for i, process in enumerate(processes):
            if process.returncode != 0:
                raise RuntimeError(f"host {i}: {' '.join(commands[i])} ended with {process.returncode}: "
                                   f"{printed[i][0][-1000:]}{printed[i][1][-3000:]}")
        return printed[0][0]


class EmulatedHosts:
    """Ranks of one machine whose messages take their time: for those who may not make networks."""
    groups = []

    def __init__(self, count, rate):
        self.count, self.rate = count, rate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, i):
        return "127.0.0.1"


def bytes_a_second(rate):
    units = {"Mbit/s": 1e6, "Gbit/s": 1e9}
    return next(float(rate.removesuffix(unit)) * bits / 8 for unit, bits in units.items() if rate.endswith(unit))


def burst_of(rate):
    """A millisecond's worth: what a link lets through at once would make short messages too fast."""
    return f"{max(16, int(bytes_a_second(rate) / 1e6))}kb"


def limit_cpu(name, share):
    group = os.path.join(CGROUP, name)
    os.mkdir(group)
    period = 20000  # short against a pass, so that a host is slow and not stuttering
    for key, value in [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", int(period * share))]:
        with open(os.path.join(group, key), "w") as file:
            file.write(str(value))
    return group


def unlimit_cpu(group):
    for _ in range(50):  # processes may still be on their way out
        try:
            return os.rmdir(group)
        except OSError:
            time.sleep(0.1)
    say(f"{group} could not be removed")


def yoke(arguments, options, **more):
    return json.loads(must([options.yoke, "--json", *arguments], **more))


def profile_layers(folder, lbs, options):
    """With the share of a core that every host has, and one thread."""
    command = ["taskset", "-c", "0", options.yoke, "profile", "layers", "--model", MODEL, "--set",
               f"data.shape=[3,{options.side},{options.side}]", "--set", "optimizer.momentum=0.9", "--lbs",
               ",".join(map(str, lbs)), "--out", folder, "--budget", options.profile_budget, "--node", "host0"]
    if options.emulated:
        must(command)
        return
    group = limit_cpu(f"yb{os.getpid()}-profile", options.core_share)
    try:
        must(["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *command])
    finally:
        unlimit_cpu(group)


def write_cluster(path, hosts, used, bandwidth):
    with open(path, "w") as file:
        file.write("nodes:\n")
        for i in used:
            file.write(f"  - {{name: host{i}, address: {hosts.address(i)}, devices: 1, inter_bandwidth: "
                       f"{bandwidth / 1e6:.3f}MB/s}}\n")


def measure_link(folder, hosts, options):
    """Messages between two hosts, as Yoke's backend sees them. Leaves a comm.json, which plans are made with.

    The largest size shows what a share of a core does to long transfers; slow links leave it out."""
    addresses = ",".join(hosts.address(i) for i in range(2))
    commands = [[options.yoke, "--json", "profile", "comm", "--launcher", "hosts", "--hosts", addresses, "--rank", str(i),
                 "--backends", "gloo", "--sizes", "1MiB,8MiB,100MiB", "--budget", "20s", "--out",
                 folder if i == 0 else os.path.join(folder, "comm-1")] for i in range(2)]
    measured = json.loads(hosts.run(commands, [{}, {}], 120))
    return next(each for each in measured["links"] if each["op"] == "message")


def write_job(path, plan, lbs, options):
    limit = options.gbs * (options.steps + 1)
    with open(path, "w") as file:
        file.write(f"model: {{name: {MODEL}, classes: {CLASSES}}}\n"
                   f"data: {{name: synthetic, shape: [3, {options.side}, {options.side}], classes: {CLASSES}, limit: {limit}}}\n"
                   f"batch: {{global: {options.gbs}, local: {lbs}}}\n"
                   "optimizer: {name: sgd, lr: 0.01, momentum: 0.9, weight_decay: 1.0e-4}\n"
                   f"epochs: 1\nparallel: {{plan: {plan}}}\ncheckpoint: {{every_steps: 100000}}\n")


def median_step(seconds):
    return statistics.median(seconds[1:])  # the first one warms up


def run_yoke(name, plan, hosts, bandwidth, folder, options):
    with open(plan) as file:
        text = file.read()
    job = os.path.join(folder, f"{name}.yaml")
    write_job(job, plan, json.loads(text)["lbs"], options)
    run_dir = os.path.join(folder, f"run-{name}")
    # A plan may leave hosts idle: those have no rank.
    used = sorted({int(number) for number in re.findall(r"host(\d+):0", text)})
    cluster = os.path.join(folder, f"cluster-{name}.yaml")
    write_cluster(cluster, hosts, used, bandwidth)
    arguments = [job, "--cluster", cluster, "--run-dir", run_dir, "--backend", "gloo"]
    if options.emulated:
        yoke(["run", *arguments, "--emulate-links"], options)
    else:
        environments = [{"RANK": str(rank), "WORLD_SIZE": str(len(used)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                         "MASTER_ADDR": hosts.address(used[0]), "MASTER_PORT": str(PORT)} for rank in range(len(used))]
        hosts.run([[options.yoke, "train", *arguments]] * len(used), environments, options.timeout, used)
    with open(os.path.join(run_dir, "metrics.jsonl")) as file:
        seconds = [json.loads(line)["step_seconds"] for line in file]
    shutil.rmtree(run_dir)
    return median_step(seconds)


def run_ddp(hosts, options):
    def command(i):
        return ["/usr/bin/python3", PEER, f"model={MODEL}", f"classes={CLASSES}", f"shape=3,{options.side},{options.side}",
                f"batch={options.gbs // hosts.count}", "threads=1", f"steps={options.steps + 1}", f"rank={i}",
                f"size={hosts.count}", f"port={PORT}"]
    environment = {"MASTER_ADDR": hosts.address(0), "GLOO_SOCKET_IFNAME": "eth0"}
    printed = hosts.run([command(i) for i in range(hosts.count)], [environment] * hosts.count, options.timeout)
    return median_step(json.loads(printed)["seconds"])


def choose(folder, schedules, batches, options):
    """The plan of the shortest predicted step over the batch sizes that were profiled."""
    best = None
    for lbs in batches:
        plan = os.path.join(folder, f"plan-{'-'.join(schedules) or 'auto'}-{lbs}.json")
        arguments = ["plan", "auto", "--profiles", folder, "--cluster", os.path.join(folder, "cluster.yaml"), "--gbs",
                     str(options.gbs), "--lbs", str(lbs), "--out", plan]
        for schedule in schedules:
            arguments += ["--schedule", schedule]
        found = yoke(arguments, options)
        if best is None or found["step_seconds"] < best["step_seconds"]:
            best = {"plan": plan, "name": found["winner"], "lbs": lbs, "step_seconds": found["step_seconds"]}
    return best


def compare(hosts, folder, options):
    shutil.copytree(os.path.join(os.path.dirname(folder), "profiles"), folder)
    link = {"bytes_per_second": bytes_a_second(hosts.rate), "latency_ms": 0} if options.emulated else measure_link(folder, hosts, options)
    bandwidth = link["bytes_per_second"]
    processor = link.get("processor_seconds_per_byte", 0)
    write_cluster(os.path.join(folder, "cluster.yaml"), hosts, range(hosts.count), bandwidth)
    data = choose(folder, ["data"], [options.gbs // hosts.count], options)
    auto = choose(folder, [], sorted({*options.lbs, options.gbs // hosts.count}), options)
    case = {"hosts": hosts.count, "rate": hosts.rate, "link": {key: link[key] for key in link if key != "points"}}
    say(f"{hosts.count} hosts, {hosts.rate}: link {bandwidth / 1e6:.1f} MB/s, {1e3 * link['latency_ms']:.0f} us, "
        f"{1e9 * processor:.2f} ns of processor for a byte; predicted: "
        f"data parallel {data['step_seconds']:.2f} s, {auto['name']} of {auto['lbs']} {auto['step_seconds']:.2f} s")
    for key, plan in [("data", data), ("plan", auto)]:
        measured = run_yoke(key, plan["plan"], hosts, bandwidth, folder, options)
        error = plan["step_seconds"] / measured - 1
        case[key] = {"name": plan["name"], "lbs": plan["lbs"], "predicted_seconds": plan["step_seconds"],
                     "measured_seconds": measured, "error": error}
        say(f"  {key}: {measured:.2f} s a step, predicted {plan['step_seconds']:.2f} s ({100 * error:+.1f}%)")
    case["speedup_over_data"] = case["data"]["measured_seconds"] / case["plan"]["measured_seconds"]
    predicted_to_win = auto["step_seconds"] < data["step_seconds"]
    case["wins_as_predicted"] = not predicted_to_win or case["speedup_over_data"] > 1
    if not options.emulated:
        case["ddp_seconds"] = run_ddp(hosts, options)
        case["speedup_over_ddp"] = case["ddp_seconds"] / case["plan"]["measured_seconds"]
        say(f"  PyTorch DDP: {case['ddp_seconds']:.2f} s; the plan is {case['speedup_over_ddp']:.2f}x as fast, "
            f"{case['speedup_over_data']:.2f}x Yoke's data parallelism")
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--hosts", default="2,4", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--rates", default="100Mbit/s,1Gbit/s,unlimited", type=lambda text: text.split(","))
    parser.add_argument("--gbs", type=int, default=64)
    parser.add_argument("--lbs", default="4,8,16", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--side", type=int, default=32, help="of the images, in pixels")
    parser.add_argument("--steps", type=int, default=4, help="that count, after one that does not")
    parser.add_argument("--core-share", type=float, default=0.5, help="of a core, for each host")
    parser.add_argument("--profile-budget", default="60s")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one contestant")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the networks go with it
    options.yoke = os.path.abspath(os.path.join(options.build, "bin", "yoke"))
    options.emulated = os.geteuid() != 0 or not shutil.which("tc") or not os.access(CGROUP, os.W_OK)
    if options.emulated:
        say("no rights to make networks (root, iproute2 and a writable /sys/fs/cgroup/cpu are needed): links are emulated "
            "by Yoke, all hosts share the cores, and PyTorch does not take part")
        options.rates = [rate for rate in options.rates if rate != "unlimited"]
    with tempfile.TemporaryDirectory() as folder:
        batches = sorted(set(options.lbs + [options.gbs // count for count in options.hosts]))
        say(f"profiling {MODEL} with batches of {batches}")
        profile_layers(os.path.join(folder, "profiles"), batches, options)
        cases = []
        for rate in options.rates:
            for count in options.hosts:
                with EmulatedHosts(count, rate) if options.emulated else Hosts(count, rate, options.core_share) as hosts:
                    cases.append(compare(hosts, os.path.join(folder, f"{count}-{len(cases)}"), options))
    errors = sorted(abs(case[key]["error"]) for case in cases for key in ["data", "plan"])
    print(json.dumps({"benchmark": "pipeline network", "model": MODEL, "side": options.side, "gbs": options.gbs,
                      "core_share": options.core_share, "cases": cases, "median_error": statistics.median(errors),
                      "worst_error": errors[-1]}))


if __name__ == "__main__":
    main()
