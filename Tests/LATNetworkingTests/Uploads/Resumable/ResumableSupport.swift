import Cryptography
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATTransfers

/// A folder with a file to upload, and the folder of a server.
struct UploadFixture {
    let directory: TemporaryDirectory
    let content: Data
    let path: String
    let served: String

    init(size: Int, seed: UInt64 = 1) throws {
        directory = try TemporaryDirectory()
        content = UploadFixture.bytes(size, seed: seed)
        path = try directory.write(content, to: "files/big.bin")
        served = directory.path(of: "served")
        _ = try directory.write(Data(), to: "served/.keep")
    }

    /// Bytes that do not repeat, so that a lost or doubled part is noticed.
    static func bytes(_ count: Int, seed: UInt64) -> Data {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        var data = Data(capacity: count + 8)
        while data.count < count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            withUnsafeBytes(of: state) { data.append(contentsOf: $0) }
        }
        return data.prefix(count)
    }

    /// The names of the files beside the uploaded one.
    var leftovers: [String] { names(in: "files").filter { $0 != "big.bin" } }

    func names(in folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.path(of: folder))) ?? []).sorted()
    }
}

/// tuspyserver and what it printed.
final class TusServer: Sendable {
    let script: PythonScript
    let folder: String

    init(_ folder: String, port: Int = 0, extensions: String? = nil, maxSize: Int? = nil) async throws {
        self.folder = folder
        var arguments = [folder, "--port", "\(port)"]
        if let extensions { arguments += ["--extensions", extensions] }
        if let maxSize { arguments += ["--max-size", "\(maxSize)"] }
        script = try await PythonScript("tus_server.py", arguments)
    }

    var url: String { "http://127.0.0.1:\(script.port)/files/" }

    /// Method, status and bytes of each request.
    var requests: [(method: Substring, status: Int, bytes: Int)] {
        script.process.output.split(whereSeparator: \.isNewline).compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 3, let status = Int(words[1]), let bytes = Int(words[2]) else { return nil }
            return (words[0], status, bytes)
        }
    }

    /// The server prints a request after it has answered it.
    func expectMethods(_ methods: Substring...) async throws {
        try await eventually("\(methods)") { requests.map(\.method) == methods }
    }

    var received: Int { requests.reduce(0) { $0 + ($1.method == "HEAD" ? 0 : $1.bytes) } }

    /// The contents of the uploads that there are.
    var uploads: [Data] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { !$0.contains(".") }.compactMap { FileManager.default.contents(atPath: folder + "/" + $0) }
    }
}

extension UploadTask {
    /// Waits until so many bytes were sent.
    func reach(_ count: Int64) async {
        for await progress in self.progress where progress.completed >= count { break }
    }
}
