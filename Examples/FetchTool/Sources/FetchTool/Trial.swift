import Foundation
import LATNetworking
import LATTesting

/// Runs the tool as a shell would, against a server of its own, and checks what it did.
enum Trial {
    private static let size: Int64 = 8 << 20

    static func run() -> ExitCode {
        do {
            let server = try MockServer()
            server.route("GET", "/image.iso", handler: image)
            let folder = try TemporaryDirectory()
            let target = folder.path(of: "image.iso")

            let interrupted = try fetch([server.url("/image.iso"), "-o", target], interruptAfter: "30 %")
            try check(interrupted == 130, "Ctrl-C ends the tool with 130, not with \(interrupted)")
            try check(folder.read("image.iso") == nil, "the target appears only when it is complete")

            let resumed = try fetch([server.url("/image.iso"), "-o", target])
            try check(resumed == 0, "the same command succeeds with 0, not with \(resumed)")
            try check(server.requests.last?.headers["Range"] != nil, "the second run asks for the rest only")
            let file = folder.read("image.iso") ?? Data()
            try check(file.count == size && MockPattern.firstMismatch(in: file, at: 0) == nil, "the file is whole")

            let codes = [
                try fetch([server.url("/missing")]), try fetch([server.url("/image.iso"), "-n", "many"]),
                try fetch([try ClosedPort().url()]),
            ]
            try check(codes == [1, 2, 3], "404, a wrong option and no connection give 1, 2 and 3, not \(codes)")
            print("fetch was interrupted, went on, and ended with the right codes")
            return .success
        } catch {
            FetchTool.complain("the trial failed: \(error)")
            return .refused
        }
    }

    /// Sends the whole file slowly, but the rest of it at once.
    @Sendable private static func image(_ request: RecordedRequest) -> MockReply {
        let first = request.headers["Range"].flatMap { Int64($0.dropFirst("bytes=".count).prefix(while: \.isNumber)) }
        guard let first, first > 0 else {
            return .pattern(byteCount: size).header("ETag", "\"v1\"").header("Accept-Ranges", "bytes")
                .throttled(bytesPerSecond: 2 << 20)
        }
        return .data(MockPattern.bytes(in: first..<size), status: 206).header("ETag", "\"v1\"")
            .header("Content-Range", "bytes \(first)-\(size - 1)/\(size)")
    }

    /// Runs this program with arguments, presses Ctrl-C when it shows a text, and returns its exit code.
    private static func fetch(_ arguments: [String], interruptAfter sign: String? = nil) throws -> Int32 {
        FileHandle.standardError.write(Data("$ fetch \(arguments.joined(separator: " "))\n".utf8))
        let child = Process()
        child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        child.arguments = arguments
        let errors = Pipe()
        child.standardError = errors
        try child.run()
        var shown = ""
        while case let data = errors.fileHandleForReading.availableData, !data.isEmpty {
            FileHandle.standardError.write(data)
            let wasShown = sign.map { shown.contains($0) } ?? true
            shown += String(decoding: data, as: UTF8.self)
            if let sign, !wasShown, shown.contains(sign) { child.interrupt() }
        }
        child.waitUntilExit()
        return child.terminationStatus
    }

    private static func check(_ condition: Bool, _ expectation: String) throws {
        struct Failure: Error, CustomStringConvertible { let description: String }
        guard condition else { throw Failure(description: expectation) }
    }
}
