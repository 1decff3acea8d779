// The cost of work with LATNetworking, through the calls of an application. Modes:
//   central       IN_FLIGHT tasks, each: try await manager.startRequest("GET", url)
//   latency       the same, one at a time
//   entity        IN_FLIGHT tasks, each: try await ReadDocument(name:).startRequest(on: manager), with a row of a table,
//                 a header provider, and the JSON decoded into a struct
//   entity-text   the same, with JSON of the same length but few members, most of it one text
//   closure       manager.startRequest("GET", url, success:, failure:), IN_FLIGHT at once, each success starts the next
//   urls          central, to 10,000 URLs that differ in their query
//   pages         lists of 1,000 pages, one after the other; pages-gets: the same requests by startRequest
//   post          IN_FLIGHT tasks, each: a POST of 1 KiB of JSON, encoded in advance
//   post-encoded  the same, body: .json(order)
//   …-executor    central, latency, entity, entity-text and sockets under withTaskExecutorPreference(manager.executor)
//   download      try await manager.download(url, to: FILE, segments: IN_FLIGHT).value, with its journal
//   queue         REQUESTS downloads added to a DownloadManager in the folder FILE
//   upload        FILE sent as a part of a multipart body
//   waiting       REQUESTS requests that get no response: memory of each, and processor time of all, while they wait
//   feature-…     central with one more feature: see Features.swift
//   events        the REQUESTS events of an event stream, one after the other
//   sockets       REQUESTS messages of SIZE bytes (in the place of FILE) over IN_FLIGHT WebSockets, and back
//   sockets-open  IN_FLIGHT open WebSockets: memory of each, and processor time of all, while nothing is sent
//   cache-…       the cache of a manager in the folder URL, IN_FLIGHT entries of 4 KiB: see Cache.swift
//   outbox-…      REQUESTS entries of an outbox in the folder FILE: see OutboxModes.swift
//   fleet-…       the same in a fleet on the Redis URL: see Fleet.swift
//
// LAT_BENCH_CA in the environment names the trusted certificates for https URLs.

import BenchmarkSupport
import Dispatch
import FoundationEssentials
import Glibc
import LATNetworking

let arguments = Arguments(
    modes: [
        "central", "latency", "entity", "entity-text", "central-executor", "latency-executor", "entity-executor",
        "entity-text-executor", "closure", "urls", "pages", "pages-gets", "post", "post-encoded", "download", "queue",
        "upload", "put", "tus", "standard", "s3", "waiting",
        "events", "sockets", "sockets-executor", "sockets-open",
        "cache-memory", "cache-disk", "cache-kept", "cache-unkept", "cache-open", "cache-stream",
        "fleet-remote", "fleet-memory",
        "outbox-add", "outbox-batch", "outbox-drain", "outbox-direct", "outbox-fill", "outbox-open",
    ] + Feature.modes)

// The main thread only waits. With `await` it would sleep in libdispatch's sigsuspend(), which crashes valgrind 3.19:
// valgrind writes to the signal mask, which libdispatch keeps in read-only memory.
let over = DispatchSemaphore(value: 0)
Task.detached {
    do {
        try await run(arguments)
    } catch {
        complain("lat-bench: \(error)")
        exit(1)
    }
    over.signal()
}
over.wait()

func run(_ arguments: Arguments) async throws {
    var configuration = CentralRequestManager.Configuration()
    configuration.maxConnectionsPerHost = arguments.inFlight
    configuration.tls.caFile = ProcessInfo.processInfo.environment["LAT_BENCH_CA"]
    Feature(arguments)?.apply(to: &configuration)
    let manager =
        try arguments.mode.hasPrefix("entity")
        ? entityManager(arguments) : CentralRequestManager(configuration: configuration)
    if arguments.mode.hasSuffix("-executor") {
        #if WITHOUT_EXECUTOR
        throw Failure("this program was built without the executor")
        #else
        try await onExecutor(of: manager) { try await perform(manager, arguments) }
        #endif
    } else {
        try await perform(manager, arguments)
    }
    await manager.shutdown()
}

func perform(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    switch arguments.mode {
    case "entity", "entity-executor": try await entity(manager, arguments)
    case "entity-text", "entity-text-executor": try await entityText(manager, arguments)
    case "closure": try await requestWithClosures(manager, arguments)
    case "urls": try await requestManyURLs(manager, arguments)
    case "pages", "pages-gets": try await requestPages(manager, arguments)
    case "post": try await post(manager, arguments)
    case "post-encoded": try await postEncoded(manager, arguments)
    case "download": try await download(manager, arguments, to: try file(arguments))
    case "queue": try await queueDownloads(manager, arguments, in: try file(arguments))
    case "upload": try await upload(manager, arguments, try file(arguments))
    case "put", "tus", "standard", "s3": try await put(manager, arguments, try file(arguments))
    case "cache-memory", "cache-disk", "cache-kept", "cache-unkept", "cache-open", "cache-stream":
        try await cache(arguments)
    case "fleet-remote", "fleet-memory": try await fleet(arguments)
    case "outbox-add", "outbox-batch", "outbox-drain", "outbox-direct", "outbox-fill", "outbox-open":
        try await outbox(manager, arguments)
    case "waiting": try await wait(manager, arguments)
    case "events": try await events(manager, arguments)
    case "sockets", "sockets-executor": try await echo(manager, arguments)
    case "sockets-open": try await keepOpen(manager, arguments)
    default:
        if let feature = Feature(arguments) { return try await feature.run(manager, arguments) }
        try await request(manager, arguments)
    }
}

func file(_ arguments: Arguments) throws -> String {
    guard let file = arguments.file else { throw Failure("\(arguments.mode) needs a FILE") }
    return file
}
