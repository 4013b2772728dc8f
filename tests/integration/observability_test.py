"""A real Prometheus scrapes a daemon under load: every query of the dashboard returns data, rules load, promtool is content;
and a real browser shows the status page (status_page.png and status_page_dark.png in the test's outputs)."""
import re
import struct
import sys
import threading
import zlib

sys.path.insert(0, "tests/support")
from operator_test import *  # noqa: F403,E402

for tool in ("prometheus", "promtool", "chromium"):
    check(shutil.which(tool), tool + " is not installed; ./dev setup installs it")


def dashboard_queries():
    with open("deploy/grafana/tessera.json") as f:
        dashboard = json.load(f)
    check(dashboard["schemaVersion"] >= 39, "the dashboard's schema is current")
    ids = [panel["id"] for panel in dashboard["panels"]]
    check(len(ids) == len(set(ids)), "panels have ids of their own")
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*")
            check("$" not in expression, "a variable that nobody fills in: " + expression)
            yield panel["title"], expression


def numbers(result):
    return [s for s in result if s["value"][1] not in ("NaN", "+Inf", "-Inf")]


def prometheus_and_dashboard(daemon, start_load):
    check(subprocess.run(["promtool", "check", "rules", "deploy/prometheus/tessera.rules.yaml"]).returncode == 0, "promtool: rules")
    check(subprocess.run(["promtool", "check", "config", "deploy/prometheus/prometheus.yaml"]).returncode == 0, "promtool: config")
    linted = subprocess.run(["promtool", "check", "metrics"], input=fetch(daemon.metrics + "/metrics"), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(linted.returncode == 0, "promtool's lint of the metrics:\n" + linted.stdout)
    with Prometheus(daemon.metrics[len("http://"):]) as prometheus:
        # What the load compiles at its start is an increase only of what was scraped before.
        wait_for("a scrape", lambda: numbers(prometheus.query("count_over_time(tessera_ready[1m]) > 1")))
        start_load()
        wait_for("some scrapes", lambda: numbers(prometheus.query("count_over_time(tessera_ready[1m]) > 8")))
        queries = list(dashboard_queries())
        for title, expression in queries:
            # Rates want a few scrapes in which the load did just that.
            wait_for("data for '%s': %s" % (title, expression), lambda: numbers(prometheus.query(expression)), 30)
        print("%d queries of the dashboard return data" % len(queries))
        groups = prometheus.get("/api/v1/rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        check(len(rules) >= 18 and all(rule["health"] == "ok" or rule["health"] == "unknown" for rule in rules),
              "rules: %s" % [(r["name"], r.get("lastError")) for r in rules if r["health"] == "err"])
        wait_for("recording rules record", lambda: numbers(prometheus.query("tessera:launches:rate1m > 0")), 40)
        check(not prometheus.query('ALERTS{alertname="TesseraDown"}'), "no false alarm")
        series = int(prometheus.query('count({job="tessera"})')[0]["value"][1])
        print("%d series" % series)
        check(series < 2000, "the number of series is bounded: %d" % series)


def pixels_of(path):
    """Width, height and the set of some pixels' bytes of an 8-bit RGB(A) PNG."""
    with open(path, "rb") as f:
        data = f.read()
    check(data[:8] == b"\x89PNG\r\n\x1a\n", path + " is a PNG")
    at, packed, width, height, kind = 8, b"", 0, 0, 0
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if name == b"IHDR":
            width, height, _, kind = struct.unpack(">IIBB", body[:10])
        elif name == b"IDAT":
            packed += body
        at += 12 + length
    raw = zlib.decompress(packed)
    return width, height, len(set(raw[i:i + 64] for i in range(0, len(raw) - 64, 4096)))


def browser(*flags):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--no-first-run", "--user-data-dir=" + tempfile.mkdtemp(dir=TMP), "--timeout=4000", *flags]
    environment = dict(os.environ, HOME=TMP, XDG_CONFIG_HOME=TMP, XDG_CACHE_HOME=TMP)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=90, env=environment)


def status_page(daemon):
    page = fetch(daemon.metrics + "/")
    check("<script" not in page and "http://" not in page and "https://" not in page, "the page brings nothing along from elsewhere")
    dom = browser("--dump-dom", daemon.metrics + "/").stdout
    for words in ("Launches a second", "scale_rows", "matmul_bias_gelu", "Tuning decisions", "fastest|kept:",
                  "Warm-up", "Compiled while serving", "cpu:0", "MODULE_UNKNOWN"):
        check(re.search(words, dom), "the page shows '%s': %s" % (words, dom[-2000:]))
    for name, more in (("status_page.png", []), ("status_page_dark.png", ["--blink-settings=preferredColorScheme=0"])):
        path = os.path.join(OUTPUTS, name)
        shot = browser("--screenshot=" + path, "--window-size=1280,1900", *more, daemon.metrics + "/")
        check(os.path.exists(path), "a screenshot: " + shot.stderr[-1000:])
        width, height, kinds = pixels_of(path)
        check(width == 1280 and kinds > 50, "the screenshot shows something: %dx%d, %d kinds" % (width, height, kinds))
        print("screenshot: " + path)


def read_only(daemon):
    for method in ("POST", "PUT", "DELETE"):
        request = urllib.request.Request(daemon.metrics + "/", method=method, data=b"x")
        try:
            urllib.request.urlopen(request, timeout=10)
            check(False, method + " is refused")
        except urllib.error.HTTPError as error:
            check(error.code == 405, "%s: %d" % (method, error.code))


manifest = os.path.join(TMP, "m.yaml")
with open(manifest, "w") as f:
    f.write('ops:\n  - op: softmax\n    tensors: {x: "fp32[M, N]", out: "fp32[M, N]"}\n    shapes: [{M: 8, N: 128}]\n')
with Daemon(os.path.join(TMP, "state"), "--warmup-manifest=" + manifest) as daemon:
    daemon.wait_ready()
    stop = threading.Event()

    def keep_loading():
        seed = 0
        while not stop.is_set():
            seed += 1
            daemon.load("--rounds=40", "--rate=200", "--seed=%d" % seed)

    loader = threading.Thread(target=keep_loading)
    try:
        prometheus_and_dashboard(daemon, loader.start)
        status_page(daemon)
        read_only(daemon)
    finally:
        stop.set()
        if loader.is_alive():
            loader.join()
print("PASS")
