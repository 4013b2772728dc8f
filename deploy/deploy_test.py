"""What lies in deploy/ is sound: systemd's, Prometheus' and Kubernetes' own checkers, and that the parts fit together."""
import pwd
import re
import sys

sys.path.insert(0, "tests/support")
from operator_test import *  # noqa: F403,E402

# The newest release that was tried; schemas come with it.
KUBERNETES_VALIDATE = "kubernetes-validate==1.34.1"


def read(path):
    with open("deploy/" + path) as f:
        return f.read()


def systemd_unit():
    if not shutil.which("systemd-analyze"):
        print("SKIPPED: systemd-analyze is not installed")
        return
    folder = tempfile.mkdtemp(dir=TMP)
    # Paths of this machine for those of an installation, which verify looks for.
    unit = read("systemd/tesserad.service").replace("/opt/tessera/bin/tesserad", binary("tesserad")).replace("User=tessera", "User=root")
    unit = unit.replace("Group=tessera", "Group=root")
    path = folder + "/tesserad.service"
    with open(path, "w") as f:
        f.write(unit)
    verified = subprocess.run(["systemd-analyze", "verify", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    complaints = [line for line in verified.stdout.splitlines() if "tesserad.service" in line]
    check(not complaints, "systemd-analyze verify: " + verified.stdout)
    rated = subprocess.run(["systemd-analyze", "security", "--offline=true", path], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    found = re.search(r"Overall exposure level for tesserad.service: ([0-9.]+)", rated.stdout)
    if not found:
        print("SKIPPED: this systemd-analyze does not rate units offline")
        return
    print("systemd's exposure level: %s" % found.group(1))
    check(float(found.group(1)) < 3.0, "the unit is hardened:\n" + rated.stdout)


def restarts():
    """systemd never gives up by itself, except over a setting that is not accepted."""
    unit = dict(re.findall(r"(?m)^(\w+)=(.*)$", read("systemd/tesserad.service")))
    automatic = int(unit["StartLimitIntervalSec"]) / int(unit["RestartSec"])
    check(int(unit["StartLimitBurst"]) >= automatic + 10, "ten starts by hand fit beside automatic ones")
    path = os.path.join(TMP, "bad.yaml")
    place = "state_dir: %s/state\nlisten: unix:%s/s\nmetrics: off\n" % (TMP, TMP)
    for text in ("no_such_setting: 1\n", "workers: many\n", "tuning: sometimes\n", "socket_group: no_such_group\n"):
        with open(path, "w") as f:
            f.write(place + text)
        done = subprocess.run([binary("tesserad"), "--config=" + path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(str(done.returncode) == unit["RestartPreventExitStatus"], "a bad setting ends with %d: %s" % (done.returncode, done.stderr))


def alerts_fire():
    check(shutil.which("promtool"), "promtool is not installed; ./dev setup installs it")
    tested = subprocess.run(["promtool", "test", "rules", "deploy/prometheus/tessera.rules_test.yaml"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    check(tested.returncode == 0, "promtool test rules: " + tested.stdout)


def kubernetes_manifests():
    names = ["namespace", "configmap", "daemonset", "networkpolicy", "client-example"]
    files = ["deploy/kubernetes/%s.yaml" % name for name in names]
    validator = shutil.which("kubernetes-validate")
    if not validator:
        folder = tempfile.mkdtemp(dir=TMP)
        environment = dict(os.environ, HOME=pwd.getpwuid(os.getuid()).pw_dir)
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            subprocess.run([folder + "/bin/pip", "install", "-q", "--retries=1", KUBERNETES_VALIDATE], check=True, env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            validator = folder + "/bin/kubernetes-validate"
        except (subprocess.SubprocessError, OSError) as error:
            print("SKIPPED: %s cannot be installed here (%s): the Kubernetes manifests are not validated" % (KUBERNETES_VALIDATE, error))
    if validator:
        for path in files:
            done = subprocess.run([validator, "--strict", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check(done.returncode == 0, done.stdout)
            print(done.stdout.strip().splitlines()[-1])
    listed = re.findall(r"- (\S+\.yaml)", read("kubernetes/kustomization.yaml"))
    check(all(os.path.exists("deploy/kubernetes/" + name) for name in listed), "kustomization names files that are there")
    daemonset = read("kubernetes/daemonset.yaml")
    for name, text in (("hostIPC: true", "CUDA IPC"), ("path: /readyz", "probes"), ("path: /run/tessera", "the socket's folder"),
                       ("maxSurge: 0", "never two daemons on one state directory"), ("CUDA_MPS_PIPE_DIRECTORY", "MPS")):
        check(name in daemonset, text)
    label = "app.kubernetes.io/name: tessera"
    for name in ("daemonset", "networkpolicy", "podmonitor"):
        check("matchLabels: {%s}" % label in read("kubernetes/%s.yaml" % name), name + " selects the daemon's pods")
    check("name: metrics, containerPort: 9464" in daemonset and "port: metrics" in read("kubernetes/podmonitor.yaml"), "the metrics' port")


def embedded(text, name):
    """A file of the ConfigMap: the block below `name: |`."""
    lines = []
    for line in text.split("  %s: |\n" % name)[1].splitlines():
        if line.strip() and not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines) + "\n"


def settings_and_manifest_of_the_configmap():
    folder = tempfile.mkdtemp(dir=TMP)
    text = read("kubernetes/configmap.yaml")
    for name in ("tesserad.yaml", "manifest.yaml"):
        with open(folder + "/" + name, "w") as f:
            f.write(embedded(text, name))
    for path in (folder + "/tesserad.yaml", "deploy/tesserad.yaml"):
        done = subprocess.run([binary("tesserad"), "--config=" + path, "--print-config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(done.returncode == 0, "%s: %s" % (path, done.stderr))
    with Daemon(folder + "/state") as daemon:
        daemon.wait_ready()
        print(daemon.tessera("manifest", "check", folder + "/manifest.yaml").stdout.strip())


def held_until_the_manifest_of_the_guide_is_there():
    """The image's health check tells a held daemon from a ready one; and a daemon that is ready stays so."""
    health_check = json.loads(re.search(r"HEALTHCHECK .* CMD (\[.*\])", read("container/Containerfile")).group(1))
    check(health_check[0] == "tessera", "the health check asks the daemon")
    example = re.search(r"(?m)^    modules:\n(?:    .*\n)+", read("README.md")).group(0)
    example = re.sub("(?m)^    ", "", example).replace("/opt/tessera/tests/gpu/fused.py", os.path.abspath(KERNELS))
    folder = tempfile.mkdtemp(dir=TMP)
    manifest = folder + "/manifest.yaml"

    def write(text):
        with open(manifest, "w") as f:
            f.write(text)

    def health():
        return daemon.tessera(*health_check[1:], may_fail=True).returncode

    write("modules: broken\n")
    with Daemon(folder + "/state", "--warmup-manifest=" + manifest) as daemon:
        daemon.wait_up()
        wait_for("the manifest is refused", lambda: daemon.metric("tessera_warmup_manifest_error") == 1)
        check(health() != 0, "a held daemon is not healthy")
        write(example)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_ready()
        check(health() == 0, "a ready daemon is healthy")
        warmup = daemon.status()["warmup"]
        check(warmup["failed"] == 0 and warmup["first_launches"] == warmup["total"] > 1, "the guide's first launches: %s" % warmup)
        check(daemon.metric("tessera_warmup_manifest_error") == 0, "the manifest is read")
        write("modules: broken\n")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for("the manifest is refused", lambda: daemon.metric("tessera_warmup_manifest_error") == 1)
        check(health() == 0 and daemon.status()["ready"], "a failed reload takes no readiness away")


def guide():
    """Every file and command that the guide names is there."""
    text = read("README.md")
    for path in set(re.findall(r"/opt/tessera/deploy/(\S+\.\w+)", text)):
        check(os.path.exists("deploy/" + path), "the guide names deploy/" + path)
    with open("deploy/prometheus/tessera.rules.yaml") as f:
        alerts = set(re.findall(r"alert: (\w+)", f.read()))
    check(alerts == set(re.findall(r"Tessera[A-Z]\w+", text)), "the guide tells all alerts: %s" % (alerts ^ set(re.findall(r"Tessera[A-Z]\w+", text))))


systemd_unit()
restarts()
alerts_fire()
kubernetes_manifests()
settings_and_manifest_of_the_configmap()
held_until_the_manifest_of_the_guide_is_there()
guide()
print("PASS")
