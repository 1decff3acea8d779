import Glibc
internal import HTTPCore
import Synchronization

/// The scheme and authority of a parsed target, reused for URLs that begin with the same bytes.
struct TargetBase: Sendable {
    let target: Target
    /// The beginning of the URLs, up to the slash of the path.
    let text: [UInt8]
    /// The same beginning in libcurl's spelling.
    let prefix: String

    /// Makes a base; `nil` when the URL is not of the form `scheme://authority/path`.
    init?(_ target: Target, text url: String) {
        guard let end = Self.authorityEnd(in: url.utf8), let ownEnd = Self.authorityEnd(in: target.url.utf8) else {
            return nil
        }
        self.target = target
        text = Array(url.utf8[..<end])
        prefix = String(target.url[..<ownEnd])
    }

    private static func authorityEnd(in url: String.UTF8View) -> String.Index? {
        guard let colon = url.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let slashes = url[url.index(after: colon)...].prefix { $0 == UInt8(ascii: "/") }
        guard slashes.count == 2 else { return nil }
        let end = url[slashes.endIndex...].firstIndex {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
        }
        return end.flatMap { url[$0] == UInt8(ascii: "/") ? $0 : nil }
    }

    /// Returns the target of a URL that differs from this one in path and query only, if parsing would not change
    /// these; `nil` otherwise.
    func target(for url: String) -> Target? {
        guard Self.covers(url, text) else { return nil }
        return url.utf8.withContiguousStorageIfAvailable { bytes in
            Target(self, rest: UnsafeBufferPointer(rebasing: bytes[text.count...]))
        } ?? nil
    }

    /// Whether a URL certainly has the scheme and authority of this beginning, and a path and query that parsing would not change.
    private static func covers(_ url: String, _ text: [UInt8]) -> Bool {
        begins(url, with: text)
            && url.utf8.withContiguousStorageIfAvailable {
                isUnchangedByParsing(UnsafeBufferPointer(rebasing: $0[text.count...]))
            } ?? false
    }

    /// Whether a URL has the scheme and authority of this beginning, and a path.
    static func begins(_ url: String, with text: [UInt8]) -> Bool {
        url.utf8.withContiguousStorageIfAvailable { bytes in
            guard let start = bytes.baseAddress, bytes.count > text.count, bytes[text.count] == UInt8(ascii: "/") else {
                return false
            }
            return memcmp(start, text, text.count) == 0
        } ?? false
    }

    /// How many are kept.
    static let limit = 8

    /// Whether parsing certainly leaves a path and query unchanged: nothing to encode, no dot segments (`.`, `..`), no
    /// percent-encoding, whose case libcurl may change, no fragment.
    static func isUnchangedByParsing(_ rest: UnsafeBufferPointer<UInt8>) -> Bool {
        guard rest.first == UInt8(ascii: "/"), rest.last != UInt8(ascii: "?") else { return false }
        var isInQuery = false
        var previous: UInt8 = 0
        for byte in rest {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "="),
                UInt8(ascii: "&"), UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "+"):
                break
            case UInt8(ascii: "/"):
                if previous == UInt8(ascii: "/") { return false }
            case UInt8(ascii: "."):
                if previous == UInt8(ascii: "/"), !isInQuery { return false }
            case UInt8(ascii: "?"):
                if isInQuery { return false }
                isInQuery = true
            default: return false
            }
            previous = byte
        }
        return true
    }
}

/// A cache of the targets used last, by the text of their URLs.
final class TargetCache: Sendable {
    /// Two generations. A target that is used moves to the young one; when that is full, it replaces the old one. The
    /// effect is close to that of an LRU list and costs one dictionary look-up per request.
    private struct State {
        var young: [ExactText: Target] = [:]
        var old: [ExactText: Target] = [:]
        /// The size of the texts in `young`, in bytes.
        var youngBytes = 0
        /// The scheme and authority of the targets parsed last.
        var bases: [TargetBase] = []
    }

    /// The maximum number of targets in a generation.
    private let capacity: Int
    /// The maximum size of the texts in a generation, in bytes.
    private let byteCapacity: Int
    private let state = Mutex(State())

    init(capacity: Int, byteCapacity: Int = 256 << 10) {
        self.capacity = capacity
        self.byteCapacity = byteCapacity
    }

    func target(for url: String) throws(NetworkError) -> Target {
        let text = ExactText(url)
        let (known, bases) = state.withLock { state -> (Target?, [TargetBase]) in
            if let target = state.young[text] { return (target, []) }
            guard let target = state.old[text] else { return (nil, state.bases) }
            insert(target, for: text, into: &state)
            return (target, [])
        }
        if let known { return known }
        for base in bases {
            guard let target = base.target(for: url) else { continue }
            state.withLock { insert(target, for: text, into: &$0) }
            return target
        }
        let target = try Target(url)
        let base = TargetBase(target, text: url)
        state.withLock { state in
            insert(target, for: text, into: &state)
            if let base { insert(base, into: &state) }
        }
        return target
    }

    /// The number of targets and the bytes of their texts, for tests.
    var size: (count: Int, bytes: Int) {
        state.withLock { state in
            let texts = Array(state.young.keys) + Array(state.old.keys)
            return (texts.count, texts.reduce(0) { $0 + $1.text.utf8.count })
        }
    }

    private func insert(_ target: Target, for url: ExactText, into state: inout State) {
        let bytes = url.text.utf8.count
        // A longer text would evict too many others.
        guard bytes <= byteCapacity / 8 else { return }
        if state.young.count >= capacity || state.youngBytes + bytes > byteCapacity {
            state.old = state.young
            state.young = [:]
            state.youngBytes = 0
        }
        if state.young.updateValue(target, forKey: url) == nil { state.youngBytes += bytes }
    }

    private func insert(_ base: TargetBase, into state: inout State) {
        guard !state.bases.contains(where: { $0.text == base.text }) else { return }
        if state.bases.count == TargetBase.limit { state.bases.removeFirst() }
        state.bases.append(base)
    }
}
