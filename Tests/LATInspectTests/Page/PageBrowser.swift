import FoundationEssentials
import Glibc
import LATInspect
import LATTesting
import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test where there is no browser.
    static var needsChromium: Self {
        .enabled(if: PageBrowser.isInstalled, "needs Chromium; scripts/setup --tests installs it")
    }
}

/// Uses the page in a headless Chromium: a scenario of `scripts/lib/inspector_page.py`.
enum PageBrowser {
    static var isInstalled: Bool {
        ["chromium", "chromium-browser", "google-chrome"].contains { access("/usr/bin/\($0)", X_OK) == 0 }
    }

    /// - Returns: What the scenario prints at its end.
    static func run(_ scenario: String, _ arguments: String..., folder: TemporaryDirectory) async throws -> JSONValue {
        let script = URL(filePath: #filePath).appending(path: "../../../../scripts/lib/inspector_page.py").standardized
        let process = try LatProcess(
            [script.path, scenario] + arguments, environment: ["HOME": folder.path, "TMPDIR": folder.path],
            program: "/usr/bin/python3")
        let result = await process.result
        guard result.exitCode == 0, let line = result.text.split(separator: "\n").last else {
            throw Failure(description: "\(result.text)\(result.err.suffix(2_000))")
        }
        return try JSONValue(parsing: Data(line.utf8))
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }
}

/// A server, a manager that is inspected, and the page.
struct InspectedManager {
    let server: MockServer
    let inspector: Inspector
    let manager: CentralRequestManager
    let address: String

    init(
        limits: Inspector.Limits = Inspector.Limits(),
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws {
        server = try MockServer()
        inspector = Inspector(limits: limits)
        address = try inspector.start()
        let inspector = inspector
        manager = try CentralRequestManager.make {
            change(&$0)
            $0.accessories = [inspector]
        }
    }

    private var reader: PageReader { PageReader(address: address) }
    var token: String { reader.token }

    func url(_ path: String) -> String { reader.url(path) }
    func ask(_ method: String = "GET", _ path: String, body: String? = nil) async throws -> HTTPResponse {
        try await reader.ask(method, path, body: body)
    }
    func stream(calls count: Int) async throws -> [JSONValue] { try await reader.stream(calls: count) }
}

/// Reads what a page gets.
struct PageReader: Sendable {
    let address: String

    /// The address of a part of the page.
    func url(_ path: String) -> String { "\(address.prefix { $0 != "#" }.dropLast())\(path)" }

    /// The key in the address.
    var token: String { String(address.split(separator: "#").last ?? "") }

    /// Asks the page's server, with the key.
    func ask(_ method: String = "GET", _ path: String, body: String? = nil) async throws -> HTTPResponse {
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        return try await central.send(
            HTTPRequest(
                method, url(path), headers: ["Authorization": "Bearer \(token)"],
                body: body.map { .text($0) }))
    }

    /// The first events of the stream, until it has sent so many calls.
    func stream(calls count: Int) async throws -> [JSONValue] {
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        let response = try await central.stream("GET", url("/stream"), headers: ["Authorization": "Bearer \(token)"])
        var calls: [String: JSONValue] = [:]
        for try await line in response.body.lines {
            // A comment: nothing has happened for a while.
            if line.hasPrefix(":") { break }
            guard line.hasPrefix("data: ") else { continue }
            for call in try JSONValue(parsing: Data(line.dropFirst(6).utf8)).array ?? [] {
                calls["\(call["id"].int ?? 0)"] = call
            }
            if calls.count >= count, calls.values.allSatisfy({ $0["duration"].double != nil }) { break }
        }
        return calls.values.sorted { ($0["number"].int ?? 0) < ($1["number"].int ?? 0) }
    }

    /// All that the page can show of its calls, and copies and files made of them.
    func everything(calls count: Int = 1) async throws -> String {
        let calls = try await stream(calls: count)
        var text = "\(calls)"
        let ids = calls.map { "\($0["id"].int ?? 0)" }
        for id in ids {
            var paths = ["", "/body?side=request&entry=0", "/body?side=response&entry=0"]
            paths += ["curl", "swift", "entity", "httpie"].map { "/copy?as=\($0)" }
            for path in paths {
                let response = try await ask("GET", "/calls/\(id)\(path)")
                guard response.status == 200 else {
                    throw PageBrowser.Failure(description: "\(path): \(response.status)")
                }
                text += "\(response.headers)\n" + String(decoding: response.body.data ?? Data(), as: UTF8.self)
            }
        }
        let har = try await ask("POST", "/har", body: "[\(ids.joined(separator: ","))]")
        return text + String(decoding: har.body.data ?? Data(), as: UTF8.self)
    }
}
