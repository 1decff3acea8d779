/// The format of a sealed message: a head that is readable and authenticated, and the encrypted content.
///
///     offset  bytes  field
///     0       4      "LATS"
///     4       1      version, 1
///     5       1      cipher: 1 AES-256-GCM, 2 ChaCha20-Poly1305
///     6       1      kind: 1 request, 2 reply
///     7       1+k    length of the key's name, and the name in UTF-8
///     …       1+m    length of the content's media type, and the type in ASCII; 0 for none
///     …       8      time in milliseconds since 1970, big-endian
///     …       12     nonce
///     …       12     reply only: the nonce of its request
///     …       n+16   the encrypted content and its tag
///
/// The associated data is the head, then the request's method, a line feed, its path and query as on the wire, and a line
/// feed. For a reply the status in digits and a line feed follow.
package struct SealedMessage: Equatable {
    package enum Kind: UInt8 {
        case request = 1
        case reply = 2
    }

    package var cipher: AuthenticatedCipher
    package var kind: Kind
    package var keyID: String
    package var contentType: String
    /// Milliseconds since 1970.
    package var time: Int64
    package var nonce: [UInt8]
    /// The nonce of the request; empty except in a reply.
    package var requestNonce: [UInt8] = []

    package init(
        cipher: AuthenticatedCipher, kind: Kind, keyID: String, contentType: String, time: Int64, nonce: [UInt8],
        requestNonce: [UInt8] = []
    ) {
        self.cipher = cipher
        self.kind = kind
        self.keyID = keyID
        self.contentType = contentType
        self.time = time
        self.nonce = nonce
        self.requestNonce = requestNonce
    }

    private static let magic = Array("LATS".utf8)
    private static let version: UInt8 = 1

    /// The parts of the exchange that a message is bound to, in addition to its head.
    package struct Binding {
        let method: String
        let target: String
        /// The status of a reply; `nil` for a request.
        let status: Int?

        package init(method: String, target: String, status: Int? = nil) {
            self.method = method
            self.target = target
            self.status = status
        }

        package var bytes: [UInt8] { Array("\(method)\n\(target)\n\(status.map { "\($0)\n" } ?? "")".utf8) }
    }

    /// The bytes of the head. The caller rejects names longer than 255 bytes.
    package var head: [UInt8] {
        var bytes = Self.magic + [Self.version, cipher.number, kind.rawValue]
        bytes.append(UInt8(truncatingIfNeeded: keyID.utf8.count))
        bytes += keyID.utf8
        bytes.append(UInt8(truncatingIfNeeded: contentType.utf8.count))
        bytes += contentType.utf8
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: time >> Int64(shift)))
        }
        return bytes + nonce + requestNonce
    }

    /// Returns the values of a message's head, and the length of the head in bytes.
    package static func parse(_ bytes: [UInt8]) throws(SealingFault) -> (message: SealedMessage, headCount: Int) {
        var rest = bytes[...]
        func take(_ count: Int) throws(SealingFault) -> [UInt8] {
            guard rest.count >= count else { throw .truncated }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        guard rest.starts(with: magic) else { throw .notSealed }
        rest = rest.dropFirst(magic.count)
        let fixed = try take(3)
        guard fixed[0] == version else { throw .version(fixed[0]) }
        guard let cipher = AuthenticatedCipher.allCases.first(where: { $0.number == fixed[1] }),
            let kind = Kind(rawValue: fixed[2])
        else { throw .malformed }
        let keyID = String(validating: try take(Int(try take(1)[0])), as: UTF8.self)
        let contentType = String(validating: try take(Int(try take(1)[0])), as: UTF8.self)
        guard let keyID, let contentType, contentType.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else {
            throw .malformed
        }
        let time = try take(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let nonce = try take(AuthenticatedCipher.nonceByteCount)
        let requestNonce = kind == .reply ? try take(AuthenticatedCipher.nonceByteCount) : []
        guard rest.count >= AuthenticatedCipher.tagByteCount else { throw .truncated }
        let message = SealedMessage(
            cipher: cipher, kind: kind, keyID: keyID, contentType: contentType, time: time, nonce: nonce,
            requestNonce: requestNonce)
        return (message, bytes.count - rest.count)
    }
}

extension AuthenticatedCipher {
    /// The number of the cipher in the head of a message.
    var number: UInt8 {
        switch self {
        case .aes256GCM: 1
        case .chaCha20Poly1305: 2
        }
    }
}

/// The reason why a message cannot be opened. It contains nothing of the message's content.
package enum SealingFault: Error, Equatable, CustomStringConvertible {
    case notSealed
    case truncated
    case malformed
    case version(UInt8)
    case cipher
    case kind
    case unknownKey(String)
    case authentication
    case age(seconds: Int64)
    case replayed
    case otherRequest

    package var description: String {
        switch self {
        case .notSealed: "it is not sealed; does the other side seal what it sends?"
        case .truncated: "it is truncated"
        case .malformed: "its head is malformed"
        case .version(let version): "its version is \(version) and only 1 is known; update the side that is older"
        case .cipher: "it is sealed with the other cipher; both sides have to use the same sealer"
        case .kind: "it is a request where a reply is expected, or the other way round"
        case .unknownKey(let name): "it is sealed with the key \"\(name)\", which this sealer does not have"
        case .authentication: "it was changed in transit, belongs to another request, or was sealed with another key"
        case .age(let seconds):
            "its time differs by \(seconds) s from this machine's clock; set both clocks, or allow more with maxAge"
        case .replayed: "it was received before"
        case .otherRequest: "it is the reply to another request"
        }
    }
}

/// Detects replayed messages. The caller passes the time.
///
/// Messages whose time is too far from now are rejected, so only the nonces of recent messages are kept, and of those at
/// most ``capacity``. Messages that are not newer than a dropped nonce are rejected.
package struct ReplayWindow: Sendable {
    /// The largest difference between a message's time and now, in milliseconds.
    let maxAge: Int64
    package let capacity: Int

    private var nonces: Set<[UInt8]> = []
    /// The messages from ``start`` on, oldest first.
    private var entries: [(time: Int64, nonce: [UInt8])] = []
    private var start = 0
    /// Messages of this time and before are rejected.
    private var floor = Int64.min

    package init(maxAge: Int64, capacity: Int) {
        self.maxAge = maxAge
        self.capacity = max(1, capacity)
    }

    package var count: Int { entries.count - start }

    /// Throws when a message of this time is too old, too far in the future, or not newer than a dropped nonce.
    package func checkAge(_ time: Int64, now: Int64) throws(SealingFault) {
        let (difference, overflow) = now.subtractingReportingOverflow(time)
        guard !overflow, difference.magnitude <= UInt64(maxAge) else {
            throw .age(seconds: overflow ? .max : difference / 1000)
        }
        guard time > floor else { throw .replayed }
    }

    /// Records an authenticated message. Throws like ``checkAge(_:now:)``, and when the message was received before.
    package mutating func accept(_ nonce: [UInt8], time: Int64, now: Int64) throws(SealingFault) {
        try checkAge(time, now: now)
        guard nonces.insert(nonce).inserted else { throw .replayed }
        // Messages arrive nearly in the order of their times, so the search from the end is short.
        var index = entries.count
        while index > start, entries[index - 1].time > time { index -= 1 }
        entries.insert((time, nonce), at: index)
        forget(now: now)
    }

    private mutating func forget(now: Int64) {
        // `floor` never falls, so that no message is accepted again after the clock is set back.
        while start < entries.count, entries[start].time < now - maxAge || count > capacity {
            floor = max(floor, entries[start].time)
            removeOldest()
        }
        // Messages up to `floor` are rejected anyway, so their nonces are not needed.
        while start < entries.count, entries[start].time <= floor { removeOldest() }
        if start > 1024, start > entries.count / 2 {
            entries.removeFirst(start)
            start = 0
        }
    }

    private mutating func removeOldest() {
        nonces.remove(entries[start].nonce)
        start += 1
    }
}
