import LATNetworking

/// The settings of an event stream, besides its request. What is not set here comes from `events` in the row of the table.
///
/// ```swift
/// let stream = central.events("POST", url, body: .json(prompt), options: EventOptions(endsAt: "[DONE]"))
/// ```
public struct EventOptions: Sendable, Hashable {
    /// When a lost connection is opened again. It applies to every method, so a POST is sent again. Default `nil`: as the row
    /// says, for safe methods only; without a row, never.
    public var reconnection: Reconnection?
    /// The id of the event after which the stream begins, sent as `Last-Event-ID`. Default empty: the field is not sent.
    public var lastEventID: String
    /// The data of an event that ends the stream, such as `[DONE]`, or its type, such as `message_stop`. An event with this
    /// data is not delivered; one of this type is, as the last. A connection that ends before it is lost: it is opened again as
    /// ``reconnection`` says, or else the loop throws an error of kind `connectionLost`. A 204 ends the stream without it.
    /// Default `nil`: as the row says, or none, so that any end of the response is the end of the stream.
    public var endsAt: String?
    /// The largest size of an event's data and of a line, in bytes. Default `nil`: as the row says, or 1 MiB.
    public var eventLimit: Int?

    /// Makes options. Each parameter has the default of its property.
    public init(
        reconnection: Reconnection? = nil, lastEventID: String = "", endsAt: String? = nil, eventLimit: Int? = nil
    ) {
        self.reconnection = reconnection
        self.lastEventID = lastEventID
        self.endsAt = endsAt
        self.eventLimit = eventLimit
    }
}

/// The options of one stream, with those of its row.
struct EventRules: Equatable {
    static let standardLimit = 1 << 20

    let reconnection: Reconnection?
    let endsAt: String?
    let eventLimit: Int

    /// - Parameters:
    ///   - isSafe: whether the method is safe, so that the row's reconnection applies (RFC 9110 §9.2.1).
    ///   - isReplayable: whether the request can be sent again at all.
    init(_ options: EventOptions, _ row: DomainTable.EventSettings, isSafe: Bool, isReplayable: Bool) {
        var reconnection = options.reconnection
        if reconnection == nil, row.reconnect == true, isSafe {
            let standard = Reconnection()
            reconnection = Reconnection(
                firstWait: row.firstWait ?? standard.firstWait, longestWait: row.longestWait ?? standard.longestWait,
                attempts: row.attempts, statuses: row.statuses ?? [])
        }
        self.reconnection = isReplayable ? reconnection : nil
        endsAt = options.endsAt ?? row.endsAt
        eventLimit = options.eventLimit ?? row.eventLimit ?? Self.standardLimit
    }
}
