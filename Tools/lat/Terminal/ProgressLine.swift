import FoundationEssentials
import Synchronization

/// A progress bar that redraws itself on a terminal. Elsewhere it does nothing. It appears after a delay, so that short
/// transfers do not flicker.
final class ProgressLine: Sendable {
    private struct State {
        var rate = TransferRate()
        var lastDrawn: Duration?
        var isShown = false
        var isOver = false
    }

    private let console: Console
    private let label: String
    private let delay: Duration
    private let start = ContinuousClock.now
    private let state = Mutex(State())

    /// - Parameter delay: how long nothing is drawn.
    init(_ label: String, on console: Console, delay: Duration = .milliseconds(400)) {
        self.console = console
        self.label = label
        self.delay = delay
    }

    /// Shows the progress, at most about fifteen times a second.
    func update(_ completed: Int64, of total: Int64?) {
        guard console.errTerminal.canRedraw else { return }
        let now = ContinuousClock.now - start
        state.withLock { state in
            guard !state.isOver else { return }
            state.rate.note(completed, at: now)
            let isDue = state.lastDrawn.map { now - $0 >= .milliseconds(66) } ?? (now >= delay)
            guard isDue || (state.isShown && completed == total) else { return }
            state.lastDrawn = now
            state.isShown = true
            let bar = ProgressBar(label: label, completed: completed, total: total, rate: state.rate.bytesPerSecond)
            let line = bar.line(columns: console.err.columns, style: console.errStyle)
            try? console.err.write("\r\(line)\u{1B}[K")
        }
    }

    /// Clears the line. Nothing is drawn after that.
    func clear() {
        state.withLock { state in
            if state.isShown, !state.isOver { try? console.err.write("\r\u{1B}[K") }
            state.isOver = true
        }
    }
}

/// The progress of a transfer as one line of text: a pure value.
///
/// `report.iso  ━━━━━━━━━━━━━━━━━━━━━━━━  61%  2.44/4.00 MiB  1.02 MiB/s  2 s left`
struct ProgressBar: Hashable, Sendable {
    var label: String
    var completed: Int64
    var total: Int64?
    /// Bytes per second; `nil` while unknown.
    var rate: Double?

    /// The line, at most as wide as the columns.
    func line(columns: Int, style: Style) -> String {
        guard let total, total > 0 else {
            let facts = [Quantity.bytes(completed), rateText].compactMap { $0 }.joined(separator: "  ")
            return fitted("\(label)  \(facts)", columns)
        }
        let fraction = min(1, Double(completed) / Double(total))
        // Each fact has a minimum width, so that the width of the bar seldom changes.
        var facts = [
            "\(Int(fraction * 100))%".padded(toStart: 4), amountText(total).padded(toStart: 13),
            (rateText ?? "").padded(toStart: 10), (timeLeftText(total) ?? "").padded(toEnd: 9),
        ]
        // Facts that do not fit are dropped from the end. The bar takes the remaining width.
        var tail = facts.joined(separator: "  ")
        while facts.count > 1, label.count + tail.count + 4 + Self.narrowestBar > columns {
            facts.removeLast()
            tail = facts.joined(separator: "  ")
        }
        let width = min(Self.widestBar, columns - label.count - tail.count - 4)
        guard width >= 4 else { return fitted("\(label)  \(tail)", columns) }
        return "\(label)  \(bar(fraction, width, style))  \(tail)"
    }

    private static let narrowestBar = 8
    private static let widestBar = 40

    private func bar(_ fraction: Double, _ width: Int, _ style: Style) -> String {
        let filled = Int(fraction * Double(width))
        let rest = width - filled
        guard style.isUnicode else {
            let inner = width - 2
            let signs = Int(fraction * Double(inner))
            return "[" + String(repeating: "#", count: signs) + String(repeating: ".", count: inner - signs) + "]"
        }
        let done = String(repeating: "━", count: filled)
        // Without colours, the two parts would look the same.
        let open = String(repeating: style.isColoured ? "━" : "╌", count: rest)
        return (filled > 0 ? style.green(done) : "") + (rest > 0 ? style.dim(open) : "")
    }

    /// An amount such as `1.50/4.00 MiB`, with both units when they differ.
    private func amountText(_ total: Int64) -> String {
        let done = Quantity.bytes(completed).split(separator: " ")
        let whole = Quantity.bytes(total).split(separator: " ")
        let start = done.last == whole.last ? String(done[0]) : done.joined(separator: " ")
        return "\(start)/\(whole.joined(separator: " "))"
    }

    private var rateText: String? { rate.map { "\(Quantity.bytes(Int64($0)))/s" } }

    private func timeLeftText(_ total: Int64) -> String? {
        guard let rate, rate > 0, completed < total else { return nil }
        let seconds = (Double(total - completed) / rate).rounded(.up)
        guard seconds < 360_000 else { return nil }
        return seconds < 60 ? "\(Int(seconds)) s left" : "\(Quantity.duration(.seconds(Int(seconds)))) left"
    }

    private func fitted(_ text: String, _ columns: Int) -> String {
        text.count <= columns ? text : String(text.prefix(max(0, columns)))
    }
}

/// The speed of a transfer, smoothed over about two seconds.
struct TransferRate: Sendable {
    private var last: (time: Duration, completed: Int64)?
    private(set) var bytesPerSecond: Double?

    /// Adds a sample: the progress at a time since the start.
    mutating func note(_ completed: Int64, at time: Duration) {
        // The system's buffers take the first bytes at once, so the rate at the start is not that of the network.
        guard time >= .milliseconds(200) else { return }
        guard let last else {
            self.last = (time, completed)
            return
        }
        let seconds = (time - last.time) / .seconds(1)
        // A rate over a shorter interval is too inexact.
        guard seconds >= 0.05 else { return }
        let current = Double(max(0, completed - last.completed)) / seconds
        let weight = min(1, seconds / 2)
        bytesPerSecond = bytesPerSecond.map { $0 + (current - $0) * weight } ?? current
        self.last = (time, completed)
    }
}
