internal import CurlTransport
internal import Platform

/// What a subscriber of a channel receives, in order.
package enum RedisMessage: Hashable, Sendable {
    /// Messages arrive from now on. Those published before may have been missed: at the first time, and after each
    /// ``interrupted``.
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
final class RedisSubscriptions: RedisLineUser {
    private struct Channel {
        var receivers: [Int: @Sendable (RedisMessage) -> Void] = [:]
        var isSubscribed = false
    }

    private let line: RedisLine
    weak var owner: RedisClient?
    private var channels: [String: Channel] = [:]
    private var connections: ByteConnections?

    init(_ line: RedisLine) {
        self.line = line
        line.user = self
    }

    var due: MonotonicTime { line.due }

    func start(_ connections: ByteConnections) { self.connections = connections }

    func turn(_ now: MonotonicTime) { line.turn(now) }

    func stop() {
        line.stop()
        interrupt()
        channels = [:]
    }

    func change(_ change: SubscriptionChange, _ now: MonotonicTime) {
        switch change {
        case .add(let number, let name, let receive):
            let isNew = channels[name] == nil
            channels[name, default: Channel()].receivers[number] = receive
            if channels[name]?.isSubscribed == true { receive(.subscribed) }
            if isNew { line.send(RedisCommand("SUBSCRIBE", [.text(name)]).bytes) }
            if let connections { line.start(connections, now) }
        case .remove(let number, let name):
            channels[name]?.receivers[number] = nil
            guard channels[name]?.receivers.isEmpty == true else { return }
            channels[name] = nil
            line.send(RedisCommand("UNSUBSCRIBE", [.text(name)]).bytes)
        }
    }

    private func interrupt() {
        for (name, channel) in channels where channel.isSubscribed {
            channels[name]?.isSubscribed = false
            for receive in channel.receivers.values { receive(.interrupted) }
        }
    }

    // MARK: The line's events

    func lineIsReady(_ now: MonotonicTime) {
        guard !channels.isEmpty else { return }
        line.send(RedisCommand("SUBSCRIBE", channels.keys.map { .text($0) }).bytes)
    }

    func lineReceived(_ value: RedisValue, _ now: MonotonicTime) {
        if case .failure(let code, let text) = value {
            // Without permission for a channel no messages arrive. The line connects again: at once if it worked for a while,
            // else after a random pause.
            let error = FleetError(code: code, text: text, command: "SUBSCRIBE")
            return line.fail(error, now)
        }
        guard let parts = value.array, parts.count >= 2, let kind = parts[0].text, let name = parts[1].text else {
            return
        }
        switch kind {
        case "subscribe":
            guard channels[name]?.isSubscribed == false else { return }
            channels[name]?.isSubscribed = true
            for receive in (channels[name]?.receivers ?? [:]).values { receive(.subscribed) }
        case "message" where parts.count == 3:
            for receive in (channels[name]?.receivers ?? [:]).values { receive(.message(parts[2])) }
        default: break
        }
    }

    func lineHasRoom(_ now: MonotonicTime) {}

    func lineIsSilent(_ now: MonotonicTime) { line.send(RedisCommand("PING").bytes) }

    func lineIsDown(_ error: FleetError, pause: Int64, _ now: MonotonicTime) {
        interrupt()
        if error.isForOperators { owner?.mustWarn(error) }
    }
}
