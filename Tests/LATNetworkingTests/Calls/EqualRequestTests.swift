import FoundationEssentials
import Testing

@testable import LATClient
@testable import LATTransfers

/// Requests are equal when all their properties are.
@Suite struct EqualRequestTests {
    private static let request = HTTPRequest("GET", "http://h/?q=1", headers: ["A": "1"])

    @Test func equalPropertiesMakeEqualRequests() {
        var other = HTTPRequest("get", "http://h/?q=1", headers: ["A": "1"])
        #expect(other == Self.request && other.hashValue == Self.request.hashValue)
        // A setting that is back at its default does not count.
        other.timeout = .seconds(1)
        #expect(other != Self.request)
        other.timeout = nil
        #expect(other == Self.request && other.hashValue == Self.request.hashValue)
    }

    @Test func copyIsIndependentOfTheOriginal() {
        var original = Self.request
        original.tag = "a"
        let copy = original
        original.tag = "b"
        original.headers["A"] = "2"
        #expect(copy.tag == "a" && copy.headers["A"] == "1" && copy != original)
    }

    @Test func everyPropertyIsCompared() {
        let changes: [(String, (inout HTTPRequest) -> Void)] = [
            ("method", { $0.method = .post }), ("url", { $0.url = "http://h/" }),
            ("headers", { $0.headers["B"] = "2" }),
            ("removal", { $0.headers["B"] = nil }), ("body", { $0.body = .text("x") }),
            ("cachePolicy", { $0.cachePolicy = .networkOnly }), ("unsafe", { $0.cachesUnsafeMethods = true }),
            ("redirects", { $0.redirects = .none }), ("decompresses", { $0.decompresses = false }),
            ("retries", { $0.retries = 0 }), ("timeout", { $0.timeout = .seconds(1) }),
            ("connectTimeout", { $0.connectTimeout = .seconds(1) }), ("idleTimeout", { $0.idleTimeout = .seconds(1) }),
            ("authentication", { $0.authentication = .bearer(token: "t") }), ("priority", { $0.priority = .high }),
            ("waits", { $0.waitsForConnectivity = false }), ("version", { $0.version = .http1 }),
            ("socket", { $0.unixSocketPath = "/s" }), ("proxy", { $0.proxy = ProxyPolicy.direct }),
            ("connections", { $0.maxConnectionsPerHost = 1 }), ("addresses", { $0.addresses = .roundRobin }),
            ("pins", { $0.tls.pins = ["sha256//x"] }),
            ("tls", { $0.tls = HTTPRequest.TLS(minimumVersion: .v1_3) }), ("limits", { $0.ignoresLimits = true }),
            ("maxBodySize", { $0.maxBodySize = 1 }), ("streams", { $0.streamsBody = true }),
            ("sealing", { $0.sealing = .unsealed }), ("tag", { $0.tag = "" }),
            ("duplicates", { $0.duplicates = .allow }),
            ("retryPolicy", { $0.retryPolicy = RetryPolicy() }), ("deadline", { $0.deadline = .seconds(1) }),
            ("barrier", { $0.isBarrier = true }), ("authenticator", { $0.authenticator = .off }),
            ("trace", { $0.traceParent = TraceParent() }), ("replaces", { $0.replacesGlobalHeaders = true }),
            ("rows", { $0.context.rowHeaders = ["R": "1"] }),
            ("secrets", { $0.context.rowSecrets = Secrets(headers: ["R"]) }),
            ("cacheStatus", { $0.cacheStatus = "app" }),
            ("chaos", { $0.chaos = RequestOptions.Chaos(cut: 0.5) }),
            ("hedge", { $0.hedge = .off }),
            ("staleAfter", { $0.staleAfter = .seconds(1) }),
            ("usesDictionaries", { $0.usesDictionaries = true }),
            ("digests", { $0.digests.sends = .sha256 }),
            ("key", { $0.idempotencyKey = "k" }),
        ]
        for (name, change) in changes {
            var changed = Self.request
            change(&changed)
            #expect(changed != Self.request, "\(name)")
            let copy = changed
            #expect(copy == changed && copy.hashValue == changed.hashValue, "\(name)")
        }
    }

    @Test func bodiesAreComparedByContent() {
        func request(_ body: HTTPBody) -> HTTPRequest { HTTPRequest("POST", "http://h/", body: body) }
        #expect(request(.text("a")) == request(.text("a")))
        #expect(request(.text("a")) != request(.text("b")))
        #expect(request(.data(Data("a".utf8))) != request(.text("a")))
        #expect(request(.file("/a")) == request(.file("/a")))
        #expect(
            request(.multipart([UploadFile(name: "f", value: "1")]))
                == request(.multipart([UploadFile(name: "f", value: "1")])))
        // A body that is produced while it is sent equals only its own copies.
        let encoded = request(.json(["a": 1]))
        #expect(encoded == encoded && encoded != request(.json(["a": 1])))
        let stream = request(.stream { AsyncStream<Data> { $0.finish() } })
        #expect(stream == stream && stream != request(.stream { AsyncStream<Data> { $0.finish() } }))
    }

    @Test func retryJudgeEqualsItsCopyOnly() {
        var one = Self.request
        one.retryPolicy = RetryPolicy { _, _ in true }
        let copy = one
        var other = Self.request
        other.retryPolicy = RetryPolicy { _, _ in true }
        #expect(one == copy && one != other)
    }
}
