import FoundationEssentials
import LATNetworking
import Synchronization

/// Shows what becomes of the servers that are watched: on a terminal a table that is drawn over itself, else a line for
/// each change.
final class ProbeView: Sendable {
    private let console: Console
    private let format: OutputFormat
    /// How many lines of the last drawing are on the screen; `nil` before the first.
    private let drawn = Mutex<Int?>(nil)

    init(_ console: Console, _ format: OutputFormat) {
        self.console = console
        self.format = format
    }

    private var redraws: Bool { format == .text && console.outTerminal.canRedraw }

    /// - Parameter changed: which of them has changed; `nil` for none in particular. Without a terminal, and the first
    ///   time, all are shown then.
    func show(_ reports: [ReachabilityReport], changed: Int?) throws {
        try drawn.withLock { drawn in
            if redraws {
                // One column stays free: a full line would wrap on some terminals.
                let columns = Terminal.width(of: console.out.descriptor) - 1
                let lines = ProbeTable(reports: reports).lines(console.outStyle, columns: columns)
                let up = drawn.map { "\u{1B}[\($0)A" } ?? ""
                try console.out.write(up + lines.map { "\r\($0)\u{1B}[K\n" }.joined())
                drawn = lines.count
                return
            }
            let shown = drawn == nil ? Array(reports.indices) : changed.map { [$0] } ?? []
            drawn = 0
            for index in shown { try print(reports[index]) }
        }
    }

    private func print(_ report: ReachabilityReport) throws {
        if format == .json { return try console.out.write(ProbeTable.value(report).description + "\n") }
        let style = console.outStyle
        let facts = [report.status.latency.map(Quantity.duration), report.status.address].compactMap { $0 }
        let time = (report.date ?? .now).ISO8601Format()
        try console.print(
            [
                time, SafeText.line(report.target),
                ProbeTable.painted(ProbeTable.words(report.status), report.status, style),
            ]
            .joined(separator: "  ") + (facts.isEmpty ? "" : "  " + facts.joined(separator: "  ")))
    }
}
