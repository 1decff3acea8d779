import BenchmarkSupport
import Foundation
import LATNetworking

/// Modes `cache-…`: the stores of the cache, in a folder that is named in place of the URL.
///
/// - `cache-memory`: hits in memory of 4 KiB.
/// - `cache-disk`: hits on disk of 4 KiB, IN_FLIGHT entries stored.
/// - `cache-open`: opens a folder of IN_FLIGHT entries and looks one up.
/// - `cache-stream`: stores a body of 100 MiB and reads it back.
func cache(_ arguments: Arguments) async throws {
    switch arguments.mode {
    case "cache-memory": try await hits(MemoryStore(), arguments)
    case "cache-disk": try await hits(try diskStore(arguments.url), arguments)
    case "cache-open": try await openings(arguments)
    default: try await stream(arguments)
    }
}

private func diskStore(_ folder: String) throws -> DiskStore {
    var options = DiskStore.Options()
    options.byteLimit = 4 << 30
    options.minimumFreeBytes = 0
    options.collectionInterval = nil
    return try DiskStore(directory: folder, options: options)
}

private func key(_ number: Int) -> String {
    let digits = String(number &* 0x9E37_79B9, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
}

private func put(_ number: Int, _ byteCount: Int, _ store: some CacheStore) async throws {
    let entry = CacheEntry(
        key: CacheKey(primary: key(number)), method: "GET", url: "http://127.0.0.1/entries/\(number)", status: 200,
        headers: ["Content-Type": "application/json", "ETag": "\"\(number)\"", "Cache-Control": "max-age=60"],
        requestTime: Date(), responseTime: Date())
    let writer = try await store.writer(for: entry)
    let piece = Data(repeating: UInt8(truncatingIfNeeded: number), count: min(byteCount, 1 << 16))
    for _ in 0..<max(1, byteCount / piece.count) { try await writer.append(piece) }
    try await writer.commit()
}

/// Stores IN_FLIGHT entries of 4 KiB.
private func fill(_ store: some CacheStore, _ arguments: Arguments) async throws {
    let count = arguments.inFlight
    try await withThrowingTaskGroup(of: Void.self) { group in
        for worker in 0..<64 {
            group.addTask {
                for number in stride(from: worker, to: count, by: 64) { try await put(number, 4_096, store) }
            }
        }
        try await group.waitForAll()
    }
}

private func hits(_ store: some CacheStore, _ arguments: Arguments) async throws {
    try await fill(store, arguments)
    var random = SystemRandomNumberGenerator()
    var latencies: [Double] = []
    latencies.reserveCapacity(arguments.requests)
    let clock = ContinuousClock()
    let measurement = Measurement("lat", arguments)
    for turn in 0..<(arguments.warmup + arguments.requests) {
        let key = key(Int.random(in: 0..<arguments.inFlight, using: &random))
        let start = clock.now
        guard let entry = try await store.entries(for: key).first,
            let body = try await store.body(of: entry), body.data?.count == 4_096
        else { throw Failure("\(arguments.url): an entry is missing") }
        if turn >= arguments.warmup { latencies.append((clock.now - start).inMicroseconds) }
    }
    measurement.finish(latencies: latencies)
}

private func openings(_ arguments: Arguments) async throws {
    try await fill(try diskStore(arguments.url), arguments)
    var latencies: [Double] = []
    let clock = ContinuousClock()
    let measurement = Measurement("lat", arguments)
    for _ in 0..<arguments.requests {
        let start = clock.now
        let store = try diskStore(arguments.url)
        guard try await store.entries(for: key(7)).count == 1 else { throw Failure("\(arguments.url): no entry") }
        latencies.append((clock.now - start).inMicroseconds)
    }
    measurement.finish(latencies: latencies)
}

private func stream(_ arguments: Arguments) async throws {
    let store = try diskStore(arguments.url)
    let before = Resources.residentKilobytes
    let measurement = Measurement("lat", arguments)
    try await put(1, 100 << 20, store)
    guard let entry = try await store.entries(for: key(1)).first, let body = try await store.body(of: entry) else {
        throw Failure("\(arguments.url): the body is missing")
    }
    var count = 0
    for try await chunk in body { count += chunk.count }
    guard count == 100 << 20 else { throw Failure("\(arguments.url): \(count) bytes came back") }
    FileHandle.standardError.write(Data("grew by \(Resources.peakKilobytes - before) KiB\n".utf8))
    measurement.finish()
}
