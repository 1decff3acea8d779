internal import Cryptography
package import FoundationEssentials

package enum RedisArgument: Sendable, ExpressibleByStringInterpolation {
    case text(String)
    case data(Data)
    case bytes([UInt8])
    case integer(Int64)

    package init(stringLiteral value: String) { self = .text(value) }
}

/// A command in the form that is sent: an array of byte strings (RESP).
package struct RedisCommand: Sendable {
    /// The command without its arguments, for errors.
    package let name: String
    let bytes: [UInt8]

    package init(_ name: String, _ arguments: [RedisArgument] = []) {
        self.name = name
        var bytes: [UInt8] = []
        bytes.reserveCapacity(arguments.reduce(32 + name.utf8.count) { $0 + 16 + $1.estimatedSize })
        bytes.append(arguments.count + 1, after: "*")
        bytes.append(bulk: name.utf8)
        for argument in arguments {
            switch argument {
            case .text(let text): bytes.append(bulk: text.utf8)
            case .data(let data): bytes.append(bulk: data)
            case .bytes(let array): bytes.append(bulk: array)
            case .integer(let number): bytes.append(bulk: String(number).utf8)
            }
        }
        self.bytes = bytes
    }
}

extension RedisArgument {
    fileprivate var estimatedSize: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .data(let data): data.count
        case .bytes(let bytes): bytes.count
        case .integer: 20
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ number: Int, after mark: Unicode.Scalar) {
        append(UInt8(ascii: mark))
        append(contentsOf: String(number).utf8)
        endLine()
    }

    fileprivate mutating func append(bulk: some Collection<UInt8>) {
        append(bulk.count, after: "$")
        append(contentsOf: bulk)
        endLine()
    }

    private mutating func endLine() {
        append(UInt8(ascii: "\r"))
        append(UInt8(ascii: "\n"))
    }
}

/// A Lua script, which Redis runs atomically.
///
/// A script names the keys that it uses in its `KEYS`, so that it also works on servers that check this. The scripts of
/// the cache are an exception: they also use the keys of an entry's generations and chunks (``FleetCacheScripts``). A
/// script returns numbers with a fraction as strings, because Redis truncates the fraction.
package struct RedisScript: Sendable {
    /// The name for errors.
    package let name: String
    package let source: String
    /// The name under which Redis keeps it: the SHA-1 of its source, in hexadecimal.
    let digest: String

    package init(_ name: String, _ source: String) {
        self.name = name
        self.source = source
        // Without libcrypto's SHA-1 the digest is unknown to Redis, so the source is sent.
        digest = (try? MessageDigest.of(Data(source.utf8), .sha1)).map { MessageDigest.hexadecimal($0) } ?? "0"
    }

    /// - Parameter isWhole: Whether the source is sent, not only its digest.
    func command(keys: [String], _ arguments: [RedisArgument], isWhole: Bool) -> RedisCommand {
        RedisCommand(
            isWhole ? "EVAL" : "EVALSHA",
            [.text(isWhole ? source : digest), .integer(Int64(keys.count))] + keys.map { .text($0) } + arguments)
    }
}
