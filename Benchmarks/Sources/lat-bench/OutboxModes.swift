import BenchmarkSupport
import Foundation
import LATNetworking

/// Modes `outbox-…`, in the folder FILE:
///   outbox-add      REQUESTS entries, each added when the one before it is on the disk
///   outbox-batch    the same entries, added with one commit
///   outbox-drain    REQUESTS entries, added before the measurement, sent with IN_FLIGHT at once
///   outbox-direct   the same POSTs, sent directly
///   outbox-open     opens a folder of REQUESTS entries, which stay: time, and what they add to the resident memory
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
    default:
        let adder = try Outbox(folder: folder, manager: manager, configuration: configuration)
        // Larger pieces would leave their memory to the measurement.
        for start in stride(from: 0, to: arguments.requests, by: 1_000) {
            try await adder.add((start..<min(start + 1_000, arguments.requests)).map { Outbox.Item(made($0)) })
        }
        await adder.close()
        let before = Resources.residentKilobytes
        configuration.limit = 4
        let clock = ContinuousClock()
        let start = clock.now
        // Nobody listens at the address, so all entries stay.
        let outbox = try Outbox(folder: folder, manager: manager, configuration: configuration)
        let waiting = try await outbox.load.waiting
        let opened = (clock.now - start).inMicroseconds
        try await Task.sleep(for: .seconds(1))
        guard waiting == arguments.requests else { throw Failure("\(waiting) entries wait") }
        Measurement.report(
            "lat", arguments.mode,
            [
                ("requests", Double(waiting)), ("open_ms", opened / 1_000),
                ("added_mb", Double(Resources.residentKilobytes - before) / 1_024),
                ("rss_mb", Double(Resources.residentKilobytes) / 1_024),
            ])
        await outbox.close()
    }
}
