import Foundation
import Glibc
import LATNetworking
import LATTesting
import ResponseCache
import Testing

/// A second process that sends requests through its own manager on a shared folder.
/// It runs this test program again (``CacheProcessMain``), exchanges JSON lines over a socket, and ends with this value.
final class CacheProcess: Sendable {
    /// A command to the process.
    enum Order: Codable, Sendable {
        case send(Request, at: Date)
        case flush
    }

    struct Request: Codable, Sendable {
        var method: String
        var url: String
        var headers: [[String]]
        var text: String?
        var streams: Bool
    }

    /// The result of a command.
    struct Answer: Codable, Sendable {
        var status = 0
        var reason = ""
        var headers: [[String]] = []
        var body = Data()
        var url = ""
        var source = ""
        /// The error that the process threw instead.
        var error: String?
    }

    static let folder = "LAT_CACHE_PROCESS_FOLDER"
    static let isShared = "LAT_CACHE_PROCESS_SHARED"

    private let process: pid_t
    private let line: LineSocket
    /// A queue that blocks while waiting for answers, so that no task has to.
    private let queue = DispatchQueue(label: "cache.neighbour")

    init(_ folder: String, _ mode: CacheMode) throws {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw POSIXError(.init(rawValue: errno) ?? .EIO)
        }
        line = LineSocket(ends[0])
        defer { close(ends[1]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO)
        for output in [STDOUT_FILENO, STDERR_FILENO] {
            posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0)
        }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let words = [program, "--testing-library", "swift-testing", "--filter", "CacheProcessMain"]
        let variables = ProcessInfo.processInfo.environment.merging(
            [Self.folder: folder, Self.isShared: mode == .shared ? "1" : "0"]
        ) { $1 }
        var arguments = words.map { strdup($0) } + [nil]
        var environment = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + environment { free(text) } }
        var process: pid_t = 0
        let code = posix_spawn(&process, program, &actions, nil, &arguments, &environment)
        guard code == 0 else { throw POSIXError(.init(rawValue: code) ?? .EIO) }
        self.process = process
    }

    deinit {
        kill(process, SIGKILL)
        while waitpid(process, nil, 0) < 0, errno == EINTR {}
    }

    /// Has the process send a request at a given time.
    func send(_ request: HTTPRequest, at time: Date) async throws -> HTTPResponse {
        var text: String?
        if case .data(let data)? = request.body?.content { text = String(decoding: data, as: UTF8.self) }
        let answer = try await ask(
            .send(
                Request(
                    method: request.method.rawValue, url: request.url,
                    headers: request.headers.fields.map { [$0.name, $0.value ?? ""] }, text: text,
                    streams: request.streamsBody == true), at: time))
        return HTTPResponse(
            status: answer.status, reason: answer.reason,
            headers: HTTPHeaders(answer.headers.map { ($0[0], $0[1]) }), body: ResponseBody(answer.body),
            url: answer.url, source: try #require(HTTPResponse.Source(rawValue: answer.source)))
    }

    /// Has the process finish its pending writes.
    func flush() async throws { _ = try await ask(.flush) }

    private func ask(_ order: Order) async throws -> Answer {
        let answer: Answer = try await withCheckedThrowingContinuation { continuation in
            queue.async { [line] in
                continuation.resume(
                    with: Result {
                        try line.write(order)
                        guard let answer = try line.read(Answer.self) else { throw Ended() }
                        return answer
                    })
            }
        }
        if let error = answer.error { throw NetworkError(.cache, message: "in the other process: \(error)") }
        return answer
    }

    struct Ended: Error {}
}

/// One end of a connection that carries lines of JSON, one message at a time in each direction.
final class LineSocket: Sendable {
    private let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    func write(_ value: some Encodable) throws {
        var bytes = Array(try JSONEncoder().encode(value))[...]
        bytes.append(UInt8(ascii: "\n"))
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw CacheProcess.Ended() }
            bytes = bytes.dropFirst(count)
        }
    }

    /// Returns the next value, or `nil` when the other end is closed.
    func read<Value: Decodable>(_ type: Value.Type) throws -> Value? {
        var line = Data()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while line.last != UInt8(ascii: "\n") {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            line.append(contentsOf: buffer[..<count])
        }
        return try JSONDecoder().decode(type, from: line)
    }
}

/// The second process's part. Its test is disabled in the main test process.
@Suite struct CacheProcessMain {
    private static let environment = ProcessInfo.processInfo.environment

    @Test(.enabled(if: environment[CacheProcess.folder] != nil, "the other process of these tests"))
    func executesCommandsUntilTheEnd() async throws {
        let folder = try #require(Self.environment[CacheProcess.folder])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock) {
            $0.cacheStore = try? StoreKind.twoProcesses.store(in: folder)
            $0.cacheMode = Self.environment[CacheProcess.isShared] == "1" ? .shared : .private
        }
        let line = LineSocket(STDIN_FILENO)
        while let order = try line.read(CacheProcess.Order.self) {
            var answer = CacheProcess.Answer()
            do {
                switch order {
                case .flush: try await manager.cache.flush()
                case .send(let request, let time):
                    clock.now = time
                    answer = try await Self.send(request, manager)
                }
            } catch {
                answer.error = "\(error)"
            }
            try line.write(answer)
        }
        exit(0)
    }

    private static func send(
        _ order: CacheProcess.Request, _ manager: CentralRequestManager
    ) async throws -> CacheProcess.Answer {
        var request = HTTPRequest(order.method, order.url)
        request.redirects = .none
        request.decompresses = false
        request.streamsBody = order.streams
        if let text = order.text { request.body = .text(text) }
        request.headers = HTTPHeaders(order.headers.map { ($0[0], $0[1]) })
        let response = try await manager.send(request)
        return CacheProcess.Answer(
            status: response.status, reason: response.reason,
            headers: response.headers.fields.map { [$0.name, $0.value ?? ""] },
            body: try await response.body.collect(upTo: .max), url: response.url, source: response.source.rawValue)
    }
}
