import FoundationEssentials
import LATNetworking

/// What became of the requests of a file: a pure value.
struct RunReport: Sendable {
    struct Failure: Hashable, Sendable {
        /// The place of the assertion or the request: `users.http:14`.
        var place: String
        var message: String
    }

    enum Outcome: Sendable {
        case passed
        /// The response is not what it should be.
        case failed([Failure])
        /// There was no response, or no request could be made.
        case error(Failure, ExitCode)
        /// An earlier request failed.
        case skipped
    }

    struct Entry: Sendable {
        var name: String
        var method: String
        var target: String
        var status: Int?
        var duration: Duration = .zero
        var assertions = 0
        /// The names of the captured variables. Their values may be secret.
        var captured: [String] = []
        var outcome: Outcome
    }

    /// The name of the file.
    var file: String
    var start: Date
    var entries: [Entry] = []

    /// The exit code: that of the first request that failed.
    var code: ExitCode {
        for entry in entries {
            switch entry.outcome {
            case .failed: return .failure
            case .error(_, let code): return code
            case .passed, .skipped: continue
            }
        }
        return .success
    }

    // MARK: Text

    /// A request in a line, and its failures below it.
    static func lines(of entry: Entry, nameWidth: Int, _ style: Style) -> [String] {
        let sign =
            switch entry.outcome {
            case .passed: style.green(style.sign("✓", "ok  "))
            case .failed, .error: style.red(style.sign("✗", "FAIL"))
            case .skipped: style.dim(style.sign("–", "skip"))
            }
        let status = entry.status.map { "\($0)" } ?? "–"
        var facts = [
            SafeText.line(entry.name).padded(toEnd: nameWidth), SafeText.line("\(entry.method) \(entry.target)"),
        ]
        if case .skipped = entry.outcome { return ["\(sign) \(facts[0])  \(style.dim("not run"))"] }
        facts.append(entry.status.map { $0 < 400 ? style.green(status) : style.magenta(status) } ?? style.dim(status))
        facts.append(style.dim(Quantity.duration(entry.duration)))
        return ["\(sign) " + facts.joined(separator: "  ")]
            + failures(of: entry).map { "    \(style.dim($0.place))  \(SafeText.line($0.message))" }
    }

    static func failures(of entry: Entry) -> [Failure] {
        switch entry.outcome {
        case .failed(let failures): failures
        case .error(let failure, _): [failure]
        case .passed, .skipped: []
        }
    }

    /// The last line: `3 requests, 1 failed, 5 assertions, in 40.0 ms`.
    static func summary(_ reports: [RunReport], _ style: Style) -> String {
        let entries = reports.flatMap(\.entries)
        let failed = entries.count { !failures(of: $0).isEmpty }
        let skipped = entries.count { if case .skipped = $0.outcome { true } else { false } }
        var parts = [TableReport.count(entries.count - skipped, "request")]
        parts.append(failed > 0 ? style.red("\(failed) failed") : "all passed")
        if skipped > 0 { parts.append("\(skipped) not run") }
        parts.append(TableReport.count(entries.reduce(0) { $0 + $1.assertions }, "assertion"))
        let time = entries.reduce(Duration.zero) { $0 + $1.duration }
        return parts.joined(separator: ", ") + ", in \(Quantity.duration(time))"
    }

    // MARK: JSON

    /// A request as a line for programs.
    func json(of entry: Entry) -> JSONValue {
        let failures = Self.failures(of: entry)
        let outcome =
            switch entry.outcome {
            case .passed: "passed"
            case .failed: "failed"
            case .error: "error"
            case .skipped: "skipped"
            }
        return [
            "file": .string(file), "name": .string(entry.name), "method": .string(entry.method),
            "url": .string(entry.target),
            "status": entry.status.map { .int(Int64($0)) } ?? .null, "outcome": .string(outcome),
            "duration": .milliseconds(entry.duration), "assertions": .int(Int64(entry.assertions)),
            "captured": .array(entry.captured.map { .string($0) }),
            "failures": .array(failures.map { ["place": .string($0.place), "message": .string($0.message)] }),
        ]
    }

    // MARK: JUnit

    /// The reports in the XML of JUnit, which CI servers read: a suite for each file, a case for each request.
    static func junit(_ reports: [RunReport]) -> String {
        let all = reports.flatMap(\.entries)
        var lines = [
            #"<?xml version="1.0" encoding="UTF-8"?>"#, "<testsuites name=\"lat run\" \(totals(of: all))>",
        ]
        for report in reports {
            let time = Date.ISO8601FormatStyle().format(report.start).replacing("Z", with: "")
            lines.append(
                "  <testsuite name=\(attribute(report.file)) timestamp=\(attribute(time)) \(totals(of: report.entries))>"
            )
            lines += report.entries.flatMap { report.testCase($0) }
            lines.append("  </testsuite>")
        }
        return (lines + ["</testsuites>", ""]).joined(separator: "\n")
    }

    private static func totals(of entries: [Entry]) -> String {
        var (failures, errors, skipped) = (0, 0, 0)
        for entry in entries {
            switch entry.outcome {
            case .passed: break
            case .failed: failures += 1
            case .error: errors += 1
            case .skipped: skipped += 1
            }
        }
        let time = entries.reduce(Duration.zero) { $0 + $1.duration }
        return "tests=\"\(entries.count)\" failures=\"\(failures)\" errors=\"\(errors)\" skipped=\"\(skipped)\" "
            + "time=\"\(seconds(time))\""
    }

    private func testCase(_ entry: Entry) -> [String] {
        let head =
            "    <testcase name=\(Self.attribute(entry.name)) classname=\(Self.attribute(file)) time=\"\(Self.seconds(entry.duration))\""
        let about = "\(entry.method) \(entry.target)"
        func element(_ name: String, _ failures: [Failure]) -> String {
            let message = failures.map(\.message).joined(separator: "; ")
            let text = failures.map { "\($0.place): \($0.message)" }.joined(separator: "\n")
            return "      <\(name) message=\(Self.attribute(message))>\(Self.escaped("\(about)\n\(text)"))</\(name)>"
        }
        switch entry.outcome {
        case .passed: return [head + "/>"]
        case .failed(let failures): return [head + ">", element("failure", failures), "    </testcase>"]
        case .error(let failure, _): return [head + ">", element("error", [failure]), "    </testcase>"]
        case .skipped: return [head + ">", "      <skipped/>", "    </testcase>"]
        }
    }

    private static func seconds(_ duration: Duration) -> String {
        let milliseconds = duration.microseconds / 1_000
        return "\(milliseconds / 1_000)." + "\(milliseconds % 1_000)".padded(toStart: 3, with: "0")
    }

    private static func attribute(_ text: String) -> String { "\"\(escaped(text).replacing("\n", with: "&#10;"))\"" }

    /// Escapes what means something in XML 1.0, and replaces what it does not allow.
    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            switch scalar {
            case "&": "&amp;"
            case "<": "&lt;"
            case ">": "&gt;"
            case "\"": "&quot;"
            case "\n", "\t": String(scalar)
            case "\r": "&#13;"
            case _ where scalar.value < 0x20 || scalar.value == 0xFFFE || scalar.value == 0xFFFF: "\u{FFFD}"
            default: String(scalar)
            }
        }.joined()
    }
}
