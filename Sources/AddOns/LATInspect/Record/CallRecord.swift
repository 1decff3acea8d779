public import FoundationEssentials
internal import LATNetworking

/// What happened in one call, from its start to its end: a value without secrets, made from the call's events.
///
/// ```swift
/// let recorder = CallRecorder { record in print(record.method, record.url, record.duration ?? .zero) }
/// configuration.accessories = [recorder]
/// ```
///
/// Everything in it is redacted by the call's `ObservedCall.secrets`: fields, parameters of URLs, forms, parts and JSON,
/// and each of their values of six bytes or more wherever another text repeats it.
public struct CallRecord: Hashable, Sendable, Codable, Identifiable {
    /// The number of the call, as `ObservedCall.id`.
    public var id: UInt64
    /// When the call began.
    public var startTime: Date
    /// The request as the caller made it, before the manager's headers and any provider.
    public var request: Request
    /// The rows of the table or the route's template; `nil` for a plain URL.
    public var row: Row?
    /// The tag of the request.
    public var tag: String?
    /// The trace of the call; `nil` for none.
    public var trace: Trace?
    /// What was sent, in order: the first attempt and its repetitions, each with its hops.
    public var attempts: [Attempt] = []
    /// What the call waited for.
    public var waits: [Wait] = []
    /// What the cache decided, in order. The last decision counts.
    public var cache: [CacheDecision] = []
    /// Why the response was not stored; `nil` when it was stored or no cache was used.
    public var notStored: String?
    /// The section that ``notStored`` follows; `nil` for a rule of this package.
    public var notStoredSection: String?
    /// The faults that were made on purpose, in order; `nil` for none.
    public var faults: [Fault]?
    /// The newest events of a stream, lines of JSON or messages of a WebSocket: at most 500, in 256 KiB.
    public var messages: [Message] = []
    /// How many ``messages`` there were in all.
    public var messageCount = 0
    /// How the call ended; `nil` while it runs.
    public var outcome: Outcome?
    /// The time from the start to the end; `nil` while it runs.
    public var duration: Duration?

    /// The method of the request.
    public var method: String { request.method }
    /// The URL of the request.
    public var url: String { request.url }
    /// All exchanges with servers, in order.
    public var exchanges: [Exchange] { attempts.flatMap(\.hops) }
    /// The final response, if there was one.
    public var response: Response? {
        switch outcome {
        case .response(let response): response
        case .failure(let failure): failure.response
        case nil: nil
        }
    }

    /// The place of a call in a trace.
    public struct Trace: Hashable, Sendable, Codable {
        /// The trace: 32 hexadecimal digits.
        public var traceID: String
        /// The span of the call: 16 hexadecimal digits.
        public var spanID: String
        /// The span that the call belongs to; `nil` for a call that begins the trace.
        public var parentID: String?
        /// Whether the trace is recorded.
        public var isSampled: Bool
    }

    /// The rows that a call belongs to.
    public struct Row: Hashable, Sendable, Codable {
        /// The domain row.
        public var domain: String?
        /// The server row.
        public var server: String?
        /// The path with the names of its parameters in braces.
        public var path: String

        /// A short name: `domain/server`, `server`, `domain path` or the path, depending on the rows that it has.
        public var name: String {
            switch (domain, server) {
            case (let domain?, let server?): "\(domain)/\(server)"
            case (nil, let server?): server
            case (let domain?, nil): "\(domain) \(path)"
            case (nil, nil): path
            }
        }
    }

    /// How a call ended.
    public enum Outcome: Hashable, Sendable, Codable {
        /// With a response.
        case response(Response)
        /// With an error.
        case failure(Failure)
    }

    /// An error.
    public struct Failure: Hashable, Sendable, Codable {
        /// The kind, as ``NetworkError/Kind`` describes itself: `timeout(idle)`.
        public var kind: String
        /// What happened and the next step.
        public var message: String
        /// The response, if there was one.
        public var response: Response?
        /// The connection, if there was one.
        public var connection: Connection?
        /// Whether the caller cancelled the call.
        public var isCancelled: Bool { kind == "cancelled" }
        /// The kind without its parentheses, so that there are few groups: `timeout`.
        public var group: String { Self.group(of: kind) }

        static func group(of kind: String) -> String { String(kind.prefix { $0 != "(" }) }
    }

    /// One attempt of the call: a request and the redirects that it led to.
    public struct Attempt: Hashable, Sendable, Codable {
        /// The number; the first is 1.
        public var number: Int
        /// The exchanges, one for each hop.
        public var hops: [Exchange] = []
    }

    /// A message of a call whose response goes on: an event, a line, or a message of a WebSocket.
    public struct Message: Hashable, Sendable, Codable {
        /// What the message is.
        public enum Kind: String, Hashable, Sendable, Codable {
            /// An event of `text/event-stream`, with its fields as they came.
            case event
            /// A line of `application/x-ndjson`, or a record of `application/json-seq`.
            case line
            /// A text message of a WebSocket.
            case text
            /// A binary message of a WebSocket.
            case binary
            /// A ping of this side.
            case ping
            /// A close frame: its code, and its reason as the text.
            case close
        }

        /// What it is.
        public var kind: Kind
        /// Whether this side has sent it.
        public var isSent: Bool
        /// The time since the start of the call.
        public var time: Duration
        /// The number of its bytes.
        public var size: Int
        /// The text, redacted, at most its first 8 KiB; for a binary message the bytes in base64.
        public var text: String
    }

    /// A wait.
    public struct Wait: Hashable, Sendable, Codable {
        /// What the call waited for: a `CallEvent.Wait`, or `retry`.
        public var reason: String
        /// The time from the start of the call to the start of the wait.
        public var start: Duration
        /// How long the wait took; `nil` while it lasts.
        public var duration: Duration?
    }

    /// A fault that was made on purpose (`chaos`).
    public struct Fault: Hashable, Sendable, Codable {
        /// What was done: `delay`, `refusal`, `loss` or `cut`.
        public var kind: String
        /// The time of a delay.
        public var delay: Duration?
        /// The time from the start of the call.
        public var time: Duration
        /// The number of redirects before it.
        public var hop: Int

        init(_ fault: RequestOptions.Chaos.Fault, at time: Duration, hop: Int) {
            (kind, self.time, self.hop) = (fault.name, time, hop)
            if case .delay(let length) = fault { delay = length }
        }
    }

    /// A decision of the cache.
    public struct CacheDecision: Hashable, Sendable, Codable {
        /// What the cache did.
        public enum Action: String, Hashable, Sendable, Codable, CaseIterable {
            /// A stored response answered.
            case hit
            /// A stale stored response answered.
            case stale
            /// A stored response was delivered first, and the request was sent too.
            case first
            /// The server was asked to validate the stored response (RFC 9111 §4.3).
            case revalidation
            /// The request was sent.
            case miss
            /// No stored response could be used, and the network was not allowed.
            case failure
            /// The response can never be stored.
            case bypass
        }

        /// What the cache did.
        public var action: Action
        /// Why, as a clause: `it expired 12 seconds ago`. `nil` for what needs no reason.
        public var reason: String?
        /// The section that the decision belongs to: `RFC 9111 §4.2`. `nil` for a rule of this package.
        public var section: String?
        /// The time from the start of the call.
        public var time: Duration
        /// The number of redirects before it.
        public var hop: Int
    }
}
