import CLibcurl
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Testing

@testable import CurlTransport

@Suite struct IdleWatchTests {
    private func at(_ milliseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: 0) + milliseconds }

    @Test func watchIsDueAtTheEarliestDeadline() {
        var watch = IdleWatch()
        #expect(!watch.isDue(at(1 << 40)))
        watch.note(at(100))
        watch.note(at(50))
        watch.note(at(70))
        #expect(!watch.isDue(at(49)))
        #expect(watch.isDue(at(50)))
    }

    @Test func checkSetsTheNextDeadline() {
        var watch = IdleWatch()
        watch.note(at(50))
        watch.begin(at(50), runningCount: 2)
        watch.note(at(120))
        watch.note(at(90))
        watch.commit()
        #expect(watch.next == at(90))
        watch.begin(at(90), runningCount: 0)
        watch.commit()
        #expect(watch.next == .distantFuture)
    }

    @Test func manyTransfersSpaceTheChecks() {
        var watch = IdleWatch()
        watch.begin(at(1000), runningCount: 5000)
        watch.note(at(1001))
        watch.commit()
        #expect(watch.next == at(1100))
    }

    @Test func timeNeverOverflows() {
        #expect(MonotonicTime.now + .max == .distantFuture)
        #expect(MonotonicTime.distantFuture + 1 == .distantFuture)
        let time = MonotonicTime(nanoseconds: 5)
        #expect(time + .milliseconds(2) == time + 2)
        #expect(time + .seconds(-1) == MonotonicTime(nanoseconds: -999_999_995))
        #expect(time + Duration(secondsComponent: 0, attosecondsComponent: 1) == MonotonicTime(nanoseconds: 6))
        #expect(time + .seconds(Int64.max) == .distantFuture)
        #expect(MonotonicTime.distantFuture + .nanoseconds(1) == .distantFuture)
        #expect(at(5).milliseconds(until: at(3)) == 0)
        #expect(MonotonicTime(nanoseconds: 1).milliseconds(until: at(1)) == 1)
        #expect(Duration.nanoseconds(1).roundedUpMilliseconds == 1)
        #expect(Duration.milliseconds(1500).roundedUpMilliseconds == 1500)
        #expect(Duration.seconds(Int64.max).roundedUpMilliseconds == Int64(Int32.max))
    }
}

@Suite struct ResponseHeadTests {
    private func head(_ lines: String...) -> (head: ResponseHead, isAccepted: Bool) {
        var head = ResponseHead()
        var isAccepted = true
        for line in lines {
            isAccepted = Array((line + "\r\n").utf8).withUnsafeBufferPointer { head.append($0) } && isAccepted
        }
        return (head, isAccepted)
    }

    @Test func lastHeadCounts() {
        let head = head(
            "HTTP/1.1 103 Early Hints", "Link: </a>", "", "HTTP/1.1 200 Fine by me", "A: 1", "a: 2",
            "Content-Length: 12", ""
        ).head
        #expect(head.status == 200)
        #expect(head.reason == "Fine by me")
        #expect(head.isFinal)
        #expect(head.contentLength == 12)
        #expect(head.headers[values: "A"] == ["1", "2"])
        #expect(head.headers["Link"] == nil)
    }

    @Test func interimHeadIsNotFinal() {
        #expect(!head("HTTP/1.1 100 Continue", "").head.isFinal)
        #expect(head("HTTP/1.1 101 Switching Protocols", "").head.isFinal)
        #expect(!head("HTTP/1.1 200 OK", "A: 1").head.isFinal)
    }

    @Test func linesAfterTheHeadAreTrailers() {
        let head = head("HTTP/1.1 200 OK", "A: 1", "", "B: 2", "").head
        #expect(head.headers["B"] == nil)
        #expect(head.trailers["B"] == "2")
    }

    @Test(arguments: [
        ("HTTP/1.0 404", HTTPResponse.Version.http1_0, 404, ""), ("HTTP/2 200 ", .http2, 200, ""),
        ("HTTP/3 503", .http3, 503, ""), ("HTTP/1.1 599 Zu  spät", .http1_1, 599, "Zu  spät"),
    ])
    func statusLineIsParsed(line: String, version: HTTPResponse.Version, status: Int, reason: String) {
        let head = head(line, "").head
        #expect(head.version == version)
        #expect(head.status == status)
        #expect(head.reason == reason)
    }

    /// RFC 9112 §6.3.
    @Test func lengthDoesNotCountBesideChunks() {
        let fields = ["Content-Length: 3", "Transfer-Encoding: chunked"]
        for (first, second) in [(0, 1), (1, 0)] {
            #expect(head("HTTP/1.1 200 OK", fields[first], fields[second], "").head.contentLength == nil)
        }
    }

