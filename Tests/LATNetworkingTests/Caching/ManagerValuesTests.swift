import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// Values and responses in one store.
@Suite(.timeLimit(.minutes(2))) struct ManagerValuesTests {
    private func manager(_ directory: TemporaryDirectory, _ clock: TestClock) throws -> CentralRequestManager {
        try .caching(.http, clock) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path(of: "cache")
        }
    }

    @Test func valuesSurviveARestart() async throws {
        let directory = try TemporaryDirectory()
        let clock = TestClock()
        do {
            let values = try manager(directory, clock).values
            try await values.set(["a": 1], for: "counts")
            try await values.set("soon gone", for: "short", expiresAfter: .seconds(10))
        }
        let values = try manager(directory, clock).values
        #expect(try await values.get([String: Int].self, for: "counts") == ["a": 1])
        #expect(try await values.get(String.self, for: "short") == "soon gone")
        clock.advance(by: 10)
        #expect(try await manager(directory, clock).values.get(String.self, for: "short") == nil)
    }

    @Test func clearingResponsesKeepsValues() async throws {
        let directory = try TemporaryDirectory()
        let clock = TestClock()
        let manager = try manager(directory, clock)
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        func fill() async throws {
            _ = try await manager.startRequest("GET", server.url(), headers: ["Cache-Control": "no-cache"])
            try await manager.values.set(1, for: "a")
            clock.advance(by: 10)
        }
        try await fill()
        #expect(try await manager.cache.entries().map(\.url) == [server.url()])
        #expect(try await manager.cache.usage().entryCount == 2)
        #expect(try await manager.cache.removeAll(olderThan: .seconds(5)).entryCount == 1)
        try await fill()
        #expect(try await manager.cache.removeAll().entryCount == 1)
        try await fill()
        #expect(try await manager.cache.remove(.urlPrefix("")).entryCount == 1)
        for selection in [CacheSelection.urlPrefix("value:"), .url("value:a"), .partition(""), .domain("a")] {
            #expect(try await manager.cache.remove(selection).entryCount == 0)
        }
        #expect(try await manager.values.get(Int.self, for: "a") == 1)
        try await fill()
        #expect(try await manager.values.removeAll().entryCount == 1)
        #expect(try await manager.startRequest("GET", server.url()).source != .network)
    }

    @Test func memoryValuesAreNotWrittenToDisk() async throws {
        let directory = try TemporaryDirectory()
        let manager = try manager(directory, TestClock())
        try await manager.memoryValues.set("secret", for: "token")
        #expect(try await manager.memoryValues.get(String.self, for: "token") == "secret")
        #expect(try await manager.values.contains("token") == false)
        #expect(!FileManager.default.fileExists(atPath: directory.path(of: "cache")))
    }

    @Test func seededResponseIsUsed() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock) { $0.baseURL = server.url("") }
        let body = Data("bundled".utf8)
        #expect(
            try await manager.cache.store(
                body, for: "/cities", headers: ["Cache-Control": "max-age=60", "Content-Type": "text/plain"]))
        let offline = try await manager.startRequest("GET", "/cities", cache: .cacheOnly)
        #expect(offline.text == "bundled")
        #expect(offline.headers["Content-Type"] == "text/plain")
        #expect(try await manager.startRequest("GET", "/cities").text == "bundled")
        clock.advance(by: 60)
        #expect(try await manager.startRequest("GET", "/cities").text == "1")
        // `onlyIfAbsent` keeps the newer response.
        #expect(try await manager.cache.store(body, for: "/cities", onlyIfAbsent: true) == false)
        #expect(try await manager.startRequest("GET", "/cities", cache: .cacheOnly).text == "1")
        #expect(server.requestCount == 1)
    }

    @Test func seededResponseIsFoundByItsUserOnly() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever))
        var request = HTTPRequest("GET", server.url(), headers: ["Authorization": "1"])
        try await manager.cache.store(Data("ada's".utf8), for: request)
        #expect(try await manager.send(request).text == "ada's")
        request.headers = ["Authorization": "2"]
        #expect(try await manager.send(request).text == "1")
        request.headers = [:]
        request.cachePartition = "eve"
        #expect(try await manager.send(request).text == "2")
    }

    @Test func unusableResponseIsNotSeeded() async throws {
        let manager = try CentralRequestManager.caching(.http)
        let url = "http://127.0.0.1:1/"
        for (status, headers) in [(500, [:]), (304, [:]), (200, ["Content-Length": "9"])] as [(Int, HTTPHeaders)] {
            let error = await failure {
                try await manager.cache.store(Data("x".utf8), for: url, status: status, headers: headers)
            }
            #expect(error?.kind == .cache)
        }
        let error = await failure { try await manager.cache.store(Data(), for: HTTPRequest("PUT", url)) }
        #expect(
            error?.message
                == "the response is not stored: responses to PUT are stored only if the request asks for it")
        #expect(try await manager.cache.usage().entryCount == 0)
        #expect(try await manager.cache.store(Data("gone".utf8), for: url, status: 410, headers: ["ETag": "a"]))
    }
}
