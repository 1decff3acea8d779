@testable import HTTPCore
@testable import ResponseCache

/// The record of an entry is refused, or written again as one that gives the same entry, down to the bytes.
@Sendable func fuzzRecord(_ bytes: [UInt8]) throws {
    // The number of the format need not be found.
    for bytes in [bytes, [2] + bytes] {
        guard let entry = EntryCoding.decode(bytes) else { continue }
        let written = EntryCoding.encode(entry)
        guard let again = EntryCoding.decode(written) else {
            throw FuzzFault(description: "what was written is not read")
        }
        try expect(EntryCoding.encode(again) == written, "other bytes the second time")
        try expect(again.headers == entry.headers && again.tags == entry.tags, "other fields or tags")
        try expect(again.status == entry.status && again.origin == entry.origin, "another status or origin")
        try expect(entry.headByteCount >= 0, "\(entry.headByteCount) bytes")
    }
}
