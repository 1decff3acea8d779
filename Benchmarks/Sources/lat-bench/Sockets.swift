import BenchmarkSupport
import FoundationEssentials
import LATRealtime

/// Mode `sockets`: each socket sends a message of the given size whenever one has come back. A socket has one message
/// on its way, or four if they are larger than 1 KiB. `socketbench.c` does the same.
func echo(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    guard let size = arguments.file.flatMap({ Int($0) }) else { throw Failure("sockets needs a SIZE") }
    let sockets = try await open(manager, arguments)
    if arguments.warmup > 0 { try await echo(arguments.warmup, size, sockets) }
    let measurement = Measurement("lat", arguments)
    try await echo(arguments.requests, size, sockets)
    measurement.finish()
    for socket in sockets { try await socket.close() }
}

private func echo(_ count: Int, _ size: Int, _ sockets: [WebSocket]) async throws {
    let message = Data(repeating: UInt8(ascii: "x"), count: size)
    let window = size > 1024 ? 4 : 1
    try await withThrowingTaskGroup(of: Void.self) { group in
        for (number, socket) in sockets.enumerated() {
            let share = count / sockets.count + (number < count % sockets.count ? 1 : 0)
            group.addTask {
                for _ in 0..<min(window, share) { try await socket.send(message) }
                guard share > 0 else { return }
                var received = 0
                for try await echo in socket.messages {
                    guard echo.byteCount == size else { throw Failure("\(echo.byteCount) bytes came back") }
                    received += 1
                    if received + window <= share { try await socket.send(message) }
                    if received == share { return }
                }
                throw Failure("a socket was closed")
            }
        }
        try await group.waitForAll()
    }
}

/// Mode `sockets-open`: opens sockets, 64 at a time, waits until the program is idle, then measures the resident memory
/// and, for three seconds, the processor time. Opening all at once needs more memory for a moment, which malloc keeps.
func keepOpen(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    Resources.raiseDescriptorLimit()
    let clock = ContinuousClock()
    // The first socket starts the engine, which is not to be counted.
    try await manager.webSocket(arguments.url).close()
    let memoryBefore = Resources.residentKilobytes
    let sockets = try await open(manager, arguments, atOnce: 64)
    try await Task.sleep(for: .seconds(1))

    let memory = Resources.residentKilobytes
    let start = clock.now
    let cpuAtStart = Resources.cpuSeconds
    try await Task.sleep(for: .seconds(3))
    let cpu = Resources.cpuSeconds - cpuAtStart
    let seconds = (clock.now - start).inMicroseconds / 1e6
    guard sockets.allSatisfy({ $0.state == .open }) else { throw Failure("a socket was closed") }
    Measurement.report(
        "lat", "sockets-open",
        [
            ("requests", Double(arguments.requests)), ("in_flight", Double(sockets.count)), ("seconds", seconds),
            ("cpu_seconds", cpu), ("kb_per_request", Double(memory - memoryBefore) / Double(sockets.count)),
            ("rss_kb", Double(memory)), ("rss_peak_kb", Double(Resources.peakKilobytes)),
        ])
}

private func open(
    _ manager: CentralRequestManager, _ arguments: Arguments, atOnce: Int = .max
) async throws -> [WebSocket] {
    try await withThrowingTaskGroup(of: WebSocket.self) { group in
        var sockets: [WebSocket] = []
        for number in 0..<arguments.inFlight {
            if number >= atOnce, let socket = try await group.next() { sockets.append(socket) }
            group.addTask { try await manager.webSocket(arguments.url) }
        }
        return try await group.reduce(into: sockets) { $0.append($1) }
    }
}
