import CLibcurl
import Glibc
internal import HTTPCore

/// Whether the server said that it did not process a request in HTTP/2 or HTTP/3, so that the request may be sent again
/// with any method (RFC 9113 §8.7). libcurl reports this only in its log.
///
/// The log costs a few microseconds for each request, so it is on only where streams are possible and the method is not
/// idempotent. The log contains the number of the request's stream, and for a `GOAWAY` the number of the last stream
/// that the server accepted; it refused later streams. libcurl 8 also logs a stream that was reset with
/// `REFUSED_STREAM`. 7.88 does so only on a connection that it opened for this request and that no other request has joined:
/// any other connection it gives up in the same words when it was lost.
struct StreamRefusal: Sendable {
    /// The number of the request's stream; 0 before it has one.
    private var stream = 0
    private(set) var isRefused = false
    /// Whether libcurl says that it repeats the request because the stream was refused, or because the server wants it in
    /// HTTP/1.1 (`HTTP_1_1_REQUIRED`).
    private(set) var isRepeatedByLibcurl = false

    /// Reads a line of the log.
    mutating func note(_ line: UnsafeRawBufferPointer) {
        if let number = Self.number(in: line, after: "Using Stream ID: ") ?? Self.number(in: line, after: "[HTTP/2] [")
        {
            stream = number
        } else if let number = Self.number(in: line, after: "HTTP/2 stream ")
            ?? Self.number(in: line, after: "HTTP/3 stream ")
        {
            let text = String(decoding: line, as: UTF8.self)
            isRefused = isRefused || text.contains("\(number) refused by server")
        } else if stream > 0,
            // The spelling of libcurl 7.88.
            let last = Self.number(in: line, after: "recveived GOAWAY, error=", last: true)
                ?? Self.number(in: line, after: "received GOAWAY, error=", last: true)
        {
            isRefused = isRefused || stream > last
        } else if Self.begins(line, with: "REFUSED_STREAM, retrying")
            || Self.begins(line, with: "Downgrades to HTTP/1.1")
        {
            isRepeatedByLibcurl = true
        }
    }

    /// Whether the log or the error text reports a refusal: libcurl 7.88 names the code, libcurl 8 says "refused by
    /// server". After a `GOAWAY` with ENHANCE_YOUR_CALM, libcurl 8 resets the refused streams with that code. The code
    /// alone does not prove a refusal, but is enough for an idempotent method.
    func isRefused(after code: CURLcode, _ text: @autoclosure () -> String, isIdempotent: Bool) -> Bool {
        if isRefused { return true }
        guard code == CURLE_HTTP2_STREAM || code == CURLE_HTTP3 else { return false }
        let text = text()
        return text.contains("REFUSED_STREAM") || text.contains("refused by server")
            || isIdempotent && text.contains("reset by curl (error 0xb ENHANCE_YOUR_CALM)")
    }

    private static func begins(_ line: UnsafeRawBufferPointer, with text: StaticString) -> Bool {
        guard let start = line.baseAddress, line.count >= text.utf8CodeUnitCount else { return false }
        return memcmp(start, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// Returns the first or last number after the text that a line must begin with; `nil` when it begins otherwise.
    private static func number(in line: UnsafeRawBufferPointer, after text: StaticString, last: Bool = false) -> Int? {
        guard begins(line, with: text) else { return nil }
        let rest = line[text.utf8CodeUnitCount...].split { !(0x30...0x39).contains($0) }
        return (last ? rest.last : rest.first).flatMap { Int(String(decoding: $0, as: UTF8.self)) }
    }
}

/// A server may end a stream of HTTP/2 with `RST_STREAM` and `NO_ERROR` after a whole response, because it does not need
/// the rest of the request. Such a response must not be discarded (RFC 9113 §8.1), but libcurl reports a failure.
enum StreamReset {
    /// Whether the server reset the stream with this code. libcurl from 8.1 on names it; 7.88 has no text when it cannot
    /// send on a stream that was closed without an error.
    static func isWithoutError(_ code: CURLcode, _ text: @autoclosure () -> String) -> Bool {
        guard [CURLE_HTTP2_STREAM, CURLE_HTTP2, CURLE_PARTIAL_FILE].contains(code) else { return false }
        let text = text()
        return text.isEmpty && code == CURLE_HTTP2_STREAM || text.contains("NO_ERROR")
    }

    /// Whether the whole response arrived before the failure.
    static func isWhole(_ transfer: Transfer) -> Bool {
        transfer.head.isFinal && transfer.head.version == .http2 && transfer.hasWholeBody
    }
}

let debugCallback: curl_debug_callback = { _, kind, bytes, count, context in
    guard let bytes, let context else { return 0 }
    if kind == CURLINFO_HEADER_IN {
        InterimAnswer.pass(UnsafeMutableBufferPointer(start: bytes, count: count), EasyHandle.from(context))
    }
    if kind == CURLINFO_HEADER_OUT {
        let handle = EasyHandle.from(context)
        handle.transfer?.sentHeads?.note(UnsafeRawBufferPointer(start: bytes, count: count), on: handle.curl)
    }
    guard kind == CURLINFO_TEXT else { return 0 }
    EasyHandle.from(context).transfer?.streamRefusal.note(UnsafeRawBufferPointer(start: bytes, count: count))
    return 0
}
