import FoundationEssentials
import Synchronization

/// A stored response that serves as the dictionary of another one (RFC 9842): its content, the digest by which the server knows
/// it, and what became of the responses.
package final class CompressionDictionary: @unchecked Sendable, ComparedByIdentity {
    // Sendable: the bytes do not change, and the rest is atomic.

    /// Stays in its place, because a decoder refers to it.
    package let bytes: UnsafeRawBufferPointer
    /// SHA-256 of the bytes.
    package let digest: [UInt8]
    /// The origin of the response, to whose requests alone it is offered.
    private let origin: String?
    /// The `id` that the server gave it; empty for none.
    private let id: String
    private let failed = Atomic(false)
    private let saved: Saved

    /// Gets how many bytes fewer than its content a response had on the wire, in one or more parts; `isFirst` for the first part.
    package typealias Saved = @Sendable (_ byteCount: Int, _ isFirst: Bool) -> Void

    package init(
        _ content: Data, digest: [UInt8], of url: String, id: String = "",
        saved: @escaping Saved = { _, _ in }
    ) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, content.count), alignment: 16)
        content.withUnsafeBytes { copy.copyMemory(from: $0) }
        bytes = UnsafeRawBufferPointer(rebasing: copy[..<content.count])
        (self.digest, self.id, self.saved) = (digest, id, saved)
        origin = URLParts(url).origin
    }

    deinit { bytes.deallocate() }

    /// Whether a request goes to the origin of the response.
    package func isFor(_ request: HTTPRequest) -> Bool { origin != nil && URLParts(request.url).origin == origin }

    /// The fields that offer it to the server (§2.2, §2.3).
    package var fields: [(name: String, value: String)] {
        let id = id.isEmpty ? nil : StructuredField.Value.string(id).text
        return [("Available-Dictionary", ":\(Data(digest).base64EncodedString()):")]
            + (id.map { [("Dictionary-ID", $0)] } ?? [])
    }

    /// Whether a response could not be decoded with it, so that it is not offered again.
    package var hasFailed: Bool { failed.load(ordering: .relaxed) }

    package func noteFailure() { failed.store(true, ordering: .relaxed) }

    /// - Parameter byteCount: negative if the coding made the response longer.
    package func noteSaving(_ byteCount: Int, isFirst: Bool) { saved(byteCount, isFirst) }
}
