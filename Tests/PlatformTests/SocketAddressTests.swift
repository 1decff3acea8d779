import CLibcurl
import Glibc
import Platform
import Testing

@Suite struct SocketAddressTests {
    @Test(arguments: [[127, 0, 0, 1], [UInt8](repeating: 0, count: 15) + [1]])
    func keepsHostAndPort(host: [UInt8]) throws {
        let address = try #require(SocketAddress(host: host, port: 8_080))
        #expect(address.host == host && address.port == 8_080)
        #expect(address.family == (host.count == 4 ? AF_INET : AF_INET6))
        #expect(address.withoutPort == SocketAddress(host: host))
        #expect(address != SocketAddress(host: host, port: 8_081))
    }

    @Test func invalidAddressIsRefused() {
        #expect(SocketAddress(host: [1, 2, 3]) == nil)
        #expect(SocketAddress(unixPath: "") == nil)
        let longest = String(repeating: "a", count: SocketAddress.unixPathLimit)
        #expect(SocketAddress(unixPath: longest)?.family == AF_UNIX)
        #expect(SocketAddress(unixPath: longest + "a") == nil)
    }

    @Test func readsBothEndsOfAConnection() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { for descriptor in [listener, client] { close(descriptor) } }
        #expect(SocketAddress.peer(of: client) == nil)
        let loopback = try #require(SocketAddress(host: [127, 0, 0, 1]))
        #expect(loopback.call(bind, listener) && listen(listener, 1) == 0)
        let bound = try #require(SocketAddress.own(of: listener))
        #expect(bound.port > 0 && bound.withoutPort == loopback)
        #expect(bound.call(connect, client))
        #expect(SocketAddress.peer(of: client) == bound)
        #expect(SocketAddress.own(of: client)?.host == [127, 0, 0, 1])
    }
}

@Suite struct EventQueueTests {
    @Test func eventCarriesItsToken() throws {
        let queue = try #require(EventQueue())
        let wakeUp = try #require(WakeUp())
        // A descriptor wrongly marked as watched is watched nevertheless.
        queue.watch(wakeUp.descriptor, for: .readable, token: -7, isWatched: true)
        #expect(queue.wait(milliseconds: 0) == 0)
        wakeUp.signal()
        #expect(queue.wait(milliseconds: -1) == 1)
        #expect(queue[0].token == -7 && queue[0].events == .readable)
        wakeUp.clear()
        #expect(queue.wait(milliseconds: 0) == 0)
        wakeUp.signal()
        queue.forget(wakeUp.descriptor)
        #expect(queue.wait(milliseconds: 0) == 0)
    }
}
