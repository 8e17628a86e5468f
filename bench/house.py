"""Starts and stops what is measured: this gateway, its peers and the backend, each with its own files and ports."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOM = os.path.join(ROOT, ".build", "bench")
PEERS = os.path.join(ROOT, "bench", "peers")
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
SMALL = '{"items":[' + ",".join('{"id":%d,"name":"customer-%d"}' % (n, n) for n in range(1, 7)) + ']'
SMALL += ',"pad":"' + "x" * (200 - len(SMALL) - 10) + '"}'

# The API that is asked for stands in the middle of the others.
def asked(apis):
    return apis // 2 + 1


def build():
    subprocess.run(["cargo", "build", "--release", "--locked", "--package", "gateway", "--package", "bench"], cwd=ROOT, check=True)


def binary(name):
    return os.path.join(TARGET, "release", name)


def system(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def fill(name, folder, plugins=False, **values):
    """Writes a configuration of bench/peers into `folder`; `#plugins` lines count only where plugins are asked for."""
    with open(os.path.join(PEERS, name)) as file:
        text = file.read()
    lines = []
    for line in text.splitlines():
        if "#plugins " in line:
            if not plugins:
                continue
            line = line.replace("#plugins ", "", 1)
        lines.append(line)
    text = "\n".join(lines) + "\n"
    values["DIR"] = folder
    values["USER"] = "user root;" if os.geteuid() == 0 else ""
    for key, value in values.items():
        text = text.replace("@%s@" % key, str(value))
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


class Running:
    """A process of ours, pinned to a core, and its children."""

    def __init__(self, name, folder, command, core, port, patience=60):
        self.name, self.folder, self.port = name, folder, port
        self.out = open(os.path.join(folder, "out.txt"), "w")
        self.process = subprocess.Popen(
            ["taskset", "-c", str(core)] + command, stdout=self.out, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
        )
        until = time.monotonic() + patience
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    with open(os.path.join(folder, "out.txt")) as file:
                        raise SystemExit("%s did not start:\n%s" % (name, file.read()[-2000:]))
                time.sleep(0.05)

    def pids(self):
        found = [self.process.pid]
        for pid in found:
            for path in glob.glob("/proc/%d/task/*/children" % pid):
                with open(path) as file:
                    found += [int(it) for it in file.read().split()]
        return found

    def cpu(self):
        """Seconds of user and system time together, of all threads."""
        total = 0
        for pid in self.pids():
            for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
                with open(path) as file:
                    total += int(file.read().split()[0])
        return total / 1e9

    def memory(self):
        """MiB, what several processes share counted once."""
        total = 0
        for pid in self.pids():
            with open("/proc/%d/smaps_rollup" % pid) as file:
                total += sum(int(it.split()[1]) for it in file if it.startswith("Pss:"))
        return total / 1024

    def stop(self):
        if self.process.poll() is None:
            pids = self.pids()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.process.wait()
        self.out.close()


def room(name):
    folder = os.path.join(ROOM, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def backend(core):
    folder, port = room("upstream"), free_port()
    with open(os.path.join(folder, "large.json"), "w") as file:
        file.write('{"pad":"' + "x" * (16 * 1024 - 10) + '"}')
    path = fill("upstream.conf", folder, PORT=port, SMALL=SMALL)
    return Running("backend", folder, [system("nginx"), "-c", path], core, port)


PLUGINS = """plugins:
  - headers: {response: {set: {x-content-type-options: nosniff}}}
  - cors: {origins: ["https://*.example.com"], expose: []}
  - ip-acl: {allow: [127.0.0.0/8]}
  - fallback: {conditions: ["503"], respond: {status: 200, body: {items: []}}}
  - headers: {request: {set: {x-when: "yes"}}}
    when: "request.method == 'GET'"
"""


def definitions(folder, upstream, apis, plugins):
    os.makedirs(os.path.join(folder, "routes"))
    with open(os.path.join(folder, "routes", "upstream.yaml"), "w") as file:
        file.write("kind: Upstream\nname: backend\nnodes:\n  - {address: 127.0.0.1:%d}\n" % upstream)
    for n in range(1, apis + 1):
        with open(os.path.join(folder, "routes", "api-%04d.yaml" % n), "w") as file:
            file.write("kind: Api\ninfo: {name: api-%d, version: v1}\ninbound: {match: \"/v1/s%d/{rest...}\"}\n" % (n, n))
            file.write(PLUGINS if plugins else "")
            file.write("proxy:\n  http: {upstream: backend}\n")


def allium_command(folder, upstream, apis, plugins):
    port = free_port()
    definitions(folder, upstream, apis, plugins)
    path = fill("allium.yaml", folder, PORT=port, ADMIN=free_port())
    return [binary("allium"), "--config", path, "run"], port


def nginx_command(folder, upstream, apis, plugins):
    port = free_port()
    with open(os.path.join(folder, "routes.conf"), "w") as file:
        for n in range(1, apis + 1):
            file.write("location /v1/s%d/ { proxy_pass http://backend; }\n" % n)
    path = fill("nginx.conf", folder, plugins, PORT=port, UPSTREAM=upstream)
    return [system("nginx"), "-c", path], port


def haproxy_command(folder, upstream, apis, plugins):
    port = free_port()
    with open(os.path.join(folder, "routes.map"), "w") as file:
        for n in range(1, apis + 1):
            file.write("/v1/s%d/ backend\n" % n)
    path = fill("haproxy.cfg", folder, plugins, PORT=port, UPSTREAM=upstream)
    return [system("haproxy"), "-db", "-f", path], port


def envoy_command(folder, upstream, apis, plugins):
    port, routes = free_port(), []
    for n in range(1, apis + 1):
        match = "prefix: /v1/s%d/" % n
        if plugins:
            routes.append(
                "- {match: {%s, headers: [{name: ':method', string_match: {exact: GET}}]}, route: {cluster: backend}, "
                "request_headers_to_add: [{header: {key: x-when, value: 'yes'}}]}" % match
            )
        routes.append("- {match: {%s}, route: {cluster: backend}}" % match)
    indented = "\n".join(" " * 24 + it for it in routes)
    path = fill("envoy.yaml", folder, plugins, PORT=port, UPSTREAM=upstream, ROUTES=indented)
    return [envoy(), "-c", path, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"], port


def envoy():
    found = glob.glob(os.path.join(ROOM, "venv", "lib", "*", "site-packages", "envoy", "_bin", "envoy"))
    if not found:
        raise SystemExit("envoy is missing: bench/setup.sh peers")
    return found[0]


COMMANDS = {"allium": allium_command, "nginx": nginx_command, "haproxy": haproxy_command, "envoy": envoy_command}


def proxy(name, upstream, apis, plugins, core):
    folder = room("%s-%d-%d" % (name, apis, 5 if plugins else 0))
    command, port = COMMANDS[name](folder, upstream, apis, plugins)
    return Running(name, folder, command, core, port)
