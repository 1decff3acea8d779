// The cost of rows with ObjectStore. Modes, each `MODE FILE ROWS`:
//   insert    ROWS values in one transaction, into a new file
//   fetch     each of ROWS values by its id, in scattered order
//   scan      all ROWS values into an array
// storebench.c does the same with SQLite's C API.

import BenchmarkSupport
import Foundation
import LATStorage

struct Row: Codable, Identifiable, Sendable {
    var id: Int
    var name: String
    var mail: String
    var age: Int
    var score: Double
    var active: Bool
    var created: Date
    var note: String?

    init(_ id: Int) {
        self.id = id
        name = "User number \(id)"
        mail = "user\(id)@example.org"
        age = id % 90
        score = Double(id) * 0.25
        active = id % 2 == 0
        created = Date(timeIntervalSinceReferenceDate: 700_000_000 + Double(id))
        note = id % 3 == 0 ? nil : "a note of some length"
    }
}

let words = CommandLine.arguments
guard words.count == 4, let rows = Int(words[3]), rows > 0 else {
    throw Failure("usage: store-bench insert|fetch|scan FILE ROWS")
}
let store = try ObjectStore(path: words[2])
let clock = ContinuousClock()
let start = clock.now
let cpuAtStart = Resources.cpuSeconds
switch words[1] {
case "insert": try store.insert(contentsOf: (0..<rows).lazy.map { Row($0) })
case "fetch":
    for turn in 0..<rows {
        guard try store.fetch(Row.self, id: turn * 7_919 % rows) != nil else { throw Failure("no row") }
    }
case "scan":
    guard try store.fetch(Row.self).count == rows else { throw Failure("not all rows") }
default: throw Failure("unknown mode \(words[1])")
}
let cpu = Resources.cpuSeconds - cpuAtStart
let seconds = (clock.now - start).inMicroseconds / 1e6
Measurement.report(
    "lat store", words[1],
    [
        ("requests", Double(rows)), ("seconds", seconds), ("cpu_seconds", cpu),
        ("cpu_us_per_request", cpu / Double(rows) * 1e6),
    ])
