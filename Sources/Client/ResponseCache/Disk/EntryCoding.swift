import FoundationEssentials
import HTTPCore

/// Encodes entries as bytes and decodes them. Last use, pin, expiry mark and body length are columns of the index instead.
///
/// The format is a format number, then integers as LEB128 and strings with a length prefix.
package enum EntryCoding {
    private static let format: UInt8 = 2

    package static func encode(_ entry: CacheEntry) -> [UInt8] {
        var bytes: [UInt8] = [format]
        bytes.reserveCapacity(512)
        append(entry.key.primary, to: &bytes)
        append(entry.key.variant, to: &bytes)
        append(entry.method, to: &bytes)
        append(entry.url, to: &bytes)
        for text in [entry.domain, entry.server, entry.partition] {
            bytes.append(text == nil ? 0 : 1)
            if let text { append(text, to: &bytes) }
        }
        append(UInt64(bitPattern: Int64(entry.status)), to: &bytes)
        append(entry.reason, to: &bytes)
        append(entry.requestTime, to: &bytes)
        append(entry.responseTime, to: &bytes)
        append(UInt64(entry.varyFields.count), to: &bytes)
        for field in entry.varyFields { append(field, to: &bytes) }
        append(UInt64(entry.tags.count), to: &bytes)
        for tag in entry.tags { append(tag, to: &bytes) }
        bytes.append(entry.retainUntil == nil ? 0 : 1)
        if let time = entry.retainUntil { append(time, to: &bytes) }
        bytes.append(entry.origin == nil ? 0 : entry.origin?.version == nil ? 1 : 2)
        if let origin = entry.origin {
            append(UInt64(max(0, origin.variantCount)), to: &bytes)
            append(origin.epoch, to: &bytes)
            if let version = origin.version {
                append(version.number, to: &bytes)
                append(version.second, to: &bytes)
            }
        }
        // Removals (fields without a value) come last, because decoding adds them last.
        var fields = entry.headers.fields
        if fields.contains(where: { $0.value == nil }) {
            fields = fields.filter { $0.value != nil } + fields.filter { $0.value == nil }
        }
        append(UInt64(fields.count), to: &bytes)
        for field in fields {
            append(field.name, to: &bytes)
            bytes.append(field.value == nil ? 0 : 1)
            if let value = field.value { append(value, to: &bytes) }
        }
        return bytes
    }

    package static func decode(_ bytes: [UInt8]) -> CacheEntry? { bytes.withUnsafeBytes { decode($0) } }

    package static func decode(_ bytes: UnsafeRawBufferPointer) -> CacheEntry? {
        var reader = Reader(bytes: bytes)
        guard reader.byte() == format, let primary = reader.text(), let variant = reader.text(),
            let method = reader.text(), let url = reader.text(),
            let domain = reader.optionalText(), let server = reader.optionalText(),
            let partition = reader.optionalText(), let status = reader.number(), let reason = reader.text(),
            let requestTime = reader.date(), let responseTime = reader.date(), let varyFields = reader.texts(),
            let tags = reader.texts(), let hasEnd = reader.byte()
        else { return nil }
        let retainUntil = hasEnd == 0 ? nil : reader.date()
        guard let origin = reader.origin(), let count = reader.number() else { return nil }
        var lines: [HTTPHeaders.Field] = []
        var removals: [String] = []
        for _ in 0..<min(count, UInt64(bytes.count)) {
            guard let name = reader.text(), let value = reader.optionalText() else { return nil }
            if value == nil { removals.append(name) } else { lines.append(HTTPHeaders.Field(name: name, value: value)) }
        }
        guard reader.isAtEnd else { return nil }
        var headers = HTTPHeaders(lines)
        for name in removals {
            guard headers[name] == nil else { return nil }
            headers[name] = nil
        }
        var entry = CacheEntry(
            key: CacheKey(primary: primary, variant: variant), method: method, url: url,
            status: Int(truncatingIfNeeded: Int64(bitPattern: status)), reason: reason, headers: headers,
            requestTime: requestTime, responseTime: responseTime)
        entry.domain = domain
        entry.server = server
        entry.partition = partition
        entry.varyFields = varyFields
        entry.tags = tags
        entry.retainUntil = retainUntil
        entry.origin = origin
        return entry
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        append(UInt64(text.utf8.count), to: &bytes)
        bytes.append(contentsOf: text.utf8)
    }

    private static func append(_ date: Date, to bytes: inout [UInt8]) {
        append(date.timeIntervalSinceReferenceDate.bitPattern, to: &bytes)
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var place = 0

        var isAtEnd: Bool { place == bytes.count }

        mutating func byte() -> UInt8? {
            guard place < bytes.count else { return nil }
            defer { place += 1 }
            return bytes[place]
        }

        mutating func number() -> UInt64? {
            var number: UInt64 = 0
            var shift: UInt64 = 0
            while shift < 64, let byte = byte() {
                number |= UInt64(byte & 0x7F) << shift
                if byte < 0x80 { return number }
                shift += 7
            }
            return nil
        }

        mutating func text() -> String? {
            guard let count = number(), count <= UInt64(bytes.count - place) else { return nil }
            defer { place += Int(count) }
            return String(decoding: UnsafeRawBufferPointer(rebasing: bytes[place..<place + Int(count)]), as: UTF8.self)
        }

        mutating func optionalText() -> String?? {
            switch byte() {
            case 0: return .some(nil)
            case 1: return text().map { .some($0) }
            default: return nil
            }
        }

        mutating func texts() -> [String]? {
            guard let count = number() else { return nil }
            var texts: [String] = []
            for _ in 0..<min(count, UInt64(bytes.count)) {
                guard let text = text() else { return nil }
                texts.append(text)
            }
            return texts
        }

        mutating func origin() -> CacheOrigin?? {
            let kind = byte()
            if kind == 0 { return .some(nil) }
            guard kind == 1 || kind == 2, let count = number(), let epoch = number() else { return nil }
            var version: StoredVersion?
            if kind == 2 {
                guard let number = number(), let second = self.number() else { return nil }
                version = StoredVersion(number, second)
            }
            return CacheOrigin(version: version, variantCount: Int(clamping: count), epoch: epoch)
        }

        mutating func date() -> Date? {
            // The times of an entry are finite. This also rejects NaN, whose bits may change when it is copied.
            guard let time = number().map({ Double(bitPattern: $0) }), time.isFinite else { return nil }
            return Date(timeIntervalSinceReferenceDate: time)
        }
    }
}
