"""Counts user-space instructions for each plain GET with callgrind, and compares with bench/instructions.txt: `make instructions`.

The slope between 2 000 and 10 000 requests, each after the same start and over as many connections, so that what
a start and a connection cost is not in it.
"""
import argparse
import glob
import os
import re
import subprocess
import sys

import house

FEW, MANY, CONNECTIONS = 2000, 10_000, 64
SLACK = 1.02
BASELINE = os.path.join(house.ROOT, "bench", "instructions.txt")


def load(port, requests, path):
    command = [house.binary("bench-load"), "count", "127.0.0.1:%d" % port, path, str(requests), str(CONNECTIONS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def control(running, *what):
    # The wrapper of taskset has become valgrind itself.
    subprocess.run(["callgrind_control", *what, str(running.process.pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def totals(dump):
    with open(dump) as file:
        return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1))


def serves(dump):
    """Whether it is of a thread that serves requests; a peer has no other of weight."""
    with open(dump) as file:
        text = file.read()
    return "release/allium" not in text or "http1::connection" in text


def count(name, upstream, plugins, keep):
    folder = house.room("instructions-%s-%d" % (name, 5 if plugins else 0))
    command, port = house.COMMANDS[name](folder, upstream.port, 1000, plugins)
    if name == "nginx":
        command += ["-g", "master_process off;"]
    out = os.path.join(folder, "callgrind.out")
    # Each thread by itself: what a timer does in the background depends on how long the count takes.
    wrapped = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--callgrind-out-file=" + out]
    running = house.Running(name, folder, wrapped + command, 0, port, patience=300)
    path = "/v1/s%d/small" % house.asked(1000)
    try:
        load(port, FEW, path)
        control(running, "-i", "on")
        load(port, FEW, path)
        control(running, "-d", "few")
        load(port, MANY, path)
        control(running, "-d", "many")
    finally:
        running.stop()
    few, _ = max((totals(it), it) for it in glob.glob(out + ".1*") if serves(it))
    many, profile = max((totals(it), it) for it in glob.glob(out + ".2*") if serves(it))
    if keep:
        print("profile: callgrind_annotate --inclusive=yes " + profile, file=sys.stderr)
    return (many - few) / (MANY - FEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make what is found the baseline")
    parser.add_argument("--peers", action="store_true", help="count nginx and HAProxy as well")
    parser.add_argument("--profile", action="store_true", help="say where the profiles lie")
    parser.add_argument("--no-build", action="store_true")
    options = parser.parse_args()
    if not options.no_build:
        house.build()
    with open(BASELINE) as file:
        known = {name: int(number) for name, number in (line.split() for line in file if line.strip() and not line.startswith("#"))}
    upstream = house.backend(1)
    try:
        plain = count("allium", upstream, False, options.profile)
        rings = count("allium", upstream, True, options.profile)
        others = {it: count(it, upstream, False, options.profile) for it in ("nginx", "haproxy")} if options.peers else {}
    finally:
        upstream.stop()
    found = {"get": round(plain), "get_5_plugins": round(rings)}
    for name, number in found.items():
        print("%-14s %6d instructions a request (baseline %d)" % (name, number, known.get(name, 0)))
    for name, number in others.items():
        print("%-14s %6d instructions a request" % (name, number))
    print("5 plugins add  %6d" % (rings - plain))
    if options.write:
        with open(BASELINE) as file:
            head = [it for it in file if it.startswith("#")]
        with open(BASELINE, "w") as file:
            file.writelines(head + ["%s %d\n" % it for it in found.items()])
        return
    worse = [name for name, number in found.items() if number > known.get(name, 0) * SLACK]
    if worse:
        raise SystemExit("more than the baseline and 2 %%: %s. Find what costs it, or say why in the commit and run: make instructions WRITE=1" % ", ".join(worse))


if __name__ == "__main__":
    main()
