@testable import HTTPCore
@testable import ResponseCache

/// The record of a cache entry is rejected, or it can be written and read again as the same entry, in the same bytes.
@Sendable func fuzzRecord(_ bytes: [UInt8]) throws {
    // The second input begins with the number of the format, so that the fuzzer does not have to find it.
    for bytes in [bytes, [2] + bytes] {
        guard let entry = EntryCoding.decode(bytes) else { continue }
        let written = EntryCoding.encode(entry)
        guard let again = EntryCoding.decode(written) else {
            throw FuzzFault(description: "a written record cannot be read")
        }
        try expect(EntryCoding.encode(again) == written, "the bytes change")
        try expect(again.headers == entry.headers && again.tags == entry.tags, "fields or tags change")
        try expect(again.status == entry.status && again.origin == entry.origin, "status or origin change")
        try expect(entry.headByteCount >= 0, "a head of \(entry.headByteCount) bytes")
    }
}
