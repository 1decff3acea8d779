import FoundationEssentials
import Glibc
import LATFleet
import LATNetworking
import LATTesting

/// `scripts/demo-fleet`: four processes, one Redis, and an origin server that counts requests.
///
/// The first process is the origin server. It starts the four others, which run the same program with other arguments,
/// and tells them their next phase.
@main
struct FleetDemo {
    static let processCount = 4

    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.first == "worker" {
            guard arguments.count == 5, let number = Int(arguments[1]), let key = Data(base64Encoded: arguments[4])
            else {
                throw Failure("worker NUMBER ORIGIN SOCKET KEY")
            }
            return try await Worker(number: number, origin: arguments[2], socket: arguments[3], key: key).run()
        }
        do {
            let isAllRight = try await DemoRun().run()
            exit(isAllRight ? 0 : 1)
        } catch {
            print("error: \(error)")
            exit(1)
        }
    }

    /// Why the demo cannot run.
    struct Failure: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }
}

/// What the processes are asked to do, in this order.
enum Phase: Int, CaseIterable {
    case start
    case pages
    case token
    case rate
    case table
    case outage
    case end
}

/// What a process reports about a phase.
struct PhaseReport: Codable, Sendable {
    var requests = 0
    var failures = 0
    /// The text of the first failure.
    var failure: String?
    var seconds = 0.0
    /// When the process first saw the edited table, in seconds since 1970.
    var seenAt = 0.0
    /// The counters of its fleet, the hits of its memory and of the Redis, and how often it has connected.
    var counters: [String: Int] = [:]
}
