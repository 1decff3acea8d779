import CurlTransport
import FoundationEssentials
import Glibc
import LATTesting

/// A running proxy: squid, tinyproxy, dante or microsocks.
///
/// With a password, its user is "ada" and the password "love-lace".
package final class RealProxy: Sendable {
    private let reserved: ReservedPort
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    package var port: Int { reserved.port }

    /// - Parameter start: Makes the process from a port and a folder for files.
    private init(_ start: (Int, TemporaryDirectory) throws -> ChildProcess) async throws {
        directory = try TemporaryDirectory()
        // Proxies that are started by root change to another user.
        chmod(directory.path, 0o755)
        reserved = try ReservedPort()
        process = try start(reserved.port, directory)
        try await process.awaitListener(on: reserved.port)
    }

    /// Kills the proxy, even during a transfer. Its port then refuses connections.
    package func kill() async throws { try await process.kill(listeningOn: port) }

    /// Waits until the proxy listens on another port as well.
    package func awaitListener(on port: Int) async throws { try await process.awaitListener(on: port) }

    package static func tinyproxy(_ more: String = "") async throws -> RealProxy {
        try await RealProxy { port, directory in
            let path = try directory.write(
                Data("Port \(port)\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\n\(more)\n".utf8), to: "tinyproxy.conf")
            return try ChildProcess("tinyproxy", ["-d", "-c", path])
        }
    }

    package static func squid(_ more: (TemporaryDirectory) throws -> String) async throws -> RealProxy {
        try await RealProxy { port, directory in
            let text = """
                pid_filename none
                cache_log /dev/null
                access_log none
                cache deny all
                memory_cache_shared off
                shutdown_lifetime 0 seconds
                http_port 127.0.0.1:\(port)
                \(try more(directory))
                http_access deny all
                """
            let path = try directory.write(Data(text.utf8), to: "squid.conf")
            chmod(path, 0o644)
            return try ChildProcess("squid", ["-N", "-f", path, "-n", "lat\(port)"])
        }
    }

    /// squid with a password, by Basic or Digest.
    package static func squid(_ scheme: EngineConfiguration.ProxyAuthentication) async throws -> RealProxy {
        try await squid { directory in
            let digest = try directory.write(Data("ada:love-lace\n".utf8), to: "digest")
            let hash = try ChildProcess.run("openssl", ["passwd", "-apr1", "love-lace"], in: "/")
            let basic = try directory.write(Data("ada:\(hash)".utf8), to: "basic")
            for path in [digest, basic] { chmod(path, 0o644) }
            let program =
                scheme == .basic
                ? "auth_param basic program /usr/lib/squid/basic_ncsa_auth \(basic)"
                : "auth_param digest program /usr/lib/squid/digest_file_auth \(digest)\nauth_param digest realm test"
            return "\(program)\nacl known proxy_auth REQUIRED\nhttp_access allow known"
        }
    }

    /// - Parameter method: `none`, or `username`, which requires a user of this system.
    package static func dante(method: String = "none") async throws -> RealProxy {
        try await RealProxy { port, directory in
            let text = """
                logoutput: stderr
                internal: 127.0.0.1 port = \(port)
                external: lo
                clientmethod: none
                socksmethod: \(method)
                user.privileged: \(getuid() == 0 ? "root" : "nobody")
                user.unprivileged: nobody
                client pass { from: 127.0.0.0/8 to: 127.0.0.0/8 }
                socks pass { from: 127.0.0.0/8 to: 127.0.0.0/8 }
                """
            let path = try directory.write(Data(text.utf8), to: "danted.conf")
            chmod(path, 0o644)
            return try ChildProcess("danted", ["-f", path, "-p", directory.path(of: "pid")])
        }
    }

    package static func microsocks(_ more: [String] = []) async throws -> RealProxy {
        try await RealProxy { port, _ in
            try ChildProcess("microsocks", ["-i", "127.0.0.1", "-p", "\(port)"] + more)
        }
    }
}
