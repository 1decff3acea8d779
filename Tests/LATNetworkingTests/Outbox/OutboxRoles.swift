import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// The tasks of child processes.
@Suite struct OutboxRoles {
    @Test(.enabled(if: RoleProcess.isRole(of: "OutboxRoles"), "runs only in child processes"))
    func runsItsRole() async throws { await RoleProcess.play(run) }

    private func run(_ role: String, _ arguments: [String]) async throws {
        let central = try CentralRequestManager.make()
        switch role {
        // Adds entries one by one, and says the number of each when it is on the disk. It does not send.
        case "add":
            var configuration = Outbox.Configuration()
            configuration.limit = 0
            let outbox = try Outbox(folder: arguments[0], manager: central, configuration: configuration)
            for number in 0... {
                try await outbox.add(HTTPRequest("POST", arguments[1], body: .text("\(number)")), group: "numbers")
                RoleProcess.say("\(number)\n")
            }
        // Sends until it is killed. Its keys are those of the entries, so a restart adds none again that is still there.
        case "send", "add and send":
            let outbox = try Outbox(
                folder: arguments[0], manager: central, configuration: OutboxChaosTests.configuration)
            if role == "add and send" {
                // The numbers that this process added before it was killed are in a file.
                let path = arguments[0] + ".added"
                let start = (try? String(contentsOf: URL(filePath: path), encoding: .utf8)).flatMap { Int($0) } ?? 0
                for number in start..<(Int(arguments[2]) ?? 0) {
                    var request = HTTPRequest("POST", arguments[1], body: .text("\(number % 4)-\(number)"))
                    request.idempotencyKey = "key-\(number)"
                    try await outbox.add(request, group: "\(number % 4)")
                    try Data("\(number + 1)".utf8).write(to: URL(filePath: path), options: .atomic)
                }
            }
            while try await !outbox.load.isSender { try await Task.sleep(for: .milliseconds(20)) }
            RoleProcess.say("ready\n")
            try await Task.sleep(for: .seconds(600))
        default: throw NetworkError(.other, message: "no role")
        }
    }
}
