#if HAS_HIREDIS
internal import CHiredis
#endif
internal import FoundationEssentials

/// Reads replies from the bytes of a connection, with hiredis. One thread uses a reader.
///
/// hiredis is linked only with the package trait `Fleet`. Without it, ``isAvailable`` is `false` and no reader can be made.
final class RedisReader {
    /// The largest number of elements of a reply, those of inner arrays included. An element takes more memory than its bytes,
    /// so that a limit of the bytes alone does not limit the memory.
    static let elementLimit = 1 << 20
    /// The largest depth of arrays.
    static let depthLimit = 8
    /// The longest line: a status, an error or a number. hiredis searches the whole of an unfinished line again when more
    /// bytes arrive.
    static let lineLimit = 64 << 10

    #if HAS_HIREDIS
    static let isAvailable = true

    private let reader: UnsafeMutablePointer<redisReader>
    private let sink = UnsafeMutablePointer<lat_redis_sink>.allocate(capacity: 1)
    private let builder = ReplyBuilder()
    private let sizeLimit: Int
    /// How many bytes of an incomplete reply have been read.
    private var pending = 0

    /// - Parameter sizeLimit: The largest reply, in bytes.
    /// - Returns: `nil` when no memory is left.
    init?(sizeLimit: Int) {
        // The builder lives as long as this object, which alone uses the reader.
        sink.initialize(
            to: lat_redis_sink(owner: Unmanaged.passUnretained(builder).toOpaque()) {
                owner, type, text, length, number in
                guard let owner else { return 0 }
                let builder = Unmanaged<ReplyBuilder>.fromOpaque(owner).takeUnretainedValue()
                let bytes = UnsafeRawBufferPointer(start: text, count: length)
                return builder.take(type, bytes, number) ? 1 : 0
            })
        guard let reader = lat_redis_reader_new(sink) else {
            sink.deallocate()
            return nil
        }
        self.reader = reader
        self.sizeLimit = sizeLimit
    }

    deinit {
        redisReaderFree(reader)
        sink.deallocate()
    }

    /// Takes bytes and returns the replies that they complete.
    ///
    /// - Throws: ``FleetError/Kind/protocolViolation`` when the bytes are not replies or a reply is too large. Do not
    ///   use the reader afterwards.
    func read(_ bytes: UnsafeRawBufferPointer) throws(FleetError) -> [RedisValue] {
        let text = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
        guard redisReaderFeed(reader, text, bytes.count) == REDIS_OK else { throw failure }
        pending += bytes.count
        var values: [RedisValue] = []
        while true {
            var reply: UnsafeMutableRawPointer?
            guard redisReaderGetReply(reader, &reply) == REDIS_OK else { throw failure }
            guard reply != nil else { break }
            guard let value = builder.finish() else { throw failure }
            values.append(value)
            pending = Int(reader.pointee.len) - Int(reader.pointee.pos)
        }
        guard pending <= sizeLimit else {
            throw FleetError(
                .protocolViolation,
                "Redis sent a reply of more than \(sizeLimit) bytes; raise maxReplySize if such values are intended")
        }
        guard !hasLongLine else {
            throw FleetError(.protocolViolation, "Redis sent a line of more than \(Self.lineLimit) bytes")
        }
        return values
    }

    /// Whether the unread bytes begin with a line that is longer than any of Redis.
    private var hasLongLine: Bool {
        let (start, end) = (Int(reader.pointee.pos), Int(reader.pointee.len))
        guard end - start > Self.lineLimit, let buffer = reader.pointee.buf else { return false }
        let line = UnsafeRawBufferPointer(start: buffer + start, count: Self.lineLimit)
        return zip(line, line.dropFirst()).first { $0 == (UInt8(ascii: "\r"), UInt8(ascii: "\n")) } == nil
    }

    private var failure: FleetError {
        if let problem = builder.problem { return FleetError(.protocolViolation, problem) }
        return FleetError(
            .protocolViolation,
            "the server does not speak Redis' protocol (\(String(cString: lat_redis_reader_error(reader)))); is the port right?"
        )
    }
    #else
    static let isAvailable = false

    init?(sizeLimit: Int) { nil }

    func read(_ bytes: UnsafeRawBufferPointer) throws(FleetError) -> [RedisValue] { throw .withoutTrait }
    #endif
}

#if HAS_HIREDIS
/// Makes values of the parts of replies, which come in the order of the bytes.
private final class ReplyBuilder {
    private struct Array {
        var elements: [RedisValue] = []
        var missing: Int
    }

    /// Why reading ended.
    private(set) var problem: String?
    /// The arrays whose elements are not complete, the outermost first.
    private var open: [Array] = []
    private var count = 0
    private var finished: RedisValue?

    /// Returns the reply that is complete.
    func finish() -> RedisValue? {
        defer {
            finished = nil
            count = 0
        }
        return finished
    }

    /// Takes a part of a reply; returns `false` for one that is too large.
    func take(_ type: CInt, _ bytes: UnsafeRawBufferPointer, _ number: Int64) -> Bool {
        switch type {
        case REDIS_REPLY_ARRAY: return begin(number)
        case REDIS_REPLY_INTEGER: add(.integer(number))
        case REDIS_REPLY_STATUS: add(.status(String(decoding: bytes, as: UTF8.self)))
        case REDIS_REPLY_ERROR:
            let text = String(decoding: bytes, as: UTF8.self)
            add(.failure(code: String(text.prefix { $0 != " " }), text: text))
        case REDIS_REPLY_STRING: add(.data(Data(bytes)))
        default: add(.none)
        }
        return true
    }

    private func begin(_ number: Int64) -> Bool {
        guard number >= 0, number <= RedisReader.elementLimit - count else {
            problem = "Redis sent a reply of more than \(RedisReader.elementLimit) elements"
            return false
        }
        guard open.count < RedisReader.depthLimit else {
            problem = "Redis sent more than \(RedisReader.depthLimit) nested arrays"
            return false
        }
        count += Int(number)
        if number == 0 { add(.array([])) } else { open.append(Array(missing: Int(number))) }
        return true
    }

    private func add(_ value: RedisValue) {
        var value = value
        while let last = open.indices.last {
            open[last].elements.append(value)
            open[last].missing -= 1
            guard open[last].missing == 0 else { return }
            value = .array(open.removeLast().elements)
        }
        finished = value
    }
}
#endif
