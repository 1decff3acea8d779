import FoundationEssentials
import LATTesting
import Synchronization
import Testing

@testable import LATNetworking

/// One rule for every setting: call over entity over server row over domain row over defaults over manager.
@Suite struct PrecedenceTests {
    private func table(_ setting: LeveledSetting, _ levels: Set<Level>) throws -> DomainTable {
        // Sealers are not there, so such a call ends in the corridor. The interceptor has seen it before.
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

    @Test func everySettingOfAnEntityIsListed() {
        let names = Mirror(reflecting: RequestOptions()).children.compactMap(\.label)
        // The accessories of an entity and of its call are all notified.
        #expect(Set(names).subtracting(LeveledSetting.all.flatMap(\.options)) == ["accessories"])
    }

    @Test func everySettingOfARowIsListed() {
        // Those of several rows count together, or belong to a domain; `ttl` is part of the cache policy.
        let others: Set = ["volatileParameters", "secretHeaders", "limits", "circuit", "ttl"]
        let names = Mirror(reflecting: DomainTable.RouteSettings()).children.compactMap(\.label)
            .map { $0.hasPrefix("_") ? String($0.dropFirst()) : $0 }.filter { !$0.hasSuffix("Origins") }
        #expect(Set(names).subtracting(others).subtracting(LeveledSetting.all.flatMap(\.rows)) == [])
    }
}
