// What the work costs with LATNetworking, through the calls an application makes. Modes:
//   central   IN_FLIGHT tasks, each: try await manager.startRequest("GET", url)
//   latency   the same, one at a time
//   entity    IN_FLIGHT tasks, each: try await ReadDocument(name:).startRequest(on: manager), the row in a table, with a
//             header provider, the JSON decoded into a struct
//   download  try await manager.download(url, to: FILE, segments: IN_FLIGHT).value, with its journal
//   upload    FILE sent as a part of a multipart body
//   waiting   REQUESTS requests that no answer comes to: memory and processor time of each while they wait
//   cache-…   the stores of the cache in the folder URL, IN_FLIGHT entries of 4 KiB: see Cache.swift

import BenchmarkSupport
import Foundation
import LATNetworking

let arguments = Arguments(modes: [
    "central", "latency", "entity", "download", "upload", "waiting", "cache-memory", "cache-disk", "cache-open",
    "cache-stream",
])
var configuration = CentralRequestManager.Configuration()
configuration.maxConnectionsPerHost = arguments.inFlight
let manager = try CentralRequestManager(configuration: configuration)

switch arguments.mode {
case "download":
    guard let file = arguments.file else { throw Failure("download wants a FILE") }
    try await download(manager, arguments, to: file)
case "upload":
    guard let file = arguments.file else { throw Failure("upload wants a FILE") }
    try await upload(manager, arguments, file)
case "cache-memory", "cache-disk", "cache-open", "cache-stream":
    try await cache(arguments)
case "entity":
    try await entity(arguments)
case "waiting":
    try await wait(manager, arguments)
default:
    try await request(manager, arguments)
}
await manager.shutdown()
