import FoundationEssentials

@testable import LATRealtime

extension AutobahnCase {
    /// 6: texts that are UTF-8, and texts that are not.
    static let texts: [AutobahnCase] = fragmentedTexts + failFast + sequences

    private static func bytes(_ text: String) -> [UInt8] {
        let digits = Array(text.utf8)
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
        }
    }

    /// A message in frames of one byte.
    private static func split(_ payload: [UInt8]) -> [[UInt8]] {
        payload.enumerated().map { frame($0 == 0 ? 1 : 0, [$1], isFinal: $0 == payload.count - 1) }
    }

    private static let fragmentedTexts: [AutobahnCase] = {
        let long = "Hello-µ@ßöäüàá-UTF-8!!"
        let bad = bytes("cebae1bdb9cf83cebcceb5eda080656469746564")
        return [
            AutobahnCase("6.1.1", [text("")], [got("")]),
            AutobahnCase(
                "6.1.2", [text("", isFinal: false), more("", isFinal: false), more("", isFinal: true)], [got("")]),
            AutobahnCase(
                "6.1.3", [text("", isFinal: false), more("middle", isFinal: false), more("", isFinal: true)],
                [got("middle")]),
            AutobahnCase("6.2.1", [text(long)], [got(long)]),
            AutobahnCase(
                "6.2.2", [text("Hello-µ@ßöä", isFinal: false), more("üàá-UTF-8!!", isFinal: true)], [got(long)]),
            AutobahnCase("6.2.3", split(Array(long.utf8)), [got(long)]),
            AutobahnCase("6.2.4", split(Array(rare.utf8)), [got(rare)]),
            AutobahnCase("6.3.1", [frame(1, bad)], [], .fails(1007)),
            AutobahnCase("6.3.2", split(bad), [], .fails(1007)),
        ]
    }()

    /// The text is refused at its bad byte, before the frame or the message is whole.
    private static let failFast: [AutobahnCase] = {
        let start = bytes("cebae1bdb9cf83cebcceb5")
        let (high, late) = (bytes("f4908080"), bytes("f490"))
        let head = frame(1, start, isFinal: false)
        let whole: [UInt8] = [0x81, UInt8(start.count + 4 + 6)] + start
        return [
            AutobahnCase("6.4.1", [head, frame(0, high, isFinal: false)], [], .fails(1007)),
            AutobahnCase("6.4.2", [head, frame(0, late, isFinal: false)], [], .fails(1007)),
            AutobahnCase("6.4.3", [whole, high], [], .fails(1007)),
            AutobahnCase("6.4.4", [whole, late], [], .fails(1007)),
        ]
    }()

    private static let sequences: [AutobahnCase] = {
        let valid: [(Int, [String])] = [
            (5, ["cebae1bdb9cf83cebcceb5", "c3b1", "e282a1", "f0908cbc", "24"]),
            (7, ["00", "c280", "e0a080", "f0908080"]),
            (9, ["7f", "dfbf", "efbfbf", "f48fbfbf"]),
            (11, ["ed9fbf", "ee8080", "efbfbd", "f48fbfbf", "f0bfbfbf"]),
            (22, nonCharacters),
            (23, ["efbfb9", "efbfba", "efbfbb", "efbfbc", "efbfbd", "efbfbe", "efbfbf"]),
        ]
        let invalid: [(Int, [String])] = [
            (8, ["f888808080", "fc8480808080"]),
            (10, ["f7bfbfbf", "fbbfbfbfbf", "fdbfbfbfbfbf"]),
            (
                12,
                [
                    "80", "bf", "80bf", "80bf80", "80bf80bf", "80bf80bf80", "80bf80bf80bf",
                    "808182838485868788898a8b8c8d8e8f",
                ]
            ),
            (13, ["c020c120c220c320", "e020e120e220", "f020f120f220", "f820f920fa20", "fc20fd20"]),
            (14, ["c0", "e080", "f08080", "f8808080", "fc80808080", "df", "efbf", "f7bfbf", "fbbfbfbf", "fdbfbfbfbf"]),
            (15, ["c0e080f08080f8808080fc80808080dfefbff7bfbffbbfbfbffdbfbfbfbf"]),
            (16, ["fe", "ff", "fefeffff"]),
            (17, ["c0af", "e080af", "f08080af", "f8808080af", "fc80808080af"]),
            (18, ["c1bf", "e09fbf", "f08fbfbf", "f887bfbfbf", "fc83bfbfbfbf"]),
            (19, ["c080", "e08080", "f0808080", "f880808080", "fc8080808080"]),
            (20, ["eda080", "edadbf", "edae80", "edafbf", "edb080", "edbe80", "edbfbf"]),
            (
                21,
                [
                    "eda080edb080", "eda080edbfbf", "edadbfedb080", "edadbfedbfbf", "edae80edb080", "edae80edbfbf",
                    "edafbfedb080", "edafbfedbfbf",
                ]
            ),
        ]
        var cases: [AutobahnCase] = []
        for (section, texts) in valid {
            for (index, text) in texts.enumerated() {
                let payload = bytes(text)
                cases.append(
                    AutobahnCase(
                        "6.\(section).\(index + 1)", [frame(1, payload)],
                        [got(String(decoding: payload, as: UTF8.self))]))
            }
        }
        for (section, texts) in invalid {
            for (index, text) in texts.enumerated() {
                cases.append(AutobahnCase("6.\(section).\(index + 1)", [frame(1, bytes(text))], [], .fails(1007)))
            }
        }
        return cases + prefixes
    }()

    /// 6.6: a text of five characters, cut at each of its bytes.
    private static let prefixes: [AutobahnCase] = {
        let whole = bytes("cebae1bdb9cf83cebcceb5")
        return (1...whole.count).map { count in
            let payload = Array(whole[..<count])
            let text = String(validating: payload, as: UTF8.self)
            return AutobahnCase(
                "6.6.\(count)", [frame(1, payload)], text.map { [got($0)] } ?? [], text == nil ? .fails(1007) : .open)
        }
    }()

    /// The last two code points of each plane, which are no characters, but valid.
    private static let nonCharacters: [String] = (0...16).flatMap { plane in
        [0xFFFE, 0xFFFF].compactMap { low in
            Unicode.Scalar(UInt32(plane << 16 | low)).map { scalar in
                String(scalar).utf8.map { String($0, radix: 16) }.joined()
            }
        }
    }
}
