public import CurlTransport
import Glibc
public import HTTPCore
public import LATInspect
import Synchronization
public import Testing

/// Gives a test, or each test of a suite, a cassette; see ``Testing/Trait/cassette(_:mode:matching:secrets:engine:filePath:)``.
public struct CassetteTrait: TestTrait, SuiteTrait, TestScoping {
    let path: String
    let mode: Cassette.Mode
    let matching: Cassette.Matching
    let secrets: Secrets
    let engine: EngineConfiguration

    /// The files that this process records anew. A later test of the same suite adds to its file.
    private static let recorded = Mutex<Set<String>>([])

    private var ownMode: Cassette.Mode {
        Self.recorded.withLock { recorded in
            guard mode == .once || mode == .all else { return mode }
            if recorded.contains(path) { return .new }
            if mode == .all || access(path, F_OK) != 0 { recorded.insert(path) }
            return mode
        }
    }

    /// Applies to the tests of a suite, not only to the suite.
    public var isRecursive: Bool { true }

    /// Runs a test with its cassette, which is written when the test has ended.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        let cassette = try Cassette(path, mode: ownMode, matching: matching, secrets: secrets, engine: engine)
        try await Cassette.$ofTest.withValue(cassette) { try await function() }
        try cassette.eject()
    }
}

extension Trait where Self == CassetteTrait {
    /// Replays the HTTP exchanges of a file, and records them in the first run.
    ///
    /// ```swift
    /// @Test(.cassette("users")) func usersAreListed() async throws {
    ///     var configuration = CentralRequestManager.Configuration()
    ///     configuration.transport = Cassette.current
    ///     let central = try CentralRequestManager(configuration: configuration)
    ///     #expect(try await central.startRequest("GET", "https://api.example.org/users").isSuccess)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - name: The name of the file without `.yaml`, in the folder `Cassettes` beside the test's source file; or an absolute
    ///     path. Tests that run at the same time need different files; those of a suite with `.serialized` may share one.
    ///   - mode: When it records. Default ``LATInspect/Cassette/Mode/once``.
    ///   - matching: Which requests count as equal. Default `Matching()`.
    ///   - secrets: What is never written. Default ``HTTPCore/Secrets/standard``.
    ///   - engine: The settings of the engine that sends what is recorded. Default `EngineConfiguration()`.
    ///   - filePath: The test's source file. Leave it out.
    public static func cassette(
        _ name: String, mode: Cassette.Mode = .once, matching: Cassette.Matching = Cassette.Matching(),
        secrets: Secrets = .standard, engine: EngineConfiguration = EngineConfiguration(), filePath: String = #filePath
    ) -> CassetteTrait {
        let folder = filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        let path = name.hasPrefix("/") ? name : "\(folder)/\(Cassette.folder)/\(name).yaml"
        return CassetteTrait(path: path, mode: mode, matching: matching, secrets: secrets, engine: engine)
    }
}
