import Dispatch
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct FileSourceTests {
    private func read(_ source: FileSource, _ count: Int = 1 << 20) -> (result: BodyRead, bytes: [UInt8]) {
        var result = BodyRead.pause
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            result = source.read(into: UnsafeMutableRawBufferPointer(buffer))
            if case .bytes(let count) = result { filled = count }
        }
        return (result, bytes)
    }

    /// Reads all bytes of a source, as the engine does.
    private func collect(_ source: FileSource, _ pieces: Int = 100_000) async throws -> [UInt8] {
        let news = AsyncStream<Void>.makeStream()
        source.start { news.continuation.yield() }
        var awaken = news.stream.makeAsyncIterator()
        var all: [UInt8] = []
        while true {
            let (result, bytes) = read(source, pieces)
            switch result {
            case .bytes: all += bytes
            case .pause: await awaken.next()
            case .end: return all
            case .failed(let error): throw error
            }
        }
    }

    @Test(arguments: [0, 1, 100_000, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, 3_000_001], [false, true])
    func fileIsReadUnchanged(size: Int, startsEarly: Bool) async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: Int64(size), to: "a")
        let source = try FileSource(path: path, startsEarly: startsEarly)
        #expect(source.length == Int64(size))
        let whole = Array(MockPattern.bytes(in: 0..<Int64(size)))
        for _ in 0..<2 {
            #expect(try await collect(source) == whole)
            #expect(source.rewind())
        }
        source.stop()
    }

    @Test func rewindRestartsAtTheFirstByte() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 2_000_000, to: "a")
        let source = try FileSource(path: path)
        for pieces in [1000, 300_000, 2_000_000] {
            source.start {}
            while case .pause = read(source, pieces).result { await Task.yield() }
            #expect(source.rewind())
        }
        #expect(try await collect(source) == Array(MockPattern.bytes(in: 0..<2_000_000)))
    }

    /// A read never waits for the disk, and only two chunks are read ahead.
    @Test func slowDiskPausesTheTransfer() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 8 << 20, to: "a")
        let disk = DispatchSemaphore(value: 0)
        let reads = Box(0)
        let source = try FileSource(path: path) { descriptor, buffer, count, offset in
            disk.wait()
            reads.change { $0 += 1 }
            return pread(descriptor, buffer, count, offset)
        }
        let isAwake = Event()
        source.start { isAwake.happen() }
        for _ in 0..<3 { if case .pause = read(source).result {} else { Issue.record("it waited") } }
        #expect(!isAwake.hasHappened)
        disk.signal()
        await isAwake.wait()
        #expect(read(source, 100).bytes == Array(MockPattern.bytes(in: 0..<100)))
        for _ in 0..<20 { disk.signal() }
        // No more than two chunks are read ahead, however long the engine takes.
        try await eventually("the second piece") { reads.value >= 2 }
        #expect(reads.value == 2)
        source.stop()
    }

    @Test func stopClosesTheFile() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 8 << 20, to: "a")
        let source = try FileSource(path: path)
        let isAwake = Event()
        source.start { isAwake.happen() }
        if case .pause = read(source).result { await isAwake.wait() }
        source.stop()
        try await eventually("the file to close") { !ProcessFacts.descriptors.contains { $0.hasSuffix("=" + path) } }
    }

    /// Each part pauses the body at its beginning, while earlier bytes may still be in transit.
    @Test func formOfManyFilesArrivesComplete() async throws {
        let directory = try TemporaryDirectory()
        let sizes = [0, 1, 5000, 70_000, 600_000]
        let paths = try sizes.map { try directory.writePattern(byteCount: Int64($0), to: "f\($0)") }
        let server = try MockServer()
        server.fallback { .text("\($0.bodyByteCount)") }
        let files = (0..<20).map { UploadFile(name: "f\($0)", path: paths[$0 % paths.count]) }
        try await withTransport { transport async throws in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<30 {
                    group.addTask {
                        let request = HTTPRequest("POST", server.url(), body: .multipart(files))
                        return Int(try await transport.answer(to: request).text ?? "") ?? 0
                    }
                }
                for try await count in group { #expect(count > sizes.reduce(0, +) * 4) }
            }
        }
    }
}
