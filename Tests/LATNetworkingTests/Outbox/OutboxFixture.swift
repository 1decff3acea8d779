import LATTesting
import TestSupport

@testable import LATClient
@testable import LATTransfers

/// A folder, a server that says yes, and a manager of it.
struct OutboxFixture {
    let directory: TemporaryDirectory
    let server: MockServer
    let central: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        let server = try MockServer()
        server.fallback { _ in .status(200) }
        self.server = server
        central = try .make { $0.baseURL = server.baseURL }
    }

    var folder: String { directory.path(of: "outbox") }

    func open(
        _ manager: CentralRequestManager? = nil, _ change: (inout Outbox.Configuration) -> Void = { _ in }
    ) throws -> Outbox {
        var configuration = Outbox.Configuration()
        change(&configuration)
        return try Outbox(folder: folder, manager: manager ?? central, configuration: configuration)
    }
}
