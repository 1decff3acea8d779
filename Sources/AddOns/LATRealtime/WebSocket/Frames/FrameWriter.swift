import Glibc

/// Writes a client's frames (RFC 6455 §5.2), each with its own masking key of random bytes from the system.
struct FrameWriter {
    /// Random bytes that were not used yet. One system call returns those of many frames.
    private var random: [UInt32] = []
    /// 256 bytes, the most that `getentropy` gives.
    private static let randomCount = 64

    /// Adds a frame with a whole message, or a control frame.
    mutating func append(
        _ opcode: FrameReader.Opcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false,
        to frames: inout [UInt8]
    ) {
        let mask = nextMask()
        let count = payload.count
        // Doubles the capacity, so that waiting messages are not copied again for each new one.
        let size = frames.count + count + 14
        if size > frames.capacity { frames.reserveCapacity(max(size, 2 * frames.capacity)) }
        frames.append(0x80 | opcode.rawValue | (isCompressed ? 0x40 : 0))
        switch count {
        case ..<126:
            frames.append(0x80 | UInt8(count))
        case ..<0x1_0000:
            frames.append(0x80 | 126)
            frames.append(UInt8(count >> 8))
            frames.append(UInt8(count & 0xFF))
        default:
            frames.append(0x80 | 127)
            for shift in stride(from: 56, through: 0, by: -8) {
                frames.append(UInt8(truncatingIfNeeded: count >> shift))
            }
        }
        withUnsafeBytes(of: mask) { frames.append(contentsOf: $0) }
        let start = frames.count
        frames.append(contentsOf: payload)
        frames.withUnsafeMutableBytes { Self.mask(UnsafeMutableRawBufferPointer(rebasing: $0[start...]), with: mask) }
    }

    /// Masks bytes in place. The mask's bytes apply in the order that they have in memory.
    private static func mask(_ bytes: UnsafeMutableRawBufferPointer, with mask: UInt32) {
        let wide = UInt64(mask) << 32 | UInt64(mask)
        var index = 0
        while index + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            bytes.storeBytes(of: word ^ wide, toByteOffset: index, as: UInt64.self)
            index += 8
        }
        withUnsafeBytes(of: mask) { mask in
            while index < bytes.count {
                bytes[index] ^= mask[index & 3]
                index += 1
            }
        }
    }

    private mutating func nextMask() -> UInt32 {
        if let mask = random.popLast() { return mask }
        random = [UInt32](repeating: 0, count: Self.randomCount)
        let isFilled = random.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) == 0 }
        if !isFilled { for index in random.indices { random[index] = .random(in: .min ... .max) } }
        return random.popLast() ?? .random(in: .min ... .max)
    }

    /// The payload of a close frame. Without a code it is empty.
    static func closePayload(_ code: UInt16?, _ reason: String) -> [UInt8] {
        guard let code else { return [] }
        return [UInt8(code >> 8), UInt8(code & 0xFF)] + Array(reason.utf8)
    }
}
