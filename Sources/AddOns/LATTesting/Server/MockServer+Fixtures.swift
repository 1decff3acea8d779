import FoundationEssentials
import Glibc
import HTTPCore
import Platform

extension MockServer {
    /// Adds a route for each file of a folder: a server of example replies, such as those that `lat openapi import --examples`
    /// writes.
    ///
    /// ```swift
    /// let server = try MockServer()
    /// try server.route(fixtures: "Tests/Fixtures", under: "/v1")     // users/{id}.GET.json answers GET /v1/users/42
    /// ```
    ///
    /// The names are those of `Simulation.fixtures`: `users/42.GET.json` answers a GET of `/users/42`, without a
    /// method in the name any method, and `{id}` is any one segment. A literal segment wins over `{id}`, and a method over none.
    /// Replies have status 200 and the media type of the name. A file is read when it is asked for, so it may be edited
    /// meanwhile; one that cannot be read is a reply with 500. Hidden files are left out.
    ///
    /// - Parameters:
    ///   - folder: its path, absolute or relative to the working directory.
    ///   - prefix: the path of the base URL, such as `/v1`. Default none.
    /// - Throws: ``MockServerError`` when the folder cannot be read or has no files.
    public func route(fixtures folder: String, under prefix: String = "") throws {
        let names: [String]
        do {
            names = try FileManager.default.subpathsOfDirectory(atPath: folder)
        } catch {
            throw MockServerError(
                kind: .invalidPath,
                description: "the folder of fixtures \(folder) cannot be read; name a folder that exists")
        }
        let files = names.filter { name in
            var status = stat()
            let isHidden = name.split(separator: "/").contains { $0.hasPrefix(".") }
            return !isHidden && stat("\(folder)/\(name)", &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        }
        guard !files.isEmpty else {
            throw MockServerError(
                kind: .invalidPath,
                description: "the folder of fixtures \(folder) has no files, such as users/{id}.GET.json")
        }
        let base = prefix.isEmpty || prefix.hasPrefix("/") ? prefix : "/" + prefix
        let routes = files.map { (name: $0, fixture: Fixture($0)) }
        // The route that is added last wins.
        for (name, fixture) in routes.sorted(by: { $0.fixture < $1.fixture }) {
            route(fixture.method, "\(base)/\(fixture.path)") { _ in
                let body = try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))
                return .data(body, contentType: MediaType.forFileName(name) ?? "application/octet-stream")
            }
        }
    }

    /// What the name of a fixture says.
    private struct Fixture: Comparable {
        let path: String
        /// `*` for a name without one.
        let method: String

        init(_ name: String) {
            var parts = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            if parts.count > 1, parts.last == "json" { parts.removeLast() }
            let word = parts.count > 1 ? parts.last : nil
            if let word, !word.isEmpty, word.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == 0x2D }) {
                method = word
                parts.removeLast()
            } else {
                method = "*"
            }
            path = parts.joined(separator: ".")
        }

        /// What is asked for later: fewer places, then any method.
        static func < (left: Self, right: Self) -> Bool {
            let (a, b) = (left.places, right.places)
            if a != b { return a > b }
            return (left.method == "*" ? 0 : 1, right.path) < (right.method == "*" ? 0 : 1, left.path)
        }

        private var places: Int { path.split(separator: "/").count { $0.hasPrefix("{") && $0.hasSuffix("}") } }
    }
}
