import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// A request that libcurl repeats on a new connection, because the kept one was lost, has its whole body.
@Suite(.timeLimit(.minutes(2))) struct RepeatedBodyTests {
    enum Kind: CaseIterable { case data, file, chunks, chunksOfLength, coded, onlyOnce }

    /// It cannot be compressed.
    private static let content = (0..<375_000).map { _ in UInt64.random(in: 0 ... .max) }.withUnsafeBytes { Data($0) }

    private static func body(_ kind: Kind, _ folder: TemporaryDirectory) throws -> HTTPBody {
        let pieces = stride(from: 0, to: content.count, by: 100_000).map { content[$0..<($0 + 100_000)] }
        let stream: @Sendable () -> AsyncStream<Data> = {
            AsyncStream { continuation in
                for piece in pieces { continuation.yield(piece) }
                continuation.finish()
            }
        }
        switch kind {
        case .data, .coded: return .data(content)
        case .file:
            let path = folder.path + "/content"
            try content.write(to: URL(filePath: path))
            return .file(path)
        case .chunks: return .stream(stream)
        case .chunksOfLength: return .stream(length: Int64(content.count), stream)
        case .onlyOnce: return .stream(stream())
        }
    }

    /// What the handle of the first request has sent before: libcurl keeps its options.
    @Test(arguments: Kind.allCases, ["GET", "POST", "PUT"])
    func bodyBeginsAgain(_ kind: Kind, after method: String) async throws {
        let folder = try TemporaryDirectory()
        for cut in [1, 1_000_000] as [Int64] {
            let server = try MockServer()
            server.fallback { _ in .text("x") }
            let uploads = server.resumableUploads()
            uploads.cutNext(afterBytes: cut)
            try await withTransport { transport async throws in
                let small: HTTPBody? = method == "GET" ? nil : .text("small")
                _ = try await transport.answer(to: HTTPRequest(method, server.url("/first"), body: small))
                var request = HTTPRequest("PUT", server.url("/files"), body: try Self.body(kind, folder))
                if kind == .coded { request.contentCoding = .gzip }
                guard kind != .onlyOnce else {
                    let error = try await transport.failure(of: request)
                    #expect(error.kind == .requestBody || error.kind == .connectionLost, "\(error)")
                    #expect(uploads.contents.isEmpty)
                    return
                }
                do {
                    #expect(try await transport.answer(to: request).status < 300)
                } catch let error as NetworkError where error.kind == .connectionLost {
                    // libcurl 8 does not repeat a request whose sending failed. Then nothing counts as sent.
                    #expect(uploads.contents.isEmpty)
                    return
                }
                let received = try #require(uploads.contents.first)
                #expect(uploads.contents.count == 1 && server.acceptedConnections == 2)
                if kind == .coded {
                    #expect(received.starts(with: [0x1F, 0x8B]))
                } else {
                    #expect(received == Self.content, "\(received.count) bytes")
                }
            }
        }
    }
}
