/// A URL of a server on a Unix domain socket: `unix:///run/docker.sock:/v1.44/containers/json`.
///
/// The path of the socket ends at the first colon, after which the path and the query of HTTP follow. A colon, a question mark
/// or a number sign in the path of the socket is percent-encoded. A URL without the second part has the path `/`.
package struct UnixAddress: Hashable, Sendable {
    /// The path of the socket, decoded.
    package let socketPath: String
    /// Path, query and fragment of HTTP, as they are written.
    package let target: String
    /// Scheme and socket as they are written: sockets with different texts are different origins.
    package let origin: String

    /// A reason why a text cannot be used, worded as the end of a sentence that begins with the URL.
    package struct Problem: Error {
        package var reason: String
        package var suggestion: String?
    }

    /// Whether a text is meant as such a URL.
    package static func isOne(_ url: String) -> Bool { isOne(url[...]) }

    /// The same for a part of a text.
    package static func isOne(_ url: Substring) -> Bool {
        url.utf8.first.map { $0 | 0x20 } == UInt8(ascii: "u") && url.prefix(5).lowercased() == "unix:"
    }

    /// Reads a URL.
    ///
    /// - Throws: ``Problem`` for a text that names no socket by its absolute path.
    package init(_ url: String) throws(Problem) {
        guard Self.isOne(url) else { throw Problem(reason: "does not begin with unix://") }
        let rest = url.dropFirst(5)
        guard rest.hasPrefix("///"), !rest.hasPrefix("////") else {
            var path = rest.drop { $0 == "/" }
            // A password, which may have any character, must not be shown.
            if let user = path.lastIndex(of: "@") {
                path = path[path.index(after: user)...].drop { $0 == "/" }
                throw Problem(
                    reason: "has a user, but a socket has none", suggestion: path.isEmpty ? nil : "unix:///\(path)")
            }
            let slashes = rest.count - path.count
            let host = path.prefix { $0 != "/" && $0 != ":" }
            let reason =
                slashes == 2
                ? "has the host \"\(URLText.visible(String(host)))\", but a socket is on this machine"
                : "has \(slashes) \(slashes == 1 ? "slash" : "slashes") after unix:, where three belong"
            throw Problem(reason: reason, suggestion: path.isEmpty ? nil : "unix:///\(path)")
        }
        let written = rest.dropFirst(2).prefix { $0 != ":" && $0 != "?" && $0 != "#" }
        socketPath = written.percentDecoded()
        guard socketPath.last != "/" else { throw Problem(reason: "names a folder, not a socket") }
        guard !socketPath.utf8.contains(0) else { throw Problem(reason: "has a NUL in the path of its socket") }
        let size = socketPath.utf8.count
        guard size < 108 else {
            throw Problem(reason: "has a socket with a path of \(size) bytes, of which Linux allows 107")
        }
        var target = rest.dropFirst(2 + written.count)
        if target.first == ":" {
            target.removeFirst()
            guard target.first.map({ "/?#".contains($0) }) ?? true else {
                throw Problem(
                    reason:
                        "has no slash after the colon, where the path of HTTP begins; a colon in the path of a socket "
                        + "is written %3A",
                    suggestion: "unix://\(written):/\(target)")
            }
        }
        self.target = target.first == "/" ? String(target) : "/" + target
        origin = "unix://\(written)"
    }

    /// A URL as its server sees it: that of a socket as ``url``, and any other unchanged.
    package static func seen(_ url: String) -> String { isOne(url) ? (try? UnixAddress(url))?.url ?? url : url }

    /// The URL of the same request over TCP, whose host is in the field `Host`, as of curl with `--unix-socket`.
    package var url: String { "http://localhost" + target }

    /// The URL of another path and query on this socket.
    package func at(_ target: some StringProtocol) -> String { "\(origin):\(target)" }
}
