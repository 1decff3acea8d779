import Dispatch
import Foundation
import Testing

/// Replays the corpus of `scripts/fuzz`: its seeds, and the inputs in which it has found faults.
@Suite struct CorpusTests {
    @Test(arguments: FuzzTarget.all)
    func corpusRevealsNoFault(of target: FuzzTarget) async throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Corpus/\(target.name)")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = [UInt8](try Data(contentsOf: file))
            // Prefixes of the file are inputs too.
            let lengths = Array(stride(from: 0, to: bytes.count, by: max(1, bytes.count / 8))) + [bytes.count]
            for fault in await Self.faults(of: target, lengths.map { Array(bytes[..<$0]) }) {
                Issue.record("\(target.name)/\(file.lastPathComponent): \(fault)")
            }
        }
    }

    /// Runs the target outside of Swift's cooperative thread pool, because it may block.
    private static func faults(of target: FuzzTarget, _ inputs: [[UInt8]]) async -> [String] {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                let faults = inputs.compactMap { input -> String? in
                    do {
                        try target.run(input)
                        return nil
                    } catch {
                        return "with \(input.count) bytes: \(error)"
                    }
                }
                continuation.resume(returning: faults)
            }
        }
    }
}
