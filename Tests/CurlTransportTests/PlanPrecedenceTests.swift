import FoundationEssentials
import HTTPCore
import Testing

@testable import CurlTransport

/// The settings of a request win over those of the engine.
@Suite struct PlanPrecedenceTests {
    private struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let configure: @Sendable (inout EngineConfiguration) -> Void
        let request: @Sendable (inout HTTPRequest) -> Void
        /// Reads the value that is applied.
        let read: @Sendable (TransferPlan) -> String
        /// The engine's value, then the request's.
        let values: [String]

        init(
            _ name: String, _ configure: @escaping @Sendable (inout EngineConfiguration) -> Void,
            _ request: @escaping @Sendable (inout HTTPRequest) -> Void, _ values: [String],
            _ read: @escaping @Sendable (TransferPlan) -> String
        ) {
            (testDescription, self.configure, self.request, self.values, self.read) = (
                name, configure, request, values, read
            )
        }
    }

    private static let cases: [Case] = [
        Case("timeout", { $0.timeout = .seconds(2) }, { $0.timeout = .seconds(1) }, ["2000", "1000"]) {
            "\($0.timeout)"
        },
        Case(
            "connectTimeout", { $0.connectTimeout = .seconds(2) }, { $0.connectTimeout = .seconds(1) },
            ["2000", "1000"]
        ) { "\($0.connectTimeout)" },
        Case("idleTimeout", { $0.idleTimeout = .seconds(2) }, { $0.idleTimeout = .seconds(1) }, ["2000", "1000"]) {
            "\($0.idleTimeout)"
        },
        Case("maxBodySize", { $0.maxBodySize = 2 }, { $0.maxBodySize = 1 }, ["2", "1"]) { "\($0.maxBodySize)" },
        Case("maxConnectionsPerHost", { $0.maxConnectionsPerHost = 2 }, { $0.maxConnectionsPerHost = 1 }, ["2", "1"]) {
            "\($0.maxConnectionsPerHost)"
        },
        Case("proxy", { $0.proxy = "http://p:2" }, { $0.proxy = "http://p:1" }, ["http://p:2", "http://p:1"]) {
            ($0.proxy?.url ?? "").replacing("/", with: "").replacing("http:", with: "http://")
        },
        Case("no proxy", { $0.proxy = "http://p:2" }, { $0.proxy = ProxyPolicy.direct }, ["true", "false"]) {
            "\($0.proxy != nil)"
        },
        Case("version", { $0.version = .http1 }, { $0.version = .http2PriorKnowledge }, ["2", "5"]) {
            "\($0.version.value)"
        },
        Case(
            "minimumVersion", { $0.tls.minimumVersion = .v1_2 }, { $0.tls = HTTPRequest.TLS(minimumVersion: .v1_3) },
            ["nil", "TLS 1.3"]
        ) { $0.tls?.configuration.minimumVersion.rawValue ?? "nil" },
        Case("decompresses", { _ in }, { $0.decompresses = false }, ["true", "false"]) { "\($0.decompresses)" },
    ]

    @Test(arguments: Self.cases)
    private func requestWinsOverTheEngine(_ setting: Case) throws {
        var configuration = EngineConfiguration()
        configuration.proxy = .direct
        setting.configure(&configuration)
        let transport = try CurlTransport(configuration: configuration)
        var request = HTTPRequest("GET", "https://h.example/")
        let target = try Target(request.url)
        #expect(try setting.read(transport.plan(for: request, target)) == setting.values[0])
        setting.request(&request)
        #expect(try setting.read(transport.plan(for: request, target)) == setting.values[1])
    }
}
