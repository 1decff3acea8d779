import Foundation
import LATNetworking
import LATStorage

/// What the device measures. It is stored as it is, and is its own request.
struct Reading: Codable, Identifiable, Sendable {
    var id = UUID()
    var celsius: Double
    var takenAt = Date()
}

extension Reading: RequestEntity {
    typealias Model = Empty
    static let route = Route("POST", domain: "station", path: "readings")

    var options: RequestOptions {
        var options = RequestOptions(retries: 2)
        options.waitsForConnectivity = true
        // A reading whose response was lost is sent again. The key shows the station that it has this reading already.
        options.idempotencyKey = id.uuidString
        return options
    }
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
    private let store: ObjectStore

    /// - Parameter folder: What is kept across restarts: the readings that are not sent yet, and the last settings.
    init(folder: String, station: String) throws {
        store = try ObjectStore(path: folder + "/readings.sqlite", isDurable: true)
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(json5: "{ domains: { station: { baseURL: \"\(station)\" } } }")
        configuration.cacheDirectory = folder + "/cache"
        configuration.connectTimeout = .seconds(5)
        configuration.reachability.ttl = .seconds(1)
        configuration.reachability.failureTTL = .milliseconds(200)
        central = try CentralRequestManager(configuration: configuration)
    }

    /// Keeps a reading. It is sent when the station can be reached.
    func take(_ celsius: Double) throws { try store.insert(Reading(celsius: celsius)) }

    var unsentCount: Int { get throws { try store.count(Reading.self) } }

    var warmestUnsent: Double? { get throws { try store.maximum(of: \Reading.celsius) } }

    /// The station's settings, or the last known ones while it cannot be reached.
    func settings() async throws -> Reply<FetchSettings.Model> { try await FetchSettings().reply(on: central) }

    /// Sends what is kept, oldest first, whenever there is something, until the task is cancelled.
    func sendReadings() async throws {
        // The oldest reading, now and after every change of the readings.
        for try await oldest in store.values(of: Query<Reading>(sortedBy: [.ascending(\.takenAt)], limit: 1)) {
            if let reading = oldest.first { try await send(reading) }
        }
    }

    /// Returns when the reading has left the store. Without a network the call itself waits for one, a minute at most.
    private func send(_ reading: Reading) async throws {
        while true {
            do {
                _ = try await reading.startRequest(on: central)
                break
            } catch let error as NetworkError where [400, 413, 422].contains(error.response?.status ?? 0) {
                print("the station will never take this reading, which is dropped: \(error)")
                break
            } catch let error as NetworkError {
                print("the reading stays for later: \(error)")
                try await Task.sleep(for: .seconds(5))
            }
        }
        try store.delete(reading)
    }

    /// Returns when no reading waits.
    func waitUntilSent() async throws {
        for try await readings in store.values(of: Query<Reading>()) where readings.isEmpty { return }
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
        await central.shutdown()
        store.close()
    }
}
