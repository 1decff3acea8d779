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
        // Sends until it is killed.
        case "send":
            let outbox = try Outbox(folder: arguments[0], manager: central)
            for await change in outbox.changes {
                if case .isSender = change { RoleProcess.say("ready\n") }
            }
        default: throw NetworkError(.other, message: "no role")
        }
    }
}
