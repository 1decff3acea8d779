internal import FoundationEssentials
internal import Glibc
internal import LATNetworking
internal import Synchronization

/// The labels that identify a series.
struct SeriesKey {
    /// The status of the series that counts the starts of requests by origin and method. The other labels are not known
    /// at the start.
    static let started: Int16 = -1
    /// The status of the series that counts the connections of an origin that were closed.
    static let closed: Int16 = -2

    /// The index of the method in ``Series/methods``; the last is for all others.
    var method: UInt8
    var version: UInt8 = 0
    /// 0 for a request without a response.
    var status: Int16
    /// The kind of the failure; empty for none.
    var error = ""
    /// The path of the row; empty for none.
    var template = ""

    @inline(__always) func hash(_ origin: Origin) -> Int {
        var hash = origin.hash
        for byte in template.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        hash ^= UInt64(method) << 48 | UInt64(version) << 40 | UInt64(UInt16(bitPattern: status)) << 16
        hash = (hash ^ UInt64(error.utf8.count)) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: hash >> 40)
    }

    /// Scheme, host and port of a URL, without its user.
    struct Origin {
        let bytes: UnsafeBufferPointer<UInt8>
        let hash: UInt64

        /// `nil` for a URL that names a user, and for one whose origin does not end within its first 512 bytes.
        init?(of url: UnsafeBufferPointer<UInt8>) {
            var end = min(url.count, 512)
            guard let start = url.baseAddress.map({ UnsafeRawPointer($0) }) else { return nil }
            @inline(__always) func first(_ character: Unicode.Scalar, from index: Int = 0) -> Int? {
                memchr(start + index, Int32(character.value), end - index).map { UnsafeRawPointer($0) - start }
            }
            // The path begins at the third slash.
            if let one = first("/"), let two = first("/", from: one + 1), let path = first("/", from: two + 1) {
                // A URL of a socket has no host, and its path ends at a colon.
                end = path > two + 1 ? path : first(":", from: path) ?? end
            }
            if let query = first("?") { end = query }
            if let fragment = first("#") { end = fragment }
            if first("@") != nil || end == 512 { return nil }
            // An origin has eight characters at least: `http://a`.
            if end < 8 { end = 0 }
            bytes = UnsafeBufferPointer(rebasing: url[..<end])
            var hash = UInt64(end)
            var index = 0
            while index < end {
                // The last word overlaps the one before.
                let place = min(index, end - 8)
                hash = (hash ^ (start + place).loadUnaligned(as: UInt64.self)) &* 0x9E37_79B9_7F4A_7C15
                hash ^= hash >> 32
                index += 8
            }
            self.hash = hash
        }
    }
}

/// The requests with equal labels.
final class Series: Sendable {
    static let methods = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY", "_OTHER",
    ]
    static let versions = ["", "1.0", "1.1", "2", "3"]

    static let duration = HistogramLayout.durations(at: 0)
    /// In the place of the durations of requests, which the series of closed connections does not have.
    static let lifetime = HistogramLayout.lifetimes(at: 0)
    static let requestSize = HistogramLayout.sizes(at: duration.size)
    static let responseSize = HistogramLayout.sizes(at: duration.size + requestSize.size)
    /// Requests that were sent.
    static let started = duration.size + requestSize.size + responseSize.size
    /// How many of them ended in the series for labels beyond the limit.
    static let endedElsewhere = started + 1

    let key: SeriesKey
    /// Scheme, host and port as in the URLs: `http://example.org:8080`.
    let origin: [UInt8]
    let counts: ShardedCounts

    init(_ key: SeriesKey, _ origin: [UInt8]) {
        self.key = key
        self.origin = origin
        counts = ShardedCounts(Self.endedElsewhere + 1)
    }

    @inline(__always) func matches(_ key: SeriesKey, _ origin: SeriesKey.Origin) -> Bool {
        self.key.method == key.method && self.key.status == key.status && self.key.version == key.version
            && self.key.error == key.error && self.key.template == key.template
            && self.origin.count == origin.bytes.count
            && self.origin.withUnsafeBufferPointer { own in
                own.baseAddress.map { memcmp($0, origin.bytes.baseAddress ?? $0, own.count) == 0 } ?? true
            }
    }
}

/// Series by their labels, found and added without a lock. All sets of labels after the first 2,000 share one series.
final class SeriesTable: @unchecked Sendable {
    // Sendable: the slots are atomic, and the pointer is constant until `deinit`.

