internal import HTTPCore

/// Decodes `dcz` (RFC 9842 §5): a head that names the dictionary, and zstd that refers to its content.
///
/// `dcb` needs a function of libbrotli that Debian 12 does not have (`BrotliDecoderAttachDictionary`, 1.1).
final class DictionaryDecoder: BufferDecoder {
    static let name = "dcz"
    private static let magic: [UInt8] = [0x5E, 0x2A, 0x4D, 0x18, 0x20, 0, 0, 0]

    private let dictionary: CompressionDictionary
    private let zstd: ZstdDecoder
    /// What the body has to begin with.
    private let head: [UInt8]
    private var headByteCount = 0
    /// The bytes saved since the last complete frame.
    private var saved = 0
    private var hasNoted = false

    /// Makes a decoder; `nil` when memory is short.
    init?(_ library: ZstdLibrary, _ dictionary: CompressionDictionary) {
        guard let zstd = ZstdDecoder(library, dictionary: dictionary) else { return nil }
        self.zstd = zstd
        self.dictionary = dictionary
        head = Self.magic + dictionary.digest
    }

    var isComplete: Bool { zstd.hasFrame && zstd.isComplete }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        let before = input.count
        do throws(CodingFault) {
            try readHead(&input)
            let count = headByteCount < head.count ? 0 : try zstd.decode(&input, into: output)
            saved += count - (before - input.count)
            if isComplete, saved != 0 {
                dictionary.noteSaving(saved, isFirst: !hasNoted)
                (saved, hasNoted) = (0, true)
            }
            return count
        } catch {
            dictionary.noteFailure()
            switch error {
            case .invalid(_, let reason): throw .invalid(Self.name, reason)
            default: throw error
            }
        }
    }

    private func readHead(_ input: inout UnsafeRawBufferPointer) throws(CodingFault) {
        let piece = input.prefix(head.count - headByteCount)
        for byte in piece {
            guard byte == head[headByteCount] else {
                throw headByteCount < Self.magic.count
                    ? .invalid(Self.name, "it does not begin with its signature") : .otherDictionary
            }
            headByteCount += 1
        }
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(piece.count))
    }
}
