import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct CookieFileTests {
    private let places = CookiePlaces()

    private func content(_ directory: TemporaryDirectory, _ name: String = "c") -> String {
        String(decoding: directory.read(name) ?? Data(), as: UTF8.self)
    }

    /// The process may change its working directory, as a daemon does.
    @Test func relativePathIsThatOfTheStart() throws {
        let folder = FileManager.default.currentDirectoryPath
        #expect(try CookieStore(.file("cookies.none"), warn: { _ in }).file?.path == "\(folder)/cookies.none")
        #expect(StateFile("hsts.none", "hsts", warn: { _ in }) { $0 }.path == "\(folder)/hsts.none")
    }

    @Test func fileHoldsPersistentCookiesOnly() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "c")
        try await withTransport(places.configuration(server, .file(path))) { first async throws in
            #expect(!FileManager.default.fileExists(atPath: path))
            let cookies = ["kept=1; Max-Age=1000; HttpOnly; SameSite=Strict", "session=1"]
            _ = try await first.get(places.url(server, "a.example.org", set: cookies))
            try await first.cookies?.flush()
            #expect(content(directory).contains("# SameSite=Strict\n#HttpOnly_a.example.org\tFALSE\t/\tFALSE\t"))
            #expect(content(directory).contains("kept\t1"))
            #expect(!content(directory).contains("session"))
            var facts = stat()
            #expect(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
            #expect(directory.contents == ["c"])
            try await withTransport(places.configuration(server, .file(path))) { second async throws in
                #expect(try await second.get(places.url(server, "a.example.org")).text == "kept=1")
                let jar = try #require(second.cookies)
                let known = try await jar.all()
                #expect(known.map(\.isHTTPOnly) == [true] && known.map(\.sameSite) == [.strict])
                try await jar.removeAll()
                #expect(!content(directory).contains("kept"))
            }
        }
    }

    @Test(arguments: [mode_t(0o644), 0o660, 0o602]) func looseFileIsRestrictedToItsOwner(mode: mode_t) async throws {
        let directory = try TemporaryDirectory()
        let line = "a.example.org\tFALSE\t/\tFALSE\t4000000000\tkept\t1\n"
        let path = try directory.write(Data(line.utf8), to: "c")
        #expect(chmod(path, mode) == 0)
        let warnings = Box<[String]>([])
        let configuration = testConfiguration {
            $0.cookies = .file(path)
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        try await withTransport(configuration) { transport async throws in
            var facts = stat()
            #expect(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
            #expect(try await transport.cookies?.all().map(\.name) == ["kept"])
        }
        #expect(warnings.value.isEmpty)
    }

    /// What each has changed is in the file, whoever writes it last.
    @Test func storesOfOneFileKeepEachOthersCookies() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "c")
        @Sendable func cookie(_ name: String, _ value: String) -> Cookie {
            Cookie(name, value, domain: "a.example.org", expires: Date(timeIntervalSince1970: 4e9))
        }
        @Sendable func file() -> [String] {
            NetscapeCookie.cookies(content(directory)).map { "\($0.name)=\($0.value)" }.sorted()
        }
        let configuration = testConfiguration { $0.cookies = .file(path) }
        try await withTransport(configuration) { transport async throws in
            let jar = try #require(transport.cookies)
            for name in ["both", "changed", "removed"] { try await jar.set(cookie(name, "0")) }
        }
        try await withTransport(configuration) { first async throws in
            try await withTransport(configuration) { second async throws in
                let (slow, fast) = (try #require(first.cookies), try #require(second.cookies))
                for change in [cookie("fast", "1"), cookie("changed", "1"), cookie("both", "1")] {
                    try await fast.set(change)
                }
                try await fast.remove(cookie("removed", ""))
                #expect(file() == ["both=1", "changed=1", "fast=1"])
                try await slow.set(cookie("slow", "2"))
                #expect(file() == ["both=1", "changed=1", "fast=1", "slow=2"])
                // The last change of one cookie counts, and so does its removal.
                try await slow.set(cookie("both", "2"))
                try await fast.set(cookie("again", "3"))
                try await slow.remove(cookie("changed", ""))
                #expect(file() == ["again=3", "both=2", "fast=1", "slow=2"])
                // What was removed elsewhere does not come back.
                try await slow.set(cookie("late", "4"))
                #expect(file() == ["again=3", "both=2", "fast=1", "late=4", "slow=2"])
            }
        }
        #expect(file() == ["again=3", "both=2", "fast=1", "late=4", "slow=2"] && directory.contents == ["c"])
    }

    /// A store that keeps no session cookies ends those that it finds, not those that another keeps meanwhile.
    @Test func sessionCookiesOfOthersStay() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "c")
        @Sendable func session(_ name: String) -> Cookie { Cookie(name, "1", domain: "a.example.org") }
        @Sendable func file() -> [String] { NetscapeCookie.cookies(content(directory)).map(\.name).sorted() }
        let keeping = testConfiguration { ($0.cookies, $0.keepsSessionCookies) = (.file(path), true) }
        try await withTransport(keeping) { try await $0.cookies?.set(session("old")) }
        try await withTransport(testConfiguration { $0.cookies = .file(path) }) { own async throws in
            try await withTransport(keeping) { try await $0.cookies?.set(session("theirs")) }
            #expect(file() == ["old", "theirs"])
            try await own.cookies?.set(session("own"))
            let date = Date(timeIntervalSince1970: 4e9)
            try await own.cookies?.set(Cookie("late", "1", domain: "a.example.org", expires: date))
        }
        #expect(file() == ["late", "theirs"])
    }

    /// The lock is on the file that is replaced, so that each writer waits for the one before.
    @Test func concurrentWritersLoseNothing() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "c")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask {
                    try await withTransport(testConfiguration { $0.cookies = .file(path) }) { transport async throws in
                        let jar = try #require(transport.cookies)
                        for number in 0..<10 {
                            let expires = Date(timeIntervalSince1970: 4e9)
                            try await jar.set(
                                Cookie("n\(writer)-\(number)", "1", domain: "a.example.org", expires: expires))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(Set(NetscapeCookie.cookies(content(directory)).map(\.name)).count == 40)
        #expect(directory.contents == ["c"])
    }

    /// A cookie that has expired here may have been renewed by another process.
    @Test func expiryRemovesNoRenewedCookie() {
        let now = Date(timeIntervalSince1970: 1_000)
        func cookie(_ name: String, _ expires: Double) -> Cookie {
            Cookie(name, "v", domain: "a.example.org", expires: Date(timeIntervalSince1970: expires))
        }
        var table = CookieTable()
        table.set(cookie("a", 2_000), now: now)
        table.set(cookie("b", 2_000), now: now)
        let changes = CookieChanges(
            from: [cookie("a", 999), cookie("b", 1_500)], to: [], withSessions: false, now: now)
        changes.apply(to: &table, now: now)
        #expect(table.all(now).map(\.name) == ["a"])
        #expect(CookieChanges(from: [cookie("a", 999)], to: [], withSessions: false, now: now).isEmpty)
    }

    /// A file that another program has put in place of the jar stays as it is.
    @Test func fileThatBecameAnotherIsNotReplaced() async throws {
        let directory = try TemporaryDirectory()
        let configuration = testConfiguration {
            $0.cookies = .file(directory.path(of: "c"))
            $0.warningHandler = { _ in }
        }
        try await withTransport(configuration) { transport async throws in
            let jar = try #require(transport.cookies)
            try directory.write(Data("my notes\n".utf8), to: "c")
            try await jar.set(
                Cookie("n", "1", domain: "a.example.org", expires: Date(timeIntervalSince1970: 4e9)))
            let error = try await failure { try await jar.flush() }
            #expect(error.kind == .storage && error.message.contains("not in Netscape's format"), "\(error)")
        }
        #expect(content(directory) == "my notes\n")
    }

    @Test func sessionCookiesAreKeptWhenAsked() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "c")
        let configuration = places.configuration(server, .file(path)).with { $0.keepsSessionCookies = true }
        try await withTransport(configuration) { first async throws in
            _ = try await first.get(places.url(server, "a.example.org", set: ["session=1"]))
            try await first.cookies?.flush()
            #expect(content(directory).hasSuffix("a.example.org\tFALSE\t/\tFALSE\t0\tsession\t1\n"))
        }
        try await withTransport(configuration) { second async throws in
            #expect(try await second.get(places.url(server, "a.example.org")).text == "session=1")
        }
        // Without the setting, the next change removes the session cookies from the file.
        try await withTransport(places.configuration(server, .file(path))) { third async throws in
            _ = try await third.get(places.url(server, "a.example.org", set: ["kept=1; Max-Age=1000"]))
            try await third.cookies?.flush()
            #expect(!content(directory).contains("session") && content(directory).contains("kept"))
        }
    }

    @Test func shutdownWritesTheFile() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        try await withTransport(places.configuration(server, .file(directory.path(of: "c")))) {
            transport async throws in
            for number in 0..<3 {
                let url = places.url(server, "a.example.org", set: ["n=\(number); Max-Age=1000"])
                _ = try await transport.get(url)
            }
        }
        #expect(content(directory).contains("n\t2"))
    }

    @Test func droppedTransportWritesTheFile() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let isWritten = Event()
        let configuration = places.configuration(server, .file(directory.path(of: "c"))).with {
            $0.cookieWriter = { file, text in
                defer { if text.contains("n\t2") { isWritten.happen() } }
                return CookieFile(path: file).write(text)
            }
        }
        do {
            let transport = try CurlTransport(configuration: configuration)
            for number in 0..<3 {
                let url = places.url(server, "a.example.org", set: ["n=\(number); Max-Age=1000"])
                _ = try await transport.get(url)
            }
        }
        await isWritten.wait()
        #expect(content(directory).contains("n\t2"))
    }

    /// The first write blocks while the jar holds 3,000 cookies.
    @Test func slowDiskDelaysNoRequest() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let writes = Box(0)
        let isWriting = Event()
        let disk = DispatchSemaphore(value: 0)
        let lines = (0..<3000).map { "d\($0 / 100).example.com\tTRUE\t/\tFALSE\t4000000000\tn\($0)\tv" }
        let path = try directory.write(Data(lines.joined(separator: "\n").utf8), to: "c")
        let configuration = places.configuration(server, .file(path)).with {
            $0.cookieWriter = { file, text in
                writes.change { $0 += 1 }
                isWriting.happen()
                disk.wait()
                disk.signal()
                return CookieFile(path: file).write(text)
            }
        }
        try await withTransport(configuration) { transport async throws in
            let jar = try #require(transport.cookies)
            #expect(try await jar.all().count == 3000)
            let url = places.url(server, "a.example.org", set: ["first=1; Max-Age=1000"])
            _ = try await transport.get(url)
            await isWriting.wait()
            // From here on the disk blocks.
            for number in 0..<100 {
                let url = places.url(server, "b.example.org", set: ["n=\(number); Max-Age=1000"])
                _ = try await transport.get(url)
                #expect(try await transport.get(places.url(server, "b.example.org")).text == "n=\(number)")
            }
            #expect(writes.value == 1)
            #expect(try await jar.all().count == 3002)
            disk.signal()
            try await jar.flush()
            #expect(content(directory).contains("n\t99"))
            // One write covers a hundred changes.
            #expect(writes.value == 2)
        }
        #expect(writes.value == 2)
    }

    /// The process exits while a change waits to be written.
    @Test func exitWritesTheFile() async throws {
        let path = "/tmp/lat-cookies-\(getpid())"
        defer { unlink(path) }
        await #expect(processExitsWith: .success) {
            AddressSanitizer.checkLeaksNow()
            let places = CookiePlaces()
            let server = try places.server()
            let path = "/tmp/lat-cookies-\(getppid())"
            let transport = try CurlTransport(configuration: places.configuration(server, .file(path)))
            for number in 0..<3 {
                let url = places.url(server, "a.example.org", set: ["n=\(number); Max-Age=1000"])
                _ = try await transport.get(url)
            }
            exit(0)
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8).contains("n\t2"))
    }

    @Test(arguments: ["x\u{2028}y", "x\u{2029}y", "x\u{85}y", "é"]) func valueIsReadAsWritten(_ value: String) throws {
        let cookies = [
            Cookie("a", value, domain: "a.example.org", expires: Date(timeIntervalSince1970: 4e9), sameSite: .lax),
            Cookie("b", "2", domain: "a.example.org", expires: Date(timeIntervalSince1970: 4e9)),
        ]
        let text = try #require(NetscapeCookie.file(cookies))
        #expect(NetscapeCookie.cookies(text) == cookies)
        #expect(NetscapeCookie.cookies(text.replacing("\n", with: "\r\n")) == cookies)
    }

    /// 0 is a session cookie; a time before 1970 has passed.
    @Test(arguments: [("0", true), ("-1", false), ("1", false), ("4000000000", true)])
    func expiryOfFileIsRead(expiry: String, isKept: Bool) async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("a.example.org\tFALSE\t/\tFALSE\t\(expiry)\tn\tv\n".utf8), to: "c")
        try await withTransport(testConfiguration { $0.cookies = .file(path) }) { transport async throws in
            #expect(try await transport.cookies?.all().isEmpty == !isKept)
        }
    }

    @Test func malformedLinesAreIgnored() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let file = "# comment\n\nnonsense\na.example.org\tFALSE\t/\tFALSE\t4000000000\tn\tv\r\na\tb\n\u{0}\n"
        let path = try directory.write(Data(file.utf8), to: "c")
        try await withTransport(places.configuration(server, .file(path))) { transport async throws in
            #expect(try await transport.get(places.url(server, "a.example.org")).text == "n=v")
        }
        // Nothing has changed, so the file is not rewritten.
        #expect(content(directory) == file)
    }

    @Test func unusableFileIsRefusedByPath() throws {
        let directory = try TemporaryDirectory()
        for path in ["/no/such/folder/cookies", directory.path] {
            let error = #expect(throws: NetworkError.self) {
                _ = try CurlTransport(configuration: testConfiguration { $0.cookies = .file(path) })
            }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains(path) == true)
        }
    }

    @Test(arguments: ["my notes\nline two\n", "# a comment\n", "{}", "Set-Cookie: a=b\n", "\u{0}\u{1}"])
    func fileThatIsNoJarIsRefused(_ content: String) throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(content.utf8), to: "notes")
        let error = #expect(throws: NetworkError.self) {
            _ = try CurlTransport(configuration: testConfiguration { $0.cookies = .file(path) })
        }
        #expect(error?.kind == .invalidRequest && error?.message.contains("not in Netscape's format") == true)
        #expect(directory.read("notes") == Data(content.utf8))
    }

    @Test(arguments: [
        "", " \n", "# Netscape HTTP Cookie File\n", "# HTTP Cookie File\r\n",
        "# x\na.example.org\tFALSE\t/\tFALSE\t0\tn\tv\n",
    ]) func emptyJarsAreTaken(_ content: String) throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(content.utf8), to: "c")
        _ = try CurlTransport(configuration: testConfiguration { $0.cookies = .file(path) })
    }

    @Test func unwritableFileIsReportedOnce() async throws {
        let server = try places.server()
        let directory = try TemporaryDirectory()
        let folder = directory.path(of: "folder")
        try directory.write(Data(), to: "folder/other")
        let warnings = Box<[String]>([])
        let configuration = places.configuration(server, .file(folder + "/c")).with {
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        try await withTransport(configuration) { transport async throws in
            try FileManager.default.removeItem(atPath: folder)
            let jar = try #require(transport.cookies)
            for number in 0..<3 {
                let url = places.url(server, "a.example.org", set: ["n=\(number); Max-Age=1000"])
                _ = try await transport.get(url)
                let error = try await failure { try await jar.flush() }
                #expect(error.kind == .storage && error.message.contains(folder))
            }
            #expect(try await transport.get(places.url(server, "a.example.org")).text == "n=2")
            try directory.write(Data(), to: "folder/other")
            try await jar.flush()
            #expect(content(directory, "folder/c").contains("n\t2"))
        }
        #expect(warnings.value.count == 1)
        #expect(warnings.value.first?.contains(folder) == true)
    }
}