    /// OpenTelemetry's limit.
    static let limit = 2_000
    private static let capacity = 4_096
    /// Each holds a reference, which `deinit` releases. An `AtomicLazyReference` would take 600 instructions for each load.
    private let slots: UnsafeMutablePointer<Atomic<UnsafeRawPointer?>>
    private let count = Atomic(0)
    let overflow = Series(SeriesKey(method: 0, status: 0), [])
    private let hasOverflow = Atomic(false)

    init() {
        slots = .allocate(capacity: Self.capacity)
        for index in 0..<Self.capacity { (slots + index).initialize(to: Atomic(nil)) }
    }

    deinit {
        for index in 0..<Self.capacity {
            if let slot = slots[index].load(ordering: .acquiring) { Unmanaged<Series>.fromOpaque(slot).release() }
        }
        slots.deinitialize(count: Self.capacity)
        slots.deallocate()
    }

    /// Calls a closure with the origin of a URL.
    @inline(__always) func withOrigin<Result>(of url: String, _ body: (SeriesKey.Origin) -> Result) -> Result? {
        let found = url.utf8.withContiguousStorageIfAvailable { bytes in SeriesKey.Origin(of: bytes).map(body) }
        if let found = found ?? nil { return found }
        // The URL has a user or a very long host, or its bytes are not contiguous.
        var origin = Self.origin(of: url)
        return origin.withUTF8 { SeriesKey.Origin(of: $0).map(body) }
    }

    /// The series with these labels, which lives as long as the table.
    func series(_ key: borrowing SeriesKey, _ origin: SeriesKey.Origin) -> Unmanaged<Series> {
        var index = key.hash(origin) & (Self.capacity - 1)
        for _ in 0..<Self.capacity {
            if let found = self[index] {
                if found._withUnsafeGuaranteedRef({ $0.matches(key, origin) }) { return found }
            } else {
                guard count.add(1, ordering: .relaxed).newValue <= Self.limit else {
                    count.subtract(1, ordering: .relaxed)
                    // Another thread may just have added it as the last one.
                    if let found = self[index], found._withUnsafeGuaranteedRef({ $0.matches(key, origin) }) {
                        return found
                    }
                    hasOverflow.store(true, ordering: .relaxed)
                    return .passUnretained(overflow)
                }
                let new = Unmanaged.passRetained(Series(copy key, Array(origin.bytes)))
                let (isFirst, winner) = slots[index].compareExchange(
                    expected: nil, desired: UnsafeRawPointer(new.toOpaque()), ordering: .acquiringAndReleasing)
                if isFirst { return new }
                new.release()
                count.subtract(1, ordering: .relaxed)
                if let winner = winner.map({ Unmanaged<Series>.fromOpaque($0) }),
                    winner._withUnsafeGuaranteedRef({ $0.matches(key, origin) })
                {
                    return winner
                }
            }
            index = (index + 1) & (Self.capacity - 1)
        }
        return .passUnretained(overflow)
    }

    /// Scheme, host and port of a URL, without its user.
    private static func origin(of url: String) -> String {
        if let unix = try? UnixAddress(url) { return unix.origin.replacing("@", with: "%40") }
        let parts = URLParts(url)
        guard parts.isAbsolute, let scheme = parts.scheme, let host = parts.hostAndPort else { return "" }
        return scheme + "://" + host.prefix(480)
    }

    /// All series, and whether the overflow series has counted anything.
    var all: (series: [Series], hasOverflow: Bool) {
        ((0..<Self.capacity).compactMap { self[$0]?.takeUnretainedValue() }, hasOverflow.load(ordering: .relaxed))
    }

    private subscript(index: Int) -> Unmanaged<Series>? {
        slots[index].load(ordering: .acquiring).map { .fromOpaque($0) }
    }
}

extension Series {
    /// The labels by OpenTelemetry's names, with dots as underscores.
    var labels: [(name: String, value: String)] {
        var labels = originLabels
        labels.append(("http_request_method", Self.methods[Int(key.method)]))
        if key.status > 0 { labels.append(("http_response_status_code", "\(key.status)")) }
        let error = key.error.isEmpty && key.status >= 400 ? "\(key.status)" : key.error
        if !error.isEmpty { labels.append(("error_type", error)) }
        if key.version > 0 { labels.append(("network_protocol_version", Self.versions[Int(key.version)])) }
        if !key.template.isEmpty { labels.append(("url_template", key.template)) }
        return labels
    }

    var originLabels: [(name: String, value: String)] {
        Self.labels(of: HTTPRequest.Server(String(decoding: origin, as: UTF8.self)))
    }

    static func labels(of server: HTTPRequest.Server?) -> [(name: String, value: String)] {
        [
            ("server_address", server?.address ?? ""), ("server_port", server?.port.map { "\($0)" } ?? ""),
            ("url_scheme", server?.scheme ?? ""),
        ]
    }
}
