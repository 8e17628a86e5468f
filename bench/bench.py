"""Measures this gateway beside nginx, HAProxy and Envoy, in interleaved rounds, and prints tables: `make bench`.

The proxies are pinned to one core; the load and the backend to another. Ratios are medians of ratios within a round.
What is printed is also written to .build/bench/results.md, every single figure to .build/bench/rounds.json.
"""
import argparse
import datetime
import json
import os
import platform
import re
import resource
import socket
import statistics
import subprocess
import sys
import time

import house

LOADS = {"GET": ("small", 0), "16 KiB": ("large", 0), "POST 4 KiB": ("echo", 4096)}
NAMES = ["allium", "nginx", "haproxy", "envoy"]
SETTINGS = [(1, False), (1000, False), (1, True), (1000, True)]
CONNECTIONS = 64
# What a proxy must be able to open in the measurement of idle connections.
FILES = 16_384


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=1, help="of one measurement")
    parser.add_argument("--rate", type=int, default=2000, help="requests a second for latency")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES, help="which of " + " ".join(NAMES))
    parser.add_argument("--core", type=int, default=0, help="the proxies' core")
    parser.add_argument("--load-core", type=int, default=1, help="the core of load and backend")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one round, fewer connections")
    parser.add_argument("--no-build", action="store_true")
    it = parser.parse_args()
    if it.quick:
        it.rounds, it.seconds, it.idle = 1, 1, 1000
    return it


class Report:
    """Lines that are printed and kept."""

    def __init__(self):
        self.lines = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def table(self, head, rows):
        rows = [head] + rows
        widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
        for number, row in enumerate(rows):
            self.say("| " + " | ".join(it.ljust(width) for it, width in zip(row, widths)) + " |")
            if number == 0:
                self.say("|" + "|".join("-" * (width + 2) for width in widths) + "|")
        self.say()

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.lines) + "\n")


def saturate(proxy, path, body, options):
    """As many requests as go: requests a second, and microseconds of CPU for each."""
    script = os.path.join(house.ROOM, "post.lua")
    with open(script, "w") as file:
        file.write('wrk.method = "POST"\nwrk.body = string.rep("x", %d)\nwrk.headers["Content-Type"] = "text/plain"\n' % body)
    command = ["taskset", "-c", str(options.load_core), house.system("wrk"), "-t1", "-c%d" % CONNECTIONS]
    command += ["-d%ds" % options.seconds]
    command += ["-H", "Origin: https://shop.example.com"] + (["-s", script] if body else [])
    before, begun = proxy.cpu(), time.monotonic()
    out = subprocess.run(command + ["http://127.0.0.1:%d%s" % (proxy.port, path)], capture_output=True, text=True, check=True).stdout
    used, taken = proxy.cpu() - before, time.monotonic() - begun
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Non-2xx.*|Socket errors.*", out)
    if bad or not requests:
        raise SystemExit("%s: %s" % (proxy.name, bad.group(0) if bad else "no answer"))
    return {"rps": requests / taken, "cpu": used / requests * 1e6}


def pace(port, path, body, options):
    command = ["taskset", "-c", str(options.load_core), house.binary("bench-load"), "rate", "127.0.0.1:%d" % port, path]
    command += [str(options.rate), str(options.seconds), "32"] + ([str(body)] if body else [])
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(apis, plugins, latency, upstream, options):
    proxies = []
    found = {}
    try:
        for name in options.only:
            proxies.append(house.proxy(name, upstream.port, apis, plugins, options.core))
        prefix = "/v1/s%d/" % house.asked(apis)
        time.sleep(1)
        idle = {it.name: it.memory() for it in proxies}
        for turn in range(options.rounds):
            for load, (path, body) in LOADS.items():
                # Each has each place in the order equally often.
                at = turn % len(proxies)
                if latency:
                    direct = pace(upstream.port, prefix + path, body, options)
                for it in proxies[at:] + proxies[:at]:
                    one = saturate(it, prefix + path, body, options)
                    if latency:
                        time.sleep(0.1)
                        paced = pace(it.port, prefix + path, body, options)
                        one.update(p50=paced["p50"] - direct["p50"], p99=paced["p99"] - direct["p99"])
                    found.setdefault((load, it.name), []).append(one)
            print("  %d APIs, %d plugins: round %d of %d" % (apis, 5 if plugins else 0, turn + 1, options.rounds), file=sys.stderr)
        loaded = {it.name: it.memory() for it in proxies}
    finally:
        for it in proxies:
            it.stop()
    return found, idle, loaded


def connect(port, path):
    """A connection on which one request was answered."""
    it = socket.create_connection(("127.0.0.1", port), 10)
    it.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n" % (path, port)).encode())
    answer = b""
    while b'"pad":"' not in answer or not answer.endswith(b'"}'):
        piece = it.recv(4096)
        if not piece:
            raise SystemExit("an idle connection was closed after %r" % answer[:200])
        answer += piece
    return it


