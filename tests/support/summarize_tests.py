"""Counts test cases of one `bazel test` run from its build events; the last line is 'N passed, N failed'.

usage: summarize_tests.py EVENTS_JSON
"""
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def cases_of(xml_path):
    """(passed, failed, skipped) of one test.xml; None if it cannot be read."""
    passed = failed = skipped = 0
    try:
        root = ElementTree.parse(xml_path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    passed = failed = skipped = 0
    seen, broken = set(), []
    with open(sys.argv[1], encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            ident = event.get("id", {})
            if "testResult" in ident and "testResult" in event:
                label = ident["testResult"]["label"]
                result = event["testResult"]
                seen.add(label)
                ok = result.get("status") == "PASSED"
                counts = None
                for output in result.get("testActionOutput", []):
                    if output["name"] == "test.xml":
                        counts = cases_of(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))
                if counts is None:
                    counts = (1, 0, 0) if ok else (0, 1, 0)
                if not ok and counts[1] == 0:
                    counts = (counts[0], 1, counts[2])
                passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
                if not ok:
                    broken.append(label + ": " + result.get("status", "?"))
            elif "targetCompleted" in ident and "completed" in event and not event["completed"].get("success"):
                label = ident["targetCompleted"]["label"]
                broken.append(label + ": did not build")
    for label in sorted(set(broken)):
        print("FAILED " + label)
    failed += sum(1 for entry in set(broken) if entry.endswith("did not build"))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