    @Test func contentFieldsAreParsed() {
        #expect(head("HTTP/1.1 200 OK", "CONTENT-LENGTH:7").head.contentLength == 7)
        for length in ["99999999999999999999", "9223372036854775808", "5, 6", "5,", "+5", "0x5", ""] {
            let head = head("HTTP/1.1 200 OK", "Content-Length: \(length)").head
            #expect(head.contentLength == nil && head.hasInvalidLength, "\(length)")
        }
        for length in ["5, 5", " 05 ", "5\t,5"] {
            let head = head("HTTP/1.1 200 OK", "Content-Length: \(length)", "Content-Length: 5").head
            #expect(head.contentLength == 5 && !head.hasInvalidLength, "\(length)")
        }
        #expect(head("HTTP/1.1 200 OK", "Content-Lengthy: 7").head.contentLength == nil)
        #expect(head("HTTP/1.1 200 OK", "content-encoding: br").head.isCoded)
        #expect(!head("HTTP/1.1 200 OK", "content-encodings: br").head.isCoded)
    }

    @Test func oversizedHeadIsRefused() {
        let filler = "X: " + String(repeating: "a", count: 1 << 19)
        #expect(head("HTTP/1.1 200 OK", filler).isAccepted)
        #expect(!head("HTTP/1.1 200 OK", filler, filler).isAccepted)
        #expect(!head("HTTP/1.1 200 OK", "", filler, filler).isAccepted)
    }
}

@Suite struct HeaderLinesTests {
    private let lines = HeaderLines(userAgent: "test")

    private func lines(_ headers: HTTPHeaders, _ method: String = "GET", body: HTTPBody? = nil) throws -> [String] {
        let request = HTTPRequest(method, "http://a/", headers: headers, body: body)
        return try lines.lines(
            for: request, body: body.map { try PreparedBody($0) }, decompresses: RequestCheck.decompresses(request))
    }

    @Test func callersFieldsTakePrecedence() throws {
        #expect(try lines([:]).contains("User-Agent: test"))
        #expect(try lines(["user-agent": "mine"]).contains { $0.hasPrefix("User-Agent") } == false)
        #expect(try lines(["User-Agent": nil]).first == "User-Agent:")
        #expect(try lines(["X": ""]).first == "X;")
        #expect(try lines(["X": " \t"]).first == "X;")
        #expect(
            try lines(["Accept-Encoding": "gzip"]).filter { $0.hasPrefix("Accept-Encoding") } == [
                "Accept-Encoding: gzip"
            ])
    }

    @Test func bodySetsTheContentType() throws {
        #expect(try lines([:], "POST", body: .text("a")).contains("Content-Type: text/plain; charset=utf-8"))
        #expect(try lines([:], "POST", body: .data(Data())).contains("Content-Type:"))
        #expect(
            try lines(["content-type": "a/b"], "POST", body: .text("a")).filter {
                $0.lowercased().hasPrefix("content-type")
            }
                == ["content-type: a/b"])
    }

    @Test func wrongContentLengthIsRefused() throws {
        #expect(
            try lines(["Content-Length": "1"], "POST", body: .text("a")).contains { $0.contains("Length") } == false)
        #expect(throws: NetworkError.self) { try lines(["Content-Length": "2"], "POST", body: .text("a")) }
        #expect(throws: NetworkError.self) { try lines(["Content-Length": "1, 1"], "POST", body: .text("a")) }
        #expect(throws: NetworkError.self) { try lines(["Content-Length": "5"]) }
        #expect(throws: NetworkError.self) { try lines(["Transfer-Encoding": "chunked"], "POST", body: .text("a")) }
        #expect(throws: NetworkError.self) { try lines(["Transfer-Encoding": "gzip"]) }
        #expect(throws: NetworkError.self) { try lines(["Transfer-Encoding": "chunked"]) }
        let unknown = HTTPBody.stream(AsyncStream<Data> { $0.finish() })
        #expect(throws: NetworkError.self) { try lines(["Content-Length": "5"], "POST", body: unknown) }
        _ = try lines(["Transfer-Encoding": "chunked"], "POST", body: unknown)
    }

    @Test func userNameWithAColonIsRefused() throws {
        for authentication in [Authentication.basic(user: "a:b", password: "c"), .any(user: ":", password: "")] {
            let error = #expect(throws: NetworkError.self) { try RequestCheck.credentials(authentication) }
            #expect(error?.kind == .invalidRequest && error?.message.contains("colon") == true)
        }
        try RequestCheck.credentials(.basic(user: "a", password: "b:c"))
        try RequestCheck.credentials(.digest(user: "a:b", password: "c"))
    }
}

