import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Kills `lat download` with SIGKILL at random times: the resulting file is always right, and no byte that the journal
/// lists is fetched twice.
///
/// `LAT_KILL_ROUNDS=100` sets the number of kills for each number of segments. The file then has 200 MiB.
@Suite(.needsNginx, .serialized, .timeLimit(.minutes(30))) struct DownloadKillTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .direct
        manager = try CentralRequestManager(configuration: configuration)
    }

    @Test(arguments: [1, 4]) func killedDownloadResumesCorrectly(segments: Int) async throws {
        let server = try #require(KillRounds.server)
        let name = "kill-\(segments)-\(UInt64.random(in: 0 ... .max)).bin"
        let source = try directory.writePattern(byteCount: KillRounds.size, to: "source")
        _ = try await manager.startRequest("PUT", "\(server)/dav/\(name)", body: .file(source))
        // Limits the rate so that a download takes two seconds with any number of connections.
        let rate = KillRounds.size / Int64(segments) / 2
        let url = "\(server)/transfers/\(name)?rate=\(rate)"
        let digest = try await Self.digest(of: source)

        var tally = Tally()
        while tally.kills < KillRounds.count {
            try await downloadOnce(url, segments, digest, &tally)
        }
        // A last request by the test itself, because the last run may have renamed the file without a request.
        let headers: HTTPHeaders = ["X-Run": "\(tally.listed.count)", "Range": "bytes=0-0"]
        _ = try await manager.startRequest("GET", url, headers: headers)
        let requests = try await Self.requests(of: name, before: tally.listed.count)
        _ = try await manager.startRequest("DELETE", "\(server)/dav/\(name)")
        print(
            "segments \(segments): \(tally.kills) kills, \(tally.files) files, \(requests.count) requests; unlisted at "
                + "most \((tally.worst * 10_000).rounded() / 100) %")
        // The limit is 5 % of 200 MiB, the size of the file with LAT_KILL_ROUNDS. How far the journal lags behind does
        // not depend on the file's size.
        #expect(tally.worst * Double(KillRounds.size) < 0.05 * Double(200 << 20))
        // The number of sent bytes is not checked: how many of them were never read depends on the machine.
        for request in requests {
            let again = tally.listed[request.run].filter { $0.overlaps(request.range) }
            let all = requests.filter { $0.run == request.run }.map(\.range)
            #expect(again.isEmpty, "run \(request.run) requested \(all), but the journal listed \(again)")
        }
        #expect(requests.contains { !tally.listed[$0.run].isEmpty }, "no run resumed")
    }

    /// Tornado keeps the ETag of a changed file. The next run finds the journal of the killed one.
    @Test(.needsPython) func killedDownloadOfAChangedFileIsFresh() async throws {
        let size: Int64 = 4 << 20
        func write(from offset: Int64, at time: Int) throws {
            let bytes = MockPattern.bytes(in: offset..<offset + size)
            let path = try directory.write(bytes, to: "files/f")
            var times = [timespec(), timespec()]
            for index in 0..<2 { times[index].tv_sec = 1_700_000_000 + time }
            #expect(utimensat(AT_FDCWD, path, times, 0) == 0)
        }
        try write(from: 0, at: 0)
        let server = try await PythonScript("tornado_files.py", [directory.path(of: "files"), "\(4 << 20)"])
        let command = ["download", "http://127.0.0.1:\(server.port)/f", "-o", directory.path(of: "target.bin")]
        let process = try LatProcess(command)
        try await eventually("a journal") { try !listed().isEmpty }
        process.send(signal: SIGKILL)
        _ = await process.result
        try write(from: 1_000, at: 10)
        let result = try await LatProcess.run(command + ["--segments", "4"])
        #expect(result.exitCode == 0, "\(result.err)")
        let bytes = try #require(directory.read("target.bin"))
        #expect(MockPattern.firstMismatch(in: bytes, at: 1_000) == nil && Int64(bytes.count) == size)
        #expect(server.lines("206 bytes=").count > 0)
    }

    private struct Tally {
        var kills = 0
        var files = 0
        /// The largest share of a file that was written but not yet listed in the journal.
        var worst = 0.0
        /// What the journal listed when each run began.
        var listed: [[Range<Int64>]] = []
    }

    /// Starts and kills downloads until the file is complete.
    private func downloadOnce(_ url: String, _ segments: Int, _ digest: String, _ tally: inout Tally) async throws {
        let target = directory.path(of: "target.bin")
        while true {
            let run = tally.listed.count
            tally.listed.append(try listed())
            let process = try LatProcess(
                [
                    "download", url, "-o", target, "--segments", "\(segments)", "--sha256", digest, "--format", "json",
                    "-H",
                    "X-Run: \(run)",
                ])
            // Every second kill comes at a random time, even before the first byte; the others come in the middle of the
            // transfer, however slow the machine is.
            let goal = run.isMultiple(of: 2) ? nil : Int64.random(in: written()...KillRounds.size)
            let killer = Task {
                if let goal {
                    while written() < goal { try await Task.sleep(for: .milliseconds(5)) }
                } else {
                    try await Task.sleep(for: .milliseconds(Int.random(in: 0...1_500)))
                }
                process.send(signal: SIGKILL)
            }
            let result = await process.result
            killer.cancel()
            _ = await killer.result
            if result.exitCode == 0 {
                #expect(!result.text.contains("\"error\":{"))
                break
            }
            guard result.exitCode == 137 else {
                Issue.record("exit code \(result.exitCode): \(result.text) \(result.err)")
                throw CancellationError()
            }
            tally.kills += 1
            tally.worst = max(tally.worst, try unlisted())
        }
        tally.files += 1
        #expect(try await Self.digest(of: target) == digest)
        #expect(directory.contents == ["source", "target.bin"])
        unlink(target)
    }

    /// The bytes of the unfinished file on the disk.
    private func written() -> Int64 {
        var status = stat()
        guard stat(directory.path(of: "target.bin.part"), &status) == 0 else { return 0 }
        return min(Int64(status.st_blocks) * 512, Int64(status.st_size), KillRounds.size)
    }

    /// The bytes that the journal lists, which are not fetched again. A run that was killed between its two last steps has
    /// renamed the file and left the journal, which is then ignored.
    private func listed() throws -> [Range<Int64>] {
        guard directory.contents.contains("target.bin.part"), let data = directory.read("target.bin.part.journal"),
            let line = data.firstIndex(of: 0x0A)
        else {
            return []
        }
        let done = try JSONValue(parsing: Data(data[(line + 1)...]))["done"]?.array ?? []
        return try done.map { range in
            let (start, end) = (try #require(range[0]?.int64), try #require(range[1]?.int64))
            try #require(start <= end && end <= KillRounds.size)
            return start..<end
        }
    }

    /// The share of the file that was written but is not listed in the journal. It is fetched again.
    private func unlisted() throws -> Double {
        let count = try listed().reduce(0) { $0 + Int64($1.count) }
        return Double(max(0, written() - count)) / Double(KillRounds.size)
    }

    private struct RangeRequest {
        let run: Int
        let range: Range<Int64>
    }

    /// The requests for a file that nginx answered, read when it has logged the one that came after all runs.
    private static func requests(of name: String, before last: Int) async throws -> [RangeRequest] {
        let log = try #require(ProcessInfo.processInfo.environment["LAT_TEST_NGINX_TRANSFERS"])
        var requests: [RangeRequest] = []
        try await eventually("the log of the last request") {
            let text = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
            requests = try text.split(separator: "\n").filter { $0.contains(name) }.compactMap(request)
            return requests.contains { $0.run == last }
        }
        return requests.filter { $0.run < last }
    }

    /// Parses a line of the log: the path, the status, the number of bytes, the range and the run. Returns `nil` for a
    /// response without content, such as to a client that was killed before.
    private static func request(_ line: Substring) throws -> RangeRequest? {
        let words = line.split(separator: " ")
        try #require(words.count == 5, "\(line)")
        let run = try #require(Int(words[4]))
        guard words[1] == "206" else {
            return words[1] == "200" ? RangeRequest(run: run, range: 0..<KillRounds.size) : nil
        }
        let ends = words[3].drop { $0 != "=" }.dropFirst().split(separator: "-")
        let start = try #require(ends.first.flatMap { Int64($0) })
        let end = ends.count > 1 ? try #require(Int64(ends[1])) + 1 : KillRounds.size
        return RangeRequest(run: run, range: start..<end)
    }

    private static func digest(of path: String) async throws -> String {
        let result = try await CommandOutput.run("/usr/bin/sha256sum", path)
        return String(result.prefix(64))
    }
}

/// The number of kills and the size of the file, from the environment.
enum KillRounds {
    private static let environment = ProcessInfo.processInfo.environment
    static let server = environment["LAT_TEST_NGINX_TRANSFERS"] == nil ? nil : environment["LAT_TEST_NGINX_HTTP"]
    private static let wanted = environment["LAT_KILL_ROUNDS"].flatMap { Int($0) }
    static let count = wanted ?? 4
    static let size: Int64 = (wanted == nil ? 32 : 200) << 20
}
