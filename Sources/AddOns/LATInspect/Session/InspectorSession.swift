internal import CLinux
package import FoundationEssentials
internal import Glibc
internal import LATNetworking
internal import Platform
internal import Synchronization

/// The calls of all programs that `lat inspect` has started, on one page. They stay when the programs have ended.
package final class InspectorSession: Sendable {
    private struct State {
        var programs: UInt64 = 0
        /// The connections that are open, and those of them that are being read.
        var open = 0
    }

    private let calls: InspectedCalls
    private let page: PageServer
    private let listener: Int32
    private let wakeUp: WakeUp
    private let state: StateBox

    private final class StateBox: Sendable {
        let value = Mutex(State())
    }

    /// The address of the page, with its key.
    package var address: String { page.address }
    /// How many programs have opened their inspector.
    package var programCount: Int { Int(state.value.withLock(\.programs)) }
    package var callCount: Int { calls.ids.count }
    /// How many calls are not shown: they came faster than they could be sent, or newer ones took their places.
    package var lostCount: Int { calls.lostCount }

    /// Serves the page, and listens for programs.
    ///
    /// - Parameters:
    ///   - path: the path of the socket, in a folder that only this user may enter.
    ///   - title: the title of the page.
    ///   - port: the port of the page; 0 for a free one.
    /// - Throws: ``NetworkError`` when the port or the path cannot be used.
    package init(path: String, title: String, port: Int) throws {
        let calls = InspectedCalls(countLimit: 100_000, byteLimit: 512 << 20, capture: BodyCapture())
        calls.setProgram("lat · resent", 0)
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard listener >= 0, let wakeUp = WakeUp(), let address = SocketAddress(unixPath: path),
            address.call(bind, listener),
            listen(listener, 64) == 0
        else {
            let error = SystemError("listening on \(path)")
            if listener >= 0 { close(listener) }
            throw NetworkError(.other, message: "\(error)")
        }
        do {
            page = try PageServer(.calls(calls), program: title, port: port, resender: Resender(calls))
        } catch {
            close(listener)
            throw error
        }
        self.calls = calls
        self.listener = listener
        self.wakeUp = wakeUp
        let state = StateBox()
        self.state = state
        let isStarted = BackgroundThread.start("lat-session") { Self.accept(listener, wakeUp, state, calls) }
        guard isStarted else {
            close(listener)
            throw NetworkError(.other, message: "the system refused to start a thread")
        }
    }

    /// Closes the page and the socket. Programs go on without them.
    package func stop() {
        page.stop()
        wakeUp.signal()
    }

    /// Waits until the programs that have ended have been read to their end, at most for a time. Those that still run are not
    /// waited for longer.
    package func settle(within limit: Duration) async {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline {
            var waiting = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
            if poll(&waiting, 1, 0) == 0, state.value.withLock({ $0.open }) == 0 { return }
            try? await Task.sleep(for: .milliseconds(10))
        }
    }

    /// All calls as a HAR file, which `lat inspect FILE` shows as the page does.
    package func har() -> Data {
        let lost = lostCount
        return PageHAR.data(
            of: calls.ids, calls, comment: lost > 0 ? "\(lost) more calls were made, which were not kept" : nil)
    }

    // MARK: Threads

    private static func accept(_ listener: Int32, _ wakeUp: WakeUp, _ state: StateBox, _ calls: InspectedCalls) {
        while true {
            var waits = [
                pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            poll(&waits, 2, -1)
            guard waits[1].revents == 0 else { break }
            // Counted before it is accepted, so that it is always seen by `settle(within:)`.
            let number = state.value.withLock { state in
                state.open += 1
                return state.programs + 1
            }
            let socket = lat_accept(listener)
            let isRead =
                socket >= 0
                && BackgroundThread.start("lat-session") {
                    read(socket, number, calls)
                    close(socket)
                    state.value.withLock { $0.open -= 1 }
                }
            state.value.withLock { state in
                if isRead { state.programs = number } else { state.open -= 1 }
            }
            if socket >= 0, !isRead { close(socket) }
            // Without a descriptor the program waits in the backlog; looking again at once would only cost time.
            if socket < 0 { usleep(50_000) }
        }
        close(listener)
    }

    /// Reads the lines of one program until it ends.
    private static func read(_ socket: Int32, _ number: UInt64, _ calls: InspectedCalls) {
        var rest = Data()
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let decoder = JSONDecoder()
        while true {
            let count = recv(socket, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR || errno == EAGAIN {
                var wait = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
                poll(&wait, 1, -1)
                continue
            }
            guard count > 0, rest.count < SessionMessage.longestLine else { break }
            // Only the new bytes are searched for the end of the line.
            var start = rest.endIndex
            rest.append(contentsOf: buffer[..<count])
            while let end = rest[start...].firstIndex(of: 0x0A) {
                take(rest[..<end], number, calls, decoder)
                rest = Data(rest[(end + 1)...])
                start = rest.startIndex
            }
        }
        for id in calls.ids where id >> InspectedCalls.processShift == number {
            guard var record = calls.record(id)?.record, record.outcome == nil else { continue }
            record.outcome = .failure(
                CallRecord.Failure(kind: "ended", message: "The program ended while this call was running."))
            calls.put(record)
        }
    }

    private static func take(_ line: Data, _ number: UInt64, _ calls: InspectedCalls, _ decoder: JSONDecoder) {
        guard let message = try? decoder.decode(SessionMessage.self, from: line) else { return }
        if let missed = message.missed { calls.noteMissed(missed) }
        if let program = message.program { calls.setProgram(program, number) }
        guard var record = message.record, record.id < 1 << InspectedCalls.processShift else { return }
        record.id |= number << InspectedCalls.processShift
        calls.put(record)
    }
}
