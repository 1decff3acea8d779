public import FoundationEssentials
import HTTPCore
import Glibc
import Platform

extension OAuth2 {
    /// An access token with what is known about it (RFC 6749 §5.1). It is a secret, and its description does not show it.
    public struct Token: Codable, Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
        CustomReflectable
    {
        /// The access token.
        public var access: String
        /// The refresh token; `nil` for none.
        public var refresh: String?
        /// When the server gave it.
        public var issued: Date
        /// When it ends; `nil` if the server does not say.
        public var expires: Date?
        /// What it allows; `nil` if the server does not say.
        public var scopes: [String]?

        /// Creates a token.
        public init(
            access: String, refresh: String? = nil, issued: Date = .now, expires: Date? = nil, scopes: [String]? = nil
        ) {
            self.access = access
            self.refresh = refresh
            self.issued = issued
            self.expires = expires
            self.scopes = scopes
        }

        /// When the token ends, and whether it can be renewed.
        public var description: String {
            let end = expires.map { "until \(HTTPDate.format($0))" } ?? "without a known end"
            return "a token \(end)" + (refresh == nil ? "" : " with a refresh token")
        }

        /// When the token ends, and whether it can be renewed.
        public var debugDescription: String { description }

        /// Nothing that a dump would show.
        public var customMirror: Mirror { Mirror(self, children: []) }

        /// Whether the token has not ended, and does not end within the leeway.
        func isFresh(at now: Date, leeway: Duration) -> Bool {
            guard let expires else { return true }
            let lifetime = max(0, expires.timeIntervalSince(issued))
            return expires.timeIntervalSince(now) > min(leeway.inSeconds, lifetime / 4)
        }

        /// Whether both are the same for the server. The times are not compared: a file keeps them less exactly.
        func isSame(as other: Token?) -> Bool { access == other?.access && refresh == other?.refresh }

        func hasEnded(at now: Date) -> Bool { expires.map { $0 <= now } ?? false }
    }

    /// Keeps a token from one run of a program to the next.
    public protocol TokenStore: Sendable {
        /// The stored token; `nil` for none.
        ///
        /// - Throws: any error; no token is got or used then.
        func token() async throws -> Token?

        /// Replaces the stored token; `nil` removes it. It is stored when this returns.
        ///
        /// - Throws: any error; the token is then kept in memory, with a warning.
        func store(_ token: Token?) async throws

        /// Runs work while no other process that shares the store does, so that no two of them use one refresh token.
        /// Default: runs it at once.
        func exclusively(_ work: @Sendable () async throws -> Void) async throws
    }

    /// The store of a user's token that the settings name.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` where it cannot be used.
    public static func store(for settings: Settings) throws(NetworkError) -> any TokenStore {
        switch settings.store {
        case .file: try FileStore.standard(for: settings)
        case .secretService: try SecretStore(for: settings)
        }
    }

    /// Keeps a token in a file that only its owner may read and write (mode 600), and that is replaced as a whole.
    ///
    /// Processes that share the file take turns in renewing the token, with a lock on `<path>.lock`. A file that other users
    /// may read is restricted to its owner; one that they may write, or that belongs to someone else, is refused.
    public struct FileStore: TokenStore {
        /// The path of the file.
        public let path: String

        /// The largest file that is read.
        private static let limit = 1 << 20

        /// Creates a store. The file and its folders are made when a token is stored.
        public init(_ path: String) { self.path = path }

        /// The file of a client, which `lat login` uses by default: `$XDG_STATE_HOME/latnetworking/tokens`, or
        /// `~/.local/state/latnetworking/tokens`.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` for a process without a home.
        public static func standard(for settings: Settings) throws(NetworkError) -> FileStore {
            let environment = ProcessInfo.processInfo.environment
            guard let folder = UserFolder.state.path(environment: environment, program: "latnetworking") else {
                throw NetworkError(
                    .storage, message: "there is no folder for tokens; set HOME or XDG_STATE_HOME to an absolute path")
            }
            return FileStore("\(folder)/tokens/\(settings.fileName).json")
        }

        /// Reads the file.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` for a file that cannot be trusted or read.
        public func token() async throws -> Token? {
            do {
                guard let bytes = try OwnFile.bytes(of: path, limit: Self.limit) else { return nil }
                try restrict()
                return try Self.decoder.decode(Token.self, from: Data(bytes))
            } catch let refusal as OwnFile.Refusal {
                throw failure(refusal.reason)
            } catch is DecodingError {
                throw failure("is not one of tokens; remove it, and sign in again")
            }
        }

        /// Takes the permissions of other users away.
        private func restrict() throws {
            var status = stat()
            guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return }
            guard chmod(path, 0o600) == 0 else {
                throw failure("may be read by other users: \(SystemError().text); run chmod 600 as its owner")
            }
        }

        /// Replaces the file, or removes it.
        ///
        /// - Throws: ``NetworkError/Kind/storage``.
        public func store(_ token: Token?) async throws {
            guard let token else {
                guard unlink(path) == 0 || errno == ENOENT else {
                    throw failure("cannot be removed: \(SystemError().text)")
                }
                return AtomicFile.synchronizeFolder(PathParts(path).folder)
            }
            let data = try Self.encoder.encode(token)
            do throws(SystemError) {
                try makeFolder()
                try AtomicFile.write(data, to: path, isShared: true, followsLinks: false)
            } catch {
                throw failure("cannot be written: \(error.text)")
            }
        }

        /// How long the lock of another process is waited for. A renewal has it for as long as it takes.
        var lockTimeout = Duration.seconds(60)

        /// Runs work with the lock of the file.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` if the lock cannot be made, or another process has it for a minute; what the
        ///   work throws.
        public func exclusively(_ work: @Sendable () async throws -> Void) async throws {
            do throws(SystemError) { try makeFolder() } catch { throw failure("cannot be locked: \(error.text)") }
            let descriptor = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else { throw failure("cannot be locked: \(SystemError().text)") }
            // Closing releases the lock.
            defer { close(descriptor) }
            let end = ContinuousClock.now + lockTimeout
            while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
                guard errno == EWOULDBLOCK || errno == EINTR else {
                    throw failure("cannot be locked: \(SystemError().text)")
                }
                guard ContinuousClock.now < end else {
                    throw failure("is locked by another process, which may have been stopped; let it go on, or end it")
                }
                try await Task.sleep(for: .milliseconds(20))
            }
            try await work()
        }

        private func makeFolder() throws(SystemError) { try PathParts(path).makeFolder(mode: 0o700) }

        private func failure(_ reason: String) -> NetworkError {
            NetworkError(.storage, message: "the token file \"\(path)\" \(reason)")
        }

        static var encoder: JSONEncoder {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = .secondsSince1970
            return encoder
        }

        static var decoder: JSONDecoder {
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = .secondsSince1970
            return decoder
        }
    }
}

extension OAuth2.TokenStore {
    /// Runs the work at once.
    public func exclusively(_ work: @Sendable () async throws -> Void) async throws { try await work() }
}
