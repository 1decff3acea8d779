/// The bytes of a sealed message: a head that everybody can read and nobody change, and the encrypted content.
///
///     offset  bytes  what
///     0       4      "LATS"
///     4       1      version, 1
///     5       1      cipher: 1 AES-256-GCM, 2 ChaCha20-Poly1305
///     6       1      kind: 1 request, 2 reply
///     7       1+k    length of the key's name, and the name in UTF-8
///     …       1+m    length of the content's media type, and the type in ASCII; 0 for none
///     …       8      time in milliseconds since 1970, big-endian
///     …       12     nonce
///     …       12     of a reply: the nonce of the request it answers
///     …       n+16   the encrypted content and its tag
///
/// The associated data is the head as it stands, then the request's method, a line feed, its path and query as on the
/// wire, a line feed, and of a reply the status in digits and a line feed.
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
    /// Of a reply: the nonce of its request.
    package var requestNonce: [UInt8] = []

    /// A message of its parts.
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

    private static let mark = Array("LATS".utf8)
    private static let version: UInt8 = 1

    /// What a message is bound to beside its head.
    package struct Binding {
        let method: String
        let target: String
        /// Of a reply.
        let status: Int?

        package init(method: String, target: String, status: Int? = nil) {
            self.method = method
            self.target = target
            self.status = status
        }

        package var bytes: [UInt8] { Array("\(method)\n\(target)\n\(status.map { "\($0)\n" } ?? "")".utf8) }
    }

    /// The head. Names longer than 255 bytes are refused before.
    package var head: [UInt8] {
        var bytes = Self.mark + [Self.version, cipher.number, kind.rawValue]
        bytes.append(UInt8(truncatingIfNeeded: keyID.utf8.count))
        bytes += keyID.utf8
        bytes.append(UInt8(truncatingIfNeeded: contentType.utf8.count))
        bytes += contentType.utf8
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: time >> Int64(shift)))
        }
        return bytes + nonce + requestNonce
    }

    /// Takes a message apart.
    ///
    /// - Returns: the head's values, and how many bytes the head has.
    package static func parse(_ bytes: [UInt8]) throws(SealingFault) -> (message: SealedMessage, headCount: Int) {
        var rest = bytes[...]
        func take(_ count: Int) throws(SealingFault) -> [UInt8] {
            guard rest.count >= count else { throw .truncated }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        guard rest.starts(with: mark) else { throw .notSealed }
        rest = rest.dropFirst(mark.count)
        let fixed = try take(3)
        guard fixed[0] == version else { throw .version(fixed[0]) }
        guard let cipher = AuthenticatedCipher(number: fixed[1]), let kind = Kind(rawValue: fixed[2]) else {
            throw .malformed
        }
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
    /// The number in a message's head.
    var number: UInt8 {
        switch self {
        case .aes256GCM: 1
        case .chaCha20Poly1305: 2
        }
    }

    init?(number: UInt8) {
        guard let cipher = Self.allCases.first(where: { $0.number == number }) else { return nil }
        self = cipher
    }
}

/// Why a message cannot be opened. Nothing of its content is told.
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
        case .notSealed: "it is not sealed; does the server seal its replies, with this key?"
        case .truncated: "it is cut short"
        case .malformed: "its head is malformed"
        case .version(let version): "its version is \(version) and only 1 is known; update the side that is older"
        case .cipher: "it is sealed with the other cipher; both sides have to use the same sealer"
        case .kind: "it is a request where a reply is wanted, or the other way round"
        case .unknownKey(let name): "it is sealed with the key \"\(name)\", which this sealer does not have"
        case .authentication: "it was changed on the way, is for another request, or was sealed with another key"
        case .age(let seconds):
            "its time differs by \(seconds) s from this machine's clock; set both clocks, or allow more with maxAge"
        case .replayed: "it was received before"
        case .otherRequest: "it answers another request"
        }
    }
}

/// Remembers what was received, so that nothing is taken twice: a value, no clock of its own.
///
/// Messages whose time is too far from now are refused, so that only those of the last while have to be remembered.
/// When there are more of these than there is room for, the oldest are forgotten and everything as old as they is
/// refused.
package struct ReplayWindow: Sendable {
    /// How far a message's time may be from now, in milliseconds.
    let maxAge: Int64
    package let capacity: Int

    private var nonces: Set<[UInt8]> = []
    /// By time, oldest first, from ``start`` on.
    private var entries: [(time: Int64, nonce: [UInt8])] = []
    private var start = 0
    /// Messages of this time and before are refused.
    private var floor = Int64.min

    package init(maxAge: Int64, capacity: Int) {
        self.maxAge = maxAge
        self.capacity = max(1, capacity)
    }

    package var count: Int { entries.count - start }

    /// Whether a message of a time is young enough to be looked at.
    package func checkAge(_ time: Int64, now: Int64) throws(SealingFault) {
        let (difference, overflow) = now.subtractingReportingOverflow(time)
        guard !overflow, difference.magnitude <= UInt64(maxAge) else {
            throw .age(seconds: overflow ? .max : difference / 1000)
        }
        guard time > floor else { throw .replayed }
    }

    /// Takes in a message whose tag was right.
    package mutating func accept(_ nonce: [UInt8], time: Int64, now: Int64) throws(SealingFault) {
        try checkAge(time, now: now)
        guard nonces.insert(nonce).inserted else { throw .replayed }
        // Messages come nearly in the order of their times, so that the place is near the end.
        var index = entries.count
        while index > start, entries[index - 1].time > time { index -= 1 }
        entries.insert((time, nonce), at: index)
        forget(now: now)
    }

    private mutating func forget(now: Int64) {
        while start < entries.count, entries[start].time < now - maxAge { removeOldest() }
        while count > capacity {
            floor = max(floor, entries[start].time)
            removeOldest()
        }
        // All of the floor's time are refused, so that they need not be remembered.
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
