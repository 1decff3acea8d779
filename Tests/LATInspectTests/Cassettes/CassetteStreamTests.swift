import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

/// Bodies whose end the recorded program has not seen.
@Suite(.timeLimit(.minutes(2))) struct CassetteStreamTests {
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
        server.route("GET", "/large") { _ in .text(String(repeating: "x", count: 8 << 20)) }
        server.route("GET", "/small") { _ in .text("abc") }
    }

    private var text: String { String(decoding: directory.read("calls.yaml") ?? Data(), as: UTF8.self) }

    private func cassette(_ mode: Cassette.Mode) throws -> Cassette {
        try Cassette("calls", in: directory.path, mode: mode)
    }

    /// Reads the first piece of a body, and no further.
    private func readBeginning(_ path: String, _ cassette: Cassette) async throws -> Data? {
        let manager = try CentralRequestManager.make { $0.transport = cassette }
        for try await piece in try await manager.stream("GET", server.url(path)).body { return piece }
        return nil
    }

    @Test func bodyThatWasLeftIsNotReplayedAsWhole() async throws {
        let recording = try cassette(.once)
        let beginning = try await readBeginning("/large", recording)
        try await eventually("the entry") {
            try recording.eject()
            return text.contains("/large")
        }
        #expect(text.contains("kind: simulation"))
        // A program that stops at the same place sees no difference.
        #expect(try await readBeginning("/large", try cassette(.none)) == beginning)
        for streams in [false, true] {
            let replay = try cassette(.none)
            let manager = try CentralRequestManager.make { $0.transport = replay }
            let url = server.url("/large")
            let error = await #expect(throws: NetworkError.self) {
                if streams {
                    for try await _ in try await manager.stream("GET", url).body {}
                } else {
                    _ = try await manager.startRequest("GET", url)
                }
            }
            #expect(error?.kind == .simulation && error?.message.contains("read no further") == true)
        }
    }

    @Test func bodyOfItsWholeLengthIsWhole() async throws {
        let recording = try cassette(.once)
        #expect(try await readBeginning("/small", recording) == Data("abc".utf8))
        try await eventually("the entry") {
            try recording.eject()
            return text.contains("/small")
        }
        let replay = try cassette(.none)
        let manager = try CentralRequestManager.make { $0.transport = replay }
        #expect(try await manager.startRequest("GET", server.url("/small")).text == "abc")
    }
}
