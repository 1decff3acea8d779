import BenchmarkSupport
import FoundationEssentials
import LATNetworking

/// Modes `outbox-…`, in the folder FILE:
///   outbox-add      REQUESTS entries, each added when the one before it is on the disk
///   outbox-batch    the same entries, added with one commit
///   outbox-drain    REQUESTS entries, added before the measurement, sent with IN_FLIGHT at once
///   outbox-direct   the same POSTs, sent directly
///   outbox-fill     adds REQUESTS entries, for outbox-open
///   outbox-open     opens the folder that outbox-fill has filled with REQUESTS entries, which stay: time, and what they add to
///                   the resident memory. A process of its own, because adding leaves memory behind that would hide it
func outbox(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    var configuration = Outbox.Configuration()
    configuration.maxCount = max(100_000, arguments.requests)
    configuration.limit = 0
    let folder = arguments.mode == "outbox-direct" ? "" : try file(arguments)
    @Sendable func made(_ number: Int) -> HTTPRequest {
        HTTPRequest(
            "POST", arguments.url,
            body: .data(Data(#"{"sensor":7,"number":\#(number),"celsius":21.5}"#.utf8), contentType: "application/json")
        )
    }
    switch arguments.mode {
    case "outbox-add":
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        let measurement = Measurement("lat", arguments)
        for number in 0..<arguments.requests { try await outbox.add(made(number)) }
        measurement.finish()
        await outbox.close()
    case "outbox-batch":
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        let measurement = Measurement("lat", arguments)
        try await outbox.add((0..<arguments.requests).map { Outbox.Item(made($0)) })
        measurement.finish()
        await outbox.close()
    case "outbox-drain":
        let adder = try Outbox(folder: folder, manager: manager, configuration: configuration)
        try await adder.add((0..<arguments.requests).map { Outbox.Item(made($0)) })
        await adder.close()
        configuration.limit = arguments.inFlight
        let measurement = Measurement("lat", arguments)
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        try await outbox.waitUntilSent()
        measurement.finish()
        guard try await outbox.load.sent == arguments.requests else { throw Failure("not every entry was sent") }
        await outbox.close()
    case "outbox-direct":
        try await measure(arguments) { number in
            var request = made(number)
            request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
            guard try await manager.startRequest(request).status == 200 else { throw Failure("no 200") }
        }
    case "outbox-fill":
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        let measurement = Measurement("lat", arguments)
        for start in stride(from: 0, to: arguments.requests, by: 1_000) {
            try await outbox.add((start..<min(start + 1_000, arguments.requests)).map { Outbox.Item(made($0)) })
        }
        measurement.finish()
        await outbox.close()
    default:
        let before = Resources.residentKilobytes
        configuration.limit = 4
        let clock = ContinuousClock()
        let start = clock.now
        // Nobody listens at the address, so all entries stay. The number comes after the turn in which the sender takes its seat.
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        let load = try await outbox.load
        let opened = (clock.now - start).inMicroseconds
        // The first entries are tried meanwhile, and what that needs counts.
        try await Task.sleep(for: .seconds(1))
        guard load.waiting == arguments.requests, load.isSender else {
            throw Failure("\(load.waiting) entries wait, and sending is \(load.isSender)")
        }
        Measurement.report(
            "lat", arguments.mode,
            [
                ("requests", Double(load.waiting)), ("open_ms", opened / 1_000),
                ("added_mb", Double(Resources.residentKilobytes - before) / 1_024),
                ("rss_mb", Double(Resources.residentKilobytes) / 1_024),
            ])
        await outbox.close()
    }
}
