internal import FoundationEssentials

extension HTTPBody {
    /// How the JSON values of a body follow each other.
    public enum ValueFormat: String, Sendable, Hashable, CaseIterable {
        /// One value in each line: NDJSON, JSON Lines. `application/x-ndjson`.
        case jsonLines
        /// A record separator, a value and a line feed (RFC 7464). `application/json-seq`.
        case jsonSequence

        var contentType: String {
            switch self {
            case .jsonLines: "application/x-ndjson"
            case .jsonSequence: "application/json-seq"
            }
        }
    }

    /// The values of an asynchronous sequence as JSON lines. The next one is asked for when the one before was sent, so a server
    /// that reads slowly makes the sequence wait.
    ///
    /// ```swift
    /// try await central.startRequest("POST", "/_bulk", body: .values(changes))
    /// ```
    ///
    /// Values are encoded with the ``Coding`` of the request. The body can be sent only once, as with
    /// ``stream(_:length:contentType:)``. A value that does not encode fails the request with
    /// ``NetworkError/Kind/requestBody``, which names its number and the path; what was sent before it may have had its effect.
    ///
    /// - Parameters:
    ///   - format: how the values follow each other. Default ``ValueFormat/jsonLines``.
    ///   - contentType: the media type. Default `nil`: that of the format.
    public static func values<S: AsyncSequence & Sendable>(
        _ values: S, as format: ValueFormat = .jsonLines, contentType: String? = nil
    ) -> HTTPBody where S.Element: Encodable {
        self.values(format, contentType, isReplayable: false) { writer in
            var (iterator, writer) = (values.makeAsyncIterator(), writer)
            return { try await iterator.next().map { try writer.data(of: $0) } }
        }
    }

    /// The values of a sequence that the closure makes again each time the body is sent; otherwise like
    /// the body of a sequence.
    public static func values<S: AsyncSequence & Sendable>(
        as format: ValueFormat = .jsonLines, contentType: String? = nil, _ makeValues: @escaping @Sendable () -> S
    ) -> HTTPBody where S.Element: Encodable {
        values(format, contentType, isReplayable: true) { writer in
            var (iterator, writer) = (makeValues().makeAsyncIterator(), writer)
            return { try await iterator.next().map { try writer.data(of: $0) } }
        }
    }

    /// The values of an array as JSON lines, encoded while they are sent. The body can be sent again.
    public static func values<Value: Encodable & Sendable>(
        _ values: [Value], as format: ValueFormat = .jsonLines, contentType: String? = nil
    ) -> HTTPBody {
        self.values(format, contentType, isReplayable: true) { writer in
            var (rest, writer) = (values[...], writer)
            return {
                var chunk = Data()
                while chunk.count < 32 << 10, let value = rest.popFirst() { chunk += try writer.data(of: value) }
                return chunk.isEmpty ? nil : chunk
            }
        }
    }

    private static func values(
        _ format: ValueFormat, _ contentType: String?, isReplayable: Bool,
        _ start: @escaping @Sendable (ValueWriter) -> BodyStream.NextChunk
    ) -> HTTPBody {
        HTTPBody(
            content: .stream(BodyStream(ofValues: format, nil, isReplayable: isReplayable, start)),
            contentType: contentType ?? format.contentType)
    }
}

extension BodyStream {
    fileprivate convenience init(
        ofValues format: HTTPBody.ValueFormat, _ rules: CodingRules?, isReplayable: Bool,
        _ start: @escaping @Sendable (ValueWriter) -> NextChunk
    ) {
        self.init(
            length: nil, isReplayable: isReplayable,
            coded: { BodyStream(ofValues: format, $0, isReplayable: isReplayable, start) },
            makeIterator: { start(ValueWriter(format, rules)) })
    }
}

/// Writes one JSON value after the other.
private struct ValueWriter: Sendable {
    private let format: HTTPBody.ValueFormat
    private let rules: CodingRules?
    private var count = 0

    init(_ format: HTTPBody.ValueFormat, _ rules: CodingRules?) {
        self.format = format
        self.rules = rules
    }

    mutating func data(of value: some Encodable) throws -> Data {
        count += 1
        do {
            var json: Data
            if let encoder = rules?.coding.encoder {
                json = try encoder.encode(value)
                // An encoder of the app's may write several lines.
                if json.contains(0x0A) { json = try JSONValue(parsing: json).data() }
            } else {
                json = try JSONValueEncoder(rules: rules).data(of: value)
            }
            json.append(0x0A)
            return format == .jsonSequence ? Data([0x1E]) + json : json
        } catch {
            throw NetworkError(
                .requestBody,
                message:
                    "value \(count) of the body does not encode: \(BodyEncoder.reason(error)); correct it, or leave it "
                    + "out of the sequence", underlying: error)
        }
    }
}
