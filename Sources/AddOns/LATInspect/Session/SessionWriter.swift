internal import CLinux
internal import Dispatch
internal import FoundationEssentials
internal import Glibc
internal import LATNetworking
internal import Platform
internal import Synchronization

/// What a program sends to `lat inspect`, as a line of JSON: first its name, then the newest record of each call that changed.
struct SessionMessage: Codable {
    var program: String?
    var record: CallRecord?
    /// How many calls were made faster than they could be sent, and are gone.
    var missed: Int?

    /// The longest line that is read. A record has bodies and messages of less than 1 MiB.
    static let longestLine = 64 << 20
}

/// Sends the records of an inspector's calls to the socket of `lat inspect`, and the last ones when the process ends.
final class SessionWriter: ProcessExitObserver, Sendable {
    private let calls: InspectedCalls
    private let reader: InspectedCalls.Reader
    /// The socket; -1 after a failure. Held while records are sent, so that they stay in order.
    private let socket: Mutex<Int32>
    private let queue = DispatchQueue(label: "lat-session")
    private let task = Mutex<Task<Void, Never>?>(nil)
    /// How many bytes are sent in a second at most while calls change, because each change sends a whole record.
    private static let rate = 4 << 20

    static func isSocket(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// - Throws: ``SystemError`` when nothing listens.
    init(_ calls: InspectedCalls, program: String, path: String) throws(SystemError) {
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard socket >= 0, let address = SocketAddress(unixPath: path), address.call(connect, socket) else {
            let error = SystemError("connecting to \(path) for the inspector")
            if socket >= 0 { close(socket) }
            throw error
        }
        // A page that no longer reads must not keep the program from ending.
        var limit = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        self.calls = calls
        self.socket = Mutex(socket)
        reader = calls.addReader()
        _ = self.socket.withLock { Self.send(SessionMessage(program: program), on: &$0) }
        ProcessEnd.register(self)
        let sending = Task { [weak self, reader] in
            while !Task.isCancelled {
                await reader.change()
                guard let size = await self?.sentLater() else { return }
                let pause = max(Duration.milliseconds(50), .seconds(1) * (Double(size) / Double(Self.rate)))
                try? await Task.sleep(for: pause)
            }
        }
        task.withLock { $0 = sending }
    }

    deinit {
        task.withLock { $0?.cancel() }
        calls.remove(reader)
        let socket = socket.withLock { $0 }
        if socket >= 0 { close(socket) }
    }

    func processWillExit() { sendChanges() }

    /// Sends on a queue, because a full socket blocks.
    private func sentLater() async -> Int {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.sendChanges()) }
        }
    }

    /// - Returns: How many bytes were sent.
    @discardableResult
    private func sendChanges() -> Int {
        socket.withLock { socket in
            var (size, missed) = (0, 0)
            while socket >= 0, case let ids = calls.changes(for: reader, limit: 250), !ids.isEmpty {
                for id in ids {
                    guard let record = calls.record(id)?.record else {
                        missed += 1
                        continue
                    }
                    size += Self.send(SessionMessage(record: record), on: &socket)
                }
            }
            missed += calls.missed(by: reader)
            if missed > 0 { size += Self.send(SessionMessage(missed: missed), on: &socket) }
            return size
        }
    }

    private static func send(_ message: SessionMessage, on socket: inout Int32) -> Int {
        guard socket >= 0, var line = try? JSONEncoder().encode(message) else { return 0 }
        line.append(0x0A)
        var rest = line[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count == 0 || errno != EINTR {
                if errno == EAGAIN {
                    RequestLog.standardError(
                        "lat inspect has not read for 2 seconds, so it shows no further calls of this program")
                }
                close(socket)
                socket = -1
                return 0
            }
        }
        return line.count
    }
}
