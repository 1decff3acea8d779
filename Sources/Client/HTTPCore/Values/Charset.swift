package import FoundationEssentials
import Glibc

/// A charset that `Content-Type` names (RFC 9110 §8.3.2). The system's iconv decodes all but UTF-8 and ASCII.
package struct Charset: Hashable, Sendable {
    package let name: String

    package init(_ name: String) { self.name = name }

    /// UTF-8, which is used when `Content-Type` names no charset.
    package static let utf8 = Charset("utf-8")

    /// The `charset` parameter of a media type; UTF-8 when there is none.
    package static func declared(in contentType: String?) -> Charset {
        guard let contentType else { return .utf8 }
        let parameters = FileName.parameters(of: contentType)
        let value = parameters.first { $0.name == "charset" }?.value.filter { $0 != "'" } ?? ""
        return value.isEmpty ? .utf8 : Charset(value)
    }

    /// Returns the text without a byte order mark; `nil` when the bytes are not valid or the charset is unknown.
    package func decode(_ data: Data) -> String? {
        switch name.lowercased() {
        case "utf-8", "utf8", "us-ascii", "ascii":
            let bytes = data.starts(with: [0xEF, 0xBB, 0xBF]) ? data.dropFirst(3) : data
            return String(validating: bytes, as: UTF8.self)
        case "iso-8859-1", "latin1", "latin-1":
            // Latin-1 on the web means its superset windows-1252 (WHATWG Encoding §4.2).
            return Charset("windows-1252").convert(data) ?? Charset("ISO-8859-1").convert(data)
        default:
            let superset = Self.supersets[name.lowercased()].map { Charset($0) }
            return superset?.convert(data) ?? convert(data)
        }
    }

    /// What these names mean on the web (WHATWG Encoding §4.2): supersets of the standard charsets.
    private static let supersets = [
        "gb2312": "GB18030", "gb_2312-80": "GB18030", "gbk": "GB18030", "x-gbk": "GB18030", "shift_jis": "CP932",
        "sjis": "CP932", "x-sjis": "CP932", "euc-kr": "CP949", "ks_c_5601-1987": "CP949", "big5": "BIG5-HKSCS",
        "iso-8859-9": "CP1254", "tis-620": "CP874",
    ]

    private func convert(_ data: Data) -> String? {
        let converter = iconv_open("UTF-8", name)
        // iconv_open returns (iconv_t)-1 for a charset it does not know.
        guard Int(bitPattern: converter) != -1 else { return nil }
        defer { iconv_close(converter) }
        var input = data.map { CChar(bitPattern: $0) }
        var output = [CChar](repeating: 0, count: max(64, data.count * 2))
        var text: [UInt8] = []
        /// Appends the output of one call of iconv to the text. Returns `false` for invalid input.
        func step(
            _ next: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ left: UnsafeMutablePointer<Int>?
        ) -> Bool {
            output.withUnsafeMutableBufferPointer { output in
                var room = output.count
                var end = output.baseAddress
                let isValid = iconv(converter, next, left, &end, &room) != -1 || errno == E2BIG
                text.append(contentsOf: output[..<(output.count - room)].map { UInt8(bitPattern: $0) })
                return isValid
            }
        }
        let isValid = input.withUnsafeMutableBufferPointer { input in
            var next = input.baseAddress
            var left = input.count
            while left > 0 {
                guard step(&next, &left) else { return false }
            }
            return true
        }
        guard isValid else { return nil }
        // For some charsets iconv holds a letter back until it knows that no accent follows.
        _ = step(nil, nil)
        let decoded = String(decoding: text, as: UTF8.self)
        return decoded.first == "\u{FEFF}" ? String(decoded.dropFirst()) : decoded
    }
}
