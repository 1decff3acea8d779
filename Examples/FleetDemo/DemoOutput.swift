import Glibc
import Synchronization

/// The output of the demo.
final class DemoOutput: Sendable {
    private let counts = Mutex((steps: 0, good: 0))
    private let isColoured = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil
    private let width = 78

    /// Prints a line at once, also into a pipe.
    private func print(_ line: String) {
        Swift.print(line)
        fflush(nil)
    }

    func open(_ processes: [pid_t], _ server: String) {
        print(bold("LATFleet: \(processes.count) processes, one Redis, and an origin server that counts requests"))
        print(dim("\(server) on a Unix socket; processes \(processes.map { "\($0)" }.joined(separator: ", "))"))
    }

    func step(_ title: String, _ text: String) {
        let number = counts.withLock { counts in
            counts.steps += 1
            return counts.steps
        }
        print("\n" + bold("\(number)  \(title)"))
        for line in wrapped(text, 3) { print("   " + line) }
    }

    /// - Parameters:
    ///   - isGood: Whether the outcome is the expected one.
    ///   - figures: Numbers to show below it.
    func show(_ isGood: Bool, _ text: String, _ figures: [(String, Int)], _ whole: PhaseReport) {
        if isGood { counts.withLock { $0.good += 1 } }
        for (index, line) in wrapped(text, 5).enumerated() {
            print("   " + (index == 0 ? (isGood ? green("✓") : red("✗")) : " ") + " " + line)
        }
        let shown = figures.map { "\($0) \(Self.grouped($1))" } + [Self.seconds(whole.seconds)]
        print("     " + dim(shown.joined(separator: "   ")))
        if let failure = whole.failure {
            for line in wrapped("first failure: \(failure)", 5) { print("     " + red(line)) }
        }
    }

    /// - Returns: whether every step had the expected outcome.
    func close(after time: Duration) -> Bool {
        let (steps, good) = counts.withLock { $0 }
        let text = "\(good) of \(steps) steps succeeded, in \(Self.seconds(time / .seconds(1)))"
        print("\n" + (good == steps ? bold(text) : red(text)))
        return good == steps
    }

    // MARK: Texts

    static func grouped(_ number: Int) -> String {
        let digits = String(number)
        return digits.count > 3 ? "\(grouped(number / 1_000)),\(digits.suffix(3))" : digits
    }

    static func seconds(_ seconds: Double) -> String {
        if seconds < 1 { return "\(Int((seconds * 1_000).rounded(.up))) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }

    private func wrapped(_ text: String, _ indent: Int) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + 1 + word.count <= width - indent {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }

    private func paint(_ text: String, _ code: Int) -> String { isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }
    private func bold(_ text: String) -> String { paint(text, 1) }
    private func dim(_ text: String) -> String { paint(text, 2) }
    private func green(_ text: String) -> String { paint(text, 32) }
    private func red(_ text: String) -> String { paint(text, 31) }
}
