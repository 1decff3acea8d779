import Dispatch
import Foundation
import Testing

/// What `scripts/fuzz` starts from, and what it has found before.
@Suite struct CorpusTests {
    @Test(arguments: FuzzTarget.all)
    func corpusShowsNoFault(of target: FuzzTarget) async throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Corpus/\(target.name)")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = [UInt8](try Data(contentsOf: file))
            // Cut off anywhere it is another input that has to be refused or understood.
            let lengths = Array(stride(from: 0, to: bytes.count, by: max(1, bytes.count / 8))) + [bytes.count]
            for fault in await Self.faults(of: target, lengths.map { Array(bytes[..<$0]) }) {
                Issue.record("\(target.name)/\(file.lastPathComponent): \(fault)")
            }
        }
    }

    /// On a thread of its own: a target may wait.
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