@Suite struct TargetTests {
    @Test(arguments: [
        ("http://Example.org", "http://Example.org/", "http://Example.org:80"),
        ("https://a/b c?d=ü#frag", "https://a/b%20c?d=%C3%BC", "https://a:443"),
        ("http://a:8080/%20%41", "http://a:8080/%20%41", "http://a:8080"),
        ("http://[::1]:81/", "http://[::1]:81/", "http://[::1]:81"),
        ("HTTP://a/", "http://a/", "http://a:80"),
    ])
    func urlIsNormalized(text: String, url: String, origin: String) throws {
        let target = try Target(text)
        #expect(target.url == url)
        #expect(target.origin == origin)
    }

    @Test(arguments: [
        "", "example.org", "//a/", "ftp://a/", "file:///etc/passwd", "gopher://a/", "http://", "http://a:99999/",
        "http://a:b/", "http://[::1/", "http://a\r\n/", "http://a/\u{0}", "http://a/\u{7F}", "http://a\tb/",
        "javascript:alert(1)",
        "http://a b/", "http://a%0d%0aX:y/", "data:,a",
    ])
    func invalidURLIsRefused(text: String) {
        let error = #expect(throws: NetworkError.self) { try Target(text) }
        #expect(error?.kind == .invalidRequest)
    }

    @Test func errorHidesSecrets() {
        let error = #expect(throws: NetworkError.self) { try Target("http://user:secret@a:99999/?token=secret") }
        #expect(error?.description.contains("secret") == false)
    }

    @Test func cacheKeepsUsedTargets() throws {
        let cache = TargetCache(capacity: 4)
        let kept = try cache.target(for: "http://kept/")
        for number in 0..<100 {
            #expect(try cache.target(for: "http://a/\(number)").url == "http://a/\(number)")
            #expect(try cache.target(for: "http://kept/") === kept)
        }
        #expect(throws: NetworkError.self) { try cache.target(for: "nothing") }
    }
}

@Suite struct VersionChoiceTests {
    @Test func withoutHTTP2TheAutomaticVersionIsOneOne() {
        #expect(VersionChoice.automatic(hasHTTP2: false).value == Int(CURL_HTTP_VERSION_1_1))
        #expect(VersionChoice.automatic(hasHTTP2: true).value == Int(CURL_HTTP_VERSION_2TLS))
        #expect(EngineFailure.refusedOption(CURLOPT_HTTP_VERSION, CURLE_UNSUPPORTED_PROTOCOL).kind == .unsupported)
    }
}

@Suite struct SocketTableTests {
    /// Runs `body` with an event queue and two connected sockets.
    private func withSockets(_ body: (EventQueue, CInt, CInt) throws -> Void) throws {
        let epoll = try #require(EventQueue())
        var pair: [CInt] = [-1, -1]
        #expect(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0)
        defer { for descriptor in pair { close(descriptor) } }
        try body(epoll, pair[0], pair[1])
    }

    /// A table in which the connections are idle.
    private func pool(_ epoll: EventQueue, _ descriptors: [CInt]) -> SocketTable {
        var table = SocketTable(epoll)
        for descriptor in descriptors {
            table.opened(descriptor)
            table.watch(descriptor, CURL_POLL_IN)
            table.watch(descriptor, CURL_POLL_REMOVE)
        }
        return table
    }

    private func eventCount(_ epoll: EventQueue) -> Int { epoll.wait(milliseconds: 0) }

    @Test func idleSocketIsRemovedAtItsFirstEvent() throws {
        try withSockets { epoll, near, far in
            var table = SocketTable(epoll)
            table.opened(near)
            table.watch(near, CURL_POLL_IN)
            #expect(eventCount(epoll) == 0)
            write(far, "a", 1)
            #expect(eventCount(epoll) == 1)
            let isWanted = table.isWanted(near, .readable)
            #expect(isWanted)
            table.watch(near, CURL_POLL_REMOVE)
            #expect(eventCount(epoll) == 1)
            let isStillWanted = table.isWanted(near, .readable)
            #expect(!isStillWanted)
            #expect(table.inputCount == 1)
            #expect(eventCount(epoll) == 0, "an unwanted event removes the socket")
            table.watch(near, CURL_POLL_IN)
            #expect(eventCount(epoll) == 1, "watching it again adds it")
            #expect(table.openCount == 1)
            table.closed(near)
            #expect(table.openCount == 0)
            #expect(table.inputCount == 0)
        }
    }

    /// After an upload, libcurl last waited to write.
    @Test func idleSocketIsWatchedForInputOnly() throws {
        try withSockets { epoll, near, far in
            var table = SocketTable(epoll)
            table.opened(near)
            table.watch(near, CURL_POLL_INOUT)
            table.watch(near, CURL_POLL_REMOVE)
            #expect(eventCount(epoll) == 1)
            let wantsOutput = table.isWanted(near, .writable)
            #expect(!wantsOutput)
            #expect(table.inputCount == 0 && eventCount(epoll) == 0)
            write(far, "a", 1)
            #expect(eventCount(epoll) == 1)
            let wantsInput = table.isWanted(near, .readable)
            #expect(!wantsInput)
            #expect(table.inputCount == 1 && eventCount(epoll) == 0)
            let isFound = [80, 0, 0].map { table.hasUnsolicitedInput(port: $0) }
            #expect(isFound == [false, true, true], "a Unix socket has no port")
            var byte: UInt8 = 0
            read(near, &byte, 1)
            let isLeft = table.hasUnsolicitedInput(port: 0)
            #expect(!isLeft && table.inputCount == 0)
        }
    }

