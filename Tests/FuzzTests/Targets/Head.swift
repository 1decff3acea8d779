import FoundationEssentials

@testable import CurlTransport
@testable import HTTPCore
@testable import LATTesting

/// Parsing a response head as a whole and line by line gives the same result. Look-up by name agrees with the list of
/// fields, and a head that is written and parsed again has the same fields. Parsing a request at once and byte by byte
/// gives the same result.
@Sendable func fuzzHead(_ bytes: [UInt8]) throws {
    try fuzzResponseHead(bytes)
    try fuzzRequest(bytes)
}

private func fuzzResponseHead(_ bytes: [UInt8]) throws {
    var whole = ResponseHead()
    var byLine = ResponseHead()
    let isTaken = bytes.withUnsafeBufferPointer { whole.append($0) }
    var isTakenByLine = true
    var rest = bytes[...]
    while !rest.isEmpty, isTakenByLine {
        let end = rest.firstIndex(of: 0x0A).map { $0 + 1 } ?? rest.endIndex
        isTakenByLine = rest[..<end].withUnsafeBufferPointer { byLine.append($0) }
        rest = rest[end...]
    }
    let isRight = isTaken == isTakenByLine && whole.fault == byLine.fault && isTaken == (whole.fault == nil)
    try expect(isRight, "\(isTaken) as a whole, \(isTakenByLine) by line")
    try expect(whole.status == byLine.status && whole.status >= 0 && whole.status < 10_000, "status \(whole.status)")
    try expect(whole.headers == byLine.headers && whole.trailers == byLine.trailers, "the fields differ by line")
    try expect(whole.contentLength == byLine.contentLength && whole.contentLength ?? 0 >= 0, "the length differs")
    try expectConsistent(whole.headers)
    try expectConsistent(whole.trailers)
    try expectConsistent(HTTPHeaders(wireHead: bytes))
}

private func expectConsistent(_ headers: HTTPHeaders) throws {
    let fields = headers.fields
    try expect(headers.count == fields.count, "\(headers.count) and \(fields.count) fields")
    for field in fields {
        try expect(!field.name.isEmpty && field.value != nil, "a field without a name or value")
        // Invalid UTF-8 in a name was replaced, so the name cannot be looked up.
        guard !field.name.unicodeScalars.contains("\u{FFFD}") else { continue }
        let same = fields.filter { $0.name.equalsIgnoringASCIICase(field.name) }.compactMap(\.value)
        try expect(headers[values: field.name] == same, "values by name \(headers[values: field.name]), not \(same)")
        try expect(headers[field.name] == same.first, "the first value by name is wrong")
    }
    let written = fields.map { "\($0.name): \($0.value ?? "")\r\n" }.joined()
    let again = HTTPHeaders(wireHead: Array("HTTP/1.1 200 OK\r\n\(written)\r\n".utf8))
    try expect(again == headers, "\(fields) are read as \(again.fields)")
}

private func fuzzRequest(_ bytes: [UInt8]) throws {
    let whole = events(of: [bytes[...]])
    let byByte = events(of: bytes.indices.map { bytes[$0...$0] })
    try expect(whole == byByte, "at once \(whole), by byte \(byByte)")
}

private struct RequestEvents: Equatable {
    var heads: [RequestHead] = []
    var bodies: [[UInt8]] = []
    var trailers: [HTTPHeaders] = []
    var failure: RequestParser.Failure?
}

private func events(of pieces: [ArraySlice<UInt8>]) -> RequestEvents {
    var events = RequestEvents()
    var parser = RequestParser()
    do throws(RequestParser.Failure) {
        for piece in pieces {
            var rest = piece
            while let event = try parser.next(&rest) {
                switch event {
                case .head(let head):
                    events.heads.append(head)
                    events.bodies.append([])
                case .body(let body): events.bodies[events.bodies.count - 1] += body
                case .end(let trailers): events.trailers.append(trailers)
                }
                if rest.isEmpty, case .end = event { break }
            }
        }
    } catch {
        events.failure = error
    }
    return events
}
