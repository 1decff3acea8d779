import FoundationEssentials
import LATNetworking

/// The lines that show an upload: one for each file and one for the total. A pure value.
struct UploadLayout: Hashable, Sendable {
    var progress: TransferProgress
    /// The most lines for files. Further files are only counted.
    var maxFiles = 8

    /// The lines. Their number stays the same during an upload, and none is wider than the columns.
    func lines(columns: Int, style: Style) -> [String] {
        let files = progress.files
        guard files.count > 1 else {
            let label = files.first.map { Self.label($0) } ?? "sending"
            return [bar(label).line(columns: columns, style: style)]
        }
        let shown = window
        let whole = files.count > shown.count ? "all \(files.count)" : "all"
        let width = min(SafeText.widestLabel, max(whole.count, shown.map { Self.label(files[$0]).count }.max() ?? 0))
        var lines = shown.map { index in
            let file = files[index]
            let label = Self.label(file).padded(toEnd: width)
            let bar = ProgressBar(label: label, completed: file.completed, total: file.total)
            return sign(file.state, style) + " " + bar.line(columns: columns - 2, style: style)
        }
        lines.append("  " + bar(whole.padded(toEnd: width)).line(columns: columns - 2, style: style))
        return lines
    }

    private func bar(_ label: String) -> ProgressBar {
        ProgressBar(label: label, completed: progress.completed, total: progress.total, rate: progress.bytesPerSecond)
    }

    /// The files around the one that is being sent.
    private var window: Range<Int> {
        let files = progress.files
        let current = files.firstIndex { $0.state != .done } ?? files.count
        let start = max(0, min(current - maxFiles / 2, files.count - maxFiles))
        return start..<min(files.count, start + maxFiles)
    }

    private func sign(_ state: TransferProgress.File.State, _ style: Style) -> String {
        switch state {
        case .waiting: style.dim(style.sign("·", "."))
        case .uploading: style.blue(style.sign("↑", ">"))
        case .done: style.green(style.sign("✓", "+"))
        case .failed: style.red(style.sign("✗", "x"))
        }
    }

    private static func label(_ file: TransferProgress.File) -> String {
        SafeText.label(file.fileName ?? file.name)
    }
}

/// The bars of an upload, which redraw themselves on a terminal. Elsewhere they do nothing.
///
/// They appear after a delay, so that short uploads do not flicker.
final class UploadBars {
    private let output: Output
    private let style: Style
    private let isActive: Bool
    private let delay: Duration
    private let start = ContinuousClock.now
    private var lineCount = 0

    /// - Parameter delay: how long nothing is drawn.
    init(on output: Output, _ terminal: Terminal, delay: Duration = .milliseconds(400)) {
        self.output = output
        self.delay = delay
        isActive = terminal.canRedraw
        style = Style(terminal)
    }

    func update(_ progress: TransferProgress) {
        guard isActive, lineCount > 0 || ContinuousClock.now - start >= delay else { return }
        // One column stays free, because a full line would wrap on some terminals.
        let columns = Terminal.width(of: output.descriptor) - 1
        let lines = UploadLayout(progress: progress).lines(columns: columns, style: style)
        try? output.write(toTop + lines.joined(separator: "\u{1B}[K\n") + "\u{1B}[K")
        lineCount = lines.count
    }

    /// Clears the lines.
    func clear() {
        guard lineCount > 0 else { return }
        try? output.write(toTop + "\u{1B}[J")
        lineCount = 0
    }

    private var toTop: String { lineCount > 1 ? "\r\u{1B}[\(lineCount - 1)A" : "\r" }
}
