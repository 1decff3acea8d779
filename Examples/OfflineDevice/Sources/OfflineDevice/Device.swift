import Foundation
import LATNetworking

/// What the device measures. It is its own request.
struct Reading: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route("POST", domain: "station", path: "readings")

    var id = UUID()
    var celsius: Double
    var takenAt = Date()
}

struct FetchSettings: RequestEntity {
    struct Model: Codable, Sendable {
        var alarmAbove: Double
    }
    static let route = Route("GET", domain: "station", path: "settings")
    var options: RequestOptions { RequestOptions(cachePolicy: .networkElseCache) }
}

/// A device that measures all the time and is online sometimes. No reading is lost when the network or the power fails.
struct Device {
    let central: CentralRequestManager
    let outbox: Outbox

    /// - Parameter folder: What is kept across restarts: the readings that are not sent yet, and the last settings.
    init(folder: String, station: String) throws {
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(json5: "{ domains: { station: { baseURL: \"\(station)\" } } }")
        configuration.cacheDirectory = folder + "/cache"
        configuration.connectTimeout = .seconds(5)
        configuration.reachability.ttl = .seconds(1)
        configuration.reachability.failureTTL = .milliseconds(200)
        central = try CentralRequestManager(configuration: configuration)
        outbox = try Outbox(folder: folder + "/outbox", manager: central)
    }

    /// Keeps a reading. It is sent when the station can be reached, after those before it.
    func take(_ celsius: Double) async throws {
        try await Reading(celsius: celsius).enqueue(on: central, group: "readings")
    }

    var unsentCount: Int { get async throws { try await outbox.load.waiting } }

    /// The station's settings, or the last known ones while it cannot be reached.
    func settings() async throws -> Reply<FetchSettings.Model> { try await FetchSettings().reply(on: central) }

    /// Prints the readings that the station will never take. They stay in the outbox as dead letters.
    func watchReadings() async {
        for await change in outbox.changes {
            if case .died(let entry, let error) = change {
                print("  the station refuses reading \(entry.id): \(error)")
            }
        }
    }

    /// Prints whether the station can be reached, now and after every change.
    func watchStation() async {
        for await status in central.reachability.updates(of: "station") {
            switch status {
            case .unknown: break
            case .reachable(_, let address): print("  the station is reachable at \(address)")
            case .unreachable(let reason): print("  the station is not reachable: \(reason)")
            }
        }
    }

    /// Ends the device's work. What was not sent stays in the folder.
    func shutDown() async {
        await outbox.close()
        await central.shutdown()
    }
}
