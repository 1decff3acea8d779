import FoundationEssentials

@testable import Cryptography
@testable import HTTPCore
@testable import LATClient
@testable import LATTransfers
@testable import ResponseCache

/// A journal is rejected, or its ranges are in order and inside the file, and it can be written and read again. The
/// target puts the digest before the input, because no fuzzer would find it.
@Sendable func fuzzJournal(_ bytes: [UInt8]) throws {
    let digest = MessageDigest.hexadecimal(try MessageDigest.of(bytes, .sha256))
    try expectConsistent(Data("LATNetworking-download-journal 1 sha256:\(digest)\n".utf8) + bytes)
    try expectConsistent(Data(bytes))
}

private func expectConsistent(_ data: Data) throws {
    guard let journal = DownloadJournal(decoding: data) else { return }
    let done = journal.done
    for (range, next) in zip(done.ranges, done.ranges.dropFirst()) {
        try expect(range.upperBound < next.lowerBound, "ranges out of order: \(done.ranges)")
    }
    try expect(done.ranges.allSatisfy { !$0.isEmpty && $0.lowerBound >= 0 }, "ranges \(done.ranges)")
    let total = journal.total ?? done.upperBound
    try expect(done.upperBound <= max(0, total), "ranges beyond the total size")
    let missing = done.gaps(upTo: total).reduce(0) { $0 + Int64($1.count) }
    try expect(missing + done.count == max(0, total), "\(missing) bytes missing and \(done.count) done, of \(total)")
    guard let again = DownloadJournal(decoding: try journal.encoded()) else {
        return try expect(false, "\(journal) is not read again")
    }
    try expect(again == journal, "\(journal) is read as \(again)")
}
