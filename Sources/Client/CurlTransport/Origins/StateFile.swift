import Dispatch
import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform
import Synchronization

/// A small text file that mirrors state in memory. It is read once and written on a queue of its own, never on the
/// engine's thread. Each write puts the own changes into what the file has then, because other processes may share it.
final class StateFile: Sendable {
    let path: String
    /// The name of the setting, for error messages.
    private let setting: String
    private let warn: @Sendable (String) -> Void
    /// What a line is about: a line that this store has changed takes the place of all others about the same.
    private let subject: @Sendable (String) -> String?
    private let queue = DispatchQueue(label: "latnetworking.state-file")
    private let state = Mutex(State())

    private struct State {
        var isScheduled = false
        var hasWarned = false
        /// The lines that this store last read or wrote. Others may have added theirs.
        var saved: Set<String> = []
    }

    init(
        _ path: String, _ setting: String, warn: @escaping @Sendable (String) -> Void,
        subject: @escaping @Sendable (String) -> String?
    ) {
        self.path = PathParts.absolute(path)
        self.setting = setting
        self.warn = warn
        self.subject = subject
    }

    /// Passes each line to a closure, except comments and empty lines; none when there is no file yet. Throws when the
    /// closure returns `false`, which means that the line is malformed.
    func read(expecting form: String, _ add: (Substring) -> Bool) throws(NetworkError) {
        if access(path, F_OK) != 0 {
            var reason = errno
            if reason == ENOENT {
                if access(URL(filePath: path).deletingLastPathComponent().path, W_OK | X_OK) == 0 { return }
                // Why no file can be made in the folder.
                reason = errno
            }
            throw refusal("cannot be used: \(SystemError(code: reason).text); give a file in a folder that exists")
        }
        let data: Data
        do {
            data = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw NetworkError(
                .invalidRequest,
                message: "\(setting): the file \"\(path)\" cannot be read (\(NetworkError.reason(of: error))); name "
                    + "another, or set .off",
                underlying: error)
        }
        guard data.count < 16 << 20, let text = String(data: data, encoding: .utf8), !text.utf8.contains(0) else {
            throw refusal("is not UTF-8 text of less than 16 MiB")
        }
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated()
        where !line.hasPrefix("#") && !line.allSatisfy(\.isWhitespace) && !add(line) {
            throw refusal("is malformed in line \(index + 1), expected \(form); correct or delete the line")
        }
        state.withLock { $0.saved = Set(Self.lines(of: text)) }
    }

    /// The lines, without comments and empty ones.
    private static func lines(of text: String) -> [String] {
        text.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("#") && !$0.allSatisfy(\.isWhitespace) }
            .map(String.init)
    }

    private func refusal(_ reason: String) -> NetworkError {
        .invalidRequest("\(setting): the file \"\(path)\" \(reason)")
    }

    /// Schedules a write. The file's queue calls the closure for the text, so that one write covers many changes.
    func follow(_ text: @escaping @Sendable () -> String) {
        let isFirst = state.withLock { state in
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        guard isFirst else { return }
        queue.async { [self] in
            state.withLock { $0.isScheduled = false }
            write(text())
        }
    }

    /// Returns when all scheduled writes are done.
    func flush() async {
        await withUnsafeContinuation { continuation in queue.async { continuation.resume() } }
    }

    private func write(_ text: String) {
        let own = Self.lines(of: text)
        let saved = state.withLock { $0.saved }
        let failure = AtomicFile.exclusively(path) { () -> SystemError? in
            do throws(SystemError) {
                try AtomicFile.write(merged(text, own, saved).utf8, to: path, isShared: true)
                return nil
            } catch {
                return error
            }
        }
        if failure == nil { state.withLock { $0.saved = Set(own) } }
        report(failure)
    }

    /// The text with the lines that others have added, and without those that they have removed.
    private func merged(_ text: String, _ own: [String], _ saved: Set<String>) -> String {
        guard AtomicFile.isReplaceable(path), let data = try? Data(contentsOf: URL(filePath: path)),
            data.count < 16 << 20, let present = String(data: data, encoding: .utf8)
        else { return text }
        let lines = Self.lines(of: present)
        // A file that was deleted or emptied is made again.
        guard !lines.isEmpty else { return text }
        let (removed, known) = (saved.subtracting(lines), saved.union(own))
        let changed = Set(own.filter { !saved.contains($0) }.compactMap(subject))
        let others = lines.filter { line in
            !known.contains(line) && subject(line).map { !changed.contains($0) } ?? false
        }
        let comments = text.split(separator: "\n").filter { $0.hasPrefix("#") }.map(String.init)
        return (comments + own.filter { !removed.contains($0) } + others).reduce(into: "") { $0 += "\($1)\n" }
    }

    private func report(_ failure: SystemError?) {
        let isNew = state.withLock { state in
            defer { state.hasWarned = failure != nil }
            return !state.hasWarned
        }
        guard isNew, let failure else { return }
        warn("\(setting): the file \"\(path)\" cannot be written: \(failure.text); its content is kept in memory")
    }
}

/// Dates in the format of libcurl's files: `20271231 23:59:59`, in UTC.
enum StateDate {
    static func text(_ seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var buffer = [CChar](repeating: 0, count: 32)
        let count = strftime(&buffer, buffer.count, "%Y%m%d %H:%M:%S", &parts)
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Parses a date; `nil` when it has another form, or a day or time that does not exist.
    static func seconds(_ text: some StringProtocol) -> Int64? {
        let digits = text.utf8.filter { (0x30...0x39).contains($0) }.map { CInt($0 - 0x30) }
        guard text.utf8.count == 17, digits.count == 14 else { return nil }
        func number(_ range: Range<Int>) -> CInt { digits[range].reduce(0) { $0 * 10 + $1 } }
        var parts = tm()
        parts.tm_year = number(0..<4) - 1900
        parts.tm_mon = number(4..<6) - 1
        parts.tm_mday = number(6..<8)
        parts.tm_hour = number(8..<10)
        parts.tm_min = number(10..<12)
        parts.tm_sec = number(12..<14)
        let seconds = Int64(timegm(&parts))
        // `timegm` takes day 31 of February for a day in March.
        return self.text(seconds) == text ? seconds : nil
    }
}
