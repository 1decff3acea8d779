import LATNetworking

/// Shows the steps of an examination.
struct DoctorReport {
    private let style: Style

    init(_ style: Style) { self.style = style }

    func lines(of step: DoctorStep) -> [String] {
        let sign =
            switch step.outcome {
            case .good: style.green(style.sign("✓", "ok"))
            case .warning: style.yellow("!")
            case .refusal, .failure: style.red(style.sign("✗", "x"))
            }
        let time = step.duration.map { style.dim("  " + Quantity.duration($0)) } ?? ""
        let margin = String(repeating: " ", count: 12)
        var lines = ["\(sign) \(style.bold(step.name.padded(toEnd: 9))) \(SafeText.line(step.finding))\(time)"]
        lines += step.details.map { style.dim(margin + SafeText.line($0)) }
        if let advice = step.advice {
            lines.append(margin + style.yellow(style.sign("→", "->")) + " " + SafeText.line(advice))
        }
        return lines
    }

    /// One line at the end.
    func verdict(_ steps: [DoctorStep]) -> String {
        if let failed = steps.first(where: { $0.outcome == .failure }) {
            return style.red("It ends at \(failed.name).")
        }
        if let refused = steps.first(where: { $0.outcome == .refusal }) {
            return style.red("The server answers, with a failure: \(SafeText.line(refused.finding)).")
        }
        let warnings = steps.count { $0.outcome == .warning }
        if warnings > 0 {
            return style.yellow("It works; \(warnings == 1 ? "one thing" : "\(warnings) things") to know.")
        }
        return style.green("All is well.")
    }

    static func exitCode(_ steps: [DoctorStep]) -> ExitCode {
        if steps.contains(where: { $0.outcome == .failure }) { return .network }
        return steps.contains { $0.outcome == .refusal } ? .failure : .success
    }

    /// One object; durations in milliseconds, what is not known is null.
    static func json(_ url: String?, _ steps: [DoctorStep]) -> JSONValue {
        [
            "url": url.map { .string($0) } ?? .null,
            "healthy": .bool(exitCode(steps) == .success),
            "steps": .array(
                steps.map { step in
                    [
                        "name": .string(step.name), "outcome": .string(step.outcome.rawValue),
                        "finding": .string(step.finding),
                        "duration": step.duration.map { .double(Double($0.microseconds) / 1_000) } ?? .null,
                        "details": .array(step.details.map { .string($0) }),
                        "advice": step.advice.map { .string($0) } ?? .null,
                    ]
                }),
        ]
    }
}
