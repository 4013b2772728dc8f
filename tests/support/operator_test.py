"""What tests that act as an operator share: a daemon, the command, and Prometheus, from a test's runfiles."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

TMP = os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(prefix="tessera_test_")
OUTPUTS = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or TMP
BINARIES = os.environ.get("TESSERA_BINARIES")  # instead of the runfiles': a folder with all three
KERNELS = "tests/integration/kernels/fused.py"


def binary(name):
    places = {"tesserad": "server/tesserad", "tessera": "client/cli/tessera", "mixed_load": "tests/soak/mixed_load"}
    return os.path.join(BINARIES, name) if BINARIES else os.path.abspath(places[name])


def check(condition, what):
    if not condition:
        print("FAILED: " + what, flush=True)
        sys.exit(1)


def wait_for(what, condition, seconds=60):
    """Polls until `condition()` is true; a timeout fails the test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    check(False, "timed out: " + what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as response:
        return response.read().decode()


class Daemon:
    """tesserad on a state folder; `with` stops it by SIGTERM."""

    def __init__(self, state, *flags):
        self.folder = tempfile.mkdtemp(prefix="t", dir="/tmp")  # a socket's path is short
        self.address = "unix:" + self.folder + "/t.sock"
        self.log_path = os.path.join(self.folder, "log")
        self.log = open(self.log_path, "w+")
        port = free_port()
        self.metrics = "http://127.0.0.1:%d" % port
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [binary("tesserad"), "--listen=" + self.address, "--state-dir=" + state, "--metrics=127.0.0.1:%d" % port, *flags],
            stderr=self.log, stdout=self.log)

    def log_text(self):
        with open(self.log_path) as f:
            return f.read()

    def status(self):
        """None until it answers."""
        check(self.process.poll() is None, "the daemon ended:\n" + self.log_text())
        if not os.path.exists(self.folder + "/t.sock.fd"):
            return None
        done = self.tessera("status", "--json", may_fail=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait_up(self):
        return wait_for("the daemon answers", self.status)

    def wait_ready(self, seconds=120):
        """By HTTP, as a probe does; returns seconds since the start."""

        def ready():
            check(self.process.poll() is None, "the daemon ended:\n" + self.log_text())
            try:
                return fetch(self.metrics + "/readyz")
            except OSError:  # not yet listening, or 503
                return None

        wait_for("ready", ready, seconds)
        return time.monotonic() - self.started

    def tessera(self, *words, may_fail=False, timeout=180):
        done = subprocess.run([binary("tessera"), *words, "--address", self.address], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout)
        check(may_fail or done.returncode == 0, "tessera %s: %s%s" % (" ".join(words), done.stdout, done.stderr))
        return done

    def load(self, *flags, timeout=300):
        done = subprocess.run([binary("mixed_load"), "--address=" + self.address, "--kernels=" + KERNELS, *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        check(done.returncode == 0, "load: " + done.stdout + done.stderr + "\n" + self.log_text()[-3000:])
        return json.loads(done.stdout)

    def metric(self, name):
        """The sum over all series of a metric, as scraped now."""
        total = 0.0
        for line in fetch(self.metrics + "/metrics").splitlines():
            if line.startswith(name) and line[len(name)] in "{ ":
                total += float(line.rsplit(" ", 1)[1])
        return total

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        code = self.process.returncode
        self.log.close()
        shutil.copy(self.log_path, os.path.join(OUTPUTS, "tesserad.%d.log" % self.process.pid))
        shutil.rmtree(self.folder, ignore_errors=True)
        check(code == 0, "the daemon ended with %s" % code)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Prometheus:
    """A real one, scraping `target` every second."""

    def __init__(self, target):
        self.port = free_port()
        folder = tempfile.mkdtemp(dir=TMP)
        with open(folder + "/prometheus.yaml", "w") as f:
            f.write("""
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["%s"]
scrape_configs:
  - job_name: tessera
    static_configs: [{targets: ["%s"]}]
""" % (os.path.abspath("deploy/prometheus/tessera.rules.yaml"), target))
        self.log = open(OUTPUTS + "/prometheus.log", "w")
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=" + folder + "/prometheus.yaml", "--storage.tsdb.path=" + folder + "/data",
             "--web.listen-address=127.0.0.1:%d" % self.port], stdout=self.log, stderr=self.log)
        wait_for("Prometheus is ready", self.ready)

    def ready(self):
        check(self.process.poll() is None, "Prometheus ended; see prometheus.log")
        try:
            return fetch("http://127.0.0.1:%d/-/ready" % self.port)
        except OSError:
            return None

    def get(self, path):
        return json.loads(fetch("http://127.0.0.1:%d%s" % (self.port, path)))["data"]

    def query(self, expression):
        return self.get("/api/v1/query?query=" + urllib.request.quote(expression))["result"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()
