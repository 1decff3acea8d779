"""Summarizes the runs of scripts/test: test_summary.py FOLDER NOTE ROUNDS RUN...

Each run is a folder LIBCURL/TARGET/ROUND with `code`, `output.txt` and the XML of the tests. Prints the failed tests with
their number of failures and first message, the skipped tests with their reason, NOTE unless it is empty, and at the end
`N passed, N failed`.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree


class Run:
    """One run of one target: passed is a number, failed maps names to messages, skipped maps names to reasons."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "code")) as file:
            self.code = int(file.read())
        with open(os.path.join(folder, "output.txt"), errors="replace") as file:
            self.lines = file.read().splitlines()
        self.passed, self.failed, self.skipped = 0, {}, {}
        if not self.read_xml():
            self.read_output()
        self.read_sanitizer()
        if self.code != 0 and not self.failed:
            self.failed["the run itself"] = f"the program of the tests ended with exit code {self.code}, the reason is above"

    def read_xml(self):
        """Reads the XML, which names every test that ended. After a crash there is none."""
        finished = False
        for name in ("results-swift-testing.xml", "results.xml"):
            try:
                cases = list(ElementTree.parse(os.path.join(self.folder, name)).iter("testcase"))
            except (OSError, ElementTree.ParseError):
                continue
            finished = finished or name == "results-swift-testing.xml" or bool(cases)
            for case in cases:
                title = f"{case.get('classname')}/{case.get('name')}"
                failure = case.find("failure")
                failure = case.find("error") if failure is None else failure
                skipped = case.find("skipped")
                if failure is not None:
                    self.failed[title] = failure.get("message") or failure.text or ""
                elif skipped is not None:
                    self.skipped[title] = skipped.get("message") or skipped.text or "no reason given"
                else:
                    self.passed += 1
        return finished

    def read_output(self):
        """Reads the output after a crash, and counts the crash as a failure."""
        started = {}
        for line in self.lines:
            if match := re.match(r"\S+ Test (?!run |case )(.+?) started\.$", line):
                started[match[1]] = started.get(match[1], 0) + 1
            elif match := re.match(r"(\S+) Test (?!run |case )(.+?)(?: with \d+ test cases?)? (passed|failed) after ", line):
                started[match[2]] = started.get(match[2], 1) - 1
                if match[3] == "failed":
                    self.failed[match[2]] = self.first_issue(match[2])
                else:
                    self.passed += 1
        cut = sorted(name for name, count in started.items() if count > 0)
        if self.code != 0:
            self.failed["the run itself"] = "it ended early" + (", in the middle of " + ", ".join(cut) if cut else "")

    def first_issue(self, name):
        for line in self.lines:
            if match := re.match(r"\S+ Test " + re.escape(name) + r" recorded an issue.*? at (.+)", line):
                return match[1]
        return ""

    def read_sanitizer(self):
        """Counts each report of a sanitizer as a failure, whatever test caused it."""
        for line in self.lines:
            if match := re.search(r"SUMMARY: (\w+Sanitizer: .+)", line):
                self.failed.setdefault(match[1], "the report is above")


def table(rounds, failures, clean):
    """Prints the failed tests with their number of failures and first message."""
    print(f"{rounds} rounds, {clean} of them without a failure")
    if failures:
        width = max(len(name) for name in failures)
        print(f"{'times':>5}  {'what':{width}}  first message")
    for name, messages in sorted(failures.items(), key=lambda item: (-len(item[1]), item[0])):
        first = " ".join(messages[0].split())
        print(f"{len(messages):5}  {name:{width}}  {first[:200]}")


def main():
    root, note, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    passed, failures, reasons, failed_rounds = 0, {}, {}, set()
    for name in sys.argv[4:]:
        run = Run(os.path.join(root, name))
        suffix = " (with libcurl 8)" if name.startswith("8/") else ""
        passed += run.passed
        for test, message in run.failed.items():
            failures.setdefault(test + suffix, []).append(message)
            failed_rounds.add(name.rsplit("/", 1)[1])
        for test, reason in run.skipped.items():
            reasons.setdefault(" ".join(reason.split()), set()).add(test + suffix)
    failed = sum(len(messages) for messages in failures.values())
    if rounds > 1:
        table(rounds, failures, rounds - len(failed_rounds))
    else:
        for name, messages in failures.items():
            print("failed:", name, "·", " ".join(messages[0].split())[:300])
    if passed + failed == 0:
        print("error: no test ran; does the filter match a name?")
    if reasons:
        print(f"{sum(len(tests) for tests in reasons.values())} skipped")
        for reason, tests in sorted(reasons.items()):
            print(f"skipped: {reason}: {', '.join(sorted(tests))}")
    if note:
        print(note)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed == 0 else 0)


main()
