public import FoundationEssentials
public import LATNetworking

extension CallRecord {
    /// A request that went to a server, and what came back.
    public struct Exchange: Hashable, Sendable, Codable {
        /// The attempt that it belongs to; the first is 1.
        public var attempt: Int
        /// The number of redirects before it.
        public var hop: Int
        /// The time from the start of the call to the start of this exchange.
        public var start: Duration
        /// How long it took, until the end of the body. While a stream is read: until the newest event. `nil` as long as there
        /// is neither a response nor a failure.
        public var duration: Duration?
        /// The request with all its headers.
        public var request: Request
        /// The response; `nil` when there was none.
        public var response: Response?
        /// Why there was no response, or why its body ended early.
        public var failure: Failure?
        /// The stages; `nil` as long as there is neither a response nor a failure.
        public var stages: Stages?
        /// The identifier of its span of the trace; `nil` for none.
        public var spanID: String?
    }

    /// How long the stages of an exchange took. They add up to its duration.
    public struct Stages: Hashable, Sendable, Codable {
        /// Before the transfer: the queue of connections, and the client's own work.
        public var blocked: Duration = .zero
        /// The name resolution; `nil` for a reused connection.
        public var nameLookup: Duration?
        /// Connecting, without name resolution and TLS; `nil` for a reused connection.
        public var connect: Duration?
        /// The TLS handshake; `nil` without TLS, and for a reused connection.
        public var tls: Duration?
        /// The request, and the wait for the first byte of the response.
        public var wait: Duration = .zero
        /// The rest of the response.
        public var receive: Duration = .zero

        /// The sum.
        public var total: Duration {
            blocked + (nameLookup ?? .zero) + (connect ?? .zero) + (tls ?? .zero) + wait + receive
        }

        /// Stages that took no time.
        public init() {}

        /// Divides the time of an exchange by the transfer's timings, which count from the start of the transfer.
        ///
        /// - Parameters:
        ///   - duration: the time of the exchange. What the timings do not cover is ``blocked``.
        ///   - streaming: how much of it passed after the head of a streamed response.
        init(_ timings: Timings?, duration: Duration, streaming: Duration = .zero) {
            let streaming = min(max(.zero, streaming), duration)
            let head = duration - streaming
            guard let timings, let first = timings.firstByte ?? timings.total else {
                wait = head
                receive = streaming
                return
            }
            // The clock of libcurl and that of the calls differ by a little, so each mark is at least the one before it and
            // none exceeds the whole.
            let end = min(max(first, timings.total ?? first), head)
            blocked = head - end
            var mark = Duration.zero
            func stage(_ time: Duration?) -> Duration? {
                guard let time else { return nil }
                let next = min(max(mark, time), end)
                defer { mark = next }
                return next - mark
            }
            nameLookup = stage(timings.nameLookup)
            // A transfer with a look-up but without a connection failed while it connected.
            let isUnconnected = timings.firstByte == nil && timings.connect == nil && timings.nameLookup != nil
            connect = stage(isUnconnected ? first : timings.connect)
            tls = stage(timings.tls)
            wait = stage(first) ?? .zero
            receive = end - mark + streaming
        }
    }

    /// A request.
    public struct Request: Hashable, Sendable, Codable {
        /// The method.
        public var method: String
        /// The URL, without user information, fragment and the values of secret parameters.
        public var url: String
        /// The fields.
        public var headers: [Field]
        /// The body; `nil` for none.
        public var body: Body?
    }

    /// A response.
    public struct Response: Hashable, Sendable, Codable {
        /// The status code.
        public var status: Int
        /// The reason phrase.
        public var reason: String
        /// The version of HTTP.
        public var version: String
        /// The fields as received.
        public var headers: [Field]
        /// The fields after the body.
        public var trailers: [Field]
        /// The body; `nil` for an empty one.
        public var body: Body?
        /// The URL that it came from.
        public var url: String
        /// Where it came from.
        public var source: HTTPResponse.Source
        /// The connection; `nil` for a response that came over none.
        public var connection: Connection?

        /// The value of a field, the first of that name in any case.
        public func header(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    /// A header field.
    public struct Field: Hashable, Sendable, Codable {
        /// The name as written.
        public var name: String
        /// The value, redacted.
        public var value: String
        /// Where the value of a request's field came from: a `CallEvent.FieldSource`, or `sdk` for what was added last, by
        /// a signer, a sealer, the cache or the trace. `nil` for fields of responses and of `CallRecord.request`.
        public var source: String?
        /// Where a row of the table sets the value: its line, `Config/domains.json5:12`, or `code`. `nil` for values from
        /// elsewhere.
        public var origin: String?
    }

    /// A connection.
    public struct Connection: Hashable, Sendable, Codable {
        /// The number among the manager's connections; `nil` with a libcurl before 8.2.
        public var id: Int64?
        /// The address of the other end.
        public var remoteAddress: String
        /// The port of the other end.
        public var remotePort: Int
        /// The port of this end.
        public var localPort: Int
        /// Whether an earlier request had opened it.
        public var isReused: Bool
        /// The bytes of the response's head.
        public var headSize: Int
        /// The TLS connection; `nil` without TLS, and where it is not known.
        public var tls: TLS?
    }

    /// What is known about a TLS connection.
    public struct TLS: Hashable, Sendable, Codable {
        /// The version in OpenSSL's notation: `TLSv1.3`.
        public var version: String
        /// The name of the cipher suite.
        public var cipher: String
        /// The subject of the server's certificate: `CN = example.org`.
        public var subject: String
        /// The issuer of the certificate.
        public var issuer: String
        /// The start of the certificate's validity.
        public var validFrom: Date
        /// The end of the certificate's validity.
        public var validUntil: Date
        /// Whether the certificate leads to a trusted authority.
        public var isTrusted: Bool
    }

    /// A body as far as it was captured.
    public struct Body: Hashable, Sendable, Codable {
        /// What was captured.
        public enum Content: Hashable, Sendable, Codable {
            /// Text, redacted.
            case text(String)
            /// Bytes that are not text.
            case bytes(Data)
            /// The parts of a form.
            case parts([Part])
            /// Nothing, and why.
            case omitted(String)
        }

        /// The media type; `nil` for none.
        public var contentType: String?
        /// What was captured.
        public var content: Content
        /// The number of bytes after decompression; `nil` where it is not known.
        public var size: Int64?
        /// The number of bytes on the wire; `nil` where it is not known, as for a request without a response.
        public var wireSize: Int64?
        /// Whether there was more than was captured.
        public var isTruncated = false
    }

    /// A part of a form.
    public struct Part: Hashable, Sendable, Codable {
        /// The name of the field.
        public var name: String
        /// The name of the file; `nil` for a plain field.
        public var fileName: String?
        /// The media type.
        public var contentType: String?
        /// The text, redacted; `nil` for what is not text or was not captured.
        public var text: String?
    }
}
