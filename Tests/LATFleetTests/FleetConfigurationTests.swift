import CurlTransport
import FoundationEssentials
import HTTPCore
import LATNetworking
import Platform
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

struct FleetConfigurationTests {
    @Test func readsTheUsualURLs() throws {
        let full = try FleetConfiguration(url: "rediss://app:p%40ss%2Fword@redis.example.org:6380/2?prefix=shop")
        #expect(full.address == .host("redis.example.org", port: 6380) && full.isSecure)
        #expect(full.user == "app" && full.password == "p@ss/word" && full.database == 2 && full.prefix == "shop")
        let short = try FleetConfiguration(url: "redis://localhost")
        #expect(short.address == .host("localhost", port: 6379) && !short.isSecure && short.password == nil)
        let unnamed = try FleetConfiguration(url: "redis://:pw@[::1]:7000/?db=3")
        #expect(unnamed.address == .host("::1", port: 7000) && unnamed.user == nil && unnamed.password == "pw")
        #expect(unnamed.database == 3 && unnamed.transportURL == "http://[::1]:7000/")
        for scheme in ["unix", "redis+unix", "UNIX"] {
            let socket = try FleetConfiguration(url: "\(scheme)://:pw@/run/my%20redis.sock?db=1")
            #expect(socket.address == .unixSocket(path: "/run/my redis.sock") && socket.database == 1)
        }
    }

    @Test(arguments: [
        ("localhost:6379", "no scheme"), ("http://localhost", "\"http\" is not a scheme"), ("redis://", "no host"),
        ("redis://host:no", "port of the Redis is not a number"), ("redis://host:0", "0 is not a port"),
        ("redis://host:70000", "70000 is not a port"), ("redis://host/x", "\"x\" is not a number"),
        ("redis://host?timeout=3", "unknown parameter \"timeout\""), ("redis://me@host", "a user but no password"),
        ("redis://:a%zz@host", "not percent-encoded"), ("redis://host#1", "contains #"),
        ("unix://run/redis.sock", "begins with /"),
        ("redis-socket:///run/redis.sock", "written unix:///PATH"), ("redis://[::1", "no closing bracket"),
        ("redis://host?prefix=a%7Bb", "prefix"), ("redis://host:-6379", "not a number"),
    ])
    func wrongURLsSayWhatIsExpected(_ url: String, _ text: String) throws {
        let error = try #require(throws: FleetError.self) { try FleetConfiguration(url: url) }
        #expect(error.kind == .configuration && error.message.contains(text), "\(error)")
    }

    @Test(arguments: [
        "redis-sentinel://a:26379", "redis+sentinel://a/main", "redis-cluster://a:6379", "redis+cluster://a",
        "redis://a:6379,b:6379",
    ])
    func clusterAndSentinelAreRefusedByName(_ url: String) throws {
        let error = try #require(throws: FleetError.self) { try FleetConfiguration(url: url) }
        #expect(error.kind == .unsupported && (error.message.contains("Cluster") || error.message.contains("Sentinel")))
    }

