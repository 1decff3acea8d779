import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// WebSockets of other libraries: `websockets` and `aiohttp`, and proxies between.
@Suite(
    .enabled(if: WebSocketPeer.isThere, "needs websockets and aiohttp in .venv; scripts/setup --tests has both"),
    .timeLimit(.minutes(5)))
struct WebSocketPeerTests {
    private let manager: CentralRequestManager

    init() throws { manager = try CentralRequestManager.make() }

    @Test(arguments: ["websockets", "aiohttp"]) func messagesAreEchoed(_ library: String) async throws {
        let peer = try await WebSocketPeer(library, #"{"subprotocols": ["v1", "v2"]}"#)
        let socket = try await manager.webSocket(peer.url(), protocols: ["v2"])
        #expect(socket.subprotocol == "v2")
        try await socket.exchange()
        #expect(try await socket.ping() > .zero)
        let closing = try await socket.close(code: 3000, reason: "enough")
        #expect(closing.isClean && !closing.isByServer && closing.code == 3000)
    }

    @Test(arguments: ["websockets", "aiohttp"]) func serverCloses(_ library: String) async throws {
        let peer = try await WebSocketPeer(library)
        let socket = try await manager.webSocket(peer.url())
        try await socket.send("close")
        #expect(try await socket.all().isEmpty)
        #expect(socket.closing == .init(code: 4000, reason: "as you like", isByServer: true, isClean: true))
    }

    /// The client sends messages that compress well, and some that do not, with the parameters of each side.
    @Test(arguments: [
        "{}", #"{"server_no_context_takeover": true}"#, #"{"client_no_context_takeover": true}"#,
        #"{"server_no_context_takeover": true, "client_no_context_takeover": true}"#,
        #"{"server_max_window_bits": 9}"#, #"{"client_max_window_bits": 9}"#,
        #"{"server_max_window_bits": 15, "client_max_window_bits": 15}"#,
        #"{"server_max_window_bits": 9, "client_max_window_bits": 9, "server_no_context_takeover": true}"#,
        #"{"client_max_window_bits": 8}"#,
    ])
    func compressionFollowsItsParameters(_ deflate: String) async throws {
        let peer = try await WebSocketPeer("websockets", "{\"deflate\": [\(deflate)]}")
        let socket = try await manager.webSocket(peer.url())
        #expect(socket.isCompressed)
        let sizes = [0, 16, 64, 256, 1_024, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072]
        try await socket.exchange(sizes: sizes)
        // The windows of both sides hold the earlier messages.
        try await socket.exchange(sizes: sizes.reversed())
        var incoming = socket.messages.makeAsyncIterator()
        for number in 0..<50 {
            let noise = Data((0..<2_000).map { _ in UInt8.random(in: 0...255) })
            try await socket.send(noise)
            #expect(try await incoming.next() == .data(noise), "\(number)")
        }
        try await socket.close()
    }

    @Test func compressionOfAiohttp() async throws {
        let peer = try await WebSocketPeer("aiohttp")
        let socket = try await manager.webSocket(peer.url())
        #expect(socket.isCompressed)
        try await socket.exchange()
        let plain = try await manager.webSocket(peer.url(), options: WebSocketOptions(compresses: false))
        #expect(!plain.isCompressed)
        try await plain.exchange()
    }

    @Test(.needs("openssl")) func tlsAndPinsHold() async throws {
        let certificates = try #require(TestCertificates.shared)
        let peer = try await WebSocketPeer("websockets", #"{"deflate": [{}]}"#, certificate: certificates.server)
        let manager = try CentralRequestManager.make { $0.tls.caFile = certificates.authority }
        var request = HTTPRequest("GET", peer.url("wss"))
        request.tls.pins = [certificates.pin]
        let socket = try await manager.webSocket(request)
        try await socket.exchange()
        try await socket.close()
        request.tls.pins = ["sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
        let wrong = await failure { _ = try await manager.webSocket(request) }
        guard case .tls = wrong?.kind else { throw TestFailure("\(String(describing: wrong))") }
        let unknown = await failure { _ = try await self.manager.webSocket(peer.url("wss")) }
        guard case .tls = unknown?.kind else { throw TestFailure("\(String(describing: unknown))") }
    }

    @Test(.needs("squid"), .needs("microsocks"), .needs("openssl")) func socketsPassProxies() async throws {
        let certificates = try #require(TestCertificates.shared)
        let plain = try await WebSocketPeer("websockets", #"{"deflate": [{}]}"#)
        let secure = try await WebSocketPeer("aiohttp", certificate: certificates.server)
        let squid = try await RealProxy.squid { _ in "http_access allow all" }
        let socks = try await RealProxy.microsocks()
        for proxy in ["http://127.0.0.1:\(squid.port)", "socks5h://127.0.0.1:\(socks.port)"] {
            let manager = try CentralRequestManager.make {
                $0.proxy = .url(proxy)
                $0.tls.caFile = certificates.authority
            }
            for url in [plain.url(), secure.url("wss")] {
                let socket = try await manager.webSocket(url)
                try await socket.exchange(sizes: [0, 5, 70_000])
                try await socket.close()
            }
        }
        // A proxy that is gone ends the connection.
        let manager = try CentralRequestManager.make { $0.proxy = .url("socks5h://127.0.0.1:\(socks.port)") }
        let socket = try await manager.webSocket(plain.url())
        try await socks.kill()
        #expect(await failure { _ = try await socket.all() }?.kind == .connectionLost)
    }

    @Test(.needsNginx)
    func socketsPassAReverseProxy() async throws {
        let peer = try await WebSocketPeer("websockets", #"{"deflate": [{}]}"#)
        let manager = try CentralRequestManager.make { $0.tls.caFile = Servers.authority }
        for base in [Servers.nginx ?? "", Servers.nginxTLS ?? ""] {
            // An ordinary call first: the pool has a connection of HTTP/2 then.
            #expect(try await manager.startRequest("GET", base + "/1k.bin").data.count == 1_024)
            let socket = try await manager.webSocket("\(base)/sockets/\(peer.port)/")
            #expect(socket.isCompressed)
            try await socket.exchange()
            try await socket.close()
        }
    }

    @Test func killedServerIsALoss() async throws {
        let peer = try await WebSocketPeer("aiohttp")
        let socket = try await manager.webSocket(peer.url())
        try await socket.exchange(sizes: [10])
        peer.kill()
        #expect(await failure { _ = try await socket.all() }?.kind == .connectionLost)
    }

    @Test func eventsOfAiohttp() async throws {
        let peer = try await WebSocketPeer("aiohttp")
        let events = try await manager.events(peer.url("http", "/events/500")).all()
        #expect(events.count == 500 && events.last?.data == "event 499" && events.last?.id == "499")
    }
}

struct TestFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
