import CLibcurl
import CLinux
import Dispatch
import Glibc
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct NetworkWatchTests {
    // MARK: Messages of the kernel

    /// Makes an rtnetlink message.
    private func message<Body>(_ type: Int, _ body: Body, _ attributes: [(UInt16, [UInt8])] = []) -> [UInt8] {
        var payload = withUnsafeBytes(of: body) { Array($0) }
        for (kind, value) in attributes {
            let length = UInt16(4 + value.count)
            payload += withUnsafeBytes(of: length) { Array($0) } + withUnsafeBytes(of: kind) { Array($0) } + value
            while payload.count % 4 != 0 { payload.append(0) }
        }
        var header = nlmsghdr()
        header.nlmsg_len = UInt32(MemoryLayout<nlmsghdr>.size + payload.count)
        header.nlmsg_type = UInt16(type)
        return withUnsafeBytes(of: header) { Array($0) } + payload
    }

    private func isChange(_ changes: inout NetworkChanges, _ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { changes.note($0) }
    }

    private func link(_ index: Int32, flags: UInt32) -> ifinfomsg {
        var link = ifinfomsg()
        link.ifi_index = index
        link.ifi_flags = flags
        return link
    }

    @Test func linkUpOrDownIsAChange() {
        var changes = NetworkChanges()
        let up = message(Int(RTM_NEWLINK), link(7, flags: 0x1_1043))
        #expect(isChange(&changes, up))
        #expect(!isChange(&changes, up))
        // A change of IFF_PROMISC is not relevant.
        #expect(!isChange(&changes, message(Int(RTM_NEWLINK), link(7, flags: 0x1_1143))))
        #expect(isChange(&changes, message(Int(RTM_NEWLINK), link(7, flags: 0x1002))))
        #expect(isChange(&changes, message(Int(RTM_DELLINK), link(7, flags: 0))))
    }

    @Test func renewedAddressIsNoChange() {
        var changes = NetworkChanges()
        var body = ifaddrmsg()
        body.ifa_index = 3
        body.ifa_prefixlen = 24
        let address: [(UInt16, [UInt8])] = [(UInt16(IFA_ADDRESS), [10, 0, 0, 1])]
        let first = message(Int(RTM_NEWADDR), body, address + [(UInt16(IFA_CACHEINFO), [1, 2, 3, 4])])
        let renewed = message(Int(RTM_NEWADDR), body, address + [(UInt16(IFA_CACHEINFO), [9, 9, 9, 9])])
        #expect(isChange(&changes, first))
        #expect(!isChange(&changes, renewed))
        #expect(isChange(&changes, message(Int(RTM_DELADDR), body, address)))
        #expect(isChange(&changes, renewed))
    }

    @Test func clonedRouteIsNoChange() {
        var changes = NetworkChanges()
        #expect(isChange(&changes, message(Int(RTM_DELROUTE), rtmsg())))
        var cloned = rtmsg()
        cloned.rtm_flags = 0x200
        #expect(!isChange(&changes, message(Int(RTM_NEWROUTE), cloned)))
    }

    @Test func multipleAndTruncatedMessagesAreParsed() {
        var changes = NetworkChanges()
        var cloned = rtmsg()
        cloned.rtm_flags = 0x200
        let both = message(Int(RTM_NEWROUTE), cloned) + message(Int(RTM_NEWROUTE), rtmsg())
        #expect(isChange(&changes, both))
        #expect(!isChange(&changes, Array(both.dropLast(4))))
        #expect(!isChange(&changes, [1, 2, 3]))
        #expect(!isChange(&changes, [UInt8](repeating: 0, count: 64)))
    }

    // MARK: Bursts

    @Test func burstIsReportedOnceWithin500Milliseconds() {
        var schedule = ChangeSchedule()
        #expect(schedule.due == .distantFuture)
        let start = MonotonicTime(nanoseconds: 0)
        schedule.note(start)
        #expect(schedule.due == start + 50)
        schedule.note(start + 40)
        #expect(schedule.due == start + 90)
        for milliseconds in stride(from: Int64(80), through: 490, by: 10) { schedule.note(start + milliseconds) }
        #expect(schedule.due == start + 500)
    }

    // MARK: Connections

    @Test func loopbackConnectionIsReused() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport in
            _ = try await transport.get(server.url())
            await transport.networkHasChanged()
            #expect(try await transport.get(server.url()).timings.connectionReused)
        }
    }

    /// libcurl watches neither the socket of a paused transfer nor that of an idle connection.
    @Test func pausedTransferKeepsItsConnection() async throws {
        let server = try MockServer()
        let other = try MockServer()
        let size = 8 << 20
        server.enqueue(.pattern(byteCount: Int64(size)))
        other.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            let response = try await transport.answer(to: request)
            for _ in 0..<20 {
                _ = try await transport.get(other.url())
                await transport.networkHasChanged { $0 }
            }
            #expect(try await response.body.collect(upTo: size).count == size)
        }
    }

    /// Eight idle connections to one server are checked once, and the engine does not wait for the check.
    @Test func connectionsAreCheckedOnceInBackground() async throws {
        let count = Box(0)
        let server = try RawServer { connection in
            while !connection.read().isEmpty {
                count.change { $0 += 1 }
                while count.value < 8 { usleep(1000) }
                connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".utf8))
            }
        }
        let asked = Box<[Int]>([])
        let isAsked = Event()
        let mayAnswer = DispatchSemaphore(value: 0)
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 8 }) { transport async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 { group.addTask { _ = try await transport.get(server.url()) } }
                try await group.waitForAll()
            }
            #expect(await transport.gauges.sockets == 8)
            let isOver = Task {
                await transport.networkHasChanged { ends in
                    asked.change { $0.append(ends.count) }
                    isAsked.happen()
                    mayAnswer.wait()
                    return ends
                }
            }
            await isAsked.wait()
            #expect(try await transport.get(server.url()).timings.connectionReused)
            mayAnswer.signal()
            await isOver.value
            #expect(asked.value == [1])
            // The check reported all of them as gone.
            #expect(try await !transport.get(server.url()).timings.connectionReused)
        }
    }
}

extension CurlTransport {
    /// Reports a network change to the engine and returns when it has been handled.
    fileprivate func networkHasChanged(
        findDead: (@Sendable (Set<ConnectionEnds>) -> Set<ConnectionEnds>)? = nil
    ) async {
        let isOver = Event()
        mailbox.post(
            .services { services in
                if let findDead { services?.findDead = findDead }
                services?.observeNetwork { isOver.happen() }
                services?.networkHasChanged()
            })
        await isOver.wait()
    }
}
