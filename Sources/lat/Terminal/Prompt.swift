import Dispatch
import Glibc
import Synchronization

extension Console {
    /// Whether there is somebody to ask: standard input and standard error are a terminal.
    var canAsk: Bool { errTerminal.isTerminal && isatty(STDIN_FILENO) == 1 }

    /// Asks on standard error for a line of standard input.
    ///
    /// - Returns: The line; `nil` when the input ended, as with Ctrl-D.
    /// - Throws: `CancellationError` after Ctrl-C.
    func ask(_ question: String) async throws -> String? {
        try err.write(errStyle.bold("\(SafeText.line(question)):") + " ")
        do {
            return try await InputLine.next()
        } catch {
            // The terminal has shown ^C in this line.
            note("")
            throw error
        }
    }
}

/// A line of standard input, awaited without blocking a thread.
private final class InputLine: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var waiter: CheckedContinuation<String?, any Error>?
        var result: Result<String?, any Error>?
    }

    private let state = Mutex(State())

    static func next() async throws -> String? {
        let line = InputLine()
        let source = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO, queue: .global())
        source.setEventHandler { line.read() }
        source.resume()
        defer { source.cancel() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { line.wait($0) }
        } onCancel: {
            line.end(.failure(CancellationError()))
        }
    }

    private func wait(_ continuation: CheckedContinuation<String?, any Error>) {
        let result = state.withLock { state in
            if state.result == nil { state.waiter = continuation }
            return state.result
        }
        if let result { continuation.resume(with: result) }
    }

    /// A terminal gives one line at a time, when it is complete. Bytes without a line end come from a Ctrl-D within the
    /// line, and reading goes on.
    private func read() {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = Glibc.read(STDIN_FILENO, &buffer, buffer.count)
        guard count > 0 else {
            if count == 0 || (errno != EINTR && errno != EAGAIN) { end(.success(nil)) }
            return
        }
        let line = state.withLock { state -> String? in
            state.bytes += buffer[..<count]
            guard state.bytes.last == UInt8(ascii: "\n") else { return nil }
            return String(decoding: state.bytes.dropLast(), as: UTF8.self)
        }
        if let line { end(.success(line)) }
    }

    /// Only the first result counts.
    private func end(_ result: Result<String?, any Error>) {
        let waiter = state.withLock { state -> CheckedContinuation<String?, any Error>? in
            guard state.result == nil else { return nil }
            state.result = result
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(with: result)
    }
}
