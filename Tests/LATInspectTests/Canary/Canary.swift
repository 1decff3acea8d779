import FoundationEssentials
import LATInspect
import LATTesting
import Testing

@testable import LATClient

/// A secret that can be found in any output, however it is written there.
struct Canary: Sendable, CustomTestStringConvertible {
    let text: String
    let testDescription: String

    /// Letters only, and characters that every notation escapes in its own way.
    static let all = [
        Canary(text: "CANARY4711-mid-tail0815", testDescription: "plain"),
        Canary(text: #"CANARY4711 "/+=&%é\',;tail0815"#, testDescription: "special"),
    ]
    static let plain = all[0]

    /// A document with the plain canary, compressed with gzip.
    static let gzip = Data(
        base64Encoded: "H4sIAAAAAAACA6tWKsnPTs1TslJydvRzDIo0MTc01M3NTNEtSczMMbAwNFWqBQDNEBdgIwAAAA==")!

    /// Percent-encoded, as in a query or form.
    var escaped: String { text.percentEncodedComponent }
    /// As a string of JSON, with its quotes.
    var json: String { JSONValue.string(text).description }
    /// The credentials of `Basic`.
    var basic: String { Data("user:\(text)".utf8).base64EncodedString() }

    /// Whether an output has the beginning or the end of a canary: as it is, or percent-encoded, escaped as in JSON, Swift, C
    /// or a shell, in Base64, in UTF-16, or several of these at once.
    static func isFound(in output: some Sequence<UInt8>, depth: Int = 4) -> Bool {
        let bytes = Data(output)
        if bytes.firstRange(of: gzip[10..<48]) != nil { return true }
        let text = String(decoding: bytes.filter { $0 != 0 }, as: UTF8.self)
        if ["CANARY4711", "tail0815"].contains(where: { text.utf8.firstRange(of: $0.utf8) != nil }) { return true }
        guard depth > 0 else { return false }
        var readings: Set<String> = [text.replacing("+", with: " ")[...].percentDecoded(), unescaped(text)]
        readings.remove(text)
        if readings.contains(where: { isFound(in: $0.utf8, depth: depth - 1) }) { return true }
        return text.utf8.split { !isOfBase64($0) }.filter { $0.count >= 12 }.contains { word in
            let plain = word.filter { $0 != UInt8(ascii: "=") }
            let padded = plain + [UInt8](repeating: UInt8(ascii: "="), count: (4 - plain.count % 4) % 4)
            guard let data = Data(base64Encoded: Data(padded)) else { return false }
            return isFound(in: data, depth: depth - 1)
        }
    }

    private static func isOfBase64(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
            || "+/=".utf8.contains(byte)
    }

    /// The text with `\x`, `\u`, `\u{…}`, octal numbers and other backslashes replaced by what they stand for.
    private static func unescaped(_ text: String) -> String {
        guard text.utf8.contains(UInt8(ascii: "\\")) else { return text }
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let kind = rest.first else {
                bytes.append(byte)
                continue
            }
            var digits = rest.dropFirst()
            var radix = 16
            switch kind {
            case UInt8(ascii: "x"): digits = digits.prefix(2)
            case UInt8(ascii: "u"):
                digits =
                    digits.first == UInt8(ascii: "{")
                    ? digits.dropFirst().prefix { $0 != UInt8(ascii: "}") } : digits.prefix(4)
            case 0x30...0x37: (digits, radix) = (rest.prefix(3), 8)
            default: digits = []
            }
            if let value = UInt32(String(decoding: digits, as: UTF8.self), radix: radix),
                let scalar = Unicode.Scalar(value)
            {
                // A number in octal or after `\x` is a byte.
                bytes +=
                    radix == 8 || kind == UInt8(ascii: "x")
                    ? [UInt8(truncatingIfNeeded: value)] : Array(String(scalar).utf8)
                rest = rest[digits.endIndex...]
                if rest.first == UInt8(ascii: "}") { rest = rest.dropFirst() }
            } else {
                rest = rest.dropFirst()
                bytes.append(kind)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A call with a canary in one place.
struct CanaryPlace: Sendable, CustomTestStringConvertible {
    typealias Send = @Sendable (CentralRequestManager, MockServer, Canary) async throws -> HTTPResponse?

    let testDescription: String
    /// Whether the place has no notation for special characters.
    var isPlain = false
    var change: @Sendable (inout CentralRequestManager.Configuration, MockServer, Canary) throws -> Void = { _, _, _ in
    }
    /// The answer to the first request; later ones get `{}`.
    var answer: @Sendable (RecordedRequest, Canary) -> MockReply = { _, _ in .json("{}") }
    var send: Send = { central, server, _ in try await central.startRequest("GET", server.url("/x")) }
    /// The outputs that show the canary, each with the sentence of Trust.md that says so.
    var exceptions: [String: String] = [:]

    init(_ name: String) { testDescription = name }

    init(_ name: String, send: @escaping Send) {
        testDescription = name
        self.send = send
    }

    /// A call whose answer has the canary.
    init(_ name: String, answer: @escaping @Sendable (RecordedRequest, Canary) -> MockReply) {
        testDescription = name
        self.answer = answer
    }

    func with(_ change: (inout CanaryPlace) -> Void) -> CanaryPlace {
        var place = self
        change(&place)
        return place
    }

    static let all = headers + urls + bodies + parts + answers + echoes + others
}

/// Fails with an error whose text is the value of the field `X-Fail`.
struct FailingInterceptor: Interceptor {
    struct Leak: Error, CustomStringConvertible {
        let description: String
    }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        if let text = request.headers["X-Fail"] { throw Leak(description: text) }
        return try await next(request)
    }
}
