#if HAS_HIREDIS
internal import CHiredis
#endif
internal import FoundationEssentials

/// Reads replies from the bytes of a connection, with hiredis. One thread uses a reader.
///
/// hiredis is linked only with the package trait `Fleet`. Without it, ``isAvailable`` is `false` and no reader can be made.
final class RedisReader {
    /// The largest number of elements of an array.
    static let elementLimit = 1 << 20

    #if HAS_HIREDIS
    static let isAvailable = true

    private let reader: UnsafeMutablePointer<redisReader>
    private let sizeLimit: Int
    /// How many bytes of an incomplete reply have been read.
    private var pending = 0

    /// - Parameter sizeLimit: The largest reply, in bytes.
    /// - Returns: `nil` when no memory is left.
    init?(sizeLimit: Int) {
        guard let reader = lat_redis_reader_new(Self.elementLimit) else { return nil }
        self.reader = reader
        self.sizeLimit = sizeLimit
    }

    deinit { lat_redis_reader_free(reader) }

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
            guard let reply else { break }
            defer { freeReplyObject(reply) }
            values.append(Self.value(reply.assumingMemoryBound(to: redisReply.self).pointee))
            pending = Int(reader.pointee.len) - Int(reader.pointee.pos)
        }
        guard pending <= sizeLimit else {
            throw FleetError(
                .protocolViolation,
                "Redis sent a reply of more than \(sizeLimit) bytes; raise maxReplySize if such values are intended")
        }
        return values
    }

    private var failure: FleetError {
        FleetError(
            .protocolViolation,
            "the server does not speak Redis' protocol (\(String(cString: lat_redis_reader_error(reader)))); is the port right?"
        )
    }

    private static func value(_ reply: redisReply) -> RedisValue {
        switch reply.type {
        case REDIS_REPLY_INTEGER: return .integer(reply.integer)
        case REDIS_REPLY_STATUS: return .status(text(reply))
        case REDIS_REPLY_ERROR:
            let text = text(reply)
            return .failure(code: String(text.prefix { $0 != " " }), text: text)
        case REDIS_REPLY_STRING: return .data(reply.str.map { Data(bytes: $0, count: Int(reply.len)) } ?? Data())
        case REDIS_REPLY_ARRAY:
            return .array(
                (0..<Int(reply.elements)).map { index in
                    reply.element?[index].map { value($0.pointee) } ?? .none
                })
        default: return .none
        }
    }

    private static func text(_ reply: redisReply) -> String {
        reply.str.map { start in
            start.withMemoryRebound(to: UInt8.self, capacity: Int(reply.len)) {
                String(decoding: UnsafeBufferPointer(start: $0, count: Int(reply.len)), as: UTF8.self)
            }
        } ?? ""
    }
    #else
    static let isAvailable = false

    init?(sizeLimit: Int) { nil }

    func read(_ bytes: UnsafeRawBufferPointer) throws(FleetError) -> [RedisValue] { throw .withoutTrait }
    #endif
}
