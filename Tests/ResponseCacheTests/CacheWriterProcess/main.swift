import FoundationEssentials
import Glibc
import HTTPCore
import ResponseCache

// Writes to a cache until it is killed or reaches LIMIT entries, and prints each key once its commit has returned.
// Called by the tests: CacheWriterProcess DIRECTORY FIRST-NUMBER KEY-COUNT LIMIT
//                  or: CacheWriterProcess DIRECTORY PHASE, which stops itself in that phase
let arguments = CommandLine.arguments
if arguments.count == 3, let phase = Phase(rawValue: arguments[2]) {
    try await stop(in: phase, arguments[1])
    exit(0)
}
guard arguments.count == 5, let first = Int(arguments[2]), let keyCount = Int(arguments[3]),
    let limit = Int(arguments[4])
else { exit(2) }
var options = DiskStore.Options()
options.minimumFreeBytes = 0
options.byteLimit = 1 << 40
let store = try DiskStore(directory: arguments[1], options: options)

/// Writes a line to the parent with one system call, so that it arrives completely or not at all.
@Sendable func acknowledge(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    if write(STDOUT_FILENO, bytes, bytes.count) != bytes.count { exit(3) }
}

@Sendable func complain(_ text: String) {
    let bytes = Array(text.utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
}

await withTaskGroup(of: Void.self) { group in
    for worker in 0..<4 {
        group.addTask {
            var number = first + worker
            while number < first + limit {
                // Content and size follow from the number, so that a partial body is detected.
                let byteCount = [100, 5_000, 40_000, 300_000][(number / 4) % 4] + number % 97
                let key = "k\(number % keyCount)"
                var entry = CacheEntry(
                    key: CacheKey(primary: key), method: "GET", url: "http://h/\(key)", status: 200,
                    headers: ["X-Number": "\(number)"], requestTime: Date(), responseTime: Date())
                entry.server = "writer"
                do {
                    let writer = try await store.writer(for: entry)
                    var rest = byteCount
                    while rest > 0 {
                        let count = min(rest, 50_000)
                        try await writer.append(Data(repeating: UInt8(number % 251), count: count))
                        rest -= count
                    }
                    try await writer.commit()
                } catch {
                    complain("\(error)\n")
                    exit(4)
                }
                acknowledge("\(key) \(number) \(byteCount)")
                number += 4
            }
        }
    }
}
