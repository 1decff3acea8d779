package import FoundationEssentials

/// A text for each secret, the same wherever it occurs.
package struct StandIns: Sendable {
    private var numbers: [String: Int] = [:]
    private var secrets: [String] = []
    /// The numbers up to this one are those of a recording.
    private var firstNumber = 0
    /// What a number in JSON is replaced by, plus the number of the secret. It fits 32 bits.
    private static let firstOfJSON = 2_000_000_000

    package mutating func text(for secret: String) -> String {
        // A stand-in that a replay has given to the program stays itself.
        if Self.pieces(of: secret).count == 1, Self.pieces(of: secret)[0].isStandIn { return secret }
        if let number = numbers[secret] { return "\(Secrets.placeholder)\(number)" }
        secrets.append(secret)
        numbers[secret] = firstNumber + secrets.count
        return "\(Secrets.placeholder)\(firstNumber + secrets.count)"
    }

    /// Keeps the numbers of a recording free, whose stand-ins a program may send again.
    mutating func begin(after number: Int) { firstNumber = number }

    /// The largest number of a stand-in in a text; 0 when it has none.
    package static func highest(in text: Data) -> Int {
        var (highest, rest) = (0, text[...])
        while let stars = rest.firstRange(of: Data(Secrets.placeholder.utf8)) {
            let digits = rest[stars.upperBound...].drop { $0 == UInt8(ascii: "*") }.prefix {
                (0x30...0x39).contains($0)
            }
            // A longer number is not one of a recording.
            if digits.count <= 7 { highest = max(highest, Int(String(decoding: digits, as: UTF8.self)) ?? 0) }
            rest = rest[digits.endIndex...]
        }
        return highest
    }

    /// The stand-in of the same secret as it is.
    package static func base(of standIn: String) -> String { Secrets.placeholder + standIn.drop { $0 == "*" } }

    /// The secret of a stand-in, as it is.
    package func secret(of standIn: String) -> String? {
        guard let number = Int(standIn.drop { $0 == "*" }), secrets.indices.contains(number - firstNumber - 1)
        else { return nil }
        return secrets[number - firstNumber - 1]
    }

    /// A number in place of a secret one, from the stand-in of its text.
    package static func number(_ standIn: String) -> String {
        "\(firstOfJSON + (Int(standIn.drop { $0 == "*" }) ?? 0))"
    }

    /// The stand-in of a number in place of a secret one; `nil` for other numbers.
    package static func standIn(ofNumber number: String) -> String? {
        Int(number).flatMap { $0 > firstOfJSON ? "\(Secrets.placeholder)\($0 - firstOfJSON)" : nil }
    }

    /// A text in pieces: stand-ins, and what is between them.
    package static func pieces(of text: String) -> [(text: String, isStandIn: Bool)] {
        var pieces: [(text: String, isStandIn: Bool)] = []
        var rest = text.replacing("%2A%2A%2A", with: Secrets.placeholder)[...]
        while let first = rest.firstRange(of: Secrets.placeholder) {
            let stars = rest[first.lowerBound...].prefix { $0 == "*" }
            if stars.startIndex > rest.startIndex { pieces.append((String(rest[..<stars.startIndex]), false)) }
            let digits = rest[stars.endIndex...].prefix { $0.isASCII && $0.isNumber }
            pieces.append((String(stars + digits), true))
            rest = rest[digits.endIndex...]
        }
        if !rest.isEmpty { pieces.append((String(rest), false)) }
        return pieces
    }

    /// The text with the secrets that a closure has for stand-ins.
    package static func restored(_ text: String, by secret: (_ standIn: String) -> String?) -> String {
        pieces(of: text).map { piece in
            guard piece.isStandIn else { return piece.text }
            let number = piece.text.drop { $0 == "*" }
            let extra = piece.text.utf8.count - number.utf8.count - Secrets.placeholder.utf8.count
            guard let secret = secret(Secrets.placeholder + number) else { return piece.text }
            guard extra > 0, extra <= SecretNotation.allCases.count else { return secret }
            return SecretNotation.allCases[extra - 1].text(of: secret)
        }.joined()
    }
}

/// Other ways to write a secret, in which a server may repeat it. The stand-in of each has some stars more.
enum SecretNotation: Int, CaseIterable {
    case escaped = 1
    case json, form

    var stars: String { String(repeating: "*", count: rawValue) }

    func text(of plain: String) -> String {
        switch self {
        case .escaped: plain.percentEncodedComponent
        case .form: plain.percentEncodedComponent.replacing("%20", with: "+")
        case .json: String(JSONValue.string(plain).description.dropFirst().dropLast())
        }
    }
}
