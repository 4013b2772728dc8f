"""Replays a corpus of recorded launches on one target and says what passes, by case and by kernel, and why not.

usage: replay_corpus.py FOLDER TARGET [--tessera PATH] [--verbose]

FOLDER is a folder of cases, or of projects that hold cases. TARGET is interpreter or cpu. Only cases whose recording
repeats exactly count. A kernel is the text of kernel.py and the name of its entry; it passes if all of its cases pass.
`of all` counts skipped cases and kernels with one as failures.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys


def projects_of(folder):
    """Project name -> its folder."""
    def holds_cases(path):
        return any(os.path.exists(os.path.join(path, name, "case.json")) for name in os.listdir(path))

    folder = os.path.abspath(folder)
    if holds_cases(folder):
        return {os.path.basename(folder): folder}
    parts = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    return {os.path.basename(path): path for path in parts if os.path.isdir(path) and holds_cases(path)}


def cases_of(folder):
    """Case name -> (its kernel, a name for people), for the cases that are evidence."""
    cases = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.path.exists(os.path.join(path, "case.json")):
            continue
        with open(os.path.join(path, "case.json"), encoding="utf-8") as file:
            case = json.load(file)
        if case.get("replay") != "exact":
            continue
        with open(os.path.join(path, "kernel.py"), "rb") as file:
            text = hashlib.sha256(file.read()).hexdigest()
        cases[name] = ((text, case["entry"]), case.get("qualname", case["entry"]))
    return cases


def replay(folder, target, tessera):
    """Case name -> ("FAILED" or "skipped", message), for the cases that do not pass."""
    run = subprocess.run([tessera, "replay", folder, "--device", target, "--private"], stdout=subprocess.PIPE, text=True, check=False)
    outcomes, name = {}, None
    lines = run.stdout.splitlines()
    for line in lines[:-1]:
        match = re.match(r"([^\s:]+): (FAILED|skipped): (.*)", line)
        if match:
            name = match[1]
            outcomes[name] = (match[2], match[3])
    if not lines or not re.match(r"\d+ passed, \d+ failed, \d+ skipped", lines[-1]):
        sys.exit(f"tessera replay {folder} ended early, status {run.returncode}")
    return outcomes


def reason_of(message):
    """The kind of a failure: its message without places, names and numbers."""
    if re.match(r"\S+ (\[|element|differs|at )", message) or re.search(r": got .*want ", message):
        return "values differ"
    message = re.sub(r"^[A-Z_]+: ", "", message)
    message = re.sub(r"^\S+\.py:\d+:\d+: error: ", "", message)
    message = re.sub(r"launching \S+ on \S+: \S+ \(\S+\): program \([\d, ]+\): ", "", message)
    message = re.sub(r"0x[0-9a-f]+", "ADDRESS", message)
    message = re.sub(r"\d+", "N", message)
    return message[:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("target")
    parser.add_argument("--tessera", default="bazel-bin/client/cli/tessera")
    parser.add_argument("--verbose", action="store_true", help="every failure with its whole message")
    options = parser.parse_args()

    print("| project | target | cases passed | failed | skipped | of all | kernels passed | of all |")
    print("|---|---|---|---|---|---|---|---|")
    groups = collections.defaultdict(list)
    details = []
    for project, folder in projects_of(options.folder).items():
        cases = cases_of(folder)
        outcomes = {name: outcome for name, outcome in replay(folder, options.target, options.tessera).items() if name in cases}
        kernels = {kernel for kernel, _ in cases.values()}
        bad = {kind: {cases[name][0] for name, outcome in outcomes.items() if outcome[0] == kind} for kind in ("FAILED", "skipped")}
        failed = sum(outcome[0] == "FAILED" for outcome in outcomes.values())
        skipped = len(outcomes) - failed
        passed = len(cases) - len(outcomes)
        judged = kernels - (bad["skipped"] - bad["FAILED"])
        good = judged - bad["FAILED"]

        def share(part, whole):
            return f"{100 * part / max(whole, 1):.1f} %"

        print(f"| {project} | {options.target} | {passed} of {passed + failed} ({share(passed, passed + failed)}) | {failed} | {skipped} | "
              f"{share(passed, len(cases))} | {len(good)} of {len(judged)} ({share(len(good), len(judged))}) | {share(len(good), len(kernels))} |", flush=True)
        for name, (kind, message) in outcomes.items():
            groups[(project, kind, reason_of(message))].append(cases[name][1])
            details.append(f"{project}/{name} {cases[name][1]}: {kind}: {message}")
    print("\n| cases | project | | reason | kernels |\n|---|---|---|---|---|")
    for (project, kind, reason), names in sorted(groups.items(), key=lambda group: -len(group[1])):
        counted = ", ".join(f"`{name}` ({n})" for name, n in collections.Counter(names).most_common())
        print(f"| {len(names)} | {project} | {kind} | {reason.replace('|', chr(92) + '|')} | {counted} |")
    if options.verbose:
        print("\n" + "\n".join(details))


if __name__ == "__main__":
    main()
