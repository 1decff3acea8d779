internal import CurlTransport
internal import Platform

/// What a subscriber of a channel receives, in order.
package enum RedisMessage: Hashable, Sendable {
    /// Messages arrive from now on. Those before the first ``subscribed``, or since the last ``interrupted``, may have
    /// been missed.
    case subscribed
    /// No messages arrive until the next ``subscribed``.
    case interrupted
    /// A message was published. Its payload is ``RedisValue/data(_:)``.
    case message(RedisValue)
}

/// A change of the subscriptions.
enum SubscriptionChange: Sendable {
    case add(Int, channel: String, @Sendable (RedisMessage) -> Void)
    case remove(Int, channel: String)
}

/// The connection that receives published messages. It is made for the first subscription. Belongs to the engine's thread.
final class RedisSubscriptions: RedisConnectionUser {
    private struct Channel {
        var receivers: [Int: @Sendable (RedisMessage) -> Void] = [:]
        var isSubscribed = false
    }

    private let connection: RedisConnection
    weak var owner: RedisClient?
    private var channels: [String: Channel] = [:]
    /// How many `UNSUBSCRIBE` commands are not answered yet, by channel. A `subscribe` reply that comes before their replies
    /// belongs to a subscription that they end.
    private var endings: [String: Int] = [:]
    private var connections: ByteConnections?

    init(_ connection: RedisConnection) {
        self.connection = connection
        connection.user = self
    }

    var due: MonotonicTime { connection.due }

    func start(_ connections: ByteConnections) { self.connections = connections }

    func turn(_ now: MonotonicTime) { connection.turn(now) }

    func stop() {
        connection.stop()
        interrupt()
        channels = [:]
    }

    func change(_ change: SubscriptionChange, _ now: MonotonicTime) {
        switch change {
        case .add(let number, let name, let receive):
            let isNew = channels[name] == nil
            channels[name, default: Channel()].receivers[number] = receive
            if channels[name]?.isSubscribed == true { receive(.subscribed) }
            if isNew { connection.send(RedisCommand("SUBSCRIBE", [.text(name)]).bytes) }
            if let connections { connection.start(connections, now) }
        case .remove(let number, let name):
            channels[name]?.receivers[number] = nil
            guard channels[name]?.receivers.isEmpty == true else { return }
            channels[name] = nil
            guard connection.isReady else { return }
            endings[name, default: 0] += 1
            connection.send(RedisCommand("UNSUBSCRIBE", [.text(name)]).bytes)
        }
    }

    private func interrupt() {
        for (name, channel) in channels where channel.isSubscribed {
            channels[name]?.isSubscribed = false
            for receive in channel.receivers.values { receive(.interrupted) }
        }
    }

    // MARK: The connection's events

    func connectionIsReady(_ now: MonotonicTime) {
        endings = [:]
        guard !channels.isEmpty else { return }
        connection.send(RedisCommand("SUBSCRIBE", channels.keys.map { .text($0) }).bytes)
    }

    func connectionReceived(_ value: RedisValue, _ now: MonotonicTime) {
        if case .failure(let code, let text) = value {
            // Without permission for a channel no messages arrive. The next connection is made at once if this one worked for a
            // while, else after a random pause.
            let error = FleetError(code: code, text: text, command: "SUBSCRIBE")
            return connection.fail(error, now)
        }
        guard let parts = value.array, parts.count >= 2, let kind = parts[0].text, let name = parts[1].text else {
            return
        }
        switch kind {
        case "subscribe":
            guard endings[name] == nil, channels[name]?.isSubscribed == false else { return }
            channels[name]?.isSubscribed = true
            for receive in (channels[name]?.receivers ?? [:]).values { receive(.subscribed) }
        case "unsubscribe":
            if let count = endings[name] { endings[name] = count > 1 ? count - 1 : nil }
        case "message" where parts.count == 3:
            for receive in (channels[name]?.receivers ?? [:]).values { receive(.message(parts[2])) }
        default: break
        }
    }

    func connectionHasRoom(_ now: MonotonicTime) {}

    func connectionIsSilent(_ now: MonotonicTime) { connection.send(RedisCommand("PING").bytes) }

    func connectionIsDown(_ error: FleetError, pause: Int64, _ now: MonotonicTime) {
        interrupt()
        if error.isForOperators { owner?.mustWarn(error) }
    }
}