    /// No port tells Unix sockets apart: input on one counts for each of them until its connection is closed.
    @Test func inputOnUnixSocketCountsUntilItIsClosed() throws {
        try withSockets { epoll, near, far in
            var table = pool(epoll, [near, far])
            write(near, "a", 1)
            let isWanted = table.isWanted(far, .readable)
            table.closed(near)
            let isRefusedAfterOther = table.hasUnsolicitedInput(port: 0)
            table.watch(far, CURL_POLL_IN)
            let isRefusedInUse = table.hasUnsolicitedInput(port: 0)
            table.watch(far, CURL_POLL_REMOVE)
            let isRefusedAgain = table.hasUnsolicitedInput(port: 0)
            table.closed(far)
            let isRefusedAfterEnd = table.hasUnsolicitedInput(port: 0)
            #expect(!isWanted && isRefusedAfterOther && !isRefusedInUse && isRefusedAgain && !isRefusedAfterEnd)
        }
    }

    /// Session tickets may arrive on a connection before its first request. Nothing may arrive on another idle one.
    @Test func inputIsExpectedOnAnUnusedSocketOnly() throws {
        try withSockets { epoll, near, far in
            var table = pool(epoll, [near, far])
            table.noteUnused(far)
            table.noteUnused(-1)
            table.noteUnused(10_000)
            for descriptor in [near, far] { write(descriptor, "a", 1) }
            let wanted = [near, far].filter { table.isWanted($0, .readable) }
            #expect(wanted.isEmpty && table.inputCount == 2)
            let hasStray = table.hasUnsolicitedInput(port: 0)
            table.closed(near)
            let hasStrayOnUnused = table.hasUnsolicitedInput(port: 0)
            #expect(hasStray && !hasStrayOnUnused && table.inputCount == 1)
        }
    }

    @Test func socketOutsideThePoolIsNeverIdle() throws {
        try withSockets { epoll, near, far in
            var table = SocketTable(epoll)
            table.opened(near)
            table.opened(far, isPooled: false)
            #expect(table.idle(exceptPorts: []) == [near])
            #expect(table.openCount == 2)
        }
    }

    @Test func unconnectedSocketIsRemovedAtOnce() throws {
        try withSockets { epoll, _, _ in
            let unconnected = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
            defer { close(unconnected) }
            var table = SocketTable(epoll)
            table.opened(unconnected)
            table.watch(unconnected, CURL_POLL_OUT)
            #expect(eventCount(epoll) == 1)
            table.watch(unconnected, CURL_POLL_REMOVE)
            #expect(eventCount(epoll) == 0)
        }
    }

    /// libcurl reads a response that is already there without waiting for it.
    @Test func connectionUsedWithoutWaitingIsWatched() throws {
        try withSockets { epoll, near, far in
            var table = SocketTable(epoll)
            table.opened(near)
            table.watch(near, CURL_POLL_OUT)
            table.watch(near, CURL_POLL_REMOVE)
            let wantsOutput = table.isWanted(near, .writable)
            #expect(!wantsOutput)
            shutdown(far, CInt(SHUT_RDWR))
            #expect(eventCount(epoll) == 1)
        }
    }

    /// libcurl 7.88 closes some sockets without notice; the descriptor number is then reused.
    @Test func reusedDescriptorIsWatchedAgain() throws {
        try withSockets { epoll, near, _ in
            var table = SocketTable(epoll)
            table.opened(near)
            table.watch(near, CURL_POLL_INOUT)
            var other: [CInt] = [-1, -1]
            #expect(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &other) == 0)
            defer { for descriptor in other { close(descriptor) } }
            #expect(dup2(other[0], near) == near)
            #expect(table.openCount == 0, "the descriptor is another socket now")
            table.opened(near)
            table.watch(near, CURL_POLL_OUT)
            #expect(eventCount(epoll) == 1)
            #expect(table.openCount == 1)
        }
    }

    @Test func unknownSocketIsNotWanted() throws {
        try withSockets { epoll, near, _ in
            var table = SocketTable(epoll)
            let wanted = [near, 10_000].filter { table.isWanted($0, .readable) }
            #expect(wanted == [])
            table.closed(10_000)
            #expect(table.openCount == 0)
        }
    }
}
