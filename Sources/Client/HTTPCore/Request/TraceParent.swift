import JSONText

/// The place of a request in a distributed trace: the field `traceparent` (W3C Trace Context, level 1).
///
/// ```swift
/// try await TraceParent.$current.withValue(TraceParent(incoming.headers["traceparent"] ?? "")) {
///     try await manager.startRequest("GET", url)      // traceparent: the same trace, a new span
/// }
/// ```
///
/// The field is sent only when ``current`` or ``RequestOptions/Values/traceParent`` is set. Each attempt of a request gets its
/// own child span.
public struct TraceParent: Hashable, Sendable, CustomStringConvertible {
    /// The identifier of the trace: 32 hexadecimal digits in lower case, not all zero.
    public let traceID: String
    /// The identifier of the parent span for the server: 16 hexadecimal digits in lower case, not all zero.
    public let spanID: String
    /// Whether the trace is recorded.
    public let isSampled: Bool
    /// The values that are sent with the trace, by name, in the field `baggage` (W3C Baggage). A name must be a token.
    /// Every server on the way can read them. Default none.
    public var baggage: [String: String] = [:]

    /// The trace of the task's requests that do not set their own. Default `nil`: no field is sent.
    @TaskLocal public static var current: TraceParent?

    /// Starts a trace, with random identifiers. By default it is recorded.
    public init(isSampled: Bool = true) {
        self.init(
            traceID: Hexadecimal.random(byteCount: 16), spanID: Hexadecimal.random(byteCount: 8), isSampled: isSampled)
    }

    /// Parses the value of the field; `nil` when the standard requires it to be ignored.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 4, Self.isHexadecimal(parts[0], 2), parts[0] != "ff",
            parts[0] != "00" || parts.count == 4, Self.isHexadecimal(parts[1], 32), Self.isHexadecimal(parts[2], 16),
            Self.isHexadecimal(parts[3], 2), let flags = UInt8(parts[3], radix: 16),
            parts[1].contains(where: { $0 != "0" }), parts[2].contains(where: { $0 != "0" })
        else { return nil }
        self.init(traceID: String(parts[1]), spanID: String(parts[2]), isSampled: flags & 1 == 1)
    }

    private init(traceID: String, spanID: String, isSampled: Bool) {
        self.traceID = traceID
        self.spanID = spanID
        self.isSampled = isSampled
    }

    /// The same trace with a new span.
    public func child() -> TraceParent {
        var child = TraceParent(traceID: traceID, spanID: Hexadecimal.random(byteCount: 8), isSampled: isSampled)
        child.baggage = baggage
        return child
    }

    /// The field's value.
    public var description: String { "00-\(traceID)-\(spanID)-\(isSampled ? "01" : "00")" }

    /// The value of the field `baggage`; `nil` for none. Names that are not tokens are left out.
    package var baggageField: String? {
        let members = baggage.sorted { $0.key < $1.key }.filter { $0.key.utf8.isToken }
        return members.isEmpty
            ? nil : members.map { "\($0.key)=\($0.value.percentEncodedComponent)" }.joined(separator: ",")
    }

    private static func isHexadecimal(_ text: Substring, _ count: Int) -> Bool {
        text.utf8.count == count && text.utf8.allSatisfy { $0.isDigit || (0x61...0x66).contains($0) }
    }
}

/// Random identifiers as text.
package enum Hexadecimal {
    /// This many random bytes in hexadecimal, never all zero.
    package static func random(byteCount: Int) -> String {
        while true {
            // Each random number is a system call.
            var bytes: [UInt8] = []
            while bytes.count < byteCount {
                let number = UInt64.random(in: .min ... .max)
                for shift in stride(from: 0, to: 64, by: 8).prefix(byteCount - bytes.count) {
                    bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
                }
            }
            guard bytes.contains(where: { $0 != 0 }) else { continue }
            return String(unsafeUninitializedCapacity: 2 * byteCount) { text in
                for (index, byte) in bytes.enumerated() {
                    text[2 * index] = digit(byte >> 4)
                    text[2 * index + 1] = digit(byte & 15)
                }
                return 2 * byteCount
            }
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 { value + (value < 10 ? 0x30 : 0x57) }
}

extension HTTPRequest {
    /// The value of the field `Idempotency-Key`, the same for all attempts. It tells the server that repetitions are one
    /// request, so that a `POST` may be repeated too. Default `nil`.
    ///
    /// ```swift
    /// request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
    /// ```
    public var idempotencyKey: String? {
        get { headers.hasNoFields ? nil : headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }

    /// Returns a unique key: 128 random bits in hexadecimal.
    public static func randomIdempotencyKey() -> String { Hexadecimal.random(byteCount: 16) }
}

extension RequestOptions.Values {
    /// The value of the field `Idempotency-Key` (``HTTPRequest/idempotencyKey``) among the ``headers``. Default `nil`.
    public var idempotencyKey: String? {
        get { headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }
}
