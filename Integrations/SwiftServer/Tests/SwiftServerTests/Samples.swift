import FoundationEssentials
import HTTPTypes
import LATHTTPTypes
import LATLogging
import LATMetrics
import LATNetworking
import LATOpenAPITransport
import LATTracing
import Logging
import OpenAPIRuntime
import ServiceLifecycle
import Testing
import Tracing

// The samples of Documentation/Swift-on-the-server.md, compiled. `PageTests` compares them with the page.

private typealias HTTPRequest = LATNetworking.HTTPRequest

private enum Samples {
    static func plainService(_ server: any Service, _ logger: Logger) async throws {
        let manager = try makeManager()
        let group = ServiceGroup(
            services: [Clients(manager: manager), server], gracefulShutdownSignals: [.sigterm], logger: logger)
        try await group.run()
    }

    static func logs(_ configuration: inout CentralRequestManager.Configuration, _ logger: Logger) {
        configuration.accessories = [CallLogger()]
        configuration.accessories = [CallLogger(logger)]
    }

    static func traces(_ configuration: inout CentralRequestManager.Configuration, _ tracer: any Tracer) {
        configuration.accessories = [CallTracer()]  // the tracer of InstrumentationSystem
        configuration.accessories = [CallTracer(tracer)]
    }

    static func metrics(_ configuration: inout CentralRequestManager.Configuration, _ outbox: Outbox) async throws {
        let metrics = CallMetrics()
        configuration.accessories = [metrics]
        let manager = try CentralRequestManager(configuration: configuration)
        metrics.observe(outbox)  // if there is one
        await metrics.run(observing: manager)  // a task of its own: connections, queue, circuits, outboxes
    }

    static func clients(_ manager: CentralRequestManager, _ url: URL) -> [Client] {
        let client = Client(serverURL: url, transport: ManagerTransport(manager))
        let cached = Client(
            serverURL: url,
            transport: ManagerTransport(manager) { request, operation in
                if operation == "listUsers" { request.cachePolicy = .http }
            })
        return [client, cached]
    }

    static func heads(_ manager: CentralRequestManager, _ incoming: HTTPTypes.HTTPRequest) async throws -> Any {
        let response = try await manager.send(HTTPRequest(incoming, base: "https://api.example.org"))
        let head = try HTTPTypes.HTTPResponse(response)
        return head
    }
}

private func makeManager() throws -> CentralRequestManager {
    var configuration = CentralRequestManager.Configuration()
    configuration.baseURL = "https://api.example.org"
    configuration.accessories = [CallLogger(), CallTracer(), CallMetrics()]
    return try CentralRequestManager(configuration: configuration)
}

struct Clients: Service {
    let manager: CentralRequestManager
    func run() async throws { _ = await cancelWhenGracefulShutdown { await manager.run(draining: .seconds(20)) } }
}

@Suite struct PageTests {
    @Test func samplesOfThePageAreCompiled() throws {
        func lines(_ path: String) throws -> [Substring] {
            let url = URL(filePath: #filePath).deletingLastPathComponent().appending(path: path)
            return try String(decoding: Data(contentsOf: url), as: UTF8.self).split(separator: "\n")
        }
        /// Code without comments and space.
        func code(_ line: Substring) -> String {
            line.prefix(upTo: line.firstRange(of: " //")?.lowerBound ?? line.endIndex).filter { $0 != " " }
        }
        let compiled = try lines("Samples.swift").map(code).joined()
        var sample: String?
        var count = 0
        for line in try lines("../../../../Documentation/Swift-on-the-server.md") {
            if line.hasPrefix("```") {
                if let sample { #expect(compiled.contains(sample), "\(sample)") }
                count += sample == nil ? 0 : 1
                sample = line == "```swift bridges" ? "" : nil
            } else {
                sample? += code(line)
            }
        }
        #expect(count == 8)
    }
}
