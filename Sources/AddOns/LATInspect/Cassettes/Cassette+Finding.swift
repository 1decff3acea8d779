public import CurlTransport
internal import FoundationEssentials
public import HTTPCore

extension Cassette {
    /// The cassette of the running test; see the trait `.cassette` of the product `CassetteTesting`.
    @TaskLocal package static var ofTest: Cassette?

    /// The cassette of the running test, which has the trait `.cassette("name")`. Elsewhere a transport that fails every
    /// request with ``NetworkError/Kind/simulation``, so that a test never reaches a server by mistake.
    public static var current: any Transport { ofTest ?? MissingCassette() }

    /// The cassette that `lat record` or the environment asks for; `nil` when nothing does.
    ///
    /// ```swift
    /// configuration.transport = try Cassette.fromEnvironment()       // nil in normal runs: the engine
    /// ```
    ///
    /// A program that does not call this is never recorded. `LAT_CASSETTE` is the path of the file, `LAT_CASSETTE_MODE` the
    /// mode; default `once`.
    ///
    /// - Parameters:
    ///   - matching: Which requests count as equal. Default `Matching()`.
    ///   - secrets: What is never written. Default ``Secrets/standard``.
    ///   - engine: The settings of the engine that sends what is recorded. Default `EngineConfiguration()`.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for an unknown mode, ``NetworkError/Kind/storage`` for a damaged file.
    public static func fromEnvironment(
        matching: Matching = Matching(), secrets: Secrets = .standard,
        engine: EngineConfiguration = EngineConfiguration()
    ) throws(NetworkError) -> Cassette? {
        let variables = ProcessInfo.processInfo.environment
        guard let path = variables["LAT_CASSETTE"], !path.isEmpty else { return nil }
        let name = variables["LAT_CASSETTE_MODE"] ?? ""
        guard let mode = name.isEmpty ? .once : Mode(rawValue: name) else {
            let names = Mode.allCases.map(\.rawValue).joined(separator: ", ")
            throw NetworkError(
                .invalidRequest, message: "LAT_CASSETTE_MODE is \"\(name)\"; expected one of \(names)")
        }
        return try Cassette(path, in: ".", mode: mode, matching: matching, secrets: secrets, engine: engine)
    }

    /// The variable with the path of a pipe that gets a byte when the file cannot be written, for `lat record`.
    package static let failurePipe = "LAT_CASSETTE_FAILURES"
}

private struct MissingCassette: Transport {
    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        throw NetworkError(
            .simulation,
            message:
                "no cassette is in use here; give the test the trait .cassette(\"name\"), and make its calls in the "
                + "test's own task", request: request)
    }
}
