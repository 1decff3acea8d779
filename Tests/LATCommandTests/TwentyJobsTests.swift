import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// The table "Twenty jobs" of Documentation/Command.md.
@Suite(.timeLimit(.minutes(2))) struct TwentyJobsTests {
    /// A row of the table.
    struct Job: Sendable, CustomTestStringConvertible {
        let number: Int
        let name: String
        /// For each program, its arguments and the number beside them.
        let lines: [(arguments: String, count: Int)]

        var lat: String { lines[0].arguments }
        var curl: String { lines[2].arguments }
        var testDescription: String { name }

        init?(row: Substring) {
            let cells = row.split(separator: " | ").map { $0.trimmingPrefix("| ") }
            guard cells.count == 5, let number = Int(cells[0]) else { return nil }
            self.number = number
            name = String(cells[1])
            lines = zip(cells[2...], ["lat", "xh", "curl"]).compactMap { cell, program in
                let parts = cell.split(separator: "`")
                guard parts.count == 2, parts[0].hasPrefix("\(program) ") else { return nil }
                return (
                    String(parts[0].dropFirst(program.count + 1)), Int(parts[1].filter(\.isNumber)) ?? -1
                )
            }
            guard lines.count == 3 else { return nil }
        }
    }

    private static let page: String = {
        var path = URL(filePath: #filePath)
        for _ in 0..<3 { path.deleteLastPathComponent() }
        return (try? String(contentsOfFile: path.appending(path: "Documentation/Command.md").path, encoding: .utf8))
            ?? ""
    }()
    private static let jobs = page.split(separator: "\n").compactMap { Job(row: $0) }
    private static let plainJobs = jobs.filter { !$0.lat.contains("https:") }
    private static let secureJobs = jobs.filter { $0.lat.contains("https:") }

    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
        server.fallback { _ in .text("ok") }
        server.route("GET", "/old") { _ in .redirect(to: "/new") }
        try directory.write(Data(#"{"id":7}"#.utf8), to: "order.json")
        try directory.write(Data("PNG".utf8), to: "a.png")
    }

    /// A line for this test's server.
    private func line(_ arguments: String) -> String {
        let secure = Servers.nginxTLS ?? "https://localhost:8443"
        return arguments.replacing("https://localhost:8443", with: "\(secure)/1k.json").replacing(
            ":8080", with: ":\(server.port)")
    }

    private func run(_ program: String, _ arguments: String) async throws -> (LatProcess.Result, RecordedRequest?) {
        server.forgetRequests()
        let process = try LatProcess(
            ["-c", "exec \(program) \(line(arguments))"], in: directory.path, program: "/bin/sh")
        return (await process.result, server.requests.last)
    }

    @Test func tableHasTwentyJobsThatAreNotLonger() {
        #expect(Self.jobs.map(\.number) == Array(1...20))
        for job in Self.jobs {
            #expect(job.lines.allSatisfy { $0.arguments.count == $0.count }, "\(job.name): run scripts/jobs")
            #expect(job.lines[0].count <= job.lines[1].count && job.lines[0].count <= job.lines[2].count, "\(job.name)")
        }
    }

    /// Runs the lines of `lat` and curl, which must succeed, and returns what this test's server received from each.
    private func requests(of job: Job) async throws -> (lat: RecordedRequest?, curl: RecordedRequest?) {
        let (result, request) = try await run(LatProcess.path, job.lat)
        #expect(result.exitCode == 0, "\(result.err)")
        for name in ["big.iso", "half.iso"] { unlink(directory.path(of: name)) }
        let (expected, other) = try await run("curl -s", job.curl)
        #expect(expected.exitCode == 0, "\(expected.err)")
        return (request, other)
    }

    @Test(.needs("curl"), arguments: plainJobs) func lineDoesWhatThatOfCurlDoes(job: Job) async throws {
        let (lat, curl) = try await requests(of: job)
        let (request, other) = (try #require(lat), try #require(curl))
        #expect(request.method == other.method && request.path == other.path && request.queryItems == other.queryItems)
        for name in ["Authorization", "X-Trace", "Host"] { #expect(request.headers[name] == other.headers[name]) }
        if let document = try? JSONValue(parsing: other.body) {
            #expect(try JSONValue(parsing: request.body) == document)
            #expect(request.headers["Content-Type"] == other.headers["Content-Type"])
        } else if request.text.contains("form-data") {
            for part in ["name=\"title\"", "Sea", "name=\"img\"; filename=\"a.png\"", "PNG"] {
                #expect(request.text.contains(part) && other.text.contains(part))
            }
        } else {
            #expect(request.body == other.body)
        }
    }

    @Test(.needs("curl"), .needsNginx, arguments: secureJobs) func secureLineSucceedsLikeThatOfCurl(job: Job)
        async throws
    {
        _ = try await requests(of: job)
    }

    @Test func pageNamesEveryOption() {
        for option in RequestCommand.options {
            #expect(Self.page.contains("`\(option.name)"), "\(option.name)")
        }
    }
}
