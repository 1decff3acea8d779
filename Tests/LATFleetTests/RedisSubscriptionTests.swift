import FoundationEssentials
import TestSupport
import Testing

@testable import LATFleet

@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct RedisSubscriptionTests {
    private func message(_ text: String) -> RedisMessage { .message(.data(Data(text.utf8))) }

    private func publish(_ text: String, _ fleet: Fleet) async throws {
        _ = try await fleet.redis.call(
            RedisCommand("PUBLISH", [.text(fleet.channel("c")), .text(text)]), .time(.seconds(10)))
    }

    @Test func messagesReachEveryFleetInOrder() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { first in
            try await withFleet(server.configuration()) { second in
                let heard = [Box<[RedisMessage]>([]), Box<[RedisMessage]>([])]
                let kept = [first, second].enumerated().map { index, fleet in
                    fleet.redis.subscribe(fleet.channel("c")) { message in heard[index].change { $0.append(message) } }
                }
                for box in heard { try await eventually("a subscription") { box.value == [.subscribed] } }
                for number in 0..<500 { try await publish("\(number)", first) }
                let expected = [.subscribed] + (0..<500).map { message("\($0)") }
                for box in heard { try await eventually("all messages") { box.value == expected } }
                kept[0].cancel()
                try await eventually("an end") { try server.cli("PUBSUB", "NUMSUB", first.channel("c")).hasSuffix("1") }
                try await publish("late", second)
                try await eventually("the last message") { heard[1].value.last == message("late") }
                #expect(heard[0].value == expected)
                // Without this use, an optimized build would release the subscription earlier.
                kept[1].cancel()
            }
        }
    }

    @Test func lossReportsThatMessagesMayBeMissed() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let heard = Box<[RedisMessage]>([])
            let kept = fleet.redis.subscribe(fleet.channel("c")) { message in heard.change { $0.append(message) } }
            try await eventually("a subscription") { heard.value == [.subscribed] }
            try server.cli("CLIENT", "KILL", "TYPE", "pubsub")
            try await eventually("a new subscription") { heard.value == [.subscribed, .interrupted, .subscribed] }
            try await publish("again", fleet)
            try await eventually("a message") { heard.value.last == message("again") }
            server.kill()
            try await eventually("the loss") { heard.value.last == .interrupted }
            try await server.startAgain()
            try await eventually("a third subscription") { heard.value.last == .subscribed }
            kept.cancel()
        }
    }

    @Test func silentServerInterruptsSubscriptions() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration { $0.heartbeat = .milliseconds(50) }) { fleet in
            let heard = Box<[RedisMessage]>([])
            let kept = fleet.redis.subscribe(fleet.channel("c")) { message in heard.change { $0.append(message) } }
            try await eventually("a subscription") { heard.value.last == .subscribed }
            server.pause()
            try await eventually("the silence") { heard.value.last == .interrupted }
            server.resume()
            try await eventually("a new subscription") { heard.value.last == .subscribed }
            kept.cancel()
        }
    }

    @Test func secondReceiverOfAChannelIsSubscribedAtOnce() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let first = Box<[RedisMessage]>([])
            let second = Box<[RedisMessage]>([])
            let one = fleet.redis.subscribe(fleet.channel("c")) { message in first.change { $0.append(message) } }
            try await eventually("a subscription") { first.value == [.subscribed] }
            let two = fleet.redis.subscribe(fleet.channel("c")) { message in second.change { $0.append(message) } }
            try await eventually("another one") { second.value == [.subscribed] }
            one.cancel()
            try await publish("x", fleet)
            try await eventually("a message") { second.value == [.subscribed, message("x")] }
            #expect(first.value == [.subscribed])
            two.cancel()
        }
    }

    /// What is published after the end of the first subscription and before the second one is lost.
    @Test func replyToAnEarlierSubscriptionDoesNotCount() async throws {
        let isAsked = Event()
        func reply(_ kind: String, _ last: String) -> String {
            "*3\r\n$\(kind.utf8.count)\r\n\(kind)\r\n$7\r\nlat@0:c\r\n\(last)\r\n"
        }
        let replies =
            reply("subscribe", ":1") + reply("message", "$5\r\nearly") + reply("unsubscribe", ":0")
            + reply("subscribe", ":1") + reply("message", "$4\r\nlate")
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("*4\r\n$7\r\nversion\r\n$3\r\n7.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n".utf8))
            var text = ""
            var isAnswered = false
            while case let bytes = connection.read(), !bytes.isEmpty {
                text += String(decoding: bytes, as: UTF8.self)
                let count = text.split(separator: "$9\r\nSUBSCRIBE\r\n", omittingEmptySubsequences: false).count - 1
                if count > 0 { isAsked.happen() }
                if count == 2, !isAnswered {
                    connection.write(Array(replies.utf8))
                    isAnswered = true
                }
            }
        }
        var configuration = try FleetConfiguration(url: "redis://127.0.0.1:\(server.port)")
        configuration.heartbeat = .seconds(60)
        let fleet = try Fleet(configuration)
        #expect(fleet.channel("c") == "lat@0:c")
        let heard = Box<[RedisMessage]>([])
        let first = fleet.redis.subscribe(fleet.channel("c")) { _ in }
        await isAsked.wait()
        first.cancel()
        let second = fleet.redis.subscribe(fleet.channel("c")) { message in heard.change { $0.append(message) } }
        try await eventually("the last message") { heard.value.last == message("late") }
        #expect(heard.value == [message("early"), .subscribed, message("late")])
        second.cancel()
        await fleet.shutdown()
    }

    @Test func shutdownInterrupts() async throws {
        let server = try await RedisServer()
        let heard = Box<[RedisMessage]>([])
        let fleet = try Fleet(server.configuration())
        let kept = fleet.redis.subscribe(fleet.channel("c")) { message in heard.change { $0.append(message) } }
        try await eventually("a subscription") { heard.value == [.subscribed] }
        await fleet.shutdown()
        #expect(heard.value == [.subscribed, .interrupted])
        kept.cancel()
    }
}
