import Demo
import LATNetworking

/// The output of the demo: for each step a title, the call in Swift, the outcome and its timings.
struct DemoOutput: DemoDisplay {
    let console: Console
    private var style: Style { console.outStyle }
    private var width: Int { min(Terminal.standardWidth, console.textWidth) }

    func open(address: String) throws {
        try print("LATNetworking \(VersionCommand.version), talking to a server in this process", style.bold)
        try print("central is a CentralRequestManager with baseURL \(address)", style.dim)
    }

    func step(_ number: Int, _ title: String, _ call: String) throws {
        try console.print("")
        for (index, row) in title.wrapped(to: width - 3).enumerated() {
            try console.print(style.bold((index == 0 ? "\(number)" : "").padded(toEnd: 3) + row))
        }
        // Code has the colour of the terminal's text, which is legible on every background.
        for line in call.split(separator: "\n", omittingEmptySubsequences: false) {
            let depth = line.prefix { $0 == " " }.count
            let isNarrow = line.count + 3 > width
            let rows = isNarrow ? String(line).wrapped(to: width - 5 - depth) : [String(line.dropFirst(depth))]
            for (index, row) in rows.enumerated() {
                try console.print(String(repeating: " ", count: 3 + depth + (index > 0 ? 2 : 0)) + row)
            }
        }
    }

    private func print(_ text: String, _ paint: (String) -> String) throws {
        for row in text.wrapped(to: width) { try console.print(paint(row)) }
    }

    func bar(_ label: String) -> any DemoBar { ProgressLine("   \(label)", on: console, delay: .zero) }
    func bytes(_ count: Int64) -> String { Quantity.bytes(count) }
    func duration(_ duration: Duration) -> String { Quantity.duration(duration) }
    func grouped(_ number: Int) -> String { Quantity.grouped(number) }

    func show(_ outcome: DemoOutcome) throws {
        let sign = outcome.isExpected ? style.green(style.sign("✓", "ok")) : style.red(style.sign("✗", "failed:"))
        for (index, line) in SafeText.line(outcome.text).wrapped(to: width - 6).enumerated() {
            try console.print("   " + (index == 0 ? sign + " " : "  ") + line)
        }
        if let timings = outcome.timings { try show(stages(timings, outcome.total)) }
        if let figures = outcome.figures { try show(figures) }
    }

    func close(succeeded: Int, of count: Int, after time: Duration) throws {
        let text = "\(succeeded) of \(count) steps succeeded, in \(Quantity.duration(time))"
        try console.print("\n" + (succeeded == count ? style.bold(text) : style.red(text)))
        guard succeeded == count else { return }
        try console.print("\n" + style.bold("Try next"))
        for (command, purpose) in Self.suggestions {
            try console.print("  \(DemoCommand.program) \(command)")
            try console.print("    " + style.dim(purpose))
        }
    }

    /// Commands that need neither a file nor a network.
    static let suggestions = [
        (command: "doctor", purpose: "checks this machine's network"),
        (command: "help start", purpose: "how to call a row of a table"),
        (command: "demo --serve", purpose: "a server for the examples in help"),
    ]

    private func stages(_ timings: Timings, _ total: Duration?) -> [(name: String, value: String)] {
        let stages = [
            ("dns", timings.nameLookup), ("connect", timings.connect), ("first byte", timings.firstByte),
            ("total", total ?? timings.total),
        ]
        let times = stages.map { name, duration in
            (name, duration.map { Quantity.duration($0) } ?? style.sign("–", "-"))
        }
        return times + [("reused", timings.connectionReused ? "yes" : "no")]
    }

    /// Prints figures in columns, in as many lines as the width needs. The columns are the same for every step.
    private func show(_ figures: [(name: String, value: String)]) throws {
        var row = ""
        var used = 0
        var gap = ""
        for (name, value) in figures {
            // The padding after the last figure of a line needs no room.
            if used > 0, 5 + used + name.count + 1 + value.count > width {
                try console.print("     " + row)
                (row, used, gap) = ("", 0, "")
            }
            row += gap + style.dim(name) + " " + value
            gap = String(repeating: " ", count: max(0, 7 - value.count) + 2)
            used += name.count + 1 + value.count + gap.count
        }
        try console.print("     " + row)
    }
}

extension ProgressLine: DemoBar {}
