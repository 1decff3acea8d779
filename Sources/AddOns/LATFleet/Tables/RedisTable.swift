internal import FoundationEssentials
public import LATNetworking

extension DomainTable.Source {
    /// Reads a table from a key of a fleet's Redis. Changes are pushed to all processes, usually within milliseconds.
    ///
    /// ```swift
    /// let fleet = try Fleet(url: "rediss://app:secret@redis.example.org")
    /// configuration.domains = try await DomainTable(from: .redis(fleet, key: "domains"))
    /// ```
    ///
    /// `lat domains push FILE --fleet URL` writes it. Revisions only grow: an older one, as after a loss of data, is reported
    /// and not used. The signature covers the revision, so nobody can bring an old table back.
    ///
    /// - Parameters:
    ///   - fleet: the fleet whose Redis has the table.
    ///   - key: the name of the table, which follows the fleet's prefix. Default `domains`.
    ///   - every: the pause between two checks, with 20 % of jitter; a message of the Redis causes one at once. Default 30 s.
    ///   - publicKey: an Ed25519 key (RFC 8032) in PEM or as base64 of its 32 bytes; then only a signed table is used, as
    ///     `lat domains push --sign` signs it. Default `nil`.
    ///   - copy: where the last good version is kept. Default ``Copy/standard``.
    ///   - files: the folder of the files that rows may name. Default `nil`: rows name none.
    public static func redis(
        _ fleet: Fleet, key: String = "domains", every: Duration = .seconds(30), publicKey: String? = nil,
        copy: Copy = .standard, files: String? = nil
    ) -> Self {
        let feed = RedisFeed(fleet, key: key, interval: every, publicKey: publicKey, filesFolder: files)
        return Self(feed, copy: copy)
    }
}

/// A table on the Redis of a fleet, as managers follow it.
struct RedisFeed: TableFeed {
    let interval: Duration
    let publicKey: String?
    let filesFolder: String?
    private let fleet: Fleet
    private let table: FleetTable
    private let followerName = FleetTable.newFollowerName()

    init(_ fleet: Fleet, key: String, interval: Duration, publicKey: String?, filesFolder: String?) {
        self.fleet = fleet
        table = FleetTable(fleet, key)
        self.interval = max(interval, .milliseconds(100))
        self.publicKey = publicKey
        self.filesFolder = filesFolder
    }

    var name: String { "\(fleet.configuration) \(table.key)" }

    func tableName(at revision: String) -> String { "\(table.key)@\(revision)" }

    func signedHead(of revision: String) -> [UInt8] {
        FleetTable.signedHead(name: table.name, revision: Int64(revision) ?? 0)
    }

    func subscribe(_ onChange: @escaping @Sendable () -> Void) -> (any Sendable)? {
        fleet.redis.subscribe(table.channel) { message in
            if message != .interrupted { onChange() }
        }
    }

    func read(after known: String?, within limit: Duration) async throws(NetworkError) -> TableReading {
        if let problem = FleetTable.problem(ofName: table.name) { throw .invalidRequest(problem) }
        let known = known.flatMap { Int64($0) }
        let end = ContinuousClock.now + limit
        let found: FleetTable.Found
        do throws(FleetError) {
            // Also waits for a server that loads its data.
            try await fleet.connect(within: limit)
            found = try await table.read(unless: known, within: max(.milliseconds(1), end - ContinuousClock.now))
        } catch {
            throw NetworkError(
                Self.kind(of: error), message: "the table \(name) cannot be read: \(error)", underlying: error)
        }
        switch found {
        case .unchanged: return .unchanged
        case .nothing:
            let key = table.name == "domains" ? "" : " --key \(table.name)"
            throw NetworkError(
                .unknownName,
                message: "there is no table \(name); push one with lat domains push FILE --fleet URL\(key)")
        case .unusable(let problem, _): return .refused(.invalidRequest("the table \(name) \(problem)"))
        case .version(let version):
            if let known, version.revision < known {
                let advice = known < .max ? "push it again with --revision \(known + 1)" : "push it under another --key"
                return .refused(
                    .invalidRequest(
                        "the table \(name) has revision \(version.revision), but revision \(known) is in use and revisions "
                            + "only grow; \(advice)"))
            }
            return .version(
                TableVersion(
                    bytes: version.bytes, revision: "\(version.revision)", signature: version.signature,
                    note: version.note))
        }
    }

    func report(_ use: TableUse) async {
        guard let revision = Int64(use.revision) else { return }
        let following = TableFollowing(
            name: "\(followerName)-\(use.follower)", revision: revision, refusal: use.refusal?.message)
        // The report is only displayed, so its failure is ignored.
        try? await table.report(following, every: interval, isFirst: use.isFirst)
    }

    private static func kind(of error: FleetError) -> NetworkError.Kind {
        switch error.kind {
        case .configuration: .invalidRequest
        case .unsupported: .unsupported
        case .tls(let reason): .tls(reason)
        case .authentication, .permission: .authentication
        case .cancelled: .cancelled
        case .shutDown: .shutDown
        case .protocolViolation, .refused: .protocolViolation
        default: .connect
        }
    }
}

extension Fleet {
    /// Whether this build can speak to a Redis.
    package static var isAvailable: Bool { RedisReader.isAvailable }
}
