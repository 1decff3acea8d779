import Glibc
internal import HTTPCore

/// Collects the head of a response from the lines of libcurl's header callback, and the trailers after the body.
///
/// A transfer may receive several heads: interim responses (1xx), a challenge that libcurl answers itself, the response
/// to a repetition on a fresh connection. Each status line replaces the head before it.
struct ResponseHead {
    /// The maximum size of head and trailers together, in bytes. Servers also limit the heads of requests.
    static let sizeLimit = 1 << 20

    private(set) var status = 0
    private(set) var version = HTTPResponse.Version.http1_1
    private(set) var reason = ""
    /// Whether the empty line that ends the head was received.
    private(set) var isComplete = false
    /// The value of `Content-Length`, parsed while the line is appended because every transfer needs it; `nil` for a body in
    /// chunks when the head is complete.
    private(set) var contentLength: Int64?
    /// Whether `Content-Length` is not a number or has two different values, so that the end of the body is unknown
    /// (RFC 9112 §6.3).
    private(set) var hasInvalidLength = false
    /// Whether the response has a `Content-Encoding`.
    private(set) var isCoded = false
    /// Whether there is a field that holds, or announces, the digest of the body.
    private(set) var mayHaveDigest = false
    /// Whether the response has a transfer coding other than `chunked`. libcurl 7.88 decodes it, and does not notice when the
    /// body ends early; libcurl 8 refuses it.
    private(set) var hasTransferCoding = false
    /// Whether the body is in chunks, which show its end.
    private(set) var isChunked = false
    /// What is wrong with the head that ``append(_:)`` refused; `nil` when it is too large.
    private(set) var fault: String?
    /// Whether the status line does not begin with `HTTP` in capitals. libcurl takes it for `HTTP/1.0 200`.
    private var isMisspelled = false
    private var bytes: [UInt8] = []
    private var trailerBytes: [UInt8] = []

    var headers: HTTPHeaders { HTTPHeaders(wireHead: bytes) }
    var trailers: HTTPHeaders { trailerBytes.isEmpty ? HTTPHeaders() : HTTPHeaders(wireHead: trailerBytes) }

    /// Whether any line of a head was received.
    var hasBegun: Bool { !bytes.isEmpty }

    /// Whether this is the complete head of a final response (RFC 9110 §15), or of a 101, which no response follows.
    var isFinal: Bool { isComplete && status >= 200 || status == 101 && isComplete }

    mutating func reserve() { bytes.reserveCapacity(Self.usualSize) }

    private static let usualSize = 512

    /// Appends what libcurl's header callback received: one line with its end, or, after a pause, all lines that
    /// libcurl held back. Returns `false` when the head exceeds the limit or has a ``fault``.
    mutating func append(_ lines: UnsafeBufferPointer<UInt8>) -> Bool {
        guard var line = lines.baseAddress else { return true }
        var left = lines.count
        while left > 0 {
            // `memchr`, because Swift's collection search costs more than the rest of this function.
            let length = memchr(line, 0x0A, left).map { $0 - UnsafeMutableRawPointer(mutating: line) + 1 } ?? left
            guard appendLine(UnsafeBufferPointer(start: line, count: length)) else { return false }
            line += length
            left -= length
        }
        return true
    }

    private mutating func appendLine(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = line.first else { return true }
        if first | 0x20 == UInt8(ascii: "h"), !hasBegun || isComplete, line.isStatusLine {
            start(line)
        } else if isComplete {
            if line.count > 2 { trailerBytes.append(contentsOf: line) }
        } else if line.count <= 2, first == 0x0D || first == 0x0A, line[line.count - 1] == 0x0A || line.count == 1 {
            isComplete = true
            // It does not count beside chunks (RFC 9112 §6.3).
            if isChunked { contentLength = nil }
            if isMisspelled || status < 100 { noteFault() }
            if fault != nil { return false }
        } else {
            bytes.append(contentsOf: line)
            if first | 0x20 == UInt8(ascii: "c") { noteContent(line) }
            if first | 0x20 == UInt8(ascii: "t") { noteTransfer(line) }
            if fault != nil { return false }
            if first | 0x20 == UInt8(ascii: "r"), line.hasName("repr-digest") { mayHaveDigest = true }
        }
        return bytes.count + trailerBytes.count <= Self.sizeLimit
    }

    /// libcurl does not know the status of a misspelled status line, so it would wait for a body that never comes, or
    /// take the final response for the body of an interim one.
    private mutating func noteFault() {
        if status < 100 {
            fault = "the status line of the response has no status; repair the server"
        } else if status < 200 || status == 204 || status == 304 {
            fault =
                "the status line of a response with status \(status) does not begin with HTTP in capitals "
                + "(RFC 9112 §2.3), so its end is unknown; repair the server"
        }
    }

    private mutating func noteContent(_ line: UnsafeBufferPointer<UInt8>) {
        if line.hasName("content-length") {
            noteColon(of: line, "Content-Length")
            noteLength(line, from: "content-length:".utf8.count)
        } else if line.hasName("content-encoding") {
            isCoded = true
        } else if line.hasName("content-digest") {
            mayHaveDigest = true
        }
    }

