import Cryptography
import FoundationEssentials
import HTTPCore
import LATNetworking

/// The opening handshake (RFC 6455 §4): the fields of the request, and the check of the response.
struct WebSocketHandshake: Sendable {
    /// The random key of this attempt.
    let key: String
    let protocols: [String]
    let offersCompression: Bool

    init(protocols: [String], offersCompression: Bool, key: [UInt8] = (0..<16).map { _ in .random(in: 0...255) }) {
        self.key = Data(key).base64EncodedString()
        self.protocols = protocols
        self.offersCompression = offersCompression
    }

    var headers: HTTPHeaders {
        var headers: HTTPHeaders = [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
        ]
        if !protocols.isEmpty { headers["Sec-WebSocket-Protocol"] = protocols.joined(separator: ", ") }
        if offersCompression { headers["Sec-WebSocket-Extensions"] = "permessage-deflate; client_max_window_bits" }
        return headers
    }

    struct Agreement: Equatable {
        var subprotocol: String?
        /// `nil` for no compression.
        var compression: Compression?
    }

    /// The parameters of `permessage-deflate` (RFC 7692 §7.1).
    struct Compression: Equatable {
        var serverResets = false
        var clientResets = false
        /// The largest window that the client may use, as a power of two.
        var clientWindow = 15
    }

    /// Why a server's response is not a valid handshake, as the rest of a sentence.
    struct Refusal: Error, Equatable {
        let reason: String

        init(_ reason: String) { self.reason = reason }
    }

    /// Checks the fields of a 101 response.
    func agreement(_ headers: HTTPHeaders) throws(Refusal) -> Agreement {
        guard headers[values: "Upgrade"].map({ $0.lowercased() }) == ["websocket"] else {
            throw Refusal("its Upgrade is \(Self.quoted(headers["Upgrade"])), not websocket")
        }
        let connection = headers[values: "Connection"].flatMap { FieldList.names($0) }
        guard connection.contains("upgrade") else {
            throw Refusal("its Connection is \(Self.quoted(headers["Connection"])), which does not name Upgrade")
        }
        guard headers[values: "Sec-WebSocket-Accept"] == [MessageDigest.webSocketAccept(key)] else {
            throw Refusal(
                "its Sec-WebSocket-Accept is \(Self.quoted(headers["Sec-WebSocket-Accept"])), which does not belong to "
                    + "the key that was sent")
        }
        var agreement = Agreement()
        let chosen = headers[values: "Sec-WebSocket-Protocol"]
        guard chosen.count <= 1 else { throw Refusal("it chose more than one subprotocol") }
        if let name = chosen.first {
            guard protocols.contains(name) else {
                throw Refusal("it chose the subprotocol \(Self.quoted(name)), which was not offered")
            }
            agreement.subprotocol = name
        }
        let extensions = headers[values: "Sec-WebSocket-Extensions"].flatMap { FieldList.elements(of: $0) }
        guard extensions.count <= 1 else { throw Refusal("it uses more than one extension") }
        if let text = extensions.first { agreement.compression = try compression(text) }
        return agreement
    }

    private func compression(_ text: String) throws(Refusal) -> Compression {
        let parts = FieldList.elements(of: text, separatedBy: UInt8(ascii: ";"))
        guard offersCompression, parts.first == "permessage-deflate" else {
            throw Refusal("it uses the extension \(Self.quoted(parts.first)), which was not offered")
        }
        var compression = Compression()
        var seen: Set<String> = []
        for part in parts.dropFirst() {
            let pieces = part.split(separator: "=").map { String($0).trimmingFieldWhitespace }
            guard let name = pieces.first, pieces.count <= 2 else { throw Self.unknown(part) }
            let value = part.contains("=") ? FieldList.unquoted(pieces.count > 1 ? pieces[1] : "") : nil
            guard seen.insert(name).inserted else { throw Refusal("it gave \(Self.quoted(name)) twice") }
            switch (name, value) {
            case ("server_no_context_takeover", nil): compression.serverResets = true
            case ("client_no_context_takeover", nil): compression.clientResets = true
            case ("client_max_window_bits", let bits?): compression.clientWindow = try Self.window(bits)
            case ("server_max_window_bits", let bits?): _ = try Self.window(bits)
            default: throw Self.unknown(part)
            }
        }
        return compression
    }

    private static func unknown(_ part: String) -> Refusal {
        Refusal("it gave permessage-deflate the parameter \(quoted(part))")
    }

    private static func window(_ text: String) throws(Refusal) -> Int {
        guard let bits = Int(text), (8...15).contains(bits), text == String(bits) else {
            throw Refusal("it gave a window of \(quoted(text)) bits, which are from 8 to 15")
        }
        return bits
    }

    private static func quoted(_ text: String?) -> String {
        text.map { "\"\(URLText.visible(String($0.prefix(60))))\"" } ?? "missing"
    }
}
