import BenchmarkSupport
import FoundationEssentials
import Glibc
import LATNetworking
import ResponseCache

/// Modes `cache-…`: the cache of a manager, in a folder given in place of the URL. Its responses come from a transport
/// that answers at once.
///
/// - `cache-memory`: hits of 4 KiB in the default store.
/// - `cache-disk`: hits of 4 KiB on disk, IN_FLIGHT entries stored below 1,000 prefixes.
/// - `cache-kept`, `cache-unkept`: responses of 4 KiB that the default store keeps, or that no store keeps.
/// - `cache-open`: opens a folder of IN_FLIGHT entries and looks one up.
/// - `cache-stream`: stores a body of 100 MiB and reads it back.
func cache(_ arguments: Arguments) async throws {
    switch arguments.mode {
    case "cache-memory": try await hits(try manager(arguments.url), .memoryCache, arguments)
    case "cache-disk": try await hits(try manager(nil, try diskStore(arguments.url)), .diskCache, arguments)
    case "cache-kept": try await fetches(try manager(arguments.url), .writeOnly, arguments)
    case "cache-unkept": try await fetches(try manager(arguments.url), .networkOnly, arguments)
    case "cache-open": try await openings(arguments)
    default: try await stream(arguments)
    }
}

/// Answers every request with 4 KiB.
private struct InstantTransport: Transport {
    private let body = Data(repeating: 7, count: 4_096)
    /// The `Date` of every response, which a cache reads at each look-up.
    private static let date = {
        var (now, parts, text) = (time(nil), tm(), [CChar](repeating: 0, count: 64))
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts))
        return String(cString: text)
    }()

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        HTTPResponse(
            status: 200,
            headers: [
                "Content-Type": "application/json", "Date": Self.date, "ETag": "\"\(request.url)\"",
                "Cache-Control": "max-age=86400",
            ],
            body: ResponseBody(body), url: request.url)
    }
}

/// A manager with a cache in a folder, or in a store.
func manager(
    _ folder: String?, _ store: (any CacheStore)? = nil,
    _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
) throws -> CentralRequestManager {
    var configuration = CentralRequestManager.Configuration()
    configuration.transport = InstantTransport()
    configuration.cachePolicy = .http
    configuration.cacheDirectory = folder
    configuration.cacheStore = store
    // The time of look-ups is measured, so they must not time out.
    configuration.cacheLookUpTimeout = .seconds(10)
    change(&configuration)
    return try CentralRequestManager(configuration: configuration)
}

private func url(_ number: Int) -> String { "http://127.0.0.1/\(number % 1_000)/\(number)" }

/// Measures hits, one at a time, of IN_FLIGHT entries that are stored before.
func hits(
    _ manager: CentralRequestManager, _ source: HTTPResponse.Source, _ arguments: Arguments
) async throws {
    for number in 0..<arguments.inFlight {
        _ = try await manager.startRequest("GET", url(number))
        // Flushes before the queue of writes is full.
        if number % 2_000 == 1_999 { try await manager.cache.flush() }
    }
    try await manager.cache.flush()
    // Loads entries into memory before the measurement.
    for number in 0..<min(arguments.inFlight, 1_000) { _ = try await manager.startRequest("GET", url(number)) }
    var random = SystemRandomNumberGenerator()
    var latencies: [Double] = []
    latencies.reserveCapacity(arguments.requests)
    let clock = ContinuousClock()
    var measurement = Measurement("lat", arguments)
    for turn in 0..<(arguments.warmup + arguments.requests) {
        if turn == arguments.warmup { measurement = Measurement("lat", arguments) }
        let url = url(Int.random(in: 0..<arguments.inFlight, using: &random))
        let start = clock.now
        let response = try await manager.startRequest("GET", url)
        let end = clock.now
        guard response.body.data?.count == 4_096, response.source == source || turn < arguments.warmup else {
            throw Failure("\(arguments.url): an entry is missing, it came from \(response.source)")
        }
        if turn >= arguments.warmup { latencies.append((end - start).inMicroseconds) }
    }
    measurement.finish(latencies: latencies)
}

/// Fetches responses from the network, each from another URL.
private func fetches(
    _ manager: CentralRequestManager, _ policy: CachePolicy, _ arguments: Arguments
) async throws {
    var latencies: [Double] = []
    let clock = ContinuousClock()
    var measurement = Measurement("lat", arguments)
    for turn in 0..<(arguments.warmup + arguments.requests) {
        if turn == arguments.warmup { measurement = Measurement("lat", arguments) }
        let start = clock.now
        _ = try await manager.startRequest("GET", url(turn), cache: policy)
        if turn >= arguments.warmup { latencies.append((clock.now - start).inMicroseconds) }
        // Flushes often: an app does not send a thousand requests a second in sequence.
        if turn % 100 == 99 { try await manager.cache.flush() }
    }
    measurement.finish(latencies: latencies)
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
    complain("grew by \(Resources.peakKilobytes - before) KiB")
    measurement.finish()
}
