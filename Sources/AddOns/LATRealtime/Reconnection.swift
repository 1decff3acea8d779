import FoundationEssentials
import HTTPCore
import LATNetworking
import Platform

/// When a live connection that was lost is opened again, and after what wait.
///
/// ```swift
/// let options = EventOptions(reconnection: Reconnection(longestWait: .seconds(10), statuses: [502, 503]))
/// for try await event in central.events("GET", url, options: options) { … }
/// ```
///
/// Each wait is random between zero and an upper bound that doubles with each connection that fails, so that clients that
/// were cut off together do not reconnect together.
public struct Reconnection: Sendable, Hashable {
    /// The upper bound of the first wait. A server's `retry` field replaces it. Default 1 s.
    public var firstWait: Duration
    /// The smallest upper bound that a server's `retry` can set, so that `retry: 0` does not make the client hammer the
    /// server; ``longestWait`` limits it. From it the upper bound grows when ``firstWait`` is zero. Default 100 ms.
    public var shortestWait: Duration
    /// The largest upper bound, which a server's `retry` cannot exceed either. Default 30 s.
    public var longestWait: Duration
    /// How many attempts in a row may receive no event or message. After them the last error is thrown; without an error the
    /// stream just ends. Default `nil`: any number.
    public var attempts: Int?
    /// The statuses after which another attempt is made, such as `[429, 502, 503, 504]`. A `Retry-After` of up to
    /// ``longestWait`` is obeyed; a longer one ends the stream. Default none: any status that is not a
    /// success (200, for sockets 101) ends it.
    public var statuses: Set<Int>
    /// How long a connection has to last for the waits to begin again with ``firstWait``. Default 60 s.
    public var stableAfter: Duration

    /// No reconnection, even if the row says otherwise.
    public static let never = Reconnection(attempts: 0)

    /// Makes a policy. Each parameter has the default of its property.
    public init(
        firstWait: Duration = .seconds(1), longestWait: Duration = .seconds(30), attempts: Int? = nil,
        statuses: Set<Int> = [], stableAfter: Duration = .seconds(60), shortestWait: Duration = .milliseconds(100)
    ) {
        self.firstWait = firstWait
        self.longestWait = longestWait
        self.attempts = attempts
        self.statuses = statuses
        self.stableAfter = stableAfter
        self.shortestWait = shortestWait
    }
}

/// Counts the connections of one stream, and decides after each whether another one follows. The caller passes the time and
/// the random number.
struct ReconnectionPlan: Equatable {
    /// Why a connection ended.
    enum End: Equatable {
        /// The server ended it, or it was lost, after it had been open for this long.
        case lost(after: Duration, hadEvents: Bool)
        /// No connection could be made.
        case failed
        /// The server refused it, and may have asked for a wait.
        case refused(status: Int, retryAfter: Duration?)
    }

    private let policy: Reconnection?
    /// The connections that failed since one was last stable. They decide the wait.
    private var failures = 0
    /// The attempts since the last one that received an event or a message.
    private var attempts = 0
    /// The wait that the server asked for with `retry`.
    var serverWait: Duration?

    /// - Parameter policy: `nil` for never.
    init(_ policy: Reconnection?) { self.policy = policy }

    /// - Parameter chance: a number from 0 to 1.
    /// - Returns: the wait before the next attempt; `nil` when there is none.
    mutating func wait(after end: End, chance: Double) -> Duration? {
        guard let policy else { return nil }
        var asked = Duration.zero
        switch end {
        case .lost(let duration, let hadEvents):
            if duration >= policy.stableAfter { failures = 0 }
            if hadEvents { attempts = 0 }
        case .failed:
            break
        case .refused(let status, let retryAfter):
            guard policy.statuses.contains(status) else { return nil }
            asked = retryAfter ?? .zero
            guard asked <= policy.longestWait else { return nil }
        }
        if let limit = policy.attempts, attempts >= limit { return nil }
        let bound = bound(of: policy)
        failures += 1
        attempts += 1
        return asked + bound * chance
    }

    private func bound(of policy: Reconnection) -> Duration {
        let first = serverWait.map { max($0, policy.shortestWait) } ?? policy.firstWait
        // A stream may reconnect at once the first time, and never again without a pause.
        if first == .zero, failures == 0 { return .zero }
        return Backoff(first: max(first, failures > 0 ? policy.shortestWait : .zero), longest: policy.longestWait)
            .pause(afterFailures: first == .zero ? failures : failures + 1)
    }
}

/// What a live connection is doing.
public enum LiveState: Sendable, Hashable {
    /// Nobody reads the stream, so there is no connection. A socket is never idle.
    case idle
    /// The request is under way.
    case connecting
    /// The server has answered; events, or messages in both directions, can pass.
    case open
    /// The connection was lost; another attempt starts at this time.
    case waiting(until: ContinuousClock.Instant)
    /// It has ended and is not opened again.
    case closed
}

/// Values in events and messages.
enum LiveValue {
    /// Decodes JSON with the rules of the call.
    ///
    /// - Parameter what: what the data is, for the error, such as "a message".
    /// - Throws: `NetworkError` of kind `decoding(path:)`, whose path is the place that did not match.
    static func decode<Model: Decodable>(
        _ model: Model.Type, of data: Data, _ coding: CodingRules?, _ what: @autoclosure () -> String
    ) throws -> Model {
        var response = HTTPResponse(status: 200, body: ResponseBody(data), url: "")
        response.coding = coding
        do {
            return try response.decode(model)
        } catch let error as NetworkError {
            let reason = error.underlying.map { DecodingPath($0).reason } ?? error.message
            var place = ""
            if case .decoding(let path) = error.kind, !path.isEmpty { place = " at \(path)" }
            throw NetworkError(
                error.kind, message: "\(what()) is not \(model)\(place): \(reason)", underlying: error.underlying)
        }
    }
}
