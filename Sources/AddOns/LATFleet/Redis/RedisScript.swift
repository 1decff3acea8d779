internal import Cryptography
internal import FoundationEssentials

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
