import CLibcurl
import Glibc
import HTTPCore

/// What libcurl tells of a stream of HTTP/2 or HTTP/3 in its log, and nowhere else: whether the server has said that it did
/// not process the request (RFC 9113 §8.7), so that it may be sent again whatever its method.
///
/// Only requests whose method is not idempotent are looked at, and only where streams are possible: the log costs a few
/// microseconds for each. Both libcurls tell the stream's number and that of a `GOAWAY`, so a stream beyond it is known. One
/// that was reset with `REFUSED_STREAM` libcurl 8 names; of 7.88 it is not known on a connection of the pool.
struct StreamFate {
    /// 0 before the request has a stream.
    private var stream = 0
    private(set) var isRefused = false

    /// Takes in a line of the log.
    mutating func note(_ line: UnsafeRawBufferPointer) {
        if let number = Self.number(in: line, after: "Using Stream ID: ") ?? Self.number(in: line, after: "[HTTP/2] [")
        {
            stream = number
        } else if let number = Self.number(in: line, after: "HTTP/2 stream ")
            ?? Self.number(in: line, after: "HTTP/3 stream ")
        {
            isRefused = isRefused || Self.contains(line, "\(number) refused by server")
        } else if stream > 0,
            // So 7.88 spells it.
            let last = Self.number(in: line, after: "recveived GOAWAY, error=", last: true)
                ?? Self.number(in: line, after: "received GOAWAY, error=", last: true)
        {
            isRefused = isRefused || stream > last
        }
    }

    /// Whether the log, or a failure, says so: 7.88 names the code, 8 says "refused by server". After a `GOAWAY` with this
    /// code libcurl 8 resets the streams beyond it with the same; that is no proof, but enough for a method that is
    /// idempotent.
    func isRefused(after code: CURLcode, _ text: @autoclosure () -> String, isIdempotent: Bool) -> Bool {
        if isRefused { return true }
        guard code == CURLE_HTTP2_STREAM || code == CURLE_HTTP3 else { return false }
        let text = text()
        return text.contains("REFUSED_STREAM") || text.contains("refused by server")
            || isIdempotent && text.contains("reset by curl (error 0xb ENHANCE_YOUR_CALM)")
    }

    private static func begins(_ line: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        guard let start = line.baseAddress, line.count >= text.utf8CodeUnitCount else { return false }
        return memcmp(start, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    private static func contains(_ line: UnsafeRawBufferPointer, _ text: String) -> Bool {
        String(decoding: line, as: UTF8.self).contains(text)
    }

    /// The first or last number after the beginning of a line; `nil` when the line begins otherwise.
    private static func number(in line: UnsafeRawBufferPointer, after text: StaticString, last: Bool = false) -> Int? {
        guard begins(line, text) else { return nil }
        let rest = line[text.utf8CodeUnitCount...].split { !(0x30...0x39).contains($0) }
        return (last ? rest.last : rest.first).flatMap { Int(String(decoding: $0, as: UTF8.self)) }
    }
}

let debugCallback: curl_debug_callback = { _, kind, bytes, count, context in
    guard kind == CURLINFO_TEXT, let bytes, let context else { return 0 }
    EasyHandle.from(context).transfer?.streamFate.note(UnsafeRawBufferPointer(start: bytes, count: count))
    return 0
}