    @Test func secretsAreNotShown() throws {
        let configuration = try FleetConfiguration(url: "redis://app:hunter2@host:1")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped] {
            #expect(!text.contains("hunter2") && !text.contains("app"), "\(text)")
        }
        for url in [
            "redis://app:hunter2@host:port", "redis://app:hunter2@", "x://app:hunter2@host",
            "redis://app:hunter2/x@host:b", "unix://app:ab?hunter2@/run/redis.sock", "redis://app?hunter2@host",
            "redis://:12?hunter2@host", "redis://host:12/hunter2?x@y", "redis://app:1?a&hunter2&b@host",
            "unix://app:ab?db=hunter2@/run/redis.sock", "unix://app:hunter2/run/redis.sock",
        ] {
            let error = #expect(throws: FleetError.self) { try FleetConfiguration(url: url) }
            #expect(error?.message.contains("hunter2") == false)
        }
    }

    @Test func reportReadsAsLines() {
        var status = FleetStatus()
        status.latency = .microseconds(120)
        status.lastError = "no answer"
        let names =
            ["cache.leases.won", "cache.leases.lost", "limits.granted", "limits.waited", "limits.alone"]
            + ["circuits.opened", "circuits.heard", "tokens.renewed", "tokens.adopted", "tokens.alone"]
        for (number, name) in names.enumerated() { status.counters[name] = number + 1 }
        #expect(
            FleetReport(status, CacheStatistics()).description == """
                Redis   connecting, breaker closed, latency 120 µs
                        no answer
                cache   memory 0, disk 0, Redis 0, misses 0
                leases  won 1, lost 2
                limits  granted 3, waited 4, alone 5
                circuit opened 6, heard 7
                tokens  renewed 8, adopted 9, alone 10
                """)
    }

    @Test func countsOfReleasedObserversStay() {
        let counters = FleetCounters()
        counters.counter("a").add(1)
        var observation: Any? = counters.observe { ["a": 10, "b": 5] }
        #expect(observation != nil && counters.values == ["a": 11, "b": 5])
        observation = nil
        for _ in 0..<3 { _ = counters.observe { ["b": 1] } }
        #expect(counters.values == ["a": 11, "b": 8])
    }

    @Test func endOfObservationMayEndAnother() {
        let counters = FleetCounters()
        let inner = Box<FleetSubscription?>(counters.observe { ["a": 1] })
        var outer: Any? = counters.observe {
            inner.change { $0 = nil }
            return ["b": 2]
        }
        #expect(outer != nil)
        outer = nil
        #expect(counters.values == ["a": 1, "b": 2])
    }

    @Test func managerNeedsAName() throws {
        var configuration = CentralRequestManager.Configuration()
        configuration.join(try Fleet(FleetConfiguration()), as: "")
        let error = #expect(throws: FleetError.self) { try CentralRequestManager(configuration: configuration) }
        #expect(error?.message.contains("without a name") == true)
    }

    @Test func bodyLimitIsWhatALookUpAccepts() throws {
        var options = FleetCacheOptions()
        options.bodyLimit = 1 << 30
        try options.validate()
        for limit in [-1, (1 << 30) + 1] as [Int64] {
            options.bodyLimit = limit
            let error = #expect(throws: FleetError.self) { try options.validate() }
            #expect(error?.message.contains("bodyLimit is \(limit)") == true)
        }
    }

    @Test(
        arguments: [
            (.seconds(60), 60_000), (.seconds(90 * 86_400), 90 * 86_400_000), (.seconds(Int64.max), 1 << 40),
        ] as [(Duration, Int64)])
    func maxLifetimeIsKept(_ lifetime: Duration, _ milliseconds: Int64) throws {
        var options = FleetCacheOptions()
        options.maxLifetime = lifetime
        var configuration = FleetConfiguration()
        configuration.warningHandler = { _ in }
        let store = try Fleet(configuration).cacheTier(options)
        let entry = CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200, headers: [:],
            requestTime: .now, responseTime: .now)
        #expect(store.life(of: entry) == milliseconds)
        #expect(store.generationLife == milliseconds + 3_600_000)
    }

    @Test func valuesThatCannotWorkAreRefused() throws {
        func error(_ change: (inout FleetConfiguration) -> Void) -> FleetError? {
            var configuration = FleetConfiguration()
            change(&configuration)
            return #expect(throws: FleetError.self) { try configuration.validate() }
        }
        #expect(error { $0.lookUpBudget = .zero }?.message.contains("lookUpBudget") == true)
        #expect(error { $0.breakerThreshold = 0 }?.message.contains("breakerThreshold") == true)
        #expect(error { $0.prefix = "a b" }?.message.contains("prefix") == true)
        #expect(error { $0.database = -1 }?.message.contains("database") == true)
        #expect(error { $0.maxReplySize = 1 }?.message.contains("maxReplySize") == true)
        #expect(
            error {
                $0.address = .unixSocket(path: "/x"); $0.isSecure = true
            }?.message.contains("TLS") == true)
    }

    @Test func heartbeatMayBeEndless() throws {
        var configuration = FleetConfiguration()
        configuration.heartbeat = .seconds(Int64.max)
        let transport = try CurlTransport(configuration: EngineConfiguration())
        let endpoint = try transport.endpoint(for: HTTPRequest("GET", "http://127.0.0.1:1/"))
        let commands = RedisCommands(configuration, RedisConnection(configuration, endpoint, database: 0))
        // The limit of the `PING` is twice the heartbeat.
        commands.connectionIsSilent(.now)
        #expect(commands.due > .now)
    }
}
