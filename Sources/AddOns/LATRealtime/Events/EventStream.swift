import LATNetworking
import Platform

/// The events of a server (`text/event-stream`), in the order in which it sends them.
///
/// ```swift
/// let prices = central.events("GET", url, options: EventOptions(reconnection: Reconnection()))
/// for try await event in prices {
///     print(event.type, event.data)
/// }
/// ```
///
/// The connection is opened when the first event is requested, and closed when the loop ends or its task is cancelled. A
/// slow reader makes the server wait: at most 256 KiB are buffered. One loop reads at a time. A later loop opens its own
/// connection, which begins after ``lastEventID``.
///
/// The stream ends when the server ends it. With a ``Reconnection`` it is opened again instead, with the id of the
/// last event as `Last-Event-ID`, and ends when the server answers 204. Any other status than 200 ends it with an
/// error, unless ``Reconnection/statuses`` contains it, and so does another media type. After its end there are no more
/// events.
public struct EventStream<Element: Sendable>: AsyncSequence, Sendable {
    let session: EventSession
    /// Makes the element of an event; `nil` for an event that is skipped.
    let element: @Sendable (ServerSentEvent) throws -> Element?

    /// What the stream is doing now.
    public var state: LiveState { session.state.current }

    /// What the stream is doing, now and after every change, until it is closed. A slow reader misses states, but
    /// never the latest.
    public var states: AsyncStream<LiveState> { session.state.values() }

    /// The id of the last event; before the first one, ``EventOptions/lastEventID``. Empty when there is none. A new
    /// stream with this id in its options continues after the event.
    public var lastEventID: String { session.lastEventID }

    /// Starts a loop.
    public func makeAsyncIterator() -> Iterator { Iterator(reader: EventReader(session), element: element) }

    /// The iterator of the events.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let reader: EventReader
        fileprivate let element: @Sendable (ServerSentEvent) throws -> Element?

        /// The next event; `nil` when the stream has ended.
        ///
        /// - Throws: `NetworkError`; `CancellationError` when the current task was cancelled.
        public mutating func next() async throws -> Element? { try await next(isolation: nil) }

        /// The next event, as ``next()``, without leaving the actor of the caller while events are there.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Element? {
            do {
                while let event = try await reader.next(isolation: actor) {
                    if let element = try element(event) { return element }
                }
                return nil
            } catch {
                reader.fail(error)
                throw error
            }
        }
    }
}

extension EventStream where Element == ServerSentEvent {
    init(
        _ manager: CentralRequestManager, _ options: EventOptions,
        makeCall: @escaping @Sendable (CentralRequestManager) throws(NetworkError) -> LiveCall
    ) {
        self.init(session: EventSession(manager, options, makeCall: makeCall)) { $0 }
    }

    /// The events decoded from the JSON of their data, with the `Coding` of the call.
    ///
    /// ```swift
    /// for try await token in central.events("POST", url, body: .json(prompt)).decoded(as: Token.self) { … }
    /// ```
    ///
    /// The loop ends with an error of kind `decoding(path:)` when an event cannot be decoded, and of kind `business(code:)` when
    /// the server reports a failure; see ``ServerSentEvent/decode(_:)``. A loop over the result counts as a loop over this
    /// stream.
    ///
    /// - Parameters:
    ///   - model: what the data of each event is decoded as.
    ///   - type: the only type of events to deliver. An event of the type `error` is thrown. Default `nil`: all of them.
    public func decoded<Model: Decodable & Sendable>(
        as model: Model.Type, type: String? = nil
    ) -> EventStream<Model> {
        EventStream<Model>(session: session) { event in
            guard type == nil || event.type == type else {
                if let failure = event.unseenFailure { throw failure }
                return nil
            }
            return try event.decode(model)
        }
    }
}
