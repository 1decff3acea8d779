import FoundationEssentials
import Synchronization

/// Draws a progress bar over itself on a terminal. On anything else it does nothing.
///
/// The first line appears only after a moment, so that short transfers do not flicker.
final class ProgressLine: Sendable {
    private struct State {
        var rate = TransferRate()
        var lastDrawn: Duration?
        var isShown = false
        var isOver = false
    }

    private let output: Output
    private let style: Style
    private let label: String
    private let isActive: Bool
    private let delay: Duration
    private let start = ContinuousClock.now
    private let state = Mutex(State())

    /// - Parameter delay: how long nothing is drawn.
    init(_ label: String, on output: Output, _ terminal: Terminal, isActive: Bool, delay: Duration = .milliseconds(400))
    {
        self.output = output
        self.label = label
        self.delay = delay
        self.isActive = isActive && terminal.canRedraw
        style = Style(terminal)
    }

    /// Shows how far the transfer is, at most about fifteen times a second.
    func update(_ completed: Int64, of total: Int64?) {
        guard isActive else { return }
        let now = ContinuousClock.now - start
        state.withLock { state in
            guard !state.isOver else { return }
            state.rate.note(completed, at: now)
            let isDue = state.lastDrawn.map { now - $0 >= .milliseconds(66) } ?? (now >= delay)
            guard isDue || (state.isShown && completed == total) else { return }
            state.lastDrawn = now
            state.isShown = true
            let bar = ProgressBar(label: label, completed: completed, total: total, rate: state.rate.bytesPerSecond)
            // One column stays free: a full line would wrap on some terminals.
            let line = bar.line(columns: Terminal.width(of: output.descriptor) - 1, style: style)
            try? output.write("\r\(line)\u{1B}[K")
        }
    }

    /// Takes the line away. Nothing is drawn after it.
    func clear() {
        state.withLock { state in
            if state.isShown, !state.isOver { try? output.write("\r\u{1B}[K") }
            state.isOver = true
        }
    }
}
