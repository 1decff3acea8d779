import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATRealtime

/// A network that disappears silently, as when a cable is pulled: the end of the connection never arrives.
@Suite(
    .needsNetworkNamespaces,
    .timeLimit(.minutes(2)))
struct LostNetworkTests {
    /// A server and a manager in a network of their own.
    private final class Place: Sendable {
        let server: MockServer
        let manager: CentralRequestManager
        private let namespace: CInt

        init() throws {
            (server, manager, namespace) = try NetworkNamespace.run {
                let namespace = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)
                guard namespace >= 0 else { throw NetworkNamespace.Failure(description: "no namespace to open") }
                return (try MockServer(), try CentralRequestManager.make(), namespace)
            }
        }

        deinit { close(namespace) }

        /// Nothing arrives any more.
        func cutNetwork() throws {
            try ChildProcess.run(
                "nsenter", ["--net=/proc/\(getpid())/fd/\(namespace)", "ip", "link", "set", "lo", "down"], in: "/")
        }
    }

    @Test func pingsAndIdleLimitNotice() async throws {
        let place = try Place()
        place.server.route("GET", "/socket") { _ in .webSocket(.text("a"), .receive(.max)) }
        place.server.route("GET", "/events") { _ in .events(.event("a"), .stall) }
        let socket = try await place.manager.webSocket(
            place.server.url("/socket"), options: WebSocketOptions(pingInterval: .seconds(1), missedPongs: 2))
        var request = HTTPRequest("GET", place.server.url("/events"))
        request.idleTimeout = .seconds(3)
        var messages = socket.messages.makeAsyncIterator()
        var events = place.manager.events(request).makeAsyncIterator()
        #expect(try await messages.next() == .text("a"))
        #expect(try await events.next()?.data == "a")
        // The pings of the client are answered.
        try await socket.ping()
        try place.cutNetwork()
        #expect(await failure { _ = try await messages.next() }?.kind == .timeout(.idle))
        #expect(await failure { _ = try await events.next() }?.kind == .timeout(.idle))
        place.server.stop()
        await place.manager.shutdown()
    }
}