    private mutating func noteTransfer(_ line: UnsafeBufferPointer<UInt8>) {
        guard line.hasName("transfer-encoding") else {
            if line.hasName("trailer") { mayHaveDigest = true }
            return
        }
        noteColon(of: line, "Transfer-Encoding")
        let value = String(decoding: line.dropFirst("transfer-encoding:".utf8.count), as: UTF8.self)
        let codings = FieldList.names(value.filter { !$0.isNewline })
        if codings.contains(where: { $0 != "chunked" && $0 != "identity" }) { hasTransferCoding = true }
        if codings.contains("chunked") { isChunked = true }
    }

    /// libcurl ignores a field with a space before its colon, and others read it, so that they disagree on the end of the body.
    private mutating func noteColon(of line: UnsafeBufferPointer<UInt8>, _ name: StaticString) {
        guard line[name.utf8CodeUnitCount] != UInt8(ascii: ":") else { return }
        fault =
            "the response has a space between the name \(name) and its colon (RFC 9112 §5.1), so the end of its body is "
            + "unknown; repair the server"
    }

    /// Parses `Content-Length`. A list of equal numbers counts as one (RFC 9110 §8.6).
    private mutating func noteLength(_ line: UnsafeBufferPointer<UInt8>, from start: Int) {
        var index = start
        while true {
            while index < line.count, line[index].isBlank { index += 1 }
            let first = index
            var length: Int64 = 0
            while index < line.count, (0x30...0x39).contains(line[index]), length < Self.lengthLimit {
                length = length * 10 + Int64(line[index] - 0x30)
                index += 1
            }
            let hasDigits = index > first
            while index < line.count, line[index].isBlank { index += 1 }
            let isLast = index == line.count
            guard hasDigits, isLast || line[index] == UInt8(ascii: ","), length == contentLength ?? length else {
                break
            }
            contentLength = length
            if isLast { return }
            index += 1
        }
        hasInvalidLength = true
        contentLength = nil
    }

    /// Every value below this can take one more digit without overflow.
    private static let lengthLimit = Int64.max / 10

    private mutating func start(_ line: UnsafeBufferPointer<UInt8>) {
        bytes.removeAll(keepingCapacity: true)
        trailerBytes = []
        reserve()
        bytes.append(contentsOf: line)
        isComplete = false
        contentLength = nil
        hasInvalidLength = false
        isCoded = false
        mayHaveDigest = false
        (hasTransferCoding, isChunked) = (false, false)
        status = 0
        isMisspelled = !line.hasCapitalName
        var index = 5
        let versionStart = index
        while index < line.count, line[index] != 0x20 { index += 1 }
        version = Self.version(line[versionStart..<index])
        while index < line.count, line[index] == 0x20 { index += 1 }
        while index < line.count, (0x30...0x39).contains(line[index]), status < 1000 {
            status = status * 10 + Int(line[index] - 0x30)
            index += 1
        }
        while index < line.count, line[index] == 0x20 { index += 1 }
        var end = line.count
        while end > index, line[end - 1] == 0x0A || line[end - 1] == 0x0D || line[end - 1] == 0x20 { end -= 1 }
        reason = index < end ? String(decoding: line[index..<end], as: UTF8.self) : ""
    }

    private static func version(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> HTTPResponse.Version {
        switch text.first {
        case UInt8(ascii: "2"): .http2
        case UInt8(ascii: "3"): .http3
        default: text.last == UInt8(ascii: "0") ? .http1_0 : .http1_1
        }
    }
}

extension UInt8 {
    /// Whether this byte may surround a field value: a space, a tab, CR or LF.
    fileprivate var isBlank: Bool { self == 0x20 || self == 0x09 || self == 0x0D || self == 0x0A }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether this begins with `HTTP/`, in any case: libcurl takes `http/1.1 200 OK` for a status line too.
    fileprivate var isStatusLine: Bool {
        guard count >= 5, let baseAddress else { return false }
        return strncasecmp(UnsafeRawPointer(baseAddress).assumingMemoryBound(to: CChar.self), "HTTP/", 5) == 0
    }

    /// Whether this status line begins with `HTTP` in capitals.
    fileprivate var hasCapitalName: Bool { baseAddress.map { memcmp($0, "HTTP", 4) == 0 } ?? false }

    /// Whether this field line begins with a name, given in lower case, and a colon. Spaces between them are skipped, as
    /// `HTTPHeaders` does.
    fileprivate func hasName(_ name: StaticString) -> Bool {
        let length = name.utf8CodeUnitCount
        guard count > length else { return false }
        for index in 0..<length where self[index] | 0x20 != name.utf8Start[index] | 0x20 { return false }
        var index = length
        while index < count, self[index] == 0x20 || self[index] == 0x09 { index += 1 }
        return index < count && self[index] == UInt8(ascii: ":")
    }
}