def rest(name, upstream, options):
    """Memory with 1000 APIs, and what each of many idle keep-alive connections adds, in KiB."""
    proxy, held = house.proxy(name, upstream.port, 1000, False, options.core), []
    try:
        time.sleep(1)
        before = proxy.memory()
        path = "/v1/s%d/small" % house.asked(1000)
        for _ in range(options.idle):
            held.append(connect(proxy.port, path))
        time.sleep(1)
        after = proxy.memory()
        return before, (after - before) * 1024 / options.idle
    finally:
        for it in held:
            it.close()
        proxy.stop()


def median(rounds, key):
    return statistics.median(it[key] for it in rounds)


def ratio(ours, theirs):
    return statistics.median(a["cpu"] / b["cpu"] for a, b in zip(ours, theirs))


def version(name):
    """What a peer calls itself."""
    if name == "allium":
        return ""
    command = {"nginx": ["-v"], "haproxy": ["-v"], "envoy": ["--version"]}[name]
    it = subprocess.run([house.envoy() if name == "envoy" else house.system(name)] + command, capture_output=True, text=True)
    found = re.search(r"\d+\.\d+\.\d+", it.stdout + it.stderr)
    return "%s %s" % (name, found.group(0) if found else "of an unknown version")


def machine():
    model = "an unknown processor"
    try:
        with open("/proc/cpuinfo") as file:
            model = re.search(r"model name\s*: (.*)", file.read()).group(1)
    except (OSError, AttributeError):
        pass
    return "%d cores, %s, Linux %s" % (os.cpu_count() or 1, model, platform.release().split("-")[0])


def open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
    return want


def main():
    options = arguments()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two cores are needed: one for the proxies, one for load and backend")
    if not options.no_build:
        house.build()
    # A few beside the connections: logs, the backend, the listener.
    options.idle = min(options.idle, open_files() - 500)
    report, begun = Report(), time.monotonic()
    report.say("%s: %s." % (datetime.date.today().isoformat(), machine()))
    report.say("%d interleaved rounds of %d s, %d connections." % (options.rounds, options.seconds, CONNECTIONS))
    report.say("Beside it: %s." % ", ".join(version(it) for it in options.only if it != "allium"))
    report.say("Load average before: %.2f." % os.getloadavg()[0])
    upstream = house.backend(options.load_core)
    rows, slow, memory, every = [], [], [], {}
    try:
        for apis, plugins in SETTINGS:
            latency = apis == 1000 and not plugins
            found, idle, loaded = measure(apis, plugins, latency, upstream, options)
            label = ["%d" % apis, "5" if plugins else "0"]
            for load in LOADS:
                for name in options.only:
                    rounds = found[load, name]
                    every["%s, %d APIs, %s plugins, %s" % (load, apis, label[1], name)] = rounds
                    against = ["%.2f" % ratio(found[load, "allium"], rounds) if "allium" in options.only else ""]
                    best = min(it["cpu"] for it in rounds)
                    rows.append([load] + label + [name, "%.0f" % median(rounds, "rps"), "%.1f (%.1f)" % (median(rounds, "cpu"), best)] + against)
                    if latency:
                        slow.append([load, name, "%.0f" % median(rounds, "p50"), "%.0f" % median(rounds, "p99")])
            for name in options.only:
                memory.append(label + [name, "%.1f" % idle[name], "%.1f" % loaded[name]])
        resting = []
        for name in options.only:
            idle, each = rest(name, upstream, options)
            every["idle, %s" % name] = {"MiB": idle, "KiB a connection": each}
            resting.append([name, "%.1f" % idle, "%.1f" % each])
            print("  %s: %d idle connections" % (name, options.idle), file=sys.stderr)
    finally:
        upstream.stop()
    report.say("Load average after: %.2f; %.0f s in all." % (os.getloadavg()[0], time.monotonic() - begun))
    report.say()
    report.table(["load", "APIs", "plugins", "proxy", "requests/s", "CPU µs, median (best)", "allium to it"], rows)
    report.say("Added at %d requests a second, 1000 APIs, no plugins:" % options.rate)
    report.say()
    report.table(["load", "proxy", "p50 µs", "p99 µs"], slow)
    report.say("Memory:")
    report.say()
    report.table(["APIs", "plugins", "proxy", "idle MiB", "after load MiB"], memory)
    report.say("%d idle keep-alive connections, 1000 APIs:" % options.idle)
    report.say()
    report.table(["proxy", "idle MiB", "KiB for each connection"], resting)
    report.write(os.path.join(house.ROOM, "results.md"))
    with open(os.path.join(house.ROOM, "rounds.json"), "w") as file:
        json.dump(every, file, indent=1)
    print("written to %s" % os.path.relpath(os.path.join(house.ROOM, "results.md"), house.ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
