import CLibcurl

/// The sessions of TLS that later handshakes take up again (RFC 5246 §7.3, RFC 8446 §2.2), the newest of each host.
///
/// libcurl's own cache has room for 8 hosts (25 in its version 8). Belongs to the engine's thread, as all that OpenSSL's
/// callbacks touch.
final class TLSSessions {
    /// Whose sessions are kept: the server of a URL, or the proxy on the way to it.
    typealias Peer = String

    private struct Entry {
        let session: UnsafeMutableRawPointer
        let number: Int
    }

    /// With the certificates of its server a session takes some 10 KB.
    private static let limit = 1_024

    private let library: UnsafePointer<lat_openssl>
    private var entries: [Peer: Entry] = [:]
    private var count = 0
    /// What the sessions were verified with. A session is not verified again, so it ends with the trust in its server.
    private(set) var trust: CertificateStore?

    init?() {
        guard let library = OpenSSL.shared else { return nil }
        self.library = library
    }

    deinit { removeAll() }

    /// Forgets the sessions of servers that were trusted because of other certificates.
    func setTrust(_ trust: CertificateStore?) {
        guard self.trust !== trust else { return }
        removeAll()
        self.trust = trust
    }

    /// Keeps a session in place of the one before; its reference is the store's from here on.
    func insert(_ session: UnsafeMutableRawPointer, of peer: Peer) {
        if entries.count >= Self.limit, entries[peer] == nil { removeOldest() }
        count += 1
        if let old = entries.updateValue(Entry(session: session, number: count), forKey: peer) {
            library.pointee.SSL_SESSION_free(old.session)
        }
    }

    /// Has a handshake that begins take up the session of its peer, when there is one.
    func resume(_ ssl: UnsafeMutableRawPointer, with peer: Peer) {
        guard let entry = entries[peer] else { return }
        _ = library.pointee.SSL_set_session(ssl, entry.session)
    }

    /// A quarter at once, so that the search for the oldest is rare.
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
