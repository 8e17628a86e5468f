"""Measures this gateway beside nginx, HAProxy and Envoy, in interleaved rounds, and prints tables: `make bench`.

The proxies are pinned to one core; the load and the backend to another. Ratios are medians of ratios within a round.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import house

LOADS = {"GET": ("small", 0), "16 KiB": ("large", 0), "POST 4 KiB": ("echo", 4096)}
NAMES = ["allium", "nginx", "haproxy", "envoy"]
CONNECTIONS = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2, help="of one measurement")
    parser.add_argument("--rate", type=int, default=2000, help="requests a second for latency")
    parser.add_argument("--only", nargs="*", default=NAMES, help="which of " + " ".join(NAMES))
    parser.add_argument("--core", type=int, default=0, help="the proxies' core")
    parser.add_argument("--load-core", type=int, default=1, help="the core of load and backend")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one short round")
    parser.add_argument("--no-build", action="store_true")
    it = parser.parse_args()
    if it.quick:
        it.rounds, it.seconds = 1, 1
    return it


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
    if bad:
        raise SystemExit("%s: %s" % (proxy.name, bad.group(0)))
    return {"rps": requests / taken, "cpu": used / requests * 1e6}


def pace(port, path, body, options):
    command = ["taskset", "-c", str(options.load_core), house.binary("bench-load"), "rate", "127.0.0.1:%d" % port, path]
    command += [str(options.rate), str(options.seconds), "32"] + ([str(body)] if body else [])
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(apis, plugins, latency, upstream, options):
    proxies = [house.proxy(it, upstream.port, apis, plugins, options.core) for it in options.only]
    found = {}
    try:
        prefix = "/v1/s%d/" % house.asked(apis)
        time.sleep(1)
        idle = {it.name: it.memory() for it in proxies}
        for turn in range(options.rounds):
            for load, (path, body) in LOADS.items():
                # Each has each place in the order equally often.
                order = proxies[turn % len(proxies):] + proxies[:turn % len(proxies)]
                if latency:
                    direct = pace(upstream.port, prefix + path, body, options)
                for it in order:
                    one = saturate(it, prefix + path, body, options)
                    if latency:
                        time.sleep(0.2)
                        paced = pace(it.port, prefix + path, body, options)
                        one.update(p50=paced["p50"] - direct["p50"], p99=paced["p99"] - direct["p99"])
                    found.setdefault((load, it.name), []).append(one)
            print("  %d APIs, %d plugins: round %d of %d" % (apis, 5 if plugins else 0, turn + 1, options.rounds), file=sys.stderr)
        loaded = {it.name: it.memory() for it in proxies}
    finally:
        for it in proxies:
            it.stop()
    return found, idle, loaded


def median(rounds, key):
    return statistics.median(it[key] for it in rounds)


def ratio(ours, theirs):
    return statistics.median(a["cpu"] / b["cpu"] for a, b in zip(ours, theirs))


def table(head, rows):
    rows = [head] + rows
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(it.ljust(width) for it, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print()


def main():
    options = arguments()
    if not options.no_build:
        house.build()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two cores are needed: one for the proxies, one for load and backend")
    print("load average before: %.2f %.2f %.2f; %d rounds of %ds" % (*os.getloadavg(), options.rounds, options.seconds))
    upstream = house.backend(options.load_core)
    rows, slow, memory, every = [], [], [], {}
    try:
        for apis, plugins in [(1, False), (1000, False), (1, True), (1000, True)]:
            latency = apis == 1000 and not plugins
            found, idle, loaded = measure(apis, plugins, latency, upstream, options)
            label = ["%d" % apis, "5" if plugins else "0"]
            for load in LOADS:
                for name in options.only:
                    rounds = found[load, name]
                    every["%s, %d APIs, %s plugins, %s" % (load, apis, label[1], name)] = rounds
                    against = ["%.2f" % ratio(found[load, "allium"], found[load, name]) if "allium" in options.only else ""]
                    best = min(it["cpu"] for it in rounds)
                    rows.append([load] + label + [name, "%.0f" % median(rounds, "rps"), "%.1f (%.1f)" % (median(rounds, "cpu"), best)] + against)
                    if latency:
                        slow.append([load, name, "%.0f" % median(rounds, "p50"), "%.0f" % median(rounds, "p99")])
            for name in options.only:
                memory.append(label + [name, "%.1f" % idle[name], "%.1f" % loaded[name]])
    finally:
        upstream.stop()
    print("load average after: %.2f %.2f %.2f\n" % os.getloadavg())
    table(["load", "APIs", "plugins", "proxy", "requests/s", "CPU µs, median (best)", "allium to it"], rows)
    print("Added at %d requests a second, 1000 APIs, no plugins:\n" % options.rate)
    table(["load", "proxy", "p50 µs", "p99 µs"], slow)
    table(["APIs", "plugins", "proxy", "idle MiB", "after load MiB"], memory)
    with open(os.path.join(house.ROOM, "rounds.json"), "w") as file:
        json.dump(every, file, indent=1)


if __name__ == "__main__":
    main()
