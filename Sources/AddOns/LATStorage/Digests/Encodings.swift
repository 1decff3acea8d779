import Cryptography
public import FoundationEssentials
import HTTPCore
import JSONText

extension String {
    /// Returns the digest of the text's UTF-8 as lower-case hexadecimal digits: `try "hello".digest(.sha256)`.
    ///
    /// - Throws: the same as ``Digest/bytes(of:)``.
    public func digest(_ digest: Digest) throws -> String { try digest.hexadecimal(of: self) }

    /// The text's UTF-8 in Base64 (RFC 4648 §4), with padding.
    public var base64: String { Data(utf8).base64EncodedString() }

    /// The text's UTF-8 in the Base64 alphabet for URLs and file names (RFC 4648 §5), without padding.
    public var base64URL: String { Data(utf8).base64URL }

    /// The text decoded from Base64 in either alphabet, with padding or without; `nil` when it is not Base64 or the
    /// bytes are not UTF-8.
    public var base64Decoded: String? {
        Data(base64Text: self).flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// The text's UTF-8 as lower-case hexadecimal digits.
    public var hexadecimal: String { Data(utf8).hexadecimal }

    /// The text as a component of a URL: everything but letters, digits and `-._~` becomes `%XX` of its UTF-8 (RFC 3986
    /// §2.3). A space is `%20`.
    public var urlEncoded: String { percentEncodedComponent }

    /// The text decoded from a URL. A `+` stays a `+`: only forms use it for spaces. `nil` when a `%` begins no escape
    /// or the bytes are not UTF-8.
    public var urlDecoded: String? {
        self[...].percentDecodedBytes.flatMap { String(validating: $0, as: UTF8.self) }
    }
}

extension Data {
    /// The bytes as lower-case hexadecimal digits, two for each byte (RFC 4648 §8, in lower case).
    public var hexadecimal: String { MessageDigest.hexadecimal(self) }

    /// Decodes hexadecimal digits in either case; `nil` when there is another character or an odd number of them.
    public init?(hexadecimal text: String) {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let high = rest.popFirst() {
            guard let high = high.hexadecimalValue, let low = rest.popFirst()?.hexadecimalValue else { return nil }
            bytes.append(high << 4 | low)
        }
        self.init(bytes)
    }

    /// The bytes in the Base64 alphabet for URLs and file names (RFC 4648 §5), without padding.
    public var base64URL: String { Base64.urlText(of: self) }

    /// Decodes Base64 in either alphabet, with padding or without; `nil` when the text is not Base64.
    public init?(base64Text text: String) {
        guard let data = Base64.data(of: text) else { return nil }
        self = data
    }
}
