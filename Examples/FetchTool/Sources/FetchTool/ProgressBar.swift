import Foundation
import LATNetworking

/// Shows progress on standard error: a bar on a terminal, elsewhere a line for every tenth.
struct ProgressBar {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var tenths = -1

    mutating func show(_ progress: TransferProgress) {
        guard let fraction = progress.fraction else { return }
        if isTerminal {
            let filled = Int(fraction * 30)
            let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 30 - filled)
            let rate = progress.bytesPerSecond.map { "\(Int($0) >> 10) KiB/s" } ?? ""
            let left = progress.estimatedTimeRemaining.map { "\($0.components.seconds + 1) s left" } ?? ""
            write("\r\(bar) \(Int(fraction * 100)) %  \(rate)  \(left)\u{1B}[K")
        } else {
            while tenths < Int(fraction * 10) {
                tenths += 1
                write("\(tenths * 10) %\n")
            }
        }
    }

    /// Removes the bar, so that it is not mixed with what is printed next.
    func clear() { if isTerminal { write("\r\u{1B}[K") } }

    private func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
