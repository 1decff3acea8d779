import CLibcurl

/// The newest TLS session of each host, which later handshakes resume (RFC 5246 §7.3, RFC 8446 §2.2).
///
/// libcurl's own cache holds 8 hosts (25 in libcurl 8). Belongs to the engine's thread, on which OpenSSL's callbacks run.
final class TLSSessions {
    /// The peer of a session: the server of a URL, or its proxy.
    typealias Peer = String

    private struct Entry {
        let session: UnsafeMutableRawPointer
        let number: Int
    }

    /// The maximum number of sessions. One takes some 10 KB, since it holds the server's certificates.
    private static let limit = 1_024

    private let library: UnsafePointer<lat_openssl>
    private var entries: [Peer: Entry] = [:]
    private var count = 0
    /// The certificates that verified the sessions' servers. A resumed session is not verified again, so sessions must
    /// not outlive this trust.
    private(set) var trust: CertificateStore?

    init?() {
        guard let library = OpenSSL.shared else { return nil }
        self.library = library
    }

    deinit { removeAll() }

    /// Sets the trusted certificates. Sessions that were verified with others are dropped.
    func setTrust(_ trust: CertificateStore?) {
        guard self.trust !== trust else { return }
        removeAll()
        self.trust = trust
    }

    /// Stores a session in place of its peer's earlier one, and takes over the caller's reference.
    func insert(_ session: UnsafeMutableRawPointer, of peer: Peer) {
        if entries.count >= Self.limit, entries[peer] == nil { removeOldest() }
        count += 1
        if let old = entries.updateValue(Entry(session: session, number: count), forKey: peer) {
            library.pointee.SSL_SESSION_free(old.session)
        }
    }

    /// Lets a handshake that begins resume its peer's session, if there is one.
    func resume(_ ssl: UnsafeMutableRawPointer, with peer: Peer) {
        guard let entry = entries[peer] else { return }
        _ = library.pointee.SSL_set_session(ssl, entry.session)
    }

    /// Removes a quarter at once, so that the search for the oldest is rare.
    private func removeOldest() {
        let numbers = entries.values.map(\.number).sorted()
        let last = numbers[numbers.count / 4]
        for (peer, entry) in entries where entry.number <= last {
            library.pointee.SSL_SESSION_free(entry.session)
            entries[peer] = nil
        }
    }

    private func removeAll() {
        for entry in entries.values { library.pointee.SSL_SESSION_free(entry.session) }
        entries = [:]
    }
}
