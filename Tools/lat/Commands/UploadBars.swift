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

/// The bars of an upload, which redraw themselves on a terminal. Elsewhere they do nothing. They appear after a delay, so
/// that short uploads do not flicker.
final class UploadBars {
    private let console: Console
    private let start = ContinuousClock.now
    private var lineCount = 0

    init(on console: Console) { self.console = console }

    func update(_ progress: TransferProgress) {
        guard console.errTerminal.canRedraw, lineCount > 0 || ContinuousClock.now - start >= .milliseconds(400) else {
            return
        }
        let lines = UploadLayout(progress: progress).lines(columns: console.err.columns, style: console.errStyle)
        try? console.err.write(toTop + lines.joined(separator: "\u{1B}[K\n") + "\u{1B}[K")
        lineCount = lines.count
    }

    func clear() {
        guard lineCount > 0 else { return }
        try? console.err.write(toTop + "\u{1B}[J")
        lineCount = 0
    }

    private var toTop: String { lineCount > 1 ? "\r\u{1B}[\(lineCount - 1)A" : "\r" }
}
