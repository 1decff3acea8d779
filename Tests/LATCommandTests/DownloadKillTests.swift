import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import Testing

/// Kills `lat download` with SIGKILL at random times: the resulting file is always right, and hardly any byte is
/// fetched twice.
///
/// `LAT_KILL_ROUNDS=100` sets the number of kills for each number of segments. The file then has 200 MiB.
@Suite(.enabled(if: KillRounds.server != nil), .serialized, .timeLimit(.minutes(30))) struct DownloadKillTests {
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .none
        manager = try CentralRequestManager(configuration: configuration)
    }

    @Test(arguments: [1, 4]) func killedDownloadResumesCorrectly(segments: Int) async throws {
        let server = try #require(KillRounds.server)
        let name = "kill-\(segments)-\(UInt64.random(in: 0 ... .max)).bin"
        let source = try directory.writePattern(byteCount: KillRounds.size, to: "source")
        _ = try await manager.startRequest("PUT", "\(server)/dav/\(name)", body: .file(source))
        // Limits the rate so that a download takes two seconds with any number of connections. Then few bytes stay
        // unread in the sockets, even on a busy machine.
        let rate = KillRounds.size / Int64(segments) / 2
        let url = "\(server)/transfers/\(name)?rate=\(rate)"
        let digest = try await Self.digest(of: source)

        var tally = Tally()
        while tally.kills < KillRounds.count {
            try await downloadOnce(url, segments, digest, &tally)
        }
        _ = try await manager.startRequest("DELETE", "\(server)/dav/\(name)")
        let sent = try await Self.bytesSent(of: name)
        let extra = Double(sent - Int64(tally.files) * KillRounds.size) / Double(KillRounds.size) / Double(tally.kills)
        print(
            "segments \(segments): \(tally.kills) kills, \(tally.files) files; unrecorded at most "
                + "\(Self.percent(tally.worst)); the server sent \(Self.percent(extra)) more per kill")
        // The limit is 5 % of 200 MiB, the size of the file with LAT_KILL_ROUNDS. How far the journal lags behind does
        // not depend on the file's size.
        #expect(tally.worst * Double(KillRounds.size) < 0.05 * Double(200 << 20))
        // The bytes in the sockets' buffers were sent but never read. Their number does not depend on the file's size.
        let buffers = Double(segments * (4 << 20)) / Double(KillRounds.size)
        #expect(extra < 0.05 + buffers)
    }

    private struct Tally {
        var kills = 0
        var files = 0
        /// The largest share of a file that was written but not yet recorded in the journal.
        var worst = 0.0
    }

    /// Starts and kills downloads until the file is complete.
    private func downloadOnce(_ url: String, _ segments: Int, _ digest: String, _ tally: inout Tally) async throws {
        let target = directory.path(of: "target.bin")
        while true {
            let process = try LatProcess(
                [
                    "download", url, "-o", target, "--segments", "\(segments)", "--sha256", digest, "--format", "json",
                ])
            // The process is killed at a random time. This is not a wait for an event.
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...1_500)))
            process.send(signal: SIGKILL)
            let result = await process.result
            if result.exitCode == 0 {
                #expect(!result.text.contains("\"error\":{"))
                break
            }
            guard result.exitCode == 137 else {
                Issue.record("exit code \(result.exitCode): \(result.text) \(result.err)")
                throw CancellationError()
            }
            tally.kills += 1
            tally.worst = max(tally.worst, try unclaimed())
        }
        tally.files += 1
        #expect(try await Self.digest(of: target) == digest)
        #expect(directory.contents == ["source", "target.bin"])
        unlink(target)
    }

    /// The share of the file that was written but not recorded in the journal. It is fetched again.
    private func unclaimed() throws -> Double {
        var status = stat()
        guard stat(directory.path(of: "target.bin.part"), &status) == 0 else { return 0 }
        let written = min(Int64(status.st_blocks) * 512, Int64(status.st_size))
        var claimed: Int64 = 0
        if let data = directory.read("target.bin.part.journal"), let line = data.firstIndex(of: 0x0A) {
            let journal = try JSONValue(parsing: Data(data[(line + 1)...]))
            for range in journal["done"]?.array ?? [] { claimed += (range[1]?.int64 ?? 0) - (range[0]?.int64 ?? 0) }
        }
        #expect(claimed <= Int64(status.st_size), "the journal claims bytes beyond the file")
        return Double(max(0, written - claimed)) / Double(KillRounds.size)
    }

    /// The bytes of a file that nginx sent, read when its log no longer grows.
    private static func bytesSent(of name: String) async throws -> Int64 {
        let log = try #require(ProcessInfo.processInfo.environment["LAT_TEST_NGINX_TRANSFERS"])
        var last: Int64 = -1
        while true {
            let text = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
            let sent = text.split(separator: "\n").filter { $0.contains(name) }
                .compactMap { Int64($0.split(separator: " ")[2]) }.reduce(0, +)
            if sent == last { return sent }
            last = sent
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    private static func digest(of path: String) async throws -> String {
        let result = try await CommandOutput.run("/usr/bin/sha256sum", path)
        return String(result.prefix(64))
    }

    private static func percent(_ share: Double) -> String { "\((share * 10_000).rounded() / 100) %" }
}

/// The number of kills and the size of the file, from the environment.
enum KillRounds {
    private static let environment = ProcessInfo.processInfo.environment
    static let server = environment["LAT_TEST_NGINX_TRANSFERS"] == nil ? nil : environment["LAT_TEST_NGINX_HTTP"]
    private static let wanted = environment["LAT_KILL_ROUNDS"].flatMap { Int($0) }
    static let count = wanted ?? 4
    static let size: Int64 = (wanted == nil ? 32 : 200) << 20
}
