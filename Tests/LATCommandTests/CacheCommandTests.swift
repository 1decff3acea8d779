import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import lat

@Suite(.timeLimit(.minutes(1))) struct CacheCommandTests {
    private func cache(_ arguments: String...) throws -> CacheCommand {
        try #require(try Invocation(["cache"] + arguments).command as? CacheCommand)
    }

    @Test func everySelectionIsParsed() throws {
        #expect(try cache("report", "--directory", "d").directory == "d")
        #expect(try cache("report").action == .report)
        #expect(try cache("clear", "--all").action == .clear(.all))
        for url in ["HTTP://LOCALHOST:8080/x#part", ":8080/x", "localhost:8080/x"] {
            #expect(try cache("clear", "--url", url).action == .clear(.url("http://localhost:8080/x")))
        }
        #expect(try cache("clear", "--prefix=p").action == .clear(.urlPrefix("p")))
        #expect(try cache("clear", "--domain", "d").action == .clear(.domain("d")))
        #expect(try cache("clear", "--server", "s").action == .clear(.server("s")))
        #expect(try cache("clear", "--user", "ada").action == .clear(.partition("ada")))
        guard case .clear(.storedBefore(let time)) = try cache("clear", "--older-than", "2h").action else {
            Issue.record("another selection")
            return
        }
        #expect(abs(time.timeIntervalSinceNow + 7_200) < 60)
    }

    @Test(arguments: [
        (["cache"], "the action is missing; write lat cache report, explain URL or clear SELECTION"),
        (["cache", "claer"], "lat cache knows no \"claer\"; did you mean clear?"),
        (["cache", "clear"], "the selection is missing; write lat cache clear --prefix TEXT, or --all"),
        (["cache", "clear", "--all", "--url", "u"], "clear takes one selection; run it once for each"),
        (["cache", "explain"], "the URL to explain is missing; write lat cache explain URL"),
        (["cache", "explian"], "lat cache knows no \"explian\"; did you mean explain?"),
        (
            ["cache", "explain", "u", "--all"],
            "explain takes a URL and no selection; write lat cache explain URL [--user NAME]"
        ),
        (["cache", "report", "--cache", "http"], "--cache is for lat cache explain; leave it out"),
        (["cache", "report", "x"], "\"x\" is one argument too many; lat cache --help shows the usage"),
        (["cache", "clear", "--prefix", ""], "--prefix \"\" selects nothing; give it a text, or write --all"),
        (["cache", "report", "--directory", ""], "--directory \"\" names no folder; write --directory DIR"),
    ])
    func mistakesNameTheNextStep(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(message)) { try Invocation(arguments) }
    }

    @Test func storedResponsesAreReportedAndCleared() async throws {
        let folder = try TemporaryDirectory()
        var options = DiskStore.Options()
        options.minimumFreeBytes = 0
        let store = try DiskStore(directory: folder.path(of: "cache"), options: options)
        for number in 0..<3 {
            var entry = CacheEntry(
                key: CacheKey(primary: "k\(number)"), method: "GET", url: "http://h/\(number)", status: 200,
                headers: [:],
                requestTime: Date(), responseTime: Date())
            entry.domain = number == 0 ? "shop" : "app"
            let writer = try await store.writer(for: entry)
            try await writer.append(Data(repeating: 1, count: 1_000))
            try await writer.commit()
        }
        let report = try await LatProcess.run(["cache", "report", "--directory", "cache"], in: folder.path)
        #expect(report.exitCode == 0 && report.text.hasPrefix("3 responses, ") && report.err == "")
        #expect(report.text.contains("  app   2 responses, 1.95 KiB\n  shop  1 response, 1000 B\n"))
        let cleared = try await LatProcess.run(
            ["cache", "clear", "--domain", "app", "--directory", "cache", "--format", "json"], in: folder.path)
        let json = try JSONValue(parsing: cleared.out)
        #expect(cleared.exitCode == 0 && json["removed"]["entries"] == 2 && json["stored"]["entries"] == 1)
        #expect(try await store.usage().entryCount == 1)
        let missing = try await LatProcess.run(["cache", "report", "--directory", "nowhere"], in: folder.path)
        #expect(missing.exitCode == 2 && missing.err.contains("there is no folder nowhere"))
    }

    @Test(arguments: [["--older-than", "30m"], ["--prefix", "v"], ["--prefix", "h"]])
    func clearKeepsTheAppsValues(_ selection: [String]) async throws {
        let folder = try TemporaryDirectory()
        var options = DiskStore.Options()
        options.minimumFreeBytes = 0
        let store = try DiskStore(directory: folder.path(of: "cache"), options: options)
        let hourAgo = Date(timeIntervalSinceNow: -3_600)
        let values = ValueStore(now: { hourAgo }, in: { store })
        try await values.set("Ada", for: "profile")
        let entry = CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/", status: 200, headers: [:],
            requestTime: hourAgo, responseTime: hourAgo)
        try await store.writer(for: entry).commit()
        let cleared = try await LatProcess.run(
            ["cache", "clear", "--directory", "cache", "--format", "json"] + selection, in: folder.path)
        let json = try JSONValue(parsing: cleared.out)
        #expect(cleared.exitCode == 0 && json["removed"]["entries"].int == (selection[1] == "v" ? 0 : 1))
        #expect(try await values.get(String.self, for: "profile") == "Ada")
    }

    @Test func damagedIndexIsTold() async throws {
        let folder = try TemporaryDirectory()
        try folder.write(Data(repeating: 7, count: 50_000), to: "cache/index-4.sqlite")
        let report = try await LatProcess.run(["cache", "report", "--directory", "cache"], in: folder.path)
        #expect(report.exitCode == 0 && report.text == "0 responses, 0 B in cache\n")
        #expect(report.err.hasPrefix("lat: warning: the index of the cache was damaged"))
        #expect(report.err.contains("cache/index-4.sqlite.damaged"))
        let again = try await LatProcess.run(["cache", "report", "--directory", "cache"], in: folder.path)
        #expect(again.err == "")
    }

    @Test func explainArgumentsAreParsed() throws {
        let plain = CacheCommand.URLQuestion(url: "http://u/", policy: .http, headers: [:])
        #expect(try cache("explain", "http://u/").action == .explain(plain))
        let full = CacheCommand.URLQuestion(url: "http://u/", policy: .cacheOnly, headers: ["A": "b"], user: "ada")
        #expect(
            try cache("explain", "http://u/", "--cache", "cacheOnly", "-H", "A: b", "--user", "ada").action
                == .explain(full))
    }

    @Test func explainShowsTheVerdictOfARequest() async throws {
        let folder = try TemporaryDirectory()
        let server = try MockServer()
        server.route("GET", "/cities") { _ in
            .text("Bonn").header("Cache-Control", "max-age=3600").header("Vary", "Accept-Language")
        }
        let variables = ["XDG_CACHE_HOME": folder.path]
        let url = server.url("/cities")
        let german = ["-H", "Accept-Language: de"]
        let sent = try await LatProcess.run(
            ["request", "GET", url, "--cache", "http"] + german, environment: variables)
        #expect(sent.exitCode == 0)
        let used = try await LatProcess.run(["cache", "explain", url] + german, environment: variables)
        #expect(used.exitCode == 0 && used.err == "")
        #expect(
            used.text.hasPrefix("request     GET \(url)\npolicy      http, of the call\nverdict     answered from disk")
        )
        #expect(used.text.contains("\nstored      200, 4 bytes, on disk, "))
        let other = try await LatProcess.run(["cache", "explain", url], environment: variables)
        #expect(other.text.contains("Vary: the request differs in accept-language"))
        let json = try await LatProcess.run(
            ["cache", "explain", url, "--cache", "cacheOnly", "--user", "ada", "--format", "json"],
            environment: variables)
        let value = try JSONValue(parsing: json.out)
        #expect(value["verdict"] == "fails" && value["reason"] == "nothing is stored for this request")
        #expect(value["elsewhere"] == 1 && value["user"] == "ada" && value["sealed"] == false)
        #expect(server.requestCount == 1)
    }

    @Test func explainReportsASealedCache() async throws {
        let folder = try TemporaryDirectory()
        var options = DiskStore.Options()
        options.encryptionKey = Data(repeating: 7, count: 32)
        options.minimumFreeBytes = 0
        let store = try DiskStore(directory: folder.path(of: "cache"), options: options)
        let entry = CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/", status: 200, headers: [:],
            requestTime: Date(), responseTime: Date())
        try await store.writer(for: entry).commit()
        let result = try await LatProcess.run(
            ["cache", "explain", "http://h/", "--directory", "cache"], in: folder.path)
        #expect(result.text.hasSuffix("the cache is encrypted: its entries for this URL need the key\n"))
    }
}
