import Foundation
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Kills `lat upload --resumable` with SIGKILL while it sends: what arrives is the file, and little is sent twice.
///
/// `LAT_LONG_UPLOADS=1` makes it 100 MiB and ten kills for each protocol, and prints how much was sent.
@Suite(.needsPython, .serialized, .timeLimit(.minutes(10))) struct UploadKillTests {
    private static let isLong = ProcessInfo.processInfo.environment["LAT_LONG_UPLOADS"] != nil
    private static let size = isLong ? 100 << 20 : 8 << 20
    private static let kills = isLong ? 10 : 3
    /// So that no run ends before it is killed.
    private static let rate = size / (isLong ? 8 : 4)
    private static let part = isLong ? 1 << 20 : 256 << 10

    private let directory: TemporaryDirectory
    private let path: String
    private let content: Data

    init() throws {
        directory = try TemporaryDirectory()
        path = try directory.writePattern(byteCount: Int64(Self.size), to: "files/big.bin")
        content = try #require(directory.read("files/big.bin"))
    }

    /// Runs the command, kills it each time when so many bytes have arrived, and lets it come to its end.
    private func upload(_ url: String, _ style: String, _ options: [String], received: () -> Int) async throws {
        var environment = ProcessInfo.processInfo.environment
        environment["AWS_ACCESS_KEY_ID"] = "id"
        environment["AWS_SECRET_ACCESS_KEY"] = "key"
        let command = ["upload", url, path, "--resumable", style, "--part-size", "\(Self.part)"] + options
        for kill in 1...Self.kills {
            let process = try LatProcess(command, environment: environment)
            let goal = Self.size * kill / (2 * Self.kills + 2)
            try await eventually("\(goal) bytes") { received() >= goal }
            process.send(signal: SIGKILL)
            #expect(await process.result.exitCode == 128 + SIGKILL)
        }
        #expect(try names().count == 2, "the journal and the lock are left")
        let result = try await LatProcess.run(command, environment: environment)
        #expect(result.exitCode == 0, "\(result.err)")
        #expect(try names().isEmpty)
        let sent = received()
        if Self.isLong {
            print("\(style): \(sent) of \(Self.size) bytes sent, \(Double(sent) / Double(Self.size))")
        }
        #expect(sent <= Self.size + Self.kills * Self.part * 2, "at most the parts in flight are sent twice")
        #expect(Double(sent) <= 1.2 * Double(Self.size), "at most a fifth is sent twice")
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path(of: "files")).filter { $0 != "big.bin" }
    }

    @Test func tusUploadSurvives() async throws {
        let folder = directory.path(of: "served")
        _ = try directory.write(Data(), to: "served/.keep")
        let server = try await PythonScript("tus_server.py", [folder, "--rate", "\(Self.rate)"])
        try await upload("http://127.0.0.1:\(server.port)/files/", "tus", []) {
            server.lines("PATCH ").reduce(0) { $0 + (Int($1.split(separator: " ").last ?? "") ?? 0) }
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { !$0.contains(".") }
        #expect(names.count == 1 && FileManager.default.contents(atPath: folder + "/" + (names.first ?? "")) == content)
    }

    @Test func standardUploadSurvives() async throws {
        let server = try MockServer()
        server.bodyLimit = 0
        server.bodyReadRate = Self.rate
        let uploads = server.resumableUploads()
        try await upload(server.url("/files"), "standard", []) { Int(uploads.receivedBytes) }
        #expect(uploads.contents == [content])
    }

    @Test func multipartUploadSurvives() async throws {
        let server = try await PythonScript(
            "s3_server.py", ["--part-size", "\(Self.part)", "--rate", "\(Self.rate / 2)"])
        let url = "http://127.0.0.1:\(server.port)/bucket/big.bin"
        try await upload(url, "s3", ["-n", "2"]) {
            server.lines("PUT ").reduce(0) { $0 + (Int($1.split(separator: " ")[2]) ?? 0) }
        }
        let object = try await URLTask.get(url)
        #expect(object == content)
    }

    @Test func interruptedUploadGoesOn() async throws {
        let server = try MockServer()
        server.bodyLimit = 0
        server.bodyReadRate = 1 << 19
        let uploads = server.resumableUploads()
        let command = ["upload", server.url("/files"), path, "--resumable", "standard", "--part-size", "65536"]
        let process = try LatProcess(command)
        try await eventually("some bytes") { uploads.receivedBytes > 1 << 18 }
        process.send(signal: SIGINT)
        let result = await process.result
        #expect(result.exitCode == 130, "\(result.err)")
        #expect(result.err.contains("stopped after ") && result.err.contains("run the same command to go on"))
        server.bodyReadRate = nil
        let second = try await LatProcess.run(command + ["--format", "json"])
        #expect(second.err.contains("goes on after ") && second.err.contains("which the server has"))
        let report = try JSONValue(parsing: second.text)
        #expect(report["resumable"].string == "standard" && report["resumed"].int ?? 0 >= 1 << 18, "\(report)")
        #expect(report["uploadURL"].string?.hasPrefix(server.url("/files/")) == true)
        #expect(uploads.contents == [content])
        #expect(server.requests.count { $0.method == "PUT" } == 1)
    }

    @Test func serverSaysWhatItSpeaks() async throws {
        _ = try directory.write(Data(), to: "served/.keep")
        let tus = try await PythonScript("tus_server.py", [directory.path(of: "served")])
        let s3 = try await PythonScript("s3_server.py", [])
        let standard = try MockServer()
        standard.bodyLimit = 0
        let uploads = standard.resumableUploads()
        let plain = try MockServer()
        plain.bodyLimit = Self.size + 1
        plain.fallback { _ in .status(200) }
        var environment = ProcessInfo.processInfo.environment
        environment["AWS_ACCESS_KEY_ID"] = "id"
        environment["AWS_SECRET_ACCESS_KEY"] = "key"
        let urls = [
            "http://127.0.0.1:\(tus.port)/files/", "http://127.0.0.1:\(s3.port)/bucket/a", standard.url("/files"),
            plain.url("/a"),
        ]
        for url in urls {
            let result = try await LatProcess.run(["upload", url, path, "--resumable"], environment: environment)
            #expect(result.exitCode == 0, "\(url): \(result.err)")
            #expect(result.err.contains("names no protocol") == (url == plain.url("/a")), "\(url): \(result.err)")
        }
        #expect(!tus.lines("PATCH ").isEmpty && !s3.lines("PUT 200").isEmpty && uploads.contents == [content])
        #expect(plain.requests.last?.body == content)
        plain.enqueue(.status(503))
        let busy = try await LatProcess.run(["upload", plain.url("/a"), path, "--resumable", "--retries", "0"])
        #expect(busy.exitCode == 1 && busy.err.contains("what it speaks is unknown"), "\(busy.err)")
        plain.enqueue(.status(405), .status(405), .status(405))
        let refused = try await LatProcess.run(["upload", plain.url("/files"), path, "--resumable"])
        let next = "if the server speaks tus, write --resumable tus, or \(plain.url("/files/")) as the address"
        #expect(refused.exitCode == 1 && refused.err.contains(next), "\(refused.err)")
    }

    /// Without the name of a protocol, the journal tells which one the earlier run has begun with.
    @Test func secondRunKeepsTheProtocol() async throws {
        let server = try MockServer()
        server.bodyLimit = 0
        let location = server.url("/u")
        let isBroken = Box(true)
        server.fallback { request in
            switch request.method {
            case "OPTIONS": MockReply(status: 204, headers: isBroken.value ? ["Tus-Resumable": "1.0.0"] : [:])
            case "POST": MockReply(status: 201, headers: ["Location": location])
            case "HEAD": MockReply(status: 200, headers: ["Upload-Offset": "0", "Upload-Length": "\(Self.size)"])
            case "PATCH" where isBroken.value: .status(400)
            default: MockReply(status: 204, headers: ["Upload-Offset": "\(Self.size)"])
            }
        }
        let command = [
            "upload", server.url("/files"), path, "--resumable", "--part-size", "\(Self.size)", "-p", "a=b",
        ]
        let first = try await LatProcess.run(command)
        #expect(try first.exitCode == 1 && names().count == 1, "\(first.err)")
        #expect(first.err.contains("[PATCH \(location)]"), "\(first.err)")
        isBroken.change { $0 = false }
        let second = try await LatProcess.run(command)
        #expect(try second.exitCode == 0 && names().isEmpty, "\(second.err)")
        #expect(!server.requests.contains { $0.method == "PUT" })
        #expect(server.requests.count { $0.method == "POST" } == 1)
    }

    @Test func serverThatEndsOptionsGetsAnOrdinaryUpload() async throws {
        let server = try MockServer()
        server.bodyLimit = Self.size + 1
        server.fallback { $0.method == "OPTIONS" ? .noReply : .status(200) }
        let result = try await LatProcess.run(["upload", server.url("/a"), path, "--resumable", "--retries", "0"])
        #expect(result.exitCode == 0 && result.err.contains("OPTIONS: no answer"), "\(result.err)")
        #expect(server.requests.last?.body == content)
    }

    /// The next run says why it does not go on.
    @Test(arguments: ["file", "server"]) func restartIsExplained(change: String) async throws {
        let server = try MockServer()
        server.bodyLimit = 0
        server.bodyReadRate = 1 << 19
        let uploads = server.resumableUploads()
        let command = ["upload", server.url("/files"), path, "--resumable", "standard", "--part-size", "65536"]
        let process = try LatProcess(command)
        try await eventually("some bytes") { uploads.receivedBytes > 1 << 18 }
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
        server.bodyReadRate = nil
        switch change {
        case "file": _ = try directory.writePattern(byteCount: 50_000, to: "files/big.bin")
        default: uploads.forgetAll()
        }
        let result = try await LatProcess.run(command + ["--format", "json"])
        let reason = change == "file" ? "the file has changed" : "the server does not know the earlier upload"
        #expect(result.exitCode == 0 && result.err.contains(reason), "\(result.err)")
        #expect(try JSONValue(parsing: result.text)["resumed"].int == 0)
    }

    @Test(arguments: [
        (["--parallel", "2"], "belongs to --resumable"), (["--resumable=ftp"], "write tus, standard or s3"),
        (["--resumable", "s3"], "AWS_ACCESS_KEY_ID"), (["--resumable", "tus", "-F", "a=b"], "cannot be combined"),
    ])
    func unusableArgumentsAreNamed(arguments: [String], message: String) async throws {
        let result = try await LatProcess.run(["upload", "http://127.0.0.1:1/", path] + arguments)
        #expect(result.exitCode == 2 && result.err.contains(message), "\(result.err)")
    }
}

/// Gets what a server has, through `lat`.
private enum URLTask {
    static func get(_ url: String) async throws -> Data {
        try await LatProcess.run(["request", "GET", url]).out
    }
}
