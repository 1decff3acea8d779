import Foundation
import LATNetworking
import LATTesting

/// A day of the device in a few seconds, with a station of its own: online, offline, a restart, online again.
enum Rehearsal {
    static func run() async throws {
        let folder = try TemporaryDirectory()
        let station = try station()
        try await start("the device starts, online", folder, station) { device in
            try await showSettings(of: device, from: .network)
            try await device.take(20.5)
            try await station.waitForRequests(2)
            try await device.outbox.waitUntilSent()

            print("the network is gone")
            station.stop()
            for celsius in [21, 24.5, 22] { try await device.take(celsius) }
            try await showSettings(of: device, from: .stale)
        }
        try check(try degrees(at: station) == [20.5], "a reading that was taken online was sent at once")

        try await start("the device starts again, offline", folder, station) { device in
            let kept = try await device.unsentCount
            print("  \(kept) readings are kept")
            try check(kept == 3, "the restart keeps three readings, not \(kept)")
            try await showSettings(of: device, from: .stale)
            try await device.take(19)

            print("the network is back")
            let again = try Self.station(port: station.port)
            try await again.waitForRequests(4)
            try await device.outbox.waitUntilSent()
            print("  the station has received \(try degrees(at: again))")
            try check(try degrees(at: again) == [21, 24.5, 22, 19], "all readings are sent, in their order")
            let keys = again.requests.filter { $0.method == "POST" }.map { $0.headers["Idempotency-Key"] }
            try check(Set(keys).count == 4, "each reading has a key of its own")
        }
    }

    /// The device from its start to its end.
    private static func start(
        _ title: String, _ folder: TemporaryDirectory, _ station: MockServer, _ use: (Device) async throws -> Void
    ) async throws {
        print(title)
        let device = try Device(folder: folder.path, station: station.baseURL)
        let work = [Task { await device.watchReadings() }, Task { await device.watchStation() }]
        try await use(device)
        for task in work { task.cancel() }
        await device.shutDown()
    }

    private static func showSettings(of device: Device, from source: HTTPResponse.Source) async throws {
        let settings = try await device.settings()
        print("  the alarm is at \(settings.model.alarmAbove) °C, from \(settings.response.source)")
        try check(settings.response.source == source, "the settings come from \(source)")
    }

    private static func station(port: Int = 0) throws -> MockServer {
        let server = try MockServer(port: port)
        server.route("GET", "/settings") { _ in .json(#"{"alarmAbove": 30}"#) }
        server.route("POST", "/readings") { _ in .status(201) }
        return server
    }

    /// What the station has received.
    private static func degrees(at station: MockServer) throws -> [Double] {
        struct Received: Decodable { var celsius: Double }
        return try station.requests.filter { $0.method == "POST" }
            .map { try JSONDecoder().decode(Received.self, from: $0.body).celsius }
    }

    private static func check(_ condition: Bool, _ expectation: String) throws {
        struct Failure: Error, CustomStringConvertible { let description: String }
        guard condition else { throw Failure(description: "did not happen: \(expectation)") }
    }
}
