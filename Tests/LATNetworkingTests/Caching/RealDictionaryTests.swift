import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A server that codes with python-zstandard, and checks the fields of requests as RFC 9842 says.
@Suite(.timeLimit(.minutes(2)), .needsPython, .needsZstd) struct RealDictionaryTests {
    /// What the server has sent: the path, the coding, and the bytes on the wire and of the content.
    private func sent(_ server: PythonScript) -> [[Substring]] {
        server.lines("sent ").map { $0.dropFirst(5).replacing(" of ", with: " ").split(separator: " ") }
    }

    @Test func versionsAreSentAsDifferences() async throws {
        let server = try await PythonScript("dictionaries.py", ["serve"])
        let directory = try TemporaryDirectory()
        func manager(_ uses: Bool) throws -> CentralRequestManager {
            try .make {
                $0.cachePolicy = .http
                $0.cacheDirectory = directory.path + "/\(uses)"
                $0.cacheLookUpTimeout = .seconds(30)
                $0.usesDictionaries = uses
            }
        }
        func url(_ version: Int) -> String { "http://127.0.0.1:\(server.port)/app/\(version)/main.js" }
        // Without dictionaries, for comparison.
        let plain = try manager(false)
        var contents: [Data] = []
        for version in 1...4 { contents.append(try await plain.startRequest("GET", url(version)).data) }
        #expect(Set(contents).count == 4)

        let first = try manager(true)
        for version in 1...3 {
            #expect(try await first.startRequest("GET", url(version)).data == contents[version - 1])
        }
        let statistics = first.cache.statistics
        await first.shutdown()
        let second = try manager(true)
        let streamed = try await second.stream("GET", url(4))
        #expect(try await streamed.body.collect(upTo: 1 << 24) == contents[3])
        // The second version serves the first, which the server sent most recently of all that match alike.
        let again = try await second.startRequest("GET", url(1), headers: ["Cache-Control": "no-cache"])
        #expect(again.data == contents[0])
        await second.shutdown()

        let sent = sent(server)
        #expect(sent.map { $0[1] } == ["zstd", "zstd", "zstd", "zstd", "zstd", "dcz", "dcz", "dcz", "dcz"])
        let sizes = try sent.map { try (wire: #require(Int($0[2])), content: #require(Int($0[3]))) }
        for (coded, size) in zip(sent, sizes) where coded[1] == "dcz" {
            #expect(size.wire * 100 < size.content, "\(coded)")
        }
        #expect(statistics.dictionaryResponses == 2)
        #expect(statistics.dictionarySavedBytes == Int64(sizes[5...6].reduce(0) { $0 + $1.content - $1.wire }))
        // Sixty times less than without a dictionary.
        #expect(sizes[5].wire * 60 < sizes[1].wire, "\(sizes)")
    }
}
