import FoundationEssentials
import HTTPCore
import Testing

@testable import CurlTransport

/// The lines of a request are reused for the next equal one.
@Suite struct HeaderLinesMemoTests {
    private let lines = HeaderLines(userAgent: "test")

    private func made(_ request: HTTPRequest, decompresses: Bool = true) throws -> [String] {
        try lines.lines(for: request, body: request.body.map { try PreparedBody($0) }, decompresses: decompresses)
    }

    @Test func memoizedLinesEqualNewOnes() throws {
        let bodies: [HTTPBody?] = [
            nil, .text("a"), .json(["a": 1]), .data(Data(count: 100_000)), .data(Data(count: 2_000_000)),
            .multipart([UploadFile(name: "a", value: "b")]),
        ]
        let headers: [HTTPHeaders] = [
            [:], ["A": "1"], ["A": "2"], ["a": "1"], ["A": "1", "B": "2"], ["B": "2", "A": "1"], ["A": nil], ["A": ""],
            ["User-Agent": nil], ["Content-Type": "text/html"], ["Cookie": "a=b"], ["Proxy-Authorization": "x"],
        ]
        for round in 0..<3 {
            for body in bodies {
                for fields in headers {
                    let request = HTTPRequest("POST", "http://a.example/", headers: fields, body: body)
                    for decompresses in [true, false] {
                        let prepared = try body.map { try PreparedBody($0) }
                        for context in [
                            HeaderLines.Context(), .init(reachesProxy: true), .init(takesCookies: true),
                        ] {
                            let kept = try lines.lines(
                                for: request, body: prepared, decompresses: decompresses, context: context)
                            let new = try HeaderLines(userAgent: "test").lines(
                                for: request, body: prepared, decompresses: decompresses, context: context)
                            #expect(kept == new, "\(round) \(fields)")
                            #expect(
                                try lines.lines(
                                    for: request, body: prepared, decompresses: decompresses, context: context) == new)
                        }
                    }
                }
            }
        }
    }

    @Test func equivalentValuesHaveTheirOwnLines() throws {
        for value in ["caf\u{E9}", "cafe\u{301}"] {
            let fields = try made(HTTPRequest("GET", "http://a.example/", headers: ["A": value]))
            #expect(fields.contains { $0.hasSameBytes(as: "A: " + value) })
            let body = HTTPBody.text("a", contentType: "text/plain; a=" + value)
            let types = try made(HTTPRequest("POST", "http://a.example/", body: body))
            #expect(types.contains { $0.hasSameBytes(as: "Content-Type: text/plain; a=" + value) })
        }
    }

    @Test func wrongContentLengthIsAlwaysRefused() throws {
        let headers: HTTPHeaders = ["Content-Length": "3"]
        for _ in 0..<3 {
            let right = HTTPRequest("POST", "http://a.example/", headers: headers, body: .text("abc"))
            _ = try made(right)
            let wrong = HTTPRequest("POST", "http://a.example/", headers: headers, body: .text("abcd"))
            #expect(throws: NetworkError.self) { try made(wrong) }
        }
    }

    @Test func changedBearerTokenIsUsed() throws {
        for token in ["one", "two"] {
            let request = HTTPRequest("GET", "http://a.example/", headers: ["A": "1"]).with {
                $0.authentication = .bearer(token: token)
            }
            #expect(try made(request).contains("Authorization: Bearer \(token)"))
        }
    }
}
