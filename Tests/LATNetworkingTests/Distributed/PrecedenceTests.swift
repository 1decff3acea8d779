import FoundationEssentials
import LATTesting
import Synchronization
import Testing

@testable import DomainTables
@testable import LATClient

/// One rule for every setting: call over entity over server row over domain row over defaults over manager.
@Suite struct PrecedenceTests {
    private func table(_ setting: LeveledSetting, _ levels: Set<Level>) throws -> DomainTable {
        // There are no sealers, so a call that must be sealed fails after the interceptor has seen it.
        try DomainTable(
            json5: """
                {
                  defaults: { \(setting.rowText(.defaults, levels)) },
                  domains: { d: { baseURL: "http://127.0.0.1:9", \(setting.rowText(.domain, levels)) } },
                  servers: { s: { domain: "d", path: "x", method: "POST", \(setting.rowText(.server, levels)) } },
                }
                """, environment: nil)
    }

    private func observe(_ setting: LeveledSetting, _ levels: Set<Level>) async throws -> Observation {
        let seen = Mutex(Observation())
        var configuration = ManagerConfiguration()
        configuration.cacheStorage = .memory
        configuration.domains = try table(setting, levels)
        for number in 0..<6 { configuration.authenticators["\(number)"] = Token(number: number) }
        if levels.contains(.manager) { setting.manager?(&configuration, Level.manager.rawValue) }
        let shown = configuration
        seen.withLock { $0.configuration = shown }
        configuration.interceptors = [
            Watching { request in seen.withLock { $0.intercepted = request } }
        ]
        configuration.transport = FunctionTransport { request in
            seen.withLock { $0.sent = request }
            let json = #"{"c0":0,"c1":1,"c2":2,"c3":3,"c4":4,"c5":5}"#
            return HTTPResponse(
                status: 200, headers: ["Content-Type": "application/json"], body: ResponseBody(Data(json.utf8)),
                url: request.url)
        }
        let manager = try CentralRequestManager(configuration: configuration)
        var entity = LeveledCall()
        if levels.contains(.entity) { setting.entity?(&entity.options, Level.entity.rawValue) }
        var call = entity.call
        if levels.contains(.call), let set = setting.call { call = set(call, Level.call.rawValue) }
        let reply = try? await call.reply(on: manager)
        return seen.withLock { seen in
            seen.reply = reply
            return seen
        }
    }

    private struct Watching: Interceptor {
        let watch: @Sendable (HTTPRequest) -> Void

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            watch(request)
            return try await next(request)
        }
    }

    /// All subsets of the levels that a setting has.
    @Test(arguments: LeveledSetting.all)
    func lastLevelThatSetsAValueWins(_ setting: LeveledSetting) async throws {
        let levels = setting.levels
        #expect(levels.count >= 2)
        for subset in 1..<(1 << levels.count) {
            let chosen = Set(levels.indices.filter { subset & 1 << $0 != 0 }.map { levels[$0] })
            guard let winner = chosen.max(by: { $0.rawValue < $1.rawValue }) else { continue }
            let value = setting.read(try await observe(setting, chosen))
            #expect(value == setting.values[winner.rawValue], "\(chosen.map(\.self)) of \(setting.testDescription)")
        }
    }

    /// `retries` is short for the number of `retryPolicy`: the one that is set last, or on the narrower level, counts.
    @Test func retriesAndRetryPolicyAreOneSetting() async throws {
        func sent(
            row: String = "", _ entity: (inout RequestOptions) -> Void = { _ in },
            _ call: (EntityCall<JSONValue>) -> EntityCall<JSONValue> = { $0 }
        ) async throws -> RetryPolicy? {
            let seen = Mutex<RetryPolicy?>(nil)
            var configuration = ManagerConfiguration()
            configuration.domains = try .make(
                "http://127.0.0.1:9", servers: #"s: { domain: "d", path: "x", method: "POST", \#(row) }"#)
            configuration.retries = 1
            configuration.retryPolicy.statuses = [502]
            let ofManager = configuration.retryPolicy
            configuration.transport = FunctionTransport { request in
                seen.withLock { value in
                    value = request.retryPolicy ?? ofManager
                    value?.retries = request.retries ?? ofManager.retries
                }
                return HTTPResponse(status: 204, url: request.url)
            }
            var leveled = LeveledCall()
            entity(&leveled.options)
            _ = try await call(leveled.call).reply(on: try CentralRequestManager(configuration: configuration))
            return seen.withLock { $0 }
        }
        #expect(try await sent() == RetryPolicy(retries: 1, statuses: [502]))
        #expect(try await sent(row: "retries: 2") == RetryPolicy(retries: 2, statuses: [502]))
        let row = "retry: { retries: 2, statuses: [503] }"
        #expect(try await sent(row: row) == RetryPolicy(retries: 2, statuses: [503]))
        #expect(try await sent(row: row) { $0.retries = 3 } == RetryPolicy(retries: 3, statuses: [503]))
        let policy = RetryPolicy(retries: 4, statuses: [504])
        #expect(try await sent(row: row) { $0.retryPolicy = policy } == policy)
        #expect(try await sent(row: row, { $0.retries = 3 }) { $0.retryPolicy(policy) } == policy)
        #expect(
            try await sent(row: row, { $0.retryPolicy = policy }) { $0.retries(5) }
                == RetryPolicy(retries: 5, statuses: [504]))
    }

    @Test func everySettingOfAnEntityIsListed() {
        // The observers of an entity and of its call are all notified; the way of the call decides about a stream.
        let others: Set = ["observers", "streamsBody"]
        #expect(Set(OptionKey.all.map(\.name)).subtracting(LeveledSetting.all.flatMap(\.options)) == others)
    }

    @Test func everySettingOfARowIsListed() {
        // Some count together over several rows, or belong to a domain. `ttl` is part of the cache policy, `events` is
        // for the module LATRealtime, and `query` and `documented` are only in rows.
        let others: Set = [
            "volatileParameters", "secretHeaders", "limits", "circuit", "ttl", "events", "query", "documented",
        ]
        #expect(TableKey.settingNames.subtracting(others).subtracting(LeveledSetting.all.flatMap(\.rows)) == [])
    }
}
