import LATNetworking

/// Where the demo shows itself: a title, the call as it stands in Swift, what came of it, and its timings.
struct DemoStage: Sendable {
    private let console: Console
    private let style: Style

    init(_ console: Console) {
        self.console = console
        style = console.outStyle
    }

    func open(address: String) throws {
        let name = style.bold("LATNetworking \(VersionCommand.version)")
        try console.print("\(name), talking to a server in this process")
        try console.print(style.dim("central is a CentralRequestManager with baseURL \(address)"))
    }

    func step(_ number: Int, _ title: String, _ call: String) throws {
        try console.print("\n\(style.bold("\(number)  \(title)"))")
        for line in call.split(separator: "\n", omittingEmptySubsequences: false) {
            try console.print("   " + style.cyan(String(line)))
        }
    }

    /// A bar for the step that runs.
    func bar(_ label: String) -> ProgressLine {
        ProgressLine("   \(label)", on: console.err, console.errTerminal, isActive: true, delay: .zero)
    }

    func show(_ outcome: DemoOutcome) throws {
        let sign = outcome.isExpected ? style.green(style.sign("✓", "ok")) : style.red(style.sign("✗", "failed:"))
        for (index, line) in wrapped(outcome.text).enumerated() {
            try console.print("   " + (index == 0 ? sign + " " : "  ") + line)
        }
        if let timings = outcome.timings { try console.print("     " + row(timings, outcome.total)) }
        if let figures = outcome.figures { try console.print("     " + columns(figures)) }
    }

    func close(succeeded: Int, of count: Int, after time: Duration) throws {
        let text = "\(succeeded) of \(count) steps went as they should, in \(Quantity.duration(time))"
        try console.print("\n" + (succeeded == count ? style.green(text) : style.red(text)))
        guard succeeded == count else { return }
        try console.print(style.dim("Next: lat help, lat request GET URL, and the README for these calls in code."))
    }

    /// The stages of a transfer, each step's in the same columns.
    private func row(_ timings: Timings, _ total: Duration?) -> String {
        let stages = [
            ("dns", timings.nameLookup), ("connect", timings.connect), ("first byte", timings.firstByte),
            ("total", total ?? timings.total),
        ]
        let times = stages.map { name, duration in
            (name, duration.map { Quantity.duration($0) } ?? style.sign("–", "-"))
        }
        return columns(times + [("reused", timings.connectionReused ? "yes" : "no")])
    }

    private func columns(_ figures: [(name: String, value: String)]) -> String {
        figures.map { name, value in
            let padding = String(repeating: " ", count: max(0, 7 - value.count))
            return style.dim(name) + " " + (name == "reused" ? value : value + padding)
        }.joined(separator: "  ")
    }

    /// A long sentence in lines that fit the width of a narrow terminal.
    private func wrapped(_ text: String) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            if !lines[lines.count - 1].isEmpty, lines[lines.count - 1].count + word.count + 1 > 74 { lines.append("") }
            lines[lines.count - 1] += (lines[lines.count - 1].isEmpty ? "" : " ") + word
        }
        return lines
    }
}

/// What a step came to.
struct DemoOutcome: Sendable {
    var isExpected: Bool
    var text: String
    var timings: Timings?
    /// The time of the whole where the timings cannot know it, as of a stream.
    var total: Duration?
    /// Other numbers worth a look.
    var figures: [(name: String, value: String)]?
}
