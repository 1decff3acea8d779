import FoundationEssentials
import Glibc
import Platform
import Synchronization
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct BodyPipeTests {
    /// The memory allocated for a chunk (`malloc_usable_size`).
    private func allocated(_ chunk: Data) -> Int? {
        typealias UsableSize = @convention(c) (UnsafeRawPointer?) -> Int
        guard let symbol = dlsym(nil, "malloc_usable_size") else { return nil }
        return chunk.withUnsafeBytes { unsafeBitCast(symbol, to: UsableSize.self)($0.baseAddress) }
    }

    private func append(_ count: Int, to pipe: BodyPipe) {
        [UInt8](repeating: 7, count: count).withUnsafeBytes { pipe.append($0) }
    }

    @Test func smallChunkAllocatesLittle() async throws {
        let pipe = BodyPipe()
        for _ in 0..<3 {
            append(50, to: pipe)
            let chunk = try #require(try await pipe.next())
            #expect(chunk.count == 50)
            #expect(try #require(allocated(chunk)) < 512)
        }
    }

    @Test func chunkCapacityFollowsThePreviousOne() async throws {
        let pipe = BodyPipe()
        for _ in 0..<4 { append(50_000, to: pipe) }
        #expect(try await pipe.next()?.count == 200_000)
        append(50, to: pipe)
        let long = try #require(try await pipe.next())
        #expect(try #require(allocated(long)) >= 200_000)
        // The next chunk is small again.
        append(50, to: pipe)
        let short = try #require(try await pipe.next())
        #expect(try #require(allocated(short)) < 512)
    }

    /// The handler that resumes or cancels a transfer needs no more stack for a later call than for the first one.
    @Test(.measuresMemory) func stackOfTheDemandStaysFlat() {
        let pipe = BodyPipe()
        let depths = StackDepths()
        pipe.connect { _ in depths.note() }
        for _ in 0..<1_000 { pipe.abandon() }
        #expect(depths.all.count == 1_000 && Set(depths.all).count == 1)
    }

    @Test(.measuresMemory) func stackOfAHeldClosureStaysFlat() {
        let depths = StackDepths()
        let held = HeldClosure<@Sendable (Int, String) -> Void>()
        #expect(held.closure == nil)
        held.set { _, _ in depths.note() }
        for number in 0..<1_000 { held.closure?(number, "") }
        #expect(depths.all.count == 1_000 && Set(depths.all).count == 1)
        #expect(held.take() != nil && held.take() == nil && held.closure == nil)
    }
}

/// The stack addresses at which a closure was called, all on one thread.
private final class StackDepths: Sendable {
    private let state = Mutex<[UInt]>([])

    var all: [UInt] { state.withLock(\.self) }

    func note() {
        var local = 0
        let address = withUnsafePointer(to: &local) { UInt(bitPattern: $0) }
        state.withLock { $0.append(address) }
    }
}
