import FoundationEssentials
import TestSupport
import Testing

@testable import LATFleet

struct RedisGreetingTests {
    private func hello(_ facts: [String: String]) -> RedisValue {
        .array(facts.flatMap { [.data(Data($0.key.utf8)), .data(Data($0.value.utf8))] })
    }

    private func error(_ reply: RedisValue) -> FleetError? {
        var greeting = RedisGreeting(database: 0)
        do throws(FleetError) {
            _ = try greeting.take(reply)
            return nil
        } catch {
            return error
        }
    }

    @Test func learnsVersionAndRole() throws {
        var greeting = RedisGreeting(database: 2)
        let isLast = try [hello(["version": "7.0.15", "mode": "standalone", "role": "replica"]), .status("OK")].map {
            try greeting.take($0)
        }
        #expect(isLast == [false, true])
        #expect(greeting.server == ServerFacts(version: "7.0.15", isReplica: true))
    }

    @Test func serversThatCannotBeUsedAreNamed() {
        #expect(error(hello(["version": "7.0", "mode": "cluster"]))?.message.contains("Cluster") == true)
        #expect(error(hello(["version": "7.0", "mode": "sentinel"]))?.message.contains("Sentinel") == true)
        #expect(
            error(hello(["version": "5.0.3", "mode": "standalone"]))?.message.contains("5.0.3; 6.0 or newer") == true)
        let old = error(.failure(code: "ERR", text: "ERR unknown command `HELLO`, with args beginning with: `2`"))
        #expect(old?.kind == .unsupported && old?.message.contains("5 or older") == true)
        #expect(error(.status("OK"))?.kind == .protocolViolation)
        #expect(error(.failure(code: "WRONGPASS", text: "WRONGPASS invalid"))?.kind == .authentication)
    }

    @Test func sendsTheUserOnlyWithAPassword() {
        let greeting = RedisGreeting(database: 0)
        #expect(greeting.commands(user: nil, password: nil).map(\.bytes).first?.contains(Array("AUTH".utf8)) == false)
        let named = greeting.commands(user: "app", password: "pw")
        #expect(named.count == 1 && named[0].bytes.contains(Array("app\r\n$2\r\npw".utf8)))
        #expect(RedisGreeting(database: 3).commands(user: nil, password: nil).count == 2)
    }
}
