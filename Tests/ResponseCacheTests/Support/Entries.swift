import Foundation
import HTTPCore
import LATTesting
import Testing

@testable import ResponseCache

/// Entries and bodies for tests.
enum Make {
    static let start = Date(timeIntervalSinceReferenceDate: 800_000_000)

    static func entry(
        _ primary: String, variant: String = "", url: String? = nil, at time: Date = start, server: String? = nil,
        domain: String? = nil, partition: String? = nil, headers: HTTPHeaders = ["Content-Type": "text/plain"]
    ) -> CacheEntry {
        var entry = CacheEntry(
            key: CacheKey(primary: primary, variant: variant), method: "GET", url: url ?? "http://h/\(primary)",
            status: 200, reason: "OK", headers: headers, requestTime: time - 1, responseTime: time)
        entry.server = server
        entry.domain = domain
        entry.partition = partition
        return entry
    }

    static func body(_ byteCount: Int, seed: UInt8 = 0) -> Data {
        Data((0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) &+ seed })
    }
}

extension CacheStore {
    func put(_ entry: CacheEntry, _ body: Data = Data("hello".utf8), pieces: Int = 1 << 16) async throws {
        let writer = try await writer(for: entry)
        var rest = body[...]
        while !rest.isEmpty {
            try await writer.append(Data(rest.prefix(pieces)))
            rest = rest.dropFirst(pieces)
        }
        try await writer.commit()
    }

    func first(_ primary: String) async throws -> CacheEntry? { try await entries(for: primary).first }

    /// The body under a key; `nil` when there is none.
    func data(_ primary: String) async throws -> Data? {
        guard let entry = try await first(primary) else { return nil }
        return try await body(of: entry)?.collect(upTo: .max)
    }

    func has(_ primary: String) async throws -> Bool { try await data(primary) != nil }
}

extension DiskStore {
    /// A store that leaves no space free and does not collect garbage by itself.
    static func plain(
        _ directory: String, limit: Int64 = 64 << 20, key: Data? = nil, busyTimeout: Duration = .seconds(5)
    ) throws -> DiskStore {
        var options = Options()
        options.byteLimit = limit
        options.minimumFreeBytes = 0
        options.encryptionKey = key
        options.collectionInterval = nil
        options.busyTimeout = busyTimeout
        return try DiskStore(directory: directory, options: options)
    }
}

extension TemporaryDirectory {
    /// The body files in a cache folder.
    func bodyFiles(_ folder: String) -> [String] {
        contents.filter { $0.hasPrefix(folder + "/bodies-4/") }
    }
}

/// The kinds of stores, for tests of what they have in common.
enum Kind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory, disk, sealedDisk, tiered, memoryTiers

    var testDescription: String { rawValue }

    func make(in directory: TemporaryDirectory, limit: Int64 = 64 << 20) throws -> any CacheInspecting {
        let folder = directory.path(of: "cache")
        switch self {
        case .memory: return MemoryStore(byteLimit: limit)
        case .disk: return try DiskStore.plain(folder, limit: limit)
        case .sealedDisk: return try DiskStore.plain(folder, limit: limit, key: Data(repeating: 7, count: 32))
        case .tiered:
            return TieredStore(memory: MemoryStore(byteLimit: limit), disk: try DiskStore.plain(folder, limit: limit))
        case .memoryTiers:
            return TieredStore(MemoryStore(byteLimit: limit), over: MemoryStore(byteLimit: limit), copyLimit: limit / 8)
        }
    }
}
